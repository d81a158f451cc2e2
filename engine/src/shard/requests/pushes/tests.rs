use super::*;

fn registration(service: &str, device: u64) -> Registration {
    Registration { jid: service.into(), node: "n".into(), device, options: Box::default(), failures: 0, until_s: 0 }
}

fn reason(account: &str) -> Wake {
    Wake { account: account.into(), device: None, waiting: 0, last: None }
}

/// A reason, and what is told of it.
fn wakes(pushes: &mut Pushes, now_ms: u64, account: &str, all: Vec<Registration>, attended: &[u64]) -> usize {
    assert_eq!(pushes.wake(now_ms, reason(account), attended), Next::Look);
    let round = pushes.found((now_ms, 1), 10_000, account, all, attended);
    round.told.iter().for_each(|to| drop(pushes.sent(ShardId(2), now_ms, account, to, "secret")));
    round.told.len()
}

#[test]
fn a_storm_of_messages_is_told_of_twice_in_an_interval() {
    let mut pushes = Pushes::default();
    let all = || vec![registration("s@x", 1), registration("t@x", 2)];
    assert_eq!(wakes(&mut pushes, 0, "a@x", all(), &[2]), 1, "nobody looks at the first device");
    for now_ms in 1..10_000 {
        assert_eq!(pushes.wake(now_ms, reason("a@x"), &[2]), Next::Nothing);
        assert_eq!(pushes.next_due(now_ms), None);
    }
    assert_eq!(pushes.next_due(10_000).as_deref(), Some("a@x"));
    let round = pushes.found((10_000, 1), 10_000, "a@x", all(), &[2]);
    assert_eq!((round.told.len(), round.count), (1, 10_000));
    assert_eq!(pushes.next_due(20_000), None, "nothing more has come");
    assert!(pushes.users.is_empty() && pushes.due.is_empty());
}

#[test]
fn a_device_that_somebody_looks_at_is_told_of_at_once_when_nobody_does_any_more() {
    let mut pushes = Pushes::default();
    assert_eq!(wakes(&mut pushes, 0, "a@x", vec![registration("s@x", 1)], &[1]), 0);
    assert_eq!(pushes.wake(5, reason("a@x"), &[1]), Next::Nothing, "and its registration is not read again");
    assert_eq!(wakes(&mut pushes, 6, "a@x", vec![registration("s@x", 1)], &[]), 1);
}

/// The device has got the message, and leaves while its registration is being read.
#[test]
fn a_device_that_was_looked_at_when_a_message_came_is_not_told_of_it_when_it_has_left() {
    let mut pushes = Pushes::default();
    let all = || vec![registration("s@x", 1)];
    assert_eq!(pushes.wake(0, reason("a@x"), &[1, 2]), Next::Look);
    assert_eq!(pushes.wake(1, reason("a@x"), &[1]), Next::Nothing);
    assert_eq!(pushes.found((2, 1), 10_000, "a@x", all(), &[]).told.len(), 0);
    assert_eq!(pushes.wake(3, reason("a@x"), &[]), Next::Look);
    let round = pushes.found((4, 1), 10_000, "a@x", all(), &[]);
    assert_eq!((round.told.len(), round.count), (1, 1), "of the next one it is, and of no other");
    // Or it has not got it: its session says so when it ends.
    assert_eq!(pushes.wake(5, reason("b@x"), &[1]), Next::Look);
    assert_eq!(pushes.wake(6, Wake { device: Some(1), waiting: 1, ..reason("b@x") }, &[]), Next::Nothing);
    assert_eq!(pushes.found((7, 1), 10_000, "b@x", all(), &[]).told.len(), 1);
    // Or one of two came when nobody looked.
    assert_eq!(pushes.wake(8, reason("c@x"), &[1]), Next::Look);
    assert_eq!(pushes.wake(9, reason("c@x"), &[]), Next::Nothing);
    assert_eq!(pushes.found((10, 1), 10_000, "c@x", all(), &[]).told.len(), 1);
}

#[test]
fn who_answers_nothing_is_told_little_whoever_names_the_address() {
    let mut pushes = Pushes::default();
    let told: usize =
        (0..1_000).map(|n| wakes(&mut pushes, 0, &format!("a{n}@x"), vec![registration("victim@x/r", 1)], &[])).sum();
    assert_eq!(told, usize::from(PUSH_WINDOW_MIN));
    assert_eq!(pushes.pending(), u64::from(PUSH_WINDOW_MIN));
    // They have failed, and there is room for as many.
    let failed = std::iter::from_fn(|| pushes.unanswered(PUSH_ANSWER_MS)).count();
    assert_eq!((failed, pushes.pending()), (usize::from(PUSH_WINDOW_MIN), 0));
}

