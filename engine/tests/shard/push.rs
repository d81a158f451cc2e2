//! Push notifications (XEP-0357): who is notified of what, how often, and the effects of services'
//! answers.

use throng_engine::extension::push::row::Registrations;
use throng_engine::id::ConnId;
use throng_engine::io::{AccountCommand, Command, Effect, Happened, Input, SessionCommand};
use throng_engine::limits::{
    PUSH_ANSWER_MS, PUSH_BACKOFF_S, PUSH_FAILURES_MAX, PUSH_REGISTRATIONS_MAX, PUSH_WINDOW_MIN,
};
use throng_engine::settings::{PushDetails, Settings};
use throng_engine::store::{Found, Table, record};
use throng_sim::host::{Host, said};

/// Romeo, who writes, Juliet, whose phone is to be woken, and the nurse, whose client is the
/// service.
struct Street {
    host: Host,
    romeo: ConnId,
    service: ConnId,
    /// Its full JID.
    jid: String,
    slots: u32,
    /// Whether the service accepts publications.
    takes: bool,
}

/// Notifications to the service: the id and the whole stanza.
type Told = Vec<(String, String)>;

impl Street {
    fn new() -> Street {
        Street::with(|_| {})
    }

    /// A street whose service answers only when the test says so.
    fn silent() -> Street {
        Street { takes: false, ..Street::new() }
    }

    fn with(settle: impl FnOnce(&mut Settings)) -> Street {
        let mut settings = Settings::new("localhost", 1, [0; 32], 0);
        settings.idle_s_max = 0;
        settle(&mut settings);
        let mut host = Host::new(settings);
        ["romeo", "juliet", "nurse"].into_iter().for_each(|user| host.account(user));
        let (romeo, _) = host.bind(0, "romeo");
        let (service, effects) = host.bind(1, "nurse");
        let jid = between(&said(&effects), "<jid>", "</jid>").to_owned();
        Street { host, romeo, service, jid, slots: 2, takes: true }
    }

    /// Another session of Juliet's, available, with stream management.
    fn juliet(&mut self) -> ConnId {
        let (conn, _) = self.host.bind(self.slots, "juliet");
        self.slots += 1;
        self.host.ask(conn, "<enable xmlns='urn:xmpp:sm:3' resume='true'/><presence/>");
        conn
    }

    fn enables(&mut self, conn: ConnId, node: &str) {
        let jid = self.jid.clone();
        let said = said(&self.host.ask(conn, &enable(&jid, node, "")));
        assert!(said.contains("type='result'"), "{said}");
    }

    /// Juliet's phone, with one registration; it has disconnected.
    fn gone(&mut self) {
        let phone = self.juliet();
        self.enables(phone, "n");
        self.host.ask(phone, "</stream:stream>");
    }

    fn writes(&mut self, inside: &str) -> Told {
        self.writes_to("juliet@localhost", inside)
    }

    fn writes_to(&mut self, to: &str, inside: &str) -> Told {
        let message = format!("<message to='{to}' type='chat'>{inside}</message>");
        let told = told(&said(&self.host.ask(self.romeo, &message)));
        self.takes(told)
    }

    fn takes(&mut self, told: Told) -> Told {
        if self.takes {
            told.iter().for_each(|(id, _)| drop(self.answers(id, "")));
        }
        told
    }

    fn answers(&mut self, id: &str, error: &str) -> String {
        let answer = match error {
            "" => format!("<iq type='result' id='{id}' to='localhost'/>"),
            error => format!(
                "<iq type='error' id='{id}' to='localhost'><error type='cancel'><{error} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>\
                 </error></iq>"
            ),
        };
        let effects = self.host.ask(self.service, &answer);
        let notes = effects.iter().filter_map(|effect| match effect {
            Effect::Note(note) => match &note.what {
                Happened::PushDropped(dropped) => Some(format!("{} {}", note.account, dropped.reason)),
                _ => None,
            },
            _ => None,
        });
        notes.collect()
    }

    fn pass(&mut self, seconds: u64) -> Told {
        let mut all = String::new();
        for _ in 0..seconds {
            self.host.now.mono_ms += 1_000;
            self.host.now.pass_wall(1_000_000);
            all += &said(&self.host.turn(Input::Held { since_s: None, many: false }));
        }
        self.takes(told(&all))
    }

