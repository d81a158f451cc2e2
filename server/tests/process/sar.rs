//! `throng sar` in operation: killed, out of disk space, followed, and compared with Debian's
//! `sysstat` and `ss` (docs/recorder.md).

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use throng_recorder::read::{Item, items};
use throng_recorder::ring;
use throng_recorder::table::Sample;

const THRONG: &str = env!("CARGO_BIN_EXE_throng");
const LONG: Duration = Duration::from_secs(60);

/// A child that is killed when the test ends, in any way.
struct Kill(Child);

impl Drop for Kill {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn record(folder: &Path, further: &[&str]) -> Kill {
    let mut command = Command::new(THRONG);
    command.args(["sar", "record", "--interval", "0.1", "--folder"]).arg(folder).args(further);
    Kill(command.stderr(Stdio::piped()).spawn().expect("throng runs"))
}

fn sar(from: &Path, further: &[&str]) -> Output {
    Command::new(THRONG).args(["sar", "--from"]).arg(from).args(further).output().expect("throng runs")
}

/// The objects in the output, one per line.
fn objects(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).expect("an object")).collect()
}

/// All samples of a folder.
fn samples(folder: &Path) -> Vec<Sample> {
    let parts = ring::parts(folder).unwrap_or_default();
    let all = parts.iter().flat_map(|part| items(&std::fs::read(&part.path).expect("a file")));
    all.filter_map(|item| if let Item::Sample(sample) = item { Some(sample) } else { None }).collect()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LONG, "not within {LONG:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(child: &Child, name: &str) {
    let done = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(done.expect("kill runs").success());
}

fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    found.is_ok_and(|output| output.status.success())
}

#[test]
fn kill_9_loses_nothing_that_was_sampled_and_the_next_recorder_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut before = Vec::new();
    for round in 1..=3 {
        let recorder = record(folder.path(), &[]);
        until("ten more samples", || samples(folder.path()).len() >= before.len() + 10);
        let seen = samples(folder.path());
        drop(recorder);
        let after = samples(folder.path());
        assert_eq!(after[..seen.len()], seen, "what was there stays");
        assert_eq!(after[..before.len()], before, "of earlier rounds, too");
        let told = objects(&sar(folder.path(), &["cpu", "--json"]));
        let of = |key: &str| told.iter().filter(|object| object.get(key).is_some()).count();
        // The first sample of a recording starts an interval and ends none.
        assert_eq!((of("origin"), of("cpu")), (round, after.len() - round), "{told:?}");
        let starts = told.iter().filter(|object| object["mark"] == "start");
        assert_eq!((starts.count(), of("damage")), (round, 0));
        before = after;
    }
    // Truncated within the last record of the first file, as by a kill during a write: reported,
    // but not a failure.
    let first = &ring::parts(folder.path()).expect("a folder")[0].path;
    let length = first.metadata().expect("a file").len();
    let file = std::fs::File::options().write(true).open(first).expect("it opens");
    file.set_len(length - 1).expect("it is cut");
    let told = objects(&sar(folder.path(), &["cpu", "--json"]));
    assert!(told.iter().any(|object| object["damage"].as_str().is_some_and(|why| why.contains("cut off"))), "{told:?}");
    // Altered in its middle: reported, and a failure.
    let mut bytes = std::fs::read(first).expect("a file");
    let sync = b"\xd3\x1eTHRONG";
    let segment =
        bytes.windows(sync.len()).enumerate().filter(|(_, window)| window == sync).nth(1).expect("a segment").0;
    bytes[segment + 100] ^= 4;
    std::fs::write(first, bytes).expect("written");
    let output = sar(folder.path(), &["cpu"]);
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("checksum differs") && text.contains("mean"), "{text}");
}

#[test]
fn one_recorder_a_folder_and_a_good_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut recorder = record(folder.path(), &[]);
    until("a sample", || !samples(folder.path()).is_empty());
    let second =
        Command::new(THRONG).args(["sar", "record", "--folder"]).arg(folder.path()).output().expect("throng runs");
    assert_eq!(second.status.code(), Some(4), "{second:?}");
    signal(&recorder.0, "-TERM");
    assert!(recorder.0.wait().expect("it ends").success());
    let told = objects(&sar(folder.path(), &["--json"]));
    assert_eq!(told.last().expect("some")["mark"], "stop");
}

