//! Archive queries (XEP-0313) in a shard: the order of their turns, and what they delay.

use throng_engine::id::ConnId;
use throng_engine::io::{Input, ListenerKind, StorageState};
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_sim::host::{BIND, HEADER, Host, said};

fn settings() -> Settings {
    Settings::new("localhost", 1, [0; 32], 0)
}

/// An available user with this many messages of this many bytes from another user.
fn with_messages(count: usize, bytes: usize) -> (Host, ConnId, ConnId) {
    let mut host = Host::new(settings());
    host.account("juliet");
    host.account("romeo");
    let (romeo, _) = host.bind(0, "romeo");
    let (juliet, _) = host.bind(1, "juliet");
    host.ask(juliet, "<presence/>");
    let body = "m".repeat(bytes);
    for n in 0..count {
        let text = format!("<message to='juliet@localhost' type='chat' id='m{n}'><body>{body}</body></message>");
        let came = said(&host.ask(romeo, &text));
        assert!(came.contains(&format!("id='m{n}'")), "it is delivered");
    }
    (host, romeo, juliet)
}

fn query(id: &str, inside: &str) -> String {
    format!("<iq type='set' id='{id}'><query xmlns='urn:xmpp:mam:2'>{inside}</query></iq>")
}

#[test]
fn queries_of_a_user_are_answered_one_after_the_other_and_so_many_wait() {
    let (mut host, _, juliet) = with_messages(3, 10);
    // All of them in one read: the first is in progress when the last arrives.
    let all: String = (0..30).map(|n| query(&format!("q{n}"), "")).collect();
    let came = said(&host.ask(juliet, &all));
    let answers = came.matches("<fin ").count();
    assert_eq!(answers + came.matches("archive queries wait").count(), 30, "each is answered: {came}");
    assert!((16..30).contains(&answers), "{answers}");
    assert_eq!(came.matches("<result ").count(), 3 * answers);
    let again = said(&host.ask(juliet, &query("again", "")));
    assert_eq!(again.matches("<result ").count(), 3, "then there is room again");
}

#[test]
fn a_page_waits_for_room_and_live_messages_do_not_wait_for_it() {
    let (mut host, romeo, juliet) = with_messages(40, 3_000);
    host.ask(juliet, "<enable xmlns='urn:xmpp:sm:3'/>");
    // XEP-0313 4.3.1: a page has less than it could, and a second one fills the limit of
    // unacknowledged output; the third waits.
    let mut came = String::new();
    for n in 0..4 {
        came += &said(&host.ask(juliet, &query(&format!("q{n}"), "")));
    }
    let answered = came.matches("<fin ").count();
    assert!((1..4).contains(&answered), "{answered} pages are there");
    assert!(came.matches("complete='false'").count() == answered, "and each says that there is more");
    let live =
        said(&host.ask(romeo, "<message to='juliet@localhost' type='chat' id='live'><body>now</body></message>"));
    assert!(live.contains("id='live'"), "a message comes at once");
    let stanzas = came.matches("<result ").count() + answered + 1;
    let more = said(&host.ask(juliet, &format!("<a xmlns='urn:xmpp:sm:3' h='{stanzas}'/>")));
    assert!(more.contains("<fin "), "what is acknowledged makes room");
}

#[test]
fn what_waits_for_room_counts_as_handled() {
    // XEP-0198 4: a client that waits for this before it acknowledges would wait for ever.
    let (mut host, _, juliet) = with_messages(40, 3_000);
    host.ask(juliet, "<enable xmlns='urn:xmpp:sm:3'/>");
    (0..4).for_each(|n| drop(host.ask(juliet, &query(&format!("q{n}"), ""))));
    assert!(said(&host.ask(juliet, "<r xmlns='urn:xmpp:sm:3'/>")).contains("<a xmlns='urn:xmpp:sm:3' h='4'/>"));
}

