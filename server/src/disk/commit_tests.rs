//! The committer and the readers: one order over many threads, wakes, limits, and reads that see
//! the shard's writes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use throng_engine::id::Gate;
use throng_engine::store::{Batch, Found, OpView, Query, Table};

use super::testing::{LONG, as_inner, get, no_wakes, panics, put, wait_until};
use super::*;

/// Records the order in which batches are applied, and can be made to wait.
#[derive(Default)]
struct Noting {
    inner: MemoryEngine,
    order: Mutex<Vec<Vec<u8>>>,
    groups: AtomicUsize,
    blocked: AtomicBool,
    slow: AtomicBool,
}

impl Engine for Noting {
    fn bytes_s(&self) -> Option<u64> {
        self.slow.load(Ordering::SeqCst).then_some(0)
    }
    fn commit(&self, batches: &[Batch]) -> Result<(), DiskError> {
        while self.blocked.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.groups.fetch_add(1, Ordering::SeqCst);
        let mut order = self.order.lock().unwrap();
        for op in batches.iter().flat_map(Batch::iter) {
            if let OpView::Put { value, .. } = op {
                order.push(value.to_vec());
            }
        }
        self.inner.commit(batches)
    }
    as_inner!(read, for_each_actor);
}

fn numbered(shard: usize, number: u64) -> Batch {
    let value = format!("{shard} {number}");
    put(Table::Archive, &format!("shard{shard}@x"), &number.to_be_bytes(), value.as_bytes())
}

#[test]
fn gates_give_one_order_to_all_shards() {
    const SHARDS: usize = 8;
    const EACH: u64 = 3000;
    let engine = Arc::new(Noting::default());
    let options = Options { shard_queue_batches_max: 32, ..Options::default() };
    let (committer, submitters) =
        Committer::start(engine.clone(), None, SHARDS, no_wakes(SHARDS), &options, panics()).unwrap();
    let gates: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = submitters
            .into_iter()
            .enumerate()
            .map(|(shard, mut submitter)| {
                scope.spawn(move || {
                    (0..EACH)
                        .map(|number| {
                            while submitter.is_full() {
                                std::thread::yield_now();
                            }
                            submitter.submit(numbered(shard, number)).0
                        })
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    committer.stop();
    let order = engine.order.lock().unwrap();
    assert_eq!(order.len(), SHARDS * EACH as usize);
    for (shard, gates) in gates.iter().enumerate() {
        for (number, gate) in gates.iter().enumerate() {
            // A gate is the position in the one order.
            assert_eq!(order[usize::try_from(*gate).unwrap() - 1], format!("{shard} {number}").into_bytes());
        }
    }
    let groups = engine.groups.load(Ordering::SeqCst) as u64;
    assert!(groups < order.len() as u64, "batches are grouped");
    let Seen { counters, latencies } = engine.counters();
    let told = [&counters.commits, &counters.batches, &counters.rows].map(|counter| counter.get());
    assert_eq!(told, [groups, order.len() as u64, order.len() as u64]);
    let mut buckets = [0; throng_engine::counters::Latencies::BUCKETS];
    latencies.read(&mut buckets);
    assert_eq!(buckets.iter().sum::<u64>(), groups, "each commit has its time");
}

#[test]
fn what_follows_from_a_batch_is_applied_after_it() {
    // Shard 0 hands in a batch and writes to shard 1, which then hands in its own: 0's comes first,
    // every time.
    let engine = Arc::new(Noting::default());
    let (committer, submitters) =
        Committer::start(engine.clone(), None, 2, no_wakes(2), &Options::default(), panics()).unwrap();
    let [mut first, mut second] = <[Submitter; 2]>::try_from(submitters).unwrap();
    let (letters, inbox) = mpsc::sync_channel::<(u64, Gate)>(1);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..5000 {
                let gate = first.submit(numbered(0, number));
                letters.send((number, gate)).unwrap();
                if number % 7 == 0 {
                    first.submit(numbered(7, number));
                }
            }
        });
        scope.spawn(move || {
            for (number, before) in inbox {
                assert!(second.submit(numbered(1, number)) > before);
            }
        });
    });
    committer.stop();
    let order = engine.order.lock().unwrap();
    let place = |value: String| order.iter().position(|v| *v == value.as_bytes()).unwrap();
    for number in (0..5000).step_by(97) {
        assert!(place(format!("0 {number}")) < place(format!("1 {number}")));
    }
}

