//! Messages to a user of this home: to sessions, to the archive, to the mailbox, and from there to sessions again.
//!
//! A message is archived in the turn that handles it, so it is durable before anyone hears of it. It is *received* when a
//! managed session acknowledges it (XEP-0198), or when its bytes are with the kernel; until then it is outstanding, and
//! if its last holder ends first, it waits in the mailbox again.

use std::io::Write;

use smallvec::SmallVec;

use crate::feature::offline::delay;
use crate::id::SessionId;
use crate::io::StorageState;
use crate::mail::MessageClass;
use crate::ns;
use crate::outbound::{Backlog, Unsent};
use crate::session::sm::Unacked;
use crate::settings::BareDelivery;
use crate::shard::mail::Incoming;
use crate::shard::{Pending, Shard};
use crate::store::archive::{self, Entry, MailboxRow};
use crate::store::mailbox::{Lost, Mailbox, Phase};
use crate::store::{Found, Query, Table};
use crate::wire::error::{StanzaCondition, StreamCondition};
use crate::wire::limit::Limit;
use crate::wire::text::{escape_value_into, write_attribute};

/// Entries of a mailbox that are read and handed out at once.
const REPLAY_ROWS_MAX: u32 = 64;
/// Bytes of such a page.
const REPLAY_BYTES_MAX: u32 = 128 << 10;
/// A message that waited for less than this, in microseconds, behind others while its receiver was there, bears no delay
/// stamp.
const DELAY_US: u64 = 1_000_000;
/// Bit of a mark, which stands for a message in no archive: the rest is the archive id that it gets if it has to wait, so
/// that it goes before what came after it. Archive ids are times and use neither this bit nor the next.
const UNARCHIVED: u64 = 1 << 63;
/// Bit of a mark that several sessions hold.
const SHARED: u64 = 1 << 62;
/// Returned rows looked at when a user comes online; the rest follow with the next replay.
const RETURNED_ROWS_MAX: u32 = 1000;
/// Memory for stamping that a shard keeps, bytes.
const SCRATCH_BYTES_MAX: usize = 16 << 10;

/// Sessions that get a message: seldom more than a few.
type Takers = SmallVec<[SessionId; 4]>;

impl Shard {
    /// A message for a user of this home whose account is there (RFC 6121 8.5.2, 8.5.3).
    pub(super) fn message_for(&mut self, user: u32, class: MessageClass, store: bool, stanza: Incoming<'_>) {
        let resource = stanza.to.split_once('/').map(|(_, r)| r);
        let exact = resource.and_then(|r| {
            let mut sessions = self.users.sessions(&self.sessions, user);
            sessions.find(|(_, s)| *s.resource == *r).map(|(id, _)| id)
        });
        if let Some(session) = exact {
            return self.to_session(user, session, store, stanza);
        }
        match (class, resource.is_some()) {
            // 8.5.3.2.1: only chat messages for an absent resource are treated as if for the bare JID.
            (MessageClass::Chat, _) | (MessageClass::Normal, false) => return self.to_bare(user, store, stanza),
            // 8.5.2.1.1: a headline goes to all resources that are not negative, whatever the policy for others.
            (MessageClass::Headline, false) => {
                for session in self.non_negative(user) {
                    self.hand(session, 0, stanza.xml);
                }
            }
            (MessageClass::Headline | MessageClass::Error, _) => {}
            (MessageClass::Normal | MessageClass::Groupchat, _) => {
                self.answer_with_error(stanza, StanzaCondition::ServiceUnavailable);
            }
        }
        self.confirm(stanza.origin);
    }

    /// Available sessions without a negative priority.
    fn non_negative(&self, user: u32) -> Takers {
        self.users.sessions(&self.sessions, user).filter(|(_, s)| s.takes_messages()).map(|(id, _)| id).collect()
    }

    /// Sessions that take messages for the bare JID, by the policy (RFC 6121 8.5.2.1.1).
    fn takers(&self, user: u32) -> Takers {
        match self.settings.bare_delivery {
            BareDelivery::All => self.non_negative(user),
            // They come newest first, and `min_by_key` takes the first of equals.
            BareDelivery::MostAvailable => {
                let all = self.users.sessions(&self.sessions, user).filter(|(_, s)| s.takes_messages());
                all.min_by_key(|(_, s)| std::cmp::Reverse(s.priority)).map(|(id, _)| id).into_iter().collect()
            }
        }
    }

