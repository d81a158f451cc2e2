//! Channels of a store that was restored from a backup, imported from an export, or salvaged:
//! readers have positions that the store does not know, and learn that items are missing.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, SystemTime};

use throng_engine::id::partition;

use crate::channels::free_address;
use crate::support::{Host, good, throng};

pub(crate) fn ask(http: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(http).expect("a connection");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.split_once("\r\n\r\n").expect("a head and a body").1.to_owned()
}

/// A server with open channels.
fn start(host: &mut Host) -> String {
    let http = free_address();
    let open = ["--notify", "news", "--notify-publish-open", "--notify-publications-per-second", "0"];
    host.start(&[&["--c2s-tls", "off", "--i-know", "--http", &http][..], &open].concat());
    http
}

/// The number of the published item.
fn publish(http: &str, item: &str) -> u64 {
    publish_to(http, "news", item).expect("published")
}

/// The number of an item that was published to a channel; `None` if there is no answer.
pub(crate) fn publish_to(http: &str, channel: &str, item: &str) -> Option<u64> {
    let head = format!("Host: x\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: {}", item.len());
    let mut stream = TcpStream::connect(http).ok()?;
    write!(stream, "POST /n/{channel} HTTP/1.1\r\n{head}\r\n\r\n{item}").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split("\"id\":\"").nth(1)?.split('"').next()?.parse().ok()
}

fn behind(http: &str, place: u64) -> String {
    ask(http, &format!("GET /n/news?wait=0&after={place} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
}

/// Earlier readers receive a gap and the items published from now on. Returns the number of the
/// next one.
fn goes_on(http: &str, lost: u64) -> u64 {
    assert!(behind(http, lost).contains("\"gaps\":[\"news\"]"), "{}", behind(http, lost));
    let number = publish(http, "new");
    assert!(number > 1 << 48 && number < 1 << 53, "{number}");
    for place in 1..=lost {
        let answer = behind(http, place);
        assert!(answer.contains("\"gaps\":[\"news\"]") && answer.contains("\"data\":\"new\""), "{place}: {answer}");
    }
    assert_eq!(publish(http, "newer"), number + 1);
    let answer = behind(http, number);
    assert!(answer.contains("\"gaps\":[]") && answer.contains("\"data\":\"newer\""), "{answer}");
    number + 1
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[test]
fn numbers_that_were_given_out_after_the_backup_are_not_given_out_again() {
    let mut host = Host::new(&["romeo"]);
    let http = start(&mut host);
    (1..=3).for_each(|number| assert_eq!(publish(&http, "old"), number));
    let backup = host.data().join("backup");
    let backup = backup.to_str().expect("a plain path");
    host.good(&["store", "backup", backup]);
    (4..=8).for_each(|number| assert_eq!(publish(&http, "lost"), number));
    host.stop();

    let mut first = Host::new(&[]);
    first.good(&["store", "restore", backup]);
    assert!(first.good(&["store", "check"]).ends_with("check: good\n"));
    let http = start(&mut first);
    let last = goes_on(&http, 8);
    // Also if the same backup is restored again, in another second: floors are by the second.
    first.stop();
    let restored_s = now_s();
    while now_s() == restored_s {
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut second = Host::new(&[]);
    second.good(&["store", "restore", backup]);
    let http = start(&mut second);
    assert!(goes_on(&http, 8) > last);
    second.stop();
    let second_backup = second.data().join("backup");
    let second_backup = second_backup.to_str().expect("a plain path");
    second.good(&["store", "backup", second_backup]);
    good(&throng(&["store", "backup", "verify", second_backup]));
}

#[test]
fn channels_of_an_imported_partition_and_of_a_salvaged_store_go_on_behind_all_numbers() {
    let mut host = Host::new(&["romeo"]);
    let http = start(&mut host);
    (1..=3).for_each(|number| assert_eq!(publish(&http, "old"), number));
    host.stop();
    let [file, into] =
        ["part.export", "salvaged"].map(|name| host.data().join(name).to_str().expect("a path").to_owned());
    let number = partition("pubsub.localhost/news").to_string();
    host.good(&["store", "export", "--partition", &number, &file]);
    host.good(&["store", "salvage", "--into", &into]);
    let http = start(&mut host);
    (4..=8).for_each(|number| assert_eq!(publish(&http, "lost"), number));
    host.stop();

    let mut other = Host::new(&[]);
    other.good(&["store", "import", &file]);
    let http = start(&mut other);
    let last = goes_on(&http, 8);
    other.stop();
    other.good(&["store", "import", &file, "--replace"]);
    assert!(other.good(&["store", "check"]).ends_with("check: good\n"));
    let http = start(&mut other);
    assert!(goes_on(&http, 8) > last);
    other.stop();

    let folder = tempfile::tempdir().expect("a folder");
    std::fs::rename(format!("{into}/store"), folder.path().join("store")).expect("moved");
    let mut salvaged = Host::on(folder);
    let http = start(&mut salvaged);
    goes_on(&http, 8);
    salvaged.stop();
}