#[test]
fn a_waiting_shard_is_woken_and_a_full_one_is_told() {
    let engine = Arc::new(Noting::default());
    let woken = Arc::new(AtomicUsize::new(0));
    let counter = woken.clone();
    let wake: Arc<dyn Wake> = Arc::new(move || {
        counter.fetch_add(1, Ordering::SeqCst);
    });
    let options = Options { shard_queue_bytes_max: 1000, ..Options::default() };
    let (committer, mut submitters) =
        Committer::start(engine.clone(), None, 1, vec![wake], &options, panics()).unwrap();
    let submitter = &mut submitters[0];
    assert_eq!(submitter.submit(Batch::new()), Gate(0));
    engine.blocked.store(true, Ordering::SeqCst);
    let mut gate = Gate(0);
    while !submitter.is_full() {
        gate = submitter.submit(put(Table::Archive, "a@x", b"k", &[7; 100]));
    }
    assert_eq!(gate, Gate(10), "ten batches of about a hundred bytes fill a queue of a thousand");
    assert_eq!(submitter.queued_batches(), 10);
    assert!(!submitter.wake_at(gate));
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!((woken.load(Ordering::SeqCst), submitter.durable() < gate), (0, true));
    engine.blocked.store(false, Ordering::SeqCst);
    wait_until("the wake", || woken.load(Ordering::SeqCst) == 1);
    assert_eq!(submitter.durable(), gate);
    assert!(!submitter.is_full() && submitter.wake_at(gate));
    assert_eq!((submitter.queued_bytes(), submitter.queued_batches()), (0, 0));
    assert!(submitter.spare(&Batch::new()).is_empty());
    committer.stop();
}

/// The kernel's status of a thread, if it exists.
fn status_of(task: &Path) -> String {
    std::fs::read_to_string(task.join("status")).unwrap_or_default()
}

#[test]
fn an_idle_committer_uses_no_time() {
    // Other tests run committers, too.
    let committers = || -> BTreeSet<PathBuf> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().filter_map(|task| Some(task.ok()?.path()));
        tasks.filter(|task| status_of(task).starts_with("Name:\tthrong-commit")).collect()
    };
    let others = committers();
    let dir = tempfile::tempdir().unwrap();
    let options = Options { min_free_bytes: 0, ..super::testing::small() };
    let (committer, mut submitters) = Committer::start(
        Arc::new(MemoryEngine::new()),
        Some(dir.path().to_owned()),
        1,
        no_wakes(1),
        &options,
        panics(),
    )
    .unwrap();
    let gate = submitters[0].submit(numbered(0, 1));
    wait_until("durable", || submitters[0].durable() >= gate);
    let own: Vec<PathBuf> = committers().difference(&others).cloned().collect();
    assert!(!own.is_empty(), "a committer's thread");
    let switches = || -> u64 {
        let counts = |status: String| -> u64 {
            let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
            lines.map(|line| line.split_whitespace().last().unwrap().parse::<u64>().unwrap()).sum()
        };
        own.iter().map(|task| counts(status_of(task))).sum()
    };
    // Another committer may have started in the meantime: only one that never stops switching fails
    // every time.
    let quiet = (0..20).any(|_| {
        let before = switches();
        std::thread::sleep(Duration::from_millis(100));
        switches() == before
    });
    assert!(quiet, "the committer's thread sleeps without a time limit");
    committer.stop();
}

