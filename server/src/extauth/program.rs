//! A line to a program: one process, which answers one request after another.
//!
//! A process that does not answer in time, answers invalidly, or writes unrequested output is
//! killed, with its process group: a late answer would be taken for that of the next request.

use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use throng_engine::io::Question;
use tokio::net::unix::pipe;

use super::protocol::{ANSWER_BYTES, answer, request};
use super::{Fault, Program};
use crate::waits;

/// Maximum bytes logged of one line of a program's standard error.
const LINE_BYTES_MAX: usize = 512;

/// Maximum number of lines logged per process: after that the rest is read and dropped.
const LINES_MAX: u32 = 100;

/// Prefix of environment variables that are hidden from processes: they may contain options with
/// secrets.
const OWN_PREFIX: &str = "THRONG_";

/// A process, or none yet.
#[derive(Debug)]
pub(super) struct Line {
    program: Program,
    process: Option<Process>,
}

impl Line {
    pub(super) fn new(program: Program) -> Line {
        Line { program, process: None }
    }

    /// Sends a request. A process that had already ended is restarted, once.
    pub(super) async fn ask(&mut self, question: &Question, started: &mut u64) -> Result<bool, Fault> {
        let request = request(question).ok_or(Fault::Wrong("the question is too long for the protocol"))?;
        for _ in 0..2 {
            let old = self.process.take();
            let is_old = old.is_some();
            let mut process = match old {
                Some(process) => process,
                None => {
                    *started += 1;
                    Process::start(&self.program)?
                }
            };
            // If this is cancelled, the process is killed with it.
            match process.exchange(&request).await {
                Err(Fault::Ended) if is_old => continue,
                Err(fault) => return Err(fault),
                Ok(answer) => {
                    self.process = Some(process);
                    return Ok(answer);
                }
            }
        }
        Err(Fault::Ended)
    }
}

/// A running process. It is killed when this is dropped.
#[derive(Debug)]
struct Process {
    /// `Some` until this is dropped.
    child: Option<Child>,
    stdin: pipe::Sender,
    stdout: pipe::Receiver,
}

impl Process {
    fn start(program: &Program) -> Result<Process, Fault> {
        let mut command = Command::new(&program.path);
        command.args(&program.arguments).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(OWN_PREFIX.as_bytes()) {
                command.env_remove(name);
            }
        }
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(|error| Fault::NotThere(error.to_string()))?;
        let ends = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = ends else { return Err(kill(child)) };
        let stdin = pipe::Sender::from_owned_fd(OwnedFd::from(stdin));
        let stdout = pipe::Receiver::from_owned_fd(OwnedFd::from(stdout));
        let stderr = pipe::Receiver::from_owned_fd(OwnedFd::from(stderr));
        let (Ok(stdin), Ok(stdout), Ok(stderr)) = (stdin, stdout, stderr) else { return Err(kill(child)) };
        tokio::spawn(log_lines(stderr, child.id(), program.path.clone()));
        Ok(Process { child: Some(child), stdin, stdout })
    }

    async fn exchange(&mut self, request: &[u8]) -> Result<bool, Fault> {
        let mut into = [0; ANSWER_BYTES + 1];
        match self.stdout.try_read(&mut into) {
            Ok(0) => return Err(Fault::Ended),
            Ok(_) => return Err(Fault::Wrong("it sent an unexpected answer")),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return Err(Fault::Ended),
        }
        let mut left = request;
        while !left.is_empty() {
            self.stdin.writable().await.map_err(|_| Fault::Ended)?;
            match self.stdin.try_write(left) {
                Ok(written) => left = &left[written..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(Fault::Ended),
            }
        }
        let mut filled = 0;
        while filled < ANSWER_BYTES {
            self.stdout.readable().await.map_err(|_| Fault::Ended)?;
            match self.stdout.try_read(&mut into[filled..]) {
                Ok(0) if filled == 0 => return Err(Fault::Ended),
                Ok(0) => return Err(Fault::Wrong("it ended in the middle of an answer")),
                Ok(read) => filled += read,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(Fault::Ended),
            }
        }
        let whole = into.first_chunk().filter(|_| filled == ANSWER_BYTES);
        let wrong = Fault::Wrong("its answer is not 0, 2, 0 and 0 or 1, as the protocol requires");
        whole.and_then(|bytes| answer(*bytes)).ok_or(wrong)
    }
}

/// Waits for the end of a killed process in a separate thread. If no thread can be created, the
/// process stays in the system's table until the server ends.
fn reap(mut child: Child) {
    if !matches!(child.try_wait(), Ok(None)) {
        return;
    }
    let _ = waits::spawn("throng-reaper", move || child.wait());
}

/// Kills a process whose pipes are missing, which should be impossible.
fn kill(mut child: Child) -> Fault {
    let _ = child.kill();
    reap(child);
    Fault::NotThere("its pipes cannot be used".to_owned())
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // The group has the id of the process that began it, which is not reused until that process
        // has been waited for.
        if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = child.kill();
        // Its end takes a moment, or blocks in the kernel on an unresponsive file system: nothing
        // waits for it.
        reap(child);
    }
}

/// Logs what a process writes to its standard error.
async fn log_lines(stderr: pipe::Receiver, pid: u32, program: std::path::PathBuf) {
    let (mut kept, mut lines, mut chunk) = (Vec::new(), 0, [0; 1024]);
    loop {
        if stderr.readable().await.is_err() {
            return;
        }
        match stderr.try_read(&mut chunk) {
            Ok(0) => return,
            Ok(read) => kept.extend_from_slice(&chunk[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(_) => return,
        }
        loop {
            let end = kept.iter().position(|byte| *byte == b'\n');
            let Some(end) = end.or((kept.len() > LINE_BYTES_MAX).then_some(LINE_BYTES_MAX)) else { break };
            let line: Vec<u8> = kept.drain(..=end.min(kept.len() - 1)).collect();
            lines += 1;
            if lines <= LINES_MAX {
                let line = String::from_utf8_lossy(&line[..line.len().min(LINE_BYTES_MAX)]);
                tracing::warn!(program = %program.display(), pid, line = line.trim_end(), "external authentication says");
            }
            // A program that writes endlessly gets no more of the thread than others.
            tokio::task::yield_now().await;
        }
    }
}

/// How long a line pauses after a failure: twice as long each time.
#[derive(Debug)]
pub(super) struct BackOff(Duration);

const REST_MIN: Duration = Duration::from_millis(100);
const REST_MAX: Duration = Duration::from_secs(2);

impl Default for BackOff {
    fn default() -> BackOff {
        BackOff(REST_MIN)
    }
}

impl BackOff {
    pub(super) fn next(&mut self) -> Duration {
        let rest = self.0;
        self.0 = (rest * 2).min(REST_MAX);
        rest
    }
}
