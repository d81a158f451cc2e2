"""The table of hostile kinds for HTTP (RFC 9110, 9112) and WebSocket (RFC 6455, 7395): as `kinds.py`, for the listeners of browsers."""

from kinds import BAD_UTF8, CLIENT_HELLO, HTTP, TLS_DATA, TOO_DEEP, Kind, endless, kind, laughs, noise
from server import PAGE
from wire import HEADER
from web_wire import BINARY, CLOSE, CONTINUATION, FIN, OPEN, PING, TEXT, frame, text, upgrade

# Where a kind strikes.
WEB, HTTPS, UPGRADED, WEB_BOUND = "HTTP", "HTTPS", "WebSocket", "WebSocket, bound"
HOST = b"Host: localhost\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"
META = b"/.well-known/host-meta"
# More than is taken before a login.
LONG = 17 << 10


def post(*lines, body=b"", path=b"/", method=b"POST", version=b"1.1"):
    """A request with these lines in its head."""
    return method + b" " + path + b" HTTP/" + version + b"\r\n" + HOST + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


def http(name, clause, expect, *variants, **more):
    return kind(name, clause, WEB, expect, *variants, how="http", **more)


def code(name, clause, stage, expect, *variants, **more):
    return kind(name, clause, stage, expect, *variants, how="frames", **more)


