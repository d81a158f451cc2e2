//! A push service over TLS on loopback, which accepts pushes, refuses them, asks for delay, hangs
//! and disconnects.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;
use throng_engine::counters::Counted;

use super::*;
use crate::client::authorities;

/// A point of P-256 (RFC 8291 5).
const KEY: &str = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";

struct Woken(Sender<()>);

impl Wake for Woken {
    fn wake(&self) {
        let _ = self.0.send(());
    }
}

/// A push service: the response to each request of a push resource, by the number of the request.
struct Service {
    port: u16,
    certificate: PathBuf,
    folder: TempDir,
    connections: Arc<AtomicUsize>,
}

fn serve(answer: impl Fn(usize, &str, usize) -> String + Send + Sync + 'static) -> Service {
    let folder = tempfile::tempdir().expect("a folder");
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(["localhost", "127.0.0.1"].map(str::to_owned)).expect("names");
    let certificate = params.self_signed(&key).expect("a certificate");
    let path = folder.path().join("authority.pem");
    std::fs::write(&path, certificate.pem()).expect("written");
    let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config =
        builder.expect("versions").with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key);
    let config = Arc::new(config.expect("they fit"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let (answer, count, connections) = (Arc::new(answer), Arc::new(AtomicUsize::new(0)), Arc::default());
    let opened: Arc<AtomicUsize> = Arc::clone(&connections);
    std::thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            opened.fetch_add(1, Ordering::SeqCst);
            let session = rustls::ServerConnection::new(config.clone()).expect("a session");
            let mut stream = BufReader::new(rustls::StreamOwned::new(session, socket));
            let (answer, count) = (answer.clone(), count.clone());
            std::thread::spawn(move || {
                loop {
                    let (mut head, mut length) = (String::new(), 0);
                    while !head.ends_with("\r\n\r\n") {
                        let before = head.len();
                        if stream.read_line(&mut head).unwrap_or(0) == 0 {
                            return;
                        }
                        let line = head[before..].to_ascii_lowercase();
                        if let Some(value) = line.strip_prefix("content-length:") {
                            length = value.trim().parse().unwrap_or(0);
                        }
                    }
                    let mut body = vec![0; length];
                    if stream.read_exact(&mut body).is_err() {
                        return;
                    }
                    let out = answer(count.fetch_add(1, Ordering::SeqCst), &head, length);
                    let sent = stream.get_mut().write_all(out.as_bytes()).and_then(|()| stream.get_mut().flush());
                    if out.is_empty() || sent.is_err() {
                        return;
                    }
                }
            });
        }
    });
    Service { port, certificate: path, folder, connections }
}

fn status(line: &str) -> String {
    format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\n\r\n")
}

/// One shard's port.
struct Desk {
    port: PushPort,
    pushing: Pushing,
    woken: Receiver<()>,
    next: u64,
    service: Service,
}

impl Desk {
    fn new(service: Service) -> Desk {
        Desk::with(service, |_| {})
    }

    fn with(service: Service, change: impl FnOnce(&mut Settings)) -> Desk {
        let (wake, woken) = channel();
        let vapid = Vapid::open(&service.folder.path().join(FILE), "mailto:admin@example.org").expect("a key");
        let mut settings = Settings {
            vapid: Arc::new(vapid),
            services: vec![format!("localhost:{}", service.port), ".example".into()],
            tls: authorities(Some(&service.certificate)).expect("an authority"),
            private: true,
            ttl: Duration::from_secs(3_600),
            urgency: "high",
            limit: Duration::from_millis(700),
            patience: Duration::from_secs(20),
        };
        change(&mut settings);
        let (mut ports, pushing) = start(Some(settings), &[Arc::new(Woken(wake))]).expect("a thread");
        Desk { port: ports.remove(0), pushing, woken, next: 0, service }
    }

    fn push(&self, path: &str) -> WebPush {
        use base64::Engine as _;
        let key = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(KEY).expect("Base64url");
        WebPush {
            endpoint: format!("https://localhost:{}/{path}", self.service.port).into(),
            p256dh: key.try_into().expect("65 bytes"),
            auth: [7; 16],
            service: 0,
            topic: Some("a-topic".into()),
            content: (*b"{}").into(),
        }
    }

    fn submit(&mut self, push: WebPush) {
        self.next += 1;
        self.port.submit(self.next, Box::new(push));
    }

