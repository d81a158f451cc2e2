//! The threads of the simulated process: a turn and its consequences, letters between shards, the
//! gate and the commits.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use throng_engine::extension::bytestreams::Activated;
use throng_engine::gate::GateQueue;
use throng_engine::id::{ConnId, Gate, ShardId};
use throng_engine::io::{
    Command, Decision, Effect, Input, Inquiry, Job, JobDone, ListenerKind, Lost, PushOutcome, StorageState, TlsFacts,
    Unknown, Verdict,
};
use throng_engine::letters::{Letter, Letters, UserLetter};
use throng_engine::orders::{Outcome, Why};
use throng_engine::session::moved::Moved;
use throng_engine::shard::Shard;
use throng_engine::store::{Found, Query, Table};

use super::{Event, Occurrence, Plant, World};
use crate::net::{ClientEnd, Then};

/// Time for a closing connection to accept its last output.
const LAST_WORDS_US: u64 = 10_000_000;

/// The mark in names of channels that the service closes to all.
const CLOSED: &str = ".closed";

/// Input that waits for a shard's next turn.
#[derive(Debug)]
pub(super) enum Feed {
    Accepted(ConnId, ListenerKind, IpAddr),
    AcceptedHttp(ConnId, ListenerKind, IpAddr),
    AcceptedComponent(ConnId, IpAddr),
    Secured(ConnId),
    Received(ConnId, Vec<u8>),
    Sent(ConnId),
    Lost(ConnId, Lost),
    Closed(ConnId),
    Arrived(ConnId, Box<Moved>),
    Letters(Letters),
    Found(u64, Vec<Query>),
    Done(u64, JobDone),
    Storage(StorageState),
    Renewed(ShardId),
    Command(u64, Command),
    Ordered(u64, Outcome),
    Activated(u64, Activated),
    Told(u64, Verdict),
    Pushed(u64, PushOutcome),
    Decided(u64, Decision),
}

#[derive(Debug)]
pub(super) enum Envelope {
    Batch(Letters),
    /// Either of the others, encoded.
    Parcel(Vec<u8>),
    Moved {
        socket: usize,
        after: Gate,
        moved: Box<Moved>,
    },
}

#[derive(Debug)]
pub(super) struct Thread {
    pub(super) shard: Shard,
    pub(super) gate: GateQueue,
    pub(super) inbox: Vec<Feed>,
    pub(super) turn_due: bool,
    /// Generation and socket of each slot.
    pub(super) slots: Vec<(u32, Option<usize>)>,
    pub(super) free: Vec<u32>,
    /// Sockets of former connections.
    pub(super) was: BTreeMap<ConnId, usize>,
    pub(super) reads: VecDeque<(u64, Vec<Query>)>,
    pub(super) jobs: VecDeque<(u64, Job)>,
    pub(super) inquiries: VecDeque<(u64, Decision)>,
    /// Reads that must see all preceding writes although the gate is ignored.
    pub(super) early_reads: VecDeque<(Gate, u64, Vec<Query>)>,
}

/// Password, salt, iterations.
type Given = (String, Vec<u8>, u32);

/// Runs a job. Derived keys are cached, because derivation is deliberately slow and deterministic.
pub(super) fn run_job(job: Job) -> JobDone {
    thread_local! {
        static KNOWN: RefCell<BTreeMap<Given, throng_engine::session::sasl::Derived>> = const { RefCell::new(BTreeMap::new()) };
    }
    let Job::CheckPassword(derive) = job else { return job.run() };
    let (password, salt, iterations) = derive.inputs();
    let given = (password.to_owned(), salt.to_vec(), iterations);
    KNOWN.with_borrow_mut(|known| {
        if let Some(derived) = known.get(&given) {
            return JobDone::Checked(derived.clone());
        }
        let derived = derive.run();
        if known.len() < 4096 {
            known.insert(given, derived.clone());
        }
        JobDone::Checked(derived)
    })
}

impl World {
    pub(super) fn feed(&mut self, shard: ShardId, feed: Feed) {
        self.threads[shard.index()].inbox.push(feed);
        self.kick_turn(shard);
    }

