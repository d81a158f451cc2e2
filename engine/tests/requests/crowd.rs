//! Shards, a store, and users of whom one sends requests; all their effects are counted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use throng_engine::counters::Counters;
use throng_engine::extension::bytestreams::{Activated, StreamHost};
use throng_engine::extension::service::{Services, SharedSecret};
use throng_engine::extension::upload::slot::Upload;
use throng_engine::id::{ConnId, Now, PartitionMap, Service, ShardId};
use throng_engine::io::{Effect, Input, ListenerKind, Output};
use throng_engine::letters::Letters;
use throng_engine::session::moved::{Errand, Moved};
use throng_engine::session::sasl::Authenticated;
use throng_engine::settings::Settings;
use throng_engine::shard::Shard;
use throng_engine::store::account::{Credentials, Incarnation};
use throng_engine::store::{Found, OpView, Table};
use throng_engine::web::Transport;
use throng_sim::disk::Disk;

use super::memory::{live, uncounted};

/// Contacts of the user, each with a session.
pub(super) const FRIENDS: usize = 100;
const SHARDS: u16 = 4;
/// When the remaining memory is measured, in seconds: temporary state is gone by then.
pub(super) const LATER_S: u64 = 300;
const HEADER: &str = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' to='localhost' version='1.0'>";

/// The cost of a request, until all its effects are done.
#[derive(Clone, Debug, Default)]
pub(super) struct Cost {
    pub(super) sent: usize,
    /// Bytes to the requesting session.
    pub(super) answer: usize,
    pub(super) reads: usize,
    pub(super) read_bytes: usize,
    /// Rows put or deleted; a deleted range or actor counts as one.
    pub(super) rows: usize,
    pub(super) row_bytes: usize,
    /// Letters between homes, including those of a shard to itself.
    pub(super) letters: u64,
    /// Other sessions that received something.
    pub(super) others: usize,
    pub(super) others_bytes: usize,
    /// Derivations of keys.
    pub(super) jobs: usize,
    /// Bytes of memory that the shards have allocated and not freed when everything is answered.
    pub(super) kept: isize,
    /// The same [`LATER_S`] seconds later.
    pub(super) kept_later: isize,
}

impl Cost {
    /// Bytes moved per byte sent.
    pub(super) fn a_byte(&self) -> f64 {
        (self.answer + self.read_bytes + self.row_bytes + self.others_bytes) as f64 / self.sent as f64
    }
}

pub(super) struct Crowd {
    shards: Vec<Shard>,
    counters: Vec<Arc<Counters>>,
    disk: Disk,
    now: Now,
    conns: BTreeMap<String, (ShardId, ConnId)>,
    cost: Cost,
    reached: BTreeSet<(u16, u32)>,
}

/// The requesting session.
const ASKER: &str = "mallory/one";

