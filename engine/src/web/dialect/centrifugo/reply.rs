//! Replies and pushes, each as one text message, and the codes by which the protocol tells a client
//! how to proceed.

use serde::Serialize;

use crate::web::frame::{self, Code, FrameFault};
use crate::wire::json;

/// Why a command is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Error {
    /// The error's code.
    pub code: u16,
    /// A description for people.
    pub message: &'static str,
    /// The command may succeed later.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
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
    fn shown(self) -> Vec<u8> {
        #[derive(Serialize)]
        struct Shown {
            code: u16,
            reason: &'static str,
        }
        let shown = |code, reason| json::bytes(&Shown { code, reason });
        match self {
            Unsubscribed::Server => shown(2000, "server unsubscribe"),
            Unsubscribed::Insufficient => shown(2500, "insufficient state"),
            Unsubscribed::Expired => shown(2501, "subscription expired"),
        }
    }
}

/// Appends a message that consists of these parts.
fn message(out: &mut Vec<u8>, parts: &[&[u8]]) {
    frame::write_head(out, parts.iter().map(|part| part.len()).sum());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

#[derive(Serialize)]
struct Reply {
    id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Error>,
}

/// Appends the reply to a command, with its result under `name`.
pub fn result(out: &mut Vec<u8>, id: u32, name: &str, result: &[u8]) {
    let mut reply = json::bytes(&Reply { id, error: None });
    json::add(&mut reply, name, &[result]);
    message(out, &[&reply]);
}

/// Appends the reply to a command that failed.
pub fn refusal(out: &mut Vec<u8>, id: u32, error: Error) {
    message(out, &[&json::bytes(&Reply { id, error: Some(error) })]);
}

/// Appends a push for a channel, with its content under `name`. Each subscriber gets one, so the
/// content is copied once.
pub fn push(out: &mut Vec<u8>, channel: &str, name: &str, content: &[u8]) {
    let mut head = b"{\"push\":{\"channel\":".to_vec();
    json::write(&mut head, channel);
    head.push(b',');
    json::write(&mut head, name);
    head.push(b':');
    message(out, &[&head, content, b"}}"]);
}

/// Appends a push that reports the end of a subscription.
pub fn unsubscribed(out: &mut Vec<u8>, channel: &str, why: Unsubscribed) {
    push(out, channel, "unsubscribe", &why.shown());
}

/// Appends a ping, which the client answers with an empty command.
pub fn ping(out: &mut Vec<u8>) {
    message(out, &[b"{}"]);
}

/// The identity of a subscriber: one entry per name, which serves as the user and as the client.
#[derive(Debug, Serialize)]
pub struct Info<'a> {
    user: &'a str,
    client: &'a str,
}

impl<'a> Info<'a> {
    /// That of a name.
    pub fn of(name: &'a str) -> Info<'a> {
        Info { user: name, client: name }
    }
}

/// The validity of a token as reported to clients. They fetch a new token when it is over; the old
/// one is still valid at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Expiry {
    expires: bool,
    /// Seconds.
    ttl: u64,
}

impl Expiry {
    /// That of a token which is valid for so many seconds; none if it does not expire.
    pub fn of(left_s: Option<u64>) -> Option<Expiry> {
        let left_s = left_s?;
        let ahead_s = (left_s / 4).min(10);
        Some(Expiry { expires: true, ttl: (left_s - ahead_s).clamp(1, u64::from(u32::MAX)) })
    }
}

/// The result of the first command, without the subscriptions.
#[derive(Debug, Serialize)]
pub struct Connected<'a> {
    /// The name of the connection.
    pub client: &'a str,
    /// Of the server.
    pub version: &'a str,
    /// Seconds between pings.
    pub ping: u32,
    /// The client answers them.
    pub pong: bool,
    /// Of the connection's token.
    #[serde(flatten)]
    pub expiry: Option<Expiry>,
}

/// The result of a new token for the connection.
#[derive(Debug, Serialize)]
pub struct Refreshed<'a> {
    /// The name of the connection; none for the token of a subscription.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<&'a str>,
    /// Of the token.
    #[serde(flatten)]
    pub expiry: Option<Expiry>,
}

/// The result of a question for earlier publications, which are separated by commas.
pub fn history(publications: &[u8], epoch: &str, offset: u64) -> Vec<u8> {
    let mut out = b"{}".to_vec();
    json::add(&mut out, "publications", &[b"[", publications, b"]"]);
    json::add(&mut out, "epoch", &[&json::bytes(&epoch)]);
    json::add(&mut out, "offset", &[&json::bytes(&offset)]);
    out
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
        #[derive(Serialize)]
        struct Shown<'a> {
            recoverable: bool,
            positioned: bool,
            epoch: &'a str,
            offset: u64,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            was_recovering: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            recovered: Option<bool>,
            #[serde(flatten)]
            expiry: Option<Expiry>,
        }
        let mut out = json::bytes(&Shown {
            recoverable: true,
            positioned: true,
            epoch: self.epoch,
            offset: self.offset,
            was_recovering: self.recovers,
            recovered: self.recovers.then_some(self.recovered),
            expiry: Expiry::of(self.left_s),
        });
        if !self.publications.is_empty() {
            json::add(&mut out, "publications", &[b"[", self.publications, b"]"]);
        }
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
        assert_eq!(Expiry::of(None), None);
        for (left_s, ttl) in [(0, 1), (1, 1), (4, 3), (40, 30), (3_600, 3_590), (u64::MAX, u64::from(u32::MAX))] {
            assert_eq!(Expiry::of(Some(left_s)), Some(Expiry { expires: true, ttl }));
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
