//! Handles the operator's commands.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::id::NO_SOCKET;
use crate::id::{ConnId, SessionId};
use crate::io::{
    AccountCommand, AnnouncementCommand, Command, Effect, InvitationCommand, LimitCommand, LogCommand, ObserverCommand,
    PutMode, Reply, SessionCommand, SessionRow, StorageState,
};
use crate::kernel::pending::{AccountChange, AccountChangeRead, Maker, OperatorRead, Pending, Remover, Work};
use crate::session::table::Privacy;
use crate::settings::Settings;
use crate::shard::Shard;
use crate::shard::features::Features;
use crate::store::Found;
use crate::store::account::{Credentials, Standing};
use crate::streams::ended::Ended;
use crate::wire::error::StreamCondition;
use crate::wire::jid::bare_of;
use crate::wire::text::Writer;

/// Maximum rows of one page of sessions.
const PAGE_MAX: u32 = 1_000;

impl Shard {
    pub(super) fn command(&mut self, token: u64, command: Command) {
        let reply = match command {
            Command::Session(SessionCommand::List { of, from_slot, most }) => {
                self.list_sessions(of.as_deref(), from_slot, most.min(PAGE_MAX))
            }
            Command::Log(LogCommand::Backlogs { from_slot, bytes_min, most }) => {
                self.backlogs(from_slot, bytes_min, most)
            }
            Command::Session(SessionCommand::Kick { jid, reason }) => self.kick(&jid, reason.as_deref()),
            Command::Session(SessionCommand::Say { jid, text, urgent }) => self.say(jid.as_deref(), &text, urgent),
            Command::Announcement(AnnouncementCommand::Begin { text, number }) => {
                self.contacts.begin_announcing(&mut self.cx, text, number)
            }
            Command::Announcement(AnnouncementCommand::Progress) => self.contacts.announced(),
            Command::Room(command) => return self.rooms.command(&mut self.cx, &mut self.actors, token, command),
            Command::Components => self.components.list_components(&mut self.cx),
            Command::Session(SessionCommand::Openings { most }) => self.list_openings(most.min(PAGE_MAX)),
            Command::Announcement(AnnouncementCommand::Keep { write: true, .. })
                if self.cx.kernel.storage == StorageState::Full =>
            {
                Reply::StoreFull
            }
            Command::Announcement(AnnouncementCommand::Keep { kept, write }) => {
                self.contacts.keep_announcement(&mut self.cx, kept, write);
                return self.cx.kernel.effects.push(Effect::Reply { token, reply: Reply::Done(0), durable: write });
            }
            Command::Session(SessionCommand::Detach { jid }) => self.detach(&jid),
            Command::Account(AccountCommand::Put { .. })
            | Command::Account(AccountCommand::Delete { .. })
            | Command::Account(AccountCommand::Decide { .. })
            | Command::Account(AccountCommand::Suspend { .. })
                if self.cx.kernel.storage == StorageState::Full =>
            {
                Reply::StoreFull
            }
            Command::Account(AccountCommand::Put { account, credentials, mode }) => {
                return self.look_at_account(token, account, AccountChange::Put { credentials, mode });
            }
            Command::Account(AccountCommand::Delete { account }) => {
                return self.look_at_account(token, account, AccountChange::Delete);
            }
            Command::Account(AccountCommand::Decide { account, approve }) => {
                return self.look_at_account(token, account, AccountChange::Decide { approve });
            }
            Command::Account(AccountCommand::Suspend { account, suspended }) => {
                return self.look_at_account(token, account, AccountChange::Suspend { suspended });
            }
            Command::Invitation(InvitationCommand::Make { actor, new }) => {
                return self.accounts.invitation_work(
                    &mut self.cx,
                    &mut self.actors,
                    &actor,
                    Work::Make { maker: Maker::Operator(token), new },
                );
            }
            Command::Invitation(InvitationCommand::MakeNamed { inviter, account, life_s, most }) => {
                return self.accounts.invitation_work(
                    &mut self.cx,
                    &mut self.actors,
                    &inviter,
                    Work::Name { reply: token, account, life_s, most },
                );
            }
            Command::Invitation(InvitationCommand::Sweep { actors }) => {
                actors.iter().for_each(|actor| {
                    self.accounts.invitation_work(&mut self.cx, &mut self.actors, actor, Work::Sweep)
                });
                Reply::Done(actors.len() as u32)
            }
            Command::Invitation(InvitationCommand::Revoke { actor, id }) => {
                return self.accounts.invitation_work(
                    &mut self.cx,
                    &mut self.actors,
                    &actor,
                    Work::Revoke { reply: token, id },
                );
            }
            Command::Account(AccountCommand::Dismiss { domain, ids }) => {
                return self.accounts.dismiss(&mut self.cx, token, &domain, ids);
            }
            Command::Log(LogCommand::Flush { account }) => {
                return self.logs.flush_waiting(&mut self.cx, &mut self.actors, token, account);
            }
            Command::Log(LogCommand::Retain { users }) => return self.logs.retain(&mut self.cx, token, users),
            Command::EndRegistrations { nodes } => return self.look_for_ends(token, nodes),
            Command::Session(SessionCommand::Restore { users, last }) => self.restore_users(users, last),
            Command::Limit(LimitCommand::List) => self.accounts.list_limits(&mut self.cx),
            Command::Limit(LimitCommand::Release { whom }) => {
                self.accounts.release_limits(&mut self.cx, &mut self.actors, &whom)
            }
            Command::Turn(settings) => self.turn(settings),
            Command::Observer(ObserverCommand::Trace { id, jid, bodies, ms }) => {
                self.actors.trace(&mut self.cx, id, &jid, bodies, ms)
            }
            Command::Observer(ObserverCommand::Fetch { id }) => self.actors.fetch_trace(&mut self.cx, id),
            Command::Observer(ObserverCommand::End { id }) => self.actors.end_trace(id),
            Command::Observer(ObserverCommand::Busiest { most }) => {
                self.actors.busiest(&mut self.cx, most.min(PAGE_MAX))
            }
            Command::Shutdown => self.shut_down(),
        };
        // Replies that must wait for durable writes are sent elsewhere.
        self.cx.kernel.effects.push(Effect::Reply { token, reply, durable: false });
    }