def web_kinds(stanza_max):
    long = b"<message xmlns='jabber:client'><body>" + b"x" * stanza_max + b"</body></message>"
    closing = "Upgrade, close"
    return [
        # RFC 9112 11.2: what one reader takes in one way and the next in another is refused, with all that comes behind it.
        http(
            "HTTP: lengths to be read in two ways", "RFC 9112 6.3, 11.2", "400",
            *(post(*lines, body=b"0\r\n\r\n" + GET) for lines in [
                (b"Content-Length: 5", b"Transfer-Encoding: chunked"), (b"Transfer-Encoding: chunked", b"Content-Length: 5"),
                (b"Content-Length: 5", b"Content-Length: 6"), (b"Content-Length: 5", b"Content-Length: 5"), (b"Content-Length: 5, 5",),
                (b"Content-Length: +5",), (b"Content-Length: 0x5",), (b"Content-Length: 99999999999999999999",), (b"Content-Length:",),
                (b"Transfer-Encoding: chunked, identity",), (b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"),
                (b"Content-Length : 5",), (b"Transfer-Encoding : chunked",), (b"X: 1\r\n Content-Length: 5",),
            ]),
            post(b"Transfer-Encoding: chunked", body=b"0\r\n\r\n" + GET, version=b"1.0"),
        ),
        http(
            "HTTP: lines to be read in two ways", "RFC 9112 2.2, 5.1, 5.2", "400",
            *(post(line) for line in [
                b"X: 1\r\n folded", b"X: 1\r\n\tfolded", b" X: 1", b"X: 1\nContent-Length: 5", b"X: 1\rContent-Length: 5",
                b"X: a\0b", b"X", b": 1", b"X(: 1", b"Host: example.net",
            ]),
            GET.replace(b"\r\n", b"\n"), b"GET / HTTP/1.1\r\n\r\n", b"GET  / HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: u@localhost\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
            b"GET http://localhost HTTP/1.1\r\n" + HOST + b"\r\n", b"GET /\x7f HTTP/1.1\r\n" + HOST + b"\r\n",
        ),
        # No path takes a body: what stands in one is never read as a request.
        http("HTTP: a request within a body, with a wrong method", "RFC 9112 6.3", "405", post(b"Content-Length: %d" % len(GET), body=GET)),
        http("HTTP: a request within a body, wrong method", "RFC 9110 15.5.6", "405", post(b"Content-Length: %d" % len(GET), body=GET, path=META)),
        http(
            "HTTP: a body that is not taken", "RFC 9110 15.5.14", "413",
            post(b"Content-Length: 5", body=b"hello", path=META, method=b"GET"),
            post(b"Content-Length: 999999999999999999", path=META, method=b"GET"),
            post(b"Content-Length: 5", b"Expect: 100-continue", path=META, method=b"GET"),
            upgrade("Content-Length: 3").replace(b"\r\n\r\n", b"\r\n\r\n\x81\x80\0"),
            *(post(b"Transfer-Encoding: chunked", body=body + GET, path=META, method=b"GET") for body in [
                b"5\r\nhello\r\n0\r\n\r\n", b"ffffffffffffffff\r\n", b"-1\r\nx\r\n", b"0x1\r\nx\r\n", b"1\nx\r\n", b"1\r\nxy\r\n",
                b"1;" + b"x" * 4096 + b"\r\n", b"0\r\nX: 1\n\r\n",
            ]),
        ),
        http("HTTP: nonsense behind a request", "RFC 9112 2.2", "404, 400", GET + b"\x16\x03\x01\r\n\r\n", GET + b"G\0T\r\n\r\n", GET + b"X\n\n"),
        http("HTTP: more requests than are answered", "RFC 9112 9.3.2, 9.6", "404 (100)", GET * 150),
        Kind("HTTP: endless address", "RFC 9110 15.5.15", WEB, ("414",), endless(b"GET /", b"a"), how="http"),
        Kind("HTTP: endless field", "RFC 6585 5", WEB, ("431",), endless(GET[:-2] + b"X: ", b"a"), how="http"),
        Kind("HTTP: endless fields", "RFC 6585 5", WEB, ("431",), endless(GET[:-2], b"X: aaaaaaaaaaa\r\n"), how="http"),
        http("HTTP: 65 fields", "RFC 6585 5", "431", GET[:-2] + b"X: 1\r\n" * 64 + b"\r\n"),
        http("HTTP: other versions", "RFC 9110 15.6.6", "505", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/3.0\r\n" + HOST + b"\r\n"),
        http("HTTP: other methods and codings", "RFC 9110 15.6.2", "501", post(method=b"BREW"), post(method=b"get"), post(b"Transfer-Encoding: gzip, chunked")),
        http("HTTP: other expectations", "RFC 9110 15.5.18", "417", post(b"Expect: more")),
        http("HTTP: what is none", "RFC 9112 3", "400", HEADER + b"\r\n\r\n", CLIENT_HELLO + b"\r\n\r\n", TLS_DATA + b"\r\n\r\n", text(OPEN) + b"\r\n\r\n"),
        kind("plain HTTP on the HTTPS listener", "RFC 8446 6", HTTPS, "closed", *HTTP, GET, upgrade(), how="silence"),
        # RFC 6455 4.2.
        http(
            "WebSocket: pages of other origins", "RFC 6455 4.2.2, 10.2", "403",
            *(upgrade(*fields, connection=closing) for fields in [
                ("Origin: https://evil.example",), ("Origin: null",), (f"Origin: {PAGE}.evil.example",), (f"Origin: {PAGE}@evil.example",),
                (f"Origin: {PAGE}", "Origin: https://evil.example"), ("Origin: ",), (f"Origin: {PAGE.replace('https', 'http')}",),
            ]),
        ),
        http(
            "WebSocket: opened wrongly", "RFC 6455 4.2.1, RFC 7395 3.1", "400",
            upgrade(key=""), upgrade(key="AAAA"), upgrade(key="not base64"), upgrade("Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="),
            upgrade(protocol="chat"), upgrade(protocol="XMPP"),
        ),
        http(
            "WebSocket: another protocol", "RFC 6455 4.4", "426", upgrade(version="8", connection=closing),
            upgrade(version="13, 8", connection=closing), upgrade("Sec-WebSocket-Version: 8", connection=closing),
            GET.replace(b"GET /", b"GET /xmpp-websocket").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
        ),
        http("WebSocket: opened behind a request", "RFC 6455 4.2.2", "404, 400", GET + upgrade(), GET + upgrade() + text(OPEN)),
        # RFC 6455 5.
        *(
            code(
                f"frames that are none, {stage}", "RFC 6455 5.1 to 5.5, 7.4.1", stage, "1002",
                frame(FIN | TEXT, OPEN, masked=False), frame(FIN | TEXT, b"", masked=False),
                frame(FIN | 0x40 | TEXT, OPEN), frame(FIN | 0x20 | TEXT, OPEN), frame(FIN | 0x10 | TEXT, OPEN),
                *(frame(FIN | opcode, b"x") for opcode in (3, 7, 11, 15)),
                frame(PING, b"in pieces"), frame(CLOSE, b"\x03\xe8"), frame(FIN | PING, b"x" * 126), frame(FIN | CLOSE, b"\x03\xe8" + b"x" * 125),
                frame(FIN | CLOSE, b"\x03"), *(frame(FIN | CLOSE, number.to_bytes(2)) for number in (0, 999, 1004, 1005, 1006, 1015, 2999, 5000)),
                bytes([FIN | TEXT, 0x80 | 126, 0, 5]), bytes([FIN | TEXT, 0x80 | 127, 0, 0, 0, 0, 0, 0, 0, 200]), bytes([FIN | TEXT, 0x80 | 127, 0x80, 0, 0, 0, 0, 0, 0, 0]),
                frame(FIN | CONTINUATION, b"x"), frame(CONTINUATION, b"x"), frame(TEXT, b"<a") + text(OPEN), frame(TEXT, b"<a") + frame(FIN | BINARY, b"x"),
            )
            for stage in (UPGRADED, WEB_BOUND)
        ),
        code("garbage behind the upgrade", "RFC 6455 5.2", UPGRADED, "1002", GET, HEADER, upgrade(), CLIENT_HELLO[3:] + b"\xff" * 9, b"\r\n\r\n"),
        Kind("noise behind the upgrade", "RFC 6455 7.4.1", UPGRADED, ("1002",), lambda i: [b"\xf0" + noise(i)], how="frames", variants=1 << 30),
        code("binary messages", "RFC 7395 3.2", UPGRADED, "1003", frame(FIN | BINARY, OPEN), frame(BINARY, b"x"), frame(FIN | BINARY)),
        code(
            "messages that are no UTF-8", "RFC 6455 8.1", WEB_BOUND, "1007",
            *(text(b"<message xmlns='jabber:client'><body>" + bad + b"</body></message>") for bad in BAD_UTF8),
            *(b"".join(frame(CONTINUATION, bad[at : at + 1]) if at else frame(TEXT, bad[:1]) for at in range(len(bad))) + frame(FIN | CONTINUATION) for bad in BAD_UTF8),
            frame(FIN | CLOSE, b"\x03\xe8\xff"),
        ),
        code(
            "messages that are too long, not logged in", "RFC 6455 7.4.1", UPGRADED, "1009", text(b" " * LONG), frame(FIN | TEXT, length=1 << 62),
            frame(FIN | TEXT, length=LONG), frame(TEXT, b" " * 4096) + frame(CONTINUATION, length=LONG),
        ),
        code(
            "messages that are too long, bound", "RFC 6455 7.4.1", WEB_BOUND, "1009", text(long), frame(FIN | TEXT, length=(1 << 63) - 1),
            frame(TEXT, long[:stanza_max]) + frame(FIN | CONTINUATION, long[stanza_max:]), weight=0.5,
        ),
        Kind("endless fragments", "RFC 6455 7.4.1", WEB_BOUND, ("1009",), endless(frame(TEXT, b"<a"), frame(CONTINUATION, b"<a>" * 30)), how="frames", weight=0.5),
        code("frames behind the last one", "RFC 6455 5.5.1", WEB_BOUND, "1000", frame(FIN | CLOSE, b"\x03\xe8") + text(long[:99]) * 9 + frame(FIN | PING)),
        # RFC 7395 3.3.3.
        code(
            "messages that hold no element", "RFC 7395 3.3.3", UPGRADED, "bad-format", text(OPEN + OPEN), text(OPEN[:-2]), text(OPEN) + text(OPEN),
            text(b"<message xmlns='jabber:client'/>"), text(b"<close xmlns='urn:x'/>"),
        ),
        code("messages with a DTD", "RFC 6120 4.9.3.18", UPGRADED, "restricted-xml", text(laughs()), text(b"<!-- -->"), text(b"<!DOCTYPE a>")),
        code("messages of great depth", "RFC 6120 4.9.3.14", WEB_BOUND, "policy-violation", text(b"<message xmlns='jabber:client'>" + TOO_DEEP)),
        code("an <open/> of another namespace", "RFC 7395 3.3.2", UPGRADED, "invalid-namespace", text(b"<open xmlns='urn:x' to='localhost' version='1.0'/>")),
        code("an unknown host", "RFC 6120 4.9.3.6", UPGRADED, "host-unknown", text(OPEN.replace(b"localhost", b"example.net"))),
        code("stanzas before authentication, framed", "RFC 6120 4.9.3.12", UPGRADED, "not-authorized", text(OPEN) + text(b"<message xmlns='jabber:client'/>")),
    ]  # fmt: skip
