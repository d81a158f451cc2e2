//! Process borders between the shards of the world: letters and connections that move are encoded,
//! and may be carried by links over a network that loses, repeats and reorders.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use throng_engine::codec::{Written, decode, encode, rewrite};
use throng_engine::id::{Gate, ShardId};
use throng_engine::link::{Link, Received, Terms};
use throng_engine::session::moved::Moved;

use super::machine::{Envelope, Feed};
use super::{Event, Plant, World};

/// What lies between two shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Crossing {
    /// Nothing: they belong to one process.
    #[default]
    Direct,
    /// A process border: everything is encoded and decoded, and leaves when it is durable.
    Encoded,
    /// The same, with a network that loses, repeats and reorders, and a link above it.
    Lossy,
}

impl Crossing {
    /// All of them, with their names.
    pub const ALL: [(&str, Crossing); 3] =
        [("direct", Crossing::Direct), ("encoded", Crossing::Encoded), ("lossy", Crossing::Lossy)];

    /// The one with this name.
    pub fn named(name: &str) -> Option<Crossing> {
        Crossing::ALL.iter().find(|(own, _)| *own == name).map(|(_, crossing)| *crossing)
    }
}

/// How the network treats frames: chances in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub struct Network {
    /// A frame is lost.
    pub lost: u32,
    /// A frame arrives twice.
    pub twice: u32,
}

/// What has crossed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crossed {
    /// Batches of letters.
    pub batches: u64,
    /// Letters in these.
    pub letters: u64,
    /// Bytes of these, encoded.
    pub bytes: u64,
    /// Connections that moved.
    pub connections: u64,
    /// Frames that were lost.
    pub lost: u64,
    /// Frames that arrived twice.
    pub twice: u64,
    /// Parcels that links recognised as repeats.
    pub repeats: u64,
    /// Renewals of links.
    pub renewals: u64,
}

/// Parcels with the commits that they wait for.
type Held = VecDeque<(Gate, Vec<u8>)>;

/// The borders between the shards.
#[derive(Debug, Default)]
pub(super) struct Borders {
    pub(super) crossing: Crossing,
    pub(super) network: Network,
    pub(super) crossed: Crossed,
    /// Parcels that wait for their commits, by sender and receiver.
    held: BTreeMap<(u16, u16), Held>,
    /// Ends of links, by the shard that has it and its peer.
    links: BTreeMap<(u16, u16), Link>,
    /// Lives of ends so far.
    lives: u64,
    /// Frames under way: receiver, sender, and bytes.
    frames: BTreeMap<u64, (u16, u16, Vec<u8>)>,
    frames_made: u64,
    /// Microsecond at which an end is looked at next.
    timers: BTreeMap<(u16, u16), u64>,
    /// Whether a link was renewed and nobody has been told.
    pub(super) renewed: bool,
}

impl Borders {
    /// The process has died: nothing is under way any more.
    pub(super) fn clear(&mut self) {
        for link in self.links.values() {
            self.crossed.repeats += link.repeats();
            self.crossed.renewals += link.renewals();
        }
        let Borders { crossing, network, crossed, lives, frames_made, .. } = std::mem::take(self);
        *self = Borders { crossing, network, crossed, lives, frames_made, ..Borders::default() };
    }

    /// The end of a link at this shard. Its life is greater than that of each earlier one.
    fn link(&mut self, own: u16, peer: u16, terms: Terms) -> &mut Link {
        let lives = &mut self.lives;
        self.links.entry((own, peer)).or_insert_with(|| {
            // An end may renew itself so many times.
            *lives += 1 << 20;
            Link::new(*lives, terms)
        })
    }
}

/// A parcel: the socket that moves with it plus one, or 0; then the encoded value.
const SOCKET_BYTES: usize = 8;

impl World {
    /// What lies between the shards. To be set before the world begins to move.
    pub fn set_crossing(&mut self, crossing: Crossing, network: Network) {
        (self.borders.crossing, self.borders.network) = (crossing, network);
    }

    /// How the network between shards treats frames from now on.
    pub fn set_network(&mut self, network: Network) {
        self.borders.network = network;
    }

    /// What has crossed between shards.
    pub fn crossed(&self) -> Crossed {
        let mut all = self.borders.crossed;
        for link in self.borders.links.values() {
            all.repeats += link.repeats();
            all.renewals += link.renewals();
        }
        all
    }

    /// A shard gives up a peer that has not confirmed what it was sent, if there is one.
    pub fn break_link(&mut self) {
        let waits = |(_, link): &(&(u16, u16), &mut Link)| link.waiting() > 0;
        let Some((&(own, peer), link)) = self.borders.links.iter_mut().find(waits) else { return };
        link.give_up();
        self.receive(own, peer);
        self.pump(own, peer);
    }

    /// All shards give up peers that have not confirmed what they were sent.
    pub fn break_links(&mut self) {
        for _ in 0..self.borders.links.len() {
            self.break_link();
        }
    }

    /// With borders, checks that what a shard keeps for its users can be written for another process,
    /// and that nothing of it is lost.
    ///
    /// # Errors
    /// What is lost.
    pub(crate) fn check_written(&self, shard: ShardId) -> Result<(), String> {
        if self.borders.crossing != Crossing::Encoded {
            return Ok(());
        }
        let now = self.now();
        for bytes in self.shard(shard).written(now).map_err(|error| error.to_string())? {
            let again = rewrite(&bytes, now).map_err(|error| error.to_string())?;
            if again != bytes {
                return Err(format!("{bytes:?} is read as {again:?}"));
            }
        }
        Ok(())
    }

