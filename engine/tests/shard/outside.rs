//! Users in an external back end: PLAIN (RFC 4616) and tokens (XEP-0484) with answers that are on
//! time, late, wrong or missing.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use throng_engine::id::{ConnId, Now};
use throng_engine::io::{Effect, Happened, Input, ListenerKind, Question, TlsFacts, Unknown, Verdict};
use throng_engine::limits::{OUTSIDE_ASKS_MAX, TOKEN_LIFE_S, TOKEN_ROTATES_S};
use throng_engine::session::sasl::ThrottleParams;
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_engine::store::account::{Credentials, Incarnation, Standing};
use throng_engine::store::hash::HashKind;
use throng_sim::host::{BIND, HEADER, Host, said};

const SASL: &str = "urn:ietf:params:xml:ns:xmpp-sasl";
const PHONE: &str = "d4565fa7-4d72-4749-b3d3-740edbf87770";
const WANTS_TOKEN: &str = "<request-token xmlns='urn:xmpp:fast:0' mechanism='HT-SHA-256-NONE'/>";
const YES: Verdict = Verdict::Yes;

struct Desk {
    host: Host,
    next: u32,
}

/// A login that waits for an answer.
struct Waiting {
    conn: ConnId,
    token: u64,
    question: Question,
}

fn plain(user: &str, password: &str) -> String {
    let payload = BASE64.encode(format!("\0{user}\0{password}"));
    format!("<auth xmlns='{SASL}' mechanism='PLAIN'>{payload}</auth>")
}

fn authenticate(mechanism: &str, initial: &[u8], with: &str) -> String {
    let initial = BASE64.encode(initial);
    format!(
        "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='{mechanism}'><initial-response>{initial}</initial-response>\
         <user-agent id='{PHONE}'/>{with}</authenticate>"
    )
}

fn by_token(user: &str, token: &str, count: u32, with: &str) -> String {
    let proof = HashKind::Sha256.hmac(token.as_bytes(), &[b"Initiator"]);
    let initial = [user.as_bytes(), b"\0", proof.as_bytes()].concat();
    authenticate("HT-SHA-256-NONE", &initial, &format!("<fast xmlns='urn:xmpp:fast:0' count='{count}'/>{with}"))
}

fn asked(effects: Vec<Effect>) -> Option<(u64, Question)> {
    effects.into_iter().find_map(|effect| match effect {
        Effect::Ask { token, question } => Some((token, *question)),
        _ => None,
    })
}

impl Desk {
    fn with(change: impl FnOnce(&mut Settings)) -> Desk {
        let mut settings = Settings::new("localhost", 1, [0; 32], 0);
        settings.keep_outside("localhost");
        change(&mut settings);
        let mut desk = Desk { host: Host::new(settings), next: 0 };
        desk.host.now = Now::new(1_000, 1_700_000_000_000_000);
        desk
    }

    fn new() -> Desk {
        Desk::with(|_| {})
    }

    fn later(&mut self, seconds: u64) {
        self.host.now.mono_ms += seconds * 1_000;
        self.host.now.pass_wall(seconds * 1_000_000);
    }

    fn connect(&mut self) -> (ConnId, String) {
        let listener = ListenerKind { direct_tls: true, starttls: false, plain_auth: false, registration: true };
        let conn = ConnId { slot: self.next, generation: 1 };
        self.next += 1;
        self.host.turn(Input::Accepted { conn, listener, peer: [127, 0, 0, 1].into() });
        let tls = TlsFacts { exporter: Some([3; 32]), server_end_point: vec![4; 32], certificate: None };
        self.host.turn(Input::Secured { conn, tls: Box::new(tls) });
        let offer = said(&self.host.ask(conn, HEADER));
        (conn, offer)
    }

    /// Another connection sends this, which causes a query.
    fn waits(&mut self, request: &str) -> Waiting {
        let (conn, _) = self.connect();
        let effects = self.host.ask(conn, request);
        let heard = said(&effects);
        let (token, question) = asked(effects).unwrap_or_else(|| panic!("nothing is asked: {heard}"));
        Waiting { conn, token, question }
    }

