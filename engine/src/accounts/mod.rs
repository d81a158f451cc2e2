//! Accounts at their home: questions of the shards that have connections, registration, changes and
//! removal.
//!
//! A decision based on an account's record reads the record first, and much may have been written
//! by the time the answer arrives. The account's state in memory is then newer; it is retained for
//! as long as an answer is outstanding (see `Actors::look`). A client that has authenticated
//! against an account therefore gains nothing from a later account of the same name: no session,
//! and no change of its password. A session here always belongs to the current account, because a
//! removal ends all sessions at once.

mod applicants;
pub(crate) mod gained;
pub(crate) mod invitations;
mod leave;
pub(crate) mod limits;
mod outside;
mod record;
pub(crate) mod reports;
mod telling;
pub(crate) mod tokens;

use std::collections::BTreeMap;

use rand_core::RngCore;

use crate::accounts::gained::Gaining;
use crate::accounts::invitations::Invitations;
use crate::accounts::reports::Reports;
use crate::accounts::telling::Untold;
use crate::accounts::tokens::Asked;
use crate::actors::Actors;
use crate::extension::Notes;
use crate::extension::invite::names;
use crate::id::{ConnId, Peer};
use crate::io::{Effect, Happened, Job, Reply, StorageState};
use crate::kernel::pending::{
    AccountRead, Asker, Elsewhere, LoginRead, PasswordChange, Pending, Remover, UserRead, Why,
};
use crate::letters::{Answer, ConnRef, Gained, Leave, Question, Shows};
use crate::limits::{INVITATIONS_USER_MAX, JOBS_WAITING_SPARE, PARKED_STANZAS_MAX};
use crate::router::users::Known;
use crate::session::sasl::{AccountThrottle, AddressThrottle, Decoy, PlainCache, SUSPENDED_TEXT, TokenMaker};
use crate::settings::Settings;
use crate::store::account::{Credentials, Incarnation, Standing};
use crate::store::invitation::{self, Invitation, InvitationId};
use crate::store::{Found, Table};
use crate::streams::Streams;
use crate::streams::ended::Ended;
use crate::streams::half::Down;
use crate::wire::error::{StanzaCondition, StreamCondition};
use crate::wire::limit::Limit;

/// What a change of accounts means for rosters, for the shard to carry out.
#[derive(Debug)]
pub(crate) enum ForRosters {
    /// An account was registered by a user's invitation: the two become contacts.
    Joined { account: Box<str>, inviter: Box<str> },
    /// An account is being removed: its contacts are notified first.
    Leaves(Box<str>),
    /// A contact requested a subscription with a token, which was checked.
    Vouched { owner: Box<str>, contact: Box<str>, good: bool },
}

/// The accounts of this home, and the counts of logins.
#[derive(Debug)]
pub(crate) struct Accounts {
    pub(crate) plain_cache: PlainCache,
    pub(crate) decoy: Decoy,
    pub(crate) tokens: TokenMaker,
    /// Accounts whose tokens are being read; bounded by the outstanding reads.
    tokens_asked: BTreeMap<Box<str>, Asked>,
    /// Accounts whose record is being read in order to add keys; bounded by the outstanding reads.
    gaining: BTreeMap<Box<str>, Gaining>,
    /// Failed logins of the addresses that this shard counts.
    pub(crate) failed_logins: AddressThrottle,
    /// Logins to the accounts of this home.
    pub(crate) logins: AccountThrottle,
    /// Registrations of the addresses that this shard counts.
    pub(crate) registrations: AddressThrottle,
    /// Accounts that are being removed, and the requesters that wait: bounded by
    /// `PARKED_STANZAS_MAX` per account.
    removing: BTreeMap<Box<str>, Vec<Remover>>,
    invitations: Invitations,
    /// Accounts that wait for approval and that administrators were not notified of.
    untold: Untold,
    reports: Reports,
    /// Taken out when the input is handled.
    pub(crate) for_rosters: Vec<ForRosters>,
}

