//! Pushes to pages that are closed (RFC 8030): encrypted for the page (RFC 8291), signed for its push service (RFC 8292), and sent.
//!
//! ```text
//! shards -> port -> queue of a push service (bounded) ─┬─> line ─> connection
//!                                                      ├─> line
//!             outcomes <- port <- ─────────────────────┴─> ...
//! ```
//!
//! One thread of its own for all of them, which sleeps when there is nothing to send. A *push service* is an entry of the operator's list.
//! Each has a queue, lines, and a breaker for each of its hosts, so none holds up another. Every push has an outcome in bounded time. This
//! module knows no channel and no item.

mod address;
mod line;
mod seal;
#[cfg(test)]
mod tests;
mod vapid;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hyper::StatusCode;
use hyper::body::Bytes;
use rustls::ClientConfig;
use throng_engine::counter_table;
use throng_engine::io::{PushOutcome, WebPush};
use throng_engine::limits::{NOTIFY_PUSH_SERVICES_MAX, NOTIFY_PUSH_UNDER_WAY_MAX};
use throng_engine::web::push::authority;
use tokio::sync::mpsc;

use crate::breaker::Breaker;
use crate::disk::Wake;
use crate::port::{self, Answers, Entry, Given, Port};
use crate::runtime::{Aside, Blocking};
use crate::waits::{self, Place};
use line::{Fault, Line, Sealed};
pub use vapid::{FILE, Vapid};

/// Connections to a push service.
const LINES: usize = 8;

/// Names that are looked up at once.
const LOOKUPS_MAX: usize = 16;

/// Time for one answer.
pub const LIMIT: Duration = Duration::from_secs(10);

/// Time for all tries of a push.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// How often a push is tried.
const TRIES: u32 = 4;

/// Between the first two tries; four times as long between the next ones.
const PAUSE: Duration = Duration::from_secs(1);

/// For no longer is a push service left alone because it says so.
const ALONE_MAX: Duration = Duration::from_secs(300);

/// How often a breaker is asked whether it lets a push through.
const LOOK: Duration = Duration::from_millis(250);

/// Hosts of a push service of which is known how they stand.
const HOSTS_MAX: usize = 256;

counter_table! {
    /// What was asked of one push service.
    Asked:
    tries Count "Requests that were sent, each try.";
    taken Count "Pushes that were taken.";
    gone Count "Pushes to registrations that the service does not know any more.";
    refused Count "Pushes that were refused for good, by another status.";
    busy Count "Answers that say that it is too much for now: 429.";
    faults Count "Requests that failed: 5xx, no answer in time, or no connection.";
    late Count "Pushes that were given up, because the service could not be asked in time.";
    ask_us Count "Time that answers took, microseconds.";
    waiting Gauge "Pushes that wait for a connection.";
    down Gauge "Hosts that have failed too often, and are not asked for a while.";
}

/// How pushes are sent.
#[derive(Clone, Debug)]
pub struct Settings {
    /// By what push services know the server.
    pub vapid: Arc<Vapid>,
    /// The operator's list, as the engine has it.
    pub services: Vec<String>,
    /// By what push services are checked.
    pub tls: Arc<ClientConfig>,
    /// They may have private addresses.
    pub private: bool,
    /// For how long push services keep a push (RFC 8030 5.2).
    pub ttl: Duration,
    /// How urgent it is (RFC 8030 5.3).
    pub urgency: &'static str,
    /// Time for one answer.
    pub limit: Duration,
    /// Time for all tries of a push.
    pub patience: Duration,
}

/// How a push service stands.
#[derive(Debug)]
pub struct Standing {
    entry: String,
    hosts: Mutex<HashMap<String, Breaker>>,
    /// Until when it wants to be left alone.
    alone: Mutex<Option<Instant>>,
    counters: Arc<Asked>,
}

impl Standing {
    /// The entry of the operator's list.
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// Its counters.
    pub fn counters(&self) -> &Arc<Asked> {
        &self.counters
    }

