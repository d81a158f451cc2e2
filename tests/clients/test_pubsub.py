"""The publish-subscribe service (XEP-0060) from two sides, each by slixmpp's own
plugin: one makes nodes and publishes, the other one subscribes and reads. With
three shards nodes, owners and subscribers live on different threads."""

import asyncio

import pytest
from slixmpp.plugins.xep_0004.stanza import Form
from slixmpp.plugins.xep_0059.stanza import Set
from slixmpp.plugins.xep_0060.stanza import Pubsub
from slixmpp.xmlstream import ET, register_stanza_plugin

from events import WAIT, StanzaError
from servers import DOMAIN

pytestmark = pytest.mark.needs("pep")  # slixmpp

SERVICE = f"pubsub.{DOMAIN}"
AUTHORIZE = "http://jabber.org/protocol/pubsub#subscribe_authorization"


class Side:
    """A session with slixmpp's plugin. `heard` are its events in their order."""

    def __init__(self, actor):
        self.actor = actor
        self.client = client = actor.client
        self.heard = asyncio.Queue()
        for plugin in ("xep_0059", "xep_0060"):
            client.register_plugin(plugin)
        self.pubsub = client.plugin["xep_0060"]
        for event in ("publish", "retract", "purge", "delete", "config", "subscription"):
            client.add_event_handler(f"pubsub_{event}", lambda msg, event=event: self.heard.put_nowait((event, msg)))
        client.add_event_handler("message", self._on_message)

    def _on_message(self, msg):
        if msg.xml.find("{jabber:x:data}x") is not None:
            self.heard.put_nowait(("form", msg))

    async def next(self, wanted):
        """The next event, which has to be this one."""
        event, msg = await asyncio.wait_for(self.heard.get(), WAIT)
        assert event == wanted, f"{event}: {msg}"
        assert msg["from"].bare == SERVICE
        return msg

    async def run(self, request):
        return await self.actor._iq(request)

    @property
    def bare(self):
        return self.actor.bare


async def side(world, kind):
    one = Side(world.make(kind))
    await one.actor.connect()
    await one.actor.online()
    return one


def config(**fields):
    form = Form()
    form["type"] = "submit"
    form.add_field(var="FORM_TYPE", ftype="hidden", value="http://jabber.org/protocol/pubsub#node_config")
    for var, value in fields.items():
        form.add_field(var=f"pubsub#{var}", value=value)
    return form


def payload(text):
    element = ET.Element("{urn:test}x")
    element.text = text
    return element


def node_of(juliet, name):
    """A name that no other test has."""
    return f"{name} of {juliet.bare}"


async def test_a_node_from_its_creation_to_its_end(world, kind):
    """XEP-0060 8.1.3, 6.1, 7.1, 6.5, 7.2, 8.5, 6.2, 8.4."""
    juliet, romeo = await side(world, kind), await side(world, kind)
    node = node_of(juliet, "news")
    await juliet.run(juliet.pubsub.create_node(SERVICE, node, config=config(title="News", max_items="max")))
    result = await romeo.run(romeo.pubsub.subscribe(SERVICE, node))
    assert result["pubsub"]["subscription"]["subscription"] == "subscribed"
    for n in range(5):
        await juliet.run(juliet.pubsub.publish(SERVICE, node, id=f"i{n}", payload=payload(str(n))))
    for n in range(5):
        msg = await romeo.next("publish")
        item = msg["pubsub_event"]["items"]["item"]
        assert (item["id"], item["payload"].text) == (f"i{n}", str(n))
    result = await romeo.run(romeo.pubsub.get_items(SERVICE, node))
    assert [item["id"] for item in result["pubsub"]["items"]] == [f"i{n}" for n in range(5)]
    result = await romeo.run(romeo.pubsub.get_item(SERVICE, node, "i3"))
    assert [item["id"] for item in result["pubsub"]["items"]] == ["i3"]
    await juliet.run(juliet.pubsub.retract(SERVICE, node, "i3", notify=True))
    assert (await romeo.next("retract"))["pubsub_event"]["items"]["retract"]["id"] == "i3"
    await juliet.run(juliet.pubsub.purge(SERVICE, node))
    await romeo.next("purge")
    assert [s["node"] for s in (await romeo.run(romeo.pubsub.get_subscriptions(SERVICE)))["pubsub"]["subscriptions"]] == [node]
    await romeo.run(romeo.pubsub.unsubscribe(SERVICE, node))
    await juliet.run(juliet.pubsub.publish(SERVICE, node, id="last", payload=payload("last")))
    await romeo.actor.ping()
    assert romeo.heard.empty()
    await romeo.run(romeo.pubsub.subscribe(SERVICE, node, bare=False))
    assert (await romeo.next("publish"))["pubsub_event"]["items"]["item"]["id"] == "last"
    await juliet.run(juliet.pubsub.delete_node(SERVICE, node))
    await romeo.next("delete")
    with pytest.raises(StanzaError) as refused:
        await romeo.run(romeo.pubsub.get_items(SERVICE, node))
    assert refused.value.condition == "item-not-found"


