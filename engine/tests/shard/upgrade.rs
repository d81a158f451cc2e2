//! Accounts gain keys for further hash functions (XEP-0480), and SCRAM-SHA-512.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use throng_engine::id::{ConnId, Now};
use throng_engine::io::{AccountCommand, Command, Effect, Input, ListenerKind, Output, PutMode, Reply, StorageState};
use throng_engine::settings::Settings;
use throng_engine::store::account::{Credentials, Incarnation, KeySet, ScramKeys};
use throng_engine::store::hash::{HashKind, Hashes};
use throng_engine::store::{Found, Query, Table};
use throng_sim::host::{HEADER, Host, reply, said};

const PASSWORD: &str = "pencil";
const PHONE: &str = "d4565fa7-4d72-4749-b3d3-740edbf87770";
const ITERATIONS: u32 = 5_000;
const ROMEO: &str = "romeo@localhost";
const WANTS_512: &str = "<upgrade xmlns='urn:xmpp:sasl:upgrade:0'>UPGR-SCRAM-SHA-512</upgrade>";
const WANTS_256: &str = "<upgrade xmlns='urn:xmpp:sasl:upgrade:0'>UPGR-SCRAM-SHA-256</upgrade>";
const BIND: &str = "<bind xmlns='urn:xmpp:bind:0'/>";

/// The text between two marks.
fn between<'a>(text: &'a str, before: &str, behind: &str) -> &'a str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("no {before} in {text}")).1;
    rest.split_once(behind).expect("an end").0
}

struct Desk {
    host: Host,
    next: u32,
}

impl Desk {
    /// Romeo's account has keys for these hash functions only; SHA-512 is then offered only as an
    /// upgrade.
    fn new(kinds: &[HashKind]) -> Desk {
        let mut settings = Settings::new("localhost", 1, [0; 32], 0);
        settings.scram_iterations = ITERATIONS;
        settings.scram_hashes = kinds.iter().copied().collect();
        settings.scram_upgrades = settings.scram_hashes.others();
        let mut desk = Desk { host: Host::new(settings), next: 0 };
        desk.host.now = Now::new(1_000, 1_700_000_000_000_000);
        let all = Credentials::derive(PASSWORD, 4096, &[3; 16], 0).unwrap();
        let some = kinds.iter().map(|kind| all.keys(*kind).unwrap().clone());
        desk.put(&Credentials::of_keys(some, 9).unwrap().of(Incarnation::drawn(1)));
        desk
    }

    fn put(&mut self, credentials: &Credentials) {
        let mut record = Vec::new();
        credentials.encode(&mut record);
        self.host.disk.put(Table::Accounts, ROMEO, b"", &record);
    }

    fn credentials(&self) -> Credentials {
        let query = Query::Get { table: Table::Accounts, actor: ROMEO.as_bytes().into(), sort: Box::default() };
        let Found::Value(Some(record)) = self.host.disk.read(&query) else { panic!("no account") };
        Credentials::decode(&record).expect("a record")
    }

    fn hashes(&self) -> Hashes {
        self.credentials().hashes()
    }

