//! Messages to a user of this home: which of the user's sessions they are for, and what is written of them.
//!
//! What may wait is appended to the user's log in the turn that handles it, so it is durable before anyone hears of it. Who is
//! at the head of the log gets it at once; whoever cannot take it now falls behind and reads it there later
//! ([`follow`](super::follow)). Nothing that is sent to a user ends one of the user's sessions.

use std::io::Write;

use smallvec::SmallVec;

use crate::feature::offline::{Keep, delay};
use crate::id::{SessionId, mark};
use crate::io::StorageState;
use crate::mail::MessageClass;
use crate::ns;
use crate::settings::BareDelivery;
use crate::shard::Shard;
use crate::shard::mail::Incoming;
use crate::shard::stanza::bare_of;
use crate::store::archive::Entry;
use crate::store::log::Log;
use crate::store::waiting::{Apart, Holder, Transient};
use crate::wire::error::StanzaCondition;
use crate::wire::limit::Limit;
use crate::wire::text::{escape_value_into, write_attribute};

/// Memory for stamping that a shard keeps, bytes.
const SCRATCH_BYTES_MAX: usize = 16 << 10;

/// Sessions that get a message: seldom more than a few.
pub(super) type Takers = SmallVec<[SessionId; 4]>;

/// How a message in a log is stamped for whoever gets it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    /// Its stanza-id (XEP-0359).
    pub(super) id: u64,
    /// When it came, milliseconds since the Unix epoch, if that has to be said (XEP-0203).
    pub(super) came_ms: Option<u64>,
}

impl Shard {
    /// A message for a user of this home whose account is there (RFC 6121 8.5.2, 8.5.3).
    pub(super) fn message_for(&mut self, user: u32, class: MessageClass, keep: Keep, stanza: Incoming<'_>) {
        let resource = stanza.to.split_once('/').map(|(_, r)| r);
        let exact = resource.and_then(|r| {
            let mut sessions = self.users.sessions(&self.sessions, user);
            sessions.find(|(_, s)| *s.resource == *r).map(|(id, _)| id)
        });
        match exact {
            // It answers what the session has sent.
            Some(session) if class == MessageClass::Error => {
                self.answer_to_session(session, stanza);
                return self.confirm(stanza.origin);
            }
            Some(session) => return self.to_session(user, session, keep, stanza),
            None => {}
        }
        match (class, resource.is_some()) {
            // 8.5.3.2.1: only chat messages for an absent resource are treated as if for the bare JID.
            (MessageClass::Chat, _) | (MessageClass::Normal, false) => return self.to_bare(user, keep, stanza),
            // 8.5.2.1.1: a headline goes to all resources that are not negative, whatever the policy for others.
            (MessageClass::Headline, false) => {
                for session in self.non_negative(user) {
                    self.hand_ephemeral(session, stanza.xml);
                }
            }
            (MessageClass::Headline | MessageClass::Error, _) => {}
            (MessageClass::Normal | MessageClass::Groupchat, _) => {
                return self.turn_away(stanza, StanzaCondition::ServiceUnavailable);
            }
        }
        self.confirm(stanza.origin);
    }

    /// Available sessions without a negative priority.
    fn non_negative(&self, user: u32) -> Takers {
        self.users.sessions(&self.sessions, user).filter(|(_, s)| s.takes_messages()).map(|(id, _)| id).collect()
    }

    /// Sessions that take messages for the bare JID, by the policy (RFC 6121 8.5.2.1.1).
    pub(super) fn takers(&self, user: u32) -> Takers {
        match self.settings.bare_delivery {
            BareDelivery::All => self.non_negative(user),
            // They come newest first, and `min_by_key` takes the first of equals.
            BareDelivery::MostAvailable => {
                let all = self.users.sessions(&self.sessions, user).filter(|(_, s)| s.takes_messages());
                all.min_by_key(|(_, s)| std::cmp::Reverse(s.priority)).map(|(id, _)| id).into_iter().collect()
            }
        }
    }

