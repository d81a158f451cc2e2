//! A store, its backup in a folder, and what is restored from it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use throng_engine::store::Table;

use super::restore::Restoring;
use super::seal::Seal;
use super::{Backup, Bucket, Paths, Plan, S3Options, Standing, now_ms};
use crate::disk::shipping::Shipping;
use crate::disk::testing::{all, put, small, wait_until};
use crate::disk::{DiskError, Engine, FolderLock, Options, Still, Store, journal_folder, restore};

type Row = (Vec<u8>, Vec<u8>);

/// A data folder and the place of its backup.
struct Bench {
    folder: tempfile::TempDir,
    journal_bytes_max: u64,
    keep: Duration,
    key: Option<PathBuf>,
}

/// A store that is open, with its backup.
struct Open {
    backup: Option<Backup>,
    standing: Arc<Standing>,
    engine: Arc<dyn Engine>,
    shipping: Arc<Shipping>,
    _store: Store,
    _lock: FolderLock,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().expect("a folder");
        Bench { folder, journal_bytes_max: 1 << 30, keep: Duration::from_secs(3600), key: None }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The folder of uploaded files, with its 256 folders.
    fn uploads(&self) -> PathBuf {
        let folder = self.data().join("upload");
        (0..=u8::MAX).for_each(|part| fs::create_dir_all(folder.join(format!("{part:02x}"))).expect("a folder"));
        folder
    }

    /// A file that is not in the data folder.
    fn configuration(&self) -> PathBuf {
        self.folder.path().join("throng.toml")
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("place")
    }

    fn bucket(&self) -> Bucket {
        let seal = self.key.as_deref().map(|key| Seal::read(key).expect("a key")).unwrap_or_default();
        Bucket::open(&format!("file://{}", self.place().display()), &S3Options::default(), seal, true).expect("opened")
    }

    fn open(&self) -> Open {
        let shipping = Shipping::new();
        let lock = FolderLock::take(&self.data(), "test").expect("free");
        let options = Options { shipping: Some(shipping.clone()), ..small() };
        let store = Store::open(&lock, &options).expect("it opens");
        let (engine, standing) = (store.engine(), Arc::<Standing>::default());
        let plan = Plan {
            bucket: self.bucket(),
            folder: self.data(),
            files: Some(self.uploads()),
            settings: Paths { inside: vec!["push.key".into(), "acme".into()], outside: vec![self.configuration()] },
            full_every: Duration::from_secs(3600),
            keep: self.keep,
            journal_bytes_max: self.journal_bytes_max,
            free_bytes_min: 0,
        };
        let backup = Backup::start(plan, engine.clone(), shipping.clone(), standing.clone()).expect("a thread");
        Open { backup: Some(backup), standing, engine, shipping, _store: store, _lock: lock }
    }

    /// The rows of the store at a time, made anew.
    fn restored(&self, at_ms: Option<u64>) -> Result<Vec<Row>, String> {
        let restoring = Restoring::find(self.bucket(), at_ms);
        let mut restoring = restoring?;
        let into = tempfile::tempdir().expect("a folder");
        let lock = FolderLock::take(into.path(), "test").expect("free");
        let rebuilt = restore::rebuild(&mut restoring, &lock, &|_| Ok(()), &mut |_| {});
        rebuilt.map_err(|error: DiskError| error.to_string())?;
        Ok(all(&Still::open(&lock).expect("it opens")))
    }

    /// Folders and files of the place that contain this in their names.
    fn named(&self, part: &str) -> Vec<PathBuf> {
        let (mut found, mut folders) = (Vec::new(), vec![self.place()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.to_string_lossy().contains(part) {
                    found.push(path);
                }
            }
        }
        found.sort();
        found
    }
}

impl Open {
    fn write(&self, n: u32) {
        let batch = put(Table::Accounts, &format!("user{n}"), b"", &[7; 1000]);
        self.engine.commit(&[batch]).expect("there is room");
    }

