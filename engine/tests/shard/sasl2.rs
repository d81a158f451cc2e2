//! Login in one exchange: SASL 2 (XEP-0388) with its inline features, and tokens (XEP-0484).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use throng_engine::id::{ConnId, DomainId, Now, ShardId};
use throng_engine::io::{AccountCommand, Command, Effect, Input, ListenerKind, PutMode, Reply, SessionCommand};
use throng_engine::limits::{TOKEN_CLIENTS_MAX, TOKEN_LIFE_S, TOKEN_ROTATES_S};
use throng_engine::session::inline::{Bind, Inline, Resume};
use throng_engine::session::moved::{Errand, Moved, MovedStream};
use throng_engine::session::sasl::{Authenticated, ThrottleParams};
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_engine::store::account::{Credentials, Incarnation};
use throng_engine::store::hash::HashKind;
use throng_engine::web::Transport;
use throng_engine::wire::StreamScope;
use throng_sim::host::{HEADER, Host, reply, said};
use throng_sim::net::SocketId;
use throng_sim::world::{Occurrence, PASSWORD, Pace, World};

const PHONE: &str = "d4565fa7-4d72-4749-b3d3-740edbf87770";
const DESK: &str = "d4565fa7-4d72-4749-b3d3-740edbf87771";
const WANTS_TOKEN: &str = "<request-token xmlns='urn:xmpp:fast:0' mechanism='HT-SHA-256-NONE'/>";
const BIND: &str = "<bind xmlns='urn:xmpp:bind:0'><tag>Test</tag><enable xmlns='urn:xmpp:sm:3' resume='true'/></bind>";
const NOT_AUTHORIZED: &str =
    "<failure xmlns='urn:xmpp:sasl:2'><not-authorized xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/></failure>";
const NO_TOKEN: &str =
    "<failure xmlns='urn:xmpp:sasl:2'><credentials-expired xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/></failure>";
const DAY_S: u64 = 86_400;

fn authenticate(mechanism: &str, initial: &[u8], agent: &str, with: &str) -> String {
    let initial = BASE64.encode(initial);
    format!(
        "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='{mechanism}'>\
         <initial-response>{initial}</initial-response><user-agent id='{agent}'/>{with}</authenticate>"
    )
}

fn by_password(user: &str, password: &str, agent: &str, with: &str) -> String {
    authenticate("PLAIN", format!("\0{user}\0{password}").as_bytes(), agent, with)
}

/// A login with a token; `fast` has attributes of `<fast/>`.
fn by_token(user: &str, token: &str, agent: &str, fast: &str, with: &str) -> String {
    let proof = HashKind::Sha256.hmac(token.as_bytes(), &[b"Initiator"]);
    let initial = [user.as_bytes(), b"\0", proof.as_bytes()].concat();
    let with = format!("<fast xmlns='urn:xmpp:fast:0'{fast}/>{with}");
    authenticate("HT-SHA-256-NONE", &initial, agent, &with)
}

/// The text between two marks.
fn between<'a>(text: &'a str, before: &str, behind: &str) -> &'a str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("no {before} in {text}")).1;
    rest.split_once(behind).expect("an end").0
}

fn token_of(said: &str) -> String {
    between(said, "<token xmlns='urn:xmpp:fast:0' token='", "'").to_owned()
}

// One shard, directly.

struct Desk {
    host: Host,
    next: u32,
}

impl Desk {
    fn new(settle: impl FnOnce(&mut Settings)) -> Desk {
        let mut settings = Settings::new("localhost", 1, [0; 32], 0);
        settle(&mut settings);
        let mut desk = Desk { host: Host::new(settings), next: 0 };
        desk.host.now = Now::new(1_000, 1_700_000_000_000_000);
        desk.host.account_with("romeo", PASSWORD, 1);
        desk.host.account_with("juliet", PASSWORD, 2);
        desk
    }

    fn accept(&mut self, listener: ListenerKind) -> ConnId {
        let conn = ConnId { slot: self.next, generation: 1 };
        self.next += 1;
        self.host.turn(Input::Accepted { conn, listener, peer: [127, 0, 0, 1].into() });
        conn
    }

    fn connect(&mut self) -> ConnId {
        self.accept(ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: false })
    }

    /// The output to a new connection for its header followed by this.
    fn log_in(&mut self, request: &str) -> (ConnId, String) {
        let conn = self.connect();
        let effects = self.host.ask(conn, &format!("{HEADER}{request}"));
        (conn, said(&effects))
    }

    fn says(&mut self, request: &str) -> String {
        self.log_in(request).1
    }

    /// A token for one of Romeo's clients.
    fn token(&mut self, agent: &str) -> String {
        token_of(&self.says(&by_password("romeo", PASSWORD, agent, WANTS_TOKEN)))
    }

    /// Whether a token logs in.
    fn takes(&mut self, token: &str, agent: &str, fast: &str) -> bool {
        self.says(&by_token("romeo", token, agent, fast, "")).contains("<success")
    }

    fn later(&mut self, s: u64) {
        self.host.now.pass_wall(s * 1_000_000);
        self.host.now.mono_ms += s * 1_000;
    }

    fn command(&mut self, command: Command) -> Reply {
        let effects = self.host.turn(Input::Command { token: 9, command });
        reply(effects).expect("an answer")
    }
}

