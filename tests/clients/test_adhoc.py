"""Ad-hoc commands (XEP-0050) and service administration (XEP-0133) with slixmpp,
whose plugins begin commands and fill in forms; announcements of the operator;
what users report (XEP-0377), and what operators do, by commands."""

import asyncio
import json

import pytest
from slixmpp.exceptions import IqError

from events import WAIT, LoginFailed
from servers import DOMAIN, Account, throng

pytestmark = pytest.mark.needs("pep")  # slixmpp

COMMANDS = "http://jabber.org/protocol/commands"
ADMIN = "http://jabber.org/protocol/admin#"
CTL = "urn:throng:ctl#"
REPORTS = "urn:throng:reports#"
SPAM = "urn:xmpp:reporting:spam"


def ctl(server, *words):
    """`throng ctl`; what it says."""
    return throng(server, "ctl", *words)


def node(name):
    """The node of a command, which is of XEP-0133 if nothing else is said."""
    return name if name.startswith("urn:") else ADMIN + name


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
        answer = await self.commands.send_command(DOMAIN, node(name), timeout=WAIT)
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
                DOMAIN, node(name), action="complete", payload=form,
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


async def test_what_is_known_of_users(world, kind):
    """XEP-0133 4.8, 4.9, 4.16 to 4.22: rosters, logins, and who is active or idle."""
    actor, commands = await admin(world, kind)
    juliet, ghost = await world.online(kind), world.server.unregistered()
    friend = f"friend@{DOMAIN}"
    await juliet._iq(juliet.client.update_roster(friend, name="Friend", groups=["A & B"]))
    roster = await commands.run("get-user-roster", accountjids=[juliet.bare])
    assert values(roster, "accountjids") == [juliet.bare]
    item = roster["form"].xml.find("{jabber:iq:roster}query/{jabber:iq:roster}item")
    assert (item.get("jid"), item.get("name"), item[0].text) == (friend, "Friend", "A & B")
    seen = await commands.run("user-stats", accountjid=juliet.bare)
    assert values(seen, "rostersize") == ["1"]
    login = await commands.run("get-user-lastlogin", accountjids=[juliet.bare])
    assert values(login, "lastlogin")[0].endswith("Z")
    for name in ("get-user-roster", "get-user-lastlogin"):
        with pytest.raises(IqError) as gone:
            await commands.run(name, accountjids=[ghost.jid])
        assert gone.value.condition == "item-not-found"
        some = await commands.run(name, accountjids=[juliet.bare, ghost.jid])
        assert ghost.jid in some.xml.findtext(f"{{{COMMANDS}}}note")
    active = int(values(await commands.run("get-active-users-num"), "activeusersnum")[0])
    assert active >= 2
    assert int(values(await commands.run("get-idle-users-num"), "idleusersnum")[0]) >= 0
    for name, var in (
        ("get-registered-users-list", "registereduserjids"), ("get-active-users", "activeuserjids"),
    ):
        found, after = set(), ""
        while after is not None:
            page = await commands.run(name, max_items="200", after=after)
            field = page["form"].xml.find(f".//{{jabber:x:data}}field[@var='{var}']")
            assert field.get("type") == "jid-multi"
            found |= set(values(page, var))
            after = next(iter(values(page, "after") if "after" in page["form"]["values"] else []), None)
        assert {actor.bare, juliet.bare} <= found, name
    with pytest.raises(IqError) as refused:
        await commands.begin("edit-admin")
    assert refused.value.condition == "not-allowed"
    with pytest.raises(IqError) as refused:
        await commands.begin("edit-blacklist")
    assert refused.value.condition == "feature-not-implemented"


async def test_an_account_is_disabled_and_enabled_again(world, kind):
    """XEP-0133 4.3, 4.4, 4.14, 4.19: sessions end, logins are refused, and nothing is lost."""
    _, commands = await admin(world, kind)
    account = world.server.fresh()
    juliet = await world.online(kind, account=account)
    await juliet._iq(juliet.client.update_roster(f"friend@{DOMAIN}", name="Friend"))

    async def disabled():
        count = int(values(await commands.run("get-disabled-users-num"), "disabledusersnum")[0])
        found, after = set(), ""
        while after is not None:
            page = await commands.run("get-disabled-users-list", max_items="200", after=after)
            found |= set(values(page, "disableduserjids") if "disableduserjids" in page["form"]["values"] else [])
            after = next(iter(values(page, "after") if "after" in page["form"]["values"] else []), None)
        assert (juliet.bare in found) <= (count > 0)
        return juliet.bare in found

    assert not await disabled()
    await commands.run("disable-user", accountjids=[juliet.bare])
    with pytest.raises(LoginFailed, match="account-disabled"):
        await world.bound(kind, account=account)
    assert await disabled()
    await commands.run("reenable-user", accountjids=[juliet.bare])
    assert not await disabled()
    again = await world.online(kind, account=account, resource="again")
    roster = await commands.run("get-user-roster", accountjids=[again.bare])
    assert roster["form"].xml.find("{jabber:iq:roster}query/{jabber:iq:roster}item").get("name") == "Friend"
    with pytest.raises(IqError) as gone:
        await commands.run("disable-user", accountjids=[world.server.unregistered().jid])
    assert gone.value.condition == "item-not-found"


