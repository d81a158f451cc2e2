"""Accounts gain keys of hash functions that they had none of (XEP-0480)."""

import base64
import hashlib
import hmac
import uuid

import pytest

from events import LoginFailed
from raw import HEADER, Raw

SASL2 = "xmlns='urn:xmpp:sasl:2'"
UPGRADE = "<upgrade xmlns='urn:xmpp:sasl:upgrade:0'>UPGR-SCRAM-SHA-512</upgrade>"


def text(part):
    """Base64."""
    return base64.b64encode(part).decode()


async def scram(raw, account, inside, hash="sha1"):
    """Logs in by SCRAM in the form of SASL 2, and returns what is said to the proof, up to its end."""
    first = f"n={account.name},r=rawnonce"
    name = {"sha1": "SCRAM-SHA-1", "sha512": "SCRAM-SHA-512"}[hash]
    raw.send(
        f"<authenticate {SASL2} mechanism='{name}'><initial-response>{text(f'n,,{first}'.encode())}"
        f"</initial-response><user-agent id='{uuid.uuid4()}'/>{inside}</authenticate>"
    )
    answer = await raw.until(">")
    if "<failure" in answer:
        return answer
    answer = await raw.until("</challenge>")
    challenge = base64.b64decode(answer.split("<")[0]).decode()
    nonce, salt, rounds = (part[2:] for part in challenge.split(",")[:3])
    salted = hashlib.pbkdf2_hmac(hash, account.password.encode(), base64.b64decode(salt), int(rounds))
    key = hmac.digest(salted, b"Client Key", hash)
    final = f"c=biws,r={nonce}"
    signed = f"{first},{challenge},{final}".encode()
    signature = hmac.digest(hashlib.new(hash, key).digest(), signed, hash)
    proof = text(bytes(a ^ b for a, b in zip(key, signature)))
    raw.send(f"<response {SASL2}>{text(f'{final},p={proof}'.encode())}</response>")
    said = await raw.until(">")
    end = said.strip("<>").split()[0]
    return said + await raw.until(f"</{end}>")


async def upgraded(raw, account):
    """Does the task of XEP-0480 3; what is said at the end."""
    said = await scram(raw, account, UPGRADE)
    assert "<tasks><task>UPGR-SCRAM-SHA-512</task></tasks></continue>" in said
    raw.send(f"<next {SASL2} task='UPGR-SCRAM-SHA-512'/>")
    said = await raw.until("</task-data>")
    assert "<salt xmlns='urn:xmpp:scram-upgrade:0'" in said
    salt = base64.b64decode(said.split("</salt>")[0].rsplit(">", 1)[1])
    rounds = int(said.split("iterations='")[1].split("'")[0])
    salted = hashlib.pbkdf2_hmac("sha512", account.password.encode(), salt, rounds)
    raw.send(
        f"<task-data {SASL2}><hash xmlns='urn:xmpp:scram-upgrade:0'>{text(salted)}</hash></task-data>"
    )
    return await raw.until("</stream:features>")


async def test_an_account_gains_scram_sha_512(moved_world):
    """XEP-0480 3: a login by SCRAM-SHA-1 and a task; afterwards slixmpp logs in by SCRAM-SHA-512, which failed before."""
    account = moved_world.server.fresh()
    before = moved_world.make("slixmpp", account)
    with pytest.raises(LoginFailed, match="not-authorized"):
        await before.connect(mechanism="SCRAM-SHA-512")
    raw = await Raw(moved_world).open()
    assert UPGRADE in raw.features
    said = await upgraded(raw, account)
    assert f"<success {SASL2}><authorization-identifier>{account.jid}</authorization-identifier>" in said
    raw.close()
    for mechanism in ("SCRAM-SHA-512", "SCRAM-SHA-1", "PLAIN"):
        after = moved_world.make("slixmpp", account)
        await after.connect(mechanism=mechanism)
        await after.ping()
        await after.close()
    # It is asked for once.
    raw = await Raw(moved_world).open()
    assert "<success" in await scram(raw, account, UPGRADE)
    raw.close()


async def test_plain_gives_an_account_all_it_lacks(moved_world):
    """XEP-0480: the server derives the keys itself from a password that it is shown."""
    account = moved_world.server.fresh()
    first = moved_world.make("slixmpp", account)
    await first.connect(mechanism="PLAIN")
    await first.close()
    for mechanism in ("SCRAM-SHA-512", "SCRAM-SHA-256"):
        actor = moved_world.make("slixmpp", account)
        await actor.connect(mechanism=mechanism)
        await actor.ping()
        await actor.close()


async def test_a_task_that_is_given_up_changes_nothing(moved_world):
    """XEP-0388 2.6.3: the login fails with the task."""
    account = moved_world.server.fresh()
    raw = await Raw(moved_world).open()
    await scram(raw, account, UPGRADE)
    raw.send(f"<abort {SASL2}/>")
    assert "<aborted" in await raw.until("</stream:stream>")
    raw.close()
    raw = await Raw(moved_world).open()
    said = await scram(raw, account, "", "sha512")
    assert "<failure" in said and "<not-authorized" in said
    raw.close()


async def test_nothing_tells_which_accounts_there_are(moved_world):
    """RFC 6120 13.11: the offer is the same whoever says that he comes."""
    offers = set()
    for name in (moved_world.server.fresh().jid, "nobody@localhost"):
        raw = Raw(moved_world)
        await raw.open()
        raw.close()
        raw = Raw(moved_world)
        await raw.connect()
        if moved_world.tls != "starttls":
            raw.send(HEADER.replace(" to=", f" from='{name}' to="))
            offers.add((await raw.until("</stream:features>")).split("<stream:features>")[1])
        raw.close()
    assert len(offers) <= 1
