//! The durable engine against the sorted map: random batches, reads of every kind, reopening in
//! between.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use throng_engine::id::partition;
use throng_engine::store::key::{ACTOR_BYTES_MAX, SORT_KEY_BYTES_MAX, partition_range};
use throng_engine::store::{Batch, OpView, Query, Table};

use super::lsm::LsmEngine;
use super::memory::flat;
use super::testing::{all, get, put, rows, small, wait_until};
use super::{Engine, KeyRange, MemoryEngine, Options, Visit};

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<Batch>),
    Read(Query),
    Scan(Vec<KeyRange>),
    Rest,
    Reopen,
    Compact,
}

fn table() -> impl Strategy<Value = Table> {
    prop::sample::select(vec![Table::Archive, Table::Waiting, Table::Roster])
}

fn actor() -> impl Strategy<Value = Vec<u8>> {
    // One name is a prefix of another; one is as long as a JID may be (RFC 7622 3.2, 3.3).
    prop::sample::select(vec![b"a@x".to_vec(), b"a@xy".to_vec(), b"b@x".to_vec(), vec![b'l'; 2047]])
}

fn sort() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(0_u8..4, 0..3),
        1 => Just(vec![0xff; 8]),
        1 => Just(vec![b's'; 2304]),
    ]
}

fn batch() -> impl Strategy<Value = Batch> {
    let op = (0..10_u8, table(), actor(), sort(), sort(), prop::collection::vec(any::<u8>(), 0..40));
    prop::collection::vec(op, 1..12).prop_map(|ops| {
        let mut batch = Batch::new();
        for (kind, table, actor, a, b, value) in ops {
            match kind {
                0..=5 => batch.put(table, &actor, &a, &[&value[..], b"!"]),
                6 => batch.delete(table, &actor, &a),
                7..=8 => batch.delete_range(table, &actor, &a, &b),
                _ => batch.delete_actor(table, &actor),
            }
        }
        batch
    })
}

fn query() -> impl Strategy<Value = Query> {
    let range = (table(), actor(), sort(), prop::option::of(sort()), any::<bool>(), 0_u32..5, 0_u32..60);
    prop_oneof![
        (table(), actor(), sort()).prop_map(|(table, actor, sort)| Query::Get {
            table,
            actor: actor.into(),
            sort: sort.into()
        }),
        range.prop_map(|(table, actor, from, until, reverse, rows_max, bytes_max)| Query::Range {
            table,
            actor: actor.into(),
            from: from.into(),
            until: until.map(Vec::into),
            reverse,
            rows_max,
            bytes_max,
        }),
    ]
}

/// Key ranges in order: of whole partitions, or from some row to another.
fn ranges() -> impl Strategy<Value = Vec<KeyRange>> {
    let bounds = prop::collection::vec((table(), actor(), sort()), 0..6).prop_map(|rows| {
        let mut keys: Vec<Vec<u8>> = rows.iter().map(|(table, actor, sort)| flat(*table, actor, sort)).collect();
        keys.sort();
        keys.chunks_exact(2).map(|pair| pair[0].clone()..pair[1].clone()).collect()
    });
    prop_oneof![
        bounds,
        actor().prop_map(|actor| Table::ALL.map(|table| partition_range(table, partition(&actor))).to_vec())
    ]
}

fn scanned(engine: &dyn Engine, ranges: &[KeyRange]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    engine
        .scan_within(ranges, &mut |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            Visit::Continue(())
        })
        .unwrap();
    found
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => prop::collection::vec(batch(), 1..5).prop_map(Step::Commit),
        10 => query().prop_map(Step::Read),
        3 => ranges().prop_map(Step::Scan),
        1 => Just(Step::Rest),
        1 => Just(Step::Reopen),
        1 => Just(Step::Compact),
    ]
}

fn actors(engine: &dyn Engine, table: Table, after: Option<&[u8]>) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    engine
        .for_each_actor(table, after, &mut |actor| {
            found.push(actor.to_vec());
            Visit::Continue(())
        })
        .unwrap();
    found
}

