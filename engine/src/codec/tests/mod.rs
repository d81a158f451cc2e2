//! The written forms: complete, stable, and safe to read whatever the bytes are.

mod samples;

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Error, FORMAT, Kind, Written, decode, encode};
use crate::id::{Now, ShardId};
use crate::letters::{Letter, Letters, LoginLetter, UserLetter};
use crate::limits::CROSSING_BYTES_MAX;
use crate::session::moved::{Handover, Moved};
use crate::session::sm::Managed;
use crate::store::hash::Hashes;
use samples::{ANSWERS, Draw, LETTERS, NEWS, NOW_MS, QUESTIONS, answer_name, letter_name, news_name, question_name};

const NOW: Now = Now::new(NOW_MS, 0);

fn returns<T: Written + Clone + PartialEq + std::fmt::Debug>(value: T) {
    let bytes = encode(value.clone(), NOW).expect("it can be written");
    assert_eq!(bytes[..2], [FORMAT, T::KIND as u8]);
    let back: T = decode(&bytes, NOW).expect("it can be read");
    assert_eq!(back, value);
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
    fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, kind in 1..=4u8) {
        reads(&[&[FORMAT, kind], &bytes[..]].concat());
    }

    /// The same with bytes that are nearly a value.
    #[test]
    fn damaged_bytes_are_read_without_a_panic(seed: u64, at: proptest::sample::Index, by: u8, cut: bool) {
        let mut draw = Draw(seed);
        for mut bytes in [
            encode(draw.batch(), NOW).unwrap(),
            encode(draw.moved(), NOW).unwrap(),
            encode(draw.handover(), NOW).unwrap(),
            encode(draw.managed(), NOW).unwrap(),
        ] {
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            if cut {
                bytes.truncate(at);
            }
            reads(&bytes);
        }
    }
}

/// Reads bytes as each kind. What is read is used as far as a shard does before it looks at meaning.
fn reads(bytes: &[u8]) {
    if let Ok(batch) = decode::<Letters>(bytes, NOW) {
        assert!(batch.len() <= bytes.len());
        encode(batch, NOW).expect("what was read can be written");
    }
    if let Ok(moved) = decode::<Moved>(bytes, NOW) {
        encode(moved, NOW).expect("what was read can be written");
    }
    if let Ok(managed) = decode::<Managed>(bytes, NOW) {
        encode(managed, NOW).expect("what was read can be written");
    }
    if let Ok(handover) = decode::<Handover>(bytes, NOW) {
        encode(handover, NOW).expect("what was read can be written");
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
        let mut draw = Draw(seed);
        let all = [
            encode(draw.batch(), NOW),
            encode(draw.moved(), NOW),
            encode(draw.handover(), NOW),
            encode(draw.managed(), NOW),
        ];
        for (kind, bytes) in all.into_iter().enumerate() {
            std::fs::write(folder.join(format!("{}-{seed}", kind + 1)), bytes.unwrap()).unwrap();
        }
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
    let kept = [(5072, 6_436_825_047_078_589_002), (68, 7_147_724_216_357_149_530), (795, 3_894_158_734_602_749_607)];
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
