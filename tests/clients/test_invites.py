"""Invitations (XEP-0379, XEP-0401, XEP-0445) and accounts that wait for approval:
by a client of a few lines, by slixmpp with requests made by hand, and by every
client as who invites and who was invited."""

import asyncio
import json
import re
from xml.etree import ElementTree

import pytest
from slixmpp.exceptions import IqError
from slixmpp.xmlstream.handler import Waiter
from slixmpp.xmlstream.matcher import MatcherId

from events import WAIT, LoginFailed
from raw import Raw
from servers import DOMAIN, throng

PARS = "urn:xmpp:pars:0"


def invite(server, *words):
    """`throng invite`: the invitation."""
    return json.loads(throng(server, "invite", "--json", *words))


def newcomer(server):
    """An account that is not there yet."""
    account = server.fresh()
    throng(server, "user", "del", account.jid, "--yes")
    return account


async def show(raw, token):
    """Shows a token (XEP-0445 4); what is answered."""
    raw.send(f"<iq type='set' to='{DOMAIN}' id='pa'><preauth xmlns='{PARS}' token='{token}'/></iq>")
    answer = await raw.until(">")
    return answer if answer.endswith("/>") else answer + await raw.until("</iq>")


async def register(raw, account):
    """Registers (XEP-0077 3.1); what is answered."""
    raw.send(
        "<iq type='set' id='reg'><query xmlns='jabber:iq:register'>"
        f"<username>{account.name}</username><password>{account.password}</password></query></iq>"
    )
    answer = await raw.until(">")
    return answer if "type='result'" in answer else answer + await raw.until("</iq>")


async def test_who_is_invited_becomes_a_contact_of_who_invites(inviting_world, kind):
    """XEP-0401 6.5, XEP-0445 4: the inviter's client sees the new contact at once,
    and the new one's client finds the inviter."""
    world = inviting_world
    inviter, account = await world.online(kind), newcomer(world.server)
    made = invite(world.server, "--contact", inviter.bare)
    assert made["uri"] == f"xmpp:{inviter.bare}?roster;preauth={made['token']};ibr=y"
    assert made["page"] == f"https://localhost/i/#{made['token']}"
    raw = await Raw(world).open()
    assert "<register xmlns='urn:xmpp:ibr-token:0'/>" in raw.features
    refused = await register(raw, account)
    assert "not-allowed" in refused and "by invitation only" in refused
    assert "type='result'" in await show(raw, made["token"])
    assert "type='result'" in await register(raw, account)
    raw.close()
    await inviter.wait_push(account.jid, "both")
    invited = await world.online(kind, account=account)
    assert (await invited.roster())[inviter.bare].subscription == "both"
    await inviter.wait_presence(invited.jid)
    await invited.wait_presence(inviter.jid)
    again = await Raw(world).open()
    used = await show(again, made["token"])
    assert "item-not-found" in used and "used up" in used
    again.close()


@pytest.mark.needs("pep")  # slixmpp
async def test_registration_with_requests_by_hand(inviting_world, kind):
    """XEP-0445 4 with slixmpp: the token is shown before its plugin registers."""
    world = inviting_world
    account = newcomer(world.server)
    made = invite(world.server, "--user", account.name)
    assert made["uri"] == f"xmpp:{account.jid}?register;preauth={made['token']}"
    actor = world.make(kind, account=account)
    plain = actor._register

    async def with_token(form):
        iq = actor.client.make_iq_set(ito=DOMAIN)
        iq.append(ElementTree.Element(f"{{{PARS}}}preauth", {"token": made["token"]}))
        # The library holds back before the login what it does not know as a request for it.
        answer = Waiter("preauth", MatcherId(iq["id"]))
        actor.client.register_handler(answer)
        actor.client.send_raw(str(iq))
        assert (await answer.wait(WAIT))["type"] == "result"
        await plain(form)

    actor._register = with_token
    await actor.connect(register=True)
    await actor.online()
    rows = [json.loads(line) for line in throng(world.server, "invite", "list", "--all", "--json").splitlines()]
    row = next(row for row in rows if row["id"] == made["id"])
    assert (row["state"], row["joined"], row["user"]) == ("used", [account.jid], account.jid)


