//! Settings that change while a shard runs hold for what comes next, also on streams that are there already.

use std::sync::Arc;

use throng_engine::counters::Counters;
use throng_engine::id::{ConnId, Now, ShardId};
use throng_engine::io::{Command, Effect, Input, ListenerKind, Output, Reply};
use throng_engine::session::conn::Owner;
use throng_engine::session::moved::Moved;
use throng_engine::settings::Settings;
use throng_engine::shard::Shard;
use throng_engine::store::Table;
use throng_engine::store::account::Incarnation;
use throng_engine::testing::disk::Disk;

const HEADER: &str = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' to='localhost' version='1.0'>";

struct Host {
    shard: Shard,
    disk: Disk,
    second: u64,
    closed: usize,
}

impl Host {
    fn new(settings: Settings) -> Host {
        let shard = Shard::new(ShardId(0), Arc::new(settings), Arc::new(Counters::default()), [0; 32]);
        let mut disk = Disk::default();
        disk.put(Table::Accounts, "romeo@localhost", b"", b"");
        Host { shard, disk, second: 1, closed: 0 }
    }

    /// One turn with this input, and those in which the store answers; what was sent in them, and answered.
    fn turn(&mut self, input: Input<'_>) -> (String, Option<Reply>) {
        let (mut out, mut said, mut replied) = (Output::default(), String::new(), None);
        let now = Now { mono_ms: self.second * 1_000, wall_us: self.second * 1_000_000 };
        self.shard.handle(now, input, &mut out);
        loop {
            self.shard.handle(now, Input::EndOfTurn, &mut out);
            out.writes.clear();
            let mut answers = Vec::new();
            for effect in std::mem::take(&mut out.effects) {
                match effect {
                    Effect::Read { token, queries } => {
                        answers.push((token, queries.iter().map(|query| self.disk.read(query)).collect()));
                    }
                    Effect::Send { conn, bytes, .. } => {
                        said.push_str(std::str::from_utf8(&bytes).expect("text"));
                        self.shard.handle(now, Input::Sent { conn }, &mut Output::default());
                    }
                    Effect::Reply { reply, .. } => replied = Some(reply),
                    Effect::Close { last, .. } => {
                        said.push_str(std::str::from_utf8(&last).expect("text"));
                        self.closed += 1;
                    }
                    _ => {}
                }
            }
            if answers.is_empty() {
                return (said, replied);
            }
            for (token, found) in answers {
                self.shard.handle(now, Input::Found { token, found }, &mut out);
            }
        }
    }

    fn say(&mut self, conn: ConnId, text: &str) -> String {
        self.turn(Input::Received { conn, bytes: text.as_bytes() }).0
    }

    /// Romeo's next connection, with a resource bound or refused.
    fn bind(&mut self, slot: u32) -> String {
        let conn = ConnId { slot, generation: 1 };
        let listener = ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: false };
        let owner = Owner { local: "romeo".into(), incarnation: Incarnation::UNNUMBERED };
        let peer = [127, 0, 0, 1].into();
        let moved = Moved { owner, listener, peer, secured: false, accepted_s: 1, leftover: Vec::new() };
        self.turn(Input::Arrived { conn, moved: Box::new(moved) });
        self.say(conn, HEADER);
        self.say(conn, "<iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>")
    }

    fn turn_knobs(&mut self, settings: &Settings) {
        let command = Command::Turn(Arc::new(settings.clone()));
        assert_eq!(self.turn(Input::Command { token: 7, command }).1, Some(Reply::Done(0)));
    }
}

/// RFC 6120 7.6.2.1: a resource more than one may have is refused with `<resource-constraint/>`.
#[test]
fn how_many_resources_may_be_bound_changes_at_once_rfc6120_7_6_2_1() {
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    let mut host = Host::new(settings.clone());
    assert!(host.bind(0).contains("<jid>"));
    settings.sessions_per_user_max = 1;
    host.turn_knobs(&settings);
    assert!(host.bind(1).contains("<resource-constraint"));
    settings.sessions_per_user_max = 2;
    host.turn_knobs(&settings);
    assert!(host.bind(2).contains("<jid>"));
}

/// XEP-0199 4.1, RFC 6120 4.6.4: who is silent is asked, and ended if that does not help, by the time-out as it is now.
#[test]
fn a_shorter_time_out_holds_for_streams_that_are_there_rfc6120_4_6_4() {
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    let mut host = Host::new(settings.clone());
    host.bind(0);
    host.second += 60;
    assert_eq!(host.turn(Input::EndOfTurn).0, "");
    settings.idle_s_max = 5;
    host.turn_knobs(&settings);
    host.second += 1;
    assert!(
        host.turn(Input::EndOfTurn).0.contains("<connection-timeout"),
        "silent for 61 seconds, of which it may be for 10"
    );
    assert_eq!(host.closed, 1);
}

#[test]
#[should_panic(expected = "these do not change while a shard runs")]
fn what_was_promised_to_streams_does_not_change() {
    let mut host = Host::new(Settings::new("localhost", 1, [0; 32], 0));
    let settings = Settings { stanza_bytes_max: 10_000, ..Settings::new("localhost", 1, [0; 32], 0) };
    host.turn_knobs(&settings);
}
