"""Login in one exchange: SASL 2 (XEP-0388), Bind 2 (XEP-0386), inline resumption
(XEP-0198 10) and tokens (XEP-0484). Of the libraries @xmpp/client has all of it
but tokens that are bound to the channel; those are shown by hand."""

import base64
import hashlib
import hmac
import re
import uuid

import pytest

from actor_slixmpp import tls_exporter
from events import LoginFailed
from raw import HEADER, Raw
from servers import Account

BIND = (
    "<bind xmlns='urn:xmpp:bind:0'><tag>Raw</tag><enable xmlns='urn:xmpp:sm:3' resume='true'/>"
    "</bind>"
)
NO_TOKEN = (
    "<failure xmlns='urn:xmpp:sasl:2'>"
    "<credentials-expired xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/></failure>"
)


@pytest.fixture(autouse=True)
def has_sasl2(world):
    """Debian's Prosody 0.12 has none of it."""
    world.departs("has no SASL 2")


def authenticate(mechanism, initial, agent, inside):
    """`<authenticate/>` (XEP-0388 2.4)."""
    initial = base64.b64encode(initial).decode()
    return (
        f"<authenticate xmlns='urn:xmpp:sasl:2' mechanism='{mechanism}'>"
        f"<initial-response>{initial}</initial-response><user-agent id='{agent}'/>{inside}"
        "</authenticate>"
    )


def by_password(account, agent, inside):
    """By PLAIN."""
    return authenticate("PLAIN", f"\0{account.name}\0{account.password}".encode(), agent, inside)


def by_token(account, token, agent, inside, mechanism="HT-SHA-256-NONE", binding=b""):
    """By a token (draft-schmaus-kitten-sasl-ht)."""
    proof = hmac.digest(token.encode(), b"Initiator" + binding, "sha256")
    inside = f"<fast xmlns='urn:xmpp:fast:0'/>{inside}"
    return authenticate(mechanism, account.name.encode() + b"\0" + proof, agent, inside)


def wants_token(mechanism="HT-SHA-256-NONE"):
    """`<request-token/>`."""
    return f"<request-token xmlns='urn:xmpp:fast:0' mechanism='{mechanism}'/>"


def attribute(text, element, name):
    """The value of an attribute."""
    return re.search(rf"<{element} [^>]*\b{name}='([^']*)'", text)[1]


async def answer(raw):
    """What comes up to the end of `<success/>` or `<failure/>`."""
    text = ""
    while "</success>" not in text and "</failure>" not in text:
        text += await raw.until(">")
    return text


@pytest.mark.needs("sasl2")
async def test_a_session_comes_with_the_login(world, kind):
    """XEP-0386 2.2: resource, stream management and success in one answer; somebody
    who has logged in the old way talks with it."""
    juliet = world.make(kind)
    await juliet.connect(sasl2=True)
    assert juliet.jid.startswith(f"{juliet.bare}/first/") and juliet.managed
    assert await juliet.shown() == "PLAIN"
    await juliet.online()
    romeo = await world.online("slixmpp")
    romeo.send_message(juliet.jid, "to the session")
    await juliet.wait_message("to the session")
    juliet.send_message(romeo.jid, "back")
    await romeo.wait_message("back", sender=juliet.jid)


@pytest.mark.needs("sasl2")
async def test_a_session_is_resumed_by_token(world, kind):
    """XEP-0484 3.4, XEP-0198 10.2: what was sent meanwhile comes once, and the password
    is not shown again."""
    romeo = await world.online("slixmpp")
    proxy = await world.proxy()
    juliet = world.make(kind, proxy=proxy)
    await juliet.connect(sasl2=True)
    await juliet.online()
    jid = juliet.jid
    romeo.send_message(jid, "before")
    await juliet.wait_message("before")
    for turn in range(3):
        juliet.hold()
        proxy.cut()
        for n in range(5):
            romeo.send_message(jid if n % 2 else juliet.bare, f"meanwhile {turn} {n}")
        await romeo.ping()
        assert await juliet.resume() is True
        assert await juliet.shown() == "HT-SHA-256-NONE" and juliet.jid == jid
    marker = await juliet.settle(romeo)
    meanwhile = [f"meanwhile {turn} {n}" for turn in range(3) for n in range(5)]
    assert juliet.bodies() == ["before", *meanwhile, marker]


