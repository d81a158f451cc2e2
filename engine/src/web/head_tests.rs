//! Valid requests, and request smuggling attempts, which are refused.

use super::body::Body;
use super::head::{Content, Head, Method, empty_lines, read};
use super::status::{Refusal, Status};
use crate::limits::{HTTP_CHUNK_LINE_BYTES_MAX, HTTP_HEAD_BYTES_MAX, HTTP_HEADERS_MAX, HTTP_TARGET_BYTES_MAX};

fn whole(text: &str) -> Result<Head<'_>, Refusal> {
    read(text.as_bytes(), 0).map(|head| head.expect("a whole head"))
}

fn refused(text: &str) -> Status {
    match read(text.as_bytes(), 0) {
        Err(refusal) => refusal.status,
        Ok(head) => panic!("{text:?} is read as {head:?}"),
    }
}

#[test]
fn a_request_is_read_whole_or_not_at_all_however_it_comes_rfc9112_2() {
    let text =
        "POST /a/b?c=d&e HTTP/1.1\r\nHost: a.example:5280\r\nX: 1\r\nx:\t2, 3 \r\nContent-Length: 12\r\n\r\nfollows";
    let end = text.find("follows").unwrap();
    for cut in 0..end {
        assert!(read(&text.as_bytes()[..cut], 0).unwrap().is_none(), "{cut}");
        // The rest arrives later: bytes seen before are not examined again, and the end is still
        // found.
        let head = read(text.as_bytes(), cut).unwrap().expect("all is there");
        assert_eq!((head.bytes, head.path, head.query), (end, "/a/b", "c=d&e"));
    }
    let head = whole(text).unwrap();
    assert_eq!((head.method, head.host, head.content), (Method::Post, Some("a.example:5280"), Content::Length(12)));
    assert_eq!(head.list("X").collect::<Vec<_>>(), ["1", "2", "3"]);
    assert!(head.is_1_1 && head.keeps_alive && head.one("x").is_none());
}

#[test]
fn connections_stay_as_both_versions_have_it_rfc9112_9_3() {
    for (text, stays) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade, Close\r\n\r\n", false),
        ("GET / HTTP/1.0\r\n\r\n", false),
        ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", false),
    ] {
        assert_eq!(whole(text).unwrap().keeps_alive, stays, "{text}");
    }
}

