//! Channels of notifications (`/n/`): publish, long poll, server-sent events (HTML 9.2) and
//! WebSocket (RFC 6455), as data.
//!
//! Requests are parsed and validated here. The items belong to a node of the publish-subscribe
//! service, which this module does not know.

mod subscriber;

use serde::Serialize;

pub use self::subscriber::Subscriber;
use crate::id::PushId;
use crate::limits::{
    NOTIFY_BATCH_BYTES_MAX, NOTIFY_BATCH_ITEMS_MAX, NOTIFY_BODY_BYTES_MAX, NOTIFY_CHANNELS_MAX, NOTIFY_KEY_BYTES_MAX,
    NOTIFY_NAME_BYTES_MAX, NOTIFY_PREFIXES_PER_REQUEST_MAX, NOTIFY_TYPE_BYTES_MAX, NOTIFY_WAIT_S_MAX,
};
use crate::web::access::shown::Shown;
use crate::web::access::topic::is_of_name;
use crate::web::dialect::asked::{After, Asked, Place, Publication, Refused, Wish, bad, lines, refuse};
use crate::web::dialect::{Outcome, Publisher};
use crate::web::handshake;
use crate::web::head::{Head, Method};
use crate::web::keys::keys;
use crate::web::policy::Channels;
use crate::web::prefix;
use crate::web::push;
use crate::web::request::Request;
use crate::web::response::Response;
use crate::web::row::{Origins, Row};
use crate::web::status::Status;
use crate::wire::json;

/// The path of channels.
const PATH: &str = "/n/";

/// Its path.
pub const ROWS: &[Row] = &[Row {
    body_bytes_max: NOTIFY_BATCH_BYTES_MAX,
    fields: "Content-Type, Authorization, Idempotency-Key, Item-Key, Item-Key-Member, Last-Event-ID",
    cookies: |policy| policy.channels.asks.takes_cookies(),
    ..Row::of(PATH, &[Method::Get, Method::Post, Method::Put, Method::Delete], Origins::Policy, |request, site| {
        read(request, &site.policy.channels).into()
    })
}];

/// The response to a publication.
pub fn published(outcome: &Outcome<'_>) -> Response {
    /// Numbers are strings: not every reader of JSON has 64 bits for one.
    #[derive(Serialize)]
    struct Shown<'a> {
        channel: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        ids: Option<Vec<String>>,
        repeated: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        subscribers: Option<u32>,
    }
    Response::json(json::line(&Shown {
        channel: outcome.channel,
        id: outcome.batch.is_none().then(|| outcome.number.to_string()),
        ids: outcome.batch.as_ref().map(|numbers| numbers.iter().map(u64::to_string).collect()),
        repeated: outcome.repeated,
        subscribers: outcome.tells.then_some(outcome.info.subscribers),
    }))
}

fn read(request: &Request<'_>, policy: &Channels) -> Result<Asked, Refused> {
    let head = request.head;
    if !policy.any() {
        return refuse(Status::NotFound, "nothing is served at this path");
    }
    if head.path == PATH && head.query == "push-key" && head.method == Method::Get {
        return Err(Box::new(pushes(policy)?.shown()));
    }
    let names = head.path[PATH.len()..].split(',');
    let names: Vec<Box<str>> =
        names.map(|name| prefix::of(name).map_or(name.into(), |prefix| format!("{prefix}*").into())).collect();
    let prefixes = names.iter().filter(|name| prefix::of(name).is_some()).count();
    if names.len() > NOTIFY_CHANNELS_MAX || prefixes > NOTIFY_PREFIXES_PER_REQUEST_MAX {
        return bad("the request has too many channels; the limit is 16, of which 4 may be prefixes");
    }
    for (at, name) in names.iter().enumerate() {
        named(name, policy)?;
        if names[..at].iter().any(|other| covers(other, name) || covers(name, other)) {
            return bad("a channel is named twice, or also by a prefix");
        }
    }
    let occupancy = occupancy(head)?;
    if occupancy && prefixes > 0 {
        return bad("occupancy is reported for channels, not for prefixes");
    }
    if occupancy && !names.iter().all(|name| policy.tells(name)) {
        return refuse(
            Status::Forbidden,
            "occupancy of this channel is not reported; the server's option notify_occupancy lists where it is",
        );
    }
    let shown = Shown::by(head)?;
    let (wish, after) = match head.method {
        Method::Post if names.len() > 1 || prefixes > 0 => return bad("an item must be published at one channel"),
        Method::Post => (Wish::Publish(publication(request)?), vec![After::Now]),
        Method::Put | Method::Delete => {
            (registration(request, pushes(policy)?, names.len(), prefixes)?, vec![After::Now])
        }
        Method::Get => match subscription(head, &names)? {
            (Subscriber::Poll(_), ..) if occupancy => (only_occupancy(head, names.len())?, vec![After::Now]),
            (own, wait_s, after) => (Wish::Subscribe(own.into(), wait_s), after),
        },
        // HEAD asks for no items and does not wait.
        _ => return Err(Box::new(Response::empty(Status::Ok))),
    };
    let channels = names.into_iter().zip(after).map(|(channel, after)| Place { channel, after }).collect();
    let push = match push::named(head).filter(|_| head.method == Method::Get && policy.push.is_some()) {
        None => None,
        Some(id) => match PushId::read(id) {
            Some(id) => Some(id),
            None => return bad("push must be the id in the answer to the registration"),
        },
    };
    Ok(Asked { occupancy, push, ..Asked::of(channels, wish, shown) })
}

