//! The path between a shard and its driver: TLS, and the order of what remains to be sent before a
//! connection is closed or moved.
//!
//! A shard has one send in flight; TLS may have output at any time, and a close or a move waits for
//! both. This module keeps one small state per connection, and does not interpret the bytes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use throng_engine::id::{ConnId, ShardId};
use throng_engine::session::moved::Moved;
use throng_engine::slots::Slots;

use crate::driver::{Close, Driver};
use crate::tls::{TlsConfig, TlsConnection};

/// Time in which the peer of a closing connection must take its last bytes, before it is reset.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// What follows when everything has been sent.
pub enum Then {
    /// Close.
    Close,
    /// Hand over to another shard.
    Depart {
        /// The shard.
        to: ShardId,
        /// Its part of the state.
        moved: Box<Moved>,
    },
}

/// State that only an active connection has.
#[derive(Default)]
struct Busy {
    /// Bytes for the socket after the send in flight.
    out: Vec<u8>,
    /// `out` contains a send of the shard.
    owes_next: bool,
    then: Option<Then>,
}

/// One connection.
#[derive(Default)]
struct Link {
    generation: u32,
    open: bool,
    in_flight: bool,
    /// Whether the shard waits for the send in flight.
    owes: bool,
    /// Its TLS keys are nearly used up, and this has been reported.
    worn: bool,
    busy: Option<Box<Busy>>,
    tls: Option<Box<TlsConnection>>,
}

/// The outcome of a finished send.
#[derive(Default)]
pub struct AfterSend {
    /// The shard's send is done.
    pub sent: bool,
    /// The connection now leaves for another shard, with this state.
    pub depart: Option<(ShardId, Box<Moved>)>,
}

/// The connections of one thread, by the driver's slots.
#[derive(Default)]
pub struct Links {
    links: Slots<Link>,
    /// Closing connections and their deadlines; bounded by the slots and their turnover in
    /// `LAST_WORDS`.
    closing: VecDeque<(Instant, ConnId)>,
    scratch: Vec<u8>,
    /// Number of connections that use TLS.
    encrypted: usize,
    /// Connections whose keys have become nearly used up since the last query; bounded by the
    /// slots.
    worn: Vec<ConnId>,
}

impl Links {
    /// Adds a connection that was accepted or has arrived.
    pub fn open(&mut self, conn: ConnId, tls: Option<Box<TlsConnection>>) {
        let index = conn.slot as usize;
        self.encrypted += usize::from(tls.is_some());
        self.links.reach(index, Link::default);
        self.links[index] = Link { generation: conn.generation, open: true, tls, ..Link::default() };
    }

    /// Prefetches connections that are needed next, see [`Slots::fetch`].
    pub fn fetch(&self, conns: impl Iterator<Item = ConnId>) {
        self.links.fetch(conns.map(|conn| conn.slot as usize), |link| link.generation);
    }

