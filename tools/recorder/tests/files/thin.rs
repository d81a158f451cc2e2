//! Old seconds that were made thin tell the same: everything of few rows and the totals of the others each second, and each
//! row every tenth (docs/recorder.md, "Thinning").

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use proptest::prelude::*;
use throng_recorder::read::{Damage, Item, Why, items};
use throng_recorder::record::{MAGIC_THINNED, Mark, Pen};
use throng_recorder::ring::Part;
use throng_recorder::sar::{Column, Failure, Feed, Files, Had, Place, Plotter, Said, Selection, Series, Setting};
use throng_recorder::schema::{Field, Module, Origin, Schema};
use throng_recorder::table::{ABSENT, ALL, Detail, Sample, Shape};
use throng_recorder::thin::{ROWS_FULL_MAX, Thinner, WHOLE_SAMPLES};

const FIRST_S: u64 = 1_000_003;

fn schema() -> Arc<Schema> {
    let shard = vec![
        Field::count("logins", "", 6, "Logins."),
        Field::gauge("sessions", "", 6, "Sessions."),
        Field::gauge("oldest", "s", 6, "Age of the oldest.").most(),
        Field::time("busy", 1_000, "Had something to do."),
        Field::quotient("each", "", ("busy", "logins", 1), "Time a login."),
    ];
    let modules = vec![
        Module::single("cpu", "", vec![Field::count("ticks", "", 6, "Ticks.")]),
        Module::single("shard", "", shard).by("shard", 1_000).adds_up(),
        Module::single("part", "", vec![Field::gauge("held", "", 6, "Held.")]).by("part", 1_000),
    ];
    Arc::new(Schema { origin: Origin { interval_ms: 1_000, ..Origin::default() }, modules })
}

/// Fields of a shard that are recorded.
const WIDTH: usize = 4;
const SHARD: usize = 1;

/// xorshift (Marsaglia 2003)
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// A recording of so many seconds: shards that come and go, counters that begin anew, numbers that cannot be had.
fn recorded(seed: u64, seconds: u64, calm: bool) -> Vec<Sample> {
    let (schema, mut random) = (schema(), Random(seed | 1));
    let mut shards = ROWS_FULL_MAX + 4;
    let shape = |shards: usize| {
        let names = |count: usize| (0..count).map(|n| n.to_string()).collect();
        Arc::new(Shape::new(schema.clone(), vec![vec![String::new()], names(shards), names(20)]).expect("it fits"))
    };
    let mut now = shape(shards);
    let mut rows = vec![[0; WIDTH]; 64];
    (0..seconds)
        .map(|second| {
            if !calm && random.below(40) == 0 {
                shards = ROWS_FULL_MAX - 1 + random.below(10) as usize;
                now = shape(shards);
            }
            let mut values = vec![(FIRST_S + second) * 1_000 + random.below(3), second * 1_000_000, second * 7];
            for row in rows.iter_mut().take(shards) {
                let falls = !calm && random.below(500) == 0;
                row[0] = if falls { 0 } else { row[0] + random.below(50) };
                row[1] = random.below(1_000);
                row[2] = random.below(30);
                row[3] += random.below(1_000);
                let gone = !calm && random.below(100) == 0;
                values.extend(if gone { [ABSENT; WIDTH] } else { *row });
            }
            values.extend((0..20).map(|part| part * second));
            Sample { shape: now.clone(), values }
        })
        .collect()
}

fn thin(all: impl IntoIterator<Item = Item>) -> Vec<u8> {
    let (mut thinner, mut out) = (Thinner::default(), Vec::new());
    for item in all {
        thinner.take(item, &mut out).expect("one recording");
    }
    thinner.finish(&mut out);
    out
}

fn thinned(samples: &[Sample]) -> Vec<u8> {
    thin(samples.iter().cloned().map(Item::Sample))
}

/// A file as it is recorded.
fn full(samples: &[Sample]) -> Vec<u8> {
    let (mut pen, mut out) = (Pen::default(), Vec::new());
    let schema = samples[0].shape.schema().to_bytes();
    pen.head(&schema, &mut out);
    for (at, sample) in samples.iter().enumerate() {
        if at % 180 == 0 || sample.shape != samples[at - 1].shape {
            pen.segment(crc32c::crc32c(&schema), &sample.shape, &sample.values, &mut out);
        } else {
            pen.sample(&sample.values, &mut out);
        }
    }
    out
}

