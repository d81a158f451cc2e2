//! A subscriber at `/n/`: a poll, server-sent events, or WebSocket messages.

use serde::Serialize;

use crate::limits::NOTIFY_PAGE_BYTES_MAX;
use crate::web::dialect::binary;
use crate::web::dialect::mercure::place::write_base36;
use crate::web::dialect::places::{Gathered, Place, Position, are_known};
use crate::web::dialect::{Dialect, End, Head, Telling, Way};
use crate::web::feed_names::{channel_of, is_feed, is_same_prefix};
use crate::web::frame::{self, Code, FrameFault};
use crate::web::handshake::Accept;
use crate::web::response::Response;
use crate::web::status::Status;
use crate::wire::json;

/// The header field with the position to continue from, for responses without a body.
const NEXT_AFTER: &str = "Next-After";

/// A subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subscriber {
    /// A poll: the items gathered for its response.
    Poll(Option<Box<Gathered>>),
    /// Server-sent events. `true` once the response has begun.
    Events(bool),
    /// WebSocket messages; `true` for binary ones. The first value is used to answer the opening
    /// handshake, and is `None` afterwards.
    Socket(Option<Box<Accept>>, bool),
}

impl Dialect for Subscriber {
    fn way(&self) -> Way {
        match self {
            Subscriber::Poll(_) => Way::Poll,
            Subscriber::Events(_) => Way::Events,
            Subscriber::Socket(..) => Way::Socket,
        }
    }

    fn has_begun(&self) -> bool {
        matches!(self, Subscriber::Events(true) | Subscriber::Socket(None, _))
    }

    fn is_binary(&self) -> bool {
        matches!(self, Subscriber::Socket(_, true))
    }

    fn alike(&self) -> Option<(Way, bool)> {
        self.has_begun().then(|| (self.way(), self.is_binary()))
    }

    fn begin(&mut self, places: &[Place]) -> Option<Head> {
        // A client that has been told that it is subscribed receives all later publications.
        let is_placed = are_known(places);
        match self {
            Subscriber::Socket(accept, _) if is_placed => Some(Head::Socket(accept.take()?, None)),
            Subscriber::Events(begun @ false) => {
                *begun = true;
                let mut first = Vec::new();
                if is_placed {
                    self.place(&mut first, places);
                }
                Some(Head::Events { content_type: "text/event-stream", fields: Vec::new(), first })
            }
            _ => None,
        }
    }

