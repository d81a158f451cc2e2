//! Who is measured: the table of set-ups, and how each is prepared, started and ended.
//!
//! What a server needs is made once a set-up as a *stage*: a data folder with the accounts and rosters in it. Each start gets
//! a copy, so that no measurement finds what another has left.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::children::{Children, Held};
use crate::peers;
use crate::place::{Group, Place, Stored};
use crate::web::peers::{self as web, Install, Peer, Port};

/// Where servers listen: an address that the load does not connect from, so that none of its ports rests there.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 77, 0, 1);

/// Which server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Throng on this driver, with two shards.
    Throng(&'static str),
    /// Debian's ejabberd.
    Ejabberd,
    /// Debian's Prosody.
    Prosody,
    /// One that tells of items over the web; or Throng as such.
    Web(&'static Peer),
}

/// What is compared with each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// Chat: XMPP.
    Xmpp,
    /// Notifications: HTTP, WebSocket and the peers' own protocols.
    Web,
}

impl Side {
    /// All, by the names that `--only` takes.
    pub(crate) const ALL: [(&'static str, Side); 2] = [("xmpp", Side::Xmpp), ("web", Side::Web)];
}

/// A server that is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Setup {
    /// In results.
    pub(crate) name: &'static str,
    /// For people.
    pub(crate) title: &'static str,
    /// Which.
    pub(crate) kind: Kind,
}

/// The name of the raw floors in results.
pub(crate) const FLOOR: &str = "floor";

/// The table.
pub(crate) const SETUPS: &[Setup] = &[
    Setup { name: "throng-uring", title: "Throng, io_uring", kind: Kind::Throng("uring") },
    Setup { name: "throng-epoll", title: "Throng, epoll", kind: Kind::Throng("epoll") },
    Setup { name: "ejabberd", title: "ejabberd", kind: Kind::Ejabberd },
    Setup { name: "prosody", title: "Prosody", kind: Kind::Prosody },
    Setup { name: "web-throng-uring", title: "Throng, io_uring", kind: Kind::Web(&web::THRONG_URING) },
    Setup { name: "web-throng-epoll", title: "Throng, epoll", kind: Kind::Web(&web::THRONG_EPOLL) },
    Setup { name: "web-throng-memory", title: "Throng, in memory", kind: Kind::Web(&web::THRONG_MEMORY) },
    Setup { name: "web-throng-one", title: "Throng, in memory, one shard", kind: Kind::Web(&web::THRONG_ONE_SHARD) },
    Setup { name: "nchan", title: "Nchan", kind: Kind::Web(&web::NCHAN) },
    Setup { name: "mosquitto", title: "Mosquitto", kind: Kind::Web(&web::MOSQUITTO) },
    Setup { name: "nats", title: "NATS", kind: Kind::Web(&web::NATS) },
    Setup { name: "centrifugo", title: "Centrifugo", kind: Kind::Web(&web::CENTRIFUGO) },
    Setup { name: "mercure", title: "Mercure", kind: Kind::Web(&web::MERCURE) },
];

impl Setup {
    /// Throng rather than a peer.
    pub(crate) fn is_throng(&self) -> bool {
        match self.kind {
            Kind::Throng(_) => true,
            Kind::Web(peer) => peer.own,
            Kind::Ejabberd | Kind::Prosody => false,
        }
    }

    /// What it is compared with.
    pub(crate) fn side(&self) -> Side {
        if self.peer().is_some() { Side::Web } else { Side::Xmpp }
    }

    /// Its row of the web side.
    pub(crate) fn peer(&self) -> Option<&'static Peer> {
        match self.kind {
            Kind::Web(peer) => Some(peer),
            _ => None,
        }
    }

    /// How it gets onto this machine.
    pub(crate) fn install(&self) -> Install {
        match self.kind {
            Kind::Throng(_) => Install::Built,
            Kind::Ejabberd => Install::Debian(&["ejabberd"]),
            Kind::Prosody => Install::Debian(&["prosody"]),
            Kind::Web(peer) => peer.install,
        }
    }

