//! The continuous backup: its settings, its start, and the way back.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use super::{disk_failure, raise_node_floors, reported, settings, told};
use crate::admin::BackupStanding;
use crate::backup::restore::Restoring;
use crate::backup::seal::Seal;
use crate::backup::{self, Backup, Bucket, Paths, Plan, RESTORED, S3Options, Standing};
use crate::cli::{Exit, Failure, Point, Say, StoreReport};
use crate::config::{Config, Kind, Loaded, TABLE};
use crate::disk::shipping::Shipping;
use crate::disk::{self, Engine, FolderLock};
use crate::upload::FOLDER as UPLOADS;

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
pub(super) fn open(loaded: &Loaded) -> Result<Option<Opened>, Failure> {
    let config = &loaded.config;
    if config.backup_to.is_empty() {
        return Ok(None);
    }
    let plan = Plan {
        bucket: bucket(config, &config.backup_to, true).map_err(|what| wrong("backup_to", &what))?,
        folder: config.data.clone(),
        files: has_uploads(config).then(|| config.data.join(UPLOADS)),
        settings: paths(loaded),
        full_every: config.backup_full_seconds,
        keep: config.backup_keep_seconds,
        journal_bytes_max: config.backup_journal_bytes_max,
        free_bytes_min: config.free_bytes_min,
    };
    if !plan.bucket.encrypts() {
        tracing::warn!(
            "configuration, certificates and keys are not in the backup, because it is not encrypted: set backup_key"
        );
    }
    Ok(Some(Opened { plan, shipping: Shipping::new() }))
}

fn has_uploads(config: &Config) -> bool {
    !config.upload.is_empty() || !config.upload_proxied.is_empty()
}

/// Configuration, certificates and keys: what is in the data folder, the file of the options, and
/// the files that options name, except those by which the backup is read.
fn paths(loaded: &Loaded) -> Paths {
    let values = loaded.config.shown();
    let named = TABLE.iter().zip(&values).filter(|(row, value)| {
        row.kind == Kind::PathOrNone
            && !value.is_empty()
            && !matches!(row.key, "backup_key" | "backup_credentials" | "admin_socket")
    });
    let named = named.map(|(_, value)| PathBuf::from(value));
    let secrets = loaded.config.components.iter().map(|component| component.secret.clone());
    let outside = loaded.file.iter().cloned().chain(named).chain(secrets);
    let data = std::path::absolute(&loaded.config.data).unwrap_or_else(|_| loaded.config.data.clone());
    let outside = outside.filter(|path| std::path::absolute(path).is_ok_and(|path| !path.starts_with(&data)));
    let inside = ["throng.toml", "acme", "tls", "push.key", "http.token"].map(PathBuf::from).to_vec();
    Paths { inside, outside: outside.collect() }
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
    let options =
        S3Options { endpoint: config.backup_endpoint.clone(), credentials: config.backup_credentials.clone() };
    Bucket::open(url, &options, seal, make)
}

fn wrong(what: &str, why: &str) -> Failure {
    Failure::new(Exit::Usage, format!("{what}: {why}"))
}

/// Restores a point in time into a locked folder. A drill reads uploaded files and settings, but
/// does not write them.
pub(super) fn restore(
    config: &Config,
    lock: &FolderLock,
    from: &Point,
    drill: bool,
    say: Say<'_>,
) -> Result<(StoreReport, u64), Failure> {
    let bucket = bucket(config, &from.url, false).map_err(|what| wrong("--from", &what))?;
    let mut restoring = Restoring::find(bucket, from.at_ms).map_err(Failure::failed)?;
    // Publications until now are unknown.
    let raise = |engine: &(dyn Engine + 'static)| raise_node_floors(engine, UNIX_EPOCH);
    let rebuilt = disk::restore::rebuild(&mut restoring, lock, &raise, &mut told(say, "rows written"));
    let (rows, commits) = rebuilt.map_err(disk_failure)?;
    backup::adopt(lock.folder(), restoring.store()).map_err(Failure::failed)?;
    let mut notes = vec![format!("the store is that of {}", backup::shown(restoring.time_ms()))];
    let folder = Some(lock.folder()).filter(|_| !drill);
    let files = restoring.files(folder.map(|folder| folder.join(UPLOADS)).as_deref()).map_err(Failure::failed)?;
    let settings = restoring.settings(folder).map_err(Failure::failed)?;
    match (&settings.time, folder) {
        (Some(time), Some(folder)) => notes.push(format!(
            "configuration, certificates and keys are those of {time}; what was outside of the data folder is in {}: \
             compare it, and put it back",
            folder.join(RESTORED).display()
        )),
        (Some(time), None) => notes.push(format!("configuration, certificates and keys are those of {time}")),
        (None, _) => notes.push("configuration, certificates and keys are not in this backup".to_owned()),
    }
    let counts = [("rows", rows), ("commits", commits), ("uploaded files", files.files), ("settings", settings.files)];
    let counts = counts.map(|(name, count)| (name.to_owned(), count)).to_vec();
    Ok((StoreReport { counts, notes, wrong: files.wrong, ..StoreReport::default() }, restoring.time_ms()))
}

/// Restores into a folder that is removed afterwards, and checks the store in it.
pub(super) fn drill(config: &Config, from: &Point, scratch: &Path, say: Say<'_>) -> Result<StoreReport, Failure> {
    let folder = Scratch(scratch.join(format!("throng-drill-{}", std::process::id())));
    let taken = FolderLock::take(&folder.0, "drill");
    let lock = taken.map_err(|error| Failure::failed(format!("{}: {error:?}", folder.0.display())))?;
    let (mut report, time_ms) = restore(config, &lock, from, true, say)?;
    let checked = disk::check::check(&lock, &settings::check_value, &mut told(say, "rows read"));
    let checked = reported(checked.map_err(disk_failure)?);
    let age = UNIX_EPOCH.elapsed().unwrap_or_default().saturating_sub(Duration::from_millis(time_ms));
    report.counts.push(("age_s".into(), age.as_secs()));
    report.counts.extend(checked.counts);
    report.notes.extend(checked.notes);
    report.wrong.extend(checked.wrong);
    Ok(StoreReport { damage: checked.damage, ..report })
}

/// A folder that is removed when this is dropped.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(folder = %self.0.display(), %error, "the scratch folder was not removed");
        }
    }
}
