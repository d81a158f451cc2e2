//! Messages of occupants: to all, to one, and the subject (XEP-0045 7.4, 7.5, 8.1).

use std::sync::Arc;

use crate::extension;
use crate::extension::annotations::forged_in_message;
use crate::extension::offline::{Keep, keep};
use crate::io::StorageState;
use crate::kernel::Kernel;
use crate::letters::{Kind, MessageClass};
use crate::limits::ROOM_SUBJECT_BYTES_MAX;
use crate::ns;
use crate::rooms::invite::asks;
use crate::rooms::mentions;
use crate::rooms::occupants::Occupant;
use crate::rooms::rank::Role;
use crate::rooms::room::{Past, Room};
use crate::rooms::write::{GROUPCHAT, NS_OCCUPANT_ID, NS_USER, write_occupant_id, write_x};
use crate::router::users::Incoming;
use crate::store::archive::Entry;
use crate::store::ids::Ids;
use crate::store::room::{AllowPm, Subject};
use crate::wire::error::StanzaCondition;
use crate::wire::jid::resource_of;
use crate::wire::limit::{Held, Limit, Refusal};
use crate::wire::text::write_attribute;
use crate::wire::written::insert_at_end;
use crate::wire::{Element, Splice, splice};

/// XEP-0424.
pub(super) const NS_RETRACT: &str = "urn:xmpp:message-retract:1";

/// Appends the id under which the room has archived a message (XEP-0359 3).
pub(super) fn write_stanza_id(out: &mut Vec<u8>, room: &str, number: u64) {
    out.extend_from_slice(b"<stanza-id");
    write_attribute(out, "xmlns", ns::STANZA_ID);
    write_attribute(out, "id", Ids::PLAIN.text(number).as_str());
    write_attribute(out, "by", room);
    out.extend_from_slice(b"/>");
}

/// The number of the message that an occupant retracts (XEP-0424 4).
pub(super) fn retracted(element: &Element<'_>) -> Option<u64> {
    Ids::PLAIN.number(&element.child("retract", NS_RETRACT)?.attribute("id")?)
}

impl Room {
    /// Handles a message to the room.
    ///
    /// # Errors
    /// The refusal that its sender gets.
    pub(super) fn message(
        &mut self,
        kernel: &mut Kernel,
        stanza: Incoming<'_>,
        class: MessageClass,
        element: &Element<'_>,
    ) -> Result<(), Refusal> {
        match (class, resource_of(stanza.to)) {
            (MessageClass::Groupchat, None) => self.say(kernel, stanza, element),
            // XEP-0045 7.5.
            (MessageClass::Groupchat, Some(_)) => Err(StanzaCondition::BadRequest.into()),
            (_, Some(nick)) => self.whisper(kernel, stanza, class, nick, element),
            (_, None) if asks(class) => self.to_room(kernel, stanza, element),
            (_, None) => Ok(()),
        }
    }

    /// The parts of a message that only the room may state.
    fn forged(&self, kernel: &Kernel, element: &Element<'_>) -> Vec<std::ops::Range<usize>> {
        let mut forged = forged_in_message(&kernel.settings.domains, element, &[&self.jid]);
        let own = |namespace: &str| matches!(namespace, NS_USER | NS_OCCUPANT_ID | mentions::NS);
        forged.extend(element.children().filter(|child| own(child.namespace())).map(|child| child.range()));
        forged.sort_unstable_by_key(|range| range.start);
        forged
    }

