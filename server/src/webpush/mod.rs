//! Pushes to closed pages (RFC 8030): encrypted for the page (RFC 8291), signed for its push
//! service (RFC 8292), and sent.
//!
//! ```text
//! shards -> port -> queue of a push service (bounded) ─┬─> line ─> connection
//!                                                      ├─> line
//!             outcomes <- port <- ─────────────────────┴─> ...
//! ```
//!
//! One thread serves all of them, and sleeps when there is nothing to send. A *push service* is an
//! entry of the operator's list. Each has a queue, lines, and a breaker per host, so none delays
//! another. Every push has an outcome in bounded time. This module knows neither channels nor
//! items.

mod address;
mod line;
mod seal;
#[cfg(test)]
mod tests;
mod vapid;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hyper::StatusCode;
use hyper::body::Bytes;
use rustls::ClientConfig;
use throng_engine::counter_table;
use throng_engine::io::{PushOutcome, WebPush};
use throng_engine::limits::{NOTIFY_PUSH_SERVICES_MAX, NOTIFY_PUSH_UNDER_WAY_MAX};
use throng_engine::web::push::authority;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, WeakSender, channel as bounded};

use crate::breaker::Breaker;
use crate::disk::Wake;
use crate::port::{self, Answers, Entry, Given, Port};
use crate::runtime::{Aside, Blocking};
use crate::waits::{self, Place};
use line::{Fault, Line, Sealed};
pub use vapid::{FILE, Vapid};

/// Connections per push service.
const LINES: usize = 8;

/// Maximum number of simultaneous name lookups.
const LOOKUPS_MAX: usize = 16;

/// Time for one response.
pub const LIMIT: Duration = Duration::from_secs(10);

/// Time for all attempts of a push.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Maximum number of attempts per push.
const TRIES: u32 = 4;

/// Pause between the first two attempts; each further one is four times as long.
const PAUSE: Duration = Duration::from_secs(1);

/// Maximum time for which a push service's request for delay is honoured.
const ALONE_MAX: Duration = Duration::from_secs(300);

/// How often a breaker is polled for permission.
const LOOK: Duration = Duration::from_millis(250);

/// After this many pages in a row with 429 responses, the push service itself counts as overloaded.
const BUSY_MAX: usize = 5;

/// Maximum number of pushes that wait because of 429 responses to their pages. They count as in
/// progress, so others need the rest.
const BUSY_WAITING_MAX: usize = NOTIFY_PUSH_UNDER_WAY_MAX / 4;

/// Maximum number of a push service's hosts with a breaker.
const HOSTS_MAX: usize = 256;

counter_table! {
    /// Counters of one push service.
    Asked:
    tries Count "Requests sent, repetitions included.";
    taken Count "Pushes accepted.";
    gone Count "Pushes to registrations that the service no longer knows.";
    refused Count "Pushes refused permanently, by another status.";
    busy Count "Answers with status 429: too many requests.";
    faults Count "Requests that failed: 5xx, no answer in time, or no connection.";
    late Count "Pushes given up because the service could not be reached in time.";
    ask_us Count "Time of answered requests.";
    waiting Gauge "Pushes that wait for a connection.";
    down Gauge "Hosts that get no requests for a while because too many have failed.";
}

/// Settings for sending pushes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server's identity for push services.
    pub vapid: Arc<Vapid>,
    /// The operator's list, in the engine's form.
    pub services: Vec<String>,
    /// The TLS configuration that verifies push services.
    pub tls: Arc<ClientConfig>,
    /// Whether private addresses are permitted.
    pub private: bool,
    /// How long push services retain a push (RFC 8030 5.2).
    pub ttl: Duration,
    /// Its urgency (RFC 8030 5.3).
    pub urgency: &'static str,
    /// Time for one response.
    pub limit: Duration,
    /// Time for all attempts of a push.
    pub patience: Duration,
}

/// The state of a push service.
#[derive(Debug)]
pub struct Standing {
    entry: String,
    hosts: Mutex<HashMap<String, Breaker>>,
    alone: Mutex<Alone>,
    counters: Arc<Asked>,
}

/// The rate limiting by a push service.
#[derive(Debug, Default)]
struct Alone {
    /// Until when no requests are sent.
    until: Option<Instant>,
    /// Pages with 429 responses since the last accepted push, by hashes of their endpoints.
    busy: Vec<u64>,
    /// Number of pushes that wait because of that.
    waiting: usize,
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

