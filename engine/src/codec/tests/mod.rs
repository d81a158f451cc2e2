//! The written forms: complete, stable, and safe to read whatever the bytes are.

mod drawn;
mod samples;

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Error, FORMAT, Kind, Written, decode, encode, rewrite};
use crate::id::{Border, Now, ShardId};
use crate::kernel::pending::Pending;
use crate::letters::{Letter, Letters, LoginLetter, UserLetter};
use crate::limits::{CROSSING_BYTES_MAX, CROSSING_NESTED_MAX};
use crate::session::half::Halves;
use crate::session::moved::Moved;
use crate::store::hash::Hashes;
use drawn::{Given, drawn, missing};
use samples::{ANSWERS, Draw, LETTERS, NEWS, NOW_MS, QUESTIONS, answer_name, letter_name, news_name, question_name};

const NOW: Now = Now::new(NOW_MS, 0);

/// Later than any time.
const LATEST: Now = Now::new(u64::MAX, 0);

/// A value is read as it was written. Returns what was written.
fn returns<T: Written + Clone + PartialEq + std::fmt::Debug>(value: T) -> Vec<u8> {
    let bytes = encode(value.clone(), LATEST).expect("it can be written");
    assert_eq!(bytes[..2], [FORMAT, T::KIND as u8]);
    let back: T = decode(&bytes, LATEST).expect("it can be read");
    assert_eq!(back, value);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read_back(seed: u64) {
        let mut draw = Draw(seed);
        returns(draw.batch());
        returns(draw.moved());
        returns(draw.handover());
        returns(draw.managed());
    }

    /// Bytes that nobody has written are refused, or are a value that can be written again.
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, kind in 1..=Kind::ALL.len() as u8) {
        reads(&[&[FORMAT, kind], &bytes[..]].concat());
    }

    /// The same with bytes that are nearly a value.
    #[test]
    fn damaged_bytes_are_read_without_a_panic(seed: u64, at: proptest::sample::Index, by: u8, cut: bool) {
        for mut bytes in written(seed) {
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            if cut {
                bytes.truncate(at);
            }
            reads(&bytes);
        }
    }
}

/// A value of each kind.
fn written(seed: u64) -> Vec<Vec<u8>> {
    let mut draw = Draw(seed);
    let all = [
        encode(draw.batch(), NOW),
        encode(draw.moved(), NOW),
        encode(draw.handover(), NOW),
        encode(draw.managed(), NOW),
        encode(values::<Pending>().nth(seed as usize % 50).expect("there are more"), NOW),
        encode(values::<Halves>().nth(seed as usize % 50).expect("there are more"), NOW),
    ];
    all.into_iter().map(|bytes| bytes.expect("it can be written")).collect()
}

/// Reads bytes. What is read can be written, and is read again.
fn reads(bytes: &[u8]) {
    if let Ok(once) = rewrite(bytes, NOW) {
        assert_eq!(rewrite(&once, NOW).expect("what was written can be read"), once);
    }
}

/// Writes a seed corpus of the fuzz target `letters`.
#[test]
#[ignore = "writes files"]
#[allow(clippy::disallowed_methods, reason = "its output is files")]
fn write_a_corpus() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/letters");
    std::fs::create_dir_all(&folder).unwrap();
    for seed in 0..4 {
        for (kind, bytes) in written(seed).into_iter().enumerate() {
            std::fs::write(folder.join(format!("{}-{seed}", kind + 1)), bytes).unwrap();
        }
    }
}

/// Values of which only the bytes are in a written form: an element, a key of Web Push, a tag and an
/// account's record.
fn shapes() -> Vec<&'static [u8]> {
    let credentials = Draw(0).credentials();
    let mut record = Vec::new();
    credentials.encode(&mut record);
    vec![b"<x xmlns='y'/>", &[4; 65], &[7; 32], record.leak()]
}

/// Values of a type, drawn from one seed after the other.
fn values<T: Written>() -> impl Iterator<Item = T> {
    let (mut given, bytes) = (Given::new(), shapes());
    (0..).filter_map(move |seed| drawn(seed, &mut given, &bytes))
}

/// Values drawn at most; fewer are sufficient.
const DRAWN_MAX: u64 = 100_000;

