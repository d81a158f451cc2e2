//! A client that takes its output stays connected, however slowly; one that takes nothing for too
//! long is disconnected, and its session can be resumed.

use throng_engine::id::ConnId;
use throng_engine::io::{Command, Effect, Input, SessionCommand};
use throng_engine::settings::{SEND_STALL_S_DEFAULT, Settings};
use throng_sim::host::{self, Host};

/// Romeo's session, with a send in flight.
fn sending() -> (Host, ConnId) {
    let mut host = Host::new(Settings::new("localhost", 1, [0; 32], 0));
    host.account("romeo");
    let (conn, _) = host.bind(0, "romeo");
    host.prompt = false;
    let command = Command::Session(SessionCommand::Say { jid: None, text: "large".into(), urgent: false });
    assert!(host::said(&host.turn(Input::Command { token: 1, command })).contains("large"));
    (host, conn)
}

/// Lets seconds pass, each with a turn; returns the one in which the connection was closed.
fn cut_after(host: &mut Host, seconds: u32, mut each: impl FnMut(&mut Host, u32)) -> Option<u32> {
    (1..=seconds).find(|second| {
        host.now.mono_ms += 1_000;
        each(host, *second);
        let effects = host.turn(Input::EndOfTurn);
        effects.iter().any(|effect| matches!(effect, Effect::Close { abort: true, .. }))
    })
}

#[test]
fn a_send_that_goes_on_is_not_cut_and_one_that_stands_is() {
    let (mut host, _) = sending();
    let cut = cut_after(&mut host, 2 * SEND_STALL_S_DEFAULT, |_, _| {});
    assert!(cut.is_some_and(|second| second > SEND_STALL_S_DEFAULT), "{cut:?}");

    // One step in nearly all of the permitted time: for as long as that continues.
    let (mut host, conn) = sending();
    let goes_on = |host: &mut Host, second| {
        if second % (SEND_STALL_S_DEFAULT - 1) == 0 {
            host.turn(Input::Progressed { conn });
        }
    };
    assert_eq!(cut_after(&mut host, 8 * SEND_STALL_S_DEFAULT, goes_on), None);
    // Then it stalls.
    let cut = cut_after(&mut host, 2 * SEND_STALL_S_DEFAULT, |_, _| {});
    assert!(cut.is_some(), "it takes nothing any more");

    // Each send has its own time.
    let (mut host, conn) = sending();
    cut_after(&mut host, SEND_STALL_S_DEFAULT - 1, |_, _| {});
    host.sent(conn);
    assert_eq!(cut_after(&mut host, 2 * SEND_STALL_S_DEFAULT, |_, _| {}), None, "nothing is under way");
}

#[test]
fn progress_of_a_connection_that_sends_nothing_or_is_gone_is_nothing() {
    let (mut host, conn) = sending();
    host.sent(conn);
    assert!(host.turn(Input::Progressed { conn }).is_empty());
    host.turn(Input::Closed { conn });
    assert!(host.turn(Input::Progressed { conn }).is_empty());
}
