//! Waiting connections, relayed streams, and their users: limited in every dimension, and without a
//! socket.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use throng_engine::extension::bytestreams::{Activated, Activation, StreamHash};

use super::Bounds;
use super::pace::Pace;

/// A connection's number, never used again.
pub(super) type ConnNumber = u64;

/// A connection that is not relayed yet.
struct Waiting<H> {
    network: IpAddr,
    /// The stream it has named, once its handshake is done.
    stream: Option<StreamHash>,
    /// Used to take its socket. Dropping it ends the connection.
    handle: H,
}

/// The parties to a stream.
enum Parties {
    One(ConnNumber),
    Two(ConnNumber, ConnNumber),
    Relayed,
}

/// A user who has activated relayed streams.
struct User {
    streams: usize,
    pace: Arc<Pace>,
}

/// The handles needed to relay a stream.
pub(super) struct Taken<H> {
    pub handles: (H, H),
    pub pace: Arc<Pace>,
}

/// The table; see the module.
pub(super) struct Table<H> {
    bounds: Bounds,
    next: ConnNumber,
    /// Bounded by `waiting_max`.
    waiting: BTreeMap<ConnNumber, Waiting<H>>,
    /// Waiting connections of each network.
    networks: BTreeMap<IpAddr, BTreeSet<ConnNumber>>,
    /// Bounded by the waiting connections and the relayed streams.
    streams: BTreeMap<StreamHash, Parties>,
    users: BTreeMap<Box<str>, User>,
    relayed: usize,
}

impl<H> Table<H> {
    pub(super) fn new(bounds: Bounds) -> Table<H> {
        Table {
            bounds,
            next: 0,
            waiting: BTreeMap::new(),
            networks: BTreeMap::new(),
            streams: BTreeMap::new(),
            users: BTreeMap::new(),
            relayed: 0,
        }
    }

    /// Number of connections that are not relayed yet.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Number of relayed streams.
    pub(super) fn relayed(&self) -> usize {
        self.relayed
    }

    /// Adds a connection. `None` if its network has reached its limit; otherwise its number, and
    /// whether another one was displaced: of the network with the most, the one that has waited
    /// longest.
    pub(super) fn arrive(&mut self, network: IpAddr, handle: H) -> Option<(ConnNumber, bool)> {
        let own = self.networks.get(&network).map_or(0, BTreeSet::len);
        if self.bounds.per_address_max > 0 && own >= self.bounds.per_address_max {
            return None;
        }
        let full = self.waiting.len() >= self.bounds.waiting_max;
        if full {
            let most = self.networks.values().max_by_key(|conns| conns.len());
            if let Some(first) = most.and_then(|conns| conns.first().copied()) {
                self.leave(first);
            }
        }
        let number = self.next;
        self.next += 1;
        self.waiting.insert(number, Waiting { network, stream: None, handle });
        self.networks.entry(network).or_default().insert(number);
        Some((number, full))
    }

    /// Records the stream named in a completed handshake. False if two connections have named it
    /// before (XEP-0065 10.1), or the connection was displaced.
    pub(super) fn names(&mut self, number: ConnNumber, stream: StreamHash) -> bool {
        let Some(waiting) = self.waiting.get_mut(&number).filter(|waiting| waiting.stream.is_none()) else {
            return false;
        };
        let parties = match self.streams.get(&stream) {
            None => Parties::One(number),
            Some(Parties::One(first)) => Parties::Two(*first, number),
            Some(Parties::Two(..) | Parties::Relayed) => return false,
        };
        waiting.stream = Some(stream);
        self.streams.insert(stream, parties);
        true
    }

    /// Removes a connection. One that is relayed, or was displaced, is no longer in the table.
    pub(super) fn leave(&mut self, number: ConnNumber) {
        let Some(Waiting { stream, .. }) = self.forget(number) else { return };
        let Some(stream) = stream else { return };
        let left = match self.streams.get(&stream) {
            Some(Parties::Two(one, other)) if *one == number => Some(*other),
            Some(Parties::Two(one, _)) => Some(*one),
            _ => None,
        };
        match left {
            Some(left) => self.streams.insert(stream, Parties::One(left)),
            None => self.streams.remove(&stream),
        };
    }

    fn forget(&mut self, number: ConnNumber) -> Option<Waiting<H>> {
        let waiting = self.waiting.remove(&number)?;
        if let Some(conns) = self.networks.get_mut(&waiting.network) {
            conns.remove(&number);
            if conns.is_empty() {
                self.networks.remove(&waiting.network);
            }
        }
        Some(waiting)
    }

