"""BOSH (XEP-0124, XEP-0206) over real sockets: Strophe.js as a page has it, and requests by hand."""

import asyncio
import itertools
import json
import os
import random
import re
import ssl
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from conftest import new_world
from events import WAIT
from raw import BIND, plain
from servers import DOMAIN

HERE = Path(__file__).parent
HTTPBIND = "http://jabber.org/protocol/httpbind"
CLIENT_BIND = BIND.replace("<iq ", "<iq xmlns='jabber:client' ")
PRESENCE = "<presence xmlns='jabber:client'/>"
PING = "<iq xmlns='jabber:client' type='get' id='{}'><ping xmlns='urn:xmpp:ping'/></iq>"


@pytest.fixture(params=["ws", "wss"])
def web(request, server, loop):
    """A world whose clients use HTTP, in the clear and by TLS."""
    if server.driver == "prosody":
        pytest.skip("Throng's listeners")
    if request.config.getoption("--tls") not in (None, request.param):
        pytest.skip("the other mode")
    yield from new_world(server, request.param, loop, request)


def url(web):
    """Where BOSH is."""
    return f"{'https' if web.tls == 'wss' else 'http'}://{DOMAIN}:{web.port}/http-bind"


class Connection:
    """A connection with one request at a time."""

    #: More header fields.
    fields = ""

    def __init__(self, web, port=None):
        self.web, self.port = web, port or web.port
        self.reader = self.writer = None

    async def ask(self, body):
        """The answer to a request: its status and its body."""
        if self.writer is None:
            secure = {}
            if self.web.tls == "wss":
                trust = ssl.create_default_context(cafile=str(self.web.server.cafile))
                secure = {"ssl": trust, "server_hostname": DOMAIN}
            reach = getattr(self.web, "reach", {})
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, **secure, **reach)
        data = body.encode()
        head = f"POST /http-bind HTTP/1.1\r\nHost: {DOMAIN}\r\nContent-Type: text/xml; charset=utf-8\r\n{self.fields}"
        self.writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        answer = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        length = int(re.search(r"(?i)content-length: (\d+)", answer).group(1))
        return int(answer.split()[1]), (await self.reader.readexactly(length)).decode()

    def close(self, hard=False):
        """Close it, or reset it."""
        if self.writer:
            if hard:
                self.writer.transport.abort()
            self.writer.close()
        self.reader = self.writer = None


class Session:
    """A client with two connections. Requests that get no answer are sent again."""

    def __init__(self, web, port=None, **wants):
        self.web, self.port = web, port
        self.rid = random.randrange(1 << 40)
        self.wants = {"ver": "1.6", "wait": "20", "hold": "1", **wants}
        self.idle = [Connection(web, port), Connection(web, port)]
        self.sid = self.ended = None
        self.inbox = ""
        self.open = []
        self.answers = {}
        self.first = self.rid + 1
        #: How long an answer may take, and for how long those requests had waited that broke, seconds.
        self.patience, self.broken = WAIT, []

    def body(self, content="", **attributes):
        """The next request."""
        self.rid += 1
        own = {"rid": str(self.rid), **({"sid": self.sid} if self.sid else {}), **attributes}
        text = " ".join(f"{name.replace('_', ':')}='{value}'" for name, value in own.items())
        return self.rid, f"<body xmlns='{HTTPBIND}' xmlns:xmpp='urn:xmpp:xbosh' {text}>{content}</body>"

    async def once(self, rid, body):
        """One request until it is answered, on whatever connection."""
        for _ in range(8):
            connection = self.idle.pop() if self.idle else Connection(self.web, self.port)
            began = time.monotonic()
            try:
                status, text = await asyncio.wait_for(connection.ask(body), self.patience)
            except (OSError, asyncio.IncompleteReadError):
                # It broke, or the server has ended it because nobody used it.
                self.broken.append(time.monotonic() - began)
                connection.close()
                await asyncio.sleep(0.2)
                continue
            self.idle.append(connection)
            root = ET.fromstring(text)
            assert status == 200 and root.tag == f"{{{HTTPBIND}}}body", text
            if root.get("type") == "error":
                continue
            self.answers[rid] = text
            while self.first in self.answers:
                text = self.answers.pop(self.first)
                self.first += 1
                self.inbox += text
                root = ET.fromstring(text)
                if root.get("type") == "terminate":
                    self.ended = root.get("condition", "")
            return text
        raise AssertionError("no answer")

    async def ask(self, content="", sign=None, **attributes):
        """Sends this, and asks on until `sign` has come."""
        seen = len(self.inbox)
        await self.once(*self.body(content, **attributes))
        while sign and not re.search(sign, self.inbox[seen:]) and self.ended is None:
            await self.once(*self.body())
        assert not sign or re.search(sign, self.inbox[seen:]), (sign, self.inbox[seen:], self.ended)
        return self.inbox[seen:]

    async def create(self):
        """A session without a user."""
        created = await self.ask(to=DOMAIN, xml_lang="en", xmpp_version="1.0", **self.wants)
        self.sid = ET.fromstring(created).get("sid")
        return created

    async def log_in(self, account, presence=True):
        """Up to a resource: its full JID."""
        created = await self.create()
        assert "<mechanism>SCRAM-SHA-256</mechanism>" in created and "starttls" not in created
        await self.ask(plain(account).replace("<auth ", "<auth "), "<success ")
        await self.ask(sign="urn:ietf:params:xml:ns:xmpp-bind", to=DOMAIN, xmpp_restart="true")
        jid = re.search("<jid>(.*?)</jid>", await self.ask(CLIENT_BIND, "<jid>")).group(1)
        if presence:
            await self.ask(PRESENCE, "<presence ")
        return jid

    def close(self):
        """Close its connections."""
        for connection in self.idle:
            connection.close()


