//! The steps of the work. Each opens the engine in the folder that the step before left.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use throng_engine::store::{Batch, Table};

use crate::engines::{self, Engine};

const USERS: u64 = 100_000;
const MICROS_START: u64 = 1_750_000_000_000_000;

/// Messages archived by `fill` (two rows each).
fn fill_messages() -> u64 {
    std::env::var("FILL").ok().and_then(|v| v.parse().ok()).unwrap_or(500_000)
}

struct Work {
    random: u64,
    clock: u64,
    text: String,
}

impl Work {
    fn new(seed: u64) -> Work {
        let words = ["the", "quick", "message", "will", "tomorrow", "arrive", "where", "home", "when", "ok", "later"];
        let mut work = Work { random: seed * 2 + 1, clock: MICROS_START + seed * (1 << 40), text: String::new() };
        while work.text.len() < 65_536 {
            let pick = work.next();
            work.text.push_str(words[(pick % 11) as usize]);
            work.text.push_str(&format!("{:x} ", pick & 0xfff));
        }
        work
    }

    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn user(&mut self) -> String {
        // A fifth of the traffic belongs to a thousand busy users, so that some mailboxes are long.
        let of = if self.next().is_multiple_of(5) { 1000 } else { USERS };
        format!("user{:06}@chat.example.org", self.next() % of)
    }

    fn message(&mut self) -> Batch {
        let (from, to) = (self.user(), self.user());
        self.clock += 1 + self.next() % 2000;
        let id = self.clock.to_be_bytes();
        let start = (self.next() % 65_000) as usize;
        let (length, name) = (160 + (self.next() % 60) as usize, self.next());
        let body = &self.text.as_bytes()[start..start + length];
        let head = format!("<message from='{from}/phone' to='{to}' type='chat' id='{name:016x}'><body>");
        let value: [&[u8]; 3] = [head.as_bytes(), body, b"</body></message>"];
        let mut batch = Batch::new();
        batch.put(Table::Archive, from.as_bytes(), &id, &value);
        batch.put(Table::Archive, to.as_bytes(), &id, &value);
        batch.put(Table::Mailbox, to.as_bytes(), b"", &[&id]);
        batch
    }

    fn group(&mut self, messages: usize) -> Vec<Batch> {
        (0..messages).map(|_| self.message()).collect()
    }
}

/// User and system time of the whole process, all threads.
fn cpu() -> Duration {
    // SAFETY: `rusage` is plain data, and getrusage fills the struct whose address it is given.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let time = |t: libc::timeval| Duration::from_micros(t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// A figure of /proc/self/status, KB.
fn status_kb(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").expect("procfs");
    let line = text.lines().find(|line| line.starts_with(name)).expect("the figure");
    line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number")
}

/// Bytes that the folder's blocks take on the disk.
fn disk_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => disk_bytes(&entry.path()),
            Ok(meta) => meta.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

/// Bytes written to the block device by this process.
fn written_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/io").expect("procfs");
    let line = text.lines().find(|line| line.starts_with("write_bytes")).expect("the figure");
    line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number")
}

/// Drops the folder's pages from the page cache.
fn forget_pages(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            forget_pages(&entry.path());
        } else if let Ok(file) = fs::File::open(entry.path()) {
            let _ = file.sync_all();
            // SAFETY: plain system call on a descriptor that is open.
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        }
    }
}

fn percentile_us(sorted: &[Duration], per_mille: usize) -> f64 {
    sorted.get(sorted.len() * per_mille / 1000).or(sorted.last()).map_or(0.0, |d| d.as_secs_f64() * 1e6)
}

