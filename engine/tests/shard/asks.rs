//! Requests from the server to clients (RFC 6120 8.2.3): the answer goes to the extension that
//! asked, once.

use throng_engine::io::Input;
use throng_engine::settings::Settings;
use throng_sim::host::{Host, said};

const IDLE_S: u32 = 10;

/// A shard, and what it sends when a session has been silent for too long.
fn asked() -> (Host, throng_engine::id::ConnId, String) {
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    settings.idle_s_max = IDLE_S;
    let mut host = Host::new(settings);
    host.account("romeo");
    let (conn, _) = host.bind(0, "romeo");
    let said = pass(&mut host, u64::from(IDLE_S) + 3);
    (host, conn, said)
}

fn pass(host: &mut Host, seconds: u64) -> String {
    let mut all = String::new();
    for _ in 0..seconds {
        host.now.mono_ms += 1_000;
        all += &said(&host.turn(Input::EndOfTurn));
    }
    all
}

fn counted(host: &Host) -> (u64, u64) {
    let counters = host.shard.counters();
    (counters.asks_sent.get(), counters.asks_answered.get())
}

/// XEP-0199 4.1 and 4.2: a client that does not support pings answers as well.
#[test]
fn one_who_answers_stays() {
    for answer in ["<iq type='result' id='ID' to='localhost'/>", "<iq type='error' id='ID'><error type='cancel'/></iq>"]
    {
        let (mut host, conn, ping) = asked();
        assert!(ping.contains("from='localhost' to='romeo@localhost/"), "{ping}");
        let id = ping.split("id='").nth(1).and_then(|rest| rest.split('\'').next()).expect("an id").to_owned();
        assert!(ping.contains("<ping xmlns='urn:xmpp:ping'/>") && counted(&host) == (1, 0), "{ping}");
        // An answer that nobody requested.
        host.ask(conn, "<iq type='result' id='other' to='localhost'/>");
        assert_eq!(counted(&host), (1, 0));
        host.ask(conn, &answer.replace("ID", &id));
        assert_eq!(counted(&host), (1, 1));
        // And nobody waits for it any more.
        host.ask(conn, &answer.replace("ID", &id));
        assert_eq!(counted(&host), (1, 1));
        assert!(!pass(&mut host, u64::from(IDLE_S) - 2).contains("stream:error"));
    }
}

/// RFC 6120 4.6.4.
#[test]
fn one_who_does_not_answer_ends() {
    let (mut host, _, _) = asked();
    let said = pass(&mut host, u64::from(IDLE_S) + 3);
    assert!(said.contains("<connection-timeout"), "{said}");
    assert_eq!(counted(&host), (1, 0), "asked once");
}
