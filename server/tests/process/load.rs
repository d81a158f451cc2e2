//! `throng load` against `throng serve`, both as processes: every way to log in, several processes,
//! and an end by a signal.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{LONG, Server, THRONG, good, read, throng};

impl Server {
    /// A load of ten pairs for two seconds, and its result.
    fn load(&self, to: &str, further: &[&str]) -> Value {
        let flags = ["load", "--to", to, "--sessions", "50", "--pairs", "10", "--hold-s", "2", "--quiet"];
        let output = throng(&flags.into_iter().chain(further.iter().copied()).collect::<Vec<_>>());
        good(&output);
        serde_json::from_slice(&output.stdout).expect("a result")
    }
}

impl Server {
    /// A load with broken connections: its messages may arrive twice, which it reports, but none is
    /// lost or out of order.
    fn disturbed(&self, further: &[&str]) -> Value {
        let out = self.data.path().join("disturbed.json");
        let flags = ["load", "--to", &self.plain, "--sessions", "50", "--pairs", "10", "--hold-s", "2", "--quiet"];
        throng(&[&flags, further, &["--out", out.to_str().expect("a plain path")]].concat());
        let result: Value = serde_json::from_str(&read(&out)).expect("a result");
        assert_eq!((&result["messages"]["lost"], &result["messages"]["reordered"]), (&0.into(), &0.into()), "{result}");
        result
    }
}

/// Every user logged in, and every message arrived once.
fn all_came(result: &Value) {
    assert_eq!(result["sessions"]["arrived"], 50, "{result}");
    let received = result["messages"]["received"].as_u64().expect("a count");
    assert!(received > 20, "{result}");
    assert_eq!(result["messages"]["sent"], received, "{result}");
    assert_eq!(result["good"], true, "{result}");
}

#[test]
fn every_way_in_and_every_disturbance_keeps_the_messages() {
    let server = Server::start_with(&[]);
    let (plain, direct) = (server.plain.as_str(), server.direct.as_str());
    let result = server.load(plain, &["--processes", "2", "--threads", "2"]);
    all_came(&result);
    assert_eq!(result["generator"]["processes"], 2);
    assert_eq!(result["server"]["pid"], server.child.id());
    assert_eq!(result["errors"], serde_json::json!({}));
    all_came(&server.load(plain, &["--driver", "epoll", "--auth", "plain"]));
    let starttls = ["--tls", "starttls", "--tls-insecure", "--auth", "scram-sha-256"];
    all_came(&server.load(plain, &starttls));
    let tls = ["--tls", "direct", "--tls-insecure", "--auth", "scram-sha-1", "--in-flight", "0", "--rate", "200"];
    all_came(&server.load(direct, &tls));
    // Accounts that are registered at login.
    all_came(&server.load(plain, &["--register", "--user-prefix", "new", "--password", "other"]));
    // Users close their streams and return: messages sent meanwhile wait for them (XEP-0160), and
    // arrive once.
    let result = server.load(plain, &["--offline-per-s", "20", "--offline-s", "0.3", "--contacts", "2"]);
    all_came(&result);
    assert!(result["sessions"]["logins"].as_u64() > Some(60), "{result}");
    // Subscriptions were approved, so that others' presence arrives.
    assert!(result["presence"]["received"].as_u64() > Some(100), "{result}");
    // Receivers that do not read for a second receive everything afterwards.
    all_came(&server.load(plain, &["--stall-share", "0.5", "--stall-s", "1", "--in-flight", "5"]));
    // All connections are reset at once: each user returns. Without stream management, messages in
    // flight may be lost or arrive twice, since nobody knows whether they had arrived; this test
    // does not judge that.
    let result = server.disturbed(&["--storm-share", "1", "--storm-at-s", "0.5"]);
    assert_eq!(result["sessions"]["connects"], 100, "{result}");
}

/// Both ends keep only TLS keys and sequence numbers; each driver at one end has to work with each
/// at the other.
#[test]
fn over_tls_every_message_comes_on_both_drivers_of_both_ends() {
    for server_driver in ["uring", "epoll"] {
        let server = Server::start_with(&["--driver", server_driver]);
        for driver in ["uring", "epoll"] {
            for (to, tls) in [(&server.direct, "direct"), (&server.plain, "starttls")] {
                let further = ["--tls", tls, "--tls-insecure", "--driver", driver, "--in-flight", "5"];
                let result = server.load(to, &further);
                all_came(&result);
                assert_eq!(result["errors"], serde_json::json!({}), "{server_driver} {driver} {tls}");
            }
        }
    }
}

/// Passes one connection on to a server, and alters the server's byte with this number.
fn tamper(listener: TcpListener, to: String, number: usize) {
    let (mut client, _) = listener.accept().expect("a client");
    let mut server = TcpStream::connect(to).expect("the server");
    let (mut from_client, mut to_server) = (client.try_clone().expect("a socket"), server.try_clone().expect("one"));
    std::thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
    let (mut buffer, mut seen) = ([0; 4096], 0);
    while let Ok(count @ 1..) = server.read(&mut buffer) {
        if (seen..seen + count).contains(&number) {
            buffer[number - seen] ^= 1;
        }
        seen += count;
        if client.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}

/// RFC 8446 5.2: a record that does not authenticate ends the connection, and is counted by its
/// name.
#[test]
fn a_tampered_record_is_counted_as_what_it_is() {
    let server = Server::start_with(&[]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = listener.local_addr().expect("an address").to_string();
    let direct = server.direct.clone();
    // After the handshake: the certificate and the rest take about 800 bytes, a login more than
    // 1,000.
    std::thread::spawn(move || tamper(listener, direct, 1_500));
    let out = server.data.path().join("tampered.json");
    let flags = ["load", "--to", &to, "--sessions", "1", "--ramp-s-max", "2", "--quiet", "--tls", "direct"];
    throng(&[&flags[..], &["--tls-insecure", "--out", out.to_str().expect("a plain path")]].concat());
    let result: Value = serde_json::from_str(&read(&out)).expect("a result");
    let kind = "tls: the peer broke the TLS protocol: a record that does not authenticate";
    assert_eq!(result["errors"][kind], 1, "{result}");
}

#[test]
fn a_signal_ends_a_run_cleanly_and_its_result_is_written() {
    let server = Server::start_with(&[]);
    let out = server.data.path().join("result.json");
    let mut child = Command::new(THRONG)
        .args(["load", "--to", &server.plain, "--sessions", "50", "--pairs", "10", "--hold-s", "1000", "--quiet"])
        .args(["--processes", "2", "--out", out.to_str().expect("a plain path")])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("throng runs");
    // Long enough for all to have logged in.
    std::thread::sleep(Duration::from_secs(6));
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
    let end = Instant::now() + LONG;
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is a child") {
            break status;
        }
        assert!(Instant::now() < end, "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(status.success(), "{status}");
    let result: Value = serde_json::from_str(&read(&out)).expect("a result");
    all_came(&result);
    // The streams were closed and no connection was cut.
    assert_eq!(result["errors"], serde_json::json!({}), "{result}");
}
