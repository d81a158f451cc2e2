"""Ad-hoc commands (XEP-0050) and service administration (XEP-0133) with slixmpp,
whose plugins begin commands and fill in forms; announcements of the operator."""

import asyncio
import subprocess

import pytest
from slixmpp.exceptions import IqError

from events import WAIT, LoginFailed
from servers import DOMAIN, Account

pytestmark = pytest.mark.needs("pep")  # slixmpp

COMMANDS = "http://jabber.org/protocol/commands"
ADMIN = "http://jabber.org/protocol/admin#"


def ctl(server, *words):
    """`throng ctl`; what it says."""
    done = subprocess.run(
        [server.binary, "ctl", *words, "--data", str(server.data)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Admin:
    """Commands of one session."""

    def __init__(self, actor):
        self.client = actor.client
        for plugin in ("xep_0004", "xep_0030", "xep_0050", "xep_0133"):
            self.client.register_plugin(plugin)
        self.commands = self.client.plugin["xep_0050"]

    async def listed(self):
        """Nodes of the commands that are shown."""
        found = await self.client.plugin["xep_0050"].get_commands(DOMAIN)
        return {node for _, node, _ in found["disco_items"]["items"]}

    async def begin(self, name):
        """The answer to a command's first request."""
        answer = await self.commands.send_command(DOMAIN, ADMIN + name, timeout=WAIT)
        return answer["command"]

    async def run(self, name, **fields):
        """A command with its form filled in; the values of what it tells."""
        begun = await self.begin(name)
        if fields:
            assert begun["status"] == "executing"
            form = self.client.plugin["xep_0004"].make_form(ftype="submit")
            for var, value in fields.items():
                form.add_field(var=var.replace("_", "-") if var == "password_verify" else var, value=value)
            answer = await self.commands.send_command(
                DOMAIN, ADMIN + name, action="complete", payload=form,
                sessionid=begun["sessionid"], timeout=WAIT,
            )
            begun = answer["command"]
        assert begun["status"] == "completed"
        return begun


async def admin(world, kind):
    """A user who has been made the administrator while the server runs."""
    if world.server.driver == "prosody":
        pytest.skip("an option of Throng")
    actor = await world.online(kind)
    ctl(world.server, "knob", "set", "admins", actor.bare)
    return actor, Admin(actor)


def values(command, var):
    """Values of a field of what a command tells."""
    value = command["form"]["values"][var]
    return [value] if isinstance(value, str) else list(value or [])


async def test_commands_are_shown_to_administrators_alone(world, kind):
    """XEP-0050 2.2, XEP-0133 7."""
    _, commands = await admin(world, kind)
    assert {ADMIN + "add-user", ADMIN + "announce"} <= await commands.listed()
    nobody = Admin(await world.online(kind))
    # XEP-0401 6.1 is for everybody.
    assert await nobody.listed() == {"urn:xmpp:invite#invite"}
    with pytest.raises(IqError) as refused:
        await nobody.begin("add-user")
    assert refused.value.condition == "forbidden"


async def test_an_account_from_its_making_to_its_end(world, kind):
    """XEP-0133 4.1, 4.5, 4.7, 4.10, 4.2: and each is a line of the log."""
    actor, commands = await admin(world, kind)
    account = world.server.unregistered()
    await commands.run(
        "add-user", accountjid=account.jid, password=account.password,
        password_verify=account.password,
    )
    with pytest.raises(IqError) as taken:
        await commands.run("add-user", accountjid=account.jid, password="x")
    assert taken.value.condition == "conflict"
    session = await world.online(kind, account=account, resource="phone")
    seen = await commands.run("user-stats", accountjid=account.jid)
    assert values(seen, "onlineresources") == ["phone"]
    assert values(seen, "ipaddresses") == ["127.0.0.1"]
    await commands.run("end-user-session", accountjids=[account.jid])
    await session.wait_disconnect() if hasattr(session, "wait_disconnect") else await asyncio.sleep(0.5)
    changed = Account(account.name, "another")
    await commands.run("change-user-password", accountjid=account.jid, password=changed.password)
    with pytest.raises(LoginFailed):
        await world.bound(kind, account=account)
    await world.online(kind, account=changed, resource="tablet")
    await commands.run("delete-user", accountjids=[account.jid])
    with pytest.raises(LoginFailed):
        await world.bound(kind, account=changed)
    with pytest.raises(IqError) as gone:
        await commands.run("delete-user", accountjids=[account.jid])
    assert gone.value.condition == "item-not-found"
    orders = ("account add", "kick", "account password", "account remove")
    log = await world.server.logged(*(f'order="{order}"' for order in orders), since=world.log_since)
    for order in orders:
        lines = [line for line in log.splitlines() if f'order="{order}"' in line]
        assert any(actor.bare in line and account.jid in line for line in lines), order
    assert account.password not in log and changed.password not in log


async def test_numbers_and_lists(world, kind):
    """XEP-0133 4.13, 4.15, 4.20: who is online, page by page."""
    actor, commands = await admin(world, kind)
    others = [await world.online(kind) for _ in range(3)]

    async def registered():
        return int(values(await commands.run("get-registered-users-num"), "registeredusersnum")[0])

    # Other tests remove accounts.
    before, new = await registered(), world.server.unregistered()
    world.server.add_account(new)
    assert await registered() == before + 1
    count = await commands.run("get-online-users-num")
    assert int(values(count, "onlineusersnum")[0]) >= 4
    seen, after = set(), ""
    while after is not None:
        page = await commands.run("get-online-users-list", max_items="2", after=after)
        seen |= set(values(page, "onlineuserjids"))
        after = next(iter(values(page, "after") if "after" in page["form"]["values"] else []), None)
    assert {actor.bare, *(other.bare for other in others)} <= seen


async def test_announcements_and_the_message_of_the_day(world, kind):
    """XEP-0133 4.23, 4.24, 4.26: everybody online is told, and who logs in later once."""
    _, commands = await admin(world, kind)
    online = await world.online(kind)
    later = world.server.fresh()
    since = online.log.mark()
    await commands.run("announce", announcement=["going down", "at noon"])
    assert (await online.wait_message(body="going down\nat noon", since=since)).sender == DOMAIN
    since = online.log.mark()
    await commands.run("set-motd", motd=["read this"])
    await online.wait_message(body="read this", since=since)
    try:
        first = await world.online(kind, account=later, resource="one")
        await first.wait_message(body="read this")
        again = await world.online(kind, account=later, resource="two")
        await asyncio.sleep(0.5)
        assert not [e for e in again.log.events if getattr(e, "body", None) == "read this"]
    finally:
        await commands.run("delete-motd")
    nobody = await world.online(kind)
    await asyncio.sleep(0.5)
    assert not [e for e in nobody.log.events if getattr(e, "body", None) == "read this"]


async def test_the_operator_announces(world, kind):
    """`throng ctl announce`: at once, and what is kept survives a kill."""
    if world.server.driver == "prosody":
        pytest.skip("a command of Throng")
    online = await world.online(kind)
    told = ctl(world.server, "announce", "hello all")
    assert told.endswith("sessions told\n")
    await online.wait_message(body="hello all")


async def test_what_is_kept_survives_a_kill(restarted_world, kind):
    """The text, and who has seen it."""
    world = restarted_world
    if world.server.driver == "prosody":
        pytest.skip("a command of Throng")
    before, after = world.server.fresh(), world.server.fresh()
    ctl(world.server, "announce", "for later", "--later", "--only-later", "--for", "1h")
    seen = await world.online(kind, account=before)
    await seen.wait_message(body="for later")
    world.server.restart(kill=True)
    unseen = await world.online(kind, account=after)
    await unseen.wait_message(body="for later")
    again = await world.online(kind, account=before, resource="second")
    await asyncio.sleep(0.5)
    assert not [e for e in again.log.events if getattr(e, "body", None) == "for later"]
    ctl(world.server, "announce", "--withdraw")
