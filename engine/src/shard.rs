//! One thread's world. Two verbs: [`Shard::handle`] puts an [`Input`] in, and what has to be done comes out in the
//! [`Output`] given along. The shard is the one parent: it knows all modules, and each module answers it with a closed enum
//! instead of calling the next.
//!
//! The modules are siblings: each owns its state and is handed what it uses of others. What crosses them is here, in the order of a
//! stanza's way:
//! - [`intake`]: bytes of a connection to items
//! - [`http`] and [`websocket`]: the same where they are requests, or messages; [`items`] of either, and their [`last_words`]
//! - [`bosh`]: the same where requests of other connections bring them
//! - [`handover`]: sessions of those that come over
//! - [`login`] and [`register`]: from the first header to an authenticated user, and the move to the user's home
//! - [`features`]: what streams offer
//! - [`bind`]: resources and resumption
//! - [`inline`]: the same together with authentication
//! - [`outgoing`]: what a bound session sends, and where it goes
//! - [`letters`] and [`answers`] of the store, each to its module; [`dispatch`]: stanzas, finished work, and what modules leave to be done
//! - [`requests`]: the answers of extensions; [`components`]: what crosses components and users
//! - [`restore`]: sessions of an earlier process, [`tail`]: their resumption, [`again`]: what they may have sent already
//! - [`ending`]: endings carried out
//! - [`sweep`]: everything that depends on time alone
//! - [`command`] and [`backlog`]: the operator
//! - [`inspect`]: a look inside for tests

pub mod again;
pub mod answers;
pub mod backlog;
pub mod bind;
pub mod bosh;
pub mod command;
pub mod components;
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
pub mod letters;
pub mod login;
pub mod outgoing;
pub mod outside;
pub mod proven;
pub mod register;
pub mod requests;
pub mod restore;
pub mod sweep;
pub mod tail;
pub mod upgrade;
pub mod websocket;

use std::net::IpAddr;
use std::sync::Arc;

use crate::accounts::Accounts;
use crate::actors::Actors;
use crate::channels::Channels;
use crate::components::Components;
use crate::contacts::Contacts;
use crate::counters::Counters;
use crate::id::{ConnId, Now, ShardId};
use crate::io::{Input, Output, StorageState};
use crate::kernel::Kernel;
use crate::letters::Letters;
use crate::logs::Logs;
use crate::settings::Settings;
use crate::store::hash::SecretKey;
use crate::streams::Streams;
use crate::wire::Scanner;
use requests::Requests;

pub use crate::kernel::{NUMBER_FLOOR_PREFIX, number_floor_sort_key};

