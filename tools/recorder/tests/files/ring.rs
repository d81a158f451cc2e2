//! The ring of files keeps to its bound, one writer, and what earlier processes have left (docs/recorder.md, "The files").

use std::io::ErrorKind;
use std::path::Path;

use throng_recorder::read::{Item, items};
use throng_recorder::recorder::{Event, Recorder, Sampler};
use throng_recorder::ring::{self, Ring};
use throng_recorder::schema::{Field, Module, Origin};
use throng_recorder::table::{Source, Table};

const BYTES_MAX: u64 = 4 << 20;

/// Numbers of which nothing can be foretold.
struct Noise(u64);

impl Source for Noise {
    fn modules(&self) -> Vec<Module> {
        vec![Module::single("noise", "Noise.", vec![Field::gauge("n", "", 6, "Any.")]).by("row", 1000)]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        for row in 0..1000 {
            // xorshift (Marsaglia 2003)
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            if let Some(numbers) = tables[0].row(row.to_string().as_bytes()) {
                numbers[0] = self.0 >> 1;
            }
        }
    }
}

fn recorder(folder: &Path, interval_ms: u64) -> Recorder {
    let ring = Ring::open(folder, BYTES_MAX).expect("a folder");
    let origin = Origin { interval_ms, ..Origin::default() };
    Recorder::new(Sampler::new(origin, vec![Box::new(Noise(1))]), 1 << 20, Some(ring))
}

fn bytes(folder: &Path) -> u64 {
    ring::parts(folder).expect("a folder").iter().map(|part| part.path.metadata().expect("a file").len()).sum()
}

fn seconds(folder: &Path) -> Vec<u64> {
    let parts = ring::parts(folder).expect("a folder");
    let all = parts.iter().flat_map(|part| items(&std::fs::read(&part.path).expect("a file")));
    all.filter_map(|item| if let Item::Sample(sample) = item { Some(sample.wall_ms() / 1000) } else { None }).collect()
}

#[test]
fn it_never_takes_more_than_its_bound_and_has_the_last_seconds_without_a_gap() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut recorder = recorder(folder.path(), 1000);
    // Eight kilobytes a second: three times around.
    let last = 1_500;
    let mut short = None;
    for second in 1..=last {
        if let Some(Event::Short { hours, thins }) = recorder.tick(second * 1000, second * 1_000_000) {
            assert!(!thins, "its rows make no whole");
            short = Some(hours);
        }
        assert!(bytes(folder.path()) <= BYTES_MAX);
    }
    assert!(
        short.is_some_and(|hours| (0.1..0.2).contains(&hours)),
        "half a thousand seconds fit, and it says {short:?}"
    );
    recorder.stop(last * 1000);
    let seconds = seconds(folder.path());
    assert_eq!(seconds.last(), Some(&last));
    assert!(seconds.windows(2).all(|two| two[1] == two[0] + 1));
    // What goes is the oldest of at least a dozen parts.
    assert!((300..last as usize).contains(&seconds.len()), "{}", seconds.len());
}

#[test]
fn one_process_writes_and_the_next_goes_on_behind_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = recorder(folder.path(), 1000);
    first.tick(1000, 1_000_000);
    let second = Ring::open(folder.path(), BYTES_MAX);
    assert_eq!(second.expect_err("the folder is taken").kind(), ErrorKind::WouldBlock);
    drop(first);
    let mut second = recorder(folder.path(), 1000);
    second.tick(2000, 2_000_000);
    assert_eq!(seconds(folder.path()), [1, 2]);
    assert_eq!(
        ring::parts(folder.path()).expect("a folder").iter().map(|part| part.number).collect::<Vec<_>>(),
        [1, 2]
    );
}
