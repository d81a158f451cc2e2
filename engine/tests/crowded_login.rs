//! A login among very many contacts: the largest roster and the presence of most of its contacts fit into what may wait for one
//! connection (RFC 6121 2.2, 4.2.2).

use std::sync::Arc;

use throng_engine::counters::Counters;
use throng_engine::id::{ConnId, Now, ShardId};
use throng_engine::io::{Effect, Input, ListenerKind, Output};
use throng_engine::limits::ROSTER_ITEMS_MAX;
use throng_engine::mail::{Letter, MailBatch, PresenceNews};
use throng_engine::session::conn::Owner;
use throng_engine::session::moved::Moved;
use throng_engine::settings::Settings;
use throng_engine::shard::Shard;
use throng_engine::store::Table;
use throng_engine::store::account::Incarnation;
use throng_engine::testing::disk::Disk;

const CONN: ConnId = ConnId { slot: 0, generation: 1 };
const NOW: Now = Now { mono_ms: 1_000, wall_us: 1_000_000 };
const BEGIN: &str = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' to='localhost' version='1.0'>\
    <iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq><enable xmlns='urn:xmpp:sm:3'/>";

fn handle(shard: &mut Shard, disk: &mut Disk, input: Input<'_>) -> Vec<Effect> {
    let (mut out, mut effects) = (Output::default(), Vec::new());
    shard.handle(NOW, input, &mut out);
    loop {
        shard.handle(NOW, Input::EndOfTurn, &mut out);
        disk.submit(std::mem::take(&mut out.writes));
        disk.commit(1);
        let mut answers = Vec::new();
        for effect in out.effects.drain(..) {
            match effect {
                Effect::Read { token, queries } => {
                    let found = queries.iter().map(|query| disk.read(query)).collect();
                    answers.push(Input::Found { token, found });
                }
                effect => effects.push(effect),
            }
        }
        if answers.is_empty() {
            return effects;
        }
        answers.into_iter().for_each(|answer| shard.handle(NOW, answer, &mut out));
    }
}

#[test]
fn a_user_with_two_thousand_contacts_of_whom_most_are_there_logs_in() {
    let mut disk = Disk::default();
    disk.put(Table::Accounts, "juliet@localhost", b"", b"");
    let settings = Settings::new("localhost", 2, [0; 32], 0);
    let mut shard = Shard::new(ShardId(0), Arc::new(settings), Arc::new(Counters::default()), [0; 32]);
    let listener = ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: false };
    let owner = Owner { local: "juliet".into(), incarnation: Incarnation::UNNUMBERED };
    let moved = Moved { owner, listener, peer: [127, 0, 0, 1].into(), secured: false, accepted_s: 1, leftover: vec![] };
    handle(&mut shard, &mut disk, Input::Arrived { conn: CONN, moved: Box::new(moved) });
    handle(&mut shard, &mut disk, Input::Received { conn: CONN, bytes: BEGIN.as_bytes() });
    for n in 0..ROSTER_ITEMS_MAX {
        let item = format!(
            "<iq type='set' id='{n}'><query xmlns='jabber:iq:roster'><item jid='contact{n}@localhost' name='{:x<60}'>\
             <group>{:y<40}</group></item></query></iq>",
            n, "friends"
        );
        handle(&mut shard, &mut disk, Input::Received { conn: CONN, bytes: item.as_bytes() });
        handle(&mut shard, &mut disk, Input::Sent { conn: CONN });
    }
    let ack = format!("<a xmlns='urn:xmpp:sm:3' h='{ROSTER_ITEMS_MAX}'/>");
    handle(&mut shard, &mut disk, Input::Received { conn: CONN, bytes: ack.as_bytes() });
    while !handle(&mut shard, &mut disk, Input::Sent { conn: CONN }).is_empty() {}
    // The roster is read, and then no more; nothing is acknowledged.
    let login = b"<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq><presence/>";
    let mut effects = handle(&mut shard, &mut disk, Input::Received { conn: CONN, bytes: login });
    effects.extend(handle(&mut shard, &mut disk, Input::Sent { conn: CONN }));
    let mut batch = MailBatch::new(ShardId(1));
    batch.number = 1;
    let presence = format!(
        "<presence><c xmlns='http://jabber.org/protocol/caps'/><status>{}</status></presence>",
        "s".repeat(270)
    );
    for n in 0..1_500 {
        let (from, to) = (batch.name(&format!("contact{n}@localhost/phone")), batch.name("juliet@localhost"));
        let xml = batch.write(presence.as_bytes());
        batch.push(Letter::Presence { news: PresenceNews::Available { probe: None }, from, to, xml });
    }
    effects.extend(handle(&mut shard, &mut disk, Input::Mail(&batch)));
    let mut seen = String::new();
    while !effects.is_empty() {
        for effect in effects {
            match effect {
                Effect::Send { bytes, .. } => seen.push_str(&String::from_utf8(bytes).unwrap()),
                Effect::Close { .. } => panic!("cut off: {}", &seen[..seen.len().min(500)]),
                _ => {}
            }
        }
        effects = handle(&mut shard, &mut disk, Input::Sent { conn: CONN });
    }
    assert_eq!(seen.matches("<item ").count(), ROSTER_ITEMS_MAX);
    assert_eq!(seen.matches("/phone'").count(), 1_500, "of {} bytes", seen.len());
}