impl Accounts {
    pub(crate) fn new(settings: &Settings) -> Accounts {
        let key = &settings.process_key;
        Accounts {
            plain_cache: PlainCache::new(key, settings.plain_cache_max),
            decoy: Decoy::new(&settings.decoy_key, settings.scram_iterations),
            tokens: TokenMaker::new(&settings.decoy_key),
            tokens_asked: BTreeMap::new(),
            gaining: BTreeMap::new(),
            failed_logins: AddressThrottle::new(Limit::AddressLogins, &settings.throttle, key),
            logins: AccountThrottle::new(&settings.throttle, key),
            registrations: AddressThrottle::new(Limit::Registrations, &settings.registration_throttle, key),
            removing: BTreeMap::new(),
            invitations: Invitations::default(),
            untold: Untold::default(),
            reports: Reports::default(),
            for_rosters: Vec::new(),
        }
    }

    /// The peer of a connection that has no session yet.
    pub(crate) fn peer(&mut self, cx: &mut Streams, id: ConnId) -> Option<Peer> {
        let address = cx.opening(id)?.peer;
        Some(self.failed_logins.peer(address))
    }

    /// The peer of a connection whose input is being handled.
    pub(crate) fn heard_from(&mut self, cx: &mut Streams, id: ConnId) -> Peer {
        let address = cx.heard(id).peer;
        self.failed_logins.peer(address)
    }

    /// A shard with a connection asks about an account of this home, or about an address that this
    /// shard counts.
    pub(crate) fn asked(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        conn: ConnRef,
        account: Box<str>,
        question: Question,
    ) {
        match question {
            Question::MayLogIn { peer, shows } => {
                let refused = self.failed_logins.allows(cx.kernel.now.mono_ms, peer).err();
                if let Some(refused) = refused {
                    cx.kernel.note_held(refused, "", peer);
                }
                // Many clients may share one address. One that logged in from it recently is not
                // delayed by the failures of others.
                let held = refused.map(|refused| Box::new(refused.held));
                cx.kernel.ask_home(conn, &account, Question::Credentials { peer, shows, held });
            }
            Question::MayRegister { peer } => {
                if let Err(refused) = self.registrations.allows(cx.kernel.now.mono_ms, peer) {
                    cx.kernel.note_held(refused, "", peer);
                    return cx.kernel.reply_to(conn, Answer::Held(refused.held));
                }
                self.registrations.charge(cx.kernel.now.mono_ms, peer);
                cx.kernel.reply_to(conn, Answer::May);
            }
            Question::Credentials { peer, held: Some(held), .. }
                if !self.logins.knows(cx.kernel.now.mono_ms, peer, &account) =>
            {
                cx.kernel.reply_to(conn, Answer::Held(*held));
            }
            Question::Credentials { peer, shows, .. } => {
                if let Err(refused) = self.logins.begin(cx.kernel.now.mono_ms, peer, &account) {
                    cx.kernel.note_held(refused, &account, peer);
                    return cx.kernel.reply_to(conn, Answer::Held(refused.held));
                }
                match shows {
                    Shows::Token(_) => self.read_tokens(cx, actors, &account, Why::LogIn { conn, shows }),
                    _ => actors.look_for_login(cx, AccountRead { account, why: Why::LogIn { conn, shows } }),
                }
            }
            Question::Register { leave, .. } if cx.kernel.storage == StorageState::Full => {
                self.outcome(cx, conn, leave, &account, false, Answer::StoreFull);
            }
            Question::Register { credentials, leave } => {
                // The name may be reserved for an invited user.
                let reserved = Some(invitation::all(&account, INVITATIONS_USER_MAX as u32 + 1));
                let why = Why::Register { conn, credentials, leave };
                let read = AccountRead { account: account.clone(), why };
                actors.look(cx, Pending::Login(LoginRead::Account(read)), &account, reserved);
            }
            Question::MayShow { peer, id } => {
                if let Err(refused) = self.failed_logins.allows(cx.kernel.now.mono_ms, peer) {
                    cx.kernel.note_held(refused, "", peer);
                    return cx.kernel.reply_to(conn, Answer::Held(refused.held));
                }
                cx.kernel.ask_home(conn, &account, Question::Invitation { id });
            }
            Question::Invitation { id } => self.invitation_asked(cx, actors, conn, &account, id),
            Question::Admit => self.read_account(cx, actors, account, Why::Admit { conn }),
            Question::Untried { peer } => self.logins.untried(cx.kernel.now.mono_ms, peer, &account),
            Question::Ousted => self.oust(cx, &account),
            Question::Vouch(invited) => self.read_account(cx, actors, account, Why::Vouch { conn, invited }),
            Question::WasMade(leave) => self.read_account(cx, actors, account, Why::WasMade { conn, leave }),
            Question::Expired(which) => self.read_account(cx, actors, account, Why::Expired(which)),
            Question::Decided(applicant) => invitation::delete_applicant(&mut cx.kernel.writes, &account, &applicant),
            Question::File(filing) => self.file(cx, conn.shard, *filing),
            question @ (Question::Redeem(_) | Question::Apply(_) | Question::Settle(_)) => {
                self.work_asked(cx, actors, conn, &account, question);
            }
        }
    }