    /// What the breaker of a host says or is told; `None` if there are too many hosts that fail.
    fn breaker<T>(&self, host: &str, with: impl FnOnce(&mut Breaker) -> T) -> Option<T> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() >= HOSTS_MAX && !hosts.contains_key(host) {
            hosts.retain(|_, breaker| breaker.is_open());
            if hosts.len() >= HOSTS_MAX {
                return None;
            }
        }
        let result = with(hosts.entry(host.into()).or_default());
        self.counters.down.set(hosts.values().filter(|breaker| breaker.is_open()).count() as u64);
        Some(result)
    }

    fn answered(&self, host: &str) {
        if self.breaker(host, Breaker::answered) == Some(true) {
            tracing::info!(host, "the push service answers again");
        }
    }

    fn failed(&self, host: &str, why: &dyn std::fmt::Display) {
        self.counters.faults.one();
        if self.breaker(host, |breaker| breaker.failed(Instant::now())) == Some(true) {
            tracing::warn!(host, %why, "the push service is down: it is asked again in a while");
        }
    }

    fn leave_alone(&self, time: Duration) {
        let until = Instant::now() + time.min(ALONE_MAX);
        let mut alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        *alone = Some(alone.map_or(until, |before| before.max(until)));
    }

    /// When it may be asked again, if not now.
    fn alone_until(&self) -> Option<Instant> {
        let alone = *self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        alone.filter(|until| *until > Instant::now())
    }

    /// Waits until a host may be asked. False if that is not in time.
    async fn ready(&self, host: &str, late: Instant) -> bool {
        loop {
            let until = match self.alone_until() {
                Some(until) => until,
                None => match self.breaker(host, |breaker| breaker.may_ask(Instant::now())) {
                    Some(true) => return true,
                    Some(false) => Instant::now() + LOOK,
                    None => return false,
                },
            };
            if until >= late {
                return false;
            }
            tokio::time::sleep_until(until.into()).await;
        }
    }
}

/// A push on its way.
struct Waiting {
    given: Given<Box<WebPush>>,
    at: Instant,
}

/// The ways to all push services, by the number of the entry.
pub struct Doors(Arc<[mpsc::Sender<Waiting>]>);

/// A shard's end.
pub type PushPort = Port<Doors>;

impl Entry for Doors {
    type What = Box<WebPush>;
    type Answer = PushOutcome;

    fn give(&mut self, given: Given<Box<WebPush>>) -> Result<(), PushOutcome> {
        let queue = self.0.get(usize::from(given.what.service)).ok_or(PushOutcome::Failed)?;
        queue.try_send(Waiting { given, at: Instant::now() }).map_err(|_| PushOutcome::Failed)
    }
}

/// The thread. When this is dropped, nothing is sent any more.
pub struct Pushing {
    _thread: Option<Aside>,
    standings: Vec<Arc<Standing>>,
}

impl Pushing {
    /// How each push service stands.
    pub fn standings(&self) -> &[Arc<Standing>] {
        &self.standings
    }
}

/// Starts the thread, if pushes are to be sent, and gives a port for each shard.
///
/// # Errors
/// The system's when there can be no thread.
pub fn start(settings: Option<Settings>, wakes: &[Arc<dyn Wake>]) -> std::io::Result<(Vec<PushPort>, Pushing)> {
    let (mut doors, mut works) = (Vec::new(), Vec::new());
    for entry in settings.iter().flat_map(|settings| &settings.services).take(NOTIFY_PUSH_SERVICES_MAX) {
        let (hosts, alone, counters) = (Mutex::default(), Mutex::default(), Arc::default());
        let standing = Arc::new(Standing { entry: entry.clone(), hosts, alone, counters });
        // A shard has no more under way to one of them.
        let (queue, given) = mpsc::channel(wakes.len().max(1) * NOTIFY_PUSH_UNDER_WAY_MAX);
        doors.push(queue);
        works.push((standing, given));
    }
    let standings = works.iter().map(|(standing, _)| standing.clone()).collect();
    let doors: Arc<[_]> = doors.into();
    let most = NOTIFY_PUSH_SERVICES_MAX * NOTIFY_PUSH_UNDER_WAY_MAX;
    let (ports, answers) = port::ports(wakes, most, || Doors(doors.clone()));
    let Some(settings) = settings.map(Arc::new) else { return Ok((ports, Pushing { _thread: None, standings })) };
    // A name that is being looked up is not waited for at the end.
    let blocking = Blocking { most: LOOKUPS_MAX, whole: false };
    let thread = Aside::start("throng-push", blocking, move || async move {
        let _at = waits::at(Place::Pushes);
        for (standing, given) in works {
            let given = Arc::new(tokio::sync::Mutex::new(given));
            for _ in 0..LINES {
                let line = Line::new(settings.clone());
                tokio::spawn(work(line, settings.patience, standing.clone(), given.clone(), answers.clone()));
            }
        }
        std::future::pending::<()>().await;
    })?;
    Ok((ports, Pushing { _thread: Some(thread), standings }))
}

