//! An independent peer: `openssl s_server` over a loopback socket.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::*;
use crate::TlsFault;

/// `openssl s_server`, which echoes reversed lines to its client (`-rev`), or sends what the test
/// types.
struct Server {
    child: Child,
    address: String,
    _dir: tempfile::TempDir,
}

impl Server {
    fn start(arguments: &[&str]) -> Server {
        let dir = tempfile::TempDir::new().unwrap();
        let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
        std::fs::write(&cert, certificate().cert.pem()).unwrap();
        std::fs::write(&key, certificate().signing_key.serialize_pem()).unwrap();
        let mut child = Command::new("openssl")
            .args(["s_server", "-accept", "127.0.0.1:0", "-naccept", "1"])
            .args(["-alpn", "xmpp-client"])
            .args(arguments)
            .arg("-cert")
            .arg(&cert)
            .arg("-key")
            .arg(&key)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl is installed");
        // "ACCEPT 127.0.0.1:PORT", when it listens.
        let stdout = child.stdout.as_mut().unwrap();
        let (mut line, mut byte) = (String::new(), [0]);
        let address = loop {
            stdout.read_exact(&mut byte).expect("it says where it listens");
            match (byte[0], line.strip_prefix("ACCEPT ")) {
                (b'\n', Some(address)) => break address.to_owned(),
                (b'\n', None) => line.clear(),
                (byte, _) => line.push(byte.into()),
            }
        };
        Server { child, address, _dir: dir }
    }

    fn types(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client on a socket.
struct Talk {
    socket: TcpStream,
    tls: TlsClient,
    got: Vec<u8>,
    fault: Option<TlsFault>,
    ended: bool,
    /// Whether to alter a byte of the next read.
    tamper: bool,
}

impl Talk {
    fn new(server: &Server, terms: &Terms) -> Talk {
        let socket = TcpStream::connect(&server.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let tls = TlsClient::new(terms).unwrap();
        let mut talk = Talk { socket, tls, got: Vec::new(), fault: None, ended: false, tamper: false };
        talk.says("");
        talk.until(|talk| talk.tls.version().is_some());
        talk
    }

    fn says(&mut self, text: &str) {
        let mut records = Vec::new();
        self.tls.send(&mut text.as_bytes().to_vec(), &mut records).unwrap();
        self.socket.write_all(&records).unwrap();
    }

    /// Reads until a condition holds.
    fn until(&mut self, so: impl Fn(&Talk) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut buffer = [0; 4096];
        while !so(self) {
            assert!(Instant::now() < deadline, "{:?} {}", self.fault, String::from_utf8_lossy(&self.got));
            match self.socket.read(&mut buffer) {
                Ok(0) => self.ended = true,
                Ok(count) => {
                    if std::mem::take(&mut self.tamper) {
                        buffer[count - 1] ^= 1;
                    }
                    self.fault = self.fault.take().or(self.tls.receive(&mut buffer[..count], &mut self.got).err());
                    let mut records = Vec::new();
                    let _ = self.tls.send(&mut Vec::new(), &mut records);
                    self.socket.write_all(&records).unwrap();
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn hears(&mut self, text: &str) {
        let has = |talk: &Talk| talk.got.windows(text.len()).any(|window| window == text.as_bytes());
        self.until(has);
    }
}

const BOTH: [(&str, &SupportedProtocolVersion); 2] = [("-tls1_2", V12), ("-tls1_3", V13)];

#[test]
fn openssl_speaks_both_versions_with_many_tickets_and_small_fragments() {
    for (argument, version) in BOTH {
        // 700 bytes per record, five tickets after the handshake.
        let server = Server::start(&[argument, "-rev", "-num_tickets", "5", "-max_send_frag", "700"]);
        let mut talk = Talk::new(&server, &terms(version));
        talk.says("wherefore\n");
        talk.hears("eroferehw");
        let long = "romeo ".repeat(2000);
        talk.says(&format!("{long}\n"));
        let turned: String = long.trim_end().chars().rev().collect();
        talk.hears(&turned);
        assert_eq!(talk.fault, None);
        assert_eq!(talk.tls.heap_bytes(), 0);
    }
}

#[test]
fn openssl_closes_with_a_word() {
    for (argument, version) in BOTH {
        let server = Server::start(&[argument, "-rev"]);
        let mut talk = Talk::new(&server, &terms(version));
        talk.says("by yonder moon\n");
        talk.hears("noom rednoy yb");
        // On this word it shuts TLS down, and then the connection.
        talk.says("CLOSE\n");
        talk.until(|talk| talk.tls.peer_closed());
        assert_eq!(talk.fault, None);
    }
}

#[test]
fn openssl_updates_its_keys_and_asks_for_ours_rfc_8446_4_6_3() {
    let mut server = Server::start(&["-tls1_3"]);
    let mut talk = Talk::new(&server, &terms(V13));
    server.types("one\n");
    talk.hears("one");
    // s_server: `K` updates the keys and requests the client's, `k` only updates its own. A letter
    // is a command at the start of a read, so each is typed when the previous output has arrived.
    for (command, word) in [("K", "two"), ("k", "three"), ("K", "four")] {
        server.types(&format!("{command}\n"));
        std::thread::sleep(Duration::from_millis(300));
        server.types(&format!("{word}\n"));
        talk.hears(word);
        talk.says(&format!("after {word}\n"));
    }
    assert_eq!(talk.fault, None);
    // What the client sends under its own new keys is understood.
    let (mut shown, mut some) = (String::new(), [0; 4096]);
    let stdout = server.child.stdout.as_mut().unwrap();
    while !shown.contains("after four") {
        let count = stdout.read(&mut some).unwrap();
        assert_ne!(count, 0, "{shown}");
        shown.push_str(&String::from_utf8_lossy(&some[..count]));
    }
    assert!(shown.contains("after two") && shown.contains("after three"), "{shown}");
}

#[test]
fn a_tampered_record_of_openssls_is_a_fault_and_openssl_hears_of_it() {
    for (argument, version) in BOTH {
        let mut server = Server::start(&[argument, "-num_tickets", "0"]);
        let mut talk = Talk::new(&server, &terms(version));
        talk.tamper = true;
        server.types("swear not by the moon\n");
        talk.until(|talk| talk.fault.is_some());
        assert!(matches!(talk.fault, Some(TlsFault::PeerMisbehaved(_))), "{:?}", talk.fault);
        assert!(talk.got.is_empty());
        // The alert ends s_server's side.
        talk.until(|talk| talk.ended);
    }
}

#[test]
fn openssl_is_let_ask_for_a_renegotiation_rfc_5246_7_4_1_1() {
    let mut server = Server::start(&["-tls1_2"]);
    let mut talk = Talk::new(&server, &terms(V12));
    server.types("one\n");
    talk.hears("one");
    server.types("r\n");
    std::thread::sleep(Duration::from_millis(300));
    server.types("two\n");
    talk.hears("two");
    assert_eq!(talk.fault, None);
}
