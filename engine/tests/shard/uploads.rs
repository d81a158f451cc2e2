//! The upload service (XEP-0363) on its own domain, as a client sees it.

use std::sync::Arc;

use throng_engine::extension::upload::slot::{Slot, Upload, decode_segment};
use throng_engine::id::{ConnId, Service};
use throng_engine::io::{Input, ListenerKind};
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_sim::host::{BIND, HEADER, Host, said};

/// A server with uploads, and a session of Romeo's.
fn host() -> (Host, ConnId) {
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    settings.serve_service("upload.localhost", Service::Upload);
    settings.facts.upload = Some(Arc::new(upload()));
    let mut host = Host::new(settings);
    host.account("romeo");
    let (conn, _) = host.arrive(0, "romeo");
    host.ask(conn, BIND);
    (host, conn)
}

fn upload() -> Upload {
    Upload {
        key: [7; 32],
        url: "https://localhost:5281/".into(),
        file_bytes_max: 5_242_880,
        slot_s: 300,
        slots_max: 3,
        day_bytes: 10_000_000,
        day_files: 100,
        keep_s: 86_400,
    }
}

fn query(to: &str, what: &str) -> String {
    format!("<iq type='get' id='d' to='{to}'><query xmlns='http://jabber.org/protocol/disco#{what}'/></iq>")
}

fn slot_of(answer: &str) -> Slot {
    let between =
        |from: &str, to: &str| answer.split_once(from).and_then(|(_, rest)| rest.split_once(to)).expect(from).0;
    let path = between("<get url='https://localhost:5281/", "'");
    let (id, name) = path.split_once('/').expect("an id and a name");
    let name = decode_segment(name).expect("a name");
    Slot::read(&[7; 32], id, &name, between("Bearer ", "<"), 0).expect("a good token")
}

const REQUEST: &str =
    "<request xmlns='urn:xmpp:http:upload:0' filename='a.jpg' size='23456' content-type='image/jpeg'/>";

fn request(to: &str, inside: &str) -> String {
    format!("<iq type='get' id='r' to='{to}'>{inside}</iq>")
}

#[test]
fn the_service_is_an_item_of_the_server_and_tells_its_bound_xep0363_3() {
    let (mut host, conn) = host();
    let items = said(&host.ask(conn, &query("localhost", "items")));
    assert!(items.contains("<item jid='upload.localhost' name='HTTP File Upload'/>"), "{items}");
    let info = said(&host.ask(conn, &query("upload.localhost", "info")));
    for part in [
        "<identity category='store' type='file' name='HTTP File Upload'/>",
        "<feature var='urn:xmpp:http:upload:0'/>",
        "<feature var='urn:xmpp:http:upload:purpose:0#message'/>",
        "<feature var='http://jabber.org/protocol/disco#info'/>",
        "<field var='FORM_TYPE' type='hidden'><value>urn:xmpp:http:upload:0</value></field>",
        "<field var='max-file-size'><value>5242880</value></field>",
        "from='upload.localhost'",
    ] {
        assert!(info.contains(part), "{part} in {info}");
    }
    let own = said(&host.ask(conn, &query("localhost", "info")));
    assert!(!own.contains("http:upload"), "the server itself gives no slots: {own}");
    assert!(said(&host.ask(conn, &query("upload.localhost", "items"))).contains("type='result'"));
}

#[test]
fn slots_come_from_the_service_alone_xep0363_4() {
    let (mut host, conn) = host();
    let slot = slot_of(&said(&host.ask(conn, &request("upload.localhost", REQUEST))));
    assert_eq!((&*slot.owner, &*slot.name, slot.size), ("romeo@localhost", "a.jpg", 23_456));
    for elsewhere in ["localhost", "romeo@localhost"] {
        let refused = said(&host.ask(conn, &request(elsewhere, REQUEST)));
        assert!(refused.contains("<service-unavailable"), "{elsewhere}: {refused}");
    }
    let nobody = said(&host.ask(conn, &request("romeo@upload.localhost", REQUEST)));
    assert!(nobody.contains("<item-not-found"), "{nobody}");
    let set = said(&host.ask(conn, &request("upload.localhost", REQUEST).replace("'get'", "'set'")));
    assert!(set.contains("<bad-request"), "{set}");
}