    fn outcome(&mut self) -> PushOutcome {
        loop {
            if let Some((_, outcome)) = self.port.poll() {
                return outcome;
            }
            self.woken.recv_timeout(Duration::from_secs(60)).expect("an outcome in time");
        }
    }

    fn sends(&mut self, path: &str) -> PushOutcome {
        self.submit(self.push(path));
        self.outcome()
    }

    fn counted(&self, name: &str) -> u64 {
        let rows = self.pushing.standings()[0].counters().list();
        rows.into_iter().find(|row| row.0 == name).expect("a counter").3
    }
}

/// RFC 8030 5, RFC 8291 4, RFC 8292 3.
#[test]
fn a_push_is_a_post_with_its_fields_on_a_connection_that_is_kept() {
    let (seen_in, seen) = channel();
    let seen_in = std::sync::Mutex::new(seen_in);
    let service = serve(move |_, head, length| {
        let _ = seen_in.lock().expect("one at a time").send((head.to_owned(), length));
        "HTTP/1.1 201 Created\r\nLocation: https://localhost/m/1\r\nContent-Length: 2\r\n\r\nok".into()
    });
    let mut desk = Desk::with(service, |_| {});
    assert_eq!(desk.sends("p/one?a=b"), PushOutcome::Sent);
    let (head, length) = seen.recv().expect("a request");
    let lower = head.to_ascii_lowercase();
    assert!(head.starts_with("POST /p/one?a=b HTTP/1.1\r\n"), "{head}");
    for field in [
        format!("host: localhost:{}", desk.service.port),
        "ttl: 3600".into(),
        "urgency: high".into(),
        "topic: a-topic".into(),
        "content-encoding: aes128gcm".into(),
        "authorization: vapid t=".into(),
        ", k=b".into(),
    ] {
        assert!(lower.contains(&field), "{field}: {head}");
    }
    assert_eq!(length, 21 + 65 + 2 + 1 + 16, "RFC 8188 2");
    // Eventually all lines have a connection, and there are no others.
    (0..40).for_each(|_| assert_eq!(desk.sends("p/two"), PushOutcome::Sent));
    assert!(desk.service.connections.load(Ordering::SeqCst) <= LINES);
    assert_eq!((desk.counted("tries"), desk.counted("taken")), (41, 41));
}

#[test]
fn what_a_push_service_says_decides() {
    let service = serve(|_, head, _| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        status(path.trim_start_matches('/').split('?').next().unwrap_or_default())
    });
    let mut desk = Desk::new(service);
    for (path, outcome) in [
        ("200", PushOutcome::Sent),
        ("201", PushOutcome::Sent),
        ("202", PushOutcome::Sent),
        ("404", PushOutcome::Gone),
        ("410", PushOutcome::Gone),
        ("400", PushOutcome::Failed),
        ("401", PushOutcome::Failed),
        ("403", PushOutcome::Failed),
        ("413", PushOutcome::Failed),
        ("301", PushOutcome::Failed),
    ] {
        assert_eq!(desk.sends(path), outcome, "{path}");
    }
    assert_eq!(
        (desk.counted("tries"), desk.counted("refused"), desk.counted("gone")),
        (10, 5, 2),
        "each was tried once"
    );
    // An invalid key, and a service that is not listed.
    let push = WebPush { p256dh: [4; 65], ..desk.push("200") };
    desk.submit(push);
    assert_eq!(desk.outcome(), PushOutcome::Gone);
    let push = WebPush { service: 9, ..desk.push("200") };
    desk.submit(push);
    assert_eq!(desk.outcome(), PushOutcome::Failed);
}

#[test]
fn a_push_that_fails_is_tried_again_a_few_times() {
    let mut desk = Desk::new(serve(|count, _, _| match count {
        0 => status("500 Oh"),
        // It ends without a response.
        1 => String::new(),
        _ => status("201 Created"),
    }));
    let began = Instant::now();
    assert_eq!(desk.sends("p"), PushOutcome::Sent);
    assert!(began.elapsed() >= Duration::from_millis(2_400), "half a second, and two");
    assert_eq!((desk.counted("tries"), desk.counted("faults")), (3, 2));
}