#[test]
fn addresses_are_paths_or_absolute_and_the_host_is_theirs_rfc9112_3_2() {
    let head = whole("GET http://B.example:1/c?d HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!((head.host, head.path, head.query), (Some("B.example:1"), "/c", "d"));
    assert_eq!(whole("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").unwrap().path, "*");
    // RFC 9110 4.2.5: paths are not resolved, so none leads elsewhere.
    assert_eq!(whole("GET /a/../b%2f/./ HTTP/1.1\r\nHost: a\r\n\r\n").unwrap().path, "/a/../b%2f/./");
    for bad in ["GET * ", "GET a ", "GET a:1 ", "GET http:/a ", "GET http://a?b ", "GET /a#b ", "GET /\u{e9} "] {
        assert_eq!(refused(&format!("{bad}HTTP/1.1\r\nHost: a\r\n\r\n")), Status::BadRequest, "{bad}");
    }
}

#[test]
fn two_readers_cannot_find_two_ends_rfc9112_11_2() {
    for (bad, why) in [
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "a length and chunks (6.1)"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "the other way round"),
        ("Content-Length: 5\r\nContent-Length: 6\r\n", "two lengths (6.3)"),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", "two lengths that are one"),
        ("Content-Length: 5, 5\r\n", "a list of lengths"),
        ("Content-Length: +5\r\n", "a sign"),
        ("Content-Length: -5\r\n", "a sign"),
        ("Content-Length: 0x5\r\n", "another base"),
        ("Content-Length: 5 5\r\n", "white space within"),
        ("Content-Length:\r\n", "none"),
        ("Content-Length: 99999999999999999999\r\n", "more than a number holds"),
        ("Content-Length: \u{a0}5\r\n", "white space that is none of HTTP"),
        ("Transfer-Encoding: chunked, identity\r\n", "chunks that are not last"),
        ("Transfer-Encoding: chunked, chunked\r\n", "chunks twice"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "chunks twice, in two fields"),
        ("Content-Length : 5\r\n", "white space before the colon (5.1)"),
        ("Transfer-Encoding : chunked\r\n", "white space before the colon"),
        (" Content-Length: 5\r\n", "white space at the start (2.2)"),
        ("X: 1\r\n Content-Length: 5\r\n", "a folded field (5.2)"),
        ("X: 1\r\n\tY\r\n", "a folded field"),
        ("X: 1\nContent-Length: 5\r\n", "a bare line feed (2.2)"),
        ("X: 1\rContent-Length: 5\r\n", "a bare carriage return (2.2)"),
        ("X: a\0b\r\n", "a NUL (RFC 9110 5.5)"),
        ("X\r\n", "no colon"),
        (": 1\r\n", "no name"),
        ("X(: 1\r\n", "a name that is no token"),
        ("Host: b\r\n", "two hosts (3.2)"),
    ] {
        let text = format!("POST / HTTP/1.1\r\nHost: a\r\n{bad}\r\n");
        assert_eq!(refused(&text), Status::BadRequest, "{why}");
    }
    for (bad, why) in [
        ("GET / HTTP/1.1\r\n\r\n", "no host (RFC 9112 3.2)"),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "no host either"),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "a path"),
        ("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", "a user"),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "two spaces (3)"),
        ("GET /\r\n\r\n", "HTTP/0.9"),
        ("GET / HTTP/1.1\nHost: a\n\n", "bare line feeds"),
        ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "chunks before HTTP/1.1 (6.1)"),
        ("\u{16}\u{3}\u{1}\u{2}\0\r\n\r\n", "a TLS handshake"),
        ("<?xml version='1.0'?>\r\n\r\n", "a stream"),
    ] {
        assert_eq!(refused(bad), Status::BadRequest, "{why}");
    }
}

#[test]
fn what_is_not_done_here_has_its_own_answer() {
    let host = "Host: a\r\n";
    for (text, status) in [
        (format!("BREW / HTTP/1.1\r\n{host}\r\n"), Status::NotImplemented),
        (format!("get / HTTP/1.1\r\n{host}\r\n"), Status::NotImplemented),
        (format!("GET / HTTP/2.0\r\n{host}\r\n"), Status::VersionNotSupported),
        (format!("GET / \r\n{host}\r\n"), Status::VersionNotSupported),
        ("PRI * HTTP/2.0\r\n\r\n".to_owned(), Status::VersionNotSupported),
        (format!("POST / HTTP/1.1\r\n{host}Transfer-Encoding: gzip, chunked\r\n\r\n"), Status::NotImplemented),
        (format!("POST / HTTP/1.1\r\n{host}Transfer-Encoding: gzip\r\n\r\n"), Status::NotImplemented),
        (format!("POST / HTTP/1.1\r\n{host}Transfer-Encoding: xchunked\r\n\r\n"), Status::NotImplemented),
        (format!("POST / HTTP/1.1\r\n{host}Expect: more\r\n\r\n"), Status::ExpectationFailed),
        (format!("GET /{} HTTP/1.1\r\n{host}\r\n", "a".repeat(HTTP_TARGET_BYTES_MAX)), Status::UriTooLong),
        (format!("GET /{}", "a".repeat(HTTP_HEAD_BYTES_MAX)), Status::UriTooLong),
        (format!("GET / HTTP/1.1\r\nX: {}", "a".repeat(HTTP_HEAD_BYTES_MAX)), Status::HeaderFieldsTooLarge),
        (format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(HTTP_HEAD_BYTES_MAX)), Status::HeaderFieldsTooLarge),
        (format!("GET / HTTP/1.1\r\n{host}{}\r\n", "X:1\r\n".repeat(HTTP_HEADERS_MAX)), Status::HeaderFieldsTooLarge),
    ] {
        assert_eq!(refused(&text), status, "{}", &text[..text.len().min(80)]);
    }
    let most = format!("GET / HTTP/1.1\r\n{host}{}\r\n", "X:1\r\n".repeat(HTTP_HEADERS_MAX - 1));
    assert_eq!(whole(&most).unwrap().all("x").count(), HTTP_HEADERS_MAX - 1);
}