    fn read_account(&mut self, cx: &mut Streams, actors: &mut Actors, account: Box<str>, why: Why) {
        actors.look(
            cx,
            Pending::Login(LoginRead::Account(AccountRead { account: account.clone(), why })),
            &account,
            None,
        );
    }

    pub(crate) fn account_found(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        read: AccountRead,
        mut found: Vec<Found>,
    ) {
        let AccountRead { account, why } = read;
        let (there, row) = actors.seen(cx, &account, &mut found);
        match why {
            Why::LogIn { conn, shows: Shows::Token(shown) } => {
                let tokens = self.tokens_read(&account, found);
                self.token_shown(cx, conn, &account, row.as_deref(), tokens, &shown);
            }
            Why::Token { conn } => {
                let tokens = self.tokens_read(&account, found);
                self.token_wanted(cx, conn, &account, row.as_deref(), tokens);
            }
            Why::Upgrade { conn } => self.upgrade_wanted(cx, conn, row.as_deref()),
            Why::Gain { gained, conn } => self.gain(cx, &account, row.as_deref(), gained, conn),
            Why::LogIn { conn, shows } => {
                let seen = if shows == Shows::Password { self.plain_cache.seen(&account) } else { None };
                let account = account.clone();
                cx.kernel.reply_to(conn, Answer::Credentials { account, row, seen: seen.map(Box::new) });
            }
            Why::Admit { conn } => {
                if let Some((keys, incarnation)) = self.admit(cx, conn, &account, there, row) {
                    self.write_account_of(cx, actors, &account, keys, incarnation);
                }
            }
            Why::Register { conn, leave, .. } if there.is_some() => {
                self.outcome(cx, conn, leave, &account, false, Answer::Taken);
            }
            Why::Register { conn, credentials, leave } => {
                // Since the name was requested, the administrators may have changed, or another
                // user may have been invited to it.
                let gives_name = leave.as_ref().is_some_and(|leave| leave.gives_name);
                let withheld = cx.kernel.settings.withheld().why(&account).filter(|_| !gives_name);
                let refused = match withheld {
                    Some(names::Why::Rights) => Some(Answer::Taken),
                    Some(names::Why::Reserved) => Some(Answer::Reserved),
                    None => self.is_reserved(cx, &account, leave.as_deref(), found).then_some(Answer::Reserved),
                };
                if let Some(refused) = refused {
                    self.outcome(cx, conn, leave, &account, false, refused);
                } else {
                    self.register(cx, actors, &account, *credentials, leave.as_deref());
                    self.outcome(cx, conn, leave, &account, true, Answer::Registered);
                }
            }
            // A suspended user's invitations admit no one.
            Why::Vouch { conn, .. } if there.is_none() || row.as_deref().is_some_and(is_suspended) => {
                cx.kernel.reply_to(conn, Answer::NotInvited);
            }
            Why::Vouch { conn, invited } => cx.kernel.reply_to(conn, Answer::Invited(invited)),
            Why::WasMade { conn, leave } => {
                let made = there == Some(leave.incarnation);
                self.outcome(cx, conn, Some(leave), &account, made, Answer::Again);
            }
            Why::Expired(which) => self.applicant_expired(cx, actors, &account, which, row.as_deref()),
            Why::ChangePassword { asker, job } => match there {
                // A session that still exists belongs to the current account.
                Some(incarnation) if actors.asks_still(&asker) => {
                    if cx.jobs_waiting.len() >= JOBS_WAITING_SPARE {
                        return actors.answer(cx, asker, Err(Limit::Passwords.into()));
                    }
                    let change = PasswordChange { asker, account: account.clone(), incarnation };
                    cx.job(Pending::Elsewhere(Elsewhere::SessionKeys(change)), job);
                }
                _ => actors.answer(cx, asker, Err(StanzaCondition::ItemNotFound.into())),
            },
            Why::NewPassword { change, mut credentials } => match there {
                Some(incarnation) if incarnation == change.incarnation => {
                    // The account may have been suspended while keys were derived.
                    credentials.set_standing(row.as_deref().map_or(Standing::InUse, Standing::of_record));
                    actors.note_change(cx, Happened::PasswordChanged, &account, &change.asker);
                    self.write_account(cx, actors, &account, *credentials, there);
                    actors.answer(cx, change.asker, Ok(b""));
                }
                _ => actors.answer(cx, change.asker, Err(StanzaCondition::ItemNotFound.into())),
            },
        }
        actors.forget_no_one(&account);
    }

