//! Import from files into a store at rest.
//!
//! ```text
//! files -> this thread: elements to rows -> batch of the user -+-> batches of 4 MiB -> store
//!                                                            `-> hashing threads -^
//! ```
//!
//! The rows of a user and of the account are one commit. If a user has too many rows for that, a
//! row of the store names the user until the last one is written, and [`abandon`] removes the
//! leftovers of an interrupted import. So an account exists completely or not at all, and an import
//! can be repeated.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use throng_engine::id::Domains;
use throng_engine::limits::SCRAM_ITERATIONS_DEFAULT;
use throng_engine::portable::{Arrival, Container, Place};
use throng_engine::store::account::{self, Credentials, Incarnation, KeySet, ScramKeys};
use throng_engine::store::hash::{HashKind, Tag};
use throng_engine::store::{Batch, Found, Query, Table};
use throng_engine::wire::jid::Jid;

use super::parts::{At, Part, Source};
use super::rooms::{Rooms, Taking};
use super::sources::{Format, sources};
use super::{Existing, Summary, Wrong};
use crate::disk::Engine;
use crate::entropy::Entropy;

/// Size of one commit in bytes.
const COMMIT_BYTES: usize = 4 << 20;

/// Bytes of a user's rows after which they are written before the user is complete.
const USER_BYTES: usize = 32 << 20;

/// Most bytes of a user's rows that wait for a hashing thread.
const WAITING_BYTES: usize = 1 << 20;

/// Most users with plaintext passwords in progress per hashing thread.
const UNDER_WAY: usize = 8;

/// Sort key of the row that names the user whose rows are only partly written.
const ARRIVING_KEY: &[u8] = b"portable/arriving";

/// Tables with rows that belong to an account. What the rooms have of a user stays with them.
fn tables() -> impl Iterator<Item = Table> {
    Table::ALL.into_iter().filter(|table| !matches!(table, Table::Meta | Table::Rooms))
}

/// The settings of an import.
pub struct Import<'a> {
    /// The store; `None` if it does not exist and is not to be created.
    pub engine: Option<&'a dyn Engine>,
    /// Domains whose users are imported.
    pub domains: &'a Domains,
    /// The domain of the service of rooms.
    pub rooms: &'a str,
    /// The format of what is imported.
    pub format: Format,
    /// The host of accounts in a dump that names none.
    pub host: &'a str,
    /// What to do with existing accounts.
    pub existing: Existing,
    /// Whether to write nothing.
    pub dry_run: bool,
    /// PBKDF2 iterations for plaintext passwords.
    pub iterations: u32,
    /// Number of hashing threads.
    pub threads: usize,
    /// All entries get numbers above this one.
    pub number_floor: u64,
    /// Makes the server give new entries only numbers above one.
    pub put_number_floor: &'a dyn Fn(&mut Batch, u64),
    /// The current time, microseconds since the Unix epoch.
    pub now_us: u64,
}

/// Removes the data of a user whose import was interrupted; returns that user.
///
/// # Errors
/// The store's.
pub fn abandon(engine: &dyn Engine) -> Result<Option<String>, Wrong> {
    let row = Query::Get { table: Table::Meta, actor: Box::default(), sort: ARRIVING_KEY.into() };
    let Found::Value(Some(user)) = engine.read(&row)? else { return Ok(None) };
    let mut batch = Batch::new();
    tables().for_each(|table| batch.delete_actor(table, &user));
    batch.delete(Table::Meta, b"", ARRIVING_KEY);
    engine.commit(&[batch])?;
    Ok(Some(String::from_utf8_lossy(&user).into_owned()))
}