    fn registrations(&self) -> Registrations {
        match self.host.disk.read(&record::query("juliet@localhost", record::PUSH)) {
            Found::Value(Some(row)) => Registrations::read(&row).expect("a row"),
            _ => Registrations::default(),
        }
    }
}

fn between<'a>(text: &'a str, before: &str, behind: &str) -> &'a str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("no {before} in {text}")).1;
    rest.split_once(behind).expect("an end").0
}

fn enable(jid: &str, node: &str, inside: &str) -> String {
    format!("<iq type='set' id='e'><enable xmlns='urn:xmpp:push:0' jid='{jid}' node='{node}'>{inside}</enable></iq>")
}

fn told(said: &str) -> Told {
    let all = said.split("<iq type='set' id='push-").skip(1);
    all.map(|rest| {
        let id = format!("push-{}", rest.split('\'').next().unwrap_or_default());
        (id, rest.split("</iq>").next().unwrap_or_default().to_owned())
    })
    .collect()
}

fn count(told: &Told) -> u32 {
    assert_eq!(told.len(), 1, "{told:?}");
    between(&told[0].1, "<field var='message-count'><value>", "<").parse().expect("a number")
}

const HI: &str = "<body>hi</body>";

#[test]
fn the_account_says_that_it_can_be_enabled_xep_0357_4_1() {
    let mut street = Street::new();
    let juliet = street.juliet();
    let info =
        "<iq type='get' id='d' to='juliet@localhost'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>";
    assert!(said(&street.host.ask(juliet, info)).contains("<feature var='urn:xmpp:push:0'/>"));
    let server = info.replace("juliet@", "");
    assert!(!said(&street.host.ask(juliet, &server)).contains("urn:xmpp:push:0"));
}

#[test]
fn requests_are_checked_xep_0357_5() {
    let mut street = Street::new();
    let juliet = street.juliet();
    let form = |kind: &str, inside: &str| format!("<x xmlns='jabber:x:data' type='{kind}'>{inside}</x>");
    let options = "<field var='FORM_TYPE'><value>http://jabber.org/protocol/pubsub#publish-options</value></field>";
    let long = format!("{options}<field var='secret'><value>{}</value></field>", "s".repeat(1_024));
    let many = "<field var='a'><value>b</value></field>".repeat(200);
    let jid = street.jid.clone();
    for (request, expected) in [
        (enable(&jid, "n", &form("submit", options)), "type='result'"),
        (enable("nurse@localhost", "", ""), "type='result'"),
        (enable("push.example", "n", ""), "<remote-server-not-found"),
        (enable("a@push.example/b", "n", ""), "<remote-server-not-found"),
        (enable("localhost", "n", ""), "<service-unavailable"),
        (enable("@", "n", ""), "<jid-malformed"),
        (enable(&jid, "n", &form("form", options)), "<bad-request"),
        (enable(&jid, "n", &form("submit", "")), "<bad-request"),
        (enable(&jid, "n", &form("submit", &options.replace("publish-options", "other"))), "<bad-request"),
        (enable(&jid, "n", &form("submit", "<other xmlns='x'/>")), "<bad-request"),
        (enable(&jid, "n", &form("submit", options).repeat(2)), "<bad-request"),
        (enable(&jid, "n", &form("submit", &long)), "<not-acceptable"),
        (enable(&jid, "n", &form("submit", &format!("{options}{many}"))), "<not-acceptable"),
        (enable(&jid, &"n".repeat(513), ""), "<not-acceptable"),
        ("<iq type='set' id='e'><enable xmlns='urn:xmpp:push:0'/></iq>".into(), "<bad-request"),
        ("<iq type='set' id='e'><disable xmlns='urn:xmpp:push:0'/></iq>".into(), "<bad-request"),
        ("<iq type='get' id='e'><enable xmlns='urn:xmpp:push:0' jid='a@localhost'/></iq>".into(), "<bad-request"),
        (
            "<iq type='set' id='e' to='nurse@localhost'><enable xmlns='urn:xmpp:push:0' jid='a@localhost'/></iq>"
                .into(),
            "<forbidden",
        ),
    ] {
        let said = said(&street.host.ask(juliet, &request));
        assert!(said.contains(expected), "{request}: {said}");
    }
    assert_eq!(street.registrations().into_inner().len(), 2);
}

