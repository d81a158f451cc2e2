//! Configuration, certificates and keys: small files that change seldom. They are in encrypted
//! backups only, as one object, written anew when one of them has changed.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use tokio::task::spawn_blocking;
use xxhash_rust::xxh3::xxh3_128;

use super::bucket::Bucket;
use super::pieces::{SETTINGS, put_row, rows_of, settings_name, settings_time_ms};
use super::shared::Shared;
use super::{now_ms, shown};

/// Bytes of all files together.
const BYTES_MAX: usize = 16 << 20;

/// Folders within folders that are looked at.
const DEPTH_MAX: u32 = 4;

/// The folder in a restored data folder with files that were outside of the data folder.
pub const RESTORED: &str = "restored";

/// The files, as a plan names them.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    /// Files and folders in the data folder, by their names.
    pub inside: Vec<PathBuf>,
    /// Files and folders elsewhere.
    pub outside: Vec<PathBuf>,
}

/// The settings that are in the backup.
#[derive(Debug, Default)]
pub(super) struct Known(Option<u128>);

impl Known {
    /// Writes the settings if they have changed, and removes what is too old then.
    ///
    /// # Errors
    /// Why not.
    pub(super) async fn write(&mut self, shared: &Shared) -> Result<(), String> {
        let bucket = &shared.plan.bucket;
        if !bucket.encrypts() {
            return Ok(());
        }
        let (paths, data) = (shared.plan.settings.clone(), shared.plan.folder.clone());
        let read = spawn_blocking(move || read(&paths, &data)).await.map_err(|error| error.to_string())??;
        let hash = xxh3_128(&read);
        if self.0 != Some(hash) {
            bucket.put(&settings_name(now_ms()), read).await?;
            self.0 = Some(hash);
            prune(bucket, shared).await?;
        }
        Ok(())
    }
}

/// Removes what was replaced before the kept time.
async fn prune(bucket: &Bucket, shared: &Shared) -> Result<(), String> {
    let keep_ms = u64::try_from(shared.plan.keep.as_millis()).unwrap_or(u64::MAX);
    let since_ms = now_ms().saturating_sub(keep_ms);
    let names = bucket.list(SETTINGS, None).await?;
    let old = |name: &&String| settings_time_ms(name).is_some_and(|time_ms| time_ms < since_ms);
    let gone: Vec<String> = names.iter().take_while(old).cloned().collect();
    // The last of them is still that of the oldest time.
    bucket.delete(&gone[..gone.len().saturating_sub(1)]).await
}

/// All files as rows: their names, or their absolute paths, and their contents.
fn read(paths: &Paths, data: &Path) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    for name in &paths.inside {
        add(&mut out, &data.join(name), name, DEPTH_MAX)?;
    }
    for path in &paths.outside {
        let path = std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))?;
        add(&mut out, &path, &path, DEPTH_MAX)?;
    }
    Ok(out)
}

fn add(out: &mut Vec<u8>, path: &Path, name: &Path, depth: u32) -> Result<(), String> {
    let wrong = |error: io::Error| format!("{}: {error}", path.display());
    let about = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        about => about.map_err(wrong)?,
    };
    if about.is_dir() && depth > 0 {
        let entries = fs::read_dir(path).map_err(wrong)?.collect::<io::Result<Vec<_>>>();
        let mut entries: Vec<_> = entries.map_err(wrong)?.into_iter().map(|entry| entry.file_name()).collect();
        entries.sort_unstable();
        return entries.iter().try_for_each(|entry| add(out, &path.join(entry), &name.join(entry), depth - 1));
    }
    if !about.is_file() {
        return Ok(());
    }
    if out.len() as u64 + about.len() > BYTES_MAX as u64 {
        return Err(format!(
            "configuration and certificates are not in the backup: with {} they are longer than {BYTES_MAX} bytes",
            path.display()
        ));
    }
    put_row(out, name.to_str().ok_or("a setting's path is not UTF-8")?.as_bytes(), &fs::read(path).map_err(wrong)?);
    Ok(())
}

/// What a restore has found of settings.
#[derive(Debug, Default)]
pub struct Found {
    /// Files.
    pub files: u64,
    /// When they were read, in words; `None` if the backup has none.
    pub time: Option<String>,
}

/// Reads the settings of a time, and writes them into the data folder `into` if it is given: what
/// is not there yet, in its place, and what was outside below [`RESTORED`].
pub(super) async fn restore(bucket: &Bucket, until_ms: u64, into: Option<&Path>) -> Result<Found, String> {
    let names = bucket.list(SETTINGS, None).await?;
    let times = || names.iter().filter_map(|name| settings_time_ms(name));
    let Some(time_ms) = times().rfind(|time_ms| *time_ms <= until_ms).or_else(|| times().next()) else {
        return Ok(Found::default());
    };
    let name = settings_name(time_ms);
    let content = bucket.get(&name).await?.ok_or_else(|| format!("{name} is missing"))?;
    let mut found = Found { files: 0, time: Some(shown(time_ms)) };
    for row in rows_of(&content) {
        let (path, content) = row.ok_or_else(|| format!("{name} is damaged"))?;
        let path = Path::new(std::str::from_utf8(path).map_err(|_| format!("{name} is damaged"))?);
        found.files += 1;
        if let Some(into) = into {
            let to = target(into, path).ok_or_else(|| format!("{name} has a file with the path {}", path.display()))?;
            write(&to, content).map_err(|error| format!("{}: {error}", to.display()))?;
        }
    }
    Ok(found)
}

/// Where a file goes; `None` if it would leave the folder.
fn target(into: &Path, path: &Path) -> Option<PathBuf> {
    let (base, path) = match path.strip_prefix("/") {
        Ok(path) => (into.join(RESTORED), path),
        Err(_) => (into.to_owned(), path),
    };
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    (plain && path.file_name().is_some()).then(|| base.join(path))
}

fn write(to: &Path, content: &[u8]) -> io::Result<()> {
    let parent = to.parent().unwrap_or(Path::new("/"));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    match fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(to) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        file => file?.write_all(content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_of_a_backup_leads_out_of_the_folder() {
        let of = |path: &str| target(Path::new("/d"), Path::new(path)).map(|to| to.display().to_string());
        assert_eq!(of("acme/a.pem").as_deref(), Some("/d/acme/a.pem"));
        assert_eq!(of("/etc/throng/throng.toml").as_deref(), Some("/d/restored/etc/throng/throng.toml"));
        for wrong in ["", "/", "../a", "/etc/../../a", "a/../../b"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
