//! `throng sar` of a remote server, by its operator's HTTP interface: the same as from its folder.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::{Server, THRONG, good, throng, until};

const TOKEN: &str = "correct-horse-battery-staple";

fn http(server: &Server) -> String {
    format!("http://{}", server.http())
}

/// `throng sar` of a server's HTTP interface, with its token.
fn remote(server: &Server, further: &[&str]) -> Output {
    sar(&http(server), &[further, &["--token-file", &server.token().0]].concat())
}

fn sar(from: &str, further: &[&str]) -> Output {
    throng(&[&["sar", "--from", from], further].concat())
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Times of the samples in a JSON output.
fn times(output: &Output) -> Vec<String> {
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let values = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    values
        .filter(|value| value["seconds"].is_number())
        .map(|value| value["time"].as_str().expect("text").into())
        .collect()
}

#[test]
fn a_time_is_told_alike_by_folder_and_port() {
    let server = Server::start_with(&["--admin-http", "127.0.0.1:0"]);
    let folder = format!("{}/recorder", server.folder());
    let folder = &*folder;
    let mut seen = Vec::new();
    until("samples", || {
        seen = times(&sar(folder, &["--json", "cpu"]));
        seen.len() >= 8
    });
    let (start, end) = (&*seen[2], &*seen[6]);
    for further in [
        &["--json", "all"][..],
        &["--csv", "-i", "2", "cpu", "shard", "queue"],
        &["--utc", "tcp", "thread"],
        &["--summary", "cpu", "shard.turns"],
    ] {
        let further = [further, &["-s", start, "-e", end]].concat();
        let (here, there) = (sar(folder, &further), remote(&server, &further));
        good(&here);
        good(&there);
        assert_eq!(String::from_utf8_lossy(&here.stdout), String::from_utf8_lossy(&there.stdout), "{further:?}");
        assert!(here.stdout.len() > 200, "{}", said(&here));
    }
    let lists = [sar(folder, &["--list"]), remote(&server, &["--list"])].map(|output| output.stdout);
    assert!(lists[0] == lists[1] && lists[0].len() > 1_000);
    // A time relative to the end of the recording, which continues: the end is determined remotely,
    // too.
    assert!(times(&remote(&server, &["--json", "cpu", "-s", "-4s"])).len() >= 3);
    let names = remote(&server, &["--json", "nothing"]);
    assert_eq!(names.status.code(), Some(2), "{}", said(&names));
}

#[test]
fn a_recording_in_memory_only_is_read_by_the_port() {
    let data = tempfile::tempdir().expect("a folder");
    // A file takes the place of the recording's folder: not even root can create the folder there.
    std::fs::create_dir_all(data.path().join("data")).expect("a folder");
    std::fs::write(data.path().join("data/recorder"), "").expect("a file");
    let server = Server::start_in(data, &["--admin-http", "127.0.0.1:0"]);
    until("samples", || times(&remote(&server, &["--json", "cpu", "shard"])).len() >= 3);
    let followed = remote(&server, &["--follow", "--json", "-n", "3", "shard.turns"]);
    good(&followed);
    assert_eq!(times(&followed).len(), 3, "{}", said(&followed));
}

#[test]
fn whoever_follows_is_told_when_the_server_goes_away() {
    let mut server = Server::start_with(&["--admin-http", "127.0.0.1:0"]);
    let url = http(&server);
    until("samples", || times(&remote(&server, &["--json", "cpu"])).len() >= 2);
    let mut follower = Command::new(THRONG)
        .args(["sar", "--follow", "--json", "shard.turns", "--from", &url, "--token-file", &server.token().0])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("throng runs");
    let mut out = BufReader::new(follower.stdout.take().expect("a pipe"));
    let mut seen = 0;
    while seen < 3 {
        let mut line = String::new();
        assert!(out.read_line(&mut line).expect("text") > 0, "it ended");
        seen += usize::from(line.contains("\"seconds\""));
    }
    server.child.kill().expect("it runs");
    server.child.wait().expect("it ends");
    let output = follower.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let said = said(&output);
    assert!(said.contains(&url) && (said.contains("refused") || said.contains("gone away")), "{said}");
}

#[test]
fn a_token_is_asked_for_and_what_is_wrong_is_said() {
    let data = tempfile::tempdir().expect("a folder");
    let (token, wrong, odd) = (data.path().join("token"), data.path().join("wrong"), data.path().join("odd"));
    std::fs::write(&token, format!("{TOKEN}\n")).expect("a file");
    std::fs::write(&wrong, "another-horse-battery").expect("a file");
    std::fs::write(&odd, "two words\r\n").expect("a file");
    let [token, wrong, odd] = [&token, &wrong, &odd].map(|path| path.to_str().expect("a plain path").to_owned());
    let server = Server::start_in(data, &["--admin-http", "127.0.0.1:0", "--admin-http-token", &token]);
    let url = http(&server);
    until("samples", || times(&sar(&url, &["--json", "cpu", "--token-file", &token])).len() >= 2);
    // A silent port, and one with another protocol.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let strange = format!("http://{}", other.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for stream in other.incoming() {
            let _ = stream.expect("a connection").write_all(b"220 mail.example ESMTP\r\n");
        }
    });
    let silent = format!("http://{silent}");
    for (from, further, code, says) in [
        (&*url, &["cpu"][..], 1, "a token is needed"),
        (&url, &["cpu", "--token-file", &wrong], 1, "another token"),
        (&url, &["cpu", "--token-file", &odd], 2, "without spaces"),
        (&url, &["cpu", "--token-file", "/there/is/none"], 1, "/there/is/none"),
        (&silent, &["cpu"], 1, "connection refused"),
        (&strange, &["cpu"], 1, &strange),
        ("http://", &["cpu"], 2, "http://HOST:PORT"),
        ("http://a b:1", &["cpu"], 2, "http://HOST:PORT"),
        ("http://127.0.0.1:1/x?y", &["cpu"], 2, "http://HOST:PORT"),
        ("https://127.0.0.1:1", &["cpu"], 2, "ssh -L"),
    ] {
        let output = sar(from, further);
        assert_eq!(output.status.code(), Some(code), "{from} {further:?}: {}", said(&output));
        assert!(said(&output).contains(says), "{from} {further:?}: {}", said(&output));
    }
}

#[test]
fn without_a_recorder_there_is_a_word() {
    let server = Server::start_with(&["--admin-http", "127.0.0.1:0", "--recorder=false"]);
    let output = remote(&server, &["cpu"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("the option recorder is off"), "{}", said(&output));
}
