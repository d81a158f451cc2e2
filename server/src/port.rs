//! Hands work of a shard to other threads: each piece has a token that identifies its answer. A
//! shard never blocks: an answer wakes it, and what cannot be handed on is answered at once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::disk::Wake;

/// Work that a shard has handed out.
pub struct Given<Q> {
    /// The shard.
    pub shard: usize,
    /// Its token.
    pub token: u64,
    /// The work.
    pub what: Q,
}

/// The sending side towards the threads that answer: bounded and non-blocking.
pub trait Entry {
    /// The work.
    type What;
    /// Its answer.
    type Answer;

    /// Hands the work on.
    ///
    /// # Errors
    /// The answer, if it cannot be handed on.
    fn give(&mut self, given: Given<Self::What>) -> Result<(), Self::Answer>;
}

/// A shard's end.
pub struct Port<E: Entry> {
    shard: usize,
    pub(crate) entry: E,
    done: Receiver<(u64, E::Answer)>,
    /// Answers to work that could not be handed on; bounded by what the shard has in progress.
    refused: VecDeque<(u64, E::Answer)>,
    /// Handed on and not answered yet. Most turns have none and check no queue.
    under_way: usize,
    wake: Arc<dyn Wake>,
}

impl<E: Entry> Port<E> {
    /// Hands work out.
    pub fn submit(&mut self, token: u64, what: E::What) {
        match self.entry.give(Given { shard: self.shard, token, what }) {
            Ok(()) => self.under_way += 1,
            Err(answer) => {
                self.refused.push_back((token, answer));
                self.wake.wake();
            }
        }
    }

    /// The next answer.
    pub fn poll(&mut self) -> Option<(u64, E::Answer)> {
        if let Some(refused) = self.refused.pop_front() {
            return Some(refused);
        }
        if self.under_way == 0 {
            return None;
        }
        let done = self.done.try_recv().ok()?;
        self.under_way -= 1;
        Some(done)
    }
}

/// The way back to one shard: a channel for its answers, and its waker.
type Back<A> = (SyncSender<(u64, A)>, Arc<dyn Wake>);

/// The ways back to all shards.
pub struct Answers<A>(Arc<[Back<A>]>);

impl<A> Clone for Answers<A> {
    fn clone(&self) -> Answers<A> {
        Answers(self.0.clone())
    }
}

impl<A> Answers<A> {
    /// Sends an answer. The channel has room for everything that a shard may have in progress, so
    /// this does not block.
    pub fn answer(&self, shard: usize, token: u64, answer: A) {
        let (done, wake) = &self.0[shard];
        if done.send((token, answer)).is_ok() {
            wake.wake();
        }
    }
}

/// Creates a port per shard, each with its own entry, and the ways back. A shard has at most `most`
/// pieces in progress.
pub fn ports<E: Entry>(
    wakes: &[Arc<dyn Wake>],
    under_way_max: usize,
    entry: impl Fn() -> E,
) -> (Vec<Port<E>>, Answers<E::Answer>) {
    let mut backs = Vec::new();
    let port = |(shard, wake): (usize, &Arc<dyn Wake>)| {
        let (done_in, done) = sync_channel(under_way_max);
        backs.push((done_in, wake.clone()));
        Port { shard, entry: entry(), done, refused: VecDeque::new(), under_way: 0, wake: wake.clone() }
    };
    let ports = wakes.iter().enumerate().map(port).collect();
    (ports, Answers(backs.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Accepts even numbers.
    struct Even(SyncSender<Given<u32>>);

    impl Entry for Even {
        type What = u32;
        type Answer = &'static str;

        fn give(&mut self, given: Given<u32>) -> Result<(), &'static str> {
            match given.what % 2 {
                0 => self.0.try_send(given).map_err(|_| "full"),
                _ => Err("odd"),
            }
        }
    }

    #[test]
    fn each_is_answered_to_its_shard_by_its_token_and_what_is_not_taken_at_once() {
        let woken: Vec<_> = (0..2).map(|_| Arc::new(Counted(AtomicUsize::new(0)))).collect();
        let wakes: Vec<Arc<dyn Wake>> = woken.iter().map(|woken| woken.clone() as Arc<dyn Wake>).collect();
        let (given_in, given) = sync_channel(2);
        let (mut ports, answers) = ports(&wakes, 2, || Even(given_in.clone()));
        let count = |shard: usize| woken[shard].0.load(Ordering::Relaxed);
        for (shard, token, what) in [(0, 1, 2), (0, 2, 3), (1, 1, 4), (1, 2, 6)] {
            ports[shard].submit(token, what);
        }
        assert_eq!((ports[0].poll(), ports[1].poll()), (Some((2, "odd")), Some((2, "full"))));
        assert_eq!((count(0), count(1)), (1, 1), "a shard is woken to what it has answered itself");
        assert_eq!((ports[0].poll(), ports[1].poll()), (None, None));
        for given in given.try_iter().collect::<Vec<_>>() {
            answers.answer(given.shard, given.token, if given.what == 2 { "two" } else { "four" });
        }
        assert_eq!((ports[0].poll(), ports[1].poll()), (Some((1, "two")), Some((1, "four"))));
        assert_eq!((count(0), count(1)), (2, 2));
        drop(ports);
        answers.answer(0, 9, "nobody is left");
    }
}
