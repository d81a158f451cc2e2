//! The components whose home is this shard, and the stanzas that wait for each (XEP-0114).
//!
//! Stanzas that a component has not taken wait here, and only a portion of them at a time is with
//! its connection. When the connection ends, stanzas that the network has not taken return to their
//! senders, so none is lost silently.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use crate::id::{ConnId, DomainId};
use crate::limits::{
    COMPONENT_FEED_BYTES, COMPONENT_IN_FLIGHT_BYTES, COMPONENT_IN_FLIGHT_MAX, COMPONENT_SENDER_PART,
    COMPONENT_STANZA_BYTES, COMPONENT_WAIT_MS,
};
use crate::router::users::{Incoming, Parked};
use crate::wire::jid::bare_of;

/// A stanza that waits for a component.
#[derive(Debug)]
pub(super) struct Waits {
    pub(super) stanza: Parked,
    /// The number that the sender's home wants confirmed when the stanza has been taken; 0 for none
    /// ([`Noted`](crate::letters::PresenceNews::Noted)).
    pub(super) confirm: u64,
    came_ms: u64,
}

impl Waits {
    /// The bytes that count against the limit.
    fn bytes(&self) -> usize {
        let Parked { from, to, xml, .. } = &self.stanza;
        from.len() + to.len() + xml.len() + COMPONENT_STANZA_BYTES
    }
}

/// There is no room, in total or for this sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

/// A component that is connected.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) domain: DomainId,
    pub(super) conn: ConnId,
    /// Address of the component.
    pub(super) peer: IpAddr,
    /// Distinguishes the confirmations of its stanzas from those of an earlier connection.
    pub(super) epoch: u32,
    /// Second (monotonic) at which it connected.
    pub(super) since_s: u32,
    /// When another connection last presented its secret, milliseconds; 0 if none has since its
    /// last input.
    pub(super) challenged_ms: u64,
    pub(super) stanzas_in: u64,
    pub(super) stanzas_out: u64,
    /// Stanzas for it that were returned with an error.
    pub(super) refused: u64,
    /// Bounded in bytes by
    /// [`component_queue_bytes_max`](crate::settings::Settings::component_queue_bytes_max).
    queue: VecDeque<Waits>,
    bytes: usize,
    /// How many of the first stanzas are with the connection.
    fed: usize,
    /// Waiting bytes by the sender's bare JID; only senders with waiting stanzas.
    senders: BTreeMap<Box<str>, usize>,
    in_flight: u32,
    unsettled: usize,
}

/// Whether a component is read from after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    AsBefore,
    /// Not until its stanzas are safe.
    Stops,
    /// Again, when all its stanzas are durable.
    WhenDurable,
    /// Again, now.
    Again,
}

impl Seat {
    /// Creates a seat without waiting stanzas.
    pub(super) fn new(domain: DomainId, conn: ConnId, peer: IpAddr, epoch: u32, since_s: u32) -> Seat {
        Seat {
            domain,
            conn,
            peer,
            epoch,
            since_s,
            challenged_ms: 0,
            stanzas_in: 0,
            stanzas_out: 0,
            refused: 0,
            queue: VecDeque::new(),
            bytes: 0,
            fed: 0,
            senders: BTreeMap::new(),
            in_flight: 0,
            unsettled: 0,
        }
    }

    /// Number of waiting stanzas, and their bytes.
    pub(super) fn waiting(&self) -> (usize, usize) {
        (self.queue.len(), self.bytes)
    }

    /// Adds a stanza for the component.
    ///
    /// # Errors
    /// [`Full`] if there is no room for it among `most` bytes.
    pub(super) fn put(&mut self, stanza: Incoming<'_>, confirm: u64, now_ms: u64, most: usize) -> Result<(), Full> {
        let bytes = stanza.from.len() + stanza.to.len() + stanza.xml.len() + COMPONENT_STANZA_BYTES;
        let sender = bare_of(stanza.from);
        let of_sender = self.senders.get(sender).copied().unwrap_or_default();
        // One stanza of each sender always fits, however long: it delays no other.
        let may = |waits: usize, most: usize| waits == 0 || waits + bytes <= most;
        if !may(self.bytes, most) || !may(of_sender, most / COMPONENT_SENDER_PART) {
            return Err(Full);
        }
        match self.senders.get_mut(sender) {
            Some(of_sender) => *of_sender += bytes,
            None => drop(self.senders.insert(sender.into(), bytes)),
        }
        self.bytes += bytes;
        self.queue.push_back(Waits { stanza: stanza.into(), confirm, came_ms: now_ms });
        Ok(())
    }

