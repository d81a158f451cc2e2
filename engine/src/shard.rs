//! One thread's world. Two verbs: [`Shard::handle`] puts an [`Input`] in, and what has to be done comes out in the
//! [`Output`] given along. The shard is the one parent: it knows all modules, and each module answers it with a closed enum
//! instead of calling the next.
//!
//! What is told apart stands on floors of its own (`floor`): the turn, streams, actors, logs, contacts, accounts.
//! The shard itself knows them all, and holds what goes across them, in the order of a stanza's way:
//! - [`intake`]: bytes of a connection to items
//! - [`http`] and [`websocket`]: the same where they are requests, or messages; [`items`] of either, and their [`last_words`]
//! - [`bosh`]: the same where requests of other connections bring them
//! - [`handover`]: sessions of those that come over
//! - [`login`] and [`register`]: from the first header to an authenticated user, and the move to the user's home
//! - [`features`]: what streams offer
//! - [`bind`]: resources and resumption
//! - [`inline`]: the same together with authentication
//! - [`outgoing`]: what a bound session sends, and where it goes
//! - [`dispatch`]: letters, answers of the store and finished work
//! - [`iq`]: requests that the server answers, and [`in_turn`]: those that are answered one after another
//! - [`nodes`] and [`at_nodes`]: actors of services with a domain of their own
//! - [`listening`]: requests at `/n/`, which wait as [`listeners`] of [`addresses`] (each a [`listener`]) for what is [`watched`], and [`listener_words`] to them; [`channels`]: what they ask of channels by [`asking`], and [`watchers`] of these
//! - [`feeds`] ([`feed_names`]) are channels at one home by a prefix of their names, for requests that wait for [`prefixes`]
//! - [`inquiring`]: whether they may be done, where others say so; [`decisions`] of these that count still
//! - [`talking`]: commands of Centrifugo's protocol to what each wants ([`talk`]), of a [`talker`]; [`talk_answers`] of homes, and [`talk_words`] to it
//! - who waits there are [`occupants`], a [`crowd`] of each channel: [`occupying`] it, and its [`occupancy`] at its home
//! - pages register there for pushes by [`registering`], and are told while none of them is [`awake`]: [`web_push`], by [`web_pushes`];
//!   [`web_push_ends`] of registrations
//! - [`adhoc`]: commands of users, and orders of administrators
//! - [`bytestreams`]: those that users want to begin, by the host's proxy
//! - [`push`]: services that wake devices are told of messages, by [`pushes`]
//! - [`component`]: streams of external components, [`to_component`] and [`from_component`]: their stanzas, by [`seats`]
//! - [`paced`]: requests that wait for room for their answer
//! - [`restore`]: sessions of an earlier process, [`tail`]: their resumption, [`again`]: what they may have sent already
//! - [`ending`]: endings carried out
//! - [`sweep`]: everything that depends on time alone
//! - [`command`] and [`backlog`]: the operator
//! - [`inspect`]: a look inside for tests

pub mod access;
pub mod addresses;
pub mod adhoc;
pub mod again;
pub mod asking;
pub mod at_nodes;
pub mod awake;
pub mod backlog;
pub mod binary;
pub mod bind;
pub mod bosh;
pub mod bytestreams;
pub mod channels;
pub mod command;
pub mod component;
pub mod crowd;
pub mod decisions;
pub mod dispatch;
#[cfg(debug_assertions)]
pub mod echo;
pub mod ending;
pub mod features;
pub mod feed_names;
pub mod feeds;
pub mod from_component;
pub mod halves;
pub mod handover;
pub mod http;
pub mod in_turn;
pub mod inline;
pub mod inquiring;
pub mod inspect;
pub mod intake;
pub mod iq;
pub mod items;
pub mod last_words;
pub mod listener;
pub mod listener_words;
pub mod listeners;
pub mod listening;
pub mod login;
pub mod nchan;
pub mod nchan_polls;
pub mod nodes;
pub mod occupancy;
pub mod occupants;
pub mod occupying;
pub mod outgoing;
pub mod outside;
pub mod paced;
pub mod places;
pub mod prefixes;
pub mod proven;
pub mod publishing;
pub mod push;
pub mod pushes;
pub mod register;
pub mod registering;
pub mod reports;
pub mod restore;
pub mod seats;
pub mod subscriber;
pub mod sweep;
pub mod tail;
pub mod talk;
pub mod talk_answers;
pub mod talk_words;
pub mod talker;
pub mod talking;
pub mod tallies;
pub mod to_component;
pub mod upgrade;
pub mod watched;
pub mod watchers;
pub mod web_push;
pub mod web_push_ends;
pub mod web_pushes;
pub mod websocket;

