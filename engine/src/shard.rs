//! The state of one thread. Two verbs: [`Shard::handle`] takes an [`Input`], and the resulting
//! actions are in the [`Output`] that the caller passes. The shard is the one parent: it knows all
//! modules, and each module returns a closed enum to it instead of calling the next.
//!
//! The modules are siblings: each owns its state and is passed what it uses of others. The code
//! that crosses modules is in these files, in the order of a stanza's path:
//! - [`intake`]: from the bytes of a connection to items
//! - [`http`] and [`websocket`]: the same for HTTP requests and WebSocket messages; [`items`] of
//!   either, and their [`last_words`]
//! - [`bosh`]: the same for BOSH sessions, whose input arrives in requests on other connections
//! - [`handover`]: BOSH sessions that arrive from another shard
//! - [`login`] and [`register`]: from the first header to an authenticated user, and the move to
//!   the user's home
//! - [`features`]: stream features
//! - [`bind`]: resources and resumption
//! - [`inline`]: the same, inlined into authentication
//! - [`outgoing`]: stanzas of a bound session, and their destinations
//! - [`letters`] and [`answers`] of the store, each to its module; [`dispatch`]: stanzas, finished
//!   work, and work that modules leave to the shard
//! - [`requests`]: the answers of extensions; [`components`]: what concerns both components and
//!   users; [`rooms`]: what rooms send to users, and ask of the extension of archives; [`casts`]:
//!   in which portions
//! - [`stored`]: rows of sessions; [`restore`]: sessions of an earlier process, [`tail`]: their
//!   resumption, [`again`]: messages that they may have sent already
//! - [`ending`]: carries out endings
//! - [`sweep`]: everything that depends on time alone
//! - [`command`] and [`backlog`]: the operator
//! - [`inspect`]: internal figures for tests

pub mod again;
pub mod answers;
pub mod backlog;
pub mod bind;
pub mod bosh;
pub mod casts;
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
mod renewed;
pub mod requests;
pub mod restore;
pub mod rooms;
pub mod stored;
pub mod sweep;
pub mod tail;
pub mod upgrade;
pub mod websocket;
mod written;

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
use crate::rooms::Rooms;
use crate::settings::Settings;
use crate::store::hash::SecretKey;
use crate::streams::Streams;
use crate::wire::Scanner;
use requests::Requests;

pub use crate::kernel::{NUMBER_FLOOR_PREFIX, number_floor_sort_key};

/// The state of one shard.
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
    rooms: Rooms,
    last_of_rooms: rooms::LastOfRooms,
    casts: casts::Casts,
    /// Scratch memory for the tags of one item.
    scanner: Scanner,
    /// Scratch memory for the full JID of a stanza's sender.
    full: String,
    /// Stream features, as far as they are the same for all connections.
    features: features::Features,
    sweeper: sweep::Sweeper,
    /// The receiver whose rows are the current input, until endings are carried out.
    came: Option<dispatch::Came>,
    /// Whether the server is stopping: rows of users are then written once more at the end of the
    /// turn.
    stops: bool,
    tails: tail::Tails,
    agains: again::Agains,
    /// When rows of changed sessions were last written, milliseconds of the monotonic clock.
    stored_ms: u64,
    /// Number of attempts to resume sessions of an earlier process.
    tail_attempts: u64,
    /// Whether warnings were logged that a proxy names no client, and that it sends an invalid
    /// address.
    unnamed_warned: (bool, bool),
}

