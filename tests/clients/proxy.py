"""A TCP relay between a client and the server that can break the connection.

It knows only bytes, so each client's TLS passes through it untouched.
"""

import asyncio
import socket
import struct


class Proxy:
    """Relays each connection to `target` until told to break it."""

    def __init__(self, target):
        self.target = target
        self.port = None
        self._pairs = []
        self._server = None

    async def start(self):
        """Listen on a free loopback port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def _accept(self, reader, writer):
        try:
            upstream = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        pair = {"client": writer, "server": upstream[1], "tasks": []}
        pair["tasks"] = [
            asyncio.ensure_future(self._relay(reader, upstream[1])),
            asyncio.ensure_future(self._relay(upstream[0], writer)),
        ]
        self._pairs.append(pair)

    async def _relay(self, reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
            writer.write_eof()
        except (OSError, NotImplementedError):
            writer.transport.abort()

    def cut(self):
        """Reset every connection on both sides."""
        for pair in self._pairs:
            for task in pair["tasks"]:
                task.cancel()
            _reset(pair["client"])
            _reset(pair["server"])
        self._pairs.clear()

    def strand(self):
        """Reset the client's side and keep the server's side open and mute:
        the server cannot know yet that its client is gone. What the server
        sends is lost."""
        for pair in self._pairs:
            for task in pair["tasks"]:
                task.cancel()
            _reset(pair["client"])
            pair["client"] = None

    def mute(self):
        """Stop relaying in both directions with both sides open: what either
        sends from now on is lost."""
        for pair in self._pairs:
            for task in pair["tasks"]:
                task.cancel()

    async def close(self):
        """Stop listening and break what is left."""
        self._server.close()
        for pair in self._pairs:
            for task in pair["tasks"]:
                task.cancel()
            for side in ("client", "server"):
                if pair[side] is not None:
                    pair[side].transport.abort()
        self._pairs.clear()


def _reset(writer):
    """Close with RST instead of FIN."""
    if writer is None:
        return
    sock = writer.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
