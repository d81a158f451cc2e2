//! Stanzas of a bound session: checks, and their destinations.

use std::borrow::Cow;

use crate::actors::safe::Address;
use crate::extension::annotations::forged_in_message;
use crate::extension::offline::Keep;
use crate::extension::{Target, Way};
use crate::id::{ConnId, SessionId};
use crate::io::StorageState;
use crate::letters::{AGAIN, Kind, Letter, MessageClass, Origin};
use crate::shard::Shard;
use crate::store::archive::Entry;
use crate::store::sessions::Trail;
use crate::streams::half::Down;
use crate::wire::error::{StanzaCondition, StreamCondition};
use crate::wire::jid::{JidRef, bare_of};
use crate::wire::limit::{Limit, Refusal};
use crate::wire::written::Stanza;
use crate::wire::{Element, Splice, jid, splice};
use crate::{extension, ns};

impl Shard {
    /// Handles one first-level element of a bound session's stream.
    pub(crate) fn from_session(&mut self, conn: ConnId, session: SessionId, element: &Element<'_>) {
        let namespace = element.namespace();
        if namespace == ns::SM {
            return self.management(conn, session, element);
        }
        // RFC 6120 4.8.3: the content namespace of another kind of stream.
        if namespace == ns::SERVER {
            return self.cx.fail_stream(conn, StreamCondition::InvalidNamespace, None);
        }
        let stanza = match element.name() {
            "message" if namespace == ns::CLIENT => Stanza::Message,
            "presence" if namespace == ns::CLIENT => Stanza::Presence,
            "iq" if namespace == ns::CLIENT => Stanza::Iq,
            _ => return self.from_session_nonza(conn, session, element),
        };
        stanza
            .of(
                &self.cx.kernel.counters.messages_in,
                &self.cx.kernel.counters.presences_in,
                &self.cx.kernel.counters.iqs_in,
            )
            .one();
        let mut full = std::mem::take(&mut self.full);
        self.actors.write_full_jid(session, &mut full);
        if let Some(from) = element.from()
            && !self.actors.is_own_address(&full, &from)
        {
            return self.cx.fail_stream(conn, StreamCondition::InvalidFrom, None);
        }
        let (seq, in_flight) = self.cx.came(session);
        self.actors.spend(&mut self.cx, session, element.bytes().len());
        if self.actors.observers.is_some() {
            self.actors.tap_came(&mut self.cx, session, element);
        }
        let written = self.cx.kernel.writes.bytes();
        match (stanza, self.outward(session, element)) {
            (_, Some(refusal)) => self.actors.refuse(&mut self.cx, session, seq, element, refusal),
            (Stanza::Message, None) => self.from_session_message(session, seq, &full, element),
            (Stanza::Presence, None) => {
                self.contacts.from_session_presence(&mut self.cx, &mut self.actors, session, seq, &full, element)
            }
            (Stanza::Iq, None) => self.from_session_iq(session, seq, &full, element),
        }
        self.full = full;
        // Writes for a message are charged where it is sent.
        if stanza != Stanza::Message && self.cx.kernel.writes.bytes() > written {
            let bytes = element.bytes().len().max(self.cx.kernel.writes.bytes() - written);
            self.cx.tell(session, Down::Wrote(bytes));
        }
        if self.actors.observers.is_some() {
            self.actors.tap_taken(&mut self.cx, session, seq, in_flight);
        }
    }

    /// The reason to refuse a session's stanza because of extensions' notes about its user, if
    /// there is one.
    fn outward(&self, session: SessionId, element: &Element<'_>) -> Option<Refusal> {
        let user = self.actors.sessions.slot(session.slot).user;
        if !self.actors.has_notes(user) {
            return None;
        }
        self.actors.guards(&self.cx, user, Way::Out, &jid::normalise(&element.to()?).ok()?)
    }

    /// Handles an element that is not a stanza: it belongs to an extension, or is not supported
    /// (RFC 6120 4.9.3.24).
    fn from_session_nonza(&mut self, conn: ConnId, session: SessionId, element: &Element<'_>) {
        let change = extension::nonza(&self.cx.kernel.facts, element.namespace()).and_then(|(place, nonza)| {
            let change = self.actors.with_note(session, place, |note| (nonza.handle)(note, element.name()));
            Some((place, change??))
        });
        match change {
            Some((place, change)) => self.actors.change_session(&mut self.cx, session, place, change),
            None => self.cx.fail_stream(conn, StreamCondition::UnsupportedStanzaType, None),
        }
    }

