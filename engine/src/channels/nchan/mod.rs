//! One who waits for messages by Nchan's protocol, as data: how it is told, and what one who polls is to be answered.

mod polls;

use crate::limits::NOTIFY_CHANNELS_MAX;
use crate::web::frame;
use crate::web::nchan::message::{self, Message, VARY};
use crate::web::nchan::{Subscription, Way};
use crate::web::response::Response;
use crate::web::status::Status;

const _: () = assert!(NOTIFY_CHANNELS_MAX <= u16::BITS as usize, "each place of a subscriber has a bit");

/// A subscriber.
#[derive(Debug)]
pub(super) struct Subscriber {
    wants: Subscription,
    /// Its answer has begun.
    begun: bool,
    /// Of which of its places the home has answered, a bit each: what is missing by then was missing when it came.
    answered: u16,
    /// Messages behind the place that it has named are missing.
    missed: bool,
    /// What one who polls is answered, if no other channel has anything earlier: of which of its places, the number, and the item.
    first: Option<(usize, u64, Box<[u8]>)>,
}

impl Subscriber {
    /// One who wants this.
    pub(super) fn new(wants: Subscription) -> Box<Subscriber> {
        Box::new(Subscriber { wants, begun: false, answered: 0, missed: false, first: None })
    }

    /// How it is told.
    pub(super) fn way(&self) -> &Way {
        &self.wants.way
    }

    /// Whether it is told all messages, as long as its connection is there.
    pub(super) fn streams(&self) -> bool {
        matches!(self.wants.way, Way::Events | Way::Socket(..))
    }

    /// The same of one whose answer has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Whether it wants one message and any will do, so that no more than one has to be read.
    pub(super) fn takes_any(&self) -> bool {
        !self.streams() && self.wants.since_s == 0
    }

    /// Whether it wants a message.
    pub(super) fn wants(&self, message: &Message<'_>) -> bool {
        message.time_s >= self.wants.since_s
    }

    /// A message of one of its places, which is the first one there.
    pub(super) fn offer(&mut self, index: usize, number: u64, item: &[u8]) {
        let time_s = Message::read(item).time_s;
        let is_earlier = self.first.as_ref().is_none_or(|(_, _, first)| time_s < Message::read(first).time_s);
        if is_earlier {
            self.first = Some((index, number, item.into()));
        }
    }

    /// Whether there is one.
    pub(super) fn has_first(&self) -> bool {
        self.first.is_some()
    }

    /// What it is answered.
    pub(super) fn take_first(&mut self) -> Option<(usize, u64, Box<[u8]>)> {
        self.first.take()
    }

    /// Its answer begins, unless it has. Whether it has not.
    pub(super) fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.begun, true)
    }

    /// Tells of an item with this tag.
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

    /// The home of one of its places has answered, and messages are missing or not. Whether that is the first answer.
    pub(super) fn is_answered(&mut self, index: usize, gap: bool) -> bool {
        let bit = 1 << index;
        let is_first = self.answered & bit == 0;
        self.answered |= bit;
        self.missed |= gap;
        is_first
    }

    /// Tells that messages are missing, which is a comment: a WebSocket has no such thing, and ends. Whether it was told.
    pub(super) fn tell_gap(&self, out: &mut Vec<u8>) -> bool {
        let is_told = self.wants.way == Way::Events;
        if is_told {
            out.extend_from_slice(b": messages are missing here\n\n");
        }
        is_told
    }

    /// The identifier of this place, which no message has: of its time nothing depends where the tag is not 0.
    pub(super) fn id(&self, tag: &str) -> String {
        format!("{}:{tag}", self.wants.from.as_ref().map_or(0, |(time_s, _)| *time_s))
    }

    /// Tells that it is there.
    pub(super) fn beat(&self, out: &mut Vec<u8>) {
        match self.wants.way {
            Way::Socket(..) => frame::write_ping(out),
            _ => out.extend_from_slice(b":\n\n"),
        }
    }

    /// The answer when its channel was deleted.
    pub(super) fn gone(&self) -> Response {
        let response = Response::empty(Status::Gone).with(VARY.0, VARY.1);
        match &self.wants.from {
            Some((_, tag)) => response.with("Etag", tag.to_string()),
            None => response,
        }
    }

    /// The answer when there was no message in time: it is to go on where it was, or by this tag if that place is not known any more.
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
