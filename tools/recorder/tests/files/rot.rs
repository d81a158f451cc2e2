//! Bit rot in a ring of files: a bit is turned, a file is cut or gone. Whatever it is: no panic, no other numbers than were
//! recorded, nothing lost beside it, and each gap is told (docs/recorder.md, "The files").
//!
//! `THRONG_ROT_RUNS=10000 cargo test -p throng-recorder --test files rot` for more of them, `THRONG_ROT_SEED` for others.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use throng_recorder::read::{Item, items};
use throng_recorder::recorder::{Recorder, Sampler};
use throng_recorder::ring::{self, Ring};
use throng_recorder::sar::{Failure, Feed, Files, Outcome, Said, Setting, command, run};
use throng_recorder::schema::{Field, Module, Origin};
use throng_recorder::table::{Source, Table};

/// Rows of which nothing can be foretold.
const ROWS: usize = 12;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // xorshift (Marsaglia 2003)
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

impl Source for Random {
    fn modules(&self) -> Vec<Module> {
        vec![Module::single("noise", "Noise.", vec![Field::gauge("n", "", 6, "Any.")]).by("row", ROWS as u16)]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        for row in 0..ROWS {
            if let Some(numbers) = tables[0].row(row.to_string().as_bytes()) {
                numbers[0] = self.next() >> 1;
            }
        }
    }
}

/// Seconds of each file; each is by a process of its own.
const FILES: &[u64] = &[40, 7, 200, 25, 1, 60];

/// A sound ring, and what it tells of each second, file by file.
struct Sound {
    folder: tempfile::TempDir,
    files: Vec<(String, Vec<u8>)>,
    seconds: Vec<Vec<Second>>,
}

