//! A link between two processes: what one side sends arrives at the other once and in order, or both
//! sides learn that the link was renewed. The network below may lose datagrams, repeat them and
//! change their order.
//!
//! A [`Link`] is one end. [`Link::send`] puts a parcel in (a batch of letters or a connection, as
//! [`crate::codec`] writes it), [`Link::poll_frame`] takes out what the network is to carry,
//! [`Link::handle`] puts in what the network has carried, and [`Link::poll_received`] takes out
//! parcels of the peer. This is the only place that recognises repeats: modules do not.
//!
//! Each end has a *life*, a number that grows with each start of its process and with each renewal.
//! Parcels are numbered from 1 for each pair of lives. An end that sees a greater life of its peer
//! was renewed: the peer has started again, or has given up ([`crate::limits::LINK_PATIENCE_MS`] and
//! the limits beside it).
//!
//! **What a renewal means.** Of the parcels that either side has sent and that were not confirmed,
//! the peer has received a prefix, which can be empty or complete. No later parcel of the former
//! lives arrives. Numbers of connections, sessions and requests of the peer that were learned before
//! are void if the peer has started again. Whoever learns of it must assume that each letter under
//! way was lost: `docs/decisions/0062-codec.md` lists what does not survive that.
//!
//! What both sides must agree on, because letters refer to it by number, is reduced to one number
//! ([`Terms`]): an end refuses a peer with another one.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::{
    CROSSING_BYTES_MAX, LINK_BYTES_MAX, LINK_PARCELS_MAX, LINK_PATIENCE_MS, LINK_RETRY_MS, LINK_RETRY_MS_MAX,
    LINK_WINDOW,
};

/// The format of frames.
pub const FORMAT: u8 = 1;

/// Bytes of a frame beside its parcel, at most: the format, five numbers and a length.
const FRAME_HEAD_BYTES_MAX: usize = 1 + 6 * 10;

/// What both ends must agree on: a digest of the number of shards, of the domains in their order, and
/// of everything else that letters name by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms(pub u64);

/// A datagram.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Frame<'a> {
    /// The sender's life.
    life: u64,
    terms: Terms,
    /// The receiver's life as the sender knows it; 0 if it does not.
    to: u64,
    /// All parcels of the receiver up to this number have arrived.
    heard: u64,
    /// The number of the parcel; 0 for a frame without one.
    number: u64,
    parcel: &'a [u8],
}

/// A parcel that the peer has not confirmed.
#[derive(Debug)]
struct Waiting {
    parcel: Vec<u8>,
    since_ms: u64,
    /// When it is transmitted next, milliseconds.
    due_ms: u64,
    tries: u32,
}

/// Output for the host of an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A parcel of the peer.
    Parcel(Vec<u8>),
    /// The link was renewed. What was sent before, and is not confirmed, may be lost.
    Renewed,
}

/// Why a frame was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// It is empty, or damaged.
    Damaged,
    /// Another build has written it, in this format.
    Format(u8),
    /// The peer's configuration differs where both must be the same.
    Terms,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Damaged => f.write_str("a frame of the other member is damaged"),
            Error::Format(found) => {
                write!(f, "a frame is of format {found}; this build reads format {FORMAT}: ")?;
                f.write_str(if *found > FORMAT { "update this member first" } else { "update the other member first" })
            }
            Error::Terms => f.write_str(
                "the other member has other shards or domains; give both the same configuration and start the later one again",
            ),
        }
    }
}

impl std::error::Error for Error {}

/// One end of a link.
#[derive(Debug)]
pub struct Link {
    terms: Terms,
    life: u64,
    /// The peer's life, once it is known.
    peer: Option<u64>,
    /// Parcels that the peer has not confirmed; bounded by [`LINK_PARCELS_MAX`] and
    /// [`LINK_BYTES_MAX`], beyond which the link is renewed.
    waiting: VecDeque<Waiting>,
    /// The number of the first of these.
    first: u64,
    /// Bytes of these.
    bytes: usize,
    /// The number of the last parcel of the peer that has arrived in order.
    heard: u64,
    /// Parcels that have arrived out of order; bounded by [`LINK_WINDOW`].
    early: BTreeMap<u64, Vec<u8>>,
    /// Bounded by the host, which takes all of it after each frame.
    received: VecDeque<Received>,
    /// Whether the peer is to be sent a frame even if no parcel is due.
    owes: bool,
    /// Whether the peer may not know this life, because it began with a renewal.
    unheard: bool,
    /// When the peer is greeted next while either end does not know the other's life, milliseconds.
    greet_ms: u64,
    /// Parcels that arrived again.
    repeats: u64,
    /// How often the link was renewed.
    renewals: u64,
}

