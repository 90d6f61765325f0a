"""ESP packets: forged ones, and hostile ones under the right integrity check."""

from __future__ import annotations

from collections.abc import Hashable

from imsbench.protocol.esp import HEADER_SIZE, EspError, EspIn, EspKeys, EspOut
from imsbench.protocol.secagree import MECHANISMS, esp_keys
from tests.fuzz.harness import Run, Target

_END = b"\xfe\xed\xfa\xce"
"""Between the packets of one input."""
_SPI = 0x1001
_SEALED = 0x80
"""Bit of an input's first octet: each packet gets the integrity check value that fits it."""
_KEYS = [
    EspKeys(alg, ealg, *esp_keys(alg, ealg, bytes(range(16)), bytes(range(16, 32))))
    for alg, ealg in MECHANISMS
]


def _esp() -> Run:
    def run(data: bytes) -> Hashable:
        """First octet: which algorithms, and whether the integrity check is made right."""
        choice = data[0] if data else 0
        number = (choice & ~_SEALED) % len(_KEYS)
        keys = _KEYS[number]
        receiver = EspIn(_SPI, keys)
        results = []
        for piece in data[1:].split(_END)[:20]:
            packet = _sealed(keys, piece) if choice & _SEALED else piece
            highest = receiver.highest
            result, payload = _opened(receiver, packet)
            results.append(result)
            if result == "accepted":
                assert len(payload) < len(packet)
                assert _opened(receiver, packet)[0] == "replayed"
            elif result != "bad_padding":
                assert receiver.highest == highest, "a packet that is refused moved the window"
        return number, choice & _SEALED, tuple(results[:3])

    return run


def _sealed(keys: EspKeys, piece: bytes) -> bytes:
    """What an attacker who had the keys would send: the right check over any bytes."""
    if keys.combined is not None:
        return keys.combined.seal(piece[:HEADER_SIZE].ljust(HEADER_SIZE), piece[HEADER_SIZE:])
    return piece + keys.icv(piece)


def _opened(receiver: EspIn, packet: bytes) -> tuple[str, bytes]:
    """What becomes of a packet, in the word of its counter."""
    try:
        next_header, payload = receiver.open(packet)
    except EspError as error:
        return error.counter, b""
    assert 0 <= next_header <= 255
    return "accepted", payload


def _seeds() -> list[bytes]:
    made = []
    for choice, keys in enumerate(_KEYS):
        sender = EspOut(_SPI, keys)
        iv = bytes(keys.iv_size)
        packets = [sender.seal(6, bytes(range(size)), iv) for size in (20, 33, 64)]
        made.append(bytes([choice]) + _END.join(packets))
        if keys.combined is None:
            bodies = [packet[:-12] for packet in packets]
        else:
            header = b"\0\0\x10\x01\0\0\0"
            bodies = [header + bytes([i]) + bytes(range(20)) + b"\1\2\2\6" for i in (1, 2, 70)]
        made.append(bytes([choice | _SEALED]) + _END.join(bodies))
    return made


TARGETS = [
    Target("esp", "EspIn.open, windows included", _esp, _seeds, (_END, b"\0\0\x10\x01\0\0\0\x01")),
]
