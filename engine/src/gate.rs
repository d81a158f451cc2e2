//! Outputs of a turn leave when the writes of that turn are durable.
//!
//! One mechanism for the server's threads and the simulated world: effects that the outside could take as a promise wait
//! here, in order, until the commit that their turn rests on is durable. A turn rests on its own writes, on those of
//! earlier turns of its shard, and on the gates that came with the mail it has read. Mail itself does not wait: it
//! carries the gate along, so that two shards' writes for one message share one commit.

use std::collections::VecDeque;

use crate::id::Gate;
use crate::io::Effect;

/// The waiting effects of one shard.
#[derive(Debug, Default)]
pub struct GateQueue {
    /// What the shard's state rests on so far.
    gate: Gate,
    /// Bounded by what is bounded elsewhere: one send a connection, one read a user, one reply a command.
    waiting: VecDeque<(Gate, Effect)>,
    bytes: usize,
}

impl GateQueue {
    /// The shard has read mail that rests on `after`.
    pub fn rests_on(&mut self, after: Gate) {
        self.gate = self.gate.max(after);
    }

    /// The shard's state rests on this.
    pub fn gate(&self) -> Gate {
        self.gate
    }

    /// Queues an effect of the turn that has just ended.
    pub fn push(&mut self, effect: Effect) {
        self.bytes += bytes_of(&effect);
        self.waiting.push_back((self.gate, effect));
    }

    /// Takes the next effect whose gate is durable.
    pub fn pop(&mut self, durable: Gate) -> Option<Effect> {
        let (gate, _) = self.waiting.front()?;
        if *gate > durable {
            return None;
        }
        let (_, effect) = self.waiting.pop_front()?;
        self.bytes -= bytes_of(&effect);
        Some(effect)
    }

    /// The gate that the next effect waits for.
    pub fn front(&self) -> Option<Gate> {
        self.waiting.front().map(|(gate, _)| *gate)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Effects that wait. Bounded by what is bounded elsewhere: one send a connection, one read a user, one reply a command.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes that wait to be sent.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

fn bytes_of(effect: &Effect) -> usize {
    match effect {
        Effect::Send { bytes, .. } | Effect::Close { last: bytes, .. } => bytes.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ConnId;

    #[test]
    fn effects_wait_for_their_commit_and_keep_their_order() {
        let send = |n| Effect::Send { conn: ConnId { slot: n, generation: 0 }, bytes: vec![0; 10] };
        let mut queue = GateQueue::default();
        queue.push(send(1));
        queue.rests_on(Gate(5));
        queue.push(send(2));
        queue.rests_on(Gate(3));
        queue.push(send(3));
        assert!(matches!(queue.pop(Gate(0)), Some(Effect::Send { conn, .. }) if conn.slot == 1));
        assert!(queue.pop(Gate(4)).is_none(), "a later turn rests on the earlier one's commit");
        assert_eq!(queue.bytes(), 20);
        assert!(matches!(queue.pop(Gate(5)), Some(Effect::Send { conn, .. }) if conn.slot == 2));
        assert!(matches!(queue.pop(Gate(5)), Some(Effect::Send { conn, .. }) if conn.slot == 3));
        assert!(queue.is_empty() && queue.bytes() == 0);
    }
}
