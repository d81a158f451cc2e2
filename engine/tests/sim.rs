//! The simulated world over a range of seeds, and the faults that it must find.
//!
//! The message of a failing seed names the command that replays it. The program of `throng-sim`
//! runs any range on all cores.

use throng_sim::workload;
use throng_sim::world::{Crossing, Plant};

/// Number of seeds per run of the tests, in a build with assertions, which takes ten times as long;
/// the program plays more (`tests/run`).
const SEEDS: u64 = 200;

#[test]
fn no_seed_loses_doubles_or_disorders() {
    for seed in 0..SEEDS {
        if let Err(failure) = workload::run(seed, None) {
            panic!(
                "seed {seed}, step {}: {}\nreplay: cargo run -p throng-sim -- --seeds {seed}",
                failure.step, failure.what
            );
        }
    }
}

/// The first seed below 2,000 that finds a planted fault with this message. One fault can appear in
/// several ways.
fn found(plant: Plant, sign: &str) -> u64 {
    let says = |seed: u64| workload::run(seed, Some(plant)).err().filter(|failure| failure.what.contains(sign));
    (0..2_000).find(|seed| says(*seed).is_some()).expect("the planted fault is found")
}

#[test]
fn an_acknowledgement_before_the_commit_is_found() {
    found(Plant::AckBeforeCommit, "lost");
}

/// Stanzas that no home has confirmed are never acknowledged (XEP-0198 4), so their sender keeps
/// them.
#[test]
fn a_lost_batch_between_shards_is_found() {
    found(Plant::LostBatch, " acknowledgements: ");
}

#[test]
fn a_double_delivery_on_resumption_is_found() {
    found(Plant::DoubleDelivery, "twice");
}

#[test]
fn a_message_that_one_device_of_several_is_not_given_is_found() {
    found(Plant::SkippedRow, "has not got");
}

#[test]
fn a_session_that_ends_by_what_others_send_is_found() {
    found(Plant::Overflow, "ended by what others sent");
}

#[test]
fn a_refused_message_in_an_archive_that_a_client_reads_is_found() {
    found(Plant::RefusedShown, "sees in the archive");
}

#[test]
fn a_publication_that_does_not_come_is_found() {
    found(Plant::LostEvent, "was told 0 times");
}

#[test]
fn a_message_that_one_device_is_not_shown_is_found() {
    found(Plant::LostCopy, "of a conversation, but there are");
}

#[test]
fn a_conversation_in_another_order_on_one_device_is_found() {
    found(Plant::SwappedCopies, "of a conversation, but there are");
}

#[test]
fn a_publication_that_comes_twice_is_found() {
    found(Plant::DoubledEvent, "was told");
}

#[test]
fn a_row_that_an_archive_has_lost_is_found() {
    found(Plant::LostArchiveRow, "lost from an archive: 0 sent");
}

#[test]
fn an_entry_that_an_archive_has_twice_is_found() {
    found(Plant::DoubledArchiveRow, "times in its receiver's archive");
}

#[test]
fn a_retracted_message_that_a_client_is_shown_is_found() {
    found(Plant::LostTombstone, "which its sender has retracted");
}

#[test]
fn a_message_that_its_receiver_has_retracted_is_found() {
    found(Plant::OthersTombstone, "which its sender has not retracted");
}

#[test]
fn what_passes_between_two_of_whom_one_has_blocked_the_other_is_found() {
    found(Plant::Unblocked, "blocked");
    found(Plant::UnblockedMessages, "although one has blocked the other");
    found(Plant::UnblockedPresence, "presence of");
    found(Plant::UnblockedSubscriptions, "presence subscribe of");
    found(Plant::UnblockedRequests, "iq get of");
    found(Plant::UnblockedItems, "message headline of");
}

#[test]
fn counts_of_a_session_that_are_too_old_after_a_crash_are_found() {
    found(Plant::OldCounts, "");
}

#[test]
fn a_session_that_is_handed_again_what_it_had_before_a_crash_is_found() {
    found(Plant::LostTrail, "");
}

#[test]
fn an_account_over_its_quota_is_found() {
    found(Plant::Quota, "over its quota");
}

#[test]
fn an_account_over_its_quota_of_bytes_is_found() {
    found(Plant::QuotaBytes, "bytes, ");
}

#[test]
fn entries_of_a_log_in_another_order_are_found() {
    found(Plant::SwappedEntries, "came after");
}

#[test]
fn a_seed_runs_the_same_way_twice() {
    let steps = |seed| workload::run(seed, None).map(|s| (s.steps, s.delivered)).map_err(|f| (f.step, f.what));
    for seed in [3, 17, 99] {
        assert_eq!(steps(seed), steps(seed), "seed {seed}");
    }
}

#[test]
fn letters_that_are_lost_and_repeated_between_processes_change_nothing() {
    for seed in 0..SEEDS / 4 {
        for crossing in [Crossing::Encoded, Crossing::Lossy] {
            let mut run = workload::Run::new(seed, None);
            run.set_crossing(crossing);
            if let Err(failure) = run.run() {
                panic!("seed {seed}, {crossing:?}, step {}: {}", failure.step, failure.what);
            }
        }
    }
}

/// The checks see what the link is for: each of its faults shows within a few seeds.
#[test]
fn a_repeat_that_is_not_recognised_is_found_at_once() {
    assert!(found(Plant::RepeatedLetters, "") < 10);
}

#[test]
fn a_renewal_that_nobody_notices_is_found_at_once() {
    assert!(found(Plant::UnnoticedRenewal, "") < 10);
}