impl Shard {
    /// Creates an empty shard. `seed` is the source of everything that must not be predictable:
    /// nonces, resumption tokens, resources, incarnations of accounts, and the key of the index of
    /// users.
    pub fn new(id: ShardId, settings: Arc<Settings>, counters: Arc<Counters>, seed: [u8; 32]) -> Shard {
        let users_key = SecretKey::new(&seed).tag(&[b"users"]);
        let users_key = *users_key.as_bytes().first_chunk().expect("32 bytes");
        let presence_seed = u64::from_le_bytes(*seed.first_chunk().expect("8 bytes"));
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
            rooms: Rooms::new(),
            last_of_rooms: rooms::LastOfRooms::default(),
            casts: casts::Casts::default(),
            cx: Streams::new(turn),
            scanner: Scanner::new(),
            full: String::new(),
            features,
            sweeper: sweep::Sweeper::default(),
            came: None,
            stops: false,
            tails: tail::Tails::default(),
            agains: again::Agains::default(),
            stored_ms: 0,
            tail_attempts: 0,
            unnamed_warned: (false, false),
        }
    }

    /// The shard's id.
    pub fn id(&self) -> ShardId {
        self.cx.kernel.id
    }

    /// The shard's counters.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.cx.kernel.counters
    }

    /// The home of a bare JID.
    pub fn home(&self, bare: &str) -> ShardId {
        self.cx.kernel.home(bare)
    }

    /// Whether a connection is about to move to another shard.
    pub fn is_departing(&mut self, conn: ConnId) -> bool {
        self.cx.is_departing(conn)
    }

    /// The address of a connection's client: named by a proxy, or that of the peer.
    pub fn client_of(&self, conn: ConnId) -> Option<IpAddr> {
        self.cx.client_of(conn)
    }

    /// Prefetches the state of these connections, which is about to be needed, so that the cache
    /// misses overlap.
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
                let text = "this TLS connection has used up its keys; reconnect";
                self.cx.fail_stream(conn, crate::wire::error::StreamCondition::Reset, Some(text));
            }
            Input::Closed { conn } => self.closed(conn),
            Input::Arrived { conn, moved } => self.arrived(conn, *moved),
            Input::Stayed { conn, moved } => self.stayed(conn, *moved),
            Input::Letters(batch) => {
                self.cx.kernel.counters.letters_in.add(batch.len() as u64);
                self.read_letters(batch);
            }
            Input::Renewed { peer } => self.link_renewed(peer),
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

    /// Maximum rounds of letters to itself in one turn; the rest waits for the next turn.
    const OWN_LETTER_ROUNDS: usize = 8;

    fn end_of_turn(&mut self, out: &mut Output) {
        self.cx.kernel.counters.turns.one();
        self.sweep();
        self.settle();
        for _ in 0..Self::OWN_LETTER_ROUNDS {
            let Some(batch) = self.cx.kernel.take_own_letters() else { break };
            self.read_letters(&batch);
            self.settle();
            // From now on, closed pages are sent what was published. A page whose poll is answered
            // later counts as having listened.
            self.sweep_web_pushes();
            self.cx.kernel.keep_own_letters(batch);
        }
        self.components.feed_components(&mut self.cx);
        if self.cx.bosh.is_dirty() {
            self.flush_requests();
        }
        self.actors.flush_outbound(&mut self.cx);
        self.write_owed_sessions();
        if std::mem::take(&mut self.stops) {
            self.write_last_rows();
        }
        self.cx.kernel.leave(out);
        self.publish_gauges();
    }

    /// Answers the BOSH requests that are due, and continues connections that waited for this.
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

    /// Whether the host should start another turn at once, because letters to itself, subscribers to
    /// notify or receivers of a room's stanza are left over.
    pub fn has_more_to_do(&self) -> bool {
        let is_delivering = self.channels.is_telling(&self.cx) || self.is_casting();
        self.cx.kernel.own_letters_wait() || self.cx.bosh.is_dirty() || is_delivering
    }

    fn publish_gauges(&mut self) {
        self.cx.publish_streams();
        self.actors.publish_actors(&self.cx);
        let c = &self.cx.kernel.counters;
        c.stanzas_in.set(c.messages_in.get() + c.presences_in.get() + c.iqs_in.get());
        c.stanzas_out.set(c.messages_out.get() + c.presences_out.get() + c.iqs_out.get());
    }

    /// Reads a batch of letters. Each batch arrives once and in order: a repeated one could create a
    /// removed account again, or return a charge twice. Within a process a ring sees to that, and
    /// between processes the link ([`crate::link`]).
    fn read_letters(&mut self, batch: &Letters) {
        for letter in batch.letters() {
            self.read_letter(batch, letter);
        }
    }
}