/// Imports the accounts; `step` receives the progress. After a failure, the summary holds what was
/// imported until then.
pub fn import(from: &Path, plan: &Import<'_>, step: &mut dyn FnMut(&Summary)) -> (Summary, Result<(), Wrong>) {
    let (job_send, jobs) = sync_channel::<Waiting>(plan.threads * UNDER_WAY);
    let (done_send, done) = sync_channel::<Waiting>(plan.threads * UNDER_WAY);
    let jobs = Arc::new(Mutex::new(jobs));
    std::thread::scope(|scope| {
        for _ in 0..plan.threads {
            let (jobs, done_send, iterations) = (Arc::clone(&jobs), done_send.clone(), plan.iterations);
            scope.spawn(move || hash(&jobs, &done_send, iterations));
        }
        drop((jobs, done_send));
        let mut importing = Importing {
            plan,
            hashing: Hashing { send: job_send, done, under_way: 0 },
            entropy: Entropy::open(),
            batch: Batch::new(),
            unwritten: HashSet::new(),
            number: plan.number_floor,
            tried: HashSet::new(),
            tries: RandomState::new(),
            summary: Summary::default(),
            taking: None,
        };
        let mut end = plan.engine.filter(|_| !plan.dry_run).map_or(Ok(()), |engine| abandon(engine).map(drop));
        end = end.and_then(|()| {
            sources(from, plan.format, plan.host)?
                .into_iter()
                .try_for_each(|open| importing.source(&mut *open()?, step))
        });
        let rest = importing.rest();
        let Importing { summary, .. } = importing;
        (summary, end.and(rest))
    })
}

/// A user whose password waits to be hashed, or was hashed.
struct Waiting {
    user: String,
    password: String,
    incarnation: Incarnation,
    salt: [u8; 16],
    created_us: u64,
    batch: Batch,
    hashed: Option<Result<Credentials, String>>,
}

struct Hashing {
    send: SyncSender<Waiting>,
    done: Receiver<Waiting>,
    under_way: usize,
}

fn hash(jobs: &Mutex<Receiver<Waiting>>, send: &SyncSender<Waiting>, iterations: u32) {
    loop {
        let Ok(job) = jobs.lock().expect("no thread fails while it holds it").recv() else { return };
        if send.send(job.hash(iterations)).is_err() {
            return;
        }
    }
}

impl Waiting {
    fn hash(self, iterations: u32) -> Waiting {
        let hashed = Credentials::derive(&self.password, iterations, &self.salt, self.created_us);
        Waiting { hashed: Some(hashed.map_err(|error| error.to_string())), ..self }
    }
}

/// The account being read.
struct Current {
    jid: String,
    password: Option<String>,
    arrival: Arrival,
    batch: Batch,
    /// Whether some of its rows are in the store.
    parted: bool,
}

struct Importing<'a> {
    plan: &'a Import<'a>,
    hashing: Hashing,
    entropy: std::io::Result<Entropy>,
    /// Rows of complete accounts.
    batch: Batch,
    /// Users in that batch and at the hashing threads.
    unwritten: HashSet<String>,
    /// The last number given to an entry.
    number: u64,
    /// For a dry run: the users that would exist by now.
    tried: HashSet<u64>,
    tries: RandomState,
    summary: Summary,
    /// Takes the rooms, once there is one.
    taking: Option<Taking<'a>>,
}