    fn drop_row(&self, n: u32) {
        let mut batch = throng_engine::store::Batch::new();
        batch.delete_actor(Table::Accounts, format!("user{n}").as_bytes());
        self.engine.commit(&[batch]).expect("there is room");
    }

    /// Waits until everything is in the backup, with a full piece.
    fn is_in_backup(&self) {
        let behind = || self.standing.lag_ms() > 0 || self.standing.full_s().is_none();
        // A commit is noted within a tenth of a second.
        let end = self.shipping.synced();
        wait_until("the backup has everything", || {
            !behind() && !self.shipping.needs(end) && self.standing.trouble().is_none()
        });
    }

    fn stop(mut self) -> Vec<Row> {
        drop(self.backup.take());
        all(&*self.engine)
    }
}

#[test]
fn a_store_is_restored_as_it_was_and_a_restart_goes_on_where_the_backup_was() {
    let bench = Bench::new();
    let open = bench.open();
    (0..600).for_each(|n| open.write(n));
    open.is_in_backup();
    // Rows that are removed and written after the full piece, over several segments.
    (0..100).for_each(|n| open.drop_row(n));
    (500..1200).for_each(|n| open.write(n));
    open.is_in_backup();
    assert_eq!(bench.restored(None).expect("restored"), all(&*open.engine));
    (1200..1210).for_each(|n| open.write(n));
    let last = open.stop();
    assert_eq!(bench.restored(None).expect("restored"), last, "a stop writes the last commits");

    let open = bench.open();
    open.write(5000);
    open.is_in_backup();
    assert_eq!(bench.restored(None).expect("restored"), open.stop());
    assert_eq!(bench.named("/full/").len(), 1, "no second full piece");
}

#[test]
fn a_store_is_restored_to_a_point_in_time() {
    let bench = Bench::new();
    let open = bench.open();
    open.write(0);
    open.is_in_backup();
    let mut known = Vec::new();
    for n in 1..4 {
        open.write(n);
        let written_ms = now_ms();
        // Commits of one tenth of a second are together.
        wait_until("another time", || now_ms() > written_ms + 250);
        known.push((now_ms(), all(&*open.engine)));
        wait_until("another time", || now_ms() > written_ms + 300);
    }
    open.stop();
    for (at_ms, rows) in &known {
        assert_eq!(&bench.restored(Some(*at_ms)).expect("restored"), rows);
    }
    let text = bench.restored(Some(known[0].0 - 600_000)).unwrap_err();
    assert!(text.contains("reaches back to") && text.contains("--at"), "{text}");
}

/// A place that takes nothing costs disk space up to the bound; beyond it, the backup begins anew.
/// The store never waits.
#[test]
fn a_place_that_takes_nothing_is_survived() {
    let mut bench = Bench::new();
    bench.journal_bytes_max = 300_000;
    let open = bench.open();
    open.write(0);
    open.is_in_backup();
    let away = bench.folder.path().join("away");
    let cut = |cut: bool| {
        let [from, to] = if cut { [bench.place(), away.clone()] } else { [away.clone(), bench.place()] };
        if !cut {
            fs::remove_file(bench.place()).expect("the file in its place");
        }
        fs::rename(from, to).expect("renamed");
        if cut {
            fs::write(bench.place(), b"no folder").expect("a file");
        }
    };
    cut(true);
    (0..20).for_each(|n| open.write(n));
    wait_until("the trouble is known", || open.standing.trouble().is_some());
    assert!(open.standing.lag_ms() > 0);
    cut(false);
    open.is_in_backup();
    assert_eq!(bench.restored(None).expect("restored"), all(&*open.engine));
    assert_eq!(bench.named("/full/").len(), 1);

    cut(true);
    let restarts = || open.standing.counters().restarts.get();
    (0..).take_while(|_| restarts() == 0).for_each(|n| open.write(n));
    wait_until("the disk is free", || {
        crate::disk::shipping::kept_bytes(&journal_folder(&bench.data())).is_ok_and(|bytes| bytes < 300_000)
    });
    cut(false);
    wait_until("a new generation", || bench.named("/full/").len() == 2);
    open.is_in_backup();
    let rows = open.stop();
    assert_eq!(bench.restored(None).expect("restored"), rows);
}