    pub(super) fn kick_turn(&mut self, shard: ShardId) {
        if !std::mem::replace(&mut self.threads[shard.index()].turn_due, true) {
            self.after(self.pace.turn_us, Event::Turn(shard.0));
        }
    }

    /// One turn of a shard: its input, the end of the turn, and the consequences.
    pub(super) fn turn(&mut self, shard: ShardId) -> Occurrence {
        let now = self.now();
        let mut out = std::mem::take(&mut self.out);
        let thread = &mut self.threads[shard.index()];
        thread.turn_due = false;
        for feed in std::mem::take(&mut thread.inbox) {
            let input = match &feed {
                Feed::Accepted(conn, listener, peer) => {
                    Input::Accepted { conn: *conn, listener: *listener, peer: *peer }
                }
                Feed::AcceptedHttp(conn, listener, peer) => {
                    Input::AcceptedHttp { conn: *conn, listener: *listener, peer: *peer }
                }
                Feed::AcceptedComponent(conn, peer) => Input::AcceptedComponent { conn: *conn, peer: *peer },
                Feed::Received(conn, bytes) => Input::Received { conn: *conn, bytes },
                Feed::Sent(conn) => Input::Sent { conn: *conn },
                Feed::Lost(conn, how) => Input::Lost { conn: *conn, how: *how },
                Feed::Closed(conn) => Input::Closed { conn: *conn },
                Feed::Letters(batch) => {
                    thread.gate.rests_on(batch.after);
                    Input::Letters(batch)
                }
                Feed::Storage(state) => Input::Storage(*state),
                Feed::Renewed(peer) => Input::Renewed { peer: *peer },
                Feed::Secured(conn) => {
                    let tls = TlsFacts { exporter: Some([3; 32]), server_end_point: vec![4; 32], certificate: None };
                    Input::Secured { conn: *conn, tls: Box::new(tls) }
                }
                Feed::Told(token, verdict) => Input::Told { token: *token, verdict: *verdict },
                Feed::Pushed(token, outcome) => Input::Pushed { token: *token, outcome: *outcome },
                Feed::Decided(token, decision) => Input::Decided { token: *token, decision: decision.clone() },
                Feed::Found(token, queries) => {
                    let mut found: Vec<Found> = queries.iter().map(|q| self.disk.read(q)).collect();
                    if let Some(plant) = self.plant {
                        plant.spoil_answers(queries, &mut found, &mut self.random);
                    }
                    Input::Found { token: *token, found }
                }
                Feed::Arrived(..) | Feed::Done(..) | Feed::Command(..) | Feed::Ordered(..) | Feed::Activated(..) => {
                    match feed {
                        Feed::Arrived(conn, moved) => Input::Arrived { conn, moved },
                        Feed::Done(token, done) => Input::Done { token, done },
                        Feed::Command(token, command) => Input::Command { token, command },
                        Feed::Ordered(token, outcome) => Input::Ordered { token, outcome },
                        Feed::Activated(token, activated) => Input::Activated { token, activated },
                        _ => unreachable!("the five above"),
                    }
                }
            };
            thread.shard.handle(now, input, &mut out);
        }
        if let Some(news) = thread.gate.news(now.mono_s(), self.disk.durable()) {
            thread.shard.handle(now, news, &mut out);
        }
        thread.shard.handle(now, Input::EndOfTurn, &mut out);
        if !out.writes.is_empty() {
            let accounts = out.writes.concerns(Table::Accounts);
            let writes = std::mem::take(&mut out.writes);
            let spoiled = self.plant.and_then(|plant| plant.spoiled_writes(&writes, &mut self.random));
            let ticket = self.disk.submit(spoiled.unwrap_or(writes));
            self.threads[shard.index()].gate.wrote(ticket, accounts);
            self.kick_commit();
        }
        for effect in out.effects.drain(..) {
            self.effect(shard, effect);
        }
        self.out = out;
        self.release(shard);
        if self.threads[shard.index()].shard.has_more_to_do() {
            self.kick_turn(shard);
        }
        Occurrence::Turn(shard)
    }

