//! Certificates by an authority (RFC 8555): Pebble, the test server of Let's Encrypt. `tests/run`
//! installs it. Without it these tests fail, unless `WITHOUT_PEBBLE` is set.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::support::{Client, Host, LONG, PASSWORD, read, until};

/// The domains with certificates; the main one, `localhost`, has none.
const DOMAINS: [&str; 2] = ["example.test", "capulet.test"];

/// The program; `None` if it is not installed, and need not be.
fn program() -> Option<PathBuf> {
    let named = std::env::var_os("PEBBLE").map(PathBuf::from);
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut there = named.into_iter().chain(std::env::split_paths(&folders).map(|folder| folder.join("pebble")));
    let found = there.find(|program| program.is_file());
    let is_waived = std::env::var_os("WITHOUT_PEBBLE").is_some();
    assert!(found.is_some() || is_waived, "Pebble is not installed: `apt install pebble`, or set WITHOUT_PEBBLE=1");
    found
}

/// A port that nobody uses at the moment.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("an address").port()
}

/// A port at which nothing listens while the socket is there.
fn closed_port() -> (socket2::Socket, u16) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("an address");
    let address = socket.local_addr().expect("an address");
    let port = address.as_socket().expect("of IPv4").port();
    (socket, port)
}

/// An authority; it runs once it is started.
struct Authority {
    program: PathBuf,
    folder: tempfile::TempDir,
    port: u16,
    management: u16,
    child: Option<Child>,
}

impl Drop for Authority {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Authority {
    fn new() -> Option<Authority> {
        let (program, folder) = (program()?, tempfile::tempdir().expect("a folder"));
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        fs::write(folder.path().join("own.pem"), own.cert.pem()).expect("a file");
        fs::write(folder.path().join("own.key"), own.signing_key.serialize_pem()).expect("a file");
        Some(Authority { program, folder, port: free_port(), management: free_port(), child: None })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts it; it checks names at these ports of this machine.
    fn start(&mut self, http: u16, tls: u16) {
        let text = |path: PathBuf| path.to_str().expect("a plain path").to_owned();
        let configuration = serde_json::json!({ "pebble": {
            "listenAddress": format!("127.0.0.1:{}", self.port),
            "managementListenAddress": format!("127.0.0.1:{}", self.management),
            "certificate": text(self.file("own.pem")),
            "privateKey": text(self.file("own.key")),
            "httpPort": http,
            "tlsPort": tls,
        }});
        fs::write(self.file("pebble.json"), configuration.to_string()).expect("a file");
        let log = fs::File::create(self.file("log")).expect("a file");
        let child = Command::new(&self.program)
            .args(["-config", &text(self.file("pebble.json")), "-dnsserver", &names()])
            // It neither waits, nor refuses what is right, nor spares itself checks.
            .envs([("PEBBLE_VA_NOSLEEP", "1"), ("PEBBLE_WFE_NONCEREJECT", "0"), ("PEBBLE_AUTHZREUSE", "0")])
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .expect("Pebble starts");
        self.child = Some(child);
        for port in [self.port, self.management] {
            until("Pebble", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        }
    }

    fn stop(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("it runs");
        child.wait().expect("a child");
    }

    /// A file with the certificate that it signs all others by.
    fn root(&self) -> PathBuf {
        let mut stream = tls(&format!("127.0.0.1:{}", self.management), &self.file("own.pem"), "localhost");
        stream.write_all(b"GET /roots/0 HTTP/1.0\r\nHost: localhost\r\n\r\n").expect("sent");
        let mut answer = String::new();
        // It may close without a word of TLS.
        let _ = stream.read_to_string(&mut answer);
        let file = self.file("root.pem");
        fs::write(&file, answer.split_once("\r\n\r\n").expect("a head and a body").1).expect("a file");
        file
    }

    /// Starts a server for the domains, with certificates of this authority.
    fn serve(&self, host: &mut Host, further: &[&str]) {
        let (directory, root) = (format!("https://localhost:{}/dir", self.port), self.file("own.pem"));
        let hosts = DOMAINS.iter().flat_map(|domain| ["--virtual-hosts", domain]);
        let mut flags: Vec<&str> = hosts.collect();
        flags.extend(["--domain", "localhost", "--c2s-tls", "127.0.0.1:0", "--admin-http", "127.0.0.1:0"]);
        flags.extend(["--acme-directory", &directory]);
        if !further.contains(&"--acme") {
            flags.extend(["--acme", "you@example.test"]);
        }
        if !further.contains(&"--acme-root") {
            flags.extend(["--acme-root", root.to_str().expect("a plain path")]);
        }
        flags.extend(further);
        host.start(&flags);
    }
}

/// A name server (RFC 1035) that answers each question by this machine's address; its own address.
/// Versions of Pebble ask over UDP or TCP.
fn names() -> String {
    let both = || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
        let address = listener.local_addr().expect("an address");
        Some((listener, UdpSocket::bind(address).ok()?, address.to_string()))
    };
    let (listener, socket, address) = (0..100).find_map(|_| both()).expect("a port for both");
    // They end with the test's process.
    std::thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut question) {
            let _ = answer(question[..length].to_vec()).map(|answer| socket.send_to(&answer, from));
        }
    });
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || stream.map(|mut stream| while answer_over(&mut stream).is_some() {}));
        }
    });
    address
}

