//! The simulated network: one socket's two directions, what is on its way in each, and who has closed.
//!
//! It knows bytes and ends, nothing of what they say. The world moves the bytes, when and in which pieces it likes.

use std::collections::VecDeque;

use throng_engine::id::{ConnId, ShardId};
use throng_engine::session::moved::Moved;

/// A connection as its client names it; never reused within a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub usize);

/// What follows at the server's end when all is with the kernel.
#[derive(Debug)]
pub(super) enum Then {
    Close,
    Depart { to: ShardId, moved: Box<Moved> },
    Secure,
}

/// The client's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientEnd {
    /// Reads and writes.
    Open,
    /// Has closed its direction; the server learns when it has read all.
    Finished,
    /// Is not there any more; the server learns sometime.
    Gone,
}

/// Takes the first `n` bytes out of a queue, not byte by byte: most of what a world moves is bytes.
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
    /// Its slot there; none before it is accepted, on its way between shards, and once the server has closed.
    pub(super) conn: Option<ConnId>,
    pub(super) client: ClientEnd,
    /// The server has closed.
    pub(super) over: bool,
    /// The client does not read.
    pub(super) stalled: bool,
    /// The server does not read.
    pub(super) paused: bool,
    /// Client to server.
    pub(super) up: VecDeque<u8>,
    pub(super) up_due: bool,
    /// With the server's kernel and beyond, on its way to the client.
    pub(super) down: VecDeque<u8>,
    pub(super) down_due: bool,
    /// The client that had it kept no count of what it got.
    pub(super) marked: bool,
    /// Bytes that the kernel swallowed for a client that is gone.
    pub(super) swallowed: usize,
    /// The driver's send in flight.
    pub(super) sending: VecDeque<u8>,
    pub(super) in_flight: bool,
    pub(super) flush_due: bool,
    /// The send in flight is one that the shard waits for.
    pub(super) owes: bool,
    /// Bytes behind it.
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

    /// Bytes of the server for the socket; `owes`: the shard waits to hear that they are with the kernel.
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

    /// The send in flight is with the kernel: the next one follows. Returns whether the shard is owed the news.
    pub(super) fn sent(&mut self) -> bool {
        let owed = std::mem::take(&mut self.owes);
        self.in_flight = !self.out.is_empty();
        if self.in_flight {
            self.sending = std::mem::take(&mut self.out).into();
            self.owes = std::mem::take(&mut self.owes_next);
        }
        owed
    }

    /// Moves up to `most` bytes to the kernel; what goes to a client that is gone is returned.
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

    /// All that the server has sent and the client has not got.
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
