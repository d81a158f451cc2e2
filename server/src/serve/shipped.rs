//! The continuous backup: its settings, its start, and the way back.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use super::{disk_failure, raise_node_floors, reported, settings, told};
use crate::admin::BackupStanding;
use crate::backup::restore::Restoring;
use crate::backup::seal::Seal;
use crate::backup::{self, Backup, Bucket, Plan, Standing};
use crate::cli::{Exit, Failure, Point, Say, StoreReport};
use crate::config::Config;
use crate::disk::shipping::Shipping;
use crate::disk::{self, Engine, FolderLock};

/// The backup as the operator sees it.
pub(super) struct Shown {
    to: String,
    encrypted: bool,
    pub(super) standing: Arc<Standing>,
}

impl Shown {
    pub(super) fn status(&self) -> BackupStanding {
        let counters = self.standing.counters();
        BackupStanding {
            to: self.to.clone(),
            encrypted: self.encrypted,
            lag_ms: self.standing.lag_ms(),
            kept_bytes: counters.kept_bytes.get(),
            full_s: self.standing.full_s(),
            trouble: self.standing.trouble().map(|what| (*what).clone()),
        }
    }
}

/// A backup that can be started.
pub(super) struct Opened {
    plan: Plan,
    shipping: Arc<Shipping>,
}

/// The place of the backup, before the store is opened; `None` without one.
pub(super) fn open(config: &Config) -> Result<Option<Opened>, Failure> {
    if config.backup_to.is_empty() {
        return Ok(None);
    }
    let plan = Plan {
        bucket: bucket(config, &config.backup_to, true).map_err(|what| wrong("backup_to", &what))?,
        folder: config.data.clone(),
        full_every: config.backup_full_seconds,
        keep: config.backup_keep_seconds,
        journal_bytes_max: config.backup_journal_bytes_max,
        free_bytes_min: config.free_bytes_min,
    };
    Ok(Some(Opened { plan, shipping: Shipping::new() }))
}

impl Opened {
    /// What the store needs to know of it.
    pub(super) fn shipping(&self) -> Arc<Shipping> {
        self.shipping.clone()
    }

    /// Starts it.
    pub(super) fn start(self, engine: Arc<dyn Engine>) -> Result<(Backup, Shown), Failure> {
        let standing = Arc::<Standing>::default();
        let (to, encrypted) = (self.plan.bucket.url().to_owned(), self.plan.bucket.encrypts());
        let backup = Backup::start(self.plan, engine, self.shipping, standing.clone()).map_err(Failure::failed)?;
        Ok((backup, Shown { to, encrypted, standing }))
    }
}

fn bucket(config: &Config, url: &str, make: bool) -> Result<Bucket, String> {
    let seal = config.backup_key.as_deref().map(Seal::read).transpose()?.unwrap_or_default();
    Bucket::open(url, seal, make)
}

fn wrong(what: &str, why: &str) -> Failure {
    Failure::new(Exit::Usage, format!("{what}: {why}"))
}

/// Restores a point in time into a locked folder.
pub(super) fn restore(
    config: &Config,
    lock: &FolderLock,
    from: &Point,
    say: Say<'_>,
) -> Result<(StoreReport, u64), Failure> {
    let bucket = bucket(config, &from.url, false).map_err(|what| wrong("--from", &what))?;
    let mut restoring = Restoring::find(bucket, from.at_ms).map_err(Failure::failed)?;
    // Publications until now are unknown.
    let raise = |engine: &(dyn Engine + 'static)| raise_node_floors(engine, UNIX_EPOCH);
    let rebuilt = disk::restore::rebuild(&mut restoring, lock, &raise, &mut told(say, "rows written"));
    let (rows, commits) = rebuilt.map_err(disk_failure)?;
    backup::adopt(lock.folder(), restoring.store()).map_err(Failure::failed)?;
    let notes = vec![format!("the store is that of {}", backup::shown(restoring.time_ms()))];
    let counts = vec![("rows".into(), rows), ("commits".into(), commits)];
    Ok((StoreReport { counts, notes, ..StoreReport::default() }, restoring.time_ms()))
}

/// Restores into a folder that is removed afterwards, and checks the store in it.
pub(super) fn drill(config: &Config, from: &Point, scratch: &Path, say: Say<'_>) -> Result<StoreReport, Failure> {
    let folder = Scratch(scratch.join(format!("throng-drill-{}", std::process::id())));
    let taken = FolderLock::take(&folder.0, "drill");
    let lock = taken.map_err(|error| Failure::failed(format!("{}: {error:?}", folder.0.display())))?;
    let (mut report, time_ms) = restore(config, &lock, from, say)?;
    let checked = disk::check::check(&lock, &settings::check_value, &mut told(say, "rows read"));
    let checked = reported(checked.map_err(disk_failure)?);
    let age = UNIX_EPOCH.elapsed().unwrap_or_default().saturating_sub(Duration::from_millis(time_ms));
    report.counts.push(("age_s".into(), age.as_secs()));
    report.counts.extend(checked.counts);
    report.notes.extend(checked.notes);
    Ok(StoreReport { wrong: checked.wrong, damage: checked.damage, ..report })
}

/// A folder that is removed when this is dropped.
struct Scratch(std::path::PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(folder = %self.0.display(), %error, "the scratch folder was not removed");
        }
    }
}
