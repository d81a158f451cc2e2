//! An administrator's announcement overtakes what waits for a connection, and stream management keeps its counts (XEP-0198 4);
//! what waits is named with its owner.

use std::sync::Arc;

use throng_engine::counters::Counters;
use throng_engine::id::{ConnId, Now, ShardId};
use throng_engine::io::{BacklogRow, Command, Effect, Input, ListenerKind, Output, Reply};
use throng_engine::session::conn::Owner;
use throng_engine::session::moved::Moved;
use throng_engine::settings::Settings;
use throng_engine::shard::Shard;
use throng_engine::store::Table;
use throng_engine::store::account::Incarnation;
use throng_engine::testing::disk::Disk;

const HEADER: &str = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' to='localhost' version='1.0'>";
const NOW: Now = Now { mono_ms: 1_000, wall_us: 1_000_000 };

/// A shard whose sends are done when the test says so.
struct Host {
    shard: Shard,
    disk: Disk,
    aborted: usize,
}

impl Host {
    fn new() -> Host {
        let settings = Arc::new(Settings::new("localhost", 1, [0; 32], 0));
        let mut disk = Disk::default();
        disk.put(Table::Accounts, "romeo@localhost", b"", b"");
        Host { shard: Shard::new(ShardId(0), settings, Arc::new(Counters::default()), [0; 32]), disk, aborted: 0 }
    }

    /// One turn with this input, and those in which the store answers: the send it made, and the answer.
    fn turn(&mut self, input: Input<'_>) -> (String, Option<Reply>) {
        let (mut out, mut said, mut replied) = (Output::default(), String::new(), None);
        self.shard.handle(NOW, input, &mut out);
        loop {
            self.shard.handle(NOW, Input::EndOfTurn, &mut out);
            out.writes.clear();
            let mut answers = Vec::new();
            for effect in out.effects.drain(..) {
                match effect {
                    Effect::Read { token, queries } => {
                        answers.push((token, queries.iter().map(|query| self.disk.read(query)).collect()));
                    }
                    Effect::Send { bytes, .. } => said.push_str(std::str::from_utf8(&bytes).expect("text")),
                    Effect::Reply { reply, .. } => replied = Some(reply),
                    Effect::Close { abort: true, .. } => self.aborted += 1,
                    _ => {}
                }
            }
            if answers.is_empty() {
                return (said, replied);
            }
            for (token, found) in answers {
                self.shard.handle(NOW, Input::Found { token, found }, &mut out);
            }
        }
    }

    /// Says this on a connection whose last send is done, and does the answer.
    fn ask(&mut self, conn: ConnId, text: &str) -> String {
        let said = self.turn(Input::Received { conn, bytes: text.as_bytes() }).0;
        said + &self.sent(conn)
    }

    fn sent(&mut self, conn: ConnId) -> String {
        self.turn(Input::Sent { conn }).0
    }

    /// Romeo's stream, authenticated and without a resource.
    fn arrived(&mut self, slot: u32) -> ConnId {
        let conn = ConnId { slot, generation: 1 };
        let listener = ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: false };
        let owner = Owner { local: "romeo".into(), incarnation: Incarnation::UNNUMBERED };
        let peer = [127, 0, 0, 1].into();
        let moved = Moved { owner, listener, peer, secured: false, accepted_s: 1, leftover: Vec::new() };
        self.turn(Input::Arrived { conn, moved: Box::new(moved) });
        self.ask(conn, HEADER);
        conn
    }

    fn bound(&mut self, slot: u32) -> ConnId {
        let conn = self.arrived(slot);
        let said = self.ask(conn, "<iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>");
        assert!(said.contains("<jid>"), "{said}");
        conn
    }

    /// An announcement; what leaves with it.
    fn say(&mut self, text: &str, urgent: bool) -> String {
        let (said, replied) =
            self.turn(Input::Command { token: 1, command: Command::Say { jid: None, text: text.into(), urgent } });
        assert_eq!(replied, Some(Reply::Done(1)));
        said
    }
}

/// The announcements in what was sent, in order.
fn bodies(said: &str) -> Vec<&str> {
    said.split("<body>").skip(1).map(|rest| rest.split('<').next().expect("a body")).collect()
}

#[test]
fn what_is_urgent_goes_first_of_all_that_waits_rfc6120_10_1() {
    let mut host = Host::new();
    let conn = host.bound(0);
    assert_eq!(bodies(&host.say("under way", false)), ["under way"]);
    for (text, urgent) in
        [("waits 1", false), ("waits 2", false), ("urgent 1", true), ("urgent 2", true), ("waits 3", false)]
    {
        assert_eq!(host.say(text, urgent), "", "a send is under way");
    }
    assert_eq!(bodies(&host.sent(conn)), ["urgent 1", "urgent 2", "waits 1", "waits 2", "waits 3"]);
    assert_eq!(host.sent(conn), "");
    assert_eq!(bodies(&host.say("urgent, and nothing waits", true)), ["urgent, and nothing waits"]);
}