async def test_strophe_logs_in_and_talks(web):
    """Strophe.js over BOSH: SCRAM, a chat, a ping, and an end (XEP-0124 13)."""
    account = web.server.fresh()
    peer = await web.online("xmppjs")
    env = {**os.environ, "NODE_EXTRA_CA_CERTS": str(web.server.cafile)}
    process = await asyncio.create_subprocess_exec(
        "node", str(HERE / "strophe.mjs"), url(web).replace("http://localhost", "http://127.0.0.1"), account.jid,
        account.password, cwd=HERE, env=env, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)

    async def until(wanted):
        while True:
            line = await asyncio.wait_for(process.stdout.readline(), WAIT)
            assert line, "it has ended"
            report = json.loads(line)
            if wanted(report):
                return report

    def say(line):
        process.stdin.write(json.dumps(line).encode() + b"\n")

    try:
        connected = await until(lambda report: report.get("status") in ("connected", "authfail", "connfail"))
        assert connected["status"] == "connected" and connected["mechanism"].startswith("SCRAM-SHA-"), connected
        for n in range(10):
            say({"to": peer.jid, "body": f"hello {n} from a page"})
        await peer.wait_message("hello 9 from a page", sender=connected["jid"])
        assert peer.bodies() == [f"hello {n} from a page" for n in range(10)]
        for n in range(10):
            peer.send_message(connected["jid"], f"and back {n}")
        for n in range(10):
            assert (await until(lambda report: "body" in report))["body"] == f"and back {n}"
        say({"ping": True})
        assert (await until(lambda report: "pong" in report))["pong"] is True
        process.stdin.close()
        await until(lambda report: report.get("status") == "disconnected")
        assert await asyncio.wait_for(process.wait(), WAIT) == 0
    finally:
        if process.returncode is None:
            process.kill()


async def test_a_page_and_a_phone_talk(web):
    """XEP-0124 8: what comes for a session is with its client at once, and the other way round."""
    phone = await web.online("slixmpp", tls="starttls")
    page = Session(web)
    jid = await page.log_in(web.server.fresh())
    waits = asyncio.ensure_future(page.once(*page.body()))
    await asyncio.sleep(0.3)
    assert not waits.done()
    phone.send_message(jid, "from the phone")
    assert "from the phone" in await asyncio.wait_for(waits, WAIT)
    await page.ask(f"<message xmlns='jabber:client' to='{phone.jid}' type='chat'><body>from the page</body></message>"
                   + PING.format("p"), "id='p'")
    await phone.wait_message("from the page", sender=jid)
    # XEP-0124 13.
    end = await page.ask(type="terminate")
    assert ET.fromstring(end).get("type") == "terminate"
    page.close()


async def test_connections_that_break_lose_nothing(web):
    """XEP-0124 14.3: a relay cuts connections again and again; each message comes once, in order."""
    phone = await web.online("slixmpp", tls="starttls")
    proxy = await web.proxy()
    page = Session(web, proxy.port)
    jid = await page.log_in(web.server.fresh())
    for n in range(40):
        phone.send_message(jid, f"number {n}.")
        if n % 8 == 3:
            proxy.cut()
        await page.ask(sign=rf"number {n}\.")
    numbers = [int(n) for n in re.findall(r"<body>number (\d+)\.", page.inbox)]
    assert numbers == list(range(40)) and page.ended is None
    page.close()


