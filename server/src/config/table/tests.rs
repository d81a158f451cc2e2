//! Properties of every row of the table of options.

use super::*;
use std::collections::BTreeSet;

#[test]
fn every_row_has_a_plain_key_a_sentence_and_a_default_in_its_range() {
    let mut seen = BTreeSet::new();
    for row in TABLE {
        assert!(seen.insert(row.key), "{} twice", row.key);
        assert!(row.key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'), "{}", row.key);
        assert!(row.help.ends_with('.') && row.help.len() < 130, "{}: {}", row.key, row.help);
        assert!(row.more.is_empty() || row.more.ends_with('.'), "{}", row.key);
        if let Kind::Seconds { .. } = row.kind {
            assert!(row.key.ends_with("_seconds"), "{} names no unit", row.key);
        }
        if let Kind::Bytes { .. } = row.kind {
            assert!(row.key.contains("bytes"), "{} names no unit", row.key);
        }
    }
    let defaults: Vec<Vec<String>> = TABLE.iter().map(|row| vec![row.default.to_owned()]).collect();
    let config = Config::read(&defaults).expect("defaults are allowed");
    for (row, shown) in TABLE.iter().zip(config.shown()) {
        assert_eq!(shown, canonical(row), "{}", row.key);
    }
}

/// The default in the form of `show`: seconds have their unit.
fn canonical(row: &Row) -> String {
    match row.kind {
        Kind::Seconds { .. } if row.default.ends_with(|c: char| c.is_ascii_digit()) && row.default != "0" => {
            super::super::kind::show_seconds(row.default.parse().expect("digits"))
        }
        _ => row.default.to_owned(),
    }
}

#[test]
fn both_ends_of_every_range_are_allowed_and_the_next_values_are_not() {
    for (index, row) in TABLE.iter().enumerate() {
        let (min, max) = match row.kind {
            Kind::Count { min, max, .. }
            | Kind::CountOrAuto { min, max, .. }
            | Kind::Bytes { min, max }
            | Kind::Seconds { min, max } => (min, max),
            _ => continue,
        };
        let with = |value: u64| {
            let mut texts: Vec<Vec<String>> = TABLE.iter().map(|row| vec![row.default.to_owned()]).collect();
            texts[index] = vec![value.to_string()];
            Config::read(&texts)
        };
        assert!(with(min).is_ok() && with(max).is_ok(), "{}", row.key);
        let over = with(max + 1).expect_err(row.key);
        assert_eq!(over, vec![NotAllowed { key: row.key, found: (max + 1).to_string() }]);
        assert!(min == 0 || with(min - 1).is_err(), "{}", row.key);
    }
}

#[test]
fn names_are_found_in_every_spelling_and_typos_have_a_neighbour() {
    for name in ["c2s_tls", "c2s-tls", "--c2s-tls", "THRONG_C2S_TLS"] {
        assert_eq!(row(name).map(|row| row.key), Some("c2s_tls"));
    }
    assert_eq!(nearest("stanza_byte_max"), Some("stanza_bytes_max"));
    assert_eq!(nearest("shard"), Some("shards"));
    assert_eq!(nearest("doamin"), Some("domain"));
    assert_eq!(nearest("waiting_messages"), Some("waiting_messages_max"));
    assert_eq!(nearest("xyzzy_quux"), None);
}
