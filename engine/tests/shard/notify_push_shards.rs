//! Web Push to closed pages on several shards in a world with delays and crashes: registered pages
//! receive items, and a page that listens at any shard does not.

use std::collections::BTreeSet;
use std::sync::Arc;

use throng_engine::web::policy::Channels;
use throng_engine::web::push::Push;
use throng_sim::net::SocketId;
use throng_sim::world::{Occurrence, Pace, World};

use crate::notify_push::{push, subscription};
use crate::notify_world::{open, post, settings};

const CHANNELS: [&str; 3] = ["a", "b", "c"];

struct Stage(World);

impl Stage {
    fn new(seed: u64) -> Stage {
        let push = Push { interval_ms: 1_000, ..push() };
        let channels = Channels { push: Some(Arc::new(push)), ..open() };
        let mut world = World::new(seed, settings(3, channels), Pace::default(), &[]);
        world.http = true;
        Stage(world)
    }

    /// The response on a connection.
    fn ask(&mut self, request: &str) -> (SocketId, String) {
        let socket = self.0.connect();
        self.0.write(socket, request.as_bytes());
        let mut heard = String::new();
        while !heard.contains("\r\n\r\n") {
            match self.0.step() {
                Occurrence::Bytes(of, bytes) if of == socket => heard += std::str::from_utf8(&bytes).unwrap(),
                Occurrence::Ended(of) => assert_ne!(of, socket, "{heard}"),
                _ => {}
            }
        }
        (socket, heard)
    }

    /// A page registers; returns its id.
    fn register(&mut self, channel: &str, page: u32) -> String {
        let body = subscription("push.example", page);
        let length = body.len();
        let head = format!("PUT /n/{channel}?push HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
        let (socket, heard) = self.ask(&(head + &body));
        assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
        self.0.finish(socket);
        heard.split("\"push\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("an id").into()
    }

    fn publish(&mut self, channel: &str) {
        let (socket, heard) = self.ask(&post(channel, "", "x"));
        assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
        self.0.finish(socket);
    }

    fn run(&mut self, seconds: u64) {
        let until = self.0.now_us() + seconds * 1_000_000;
        while self.0.now_us() < until {
            self.0.step();
        }
    }

    /// The pages that receive an item of each channel, with the channels' numbers.
    fn told(&mut self) -> BTreeSet<(usize, u32)> {
        self.0.pushes.clear();
        CHANNELS.into_iter().for_each(|channel| self.publish(channel));
        self.run(3);
        let told = self.0.pushes.iter().map(|push| {
            let item: serde_json::Value = serde_json::from_slice(&push.content).unwrap();
            let channel = CHANNELS.iter().position(|channel| item["channel"] == **channel).unwrap();
            (channel, push.endpoint.rsplit('/').next().unwrap().parse().unwrap())
        });
        let all: Vec<_> = told.collect();
        let told: BTreeSet<_> = all.iter().copied().collect();
        assert_eq!(told.len(), all.len(), "nobody is told twice");
        told
    }
}

#[test]
fn whoever_has_registered_is_told_also_after_crashes_and_not_while_it_listens() {
    for seed in 0..6 {
        let mut stage = Stage::new(seed);
        let mut all = BTreeSet::new();
        let mut ids = Vec::new();
        for page in 0..9 {
            let channel = page as usize % 3;
            ids.push(stage.register(CHANNELS[channel], page));
            all.insert((channel, page));
            if page % 4 == seed as u32 % 4 {
                stage.0.crash();
            }
        }
        assert_eq!(stage.told(), all, "seed {seed}");
        let listen = |stage: &mut Stage, id: &str| {
            let path = format!("/n/a,b?push={id}");
            let (socket, heard) =
                stage.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"));
            assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
            stage.run(1);
            socket
        };
        // Two connections of one page, most likely at two shards, and one of another page.
        let sockets = [&ids[0], &ids[0], &ids[1]].map(|id| listen(&mut stage, id));
        let others: BTreeSet<_> = all.iter().copied().filter(|(_, page)| *page > 1).collect();
        assert_eq!(stage.told(), others, "seed {seed}");
        stage.0.finish(sockets[0]);
        stage.run(2);
        assert_eq!(stage.told(), others, "seed {seed}: it listens still");
        stage.0.abort(sockets[1]);
        stage.run(2);
        let others: BTreeSet<_> = all.iter().copied().filter(|(_, page)| *page != 1).collect();
        assert_eq!(stage.told(), others, "seed {seed}: it has been closed");
        // Nobody listens any more.
        stage.0.crash();
        assert_eq!(stage.told(), all, "seed {seed}");
    }
}
