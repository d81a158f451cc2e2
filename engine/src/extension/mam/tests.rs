//! Queries over archives in memory: every page of every kind equals the result of a plain scan of
//! all entries.

use std::collections::BTreeMap;

use super::*;
use crate::extension::datetime;
use crate::extension::iq::{IqRequest, ServerFacts};
use crate::id::Now;
use crate::limits::{ARCHIVE_COUNT_BYTES_MAX, ARCHIVE_QUERYID_BYTES_MAX as QUERYID_BYTES_MAX, RETRACTION_ID_BYTES_MAX};
use crate::store::archive::{Entry, put_void};
use crate::store::{Batch, Found, OpView, Query, Row, Table, key, retractions};

const USER: &str = "juliet@x";

/// Rows by their flat keys.
#[derive(Default)]
struct Rows {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    reads: usize,
    bytes: usize,
}

impl Rows {
    fn apply(&mut self, batch: &Batch) {
        for op in batch.iter() {
            match op {
                OpView::Put { table, actor, sort, value } => {
                    let mut flat = Vec::new();
                    key::encode(&mut flat, table, actor, sort);
                    self.rows.insert(flat, value.to_vec());
                }
                OpView::DeleteRange { table, actor, from, until } => {
                    let [from, until] = [from, until].map(|sort| {
                        let mut flat = Vec::new();
                        key::encode(&mut flat, table, actor, sort);
                        flat
                    });
                    self.rows.retain(|key, _| *key < from || *key >= until);
                }
                OpView::Delete { table, actor, sort } => {
                    let mut flat = Vec::new();
                    key::encode(&mut flat, table, actor, sort);
                    self.rows.remove(&flat);
                }
                OpView::DeleteActor { .. } => {}
            }
        }
    }

    fn read(&mut self, query: &Query) -> Found {
        self.reads += 1;
        let (Query::Get { table, actor, .. } | Query::Range { table, actor, .. }) = query;
        let flat = |sort: &[u8]| {
            let mut out = Vec::new();
            key::encode(&mut out, *table, actor, sort);
            out
        };
        let found = match query {
            Query::Get { sort, .. } => Found::Value(self.rows.get(&flat(sort)).map(|value| value[..].into())),
            Query::Range { from, until, reverse, rows_max, bytes_max, .. } => {
                let mut end = flat(b"");
                *end.last_mut().unwrap() = 1;
                let (from, until) = (flat(from), until.as_ref().map_or(end, |until| flat(until)));
                let range = if from < until { from..until } else { until.clone()..until };
                let within = self.rows.range(range);
                let within: Box<dyn Iterator<Item = _>> =
                    if *reverse { Box::new(within.rev()) } else { Box::new(within) };
                let (mut rows, mut bytes, mut more) = (Vec::new(), 0, false);
                for (key, value) in within {
                    if rows.len() >= *rows_max as usize || (!rows.is_empty() && bytes >= *bytes_max as usize) {
                        more = true;
                        break;
                    }
                    bytes += value.len();
                    rows.push(Row { sort: key::decode(key).unwrap().2.into(), value: value[..].into() });
                }
                Found::Rows { rows, more }
            }
        };
        self.bytes += found.bytes();
        found
    }

    /// The answer to a query: the ids of its results, and the payload; or the error's name.
    fn ask(&mut self, inside: &str) -> Result<(Vec<u64>, String), String> {
        let (stanzas, fin) = self.answer(&format!("<query xmlns='urn:xmpp:mam:2'>{inside}</query>"))?;
        let id = |stanza: &Vec<u8>| {
            let text = std::str::from_utf8(stanza).unwrap();
            assert!(xml::parse(stanza).is_some(), "{text}");
            let (_, rest) = text.split_once(" id='").unwrap();
            rest.split_once('\'').unwrap().0.parse().unwrap()
        };
        Ok((stanzas.iter().map(id).collect(), fin))
    }

