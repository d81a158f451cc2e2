//! Runs every kind of request of an authenticated user and measures its cost, for the table in
//! `docs/security.md`.
//!
//! The table is generated from these measurements. A changed figure fails the test: find the
//! reason, and then rewrite the table with `UPDATE_REFERENCE=1 cargo test -p throng-engine --test
//! requests`.
#![allow(
    clippy::disallowed_methods,
    reason = "the table stands in a file, and a variable says that it is to be written"
)]

#[path = "requests/crowd.rs"]
mod crowd;
#[path = "requests/memory.rs"]
mod memory;
#[path = "requests/walk.rs"]
mod walk;

use std::fmt::Write;
use std::sync::OnceLock;

use crowd::{Cost, Crowd, FRIENDS, LATER_S};
use walk::{REQUESTS, Request};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/security.md");
const BEGIN: &str = "<!-- the walk of requests: written by engine/tests/requests.rs -->\n";
const END: &str = "<!-- end of the walk of requests -->";

/// The cost of each request, measured once for all tests.
fn costs() -> impl Iterator<Item = (&'static Request, &'static Cost)> {
    static COSTS: OnceLock<Vec<Cost>> = OnceLock::new();
    let costs = COSTS.get_or_init(|| REQUESTS.iter().map(cost).collect());
    REQUESTS.iter().zip(costs)
}

fn cost(request: &Request) -> Cost {
    // An idle crowd shows what changes with time alone.
    let [mut crowd, mut idle] = [(); 2].map(|()| {
        let mut crowd = Crowd::new();
        for before in (request.before)() {
            crowd.say(&before);
        }
        crowd
    });
    let cost = crowd.say(&(request.text)());
    Cost { kept_later: cost.kept + crowd.rest() - idle.rest(), ..cost }
}

fn table() -> String {
    let mut out = format!(
        "Each figure is for one request of a user with {FRIENDS} mutual contacts, of whom each is online once, and with a \
         second session of their own. Memory is what the shards hold for it when all is answered, and {LATER_S} seconds later; \
         what is negative they have given back.\n\n\
         | request | bytes sent | answer, bytes | reads | bytes read | rows written | bytes written | letters | others reached \
         | bytes to them | jobs | memory | later | what bounds it |\n\
         | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --- |\n"
    );
    for (request, c) in costs() {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            request.name,
            c.sent,
            c.answer,
            c.reads,
            c.read_bytes,
            c.rows,
            c.row_bytes,
            c.letters,
            c.others,
            c.others_bytes,
            c.jobs,
            c.kept,
            c.kept_later,
            request.bound
        );
    }
    out
}

#[test]
fn the_table_in_the_documents_is_what_requests_cost() {
    let text = std::fs::read_to_string(FILE).expect("docs/security.md is there");
    let (before, rest) = text.split_once(BEGIN).expect("the table's beginning is marked");
    let (there, behind) = rest.split_once(END).expect("the table's end is marked");
    let table = table();
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(FILE, format!("{before}{BEGIN}{table}{END}{behind}")).expect("docs/security.md can be written");
    } else if there != table {
        let changed = table.lines().filter(|line| !there.contains(line)).collect::<Vec<_>>().join("\n");
        panic!(
            "the walk of requests has changed; if it should have, write the table anew (see this file's head):\n{changed}"
        );
    }
}

/// Limit of the memory that a request of any length leaves behind, in addition to [`STAYS_A_BYTE`]
/// for each of its bytes.
const STAYS: isize = 2_048;
/// Limit of the bytes of memory per byte sent.
const STAYS_A_BYTE: isize = 4;

#[test]
fn what_a_request_leaves_in_memory_is_bounded_by_what_was_sent() {
    for (request, cost) in costs() {
        let most = STAYS + STAYS_A_BYTE * cost.sent as isize;
        for (kept, when) in [(cost.kept, "at once"), (cost.kept_later, "later")] {
            assert!(kept <= most, "{}: {kept} bytes {when}, {most} are allowed: {cost:?}", request.name);
        }
    }
}

/// Limit of what a byte sent may cause: bytes to the sender and to others, and bytes read and
/// written.
#[test]
fn the_worst_requests_keep_their_bounds() {
    let mut all: Vec<(f64, &Request, &Cost)> = costs().map(|(request, cost)| (cost.a_byte(), request, cost)).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (a_byte, request, cost) in &all[..walk::WORST.len()] {
        println!("{a_byte:8.1} bytes a byte: {} ({cost:?})", request.name);
    }
    for (a_byte, request, cost) in &all {
        // The worst requests have individual limits, all others a common one.
        let most =
            walk::WORST.iter().find(|(name, _)| *name == request.name).map_or(walk::OTHERS_MOST, |(_, most)| *most);
        assert!(*a_byte <= most, "{}: {a_byte:.1} bytes a byte, {most} are allowed: {cost:?}", request.name);
    }
    assert!(walk::WORST.len() >= 10);
    for (name, _) in walk::WORST {
        assert!(REQUESTS.iter().any(|request| request.name == *name), "{name} is no request");
    }
}