    fn gap(&self, telling: &mut Telling, position: Position<'_>) {
        if let Subscriber::Socket(_, is_binary) = self {
            telling.gathered.gaps.push(position.index);
            if *is_binary {
                write_gathered(telling, position);
            }
            return;
        }
        let place = position.place();
        #[derive(Serialize)]
        struct Gap<'a> {
            channel: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            after: Option<String>,
        }
        let after = (!is_feed(&place.node)).then(|| place.follower.at.to_string());
        let data = json::on_one_line(&Gap { channel: channel_of(&place.node), after });
        write_event(&mut telling.out, "gap", position, &data);
    }

    fn item(&self, telling: &mut Telling, position: Position<'_>, item: &[u8]) {
        match self {
            Subscriber::Socket(_, true) => binary::write(&mut telling.out, item, &text(position)),
            Subscriber::Socket(_, false) => {
                telling.gathered.push(item);
                // A message has the same size limit as the response to a poll.
                if telling.gathered.items.len() >= NOTIFY_PAGE_BYTES_MAX as usize {
                    write_gathered(telling, position);
                }
            }
            _ => write_event(&mut telling.out, "", position, item),
        }
    }

    fn finish(&self, telling: &mut Telling, position: Position<'_>) {
        if telling.gathered != Gathered::default() {
            write_gathered(telling, position);
        }
    }

    /// In an event stream, this is an id without data (HTML 9.2.6), which also shows that no proxy
    /// buffers the stream.
    fn place(&self, out: &mut Vec<u8>, places: &[Place]) {
        match self {
            Subscriber::Socket(..) => self.beat(out, places),
            _ => out.extend_from_slice(format!("id: {}\n\n", text(Position::of(places))).as_bytes()),
        }
    }

    fn beat(&self, out: &mut Vec<u8>, places: &[Place]) {
        match self {
            Subscriber::Socket(..) => write_message(out, &Gathered::default(), Position::of(places)),
            _ => out.extend_from_slice(b":\n\n"),
        }
    }

    /// An event without an id, or a message without items.
    fn occupancy(&self, out: &mut Vec<u8>, places: &[Place], _: usize, occupancy: &[u8]) {
        if !matches!(self, Subscriber::Socket(..)) {
            return [&b"event: occupancy\ndata: "[..], occupancy, b"\n\n"]
                .iter()
                .for_each(|part| out.extend_from_slice(part));
        }
        let mut answer = answer(&Gathered::default(), Position::of(places));
        answer.pop();
        [&b",\"occupancy\":"[..], occupancy, b"}"].iter().for_each(|part| answer.extend_from_slice(part));
        frame::write_head(out, answer.len());
        out.extend_from_slice(&answer);
    }

    /// It has no id, so a client that returns with another token continues where it was.
    fn expired(&self) -> &'static [u8] {
        if *self == Subscriber::Events(true) { b"event: expired\ndata: {}\n\n" } else { b"" }
    }

    fn end(&self, status: Status) -> Option<End> {
        let (code, text) = match (self, status) {
            (Subscriber::Events(true), _) => return Some(End::Events(Vec::new())),
            (Subscriber::Socket(None, _), Status::Forbidden) => (Code::Policy, "a channel is not open to everybody"),
            (Subscriber::Socket(None, _), Status::Unauthorized) => {
                (Code::Policy, "the token has expired or was revoked")
            }
            (Subscriber::Socket(None, _), _) => (Code::TryAgain, "a channel cannot be read now; try again later"),
            _ => return None,
        };
        Some(End::Socket(FrameFault { code, text }))
    }

    fn has_answer(&self) -> bool {
        matches!(self, Subscriber::Poll(Some(_)))
    }

    fn answered(&mut self, index: usize, gap: bool) -> Option<FrameFault> {
        if let Subscriber::Poll(gathered) = self
            && gap
        {
            gathered.get_or_insert_default().gaps.push(index);
        }
        None
    }

    fn take(&mut self, _: usize, _: u64, item: &[u8]) -> bool {
        if let Subscriber::Poll(gathered) = self {
            gathered.get_or_insert_default().push(item);
        }
        false
    }

    fn answer(&mut self, places: &[Place]) -> (Response, u64) {
        let position = Position::of(places);
        let Subscriber::Poll(Some(gathered)) = self else {
            let response = Response::empty(Status::NoContent).with(NEXT_AFTER, text(position));
            return (response.with("Access-Control-Expose-Headers", NEXT_AFTER), 0);
        };
        let mut body = answer(gathered, position);
        body.push(b'\n');
        (Response::json(body), gathered.count)
    }
}

/// The content of the response to a poll, or of a WebSocket message: items, the channels with
/// missing items, and the position to continue from.
fn answer(gathered: &Gathered, position: Position<'_>) -> Vec<u8> {
    let (gaps, after) = (gathered.gaps_of(position.places).join(","), text(position));
    [
        b"{\"items\":[",
        &gathered.items[..],
        b"],\"gaps\":[",
        gaps.as_bytes(),
        b"],\"after\":\"",
        after.as_bytes(),
        b"\"}",
    ]
    .concat()
}

/// Writes a WebSocket message.
fn write_message(out: &mut Vec<u8>, gathered: &Gathered, position: Position<'_>) {
    let answer = answer(gathered, position);
    frame::write_head(out, answer.len());
    out.extend_from_slice(&answer);
}

/// Writes the items that have been gathered for a message.
fn write_gathered(telling: &mut Telling, position: Position<'_>) {
    write_message(&mut telling.out, &std::mem::take(&mut telling.gathered), position);
}

/// Writes an event: its name, the position after it, and its data.
fn write_event(out: &mut Vec<u8>, name: &str, position: Position<'_>, data: &[u8]) {
    [b"id: ", text(position).as_bytes(), b"\n"].iter().for_each(|part| out.extend_from_slice(part));
    if !name.is_empty() {
        [b"event: ", name.as_bytes(), b"\n"].iter().for_each(|part| out.extend_from_slice(part));
    }
    [b"data: ", data, b"\n\n"].iter().for_each(|part| out.extend_from_slice(part));
}

/// A position in all channels, from which a client can continue.
fn text(position: Position<'_>) -> String {
    let (mut out, mut before) = (String::new(), None::<&Place>);
    for (place, number) in position.numbers() {
        match before.map(|before| is_same_prefix(&before.node, &place.node)) {
            None => {}
            Some(true) => out.push('.'),
            Some(false) => out.push(','),
        }
        match is_feed(&place.node) {
            true => write_base36(&mut out, number),
            false => out.push_str(&number.to_string()),
        }
        before = Some(place);
    }
    out
}
