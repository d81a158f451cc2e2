//! A ring that holds less than a day thins its old files, whatever happens meanwhile (docs/recorder.md, "Thinning").

use std::fs;
use std::path::Path;

use throng_recorder::read::{Item, items};
use throng_recorder::record::MAGIC_THINNED;
use throng_recorder::recorder::{Event, Recorder, Sampler};
use throng_recorder::ring::{self, Ring};
use throng_recorder::schema::{Field, Module, Origin};
use throng_recorder::table::{Source, Table};

const BYTES_MAX: u64 = 4 << 20;
const ROWS: usize = 400;
const DAY_S: u64 = 24 * 60 * 60;

/// Shards with a counter and a level of which little can be foretold, some two kilobytes a sample.
struct Shards {
    seed: u64,
    counts: Vec<u64>,
    adds_up: bool,
}

impl Source for Shards {
    fn modules(&self) -> Vec<Module> {
        let fields = vec![Field::count("n", "", 6, "Any."), Field::gauge("level", "", 6, "Any.")];
        let module = Module::single("shard", "Shards.", fields).by("row", 1000);
        vec![if self.adds_up { module.adds_up() } else { module }]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        for (at, count) in self.counts.iter_mut().enumerate() {
            // xorshift (Marsaglia 2003)
            self.seed ^= self.seed << 13;
            self.seed ^= self.seed >> 7;
            self.seed ^= self.seed << 17;
            *count += self.seed % 65_536;
            if let Some(numbers) = tables[0].row(at.to_string().as_bytes()) {
                numbers.copy_from_slice(&[*count, self.seed >> 20 & 0xffff]);
            }
        }
    }
}

fn recorder(folder: &Path, interval_s: u64, adds_up: bool) -> Recorder {
    let ring = Ring::open(folder, BYTES_MAX).expect("a folder");
    let origin = Origin { interval_ms: interval_s * 1000, ..Origin::default() };
    let shards = Shards { seed: 1, counts: vec![0; ROWS], adds_up };
    Recorder::new(Sampler::new(origin, vec![Box::new(shards)]), 1 << 18, Some(ring))
}

fn tick(recorder: &mut Recorder, second: u64) -> Option<Event> {
    recorder.tick(second * 1000, second * 1_000_000)
}

/// Bytes of all that is in a folder, and the names of what is no recording.
fn all_bytes(folder: &Path) -> (u64, Vec<String>) {
    let (mut bytes, mut others) = (0, Vec::new());
    for entry in fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        bytes += entry.metadata().expect("it is there").len();
        let name = entry.file_name().into_string().expect("a plain name");
        if !name.ends_with(".rec") && name != "lock" {
            others.push(name);
        }
    }
    (bytes, others)
}

/// All seconds and marks of a folder, without damage, and for each file whether it is thinned.
fn read(folder: &Path) -> (Vec<u64>, Vec<(u64, String)>, Vec<bool>) {
    let (mut seconds, mut marks, mut thinned) = (Vec::new(), Vec::new(), Vec::new());
    for part in ring::parts(folder).expect("a folder") {
        let file = fs::read(&part.path).expect("a file");
        thinned.push(file.starts_with(MAGIC_THINNED));
        for item in items(&file) {
            match item {
                Item::Sample(sample) => seconds.push(sample.wall_ms() / 1000),
                Item::Mark(mark) => marks.push((mark.wall_ms / 1000, mark.kind)),
                Item::Damage(damage) => panic!("{}: {damage:?}", part.path.display()),
            }
        }
    }
    (seconds, marks, thinned)
}

fn without_gap(seconds: &[u64], last: u64, interval: u64) {
    assert_eq!(seconds.last(), Some(&last));
    assert!(seconds.windows(2).all(|two| two[1] == two[0] + interval), "{seconds:?}");
}

#[test]
fn it_holds_several_times_as_much_in_its_bound_and_forgets_no_second_or_mark() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut recorder = recorder(folder.path(), 1, true);
    let (last, mut told) = (14_000, None);
    for second in 1..=last {
        if second % 100 == 0 {
            recorder.handle().mark(second * 1000, "knob", "turn_length 5");
        }
        if let Some(Event::Short { hours, thins }) = tick(&mut recorder, second) {
            told = Some((hours, thins));
        }
        assert!(all_bytes(folder.path()).0 <= BYTES_MAX, "at {second}");
    }
    let in_full = told.map_or(0.0, |(hours, thins)| if thins { hours * 3600.0 } else { 0.0 });
    assert!((1_000.0..3_000.0).contains(&in_full), "{told:?}");
    recorder.stop(last * 1000);
    let (seconds, marks, thinned) = read(folder.path());
    without_gap(&seconds, last, 1);
    assert!(seconds.len() as f64 > 3.0 * in_full, "{} of {in_full} in full", seconds.len());
    let knobs: Vec<u64> = marks.iter().filter(|(_, kind)| kind == "knob").map(|(second, _)| *second).collect();
    let wanted: Vec<u64> = (seconds[0]..=last).filter(|second| second % 100 == 0).collect();
    assert_eq!(knobs[knobs.len() - wanted.len()..], wanted);
    // The newest are in full: those that are thinned are the oldest ones.
    assert!(thinned.is_sorted_by(|a, b| a >= b) && thinned[0] && !thinned[thinned.len() - 1], "{thinned:?}");
    assert_eq!(all_bytes(folder.path()).1, Vec::<String>::new(), "nothing is left over");
}

