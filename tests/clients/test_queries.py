"""Questions a client asks: ping, discovery, version, time, last activity, private XML."""

from datetime import datetime, timedelta, timezone

import pytest

from events import StanzaError
from servers import DOMAIN
from world import befriend


async def test_ping(world, kind):
    """XEP-0199 4.2: the server answers."""
    actor = await world.bound(kind)
    await actor.ping(DOMAIN)


async def test_disco_of_the_server(world, kind):
    """XEP-0030 3: identity server/im and what the server can do."""
    actor = await world.bound(kind)
    identities, features = await actor.disco_info(DOMAIN)
    assert ("server", "im") in identities
    assert {"http://jabber.org/protocol/disco#info", "jabber:iq:version",
            "urn:xmpp:ping", "urn:xmpp:time"} <= features


async def test_disco_of_the_own_account(world, kind):
    """XEP-0030 8: the bare JID answers as account/registered."""
    actor = await world.online(kind)
    identities, _ = await actor.disco_info(actor.bare)
    assert ("account", "registered") in identities


async def test_version(world, kind):
    """XEP-0092: the server names its software."""
    actor = await world.bound(kind)
    assert (await actor.version(DOMAIN)).lower() == world.server.name.split()[0]


@pytest.mark.needs("time")
async def test_time(world, kind):
    """XEP-0202: the server's clock is ours, in UTC."""
    actor = await world.bound(kind)
    told = await actor.time(DOMAIN)
    assert told.endswith("Z")
    told = datetime.fromisoformat(told.replace("Z", "+00:00"))
    assert abs(told - datetime.now(timezone.utc)) < timedelta(seconds=10)


@pytest.mark.needs("last")
async def test_last_activity(world, kind):
    """XEP-0012 3 and 5: of an offline contact with the status it left, and of
    the server itself."""
    romeo, juliet = await world.online(kind), await world.online(kind)
    await befriend(romeo, juliet)
    juliet.send_presence(type="unavailable", status="gone to bed")
    await romeo.wait_presence(juliet.jid, "unavailable")
    await juliet.close()
    seconds, status = await romeo.last(juliet.bare)
    assert 0 <= seconds < 60
    assert status == "gone to bed"
    uptime, _ = await romeo.last(DOMAIN)
    assert uptime >= 0


@pytest.mark.needs("last")
async def test_last_activity_is_not_for_strangers(world, kind):
    """XEP-0012 8: only who may see the presence may ask."""
    romeo, juliet = await world.online(kind), await world.online(kind)
    with pytest.raises(StanzaError) as failure:
        await romeo.last(juliet.bare)
    assert failure.value.condition in ("forbidden", "service-unavailable")


@pytest.mark.needs("private")
async def test_private_xml(world, kind):
    """XEP-0049 3: kept by namespace, replaced as a whole, there at the next login."""
    account = world.server.fresh()
    actor = await world.bound(kind, account=account)
    assert await actor.private_get() is None
    await actor.private_set("first & <second>")
    assert await actor.private_get() == "first & <second>"
    await actor.private_set("third")
    await actor.close()
    again = await world.bound(kind, account=account)
    assert await again.private_get() == "third"
    stranger = await world.bound(kind)
    assert await stranger.private_get() is None
