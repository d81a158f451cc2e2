"""Profanity in tmux, with slixmpp at the other end."""

import pytest


def order_on_screen(screen, words):
    """The words in the order in which they stand on the screen, each as often
    as it stands there."""
    found = [(screen.find(w, at), w) for w in words for at in range(len(screen))
             if screen.startswith(w, at)]
    return [w for _, w in sorted(found)]


async def test_registers_in_band(world, tls):
    """XEP-0077 3.1, and login with the new account."""
    if tls != "starttls":
        pytest.skip("profanity 0.13.1 registers over STARTTLS only")
    terminal = await world.terminal(account=world.server.unregistered())
    await terminal.register()
    await terminal.connect()


async def test_messages_both_ways(world):
    """RFC 6121 5."""
    juliet = await world.online("slixmpp")
    romeo = await world.terminal()
    await romeo.connect()
    romeo.type(f"/msg {juliet.bare} wherefore <&> art thou")
    await juliet.wait_message("wherefore <&> art thou", sender=romeo.jid)
    juliet.send_message(romeo.bare, "deny thy father")
    await romeo.see("deny thy father")
    juliet.send_message(romeo.jid, "and refuse thy name")
    await romeo.see("and refuse thy name")


async def test_roster_and_subscription_both_ways(world):
    """RFC 6121 2, 3, 4: add, subscribe, approve, presence, unsubscribe, remove."""
    juliet = await world.online("slixmpp")
    romeo = await world.terminal()
    await romeo.connect()
    romeo.type(f"/roster add {juliet.bare} Juliet")
    await romeo.see(f"Roster item added: {juliet.bare}")
    romeo.type(f"/sub request {juliet.bare}")
    await juliet.wait_presence(romeo.bare, "subscribe")
    juliet.send_presence(to=romeo.bare, type="subscribed")
    await juliet.wait_push(romeo.bare, "from")
    await romeo.see(r"\+ Juliet.*online")
    juliet.send_presence(to=romeo.bare, type="subscribe")
    await romeo.see(f"authorization request from {juliet.bare}")
    romeo.type(f"/sub allow {juliet.bare}")
    await juliet.wait_push(romeo.bare, "both")
    await juliet.wait_presence(romeo.jid)
    romeo.type('/status set away "on the balcony"')
    assert (await juliet.wait_presence(romeo.jid, show="away")).status == "on the balcony"
    juliet.send_presence(show="dnd", status="asleep")
    await romeo.see(r"Juliet.*dnd.*asleep")
    since = juliet.log.mark()
    romeo.type(f"/roster remove {juliet.bare}")
    await juliet.wait_push(romeo.bare, "none", since=since)


async def test_closing_is_seen(world):
    """RFC 6121 4.5: after /quit the contact sees it unavailable."""
    juliet = await world.online("slixmpp")
    romeo = await world.terminal()
    await romeo.connect()
    romeo.type(f"/sub request {juliet.bare}")
    await juliet.wait_presence(romeo.bare, "subscribe")
    juliet.send_presence(to=romeo.bare, type="subscribe")
    await romeo.see(f"authorization request from {juliet.bare}")
    romeo.type(f"/sub allow {juliet.bare}")
    await juliet.wait_presence(romeo.jid)
    await romeo.close()
    await juliet.wait_presence(romeo.jid, "unavailable")


async def test_offline_messages_in_order(world):
    """RFC 6121 8.5.2.2, XEP-0160."""
    juliet = await world.online("slixmpp")
    account = world.server.fresh()
    letters = [f"letter-{n}" for n in range(5)]
    for letter in letters:
        juliet.send_message(account.jid, letter)
    await juliet.ping()
    romeo = await world.terminal(account=account)
    await romeo.connect()
    romeo.type(f"/msg {juliet.bare} thanks for all")
    await juliet.wait_message("thanks for all")
    await romeo.see("letter-4")
    assert order_on_screen(romeo.screen(), letters) == letters


async def test_a_broken_connection_loses_and_repeats_nothing(world):
    """XEP-0198 5: messages sent while the connection is broken."""
    juliet = await world.online("slixmpp")
    proxy = await world.proxy()
    romeo = await world.terminal(proxy=proxy)
    await romeo.connect()
    romeo.type(f"/msg {juliet.bare} before")
    await juliet.wait_message("before")
    since = juliet.log.mark()
    proxy.cut()
    letters = [f"letter-{n}" for n in range(5)]
    for letter in letters:
        juliet.send_message(romeo.bare, letter)
    await juliet.ping()
    await romeo.see("Lost connection|Disconnected")
    romeo.type(f"/win {juliet.bare}")
    await romeo.see("letter-4")
    juliet.send_message(romeo.bare, "the end")
    await romeo.see("the end")
    assert order_on_screen(romeo.screen(), letters) == letters
    assert "Session resumed successfully" in romeo.log(200_000)
    romeo.type("after")
    await juliet.wait_message("after", since=since)


async def test_negative_priority(world):
    """RFC 6121 8.5.2.1.1: the terminal steps back behind another resource."""
    juliet = await world.online("slixmpp")
    romeo = await world.terminal()
    # Copies (XEP-0280) go to resources of any priority.
    romeo.type("/carbons off")
    await romeo.connect()
    other = await world.online("slixmpp", account=romeo.account, resource="other", priority=1)
    romeo.type("/priority -1")
    await other.log.wait(
        "the terminal's lower priority",
        lambda e: getattr(e, "priority", None) == -1 and e.sender == romeo.jid,
    )
    romeo.type(f"/msg {juliet.bare} hello")
    await juliet.wait_message("hello")
    juliet.send_message(romeo.bare, "for the other")
    await other.wait_message("for the other")
    juliet.send_message(romeo.jid, "for the terminal")
    await romeo.see("for the terminal")
    assert "for the other" not in romeo.screen()


async def test_queries(world):
    """XEP-0199, XEP-0030, XEP-0092 through the server: as typed by a user."""
    juliet = await world.online("slixmpp")
    romeo = await world.terminal()
    await romeo.connect()
    romeo.type("/disco info localhost")
    await romeo.see("http://jabber.org/protocol/disco#info")
    await romeo.see("im server")
    # Profanity pings only a server whose features it has read.
    romeo.type("/ping")
    await romeo.see("Ping response from server")
    romeo.type(f"/software {juliet.jid}")
    await romeo.see("Name.*Slixmpp")