async def test_who_may_do_what(world, kind):
    """XEP-0060 8.1.1, 7.1.3.1, 8.9: nobody but the owner, until the owner says so."""
    juliet, romeo = await side(world, kind), await side(world, kind)
    node = node_of(juliet, "closed")
    await juliet.run(juliet.pubsub.create_node(SERVICE, node, config=config(access_model="whitelist")))
    for request, condition in [
        (lambda: romeo.pubsub.create_node(SERVICE, node), "conflict"),
        (lambda: romeo.pubsub.subscribe(SERVICE, node), "not-allowed"),
        (lambda: romeo.pubsub.get_items(SERVICE, node), "not-allowed"),
        (lambda: romeo.pubsub.publish(SERVICE, node, id="a", payload=payload("a")), "forbidden"),
        (lambda: romeo.pubsub.purge(SERVICE, node), "forbidden"),
        (lambda: romeo.pubsub.delete_node(SERVICE, node), "forbidden"),
        (lambda: romeo.pubsub.get_node_config(SERVICE, node), "forbidden"),
        (lambda: romeo.pubsub.get_node_affiliations(SERVICE, node), "forbidden"),
        (lambda: romeo.pubsub.get_node_subscriptions(SERVICE, node), "forbidden"),
    ]:
        with pytest.raises(StanzaError) as refused:
            await romeo.run(request())
        assert refused.value.condition == condition
    await juliet.run(juliet.pubsub.modify_affiliations(SERVICE, node, [(romeo.bare, "publisher")]))
    result = await juliet.run(juliet.pubsub.get_node_affiliations(SERVICE, node))
    found = {(str(a["jid"]), a["affiliation"]) for a in result["pubsub_owner"]["affiliations"]}
    assert found == {(juliet.bare, "owner"), (romeo.bare, "publisher")}
    result = await romeo.run(romeo.pubsub.get_affiliations(SERVICE))
    assert [(a["node"], a["affiliation"]) for a in result["pubsub"]["affiliations"]] == [(node, "publisher")]
    await romeo.run(romeo.pubsub.subscribe(SERVICE, node))
    await romeo.run(romeo.pubsub.publish(SERVICE, node, id="a", payload=payload("a")))
    await romeo.next("publish")
    result = await juliet.run(juliet.pubsub.get_node_subscriptions(SERVICE, node))
    assert [str(s["jid"]) for s in result["pubsub_owner"]["subscriptions"]] == [romeo.bare]
    await juliet.run(juliet.pubsub.modify_affiliations(SERVICE, node, [(romeo.bare, "outcast")]))
    assert (await romeo.next("subscription"))["pubsub_event"]["subscription"]["subscription"] == "none"
    await juliet.run(juliet.pubsub.publish(SERVICE, node, id="b", payload=payload("b")))
    await romeo.actor.ping()
    assert romeo.heard.empty()


async def test_an_owner_approves(world, kind):
    """XEP-0060 8.6: also when the owner comes later, the question waits."""
    juliet, romeo = await side(world, kind), await side(world, kind)
    node = node_of(juliet, "letters")
    await juliet.run(juliet.pubsub.create_node(SERVICE, node, config=config(access_model="authorize")))
    result = await romeo.run(romeo.pubsub.subscribe(SERVICE, node))
    assert result["pubsub"]["subscription"]["subscription"] == "pending"
    asked = await juliet.next("form")
    fields = asked["form"].get_values()
    assert fields["pubsub#node"] == node and fields["pubsub#subscriber_jid"] == romeo.bare
    answer = juliet.client.make_message(SERVICE)
    answer["id"] = asked["id"]
    answer["form"]["type"] = "submit"
    answer["form"].add_field(var="FORM_TYPE", ftype="hidden", value=AUTHORIZE)
    for var, value in [("node", node), ("subscriber_jid", romeo.bare), ("allow", "1")]:
        answer["form"].add_field(var=f"pubsub#{var}", value=value)
    answer.send()
    assert (await romeo.next("subscription"))["pubsub_event"]["subscription"]["subscription"] == "subscribed"
    await juliet.run(juliet.pubsub.publish(SERVICE, node, id="a", payload=payload("a")))
    await romeo.next("publish")


async def test_pages_of_nodes_and_items(world, kind):
    """XEP-0059 2.2 by slixmpp's iterator: each item once, in order; XEP-0060 5.5."""
    juliet, romeo = await side(world, kind), await side(world, kind)
    node = node_of(juliet, "pages")
    await juliet.run(juliet.pubsub.create_node(SERVICE, node))
    for n in range(25):
        await juliet.run(juliet.pubsub.publish(SERVICE, node, id=f"i{n:02}", payload=payload(str(n))))
    # The library asks for pages of a stanza that it has not told of them.
    register_stanza_plugin(Pubsub, Set)
    seen = []
    iterator = romeo.pubsub.get_items(SERVICE, node, max_items=10, iterator=True)
    async for page in iterator:
        seen += [item["id"] for item in page["pubsub"]["items"]]
    assert seen == [f"i{n:02}" for n in range(25)]
    result = await romeo.run(romeo.pubsub.get_item_ids(SERVICE, node))
    assert [name for _, _, name in sorted(result["disco_items"]["items"], key=str)] != []
    info = await romeo.run(romeo.client.plugin["xep_0030"].get_info(SERVICE, node))
    assert ("pubsub", "leaf", None, None) in info["disco_info"]["identities"]
    assert "http://jabber.org/protocol/pubsub#instant-nodes" in (
        await romeo.run(romeo.client.plugin["xep_0030"].get_info(SERVICE))
    )["disco_info"]["features"]