#[test]
fn empty_lines_before_a_request_are_passed_over_rfc9112_2_2() {
    assert_eq!(empty_lines(b"\r\n\r\nGET"), 4);
    assert_eq!(empty_lines(b"\r"), 0);
    assert_eq!(empty_lines(b"\nGET"), 0);
}

/// The body in these bytes and the number of bytes after it, for any size of pieces.
fn body(content: Content, bytes_max: usize, input: &[u8]) -> Result<(Vec<u8>, usize), Refusal> {
    let read = |pieces: usize| -> Result<(Vec<u8>, usize), Refusal> {
        let mut body = Body::new(content, bytes_max)?;
        let (mut at, mut end) = (0, 0);
        while !body.is_done() {
            assert!(end < input.len(), "it does not end");
            end = input.len().min(end + pieces);
            at += body.read(&input[at..end])?;
        }
        Ok((body.bytes().to_vec(), input.len() - at))
    };
    let (all, one) = (read(input.len()), read(1));
    match (&all, &one) {
        (Ok((all, _)), Ok((one, _))) => assert_eq!(all, one),
        (Err(all), Err(one)) => assert_eq!(all, one),
        _ => panic!("{all:?} and {one:?}"),
    }
    all
}

#[test]
fn bodies_end_where_they_say_rfc9112_6_and_7_1() {
    assert_eq!(body(Content::Length(3), 3, b"abcGET").unwrap(), (b"abc".to_vec(), 3));
    let chunks = b"3\r\nabc\r\n0A;x=\"y\"\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\nGET";
    assert_eq!(body(Content::Chunked, 13, chunks).unwrap(), (b"abc0123456789".to_vec(), 3));
    assert_eq!(body(Content::Chunked, 0, b"0\r\n\r\n").unwrap(), (Vec::new(), 0));
    for long in [Content::Length(4), Content::Length(u64::MAX)] {
        assert_eq!(Body::new(long, 3).unwrap_err().status, Status::ContentTooLarge);
    }
    let line = format!("1;{}\r\n", "x".repeat(HTTP_CHUNK_LINE_BYTES_MAX));
    let trailers = format!("0\r\n{}", format!("X: {}\r\n", "x".repeat(1_000)).repeat(9));
    for (bad, status) in [
        ("4\r\nabcd\r\n", Status::ContentTooLarge),
        ("2\r\nab\r\n2\r\ncd\r\n", Status::ContentTooLarge),
        ("ffffffffffffffff\r\n", Status::BadRequest),
        ("fffffffffffffff\r\n", Status::ContentTooLarge),
        ("1\nx\r\n", Status::BadRequest),
        ("1 1\r\nx\r\n", Status::BadRequest),
        ("0x1\r\nx\r\n", Status::BadRequest),
        ("-1\r\nx\r\n", Status::BadRequest),
        ("\r\n", Status::BadRequest),
        ("1\r\nxy\r\n", Status::BadRequest),
        ("1\r\nx\n0\r\n\r\n", Status::BadRequest),
        ("1;a\rb\r\nx\r\n", Status::BadRequest),
        ("0\r\n folded\r\n\r\n", Status::BadRequest),
        ("0\r\nX: 1\n\r\n", Status::BadRequest),
        (&line, Status::BadRequest),
        (&trailers, Status::HeaderFieldsTooLarge),
    ] {
        assert_eq!(body(Content::Chunked, 3, bad.as_bytes()).unwrap_err().status, status, "{bad:?}");
    }
}
