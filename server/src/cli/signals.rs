//! Signals of the process, as a server interprets them.
//!
//! This module turns signals into [`Wish`]es on a thread of its own; it stops nothing itself.

use std::io;
use std::thread::JoinHandle;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals as Iterator};

use crate::waits;

/// The request that a signal makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// SIGTERM or SIGINT: stop gracefully.
    Stop,
    /// A second SIGTERM or SIGINT: stop at once.
    StopNow,
    /// SIGHUP: read certificates and knobs again.
    Reload,
}

/// The handled signals. Dropping it stops the handling; the signals remain caught.
#[derive(Debug)]
pub struct Signals {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Signals {
    /// Calls `wish` for each signal, sequentially, on one thread.
    ///
    /// # Errors
    /// The system refuses the handlers or the thread.
    pub fn start(mut wish: impl FnMut(Wish) + Send + 'static) -> io::Result<Signals> {
        let mut signals = Iterator::new([SIGTERM, SIGINT, SIGHUP])?;
        let handle = signals.handle();
        let listen = move || {
            let mut stopping = false;
            for signal in signals.forever() {
                wish(meaning(signal, &mut stopping));
            }
        };
        let thread = waits::spawn("signals", listen)?;
        Ok(Signals { handle, thread: Some(thread) })
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn meaning(signal: i32, stopping: &mut bool) -> Wish {
    match signal {
        SIGHUP => Wish::Reload,
        _ if std::mem::replace(stopping, true) => Wish::StopNow,
        _ => Wish::Stop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;
    use std::time::Duration;

    #[test]
    fn a_hangup_reloads_a_first_stop_is_graceful_a_second_is_not() {
        let (send, wishes) = sync_channel(8);
        let _signals = Signals::start(move |wish| send.send(wish).expect("someone listens")).expect("handlers");
        let next = |signal| {
            signal_hook::low_level::raise(signal).expect("raised");
            wishes.recv_timeout(Duration::from_secs(10)).expect("a wish")
        };
        let heard = [next(SIGHUP), next(SIGTERM), next(SIGHUP), next(SIGINT), next(SIGTERM)];
        assert_eq!(heard, [Wish::Reload, Wish::Stop, Wish::Reload, Wish::StopNow, Wish::StopNow]);
    }
}
