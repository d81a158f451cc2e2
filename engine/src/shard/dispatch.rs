//! Passes incoming stanzas, answers of the store and finished work to their modules, and does the
//! work that modules leave to the shard.

use crate::accounts::ForRosters;
use crate::actors::waiting::RECEIVER_ANSWERS;
use crate::contacts::Decided;
use crate::extension::Way;
use crate::id::{ActorKind, Service};
use crate::io::JobDone;
use crate::kernel::pending::{AccountRead, Elsewhere, Pending};
use crate::letters::Kind;
use crate::router::users::{Incoming, Known, RosterStep, Waiting};
use crate::session::conn::NONE;
use crate::shard::Shard;
use crate::store::Found;
use crate::store::account::Incarnation;
use crate::store::log::Log;
use crate::store::record::AccountRows;
use crate::store::waiting::{Cursor, Rest};
use crate::streams::half::Up;
use crate::wire::error::StanzaCondition;
use crate::wire::jid::bare_of;

/// A receiver whose rows have been read.
#[derive(Debug)]
pub(super) struct Came {
    account: Box<str>,
    /// The account, if it exists.
    there: Option<Incarnation>,
    rest: Rest,
    /// Rows of sessions of an earlier process.
    stored: Option<Found>,
}

impl Shard {
    /// Carries out what modules leave to the shard: endings, decisions, and connections that may
    /// continue. Also carries out the consequences.
    #[inline]
    pub(super) fn settle(&mut self) {
        while !self.is_settled() {
            self.settle_more();
        }
    }

    fn is_settled(&self) -> bool {
        self.cx.endings.is_empty()
            && self.came.is_none()
            && self.contacts.decided.is_empty()
            && self.accounts.for_rosters.is_empty()
            && self.cx.up.is_empty()
            && self.logs.woken.is_empty()
            && self.rooms.archive.is_empty()
            && !self.has_known_reads()
    }

    /// Most inputs leave nothing to settle, and do not pay for this function's prologue.
    #[inline(never)]
    fn settle_more(&mut self) {
        self.carry_out_endings();
        self.wake_noted();
        self.known_read_goes_on();
        self.answer_for_rooms();
        self.rosters_follow_accounts();
        if let Some(came) = self.came.take() {
            self.receiver_goes_on(came);
        } else if !self.contacts.decided.is_empty() {
            for decided in std::mem::take(&mut self.contacts.decided) {
                match decided {
                    Decided::Request { user, parked, may } => self.answer_request(user, (&parked).into(), may),
                    Decided::Last { look, nodes, seen } => self.contacts.last_seen(&mut self.cx, look, nodes, seen),
                    Decided::Walked { session, homes } => {
                        self.contacts.walked(&mut self.cx, &mut self.actors, session, homes)
                    }
                    Decided::Available(session) => {
                        // A session that has ended since has left the log.
                        if let Some(user) = self.actors.sessions.get(session).map(|session| session.user) {
                            self.logs.takers_changed(&mut self.cx, &mut self.actors, user);
                        }
                    }
                    Decided::Left(user) => self.accounts.remove_account(&mut self.cx, &mut self.actors, user),
                    Decided::Shown { user, contact, token } => {
                        self.accounts.token_of_contact(&mut self.cx, &mut self.actors, user, &contact, &token)
                    }
                }
            }
        } else {
            match self.cx.up.pop_front() {
                Some(Up::GoesOn(conn)) => self.received(conn, b""),
                Some(Up::Inline(conn)) => self.inline_goes_on(conn),
                Some(Up::Lighter(session)) => {
                    if let Some((asker, place, step)) = self.take_paced(session) {
                        self.do_step(asker, "", place, step);
                    }
                }
                Some(Up::Resumed { session, takes, again }) => {
                    self.actors.resumed(&mut self.cx, session, takes, again);
                    self.contacts.begin_catch_up(&mut self.cx, &mut self.actors, session);
                }
                None => {}
            }
        }
    }

    /// Carries out what changes of accounts mean for rosters.
    fn rosters_follow_accounts(&mut self) {
        for change in std::mem::take(&mut self.accounts.for_rosters) {
            let (cx, actors) = (&mut self.cx, &mut self.actors);
            match change {
                ForRosters::Joined { account, inviter } => {
                    self.contacts.invite_into_roster(cx, actors, &account, &inviter);
                }
                ForRosters::Leaves(account) => {
                    let user = actors.users.find_or_insert(&account);
                    self.contacts.roster_step(cx, actors, user, RosterStep::Leave);
                }
                ForRosters::Vouched { owner, contact, good } => {
                    if let Some(user) = actors.users.find(&owner) {
                        self.contacts.roster_step(cx, actors, user, RosterStep::Vouched { contact, good });
                    }
                }
            }
        }
    }

