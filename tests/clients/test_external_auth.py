"""Users who are kept elsewhere (docs/external-authentication.md): a program is asked about passwords."""

import asyncio
import json
import struct
import subprocess
import time
import urllib.request
import uuid
from pathlib import Path

import pytest

from events import LoginFailed
from raw import Raw, plain
from servers import Account
from test_sasl2 import BIND, NO_TOKEN, answer, attribute, by_password, by_token, wants_token

BOTH = ["slixmpp", "xmppjs"]

CHECK = Path(__file__).resolve().parents[2] / "contrib" / "external-auth" / "check.py"


def ready(server):
    """What `/ready` says."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.admin_http}/ready", timeout=10) as answered:
        return json.load(answered)


@pytest.mark.parametrize("client", BOTH)
async def test_a_login_and_what_an_account_needs(external_world, client):
    """RFC 4616, RFC 6121: who was never here before logs in, has a roster, and messages wait for who is away."""
    juliet = await external_world.online(client)
    romeo = await external_world.online("slixmpp")
    romeo.send_message(juliet.bare, "hello")
    await juliet.wait_message("hello")
    juliet.send_message(romeo.bare, "hello yourself")
    await romeo.wait_message("hello yourself")
    account = juliet.account
    await juliet.close()
    romeo.send_message(juliet.bare, "waits")
    await romeo.ping()
    again = await external_world.online(client, account=account)
    await again.wait_message("waits")


@pytest.mark.parametrize("client", BOTH)
async def test_a_wrong_password(external_world, client):
    """RFC 6120 6.5.10."""
    account = external_world.server.fresh()
    actor = external_world.make(client, Account(account.name, "not-the-password"))
    with pytest.raises(LoginFailed, match="not-authorized"):
        await actor.connect()
    nobody = external_world.make(client, Account("nobody", "pass"))
    with pytest.raises(LoginFailed, match="not-authorized"):
        await nobody.connect()


async def test_plain_alone_is_offered(external_world):
    """RFC 6120 6.3.4: SCRAM needs keys that nobody has here."""
    raw = await Raw(external_world).open()
    assert "<mechanism>PLAIN</mechanism>" in raw.features
    assert "SCRAM" not in raw.features and "iq-register" not in raw.features
    raw.close()


@pytest.mark.parametrize("password", ["hang", "die", "nonsense"])
async def test_a_program_that_fails_costs_one_login(external_world, password):
    """RFC 6120 6.5.11: who made it fail is told to try later, in bounded time; others log in meanwhile and after it."""
    server = external_world.server
    raw = await Raw(external_world).open()
    raw.send(plain(Account(server.fresh().name, password)))
    other = await external_world.bound("slixmpp")
    await other.ping()
    said = await raw.until("</failure>")
    # The program hangs for longer than this test waits.
    assert "<temporary-auth-failure" in said
    raw.send(plain(server.fresh()))
    assert "<success" in await raw.until(">")
    raw.close()


async def test_a_token_works_until_the_user_is_gone(external_world):
    """XEP-0484: the program is asked about the user each time; with the user the token goes."""
    server = external_world.server
    account, agent = server.fresh(), uuid.uuid4()

    async def log_in(request):
        raw = await Raw(external_world).open()
        raw.send(request)
        said = await answer(raw)
        raw.close()
        return said

    token = attribute(await log_in(by_password(account, agent, BIND + wants_token())), "token", "token")
    said = await log_in(by_token(account, token, agent, BIND))
    assert "<bound" in said and "<token" not in said
    gone = server.folder / f"gone-{account.name}"
    server.oust(account)
    assert NO_TOKEN in await log_in(by_token(account, token, agent, BIND))
    gone.unlink()
    assert NO_TOKEN in await log_in(by_token(account, token, agent, BIND)), "it does not come back with the user"
    assert "<bound" in await log_in(by_password(account, agent, BIND))


async def test_xmppjs_comes_back_by_token(external_world):
    """XEP-0484 3.4: a library that keeps its token."""
    proxy = await external_world.proxy()
    juliet = external_world.make("xmppjs", proxy=proxy)
    await juliet.connect(sasl2=True)
    await juliet.online()
    juliet.hold()
    proxy.cut()
    assert await juliet.resume() is True
    assert await juliet.shown() == "HT-SHA-256-NONE"


@pytest.mark.parametrize("client", ["slixmpp"])
async def test_accounts_are_changed_elsewhere(external_world, client):
    """XEP-0077 3.2, 3.3, and what operators may do: refused in words that say why."""
    actor = await external_world.online(client)
    for refused in (actor.change_password("another"), actor.remove_account()):
        with pytest.raises(Exception, match="not-allowed"):
            await refused
    server = external_world.server
    for arguments in (["user", "add", "new@localhost", "--password", "x"],
                      ["user", "passwd", actor.bare, "--password", "x"], ["invite"]):
        code, said = server.throng(*arguments)
        assert code != 0 and "managed by external_auth" in said, (arguments, said)
    await actor.ping()


async def test_many_logins_at_once(external_world):
    """Logins wait in a queue for the three processes: all of them come in."""
    server = external_world.server
    accounts = [server.fresh() for _ in range(30)]

    async def log_in(account):
        raw = await Raw(external_world).open()
        raw.send(plain(account))
        said = await raw.until(">")
        raw.close()
        return said

    for said in await asyncio.gather(*map(log_in, accounts)):
        assert "<success" in said


async def test_a_program_that_is_down_is_named(external_world):
    """Operators see which domain it is; sessions go on; when it answers again, users log in."""
    server = external_world.server
    there = await external_world.online("slixmpp")
    broken = server.folder / "broken"
    broken.touch()
    try:
        for _ in range(100):
            raw = await Raw(external_world).open()
            raw.send(plain(server.prepared()[0]))
            assert "<temporary-auth-failure" in await raw.until("</failure>")
            raw.close()
            if ready(server)["degraded"]:
                break
        state = ready(server)
        assert state["ready"] and "external authentication of localhost is down" in state["degraded"][0]
        await there.ping()
    finally:
        broken.unlink()
    end = time.monotonic() + 60
    while time.monotonic() < end:
        raw = await Raw(external_world).open()
        raw.send(plain(server.prepared()[0]))
        said = await raw.until(">")
        raw.close()
        if "<success" in said:
            break
        await asyncio.sleep(0.2)
    assert "<success" in said and ready(server)["degraded"] == []
    log = await server.logged("external authentication is down", "external authentication answers again")
    assert "pass-" not in log, "no password is logged"


def test_the_example_answers_as_the_protocol_has_it(server, tmp_path):
    """contrib/external-auth/check.py, as the server runs it."""
    file = str(tmp_path / "users")

    def command(*arguments, password=""):
        subprocess.run([CHECK, file, *arguments], input=password + "\n", text=True, check=True, timeout=30)

    command("set", "romeo@localhost", password="pen:cil")
    command("set", "juliet@localhost", password="x")
    command("remove", "juliet@localhost")
    questions = [("auth:romeo:localhost:pen:cil", 1), ("auth:romeo:localhost:pencil", 0), ("isuser:romeo:localhost", 1),
                 ("isuser:juliet:localhost", 0), ("auth:juliet:localhost:x", 0), ("setpass:romeo:localhost:y", 0)]
    asked = b"".join(struct.pack(">H", len(text)) + text.encode() for text, _ in questions)
    done = subprocess.run([CHECK, file], input=asked, capture_output=True, check=True, timeout=30)
    assert done.stdout == b"".join(struct.pack(">HH", 2, wanted) for _, wanted in questions)