/// RFC 8030 8.4.
#[test]
fn a_push_service_that_is_asked_too_much_is_left_alone_for_as_long_as_it_says() {
    let mut desk = Desk::new(serve(|count, _, _| match count {
        0 => "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n".into(),
        _ => status("201 Created"),
    }));
    let began = Instant::now();
    assert_eq!(desk.sends("p"), PushOutcome::Sent);
    assert!(began.elapsed() >= Duration::from_secs(2));
    assert_eq!((desk.counted("tries"), desk.counted("busy"), desk.counted("faults")), (2, 1, 0));
    // A requested delay longer than the push's lifetime: no further request is sent.
    let service =
        serve(|_, _, _| "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n".into());
    let mut desk = Desk::new(service);
    assert_eq!((desk.sends("p"), desk.sends("p")), (PushOutcome::Failed, PushOutcome::Failed));
    assert_eq!((desk.counted("tries"), desk.counted("late")), (1, 2));
}

#[test]
fn a_push_service_that_hangs_costs_a_bounded_time_and_is_asked_again_when_it_lives() {
    let hangs = Arc::new(AtomicUsize::new(1));
    let hanging = hangs.clone();
    let service = serve(move |_, _, _| {
        if hanging.load(Ordering::SeqCst) == 1 {
            std::thread::sleep(Duration::from_secs(3_600));
        }
        status("201 Created")
    });
    let mut desk = Desk::with(service, |settings| settings.patience = Duration::from_secs(5));
    for _ in 0..2 * LINES {
        desk.submit(desk.push("p"));
    }
    for _ in 0..2 * LINES {
        assert_eq!(desk.outcome(), PushOutcome::Failed);
    }
    assert!(desk.counted("tries") < 4 * 2 * LINES as u64, "the breaker has kept some back");
    hangs.store(0, Ordering::SeqCst);
    let until = Instant::now() + Duration::from_secs(40);
    while desk.sends("p") != PushOutcome::Sent {
        assert!(Instant::now() < until, "it lives again");
    }
    assert_eq!(desk.counted("down"), 0);
}

#[test]
fn nobody_is_reached_by_an_endpoint_in_the_operators_own_network() {
    let mut desk = Desk::with(serve(|_, _, _| status("201 Created")), |settings| {
        settings.private = false;
        settings.patience = Duration::from_secs(1);
    });
    assert_eq!(desk.sends("p"), PushOutcome::Failed);
    // A peer that cannot prove its identity is not accepted as a push service.
    let stranger = serve(|_, _, _| status("201 Created"));
    let mut other = Desk::with(serve(|_, _, _| status("201 Created")), |settings| {
        settings.tls = authorities(Some(&stranger.certificate)).expect("an authority");
        settings.patience = Duration::from_secs(1);
    });
    assert_eq!(other.sends("p"), PushOutcome::Failed);
    assert_eq!(desk.service.connections.load(Ordering::SeqCst), 0, "it was not even connected to");
    // Invented hosts are neither retried nor remembered.
    let push = WebPush { endpoint: "https://made-up.invalid.example/p".into(), service: 1, ..desk.push("p") };
    desk.submit(push);
    assert_eq!(desk.outcome(), PushOutcome::Failed);
    let standing = &desk.pushing.standings()[1];
    assert!(standing.counters().tries.get() <= 1 && standing.hosts().is_empty());
}

/// RFC 9110 15.4: a client need not follow a redirect. Here it would lead to a host that the
/// operator has not listed.
#[test]
fn nobody_is_reached_by_a_redirect() {
    let elsewhere = serve(|_, _, _| status("201 Created"));
    let to = format!("https://localhost:{}/p", elsewhere.port);
    let service = serve(move |_, head, _| {
        let code = head.split(['/', ' ']).nth(2).unwrap_or_default();
        format!("HTTP/1.1 {code} Elsewhere\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n")
    });
    let mut desk = Desk::new(service);
    for code in ["301", "302", "303", "307", "308"] {
        assert_eq!(desk.sends(code), PushOutcome::Failed, "{code}");
    }
    assert_eq!(elsewhere.connections.load(Ordering::SeqCst), 0);
    assert_eq!((desk.counted("tries"), desk.counted("refused")), (5, 5));
}

