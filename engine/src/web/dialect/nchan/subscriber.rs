//! A subscriber by Nchan's protocol: one message, or all of them.

use std::borrow::Cow;

use super::META;
use super::id::write_tag;
use super::message::{self, EXPOSED, Message, VARY};
use crate::limits::NOTIFY_CHANNELS_MAX;
use crate::web::dialect::places::{Place, Position};
use crate::web::dialect::{Dialect, End, Head, Telling, Way};
use crate::web::frame::{self, Code, FrameFault};
use crate::web::handshake::Accept;
use crate::web::response::Response;
use crate::web::status::Status;

const _: () = assert!(NOTIFY_CHANNELS_MAX <= u16::BITS as usize, "each place of a subscriber has a bit");

/// How messages are delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// One message, for which the client waits.
    Poll,
    /// One message, if there is one.
    Ask,
    /// All messages, as server-sent events.
    Events,
    /// All messages, on a WebSocket whose opening handshake is answered with this value; `true`
    /// with the subprotocol [`META`].
    Socket(Box<Accept>, bool),
}

/// The parameters of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// How messages are delivered.
    pub way: By,
    /// In channels for which only a time is given, messages before this second are not wanted.
    pub since_s: u64,
    /// The client's position: the second, and the tags.
    pub from: Option<(u64, Box<str>)>,
}

/// A subscriber. A poll is answered with one message, the earliest of all its channels. Its position
/// in the other channels does not change.
pub type Subscriber = Box<State>;

/// The state of a subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    wants: Subscription,
    /// The response has begun.
    begun: bool,
    /// A bit per position whose home has answered. Items missing in the first answer were missing
    /// when the subscriber arrived.
    answered: u16,
    /// Messages after the position that the client named are missing.
    missed: bool,
    /// The response to a poll, unless another channel has an earlier message: the index of its
    /// position, its number, and the item.
    first: Option<(usize, u64, Box<[u8]>)>,
}

impl State {
    /// A new subscriber.
    pub fn of(wants: Subscription) -> Subscriber {
        Box::new(State { wants, begun: false, answered: 0, missed: false, first: None })
    }

    /// Whether a message is recent enough for it.
    fn wants(&self, message: &Message<'_>) -> bool {
        message.time_s >= self.wants.since_s
    }

    /// The response to a poll when no message arrived in time. The client continues from where it
    /// was, or from the positions if its own is no longer known.
    fn nothing(&self, places: &[Place]) -> Response {
        let asks = self.wants.way == By::Ask;
        let response = Response::empty(if asks { Status::NotModified } else { Status::RequestTimeout });
        let Some((time_s, own)) = &self.wants.from else { return response };
        let tag = if self.missed { tag(Position::of(places)) } else { own.to_string() };
        if asks { message::at(response, *time_s, tag) } else { response.with("Etag", tag) }
    }
}

impl Dialect for Subscriber {
    fn way(&self) -> Way {
        match self.wants.way {
            By::Poll | By::Ask => Way::Poll,
            By::Events => Way::Events,
            By::Socket(..) => Way::Socket,
        }
    }

    fn has_begun(&self) -> bool {
        self.begun
    }

    fn takes_one(&self) -> bool {
        self.way() == Way::Poll
    }

    fn takes_any(&self) -> bool {
        self.takes_one() && self.wants.since_s == 0
    }

    /// As for an unknown identifier.
    fn begins_anew(&self) -> bool {
        true
    }

    fn begin(&mut self, _: &[Place]) -> Option<Head> {
        if std::mem::replace(&mut self.begun, true) {
            return None;
        }
        Some(match &self.wants.way {
            By::Socket(accept, meta) => Head::Socket(accept.clone(), meta.then_some(META)),
            _ => Head::Events {
                content_type: "text/event-stream; charset=utf-8",
                fields: Vec::new(),
                first: b": hi\n\n".to_vec(),
            },
        })
    }

