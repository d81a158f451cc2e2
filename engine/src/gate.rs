//! Holds the outputs of a turn until the writes of that turn are durable.
//!
//! One mechanism serves the server's threads and the simulated world. Effects that the outside
//! could take as a promise wait here, in order, until the commit that their turn depends on is
//! durable. A turn depends on its own writes, on those of earlier turns of its shard, and on the
//! gates of the letters it has read. Letters themselves do not wait: they carry the gate, so that
//! two shards' writes for one message share one commit.
//!
//! Effects that promise nothing do not wait ([`Effect::rests`]), so that a stalled disk does not
//! silence the server. Unauthenticated clients are answered and refused, streams without other
//! pending output end with their error, and operators are answered about state in memory. Such an
//! effect never overtakes another one of the same connection: a connection that has been promised
//! nothing has no effect waiting here. Queries about accounts wait only for those writes of the
//! shard that concern accounts.
//!
//! A `Pause` passes at once, and cancels a `Resume` that waits for the same connection
//! ([`GateQueue::paused`]). If that `Resume` were released afterwards, the driver would read from
//! the connection while the shard processes none of it, and all input would be buffered.

use std::collections::{BTreeMap, VecDeque};

use crate::id::{ConnId, Gate};
use crate::io::{Effect, Input, Rests};

/// Number of waiting effects from which a shard pauses fan-out to subscribers of channels until
/// they are durable. All waiting effects are released at once, at 5 to 10 µs per send; all other
/// work waits meanwhile.
pub const GATED_MANY: usize = 256;

/// A waiting effect, its gate, and the second since which it has waited.
#[derive(Debug)]
struct Held {
    gate: Gate,
    since_s: u32,
    /// For a `Resume`: it is valid if it is the connection's last one.
    number: u64,
    effect: Effect,
}

/// The waiting effects of one shard.
#[derive(Debug, Default)]
pub struct GateQueue {
    /// The commits that the shard's state depends on so far.
    gate: Gate,
    /// The shard's last commit that concerned accounts.
    accounts: Gate,
    /// Effects that wait for nothing, until the host takes them. Bounded as `waiting` is.
    free: VecDeque<Held>,
    /// Queries about accounts. Bounded as `waiting` is.
    questions: VecDeque<Held>,
    /// Bounded by limits elsewhere: one send per connection, one read per user, one reply per
    /// command.
    waiting: VecDeque<Held>,
    /// Connections to be read from again, each with the number of the valid `Resume`. Bounded as
    /// `waiting` is.
    resumes: BTreeMap<ConnId, u64>,
    /// Number of `Resume`s queued so far.
    numbered: u64,
    /// The last state reported to the shard: since when an effect waits, and whether many do.
    told: (Option<u32>, bool),
    bytes: usize,
}

impl GateQueue {
    /// Records that the shard has read letters that depend on `after`.
    pub fn rests_on(&mut self, after: Gate) {
        self.gate = self.gate.max(after);
    }

    /// Records that the shard has submitted writes. `accounts` means that some of them concern
    /// accounts.
    pub fn wrote(&mut self, ticket: Gate, accounts: bool) {
        self.rests_on(ticket);
        if accounts {
            self.accounts = self.accounts.max(ticket);
        }
    }

    /// The gate that the shard's state depends on.
    pub fn gate(&self) -> Gate {
        self.gate
    }

    /// Queues an effect of the turn that has just ended, in this second of the monotonic clock.
    pub fn push(&mut self, effect: Effect, since_s: u32) {
        self.bytes += bytes_of(&effect);
        let (queue, gate) = match effect.rests() {
            Rests::OnNothing => (&mut self.free, Gate::default()),
            Rests::OnAccounts => (&mut self.questions, self.accounts),
            Rests::OnAll => (&mut self.waiting, self.gate),
        };
        if let Effect::Resume { conn, .. } = &effect {
            self.numbered += 1;
            self.resumes.insert(*conn, self.numbered);
        }
        queue.push_back(Held { gate, since_s, number: self.numbered, effect });
    }