impl Link {
    /// Makes an end. `life` must be greater than each earlier life of the same end, in this and in
    /// former processes, and not 0.
    pub fn new(life: u64, terms: Terms) -> Link {
        Link {
            terms,
            life,
            peer: None,
            waiting: VecDeque::new(),
            first: 1,
            bytes: 0,
            heard: 0,
            early: BTreeMap::new(),
            received: VecDeque::new(),
            owes: false,
            unheard: false,
            greet_ms: 0,
            repeats: 0,
            renewals: 0,
        }
    }

    /// This end's life.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Number of parcels that arrived again and were recognised.
    pub fn repeats(&self) -> u64 {
        self.repeats
    }

    /// How often the link was renewed.
    pub fn renewals(&self) -> u64 {
        self.renewals
    }

    /// Number of parcels that the peer has not confirmed.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Sends a parcel. If too much waits, the link is renewed and this parcel is the first of the
    /// new life.
    pub fn send(&mut self, now_ms: u64, parcel: Vec<u8>) {
        if self.waiting.len() >= LINK_PARCELS_MAX || self.bytes + parcel.len() > LINK_BYTES_MAX {
            self.give_up();
        }
        self.bytes += parcel.len();
        self.waiting.push_back(Waiting { parcel, since_ms: now_ms, due_ms: now_ms, tries: 0 });
    }

    /// Gives up what the peer has not confirmed, because it does not answer, and begins a new life.
    pub fn give_up(&mut self) {
        self.life += 1;
        self.renew();
        // The peer is greeted until it knows.
        self.greet_ms = 0;
        self.unheard = true;
    }

    /// Forgets what belongs to the former pair of lives.
    fn renew(&mut self) {
        self.waiting.clear();
        (self.first, self.bytes, self.heard) = (1, 0, 0);
        self.early.clear();
        self.renewals += 1;
        self.received.push_back(Received::Renewed);
    }

    /// Handles a frame of the peer.
    ///
    /// # Errors
    /// The frame is refused and changes nothing.
    pub fn handle(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some((&format, body)) = bytes.split_first() else { return Err(Error::Damaged) };
        if format != FORMAT {
            return Err(Error::Format(format));
        }
        if bytes.len() > CROSSING_BYTES_MAX + FRAME_HEAD_BYTES_MAX {
            return Err(Error::Damaged);
        }
        let frame: Frame<'_> = postcard::from_bytes(body).map_err(|_| Error::Damaged)?;
        if frame.life == 0 {
            return Err(Error::Damaged);
        }
        if frame.terms != self.terms {
            return Err(Error::Terms);
        }
        match self.peer {
            // A late frame of a former life.
            Some(peer) if frame.life < peer => return Ok(()),
            Some(peer) if frame.life > peer => {
                self.renew();
                self.peer = Some(frame.life);
                self.owes = true;
            }
            Some(_) => {}
            None => {
                self.peer = Some(frame.life);
                self.owes = true;
            }
        }
        if frame.to != self.life {
            // The peer does not know this life yet.
            self.owes = true;
            return Ok(());
        }
        self.unheard = false;
        self.confirmed(frame.heard);
        if frame.number > 0 {
            self.owes = true;
            self.arrived(frame.number, frame.parcel);
        }
        Ok(())
    }

    /// The peer has received all parcels up to this number.
    fn confirmed(&mut self, number: u64) {
        while self.first <= number
            && let Some(waiting) = self.waiting.pop_front()
        {
            self.bytes -= waiting.parcel.len();
            self.first += 1;
        }
    }

    fn arrived(&mut self, number: u64, parcel: &[u8]) {
        if number <= self.heard || self.early.contains_key(&number) {
            self.repeats += 1;
        } else if number == self.heard + 1 {
            self.heard = number;
            self.received.push_back(Received::Parcel(parcel.into()));
            while let Some(next) = self.early.remove(&(self.heard + 1)) {
                self.heard += 1;
                self.received.push_back(Received::Parcel(next));
            }
        } else if number - self.heard <= LINK_WINDOW as u64 {
            self.early.insert(number, parcel.into());
        }
        // Anything further ahead comes again.
    }

    /// The next parcel of the peer, or the news that the link was renewed.
    pub fn poll_received(&mut self) -> Option<Received> {
        self.received.pop_front()
    }

