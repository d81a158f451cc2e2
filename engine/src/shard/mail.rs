//! Letters of other shards, and of this one: who gets what.

use crate::id::SessionId;
use crate::mail::{Kind, Letter, MailBatch, MessageClass, Origin};
use crate::router::users::{Known, Parked, RosterStep, User, Waiting};
use crate::session::conn::NONE;
use crate::shard::stanza::{bare_of, local_of};
use crate::shard::{Pending, Shard, owned};
use crate::store::account::Incarnation;
use crate::store::archive;
use crate::store::log::Log;
use crate::store::waiting::Cursor;
use crate::store::{Found, Query, Table};
use crate::wire::error::StanzaCondition;
use crate::wire::limit::{Limit, Refusal};

/// A stanza at its receiver's home.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming<'a> {
    pub(super) kind: Kind,
    pub(super) origin: Option<Origin>,
    pub(super) from: &'a str,
    pub(super) to: &'a str,
    pub(super) xml: &'a [u8],
}

impl From<Incoming<'_>> for Parked {
    fn from(stanza: Incoming<'_>) -> Parked {
        let Incoming { kind, origin, from, to, xml } = stanza;
        Parked { kind, origin, from: from.into(), to: to.into(), xml: xml.into() }
    }
}

impl<'a> From<&'a Parked> for Incoming<'a> {
    fn from(parked: &'a Parked) -> Incoming<'a> {
        let Parked { kind, origin, from, to, xml } = parked;
        Incoming { kind: *kind, origin: *origin, from, to, xml }
    }
}

impl Shard {
    pub(super) fn read_letter(&mut self, batch: &MailBatch, letter: super::LetterRef<'_>) {
        match letter {
            Letter::Stanza { kind, origin, from, to, xml } => {
                let incoming = Incoming {
                    kind: *kind,
                    origin: *origin,
                    from: batch.str(*from),
                    to: batch.str(*to),
                    xml: batch.bytes(*xml),
                };
                self.incoming(incoming);
            }
            Letter::Confirm { session, seq } => self.confirmed(*session, *seq),
            Letter::Refused { from, entry } => self.void(batch.str(*from), *entry),
            Letter::Presence { news, from, to, xml } => {
                self.presence_letter(*news, batch.str(*from), batch.str(*to), batch.bytes(*xml));
            }
            Letter::Ask { conn, local, question } => self.asked(*conn, owned(batch, *local), question.clone()),
            Letter::Answer { conn, answer } => self.answered(*conn, answer.clone()),
            Letter::LoginFailed { peer } => self.failed_logins.charge(self.now.mono_ms, *peer),
            Letter::LoginSpared { local, peer, seen } => {
                let local = batch.str(*local);
                self.logins.succeeded(self.now.mono_ms, *peer, local);
                if let Some(seen) = seen {
                    self.plain_cache.remember(local, **seen);
                }
            }
        }
    }

    /// A stanza for a user of this home, or for the account itself.
    pub(super) fn incoming(&mut self, stanza: Incoming<'_>) {
        let local = local_of(stanza.to);
        let slot = self.users.find(local);
        // What waits already goes first (RFC 6120 10.1).
        if self.has_parked(slot) {
            return self.park(local, stanza);
        }
        let online = slot.is_some_and(|slot| self.users.get(slot).first != NONE);
        if online {
            return self.for_user(slot.expect("online users have a slot"), stanza);
        }
        let known = slot.and_then(|slot| self.users.get(slot).state.as_ref()).map_or(Known::Unknown, |s| s.known);
        match (known, slot) {
            (Known::Missing, _) => self.for_no_one(stanza),
            (Known::Exists(_), Some(slot)) => self.for_user(slot, stanza),
            _ => self.park(local, stanza),
        }
    }

    /// The receiver's state is at hand.
    fn for_user(&mut self, user: u32, stanza: Incoming<'_>) {
        match stanza.kind {
            Kind::Message { class, keep } => self.message_for(user, class, keep, stanza),
            Kind::Request => self.request_for(user, stanza),
            Kind::Response | Kind::Directed { .. } => {
                self.to_exact_session(user, stanza);
                self.confirm(stanza.origin);
            }
        }
    }