    /// Cancels the waiting `Resume` of a connection that is no longer to be read from.
    pub fn paused(&mut self, conn: ConnId) {
        self.resumes.remove(&conn);
    }

    /// Takes the next effect whose gate is durable, with the second in which it was queued.
    pub fn pop(&mut self, durable: Gate) -> Option<(u32, Effect)> {
        loop {
            let (number, since_s, effect) = self.pop_any(durable)?;
            let Effect::Resume { conn, .. } = &effect else { return Some((since_s, effect)) };
            if self.resumes.get(conn) == Some(&number) {
                self.resumes.remove(conn);
                return Some((since_s, effect));
            }
        }
    }

    /// The connections of the next sends that wait for commits, among the first `effects` effects.
    pub fn next_sends(&self, effects: usize) -> impl Iterator<Item = ConnId> {
        self.waiting.iter().take(effects).filter_map(|held| match &held.effect {
            Effect::Send { conn, .. } => Some(*conn),
            _ => None,
        })
    }

    fn pop_any(&mut self, durable: Gate) -> Option<(u64, u32, Effect)> {
        let open = |queue: &mut VecDeque<Held>| match queue.front() {
            Some(held) if held.gate <= durable => queue.pop_front(),
            _ => None,
        };
        let held = open(&mut self.free).or_else(|| open(&mut self.questions)).or_else(|| open(&mut self.waiting))?;
        self.bytes -= bytes_of(&held.effect);
        Some((held.number, held.since_s, held.effect))
    }

    /// The lowest gate that an effect waits for.
    pub fn front(&self) -> Option<Gate> {
        [&self.free, &self.questions, &self.waiting].iter().filter_map(|queue| Some(queue.front()?.gate)).min()
    }