#[test]
fn a_reader_follows_while_it_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let _recorder = record(folder.path(), &[]);
    until("a sample", || !samples(folder.path()).is_empty());
    let mut command = Command::new(THRONG);
    command.args(["sar", "--follow", "--json", "cpu.user", "--from"]).arg(folder.path());
    let mut reader = Kill(command.stdout(Stdio::piped()).spawn().expect("throng runs"));
    let lines = BufReader::new(reader.0.stdout.take().expect("a pipe")).lines();
    let mut last = String::new();
    let mut seen = 0;
    for line in lines {
        let line: Value = serde_json::from_str(&line.expect("text")).expect("an object");
        if line.get("cpu").is_none() {
            continue;
        }
        let time = line["time"].as_str().expect("a time").to_owned();
        assert!(time > last, "{time} after {last}");
        last = time;
        seen += 1;
        if seen == 25 {
            break;
        }
    }
    assert_eq!(seen, 25);
    signal(&reader.0, "-INT");
    assert!(reader.0.wait().expect("it ends").success());
}

#[test]
fn times_modules_and_words_that_are_wrong_say_what_is_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let say = |arguments: &[&str]| {
        let output = Command::new(THRONG).arg("sar").args(arguments).output().expect("throng runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let from = folder.path().to_str().expect("a plain path");
    for (arguments, code, word) in [
        (&["nothing"][..], 2, "there are: cpu"),
        (&["cpu.nothing"], 2, "it has: user"),
        (&["cpu:0"], 2, "one row only"),
        (&["-s", "12:00"], 2, "--from FOLDER"),
        (&["--from", from], 1, "throng sar record"),
        (&["--from", "/there/is/no/such"], 1, "/there/is/no/such"),
        (&["record", "--folder", from, "--bytes-max", "1"], 2, "at least"),
        (&["record", "--folder", from, "--pid", "4194304"], 2, "no process"),
    ] {
        let (exit, told) = say(arguments);
        assert!(exit == Some(code) && told.contains(word), "{arguments:?}: {exit:?} {told}");
    }
    // Between two times, at an interval, in each form.
    let mut recorder = record(folder.path(), &["--duration", "2.5"]);
    assert!(recorder.0.wait().expect("it ends").success());
    let all = objects(&sar(folder.path(), &["cpu", "--json"]));
    let times: Vec<&str> = all.iter().filter(|o| o.get("cpu").is_some()).filter_map(|o| o["time"].as_str()).collect();
    assert!(times.len() >= 20, "{times:?}");
    let some = objects(&sar(folder.path(), &["cpu", "--json", "-s", times[5], "-e", times[9]]));
    let some: Vec<&str> = some.iter().filter(|o| o.get("cpu").is_some()).filter_map(|o| o["time"].as_str()).collect();
    assert_eq!(some, times[5..=9]);
    let slow = objects(&sar(folder.path(), &["cpu", "--json", "-i", "1"]));
    let slow: Vec<f64> = slow.iter().filter_map(|o| o["seconds"].as_f64()).collect();
    assert!(!slow.is_empty() && slow.iter().all(|seconds| (0.85..1.5).contains(seconds)), "{slow:?}");
    let output = sar(folder.path(), &["cpu.user", "nic:lo.rx_pkt", "--csv"]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.starts_with("time,row,cpu.user,nic.rx_pkt\n"), "{text}");
    let output = sar(folder.path(), &["cpu", "--summary", "--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["cpu"]["user"]["count"], times.len(), "{value}");
}

/// Runs one of the ignored tests in namespaces of its own. `None` if that is not permitted here.
fn apart(test: &str, namespaces: &[&str]) -> Option<()> {
    let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    let allowed =
        root && Command::new("unshare").args(namespaces).arg("true").status().is_ok_and(|status| status.success());
    if !allowed {
        eprintln!("SKIPPED: {test} needs root and unshare(1) with {namespaces:?}");
        return None;
    }
    let own = std::env::current_exe().expect("this program");
    let arguments = ["--ignored", "--exact", test, "--nocapture"];
    let output = Command::new("unshare").args(namespaces).arg(own).args(arguments).output().expect("unshare runs");
    let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
    eprintln!("{told}");
    Some(())
}

#[test]
fn a_full_disk_leaves_a_marked_gap() {
    apart("sar::on_a_disk_that_fills", &["-m"]);
}

#[test]
#[ignore = "run by a_full_disk_leaves_a_marked_gap in a mount namespace of its own"]
fn on_a_disk_that_fills() {
    let folder = tempfile::tempdir().expect("a folder");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m", "none"]).arg(folder.path()).status();
    assert!(mounted.expect("mount runs").success());
    let ring = folder.path().join("ring");
    let mut recorder = record(&ring, &[]);
    until("five samples", || samples(&ring).len() >= 5);
    // All the remaining space, to the last byte.
    let filler = folder.path().join("filler");
    let mut file = std::fs::File::create(&filler).expect("a file");
    while file.write_all(&[7; 512]).is_ok() {}
    drop(file);
    let mut told = BufReader::new(recorder.0.stderr.take().expect("a pipe")).lines();
    let mut hear = |word: &str| told.by_ref().map_while(Result::ok).find(|line| line.contains(word)).expect(word);
    hear("Cannot write");
    let full = samples(&ring).len();
    std::thread::sleep(Duration::from_secs(2));
    assert!(recorder.0.try_wait().expect("it can be asked").is_none(), "it goes on");
    assert_eq!(samples(&ring).len(), full, "and writes nothing");
    std::fs::remove_file(&filler).expect("it is there");
    hear("Writing again");
    until("more samples", || samples(&ring).len() >= full + 5);
    signal(&recorder.0, "-TERM");
    assert!(recorder.0.wait().expect("it ends").success());
    let told = objects(&sar(&ring, &["cpu", "--json"]));
    let gap = told.iter().find(|object| object["mark"] == "gap").expect("a mark").clone();
    let text = gap["text"].as_str().expect("a sentence");
    assert!(text.contains("samples were not written") && text.contains("No space left"), "{text}");
    // Incomplete writes were undone: no record is truncated.
    assert!(told.iter().all(|object| object.get("damage").is_none()), "{told:?}");
    assert_eq!(told.last().expect("some")["mark"], "stop");
    let _ = Command::new("umount").arg("-l").arg(folder.path()).status();
}

#[test]
fn it_agrees_with_sysstat_and_ss() {
    if !has("sar") || !has("ss") {
        eprintln!("SKIPPED: it_agrees_with_sysstat_and_ss needs sar(1) and ss(8): apt-get install sysstat iproute2");
        return;
    }
    apart("sar::beside_sysstat_and_ss", &["-n"]);
}

/// The averages in the output of `sar`, by column, and by row and column where rows have names.
fn averages(text: &str) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    let mut names: Vec<&str> = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("Average:")) {
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        if words.iter().all(|word| word.parse::<f64>().is_err()) {
            names = words;
            continue;
        }
        let row = if ["CPU", "IFACE"].contains(&names[0]) { format!("{} ", words[0]) } else { String::new() };
        for (name, word) in names.iter().zip(&words) {
            if let Ok(value) = word.parse() {
                found.insert(format!("{row}{name}"), value);
            }
        }
    }
    found
}

/// Ours over the same time, from the recording itself: the growth of counters between two of its
/// samples, and the mean of levels.
struct Ours<'a>(&'a [Sample]);

