//! The answers of each path.

use super::head::{self, Content};
use super::policy::{Challenge, Channels, Policy};
use super::request::{Request, Site};
use super::response::Response;
use super::row::Answer;
use super::status::Status;
use super::table::{TABLE, answer, route};
use super::throng_js::MODULE;
use crate::id::Domains;

const UPGRADE: &str = "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: chat, xmpp\r\n";

fn ask(policy: &Policy, request: &str, secured: bool) -> Answer {
    let domains = Domains::of_users("a.example");
    let site = Site { domains: &domains, policy };
    let head = head::read(request.as_bytes(), 0).expect("it can be read").expect("it is whole");
    match route(&head, &site) {
        Ok(row) => answer(row, &Request { head: &head, body: &[], secured }, &site),
        Err(response) => Answer::Response(response),
    }
}

fn body(response: &Response) -> &str {
    std::str::from_utf8(&response.body).expect("text")
}

fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a.example:5443\r\n{fields}\r\n")
}

fn response(policy: &Policy, request: &str) -> Response {
    match ask(policy, request, true) {
        Answer::Response(response) => response,
        other => panic!("{request:?} became {other:?}"),
    }
}

fn field<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.fields.iter().find(|(own, _)| *own == name).map(|(_, value)| &**value)
}

#[test]
fn the_key_is_answered_as_rfc6455_1_3_has_it_whatever_extensions_are_offered() {
    let any = Policy::default();
    let accept = Answer::WebSocket { accept: *b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" };
    assert_eq!(ask(&any, &get("/xmpp-websocket", UPGRADE), false), accept);
    // RFC 7692 5: an extension that the response does not name is declined.
    let deflate = format!("{UPGRADE}Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n");
    assert_eq!(ask(&any, &get("/xmpp-websocket", &deflate), true), accept);
    let upper = UPGRADE.replace("websocket", "WebSocket").replace("Upgrade\r", "UPGRADE\r");
    assert_eq!(ask(&any, &get("/xmpp-websocket?a=b", &upper), true), accept);
}

#[test]
fn an_opening_handshake_that_is_none_is_refused_rfc6455_4_2_1() {
    let without = |part: &str| UPGRADE.replace(part, &format!("X-{part}"));
    let refused = |fields: &str| response(&Policy::default(), &get("/xmpp-websocket", fields));
    for (fields, status) in [
        (String::new(), Status::UpgradeRequired),
        (without("Upgrade: "), Status::UpgradeRequired),
        (without("Connection: "), Status::UpgradeRequired),
        (UPGRADE.replace("13", "12"), Status::UpgradeRequired),
        (without("Sec-WebSocket-Version"), Status::UpgradeRequired),
        (format!("{UPGRADE}Sec-WebSocket-Version: 13\r\n"), Status::UpgradeRequired),
        (without("Sec-WebSocket-Key"), Status::BadRequest),
        (format!("{UPGRADE}Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"), Status::BadRequest),
        (UPGRADE.replace("dGhl", ""), Status::BadRequest),
        (UPGRADE.replace("dGhl", "*"), Status::BadRequest),
        // RFC 7395 3.1.
        (without("Sec-WebSocket-Protocol"), Status::BadRequest),
        (UPGRADE.replace("xmpp", "xmppx"), Status::BadRequest),
    ] {
        let response = refused(&fields);
        assert_eq!(response.status, status, "{fields}");
        if status == Status::UpgradeRequired {
            assert_eq!(field(&response, "Upgrade"), Some("websocket"), "RFC 9110 15.5.22");
            assert_eq!(field(&response, "Sec-WebSocket-Version"), Some("13"), "RFC 6455 4.4");
        }
    }
    let old = format!("GET /xmpp-websocket HTTP/1.0\r\nHost: a\r\n{UPGRADE}\r\n");
    assert_eq!(response(&Policy::default(), &old).status, Status::UpgradeRequired, "RFC 6455 4.2.1 (1)");
    let head = get("/xmpp-websocket", UPGRADE).replacen("GET", "HEAD", 1);
    assert_eq!(response(&Policy::default(), &head).status, Status::UpgradeRequired);
}

#[test]
fn pages_connect_as_the_operator_wants() {
    let only = Policy { origins: Some(["https://chat.a.example".into()].into()), ..Policy::default() };
    let from = |origin: &str| get("/xmpp-websocket", &format!("{UPGRADE}Origin: {origin}\r\n"));
    for (policy, request, allowed) in [
        (&Policy::default(), from("https://evil.example"), true),
        (&only, get("/xmpp-websocket", UPGRADE), true),
        (&only, from("https://CHAT.a.example"), true),
        (&only, from("https://evil.example"), false),
        (&only, from("null"), false),
        (&only, from("https://chat.a.example\r\nOrigin: https://evil.example"), false),
        (&only, get("/connection/websocket", &format!("{UPGRADE}Origin: https://evil.example\r\n")), false),
    ] {
        match ask(policy, &request, true) {
            Answer::WebSocket { .. } | Answer::Bosh => assert!(allowed, "{request}"),
            Answer::Response(response) => assert!(!allowed && response.status == Status::Forbidden, "{request}"),
            _ => panic!("{request}"),
        }
    }
}

#[test]
fn host_meta_tells_where_websocket_and_bosh_are_xep0156_3() {
    let any = Policy::default();
    let xml = response(&any, &get("/.well-known/host-meta", "Origin: https://evil.example\r\n"));
    let element: minidom::Element = body(&xml).split_once("?>").unwrap().1.trim().parse().expect("XML");
    let link = element.children().next().expect("a link");
    assert_eq!(element.ns(), "http://docs.oasis-open.org/ns/xri/xrd-1.0");
    assert_eq!(link.attr("rel"), Some("urn:xmpp:alt-connections:websocket"));
    assert_eq!(link.attr("href"), Some("wss://a.example:5443/xmpp-websocket"));
    assert_eq!(field(&xml, "Access-Control-Allow-Origin"), Some("*"));
    let json = response(&any, &get("/.well-known/host-meta.json", ""));
    assert_eq!(
        body(&json),
        "{\"links\":[{\"rel\":\"urn:xmpp:alt-connections:websocket\",\"href\":\"wss://a.example:5443/xmpp-websocket\"},\
         {\"rel\":\"urn:xmpp:alt-connections:xbosh\",\"href\":\"https://a.example:5443/http-bind\"}]}\n"
    );
    let link = element.children().nth(1).expect("another link");
    assert_eq!(link.attr("rel"), Some("urn:xmpp:alt-connections:xbosh"));
    assert_eq!(link.attr("href"), Some("https://a.example:5443/http-bind"));
    // Neither without TLS, nor for a foreign host.
    let Answer::Response(open) = ask(&any, &get("/.well-known/host-meta", ""), false) else { panic!() };
    assert_eq!(open.status, Status::NotFound);
    let other = get("/.well-known/host-meta", "").replace("a.example", "evil.example");
    assert_eq!(response(&any, &other).status, Status::NotFound);
    let bosh_url = Some("https://x.example/z".into());
    let given = Policy { websocket_url: Some("wss://x.example/y?a&b".into()), bosh_url, ..Policy::default() };
    let Answer::Response(told) = ask(&given, &other, false) else { panic!() };
    assert!(body(&told).contains("href='wss://x.example/y?a&amp;b'"), "{}", body(&told));
    assert!(body(&told).contains("href='https://x.example/z'"), "{}", body(&told));
}

#[test]
fn paths_methods_and_bodies_that_are_not_taken_have_their_answers() {
    let any = Policy::default();
    for path in
        ["/", "/xmpp-websocket/", "/XMPP-websocket", "//xmpp-websocket", "/%78mpp-websocket", "/x/../xmpp-websocket"]
    {
        assert_eq!(response(&any, &get(path, UPGRADE)).status, Status::NotFound, "{path}");
    }
    let post = |path: &str, fields: &str| get(path, fields).replacen("GET", "POST", 1);
    let wrong = response(&any, &post("/.well-known/host-meta", "Content-Length: 3\r\n"));
    assert_eq!((wrong.status, wrong.closes), (Status::MethodNotAllowed, true), "the body is not read");
    assert_eq!(field(&wrong, "Allow"), Some("GET, HEAD, OPTIONS"), "RFC 9110 15.5.6");
    assert!(!response(&any, &post("/.well-known/host-meta", "")).closes);
    let options =
        get("/.well-known/host-meta.json", "Access-Control-Request-Method: GET\r\n").replacen("GET", "OPTIONS", 1);
    let preflight = response(&any, &options);
    assert_eq!(preflight.status, Status::NoContent);
    assert_eq!(field(&preflight, "Access-Control-Allow-Methods"), Some("GET, HEAD, OPTIONS"));
    for row in TABLE {
        assert!(row.path.starts_with('/') && !row.methods.is_empty());
        assert_eq!(TABLE.iter().filter(|other| other.path == row.path).count(), 1, "{} is there once", row.path);
    }
    let head = get("/.well-known/host-meta", "Transfer-Encoding: chunked\r\n");
    assert_eq!(head::read(head.as_bytes(), 0).unwrap().unwrap().content, Content::Chunked);
}

#[test]
fn the_client_for_pages_is_there_where_channels_are() {
    assert_eq!(response(&Policy::default(), &get("/throng.js", "")).status, Status::NotFound, "channels are off");
    let channels = Channels { prefixes: ["".into()].into(), ..Channels::default() };
    let origins = Some(["https://chat.a.example".into()].into());
    let policy = Policy { channels, origins, ..Policy::default() };
    let module = response(&policy, &get("/throng.js?x", "Origin: https://evil.example\r\n"));
    assert_eq!((module.status, body(&module)), (Status::Ok, MODULE));
    // HTML 8.1.4.2: a module needs the media type of JavaScript, and permission for other origins.
    assert_eq!(module.content_type, "text/javascript; charset=utf-8");
    assert_eq!(field(&module, "Access-Control-Allow-Origin"), Some("*"));
    assert_eq!(field(&module, "Cache-Control"), Some("no-cache"));
    let tag = field(&module, "ETag").expect("a tag").to_owned();
    for (sent, known) in [
        (tag.clone(), true),
        (format!("\"other\", W/{tag}"), true),
        ("*".into(), true),
        ("\"other\"".into(), false),
        (tag.trim_matches('"').into(), false),
    ] {
        let again = response(&policy, &get("/throng.js", &format!("If-None-Match: {sent}\r\n")));
        assert_eq!(again.status == Status::NotModified && again.body.is_empty(), known, "RFC 9110 13.1.2: {sent}");
        assert_eq!(field(&again, "ETag"), Some(&*tag), "RFC 9110 15.4.5");
    }
    let post = get("/throng.js", "").replacen("GET", "POST", 1);
    assert_eq!(response(&policy, &post).status, Status::MethodNotAllowed);
}

#[test]
fn the_chat_page_is_there_if_it_is_wanted_with_the_domain_that_was_asked_for() {
    let paths = ["/", "/chat.js", "/chat.css", "/chat.json"];
    for path in paths {
        assert_eq!(response(&Policy::default(), &get(path, "")).status, Status::NotFound, "{path} is off");
    }
    let policy = Policy { chat_page: true, ..Policy::default() };
    let media = ["text/html; charset=utf-8", "text/javascript; charset=utf-8", "text/css; charset=utf-8"];
    for (path, media) in paths.into_iter().zip(media) {
        let file = response(&policy, &get(path, ""));
        assert_eq!((file.status, file.content_type), (Status::Ok, media), "{path}");
        assert_eq!(field(&file, "Content-Security-Policy").is_some(), path == "/", "CSP 3 3.3: {path}");
        let tag = format!("If-None-Match: {}\r\n", field(&file, "ETag").expect("a tag"));
        assert_eq!(response(&policy, &get(path, &tag)).status, Status::NotModified, "{path}");
    }
    assert_eq!(response(&policy, &get("/chat.json/", "")).status, Status::NotFound, "the root has no paths below it");
    for host in ["a.example", "a.example:5443", "A.example.", "evil.example", "[::1]:5280"] {
        let asked = get("/chat.json", "").replace("a.example:5443", host);
        let settings = response(&policy, &asked);
        assert_eq!(body(&settings), "{\"domain\":\"a.example\"}\n", "{host}");
    }
}

#[test]
fn responses_say_how_long_they_are_and_when_they_were_made() {
    let text = |response: Response, method| {
        let mut out = Vec::new();
        response.write(&mut out, method, 784_111_777_000_000);
        String::from_utf8(out).unwrap()
    };
    let expected = "HTTP/1.1 404 Not Found\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 3\r\n\
                    Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n";
    let response = Response::text(Status::NotFound, "no").closing();
    assert_eq!(text(response.clone(), None), format!("{expected}no\n"));
    assert_eq!(text(response, Some(head::Method::Head)), expected, "RFC 9110 9.3.2");
    assert!(!text(Response::empty(Status::NoContent), None).contains("Content-Length"), "RFC 9110 8.6");
    assert!(
        !text(Response::empty(Status::NotModified), None).contains("Content-Length"),
        "it would be that of the other"
    );
}

#[test]
fn a_challenge_is_answered_with_its_key_authorization_and_no_other_path_is_rfc8555_8_3() {
    let challenge = Challenge { token: "evaGxfADs6pSRb2LAv9IZ".into(), answer: "evaGxfADs6pSRb2LAv9IZ.thumb".into() };
    let asked = Policy { challenge: Some(challenge), ..Policy::default() };
    let path = "/.well-known/acme-challenge/evaGxfADs6pSRb2LAv9IZ";
    let found = response(&asked, &get(path, ""));
    assert_eq!((found.status, found.content_type), (Status::Ok, "application/octet-stream"));
    assert_eq!(body(&found), "evaGxfADs6pSRb2LAv9IZ.thumb");
    for other in [&path[..path.len() - 1], "/.well-known/acme-challenge/", &format!("{path}/"), &format!("{path}x")] {
        assert_eq!(response(&asked, &get(other, "")).status, Status::NotFound, "{other}");
    }
    assert_eq!(response(&Policy::default(), &get(path, "")).status, Status::NotFound, "no order is under way");
}