async def test_a_session_goes_to_tcp_and_back(web):
    """XEP-0198 5: begun by BOSH, resumed on a bare stream and by BOSH again."""
    from raw import HEADER
    account = web.server.fresh()
    page = Session(web)
    jid = await page.log_in(account)
    enabled = await page.ask("<enable xmlns='urn:xmpp:sm:3' resume='true'/>", "<enabled ")
    previd = re.search("<enabled [^>]*id='(.*?)'", enabled).group(1)
    resume = f"<resume xmlns='urn:xmpp:sm:3' h='0' previd='{previd}'/>"
    message = f"<message xmlns='jabber:client' to='{jid}' type='chat'><body>once</body></message>"
    await page.ask(message, "<body>once</body>")
    waits = asyncio.ensure_future(page.once(*page.body()))
    await asyncio.sleep(0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", web.server.c2s)
    if web.tls == "ws":
        for said, sign in ((HEADER, b"</stream:features>"), (plain(account), b"<success "),
                           (HEADER, b"</stream:features>"), (resume, b"<body>once</body>")):
            writer.write(said.encode())
            await asyncio.wait_for(reader.readuntil(sign), WAIT)
        # The page is told of it.
        told = await asyncio.wait_for(waits, WAIT)
        assert "remote-stream-error" in told and "<conflict " in told
    else:
        waits.cancel()
    page.close()
    again = Session(web)
    await again.create()
    await again.ask(plain(account), "<success ")
    await again.ask(sign="xmpp-bind", to=DOMAIN, xmpp_restart="true")
    await again.ask(resume, "<resumed ")
    writer.close()
    again.close()


async def test_many_sessions_over_all_shards(web):
    """Connections land on any shard: 20 sessions send in a ring, each with new connections for each request."""
    sessions = [Session(web) for _ in range(20)]
    jids = await asyncio.gather(*(session.log_in(web.server.fresh()) for session in sessions))
    rounds = 5
    for n in range(rounds):
        async def turn(session, to):
            for connection in session.idle:
                connection.close()
            message = f"<message xmlns='jabber:client' to='{to}' type='chat'><body>round {n}.</body></message>"
            await session.ask(message + PING.format(f"p{n}"), f"id='p{n}'")
        ring = itertools.islice(itertools.cycle(jids), 1, len(jids) + 1)
        await asyncio.gather(*(turn(session, to) for session, to in zip(sessions, ring)))
    for session in sessions:
        if f"round {rounds - 1}." not in session.inbox:
            await session.ask(sign=rf"round {rounds - 1}\.")
        assert re.findall(r"<body>round (\d)\.", session.inbox) == [str(n) for n in range(rounds)]
        session.close()


@pytest.mark.parametrize("attributes, condition", [
    ({"to": "elsewhere.example"}, "host-unknown"), ({}, "improper-addressing"),
    ({"to": DOMAIN, "sid": "0000" + "a" * 32}, "item-not-found"), ({"to": DOMAIN, "rid": "0"}, "bad-request"),
])
async def test_conditions(web, attributes, condition):
    """XEP-0124 17.3."""
    connection = Connection(web)
    own = {"rid": "77", "ver": "1.6", **attributes}
    text = " ".join(f"{name}='{value}'" for name, value in own.items())
    status, body = await connection.ask(f"<body xmlns='{HTTPBIND}' {text}/>")
    root = ET.fromstring(body)
    assert (status, root.get("type"), root.get("condition")) == (200, "terminate", condition)
    connection.close()


async def test_host_meta_tells_of_it(web):
    """XEP-0156 3: over https both ways are told."""
    if web.tls != "wss":
        pytest.skip("nothing is told in the clear")
    trust = ssl.create_default_context(cafile=str(web.server.cafile))
    reader, writer = await asyncio.open_connection("127.0.0.1", web.port, ssl=trust, server_hostname=DOMAIN)
    writer.write(f"GET /.well-known/host-meta.json HTTP/1.1\r\nHost: {DOMAIN}:{web.port}\r\nConnection: close\r\n\r\n".encode())
    said = (await asyncio.wait_for(reader.read(), WAIT)).decode()
    links = {link["rel"]: link["href"] for link in json.loads(said.split("\r\n\r\n", 1)[1])["links"]}
    assert links["urn:xmpp:alt-connections:xbosh"] == f"https://{DOMAIN}:{web.port}/http-bind"
    writer.close()