    /// The input for the shard before its turn ends: since when its output waits here, if not since
    /// this second, and whether many effects wait. `None` if neither differs from the last report.
    pub fn news(&mut self, now_s: u32, durable: Gate) -> Option<Input<'static>> {
        let since_s = self.waiting.front().map(|held| held.since_s).filter(|since_s| *since_s < now_s);
        let many = self.holds_many(durable);
        let told = std::mem::replace(&mut self.told, (since_s, many));
        (told != (since_s, many)).then_some(Input::Held { since_s, many })
    }

    /// Whether the shard was told that many effects wait, and that has ended. The shard continues
    /// its fan-out when it is informed.
    pub fn let_go(&self, durable: Gate) -> bool {
        self.told.1 && !self.holds_many(durable)
    }

    fn holds_many(&self, durable: Gate) -> bool {
        // Gates never decrease along the queue: if this one is not durable, the later ones are not.
        let first_of_many = self.waiting.len().checked_sub(GATED_MANY).and_then(|at| self.waiting.get(at));
        first_of_many.is_some_and(|held| held.gate > durable)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of waiting effects. Bounded by limits elsewhere: one send per connection, one read
    /// per user, one reply per command.
    pub fn len(&self) -> usize {
        self.free.len() + self.questions.len() + self.waiting.len()
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
    use crate::store::{Query, Table};

    fn send(slot: u32, durable: bool) -> Effect {
        Effect::Send { conn: ConnId { slot, generation: 0 }, bytes: vec![0; 10], durable }
    }

    fn read(token: u64, table: Table) -> Effect {
        let query = Query::Get { table, actor: b"romeo@x".as_slice().into(), sort: Box::default() };
        Effect::Read { token, queries: vec![query] }
    }

    #[test]
    fn what_promises_nothing_passes_and_questions_about_accounts_wait_for_accounts() {
        let mut queue = GateQueue::default();
        queue.wrote(Gate(3), true);
        queue.wrote(Gate(5), false);
        queue.push(send(1, true), 9);
        queue.push(read(7, Table::Accounts), 9);
        queue.push(read(8, Table::Roster), 9);
        queue.push(send(2, false), 9);
        assert_eq!((queue.front(), queue.len(), queue.bytes()), (Some(Gate(0)), 4, 20));
        assert!(matches!(queue.pop(Gate(0)), Some((9, Effect::Send { conn, .. })) if conn.slot == 2));
        assert!(queue.pop(Gate(2)).is_none());
        assert_eq!(queue.front(), Some(Gate(3)));
        assert!(matches!(queue.pop(Gate(3)), Some((9, Effect::Read { token: 7, .. }))));
        assert!(queue.pop(Gate(4)).is_none());
        assert!(matches!(queue.pop(Gate(5)), Some((9, Effect::Send { conn, .. })) if conn.slot == 1));
        assert!(matches!(queue.pop(Gate(5)), Some((9, Effect::Read { token: 8, .. }))));
        assert!(queue.is_empty() && queue.bytes() == 0);
    }

    #[test]
    fn who_is_paused_is_not_read_from_by_what_waited_before() {
        let conn = |slot| ConnId { slot, generation: 0 };
        let resume = |slot| Effect::Resume { conn: conn(slot), durable: true };
        let next = |queue: &mut GateQueue, durable| match queue.pop(Gate(durable)) {
            Some((_, Effect::Resume { conn, .. })) => Some(conn.slot),
            _ => None,
        };
        let mut queue = GateQueue::default();
        // In one turn: the kept input made the connection wait again.
        queue.push(resume(1), 9);
        queue.push(resume(2), 9);
        queue.paused(conn(1));
        assert_eq!((next(&mut queue, 9), next(&mut queue, 9)), (Some(2), None));
        // Later it resumes once more, with the gate of the last `Resume`.
        queue.wrote(Gate(3), false);
        queue.push(resume(1), 9);
        queue.paused(conn(1));
        queue.wrote(Gate(5), false);
        queue.push(resume(1), 9);
        assert_eq!((next(&mut queue, 4), next(&mut queue, 5), next(&mut queue, 9)), (None, Some(1), None));
        assert!(queue.is_empty() && queue.resumes.is_empty());
    }

    #[test]
    fn the_shard_is_told_that_much_waits_and_when_it_does_no_more() {
        let many = |news: Option<Input<'_>>| match news {
            Some(Input::Held { since_s: None, many }) => Some(many),
            Some(_) => panic!("the second is told, too"),
            None => None,
        };
        let mut queue = GateQueue::default();
        // Durable effects leave with this turn, however many there are.
        (0..GATED_MANY as u32).for_each(|slot| queue.push(send(slot, true), 9));
        assert_eq!(many(queue.news(9, Gate(0))), None);
        while queue.pop(Gate(0)).is_some() {}
        queue.wrote(Gate(1), false);
        (1..GATED_MANY as u32).for_each(|slot| queue.push(send(slot, true), 9));
        assert_eq!(many(queue.news(9, Gate(0))), None);
        queue.wrote(Gate(2), false);
        queue.push(send(0, true), 9);
        assert_eq!((many(queue.news(9, Gate(0))), many(queue.news(9, Gate(0)))), (Some(true), None));
        assert!(!queue.let_go(Gate(0)) && queue.let_go(Gate(1)), "only the last one is left to wait");
        while queue.pop(Gate(2)).is_some() {}
        assert!(queue.let_go(Gate(2)), "it has left behind the shard's back");
        assert_eq!(many(queue.news(9, Gate(2))), Some(false));
        assert!(!queue.let_go(Gate(2)));
    }

    #[test]
    fn effects_wait_for_their_commit_and_keep_their_order() {
        let send = |n| send(n, true);
        let mut queue = GateQueue::default();
        queue.push(send(1), 9);
        queue.rests_on(Gate(5));
        queue.push(send(2), 9);
        queue.rests_on(Gate(3));
        queue.push(send(3), 9);
        assert!(matches!(queue.pop(Gate(0)), Some((9, Effect::Send { conn, .. })) if conn.slot == 1));
        assert!(queue.pop(Gate(4)).is_none(), "a later turn rests on the earlier one's commit");
        assert_eq!(queue.bytes(), 20);
        assert!(matches!(queue.pop(Gate(5)), Some((9, Effect::Send { conn, .. })) if conn.slot == 2));
        assert!(matches!(queue.pop(Gate(5)), Some((9, Effect::Send { conn, .. })) if conn.slot == 3));
        assert!(queue.is_empty() && queue.bytes() == 0);
    }
}
