//! Activations: from the shards to the proxy's thread, and back. A shard never waits for the proxy.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use throng_engine::extension::bytestreams::{Activated, Activation};
use throng_engine::limits::ACTIVATIONS_MAX;
use tokio::sync::mpsc::{self, channel as bounded_channel};

use crate::disk::Wake;

/// An activation on its way to the proxy.
pub(super) struct Given {
    pub activation: Box<Activation>,
    shard: usize,
    token: u64,
}

/// A shard's end.
pub struct ActivationPort {
    shard: usize,
    given: mpsc::Sender<Given>,
    done: Receiver<(u64, Activated)>,
    wake: Arc<dyn Wake>,
    /// What could not be handed on; bounded by what the shard has under way.
    failed: VecDeque<u64>,
    /// Handed on and not back yet: most turns have none, and look into no queue.
    under_way: usize,
}

impl ActivationPort {
    /// Hands an activation on.
    pub fn submit(&mut self, token: u64, activation: Box<Activation>) {
        match self.given.try_send(Given { activation, shard: self.shard, token }) {
            Ok(()) => self.under_way += 1,
            Err(_) => {
                self.failed.push_back(token);
                self.wake.wake();
            }
        }
    }

    /// What came of an activation.
    pub fn poll(&mut self) -> Option<(u64, Activated)> {
        if let Some(token) = self.failed.pop_front() {
            return Some((token, Activated::Failed));
        }
        if self.under_way == 0 {
            return None;
        }
        let done = self.done.try_recv().ok()?;
        self.under_way -= 1;
        Some(done)
    }
}

/// The proxy's end. Without a proxy there, activations fail.
pub struct Activations {
    given: mpsc::Receiver<Given>,
    answers: Answers,
}

/// The way back to a shard.
struct Back {
    done: SyncSender<(u64, Activated)>,
    wake: Arc<dyn Wake>,
}

/// The way back to each.
#[derive(Clone)]
pub(super) struct Answers(Arc<[Back]>);

impl Answers {
    /// Answers an activation.
    pub(super) fn answer(&self, given: &Given, activated: Activated) {
        let back = &self.0[given.shard];
        // There is room for all that a shard lets be under way.
        if back.done.try_send((given.token, activated)).is_ok() {
            back.wake.wake();
        }
    }
}

impl Activations {
    /// Both ways.
    pub(super) fn split(self) -> (mpsc::Receiver<Given>, Answers) {
        (self.given, self.answers)
    }
}

/// A port for each shard, and the other end.
pub fn ports(wakes: &[Arc<dyn Wake>]) -> (Vec<ActivationPort>, Activations) {
    // As many as the shards let be under way.
    let (given_in, given) = bounded_channel(ACTIVATIONS_MAX * wakes.len());
    let mut answers = Vec::new();
    let port = |(shard, wake): (usize, &Arc<dyn Wake>)| {
        let (done_in, done) = sync_channel(ACTIVATIONS_MAX);
        answers.push(Back { done: done_in, wake: wake.clone() });
        let (given, wake) = (given_in.clone(), wake.clone());
        ActivationPort { shard, given, done, wake, failed: VecDeque::new(), under_way: 0 }
    };
    let ports = wakes.iter().enumerate().map(port).collect();
    (ports, Activations { given, answers: Answers(answers.into()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    impl Wake for Nobody {
        fn wake(&self) {}
    }

    #[test]
    fn without_a_proxy_activations_fail() {
        let wakes: Vec<Arc<dyn Wake>> = vec![Arc::new(Nobody)];
        let (mut ports, activations) = ports(&wakes);
        drop(activations);
        ports[0].submit(7, Box::new(Activation { user: "a@b".into(), stream: [0; 20] }));
        assert_eq!(ports[0].poll(), Some((7, Activated::Failed)));
        assert_eq!(ports[0].poll(), None);
    }
}