/// The status alone decides: repeating a push because the body is missing would wake the page
/// twice.
#[test]
fn an_answer_that_does_not_end_is_an_answer() {
    let mut desk = Desk::new(serve(|_, _, _| "HTTP/1.1 201 Created\r\nContent-Length: 100000\r\n\r\nx".into()));
    assert_eq!((desk.sends("p"), desk.sends("p")), (PushOutcome::Sent, PushOutcome::Sent));
    assert_eq!((desk.counted("tries"), desk.counted("taken")), (2, 2));
    assert_eq!(desk.service.connections.load(Ordering::SeqCst), 2, "none of these is used again");
}

#[test]
fn a_host_that_hangs_holds_up_no_other_one_of_its_entry() {
    let hangs = serve(|_, _, _| {
        std::thread::sleep(Duration::from_secs(3_600));
        String::new()
    });
    let mut both = std::fs::read(&hangs.certificate).expect("read");
    let service = serve(|_, _, _| status("201 Created"));
    both.extend(std::fs::read(&service.certificate).expect("read"));
    std::fs::write(&service.certificate, both).expect("written");
    let mut desk = Desk::with(service, |settings| settings.patience = Duration::from_secs(6));
    let endpoint = |number: usize| format!("https://127.0.0.1:{}/{number}", hangs.port);
    for number in 0..4 * LINES {
        let push = WebPush { endpoint: endpoint(number).into(), ..desk.push("p") };
        desk.submit(push);
    }
    assert_eq!(desk.sends("p"), PushOutcome::Sent, "it is the first to be answered");
    (0..4 * LINES).for_each(|_| assert_eq!(desk.outcome(), PushOutcome::Failed));
    assert!(desk.counted("tries") < 4 * LINES as u64, "the breaker has kept most back");
}

/// RFC 8030 8.4: a push service may limit one subscription. Its owner cannot silence others by
/// that.
#[test]
fn a_page_that_is_told_too_much_is_no_reason_to_leave_others_alone() {
    let later = AtomicUsize::new(0);
    let service = serve(move |_, head, _| {
        let busy =
            |seconds| format!("HTTP/1.1 429 Too Many Requests\r\nRetry-After: {seconds}\r\nContent-Length: 0\r\n\r\n");
        match head {
            head if head.contains("/busy") => busy(300),
            head if head.contains("/later") && later.fetch_add(1, Ordering::SeqCst) < BUSY_WAITING_MAX + 10 => busy(3),
            _ => status("201 Created"),
        }
    });
    let mut desk = Desk::new(service);
    for _ in 0..2 * BUSY_MAX {
        assert_eq!(desk.sends("busy"), PushOutcome::Failed, "nobody waits for longer than a push is worth");
    }
    assert_eq!(desk.sends("p"), PushOutcome::Sent);
    // Its pushes do not take the room of others.
    for _ in 0..BUSY_WAITING_MAX + 10 {
        desk.submit(desk.push("later"));
    }
    for _ in 0..10 {
        assert_eq!(desk.outcome(), PushOutcome::Failed, "there is no more room to wait");
    }
    assert_eq!(desk.pushing.standings()[0].alone().waiting, BUSY_WAITING_MAX);
    (0..BUSY_WAITING_MAX).for_each(|_| assert_eq!(desk.outcome(), PushOutcome::Sent));
    // If one page after another is limited, the server itself sends too much.
    for number in 0..BUSY_MAX {
        assert_eq!(desk.sends(&format!("busy/{number}")), PushOutcome::Failed);
    }
    let tries = desk.counted("tries");
    assert_eq!((desk.sends("p"), desk.counted("tries")), (PushOutcome::Failed, tries));
}

#[test]
fn what_is_known_of_hosts_is_bounded_and_none_is_refused_for_others() {
    let standing = Standing {
        entry: ".example".into(),
        hosts: Mutex::default(),
        alone: Mutex::default(),
        counters: Arc::default(),
    };
    for host in 0..2 * HOSTS_MAX {
        (0..10).for_each(|_| standing.failed(&format!("{host}.example"), &"it hangs"));
    }
    assert_eq!(standing.hosts().len(), HOSTS_MAX);
    assert!(!standing.may_ask("1.example") && standing.may_ask("another.example"));
    standing.leave_alone(Duration::from_secs(9_999));
    assert!(!standing.may_ask("another.example"));
    assert!(standing.alone_until().is_some_and(|until| until <= Instant::now() + ALONE_MAX));
}