    /// Starts relaying a stream (XEP-0065 6.3.5). `None` if it is already relayed: a repeated
    /// activation also succeeds.
    ///
    /// # Errors
    /// Why it cannot be relayed. Nothing has changed.
    pub(super) fn activate(&mut self, activation: &Activation) -> Result<Option<Taken<H>>, Activated> {
        let (one, other) = match self.streams.get(&activation.stream) {
            None => return Err(Activated::Unknown),
            Some(Parties::One(_)) => return Err(Activated::Alone),
            Some(Parties::Two(one, other)) => (*one, *other),
            Some(Parties::Relayed) => return Ok(None),
        };
        // A user who starts again gets no other burst before the last one has passed.
        self.users.retain(|_, user| user.streams > 0 || !user.pace.is_at_rest());
        let own = self.users.get(&activation.user).map_or(0, |user| user.streams);
        if own >= self.bounds.per_user_max || self.relayed >= self.bounds.streams_max {
            return Err(Activated::TooMany);
        }
        let (Some(one), Some(other)) = (self.forget(one), self.forget(other)) else {
            debug_assert!(false, "who has named a stream waits");
            return Err(Activated::Failed);
        };
        self.streams.insert(activation.stream, Parties::Relayed);
        self.relayed += 1;
        let pace = || Arc::new(Pace::new(self.bounds.user_bytes_per_second));
        let user = self.users.entry(activation.user.clone()).or_insert_with(|| User { streams: 0, pace: pace() });
        user.streams += 1;
        Ok(Some(Taken { handles: (one.handle, other.handle), pace: user.pace.clone() }))
    }