/// Buffers so small that rows are constantly written to tables and merged.
fn tiny(buffer_bytes: u64) -> Options {
    Options { buffer_bytes, min_free_bytes: 0, ..small() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_does_what_the_sorted_map_does(
        steps in prop::collection::vec(step(), 1..60),
        buffer_bytes in prop::sample::select(vec![1_u64, 2_000, 20_000, 1 << 20]),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let opened = || LsmEngine::open(&dir.path().join("store"), &tiny(buffer_bytes)).unwrap();
        let mut engine = opened();
        let model = MemoryEngine::new();
        for step in steps {
            match step {
                Step::Commit(batches) => {
                    engine.commit(&batches).unwrap();
                    model.commit(&batches).unwrap();
                }
                Step::Read(query) => prop_assert_eq!(engine.read(&query).unwrap(), model.read(&query).unwrap()),
                Step::Scan(ranges) => prop_assert_eq!(scanned(&engine, &ranges), scanned(&model, &ranges)),
                Step::Rest => engine.rest(),
                Step::Reopen => {
                    drop(engine);
                    engine = opened();
                }
                Step::Compact => engine.compact().unwrap(),
            }
        }
        prop_assert_eq!(all(&engine), all(&model));
        for table in [Table::Archive, Table::Roster] {
            prop_assert_eq!(actors(&engine, table, None), actors(&model, table, None));
            prop_assert_eq!(actors(&engine, table, Some(b"a@x")), actors(&model, table, Some(b"a@x")));
        }
        drop(engine);
        let engine = opened();
        prop_assert_eq!(all(&engine), all(&model));
        engine.compact().unwrap();
        prop_assert_eq!(all(&engine), all(&model));
    }
}

/// Both engines with `count` rows of one actor, and one row of each neighbour.
fn with_rows(dir: &std::path::Path, count: u64) -> (LsmEngine, MemoryEngine) {
    let engine = LsmEngine::open(&dir.join("store"), &small()).unwrap();
    let model = MemoryEngine::new();
    let mut batch = Batch::new();
    for id in 0..count {
        batch.put(Table::Archive, b"b@x", &id.to_be_bytes(), &[b"old"]);
    }
    batch.put(Table::Archive, b"a@x", b"1", &[b"neighbour"]);
    batch.put(Table::Archive, b"c@x", b"1", &[b"neighbour"]);
    for engine in [&engine as &dyn Engine, &model] {
        engine.commit(std::slice::from_ref(&batch)).unwrap();
    }
    (engine, model)
}

#[test]
fn a_large_range_is_gone_at_once_wherever_its_rows_stand() {
    for in_tables in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let count = 10_000;
        let (engine, model) = with_rows(dir.path(), count);
        if in_tables {
            engine.compact().unwrap();
        }
        let mut delete = Batch::new();
        delete.delete_range(Table::Archive, b"b@x", &1_u64.to_be_bytes(), &(count - 1).to_be_bytes());
        let again = put(Table::Archive, "b@x", &77_u64.to_be_bytes(), b"new");
        for engine in [&engine as &dyn Engine, &model] {
            engine.commit(std::slice::from_ref(&delete)).unwrap();
            engine.commit(std::slice::from_ref(&again)).unwrap();
        }
        let check = |engine: &LsmEngine| {
            assert!(all(engine) == all(&model), "other rows; in tables: {in_tables}");
            assert_eq!(rows(engine, Table::Archive, "b@x"), rows(&model, Table::Archive, "b@x"));
            assert_eq!(get(engine, Table::Archive, "b@x", &(count - 2).to_be_bytes()), None);
            assert_eq!(get(engine, Table::Archive, "b@x", &77_u64.to_be_bytes()).unwrap(), b"new");
            assert_eq!(actors(engine, Table::Archive, None), actors(&model, Table::Archive, None));
        };
        check(&engine);
        drop(engine);
        let engine = LsmEngine::open(&dir.path().join("store"), &small()).unwrap();
        check(&engine);
        engine.compact().unwrap();
        check(&engine);
        drop(engine);
        check(&LsmEngine::open(&dir.path().join("store"), &small()).unwrap());
    }
}

#[test]
fn the_order_of_writes_within_a_group_counts() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, model) = with_rows(dir.path(), 300);
    engine.compact().unwrap();
    let (first, last) = (put(Table::Archive, "b@x", b"early", b"gone"), put(Table::Archive, "b@x", b"\xffx", b"stays"));
    let mut delete = Batch::new();
    delete.delete_actor(Table::Archive, b"b@x");
    for engine in [&engine as &dyn Engine, &model] {
        engine.commit(&[first.clone(), delete.clone(), last.clone()]).unwrap();
    }
    assert_eq!(all(&engine), all(&model));
    assert_eq!(rows(&engine, Table::Archive, "b@x").len(), 1);
    engine.compact().unwrap();
    assert_eq!(all(&engine), all(&model));
}

