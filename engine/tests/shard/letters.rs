//! Letters about accounts that are lost between shards or arrive twice: nobody gets a removed
//! account through them, and a client without an answer can retry (XEP-0077 3.1, 3.2).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base64::Engine as _;
use throng_engine::codec::{decode, encode};
use throng_engine::counters::Counters;
use throng_engine::id::{ConnId, Now, PartitionMap, ShardId};
use throng_engine::io::{Effect, Input, ListenerKind, Output};
use throng_engine::letters::Letters;
use throng_engine::link::{Link, Received, Terms};
use throng_engine::settings::Settings;
use throng_engine::shard::Shard;
use throng_engine::store::{Found, Query, Table};
use throng_sim::disk::Disk;

const SHARDS: u16 = 3;
const HEADER: &str = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' to='localhost' version='1.0'>";
const BIND: &str = "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>";
const REGISTER: &str = "<iq type='set' id='r'><query xmlns='jabber:iq:register'><username>mallory</username><password>secret</password></query></iq>";
const CHANGE: &str = "<iq type='set' id='c'><query xmlns='jabber:iq:register'><username>mallory</username><password>secret</password></query></iq>";
const REMOVE: &str = "<iq type='set' id='d'><query xmlns='jabber:iq:register'><remove/></query></iq>";

/// The fate of a batch of letters.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Lost,
    /// It arrives a second time at once.
    Twice,
    /// It arrives a second time when all is over.
    Late,
}

struct World {
    shards: Vec<Shard>,
    disk: Disk,
    now: Now,
    /// Number of batches so far, and the fate of one of them.
    batches: usize,
    fate: Option<(usize, Fate)>,
    /// A frame that arrives again: its receiver and its sender.
    late: Option<(ShardId, ShardId, Vec<u8>)>,
    /// An end for each shard and peer: links see to it that each batch is read once.
    links: BTreeMap<(ShardId, ShardId), Link>,
    /// The one connection: its place, and its output since the last call.
    at: Option<(ShardId, ConnId)>,
    slots: u32,
    heard: String,
}

impl World {
    fn new(fate: Option<(usize, Fate)>) -> World {
        let mut settings =
            Settings { scram_iterations: 4_096, preauth_s_max: 60, ..Settings::new("localhost", SHARDS, [0; 32], 0) };
        settings.facts.account_changes = true;
        let settings = Arc::new(settings);
        let shard = |n| Shard::new(ShardId(n), settings.clone(), Arc::new(Counters::default()), [n as u8; 32]);
        let now = Now::new(1_000, 1_000_000);
        let (shards, disk) = ((0..SHARDS).map(shard).collect(), Disk::default());
        World {
            shards,
            disk,
            now,
            batches: 0,
            fate,
            late: None,
            links: BTreeMap::new(),
            at: None,
            slots: 0,
            heard: String::new(),
        }
    }