    fn answer(&mut self, payload: &str) -> Result<(Vec<Vec<u8>>, String), String> {
        let facts = ServerFacts { archive: true, ..ServerFacts::default() };
        let context = Context {
            now: Now::default(),
            server: &facts,
            domains: &crate::id::Domains::of_users("x").into(),
            ids: crate::store::ids::Ids::PLAIN,
            authorized: true,
            groups: &[],
            online: true,
            secure: true,
            admin: false,
            fresh: "",
            inviter: false,
            invitations: crate::extension::invite::may::Invitations::Off,
            invitation_s: 1,
            adhoc: &Default::default(),
            motd: "",
            welcome: "",
            room: 32 << 10,
            note: None,
            jid: |text| crate::wire::jid::normalise(text).ok().map(|jid| (&*jid).into()),
            bare: |_| None,
            local: |_| None,
        };
        let element = xml::parse(payload.as_bytes()).expect("well-formed");
        let request = IqRequest {
            set: element.name() == "query",
            target: Target::Own,
            from: "juliet@x/balcony",
            to: USER,
            account: USER,
            namespace: NS,
            name: element.name(),
            payload: payload.as_bytes(),
        };
        let mut step =
            if element.name() == "query" { query(&context, &request) } else { metadata_of(&context, &request) };
        loop {
            step = match step {
                Step::Paced(step) => *step,
                Step::Read(queries, pending) => {
                    pending.go_on(&context.around(), &queries.iter().map(|query| self.read(query)).collect::<Vec<_>>())
                }
                Step::Prepare(batch, queries, pending) => {
                    self.apply(&batch);
                    pending.go_on(&context.around(), &queries.iter().map(|query| self.read(query)).collect::<Vec<_>>())
                }
                Step::Send(stanzas, fin) => return Ok((stanzas, String::from_utf8(fin).unwrap())),
                Step::Result(payload) => return Ok((Vec::new(), String::from_utf8(payload).unwrap())),
                Step::Error(refusal) => return Err(format!("{:?}", refusal.condition)),
                other => panic!("{other:?}"),
            };
        }
    }
}

/// The content of an archive: number, time in milliseconds, peer, and whether the entry is
/// incoming.
type Plain = Vec<(u64, u64, String, bool)>;

/// An archive with this many entries and peers; some entries share rows, some are void.
fn archive(count: u64, peers: u64) -> (Rows, Plain) {
    let (mut rows, mut plain, mut batch) = (Rows::default(), Vec::new(), Batch::new());
    for n in 0..count {
        let (number, time_ms) = (n * 3 + 7, 1_000_000 + n / 3 * 10);
        let mix = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        let (peer, incoming) = (format!("peer{}@x/r{}", mix % peers, mix % 2), !mix.is_multiple_of(3));
        let xml = format!("<message from='a@x/b' to='c@x'><body>{n}</body></message>");
        let entry = Entry { incoming, waits: incoming, time_ms, peer: &peer, xml: xml.as_bytes(), trail: b"" };
        entry.put(&mut batch, USER, number);
        // Only sent entries can have been refused.
        if !incoming && mix.is_multiple_of(2) {
            put_void(&mut batch, USER, number);
        } else {
            plain.push((number, time_ms, peer, incoming));
        }
        if mix.is_multiple_of(4) {
            rows.apply(&batch);
            batch = Batch::new();
        }
    }
    rows.apply(&batch);
    (rows, plain)
}

fn form(fields: &[(&str, &str)]) -> String {
    let all = [("FORM_TYPE", NS)].iter().chain(fields);
    let fields: String = all.map(|(var, value)| format!("<field var='{var}'><value>{value}</value></field>")).collect();
    format!("<x xmlns='jabber:x:data' type='submit'>{fields}</x>")
}

fn set(max: usize, inside: &str) -> String {
    format!("<set xmlns='http://jabber.org/protocol/rsm'><max>{max}</max>{inside}</set>")
}

/// All pages in one direction.
fn paged(rows: &mut Rows, form: &str, max: usize, back: bool) -> Vec<u64> {
    let mut all: Vec<u64> = Vec::new();
    let mut place = if back { "<before/>".to_owned() } else { String::new() };
    loop {
        let (ids, fin) = rows.ask(&format!("{form}{}", set(max, &place))).expect("a page");
        assert!(ids.is_sorted() && ids.len() <= max, "in order, and no more than was asked for");
        if let ([first, ..], [.., last]) = (&ids[..], &ids[..]) {
            assert!(fin.contains(&format!("<first>{first}</first><last>{last}</last>")), "{fin}");
            place = if back { format!("<before>{first}</before>") } else { format!("<after>{last}</after>") };
        }
        all.splice(if back { 0..0 } else { all.len()..all.len() }, ids);
        if fin.contains("complete='true'") {
            return all;
        }
        assert!(fin.contains("complete='false'") && fin.contains("<last>"), "{fin}");
    }
}

/// The number of results reported to a client, and whether it is told that there are none.
fn counted(rows: &mut Rows, inside: &str) -> (Option<u64>, bool) {
    let (ids, fin) = rows.ask(inside).expect("an answer");
    assert!(ids.is_empty(), "{ids:?}");
    let count = fin.split_once("<count>").map(|(_, rest)| rest.split('<').next().unwrap().parse().expect("a number"));
    (count, fin.contains("complete='true'"))
}

