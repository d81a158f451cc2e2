//! Uploads and downloads over sockets, by regular clients and attackers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use throng_engine::extension::upload::slot::{Slot, Upload};
use throng_engine::store::account::Incarnation;
use throng_recorder::clock::wall_s;

use super::sweep::Round;
use super::{Bounds, Files, Limits, Owners, UploadCounters, UploadServer};
use crate::disk::DiskError;

const OWNER: &str = "romeo@montague.lit";

#[derive(Default)]
struct Accounts {
    gone: AtomicBool,
    unknown: AtomicBool,
}

impl Owners for Accounts {
    fn is_there(&self, owner: &str, incarnation: Incarnation) -> Option<bool> {
        if self.unknown.load(Ordering::Relaxed) {
            return None;
        }
        Some(!self.gone.load(Ordering::Relaxed) && owner == OWNER && incarnation == Incarnation::drawn(7))
    }
}

static FREE: AtomicU64 = AtomicU64::new(1 << 40);

fn plenty(_: &Path) -> Result<u64, DiskError> {
    Ok(1 << 40)
}

fn little(_: &Path) -> Result<u64, DiskError> {
    Ok(FREE.load(Ordering::Relaxed))
}

struct World {
    folder: tempfile::TempDir,
    accounts: Arc<Accounts>,
    files: Arc<Files>,
    server: UploadServer,
    upload: Upload,
    counters: Arc<UploadCounters>,
}

fn serve(listener: TcpListener, files: &Arc<Files>, limits: Limits, counters: &Arc<UploadCounters>) -> UploadServer {
    UploadServer::start(vec![(listener, None)], files.clone(), [7; 32], limits, counters.clone()).expect("a server")
}

impl World {
    fn new() -> World {
        World::with(Bounds { bytes_max: 1 << 30, free_bytes_min: 1 << 20 }, plenty, 50)
    }

    fn with(bounds: Bounds, free: crate::disk::space::FreeBytes, connections_max: usize) -> World {
        let folder = tempfile::tempdir().expect("a folder");
        let accounts = Arc::new(Accounts::default());
        let files = Files::open(folder.path(), bounds, free, accounts.clone()).expect("a folder of files");
        Round::whole(&files, wall_s());
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let limits = Limits { connections_max, per_address_max: 0 };
        let counters = Arc::default();
        let server = serve(listener, &files, limits, &counters);
        let upload = Upload {
            key: [7; 32],
            url: "http://localhost/".into(),
            file_bytes_max: 1 << 30,
            slot_s: 300,
            slots_max: 10,
            day_bytes: 0,
            day_files: 0,
            keep_s: 86_400,
        };
        World { folder, accounts, files, server, upload, counters }
    }

    fn slot(&self, serial: u64, name: &str, size: u64, content_type: Option<&str>) -> Slot {
        let incarnation = Incarnation::drawn(7);
        Slot {
            id: Slot::id(&self.upload, OWNER, incarnation, serial, ""),
            name: name.into(),
            content_type: content_type.map(Into::into),
            size,
            owner: OWNER.into(),
            incarnation,
            until_s: wall_s() + 300,
            expires_s: wall_s() + 86_400,
        }
    }

    fn address(&self) -> SocketAddr {
        self.server.addresses()[0]
    }

    fn path(&self, slot: &Slot) -> String {
        slot.url(&self.upload).strip_prefix("http://localhost").expect("the base").to_owned()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time-out");
        stream
    }

    /// Sends a raw request, and reads to the end.
    fn raw(&self, request: &[u8]) -> Answer {
        let mut stream = self.connect();
        // A server that refuses a body may have closed before all of it was sent.
        let _ = stream.write_all(request);
        read_answer(&mut stream)
    }

    fn put(&self, slot: &Slot, bytes: &[u8]) -> Answer {
        self.raw(&[self.head(slot, bytes.len(), "").as_bytes(), bytes].concat())
    }

    fn head(&self, slot: &Slot, length: usize, more: &str) -> String {
        let (path, token) = (self.path(slot), slot.token(&self.upload));
        format!(
            "PUT {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\n{more}\r\n"
        )
    }

