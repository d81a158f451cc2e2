//! `throng load channels` against `throng serve`, both as processes: every way to subscribe, both
//! drivers at both ends, batches, and a server that is killed and restarted.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::{Server, THRONG, good, read, throng};

/// A local address for HTTP that a killed server can use again.
pub(crate) fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").to_string()
}

/// The server's flags; `i-know` because these servers let everybody register.
fn flags<'a>(http: &'a str, driver: &'a str) -> Vec<&'a str> {
    let open = ["--notify", "load.", "--notify-publish-open", "--notify-publications-per-second", "0"];
    [&["--i-know", "--http", http, "--driver", driver, "--notify-items-max", "150"][..], &open].concat()
}

/// A result without its series of seconds, so that the output of a failing test is readable.
fn result(text: &str) -> Value {
    let mut result: Value = serde_json::from_str(text).expect("a result");
    result["seconds"].take();
    result
}

/// Every publication arrived, at each subscriber once per subscription.
fn all_came(result: &Value, subscriptions_per_channel: u64) {
    let count = |path: &str| result.pointer(path).and_then(Value::as_u64).expect("a count");
    assert_eq!((&result["good"], count("/deliveries/gaps")), (&true.into(), 0), "{result}");
    let confirmed = count("/publications/confirmed");
    assert!(confirmed > 20, "{result}");
    assert_eq!(count("/deliveries/received"), confirmed * subscriptions_per_channel, "{result}");
}

#[test]
fn every_way_gets_every_item_once_and_in_order_on_both_drivers() {
    for server_driver in ["uring", "epoll"] {
        let http = free_address();
        let server = Server::start_with(&flags(&http, server_driver));
        for driver in ["uring", "epoll"] {
            let common = [
                "load",
                "channels",
                "--to",
                &http,
                "--driver",
                driver,
                "--channels",
                "4",
                "--hold-s",
                "2",
                "--ramp-s-max",
                "30",
                "--quiet",
            ];
            let run = |further: &[&str]| {
                let output = throng(&[&common, further].concat());
                good(&output);
                result(&String::from_utf8_lossy(&output.stdout))
            };
            // 60 subscribers of two of the four channels each, some of which are disconnected from
            // time to time.
            let mixed =
                ["--subscribers", "60", "--by", "events,websocket,poll", "--channels-each", "2", "--threads", "2"];
            let mixed =
                [&mixed[..], &["--publishers", "2", "--rate", "60", "--flap-per-s", "20", "--flap-s", "0.2"]].concat();
            let result = run(&mixed);
            all_came(&result, 30);
            assert_eq!(result["server"]["pid"], server.child.id());
            assert!(result["connections"]["connects"].as_u64() > Some(62 + 10), "some were cut off: {result}");
            assert_eq!(result["errors"], serde_json::json!({}), "{result}");
            // In batches; no subscriber falls so far behind that items are dropped.
            for by in ["events", "websocket", "poll"] {
                let further = ["--subscribers", "8", "--by", by, "--publishers", "4", "--rate", "200", "--batch", "4"];
                all_came(&run(&further), 2);
            }
        }
    }
}

/// Confirmed items survive `kill -9`, unconfirmed ones are repeated with their keys, and
/// subscribers continue from their positions.
#[test]
fn a_server_that_is_killed_and_comes_back_loses_and_doubles_nothing() {
    let http = free_address();
    let mut server = Server::start_with(&flags(&http, "uring"));
    let out = server.data.path().join("killed.json");
    let mut load = Command::new(THRONG)
        .args([
            "load",
            "channels",
            "--to",
            &http,
            "--subscribers",
            "60",
            "--by",
            "events,websocket,poll",
            "--channels",
            "6",
        ])
        .args([
            "--publishers",
            "6",
            "--rate",
            "30",
            "--hold-s",
            "8",
            "--drain-s",
            "40",
            "--ramp-s-max",
            "30",
            "--quiet",
        ])
        .args(["--out", out.to_str().expect("a plain path")])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("throng runs");
    std::thread::sleep(Duration::from_secs(4));
    server.child.kill().expect("it runs");
    server.child.wait().expect("it ends");
    let mut again = server.command(&["serve", "--c2s", &free_address(), "--c2s-tls", "off"]);
    again.args(["--plain-auth", "--shards", "2"]).args(flags(&http, "uring"));
    let mut again = again.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("throng starts");
    let status = load.wait().expect("it is a child");
    again.kill().expect("it runs");
    again.wait().expect("it ends");
    let result = result(&read(&out));
    assert!(status.success(), "{result}");
    all_came(&result, 10);
    assert!(result["connections"]["broken"].as_u64() >= Some(60), "{result}");
}

#[test]
fn a_server_without_channels_ends_the_run_with_its_sentence() {
    let http = free_address();
    let _server = Server::start_with(&["--i-know", "--http", &http]);
    let output = throng(&["load", "channels", "--to", &http, "--subscribers", "5", "--quiet", "--hold-s", "1"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("a publication is refused with 404"), "{said}");
}
