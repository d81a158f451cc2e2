//! The running server's figures about itself, on both drivers: reasons of ended streams, stanzas by
//! kind, store operations, the use of time and memory; by its control socket, `/metrics` and the
//! recording (docs/recorder.md).

use std::collections::BTreeMap;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Client, Server, good, throng};

const LONG: Duration = Duration::from_secs(60);

/// The localpart of an account.
fn name(number: usize) -> String {
    format!("tester{number}")
}

fn start(driver: &str) -> Server {
    let server = Server::start_with(&["--driver", driver, "--admin-http", "127.0.0.1:0"]);
    server.add(&(0..7).map(name).collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>());
    server
}

impl Server {
    fn counters(&self) -> BTreeMap<String, u64> {
        let output = self.ctl(&["status", "--json"]);
        good(&output);
        let status: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let counters = status["counters"].as_object().expect("counters");
        counters.iter().map(|(name, value)| (name.clone(), value.as_u64().expect("a number"))).collect()
    }

    /// Waits until a counter has this value, and returns all counters.
    fn until(&self, name: &str, value: u64) -> BTreeMap<String, u64> {
        let end = Instant::now() + LONG;
        loop {
            let counters = self.counters();
            if counters[name] == value {
                return counters;
            }
            assert!(Instant::now() < end, "{name} is {} and not {value}: {counters:?}", counters[name]);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The seconds recorded so far, of these modules.
    fn recorded(&self, modules: &[&str]) -> Vec<Value> {
        let from = format!("{}/recorder", self.folder());
        let output = throng(&[&["sar", "--from", &from, "--json"], modules].concat());
        let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let objects = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        objects.filter(|object| object.get("seconds").is_some()).collect()
    }
}

fn ends_and_stanzas_are_counted(driver: &str) {
    let host = start(driver);
    let mut clients: Vec<Client> = (0..7).map(|number| host.client(&name(number), "r")).collect();
    let counters = host.until("conns_bound", 7);
    assert_eq!((counters["connections"], counters["sessions"], counters["logins"]), (7, 7, 7));
    assert_eq!(counters["streams_opened"], 14, "each login opens two");

    let sender = &mut clients[0];
    let to = format!("{}@localhost", name(1));
    for n in 0..5 {
        sender.send(&format!("<message to='{to}' type='chat'><body>{n}</body></message>"));
    }
    sender.ask("<iq type='get' id='p' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>", "id='p'");
    sender.send("<presence/>");
    let counters = host.until("stanzas_in", 7);
    assert_eq!(["messages_in", "presences_in", "iqs_in"].map(|name| counters[name]), [5, 1, 1]);

    // One that disconnects without closing its stream: the kernel resets the connection.
    let resets = clients.pop().expect("seven");
    socket2::SockRef::from(&resets.socket).set_linger(Some(Duration::ZERO)).expect("it lingers not");
    drop(resets);
    host.until("closed_lost", 1);
    good(&host.ctl(&["kick", &name(5)]));
    host.until("closed_operator", 1);
    clients.truncate(5);
    clients.pop().expect("five").ask("</stream:stream>", "</stream:stream>");
    host.until("closed_by_client", 1);
    let half = clients.pop().expect("four");
    half.socket.shutdown(Shutdown::Write).expect("it closes its direction");
    host.until("closed_by_client", 2);
    clients.pop().expect("three").send("<what/>");
    host.until("closed_protocol", 1);
    let mut garbage = Client::connect(&host.direct);
    garbage.send("GET / HTTP/1.0\r\n\r\n");
    let counters = host.until("closed_tls", 1);
    let ended: u64 = counters.iter().filter(|(name, _)| name.starts_with("closed_")).map(|(_, value)| value).sum();
    assert_eq!((ended, counters["streams_closed"]), (6, 6));
    let came = counters["accepted"] + counters["arrived"] - counters["departed"];
    assert_eq!(came, ended + counters["connections"] - counters["conns_closing"], "{counters:?}");
    let phases: u64 = counters.iter().filter(|(name, _)| name.starts_with("conns_")).map(|(_, value)| value).sum();
    assert_eq!(phases, counters["connections"]);
    drop(clients);
}

fn time_store_and_memory_are_recorded(driver: &str) {
    let host = start(driver);
    let mut sender = host.client(&name(0), "r");
    let to = format!("{}@localhost", name(1));
    let end = Instant::now() + LONG;
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("a number, not {value}"));
    // According to the kernel and to the thread itself: it cannot sleep while it runs. The two are not
    // read at the same moment, so a second in which the recorder had to wait for a processor is off.
    let agrees = |second: &Value| {
        ["0", "1"].iter().all(|shard| {
            let (own, kernel) = (&second["shard"][shard], &second["thread"][format!("shard-{shard}")]);
            let [sleep, cpu, usr, sys] = [&own["sleep"], &kernel["cpu"], &kernel["usr"], &kernel["sys"]]
                .map(|value| value.as_f64().unwrap_or(-1e3));
            (0.0..=110.0).contains(&sleep) && cpu + sleep < 130.0 && (usr + sys - cpu).abs() < 15.0
        })
    };
    // Some seconds of work, of which the recorder takes samples.
    let (busy, last) = loop {
        sender.send(&format!("<message to='{to}' type='chat'><body>{}</body></message>", "x".repeat(500)));
        sender.ask("<iq type='get' id='p' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>", "id='p'");
        std::thread::sleep(Duration::from_millis(5));
        let mut busy = host.recorded(&["store", "shard", "thread", "heap", "queue"]);
        // Not those before the login, in which accounts are added.
        busy.retain(|second| {
            second["store"]["commits"].as_f64().is_some_and(|rate| rate > 1.0)
                && second["heap"]["sessions"]["held"].as_f64().is_some_and(|held| held > 0.0)
        });
        if busy.len() >= 3
            && let Some(last) = busy.iter().rfind(|second| agrees(second)).cloned()
        {
            break (busy, last);
        }
        assert!(Instant::now() < end, "no such seconds within {LONG:?}: {busy:#?}");
    };
    for second in &busy {
        let store = &second["store"];
        let [mean, p99, max, sync] =
            ["commit_mean", "commit_p99", "commit_max", "sync_mean"].map(|f| number(&store[f]));
        assert!(0.0 < mean && mean <= max * 1.001 && p99 <= max && sync <= mean * 1.001, "{store}");
        assert!(
            number(&store["batches"]) >= number(&store["commits"]) && number(&store["journal_bytes"]) > 0.0,
            "{store}"
        );
    }
    for shard in ["0", "1"] {
        assert!(number(&last["shard"][shard]["sleeps"]) > 0.0, "{last}");
    }
    let sum = |field: &str| ["0", "1"].iter().map(|shard| number(&last["shard"][shard][field])).sum::<f64>();
    assert!(sum("events") > 1.0 && sum("turns") > 1.0 && sum("commits") > 1.0);
    let heap = |part: &str| number(&last["heap"][part]["held"]);
    assert!(heap("resident") > 1.0 && heap("reserved") > 1.0, "{}", last["heap"]);
    for part in ["connections", "sessions", "users", "network", "letters", "memtables", "recorder"] {
        assert!(heap(part) > 0.0, "{part}: {}", last["heap"]);
    }
    for kind in ["gate", "letters", "commits", "reads", "jobs", "outbound", "parked"] {
        assert!(number(&last["queue"][kind]["oldest"]) < 60_000.0, "{kind}: {}", last["queue"]);
    }
    let text = host.get("/metrics");
    for start in [
        "throng_shard_closed_lost_total{shard=\"1\"}",
        "throng_shard_conns_bound{shard=\"0\"}",
        "throng_store_commits_total ",
        "throng_reads_requests_total{thread=\"0\"}",
        "throng_memory_bytes{part=\"memtables\"}",
    ] {
        assert!(text.lines().any(|line| line.starts_with(start)), "{start} is not in:\n{text}");
    }
}

#[test]
fn ends_and_stanzas_are_counted_on_uring() {
    ends_and_stanzas_are_counted("uring");
}

#[test]
fn ends_and_stanzas_are_counted_on_epoll() {
    ends_and_stanzas_are_counted("epoll");
}

#[test]
fn time_store_and_memory_are_recorded_on_uring() {
    time_store_and_memory_are_recorded("uring");
}

#[test]
fn time_store_and_memory_are_recorded_on_epoll() {
    time_store_and_memory_are_recorded("epoll");
}
