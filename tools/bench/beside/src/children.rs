//! Child processes: each leads a group of its own, so that an end by a signal takes all of them along with what they have
//! started themselves.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

/// All that run now; clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Children(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Leaders of groups; bounded by how many processes a measurement has.
    groups: Vec<Pid>,
    /// Nothing is started any more.
    ended: bool,
}

/// A child; its whole group is killed with this value.
pub(crate) struct Held {
    child: Child,
    group: Pid,
    all: Children,
}

impl Children {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self, command: &mut Command) -> io::Result<(Child, Pid)> {
        // Under the lock: what has been started is known to who ends all.
        let mut state = self.state();
        if state.ended {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let child = command.stdin(Stdio::null()).process_group(0).spawn()?;
        let group = Pid::from_child(&child);
        state.groups.push(group);
        Ok((child, group))
    }

    fn forget(&self, group: Pid) {
        self.state().groups.retain(|other| *other != group);
    }

    /// Starts a child.
    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<Held> {
        let (child, group) = self.start(command)?;
        Ok(Held { child, group, all: self.clone() })
    }

    /// Runs a child to its end, and returns what it has said.
    pub(crate) fn output(&self, command: &mut Command) -> io::Result<Output> {
        let (child, group) = self.start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
        let output = child.wait_with_output();
        self.forget(group);
        output
    }

    /// Kills all, and starts none any more.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        for group in state.groups.drain(..) {
            // One that has ended meanwhile needs no signal.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Held {
    /// The child itself.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) -> io::Result<()> {
        Ok(rustix::process::kill_process(self.group, Signal::TERM)?)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = kill_process_group(self.group, Signal::KILL);
        let _ = self.child.wait();
        self.all.forget(self.group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// A child that starts one of its own, which prints its process.
    fn family() -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo $!; wait"]).stdout(Stdio::piped());
        command
    }

    fn grandchild(held: &mut Held) -> String {
        let mut line = String::new();
        let out = held.child().stdout.take().expect("it is piped");
        io::BufRead::read_line(&mut io::BufReader::new(out), &mut line).expect("a line");
        line.trim().to_owned()
    }

    /// Gone, or dead and not waited for, which is up to the one who has adopted it.
    fn ends(process: &str) -> bool {
        let end = Instant::now() + Duration::from_secs(5);
        let state = || std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        while Instant::now() < end {
            if state().is_empty() || state().contains(") Z ") {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    #[test]
    fn who_ends_all_ends_what_they_have_started_and_lets_none_begin() {
        let children = Children::default();
        let mut held = children.spawn(&mut family()).expect("sh runs");
        let process = grandchild(&mut held);
        children.end();
        assert!(ends(&process) && ends(&held.id().to_string()));
        assert!(children.spawn(&mut family()).is_err() && children.output(&mut family()).is_err());
    }

    #[test]
    fn a_child_goes_with_its_value_and_one_that_has_ended_is_forgotten() {
        let children = Children::default();
        let mut held = children.spawn(&mut family()).expect("sh runs");
        let process = grandchild(&mut held);
        drop(held);
        assert!(ends(&process));
        let said = children.output(Command::new("echo").arg("word")).expect("echo runs");
        assert_eq!(said.stdout, b"word\n");
        assert!(children.state().groups.is_empty());
    }
}