#[test]
fn what_has_overtaken_is_counted_where_it_stands_xep0198_4() {
    let mut host = Host::new();
    let conn = host.bound(0);
    let enabled = host.ask(conn, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    let (_, rest) = enabled.split_once(" id='").expect("a session that can be resumed");
    let previd = rest.split('\'').next().expect("an id").to_owned();
    host.say("a", false);
    for (text, urgent) in [("b", false), ("c", false), ("u", true)] {
        host.say(text, urgent);
    }
    let said = host.sent(conn);
    assert_eq!(bodies(&said), ["u", "b", "c"]);
    // The client has a, u and b when it is cut off: c alone comes again.
    host.turn(Input::Closed { conn });
    let second = host.arrived(1);
    let said = host.ask(second, &format!("<resume xmlns='urn:xmpp:sm:3' h='3' previd='{previd}'/>"));
    assert!(said.contains("<resumed "), "{said}");
    assert_eq!(bodies(&said), ["c"]);
}

/// XEP-0198 3 and 5: what comes before `<enabled/>` is not counted, what comes before `<resumed/>` is not understood.
#[test]
fn nothing_urgent_goes_ahead_of_the_answer_that_begins_a_session() {
    let mut host = Host::new();
    let conn = host.bound(0);
    host.say("under way", false);
    assert_eq!(host.turn(Input::Received { conn, bytes: b"<enable xmlns='urn:xmpp:sm:3' resume='true'/>" }).0, "");
    host.say("waits", false);
    host.say("urgent", true);
    let said = host.sent(conn);
    assert!(said.starts_with("<enabled "), "{said}");
    assert_eq!(bodies(&said), ["urgent", "waits"]);
}

#[test]
fn a_flushed_queue_cuts_the_connection_and_the_session_can_be_resumed_xep0198_5() {
    let mut host = Host::new();
    let conn = host.bound(0);
    let enabled = host.ask(conn, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    let previd = enabled.split_once(" id='").expect("an id").1.split('\'').next().expect("an id").to_owned();
    host.say("under way", false);
    host.say("waits", false);
    let mut detach = |jid: &str| {
        let command = Command::Detach { jid: jid.into() };
        host.turn(Input::Command { token: 2, command }).1.expect("an answer")
    };
    assert_eq!(detach("juliet@localhost"), Reply::NotFound);
    assert_eq!(detach("romeo@localhost/nowhere"), Reply::NotFound);
    assert_eq!(detach("romeo@localhost"), Reply::Done(1));
    assert_eq!(detach("romeo@localhost"), Reply::NotFound, "it has no connection any more");
    assert_eq!(host.aborted, 1);
    host.turn(Input::Closed { conn });
    let second = host.arrived(1);
    let said = host.ask(second, &format!("<resume xmlns='urn:xmpp:sm:3' h='1' previd='{previd}'/>"));
    assert_eq!(bodies(&said), ["waits"], "{said}");
}

#[test]
fn what_waits_is_named_with_its_owner_and_how_much_has_gone() {
    let mut host = Host::new();
    let conn = host.bound(0);
    let backlogs = |host: &mut Host, bytes_min| {
        let command = Command::Backlogs { from_slot: 0, bytes_min, most: 10 };
        let Some(Reply::Backlogs { rows, next: None }) = host.turn(Input::Command { token: 3, command }).1 else {
            panic!("another answer");
        };
        rows
    };
    assert_eq!(backlogs(&mut host, 1), [], "nothing waits");
    let under_way = host.say("under way", false).len();
    host.say("waits", false);
    let rows = backlogs(&mut host, 1);
    let [BacklogRow::Outbound { jid, conn: of, bytes, sent_bytes: 0, stalled_s: 0 }] = &rows[..] else {
        panic!("{rows:?}")
    };
    assert!(jid.starts_with("romeo@localhost/") && *of == conn && *bytes > under_way, "{rows:?}");
    assert_eq!(backlogs(&mut host, bytes + 1), [], "that is less");
    host.sent(conn);
    let rows = backlogs(&mut host, 1);
    assert!(
        matches!(&rows[..], [BacklogRow::Outbound { sent_bytes, .. }] if *sent_bytes == under_way as u64),
        "{rows:?}"
    );
    host.sent(conn);
    assert_eq!(backlogs(&mut host, 0), [], "all is gone");
}
