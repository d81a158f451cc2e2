//! HTTP/1.1 and frames of WebSockets (RFC 6455) as a client reads and writes them.
//!
//! Each function takes what has come so far and says how much of it is whole; the rest is kept by the caller until more comes.
//! This module must never know who asked, or why.

/// Bytes of a head, of an event or of a message that are taken at most.
pub(crate) const WHOLE_BYTES_MAX: usize = 1 << 20;

/// Header fields of an answer that are looked at, at most.
const FIELDS_MAX: usize = 32;

/// Why an answer is given up; one kind of error each.
pub(crate) type Fault = &'static str;

/// What is said of an answer that cannot be read, where the address may be another service's.
pub(crate) fn not_http(fault: Fault) -> String {
    format!("{fault}; is --to where the server has HTTP?")
}

/// The head of an answer (RFC 9112 4).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Head<'a> {
    /// The status code.
    pub(crate) status: u16,
    /// Bytes of the head.
    pub(crate) bytes: usize,
    /// Bytes of the body; none if it says nothing of them.
    pub(crate) length: Option<usize>,
    /// The connection ends with it.
    pub(crate) closes: bool,
    /// When to ask again, in seconds (RFC 9110 10.2.3).
    pub(crate) retry_after_s: Option<u32>,
    /// From where to continue, of an answer without items.
    pub(crate) next_after: Option<&'a str>,
    /// The proof of the opening handshake (RFC 6455 4.2.2).
    pub(crate) accept: Option<&'a str>,
    /// What is spoken over the WebSocket (RFC 6455 1.9).
    pub(crate) protocol: Option<&'a str>,
    /// The type of the body.
    pub(crate) kind: Option<&'a str>,
}

/// Reads a head; none if it is not whole.
///
/// # Errors
/// It is no answer of HTTP/1.1, or of a form that is not taken here.
pub(crate) fn head(bytes: &[u8]) -> Result<Option<Head<'_>>, Fault> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut read = httparse::Response::new(&mut fields);
    let used = match read.parse(bytes) {
        Ok(httparse::Status::Complete(used)) => used,
        Ok(httparse::Status::Partial) if bytes.len() < WHOLE_BYTES_MAX => return Ok(None),
        _ => return Err("http: the answer is not HTTP/1.1"),
    };
    let mut head = Head { status: read.code.unwrap_or_default(), bytes: used, ..Head::default() };
    for field in read.headers.iter() {
        let value = std::str::from_utf8(field.value).unwrap_or_default().trim();
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        if is("content-length") {
            let length = value.parse().ok().filter(|length| *length <= WHOLE_BYTES_MAX);
            head.length = Some(length.ok_or("http: an invalid Content-Length")?);
        } else if is("connection") {
            head.closes |= value.split(',').any(|word| word.trim().eq_ignore_ascii_case("close"));
        } else if is("retry-after") {
            head.retry_after_s = value.parse().ok();
        } else if is("next-after") {
            head.next_after = Some(value);
        } else if is("sec-websocket-accept") {
            head.accept = Some(value);
        } else if is("sec-websocket-protocol") {
            head.protocol = Some(value);
        } else if is("content-type") {
            head.kind = Some(value);
        } else if is("transfer-encoding") {
            return Err("http: a chunked body, which is not supported");
        }
    }
    Ok(Some(head))
}

/// A whole answer: its head and its body.
pub(crate) type Answer<'a> = (Head<'a>, &'a [u8]);

/// Reads an answer whose body has a length (RFC 9112 6.3); none if it is not whole.
///
/// # Errors
/// As [`head`].
pub(crate) fn answer(bytes: &[u8]) -> Result<Option<Answer<'_>>, Fault> {
    let Some(head) = head(bytes)? else { return Ok(None) };
    let length = match head.status {
        204 | 304 => 0,
        _ => head.length.ok_or("http: a body without a length")?,
    };
    Ok(bytes[head.bytes..].get(..length).map(|body| (head, body)))
}

