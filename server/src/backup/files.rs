//! Files that are written once and never change, such as uploads, and a copy of the settings.
//!
//! The folder has 256 folders, each named by the first two hexadecimal digits of the files in it. A
//! new file is in the backup within seconds, in parts. One that has gone from the folder stays in
//! the backup for the kept time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::bucket::Bucket;
use super::pieces::{FileObject, files_folder};
use super::shared::Shared;
use super::{PART_BYTES, now_ms, settings};

/// How often the folder is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How often settings are compared with those in the backup.
const SETTINGS_EVERY: Duration = Duration::from_secs(60);

/// A file's change counts as new if it is at most so much older than the last look: clocks of file
/// systems are coarse, and they may step.
const SLACK: Duration = Duration::from_secs(60);

/// Longest name of a file.
const NAME_BYTES_MAX: usize = 100;

/// The task: writes new files and changed settings until it is aborted.
pub(super) async fn follow(shared: Arc<Shared>) {
    let mut seen: Option<SystemTime> = None;
    let mut whole_at: Option<Instant> = None;
    let mut settings = settings::Known::default();
    let mut settings_at: Option<Instant> = None;
    loop {
        let mut trouble = None;
        if settings_at.is_none_or(|at| at.elapsed() >= SETTINGS_EVERY) {
            settings_at = Some(Instant::now());
            trouble = settings.write(&shared).await.err();
        }
        if let Some(folder) = shared.plan.files.clone() {
            let begun = SystemTime::now();
            let whole = whole_at.is_none_or(|at| at.elapsed() >= shared.plan.full_every);
            let pass = Pass { shared: &shared, folder, since: seen.filter(|_| !whole) };
            match pass.run().await {
                Ok(()) => {
                    seen = begun.checked_sub(SLACK);
                    if whole {
                        whole_at = Some(Instant::now());
                    }
                }
                Err(what) => trouble = Some(what),
            }
        }
        shared.standing.set_files_trouble(trouble);
        sleep(LOOK_EVERY).await;
    }
}

/// What the place has of a file.
#[derive(Default)]
struct InPlace {
    parts: BTreeSet<u64>,
    /// Number of parts of the whole file.
    of: u64,
    gone_ms: Option<u64>,
}

impl InPlace {
    fn is_whole(&self) -> bool {
        self.of > 0 && self.parts.len() as u64 == self.of
    }
}

/// What the place has of the files of one part.
async fn in_place(bucket: &Bucket, part: u8) -> Result<BTreeMap<String, InPlace>, String> {
    let mut found = BTreeMap::<String, InPlace>::new();
    for name in bucket.list(&files_folder(part), None).await? {
        let Some((id, object)) = FileObject::of_name(&name).filter(|(id, _)| is_name(id, part)) else { continue };
        let file = found.entry(id.to_owned()).or_default();
        match object {
            FileObject::Part { number, of } => {
                // Of two lengths, one was never completed: the file is sent again.
                if file.of != of {
                    file.parts.clear();
                    file.of = of;
                }
                file.parts.insert(number);
            }
            FileObject::Gone { time_ms } => file.gone_ms = Some(time_ms),
        }
    }
    Ok(found)
}

fn is_name(name: &str, part: u8) -> bool {
    let digits = name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    digits && name.len() <= NAME_BYTES_MAX && name.starts_with(&format!("{part:02x}"))
}

/// Names in one part of the folder, and whether one of them is new since a time.
fn names(folder: &Path, part: u8, since: Option<SystemTime>) -> io::Result<(Vec<String>, bool)> {
    let dir = folder.join(format!("{part:02x}"));
    let is_new = |about: &fs::Metadata| {
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(about.ctime().try_into().unwrap_or(0));
        since.is_none_or(|since| changed >= since)
    };
    let mut found = (Vec::new(), since.is_none());
    if !is_new(&fs::metadata(&dir)?) {
        return Ok(found);
    }
    for entry in fs::read_dir(&dir)? {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().filter(|name| is_name(name, part)).map(str::to_owned) else {
            continue;
        };
        // One that has been removed meanwhile is not new.
        found.1 |= entry.metadata().is_ok_and(|about| is_new(&about));
        found.0.push(name);
    }
    Ok(found)
}

/// One look at all files.
struct Pass<'a> {
    shared: &'a Arc<Shared>,
    folder: PathBuf,
    /// Only files that are newer; `None` also looks for those that have gone.
    since: Option<SystemTime>,
}

