//! The simulated world as the player of a script.

use std::collections::{BTreeMap, VecDeque};

use throng_engine::id::Service;
use throng_engine::io::Command;
use throng_engine::settings::Settings;

use crate::net::SocketId;
use crate::script::{Heard, OTHER_DOMAIN, Patience, Player, Script};
use crate::world::{Crossing, Network, Occurrence, PASSWORD, Pace, World};

/// Longest simulated wait for expected input, microseconds.
const LONG_US: u64 = 5_000_000;
/// Simulated wait to verify that nothing arrives, microseconds.
const SHORT_US: u64 = 400_000;

/// A world with clients by name.
#[derive(Debug)]
pub struct Stage {
    /// The world.
    pub world: World,
    clients: BTreeMap<String, SocketId>,
    heard: BTreeMap<SocketId, VecDeque<Option<Vec<u8>>>>,
}

impl Stage {
    /// A stage with the accounts of a script.
    pub fn new(seed: u64, settings: Settings, pace: Pace, script: &Script) -> Stage {
        let world = World::new(seed, settings, pace, &script.accounts());
        Stage { world, clients: BTreeMap::new(), heard: BTreeMap::new() }
    }

    fn run_until(&mut self, until_us: u64, socket: Option<SocketId>) {
        while self.world.now_us() < until_us {
            match self.world.step() {
                Occurrence::Bytes(at, bytes) => self.heard.entry(at).or_default().push_back(Some(bytes)),
                Occurrence::Ended(at) => self.heard.entry(at).or_default().push_back(None),
                _ => continue,
            }
            if socket.is_some_and(|s| self.heard.get(&s).is_some_and(|h| !h.is_empty())) {
                return;
            }
        }
    }

    fn socket(&self, client: &str) -> Result<SocketId, String> {
        self.clients.get(client).copied().ok_or(format!("{client} is not connected"))
    }
}

impl Player for Stage {
    fn open(&mut self, client: &str) -> Result<(), String> {
        let socket = self.world.connect();
        self.clients.insert(client.to_owned(), socket);
        Ok(())
    }

    fn send(&mut self, client: &str, bytes: &[u8]) -> Result<(), String> {
        let socket = self.socket(client)?;
        self.world.write(socket, bytes);
        Ok(())
    }

    fn hear(&mut self, client: &str, patience: Patience) -> Result<Heard, String> {
        let socket = self.socket(client)?;
        let wait = if patience == Patience::Long { LONG_US } else { SHORT_US };
        if self.heard.get(&socket).is_none_or(VecDeque::is_empty) {
            self.run_until(self.world.now_us() + wait, Some(socket));
        }
        let heard = self.heard.entry(socket).or_default();
        // A closed connection stays closed.
        if let Some(None) = heard.front() {
            return Ok(Heard::Closed);
        }
        Ok(heard.pop_front().flatten().map_or(Heard::Nothing, Heard::Bytes))
    }

    fn abort(&mut self, client: &str) {
        if let Ok(socket) = self.socket(client) {
            self.world.abort(socket);
        }
    }

    fn pass(&mut self, ms: u64) {
        self.run_until(self.world.now_us() + ms * 1000, None);
    }

    fn restart(&mut self, in_order: bool) -> Result<(), String> {
        if in_order {
            for shard in self.world.shards() {
                self.world.command(shard, 0, Command::Shutdown);
            }
            self.pass(500);
        }
        self.world.crash();
        self.heard.clear();
        Ok(())
    }
}

/// A callback in place of letting milliseconds pass.
pub type Act<'a> = Box<dyn FnMut(&mut Stage, u64) + 'a>;

/// A stage on which a test acts when a script lets time pass.
pub struct Acted<'a> {
    /// The stage.
    pub stage: Stage,
    /// Called instead of the stage's own method; may let time pass on the stage.
    pub pass: Act<'a>,
}

impl Player for Acted<'_> {
    fn open(&mut self, client: &str) -> Result<(), String> {
        self.stage.open(client)
    }

    fn send(&mut self, client: &str, bytes: &[u8]) -> Result<(), String> {
        self.stage.send(client, bytes)
    }

    fn hear(&mut self, client: &str, patience: Patience) -> Result<Heard, String> {
        self.stage.hear(client, patience)
    }

    fn abort(&mut self, client: &str) {
        self.stage.abort(client);
    }

    fn pass(&mut self, ms: u64) {
        (self.pass)(&mut self.stage, ms);
    }

    fn restart(&mut self, in_order: bool) -> Result<(), String> {
        self.stage.restart(in_order)
    }
}

/// Plays a script in a world of its own.
///
/// # Errors
/// The line at which the result differed, and the difference.
pub fn play(text: &str, seed: u64, shards: u16, pace: Pace, settle: impl FnOnce(&mut Settings)) -> Result<(), String> {
    play_across(text, seed, shards, pace, Crossing::Direct, settle)
}

/// The same with this between the shards.
///
/// # Errors
/// The line at which the result differed, and the difference.
pub fn play_across(
    text: &str,
    seed: u64,
    shards: u16,
    pace: Pace,
    crossing: Crossing,
    settle: impl FnOnce(&mut Settings),
) -> Result<(), String> {
    let script = Script::parse(text)?;
    let mut settings = Settings::new("localhost", shards, [0; 32], 0);
    settings.serve(OTHER_DOMAIN);
    settings.serve_service("pubsub.localhost", Service::PubSub);
    settings.serve_rooms("conference.localhost");
    settle(&mut settings);
    let mut stage = Stage::new(seed, settings, pace, &script);
    stage.world.set_crossing(crossing, Network { lost: 100, twice: 100 });
    script.play(&mut stage, "localhost", PASSWORD)
}