/// The operator's settings for push messages.
fn pushes(policy: &Channels) -> Result<&push::Push, Refused> {
    let text = "push is not enabled; the server's option notify_push enables it";
    policy.push.as_deref().ok_or_else(|| Box::new(Response::text(Status::NotFound, text)))
}

/// Parses a page's registration for push messages, or its removal.
fn registration(request: &Request<'_>, pushes: &push::Push, channels: usize, prefixes: usize) -> Result<Wish, Refused> {
    let head = request.head;
    match (push::named(head), head.method) {
        (Some(_), _) if channels > 1 || prefixes > 0 => bad("only one channel can be registered for at a time"),
        (Some(""), Method::Put) => match pushes.read(request.body) {
            Ok(subscription) => Ok(Wish::Register(Box::new(subscription))),
            Err(text) => bad(text),
        },
        (Some(id), Method::Delete) => match PushId::read(id) {
            Some(id) => Ok(Wish::Unregister(id)),
            None => bad("remove a registration by its id: DELETE /n/CHANNEL?push=ID"),
        },
        _ => {
            bad("register for pushes by PUT /n/CHANNEL?push, and remove the registration by DELETE /n/CHANNEL?push=ID")
        }
    }
}

/// Checks whether a name is available: that of a channel, or a prefix with its `*`.
fn named(name: &str, policy: &Channels) -> Result<(), Refused> {
    let asked = prefix::of(name);
    if asked.is_some_and(|prefix| !prefix::is_one(prefix)) {
        return bad(
            "a prefix must be empty or end with one of -._~:@+, with at most 8 of these and at most 127 characters",
        );
    }
    if asked.is_none() && (name.is_empty() || name.len() > NOTIFY_NAME_BYTES_MAX || !name.bytes().all(is_of_name)) {
        return bad("the name of a channel must be 1 to 128 letters, digits, and characters of -._~:@+");
    }
    if !asked.map_or_else(|| policy.is_there(name), |prefix| policy.has_some(prefix)) {
        return refuse(
            Status::NotFound,
            "no such channel; the server's options notify (open) and notify_private (with a token) list them",
        );
    }
    if asked.is_some_and(|prefix| !policy.takes_prefix(prefix)) {
        return refuse(
            Status::Forbidden,
            "this prefix is not permitted; the server's option notify_wildcards lists the permitted ones",
        );
    }
    Ok(())
}

/// Whether the first name includes the second.
fn covers(one: &str, other: &str) -> bool {
    prefix::of(one).map_or_else(|| one == other, |prefix| other.starts_with(prefix))
}

/// The value of a query parameter.
fn value<'a>(head: &Head<'a>, name: &str) -> Option<&'a str> {
    let mut pairs = head.query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find_map(|(own, value)| (own == name).then_some(value))
}

/// Whether a subscriber wants to know the other subscribers.
fn occupancy(head: &Head<'_>) -> Result<bool, Refused> {
    let bare = head.query.split('&').any(|pair| pair == "occupancy");
    match value(head, "occupancy") {
        None | Some("0") => Ok(bare && head.method == Method::Get),
        Some("1") => Ok(head.method == Method::Get),
        Some(_) => bad("occupancy must be 1 or 0"),
    }
}

/// The subscribers can only be queried by themselves if the response is finite.
fn only_occupancy(head: &Head<'_>, channels: usize) -> Result<Wish, Refused> {
    if channels > 1 {
        return bad("occupancy can be queried for one channel at a time; events and WebSockets report it for several");
    }
    if value(head, "wait").or(value(head, "after")).is_some() {
        return bad("a long poll does not report occupancy; omit wait and after, or use events or a WebSocket");
    }
    Ok(Wish::Occupancy)
}

