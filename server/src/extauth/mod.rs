//! External authorisation: a program or a web service of the operator checks the passwords of
//! external users, and a web service permits operations on channels.
//!
//! ```text
//! shards -> port -> queue of a back end (bounded) ─┬─> line ─> process (extauth protocol) or connection (HTTP)
//!                                                  ├─> line
//!             answers <- port <- ──────────────────┴─> ...
//! ```
//!
//! One thread serves all back ends, and sleeps when there are no requests. A shard hands a request
//! in without blocking, and is woken by the answer, as with jobs. Every request has an answer in
//! bounded time. This module knows neither connections nor accounts; passwords pass through it and
//! are written nowhere.

mod http;
mod inquiry;
mod program;
mod protocol;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use throng_engine::counter_table;
use throng_engine::io::{Decision, Inquiry, Question, Unknown, Verdict};
use throng_engine::limits::{NOTIFY_INQUIRIES_MAX, OUTSIDE_ASKS_MAX};
use tokio::sync::mpsc::{self, channel as bounded};

use crate::audit;
use crate::breaker::Breaker;
use crate::disk::Wake;
use crate::port::{self, Answers, Entry, Given, Port};
use crate::runtime::{Aside, Blocking};
use crate::waits::{self, Place};
pub use http::Service;
use program::BackOff;

/// Maximum number of simultaneous name lookups.
const LOOKUPS_MAX: usize = 64;

counter_table! {
    /// Counters of one back end.
    Asked:
    questions Count "Requests sent.";
    yes Count "Positive answers: the password is right, the user exists, or the request is allowed.";
    no Count "Negative answers.";
    late Count "Requests without an answer in time.";
    wrong Count "Requests that got an invalid answer, or none.";
    unasked Count "Requests not sent: they waited too long, or the back end failed meanwhile.";
    ask_us Count "Time of answered requests.";
    started Count "Processes started, or connections opened.";
    waiting Gauge "Requests that wait for a process or a connection.";
    down Gauge "1 while no requests are sent because too many have failed.";
}

/// A program and its arguments.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its path.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// The implementation of a back end.
#[derive(Clone, Debug)]
pub enum By {
    /// A program.
    Program(Program),
    /// A web service.
    Http(Box<Service>),
}

/// The requests that a back end decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Of {
    /// Authentication of the users of this domain, which is normalised.
    Users(String),
    /// Operations on channels.
    Channels,
}

/// A request.
#[derive(Debug)]
pub enum What {
    /// Whether a password is right, or a user exists.
    User(Box<Question>),
    /// Whether an operation on channels is permitted.
    Channels(Box<Inquiry>),
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// About a user.
    User(Verdict),
    /// About an operation on channels.
    Channels(Decision),
}

impl Said {
    /// The answer if the back end gave none, with the reason.
    fn unknown(what: &What, why: Unknown) -> Said {
        match what {
            What::User(_) => Said::User(Verdict::Unknown(why)),
            What::Channels(_) => Said::Channels(Decision::Unknown),
        }
    }

    /// Whether it is positive.
    fn is_yes(&self) -> bool {
        matches!(self, Said::User(Verdict::Yes) | Said::Channels(Decision::Allowed { .. }))
    }
}

/// A back end.
#[derive(Clone, Debug)]
pub struct BackEnd {
    /// The requests that it decides.
    pub of: Of,
    /// Its implementation.
    pub by: By,
    /// Number of processes or connections.
    pub lines: usize,
    /// Maximum number of waiting requests.
    pub waiting_max: usize,
    /// Time for an answer, and for waiting in the queue.
    pub limit: Duration,
}

/// Why there is no answer.
#[derive(Debug)]
enum Fault {
    /// The process or the connection has ended.
    Ended,
    /// The process cannot be started, or the service cannot be reached.
    NotThere(String),
    /// The answer is invalid.
    Wrong(&'static str),
    /// Another HTTP status.
    Status(u16),
    /// The answer timed out.
    Late,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Ended => f.write_str("it closed the connection without an answer"),
            Fault::NotThere(why) => write!(f, "it cannot be reached: {why}"),
            Fault::Wrong(what) => f.write_str(what),
            Fault::Status(status) => write!(f, "it answered with status {status}; expected 200"),
            Fault::Late => f.write_str("it has not answered in time"),
        }
    }
}

