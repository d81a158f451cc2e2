//! The way between a shard and its driver: TLS, and the order of what a connection is still to be told before it is
//! closed or moved.
//!
//! A shard has one send under way; TLS may have something to say at any time, and a close or a move waits for both. Here
//! is one small state for each connection, and nothing of what bytes mean.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use throng_engine::id::{ConnId, ShardId};
use throng_engine::session::moved::Moved;
use throng_engine::slots::Slots;

use crate::driver::{Close, Driver};
use crate::tls::{TlsConfig, TlsConnection};

/// Time that a closing connection has to take its last words, before it is cut off.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// What follows when all is sent.
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

/// What only a connection in action has.
#[derive(Default)]
struct Busy {
    /// Bytes for the socket behind the send in flight.
    out: Vec<u8>,
    /// `out` holds a send of the shard's.
    owes_next: bool,
    then: Option<Then>,
}

/// One connection.
#[derive(Default)]
struct Link {
    generation: u32,
    open: bool,
    in_flight: bool,
    /// The send in flight is one that the shard waits for.
    owes: bool,
    /// The keys of its TLS are nearly used up, which has been told.
    worn: bool,
    busy: Option<Box<Busy>>,
    tls: Option<Box<TlsConnection>>,
}

/// What came of a finished send.
#[derive(Default)]
pub struct AfterSend {
    /// The shard's send is done.
    pub sent: bool,
    /// The connection leaves for another shard now, with this state.
    pub depart: Option<(ShardId, Box<Moved>)>,
}

/// The connections of one thread, by the driver's slots.
#[derive(Default)]
pub struct Links {
    links: Slots<Link>,
    /// Closing connections and when their patience ends; bounded by the slots and their turnover in `LAST_WORDS`.
    closing: VecDeque<(Instant, ConnId)>,
    scratch: Vec<u8>,
    /// Connections that speak TLS.
    encrypted: usize,
    /// Those whose keys are nearly used up, since it was asked last; bounded by the slots.
    worn: Vec<ConnId>,
}

impl Links {
    /// A connection was accepted or has arrived.
    pub fn open(&mut self, conn: ConnId, tls: Option<Box<TlsConnection>>) {
        let index = conn.slot as usize;
        self.encrypted += usize::from(tls.is_some());
        self.links.reach(index, Link::default);
        self.links[index] = Link { generation: conn.generation, open: true, tls, ..Link::default() };
    }

    /// These are needed next, see [`Slots::fetch`].
    pub fn fetch(&self, conns: impl Iterator<Item = ConnId>) {
        self.links.fetch(conns.map(|conn| conn.slot as usize), |link| link.generation);
    }

    /// All connections that are open here.
    pub fn open_connections(&self) -> impl Iterator<Item = ConnId> + '_ {
        let numbered = (0..).zip(self.links.iter()).filter(|(_, link)| link.open);
        numbered.map(|(slot, link)| ConnId { slot, generation: link.generation })
    }

    fn get(&mut self, conn: ConnId) -> Option<&mut Link> {
        self.links.get_mut(conn.slot as usize).filter(|l| l.open && l.generation == conn.generation)
    }

    /// The connection is gone here. Returns its TLS, for one that lives on elsewhere.
    pub fn closed(&mut self, conn: ConnId) -> Option<Box<TlsConnection>> {
        let link = self.get(conn)?;
        link.open = false;
        link.busy = None;
        let tls = link.tls.take();
        self.encrypted -= usize::from(tls.is_some());
        tls
    }

    /// Memory of the table, bytes, with what an idle connection keeps of TLS, and without what is being sent.
    pub fn memory_bytes(&self) -> usize {
        let closing = self.closing.capacity() * size_of::<(Instant, ConnId)>();
        self.links.memory_bytes() + closing + self.scratch.capacity() + self.encrypted * size_of::<TlsConnection>()
    }

    /// The TLS of a connection.
    pub fn tls(&mut self, conn: ConnId) -> Option<&mut TlsConnection> {
        self.get(conn)?.tls.as_deref_mut()
    }

    /// From here on the connection speaks TLS; `last` goes before in the clear.
    pub fn start_tls(&mut self, driver: &mut dyn Driver, conn: ConnId, last: Vec<u8>, config: &TlsConfig) {
        self.raw(driver, conn, last, false);
        if let Some(link) = self.get(conn) {
            let before = link.tls.replace(Box::new(TlsConnection::accept(config)));
            self.encrypted += usize::from(before.is_none());
        }
    }

    /// Sends what the shard wants sent.
    pub fn send(&mut self, driver: &mut dyn Driver, conn: ConnId, bytes: Vec<u8>) {
        match self.encrypt(conn, &bytes) {
            Some(records) => self.raw(driver, conn, records, true),
            None => self.raw(driver, conn, bytes, true),
        }
    }

    /// The bytes as records, if the connection speaks TLS.
    fn encrypt(&mut self, conn: ConnId, bytes: &[u8]) -> Option<Vec<u8>> {
        let link = self.get(conn)?;
        let tls = link.tls.as_mut()?;
        let mut records = Vec::with_capacity(bytes.len() + 64);
        // A connection whose TLS has ended gets nothing more; its end is on the way.
        if tls.send(bytes, &mut records).is_err() {
            records.clear();
        }
        if tls.is_worn() && !link.worn {
            link.worn = true;
            self.worn.push(conn);
        }
        Some(records)
    }

    /// Whether there is something for [`Links::take_worn`].
    pub fn has_worn(&self) -> bool {
        !self.worn.is_empty()
    }

    /// Connections whose streams have to end because nothing more may soon be encrypted with their keys; each once.
    pub fn take_worn(&mut self) -> Vec<ConnId> {
        std::mem::take(&mut self.worn)
    }

    /// Bytes for the socket as they are. `owes`: the shard waits for them.
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

    /// Closes after the last words, or with `abort` at once.
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

    /// Closes after the last words, which are as they go to the socket: those of TLS itself.
    pub fn close_raw(&mut self, driver: &mut dyn Driver, conn: ConnId, last: Vec<u8>) {
        self.raw(driver, conn, last, false);
        self.closing.push_back((Instant::now() + LAST_WORDS, conn));
        self.then(driver, conn, Then::Close);
    }

    /// Hands the connection over after the last words. Returns the state if it can go at once.
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

    /// The driver has finished a send.
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

    /// Cuts off closing connections whose peers do not take their last words.
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

    /// A buffer of the thread's.
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