fn samples(file: &[u8]) -> Vec<Sample> {
    let read = items(file);
    assert!(!read.iter().any(|item| matches!(item, Item::Damage(_))), "{:?}", read.last());
    read.into_iter().filter_map(|item| if let Item::Sample(sample) = item { Some(sample) } else { None }).collect()
}

fn row<'a>(sample: &'a Sample, name: &str) -> Option<&'a [u64]> {
    let at = sample.shape.rows()[SHARD].iter().position(|known| known == name)?;
    let first = sample.shape.row_at(SHARD, at);
    Some(&sample.values[first..first + WIDTH])
}

/// By how much the shards that both samples know have grown.
fn grown(from: &Sample, to: &Sample, field: usize) -> u64 {
    let of = |name: &String| {
        let (old, new) = (row(from, name)?[field], row(to, name)?[field]);
        (old != ABSENT && new != ABSENT).then(|| new.saturating_sub(old))
    };
    to.shape.rows()[SHARD].iter().filter_map(of).sum()
}

fn known(sample: &Sample, field: usize) -> Vec<u64> {
    let of = |name: &String| row(sample, name).map(|row| row[field]).filter(|value| *value != ABSENT);
    sample.shape.rows()[SHARD].iter().filter_map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn totals_are_right_each_second_and_rows_every_tenth(seed in any::<u64>(), seconds in 1..300_u64) {
        let all = recorded(seed, seconds, false);
        let file = thinned(&all);
        let read = samples(&file);
        prop_assert!(file.starts_with(MAGIC_THINNED));
        prop_assert_eq!(read.len(), all.len());
        let (mut whole, mut total) = (0, None::<&[u64]>);
        for (at, (was, is)) in all.iter().zip(&read).enumerate() {
            prop_assert_eq!(&is.values[..3], &was.values[..3], "clocks, and what has one row");
            let parts = |sample: &Sample| sample.values[sample.values.len() - 20..].to_vec();
            prop_assert_eq!(parts(is), parts(was), "what makes no whole keeps its rows");
            let detail = is.shape.detail(SHARD);
            prop_assert_eq!(detail == Detail::Each, was.shape.rows()[SHARD].len() <= ROWS_FULL_MAX);
            if detail != Detail::All {
                whole = at;
                for name in &was.shape.rows()[SHARD] {
                    prop_assert_eq!(row(is, name), row(was, name));
                }
            }
            prop_assert!(at - whole < WHOLE_SAMPLES as usize);
            let Some(now) = row(is, ALL) else { total = None; continue };
            let levels = [known(was, 1).iter().sum(), known(was, 2).into_iter().max().unwrap_or(ABSENT)];
            prop_assert_eq!(&now[1..3], &levels);
            if let (Some(before), true) = (total, known(was, 0).len().min(known(was, 3).len()) > 0) {
                for field in [0, 3] {
                    prop_assert_eq!(now[field] - before[field], grown(&all[at - 1], was, field), "at {}", at);
                }
            }
            total = Some(now);
        }
        prop_assert!(read[0].shape.detail(SHARD) != Detail::All && whole == read.len() - 1, "both ends are whole");
    }

    #[test]
    fn cut_off_anywhere_it_is_read_up_to_there(seed in any::<u64>(), seconds in 1..60_u64, cut in any::<prop::sample::Index>()) {
        let file = thinned(&recorded(seed, seconds, false));
        let all = items(&file);
        let read = items(&file[..cut.index(file.len())]);
        let good = read.iter().filter(|item| !matches!(item, Item::Damage(_))).count();
        prop_assert_eq!(&read[..good], &all[..good]);
        prop_assert!(read.len() - good <= 1);
    }
}

