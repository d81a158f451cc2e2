//! Import and export of accounts and rooms by files, for a store at rest.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use throng_engine::id::{ActorKind, Domains};
use throng_engine::store::Batch;
use throng_engine::wire::jid::Jid;

use super::{Rows, disclosure, disk_failure, open, settings};
use crate::cli::{Arrive, Failure, Leave, Say};
use crate::config::Config;
use crate::disk::{Engine, FolderLock, Still, Store};
use crate::portable::{self, Export, Import, Layout, Summary, Wrong, rooms};

fn failure(wrong: Wrong) -> Failure {
    match wrong {
        Wrong::File(text) => Failure::failed(text),
        Wrong::Store(error) => disk_failure(error),
    }
}

fn now_us() -> u64 {
    throng_recorder::clock::wall_us()
}

/// Reports the number of finished accounts once per second.
fn progress(say: Say<'_>) -> impl FnMut(&Summary) {
    let (began, mut last) = (Instant::now(), Instant::now());
    move |summary| {
        if last.elapsed() > Duration::from_secs(1) {
            last = Instant::now();
            let (users, there) = (summary.users + summary.there + summary.left, summary.there);
            let rate = users as f64 / began.elapsed().as_secs_f64();
            let megabytes = summary.bytes >> 20;
            say(&format!("{users} users, {there} of them there already, {megabytes} MiB, {rate:.0} users/s"));
        }
    }
}

/// The domains with accounts.
fn served(main: &str, config: &Config) -> Domains {
    let mut domains = Domains::of_users(main);
    config.virtual_hosts.iter().for_each(|other| domains.serve(&other.0, ActorKind::Users));
    domains
}

/// Runs `throng export`.
pub(super) fn leave(config: &Config, lock: &FolderLock, leave: &Leave<'_>, say: Say<'_>) -> Result<Summary, Failure> {
    let store = Store::open_there(lock, &settings::disk_options(config)).map_err(disk_failure)?;
    let engine = store.engine();
    let own = settings::domain(&*engine)?;
    let main = own.as_deref().unwrap_or(&config.domain);
    let plan = Export {
        engine: &*engine,
        served: &served(main, config),
        layout: leave.layout,
        domains: &leave.domains,
        user: None,
        archive: leave.archive,
        now_us: now_us(),
    };
    let done = match leave.user {
        Some(user) => disclose(&plan, config, leave.to, user, main),
        None => portable::export(leave.to, &plan, &mut progress(say)).map_err(failure),
    };
    drop(engine);
    store.close();
    done
}

/// Exports one account to a folder, with a summary of what the format cannot express.
fn disclose(plan: &Export<'_>, config: &Config, to: &Path, user: &str, main: &str) -> Result<Summary, Failure> {
    let jid = if user.contains('@') { user.to_owned() } else { format!("{user}@{main}") };
    let jid = Jid::parse(&jid).ok().filter(|jid| jid.local().is_some() && jid.is_bare());
    let jid = jid.ok_or_else(|| Failure::failed(format!("{user} is not the JID of an account")))?;
    let plan = Export { user: Some(jid.as_str()), layout: Layout::File, ..*plan };
    let wrong = |error: std::io::Error| Failure::failed(format!("{}: {error}", to.display()));
    // Before anything is created: is there such an account?
    disclosure::of(plan.engine, &config.data, jid.as_str(), &Summary::default())?;
    DirBuilder::new().mode(0o700).create(to).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::failed(format!("{} already exists: name another folder", to.display())),
        _ => wrong(error),
    })?;
    let write = || -> Result<Summary, Failure> {
        let summary = portable::export(&to.join("account.xml"), &plan, &mut |_| {}).map_err(failure)?;
        let found = disclosure::of(plan.engine, &config.data, jid.as_str(), &summary)?;
        let options = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to.join("account.json"));
        let text = format!("{found:#}\n");
        options.and_then(|mut file| file.write_all(text.as_bytes())).map_err(wrong)?;
        Ok(summary)
    };
    // It is new: nothing of it is anybody else's, and half of an account is no answer.
    write().inspect_err(|_| drop(std::fs::remove_dir_all(to)))
}

