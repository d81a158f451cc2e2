//! Channels of notifications (`/n/`): publish, long poll, server-sent events (HTML 9.2) and WebSocket (RFC 6455), as data.
//!
//! What is asked is read here and refused if it cannot be. Who has the items is a node of the publish-subscribe service, of which nothing is
//! known here.

use super::access::pattern::is_of_name;
use super::access::shown::Shown;
use super::channel::{Answered, Asked, Place, Publication, Wish, lines};
use super::handshake;
use super::head::{Head, Method};
use super::inquiry::Sent;
use super::keys::keys;
use super::policy::Channels;
use super::request::{Request, Site};
use super::response::Response;
use super::row::{Answer, Origins, Row};
use super::status::Status;
use crate::limits::{
    NOTIFY_BATCH_BYTES_MAX, NOTIFY_BATCH_ITEMS_MAX, NOTIFY_BODY_BYTES_MAX, NOTIFY_CHANNELS_MAX, NOTIFY_KEY_BYTES_MAX,
    NOTIFY_NAME_BYTES_MAX, NOTIFY_TYPE_BYTES_MAX, NOTIFY_WAIT_S_MAX,
};

/// Its row.
pub const ROW: Row = Row {
    path: "/n/",
    methods: &[Method::Get, Method::Post],
    body_bytes_max: NOTIFY_BATCH_BYTES_MAX,
    origins: Origins::Policy,
    handle,
};

/// Header fields that a page of another origin may send (Fetch 3.3.2).
pub fn fields_of(row: &Row) -> &'static str {
    match row.path == ROW.path {
        true => "Content-Type, Authorization, Idempotency-Key, Item-Key, Item-Key-Member, Last-Event-ID",
        false => "Content-Type",
    }
}

/// The header field that says where to go on, where there is no body to say it.
pub const NEXT_AFTER: &str = "Next-After";

fn handle(request: &Request<'_>, site: &Site<'_>) -> Answer {
    match read(request, &site.policy.channels) {
        Ok(asked) => Answer::Channels(Box::new(asked)),
        Err(response) => Answer::Response(*response),
    }
}

type Refused = Box<Response>;

fn refuse<T>(status: Status, text: &'static str) -> Result<T, Refused> {
    Err(Box::new(Response::text(status, text)))
}

fn bad<T>(text: &'static str) -> Result<T, Refused> {
    refuse(Status::BadRequest, text)
}

fn read(request: &Request<'_>, policy: &Channels) -> Result<Asked, Refused> {
    let head = request.head;
    if !policy.any() {
        return refuse(Status::NotFound, "there is nothing here");
    }
    let names: Vec<&str> = head.path[ROW.path.len()..].split(',').collect();
    if names.len() > NOTIFY_CHANNELS_MAX {
        return bad("there are too many channels in one request; ask for 16 at the most");
    }
    for (at, name) in names.iter().enumerate() {
        if name.is_empty() || name.len() > NOTIFY_NAME_BYTES_MAX || !name.bytes().all(is_of_name) {
            return bad("the name of a channel is 1 to 128 letters, digits, and characters of -._~:@+");
        }
        if names[..at].contains(name) {
            return bad("a channel is named twice");
        }
        if !policy.is_there(name) {
            return refuse(
                Status::NotFound,
                "there is no such channel; the server's option notify says which are open, and notify_private which need a token",
            );
        }
    }
    let occupancy = occupancy(head)?;
    if occupancy && !names.iter().all(|name| policy.tells(name)) {
        return refuse(
            Status::Forbidden,
            "who subscribes here is not told; the server's option notify_occupancy says where it is",
        );
    }
    let Some(shown) = Shown::by(head) else {
        let text = "a token is shown once: by Authorization, or by access_token";
        let challenge = "Bearer realm=\"channels\", error=\"invalid_request\"";
        return Err(Box::new(Response::text(Status::BadRequest, text).with("WWW-Authenticate", challenge)));
    };
    let (wish, after) = match head.method {
        Method::Post if names.len() > 1 => return bad("an item is published at one channel"),
        Method::Post => (Wish::Publish(publication(request)?), vec![None]),
        Method::Get => match subscription(head, names.len())? {
            (Wish::Poll(_), _) if occupancy => (only_occupancy(head, names.len())?, vec![None]),
            subscription => subscription,
        },
        // A client that wants no items waits for none.
        _ => return Err(Box::new(Response::empty(Status::Ok))),
    };
    let channels = names.into_iter().zip(after).map(|(name, after)| Place { channel: name.into(), after }).collect();
    Ok(Asked { channels, wish, occupancy, shown, sent: Sent::default(), fields: Vec::new() })
}

/// The value of a parameter.
fn value<'a>(head: &Head<'a>, name: &str) -> Option<&'a str> {
    let mut pairs = head.query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find_map(|(own, value)| (own == name).then_some(value))
}

