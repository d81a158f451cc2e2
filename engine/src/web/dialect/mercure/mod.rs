//! The Mercure protocol (draft-dunglas-mercure-07, with the exact matchers of 08) on channels of
//! notifications, as data.
//!
//! Clients subscribe by server-sent events and publish by forms. Their requests are converted to
//! those of `/n/`, and the output to the format that they expect; everything in between is shared.
//!
//! - [`shown`] finds the token, which may be in a cookie.
//! - `web::access::topic` maps topics to channels.
//! - [`selector`] matches several topics.
//! - [`place`] has the identifiers of updates, which are positions to resume from. [`event`] writes
//!   items as events.

pub mod event;
pub mod place;
pub mod selector;
pub mod shown;
mod subscriber;

use self::place::{EARLIEST, Places};
use self::selector::{Selector, Selectors};
pub use self::subscriber::Subscriber;
use crate::limits::{
    MERCURE_FORM_BYTES_MAX, NOTIFY_BODY_BYTES_MAX, NOTIFY_CHANNELS_MAX, NOTIFY_PREFIXES_PER_REQUEST_MAX,
    NOTIFY_TYPE_BYTES_MAX,
};
use crate::web::access::topic;
use crate::web::dialect::asked::{After, Asked, Place, Publication, Refused, Wish, bad, refuse};
use crate::web::dialect::plain;
use crate::web::dialect::{Outcome, Publisher};
use crate::web::form;
use crate::web::head::{Head, Method};
use crate::web::keys::keys;
use crate::web::policy::{Channels, Policy};
use crate::web::prefix;
use crate::web::request::Request;
use crate::web::response::Response;
use crate::web::row::{Origins, Row};
use crate::web::status::Status;

/// The path of the hub (draft 07, 3).
pub const PATH: &str = "/.well-known/mercure";

/// Its path. Pages of other origins may send the header fields of clients and their polyfills.
pub const ROWS: &[Row] = &[Row {
    body_bytes_max: MERCURE_FORM_BYTES_MAX,
    fields: "Content-Type, Authorization, Idempotency-Key, Item-Key, Last-Event-ID, Cache-Control, X-Requested-With",
    cookies: |_| true,
    ..Row::of(PATH, &[Method::Get, Method::Post], Origins::Policy, |request, site| read(request, site.policy).into())
}];

/// The response to a publication: the identifier of the update.
pub fn published(outcome: &Outcome<'_>) -> Response {
    let id = place::write((outcome.channel, outcome.number), std::iter::empty());
    Response { body: id.into_bytes().into(), content_type: "text/plain; charset=utf-8", ..Response::empty(Status::Ok) }
}

fn read(request: &Request<'_>, policy: &Policy) -> Result<Asked, Refused> {
    if !policy.channels.mercure || !policy.channels.any() {
        return refuse(Status::NotFound, "nothing is served at this path");
    }
    let (wish, channels) = match request.head.method {
        Method::Post => publication(request, &policy.channels)?,
        Method::Get => subscription(request.head, &policy.channels)?,
        // HEAD asks for no updates and does not wait.
        _ => return Err(Box::new(Response::empty(Status::Ok))),
    };
    Ok(Asked::of(channels, wish, shown::by(request, policy)?))
}

/// The channel of a topic, if it is offered.
fn channel(topic: &str, policy: &Channels) -> Result<Box<str>, Refused> {
    match topic::channel(topic) {
        Err(text) => bad(text),
        Ok(channel) if policy.is_there(&channel) => Ok(channel.as_ref().into()),
        Ok(_) => refuse(
            Status::Forbidden,
            "this topic is not offered; the options notify and notify_private list the channels that are",
        ),
    }
}

/// What a subscriber's value names: a channel, or a selector of several if any of these may be
/// offered.
enum Named {
    Channel(Box<str>),
    Selector(Selector),
}

/// Parses a value. Draft 07 allows URI templates. An exact matcher of draft 08 is a single topic.
/// `*` is a selector in both.
fn named(text: &str, exactly: bool, policy: &Channels) -> Result<Named, Refused> {
    let selector = match Selector::read(text) {
        Ok(Some(selector)) if !exactly || selector == Selector::All => selector,
        Err(text) if !exactly => return bad(text),
        _ => return channel(text, policy).map(Named::Channel),
    };
    if !policy.has_some(selector.begins()) {
        return refuse(
            Status::Forbidden,
            "no topics of this selector are offered; the options notify and notify_private list the channels",
        );
    }
    if !policy.takes_prefix(selector.begins()) {
        return refuse(
            Status::Forbidden,
            "this selector is not permitted; the option notify_wildcards lists the permitted prefixes of channels",
        );
    }
    Ok(Named::Selector(selector))
}