def items(command):
    """Rows of what a command tells (XEP-0004 3.4), a dictionary each."""
    form = command["form"].xml
    data = "{jabber:x:data}"

    def value(field):
        return field.findtext(f"{data}value") or ""

    reported = [field.get("var") for field in form.find(f"{data}reported")]
    rows = [{field.get("var"): value(field) for field in item} for item in form.findall(f"{data}item")]
    assert all(list(row) == reported for row in rows)
    return rows


async def test_reports_are_listed_and_dismissed(world, kind):
    """XEP-0377 3, 4: what users report is there for administrators, who are told of it."""
    nurse, commands = await admin(world, kind)
    nobody = Admin(await world.online(kind))
    juliet = await world.online(kind)
    since = nurse.log.mark()
    spammer, text = f"tybalt@{DOMAIN}", 'Never came "trouble"\nto my <house/>.'
    await juliet.block_and_report(spammer, SPAM, text, ["28482", "38383"])
    await juliet.block_and_report("montague.example", SPAM, "second", [])

    async def own():
        listed, after = [], ""
        while after is not None:
            page = await commands.run(REPORTS + "list", max_items="2", after=after)
            listed += [row for row in items(page) if row["by"] == juliet.bare]
            values = page["form"]["values"]
            after = values.get("after")
        return listed

    latest, first = sorted(await own(), key=lambda row: row["jid"] == spammer)
    assert (first["jid"], first["reason"], first["text"]) == (spammer, SPAM, text)
    assert (first["messages"], latest["jid"]) == ("28482 38383", "montague.example")
    # Administrators are told at once, or ten minutes after they were told last.
    told = [e.body for e in nurse.log.events[since:] if "reports from users" in (getattr(e, "body", None) or "")]
    assert len(told) <= 1
    for name in ("list", "dismiss"):
        with pytest.raises(IqError) as refused:
            await nobody.begin(REPORTS + name)
        assert refused.value.condition == "forbidden"
    await commands.run(REPORTS + "dismiss", ids=[first["id"]])
    assert [row["id"] for row in await own()] == [latest["id"]]
    with pytest.raises(IqError) as gone:
        await commands.run(REPORTS + "dismiss", ids=[first["id"]])
    assert gone.value.condition == "item-not-found"
    listed = [json.loads(line) for line in throng(world.server, "report", "list", "--by", juliet.bare, "--json").splitlines()]
    assert [row["id"] for row in listed] == [latest["id"]]
    assert throng(world.server, "report", "dismiss", latest["id"][:8]) == "1 dismissed\n"
    assert await own() == []
    log = await world.server.logged('order="report dismiss"', since=world.log_since)
    assert nurse.bare in log


async def test_a_flood_of_reports_is_of_no_use(world, kind):
    """XEP-0377: an account has 20 reports kept, and others' stay."""
    _, commands = await admin(world, kind)
    juliet, flood = await world.online(kind), await world.online(kind)
    await juliet.block_and_report(f"tybalt@{DOMAIN}", SPAM, "real", [])
    for n in range(40):
        await flood.block_and_report(f"x{n}@evil.example", SPAM, "y" * 4_000, ["9" * 500])
    listed = [json.loads(line) for line in throng(world.server, "report", "list", "--json").splitlines()]
    assert [row["text"] for row in listed if row["by"] == juliet.bare] == ["real"]
    own = [row for row in listed if row["by"] == flood.bare]
    assert len(own) == 20 and all(len(row["text"]) == 512 for row in own)
    page = await commands.run(REPORTS + "list", max_items="50")
    assert len(items(page)) <= 50
    throng(world.server, "report", "dismiss", "--by", flood.bare)
    throng(world.server, "report", "dismiss", "--by", juliet.bare)


async def test_reports_survive_a_kill(restarted_world, kind):
    """XEP-0377 4: what was answered is durable."""
    world = restarted_world
    if world.server.driver == "prosody":
        pytest.skip("a command of Throng")
    juliet = await world.online(kind)
    await juliet.block_and_report(f"tybalt@{DOMAIN}", SPAM, "before the kill", ["1"])
    world.server.restart(kill=True)
    listed = throng(world.server, "report", "list", "--by", juliet.bare, "--json").splitlines()
    assert [json.loads(line)["text"] for line in listed] == ["before the kill"]