#[test]
fn a_service_that_takes_what_it_is_told_is_told_more() {
    let mut pushes = Pushes::default();
    for n in 0..100 {
        let account = format!("a{n}@x");
        pushes.wake(0, reason(&account), &[]);
        let round = pushes.found((0, 1), 10_000, &account, vec![registration("s@x/r", 1)], &[]);
        let id = pushes.sent(ShardId(2), 0, &account, &round.told[0], "secret");
        assert_eq!(shard_of(&id), Some(ShardId(2)));
        assert!(pushes.answered(&id, "other@x/r", true).is_none(), "somebody else answers");
        assert!(pushes.answered(&id.replace("secret", "guess"), "s@x/r", true).is_none());
        assert_eq!(&*pushes.answered(&id, "s@x/q", true).expect("it is answered").account, account);
        assert!(pushes.answered(&id, "s@x/r", true).is_none(), "once");
    }
    let told: usize =
        (0..1_000).map(|n| wakes(&mut pushes, 1, &format!("b{n}@x"), vec![registration("s@x/r", 1)], &[])).sum();
    assert_eq!(told, usize::from(PUSH_WINDOW_MIN) + 100);
    assert!(pushes.under_way.len() == told && pushes.answered("push-2-zz-secret", "s@x", true).is_none());
}

#[test]
fn nothing_is_published_before_the_time_that_failures_have_set_and_it_is_then() {
    let mut pushes = Pushes::default();
    let failed = || vec![Registration { until_s: 61, failures: 1, ..registration("s@x", 1) }];
    assert_eq!(wakes(&mut pushes, 0, "a@x", failed(), &[]), 0);
    assert_eq!(pushes.wake(1, reason("a@x"), &[]), Next::Nothing);
    assert_eq!(pushes.next_due(59_999), None);
    assert_eq!(pushes.next_due(60_000).as_deref(), Some("a@x"));
    assert_eq!(pushes.found((60_000, 61), 10_000, "a@x", failed(), &[]).told.len(), 1);
    // The clock was set back by years.
    let far = vec![Registration { until_s: 1 << 40, failures: 1, ..registration("s@x", 1) }];
    assert_eq!(wakes(&mut pushes, 60_000, "b@x", far, &[]), 1);
}

#[test]
fn a_service_that_fails_holds_up_no_other_one_of_the_same_device() {
    let mut pushes = Pushes::default();
    let failed = Registration { until_s: 1_801, failures: 9, ..registration("old@x", 1) };
    let both = || vec![failed.clone(), registration("new@x", 1)];
    for n in 0..3 {
        assert_eq!(wakes(&mut pushes, 10_000 * n, "a@x", both(), &[]), 1, "the one that works, for each message");
        assert_eq!(pushes.next_due(10_000 * (n + 1) - 1), None);
    }
    // And no message comes any more: of the one that works nothing is owed.
    assert_eq!(pushes.next_due(1_819_999), None);
    assert_eq!(pushes.next_due(1_820_000).as_deref(), Some("a@x"));
    let round = pushes.found((1_820_000, 1_801), 10_000, "a@x", both(), &[]);
    assert_eq!(round.told, std::slice::from_ref(&failed));
}

#[test]
fn users_and_services_are_bounded() {
    let mut pushes = Pushes::default();
    for n in 0..PUSH_USERS_MAX {
        assert_eq!(pushes.wake(0, reason(&format!("a{n}@x")), &[]), Next::Look);
    }
    assert_eq!(pushes.wake(0, reason("b@x"), &[]), Next::Full);
    // Whose registrations could not be read is forgotten.
    assert_eq!(pushes.next_due(LOOK_MS), None);
    assert!(pushes.users.is_empty());
    let told: usize = (0..=PUSH_SERVICES_MAX)
        .map(|n| wakes(&mut pushes, 0, &format!("a{n}@x"), vec![registration(&format!("s{n}@x"), 1)], &[]))
        .sum();
    assert_eq!(told, PUSH_SERVICES_MAX, "all of them are awaited");
    while pushes.unanswered(PUSH_ANSWER_MS).is_some() {}
    assert_eq!(wakes(&mut pushes, 0, "c@x", vec![registration("t@x", 1)], &[]), 1, "those at rest give way");
    assert_eq!(pushes.services.len(), 1);
}
