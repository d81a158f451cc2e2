//! The floor's work over one of Throng's drivers: what is received in a turn is sent when the turn ends.

use crate::Relay;
use std::io;
use std::net::SocketAddr;
use throng::driver::{Close, ConnId, Event, ListenerTag, Preference, Settings, choose, shared_listener};

/// One connection, by its slot.
#[derive(Default)]
struct Conn {
    id: Option<ConnId>,
    partner: Option<ConnId>,
    /// To be sent to it.
    waiting: Vec<u8>,
    sending: bool,
    dirty: bool,
}

#[derive(Default)]
struct Table {
    conns: Vec<Conn>,
    odd: Option<ConnId>,
    dirty: Vec<u32>,
    spare: Vec<Vec<u8>>,
    failed: Vec<ConnId>,
}

impl Table {
    fn conn(&mut self, slot: u32) -> &mut Conn {
        let slot = slot as usize;
        if self.conns.len() <= slot {
            self.conns.resize_with(slot + 1, Conn::default);
        }
        &mut self.conns[slot]
    }

    fn touch(&mut self, slot: u32) {
        let conn = self.conn(slot);
        if !conn.dirty && !conn.sending {
            conn.dirty = true;
            self.dirty.push(slot);
        }
    }

    fn handle(&mut self, event: Event<'_>) {
        match event {
            Event::Accepted { conn, .. } => {
                *self.conn(conn.slot) = Conn { id: Some(conn), ..Conn::default() };
                match self.odd.take() {
                    None => self.odd = Some(conn),
                    Some(partner) => {
                        self.conn(conn.slot).partner = Some(partner);
                        self.conn(partner.slot).partner = Some(conn);
                    }
                }
            }
            Event::Received { conn, bytes } => {
                if let Some(partner) = self.conn(conn.slot).partner {
                    let mut waiting = std::mem::take(&mut self.conn(partner.slot).waiting);
                    if waiting.capacity() == 0 {
                        waiting = self.spare.pop().unwrap_or_default();
                    }
                    waiting.extend_from_slice(bytes);
                    self.conn(partner.slot).waiting = waiting;
                    self.touch(partner.slot);
                }
            }
            Event::Sent { conn, buffer } => {
                self.spare.push(buffer);
                let entry = self.conn(conn.slot);
                entry.sending = false;
                if !entry.waiting.is_empty() {
                    self.touch(conn.slot);
                }
            }
            Event::Failed { conn, .. } => self.failed.push(conn),
            _ => {}
        }
    }
}

/// Relays until killed.
pub(crate) fn serve(listen: SocketAddr, relay: Relay) -> io::Result<()> {
    let preference = if relay == Relay::Uring { Preference::Uring } else { Preference::Epoll };
    let mut driver = choose(preference, &Settings::default())?.driver;
    let listener = shared_listener(listen, 4096)?;
    println!("{}", listener.local_addr()?);
    driver.listen(listener, ListenerTag(0))?;
    let mut table = Table::default();
    loop {
        driver.wait(None, &mut |event| table.handle(event))?;
        while let Some(slot) = table.dirty.pop() {
            let conn = &mut table.conns[slot as usize];
            conn.dirty = false;
            if let Some(id) = conn.id {
                conn.sending = true;
                driver.send(id, std::mem::take(&mut conn.waiting));
            }
        }
        while let Some(conn) = table.failed.pop() {
            driver.close(conn, Close::AfterSend);
        }
    }
}