    /// Handles a stanza for a user of this home, or for the account itself.
    pub(crate) fn incoming(&mut self, stanza: Incoming<'_>) {
        match self.cx.kernel.settings.domains.of(stanza.to) {
            Some((domain, ActorKind::Component)) => {
                self.components.for_component(&mut self.cx, &mut self.actors, domain, stanza);
            }
            Some((_, ActorKind::Rooms)) => self.rooms.incoming(&mut self.cx, &mut self.actors, stanza),
            None | Some((_, ActorKind::Users | ActorKind::Service(_))) => {
                if !self.waits_for_again(stanza) {
                    self.its_turn(stanza);
                }
            }
        }
    }

    /// Handles a stanza that need not wait for another.
    pub(super) fn its_turn(&mut self, stanza: Incoming<'_>) {
        if let Some(origin) = stanza.origin {
            self.cx.kernel.number_after(origin.entry);
        }
        let account = bare_of(stanza.to);
        let slot = self.actors.users.find(account);
        // Stanzas that already wait go first (RFC 6120 10.1).
        if self.actors.has_parked(slot) {
            return self.actors.park(&mut self.cx, account, stanza);
        }
        let online = slot.is_some_and(|slot| self.actors.users.get(slot).first != NONE);
        if online {
            return self.for_user(slot.expect("online users have a slot"), stanza);
        }
        let known =
            slot.and_then(|slot| self.actors.users.get(slot).state.as_ref()).map_or(Known::Unknown, |s| s.known);
        match (known, slot) {
            (Known::Missing, _) => self.to_no_one(stanza),
            (Known::Exists(_), Some(slot)) => self.for_user(slot, stanza),
            // The domain itself, or an actor of a service, is addressed.
            (_, None) if !account.contains('@') => match self.cx.kernel.settings.domains.of(account) {
                Some((_, ActorKind::Service(Service::PubSub))) => self.for_node(stanza),
                None
                | Some((
                    _,
                    ActorKind::Users
                    | ActorKind::Component
                    | ActorKind::Rooms
                    | ActorKind::Service(Service::Upload | Service::Bytestreams),
                )) => self.for_server(stanza),
            },
            _ => self.actors.park(&mut self.cx, account, stanza),
        }
    }

    /// Handles a stanza whose receiver's state is in memory.
    fn for_user(&mut self, user: u32, stanza: Incoming<'_>) {
        if let Some(refusal) = self.actors.guards(&self.cx, user, Way::In, stanza.from) {
            return self.actors.turn_away(&mut self.cx, stanza, refusal);
        }
        match stanza.kind {
            Kind::Message { class, keep } => {
                self.logs.message_for(&mut self.cx, &mut self.actors, user, class, keep, stanza)
            }
            Kind::Request => self.request_for(user, stanza),
            Kind::Response | Kind::Directed { .. } => {
                self.actors.to_exact_session(&mut self.cx, user, stanza);
                self.cx.kernel.confirm(stanza.origin);
            }
        }
    }

    /// A receiver's account and cursor have been read. Parked stanzas proceed after due sessions
    /// have ended.
    pub(super) fn receiver_found(&mut self, account: &str, found: Vec<Found>) {
        let mut found = found.into_iter();
        let rows = found.next().map(AccountRows::of).unwrap_or_default();
        let rest = Rest { cursor: found.next().and_then(Found::value), is_empty: false };
        self.receiver_is(account, &rows, rest, found.next());
    }

    fn receiver_is(&mut self, account: &str, rows: &AccountRows, rest: Rest, stored: Option<Found>) {
        let now_s = self.cx.kernel.now.mono_s();
        let user = self.actors.users.find_or_insert(account);
        self.actors.users.state(user, now_s).asked = false;
        let there = self.actors.account_is(&mut self.cx, user, rows);
        if there.is_none() {
            // A session of a removed account has no log: every stanza to it would cause another
            // read.
            self.actors.end_removed(&mut self.cx, user, false);
        }
        let before = self.came.replace(Came { account: account.into(), there, rest, stored });
        assert!(before.is_none(), "an input is the rows of one receiver");
    }

    /// All that a login needs of a user has been read: the rows of a receiver, of which those of the
    /// log state more, and the roster. If part of it is damaged, the other parts are used as if they
    /// had been read alone.
    pub(super) fn coming_found(&mut self, read: AccountRead, mut found: Vec<Found>) {
        let roster = found.pop().filter(|roster| *roster != Found::Damaged).into_iter().collect();
        let last = found.pop();
        let stored = (found.len() > RECEIVER_ANSWERS).then(|| found.pop()).flatten();
        let damaged = found.contains(&Found::Damaged);
        let (first, rows) = (found.pop(), found.pop());
        let unreadable = matches!(rows, Some(Found::Damaged) | None);
        let rows = rows.map(AccountRows::of).unwrap_or_default();
        match damaged {
            true => self.receiver_is_unreadable(&read.account, (!unreadable).then_some(&rows)),
            false => {
                let rest = first.map(|first| Rest::of(first, last)).unwrap_or_default();
                self.receiver_is(&read.account, &rows, rest, stored.filter(|stored| *stored != Found::Damaged));
            }
        }
        self.contacts.roster_found(&mut self.cx, &mut self.actors, &read.account, roster);
        if unreadable {
            return self.accounts.account_unreadable(&mut self.cx, &mut self.actors, read);
        }
        let record = vec![Found::Value(rows.account().map(Into::into))];
        self.accounts.account_found(&mut self.cx, &mut self.actors, read, record);
    }