    /// Applies other settings. Code that reads them on use sees the change; other modules are
    /// informed.
    fn turn(&mut self, settings: Arc<Settings>) -> Reply {
        let kept = |s: &Settings| {
            (
                s.domains.clone(),
                s.facts.clone(),
                s.partitions.clone(),
                s.archive,
                s.stanza_bytes_max,
                s.scram_iterations,
                (s.scram_hashes, s.scram_upgrades),
            )
        };
        assert_eq!(kept(&settings), kept(&self.cx.kernel.settings), "these do not change while a shard runs");
        let now_ms = self.cx.kernel.now.mono_ms;
        self.accounts.failed_logins.turn(now_ms, &settings.throttle);
        self.accounts.logins.turn(now_ms, &settings.throttle);
        self.accounts.registrations.turn(now_ms, &settings.registration_throttle);
        self.cx.kernel.settings = settings;
        self.features = Features::of(&self.cx.kernel.settings, &self.cx.kernel.facts);
        Reply::Done(0)
    }

    fn list_sessions(&self, of: Option<&str>, from_slot: u32, most: u32) -> Reply {
        let mut rows = Vec::new();
        let now_s = self.cx.kernel.now.mono_s();
        let fits = |jid: &str| {
            of.is_none_or(|of| {
                jid.strip_prefix(of).is_some_and(|r| r.is_empty() || (r.starts_with('/') && of == bare_of(of)))
            })
        };
        for slot in from_slot..self.actors.sessions.slots() {
            if rows.len() >= most as usize {
                return Reply::Sessions { rows, next: Some(slot) };
            }
            let Some(id) = self.actors.sessions.id(slot) else { continue };
            let jid = self.actors.full_jid(id);
            if !fits(&jid) {
                continue;
            }
            let session = self.actors.sessions.slot(slot);
            let Some(stream) = self.cx.standing(id) else { continue };
            rows.push(SessionRow {
                jid,
                conn: stream.conn,
                since_s: match stream.conn {
                    Some(_) => now_s.saturating_sub(stream.since_s),
                    None => self.cx.waited_s(id),
                },
                priority: session.is_available().then_some(session.priority),
                idle_s: now_s.saturating_sub(stream.last_s),
                managed: stream.sent.is_some(),
                tls: session.privacy == Privacy::Encrypted,
                outbound_bytes: stream.outbound_bytes,
            });
        }
        Reply::Sessions { rows, next: None }
    }