    fn connect(&mut self) -> ConnId {
        let listener = ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: false };
        let conn = ConnId { slot: self.next, generation: 1 };
        self.next += 1;
        self.host.turn(Input::Accepted { conn, listener, peer: [127, 0, 0, 1].into() });
        conn
    }

    fn ask(&mut self, conn: ConnId, text: &str) -> String {
        said(&self.host.ask(conn, text))
    }

    fn authenticate(mechanism: &str, initial: &str, with: &str) -> String {
        format!(
            "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='{mechanism}'><initial-response>{}</initial-response>\
             <user-agent id='{PHONE}'/>{with}</authenticate>",
            BASE64.encode(initial)
        )
    }

    /// A SCRAM login in the form of SASL 2: the output after the client's proof.
    fn scram(&mut self, mechanism: &str, kind: HashKind, with: &str) -> (ConnId, String) {
        let conn = self.connect();
        let request = Desk::authenticate(mechanism, "n,,n=romeo,r=abc", with);
        let heard = self.ask(conn, &format!("{HEADER}{request}"));
        let challenge = between(&heard, "<challenge xmlns='urn:xmpp:sasl:2'>", "<");
        let server_first = String::from_utf8(BASE64.decode(challenge).unwrap()).unwrap();
        let field = |key: &str| server_first.split(',').find_map(|part| part.strip_prefix(key)).unwrap();
        let salted = kind.salted_password(PASSWORD, &BASE64.decode(field("s=")).unwrap(), field("i=").parse().unwrap());
        let client = kind.hmac(salted.as_bytes(), &[b"Client Key"]);
        let without_proof = format!("c=biws,r={}", field("r="));
        let signed = format!("n=romeo,r=abc,{server_first},{without_proof}");
        let signature = kind.hmac(ScramKeys::of(kind, &salted).stored.as_bytes(), &[signed.as_bytes()]);
        let last = format!("{without_proof},p={}", BASE64.encode(client.xor(&signature).as_bytes()));
        let heard = self.ask(conn, &format!("<response xmlns='urn:xmpp:sasl:2'>{}</response>", BASE64.encode(last)));
        (conn, heard)
    }

    /// The client begins a task and receives a salt.
    fn next(&mut self, conn: ConnId, kind: &str) -> (Vec<u8>, u32) {
        let heard = self.ask(conn, &format!("<next xmlns='urn:xmpp:sasl:2' task='UPGR-SCRAM-{kind}'/>"));
        assert!(
            heard.starts_with("<task-data xmlns='urn:xmpp:sasl:2'><salt xmlns='urn:xmpp:scram-upgrade:0'"),
            "{heard}"
        );
        let salt = BASE64.decode(between(&heard, "'>", "</salt></task-data>").split('>').next_back().unwrap()).unwrap();
        (salt, between(&heard, "iterations='", "'").parse().unwrap())
    }

    fn hash(kind: HashKind, salt: &[u8], iterations: u32) -> String {
        let hash = BASE64.encode(kind.salted_password(PASSWORD, salt, iterations).as_bytes());
        task_data(&hash)
    }
}

fn task_data(hash: &str) -> String {
    let hash = format!("<hash xmlns='urn:xmpp:scram-upgrade:0'>{hash}</hash>");
    format!("<task-data xmlns='urn:xmpp:sasl:2'>{hash}</task-data>")
}

/// XEP-0480 2.1: only what accounts may lack; RFC 6120 6.3.3: the same mechanisms for everybody.
#[test]
fn xep0480_2_1_the_offer() {
    let mut desk = Desk::new(&[HashKind::Sha1, HashKind::Sha256]);
    let conn = desk.connect();
    let offer = desk.ask(conn, HEADER);
    assert!(offer.contains(&format!("</inline>{WANTS_512}</authentication>")), "{offer}");
    assert!(!offer.contains(">SCRAM-SHA-512<"), "{offer}");
    let conn = desk.connect();
    let from = HEADER.replace(" to=", " from='nobody@localhost' to=");
    let other = desk.ask(conn, &from);
    let features = |text: &str| between(text, "<stream:features>", "</stream:features>").to_owned();
    assert_eq!(features(&offer), features(&other));
    let mut desk = Desk::new(&HashKind::ALL);
    let conn = desk.connect();
    let offer = desk.ask(conn, HEADER);
    assert!(offer.contains("<mechanism>SCRAM-SHA-512</mechanism>") && !offer.contains("<upgrade"), "{offer}");
}

/// RFC 5802 with SHA-512, in both forms of SASL.
#[test]
fn scram_sha_512_logs_in() {
    let mut desk = Desk::new(&HashKind::ALL);
    let (_, heard) = desk.scram("SCRAM-SHA-512", HashKind::Sha512, BIND);
    assert!(heard.contains("<success") && heard.contains("<bound"), "{heard}");
    let conn = desk.connect();
    let auth = BASE64.encode("n,,n=romeo,r=abc");
    let ns = "urn:ietf:params:xml:ns:xmpp-sasl";
    let heard = desk.ask(conn, &format!("{HEADER}<auth xmlns='{ns}' mechanism='SCRAM-SHA-512'>{auth}</auth>"));
    assert!(heard.contains("<challenge"), "{heard}");
}