    fn receiver_goes_on(&mut self, came: Came) {
        let Came { account, there, rest, stored } = came;
        // Without an account and without waiting stanzas, the name is already forgotten.
        let Some(user) = self.actors.users.find(&account) else { return };
        let now_s = self.cx.kernel.now.mono_s();
        // Rows read for a connection that claims a session add nothing to a log with other sessions
        // at its head: the stored row is behind their position, and would repeat messages.
        let live = self.actors.users.get(user).live;
        let state = self.actors.users.state(user, now_s);
        // Without a session all that comes for the user waits for this answer. A session could have
        // written more since the question.
        let at_rest = std::mem::take(&mut state.sessionless) && rest.is_empty;
        if state.known != Known::Missing && state.log.is_none() && !live {
            let cursor = rest.cursor.and_then(|row| Cursor::decode(&row)).unwrap_or_default();
            state.log = Some(if at_rest { Log::at_rest(cursor) } else { Log::loaded(cursor) }.into());
        }
        if let Some(incarnation) = there {
            self.restore_sessions(user, &account, incarnation, stored);
        }
        let state = self.actors.users.state(user, now_s);
        let parked = std::mem::take(&mut state.parked);
        self.actors.parked -= parked.len();
        for waiting in parked {
            match waiting {
                Waiting::Stored => {}
                Waiting::Stanza(parked) => self.incoming((&parked).into()),
                Waiting::Claim(conn) => self.claimed(conn),
                Waiting::Step(step) => self.contacts.with_account(&mut self.cx, &mut self.actors, &account, step),
                Waiting::Presence { news, from, to, xml } => {
                    self.contacts.presence_letter(&mut self.cx, &mut self.actors, news, &from, &to, &xml)
                }
                Waiting::Event { node, from, to, explicit, number, xml } => {
                    self.event(&node, &from, &to, explicit, (number, &xml));
                }
            }
        }
    }

    /// Whether the account exists, or what it has stored, cannot be determined. Parked stanzas get
    /// an error, and the next stanza reads again.
    pub(super) fn receiver_unreadable(&mut self, account: &str, found: Vec<Found>) {
        let rows = found.into_iter().next().filter(|rows| *rows != Found::Damaged).map(AccountRows::of);
        self.receiver_is_unreadable(account, rows.as_ref());
    }

    /// Sessions of an earlier process that cannot be read are not resumed. If only the cursor is
    /// damaged, the account and the records of extensions are known, and connections that claim it
    /// proceed.
    fn receiver_is_unreadable(&mut self, account: &str, rows: Option<&AccountRows>) {
        let now_s = self.cx.kernel.now.mono_s();
        let user = self.actors.users.find_or_insert(account);
        self.actors.users.state(user, now_s).asked = false;
        if let Some(rows) = rows {
            self.actors.account_is(&mut self.cx, user, rows);
        }
        let state = self.actors.users.state(user, now_s);
        let known = state.known;
        let parked = std::mem::take(&mut state.parked);
        self.actors.parked -= parked.len();
        for waiting in parked {
            match waiting {
                Waiting::Stanza(parked) => {
                    self.actors.turn_away(&mut self.cx, (&parked).into(), StanzaCondition::InternalServerError);
                }
                Waiting::Claim(conn) if self.cx.opening(conn).is_none() => {}
                Waiting::Claim(conn) if known == Known::Unknown => self.cx.fail_unreadable(conn),
                Waiting::Claim(conn) => self.claimed(conn),
                Waiting::Step(step) => self.contacts.refuse_roster_step(&mut self.cx, &mut self.actors, user, step),
                Waiting::Presence { .. } | Waiting::Event { .. } | Waiting::Stored => {}
            }
        }
    }

    pub(crate) fn job_done(&mut self, token: u64, done: JobDone) {
        let pending = self.cx.kernel.pending.remove(&token);
        self.cx.jobs_under_way -= usize::from(pending.is_some());
        match (pending, done) {
            (Some(Pending::Elsewhere(Elsewhere::Keys(id))), done) => self.keys_derived(id, done),
            (Some(Pending::Elsewhere(Elsewhere::SessionKeys(change))), JobDone::Keys(keys)) => {
                self.accounts.password_derived(&mut self.cx, &mut self.actors, change, keys)
            }
            (Some(Pending::Elsewhere(Elsewhere::OrderKeys(waits))), JobDone::Keys(keys)) => {
                self.order_keys(waits, keys)
            }
            _ => {}
        }
        self.cx.hand_out_jobs();
    }
}