    fn list_openings(&self, most: u32) -> Reply {
        // Retains only as many as requested: there may be as many addresses as connections.
        let mut least = BinaryHeap::new();
        for (address, count) in self.cx.conns.openings() {
            least.push((Reverse(count), address));
            if least.len() > most as usize {
                least.pop();
            }
        }
        Reply::Openings(least.into_sorted_vec().into_iter().map(|(Reverse(count), address)| (address, count)).collect())
    }

    /// Cuts connections and drops their pending output; its stanzas are still with their sessions
    /// or in the user's log.
    fn detach(&mut self, jid: &str) -> Reply {
        let conns: Vec<ConnId> =
            self.actors.sessions_of(jid).into_iter().filter_map(|id| self.cx.conn_of(id)).collect();
        conns.iter().for_each(|conn| self.cx.cut(*conn, Ended::Operator));
        if conns.is_empty() { Reply::NotFound } else { Reply::Done(conns.len() as u32) }
    }

    fn kick(&mut self, jid: &str, reason: Option<&str>) -> Reply {
        let sessions = self.actors.sessions_of(jid);
        for id in &sessions {
            let text = reason.unwrap_or("ended by the operator");
            self.actors.end_session_with(&mut self.cx, *id, Ended::Operator, StreamCondition::PolicyViolation, text);
        }
        if sessions.is_empty() { Reply::NotFound } else { Reply::Done(sessions.len() as u32) }
    }

    /// Sends a headline (RFC 6121 5.2.2), which is shown at once or not at all, and never stored.
    fn say(&mut self, jid: Option<&str>, text: &str, urgent: bool) -> Reply {
        let targets: Vec<_> = match jid {
            Some(jid) => match self.actors.users.find(jid) {
                Some(user) => self.actors.users.sessions(&self.actors.sessions, user).map(|(id, _)| id).collect(),
                None => return Reply::NotFound,
            },
            None => (0..self.actors.sessions.slots()).filter_map(|slot| self.actors.sessions.id(slot)).collect(),
        };
        let mut said = 0;
        for id in targets {
            if self.cx.conn_of(id).is_none() {
                continue;
            }
            let full = self.actors.full_jid(id);
            let domain = self.actors.users.domain(self.actors.sessions.slot(id.slot).user);
            let mut out = Vec::with_capacity(text.len() + 128);
            let mut w = Writer::new(&mut out);
            w.open("message").attribute("type", "headline").attribute("from", domain).attribute("to", &full);
            w.leaf("body", text).close();
            match urgent {
                true => self.actors.send_urgent(&mut self.cx, id, &out),
                false => self.actors.send_stanza(&mut self.cx, id, &out),
            }
            said += 1;
        }
        Reply::Done(said)
    }

    fn look_at_account(&mut self, token: u64, account: Box<str>, what: AccountChange) {
        let command = AccountChangeRead { token, account: account.clone(), what };
        self.actors.look(&mut self.cx, Pending::Operator(OperatorRead::Account(command)), &account, None);
    }