fn commit_groups(engine: &dyn Engine, work: &mut Work, group: usize, messages: usize, out: &mut Map<String, Value>) {
    let groups: Vec<Vec<Batch>> = (0..messages / group).map(|_| work.group(group)).collect();
    let mut latency = Vec::with_capacity(groups.len());
    let (wall, used, io) = (Instant::now(), cpu(), written_bytes());
    for group in &groups {
        let start = Instant::now();
        engine.commit(group).expect("commits");
        latency.push(start.elapsed());
    }
    let wall = wall.elapsed();
    let used = cpu() - used;
    latency.sort();
    let messages = (groups.len() * group) as f64;
    out.insert(format!("g{group}_cpu_us_msg"), json!(used.as_secs_f64() * 1e6 / messages));
    out.insert(format!("g{group}_commits_s"), json!(groups.len() as f64 / wall.as_secs_f64()));
    out.insert(format!("g{group}_p50_us"), json!(percentile_us(&latency, 500)));
    out.insert(format!("g{group}_p99_us"), json!(percentile_us(&latency, 990)));
    out.insert(format!("g{group}_written_bytes_msg"), json!((written_bytes() - io) as f64 / messages));
}

fn read_back(engine: &dyn Engine, work: &mut Work, label: &str, count: usize, out: &mut Map<String, Value>) {
    let (start, used) = (Instant::now(), cpu());
    let mut rows = 0;
    for _ in 0..count {
        let busy = format!("user{:06}@chat.example.org", work.next() % 1000);
        rows += engine.last_rows(Table::Archive, busy.as_bytes(), 100).expect("reads").0;
    }
    out.insert(format!("{label}_mailbox_us"), json!(start.elapsed().as_secs_f64() * 1e6 / count as f64));
    out.insert(format!("{label}_mailbox_cpu_us"), json!((cpu() - used).as_secs_f64() * 1e6 / count as f64));
    out.insert(format!("{label}_mailbox_rows"), json!(rows as f64 / count as f64));
    let (start, used) = (Instant::now(), cpu());
    for _ in 0..count {
        let user = format!("user{:06}@chat.example.org", work.next() % USERS);
        engine.get(Table::Mailbox, user.as_bytes(), b"").expect("reads");
    }
    out.insert(format!("{label}_get_us"), json!(start.elapsed().as_secs_f64() * 1e6 / count as f64));
    out.insert(format!("{label}_get_cpu_us"), json!((cpu() - used).as_secs_f64() * 1e6 / count as f64));
}