/// Works with one line until nobody is left to send for.
async fn work(
    mut line: Line,
    patience: Duration,
    standing: Arc<Standing>,
    given: Arc<tokio::sync::Mutex<mpsc::Receiver<Waiting>>>,
    answers: Answers<PushOutcome>,
) {
    loop {
        let next = {
            let mut given = given.lock().await;
            let next = given.recv().await;
            standing.counters.waiting.set(given.len() as u64);
            next
        };
        let Some(Waiting { given: Given { shard, token, what: push }, at }) = next else { return };
        let outcome = deliver(&mut line, &standing, &push, at + patience).await;
        answers.answer(shard, token, outcome);
    }
}

/// Tries a push as often as it may be.
async fn deliver(line: &mut Line, standing: &Standing, push: &WebPush, late: Instant) -> PushOutcome {
    let Some((host, port)) = authority(&push.endpoint) else { return PushOutcome::Gone };
    let body = match seal::seal(&push.p256dh, &push.auth, &push.content) {
        Ok(body) => Bytes::from(body),
        // Nobody can read what would be sent there.
        Err(seal::Fault::Key) => return PushOutcome::Gone,
        Err(seal::Fault::Other) => return PushOutcome::Failed,
    };
    let (sealed, counters) = (Sealed { push, host, port, body }, &standing.counters);
    let mut pause = PAUSE;
    for left in (0..TRIES).rev() {
        if !standing.ready(host, late).await {
            counters.late.one();
            return PushOutcome::Failed;
        }
        counters.tries.one();
        let begun = Instant::now();
        let answer = match line.send(&sealed).await {
            Ok(answer) => answer,
            Err(fault) => {
                standing.failed(host, &fault);
                // Anybody can make up hosts of which only the end is known: such a push is not worth the time of others.
                if matches!(fault, Fault::NoAddress(_)) && standing.entry.starts_with('.') {
                    return PushOutcome::Failed;
                }
                pause = wait(pause, left).await;
                continue;
            }
        };
        counters.ask_us.add(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
        match answer.status {
            status if status.is_success() => {
                standing.answered(host);
                counters.taken.one();
                return PushOutcome::Sent;
            }
            // RFC 8030 7.3, 8.3.
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                standing.answered(host);
                counters.gone.one();
                return PushOutcome::Gone;
            }
            // RFC 8030 8.4.
            StatusCode::TOO_MANY_REQUESTS => {
                standing.answered(host);
                counters.busy.one();
                standing.leave_alone(answer.again.unwrap_or(pause));
            }
            status if status.is_server_error() => {
                standing.failed(host, &status);
                answer.again.into_iter().for_each(|time| standing.leave_alone(time));
            }
            status => {
                standing.answered(host);
                if counters.refused.get() == 0 {
                    tracing::warn!(host, %status, "the push service refuses a push; others like it are only counted");
                }
                counters.refused.one();
                return PushOutcome::Failed;
            }
        }
        pause = wait(pause, left).await;
    }
    PushOutcome::Failed
}

/// Waits before the next try, if there is one, and says how long the next wait is.
async fn wait(pause: Duration, left: u32) -> Duration {
    if left > 0 {
        // Lines that have failed together do not come back together.
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
        tokio::time::sleep(pause.mul_f64(0.5 + f64::from(nanos % 1_000) / 2_000.0)).await;
    }
    pause * 4
}