    /// Hands a stanza to the session of its full JID; directed presence to a bare JID goes to all available ones
    /// (RFC 6121 8.5.2.1.2). Returns whether there was one that took it.
    pub(super) fn to_exact_session(&mut self, user: u32, stanza: Incoming<'_>) -> bool {
        let resource = stanza.to.split_once('/').map(|(_, r)| r);
        let bare_presence = resource.is_none() && matches!(stanza.kind, Kind::Directed { .. });
        let targets: Vec<_> = self
            .users
            .sessions(&self.sessions, user)
            .filter(|(_, s)| resource.map_or(bare_presence && s.is_available(), |r| *s.resource == *r))
            .map(|(id, _)| id)
            .collect();
        targets.into_iter().fold(false, |any, id| self.answer_to_session(id, stanza) | any)
    }

    /// Hands a stanza to a session. What a server has made answers what the session has asked for; of what clients have made it
    /// gets only so much. Returns whether it took it.
    pub(super) fn answer_to_session(&mut self, session: SessionId, stanza: Incoming<'_>) -> bool {
        let answer = match stanza.kind {
            Kind::Response | Kind::Message { class: MessageClass::Error, .. } => stanza.origin.is_none(),
            _ => false,
        };
        if answer {
            self.reply(session, stanza.xml);
            return true;
        }
        self.offer_stanza(session, stanza.xml)
    }

    /// No such user (RFC 6121 8.5.1). A headline is ignored, as it is for a user who is away (8.5.4).
    pub(super) fn for_no_one(&mut self, stanza: Incoming<'_>) {
        if !matches!(stanza.kind, Kind::Message { class: MessageClass::Headline, .. }) {
            return self.turn_away(stanza, StanzaCondition::ServiceUnavailable);
        }
        self.confirm(stanza.origin);
    }

    /// Answers a stanza with an error, if it is one that earns errors, and is done with it: what its sender's log says of it
    /// is void.
    pub(super) fn turn_away(&mut self, stanza: Incoming<'_>, refusal: impl Into<Refusal>) {
        self.answer_with_error(stanza, refusal);
        if let Some(Origin { shard, entry, .. }) = stanza.origin.filter(|origin| origin.entry != 0) {
            let mail = self.mail_to(shard);
            let from = mail.name(stanza.from);
            mail.push(Letter::Refused { from, entry });
        }
        self.confirm(stanza.origin);
    }

    /// An entry of a sender's log is void: its message was refused.
    fn void(&mut self, from: &str, entry: u64) {
        let user = self.users.find(local_of(from));
        let known = user.and_then(|user| self.users.get(user).state.as_ref()).map_or(Known::Unknown, |s| s.known);
        if known != Known::Missing {
            archive::put_void(&mut self.writes, bare_of(from), entry);
        }
    }

    /// Sends the error that a stanza earns, if it is one that earns errors.
    pub(super) fn answer_with_error(&mut self, stanza: Incoming<'_>, refusal: impl Into<Refusal>) {
        let refusal = refusal.into();
        self.limited(refusal, |_| bare_of(stanza.to).to_owned());
        let name = match stanza.kind {
            Kind::Message { class: crate::mail::MessageClass::Error, .. } | Kind::Response | Kind::Directed { .. } => {
                return;
            }
            Kind::Message { .. } => "message",
            Kind::Request => "iq",
        };
        if name == "message" {
            self.counters.messages_refused.one();
        }
        if self.watch.is_some() {
            self.watch_aside(stanza, Some(refusal.condition));
        }
        let id = id_of_stanza(stanza.xml);
        self.send_error_letter(name, id.as_deref(), stanza.to, stanza.from, refusal);
    }

    /// The sender's home learns that the stanza is in safe hands; with this turn's writes, when they are durable.
    pub(super) fn confirm(&mut self, origin: Option<Origin>) {
        if let Some(origin) = origin {
            self.mail_to(origin.shard).push(Letter::Confirm { session: origin.session, seq: origin.seq });
        }
    }

    /// Keeps a stanza until its receiver's account and cursor are read.
    pub(super) fn park(&mut self, local: &str, stanza: Incoming<'_>) {
        if !self.wait_for_account(local, Waiting::Stanza(stanza.into())) {
            self.turn_away(stanza, Limit::Waiting);
        }
    }