fn publication(request: &Request<'_>) -> Result<Publication, Refused> {
    let head = request.head;
    let kind = head.one("content-type").unwrap_or("application/octet-stream");
    if kind.is_empty() || kind.len() > NOTIFY_TYPE_BYTES_MAX || !kind.bytes().all(|byte| (b' '..=b'~').contains(&byte))
    {
        return bad("the content type is too long or empty");
    }
    let key = key(head)?;
    let batch = batch(kind, request.body)?;
    let keys = keys(head, batch.is_some(), request.body)?;
    Ok(Publication { kind: kind.into(), key, keys, batch, answered: Publisher::Plain, body: request.body.to_vec() })
}

/// The publisher's idempotency key.
///
/// # Errors
/// The response, if it is invalid.
pub fn key(head: &Head<'_>) -> Result<Option<Box<str>>, Box<Response>> {
    let keys = head.all("idempotency-key").count();
    let key = head.one("idempotency-key");
    let fits = |key: &str| (1..=NOTIFY_KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic());
    if keys > 1 || key.is_some_and(|key| !fits(key)) || keys != usize::from(key.is_some()) {
        return bad("Idempotency-Key must be sent once, with 1 to 64 visible characters");
    }
    Ok(key.map(Into::into))
}

/// The media type of a batch. It is not registered, but common in bulk interfaces.
const BATCH: &str = "application/x-ndjson";

/// The number of items of a batch; `None` if it is a single item.
fn batch(kind: &str, body: &[u8]) -> Result<Option<usize>, Refused> {
    if !is_kind(kind, BATCH) {
        return match body.len() {
            0..=NOTIFY_BODY_BYTES_MAX => Ok(None),
            _ => refuse(Status::ContentTooLarge, "the content is too long; the limit of an item is 32 KiB"),
        };
    }
    if lines(body).any(|line| line.len() > NOTIFY_BODY_BYTES_MAX) {
        return refuse(Status::ContentTooLarge, "a line is too long; the limit of an item is 32 KiB");
    }
    match lines(body).count() {
        0 => bad("the batch is empty; send one item per line"),
        items @ 1..=NOTIFY_BATCH_ITEMS_MAX => Ok(Some(items)),
        _ => refuse(Status::ContentTooLarge, "the batch has too many items; the limit is 64"),
    }
}

fn subscription(head: &Head<'_>, names: &[Box<str>]) -> Result<(Subscriber, u32, Vec<After>), Refused> {
    let binary = match value(head, "format") {
        None | Some("json") => false,
        Some("binary") if handshake::is_asked(head) => true,
        Some("binary") => return bad("the binary format is only for WebSockets"),
        Some(_) => return bad("format must be json or binary"),
    };
    let (own, wait_s) = if handshake::is_asked(head) {
        (Subscriber::Socket(Some(Box::new(handshake::accept(head).map_err(Box::new)?)), binary), 0)
    } else if head.list("accept").any(|kind| is_kind(kind, "text/event-stream")) {
        (Subscriber::Events(false), 0)
    } else {
        let wait_s = value(head, "wait").map_or(Ok(0), |seconds| seconds.parse::<u32>());
        let Ok(wait_s) = wait_s else { return bad("wait must be a number of seconds") };
        (Subscriber::Poll(None), wait_s.min(NOTIFY_WAIT_S_MAX))
    };
    // A browser that reconnects sends the last id that it has received (HTML 9.2.4).
    let last = head.one("last-event-id").filter(|last| own == Subscriber::Events(false) && !last.is_empty());
    let Some(after) = last.or(value(head, "after")) else {
        // A plain request returns all retained items.
        let all = (own == Subscriber::Poll(None) && wait_s == 0).then_some(0);
        if all.is_some() && names.iter().any(|name| prefix::of(name).is_some()) {
            return bad("a prefix has no history; wait for its items, or request the history of each channel");
        }
        return Ok((own, wait_s, vec![all.into(); names.len()]));
    };
    let after = after.replace("%2C", ",").replace("%2c", ",");
    let places: Option<Vec<_>> = names.iter().zip(after.split(',')).map(|(name, place)| behind(name, place)).collect();
    match places.filter(|places| places.len() == names.len() && places.len() == after.split(',').count()) {
        Some(places) => Ok((own, wait_s, places)),
        None => bad("after must be the id of an item, or one position per channel, separated by commas"),
    }
}

/// Parses a position: the number of an item, or for a prefix the numbers of all homes.
fn behind(name: &str, place: &str) -> Option<After> {
    if prefix::of(name).is_none() {
        return place.parse().ok().map(After::Number);
    }
    let numbers = place.split('.').map(|number| u64::from_str_radix(number, 36).ok());
    numbers.collect::<Option<_>>().map(After::Numbers)
}

/// Whether a content type has this media type, with any parameters.
pub fn is_kind(kind: &str, wanted: &str) -> bool {
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(wanted))
}
