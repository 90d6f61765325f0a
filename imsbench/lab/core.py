"""The child process of a run that is the core: a lab's servers in the place of the reference core.

``python -m imsbench.lab.core`` speaks the control channel as ``simulators.core`` does: namespace,
config, ready (with the process ids to measure), tick, stop, result. A server that ends is an error
message with exit code 4, the target died, in the words of its own log.
"""

from __future__ import annotations

import logging
import select
import signal
import sys
import time

from imsbench.host import links
from imsbench.host.child import enter_own_namespace, prepare_namespace
from imsbench.host.control import ControlChannel, child_channel, die_with_parent
from imsbench.host.namespace import HostError
from imsbench.lab.settings import LabError
from imsbench.lab.variant import VARIANTS, Core
from imsbench.run.exits import DEFECT, HOST_LACKS, TARGET_DIED

_TICK_S = 1.0
_LOOK_S = 0.2

_LOG = logging.getLogger("lab")


def main() -> int:
    """Serve one coordinator; the exit code is imsbench's."""
    channel = child_channel()
    if channel is None:
        sys.stderr.write("imsbench.lab.core is started by a run, not by hand\n")
        return 2
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the coordinator decides when a run ends
    try:
        return _run(channel)
    except LabError as error:
        return _failed(channel, str(error), TARGET_DIED)
    except (HostError, links.LinkError, OSError) as error:
        return _failed(channel, f"the lab: {error}", HOST_LACKS)
    except (ValueError, KeyError, TypeError) as error:
        return _failed(channel, f"the lab: {type(error).__name__}: {error}", DEFECT)
    except EOFError:
        return 0


def _run(channel: ControlChannel) -> int:
    enter_own_namespace(channel)
    config = channel.wait("config")
    prepare_namespace(config)
    core = VARIANTS[config["variant"]](config)
    try:
        channel.send("ready", pids=core.pids())
        return _watch(channel, core)
    finally:
        core.stop()


def _watch(channel: ControlChannel, core: Core) -> int:
    """Until told to stop, or a server ends."""
    channel.setblocking(False)
    tick_at = 0.0
    while True:
        select.select([channel], [], [], _LOOK_S)
        stopped = any(message["type"] == "stop" for message in channel.receive())
        if channel.closed:
            return 0
        if stopped:
            core.stop()
            channel.send("result")
            return 0
        if text := core.problem():
            _LOG.error("%s", core.log())
            return _failed(channel, text, TARGET_DIED)
        if time.monotonic() >= tick_at:
            tick_at = time.monotonic() + _TICK_S
            channel.send("tick", **core.tick())


def _failed(channel: ControlChannel, text: str, code: int) -> int:
    _LOG.error("%s", text)
    channel.send("error", text=text, exit=code)
    return code


if __name__ == "__main__":
    sys.exit(main())
