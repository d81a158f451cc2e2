//! Capacity for connections: a server at its limit says so, with what to do about it, and says when
//! it continues.

use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::support::{Server, THRONG, good, has_uring, read, until};

/// The drivers available on this machine.
fn drivers() -> Vec<&'static str> {
    if has_uring() { vec!["uring", "epoll"] } else { vec!["epoll"] }
}

#[test]
fn a_server_without_room_for_more_connections_says_so_everywhere_and_says_when_it_goes_on() {
    for driver in drivers() {
        let flags = ["--driver", driver, "--shard-connections-max", "16", "--admin-http", "127.0.0.1:0"];
        let server = Server::start_with(&flags);
        let status = || {
            let output = server.ctl(&["status"]);
            good(&output);
            String::from_utf8(output.stdout).expect("text")
        };
        assert!(status().contains(" with a session, ") && !status().contains("paused"), "{}", status());
        let clients: Vec<TcpStream> = (0..120).map(|_| TcpStream::connect(&server.plain).expect("taken in")).collect();
        let sentence = "paused at 2 of 2 shards, with room for ";
        until("all shards are full", || status().contains(sentence));
        until("the dashboard knows", || server.get("/api/now").contains(sentence));
        let remedy = "raise shard_connections_max";
        let (told, log, ready, now) = (status(), server.log(), server.get("/ready"), server.get("/api/now"));
        let metrics = server.get("/metrics");
        for said in [&told, &ready, &now] {
            assert!(said.contains(sentence) && said.contains(remedy), "{driver}: {said}");
        }
        assert!(ready.contains("\"ready\":false"), "{ready}");
        assert!(metrics.contains("\nthrong_shards_not_accepting 2\n"), "{metrics}");
        let line = log.lines().find(|line| line.contains("accepting connections is paused")).unwrap_or_default();
        assert!(line.contains(&format!("address={}", server.plain)) && line.contains(remedy), "{driver}: {log}");
        assert!(line.contains("the shard has reached its limit of 1"), "{driver}: {line}");
        let top = server.command(&["top", "--once"]).output().expect("throng runs");
        let top = String::from_utf8_lossy(&top.stdout).into_owned();
        assert!(top.contains("accepting connections is paused at 2 of 2"), "{driver}: {top}");
        drop(clients);
        until("they are taken in again", || server.log().matches("connections are accepted again").count() >= 2);
        until("nothing is said any more", || !status().contains("paused"));
        assert!(server.get("/ready").contains("\"ready\":true"), "{}", server.get("/ready"));
        TcpStream::connect(&server.plain).expect("taken in");
    }
}

/// With few descriptors there is capacity for few connections: the server says so at the start,
/// with the limit and how to raise it.
#[test]
fn a_server_that_has_few_descriptors_says_so_when_it_starts() {
    for (driver, limit, few) in [("epoll", 2_048, true), ("uring", 2_048, true), ("epoll", 524_288, false)] {
        let most = std::process::Command::new("sh").args(["-c", "ulimit -Hn"]).output().expect("a shell");
        let most = String::from_utf8(most.stdout).expect("text").trim().parse().unwrap_or(u64::MAX);
        if driver == "uring" && !has_uring() || limit > most {
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("out");
        let file = std::fs::File::create(&out).expect("a file");
        let serve = format!(
            "ulimit -n {limit}; exec {THRONG} serve --c2s 127.0.0.1:0 --c2s-tls off --shards 1 --driver {driver} --data {}",
            folder.path().join("data").display()
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &serve]).stdin(Stdio::null()).stdout(file.try_clone().expect("a file")).stderr(file);
        let mut child = shell.spawn().expect("a shell");
        until("a server that serves", || {
            assert!(matches!(child.try_wait(), Ok(None)), "{driver} does not start: {}", read(&out));
            read(&out).contains("Next:")
        });
        child.kill().expect("ours");
        child.wait().expect("ours");
        let sentence = format!("the limit on descriptors, {limit}, leaves room for ");
        let said = read(&out);
        assert_eq!(said.contains(&sentence) && said.contains("LimitNOFILE= of the service"), few, "{driver}: {said}");
    }
}