#[test]
fn killed_at_any_time_nothing_is_lost_and_nothing_left_over() {
    let (folder, copies) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let mut recorder = recorder(folder.path(), 1, true);
    let (mut looked, mut cut, mut thinning) = (0, 0, false);
    for second in 1..=3_000 {
        tick(&mut recorder, second);
        // Each stage: just begun, at many pieces, just behind the renaming.
        let was = std::mem::replace(&mut thinning, !all_bytes(folder.path()).1.is_empty());
        if was == thinning && (second < 1_500 || second % 61 != 0) {
            continue;
        }
        let copy = copies.path().join(second.to_string());
        fs::create_dir(&copy).expect("a folder");
        for entry in fs::read_dir(folder.path()).expect("a folder") {
            let entry = entry.expect("an entry");
            let to = copy.join(entry.file_name());
            fs::copy(entry.path(), &to).expect("it is copied");
            if to.extension().is_some_and(|ending| ending == "thin") {
                let file = fs::File::options().write(true).open(&to).expect("it opens");
                let length = file.metadata().expect("it is there").len();
                file.set_len(length * (second % 5) / 4).expect("it is cut, or longer");
                cut += 1;
            }
        }
        // A reader finds all of it before, and a recorder goes on behind it.
        let (seconds, ..) = read(&copy);
        without_gap(&seconds, second, 1);
        let mut next = self::recorder(&copy, 1, true);
        assert_eq!(all_bytes(&copy).1, Vec::<String>::new());
        (second + 1..second + 40).for_each(|second| _ = tick(&mut next, second));
        assert!(all_bytes(&copy).0 <= BYTES_MAX);
        drop(next);
        without_gap(&read(&copy).0, second + 39, 1);
        fs::remove_dir_all(&copy).expect("it is there");
        looked += 1;
    }
    assert!(looked > 25 && cut > 10, "{looked} looks, {cut} while a file was thinned");
}

#[test]
fn where_a_thinner_file_cannot_be_written_the_oldest_goes_as_ever() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut recorder = recorder(folder.path(), 1, true);
    let last = 4_000;
    for second in 1..=last {
        tick(&mut recorder, second);
        // The disk is full for all that is to be thinned.
        for part in ring::parts(folder.path()).expect("a folder") {
            let _ = std::os::unix::fs::symlink("/dev/full", part.path.with_extension("thin"));
        }
        assert!(
            ring::parts(folder.path())
                .expect("a folder")
                .iter()
                .map(|part| part.path.metadata().expect("a file").len())
                .sum::<u64>()
                <= BYTES_MAX
        );
    }
    let (seconds, marks, thinned) = read(folder.path());
    without_gap(&seconds, last, 1);
    assert!(thinned.iter().all(|thinned| !thinned));
    let told = marks.iter().filter(|(_, kind)| kind == "thin").count();
    assert!((1..=last as usize / 600 + 1).contains(&told), "told {told} times");
    // With room again it goes on: links that the killed process has left go, too.
    drop(recorder);
    let mut next = self::recorder(folder.path(), 1, true);
    (last + 1..last + 1_000).for_each(|second| _ = tick(&mut next, second));
    assert!(read(folder.path()).2[0]);
}

#[test]
fn a_ring_that_holds_a_day_in_full_is_never_thinned() {
    let folder = tempfile::tempdir().expect("a folder");
    // Some 1,900 samples fit: 31 hours.
    let mut recorder = recorder(folder.path(), 60, true);
    for minute in 1..=5_000 {
        tick(&mut recorder, minute * 60);
        assert_eq!(all_bytes(folder.path()).1, Vec::<String>::new());
    }
    let (seconds, _, thinned) = read(folder.path());
    without_gap(&seconds, 5_000 * 60, 60);
    assert!(thinned.iter().all(|thinned| !thinned) && seconds.len() as u64 * 60 > DAY_S);
}

#[test]
fn a_ring_that_can_hold_a_day_by_thinning_holds_one_and_as_much_in_full_as_there_is_room_for() {
    let folder = tempfile::tempdir().expect("a folder");
    // 31 hours by the minute are 13 at 25 seconds.
    let mut recorder = recorder(folder.path(), 25, true);
    for at in 1..=12_000 {
        tick(&mut recorder, at * 25);
        if at * 25 > DAY_S && at % 100 == 0 {
            let oldest = &ring::parts(folder.path()).expect("a folder")[0];
            let held_s = at * 25 - oldest.begun_s as u64;
            assert!((DAY_S..DAY_S + DAY_S / 8).contains(&held_s), "{} hours at {at}", held_s as f64 / 3600.0);
        }
    }
    let (seconds, _, thinned) = read(folder.path());
    without_gap(&seconds, 12_000 * 25, 25);
    let in_full = thinned.iter().filter(|thinned| !**thinned).count();
    assert!(in_full * 4 > thinned.len(), "{thinned:?}");
    let (bytes, _) = all_bytes(folder.path());
    assert!(bytes > BYTES_MAX * 3 / 4, "{bytes}");
}

#[test]
fn rows_that_make_no_whole_stay_as_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut recorder = recorder(folder.path(), 1, false);
    for second in 1..=3_000 {
        tick(&mut recorder, second);
        assert!(all_bytes(folder.path()).0 <= BYTES_MAX);
    }
    let (seconds, _, thinned) = read(folder.path());
    without_gap(&seconds, 3_000, 1);
    assert!(thinned.iter().all(|thinned| !thinned));
}