@pytest.mark.needs("sasl2")
async def test_a_wrong_password_is_refused(world, kind):
    """XEP-0388 2.6.2."""
    actor = world.make(kind, Account(world.server.fresh().name, "not-the-password"))
    with pytest.raises(LoginFailed, match="not-authorized"):
        await actor.connect(sasl2=True)


@pytest.mark.needs("sasl2")
async def test_scram_in_the_second_form(world, kind):
    """XEP-0388 2.5, XEP-0474: challenge and response, and the server's proof in the success."""
    actor = world.make(kind)
    await actor.connect(mechanism="SCRAM-SHA-1", sasl2=True)
    await actor.ping()


@pytest.mark.secure
@pytest.mark.parametrize("mechanism", ["HT-SHA-256-EXPR", "HT-SHA-256-ENDP"])
async def test_a_token_is_bound_to_the_channel(world, mechanism):
    """XEP-0484 3.4, RFC 9266, RFC 5929 4: good for its mechanism only, and only on the
    channel that it is shown for."""
    account, agent = world.server.fresh(), uuid.uuid4()

    def binding(raw):
        channel = raw.writer.get_extra_info("ssl_object")
        if mechanism.endswith("EXPR"):
            return tls_exporter(channel)
        return hashlib.sha256(channel.getpeercert(binary_form=True)).digest()

    async def log_in(request):
        raw = await Raw(world).open()
        raw.send(request(binding(raw)))
        said = await answer(raw)
        raw.close()
        return said

    said = await log_in(lambda _: by_password(account, agent, wants_token(mechanism)))
    token = attribute(said, "token", "token")
    said = await log_in(lambda data: by_token(account, token, agent, BIND, mechanism, data))
    proof = base64.b64decode(re.search("<additional-data>([^<]*)<", said)[1])
    assert len(proof) == 32 and "<bound " in said
    said = await log_in(lambda data: by_token(account, token, agent, BIND, mechanism, b"x" + data[1:]))
    assert NO_TOKEN in said
    said = await log_in(lambda _: by_token(account, token, agent, BIND))
    assert NO_TOKEN in said


async def test_a_phone_returns_in_one_flight(world):
    """XEP-0388 1, XEP-0484 2: behind TLS the client writes once and is answered; nothing
    that it waits for needs another word of it."""
    if world.tls == "starttls":
        pytest.skip("its stream header comes twice")
    account, agent = world.server.fresh(), uuid.uuid4()
    raw = await Raw(world).open()
    raw.send(by_password(account, agent, BIND + wants_token()))
    said = await answer(raw)
    token, previd = attribute(said, "token", "token"), attribute(said, "enabled", "id")
    raw.close()
    resume = f"<resume xmlns='urn:xmpp:sm:3' h='0' previd='{previd}'/>"
    for turn in range(3):
        raw = Raw(world)
        await raw.connect()
        raw.send(HEADER + by_token(account, token, agent, resume + BIND) + "<presence/>")
        assert "<resumed " in await answer(raw)
        # Its own presence: the session is there, and what came behind the request was heard.
        assert f"to='{account.jid}" in await raw.until("<presence ") + await raw.until(">")
        raw.close()


async def test_tokens_end_with_the_password(world):
    """A token that was stolen is of no use once the user has changed the password."""
    account, agent = world.server.fresh(), uuid.uuid4()
    raw = await Raw(world).open()
    raw.send(by_password(account, agent, BIND + wants_token()))
    token = attribute(await answer(raw), "token", "token")
    raw.send(
        "<iq type='set' id='pw'><query xmlns='jabber:iq:register'>"
        f"<username>{account.name}</username><password>another</password></query></iq>"
    )
    assert "type='result'" in await raw.until("id='pw'") + await raw.until(">")
    late = await Raw(world).open()
    late.send(by_token(account, token, agent, BIND))
    assert NO_TOKEN in await answer(late)
    late.send(by_password(Account(account.name, "another"), agent, BIND))
    assert "<bound" in await answer(late)
    late.close()
    raw.close()
