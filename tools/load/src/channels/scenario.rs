//! What a run over channels does: its table of keys.
//!
//! This module reads, checks and writes scenarios. It must never carry one out.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::keys::{DriverChoice, Value, table};

/// How a subscriber gets its items.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum By {
    /// Long poll.
    Poll = 0,
    /// Server-sent events.
    Events = 1,
    /// WebSocket.
    WebSocket = 2,
}

/// All of them, with their words.
pub(crate) const WAYS: [(By, &str); 3] = [(By::Poll, "poll"), (By::Events, "events"), (By::WebSocket, "websocket")];

/// Parts of the subscribers by the way in which they get items.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mix([u16; 3]);

impl Mix {
    /// Of so many parts, the way of this one.
    pub(crate) fn way(self, random: u64) -> By {
        let all: u64 = self.0.iter().map(|part| u64::from(*part)).sum();
        let mut at = random % all.max(1);
        for (way, _) in WAYS {
            let part = u64::from(self.0[way as usize]);
            if at < part {
                return way;
            }
            at -= part;
        }
        By::Events
    }
}

impl Value for Mix {
    fn read(text: &str) -> Result<Mix, String> {
        let mut parts = [0u16; 3];
        for word in text.split(',') {
            let (name, part) = word.split_once(':').unwrap_or((word, "1"));
            let way = WAYS.iter().find(|(_, known)| *known == name);
            let (Some((way, _)), Ok(part @ 1..=1000)) = (way, part.parse()) else {
                return Err(format!(
                    "{word} is not poll, events or websocket; if there are several, each is followed by :PARTS (1 to 1000)"
                ));
            };
            parts[*way as usize] = part;
        }
        Ok(Mix(parts))
    }

    fn toml(&self) -> String {
        let of =
            |(way, name): &(By, &str)| (self.0[*way as usize] > 0).then(|| format!("{name}:{}", self.0[*way as usize]));
        format!("\"{}\"", WAYS.iter().filter_map(of).collect::<Vec<_>>().join(","))
    }
}

table! {
    /// A scenario of channels.
    Scenario {
        "Server" {
            to: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 5280)), "ADDRESS:PORT",
                "Where the server listens for HTTP";
            token: PathBuf = PathBuf::new(), "FILE",
                "File with the publishers' token";
            server_pid: u32 = 0, "PID",
                "Process whose CPU and memory are measured; 0: the one that owns the listening socket, if it is on this machine";
        }
        "Subscribers" {
            subscribers: u32 = 1000, "N",
                "Number of subscribers, with one connection each";
            by: Mix = Mix([0, 1, 0]), "WAYS",
                "How they receive items: poll, events or websocket, or a ratio of them, such as events:6,websocket:3,poll:1";
            wait_s: u32 = 55, "SECONDS",
                "How long a poll waits, 1 to 300";
            silence_s: f64 = 40.0, "SECONDS",
                "Time without a sign of life after which a connection is replaced; for polls, wait_s is added";
        }
        "Channels" {
            channels: u32 = 10, "N",
                "Number of channels; subscribers and publishers are spread evenly over them";
            channels_each: u32 = 1, "N",
                "Channels of each subscriber, 1 to 16";
            prefix: String = "load.".into(), "TEXT",
                "Channels have this and a number as their names: load.0, load.1, ..";
        }
        "Items" {
            publishers: u32 = 1, "N",
                "Connections that publish, at most one per channel; 0: nothing is published";
            rate: f64 = 10.0, "PER_SECOND",
                "Open loop: items a second in all, published at random times; times count from when each was to be published. 0: \
                 closed loop, each publisher sends the next as soon as the one before is answered";
            batch: u32 = 1, "N",
                "Items per publication, 1 to 64";
            payload_bytes: u32 = 100, "BYTES",
                "Size of an item's content; at least the size of its numbers, about 50";
            items_max: u64 = 0, "N",
                "Limit of publications in total, approximate; 0: none";
            late_ms: f64 = 0.0, "MILLISECONDS",
                "An item that takes longer to a subscriber counts as a fault of the server; 0: none does";
        }
        "Disturbances" {
            flap_per_s: f64 = 0.0, "PER_SECOND",
                "Subscribers per second whose connection is reset, as by a network, and that continue where they were";
            flap_s: f64 = 1.0, "SECONDS",
                "How long these stay away";
        }
        "Phases" {
            ramp_per_s: f64 = 1000.0, "PER_SECOND",
                "Connections started per second until all subscribers wait; also the limit of returning ones per second";
            under_way_max: u32 = 0, "N",
                "Limit of connections in progress, so that the ramp is as fast as the server; 0: none";
            ramp_s_max: f64 = 300.0, "SECONDS",
                "Begin the hold after this time, even if subscribers are missing";
            hold_s: f64 = 10.0, "SECONDS",
                "How long to publish";
            drain_s: f64 = 10.0, "SECONDS",
                "How long to wait for items in transit before they count as lost";
            total_s_max: f64 = 3600.0, "SECONDS",
                "Stop after this time, whatever the phase";
            connect_s_max: f64 = 30.0, "SECONDS",
                "How long a connection, or the answer to a publication, may take before it is abandoned and repeated";
            seed: u64 = 1, "N",
                "Seed of all random choices";
        }
        "Generator" {
            driver: DriverChoice = DriverChoice::Auto, "WORD",
                "The driver of connections: auto, uring or epoll";
            threads: u32 = 1, "N",
                "Worker threads; each has as many descriptor tables as its connections need";
            sources: u32 = 0, "N",
                "Addresses in 127.0.0.0/8 to connect from, if the server is local; 0: one per 10,000 connections";
        }
    }
}