/// XEP-0388 2.1, XEP-0386 2.1, XEP-0198 10.1, XEP-0484 3.1: the offered features, besides the first
/// form of SASL.
#[test]
fn xep0388_2_1_the_offer() {
    let mut desk = Desk::new(|_| {});
    let offer = desk.says("");
    assert!(offer.contains("<mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>"), "{offer}");
    let inline = between(&offer, "<authentication xmlns='urn:xmpp:sasl:2'>", "</authentication>");
    assert!(inline.starts_with("<mechanism>SCRAM-SHA-512</mechanism>"), "{inline}");
    assert!(inline.contains("<sm xmlns='urn:xmpp:sm:3'/>") && !inline.contains("tls-0rtt"), "{inline}");
    assert_eq!(
        between(inline, "<bind xmlns='urn:xmpp:bind:0'>", "</bind>"),
        "<inline><feature var='urn:xmpp:carbons:2'/><feature var='urn:xmpp:csi:0'/><feature var='urn:xmpp:sm:3'/></inline>"
    );
    // Extensions that an operator has switched off are not offered.
    let mut desk = Desk::new(|settings| settings.facts.without = throng_engine::extension::bits(&["csi"]));
    assert!(!desk.says("").contains("urn:xmpp:csi:0"));
    // XEP-0388 3: only over TLS, or where the operator declares a connection equivalent.
    let open = ListenerKind { direct_tls: false, starttls: true, plain_auth: false, registration: false };
    let conn = desk.accept(open);
    let request = by_password("romeo", PASSWORD, PHONE, "");
    let effects = desk.host.ask(conn, &format!("{HEADER}{request}"));
    let said = said(&effects);
    assert!(!said.contains("<authentication") && said.contains("<encryption-required"), "{said}");
}

/// XEP-0388 2.6.1, XEP-0386 2.2: one request, one answer, in the specified order; the answer is a
/// promise, so it waits at the gate.
#[test]
fn xep0386_2_2_a_session_comes_with_the_login() {
    let mut desk = Desk::new(|_| {});
    let conn = desk.connect();
    let request = by_password("romeo", PASSWORD, PHONE, &format!("{BIND}{WANTS_TOKEN}"));
    let effects = desk.host.ask(conn, &format!("{HEADER}{request}"));
    let success = effects.iter().find_map(|effect| match effect {
        Effect::Send { bytes, durable, .. } if bytes.windows(8).any(|w| w == b"<success") => Some((bytes, *durable)),
        _ => None,
    });
    let (bytes, durable) = success.expect("a success");
    assert!(durable);
    let text = std::str::from_utf8(bytes).unwrap();
    let text = &text[text.find("<success").unwrap()..];
    assert!(
        text.starts_with("<success xmlns='urn:xmpp:sasl:2'><authorization-identifier>romeo@localhost/Test/"),
        "{text}"
    );
    let order = ["</authorization-identifier><bound ", "<enabled ", "</bound><token ", "</success><stream:features>"];
    let places: Vec<_> =
        order.iter().map(|part| text.find(part).unwrap_or_else(|| panic!("no {part} in {text}"))).collect();
    assert!(places.is_sorted(), "{text}");
    let features = between(text, "<stream:features>", "</stream:features>");
    assert!(
        !features.contains("xmpp-bind") && !features.contains("urn:xmpp:sm:3"),
        "what is done is not offered: {features}"
    );
    assert!(!text.contains(PHONE) && !text.contains("d4565fa7"));
    // The same client gets the same resource, whatever its tag (2.2.1), and has one session (2.2).
    let full = between(text, "<authorization-identifier>", "<").to_owned();
    let again = desk.says(&by_password("romeo", PASSWORD, PHONE, BIND));
    assert_eq!(between(&again, "<authorization-identifier>", "<"), full);
    let other = desk.says(&by_password("romeo", PASSWORD, PHONE, &BIND.replace("Test", "Other")));
    let own = full.rsplit('/').next().unwrap();
    assert_eq!(between(&other, "<authorization-identifier>", "<"), format!("romeo@localhost/Other/{own}"));
    let rows = desk.command(Command::Session(SessionCommand::List {
        of: Some("romeo@localhost".into()),
        from_slot: 0,
        most: 9,
    }));
    assert!(matches!(rows, Reply::Sessions { rows, .. } if rows.len() == 1));
    // Another client has another one.
    let other = desk.says(&by_password("romeo", PASSWORD, DESK, BIND));
    assert!(!between(&other, "<authorization-identifier>", "<").ends_with(own));
}

/// XEP-0388 2.4: nobody else can log in on a stream opened as one user, and not at another domain.
#[test]
fn xep0388_2_4_who_logs_in_is_who_opened_the_stream() {
    let mut desk = Desk::new(|_| {});
    for (from, good) in [
        ("romeo@localhost", true),
        ("ROMEO@localhost/phone", true),
        ("localhost", true),
        ("@", true),
        ("juliet@localhost", false),
        ("romeo@example.com", false),
    ] {
        let conn = desk.connect();
        let header = HEADER.replace(" to=", &format!(" from='{from}' to="));
        let request = by_password("romeo", PASSWORD, PHONE, "");
        let said = said(&desk.host.ask(conn, &format!("{header}{request}")));
        assert_eq!((said.contains("<success"), said.contains("<invalid-authzid")), (good, !good), "{from}: {said}");
    }
}