#[test]
fn a_service_is_told_of_messages_for_a_user_who_is_away_xep_0357_7() {
    let mut street = Street::silent();
    street.gone();
    let told = street.writes("<body>secret</body>");
    assert_eq!(count(&told), 1);
    let (id, told) = &told[0];
    assert!(told.contains("from='localhost'") && told.contains("<publish node='n'>"), "{told}");
    assert!(!told.contains("romeo") && !told.contains("secret"), "{told}");
    assert_eq!(street.answers(id, ""), "");
    let counters = street.host.shard.counters();
    assert_eq!((counters.pushes_sent.get(), counters.pushes_taken.get(), counters.pushes_failed.get()), (1, 1, 0));
}

#[test]
fn more_is_told_where_the_operator_lets_it_be_told_xep_0357_9() {
    for (details, sender, body) in [(PushDetails::Sender, true, false), (PushDetails::Body, true, true)] {
        let mut street = Street::with(|settings| settings.push_details = details);
        street.gone();
        let told = street.writes("<body>a &lt; b</body>");
        let told = &told[0].1;
        assert_eq!(told.contains("'last-message-sender'><value>romeo@localhost/"), sender, "{told}");
        assert_eq!(told.contains("'last-message-body'><value>a &lt; b</value>"), body, "{told}");
    }
}

#[test]
fn messages_that_come_together_are_told_of_together() {
    let mut street = Street::new();
    street.gone();
    assert_eq!(count(&street.writes(HI)), 1);
    for _ in 0..500 {
        assert!(street.writes(HI).is_empty());
    }
    assert_eq!(count(&street.pass(11)), 501);
    assert!(street.pass(60).is_empty(), "once");
    assert_eq!(count(&street.writes(HI)), 502, "messages that wait");
}

#[test]
fn nobody_is_woken_for_what_is_not_stored_not_let_in_or_ones_own() {
    let mut street = Street::new();
    street.gone();
    for silent in [
        "<body>hi</body><no-store xmlns='urn:xmpp:hints'/>",
        "<composing xmlns='http://jabber.org/protocol/chatstates'/>",
        "<received xmlns='urn:xmpp:receipts' id='1'/>",
    ] {
        assert!(street.writes(silent).is_empty(), "{silent}");
    }
    // XEP-0191 3.3; and messages from one device, or to the account itself, wake no other device
    // (XEP-0280).
    let desk = street.juliet();
    let own = "<message to='juliet@localhost' type='chat'><body>note</body></message>\
               <message to='romeo@localhost' type='chat'><body>hi</body></message>";
    assert!(told(&said(&street.host.ask(desk, own))).is_empty());
    street
        .host
        .ask(desk, "<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='romeo@localhost'/></block></iq>");
    street.host.ask(desk, "</stream:stream>");
    assert!(street.writes(HI).is_empty());
    assert!(street.pass(20).is_empty());
}

#[test]
fn a_device_that_is_there_is_not_woken_and_one_that_is_not_is_whatever_others_do() {
    let mut street = Street::new();
    let (phone, _desk) = (street.juliet(), street.juliet());
    street.enables(phone, "n");
    assert!(street.writes(HI).is_empty(), "somebody looks at it");
    // XEP-0352: nobody is looking at it.
    street.host.ask(phone, "<inactive xmlns='urn:xmpp:csi:0'/>");
    assert_eq!(count(&street.writes(HI)), 1, "what was seen does not count");
    street.host.ask(phone, "<active xmlns='urn:xmpp:csi:0'/>");
    assert!(street.pass(60).is_empty() && street.writes(HI).is_empty());
    assert!(street.pass(60).is_empty());
    // XEP-0198 5: it has lost its connection; its unacknowledged messages count.
    let told = told(&said(&street.host.turn(Input::Command { token: 1, command: detach("juliet") })));
    let told = street.takes(told);
    assert!(!told.is_empty(), "it had not acknowledged what came before");
    assert!(street.pass(60).is_empty());
    assert_eq!(street.writes(HI).len(), 1);
}