impl Crowd {
    /// The scene: `mallory` with two sessions and all friends, `bob` online but not a friend,
    /// `away` without a session.
    pub(super) fn new() -> Crowd {
        let mut settings = Settings { scram_iterations: 4_096, ..Settings::new("localhost", SHARDS, [0; 32], 0) };
        settings.serve_service("upload.localhost", Service::Upload);
        settings.serve_service("proxy.localhost", Service::Bytestreams);
        settings.facts.bytestreams = Some(Arc::new(StreamHost { host: "proxy.localhost".into(), port: 7_777 }));
        settings.serve_component("away.localhost", SharedSecret("nobody shows it here".into()));
        settings.serve_service("pubsub.localhost", Service::PubSub);
        settings.serve_rooms("conference.localhost");
        settings.facts.upload = Some(Arc::new(Upload {
            key: [7; 32],
            url: "https://upload.localhost/".into(),
            file_bytes_max: 1 << 30,
            slot_s: 300,
            slots_max: 50,
            day_bytes: 0,
            day_files: 0,
            keep_s: 86_400,
        }));
        settings.facts.services = Services {
            list: ["stun:turn.example", "turn:turn.example", "turns:turn.example"]
                .map(|uri| uri.parse().expect("a URI"))
                .into(),
            secret: Some(SharedSecret("a secret of the relay".into())),
            lifetime_s: 86_400,
        };
        let settings = Arc::new(settings);
        let counters: Vec<Arc<Counters>> = (0..SHARDS).map(|_| Arc::default()).collect();
        let shards = (0..SHARDS)
            .map(|n| Shard::new(ShardId(n), settings.clone(), counters[usize::from(n)].clone(), [n as u8; 32]))
            .collect();
        let now = Now::new(1_000, 1_000_000);
        let (conns, cost, reached) = (BTreeMap::new(), Cost::default(), BTreeSet::new());
        let mut crowd = Crowd { shards, counters, disk: Disk::default(), now, conns, cost, reached };
        let mut row = Vec::new();
        let credentials = Credentials::derive("pencil", 4_096, &[0; 16], 0).expect("a password");
        credentials.encode(&mut row);
        let friends: Vec<String> = (0..FRIENDS).map(|n| format!("friend{n:03}")).collect();
        for local in friends.iter().map(String::as_str).chain(["mallory", "bob", "away"]) {
            crowd.disk.put(Table::Accounts, &format!("{local}@localhost"), b"", &row);
        }
        for who in [ASKER, "mallory/two", "bob/r"]
            .map(str::to_owned)
            .into_iter()
            .chain(friends.iter().map(|f| format!("{f}/r")))
        {
            crowd.log_in(&who);
        }
        for friend in &friends {
            let session = format!("{friend}/r");
            crowd.hear(ASKER, &format!("<presence type='subscribe' to='{friend}@localhost'/>"));
            crowd.hear(&session, "<presence type='subscribed' to='mallory@localhost'/>");
            crowd.hear(&session, "<presence type='subscribe' to='mallory@localhost'/>");
            crowd.hear(ASKER, &format!("<presence type='subscribed' to='{friend}@localhost'/>"));
        }
        // One broadcast in advance, so that the memory that shards keep for the next one is
        // allocated.
        crowd.hear(ASKER, &format!("<presence><status>{}</status></presence>", "s".repeat(1_000)));
        crowd.hear(ASKER, "<presence/>");
        crowd
    }

    fn log_in(&mut self, who: &str) {
        let (local, resource) = who.split_once('/').expect("a session has a resource");
        let shard = PartitionMap::spread(SHARDS).home(&format!("{local}@localhost"));
        let conn = ConnId { slot: self.conns.len() as u32, generation: 1 };
        let listener = ListenerKind { direct_tls: true, starttls: false, plain_auth: true, registration: false };
        let owner = Authenticated::vouched_for(&format!("{local}@localhost"), Incarnation::UNNUMBERED);
        let peer = [127, 0, 0, 1].into();
        let transport = Transport::Stream;
        let moved = Moved {
            errand: Errand::Login(owner),
            listener,
            peer,
            named: false,
            secured: true,
            accepted_s: 1,
            transport,
            leftover: Vec::new(),
            stream: None,
        };
        self.conns.insert(who.to_owned(), (shard, conn));
        let mut out = Output::default();
        self.shards[shard.index()].handle(self.now, Input::Arrived { conn, moved: Box::new(moved) }, &mut out);
        self.settle();
        self.hear(who, HEADER);
        self.hear(who, &format!("<iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>{resource}</resource></bind></iq>"));
        self.hear(who, "<iq type='get' id='2'><query xmlns='jabber:iq:roster'/></iq>");
        self.hear(who, "<presence/>");
    }

