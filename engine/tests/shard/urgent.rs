//! An administrator's announcement overtakes a connection's pending output, and stream management
//! keeps its counts (XEP-0198 4); pending output is reported with its owner.

use throng_engine::id::ConnId;
use throng_engine::io::{BacklogRow, Command, Effect, Input, LogCommand, Reply, SessionCommand};
use throng_engine::settings::Settings;
use throng_sim::host::{self, Host};

/// A host whose sends complete when the test says so, and Romeo's session.
fn bound() -> (Host, ConnId) {
    let mut host = Host::new(Settings::new("localhost", 1, [0; 32], 0));
    host.account("romeo");
    let (conn, effects) = host.bind(0, "romeo");
    assert!(host::said(&effects).contains("<jid>"), "{effects:?}");
    host.prompt = false;
    (host, conn)
}

fn ask(host: &mut Host, conn: ConnId, text: &str) -> String {
    host::said(&host.ask(conn, text))
}

fn sent(host: &mut Host, conn: ConnId) -> String {
    host::said(&host.sent(conn))
}

/// Makes an announcement; returns what is sent.
fn say(host: &mut Host, text: &str, urgent: bool) -> String {
    let command = Command::Session(SessionCommand::Say { jid: None, text: text.into(), urgent });
    let effects = host.turn(Input::Command { token: 1, command });
    let said = host::said(&effects);
    assert_eq!(host::reply(effects), Some(Reply::Done(1)));
    said
}

/// The announcements in the output, in order.
fn bodies(said: &str) -> Vec<&str> {
    said.split("<body>").skip(1).map(|rest| rest.split('<').next().expect("a body")).collect()
}

#[test]
fn what_is_urgent_goes_first_of_all_that_waits_rfc6120_10_1() {
    let (mut host, conn) = bound();
    assert_eq!(bodies(&say(&mut host, "under way", false)), ["under way"]);
    for (text, urgent) in
        [("waits 1", false), ("waits 2", false), ("urgent 1", true), ("urgent 2", true), ("waits 3", false)]
    {
        assert_eq!(say(&mut host, text, urgent), "", "a send is under way");
    }
    assert_eq!(bodies(&sent(&mut host, conn)), ["urgent 1", "urgent 2", "waits 1", "waits 2", "waits 3"]);
    assert_eq!(sent(&mut host, conn), "");
    assert_eq!(bodies(&say(&mut host, "urgent, and nothing waits", true)), ["urgent, and nothing waits"]);
}

#[test]
fn what_has_overtaken_is_counted_where_it_stands_xep0198_4() {
    let (mut host, conn) = bound();
    let enabled = ask(&mut host, conn, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    let (_, rest) = enabled.split_once(" id='").expect("a session that can be resumed");
    let previd = rest.split('\'').next().expect("an id").to_owned();
    say(&mut host, "a", false);
    for (text, urgent) in [("b", false), ("c", false), ("u", true)] {
        say(&mut host, text, urgent);
    }
    let said = sent(&mut host, conn);
    assert_eq!(bodies(&said), ["u", "b", "c"]);
    // The client has a, u and b when it is disconnected: only c is sent again.
    host.turn(Input::Closed { conn });
    let (second, _) = host.arrive(1, "romeo");
    let said = ask(&mut host, second, &format!("<resume xmlns='urn:xmpp:sm:3' h='3' previd='{previd}'/>"));
    assert!(said.contains("<resumed "), "{said}");
    assert_eq!(bodies(&said), ["c"]);
}

/// XEP-0198 3 and 5: a stanza before `<enabled/>` is not counted, one before `<resumed/>` is not
/// understood.
#[test]
fn nothing_urgent_goes_ahead_of_the_answer_that_begins_a_session() {
    let (mut host, conn) = bound();
    say(&mut host, "under way", false);
    let effects = host.say(conn, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    assert_eq!(host::said(&effects), "");
    say(&mut host, "waits", false);
    say(&mut host, "urgent", true);
    let said = sent(&mut host, conn);
    assert!(said.starts_with("<enabled "), "{said}");
    assert_eq!(bodies(&said), ["urgent", "waits"]);
}

#[test]
fn a_flushed_queue_cuts_the_connection_and_the_session_can_be_resumed_xep0198_5() {
    let (mut host, conn) = bound();
    let enabled = ask(&mut host, conn, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    let previd = enabled.split_once(" id='").expect("an id").1.split('\'').next().expect("an id").to_owned();
    say(&mut host, "under way", false);
    say(&mut host, "waits", false);
    let mut aborted = 0;
    let mut detach = |jid: &str| {
        let command = Command::Session(SessionCommand::Detach { jid: jid.into() });
        let effects = host.turn(Input::Command { token: 2, command });
        aborted += effects.iter().filter(|effect| matches!(effect, Effect::Close { abort: true, .. })).count();
        host::reply(effects).expect("an answer")
    };
    assert_eq!(detach("juliet@localhost"), Reply::NotFound);
    assert_eq!(detach("romeo@localhost/nowhere"), Reply::NotFound);
    assert_eq!(detach("romeo@localhost"), Reply::Done(1));
    assert_eq!(detach("romeo@localhost"), Reply::NotFound, "it has no connection any more");
    assert_eq!(aborted, 1);
    host.turn(Input::Closed { conn });
    let (second, _) = host.arrive(1, "romeo");
    let said = ask(&mut host, second, &format!("<resume xmlns='urn:xmpp:sm:3' h='1' previd='{previd}'/>"));
    assert_eq!(bodies(&said), ["waits"], "{said}");
}

#[test]
fn what_waits_is_named_with_its_owner_and_how_much_has_gone() {
    let (mut host, conn) = bound();
    let backlogs = |host: &mut Host, bytes_min| {
        let command = Command::Log(LogCommand::Backlogs { from_slot: 0, bytes_min, most: 10 });
        let Some(Reply::Backlogs { rows, next: None }) = host::reply(host.turn(Input::Command { token: 3, command }))
        else {
            panic!("another answer");
        };
        rows
    };
    assert_eq!(backlogs(&mut host, 1), [], "nothing waits");
    let under_way = say(&mut host, "under way", false).len();
    say(&mut host, "waits", false);
    let rows = backlogs(&mut host, 1);
    let [BacklogRow::Outbound { jid, conn: of, bytes, sent_bytes: 0, stalled_s: 0 }] = &rows[..] else {
        panic!("{rows:?}")
    };
    assert!(jid.starts_with("romeo@localhost/") && *of == conn && *bytes > under_way, "{rows:?}");
    assert_eq!(backlogs(&mut host, bytes + 1), [], "that is less");
    sent(&mut host, conn);
    let rows = backlogs(&mut host, 1);
    assert!(
        matches!(&rows[..], [BacklogRow::Outbound { sent_bytes, .. }] if *sent_bytes == under_way as u64),
        "{rows:?}"
    );
    sent(&mut host, conn);
    assert_eq!(backlogs(&mut host, 0), [], "all is gone");
}