#[test]
fn a_read_sees_what_its_shard_wrote_before_and_answers_come_in_order() {
    const SHARDS: usize = 3;
    let noting = Arc::new(Noting::default());
    let engine: Arc<dyn Engine> = noting.clone();
    let options = Options { shard_reads_max: 16, ..Options::default() };
    let sleepers = Readers::sleepers(&options);
    let mut wakes = no_wakes(SHARDS);
    wakes.extend(sleepers.iter().map(|sleeper| sleeper.clone() as Arc<dyn Wake>));
    let (committer, mut submitters) =
        Committer::start(engine.clone(), None, SHARDS, wakes, &options, panics()).unwrap();
    let (readers, mut ports) = Readers::start(&engine, &committer, sleepers, SHARDS, &options, &panics()).unwrap();
    let query = |number: u64| Query::Get {
        table: Table::Archive,
        actor: b"shard2@x"[..].into(),
        sort: number.to_be_bytes().into(),
    };
    for round in 0..200_u64 {
        noting.blocked.store(round % 20 == 0, Ordering::SeqCst);
        for number in round * 16..(round + 1) * 16 {
            let after = submitters[2].submit(numbered(2, number));
            let request = ReadRequest { token: number, after, queries: vec![query(number), query(u64::MAX)] };
            ports[2].submit(request).unwrap();
        }
        assert!(ports[2].is_full());
        let one_more = ReadRequest { token: 0, after: Gate(0), queries: Vec::new() };
        assert!(ports[2].submit(one_more).is_err(), "reads outstanding are bounded");
        if round % 20 == 0 {
            std::thread::sleep(Duration::from_millis(5));
            assert!(ports[2].poll().is_none(), "no answer before the shard's writes are durable");
            noting.blocked.store(false, Ordering::SeqCst);
        }
        for number in round * 16..(round + 1) * 16 {
            let mut answer = None;
            wait_until("an answer", || {
                answer = ports[2].poll();
                answer.is_some()
            });
            let answer = answer.unwrap();
            assert_eq!(answer.token, number);
            let value = format!("2 {number}").into_bytes().into_boxed_slice();
            assert_eq!(answer.found, [Found::Value(Some(value)), Found::Value(None)]);
        }
    }
    drop(readers);
    committer.stop();
    assert!(get(&noting.inner, Table::Archive, "shard2@x", &0_u64.to_be_bytes()).is_some());
}

#[test]
fn a_shard_is_woken_once_for_answers_that_come_together_and_for_none_too_few() {
    const READS: usize = 16;
    let noting = Arc::new(Noting::default());
    let engine: Arc<dyn Engine> = noting.clone();
    let options = Options { shard_reads_max: READS, ..Options::default() };
    let sleepers = Readers::sleepers(&options);
    let (rings, rung) = mpsc::channel();
    let rings = Mutex::new(rings);
    let ring = move || rings.lock().unwrap().send(()).unwrap_or_default();
    let mut wakes: Vec<Arc<dyn Wake>> = vec![Arc::new(ring)];
    wakes.extend(sleepers.iter().map(|sleeper| sleeper.clone() as Arc<dyn Wake>));
    let (committer, mut submitters) = Committer::start(engine.clone(), None, 1, wakes, &options, panics()).unwrap();
    let (readers, mut ports) = Readers::start(&engine, &committer, sleepers, 1, &options, &panics()).unwrap();
    noting.blocked.store(true, Ordering::SeqCst);
    let after = submitters[0].submit(numbered(0, 0));
    for token in 0..READS as u64 {
        ports[0].submit(ReadRequest { token, after, queries: Vec::new() }).unwrap();
    }
    noting.blocked.store(false, Ordering::SeqCst);
    let (mut answers, mut wakes) = (0, 0);
    while answers < READS {
        rung.recv_timeout(LONG).expect("a wake for the rest");
        wakes += 1;
        answers += std::iter::from_fn(|| ports[0].poll()).count();
    }
    assert!(wakes < READS, "{wakes} wakes for {READS} answers that were ready at once");
    drop(readers);
    committer.stop();
}