    /// The name of its stage: the drivers share one, and Throng only stores hashed passwords.
    fn stage(&self, stored: Stored) -> String {
        match self.kind {
            Kind::Throng(_) => "throng".into(),
            _ => format!("{}-{stored:?}", self.name).to_lowercase(),
        }
    }
}

/// Everything that servers need, in a folder that goes with this value.
pub(crate) struct World {
    folder: PathBuf,
    throng: PathBuf,
    /// Groups of accounts, for Throng and for the peers, which get fewer.
    groups: [Vec<Group>; 2],
    /// All processes that run.
    pub(crate) children: Children,
}

impl World {
    /// A new folder with a certificate in it.
    pub(crate) fn new(throng: &Path, groups: [Vec<Group>; 2]) -> io::Result<World> {
        let throng = throng
            .canonicalize()
            .map_err(|error| io::Error::new(error.kind(), format!("--throng {}: {error}", throng.display())))?;
        let folder = std::env::temp_dir().join(format!("throng-beside-{}", std::process::id()));
        fs::create_dir_all(folder.join("stages"))?;
        let world = World { folder, throng, groups, children: Children::default() };
        world.end_by_signal()?;
        let (certificate, key) = certificate().map_err(io::Error::other)?;
        fs::write(world.folder.join("crt.pem"), &certificate)?;
        fs::write(world.folder.join("key.pem"), &key)?;
        fs::write(world.folder.join("both.pem"), key + &certificate)?;
        Ok(world)
    }

