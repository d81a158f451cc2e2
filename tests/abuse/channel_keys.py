"""Keys and tokens of channels (RFC 7515, 7519): what the server under test is given, and what nobody should take."""

import base64
import hashlib
import hmac
import json
import time

SECRET = b"an issuer's secret of thirty-two bytes or more"
ISSUER, AUDIENCE = "https://issuer.example", "throng"
# The public key of RFC 7517 A.1: everybody knows it, so nothing that it signs as a secret may count.
X, Y = "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4", "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"
PUBLIC = {"kty": "EC", "crv": "P-256", "x": X, "y": Y, "kid": "public"}


def written(content):
    """Base64url without padding (RFC 7515 2)."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


JWKS = json.dumps({"keys": [{"kty": "oct", "kid": "shared", "k": written(SECRET)}, PUBLIC]})
# DER of the same key (RFC 5480 2): what a confused reader would take for the secret.
DER = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004") + b"".join(
    base64.urlsafe_b64decode(part + "=") for part in (X, Y)
)
PEM = b"-----BEGIN PUBLIC KEY-----\n" + base64.encodebytes(DER).replace(b"\n", b"") + b"\n-----END PUBLIC KEY-----\n"


def claims(**changes):
    """What a good token claims, but for what is given; None leaves one out."""
    usual = {"iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + 3600, "subscribe": ["own.a"], "publish": ["own.a"]}
    return {name: value for name, value in (usual | changes).items() if value is not None}


def signed(content, key=SECRET, digest=hashlib.sha256, **header):
    """A token by an HMAC."""
    head = {"alg": "HS256", "kid": "shared"} | header
    text = ".".join(written(json.dumps(part).encode()) for part in ({k: v for k, v in head.items() if v is not None}, content))
    return f"{text}.{written(hmac.new(key, text.encode(), digest).digest())}"


def good(**changes):
    """A token that counts."""
    return signed(claims(**changes))


def resigned(token, signature):
    """The same token with another signature."""
    return f"{token.rpartition('.')[0]}.{signature}"


def confused():
    """Tokens that no key has signed as it should have, or that were issued for somebody or something else (RFC 8725)."""
    now = int(time.time())
    usual = claims()
    body, *_ = written(json.dumps(usual).encode()).split(".")
    unsigned = lambda algorithm: f"{written(json.dumps({'alg': algorithm}).encode())}.{body}."
    elliptic = signed(usual, alg="ES256", kid="public")
    return [
        # No signature (RFC 8725 3.1).
        *(unsigned(name) for name in ("none", "None", "NONE", "nOnE", "", "HS256", "ES256")),
        good().rpartition(".")[0], good().rpartition(".")[0] + ".", resigned(good(), "A" * 43), resigned(good(), written(b"\0" * 32)),
        # A public key as a secret (RFC 8725 2.1).
        *(signed(usual, key, kid=kid) for key in (DER, PEM, X.encode(), json.dumps(PUBLIC).encode()) for kid in ("public", "shared", None)),
        # A secret as a public key, and signatures of zeros and of ones.
        elliptic, *(resigned(elliptic, written(part * 64)) for part in (b"\0", b"\1", b"\xff")), resigned(elliptic, ""),
        # Other algorithms, names of keys that lead elsewhere, keys that come along (RFC 8725 3.1, 3.10).
        signed(usual, digest=hashlib.sha512, alg="HS512"), signed(usual, alg="RS256"), signed(usual, alg="EdDSA"), signed(usual, alg=["HS256"]),
        *(signed(usual, b"", kid=kid) for kid in ("../../../dev/null", "/dev/null", "' OR 1=1", "shared\0", "x" * 200)),
        signed(usual, b"own", jwk={"kty": "oct", "k": written(b"own")}, kid=None), signed(usual, b"own", jku="https://evil.example/keys", kid=None),
        signed(usual, crit=["exp"]), signed(usual, typ="secevent+jwt"), signed(usual, cty="JWT"), signed(usual, b"own"),
        # For somebody else, by somebody else, too early, too late, for ever (RFC 8725 3.8, 3.9).
        *(signed(claims(aud=aud)) for aud in (None, "other", [], ["other"], "Throng", 7, {"throng": 1})),
        *(signed(claims(iss=iss)) for iss in (None, "https://evil.example", ISSUER + "/", [ISSUER])),
        *(signed(claims(exp=exp)) for exp in (None, now - 60, 0, -1, 1e300, str(now + 60), True)), signed(claims(nbf=now + 3600)),
        # Nonsense.
        "a", "..", "a.b.c", good() + ".x", good().replace(".", ".=", 1), "x" * 4097, signed(["own.a"]), signed(claims(subscribe="own.a")),
    ]  # fmt: skip