    /// A message to all occupants (XEP-0045 7.4), or a new subject (8.1).
    fn say(&mut self, kernel: &mut Kernel, stanza: Incoming<'_>, element: &Element<'_>) -> Result<(), Refusal> {
        let Some((slot, _)) = self.occupants.by_session(stanza.from) else {
            return Err(StanzaCondition::NotAcceptable.into());
        };
        let Some(occupant) = self.occupants.get(slot) else { return Ok(()) };
        if occupant.role < Role::Participant {
            return Err(StanzaCondition::Forbidden.into());
        }
        let has = |name| element.child(name, ns::CLIENT).is_some();
        // XEP-0045 8.1: a message with a body or a thread is not a change of the subject.
        let subject = element.child("subject", ns::CLIENT).filter(|_| !has("body") && !has("thread"));
        if let Some(subject) = &subject {
            if occupant.role < Role::Moderator && !self.record.config.change_subject {
                return Err(StanzaCondition::Forbidden.into());
            }
            if subject.inner().len() > ROOM_SUBJECT_BYTES_MAX {
                return Err(Limit::RoomSubject.into());
            }
        } else {
            self.may_speak_yet(kernel, occupant, has("body"))?;
        }
        let archived = self.record.config.archive
            && kernel.settings.archive
            && (subject.is_some() || keep("chat", element.children().map(|child| child.raw())) == Keep::Archive);
        if (archived || subject.is_some()) && kernel.storage == StorageState::Full {
            return Err(Limit::Disk.into());
        }
        let (from, id) = (self.address(&occupant.nick), self.occupant_id(&occupant.bare));
        let time_ms = kernel.now.wall_us / 1_000;
        if let Some(subject) = &subject {
            self.record.subject = Subject { text: subject.text().into(), nick: occupant.nick.clone(), time_ms };
            self.put(kernel);
        } else if self.record.config.slow_mode_s > 0 && has("body") {
            let speaks_ms = kernel.now.mono_ms + u64::from(self.record.config.slow_mode_s) * 1_000;
            self.occupants.get_mut(slot).into_iter().for_each(|occupant| occupant.speaks_ms = speaks_ms);
        }
        // The others know the occupant before they hear it.
        if !self.unsaid.is_empty() {
            let nick = resource_of(&from).unwrap_or_default();
            self.tell_unsaid_of(kernel, nick);
        }
        let forged = self.forged(kernel, element);
        let mut extra = Vec::with_capacity(192);
        write_occupant_id(&mut extra, &id);
        let mut xml = Vec::with_capacity(element.bytes().len() + 320);
        let number = if archived { kernel.next_number() } else { 0 };
        if archived {
            let how =
                Splice { from: Some(&from), to: Some(None), drop: &forged, append: &[&extra], ..Splice::default() };
            splice(&mut xml, element, &how);
            let entry = Entry { incoming: true, waits: false, time_ms, peer: &from, xml: &xml, trail: b"" };
            extension::archive(&mut kernel.writes, &kernel.settings.domains, &self.jid, number, &entry);
            self.archived(kernel, number, has("body"));
            xml.clear();
            write_stanza_id(&mut extra, &self.jid, number);
        }
        splice(&mut xml, element, &Splice { unaddressed: true, drop: &forged, append: &[&extra], ..Splice::default() });
        self.cast(kernel, GROUPCHAT, &from, &xml, number, self.sessions(|_| true));
        if self.record.config.forward_mentions && has("body") {
            self.forward_mentions(kernel, element, &from, &xml);
        }
        kernel.counters.room_messages.one();
        kernel.counters.room_deliveries.add(self.occupants.seats() as u64);
        if has("body") {
            self.wake_absent(kernel, &from, element, &xml);
            self.remember(Past { time_ms, number, from: from.into(), xml: Arc::from(xml) });
        }
        if let Some(retracted) = retracted(element) {
            self.forget(retracted, Some(&id));
        }
        Ok(())
    }

    /// XEP-0500 4: moderators need not wait.
    fn may_speak_yet(&self, kernel: &Kernel, occupant: &Occupant, has_body: bool) -> Result<(), Refusal> {
        let slow = self.record.config.slow_mode_s > 0 && occupant.role < Role::Moderator && has_body;
        match occupant.speaks_ms.checked_sub(kernel.now.mono_ms).filter(|left| slow && *left > 0) {
            Some(left_ms) => Err(Held { limit: Limit::RoomSlowMode, left_ms: Some(left_ms) }.into()),
            None => Ok(()),
        }
    }