#[test]
fn a_session_that_ends_leaves_the_turn_to_others() {
    let (mut host, _, juliet) = with_messages(40, 3_000);
    host.ask(juliet, "<enable xmlns='urn:xmpp:sm:3'/>");
    (0..6).for_each(|n| drop(host.ask(juliet, &query(&format!("q{n}"), ""))));
    let (phone, _) = host.bind(2, "juliet");
    assert!(said(&host.ask(phone, &query("p", ""))).contains("<fin "), "one without room holds up nobody");
    host.ask(juliet, "</stream:stream>");
    host.turn(Input::Closed { conn: juliet });
    assert!(said(&host.ask(phone, &query("p2", ""))).contains("<fin "));
}

#[test]
fn results_go_to_who_asks_alone_and_wait_in_no_log() {
    let (mut host, _, juliet) = with_messages(3, 10);
    let (phone, _) = host.bind(2, "juliet");
    host.ask(phone, "<iq type='set' id='c'><enable xmlns='urn:xmpp:carbons:2'/></iq>");
    host.ask(phone, "<presence/>");
    let effects = host.ask(juliet, &query("q", ""));
    let to_phone = effects
        .into_iter()
        .filter(|effect| matches!(effect, throng_engine::io::Effect::Send { conn, .. } if *conn == phone));
    assert_eq!(said(&to_phone.collect::<Vec<_>>()), "");
    let came = said(&host.ask(phone, &query("q2", "")));
    assert_eq!(came.matches("<result ").count(), 3, "a result is not archived itself");
    // XEP-0352: an inactive client has requested it all the same.
    host.ask(juliet, "<inactive xmlns='urn:xmpp:csi:0'/>");
    assert_eq!(said(&host.ask(juliet, &query("q3", ""))).matches("<result ").count(), 3);
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let (mut host, _, juliet) = with_messages(3, 10);
    host.disk.damage(Table::Archive, "juliet@localhost", true);
    for asked in [query("q", ""), "<iq type='get' id='q'><metadata xmlns='urn:xmpp:mam:2'/></iq>".into()] {
        assert!(said(&host.ask(juliet, &asked)).contains("internal-server-error"));
    }
    host.disk.damage(Table::Archive, "juliet@localhost", false);
    assert!(said(&host.ask(juliet, &query("q", ""))).contains("complete='true'"), "and the next one has its turn");
}

#[test]
fn a_full_disk_keeps_nobody_from_reading() {
    let (mut host, _, juliet) = with_messages(3, 10);
    host.turn(Input::Storage(StorageState::Full));
    let with = "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>urn:xmpp:mam:2</value></field>\
                <field var='with'><value>romeo@localhost</value></field></x>";
    assert_eq!(said(&host.ask(juliet, &query("q", with))).matches("<result ").count(), 3);
}

#[test]
fn without_an_archive_there_is_nothing_to_ask() {
    let mut host = Host::new(Settings { archive: false, ..settings() });
    host.account("juliet");
    let (juliet, _) = host.bind(0, "juliet");
    assert!(said(&host.ask(juliet, &query("q", ""))).contains("service-unavailable"));
    let disco =
        "<iq type='get' id='d' to='juliet@localhost'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>";
    assert!(!said(&host.ask(juliet, disco)).contains("urn:xmpp:mam"));
}

#[test]
fn what_retention_has_removed_is_not_found() {
    let (mut host, _, juliet) = with_messages(2, 10);
    let came = said(&host.ask(juliet, &query("q", "")));
    let first = came.split_once("<first>").and_then(|(_, rest)| rest.split_once('<')).expect("a page").0.to_owned();
    let until = (first.parse::<u64>().expect("a number") + 1).to_be_bytes();
    let mut batch = throng_engine::store::Batch::new();
    batch.delete_range(Table::Archive, b"juliet@localhost", &[], &until);
    host.disk.apply(&batch);
    let after = format!("<set xmlns='http://jabber.org/protocol/rsm'><after>{first}</after></set>");
    assert!(said(&host.ask(juliet, &query("q", &after))).contains("item-not-found"), "XEP-0313 4.3.2");
}

