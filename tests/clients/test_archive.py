"""The archive as clients see it (XEP-0313), and its preferences (XEP-0441).
`kind` is the client of who looks (Juliet), another client writes (Romeo)."""

import pytest

from actors import other
from events import StanzaError
from servers import DOMAIN

pytestmark = pytest.mark.needs("archive")


async def conversation(world, kind, count):
    """Two who have written to each other in turn, and all that was said."""
    juliet, romeo = await world.online(kind), await world.online(other(kind))
    said = []
    for number in range(count):
        writer, reader = (romeo, juliet) if number % 2 == 0 else (juliet, romeo)
        body = f"line {number}"
        writer.send_message(reader.bare, body)
        await reader.wait_message(body, sender=writer.jid)
        said.append((writer.jid, body))
    return juliet, romeo, said


def lines(page):
    return [(message.sender, message.body) for message in page]


async def test_an_account_advertises_its_archive(world, kind):
    """XEP-0313 7."""
    actor = await world.bound(kind)
    _, features = await actor.disco_info(actor.bare)
    assert {"urn:xmpp:mam:2", "urn:xmpp:mam:2#extended"} <= features


async def test_an_empty_archive(world, kind):
    """XEP-0313 4.1, 5: no error."""
    actor = await world.bound(kind)
    assert await actor.archive() == ([], True)
    assert await actor.archive_ends() is None


async def test_all_that_was_said_from_both_ends(world, kind):
    """XEP-0313 4.3: pages forwards and backwards, in order; 5: where it ends."""
    juliet, _, said = await conversation(world, kind, 7)
    seen, after = [], None
    for _ in range(4):
        page, complete = await juliet.archive(max=2, after=after)
        seen += page
        if complete:
            break
        after = page[-1].id
    assert complete and lines(seen) == said
    assert await juliet.archive_ends() == (seen[0].id, seen[-1].id)
    back, before = [], ""
    for _ in range(3):
        page, complete = await juliet.archive(max=3, before=before)
        back = page + back
        before = page[0].id
    assert complete and back == seen
    assert [m.stamp for m in seen] == sorted(m.stamp for m in seen)


async def test_by_the_iterator_of_the_plugin(world, kind):
    """XEP-0313 4.3.3: as slixmpp's own iterator goes over an archive."""
    if kind != "slixmpp":
        pytest.skip("slixmpp's")
    juliet, _, said = await conversation(world, kind, 5)
    assert lines(await juliet.archive_back(2)) == said[::-1]


async def test_with_one_party(world, kind):
    """XEP-0313 4.1.1: both ways, of all resources or of one."""
    juliet, romeo, said = await conversation(world, kind, 4)
    nurse = await world.online(kind)
    nurse.send_message(juliet.bare, "come")
    await juliet.wait_message("come", sender=nurse.jid)
    assert lines((await juliet.archive(with_jid=romeo.bare))[0]) == said
    assert lines((await juliet.archive(with_jid=nurse.jid))[0]) == [(nurse.jid, "come")]
    last, complete = await juliet.archive(with_jid=romeo.bare, max=1, before="")
    assert (lines(last), complete) == (said[-1:], False)


async def test_what_came_while_nobody_was_there(world, kind):
    """XEP-0313 6.1.1: another device finds what the first one has got."""
    account = world.server.fresh()
    romeo = await world.online(other(kind))
    romeo.send_message(account.jid, "are you there?")
    phone = await world.online(kind, account=account, resource="phone")
    await phone.wait_message("are you there?", sender=romeo.jid)
    laptop = await world.bound(kind, account=account, resource="laptop")
    assert lines((await laptop.archive())[0]) == [(romeo.jid, "are you there?")]
    since = phone.log.mark()
    assert phone.bodies(since) == [], "results go to who asks alone"


async def test_errors(world, kind):
    """XEP-0313 4.3.2, 8.1."""
    juliet, romeo, _ = await conversation(world, kind, 2)
    with pytest.raises(StanzaError, match="item-not-found"):
        await juliet.archive(after="28482-98726-73623")
    with pytest.raises(StanzaError, match="forbidden"):
        await romeo.archive(to=juliet.bare)


async def test_preferences(world, kind):
    """XEP-0441 2.1: what is not to stay is delivered and not archived."""
    world.departs("keeps preferences in a module of its own")
    juliet, romeo = await world.online(kind), await world.online(other(kind))
    never = {f"nobody@{DOMAIN}"}
    assert await juliet.archive_prefs("never", never=never) == ("never", set(), never)
    romeo.send_message(juliet.bare, "burn this")
    await juliet.wait_message("burn this", sender=romeo.jid)
    assert await juliet.archive_prefs("never", always=[romeo.bare]) == ("never", {romeo.bare}, set())
    romeo.send_message(juliet.bare, "keep this")
    await juliet.wait_message("keep this", sender=romeo.jid)
    assert lines((await juliet.archive())[0]) == [(romeo.jid, "keep this")]
    assert len((await romeo.archive())[0]) == 2, "everybody has an archive of one's own"


async def test_a_retracted_message_is_a_tombstone_in_both_archives(world, kind):
    """XEP-0424 3 and 4, by the plugins; 5: the retraction is archived, and reaches who is there."""
    if kind != "slixmpp":
        pytest.skip("slixmpp's")
    world.departs("has no tombstones")
    juliet, romeo = await world.online(kind), await world.online(kind)
    _, features = await juliet.disco_info(juliet.bare)
    assert {"urn:xmpp:message-retract:1", "urn:xmpp:message-retract:1#tombstone"} <= features
    juliet.send_message(romeo.bare, "have not saints lips", id="wrong-1")
    await romeo.wait_message("have not saints lips")
    juliet.client.register_plugin("xep_0424")
    by = juliet.client.plugin["xep_0424"].send_retraction(romeo.bare, "wrong-1", fallback_text="retracted")
    await romeo.wait_message("retracted")
    for actor in juliet, romeo:
        result = await actor._iq(actor.client.plugin["xep_0313"].retrieve())
        shown = [m["mam_result"]["forwarded"]["stanza"] for m in result["mam"]["results"]]
        assert [m["id"] for m in shown] == ["wrong-1", by["id"]]
        retracted = shown[0].xml.find("{urn:xmpp:message-retract:1}retracted")
        assert retracted.get("id") == by["id"] and retracted.get("stamp")
        assert not shown[0]["body"] and shown[1]["body"] == "retracted"
