//! A file of the recorder that was cut off or changed is read up to the damage and on behind it, and says so
//! (docs/recorder.md, "The files").

use throng_recorder::read::{Decoder, Item, Why, items};
use throng_recorder::recorder::{Recorder, Sampler};
use throng_recorder::schema::{Field, Module, Origin};
use throng_recorder::table::{Sample, Source, Table};

/// Counts, and gets another row every ten samples, so that another segment begins.
struct Counting(u64);

impl Source for Counting {
    fn modules(&self) -> Vec<Module> {
        let fields = vec![Field::count("count", "", 6, "Counts."), Field::gauge("level", "", 6, "Goes up and down.")];
        vec![Module::single("counting", "Counts.", fields).by("row", 100)]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        self.0 += 1;
        for row in 0..=self.0 / 10 {
            if let Some(numbers) = tables[0].row(row.to_string().as_bytes()) {
                numbers.copy_from_slice(&[self.0 * 1000 + row, self.0 * 7919 % 13]);
            }
        }
    }
}

const SAMPLES: u64 = 35;

/// A small recording of several segments, with marks.
fn recording() -> Vec<u8> {
    let sampler = Sampler::new(Origin { host: "h".into(), ..Origin::default() }, vec![Box::new(Counting(0))]);
    let mut recorder = Recorder::new(sampler, 1 << 20, None);
    for second in 1..=SAMPLES {
        if second % 12 == 0 {
            recorder.handle().mark(second * 1000, "knob", "turn_length 5");
        }
        recorder.tick(second * 1000, second * 1_000_000 + second);
    }
    recorder.handle().recent()
}

fn samples(items: &[Item]) -> Vec<&Sample> {
    items.iter().filter_map(|item| if let Item::Sample(sample) = item { Some(sample) } else { None }).collect()
}

fn damages(items: &[Item]) -> Vec<Why> {
    items.iter().filter_map(|item| if let Item::Damage(damage) = item { Some(damage.why) } else { None }).collect()
}

#[test]
fn a_recording_reads_back() {
    let file = recording();
    let all = items(&file);
    assert_eq!((samples(&all).len() as u64, damages(&all)), (SAMPLES, vec![]));
    for (second, sample) in (1..).zip(samples(&all)) {
        assert_eq!((sample.wall_ms(), sample.monotonic_us()), (second * 1000, second * 1_000_001));
        assert_eq!(sample.values[2], second * 1000);
    }
    let marks: Vec<_> =
        all.iter().filter_map(|item| if let Item::Mark(mark) = item { Some(&*mark.kind) } else { None }).collect();
    assert_eq!(marks, ["start", "knob", "knob"]);
    assert!(file.len() < 3_000, "{} bytes: more than the tests below want to go through", file.len());
}

#[test]
fn cut_off_anywhere_it_is_read_up_to_there() {
    let file = recording();
    let all = items(&file);
    for length in 0..file.len() {
        let cut = items(&file[..length]);
        let good = cut.iter().filter(|item| !matches!(item, Item::Damage(_))).count();
        assert_eq!(cut[..good], all[..good], "cut at {length}");
        // Between two records nothing shows that there were more.
        let told = &cut[good..];
        assert!(told.len() <= 1 && damages(told).iter().all(|why| *why == Why::CutOff), "cut at {length}: {told:?}");
        // While it is written that is no damage: the rest comes later, and nothing is missed.
        let (mut decoder, mut at, mut followed) = (Decoder::default(), 0, Vec::new());
        followed.extend(std::iter::from_fn(|| decoder.next(&file[..length], &mut at, false)));
        assert_eq!(followed, all[..good], "followed up to {length}");
        followed.extend(std::iter::from_fn(|| decoder.next(&file, &mut at, true)));
        assert_eq!(followed, all, "followed from {length} on");
    }
}

#[test]
fn any_bit_that_flips_is_found_and_costs_a_segment_at_most() {
    let mut file = recording();
    let all = items(&file);
    let known = samples(&all);
    let head = file.windows(8).skip(17).position(|eight| *eight == file[16..24]).expect("a segment") + 17;
    for bit in 0..8 * file.len() {
        file[bit / 8] ^= 1 << (bit % 8);
        let read = items(&file);
        assert!(!damages(&read).is_empty(), "bit {bit} went unnoticed");
        let got = samples(&read);
        // A length that flips is told apart from the end, but for that of the last record.
        let cut = damages(&read).contains(&Why::CutOff);
        assert!(!cut || bit / 8 + 100 > file.len(), "bit {bit} is told as the end");
        assert!(got.iter().all(|sample| known.contains(sample)), "bit {bit} changed a number");
        if bit / 8 >= head {
            // A segment has ten samples here; one whose head is gone takes the rest of the one in front with it.
            assert!(known.len() - got.len() <= 11, "bit {bit} cost {}", known.len() - got.len());
        }
        file[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn one_who_follows_finds_the_same_behind_damage() {
    let mut file = recording();
    let good = |items: Vec<Item>| items.into_iter().filter(|item| !matches!(item, Item::Damage(_))).collect::<Vec<_>>();
    let sync = |file: &[u8], nth: usize| {
        let syncs = file.windows(8).enumerate().filter(|(_, eight)| *eight == &file[16..24]);
        syncs.map(|(at, _)| at).nth(nth).expect("a segment")
    };
    let at = sync(&file, 2) + 20;
    file[at] ^= 1;
    let wanted = good(items(&file));
    for first in at..sync(&file, 3) + 40 {
        let (mut decoder, mut at, mut followed) = (Decoder::default(), 0, Vec::new());
        followed.extend(std::iter::from_fn(|| decoder.next(&file[..first], &mut at, false)));
        followed.extend(std::iter::from_fn(|| decoder.next(&file[..first + 5], &mut at, false)));
        followed.extend(std::iter::from_fn(|| decoder.next(&file, &mut at, true)));
        assert_eq!(good(followed), wanted, "followed from {first} on");
    }
}

#[test]
fn a_description_that_is_lost_is_taken_from_another_file() {
    let (good, mut bad) = (recording(), recording());
    bad[60] ^= 1;
    let read = items(&bad);
    assert_eq!(samples(&read).len(), 0);
    assert!(damages(&read).contains(&Why::SchemaLost), "{read:?}");
    let mut decoder = Decoder::default();
    assert!(decoder.learn(&bad).is_none() && decoder.learn(&good).is_some());
    let mut at = 0;
    let read: Vec<_> = std::iter::from_fn(|| decoder.next(&bad, &mut at, true)).collect();
    assert_eq!((samples(&read).len() as u64, damages(&read)), (SAMPLES, vec![Why::Changed]));
}

#[test]
fn what_is_no_recording_is_told_apart_from_one_of_another_form() {
    assert_eq!(damages(&items(b"Dear diary, today I read a file that is none of mine.")), [Why::NoRecording]);
    assert_eq!(damages(&items(b"throng-record 3\nsomething from the future")), [Why::OtherForm]);
    assert!(items(b"").is_empty());
}