fn detach(user: &str) -> Command {
    Command::Session(SessionCommand::Detach { jid: format!("{user}@localhost").into() })
}

#[test]
fn what_was_sent_into_a_dead_connection_wakes_the_device_when_the_session_ends() {
    let mut street = Street::with(|settings| settings.resume_s_max = 30);
    let phone = street.juliet();
    street.enables(phone, "n");
    assert!(street.writes(HI).is_empty());
    // An acknowledged message has been received.
    street.host.ask(phone, "<a xmlns='urn:xmpp:sm:3' h='3'/>");
    let closed = street.host.turn(Input::Closed { conn: phone });
    assert!(told(&said(&closed)).is_empty(), "{}", said(&closed));
    assert_eq!(street.writes(HI).len(), 1, "it waits to be resumed");
    let told = street.pass(60);
    assert_eq!(told.len(), 1, "its session has ended, and the message waits: {told:?}");
}

#[test]
fn what_is_disabled_is_told_nothing_xep_0357_6() {
    let mut street = Street::new();
    let phone = street.juliet();
    street.enables(phone, "n");
    street.enables(phone, "m");
    let disable = |node: &str| format!("<iq type='set' id='d'><disable xmlns='urn:xmpp:push:0' jid='JID'{node}/></iq>");
    let ask = |street: &mut Street, node: &str| {
        let request = disable(node).replace("JID", &street.jid);
        assert!(said(&street.host.ask(phone, &request)).contains("type='result'"));
    };
    ask(&mut street, " node='n'");
    assert_eq!(street.registrations().into_inner().len(), 1);
    ask(&mut street, " node='n'");
    ask(&mut street, "");
    assert!(street.registrations().is_empty());
    street.host.ask(phone, "</stream:stream>");
    assert!(street.writes(HI).is_empty());
    assert_eq!(street.host.shard.counters().pushes_sent.get(), 0);
}

#[test]
fn an_error_ends_a_registration_and_the_log_says_so_xep_0357_7_1() {
    for error in ["item-not-found", "forbidden", "not-authorized", "not-allowed", "bad-request", "gone"] {
        let mut street = Street::silent();
        street.gone();
        let told = street.writes(HI);
        assert_eq!(street.answers(&told[0].0, error), format!("juliet@localhost {error}"));
        assert!(street.registrations().is_empty());
        assert!(street.pass(30).is_empty() && street.writes(HI).is_empty());
    }
}

#[test]
fn an_error_that_may_pass_makes_it_wait_and_too_many_end_it_xep_0357_7_1() {
    let mut street = Street::silent();
    street.gone();
    let mut told = street.writes(HI);
    assert_eq!(street.answers(&told[0].0, "service-unavailable"), "");
    street.writes(HI);
    assert!(street.pass(PUSH_BACKOFF_S - 2).is_empty());
    told = street.pass(4);
    assert_eq!(told.len(), 1);
    assert_eq!(street.answers(&told[0].0, ""), "");
    assert_eq!(street.registrations().into_inner()[0].failures, 0, "in a row");
    // A missing answer is an error, too.
    let mut sent = 0;
    let mut asked = street.pass(11).len();
    for _ in 0..40 {
        asked += street.writes(HI).len();
        asked += street.pass(1_800).len();
        sent = sent.max(asked);
    }
    assert_eq!(sent, usize::from(PUSH_FAILURES_MAX));
    assert!(street.registrations().is_empty());
    assert_eq!(street.host.shard.counters().pushes_pending.get(), 0);
}

#[test]
fn an_answer_counts_if_it_is_of_the_service() {
    let mut street = Street::silent();
    street.gone();
    let told = street.writes(HI);
    let forged = format!(
        "<iq type='error' id='{}' to='localhost'><error type='cancel'><gone xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
        told[0].0
    );
    street.host.ask(street.romeo, &forged);
    for id in ["push-", "push-0-0-x", "push-ffff-0-x", "push-0-ffffffffffffffffff-x", "push-x-x-x"] {
        let said = said(&street.host.ask(street.service, &format!("<iq type='result' id='{id}' to='localhost'/>")));
        assert!(!said.contains("error"), "{said}");
    }
    assert!(!street.registrations().is_empty());
    assert_eq!(street.answers(&told[0].0, "gone"), "juliet@localhost gone");
}