/// Whether a subscriber wants to know who the others are.
fn occupancy(head: &Head<'_>) -> Result<bool, Refused> {
    let bare = head.query.split('&').any(|pair| pair == "occupancy");
    match value(head, "occupancy") {
        None | Some("0") => Ok(bare && head.method == Method::Get),
        Some("1") => Ok(head.method == Method::Get),
        Some(_) => bad("occupancy is 1 or 0"),
    }
}

/// It is asked for by itself where an answer ends.
fn only_occupancy(head: &Head<'_>, channels: usize) -> Result<Wish, Refused> {
    if channels > 1 {
        return bad("occupancy is asked for of one channel at a time; events and WebSockets have it of several");
    }
    if value(head, "wait").or(value(head, "after")).is_some() {
        return bad("a long poll tells no occupancy; ask for it without wait and after, or by events or WebSocket");
    }
    Ok(Wish::Occupancy)
}

fn publication(request: &Request<'_>) -> Result<Publication, Refused> {
    let head = request.head;
    let kind = head.one("content-type").unwrap_or("application/octet-stream");
    if kind.is_empty() || kind.len() > NOTIFY_TYPE_BYTES_MAX || !kind.bytes().all(|byte| (b' '..=b'~').contains(&byte))
    {
        return bad("the content type is too long, or none");
    }
    let key = key(head)?;
    let batch = batch(kind, request.body)?;
    let keys = keys(head, batch.is_some(), request.body)?;
    Ok(Publication { kind: kind.into(), key, keys, batch, answered: Answered::Item, body: request.body.to_vec() })
}

/// What the publisher knows an item by.
///
/// # Errors
/// The answer, if that is none.
pub fn key(head: &Head<'_>) -> Result<Option<Box<str>>, Box<Response>> {
    let keys = head.all("idempotency-key").count();
    let key = head.one("idempotency-key");
    let fits = |key: &str| (1..=NOTIFY_KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic());
    if keys > 1 || key.is_some_and(|key| !fits(key)) || keys != usize::from(key.is_some()) {
        return bad("Idempotency-Key has to be one of 1 to 64 visible characters");
    }
    Ok(key.map(Into::into))
}

/// The type of a batch. It has no registration, and is what bulk interfaces of others take.
const BATCH: &str = "application/x-ndjson";

/// How many items are published, if they are a batch.
fn batch(kind: &str, body: &[u8]) -> Result<Option<usize>, Refused> {
    if !is_kind(kind, BATCH) {
        return match body.len() {
            0..=NOTIFY_BODY_BYTES_MAX => Ok(None),
            _ => refuse(Status::ContentTooLarge, "the content is too long; an item has 32 KiB at the most"),
        };
    }
    if lines(body).any(|line| line.len() > NOTIFY_BODY_BYTES_MAX) {
        return refuse(Status::ContentTooLarge, "a line is too long; an item has 32 KiB at the most");
    }
    match lines(body).count() {
        0 => bad("there is no item; a batch has one in each line"),
        items @ 1..=NOTIFY_BATCH_ITEMS_MAX => Ok(Some(items)),
        _ => refuse(Status::ContentTooLarge, "there are too many items; publish 64 at once at the most"),
    }
}

fn subscription(head: &Head<'_>, channels: usize) -> Result<(Wish, Vec<Option<u64>>), Refused> {
    let wish = if handshake::is_asked(head) {
        Wish::Socket(Box::new(handshake::accept(head).map_err(Box::new)?))
    } else if head.list("accept").any(|kind| is_kind(kind, "text/event-stream")) {
        Wish::Stream
    } else {
        Wish::Poll(match value(head, "wait") {
            None => 0,
            Some(seconds) => match seconds.parse::<u32>() {
                Ok(seconds) => seconds.min(NOTIFY_WAIT_S_MAX),
                Err(_) => return bad("wait has to be a number of seconds"),
            },
        })
    };
    // A browser that connects anew says what it has had last (HTML 9.2.4).
    let last = head.one("last-event-id").filter(|last| wish == Wish::Stream && !last.is_empty());
    let Some(after) = last.or(value(head, "after")) else {
        // Who asks for nothing else is told all that is kept.
        let all = (wish == Wish::Poll(0)).then_some(0);
        return Ok((wish, vec![all; channels]));
    };
    let after = after.replace("%2C", ",").replace("%2c", ",");
    let after: Option<Vec<_>> = after.split(',').map(|number| number.parse::<u64>().ok().map(Some)).collect();
    match after {
        Some(after) if after.len() == channels => Ok((wish, after)),
        _ => bad("after has to be the id of an item, or one for each channel, separated by commas"),
    }
}

/// Whether a media type is this one, whatever its parameters.
pub fn is_kind(kind: &str, wanted: &str) -> bool {
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(wanted))
}