/// Parses a subscription: its channels, and the positions to resume from (draft 07, 4 and 7).
fn subscription(head: &Head<'_>, policy: &Channels) -> Result<(Wish, Vec<Place>), Refused> {
    let (mut channels, mut selectors, mut last) = (Vec::<Box<str>>::new(), Selectors::default(), None);
    for pair in form::pairs(head.query) {
        let Some((name, value)) = pair else { return bad("the query is not valid UTF-8") };
        match &*name {
            // Draft 08 uses the latter names.
            "topic" | "match" | "matchExact" => {
                match named(&value, name != "topic", policy)? {
                    Named::Channel(channel) if channels.contains(&channel) => {}
                    Named::Channel(channel) => channels.push(channel),
                    Named::Selector(selector) => selectors.add(selector),
                }
                if channels.len() + selectors.len() > NOTIFY_CHANNELS_MAX {
                    return bad("the request has too many topics; the limit is 16");
                }
                if selectors.len() > NOTIFY_PREFIXES_PER_REQUEST_MAX {
                    return bad("the request has too many selectors; the limit is 4 of * and URI templates");
                }
            }
            name if name.get(..5).is_some_and(|begin| begin.eq_ignore_ascii_case("match")) => {
                return bad("URL patterns are not supported; name each topic");
            }
            // The latter name is that of older drafts.
            "lastEventID" | "Last-Event-ID" if !value.is_empty() => last = Some(value.into_owned()),
            _ => {}
        }
    }
    if channels.is_empty() && selectors.is_empty() {
        return bad("a topic is missing");
    }
    // A channel that a selector covers is delivered once, by the selector.
    channels.retain(|channel| !selectors.cover(channel));
    channels.extend(selectors.begins().into_iter().map(|begins| format!("{begins}*").into()));
    let keys: Vec<_> =
        channels.iter().map(|channel| place::key(&feed(channel).unwrap_or_else(|| channel.to_string()))).collect();
    if keys.iter().enumerate().any(|(at, key)| keys[..at].contains(key)) {
        return bad("two of the topics have the same key in identifiers; use two requests");
    }
    let last = head.one("last-event-id").filter(|last| !last.is_empty()).map(str::to_owned).or(last);
    let places = last.as_deref().and_then(Places::read);
    let all = last.as_deref() == Some(EARLIEST);
    let after = |channel: &str| match (feed(channel), &places) {
        // Earlier updates are available for channels only, not for feeds.
        (Some(feed), Some(places)) => {
            places.of_feed(&feed).map_or(After::Now, |(all, numbers)| After::Among(all, numbers))
        }
        (None, _) if all => After::Number(0),
        (None, Some(places)) => places.of(channel).into(),
        (_, None) => After::Now,
    };
    let channels: Vec<_> = channels.into_iter().map(|channel| Place { after: after(&channel), channel }).collect();
    // An unknown identifier is not returned to the client. A topic that is not part of it may have
    // missing updates.
    let lost = channels.iter().any(|place| place.after == After::Now);
    let said = last.map(|id| if lost { EARLIEST.into() } else { id.into() });
    Ok((Wish::Subscribe(Subscriber::behind(said, selectors).into(), 0), channels))
}

/// The name of a prefix's feed in identifiers; `None` if this is a channel.
fn feed(channel: &str) -> Option<String> {
    prefix::of(channel).map(|begins| format!("{}*", prefix::within(begins)))
}

/// Parses a publication (draft 07, 5).
fn publication(request: &Request<'_>, policy: &Channels) -> Result<(Wish, Vec<Place>), Refused> {
    let kind = request.head.one("content-type").unwrap_or_default();
    if !plain::is_kind(kind, "application/x-www-form-urlencoded") {
        return bad("an update must be published as application/x-www-form-urlencoded");
    }
    let Ok(body) = std::str::from_utf8(request.body) else { return bad("the form is not valid UTF-8") };
    let (mut channel, mut data, mut private) = (None, None, false);
    let (mut id, mut event, mut retry) = (None, None, None);
    for pair in form::pairs(body) {
        let Some((name, value)) = pair else { return bad("the form is not valid UTF-8") };
        let twice = match &*name {
            "topic" => {
                if is_reserved(&value) {
                    return refuse(Status::Forbidden, "topics below /.well-known/mercure are the hub's own");
                }
                let own = self::channel(&value, policy)?;
                if channel.as_ref().is_some_and(|other| *other != own) {
                    return bad("an update must have one topic; alternate topics are not supported");
                }
                channel = Some(own);
                false
            }
            "data" => data.replace(value).is_some(),
            "id" => id.replace(value).is_some(),
            "type" => event.replace(value).is_some(),
            "retry" => retry.replace(value).is_some(),
            "private" => {
                private = true;
                false
            }
            _ => false,
        };
        if twice {
            return bad("data, id, type and retry may be in a form only once");
        }
    }
    let Some(channel) = channel else { return bad("a topic is missing") };
    if private && !policy.is_private(&channel) {
        return bad(
            "a private update needs a topic in the server's option notify_private; everybody can read this one",
        );
    }
    if id.is_some_and(|id| id.starts_with('#') || id.contains(['\0', '\n', '\r'])) {
        return bad("an id must not begin with # or contain line breaks");
    }
    let (event, retry) = (event.filter(|event| !event.is_empty()), retry.filter(|retry| !retry.is_empty()));
    if event.as_deref().is_some_and(|event| !event::is_type(event))
        || retry.as_deref().is_some_and(|retry| !event::is_retry(retry))
    {
        return bad("type has control characters, or retry is not a number of up to ten digits");
    }
    let kind = event::kind(event.as_deref(), retry.as_deref());
    if kind.len() > NOTIFY_TYPE_BYTES_MAX {
        return bad("type is too long");
    }
    let body = data.unwrap_or_default().into_owned().into_bytes();
    if body.len() > NOTIFY_BODY_BYTES_MAX {
        return refuse(Status::ContentTooLarge, "the content is too long; the limit of an update is 32 KiB");
    }
    let key = plain::key(request.head)?;
    // Mercure has no such feature. It is for publishers that use both Mercure and `/n/`.
    let keys = keys(request.head, false, b"")?;
    let publication = Publication { kind: kind.into(), key, keys, batch: None, answered: Publisher::Mercure, body };
    Ok((Wish::Publish(publication), vec![Place { channel, after: After::Now }]))
}

/// Whether a topic is reserved for the hub's own updates (draft 08, 5).
fn is_reserved(topic: &str) -> bool {
    let path = match topic.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("", |at| &rest[at..]),
        None => topic,
    };
    path.strip_prefix(PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))
}
