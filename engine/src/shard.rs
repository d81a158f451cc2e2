//! One thread's world. Two verbs: [`Shard::handle`] puts an [`Input`] in, and what has to be done comes out in the
//! [`Output`] given along. The shard is the one parent: it knows all rooms, and each room answers it with a closed enum
//! instead of calling the next.
//!
//! The parts of the shard, one file each, in the order of a stanza's way:
//! - [`stream`]: bytes of a connection to items, stream errors, output and its bounds
//! - [`ending`] and [`ended`]: streams and sessions that are to end, and why, counted
//! - [`login`]: from the first header to an authenticated user, and the move to the user's home
//! - [`bind`]: resources, resumption, the end of a session
//! - [`stanza`]: what a bound session sends, and where it goes
//! - [`mail`]: letters from other shards and from itself
//! - [`message`]: messages to a user of this home, and what is written of them
//! - [`follow`]: sessions that follow a user's log, at its head or from behind
//! - [`roster`] and [`presence`]: contacts and who is there
//! - [`iq`]: requests that the server answers
//! - [`account`]: questions about accounts, registration, removal
//! - [`sweep`]: everything that depends on time alone
//! - [`retention`]: archived messages that are too old
//! - [`flush`]: a mailbox that the operator empties
//! - [`command`]: the operator
//! - [`backlog`]: connections and mailboxes in which much waits
//! - [`limits`]: who is refused by which limit
//! - [`watch`]: one user's stanzas and the busiest sessions, while an operator looks
//! - [`inspect`]: a look inside for tests

pub mod account;
pub mod asker;
pub mod backlog;
pub mod bind;
pub mod command;
pub mod ended;
pub mod ending;
pub mod flush;
pub mod follow;
pub mod inspect;
pub mod iq;
pub mod limits;
pub mod login;
pub mod mail;
pub mod message;
pub mod presence;
pub mod retention;
pub mod roster;
pub mod stanza;
pub mod stream;
pub mod sweep;
pub mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use rand_chacha::ChaCha12Rng;
use rand_core::SeedableRng;

use crate::counters::Counters;
use crate::feature::presence::PresenceTable;
use crate::id::{ConnId, Now, SessionId, ShardId};
use crate::io::{Effect, Input, Job, Output, StorageState};
use crate::limits::{JOBS_UNDER_WAY_MAX, JOBS_WAITING_SPARE};
use crate::mail::{Letter, MailBatch};
use crate::outbound::Outbound;
use crate::router::users::Users;
use crate::session::conn::{Conns, Phase};
use crate::session::sasl::{AccountThrottle, AddressThrottle, Decoy, PlainCache};
use crate::session::table::Sessions;
use crate::settings::Settings;
use crate::store::hash::SecretKey;
use crate::store::{Batch, Query, Table};
use crate::watch::Watch;
use crate::wire::Scanner;
use crate::wire::limit::Limit;

/// Hash state without entropy: keys are tokens that the shard itself gives out.
type Fixed = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;

/// What an answer from elsewhere is for.
#[derive(Debug)]
pub(crate) enum Pending {
    /// Account and cursor of a user that a stanza is for.
    Receiver(Box<str>),
    /// The roster of a user.
    Roster(Box<str>),
    /// How far the log of a user who comes online is delivered.
    Log(Box<str>),
    /// A page of the user's log.
    Page {
        /// The user.
        local: Box<str>,
        /// For whom.
        session: SessionId,
        /// The number of the last message that waited when it was asked for.
        last: u64,
        /// Whether it asked for what waits for all, not only for what waits for that session.
        all: bool,
    },
    /// Messages of the user that stand apart.
    Aparts(Box<str>),
    /// The account's record, for a login, a registration or a change of password.
    Account(account::AccountRead),
    /// Keys derived for a connection's PLAIN login or registration.
    Keys(ConnId),
    /// Keys derived for a session's change of password.
    SessionKeys(account::PasswordChange),
    /// A feature's read.
    Feature(iq::FeatureRead),
    /// An operator's look at an account before it is written.
    CommandAccount(command::AccountCommand),
    /// A mailbox that is to be emptied.
    Flush(flush::Flush),
    /// A look at archives for what is too old.
    Retention(retention::RetentionRead),
}

/// Levels that no room keeps by itself, for the gauges.
#[derive(Debug, Default)]
struct Levels {
    /// Bytes in outbound buffers, those under way included.
    outbound_bytes: usize,
    /// Stanzas and steps that wait for an account, a mailbox or a roster.
    parked: usize,
    /// Jobs among [`Pending`]; the rest are reads.
    jobs: usize,
}

