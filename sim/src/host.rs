//! One shard on a store: a host without time, randomness or network of its own, for tests that
//! examine each effect.
//!
//! An input is a turn, followed by those in which the store answers, jobs finish and letters to the
//! own shard arrive.

use std::sync::Arc;

use throng_engine::counters::Counters;
use throng_engine::id::{ConnId, Now, ShardId};
use throng_engine::io::{Effect, Input, ListenerKind, Output, Reply};
use throng_engine::session::moved::{Errand, Moved};
use throng_engine::session::sasl::Authenticated;
use throng_engine::settings::Settings;
use throng_engine::shard::Shard;
use throng_engine::store::Table;
use throng_engine::store::account::{Credentials, Incarnation};
use throng_engine::web::Transport;

use crate::disk::Disk;

/// The first output of a client.
pub const HEADER: &str = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' to='localhost' version='1.0'>";
/// A client's request for any resource.
pub const BIND: &str = "<iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>";

/// The shard and its store. All writes are durable at once.
#[derive(Debug)]
pub struct Host {
    /// The shard.
    pub shard: Shard,
    /// The store.
    pub disk: Disk,
    /// The time of the next turn. Expiry uses its wall time, unless [`Host::expiry_us`] is set.
    pub now: Now,
    /// The time for expiry while the wall clock is in doubt, microseconds since 1970.
    pub expiry_us: Option<u64>,
    /// Whether sends and closes complete as soon as they begin. If not, the test completes them, by
    /// [`Host::sent`] and [`Input::Closed`].
    pub prompt: bool,
    out: Output,
}

impl Host {
    /// The first of the shards in these settings, one second after its start, with prompt clients.
    pub fn new(settings: Settings) -> Host {
        let shard = Shard::new(ShardId(0), Arc::new(settings), Arc::new(Counters::default()), [0; 32]);
        let now = Now::new(1_000, 1_000_000);
        Host { shard, disk: Disk::default(), now, expiry_us: None, prompt: true, out: Output::default() }
    }

    /// Creates an account without a usable password: [`Host::arrive`] needs none.
    pub fn account(&mut self, local: &str) {
        self.disk.put(Table::Accounts, &format!("{local}@localhost"), b"", b"");
    }

    /// Creates an account with a password, in this incarnation.
    ///
    /// # Panics
    /// If the password is not valid for an account.
    pub fn account_with(&mut self, local: &str, password: &str, incarnation: u64) {
        let keys =
            Credentials::derive(password, 4096, &[3; 16], 0).expect("a password").of(Incarnation::drawn(incarnation));
        let mut record = Vec::new();
        keys.encode(&mut record);
        self.disk.put(Table::Accounts, &format!("{local}@localhost"), b"", &record);
    }

    fn time(&self) -> Now {
        Now { expiry_us: self.expiry_us.unwrap_or(self.now.wall_us), ..self.now }
    }

    /// Runs one turn with this input, and those that follow from it: returns all effects in order,
    /// except jobs, which are executed.
    pub fn turn(&mut self, input: Input<'_>) -> Vec<Effect> {
        self.shard.handle(self.time(), input, &mut self.out);
        let mut all = Vec::new();
        loop {
            self.shard.handle(self.time(), Input::EndOfTurn, &mut self.out);
            self.disk.apply(&self.out.writes);
            self.out.writes.clear();
            let effects = std::mem::take(&mut self.out.effects);
            if effects.is_empty() && !self.shard.has_more_to_do() {
                return all;
            }
            for effect in effects {
                let (answer, effect) = match effect {
                    Effect::Job { token, job } => (Some(Input::Done { token, done: job.run() }), None),
                    effect => (self.answer(&effect), Some(effect)),
                };
                if let Some(answer) = answer {
                    self.shard.handle(self.time(), answer, &mut self.out);
                }
                all.extend(effect);
            }
        }
    }

    /// Passes an input without ending the turn: it belongs to the turn that the next [`Host::turn`]
    /// ends.
    pub fn take(&mut self, input: Input<'_>) {
        self.shard.handle(self.time(), input, &mut self.out);
    }

    /// The immediate answer to an effect.
    fn answer(&self, effect: &Effect) -> Option<Input<'static>> {
        match effect {
            Effect::Read { token, queries } => {
                let found = queries.iter().map(|query| self.disk.read(query)).collect();
                Some(Input::Found { token: *token, found })
            }
            Effect::Send { conn, .. } if self.prompt => Some(Input::Sent { conn: *conn }),
            Effect::Close { conn, .. } if self.prompt => Some(Input::Closed { conn: *conn }),
            _ => None,
        }
    }

    /// Passes output of a client.
    pub fn say(&mut self, conn: ConnId, text: &str) -> Vec<Effect> {
        self.turn(Input::Received { conn, bytes: text.as_bytes() })
    }

    /// Passes output of a client, and completes all sends to it.
    pub fn ask(&mut self, conn: ConnId, text: &str) -> Vec<Effect> {
        let prompt = std::mem::replace(&mut self.prompt, true);
        let effects = self.say(conn, text);
        self.prompt = prompt;
        effects
    }

    /// Completes the send in progress to a client.
    pub fn sent(&mut self, conn: ConnId) -> Vec<Effect> {
        self.turn(Input::Sent { conn })
    }

    /// Adds a connection in `slot` of a user that has authenticated at another shard, with an open
    /// stream; returns the effects.
    pub fn arrive(&mut self, slot: u32, local: &str) -> (ConnId, Vec<Effect>) {
        let conn = ConnId { slot, generation: 1 };
        let mut effects = self.turn(Input::Arrived { conn, moved: moved(&format!("{local}@localhost")) });
        effects.extend(self.ask(conn, HEADER));
        (conn, effects)
    }

    /// Adds such a connection and binds a resource; returns the effects.
    pub fn bind(&mut self, slot: u32, local: &str) -> (ConnId, Vec<Effect>) {
        let (conn, _) = self.arrive(slot, local);
        let effects = self.ask(conn, BIND);
        (conn, effects)
    }
}

/// A connection as it arrives at the home shard of a user that has authenticated elsewhere; its
/// stream restarts.
pub fn moved(user: &str) -> Box<Moved> {
    Box::new(Moved {
        errand: Errand::Login(Authenticated::vouched_for(user, Incarnation::UNNUMBERED)),
        listener: ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: false },
        peer: [127, 0, 0, 1].into(),
        named: false,
        secured: false,
        accepted_s: 1,
        transport: Transport::Stream,
        leftover: Vec::new(),
        stream: None,
    })
}

/// All output to connections in these effects, last output before a close included.
pub fn said(effects: &[Effect]) -> String {
    let bytes = effects.iter().map(|effect| match effect {
        Effect::Send { bytes, .. } => bytes.as_slice(),
        Effect::StartTls { last, .. } | Effect::Close { last, .. } | Effect::Depart { last, .. } => last,
        _ => b"",
    });
    String::from_utf8(bytes.collect::<Vec<_>>().concat()).expect("streams are text")
}

/// The answer to an operator in these effects.
pub fn reply(effects: Vec<Effect>) -> Option<Reply> {
    let replies =
        effects.into_iter().map(|effect| if let Effect::Reply { reply, .. } = effect { Some(reply) } else { None });
    replies.flatten().next_back()
}
