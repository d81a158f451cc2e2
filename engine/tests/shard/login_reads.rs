//! What a login reads of the store: few queries, all in one question.

use throng_engine::id::{ConnId, Service};
use throng_engine::io::{Effect, Input, ListenerKind};
use throng_engine::settings::Settings;
use throng_engine::store::waiting::{Apart, Cursor, Holder, Transient};
use throng_engine::store::{Batch, Query, archive::Entry};
use throng_sim::host::{BIND, HEADER, Host, said};

const PASSWORD: &str = "balcony";
/// `\0romeo\0balcony`
const AUTH: &str = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AHJvbWVvAGJhbGNvbnk=</auth>";

/// Queries of a login of a user for whom nothing waits: the account, the log's cursor, its last
/// entry, the roster.
const QUERIES_MAX: usize = 4;

/// Logs in and sends presence; returns the queries of each question to the store, and the output.
fn log_in(host: &mut Host) -> (Vec<Vec<Query>>, String) {
    let conn = ConnId { slot: 0, generation: 1 };
    let listener = ListenerKind { direct_tls: true, starttls: false, plain_auth: true, registration: false };
    let mut all = host.turn(Input::Accepted { conn, listener, peer: [127, 0, 0, 1].into() });
    for text in [&[HEADER, AUTH].concat(), HEADER, BIND, "<presence/>"] {
        all.extend(host.ask(conn, text));
    }
    let said = said(&all);
    let questions = all.into_iter().filter_map(|effect| match effect {
        Effect::Read { queries, .. } => Some(queries),
        _ => None,
    });
    (questions.collect(), said)
}

fn host(rows: impl FnOnce(&mut Batch)) -> Host {
    // All rows of the test have lower numbers.
    let mut settings = Settings { number_floor: 100, ..Settings::new("localhost", 1, [0; 32], 0) };
    settings.serve_service("pubsub.localhost", Service::PubSub);
    let mut host = Host::new(settings);
    host.account_with("romeo", PASSWORD, 1);
    let mut batch = Batch::new();
    rows(&mut batch);
    host.disk.apply(&batch);
    host
}

fn entry(waits: bool, xml: &[u8]) -> Entry<'_> {
    Entry { incoming: true, waits, time_ms: 1, peer: "juliet@localhost/o", xml, trail: b"" }
}

const ROMEO: &str = "romeo@localhost";
const MESSAGE: &[u8] = b"<message from='juliet@localhost/o' to='romeo@localhost'><body>waits</body></message>";

#[test]
fn a_login_of_a_user_for_whom_nothing_waits_is_one_question_of_few_queries() {
    let nothing = |_: &mut Batch| {};
    let all_received = |batch: &mut Batch| {
        entry(true, MESSAGE).put(batch, ROMEO, 7);
        Cursor { number: 9, count: 0, bytes: 0 }.put(batch, ROMEO);
    };
    for mut host in [host(nothing), host(all_received)] {
        let (questions, said) = log_in(&mut host);
        assert!(said.contains("<presence from='romeo@localhost/") && !said.contains("<message"), "{said}");
        assert_eq!(questions.len(), 1, "{questions:#?}");
        assert!(questions.concat().len() <= QUERIES_MAX, "{questions:#?}");
    }
}

/// RFC 6121 8.5.2.2.1: whatever kind of row it is in.
#[test]
fn what_waits_is_read_and_delivered() {
    let kept = |batch: &mut Batch| entry(true, MESSAGE).put(batch, ROMEO, 7);
    let after_the_cursor = |batch: &mut Batch| {
        entry(true, MESSAGE).put(batch, ROMEO, 7);
        Cursor { number: 6, count: 1, bytes: 9 }.put(batch, ROMEO);
    };
    let transient = |batch: &mut Batch| {
        Transient { of: None, entry: entry(true, MESSAGE) }.put(batch, ROMEO, 7);
        Cursor { number: 6, count: 1, bytes: 9 }.put(batch, ROMEO);
    };
    // Of a session that has ended.
    let apart = |batch: &mut Batch| {
        let holder = Holder { life: 99, session: throng_engine::id::SessionId { slot: 1, generation: 1 } };
        Apart { holder, entry: entry(false, MESSAGE) }.put(batch, ROMEO, 7);
        Cursor { number: 9, count: 0, bytes: 0 }.put(batch, ROMEO);
    };
    let rows: [fn(&mut Batch); 4] = [kept, after_the_cursor, transient, apart];
    for rows in rows {
        let (questions, said) = log_in(&mut host(rows));
        assert_eq!(said.matches("<body>waits</body>").count(), 1, "{said} {questions:#?}");
    }
}