fn sound() -> Sound {
    let folder = tempfile::tempdir().expect("a folder");
    let mut second = 1_000;
    for seconds in FILES {
        let ring = Ring::open(folder.path(), ring::BYTES_MIN).expect("a folder");
        let origin = Origin { interval_ms: 1_000, ..Origin::default() };
        let mut recorder = Recorder::new(Sampler::new(origin, vec![Box::new(Random(second))]), 1 << 20, Some(ring));
        for _ in 0..*seconds {
            second += 1;
            recorder.tick(second * 1_000, second * 1_000_000);
        }
        recorder.stop(second * 1_000);
    }
    let parts = ring::parts(folder.path()).expect("a folder");
    let name = |part: &ring::Part| part.path.file_name().expect("a name").to_str().expect("text").to_owned();
    let files = parts.iter().map(|part| (name(part), fs::read(&part.path).expect("a file"))).collect::<Vec<_>>();
    let told = |(_, bytes): &(String, Vec<u8>)| {
        let told = items(bytes).into_iter().filter_map(|item| match item {
            Item::Sample(sample) => Some((sample.wall_ms() / 1_000, sample.values)),
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    let seconds: Vec<_> = files.iter().map(told).collect();
    assert_eq!(seconds.iter().map(|file| file.len() as u64).collect::<Vec<_>>(), FILES);
    Sound { folder, files, seconds }
}

#[derive(Debug)]
enum Rot {
    Bit(u64),
    Cut(u64),
    Gone,
}

/// A second, and its numbers.
type Second = (u64, Vec<u64>);

/// What a reader of a folder is told: its samples, and at how many places it could not read.
fn read(folder: &Path) -> Result<(Vec<Second>, usize), Failure> {
    let mut files = Files::open(folder, 0, None)?;
    let (mut samples, mut damaged) = (Vec::new(), 0);
    while let Some(said) = files.next()? {
        match said {
            Said::Sample(sample) => samples.push((sample.wall_ms() / 1_000, sample.values)),
            Said::Damage(..) => damaged += 1,
            Said::Mark(_) | Said::Waiting => {}
        }
    }
    let _ = files.end_ms()?;
    Ok((samples, damaged))
}

/// Seconds with numbers, times of which nothing is known, places that could not be read, and whether it ends with that.
type Shown = (BTreeSet<u64>, Vec<(u64, u64)>, usize, bool);

/// What `throng sar --json` says of a folder.
fn shown(folder: &Path) -> Result<Shown, Failure> {
    let matches = command().get_matches_from(["sar", "--utc", "--from", folder.to_str().expect("text"), "noise"]);
    let setting = Setting { json: true, columns: Some(120), stop: std::sync::Arc::default() };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let outcome = run(&matches, &setting, &mut out, &mut err)?;
    let (mut seconds, mut gaps, mut damaged) = (BTreeSet::new(), Vec::new(), 0);
    let second = |time: &Value| -> u64 {
        let time: jiff::Timestamp = time.as_str().expect("a time").parse().expect("a time");
        time.as_second() as u64
    };
    for line in String::from_utf8(out).expect("text").lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        if let Some(gap) = line.get("gap") {
            gaps.push((second(&gap["from"]), second(&gap["to"])));
        } else if line.get("damage").is_some() {
            damaged += 1;
        } else if line.get("noise").is_some() {
            seconds.insert(second(&line["time"]));
        }
    }
    Ok((seconds, gaps, damaged, matches!(outcome, Outcome::Partly)))
}

fn one_case(sound: &Sound, seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    (0..8).for_each(|_| _ = random.next());
    let folder = tempfile::tempdir().expect("a folder");
    let at = random.below(sound.files.len() as u64) as usize;
    let length = sound.files[at].1.len() as u64;
    let rot = match random.below(8) {
        0 => Rot::Gone,
        1 => Rot::Cut(random.below(8)),
        2 | 3 => Rot::Cut(random.below(length)),
        _ => Rot::Bit(random.below(8 * length)),
    };
    for (n, (name, bytes)) in sound.files.iter().enumerate() {
        let mut bytes = bytes.clone();
        match rot {
            Rot::Gone if n == at => continue,
            Rot::Cut(length) if n == at => bytes.truncate(length as usize),
            Rot::Bit(bit) if n == at => bytes[bit as usize / 8] ^= 1 << (bit % 8),
            _ => {}
        }
        fs::write(folder.path().join(name), bytes).expect("it is written");
    }
    let case = format!("seed {seed}: {rot:?} in {}", sound.files[at].0);
    let (samples, damaged) = read(folder.path()).unwrap_or_else(|error| panic!("{case}: {error:?}"));
    // Nothing is told that was not recorded, and all of the other files is.
    let all: Vec<_> = sound.seconds.iter().flatten().collect();
    assert!(samples.iter().all(|sample| all.contains(&sample)), "{case}: other numbers");
    assert!(samples.is_sorted_by(|a, b| a.0 < b.0), "{case}: out of order");
    let has = |second: u64| samples.binary_search_by_key(&second, |(second, _)| *second).is_ok();
    for (n, file) in sound.seconds.iter().enumerate().filter(|(n, _)| *n != at) {
        assert!(file.iter().all(|(second, _)| has(*second)), "{case}: file {n} is not all there");
    }
    let lost: Vec<u64> = sound.seconds[at].iter().map(|(second, _)| *second).filter(|second| !has(*second)).collect();
    match rot {
        // A segment, or the rest of one in front.
        Rot::Bit(_) => assert!(lost.len() <= 181, "{case}: {} seconds", lost.len()),
        Rot::Cut(length) => {
            let whole = items(&sound.files[at].1[..length as usize]);
            let whole = whole.iter().filter(|item| matches!(item, Item::Sample(_))).count();
            assert_eq!(sound.seconds[at].len() - lost.len(), whole, "{case}");
        }
        Rot::Gone => assert_eq!(lost.len(), sound.seconds[at].len(), "{case}"),
    }
    // A turned bit is always told, and a gap is: by the damage, or by the time that has passed.
    assert!(damaged > 0 || !matches!(rot, Rot::Bit(_)), "{case}: it went unnoticed");
    let (seconds, gaps, told, partly) = shown(folder.path()).unwrap_or_else(|error| panic!("{case}: {error:?}"));
    assert_eq!(told, damaged, "{case}");
    assert!(!matches!(rot, Rot::Bit(_)) || partly || lost.len() <= 1, "{case}: it ends as if all were well");
    let known: Vec<u64> = samples.iter().map(|(second, _)| *second).collect();
    for two in known.windows(2).filter(|two| two[1] - two[0] > 3) {
        assert!(gaps.contains(&(two[0], two[1])), "{case}: nothing is said from {} to {}: {gaps:?}", two[0], two[1]);
    }
    assert!(seconds.iter().all(|second| has(*second)), "{case}");
    // What is not shown is where something begins: the first of all, and behind each gap.
    assert!(seconds.len() + gaps.len() + 1 >= known.len(), "{case}: {} of {}", seconds.len(), known.len());
    // A recorder goes on in the same folder.
    let ring = Ring::open(folder.path(), ring::BYTES_MIN).unwrap_or_else(|error| panic!("{case}: {error}"));
    let origin = Origin { interval_ms: 1_000, ..Origin::default() };
    let mut recorder = Recorder::new(Sampler::new(origin, vec![Box::new(Random(seed | 1))]), 1 << 20, Some(ring));
    recorder.tick(9_000_000, 9_000_000_000);
    recorder.stop(9_000_000);
    let (more, _) = read(folder.path()).unwrap_or_else(|error| panic!("{case}: {error:?}"));
    assert_eq!((more.len(), more.last().map(|last| last.0)), (samples.len() + 1, Some(9_000)), "{case}");
}

#[test]
fn whatever_rots_in_a_ring_costs_itself_and_is_told() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let (seed, runs): (u64, u64) = (number("THRONG_ROT_SEED").unwrap_or(1), number("THRONG_ROT_RUNS").unwrap_or(300));
    let sound = sound();
    assert!(sound.folder.path().exists());
    let failed: Vec<u64> =
        (seed..seed + runs).filter(|seed| std::panic::catch_unwind(|| one_case(&sound, *seed)).is_err()).collect();
    assert!(failed.is_empty(), "{} of {runs}: seeds {:?}", failed.len(), &failed[..failed.len().min(20)]);
}

/// Before, `throng sar` refused the whole ring, as the first file did not say which fields there are.
#[test]
fn a_first_file_that_is_empty_hides_no_other() {
    let sound = sound();
    let (name, _) = &sound.files[0];
    fs::write(sound.folder.path().join(name), b"").expect("it is written");
    let (seconds, gaps, damaged, partly) = shown(sound.folder.path()).expect("the others are read");
    assert!(seconds.len() as u64 + FILES.len() as u64 >= FILES[1..].iter().sum(), "{}", seconds.len());
    assert!(gaps.is_empty() && damaged == 0 && !partly, "nobody can say that there was something");
}
