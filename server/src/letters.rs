//! Queues between shards: one bounded ring per ordered pair, with one writer and one reader each
//! and no lock.
//!
//! When a ring is full, the sender keeps what does not fit and stops reading from its clients until
//! there is room. It continues to handle letters from others, so two full rings cannot block each
//! other.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use throng_engine::counters::Counter;
use throng_engine::id::{Gate, ShardId};
use throng_engine::letters::Letters;
use throng_engine::session::moved::Moved;

use crate::tls::TlsConnection;

/// An entry of a ring.
pub enum Envelope {
    /// A turn's letters, and when that turn began.
    Batch(Letters, Instant),
    /// The state of a connection whose socket has moved.
    Moved(Box<MovedLink>),
}

/// State that follows a socket.
pub struct MovedLink {
    /// The key that the driver reports with the connection's arrival.
    pub key: u64,
    /// The gate that the state depends on.
    pub after: Gate,
    /// The shard's part.
    pub moved: Box<Moved>,
    /// The connection's TLS.
    pub tls: Option<Box<TlsConnection>>,
    /// The client, if a proxy made the connection on its behalf.
    pub client: Option<SocketAddr>,
    /// Bytes that the peer sent during the move, as received from the socket.
    pub bytes: Vec<u8>,
}

/// Numbers of letters between shards: the sender counts, any thread reads.
#[derive(Debug)]
pub struct Traffic {
    /// By sender, then by receiver; the rows of senders are separate.
    sent: Vec<Vec<Counter>>,
}

/// Minimum number of counters per sender, so that two senders do not write to the same cache line.
const ROW_MIN: usize = 16;

impl Traffic {
    fn new(shards: usize) -> Traffic {
        let row = || (0..shards.max(ROW_MIN)).map(|_| Counter::default()).collect();
        Traffic { sent: (0..shards).map(|_| row()).collect() }
    }

    /// Letters that other shards have sent to this one, including those that wait for room in its
    /// rings.
    pub fn to(&self, shard: ShardId) -> u64 {
        self.sent.iter().map(|row| row[shard.index()].get()).sum()
    }
}

/// A shard's ends of all its rings: one to and one from each other shard.
pub struct LetterRings {
    own: usize,
    traffic: Arc<Traffic>,
    incoming: Vec<rtrb::Consumer<Envelope>>,
    outgoing: Vec<Outgoing>,
    /// Envelopes that wait in all of `outgoing`: read every turn, and usually zero.
    kept: usize,
    sent: u64,
    received: u64,
}

struct Outgoing {
    ring: rtrb::Producer<Envelope>,
    /// Envelopes that the ring had no room for. Bounded, because nothing new is read from clients
    /// while there are any.
    kept: VecDeque<Envelope>,
}

/// Creates the rings of `shards` shards, each with room for `slots` batches.
pub fn letter_rings(shards: u16, slots: usize) -> Vec<LetterRings> {
    let count = usize::from(shards);
    let traffic = Arc::new(Traffic::new(count));
    let empty = |own| LetterRings {
        own,
        traffic: traffic.clone(),
        incoming: Vec::new(),
        outgoing: Vec::new(),
        kept: 0,
        sent: 0,
        received: 0,
    };
    let mut rings: Vec<LetterRings> = (0..count).map(empty).collect();
    for from in 0..count {
        for to in 0..count {
            // A shard's letters to itself never use a ring; this one keeps the indices simple.
            let (ring, reader) = rtrb::RingBuffer::new(if from == to { 1 } else { slots });
            rings[from].outgoing.push(Outgoing { ring, kept: VecDeque::new() });
            rings[to].incoming.push(reader);
        }
    }
    rings
}

impl LetterRings {
    /// Sends the envelope, or keeps it if it does not fit.
    pub fn send(&mut self, to: ShardId, envelope: Envelope) {
        if let Envelope::Batch(batch, _) = &envelope {
            self.traffic.sent[self.own][to.index()].add(batch.len() as u64);
        }
        self.sent += 1;
        let outgoing = &mut self.outgoing[to.index()];
        let unsent = match outgoing.kept.is_empty() {
            true => outgoing.ring.push(envelope),
            false => Err(rtrb::PushError::Full(envelope)),
        };
        if let Err(rtrb::PushError::Full(envelope)) = unsent {
            outgoing.kept.push_back(envelope);
            self.kept += 1;
        }
    }