    /// Whether a session is behind with what it has been sent.
    fn is_behind(&mut self, session: SessionId) -> bool {
        let (soft, most) = (self.settings.outbound_bytes_soft, self.settings.unacked_max);
        let Some(state) = self.sessions.get(session) else { return true };
        let unacked = state.managed.as_ref().is_some_and(|m| m.unacked_len() >= most || m.unacked_bytes() > soft);
        let conn = state.conn;
        unacked || conn.is_some_and(|conn| self.backlog(conn) != Backlog::Light)
    }

    /// A message for the session of its full JID.
    fn to_session(&mut self, user: u32, session: SessionId, store: bool, stanza: Incoming<'_>) {
        if !store {
            self.hand(session, 0, stanza.xml);
            return self.confirm(stanza.origin);
        }
        let live = self.users.get(user).live;
        // What a session that takes messages for the bare JID cannot take now, the mailbox brings it later, and what
        // comes meanwhile goes behind it (RFC 6120 10.1). To another session nothing would bring it.
        let takes = self.sessions.get(session).is_some_and(|s| s.takes_messages());
        if takes && (!live || self.is_behind(session)) {
            return self.to_mailbox(user, stanza, None);
        }
        if !self.settings.archive {
            let mark = self.mark(user, 1);
            self.hand(session, mark, stanza.xml);
            return self.confirm(stanza.origin);
        }
        if !live && !self.has_mailbox(user) {
            // Older ones may wait in the store: the mailbox has to be known before this one gets its place in it.
            return self.park_for_mailbox(user, stanza);
        }
        self.mailbox(user);
        let id = self.archive(stanza, live);
        if live {
            self.mailbox(user).handed(id, 1, false);
        } else {
            // Older ones wait, or this session takes none for the bare JID: the cursor cannot speak for this one, a row
            // does.
            let bare = self.bare_of_user(user);
            archive::put_returned(&mut self.writes, &bare, id);
            self.returned_rows_changed(user);
            self.mailbox(user).handed(id, 1, true);
        }
        self.hand(session, id, stanza.xml);
        self.confirm(stanza.origin);
    }

    fn has_mailbox(&self, user: u32) -> bool {
        self.users.get(user).state.as_ref().is_some_and(|s| s.mailbox.is_some())
    }

    /// A message for the bare JID.
    fn to_bare(&mut self, user: u32, store: bool, stanza: Incoming<'_>) {
        let mut ready = self.takers(user);
        if !store {
            for session in ready {
                self.hand(session, 0, stanza.xml);
            }
            return self.confirm(stanza.origin);
        }
        ready.retain(|session| !self.is_behind(*session));
        if !self.users.get(user).live || ready.is_empty() {
            return self.to_mailbox(user, stanza, None);
        }
        let id = if self.settings.archive {
            self.mailbox(user);
            let id = self.archive(stanza, true);
            self.mailbox(user).handed(id, ready.len() as u16, false);
            id
        } else {
            self.mark(user, ready.len() as u16)
        };
        for session in ready {
            self.hand(session, id, stanza.xml);
        }
        self.confirm(stanza.origin);
    }

    /// Stands for a message in no archive that `holders` sessions get. Of several, only the last one that is lost makes it
    /// wait again.
    fn mark(&mut self, user: u32, holders: u16) -> u64 {
        let id = UNARCHIVED | self.next_id();
        if holders == 1 {
            return id;
        }
        self.mailbox(user).handed_unarchived(id | SHARED, holders);
        id | SHARED
    }

    /// Writes the message to the user's archive.
    fn archive(&mut self, stanza: Incoming<'_>, waits: bool) -> u64 {
        let id = self.next_id();
        let entry = Entry { incoming: true, waits, peer: stanza.from, xml: stanza.xml };
        let user = super::stanza::bare_of(stanza.to);
        // Without an archive each message goes by itself once it is received.
        if self.settings.archive {
            entry.put(&mut self.writes, user, id);
        } else {
            entry.put_alone(&mut self.writes, user, id);
        }
        id
    }