#[test]
fn a_service_that_is_not_there_answers_by_the_server() {
    let mut street = Street::new();
    street.gone();
    street.host.ask(street.service, "</stream:stream>");
    assert!(street.writes(HI).is_empty());
    assert_eq!(street.registrations().into_inner()[0].failures, 1, "RFC 6121 8.5.3.2.3");
    // A bare JID is answered by its account, which does not accept publications (XEP-0060 7.1.3).
    let phone = street.juliet();
    street.host.ask(phone, &enable("nurse@localhost", "x", ""));
    street.host.ask(phone, "</stream:stream>");
    street.pass(11);
    street.writes(HI);
    street.pass(11);
    assert_eq!(street.host.shard.counters().pushes_failed.get(), 2);
    // And nobody is there at all.
    let phone = street.juliet();
    street.host.ask(phone, &enable("tybalt@localhost", "x", ""));
    street.host.ask(phone, "</stream:stream>");
    street.pass(11);
    street.writes(HI);
    street.pass(11);
    assert_eq!(street.host.shard.counters().pushes_pending.get(), 0);
}

#[test]
fn registrations_go_with_the_account_and_survive_all_else() {
    let mut street = Street::new();
    street.gone();
    // Another process with the same store.
    let mut again = Street::new();
    again.host.disk = street.host.disk;
    again.host.disk.put(Table::Accounts, "juliet@localhost", b"", b"");
    let jid = again.jid.clone();
    let phone = again.juliet();
    again.host.ask(phone, &enable(&jid, "n", ""));
    again.host.ask(phone, "</stream:stream>");
    again.pass(120);
    assert_eq!(again.writes(HI).len(), 1, "what is known of the user was forgotten, and read again");
    again.pass(120);
    // A session that has not enabled anything, besides what is known of the account.
    let desk = again.juliet();
    again.pass(120);
    assert_eq!(again.writes(HI).len(), 1, "the phone is not there");
    again.pass(120);
    again.host.ask(desk, "</stream:stream>");
    assert_eq!(again.writes(HI).len(), 1);
    again.pass(120);
    again.host.turn(Input::Command {
        token: 1,
        command: Command::Account(AccountCommand::Delete { account: "juliet@localhost".into() }),
    });
    assert!(again.registrations().is_empty());
}

/// Many users register an entity that is not a service, as often as they like.
#[test]
fn who_is_named_as_a_service_without_being_one_hears_little() {
    let mut street = Street::silent();
    let jid = street.jid.clone();
    let mut attackers = Vec::new();
    for n in 0..20 {
        let local = format!("mallory{n}");
        street.host.account(&local);
        let (conn, _) = street.host.bind(100 + n, &local);
        for node in 0..PUSH_REGISTRATIONS_MAX {
            street.host.ask(conn, &enable(&jid, &node.to_string(), ""));
        }
        street.host.ask(conn, "</stream:stream>");
        attackers.push(format!("{local}@localhost"));
    }
    let mut heard = 0;
    let minutes = 10;
    for _ in 0..minutes {
        for to in &attackers {
            heard += street.writes_to(to, HI).len();
        }
        heard += street.pass(60).len();
    }
    let most = usize::from(PUSH_WINDOW_MIN) * (minutes * 60_000 / PUSH_ANSWER_MS as usize + 1);
    assert!(heard > 0 && heard <= most, "{heard} of {most} at the most");
    // And the pause is limited.
    assert!(street.host.shard.counters().pushes_held.get() > 0);
}

/// A message that wakes nobody reads nothing: a user without registrations costs the same as
/// before.
#[test]
fn users_without_registrations_cost_no_read() {
    let mut street = Street::new();
    let desk = street.juliet();
    street.writes(HI);
    let before = street.host.shard.counters().reads.get();
    street.writes(HI);
    assert_eq!(street.host.shard.counters().reads.get(), before);
    street.host.ask(desk, "</stream:stream>");
    street.writes(HI);
    let before = street.host.shard.counters().reads.get();
    street.writes(HI);
    assert_eq!(street.host.shard.counters().reads.get(), before);
}
