//! The durable engine against the sorted map: random batches, reads of every kind, reopening in between.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use throng_engine::store::{Batch, OpView, Query, Table};

use super::fjall::FjallEngine;
use super::sweep::ROWS_PER_STEP;
use super::testing::{all, get, put, rows, small};
use super::{Engine, MemoryEngine, Visit};

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<Batch>),
    Read(Query),
    Sweep,
    Reopen,
    Compact,
}

fn table() -> impl Strategy<Value = Table> {
    prop::sample::select(vec![Table::Archive, Table::Mailbox, Table::Roster])
}

fn partition() -> impl Strategy<Value = Vec<u8>> {
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
    let op = (0..10_u8, table(), partition(), sort(), sort(), prop::collection::vec(any::<u8>(), 0..40));
    prop::collection::vec(op, 1..12).prop_map(|ops| {
        let mut batch = Batch::new();
        for (kind, table, partition, a, b, value) in ops {
            match kind {
                0..=5 => batch.put(table, &partition, &a, &[&value[..], b"!"]),
                6 => batch.delete(table, &partition, &a),
                7..=8 => batch.delete_range(table, &partition, &a, &b),
                _ => batch.delete_partition(table, &partition),
            }
        }
        batch
    })
}

fn query() -> impl Strategy<Value = Query> {
    let range = (table(), partition(), sort(), prop::option::of(sort()), any::<bool>(), 0_u32..5, 0_u32..60);
    prop_oneof![
        (table(), partition(), sort()).prop_map(|(table, partition, sort)| Query::Get {
            table,
            partition: partition.into(),
            sort: sort.into()
        }),
        range.prop_map(|(table, partition, from, until, reverse, rows_max, bytes_max)| Query::Range {
            table,
            partition: partition.into(),
            from: from.into(),
            until: until.map(Vec::into),
            reverse,
            rows_max,
            bytes_max,
        }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => prop::collection::vec(batch(), 1..5).prop_map(Step::Commit),
        10 => query().prop_map(Step::Read),
        1 => Just(Step::Sweep),
        1 => Just(Step::Reopen),
        1 => Just(Step::Compact),
    ]
}

fn partitions(engine: &dyn Engine, table: Table, after: Option<&[u8]>) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    engine
        .for_each_partition(table, after, &mut |partition| {
            found.push(partition.to_vec());
            Visit::Continue(())
        })
        .unwrap();
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_does_what_the_sorted_map_does(steps in prop::collection::vec(step(), 1..40)) {
        let dir = tempfile::tempdir().unwrap();
        let engine = FjallEngine::open(&dir.path().join("store"), &small()).unwrap();
        let model = MemoryEngine::new();
        for step in steps {
            match step {
                Step::Commit(batches) => {
                    engine.commit(&batches).unwrap();
                    model.commit(&batches).unwrap();
                }
                Step::Read(query) => prop_assert_eq!(engine.read(&query).unwrap(), model.read(&query).unwrap()),
                Step::Sweep => {
                    engine.sweep().unwrap();
                }
                Step::Reopen => engine.reopen().unwrap(),
                Step::Compact => engine.compact().unwrap(),
            }
        }
        prop_assert_eq!(all(&engine), all(&model));
        for table in [Table::Archive, Table::Roster] {
            prop_assert_eq!(partitions(&engine, table, None), partitions(&model, table, None));
            prop_assert_eq!(partitions(&engine, table, Some(b"a@x")), partitions(&model, table, Some(b"a@x")));
        }
        engine.reopen().unwrap();
        prop_assert_eq!(all(&engine), all(&model));
    }
}

/// Both engines with `count` rows of one partition, and one row of its neighbours.
fn with_rows(dir: &std::path::Path, count: u64) -> (FjallEngine, MemoryEngine) {
    let engine = FjallEngine::open(&dir.join("store"), &small()).unwrap();
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
fn a_large_range_is_hidden_at_once_and_removed_in_steps() {
    let dir = tempfile::tempdir().unwrap();
    let count = 3 * ROWS_PER_STEP as u64 + 10;
    let (engine, model) = with_rows(dir.path(), count);
    let mut delete = Batch::new();
    delete.delete_range(Table::Archive, b"b@x", &1_u64.to_be_bytes(), &(count - 1).to_be_bytes());
    engine.commit(std::slice::from_ref(&delete)).unwrap();
    model.commit(&[delete]).unwrap();
    assert_eq!(engine.figures().unwrap().pending_ranges, 1);
    assert_eq!(all(&engine), all(&model));
    assert_eq!(rows(&engine, Table::Archive, "b@x").len(), 2);
    assert_eq!(get(&engine, Table::Archive, "b@x", &(count - 2).to_be_bytes()), None);

    // It stays hidden over a restart, and goes on.
    assert!(engine.sweep().unwrap());
    engine.reopen().unwrap();
    assert_eq!(engine.figures().unwrap().pending_ranges, 1);
    assert_eq!(all(&engine), all(&model));
    while engine.sweep().unwrap() {}
    assert_eq!(engine.figures().unwrap().pending_ranges, 0);
    assert_eq!(all(&engine), all(&model));
    engine.reopen().unwrap();
    assert_eq!(all(&engine), all(&model));
}

#[test]
fn a_row_put_into_a_range_on_its_way_out_stays() {
    let dir = tempfile::tempdir().unwrap();
    let count = 3 * ROWS_PER_STEP as u64;
    let (engine, model) = with_rows(dir.path(), count);
    let mut delete = Batch::new();
    delete.delete_partition(Table::Archive, b"b@x");
    let again = put(Table::Archive, "b@x", &(count - 1).to_be_bytes(), b"new");
    for engine in [&engine as &dyn Engine, &model] {
        engine.commit(std::slice::from_ref(&delete)).unwrap();
        engine.commit(std::slice::from_ref(&again)).unwrap();
    }
    assert_eq!(all(&engine), all(&model));
    engine.reopen().unwrap();
    assert_eq!(all(&engine), all(&model));

    // The same within one group.
    let (first, last) = (put(Table::Archive, "b@x", b"early", b"gone"), put(Table::Archive, "b@x", b"\xffx", b"stays"));
    let mut many = Batch::new();
    for id in 0..count {
        many.put(Table::Archive, b"b@x", &id.to_be_bytes(), &[b"old"]);
    }
    for engine in [&engine as &dyn Engine, &model] {
        engine.commit(std::slice::from_ref(&many)).unwrap();
        engine.commit(&[first.clone(), delete.clone(), last.clone()]).unwrap();
    }
    while engine.sweep().unwrap() {}
    assert_eq!(all(&engine), all(&model));
    assert_eq!(rows(&engine, Table::Archive, "b@x").len(), 1);
}

#[test]
fn batches_of_every_operation_are_generated() {
    // The model test would prove little if its batches held no range deletes.
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut kinds = [0; 4];
    for _ in 0..200 {
        for op in batch().new_tree(&mut runner).unwrap().current().iter() {
            kinds[match op {
                OpView::Put { .. } => 0,
                OpView::Delete { .. } => 1,
                OpView::DeleteRange { .. } => 2,
                OpView::DeletePartition { .. } => 3,
            }] += 1;
        }
    }
    assert!(kinds.iter().all(|count| *count > 50), "{kinds:?}");
}