/// XEP-0480 2.2, 2.3, 3: the whole exchange of its last example; afterwards the account has the
/// mechanism.
#[test]
fn xep0480_3_an_account_gains_keys() {
    let mut desk = Desk::new(&[HashKind::Sha1, HashKind::Sha256]);
    let before = desk.credentials();
    let (conn, heard) = desk.scram("SCRAM-SHA-1", HashKind::Sha1, &format!("{WANTS_512}{BIND}"));
    assert!(heard.starts_with("<continue xmlns='urn:xmpp:sasl:2'><additional-data>"), "{heard}");
    assert!(heard.ends_with("<tasks><task>UPGR-SCRAM-SHA-512</task></tasks></continue>"), "{heard}");
    let data = BASE64.decode(between(&heard, "<additional-data>", "<")).unwrap();
    assert!(data.starts_with(b"v="));
    let (salt, iterations) = desk.next(conn, "SHA-512");
    assert_eq!((&*salt, iterations), (&[3; 16][..], ITERATIONS), "the account's own salt, the count of new passwords");
    let heard = desk.ask(conn, &Desk::hash(HashKind::Sha512, &salt, iterations));
    assert!(
        heard.starts_with("<success xmlns='urn:xmpp:sasl:2'><authorization-identifier>romeo@localhost/"),
        "{heard}"
    );
    assert!(heard.contains("<bound xmlns='urn:xmpp:bind:0'") && heard.contains("<stream:features>"), "{heard}");
    let after = desk.credentials();
    assert_eq!(after.hashes(), Hashes::ALL);
    assert_eq!((after.identity(), after.created_us()), (before.identity(), before.created_us()));
    assert_eq!(after.keys(HashKind::Sha1), before.keys(HashKind::Sha1));
    let derived = Credentials::derive(PASSWORD, ITERATIONS, &[3; 16], 0).unwrap();
    assert_eq!(after.keys(HashKind::Sha512), derived.keys(HashKind::Sha512));
    // 2.2: it is not requested again; the request has no effect.
    let (_, heard) = desk.scram("SCRAM-SHA-256", HashKind::Sha256, &format!("{WANTS_512}{BIND}"));
    assert!(heard.contains("<success") && !heard.contains("<continue"), "{heard}");
}

/// XEP-0480 2.2: a sequence of tasks, one at a time; unknown requests are skipped.
#[test]
fn xep0480_2_2_one_task_after_the_other() {
    let mut desk = Desk::new(&[HashKind::Sha1]);
    let unknown = "<upgrade xmlns='urn:xmpp:sasl:upgrade:0'>UPGR-BLOOP2</upgrade>";
    let (conn, heard) = desk.scram("SCRAM-SHA-1", HashKind::Sha1, &format!("{unknown}{WANTS_256}{WANTS_512}"));
    let first = between(&heard, "<task>UPGR-SCRAM-", "</task></tasks>").to_owned();
    assert_eq!((&*first, heard.matches("<task>").count()), ("SHA-512", 1));
    let (salt, iterations) = desk.next(conn, &first);
    let heard = desk.ask(conn, &Desk::hash(HashKind::Sha512, &salt, iterations));
    assert_eq!(between(&heard, "<task>UPGR-SCRAM-", "</task></tasks>"), "SHA-256");
    assert!(!heard.contains("additional-data") && !desk.hashes().contains(HashKind::Sha256), "{heard}");
    let (salt, iterations) = desk.next(conn, "SHA-256");
    let heard = desk.ask(conn, &Desk::hash(HashKind::Sha256, &salt, iterations));
    assert!(heard.starts_with("<success") && desk.hashes() == Hashes::ALL, "{heard}");
}

