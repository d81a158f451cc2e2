//! Accounts that the operator suspends: sessions end at once, every login is refused, and stored
//! data stays.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use throng_engine::id::{ConnId, Now};
use throng_engine::io::{AccountCommand, Command, Effect, Input, ListenerKind, PutMode, Reply};
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_engine::store::account::{Credentials, Standing};
use throng_engine::store::hash::HashKind;
use throng_sim::host::{BIND, HEADER, Host, reply, said};
use throng_sim::world::PASSWORD;

const TEXT: &str = "this account is suspended; contact the server's operator";
const PHONE: &str = "d4565fa7-4d72-4749-b3d3-740edbf87770";

struct Desk {
    host: Host,
    next: u32,
}

impl Desk {
    fn over(host: Host) -> Desk {
        let mut desk = Desk { host, next: 0 };
        desk.host.now = Now::new(1_000, 1_700_000_000_000_000);
        desk
    }

    fn new() -> Desk {
        let mut desk = Desk::over(Host::new(Settings::new("localhost", 1, [0; 32], 0)));
        desk.host.account_with("romeo", PASSWORD, 1);
        desk.host.account_with("juliet", PASSWORD, 2);
        desk
    }

    /// A new connection, and its output for its header and this.
    fn says(&mut self, request: &str) -> (ConnId, String) {
        let conn = ConnId { slot: self.next, generation: 1 };
        self.next += 1;
        let listener = ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: false };
        self.host.turn(Input::Accepted { conn, listener, peer: [127, 0, 0, 1].into() });
        let answer = said(&self.host.ask(conn, &format!("{HEADER}{request}")));
        (conn, answer)
    }

    fn bound(&mut self, user: &str) -> ConnId {
        let (conn, answer) = self.says(&plain(user));
        assert!(answer.contains("<success"), "{answer}");
        assert!(said(&self.host.ask(conn, &format!("{HEADER}{BIND}"))).contains("<jid>"));
        conn
    }

    fn command(&mut self, command: Command) -> (Vec<Effect>, Option<Reply>) {
        let mut effects = self.host.turn(Input::Command { token: 9, command });
        let at = effects.iter().position(|effect| matches!(effect, Effect::Reply { durable: true, .. }));
        let answered = at.map(|at| effects.remove(at));
        (effects, reply(answered.into_iter().collect()))
    }

    /// The effects, and the answer, which waits until all of it is durable.
    fn suspend(&mut self, suspended: bool) -> (Vec<Effect>, Option<Reply>) {
        self.command(Command::Account(AccountCommand::Suspend { account: "romeo@localhost".into(), suspended }))
    }
}

fn plain(user: &str) -> String {
    let payload = BASE64.encode(format!("\0{user}\0{PASSWORD}"));
    format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{payload}</auth>")
}

/// XEP-0388 2.4.
fn authenticate(mechanism: &str, initial: &[u8], with: &str) -> String {
    let initial = BASE64.encode(initial);
    format!(
        "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='{mechanism}'><initial-response>{initial}</initial-response>\
         <user-agent id='{PHONE}'/>{with}</authenticate>"
    )
}

fn by_password(with: &str) -> String {
    authenticate("PLAIN", format!("\0romeo\0{PASSWORD}").as_bytes(), with)
}

fn by_token(token: &str) -> String {
    let proof = HashKind::Sha256.hmac(token.as_bytes(), &[b"Initiator"]);
    let initial = [b"romeo\0", proof.as_bytes()].concat();
    authenticate("HT-SHA-256-NONE", &initial, "<fast xmlns='urn:xmpp:fast:0'/>")
}

fn between<'a>(text: &'a str, before: &str, behind: &str) -> &'a str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("no {before} in {text}")).1;
    rest.split_once(behind).expect("an end").0
}

fn is_refused(answer: &str) -> bool {
    answer.contains("<account-disabled") && answer.contains(TEXT) && !answer.contains("<success")
}