    fn hosts(&self) -> MutexGuard<'_, HashMap<String, Breaker>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accesses the breaker of a host; `None` if it has none, because too many others are down.
    fn breaker<T>(&self, host: &str, with: impl FnOnce(&mut Breaker) -> T) -> Option<T> {
        let mut hosts = self.hosts();
        if hosts.len() >= HOSTS_MAX && !hosts.contains_key(host) {
            hosts.retain(|_, breaker| breaker.is_open());
            if hosts.len() >= HOSTS_MAX {
                return None;
            }
        }
        let result = with(hosts.entry(host.into()).or_default());
        self.count_down(&hosts);
        Some(result)
    }

    /// Removes the breaker of a host.
    fn forget(&self, host: &str) {
        let mut hosts = self.hosts();
        hosts.remove(host);
        self.count_down(&hosts);
    }

    fn count_down(&self, hosts: &HashMap<String, Breaker>) {
        self.counters.down.set(hosts.values().filter(|breaker| breaker.is_open()).count() as u64);
    }

    fn answered(&self, host: &str) {
        if self.breaker(host, Breaker::answered) == Some(true) {
            tracing::info!(host, "the push service answers again");
        }
    }

    fn failed(&self, host: &str, why: &dyn std::fmt::Display) {
        self.counters.faults.one();
        if self.breaker(host, |breaker| breaker.failed(Instant::now())) == Some(true) {
            tracing::warn!(host, %why, "the push service is down; it will be retried");
        }
    }

    fn alone(&self) -> MutexGuard<'_, Alone> {
        self.alone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave_alone(&self, time: Duration) {
        let until = Instant::now() + time.min(ALONE_MAX);
        let mut alone = self.alone();
        alone.until = Some(alone.until.map_or(until, |before| before.max(until)));
    }

    /// Records a 429 response (RFC 8030 8.4): for one page, or for all. A page that overloads its
    /// own subscription must not silence others.
    fn busy(&self, endpoint: &str, time: Duration) {
        let mut hasher = DefaultHasher::new();
        endpoint.hash(&mut hasher);
        let (page, mut alone) = (hasher.finish(), self.alone());
        if !alone.busy.contains(&page) {
            alone.busy.push(page);
        }
        if alone.busy.len() >= BUSY_MAX {
            alone.busy.clear();
            drop(alone);
            self.leave_alone(time);
        }
    }

    /// Whether there is room for another push to wait for its page.
    fn may_wait(&self) -> bool {
        let mut alone = self.alone();
        let may = alone.waiting < BUSY_WAITING_MAX;
        alone.waiting += usize::from(may);
        may
    }

    /// When requests may be sent again, if not now.
    fn alone_until(&self) -> Option<Instant> {
        self.alone().until.filter(|until| *until > Instant::now())
    }

    /// Whether a request to the host is permitted now; if it was down, the result decides. A host
    /// without a breaker is permitted: it costs no more than a line's time.
    fn may_ask(&self, host: &str) -> bool {
        self.alone_until().is_none() && self.breaker(host, |breaker| breaker.may_ask(Instant::now())) != Some(false)
    }

    /// Records that a permitted request was not sent.
    fn unasked(&self, host: &str, outcome: PushOutcome) -> Came {
        self.breaker(host, |breaker| breaker.unasked(Instant::now()));
        Came::Outcome(outcome)
    }

    /// Waits until a request to the host seems permitted. False if that takes too long.
    async fn ready(&self, host: &str, late: Instant) -> bool {
        loop {
            let until = match self.alone_until() {
                Some(until) => until,
                None if self.hosts().get(host).is_none_or(|breaker| breaker.would_ask(Instant::now())) => return true,
                None => Instant::now() + LOOK,
            };
            if until >= late {
                return false;
            }
            tokio::time::sleep_until(until.into()).await;
        }
    }
}

/// A push in progress.
struct Waiting {
    given: Given<Box<WebPush>>,
    at: Instant,
    /// Number of attempts left.
    tries: u32,
    /// The pause after the next failed attempt.
    pause: Duration,
    /// Whether it waits because of a 429 response to its page.
    busy: bool,
}

impl Waiting {
    fn new(given: Given<Box<WebPush>>) -> Waiting {
        Waiting { given, at: Instant::now(), tries: TRIES, pause: PAUSE, busy: false }
    }