    /// Does a roster step if there is an account.
    pub(super) fn with_account(&mut self, local: &str, step: RosterStep) {
        let user = self.users.find_or_insert(local);
        let User { first, state, .. } = self.users.get(user);
        let online = *first != NONE;
        match state.as_ref().map_or(Known::Unknown, |s| s.known) {
            _ if online => self.roster_step(user, step),
            Known::Exists(_) => self.roster_step(user, step),
            Known::Missing => self.step_for_no_one(local, step),
            Known::Unknown => {
                self.wait_for_account(local, Waiting::Step(step));
            }
        }
    }

    /// Whether something waits for this user's account, so that what comes has to go behind it (RFC 6120 10.1).
    pub(super) fn has_parked(&self, user: Option<u32>) -> bool {
        let state = user.and_then(|user| self.users.get(user).state.as_ref());
        state.is_some_and(|state| !state.parked.is_empty())
    }

    /// Queues something until the account is looked up; false if too much waits already.
    pub(super) fn wait_for_account(&mut self, local: &str, waiting: Waiting) -> bool {
        let now_s = self.now.mono_s();
        let user = self.users.find_or_insert(local);
        let state = self.users.state(user, now_s);
        if state.parked.len() >= crate::limits::PARKED_STANZAS_MAX {
            self.counters.parked_refused.one();
            return false;
        }
        state.parked.push_back(waiting);
        self.levels.parked += 1;
        self.counters.parked_came.one();
        if !state.asked {
            state.asked = true;
            let bare = self.bare(local);
            let queries = [Table::Accounts, Table::Mailbox].map(|table| get(table, &bare));
            self.read(Pending::Receiver(local.into()), queries.into());
        }
        true
    }

    /// Account and cursor of a receiver have come: what was parked goes on.
    pub(super) fn receiver_found(&mut self, local: &str, found: Vec<Found>) {
        let [account, cursor] = two_values(found);
        let now_s = self.now.mono_s();
        let user = self.users.find_or_insert(local);
        let state = self.users.state(user, now_s);
        state.asked = false;
        // An account that was made or removed since the question was put is known better than the answer knows it.
        if state.known == Known::Unknown {
            state.known = account.map_or(Known::Missing, |record| Known::Exists(Incarnation::of_record(&record)));
        }
        if state.known == Known::Missing {
            // A session of an account that is gone has no log: what is sent to it would be looked up for ever.
            self.end_removed(user, false);
            self.carry_out_endings();
        }
        // What was asked for a connection that claims a session tells nothing new of a log at whose head others are: the row in the
        // store lies behind what they have got, and would bring it again.
        let live = self.users.get(user).live;
        let state = self.users.state(user, now_s);
        if state.known != Known::Missing && state.log.is_none() && !live {
            state.log = Some(Log::loaded(cursor.and_then(|row| Cursor::decode(&row)).unwrap_or_default()));
        }
        self.levels.parked -= state.parked.len();
        for waiting in std::mem::take(&mut self.users.state(user, now_s).parked) {
            match waiting {
                Waiting::Stanza(parked) => self.incoming((&parked).into()),
                Waiting::Claim(conn) if self.opening(conn).is_some() => self.unblock(conn),
                Waiting::Claim(_) => {}
                Waiting::Step(step) => self.with_account(local, step),
                Waiting::Presence { news, from, to, xml } => self.presence_letter(news, &from, &to, &xml),
            }
        }
    }

    /// What was asked for is damaged: whoever it was for gets an error, and nothing is taken for missing or written over.
    fn unreadable(&mut self, pending: Pending, found: Vec<Found>) {
        match pending {
            Pending::Receiver(local) => self.receiver_unreadable(&local, found),
            // A roster that cannot be read is no empty one: requests get an error.
            Pending::Roster(local) => self.roster_found(&local, Vec::new()),
            Pending::Log(local) => self.log_unreadable(&local),
            Pending::Page { local, session, .. } => self.page_unreadable(&local, session),
            Pending::Aparts(local) => self.aparts_unreadable(&local),
            Pending::Account(read) => self.account_unreadable(read),
            Pending::Feature(read) => self.feature_unreadable(read),
            Pending::Flush(flush) => self.flush_unreadable(&flush),
            Pending::CommandAccount(command) => self.command_account_unreadable(&command),
            Pending::Retention(_) | Pending::Keys(_) | Pending::SessionKeys(_) => {}
        }
    }