/// Answers are freed by their reader: after falling asleep, a thread takes back its share of them
/// once, and then sleeps on.
#[test]
fn a_reader_at_rest_gives_memory_back_once() {
    static GIVEN: AtomicUsize = AtomicUsize::new(0);
    let give_back = || {
        GIVEN.fetch_add(1, Ordering::SeqCst);
    };
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::default());
    let options = Options { read_threads: 1, give_back, ..Options::default() };
    let sleepers = Readers::sleepers(&options);
    let mut wakes = no_wakes(1);
    wakes.extend(sleepers.iter().map(|sleeper| sleeper.clone() as Arc<dyn Wake>));
    let (committer, _submitters) = Committer::start(engine.clone(), None, 1, wakes, &options, panics()).unwrap();
    let (readers, mut ports) = Readers::start(&engine, &committer, sleepers, 1, &options, &panics()).unwrap();
    let before = GIVEN.load(Ordering::SeqCst);
    ports[0].submit(ReadRequest { token: 1, after: Gate(0), queries: Vec::new() }).unwrap();
    wait_until("an answer", || ports[0].poll().is_some());
    assert_eq!(GIVEN.load(Ordering::SeqCst), before, "not while more may come");
    wait_until("memory to be given back", || GIVEN.load(Ordering::SeqCst) > before);
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(GIVEN.load(Ordering::SeqCst), before + 1, "there was nothing more to give back");
    drop(readers);
    committer.stop();
}

#[test]
fn groups_and_queues_are_as_large_as_the_operator_wants_from_the_next_one_on() {
    let engine = Arc::new(Noting::default());
    let (committer, mut submitters) =
        Committer::start(engine.clone(), None, 1, no_wakes(1), &Options::default(), panics()).unwrap();
    let submitter = &mut submitters[0];
    let mut groups_of_twenty = |group_bytes_max| {
        committer.tuner().tune(group_bytes_max, 0);
        engine.blocked.store(true, Ordering::SeqCst);
        let first = engine.groups.load(Ordering::SeqCst);
        let gates: Vec<Gate> = (0..20).map(|number| submitter.submit(numbered(0, number))).collect();
        engine.blocked.store(false, Ordering::SeqCst);
        wait_until("durable", || submitter.durable() >= gates[19]);
        engine.groups.load(Ordering::SeqCst) - first
    };
    assert!(groups_of_twenty(4 << 20) < 20, "what came while the first was under way is one group");
    assert_eq!(groups_of_twenty(1), 20, "one batch a group");
    submitter.tune(1);
    engine.blocked.store(true, Ordering::SeqCst);
    submitter.submit(numbered(0, 1));
    assert!(submitter.is_full(), "a byte is enough now");
    submitter.tune(1 << 20);
    assert!(!submitter.is_full());
    engine.blocked.store(false, Ordering::SeqCst);
    committer.stop();
}

/// 8 MB queued before the slow commits of an engine that is behind would delay everything for
/// seconds.
#[test]
fn less_is_taken_in_while_the_engine_slows_commits_down() {
    let engine = Arc::new(Noting::default());
    let (committer, submitters) =
        Committer::start(engine.clone(), None, 1, no_wakes(1), &Options::default(), panics()).unwrap();
    let mut submitter = submitters.into_iter().next().unwrap();
    let large = || put(Table::Archive, "romeo@x", b"", &[7; 400 << 10]);
    for slow in [false, true, false] {
        engine.slow.store(slow, Ordering::SeqCst);
        let gate = submitter.submit(numbered(0, 0));
        wait_until("durable", || submitter.durable() >= gate);
        engine.blocked.store(true, Ordering::SeqCst);
        let gate = submitter.submit(large());
        let full = submitter.is_full();
        engine.blocked.store(false, Ordering::SeqCst);
        wait_until("durable", || submitter.durable() >= gate);
        assert_eq!((full, submitter.is_full()), (slow, false));
    }
    committer.stop();
}