    /// Schedules the next attempt after a failure.
    fn again(&mut self) -> Came {
        self.tries = self.tries.saturating_sub(1);
        if self.tries == 0 {
            return Came::Outcome(PushOutcome::Failed);
        }
        let pause = self.pause;
        self.pause *= 4;
        // Jitter: pushes that failed together are not retried together.
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
        Came::Later(pause.mul_f64(0.5 + f64::from(nanos % 1_000) / 2_000.0))
    }

    /// The same, with a minimum delay.
    fn again_after(&mut self, time: Duration) -> Came {
        match self.again() {
            Came::Later(pause) => Came::Later(pause.max(time)),
            over => over,
        }
    }

    fn ends(self, answers: &Answers<PushOutcome>, outcome: PushOutcome) {
        answers.answer(self.given.shard, self.given.token, outcome);
    }
}

/// The queues of all push services, by the index of the entry.
pub struct Doors(Arc<[Sender<Waiting>]>);

/// A shard's port.
pub type PushPort = Port<Doors>;

impl Entry for Doors {
    type What = Box<WebPush>;
    type Answer = PushOutcome;

    fn give(&mut self, given: Given<Box<WebPush>>) -> Result<(), PushOutcome> {
        let queue = self.0.get(usize::from(given.what.service)).ok_or(PushOutcome::Failed)?;
        queue.try_send(Waiting::new(given)).map_err(|_| PushOutcome::Failed)
    }
}

/// The thread. When this is dropped, nothing more is sent.
pub struct Pushing {
    _thread: Option<Aside>,
    standings: Vec<Arc<Standing>>,
}

impl Pushing {
    /// The state of each push service.
    pub fn standings(&self) -> &[Arc<Standing>] {
        &self.standings
    }
}

/// Starts the thread, if pushes are configured, and returns a port per shard.
///
/// # Errors
/// The system's, if a thread cannot be created.
pub fn start(settings: Option<Settings>, wakes: &[Arc<dyn Wake>]) -> std::io::Result<(Vec<PushPort>, Pushing)> {
    let (mut doors, mut works) = (Vec::new(), Vec::new());
    for entry in settings.iter().flat_map(|settings| &settings.services).take(NOTIFY_PUSH_SERVICES_MAX) {
        let (hosts, alone, counters) = (Mutex::default(), Mutex::default(), Arc::default());
        let standing = Arc::new(Standing { entry: entry.clone(), hosts, alone, counters });
        // The maximum that the shards have in progress to one service.
        let (queue, given) = bounded(wakes.len().max(1) * NOTIFY_PUSH_UNDER_WAY_MAX);
        works.push((standing, given, queue.downgrade()));
        doors.push(queue);
    }
    let standings = works.iter().map(|(standing, ..)| standing.clone()).collect();
    let doors: Arc<[_]> = doors.into();
    let most = NOTIFY_PUSH_SERVICES_MAX * NOTIFY_PUSH_UNDER_WAY_MAX;
    let (ports, answers) = port::ports(wakes, most, || Doors(doors.clone()));
    let Some(settings) = settings.map(Arc::new) else { return Ok((ports, Pushing { _thread: None, standings })) };
    // Shutdown does not wait for name lookups.
    let blocking = Blocking { most: LOOKUPS_MAX, whole: false };
    let thread = Aside::start("throng-push", blocking, move || async move {
        let _at = waits::at(Place::Pushes);
        for (standing, given, again) in works {
            let given = Arc::new(tokio::sync::Mutex::new(given));
            for _ in 0..LINES {
                let line = Line::new(settings.clone());
                let (standing, given, again) = (standing.clone(), given.clone(), again.clone());
                tokio::spawn(work(line, settings.patience, standing, given, again, answers.clone()));
            }
        }
        std::future::pending::<()>().await;
    })?;
    Ok((ports, Pushing { _thread: Some(thread), standings }))
}

/// Runs one line until the queue closes.
async fn work(
    mut line: Line,
    patience: Duration,
    standing: Arc<Standing>,
    given: Arc<tokio::sync::Mutex<Receiver<Waiting>>>,
    again: WeakSender<Waiting>,
    answers: Answers<PushOutcome>,
) {
    loop {
        let next = {
            let mut given = given.lock().await;
            let next = given.recv().await;
            standing.counters.waiting.set(given.len() as u64);
            next
        };
        let Some(mut waiting) = next else { return };
        match attempt(&mut line, &standing, &mut waiting, patience).await {
            Came::Outcome(outcome) => waiting.ends(&answers, outcome),
            Came::Later(pause) => {
                let (standing, again, answers) = (standing.clone(), again.clone(), answers.clone());
                tokio::spawn(put_off(waiting, pause, patience, standing, again, answers));
            }
        }
    }
}

