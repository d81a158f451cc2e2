//! `throng doctor` against this machine, misconfigured in a namespace of its own, and the proxy
//! configurations that it writes against the real proxies.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Client, LONG, Server, THRONG, good, read, throng, until};

/// Runs a shell script in a network namespace of its own, whose limits it may change. `None` where
/// that is not permitted.
fn apart(script: &str) -> Option<Output> {
    let may = Command::new("unshare").args(["-n", "true"]).output().is_ok_and(|done| done.status.success());
    if !may {
        eprintln!("skipped: no network name space can be made here (not root?)");
        return None;
    }
    Some(Command::new("unshare").args(["-n", "sh", "-c", script]).stdin(Stdio::null()).output().expect("unshare runs"))
}

fn findings(output: &Output) -> Vec<Value> {
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    told["findings"].as_array().expect("a list").clone()
}

fn state<'a>(findings: &'a [Value], name: &str) -> &'a str {
    let found = findings.iter().find(|finding| finding["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not among {findings:#?}"))["state"].as_str().expect("a word")
}

/// A setting in the namespace, and the finding that it causes.
const SPOILED: &[(&str, &str, &str)] = &[
    ("net.core.somaxconn", "128", "listen backlog"),
    ("net.ipv4.tcp_max_syn_backlog", "64", "SYN backlog"),
    ("net.ipv4.ip_local_port_range", "5000 6000", "listeners' ports"),
    ("net.ipv4.tcp_max_tw_buckets", "100", "resting ports"),
];

#[test]
fn each_fault_of_a_badly_prepared_host_is_named() {
    let set: String = SPOILED.iter().map(|(name, value, _)| format!("sysctl -qw {name}='{value}' && ")).collect();
    let doctor = format!("{THRONG} doctor --connections 1000000 --driver epoll --json");
    let Some(output) = apart(&format!("ulimit -n 1024; {set} {doctor}")) else { return };
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let found = findings(&output);
    for (name, _, finding) in SPOILED {
        assert_eq!(state(&found, finding), "short", "{name}");
        let now = found.iter().find(|f| f["name"] == *finding).and_then(|f| f["now"].as_str()).expect("a command");
        assert!(now.starts_with("sysctl -w net."), "{name}: {now}");
    }
    assert_eq!(state(&found, "descriptors of the server"), "short");
}

#[test]
fn what_is_applied_is_good_afterwards_and_can_be_undone() {
    // The namespace has these files of its own; a plan this small does not change those of the
    // host.
    let script = format!(
        "sysctl -qw net.core.somaxconn=128 && {THRONG} doctor -n 1000 --driver epoll --apply --json; sysctl -n net.core.somaxconn"
    );
    let Some(output) = apart(&script) else { return };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (told, after) = text.trim_end().rsplit_once('\n').expect("two lines");
    let told: Value = serde_json::from_str(told).expect("JSON");
    assert_eq!(after, "4096", "{told}");
    let applied = told["applied"].as_array().expect("a list");
    let one = applied.iter().find(|one| one["change"]["path"] == "/proc/sys/net/core/somaxconn").expect("it was set");
    assert_eq!(one["undo"], "echo '128' > /proc/sys/net/core/somaxconn");
    let found = told["findings"].as_array().expect("a list");
    assert_eq!(state(found, "listen backlog"), "good", "it was looked at again");
}

