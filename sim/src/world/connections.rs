//! The connections of the simulated process: their slots, and the transport of bytes in both
//! directions.

use std::net::IpAddr;

use throng_engine::id::{ConnId, ShardId};
use throng_engine::io::Lost;

use super::machine::{Envelope, Feed};
use super::{Event, Occurrence, World};
use crate::net::{ClientEnd, SocketId, Then, take};

impl World {
    pub(super) fn socket_of(&self, shard: ShardId, conn: ConnId) -> Option<usize> {
        let (generation, socket) = *self.threads[shard.index()].slots.get(conn.slot as usize)?;
        socket.filter(|_| generation == conn.generation)
    }

    pub(super) fn take_slot(&mut self, index: usize, shard: ShardId) -> ConnId {
        let thread = &mut self.threads[shard.index()];
        let slot = thread.free.pop().unwrap_or_else(|| {
            thread.slots.push((0, None));
            (thread.slots.len() - 1) as u32
        });
        let entry = &mut thread.slots[slot as usize];
        *entry = (entry.0.wrapping_add(1), Some(index));
        let conn = ConnId { slot, generation: entry.0 };
        let socket = &mut self.sockets[index];
        (socket.shard, socket.conn, socket.paused) = (shard, Some(conn), false);
        conn
    }

    /// Frees the slot of a connection that has left its shard.
    fn free_slot(&mut self, index: usize) {
        let socket = &mut self.sockets[index];
        let Some(conn) = socket.conn.take() else { return };
        let shard = socket.shard;
        let thread = &mut self.threads[shard.index()];
        thread.slots[conn.slot as usize].1 = None;
        thread.was.insert(conn, index);
        thread.free.push(conn.slot);
        self.feed(shard, Feed::Closed(conn));
    }

    pub(super) fn accept(&mut self, index: usize) {
        if self.sockets[index].over {
            return;
        }
        let shard = self.sockets[index].shard;
        let conn = self.take_slot(index, shard);
        let own = IpAddr::from([127, 0, (index >> 8) as u8, index as u8]);
        let peer = self.peer.unwrap_or(own);
        let accepted = match self.components.contains(&index) {
            true => Feed::AcceptedComponent(conn, peer),
            false if self.http => Feed::AcceptedHttp(conn, self.listener, peer),
            false => Feed::Accepted(conn, self.listener, peer),
        };
        self.feed(shard, accepted);
        self.kick_up(index);
    }

    pub(super) fn kick_up(&mut self, index: usize) {
        let s = &mut self.sockets[index];
        let something = !s.up.is_empty() || s.client == ClientEnd::Finished;
        if something && !s.up_due && !s.paused && s.conn.is_some() {
            s.up_due = true;
            self.after(self.pace.net_us, Event::Up(index));
        }
    }

    /// Delivers bytes to the server.
    pub(super) fn up(&mut self, index: usize) {
        let s = &mut self.sockets[index];
        s.up_due = false;
        let Some(conn) = s.conn.filter(|_| !s.paused) else { return };
        if s.up.is_empty() {
            // The peer has closed its direction: the server's end closes once all output is sent.
            if s.client == ClientEnd::Finished && s.then.is_none() {
                let shard = s.shard;
                self.feed(shard, Feed::Lost(conn, Lost::Finished));
                self.send_to(index, Vec::new(), false, Some(Then::Close));
            }
            return;
        }
        let most = match self.pace.read_bytes {
            0 => s.up.len(),
            most => 1 + self.random.index(most),
        };
        let n = most.min(s.up.len());
        let bytes = take(&mut s.up, n);
        let shard = s.shard;
        self.feed(shard, Feed::Received(conn, bytes));
        self.kick_up(index);
    }

    pub(super) fn kick_down(&mut self, index: usize) {
        let s = &mut self.sockets[index];
        let something = !s.down.is_empty() || s.over;
        if something && !s.down_due && !s.stalled && s.client != ClientEnd::Gone {
            s.down_due = true;
            self.after(self.pace.net_us, Event::Down(index));
        }
    }

    /// Delivers bytes, or the end, to the client.
    pub(super) fn down(&mut self, index: usize) -> Occurrence {
        let s = &mut self.sockets[index];
        s.down_due = false;
        if s.client == ClientEnd::Gone || s.stalled {
            return Occurrence::Inside;
        }
        if s.down.is_empty() {
            if !s.over {
                return Occurrence::Inside;
            }
            s.client = ClientEnd::Gone;
            return Occurrence::Ended(SocketId(index));
        }
        let most = match self.pace.read_bytes {
            0 => s.down.len(),
            most => 1 + self.random.index(most),
        };
        let n = most.min(s.down.len());
        let bytes = take(&mut s.down, n);
        self.kick_down(index);
        self.kick_flush(index);
        Occurrence::Bytes(SocketId(index), bytes)
    }

