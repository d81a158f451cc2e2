//! The simulated network: the two directions of each socket, the data in transit, and which end has
//! closed.
//!
//! It handles bytes and ends, not their meaning. The world decides when bytes move and in which
//! pieces.

use std::collections::VecDeque;

use throng_engine::id::{ConnId, ShardId};
use throng_engine::session::moved::Moved;

/// A connection as its client names it; never reused within a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub usize);

/// What the server's end does once the kernel has all output.
#[derive(Debug)]
pub(super) enum Then {
    Close,
    Depart { to: ShardId, moved: Box<Moved> },
    Secure,
}

/// The client's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientEnd {
    /// It reads and writes.
    Open,
    /// It has closed its direction; the server learns this once it has read everything.
    Finished,
    /// It has disappeared; the server learns this later.
    Gone,
}

/// Takes the first `n` bytes from a queue, in bulk: a world mostly moves bytes.
pub(super) fn take(queue: &mut VecDeque<u8>, n: usize) -> Vec<u8> {
    let (front, back) = queue.as_slices();
    let bytes = match front.split_at_checked(n) {
        Some((bytes, _)) => bytes.to_vec(),
        None => [front, &back[..n - front.len()]].concat(),
    };
    queue.drain(..n);
    bytes
}

/// One connection.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) shard: ShardId,
    /// Its slot at the shard; `None` before it is accepted, while it moves between shards, and once
    /// the server has closed it.
    pub(super) conn: Option<ConnId>,
    pub(super) client: ClientEnd,
    /// Whether the server has closed it.
    pub(super) over: bool,
    /// Whether the client has stopped reading.
    pub(super) stalled: bool,
    /// Whether the server has stopped reading.
    pub(super) paused: bool,
    /// Client to server.
    pub(super) up: VecDeque<u8>,
    pub(super) up_due: bool,
    /// In the server's kernel or in transit to the client.
    pub(super) down: VecDeque<u8>,
    pub(super) down_due: bool,
    /// Whether the client that owned it did not count what it received.
    pub(super) marked: bool,
    /// Bytes that the kernel accepted for a client that had disappeared.
    pub(super) swallowed: usize,
    /// The driver's send in flight.
    pub(super) sending: VecDeque<u8>,
    pub(super) in_flight: bool,
    pub(super) flush_due: bool,
    /// Whether the shard waits for the send in flight.
    pub(super) owes: bool,
    /// Bytes queued after it.
    pub(super) out: Vec<u8>,
    pub(super) owes_next: bool,
    pub(super) then: Option<Then>,
}

impl Socket {
    pub(super) fn new(shard: ShardId) -> Socket {
        Socket {
            shard,
            conn: None,
            client: ClientEnd::Open,
            over: false,
            stalled: false,
            paused: false,
            up: VecDeque::new(),
            up_due: false,
            down: VecDeque::new(),
            down_due: false,
            marked: false,
            swallowed: 0,
            sending: VecDeque::new(),
            in_flight: false,
            flush_due: false,
            owes: false,
            out: Vec::new(),
            owes_next: false,
            then: None,
        }
    }

    /// Queues output of the server; with `owes`, the shard waits until the kernel has it.
    pub(super) fn send(&mut self, bytes: Vec<u8>, owes: bool) {
        if bytes.is_empty() && !owes {
            return;
        }
        if self.in_flight {
            self.out.extend_from_slice(&bytes);
            self.owes_next |= owes;
            return;
        }
        self.in_flight = true;
        self.owes = owes;
        self.sending = bytes.into();
    }

    /// Completes the send in flight and starts the next. Returns whether the shard waits for that.
    pub(super) fn sent(&mut self) -> bool {
        let owed = std::mem::take(&mut self.owes);
        self.in_flight = !self.out.is_empty();
        if self.in_flight {
            self.sending = std::mem::take(&mut self.out).into();
            self.owes = std::mem::take(&mut self.owes_next);
        }
        owed
    }

    /// Moves up to `most` bytes to the kernel; returns those to a client that has disappeared.
    pub(super) fn to_kernel(&mut self, most: usize) -> Vec<u8> {
        let n = most.min(self.sending.len());
        let bytes = take(&mut self.sending, n);
        if self.client == ClientEnd::Gone {
            self.swallowed += n;
            return bytes;
        }
        self.down.extend(bytes);
        Vec::new()
    }

    /// Takes all data that the server has sent and the client has not received.
    pub(super) fn take_undelivered(&mut self) -> Vec<u8> {
        let mut lost = Vec::from(std::mem::take(&mut self.down));
        lost.extend(Vec::from(std::mem::take(&mut self.sending)));
        lost.append(&mut self.out);
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_in_order_from_wherever_they_lie() {
        let mut queue: VecDeque<u8> = (0..8).collect();
        for step in 0..50_u8 {
            let n = usize::from(step % 9).min(queue.len());
            let wanted: Vec<u8> = queue.iter().copied().take(n).collect();
            let left = queue.len() - n;
            assert_eq!(take(&mut queue, n), wanted);
            assert_eq!(queue.len(), left);
            queue.extend(&wanted);
        }
    }
}