#[test]
fn who_asks_for_no_results_is_told_how_many_there_are_xep_0059_2_7() {
    let (mut rows, plain) = archive(700, 9);
    let all = plain.len() as u64;
    assert_eq!(counted(&mut rows, &set(0, "")), (Some(all), false));
    assert_eq!(counted(&mut rows, &set(0, "<before/>")), (Some(all), false), "the same from the other end");
    let peer = plain[3].2.split('/').next().unwrap().to_owned();
    let with = plain.iter().filter(|(_, _, other, _)| other.starts_with(&format!("{peer}/"))).count() as u64;
    let after = plain[50].0.to_string();
    for (fields, count) in [
        (vec![("with", &*peer)], with),
        (vec![("with", "nobody@x")], 0),
        (vec![("after-id", &*after)], all - 51),
        (vec![("ids", &*after)], 1),
        (vec![("end", "1970-01-01T00:00:00Z")], 0),
    ] {
        assert_eq!(counted(&mut rows, &(form(&fields) + &set(0, ""))), (Some(count), count == 0), "{fields:?}");
    }
    // A page relative to another one covers only part of the matches, so it reports no total; nor
    // do pages with results.
    assert_eq!(counted(&mut rows, &set(0, &format!("<after>{after}</after>"))), (None, false));
    assert!(!rows.ask(&set(3, "")).expect("a page").1.contains("<count>"));
    assert_eq!(counted(&mut Rows::default(), &set(0, "")), (Some(0), true));
}

#[test]
fn a_large_archive_is_not_counted() {
    let (mut rows, mut batch) = (Rows::default(), Batch::new());
    let xml = format!("<message><body>{}</body></message>", "x".repeat(1_000));
    for number in 1..=3_000 {
        let entry =
            Entry { incoming: true, waits: false, time_ms: number, peer: "a@x", xml: xml.as_bytes(), trail: b"" };
        entry.put(&mut batch, USER, number);
        batch.delete(Table::Waiting, b"a@x", b"so that the next one begins a row");
    }
    rows.apply(&batch);
    rows.bytes = 0;
    assert_eq!(counted(&mut rows, &set(0, "")), (None, false));
    assert!(rows.bytes < ARCHIVE_COUNT_BYTES_MAX * 5 / 4, "{} bytes were read", rows.bytes);
    assert_eq!(counted(&mut rows, &(form(&[("after-id", "2500")]) + &set(0, ""))), (Some(500), false));
}

#[test]
fn pages_in_both_directions_are_all_that_matches_and_nothing_else() {
    let (mut rows, plain) = archive(700, 9);
    let stamp = |time_ms: u64| datetime::text(time_ms * 1_000, datetime::Precision::Millis);
    let (from, until) = (plain[100].1, plain[400].1);
    let (after, before) = (plain[50].0, plain[333].0);
    type Case<'a> = (&'a str, Vec<(&'a str, String)>, Box<dyn Fn(&(u64, u64, String, bool)) -> bool>);
    let cases: Vec<Case<'_>> = vec![
        ("all", vec![], Box::new(|_| true)),
        ("4.1.2: start", vec![("start", stamp(from))], Box::new(move |e| e.1 >= from)),
        ("4.1.2: end", vec![("end", stamp(until))], Box::new(move |e| e.1 <= until)),
        (
            "4.1.2: both",
            vec![("start", stamp(from)), ("end", stamp(until))],
            Box::new(move |e| (from..=until).contains(&e.1)),
        ),
        ("4.1.2: between two times", vec![("start", stamp(from + 1))], Box::new(move |e| e.1 > from)),
        (
            "4.1.3",
            vec![("after-id", after.to_string()), ("before-id", before.to_string())],
            Box::new(move |e| e.0 > after && e.0 < before),
        ),
        ("4.1.1: bare", vec![("with", "peer4@x".into())], Box::new(|e| e.2.starts_with("peer4@x/"))),
        ("4.1.1: full", vec![("with", "peer4@x/r1".into())], Box::new(|e| e.2 == "peer4@x/r1")),
        ("4.1.1: nobody", vec![("with", "peer99@x".into())], Box::new(|_| false)),
        (
            "with, and between",
            vec![("with", "peer2@x".into()), ("after-id", after.to_string()), ("end", stamp(until))],
            Box::new(move |e| e.2.starts_with("peer2@x/") && e.0 > after && e.1 <= until),
        ),
    ];
    for (clause, fields, matches) in cases {
        let fields: Vec<(&str, &str)> = fields.iter().map(|(var, value)| (*var, value.as_str())).collect();
        let wanted: Vec<u64> = plain.iter().filter(|e| matches(e)).map(|e| e.0).collect();
        for max in [1, 7, 50] {
            assert_eq!(paged(&mut rows, &form(&fields), max, false), wanted, "{clause}: forwards by {max}");
            assert_eq!(paged(&mut rows, &form(&fields), max, true), wanted, "{clause}: back by {max}");
        }
    }
}