/// Runs `throng import`.
pub(super) fn arrive(
    config: &Config,
    lock: Option<&FolderLock>,
    arrive: &Arrive<'_>,
    say: Say<'_>,
) -> Result<(Summary, Result<(), Failure>), Failure> {
    let there = lock.filter(|lock| Store::is_there(lock));
    let store = match (arrive.dry_run, lock) {
        (false, Some(lock)) => {
            if there.is_none() && arrive.domain.is_none() {
                return Err(settings::no_domain(lock));
            }
            Some(open(config, lock)?)
        }
        _ => None,
    };
    let engine: Option<Arc<dyn Engine>> = match (&store, there) {
        (Some(store), _) => Some(store.engine()),
        (None, Some(lock)) => Some(Arc::new(Still::open(lock).map_err(disk_failure)?)),
        (None, None) => None,
    };
    let own = engine.as_deref().map(|engine| domain(engine, arrive)).transpose()?.flatten();
    let main = own.or_else(|| arrive.domain.map(str::to_owned)).unwrap_or_else(|| config.domain.clone());
    let domains = served(&main, config);
    let plan = Import {
        engine: engine.as_deref(),
        domains: &domains,
        rooms: &format!("conference.{main}"),
        format: arrive.format,
        host: arrive.host.unwrap_or(&main),
        existing: arrive.existing,
        dry_run: arrive.dry_run,
        iterations: arrive.iterations,
        threads: arrive.threads,
        number_floor: engine.as_deref().map_or(Ok(0), settings::number_floor)?,
        put_number_floor: &|batch: &mut Batch, floor| settings::put_number_floor(batch, floor),
        now_us: now_us(),
    };
    let (summary, end) = portable::import(arrive.from, &plan, &mut progress(say));
    drop(engine);
    if let Some(store) = store {
        store.close();
    }
    Ok((summary, end.map_err(failure)))
}

/// Reports the number of finished rooms once per second.
fn rooms_done(say: Say<'_>) -> impl FnMut(&Summary) {
    let mut last = Instant::now();
    move |summary| {
        if last.elapsed() > Duration::from_secs(1) {
            last = Instant::now();
            let (rooms, there, users) = (summary.rooms, summary.there, summary.affiliations);
            say(&format!("{rooms} rooms with {users} users, and {there} rooms that were there already"));
        }
    }
}

/// The domain of the service of rooms in a store.
fn service(engine: &Rows, config: &Config) -> Result<(Domains, String), Failure> {
    let own = settings::domain(engine)?.unwrap_or_else(|| config.domain.clone());
    Ok((served(&own, config), format!("conference.{own}")))
}

/// Runs `throng room export`.
pub(super) fn leave_rooms(
    config: &Config,
    lock: &FolderLock,
    to: &Path,
    only: &[String],
    say: Say<'_>,
) -> Result<Summary, Failure> {
    let store = Store::open_there(lock, &settings::disk_options(config)).map_err(disk_failure)?;
    let engine = store.engine();
    let (domains, service) = service(&*engine, config)?;
    let only: Vec<String> =
        only.iter().map(|name| if name.contains('@') { name.clone() } else { format!("{name}@{service}") }).collect();
    let plan =
        rooms::Rooms { engine: Some(&*engine), domains: &domains, service: &service, dry_run: false, now_us: now_us() };
    let done = rooms::export(to, &plan, &only, &mut rooms_done(say)).map_err(failure);
    drop(engine);
    store.close();
    done
}

/// Runs `throng room import`.
pub(super) fn arrive_rooms(
    config: &Config,
    lock: &FolderLock,
    from: &Path,
    dry_run: bool,
    say: Say<'_>,
) -> Result<(Summary, Result<(), Failure>), Failure> {
    let store = Store::open_there(lock, &settings::disk_options(config)).map_err(disk_failure)?;
    let engine = store.engine();
    let (domains, service) = service(&*engine, config)?;
    let plan = rooms::Rooms { engine: Some(&*engine), domains: &domains, service: &service, dry_run, now_us: now_us() };
    let (summary, end) = rooms::import(from, &plan, &mut rooms_done(say));
    drop(engine);
    store.close();
    Ok((summary, end.map_err(failure)))
}

/// The main domain of a store, which is claimed if it has none.
fn domain(engine: &Rows, arrive: &Arrive<'_>) -> Result<Option<String>, Failure> {
    if let (Some(given), false) = (arrive.domain, arrive.dry_run) {
        settings::claim_domain(engine, given)?;
    }
    settings::domain(engine)
}
