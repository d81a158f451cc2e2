//! Replies and pushes, each as one text message, and the codes by which the protocol tells a client
//! how to proceed.

use std::fmt::Write as _;

use crate::web::frame::{self, Code, FrameFault};

/// Why a command is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The error's code.
    pub code: u16,
    /// A description for people.
    pub message: &'static str,
    /// The command may succeed later.
    pub temporary: bool,
}

const fn error(code: u16, message: &'static str) -> Error {
    Error { code, message, temporary: false }
}

/// A home has not answered, or cannot carry out the command now.
pub const INTERNAL: Error = Error { temporary: true, ..error(100, "internal server error") };
/// The subscription or connection ended before the command was carried out. The client sends it
/// again if it is still relevant.
pub const CANCELLED: Error = Error { temporary: true, ..error(100, "cancelled") };
/// There is no such channel.
pub const UNKNOWN_CHANNEL: Error = error(102, "unknown channel");
/// A token is missing, or does not grant the operation.
pub const PERMISSION_DENIED: Error = error(103, "permission denied");
/// The command is not supported.
pub const METHOD_NOT_FOUND: Error = error(104, "method not found");
/// The client is already subscribed to the channel.
pub const ALREADY_SUBSCRIBED: Error = error(105, "already subscribed");
/// A limit on a number or a length is exceeded.
pub const LIMIT_EXCEEDED: Error = error(106, "limit exceeded");
/// The parameters are invalid.
pub const BAD_REQUEST: Error = error(107, "bad request");
/// The feature is disabled or not available.
pub const NOT_AVAILABLE: Error = error(108, "not available");
/// The token has expired; the client fetches a new one.
pub const TOKEN_EXPIRED: Error = error(109, "token expired");
/// A rate limit is exceeded.
pub const TOO_MANY_REQUESTS: Error = Error { temporary: true, ..error(111, "too many requests") };
/// The requested publications are no longer stored, or belong to another epoch.
pub const UNRECOVERABLE: Error = error(112, "unrecoverable position");

/// Defines why a connection is closed. From code 3500 on, clients do not reconnect.
const fn ends(code: u16, text: &'static str) -> FrameFault {
    FrameFault { code: Code::Own(code), text }
}

/// The server is shutting down.
pub const SHUTDOWN: FrameFault = ends(3001, "shutdown");
/// The token of the connection has expired; the client fetches a new one.
pub const EXPIRED: FrameFault = ends(3005, "connection expired");
/// There is no room for another long message at present.
pub const LATER: FrameFault = ends(3011, "force reconnect");
/// The last ping was not answered.
pub const NO_PONG: FrameFault = ends(3012, "no pong");
/// The token of the connection is invalid.
pub const INVALID_TOKEN: FrameFault = ends(3500, "invalid token");
/// A command is malformed, or out of order.
pub const BAD_COMMAND: FrameFault = ends(3501, "bad request");
/// The first command did not arrive in time.
pub const STALE: FrameFault = ends(3502, "stale");

/// Why a subscription ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsubscribed {
    /// The server has decided so; the client does not subscribe again.
    Server,
    /// Publications are missing; the client subscribes again.
    Insufficient,
    /// Its token has expired; the client fetches a new one and subscribes again.
    Expired,
}

impl Unsubscribed {
    fn words(self) -> (u16, &'static str) {
        match self {
            Unsubscribed::Server => (2000, "server unsubscribe"),
            Unsubscribed::Insufficient => (2500, "insufficient state"),
            Unsubscribed::Expired => (2501, "subscription expired"),
        }
    }
}

/// Appends a JSON string.
pub fn string(out: &mut Vec<u8>, text: &str) {
    // Writing to a vector does not fail, and any text can be serialized.
    let _ = serde_json::to_writer(out, text);
}

/// Appends a message that consists of these parts.
fn message(out: &mut Vec<u8>, parts: &[&[u8]]) {
    frame::write_head(out, parts.iter().map(|part| part.len()).sum());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Appends the reply to a command, with its result under `name`.
pub fn result(out: &mut Vec<u8>, id: u32, name: &str, result: &[u8]) {
    message(out, &[format!("{{\"id\":{id},\"{name}\":").as_bytes(), result, b"}"]);
}

/// Appends the reply to a command that failed.
pub fn refusal(out: &mut Vec<u8>, id: u32, error: Error) {
    let Error { code, message: text, temporary } = error;
    let temporary = if temporary { ",\"temporary\":true" } else { "" };
    let error = format!("{{\"id\":{id},\"error\":{{\"code\":{code},\"message\":\"{text}\"{temporary}}}}}");
    message(out, &[error.as_bytes()]);
}

/// Appends a push for a channel, with its content under `name`.
pub fn push(out: &mut Vec<u8>, channel: &str, name: &str, content: &[u8]) {
    let mut head = b"{\"push\":{\"channel\":".to_vec();
    string(&mut head, channel);
    head.extend_from_slice(format!(",\"{name}\":").as_bytes());
    message(out, &[&head, content, b"}}"]);
}

/// Appends a push that reports the end of a subscription.
pub fn unsubscribed(out: &mut Vec<u8>, channel: &str, why: Unsubscribed) {
    let (code, reason) = why.words();
    push(out, channel, "unsubscribe", format!("{{\"code\":{code},\"reason\":\"{reason}\"}}").as_bytes());
}

/// Appends a ping, which the client answers with an empty command.
pub fn ping(out: &mut Vec<u8>) {
    message(out, &[b"{}"]);
}

/// Appends the identity of a subscriber: one entry per name, which serves as the user and as the
/// client.
pub fn info(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b"{\"user\":");
    string(out, name);
    out.extend_from_slice(b",\"client\":");
    string(out, name);
    out.push(b'}');
}