    /// A message for the session of its full JID.
    fn to_session(&mut self, user: u32, session: SessionId, keep: Keep, stanza: Incoming<'_>) {
        if keep == Keep::Nothing {
            self.hand_ephemeral(session, stanza.xml);
            return self.confirm(stanza.origin);
        }
        let state = self.sessions.slot(session.slot);
        let alone = state.next == crate::session::conn::NONE && self.users.get(user).first == session.slot;
        if alone && state.follows {
            // The cursor follows nobody else, and speaks for it.
            return self.to_followers(user, keep, stanza);
        }
        let behind = self.log_if_known(user).is_some_and(|log| log.is_behind(session)) || self.is_busy(session);
        if behind && !self.know_log(user) {
            return self.park_for_log(user, stanza);
        }
        if behind && let Some(limit) = self.no_room(user, stanza.xml.len()) {
            return self.turn_away(stanza, limit);
        }
        let at_head = self.position(user, session);
        let number = self.next_number();
        let entry = self.entry(stanza, false);
        if self.is_kept(keep) {
            entry.put(&mut self.writes, bare_of(stanza.to), number);
        }
        let holder = Holder { life: self.life, session };
        Apart { holder, entry }.put(&mut self.writes, bare_of(stanza.to), number);
        if behind {
            let log = self.log(user);
            log.fall_behind(session, at_head, number - 1);
            log.set_apart(number);
            self.stored(user, stanza);
            self.heads_changed(user);
            self.bring_up(user);
        } else {
            let stamp = Stamp { id: number, came_ms: None };
            self.hand(session, number | mark::APART, stamp, stanza.xml);
        }
        self.confirm(stanza.origin);
    }

    /// A message for the bare JID.
    fn to_bare(&mut self, user: u32, keep: Keep, stanza: Incoming<'_>) {
        if keep == Keep::Nothing {
            for session in self.takers(user) {
                self.hand_ephemeral(session, stanza.xml);
            }
            return self.confirm(stanza.origin);
        }
        self.to_followers(user, keep, stanza);
    }

    /// A message is appended to the log, for all who follow it.
    fn to_followers(&mut self, user: u32, keep: Keep, stanza: Incoming<'_>) {
        let (mut ready, mut fallen) = (Takers::new(), Takers::new());
        for session in self.heads(user) {
            if self.is_busy(session) { &mut fallen } else { &mut ready }.push(session);
        }
        let waits = ready.is_empty();
        if (waits || !fallen.is_empty()) && !self.know_log(user) {
            return self.park_for_log(user, stanza);
        }
        if waits && let Some(limit) = self.no_room(user, stanza.xml.len()) {
            return self.turn_away(stanza, limit);
        }
        let number = self.next_number();
        for &session in &fallen {
            self.log(user).fall_behind(session, number - 1, number - 1);
        }
        let all_here = fallen.is_empty() && !self.has_followers_behind(user);
        if !waits && !self.settings.archive && all_here {
            self.hand_unlogged(user, number, &ready, stanza.xml);
            return self.confirm(stanza.origin);
        }
        let kept = self.is_kept(keep);
        let entry = self.entry(stanza, true);
        if kept {
            entry.put(&mut self.writes, bare_of(stanza.to), number);
        } else {
            Transient { of: None, entry }.put(&mut self.writes, bare_of(stanza.to), number);
        }
        if waits || !kept || !all_here {
            self.log(user).appended(number, !kept);
        }
        if waits {
            self.stored(user, stanza);
        }
        for session in ready {
            self.hand(session, number, Stamp { id: number, came_ms: None }, stanza.xml);
        }
        if !fallen.is_empty() {
            self.heads_changed(user);
        }
        self.confirm(stanza.origin);
    }