    fn told(&mut self, waiting: &Waiting, verdict: Verdict) -> Vec<Effect> {
        self.host.turn(Input::Told { token: waiting.token, verdict })
    }

    fn says(&mut self, request: &str, verdict: Verdict) -> String {
        let waiting = self.waits(request);
        said(&self.told(&waiting, verdict))
    }

    fn accounts(&self, user: &str) -> usize {
        self.host.disk.rows_of(Table::Accounts, &format!("{user}@localhost")).count()
    }

    fn token(&mut self) -> String {
        let heard = self.says(&authenticate("PLAIN", b"\0romeo\0pencil", WANTS_TOKEN), YES);
        let rest = heard.split_once("token='").unwrap_or_else(|| panic!("{heard}")).1;
        rest.split_once('\'').expect("an end").0.to_owned()
    }
}

/// RFC 6120 6.3.4: no key for SCRAM is stored, so only PLAIN is offered, in both forms, and tokens
/// in addition.
#[test]
fn rfc6120_6_3_4_plain_alone_is_offered() {
    let mut desk = Desk::new();
    let (conn, offer) = desk.connect();
    let plain = "<mechanism>PLAIN</mechanism>";
    assert!(offer.contains(&format!("<mechanisms xmlns='{SASL}'>{plain}</mechanisms>")), "{offer}");
    assert!(offer.contains(&format!("<authentication xmlns='urn:xmpp:sasl:2'>{plain}<inline>")), "{offer}");
    assert!(offer.contains("<fast ") && !offer.contains("SCRAM") && !offer.contains("iq-register"), "{offer}");
    let scram =
        format!("<auth xmlns='{SASL}' mechanism='SCRAM-SHA-256'>{}</auth>", BASE64.encode("n,,n=romeo,r=abcdefgh"));
    assert!(said(&desk.host.ask(conn, &scram)).contains("<invalid-mechanism"));
    let mut desk = Desk::with(|settings| settings.outside_tokens = false);
    let (conn, offer) = desk.connect();
    assert!(!offer.contains("<fast "), "{offer}");
    assert!(said(&desk.host.ask(conn, &by_token("romeo", "x", 1, ""))).contains("<invalid-mechanism"));
    // Another domain of the same server is not affected.
    let mut desk = Desk::with(|settings| {
        settings.domains = Settings::new("localhost", 1, [0; 32], 0).domains;
        settings.serve("other.example");
        settings.keep_outside("other.example");
    });
    assert!(desk.connect().1.contains("SCRAM-SHA-256"));
}

/// RFC 4616 2: the right password logs in, and creates the account that everything else here needs.
#[test]
fn rfc4616_2_a_first_login_makes_the_account() {
    let mut desk = Desk::new();
    let waiting = desk.waits(&plain("Romeo", "pen:cil"));
    assert_eq!((waiting.question.user(), waiting.question.password()), (("romeo", "localhost"), Some("pen:cil")));
    assert!(!format!("{:?}", waiting.question).contains("pen:cil"), "no log gets to see it");
    assert_eq!(desk.accounts("romeo"), 0, "nobody has said that there is one");
    let effects = desk.told(&waiting, YES);
    assert!(said(&effects).contains("<success"));
    let admitted = |effect: &Effect| matches!(effect, Effect::Note(note) if note.what == Happened::Admitted);
    assert_eq!((effects.iter().filter(|e| admitted(e)).count(), desk.accounts("romeo")), (1, 1));
    // The success depends on the account's row.
    let success = effects.iter().find(|effect| said(std::slice::from_ref(effect)).contains("<success"));
    assert!(matches!(success, Some(Effect::Send { durable: true, .. })), "{success:?}");
    desk.host.ask(waiting.conn, HEADER);
    let heard = said(&desk.host.ask(waiting.conn, BIND));
    assert!(heard.contains("<jid>romeo@localhost/"), "{heard}");
    // The second login finds it; no password matches its keys.
    let row = desk.host.disk.rows_of(Table::Accounts, "romeo@localhost").next().expect("a row").1.to_vec();
    let effects = {
        let waiting = desk.waits(&plain("romeo", "another"));
        desk.told(&waiting, YES)
    };
    assert!(said(&effects).contains("<success") && !effects.iter().any(admitted));
    assert_eq!(desk.host.disk.rows_of(Table::Accounts, "romeo@localhost").next().expect("a row").1, row);
}