/// Most bytes of a batch, and of an item (docs/limits.md).
const BATCH_BYTES_MAX: u64 = 64 << 10;
const ITEM_BYTES_MAX: u32 = 32 << 10;

impl Scenario {
    /// Connections in all.
    pub(crate) fn clients(&self) -> u32 {
        self.publishers + self.subscribers
    }

    /// Checks what single values cannot tell.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        let batch_bytes = u64::from(self.batch) * (u64::from(self.payload_bytes.max(100)) + 1);
        let name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:@+".contains(&byte);
        let wrong = [
            (
                self.subscribers == 0 && self.publishers == 0,
                "subscribers: without any, publishers have to be more than 0",
            ),
            (self.subscribers > 100_000_000, "subscribers: at most 100000000"),
            (self.channels == 0 || self.channels > 10_000_000, "channels: 1 to 10000000"),
            (!(1..=16).contains(&self.channels_each), "channels_each: 1 to 16"),
            (self.channels_each > self.channels, "channels_each: at most channels"),
            (self.publishers > self.channels, "publishers: at most one per channel, so that its items have an order"),
            (
                self.prefix.len() > 100 || !self.prefix.bytes().all(name),
                "prefix: at most 100 letters, digits, and -._~:@+",
            ),
            (!(1..=300).contains(&self.wait_s), "wait_s: 1 to 300"),
            (!(1..=64).contains(&self.batch), "batch: 1 to 64"),
            (self.payload_bytes > ITEM_BYTES_MAX, "payload_bytes: at most 32768"),
            (batch_bytes > BATCH_BYTES_MAX, "batch: at most 65536 bytes in total"),
            (self.rate > 1e8, "rate: at most 100000000 per second"),
            (self.ramp_per_s <= 0.0, "ramp_per_s: more than 0"),
            (self.silence_s < 1.0, "silence_s: at least 1"),
            (self.hold_s > 1e6 || self.total_s_max > 1e6, "hold_s, total_s_max: at most 1000000"),
            (self.threads == 0 || self.threads > 1024, "threads: 1 to 1024"),
        ];
        match wrong.iter().find(|(wrong, _)| *wrong) {
            Some((_, why)) => Err((*why).to_owned()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut changed = Scenario { subscribers: 7, prefix: "a.b".into(), rate: 1.5, ..Scenario::default() };
        changed.set_flag("by", "events:6,websocket,poll:2").expect("a mix");
        let mut read = Scenario::default();
        read.set_toml(&changed.toml()).expect("what was written");
        assert_eq!((&read, read.by), (&changed, Mix([2, 6, 1])));
        assert_eq!(Scenario::default().check(), Ok(()));
        for (name, text) in [("publishers", "11"), ("batch", "65"), ("channels_each", "17"), ("prefix", "a/b")] {
            let mut scenario = Scenario::default();
            scenario.set_flag(name, text).expect("a value of its kind");
            assert!(scenario.check().expect_err("not together").starts_with(name), "{name}");
        }
        for text in ["", "pigeon", "poll:0", "poll:", "events:1001"] {
            assert!(Scenario::default().set_flag("by", text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_mix_has_its_parts() {
        let mix = Mix::read("events:6,websocket:3,poll:1").expect("a mix");
        let count = |way| (0..1000).filter(|random| mix.way(*random) == way).count();
        assert_eq!([By::Events, By::WebSocket, By::Poll].map(count), [600, 300, 100]);
    }
}