/// The state of a back end.
#[derive(Debug)]
pub struct Standing {
    of: Of,
    breaker: Mutex<Breaker>,
    down: AtomicBool,
    counters: Arc<Asked>,
}

impl Standing {
    /// The requests that it decides.
    pub fn of(&self) -> &Of {
        &self.of
    }

    /// Whether it has failed so often that requests are suspended for a while.
    pub fn is_down(&self) -> bool {
        self.down.load(Ordering::Relaxed)
    }

    /// Its counters.
    pub fn counters(&self) -> &Arc<Asked> {
        &self.counters
    }

    fn breaker(&self) -> std::sync::MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answered(&self) {
        if self.breaker().answered() {
            self.stands(false);
            match &self.of {
                Of::Users(domain) => tracing::info!(domain, "external authentication answers again"),
                Of::Channels => tracing::info!("the service of notify_ask answers again"),
            }
        }
    }

    fn failed(&self, fault: &Fault) {
        if self.breaker().failed(Instant::now()) {
            self.stands(true);
            match &self.of {
                Of::Users(domain) => tracing::warn!(
                    domain,
                    %fault,
                    "external authentication is down: logins of this domain are refused until a \
                     probe succeeds"
                ),
                Of::Channels => tracing::warn!(
                    %fault,
                    "the service of notify_ask is down: requests that it decides are refused until \
                     a probe succeeds"
                ),
            }
        }
    }

    fn stands(&self, down: bool) {
        self.down.store(down, Ordering::Relaxed);
        self.counters.down.set(down.into());
    }
}

/// A request in progress.
struct Waiting {
    given: Given<What>,
    at: Instant,
}

/// The queue of a back end.
struct Door {
    standing: Arc<Standing>,
    queue: mpsc::Sender<Waiting>,
}

/// The queues of all back ends.
#[derive(Clone)]
pub struct Doors(Arc<Doorways>);

#[derive(Default)]
struct Doorways {
    /// By domain.
    users: HashMap<String, Door>,
    channels: Option<Door>,
}

/// A shard's port.
pub type AskPort = Port<Doors>;

impl Entry for Doors {
    type What = What;
    type Answer = Said;

    fn give(&mut self, given: Given<What>) -> Result<(), Said> {
        let door = match &given.what {
            What::User(question) => self.0.users.get(question.user().1),
            What::Channels(_) => self.0.channels.as_ref(),
        };
        match door {
            Some(door) if door.standing.breaker().may_ask(Instant::now()) => {
                door.queue.try_send(Waiting { given, at: Instant::now() }).map_err(|error| {
                    door.standing.breaker().unasked(Instant::now());
                    match error {
                        mpsc::error::TrySendError::Full(left) => Said::unknown(&left.given.what, Unknown::Busy),
                        mpsc::error::TrySendError::Closed(left) => Said::unknown(&left.given.what, Unknown::Down),
                    }
                })
            }
            _ => Err(Said::unknown(&given.what, Unknown::Down)),
        }
    }
}

/// The thread. When this is dropped, requests end, and processes have been killed.
pub struct BackEnds {
    _thread: Option<Aside>,
    standings: Vec<Arc<Standing>>,
}

impl BackEnds {
    /// The state of each back end.
    pub fn standings(&self) -> &[Arc<Standing>] {
        &self.standings
    }
}

