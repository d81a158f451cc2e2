//! Orders of administrators that use XMPP: from the shards to a thread that carries them out, and
//! back.
//!
//! Orders are rare and slow: one thread serves all shards and carries them out sequentially.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use throng_engine::limits::ADHOC_ORDERS_MAX;
use throng_engine::orders::{Order, Outcome, Why};

use crate::disk::Wake;
use crate::end;
use crate::port::{self, Answers, Entry, Given, Port};
use crate::waits::{self, Place};

/// The channel to the thread.
pub struct Way(SyncSender<Given<Box<Order>>>);

/// The shard's end.
pub type OrderPort = Port<Way>;

impl Entry for Way {
    type What = Box<Order>;
    type Answer = Outcome;

    fn give(&mut self, given: Given<Box<Order>>) -> Result<(), Outcome> {
        self.0.try_send(given).map_err(|error| {
            let text = match error {
                TrySendError::Full(_) => "too many orders are being carried out",
                TrySendError::Disconnected(_) => "the server cannot carry out orders now",
            };
            Outcome::Refused { why: Why::Busy, text: text.to_owned() }
        })
    }
}

/// The thread's end.
pub struct Orders {
    given: Receiver<Given<Box<Order>>>,
    answers: Answers<Outcome>,
}

/// A port for each shard, and the other end. Without the thread, orders are refused.
pub fn ports(wakes: &[Arc<dyn Wake>]) -> (Vec<OrderPort>, Orders) {
    // As many as the shards allow in progress.
    let (orders, given) = sync_channel(ADHOC_ORDERS_MAX * wakes.len());
    let (ports, answers) = port::ports(wakes, ADHOC_ORDERS_MAX, || Way(orders.clone()));
    (ports, Orders { given, answers })
}

impl Orders {
    /// Carries out orders until the last port is dropped. An order that panics is refused, and the
    /// next one follows.
    ///
    /// # Errors
    /// The system's, if the thread cannot be created.
    pub fn start(self, carry_out: impl Fn(&Order) -> Outcome + Send + 'static) -> std::io::Result<()> {
        waits::spawn("throng-orders", move || {
            loop {
                let given = {
                    let _at = waits::at(Place::Orders);
                    self.given.recv()
                };
                let Ok(Given { shard, token, what: order }) = given else { return };
                let outcome = end::survive(|| carry_out(&order)).unwrap_or_else(|said| {
                    tracing::error!("an administrator's order has failed: {said}");
                    Outcome::Refused { why: Why::Internal, text: said }
                });
                self.answers.answer(shard, token, outcome);
            }
        })
        .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use throng_engine::orders::{Users, Wanted};

    struct Nobody;

    impl Wake for Nobody {
        fn wake(&self) {}
    }

    fn order() -> Box<Order> {
        Box::new(Order { by: "a@b/c".into(), what: Wanted::Count(Users::Online) })
    }

    fn next(port: &mut OrderPort) -> (u64, Outcome) {
        loop {
            match port.poll() {
                Some(done) => return done,
                None => std::thread::yield_now(),
            }
        }
    }

    #[test]
    fn each_order_is_answered_to_its_shard_also_one_that_breaks() {
        let wakes: Vec<Arc<dyn Wake>> = vec![Arc::new(Nobody), Arc::new(Nobody)];
        let (mut ports, orders) = ports(&wakes);
        let carry_out = |order: &Order| match order.what {
            Wanted::Count(Users::Online) => Outcome::Count(7),
            _ => panic!("an order that breaks"),
        };
        orders.start(carry_out).expect("a thread");
        for token in 1..=ADHOC_ORDERS_MAX as u64 {
            ports[1].submit(token, order());
        }
        ports[0].submit(1, Box::new(Order { by: "a@b/c".into(), what: Wanted::Count(Users::Registered) }));
        for token in 1..=ADHOC_ORDERS_MAX as u64 {
            assert_eq!(next(&mut ports[1]), (token, Outcome::Count(7)));
        }
        assert!(matches!(next(&mut ports[0]), (1, Outcome::Refused { why: Why::Internal, .. })));
        ports[0].submit(2, order());
        assert_eq!(next(&mut ports[0]), (2, Outcome::Count(7)));
    }

    #[test]
    fn without_a_thread_orders_are_refused() {
        let wakes: Vec<Arc<dyn Wake>> = vec![Arc::new(Nobody)];
        let (mut ports, orders) = ports(&wakes);
        for token in 0..=ADHOC_ORDERS_MAX as u64 {
            ports[0].submit(token, order());
        }
        let full = ADHOC_ORDERS_MAX as u64;
        assert!(matches!(ports[0].poll(), Some((token, Outcome::Refused { why: Why::Busy, .. })) if token == full));
        drop(orders);
        ports[0].submit(99, order());
        assert!(matches!(ports[0].poll(), Some((99, Outcome::Refused { why: Why::Busy, .. }))));
    }
}
