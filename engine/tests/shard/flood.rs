//! A client that floods requests and reads nothing never has more pending output than the limit per
//! connection, even within a turn.

use throng_engine::id::ConnId;
use throng_engine::io::{Effect, Input, ListenerKind};
use throng_engine::limits::EARLY_REQUESTS_MAX;
use throng_engine::settings::Settings;
use throng_sim::host::{HEADER, Host, said};

const ASK: &str = "<iq type='get' id='1'><query xmlns='jabber:iq:register'/></iq>";
const PING: &str = "<iq type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>";
const CONN: ConnId = ConnId { slot: 0, generation: 1 };

/// A host with a stream whose client takes output when the test says so.
fn stranger() -> Host {
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    settings.facts.registration = true;
    let mut host = Host::new(settings);
    let listener = ListenerKind { direct_tls: false, starttls: true, plain_auth: true, registration: true };
    host.turn(Input::Accepted { conn: CONN, listener, peer: [127, 0, 0, 1].into() });
    host.ask(CONN, HEADER);
    host.prompt = false;
    host
}

/// An authenticated user before a resource is bound.
fn authenticated() -> Host {
    let mut host = Host::new(Settings::new("localhost", 1, [0; 32], 0));
    host.account("romeo");
    host.arrive(CONN.slot, "romeo");
    host.prompt = false;
    host
}

/// RFC 6120 13.12: a client without a session gets a limited number of answers, whatever it sends.
/// Once the only limit was the login time.
#[test]
fn who_has_no_session_does_not_ask_for_ever() {
    let resume = "<resume xmlns='urn:xmpp:sm:3' previd='x' h='0'/>";
    let enable = "<enable xmlns='urn:xmpp:sm:3'/>";
    type Case<'a> = (&'a str, fn() -> Host, &'a str, &'a str);
    let cases: [Case<'_>; 5] = [
        ("a stranger resumes", stranger, resume, "<failed "),
        ("a stranger enables", stranger, enable, "<failed "),
        ("a stranger asks for the form", stranger, ASK, "<iq "),
        ("a user resumes", authenticated, resume, "<failed "),
        ("a user enables before binding", authenticated, enable, "<failed "),
    ];
    for (case, begin, request, answer) in cases {
        let said = said(&begin().say(CONN, &request.repeat(200)));
        assert_eq!(said.matches(answer).count(), usize::from(EARLY_REQUESTS_MAX), "{case}");
        assert!(said.contains("<stream:error><policy-violation"), "{case}: {said}");
    }
}

/// A client that sends requests and does not take the answers is not read from until it does. Once
/// it was disconnected.
#[test]
fn who_asks_waits_until_the_answers_are_taken() {
    let mut host = Host::new(Settings::new("localhost", 1, [0; 32], 0));
    host.account("romeo");
    let (conn, _) = host.bind(0, "romeo");
    host.prompt = false;
    let soft = Settings::new("localhost", 1, [0; 32], 0).outbound_bytes_soft;
    let asked = 20_000;
    let mut effects = host.say(conn, &PING.repeat(asked));
    let (mut answers, mut rounds) = (0, 0);
    while !effects.is_empty() {
        let said = said(&effects);
        assert!(said.len() < soft + 4_096, "{} bytes for a bound of {soft}", said.len());
        answers += said.matches("type='resul").count();
        assert!(!effects.iter().any(|e| matches!(e, Effect::Close { .. })));
        let paused = effects.iter().filter(|e| matches!(e, Effect::Pause { .. })).count();
        let resumed = effects.iter().filter(|e| matches!(e, Effect::Resume { .. })).count();
        assert_eq!((paused, resumed), (usize::from(answers < asked), usize::from(rounds > 0)), "round {rounds}");
        rounds += 1;
        effects = host.sent(conn);
    }
    assert_eq!(answers, asked);
    assert!(rounds > 10, "the flood is large enough to matter: {rounds}");
}

#[test]
fn who_does_not_read_its_last_words_is_not_read_from() {
    let mut host = stranger();
    // One send is in flight and not taken when the stream ends.
    let effects = host.say(CONN, ASK);
    assert!(matches!(effects[..], [Effect::Send { .. }]), "{effects:?}");
    let effects = host.say(CONN, "</stream:stream>");
    assert!(effects.iter().any(|e| matches!(e, Effect::Pause { conn: CONN })), "{effects:?}");
}

/// Changes by one client that have to be pushed to the user's other clients (RFC 6121 2.1.6,
/// XEP-0191 3.3) do not fill memory: a client that takes nothing is disconnected. Once this lasted
/// until the limit of a session without a connection, or of a send.
#[test]
fn changes_that_a_client_is_told_of_wait_within_bounds() {
    let contact = |name: &str| {
        let name = name.repeat(250);
        format!(
            "<iq type='set' id='1'><query xmlns='jabber:iq:roster'><item jid='a@localhost' name='{name}'/></query></iq>"
        )
    };
    let list = |verb: &str| {
        let item = format!("<item jid='a@localhost/{}'/>", "n".repeat(1_000));
        format!("<iq type='set' id='1'><{verb} xmlns='urn:xmpp:blocking'>{item}</{verb}></iq>")
    };
    let (named, blocked) = (contact("n") + &contact("m"), list("block") + &list("unblock"));
    for (case, managed, change) in [
        ("roster", false, &named),
        ("roster, managed", true, &named),
        ("list", false, &blocked),
        ("list, managed", true, &blocked),
    ] {
        let mut settings = Settings::new("localhost", 1, [0; 32], 0);
        settings.outbound_bytes_max = 64 << 10;
        settings.outbound_bytes_soft = 16 << 10;
        let most = 2 * settings.outbound_bytes_max + change.len();
        let mut host = Host::new(settings);
        host.account("romeo");
        let (deaf, _) = host.bind(0, "romeo");
        host.ask(deaf, "<iq type='get' id='1'><query xmlns='jabber:iq:roster'/></iq>");
        host.ask(deaf, "<iq type='get' id='1'><blocklist xmlns='urn:xmpp:blocking'/></iq>");
        if managed {
            host.ask(deaf, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
        }
        let (other, _) = host.bind(1, "romeo");
        host.prompt = false;
        let mut ended = false;
        for _ in 0..1_000 {
            let mut effects = host.say(other, change);
            while effects.iter().any(|effect| matches!(effect, Effect::Send { conn, .. } if *conn == other)) {
                ended |= effects.iter().any(|effect| matches!(effect, Effect::Close { conn, .. } if *conn == deaf));
                effects = host.sent(other);
            }
            let seen = host.shard.inspect();
            let waits = seen.outbound_bytes.max(seen.unacked_bytes);
            assert!(waits <= most, "{case}: {waits} bytes for a bound of {most}");
        }
        assert!(ended, "{case}");
        assert!(said(&host.say(other, PING)).contains("type='result'"), "{case}: the other one goes on");
    }
}
