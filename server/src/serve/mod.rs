//! Assembles the server: store, threads, listeners, control socket; and shuts it down in the right
//! order.
//!
//! This is the only place that knows all modules of the server. It only builds and connects them.

mod access;
mod account_shown;
mod accounts;
mod acme;
mod addresses;
mod announce;
mod announced;
mod backups;
mod bytestreams;
mod certificate;
mod checks;
mod components;
mod control;
mod cores;
mod disclosure;
mod hashes;
mod inside;
mod invitation_ends;
mod invites;
mod known;
mod limits;
mod meta;
mod names;
mod opened;
mod outside;
mod owners;
mod partitions;
mod portable;
mod push;
mod push_ends;
mod reports;
mod restoring;
mod retention;
mod room;
mod rooms;
mod settings;
mod shipped;
mod shown;
mod stop;
mod supervised;
mod telemetry;
mod trace;
mod traces;
mod turn;
mod uploads;
mod walk;
mod wishes;

use std::io::{ErrorKind, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use throng_engine::counters::Counters;
use throng_engine::id::{ActorKind, Domains, ShardId};
use throng_engine::settings::Settings;
use throng_engine::shard::Shard;
use throng_engine::store::Batch;
use throng_engine::store::floors::Scope;

use crate::admin::socket::{AdminServer, Patience};
use crate::admin::{Accounts, Listening};
use crate::bench;
use crate::bytestreams::{ActivationPort, Activations};
use crate::cli::signals::{Signals, Wish};
use crate::cli::{Access, Arrive, Checked, Failure, Import, Leave, Partitions, Point, Program, Say, StoreReport};
use crate::clock::{self, Clock, Watch};
use crate::config::{Config, DriverChoice, Loaded};
use crate::disk::migrate::Progress;
use crate::disk::{
    self, Committer, DiskError, Engine, Finding, FolderLock, ReadPort, Readers, Still, Store, Submitter, Wake,
};
use crate::driver::{self, Choice, Peer, Preference};
use crate::end;
use crate::extauth::{AskPort, BackEnds};
use crate::jobs::{self, JobPort};
use crate::letters::{LetterRings, letter_rings};
use crate::log::{self, LogHandle};
use crate::orders::{self, OrderPort, Orders};
use crate::portable::Summary;
use crate::record::Recording;
use crate::record::owners::watch;
use crate::service::Manager;
use crate::thread::{Ask, Ending, Entrance, Parts, Thread, Timings, Tuning};
use crate::tls::{Certificates, TlsEntries};
use crate::waits;
use crate::webpush::{self, PushPort, Pushing};
use addresses::{Addresses, cannot_listen};
use known::Known;
use stop::{Stopped, stop};
use wishes::{Wanted, Wishes};

/// Most operators' requests queued for one shard.
const ASKS_MAX: usize = 64;

/// Longest time of one step of a start, as the service manager is told.
const STEP: Duration = Duration::from_secs(120);

/// The program behind the command line.
#[derive(Debug)]
pub struct Throng;

impl Program for Throng {
    fn serve(&self, loaded: Loaded, log: LogHandle, lock: FolderLock) -> Result<(), Failure> {
        serve(&loaded, &lock, log)
    }

    fn accounts(
        &self,
        config: &Config,
        lock: &FolderLock,
        access: Access,
        domain: Option<&str>,
    ) -> Result<Box<dyn Accounts>, Failure> {
        let engine: Arc<dyn Engine> = match access {
            Access::Read => Arc::new(Still::open(lock).map_err(disk_failure)?),
            Access::Change => Store::open_there(lock, &settings::disk_options(config)).map_err(disk_failure)?.engine(),
            Access::Make if domain.is_none() && !Store::is_there(lock) => return Err(settings::no_domain(lock)),
            Access::Make => open(config, lock)?.engine(),
        };
        let domain = match (access, settings::domain(&*engine)?, domain) {
            (Access::Read, own, given) => own.or_else(|| given.map(str::to_owned)),
            (Access::Change | Access::Make, _, Some(given)) => {
                settings::claim_domain(&*engine, given)?;
                Some(given.to_owned())
            }
            (Access::Make, None, None) => return Err(settings::no_domain(lock)),
            (_, own, None) => own,
        };
        // A store without a domain has no accounts.
        let domain = domain.unwrap_or_else(|| config.domain.clone());
        let mut domains = Domains::of_users(&domain);
        config.virtual_hosts.iter().for_each(|other| domains.serve(&other.0, ActorKind::Users));
        config.external_auth.iter().for_each(|back_end| domains.keep_outside(&back_end.domain));
        Ok(Box::new(accounts::AtRest::new(engine, domains, invites::Inviting::of(config))))
    }

    fn check(&self, _: &Config, lock: &FolderLock, say: Say<'_>) -> Result<StoreReport, Failure> {
        let mut progress = told(say, "rows read");
        disk::check::check(lock, &settings::check_value, &mut progress).map(reported).map_err(disk_failure)
    }

    fn verify(&self, from: &Path, say: Say<'_>) -> Result<StoreReport, Failure> {
        let mut progress = told(say, "rows read");
        let found = disk::restore::verify(from, &settings::check_value, &mut progress).map_err(disk_failure)?;
        let (files, bytes) = (found.files, found.bytes);
        let contents = if found.older.is_none() { ", what each row holds," } else { "" };
        let mut report = reported(found);
        report.counts.extend([("files".into(), files), ("bytes".into(), bytes)]);
        report.notes.push(format!("read: every file's and every row's checksum{contents} and the number of rows"));
        Ok(report)
    }

    fn salvage(&self, config: &Config, lock: &FolderLock, into: &Path, say: Say<'_>) -> Result<StoreReport, Failure> {
        let options = settings::disk_options(config);
        // The last numbers of some nodes may be lost.
        let raise = |engine: &Rows| raise_node_floors(engine, UNIX_EPOCH);
        let salvaged = disk::salvage::salvage(lock, into, &options, Some(&raise), &mut told(say, "rows brought out"))
            .map_err(disk_failure)?;
        let counts = vec![("rows".into(), salvaged.rows), ("doubtful rows".into(), salvaged.doubtful)];
        let doubt = format!(
            "{} rows are in ranges where newer rows may be lost: they may be outdated or deleted \
             rows",
            salvaged.doubtful
        );
        let notes = if salvaged.doubtful > 0 { vec![doubt] } else { Vec::new() };
        let wrong = salvaged.lost.iter().map(Finding::to_string).collect();
        Ok(StoreReport { counts, wrong, damage: salvaged.lost.iter().map(damage).collect(), notes })
    }

    fn backup(&self, _: &Config, lock: &FolderLock, to: &Path, say: Say<'_>) -> Result<StoreReport, Failure> {
        let still = Still::open(lock).map_err(disk_failure)?;
        let rows = disk::backup::backup(&still, to, &mut told(say, "rows copied")).map_err(disk_failure)?;
        Ok(StoreReport { counts: vec![("rows".into(), rows)], ..StoreReport::default() })
    }

    fn restore(&self, lock: &FolderLock, from: &Path, say: Say<'_>) -> Result<StoreReport, Failure> {
        // Publications after the backup are unknown.
        let made = disk::restore::made(from).map_err(disk_failure)?;
        let raise = |engine: &Rows| raise_node_floors(engine, made);
        let bytes = disk::restore::restore(from, lock, Some(&raise), &mut told(say, "bytes copied"));
        let bytes = bytes.map_err(disk_failure)?;
        Ok(StoreReport { counts: vec![("bytes".into(), bytes)], ..StoreReport::default() })
    }

    fn restore_point(
        &self,
        config: &Config,
        lock: &FolderLock,
        from: &Point,
        say: Say<'_>,
    ) -> Result<StoreReport, Failure> {
        shipped::restore(config, lock, from, false, say).map(|(report, _)| report)
    }

    fn drill(&self, config: &Config, from: &Point, scratch: &Path, say: Say<'_>) -> Result<StoreReport, Failure> {
        shipped::drill(config, from, scratch, say)
    }

    fn partitions(&self, _: &Config, lock: &FolderLock, say: Say<'_>) -> Result<Partitions, Failure> {
        let still = Still::open(lock).map_err(disk_failure)?;
        partitions::count(&still, &mut told(say, "rows read"))
    }

    fn export(
        &self,
        _: &Config,
        lock: &FolderLock,
        which: &[u16],
        to: &Path,
        say: Say<'_>,
    ) -> Result<StoreReport, Failure> {
        let still = Still::open(lock).map_err(disk_failure)?;
        partitions::export_to(&still, which, to, &mut told(say, "rows written"))
    }

    fn import(
        &self,
        config: &Config,
        lock: &FolderLock,
        import: Import<'_>,
        say: Say<'_>,
    ) -> Result<StoreReport, Failure> {
        if let Import::Abandon = import {
            Store::must_be_there(lock).map_err(disk_failure)?;
        }
        let store = Store::open_to_import(lock, &settings::disk_options(config)).map_err(disk_failure)?;
        match import {
            Import::File { from, replace } => {
                partitions::import_from(&store, from, replace, &mut told(say, "rows written"))
            }
            Import::Abandon => {
                let dropped = disk::import::abandon(&store).map_err(disk_failure)?;
                let counts = vec![("partitions".into(), dropped.len() as u64)];
                Ok(StoreReport { counts, ..StoreReport::default() })
            }
        }
    }

    fn leave(&self, config: &Config, lock: &FolderLock, leave: &Leave<'_>, say: Say<'_>) -> Result<Summary, Failure> {
        portable::leave(config, lock, leave, say)
    }

    fn arrive(
        &self,
        config: &Config,
        lock: Option<&FolderLock>,
        arrive: &Arrive<'_>,
        say: Say<'_>,
    ) -> Result<(Summary, Result<(), Failure>), Failure> {
        portable::arrive(config, lock, arrive, say)
    }

    fn leave_rooms(
        &self,
        config: &Config,
        lock: &FolderLock,
        to: &Path,
        only: &[String],
        say: Say<'_>,
    ) -> Result<Summary, Failure> {
        portable::leave_rooms(config, lock, to, only, say)
    }

    fn arrive_rooms(
        &self,
        config: &Config,
        lock: &FolderLock,
        from: &Path,
        dry_run: bool,
        say: Say<'_>,
    ) -> Result<(Summary, Result<(), Failure>), Failure> {
        portable::arrive_rooms(config, lock, from, dry_run, say)
    }

    fn migrate(&self, config: &Config, lock: &FolderLock, say: Say<'_>) -> Result<StoreReport, Failure> {
        Store::must_be_there(lock).map_err(disk_failure)?;
        migrate(&settings::disk_options(config), lock, say)?.close();
        let notes = vec![format!("the store has format {}", disk::format::FORMAT_VERSION)];
        Ok(StoreReport { notes, ..StoreReport::default() })
    }

    fn look(&self, config: &Config) -> Checked {
        checks::all(config)
    }

    fn bench(&self, plan: &bench::Plan, say: Say<'_>) -> Result<serde_json::Value, Failure> {
        bench::run(plan, self, say).map_err(Failure::failed)
    }
}

fn open(config: &Config, lock: &FolderLock) -> Result<Store, Failure> {
    Store::open(lock, &settings::disk_options(config)).map_err(disk_failure)
}

/// Makes all nodes of a store skip the numbers that they may have given by now, or by a time later
/// than the clock.
fn raise_node_floors(engine: &Rows, not_before: SystemTime) -> Result<(), DiskError> {
    let unix_s = SystemTime::now().max(not_before).duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut batch = Batch::new();
    settings::raise_node_floors(engine, [Scope::Store], unix_s, &mut batch)?;
    engine.commit(&[batch])
}

/// Opens the store; one of an earlier format is converted first, with progress once per second.
fn migrate(options: &disk::Options, lock: &FolderLock, say: Say<'_>) -> Result<Store, Failure> {
    let mut last: Option<(Instant, u32)> = None;
    let store = Store::migrate(lock, options, &mut |progress| {
        let Progress { from, to, what, permille, rows } = *progress;
        if last.is_none_or(|(told, of)| of != from || told.elapsed() > Duration::from_secs(1)) {
            last = Some((Instant::now(), from));
            let (percent, tenth) = (permille / 10, permille % 10);
            say(&format!(
                "changing the store from format {from} to {to} ({what}): {percent}.{tenth} % done, {rows} rows"
            ));
        }
    });
    let store = store.map_err(disk_failure)?;
    if last.is_some() {
        say(&format!("the store has format {} now", disk::format::FORMAT_VERSION));
    }
    Ok(store)
}

/// Reports progress once per second.
fn told(say: Say<'_>, done: &'static str) -> impl FnMut(u64) {
    let mut last = Instant::now();
    move |count| {
        if last.elapsed() > Duration::from_secs(1) {
            last = Instant::now();
            say(&format!("{count} {done}"));
        }
    }
}

/// The result of a check, for the operator.
fn reported(found: disk::check::Report) -> StoreReport {
    let counts = found.tables.iter().map(|t| (format!("rows in {:?}", t.table).to_lowercase(), t.rows)).collect();
    let unlisted = |path: &PathBuf| format!("not part of the store, left unchanged: {}", path.display());
    let older = found.older.map(|format| {
        format!(
            "its rows have format {format}: what they hold is checked only after `throng store migrate`, or a start of \
             the server, has changed them to format {}",
            disk::format::FORMAT_VERSION
        )
    });
    let notes = found.unlisted.iter().map(unlisted).chain(older).collect();
    let mut wrong: Vec<String> = found.findings.iter().map(Finding::to_string).collect();
    wrong.extend(found.first_problems);
    StoreReport { counts, wrong, damage: found.findings.iter().map(damage).collect(), notes }
}

/// A damage as JSON.
fn damage(finding: &Finding) -> serde_json::Value {
    serde_json::json!({
        "file": finding.file,
        "at": finding.at,
        "bytes": finding.bytes,
        "what": finding.what,
        "users": finding.users,
        "more_users": finding.more_users,
        "may_be_torn": finding.may_be_torn,
    })
}

fn disk_failure(error: DiskError) -> Failure {
    Failure::failed(error)
}

/// Creates a shard's driver, on its thread.
type Network = Arc<dyn Fn(usize) -> std::io::Result<Choice> + Send + Sync>;

/// Sent by a shard's thread once its driver exists.
struct Ready {
    peer: Peer,
    kind: driver::Kind,
    fallback: Option<String>,
    connections_max: u32,
}

/// What a shard's thread receives then.
struct Rest {
    shard: Shard,
    submitter: Submitter,
    reads: ReadPort,
    jobs: JobPort,
    outside: AskPort,
    pushes: PushPort,
    orders: OrderPort,
    activations: ActivationPort,
    letters: LetterRings,
    peers: Vec<Peer>,
    tls: Option<TlsEntries>,
    more_room: Arc<str>,
    asks: Receiver<Ask>,
    tuning: Tuning,
    sockets: Vec<(TcpListener, driver::ListenerTag)>,
    entrances: Vec<Entrance>,
    clock: Clock,
    ending: Arc<Ending>,
    timings: Arc<Timings>,
}

fn spawn(
    index: usize,
    core: Option<usize>,
    network: Network,
    ready: SyncSender<Result<Ready, String>>,
    rest: Receiver<Rest>,
) -> std::io::Result<JoinHandle<std::io::Result<()>>> {
    let name = format!("shard-{index}");
    std::thread::Builder::new().name(name.clone()).spawn(move || {
        waits::in_short_slices();
        core.into_iter().for_each(cores::stay_on);
        let choice = match network(index) {
            Ok(choice) => choice,
            Err(error) => {
                let _ = ready.send(Err(error.to_string()));
                return Ok(());
            }
        };
        let mut driver = choice.driver;
        let (peer, kind, connections_max) = (driver.peer(), driver.kind(), driver.connections_max());
        let told = Ready { peer, kind, fallback: choice.fallback, connections_max };
        if ready.send(Ok(told)).is_err() {
            return Ok(());
        }
        let Ok(rest) = rest.recv() else { return Ok(()) };
        for (socket, tag) in rest.sockets {
            driver.listen(socket, tag)?;
        }
        let parts = Parts {
            shard: rest.shard,
            driver,
            submitter: rest.submitter,
            reads: rest.reads,
            jobs: rest.jobs,
            outside: rest.outside,
            pushes: rest.pushes,
            orders: rest.orders,
            activations: rest.activations,
            letters: rest.letters,
            peers: rest.peers,
            listeners: rest.entrances,
            tls: rest.tls,
            more_room: rest.more_room,
            asks: rest.asks,
            tuning: rest.tuning,
            clock: rest.clock,
            ending: rest.ending,
            timings: rest.timings,
        };
        let _on_the_list = waits::enter_turning(&name);
        let ended = Thread::new(parts).run();
        if let Err(error) = &ended {
            let code = end::PANICKED;
            let text = format!(
                "the network of {name} has failed: {error}. The process exits with code {code}; \
                 restart it"
            );
            end::at_once(code, &text);
        }
        ended
    })
}

/// What a server has from its process.
struct Process {
    wishes: Arc<Wishes>,
    log: LogHandle,
    manager: Arc<Manager>,
    addresses: Addresses,
}

/// A running server.
struct Server {
    threads: Vec<JoinHandle<std::io::Result<()>>>,
    readers: Readers,
    committer: Committer,
    store: Store,
    ending: Arc<Ending>,
    peers: Vec<Peer>,
    counters: Vec<Arc<Counters>>,
    known: Known,
    /// Orders of administrators, until the thread that carries them out starts.
    orders: Option<Orders>,
    /// Bytestreams activated by users, until the proxy starts.
    activations: Option<Activations>,
    /// External user back ends; dropped once the threads have ended.
    back_ends: BackEnds,
    /// Push services; dropped once the threads have ended.
    pushing: Pushing,
}

fn serve(loaded: &Loaded, lock: &FolderLock, log: LogHandle) -> Result<(), Failure> {
    end::with_any_panic();
    #[cfg(debug_assertions)]
    let planted = crate::plant::start().map_err(Failure::failed)?;
    throng_sys::keep_no_free_pages();
    let (addresses, manager) = (Addresses::of(loaded, supervised::sockets()?)?, supervised::manager()?);
    let _on_the_list = waits::enter("main");
    let config = &loaded.config;
    // With pages of 2 MiB, a start takes at least three times its memory, and the memory per
    // session can no longer be determined (docs/decisions/0006-memory.md). A kernel that refuses
    // this has no such pages.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let wishes = Arc::new(Wishes::default());
    wishes.set_times(config.shutdown_grace_seconds, config.shutdown_hard_seconds);
    let signalled = wishes.clone();
    let _signals = Signals::start(move |wish| {
        #[cfg(debug_assertions)]
        crate::plant::pass("signals");
        match wish {
            Wish::Stop => {
                signalled.stop(None);
            }
            Wish::StopNow => end::at_once(end::CUT, "stopped at once by a second signal. Nothing acknowledged is lost"),
            Wish::Reload => signalled.reload(),
        }
    })
    .map_err(Failure::failed)?;
    if let Some(failure) = Failure::of_all(checks::refused(config)) {
        return Err(failure);
    }
    for fault in checks::exposed(config) {
        tracing::error!("{fault}");
    }
    let certificates = certificate::load(config)?;
    if let Some(certificates) = &certificates {
        certificate::warn(certificates, config);
    }
    let before = opened::before(lock);
    let backup = shipped::open(loaded)?;
    let options =
        disk::Options { shipping: backup.as_ref().map(shipped::Opened::shipping), ..settings::disk_options(config) };
    manager.starting("opening the store", STEP);
    let store = migrate(&options, lock, &mut |line| {
        tracing::info!("{line}");
        manager.starting(line, STEP);
    })?;
    let opened = opened::look(before, lock, &store);
    for sentence in opened.sentences() {
        tracing::info!(folder = %config.data.display(), "{sentence}");
    }
    let engine = store.engine();
    let uploads = uploads::open(loaded, &*engine, &addresses)?;
    let bytestreams = bytestreams::open(loaded, &addresses)?;
    let services = settings::Given {
        upload: uploads.as_ref().map(|uploads| uploads.given.clone()),
        bytestreams: bytestreams.as_ref().map(|bytestreams| bytestreams.given.clone()),
        push: None,
    };
    let process = Process { wishes: wishes.clone(), log, manager: manager.clone(), addresses };
    let (mut server, running) = start(loaded, store, certificates.as_ref(), &process, &sockets(config), services)?;
    let start_uploads = |opened: uploads::Opened| {
        let counters = running.uploads.get_or_init(Arc::default).clone();
        opened.start(config, engine.clone(), certificates.as_ref(), counters, running.links.clock.clock())
    };
    let uploads = uploads.map(start_uploads).transpose()?;
    // Dropped without a proxy: no activations are made then.
    let bytestreams = match (bytestreams, server.activations.take()) {
        (Some(opened), Some(activations)) => {
            Some(opened.start(config, activations, running.bytestreams.get_or_init(Arc::default).clone())?)
        }
        _ => None,
    };
    let backup = backup.map(|opened| opened.start(engine.clone())).transpose()?;
    let backup = backup.map(|(backup, shown)| {
        let _ = running.backup.set(shown);
        backup
    });
    let running = Arc::new(running);
    if let Some(orders) = server.orders.take() {
        let control = running.clone();
        orders.start(move |order| crate::admin::users::carry_out(&*control, order)).map_err(Failure::failed)?;
    }
    let folder = config.data.join("recorder");
    let clock = running.links.clock.clone();
    let recording = config
        .recorder
        .then(|| Recording::start(&folder, config.recorder_bytes_max, server.known.for_recorder(), clock.clock()));
    let recording = recording.transpose().map_err(Failure::failed)?;
    let marks = recording.as_ref().map(|recording| recording.handle().clone());
    let owners = Arc::new(owners::Asking(running.clone()));
    let watch = watch(&server.counters, owners, marks, running.owed.clone()).map_err(Failure::failed)?;
    #[cfg(debug_assertions)]
    running.clone().plant(planted).map_err(Failure::failed)?;
    let clock = clock::watch(clock).map_err(Failure::failed)?;
    let restoring = restoring::start(engine.clone(), running.clone()).map_err(Failure::failed)?;
    let registrations = config.notify_push.then(|| push_ends::start(engine.clone(), running.clone()));
    let registrations = registrations.transpose().map_err(Failure::failed)?;
    let invitations = invitation_ends::start(engine.clone(), running.clone()).map_err(Failure::failed)?;
    let retention = retention::start(engine, running.clone()).map_err(Failure::failed)?;
    if let Some(recording) = &recording {
        let track = recording.handle().clone();
        running.tell_events(move |event| track.mark(event.at_s * 1_000, event.what.kind(), &event.what.to_string()));
    }
    let control: Arc<dyn crate::admin::Control> = running.clone();
    let admin = AdminServer::start(&config.admin_socket_path(), control, Patience::default())
        .map_err(|error| Failure::failed(format!("the control socket: {error}")))?;
    let history = recording
        .as_ref()
        .map(|recording| crate::http::History { recent: recording.handle().clone(), folder: folder.clone() });
    let http = telemetry::start(loaded, &running, history, &process.addresses)?;
    let acme = acme::open(config, certificates.as_ref(), &running, &process.addresses)?;
    // The starting process may have closed it.
    let welcome = crate::cli::serve::welcome(loaded, &opened, running.listening());
    let _ = log::standard_output().write_all(welcome.as_bytes());
    tracing::info!(shards = running.shards(), driver = running.driver(), domain = %config.domain, "serving");
    manager.ready(&supervised::line(&crate::admin::Control::status(&*running), std::iter::empty()));
    let supervised = supervised::start(manager.clone(), running.clone()).map_err(Failure::failed)?;
    let grace = obey(&running, &wishes).unwrap_or_else(|| wishes.grace());
    drop(supervised);
    manager.stopping("stopping", wishes.most(grace));
    tracing::info!(grace_s = grace.as_secs(), "stopping");
    running.begin_stop();
    // Shards answer it until they stop.
    drop(acme);
    running.end_all_traces();
    let cut = match stop(server, grace, wishes.hard())? {
        Stopped::Whole { cut } => cut,
        Stopped::Cut(left) => end::at_once(end::CUT, &left),
    };
    // Everything is durable: the rest of the journal goes to the backup.
    drop(backup);
    wishes.closed();
    // Requests to a shard now fail at once.
    drop((watch, registrations, invitations, retention, restoring, clock));
    drop((http, uploads, bytestreams));
    drop(recording);
    drop(admin);
    match cut {
        0 => tracing::info!("stopped: everything was completed"),
        cut => {
            tracing::warn!(
                cut,
                "stopped: this many connections did not close in time and were cut; everything \
                 else was completed"
            )
        }
    }
    Ok(())
}

/// Carries out requests to the serving thread, reverts knobs whose time is over and ends abandoned
/// traces, until the server is to stop. Returns the grace, if one was given.
fn obey(running: &control::Running, wishes: &Arc<Wishes>) -> Option<Duration> {
    loop {
        let next = [running.put_back_knobs(), running.end_abandoned_traces()];
        let wanted = wishes.next(next.into_iter().flatten().min());
        #[cfg(debug_assertions)]
        crate::plant::pass("main");
        match wanted {
            Some(Wanted::Stop(wished)) => return wished,
            Some(Wanted::Reload) => match crate::admin::Control::reload(running) {
                Ok(done) => {
                    tracing::info!(applied = ?done.applied, waiting = ?done.waiting, overridden = ?done.overridden, "reloaded");
                }
                Err(fault) => tracing::error!(%fault, "not reloaded"),
            },
            Some(Wanted::Look) | None => {}
        }
    }
}

/// The socket network that the operator has chosen.
fn sockets(config: &Config) -> Network {
    let preference = match config.driver {
        DriverChoice::Auto => Preference::Auto,
        DriverChoice::Uring => Preference::Uring,
        DriverChoice::Epoll => Preference::Epoll,
    };
    let settings = settings::driver_settings(config, config.shard_count(), settings::raise_descriptor_limit());
    Arc::new(move |_| driver::choose(preference, &settings))
}

fn start(
    loaded: &Loaded,
    store: Store,
    certificates: Option<&Arc<Certificates>>,
    process: &Process,
    network: &Network,
    services: settings::Given,
) -> Result<(Server, control::Running), Failure> {
    let config = &loaded.config;
    let engine = store.engine();
    let (cores, shards) = (cores::count(), config.shard_count());
    let own_cores = cores::of_shards(shards).filter(|_| config.shards_on_cores);
    let pushes = push::settings(config)?;
    let services = settings::Given { push: pushes.as_ref().map(|pushes| pushes.vapid.key()), ..services };
    let settings = Arc::new(settings::engine_settings(config, shards, &*engine, services)?);

    // Drivers first: everything else uses them for wake-ups.
    let (mut threads, mut rests, mut readies) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..usize::from(shards) {
        let (ready_in, ready) = sync_channel(1);
        let (rest_in, rest) = sync_channel(1);
        let core = own_cores.as_ref().map(|cores| cores[index]);
        let thread = spawn(index, core, network.clone(), ready_in, rest);
        threads.push(thread.map_err(Failure::failed)?);
        rests.push(rest_in);
        let ready = ready.recv().map_err(|_| Failure::failed("a shard's thread ended at once"))?;
        readies.push(ready.map_err(Failure::failed)?);
    }
    if let Some(why) = &readies[0].fallback {
        tracing::info!("epoll is used: {why}");
    }
    let driver_kind = readies[0].kind;
    let descriptors = settings::descriptor_limit();
    let room_for = readies.iter().map(|ready| u64::from(ready.connections_max)).sum();
    if let Some(few) = room::few(config, driver_kind, shards, descriptors, room_for) {
        tracing::warn!("{few}");
    }
    let more_room: Arc<str> = room::remedy(config, driver_kind, shards, descriptors).into();
    let peers: Vec<Peer> = readies.into_iter().map(|r| r.peer).collect();

    // The store's threads.
    let options = settings::disk_options(config);
    let wakes: Vec<Arc<dyn Wake>> = peers
        .iter()
        .map(|peer| {
            let peer = peer.clone();
            Arc::new(move || peer.wake()) as Arc<dyn Wake>
        })
        .collect();
    let sleepers = Readers::sleepers(&options);
    let all_wakes = wakes.iter().cloned().chain(sleepers.iter().map(|s| s.clone() as Arc<dyn Wake>)).collect();
    let fatal = disk::commit::stop_process();
    let folder = Some(store.folder().to_owned());
    let (committer, submitters) =
        Committer::start(engine.clone(), folder, usize::from(shards), all_wakes, &options, fatal.clone())
            .map_err(disk_failure)?;
    let (readers, ports) =
        Readers::start(&engine, &committer, sleepers, usize::from(shards), &options, &fatal).map_err(disk_failure)?;
    let job_ports = jobs::start(cores, &wakes).map_err(Failure::failed)?;
    let (order_ports, orders) = orders::ports(&wakes);
    let (activation_ports, activations) = crate::bytestreams::ports(&wakes);
    let (outside_ports, back_ends) = outside::start(config, &wakes)?;
    let (push_ports, pushing) = webpush::start(pushes, &wakes).map_err(Failure::failed)?;

    // Listeners, one socket per shard each.
    let (mut entrances, mut listening) = (Vec::new(), Vec::new());
    let mut sockets: Vec<Vec<(TcpListener, driver::ListenerTag)>> = (0..shards).map(|_| Vec::new()).collect();
    for listener in &loaded.listeners() {
        let opened = process.addresses.of_shards(listener.address, usize::from(shards), config.backlog as u32);
        let opened = match opened {
            Ok(opened) => opened,
            // An address in use must not be skipped: clients would connect to another program's
            // server.
            Err(error) if !listener.must && error.kind() != ErrorKind::AddrInUse => {
                tracing::warn!(address = %listener.address, %error, "skipping a default address");
                continue;
            }
            Err(error) => return Err(cannot_listen(listener.address, listener.key, &error)),
        };
        let address = opened[0].local_addr().map_err(Failure::failed)?;
        let tag =
            driver::ListenerTag(u8::try_from(entrances.len()).map_err(|_| Failure::failed("too many listeners"))?);
        entrances.push(settings::entrance(config, listener, address, certificates.is_some()));
        listening.push(Listening {
            address: address.to_string(),
            direct_tls: listener.direct_tls,
            proxied: listener.proxied,
            component: listener.component,
            http: listener.http,
        });
        for (shard, socket) in opened.into_iter().enumerate() {
            sockets[shard].push((socket, tag));
        }
    }
    if listening.is_empty() {
        return Err(Failure::failed("there is no address to listen on"));
    }

    let (watch, ending) = (Arc::new(Watch::open(&config.data)), Arc::new(Ending::new(usize::from(shards))));
    let clock = watch.clock();
    let (mut counters, mut asks) = (Vec::new(), Vec::new());
    let timings: Vec<Arc<Timings>> = (0..shards).map(|_| Arc::default()).collect();
    let rings = letter_rings(shards, config.letter_ring_slots as usize);
    let traffic = rings.first().map(|own| own.traffic().clone());
    let parts =
        submitters.into_iter().zip(ports).zip(job_ports).zip(order_ports).zip(activation_ports).zip(outside_ports);
    let parts = parts.zip(push_ports).zip(rings).zip(sockets).zip(rests).enumerate();
    for (
        index,
        (((((((((submitter, reads), jobs), orders), activations), outside), pushes), letters), sockets), rest),
    ) in parts
    {
        let own = Arc::new(Counters::default());
        counters.push(own.clone());
        let (ask_in, ask) = sync_channel(ASKS_MAX);
        asks.push(ask_in);
        let shard = Shard::new(ShardId(index as u16), settings.clone(), own, settings::entropy()?);
        let given = Rest {
            shard,
            submitter,
            reads,
            jobs,
            outside,
            pushes,
            orders,
            activations,
            letters,
            peers: peers.clone(),
            tls: certificates.map(TlsEntries::of),
            more_room: more_room.clone(),
            asks: ask,
            tuning: settings::thread_tuning(config),
            sockets,
            entrances: entrances.clone(),
            clock,
            ending: ending.clone(),
            timings: timings[index].clone(),
        };
        rest.send(given).map_err(|_| Failure::failed("a shard's thread has ended"))?;
    }
    engine.tune(&settings::disk_tuning(config));
    let known = Known {
        counters: counters.clone(),
        timings,
        traffic: traffic.ok_or_else(|| Failure::failed("there is no shard"))?,
        engine: engine.clone(),
        reads: readers.counters().to_vec(),
    };
    let running = control::Running::new(control::Links {
        loaded: loaded.clone(),
        log: process.log.clone(),
        settings: settings.clone(),
        engine: engine.clone(),
        committer: committer.tuner(),
        certificates: certificates.cloned(),
        peers: peers.clone(),
        asks,
        known: known.clone(),
        listening,
        driver: driver_kind.to_string(),
        more_room,
        wishes: process.wishes.clone(),
        clock: watch,
        manager: process.manager.clone(),
        back_ends: back_ends.standings().to_vec(),
        push_services: pushing.standings().to_vec(),
    });
    let (orders, activations) = (Some(orders), Some(activations));
    let server = Server {
        threads,
        readers,
        committer,
        store,
        ending,
        peers,
        counters,
        known,
        orders,
        activations,
        back_ends,
        pushing,
    };
    Ok((server, running))
}

/// An alias for the engine's trait in this module.
type Rows = dyn Engine;

/// An alias for the settings' type in this module.
type Shared = Arc<Settings>;
