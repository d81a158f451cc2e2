//! Accounts at their home: questions of the shards that hold connections, registration, changes, removal.
//!
//! Whoever decides by an account's record reads it first, and much may have been written by the time the answer is there.
//! What is known of the account in memory is newer then, and is kept as long as an answer is waited for; see
//! `Shard::look`. So who has authenticated against an account gets nothing of the next one of its name: not a session,
//! not a change of its password. Who has a session here has the account's own, because a removal ends them all at once.

use crate::id::ConnId;
use crate::io::{Effect, Happened, Job, Reply, StorageState};
use crate::limits::{JOBS_WAITING_SPARE, PARKED_STANZAS_MAX};
use crate::mail::{Answer, ConnRef, Letter, Question};
use crate::router::users::{Known, RosterStep, Waiting};
use crate::session::conn::{NONE, Owner};
use crate::shard::asker::Asker;
use crate::shard::mail::{get, one_value};
use crate::shard::{Pending, Shard};
use crate::store::account::{Credentials, Incarnation};
use crate::store::{Found, Query, Table};
use crate::wire::error::{StanzaCondition, StreamCondition};
use crate::wire::limit::Limit;
use rand_core::RngCore;

/// An account's record is read, and why.
#[derive(Debug)]
pub(crate) struct AccountRead {
    local: Box<str>,
    why: Why,
}

#[derive(Debug)]
enum Why {
    /// A login; the password that was shown before is asked for, too, if it is `plain`.
    LogIn { conn: ConnRef, plain: bool },
    /// An account is to be made.
    Register { conn: ConnRef, credentials: Box<Credentials> },
    /// A session wants another password: whose it changes is settled before its keys are derived.
    ChangePassword { asker: Asker, job: Job },
    /// The keys are there.
    NewPassword { change: PasswordChange, credentials: Box<Credentials> },
}

/// A change of password waits for its keys.
#[derive(Debug)]
pub(crate) struct PasswordChange {
    asker: Asker,
    local: Box<str>,
    /// The account that the password is for.
    incarnation: Incarnation,
}

/// Who waits for the end of a removal.
#[derive(Debug)]
pub(crate) enum Remover {
    /// A session of the account.
    Session(Asker),
    /// The operator, by the command's token.
    Operator(u64),
}

impl Shard {
    /// A shard with a connection asks about an account of this home, or about an address that this shard counts for.
    pub(super) fn asked(&mut self, conn: ConnRef, local: Box<str>, question: Question) {
        match question {
            Question::MayLogIn { peer, plain } => {
                let refused = self.failed_logins.allows(self.now.mono_ms, peer).err();
                if let Some(refused) = refused {
                    self.note_held(refused, "", peer);
                }
                // Behind one address there may be many: who logged in from it lately does not wait for what others did.
                let held = refused.map(|refused| refused.held);
                self.ask_home(conn, &local, Question::Credentials { peer, plain, held });
            }
            Question::MayRegister { peer } => {
                if let Err(refused) = self.registrations.allows(self.now.mono_ms, peer) {
                    self.note_held(refused, "", peer);
                    return self.reply_to(conn, Answer::Held(refused.held));
                }
                self.registrations.charge(self.now.mono_ms, peer);
                self.reply_to(conn, Answer::May);
            }
            Question::Credentials { peer, held: Some(held), .. }
                if !self.logins.knows(self.now.mono_ms, peer, &local) =>
            {
                self.reply_to(conn, Answer::Held(held));
            }
            Question::Credentials { peer, plain, .. } => {
                if let Err(refused) = self.logins.begin(self.now.mono_ms, peer, &local) {
                    self.note_held(refused, &local, peer);
                    return self.reply_to(conn, Answer::Held(refused.held));
                }
                self.read_account(local, Why::LogIn { conn, plain });
            }
            Question::Register { credentials } => {
                if self.storage == StorageState::Full {
                    return self.reply_to(conn, Answer::StoreFull);
                }
                self.read_account(local, Why::Register { conn, credentials });
            }
        }
    }

    fn read_account(&mut self, local: Box<str>, why: Why) {
        self.look(Pending::Account(AccountRead { local: local.clone(), why }), &local, None);
    }

    /// Reads an account's record, and what else is asked of it. What is known of the account until then is kept, and
    /// [`Shard::seen`] must hear the answer.
    pub(super) fn look(&mut self, pending: Pending, local: &str, more: Option<Query>) {
        let (user, now_s) = (self.users.find_or_insert(local), self.now.mono_s());
        self.users.state(user, now_s).looks += 1;
        let record = get(Table::Accounts, &self.bare(local));
        self.read(pending, [record].into_iter().chain(more).collect());
    }