#[test]
fn the_index_by_peer_follows_the_archive() {
    // XEP-0313 4.1.1: over several segments, with messages added after the index was built, and
    // without expired ones.
    let (mut rows, mut plain) = archive(12_000, 300);
    let with = form(&[("with", "peer17@x")]);
    let wanted = |plain: &Plain| {
        let all = plain.iter().filter(|e| e.2.starts_with("peer17@x/"));
        all.map(|e| e.0).collect::<Vec<_>>()
    };
    assert!(wanted(&plain).len() > 20);
    assert_eq!(paged(&mut rows, &with, 50, true), wanted(&plain));
    // From now on the index exists: any page takes few reads.
    for place in ["<before/>".to_owned(), String::new(), format!("<after>{}</after>", plain[5_000].0)] {
        (rows.reads, rows.bytes) = (0, 0);
        rows.ask(&format!("{with}{}", set(10, &place))).expect("a page");
        assert!(rows.reads < 60 && rows.bytes < 200_000, "{place}: {} reads, {} bytes", rows.reads, rows.bytes);
    }
    let mut last = plain.last().expect("some").0;
    for round in 0..40 {
        let mut batch = Batch::new();
        for n in 0..=round * 17 % 90 {
            last += 2;
            let peer = format!("peer{}@x/r0", 10 + n % 10);
            Entry { incoming: true, waits: true, time_ms: 9_000_000, peer: &peer, xml: b"<message/>", trail: b"" }
                .put(&mut batch, USER, last);
            plain.push((last, 9_000_000, peer, true));
        }
        rows.apply(&batch);
        assert_eq!(paged(&mut rows, &with, 100, u64::is_multiple_of(round, 2)), wanted(&plain), "round {round}");
    }
    let until = plain[6_000].0;
    let mut batch = Batch::new();
    batch.delete_range(crate::store::Table::Archive, USER.as_bytes(), &[], &until.to_be_bytes());
    crate::store::peers::delete_below(&mut batch, USER, until);
    rows.apply(&batch);
    let left = |plain: &Plain| wanted(plain).into_iter().filter(|number| *number >= until).collect::<Vec<_>>();
    for back in [true, false] {
        let found = paged(&mut rows, &with, 100, back);
        // A row expires as a whole.
        assert_eq!(found.iter().filter(|number| **number >= until).count(), found.len());
        assert!(found.len() + 4 >= left(&plain).len() && left(&plain).ends_with(&found[found.len().min(4)..]));
    }
}

#[test]
fn a_page_costs_the_same_wherever_it_is() {
    let (mut rows, plain) = archive(20_000, 50);
    let mut most = 0;
    for at in [10, 5_000, 10_000, plain.len() - 100] {
        for place in ["before", "after"] {
            rows.bytes = 0;
            let place = format!("<{place}>{}</{place}>", plain[at].0);
            rows.ask(&set(50, &place)).expect("a page");
            most = most.max(rows.bytes);
        }
    }
    assert!(most < 64 << 10, "{most} bytes for 50 messages");
}

#[test]
fn a_page_is_bounded_in_bytes_and_the_client_goes_on() {
    let (mut rows, mut batch) = (Rows::default(), Batch::new());
    let xml = format!("<message><body>{}</body></message>", "x".repeat(20_000));
    for number in 1..=10 {
        Entry { incoming: true, waits: true, time_ms: number, peer: "b@x", xml: xml.as_bytes(), trail: b"" }
            .put(&mut batch, USER, number);
    }
    rows.apply(&batch);
    let (ids, fin) = rows.ask("").expect("a page");
    assert_eq!(ids, [1], "XEP-0313 4.3.1: the second would be too much");
    assert!(fin.contains("complete='false'"));
    for back in [false, true] {
        assert!(paged(&mut rows, "", 100, back).into_iter().eq(1..=10));
    }
}