    /// Carries out an effect that does not wait at the gate; queues the others.
    fn effect(&mut self, shard: ShardId, effect: Effect) {
        match effect {
            Effect::Letters { to, mut batch } => {
                batch.after = self.threads[shard.index()].gate.gate();
                if self.plant == Some(Plant::LostBatch) && self.random.chance(5) {
                    return;
                }
                let tells =
                    || batch.letters().iter().any(|letter| matches!(letter, Letter::User(UserLetter::Event { .. })));
                if self.plant == Some(Plant::LostEvent) && tells() && self.random.chance(250) {
                    return;
                }
                self.post(shard, to, Envelope::Batch(batch));
            }
            Effect::Job { token, job } => {
                self.threads[shard.index()].jobs.push_back((token, job));
                self.after(self.pace.job_us, Event::JobDone(shard.0));
            }
            Effect::Pause { conn } => {
                self.threads[shard.index()].gate.paused(conn);
                if let Some(index) = self.socket_of(shard, conn) {
                    self.sockets[index].paused = true;
                }
            }
            Effect::Resume { conn, durable: false } => self.resume(shard, conn),
            // This world has no external user back end.
            Effect::Ask { token, .. } => self.feed(shard, Feed::Told(token, Verdict::Unknown(Unknown::Down))),
            Effect::Inquire { token, inquiry } => {
                let decision = self.decision(&inquiry);
                self.threads[shard.index()].inquiries.push_back((token, decision));
                let delay = self.random.below(self.pace.inquiry_us + 1);
                self.after(delay, Event::Decided(shard.0));
            }
            // Input is always passed on at once here.
            Effect::Favour { .. } => {}
            other => {
                let now_s = self.now().mono_s();
                self.threads[shard.index()].gate.push(other, now_s);
            }
        }
    }

    /// The answer of the service that decides about requests for channels.
    fn decision(&mut self, inquiry: &Inquiry) -> Decision {
        if self.random.chance(self.service.failing) {
            return Decision::Unknown;
        }
        match inquiry.channels.iter().any(|channel| channel.contains(CLOSED)) {
            true => Decision::Denied,
            false => {
                let mut fields = inquiry.sent.fields.iter();
                let name = fields.find(|(name, _)| **name == *"x-name").map(|(_, value)| (**value).into());
                Decision::Allowed { name, seconds: self.service.seconds }
            }
        }
    }

    fn resume(&mut self, shard: ShardId, conn: ConnId) {
        if let Some(index) = self.socket_of(shard, conn) {
            self.sockets[index].paused = false;
            self.kick_up(index);
        }
    }

    pub(super) fn post(&mut self, from: ShardId, to: ShardId, envelope: Envelope) {
        let Some(envelope) = self.cross(from, to, envelope) else { return };
        let wish = self.now_us + self.random.below(self.pace.letters_us + 1);
        let (last, queue) = self.letters.entry((from.0, to.0)).or_default();
        let due = wish.max(*last);
        *last = due;
        queue.push_back(envelope);
        self.at(due - self.now_us, Event::Letters(from.0, to.0));
    }

    pub(super) fn deliver_letters(&mut self, from: u16, to: u16) {
        let Some(envelope) = self.letters.get_mut(&(from, to)).and_then(|(_, queue)| queue.pop_front()) else { return };
        self.arrive(from, to, envelope);
    }

    pub(super) fn arrive(&mut self, from: u16, to: u16, envelope: Envelope) {
        match envelope {
            Envelope::Parcel(parcel) => self.open(from, to, &parcel),
            Envelope::Batch(batch) => self.feed(ShardId(to), Feed::Letters(batch)),
            Envelope::Moved { socket, after, moved } => {
                self.threads[usize::from(to)].gate.rests_on(after);
                let conn = self.take_slot(socket, ShardId(to));
                self.feed(ShardId(to), Feed::Arrived(conn, moved));
                self.kick_up(socket);
                if self.sockets[socket].client == ClientEnd::Gone {
                    self.after(self.pace.detect_us, Event::Detect(socket));
                }
            }
        }
    }

