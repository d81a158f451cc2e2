//! The protocol of Nchan (1.3) on channels of notifications, as data: subscribers by long poll,
//! interval poll, server-sent events and WebSocket; publishers, which get information about the
//! channel.
//!
//! In Nchan, operators choose the paths. Here they are fixed: `/sub/` and `/poll/` for subscribers,
//! `/pub/` for publishers, `/pubsub/` for both. Requests are converted to those of `/n/`, and the
//! output to the format that Nchan's clients expect.
//!
//! - [`id`] parses and writes identifiers of messages. [`message`] writes items as messages.
//!   [`info`] is the information for publishers.

pub mod id;
pub mod info;
pub mod message;
mod subscriber;

use percent_encoding::percent_decode_str;

use self::id::Id;
use self::info::Format;
pub use self::subscriber::Subscriber;
use self::subscriber::{By, State, Subscription};
use crate::limits::{NOTIFY_BODY_BYTES_MAX, NOTIFY_CHANNELS_MAX, NOTIFY_TYPE_BYTES_MAX, NOTIFY_WAIT_S_MAX};
use crate::web::access::shown::Shown;
use crate::web::access::topic;
use crate::web::dialect::Publisher;
use crate::web::dialect::asked::{Asked, Place, Publication, Refused, Wish, bad, refuse};
use crate::web::dialect::mercure::event;
use crate::web::dialect::plain::{self, is_kind};
use crate::web::form;
use crate::web::handshake;
use crate::web::head::{Head, Method};
use crate::web::keys::keys;
use crate::web::policy::Channels;
use crate::web::request::{Request, Site};
use crate::web::response::Response;
use crate::web::row::{Answer, Origins, Row};
use crate::web::status::Status;

/// Subscribe, and wait for messages.
const SUB: Row = Row { path: "/sub/", handle: subscribe, ..PUBSUB_GET };
/// Ask for a message without waiting.
const POLL: Row = Row { path: "/poll/", handle: poll, ..PUBSUB_GET };
/// Publish; query and empty channels.
const PUB: Row = Row { path: "/pub/", handle: publish, ..PUBSUB };
/// Publish and subscribe. A client that continues where another has stopped sends the last position
/// as `Etag`.
const PUBSUB: Row = Row {
    body_bytes_max: NOTIFY_BODY_BYTES_MAX,
    fields: "If-None-Match, If-Modified-Since, Etag, Content-Type, Cache-Control, X-EventSource-Event, Authorization, \
             Idempotency-Key, Item-Key, Last-Event-ID",
    ..Row::of("/pubsub/", &[Method::Get, Method::Post, Method::Put, Method::Delete], Origins::Policy, both)
};
const PUBSUB_GET: Row = Row { methods: &[Method::Get], body_bytes_max: 0, ..PUBSUB };

/// Its paths.
pub const ROWS: &[Row] = &[SUB, POLL, PUB, PUBSUB];

/// The subprotocol whose messages contain their position and type.
const META: &str = "ws+meta.nchan";

fn subscribe(request: &Request<'_>, site: &Site<'_>) -> Answer {
    answer(request, site, &SUB, |head, _, names| subscription(head, names, false))
}

fn poll(request: &Request<'_>, site: &Site<'_>) -> Answer {
    answer(request, site, &POLL, |head, _, names| subscription(head, names, true))
}

fn publish(request: &Request<'_>, site: &Site<'_>) -> Answer {
    answer(request, site, &PUB, |head, body, names| match head.method {
        Method::Post | Method::Put => publication(head, body, names),
        method if names != 1 => bad(match method {
            Method::Delete => "only one channel can be deleted at a time",
            _ => "only one channel can be queried at a time",
        }),
        Method::Delete => Ok((Wish::Info(Publisher::Nchan(Format::of(head)), true), vec![None])),
        _ => Ok((Wish::Info(Publisher::Nchan(Format::of(head)), false), vec![None])),
    })
}

fn both(request: &Request<'_>, site: &Site<'_>) -> Answer {
    match request.head.method {
        Method::Get | Method::Head => answer(request, site, &PUBSUB, |head, _, names| subscription(head, names, false)),
        _ => answer(request, site, &PUBSUB, |head, body, names| match head.method {
            Method::Delete if names != 1 => bad("only one channel can be deleted at a time"),
            Method::Delete => Ok((Wish::Info(Publisher::Nchan(Format::of(head)), true), vec![None])),
            _ => publication(head, body, names),
        }),
    }
}

type Read = Result<(Wish, Vec<Option<u64>>), Refused>;