/// One shard.
#[derive(Debug)]
pub struct Shard {
    id: ShardId,
    settings: Arc<Settings>,
    counters: Arc<Counters>,
    now: Now,
    entropy: ChaCha12Rng,
    scanner: Scanner,
    /// What the features tell about the server.
    facts: crate::feature::ServerFacts,
    /// What a stream offers behind authentication, the same for all.
    bind_features: Box<[u8]>,
    conns: Conns,
    sessions: Sessions,
    users: Users,
    presence_table: PresenceTable,
    plain_cache: PlainCache,
    decoy: Decoy,
    /// Failed logins of the addresses that this shard counts for.
    failed_logins: AddressThrottle,
    /// Logins to the accounts of this home.
    logins: AccountThrottle,
    /// Registrations of the addresses that this shard counts for.
    registrations: AddressThrottle,
    /// Letters of this turn, by destination; the own entry is mail to itself.
    mail: Vec<MailBatch>,
    /// The number of the last batch that was read from each shard.
    mail_read: Vec<u64>,
    writes: Batch,
    effects: Vec<Effect>,
    /// Memory for one stanza at a time.
    scratch: Vec<u8>,
    /// Memory for the messages of one send at a time.
    sent_ids: Vec<u64>,
    /// Connections with new output in this turn.
    dirty: Vec<u32>,
    /// Boxed, because a connection in action keeps one for as long as it has output: they come and go as they are.
    #[expect(clippy::vec_box, reason = "boxes are handed out and taken back whole")]
    outbound_pool: Vec<Box<Outbound>>,
    pending: HashMap<u64, Pending, Fixed>,
    /// Jobs beyond [`JOBS_UNDER_WAY_MAX`]: those of connections that have gone are dropped before there are twice as many as
    /// connections, but for [`JOBS_WAITING_SPARE`].
    jobs_waiting: Vec<(Pending, Job)>,
    next_token: u64,
    storage: StorageState,
    shutting_down: bool,
    /// Drawn at the start: sessions of other lives have gone.
    life: u64,
    /// Numbers of entries are given out above this.
    last_number: u64,
    /// Up to here they are reserved in the store, so that none is given twice after a restart.
    numbers_reserved: u64,
    /// Accounts that are being removed, and who waits for it: bounded by `PARKED_STANZAS_MAX` an account.
    removing: BTreeMap<Box<str>, Vec<account::Remover>>,
    levels: Levels,
    sweeper: sweep::Sweeper,
    /// What is sent since this second has not left for the network yet; the highest when all has.
    held_s: u32,
    /// What is to end when the input is handled.
    endings: ending::Endings,
    /// Who ran into limits lately.
    refusals: limits::Refusals,
    /// What an operator looks at; none most of the time.
    watch: Option<Box<Watch>>,
}

impl Shard {
    /// A shard with nothing in it. `seed` feeds all that must not be guessed: nonces, resumption tokens, resources, which account
    /// of its name one is, and the places of users in their index.
    pub fn new(id: ShardId, settings: Arc<Settings>, counters: Arc<Counters>, seed: [u8; 32]) -> Shard {
        let users_key = SecretKey::new(&seed).tag(&[b"users"]);
        let users_key = *users_key.as_bytes().first_chunk().expect("32 bytes");
        Shard {
            id,
            counters,
            now: Now::default(),
            entropy: ChaCha12Rng::from_seed(seed),
            scanner: Scanner::new(),
            facts: settings.facts.clone(),
            bind_features: login::bind_features(&settings).into(),
            conns: Conns::default(),
            sessions: Sessions::default(),
            users: Users::new(users_key),
            presence_table: PresenceTable::new([u64::from_le_bytes(seed[..8].try_into().expect("8 bytes")), 0]),
            plain_cache: PlainCache::new(&settings.process_key, settings.plain_cache_max),
            decoy: Decoy::new(&settings.decoy_key, settings.scram_iterations),
            failed_logins: AddressThrottle::new(Limit::AddressLogins, &settings.throttle, &settings.process_key),
            logins: AccountThrottle::new(&settings.throttle, &settings.process_key),
            registrations: AddressThrottle::new(
                Limit::Registrations,
                &settings.registration_throttle,
                &settings.process_key,
            ),
            mail: (0..settings.shards).map(|_| MailBatch::new(id)).collect(),
            mail_read: vec![0; usize::from(settings.shards)],
            writes: Batch::new(),
            effects: Vec::new(),
            scratch: Vec::new(),
            sent_ids: Vec::new(),
            dirty: Vec::new(),
            outbound_pool: Vec::new(),
            pending: HashMap::default(),
            jobs_waiting: Vec::new(),
            next_token: 1,
            storage: StorageState::Ok,
            shutting_down: false,
            life: u64::from_le_bytes(
                *SecretKey::new(&seed).tag(&[b"life"]).as_bytes().first_chunk().expect("32 bytes"),
            ),
            last_number: settings.number_floor,
            numbers_reserved: 0,
            removing: BTreeMap::new(),
            levels: Levels::default(),
            sweeper: sweep::Sweeper::default(),
            held_s: u32::MAX,
            endings: ending::Endings::default(),
            refusals: limits::Refusals::default(),
            watch: None,
            settings,
        }
    }

