"""What tshark, an independent reader, makes of Diameter messages that passed the loopback."""

from __future__ import annotations

import asyncio
import struct
import subprocess
from pathlib import Path


def dissect(capture: Path, *fields: str) -> list[list[str]]:
    """Fields of every Diameter message, as tshark reads them."""
    command = ["tshark", "-r", str(capture), "-Y", "diameter", "-T", "fields"]
    command += ["-E", "occurrence=a"]
    for field in fields:
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return [line.split("\t") for line in done.stdout.splitlines()]


class Tap:
    """A relay on the loopback that keeps what passes, to be read as a capture.

    A capture of the interface would need root, and on a busy machine it has retransmissions and gaps.
    """

    PORT = 3868

    def __init__(self) -> None:
        self.segments: list[tuple[bool, bytes]] = []
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def relay(self, target: tuple[str, int]) -> tuple[str, int]:
        """Listen before a server; the address to connect to instead."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there_reader, there_writer = await asyncio.open_connection(*target)
            self._tasks += [
                asyncio.create_task(self._copy(reader, there_writer, True)),
                asyncio.create_task(self._copy(there_reader, writer, False)),
            ]

        self._server = await asyncio.start_server(serve, "127.0.0.1", 0)
        address = self._server.sockets[0].getsockname()
        return str(address[0]), int(address[1])

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, to_server: bool
    ) -> None:
        while data := await reader.read(65536):
            self.segments.append((to_server, data))
            writer.write(data)
        writer.close()

    async def finished(self) -> None:
        """Wait until both sides have closed."""
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*self._tasks)

    def write(self, path: Path) -> None:
        """What passed, as a pcap of raw IP: one TCP segment for each write."""
        sent = {True: 1, False: 1}
        host = bytes((127, 0, 0, 1))
        with path.open("wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
            for number, (to_server, data) in enumerate(self.segments):
                ports = (5000, self.PORT) if to_server else (self.PORT, 5000)
                numbers = sent[to_server], sent[not to_server]
                sent[to_server] += len(data)
                tcp = struct.pack(">HHIIBBHHH", *ports, *numbers, 0x50, 0x18, 65535, 0, 0) + data
                head = (0x45, 0, 20 + len(tcp), number, 0, 64, 6, 0, host, host)
                packet = struct.pack(">BBHHHBBH4s4s", *head) + tcp
                file.write(struct.pack("<IIII", number, 0, len(packet), len(packet)) + packet)
