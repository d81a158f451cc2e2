//! What operators do with rooms: look at them, configure and destroy them, and close them to
//! strangers for a while.
//!
//! A change takes its turn in the room like a request of an owner, and is carried out by the same
//! code. Its sender is [`OPERATOR`], an address that no stanza of a session has; its `id` names the
//! operator's command.

use crate::actors::Actors;
use crate::io::{Effect, Reply, RoomCommand, RoomRow, StorageState};
use crate::kernel::Kernel;
use crate::letters::Kind;
use crate::limits::{ROOM_REASON_BYTES_MAX, beginning};
use crate::rooms::owner::{Fate, NS_OWNER};
use crate::rooms::requests::Request;
use crate::rooms::{Rooms, State};
use crate::router::users::Incoming;
use crate::streams::Streams;
use crate::wire::Element;
use crate::wire::error::StanzaCondition;
use crate::wire::limit::Refusal;
use crate::wire::text::Writer;
use crate::wire::written::{id_of_stanza, read_back};

/// The sender of an operator's order.
const OPERATOR: &str = "";
/// An order to close a room, or to open it again.
const NS_CLOSE: &str = "urn:throng:room:close";

/// The longest queue of stanzas that wait for the rows of one room.
#[derive(Debug, Default)]
pub(super) struct Longest {
    /// The room and the stanzas of the current second.
    now: (Box<str>, usize),
    /// Those of the last one.
    shown: (Box<str>, usize),
    shown_s: u32,
}

impl Longest {
    /// So many stanzas wait for a room.
    pub(super) fn note(&mut self, room: &str, stanzas: usize) {
        if stanzas > self.now.1 {
            self.now.1 = stanzas;
            if *self.now.0 != *room {
                self.now.0 = room.into();
            }
        }
    }
}

/// Whether a stanza is an operator's order.
pub(super) fn is_order(stanza: Incoming<'_>) -> bool {
    stanza.from.is_empty()
}

/// Answers an order.
fn answer(cx: &mut Streams, stanza: Incoming<'_>, reply: Reply) {
    if let Some(token) = id_of_stanza(stanza.xml).and_then(|id| id.parse().ok()) {
        cx.kernel.effects.push(Effect::Reply { token, reply, durable: true });
    }
}

fn reply_of(refusal: Refusal) -> Reply {
    match refusal.condition {
        StanzaCondition::InternalServerError => Reply::Unreadable,
        condition => Reply::Refused(condition.name().into()),
    }
}

/// Answers an order that does not get its turn.
pub(super) fn refused(cx: &mut Streams, stanza: Incoming<'_>, refusal: Refusal) {
    answer(cx, stanza, reply_of(refusal));
}

fn order(token: u64, write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut xml = Vec::with_capacity(256);
    let mut writer = Writer::new(&mut xml);
    writer.open("iq").attribute("type", "set").attribute("id", &token.to_string());
    write(&mut writer);
    writer.close();
    xml
}

impl Rooms {
    /// Carries out an operator's command, or gives it its turn in the room.
    pub(crate) fn command(&mut self, cx: &mut Streams, actors: &mut Actors, token: u64, command: RoomCommand) {
        let (room, xml) = match command {
            RoomCommand::Look { rooms } => {
                let now_s = cx.kernel.now.mono_s();
                let rows = rooms.iter().filter_map(|room| self.row(room, now_s)).collect();
                return cx.kernel.effects.push(Effect::Reply { token, reply: Reply::Rooms(rows), durable: false });
            }
            _ if cx.kernel.storage == StorageState::Full => {
                return cx.kernel.effects.push(Effect::Reply { token, reply: Reply::StoreFull, durable: false });
            }
            RoomCommand::Configure { room, form } => (
                room,
                order(token, |writer| {
                    writer.open("query").attribute("xmlns", NS_OWNER).raw(&form).close();
                }),
            ),
            RoomCommand::Destroy { room, reason, alternate } => (
                room,
                order(token, |writer| {
                    writer.open("query").attribute("xmlns", NS_OWNER).open("destroy");
                    writer.attribute_if("jid", alternate.as_deref());
                    if let Some(reason) = reason {
                        writer.leaf("reason", beginning(&reason, ROOM_REASON_BYTES_MAX));
                    }
                    writer.close().close();
                }),
            ),
            RoomCommand::Close { room, seconds } => (
                room,
                order(token, |writer| {
                    writer.open("close").attribute("xmlns", NS_CLOSE);
                    writer.attribute("seconds", &seconds.to_string()).close();
                }),
            ),
        };
        self.incoming(cx, actors, Incoming { kind: Kind::Request, origin: None, from: OPERATOR, to: &room, xml: &xml });
    }

    /// Carries out an order whose turn has come.
    pub(super) fn carry_out(&mut self, cx: &mut Streams, bare: &str, stanza: Incoming<'_>) {
        let done = read_back(stanza.xml, |element| self.ordered(&mut cx.kernel, bare, element));
        let reply = match done.unwrap_or_else(|| Err(StanzaCondition::BadRequest.into())) {
            Ok(true) => Reply::Done(1),
            Ok(false) => Reply::NotFound,
            Err(refusal) => reply_of(refusal),
        };
        answer(cx, stanza, reply);
    }

    /// Returns whether there is such a room.
    fn ordered(&mut self, kernel: &mut Kernel, bare: &str, element: &Element<'_>) -> Result<bool, Refusal> {
        let Some(State::Here(room)) = self.rooms.get_mut(bare).map(|hosted| &mut hosted.state) else {
            return Ok(false);
        };
        if let Some(close) = element.child("close", NS_CLOSE) {
            let seconds = close.attribute("seconds").and_then(|seconds| seconds.parse::<u32>().ok()).unwrap_or(0);
            room.guard.close(kernel.now.mono_s(), seconds);
            return Ok(true);
        }
        let Request::Own(query) = Request::of(element)? else { return Err(StanzaCondition::BadRequest.into()) };
        let ends = room.own(kernel, &query)? == Fate::Ends || room.ends();
        self.end_if(kernel, bare, ends);
        Ok(true)
    }

    /// The longest queue of the last second, if there was any: its room and length.
    pub(crate) fn longest(&self) -> Option<(&str, usize)> {
        Some((&*self.longest.shown.0, self.longest.shown.1)).filter(|(_, stanzas)| *stanzas > 0)
    }

    /// Publishes the longest queue once per second.
    pub(super) fn publish_longest(&mut self, cx: &Streams) {
        let now_s = cx.kernel.now.mono_s();
        if self.longest.shown_s == now_s {
            return;
        }
        self.longest.shown_s = now_s;
        // A queue to which nothing was added is still there.
        let (room, _) = std::mem::take(&mut self.longest.shown);
        if let Some(hosted) = self.rooms.get(&room) {
            self.longest.note(&room, hosted.waiting.len());
        }
        self.longest.shown = std::mem::take(&mut self.longest.now);
        cx.kernel.counters.room_waiting.set(self.longest.shown.1 as u64);
    }

    fn row(&self, room: &str, now_s: u32) -> Option<RoomRow> {
        let hosted = self.rooms.get(room)?;
        let State::Here(here) = &hosted.state else { return None };
        Some(RoomRow {
            room: room.into(),
            occupants: here.occupants.len(),
            sessions: here.occupants.seats(),
            waiting: hosted.waiting.len(),
            closed_s: here.guard.closed_s(now_s),
            sent_bytes: here.sent_bytes,
            charged_bytes: here.charged_bytes,
        })
    }
}