/// RFC 6120 6.5.10, 6.5.11: a refusal, and no decision.
#[test]
fn rfc6120_6_5_11_what_a_refused_client_is_told() {
    for (verdict, condition) in [
        (Verdict::No, "<not-authorized"),
        (Verdict::Unknown(Unknown::Busy), "<temporary-auth-failure"),
        (Verdict::Unknown(Unknown::Down), "<temporary-auth-failure"),
        (Verdict::Unknown(Unknown::Late), "<temporary-auth-failure"),
        (Verdict::Unknown(Unknown::Wrong), "<temporary-auth-failure"),
    ] {
        let mut desk = Desk::new();
        for request in [plain("romeo", "pencil"), authenticate("PLAIN", b"\0romeo\0pencil", "")] {
            let waiting = desk.waits(&request);
            let heard = said(&desk.told(&waiting, verdict));
            assert!(heard.contains(condition) && heard.contains("</failure>"), "{verdict:?}: {heard}");
            // The client may retry on the same connection (RFC 6120 6.4.5).
            let effects = desk.host.ask(waiting.conn, &request);
            let (token, _) = asked(effects).expect("asked again");
            assert!(said(&desk.host.turn(Input::Told { token, verdict: YES })).contains("<success"), "{verdict:?}");
        }
    }
}

/// An answer that arrives after the connection is closed, arrives twice, or never arrives has no
/// effect; its place is free again when it has arrived.
#[test]
fn answers_that_nobody_waits_for() {
    let mut desk = Desk::new();
    let waiting = desk.waits(&plain("romeo", "pencil"));
    desk.host.turn(Input::Closed { conn: waiting.conn });
    assert_eq!(said(&desk.told(&waiting, YES)), "");
    assert_eq!(said(&desk.told(&waiting, YES)), "");
    assert_eq!(desk.accounts("romeo"), 0, "nobody came in");
    // Never: the connection ends like any that has not logged in by then (preauth_s_max).
    let waiting = desk.waits(&plain("romeo", "pencil"));
    let mut ended = false;
    for _ in 0..60 {
        desk.later(1);
        let effects = desk.host.turn(Input::EndOfTurn);
        ended |= effects.iter().any(|effect| matches!(effect, Effect::Close { conn, .. } if *conn == waiting.conn));
    }
    assert!(ended, "it waits for ever");
}

/// The number of pending queries per shard is limited, and further logins are refused at once.
#[test]
fn questions_under_way_are_bounded() {
    let mut desk = Desk::with(|settings| {
        settings.opening_per_address_max = 0;
        settings.throttle = ThrottleParams { account_burst: 60_000, pair_burst: 60_000, ..settings.throttle };
    });
    let all: Vec<Waiting> = (0..OUTSIDE_ASKS_MAX).map(|n| desk.waits(&plain(&format!("user{n}"), "pencil"))).collect();
    let (conn, _) = desk.connect();
    let effects = desk.host.ask(conn, &plain("romeo", "pencil"));
    assert!(said(&effects).contains("<temporary-auth-failure") && asked(effects).is_none());
    assert!(said(&desk.told(&all[0], YES)).contains("<success"));
    assert!(desk.says(&plain("romeo", "pencil"), YES).contains("<success"));
}