#[test]
fn a_file_too_large_and_slots_too_many_are_told_in_the_texts_words_xep0363_6() {
    let (mut host, conn) = host();
    let large = said(&host.ask(conn, &request("upload.localhost", &REQUEST.replace("23456", "5242881"))));
    let told = "<file-too-large xmlns='urn:xmpp:http:upload:0'><max-file-size>5242880</max-file-size></file-too-large>";
    assert!(large.contains("<error type='modify'><not-acceptable") && large.contains(told), "{large}");
    // Pipelined requests are answered one after another: the writes depend on the reads.
    let four = request("upload.localhost", REQUEST).repeat(4);
    let answers = said(&host.ask(conn, &four));
    assert_eq!(answers.matches("<slot ").count(), 3, "{answers}");
    assert!(answers.contains("<error type='wait'><resource-constraint"), "{answers}");
    assert!(answers.contains("<retry xmlns='urn:xmpp:http:upload:0' stamp='1970-01-01T00:05:02Z'/>"), "{answers}");
    let ids: std::collections::BTreeSet<_> =
        answers.match_indices("<get url='").map(|(at, _)| answers[at..at + 70].to_owned()).collect();
    assert_eq!(ids.len(), 3, "no two are the same");
}

#[test]
fn what_a_user_has_had_outlives_the_session_and_goes_with_the_account() {
    let (mut host, conn) = host();
    let answers = said(&host.ask(conn, &request("upload.localhost", REQUEST).repeat(3)));
    assert_eq!(answers.matches("<slot ").count(), 3, "{answers}");
    host.ask(conn, "</stream:stream>");
    let (conn, _) = host.arrive(1, "romeo");
    host.ask(conn, BIND);
    let refused = said(&host.ask(conn, &request("upload.localhost", REQUEST)));
    assert!(refused.contains("<retry "), "{refused}");
}

/// XEP-0363 4: each slot has an address of its own. After a backup is restored, the user's row has
/// an earlier serial number; an address issued since the backup must not lead to another file.
#[test]
fn a_restored_backup_repeats_no_address_xep0363_4() {
    let (mut host, conn) = host();
    let rows = |host: &Host| {
        let rows = host.disk.rows_of(Table::Private, "romeo@localhost");
        rows.map(|(sort, row)| (sort.to_vec(), row.to_vec())).collect::<Vec<_>>()
    };
    host.ask(conn, &request("upload.localhost", REQUEST));
    let backup = rows(&host);
    let before = slot_of(&said(&host.ask(conn, &request("upload.localhost", REQUEST))));
    assert_ne!(rows(&host), backup, "the row counts the slot");
    backup.iter().for_each(|(sort, row)| host.disk.put(Table::Private, "romeo@localhost", sort, row));
    let after = slot_of(&said(&host.ask(conn, &request("upload.localhost", REQUEST))));
    assert_ne!(before.id, after.id);
}

/// RFC 6120 4.9.3.6: nobody logs in at a service.
#[test]
fn a_stream_to_the_service_is_host_unknown_rfc6120_4_9_3_6() {
    let (mut host, _) = host();
    let conn = ConnId { slot: 5, generation: 1 };
    let listener = ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: false };
    host.turn(Input::Accepted { conn, listener, peer: [127, 0, 0, 1].into() });
    let answer = said(&host.ask(conn, &HEADER.replace("to='localhost'", "to='upload.localhost'")));
    assert!(answer.contains("<host-unknown"), "{answer}");
}

/// RFC 6121 8.5: messages and presence to the service have no effect.
#[test]
fn messages_and_presence_for_the_service_go_nowhere() {
    let (mut host, conn) = host();
    for to in ["upload.localhost", "x@upload.localhost", "upload.localhost/x"] {
        let message = said(&host.ask(conn, &format!("<message to='{to}' id='m'><body>b</body></message>")));
        assert!(message.contains("<service-unavailable"), "{to}: {message}");
        let presence = said(&host.ask(conn, &format!("<presence to='{to}' type='subscribe'/>")));
        assert!(presence.contains("<service-unavailable"), "{to}: {presence}");
        assert_eq!(said(&host.ask(conn, &format!("<presence to='{to}'/>"))), "", "{to}");
    }
}
