"""Mutation by structure: JSON values and Diameter AVPs that stay well-formed around what is wrong."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

_ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 0.0, -0.0, 0.5, 1e-300, 1e300,
    float("inf"), float("nan"), "", " ", "\0", "x", "-1", "1s", "1/s", "0", "1e999", "nan", "\ud800",
    "a" * 5000, "\r\n", "|", "é", [], {}, [[]], [None], {"": None}, {"a": {"a": {"a": []}}}, "embedded",
    "external", "off", "6", "127.0.0.1:5060", "2001-01-01T00:00:00Z", 10**400,
)  # fmt: skip


_ODD_OCTETS = (
    b"", b"\0", b"\xff\xff\xff\xff", b"\xff" * 30, b"sip:", b"\0" * 32, b"x" * 70_000, b"\0\0\0\1",
    b"\xed\xa0\x80", b"sip:a@b:c;d",
)  # fmt: skip


def reshape_json(source: random.Random, data: bytes) -> bytes:
    """A value somewhere is replaced, dropped, doubled, moved or renamed."""
    try:
        tree = json.loads(data)
        for _ in range(1 + int(source.random() ** 3 * 5)):
            places: list[tuple[Any, Any]] = []
            _collect(tree, places)
            if not places:
                return data
            holder, key = source.choice(places)
            _change(source, holder, key, places)
        return json.dumps(tree).encode()
    except (ValueError, RecursionError):  # no JSON, or deeper than Python goes
        return data


def _collect(node: Any, places: list[tuple[Any, Any]]) -> None:
    if isinstance(node, dict):
        for key, value in node.items():
            places.append((node, key))
            _collect(value, places)
    elif isinstance(node, list):
        for index, value in enumerate(node):
            places.append((node, index))
            _collect(value, places)


def _change(source: random.Random, holder: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    what = int(source.random() * 8)
    if what == 0:
        del holder[key]
    elif what == 1:
        other, place = source.choice(places)
        holder[key] = json.loads(json.dumps(other[place])) if place in _keys(other) else None
    elif what == 2 and isinstance(holder, dict):
        holder[source.choice(("x", "", "name", "kind", f"{key} "))] = holder.pop(key)
    elif what == 2:
        holder.extend(holder[: 1 + int(source.random() * 3)])
    elif what == 3 and isinstance(holder[key], (int, float)) and abs(holder[key]) < 2**60:
        holder[key] = holder[key] * source.choice((-1, 0, 2, 1000, 1e6)) + source.choice(
            (0, 1, 0.5)
        )
    elif what == 4 and isinstance(holder[key], str):
        text = holder[key]
        at = int(source.random() * (len(text) + 1))
        odd = source.choice([value for value in _ODD if isinstance(value, str)])
        holder[key] = text[:at] + odd[:200] + text[at + int(source.random() * 3) :]
    elif what == 5:
        holder[key] = [holder[key]]
    else:
        holder[key] = source.choice(_ODD)


def _keys(holder: Any) -> Any:
    return range(len(holder)) if isinstance(holder, list) else holder


def reshape_diameter(source: random.Random, data: bytes) -> bytes:
    """The AVPs of one message of a stream are changed, and all lengths around them are right again."""
    messages = []
    position = 0
    while len(data) - position >= 20:
        length = int.from_bytes(data[position + 1 : position + 4], "big")
        if not 20 <= length <= len(data) - position:
            break
        messages.append(data[position : position + length])
        position += length
    if not messages:
        return data
    index = int(source.random() * len(messages))
    message = messages[index]
    body = _reshape_avps(source, message[20:], 0)
    messages[index] = message[:1] + (20 + len(body)).to_bytes(3, "big") + message[4:20] + body
    if source.random() < 0.1:
        messages.append(source.choice(messages))
    return b"".join(messages) + data[position:]


def reshape_behind_first(source: random.Random, data: bytes) -> bytes:
    """The same for an input whose first octet is a choice of its target."""
    return data[:1] + reshape_diameter(source, data[1:])


def _reshape_avps(source: random.Random, body: bytes, depth: int) -> bytes:
    avps = _split_avps(body)
    if not avps:
        return body
    index = int(source.random() * len(avps))
    code, flags, vendor, payload = avps[index]
    what = int(source.random() * 9)
    if what == 0:
        del avps[index]
    elif what == 1:
        avps.insert(int(source.random() * (len(avps) + 1)), avps[index])
    elif what == 2:
        source.shuffle(avps)
    elif what in (3, 4) and depth < 3 and len(_split_avps(payload)) > 0:
        avps[index] = (code, flags, vendor, _reshape_avps(source, payload, depth + 1))
    elif what == 5:
        avps[index] = (code, flags ^ 1 << int(source.random() * 8), vendor, payload)
    elif what == 6:
        avps[index] = (
            source.choice((code + 1, 263, 268, 279, 297, 601, 612, 0, 2**32 - 1)),
            flags,
            vendor,
            payload,
        )
    else:
        odd = source.choice((*_ODD_OCTETS, payload * 2, payload[:-1]))
        avps[index] = (code, flags, vendor, odd)
    return b"".join(_pack_avp(*avp) for avp in avps)


def _split_avps(body: bytes) -> list[tuple[int, int, bytes, bytes]]:
    """(code, flags, vendor octets, payload) of each, or none if it is not a row of AVPs."""
    avps = []
    position = 0
    while position < len(body):
        if len(body) - position < 8:
            return []
        code, word = struct.unpack_from(">II", body, position)
        flags, length = word >> 24, word & 0xFFFFFF
        start = position + (12 if flags & 0x80 else 8)
        stop = position + length
        if not start <= stop <= len(body):
            return []
        avps.append((code, flags, body[position + 8 : start], body[start:stop]))
        position = stop + (-stop & 3)
    return avps


def _pack_avp(code: int, flags: int, vendor: bytes, payload: bytes) -> bytes:
    vendor = vendor.rjust(4, b"\0") if flags & 0x80 else b""
    length = 8 + len(vendor) + len(payload)
    word = flags << 24 | length & 0xFFFFFF
    return struct.pack(">II", code & 0xFFFFFFFF, word) + vendor + payload + bytes(-length & 3)