/// XEP-0386 2.2, XEP-0313 5: with its session a client receives the archive's first and last
/// message, the same as in the answer to a request; a resumed session does not.
#[test]
fn xep0386_2_2_the_ends_of_the_archive() {
    let mut desk = Desk::new(|_| {});
    let inside = |said: &str| between(said, "<bound xmlns='urn:xmpp:bind:0'>", "</bound>").to_owned();
    let (conn, heard) = desk.log_in(&by_password("romeo", PASSWORD, PHONE, BIND));
    let empty = inside(&heard);
    assert!(empty.starts_with("<metadata xmlns='urn:xmpp:mam:2'/><enabled"), "{empty}");
    let previd = between(&empty, "id='", "'").to_owned();
    for body in ["1", "2", "3"] {
        desk.later(60);
        desk.host.ask(conn, &format!("<message to='juliet@localhost' type='chat'><body>{body}</body></message>"));
    }
    let heard = said(&desk.host.ask(conn, "<iq type='get' id='m'><metadata xmlns='urn:xmpp:mam:2'/></iq>"));
    let asked = format!("<metadata{}</metadata>", between(&heard, "<metadata", "</metadata>"));
    let told = inside(&desk.says(&by_password("romeo", PASSWORD, DESK, BIND)));
    assert!(told.starts_with(&asked), "{told}: {asked}");
    assert!(
        asked.contains("timestamp='2023-11-14T22:14:20.000Z'")
            && asked.contains("timestamp='2023-11-14T22:16:20.000Z'")
    );
    let resume = format!("<resume xmlns='urn:xmpp:sm:3' h='0' previd='{previd}'/>");
    let heard = desk.says(&by_password("romeo", PASSWORD, PHONE, &format!("{resume}{BIND}")));
    // The answer to its request, which it has not acknowledged, is sent again after it (XEP-0198
    // 5).
    let success = between(&heard, "<success", "</success>");
    assert!(success.contains("<resumed") && !success.contains("<metadata"), "{heard}");
    assert_eq!(heard.matches("<metadata").count(), 1, "{heard}");
    // Juliet has her own archive.
    let heard = desk.says(&by_password("juliet", PASSWORD, PHONE, BIND));
    assert_ne!(inside(&heard).split("<enabled").next(), told.split("<enabled").next());
    let mut desk = Desk::new(|settings| settings.archive = false);
    assert!(!desk.says(&by_password("romeo", PASSWORD, PHONE, BIND)).contains("<metadata"));
}

/// With an unreadable archive the session begins all the same.
#[test]
fn an_archive_that_cannot_be_read_holds_up_nobody() {
    let mut desk = Desk::new(|_| {});
    let (conn, _) = desk.log_in(&by_password("romeo", PASSWORD, PHONE, BIND));
    desk.host.ask(conn, "<message to='juliet@localhost' type='chat'><body>1</body></message>");
    desk.host.disk.damage(Table::Archive, "romeo@localhost", true);
    let heard = desk.says(&by_password("romeo", PASSWORD, DESK, BIND));
    assert!(heard.contains("<bound") && !heard.contains("<metadata"), "{heard}");
}

/// XEP-0386 2.2: more sessions than a user may have.
#[test]
fn too_many_sessions_are_refused() {
    let mut desk = Desk::new(|settings| settings.sessions_per_user_max = 1);
    assert!(desk.says(&by_password("romeo", PASSWORD, PHONE, BIND)).contains("<bound"));
    let said = desk.says(&by_password("romeo", PASSWORD, DESK, BIND));
    assert!(said.contains("<failure xmlns='urn:xmpp:sasl:2'><temporary-auth-failure"), "{said}");
    assert!(said.contains("<resource-constraint") && !said.contains("<success"), "{said}");
    // The same client replaces its own session.
    assert!(desk.says(&by_password("romeo", PASSWORD, PHONE, BIND)).contains("<bound"));
}

/// XEP-0484 3.2 to 3.4: a token is obtained with the password and used in its place, and the server
/// proves it, too.
#[test]
fn xep0484_3_4_a_token_logs_in() {
    let mut desk = Desk::new(|_| {});
    let said = desk.says(&by_password("romeo", PASSWORD, PHONE, WANTS_TOKEN));
    assert_eq!(between(&said, "expiry='", "'"), "2023-12-14T22:13:20Z");
    let token = token_of(&said);
    let said = desk.says(&by_token("romeo", &token, PHONE, "", BIND));
    let answer = HashKind::Sha256.hmac(token.as_bytes(), &[b"Responder"]);
    assert_eq!(between(&said, "<additional-data>", "<"), BASE64.encode(answer.as_bytes()));
    assert!(said.contains("<bound") && !said.contains("<token"), "{said}");
    assert!(said.contains("<authorization-identifier>romeo@localhost/Test/"), "{said}");
    // It is not in the store.
    let rows = [Table::Accounts, Table::Private]
        .map(|table| desk.host.disk.rows_of(table, "romeo@localhost").map(|(_, row)| row.to_vec()).collect::<Vec<_>>());
    let all = rows.concat().concat();
    assert!(!all.is_empty() && !all.windows(token.len()).any(|window| window == token.as_bytes()));
}

