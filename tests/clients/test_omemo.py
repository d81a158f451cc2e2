"""OMEMO (XEP-0384 0.3.0, as clients have it) by clients that encrypt: profanity in tmux, and Gajim under Xvfb. Each has
an implementation of its own."""

import os

import pytest

from world import befriend

#: Keys are for a real connection; one way of TLS is enough for what is above it.
pytestmark = pytest.mark.secure


@pytest.fixture(autouse=True)
def once(server, tls):
    """Encryption of messages has nothing to do with how the stream is encrypted."""
    if tls != "starttls":
        pytest.skip("over STARTTLS")
    if server.driver == "prosody":
        pytest.skip("the tests' Prosody has no nodes, archive or uploads")


async def contacts(world):
    """Two accounts that see each other's presence, and have had other devices."""
    devices = [await world.online("slixmpp", resource="before") for _ in range(2)]
    await befriend(*devices)
    for device in devices:
        # Profanity 0.13.1 takes an empty device list for none only if an error has the code 404 of XEP-0086, which is
        # obsolete; without it, it never publishes its own.
        other = await world.online("nbxmpp", account=device.account, resource="other")
        await other.do("devices", devices=[])
        await other.close()
        await device.close()
    return [device.account for device in devices]


async def terminal(world, account):
    """A profanity with keys of its own, which trusts all it sees."""
    client = await world.terminal(account=account)
    await client.connect()
    client.type("/omemo trustmode blind")
    client.type("/omemo gen")
    await client.see("materials generated. Your Device ID is")
    return client


async def encrypts(client, peer):
    """The terminal has a session with a device of the peer's."""
    client.type(f"/omemo start {peer.bare}")
    await client.logs(rf"\[OMEMO\] (create session with {peer.bare}|session with {peer.bare} device \d+ exists)")
    await client.see(r"\[OMEMO\]")


async def test_two_terminals_encrypt(world):
    """XEP-0384 4: device lists and bundles by PEP; a session made from them, in both directions. The server has the
    substitute text alone."""
    romeo, juliet = [await terminal(world, account) for account in await contacts(world)]
    watcher = await world.online("slixmpp", account=juliet.account, resource="watcher")
    juliet.type(f"/msg {romeo.bare}")
    await encrypts(romeo, juliet)
    romeo.type("parting is such sweet sorrow")
    await juliet.see("parting is such sweet sorrow")
    await encrypts(juliet, romeo)
    juliet.type("til it be morrow")
    await romeo.see("til it be morrow")
    await watcher.ping()
    archived, _ = await watcher.archive()
    bodies = [message.body for message in archived if message.body]
    assert len(bodies) >= 2 and all("encrypted with OMEMO" in body for body in bodies), bodies


async def test_gajim_from_its_first_start_to_its_second(world):
    """What a user of Gajim does, with a user of profanity: XEP-0384 4, XEP-0280, XEP-0363 and XEP-0454, XEP-0313."""
    one, two = await contacts(world)
    romeo, juliet = await terminal(world, one), await world.gajim(two)
    watcher = await world.online("slixmpp", account=juliet.account, resource="watcher")
    romeo.type(f"/msg {juliet.bare}")
    juliet.tell("encrypt", to=romeo.bare)
    await juliet.wait("keys", of=romeo.bare)
    juliet.tell("chat", to=romeo.bare)
    await juliet.wait("chat")
    juliet.tell("send", to=romeo.bare, body="O swear not by the moon")
    await juliet.wait("sent", body="O swear not by the moon", encrypted="OMEMO")
    await romeo.see("O swear not by the moon")
    await encrypts(romeo, juliet)
    romeo.type("What shall I swear by")
    await juliet.wait("message-received", body="What shall I swear by", encrypted="OMEMO")

    # A file, encrypted: its link is a message of its own.
    path = world.server.folder / "balcony.txt"
    path.write_bytes(os.urandom(50_000))
    juliet.tell("upload", to=romeo.bare, path=str(path))
    await juliet.wait("upload", state="FINISHED")
    link = await juliet.wait_body("aesgcm://localhost:")
    await romeo.see(r"aesgcm://localhost:")
    status, _, content = await watcher.http("GET", "https" + link.removeprefix("aesgcm").split("#")[0])
    # The tag of AES-GCM is behind it (XEP-0454 3).
    assert status == 200 and len(content) == 50_000 + 16 and content[:50_000] != path.read_bytes()

    # What comes while it is closed, it finds in the archive, and can read.
    await juliet.stop()
    romeo.type("Do not swear at all")
    nurse = await world.online("slixmpp")
    nurse.send_message(juliet.bare, "Madam!")
    await nurse.ping()
    await watcher.wait_message("Madam!")
    await juliet.start()
    await juliet.wait("mam-message-received", body="Madam!")
    await juliet.wait("mam-message-received", body="Do not swear at all", encrypted="OMEMO")
    said = await juliet.history(romeo.bare)
    assert [line for line in said if line.startswith(("O", "What", "Do"))] == [
        "O swear not by the moon", "What shall I swear by", "Do not swear at all"]

    # The server has seen none of it.
    archived, _ = await watcher.archive(with_jid=romeo.bare)
    assert len(archived) >= 4
    assert all("OMEMO" in message.body for message in archived if message.body), archived
