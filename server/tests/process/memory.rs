//! The composition of the program's memory, as reported by the kernel.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// An idle session takes some hundred bytes, and freed memory is returned: neither is true with
/// pages of 2 MiB (docs/decisions/0006-memory.md).
#[test]
fn a_server_has_no_huge_pages() {
    let data = tempfile::tempdir().expect("a folder");
    let log = std::fs::File::create(data.path().join("out")).expect("a file");
    let mut child = Command::new(env!("CARGO_BIN_EXE_throng"))
        .args(["serve", "--c2s", "127.0.0.1:0", "--c2s-tls", "off", "--shards", "1", "--data"])
        .arg(data.path().join("data"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a file"))
        .stderr(log)
        .spawn()
        .expect("throng starts");
    let started = || std::fs::read_to_string(data.path().join("out")).is_ok_and(|out| out.contains("Next:"));
    let end = Instant::now() + Duration::from_secs(60);
    while !started() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    let (ready, proc) = (started(), format!("/proc/{}", child.id()));
    let [status, rollup] = ["status", "smaps_rollup"].map(|f| std::fs::read_to_string(format!("{proc}/{f}")));
    child.kill().and_then(|()| child.wait()).expect("it ends");
    assert!(ready, "throng did not start");
    let figure = |text: &str, name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    // Kernels before 5.0 do not report it, nor does one without huge pages.
    assert_ne!(figure(&status.expect("a status"), "THP_enabled:"), Some(1), "the kernel may use huge pages");
    assert_eq!(figure(&rollup.expect("a roll-up"), "AnonHugePages:"), Some(0));
}
