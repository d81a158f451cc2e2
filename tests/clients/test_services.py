"""Whom to write to about the server (XEP-0157), and the STUN and TURN servers
that it tells of (XEP-0215), the latter against Debian's coturn; and vCards."""

import asyncio
import subprocess

import pytest

from events import StanzaError
from servers import DOMAIN

pytestmark = pytest.mark.needs("services")


@pytest.fixture
def own(server):
    """Only Throng is set up with such addresses."""
    if server.driver == "prosody":
        pytest.skip("set up for Throng only")
    return server


@pytest.fixture
def relay(own):
    """coturn on the port that the server tells of."""
    log = own.folder / "turn.log"
    command = ["turnserver", "-n", "--listening-ip", "127.0.0.1", "--relay-ip", "127.0.0.1",
               "--listening-port", str(own.turn), "--no-tls", "--no-dtls", "--no-cli", "--allow-loopback-peers",
               "--use-auth-secret", "--static-auth-secret", own.turn_secret, "--realm", DOMAIN,
               "--min-port", "49200", "--max-port", "49300", "--simple-log", "--log-file", str(log),
               "--pidfile", str(own.folder / "turn.pid"), "--userdb", str(own.folder / "turn.db")]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield own.turn
    process.terminate()
    process.wait(10)


async def use(port, name, password):
    """Whether coturn's own client gets a relay."""
    command = ["timeout", "20", "turnutils_uclient", "-y", "-n", "1", "-m", "1", "-c", "-p", str(port),
               "-u", name, "-w", password, "127.0.0.1"]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said, _ = await process.communicate()
    return process.returncode == 0 and b"error" not in said.lower(), said.decode(errors="replace")


async def test_contact_addresses(own, world, kind):
    """XEP-0157 2: in the server's extended information (XEP-0128)."""
    actor = await world.bound(kind)
    assert await actor.contact_addresses(DOMAIN) == {
        "abuse-addresses": ["mailto:abuse@localhost", "xmpp:abuse@localhost"],
        "admin-addresses": ["xmpp:admin@localhost"],
    }


async def test_services_of_all_types_and_of_one(own, world, kind):
    """XEP-0215 3.1, 3.2; 5: advertised."""
    actor = await world.bound(kind)
    _, features = await actor.disco_info(DOMAIN)
    assert "urn:xmpp:extdisco:2" in features
    found = await actor.services()
    assert [(s["type"], s["host"], s["port"], s["transport"]) for s in found] == [
        ("stun", "127.0.0.1", str(own.turn), "udp"), ("turn", "127.0.0.1", str(own.turn), "udp")]
    assert "password" not in found[0] and found[1]["restricted"] == "true"
    assert [s["type"] for s in await actor.services("stun")] == ["stun"]
    assert await actor.services("ftp") == []


async def test_who_asks_twice_or_is_another_has_a_name_that_tells_nothing(own, world, kind):
    """The relay sees a name that lasts for a user, and is no JID."""
    romeo, juliet = await world.bound(kind), await world.bound(kind)
    names = [(await actor.services("turn"))[0]["username"].split(":")[1] for actor in (romeo, romeo, juliet)]
    assert names[0] == names[1] != names[2]
    assert romeo.bare.split("@")[0] not in names[0]


async def test_the_relay_takes_the_credentials(relay, world, kind):
    """XEP-0215 3.3 with coturn: its own client gets a relay with them, and none with another password."""
    actor = await world.bound(kind)
    [service] = await actor.credentials("127.0.0.1", "turn")
    for _ in range(50):
        works, said = await use(relay, service["username"], service["password"])
        if works:
            break
        await asyncio.sleep(0.1)
    assert works, said
    works, _ = await use(relay, service["username"], "wrong" + service["password"])
    assert not works


async def test_no_credentials_for_others(own, world, kind):
    """XEP-0215 3.3: a service that is not told of, or takes none."""
    actor = await world.bound(kind)
    for host, service in (("192.0.2.1", "turn"), ("127.0.0.1", "stun")):
        with pytest.raises(StanzaError) as refused:
            await actor.credentials(host, service)
        assert refused.value.condition == "item-not-found"


async def test_a_vcard_is_for_all_to_read(world, kind):
    """XEP-0054 3: of the own account and of others', which look as if they were not there until they have one."""
    romeo, juliet = await world.bound(kind), await world.bound(kind)
    with pytest.raises(StanzaError, match="item-not-found"):
        await romeo.vcard()
    for of in (romeo.bare, f"nobody@{DOMAIN}"):
        with pytest.raises(StanzaError, match="service-unavailable"):
            await juliet.vcard(of)
    await romeo.set_vcard("Romeo Montague")
    assert await romeo.vcard() == await juliet.vcard(romeo.bare) == "Romeo Montague"