/// XEP-0388 2.5, 2.6.3: anything but the answer to the task ends it, and nothing is stored.
#[test]
fn xep0388_2_6_3_tasks_that_fail() {
    let long = task_data(&"A".repeat(2_000));
    let sha_256 = Desk::hash(HashKind::Sha256, &[3; 16], ITERATIONS);
    let empty = task_data("");
    let twice =
        task_data("AAAA").replace("</task-data>", "<hash xmlns='urn:xmpp:scram-upgrade:0'>AAAA</hash></task-data>");
    let abort = "<abort xmlns='urn:xmpp:sasl:2'/>";
    let next = "<next xmlns='urn:xmpp:sasl:2' task='UPGR-SCRAM-SHA-512'/>";
    for (begun, said, condition) in [
        (true, "<task-data xmlns='urn:xmpp:sasl:2'/>", "<malformed-request"),
        (true, &*empty, "<malformed-request"),
        (true, &*sha_256, "<malformed-request"),
        (true, &*long, "<malformed-request"),
        (true, &*twice, "<malformed-request"),
        (true, abort, "<aborted"),
        (false, abort, "<aborted"),
        (false, "<next xmlns='urn:xmpp:sasl:2' task='UPGR-SCRAM-SHA-256'/>", "<malformed-request"),
        (false, "<next xmlns='urn:xmpp:sasl:2'/>", "<malformed-request"),
        (false, &*sha_256, "<stream:error><not-authorized"),
        (true, next, "<stream:error><not-authorized"),
        (true, "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='PLAIN'/>", "<stream:error><not-authorized"),
        (false, "<iq type='get' id='1'/>", "<stream:error><not-authorized"),
        (false, "<message/>", "<stream:error><not-authorized"),
    ] {
        let mut desk = Desk::new(&[HashKind::Sha1, HashKind::Sha256]);
        let (conn, _) = desk.scram("SCRAM-SHA-256", HashKind::Sha256, &format!("{WANTS_512}{BIND}"));
        if begun {
            desk.next(conn, "SHA-512");
        }
        let effects = desk.host.ask(conn, said);
        let heard = throng_sim::host::said(&effects);
        assert!(heard.contains(condition) && !heard.contains("<success"), "{said}: {heard}");
        assert!(effects.iter().any(|effect| matches!(effect, Effect::Close { .. })), "{said}: the stream ends");
        assert!(!desk.hashes().contains(HashKind::Sha512), "{said}");
    }
}

/// A client that has presented only a token, which may be stolen, adds no keys to the account; nor
/// is there a task without a request.
#[test]
fn xep0480_a_token_gives_no_keys() {
    let mut desk = Desk::new(&[HashKind::Sha1, HashKind::Sha256]);
    let wants = "<request-token xmlns='urn:xmpp:fast:0' mechanism='HT-SHA-256-NONE'/>";
    let (_, heard) = desk.scram("SCRAM-SHA-256", HashKind::Sha256, wants);
    assert!(heard.starts_with("<success"), "{heard}");
    let token = between(&heard, "token='", "'").to_owned();
    let proof = HashKind::Sha256.hmac(token.as_bytes(), &[b"Initiator"]);
    let initial = BASE64.encode([b"romeo\0", proof.as_bytes()].concat());
    let conn = desk.connect();
    let heard = desk.ask(
        conn,
        &format!(
            "{HEADER}<authenticate xmlns='urn:xmpp:sasl:2' mechanism='HT-SHA-256-NONE'><initial-response>{initial}\
             </initial-response><user-agent id='{PHONE}'/><fast xmlns='urn:xmpp:fast:0'/>{WANTS_512}</authenticate>"
        ),
    );
    assert!(heard.contains("<success") && !heard.contains("<continue"), "{heard}");
}