/// XEP-0484 3.4, 4, 6: an invalid, replayed, foreign or expired token always gets the same answer,
/// which is that for a name without an account.
#[test]
fn xep0484_3_4_tokens_that_do_not_log_in() {
    let mut desk = Desk::new(|settings| {
        settings.throttle = ThrottleParams { pair_burst: 0, address_burst: 0, ..settings.throttle }
    });
    let token = desk.token(PHONE);
    assert!(desk.takes(&token, PHONE, " count='7'"));
    let mut refused = |user: &str, token: &str, agent: &str, fast: &str| {
        let said = desk.says(&by_token(user, token, agent, fast, BIND));
        assert!(said.contains(NO_TOKEN) && !said.contains("<success") && !said.contains("<bound"), "{said}");
    };
    refused("romeo", &token, PHONE, " count='7'");
    refused("romeo", &token, PHONE, " count='6'");
    refused("romeo", &token, DESK, "");
    refused("romeo", "another", PHONE, "");
    refused("juliet", &token, PHONE, "");
    refused("nobody", &token, PHONE, "");
    assert!(desk.takes(&token, PHONE, " count='8'"), "it is none the worse for it");
    // A mechanism with another channel binding, or without a client id.
    let request = by_token("romeo", &token, PHONE, "", "").replace("HT-SHA-256-NONE", "HT-SHA-256-ENDP");
    assert!(desk.says(&request).contains("<invalid-mechanism"));
    let request = by_token("romeo", &token, PHONE, "", "").replace(&format!("<user-agent id='{PHONE}'/>"), "");
    assert!(desk.says(&request).contains("<malformed-request"));
}

/// XEP-0484 4.2: an expired token fails so that the client knows to use the password.
#[test]
fn xep0484_4_2_a_token_expires() {
    let mut desk = Desk::new(|_| {});
    let token = desk.token(PHONE);
    desk.later(TOKEN_LIFE_S);
    let said = desk.says(&by_token("romeo", &token, PHONE, "", ""));
    assert!(said.contains(NO_TOKEN), "{said}");
    // A client that never had one learns nothing.
    assert!(desk.says(&by_token("romeo", "another", PHONE, "", "")).contains(NO_TOKEN));
    assert!(desk.says(&by_token("nobody", "another", PHONE, "", "")).contains(NO_TOKEN));
}

/// XEP-0484 4.2: the same for a token that is no longer valid because the client gave it up, used a
/// newer one, or the password has changed.
#[test]
fn xep0484_4_2_a_token_that_is_void_has_expired() {
    let mut desk = Desk::new(|_| {});
    let token = desk.token(PHONE);
    assert!(desk.takes(&token, PHONE, " invalidate='true'"));
    assert!(desk.says(&by_token("romeo", &token, PHONE, "", "")).contains(NO_TOKEN), "given up");
    let before = desk.token(PHONE);
    assert!(desk.takes(&before, PHONE, ""));
    let token = desk.token(PHONE);
    assert!(desk.takes(&token, PHONE, ""));
    assert!(desk.says(&by_token("romeo", &before, PHONE, "", "")).contains(NO_TOKEN), "replaced");
    let credentials = Box::new(Credentials::derive("new", 4096, &[4; 16], 0).unwrap());
    let put =
        Command::Account(AccountCommand::Put { account: "romeo@localhost".into(), credentials, mode: PutMode::Change });
    assert!(matches!(desk.command(put), Reply::Done(_)));
    assert!(desk.says(&by_token("romeo", &token, PHONE, "", "")).contains(NO_TOKEN), "a new password");
    assert_eq!(
        desk.command(Command::Account(AccountCommand::Delete { account: "romeo@localhost".into() })),
        Reply::Done(1)
    );
    assert!(desk.says(&by_token("romeo", &token, PHONE, "", "")).contains(NO_TOKEN), "the account is gone");
}

/// XEP-0484 3.5: a new token is issued in time; the previous one is valid until the new one is
/// used.
#[test]
fn xep0484_3_5_tokens_are_replaced_before_they_expire() {
    let mut desk = Desk::new(|_| {});
    let first = desk.token(PHONE);
    desk.later(TOKEN_LIFE_S - TOKEN_ROTATES_S);
    let second = token_of(&desk.says(&by_token("romeo", &first, PHONE, "", BIND)));
    // It did not arrive: the next one replaces it.
    let third = token_of(&desk.says(&by_token("romeo", &first, PHONE, "", BIND)));
    assert!(!desk.takes(&second, PHONE, ""));
    assert!(desk.takes(&third, PHONE, ""));
    assert!(!desk.takes(&first, PHONE, ""), "it ended with the use of the next");
    assert!(desk.takes(&third, PHONE, ""));
    // A phone that connects every day never needs its password.
    let mut token = third;
    for _ in 0..100 {
        desk.later(DAY_S);
        let said = desk.says(&by_token("romeo", &token, PHONE, "", BIND));
        assert!(said.contains("<success"), "{said}");
        if said.contains("<token") {
            token = token_of(&said);
        }
    }
}

