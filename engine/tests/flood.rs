//! Who asks without end and reads nothing has no more waiting for it than a connection may have, within a turn too.

use std::sync::Arc;

use throng_engine::counters::Counters;
use throng_engine::id::{ConnId, Now, ShardId};
use throng_engine::io::{Effect, Input, ListenerKind, Output};
use throng_engine::limits::EARLY_REQUESTS_MAX;
use throng_engine::session::conn::Owner;
use throng_engine::session::moved::Moved;
use throng_engine::settings::Settings;
use throng_engine::shard::Shard;
use throng_engine::store::Table;
use throng_engine::store::account::Incarnation;
use throng_engine::testing::disk::Disk;

const HEADER: &[u8] =
    b"<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' to='localhost' version='1.0'>";
const ASK: &[u8] = b"<iq type='get' id='1'><query xmlns='jabber:iq:register'/></iq>";
const PING: &[u8] = b"<iq type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>";
const CONN: ConnId = ConnId { slot: 0, generation: 1 };

/// A turn, and those in which the store answers.
fn turn(shard: &mut Shard, input: Input<'_>) -> Vec<Effect> {
    let mut disk = Disk::default();
    disk.put(Table::Accounts, "romeo@localhost", b"", b"");
    let (mut out, mut effects) = (Output::default(), Vec::new());
    let now = Now { mono_ms: 1_000, wall_us: 1_000_000 };
    shard.handle(now, input, &mut out);
    loop {
        shard.handle(now, Input::EndOfTurn, &mut out);
        let mut answers = Vec::new();
        for effect in out.effects.drain(..) {
            match effect {
                Effect::Read { token, queries } => {
                    answers.push((token, queries.iter().map(|query| disk.read(query)).collect()));
                }
                effect => effects.push(effect),
            }
        }
        if answers.is_empty() {
            return effects;
        }
        for (token, found) in answers {
            shard.handle(now, Input::Found { token, found }, &mut out);
        }
    }
}

fn bytes(effects: &[Effect]) -> Vec<u8> {
    let sent = effects.iter().map(|effect| match effect {
        Effect::Send { bytes, .. } => bytes.as_slice(),
        Effect::Close { last, .. } => last.as_slice(),
        _ => b"",
    });
    sent.collect::<Vec<_>>().concat()
}

fn shard() -> (Shard, usize) {
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    settings.facts.registration = true;
    let most = settings.outbound_bytes_max;
    let counters = Arc::new(Counters::default());
    let mut shard = Shard::new(ShardId(0), Arc::new(settings), counters, [0; 32]);
    let listener = ListenerKind { direct_tls: false, starttls: true, plain_auth: true, registration: true };
    turn(&mut shard, Input::Accepted { conn: CONN, listener, peer: [127, 0, 0, 1].into() });
    turn(&mut shard, Input::Received { conn: CONN, bytes: HEADER });
    turn(&mut shard, Input::Sent { conn: CONN });
    (shard, most)
}

/// A user who has authenticated, before a resource is bound.
fn authenticated() -> (Shard, usize) {
    let settings = Settings::new("localhost", 1, [0; 32], 0);
    let most = settings.outbound_bytes_soft;
    let mut shard = Shard::new(ShardId(0), Arc::new(settings), Arc::new(Counters::default()), [0; 32]);
    let listener = ListenerKind { direct_tls: false, starttls: true, plain_auth: true, registration: true };
    let owner = Owner { local: "romeo".into(), incarnation: Incarnation::UNNUMBERED };
    let peer = [127, 0, 0, 1].into();
    let moved = Moved { owner, listener, peer, secured: false, accepted_s: 1, leftover: Vec::new() };
    turn(&mut shard, Input::Arrived { conn: CONN, moved: Box::new(moved) });
    turn(&mut shard, Input::Received { conn: CONN, bytes: HEADER });
    turn(&mut shard, Input::Sent { conn: CONN });
    (shard, most)
}

fn session() -> (Shard, usize) {
    let (mut shard, most) = authenticated();
    let bind = b"<iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>";
    turn(&mut shard, Input::Received { conn: CONN, bytes: bind });
    turn(&mut shard, Input::Sent { conn: CONN });
    (shard, most)
}

/// RFC 6120 13.12: whoever has no session is answered a bounded number of times, whatever is asked. It went on for as long
/// as a connection may take to log in.
#[test]
fn who_has_no_session_does_not_ask_for_ever() {
    let resume: &[u8] = b"<resume xmlns='urn:xmpp:sm:3' previd='x' h='0'/>";
    let enable: &[u8] = b"<enable xmlns='urn:xmpp:sm:3'/>";
    type Case<'a> = (&'a str, fn() -> (Shard, usize), &'a [u8], &'a [u8]);
    let cases: [Case<'_>; 5] = [
        ("a stranger resumes", shard, resume, b"<failed "),
        ("a stranger enables", shard, enable, b"<failed "),
        ("a stranger asks for the form", shard, ASK, b"<iq "),
        ("a user resumes", authenticated, resume, b"<failed "),
        ("a user enables before binding", authenticated, enable, b"<failed "),
    ];
    for (case, begin, request, answer) in cases {
        let (mut shard, _) = begin();
        let said = bytes(&turn(&mut shard, Input::Received { conn: CONN, bytes: &request.repeat(200) }));
        let answers = said.windows(answer.len()).filter(|w| *w == answer).count();
        assert_eq!(answers, usize::from(EARLY_REQUESTS_MAX), "{case}");
        let end = b"<stream:error><policy-violation";
        assert!(said.windows(end.len()).any(|w| w == end), "{case}: {}", String::from_utf8_lossy(&said));
    }
}

/// Who asks and does not take the answers is not read from until they are taken. It was ended.
#[test]
fn who_asks_waits_until_the_answers_are_taken() {
    let (mut shard, soft) = session();
    let asked = 20_000;
    let mut effects = turn(&mut shard, Input::Received { conn: CONN, bytes: &PING.repeat(asked) });
    let (mut answers, mut rounds) = (0, 0);
    while !effects.is_empty() {
        let said = bytes(&effects);
        assert!(said.len() < soft + 4_096, "{} bytes for a bound of {soft}", said.len());
        answers += said.windows(11).filter(|w| *w == b"type='resul").count();
        assert!(!effects.iter().any(|e| matches!(e, Effect::Close { .. })));
        let paused = effects.iter().filter(|e| matches!(e, Effect::Pause { .. })).count();
        let resumed = effects.iter().filter(|e| matches!(e, Effect::Resume { .. })).count();
        assert_eq!((paused, resumed), (usize::from(answers < asked), usize::from(rounds > 0)), "round {rounds}");
        rounds += 1;
        effects = turn(&mut shard, Input::Sent { conn: CONN });
    }
    assert_eq!(answers, asked);
    assert!(rounds > 10, "the flood is large enough to matter: {rounds}");
}

#[test]
fn who_does_not_read_its_last_words_is_not_read_from() {
    let (mut shard, _) = shard();
    // One send is under way and not taken when the stream ends.
    let effects = turn(&mut shard, Input::Received { conn: CONN, bytes: ASK });
    assert!(matches!(effects[..], [Effect::Send { .. }]), "{effects:?}");
    let effects = turn(&mut shard, Input::Received { conn: CONN, bytes: b"</stream:stream>" });
    assert!(effects.iter().any(|e| matches!(e, Effect::Pause { conn: CONN })), "{effects:?}");
}