/// A query in vain is charged like a failed login; a login without a query is charged to nobody.
#[test]
fn failed_logins_are_held_as_those_of_other_accounts_are() {
    let few = |settings: &mut Settings| {
        settings.throttle = ThrottleParams { pair_burst: 3, pair_refill_ms: 60_000, ..settings.throttle };
    };
    for verdict in [Verdict::No, Verdict::Unknown(Unknown::Late), Verdict::Unknown(Unknown::Wrong)] {
        let mut desk = Desk::with(few);
        (0..3).for_each(|_| drop(desk.says(&plain("romeo", "guess"), verdict)));
        let (conn, _) = desk.connect();
        let effects = desk.host.ask(conn, &plain("romeo", "pencil"));
        assert!(said(&effects).contains("<temporary-auth-failure"), "{verdict:?}: {}", said(&effects));
        assert!(asked(effects).is_none(), "{verdict:?}: it is held before anybody is asked");
    }
    for verdict in [Verdict::Unknown(Unknown::Busy), Verdict::Unknown(Unknown::Down)] {
        let mut desk = Desk::with(few);
        (0..20).for_each(|_| drop(desk.says(&plain("romeo", "pencil"), verdict)));
        assert!(desk.says(&plain("romeo", "pencil"), YES).contains("<success"), "{verdict:?}");
    }
    // By address: names that make a back end fail cannot be tried endlessly.
    let mut desk = Desk::with(|settings| {
        settings.throttle = ThrottleParams { address_burst: 5, address_refill_ms: 60_000, ..settings.throttle };
    });
    for n in 0..5 {
        desk.says(&plain(&format!("poison{n}"), "x"), Verdict::Unknown(Unknown::Late));
    }
    let (conn, _) = desk.connect();
    assert!(asked(desk.host.ask(conn, &plain("poison5", "x"))).is_none());
}

/// A client that causes queries and disconnects does not block the queue for others.
#[test]
fn logins_that_are_given_up_are_charged_to_their_address() {
    let mut desk = Desk::with(|settings| {
        settings.throttle = ThrottleParams { address_burst: 5, address_refill_ms: 60_000, ..settings.throttle };
    });
    for n in 0..5 {
        let waiting = desk.waits(&plain(&format!("user{n}"), "pencil"));
        desk.later(4);
        desk.host.turn(Input::Closed { conn: waiting.conn });
    }
    let (conn, _) = desk.connect();
    let effects = desk.host.ask(conn, &plain("user5", "pencil"));
    assert!(said(&effects).contains("<temporary-auth-failure") && asked(effects).is_none());
}

/// Two first logins at once: one account.
#[test]
fn two_first_logins_at_once_have_one_account() {
    let mut desk = Desk::new();
    let both = [desk.waits(&plain("romeo", "pencil")), desk.waits(&plain("romeo", "pencil"))];
    for waiting in &both {
        assert!(said(&desk.told(waiting, YES)).contains("<success"));
    }
    assert_eq!(desk.accounts("romeo"), 1);
    for waiting in &both {
        desk.host.ask(waiting.conn, HEADER);
        assert!(said(&desk.host.ask(waiting.conn, BIND)).contains("<jid>romeo@localhost/"));
    }
}

/// An account from before its domain was moved to an external back end: its own password is no
/// longer used, and a suspended account stays suspended.
#[test]
fn an_account_that_was_there_before() {
    let mut desk = Desk::new();
    let mut record = |user: &str, standing: Standing| {
        let mut keys = Credentials::derive("pencil", 4096, &[3; 16], 0).unwrap().of(Incarnation::drawn(7));
        keys.set_standing(standing);
        let mut record = Vec::new();
        keys.encode(&mut record);
        desk.host.disk.put(Table::Accounts, &format!("{user}@localhost"), b"", &record);
    };
    record("romeo", Standing::InUse);
    record("tybalt", Standing::Applies);
    record("mercutio", Standing::Suspended);
    assert!(desk.says(&plain("romeo", "pencil"), Verdict::No).contains("<not-authorized"));
    assert!(desk.says(&plain("romeo", "elsewhere"), YES).contains("<success"));
    assert!(desk.says(&plain("tybalt", "elsewhere"), YES).contains("<account-disabled"));
    let suspended = desk.says(&plain("mercutio", "elsewhere"), YES);
    assert!(suspended.contains("<account-disabled") && suspended.contains("this account is suspended"), "{suspended}");
}