#[test]
fn what_is_asked_wrongly_gets_the_error_of_the_text() {
    let (mut rows, plain) = archive(20, 3);
    let void = (0..20).map(|n| n * 3 + 7).find(|number| plain.iter().all(|e| e.0 != *number)).expect("one is void");
    let there = plain[3].0.to_string();
    for (inside, error, clause) in [
        (form(&[("{urn:x}y", "z")]), "FeatureNotImplemented", "4.1.5"),
        (form(&[("ids", "nonsense")]), "ItemNotFound", "4.1.3"),
        (form(&[("ids", &void.to_string())]), "ItemNotFound", "4.1.3: refused"),
        (form(&[("ids", &format!("0{there}"))]), "ItemNotFound", "4.1.3: an id is a string"),
        (form(&[("after-id", "3")]), "ItemNotFound", "4.1.3"),
        (form(&[("before-id", "99999"), ("with", "peer1@x")]), "ItemNotFound", "4.1.3"),
        (set(5, "<before>8</before>"), "ItemNotFound", "4.3.2"),
        (set(5, "<index>3</index>"), "FeatureNotImplemented", "XEP-0059 2.6"),
        ("<set xmlns='http://jabber.org/protocol/rsm'><max>many</max></set>".into(), "BadRequest", "XEP-0059 2.1"),
        (form(&[("with", "@")]), "JidMalformed", "4.1.1"),
        (form(&[("end", "now")]), "BadRequest", "4.1.2"),
        (form(&[("include-groupchat", "maybe")]), "BadRequest", "4.1.4"),
        ("<x xmlns='jabber:x:data' type='submit'/>".into(), "BadRequest", "4.1"),
    ] {
        assert_eq!(rows.ask(&inside), Err(error.into()), "{clause}: {inside}");
    }
    let many: String = (0..101).map(|n| format!("<value>{n}</value>")).collect();
    let many = format!("<field var='ids'>{many}</field></x>");
    assert_eq!(rows.ask(&form(&[]).replace("</x>", &many)), Err("NotAcceptable".into()), "more than a page");
    assert!(rows.ask(&form(&[("include-groupchat", "true"), ("ids", &there)])).is_ok_and(|(ids, _)| ids.len() == 1));
    let crossed = format!("{}{}", form(&[("after-id", &there), ("before-id", &there)]), set(5, "<before/>"));
    assert_eq!(rows.ask(&crossed).map(|(ids, _)| ids), Ok(vec![]), "there is nothing between them");
}

#[test]
fn a_huge_form_asks_for_no_more_than_a_small_one() {
    // XEP-0004 3.2: field names are unique. Each required id costs a read of the archive.
    let (mut rows, plain) = archive(300, 3);
    // A query longer than any valid one is not even read.
    for (times, refused) in [(2, "BadRequest"), (20, "BadRequest"), (300, "NotAcceptable")] {
        let ids = plain.iter().take(times).map(|e| e.0.to_string());
        let again = |field: &str| ids.clone().map(|id| field.replace('?', &id)).collect::<String>();
        for var in ["after-id", "before-id"] {
            let fields = again(&format!("<field var='{var}'><value>?</value></field>"));
            let many = form(&[]).replace("</x>", &format!("{fields}</x>"));
            rows.reads = 0;
            assert_eq!(rows.ask(&many), Err(refused.into()), "{var}, {times} times");
            assert_eq!(rows.reads, 0, "{var}, {times} times");
        }
        for name in ["after", "before"] {
            rows.reads = 0;
            let set = set(5, &again(&format!("<{name}>?</{name}>")));
            assert_eq!(rows.ask(&set), Err(refused.into()), "{name}, {times} times");
            assert_eq!(rows.reads, 0, "{name}, {times} times");
        }
    }
}

#[test]
fn a_long_queryid_makes_a_page_no_larger_than_its_room() {
    // XEP-0313 4.2: each result repeats it.
    let (mut rows, _) = archive(300, 3);
    let query = |len: usize| format!("<query xmlns='urn:xmpp:mam:2' queryid='{}'/>", "&apos;".repeat(len));
    let (results, fin) = rows.answer(&query(QUERYID_BYTES_MAX)).expect("a page");
    let bytes: usize = results.iter().map(Vec::len).sum();
    assert!((1..50).contains(&results.len()) && fin.contains("complete='false'"), "{} results", results.len());
    assert!(bytes <= 32 << 10, "{bytes} bytes");
    assert_eq!(rows.answer(&query(QUERYID_BYTES_MAX + 1)), Err("NotAcceptable".into()));
}

#[test]
fn a_row_that_cannot_be_read_is_an_error_and_not_the_end() {
    let (mut rows, plain) = archive(300, 3);
    let middle = rows.rows.len() / 2;
    *rows.rows.values_mut().nth(middle).expect("a row") = vec![9, 9];
    for inside in [set(100, ""), set(100, "<before/>"), form(&[("with", "peer1@x")])] {
        let mut place = inside;
        let error = (0..10).find_map(|_| match rows.ask(&place) {
            Err(error) => Some(error),
            Ok((ids, _)) if place.contains("before") => {
                place = set(100, &format!("<before>{}</before>", ids[0]));
                None
            }
            Ok((ids, _)) => {
                place = set(100, &format!("<after>{}</after>", ids.last().expect("some")));
                None
            }
        });
        assert_eq!(error.as_deref(), Some("InternalServerError"), "{place}");
    }
    assert!(plain.len() > 200);
}