#[test]
fn marks_stay_where_they_were_and_damage_leaves_one() {
    let all = recorded(3, 40, true);
    let mark = |second: u64, kind: &str| Mark::new((FIRST_S + second) * 1_000, kind, "a sentence");
    let mut told: Vec<Item> = all.iter().cloned().map(Item::Sample).collect();
    told.push(Item::Mark(mark(40, "stop")));
    told.insert(25, Item::Damage(Damage { offset: 1, bytes: 77, why: Why::Changed }));
    told.insert(7, Item::Mark(mark(7, "knob")));
    told.insert(0, Item::Mark(mark(0, "start")));
    let read = items(&thin(told));
    let kinds: Vec<(usize, &str)> = read
        .iter()
        .enumerate()
        .filter_map(|(at, item)| if let Item::Mark(mark) = item { Some((at, &*mark.kind)) } else { None })
        .collect();
    assert_eq!(kinds, [(0, "start"), (8, "knob"), (27, "damage"), (43, "stop")]);
    assert!(matches!(&read[27], Item::Mark(mark) if mark.text.contains("77 bytes")), "{:?}", read[27]);
}

#[test]
fn another_recording_in_one_file_is_refused() {
    let (mut thinner, mut out) = (Thinner::default(), Vec::new());
    let sample = recorded(1, 1, true).remove(0);
    let mut other = Schema::clone(sample.shape.schema());
    other.origin.pid = 7;
    let shape = Shape::new(Arc::new(other), sample.shape.rows().to_vec()).expect("it fits");
    let other = Sample { shape: Arc::new(shape), values: sample.values.clone() };
    thinner.take(Item::Sample(sample), &mut out).expect("the first");
    assert!(thinner.take(Item::Sample(other), &mut out).is_err());
}

#[test]
fn a_file_of_the_first_form_from_an_earlier_version_is_read() {
    let file = include_bytes!("recording-1.rec");
    let read = samples(file);
    assert_eq!(read.len(), 35);
    for (second, sample) in (1..).zip(&read) {
        assert_eq!(
            (sample.wall_ms(), sample.values[2], sample.values[3]),
            (second * 1_000, second * 1_000, second * 7919 % 13)
        );
    }
    // It does not say that its rows make a whole: it stays as it is.
    assert_eq!(samples(&thin(items(file))), read);
}

/// Files of a folder: so many seconds each, thinned or not.
fn folder(all: &[Sample], seconds: usize, is_thinned: impl Fn(usize) -> bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (at, samples) in all.chunks(seconds).enumerate() {
        let bytes = if is_thinned(at) { thinned(samples) } else { full(samples) };
        std::fs::write(path(folder.path(), at, samples), bytes).expect("written");
    }
    folder
}

fn path(folder: &Path, at: usize, samples: &[Sample]) -> std::path::PathBuf {
    let begun = jiff::Timestamp::from_millisecond(samples[0].wall_ms() as i64).expect("a time");
    folder.join(format!("{:010}-{}.rec", at + 1, begun.strftime("%Y%m%dT%H%M%SZ")))
}

fn plotted(folder: &Path, words: &[&str], (from, to): (u64, u64), points: u64) -> Series {
    let selection = Selection::of(words.iter().copied(), &schema()).expect("it is there");
    let mut plotter =
        Plotter::new(&selection, ((FIRST_S + from) * 1_000, (FIRST_S + to) * 1_000 + 999), u64::MAX, points);
    let mut files = Files::open(folder, 0, None).expect("a folder");
    while let Some(said) = files.next().expect("it is read") {
        if !plotter.take(said) {
            break;
        }
    }
    plotter.finish()
}

fn column<'a>(series: &'a Series, row: &str, field: &str) -> &'a Column {
    series.columns.iter().find(|column| column.row == row && column.field == field).expect("a column")
}

