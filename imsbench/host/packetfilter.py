"""A classic BPF program (socket filter) that lets the IP packets of a range of addresses through.

It runs in the kernel before a packet is copied, so packets of other addresses cost next to nothing.
Offsets count from the IP header, as on a packet socket of type SOCK_DGRAM.
"""

from __future__ import annotations

import ctypes
import ipaddress
import socket
import struct

_SO_ATTACH_FILTER = 26  # asm-generic/socket.h
_LOAD_WORD, _EQUAL, _AT_LEAST, _ABOVE, _RETURN = 0x20, 0x15, 0x35, 0x25, 0x06  # linux/filter.h
_PROTOCOL = 0xFFFFF000  # SKF_AD_OFF + SKF_AD_PROTOCOL: the EtherType, whatever the link
_ETHERTYPES = {4: 0x0800, 6: 0x86DD}
_ADDRESSES_AT = {4: (12, 16), 6: (8, 24)}
_WHOLE = 0xFFFFFFFF

_INSTRUCTION = struct.Struct("=HBBI")
_PROGRAM = struct.Struct("@HP")


def address_filter(first: str, last: str) -> bytes:
    """Instructions that keep packets from or to any address from ``first`` to ``last``, text form.

    ValueError where the two differ in more than their last 32 bits.
    """
    low, high = ipaddress.ip_address(first), ipaddress.ip_address(last)
    words, last_words = _words(low.packed), _words(high.packed)
    if low.version != high.version or words[:-1] != last_words[:-1] or words > last_words:
        raise ValueError(f"no range: {first} to {last}")
    code = [_INSTRUCTION.pack(_LOAD_WORD, 0, 0, _PROTOCOL)]
    # one side: a load and a test for each word, one more test for the last, "keep"
    side = 2 * len(words) + 2
    code.append(_INSTRUCTION.pack(_EQUAL, 0, 2 * side, _ETHERTYPES[low.version]))
    for start in _ADDRESSES_AT[low.version]:
        code += _one_side(start, words, last_words[-1], side)
    code.append(_INSTRUCTION.pack(_RETURN, 0, 0, 0))
    return b"".join(code)


def _one_side(start: int, words: list[int], last: int, size: int) -> list[bytes]:
    """Keep the packet if the address at ``start`` is in the range, else go on behind these."""
    code: list[bytes] = []

    def load(offset: int) -> None:
        code.append(_INSTRUCTION.pack(_LOAD_WORD, 0, 0, offset))

    def leave_if(comparison: int, value: int, *, true: bool) -> None:
        behind = size - len(code) - 1
        code.append(_INSTRUCTION.pack(comparison, behind * true, behind * (not true), value))

    for index, word in enumerate(words[:-1]):
        load(start + 4 * index)
        leave_if(_EQUAL, word, true=False)
    load(start + 4 * (len(words) - 1))
    leave_if(_AT_LEAST, words[-1], true=False)
    leave_if(_ABOVE, last, true=True)
    code.append(_INSTRUCTION.pack(_RETURN, 0, 0, _WHOLE))
    return code


def attach_filter(sock: socket.socket, program: bytes) -> None:
    """Let only what the program keeps come to the socket from now on; OSError."""
    code = ctypes.create_string_buffer(program, len(program))
    count = len(program) // _INSTRUCTION.size
    fprog = _PROGRAM.pack(count, ctypes.addressof(code))
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, fprog)


def _words(packed: bytes) -> list[int]:
    return [word for (word,) in struct.iter_unpack("!I", packed)]