/// Runs one step and returns its figures.
pub(crate) fn run(name: &str, step: &str, dir: &Path) -> Value {
    let mut out = Map::new();
    let start = Instant::now();
    let engine = engines::open(name, dir).expect("opens");
    let opened = start.elapsed();
    let engine = &*engine;
    match step {
        // Groups on a young store.
        "groups" => {
            let mut work = Work::new(1);
            for group in work.group(20_000).chunks(500) {
                engine.commit(group).expect("commits");
            }
            for (group, messages) in [(1, 3000), (16, 16_000), (64, 64_000), (256, 128_000)] {
                commit_groups(engine, &mut work, group, messages, &mut out);
            }
        }
        // Until there are a million archived rows; all background work is in the figures. Then the process is killed.
        "fill" => {
            let mut work = Work::new(2);
            let (used, wall, io) = (cpu(), Instant::now(), written_bytes());
            let mut latency = Vec::new();
            let mut making = Duration::ZERO;
            for _ in 0..fill_messages() / 64 {
                let before = cpu();
                let group = work.group(64);
                making += cpu() - before;
                let start = Instant::now();
                engine.commit(&group).expect("commits");
                latency.push(start.elapsed());
            }
            let wall = wall.elapsed();
            engine.settle();
            latency.sort();
            let messages = fill_messages() as f64;
            out.insert("fill_cpu_us_msg".into(), json!((cpu() - used - making).as_secs_f64() * 1e6 / messages));
            out.insert("fill_msgs_s".into(), json!(messages / wall.as_secs_f64()));
            out.insert("fill_p50_us".into(), json!(percentile_us(&latency, 500)));
            out.insert("fill_p99_us".into(), json!(percentile_us(&latency, 990)));
            out.insert("fill_p999_us".into(), json!(percentile_us(&latency, 999)));
            out.insert("fill_max_us".into(), json!(percentile_us(&latency, 1000)));
            out.insert("fill_written_bytes_msg".into(), json!((written_bytes() - io) as f64 / messages));
            out.insert("fill_rss_anon_mb".into(), json!(status_kb("RssAnon") / 1024));
            out.insert("fill_disk_mb".into(), json!(disk_bytes(dir) >> 20));
            for group in work.group(20_000).chunks(64) {
                engine.commit(group).expect("commits");
            }
            println!("{}", Value::Object(out));
            // SAFETY: a signal to this very process.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
            unreachable!("killed");
        }
        "recover" => {
            engine.get(Table::Mailbox, b"user000001@chat.example.org", b"").expect("reads");
            out.insert("recover_ms".into(), json!(start.elapsed().as_secs_f64() * 1e3));
            out.insert("recover_open_ms".into(), json!(opened.as_secs_f64() * 1e3));
            out.insert("recover_cpu_ms".into(), json!(cpu().as_secs_f64() * 1e3));
            engine.settle();
            forget_pages(dir);
        }
        "cold" => read_back(engine, &mut Work::new(3), "cold", 300, &mut out),
        "warm" => {
            read_back(engine, &mut Work::new(3), "first", 3000, &mut out);
            read_back(engine, &mut Work::new(3), "warm", 3000, &mut out);
            out.insert("warm_rss_anon_mb".into(), json!(status_kb("RssAnon") / 1024));
        }
        // A day's churn: as much again is written, and retention takes away what `fill` wrote, user by user.
        "churn" => {
            let mut work = Work::new(4);
            let until = work.clock.to_be_bytes();
            let (used, wall) = (cpu(), Instant::now());
            let mut latency = Vec::new();
            let mut user = 0;
            let groups = fill_messages() / 64;
            for at in 0..groups {
                let mut group = work.group(64);
                let mut retention = Batch::new();
                while user < USERS * (at + 1) / groups {
                    let name = format!("user{user:06}@chat.example.org");
                    retention.delete_range(Table::Archive, name.as_bytes(), &[0; 8], &until);
                    user += 1;
                }
                group.push(retention);
                let start = Instant::now();
                engine.commit(&group).expect("commits");
                latency.push(start.elapsed());
            }
            let wall = wall.elapsed();
            engine.settle();
            latency.sort();
            out.insert("churn_cpu_us_msg".into(), json!((cpu() - used).as_secs_f64() * 1e6 / fill_messages() as f64));
            out.insert("churn_msgs_s".into(), json!(fill_messages() as f64 / wall.as_secs_f64()));
            out.insert("churn_p99_us".into(), json!(percentile_us(&latency, 990)));
            out.insert("churn_disk_mb".into(), json!(disk_bytes(dir) >> 20));
            out.insert("churn_rss_anon_mb".into(), json!(status_kb("RssAnon") / 1024));
        }
        // One actor after the other is removed whole.
        "reopen" => {
            out.insert("reopen_ms".into(), json!(opened.as_secs_f64() * 1e3));
            let (start, used) = (Instant::now(), cpu());
            for at in 0..200 {
                let mut batch = Batch::new();
                for user in at * 20..(at + 1) * 20 {
                    batch.delete_actor(Table::Archive, format!("user{user:06}@chat.example.org").as_bytes());
                }
                engine.commit(&[batch]).expect("commits");
            }
            out.insert("delete_partition_us".into(), json!(start.elapsed().as_secs_f64() * 1e6 / 4000.0));
            out.insert("delete_partition_cpu_us".into(), json!((cpu() - used).as_secs_f64() * 1e6 / 4000.0));
        }
        other => panic!("no step is called {other}"),
    }
    Value::Object(out)
}
