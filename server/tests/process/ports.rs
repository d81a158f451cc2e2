//! Two servers on one host: the second gets none of the first one's clients, and says why. On both
//! drivers.

use std::net::TcpStream;
use std::process::Output;
use std::time::{Duration, Instant};

use crate::support::{Host, Server, has_uring, throng};

/// A server in a folder of its own, with these flags, that fails to start.
fn refused(flags: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().to_str().expect("a plain path");
    let off = ["--c2s", "127.0.0.1:0", "--c2s-tls", "127.0.0.1:0", "--admin-http", "off"];
    let keeps = |flag: &&str| !flags.contains(flag);
    let others = off.chunks(2).filter(|pair| keeps(&pair[0])).flatten().copied();
    let arguments: Vec<&str> =
        ["serve", "--data", data].into_iter().chain(others).chain(flags.iter().copied()).collect();
    throng(&arguments)
}

fn a_second_server_is_refused_the_port_of_the_first(driver: &str) {
    let mut server = Server::start_with(&["--driver", driver, "--admin-http", "127.0.0.1:0"]);
    let (pid, http) = (server.child.id(), server.http());
    let port = |address: &str| address.rsplit(':').next().expect("a port").to_owned();
    let everywhere = format!("[::]:{}", port(&server.plain));
    let plain = server.plain.clone();
    for (flag, address) in [("--c2s", &plain), ("--c2s-tls", &plain), ("--c2s", &everywhere), ("--admin-http", &http)] {
        let output = refused(&[flag, address, "--driver", driver]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let port = port(address);
        let expected = format!(
            "cannot listen on {address}: port {port} is in use by process {pid} (throng); stop it or pass another {flag}"
        );
        assert!(said.contains(&expected), "{said}");
    }
    // A killed server, with clients that are still connected, can use its port again at once.
    let clients: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(&plain).expect("the first serves")).collect();
    server.child.kill().expect("it runs");
    server.child.wait().expect("a child");
    let began = Instant::now();
    let again = Server::start_with(&["--driver", driver, "--c2s", &plain]);
    assert_eq!(again.plain, plain);
    assert!(began.elapsed() < Duration::from_secs(60));
    drop(clients);
}

#[test]
fn a_second_server_is_refused_the_port_of_the_first_on_epoll() {
    a_second_server_is_refused_the_port_of_the_first("epoll");
}

#[test]
fn a_second_server_is_refused_the_port_of_the_first_on_io_uring() {
    if has_uring() {
        a_second_server_is_refused_the_port_of_the_first("uring");
    }
}

/// Both wildcards of a port are meant as both, for each option that takes addresses.
#[test]
fn both_wildcards_of_a_port_can_be_listened_at() {
    // Held until all are chosen: none is chosen twice.
    let keys = ["--c2s", "--acme-http", "--admin-http", "--upload", "--upload-proxied", "--bytestreams"];
    let bound = keys.map(|_| std::net::TcpListener::bind("[::]:0").expect("a port"));
    let ports = bound.each_ref().map(|bound| bound.local_addr().expect("an address").port());
    drop(bound);
    let addresses: Vec<(&str, [String; 2])> = keys
        .into_iter()
        .zip(ports)
        .map(|(key, port)| (key, [format!("0.0.0.0:{port}"), format!("[::]:{port}")]))
        .collect();
    let mut flags = vec!["--domain", "localhost", "--virtual-hosts", "capulet.test", "--acme", "you@example.test"];
    // Nobody is there: only the listeners matter.
    flags.extend(["--acme-directory", "https://127.0.0.1:1/dir"]);
    for (key, [first, second]) in &addresses {
        // In both orders.
        let pair = if *key == "--upload" { [second, first] } else { [first, second] };
        pair.iter().for_each(|address| flags.extend([*key, address.as_str()]));
    }
    let mut host = Host::new(&[]);
    let token = host.data().join("token");
    std::fs::write(&token, "0123456789abcdef\n").expect("a file");
    std::fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("ours");
    let token = token.to_str().expect("a plain path").to_owned();
    flags.extend(["--c2s-tls", "off", "--i-know", "--admin-http-token", &token]);
    host.start(&flags);
    for (key, port) in keys.into_iter().zip(ports) {
        for from in ["127.0.0.1", "::1"] {
            TcpStream::connect((from, port)).unwrap_or_else(|error| panic!("{key} at {from}: {error}"));
        }
    }
}