    /// Which account there is, by a record that was read and what has been written since; and the record, if it is that
    /// account's.
    pub(super) fn seen(&mut self, local: &str, record: Option<Box<[u8]>>) -> (Option<Incarnation>, Option<Box<[u8]>>) {
        let (user, now_s) = (self.users.find_or_insert(local), self.now.mono_s());
        let state = self.users.state(user, now_s);
        state.looks = state.looks.saturating_sub(1);
        let read = record.as_deref().map(Incarnation::of_record);
        let there = match state.known {
            Known::Exists(incarnation) => Some(incarnation),
            Known::Missing => None,
            Known::Unknown => read,
        };
        state.known = there.map_or(Known::Missing, Known::Exists);
        (there, record.filter(|_| read == there))
    }

    /// An account's record could not be read: what is known of the account is not changed by it.
    pub(super) fn unseen(&mut self, local: &str) {
        let (user, now_s) = (self.users.find_or_insert(local), self.now.mono_s());
        let state = self.users.state(user, now_s);
        state.looks = state.looks.saturating_sub(1);
    }

    /// Nothing is kept of names that nobody has: who guesses names fills no memory.
    fn forget_no_one(&mut self, local: &str) {
        let Some(user) = self.users.find(local) else { return };
        let entry = self.users.get_mut(user);
        let missing = entry.state.as_ref().is_some_and(|s| s.known == Known::Missing && s.is_settled(false));
        if missing && entry.first == NONE {
            entry.state = None;
            self.users.forget_if_idle(user);
        }
    }

    pub(super) fn account_found(&mut self, read: AccountRead, found: Vec<Found>) {
        let AccountRead { local, why } = read;
        let (there, row) = self.seen(&local, one_value(found));
        match why {
            Why::LogIn { conn, plain } => {
                let seen = if plain { self.plain_cache.seen(&local) } else { None };
                let local = local.clone();
                self.reply_to(conn, Answer::Credentials { local, row, seen: seen.map(Box::new) });
            }
            Why::Register { conn, .. } if there.is_some() => self.reply_to(conn, Answer::Taken),
            Why::Register { conn, credentials } => {
                self.write_account(&local, *credentials, None);
                self.reply_to(conn, Answer::Registered);
            }
            Why::ChangePassword { asker, job } => match there {
                // A session that is there has the account that is there.
                Some(incarnation) if self.asks_still(&asker) => {
                    if self.jobs_waiting.len() >= JOBS_WAITING_SPARE {
                        return self.answer(asker, Err(Limit::Passwords.into()));
                    }
                    let change = PasswordChange { asker, local: local.clone(), incarnation };
                    self.job(Pending::SessionKeys(change), job);
                }
                _ => self.answer(asker, Err(StanzaCondition::ItemNotFound.into())),
            },
            Why::NewPassword { change, credentials } => match there {
                Some(incarnation) if incarnation == change.incarnation => {
                    self.note_change(Happened::PasswordChanged, &local, &change.asker);
                    self.write_account(&local, *credentials, there);
                    self.answer(change.asker, Ok(b""));
                }
                _ => self.answer(change.asker, Err(StanzaCondition::ItemNotFound.into())),
            },
        }
        self.forget_no_one(&local);
    }

    /// The account's record cannot be read: nobody logs in by it or changes it, and its name is not free.
    pub(super) fn account_unreadable(&mut self, read: AccountRead) {
        self.unseen(&read.local);
        match read.why {
            Why::LogIn { conn, .. } | Why::Register { conn, .. } => self.reply_to(conn, Answer::Unreadable),
            Why::ChangePassword { asker, .. } | Why::NewPassword { change: PasswordChange { asker, .. }, .. } => {
                self.answer(asker, Err(StanzaCondition::InternalServerError.into()));
            }
        }
    }

    fn reply_to(&mut self, conn: ConnRef, answer: Answer) {
        self.mail_to(conn.shard).push(Letter::Answer { conn: conn.conn, answer });
    }

    /// A session wants another password, whose keys this job derives.
    pub(super) fn change_password(&mut self, asker: Asker, local: &str, job: Job) {
        if let Err(refused) = self.logins.change_password(self.now.mono_ms, local) {
            if refused.begins {
                let (limit, left_ms) = (refused.held.limit, refused.held.left_ms.unwrap_or_default());
                self.note_change(Happened::Held { limit, left_ms }, local, &asker);
            }
            return self.answer(asker, Err(refused.held.into()));
        }
        self.read_account(local.into(), Why::ChangePassword { asker, job });
    }

