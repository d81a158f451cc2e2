//! What a bound session sends: checks, and where each stanza goes.

use std::borrow::Cow;

use crate::actors::safe::Address;
use crate::extension::annotations::forged_in_message;
use crate::extension::offline::Keep;
use crate::extension::{Target, Way};
use crate::id::{ConnId, SessionId};
use crate::io::StorageState;
use crate::letters::{AGAIN, Kind, Letter, MessageClass, Origin};
use crate::logs::message::kept;
use crate::shard::Shard;
use crate::store::archive::Entry;
use crate::store::sessions::Trail;
use crate::streams::half::Down;
use crate::turn::Turn;
use crate::wire::error::{StanzaCondition, StreamCondition};
use crate::wire::jid::{JidRef, bare_of};
use crate::wire::limit::{Limit, Refusal};
use crate::wire::written::Stanza;
use crate::wire::{Element, Splice, jid, splice};
use crate::{extension, ns};

impl Shard {
    /// One first-level element of a bound session's stream.
    pub(crate) fn from_session(&mut self, conn: ConnId, session: SessionId, element: &Element<'_>) {
        let namespace = element.namespace();
        if namespace == ns::SM {
            return self.management(conn, session, element);
        }
        // RFC 6120 4.8.3: the content of another kind of stream.
        if namespace == ns::SERVER {
            return self.fail_stream(conn, StreamCondition::InvalidNamespace, None);
        }
        let stanza = match element.name() {
            "message" if namespace == ns::CLIENT => Stanza::Message,
            "presence" if namespace == ns::CLIENT => Stanza::Presence,
            "iq" if namespace == ns::CLIENT => Stanza::Iq,
            _ => return self.from_session_nonza(conn, session, element),
        };
        stanza.of(&self.counters.messages_in, &self.counters.presences_in, &self.counters.iqs_in).one();
        let mut full = std::mem::take(&mut self.full);
        self.write_full_jid(session, &mut full);
        if let Some(from) = element.from()
            && !self.is_own_address(&full, &from)
        {
            return self.fail_stream(conn, StreamCondition::InvalidFrom, None);
        }
        let (seq, in_flight) = self.came(session);
        self.spend(session, element.bytes().len());
        if self.observers.is_some() {
            self.tap_came(session, element);
        }
        let written = self.writes.bytes();
        match (stanza, self.outward(session, element)) {
            (_, Some(refusal)) => self.refuse(session, seq, element, refusal),
            (Stanza::Message, None) => self.from_session_message(session, seq, &full, element),
            (Stanza::Presence, None) => self.from_session_presence(session, seq, &full, element),
            (Stanza::Iq, None) => self.from_session_iq(session, seq, &full, element),
        }
        self.full = full;
        // What a message writes counts where it is sent off.
        if stanza != Stanza::Message && self.writes.bytes() > written {
            let bytes = element.bytes().len().max(self.writes.bytes() - written);
            self.tell(session, Down::Wrote(bytes));
        }
        if self.observers.is_some() {
            self.tap_taken(session, seq, in_flight);
        }
    }

    /// Why a stanza of a session is refused by what extensions have noted of its user, if it is.
    fn outward(&self, session: SessionId, element: &Element<'_>) -> Option<Refusal> {
        let user = self.sessions.slot(session.slot).user;
        if !self.has_notes(user) {
            return None;
        }
        self.guards(user, Way::Out, &jid::normalise(&element.to()?).ok()?)
    }

    /// An element that is no stanza belongs to an extension, or to nobody (RFC 6120 4.9.3.24).
    fn from_session_nonza(&mut self, conn: ConnId, session: SessionId, element: &Element<'_>) {
        let change = extension::nonza(&self.facts, element.namespace()).and_then(|(place, nonza)| {
            let change = self.with_note(session, place, |note| (nonza.handle)(note, element.name()));
            Some((place, change??))
        });
        match change {
            Some((place, change)) => self.change_session(session, place, change),
            None => self.fail_stream(conn, StreamCondition::UnsupportedStanzaType, None),
        }
    }

    fn from_session_message(&mut self, session: SessionId, seq: u32, full: &str, element: &Element<'_>) {
        let kind = element.kind().unwrap_or_default();
        let class = MessageClass::of_type(&kind);
        let own_bare = bare_of(full);
        let (to, mut scratch) = (element.to(), Cow::Borrowed(""));
        let to = match self.address(full, to.as_deref(), &mut scratch) {
            Address::Own if self.form_came(session, seq, full, Target::Own, element) => return,
            Address::Service(service) if self.form_came(session, seq, full, Target::Service(service), element) => {
                return;
            }
            Address::Own => JidRef::from_normalised(own_bare),
            Address::User(to) => to,
            Address::Server | Address::Service(_) | Address::Nobody => {
                return self.refuse(session, seq, element, StanzaCondition::ServiceUnavailable);
            }
            Address::Remote => return self.refuse(session, seq, element, StanzaCondition::RemoteServerNotFound),
            Address::Malformed => return self.refuse(session, seq, element, StanzaCondition::JidMalformed),
        };
        let kept = kept(class, &kind, element);
        if kept != Keep::Nothing && self.storage == StorageState::Full {
            return self.refuse(session, seq, element, Limit::Disk);
        }
        let user = self.sessions.slot(session.slot).user;
        if kept != Keep::Nothing
            && let Some(held) = self.charge_log(user, element.bytes().len())
        {
            let now_ms = self.now.mono_ms;
            self.refusals.note(now_ms, held.limit, own_bare.to_owned());
            return self.refuse(session, seq, element, held);
        }
        let home = self.home(to.bare().as_str());
        let logged = kept == Keep::Archive && self.settings.archive && self.archives(user, to.as_str());
        // One that has its entry since before a crash is sent again: its receiver may have it.
        let had = self.had(session, seq);
        let entry = match had {
            Some(entry) => entry,
            None if logged => self.next_number(),
            None => 0,
        };
        let again = if had.is_some() { AGAIN } else { 0 };
        let origin = self.sent_off(session, seq, element.bytes().len());
        let origin = origin.map(|origin| Origin { entry: entry | again, ..origin });
        let forged = forged_in_message(&self.settings.domains, element, &[own_bare, to.bare().as_str()]);
        let lang = self.lang(session);
        let letters = self.letters_to(home);
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
        if logged && let Some(step) = self.logged(session, seq) {
            trail.add(step);
        }
        // What goes to the own account comes to its sessions as it is.
        if self.users.get(user).marked && to.bare().as_str() != own_bare && !self.copied(user).is_empty() {
            let xml = self.letters[home.index()].bytes(xml).to_vec();
            self.copy(user, Way::Out, entry, &xml, &mut trail, |_, id| id == session);
        }
        if logged {
            let turn: &mut Turn = self;
            let (xml, time_ms, trail) =
                (turn.letters[home.index()].bytes(xml), turn.now.wall_us / 1_000, trail.bytes());
            let sent = Entry { incoming: false, waits: false, time_ms, peer: to.as_str(), xml, trail };
            extension::archive(&mut turn.writes, &turn.settings.domains, own_bare, entry, &sent);
        }
    }
}
