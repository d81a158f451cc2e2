"""The table of hostile kinds: where in a stream it comes, what is sent, and what RFC 6120 says to it."""

import base64
import random
from dataclasses import dataclass, field
from typing import Callable

from server import COMPONENT as COMPONENT_DOMAIN
from wire import END, HEADER, bind, plain

NS_SASL = b"urn:ietf:params:xml:ns:xmpp-sasl"
# Where a kind strikes; `wave.reach` gets there.
RAW, TLS, OPEN, CHALLENGED, AUTHED, RESTARTED, BOUND, MANAGED, PROCEED, COMPONENT, CLAIMED = (
    "raw", "tls", "open", "challenged", "authenticated", "restarted", "bound", "managed", "proceed", "component", "claimed",
)  # fmt: skip


@dataclass
class Kind:
    """`chunks(i)` is what the i-th connection sends, a list or an endless generator; the same for i + variants.

    `expect` is one condition or several that are as good; `how` says of what: `stream` (4.9.3, the server closes),
    `sasl` (6.5) and `stanza` (8.3.3), where the stream goes on, `http`: statuses of all responses, `frames`: the code of the last
    frame or the stream's condition before it, `bosh`: the condition of XEP-0124 17.3, or `silence`: closed, without a word of XMPP.
    """

    name: str
    clause: str
    stage: str
    expect: tuple
    chunks: Callable
    how: str = "stream"
    variants: int = 1
    pause_s: float = 0.0
    # Connections of this kind for each one of the usual kinds.
    weight: float = 1.0
    traits: dict = field(default_factory=dict)