    /// The account's record cannot be read: no client can log in by it or change it, and its name
    /// is not free.
    pub(crate) fn account_unreadable(&mut self, cx: &mut Streams, actors: &mut Actors, read: AccountRead) {
        actors.unseen(cx, &read.account);
        if matches!(read.why, Why::Token { .. } | Why::LogIn { shows: Shows::Token(_), .. }) {
            self.tokens_read(&read.account, Vec::new());
        }
        match read.why {
            Why::Token { conn } => self.token_unreadable(cx, conn),
            Why::Register { conn, leave, .. } => {
                self.outcome(cx, conn, leave, &read.account, false, Answer::Unreadable);
            }
            Why::LogIn { conn, .. } | Why::Admit { conn } | Why::Vouch { conn, .. } | Why::WasMade { conn, .. } => {
                cx.kernel.reply_to(conn, Answer::Unreadable);
            }
            Why::Expired(_) => {}
            Why::Upgrade { conn } => self.upgrade_wanted(cx, conn, None),
            Why::Gain { gained, conn } => self.gain(cx, &read.account, None, gained, conn),
            Why::ChangePassword { asker, .. } | Why::NewPassword { change: PasswordChange { asker, .. }, .. } => {
                actors.answer(cx, asker, Err(StanzaCondition::InternalServerError.into()));
            }
        }
    }

    /// A session changes its password; this job derives the keys.
    pub(crate) fn change_password(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        asker: Asker,
        account: &str,
        job: Job,
    ) {
        if let Err(refused) = self.logins.change_password(cx.kernel.now.mono_ms, account) {
            if refused.begins {
                let (limit, left_ms) = (refused.held.limit, refused.held.left_ms.unwrap_or_default());
                actors.note_change(cx, Happened::Held { limit, left_ms }, account, &asker);
            }
            return actors.answer(cx, asker, Err(refused.held.into()));
        }
        self.read_account(cx, actors, account.into(), Why::ChangePassword { asker, job });
    }

    /// Checks whether an account lacks keys that the client of a connection can provide.
    /// [`Up::Inline`] follows.
    pub(crate) fn look_for_upgrades(&mut self, cx: &mut Streams, actors: &mut Actors, conn: ConnId, account: &str) {
        cx.block(conn);
        self.read_account(cx, actors, account.into(), Why::Upgrade { conn });
    }

    /// An account of this home gains keys. A connection of this shard then continues.
    pub(crate) fn keys_gained(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        account: &str,
        gained: Gained,
        conn: Option<ConnId>,
    ) {
        self.gaining_begins(account);
        self.read_account(cx, actors, account.into(), Why::Gain { gained, conn });
    }

    /// The keys of a session's new password have been derived.
    pub(crate) fn password_derived(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        change: PasswordChange,
        keys: Option<Box<Credentials>>,
    ) {
        let Some(credentials) = keys else {
            return actors.answer(cx, change.asker, Err(Limit::Credentials.into()));
        };
        if cx.kernel.storage == StorageState::Full {
            return actors.answer(cx, change.asker, Err(Limit::Disk.into()));
        }
        self.read_account(cx, actors, change.account.clone(), Why::NewPassword { change, credentials });
    }