/// Parks a push that cannot be sent now outside the lines, so that it does not delay pushes to
/// other hosts. Their number is bounded by the pushes that shards have in progress.
async fn put_off(
    mut waiting: Waiting,
    pause: Duration,
    patience: Duration,
    standing: Arc<Standing>,
    again: WeakSender<Waiting>,
    answers: Answers<PushOutcome>,
) {
    let late = waiting.at + patience;
    let host = authority(&waiting.given.what.endpoint).map_or(String::new(), |(host, _)| host.to_ascii_lowercase());
    let in_time = pause < late.saturating_duration_since(Instant::now());
    let busy = std::mem::take(&mut waiting.busy);
    if in_time {
        tokio::time::sleep(pause).await;
    }
    let may = in_time && standing.ready(&host, late).await;
    if busy {
        standing.alone().waiting -= 1;
    }
    if !may {
        standing.counters.late.one();
        return waiting.ends(&answers, PushOutcome::Failed);
    }
    // Otherwise the server is stopping, and the outcome is not needed.
    let Some(queue) = again.upgrade() else { return };
    if let Err(TrySendError::Full(waiting)) = queue.try_send(waiting) {
        waiting.ends(&answers, PushOutcome::Failed);
    }
}

/// The outcome of one attempt.
enum Came {
    /// The push has its final outcome.
    Outcome(PushOutcome),
    /// It may be retried after this time.
    Later(Duration),
}

/// Attempts a push once, if a request to its host is permitted now.
async fn attempt(line: &mut Line, standing: &Standing, waiting: &mut Waiting, patience: Duration) -> Came {
    let push = &waiting.given.what;
    let Some((host, port)) = authority(&push.endpoint) else { return Came::Outcome(PushOutcome::Gone) };
    let host = &host.to_ascii_lowercase();
    if waiting.at.elapsed() >= patience {
        standing.counters.late.one();
        return Came::Outcome(PushOutcome::Failed);
    }
    if !standing.may_ask(host) {
        return Came::Later(Duration::ZERO);
    }
    let body = match seal::seal(&push.p256dh, &push.auth, &push.content) {
        Ok(body) => Bytes::from(body),
        // No recipient could decrypt it.
        Err(seal::Fault::Key) => return standing.unasked(host, PushOutcome::Gone),
        Err(seal::Fault::Other) => return standing.unasked(host, PushOutcome::Failed),
    };
    let counters = &standing.counters;
    counters.tries.one();
    let begun = Instant::now();
    let answer = match line.send(&Sealed { push, host, port, body }).await {
        Ok(answer) => answer,
        // Users can invent hosts of which only the suffix is known: they are neither retried nor
        // remembered.
        Err(Fault::NoAddress(_)) if standing.entry.starts_with('.') => {
            counters.faults.one();
            standing.forget(host);
            return Came::Outcome(PushOutcome::Failed);
        }
        Err(fault) => {
            standing.failed(host, &fault);
            return waiting.again();
        }
    };
    counters.ask_us.add(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
    match answer.status {
        status if status.is_success() => {
            standing.answered(host);
            standing.alone().busy.clear();
            counters.taken.one();
            Came::Outcome(PushOutcome::Sent)
        }
        // RFC 8030 7.3, 8.3.
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            standing.answered(host);
            counters.gone.one();
            Came::Outcome(PushOutcome::Gone)
        }
        // RFC 8030 8.4.
        StatusCode::TOO_MANY_REQUESTS => {
            standing.answered(host);
            counters.busy.one();
            let time = answer.again.unwrap_or(waiting.pause);
            standing.busy(&push.endpoint, time);
            let came = waiting.again_after(time);
            if matches!(came, Came::Outcome(_)) {
                return came;
            }
            if !standing.may_wait() {
                counters.late.one();
                return Came::Outcome(PushOutcome::Failed);
            }
            waiting.busy = true;
            came
        }
        status if status.is_server_error() => {
            standing.failed(host, &status);
            answer.again.into_iter().for_each(|time| standing.leave_alone(time));
            waiting.again()
        }
        // This includes redirects: requests only go to hosts that the operator has listed.
        status => {
            standing.answered(host);
            if counters.refused.get() == 0 {
                tracing::warn!(host, %status, "the push service refuses a push; further ones are only counted");
            }
            counters.refused.one();
            Came::Outcome(PushOutcome::Failed)
        }
    }
}