    fn from_session_message(&mut self, session: SessionId, seq: u32, full: &str, element: &Element<'_>) {
        let kind = element.kind().unwrap_or_default();
        let class = MessageClass::of_type(&kind);
        let own_bare = bare_of(full);
        let (to, mut scratch) = (element.to(), Cow::Borrowed(""));
        let to = match self.actors.address(&self.cx, full, to.as_deref(), &mut scratch) {
            Address::Own if self.form_came(session, seq, full, Target::Own, element) => return,
            Address::Service(service) if self.form_came(session, seq, full, Target::Service(service), element) => {
                return;
            }
            Address::Own => JidRef::from_normalised(own_bare),
            Address::User(to) => to,
            Address::Server | Address::Service(_) | Address::Nobody => {
                return self.actors.refuse(&mut self.cx, session, seq, element, StanzaCondition::ServiceUnavailable);
            }
            Address::Remote => {
                return self.actors.refuse(&mut self.cx, session, seq, element, StanzaCondition::RemoteServerNotFound);
            }
            Address::Malformed => {
                return self.actors.refuse(&mut self.cx, session, seq, element, StanzaCondition::JidMalformed);
            }
        };
        let kept = class.keeps(&kind, element);
        if kept != Keep::Nothing && self.cx.kernel.storage == StorageState::Full {
            return self.actors.refuse(&mut self.cx, session, seq, element, Limit::Disk);
        }
        let user = self.actors.sessions.slot(session.slot).user;
        if kept != Keep::Nothing
            && let Some(held) = self.logs.charge_log(&mut self.cx, &mut self.actors, user, element.bytes().len())
        {
            let now_ms = self.cx.kernel.now.mono_ms;
            self.cx.kernel.refusals.note(now_ms, held.limit, own_bare.to_owned());
            return self.actors.refuse(&mut self.cx, session, seq, element, held);
        }
        let home = self.cx.kernel.home(to.bare().as_str());
        let logged = kept == Keep::Archive
            && self.cx.kernel.settings.archive
            && self.actors.archives(&self.cx, user, to.as_str());
        // A stanza with an entry from before a crash is sent again: its receiver may already have
        // it.
        let had = self.cx.had(session, seq);
        let entry = match had {
            Some(entry) => entry,
            None if logged => self.cx.kernel.next_number(),
            None => 0,
        };
        let again = if had.is_some() { AGAIN } else { 0 };
        let origin = self.actors.sent_off(&mut self.cx, session, seq, element.bytes().len());
        let origin = origin.map(|origin| Origin { entry: entry | again, ..origin });
        let forged = forged_in_message(&self.cx.kernel.settings.domains, element, &[own_bare, to.bare().as_str()]);
        let lang = self.actors.lang(session);
        let letters = self.cx.kernel.letters_to(home);
        let xml = letters.write_with(|out| {
            let to = Some(Some(to.as_str()));
            let how = Splice { from: Some(full), to, lang: lang.as_deref(), drop: &forged, ..Splice::default() };
            splice(out, element, &how);
        });
        let (from, to_span) = (letters.name(full), letters.name(to.as_str()));
        letters.push(Letter::Stanza { kind: Kind::Message { class, keep: kept }, origin, from, to: to_span, xml });
        if had.is_some() {
            return;
        }
        let mut trail = Trail::default();
        if logged && let Some(step) = self.cx.logged(session, seq) {
            trail.add(step);
        }
        // A stanza to the user's own account reaches its sessions unchanged.
        if self.actors.users.get(user).marked
            && to.bare().as_str() != own_bare
            && !self.logs.copied(&self.actors, user).is_empty()
        {
            let xml = self.cx.kernel.letters[home.index()].bytes(xml).to_vec();
            self.logs
                .copy(&mut self.cx, &mut self.actors, user, Way::Out, entry, &xml, &mut trail, |_, id| id == session);
        }
        if logged {
            let turn = &mut self.cx.kernel;
            let (xml, time_ms, trail) =
                (turn.letters[home.index()].bytes(xml), turn.now.wall_us / 1_000, trail.bytes());
            let sent = Entry { incoming: false, waits: false, time_ms, peer: to.as_str(), xml, trail };
            extension::archive(&mut turn.writes, &turn.settings.domains, own_bare, entry, &sent);
        }
    }
}