    /// Whether there is such an account, or what waits for it, cannot be known: what was parked gets an error, and the next
    /// one asks again.
    fn receiver_unreadable(&mut self, local: &str, found: Vec<Found>) {
        let now_s = self.now.mono_s();
        let user = self.users.find_or_insert(local);
        let state = self.users.state(user, now_s);
        state.asked = false;
        // It may be the cursor alone: then the account is known, and who claims it goes on.
        if let (Known::Unknown, Some(Found::Value(account))) = (state.known, found.into_iter().next()) {
            state.known = account.map_or(Known::Missing, |record| Known::Exists(Incarnation::of_record(&record)));
        }
        let known = state.known;
        self.levels.parked -= state.parked.len();
        for waiting in std::mem::take(&mut state.parked) {
            match waiting {
                Waiting::Stanza(parked) => {
                    self.turn_away((&parked).into(), StanzaCondition::InternalServerError);
                }
                Waiting::Claim(conn) if self.opening(conn).is_none() => {}
                Waiting::Claim(conn) if known == Known::Unknown => self.fail_unreadable(conn),
                Waiting::Claim(conn) => self.unblock(conn),
                Waiting::Step(step) => self.refuse_roster_step(user, step),
                Waiting::Presence { .. } => {}
            }
        }
    }

    /// An answer of the store.
    pub(super) fn found(&mut self, token: u64, found: Vec<Found>) {
        let damaged = found.contains(&Found::Damaged);
        match self.pending.remove(&token) {
            // Of those whose rows cannot be read, nothing goes.
            Some(Pending::Retention(read)) => self.retention_found(read, found),
            Some(pending) if damaged => self.unreadable(pending, found),
            Some(Pending::Receiver(local)) => self.receiver_found(&local, found),
            Some(Pending::Roster(local)) => self.roster_found(&local, found),
            Some(Pending::Log(local)) => self.log_found(&local, found),
            Some(Pending::Page { local, session, last, all }) => {
                self.page_found(&local, session, last, all, found);
            }
            Some(Pending::Aparts(local)) => self.aparts_found(&local, found),
            Some(Pending::Account(read)) => self.account_found(read, found),
            Some(Pending::Feature(read)) => self.feature_found(read, found),
            Some(Pending::Flush(flush)) => self.flush_found(flush, found),
            Some(Pending::CommandAccount(command)) => self.command_account_found(command, found),
            Some(other @ (Pending::Keys(_) | Pending::SessionKeys(_))) => {
                debug_assert!(false, "a job's token answered by the store: {other:?}");
            }
            None => {}
        }
    }
}

/// The question for a single row without sort key.
pub(super) fn get(table: Table, partition: &str) -> Query {
    Query::Get { table, partition: partition.as_bytes().into(), sort: Box::default() }
}

/// The value of a single `Get`.
pub(super) fn one_value(found: Vec<Found>) -> Option<Box<[u8]>> {
    match found.into_iter().next() {
        Some(Found::Value(value)) => value,
        _ => None,
    }
}

fn two_values(found: Vec<Found>) -> [Option<Box<[u8]>>; 2] {
    let mut values = found.into_iter().map(|f| match f {
        Found::Value(value) => value,
        Found::Rows { .. } | Found::Damaged => None,
    });
    [values.next().flatten(), values.next().flatten()]
}

/// The `id` of a stanza that this server wrote: only errors need it, so it is looked for only then.
pub(super) fn id_of_stanza(xml: &[u8]) -> Option<String> {
    let mut scanner = crate::wire::Scanner::new();
    let scope = crate::wire::StreamScope::Usual;
    scanner.scan(&scope, crate::wire::Expect::Content, usize::MAX, xml).ok()?;
    scanner.element(&scope, xml).id().map(|id| id.into_owned())
}