    /// The next frame to transmit at this time (milliseconds of a monotonic clock); call it until it
    /// returns `None`.
    pub fn poll_frame(&mut self, now_ms: u64) -> Option<Vec<u8>> {
        let stale = |waiting: &Waiting| now_ms.saturating_sub(waiting.since_ms) >= LINK_PATIENCE_MS;
        if self.waiting.front().is_some_and(|oldest| oldest.tries > 0 && stale(oldest)) {
            self.give_up();
        }
        if self.greets() && self.greet_ms <= now_ms {
            self.greet_ms = now_ms + LINK_RETRY_MS_MAX;
            self.owes = false;
            return Some(self.frame(0, &[]));
        }
        self.peer?;
        let due = self.waiting.iter().take(LINK_WINDOW).position(|waiting| waiting.due_ms <= now_ms);
        if let Some(index) = due {
            let waiting = &mut self.waiting[index];
            if waiting.tries == 0 {
                // What it has waited for the window does not count.
                waiting.since_ms = now_ms;
            }
            let pause_ms = (LINK_RETRY_MS << waiting.tries.min(16)).min(LINK_RETRY_MS_MAX);
            (waiting.tries, waiting.due_ms) = (waiting.tries + 1, now_ms + pause_ms);
            self.owes = false;
            return Some(self.frame(self.first + index as u64, &self.waiting[index].parcel));
        }
        std::mem::take(&mut self.owes).then(|| self.frame(0, &[]))
    }

    /// Whether an end does not know the other's life although it should.
    fn greets(&self) -> bool {
        self.unheard || self.peer.is_none() && (self.owes || !self.waiting.is_empty())
    }

    fn frame(&self, number: u64, parcel: &[u8]) -> Vec<u8> {
        let head = [self.life, self.terms.0, self.peer.unwrap_or(0), self.heard, number];
        let mut out = Vec::with_capacity(FRAME_HEAD_BYTES_MAX + parcel.len());
        out.push(FORMAT);
        // The same bytes as those of a `Frame`, with the parcel copied at once.
        let out = postcard::to_extend(&head, out).expect("numbers can be written");
        let mut out = postcard::to_extend(&(parcel.len() as u64), out).expect("numbers can be written");
        out.extend_from_slice(parcel);
        out
    }