/// XEP-0484 3.6: a client invalidates its token; if it requests one, it gets another.
#[test]
fn xep0484_3_6_a_token_is_given_up() {
    let mut desk = Desk::new(|_| {});
    let token = desk.token(PHONE);
    desk.later(TOKEN_LIFE_S - DAY_S);
    let said = desk.says(&by_token("romeo", &token, PHONE, " invalidate='true'", ""));
    assert!(said.contains("<success") && !said.contains("<token"), "nothing new, although it was due: {said}");
    assert!(!desk.takes(&token, PHONE, ""));
    let token = desk.token(PHONE);
    let next = token_of(&desk.says(&by_token("romeo", &token, PHONE, " invalidate='1'", WANTS_TOKEN)));
    assert!(!desk.takes(&token, PHONE, "") && desk.takes(&next, PHONE, ""));
}

/// All tokens end with a change of the password, by anybody, and with the account.
#[test]
fn tokens_end_with_the_password_and_with_the_account() {
    let mut desk = Desk::new(|_| {});
    let keys = |password: &str| Box::new(Credentials::derive(password, 4096, &[4; 16], 0).unwrap());
    let put = |password: &str, mode| {
        Command::Account(AccountCommand::Put { account: "romeo@localhost".into(), credentials: keys(password), mode })
    };
    // By the operator, also if the password is the same.
    let token = desk.token(PHONE);
    assert!(matches!(desk.command(put(PASSWORD, PutMode::Change)), Reply::Done(_)));
    assert!(!desk.takes(&token, PHONE, ""));
    // By the user.
    let (conn, heard) = desk.log_in(&by_password("romeo", PASSWORD, PHONE, &format!("{WANTS_TOKEN}{BIND}")));
    let (token, other) = (token_of(&heard), desk.token(DESK));
    let change = "<iq type='set' id='pw'><query xmlns='jabber:iq:register'><username>romeo</username><password>new</password></query></iq>";
    assert!(said(&desk.host.ask(conn, change)).contains("type='result'"));
    assert!(!desk.takes(&token, PHONE, "") && !desk.takes(&other, DESK, ""));
    // With the account; the next owner of the name has none of them.
    let token = token_of(&desk.says(&by_password("romeo", "new", PHONE, WANTS_TOKEN)));
    assert!(desk.takes(&token, PHONE, ""));
    assert_eq!(
        desk.command(Command::Account(AccountCommand::Delete { account: "romeo@localhost".into() })),
        Reply::Done(1)
    );
    assert!(!desk.takes(&token, PHONE, ""));
    assert_eq!(desk.host.disk.rows_of(Table::Private, "romeo@localhost").count(), 0);
    assert!(matches!(desk.command(put("new", PutMode::Add)), Reply::Done(1)));
    assert!(!desk.takes(&token, PHONE, ""));
}

/// The client's last message of SCRAM-SHA-256 (RFC 5802 3).
fn scram_final(password: &str, first_bare: &str, challenge: &str) -> String {
    let hash = HashKind::Sha256;
    let mut fields = challenge.split(',').map(|field| &field[2..]);
    let (nonce, salt, iterations) = (fields.next().unwrap(), fields.next().unwrap(), fields.next().unwrap());
    let salted = hash.salted_password(password, &BASE64.decode(salt).unwrap(), iterations.parse().unwrap());
    let key = hash.hmac(salted.as_bytes(), &[b"Client Key"]);
    let last = format!("c=biws,r={nonce}");
    let signed = format!("{first_bare},{challenge},{last}");
    let signature = hash.hmac(hash.digest(&[key.as_bytes()]).as_bytes(), &[signed.as_bytes()]);
    format!("{last},p={}", BASE64.encode(key.xor(&signature).as_bytes()))
}

/// A SCRAM login, with or without a password change between challenge and response; returns the
/// outcome.
fn scram(desk: &mut Desk, changed: bool) -> String {
    let conn = desk.connect();
    let request = authenticate("SCRAM-SHA-256", b"n,,n=romeo,r=abc", PHONE, WANTS_TOKEN);
    let heard = said(&desk.host.ask(conn, &format!("{HEADER}{request}")));
    let challenge = BASE64.decode(between(&heard, "<challenge xmlns='urn:xmpp:sasl:2'>", "<")).unwrap();
    let challenge = String::from_utf8(challenge).unwrap();
    if changed {
        let credentials = Box::new(Credentials::derive("new", 4096, &[4; 16], 0).unwrap());
        let put = Command::Account(AccountCommand::Put {
            account: "romeo@localhost".into(),
            credentials,
            mode: PutMode::Change,
        });
        assert!(matches!(desk.command(put), Reply::Done(_)));
    }
    let last = BASE64.encode(scram_final(PASSWORD, "n=romeo,r=abc", &challenge));
    said(&desk.host.ask(conn, &format!("<response xmlns='urn:xmpp:sasl:2'>{last}</response>")))
}

