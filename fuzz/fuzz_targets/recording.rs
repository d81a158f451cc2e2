//! Files of the recorder: whatever is in one, reading it ends, tells what it skipped, and takes each byte once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use throng_recorder::read::{Decoder, Item};
use throng_recorder::record::{MAGIC, sealed};

/// A small schema: two modules, one with rows.
const SCHEMA: &str = r#"{"origin":{"host":"h","kernel":"k","cores":1,"boot":"b","pid":1,"interval_ms":1000,"program":"p"},"modules":[
{"name":"a","help":"","rows_max":1,"fields":[{"name":"x","unit":"","kind":"count","per":1,"width":6,"help":""}]},
{"name":"b","help":"","instance":"row","rows_max":9,"fields":[{"name":"y","unit":"","kind":"gauge","per":1,"width":6,"help":""}]}]}"#;

fuzz_target!(|input: &[u8]| {
    let [mode, cut, rest @ ..] = input else { return };
    let mut file = MAGIC.to_vec();
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
            let kind = kind % 5;
            let content = if kind == 2 { [&name, content].concat() } else { content.to_vec() };
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
    assert_eq!(good(all), good(followed));
});