impl Ours<'_> {
    fn value(&self, sample: &Sample, module: &str, row: &str, field: &str) -> f64 {
        let at = sample.shape.schema().module(module).expect(module);
        let row = sample.shape.rows()[at].iter().position(|known| known == row).expect(row);
        let slot =
            sample.shape.schema().modules[at].recorded().position(|(_, known)| known.name == field).expect(field);
        sample.values[sample.shape.row_at(at, row) + slot] as f64
    }

    fn growth(&self, module: &str, row: &str, field: &str) -> f64 {
        let (first, last) = (&self.0[0], &self.0[self.0.len() - 1]);
        self.value(last, module, row, field) - self.value(first, module, row, field)
    }

    fn mean(&self, module: &str, field: &str) -> f64 {
        self.0.iter().map(|sample| self.value(sample, module, "", field)).sum::<f64>() / self.0.len() as f64
    }
}

/// Connections that are opened, closed and kept, and datagrams: enough that a difference would
/// show.
fn traffic() -> Vec<TcpStream> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let at = listener.local_addr().expect("its address");
    let mut stay = Vec::new();
    for round in 0..300 {
        let mut client = TcpStream::connect(at).expect("it listens");
        let (mut server, _) = listener.accept().expect("it came");
        client.write_all(&[7; 3000]).expect("it reads");
        server.read_exact(&mut [0; 3000]).expect("it wrote");
        match round % 3 {
            0 => stay.extend([client, server]),
            // The client closes first, and stays in TIME-WAIT.
            1 => {
                client.shutdown(Shutdown::Both).expect("it is connected");
                let _ = server.read(&mut [0]);
            }
            _ => drop((client, server)),
        }
    }
    // Refused: a failed attempt.
    drop(listener);
    for _ in 0..50 {
        TcpStream::connect(at).expect_err("nobody listens");
    }
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for _ in 0..500 {
        socket.send_to(&[7; 100], socket.local_addr().expect("its address")).expect("it is sent");
        socket.recv(&mut [0; 100]).expect("it comes");
    }
    stay
}