/// RFC 5802 3, XEP-0388 2.5, 2.6.1: the server's proof is part of the success. A login that began
/// under the previous password gets no token under the current one.
#[test]
fn a_token_is_for_the_password_that_was_shown() {
    let mut desk = Desk::new(|_| {});
    let said = scram(&mut desk, false);
    let proof = BASE64.decode(between(&said, "<additional-data>", "<")).unwrap();
    assert!(proof.starts_with(b"v=") && said.contains("<token "), "{said}");
    assert!(said.contains("<authorization-identifier>romeo@localhost<"), "{said}");
    let said = scram(&mut desk, true);
    assert!(said.contains("<success") && !said.contains("<token "), "{said}");
}

/// The number of an account's clients with tokens is limited; the least recently used one needs its
/// password again.
#[test]
fn the_number_of_tokens_is_bounded() {
    let mut desk = Desk::new(|_| {});
    let agent = |n: usize| format!("{}{n:02}", &PHONE[..PHONE.len() - 2]);
    let tokens: Vec<_> = (0..=TOKEN_CLIENTS_MAX)
        .map(|n| {
            desk.later(DAY_S / 2);
            desk.token(&agent(n))
        })
        .collect();
    assert!(!desk.takes(&tokens[0], &agent(0), ""));
    assert!((1..=TOKEN_CLIENTS_MAX).all(|n| desk.takes(&tokens[n], &agent(n), "")));
    let row: usize = desk.host.disk.rows_of(Table::Private, "romeo@localhost").map(|(_, row)| row.len()).sum();
    assert!(row <= 2_048, "{row}");
}

/// Failed tokens count like failed passwords: with the same limits, for the same address and
/// account.
#[test]
fn failed_tokens_are_held_as_failed_passwords_are() {
    let throttle = ThrottleParams { pair_burst: 4, ..ThrottleParams::default() };
    let mut desk = Desk::new(|settings| settings.throttle = throttle);
    let token = desk.token(PHONE);
    for _ in 0..2 {
        assert!(desk.says(&by_token("romeo", "wrong", PHONE, "", "")).contains(NO_TOKEN));
        assert!(desk.says(&by_password("romeo", "wrong", PHONE, "")).contains(NOT_AUTHORIZED));
    }
    for request in [by_token("romeo", &token, PHONE, "", ""), by_password("romeo", PASSWORD, PHONE, "")] {
        let said = desk.says(&request);
        assert!(said.contains("<temporary-auth-failure") && !said.contains("<success"), "{said}");
    }
    desk.later(31);
    assert!(desk.takes(&token, PHONE, ""), "what succeeds is not charged");
    // The same stream does not continue for ever (RFC 6120 6.4.5).
    let conn = desk.connect();
    let wrong = by_token("juliet", "wrong", PHONE, "", "");
    let said = said(&desk.host.ask(conn, &format!("{HEADER}{wrong}{wrong}{wrong}{wrong}")));
    assert_eq!(said.matches("<failure").count(), 3, "{said}");
    assert!(said.contains("<policy-violation"), "{said}");
}

/// A request larger than any valid one is not read (XEP-0478), and nothing of other requests is
/// retained.
#[test]
fn a_huge_request_ends_the_stream() {
    let mut desk = Desk::new(|_| {});
    let agent = format!("<user-agent><software>{}</software></user-agent>", "a".repeat(17_000));
    let said = desk.says(&format!("<authenticate xmlns='urn:xmpp:sasl:2' mechanism='PLAIN'>{agent}</authenticate>"));
    assert!(said.contains("<policy-violation"), "{said}");
}

/// A connection arrives at its user's home to resume this session or to start another one, followed
/// by `<presence/>`.
fn arrive(host: &mut Host, slot: u32, account: &str, previd: &str) -> String {
    let resume = Some(Resume { previd: previd.into(), h: Some(0) });
    let inline = Inline { resume, bind: Some(Bind::default()), ..Inline::default() };
    let (scope, domain) = (StreamScope::Usual, DomainId::default());
    let moved = Moved {
        errand: Errand::Login(Authenticated::vouched_for(account, Incarnation::UNNUMBERED)),
        listener: ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: false },
        peer: [127, 0, 0, 1].into(),
        named: false,
        secured: false,
        accepted_s: 1,
        transport: Transport::Stream,
        leftover: b"<presence/>".to_vec(),
        stream: Some(Box::new(MovedStream { scope, lang: None, domain, inline: Box::new(inline) })),
    };
    said(&host.turn(Input::Arrived { conn: ConnId { slot, generation: 1 }, moved: Box::new(moved) }))
}

