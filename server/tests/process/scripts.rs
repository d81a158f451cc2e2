//! Every script of `tests/scripts`, over real sockets: the same files as in the simulated world,
//! against the program itself, on both drivers.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use throng_sim::script::{Action, Heard, OTHER_DOMAIN, Patience, Player, Script};

const THRONG: &str = env!("CARGO_BIN_EXE_throng");
const PASSWORD: &str = throng_sim::world::PASSWORD;
/// Scripts that let more time pass run in the simulated world only.
const PASS_MAX: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(150);

/// The server of one script, killed when dropped.
struct Server {
    child: Child,
    port: u16,
    _data: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(arguments: &[&str]) {
    let output = Command::new(THRONG).args(arguments).output().expect("throng runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Server {
    fn start(driver: &str, accounts: &[&str]) -> Server {
        let data = tempfile::tempdir().expect("a folder");
        let folder = data.path().to_str().expect("a plain path").to_owned();
        for account in accounts {
            run(&[
                "user",
                "add",
                account,
                "--password",
                PASSWORD,
                "--domain",
                "localhost",
                "--virtual-hosts",
                OTHER_DOMAIN,
                "--data",
                &folder,
            ]);
        }
        // The kernel chooses the port; the log names it.
        let log = std::fs::File::create(data.path().join("out")).expect("a file");
        let mut child = Command::new(THRONG)
            .args(["serve", "--data", &folder, "--c2s", "127.0.0.1:0", "--c2s-tls", "off", "--plain-auth"])
            .args(["--admin-http", "off", "--virtual-hosts", OTHER_DOMAIN])
            .args(["--shards", "3", "--driver", driver])
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .expect("throng starts");
        let end = Instant::now() + LONG;
        loop {
            let out = std::fs::read_to_string(data.path().join("out")).unwrap_or_default();
            if let Some(at) = out.find("Next:").and(out.find("127.0.0.1:")) {
                let digits: String = out[at + "127.0.0.1:".len()..].chars().take_while(char::is_ascii_digit).collect();
                let port = digits.parse().expect("a port");
                return Server { child, port, _data: data };
            }
            let gone = child.try_wait().expect("a child").is_some();
            assert!(!gone && Instant::now() < end, "throng did not start: {out}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Connections of a script's clients.
struct Sockets {
    port: u16,
    open: BTreeMap<String, TcpStream>,
    /// Connections that a client has abandoned stay open until the end.
    left: Vec<TcpStream>,
}

impl Sockets {
    fn of(&mut self, client: &str) -> Result<&mut TcpStream, String> {
        self.open.get_mut(client).ok_or_else(|| "has no connection".to_owned())
    }
}

impl Player for Sockets {
    fn open(&mut self, client: &str) -> Result<(), String> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        self.left.extend(self.open.insert(client.to_owned(), stream));
        Ok(())
    }

    fn send(&mut self, client: &str, bytes: &[u8]) -> Result<(), String> {
        match self.of(client)?.write_all(bytes) {
            // The server may have closed the stream already; its last output still has to be read.
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => Ok(()),
            other => other.map_err(|error| error.to_string()),
        }
    }

    fn hear(&mut self, client: &str, patience: Patience) -> Result<Heard, String> {
        let stream = self.of(client)?;
        let wait = if patience == Patience::Long { LONG } else { SHORT };
        stream.set_read_timeout(Some(wait)).map_err(|error| error.to_string())?;
        let mut buffer = vec![0; 65_536];
        match stream.read(&mut buffer) {
            Ok(0) => Ok(Heard::Closed),
            Ok(n) => Ok(Heard::Bytes(buffer[..n].to_vec())),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(Heard::Nothing),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(Heard::Closed),
            Err(error) => Err(error.to_string()),
        }
    }

    fn abort(&mut self, client: &str) {
        if let Some(stream) = self.open.remove(client) {
            // With a linger time of zero the kernel resets the connection.
            let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        }
    }

    fn pass(&mut self, ms: u64) {
        std::thread::sleep(Duration::from_millis(ms));
    }
}

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/scripts");
    let files = std::fs::read_dir(folder).expect("the scripts are there").map(|f| f.expect("readable").path());
    let mut all: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|e| e == "scs")).collect();
    all.sort();
    assert!(!all.is_empty());
    all
}

fn play_all(driver: &str) {
    let (mut failures, mut passed_over) = (Vec::new(), 0);
    for path in scripts() {
        let script = Script::parse(&std::fs::read_to_string(&path).expect("readable")).expect("a script");
        let pass_ms: u64 = script.steps.iter().map(|s| if let Action::Pass(ms) = s.action { ms } else { 0 }).sum();
        if Duration::from_millis(pass_ms) > PASS_MAX {
            passed_over += 1;
            continue;
        }
        let server = Server::start(driver, &script.accounts());
        let mut sockets = Sockets { port: server.port, open: BTreeMap::new(), left: Vec::new() };
        if let Err(error) = script.play(&mut sockets, "localhost", PASSWORD) {
            failures.push(format!("{} on {driver}: {error}", path.display()));
        }
    }
    println!("{passed_over} scripts let too much time pass for real sockets");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_script_holds_over_sockets_on_epoll() {
    play_all("epoll");
}

#[test]
fn every_script_holds_over_sockets_on_io_uring() {
    // A kernel or container without io_uring reports that; then the test has nothing to do.
    let probe = tempfile::tempdir().expect("a folder");
    let folder = probe.path().to_str().expect("a plain path");
    let output = Command::new(THRONG)
        .args(["serve", "--data", folder, "--c2s", "192.0.2.1:1", "--c2s-tls", "off", "--driver", "uring"])
        .output()
        .expect("throng runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("io_uring") {
        println!("not played: {said}");
        return;
    }
    play_all("uring");
}