    /// A private message (XEP-0045 7.5), or the error that answers one.
    fn whisper(
        &mut self,
        kernel: &mut Kernel,
        stanza: Incoming<'_>,
        class: MessageClass,
        nick: &str,
        element: &Element<'_>,
    ) -> Result<(), Refusal> {
        let Some(sender) = self.occupant(stanza.from) else { return Err(StanzaCondition::NotAcceptable.into()) };
        let allowed = match self.record.config.allow_pm {
            AllowPm::Anyone => true,
            AllowPm::Participants => sender.role >= Role::Participant,
            AllowPm::Moderators => sender.role == Role::Moderator,
            AllowPm::None => false,
        };
        if !allowed && class != MessageClass::Error {
            return Err(StanzaCondition::Forbidden.into());
        }
        self.tell_unsaid_of_both(kernel, stanza.from, nick);
        let target = self.occupants.by_nick(nick).and_then(|slot| self.occupants.get(slot));
        let (Some(sender), Some(target)) = (self.occupant(stanza.from), target) else {
            return Err(StanzaCondition::ItemNotFound.into());
        };
        let kept = match stanza.kind {
            Kind::Message { keep, .. } => keep,
            _ => Keep::Nothing,
        };
        let mut extra = Vec::new();
        // XEP-0045 7.5: copies of it can then be recognised as private messages (XEP-0280 6).
        write_x(&mut extra, None, b"", []);
        write_occupant_id(&mut extra, &self.occupant_id(&sender.bare));
        let (from, forged) = (self.address(&sender.nick), self.forged(kernel, element));
        for (at, seat) in target.seats.iter().rev().enumerate() {
            let to = format!("{}/{}", target.bare, seat.resource);
            // It is stored once.
            let kind = Kind::Message { class, keep: if at == 0 { kept } else { Keep::Nothing } };
            kernel.post(kernel.home(&target.bare), kind, None, &from, &to, |out| {
                let (from, to) = (Some(&*from), Some(Some(&*to)));
                splice(out, element, &Splice { from, to, drop: &forged, append: &[&extra], ..Splice::default() });
            });
        }
        Ok(())
    }

    /// A message of the room itself to all occupants, archived if the room archives.
    pub(super) fn room_says(&mut self, kernel: &mut Kernel, inside: &[u8]) {
        let id = kernel.random_name();
        let open = |out: &mut Vec<u8>| {
            out.extend_from_slice(b"<message type='groupchat'");
            write_attribute(out, "id", &id);
        };
        let mut live = Vec::with_capacity(inside.len() + 256);
        open(&mut live);
        live.push(b'>');
        live.extend_from_slice(inside);
        live.extend_from_slice(b"</message>");
        let archived = self.record.config.archive && kernel.settings.archive && kernel.storage != StorageState::Full;
        let number = if archived { kernel.next_number() } else { 0 };
        if archived {
            let mut xml = Vec::with_capacity(live.len() + 64);
            open(&mut xml);
            write_attribute(&mut xml, "from", &self.jid);
            xml.push(b'>');
            xml.extend_from_slice(inside);
            xml.extend_from_slice(b"</message>");
            let time_ms = kernel.now.wall_us / 1_000;
            let entry = Entry { incoming: true, waits: false, time_ms, peer: &self.jid, xml: &xml, trail: b"" };
            extension::archive(&mut kernel.writes, &kernel.settings.domains, &self.jid, number, &entry);
            self.archived(kernel, number, false);
            let mut stamped = Vec::with_capacity(live.len() + 128);
            insert_at_end(&mut stamped, &live, |out| write_stanza_id(out, &self.jid, number));
            live = stamped;
        }
        self.cast(kernel, GROUPCHAT, &self.jid, &live, number, self.sessions(|_| true));
    }
}