    /// Whether an account's name is reserved by another invitation (XEP-0401 7.2).
    fn is_reserved(&self, cx: &Streams, account: &str, leave: Option<&Leave>, found: Vec<Found>) -> bool {
        let own = leave.and_then(|leave| leave.then.as_deref().unwrap_or(leave).id);
        let now_s = self.expiry_s(cx);
        let Some(Found::Rows { rows, .. }) = found.into_iter().next() else { return false };
        rows.iter().any(|row| {
            let known = Invitation::decode(&row.value);
            let holds = known.is_some_and(|known| known.is_open(now_s) && self.gives(cx, account, &known));
            holds && InvitationId::of_sort(&row.sort) != own
        })
    }

    /// Creates an account, with or without an actor's leave.
    fn register(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        account: &str,
        mut credentials: Credentials,
        leave: Option<&Leave>,
    ) {
        let Some(leave) = leave else { return self.write_account(cx, actors, account, credentials, None) };
        credentials.set_standing(if leave.id.is_none() { Standing::Applies } else { Standing::InUse });
        self.write_account_of(cx, actors, account, credentials, leave.incarnation);
        if !leave.inviter.is_empty() {
            let (account, inviter) = (account.into(), leave.inviter.clone());
            self.for_rosters.push(ForRosters::Joined { account, inviter });
        }
    }

    /// An account has waited too long for approval. It is removed if it still waits.
    fn applicant_expired(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        account: &str,
        which: Incarnation,
        record: Option<&[u8]>,
    ) {
        let credentials = record.and_then(|record| Credentials::decode(record).ok());
        if credentials.is_some_and(|found| found.incarnation() == which && found.standing() == Standing::Applies) {
            self.delete_account(cx, actors, account, Remover::Server);
        }
    }

    /// Writes an account's record, of the existing account or of a new one. A cached password is
    /// then no longer valid, and neither are the account's tokens.
    pub(crate) fn write_account(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        account: &str,
        keys: Credentials,
        there: Option<Incarnation>,
    ) {
        let Some(incarnation) = there else {
            let incarnation = Incarnation::drawn(cx.kernel.entropy.next_u64());
            return self.write_account_of(cx, actors, account, keys, incarnation);
        };
        self.put_account(cx, actors, account, keys, incarnation);
        self.end_tokens(cx, account);
        self.end_waiting(cx, actors, account);
        // The records of extensions may not have been read.
        let state = actors.users.find(account).and_then(|user| actors.users.get_mut(user).state.as_mut());
        if let Some(state) = state.filter(|state| state.known != Known::Unknown) {
            state.known = Known::Exists(incarnation);
        }
    }

    /// Writes the record of a new account.
    fn write_account_of(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        account: &str,
        keys: Credentials,
        incarnation: Incarnation,
    ) {
        self.put_account(cx, actors, account, keys, incarnation);
        let user = actors.users.find(account);
        if let Some(state) = user.and_then(|user| actors.users.get_mut(user).state.as_mut()) {
            state.known = Known::Exists(incarnation);
        }
        self.welcome(cx, account);
    }

    /// A change of an account's password ends its sessions that wait to be resumed, including those
    /// of an earlier process, because their clients may not know the new password. The other
    /// sessions are stored again.
    fn end_waiting(&mut self, cx: &mut Streams, actors: &mut Actors, account: &str) {
        cx.kernel.writes.delete_actor(Table::Sessions, account.as_bytes());
        for id in actors.sessions_of(account) {
            match cx.is_detached(id) {
                true => cx.tell(id, Down::End(Ended::Server, StreamCondition::NotAuthorized, "")),
                false => cx.unstored(id),
            }
        }
    }

    /// The operator suspends an account, or permits its use again. All its sessions end with this
    /// turn, including sessions of an earlier process and those that wait to be resumed. Returns
    /// the number of known ones. The user's stored data is retained.
    pub(crate) fn suspend(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        account: &str,
        mut credentials: Credentials,
        suspended: bool,
    ) -> u32 {
        credentials.set_standing(if suspended { Standing::Suspended } else { Standing::InUse });
        let incarnation = credentials.incarnation();
        self.put_account(cx, actors, account, credentials, incarnation);
        if !suspended {
            return 0;
        }
        cx.kernel.writes.delete_actor(Table::Sessions, account.as_bytes());
        let sessions = actors.sessions_of(account);
        for id in &sessions {
            cx.tell(*id, Down::End(Ended::Operator, StreamCondition::PolicyViolation, SUSPENDED_TEXT));
        }
        sessions.len() as u32
    }

