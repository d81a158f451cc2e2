"""The table of hostile kinds for channels (`/n/`), the Mercure hub and BOSH (XEP-0124): as `web_kinds.py`. Nothing that any of them
says may be published; `channel_siege.nothing_came` looks."""

from channel_keys import claims, confused, good, signed
from kinds import BAD_UTF8, TOO_DEEP, Kind, endless, kind, laughs
from server import PAGE
from web_kinds import GET, HOST, WEB
from web_wire import BINARY, CLOSE, CONTINUATION, FIN, PING, TEXT, frame, text, upgrade

# A WebSocket that waits for a channel.
SUBSCRIBED = "WebSocket, subscribed"
HTTPBIND = b"http://jabber.org/protocol/httpbind"
EVIL = ["https://evil.example", "null", f"{PAGE}.evil.example", f"{PAGE}@evil.example", PAGE.replace("https", "http"), ""]
FORM = b"Content-Type: application/x-www-form-urlencoded"
HUB = b"/.well-known/mercure"


def ask(path, *lines, method=b"GET", body=None, length=None):
    """A request behind which its connection closes."""
    lines = [*lines, b"Connection: close"]
    if body is not None:
        lines.append(b"Content-Length: %d" % (len(body) if length is None else length))
    return method + b" " + path + b" HTTP/1.1\r\n" + HOST + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + (body or b"")


def post(path, *lines, body=b"smuggled", **more):
    return ask(path, *lines, method=b"POST", body=body, **more)


def http(name, clause, expect, *variants, **more):
    return kind(name, clause, WEB, expect, *variants, how="http", **more)


def smuggled(*lines, body):
    """A publication whose end is in doubt."""
    head = b"POST /n/open.smuggled HTTP/1.1\r\n" + HOST + b"".join(line + b"\r\n" for line in lines) + b"\r\n"
    return head + body


def bosh(content, **more):
    return post(b"/http-bind", b"Content-Type: text/xml", body=content, **more)


def body(attributes=b"rid='100' to='localhost'", inner=b"", namespace=HTTPBIND):
    return b"<body xmlns='" + namespace + b"' " + attributes + b">" + inner + b"</body>"


def bearer(token):
    return f"Authorization: Bearer {token}".encode()