    /// Releases effects whose commits are durable.
    fn release(&mut self, shard: ShardId) {
        let durable = self.disk.durable();
        let early = self.plant == Some(Plant::AckBeforeCommit);
        while let Some((gate, token, queries)) = self.threads[shard.index()].early_reads.pop_front() {
            if gate > durable {
                self.threads[shard.index()].early_reads.push_front((gate, token, queries));
                break;
            }
            self.ask(shard, token, queries);
        }
        let open = if early { Gate(u64::MAX) } else { durable };
        let now_s = self.now().mono_s();
        while let Some((since_s, effect)) = self.threads[shard.index()].gate.pop(open) {
            match effect {
                Effect::Send { conn, bytes, .. } => {
                    if since_s != now_s {
                        let (now, shard) = (self.now(), &mut self.threads[shard.index()].shard);
                        shard.handle(now, Input::Progressed { conn }, &mut throng_engine::io::Output::default());
                    }
                    self.send(shard, conn, bytes, true, None);
                }
                Effect::StartTls { conn, last, .. } => self.send(shard, conn, last, false, Some(Then::Secure)),
                Effect::Close { conn, abort: true, .. } => {
                    if let Some(index) = self.socket_of(shard, conn) {
                        self.close_now(index);
                    }
                }
                Effect::Close { conn, last, abort: false, .. } => {
                    if let Some(index) = self.socket_of(shard, conn) {
                        self.at(LAST_WORDS_US, Event::Patience(index));
                    }
                    self.send(shard, conn, last, false, Some(Then::Close));
                }
                Effect::Depart { conn, to, moved, last } => {
                    self.send(shard, conn, last, false, Some(Then::Depart { to, moved }));
                }
                Effect::Read { token, queries } => {
                    let gate = self.threads[shard.index()].gate.gate();
                    if early && gate > durable {
                        self.threads[shard.index()].early_reads.push_back((gate, token, queries));
                    } else {
                        self.ask(shard, token, queries);
                    }
                }
                Effect::Note(note) => self.notes.push(*note),
                // This world has no operator.
                Effect::Order { token, .. } => {
                    let outcome = Outcome::Refused { why: Why::Busy, text: String::new() };
                    self.feed(shard, Feed::Ordered(token, outcome));
                }
                // Nor a proxy.
                Effect::Activate { token, .. } => self.feed(shard, Feed::Activated(token, Activated::Failed)),
                // Push services of this world accept everything.
                Effect::Push { token, push } => {
                    self.pushes.push(*push);
                    self.feed(shard, Feed::Pushed(token, PushOutcome::Sent));
                }
                Effect::Timed { .. } => {}
                Effect::Reply { token, reply, .. } => self.replied.push_back((token, reply)),
                Effect::Resume { conn, .. } => self.resume(shard, conn),
                Effect::Letters { .. }
                | Effect::Job { .. }
                | Effect::Ask { .. }
                | Effect::Inquire { .. }
                | Effect::Pause { .. }
                | Effect::Favour { .. } => {
                    unreachable!("these do not wait at the gate");
                }
            }
        }
        if self.threads[shard.index()].gate.let_go(durable) {
            self.kick_turn(shard);
        }
        self.let_cross(shard);
    }

    fn ask(&mut self, shard: ShardId, token: u64, queries: Vec<Query>) {
        self.threads[shard.index()].reads.push_back((token, queries));
        self.after(self.pace.read_us, Event::Answer(shard.0));
    }

    pub(super) fn kick_commit(&mut self) {
        if !self.commit_due && !self.commits_stopped && self.disk.waiting() > 0 {
            self.commit_due = true;
            self.after(self.pace.commit_us, Event::Commit);
        }
    }

    /// Makes a group of commits durable.
    pub(super) fn commit(&mut self) {
        self.commit_due = false;
        if self.commits_stopped {
            return;
        }
        let waiting = self.disk.waiting();
        let group = if self.random.chance(500) { waiting } else { 1 + self.random.index(waiting.max(1)) };
        self.disk.commit(group);
        for shard in self.shards() {
            self.release(shard);
        }
        self.kick_commit();
    }
}
