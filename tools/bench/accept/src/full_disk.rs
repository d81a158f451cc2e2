//! A full disk: new messages are refused by the standard error, streams stay up, nothing accepted is lost, and service
//! resumes when there is space.
//!
//! The data folder is a small tmpfs. While senders and receivers chat, a file fills it, first below the free space that
//! the server wants and then to the last byte; then the file goes. At the end the server is killed, started again, and
//! every message that was accepted (acknowledged and not refused) must be there.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Login, Said};
use crate::report::Outcome;
use crate::server::{Folder, Plan};
use crate::swarm::{News, Swarm};

const SENDERS: usize = 4;
const RECEIVERS: usize = 8;
/// Messages a sender leaves unacknowledged.
const WINDOW: u32 = 100;

/// What to do.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Size of the tmpfs, MiB.
    #[arg(long, default_value_t = 512)]
    mib: u64,
    /// Seconds of each phase.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Driver of the server.
    #[arg(long, default_value = "uring")]
    driver: String,
}

/// In the environment of the process that has mounts and children of its own: the id of the one that was started.
const MARK: &str = "ACCEPT_FULL_DISK";

/// Options of `unshare`: no mount and no child outlives the program, even if that is killed.
const APART: [&str; 6] = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"];

/// Starts the program again with mounts and children of its own, in place of this one. Returns only why that cannot be.
fn start_apart() -> String {
    let tried = Command::new("unshare").args(APART).args(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]).output();
    match tried {
        Ok(output) if output.status.success() => {
            let mut again = Command::new("unshare");
            let program = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
            again.args(APART).arg(program).args(std::env::args_os().skip(1));
            again.env(MARK, std::process::id().to_string()).exec().to_string()
        }
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => format!("unshare: {error}"),
    }
}

/// A tmpfs, gone with this value.
struct Mount(PathBuf);