#[test]
fn the_archive_says_where_it_begins_and_ends() {
    let metadata = "<metadata xmlns='urn:xmpp:mam:2'/>";
    assert_eq!(Rows::default().answer(metadata), Ok((vec![], metadata.into())), "5: empty");
    let (mut rows, plain) = archive(100, 3);
    let (_, payload) = rows.answer(metadata).expect("an answer");
    let (first, last) = (plain[0].0, plain.last().expect("some").0);
    assert!(
        payload.contains(&format!("<start id='{first}'")) && payload.contains(&format!("<end id='{last}'")),
        "{payload}"
    );
}

#[test]
fn who_writes_to_the_own_account_finds_it_once() {
    let (mut rows, mut batch) = (Rows::default(), Batch::new());
    for (number, incoming, peer) in
        [(1, false, "juliet@x"), (2, true, "juliet@x/balcony"), (3, false, "romeo@x"), (4, true, "romeo@x/a")]
    {
        Entry { incoming, waits: false, time_ms: number, peer, xml: b"<message/>", trail: b"" }
            .put(&mut batch, USER, number);
    }
    rows.apply(&batch);
    assert_eq!(rows.ask("").map(|(ids, _)| ids), Ok(vec![2, 3, 4]), "XEP-0313 6.1.1");
    assert_eq!(rows.ask(&form(&[("with", USER)])).map(|(ids, _)| ids), Ok(vec![2]), "XEP-0313 4.1.1");
    assert_eq!(rows.ask(&form(&[("ids", "1")])), Err("ItemNotFound".into()));
}

#[test]
fn when_the_clock_has_been_set_back_no_result_is_outside_of_the_time() {
    let (mut rows, mut batch) = (Rows::default(), Batch::new());
    for n in 1..=600u64 {
        let time_ms = if (200..400).contains(&n) { n - 150 } else { n };
        Entry { incoming: true, waits: true, time_ms: 1_000 + time_ms, peer: "b@x", xml: b"<message/>", trail: b"" }
            .put(&mut batch, USER, n);
        put_void(&mut batch, "other@x", n);
    }
    rows.apply(&batch);
    let form = form(&[("start", "1970-01-01T00:00:01.100Z"), ("end", "1970-01-01T00:00:01.300Z")]);
    for back in [false, true] {
        let ids = paged(&mut rows, &form, 50, back);
        let time = |n: u64| if (200..400).contains(&n) { n - 150 } else { n };
        assert!(!ids.is_empty() && ids.iter().all(|n| (100..=300).contains(&time(*n))), "{ids:?}");
    }
}

/// An archive with these messages: whether it was received, the peer, and the stanza.
fn written(messages: &[(bool, &str, &str)]) -> Rows {
    let mut batch = Batch::new();
    for (number, (incoming, peer, xml)) in (1..).zip(messages) {
        let entry =
            Entry { incoming: *incoming, waits: false, time_ms: 1_000 * number, peer, xml: xml.as_bytes(), trail: b"" };
        crate::extension::archive(&mut batch, &crate::id::Domains::of_users("x"), USER, number, &entry);
    }
    let mut rows = Rows::default();
    rows.apply(&batch);
    rows
}

/// Bodies of the results, and the ids of retractions for tombstones.
fn shown(rows: &mut Rows, inside: &str) -> Vec<String> {
    let (results, _) = rows.answer(&format!("<query xmlns='urn:xmpp:mam:2'>{inside}</query>")).expect("a page");
    let one = |result: &Vec<u8>| {
        let result = xml::parse(result).expect("well-formed");
        let forwarded =
            result.get_child("result", NS).and_then(|result| result.get_child("forwarded", "urn:xmpp:forward:0"));
        let message =
            forwarded.and_then(|forwarded| forwarded.get_child("message", "jabber:client")).expect("a message").clone();
        match message.get_child("retracted", retract::NS) {
            Some(retracted) => {
                let left: Vec<&str> = message.children().map(|child| child.name()).collect();
                assert!(left == ["retracted"] || left == ["retracted", "stanza-id"], "XEP-0424 4: {left:?}");
                assert!(message.attr("id").is_some() && retracted.attr("stamp").is_some());
                format!("-{}", retracted.attr("id").expect("4: an id"))
            }
            None => message.get_child("body", "jabber:client").map_or("?".into(), |body| body.text()),
        }
    };
    results.iter().map(one).collect()
}

fn said(id: &str, body: &str) -> String {
    format!("<message id='{id}' type='chat'><body>{body}</body><x xmlns='secret'/></message>")
}

fn retraction(id: &str, of: &str) -> String {
    format!(
        "<message id='{id}' type='chat'><retract id='{of}' xmlns='urn:xmpp:message-retract:1'/><body>{id}</body></message>"
    )
}