/// Starts the thread, if there is a back end, and returns a port per shard.
///
/// # Errors
/// The system's, if a thread cannot be created.
pub fn start(back_ends: Vec<BackEnd>, wakes: &[Arc<dyn Wake>]) -> std::io::Result<(Vec<AskPort>, BackEnds)> {
    let (mut doors, mut works, mut standings) = (Doorways::default(), Vec::new(), Vec::new());
    for back_end in back_ends {
        let standing = Arc::new(Standing {
            of: back_end.of.clone(),
            breaker: Mutex::default(),
            down: AtomicBool::new(false),
            counters: Arc::default(),
        });
        let (queue, given) = bounded(back_end.waiting_max.max(1));
        let door = Door { standing: standing.clone(), queue };
        match &back_end.of {
            Of::Users(domain) => drop(doors.users.insert(domain.clone(), door)),
            Of::Channels => doors.channels = Some(door),
        }
        standings.push(standing.clone());
        works.push((back_end, standing, given));
    }
    let doors = Doors(Arc::new(doors));
    let (ports, answers) = port::ports(wakes, OUTSIDE_ASKS_MAX + NOTIFY_INQUIRIES_MAX, || doors.clone());
    if works.is_empty() {
        return Ok((ports, BackEnds { _thread: None, standings }));
    }
    // Shutdown does not wait for name lookups.
    let blocking = Blocking { most: LOOKUPS_MAX, whole: false };
    let thread = Aside::start("throng-extauth", blocking, move || async move {
        let _at = waits::at(Place::BackEnds);
        for (back_end, standing, given) in works {
            let given = Arc::new(tokio::sync::Mutex::new(given));
            for _ in 0..back_end.lines.max(1) {
                let line = Line::new(&back_end.by);
                tokio::spawn(work(line, back_end.limit, standing.clone(), given.clone(), answers.clone()));
            }
        }
        std::future::pending::<()>().await;
    })?;
    Ok((ports, BackEnds { _thread: Some(thread), standings }))
}

enum Line {
    Program(program::Line),
    Http(http::Line),
}

impl Line {
    fn new(by: &By) -> Line {
        match by {
            By::Program(program) => Line::Program(program::Line::new(program.clone())),
            By::Http(service) => Line::Http(http::Line::new((**service).clone())),
        }
    }

    async fn ask(&mut self, what: &What, started: &mut u64) -> Result<Said, Fault> {
        match (self, what) {
            (Line::Http(line), what) => line.ask(what, started).await,
            (Line::Program(line), What::User(question)) => {
                let yes = line.ask(question, started).await?;
                Ok(Said::User(if yes { Verdict::Yes } else { Verdict::No }))
            }
            (Line::Program(_), What::Channels(_)) => {
                Err(Fault::NotThere("programs are not asked about channels".into()))
            }
        }
    }
}

/// Runs one line until the queue closes.
async fn work(
    mut line: Line,
    limit: Duration,
    standing: Arc<Standing>,
    given: Arc<tokio::sync::Mutex<mpsc::Receiver<Waiting>>>,
    answers: Answers<Said>,
) {
    let (mut back_off, counters) = (BackOff::default(), standing.counters.clone());
    loop {
        let next = {
            let mut given = given.lock().await;
            let next = given.recv().await;
            counters.waiting.set(given.len() as u64);
            next
        };
        let Some(Waiting { given: Given { shard, token, what }, at }) = next else { return };
        let unasked = match standing.breaker().is_open() {
            true => Some(Unknown::Down),
            false => (at.elapsed() >= limit).then_some(Unknown::Busy),
        };
        if let Some(why) = unasked {
            counters.unasked.one();
            standing.breaker().unasked(Instant::now());
            answers.answer(shard, token, Said::unknown(&what, why));
            continue;
        }
        let (begun, mut started) = (Instant::now(), 0);
        let asked = tokio::time::timeout(limit, line.ask(&what, &mut started)).await;
        counters.questions.one();
        counters.started.add(started);
        let fault = match asked {
            Ok(Ok(said)) => {
                counters.ask_us.add(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
                if said.is_yes() {
                    counters.yes.one()
                } else {
                    counters.no.one()
                }
                standing.answered();
                back_off = BackOff::default();
                answers.answer(shard, token, said);
                continue;
            }
            Ok(Err(fault)) => fault,
            Err(_) => Fault::Late,
        };
        let why = match fault {
            Fault::Late => {
                counters.late.one();
                Unknown::Late
            }
            _ => {
                counters.wrong.one();
                // An unreachable back end has received no request.
                if matches!(fault, Fault::NotThere(_)) { Unknown::Down } else { Unknown::Wrong }
            }
        };
        match &standing.of {
            Of::Users(domain) => audit::back_end(domain, &fault),
            Of::Channels => audit::ask_service(&fault),
        }
        standing.failed(&fault);
        answers.answer(shard, token, Said::unknown(&what, why));
        tokio::time::sleep(back_off.next()).await;
    }
}