    /// Retries kept envelopes; calls `sent` for each shard that received some. Returns whether some
    /// are left.
    pub fn push_on(&mut self, mut sent: impl FnMut(ShardId)) -> bool {
        if self.kept == 0 {
            return false;
        }
        self.kept = 0;
        for (index, outgoing) in self.outgoing.iter_mut().enumerate() {
            let before = outgoing.kept.len();
            while let Some(envelope) = outgoing.kept.pop_front() {
                if let Err(rtrb::PushError::Full(envelope)) = outgoing.ring.push(envelope) {
                    outgoing.kept.push_front(envelope);
                    break;
                }
            }
            if outgoing.kept.len() < before {
                sent(ShardId(index as u16));
            }
            self.kept += outgoing.kept.len();
        }
        self.kept > 0
    }

    /// Takes received envelopes, at most `most` from each sender. Returns whether a sender had
    /// more.
    pub fn receive(&mut self, most: usize, mut on_envelope: impl FnMut(Envelope)) -> bool {
        let mut more = false;
        for ring in &mut self.incoming {
            let mut taken = 0;
            while taken < most
                && let Ok(envelope) = ring.pop()
            {
                taken += 1;
                on_envelope(envelope);
            }
            self.received += taken as u64;
            more |= taken == most && !ring.is_empty();
        }
        more
    }

    /// Envelopes sent to other shards, including those that wait for room.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Envelopes received from other shards.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Counters of the letters of all shards.
    pub fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    /// Memory of the incoming rings and of kept envelopes, in bytes, without the letters' contents.
    pub fn memory_bytes(&self) -> usize {
        let rings = self.incoming.iter().map(|ring| ring.buffer().capacity());
        let kept = self.outgoing.iter().map(|outgoing| outgoing.kept.capacity());
        rings.chain(kept).sum::<usize>() * size_of::<Envelope>()
    }

    /// Whether an envelope can be received.
    pub fn has_letters(&self) -> bool {
        self.incoming.iter().any(|ring| !ring.is_empty())
    }

    /// Number of envelopes that did not fit into their rings.
    pub fn kept(&self) -> usize {
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throng_engine::letters::{Letter, LoginLetter};

    #[test]
    fn order_is_kept_when_a_ring_is_full() {
        let mut rings = letter_rings(2, 2);
        let mut receiver = rings.pop().unwrap();
        let mut sender = rings.pop().unwrap();
        let batch = |n: u64| {
            let mut batch = Letters::new(ShardId(0));
            batch.after = Gate(n);
            Envelope::Batch(batch, Instant::now())
        };
        for n in 0..5 {
            sender.send(ShardId(1), batch(n));
        }
        assert_eq!(sender.kept(), 3);
        let mut seen = Vec::new();
        while seen.len() < 5 {
            receiver.receive(8, |e| match e {
                Envelope::Batch(b, _) => seen.push(b.after.0),
                Envelope::Moved(_) => unreachable!(),
            });
            sender.push_on(|to| assert_eq!(to, ShardId(1)));
        }
        assert_eq!(seen, [0, 1, 2, 3, 4]);
        assert_eq!(sender.kept(), 0);
    }

    #[test]
    fn letters_are_counted_by_their_receiver() {
        let mut rings = letter_rings(3, 2);
        let letter = || {
            Letter::Login(LoginLetter::Failed {
                peer: throng_engine::id::Peer { address: [127, 0, 0, 1].into(), key: 0 },
            })
        };
        for (from, to, letters) in [(0, 1, 2), (2, 1, 3), (1, 0, 4), (0, 1, 5)] {
            let mut batch = Letters::new(ShardId(from));
            (0..letters).for_each(|_| batch.push(letter()));
            rings[usize::from(from)].send(ShardId(to), Envelope::Batch(batch, Instant::now()));
        }
        let traffic = rings[0].traffic().clone();
        assert_eq!([0, 1, 2].map(|to| traffic.to(ShardId(to))), [4, 10, 0]);
    }
}
