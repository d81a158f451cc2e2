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

/// So many pages that are told too much, one after another, and the push service itself is asked too much.
const BUSY_MAX: usize = 5;

/// Pushes that wait because it was too much for their pages. They count as under way, so others need the rest.
const BUSY_WAITING_MAX: usize = NOTIFY_PUSH_UNDER_WAY_MAX / 4;

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
    alone: Mutex<Alone>,
    counters: Arc<Asked>,
}

/// Whether a push service is asked too much.
#[derive(Debug, Default)]
struct Alone {
    /// Until when it wants to be left alone.
    until: Option<Instant>,
    /// Pages for which it was too much since the last push that was taken, by hashes of their endpoints.
    busy: Vec<u64>,
    /// Pushes that wait because of that.
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

    /// What the breaker of a host says or is told; `None` if it has none, because too many others are down.
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

    /// Nothing is known of a host any more.
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
            tracing::warn!(host, %why, "the push service is down: it is asked again in a while");
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

    /// It was too much for now (RFC 8030 8.4): for one page, or for all. A page that has itself told too much is not to silence others.
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

    /// A push that was too much for its page is to wait, if there is room for that.
    fn may_wait(&self) -> bool {
        let mut alone = self.alone();
        let may = alone.waiting < BUSY_WAITING_MAX;
        alone.waiting += usize::from(may);
        may
    }

    /// When it may be asked again, if not now.
    fn alone_until(&self) -> Option<Instant> {
        self.alone().until.filter(|until| *until > Instant::now())
    }

    /// Whether a host may be asked now; if it was down, what comes of it decides. A host without a breaker may: it costs no more than a
    /// line's time.
    fn may_ask(&self, host: &str) -> bool {
        self.alone_until().is_none() && self.breaker(host, |breaker| breaker.may_ask(Instant::now())) != Some(false)
    }

    /// A host that might be asked was not, after all.
    fn unasked(&self, host: &str, outcome: PushOutcome) -> Came {
        self.breaker(host, |breaker| breaker.unasked(Instant::now()));
        Came::Outcome(outcome)
    }

    /// Waits until it seems that a host may be asked. False if that is not in time.
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

/// A push on its way.
struct Waiting {
    given: Given<Box<WebPush>>,
    at: Instant,
    /// How often it may be tried still.
    tries: u32,
    /// How long it waits after the next try that fails.
    pause: Duration,
    /// It waits because it was too much for its page.
    busy: bool,
}

impl Waiting {
    fn new(given: Given<Box<WebPush>>) -> Waiting {
        Waiting { given, at: Instant::now(), tries: TRIES, pause: PAUSE, busy: false }
    }

    /// A try has failed.
    fn again(&mut self) -> Came {
        self.tries = self.tries.saturating_sub(1);
        if self.tries == 0 {
            return Came::Outcome(PushOutcome::Failed);
        }
        let pause = self.pause;
        self.pause *= 4;
        // Those that have failed together do not come back together.
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
        Came::Later(pause.mul_f64(0.5 + f64::from(nanos % 1_000) / 2_000.0))
    }

    /// A try has failed, and there is to be none before so long.
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

/// The ways to all push services, by the number of the entry.
pub struct Doors(Arc<[Sender<Waiting>]>);

/// A shard's end.
pub type PushPort = Port<Doors>;

impl Entry for Doors {
    type What = Box<WebPush>;
    type Answer = PushOutcome;

    fn give(&mut self, given: Given<Box<WebPush>>) -> Result<(), PushOutcome> {
        let queue = self.0.get(usize::from(given.what.service)).ok_or(PushOutcome::Failed)?;
        queue.try_send(Waiting::new(given)).map_err(|_| PushOutcome::Failed)
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
        let (queue, given) = bounded(wakes.len().max(1) * NOTIFY_PUSH_UNDER_WAY_MAX);
        works.push((standing, given, queue.downgrade()));
        doors.push(queue);
    }
    let standings = works.iter().map(|(standing, ..)| standing.clone()).collect();
    let doors: Arc<[_]> = doors.into();
    let most = NOTIFY_PUSH_SERVICES_MAX * NOTIFY_PUSH_UNDER_WAY_MAX;
    let (ports, answers) = port::ports(wakes, most, || Doors(doors.clone()));
    let Some(settings) = settings.map(Arc::new) else { return Ok((ports, Pushing { _thread: None, standings })) };
    // A name that is being looked up is not waited for at the end.
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

/// Works with one line until nobody is left to send for.
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

/// A push that cannot be sent now waits beside the lines, so that it holds up none of another host. There are no more of these than shards
/// have pushes under way.
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
    // Otherwise the server stops, and nobody waits for the outcome.
    let Some(queue) = again.upgrade() else { return };
    if let Err(TrySendError::Full(waiting)) = queue.try_send(waiting) {
        waiting.ends(&answers, PushOutcome::Failed);
    }
}

/// What came of one try.
enum Came {
    /// The push has come to its end.
    Outcome(PushOutcome),
    /// It may be tried after so long.
    Later(Duration),
}

/// Tries a push once, if its host may be asked now.
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
        // Nobody can read what would be sent there.
        Err(seal::Fault::Key) => return standing.unasked(host, PushOutcome::Gone),
        Err(seal::Fault::Other) => return standing.unasked(host, PushOutcome::Failed),
    };
    let counters = &standing.counters;
    counters.tries.one();
    let begun = Instant::now();
    let answer = match line.send(&Sealed { push, host, port, body }).await {
        Ok(answer) => answer,
        // Anybody can make up hosts of which only the end is known: they are neither asked again nor remembered.
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
        // Redirects are among these: nobody is asked whom the operator has not named.
        status => {
            standing.answered(host);
            if counters.refused.get() == 0 {
                tracing::warn!(host, %status, "the push service refuses a push; others like it are only counted");
            }
            counters.refused.one();
            Came::Outcome(PushOutcome::Failed)
        }
    }
}