    /// Whether stanzas wait and none is with the connection.
    pub(super) fn is_hungry(&self) -> bool {
        self.fed == 0 && !self.queue.is_empty()
    }

    /// Appends the next portion to the output of the connection, which has taken all earlier ones.
    pub(super) fn feed(&mut self, out: &mut Vec<u8>) {
        let before = out.len();
        for waits in &self.queue {
            let bytes = out.len() - before + waits.stanza.xml.len();
            if self.fed > 0 && bytes > COMPONENT_FEED_BYTES {
                break;
            }
            out.extend_from_slice(&waits.stanza.xml);
            self.fed += 1;
        }
    }

    /// The network has taken the portion that was with the connection.
    pub(super) fn taken(&mut self) -> Vec<Waits> {
        let fed = std::mem::take(&mut self.fed);
        self.stanzas_out += fed as u64;
        (0..fed).filter_map(|_| self.pop(0)).collect()
    }

    /// Takes the stanzas that have waited too long and are not with the connection.
    pub(super) fn late(&mut self, now_ms: u64) -> Vec<Waits> {
        let mut late = Vec::new();
        while self.queue.get(self.fed).is_some_and(|waits| now_ms.saturating_sub(waits.came_ms) > COMPONENT_WAIT_MS) {
            late.extend(self.pop(self.fed));
        }
        late
    }

    /// All stanzas that the network is not known to have taken.
    pub(super) fn left(mut self) -> Vec<Waits> {
        std::mem::take(&mut self.queue).into()
    }

    fn pop(&mut self, at: usize) -> Option<Waits> {
        let waits = self.queue.remove(at)?;
        let (bytes, sender) = (waits.bytes(), bare_of(&waits.stanza.from));
        self.bytes -= bytes;
        if let Some(of_sender) = self.senders.get_mut(sender) {
            *of_sender -= bytes;
            if *of_sender == 0 {
                self.senders.remove(sender);
            }
        }
        Some(waits)
    }

    /// A stanza of the component goes to a home.
    pub(super) fn sent_off(&mut self, bytes: usize) -> Reads {
        self.in_flight += 1;
        self.unsettled += bytes;
        let stops = self.in_flight >= COMPONENT_IN_FLIGHT_MAX || self.unsettled >= COMPONENT_IN_FLIGHT_BYTES;
        if stops { Reads::Stops } else { Reads::AsBefore }
    }