/// XEP-0198 10: a user's cached data is evicted while the phone is absent. To resume a session,
/// only the account's record and its tokens are read: the session would have ended with the
/// account.
#[test]
fn a_phone_that_resumes_reads_its_token_and_no_more() {
    let mut desk = Desk::new(|settings| settings.cache_s = 2);
    let first = by_password("romeo", PASSWORD, PHONE, &format!("{BIND}{WANTS_TOKEN}"));
    let (conn, heard) = desk.log_in(&first);
    let previd = between(&heard, "<enabled xmlns='urn:xmpp:sm:3' resume='true' id='", "'");
    desk.host.turn(Input::Closed { conn });
    for _ in 0..600 {
        desk.host.now.mono_ms += 20;
        desk.host.turn(Input::EndOfTurn);
    }
    let resume = format!("<resume xmlns='urn:xmpp:sm:3' h='0' previd='{previd}'/>{BIND}");
    let again = by_token("romeo", &token_of(&heard), PHONE, " count='1'", &resume);
    let conn = desk.connect();
    let effects = desk.host.ask(conn, &format!("{HEADER}{again}"));
    assert!(said(&effects).contains("<resumed "), "{}", said(&effects));
    let queries = effects.iter().filter_map(|effect| match effect {
        Effect::Read { queries, .. } => Some(queries),
        _ => None,
    });
    assert_eq!(queries.clone().flatten().count(), 2, "{:?}", queries.collect::<Vec<_>>());
}