    pub(super) fn command_account_found(&mut self, command: AccountChangeRead, mut found: Vec<Found>) {
        let (there, row) = self.actors.seen(&mut self.cx, &command.account, &mut found);
        let exists = there.is_some();
        let found = row.and_then(|row| Credentials::decode(&row).ok());
        let standing = found.as_ref().map(Credentials::standing);
        // An account that waits for approval is out of use until an administrator has decided.
        let waits = |found: Option<Credentials>| found.filter(|_| standing == Some(Standing::Applies));
        let reply = match command.what {
            AccountChange::Put { mode: PutMode::Add, .. } if exists => Reply::Exists,
            AccountChange::Put { mode: PutMode::Change, .. } | AccountChange::Delete if !exists => Reply::NotFound,
            AccountChange::Put { mut credentials, .. } => {
                credentials.set_standing(standing.unwrap_or_default());
                self.accounts.write_account(&mut self.cx, &mut self.actors, &command.account, *credentials, there);
                Reply::Done(u32::from(!exists))
            }
            AccountChange::Suspend { .. } if !exists => Reply::NotFound,
            AccountChange::Suspend { .. } if standing == Some(Standing::Applies) => Reply::Busy,
            AccountChange::Suspend { suspended } => match found {
                Some(credentials) => Reply::Done(self.accounts.suspend(
                    &mut self.cx,
                    &mut self.actors,
                    &command.account,
                    credentials,
                    suspended,
                )),
                None => Reply::Unreadable,
            },
            AccountChange::Decide { approve } => match waits(found) {
                None => {
                    // A registration that a crash interrupted may be among those that wait.
                    self.accounts.applicant_decided(&mut self.cx, &command.account);
                    Reply::NotFound
                }
                Some(credentials) if approve => {
                    self.accounts.approve(&mut self.cx, &mut self.actors, &command.account, credentials);
                    Reply::Done(1)
                }
                Some(_) => {
                    self.accounts.applicant_decided(&mut self.cx, &command.account);
                    return self.accounts.delete_account(
                        &mut self.cx,
                        &mut self.actors,
                        &command.account,
                        Remover::Operator(command.token),
                    );
                }
            },
            AccountChange::Delete => {
                return self.accounts.delete_account(
                    &mut self.cx,
                    &mut self.actors,
                    &command.account,
                    Remover::Operator(command.token),
                );
            }
        };
        self.cx.kernel.effects.push(Effect::Reply { token: command.token, reply, durable: true });
    }

    pub(super) fn command_account_unreadable(&mut self, command: &AccountChangeRead) {
        self.actors.unseen(&mut self.cx, &command.account);
        self.cx.kernel.effects.push(Effect::Reply { token: command.token, reply: Reply::Unreadable, durable: false });
    }

    /// Ends all streams (RFC 6120 4.9.3.19). Unacknowledged messages wait again.
    fn shut_down(&mut self) -> Reply {
        (self.cx.kernel.shutting_down, self.stops) = (true, true);
        let mut ended = 0;
        // Connections without a socket first: their last output is sent in answers on other
        // connections.
        let others = (0..self.cx.conns.others()).map(|slot| slot | NO_SOCKET);
        for slot in others.chain(0..self.cx.conns.slots()) {
            let id = self.cx.conns.id(slot);
            if self.cx.conns.get(id).is_some() {
                self.cx.fail_stream(id, StreamCondition::SystemShutdown, None);
                ended += 1;
            }
        }
        for slot in 0..self.actors.sessions.slots() {
            // Stored sessions keep waiting, and are resumed after the restart.
            let ends = |id: &SessionId| self.cx.is_detached(*id) && self.cx.stored_as(*id).is_none();
            if let Some(id) = self.actors.sessions.id(slot).filter(ends) {
                self.end_session(id, Vec::new(), None);
            }
        }
        Reply::Done(ended)
    }

    /// Writes rows of users, after the endings of the shutdown.
    pub(super) fn write_last_rows(&mut self) {
        for user in 0..self.actors.users.slots() {
            if self.actors.users.get(user).is_there() {
                self.logs.write_row(&mut self.cx, &mut self.actors, user);
            }
        }
    }
}