/// A data folder that was put back from an older copy does not continue its backup.
#[test]
fn another_history_begins_a_generation_of_its_own() {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).expect("a folder");
        for entry in fs::read_dir(from).expect("a folder") {
            let path = entry.expect("an entry").path();
            let to = to.join(path.file_name().expect("a name"));
            if path.is_dir() {
                copy(&path, &to);
            } else {
                fs::copy(&path, &to).expect("copied");
            }
        }
    }
    let bench = Bench::new();
    let open = bench.open();
    open.write(0);
    open.is_in_backup();
    open.stop();
    let older = bench.folder.path().join("older");
    copy(&bench.data(), &older);
    let open = bench.open();
    (1..5).for_each(|n| open.write(n));
    open.is_in_backup();
    open.stop();
    fs::remove_dir_all(bench.data()).expect("removed");
    fs::rename(older, bench.data()).expect("put back");
    let open = bench.open();
    (10..30).for_each(|n| open.write(n));
    wait_until("a new generation", || bench.named("/full/").len() == 2);
    open.is_in_backup();
    let rows = open.stop();
    assert_eq!(bench.restored(None).expect("restored"), rows);
}

#[test]
fn damaged_missing_and_swapped_pieces_are_refused() {
    let mut bench = Bench::new();
    let key = bench.folder.path().join("key");
    fs::write(&key, "5".repeat(64)).expect("a key");
    bench.key = Some(key);
    let open = bench.open();
    open.write(0);
    open.is_in_backup();
    for n in 1..4 {
        open.write(n);
        open.is_in_backup();
    }
    let rows = open.stop();
    assert_eq!(bench.restored(None).expect("restored"), rows);
    assert!(bench.named("").iter().all(|path| !fs::read(path).expect("read").windows(4).any(|part| part == b"user")));
    let pieces = [bench.named("/rows/"), bench.named("/journal/")].concat();
    assert!(pieces.len() >= 4, "{pieces:?}");
    for piece in &pieces {
        let whole = fs::read(piece).expect("read");
        let mut damaged = whole.clone();
        *damaged.last_mut().expect("not empty") ^= 1;
        fs::write(piece, &damaged).expect("written");
        let result = bench.restored(None);
        // The first piece of the journal may end before the full piece begins.
        let needed = result.is_err();
        assert!(needed || result == Ok(rows.clone()), "{piece:?}");
        fs::write(piece, &whole).expect("written");
    }
    let journal = bench.named("/journal/");
    let [one, two] = [&journal[journal.len() - 2], &journal[journal.len() - 1]];
    let contents = [one, two].map(|piece| fs::read(piece).expect("read"));
    fs::write(one, &contents[1]).expect("written");
    fs::write(two, &contents[0]).expect("written");
    assert!(bench.restored(None).unwrap_err().contains("moved from another place"));
    fs::write(one, &contents[0]).expect("written");
    fs::write(two, &contents[1]).expect("written");
    fs::remove_file(one).expect("removed");
    assert!(bench.restored(None).unwrap_err().contains("the backup lacks groups"));
    bench.key = None;
    assert!(bench.restored(None).unwrap_err().contains("--backup-key"));
}

/// What no restore within the kept time needs is removed; the rest can be restored.
#[test]
fn old_pieces_are_removed_when_a_full_one_is_complete() {
    let mut bench = Bench::new();
    let open = bench.open();
    open.write(0);
    open.is_in_backup();
    open.write(1);
    open.is_in_backup();
    open.stop();
    // Without its memory of the backup the folder begins a new generation, twice.
    for generations in [2, 1] {
        let state = bench.data().join("backup.json");
        let text = fs::read_to_string(&state).expect("read");
        let store = &text[..text.find(",\"generation\"").expect("a generation")];
        fs::write(&state, format!("{store}}}")).expect("written");
        if generations == 1 {
            bench.keep = Duration::ZERO;
        }
        let open = bench.open();
        open.write(2);
        open.is_in_backup();
        wait_until("the old ones are gone", || bench.named("/full/").len() == generations);
        let rows = open.stop();
        assert_eq!(bench.restored(None).expect("restored"), rows);
    }
}