    /// The message waits for a session, if there is room: behind all others, or `at` the place of an earlier id.
    fn to_mailbox(&mut self, user: u32, stanza: Incoming<'_>, at: Option<u64>) {
        let (most, most_bytes) = (self.settings.mailbox_messages_max, self.settings.mailbox_bytes_max);
        if self.users.get(user).live {
            self.mailbox(user).fall_behind();
            self.users.get_mut(user).live = false;
        }
        let Some(mailbox) = self.users.get(user).state.as_ref().and_then(|s| s.mailbox.as_ref()) else {
            // The user has sessions, but none that takes messages yet, so the figures were never read.
            return self.park_for_mailbox(user, stanza);
        };
        let (count, bytes) = mailbox.waiting();
        let limit = if count >= most || bytes + stanza.xml.len() as u64 > most_bytes {
            Some(Limit::Mailbox)
        } else if self.storage == StorageState::Full {
            Some(Limit::Disk)
        } else {
            None
        };
        if let Some(limit) = limit {
            self.answer_with_error(stanza, limit);
            return self.confirm(stanza.origin);
        }
        if let Some(id) = at {
            // Replay and cursor may be past this id: a row speaks for it.
            let bare = self.bare_of_user(user);
            let entry = Entry { incoming: true, waits: false, peer: stanza.from, xml: stanza.xml };
            entry.put_alone(&mut self.writes, &bare, id);
            archive::put_returned(&mut self.writes, &bare, id);
            self.returned_rows_changed(user);
            self.mailbox(user).returns(id, stanza.xml.len());
        } else {
            let id = self.archive(stanza, true);
            self.mailbox(user).stored(id, stanza.xml.len());
        }
        self.write_row(user);
        self.counters.messages_stored.one();
        if self.watch.is_some() {
            self.watch_aside(stanza, None);
        }
        self.confirm(stanza.origin);
    }

    fn park_for_mailbox(&mut self, user: u32, stanza: Incoming<'_>) {
        let local = self.users.get(user).local.clone();
        self.park(&local, stanza);
    }

    /// The mailbox of a user; made live if there is none at hand, which the caller must know to be true. To be called
    /// before an id is given to a message that is then outstanding.
    fn mailbox(&mut self, user: u32) -> &mut Mailbox {
        let now_s = self.now.mono_s();
        let last_id = self.last_id;
        self.users.state(user, now_s).mailbox.get_or_insert_with(|| Mailbox::live(last_id))
    }

    pub(super) fn bare_of_user(&self, user: u32) -> String {
        self.bare(&self.users.get(user).local)
    }

    /// Writes the mailbox row if it has changed.
    pub(super) fn write_row(&mut self, user: u32) {
        let bare = self.bare_of_user(user);
        let Some(mailbox) = self.users.get_mut(user).state.as_mut().and_then(|s| s.mailbox.as_mut()) else { return };
        if let Some(row) = mailbox.poll_row() {
            row.put(&mut self.writes, &bare);
        }
    }

    /// Gives a message to a session; `id` is its archive id, its mark, or 0 for one that will not wait.
    fn hand(&mut self, session: SessionId, id: u64, xml: &[u8]) {
        if id == 0 || id & UNARCHIVED != 0 {
            return self.hand_bytes(session, id, xml);
        }
        self.hand_stamped(session, id, xml, false);
    }

