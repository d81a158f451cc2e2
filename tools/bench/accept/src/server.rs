//! The server as a process: started in a folder of its own, measured from outside by `/proc`, ended by its id.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How the server is started.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The program.
    pub(crate) throng: PathBuf,
    /// Data folder.
    pub(crate) data: PathBuf,
    /// `uring` or `epoll`.
    pub(crate) driver: String,
    /// Shards.
    pub(crate) shards: u16,
    /// Listen for direct TLS, too.
    pub(crate) tls: bool,
    /// Take files (XEP-0363).
    takes_files: bool,
    /// Further flags.
    pub(crate) flags: Vec<String>,
    environment: Vec<(String, PathBuf)>,
    log: Option<PathBuf>,
}

impl Plan {
    /// Two shards on io_uring without TLS.
    pub(crate) fn new(throng: &Path, data: &Path) -> Plan {
        Plan {
            throng: throng.to_owned(),
            data: data.to_owned(),
            driver: "uring".into(),
            shards: 2,
            tls: false,
            takes_files: false,
            flags: Vec::new(),
            environment: Vec::new(),
            log: None,
        }
    }

    pub(crate) fn driver(mut self, driver: &str) -> Plan {
        self.driver = driver.into();
        self
    }

    pub(crate) fn shards(mut self, shards: u16) -> Plan {
        self.shards = shards;
        self
    }

    pub(crate) fn flag(mut self, flag: &str) -> Plan {
        self.flags.push(flag.into());
        self
    }

    /// Takes files by HTTP in the clear, as behind a proxy, at URLs that stay the same over restarts. Nobody reaches a limit of a day.
    pub(crate) fn takes_files(mut self) -> Plan {
        self.takes_files = true;
        self.flag("--upload-url=https://files.localhost/")
            .flag("--upload-slots-max=1000")
            .flag("--upload-slot-seconds=60")
            .flag("--upload-bytes-day-max=0")
            .flag("--upload-files-day-max=0")
    }

    /// Sets a variable of the server's environment to a path.
    pub(crate) fn env(mut self, name: &str, path: &Path) -> Plan {
        self.environment.push((name.into(), path.to_owned()));
        self
    }

    /// Keeps the log, and what it needs beside, away from the data folder's file system.
    pub(crate) fn log_at(mut self, log: PathBuf) -> Plan {
        self.log = Some(log);
        self
    }

    fn log(&self) -> PathBuf {
        self.log.clone().unwrap_or_else(|| self.data.with_extension("log"))
    }

