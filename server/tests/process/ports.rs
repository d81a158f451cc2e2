//! Two servers on one host: the second gets none of the first one's clients, and says why. On both
//! drivers.

use std::net::TcpStream;
use std::process::Output;
use std::time::{Duration, Instant};

use crate::support::{Server, has_uring, throng};

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