/// Draws values until each variant of each enum in them was written and read back. These enums are
/// found by reading, so none can be forgotten. Returns how many there are, and a hash of what was
/// written.
fn all_return<T: Written + Clone + PartialEq + std::fmt::Debug>() -> (usize, u64) {
    let (mut given, bytes, mut written) = (Given::new(), shapes(), Vec::new());
    for seed in 0..DRAWN_MAX {
        if let Some(mut value) = drawn::<T>(seed, &mut given, &bytes) {
            // What is not written, but follows from the rest.
            value.cross(Border::Arrives(LATEST));
            written.extend(returns(value));
        }
        if seed % 200 == 199 && missing(&given).is_empty() {
            break;
        }
    }
    assert_eq!(missing(&given), [], "of {} enums", given.len());
    (given.len(), crate::id::hash(&written))
}

#[test]
fn every_variant_of_what_waits_and_of_sessions_is_read_back() {
    let found = [all_return::<Pending>(), all_return::<Halves>()];
    assert_eq!(
        found,
        [(89, 1_159_095_915_782_579_695), (2, 7_346_148_722_678_967_830)],
        "the written form of format {FORMAT} is another one"
    );
}

/// A step of a request may hold another one; what is nested without end needs no stack without end.
#[test]
fn nested_requests_are_bounded() {
    // `RequestRead::Bound` with a `join` whose request begins with the next one, the last one with
    // a `last`; each joins an empty vCard.
    let bytes = |levels: usize| {
        let (begins, ends) = ([3, 0].repeat(levels), [0, 0, 1, 0, 0, 0].repeat(levels));
        [&[FORMAT, Kind::Pending as u8, 3, 2, 0, 0][..], &begins, &[4, 0], &ends].concat()
    };
    let fits = usize::from(CROSSING_NESTED_MAX) - 1;
    for levels in [0, 8, fits] {
        decode::<Pending>(&bytes(levels), NOW).unwrap_or_else(|error| panic!("{levels} levels: {error}"));
    }
    for levels in [fits + 1, 17, 100_000] {
        let refused = decode::<Pending>(&bytes(levels), NOW).unwrap_err().to_string();
        assert!(refused.starts_with("a request that waits is damaged: "), "{levels} levels: {refused}");
    }
}

#[test]
fn every_letter_has_a_sample() {
    let batch = Draw(1).batch();
    let mut seen = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
    for letter in batch.letters() {
        seen[0].insert(letter_name(letter));
        match letter {
            Letter::Login(LoginLetter::Ask { question, .. }) => _ = seen[1].insert(question_name(question)),
            Letter::Login(LoginLetter::Answer { answer, .. }) => _ = seen[2].insert(answer_name(answer)),
            Letter::User(UserLetter::Presence { news, .. }) => _ = seen[3].insert(news_name(news)),
            _ => {}
        }
    }
    let all = [LETTERS, QUESTIONS, ANSWERS, NEWS].map(|names| names.iter().copied().collect::<BTreeSet<_>>());
    assert_eq!(seen, all);
}

/// A change of anything that is written changes these numbers. It then needs a new [`FORMAT`], and a
/// reader of this one for as long as members of both may meet.
#[test]
fn the_format_has_not_changed() {
    let hash = |bytes: &[u8]| crate::id::hash(bytes);
    let mut draw = Draw(0);
    let [batch, moved, handover] =
        [encode(draw.batch(), NOW).unwrap(), encode(draw.moved(), NOW).unwrap(), encode(draw.handover(), NOW).unwrap()];
    let found = [(batch.len(), hash(&batch)), (moved.len(), hash(&moved)), (handover.len(), hash(&handover))];
    let kept = [(5072, 7_241_305_035_308_090_403), (68, 7_147_724_216_357_149_530), (795, 3_894_158_734_602_749_607)];
    assert_eq!(found, kept, "the written form of format {FORMAT} is another one");
}

#[test]
fn what_this_build_does_not_read_is_refused_in_words() {
    let bytes = encode(Draw(3).batch(), NOW).unwrap();
    let refused = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        decode::<Letters>(&bytes, NOW).unwrap_err().to_string()
    };
    assert_eq!(refused(0, 7), "this value is of format 7; this build reads formats 1 to 1: update this member first");
    assert_eq!(
        refused(0, 0),
        "this value is of format 0; this build reads formats 1 to 1: update the other member first"
    );
    assert_eq!(refused(1, Kind::Bosh as u8), "expected a batch of letters, received a BOSH session");
    assert_eq!(
        refused(1, 99),
        "expected a batch of letters, received a value of kind 99, which this build does not know"
    );
    assert_eq!(decode::<Letters>(&[1], NOW), Err(Error::Short));
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(decode::<Letters>(&longer, NOW).unwrap_err().to_string(), "1 bytes follow the end of the value");
    let long = vec![FORMAT; CROSSING_BYTES_MAX + 1];
    let said = decode::<Letters>(&long, NOW).unwrap_err().to_string();
    assert!(said == "the value has 67108865 bytes; at most 67108864 may cross", "{said}");
}