def endless(start, filler):
    """`start`, then `filler` for ever. The wave gives up at a bound far past every limit of the server."""

    def chunks(_):
        yield start
        block = filler * (16384 // len(filler))
        while True:
            yield block

    return chunks


def one(*variants):
    """Each connection sends one of these."""
    return lambda i: [variants[i % len(variants)]]


def kind(name, clause, stage, expect, *variants, **more):
    expect = (expect,) if isinstance(expect, str) else tuple(expect)
    more.setdefault("variants", len(variants))
    return Kind(name, clause, stage, expect, one(*variants), **more)


def message(inner, attributes=b" to='juliet@localhost'"):
    return b"<message" + attributes + b"><body>" + inner + b"</body></message>"


def sasl(name, payload=b"", mechanism=None):
    attribute = b" mechanism='" + mechanism + b"'" if mechanism else b""
    return b"<" + name + b" xmlns='" + NS_SASL + b"'" + attribute + b">" + payload + b"</" + name + b">"


def header(**changes):
    """A stream header with some attributes other than they should be; None leaves one out."""
    attributes = {
        "xmlns": "jabber:client",
        "xmlns:stream": "http://etherx.jabber.org/streams",
        "to": "localhost",
        "version": "1.0",
    }
    attributes.update({key.replace("__", ":"): value for key, value in changes.items()})
    written = "".join(f" {key}='{value}'" for key, value in attributes.items() if value is not None)
    return f"<stream:stream{written}>".encode()


def component_header(to=COMPONENT_DOMAIN, content="jabber:component:accept"):
    """The header of a component's stream (XEP-0114 3)."""
    stream = "http://etherx.jabber.org/streams"
    return f"<stream:stream xmlns='{content}' xmlns:stream='{stream}' to='{to}'>".encode()


# UTF-8 that RFC 3629 3 and 4 exclude: overlong forms, surrogates, past U+10FFFF, continuations and starts alone.
BAD_UTF8 = [
    b"\x80", b"\xc0\xaf", b"\xc3\x28", b"\xe0\x80\x80", b"\xe2\x82", b"\xed\xa0\x80",
    b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xff", b"\xfe",
]  # fmt: skip


def in_every_split(documents):
    """Each document in two pieces, cut at every place there is, and once byte by byte."""
    cuts = [[text[:at], text[at:]] for text in documents for at in range(1, len(text))]
    cuts += [[text[at : at + 1] for at in range(len(text))] for text in documents]
    return (lambda i: cuts[i % len(cuts)]), len(cuts)


def bad_utf8_kinds():
    places = {
        RAW: [b"<stream:stream to='" + bad + b"' >" for bad in BAD_UTF8],
        OPEN: [b"<auth a='" + bad + b"'>" for bad in BAD_UTF8],
        BOUND: [message(bad, b"") for bad in BAD_UTF8],
    }
    for stage, documents in places.items():
        chunks, variants = in_every_split(documents)
        yield Kind(
            f"invalid UTF-8 in every split, {stage}", "4.9.3.22, 11.6", stage, ("unsupported-encoding",), chunks,
            variants=variants, pause_s=0.002, weight=2.0,
        )  # fmt: skip


def laughs():
    entities = b"".join(
        b"<!ENTITY lol%d '" % n + b"&lol%d;" % (n - 1) * 10 + b"'>" for n in range(1, 10)
    )
    return b"<!DOCTYPE lolz [<!ENTITY lol0 'lol'>" + entities + b"]>"


def noise(seed, size=8192):
    return random.Random(seed).randbytes(size)


CLIENT_HELLO = bytes.fromhex("16030100c8010000c40303") + random.Random(7).randbytes(32) + bytes(155)
TLS_ALERT = bytes.fromhex("15030300020228")
TLS_DATA = bytes.fromhex("1703030400") + random.Random(8).randbytes(1024)
HTTP = [
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /http-bind HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"CONNECT localhost:22 HTTP/1.0\r\n\r\n",
]
TOO_DEEP = b"<a>" * 10_000
MANY = b" ".join(b"a%d='x'" % n for n in range(10_000))
SCRAM_FIRST = sasl(b"auth", base64.b64encode(b"n,,n=mallory0,r=fyko+d2lbbFgONRv9qkxdawL"), b"SCRAM-SHA-256")
ROGUE_NS = b" xmlns='urn:example:rogue'"


def all_kinds(stanza_max):
    over = message(b"x" * stanza_max, b"")
    return [
        # 13.12: the server bounds what it takes; 4.9.3.14 is what it says at the bound.
        Kind("endless start tag, first", "4.9.3.14", RAW, ("policy-violation",), endless(HEADER[:-1] + b" a='", b"a")),
        Kind("endless start tag, open", "4.9.3.14", OPEN, ("policy-violation",), endless(b"<message a='", b"a")),
        Kind("endless start tag, bound", "4.9.3.14", BOUND, ("policy-violation",), endless(b"<message a='", b"a"), weight=0.5),
        Kind("endless name", "4.9.3.14", OPEN, ("policy-violation",), endless(b"<", b"a")),
        Kind("endless white space in a tag", "4.9.3.14", OPEN, ("policy-violation",), endless(b"<message", b" ")),
        Kind("endless text, open", "4.9.3.14", OPEN, ("policy-violation",), endless(b"<message><body>", b"text ")),
        Kind("endless text, bound", "4.9.3.14", BOUND, ("policy-violation",), endless(b"<message><body>", b"text "), weight=0.5),
        Kind("endless CDATA", "4.9.3.14", BOUND, ("policy-violation",), endless(b"<message><body><![CDATA[", b"]] "), weight=0.5),
        kind("stanza over the limit", "4.9.3.14, 13.12", BOUND, "policy-violation", over, weight=0.5),
        kind("depth 10,000, open", "4.9.3.14", OPEN, "policy-violation", TOO_DEEP),
        kind("depth 10,000, bound", "4.9.3.14", BOUND, "policy-violation", b"<message>" + TOO_DEEP),
        kind("10,000 attributes, first", "4.9.3.14", RAW, "policy-violation", HEADER[:-1] + b" " + MANY + b">"),
        kind("10,000 attributes, open", "4.9.3.14", OPEN, "policy-violation", b"<auth " + MANY + b"/>"),
        kind("10,000 attributes, bound", "4.9.3.14", BOUND, "policy-violation", b"<message " + MANY + b"/>"),
        kind("10,000 children", "4.9.3.14", BOUND, "policy-violation", b"<message>" + b"<a/>" * 10_000 + b"</message>"),
        *bad_utf8_kinds(),
        kind(
            "other encodings", "4.9.3.22, 11.6", RAW, "unsupported-encoding",
            "<?xml version='1.0'?>".encode("utf-16"), b"<?xml version='1.0' encoding='ISO-8859-1'?>" + header(),
        ),
        kind("DTD, billion laughs", "4.9.3.18, 11.1", RAW, "restricted-xml", b"<?xml version='1.0'?>" + laughs() + header(), laughs()),
        kind("DTD inside a stream", "4.9.3.18, 11.1", OPEN, "restricted-xml", laughs(), b"<!DOCTYPE a>", b"<!ENTITY a 'b'>"),
        kind(
            "entities", "4.9.3.18, 11.1", BOUND, "restricted-xml",
            message(b"&lol9;"), b"<message to='&lol9;'/>", message(b"&nbsp;"),
        ),
        kind("comments and processing instructions", "4.9.3.18, 11.1", BOUND, "restricted-xml", b"<!-- -->", b"<?php ?>", message(b"<!-- x -->")),
        kind(
            "characters that XML excludes", "4.9.3.13, XML 2.2", BOUND, "not-well-formed",
            message(b"&#0;"), message(b"&#xD800;"), message(b"\x00"), message(b"\x1b[2J"), message(b"\xef\xbf\xbf"), message(b"&#99999999999;"),
        ),
        kind(
            "undefined prefixes", "4.9.3.13, Namespaces 5", OPEN, "not-well-formed",
            b"<foo:auth/>", b"<auth foo:a='b'/>", b"<message><foo:body/></message>", b"<b><a xmlns:foo='u'/><foo:b/></b>",
        ),
        kind("undefined prefix, first", "4.9.3.13, Namespaces 5", RAW, "not-well-formed", header(xmlns__stream=None)),
        kind(
            "prefixes redeclared against the rules", "4.9.3.13, Namespaces 3, 6.3", OPEN, "not-well-formed",
            b"<auth xmlns:xml='urn:x'/>", b"<auth xmlns:xmlns='urn:x'/>", b"<auth xmlns:p=''/>", b"<auth xmlns='u' xmlns='v'/>",
            b"<auth xmlns:p='u' xmlns:p='v'/>", b"<auth xmlns:p='u' xmlns:q='u' p:a='1' q:a='2'/>",
            b"<auth xmlns:p='http://www.w3.org/XML/1998/namespace'/>",
        ),
        kind(
            "stream prefix redeclared", "4.9.3.24", BOUND, "unsupported-stanza-type",
            b"<stream:message xmlns:stream='urn:example:rogue'/>",
        ),
        kind(
            "stanzas of servers", "4.9.3.10", BOUND, "invalid-namespace",
            b"<message xmlns='jabber:server'/>", b"<stream:error xmlns:stream='jabber:server'/>",
        ),
        kind("wrong stream namespace", "4.9.3.10", RAW, "invalid-namespace", header(xmlns__stream="urn:example:rogue")),
        kind("wrong content namespace", "4.9.3.10", RAW, "invalid-namespace", header(xmlns="jabber:server"), header(xmlns="urn:example:rogue")),
        kind("no stream prefix", "4.9.3.2", RAW, "bad-namespace-prefix", header().replace(b"<stream:stream", b"<stream")),
        kind("first element is no stream", "4.9.3.1", RAW, "bad-format", header().replace(b"<stream:stream", b"<stream:flood")),
        kind("unknown host", "4.9.3.6", RAW, "host-unknown", header(to="example.net"), header(to="\u2603@@")),
        kind("unsupported version", "4.9.3.25", RAW, "unsupported-version", header(version=None), header(version="0.9"), header(version="x")),
        kind(
            "wrong namespace of a stanza", "4.9.3.24", BOUND, "unsupported-stanza-type",
            b"<iq" + ROGUE_NS + b"/>", b"<flood/>", b"<message xmlns=''/>",
        ),
        kind(
            "not well-formed", "4.9.3.13", BOUND, "not-well-formed",
            b"<message></iq>", b"</message>", b"<message a=b/>", b"<message a='<'/>", message(b"]]>"), b"<message a='1' a='2'/>", b"<1/>", message(b"& "),
        ),
        kind("text between stanzas", "4.9.3.1", BOUND, "bad-format", b"hello", b"<message/>]"),
        kind("stanzas before the stream", "4.9.3.10", RAW, "invalid-namespace", message(b"hi"), b"<iq xmlns='jabber:client' type='get' id='1'><q/></iq>", plain("mallory0")),
        kind("first element is whole", "4.9.3.1", RAW, "bad-format", b"<presence/>", b"<iq xmlns='jabber:client'/>", HEADER[:-1] + b"/>"),
        kind(
            "stanzas before authentication", "4.9.3.12", OPEN, "not-authorized",
            message(b"hi"), b"<presence/>", b"<iq type='get' id='1'><query xmlns='jabber:iq:roster'/></iq>",
            b"<iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>", b"<r xmlns='urn:xmpp:sm:3'/>",
        ),
        kind("stanzas during authentication", "4.9.3.12", CHALLENGED, "not-authorized", message(b"hi"), b"<presence/>"),
        kind("stanzas before binding", "4.9.3.12, 7.1", RESTARTED, "not-authorized", message(b"hi"), b"<presence/>", b"<iq type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>"),
        kind("second <auth/>, before the restart", "4.9.3.10", AUTHED, "invalid-namespace", plain("mallory0")),
        kind("second <auth/>, after the restart", "4.9.3.12", RESTARTED, "not-authorized", plain("mallory0")),
        kind("second <auth/>, bound", "4.9.3.24", BOUND, "unsupported-stanza-type", plain("mallory0")),
        kind("<auth/> in place of a response", "6.4.2, 6.5.10", CHALLENGED, "not-authorized", plain("trudy0", "wrong"), how="sasl"),
        kind("no restart after success", "4.9.3.10, 6.4.6", AUTHED, "invalid-namespace", bind(), message(b"hi")),
        kind("stream ended in place of a restart", "4.9.3.13", AUTHED, "not-well-formed", END),
        kind("restart out of place, open", "4.9.3.18, 11.1", OPEN, "restricted-xml", HEADER),
        kind("restart out of place, during authentication", "4.9.3.18, 11.1", CHALLENGED, "restricted-xml", HEADER),
        kind("restart out of place, bound", "4.9.3.18, 11.1", BOUND, "restricted-xml", HEADER),
        kind("stream in a stream, open", "4.9.3.12", OPEN, "not-authorized", header() + END),
        kind("stream in a stream, bound", "4.9.3.24", BOUND, "unsupported-stanza-type", header() + END),
        Kind(
            "binary noise, first", "4.9.3.13", RAW, ("not-well-formed", "unsupported-encoding", "restricted-xml"),
            lambda i: [noise(i)], variants=1 << 30,
        ),
        Kind(
            "binary noise, bound", "4.9.3.1, 4.9.3.13", BOUND, ("not-well-formed", "unsupported-encoding", "bad-format"),
            lambda i: [noise(i)], variants=1 << 30,
        ),
        Kind(
            "binary noise in text", "4.9.3.13, 4.9.3.18, 4.9.3.22", BOUND, ("not-well-formed", "unsupported-encoding", "restricted-xml"),
            lambda i: [b"<message><body>" + noise(i)], variants=1 << 30,
        ),
        kind("TLS records on the plain listener", "4.9.3.13", RAW, "not-well-formed", CLIENT_HELLO, TLS_ALERT, TLS_DATA),
        kind("TLS records in a stream", "4.9.3.1, 4.9.3.13", OPEN, ("not-well-formed", "bad-format"), CLIENT_HELLO, TLS_ALERT, TLS_DATA),
        kind("HTTP on the plain listener", "4.9.3.13", RAW, "not-well-formed", *HTTP),
        kind("plain stream on the TLS listener", "RFC 8446 6", TLS, "closed", HEADER, header(), how="silence"),
        kind("HTTP on the TLS listener", "RFC 8446 6", TLS, "closed", *HTTP, how="silence"),
        Kind("binary noise on the TLS listener", "RFC 8446 6", TLS, ("closed",), lambda i: [noise(i)], how="silence", variants=1 << 30),
        kind("TLS records out of order", "RFC 8446 6", TLS, "closed", TLS_DATA, CLIENT_HELLO[:5] + noise(3, 200), how="silence"),
        kind("<starttls/> with more behind it", "4.9.3.14, 5.4.3.3", OPEN, "policy-violation", b"<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>" + plain("mallory0")),
        kind("plain text in place of a handshake", "5.4.3.2", PROCEED, "closed", HEADER, HTTP[0], TLS_DATA, how="silence"),
        kind("unknown mechanism", "6.5.7", OPEN, "invalid-mechanism", sasl(b"auth", b"", b"ROT13"), sasl(b"auth"), how="sasl"),
        kind("broken base64", "6.5.5", OPEN, "incorrect-encoding", sasl(b"auth", b"\xe2\x98\x83", b"PLAIN"), sasl(b"auth", b"=AAA", b"PLAIN"), how="sasl"),
        kind("malformed credentials", "6.5.8", OPEN, "malformed-request", sasl(b"auth", b"AAAA", b"PLAIN"), sasl(b"auth", b"YWJj", b"SCRAM-SHA-256"), how="sasl"),
        kind("aborted", "6.5.1", CHALLENGED, "aborted", sasl(b"abort"), how="sasl"),
        Kind(
            "wrong password", "6.5.10", OPEN, ("not-authorized", "temporary-auth-failure"),
            lambda i: [plain(f"trudy{i % 64}", "wrong")], how="sasl", variants=64, weight=0.25,
        ),
        kind("too many failures", "4.9.3.14, 6.4.5", OPEN, "policy-violation", sasl(b"auth", b"", b"ROT13") * 3),
        kind("another's from", "4.9.3.9", BOUND, "invalid-from", b"<message from='juliet@localhost' to='romeo@localhost'/>", b"<presence from='localhost'/>"),
        kind("acknowledging what was never sent", "4.9.3.21, XEP-0198 4", MANAGED, "undefined-condition", b"<a xmlns='urn:xmpp:sm:3' h='4000000000'/>"),
        kind(
            "component: domains that are none's", "XEP-0114 3, 4.9.3.6", COMPONENT, "host-unknown",
            component_header("localhost"), component_header("nobody.localhost"), component_header("a@rogue.localhost"),
        ),
        kind("component: other content", "XEP-0114 3, 4.9.3.10", COMPONENT, "invalid-namespace", HEADER, component_header(content="jabber:server")),
        Kind("component: endless header", "4.9.3.14", COMPONENT, ("policy-violation",), endless(component_header()[:-1] + b" a='", b"a")),
        Kind(
            "component: wrong secrets", "XEP-0114 3, 4.9.3.12", CLAIMED, ("not-authorized",),
            lambda i: [b"<handshake>" + noise(i, 20).hex().encode() + b"</handshake>"], variants=1 << 30,
        ),
        kind(
            "component: too early", "XEP-0114 3, 4.9.3.12", CLAIMED, "not-authorized", b"<handshake/>", plain("mallory0"),
            b"<message from='x@rogue.localhost' to='juliet@localhost'><body>forged</body></message>",
            b"<handshake xmlns='urn:x'/>", b"<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>",
        ),
        Kind("component: endless secret", "4.9.3.14", CLAIMED, ("policy-violation",), endless(b"<handshake>", b"a")),
        kind("component: away", "8.3.3.17", BOUND, "remote-server-timeout", b"<message to='x@rogue.localhost' id='1'><body>x</body></message>", b"<iq to='rogue.localhost' type='get' id='1'><q xmlns='u'/></iq>", how="stanza"),
        kind("malformed address", "8.3.3.8", BOUND, "jid-malformed", b"<message to='@localhost' id='1'><body>x</body></message>", b"<iq to='a b@localhost' type='get' id='1'><q xmlns='u'/></iq>", how="stanza"),
        kind("elsewhere", "8.3.3.16", BOUND, "remote-server-not-found", b"<message to='a@example.net' id='1'><body>x</body></message>", how="stanza"),
        kind("malformed requests", "8.3.3.1", BOUND, "bad-request", b"<iq type='get' id='1'/>", b"<iq type='steal' id='1'><q xmlns='u'/></iq>", b"<iq id='1'><q xmlns='u'/></iq>", how="stanza"),
        kind("nobody of that name", "8.3.3.19", BOUND, "service-unavailable", b"<message to='nobody@localhost' id='1'><body>x</body></message>", b"<iq to='nobody@localhost' type='get' id='1'><q xmlns='u'/></iq>", how="stanza"),
    ]  # fmt: skip
