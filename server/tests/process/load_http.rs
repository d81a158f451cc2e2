//! `throng load` over WebSocket (RFC 7395) and BOSH (XEP-0124, XEP-0206) against `throng serve`,
//! both as processes: both drivers at both ends, disappearing networks, lost answers, and a server
//! that is killed and restarted.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::support::{Server, THRONG, read, throng};

/// A local address for HTTP that a killed server can use again.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").to_string()
}

/// A server with HTTP at this address; `i-know` because these servers let everybody register.
fn server(http: &str, further: &[&str]) -> Server {
    Server::start_with(&[&["--i-know", "--http", http], further].concat())
}

/// Runs a load of ten pairs for two seconds; returns its result without the series of seconds.
fn load(to: &str, transport: &str, further: &[&str]) -> Value {
    let mut flags = vec!["load", "--to", to, "--transport", transport, "--sessions", "50", "--quiet"];
    let usual = [["--pairs", "10"], ["--hold-s", "2"], ["--drain-s", "15"], ["--ramp-s-max", "30"]];
    flags.extend(usual.iter().filter(|flag| !further.contains(&flag[0])).flatten());
    let output = throng(&[&flags, further].concat());
    let mut result: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    result["seconds"].take();
    result
}

fn count(result: &Value, path: &str) -> u64 {
    result.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path} in {result}"))
}

/// Every user logged in, every message arrived once, and there were no errors.
fn all_came(result: &Value) {
    assert_eq!((count(result, "/sessions/arrived"), &result["errors"]), (50, &serde_json::json!({})), "{result}");
    let received = count(result, "/messages/received");
    assert!(received > 20, "{result}");
    assert_eq!((count(result, "/messages/sent"), &result["good"]), (received, &true.into()), "{result}");
}

/// Every message arrived in order. Those in the last answers to a BOSH session may arrive again in
/// the next session: the server learns of a received answer with the following request (XEP-0124
/// 9), and after the end of the session there is none.
fn none_lost(result: &Value) {
    assert_eq!((count(result, "/messages/lost"), count(result, "/messages/reordered")), (0, 0), "{result}");
}

#[test]
fn over_websocket_and_bosh_every_message_comes_on_both_drivers_of_both_ends() {
    for server_driver in ["uring", "epoll"] {
        let (http, https) = (free_address(), free_address());
        let server = server(&http, &["--https", &https, "--driver", server_driver]);
        for driver in ["uring", "epoll"] {
            for transport in ["websocket", "bosh"] {
                let run = |to: &str, further: &[&str]| {
                    let result = load(to, transport, &[&["--driver", driver], further].concat());
                    all_came(&result);
                    result
                };
                let result = run(&http, &["--threads", "2", "--in-flight", "3", "--contacts", "2"]);
                assert_eq!(result["server"]["pid"], server.child.id());
                assert_eq!(count(&result, "/bosh/requests") > 200, transport == "bosh", "{result}");
                assert_eq!(count(&result, "/bosh/requests_again"), 0, "{result}");
                run(&https, &["--tls", "direct", "--tls-insecure", "--in-flight", "0", "--rate", "100"]);
            }
        }
    }
}

/// Users that leave, receivers that do not read, and logins in quick succession, over both.
#[test]
fn every_disturbance_over_websocket_and_bosh_keeps_the_messages() {
    let http = free_address();
    let _server = server(&http, &[]);
    for transport in ["websocket", "bosh"] {
        // Messages sent meanwhile wait for them (XEP-0160).
        for login in ["sasl", "fast"] {
            let result = load(&http, transport, &["--login", login, "--offline-per-s", "20", "--offline-s", "0.3"]);
            match transport {
                "websocket" => all_came(&result),
                _ => none_lost(&result),
            }
            assert!(count(&result, "/sessions/logins") > 60, "{result}");
        }
        all_came(&load(&http, transport, &["--stall-share", "0.5", "--stall-s", "1", "--in-flight", "5"]));
        all_came(&load(&http, transport, &["--register", "--user-prefix", transport, "--password", "other"]));
        all_came(&load(&http, transport, &["--pipelined", "--auth", "plain", "--processes", "2"]));
        all_came(&load(&http, transport, &["--login", "sasl2", "--resume"]));
    }
    // A reset WebSocket ends its session, as over TCP.
    let result = load(&http, "websocket", &["--storm-share", "1", "--storm-at-s", "0.5"]);
    none_lost(&result);
    assert_eq!(count(&result, "/sessions/connects"), 100, "{result}");
}