    /// Gives a session the stanza with its stanza-id and, for one that has waited, its delay.
    fn hand_stamped(&mut self, session: SessionId, id: u64, xml: &[u8], delayed: bool) {
        let mut stanza = std::mem::take(&mut self.scratch);
        insert_at_end(&mut stanza, xml, |out| self.stamp(out, session, id, delayed));
        self.hand_bytes(session, id, &stanza);
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
    fn stamp(&self, out: &mut Vec<u8>, session: SessionId, id: u64, delayed: bool) {
        let user = self.sessions.slot(session.slot).user;
        out.extend_from_slice(b"<stanza-id");
        write_attribute(out, "xmlns", ns::STANZA_ID);
        // Writing to memory does not fail.
        let _ = write!(out, " id='{id}' by='");
        escape_value_into(out, &self.users.get(user).local);
        out.push(b'@');
        escape_value_into(out, &self.settings.domain);
        out.extend_from_slice(b"'/>");
        if delayed {
            delay(out, &self.settings.domain, id);
        }
    }

    fn hand_bytes(&mut self, session: SessionId, id: u64, xml: &[u8]) {
        if self.watch.is_some() {
            self.watch_goes(session, xml);
        }
        let Some(state) = self.sessions.get_mut(session) else { return };
        self.counters.messages_out.one();
        self.counters.messages_live.one();
        let conn = state.conn;
        match (state.managed.as_mut(), conn) {
            (Some(_), _) => self.send_managed(session, id, xml),
            (None, Some(conn)) => self.send_message(conn, id, xml),
            (None, None) => {}
        }
    }

    // What becomes of messages that are handed out.

    /// A managed session acknowledged these.
    pub(super) fn messages_received(&mut self, user: u32, acked: &[Unacked]) {
        self.have_arrived(user, acked.iter().map(|unacked| unacked.id).filter(|&id| id != 0));
        self.pump_replay(user);
    }

    /// The bytes of these are with the kernel; that is all that is known of a session without stream management.
    pub(super) fn messages_sent(&mut self, user: u32, ids: &[u64]) {
        self.have_arrived(user, ids.iter().copied());
        self.pump_replay(user);
    }

    fn have_arrived(&mut self, user: u32, ids: impl Iterator<Item = u64> + Clone) {
        let Some(mailbox) = self.users.get_mut(user).state.as_mut().and_then(|s| s.mailbox.as_mut()) else { return };
        for mark in ids.clone().filter(|id| id & UNARCHIVED != 0) {
            mailbox.received_unarchived(mark);
        }
        let mut archived = ids.filter(|id| id & UNARCHIVED == 0).peekable();
        if archived.peek().is_none() {
            return;
        }
        let returned = mailbox.received(archived.clone());
        if !returned.is_empty() {
            self.returned_rows_changed(user);
            let bare = self.bare_of_user(user);
            returned.iter().for_each(|&id| archive::delete_returned(&mut self.writes, &bare, id));
        }
        if !self.settings.archive {
            // One by one: what lies before the cursor may have been returned, and waits.
            let bare = self.bare_of_user(user);
            archived.for_each(|id| self.writes.delete(Table::Archive, bare.as_bytes(), &id.to_be_bytes()));
        }
        self.sweeper.touch_mailbox(user);
    }

    /// A session ended without having received these.
    pub(super) fn messages_lost(&mut self, user: u32, lost: Vec<Unsent>) {
        for unsent in lost {
            if unsent.id == 0 {
                self.bounce_unreceived(&unsent.xml);
                continue;
            }
            if unsent.id & UNARCHIVED != 0 {
                let mailbox = self.users.get_mut(user).state.as_mut().and_then(|s| s.mailbox.as_mut());
                if unsent.id & SHARED == 0 || mailbox.is_some_and(|m| m.lost_unarchived(unsent.id)) {
                    self.restore_unarchived(user, unsent.id & !(UNARCHIVED | SHARED), &unsent.xml);
                }
                continue;
            }
            let bare = self.bare_of_user(user);
            let Some(mailbox) = self.users.get_mut(user).state.as_mut().and_then(|s| s.mailbox.as_mut()) else {
                continue;
            };
            let verdict = mailbox.lost(unsent.id, unsent.xml.len());
            if let Lost::Waits { row } = verdict {
                self.counters.messages_returned.one();
                self.users.get_mut(user).live = false;
                if row {
                    self.returned_rows_changed(user);
                    archive::put_returned(&mut self.writes, &bare, unsent.id);
                }
            }
        }
        self.write_row(user);
    }

    fn returned_rows_changed(&mut self, user: u32) {
        if let Some(state) = self.users.get_mut(user).state.as_mut().filter(|s| s.replay_asked) {
            state.replay_outdated = true;
        }
    }

    /// A message that stands in no archive waits, in the place of the id that was kept for it.
    fn restore_unarchived(&mut self, user: u32, id: u64, xml: &[u8]) {
        let mut scanner = crate::wire::Scanner::new();
        let scope = crate::wire::StreamScope::Usual;
        // Its bytes were in a send under way: they are gone.
        if xml.is_empty() || scanner.scan(&scope, crate::wire::Expect::Content, usize::MAX, xml).is_err() {
            return;
        }
        let element = scanner.element(&scope, xml);
        let (Some(from), Some(to)) = (element.from(), element.to()) else { return };
        self.counters.messages_returned.one();
        let kind = crate::mail::Kind::Message { class: MessageClass::Chat, store: true };
        self.to_mailbox(user, Incoming { kind, origin: None, from: &from, to: &to, xml }, Some(id));
    }

    // Coming online, and what has waited.

    /// A session of the user came, went, or changed its presence: does anyone take messages now?
    pub(super) fn takers_changed(&mut self, user: u32) {
        if self.takers(user).is_empty() {
            let was_live = std::mem::take(&mut self.users.get_mut(user).live);
            let last_id = self.last_id;
            if let Some(mailbox) = self.users.get_mut(user).state.as_mut().and_then(|s| s.mailbox.as_mut()) {
                mailbox.away(was_live.then_some(last_id));
            }
            self.write_row(user);
            return;
        }
        if self.users.get(user).live {
            return;
        }
        let (now_s, now_us) = (self.now.mono_s(), self.now.wall_us);
        let state = self.users.state(user, now_s);
        if state.replay_asked {
            return;
        }
        match state.mailbox.as_ref().map(|m| &m.phase) {
            Some(Phase::Replaying { .. } | Phase::Live) => self.pump_replay(user),
            Some(Phase::Away) | None => {
                state.replay_asked = true;
                state.replay_outdated = false;
                state.replay_since_us = now_us;
                let local = self.users.get(user).local.clone();
                let rows = Query::Range {
                    table: Table::Mailbox,
                    partition: self.bare(&local).into_bytes().into(),
                    from: Box::default(),
                    until: None,
                    reverse: false,
                    rows_max: RETURNED_ROWS_MAX,
                    bytes_max: 1 << 20,
                };
                self.read(Pending::MailboxRows(local), vec![rows]);
            }
        }
    }

    pub(super) fn mailbox_rows_found(&mut self, local: &str, found: Vec<Found>) {
        let Some(user) = self.users.find(local) else { return };
        let now_s = self.now.mono_s();
        let state = self.users.state(user, now_s);
        state.replay_asked = false;
        if std::mem::take(&mut state.replay_outdated) {
            return self.takers_changed(user);
        }
        if self.takers(user).is_empty() || self.users.get(user).live {
            return;
        }
        let Some(Found::Rows { rows, .. }) = found.into_iter().next() else { return };
        let (mut row, mut returned) = (MailboxRow::default(), std::collections::BTreeSet::new());
        for found in &rows {
            match archive::id_of(&found.sort) {
                Some(id) => {
                    returned.insert(id);
                }
                None => row = MailboxRow::decode(&found.value).unwrap_or_default(),
            }
        }
        let mailbox = self.users.state(user, now_s).mailbox.get_or_insert_with(|| Mailbox::loaded(row));
        mailbox.start_replay(returned);
        self.pump_replay(user);
    }

    /// Reads on in the mailbox, if there is more, no read is under way, and someone can take it.
    pub(super) fn pump_replay(&mut self, user: u32) {
        let Some(state) = self.users.get(user).state.as_ref() else { return };
        let Some(Phase::Replaying { reading: false, .. }) = state.mailbox.as_ref().map(|m| &m.phase) else { return };
        let takers = self.takers(user);
        if takers.is_empty() || !takers.into_iter().any(|s| !self.is_behind(s)) {
            return;
        }
        let local = self.users.get(user).local.clone();
        let bare = self.bare(&local);
        let Phase::Replaying { position, returned, reading, .. } = &mut self.mailbox(user).phase else { return };
        *reading = true;
        if returned.is_empty() {
            let from = (*position + 1).to_be_bytes();
            let page = Query::Range {
                table: Table::Archive,
                partition: bare.as_bytes().into(),
                from: from.as_slice().into(),
                until: None,
                reverse: false,
                rows_max: REPLAY_ROWS_MAX,
                bytes_max: REPLAY_BYTES_MAX,
            };
            return self.read(Pending::ReplayPage(local), vec![page]);
        }
        let ids: Vec<u64> = returned.iter().take(REPLAY_ROWS_MAX as usize).copied().collect();
        // The first row that ends with this id or a later one: it holds the entry, if there is one.
        let row = |id: &u64| Query::Range {
            table: Table::Archive,
            partition: bare.as_bytes().into(),
            from: id.to_be_bytes().as_slice().into(),
            until: None,
            reverse: false,
            rows_max: 1,
            bytes_max: 0,
        };
        let rows = ids.iter().map(row).collect();
        self.read(Pending::ReplayReturned(local, ids), rows);
    }

    /// The replay goes on, if the user still has someone who takes it.
    fn replay_goes_on(&mut self, local: &str) -> Option<(u32, Takers)> {
        let user = self.users.find(local)?;
        let takers = self.takers(user);
        let Phase::Replaying { reading, .. } = &mut self.users.get_mut(user).state.as_mut()?.mailbox.as_mut()?.phase
        else {
            return None;
        };
        *reading = false;
        (!takers.is_empty()).then_some((user, takers))
    }

    /// What waits for the user cannot be read. It is not passed over, because nobody could say what was in it: sessions that
    /// would get it end with an error (RFC 6120 4.9.3.6), and mailbox and cursor stay as they are.
    pub(super) fn replay_unreadable(&mut self, local: &str) {
        let _ = self.replay_goes_on(local);
        let Some(user) = self.users.find(local) else { return };
        let now_s = self.now.mono_s();
        self.users.state(user, now_s).replay_asked = false;
        for session in self.takers(user) {
            if let Some(conn) = self.sessions.get(session).and_then(|session| session.conn) {
                let text =
                    "stored messages of this account cannot be read, the server's operator has to mend the store";
                self.fail_stream(conn, StreamCondition::InternalServerError, Some(text));
            }
        }
    }

    pub(super) fn replay_page_found(&mut self, local: &str, found: Vec<Found>) {
        let Some((user, _)) = self.replay_goes_on(local) else { return };
        let Some(Found::Rows { rows, more }) = found.into_iter().next() else { return };
        for row in &rows {
            let Some(last) = archive::id_of(&row.sort) else { continue };
            for (id, entry) in archive::entries(&row.sort, &row.value).unwrap_or_default() {
                // The first row may begin with what was handed out before.
                if matches!(self.mailbox(user).phase, Phase::Replaying { position, .. } if id <= position) {
                    continue;
                }
                // Handing out may have ended the sessions that overflow by it, and nobody gets more than can be taken:
                // what is left of the page is read again then.
                let takers = self.takers(user);
                if takers.iter().all(|&session| self.is_behind(session)) {
                    return;
                }
                let returned = self.mailbox(user).meets(id, entry.incoming && entry.waits);
                if let Some(returned) = returned.filter(|_| entry.incoming) {
                    self.hand_replayed(user, &takers, id, entry.xml, returned);
                }
            }
            // Also past a row that cannot be read.
            self.mailbox(user).meets(last, false);
        }
        if !more && self.mailbox(user).is_at_end() {
            let bare = self.bare_of_user(user);
            for id in self.mailbox(user).drained() {
                archive::delete_returned(&mut self.writes, &bare, id);
            }
            self.users.get_mut(user).live = true;
            self.sweeper.touch_mailbox(user);
            return;
        }
        self.pump_replay(user);
    }

    pub(super) fn replay_returned_found(&mut self, local: &str, ids: &[u64], found: Vec<Found>) {
        let Some((user, _)) = self.replay_goes_on(local) else { return };
        for (&id, found) in ids.iter().zip(found) {
            let takers = self.takers(user);
            if takers.iter().all(|&session| self.is_behind(session)) {
                return;
            }
            if let Phase::Replaying { returned, .. } = &mut self.mailbox(user).phase {
                returned.retain(|&other| other != id);
            }
            let rows = match &found {
                Found::Rows { rows, .. } => &rows[..],
                Found::Value(_) | Found::Damaged => &[],
            };
            let entries = rows.first().and_then(|row| archive::entries(&row.sort, &row.value)).unwrap_or_default();
            match entries.iter().find(|(other, _)| *other == id) {
                Some((_, entry)) => self.hand_replayed(user, &takers, id, entry.xml, true),
                // Gone by retention: so goes the row.
                None => {
                    let bare = self.bare_of_user(user);
                    archive::delete_returned(&mut self.writes, &bare, id);
                }
            }
        }
        self.pump_replay(user);
    }

    fn hand_replayed(&mut self, user: u32, takers: &[SessionId], id: u64, xml: &[u8], returned: bool) {
        self.mailbox(user).replayed(id, xml.len(), takers.len() as u16, returned);
        self.counters.messages_replayed.one();
        // What came in while older ones were being handed out is as good as live.
        let since_us = self.users.get(user).state.as_ref().map_or(0, |s| s.replay_since_us);
        let delayed = id < since_us || self.now.wall_us.saturating_sub(id) > DELAY_US;
        for &session in takers {
            self.hand_stamped(session, id, xml, delayed);
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
