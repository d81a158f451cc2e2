//! A subscriber by Nchan's protocol, as data: its deliveries, and the response to a poll.

mod polls;

use crate::limits::NOTIFY_CHANNELS_MAX;
use crate::web::frame;
use crate::web::nchan::message::{self, Message, VARY};
use crate::web::nchan::{Subscription, Way};
use crate::web::response::Response;
use crate::web::status::Status;

const _: () = assert!(NOTIFY_CHANNELS_MAX <= u16::BITS as usize, "each place of a subscriber has a bit");

#[derive(Debug)]
pub(super) struct Subscriber {
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

impl Subscriber {
    pub(super) fn new(wants: Subscription) -> Box<Subscriber> {
        Box::new(Subscriber { wants, begun: false, answered: 0, missed: false, first: None })
    }

    /// How messages are delivered.
    pub(super) fn way(&self) -> &Way {
        &self.wants.way
    }

    /// Whether all messages are delivered for as long as the connection is open.
    pub(super) fn streams(&self) -> bool {
        matches!(self.wants.way, Way::Events | Way::Socket(..))
    }

    /// Whether the response has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Whether it takes one message, whichever is next, so that no more than one has to be read.
    pub(super) fn takes_any(&self) -> bool {
        !self.streams() && self.wants.since_s == 0
    }

    /// Whether a message is recent enough for it.
    pub(super) fn wants(&self, message: &Message<'_>) -> bool {
        message.time_s >= self.wants.since_s
    }

    /// Considers the next message of one of its channels as the response. The earliest message of
    /// all channels wins.
    pub(super) fn offer(&mut self, index: usize, number: u64, item: &[u8]) {
        let time_s = Message::read(item).time_s;
        let is_earlier = self.first.as_ref().is_none_or(|(_, _, first)| time_s < Message::read(first).time_s);
        if is_earlier {
            self.first = Some((index, number, item.into()));
        }
    }

    /// Whether there is a message to respond with.
    pub(super) fn has_first(&self) -> bool {
        self.first.is_some()
    }

    /// Takes the message to respond with.
    pub(super) fn take_first(&mut self) -> Option<(usize, u64, Box<[u8]>)> {
        self.first.take()
    }

    /// Marks the response as begun. Returns whether it had not begun before.
    pub(super) fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.begun, true)
    }

    /// Appends an item with this tag.
    pub(super) fn tell(&self, out: &mut Vec<u8>, item: &[u8], tag: &str) {
        let message = Message::read(item);
        if !self.wants(&message) {
            return;
        }
        match self.wants.way {
            Way::Socket(_, meta) => message.write_frame(out, tag, meta),
            _ => message.write_event(out, tag),
        }
    }

    /// Records that the home of a position has answered, and whether messages are missing. Returns
    /// whether this is its first answer.
    pub(super) fn is_answered(&mut self, index: usize, gap: bool) -> bool {
        let bit = 1 << index;
        let is_first = self.answered & bit == 0;
        self.answered |= bit;
        self.missed |= gap;
        is_first
    }

    /// Reports missing messages by a comment in an event stream. A WebSocket has no equivalent and
    /// is closed. Returns whether the gap was reported.
    pub(super) fn tell_gap(&self, out: &mut Vec<u8>) -> bool {
        let is_told = self.wants.way == Way::Events;
        if is_told {
            out.extend_from_slice(b": messages are missing here\n\n");
        }
        is_told
    }

    /// The identifier of a position at which there is no message. Its time is irrelevant if the tag
    /// is not 0.
    pub(super) fn id(&self, tag: &str) -> String {
        format!("{}:{tag}", self.wants.from.as_ref().map_or(0, |(time_s, _)| *time_s))
    }

    /// Appends a heartbeat.
    pub(super) fn beat(&self, out: &mut Vec<u8>) {
        match self.wants.way {
            Way::Socket(..) => frame::write_ping(out),
            _ => out.extend_from_slice(b":\n\n"),
        }
    }

    /// The response when the channel was deleted.
    pub(super) fn gone(&self) -> Response {
        let response = Response::empty(Status::Gone).with(VARY.0, VARY.1);
        match &self.wants.from {
            Some((_, tag)) => response.with("Etag", tag.to_string()),
            None => response,
        }
    }

    /// The response when no message arrived in time. The client continues from where it was, or
    /// from `tag` if that position is no longer known.
    pub(super) fn nothing(&self, tag: &str) -> Response {
        let response = match self.wants.way {
            Way::Ask => Response::empty(Status::NotModified),
            _ => Response::empty(Status::RequestTimeout),
        };
        let Some((time_s, own)) = &self.wants.from else { return response };
        let tag = if self.missed { tag } else { own };
        match self.wants.way {
            Way::Ask => message::at(response, *time_s, tag.to_string()),
            _ => response.with("Etag", tag.to_string()),
        }
    }
}
