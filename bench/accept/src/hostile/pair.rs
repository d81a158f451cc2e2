//! Two users who chat beside the noise: the time of each message, and whether all arrive.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Login, Said};
use crate::swarm::{News, Swarm};

/// Time between two messages.
const EVERY: Duration = Duration::from_millis(10);
/// A message that has not come in this time is lost.
const PATIENCE: Duration = Duration::from_secs(10);

/// Times of a phase.
pub(super) struct Times {
    messages: usize,
    p50_ms: f64,
    /// 99 of 100 messages came in this time, milliseconds.
    pub(super) p99_ms: f64,
    most_ms: f64,
}

impl Times {
    pub(super) fn value(&self) -> Value {
        json!({ "messages": self.messages, "p50_ms": self.p50_ms, "p99_ms": self.p99_ms, "most_ms": self.most_ms })
    }
}

/// The two, on a thread of their own.
pub(super) struct Pair {
    times: Arc<Mutex<Vec<f64>>>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<u64>>,
}

impl Pair {
    /// They log in and begin.
    pub(super) fn start(to: SocketAddr) -> io::Result<Pair> {
        let (times, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (noted, stopped) = (times.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut swarm = Swarm::new()?;
            let login = |name: &str| Login { name: name.into(), resource: "r".into(), managed: false, available: true };
            swarm.log_in(to, vec![login("romeo"), login("juliet")], 2)?;
            chat(&mut swarm, &noted, &stopped)
        });
        Ok(Pair { times, stop, thread })
    }

    /// The times since the last mark.
    pub(super) fn mark(&self) -> Times {
        let mut all = std::mem::take(&mut *self.times.lock().expect("the chat does not panic"));
        all.sort_by(f64::total_cmp);
        let at =
            |part: f64| all.get((all.len() as f64 * part) as usize).or(all.last()).copied().unwrap_or(f64::INFINITY);
        let round = |ms: f64| (ms * 100.0).round() / 100.0;
        Times { messages: all.len(), p50_ms: round(at(0.5)), p99_ms: round(at(0.99)), most_ms: round(at(1.0)) }
    }

    /// Ends the chat; returns how many messages were lost, and what went wrong.
    pub(super) fn end(self) -> (u64, Option<String>) {
        self.stop.store(true, Ordering::Release);
        match self.thread.join() {
            Ok(Ok(lost)) => (lost, None),
            Ok(Err(error)) => (0, Some(error.to_string())),
            Err(_) => (0, Some("the chat panicked".into())),
        }
    }
}

/// Messages from the first to the second, one at a time outstanding each tick, in order.
fn chat(swarm: &mut Swarm, times: &Mutex<Vec<f64>>, stop: &AtomicBool) -> io::Result<u64> {
    let (mut sent, mut came): (Vec<Instant>, usize) = (Vec::new(), 0);
    let mut next = Instant::now();
    while !stop.load(Ordering::Acquire) || came < sent.len() {
        if Instant::now() >= next && !stop.load(Ordering::Acquire) {
            let number = sent.len();
            sent.push(Instant::now());
            swarm.say(0, &format!("<message to='juliet@localhost' type='chat'><body>{number}</body></message>"));
            next += EVERY;
        }
        if sent.get(came).is_some_and(|at| at.elapsed() > PATIENCE) {
            return Ok((sent.len() - came) as u64);
        }
        let mut fault = None;
        let wait = next.saturating_duration_since(Instant::now()).min(Duration::from_millis(20));
        swarm.turn(wait, &mut |index, news| match news {
            News::Said(Said::Message { body, error: None, .. }) if index == 1 && body.parse() == Ok(came) => {
                times.lock().expect("nobody panics").push(sent[came].elapsed().as_secs_f64() * 1000.0);
                came += 1;
            }
            other => fault = Some(format!("{other:?} instead of message {came}")),
        })?;
        if let Some(fault) = fault {
            return Err(io::Error::other(fault));
        }
    }
    Ok(0)
}