/// Uploaded files are in the backup, whole and in parts, and stay there for the kept time after they
/// have gone. Settings are in it if it is encrypted, as they were.
#[test]
fn uploaded_files_and_settings_are_restored() {
    let mut bench = Bench::new();
    let key = bench.folder.path().join("key");
    fs::write(&key, "5".repeat(64)).expect("a key");
    bench.key = Some(key);
    let long: Vec<u8> = (0..20_000_000_u32).map(|n| n as u8).collect();
    let (one, two) = (bench.uploads().join("0a/0a11"), bench.uploads().join("ff/ff22"));
    fs::write(&one, b"").expect("written");
    fs::write(&two, &long).expect("written");
    fs::write(bench.uploads().join("0a/no file of ours"), b"x").expect("written");
    fs::write(bench.configuration(), "domain = 'a'").expect("written");
    fs::create_dir_all(bench.data().join("acme/a")).expect("a folder");
    fs::write(bench.data().join("acme/a/key.pem"), "secret").expect("written");
    let open = bench.open();
    open.write(0);
    open.is_in_backup();
    wait_until("files and settings", || {
        open.standing.counters().files.get() == 2 && bench.named("/settings/").len() == 1
    });
    assert_eq!(bench.named("/ff22/").len(), 3, "parts of 8 MiB");
    assert!(bench.named("").iter().all(|path| !fs::read(path).expect("read").windows(6).any(|part| part == b"secret")));
    let restored = || {
        let into = tempfile::tempdir().expect("a folder");
        let restoring = Restoring::find(bench.bucket(), None).expect("found");
        let files = restoring.files(Some(&into.path().join("upload"))).expect("restored");
        let settings = restoring.settings(Some(into.path())).expect("restored");
        (into, files, settings)
    };
    let (into, files, settings) = restored();
    assert_eq!((files.files, files.bytes, files.wrong), (2, long.len() as u64, vec![]));
    assert!(fs::read(into.path().join("upload/ff/ff22")).expect("there") == long);
    assert_eq!(fs::read(into.path().join("upload/0a/0a11")).expect("there"), b"");
    assert_eq!((settings.files, settings.time.is_some()), (2, true));
    assert_eq!(fs::read_to_string(into.path().join("acme/a/key.pem")).expect("there"), "secret");
    let outside = into.path().join("restored").join(bench.configuration().strip_prefix("/").expect("absolute"));
    assert_eq!(fs::read_to_string(outside).expect("there"), "domain = 'a'");

    // A damaged part is reported, and costs that file alone.
    let part = &bench.named("/ff22/")[1];
    let whole = fs::read(part).expect("read");
    fs::write(part, &whole[..whole.len() - 1]).expect("written");
    let (_into, files, _) = restored();
    assert!(files.files == 1 && files.wrong.len() == 1 && files.wrong[0].contains("is damaged"), "{files:?}");
    fs::write(part, &whole).expect("written");
    open.stop();

    // One that has gone stays for the kept time.
    fs::remove_file(&two).expect("removed");
    let open = bench.open();
    wait_until("it is noted", || bench.named("/ff22/gone-").len() == 1);
    assert_eq!((bench.named("/ff22/").len(), bench.named("/0a11/").len()), (4, 1));
    open.stop();
    let (_into, files, _) = restored();
    assert_eq!((files.files, files.wrong), (1, vec![]), "it had gone then");
    bench.keep = Duration::ZERO;
    let open = bench.open();
    wait_until("it is removed", || bench.named("/ff22/").is_empty());
    assert_eq!(bench.named("/0a11/").len(), 1);
    open.stop();
}