def paths():
    long = b"open." + b"a" * 124
    return [
        http(
            "channels: names that are none", "RFC 3986 6.2.2, RFC 9110 4.2.3", "400",
            *(ask(b"/n/" + name) for name in [
                b"", b"../http-bind", b"../../etc/passwd", b"./open.a", b"open.a/", b"open.a/../own.b", b"/open.a", b"%2e%2e", b"%2e%2e%2fown.b",
                b"open.a%2f..%2fown.b", b"open.a%5c..%5cown.b", b"open.a%00", b"open.a%00own.b", b"open.%61", b"open.a;own.b", b"open.a%0d%0aX:%201",
                b"open.wild*", b"open.wild.**", b"*.open.wild.", b"open.*.wild.*", b"open.wild./*", b"open.wild.a.b.c.d.e.f.g.*", b"open.a,", b",open.a", b"open.a,,open.b", b"open.a,open.a", b",".join(b"open.%d" % n for n in range(17)), long,
                b"open.a\0", b"open.\xc3\xa9", b"open.\xff", b"open.a\x7f", b"open.a\tb", b"open.a\\..\\own.b", b"open.<b>", b"open.'--",
            ]),
            *(post(b"/n/" + name) for name in [b"open.a,open.b", b"open.a%2fb", long]),
        ),
        http(
            "channels: names of nothing", "RFC 9110 15.5.5", "404",
            *(ask(path) for path in [
                b"/n", b"/n/..", b"/n/.", b"/n/own", b"/n/OPEN.a", b"/N/open.a", b"//n/open.a", b"/%6e/open.a", b"/./n/open.a", b"/x/../n/open.a",
                b"/n/open.a,secret", b"/.well-known/../n/open.a", b"/http-bind/", b"/http-bind/../n/open.a", HUB + b"/", HUB + b"/subscriptions",
                b"/.well-known%2fmercure", b"/nx/open.a",
            ]),
            *(post(path) for path in [b"/n/..", b"/n/secret", b"/N/open.a"]),
        ),
        http(
            "channels: places that are none", "RFC 9110 15.5.1", "400",
            *(ask(b"/n/open.a?" + query) for query in [
                b"after=x", b"after=-1", b"after=1,2", b"after=18446744073709551616", b"after=1%00", b"after=+1%2C", b"wait=x", b"wait=-1", b"wait=1e9",
                b"wait=4294967296", b"occupancy=2", b"after=" + b"9" * 1500, b"after=" + b"1," * 700,
            ]),
        ),
        http(
            "channels: prefixes beyond what is let", "RFC 9110 15.5.4, 15.5.5", ("400", "403", "404"),
            *(ask(b"/n/" + path) for path in [
                b"*", b"%2A", b"open.*", b"o*", b"secret.*", b"ow.*", b"open.wild.*", b"open.wild.*?wait=1&occupancy=1", b"open.wild.*,open.wild.a?wait=1",
                b"open.wild.a.*,open.wild.*?wait=1", b"open.wild.*?after=" + b"1." * 900 + b"_", b"open.wild.*?after=-1", b"open.wild.*?wait=1&after=",
                b"open.wild.*?wait=1&format=binary", b",".join(b"open.wild.%d.*" % n for n in range(5)) + b"?wait=1",
            ]),
            post(b"/n/open.wild.*"), upgrade(path="/n/open.*", connection="Upgrade, close"),
        ),
        http(
            "channels: prefixes that a token does not cover", "RFC 6750 3.1", ("401", "403"),
            ask(b"/n/own.*?wait=1"), ask(b"/n/own.%2A?wait=1"), ask(b"/n/open.wild.*,own.*?wait=1"),
            *(ask(b"/n/own.*?wait=1", bearer(good(subscribe=names))) for names in ([], ["own.a"], ["own.a.*"], ["open.*"], ["ow"], ["own"], ["Own.*"])),
            ask(b"/n/own.*?wait=1", bearer(good(publish=["*"], subscribe=[]))),
        ),
        http("channels: an address that is too long", "RFC 9110 15.5.15", "414", ask(b"/n/open." + b"a" * 2100), ask(b"/n/open.a?after=" + b"1" * 2100)),
        http(
            "Mercure: topics that are none", "draft-dunglas-mercure 4", ("400", "403"),
            *(ask(HUB + b"?" + query) for query in [
                b"", b"topic=", b"topic=secret", b"topic=../open.a", b"topic=open.a%00", b"topic=%ff", b"topic={id}", b"topic=*", b"matchURLPattern=*",
                b"topic=open.{id}", b"match=*", b"topic=open.wild.{", b"topic=open.wild.}", b"topic=open.wild.{}", b"topic=open.wild.{id:3}",
                b"topic=open.wild.{id*}", b"topic=open.wild.{=id}", b"topic=open.wild.{a,b,c,d,e,f,g,h,i}", b"topic=open.wild." + b"{x}" * 9,
                b"topic=open.wild." + b"{" * 100, b"topic=open.wild.{" + b"x" * 200 + b"}", b"topic=open.wild.%00{x}", b"topic=open.wild.%zz{x}",
                b"&".join(b"topic=open.wild.%d.{x}" % n for n in range(5)),
                b"&".join(b"topic=open.%d" % n for n in range(17)),
            ]),
            *(post(HUB, FORM, body=content) for content in [
                b"", b"data=x", b"topic=secret&data=x", b"topic=/.well-known/mercure/subscriptions&data=x", b"topic=open.csrf&topic=open.b&data=x",
                b"topic=open.csrf&data=x&data=y", b"topic=open.csrf&data=x&id=a%0ab", b"topic=open.csrf&data=x&id=%23a", b"topic=open.csrf&retry=x",
                b"topic=open.csrf&data=x&type=a%0adata:%20evil", b"topic=open.csrf&private=on&data=x", b"topic=open.csrf&data=%ff",
            ]),
            post(HUB, b"Content-Type: text/plain", body=b"topic=open.csrf&data=x"),
        ),
    ]  # fmt: skip