/// PLAIN reveals the password, so the account gains all missing keys without a task, and tokens
/// stay valid.
#[test]
fn xep0480_plain_gives_keys_without_a_task() {
    for form in [1, 2] {
        let mut desk = Desk::new(&[HashKind::Sha1]);
        let before = desk.credentials();
        let conn = desk.connect();
        let plain = "\0romeo\0pencil";
        let request = match form {
            1 => format!(
                "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{}</auth>",
                BASE64.encode(plain)
            ),
            _ => Desk::authenticate("PLAIN", plain, &format!("{WANTS_512}{BIND}")),
        };
        let wrong = request.replace(&BASE64.encode(plain), &BASE64.encode("\0romeo\0pen"));
        let heard = desk.ask(conn, &format!("{HEADER}{wrong}"));
        assert!(heard.contains("<not-authorized") && desk.hashes() == before.hashes());
        let heard = desk.ask(conn, &request);
        assert!(heard.contains("<success") && !heard.contains("<continue"), "{heard}");
        let after = desk.credentials();
        assert_eq!((after.hashes(), after.identity()), (Hashes::ALL, before.identity()));
        let derived = Credentials::derive(PASSWORD, ITERATIONS, before.anchor().salt(), 0).unwrap();
        assert_eq!(after.keys(HashKind::Sha512), derived.keys(HashKind::Sha512));
    }
}

/// With a full store nothing is written: no task begins, and the login succeeds all the same.
#[test]
fn with_a_full_store_there_are_no_tasks() {
    let mut desk = Desk::new(&[HashKind::Sha1, HashKind::Sha256]);
    desk.host.turn(Input::Storage(StorageState::Full));
    let (_, heard) = desk.scram("SCRAM-SHA-256", HashKind::Sha256, &format!("{WANTS_512}{BIND}"));
    assert!(heard.starts_with("<success"), "{heard}");
    assert!(!desk.hashes().contains(HashKind::Sha512));
}

/// A new password that is written while the record is read is not mixed with other keys: the gained
/// keys belong to the previous password.
#[test]
fn keys_of_a_password_do_not_come_beside_the_next_one() {
    let mut desk = Desk::new(&[HashKind::Sha1, HashKind::Sha256]);
    let (conn, _) = desk.scram("SCRAM-SHA-256", HashKind::Sha256, WANTS_512);
    let (salt, iterations) = desk.next(conn, "SHA-512");
    let hash = Desk::hash(HashKind::Sha512, &salt, iterations);
    // The read of the record is held back ...
    let (now, mut out) = (desk.host.now, Output::default());
    desk.host.shard.handle(now, Input::Received { conn, bytes: hash.as_bytes() }, &mut out);
    desk.host.shard.handle(now, Input::EndOfTurn, &mut out);
    let read = out.effects.iter().find_map(|effect| match effect {
        Effect::Read { token, queries } => {
            Some((*token, queries.iter().map(|query| desk.host.disk.read(query)).collect()))
        }
        _ => None,
    });
    let (token, found): (_, Vec<Found>) = read.expect("the record is read");
    // The client has derived the key: the server derives nothing.
    assert!(!out.effects.iter().any(|effect| matches!(effect, Effect::Job { .. })));
    // ... until the password is another one.
    let all = Credentials::derive("another", 4096, &[4; 16], 0).unwrap();
    let kept: Vec<KeySet> =
        [HashKind::Sha1, HashKind::Sha256].map(|kind| all.keys(kind).unwrap().clone()).into_iter().collect();
    let keys = Box::new(Credentials::of_keys(kept, 0).unwrap());
    let command =
        Command::Account(AccountCommand::Put { account: ROMEO.into(), credentials: keys, mode: PutMode::Change });
    let done = reply(desk.host.turn(Input::Command { token: 9, command }));
    assert_eq!(done, Some(Reply::Done(0)));
    let heard = said(&desk.host.turn(Input::Found { token, found }));
    assert!(heard.contains("<success"), "the login was good when it was made: {heard}");
    assert!(!desk.hashes().contains(HashKind::Sha512));
    assert_eq!(desk.credentials().keys(HashKind::Sha256), all.keys(HashKind::Sha256));
}