#[test]
fn reads_see_groups_whole_while_rows_become_tables() {
    let dir = tempfile::tempdir().unwrap();
    let engine = LsmEngine::open(&dir.path().join("store"), &tiny(4_000)).unwrap();
    let rounds = 3_000_u64;
    let written = std::sync::atomic::AtomicU64::new(0);
    let read_all = || {
        let known = written.load(std::sync::atomic::Ordering::SeqCst);
        let found = all(&engine);
        // One group writes both; rows of old groups are removed by the group that writes the
        // cursors.
        let numbers: Vec<u64> =
            found.iter().map(|(_, value)| u64::from_be_bytes(value[..8].try_into().unwrap())).collect();
        let newest = numbers.iter().copied().max().unwrap_or(0);
        assert!(newest >= known, "{known} was written, {newest} is the newest");
        let expected = if newest == 0 { 0 } else { 2 + newest.min(10) as usize };
        assert_eq!(found.len(), expected, "at {newest}");
    };
    let read_one = || {
        let known = written.load(std::sync::atomic::Ordering::SeqCst);
        let cursor =
            get(&engine, Table::Waiting, "a@x", b"").map_or(0, |row| u64::from_be_bytes(row.try_into().unwrap()));
        assert!(cursor >= known);
        let rows = rows(&engine, Table::Archive, "m@x");
        let ids: Vec<u64> = rows.iter().map(|row| u64::from_be_bytes(row.sort[..].try_into().unwrap())).collect();
        let newest = ids.last().copied().unwrap_or(0);
        assert!(
            newest >= known
                && ids == (newest.saturating_sub(9).max(1)..=newest).skip(usize::from(newest == 0)).collect::<Vec<_>>(),
            "{ids:?}"
        );
    };
    let done = |read: &dyn Fn()| {
        while written.load(std::sync::atomic::Ordering::SeqCst) < rounds {
            read();
        }
    };
    std::thread::scope(|scope| {
        let readers = [scope.spawn(|| done(&read_all)), scope.spawn(|| done(&read_one))];
        for number in 1..=rounds {
            let mut batch = put(Table::Waiting, "a@x", b"", &number.to_be_bytes());
            batch.put(Table::Waiting, b"z@x", b"", &[&number.to_be_bytes()]);
            batch.put(Table::Archive, b"m@x", &number.to_be_bytes(), &[&number.to_be_bytes(), &[7; 90]]);
            let until = number.saturating_sub(9).to_be_bytes();
            batch.delete_range(Table::Archive, b"m@x", &[0; 8], &until);
            engine.commit(&[batch]).unwrap();
            written.store(number, std::sync::atomic::Ordering::SeqCst);
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    wait_until("tables", || engine.figures().unwrap().table_bytes > 0);
}

#[test]
fn batches_of_every_operation_are_generated() {
    // The model test would prove little if its batches had no range deletes.
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut kinds = [0; 4];
    for _ in 0..200 {
        for op in batch().new_tree(&mut runner).unwrap().current().iter() {
            kinds[match op {
                OpView::Put { .. } => 0,
                OpView::Delete { .. } => 1,
                OpView::DeleteRange { .. } => 2,
                OpView::DeleteActor { .. } => 3,
            }] += 1;
        }
    }
    assert!(kinds.iter().all(|count| *count > 50), "{kinds:?}");
}

/// Bare JIDs as long as RFC 7622 3.2 and 3.3 allow, one the prefix of the other, with the longest
/// sort key, in every table.
#[test]
fn the_longest_keys_are_stored_and_read_again() {
    let longest = format!("{}@{}", "l".repeat(1023), "d.".repeat(511) + "d");
    assert_eq!(longest.len(), ACTOR_BYTES_MAX);
    let names = [longest.as_str(), &longest[..1023], "l@d.d@d"];
    let sorts = [vec![], vec![0; SORT_KEY_BYTES_MAX], vec![0xff; SORT_KEY_BYTES_MAX]];
    let dir = tempfile::tempdir().unwrap();
    let mut engine = LsmEngine::open(&dir.path().join("store"), &small()).unwrap();
    let model = MemoryEngine::new();
    for table in Table::ALL.into_iter().filter(|table| *table != Table::Meta) {
        let mut batch = Batch::new();
        for (name, sort) in names.iter().flat_map(|name| sorts.iter().map(move |sort| (name, sort))) {
            batch.put(table, name.as_bytes(), sort, &[name.as_bytes()]);
        }
        engine.commit(std::slice::from_ref(&batch)).unwrap();
        model.commit(&[batch]).unwrap();
    }
    for _ in 0..2 {
        for name in names {
            assert_eq!(rows(&engine, Table::Roster, name), rows(&model, Table::Roster, name));
            let of_partition = Table::ALL.map(|table| partition_range(table, partition(name)));
            assert_eq!(scanned(&engine, &of_partition), scanned(&model, &of_partition));
        }
        assert!(all(&engine) == all(&model));
        drop(engine);
        engine = LsmEngine::open(&dir.path().join("store"), &small()).unwrap();
        engine.compact().unwrap();
    }
}
