"""``--pcap FILE``: the packets of the first phones, as the outer link carries them, and their ESP keys.

Each worker writes its own file, as packets of different links have no common order: FILE where there
is one worker, else FILE-worker-k. Beside each stands .esp_sa, the keys in Wireshark's form; with IPsec
off there are none.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import imsbench
from imsbench.host.backend import AddReader, SaBackend
from imsbench.host.capture import Capture
from imsbench.host.espsa import KeyWritingBackend
from imsbench.profile import Profile
from imsbench.run.exits import HOST_LACKS, RunRefused

DEFAULT_PHONES = 3
"""Phones whose packets are captured unless told otherwise."""


@dataclass(frozen=True, slots=True)
class CaptureOrder:
    """What the user wants to have captured."""

    file: Path
    """The pcapng file."""
    phones: int = DEFAULT_PHONES
    """How many phones, the first ones of the population."""

    def check(self, profile: Profile) -> None:
        """RunRefused if a file cannot be written; old ones are emptied."""
        for worker in range(profile.generator.workers):
            config = self.config(profile, worker)
            if config is not None:
                _empty(Path(config["file"]))

    def config(self, profile: Profile, worker: int) -> dict[str, Any] | None:
        """What a worker is told; None: none of these phones is its own."""
        workers = profile.generator.workers
        phones = len(range(worker, min(self.phones, profile.subscribers.count), workers))
        if not phones:
            return None
        file = self.file.absolute()
        if workers > 1:
            file = file.with_name(f"{file.stem}-worker-{worker}{file.suffix}")
        return {"file": str(file), "phones": phones}


class Tap:
    """What a worker writes down of its first phones."""

    def __init__(self, config: dict[str, Any], addresses: Sequence[str], device: str) -> None:
        """config: of ``CaptureOrder``; addresses: of all phones of the worker, in order.

        RunRefused if the host does not let it capture, or write.
        """
        self._file = Path(config["file"])
        self._phones = list(addresses[: config["phones"]])
        self._keys: Path | None = None
        try:
            self._capture = Capture(
                device,
                self._phones[0],
                self._phones[-1],
                self._file,
                application=f"imsbench {imsbench.__version__}",
            )
        except OSError as error:
            text = f"{self._file}: no capture on {device}: {error.strerror or error}"
            raise RunRefused(text, HOST_LACKS) from error

    def wrap(self, backend: SaBackend) -> SaBackend:
        """The backend, with the keys of the captured phones written down."""
        self._keys = keys_of(self._file)
        return KeyWritingBackend(backend, self._keys, self._phones)

    def attach(self, add_reader: AddReader) -> None:
        """Let a loop read the packets."""
        self._capture.attach(add_reader)

    def counters(self) -> dict[str, int]:
        """As the capture's."""
        return self._capture.counters()

    def close(self) -> dict[str, Any]:
        """End the file; what there is to tell of it."""
        self._capture.close()
        return {
            "file": str(self._file),
            "keys": str(self._keys) if self._keys is not None else "",
            "phones": len(self._phones),
            "problem": self._capture.problem,
        } | self._capture.counters()


def keys_of(file: Path) -> Path:
    """Where the keys of a capture are."""
    return file.with_name(file.name + ".esp_sa")


def describe(told: dict[str, Any]) -> list[str]:
    """A capture in words, and how to open it."""
    missing = told["kernel_dropped"] + told["not_written"]
    phones = f"{told['phones']} phone" + ("s" if told["phones"] != 1 else "")
    lines = [
        f"Capture: {told['file']}, {told['packets']:,} packets of {phones}"
        + (f"; {missing:,} more are missing" if missing else "; none is missing")
        + (f" ({told['problem']})" if told["problem"] else "")
    ]
    if told["keys"]:
        keys, folder = shlex.quote(told["keys"]), shlex.quote(told["file"] + ".wireshark")
        lines += [
            f"Its ESP keys: {told['keys']}; to read it decrypted:",
            f"    mkdir -p {folder} && cp {keys} {folder}/esp_sa && WIRESHARK_CONFIG_DIR={folder} "
            f"tshark -r {shlex.quote(told['file'])} -o esp.enable_encryption_decode:TRUE "
            "-o esp.enable_authentication_check:TRUE",
        ]
    return lines


def _empty(file: Path) -> None:
    try:
        file.write_bytes(b"")
        keys_of(file).unlink(missing_ok=True)
    except OSError as error:
        text = f"{file}: the capture cannot be written there: {error.strerror or error}"
        raise RunRefused(text, HOST_LACKS) from error