    fn connect(&mut self) {
        // Only shards other than the user's home, so that all letters go between two shards.
        let away = ShardId((PartitionMap::spread(SHARDS).home("mallory@localhost").0 + 1) % SHARDS);
        let conn = self.conn();
        self.at = Some((away, conn));
        let listener = ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: true };
        self.handle(away, Input::Accepted { conn, listener, peer: [192, 0, 2, 1].into() });
        self.settle();
        self.say(HEADER);
    }

    fn conn(&mut self) -> ConnId {
        self.slots += 1;
        ConnId { slot: self.slots, generation: 1 }
    }

    fn handle(&mut self, shard: ShardId, input: Input<'_>) {
        self.shards[shard.index()].handle(self.now, input, &mut Output::default());
    }

    /// The output of the connection for this input; empty if it is gone.
    fn say(&mut self, text: &str) -> String {
        self.heard.clear();
        if let Some((shard, conn)) = self.at {
            self.handle(shard, Input::Received { conn, bytes: text.as_bytes() });
            self.settle();
        }
        std::mem::take(&mut self.heard)
    }

    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now.pass_wall(1_000_000);
            self.settle();
        }
    }

    fn settle(&mut self) {
        let mut letters: VecDeque<(ShardId, Letters)> = VecDeque::new();
        loop {
            let mut busy = !letters.is_empty();
            self.now.pass_wall(100);
            self.now.mono_ms = self.now.wall_us / 1_000;
            for (to, batch) in letters.drain(..) {
                self.shards[to.index()].handle(self.now, Input::Letters(&batch), &mut Output::default());
            }
            for index in 0..self.shards.len() {
                let mut out = Output::default();
                self.shards[index].handle(self.now, Input::EndOfTurn, &mut out);
                self.disk.submit(out.writes);
                self.disk.commit(1);
                busy |= self.shards[index].has_more_to_do();
                for effect in out.effects {
                    busy = true;
                    self.effect(ShardId(index as u16), effect, &mut letters);
                }
            }
            if !busy {
                return;
            }
        }
    }

    fn effect(&mut self, shard: ShardId, effect: Effect, letters: &mut VecDeque<(ShardId, Letters)>) {
        match effect {
            Effect::Send { conn, bytes, .. } => {
                self.hear(shard, conn, &bytes);
                self.handle(shard, Input::Sent { conn });
            }
            Effect::Close { conn, last, .. } => {
                self.hear(shard, conn, &last);
                self.at = self.at.filter(|at| *at != (shard, conn));
                self.handle(shard, Input::Closed { conn });
            }
            Effect::Depart { conn, last, to, moved } => {
                self.hear(shard, conn, &last);
                self.handle(shard, Input::Closed { conn });
                let there = self.conn();
                self.at = Some((to, there));
                self.handle(to, Input::Arrived { conn: there, moved });
            }
            Effect::Read { token, queries } => {
                let found: Vec<Found> = queries.iter().map(|query| self.disk.read(query)).collect();
                self.handle(shard, Input::Found { token, found });
            }
            Effect::Job { token, job } => self.handle(shard, Input::Done { token, done: job.run() }),
            Effect::Letters { to, batch } => {
                let fate = self.fate.filter(|(at, _)| *at == self.batches).map(|(_, fate)| fate);
                self.batches += 1;
                if fate == Some(Fate::Lost) {
                    return;
                }
                let frame = self.frame(shard, to, batch);
                match fate {
                    Some(Fate::Twice) => letters.extend(self.arrive(shard, to, &frame)),
                    Some(Fate::Late) => self.late = Some((shard, to, frame.clone())),
                    _ => {}
                }
                letters.extend(self.arrive(shard, to, &frame));
            }
            _ => {}
        }
    }

    fn link(&mut self, own: ShardId, peer: ShardId) -> &mut Link {
        self.links.entry((own, peer)).or_insert_with(|| Link::new(1, Terms(0)))
    }

    /// The frame in which a batch crosses.
    fn frame(&mut self, from: ShardId, to: ShardId, batch: Letters) -> Vec<u8> {
        let parcel = encode(batch, self.now).unwrap();
        let bytes = parcel.len();
        self.link(from, to).send(0, parcel);
        loop {
            while let Some(frame) = self.link(to, from).poll_frame(0) {
                self.link(from, to).handle(&frame).unwrap();
            }
            let frame = self.link(from, to).poll_frame(0).expect("greetings, then the batch");
            if frame.len() > bytes {
                return frame;
            }
            self.link(to, from).handle(&frame).unwrap();
        }
    }

    /// What is to be read when a frame arrives.
    fn arrive(&mut self, from: ShardId, to: ShardId, frame: &[u8]) -> Vec<(ShardId, Letters)> {
        self.link(to, from).handle(frame).unwrap();
        let mut read = Vec::new();
        while let Some(Received::Parcel(parcel)) = self.link(to, from).poll_received() {
            read.push((to, decode(&parcel, self.now).unwrap()));
        }
        while let Some(frame) = self.link(to, from).poll_frame(0) {
            self.link(from, to).handle(&frame).unwrap();
        }
        read
    }

    fn hear(&mut self, shard: ShardId, conn: ConnId, bytes: &[u8]) {
        if self.at == Some((shard, conn)) {
            self.heard += &String::from_utf8_lossy(bytes);
        }
    }

    /// An account is created, used, changed and removed by one connection, as far as it gets.
    fn life(&mut self) -> String {
        let plain = base64::engine::general_purpose::STANDARD.encode("\0mallory\0secret");
        let auth = format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{plain}</auth>");
        self.connect();
        [REGISTER, &auth, HEADER, BIND, CHANGE, REMOVE].map(|text| self.say(text)).concat()
    }

    fn has_account(&self) -> bool {
        let query = Query::Get { table: Table::Accounts, actor: (*b"mallory@localhost").into(), sort: [].into() };
        !matches!(self.disk.read(&query), Found::Value(None))
    }
}

/// Once, a repeated request created an account again after its removal, with the password that its
/// owner had abandoned.
#[test]
fn what_is_repeated_between_shards_makes_no_account_again() {
    let mut plain = World::new(None);
    let told = plain.life();
    assert!(["id='r'", "<success", "<jid>", "id='c'", "id='d'"].iter().all(|sign| told.contains(sign)), "{told}");
    assert!(!plain.has_account() && plain.batches > 4, "{} batches", plain.batches);
    for at in 0..plain.batches {
        for fate in [Fate::Twice, Fate::Late] {
            let mut world = World::new(Some((at, fate)));
            assert_eq!(world.life().matches("type='error'").count(), 0, "{fate:?} {at}");
            if let Some((from, to, frame)) = world.late.take() {
                assert_eq!(world.arrive(from, to, &frame).len(), 0, "batch {at}: a repeat is read");
            }
            assert!(!world.has_account(), "batch {at} {fate:?}: the account is there again");
            let again = world.life();
            assert!(again.contains("id='d'") && !world.has_account(), "batch {at} {fate:?}: {again}");
        }
    }
}

/// State for a client without an answer is released, without effect, and the client can start
/// again.
#[test]
fn what_is_lost_between_shards_keeps_nobody_from_trying_again() {
    let mut plain = World::new(None);
    plain.life();
    for at in 0..plain.batches {
        let mut world = World::new(Some((at, Fate::Lost)));
        world.life();
        let removed_or_never_made = !world.has_account();
        world.pass(70);
        assert!(removed_or_never_made || world.at.is_none(), "batch {at} lost: a connection without an answer is kept");
        let again = world.life();
        assert!(again.contains("<jid>") && again.contains("id='d'"), "batch {at} lost: {again}");
        assert!(!world.has_account(), "batch {at} lost: the account is there again");
    }
}