    /// All open connections of this thread.
    pub fn open_connections(&self) -> impl Iterator<Item = ConnId> + '_ {
        let numbered = (0..).zip(self.links.iter()).filter(|(_, link)| link.open);
        numbered.map(|(slot, link)| ConnId { slot, generation: link.generation })
    }

    fn get(&mut self, conn: ConnId) -> Option<&mut Link> {
        self.links.get_mut(conn.slot as usize).filter(|l| l.open && l.generation == conn.generation)
    }

    /// Removes the connection. Returns its TLS, for one that has moved elsewhere.
    pub fn closed(&mut self, conn: ConnId) -> Option<Box<TlsConnection>> {
        let link = self.get(conn)?;
        link.open = false;
        link.busy = None;
        let tls = link.tls.take();
        self.encrypted -= usize::from(tls.is_some());
        tls
    }

    /// Memory of the table, in bytes, including the TLS state of idle connections, without pending
    /// sends.
    pub fn memory_bytes(&self) -> usize {
        let closing = self.closing.capacity() * size_of::<(Instant, ConnId)>();
        self.links.memory_bytes() + closing + self.scratch.capacity() + self.encrypted * size_of::<TlsConnection>()
    }

    /// The TLS of a connection.
    pub fn tls(&mut self, conn: ConnId) -> Option<&mut TlsConnection> {
        self.get(conn)?.tls.as_deref_mut()
    }

    /// Starts TLS on the connection; `last` is sent before it in clear text.
    pub fn start_tls(&mut self, driver: &mut dyn Driver, conn: ConnId, last: Vec<u8>, config: &TlsConfig) {
        self.raw(driver, conn, last, false);
        if let Some(link) = self.get(conn) {
            let before = link.tls.replace(Box::new(TlsConnection::accept(config)));
            self.encrypted += usize::from(before.is_none());
        }
    }

    /// Sends bytes of the shard.
    pub fn send(&mut self, driver: &mut dyn Driver, conn: ConnId, bytes: Vec<u8>) {
        match self.encrypt(conn, &bytes) {
            Some(records) => self.raw(driver, conn, records, true),
            None => self.raw(driver, conn, bytes, true),
        }
    }

    /// The bytes as records, if the connection uses TLS.
    fn encrypt(&mut self, conn: ConnId, bytes: &[u8]) -> Option<Vec<u8>> {
        let link = self.get(conn)?;
        let tls = link.tls.as_mut()?;
        let mut records = Vec::with_capacity(bytes.len() + 64);
        // A connection whose TLS has ended is sent nothing more; its close follows.
        if tls.send(bytes, &mut records).is_err() {
            records.clear();
        }
        if tls.is_worn() && !link.worn {
            link.worn = true;
            self.worn.push(conn);
        }
        Some(records)
    }

    /// Whether [`Links::take_worn`] would return something.
    pub fn has_worn(&self) -> bool {
        !self.worn.is_empty()
    }

    /// Connections whose streams must end because their keys may soon encrypt nothing more; each
    /// once.
    pub fn take_worn(&mut self) -> Vec<ConnId> {
        std::mem::take(&mut self.worn)
    }

    /// Sends bytes to the socket unchanged. `owes`: the shard waits for them.
    pub fn raw(&mut self, driver: &mut dyn Driver, conn: ConnId, bytes: Vec<u8>, owes: bool) {
        let Some(link) = self.get(conn) else { return };
        if bytes.is_empty() && !owes {
            return;
        }
        if link.in_flight {
            let busy = link.busy.get_or_insert_default();
            busy.out.extend_from_slice(&bytes);
            busy.owes_next |= owes;
            return;
        }
        link.in_flight = true;
        link.owes = owes;
        driver.send(conn, bytes);
    }

    /// Closes after the last bytes, or with `abort` at once.
    pub fn close(&mut self, driver: &mut dyn Driver, conn: ConnId, last: Vec<u8>, abort: bool) {
        if abort {
            return driver.close(conn, Close::Now);
        }
        let mut last = self.encrypt(conn, &last).unwrap_or(last);
        if let Some(tls) = self.tls(conn) {
            tls.close(&mut last);
        }
        self.close_raw(driver, conn, last);
    }

    /// Closes after the last bytes, which go to the socket unchanged: those of TLS itself.
    pub fn close_raw(&mut self, driver: &mut dyn Driver, conn: ConnId, last: Vec<u8>) {
        self.raw(driver, conn, last, false);
        self.closing.push_back((Instant::now() + LAST_WORDS, conn));
        self.then(driver, conn, Then::Close);
    }

    /// Hands the connection over after the last bytes. Returns the state if it can leave at once.
    pub fn depart(
        &mut self,
        driver: &mut dyn Driver,
        conn: ConnId,
        last: Vec<u8>,
        to: ShardId,
        moved: Box<Moved>,
    ) -> Option<(ShardId, Box<Moved>)> {
        let last = self.encrypt(conn, &last).unwrap_or(last);
        self.raw(driver, conn, last, false);
        self.then(driver, conn, Then::Depart { to, moved })
    }

    fn then(&mut self, driver: &mut dyn Driver, conn: ConnId, then: Then) -> Option<(ShardId, Box<Moved>)> {
        let link = self.get(conn)?;
        if link.in_flight {
            link.busy.get_or_insert_default().then = Some(then);
            return None;
        }
        match then {
            Then::Close => {
                driver.close(conn, Close::AfterSend);
                None
            }
            Then::Depart { to, moved } => Some((to, moved)),
        }
    }

    /// Handles a send that the driver has finished.
    pub fn sent(&mut self, driver: &mut dyn Driver, conn: ConnId) -> AfterSend {
        let Some(link) = self.get(conn) else { return AfterSend::default() };
        link.in_flight = false;
        let sent = std::mem::take(&mut link.owes);
        let Some(busy) = link.busy.as_mut() else { return AfterSend { sent, depart: None } };
        if !busy.out.is_empty() {
            let bytes = std::mem::take(&mut busy.out);
            link.owes = std::mem::take(&mut busy.owes_next);
            link.in_flight = true;
            driver.send(conn, bytes);
            return AfterSend { sent, depart: None };
        }
        let then = busy.then.take();
        link.busy = None;
        let depart = then.and_then(|then| self.then(driver, conn, then));
        AfterSend { sent, depart }
    }

    /// Resets closing connections whose peers do not take the last bytes.
    pub fn end_patience(&mut self, driver: &mut dyn Driver, now: Instant) {
        while let Some(&(end, conn)) = self.closing.front() {
            if end > now {
                return;
            }
            self.closing.pop_front();
            if self.get(conn).is_some() {
                driver.close(conn, Close::Now);
            }
        }
    }

    /// A buffer of the thread.
    pub fn scratch(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.scratch)
    }

    /// Gives the buffer back.
    pub fn give_back(&mut self, mut scratch: Vec<u8>) {
        scratch.clear();
        if scratch.capacity() <= 1 << 20 {
            self.scratch = scratch;
        }
    }
}