impl Pass<'_> {
    async fn run(&self) -> Result<(), String> {
        for part in 0..=u8::MAX {
            self.part(part).await?;
        }
        Ok(())
    }

    async fn part(&self, part: u8) -> Result<(), String> {
        let (folder, since) = (self.folder.clone(), self.since);
        let names = spawn_blocking(move || names(&folder, part, since)).await.map_err(|error| error.to_string())?;
        let (names, is_new) = names.map_err(|error| format!("{}: {error}", self.folder.display()))?;
        if !is_new {
            return Ok(());
        }
        let bucket = &self.shared.plan.bucket;
        let mut in_place = in_place(bucket, part).await?;
        for name in names {
            let known = in_place.remove(&name).unwrap_or_default();
            if !known.is_whole() {
                self.write(part, &name, &known).await?;
            }
            if let Some(time_ms) = known.gone_ms {
                bucket.delete(&[FileObject::Gone { time_ms }.name(part, &name)]).await?;
            }
        }
        match self.since {
            Some(_) => Ok(()),
            None => self.gone(part, in_place).await,
        }
    }

    /// Files that are in the place alone: noted first, and removed after the kept time.
    async fn gone(&self, part: u8, files: BTreeMap<String, InPlace>) -> Result<(), String> {
        let bucket = &self.shared.plan.bucket;
        let keep_ms = u64::try_from(self.shared.plan.keep.as_millis()).unwrap_or(u64::MAX);
        for (name, file) in files {
            let Some(time_ms) = file.gone_ms else {
                bucket.put(&FileObject::Gone { time_ms: now_ms() }.name(part, &name), Vec::new()).await?;
                continue;
            };
            if time_ms.saturating_add(keep_ms) < now_ms() {
                let parts = file.parts.iter().map(|&number| FileObject::Part { number, of: file.of });
                // The note last: as long as it is there, the removal goes on.
                let objects = parts.chain([FileObject::Gone { time_ms }]);
                let objects: Vec<_> = objects.map(|object| object.name(part, &name)).collect();
                bucket.delete(&objects).await?;
                self.shared.standing.counters.pruned.add(objects.len() as u64);
            }
        }
        Ok(())
    }

    /// Writes the parts that the place lacks.
    async fn write(&self, part: u8, name: &str, known: &InPlace) -> Result<(), String> {
        let path = path(&self.folder, part, name);
        let wrong = |error: io::Error| format!("{}: {error}", path.display());
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            file => Arc::new(file.map_err(wrong)?),
        };
        let bytes = file.metadata().map_err(wrong)?.len();
        let of = bytes.div_ceil(PART_BYTES as u64).max(1);
        for number in (0..of).filter(|number| known.of != of || !known.parts.contains(number)) {
            let at = number * PART_BYTES as u64;
            let file = file.clone();
            let content = spawn_blocking(move || {
                let mut content = vec![0; (bytes - at).min(PART_BYTES as u64) as usize];
                file.read_exact_at(&mut content, at).map(|()| content)
            });
            let content = content.await.map_err(|error| error.to_string())?.map_err(wrong)?;
            let bytes = self.shared.plan.bucket.put(&FileObject::Part { number, of }.name(part, name), content).await?;
            self.shared.standing.counters.file_bytes.add(bytes);
        }
        self.shared.standing.counters.files.one();
        Ok(())
    }
}

fn path(folder: &Path, part: u8, name: &str) -> PathBuf {
    folder.join(format!("{part:02x}")).join(name)
}

/// What a restore has read.
#[derive(Debug, Default)]
pub struct Read {
    /// Files, and their bytes.
    pub files: u64,
    pub bytes: u64,
    /// What cannot be read, a sentence each.
    pub wrong: Vec<String>,
}

/// Reads all files that were there at a time, and writes them to `into` if it is given.
pub(super) async fn restore(bucket: &Bucket, until_ms: u64, into: Option<&Path>) -> Result<Read, String> {
    let mut read = Read::default();
    for part in 0..=u8::MAX {
        for (name, file) in in_place(bucket, part).await? {
            if !file.is_whole() || file.gone_ms.is_some_and(|gone_ms| gone_ms <= until_ms) {
                continue;
            }
            match restore_file(bucket, part, &name, file.of, into).await {
                Ok(bytes) => {
                    read.files += 1;
                    read.bytes += bytes;
                }
                Err(what) => read.wrong.push(what),
            }
        }
    }
    Ok(read)
}

async fn restore_file(bucket: &Bucket, part: u8, name: &str, of: u64, into: Option<&Path>) -> Result<u64, String> {
    let wrong = |error: io::Error| format!("file {name}: {error}");
    let unfinished = into.map(|into| into.join("incoming").join(name));
    let mut out = match &unfinished {
        Some(path) => {
            fs::create_dir_all(path.parent().expect("it has one")).map_err(wrong)?;
            Some(File::create(path).map_err(wrong)?)
        }
        None => None,
    };
    let mut bytes = 0;
    for number in 0..of {
        let object = FileObject::Part { number, of }.name(part, name);
        let content = bucket.get(&object).await?.ok_or_else(|| format!("{object} is missing"))?;
        bytes += content.len() as u64;
        if let Some(out) = &mut out {
            out.write_all(&content).map_err(wrong)?;
        }
    }
    if let (Some(into), Some(unfinished), Some(out)) = (into, unfinished, out) {
        let to = path(into, part, name);
        out.sync_all().map_err(wrong)?;
        fs::create_dir_all(to.parent().expect("it has one")).map_err(wrong)?;
        fs::rename(unfinished, to).map_err(wrong)?;
    }
    Ok(bytes)
}
