//! Work that a shard hands to other threads: what is handed out has a token, by which its answer is known. A shard never waits: it is
//! woken by an answer, and gets one at once to what cannot be handed on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::disk::Wake;

/// What a shard has handed out.
pub struct Given<Q> {
    /// Which shard.
    pub shard: usize,
    /// Its token.
    pub token: u64,
    /// What.
    pub what: Q,
}

/// The way to those who answer: bounded, and never waited for.
pub trait Entry {
    /// What is handed out.
    type What;
    /// What comes back.
    type Answer;

    /// Hands on.
    ///
    /// # Errors
    /// It cannot be: the answer.
    fn give(&mut self, given: Given<Self::What>) -> Result<(), Self::Answer>;
}

/// A shard's end.
pub struct Port<E: Entry> {
    shard: usize,
    pub(crate) entry: E,
    done: Receiver<(u64, E::Answer)>,
    /// Answers to what could not be handed on; bounded by what the shard has under way.
    refused: VecDeque<(u64, E::Answer)>,
    /// Handed on and not back yet: most turns have none, and look into no queue.
    under_way: usize,
    wake: Arc<dyn Wake>,
}

impl<E: Entry> Port<E> {
    /// Hands out.
    pub fn submit(&mut self, token: u64, what: E::What) {
        match self.entry.give(Given { shard: self.shard, token, what }) {
            Ok(()) => self.under_way += 1,
            Err(answer) => {
                self.refused.push_back((token, answer));
                self.wake.wake();
            }
        }
    }

    /// An answer.
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

/// The way back to one shard: for its answers, and to wake it.
type Back<A> = (SyncSender<(u64, A)>, Arc<dyn Wake>);

/// The ways back to all shards.
pub struct Answers<A>(Arc<[Back<A>]>);

impl<A> Clone for Answers<A> {
    fn clone(&self) -> Answers<A> {
        Answers(self.0.clone())
    }
}

impl<A> Answers<A> {
    /// Answers. There is room for all that a shard lets be under way, so this does not wait.
    pub fn answer(&self, shard: usize, token: u64, answer: A) {
        let (done, wake) = &self.0[shard];
        if done.send((token, answer)).is_ok() {
            wake.wake();
        }
    }
}

/// A port for each shard, each with an entry of its own, and the ways back. A shard has at most so many under way.
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

    /// Takes even numbers.
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
