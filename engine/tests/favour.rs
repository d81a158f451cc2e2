//! Who has a session goes ahead of who logs in: the host is told once, when a resource is bound or a session resumed.

use std::sync::Arc;

use throng_engine::counters::Counters;
use throng_engine::id::{ConnId, Now, ShardId};
use throng_engine::io::{Effect, Input, ListenerKind, Output};
use throng_engine::session::conn::Owner;
use throng_engine::session::moved::Moved;
use throng_engine::settings::Settings;
use throng_engine::shard::Shard;
use throng_engine::store::Table;
use throng_engine::store::account::Incarnation;
use throng_engine::testing::disk::Disk;

const HEADER: &[u8] =
    b"<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' to='localhost' version='1.0'>";

/// Says `text`, and tells what was favoured and sent in that turn and those in which the store answers.
fn say(shard: &mut Shard, conn: ConnId, text: &[u8]) -> (Vec<ConnId>, String) {
    let mut disk = Disk::default();
    disk.put(Table::Accounts, "romeo@localhost", b"", b"");
    let mut out = Output::default();
    let now = Now { mono_ms: 1_000, wall_us: 1_000_000 };
    shard.handle(now, Input::Received { conn, bytes: text }, &mut out);
    let (mut favoured, mut said) = (Vec::new(), String::new());
    loop {
        shard.handle(now, Input::EndOfTurn, &mut out);
        let mut answers = Vec::new();
        for effect in out.effects.drain(..) {
            match effect {
                Effect::Favour { conn } => favoured.push(conn),
                Effect::Read { token, queries } => {
                    answers.push((token, queries.iter().map(|query| disk.read(query)).collect()));
                }
                Effect::Send { conn, bytes, .. } => {
                    said.push_str(std::str::from_utf8(&bytes).unwrap());
                    shard.handle(now, Input::Sent { conn }, &mut Output::default());
                }
                _ => {}
            }
        }
        if answers.is_empty() {
            return (favoured, said);
        }
        for (token, found) in answers {
            shard.handle(now, Input::Found { token, found }, &mut out);
        }
    }
}

/// A connection that has authenticated elsewhere.
fn arrived(shard: &mut Shard, slot: u32) -> ConnId {
    let conn = ConnId { slot, generation: 1 };
    let listener = ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: false };
    let owner = Owner { local: "romeo".into(), incarnation: Incarnation::UNNUMBERED };
    let peer = [127, 0, 0, 1].into();
    let moved = Moved { owner, listener, peer, secured: false, accepted_s: 1, leftover: Vec::new() };
    let now = Now { mono_ms: 1_000, wall_us: 1_000_000 };
    shard.handle(now, Input::Arrived { conn, moved: Box::new(moved) }, &mut Output::default());
    assert_eq!(say(shard, conn, HEADER).0, [], "a stream is no session yet");
    conn
}

#[test]
fn a_connection_goes_first_from_bind_or_resume_on_rfc6120_7_xep0198_5() {
    let settings = Arc::new(Settings::new("localhost", 1, [0; 32], 0));
    let mut shard = Shard::new(ShardId(0), settings, Arc::new(Counters::default()), [0; 32]);
    let first = arrived(&mut shard, 0);
    let bind = b"<iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>";
    assert_eq!(say(&mut shard, first, bind).0, [first]);
    let enabled = say(&mut shard, first, b"<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    assert_eq!(enabled.0, [], "once");
    let (_, rest) = enabled.1.split_once(" id='").expect("a session that can be resumed");
    let previd = rest.split('\'').next().unwrap();
    let second = arrived(&mut shard, 1);
    let resume = format!("<resume xmlns='urn:xmpp:sm:3' h='0' previd='{previd}'/>");
    let (favoured, said) = say(&mut shard, second, resume.as_bytes());
    assert!(said.contains("<resumed"), "{said}");
    assert_eq!(favoured, [second]);
}