/// Answers the next question on a connection, if there is one (RFC 1035 4.2.2).
fn answer_over(stream: &mut TcpStream) -> Option<()> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let mut question = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut question).ok()?;
    let answer = answer(question)?;
    let length = u16::try_from(answer.len()).ok()?.to_be_bytes();
    stream.write_all(&[&length[..], &answer].concat()).ok()
}

/// RFC 1035 4.1: the question comes back, with one record if it is for an IPv4 address.
fn answer(mut question: Vec<u8>) -> Option<Vec<u8>> {
    let name = 12 + question.get(12..)?.iter().position(|byte| *byte == 0)?;
    let is_a = question.get(name + 1..name + 3)? == [0, 1];
    question.truncate(name + 5);
    question[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
    if is_a {
        question.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1]);
    }
    Some(question)
}

/// A connection to a server that shows a certificate for this name, signed below this root. Panics
/// if it does not.
fn tls(to: &str, root: &Path, name: &str) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(root).expect("a file")).expect("a certificate");
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
    let socket = TcpStream::connect(to).expect("a connection");
    socket.set_read_timeout(Some(LONG)).expect("a time-out");
    let mut stream = StreamOwned::new(connection, socket);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).expect("a handshake");
    }
    stream
}

fn port(address: &str) -> u16 {
    address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

fn status(host: &Host) -> String {
    host.good(&["ctl", "status"])
}

/// The status, once this holds of it.
fn status_when(host: &Host, is_so: impl Fn(&str) -> bool) -> String {
    let end = Instant::now() + LONG;
    loop {
        let said = status(host);
        if is_so(&said) {
            return said;
        }
        assert!(Instant::now() < end, "{said}\n{}", host.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until all domains have certificates in use.
fn obtained(host: &Host, authority: &Authority) {
    status_when(host, |said| !said.contains("certificate of") && said.contains(", the first of 2"));
    let root = authority.root();
    for domain in DOMAINS {
        tls(&host.direct, &root, domain);
    }
}

/// The file of a name.
fn certificate(host: &Host, name: &str) -> PathBuf {
    let folders = fs::read_dir(host.data().join("acme")).expect("a folder");
    let folder = folders.map(|folder| folder.expect("a folder").path()).next().expect("an authority");
    folder.join(format!("{name}.pem"))
}

/// The server starts without its authority and says so; when that is back, each domain gets a
/// certificate by TLS-ALPN-01 (RFC 8737) and connections stay; a restart uses what is kept, and the
/// authority is not needed for that.
#[test]
fn certificates_come_when_the_authority_does_and_are_kept() {
    let Some(mut authority) = Authority::new() else { return };
    let mut host = Host::new(&["romeo"]);
    authority.serve(&mut host, &["--acme-challenge", "tls-alpn-01"]);
    let said = status_when(&host, |said| said.contains("certificate of capulet.test was not obtained"));
    for domain in DOMAINS {
        let sentence = format!("certificate of {domain} was not obtained: localhost cannot be reached: ");
        assert!(said.contains(&sentence) && said.contains("or at once by `throng ctl reload`"), "{said}");
    }
    assert!(!said.contains("self-signed"), "said once: {said}");
    let own = host.data().join("tls/example.test/cert.pem");
    tls(&host.direct, &own, "example.test");
    let mut before = Client::connect_tls_as(&host.direct, &own, "example.test").log_in("romeo", PASSWORD, "a");
    authority.start(free_port(), port(&host.direct));
    host.good(&["ctl", "reload"]);
    obtained(&host, &authority);
    before.ask("<presence/>", "<presence");
    let said = status(&host);
    assert!(said.contains("certificate  of ") && said.contains(", the first of 2"), "{said}");
    let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
    let kept = certificate(&host, "example.test");
    assert_eq!((mode(&kept), mode(kept.parent().expect("a folder"))), (0o600, 0o700));
    assert_ne!(fs::read(&kept).unwrap(), fs::read(certificate(&host, "capulet.test")).unwrap());
    let (root, first) = (authority.root(), fs::read(&kept).expect("a file"));
    host.stop();
    authority.stop();
    authority.serve(&mut host, &["--acme-challenge", "tls-alpn-01"]);
    for domain in DOMAINS {
        tls(&host.direct, &root, domain);
    }
    assert!(
        fs::read(&kept).expect("a file") == first && !status(&host).contains("certificate of"),
        "{}",
        status(&host)
    );
}

/// HTTP-01 (RFC 8555 8.3) by both kinds of listener.
#[test]
fn control_is_proved_by_http_at_a_port_of_its_own_and_behind_a_proxy() {
    for of_its_own in [true, false] {
        let Some(mut authority) = Authority::new() else { return };
        let (mut host, http) = (Host::new(&[]), free_port());
        let address = format!("127.0.0.1:{http}");
        authority.start(http, free_port());
        let listener = if of_its_own { "--acme-http" } else { "--http" };
        authority.serve(&mut host, &["--acme-challenge", "http-01", listener, &address]);
        obtained(&host, &authority);
        // Nothing else is served there, and the challenge no longer.
        let mut stream = TcpStream::connect(&address).expect("a connection");
        stream.write_all(b"GET /.well-known/acme-challenge/x HTTP/1.0\r\nHost: a\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.") && answer.contains(" 404 "), "{answer}");
    }
}

/// Ways are tried in turn: here the first one leads nowhere.
#[test]
fn another_way_is_tried_after_a_failure_which_is_told_with_its_remedy() {
    let Some(mut authority) = Authority::new() else { return };
    let (_closed, nowhere) = closed_port();
    let (mut host, http) = (Host::new(&[]), free_port());
    authority.start(nowhere, nowhere);
    authority.serve(&mut host, &["--acme-http", &format!("127.0.0.1:{http}")]);
    let sentence = "was not obtained: the authority's check by http-01 failed: ";
    let said = status_when(&host, |said| said.matches(sentence).count() == 2);
    assert!(said.contains("port 80 of this name must lead to acme_http"), "{said}");
    authority.stop();
    authority.start(nowhere, port(&host.direct));
    // The authority has forgotten the account, too.
    host.good(&["ctl", "reload"]);
    obtained(&host, &authority);
    // It has forgotten the account once more, which is noticed when the contact is to be changed.
    host.stop();
    authority.stop();
    authority.start(nowhere, free_port());
    // Else nothing is asked for a while after a certificate has come.
    fs::remove_file(certificate(&host, "example.test").with_extension("json")).expect("a file");
    authority.serve(&mut host, &["--acme-http", &format!("127.0.0.1:{http}"), "--acme", "me@example.test"]);
    let account = certificate(&host, "example.test").with_file_name("@account.json");
    until("a new account", || read(&account).contains("me@example.test"));
}

/// A certificate of which more than two thirds are over is renewed; the other one is not. Both have
/// the identifier of their authority's key, by which an authority is asked about them (RFC 9773 4.1);
/// this one has no such questions.
#[test]
fn a_certificate_is_renewed_in_time_and_not_before() {
    let Some(mut authority) = Authority::new() else { return };
    let mut host = Host::new(&[]);
    let folder = host.data().join(format!("acme/localhost-{}-dir", authority.port));
    fs::create_dir_all(&folder).expect("a folder");
    let above = rcgen::KeyPair::generate().expect("a key");
    let above = rcgen::Issuer::new(rcgen::CertificateParams::default(), above);
    let write = |name: &str, days_ago: u64| {
        let mut parameters = rcgen::CertificateParams::new([name.to_owned()]).expect("a name");
        parameters.use_authority_key_identifier_extension = true;
        let from = SystemTime::now() - Duration::from_secs(days_ago * 86_400);
        parameters.not_before = from.into();
        parameters.not_after = (from + Duration::from_secs(90 * 86_400)).into();
        let key = rcgen::KeyPair::generate().expect("a key");
        let pem = key.serialize_pem() + &parameters.signed_by(&key, &above).expect("a certificate").pem();
        fs::write(folder.join(format!("{name}.pem")), &pem).expect("a file");
        pem
    };
    let (old, good) = (write("example.test", 70), write("capulet.test", 50));
    let (_closed, nowhere) = closed_port();
    authority.start(nowhere, nowhere);
    // The first attempt fails: the old one stays in use.
    authority.serve(&mut host, &["--acme-challenge", "tls-alpn-01"]);
    status_when(&host, |said| said.contains("certificate of example.test was not renewed: "));
    let kept = |name: &str| read(&certificate(&host, name));
    assert_eq!((kept("example.test"), kept("capulet.test")), (old.clone(), good.clone()));
    authority.stop();
    authority.start(free_port(), port(&host.direct));
    host.good(&["ctl", "reload"]);
    status_when(&host, |said| !said.contains("certificate of"));
    assert!(kept("example.test") != old && kept("capulet.test") == good);
    tls(&host.direct, &authority.root(), "example.test");
}

/// An authority that is another one is asked for nothing. Everything says so, and the server is
/// ready nevertheless.
#[test]
fn an_authority_that_cannot_be_trusted_is_told_everywhere() {
    let Some(mut authority) = Authority::new() else { return };
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    fs::write(authority.file("other.pem"), other.cert.pem()).expect("a file");
    let mut host = Host::new(&[]);
    authority.start(free_port(), free_port());
    let root = authority.file("other.pem");
    authority.serve(&mut host, &["--acme-root", root.to_str().expect("a plain path")]);
    let sentence = "certificate of example.test was not obtained";
    let said = status_when(&host, |said| said.contains(sentence) && said.contains("certificate of capulet.test was"));
    let (ready, metrics) = (host.get("/ready"), host.get("/metrics"));
    assert!(said.contains("invalid peer certificate"), "{said}");
    assert!(ready.contains("\"ready\":true") && ready.contains(sentence), "{ready}");
    for line in [
        "throng_acme_failures_total{name=\"example.test\"} 1",
        "throng_acme_certificate_expires_seconds{name=\"example.test\"} 0",
        "throng_acme_obtained_seconds{name=\"capulet.test\"} 0",
    ] {
        assert!(metrics.lines().any(|own| own == line), "{line} in {metrics}");
    }
}
