//! One thread's world. Two verbs: [`Shard::handle`] puts an [`Input`] in, and what has to be done comes out in the
//! [`Output`] given along. The shard is the one parent: it knows all modules, and each module answers it with a closed enum
//! instead of calling the next.
//!
//! What is told apart stands on floors of its own (`floor`): the turn, streams, channels, actors, logs, contacts, accounts,
//! requests, components.
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
//! - [`restore`]: sessions of an earlier process, [`tail`]: their resumption, [`again`]: what they may have sent already
//! - [`ending`]: endings carried out
//! - [`sweep`]: everything that depends on time alone
//! - [`command`] and [`backlog`]: the operator
//! - [`inspect`]: a look inside for tests

pub mod again;
pub mod backlog;
pub mod bind;
pub mod bosh;
pub mod command;
pub mod dispatch;
#[cfg(debug_assertions)]
pub mod echo;
pub mod ending;
pub mod features;
pub mod following;
pub mod handover;
pub mod http;
pub mod inline;
pub mod inspect;
pub mod intake;
pub mod items;
pub mod last_words;
pub mod login;
pub mod outgoing;
pub mod outside;
pub mod proven;
pub mod register;
pub mod restore;
pub mod sweep;
pub mod tail;
pub mod upgrade;
pub mod websocket;

use std::sync::Arc;

use crate::accounts::Accounts;
use crate::actors::Actors;
use crate::channels::Channels;
use crate::components::Components;
use crate::contacts::Contacts;
use crate::counters::Counters;
use crate::floor::stands_on;
use crate::id::{Now, ShardId};
use crate::io::{Input, Output, StorageState};
use crate::letters::Letters;
use crate::logs::Logs;
use crate::requests::Requests;
use crate::settings::Settings;
use crate::store::hash::SecretKey;
use crate::streams::Streams;
use crate::turn::Turn;
use crate::wire::Scanner;

pub use crate::turn::{NUMBER_FLOOR_PREFIX, number_floor_sort_key};

/// One shard.
#[derive(Debug)]
pub struct Shard {
    components: Components,
    /// Memory for the tags of one item at a time.
    scanner: Scanner,
    /// Memory for the full JID of whom a stanza is from.
    full: String,
    /// What streams offer, as far as it is the same for all.
    features: features::Features,
    /// The number of the last batch that was read from each shard.
    letters_read: Vec<u64>,
    sweeper: sweep::Sweeper,
    /// The receiver whose rows are this input, until endings are carried out.
    came: Option<dispatch::Came>,
    /// The server stops: rows of users are written once more at the end of the turn.
    stops: bool,
    tails: tail::Tails,
    agains: again::Agains,
    /// Resumptions of sessions of an earlier process that were begun.
    tail_attempts: u64,
    /// It was said that a proxy has named no client, and that what it has written is no address.
    unnamed_warned: (bool, bool),
}

stands_on!(Shard, components: Components);

impl Shard {
    /// A shard with nothing in it. `seed` feeds all that must not be guessed: nonces, resumption tokens, resources, which account
    /// of its name one is, and the places of users in their index.
    pub fn new(id: ShardId, settings: Arc<Settings>, counters: Arc<Counters>, seed: [u8; 32]) -> Shard {
        let users_key = SecretKey::new(&seed).tag(&[b"users"]);
        let users_key = *users_key.as_bytes().first_chunk().expect("32 bytes");
        let presence_seed = u64::from_le_bytes(*seed.first_chunk().expect("8 bytes"));
        let letters_read = vec![0; usize::from(settings.shards())];
        let turn = Turn::new(id, settings, counters, seed);
        let features = features::Features::of(&turn.settings, &turn.facts);
        let logs = Logs::new(Actors::new(Channels::new(Streams::new(turn)), users_key));
        Shard {
            components: Components::new(Requests::new(Accounts::new(Contacts::new(logs, presence_seed)))),
            scanner: Scanner::new(),
            full: String::new(),
            features,
            letters_read,
            sweeper: sweep::Sweeper::default(),
            came: None,
            stops: false,
            tails: tail::Tails::default(),
            agains: again::Agains::default(),
            tail_attempts: 0,
            unnamed_warned: (false, false),
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
                if self.has_seats() {
                    self.component_sent(conn);
                }
                if self.has_listeners() {
                    self.listener_sent(conn);
                }
            }
            Input::Progressed { conn } => self.progressed(conn),
            Input::Held { since_s, many } => (self.held_s, self.many_held) = (since_s.unwrap_or(u32::MAX), many),
            Input::Lost { conn, how } => self.lost(conn, how),
            Input::Worn { conn } => {
                let text = "the keys of this TLS connection are used up";
                self.fail_stream(conn, crate::wire::error::StreamCondition::Reset, Some(text));
            }
            Input::Closed { conn } => self.closed(conn),
            Input::Arrived { conn, moved } => self.arrived(conn, *moved),
            Input::Stayed { conn, moved } => self.stayed(conn, *moved),
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

    /// Whether the host should start another turn at once: letters to itself, or subscribers that are to be told, are left over.
    pub fn has_more_to_do(&self) -> bool {
        self.own_letters_wait() || self.bosh.is_dirty() || self.is_telling()
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
