"""SASL EXTERNAL with certificates of clients (XEP-0178 2), by OpenSSL's certificates."""

import asyncio
import base64
import ssl
import uuid

import pytest

from raw import Raw

SASL = "xmlns='urn:ietf:params:xml:ns:xmpp-sasl'"
SASL2 = "xmlns='urn:xmpp:sasl:2'"

pytestmark = pytest.mark.secure


def external(authzid="", sasl2=False, inside=""):
    """`<auth/>` or `<authenticate/>`."""
    payload = base64.b64encode(authzid.encode()).decode() or "="
    if not sasl2:
        return f"<auth {SASL} mechanism='EXTERNAL'>{payload}</auth>"
    return (
        f"<authenticate {SASL2} mechanism='EXTERNAL'><initial-response>{payload}</initial-response>"
        f"<user-agent id='{uuid.uuid4()}'/>{inside}</authenticate>"
    )


async def shows(world, certificate):
    """A stream whose client has shown this certificate."""
    raw = Raw(world)
    raw.certificate = certificate
    return await raw.open()


async def test_slixmpp_logs_in_with_a_certificate(certified_world):
    """XEP-0178 2: a client that needs no password."""
    account = certified_world.server.fresh()
    actor = certified_world.make("slixmpp", account)
    actor.client.certfile, actor.client.keyfile = certified_world.server.authority.issue(account.jid)
    actor.client.password = "not the password"
    await actor.connect(mechanism="EXTERNAL")
    await actor.ping()


async def test_both_forms_of_sasl(certified_world):
    """RFC 6120 6, XEP-0388: offered first, and in one step; no token comes with it, which would outlive the certificate."""
    account = certified_world.server.fresh()
    certificate = certified_world.server.authority.issue(account.jid)
    raw = await shows(certified_world, certificate)
    assert "'urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>EXTERNAL</mechanism>" in raw.features
    assert "'urn:xmpp:sasl:2'><mechanism>EXTERNAL</mechanism>" in raw.features
    raw.send(external())
    assert "<success" in await raw.until(">")
    raw.close()
    raw = await shows(certified_world, certificate)
    wants = (
        "<bind xmlns='urn:xmpp:bind:0'/>"
        "<request-token xmlns='urn:xmpp:fast:0' mechanism='HT-SHA-256-NONE'/>"
    )
    raw.send(external(account.jid, sasl2=True, inside=wants))
    said = await raw.until("</success>")
    assert f"<authorization-identifier>{account.jid}/" in said and "<bound" in said
    assert "<metadata xmlns='urn:xmpp:mam:2'" in said and "<token" not in said
    raw.close()


async def test_a_certificate_of_somebody_else(certified_world):
    """XEP-0178 2, step 11: another account, several addresses, an account that is not there, no address."""
    server = certified_world.server
    own, other = server.fresh(), server.fresh()
    refused = [
        (server.authority.issue(own.jid), external(other.jid), "<invalid-authzid"),
        (server.authority.issue(own.jid, other.jid), external(), "<invalid-authzid"),
        (server.authority.issue("nobody@localhost"), external(), "<not-authorized"),
    ]
    for sasl2 in (False, True):
        for certificate, request, condition in refused:
            if sasl2:
                payload = request.split(">")[1].split("<")[0]
                request = external(base64.b64decode(payload).decode() if payload != "=" else "", sasl2=True)
            raw = await shows(certified_world, certificate)
            raw.send(request)
            assert condition in await raw.until("</failure>")
            raw.close()
    raw = await shows(certified_world, server.authority.issue(own.jid, other.jid))
    raw.send(external(other.jid))
    assert "<success" in await raw.until(">")
    raw.close()
    for certificate in (server.authority.issue(name=own.name), server.authority.issue("romeo@example.org"), None):
        raw = await shows(certified_world, certificate)
        assert "EXTERNAL" not in raw.features and "SCRAM-SHA-512" in raw.features
        raw.send(external())
        assert "<invalid-mechanism" in await raw.until("</failure>")
        raw.close()


async def fails(world, certificate):
    """The handshake fails, or what follows it (TLS 1.3 tells a client after its own part)."""
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        raw = await shows(world, certificate)
        raw.send(external())
        await raw.until(">")


async def test_certificates_that_are_not_good(certified_world):
    """RFC 5280 6: of another authority, ended, revoked while the server runs."""
    server = certified_world.server
    account = server.fresh()
    await fails(certified_world, server.stranger.issue(account.jid))
    await fails(certified_world, server.authority.issue(account.jid, ended=True))
    certificate = server.authority.issue(account.jid)
    raw = await shows(certified_world, certificate)
    raw.send(external())
    assert "<success" in await raw.until(">")
    raw.close()
    server.authority.revoke(certificate)
    server.reload()
    await fails(certified_world, certificate)