    pub(super) fn send(&mut self, shard: ShardId, conn: ConnId, mut bytes: Vec<u8>, owes: bool, then: Option<Then>) {
        let Some(index) = self.socket_of(shard, conn) else {
            // The connection was closed while this waited for its commit.
            let was = self.threads[shard.index()].was.get(&conn);
            if let Some(&was) = was {
                self.lost.push((SocketId(was), bytes));
            }
            return;
        };
        if let Some(plant) = self.plant {
            plant.spoil_bytes(&mut bytes, &mut self.random);
        }
        self.send_to(index, bytes, owes, then);
    }

    fn send_to(&mut self, index: usize, bytes: Vec<u8>, owes: bool, then: Option<Then>) {
        let s = &mut self.sockets[index];
        s.send(bytes, owes);
        if then.is_some() {
            s.then = then;
        }
        if s.in_flight {
            self.kick_flush(index);
        } else {
            self.then(index);
        }
    }

    pub(super) fn kick_flush(&mut self, index: usize) {
        let s = &mut self.sockets[index];
        let full = if s.client == ClientEnd::Gone { s.swallowed } else { s.down.len() } >= self.pace.kernel_bytes;
        if s.in_flight && !s.flush_due && !full && !s.over {
            s.flush_due = true;
            let most = self.pace.net_us / 4;
            self.after(most, Event::Flush(index));
        }
    }

    /// Moves a part of the send in flight to the kernel.
    pub(super) fn flush(&mut self, index: usize) {
        let s = &mut self.sockets[index];
        s.flush_due = false;
        if !s.in_flight || s.over {
            return;
        }
        let held = if s.client == ClientEnd::Gone { s.swallowed } else { s.down.len() };
        let room = self.pace.kernel_bytes.saturating_sub(held);
        let lost = s.to_kernel(room);
        if !lost.is_empty() {
            self.lost.push((SocketId(index), lost));
        }
        let s = &mut self.sockets[index];
        if s.sending.is_empty() {
            let (owed, conn, shard) = (s.sent(), s.conn, s.shard);
            if let (true, Some(conn)) = (owed, conn) {
                self.feed(shard, Feed::Sent(conn));
            }
            if !self.sockets[index].in_flight {
                self.then(index);
            }
        }
        self.kick_down(index);
        self.kick_flush(index);
    }

    /// Runs what follows the output, once the kernel has all of it.
    fn then(&mut self, index: usize) {
        match self.sockets[index].then.take() {
            Some(Then::Close) => {
                self.free_slot(index);
                self.sockets[index].over = true;
                self.kick_down(index);
            }
            Some(Then::Depart { to, moved }) => {
                let shard = self.sockets[index].shard;
                self.free_slot(index);
                let after = self.threads[shard.index()].gate.gate();
                self.post(shard, to, Envelope::Moved { socket: index, after, moved });
            }
            Some(Then::Secure) => {
                let (shard, conn) = (self.sockets[index].shard, self.sockets[index].conn);
                if let Some(conn) = conn {
                    self.feed(shard, Feed::Secured(conn));
                }
            }
            None => {}
        }
    }

    /// The server detects that the client has vanished.
    pub(super) fn detect(&mut self, index: usize) {
        let s = &self.sockets[index];
        if let (false, Some(conn)) = (s.over, s.conn) {
            self.feed(s.shard, Feed::Lost(conn, Lost::Broken));
            self.close_now(index);
        }
    }

    /// The server closes at once.
    pub(super) fn close_now(&mut self, index: usize) {
        self.free_slot(index);
        self.cut(index);
    }

    /// The server's end disappears at once: a prefix of the data in transit still arrives.
    pub(super) fn cut(&mut self, index: usize) {
        let keep = self.random.index(self.sockets[index].down.len() + 1);
        let s = &mut self.sockets[index];
        s.over = true;
        s.conn = None;
        s.then = None;
        s.up.clear();
        let lost = s.take_undelivered();
        if s.client != ClientEnd::Gone {
            s.down.extend(&lost[..keep.min(lost.len())]);
        }
        s.in_flight = false;
        if !lost.is_empty() {
            // Data that arrives is counted as lost, too: this excuses more than necessary, but only
            // for this connection.
            self.lost.push((SocketId(index), lost));
        }
        self.kick_down(index);
    }
}