    fn encoded<T: Written + PartialEq + Clone + fmt::Debug>(&self, value: T) -> Vec<u8> {
        let now = self.now();
        let check = (self.borders.crossing == Crossing::Encoded).then(|| value.clone());
        let bytes = encode(value, now).expect("every letter has a written form");
        if let Some(value) = check {
            let back: T = decode(&bytes, now).expect("what was written can be read");
            assert!(back == value, "the written form of this is not complete: {value:?}\n{back:?}");
        }
        bytes
    }

    /// Takes what leaves for another shard, if there is a border between them.
    pub(super) fn cross(&mut self, from: ShardId, to: ShardId, envelope: Envelope) -> Option<Envelope> {
        if self.borders.crossing == Crossing::Direct {
            return Some(envelope);
        }
        let (gate, socket, bytes) = match envelope {
            Envelope::Batch(batch) => {
                let (after, letters) = (batch.after, batch.len());
                let bytes = self.encoded(batch);
                let crossed = &mut self.borders.crossed;
                crossed.batches += 1;
                crossed.letters += letters as u64;
                crossed.bytes += bytes.len() as u64;
                (after, 0, bytes)
            }
            Envelope::Moved { socket, after, moved } => {
                self.borders.crossed.connections += 1;
                (after, socket as u64 + 1, self.encoded(*moved))
            }
            Envelope::Parcel(_) => return Some(envelope),
        };
        let parcel = [&socket.to_le_bytes()[..], &bytes].concat();
        self.borders.held.entry((from.0, to.0)).or_default().push_back((gate, parcel));
        self.let_cross(from);
        None
    }

    /// Sends what the shard has for others and what is durable.
    pub(super) fn let_cross(&mut self, from: ShardId) {
        let durable = self.disk.durable();
        for to in self.shards() {
            let pair = (from.0, to.0);
            let mut sent = false;
            while let Some((_, parcel)) =
                self.borders.held.get_mut(&pair).and_then(|held| {
                    held.front().is_some_and(|(gate, _)| *gate <= durable).then(|| held.pop_front())?
                })
            {
                if self.borders.crossing == Crossing::Encoded {
                    self.post(from, to, Envelope::Parcel(parcel));
                } else {
                    let (now_ms, terms) = (self.now().mono_ms, self.terms());
                    self.borders.link(from.0, to.0, terms).send(now_ms, parcel);
                    sent = true;
                }
            }
            if sent {
                self.pump(from.0, to.0);
            }
        }
    }

    fn terms(&self) -> Terms {
        Terms(u64::from(self.settings.shards()))
    }

    /// Gives the frames that an end has to the network.
    fn pump(&mut self, own: u16, peer: u16) {
        let (now_us, now_ms) = (self.now_us, self.now().mono_ms);
        while let Some(frame) = self.borders.links.get_mut(&(own, peer)).and_then(|link| link.poll_frame(now_ms)) {
            if self.random.chance(self.borders.network.lost) {
                self.borders.crossed.lost += 1;
                continue;
            }
            if self.random.chance(self.borders.network.twice) {
                self.borders.crossed.twice += 1;
                self.transmit(own, peer, frame.clone());
            }
            self.transmit(own, peer, frame);
        }
        self.receive(own, peer);
        let Some(due_ms) = self.borders.links.get(&(own, peer)).and_then(Link::due_ms) else { return };
        let due_us = (self.started_us + due_ms * 1_000).max(now_us + 1_000);
        let timer = self.borders.timers.entry((own, peer)).or_insert(u64::MAX);
        if due_us < *timer {
            *timer = due_us;
            self.at(due_us - now_us, Event::Link(own, peer));
        }
    }

    fn transmit(&mut self, own: u16, peer: u16, frame: Vec<u8>) {
        self.borders.frames_made += 1;
        let id = self.borders.frames_made;
        self.borders.frames.insert(id, (peer, own, frame));
        self.after(self.pace.letters_us, Event::Frame(id));
    }

    /// The network delivers a frame.
    pub(super) fn frame(&mut self, id: u64) {
        let Some((own, peer, frame)) = self.borders.frames.remove(&id) else { return };
        let terms = self.terms();
        self.borders.link(own, peer, terms).handle(&frame).expect("frames are not damaged here");
        self.receive(own, peer);
        self.pump(own, peer);
    }

    /// It is time for an end to transmit again.
    pub(super) fn look_at_link(&mut self, own: u16, peer: u16) {
        self.borders.timers.remove(&(own, peer));
        self.pump(own, peer);
    }

    /// Hands over what an end has received.
    fn receive(&mut self, own: u16, peer: u16) {
        while let Some(received) = self.borders.links.get_mut(&(own, peer)).and_then(|link| link.poll_received()) {
            match received {
                Received::Parcel(parcel) => {
                    if self.plant == Some(Plant::RepeatedLetters) && parcel[0] == 0 && self.random.chance(20) {
                        self.open(peer, own, &parcel);
                    }
                    self.open(peer, own, &parcel);
                }
                Received::Renewed if self.plant == Some(Plant::UnnoticedRenewal) => {}
                Received::Renewed => {
                    self.feed(ShardId(own), Feed::Renewed(ShardId(peer)));
                    self.borders.renewed = true;
                }
            }
        }
    }

    /// A parcel has arrived.
    pub(super) fn open(&mut self, from: u16, to: u16, parcel: &[u8]) {
        let (socket, bytes) = parcel.split_first_chunk::<SOCKET_BYTES>().expect("this world has written it");
        let now = self.now();
        let envelope = match u64::from_le_bytes(*socket).checked_sub(1) {
            None => Envelope::Batch(decode(bytes, now).expect("what was written can be read")),
            Some(socket) => {
                let moved: Moved = decode(bytes, now).expect("what was written can be read");
                Envelope::Moved { socket: socket as usize, after: Gate::default(), moved: Box::new(moved) }
            }
        };
        self.arrive(from, to, envelope);
    }
}