/// XEP-0484: a token stays valid while the back end has its user, which is queried each time; it
/// ends with the user.
#[test]
fn xep0484_a_token_is_good_while_its_user_is_there() {
    let mut desk = Desk::new();
    let token = desk.token();
    let waiting = desk.waits(&by_token("romeo", &token, 1, ""));
    assert_eq!((waiting.question.user(), waiting.question.password()), (("romeo", "localhost"), None));
    let heard = said(&desk.told(&waiting, YES));
    assert!(heard.contains("<success") && heard.contains("<additional-data>"), "{heard}");
    // No decision: the token stays.
    for (count, why) in (2..).zip([Unknown::Busy, Unknown::Down, Unknown::Late, Unknown::Wrong]) {
        let heard = desk.says(&by_token("romeo", &token, count, ""), Verdict::Unknown(why));
        assert!(heard.contains("<temporary-auth-failure"), "{heard}");
    }
    assert!(desk.says(&by_token("romeo", &token, 10, ""), YES).contains("<success"));
    // A wrong token causes no query.
    let (conn, _) = desk.connect();
    let effects = desk.host.ask(conn, &by_token("romeo", "guess", 11, ""));
    assert!(said(&effects).contains("<credentials-expired") && asked(effects).is_none());
    // The user is removed and returns: the token does not.
    let waiting = desk.waits(&by_token("romeo", &token, 12, ""));
    let effects = desk.told(&waiting, Verdict::No);
    assert!(said(&effects).contains("<credentials-expired"));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Note(note) if note.what == Happened::Ousted)));
    let (conn, _) = desk.connect();
    let effects = desk.host.ask(conn, &by_token("romeo", &token, 13, ""));
    assert!(said(&effects).contains("<credentials-expired") && asked(effects).is_none());
    assert_eq!(desk.accounts("romeo"), 1, "what is stored stays");
}

/// The server is not informed of passwords changed elsewhere: a token is not renewed by itself, so
/// the password is required once per its lifetime.
#[test]
fn a_token_is_not_renewed_by_a_token() {
    let mut desk = Desk::new();
    let token = desk.token();
    desk.later(TOKEN_LIFE_S - TOKEN_ROTATES_S + 60);
    let heard = desk.says(&by_token("romeo", &token, 1, WANTS_TOKEN), YES);
    assert!(heard.contains("<success") && !heard.contains("<token"), "{heard}");
    desk.later(TOKEN_ROTATES_S);
    let (conn, _) = desk.connect();
    assert!(said(&desk.host.ask(conn, &by_token("romeo", &token, 2, ""))).contains("<credentials-expired"));
}

/// XEP-0077 3.1 to 3.3: nothing can be created, changed or removed here, and the error says so.
#[test]
fn xep0077_3_accounts_are_made_and_changed_elsewhere() {
    let mut desk = Desk::with(|settings| settings.facts.registration = true);
    let (conn, _) = desk.connect();
    for (kind, inside) in [("get", ""), ("set", "<username>romeo</username><password>pencil</password>")] {
        let iq = format!("<iq type='{kind}' id='r'><query xmlns='jabber:iq:register'>{inside}</query></iq>");
        let heard = said(&desk.host.ask(conn, &iq));
        assert!(heard.contains("<not-allowed") && heard.contains("in an external system"), "{heard}");
    }
    let waiting = desk.waits(&plain("romeo", "pencil"));
    desk.told(&waiting, YES);
    desk.host.ask(waiting.conn, HEADER);
    desk.host.ask(waiting.conn, BIND);
    for inside in ["<username>romeo</username><password>other</password>", "<remove/>"] {
        let iq = format!("<iq type='set' id='r'><query xmlns='jabber:iq:register'>{inside}</query></iq>");
        let heard = said(&desk.host.ask(waiting.conn, &iq));
        assert!(heard.contains("<not-allowed") && heard.contains("in an external system"), "{heard}");
    }
    assert_eq!(desk.accounts("romeo"), 1);
}