    /// The requester sends this; returns the cost.
    pub(super) fn say(&mut self, text: &str) -> Cost {
        let letters = |counters: &[Arc<Counters>]| -> u64 {
            counters.iter().map(|c| c.letters_own.get() + c.letters_out.get()).sum()
        };
        let before = letters(&self.counters);
        self.cost = Cost { sent: text.len(), ..Cost::default() };
        uncounted(|| self.reached.clear());
        let held = live();
        self.hear(ASKER, text);
        let kept = live() - held;
        Cost { letters: letters(&self.counters) - before, others: self.reached.len(), kept, ..self.cost.clone() }
    }

    /// Lets time pass; returns the growth of memory.
    pub(super) fn rest(&mut self) -> isize {
        let held = live();
        for _ in 0..LATER_S {
            self.now.pass_wall(1_000_000);
            self.settle();
        }
        live() - held
    }

    fn hear(&mut self, who: &str, text: &str) {
        let (shard, conn) = self.conns[who];
        let mut out = Output::default();
        let input = Input::Received { conn, bytes: text.as_bytes() };
        self.shards[shard.index()].handle(self.now, input, &mut out);
        self.settle();
    }

    /// Runs turns and carries out their effects until there are none.
    fn settle(&mut self) {
        let asker = self.conns[ASKER];
        let mut letters: Vec<(ShardId, Letters)> = Vec::new();
        loop {
            let mut busy = false;
            self.now.pass_wall(100);
            self.now.mono_ms = self.now.wall_us / 1_000;
            for (to, batch) in std::mem::take(&mut letters) {
                self.shards[to.index()].handle(self.now, Input::Letters(&batch), &mut Output::default());
            }
            for index in 0..self.shards.len() {
                let mut out = Output::default();
                self.shards[index].handle(self.now, Input::EndOfTurn, &mut out);
                self.cost.rows += out.writes.len();
                for op in out.writes.iter() {
                    if let OpView::Put { actor, sort, value, .. } = op {
                        self.cost.row_bytes += actor.len() + sort.len() + value.len();
                    }
                }
                let writes = uncounted(|| out.writes.clone());
                drop(out.writes);
                uncounted(|| {
                    self.disk.submit(writes);
                    self.disk.commit(1);
                });
                busy |= self.shards[index].has_more_to_do();
                for effect in out.effects {
                    let input = match effect {
                        Effect::Send { conn, bytes, .. } => {
                            self.sent(asker, (ShardId(index as u16), conn), bytes.len());
                            Input::Sent { conn }
                        }
                        Effect::Close { conn, last, .. } => {
                            self.sent(asker, (ShardId(index as u16), conn), last.len());
                            Input::Closed { conn }
                        }
                        Effect::Letters { to, batch } => {
                            letters.push((to, batch));
                            busy = true;
                            continue;
                        }
                        Effect::Read { token, queries } => {
                            let found: Vec<Found> = queries.iter().map(|query| self.disk.read(query)).collect();
                            self.cost.reads += queries.len();
                            self.cost.read_bytes += found.iter().map(bytes_of).sum::<usize>();
                            Input::Found { token, found }
                        }
                        Effect::Activate { token, .. } => Input::Activated { token, activated: Activated::Done },
                        Effect::Job { token, job } => {
                            self.cost.jobs += 1;
                            Input::Done { token, done: job.run() }
                        }
                        _ => continue,
                    };
                    busy = true;
                    self.shards[index].handle(self.now, input, &mut Output::default());
                }
            }
            if !busy {
                return;
            }
        }
    }

    fn sent(&mut self, asker: (ShardId, ConnId), to: (ShardId, ConnId), bytes: usize) {
        if to == asker {
            self.cost.answer += bytes;
        } else {
            self.cost.others_bytes += bytes;
            uncounted(|| self.reached.insert((to.0.0, to.1.slot)));
        }
    }
}

fn bytes_of(found: &Found) -> usize {
    match found {
        Found::Value(value) => value.as_ref().map_or(0, |value| value.len()),
        Found::Rows { rows, .. } => rows.iter().map(|row| row.sort.len() + row.value.len()).sum(),
        Found::Damaged => unreachable!("nothing is damaged here"),
    }
}