#[test]
fn a_message_that_its_sender_retracts_is_a_tombstone_xep_0424_4() {
    let texts = [
        said("1", "sent"),
        said("1", "received"),
        retraction("r1", "1"),
        retraction("r2", "1"),
        said("1", "later"),
        said("7", "of another"),
        retraction("r3", "7"),
        said("8", "kept"),
        retraction("r4", "r1"),
    ];
    let texts = texts.each_ref().map(String::as_str);
    let (juliets, romeos) = (false, true);
    let mut rows = written(&[
        (juliets, "romeo@x/a", texts[0]),
        (romeos, "romeo@x/a", texts[1]),
        // From any resource; the sender's own message is retracted, in either archive.
        (romeos, "romeo@x/b", texts[2]),
        (juliets, "romeo@x", texts[3]),
        (juliets, "romeo@x", texts[4]),
        // 5.1: another sender's message is not.
        (romeos, "romeo@x", texts[5]),
        (romeos, "mallory@x", texts[6]),
        (juliets, "mallory@x", texts[7]),
        // A retraction stays (5).
        (romeos, "romeo@x", texts[8]),
    ]);
    let all = ["-r2", "-r1", "r1", "r2", "later", "of another", "r3", "kept", "r4"];
    assert_eq!(shown(&mut rows, ""), all);
    assert_eq!(shown(&mut rows, &set(2, "")), all[..2]);
    assert_eq!(shown(&mut rows, &set(9, "<before/>")), all);
    assert_eq!(shown(&mut rows, &form(&[("ids", "2")])), ["-r1"]);
    assert_eq!(
        shown(&mut rows, &form(&[("with", "romeo@x")])),
        ["-r2", "-r1", "r1", "r2", "later", "of another", "r4"]
    );
}

/// XEP-0424 5.1: occupants of a room have the same bare JID, and contacts of a gateway may. None of
/// them can retract another's message, nor prevent its retraction.
#[test]
fn an_occupant_of_a_room_retracts_no_other_occupants_message() {
    let (hers, his) = (said("1", "hers"), said("2", "his"));
    let (forged, other, own) = (retraction("f", "1"), retraction("g", "2"), retraction("r", "2"));
    let mut messages = vec![(true, "cave@rooms.x/witch", &*hers), (true, "cave@rooms.x/owl", &*his)];
    messages.extend([(true, "cave@rooms.x/owl", &*forged), (true, "cave@rooms.x", &*forged)]);
    messages.push((true, "cave@rooms.x/owl", &*own));
    messages.extend([(true, "cave@rooms.x/witch", &*other); 5]);
    let mut rows = written(&messages);
    assert_eq!(shown(&mut rows, ""), ["hers", "-r", "f", "f", "r", "g", "g", "g", "g", "g"]);
    // Expired entries take their rows with them.
    let mut batch = Batch::new();
    (1..).zip(&messages).for_each(|(number, message)| expire(&mut batch, number, message));
    rows.apply(&batch);
    assert_eq!(rows.read(&retractions::first(USER, 9)), Found::Rows { rows: Vec::new(), more: false });
}

#[test]
fn a_retraction_that_is_not_in_the_archive_leaves_the_message() {
    let (message, by) = (said("1", "a"), retraction("r", "1"));
    let messages = [(false, "romeo@x", &*message), (false, "romeo@x", &*by)];
    let mut rows = written(&messages);
    let mut batch = Batch::new();
    put_void(&mut batch, USER, 2);
    rows.apply(&batch);
    assert_eq!(shown(&mut rows, ""), ["a"], "it was refused");
    // Earlier retractions stay effective however many follow, unless many were refused.
    let sent = |xml| (false, "romeo@x", xml);
    let others: Vec<String> = (0..100).map(|n| retraction(&format!("o{n}"), &format!("none{n}"))).collect();
    for (others, refused, first) in [(0, 3, "-r"), (100, 3, "-r"), (0, 4, "a"), (100, 4, "a")]
        .map(|(n, refused, first)| (&others[..n], refused, first))
    {
        let messages: Vec<_> = [&message].into_iter().chain(others).chain([&by; 5]).map(|xml| sent(&**xml)).collect();
        let mut rows = written(&messages[..messages.len() - 4 + refused]);
        let mut batch = Batch::new();
        (0..refused).for_each(|n| put_void(&mut batch, USER, (others.len() + 3 + n) as u64));
        rows.apply(&batch);
        assert_eq!(shown(&mut rows, &set(1, ""))[0], first, "{refused} were refused");
    }
    // Without an id no client could tell which retraction a tombstone belongs to, and a long id is
    // not stored.
    for id in [String::new(), "r".repeat(RETRACTION_ID_BYTES_MAX + 1)] {
        let by = retraction(&id, "1");
        assert_eq!(shown(&mut written(&[(false, "romeo@x", &message), (false, "romeo@x", &by)]), ""), ["a", &id]);
    }
    let unnamed = "<message><body>a</body></message>";
    assert_eq!(
        shown(&mut written(&[(true, "romeo@x", unnamed), (true, "romeo@x", &retraction("r", ""))]), ""),
        ["a", "r"]
    );
}