/// One shard.
#[derive(Debug)]
pub struct Shard {
    cx: Streams,
    channels: Channels,
    actors: Actors,
    logs: Logs,
    contacts: Contacts,
    accounts: Accounts,
    requests: Requests,
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

impl Shard {
    /// A shard with nothing in it. `seed` feeds all that must not be guessed: nonces, resumption tokens, resources, which account
    /// of its name one is, and the places of users in their index.
    pub fn new(id: ShardId, settings: Arc<Settings>, counters: Arc<Counters>, seed: [u8; 32]) -> Shard {
        let users_key = SecretKey::new(&seed).tag(&[b"users"]);
        let users_key = *users_key.as_bytes().first_chunk().expect("32 bytes");
        let presence_seed = u64::from_le_bytes(*seed.first_chunk().expect("8 bytes"));
        let letters_read = vec![0; usize::from(settings.shards())];
        let turn = Kernel::new(id, settings, counters, seed);
        let features = features::Features::of(&turn.settings, &turn.facts);
        Shard {
            channels: Channels::new(),
            actors: Actors::new(turn.settings.domains.clone(), users_key),
            logs: Logs::new(),
            contacts: Contacts::new(&turn.settings, presence_seed),
            accounts: Accounts::new(&turn.settings),
            requests: Requests::new(),
            components: Components::new(),
            cx: Streams::new(turn),
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

    /// Which shard it is.
    pub fn id(&self) -> ShardId {
        self.cx.kernel.id
    }

    /// What the shard counts.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.cx.kernel.counters
    }

    /// Which shard is the home of a bare JID.
    pub fn home(&self, bare: &str) -> ShardId {
        self.cx.kernel.home(bare)
    }

    /// Whether a connection is about to move to another shard.
    pub fn is_departing(&mut self, conn: ConnId) -> bool {
        self.cx.is_departing(conn)
    }

    /// The address of a connection's client, as a proxy names it or as it has connected.
    pub fn client_of(&self, conn: ConnId) -> Option<IpAddr> {
        self.cx.client_of(conn)
    }

    /// What is kept of these connections is about to be needed: the processor fetches it for all of them at once, and not for one
    /// after the other.
    pub fn fetch(&self, conns: &[ConnId]) {
        self.channels.fetch(&self.cx, conns);
    }

    /// Handles one input at `now`. Effects and writes are complete after [`Input::EndOfTurn`].
    pub fn handle(&mut self, now: Now, input: Input<'_>, out: &mut Output) {
        self.cx.kernel.now = now;
        self.cx.kernel.counters.inputs.one();
        match input {
            Input::Accepted { conn, listener, peer } => self.cx.accepted(conn, listener, peer),
            Input::AcceptedHttp { conn, listener, peer } => self.accepted_http(conn, listener, peer),
            Input::Client { conn, peer } => self.cx.client(conn, peer),
            Input::Secured { conn, tls } => self.cx.secured(conn, tls),
            Input::Received { conn, bytes } => self.received(conn, bytes),
            Input::AcceptedComponent { conn, peer } => self.components.accepted_component(&mut self.cx, conn, peer),
            Input::Sent { conn } => {
                self.logs.sent(&mut self.cx, &mut self.actors, conn);
                if self.components.has_seats() {
                    self.components.component_sent(&mut self.cx, conn);
                }
                if self.channels.has_listeners() {
                    self.channels.listener_sent(&mut self.cx, conn);
                }
            }
            Input::Progressed { conn } => self.cx.progressed(conn),
            Input::Held { since_s, many } => (self.cx.held_s, self.cx.many_held) = (since_s.unwrap_or(u32::MAX), many),
            Input::Lost { conn, how } => self.cx.lost(conn, how),
            Input::Worn { conn } => {
                let text = "the keys of this TLS connection are used up";
                self.cx.fail_stream(conn, crate::wire::error::StreamCondition::Reset, Some(text));
            }
            Input::Closed { conn } => self.closed(conn),
            Input::Arrived { conn, moved } => self.arrived(conn, *moved),
            Input::Stayed { conn, moved } => self.stayed(conn, *moved),
            Input::Letters(batch) => {
                self.cx.kernel.counters.letters_in.add(batch.len() as u64);
                self.read_letters(batch);
            }
            Input::Found { token, found } => self.found(token, found),
            Input::Done { token, done } => self.job_done(token, done),
            Input::Told { token, verdict } => self.told(token, verdict),
            Input::Decided { token, decision } => self.channels.decided(&mut self.cx, token, decision),
            Input::Ordered { token, outcome } => self.ordered(token, &outcome),
            Input::Activated { token, activated } => self.activated(token, activated),
            Input::Pushed { token, outcome } => self.page_pushed(token, outcome),
            Input::Storage(state) => {
                self.cx.kernel.storage = state;
                self.cx.kernel.counters.storage_full.set(u64::from(state == StorageState::Full));
            }
            Input::Command { token, command } => self.command(token, command),
            Input::EndOfTurn => self.end_of_turn(out),
        }
        self.settle();
    }

    /// Most rounds of letters to itself that one turn handles; what is left waits for the next turn.
    const OWN_LETTER_ROUNDS: usize = 8;

    fn end_of_turn(&mut self, out: &mut Output) {
        self.cx.kernel.counters.turns.one();
        self.sweep();
        self.settle();
        for _ in 0..Self::OWN_LETTER_ROUNDS {
            let Some(batch) = self.cx.kernel.take_own_letters() else { break };
            self.read_letters(&batch);
            self.settle();
            // What was published is told to closed pages from now on: one whose poll it answers next has listened to it.
            self.sweep_web_pushes();
            self.cx.kernel.keep_own_letters(batch);
        }
        self.components.feed_components(&mut self.cx);
        if self.cx.bosh.is_dirty() {
            self.flush_requests();
        }
        self.actors.flush_outbound(&mut self.cx);
        self.contacts.write_owed_sessions(&mut self.cx, &mut self.actors, &mut self.logs);
        if std::mem::take(&mut self.stops) {
            self.write_last_rows();
        }
        self.cx.kernel.leave(out);
        self.publish_gauges();
    }

    /// Requests of BOSH are answered that are due, and connections go on that have waited for that.
    fn flush_requests(&mut self) {
        let sent = self.cx.flush_bosh();
        if self.actors.observers.is_some() {
            for conn in sent {
                self.actors.tap_sending(&mut self.cx, conn);
                self.actors.tap_sent(&mut self.cx, conn);
            }
        }
        self.settle();
    }

    /// Whether the host should start another turn at once: letters to itself, or subscribers that are to be told, are left over.
    pub fn has_more_to_do(&self) -> bool {
        self.cx.kernel.own_letters_wait() || self.cx.bosh.is_dirty() || self.channels.is_telling(&self.cx)
    }

    fn publish_gauges(&mut self) {
        self.cx.publish_streams();
        self.actors.publish_actors(&self.cx);
        let c = &self.cx.kernel.counters;
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
