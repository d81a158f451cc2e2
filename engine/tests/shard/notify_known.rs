//! What the home of a channel remembers between publications: they need no reads, with the same
//! results.

use throng_engine::io::{Input, StorageState};
use throng_engine::limits::KNOWN_IDS_MAX;
use throng_engine::store::Table;
use throng_engine::web::policy::Channels;
use throng_sim::host::said as words;

use crate::notify_world::{Desk, Heard, open, pubsub};

const BATCH: &str = "Content-Type: application/x-ndjson\r\n";

fn reads(desk: &Desk) -> u64 {
    desk.host.shard.counters().reads.get()
}

/// Publishes with a key; returns the number of store queries, too.
fn publishes(desk: &mut Desk, key: &str, body: &str) -> (Heard, u64) {
    let before = reads(desk);
    let heard = desk.publish_with("a", &format!("Idempotency-Key: {key}\r\n"), body);
    let asked = reads(desk) - before;
    (heard, asked)
}

fn rows(desk: &Desk) -> Vec<(Vec<u8>, Vec<u8>)> {
    let all = desk.host.disk.rows_of(Table::Nodes, "pubsub.localhost/a");
    all.map(|(sort, value)| (sort.to_vec(), value.to_vec())).collect()
}

#[test]
fn the_first_publication_reads_and_others_seldom() {
    let mut desk = Desk::new(Channels { items_max: 20, ..open() });
    let asked: Vec<u64> = (1..=100)
        .map(|number| {
            let (heard, asked) = publishes(&mut desk, &format!("key{number}"), "x");
            assert_eq!(heard.body(), format!("{{\"channel\":\"a\",\"id\":\"{number}\",\"repeated\":false}}\n"));
            asked
        })
        .collect();
    assert_eq!((asked[0], asked[1..36].iter().sum::<u64>()), (1, 0), "as long as it is known what gives way");
    assert!(asked.iter().sum::<u64>() <= 1 + 100 / 16 + 1, "{asked:?}");
    // A stored item is recognised by its key, and no other is.
    let (again, _) = publishes(&mut desk, "key100", "x");
    assert!(again.body().contains("\"id\":\"100\",\"repeated\":true"), "{}", again.text);
    let (gone, _) = publishes(&mut desk, "key80", "x");
    assert!(gone.body().contains("\"id\":\"101\",\"repeated\":false"), "{}", gone.text);
    let conn = desk.connect();
    assert_eq!(desk.get(conn, "a").data().len(), 20);
    assert_eq!(rows(&desk).len(), 41);
}

#[test]
fn of_a_channel_of_many_items_it_is_read_whether_a_key_was_used() {
    let mut desk = Desk::new(Channels { items_max: 400, ..open() });
    for number in 0..KNOWN_IDS_MAX {
        assert_eq!(publishes(&mut desk, &number.to_string(), "x"), (desk_said(number + 1), u64::from(number == 0)));
    }
    for number in KNOWN_IDS_MAX..300 {
        assert_eq!(publishes(&mut desk, &number.to_string(), "x").0, desk_said(number + 1));
    }
    assert!(publishes(&mut desk, "299", "x").0.body().contains("\"id\":\"300\",\"repeated\":true"));
    assert!(publishes(&mut desk, "0", "x").0.body().contains("\"id\":\"1\",\"repeated\":true"));
    let before = reads(&desk);
    assert_eq!(desk.publish("a", "without a key").status(), "200");
    assert_eq!(desk.publish("a", "without a key").status(), "200");
    assert!(reads(&desk) <= before + 1);
}

/// The answer to a publication with this number.
fn desk_said(number: usize) -> Heard {
    let mut other = Desk::new(open());
    let said = other.publish("a", "x");
    let length = |text: &str| format!("Content-Length: {}\r\n", text.len());
    let body = |number: usize| format!("{{\"channel\":\"a\",\"id\":\"{number}\",\"repeated\":false}}\n");
    let text = said.text.replace(&length(&body(1)), &length(&body(number))).replace(&body(1), &body(number));
    Heard { text, ends: false }
}