    /// Where nothing is archived, what all who are there get at once is written nowhere. Of several holders, only the last one
    /// that is lost makes it wait.
    fn hand_unlogged(&mut self, user: u32, number: u64, ready: &[SessionId], xml: &[u8]) {
        let mut mark = mark::UNLOGGED | number;
        if ready.len() > 1 {
            mark |= mark::SHARED;
            self.log(user).share(mark, ready.len() as u16);
        }
        for &session in ready {
            self.hand_bytes(session, mark, xml);
        }
    }

    /// A transient entry is appended for messages that have lost their place: those who are at the head get it at once.
    pub(super) fn append_again(&mut self, user: u32, of: Option<u64>, entry: Entry<'_>) {
        let number = self.next_number();
        let bare = self.bare_of_user(user);
        Transient { of, entry: Entry { waits: true, ..entry } }.put(&mut self.writes, &bare, number);
        self.log(user).appended(number, true);
        let heads = self.heads(user);
        let stamp = Stamp { id: of.unwrap_or(number), came_ms: Some(entry.time_ms) };
        for &session in &heads {
            if self.is_busy(session) {
                self.log(user).fall_behind(session, number - 1, number - 1);
            } else {
                self.hand(session, number, stamp, entry.xml);
            }
        }
        self.heads_changed(user);
        if !self.users.get(user).live {
            self.log(user).stored(entry.xml.len());
        }
        self.sweeper.touch_log(user);
    }

    /// Whether a message of this kind stays when it is delivered.
    fn is_kept(&self, keep: Keep) -> bool {
        self.settings.archive && keep == Keep::Archive
    }

    fn entry<'a>(&self, stanza: Incoming<'a>, waits: bool) -> Entry<'a> {
        Entry { incoming: true, waits, time_ms: self.now.wall_us / 1_000, peer: stanza.from, xml: stanza.xml }
    }

    /// Why no message of so many bytes may wait for the user now.
    fn no_room(&mut self, user: u32, bytes: usize) -> Option<Limit> {
        let (most, most_bytes) = (self.settings.mailbox_messages_max, self.settings.mailbox_bytes_max);
        let full = self.storage == StorageState::Full;
        let (count, waiting) = self.log(user).waiting();
        if count >= most || waiting + bytes as u64 > most_bytes {
            Some(Limit::Mailbox)
        } else {
            full.then_some(Limit::Disk)
        }
    }

    /// A message waits that no session takes now.
    fn stored(&mut self, user: u32, stanza: Incoming<'_>) {
        self.log(user).stored(stanza.xml.len());
        self.sweeper.touch_log(user);
        self.counters.messages_stored.one();
        if self.watch.is_some() {
            self.watch_aside(stanza, None);
        }
    }

    fn park_for_log(&mut self, user: u32, stanza: Incoming<'_>) {
        let local = self.users.get(user).local.clone();
        self.park(&local, stanza);
    }

    /// The user's log, which is known.
    pub(super) fn log(&mut self, user: u32) -> &mut Log {
        let known = self.know_log(user);
        debug_assert!(known, "asked for a log that was not read");
        let now_s = self.now.mono_s();
        self.users.state(user, now_s).log.get_or_insert_with(|| Log::loaded(Default::default()))
    }

    pub(super) fn bare_of_user(&self, user: u32) -> String {
        self.bare(&self.users.get(user).local)
    }

    /// Writes the row of the cursor if it has changed.
    pub(super) fn write_row(&mut self, user: u32) {
        let bare = self.bare_of_user(user);
        let Some(log) = self.users.get_mut(user).state.as_mut().and_then(|s| s.log.as_mut()) else { return };
        let sessions = &self.sessions;
        if let Some((row, gone)) = log.poll_row(|id| sessions.get(id).is_some_and(|s| s.follows)) {
            row.put(&mut self.writes, &bare);
            if let Some(number) = gone {
                Transient::delete_up_to(&mut self.writes, &bare, number);
            }
        }
    }

    // Handing out.

    /// Gives a session a message that waits nowhere; who has too much to take already does without.
    fn hand_ephemeral(&mut self, session: SessionId, xml: &[u8]) {
        if self.is_busy(session) {
            return self.counters.stanzas_dropped.one();
        }
        self.hand_bytes(session, 0, xml);
    }

    /// Gives a session a message of the log, stamped.
    pub(super) fn hand(&mut self, session: SessionId, mark: u64, stamp: Stamp, xml: &[u8]) {
        let mut stanza = std::mem::take(&mut self.scratch);
        insert_at_end(&mut stanza, xml, |out| self.stamp(out, session, stamp));
        self.hand_bytes(session, mark, &stanza);
        self.keep_scratch(stanza);
    }

    /// Memory for one stanza is used again, if it is not too much to keep.
    pub(super) fn keep_scratch(&mut self, mut stanza: Vec<u8>) {
        if stanza.capacity() <= SCRATCH_BYTES_MAX {
            stanza.clear();
            self.scratch = stanza;
        }
    }

    /// Writes the stanza-id (XEP-0359) and, if it has waited, the delay (XEP-0203) of a message for a session's user.
    fn stamp(&self, out: &mut Vec<u8>, session: SessionId, stamp: Stamp) {
        let user = self.sessions.slot(session.slot).user;
        out.extend_from_slice(b"<stanza-id");
        write_attribute(out, "xmlns", ns::STANZA_ID);
        // Writing to memory does not fail.
        let _ = write!(out, " id='{}' by='", stamp.id);
        escape_value_into(out, &self.users.get(user).local);
        out.push(b'@');
        escape_value_into(out, &self.settings.domain);
        out.extend_from_slice(b"'/>");
        if let Some(came_ms) = stamp.came_ms {
            delay(out, &self.settings.domain, came_ms.saturating_mul(1_000));
        }
    }

    fn hand_bytes(&mut self, session: SessionId, mark: u64, xml: &[u8]) {
        if self.watch.is_some() {
            self.watch_goes(session, xml);
        }
        let Some(state) = self.sessions.get_mut(session) else { return };
        self.counters.messages_out.one();
        self.counters.messages_live.one();
        let conn = state.conn;
        match (state.managed.as_mut(), conn) {
            (Some(_), _) => self.send_managed(session, mark, xml),
            (None, Some(conn)) => self.send_message(conn, mark, xml),
            (None, None) => {}
        }
    }
}