/// RFC 6120 6.5.1, 4.9.3.14: sessions end with a stream error that says why, also those without a
/// connection; every login is refused with a text, also for a client that had authenticated before.
/// A client without the password learns nothing. All of it is durable.
#[test]
fn rfc6120_6_5_1_a_suspended_account_is_nobodys() {
    let mut desk = Desk::new();
    let token = "<request-token xmlns='urn:xmpp:fast:0' mechanism='HT-SHA-256-NONE'/>";
    let resumable = "<bind xmlns='urn:xmpp:bind:0'><enable xmlns='urn:xmpp:sm:3' resume='true'/></bind>";
    let (phone, answer) = desk.says(&by_password(&[resumable, token].concat()));
    let token = between(&answer, "<token xmlns='urn:xmpp:fast:0' token='", "'").to_owned();
    let previd = between(between(&answer, "<enabled ", "/>"), "id='", "'").to_owned();
    desk.host.turn(Input::Closed { conn: phone });
    let online = desk.bound("romeo");
    desk.host.ask(online, "<presence/>");
    let (early, answer) = desk.says(&plain("romeo"));
    assert!(answer.contains("<success"));
    let juliet = desk.bound("juliet");

    let (effects, answered) = desk.suspend(true);
    assert_eq!(answered, Some(Reply::Done(2)), "the one that waits to be resumed has ended, too");
    let told = said(&effects);
    assert!(told.contains("<policy-violation") && told.contains(TEXT), "{told}");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Close { conn, .. } if *conn == online)));
    assert_eq!(desk.host.shard.counters().sessions.get(), 1, "juliet's");
    assert_eq!(desk.suspend(true).1, Some(Reply::Done(0)), "once more changes nothing");

    assert!(is_refused(&desk.says(&plain("romeo")).1));
    for with in ["", resumable, &format!("<resume xmlns='urn:xmpp:sm:3' h='0' previd='{previd}'/>")] {
        assert!(is_refused(&desk.says(&by_password(with)).1), "{with}");
    }
    assert!(is_refused(&desk.says(&by_token(&token)).1));
    let wrong = BASE64.encode("\0romeo\0wrong");
    let guess = format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{wrong}</auth>");
    let guess = desk.says(&guess).1;
    assert!(guess.contains("<not-authorized") && !guess.contains(TEXT), "{guess}");
    // It had authenticated before.
    let late = said(&desk.host.ask(early, &format!("{HEADER}{BIND}")));
    assert!(late.contains("<policy-violation") && late.contains(TEXT) && !late.contains("<jid>"), "{late}");

    // Messages for the user wait, as for an absent user.
    let sent =
        said(&desk.host.ask(juliet, "<message to='romeo@localhost' type='chat'><body>wherefore</body></message>"));
    assert!(!sent.contains("error"), "{sent}");
    // A new password set by an operator does not let the user in.
    let keys = Credentials::derive(PASSWORD, 4096, &[5; 16], 0).unwrap();
    let account = "romeo@localhost".into();
    let change = Command::Account(AccountCommand::Put { account, credentials: Box::new(keys), mode: PutMode::Change });
    assert_eq!(desk.command(change).1, Some(Reply::Done(0)));
    assert!(is_refused(&desk.says(&plain("romeo")).1));

    // The next process knows it from the store.
    let mut next = Desk::over(Host::new(Settings::new("localhost", 1, [0; 32], 1 << 20)));
    next.host.disk = std::mem::take(&mut desk.host.disk);
    assert!(is_refused(&next.says(&plain("romeo")).1));
    assert_eq!(next.suspend(false).1, Some(Reply::Done(0)));
    let conn = next.bound("romeo");
    assert!(said(&next.host.ask(conn, "<presence/>")).contains("<body>wherefore</body>"), "what was stored is there");
}

/// A login in progress, whose account was read before the suspension, fails at its resource.
#[test]
fn a_login_that_began_before_does_not_slip_through() {
    let mut desk = Desk::new();
    // The account and its record are cached at the shard; the suspension comes between proof and
    // resource (XEP-0386).
    let (waiting, answer) = desk.says(&by_password(""));
    assert!(answer.contains("<success"), "{answer}");
    desk.suspend(true);
    let late = said(&desk.host.ask(waiting, BIND));
    assert!(late.contains("<policy-violation") && late.contains(TEXT), "{late}");
    assert_eq!(desk.host.shard.counters().sessions.get(), 0);
}

/// An account that waits for approval is not suspended but decided, and a missing one is not
/// suspended.
#[test]
fn what_is_not_in_use_is_not_suspended() {
    let mut desk = Desk::new();
    let mut keys = Credentials::derive(PASSWORD, 4096, &[3; 16], 0).unwrap();
    keys.set_standing(Standing::Applies);
    let mut record = Vec::new();
    keys.encode(&mut record);
    desk.host.disk.put(Table::Accounts, "romeo@localhost", b"", &record);
    for suspended in [true, false] {
        assert_eq!(desk.suspend(suspended).1, Some(Reply::Busy));
        let nobody = Command::Account(AccountCommand::Suspend { account: "nobody@localhost".into(), suspended });
        assert_eq!(desk.command(nobody).1, Some(Reply::NotFound));
    }
    assert!(desk.says(&plain("romeo")).1.contains("approval"));
}