#[test]
fn on_a_full_disk_nothing_is_published_and_nothing_is_taken_for_published() {
    let mut desk = Desk::new(open());
    assert_eq!(publishes(&mut desk, "one", "x").0.status(), "200");
    desk.host.turn(Input::Storage(StorageState::Full));
    for _ in 0..2 {
        assert_eq!(publishes(&mut desk, "two", "x").0.status(), "503");
    }
    assert!(publishes(&mut desk, "one", "x").0.body().contains("\"id\":\"1\",\"repeated\":true"));
    desk.host.turn(Input::Storage(StorageState::Ok));
    assert!(publishes(&mut desk, "two", "x").0.body().contains("\"id\":\"2\",\"repeated\":false"));
    assert!(publishes(&mut desk, "two", "x").0.body().contains("\"id\":\"2\",\"repeated\":true"));
}

/// A desk where a user has a channel of five items, each of which expires after 100 s.
fn own(configured: &[(&str, &str)]) -> (Desk, throng_engine::id::ConnId) {
    let mut desk = Desk::new(open());
    let romeo = desk.user("romeo");
    desk.makes(romeo, "a", &[&[("pubsub#publish_model", "open"), ("pubsub#max_items", "5")], configured].concat());
    (desk, romeo)
}

/// In any sequence, a home that remembers writes and answers the same as one that is made to forget
/// before each publication.
#[test]
fn what_is_known_is_what_the_rows_say() {
    for (seed, configured) in
        [(1, &[][..]), (2, &[("pubsub#item_expire", "100")]), (3, &[]), (4, &[("pubsub#item_expire", "20")])]
    {
        let ((mut knows, romeo), (mut forgets, juliet)) = (own(configured), own(configured));
        let mut state: u64 = seed;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut read = (0, 0);
        for step in 0..400 {
            let (what, which) = (draw(20), draw(8));
            let fields = match what {
                0..=7 => Some((format!("Idempotency-Key: {which}{}\r\n", step / 40), format!("{step}"))),
                8..=11 => Some((String::new(), format!("{step}"))),
                12 => Some((BATCH.into(), (0..=which).map(|line| format!("{line}\n")).collect())),
                13 => Some((format!("{BATCH}Idempotency-Key: b{}\r\n", which % 2), "1\n2\n".into())),
                14 => Some((format!("Item-Key: {}\r\n", which % 3), format!("{step}"))),
                _ => None,
            };
            if let Some((fields, body)) = fields {
                let none = pubsub(true, "<retract node='a'><item id='none'/></retract>");
                assert!(words(&forgets.host.ask(juliet, &none)).contains("item-not-found"));
                let before = (reads(&knows), reads(&forgets));
                let (one, other) = (knows.publish_with("a", &fields, &body), forgets.publish_with("a", &fields, &body));
                assert_eq!(one, other, "seed {seed}, step {step}: {fields}");
                read = (read.0 + reads(&knows) - before.0, read.1 + reads(&forgets) - before.1);
            }
            let asked = match what {
                15 => pubsub(true, &format!("<publish node='a'><item id='k-{which}'><x xmlns='y'/></item></publish>")),
                16 => pubsub(true, &format!("<retract node='a'><item id='k-{which}{}'/></retract>", step / 40)),
                17 if which == 0 => pubsub(true, "<purge node='a'/>").replace("pubsub'>", "pubsub#owner'>"),
                _ => String::new(),
            };
            for (desk, user) in [(&mut knows, romeo), (&mut forgets, juliet)] {
                if !asked.is_empty() {
                    desk.host.ask(user, &asked);
                }
                desk.passes(if what == 18 { 7 } else { 0 });
            }
            assert_eq!(rows(&knows), rows(&forgets), "seed {seed}, step {step}");
        }
        assert!(read.0 < read.1, "seed {seed}: {read:?}");
    }
}
