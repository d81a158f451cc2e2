//! EXTERNAL with a client certificate (XEP-0178), on a whole shard.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use throng_engine::id::{ConnId, Now};
use throng_engine::io::{ClientCertificate, Effect, Input, ListenerKind, TlsFacts};
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_sim::host::{HEADER, Host, said};

const SASL: &str = "urn:ietf:params:xml:ns:xmpp-sasl";
const PHONE: &str = "d4565fa7-4d72-4749-b3d3-740edbf87770";

struct Desk {
    host: Host,
    next: u32,
}

impl Desk {
    fn new() -> Desk {
        let mut desk = Desk { host: Host::new(Settings::new("localhost", 1, [0; 32], 0)), next: 0 };
        desk.host.now = Now::new(1_000, 1_700_000_000_000_000);
        for (number, user) in (1..).zip(["romeo", "juliet"]) {
            desk.host.account_with(user, "pencil", number);
        }
        desk
    }

    /// A TLS connection whose client has presented a certificate of these users, or none.
    fn secured(&mut self, users: Option<&[&str]>) -> (ConnId, String) {
        let listener = ListenerKind { direct_tls: true, starttls: false, plain_auth: false, registration: false };
        let conn = ConnId { slot: self.next, generation: 1 };
        self.next += 1;
        self.host.turn(Input::Accepted { conn, listener, peer: [127, 0, 0, 1].into() });
        let addresses = users.map(|users| users.iter().map(|user| Box::from(*user)).collect());
        let certificate = addresses.map(|addresses| ClientCertificate { addresses, mapped: Box::default() });
        let tls = TlsFacts { exporter: Some([3; 32]), server_end_point: vec![4; 32], certificate };
        self.host.turn(Input::Secured { conn, tls: Box::new(tls) });
        let offer = said(&self.host.ask(conn, HEADER));
        (conn, offer)
    }

    fn says(&mut self, users: Option<&[&str]>, request: &str) -> String {
        let (conn, _) = self.secured(users);
        said(&self.host.ask(conn, request))
    }
}

fn auth(authzid: &str) -> String {
    let payload = if authzid.is_empty() { "=".to_owned() } else { BASE64.encode(authzid) };
    format!("<auth xmlns='{SASL}' mechanism='EXTERNAL'>{payload}</auth>")
}

fn authenticate(inside: &str) -> String {
    format!(
        "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='EXTERNAL'><initial-response/>\
         <user-agent id='{PHONE}'/>{inside}</authenticate>"
    )
}

/// XEP-0178 2, step 9, RFC 6120 6.3.4: offered only to a client with a certificate of a user here.
#[test]
fn xep0178_2_the_offer_follows_the_certificate() {
    let mut desk = Desk::new();
    let (_, offer) = desk.secured(Some(&["romeo@localhost"]));
    assert!(offer.contains(&format!("<mechanisms xmlns='{SASL}'><mechanism>EXTERNAL</mechanism>")), "{offer}");
    assert!(offer.contains("<authentication xmlns='urn:xmpp:sasl:2'><mechanism>EXTERNAL</mechanism>"), "{offer}");
    for users in [None, Some(&["romeo@example.com"][..]), Some(&["localhost"][..]), Some(&[][..])] {
        let (conn, offer) = desk.secured(users);
        assert!(!offer.contains("EXTERNAL"), "{users:?}: {offer}");
        assert!(said(&desk.host.ask(conn, &auth(""))).contains("<invalid-mechanism"));
    }
    // It does not reveal whether the account exists.
    let (_, offer) = desk.secured(Some(&["nobody@localhost"]));
    assert!(offer.contains("EXTERNAL"));
}

/// RFC 6120 6.4, XEP-0388: both forms; RFC 4422 A: also with the message after a challenge.
#[test]
fn xep0178_2_a_certificate_logs_in() {
    let mut desk = Desk::new();
    let romeo = Some(&["romeo@localhost"][..]);
    for request in [auth(""), auth("romeo@localhost"), auth("ROMEO@localhost")] {
        assert!(desk.says(romeo, &request).contains("<success"), "{request}");
    }
    let (conn, _) = desk.secured(romeo);
    let heard = said(&desk.host.ask(conn, &format!("<auth xmlns='{SASL}' mechanism='EXTERNAL'/>")));
    assert!(heard.contains("<challenge"), "{heard}");
    let heard = said(&desk.host.ask(conn, &format!("<response xmlns='{SASL}'>=</response>")));
    assert!(heard.contains("<success"), "{heard}");
    let heard = desk.says(romeo, &authenticate("<bind xmlns='urn:xmpp:bind:0'/>"));
    assert!(heard.contains("<authorization-identifier>romeo@localhost/") && heard.contains("<bound"), "{heard}");
}

/// Step 11: another user's account, several addresses, and a missing account.
#[test]
fn xep0178_2_a_certificate_of_somebody_else() {
    let mut desk = Desk::new();
    let both = Some(&["romeo@localhost", "juliet@localhost"][..]);
    for (users, authzid, condition) in [
        (Some(&["romeo@localhost"][..]), "juliet@localhost", "<invalid-authzid"),
        (both, "", "<invalid-authzid"),
        (both, "nurse@localhost", "<invalid-authzid"),
        (both, "juliet@localhost", "<success"),
        (Some(&["nobody@localhost"][..]), "", "<not-authorized"),
    ] {
        let heard = desk.says(users, &auth(authzid));
        assert!(heard.contains(condition), "{users:?} as {authzid}: {heard}");
    }
}

/// A certificate yields neither a token nor keys: they would outlive it.
#[test]
fn a_certificate_makes_nothing_that_outlives_it() {
    let mut desk = Desk::new();
    let romeo = Some(&["romeo@localhost"][..]);
    let wants = "<request-token xmlns='urn:xmpp:fast:0' mechanism='HT-SHA-256-NONE'/>\
                 <upgrade xmlns='urn:xmpp:sasl:upgrade:0'>UPGR-SCRAM-SHA-512</upgrade>";
    let heard = desk.says(romeo, &authenticate(wants));
    assert!(heard.contains("<success") && !heard.contains("<token") && !heard.contains("<continue"), "{heard}");
    let rows = desk.host.disk.rows_of(Table::Private, "romeo@localhost").count();
    assert_eq!(rows, 0, "nothing is stored");
}

/// Attempts with a certificate count like others (RFC 6120 6.4.5).
#[test]
fn attempts_are_counted() {
    let mut desk = Desk::new();
    let (conn, _) = desk.secured(Some(&["romeo@localhost"]));
    for _ in 0..2 {
        assert!(said(&desk.host.ask(conn, &auth("juliet@localhost"))).contains("<invalid-authzid"));
    }
    let effects = desk.host.ask(conn, &auth("juliet@localhost"));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Close { .. })));
    assert!(said(&effects).contains("<policy-violation"));
}