    /// Removes an account: contacts are notified, sessions end, and all rows of the user are
    /// deleted. This may take several turns. The answer is sent with the last turn and waits for
    /// its writes, so a crash does not undo a removal that was confirmed.
    pub(crate) fn delete_account(&mut self, cx: &mut Streams, actors: &mut Actors, account: &str, remover: Remover) {
        let removers = self.removing.entry(account.into()).or_default();
        if removers.len() >= PARKED_STANZAS_MAX {
            return match remover {
                Remover::Session(asker) => actors.answer(cx, asker, Err(Limit::Waiting.into())),
                Remover::Operator(token) => {
                    cx.kernel.effects.push(Effect::Reply { token, reply: Reply::Busy, durable: false })
                }
                Remover::Server => {}
            };
        }
        removers.push(remover);
        if removers.len() == 1 {
            self.for_rosters.push(ForRosters::Leaves(account.into()));
        }
    }

    /// An account is removed with this turn: the requester is answered, the user's sessions end,
    /// and then all rows are deleted.
    pub(crate) fn remove_account(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32) {
        let account = actors.users.bare(user);
        for remover in self.removing.remove(&*account).unwrap_or_default() {
            match remover {
                Remover::Session(asker) => {
                    actors.note_change(cx, Happened::Removed, &account, &asker);
                    actors.answer(cx, asker, Ok(b""));
                }
                Remover::Operator(token) => {
                    cx.kernel.effects.push(Effect::Reply { token, reply: Reply::Done(1), durable: true })
                }
                Remover::Server => {}
            }
        }
        actors.end_removed(cx, user, true);
    }

    /// The last step of a removal, after the user's sessions have ended.
    pub(crate) fn erase_account(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32) {
        let account = actors.users.bare(user);
        // Rows of reports belong to a domain, not to a user.
        let not_here = |table: &Table| matches!(table, Table::Meta | Table::Nodes | Table::Rooms | Table::Reports);
        for table in Table::ALL.into_iter().filter(|table| !not_here(table)) {
            cx.kernel.writes.delete_actor(table, account.as_bytes());
        }
        // The nodes of services and the rooms that know the account are read first: they are notified.
        crate::store::nodes::delete_published(&mut cx.kernel.writes, &account);
        self.plain_cache.forget(&account);
        self.record_written(&account);
        self.tokens_erased(&account);
        self.logins.removed(&account);
        // Messages being read for the ended sessions must not reach sessions of the next account.
        cx.kernel.pending.retain(|_, pending| match pending {
            Pending::User(UserRead::Page { account: of, .. }) | Pending::User(UserRead::Aparts(of)) => **of != account,
            _ => true,
        });
        let now_s = cx.kernel.now.mono_s();
        actors.users.get_mut(user).live = false;
        let state = actors.users.state(user, now_s);
        state.known = Known::Missing;
        state.standing = None;
        state.log = None;
        (state.sessionless, state.missed) = (false, false);
        state.roster = None;
        state.notes = Notes::default();
        state.log_outdated = state.log_asked;
        actors.users.set_photo(user, None);
    }

    /// The job that derives keys with a new salt from a password; `None` if the password is not
    /// permitted.
    pub(crate) fn derive_keys(&mut self, cx: &mut Streams, password: &str) -> Option<Job> {
        use rand_core::RngCore;
        let password = crate::store::password::prepare(password).ok()?;
        let mut salt = [0u8; 16];
        cx.kernel.entropy.fill_bytes(&mut salt);
        Some(Job::DeriveKeys {
            password: (&*password).into(),
            salt: salt.into(),
            iterations: cx.kernel.settings.scram_iterations,
            created_us: cx.kernel.now.wall_us,
        })
    }
}

/// Whether an account with this record is suspended.
fn is_suspended(record: &[u8]) -> bool {
    Standing::of_record(record) == Standing::Suspended
}