def lengths():
    """RFC 9112 11.2, where bodies are taken and content is kept."""
    chunked, behind = b"Transfer-Encoding: chunked", post(b"/n/open.smuggled")
    twice = [
        (b"Content-Length: 5", chunked), (chunked, b"Content-Length: 5"), (b"Content-Length: 5", b"Content-Length: 6"),
        (b"Content-Length: 5", b"Content-Length: 5"), (b"Content-Length: 5, 5",), (b"Content-Length: +5",), (b"Content-Length: 5\r\n ",),
        (b"Content-Length: 0x5",), (b"Content-Length : 5",), (b"Content-Length:\x0b5",), (chunked, chunked), (b"Transfer-Encoding : chunked",),
        (b"X: 1\r\n Transfer-Encoding: chunked",), (b"X: 1\nTransfer-Encoding: chunked",), (b"X: 1\rContent-Length: 5",), (b"Content-Length: 5\0",),
        (chunked + b", identity",), (b"Content_Length: 5\r\nX\r\n",),
    ]  # fmt: skip
    chunks = [
        b"5\nhello\r\n0\r\n\r\n", b"5\r\nhello\n0\r\n\r\n", b"5\r\nhelloo\r\n0\r\n\r\n", b"0x5\r\nhello\r\n0\r\n\r\n", b"+5\r\nhello\r\n0\r\n\r\n",
        b"-5\r\nhello\r\n0\r\n\r\n", b" 5\r\nhello\r\n0\r\n\r\n", b"5 5\r\nhello\r\n0\r\n\r\n", b"g\r\nhello\r\n0\r\n\r\n", b"\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhello0\r\n\r\n", b"5;a\nb\r\nhello\r\n0\r\n\r\n", b"0\r\nX: 1\n\r\n", b"0\r\n X: 1\r\n\r\n", b"0\r\nX\r\n\r\n",
        b"7fffffffffffffff\r\n", b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    ]  # fmt: skip
    return [
        http("channels: lengths to be read in two ways", "RFC 9112 6.3, 11.2", "400", *(smuggled(*lines, body=b"0\r\n\r\n" + behind) for lines in twice)),
        http("channels: chunks to be read in two ways", "RFC 9112 7.1", "400", *(smuggled(chunked, body=chunk + behind) for chunk in chunks)),
        http(
            "channels: bodies that are too long", "RFC 9110 15.5.14", "413",
            *(smuggled(*lines, body=content) for lines, content in [
                ((b"Content-Length: 65537",), b""), ((b"Content-Length: 99999999999",), b""), ((chunked,), b"10001\r\n"),
                ((b"Expect: 100-continue", b"Content-Length: 70000"), b""), ((b"Content-Length: 40000", b"Connection: close"), b"x" * 40000),
            ]),
            post(HUB, FORM, length=106_497), bosh(b"", length=600_000),
            smuggled(chunked, body=b"8000\r\n" + b"x" * 32768 + b"\r\n8000\r\n" + b"x" * 32768 + b"\r\n1\r\nx"),
        ),
        Kind("channels: chunks of one byte without end", "RFC 9110 15.5.14", WEB, ("413",), endless(smuggled(chunked, body=b""), b"1\r\nx\r\n"), how="http"),
        Kind("channels: an extension of a chunk without end", "RFC 9112 7.1.1", WEB, ("400", "413"), endless(smuggled(chunked, body=b"1;"), b"x"), how="http"),
        Kind("channels: a trailer without end", "RFC 9112 7.1.2", WEB, ("400", "413", "431"), endless(smuggled(chunked, body=b"0\r\n"), b"X: 1\r\n"), how="http"),
        # What stands in a body is content, whatever it looks like: one request has one answer.
        http("channels: a request within a body", "RFC 9112 6.3", "200", *(post(b"/n/open.content", body=inner) for inner in (GET, behind, upgrade()))),
        http("channels: a request before its time", "RFC 9112 9.3.2", "200, 401", smuggled(b"Content-Length: 0", body=b"").replace(b"smuggled", b"content") + ask(b"/n/own.a")),
    ]  # fmt: skip