    /// A WebSocket has no equivalent, and is closed.
    fn gap(&self, telling: &mut Telling, _: Position<'_>) {
        telling.placeless = self.wants.way == By::Events;
        if telling.placeless {
            telling.out.extend_from_slice(b": messages are missing here\n\n");
        }
    }

    fn item(&self, telling: &mut Telling, position: Position<'_>, item: &[u8]) {
        telling.placeless = false;
        let message = Message::read(item);
        if !self.wants(&message) {
            return;
        }
        match self.wants.way {
            By::Socket(_, meta) => message.write_frame(&mut telling.out, &tag(position), meta),
            _ => message.write_event(&mut telling.out, &tag(position)),
        }
    }

    /// The identifier of a position without a message is written if no event follows a gap. Its time
    /// is irrelevant if the tag is not 0.
    fn finish(&self, telling: &mut Telling, position: Position<'_>) {
        if telling.placeless {
            let time_s = self.wants.from.as_ref().map_or(0, |(time_s, _)| *time_s);
            telling.out.extend_from_slice(format!("id: {time_s}:{}\n\n", tag(position)).as_bytes());
        }
    }

    fn beat(&self, out: &mut Vec<u8>, _: &[Place]) {
        match self.wants.way {
            By::Socket(..) => frame::write_ping(out),
            _ => out.extend_from_slice(b":\n\n"),
        }
    }

    fn end(&self, status: Status) -> Option<End> {
        let line = status.line();
        Some(match (self.begun, &self.wants.way) {
            (false, _) => return None,
            (true, By::Socket(..)) => {
                let code = match status {
                    Status::Gone => Code::GoingAway,
                    Status::Forbidden | Status::Unauthorized => Code::Policy,
                    _ => Code::TryAgain,
                };
                End::Socket(FrameFault { code, text: line })
            }
            (true, _) => {
                let number = line.split(' ').next().unwrap_or_default();
                End::Events(format!(":{number}: {line}\n\n").into_bytes())
            }
        })
    }

    fn gone(&self) -> Option<Response> {
        let response = Response::empty(Status::Gone).with(VARY.0, VARY.1);
        Some(match &self.wants.from {
            Some((_, tag)) => response.with("Etag", tag.to_string()),
            None => response,
        })
    }

    /// A WebSocket is closed, as for any client that has to start again. After a reconnect, all
    /// retained messages are delivered: the client knows that earlier ones are missing.
    fn answered(&mut self, index: usize, gap: bool) -> Option<FrameFault> {
        let bit = 1 << index;
        let was_answered = self.answered & bit != 0;
        self.answered |= bit;
        self.missed |= gap;
        let jumps = gap && was_answered && matches!(self.wants.way, By::Socket(..));
        jumps.then_some(FrameFault { code: Code::TryAgain, text: "messages are missing" })
    }

    fn has_answer(&self) -> bool {
        self.first.is_some()
    }

    /// The earliest message of all channels wins.
    fn take(&mut self, index: usize, number: u64, item: &[u8]) -> bool {
        let message = Message::read(item);
        if !self.wants(&message) {
            return false;
        }
        if self.first.as_ref().is_none_or(|(_, _, first)| message.time_s < Message::read(first).time_s) {
            self.first = Some((index, number, item.into()));
        }
        true
    }

    fn answer(&mut self, places: &[Place]) -> (Response, u64) {
        let (mut response, count) = match self.first.take() {
            None => (self.nothing(places), 0),
            Some((index, number, item)) => {
                (Message::read(&item).into_response(tag(Position { places, index, number })), 1)
            }
        };
        response.fields.extend([VARY, EXPOSED].map(|(name, value)| (name, Cow::Borrowed(value))));
        (response, count)
    }

    fn memory_bytes(&self) -> usize {
        size_of::<State>() + self.wants.from.as_ref().map_or(0, |(_, tag)| tag.len())
    }
}

/// The tag of a position.
fn tag(position: Position<'_>) -> String {
    let mut tag = String::new();
    write_tag(&mut tag, position.index, position.number, position.numbers().map(|(_, number)| number));
    tag
}