    /// Makes accounts of these names while the server is stopped.
    pub(crate) fn import(&self, names: impl Iterator<Item = String>) -> io::Result<()> {
        let csv = self.log().with_extension("csv");
        crate::account::write_csv(&csv, names)?;
        let done = Command::new(&self.throng)
            .args(["user", "import", "--domain", "localhost"])
            .arg(&csv)
            .arg("--data")
            .arg(&self.data)
            .stdin(Stdio::null())
            .output()?;
        if done.status.success() {
            Ok(())
        } else {
            Err(io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned()))
        }
    }

    /// What the running server says of itself (`throng ctl status --json`).
    pub(crate) fn status(&self) -> io::Result<serde_json::Value> {
        let mut command = Command::new(&self.throng);
        let done = command.args(["ctl", "status", "--json", "--data"]).arg(&self.data).stdin(Stdio::null()).output()?;
        if done.status.success() {
            serde_json::from_slice(&done.stdout).map_err(io::Error::other)
        } else {
            Err(io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned()))
        }
    }

    /// Starts the server and waits until it accepts connections.
    pub(crate) fn start(&self) -> io::Result<Server> {
        let (plain, tls, uploads) = (free_port()?, free_port()?, free_port()?);
        let log = File::options().create(true).append(true).open(self.log())?;
        let started = Instant::now();
        let mut command = Command::new(&self.throng);
        command.arg("serve").arg("--data").arg(&self.data);
        command.args(["--c2s", &plain.to_string(), "--driver", &self.driver, "--shards", &self.shards.to_string()]);
        command.arg("--c2s-tls").arg(if self.tls { tls.to_string() } else { "off".into() });
        command.arg("--plain-auth").args(&self.flags);
        // Synthetic users send faster than people do. Builds that have no such rate know no such flag.
        command.env("THRONG_ACCOUNT_STANZAS_PER_SECOND", "0");
        if self.takes_files {
            command.arg("--upload-proxied").arg(uploads.to_string());
        }
        command.envs(self.environment.iter().map(|(name, path)| (name, path)));
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let mut server = Server { child, plain, tls, uploads, started, accepting: Duration::ZERO, log: self.log() };
        while TcpStream::connect(plain).is_err() {
            if let Some(status) = server.child.try_wait()? {
                return Err(io::Error::other(format!("the server ended with {status}; see {}", server.log.display())));
            }
            if started.elapsed() > Duration::from_secs(120) {
                return Err(io::Error::other("the server does not listen after two minutes"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        server.accepting = started.elapsed();
        Ok(server)
    }
}

fn free_port() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// A server that runs; killed with this value.
pub(crate) struct Server {
    child: Child,
    /// Address for streams that begin in the clear.
    pub(crate) plain: SocketAddr,
    /// Address for direct TLS.
    pub(crate) tls: SocketAddr,
    /// Address for files, if it takes some.
    pub(crate) uploads: SocketAddr,
    /// When it was started.
    pub(crate) started: Instant,
    /// From the start until it accepted a connection.
    pub(crate) accepting: Duration,
    log: PathBuf,
}

/// Memory of a process as the kernel counts it, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// All resident.
    pub(crate) rss: u64,
    /// Resident and not backed by a file.
    pub(crate) anonymous: u64,
    /// The part of it in huge pages.
    pub(crate) huge: u64,
}

impl Server {
    /// SIGKILL, at once.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process still runs.
    pub(crate) fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// What the log says of panics.
    pub(crate) fn panics(&self) -> Vec<String> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter(|line| line.contains("panicked")).map(str::to_owned).collect()
    }

    fn proc(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{file}", self.child.id()))
    }

    /// Memory at this moment.
    pub(crate) fn memory(&self) -> io::Result<Memory> {
        let text = std::fs::read_to_string(self.proc("smaps_rollup"))?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|rest| rest.split_whitespace().next()).and_then(|word| word.parse::<u64>().ok());
            kib.map(|kib| kib << 10).ok_or(io::ErrorKind::InvalidData)
        };
        Ok(Memory { rss: field("Rss:")?, anonymous: field("Anonymous:")?, huge: field("AnonHugePages:")? })
    }

    /// Memory once three looks in a row a second apart agree within `slack` bytes, or after `patience`.
    pub(crate) fn settled_memory(&self, slack: u64, patience: Duration) -> io::Result<Memory> {
        let end = Instant::now() + patience;
        let mut looks: Vec<Memory> = Vec::new();
        loop {
            looks.push(self.memory()?);
            if let [.., a, b, c] = looks[..]
                && (a.rss.abs_diff(c.rss) <= slack && b.rss.abs_diff(c.rss) <= slack || Instant::now() > end)
            {
                return Ok(c);
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// The kernel's number of the first thread of this name.
    pub(crate) fn thread(&self, name: &str) -> io::Result<Option<i32>> {
        for task in std::fs::read_dir(self.proc("task"))? {
            let path = task?.path();
            if std::fs::read_to_string(path.join("comm"))?.trim() == name {
                return Ok(path.file_name().and_then(|number| number.to_str()?.parse().ok()));
            }
        }
        Ok(None)
    }

    /// CPU time of all its threads, user and system, in nanoseconds, by thread name.
    pub(crate) fn cpu(&self) -> io::Result<Vec<(String, u64)>> {
        let mut all = Vec::new();
        for task in std::fs::read_dir(self.proc("task"))? {
            let path = task?.path();
            let name = std::fs::read_to_string(path.join("comm"))?.trim().to_owned();
            let text = std::fs::read_to_string(path.join("schedstat"))?;
            let ns = text.split_whitespace().next().and_then(|word| word.parse().ok());
            all.push((name, ns.ok_or(io::ErrorKind::InvalidData)?));
        }
        Ok(all)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// A folder that goes with this value.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// A new folder among the system's temporary ones.
    pub(crate) fn new(name: &str) -> io::Result<Folder> {
        let path = std::env::temp_dir().join(format!("throng-accept-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path)?;
        Ok(Folder(path))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if std::env::var_os("ACCEPT_KEEP").is_none() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
