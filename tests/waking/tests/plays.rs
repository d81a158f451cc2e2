//! All orders of the steps in which the server's threads fall asleep and are woken; and, for each kind of sleeper, a planted
//! fault that is found.

use throng_waking::real::models::{Check, arrivals, committer, explore, peers, reader};
use throng_waking::{fenceless, relaxed, torn};

/// So many orders at least are told from one another: a play that hardly branches shows nothing.
const PLAYS_MIN: usize = 100;

#[test]
fn no_letter_is_slept_on() {
    let plays = explore(4, || peers(1, 2)) + explore(3, || peers(2, 1));
    println!("{plays} plays");
    assert!(plays >= PLAYS_MIN, "{plays} plays");
}

#[test]
fn no_socket_that_arrives_is_slept_on() {
    let plays = explore(4, || arrivals(1, 2)) + explore(2, || arrivals(2, 1));
    println!("{plays} plays");
    assert!(plays >= PLAYS_MIN, "{plays} plays");
}

#[test]
fn neither_committer_nor_shards_sleep_on_a_batch() {
    let plays = explore(4, || committer(1, 2, Check::Done)) + explore(2, || committer(2, 1, Check::Done));
    println!("{plays} plays");
    assert!(plays >= PLAYS_MIN, "{plays} plays");
}

#[test]
fn no_reader_sleeps_on_a_request_that_it_may_answer() {
    let plays = explore(3, || reader(1, Check::Done)) + explore(2, || reader(2, Check::Done));
    println!("{plays} plays");
    assert!(plays >= PLAYS_MIN, "{plays} plays");
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_bell_that_is_looked_at_before_and_not_while_falling_asleep_is_found_by_letters() {
    explore(3, || torn::models::peers(1, 2));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_ring_that_carries_nothing_is_found_by_letters() {
    explore(3, || relaxed::models::peers(1, 1));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_bell_that_is_looked_at_before_and_not_while_falling_asleep_is_found_by_arrivals() {
    explore(3, || torn::models::arrivals(1, 2));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_ring_that_carries_nothing_is_found_by_arrivals() {
    explore(3, || relaxed::models::arrivals(1, 1));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_committer_without_its_last_look_is_found() {
    explore(3, || committer(1, 1, Check::LeftOut));
}

#[test]
#[should_panic(expected = "deadlock")]
fn commits_without_fences_are_found() {
    explore(3, || fenceless::models::committer(1, 1, fenceless::models::Check::Done));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_reader_without_its_last_look_is_found() {
    explore(3, || reader(1, Check::LeftOut));
}

#[test]
#[should_panic(expected = "deadlock")]
fn reads_without_fences_are_found() {
    explore(3, || fenceless::models::reader(1, fenceless::models::Check::Done));
}