def pages():
    """Pages of others, with all that a browser adds to their requests by itself (Fetch 3.2, RFC 6455 10.2)."""
    origins = [f"Origin: {origin}".encode() for origin in EVIL] + [f"Origin: {PAGE}\r\nOrigin: https://evil.example".encode()]
    cookie = f"Cookie: mercureAuthorization={good()}; access_token={good()}".encode()
    preflight = (b"Access-Control-Request-Method: POST", b"Access-Control-Request-Headers: content-type")
    return [
        http(
            "channels: pages of other origins", "RFC 6454 7, Fetch 3.2", "403",
            *(request for origin in origins for request in [
                post(b"/n/open.csrf", origin, cookie, b"Content-Type: text/plain"), post(HUB, origin, cookie, FORM, body=b"topic=open.csrf&data=x"),
                ask(b"/n/open.a?wait=60", origin, cookie), ask(b"/n/open.a", origin, b"Accept: text/event-stream"), ask(HUB + b"?topic=open.a", origin, cookie),
                bosh(body()).replace(b"Connection", origin + b"\r\nConnection", 1), ask(b"/n/open.csrf", origin, *preflight, method=b"OPTIONS"),
                upgrade(origin.decode(), connection="Upgrade, close", path="/n/open.a"),
            ]),
        ),
        # A browser sends a cookie whoever asks: alone it never opens a channel.
        http(
            "channels: a cookie where none is read", "RFC 6265 8.2", "401",
            *(request(b"/n/own.a", cookie) for request in (ask, post)), ask(b"/n/own.a", cookie, b"Accept: text/event-stream"),
            ask(b"/n/own.a", cookie, f"Origin: {PAGE}".encode()),
        ),
        http(
            "Mercure: a cookie of nobody's page", "draft-dunglas-mercure 6.2", "403",
            post(HUB, cookie, FORM, body=b"topic=own.csrf&data=x"), post(HUB, cookie, FORM, b"Sec-Fetch-Site: cross-site", body=b"topic=own.csrf&data=x"),
        ),
    ]  # fmt: skip


def tokens():
    confusing = confused()
    shown = [token for token in confusing if token.isprintable() and len(token) < 1800 and "=" not in token and "{" not in token]
    scope = [good(subscribe=names) for names in ([], ["own.b"], ["own"], ["open.*"], ["own.a.*"], ["Own.a"])]
    wide = signed(claims(subscribe=[f"own.{n}" for n in range(65)]))
    return [
        http(
            "channels: confused tokens", "RFC 8725 2, 3", "401",
            *(ask(b"/n/own.a", bearer(token)) for token in confusing), *(ask(f"/n/own.a?access_token={token}".encode()) for token in shown[:20]),
            *(post(b"/n/own.a", bearer(token)) for token in confusing[:20]), ask(b"/n/own.a", bearer(wide)), ask(b"/n/own.a", b"Authorization: Basic Zm9vOmJhcg=="),
            ask(b"/n/own.a", b"Authorization: Bearer"),
        ),
        http("Mercure: confused tokens", "RFC 8725 2, 3", "401", *(ask(HUB + b"?topic=own.a", bearer(token)) for token in confusing)),
        http("channels: tokens for others", "RFC 6750 3.1", "403", *(ask(b"/n/own.a", bearer(token)) for token in scope), post(b"/n/own.a", bearer(good(publish=["own.b"])))),
        http(
            "channels: two tokens", "RFC 6750 2", "400",
            ask(f"/n/own.a?access_token={good()}".encode(), bearer(good())), ask(b"/n/own.a", bearer(good()), bearer(good())),
            ask(f"/n/own.a?access_token={good()}&access_token=x".encode()),
        ),
    ]  # fmt: skip