/// Two that may differ by what sums of other parts differ.
fn near(a: &[Option<f64>], b: &[Option<f64>]) {
    assert_eq!(a.len(), b.len());
    for (at, (a, b)) in a.iter().zip(b).enumerate() {
        let same = match (a, b) {
            (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * b.abs(),
            (None, None) => true,
            _ => false,
        };
        assert!(same, "{a:?} and {b:?} at {at}");
    }
}

#[test]
fn totals_of_thinned_and_full_files_are_the_same_over_all_ends_of_files() {
    let all = recorded(5, 400, false);
    let was = folder(&all, 90, |_| false);
    for is_thinned in [|at| at < 2, |_| true, |at| at == 1] {
        let is = folder(&all, 90, is_thinned);
        for points in [1_000, 20] {
            let of = |folder: &Path| plotted(folder, &["shard:all", "cpu"], (1, 400), points);
            let (was, is) = (of(was.path()), of(is.path()));
            assert_eq!((was.times_ms.clone(), &was.thinned), (is.times_ms.clone(), &is.thinned));
            for field in ["logins", "sessions", "oldest", "busy", "each"] {
                near(&column(&is, ALL, field).values, &column(&was, ALL, field).values);
            }
            near(&column(&is, "", "ticks").values, &column(&was, "", "ticks").values);
        }
    }
}

#[test]
fn rows_of_thinned_seconds_have_right_rates_of_ten_and_nothing_in_between() {
    let all = recorded(6, 200, true);
    let (was, is) = (folder(&all, 100, |_| false), folder(&all, 100, |at| at == 0));
    let series = plotted(is.path(), &["shard.logins"], (1, 199), 1_000);
    assert_eq!((series.times_ms.len(), &series.thinned[..]), (199, &["shard".to_owned()][..]));
    let logins = |at: usize| row(&all[at], "3").expect("a shard")[0];
    let told = &column(&series, "3", "logins").values;
    let mut before = 0;
    for at in 1..200 {
        // The first of ten by the clock, the last of the file; each in the second file.
        let is_whole = (FIRST_S as usize + at).is_multiple_of(10) || at >= 99;
        assert_eq!(told[at - 1].is_some(), is_whole, "at {at}");
        if is_whole {
            let wanted = (logins(at) - logins(before)) as f64 / (at - before) as f64;
            near(&[told[at - 1]], &[Some(wanted)]);
            before = at;
        }
    }
    // Longer intervals end where rows are, and are exact.
    let (was, is) =
        (plotted(was.path(), &["shard.logins"], (1, 199), 6), plotted(is.path(), &["shard.logins"], (1, 199), 6));
    assert!(column(&is, "3", "logins").values.iter().all(Option::is_some) && is.times_ms.len() >= 5, "{is:?}");
    let sum = |series: &Series| {
        let ends = [&[FIRST_S * 1_000][..], &series.times_ms].concat();
        let lengths = ends.windows(2).map(|two| ((two[1] - two[0]) as f64 / 1_000.0).round());
        lengths
            .zip(&column(series, "3", "logins").values)
            .map(|(length, rate)| length * rate.expect("a rate"))
            .sum::<f64>()
    };
    for series in [&was, &is] {
        let end = (series.times_ms.last().expect("some") / 1_000 - FIRST_S) as usize;
        assert!((sum(series) - (logins(end) - logins(0)) as f64).abs() < 1e-6, "{series:?}");
    }
}

/// What `throng sar` says.
fn sar(folder: &Path, words: &[&str]) -> (String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let command = throng_recorder::sar::command().no_binary_name(false);
    let from = ["sar", "--utc", "--from", folder.to_str().expect("a path")];
    let matches = command.try_get_matches_from(from.iter().chain(words)).expect("good arguments");
    let setting = Setting { json: words.contains(&"--count"), columns: Some(120), stop: Arc::default() };
    throng_recorder::sar::run(&matches, &setting, &mut out, &mut err).expect("it is read");
    (String::from_utf8(out).expect("text"), String::from_utf8(err).expect("text"))
}

#[test]
fn sar_says_in_a_word_what_is_thinned() {
    let all = recorded(7, 60, true);
    let folder = folder(&all, 30, |at| at == 0);
    let (text, _) = sar(folder.path(), &["shard.logins"]);
    assert_eq!(text.matches("-- thinned: single rows of shard are here every 10 s only").count(), 1, "{text}");
    assert_eq!(text.matches("-- single rows are here each time again").count(), 1, "{text}");
    // 13:46:43 is the first; of the thinned seconds each has `all`, of the others none.
    let lines = |row: &str| text.lines().filter(|line| line.split_whitespace().nth(1) == Some(row)).count();
    assert_eq!((lines("all"), lines("3")), (29 + 1, 3 + 1 + 30 + 1), "{text}");
    // What was not asked for is not shown, and nothing is made up.
    let (text, _) = sar(folder.path(), &["cpu", "shard:3.logins"]);
    let line = |time: &str| text.lines().find(|line| line.starts_with(time)).unwrap_or_default().to_owned();
    assert!(line("13:46:48").ends_with(" -") && !line("13:46:50").ends_with(" -"), "{text}");
    assert!(!text.contains("shard:all"), "{text}");
    // In the forms for programs, too.
    let (text, err) = sar(folder.path(), &["shard.logins", "--csv"]);
    assert!(err.contains("-- thinned: ") && text.contains("Z,all,"), "{err}{text}");
    let (text, _) = sar(folder.path(), &["shard.logins", "--count", "100"]);
    let objects: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let notes: Vec<_> = objects.iter().filter_map(|object| object.get("thinned")).cloned().collect();
    assert_eq!(notes, [serde_json::json!(["shard"]), serde_json::json!([])]);
    let thin = objects
        .iter()
        .find(|object| object["time"].as_str().is_some_and(|time| time.contains("13:46:48")))
        .expect("it");
    assert_eq!(thin["shard"].as_object().expect("rows").keys().collect::<Vec<_>>(), [ALL]);
    // Nothing of that where nothing is thinned, or rows are not asked for.
    let (text, _) = sar(folder.path(), &["cpu", "shard:all"]);
    assert!(!text.contains("thinned"), "{text}");
    // Half a minute a line: the first ends with the last sample of the file.
    let (text, _) = sar(folder.path(), &["shard:3.logins", "-i", "20"]);
    assert!(text.lines().filter(|line| line.starts_with("13:4")).all(|line| !line.ends_with('-')), "{text}");
}

#[test]
fn who_reads_a_file_while_it_is_replaced_misses_nothing() {
    let all = recorded(8, 120, true);
    let folder = folder(&all, 60, |_| false);
    let mut files = Files::open(folder.path(), 0, Some(Arc::default())).expect("a folder");
    let mut seconds = Vec::new();
    while let Some(said) = files.next().expect("it is read") {
        match said {
            Said::Sample(sample) => seconds.push(sample.wall_ms() / 1_000),
            Said::Waiting => break,
            other => panic!("{other:?}"),
        }
        if seconds.len() == 20 {
            let (at, new) = (path(folder.path(), 0, &all), folder.path().join("new"));
            std::fs::write(&new, thinned(&all[..60])).expect("written");
            std::fs::rename(new, at).expect("it takes its place");
        }
    }
    assert_eq!(seconds, (0..120).map(|second| FIRST_S + second).collect::<Vec<_>>());
}

/// Hands out a file in pieces, as a server does; from the second piece on it is thinned, and so is another file.
struct Replaced {
    files: [Vec<u8>; 2],
    piece: usize,
    asked: std::cell::Cell<usize>,
    form: std::cell::Cell<usize>,
}

impl Place for Replaced {
    fn name(&self) -> String {
        "elsewhere".into()
    }

    fn parts(&self) -> Result<Vec<Part>, Failure> {
        Ok([1, 2].map(|number| Part { number, begun_s: number as i64, path: "there".into() }).to_vec())
    }

    fn read(&self, part: &Part, known: u64, into: &mut Vec<u8>) -> Result<Had, Failure> {
        if part.number == 2 {
            return Ok(Had::More);
        }
        let asked = self.asked.replace(self.asked.get() + 1);
        let form = usize::from(asked > 0);
        if known > 0 && form != self.form.get() {
            return Ok(Had::Replaced);
        }
        self.form.set(form);
        let file = &self.files[form];
        let end = if form == 0 { self.piece } else { file.len() };
        into.extend_from_slice(&file[(known as usize).min(end)..end]);
        Ok(Had::More)
    }

    fn head(&self, _: &Part) -> Option<Vec<u8>> {
        None
    }
}

#[test]
fn who_follows_from_elsewhere_goes_on_in_the_thinned_file_where_it_was() {
    let all = recorded(9, 60, true);
    let files = [full(&all), thinned(&all)];
    for piece in [files[0].len() / 3, files[0].len() / 2 + 1] {
        let place = Replaced { files: files.clone(), piece, asked: Default::default(), form: Default::default() };
        let mut feed = Files::at(Rc::new(place), 0, Some(Arc::default())).expect("it is there");
        let mut seconds = Vec::new();
        loop {
            match feed.next().expect("it is read") {
                Some(Said::Sample(sample)) => seconds.push(sample.wall_ms() / 1_000),
                Some(Said::Waiting) | None => break,
                Some(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(seconds, (0..60).map(|second| FIRST_S + second).collect::<Vec<_>>());
    }
}
