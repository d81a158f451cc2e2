//! Outputs of a turn leave when the writes of that turn are durable.
//!
//! One mechanism for the server's threads and the simulated world: effects that the outside could take as a promise wait
//! here, in order, until the commit that their turn rests on is durable. A turn rests on its own writes, on those of
//! earlier turns of its shard, and on the gates that came with the letters it has read. Letters themselves do not wait: they
//! carry the gate along, so that two shards' writes for one message share one commit.
//!
//! What promises nothing does not wait ([`Effect::rests`]), so that a disk that stands still silences nobody: who has not logged in
//! is talked to and refused, streams that have nothing else to be told end with their error, and operators are answered about
//! what is in memory. Such an effect never overtakes one of the same connection: a connection of which nothing was promised has none
//! here that waits. Questions about accounts alone wait for the shard's writes to accounts alone.
//!
//! A `Pause` passes at once, and a `Resume` that waits for its connection counts no more then ([`GateQueue::paused`]). Let out behind it,
//! it would have the connection read from while the shard looks at nothing of it, and all that comes would be kept.

use std::collections::{BTreeMap, VecDeque};

use crate::id::{ConnId, Gate};
use crate::io::{Effect, Input, Rests};

/// So much waits that a shard tells no more subscribers of a channel until it is durable. All that waits leaves at once, a send in some
/// 5 to 10 µs: everybody else waits for so long.
pub const GATED_MANY: usize = 256;

/// An effect that waits: for what, and since which second.
#[derive(Debug)]
struct Held {
    gate: Gate,
    since_s: u32,
    /// Of a `Resume`: it counts if it is the connection's last one.
    number: u64,
    effect: Effect,
}

/// The waiting effects of one shard.
#[derive(Debug, Default)]
pub struct GateQueue {
    /// What the shard's state rests on so far.
    gate: Gate,
    /// The last commit of this shard's that concerned accounts.
    accounts: Gate,
    /// What waits for nothing, until the host takes it. Bounded as `waiting` is.
    free: VecDeque<Held>,
    /// Questions about accounts. Bounded as `waiting` is.
    questions: VecDeque<Held>,
    /// Bounded by what is bounded elsewhere: one send a connection, one read a user, one reply a command.
    waiting: VecDeque<Held>,
    /// Connections that are to be read from again, each with the number of the `Resume` that counts. Bounded as `waiting` is.
    resumes: BTreeMap<ConnId, u64>,
    /// `Resume`s that have come.
    numbered: u64,
    /// What the shard was told last: since when something waits, and whether much does.
    told: (Option<u32>, bool),
    bytes: usize,
}

impl GateQueue {
    /// The shard has read letters that rest on `after`.
    pub fn rests_on(&mut self, after: Gate) {
        self.gate = self.gate.max(after);
    }

    /// The shard has handed in writes; `accounts`: some of them concern accounts.
    pub fn wrote(&mut self, ticket: Gate, accounts: bool) {
        self.rests_on(ticket);
        if accounts {
            self.accounts = self.accounts.max(ticket);
        }
    }

    /// The shard's state rests on this.
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

    /// A connection is not read from any more: what waits here does not change that.
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

    /// To which connections the next of these go that wait for commits, of so many effects.
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

    /// What the shard is to be told before its turn ends: since when what it sends waits here, if that is not this second, and
    /// whether it is much; if either is not what it was told last.
    pub fn news(&mut self, now_s: u32, durable: Gate) -> Option<Input<'static>> {
        let since_s = self.waiting.front().map(|held| held.since_s).filter(|since_s| *since_s < now_s);
        let many = self.holds_many(durable);
        let told = std::mem::replace(&mut self.told, (since_s, many));
        (told != (since_s, many)).then_some(Input::Held { since_s, many })
    }

    /// Whether the shard was told that much waits, and that is so no more: it goes on once it hears that.
    pub fn let_go(&self, durable: Gate) -> bool {
        self.told.1 && !self.holds_many(durable)
    }

    fn holds_many(&self, durable: Gate) -> bool {
        // Gates never fall along the queue: if this one is not durable, those behind it are not.
        let first_of_many = self.waiting.len().checked_sub(GATED_MANY).and_then(|at| self.waiting.get(at));
        first_of_many.is_some_and(|held| held.gate > durable)
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Effects that wait. Bounded by what is bounded elsewhere: one send a connection, one read a user, one reply a command.
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
        // In one turn: what was kept made the connection wait again.
        queue.push(resume(1), 9);
        queue.push(resume(2), 9);
        queue.paused(conn(1));
        assert_eq!((next(&mut queue, 9), next(&mut queue, 9)), (Some(2), None));
        // Later, and it goes on once more: with what the last one rests on.
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
        // What is durable leaves with this turn, however much it is.
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