use std::sync::Arc;

use hashbrown::HashMap;

use crate::accounts::Accounts;
use crate::actors::Actors;
use crate::contacts::Contacts;
use crate::counters::Counters;
use crate::extension::adhoc::sessions::Sessions;
use crate::extension::pubsub::service::known::KnownNodes;
use crate::floor::stands_on;
use crate::id::{Now, ShardId};
use crate::io::{Input, Output, StorageState};
use crate::letters::Letters;
use crate::logs::Logs;
use crate::settings::Settings;
use crate::store::hash::SecretKey;
use crate::streams::Streams;
use crate::turn::{Fixed, Turn};
use crate::wire::Scanner;

pub use crate::turn::{NUMBER_FLOOR_PREFIX, number_floor_sort_key};

/// One shard.
#[derive(Debug)]
pub struct Shard {
    accounts: Accounts,
    /// Memory for the tags of one item at a time.
    scanner: Scanner,
    /// Memory for one message of a WebSocket at a time.
    message: Vec<u8>,
    /// One more reference to it is with each long body that is on its way.
    long_bodies: Arc<()>,
    /// What streams offer, as far as it is the same for all.
    features: features::Features,
    /// The number of the last batch that was read from each shard.
    letters_read: Vec<u64>,
    sweeper: sweep::Sweeper,
    /// The receiver whose rows are this input, until endings are carried out.
    came: Option<dispatch::Came>,
    /// The server stops: rows of users are written once more at the end of the turn.
    stops: bool,
    /// Requests that wait for room for their answer, by the user whose sessions ask; only of users of whom some are under way or wait.
    paced: HashMap<u32, paced::Waiting, Fixed>,
    turns: in_turn::Turns,
    /// What is known of nodes of services of this home at which something was published lately.
    known_nodes: KnownNodes,
    /// Open sessions of commands.
    adhoc: Sessions,
    /// Commands that are being carried out.
    orders_under_way: usize,
    activations: bytestreams::Activations,
    pushes: pushes::Pushes,
    /// Pages that are told of items of channels of this home while they are closed.
    web_pushes: web_pushes::WebPushes,
    /// Components whose home this is.
    seats: seats::Seats,
    /// Tokens that were verified.
    grants: access::Known,
    /// What others have said of requests for channels.
    decisions: decisions::Decisions,
    /// Requests that wait for channels.
    listeners: listeners::Listeners,
    /// Who watches channels of this home.
    watchers: watchers::Watchers,
    /// What was published lately below prefixes that are watched.
    feeds: feeds::Feeds,
    /// Who subscribes to channels of this home.
    occupancy: occupancy::Occupancy,
    tails: tail::Tails,
    /// Resumptions of sessions of an earlier process that were begun.
    tail_attempts: u64,
}

stands_on!(Shard, accounts: Accounts);

impl Shard {
    /// A shard with nothing in it. `seed` feeds all that must not be guessed: nonces, resumption tokens, resources, which account
    /// of its name one is, and the places of users in their index.
    pub fn new(id: ShardId, settings: Arc<Settings>, counters: Arc<Counters>, seed: [u8; 32]) -> Shard {
        let users_key = SecretKey::new(&seed).tag(&[b"users"]);
        let users_key = *users_key.as_bytes().first_chunk().expect("32 bytes");
        let presence_seed = u64::from_le_bytes(*seed.first_chunk().expect("8 bytes"));
        let features = features::Features::of(&settings);
        let letters_read = vec![0; usize::from(settings.shards())];
        let turn = Turn::new(id, settings, counters, seed);
        let logs = Logs::new(Actors::new(Streams::new(turn), users_key));
        Shard {
            accounts: Accounts::new(Contacts::new(logs, presence_seed)),
            scanner: Scanner::new(),
            message: Vec::new(),
            long_bodies: Arc::default(),
            features,
            letters_read,
            sweeper: sweep::Sweeper::default(),
            came: None,
            stops: false,
            paced: HashMap::default(),
            turns: in_turn::Turns::default(),
            known_nodes: KnownNodes::default(),
            adhoc: Sessions::default(),
            orders_under_way: 0,
            activations: bytestreams::Activations::default(),
            pushes: pushes::Pushes::default(),
            web_pushes: web_pushes::WebPushes::default(),
            seats: seats::Seats::default(),
            grants: access::Known::default(),
            decisions: decisions::Decisions::default(),
            listeners: listeners::Listeners::default(),
            watchers: watchers::Watchers::default(),
            feeds: feeds::Feeds::default(),
            occupancy: occupancy::Occupancy::default(),
            tails: tail::Tails::default(),
            tail_attempts: 0,
        }
    }

