//! Files of the recorder: whatever is in one, reading it ends, tells what it skipped, and takes each byte once; thinned, it has
//! the same seconds, and what stays of them is the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use throng_recorder::read::{Decoder, Item};
use throng_recorder::record::{MAGIC, MAGIC_THINNED, sealed};
use throng_recorder::table::{Detail, Sample};
use throng_recorder::thin::Thinner;

/// A small schema: two modules, one with rows that make a whole.
const SCHEMA: &str = r#"{"origin":{"host":"h","kernel":"k","cores":1,"boot":"b","pid":1,"interval_ms":1000,"program":"p"},"modules":[
{"name":"a","help":"","rows_max":1,"fields":[{"name":"x","unit":"","kind":"count","per":1,"width":6,"help":""}]},
{"name":"b","help":"","instance":"row","rows_max":9,"adds_up":true,"fields":[{"name":"y","unit":"","kind":"gauge","per":1,"width":6,"help":""}]}]}"#;

fuzz_target!(|input: &[u8]| {
    let [mode, cut, rest @ ..] = input else { return };
    let mut file = if mode & 4 == 0 { MAGIC } else { MAGIC_THINNED }.to_vec();
    if mode & 1 == 0 {
        // Any bytes, as they are.
        if mode & 2 == 0 {
            file.clear();
        }
        file.extend_from_slice(rest);
    } else {
        // Records with the right checksums and any content, so that more than checksums is met.
        sealed(1, SCHEMA.as_bytes(), &mut file);
        // In a record whose end has not come, what looks like the next segment is taken for it: by chance that is one in 2^64.
        if rest.windows(8).any(|eight| eight == b"\xd3\x1eTHRONG") {
            return;
        }
        let name = crc32c::crc32c(SCHEMA.as_bytes()).to_le_bytes();
        let mut rest = rest;
        while let [kind, length, behind @ ..] = rest {
            let (content, behind) = behind.split_at(usize::from(*length).min(behind.len()));
            rest = behind;
            let kind = kind % 7;
            let content = if matches!(kind, 2 | 5) { [&name, content].concat() } else { content.to_vec() };
            sealed(kind, &content, &mut file);
        }
    }
    let (mut whole, mut at, mut all) = (Decoder::default(), 0, Vec::new());
    while let Some(item) = whole.next(&file, &mut at, true) {
        assert!(at <= file.len());
        all.push(item);
    }
    assert_eq!(at, file.len(), "all of it was looked at");
    // Read while it is written: the same, but that damage may be seen as two.
    let first = file.len() * usize::from(*cut) / 256;
    let (mut follower, mut at, mut followed) = (Decoder::default(), 0, Vec::new());
    while let Some(item) = follower.next(&file[..first], &mut at, false) {
        followed.push(item);
    }
    while let Some(item) = follower.next(&file, &mut at, true) {
        followed.push(item);
    }
    let good = |items: Vec<Item>| items.into_iter().filter(|item| !matches!(item, Item::Damage(_))).collect::<Vec<_>>();
    let all = good(all);
    assert_eq!(all, good(followed));
    thinned(all);
});

/// What is in a file as it is recorded, thinned and read back.
fn thinned(all: Vec<Item>) {
    let is_full = |sample: &Sample| (0..sample.shape.rows().len()).all(|at| sample.shape.detail(at) == Detail::Each);
    // A ring thins only what is in full.
    if !all.iter().all(|item| !matches!(item, Item::Sample(sample) if !is_full(sample))) {
        return;
    }
    let (mut thinner, mut file) = (Thinner::default(), Vec::new());
    for item in &all {
        thinner.take(item.clone(), &mut file).expect("one description");
    }
    thinner.finish(&mut file);
    let samples = |items: Vec<Item>| -> Vec<Sample> {
        items.into_iter().filter_map(|item| if let Item::Sample(sample) = item { Some(sample) } else { None }).collect()
    };
    let was = samples(all);
    if was.is_empty() {
        return;
    }
    let (mut decoder, mut at, mut is) = (Decoder::default(), 0, Vec::new());
    while let Some(item) = decoder.next(&file, &mut at, true) {
        assert!(!matches!(item, Item::Damage(_)), "{item:?}");
        is.push(item);
    }
    let is = samples(is);
    assert_eq!(is.len(), was.len());
    for (was, is) in was.iter().zip(&is) {
        for module in 0..was.shape.rows().len() {
            let rows = was.shape.row_at(module, 0)..was.shape.row_at(module, was.shape.rows()[module].len());
            if is.shape.detail(module) != Detail::All {
                assert_eq!(is.values[is.shape.row_at(module, 0)..][..rows.len()], was.values[rows]);
            }
        }
        assert_eq!(is.values[..2], was.values[..2]);
    }
}
