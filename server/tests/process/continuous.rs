//! Continuous backup (`--backup-to`): loss of the disk under load, points in time, drills, and two
//! servers with one place.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, UNIX_EPOCH};

use crate::channels::free_address;
use crate::restored::{ask, publish_to};
use crate::support::{Host, throng, until};

/// Flags for open channels that keep their last item, and for the backup.
pub(crate) fn flags<'a>(http: &'a str, url: &'a str) -> Vec<&'a str> {
    let open = ["--notify", "c", "--notify-publish-open", "--notify-publications-per-second", "0"];
    [&["--c2s-tls", "off", "--i-know", "--http", http, "--backup-to", url][..], &open].concat()
}

pub(crate) fn backup(host: &Host) -> serde_json::Value {
    let status: serde_json::Value = serde_json::from_str(&host.good(&["ctl", "status", "--json"])).expect("JSON");
    status["backup"].clone()
}

pub(crate) fn has_full_piece(host: &Host) {
    until("a full piece", || backup(host)["full_s"].is_u64());
}

/// The items of a channel that a restored server has.
fn items(http: &str, channel: &str) -> String {
    items_after(http, channel, "0")
}

fn items_after(http: &str, channel: &str, after: &str) -> String {
    ask(http, &format!("GET /n/{channel}?wait=0&after={after} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
}

/// Numbers of the items that `items` has found.
fn numbers(answer: &str) -> Vec<u32> {
    answer.split("item-").skip(1).filter_map(|rest| rest.get(..6)?.parse().ok()).collect()
}

pub(crate) fn now_ms() -> u64 {
    UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as u64)
}

/// Time of the newest piece of the journal in a folder: all that was acknowledged before is in it.
fn shipped_ms(place: &Path) -> u64 {
    let folders = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let pieces = folders(place).flat_map(|generation| folders(&generation.path().join("journal")));
    let time_ms = |name: String| name.rsplit('-').next()?.parse().ok();
    pieces.filter_map(|piece| time_ms(piece.file_name().into_string().ok()?)).max().unwrap_or(0)
}

/// Publishers, each to a channel of its own, and the number of items that each was promised.
pub(crate) struct Load {
    channels: Vec<(String, Arc<AtomicU32>)>,
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn begin(http: &str) -> Load {
        let ended = Arc::new(AtomicBool::new(false));
        let channels: Vec<_> = (0..4).map(|n| (format!("c{n}"), Arc::<AtomicU32>::default())).collect();
        let publish = |(channel, promised): &(String, Arc<AtomicU32>)| {
            let (http, channel, promised, ended) = (http.to_owned(), channel.clone(), promised.clone(), ended.clone());
            std::thread::spawn(move || {
                while !ended.load(Ordering::Acquire) {
                    let n = promised.load(Ordering::Acquire);
                    if publish_to(&http, &channel, &format!("item-{n:06}")).is_some() {
                        promised.store(n + 1, Ordering::Release);
                    }
                }
            })
        };
        Load { threads: channels.iter().map(publish).collect(), channels, ended }
    }

    /// Channels and the items that they have been promised until now.
    pub(crate) fn promised(&self) -> Vec<(String, u32)> {
        self.channels.iter().map(|(channel, promised)| (channel.clone(), promised.load(Ordering::Acquire))).collect()
    }

    pub(crate) fn end(self) {
        self.ended.store(true, Ordering::Release);
        self.threads.into_iter().for_each(|thread| thread.join().expect("it has ended"));
    }
}

/// All items that were promised are there, but for the oldest ones, which a channel does not keep.
pub(crate) fn has_promised(http: &str, promised: &[(String, u32)]) {
    for (channel, promised) in promised {
        let (mut after, mut newest) = ("0".to_owned(), None);
        // Page by page.
        loop {
            let answer = items_after(http, channel, &after);
            let Some(number) = numbers(&answer).into_iter().max() else { break };
            newest = Some(number);
            after =
                answer.rsplit("\"after\":\"").next().and_then(|rest| rest.split('"').next()).expect("a place").into();
        }
        assert!(newest.is_some_and(|newest| newest + 1 >= *promised), "{channel}: {newest:?} of {promised}");
    }
}

#[test]
fn what_was_acknowledged_before_the_disk_was_lost_is_restored() {
    let place = tempfile::tempdir().expect("a folder");
    let url = format!("file://{}/live", place.path().display());
    let mut host = Host::new(&["romeo"]);
    let http = free_address();
    host.start(&flags(&http, &url));
    has_full_piece(&host);
    let load = Load::begin(&http);
    until("some load", || load.promised().iter().all(|(_, promised)| *promised > 10));
    let (promised, then_ms) = (load.promised(), now_ms());
    until("the backup is there", || shipped_ms(&place.path().join("live")) >= then_ms);
    host.kill();
    load.end();
    std::fs::remove_dir_all(host.data()).expect("removed");
    drop(host);

    let mut host = Host::new(&[]);
    let said = host.good(&["store", "restore", "--from", &url]);
    assert!(said.contains("the store is that of 20") && said.ends_with("restore: good\n"), "{said}");
    assert!(host.good(&["store", "check"]).ends_with("check: good\n"));
    assert!(host.good(&["user", "list"]).contains("romeo"));
    host.start(&flags(&http, &url));
    has_promised(&http, &promised);
}

#[test]
fn a_second_is_restored_and_a_drill_says_what_is_wrong() {
    let place = tempfile::tempdir().expect("a folder");
    let url = format!("file://{}/live", place.path().display());
    let key = place.path().join("key");
    std::fs::write(&key, "0123456789abcdef".repeat(4)).expect("a key");
    let key = ["--backup-key", key.to_str().expect("a path")];
    let mut host = Host::new(&["romeo"]);
    let http = free_address();
    host.start(&[&flags(&http, &url)[..], &key].concat());
    has_full_piece(&host);
    assert!(publish_to(&http, "c", "item-000001").is_some());
    let began = now_ms();
    until("a time after the first item", || now_ms() > began + 250);
    let first_ms = now_ms();
    until("a time before the second item", || now_ms() > first_ms + 50);
    assert!(publish_to(&http, "c", "item-000002").is_some());
    let status = host.good(&["ctl", "status"]);
    assert!(status.contains(", encrypted: ") && status.contains("full at 20"), "{status}");
    host.stop();

    let at = written(first_ms);
    for (at, found) in [(vec!["--at", &*at], vec![1]), (vec![], vec![1, 2])] {
        let mut host = Host::new(&[]);
        host.good(&[&["store", "restore", "--from", &url][..], &at, &key].concat());
        let http = free_address();
        host.start(&["--c2s-tls", "off", "--i-know", "--http", &http, "--notify", "c", "--notify-publish-open"]);
        assert_eq!(numbers(&items(&http, "c")), found, "{}", items(&http, "c"));
        // The second item's number is not given again, although the first store never had it.
        assert!(publish_to(&http, "c", "item-000003").is_some_and(|number| number > 1 << 48));
        host.stop();
    }

    let drill = |more: &[&str]| {
        let scratch = place.path().to_str().expect("a path");
        throng(&[&["store", "drill", "--from", &url, "--scratch", scratch, "--json"], more].concat())
    };
    let output = drill(&key);
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(output.status.success() && told["done"] == "drill" && told["wrong"] == serde_json::json!([]), "{told}");
    assert!(told["counts"]["rows in accounts"].as_u64() == Some(1) && told["counts"]["age_s"].is_u64(), "{told}");
    let failed = drill(&[]);
    assert!(!failed.status.success(), "{failed:?}");
    assert!(String::from_utf8_lossy(&failed.stderr).contains("--backup-key"), "{failed:?}");
    let left = std::fs::read_dir(place.path()).expect("a folder").filter_map(Result::ok);
    assert!(
        !left.into_iter().any(|entry| entry.file_name().to_string_lossy().contains("drill")),
        "it removes its folder"
    );
}

/// A time as an operator writes it.
fn written(time_ms: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_millis(time_ms);
    let since = time.duration_since(UNIX_EPOCH).expect("after 1970");
    let output = std::process::Command::new("date")
        .args(["-u", "+%Y-%m-%dT%H:%M:%S", "-d", &format!("@{}", since.as_secs())])
        .output()
        .expect("date runs");
    let text = String::from_utf8(output.stdout).expect("text");
    format!("{}.{:03}Z", text.trim(), since.subsec_millis())
}

#[test]
fn two_servers_do_not_share_a_place() {
    let place = tempfile::tempdir().expect("a folder");
    let url = format!("file://{}/live", place.path().display());
    let [mut one, mut two] = [(); 2].map(|()| Host::new(&["romeo"]));
    one.start(&["--c2s-tls", "off", "--backup-to", &url]);
    has_full_piece(&one);
    two.start(&["--c2s-tls", "off", "--backup-to", &url]);
    until("the second is refused", || two.log().contains("has the backup of another store"));
    let trouble = backup(&two)["trouble"].as_str().map(str::to_owned).unwrap_or_default();
    assert!(trouble.contains("give this server a place of its own"), "{trouble}");
    assert!(two.good(&["ctl", "status"]).contains("the backup"), "{}", two.good(&["ctl", "status"]));
    assert_eq!(backup(&one)["trouble"], serde_json::Value::Null);
    two.stop();
    one.stop();
    let wrong = throng(&["serve", "--data", one.data().to_str().expect("a path"), "--backup-to", "ftp://a/b"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", String::from_utf8_lossy(&wrong.stderr));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("file:///ABSOLUTE/FOLDER or s3://BUCKET/PREFIX"));
}