async def test_what_operators_do(world, kind):
    """The verbs of `throng ctl` by a client, and a shutdown that is called off (XEP-0133 4.31)."""
    nurse, commands = await admin(world, kind)
    listed = await commands.listed()
    assert {CTL + "status", CTL + "set-knob", ADMIN + "shutdown"} <= listed
    status = await commands.run(CTL + "status")
    assert values(status, "state") == ["running"]
    assert values(status, "driver")[0].removeprefix("io_") == world.server.driver
    assert int(values(status, "sessions")[0]) >= 1
    knobs = {row["key"]: row for row in items(await commands.run(CTL + "knobs"))}
    assert "log_level" in knobs and "admins" not in knobs
    changed = items(await commands.run(CTL + "set-knob", key="idle_timeout_seconds", value="777", seconds="60"))
    assert changed[0]["key"] == "idle_timeout_seconds" and changed[0]["until"]
    assert len(items(await commands.run(CTL + "set-knob", key="idle_timeout_seconds", value=""))) == 1
    for key, value in (("admins", "x@" + DOMAIN), ("no_such", "1"), ("idle_timeout_seconds", "soon")):
        with pytest.raises(IqError) as refused:
            await commands.run(CTL + "set-knob", key=key, value=value)
        assert refused.value.condition == "bad-request", key
    assert isinstance(items(await commands.run(CTL + "limits")), list)
    assert values(await commands.run(CTL + "release", whom="192.0.2.1"), "count") == ["0"]
    other = await world.online(kind)
    since = other.log.mark()
    await commands.run(CTL + "say", accountjids=[other.bare], text=["only", "for you"])
    assert (await other.wait_message(body="only\nfor you", since=since)).sender == DOMAIN
    assert "applied" in (await commands.run(CTL + "reload"))["form"]["values"]
    since = other.log.mark()
    try:
        await commands.run("shutdown", delay="300", announcement=["down in", "five minutes"])
        await other.wait_message(body="down in\nfive minutes", since=since)
        assert values(await commands.run(CTL + "status"), "state")[0].startswith("stops in ")
    finally:
        await commands.run(CTL + "cancel-shutdown")
    assert values(await commands.run(CTL + "status"), "state") == ["running"]
    log = await world.server.logged('order="shutdown cancel"', since=world.log_since)
    assert nurse.bare in log


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


async def test_a_message_of_the_day_is_edited(world, kind):
    """XEP-0133 4.25: who logs in later sees the text as it is, and who has seen the one before nothing."""
    _, commands = await admin(world, kind)
    before, later = world.server.fresh(), world.server.fresh()
    await commands.run("set-motd", motd=["first"])
    try:
        await (await world.online(kind, account=before, resource="one")).wait_message(body="first")
        begun = await commands.begin("edit-motd")
        assert begun["form"].xml.findtext(".//{jabber:x:data}field[@var='motd']/{jabber:x:data}value") == "first"
        await commands.run("edit-motd", motd=["second"])
        await (await world.online(kind, account=later)).wait_message(body="second")
        again = await world.online(kind, account=before, resource="two")
        await again.ping()
        assert not [e for e in again.log.events if getattr(e, "body", None) == "second"]
    finally:
        await commands.run("delete-motd")


async def test_a_new_account_is_welcomed(world, kind):
    """XEP-0133 4.27, 4.28: once, at its first login, until the text is deleted."""
    _, commands = await admin(world, kind)
    first, second = world.server.unregistered(), world.server.unregistered()

    async def add(account):
        await commands.run("add-user", accountjid=account.jid, password=account.password)

    set_ = await commands.run("set-welcome", welcome=["welcome", "to <this> house"])
    assert "until the server restarts" in set_.xml.findtext(f"{{{COMMANDS}}}note")
    try:
        await add(first)
        one = await world.online(kind, account=first, resource="one")
        assert (await one.wait_message(body="welcome\nto <this> house")).sender == DOMAIN
        two = await world.online(kind, account=first, resource="two")
        await two.ping()
        assert not [e for e in two.log.events if getattr(e, "body", None)]
    finally:
        await commands.run("delete-welcome")
    await add(second)
    three = await world.online(kind, account=second)
    await three.ping()
    assert not [e for e in three.log.events if getattr(e, "body", None)]


async def test_the_operator_announces(world, kind):
    """`throng ctl announce`: at once, and what is kept survives a kill."""
    if world.server.driver == "prosody":
        pytest.skip("a command of Throng")
    online = await world.online(kind)
    told = ctl(world.server, "announce", "hello all")
    assert told.endswith((" session told\n", " sessions told\n"))
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
