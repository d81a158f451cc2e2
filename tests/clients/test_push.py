"""Push notifications (XEP-0357): a service is told of messages that wait for a
phone that is not there. The phone, the contact and the service are slixmpp, which
has no plugin for it: the service answers publications as XEP-0060 says."""

import asyncio

import pytest
from slixmpp.xmlstream import ET
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher import MatchXPath

from events import WAIT
from servers import DOMAIN
from test_resume import break_off

pytestmark = pytest.mark.needs("push")

PUSH = "urn:xmpp:push:0"
PUBSUB = "{http://jabber.org/protocol/pubsub}"
FORM = "{jabber:x:data}"
OPTIONS = "http://jabber.org/protocol/pubsub#publish-options"
#: `push_interval_seconds` of the server, and time for the turn after it.
INTERVAL = 12


def fields(form):
    """A form (XEP-0004) as names and values."""
    return {f.get("var"): f.findtext(f"{FORM}value") for f in form.findall(f"{FORM}field")}


class Service:
    """A client that is told of messages. `told` are publications: who has sent them,
    the node, the summary and the options. Each is answered by `error`, if it is set."""

    def __init__(self, actor):
        self.actor, self.error = actor, None
        self.told = []
        self.arrived = asyncio.Event()
        self.client = actor.client
        self.client.register_handler(
            Callback("publications", MatchXPath(f"{{{self.client.default_ns}}}iq/{PUBSUB}pubsub"), self._on_publish)
        )

    def _on_publish(self, iq):
        publish = iq.xml.find(f"{PUBSUB}pubsub/{PUBSUB}publish")
        notification = publish.find(f"{PUBSUB}item/{{{PUSH}}}notification")
        options = iq.xml.find(f"{PUBSUB}pubsub/{PUBSUB}publish-options/{FORM}x")
        self.told.append((str(iq["from"]), publish.get("node"), fields(notification.find(f"{FORM}x")),
                          {} if options is None else fields(options)))
        if self.error:
            answer = iq.reply()
            answer.error()
            answer["error"]["condition"] = self.error
            answer["error"]["type"] = "cancel"
            answer.send()
        else:
            iq.reply(clear=True).send()
        self.arrived.set()

    async def wait(self, count):
        """Waits until so many have come in all; the last one's summary."""
        async with asyncio.timeout(WAIT + INTERVAL):
            while len(self.told) < count:
                self.arrived.clear()
                await self.arrived.wait()
        return self.told[-1][2]


async def change(actor, verb, service, node, **options):
    """<enable/> or <disable/> (XEP-0357 5, 6)."""
    iq = actor.client.make_iq_set()
    element = ET.SubElement(iq.xml, f"{{{PUSH}}}{verb}", jid=service.actor.jid, node=node)
    if options:
        form = ET.SubElement(element, f"{FORM}x", type="submit")
        for var, value in {"FORM_TYPE": OPTIONS, **options}.items():
            ET.SubElement(ET.SubElement(form, f"{FORM}field", var=var), f"{FORM}value").text = value
    await actor._iq(iq.send())


async def scene(world, kind, **options):
    """A contact, a service, and a phone that has enabled it."""
    contact, service = await world.online(kind), Service(await world.online(kind))
    phone = await world.online(kind, **options)
    await change(phone, "enable", service, "node-1", secret="eruio234vzxc2kla-91")
    return contact, service, phone


async def seen(contact, service, phone):
    """The phone has got a message, and acknowledged it: what it has not would wake it.
    Whom it may wake is decided in the account's turn, before the request that follows:
    otherwise the next message could be counted together with it."""
    contact.send_message(phone.bare, "seen")
    await phone.wait_message("seen")
    phone.client.plugin["xep_0198"].send_ack()
    await change(phone, "disable", service, "no such node")


async def test_the_account_says_that_it_can_be_enabled(world, kind):
    """XEP-0357 4.1."""
    phone = await world.online(kind)
    _, features = await phone.disco_info(phone.bare)
    assert PUSH in features


async def test_a_phone_that_has_left_is_woken_and_a_storm_is_told_of_once(world, kind):
    """XEP-0357 7: what the service is told, and not more than that."""
    contact, service, phone = await scene(world, kind)
    await seen(contact, service, phone)
    await phone.close()
    contact.send_message(phone.bare, "secret 0")
    await service.wait(1)
    form = {"FORM_TYPE": "urn:xmpp:push:summary", "message-count": "1"}
    options = {"FORM_TYPE": OPTIONS, "secret": "eruio234vzxc2kla-91"}
    assert service.told == [(DOMAIN, "node-1", form, options)]
    for n in range(1, 50):
        contact.send_message(phone.bare, f"secret {n}")
    await contact.ping()
    assert (await service.wait(2))["message-count"] == "50"
    await asyncio.sleep(INTERVAL)
    assert len(service.told) == 2
    again = await world.online(kind, account=phone.account)
    await again.wait_message("secret 49")


@pytest.mark.parametrize("how", ["cut", "strand"])
async def test_a_phone_without_a_connection_is_woken_and_resumes(world, kind, how):
    """XEP-0198 5: the message waits for the session, another device does not read for
    it, and it comes once."""
    proxy = await world.proxy()
    contact, service, phone = await scene(world, kind, proxy=proxy)
    desk = await world.online(kind, account=phone.account, resource="desk")
    await seen(contact, service, phone)
    break_off(phone, proxy, how)
    contact.send_message(phone.bare, "wake up")
    await desk.wait_message("wake up")
    if how == "cut":
        await service.wait(1)
    assert await phone.resume() is True
    marker = await phone.settle(contact)
    assert phone.bodies() == ["seen", "wake up", marker]
    assert len(service.told) == (1 if how == "cut" else 0)


async def test_a_phone_that_nobody_looks_at_is_woken(world, kind):
    """XEP-0352: inactive, with a connection."""
    contact, service, phone = await scene(world, kind)
    phone.client_state(False)
    await phone.ping()
    contact.send_message(phone.bare, "wake up")
    await service.wait(1)
    await phone.wait_message("wake up")


async def test_what_is_disabled_or_refused_is_told_no_more(world, kind):
    """XEP-0357 6, 7.1."""
    contact, service, phone = await scene(world, kind)
    other = Service(await world.online(kind))
    await change(phone, "enable", other, "node-2")
    await change(phone, "disable", service, "node-1")
    other.error = "item-not-found"
    await phone.close()
    contact.send_message(phone.bare, "one")
    await other.wait(1)
    contact.send_message(phone.bare, "two")
    await contact.ping()
    await asyncio.sleep(INTERVAL)
    assert len(other.told) == 1 and service.told == []


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_registrations_outlive_the_server(restarted_world, kind, how):
    """XEP-0357 5: until it is disabled, hence also after a kill -9."""
    world = restarted_world
    contact, service, phone = await scene(world, kind)
    await phone.close()
    for actor in (contact, service.actor):
        actor.hold()
    world.server.restart(kill=how == "kill")
    contact = await world.online(kind, account=contact.account)
    service = Service(await world.online(kind, account=service.actor.account, resource=service.actor.resource))
    contact.send_message(phone.bare, "wake up")
    await service.wait(1)
    assert service.told[0][1] == "node-1"
