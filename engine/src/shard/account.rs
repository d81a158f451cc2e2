//! Accounts at their home: questions of the shards that hold connections, registration, removal.

use crate::io::StorageState;
use crate::mail::{Answer, ConnRef, Letter, Question};
use crate::router::users::{Known, RosterStep};
use crate::shard::ended::Ended;
use crate::shard::mail::{get, one_value};
use crate::shard::{Pending, Shard};
use crate::store::{Found, Table};
use crate::wire::error::StreamCondition;

/// Why an account's row is read for a connection.
#[derive(Debug)]
pub(crate) struct AccountRead {
    conn: ConnRef,
    local: Box<str>,
    /// The password that was shown before is asked for, too.
    plain: bool,
    /// The row of a new account, if it is to be made.
    register: Option<Box<[u8]>>,
}

impl Shard {
    /// A shard with a connection asks about an account of this home, or about an address that this shard counts for.
    pub(super) fn asked(&mut self, conn: ConnRef, local: Box<str>, question: Question) {
        match question {
            Question::MayLogIn { peer, plain } => {
                if let Err(refused) = self.failed_logins.allows(self.now.mono_ms, peer) {
                    self.note_held(refused, "", peer);
                    return self.reply_to(conn, Answer::Held(refused.held));
                }
                self.ask_home(conn, &local, Question::Credentials { peer, plain });
            }
            Question::MayRegister { peer } => {
                if let Err(refused) = self.registrations.allows(self.now.mono_ms, peer) {
                    self.note_held(refused, "", peer);
                    return self.reply_to(conn, Answer::Held(refused.held));
                }
                self.registrations.charge(self.now.mono_ms, peer);
                self.reply_to(conn, Answer::May);
            }
            Question::Credentials { peer, plain } => {
                if let Err(refused) = self.logins.begin(self.now.mono_ms, peer, &local) {
                    self.note_held(refused, &local, peer);
                    return self.reply_to(conn, Answer::Held(refused.held));
                }
                let bare = self.bare(&local);
                let read = AccountRead { conn, local, plain, register: None };
                self.read(Pending::Account(read), vec![get(Table::Accounts, &bare)]);
            }
            Question::Register { credentials } => {
                if self.storage == StorageState::Full {
                    return self.reply_to(conn, Answer::StoreFull);
                }
                if !self.registering.insert(local.clone()) {
                    return self.reply_to(conn, Answer::Taken);
                }
                let bare = self.bare(&local);
                let read = AccountRead { conn, local, plain: false, register: Some(credentials) };
                self.read(Pending::Account(read), vec![get(Table::Accounts, &bare)]);
            }
        }
    }

    pub(super) fn account_found(&mut self, read: AccountRead, found: Vec<Found>) {
        let row = one_value(found);
        let answer = match (read.register, row) {
            (None, row) => {
                let seen = if read.plain { self.plain_cache.seen(&read.local) } else { None };
                Answer::Credentials { local: read.local, row, seen: seen.map(Box::new) }
            }
            (Some(_), Some(_)) => {
                self.registering.remove(&read.local);
                Answer::Taken
            }
            (Some(credentials), None) => {
                self.registering.remove(&read.local);
                self.write_account(&read.local, &credentials);
                Answer::Registered
            }
        };
        self.reply_to(read.conn, answer);
    }

    fn reply_to(&mut self, conn: ConnRef, answer: Answer) {
        self.mail_to(conn.shard).push(Letter::Answer { conn: conn.conn, answer });
    }

    /// Writes an account's row: it is there from now on, and a remembered password is not its any more.
    pub(super) fn write_account(&mut self, local: &str, credentials: &[u8]) {
        let bare = self.bare(local);
        self.writes.put(Table::Accounts, bare.as_bytes(), &[], &[credentials]);
        self.plain_cache.forget(local);
        let user = self.users.find(local);
        if let Some(state) = user.and_then(|user| self.users.get_mut(user).state.as_mut()) {
            state.known = Known::Exists;
        }
    }

    /// Removes an account: contacts are told, sessions end, and all rows of the user go.
    pub(super) fn delete_account(&mut self, local: &str) {
        let user = self.users.find_or_insert(local);
        self.roster_step(user, RosterStep::Leave);
    }

    /// The last step of a removal.
    pub(super) fn erase_account(&mut self, user: u32) {
        let sessions: Vec<_> = self.users.sessions(&self.sessions, user).map(|(id, _)| id).collect();
        for id in sessions {
            match self.sessions.get(id).and_then(|s| s.conn) {
                Some(conn) => {
                    let (condition, text) = (StreamCondition::NotAuthorized, Some("the account was removed"));
                    self.fail_stream_with(conn, Ended::Operator, condition, text, None);
                }
                None => self.end_session(id, Vec::new()),
            }
        }
        let bare = self.bare_of_user(user);
        for table in Table::ALL.into_iter().filter(|&table| table != Table::Meta) {
            self.writes.delete_partition(table, bare.as_bytes());
        }
        let local = self.users.get(user).local.clone();
        self.plain_cache.forget(&local);
        self.logins.removed(&local);
        let now_s = self.now.mono_s();
        self.users.get_mut(user).live = false;
        let state = self.users.state(user, now_s);
        state.known = Known::Missing;
        state.mailbox = None;
        state.roster = None;
    }
}