/// The validity of a token as reported to clients. They fetch a new token when it is over; the old
/// one is still valid at that time.
pub fn expiry(left_s: Option<u64>) -> String {
    let Some(left_s) = left_s else { return String::new() };
    let ahead_s = (left_s / 4).min(10);
    format!(",\"expires\":true,\"ttl\":{}", (left_s - ahead_s).clamp(1, u64::from(u32::MAX)))
}

/// The result of a subscription.
#[derive(Debug)]
pub struct Began<'a> {
    /// The channel's epoch.
    pub epoch: &'a str,
    /// The offset of the last publication included.
    pub offset: u64,
    /// The client asked for recovery.
    pub recovers: bool,
    /// Recovery succeeded.
    pub recovered: bool,
    /// Publications since the client's position, separated by commas.
    pub publications: &'a [u8],
    /// Remaining validity of the subscription's own token, in seconds.
    pub left_s: Option<u64>,
}

impl Began<'_> {
    /// Writes the result as JSON.
    pub fn write(&self) -> Vec<u8> {
        let Began { epoch, offset, recovers, recovered, publications, left_s } = self;
        let mut out = String::from("{\"recoverable\":true,\"positioned\":true");
        let _ = write!(out, ",\"epoch\":\"{epoch}\",\"offset\":{offset}");
        if *recovers {
            let _ = write!(out, ",\"was_recovering\":true,\"recovered\":{recovered}");
        }
        out.push_str(&expiry(*left_s));
        let mut out = out.into_bytes();
        if !publications.is_empty() {
            [b",\"publications\":[", *publications, b"]"].iter().for_each(|part| out.extend_from_slice(part));
        }
        out.push(b'}');
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        assert_eq!((out[0], usize::from(out[1])), (0x81, out.len() - 2), "one short message of text");
        String::from_utf8(out[2..].to_vec()).unwrap()
    }

    #[test]
    fn replies_and_pushes_are_what_clients_read() {
        assert_eq!(text(|out| result(out, 7, "publish", b"{}")), "{\"id\":7,\"publish\":{}}");
        let refused = text(|out| refusal(out, 7, TOO_MANY_REQUESTS));
        assert_eq!(refused, "{\"id\":7,\"error\":{\"code\":111,\"message\":\"too many requests\",\"temporary\":true}}");
        let pushed = text(|out| push(out, "a\"\n", "pub", b"{\"data\":1}"));
        assert_eq!(pushed, "{\"push\":{\"channel\":\"a\\\"\\n\",\"pub\":{\"data\":1}}}");
        let ended = text(|out| unsubscribed(out, "a", Unsubscribed::Expired));
        assert_eq!(
            ended,
            "{\"push\":{\"channel\":\"a\",\"unsubscribe\":{\"code\":2501,\"reason\":\"subscription expired\"}}}"
        );
        assert_eq!(text(ping), "{}");
    }

    #[test]
    fn a_token_still_counts_when_its_client_gets_another_one() {
        assert_eq!(expiry(None), "");
        for (left_s, ttl) in [(0, 1), (1, 1), (4, 3), (40, 30), (3_600, 3_590), (u64::MAX, u64::from(u32::MAX))] {
            assert_eq!(expiry(Some(left_s)), format!(",\"expires\":true,\"ttl\":{ttl}"));
        }
    }

    #[test]
    fn codes_say_whether_a_client_comes_back() {
        for (fault, comes_back) in [
            (SHUTDOWN, true),
            (EXPIRED, true),
            (LATER, true),
            (NO_PONG, true),
            (INVALID_TOKEN, false),
            (BAD_COMMAND, false),
            (STALE, false),
        ] {
            assert_eq!((3_000..3_500).contains(&fault.code.number()), comes_back, "{fault:?}");
            assert!((3_000..4_000).contains(&fault.code.number()) && fault.text.len() < 123, "RFC 6455 7.4.2");
        }
    }
}