    /// On SIGINT or SIGTERM: ends all children and removes the folder, and then this program.
    fn end_by_signal(&self) -> io::Result<()> {
        let (children, folder) = (self.children.clone(), self.folder.clone());
        let mut signals =
            signal_hook::iterator::Signals::new([signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM])?;
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            if signals.forever().next().is_some() {
                children.end();
                let _ = fs::remove_dir_all(&folder);
                std::process::exit(130);
            }
        })?;
        Ok(())
    }

    fn finished(&self, command: &mut Command) -> io::Result<()> {
        let done = self.children.output(command)?;
        if done.status.success() {
            Ok(())
        } else {
            Err(io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned()))
        }
    }

    fn groups(&self, setup: &Setup) -> &[Group] {
        &self.groups[usize::from(!setup.is_throng())]
    }

    /// Makes the stage of a set-up, if there is none yet.
    fn prepare(&self, setup: &Setup, stored: Stored) -> io::Result<PathBuf> {
        let stage = self.folder.join("stages").join(setup.stage(stored));
        if stage.exists() {
            return Ok(stage);
        }
        eprintln!("  preparing {}: accounts and rosters", setup.title);
        let made = stage.with_extension("new");
        let _ = fs::remove_dir_all(&made);
        let groups = self.groups(setup);
        match setup.kind {
            Kind::Throng(_) => self.fill_throng(setup, &made, groups)?,
            Kind::Prosody => peers::prosody_accounts(&made, stored, groups.iter().flat_map(members))?,
            Kind::Ejabberd => {
                let place = self.place(&made)?;
                let configuration = self.configured("ejabberd.yml", peers::ejabberd(&place, stored))?;
                let mut command = ejabberd_command(&place, &configuration)?;
                self.finished(command.args(["-eval", &peers::ejabberd_accounts(groups), "-s", "init", "stop"]))?;
            }
            // It has no accounts.
            Kind::Web(_) => fs::create_dir_all(&made)?,
        }
        fs::rename(&made, &stage)?;
        Ok(stage)
    }

    /// Accounts come from a file, subscriptions from clients.
    fn fill_throng(&self, setup: &Setup, data: &Path, groups: &[Group]) -> io::Result<()> {
        self.import(data, groups)?;
        let server = self.spawn(setup, Stored::Hashed, data, false)?;
        for group in groups.iter().filter(|group| group.contacts > 0) {
            let mut flags = group_flags(group, group.count);
            flags.extend(["--hold-s=300", "--ramp-per-s=500"].map(str::to_owned));
            let told = self.load_until_idle(&server, &flags)?;
            if told.pointer("/sessions/arrived").and_then(serde_json::Value::as_u64) != Some(u64::from(group.count)) {
                return Err(io::Error::other(format!("{}: not all have logged in: {}", setup.title, told["errors"])));
            }
        }
        server.stop()
    }

    fn import(&self, data: &Path, groups: &[Group]) -> io::Result<()> {
        for group in groups {
            let csv = self.folder.join("users.csv");
            let mut write = Command::new(&self.throng);
            write.args(["load", "--write-accounts"]).arg(&csv).args(group_flags(group, group.count));
            self.finished(&mut write)?;
            self.finished(
                Command::new(&self.throng)
                    .args(["user", "import", "--domain", "localhost"])
                    .arg(&csv)
                    .arg("--data")
                    .arg(data),
            )?;
        }
        Ok(())
    }

    /// Starts a server with a copy of its stage. Throng archives if `archive` says so.
    pub(crate) fn start(&self, setup: &Setup, stored: Stored, archive: bool) -> io::Result<Server> {
        let stage = self.prepare(setup, stored)?;
        let data = self.folder.join("data");
        let _ = fs::remove_dir_all(&data);
        self.finished(Command::new("cp").arg("-a").arg(&stage).arg(&data))?;
        self.spawn(setup, stored, &data, archive)
    }

    /// Starts a server of the web side with nothing in it.
    pub(crate) fn start_web(&self, setup: &Setup) -> io::Result<Server> {
        let data = self.folder.join("data");
        let _ = fs::remove_dir_all(&data);
        fs::create_dir_all(&data)?;
        self.spawn(setup, Stored::Clear, &data, false)
    }

    fn place(&self, data: &Path) -> io::Result<Place> {
        Ok(Place { plain: free_port()?, tls: free_port()?, folder: self.folder.clone(), data: data.to_owned() })
    }

    fn spawn(&self, setup: &Setup, stored: Stored, data: &Path, archive: bool) -> io::Result<Server> {
        let mut last = None;
        // A port that was free may be taken before the server has it.
        for _ in 0..3 {
            match self.attempt(setup, stored, &self.place(data)?, archive) {
                Ok(server) => return Ok(server),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| io::ErrorKind::Other.into()))
    }

    fn attempt(&self, setup: &Setup, stored: Stored, place: &Place, archive: bool) -> io::Result<Server> {
        let log = self.folder.join(format!("{}.log", setup.name));
        let mut command = match setup.kind {
            Kind::Throng(driver) => self.throng_command(driver, place, archive),
            Kind::Ejabberd => {
                ejabberd_command(place, &self.configured("ejabberd.yml", peers::ejabberd(place, stored))?)?
            }
            Kind::Prosody => {
                let mut command = Command::new("prosody");
                command.args(["-F", "--config"]);
                command.arg(self.configured("prosody.cfg.lua", peers::prosody(place, stored))?);
                command
            }
            Kind::Web(peer) => {
                if let Some((name, text)) = peer.configuration {
                    self.configured(name, text(place))?;
                }
                let (program, args) = (peer.command)(place, &self.throng);
                let mut command = Command::new(program);
                command.args(args);
                command
            }
        };
        let listeners = setup.peer().map_or(2, |peer| peer.listeners);
        let file = File::create(&log)?;
        command.current_dir(&self.folder).stdout(file.try_clone()?).stderr(file);
        let held = self.children.spawn(&mut command);
        let held =
            held.map_err(|error| io::Error::new(error.kind(), format!("{} cannot be run: {error}", setup.title)))?;
        let mut server = Server { held, place: place.clone() };
        let started = Instant::now();
        for at in [place.plain, place.tls].into_iter().take(listeners) {
            while TcpStream::connect(at).is_err() {
                let ended = server.held.child().try_wait()?;
                if ended.is_some() || started.elapsed() > Duration::from_secs(60) {
                    let told = fs::read_to_string(&log).unwrap_or_default();
                    let last: Vec<&str> = told.lines().rev().take(5).collect();
                    return Err(io::Error::other(format!("{} does not start: {}", setup.title, last.join(" / "))));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(server)
    }

    fn configured(&self, name: &str, text: String) -> io::Result<PathBuf> {
        let path = self.folder.join(name);
        fs::write(&path, text)?;
        Ok(path)
    }

    fn throng_command(&self, driver: &str, place: &Place, archive: bool) -> Command {
        let mut command = Command::new(&self.throng);
        command.arg("serve").arg("--data").arg(&place.data);
        command.args(["--c2s", &place.plain.to_string(), "--c2s-tls", &place.tls.to_string()]);
        command.args(["--driver", driver]).args(THRONG).arg(format!("--archive={archive}"));
        // Of the others, ejabberd's shaper is off, too. Builds that have no such rate know no such flag.
        command.env("THRONG_ACCOUNT_STANZAS_PER_SECOND", "0");
        command
    }

    /// Runs `throng load` against a server. Returns its result, whatever the exit code said of the messages.
    pub(crate) fn load(&self, server: &Server, to: SocketAddr, flags: &[String]) -> io::Result<serde_json::Value> {
        let done = self.children.output(&mut self.load_command(server, to, flags)?)?;
        let text = fs::read(self.loaded())
            .map_err(|_| io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned()))?;
        serde_json::from_slice(&text).map_err(io::Error::other)
    }

    /// The same; the load is told to end once the server has had nothing to do for two seconds.
    fn load_until_idle(&self, server: &Server, flags: &[String]) -> io::Result<serde_json::Value> {
        let mut quiet = Quiet::default();
        self.load_until(server, server.place.plain, flags, &mut || quiet.look(server))
    }

    /// The same; the load is told to end once the server is idle and its memory stands still. Returns its memory as well.
    pub(crate) fn weigh(
        &self,
        server: &Server,
        to: SocketAddr,
        flags: &[String],
    ) -> io::Result<(u64, serde_json::Value)> {
        let (mut quiet, mut looks) = (Quiet::default(), Vec::new());
        let started = Instant::now();
        let told = self.load_until(server, to, flags, &mut || {
            if looks.is_empty() && !quiet.look(server)? {
                return Ok(false);
            }
            looks.push(server.memory()?);
            Ok(is_still(&looks) || started.elapsed() > STILL_WITHIN)
        })?;
        let bytes =
            looks.last().copied().ok_or(io::Error::other("the load has ended before the server came to rest"))?;
        Ok((bytes, told))
    }

    /// Runs a load and looks at the server each half second; the load is told to end when `done` says so.
    fn load_until(
        &self,
        server: &Server,
        to: SocketAddr,
        flags: &[String],
        done: &mut dyn FnMut() -> io::Result<bool>,
    ) -> io::Result<serde_json::Value> {
        let mut command = self.load_command(server, to, flags)?;
        let mut load = self.children.spawn(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
        while load.child().try_wait()?.is_none() {
            std::thread::sleep(LOOK_EVERY);
            if done()? {
                break;
            }
        }
        load.terminate()?;
        load.child().wait()?;
        serde_json::from_slice(&fs::read(self.loaded())?).map_err(io::Error::other)
    }

    fn loaded(&self) -> PathBuf {
        self.folder.join("load.json")
    }

    fn load_command(&self, server: &Server, to: SocketAddr, flags: &[String]) -> io::Result<Command> {
        if self.loaded().exists() {
            fs::remove_file(self.loaded())?;
        }
        let mut command = Command::new(&self.throng);
        command.args(["load", "--quiet", "--to", &to.to_string(), "--server-pid", &server.held.id().to_string()]);
        command.args(["--total-s-max=400", "--password", peers::PASSWORD]).arg("--out").arg(self.loaded()).args(flags);
        Ok(command)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::env::var_os("BESIDE_KEEP").is_none() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// A self-signed certificate and its key, as PEM.
fn certificate() -> Result<(String, String), rcgen::Error> {
    let mut terms = rcgen::CertificateParams::new(["localhost".to_owned()])?;
    terms.distinguished_name = rcgen::DistinguishedName::new();
    terms.distinguished_name.push(rcgen::DnType::CommonName, "localhost");
    // ejabberd does not take a year of the far future, which is the default.
    terms.not_after = rcgen::date_time_ymd(2049, 1, 1);
    let key = rcgen::KeyPair::generate()?;
    Ok((terms.self_signed(&key)?.pem(), key.serialize_pem()))
}

/// Flags of every Throng. Users are idle after two seconds instead of thirty, so that idle sessions need not be waited for.
pub(crate) const THRONG: &[&str] = &["--shards", "2", "--plain-auth", "--cache-seconds=2"];

/// Flags of the load that name the first so many accounts of a group and its contacts.
pub(crate) fn group_flags(group: &Group, sessions: u32) -> Vec<String> {
    vec![
        format!("--user-prefix={}", group.prefix),
        format!("--sessions={sessions}"),
        format!("--contacts={}", group.contacts),
    ]
}

/// Names and rosters of a group, as the load's clients make them of each other.
pub(crate) fn members(group: &Group) -> impl Iterator<Item = (String, Vec<peers::Contact>)> + use<> {
    let Group { prefix, count, contacts } = *group;
    (0..count).map(move |own| {
        let name = |number: u32| format!("{prefix}{}", number % count);
        let other = |distance: u32, word| (name(own + distance), word);
        // Those that follow, those that follow this one, and both where a circle is closed.
        let is_both = contacts * 2 >= count;
        let to = (1..=contacts).map(|distance| other(distance, if is_both { "both" } else { "to" }));
        let from = (1..=if is_both { 0 } else { contacts }).map(|distance| other(count - distance, "from"));
        (name(own), to.chain(from).collect())
    })
}

fn ejabberd_command(place: &Place, configuration: &Path) -> io::Result<Command> {
    let libraries = peers::ejabberd_libraries().ok_or_else(|| io::Error::other("ejabberd is not installed"))?;
    let mut command = Command::new("erl");
    command.args(peers::ERLANG).args(["-mnesia", "dir"]).arg(format!("\"{}\"", place.data.display()));
    // Where it leaves a dump if it has to.
    command.current_dir(&place.folder);
    command.args(["-s", "ejabberd"]).env("ERL_LIBS", libraries).env("HOME", &place.folder);
    command.env("EJABBERD_CONFIG_PATH", configuration).env("EJABBERD_LOG_PATH", place.folder.join("ejabberd-own.log"));
    command.env("ERL_MAX_PORTS", "65536").env("ERL_MAX_ETS_TABLES", "1400").env("ERL_CRASH_DUMP_SECONDS", "0");
    Ok(command)
}

fn free_port() -> io::Result<SocketAddr> {
    TcpListener::bind((ADDRESS, 0))?.local_addr()
}

/// Between two looks at a server that is to come to rest.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(500);
/// So many looks have to show the same memory: longer than any of the servers takes between two givings back.
const STILL_LOOKS: usize = 12;
/// How far they may be apart, or by a five hundredth.
const STILL_BYTES: u64 = 32 << 10;
/// Then the last look counts, still or not.
pub(crate) const STILL_WITHIN: Duration = Duration::from_secs(45);

/// Whether a server has had nothing to do for two seconds.
#[derive(Default)]
pub(crate) struct Quiet {
    before: Duration,
    looks: u32,
}

impl Quiet {
    /// Looks, half a second after the last time.
    pub(crate) fn look(&mut self, server: &Server) -> io::Result<bool> {
        let now = server.cpu()?;
        let idle = now.saturating_sub(self.before) < Duration::from_millis(20);
        self.looks = if idle { self.looks + 1 } else { 0 };
        self.before = now;
        Ok(self.looks >= 4)
    }
}

/// A figure of a process in KiB, as bytes.
fn figure(process: u32, file: &str, name: &str) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/{file}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.split_whitespace().next()).and_then(|word| word.parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or(io::ErrorKind::InvalidData.into())
}

/// Whether the last looks at a server's memory are alike.
pub(crate) fn is_still(looks: &[u64]) -> bool {
    let last = &looks[looks.len().saturating_sub(STILL_LOOKS)..];
    let (least, most) = (last.iter().min().copied().unwrap_or(0), last.iter().max().copied().unwrap_or(0));
    last.len() == STILL_LOOKS && most - least <= STILL_BYTES.max(most / 500)
}

/// A server that runs; killed with this value.
pub(crate) struct Server {
    held: Held,
    /// Where it is.
    pub(crate) place: Place,
}

impl Server {
    /// Resident memory, in bytes, as the load tells it.
    pub(crate) fn resident(&self) -> io::Result<u64> {
        figure(self.held.id(), "status", "VmRSS:")
    }

    /// Anonymous resident memory, in bytes: the program's own, without the pages of files that the kernel shares.
    pub(crate) fn memory(&self) -> io::Result<u64> {
        figure(self.held.id(), "smaps_rollup", "Anonymous:")
    }

    /// Its own share of the resident memory of all its processes, in bytes: what several of them map counts once.
    pub(crate) fn share(&self) -> io::Result<u64> {
        let mut bytes = 0;
        for process in web::group(self.held.id())? {
            // A process may end while we look.
            bytes += figure(process, "smaps_rollup", "Pss:").unwrap_or(0);
        }
        if bytes > 0 { Ok(bytes) } else { Err(io::Error::other("the server has ended")) }
    }

    /// Where subscribers or publishers connect.
    pub(crate) fn at(&self, port: Port) -> SocketAddr {
        match port {
            Port::First => self.place.plain,
            Port::Second => self.place.tls,
        }
    }

    /// CPU time of all threads of its processes so far, user and system.
    pub(crate) fn cpu(&self) -> io::Result<Duration> {
        let mut ns = 0;
        for process in web::group(self.held.id())? {
            // A process or a thread may end while we look.
            for task in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
                let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
                ns += text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
            }
        }
        Ok(Duration::from_nanos(ns))
    }

    /// Ends it by SIGTERM, so that its data is whole.
    fn stop(mut self) -> io::Result<()> {
        self.held.terminate()?;
        let started = Instant::now();
        while self.held.child().try_wait()?.is_none() {
            if started.elapsed() > Duration::from_secs(30) {
                return Err(io::Error::other("the server has not ended by SIGTERM"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_roster_has_both_sides_of_each_subscription() {
        let group = Group { prefix: "c", count: 10, contacts: 2 };
        let rosters: Vec<_> = members(&group).collect();
        assert_eq!(rosters[0].0, "c0");
        let has = |user: usize, name: &str, word: &str| rosters[user].1.contains(&(name.to_owned(), word));
        assert!(has(0, "c1", "to") && has(0, "c2", "to") && has(0, "c8", "from") && has(0, "c9", "from"));
        assert!(has(1, "c0", "from") && rosters.iter().all(|(_, roster)| roster.len() == 4));
        let mesh: Vec<_> = members(&Group { prefix: "f", count: 4, contacts: 3 }).collect();
        assert!(mesh.iter().all(|(_, roster)| roster.len() == 3 && roster.iter().all(|(_, word)| *word == "both")));
    }
}
