//! Settings that change while a shard runs apply from then on, also to existing streams.

use std::sync::Arc;

use throng_engine::io::{Command, Effect, Input, Reply};
use throng_engine::settings::Settings;
use throng_sim::host::{Host, reply, said};

fn host(settings: &Settings) -> Host {
    let mut host = Host::new(settings.clone());
    host.account("romeo");
    host
}

/// Opens another connection of Romeo's, whose resource is bound or refused.
fn bind(host: &mut Host, slot: u32) -> String {
    said(&host.bind(slot, "romeo").1)
}

fn turn_knobs(host: &mut Host, settings: &Settings) {
    let command = Command::Turn(Arc::new(settings.clone()));
    assert_eq!(reply(host.turn(Input::Command { token: 7, command })), Some(Reply::Done(0)));
}

/// RFC 6120 7.6.2.1: a resource beyond the limit is refused with `<resource-constraint/>`.
#[test]
fn how_many_resources_may_be_bound_changes_at_once_rfc6120_7_6_2_1() {
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    let mut host = host(&settings);
    assert!(bind(&mut host, 0).contains("<jid>"));
    settings.sessions_per_user_max = 1;
    turn_knobs(&mut host, &settings);
    assert!(bind(&mut host, 1).contains("<resource-constraint"));
    settings.sessions_per_user_max = 2;
    turn_knobs(&mut host, &settings);
    assert!(bind(&mut host, 2).contains("<jid>"));
}

/// XEP-0199 4.1, RFC 6120 4.6.4: a silent client is pinged, and disconnected if that does not help,
/// by the current time-out.
#[test]
fn a_shorter_time_out_holds_for_streams_that_are_there_rfc6120_4_6_4() {
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    let mut host = host(&settings);
    bind(&mut host, 0);
    host.now.mono_ms += 60_000;
    assert_eq!(said(&host.turn(Input::EndOfTurn)), "");
    settings.idle_s_max = 5;
    turn_knobs(&mut host, &settings);
    host.now.mono_ms += 1_000;
    let effects = host.turn(Input::EndOfTurn);
    assert!(said(&effects).contains("<connection-timeout"), "silent for 61 seconds, of which it may be for 10");
    assert_eq!(effects.iter().filter(|effect| matches!(effect, Effect::Close { .. })).count(), 1);
}

/// XEP-0478 2: the announced limits of a stream are the effective ones.
#[test]
fn a_new_stream_offers_the_time_out_as_it_is_now_xep_0478_2() {
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    let mut host = host(&settings);
    let offer = said(&host.arrive(0, "romeo").1);
    assert!(offer.contains("<idle-seconds>600</idle-seconds>"), "{offer}");
    settings.idle_s_max = 5;
    turn_knobs(&mut host, &settings);
    let offer = said(&host.arrive(1, "romeo").1);
    assert!(offer.contains("<idle-seconds>5</idle-seconds>"), "{offer}");
    settings.idle_s_max = 0;
    turn_knobs(&mut host, &settings);
    let offer = said(&host.arrive(2, "romeo").1);
    assert!(offer.contains("<limits ") && !offer.contains("idle-seconds"), "{offer}");
}

#[test]
#[should_panic(expected = "these do not change while a shard runs")]
fn what_was_promised_to_streams_does_not_change() {
    let settings = Settings::new("localhost", 1, [0; 32], 0);
    let mut host = host(&settings);
    turn_knobs(&mut host, &Settings { stanza_bytes_max: 10_000, ..settings });
}