/// Parses the channels of a request, and the request itself by `read`.
fn answer(request: &Request<'_>, site: &Site<'_>, row: &Row, read: impl Fn(&Head<'_>, &[u8], usize) -> Read) -> Answer {
    let head = request.head;
    let asked = || {
        let channels = channels(&head.path[row.path.len()..], &site.policy.channels)?;
        // HEAD asks for no messages and does not wait.
        if head.method == Method::Head {
            return Err(Box::new(Response::empty(Status::Ok)));
        }
        if is_run(head) {
            return refuse(Status::Forbidden, "messages are data and cannot be loaded as scripts or styles");
        }
        let shown = Shown::by(head)?;
        let (wish, after) = read(head, request.body, channels.len())?;
        let place = |(channel, after): (_, Option<u64>)| Place { channel, after: after.into() };
        let channels = channels.into_iter().zip(after).map(place).collect();
        Ok(Asked::of(channels, wish, shown))
    };
    asked().into()
}

/// Whether a page would execute the response, for example as a script (Fetch Metadata 2.1).
/// Publishers choose the content type, and the page may trust its own origin.
fn is_run(head: &Head<'_>) -> bool {
    let runs = |to: &str| ["script", "style", "xslt", "embed", "object"].contains(&to) || to.ends_with("worker");
    head.one("sec-fetch-dest").is_some_and(|to| runs(to) || to.ends_with("worklet"))
}

/// The channels of a path, separated by commas. Characters that channel names do not allow are
/// escaped as in topics.
fn channels(path: &str, policy: &Channels) -> Result<Vec<Box<str>>, Refused> {
    if !policy.nchan || !policy.any() {
        return refuse(Status::NotFound, "nothing is served at this path");
    }
    let mut channels = Vec::<Box<str>>::new();
    for name in path.split(',') {
        if channels.len() == NOTIFY_CHANNELS_MAX {
            return bad("the request has too many channels; the limit is 16");
        }
        let Ok(name) = percent_decode_str(name).decode_utf8() else {
            return bad("the name of a channel is not valid UTF-8");
        };
        let channel = match topic::channel(&name) {
            Ok(channel) => Box::from(&*channel),
            Err(_) => {
                return bad(
                    "the name of a channel must have 1 to 128 bytes, including escapes, and no braces or control characters",
                );
            }
        };
        if channels.contains(&channel) {
            return bad("a channel is named twice");
        }
        if !policy.is_there(&channel) {
            return refuse(
                Status::NotFound,
                "no such channel; the server's options notify (open) and notify_private (with a token) list them",
            );
        }
        channels.push(channel);
    }
    Ok(channels)
}

fn subscription(head: &Head<'_>, channels: usize, asks: bool) -> Read {
    let pairs = || form::pairs(head.query).flatten();
    let (way, wait_s) = match handshake::is_asked(head) && !asks {
        true => {
            let accept = handshake::accept(head).map_err(Box::new)?;
            (By::Socket(Box::new(accept), head.list("sec-websocket-protocol").any(|offered| offered == META)), 0)
        }
        false if asks => (By::Ask, 0),
        false if head.list("accept").any(|kind| is_kind(kind, "text/event-stream")) => (By::Events, 0),
        false => {
            let wait = pairs().find(|(name, _)| name == "wait");
            let wait_s = wait.map_or(Ok(NOTIFY_WAIT_S_MAX), |(_, seconds)| seconds.parse::<u32>());
            let Ok(wait_s) = wait_s else { return bad("wait must be a number of seconds") };
            (By::Poll, wait_s.min(NOTIFY_WAIT_S_MAX))
        }
    };
    let said = || {
        // An invalid date is ignored.
        let date = head.one("if-modified-since").and_then(|date| httpdate::parse_http_date(date).ok());
        let seconds = date.and_then(|date| date.duration_since(std::time::UNIX_EPOCH).ok());
        if let Some(seconds) = seconds.map(|since| since.as_secs()).filter(|seconds| *seconds > 0) {
            return Id::of(seconds, head.one("if-none-match").unwrap_or("none"), channels).map(Some);
        }
        let field = |name| head.one(name).map(str::to_owned);
        let last = field("last-event-id").filter(|id| !id.is_empty());
        let query = || pairs().find(|(name, _)| name == "last_event_id").map(|(_, id)| id.into_owned());
        match last.or_else(query).or_else(|| field("etag")) {
            Some(id) => Id::read(&id, channels),
            None => Ok(None),
        }
    };
    let Ok(id) = said() else { return bad("Message ID invalid") };
    let id = id.filter(|id| id.time_s > 0);
    // An identifier with only a time for a channel asks for everything published since then. Of
    // several channels a tag may be 0 because there was no earlier message.
    let of_time = id.as_ref().is_some_and(|id| id.tags.contains(&None) || (channels == 1 && id.is_time()));
    let from = id.as_ref().map(|id| {
        let tag = |tag: &Option<u64>| tag.map_or("-".into(), |tag| tag.to_string());
        (id.time_s, id.tags.iter().map(tag).collect::<Vec<_>>().join(",").into())
    });
    let since_s = id.as_ref().filter(|_| of_time).map_or(0, |id| id.time_s);
    let after = id.map_or(vec![0; channels], |id| id.tags.into_iter().map(Option::unwrap_or_default).collect());
    let own = State::of(Subscription { way, since_s, from });
    Ok((Wish::Subscribe(own.into(), wait_s), after.into_iter().map(Some).collect()))
}

fn publication(head: &Head<'_>, body: &[u8], channels: usize) -> Read {
    if channels > 1 {
        return bad("a message must be published at one channel");
    }
    let mut kind = head.one("content-type").unwrap_or_default().to_owned();
    if let Some(event) = head.one("x-eventsource-event").filter(|event| !event.is_empty()) {
        if !event::is_type(event) {
            return bad("the type of an event must not have control characters");
        }
        kind = event::kind_of(&kind, Some(event), None);
    }
    if kind.len() > NOTIFY_TYPE_BYTES_MAX || !kind.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return bad("the content type, or the type of the event, is too long or empty");
    }
    let key = plain::key(head)?;
    let keys = keys(head, false, b"")?;
    let answered = Publisher::Nchan(Format::of(head));
    let publication = Publication { kind: kind.into(), key, keys, batch: None, answered, body: body.to_vec() };
    Ok((Wish::Publish(publication), vec![None]))
}