#[test]
fn thousands_of_retractions_cost_a_page_no_more_than_a_look_for_each_message() {
    let texts: Vec<String> = (0..3_000).map(|n| retraction(&format!("r{n}"), &format!("none{n}"))).collect();
    let (message, last) = (said("1", "a"), retraction("r", "1"));
    let mut messages = vec![(true, "romeo@x", &*message)];
    messages.extend(texts.iter().map(|text| (true, "mallory@x", &**text)));
    messages.push((true, "romeo@x", &last));
    let mut rows = written(&messages);
    (rows.reads, rows.bytes) = (0, 0);
    let page = shown(&mut rows, &set(50, ""));
    assert_eq!((&*page[0], page.len()), ("-r", 50));
    assert!(rows.reads < 60 && rows.bytes < 100_000, "{} reads, {} bytes", rows.reads, rows.bytes);
    // Tombstones may be longer than their messages: a page keeps its limit, and the client
    // continues.
    let texts: Vec<String> = (0..60).map(|n| said(&n.to_string(), "a")).collect();
    let by = |n: usize| retraction(&format!("{}{n}", "&apos;".repeat(RETRACTION_ID_BYTES_MAX - 2)), &n.to_string());
    let all: Vec<String> = texts.into_iter().chain((0..60).map(by)).collect();
    let mut long = written(&all.iter().map(|text| (true, "mallory@x", &**text)).collect::<Vec<_>>());
    let (results, fin) = long.answer("<query xmlns='urn:xmpp:mam:2'/>").expect("a page");
    let bytes: usize = results.iter().map(Vec::len).sum();
    assert!(bytes <= 32 << 10 && results.len() < 60 && fin.contains("complete='false'"), "{bytes} bytes");
    for back in [false, true] {
        assert!(paged(&mut long, "", 50, back).into_iter().eq(1..=120));
    }
    // Retention removes its rows with the archive.
    let mut batch = Batch::new();
    (1..).zip(&messages).for_each(|(number, message)| expire(&mut batch, number, message));
    rows.apply(&batch);
    assert_eq!(rows.read(&retractions::first(USER, 9)), Found::Rows { rows: Vec::new(), more: false });
}

fn expire(batch: &mut Batch, number: u64, (incoming, peer, xml): &(bool, &str, &str)) {
    let entry = Entry { incoming: *incoming, waits: false, time_ms: 0, peer, xml: xml.as_bytes(), trail: b"" };
    crate::extension::expired(batch, USER, number, &entry);
}

/// A retraction that arrived before its message had no effect; when it expires, other rows stay.
#[test]
fn a_retraction_goes_alone() {
    let (early, message, late) = (retraction("r1", "1"), said("1", "a"), retraction("r2", "1"));
    for incoming in [true, false] {
        let messages = [&early, &message, &late].map(|xml| (incoming, "romeo@x", &**xml));
        let mut rows = written(&messages);
        assert_eq!(shown(&mut rows, ""), ["r1", "-r2", "r2"]);
        let mut batch = Batch::new();
        expire(&mut batch, 1, &messages[0]);
        rows.apply(&batch);
        assert_eq!(shown(&mut rows, ""), ["r1", "-r2", "r2"]);
    }
}

/// Rows of an earlier version, without a number in their keys, remain effective and expire with
/// their archive.
#[test]
fn a_retraction_of_an_earlier_version_counts() {
    let (message, retraction) = (said("1", "a"), retraction("r", "1"));
    let messages = [&message, &retraction].map(|xml| (true, "romeo@x", &**xml));
    let mut rows = written(&messages);
    let Found::Rows { rows: mut own, .. } = rows.read(&retractions::first(USER, 9)) else { panic!("rows") };
    let row = own.remove(0);
    let mut batch = Batch::new();
    batch.delete(Table::Private, USER.as_bytes(), &row.sort);
    batch.put(Table::Private, USER.as_bytes(), &row.sort[..row.sort.len() - size_of::<u64>()], &[&row.value]);
    rows.apply(&batch);
    assert_eq!(shown(&mut rows, ""), ["-r", "r"]);
    let mut batch = Batch::new();
    (1..).zip(&messages).for_each(|(number, message)| expire(&mut batch, number, message));
    rows.apply(&batch);
    assert_eq!(shown(&mut rows, ""), ["a", "r"]);
}
