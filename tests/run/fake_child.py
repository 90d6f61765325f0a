"""A child process for tests of the crew: does what the environment variable FAKE_CHILD says."""

from __future__ import annotations

import os
import select
import sys
import time

from imsbench.host.control import ControlChannel, child_channel, die_with_parent


def serve(channel: ControlChannel, *, ticking: bool) -> None:
    """Tick until told to stop or left alone."""
    channel.setblocking(False)
    poll = select.poll()
    poll.register(channel.fileno(), select.POLLIN)
    while not channel.closed:
        poll.poll(100)
        if ticking:
            channel.send("tick", counts={})
        if any(message["type"] == "stop" for message in channel.receive()):
            channel.send("result", counters={"stopped": 1})
            return


def main() -> None:
    """Play one child."""
    channel = child_channel()
    assert channel is not None
    die_with_parent()
    channel.send("namespace", pid=os.getpid(), own=os.environ.get("IMSBENCH_NAMESPACE", ""))
    config = channel.wait("config")
    behaviour = config["behaviour"]
    if behaviour == "crash":
        sys.stderr.write("the last words of a crash\n")
        raise SystemExit(7)
    if behaviour == "error":
        channel.send("error", text="there is no /dev/net/tun", exit=5)
        return
    if behaviour == "never ready":
        time.sleep(60)
    channel.send("ready")
    serve(channel, ticking=behaviour != "silent")


if __name__ == "__main__":
    main()