    fn get(&self, slot: &Slot, more: &str) -> Answer {
        self.ask("GET", slot, more)
    }

    fn ask(&self, method: &str, slot: &Slot, more: &str) -> Answer {
        let path = self.path(slot);
        self.raw(format!("{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{more}\r\n").as_bytes())
    }

    fn incoming(&self) -> usize {
        std::fs::read_dir(self.folder.path().join("upload/incoming")).expect("it is there").count()
    }

    fn stored(&self) -> usize {
        (0..=u8::MAX).map(|part| Files::list(self.folder.path(), part).expect("it can be read").len()).sum()
    }

    fn restarted(mut self, free: crate::disk::space::FreeBytes) -> World {
        self.reopen(free);
        Round::whole(&self.files, wall_s());
        self
    }

    /// As after a start, with files not counted yet.
    fn reopen(&mut self, free: crate::disk::space::FreeBytes) {
        let bounds = Bounds { bytes_max: 1 << 30, free_bytes_min: 1 << 20 };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        self.files = Files::open(self.folder.path(), bounds, free, self.accounts.clone()).expect("it opens");
        let limits = Limits { connections_max: 50, per_address_max: 0 };
        self.server = serve(listener, &self.files, limits, &self.counters);
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

fn read_answer(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    // After a refusal, the remaining body may cause a reset.
    let _ = stream.read_to_end(&mut bytes);
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").map_or(bytes.len(), |at| at + 4);
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, head, body: bytes[end..].to_vec() }
}

/// Bytes that are not all equal.
fn some(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 % 251) as u8).collect()
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_file_comes_and_goes_as_it_is_xep0363_7() {
    let world = World::new();
    for (serial, length) in [(1, 1), (2, 65_536), (3, 65_537), (4, 3_000_000)] {
        let (slot, bytes) = (world.slot(serial, "très cool.jpg", length as u64, Some("image/jpeg")), some(length));
        assert_eq!(world.get(&slot, "").status, 404, "it is not there yet");
        assert_eq!(world.put(&slot, &bytes).status, 201);
        let got = world.get(&slot, "");
        assert_eq!((got.status, got.body == bytes), (200, true), "{length}");
        assert_eq!(got.header("content-type"), Some("image/jpeg"));
        assert_eq!(got.header("content-length"), Some(&*length.to_string()));
        let named = "inline; filename=\"tr_s cool.jpg\"; filename*=UTF-8''tr%C3%A8s%20cool.jpg";
        assert_eq!(got.header("content-disposition"), Some(named));
    }
    assert_eq!((world.incoming(), world.stored()), (0, 4));
    let counters = &world.counters;
    let bytes = 1 + 65_536 + 65_537 + 3_000_000;
    assert_eq!((counters.requests.get(), counters.uploads.get(), counters.downloads.get()), (12, 4, 4));
    assert_eq!((counters.upload_bytes.get(), counters.download_bytes.get()), (bytes, bytes));
    assert!((bytes..bytes + 50_000).contains(&counters.stored_bytes.get()), "with what blocks take");
}

