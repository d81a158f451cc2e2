//! Continuous backup to a bucket of S3: moto, a stand-in for Amazon's services. `tests/run` installs
//! it. Without it this test says so and checks nothing.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::channels::free_address;
use crate::continuous::{Load, backup, flags, has_full_piece, has_promised, now_ms};
use crate::restored::ask;
use crate::support::{Host, throng, until};

/// The program; `None`, with a word, if it is not installed.
fn program() -> Option<PathBuf> {
    let named = std::env::var_os("MOTO_SERVER").map(PathBuf::from);
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut there = named.into_iter().chain(std::env::split_paths(&folders).map(|folder| folder.join("moto_server")));
    let found = there.find(|program| program.is_file());
    if found.is_none() {
        eprintln!("moto is not installed: nothing is checked");
    }
    found
}

/// The service, with an empty bucket; it ends with the test.
struct Service {
    child: Child,
    address: String,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Service {
    fn start(program: &Path) -> Service {
        let address = free_address();
        let (host, port) = address.split_once(':').expect("an address");
        let mut command = Command::new(program);
        command.args(["-H", host, "-p", port]).stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
        let service = Service { child: command.spawn().expect("moto starts"), address };
        until("moto", || TcpStream::connect(&service.address).is_ok());
        service.ask("PUT", "/bucket");
        let listed = service.ask("GET", "/bucket?list-type=2");
        assert!(listed.contains("<Name>bucket</Name>"), "{listed}");
        service
    }

    fn ask(&self, method: &str, path: &str) -> String {
        let host = &self.address;
        ask(
            host,
            &format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
        )
    }

    /// Time of the newest piece of the journal: all that was acknowledged before is in it.
    fn shipped_ms(&self) -> u64 {
        let listed = self.ask("GET", "/bucket?list-type=2&prefix=live/a/");
        let names = listed.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next());
        let pieces = names.filter(|name| name.contains("/journal/"));
        pieces.filter_map(|name| name.rsplit('-').next()?.parse().ok()).max().unwrap_or(0)
    }
}

const PASS: u8 = 0;
/// Nothing is passed on, and nothing ends.
const STALL: u8 = 1;
/// All connections end.
const CUT: u8 = 2;

/// The network to the service.
struct Network {
    address: String,
    state: Arc<AtomicU8>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl Network {
    /// Its threads end with the test's process.
    fn to(service: &str) -> Network {
        let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
        let address = listener.local_addr().expect("an address").to_string();
        let (state, connections) = (Arc::new(AtomicU8::new(PASS)), Arc::<Mutex<Vec<TcpStream>>>::default());
        let network = Network { address, state: state.clone(), connections: connections.clone() };
        let service = service.to_owned();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&service) else { continue };
                if state.load(Ordering::Acquire) == CUT {
                    continue;
                }
                let both = [(&client, &server), (&server, &client)];
                let both =
                    both.map(|(from, to)| (from.try_clone().expect("a socket"), to.try_clone().expect("a socket")));
                for (from, to) in both {
                    let state = state.clone();
                    std::thread::spawn(move || pass(from, to, &state));
                }
                connections.lock().expect("sound").extend([client, server]);
            }
        });
        network
    }

    fn set(&self, state: u8) {
        self.state.store(state, Ordering::Release);
        if state == CUT {
            for socket in self.connections.lock().expect("sound").drain(..) {
                let _ = socket.shutdown(Shutdown::Both);
            }
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, state: &AtomicU8) {
    let mut buffer = [0; 65536];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        while state.load(Ordering::Acquire) == STALL {
            std::thread::sleep(Duration::from_millis(5));
        }
        if to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

#[test]
fn a_bucket_that_stalls_and_a_network_that_is_cut_cost_nothing() {
    let Some(program) = program() else { return };
    let service = Service::start(&program);
    let network = Network::to(&service.address);
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("a path").to_owned()
    };
    let credentials = file("credentials", "[default]\naws_access_key_id = a\naws_secret_access_key = b\n");
    let key = file("key", &"0123456789abcdef".repeat(4));
    let endpoint = format!("http://{}", network.address);
    let remote = ["--backup-endpoint", &*endpoint, "--backup-credentials", &*credentials, "--backup-key", &*key];
    let url = "s3://bucket/live/a";
    let mut host = Host::new(&["romeo"]);
    let http = free_address();
    host.start(&[&flags(&http, url)[..], &remote].concat());
    has_full_piece(&host);
    let load = Load::begin(&http);
    let more = || {
        let before = load.promised();
        until("more load", || load.promised().iter().zip(&before).all(|((_, now), (_, then))| now > &(then + 20)));
    };
    more();
    network.set(STALL);
    until("a lag", || backup(&host)["lag_ms"].as_u64() > Some(300));
    more();
    assert_eq!(backup(&host)["trouble"], serde_json::Value::Null, "it is slow, no more");
    network.set(CUT);
    until("trouble", || backup(&host)["trouble"].is_string());
    more();
    network.set(PASS);
    until("no trouble", || backup(&host)["trouble"].is_null());
    more();
    let (promised, then_ms) = (load.promised(), now_ms());
    until("the backup is there", || service.shipped_ms() >= then_ms);
    host.kill();
    load.end();
    std::fs::remove_dir_all(host.data()).expect("removed");
    drop(host);

    let output = throng(&[&["store", "drill", "--from", url, "--json"], &remote[..]].concat());
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(output.status.success() && told["wrong"] == serde_json::json!([]), "{told}");
    let mut host = Host::new(&[]);
    host.good(&[&["store", "restore", "--from", url], &remote[..]].concat());
    assert!(host.good(&["store", "check"]).ends_with("check: good\n"));
    host.start(&["--c2s-tls", "off", "--i-know", "--http", &http, "--notify", "c", "--notify-publish-open"]);
    has_promised(&http, &promised);
    host.stop();

    drop(service);
    let output = throng(&[&["store", "drill", "--from", url], &remote[..]].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}