/// XEP-0198 5, XEP-0386 2.2: the client's earlier stanzas are still in flight, so the resumption
/// waits. Meanwhile the session ends and another one begins. A second connection replaces a waiting
/// one.
#[test]
fn a_session_that_ends_before_it_is_resumed_gives_way_to_another() {
    let mut host = Host::new(Settings::new("localhost", 2, [0; 32], 0));
    let at = |host: &Host, home| {
        let mut all = (0..).map(|n| format!("user{n}"));
        all.find(|user| host.shard.home(&format!("{user}@localhost")) == ShardId(home)).unwrap()
    };
    let (near, far) = (at(&host, 0), at(&host, 1));
    let account = format!("{near}@localhost");
    host.account(&near);
    let (conn, _) = host.bind(0, &near);
    let enabled = said(&host.ask(conn, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>"));
    let previd = between(&enabled, " id='", "'").to_owned();
    // It is never confirmed: the other shard does not exist.
    host.ask(conn, &format!("<message to='{far}@localhost' type='chat'><body>1</body></message>"));
    host.turn(Input::Closed { conn });
    assert_eq!(arrive(&mut host, 1, &account, &previd), "");
    let first = arrive(&mut host, 2, &account, &previd);
    assert!(first.contains("<conflict") && !first.contains("<success"), "{first}");
    let kick = Command::Session(SessionCommand::Kick { jid: account.as_str().into(), reason: None });
    let said = said(&host.turn(Input::Command { token: 1, command: kick }));
    let failed =
        "<failed xmlns='urn:xmpp:sm:3'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed><bound";
    assert!(said.contains(failed) && said.contains("</stream:features>"), "{said}");
    assert!(said.contains("<presence from="), "what came behind is heard: {said}");
}

// Several shards, in a world with delays.

struct Talk {
    world: World,
    heard: Vec<(SocketId, String)>,
    ended: Vec<SocketId>,
}

impl Talk {
    fn new(seed: u64, shards: u16, pace: Pace) -> Talk {
        let settings = Settings::new("localhost", shards, [0; 32], 0);
        Talk { world: World::new(seed, settings, pace, &["romeo", "juliet"]), heard: Vec::new(), ended: Vec::new() }
    }

    fn step(&mut self) {
        match self.world.step() {
            Occurrence::Bytes(socket, bytes) => {
                let text = String::from_utf8(bytes).expect("text");
                match self.heard.iter_mut().find(|(of, _)| *of == socket) {
                    Some((_, heard)) => heard.push_str(&text),
                    None => self.heard.push((socket, text)),
                }
            }
            Occurrence::Ended(socket) => self.ended.push(socket),
            _ => {}
        }
    }

    fn heard(&self, socket: SocketId) -> &str {
        self.heard.iter().find(|(of, _)| *of == socket).map_or("", |(_, heard)| heard)
    }

    /// Waits until a connection has received one of these, or has ended.
    fn hear(&mut self, socket: SocketId, signs: &[&str]) -> String {
        let until = self.world.now_us() + 20_000_000;
        while !signs.iter().any(|sign| self.heard(socket).contains(sign)) && !self.ended.contains(&socket) {
            assert!(self.world.now_us() < until, "waited for {signs:?}, heard {}", self.heard(socket));
            self.step();
        }
        self.heard(socket).to_owned()
    }

    /// A client sends everything at once, before it has received anything: one flight each way.
    fn one_flight(&mut self, request: &str, signs: &[&str]) -> (SocketId, String) {
        let socket = self.world.connect();
        self.world.write(socket, format!("{HEADER}{request}").as_bytes());
        let heard = self.hear(socket, signs);
        (socket, heard)
    }
}

fn rough() -> Pace {
    Pace {
        turn_us: 2_000,
        net_us: 3_000,
        read_bytes: 7,
        letters_us: 2_000,
        commit_us: 8_000,
        read_us: 5_000,
        ..Pace::default()
    }
}

/// XEP-0388 1, XEP-0484 2: a returning phone sends once and is answered once, with a resumed
/// session or a new one, whichever shard accepted its connection; and data after its request is
/// processed.
#[test]
fn a_phone_returns_in_one_flight_each_way() {
    for (seed, shards, pace) in
        (0..12).map(|seed| (seed, 1 + (seed % 4) as u16, if seed < 8 { Pace::default() } else { rough() }))
    {
        let mut talk = Talk::new(seed, shards, pace);
        let first = by_password("romeo", PASSWORD, PHONE, &format!("{BIND}{WANTS_TOKEN}"));
        let (phone, said) = talk.one_flight(&format!("{first}<presence/>"), &["</stream:features><presence"]);
        let (token, previd) =
            (token_of(&said), between(&said, "<enabled xmlns='urn:xmpp:sm:3' resume='true' id='", "'").to_owned());
        let full = between(&said, "<authorization-identifier>", "<").to_owned();
        talk.world.abort(phone);
        // The session continues: its own presence is sent again because it was not acknowledged.
        let resume = format!("<resume xmlns='urn:xmpp:sm:3' h='0' previd='{previd}'/>");
        let again = by_token("romeo", &token, PHONE, " count='1'", &format!("{resume}{BIND}"));
        let message = "<message to='romeo@localhost'><body>to myself</body></message>";
        let (phone, said) = talk.one_flight(&format!("{again}{message}"), &["to myself"]);
        let success = &said[said.find("<success").expect("a success")..];
        assert!(success.contains(&format!("<authorization-identifier>{full}<")), "{said}");
        assert!(success.contains("<resumed xmlns='urn:xmpp:sm:3' h='1' previd='"), "{said}");
        // XEP-0198 10.2: no features follow, and no other session was created.
        assert!(!success.contains("<stream:features>") && !success.contains("<bound"), "{said}");
        assert!(success.contains("</success><presence"), "{said}");
        // The session has ended: the same request creates a new one.
        talk.world.write(phone, b"</stream:stream>");
        talk.hear(phone, &["</stream:stream>"]);
        let again = by_token("romeo", &token, PHONE, " count='2'", &format!("{resume}{BIND}"));
        let (_, said) = talk.one_flight(&again, &["</success><stream:features>"]);
        let failed = "<failed xmlns='urn:xmpp:sm:3'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed><bound";
        assert!(said.contains(failed) && said.contains(&format!("<authorization-identifier>{full}<")), "{said}");
    }
}

/// A session belongs to its user: a login of another account cannot resume it (XEP-0198 5, 12).
#[test]
fn nobody_resumes_another_users_session() {
    for (seed, shards) in (0..8).map(|seed| (seed, 1 + (seed % 4) as u16)) {
        let mut talk = Talk::new(seed, shards, Pace::default());
        let (_, said) = talk.one_flight(&by_password("romeo", PASSWORD, PHONE, BIND), &["</success>"]);
        let previd = between(&said, "<enabled xmlns='urn:xmpp:sm:3' resume='true' id='", "'").to_owned();
        let resume = format!("<resume xmlns='urn:xmpp:sm:3' h='0' previd='{previd}'/>");
        let (_, said) = talk.one_flight(&by_password("juliet", PASSWORD, PHONE, &resume), &["</success>"]);
        assert!(said.contains("<item-not-found") && said.contains("identifier>juliet@localhost<"), "{said}");
    }
}

/// XEP-0484 3.4: of two concurrent logins with the same count one is refused, whichever shards they
/// are at.
#[test]
fn a_count_is_used_once_also_by_two_at_once() {
    for (seed, shards) in (0..12).map(|seed| (seed, 1 + (seed % 4) as u16)) {
        let mut talk = Talk::new(seed, shards, Pace { read_us: 10_000, ..Pace::default() });
        let (_, said) = talk.one_flight(&by_password("romeo", PASSWORD, PHONE, WANTS_TOKEN), &["</success>"]);
        let request = by_token("romeo", &token_of(&said), PHONE, " count='1'", "");
        let sockets = [(); 4].map(|()| {
            let socket = talk.world.connect();
            talk.world.write(socket, format!("{HEADER}{request}").as_bytes());
            socket
        });
        let all = sockets.map(|socket| talk.hear(socket, &["</success>", "</failure>"]));
        assert_eq!(all.iter().filter(|said| said.contains("<success")).count(), 1, "{all:?}");
    }
}

/// Everything that a client was told survives a crash: the token, and the end of an earlier one.
#[test]
fn a_token_that_was_told_of_outlives_a_crash() {
    for seed in 0..20 {
        let mut talk = Talk::new(seed, 1 + (seed % 3) as u16, Pace { commit_us: 50_000, ..Pace::default() });
        let (_, said) =
            talk.one_flight(&by_password("romeo", PASSWORD, PHONE, &format!("{BIND}{WANTS_TOKEN}")), &["</success>"]);
        let token = token_of(&said);
        talk.world.crash();
        let give_up = by_token("romeo", &token, PHONE, " invalidate='true'", "");
        let (_, said) = talk.one_flight(&give_up, &["</success>", "</failure>"]);
        assert!(said.contains("<success"), "{said}");
        talk.world.crash();
        let (_, said) = talk.one_flight(&give_up, &["</success>", "</failure>"]);
        assert!(said.contains(NO_TOKEN), "{said}");
    }
}