def nchan():
    """Nchan's protocol (docs/nchan.md) on the same channels."""
    names = [b"", b"*", b"%2A", b"open.a%00", b"open.a,open.a", b"open.a,", b"secret", b"open." + b"a" * 124, b"open.%ff", b"open.a%0d%0aX:%201"]
    runs = [b"script", b"style", b"xslt", b"worker", b"sharedworker", b"serviceworker", b"audioworklet", b"paintworklet", b"embed", b"object"]
    origin, delete = b"Origin: https://evil.example", {"method": b"DELETE"}
    reader = bearer(good(subscribe=["own.a"], publish=[]))
    return [
        http(
            "Nchan: identifiers that are none", "RFC 9110 15.5.1", "400",
            *(ask(b"/sub/open.a?last_event_id=1:" + tags) for tags in [b"x", b"1,2", b"18446744073709551616", b"--", b"-2", b"1," * 700]),
            ask(b"/sub/open.a", b"If-Modified-Since: Thu, 26 Nov 2026 10:49:27 GMT", b"If-None-Match: 1,2"), ask(b"/sub/open.a,open.b?last_event_id=1:1,2,3"),
            ask(b"/sub/open.a?wait=x"), ask(b"/sub/open.a?wait=-1"), ask(b"/poll/open.a?last_event_id=1:x"),
        ),
        http(
            "Nchan: names that are none, or too many", "RFC 9110 15.5.1, 15.5.5", ("400", "404"),
            *(ask(path + name) for name in names for path in (b"/sub/", b"/poll/", b"/pub/", b"/pubsub/")), ask(b"/sub/" + b",".join(b"open.%d" % n for n in range(17))),
            ask(b"/pub/open.a,open.b"), ask(b"/pub/open.a,open.b", **delete), post(b"/pub/open.csrf,open.b"), post(b"/pubsub/open.csrf,open.b"),
        ),
        http("Nchan: messages as scripts and styles", "Fetch Metadata 2.1", "403", *(ask(b"/sub/open.content?wait=1", b"Sec-Fetch-Dest: " + to) for to in runs)),
        http(
            "Nchan: what takes a token", "RFC 6750 3.1", ("401", "403"),
            *(ask(path, *shown, **delete) for path in (b"/pub/open.content", b"/pubsub/open.content", b"/pub/own.a") for shown in ([], [reader])),
            ask(b"/pub/own.a"), ask(b"/pub/own.a", reader), ask(b"/sub/own.a?wait=1"), ask(b"/poll/own.a"), post(b"/pub/own.csrf"), post(b"/pub/own.csrf", reader),
        ),
        http(
            "Nchan: types that are none", "RFC 9110 5.5", "400",
            post(b"/pub/open.csrf", b"X-EventSource-Event: a\x01b"), post(b"/pub/open.csrf", b"Content-Type: " + b"a" * 200), post(b"/pub/open.csrf", b"X-EventSource-Event: " + b"a" * 200),
            post(b"/pub/open.csrf", b"X-EventSource-Event: a\nX: 1"), post(b"/pub/open.csrf", b"Content-Type: text/html\r X: 1"),
        ),
        http(
            "Nchan: pages of other origins", "RFC 6454 7, Fetch 3.2", "403",
            post(b"/pub/open.csrf", origin, b"Content-Type: text/plain"), post(b"/pubsub/open.csrf", origin), ask(b"/pub/open.a", origin), ask(b"/sub/open.a?wait=1", origin),
            ask(b"/pub/open.content", origin, **delete), upgrade("Origin: https://evil.example", connection="Upgrade, close", path="/sub/open.a"),
        ),
    ]  # fmt: skip