    /// Handles one input at `now`. Effects and writes are complete after [`Input::EndOfTurn`].
    pub fn handle(&mut self, now: Now, input: Input<'_>, out: &mut Output) {
        self.now = now;
        self.counters.inputs.one();
        match input {
            Input::Accepted { conn, listener, peer } => self.accepted(conn, listener, peer),
            Input::AcceptedHttp { conn, listener, peer } => self.accepted_http(conn, listener, peer),
            Input::Client { conn, peer } => self.client(conn, peer),
            Input::Secured { conn, tls } => self.secured(conn, tls),
            Input::Received { conn, bytes } => self.received(conn, bytes),
            Input::AcceptedComponent { conn, peer } => self.accepted_component(conn, peer),
            Input::Sent { conn } => {
                self.sent(conn);
                if self.seats.any() {
                    self.component_sent(conn);
                }
                if self.listeners.any() {
                    self.listener_sent(conn);
                }
            }
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
            Input::Letters(batch) => {
                self.counters.letters_in.add(batch.len() as u64);
                self.read_letters(batch);
            }
            Input::Found { token, found } => self.found(token, found),
            Input::Done { token, done } => self.job_done(token, done),
            Input::Told { token, verdict } => self.told(token, verdict),
            Input::Decided { token, decision } => self.decided(token, decision),
            Input::Ordered { token, outcome } => self.ordered(token, &outcome),
            Input::Activated { token, activated } => self.activated(token, activated),
            Input::Pushed { token, outcome } => self.page_pushed(token, outcome),
            Input::Storage(state) => {
                self.storage = state;
                self.counters.storage_full.set(u64::from(state == StorageState::Full));
            }
            Input::Command { token, command } => self.command(token, command),
            Input::EndOfTurn => self.end_of_turn(out),
        }
        self.settle();
    }

    /// Most rounds of letters to itself that one turn handles; what is left waits for the next turn.
    const OWN_LETTER_ROUNDS: usize = 8;

    fn end_of_turn(&mut self, out: &mut Output) {
        self.counters.turns.one();
        self.sweep();
        self.settle();
        for _ in 0..Self::OWN_LETTER_ROUNDS {
            let Some(batch) = self.take_own_letters() else { break };
            self.read_letters(&batch);
            self.settle();
            // What was published is told to closed pages from now on: one whose poll it answers next has listened to it.
            self.sweep_web_pushes();
            self.keep_own_letters(batch);
        }
        self.feed_components();
        if self.bosh.is_dirty() {
            self.flush_requests();
        }
        self.flush_outbound();
        self.write_owed_sessions();
        if std::mem::take(&mut self.stops) {
            self.write_last_rows();
        }
        self.leave(out);
        self.publish_gauges();
    }

    /// Requests of BOSH are answered that are due, and connections go on that have waited for that.
    fn flush_requests(&mut self) {
        let sent = self.flush_bosh();
        if self.observers.is_some() {
            for conn in sent {
                self.tap_sending(conn);
                self.tap_sent(conn);
            }
        }
        self.settle();
    }

    /// Whether the host should start another turn at once: letters to itself are left over.
    pub fn has_own_letters(&self) -> bool {
        self.own_letters_wait() || self.bosh.is_dirty()
    }

    fn publish_gauges(&mut self) {
        self.publish_streams();
        self.publish_actors();
        let c = &self.counters;
        c.stanzas_in.set(c.messages_in.get() + c.presences_in.get() + c.iqs_in.get());
        c.stanzas_out.set(c.messages_out.get() + c.presences_out.get() + c.iqs_out.get());
    }

    /// Reads letters once: what comes again could make an account again that has been removed meanwhile, or give back a charge
    /// twice. Letters of one shard come in order, so what is not newer than the last has been read.
    fn read_letters(&mut self, batch: &Letters) {
        let last = &mut self.letters_read[batch.from.index()];
        if batch.number <= *last {
            return;
        }
        *last = batch.number;
        for letter in batch.letters() {
            self.read_letter(batch, letter);
        }
    }
}