impl Importing<'_> {
    fn source(&mut self, source: &mut dyn Source, step: &mut dyn FnMut(&Summary)) -> Result<(), Wrong> {
        let before = self.summary.bytes;
        let (mut host, mut current) = (None, None);
        let end = self.parts(source, &mut host, &mut current, before, step);
        if let Some(Current { jid, parted: true, .. }) = current {
            // The source ended within this account.
            tables().for_each(|table| self.batch.delete_actor(table, jid.as_bytes()));
            self.batch.delete(Table::Meta, b"", ARRIVING_KEY);
        }
        end
    }

    fn parts(
        &mut self,
        source: &mut dyn Source,
        host: &mut Option<String>,
        current: &mut Option<Current>,
        before: u64,
        step: &mut dyn FnMut(&Summary),
    ) -> Result<(), Wrong> {
        while let Some(part) = source.next()? {
            let at = source.at();
            match part {
                Part::Host(jid) => *host = self.host(&jid, &at),
                Part::User { name, password } => *current = self.user(host.as_deref(), &name, password, &at)?,
                part @ Part::Element { .. } if self.taking.as_ref().is_some_and(Taking::is_in_room) => {
                    self.room(part, host.as_deref(), &at)?;
                }
                Part::Element { container, node, element } => {
                    let Some(current) = current else { continue };
                    let place = match (container, &node) {
                        (Some(Container::Nodes), Some(node)) => Place::Node(node),
                        (Some(container), _) => Place::In(container),
                        (None, _) => Place::User,
                    };
                    let mut number = || {
                        self.number += 1;
                        self.number
                    };
                    current.arrival.element(place, &element, &mut number, &mut current.batch);
                    let words = current.arrival.words();
                    self.summary.note(words, &|| format!("{} at {at}", current.jid));
                    self.part(current)?;
                }
                Part::Skipped(what, why) => match &*current {
                    Some(current) => self.summary.one(what, why, &|| format!("{} at {at}", current.jid)),
                    None => self.summary.one(what, why, &|| at.to_string()),
                },
                Part::Progress => {
                    self.summary.bytes = before + source.bytes();
                    step(&self.summary);
                }
                Part::UserEnd => {
                    if let Some(current) = current.take() {
                        self.ended(current, &at)?;
                    }
                    self.summary.bytes = before + source.bytes();
                    step(&self.summary);
                }
                part @ (Part::Room { .. } | Part::RoomEnd) => self.room(part, host.as_deref(), &at)?,
            }
        }
        self.summary.bytes = before + source.bytes();
        Ok(())
    }

    /// Takes a part of a room. Accounts before it are written first.
    fn room(&mut self, part: Part, host: Option<&str>, at: &At) -> Result<(), Wrong> {
        if self.taking.is_none() {
            self.rest()?;
            let Import { engine, domains, rooms, dry_run, now_us, .. } = *self.plan;
            self.taking = Some(Taking::new(Rooms { engine, domains, service: rooms, dry_run, now_us })?);
        }
        let taking = self.taking.as_mut().expect("just made");
        taking.part(part, host, at, &mut self.summary)
    }

    fn host(&mut self, jid: &str, at: &At) -> Option<String> {
        if jid == self.plan.rooms {
            return Some(jid.to_owned());
        }
        let domain = Jid::parse(jid).ok().filter(|jid| jid.local().is_none() && jid.is_bare());
        let served = domain.filter(|jid| self.plan.domains.find_users(jid.domain()).is_some());
        if served.is_none() {
            let why = format!(
                "{jid} is not served here: its users are skipped; name it with --virtual-hosts to \
                 import them"
            );
            self.summary.one("host", why, &|| at.to_string());
        }
        served.map(|jid| jid.domain().to_owned())
    }

    /// Begins a user: decides what to do with the account.
    fn user(
        &mut self,
        host: Option<&str>,
        name: &str,
        password: Option<String>,
        at: &At,
    ) -> Result<Option<Current>, Wrong> {
        let Some(host) = host.filter(|host| *host != self.plan.rooms) else {
            self.summary.left += 1;
            return Ok(None);
        };
        let jid = match Jid::from_parts(Some(name), host, None) {
            Ok(jid) => jid.as_str().to_owned(),
            Err(error) => {
                self.summary.left += 1;
                self.summary
                    .one("user", format!("the name is none that is allowed: {error}"), &|| format!("{name:?} at {at}"));
                return Ok(None);
            }
        };
        if self.plan.dry_run && !self.tried.insert(self.tries.hash_one(&jid)) {
            // The user occurs twice in the files.
            match self.plan.existing {
                Existing::Skip => {
                    self.summary.there += 1;
                    return Ok(None);
                }
                Existing::Refuse => return Err(already_there(at, &jid)),
                Existing::Replace => {}
            }
        }
        let mut batch = Batch::new();
        if let Some(engine) = self.plan.engine {
            if self.unwritten.contains(&jid) {
                // The user occurs twice in the files.
                self.rest()?;
            }
            let account = Query::Get { table: Table::Accounts, actor: jid.as_bytes().into(), sort: Box::default() };
            let there = matches!(engine.read(&account)?, Found::Value(Some(_)) | Found::Damaged);
            match self.plan.existing {
                _ if !there => {}
                Existing::Replace => {}
                Existing::Skip => {
                    self.summary.there += 1;
                    return Ok(None);
                }
                Existing::Refuse => return Err(already_there(at, &jid)),
            }
            for table in tables() {
                let any = Query::Range {
                    table,
                    actor: jid.as_bytes().into(),
                    from: Box::default(),
                    until: None,
                    reverse: false,
                    rows_max: 1,
                    bytes_max: 1,
                };
                if !matches!(engine.read(&any)?, Found::Rows { rows, .. } if rows.is_empty()) {
                    batch.delete_actor(table, jid.as_bytes());
                }
            }
        }
        let mut arrival = Arrival::new(&jid, self.plan.domains, self.plan.now_us);
        let password = password.and_then(|password| arrival.password(password));
        let words = arrival.words();
        self.summary.note(words, &|| format!("{jid} at {at}"));
        Ok(Some(Current { jid, password, arrival, batch, parted: false }))
    }

    /// Writes the rows read so far of a user with very much data.
    fn part(&mut self, current: &mut Current) -> Result<(), Wrong> {
        if current.batch.bytes() < USER_BYTES {
            return Ok(());
        }
        current.parted = true;
        current.batch.put(Table::Meta, b"", ARRIVING_KEY, &[current.jid.as_bytes()]);
        self.batch.append(&current.batch);
        current.batch.clear();
        self.flush()
    }

    /// Ends a user.
    fn ended(&mut self, current: Current, at: &At) -> Result<(), Wrong> {
        let Current { jid, password, arrival, mut batch, parted } = current;
        let mut number = || {
            self.number += 1;
            self.number
        };
        let arrived = arrival.finish(&mut number, &mut batch);
        self.summary.note(arrived.words, &|| format!("{jid} at {at}"));
        self.summary.counts.add(&arrived.counts);
        if parted {
            batch.delete(Table::Meta, b"", ARRIVING_KEY);
        }
        let entropy = |error: &std::io::Error| Wrong::File(format!("the system gives no entropy: {error}"));
        let source = self.entropy.as_mut().map_err(|error| entropy(error))?;
        let incarnation = Incarnation::drawn(u64::from_be_bytes(source.fresh().map_err(|error| entropy(&error))?));
        let salt: [u8; 16] = source.fresh().map_err(|error| entropy(&error))?;
        let created_us = self.plan.now_us;
        if let Some(password) = password.filter(|password| !password.is_empty()) {
            let waiting = Waiting { user: jid, password, incarnation, salt, created_us, batch, hashed: None };
            return self.to_hash(waiting, parted, at);
        }
        let credentials = match Credentials::of_keys(arrived.keys, created_us) {
            Some(credentials) => credentials,
            None => {
                self.summary.without_password += 1;
                let why = "no password and no usable SCRAM credentials: set one with `throng user \
                           passwd`";
                self.summary.one("user", why.into(), &|| format!("{jid} at {at}"));
                let keys = nobodys(source).map_err(|error| entropy(&error))?;
                Credentials::of_keys(keys, created_us).expect("keys were given")
            }
        };
        let only = credentials.hashes();
        self.summary.only_sha1 += u64::from(only.iter().eq([HashKind::Sha1]));
        account::put(&mut batch, &jid, &credentials.of(incarnation));
        self.complete(jid, batch)
    }

    fn to_hash(&mut self, waiting: Waiting, parted: bool, at: &At) -> Result<(), Wrong> {
        if self.plan.dry_run {
            self.summary.users += 1;
            return Ok(());
        }
        if parted || waiting.batch.bytes() > WAITING_BYTES {
            return self.hashed(waiting.hash(self.plan.iterations));
        }
        while self.hashing.under_way >= self.plan.threads * UNDER_WAY {
            self.one_hashed()?;
        }
        self.hashing.under_way += 1;
        self.unwritten.insert(waiting.user.clone());
        let gone = |_| Wrong::File(format!("{at}: no thread takes passwords"));
        self.hashing.send.send(waiting).map_err(gone)
    }

    fn one_hashed(&mut self) -> Result<(), Wrong> {
        let done = self.hashing.done.recv().map_err(|_| Wrong::File("no thread hashes passwords".into()))?;
        self.hashing.under_way -= 1;
        self.hashed(done)
    }

    fn hashed(&mut self, done: Waiting) -> Result<(), Wrong> {
        let Waiting { user, incarnation, mut batch, hashed, created_us, .. } = done;
        let credentials = match hashed.expect("it was hashed") {
            Ok(credentials) => credentials,
            Err(why) => {
                self.summary.without_password += 1;
                self.summary.one("user", format!("{why}: set another one with `throng user passwd`"), &|| user.clone());
                let source = self.entropy.as_mut().expect("it was drawn from before");
                let keys = nobodys(source).map_err(|error| Wrong::File(error.to_string()))?;
                Credentials::of_keys(keys, created_us).expect("keys were given")
            }
        };
        account::put(&mut batch, &user, &credentials.of(incarnation));
        self.complete(user, batch)
    }

    /// Completes an account.
    fn complete(&mut self, user: String, batch: Batch) -> Result<(), Wrong> {
        self.summary.users += 1;
        if self.plan.dry_run {
            return Ok(());
        }
        self.batch.append(&batch);
        self.unwritten.insert(user);
        if self.batch.bytes() >= COMMIT_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes all complete accounts.
    fn rest(&mut self) -> Result<(), Wrong> {
        while self.hashing.under_way > 0 {
            self.one_hashed()?;
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<(), Wrong> {
        let Some(engine) = self.plan.engine.filter(|_| !self.plan.dry_run && !self.batch.is_empty()) else {
            self.batch.clear();
            return Ok(());
        };
        (self.plan.put_number_floor)(&mut self.batch, self.number);
        engine.commit(std::slice::from_ref(&self.batch))?;
        if self.hashing.under_way == 0 {
            self.unwritten.clear();
        } else {
            let written: HashSet<&[u8]> = self.batch.iter().map(|op| op.actor()).collect();
            self.unwritten.retain(|user| !written.contains(user.as_bytes()));
        }
        self.batch.clear();
        Ok(())
    }
}

fn already_there(at: &At, jid: &str) -> Wrong {
    let what = "is there already: --existing skip leaves it as it is, --existing replace removes it";
    Wrong::File(format!("{at}: {jid} {what}"))
}

/// Random keys that match no password, for all hash functions, so that the offered mechanisms do
/// not change.
fn nobodys(entropy: &mut Entropy) -> std::io::Result<Vec<KeySet>> {
    let salt: [u8; 16] = entropy.fresh()?;
    let set = |kind: HashKind| -> std::io::Result<KeySet> {
        let mut tag = || -> std::io::Result<Tag> { Ok(kind.digest(&[&entropy.fresh::<32>()?])) };
        let keys = ScramKeys { stored: tag()?, server: tag()? };
        Ok(KeySet::new(kind, SCRAM_ITERATIONS_DEFAULT, &salt, keys).expect("within bounds"))
    };
    HashKind::ALL.into_iter().map(set).collect()
}