/// A frame of a server (RFC 6455 5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Frame<'a> {
    /// A message.
    Text(&'a [u8]),
    /// To be answered with the same.
    Ping(&'a [u8]),
    /// Nothing to do.
    Pong,
    /// The end, with a code if it gives one.
    Close(Option<u16>),
}

/// Reads the next frame and how many bytes it has; none if it is not whole.
///
/// # Errors
/// It is none of a server, or of a form that is not taken here.
pub(crate) fn frame(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, Fault> {
    let [first, second, ..] = *bytes else { return Ok(None) };
    if second & 0x80 != 0 {
        return Err("websocket: a frame with a mask");
    }
    let of = |range: std::ops::Range<usize>| {
        bytes.get(range).map(|number| number.iter().fold(0u64, |all, byte| all << 8 | u64::from(*byte)))
    };
    let (length, start) = match second & 0x7f {
        126 => (of(2..4), 4),
        127 => (of(2..10), 10),
        length => (Some(u64::from(length)), 2),
    };
    let Some(length) = length else { return Ok(None) };
    if length > WHOLE_BYTES_MAX as u64 {
        return Err("websocket: a frame that is too long");
    }
    let end = start + length as usize;
    let frame = |content| match first {
        0x81 => Ok(Frame::Text(content)),
        0x88 => Ok(Frame::Close(content.first_chunk().map(|code| u16::from_be_bytes(*code)))),
        0x89 => Ok(Frame::Ping(content)),
        0x8a => Ok(Frame::Pong),
        0x01 | 0x00 | 0x80 => Err("websocket: a fragmented message, which is not supported"),
        _ => Err("websocket: a kind of frame that is not supported"),
    };
    match bytes.get(start..end) {
        None => Ok(None),
        Some(content) => Ok(Some((frame(content)?, end))),
    }
}

/// The nonce of the opening handshake, and what proves that a server has read it (RFC 6455 1.3).
pub(crate) const NONCE: &str = "dGhlIHNhbXBsZSBub25jZQ==";
/// See [`NONCE`].
pub(crate) const PROOF: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// Appends the head of a client's message of so many bytes, which follow; of its mask see [`write_control`].
pub(crate) fn write_text_head(out: &mut Vec<u8>, length: usize) {
    out.push(0x81);
    match length {
        0..126 => out.push(0x80 | length as u8),
        126..0x1_0000 => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&[0; 4]);
}

/// Appends a control frame of a client; its mask hides nothing from anybody, so it is 0 (RFC 6455 5.3 is about scripts).
pub(crate) fn write_control(out: &mut Vec<u8>, opcode: u8, content: &[u8]) {
    let content = &content[..content.len().min(125)];
    out.extend_from_slice(&[0x80 | opcode, 0x80 | content.len() as u8, 0, 0, 0, 0]);
    out.extend_from_slice(content);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Whatever the cut, a whole is read once and as it is.
    pub(crate) fn whole<T: PartialEq + std::fmt::Debug>(
        bytes: &[u8],
        read: impl Fn(&[u8]) -> Result<Option<(T, usize)>, Fault>,
    ) -> T {
        for cut in 0..bytes.len() {
            assert_eq!(read(&bytes[..cut]), Ok(None), "{cut} of {}", bytes.len());
        }
        let (found, used) = read(bytes).expect("no fault").expect("whole");
        assert_eq!(used, bytes.len());
        assert_eq!(read(&[bytes, b"more"].concat()).expect("no fault").expect("whole"), (found, used));
        read(bytes).expect("no fault").expect("whole").0
    }

    #[test]
    fn answers_are_read_however_they_are_cut() {
        let text =
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: application/json\r\nConnection: close\r\n\r\nabcde";
        let read = |bytes: &[u8]| {
            answer(bytes).map(|found| {
                found.map(|(head, body)| ((head.status, head.closes, body.to_vec()), head.bytes + body.len()))
            })
        };
        assert_eq!(whole(text.as_bytes(), read), (200, true, b"abcde".to_vec()));
        let text = "HTTP/1.1 204 No Content\r\nNext-After: 12,0\r\n\r\n";
        let (head, body) = answer(text.as_bytes()).expect("no fault").expect("whole");
        assert_eq!((head.status, head.next_after, head.closes, body), (204, Some("12,0"), false, &b""[..]));
        let text = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(answer(text.as_bytes()).expect("no fault").expect("whole").0.retry_after_s, Some(7));
    }

    #[test]
    fn what_is_no_answer_is_a_fault_and_not_kept() {
        for text in [
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
        ] {
            assert!(answer(text.as_bytes()).is_err(), "{text}");
        }
        let endless = [b"HTTP/1.1 200 OK\r\nA: ".to_vec(), vec![b'a'; WHOLE_BYTES_MAX]].concat();
        assert!(head(&endless).is_err());
        assert!(frame(&[0x81, 127, 0, 0, 0, 0, 255, 0, 0, 0]).is_err());
    }

    #[test]
    fn frames_are_read_however_they_are_cut() {
        let long = vec![b'x'; 70_000];
        for (length, head) in
            [(5, vec![0x81, 5]), (300, vec![0x81, 126, 1, 44]), (70_000, vec![0x81, 127, 0, 0, 0, 0, 0, 1, 0x11, 0x70])]
        {
            let bytes = [&head, &long[..length]].concat();
            // Every cut of a short one; of a long one those in its head, and some behind.
            for cut in (0..bytes.len()).filter(|cut| *cut < 20 || cut % 9_999 == 0) {
                assert_eq!(frame(&bytes[..cut]), Ok(None));
            }
            assert_eq!(frame(&bytes), Ok(Some((Frame::Text(&long[..length]), bytes.len()))));
        }
        assert_eq!(frame(&[0x88, 2, 3, 0xf1]), Ok(Some((Frame::Close(Some(1009)), 4))));
        assert_eq!(frame(&[0x88, 0]), Ok(Some((Frame::Close(None), 2))));
        assert_eq!(frame(&[0x89, 1, b'p']), Ok(Some((Frame::Ping(b"p"), 3))));
        for wrong in [&[0x81, 0x85, 0, 0, 0, 0, 1, 2, 3, 4, 5][..], &[0x01, 0], &[0x82, 0], &[0xc1, 0]] {
            assert!(frame(wrong).is_err(), "{wrong:?}");
        }
        let mut out = Vec::new();
        write_control(&mut out, 10, b"p");
        assert_eq!(out, [0x8a, 0x81, 0, 0, 0, 0, b'p']);
    }
}