async def test_of_two_at_a_time_one_comes_in(inviting_world):
    """XEP-0379 7.2: a token for one, shown by several that register at the same time."""
    world = inviting_world
    accounts = [newcomer(world.server) for _ in range(4)]
    token = invite(world.server)["token"]
    raws = await asyncio.gather(*(Raw(world).open() for _ in accounts))
    assert all("type='result'" in answer for answer in await asyncio.gather(*(show(raw, token) for raw in raws)))
    answers = await asyncio.gather(*(register(raw, account) for raw, account in zip(raws, accounts)))
    assert sum("type='result'" in answer for answer in answers) == 1
    assert sum("used up" in answer for answer in answers) == len(accounts) - 1
    for raw in raws:
        raw.close()


@pytest.mark.needs("pep")  # slixmpp
async def test_a_client_invites_by_command(inviting_world, kind):
    """XEP-0401 5, 6.1, and XEP-0379 3.4, 3.5 by who has an account."""
    world = inviting_world
    inviter, contact = await world.online(kind), await world.online(kind)
    for plugin in ("xep_0004", "xep_0030", "xep_0050"):
        inviter.client.register_plugin(plugin)
    commands = inviter.client.plugin["xep_0050"]
    found = await commands.get_commands(DOMAIN)
    nodes = {node for _, node, _ in found["disco_items"]["items"]}
    assert nodes == {"urn:xmpp:invite#invite"}
    answer = (await commands.send_command(DOMAIN, "urn:xmpp:invite#invite", timeout=WAIT))["command"]
    assert answer["status"] == "completed"
    values = answer["form"]["values"]
    uri = re.fullmatch(rf"xmpp:{re.escape(inviter.bare)}\?roster;preauth=([a-z2-7]+);ibr=y", values["uri"])
    assert uri and values["landing-url"] == f"https://localhost/i/#{uri[1]}"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", values["expire"])
    since = inviter.log.mark()
    contact.client.send_raw(
        f"<presence to='{inviter.bare}' type='subscribe'><preauth xmlns='{PARS}' token='{uri[1]}'/></presence>"
        f"<presence to='{inviter.bare}' type='subscribed'/>"
    )
    await contact.wait_push(inviter.bare, "both")
    await inviter.wait_push(contact.bare, "both")
    assert "subscribe" not in inviter.presences(contact.bare, since=since)
    # XEP-0379 4.1: the second time it is a request like others.
    other = await world.online(kind)
    other.client.send_raw(
        f"<presence to='{inviter.bare}' type='subscribe'><preauth xmlns='{PARS}' token='{uri[1]}'/></presence>"
    )
    await inviter.wait_presence(other.bare, "subscribe")
    with pytest.raises(IqError) as refused:
        await commands.send_command(DOMAIN, "urn:xmpp:invite#create-account", timeout=WAIT)
    assert refused.value.condition == "forbidden"


async def test_a_revoked_invitation_lets_nobody_in(inviting_world):
    """XEP-0379 7.2; the command line on a running server."""
    world = inviting_world
    made = invite(world.server, "--uses", "5", "--expires", "1h")
    assert made["id"][:8] in throng(world.server, "invite", "list")
    throng(world.server, "invite", "revoke", made["id"][:12])
    assert made["id"][:8] not in throng(world.server, "invite", "list")
    raw = await Raw(world).open()
    assert "item-not-found" in await show(raw, made["token"])
    raw.close()


async def test_an_account_waits_for_approval(approving_world, kind):
    """An administrator is told by a message, and until the account is approved its
    user is told at login (RFC 6120 6.5.2)."""
    world = approving_world
    admin, account = await world.online(kind), newcomer(world.server)
    throng(world.server, "ctl", "knob", "set", "admins", admin.bare)
    raw = await Raw(world).open()
    assert "type='result'" in await register(raw, account)
    raw.close()
    waiting = [json.loads(line)["user"] for line in throng(world.server, "user", "pending", "--json").splitlines()]
    assert account.jid in waiting
    with pytest.raises(LoginFailed) as refused:
        await world.make(kind, account=account).connect()
    assert "account-disabled" in str(refused.value)
    throng(world.server, "user", "approve", account.jid)
    await world.online(kind, account=account)


async def test_a_rejected_account_is_gone(approving_world):
    """Its name is free."""
    world = approving_world
    account = newcomer(world.server)
    for _ in range(2):
        raw = await Raw(world).open()
        assert "type='result'" in await register(raw, account)
        again = await register(raw, account)
        assert "conflict" in again
        raw.close()
        throng(world.server, "user", "reject", account.jid, "--yes")