    /// Removes a relayed stream.
    pub(super) fn ended(&mut self, activation: &Activation) {
        let Some(Parties::Relayed) = self.streams.get(&activation.stream) else { return };
        self.streams.remove(&activation.stream);
        self.relayed -= 1;
        if let Some(user) = self.users.get_mut(&activation.user) {
            user.streams -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn bounds() -> Bounds {
        Bounds {
            waiting_max: 8,
            per_address_max: 4,
            streams_max: 3,
            per_user_max: 2,
            user_bytes_per_second: 0,
            idle: Duration::ZERO,
            handshake: Duration::ZERO,
            activation: Duration::ZERO,
        }
    }

    fn at(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    fn of(user: &str, stream: u8) -> Activation {
        Activation { user: user.into(), stream: [stream; 20] }
    }

    /// Two connections that have named a stream.
    fn pair(table: &mut Table<u8>, stream: u8) -> (ConnNumber, ConnNumber) {
        let mut one = |address| {
            let (number, _) = table.arrive(at(address), stream).expect("room");
            assert!(table.names(number, [stream; 20]));
            number
        };
        (one(stream), one(100 + stream))
    }

    #[test]
    fn two_parties_and_their_requester_make_a_stream_xep0065_6_3_5() {
        let mut table = Table::new(bounds());
        assert_eq!(table.activate(&of("a@b", 1)).err(), Some(Activated::Unknown), "nobody has connected");
        let (one, _) = table.arrive(at(1), 0).expect("room");
        assert!(table.names(one, [1; 20]));
        assert_eq!(table.activate(&of("a@b", 1)).err(), Some(Activated::Alone));
        let (other, _) = table.arrive(at(2), 0).expect("room");
        assert!(table.names(other, [1; 20]));
        assert!(table.activate(&of("a@b", 1)).is_ok_and(|taken| taken.is_some()));
        assert_eq!((table.waiting(), table.relayed()), (0, 1));
        assert!(table.activate(&of("a@b", 1)).is_ok_and(|taken| taken.is_none()), "again");
        table.ended(&of("a@b", 1));
        table.ended(&of("a@b", 1));
        assert_eq!(table.relayed(), 0);
        assert_eq!(table.activate(&of("a@b", 1)).err(), Some(Activated::Unknown));
    }

    #[test]
    fn a_third_party_is_refused_before_and_after_xep0065_10_1() {
        let mut table = Table::new(bounds());
        pair(&mut table, 1);
        let (third, _) = table.arrive(at(3), 0).expect("room");
        assert!(!table.names(third, [1; 20]));
        assert!(table.activate(&of("a@b", 1)).is_ok());
        assert!(!table.names(third, [1; 20]));
        assert!(table.names(third, [2; 20]), "it may name another one");
        assert!(!table.names(third, [3; 20]), "once");
    }

    #[test]
    fn one_that_leaves_makes_room_for_another() {
        let mut table = Table::new(bounds());
        let (one, other) = pair(&mut table, 1);
        table.leave(one);
        assert_eq!(table.activate(&of("a@b", 1)).err(), Some(Activated::Alone));
        let (again, _) = table.arrive(at(9), 0).expect("room");
        assert!(table.names(again, [1; 20]));
        table.leave(again);
        table.leave(other);
        assert_eq!(table.activate(&of("a@b", 1)).err(), Some(Activated::Unknown));
        assert!(table.streams.is_empty() && table.networks.is_empty());
    }

    #[test]
    fn an_address_and_a_user_have_their_share_and_all_have_theirs() {
        let mut table = Table::new(Bounds { waiting_max: 100, ..bounds() });
        let held = (0..10).filter(|_| table.arrive(at(1), 0).is_some()).count();
        assert_eq!(held, 4);
        for stream in 10..16 {
            pair(&mut table, stream);
        }
        let refused = Some(Activated::TooMany);
        assert!(table.activate(&of("a@b", 10)).is_ok() && table.activate(&of("a@b", 11)).is_ok());
        assert_eq!(table.activate(&of("a@b", 12)).err(), refused, "a user's");
        assert!(table.activate(&of("c@b", 12)).is_ok());
        assert_eq!(table.activate(&of("c@b", 13)).err(), refused, "of all");
        table.ended(&of("a@b", 10));
        assert!(table.activate(&of("c@b", 13)).is_ok(), "it was not lost");
    }

    #[test]
    fn who_has_most_connections_gives_way_first() {
        let mut table = Table::new(Bounds { per_address_max: 0, ..bounds() });
        let (honest, _) = table.arrive(at(1), 0).expect("room");
        let flood: Vec<ConnNumber> = (0..1_000).map(|_| table.arrive(at(2), 0).expect("room").0).collect();
        assert_eq!(table.waiting(), 8);
        assert!(table.waiting.contains_key(&honest), "the flood gives way to itself");
        assert!(table.waiting.contains_key(flood.last().expect("some")));
        assert!(table.arrive(at(3), 0).is_some_and(|(_, displaced)| displaced));
        assert!(table.waiting.contains_key(&honest));
    }

    proptest! {
        /// After any sequence of events, counts match the content, and no limit is exceeded.
        #[test]
        fn nothing_is_over_its_bound(steps in prop::collection::vec((0..5_u8, 0..6_u8, 0..6_u8), 0..200)) {
            let mut table = Table::new(bounds());
            let (mut numbers, mut relayed) = (Vec::new(), Vec::new());
            for (what, a, b) in steps {
                match what {
                    0 => numbers.extend(table.arrive(at(a), 0).map(|(number, _)| number)),
                    1 if !numbers.is_empty() => {
                        let number = numbers[usize::from(a) % numbers.len()];
                        table.names(number, [b; 20]);
                    }
                    2 if !numbers.is_empty() => table.leave(numbers[usize::from(a) % numbers.len()]),
                    3 => {
                        let activation = of(&format!("{a}@b"), b);
                        if let Ok(Some(_)) = table.activate(&activation) {
                            relayed.push(activation);
                        }
                    }
                    4 if !relayed.is_empty() => table.ended(&relayed.remove(usize::from(a) % relayed.len())),
                    _ => {}
                }
                prop_assert!(table.waiting() <= 8 && table.relayed() <= 3);
                prop_assert_eq!(table.relayed(), relayed.len());
                prop_assert_eq!(table.networks.values().map(BTreeSet::len).sum::<usize>(), table.waiting());
                prop_assert!(table.networks.values().all(|conns| (1..=4).contains(&conns.len())));
                prop_assert_eq!(table.users.values().map(|user| user.streams).sum::<usize>(), relayed.len());
                prop_assert!(table.users.values().all(|user| user.streams <= 2));
                let named: usize = table.streams.values().map(|parties| match parties {
                    Parties::One(_) => 1,
                    Parties::Two(..) => 2,
                    Parties::Relayed => 0,
                }).sum();
                prop_assert_eq!(named, table.waiting.values().filter(|waiting| waiting.stream.is_some()).count());
            }
        }
    }
}