#[test]
fn the_text_says_what_to_do() {
    let output = throng(&["doctor", "--connections", "100000000"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.starts_with("This host, for 100,000,000 connections:"), "{text}");
    assert!(text.contains("SHORT memory") && text.contains("for good: add memory or reduce connections"), "{text}");
    assert!(!text.contains('\x1b'), "no colours but on a terminal");
    let wrong = throng(&["doctor", "front", "nginx", "--listen", "127.0.0.1:1", "--to", "127.0.0.1:1"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", String::from_utf8_lossy(&wrong.stderr));
}

/// A proxy, killed when dropped.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        // SIGQUIT, so that nginx ends its workers as well; it has exited once it has been waited
        // for.
        let _ = Command::new("kill").args(["-QUIT", &self.0.id().to_string()]).status();
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end && matches!(self.0.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port(host: &str) -> String {
    let bound = std::net::TcpListener::bind(format!("{host}:0")).expect("a port");
    bound.local_addr().expect("an address").to_string()
}

/// Whether this machine has an IPv6 loopback address.
fn has_ipv6() -> bool {
    let has = std::net::TcpListener::bind("[::1]:0").is_ok();
    if !has {
        eprintln!("skipped: no IPv6 here");
    }
    has
}

fn nginx(file: &Path) -> Command {
    let mut command = Command::new("nginx");
    command.arg("-c").arg(file).args(["-g", "daemon off;"]);
    command
}

fn haproxy(file: &Path) -> Command {
    let mut command = Command::new("haproxy");
    command.arg("-db").arg("-f").arg(file);
    command
}

fn caddy(file: &Path) -> Command {
    let mut command = Command::new("caddy");
    let folder = file.parent().expect("a folder");
    command.args(["run", "--adapter", "caddyfile", "--config"]).arg(file);
    for name in ["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"] {
        command.env(name, folder);
    }
    command
}

/// A server with a listener of this option behind a proxy configured by the doctor, both at `host`.
/// `None` where the proxy is not installed.
fn behind(
    program: &str,
    start: impl Fn(&Path) -> Command,
    host: &str,
    option: &str,
) -> Option<(Server, Proxy, String)> {
    if Command::new(program).arg("-v").output().is_err() {
        eprintln!("skipped: {program} is not installed");
        return None;
    }
    let (listen, to) = (free_port(host), free_port(host));
    let server = Server::start_with(&[option, &to, "--i-know"]);
    let file = server.data.path().join("front.conf");
    let path = file.to_str().expect("a plain path");
    let flags =
        ["doctor", "front", program, "-n", "1000", "--workers", "2", "--listen", &listen, "--to", &to, "--out", path];
    let told = throng(&flags);
    good(&told);
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains("checked by the program itself"), "{told}");
    let log = std::fs::File::create(server.data.path().join("proxy")).expect("a file");
    // As written, except for the PID file: another nginx may run on this machine.
    let text = read(&file).replace("/run/nginx-throng.pid", server.data.path().join("pid").to_str().expect("a path"));
    std::fs::write(&file, text).expect("it can be written");
    let child = start(&file).stdout(Stdio::null()).stderr(log).stdin(Stdio::null()).spawn().expect("the proxy starts");
    let proxy = Proxy(child);
    let end = Instant::now() + LONG;
    while std::net::TcpStream::connect(&listen).is_err() {
        assert!(Instant::now() < end, "the proxy does not start: {}", read(&server.data.path().join("proxy")));
        std::thread::sleep(Duration::from_millis(20));
    }
    Some((server, proxy, listen))
}

/// The server's sessions, once there are this many.
fn sessions(server: &Server, count: usize) -> Vec<Value> {
    let end = Instant::now() + LONG;
    loop {
        let told = server.ctl(&["sessions", "--json"]);
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        let rows: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        if rows.len() == count {
            return rows;
        }
        assert!(Instant::now() < end, "not all have come: {told}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Sessions through a proxy outlast the minute after which proxies usually close silent
/// connections; messages pass; and the server knows the clients' own addresses.
fn is_carried(server: &Server, listen: &str) {
    let out = server.data.path().join("front.json");
    let load = Command::new(THRONG)
        .args([
            "load",
            "--quiet",
            "--to",
            listen,
            "--sessions",
            "50",
            "--pairs",
            "5",
            "--hold-s",
            "75",
            "--in-flight",
            "0",
        ])
        .args(["--rate", "20", "--sources", "10", "--out", out.to_str().expect("a plain path")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut load = load.expect("the load starts");
    let sessions = sessions(server, 50);
    // The proxy itself has one address.
    let came_from = |ip: &str| sessions.iter().any(|row| row.to_string().contains(&format!("\"{ip}:")));
    let sources = (1..=10).filter(|last| came_from(&format!("127.0.0.{last}"))).count();
    assert_eq!(sources, 10, "the clients' addresses, not the proxy's: {sessions:?}");
    assert!(load.wait().expect("it ends").success(), "{}", read(&out));
    let result: Value = serde_json::from_str(&read(&out)).expect("a result");
    assert_eq!((&result["good"], &result["sessions"]["broken"]), (&true.into(), &0.into()), "{result}");
}

#[test]
fn nginx_carries_what_the_doctor_has_written_for_it() {
    let Some((server, _proxy, listen)) = behind("nginx", nginx, "127.0.0.1", "--c2s-proxied") else { return };
    is_carried(&server, &listen);
}

#[test]
fn haproxy_carries_what_the_doctor_has_written_for_it() {
    let Some((server, _proxy, listen)) = behind("haproxy", haproxy, "127.0.0.1", "--c2s-proxied") else { return };
    is_carried(&server, &listen);
}

/// Direct TLS, terminated by the server, over IPv6 on both sides of the proxy.
fn carries_tls_over_ipv6(program: &str, start: impl Fn(&Path) -> Command) {
    if !has_ipv6() {
        return;
    }
    let Some((server, _proxy, listen)) = behind(program, start, "[::1]", "--c2s-tls-proxied") else { return };
    let out = server.data.path().join("tls.json");
    let flags =
        ["load", "--quiet", "--to", &listen, "--tls", "direct", "--tls-insecure", "--sessions", "40", "--pairs", "10"];
    let mut load = Command::new(THRONG);
    load.args(flags).args(["--hold-s", "5", "--out"]).arg(&out);
    let load = load.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut load = load.expect("the load starts");
    let rows = sessions(&server, 40);
    assert!(rows.iter().all(|row| row["address"].as_str().is_some_and(|peer| peer.starts_with("[::1]:"))), "{rows:?}");
    assert!(rows.iter().all(|row| row.to_string().contains("1.3")), "TLS 1.3 each: {rows:?}");
    assert!(load.wait().expect("it ends").success(), "{}", read(&out));
    let result: Value = serde_json::from_str(&read(&out)).expect("a result");
    assert_eq!((&result["good"], &result["sessions"]["broken"]), (&true.into(), &0.into()), "{result}");
}

#[test]
fn nginx_carries_tls_over_ipv6() {
    carries_tls_over_ipv6("nginx", nginx);
}

#[test]
fn haproxy_carries_tls_over_ipv6() {
    carries_tls_over_ipv6("haproxy", haproxy);
}

/// The address that a proxy reports for a client counts, of either family, whatever family the
/// proxy itself uses.
#[test]
fn clients_of_both_families_are_known_by_what_the_proxy_says() {
    let to = free_port("127.0.0.1");
    let server = Server::start_with(&["--c2s-proxied", &to, "--i-know"]);
    let clients = [("u0", "TCP6 2001:db8::7 2001:db8::1 50007 5222"), ("u1", "TCP4 192.0.2.9 192.0.2.1 50009 5222")];
    let _clients = clients.map(|(user, proxied)| {
        let mut client = Client::connect(&to);
        client.send(&format!("PROXY {proxied}\r\n"));
        client.log_in(user, "secret", "r")
    });
    let mut peers: Vec<_> = sessions(&server, 2)
        .iter()
        .map(|row| row["address"].as_str().unwrap_or_else(|| panic!("{row}")).to_owned())
        .collect();
    peers.sort();
    assert_eq!(peers, ["192.0.2.9:50009", "[2001:db8::7]:50007"]);
}

#[test]
fn who_does_not_speak_the_protocol_gets_nothing_of_a_proxys_listener() {
    let to = free_port("127.0.0.1");
    let _server = Server::start_with(&["--c2s-proxied", &to, "--i-know"]);
    let mut client = Client::connect(&to);
    client.send("<?xml version='1.0'?><stream:stream to='localhost' xmlns='jabber:client'>");
    assert_eq!(client.rest(), "");
}

/// The paths of the server's table; one with a trailing slash includes those below it. A test build
/// has one more.
fn paths() -> Vec<String> {
    let rows = throng_engine::web::table::TABLE.iter().filter(|row| row.path != "/echo");
    let example = |path: &str| if path.len() > 1 && path.ends_with('/') { format!("{path}x") } else { path.to_owned() };
    rows.map(|row| example(row.path)).collect()
}

/// The output of curl with these arguments; a request must be answered within its time.
fn curl(arguments: &[&str]) -> String {
    let common = ["--silent", "--show-error", "--insecure", "--max-time", "20"];
    let done = Command::new("curl").args(common).args(arguments).stdin(Stdio::null()).output().expect("curl runs");
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Every path that the server serves passes each proxy for which the doctor writes a configuration.
/// For each path the server reports its methods (RFC 9110 9.3.7, OPTIONS); a proxy that does not
/// pass it answers 404 itself.
#[test]
fn every_path_of_the_table_passes_each_front() {
    let web = free_port("127.0.0.1");
    let server = Server::start_with(&["--http", &web, "--http-forwarded", "--notify", "any", "--i-know"]);
    let at = |name: &str| server.data.path().join(name).to_str().expect("a plain path").to_owned();
    let (certificate, key) = (format!("{}/tls/cert.pem", server.folder()), format!("{}/tls/key.pem", server.folder()));
    std::fs::write(at("both.pem"), read(Path::new(&certificate)) + &read(Path::new(&key))).expect("a file");
    let has = |program: &str| {
        let has = Command::new(program).arg("-v").output().is_ok();
        if !has {
            eprintln!("skipped: {program} is not installed");
        }
        has
    };
    let programs = [("nginx", nginx as fn(&Path) -> Command), ("haproxy", haproxy), ("caddy", caddy)];
    for (program, start) in programs.into_iter().filter(|(program, _)| has(program) && has("curl")) {
        let (listen, file) = (free_port("127.0.0.1"), at(&format!("{program}.conf")));
        let files = match program {
            "haproxy" => vec!["--certificate".to_owned(), at("both.pem")],
            _ => vec!["--certificate".to_owned(), certificate.clone(), "--key".to_owned(), key.clone()],
        };
        let flags =
            ["-n", "1000", "--workers", "2", "--domain", "localhost", "--listen-web", &listen, "--to-web", &web];
        let files: Vec<&str> = files.iter().map(String::as_str).chain(["--out", &file]).collect();
        good(&throng(&[&["doctor", "front", program], &flags[..], &files[..]].concat()));
        // As written, except for things that exist once per machine: nginx's PID file, Caddy's
        // administration port.
        let text = read(Path::new(&file)).replace("/run/nginx-throng.pid", &at("pid"));
        std::fs::write(&file, text.replace("{\n\tservers", "{\n\tadmin off\n\tservers")).expect("it can be written");
        let log = std::fs::File::create(at("proxy")).expect("a file");
        let mut command = start(Path::new(&file));
        let child = command.stdout(Stdio::null()).stderr(log).stdin(Stdio::null()).spawn().expect("the proxy starts");
        let _proxy = Proxy(child);
        until(program, || std::net::TcpStream::connect(&listen).is_ok());
        let port = listen.rsplit_once(':').expect("a port").1;
        let resolve = format!("localhost:{port}:127.0.0.1");
        let through = |path: &str, more: &[&str]| {
            let url = format!("https://localhost:{port}{path}");
            curl(&[more, &["--resolve", &resolve, &url]].concat())
        };
        for path in paths() {
            let (options, url) = (["--request", "OPTIONS", "--include"], format!("http://{web}{path}"));
            let answers = [through(&path, &options), curl(&[&options[..], &[url.as_str()]].concat())];
            let allowed = answers.map(|answer| {
                let line =
                    answer.lines().find(|line| line.to_ascii_lowercase().starts_with("allow:")).map(str::to_owned);
                line.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned()))
            });
            let [passed, direct] = allowed;
            assert!(direct.is_some() && passed == direct, "{program}: {path}: {passed:?} instead of {direct:?}");
        }
        assert_eq!(through("/throng.js", &[]), curl(&[&format!("http://{web}/throng.js")]), "{program}");
        assert_eq!(through("/metrics", &["--output", "/dev/null", "--write-out", "%{http_code}"]), "404", "{program}");
    }
}

/// The same without the programs: each configuration names each path.
#[test]
fn every_path_of_the_table_is_in_each_configuration() {
    for program in ["nginx", "haproxy", "caddy"] {
        let written = throng(&["doctor", "front", program, "--domain", "a.example"]);
        good(&written);
        let text = String::from_utf8_lossy(&written.stdout).into_owned();
        for path in paths() {
            let path = path.strip_suffix("/x").map_or(path.clone(), |below| format!("{below}/"));
            assert!(text.contains(&path), "{program} does not pass {path}:\n{text}");
        }
    }
}
