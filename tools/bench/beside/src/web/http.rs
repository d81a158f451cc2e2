//! What HTTP/1.1 needs of each protocol over it: the head of an answer, whole answers, and publications as a POST.

use std::fmt::Write as _;

use super::{Answered, Publish, WHOLE_BYTES_MAX};

/// The head of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    /// Its bytes with the empty line.
    pub(super) bytes: usize,
    /// Of the body; none: chunks.
    length: Option<usize>,
    /// The server ends the connection behind this answer.
    closes: bool,
}

/// Where `needle` begins.
pub(super) fn position(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

/// Reads a head, if it is whole.
pub(super) fn head(bytes: &[u8]) -> Result<Option<Head>, String> {
    let Some(end) = position(bytes, b"\r\n\r\n") else {
        return if bytes.len() > WHOLE_BYTES_MAX { Err("http: an endless head".into()) } else { Ok(None) };
    };
    let text = String::from_utf8_lossy(&bytes[..end]);
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
    let status = status.ok_or("http: no status line")?;
    let length = if matches!(status, 204 | 304) { Some(0) } else { None };
    let mut head = Head { status, bytes: end + 4, length, closes: false };
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            let length = value.trim().parse().ok().filter(|length| *length <= WHOLE_BYTES_MAX);
            head.length = Some(length.ok_or("http: a length that cannot be read")?);
        } else if name.eq_ignore_ascii_case("connection") {
            head.closes = value.trim().eq_ignore_ascii_case("close");
        }
    }
    Ok(Some(head))
}

/// A whole answer: its head, and all of its bytes.
pub(super) fn answer(bytes: &[u8]) -> Result<Option<(Head, usize)>, String> {
    let Some(head) = head(bytes)? else { return Ok(None) };
    let body = &bytes[head.bytes..];
    let whole = match head.length {
        Some(length) => (body.len() >= length).then_some(head.bytes + length),
        None => chunks(body)?.map(|used| head.bytes + used),
    };
    Ok(whole.map(|used| (head, used)))
}

/// The bytes of a whole body in chunks (RFC 9112 7.1), without trailers.
fn chunks(body: &[u8]) -> Result<Option<usize>, String> {
    let mut at = 0;
    loop {
        let Some(end) = position(&body[at..], b"\r\n") else { return Ok(None) };
        let size = std::str::from_utf8(&body[at..at + end]).ok();
        let size = size.and_then(|text| usize::from_str_radix(text.split(';').next()?.trim(), 16).ok());
        let size = size.filter(|size| *size <= WHOLE_BYTES_MAX).ok_or("http: a chunk without a size")?;
        at += end + 2 + size + 2;
        if at > body.len() {
            return Ok(None);
        }
        if size == 0 {
            return Ok(Some(at));
        }
    }
}

/// What a server has said beside a status that was not wanted.
pub(super) fn refused(what: &str, head: &Head, bytes: &[u8]) -> String {
    let body = String::from_utf8_lossy(&bytes[head.bytes..]);
    format!("{what} was answered with {}: {}", head.status, body.trim().chars().take(200).collect::<String>())
}

/// Writes a request.
pub(super) fn request(method: &str, path: &str, fields: &str, body: &str, out: &mut Vec<u8>) {
    let mut text = String::new();
    let _ = write!(text, "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}");
    if method == "POST" {
        let _ = write!(text, "Content-Length: {}\r\n", body.len());
    }
    let _ = write!(text, "\r\n{body}");
    out.extend_from_slice(text.as_bytes());
}

/// Publications by POST on connections that stay.
pub(super) struct Post {
    /// Path and body for a channel and a content.
    pub(super) target: fn(&str, &str) -> (String, String),
    /// Header lines.
    pub(super) fields: &'static str,
}

impl Publish for Post {
    fn publish(&self, channel: &str, content: &str, out: &mut Vec<u8>) {
        let (path, body) = (self.target)(channel, content);
        request("POST", &path, self.fields, &body, out);
    }

    fn is_answered(&self) -> bool {
        true
    }

    fn read(&self, bytes: &[u8], _out: &mut Vec<u8>) -> Answered {
        let Some((head, used)) = answer(bytes)? else { return Ok(None) };
        if !(200..300).contains(&head.status) {
            return Err(refused("a publication", &head, &bytes[..used]));
        }
        // Centrifugo answers errors with 200.
        if position(&bytes[head.bytes..used], b"{\"error\":").is_some() {
            return Err(refused("a publication", &head, &bytes[..used]));
        }
        Ok(Some((used, head.closes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_whole_by_their_length_or_by_their_last_chunk() {
        for text in [
            "HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            "HTTP/1.1 204 No Content\r\nA: b\r\n\r\n",
        ] {
            let bytes = text.as_bytes();
            for cut in 0..bytes.len() {
                assert_eq!(answer(&bytes[..cut]), Ok(None), "{text} {cut}");
            }
            let whole = [bytes, b"HTTP/1.1"].concat();
            assert_eq!(answer(&whole).expect("no fault").expect("whole").1, bytes.len(), "{text}");
        }
        for wrong in ["FTP\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nzz\r\n"] {
            assert!(answer(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(head(&vec![b'a'; WHOLE_BYTES_MAX + 1]).is_err());
    }

    /// RFC 9112 9.6.
    #[test]
    fn a_connection_that_the_server_ends_is_not_used_again() {
        let post = Post { target: |channel, _| (channel.into(), String::new()), fields: "" };
        let read = |field: &str| {
            let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{field}\r\n");
            post.read(text.as_bytes(), &mut Vec::new()).map(|read| read.map(|(_, closes)| closes))
        };
        assert_eq!((read("Connection: Close\r\n"), read("")), (Ok(Some(true)), Ok(Some(false))));
    }

    #[test]
    fn a_refused_publication_says_what_the_server_says() {
        let post = Post { target: |channel, content| (format!("/pub/{channel}"), content.into()), fields: "A: b\r\n" };
        let mut out = Vec::new();
        post.publish("c", "x", &mut out);
        assert_eq!(out, b"POST /pub/c HTTP/1.1\r\nHost: localhost\r\nA: b\r\nContent-Length: 1\r\n\r\nx");
        for text in
            ["429 Too Many\r\nContent-Length: 4\r\n\r\nslow", "200 OK\r\nContent-Length: 11\r\n\r\n{\"error\":4}"]
        {
            let told = post.read(format!("HTTP/1.1 {text}").as_bytes(), &mut out).expect_err("a refusal");
            assert!(told.contains("slow") || told.contains("error"), "{told}");
        }
    }
}