/// Juliet, whose account has a password, logs in and becomes available.
fn juliet(host: &mut Host, slot: u32) -> ConnId {
    let conn = ConnId { slot, generation: 1 };
    let listener = ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: false };
    host.turn(Input::Accepted { conn, listener, peer: [192, 0, 2, 1].into() });
    // The base64 of NUL, juliet, NUL, pencil.
    let auth = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGp1bGlldABwZW5jaWw=</auth>";
    assert!(said(&host.ask(conn, &format!("{HEADER}{auth}"))).contains("<success "));
    host.ask(conn, &format!("{HEADER}{BIND}<presence/>"));
    conn
}

fn between<'a>(text: &'a str, before: &str, behind: &str) -> &'a str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("no {before} in {text}")).1;
    rest.split_once(behind).expect("an end").0
}

/// XEP-0359 6, XEP-0313 3.3: an id does not reveal how many messages the archive has. It is the
/// same wherever a client sees it, and after each restart of the server; the plain number, which
/// earlier versions sent, is still accepted.
#[test]
fn ids_are_opaque_and_stay_what_they_are() {
    let page = |ids: &[&str]| {
        let values: String = ids.iter().map(|id| format!("<value>{id}</value>")).collect();
        format!(
            "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>urn:xmpp:mam:2</value></field><field var='ids'>{values}</field></x>"
        )
    };
    let after = |id: &str| format!("<set xmlns='http://jabber.org/protocol/rsm'><after>{id}</after></set>");
    let mut host = Host::new(settings());
    host.account_with("juliet", "pencil", 7);
    host.account("romeo");
    let (romeo, client) = (host.bind(0, "romeo").0, juliet(&mut host, 1));
    let ids: Vec<String> = (0..3)
        .map(|n| {
            let text = format!("<message to='juliet@localhost' type='chat'><body>{n}</body></message>");
            between(&said(&host.ask(romeo, &text)), "<stanza-id xmlns='urn:xmpp:sid:0' id='", "'").to_owned()
        })
        .collect();
    assert!(ids.iter().all(|id| id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_lowercase())), "{ids:?}");
    let numbers: Vec<u64> = host
        .disk
        .rows_of(Table::Archive, "juliet@localhost")
        .map(|(sort, _)| throng_engine::store::archive::number_of(sort).expect("a number"))
        .collect();
    let lives = |host: &mut Host, client: ConnId| {
        let all = said(&host.ask(client, &query("q", "")));
        assert!(
            ids.iter().all(|id| all.matches(&format!(" id='{id}'")).count() == 2),
            "the result and its stanza-id: {all}"
        );
        assert!(all.contains(&format!("<first>{}</first><last>{}</last>", ids[0], ids[2])), "{all}");
        let ends = said(&host.ask(client, "<iq type='get' id='m'><metadata xmlns='urn:xmpp:mam:2'/></iq>"));
        assert!(ends.contains(&format!("<start id='{}'", ids[0])) && ends.contains(&format!("<end id='{}'", ids[2])));
        for first in [ids[0].clone(), numbers[0].to_string()] {
            let rest = said(&host.ask(client, &query("q", &after(first.as_str()))));
            assert!(!rest.contains("<body>0<") && rest.contains("<body>1<") && rest.contains("<body>2<"), "{rest}");
            let one = said(&host.ask(client, &query("q", &page(&[first.as_str()]))));
            assert!(one.contains("<body>0<") && one.matches("<result ").count() == 1, "{one}");
        }
        for none in ["aaaaaaaaaaaaaaaa", "AAAAAAAAAAAAAAAA", "x", ""] {
            assert!(said(&host.ask(client, &query("q", &page(&[none])))).contains("item-not-found"), "{none}");
        }
    };
    lives(&mut host, client);
    let mut next = Host::new(settings());
    next.disk = host.disk;
    let client = juliet(&mut next, 0);
    lives(&mut next, client);
}