    /// A stanza has arrived. As with a client, a component that has sent much is read from again
    /// when all of it is durable.
    pub(super) fn arrived(&mut self) -> Reads {
        self.in_flight = self.in_flight.saturating_sub(1);
        let much = self.unsettled >= COMPONENT_IN_FLIGHT_BYTES;
        match (self.in_flight, much) {
            (0, _) => {
                self.unsettled = 0;
                if much { Reads::WhenDurable } else { Reads::Again }
            }
            (left, false) if left <= COMPONENT_IN_FLIGHT_MAX / 2 => Reads::Again,
            _ => Reads::AsBefore,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Seats {
    /// Bounded by the configured components, each once.
    all: Vec<Seat>,
    last_epoch: u32,
}

impl Seats {
    pub(super) fn any(&self) -> bool {
        !self.all.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Seat> {
        self.all.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Seat> {
        self.all.iter_mut()
    }

    /// The component of a domain.
    pub(super) fn get(&mut self, domain: DomainId) -> Option<&mut Seat> {
        self.all.iter_mut().find(|seat| seat.domain == domain)
    }

    /// The component of a connection.
    pub(super) fn of_conn(&mut self, conn: ConnId) -> Option<&mut Seat> {
        self.all.iter_mut().find(|seat| seat.conn == conn)
    }

    /// The component whose stanzas have this epoch.
    pub(super) fn of_epoch(&mut self, epoch: u32) -> Option<&mut Seat> {
        self.all.iter_mut().find(|seat| seat.epoch == epoch)
    }

    /// Adds a component for a domain that has none.
    pub(super) fn sit(&mut self, domain: DomainId, conn: ConnId, peer: IpAddr, since_s: u32) {
        self.last_epoch = self.last_epoch.wrapping_add(1);
        self.all.push(Seat::new(domain, conn, peer, self.last_epoch, since_s));
    }

    /// Removes the component of a connection.
    pub(super) fn leave(&mut self, conn: ConnId) -> Option<Seat> {
        let at = self.all.iter().position(|seat| seat.conn == conn)?;
        Some(self.all.swap_remove(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::letters::Kind;

    fn seat() -> Seat {
        Seat::new(DomainId::default(), ConnId { slot: 1, generation: 1 }, [127, 0, 0, 1].into(), 1, 0)
    }

    fn stanza<'a>(from: &'a str, xml: &'a [u8]) -> Incoming<'a> {
        Incoming { kind: Kind::Request, origin: None, from, to: "echo.localhost", xml }
    }

    #[test]
    fn one_sender_leaves_room_for_others_and_all_together_have_a_bound() {
        let (mut seat, most) = (seat(), 64_000);
        let long = vec![b'x'; 1_000];
        let flood = |seat: &mut Seat, from: &str| {
            (0..100).take_while(|_| seat.put(stanza(from, &long), 0, 0, most).is_ok()).count()
        };
        assert_eq!(flood(&mut seat, "romeo@localhost/a"), 3, "a sixteenth");
        assert_eq!(flood(&mut seat, "romeo@localhost/b"), 0, "another resource is the same sender");
        let others: usize = (0..100).map(|n| flood(&mut seat, &format!("user{n}@localhost/a"))).sum();
        let (waiting, bytes) = seat.waiting();
        assert!(waiting == 3 + others && bytes <= most && bytes + 1_300 > most, "{waiting} of {bytes} bytes");
        let mut out = Vec::new();
        while seat.is_hungry() {
            seat.feed(&mut out);
            assert!(!seat.taken().is_empty());
        }
        assert_eq!((seat.waiting(), seat.senders.len()), ((0, 0), 0), "nothing is left of what was taken");
    }

    #[test]
    fn a_stanza_longer_than_a_piece_goes_alone_and_order_is_kept() {
        let (mut seat, most) = (seat(), 1 << 20);
        let long = vec![b'l'; COMPONENT_FEED_BYTES + 1];
        for (n, xml) in [&b"<a/>"[..], &long, b"<b/>", b"<c/>"].into_iter().enumerate() {
            seat.put(stanza(&format!("u{n}@localhost"), xml), 0, 0, most).expect("there is room");
        }
        let mut pieces = Vec::new();
        while seat.is_hungry() {
            let mut out = Vec::new();
            seat.feed(&mut out);
            assert!(!seat.is_hungry(), "one piece at a time");
            seat.taken();
            pieces.push(out);
        }
        assert_eq!(pieces, [b"<a/>".to_vec(), long, b"<b/><c/>".to_vec()]);
    }

    #[test]
    fn what_waits_too_long_goes_back_but_not_what_is_under_way() {
        let mut seat = seat();
        let long = vec![b'l'; COMPONENT_FEED_BYTES];
        seat.put(stanza("a@localhost", &long), 0, 0, 1 << 20).expect("there is room");
        seat.put(stanza("b@localhost", b"<b/>"), 0, 1, 1 << 20).expect("there is room");
        seat.feed(&mut Vec::new());
        assert!(seat.late(COMPONENT_WAIT_MS + 1).is_empty());
        let late = seat.late(COMPONENT_WAIT_MS + 2);
        assert_eq!(late.iter().map(|waits| &*waits.stanza.from).collect::<Vec<_>>(), ["b@localhost"]);
        assert_eq!(seat.left().len(), 1);
    }

    #[test]
    fn who_sends_much_is_read_from_when_it_is_in_safe_hands() {
        let mut seat = seat();
        assert!((1..COMPONENT_IN_FLIGHT_MAX).all(|_| seat.sent_off(1) == Reads::AsBefore));
        assert_eq!(seat.sent_off(1), Reads::Stops);
        assert!((0..COMPONENT_IN_FLIGHT_MAX / 2 - 1).all(|_| seat.arrived() == Reads::AsBefore));
        assert_eq!(seat.arrived(), Reads::Again);
        assert_eq!(seat.sent_off(COMPONENT_IN_FLIGHT_BYTES), Reads::Stops);
        assert!((0..COMPONENT_IN_FLIGHT_MAX / 2).all(|_| seat.arrived() == Reads::AsBefore));
        assert_eq!(seat.arrived(), Reads::WhenDurable);
    }
}
