"""Channels that need tokens (docs/notifications.md), with PyJWT as an issuer that knows nothing of the server but its keys."""

import asyncio
import base64
import json
import secrets
import threading
import time
import urllib.error
import urllib.request
import uuid

import jwt
import pytest
import sseclient
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from jwt.algorithms import ECAlgorithm, OKPAlgorithm

from events import WAIT
from servers import DOMAIN
from test_notify import ask, url

SECRET = secrets.token_bytes(32)
KEYS = {
    "HS256": SECRET,
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}


def jwk(alg, kid):
    """The half of a key that the server is given, as PyJWT writes it."""
    key = KEYS[alg]
    if alg == "HS256":
        own = {"kty": "oct", "k": base64.urlsafe_b64encode(key).rstrip(b"=").decode()}
    else:
        own = json.loads((ECAlgorithm if alg == "ES256" else OKPAlgorithm).to_jwk(key.public_key()))
    own.pop("key_ops", None)
    return own | {"kid": kid, "alg": alg, "use": "sig"}


JWKS = json.dumps({"keys": [jwk(alg, f"2026-{alg}") for alg in KEYS]})


def issue(alg="ES256", seconds=60, **claims):
    """A token; a claim that is None is left out."""
    own = {"iss": "https://issuer.example", "aud": "throng", "exp": int(time.time()) + seconds, "jti": str(uuid.uuid4())}
    own |= claims
    own = {name: value for name, value in own.items() if value is not None}
    return jwt.encode(own, KEYS[alg], algorithm=alg, headers={"kid": f"2026-{alg}"})


def fresh():
    """A channel that no other test has."""
    return f"own.{uuid.uuid4().hex}"


async def fetch(world, path, body=None, token=None, tls=False):
    fields = {"Authorization": f"Bearer {token}"} if token else {}
    return await asyncio.to_thread(ask, world, path, body, tls, **fields)


class Stream(threading.Thread):
    """Server-sent events until they end, by a token in the address as a page's."""

    def __init__(self, world, path, token):
        super().__init__(daemon=True)
        joint = "&" if "?" in path else "?"
        self.request = urllib.request.Request(
            url(world, f"{path}{joint}access_token={token}"), headers={"Accept": "text/event-stream"})
        self.got, self.kinds, self.status, self.ended = [], [], None, threading.Event()
        self.start()

    def run(self):
        try:
            with urllib.request.urlopen(self.request, timeout=60) as response:
                self.status = response.status
                for event in sseclient.SSEClient(response).events():
                    self.kinds.append(event.event)
                    self.got.append(event.data)
        except urllib.error.HTTPError as error:
            self.status = error.code
        except OSError as error:
            self.got.append(error)
        self.ended.set()

    async def until(self, count):
        deadline = time.monotonic() + WAIT
        while len(self.got) < count and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        return self.kinds[:count]


@pytest.mark.parametrize("alg", list(KEYS))
async def test_an_issuer_opens_channels(keyed_world, alg):
    """Tokens of each algorithm, in the header and in the address, over TLS and without."""
    world, channel = keyed_world, fresh()
    both = issue(alg, publish=[channel], subscribe=["own.*"])
    for token in (None, issue(alg), issue(alg, subscribe=["*"], publish=["own.x*"])):
        status, _, _ = await fetch(world, channel, b"no", token)
        assert status == (403 if token else 401)
    for number, tls in enumerate((False, True), 1):
        status, _, answer = await fetch(world, channel, f"item {number}".encode(), both, tls)
        assert (status, json.loads(answer)["id"]) == (200, str(number))
    for path, token in ((channel, both), (f"{channel}?access_token={both}", None)):
        status, fields, answer = await fetch(world, path, token=token)
        assert (status, fields["Cache-Control"]) == (200, "no-store")
        assert [item["data"] for item in json.loads(answer)["items"]] == ["item 1", "item 2"]
    status, fields, _ = await fetch(world, channel)
    assert status == 401 and fields["WWW-Authenticate"] == 'Bearer realm="channels"'
    status, fields, _ = await fetch(world, channel, token=issue(alg, publish=["*"]))
    assert status == 403 and "insufficient_scope" in fields["WWW-Authenticate"]


async def test_what_others_would_refuse_is_refused(keyed_world):
    """RFC 8725: what PyJWT refuses to decode for the same key, issuer and audience does not count here either."""
    world, channel = keyed_world, fresh()
    public = KEYS["ES256"].public_key()
    good = dict(subscribe=["*"])
    forged = jwt.encode(jwt.decode(issue(**good), options={"verify_signature": False}), b"x" * 32, algorithm="HS256")
    unsigned = jwt.encode(jwt.decode(issue(**good), options={"verify_signature": False}), None, algorithm="none")
    stranger = jwt.encode(
        jwt.decode(issue(**good), options={"verify_signature": False}), ec.generate_private_key(ec.SECP256R1()),
        algorithm="ES256", headers={"kid": "2026-ES256"})
    bad = {
        "expired": issue(seconds=-5, **good), "no end": issue(exp=None, **good), "another audience": issue(aud="other", **good),
        "no audience": issue(aud=None, **good), "another issuer": issue(iss="https://other.example", **good),
        "not yet": issue(nbf=int(time.time()) + 300, **good), "forged": forged, "unsigned": unsigned, "stranger": stranger,
    }
    for what, token in bad.items():
        with pytest.raises(jwt.InvalidTokenError):
            jwt.decode(token, public, algorithms=["ES256"], audience="throng", issuer="https://issuer.example",
                       options={"require": ["exp"]})
        status, fields, text = await fetch(world, channel, token=token)
        assert status == 401 and 'error="invalid_token"' in fields["WWW-Authenticate"], f"{what}: {status} {text}"
    far = issue(seconds=90_000, **good)
    status, _, text = await fetch(world, channel, token=far)
    assert status == 401 and "notify_jwt_seconds" in text
    assert (await fetch(world, channel, token=issue(aud=["other", "throng"], **good)))[0] == 204