impl Mount {
    fn new(at: &Path, mib: u64) -> io::Result<Mount> {
        std::fs::create_dir_all(at)?;
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={mib}m,mode=0700"), "tmpfs"])
            .arg(at)
            .output()?;
        if done.status.success() {
            Ok(Mount(at.to_owned()))
        } else {
            Err(io::Error::other(String::from_utf8_lossy(&done.stderr).trim().to_owned()))
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // The folder is removed after it.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Messages of one sender: which are acknowledged and which refused.
#[derive(Default)]
struct Book {
    sent: u32,
    acked: u32,
    refused: BTreeSet<u32>,
}

/// The clients and what they know.
struct World {
    swarm: Swarm,
    books: Vec<Book>,
    /// By receiver: bodies that came.
    came: Vec<BTreeSet<String>>,
    other_refusals: Vec<String>,
    ended: Vec<String>,
}

/// Runs it.
pub(crate) fn run(throng: &Path, options: &Options) -> io::Result<Outcome> {
    let Some(started) = std::env::var_os(MARK) else {
        let why = start_apart();
        let line = format!("full-disk: skipped, a tmpfs cannot be mounted here: {why}");
        return Ok(Outcome { name: "full-disk", line, met: false, value: json!({ "skipped": why }) });
    };
    // Its own process id says nothing any more: it is the first one of its kind.
    let folder = Folder::new(&format!("full-disk-{}", started.display()))?;
    let disk = folder.path().join("disk");
    let _mount = Mount::new(&disk, options.mib)?;
    let plan = Plan::new(throng, &disk.join("data")).driver(&options.driver);
    let plan =
        plan.flag("--reserve-bytes=16MiB").flag("--free-bytes-min=48MiB").log_at(folder.path().join("server.log"));
    plan.import((0..SENDERS).map(|i| format!("sender{i}")).chain((0..RECEIVERS).map(|i| format!("receiver{i}"))))?;
    let mut server = plan.start()?;
    let mut world = World::log_in(&server)?;
    let filler = disk.join("filler");
    let phase = Duration::from_secs(options.seconds);

    let before = world.chat(phase)?;
    // Below what the server wants to be free, but not to the end: everything must be refused, nothing must be written.
    fill(&filler, 30 << 20)?;
    world.chat(Duration::from_secs(2))?;
    let low = world.chat(phase)?;
    std::fs::remove_file(&filler)?;
    world.chat(Duration::from_secs(4))?;
    let between = world.chat(phase)?;
    // To the last byte while commits are under way: those get through on the reserve.
    fill(&filler, 0)?;
    world.chat(Duration::from_secs(2))?;
    let full = world.chat(phase)?;
    std::fs::remove_file(&filler)?;
    let freed = Instant::now();
    while world.chat(Duration::from_millis(200))?.accepted == 0 && freed.elapsed() < Duration::from_secs(30) {}
    let resumed_s = freed.elapsed().as_secs_f64();
    let after = world.chat(phase)?;
    world.drain()?;
    let up = server.runs();

    let (accepted, refused): (Vec<String>, usize) =
        (world.accepted(), world.books.iter().map(|b| b.refused.len()).sum());
    let ended = std::mem::take(&mut world.ended);
    server.kill()?;
    world.drain()?;
    server = plan.start()?;
    let missing = world.missing_after_restart(&server, &accepted)?;
    let phases = [before, low, between, full, after];
    let mut value = json!({
        "what": "data folder on a tmpfs that a file fills; accepted: acknowledged by XEP-0198 and not refused",
        "tmpfs_mib": options.mib,
        "driver": options.driver,
        "phases": phases.iter().zip(["before", "below free-bytes-min", "space again", "not a byte free", "space again"])
            .map(|(phase, name)| json!({ "phase": name, "accepted": phase.accepted, "refused": phase.refused }))
            .collect::<Vec<Value>>(),
        "accepted": accepted.len(),
        "refused_resource_constraint": refused,
        "other_refusals": world.other_refusals,
        "streams_ended": ended,
        "resumed_after_s": resumed_s,
        "accepted_and_missing_after_kill_and_restart": missing.len(),
        "first_missing": missing.iter().take(20).collect::<Vec<_>>(),
        "server_stayed_up": up,
        "panics": server.panics(),
    });
    let kept_refusing = low.accepted == 0 && low.refused > 0 && full.accepted == 0 && full.refused > 0;
    let served = before.accepted > 0 && between.accepted > 0 && after.accepted > 0 && after.refused == 0;
    let clean = world.other_refusals.is_empty() && ended.is_empty() && missing.is_empty() && server.panics().is_empty();
    let met = up && kept_refusing && served && clean;
    value["met"] = json!(met);
    let line = format!(
        "full-disk: {} accepted, {refused} refused with resource-constraint, {} streams ended, {} missing, resumed after {resumed_s:.1} s",
        accepted.len(),
        ended.len(),
        missing.len()
    );
    Ok(Outcome { name: "full-disk", line, met, value })
}

/// Fills the disk until `left` bytes are free.
fn fill(path: &Path, left: u64) -> io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    let chunk = vec![0u8; 1 << 20];
    let folder = path.parent().unwrap_or(Path::new("/"));
    loop {
        let mut size = chunk.len();
        if left > 0 {
            let free = free_bytes(folder)?;
            if free <= left {
                return Ok(());
            }
            size = size.min((free - left) as usize);
        }
        match file.write(&chunk[..size.max(1)]) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::StorageFull && left == 0 => {
                // What the server gives up in these moments is taken, too.
                for _ in 0..200 {
                    std::thread::sleep(Duration::from_millis(1));
                    let _ = file.write(&chunk[..4096]);
                }
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
}

fn free_bytes(folder: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(folder)?;
    Ok(stat.f_bavail * stat.f_frsize)
}

/// What one phase came to.
#[derive(Clone, Copy, Default)]
struct Phase {
    accepted: u64,
    refused: u64,
}

impl World {
    fn log_in(server: &crate::server::Server) -> io::Result<World> {
        let mut swarm = Swarm::new()?;
        let login = |name: String, resource: &str, available| Login {
            name,
            resource: resource.into(),
            managed: true,
            available,
            ..Login::default()
        };
        swarm.log_in(server.plain, (0..SENDERS).map(|i| login(format!("sender{i}"), "s", false)).collect(), 10)?;
        // The other half of the receivers is offline.
        swarm.log_in(
            server.plain,
            (0..RECEIVERS / 2).map(|i| login(format!("receiver{i}"), "r", true)).collect(),
            10,
        )?;
        Ok(World {
            swarm,
            books: (0..SENDERS).map(|_| Book::default()).collect(),
            came: (0..RECEIVERS).map(|_| BTreeSet::new()).collect(),
            other_refusals: Vec::new(),
            ended: Vec::new(),
        })
    }

    fn count(&self) -> Phase {
        let refused: u64 = self.books.iter().map(|book| book.refused.len() as u64).sum();
        let acked: u64 = self.books.iter().map(|book| u64::from(book.acked)).sum();
        Phase { accepted: acked.saturating_sub(refused), refused }
    }

    /// Senders send for some time, 20 messages a second each at the most.
    fn chat(&mut self, time: Duration) -> io::Result<Phase> {
        let (before, end) = (self.count(), Instant::now() + time);
        while Instant::now() < end {
            for sender in 0..SENDERS {
                let book = &mut self.books[sender];
                if book.sent - book.acked < WINDOW {
                    let number = book.sent;
                    book.sent += 1;
                    let to = (sender + number as usize) % RECEIVERS;
                    let text = "y".repeat(500);
                    self.swarm.say(
                        sender,
                        &format!(
                            "<message to='receiver{to}@localhost' type='chat' id='{number}'><body>{sender}.{number}.{text}</body>\
                             </message><r xmlns='urn:xmpp:sm:3'/>"
                        ),
                    );
                }
            }
            let next = Instant::now() + Duration::from_millis(5);
            while Instant::now() < next {
                self.turn()?;
            }
        }
        let after = self.count();
        Ok(Phase { accepted: after.accepted.saturating_sub(before.accepted), refused: after.refused - before.refused })
    }

    fn turn(&mut self) -> io::Result<usize> {
        let World { swarm, books, came, other_refusals, ended } = self;
        swarm.turn(Duration::from_millis(3), &mut |index, news| match news {
            News::Said(Said::Handled(h)) if index < SENDERS => books[index].acked = h,
            News::Said(Said::Message { error: Some(why), id, .. }) if index < SENDERS => {
                if why == "resource-constraint" {
                    books[index].refused.extend(id.parse::<u32>());
                } else {
                    other_refusals.push(why);
                }
            }
            News::Said(Said::Message { body, error: None, .. }) => {
                came[index - SENDERS].insert(body.trim_end_matches('y').to_owned());
            }
            News::Said(Said::StreamError(why)) => ended.push(format!("{index}: {why}")),
            News::Closed => ended.push(format!("{index}: closed")),
            _ => {}
        })
    }

    /// Reads until nothing more comes.
    fn drain(&mut self) -> io::Result<()> {
        let mut last = Instant::now();
        while last.elapsed() < Duration::from_secs(1) {
            if self.turn()? > 0 {
                last = Instant::now();
            }
        }
        Ok(())
    }

    /// Bodies of the accepted messages.
    fn accepted(&self) -> Vec<String> {
        let of = |(sender, book): (usize, &Book)| {
            let numbers: Vec<u32> = (0..book.acked).filter(|number| !book.refused.contains(number)).collect();
            numbers.into_iter().map(move |number| format!("{sender}.{number}."))
        };
        self.books.iter().enumerate().flat_map(of).collect()
    }

    fn missing_after_restart(
        &mut self,
        server: &crate::server::Server,
        accepted: &[String],
    ) -> io::Result<Vec<String>> {
        let mut swarm = Swarm::new()?;
        let login = |i: usize| Login {
            name: format!("receiver{i}"),
            resource: "later".into(),
            managed: true,
            available: true,
            ..Login::default()
        };
        for receiver in 0..RECEIVERS {
            swarm.add(server.plain, false, login(receiver))?;
        }
        let mut last = Instant::now();
        while last.elapsed() < Duration::from_secs(2) {
            let count = swarm.turn(Duration::from_millis(50), &mut |index, news| {
                if let News::Said(Said::Message { body, error: None, .. }) = news {
                    self.came[index].insert(body.trim_end_matches('y').to_owned());
                }
            })?;
            if count > 0 {
                last = Instant::now();
            }
        }
        Ok(accepted.iter().filter(|body| !self.came.iter().any(|came| came.contains(*body))).cloned().collect())
    }
}