#[test]
fn all_answers_are_closed_to_active_content_and_open_to_other_pages_xep0363_8_9() {
    let world = World::new();
    let slot = world.slot(1, "evil.html", 6, Some("text/html"));
    let answers = [
        world.ask("OPTIONS", &slot, "Origin: https://web.example\r\nAccess-Control-Request-Method: PUT\r\n"),
        world.put(&slot, b"<html>"),
        world.get(&slot, ""),
        world.ask("DELETE", &slot, ""),
        world.raw(b"GET /../../etc/passwd HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
    ];
    assert_eq!(answers.each_ref().map(|answer| answer.status), [204, 201, 200, 405, 404]);
    for answer in &answers {
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{answer:?}");
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(policy.contains("default-src 'none'") && policy.contains("sandbox"), "{policy}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        assert_eq!(answer.header("access-control-allow-methods"), Some("OPTIONS, HEAD, GET, PUT"));
    }
    assert!(answers[0].header("access-control-allow-headers").is_some_and(|names| names.contains("Authorization")));
    assert!(answers[2].header("content-disposition").is_some_and(|how| how.starts_with("attachment;")));
}

#[test]
fn ranges_conditions_and_heads_are_answered_rfc9110() {
    let world = World::new();
    let (slot, bytes) = (world.slot(1, "a.bin", 200_000, None), some(200_000));
    assert_eq!(world.put(&slot, &bytes).status, 201);
    let got = world.get(&slot, "Range: bytes=70000-140000\r\n");
    assert_eq!((got.status, got.header("content-range")), (206, Some("bytes 70000-140000/200000")));
    assert!(got.body == bytes[70_000..=140_000]);
    let got = world.get(&slot, "Range: bytes=-5\r\n");
    assert_eq!((got.status, &*got.body), (206, &bytes[199_995..]));
    let got = world.get(&slot, "Range: bytes=200000-\r\n");
    assert_eq!((got.status, got.header("content-range"), got.body.len()), (416, Some("bytes */200000"), 0));
    assert_eq!(world.get(&slot, "Range: bytes=0-1,5-6\r\n").body.len(), 200_000, "several are answered by the whole");
    let head = world.ask("HEAD", &slot, "");
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, Some("200000"), 0));
    let (tag, came) = (head.header("etag").expect("a tag"), head.header("last-modified").expect("a date"));
    let same = world.get(&slot, &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((same.status, same.body.len()), (304, 0));
    assert_eq!(world.get(&slot, &format!("If-Modified-Since: {came}\r\n")).status, 304);
    assert_eq!(world.get(&slot, "If-Match: \"other\"\r\n").status, 412);
    let part = |tag: &str| world.get(&slot, &format!("Range: bytes=0-4\r\nIf-Range: {tag}\r\n")).status;
    assert_eq!((part(tag), part(came), part("\"other\"")), (206, 206, 200));
}

#[test]
fn a_length_that_is_not_the_slots_is_refused_xep0363_7() {
    let world = World::new();
    let slot = world.slot(1, "a", 100, None);
    assert_eq!(world.put(&slot, &some(101)).status, 413, "more than said");
    assert_eq!(world.put(&slot, &some(99)).status, 400, "less than said");
    let chunked = world.head(&slot, 0, "").replace("Content-Length: 0", "Transfer-Encoding: chunked") + "64\r\n";
    assert_eq!(world.raw(chunked.as_bytes()).status, 411, "without saying");
    let two = world.head(&slot, 100, "Content-Length: 99\r\n");
    assert_eq!(world.raw(two.as_bytes()).status, 400, "two lengths");
    // It announces a length and sends less.
    let mut stream = world.connect();
    stream.write_all(&[world.head(&slot, 100, "").as_bytes(), &some(60)].concat()).expect("it takes it");
    until("it is being taken", || world.incoming() == 1);
    stream.shutdown(std::net::Shutdown::Write).expect("open");
    assert_ne!(read_answer(&mut stream).status, 201);
    until("nothing is left of it", || world.incoming() == 0);
    assert_eq!((world.get(&slot, "").status, world.stored()), (404, 0));
    assert_eq!(world.put(&slot, &some(100)).status, 201, "the slot is good until it was used");
}

#[test]
fn a_slot_is_used_once_and_in_time() {
    let world = World::new();
    let slot = world.slot(1, "a", 100, None);
    // Two at a time: the second is refused at once.
    let mut first = world.connect();
    first.write_all(&[world.head(&slot, 100, "").as_bytes(), &some(60)].concat()).expect("it takes it");
    until("it is being taken", || world.incoming() == 1);
    assert_eq!(world.put(&slot, &[0; 100]).status, 409);
    first.write_all(&some(100)[60..]).expect("it takes it");
    assert_eq!(read_answer(&mut first).status, 201);
    assert_eq!(world.put(&slot, &[0; 100]).status, 409, "and after it");
    assert_eq!(world.get(&slot, "").body, some(100));
    let late = Slot { until_s: wall_s() - 1, ..world.slot(2, "a", 100, None) };
    assert_eq!(world.put(&late, &some(100)).status, 410);
    let forged = world.head(&world.slot(3, "a", 100, None), 100, "").replace("Bearer A", "Bearer B");
    assert_eq!(world.raw(forged.as_bytes()).status, 403);
    let none = format!("PUT {} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", world.path(&slot));
    assert_eq!(world.raw(none.as_bytes()).status, 401);
    let other = world.head(&slot, 100, "").replace("/a HTTP", "/b HTTP");
    assert_eq!(world.raw(other.as_bytes()).status, 403, "another name");
}

#[test]
fn a_type_that_is_not_the_slots_is_refused_xep0363_7() {
    let world = World::new();
    let put = |slot: &Slot, kind: &str| {
        world.raw(&[world.head(slot, 1, &format!("Content-Type: {kind}\r\n")).as_bytes(), b"x"].concat()).status
    };
    let slot = world.slot(1, "a", 1, Some("image/jpeg"));
    assert_eq!(put(&slot, "text/html"), 415);
    assert_eq!(put(&slot, "Image/JPEG; q=1"), 201);
    assert_eq!(world.get(&slot, "").header("content-type"), Some("image/jpeg"));
    let slot = world.slot(2, "a", 1, None);
    assert_eq!(put(&slot, "video/mp4"), 201);
    assert_eq!(world.get(&slot, "").header("content-type"), Some("video/mp4"));
    let slot = world.slot(3, "a", 1, None);
    assert_eq!(world.put(&slot, b"x").status, 201);
    assert_eq!(world.get(&slot, "").header("content-type"), Some("application/octet-stream"));
}

#[test]
fn files_go_with_their_time_and_their_account() {
    let world = World::new();
    let (kept, brief) = (world.slot(1, "a", 1, None), world.slot(2, "a", 1, None));
    let brief = Slot { expires_s: wall_s() + 2, ..brief };
    assert_eq!((world.put(&kept, b"x").status, world.put(&brief, b"x").status), (201, 201));
    until("XEP-0363 5.3: it MUST NOT be there after that", || world.get(&brief, "").status == 404);
    assert_eq!((world.get(&kept, "").status, world.stored()), (200, 2));
    Round::whole(&world.files, wall_s());
    assert_eq!(world.stored(), 1, "the sweep removes it");
    world.accounts.gone.store(true, Ordering::Relaxed);
    assert_eq!(world.get(&kept, "").status, 404, "at once");
    assert_eq!(world.put(&world.slot(3, "a", 1, None), b"x").status, 403);
    Round::whole(&world.files, wall_s());
    assert_eq!(world.stored(), 0);
}

#[test]
fn a_crash_leaves_whole_files_and_open_slots() {
    let world = World::new();
    let (whole, cut) = (world.slot(1, "a", 100, None), world.slot(2, "a", 100, None));
    assert_eq!(world.put(&whole, &some(100)).status, 201);
    // What a killed process leaves in the middle of an upload.
    let incoming = world.folder.path().join("upload/incoming");
    std::fs::write(incoming.join(&*cut.id), b"half").expect("written");
    // And what a lying disk may leave: it is not a valid file, and is removed in the first round.
    let damaged = world.slot(3, "a", 100, None);
    let place = world.folder.path().join("upload").join(&damaged.id[..2]);
    std::fs::write(place.join(&*damaged.id), b"THRNGUP1\0\0\0\x05nope").expect("written");
    let world = world.restarted(plenty);
    assert_eq!((world.incoming(), world.stored()), (0, 1));
    assert_eq!(world.get(&whole, "").body, some(100));
    assert_eq!(world.get(&damaged, "").status, 404);
    assert_eq!(world.put(&whole, &some(100)).status, 409, "used before it");
    assert_eq!(world.put(&cut, &some(100)).status, 201);
}

#[test]
fn what_comes_right_after_a_start_waits_until_files_are_counted() {
    let mut world = World::new();
    world.reopen(plenty);
    let slot = world.slot(1, "a", 100, None);
    let mut early = world.connect();
    early.write_all(&[world.head(&slot, 100, "").as_bytes(), &some(100)].concat()).expect("it takes it");
    early.set_read_timeout(Some(Duration::from_millis(300))).expect("a time-out");
    assert!(early.read(&mut [0]).is_err(), "no answer yet");
    early.set_read_timeout(Some(Duration::from_secs(60))).expect("a time-out");
    Round::whole(&world.files, wall_s());
    assert_eq!(read_answer(&mut early).status, 201);
    // A failed lookup of an account does not mean that it does not exist.
    world.accounts.unknown.store(true, Ordering::Relaxed);
    assert_eq!(world.get(&slot, "").status, 503);
    world.accounts.unknown.store(false, Ordering::Relaxed);
    assert_eq!(world.get(&slot, "").body, some(100));
}

#[test]
fn a_full_disk_and_the_bound_of_all_files_refuse_with_507() {
    let world = World::with(Bounds { bytes_max: 100_000, free_bytes_min: 1 << 20 }, little, 50);
    assert_eq!(world.put(&world.slot(1, "a", 50_000, None), &some(50_000)).status, 201);
    assert_eq!(world.put(&world.slot(2, "a", 50_000, None), &some(50_000)).status, 507, "no more than 100,000 bytes");
    assert_eq!(world.put(&world.slot(3, "a", 10_000, None), &some(10_000)).status, 201);
    // Uploads in progress count.
    let mut first = world.connect();
    let slot = world.slot(4, "a", 10_000, None);
    first.write_all(&[world.head(&slot, 10_000, "").as_bytes(), &some(60)].concat()).expect("it takes it");
    until("it is being taken", || world.incoming() == 1);
    assert_eq!(world.put(&world.slot(5, "a", 10_000, None), &some(10_000)).status, 507);
    drop(first);
    until("nothing is left of it", || world.incoming() == 0);
    FREE.store((1 << 20) + 5_000, Ordering::Relaxed);
    assert_eq!(world.put(&world.slot(5, "a", 10_000, None), &some(10_000)).status, 507, "the rest is for messages");
    assert_eq!((world.counters.uploads_full.get(), world.counters.uploads.get()), (3, 2));
    FREE.store(1 << 40, Ordering::Relaxed);
    assert_eq!(world.put(&world.slot(5, "a", 10_000, None), &some(10_000)).status, 201);
    assert_eq!(world.incoming(), 0);
}

#[test]
fn slow_and_silent_clients_keep_nobody_out() {
    let world = World::with(Bounds { bytes_max: 1 << 30, free_bytes_min: 0 }, plenty, 10);
    let held: Vec<TcpStream> = (0..30)
        .map(|serial| {
            let mut stream = world.connect();
            let slot = world.slot(100 + serial, "a", 1_000, None);
            let head = world.head(&slot, 1_000, "");
            // A third each: sends nothing, half of a head, half of a body.
            let part = [&b""[..], &head.as_bytes()[..20], &[head.as_bytes(), &some(500)].concat()][serial as usize % 3]
                .to_vec();
            let _ = stream.write_all(&part);
            stream
        })
        .collect();
    for serial in 0..5 {
        let slot = world.slot(serial, "a", 100, None);
        assert_eq!((world.put(&slot, &some(100)).status, world.get(&slot, "").status), (201, 200));
    }
    drop(held);
    until("nothing is left of what they began", || world.incoming() == 0);
    assert_eq!(world.stored(), 5);
}

#[test]
fn nonsense_is_refused_and_breaks_nothing() {
    let world = World::new();
    let slot = world.slot(1, "a", 100, None);
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(40_000));
    let many: String = (0..2_000).map(|at| format!("X-{at}: y\r\n")).collect();
    let many = format!("GET / HTTP/1.1\r\n{many}\r\n");
    for nonsense in [
        &b"\x16\x03\x01\x02\x00\x01\x00"[..],
        b"<stream:stream to='localhost'>",
        b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        long.as_bytes(),
        many.as_bytes(),
        b"GET /%00%0d%0a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    ] {
        let mut stream = world.connect();
        let _ = stream.write_all(nonsense);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let answer = read_answer(&mut stream);
        assert!(answer.status == 0 || (400..500).contains(&answer.status), "{answer:?}");
    }
    assert_eq!(world.put(&slot, &some(100)).status, 201);
}