    /// The keys of a session's new password are there.
    pub(super) fn password_derived(&mut self, change: PasswordChange, keys: Option<Box<Credentials>>) {
        let Some(credentials) = keys else {
            return self.answer(change.asker, Err(Limit::Credentials.into()));
        };
        if self.storage == StorageState::Full {
            return self.answer(change.asker, Err(Limit::Disk.into()));
        }
        self.read_account(change.local.clone(), Why::NewPassword { change, credentials });
    }

    /// Writes an account's record: of the account that is there, or a new one. A remembered password is not its any more.
    pub(super) fn write_account(&mut self, local: &str, keys: Credentials, there: Option<Incarnation>) {
        let incarnation = there.unwrap_or_else(|| Incarnation::drawn(self.entropy.next_u64()));
        let (bare, mut record) = (self.bare(local), Vec::new());
        keys.of(incarnation).encode(&mut record);
        self.writes.put(Table::Accounts, bare.as_bytes(), &[], &[&record]);
        self.plain_cache.forget(local);
        let user = self.users.find(local);
        if let Some(state) = user.and_then(|user| self.users.get_mut(user).state.as_mut()) {
            state.known = Known::Exists(incarnation);
        }
    }

    // Sessions of authenticated connections.

    /// Whether the account that a connection has authenticated against is there. If it is not known, the connection is
    /// blocked, and what it has said is looked at again when it is: that is `None`.
    pub(super) fn is_there(&mut self, conn: ConnId, owner: &Owner) -> Option<bool> {
        let state = self.users.find(&owner.local).and_then(|user| self.users.get(user).state.as_ref());
        match state.map_or(Known::Unknown, |state| state.known) {
            Known::Exists(incarnation) => Some(incarnation == owner.incarnation),
            Known::Missing => Some(false),
            Known::Unknown => {
                self.block(conn);
                if !self.wait_for_account(&owner.local, Waiting::Claim(conn)) {
                    let text = Some("too much waits for the account, try again");
                    self.fail_stream(conn, StreamCondition::ResourceConstraint, text);
                } else if let Some(opening) = self.opening(conn) {
                    opening.again = true;
                }
                None
            }
        }
    }

    /// Ends a stream for whose session it cannot be known whether its account is there.
    pub(super) fn fail_unreadable(&mut self, conn: ConnId) {
        let text = "this account cannot be read, the server's operator has to mend the store";
        self.fail_stream(conn, StreamCondition::InternalServerError, Some(text));
    }

    // Removal.

    /// Removes an account: contacts are told, sessions end, and all rows of the user go. It may take some turns, and is
    /// answered with the last one, whose writes the answer waits for: what was answered is not undone by a crash.
    pub(super) fn delete_account(&mut self, local: &str, remover: Remover) {
        let removers = self.removing.entry(local.into()).or_default();
        if removers.len() >= PARKED_STANZAS_MAX {
            return match remover {
                Remover::Session(asker) => self.answer(asker, Err(Limit::Waiting.into())),
                Remover::Operator(token) => {
                    self.effects.push(Effect::Reply { token, reply: Reply::Busy, durable: false })
                }
            };
        }
        removers.push(remover);
        if removers.len() == 1 {
            let user = self.users.find_or_insert(local);
            self.roster_step(user, RosterStep::Leave);
        }
    }

    /// An account is removed with this turn: who asked for it is told, the user's sessions end, and then all rows go.
    pub(super) fn remove_account(&mut self, user: u32) {
        let local = self.users.get(user).local.clone();
        for remover in self.removing.remove(&local).unwrap_or_default() {
            match remover {
                Remover::Session(asker) => {
                    self.note_change(Happened::Removed, &local, &asker);
                    self.answer(asker, Ok(b""));
                }
                Remover::Operator(token) => {
                    self.effects.push(Effect::Reply { token, reply: Reply::Done(1), durable: true })
                }
            }
        }
        self.end_removed(user, true);
    }

    /// The last step of a removal, when the user's sessions have ended.
    pub(super) fn erase_account(&mut self, user: u32) {
        let local = self.users.get(user).local.clone();
        let bare = self.bare_of_user(user);
        for table in Table::ALL.into_iter().filter(|&table| table != Table::Meta) {
            self.writes.delete_partition(table, bare.as_bytes());
        }
        self.plain_cache.forget(&local);
        self.logins.removed(&local);
        // Messages that are being read for the sessions that have ended are not for those of the next account.
        self.pending.retain(|_, pending| match pending {
            Pending::Page { local: of, .. } | Pending::Aparts(of) => *of != local,
            _ => true,
        });
        let now_s = self.now.mono_s();
        self.users.get_mut(user).live = false;
        let state = self.users.state(user, now_s);
        state.known = Known::Missing;
        state.log = None;
        state.roster = None;
        state.log_outdated = state.log_asked;
    }
}