/// XEP-0124 14.3: a session outlives its connections, so each message arrives once although they
/// are reset.
#[test]
fn a_network_that_goes_away_ends_no_session_over_bosh() {
    let http = free_address();
    let _server = server(&http, &[]);
    let storm = ["--storm-share", "1", "--storm-at-s", "0.5", "--in-flight", "3"];
    for further in [&["--flap-per-s", "30", "--flap-s", "0.3"][..], &storm] {
        let result = load(&http, "bosh", further);
        all_came(&result);
        assert_eq!(count(&result, "/sessions/logins"), 50, "{result}");
        assert!(count(&result, "/bosh/requests_again") >= 20, "{result}");
    }
    // Absent for longer than a session lives: a new one.
    let result = load(&http, "bosh", &["--flap-per-s", "5", "--flap-s", "29", "--pairs", "0"]);
    assert_eq!((count(&result, "/sessions/broken"), &result["good"]), (0, &true.into()), "{result}");
}

/// Passes connections on to a server. Of every Nth answer with content nothing is passed on, and
/// its connection is closed.
fn losing(to: String, every: u64) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let (answers, lost) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counted = lost.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let (to, answers, lost) = (to.clone(), answers.clone(), lost.clone());
            std::thread::spawn(move || {
                let mut server = TcpStream::connect(to).expect("the server");
                let (mut from, mut into) = (client.try_clone().expect("one"), server.try_clone().expect("one"));
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut into);
                    let _ = into.shutdown(Shutdown::Both);
                });
                let (mut buffer, mut client) = ([0; 65_536], client);
                while let Ok(read @ 1..) = server.read(&mut buffer) {
                    let has_message = buffer[..read].windows(8).any(|window| window == b"<message");
                    if has_message && answers.fetch_add(1, Ordering::Relaxed) % every == every - 1 {
                        lost.fetch_add(1, Ordering::Relaxed);
                        break;
                    }
                    if client.write_all(&buffer[..read]).is_err() {
                        break;
                    }
                }
                let _ = client.shutdown(Shutdown::Both);
                let _ = server.shutdown(Shutdown::Both);
            });
        }
    });
    (address, counted)
}

/// XEP-0124 14.3: a lost answer is repeated for the same request.
#[test]
fn an_answer_that_is_lost_on_the_way_loses_and_doubles_nothing() {
    let http = free_address();
    let _server = server(&http, &[]);
    let (to, lost) = losing(http, 20);
    for driver in ["uring", "epoll"] {
        let before = lost.load(Ordering::Relaxed);
        let result = load(&to, "bosh", &["--driver", driver, "--in-flight", "3"]);
        all_came(&result);
        assert!(lost.load(Ordering::Relaxed) > before, "none was lost");
        assert!(count(&result, "/bosh/requests_again") >= lost.load(Ordering::Relaxed) - before, "{result}");
        assert_eq!(count(&result, "/sessions/logins"), 50, "{result}");
    }
}

/// A BOSH session does not outlive its server, and its error says so; every user returns, and
/// archived messages arrive.
#[test]
fn a_server_that_is_killed_and_comes_back_has_everyone_again() {
    for transport in ["websocket", "bosh"] {
        let http = free_address();
        let mut server = server(&http, &[]);
        let out = server.data.path().join("killed.json");
        let mut load = Command::new(THRONG)
            .args(["load", "--to", &http, "--transport", transport, "--sessions", "50", "--pairs", "10", "--quiet"])
            .args(["--in-flight", "0", "--rate", "50", "--hold-s", "12", "--drain-s", "40", "--ramp-s-max", "30"])
            .args(["--out", out.to_str().expect("a plain path")])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("throng runs");
        std::thread::sleep(Duration::from_secs(4));
        server.child.kill().expect("it runs");
        server.child.wait().expect("it ends");
        let mut again = server.command(&["serve", "--c2s", &free_address(), "--c2s-tls", "off", "--http", &http]);
        again.args(["--plain-auth", "--shards", "2", "--i-know"]);
        let mut again = again.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("throng starts");
        load.wait().expect("it is a child");
        again.kill().expect("it runs");
        again.wait().expect("it ends");
        let mut result: Value = serde_json::from_str(&read(&out)).expect("a result");
        result["seconds"].take();
        assert_eq!((count(&result, "/messages/lost"), count(&result, "/messages/reordered")), (0, 0), "{result}");
        assert_eq!((count(&result, "/sessions/broken"), count(&result, "/sessions/logins")), (50, 100), "{result}");
    }
}

#[test]
fn where_there_is_neither_the_errors_say_what_to_do() {
    let http = free_address();
    let server = server(&http, &[]);
    for (to, transport, path, said) in [
        (&http, "websocket", "/nothing", "websocket: the server answers 404 to GET /nothing; see --path and --to"),
        (&http, "bosh", "/nothing", "bosh: the server answers 404 to POST /nothing; see --path and --to"),
        (&server.plain, "bosh", "/http-bind", "http: the answer is not HTTP/1.1; is --to where the server has HTTP?"),
        (&server.plain, "websocket", "/x", "http: the answer is not HTTP/1.1; is --to where the server has HTTP?"),
    ] {
        let result = load(to, transport, &["--path", path, "--ramp-s-max", "2", "--hold-s", "0.1", "--drain-s", "0.1"]);
        assert!(result["errors"][said].as_u64() > Some(0), "{said}: {result}");
    }
}