/// Appends a complete stanza with what `extra` writes before its end tag; an empty one gets an end tag.
fn insert_at_end(out: &mut Vec<u8>, xml: &[u8], extra: impl FnOnce(&mut Vec<u8>)) {
    if let Some(start_tag) = xml.strip_suffix(b"/>") {
        let name_end = start_tag.iter().position(|b| b.is_ascii_whitespace()).unwrap_or(start_tag.len());
        out.extend_from_slice(start_tag);
        out.push(b'>');
        extra(out);
        out.extend_from_slice(b"</");
        out.extend_from_slice(&start_tag[1..name_end]);
        out.push(b'>');
        return;
    }
    let end = memchr::memrchr(b'<', xml).unwrap_or(xml.len());
    out.extend_from_slice(&xml[..end]);
    extra(out);
    out.extend_from_slice(&xml[end..]);
}

#[cfg(test)]
mod tests {
    use super::insert_at_end;

    #[test]
    fn extras_go_before_the_end_tag() {
        let with_extra = |xml: &str| {
            let mut out = Vec::new();
            insert_at_end(&mut out, xml.as_bytes(), |out| out.extend_from_slice(b"<x/>"));
            String::from_utf8(out).unwrap()
        };
        assert_eq!(with_extra("<message a='1'><b/></message>"), "<message a='1'><b/><x/></message>");
        assert_eq!(with_extra("<message a='1'/>"), "<message a='1'><x/></message>");
        assert_eq!(with_extra("<message/>"), "<message><x/></message>");
    }
}
