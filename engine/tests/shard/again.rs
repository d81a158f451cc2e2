//! Messages that are sent again after a crash although their receiver may have them (XEP-0198 4):
//! the receiver's home checks, and later messages from the same sender wait behind them (RFC 6120
//! 10.1).

use std::sync::Arc;

use throng_engine::counters::Counters;
use throng_engine::extension::offline::Keep;
use throng_engine::id::{ConnId, Now, PartitionMap, SessionId, ShardId};
use throng_engine::io::{Effect, Input, Output};
use throng_engine::letters::{AGAIN, Kind, Letter, Letters, MessageClass, Origin};
use throng_engine::limits::PARKED_STANZAS_MAX;
use throng_engine::settings::Settings;
use throng_engine::shard::Shard;
use throng_engine::store::{Query, Table};
use throng_sim::disk::Disk;
use throng_sim::host::moved;

const HEADER: &str = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' to='localhost' version='1.0'>";
const BIND: &str =
    "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>r</resource></bind></iq>";
const ROMEO: ConnId = ConnId { slot: 1, generation: 1 };

/// The home of a receiver, and answers of its store that wait until they are released.
struct Home {
    id: ShardId,
    shard: Shard,
    disk: Disk,
    now: Now,
    reads: Vec<(u64, Vec<Query>)>,
    heard: String,
}

impl Home {
    fn new() -> Home {
        let settings = Arc::new(Settings::new("localhost", 2, [0; 32], 0));
        let id = PartitionMap::spread(2).home("romeo@localhost");
        let shard = Shard::new(id, settings, Arc::new(Counters::default()), [0; 32]);
        let now = Now::new(1_000, 1_000_000);
        let mut home = Home { id, shard, disk: Disk::default(), now, reads: Vec::new(), heard: String::new() };
        home.disk.put(Table::Accounts, "romeo@localhost", b"", b"");
        home.handle(Input::Arrived { conn: ROMEO, moved: moved("romeo@localhost") });
        for text in [HEADER, BIND, "<presence/>"] {
            home.handle(Input::Received { conn: ROMEO, bytes: text.as_bytes() });
            home.turn();
            while home.answer() {}
        }
        home.heard.clear();
        home
    }

    fn handle(&mut self, input: Input<'_>) {
        self.shard.handle(self.now, input, &mut Output::default());
    }

    fn turn(&mut self) {
        let mut out = Output::default();
        self.now.pass_wall(1_000);
        self.now.mono_ms = self.now.wall_us / 1_000;
        self.shard.handle(self.now, Input::EndOfTurn, &mut out);
        self.disk.submit(out.writes);
        self.disk.commit(1);
        let mut sent = Vec::new();
        for effect in out.effects {
            match effect {
                Effect::Send { conn, bytes, .. } => {
                    self.heard.push_str(std::str::from_utf8(&bytes).unwrap());
                    sent.push(conn);
                }
                Effect::Read { token, queries } => self.reads.push((token, queries)),
                _ => {}
            }
        }
        sent.into_iter().for_each(|conn| self.handle(Input::Sent { conn }));
    }

    /// The store answers its oldest query. Returns whether there was one.
    fn answer(&mut self) -> bool {
        if self.reads.is_empty() {
            return false;
        }
        let (token, queries) = self.reads.remove(0);
        let found = queries.iter().map(|query| self.disk.read(query)).collect();
        self.handle(Input::Found { token, found });
        self.turn();
        true
    }

    /// Messages arrive from another shard, each with its body and the number of its entry in its
    /// sender's log.
    fn come(&mut self, all: impl IntoIterator<Item = (usize, u64)>) {
        self.come_from("juliet@localhost/r", all);
    }

    fn come_from(&mut self, from: &str, all: impl IntoIterator<Item = (usize, u64)>) {
        let away = ShardId(1 - self.id.0);
        let mut batch = Letters::new(away);
        let to = "romeo@localhost";
        for (body, entry) in all {
            let session = SessionId { slot: 0, generation: 0 };
            let origin = Some(Origin { shard: away, session, seq: body as u32, entry });
            let kind = Kind::Message { class: MessageClass::Chat, keep: Keep::Archive };
            let xml = batch.write(
                format!("<message from='{from}' to='{to}' type='chat'><body>{body}</body></message>").as_bytes(),
            );
            let (from, to) = (batch.name(from), batch.name(to));
            batch.push(Letter::Stanza { kind, origin, from, to, xml });
        }
        self.handle(Input::Letters(&batch));
        self.turn();
    }

    /// Bodies sent to the client since the last call.
    fn bodies(&mut self) -> Vec<usize> {
        let heard = std::mem::take(&mut self.heard);
        let bodies = heard.split("<body>").skip(1).map(|rest| rest.split('<').next().unwrap().parse().unwrap());
        bodies.collect()
    }
}

#[test]
fn what_comes_while_one_is_looked_for_goes_behind_it_rfc6120_10_1() {
    let mut home = Home::new();
    home.come([(1, 5 | AGAIN), (2, 6), (3, 7 | AGAIN), (4, 8)]);
    home.come([(5, 9)]);
    assert_eq!(home.bodies(), [0; 0], "the first one is looked for");
    assert!(home.answer());
    assert_eq!(home.bodies(), [1, 2], "the third one is looked for");
    assert!(home.answer());
    assert_eq!(home.bodies(), [3, 4, 5]);
    home.come([(6, 10)]);
    assert_eq!(home.bodies(), [6], "nobody waits any more");
}

/// A user's repeated messages do not delay those of others.
#[test]
fn others_do_not_wait_for_what_is_looked_for() {
    let mut home = Home::new();
    home.come([(1, 5 | AGAIN), (2, 6)]);
    home.come_from("nurse@localhost/r", [(3, 7)]);
    assert_eq!(home.bodies(), [3]);
    assert!(home.answer());
    assert_eq!(home.bodies(), [1, 2]);
}

#[test]
fn what_the_receiver_has_does_not_come_twice_xep0198_4() {
    let mut home = Home::new();
    home.come([(1, 5), (2, 6)]);
    assert_eq!(home.bodies(), [1, 2]);
    home.come([(1, 5 | AGAIN), (2, 6 | AGAIN), (3, 7 | AGAIN), (4, 8)]);
    while home.answer() {}
    assert_eq!(home.bodies(), [3, 4]);
}

#[test]
fn no_more_waits_than_may() {
    let mut home = Home::new();
    home.come((0..PARKED_STANZAS_MAX + 10).map(|body| (body, if body == 0 { 5 | AGAIN } else { 6 })));
    while home.answer() {
        // It acknowledges what it was sent, so more can be read.
        home.turn();
    }
    assert_eq!(home.bodies(), (0..=PARKED_STANZAS_MAX).collect::<Vec<_>>(), "and the others are refused");
}