    /// The shard's number.
    pub fn id(&self) -> ShardId {
        self.id
    }

    /// The shard that is home to a localpart of the served domain.
    pub fn home_of(&self, local: &str) -> ShardId {
        self.home(&self.bare(local))
    }

    /// Its counters.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Handles one input at `now`. Effects and writes are complete after [`Input::EndOfTurn`].
    pub fn handle(&mut self, now: Now, input: Input<'_>, out: &mut Output) {
        self.now = now;
        self.counters.inputs.one();
        match input {
            Input::Accepted { conn, listener, peer } => self.accepted(conn, listener, peer),
            Input::Client { conn, peer } => self.client(conn, peer),
            Input::Secured { conn, tls } => self.secured(conn, tls),
            Input::Received { conn, bytes } => self.received(conn, bytes),
            Input::Sent { conn } => self.sent(conn),
            Input::Progressed { conn } => self.progressed(conn),
            Input::Held { since_s } => self.held_s = since_s.unwrap_or(u32::MAX),
            Input::Lost { conn, how } => self.lost(conn, how),
            Input::Worn { conn } => {
                let text = "the keys of this TLS connection are used up";
                self.fail_stream(conn, crate::wire::error::StreamCondition::Reset, Some(text));
            }
            Input::Closed { conn } => self.closed(conn),
            Input::Arrived { conn, moved } => self.arrived(conn, *moved),
            Input::Stayed { conn } => self.stayed(conn),
            Input::Mail(batch) => {
                self.counters.letters_in.add(batch.len() as u64);
                self.read_mail(batch);
            }
            Input::Found { token, found } => self.found(token, found),
            Input::Done { token, done } => self.job_done(token, done),
            Input::Storage(state) => {
                self.storage = state;
                self.counters.storage_full.set(u64::from(state == StorageState::Full));
            }
            Input::Command { token, command } => self.command(token, command),
            Input::EndOfTurn => self.end_of_turn(out),
        }
        self.carry_out_endings();
    }

    /// Most rounds of mail to itself that one turn handles; what is left waits for the next turn.
    const OWN_MAIL_ROUNDS: usize = 8;

    fn end_of_turn(&mut self, out: &mut Output) {
        self.counters.turns.one();
        self.sweep();
        self.carry_out_endings();
        for _ in 0..Self::OWN_MAIL_ROUNDS {
            let own = &mut self.mail[self.id.index()];
            if own.is_empty() {
                break;
            }
            let batch = own.take();
            self.counters.letters_own.add(batch.len() as u64);
            self.read_mail(&batch);
            self.carry_out_endings();
        }
        self.flush_outbound();
        for (index, batch) in self.mail.iter_mut().enumerate() {
            if index != self.id.index() && !batch.is_empty() {
                self.counters.letters_out.add(batch.len() as u64);
                self.counters.mail_text_bytes_out.add(batch.text_bytes() as u64);
                let batch = batch.take();
                self.effects.push(Effect::Mail { to: ShardId(index as u16), batch });
            }
        }
        self.counters.writes.add(self.writes.len() as u64);
        // The host has taken the last turn's and left an empty batch, whose memory is used again.
        debug_assert!(out.writes.is_empty(), "writes of a turn were left behind");
        std::mem::swap(&mut out.writes, &mut self.writes);
        out.effects.append(&mut self.effects);
        self.publish_gauges();
    }

    /// Whether the host should start another turn at once: mail to itself is left over.
    pub fn has_own_mail(&self) -> bool {
        !self.mail[self.id.index()].is_empty()
    }

    fn publish_gauges(&mut self) {
        let c = &self.counters;
        if self.conns.take_changed() {
            c.connections.set(self.conns.held() as u64);
            let phases = [
                (&c.conns_opening, Phase::Opening),
                (&c.conns_securing, Phase::Securing),
                (&c.conns_authenticating, Phase::Authenticating),
                (&c.conns_authenticated, Phase::Authenticated),
                (&c.conns_bound, Phase::Bound),
                (&c.conns_closing, Phase::Closing),
                (&c.conns_departing, Phase::Departing),
            ];
            phases.into_iter().for_each(|(gauge, phase)| gauge.set(self.conns.in_phase(phase) as u64));
        }
        c.stanzas_in.set(c.messages_in.get() + c.presences_in.get() + c.iqs_in.get());
        c.stanzas_out.set(c.messages_out.get() + c.presences_out.get() + c.iqs_out.get());
        c.sessions.set(self.sessions.len() as u64);
        c.sessions_detached.set(self.sessions.detached() as u64);
        c.sessions_available.set(self.sessions.available() as u64);
        c.users_loaded.set(self.users.len() as u64);
        c.paused.set(self.conns.paused() as u64);
        c.outbound_bytes.set(self.levels.outbound_bytes as u64);
        c.parked.set(self.levels.parked as u64);
        c.jobs_pending.set((self.levels.jobs + self.jobs_waiting.len()) as u64);
        c.reads_pending.set((self.pending.len() - self.levels.jobs) as u64);
    }