def bodies():
    prefixes = b" ".join(b"xmlns:a%d='urn:%d'" % (n, n) for n in range(200))
    said = lambda name, expect, clause, *variants, **more: kind(f"BOSH: {name}", clause, WEB, expect, *variants, how="bosh", **more)
    return [
        said(
            "bodies that are none", "bad-request", "XEP-0124 6, 14.1",
            *(bosh(content) for content in [
                b"", b" ", b"{}", b"<body/>", b"<body", body()[:-1], body() + body(), body(namespace=b"urn:x"), b"<!-- -->" + body(), body(inner=b"<!-- -->"),
                body(inner=b"<?x y?>"), b"<!DOCTYPE a>" + body(), laughs(), body(inner=b"text"), body(inner=b"<a>"), body(inner=b"</a>"), body(inner=TOO_DEEP),
                body(prefixes), body(inner=b"&x;"), body(inner=b"\0"), *(body(inner=b"<a>" + bad + b"</a>") for bad in BAD_UTF8),
            ]),
            *(bosh(body(attributes + b" to='localhost'")) for attributes in [
                b"", b"rid='0'", b"rid='-1'", b"rid='+1'", b"rid='1e3'", b"rid='x'", b"rid='9007199254740992'", b"rid='99999999999999999999'",
                b"rid='1' rid='2'", b"rid='1' hold='-1'", b"rid='1' wait='x'", b"rid='1' ver='x'", b"rid='1' newkey='x'", b"rid='1' content='text/xml&#13;&#10;X: 1'",
                b"rid='1' content='x'", b"rid='1' ack='-1'",
            ]),
        ),
        said(
            "sessions of nobody", "item-not-found", "XEP-0124 14.2",
            *(bosh(body(b"rid='1' sid='" + sid + b"'")) for sid in [b"", b"x", b"../..", b"0" * 32, b"f" * 36, b"0" * 64, b"x" * 1000, b"&#x2028;"]),
        ),
        said("domains that are none", ("host-unknown", "improper-addressing"), "XEP-0124 17.3", *(
            bosh(body(b"rid='1' to='" + to + b"'")) for to in [b"", b"evil.example", b"localhost..", b"a@localhost", b"localhost/x", b"x" * 2000, b" "]
        )),
    ]  # fmt: skip


def subscribers():
    """Over the WebSocket of a channel nothing but control frames is taken."""
    said = lambda name, expect, clause, *variants, **more: kind(name, clause, SUBSCRIBED, expect, *variants, how="frames", **more)
    return [
        said(
            "frames that are none, subscribed", "1002", "RFC 6455 5.1 to 5.5",
            frame(FIN | PING, b"x", masked=False), frame(FIN | CLOSE, b"\x03\xe8", masked=False), *(frame(FIN | opcode, b"x") for opcode in (3, 7, 11, 15)),
            *(frame(FIN | bit | PING, b"x") for bit in (0x40, 0x20, 0x10)), frame(PING, b"in pieces"), frame(FIN | PING, b"x" * 126), frame(FIN | CLOSE, b"\x03"),
            *(frame(FIN | CLOSE, number.to_bytes(2)) for number in (0, 999, 1004, 1005, 1006, 1015, 2999, 5000)),
        ),
        said(
            "messages of a subscriber", "1003", "RFC 6455 7.4.1",
            text(b"{}"), text(b""), frame(FIN | BINARY, b"x"), frame(TEXT, b"{"), text(b"x" * 100_000), frame(FIN | TEXT, length=(1 << 63) - 1), frame(FIN | PING, b"x") + text(b"{}"),
        ),
        said("continuations of nothing, subscribed", ("1002", "1003"), "RFC 6455 5.4", frame(FIN | CONTINUATION, b"x"), frame(CONTINUATION, b"x") * 99),
        said("a last frame that is no UTF-8, subscribed", "1007", "RFC 6455 5.5.1", frame(FIN | CLOSE, b"\x03\xe8\xff")),
        said("frames behind the last one, subscribed", "1000", "RFC 6455 5.5.1", frame(FIN | CLOSE, b"\x03\xe8") + text(b"{}") * 9 + frame(FIN | PING)),
    ]  # fmt: skip


def channel_kinds():
    return paths() + lengths() + pages() + tokens() + nchan() + bodies() + subscribers()
