//! A login with very many contacts: the largest roster and the presence of most contacts fit into
//! the output limit of one connection (RFC 6121 2.2, 4.2.2).

use throng_engine::id::ShardId;
use throng_engine::io::{Effect, Input};
use throng_engine::letters::{Letter, Letters, PresenceNews, UserLetter};
use throng_engine::limits::ROSTER_ITEMS_MAX;
use throng_engine::settings::Settings;
use throng_sim::host::{Host, said};

#[test]
fn a_user_with_two_thousand_contacts_of_whom_most_are_there_logs_in() {
    let mut host = Host::new(Settings::new("localhost", 2, [0; 32], 0));
    host.account("juliet");
    let (conn, _) = host.bind(0, "juliet");
    host.ask(conn, "<enable xmlns='urn:xmpp:sm:3'/>");
    for n in 0..ROSTER_ITEMS_MAX {
        let item = format!(
            "<iq type='set' id='{n}'><query xmlns='jabber:iq:roster'><item jid='contact{n}@localhost' name='{:x<60}'>\
             <group>{:y<40}</group></item></query></iq>",
            n, "friends"
        );
        host.ask(conn, &item);
    }
    host.ask(conn, &format!("<a xmlns='urn:xmpp:sm:3' h='{ROSTER_ITEMS_MAX}'/>"));
    // The client reads the roster and then nothing more; nothing is acknowledged.
    host.prompt = false;
    let mut effects = host.say(conn, "<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq><presence/>");
    effects.extend(host.sent(conn));
    let mut batch = Letters::new(ShardId(1));
    let presence = format!(
        "<presence><c xmlns='http://jabber.org/protocol/caps'/><status>{}</status></presence>",
        "s".repeat(270)
    );
    for n in 0..1_500 {
        let (from, to) = (batch.name(&format!("contact{n}@localhost/phone")), batch.name("juliet@localhost"));
        let xml = batch.write(presence.as_bytes());
        batch.push(Letter::User(UserLetter::Presence { news: PresenceNews::Available { probe: None }, from, to, xml }));
    }
    effects.extend(host.turn(Input::Letters(&batch)));
    let mut seen = String::new();
    while !effects.is_empty() {
        seen.push_str(&said(&effects));
        let cut = effects.iter().any(|effect| matches!(effect, Effect::Close { .. }));
        assert!(!cut, "cut off: {}", &seen[..seen.len().min(500)]);
        effects = host.sent(conn);
    }
    assert_eq!(seen.matches("<item ").count(), ROSTER_ITEMS_MAX);
    assert_eq!(seen.matches("/phone'").count(), 1_500, "of {} bytes", seen.len());
}

/// Presence that does not fit when it arrives is fetched page by page when there is room (RFC 6121
/// 4.3.2). Once it was dropped for good.
#[test]
fn presence_that_did_not_fit_comes_later() {
    const CONTACTS: usize = 1_200;
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    (settings.outbound_bytes_max, settings.outbound_bytes_soft) = (64 << 10, 16 << 10);
    let mut host = Host::new(settings);
    host.account("juliet");
    let (juliet, _) = host.bind(0, "juliet");
    let presence = format!("<presence><status>{}</status></presence>", "s".repeat(270));
    for n in 0..CONTACTS {
        let local = format!("contact{n}");
        host.account(&local);
        let (conn, _) = host.bind(1 + n as u32, &local);
        host.ask(juliet, &format!("<presence to='{local}@localhost' type='subscribe'/>"));
        host.ask(conn, "<presence to='juliet@localhost' type='subscribed'/>");
        host.ask(conn, &presence);
        host.now.mono_ms += 20;
    }
    // She reads nothing for a while.
    host.prompt = false;
    let mut effects = host.say(juliet, "<presence/>");
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..800 {
        for part in said(&effects).split("<presence ").filter(|part| part.contains("<status>")) {
            let from = part.split("from='").nth(1).and_then(|rest| rest.split('/').next());
            seen.extend(from.map(str::to_owned));
        }
        host.now.mono_ms += 1_000;
        effects = host.sent(juliet);
        effects.extend(host.turn(Input::EndOfTurn));
        if seen.len() < 300 {
            assert!(host.shard.inspect().outbound_bytes < 256 << 10, "more waits than may");
        }
    }
    assert_eq!(seen.len(), CONTACTS);
}