/// A position outside its batch, or within a character of an address, would panic where it is used.
#[test]
fn letters_refer_to_nothing_outside_their_batch() {
    let component = Letters::new(ShardId(1));
    let empty = encode(component, NOW).unwrap();
    // Sender, addresses, text, letters; then one `Delivery::Refused` of an address.
    assert_eq!(empty[2..], [1, 0, 0, 0]);
    let refused = |start: u8, len: u8| {
        let mut bytes = vec![FORMAT, Kind::Letters as u8, 1, 2];
        bytes.extend_from_slice("\u{e9}".as_bytes());
        bytes.extend_from_slice(&[0, 1, 1, 3, start, len, 9]);
        decode::<Letters>(&bytes, NOW)
    };
    assert!(refused(0, 2).is_ok() && refused(2, 0).is_ok());
    for (start, len) in [(0, 1), (1, 1), (0, 3), (3, 0)] {
        assert!(refused(start, len).is_err(), "{start} {len}");
    }
}

/// Monotonic times are those of the process that reads them.
#[test]
fn times_are_translated() {
    let moved = Moved { accepted_s: 90, ..Draw(5).moved() };
    let bytes = encode(moved.clone(), Now::new(100_000, 0)).unwrap();
    let there: Moved = decode(&bytes, Now::new(4_000_000, 0)).unwrap();
    assert_eq!(there.accepted_s, 3_990, "ten seconds ago");
    let young: Moved = decode(&bytes, Now::new(3_000, 0)).unwrap();
    assert_eq!(young.accepted_s, 0, "at the start of the process");
}

/// What cannot be read would be refused as a whole; a limit or a condition must not be forgotten.
#[test]
fn conditions_of_extensions_are_known_when_they_come_back() {
    let sources = [
        include_str!("../../extension/pubsub/error.rs"),
        include_str!("../../extension/adhoc/mod.rs"),
        include_str!("../../extension/upload/mod.rs"),
        include_str!("../../extension/blocking.rs"),
    ];
    let limits = include_str!("../../wire/limit.rs");
    let quoted = |text: &str| text.split('"').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let mut names = BTreeSet::new();
    for text in sources {
        for line in text.lines() {
            let own = line.contains(" = own(Condition::")
                || line.contains("wrong(\"")
                || line.contains("AppError { name: \"");
            if own {
                names.extend(quoted(line).into_iter().take(1));
            } else if let Some((_, feature)) = line.trim().split_once(" = \"").filter(|_| line.contains("    NO_")) {
                names.insert(format!("unsupported feature='{}'", feature.trim_end_matches("\";")));
            }
        }
    }
    assert!(names.len() >= 24, "{names:?}");
    for name in names {
        assert!(limits.contains(&format!("\"{name}\"")), "{name} is not in APP_CONDITIONS");
    }
}

/// A letter as it is on the wire, for the figures in `docs/decisions/0062-codec.md`.
#[test]
fn letters_are_short() {
    use crate::extension::offline::Keep;
    use crate::id::SessionId;
    use crate::letters::{Delivery, Kind, MessageClass, Origin};
    let mut batch = Letters::new(ShardId(1));
    let stanza = "<message from='romeo@localhost/orchard' to='juliet@localhost' type='chat' id='m1'><body>\
        Wherefore art thou?</body></message>";
    let (from, to) = (batch.name("romeo@localhost/orchard"), batch.name("juliet@localhost"));
    let xml = batch.write(stanza.as_bytes());
    let session = SessionId { slot: 70_000, generation: 3 };
    let origin = Some(Origin { shard: ShardId(1), session, seq: 900, entry: 1 << 30 });
    let kind = Kind::Message { class: MessageClass::Chat, keep: Keep::Archive };
    batch.push(Letter::Stanza { kind, origin, from, to, xml });
    let text = batch.text_bytes();
    let bytes = encode(batch, NOW).unwrap().len();
    assert!(bytes - text <= 40, "a message has {} bytes beside its {text} of text", bytes - text);
    let mut confirms = Letters::new(ShardId(1));
    for seq in 0..100 {
        confirms.push(Letter::Delivery(Delivery::Confirm { session, seq: 900 + seq }));
    }
    let bytes = encode(confirms, NOW).unwrap().len();
    assert!(bytes <= 100 * 9, "100 confirmations have {bytes} bytes");
}

#[test]
fn an_unknown_hash_function_is_refused() {
    assert!(Hashes::try_from(8).is_err() && Hashes::try_from(7).is_ok());
}
