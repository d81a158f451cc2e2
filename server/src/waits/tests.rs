//! Waiting threads, seen from outside. The list of threads belongs to the process, and tests run in
//! parallel: each test observes only threads with names of its own.

use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use super::*;

const LONG: Duration = Duration::from_secs(30);

/// Takes snapshots until the condition holds.
fn until<T>(so: impl Fn(&Look) -> Option<T>) -> T {
    let end = Instant::now() + LONG;
    loop {
        if let Some(found) = so(&look()) {
            return found;
        }
        assert!(Instant::now() < end, "it does not become so: {:?}", look());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The counted waits of a thread.
fn counted(thread: &str, place: Place) -> Count {
    let tallies = tallies();
    let tally = tallies.iter().find(|tally| &*tally.thread == thread).expect("it is on the list");
    tally.counts[place as usize]
}

#[test]
fn a_thread_is_seen_where_it_waits_and_where_it_waited_before() {
    let (go_on, go) = sync_channel::<()>(0);
    let thread = spawn("test-nested", move || {
        let outer = at(Place::TableWrite);
        let inner = at(Place::SegmentSync);
        go.recv().expect("told");
        drop(inner);
        go.recv().expect("told");
        drop(outer);
        go.recv().expect("told");
    });
    let thread = thread.expect("a thread");
    let place = |look: &Look| look.thread("test-nested").map(|standing| standing.place);
    let since = until(|look| {
        let standing = look.thread("test-nested").filter(|standing| standing.place == Some(Place::SegmentSync))?;
        (standing.since > Duration::from_millis(50)).then_some(standing.since)
    });
    assert!(since < LONG);
    go_on.send(()).expect("it waits");
    until(|look| (place(look) == Some(Some(Place::TableWrite))).then_some(()));
    go_on.send(()).expect("it waits");
    until(|look| (place(look) == Some(None)).then_some(()));
    go_on.send(()).expect("it waits");
    thread.join().expect("it ends");
    assert_eq!(place(&look()), None, "who has ended is not on the list");
}

#[test]
fn a_lock_names_who_holds_it_and_who_waits() {
    let lock = std::sync::Arc::new(Mutex::new(Place::LockBackup, 1));
    let (let_go, wait) = sync_channel::<()>(0);
    let held = lock.clone();
    let holder = spawn("test-holder", move || {
        let mut held = held.lock();
        wait.recv().expect("told");
        *held += 1;
    });
    until(|look| {
        look.thread("test-holder").filter(|s| s.holds.iter().any(|(lock, _)| *lock == Place::LockBackup)).map(drop)
    });
    let waited = lock.clone();
    let waiter = spawn("test-waiter", move || *waited.lock());
    let told = until(|look| {
        let standing = look.thread("test-waiter").filter(|standing| standing.place == Some(Place::LockBackup))?;
        Some(super::standing(look, standing))
    });
    assert!(told.contains("`lock backup` is held by `test-holder`"), "{told}");
    let_go.send(()).expect("it waits");
    holder.expect("a thread").join().expect("it ends");
    assert_eq!(waiter.expect("a thread").join().expect("it ends"), 2);
}

#[test]
fn waits_are_counted_only_while_somebody_counts_and_only_those_that_are_meant() {
    let (go_on, go) = sync_channel::<Place>(0);
    let (done_in, done) = sync_channel::<()>(0);
    let thread = spawn("test-counted", move || {
        while let Ok(place) = go.recv() {
            let at = at(place);
            std::thread::sleep(Duration::from_millis(2));
            drop(at);
            done_in.send(()).expect("waited for");
        }
    });
    let wait = |place| {
        go_on.send(place).expect("it waits");
        done.recv().expect("it answers");
    };
    wait(Place::CommitRoom);
    assert_eq!(counted("test-counted", Place::CommitRoom), Count::default());
    let counting = Counting::start(Pattern::new("commit queue"));
    wait(Place::CommitRoom);
    wait(Place::CommitRoom);
    wait(Place::TableRoom);
    drop(counting);
    wait(Place::CommitRoom);
    let count = counted("test-counted", Place::CommitRoom);
    assert_eq!((count.count, counted("test-counted", Place::TableRoom).count), (2, 0));
    assert!(count.total >= Duration::from_millis(4) && count.worst >= Duration::from_millis(2), "{count:?}");
    assert!(count.worst <= count.total && count.p99().is_some_and(|p99| p99 >= Duration::from_millis(2)), "{count:?}");
    // Syncs are always counted, whatever the pattern.
    wait(Place::JournalSync);
    assert_eq!(counted("test-counted", Place::JournalSync).count, 1);
    drop(go_on);
    thread.expect("a thread").join().expect("it ends");
}

#[test]
fn a_thread_that_turns_is_stuck_when_it_does_not() {
    let (turn, turns) = sync_channel::<()>(0);
    let thread = std::thread::spawn(move || {
        let _on_the_list = enter_turning("test-turning");
        while turns.recv().is_ok() {
            turned();
        }
    });
    let told = until(|look| stuck(look).into_iter().find(|stuck| stuck.what == "test-turning"));
    assert!(told.text.contains("at no known place") && told.text.contains("sleeps"), "{told:?}");
    turn.send(()).expect("it waits");
    until(|look| stuck(look).iter().all(|stuck| stuck.what != "test-turning").then_some(()));
    drop(turn);
    thread.join().expect("it ends");
}