async def test_events_end_with_their_token(keyed_world):
    """A stream is told until the token ends, says so, and goes on with a new one where it was."""
    world, channel = keyed_world, fresh()
    publisher = issue("HS256", publish=[channel])
    stream = Stream(world, channel, issue(seconds=4, subscribe=[channel]))
    while stream.status is None and not stream.ended.is_set():
        await asyncio.sleep(0.02)
    assert stream.status == 200
    assert (await fetch(world, channel, b"one", publisher))[0] == 200
    assert await stream.until(1) == ["message"]
    assert json.loads(stream.got[0])["data"] == "one"
    assert await asyncio.to_thread(stream.ended.wait, 20), "four seconds, and up to four more, and what the machine takes"
    assert stream.kinds == ["message", "expired"]
    assert (await fetch(world, channel, b"two", publisher))[0] == 200
    again = Stream(world, f"{channel}?after=1", issue(subscribe=[channel]))
    assert await again.until(1) == ["message"] and json.loads(again.got[0])["data"] == "two"


async def test_a_reload_takes_back_tokens_and_keys(keyed_world):
    """`throng ctl reload`: a token by its name, then a key; and files that are wrong change nothing."""
    world, server, channel = keyed_world, keyed_world.server, fresh()
    tokens = {"revoked": issue(subscribe=["*"], jti="taken-back"), "other": issue("EdDSA", subscribe=["*"])}
    streams = {name: Stream(world, channel, token) for name, token in tokens.items()}
    while any(stream.status is None and not stream.ended.is_set() for stream in streams.values()):
        await asyncio.sleep(0.02)
    try:
        server.revoked.write_text("# by hand\ntaken-back\n")
        code, said = await asyncio.to_thread(server.reload)
        assert code == 0 and "notify_jwt_keys" in said, said
        assert await asyncio.to_thread(streams["revoked"].ended.wait, 20) and streams["revoked"].kinds == ["expired"]
        status, _, text = await fetch(world, channel, token=tokens["revoked"])
        assert status == 401 and "revoked" in text
        assert not streams["other"].ended.is_set()
        for wrong in ("{", '{"keys":[]}', '{"keys":[{"kty":"oct","k":"AAAA"}]}'):
            server.keys.write_text(wrong)
            code, said = await asyncio.to_thread(server.reload)
            assert code != 0 and "notify_jwt_keys" in said, said
        assert (await fetch(world, channel, token=tokens["other"]))[0] == 204, "the old keys count"
        server.keys.write_text(json.dumps({"keys": [jwk("ES256", "2026-ES256")]}))
        assert (await asyncio.to_thread(server.reload))[0] == 0
        assert await asyncio.to_thread(streams["other"].ended.wait, 20) and streams["other"].kinds == ["expired"]
        assert (await fetch(world, channel, token=tokens["other"]))[0] == 401
        assert (await fetch(world, channel, token=issue(subscribe=["*"])))[0] == 204
    finally:
        server.keys.write_text(JWKS)
        server.revoked.write_text("")
        assert (await asyncio.to_thread(server.reload))[0] == 0


async def test_a_forger_does_not_keep_others_out(keyed_world):
    """Hundreds of forged tokens of one address: it is told to wait, and a token that is known goes on to count."""
    world, channel = keyed_world, fresh()
    good = issue(subscribe=[channel])
    # Each thread knows it before.
    for _ in range(40):
        assert (await fetch(world, channel, token=good))[0] == 204
    forged = good[:-8] + "AAAAAAAA"
    began, statuses = time.monotonic(), []
    while time.monotonic() - began < WAIT and 429 not in statuses[-20:]:
        statuses.append((await fetch(world, channel, token=forged))[0])
    assert set(statuses) == {401, 429}, set(statuses)
    for _ in range(20):
        assert (await fetch(world, channel, token=good))[0] == 204
    # Others of this address may be late: their tests wait until it has been forgiven.
    await asyncio.sleep(6)


async def test_xmpp_users_do_not_read_what_needs_a_token(keyed_world):
    """XEP-0060 4.5, 8.1: the node behind such a channel is for members, and users make none of its names."""
    world, channel = keyed_world, fresh()
    assert (await fetch(world, channel, b"secret", issue(publish=[channel])))[0] == 200
    romeo = await world.online("slixmpp")
    for plugin in ("xep_0059", "xep_0060"):
        romeo.client.register_plugin(plugin)
    pubsub, service = romeo.client.plugin["xep_0060"], f"pubsub.{DOMAIN}"
    for doing in (pubsub.get_items(service, channel), pubsub.subscribe(service, channel), pubsub.create_node(service, fresh())):
        with pytest.raises(Exception) as refused:
            await romeo._iq(doing)
        assert "secret" not in str(refused.value)