    /// Reads mail once: what comes again could make an account again that has been removed meanwhile, or give back a charge
    /// twice. Mail of one shard comes in order, so what is not newer than the last has been read.
    fn read_mail(&mut self, batch: &MailBatch) {
        let last = &mut self.mail_read[batch.from.index()];
        if batch.number <= *last {
            return;
        }
        *last = batch.number;
        for letter in batch.letters() {
            self.read_letter(batch, letter);
        }
    }

    /// Whether the shard has let go of a connection that is still to be handed over: what it sends meanwhile is not for
    /// this shard, see [`Effect::Depart`].
    pub fn is_departing(&mut self, conn: ConnId) -> bool {
        self.conns.get(conn).is_some_and(|c| matches!(c.state(), crate::session::conn::ConnState::Departing))
    }

    /// The home of a user of the served domain.
    fn home(&self, bare: &str) -> ShardId {
        crate::id::home(bare, self.settings.shards)
    }

    /// The batch that goes to a shard with this turn.
    fn mail_to(&mut self, shard: ShardId) -> &mut MailBatch {
        &mut self.mail[shard.index()]
    }

    /// The bare JID of a localpart.
    fn bare(&self, local: &str) -> String {
        [local, "@", &*self.settings.domain].concat()
    }

    /// Asks the store; the answer comes back to [`Shard::found`].
    fn read(&mut self, pending: Pending, queries: Vec<Query>) {
        let token = self.token(pending);
        self.counters.reads.one();
        self.effects.push(Effect::Read { token, queries });
    }

    /// Hands out long work; the result comes back to [`Shard::job_done`].
    fn job(&mut self, pending: Pending, job: Job) {
        if self.jobs_waiting.len() >= 2 * self.conns.held() + JOBS_WAITING_SPARE {
            let conns = &mut self.conns;
            self.jobs_waiting.retain(|(pending, _)| !matches!(pending, Pending::Keys(id) if conns.get(*id).is_none()));
        }
        self.jobs_waiting.push((pending, job));
        self.hand_out_jobs();
    }

    /// Hands out jobs that wait, the latest first, and drops those that nobody waits for any more.
    fn hand_out_jobs(&mut self) {
        while self.levels.jobs < JOBS_UNDER_WAY_MAX
            && let Some((pending, job)) = self.jobs_waiting.pop()
        {
            if let Pending::Keys(conn) = pending
                && self.conns.get(conn).is_none()
            {
                continue;
            }
            let token = self.token(pending);
            self.counters.jobs.one();
            self.levels.jobs += 1;
            self.effects.push(Effect::Job { token, job });
        }
    }

    fn token(&mut self, pending: Pending) -> u64 {
        let token = self.next_token;
        self.next_token += 1;
        self.pending.insert(token, pending);
        token
    }

    /// How many numbers are reserved at once: a row for so many entries.
    const NUMBERS_RESERVED: u64 = 1 << 16;

    /// The next number of an entry. Numbers of a shard strictly increase, also across restarts; they say nothing of time.
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        if self.last_number >= self.numbers_reserved {
            self.numbers_reserved = self.last_number + Self::NUMBERS_RESERVED;
            let (sort, value) = (number_floor_sort_key(self.id), self.numbers_reserved.to_be_bytes());
            self.writes.put(Table::Meta, b"", &sort, &[&value]);
        }
        self.last_number
    }

    /// The id of the session behind a connection.
    fn session_of(&mut self, conn: ConnId) -> Option<SessionId> {
        match self.conns.get(conn)?.state() {
            crate::session::conn::ConnState::Bound(session) => Some(*session),
            _ => None,
        }
    }
}

/// Sort key of the [`Table::Meta`] row that says up to where a shard may have given out numbers of entries.
pub fn number_floor_sort_key(shard: ShardId) -> Vec<u8> {
    format!("{NUMBER_FLOOR_PREFIX}{shard}").into_bytes()
}

/// Prefix of all such sort keys.
pub const NUMBER_FLOOR_PREFIX: &str = "number-floor/";

/// A letter's address as an owned string.
fn owned(batch: &MailBatch, name: crate::mail::Name) -> Box<str> {
    batch.str(name).into()
}

/// Kept here so that `mail` need not know the shard.
pub(crate) type LetterRef<'a> = &'a Letter;
