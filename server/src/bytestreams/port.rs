//! Activations: from the shards to the proxy's thread, and their results. A shard never waits for
//! the proxy.

use std::sync::Arc;

use throng_engine::extension::bytestreams::{Activated, Activation};
use throng_engine::limits::ACTIVATIONS_MAX;
use tokio::sync::mpsc::{self, channel as bounded_channel};

use crate::disk::Wake;
use crate::port::{self, Answers, Entry, Given, Port};

/// The sending side towards the proxy.
pub struct Way(mpsc::Sender<Given<Box<Activation>>>);

/// A shard's port.
pub type ActivationPort = Port<Way>;

impl Entry for Way {
    type What = Box<Activation>;
    type Answer = Activated;

    fn give(&mut self, given: Given<Box<Activation>>) -> Result<(), Activated> {
        self.0.try_send(given).map_err(|_| Activated::Failed)
    }
}

/// The proxy's end. Without a proxy, activations fail.
pub struct Activations {
    pub(super) given: mpsc::Receiver<Given<Box<Activation>>>,
    pub(super) answers: Answers<Activated>,
}

/// A port per shard, and the other end.
pub fn ports(wakes: &[Arc<dyn Wake>]) -> (Vec<ActivationPort>, Activations) {
    // The maximum that the shards have in progress.
    let (given_in, given) = bounded_channel(ACTIVATIONS_MAX * wakes.len());
    let (ports, answers) = port::ports(wakes, ACTIVATIONS_MAX, || Way(given_in.clone()));
    (ports, Activations { given, answers })
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