    /// When [`Link::poll_frame`] has something to transmit next, milliseconds; `None` if it does not
    /// until something arrives or is sent.
    pub fn due_ms(&self) -> Option<u64> {
        let greet_ms = self.greets().then_some(self.greet_ms);
        if self.peer.is_none() {
            return greet_ms;
        }
        if self.owes {
            return Some(0);
        }
        let due_ms = self.waiting.iter().take(LINK_WINDOW).map(|waiting| waiting.due_ms).min();
        greet_ms.into_iter().chain(due_ms).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms(7);

    /// Two ends, and a network that loses and repeats by a pattern.
    struct Pair {
        ends: [Link; 2],
        now_ms: u64,
        received: [Vec<Received>; 2],
        state: u64,
    }

    impl Pair {
        fn new(seed: u64) -> Pair {
            Pair {
                ends: [Link::new(10, TERMS), Link::new(20, TERMS)],
                now_ms: 0,
                received: [Vec::new(), Vec::new()],
                state: seed,
            }
        }

        fn random(&mut self, below: u64) -> u64 {
            self.state = self.state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (self.state >> 33) % below
        }

        /// Time passes. Of a thousand frames, this many are lost and as many are repeated, and their
        /// order changes.
        fn run(&mut self, ms: u64, lost: u64) {
            let until_ms = self.now_ms + ms;
            let mut late: Vec<(usize, Vec<u8>)> = Vec::new();
            while self.now_ms < until_ms {
                for from in 0..2 {
                    while let Some(frame) = self.ends[from].poll_frame(self.now_ms) {
                        if self.random(1_000) < lost {
                            continue;
                        }
                        if self.random(1_000) < lost {
                            late.push((1 - from, frame.clone()));
                        }
                        late.push((1 - from, frame));
                    }
                }
                while !late.is_empty() {
                    let at = if lost == 0 { 0 } else { self.random(late.len() as u64) as usize };
                    let (to, frame) = late.remove(at);
                    self.ends[to].handle(&frame).unwrap();
                    while let Some(received) = self.ends[to].poll_received() {
                        self.received[to].push(received);
                    }
                }
                for end in 0..2 {
                    while let Some(received) = self.ends[end].poll_received() {
                        self.received[end].push(received);
                    }
                }
                self.now_ms += 10;
            }
        }
    }

    fn parcels(numbers: std::ops::Range<u32>) -> Vec<Received> {
        numbers.map(|n| Received::Parcel(n.to_be_bytes().into())).collect()
    }

    #[test]
    fn parcels_arrive_once_and_in_order() {
        for seed in 0..200 {
            let lost = [0, 100, 300][seed as usize % 3];
            let mut pair = Pair::new(seed);
            for n in 0..300u32 {
                pair.ends[0].send(pair.now_ms, n.to_be_bytes().into());
                pair.ends[1].send(pair.now_ms, n.to_be_bytes().into());
                if n % 50 == 0 {
                    pair.run(100, lost);
                }
            }
            pair.run(9_000, lost);
            assert_eq!(pair.received, [parcels(0..300), parcels(0..300)], "seed {seed}");
            assert_eq!((pair.ends[0].waiting(), pair.ends[1].waiting()), (0, 0), "seed {seed}");
            assert!(lost == 0 || pair.ends[0].repeats() > 0, "seed {seed}");
            assert!(pair.ends[0].due_ms().is_none(), "an idle link is silent");
        }
    }

    #[test]
    fn a_silent_peer_renews_the_link_for_both() {
        let mut pair = Pair::new(1);
        pair.ends[0].send(0, vec![1]);
        pair.run(100, 0);
        pair.ends[0].send(pair.now_ms, vec![2]);
        pair.ends[1].send(pair.now_ms, vec![3]);
        // Nothing arrives for longer than an end waits.
        pair.run(LINK_PATIENCE_MS + 1_000, 1_000);
        // Both have given up, and learn that the other has, too.
        pair.run(2_000, 0);
        pair.ends[0].send(pair.now_ms, vec![4]);
        pair.run(2_000, 0);
        let [first, second] = &pair.received;
        assert!(first.contains(&Received::Renewed) && !first.contains(&Received::Parcel(vec![3])), "{first:?}");
        assert_eq!(second.first(), Some(&Received::Parcel(vec![1])));
        assert_eq!(second.last(), Some(&Received::Parcel(vec![4])));
        let of_the_former_life = second.iter().position(|received| *received == Received::Parcel(vec![2]));
        assert!(second.contains(&Received::Renewed) && of_the_former_life.is_none(), "{second:?}");
    }

    #[test]
    fn a_peer_that_starts_again_renews_the_link() {
        let mut pair = Pair::new(2);
        pair.ends[0].send(0, vec![1]);
        pair.run(100, 0);
        let mut late = Vec::new();
        pair.ends[0].send(pair.now_ms, vec![2]);
        late.extend(pair.ends[0].poll_frame(pair.now_ms));
        pair.ends[1] = Link::new(30, TERMS);
        pair.ends[1].send(pair.now_ms, vec![9]);
        pair.run(1_000, 0);
        assert_eq!(pair.received[0], [Received::Renewed, Received::Parcel(vec![9])]);
        // What was meant for the former life does not arrive, not even late.
        pair.ends[1].handle(&late[0]).unwrap();
        assert_eq!(pair.ends[1].poll_received(), None);
        pair.ends[0].send(pair.now_ms, vec![3]);
        pair.run(1_000, 0);
        assert_eq!(pair.received[1], [Received::Parcel(vec![1]), Received::Parcel(vec![3])]);
    }

    #[test]
    fn too_much_that_waits_renews_the_link() {
        let mut end = Link::new(1, TERMS);
        for _ in 0..LINK_PARCELS_MAX {
            end.send(0, Vec::new());
        }
        assert_eq!((end.waiting(), end.renewals()), (LINK_PARCELS_MAX, 0));
        end.send(0, Vec::new());
        assert_eq!((end.waiting(), end.renewals(), end.life()), (1, 1, 2));
    }

    #[test]
    fn frames_of_others_are_refused_in_words() {
        let mut end = Link::new(1, TERMS);
        let mut other = Link::new(1, Terms(8));
        other.send(0, vec![1]);
        let frame = other.poll_frame(0).unwrap();
        assert_eq!(end.handle(&frame), Err(Error::Terms));
        let newer = [&[FORMAT + 1], &frame[1..]].concat();
        let refused = end.handle(&newer).unwrap_err().to_string();
        assert_eq!(refused, "a frame is of format 2; this build reads format 1: update this member first");
        assert_eq!(end.handle(&[]), Err(Error::Damaged));
        assert_eq!(end.handle(&frame[..3]), Err(Error::Damaged));
        assert_eq!(end.poll_received(), None);
    }

    #[test]
    fn a_frame_is_what_the_format_says() {
        let mut end = Link::new(300, TERMS);
        end.peer = Some(5);
        end.send(0, vec![1, 2, 3]);
        let bytes = end.poll_frame(0).unwrap();
        let frame = Frame { life: 300, terms: TERMS, to: 5, heard: 0, number: 1, parcel: &[1, 2, 3] };
        assert_eq!(postcard::from_bytes::<Frame<'_>>(&bytes[1..]).unwrap(), frame);
    }
}