#[test]
#[ignore = "run by it_agrees_with_sysstat_and_ss in a network namespace of its own"]
fn beside_sysstat_and_ss() {
    const SECONDS: f64 = 10.0;
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
    assert!(up.expect("ip runs").success());
    let folder = tempfile::tempdir().expect("a folder");
    let recorder = record(folder.path(), &[]);
    until("five samples", || samples(folder.path()).len() >= 5);
    let now_ms = throng_recorder::clock::wall_ms;
    let began_ms = now_ms();
    let sysstat = Command::new("sar")
        .args(["-u", "ALL", "-r", "ALL", "-w", "-q", "LOAD", "-B", "-n", "TCP,ETCP,UDP,DEV,SOCK", "1", "10"])
        .envs([("LC_ALL", "C"), ("S_TIME_FORMAT", "ISO")])
        .stdout(Stdio::piped())
        .spawn()
        .expect("sar runs");
    // Nothing happens in this namespace near the ends of the interval, so that both see everything.
    std::thread::sleep(Duration::from_secs(3));
    let stay = traffic();
    let output = sysstat.wait_with_output().expect("it ends");
    let ended_ms = now_ms();
    let summary = Command::new("ss").arg("-s").output().expect("ss runs");
    let summary = String::from_utf8_lossy(&summary.stdout).into_owned();
    until("a later sample", || samples(folder.path()).last().is_some_and(|last| last.wall_ms() > ended_ms + 500));
    drop(recorder);
    let all = samples(folder.path());
    // Of the same seconds, to a tenth or two: `sar` measures from its start to its last line.
    let during: Vec<Sample> = all.iter().filter(|s| (began_ms..=ended_ms).contains(&s.wall_ms())).cloned().collect();
    let ours = Ours(&during);
    let text = String::from_utf8(output.stdout).expect("text");
    let theirs = averages(&text);
    let their = |name: &str| *theirs.get(name).unwrap_or_else(|| panic!("sar says no {name}: {text}"));

    // This namespace's own figures: the same events, so the same counts, except for rounding to two
    // decimals in each of ten seconds.
    for (name, module, row, field) in [
        ("active/s", "tcp", "", "active"),
        ("passive/s", "tcp", "", "passive"),
        ("iseg/s", "tcp", "", "in"),
        ("oseg/s", "tcp", "", "out"),
        ("atmptf/s", "tcp", "", "fails"),
        ("estres/s", "tcp", "", "resets"),
        ("retrans/s", "tcp", "", "retr"),
        ("isegerr/s", "tcp", "", "in_errs"),
        ("orsts/s", "tcp", "", "out_rsts"),
        ("idgm/s", "udp", "", "in"),
        ("odgm/s", "udp", "", "out"),
        ("noport/s", "udp", "", "no_port"),
        ("idgmerr/s", "udp", "", "in_errs"),
        ("lo rxpck/s", "nic", "lo", "rx_pkt"),
        ("lo txpck/s", "nic", "lo", "tx_pkt"),
    ] {
        let (theirs, ours) = (their(name) * SECONDS, ours.growth(module, row, field));
        // Their mean covers slightly more than ten seconds.
        let within = 0.06 + 0.01 * ours;
        assert!((theirs - ours).abs() <= within, "{name}: {theirs:.2}, and {module}.{field}: {ours}\n{text}");
    }
    let (theirs_kib, ours_kib) = (their("lo rxkB/s") * SECONDS, ours.growth("nic", "lo", "rx_kib") / 1024.0);
    assert!((theirs_kib - ours_kib).abs() <= 0.06 + 0.01 * ours_kib, "rxkB/s: {theirs_kib} {ours_kib}");
    assert!(ours.growth("tcp", "", "active") >= 350.0 && ours.growth("udp", "", "in") == 500.0);

    // The whole host's figures: others work at both ends of the interval.
    let shares = ["user", "nice", "sys", "irq", "softirq", "steal", "idle", "iowait"];
    let whole: f64 = shares.iter().map(|field| ours.growth("cpu", "", field)).sum();
    for (name, field) in [
        ("all %usr", "user"),
        ("all %sys", "sys"),
        ("all %iowait", "iowait"),
        ("all %soft", "softirq"),
        ("all %idle", "idle"),
    ] {
        let (theirs, ours) = (their(name), 100.0 * ours.growth("cpu", "", field) / whole);
        assert!((theirs - ours).abs() <= 3.0, "{name}: {theirs}, and cpu.{field}: {ours:.2}\n{text}");
    }
    for (name, module, field) in [
        ("cswch/s", "system", "cswch"),
        ("proc/s", "system", "forks"),
        ("fault/s", "paging", "fault"),
        ("pgpgout/s", "paging", "out"),
    ] {
        let theirs = their(name) * SECONDS;
        // The growth is at least that in the time certainly seen by both, and at most that in the
        // time seen by either.
        let grown = |more_ms: i64| {
            let range = began_ms.saturating_add_signed(-more_ms)..=ended_ms.saturating_add_signed(more_ms);
            let within: Vec<Sample> = all.iter().filter(|s| range.contains(&s.wall_ms())).cloned().collect();
            Ours(&within).growth(module, "", field)
        };
        let (least, most) = (0.98 * grown(-300) - 1.0, 1.02 * grown(300) + 1.0);
        assert!((least..=most).contains(&theirs), "{name}: {theirs}, and {module}.{field}: {least} to {most}\n{text}");
    }
    for (name, field) in [
        ("kbmemfree", "free"),
        ("kbavail", "avail"),
        ("kbbuffers", "buffers"),
        ("kbcached", "cached"),
        ("kbactive", "active"),
        ("kbslab", "slab"),
        ("kbcommit", "commit"),
    ] {
        let (theirs, ours) = (their(name), ours.mean("memory", field));
        let within = 4096.0 + 0.03 * ours + 0.01 * self::Ours(&during).mean("memory", "total");
        assert!((theirs - ours).abs() <= within, "{name}: {theirs} KiB, and memory.{field}: {ours} KiB\n{text}");
    }
    let (theirs, ours_load) = (their("ldavg-1"), ours.mean("system", "load1") / 100.0);
    assert!((theirs - ours_load).abs() <= 0.5, "ldavg-1: {theirs}, and system.load1: {ours_load}");

    // ss -s: `TCP:   207 (estab 200, closed 7, orphaned 0, timewait 7)`, while nothing changes
    // here. The kernel counts the orphans of all namespaces together, and others may have some: its
    // `orphan` and theirs need not agree.
    let last = all.iter().rev().find(|sample| sample.wall_ms() >= ended_ms).expect("a later one");
    let line = summary.lines().find(|line| line.starts_with("TCP:")).expect("a line of TCP");
    let after = |word: &str| {
        let rest = line.split(word).nth(1).unwrap_or_else(|| panic!("no {word} in {line}"));
        rest.trim().split(|c: char| !c.is_ascii_digit()).next().expect("a number").parse::<f64>().expect("a number")
    };
    for (word, field) in [("estab", "estab"), ("timewait", "tw")] {
        assert_eq!(after(word), ours.value(last, "tcp", "", field), "{word} of {line}");
    }
    assert_eq!(after("estab"), stay.len() as f64);
}
