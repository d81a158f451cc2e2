"""Files from one client to another through the proxy (XEP-0065): slixmpp's own SOCKS5, with receivers
that are slow or go away, and what one who is neither can do."""

import asyncio
import hashlib
import os
import socket
import struct

import pytest
from slixmpp.exceptions import IqError

from events import WAIT
from servers import DOMAIN
from test_metrics import values

pytestmark = [pytest.mark.needs("bytestreams"), pytest.mark.secure]

PROXY = f"proxy.{DOMAIN}"
FILE = 50_000_000


class Receiver:
    """A client that takes streams, and hashes what comes."""

    def __init__(self, actor):
        self.client = actor.client
        self.socks = self.client.plugin["xep_0065"]
        self.socks.auto_accept = True
        self.count, self.digest = 0, hashlib.sha256()
        self.came, self.closed = asyncio.get_event_loop().create_future(), asyncio.Event()
        for name, handler in (("socks5_data", self._data), ("socks5_stream", self._stream),
                              ("socks5_closed", lambda error: self.closed.set())):
            self.client.add_event_handler(name, handler)

    def _data(self, data):
        self.count += len(data)
        self.digest.update(data)

    def _stream(self, stream):
        self.came.set_result(stream)

    async def stream(self):
        """The stream that somebody has opened."""
        return await asyncio.wait_for(asyncio.shield(self.came), WAIT)

    async def has(self, count, within=40):
        """Wait until so many bytes have come."""
        async with asyncio.timeout(within):
            while self.count < count:
                await asyncio.sleep(0.02)
        assert self.count == count


async def pair(world, kind):
    """Two clients with a stream between them: the requester's end, and the receiver."""
    romeo, juliet = await world.online(kind), await world.online(kind)
    receiver = Receiver(juliet)
    stream = await romeo.client.plugin["xep_0065"].handshake(juliet.jid, timeout=WAIT)
    await receiver.stream()
    return romeo, juliet, stream, receiver


async def send(stream, data, piece=1 << 20):
    """Send, as fast as the other end takes it."""
    for at in range(0, len(data), piece):
        while stream.transport.get_write_buffer_size() > piece:
            await asyncio.sleep(0.005)
        stream.transport.write(data[at:at + piece])


def memory(server):
    """Bytes of the server that are resident."""
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS"))


async def test_the_proxy_is_found(server, world, kind):
    """XEP-0065 4: by service discovery, and then by its address."""
    actor = await world.bound(kind)
    found = await actor.client.plugin["xep_0065"].discover_proxies(timeout=WAIT)
    assert {str(jid): (host, int(port)) for jid, (host, port) in found.items()} == {
        PROXY: ("127.0.0.1", server.bytestreams)}


async def test_a_file_comes_whole(server, world, kind):
    """XEP-0065 6: 50 MB from one user to another, with a checksum, and a word back."""
    world.departs("relays no file of this size to its end here")
    before = values(server)
    romeo, _, stream, receiver = await pair(world, kind)
    data = os.urandom(FILE)
    await asyncio.gather(send(stream, data), receiver.has(FILE))
    assert receiver.digest.hexdigest() == hashlib.sha256(data).hexdigest()
    back = asyncio.Event()
    romeo.client.add_event_handler("socks5_data", lambda data: back.set())
    (await receiver.stream()).transport.write(b"thank you")
    await asyncio.wait_for(back.wait(), WAIT)
    stream.transport.close()
    await asyncio.wait_for(receiver.closed.wait(), WAIT)
    for _ in range(100):
        after = values(server)
        if after["throng_bytestreams_relayed"] == 0:
            break
        await asyncio.sleep(0.05)
    assert after["throng_bytestreams_stream_bytes_total"] - before["throng_bytestreams_stream_bytes_total"] == FILE + 9
    assert after["throng_bytestreams_streams_total"] - before["throng_bytestreams_streams_total"] == 1
    assert after["throng_bytestreams_relayed"] == 0


async def test_a_slow_receiver_holds_the_sender_and_no_memory(server, world, kind):
    """XEP-0065 6: what the receiver does not read stays with the sender; messages go on meanwhile."""
    world.departs("relays no file of this size to its end here")
    romeo, juliet, stream, receiver = await pair(world, kind)
    (await receiver.stream()).transport.pause_reading()
    before, data = memory(server), os.urandom(FILE)
    sending = asyncio.ensure_future(send(stream, data))
    await asyncio.sleep(2)
    assert not sending.done(), "nobody has taken it"
    marker = await romeo.settle(juliet)
    assert marker in romeo.bodies()
    grown = memory(server) - before
    assert grown < 8 << 20, f"{grown} bytes more"
    (await receiver.stream()).transport.resume_reading()
    await asyncio.gather(sending, receiver.has(FILE))
    assert receiver.digest.hexdigest() == hashlib.sha256(data).hexdigest()
    stream.transport.close()


async def test_a_receiver_that_goes_away_ends_the_stream(server, world, kind):
    """XEP-0065 6: the sender hears of it."""
    romeo, _, stream, receiver = await pair(world, kind)
    closed = asyncio.Event()
    romeo.client.add_event_handler("socks5_closed", lambda error: closed.set())
    transport = (await receiver.stream()).transport
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
    for _ in range(100):
        if closed.is_set():
            break
        stream.transport.write(b"x" * 1_000)
        await asyncio.sleep(0.05)
    assert closed.is_set()


async def test_nobody_begins_the_stream_of_others(server, world, kind):
    """XEP-0065 6.3.5: neither one that is not there, nor with one party, nor somebody else's."""
    romeo, juliet, mallory = [await world.online(kind) for _ in range(3)]
    socks = romeo.client.plugin["xep_0065"]

    async def refused(client, sid, target):
        with pytest.raises(IqError) as error:
            await client.plugin["xep_0065"].activate(PROXY, sid, target, timeout=WAIT)
        return error.value.condition

    async def party(sid):
        _, protocol = await socks._connect_proxy(
            socks._get_dest_sha1(sid, romeo.client.boundjid, juliet.jid), "127.0.0.1", server.bytestreams)
        await asyncio.wait_for(asyncio.shield(protocol.connected), WAIT)
        return protocol.transport

    assert await refused(romeo.client, "s", juliet.jid) == "item-not-found"
    one = await party("s")
    assert await refused(romeo.client, "s", juliet.jid) == "not-allowed"
    other = await party("s")
    assert await refused(mallory.client, "s", juliet.jid) == "item-not-found"
    assert await refused(juliet.client, "s", romeo.jid) == "item-not-found"
    await socks.activate(PROXY, "s", juliet.jid, timeout=WAIT)
    one.close(), other.close()


async def test_several_at_once(server, world, kind):
    """Streams of three pairs of users go beside each other."""
    world.departs("relays no file of this size to its end here")
    pairs = [await pair(world, kind) for _ in range(3)]
    bodies = [os.urandom(5_000_000 + n) for n in range(3)]
    await asyncio.gather(*(send(stream, body) for (_, _, stream, _), body in zip(pairs, bodies)),
                         *(receiver.has(len(body)) for (_, _, _, receiver), body in zip(pairs, bodies)))
    for (_, _, stream, receiver), body in zip(pairs, bodies):
        assert receiver.digest.hexdigest() == hashlib.sha256(body).hexdigest()
        stream.transport.close()
