//! What the kernel reports about threads of this process. This includes threads not started by the
//! server (io_uring's, those of libraries), and ones that sleep outside any declared place.

use std::fs::read_to_string;
use std::time::Duration;

/// A thread, as the kernel sees it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Task {
    /// Its id.
    pub tid: i32,
    /// Its name, at most 15 bytes.
    pub name: String,
    /// `R` running or runnable, `S` sleeping, `D` waiting for a device, `T` stopped, `t` stopped by
    /// a tracer.
    pub state: char,
    /// The tracing process; 0 if there is none.
    pub tracer: i32,
    /// The kernel function that it sleeps in, if the kernel reports it.
    pub channel: Option<String>,
    /// CPU time since it began.
    pub ran: Duration,
    /// Time that it waited for a core.
    pub waited: Duration,
    /// Number of times that it was scheduled.
    pub slices: u64,
}

/// Ids of this process's threads.
pub fn tasks() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

impl Task {
    /// The kernel's report of a thread; `None` if it has ended.
    pub fn of(tid: i32) -> Option<Task> {
        let file = |name: &str| read_to_string(format!("/proc/self/task/{tid}/{name}"));
        let (name, state) = name_and_state(&file("stat").ok()?)?;
        let status = file("status").unwrap_or_default();
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:")?.trim().parse().ok());
        let sleeps = !matches!(state, 'R' | 'T' | 't');
        let channel =
            || channel(&file("wchan").unwrap_or_default()).or_else(|| innermost(&file("stack").unwrap_or_default()));
        let times = file("schedstat").unwrap_or_default();
        let mut times = times.split_whitespace().map(|number| number.parse().unwrap_or(0));
        let mut next = || times.next().unwrap_or(0);
        Some(Task {
            tid,
            name,
            state,
            tracer: tracer.unwrap_or(0),
            channel: sleeps.then(channel).flatten(),
            ran: Duration::from_nanos(next()),
            waited: Duration::from_nanos(next()),
            slices: next(),
        })
    }

    /// Whether it has been stopped from outside.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// What it does, in words.
    pub fn doing(&self) -> String {
        let within = self.channel.as_ref().map(|channel| format!(" in {channel}")).unwrap_or_default();
        match self.state {
            'R' => "runs, or wants a core".to_owned(),
            'S' | 'I' => format!("sleeps{within}"),
            'D' => format!("waits for a device{within}"),
            't' => format!("is stopped by a tracer (process {})", self.tracer),
            'T' if self.tracer > 0 => format!("is stopped by a tracer (process {})", self.tracer),
            'T' => "is stopped by a signal".to_owned(),
            other => format!("is in state {other}"),
        }
    }
}

/// Parses `stat`: the name is in brackets and may contain any character.
fn name_and_state(stat: &str) -> Option<(String, char)> {
    let (from, until) = (stat.find('(')?, stat.rfind(')')?);
    Some((stat.get(from + 1..until)?.to_owned(), stat.get(until + 1..)?.trim_start().chars().next()?))
}

/// Parses `wchan`: kernels that do not report it print 0.
fn channel(wchan: &str) -> Option<String> {
    let name = wchan.trim();
    (!name.is_empty() && name != "0").then(|| name.to_owned())
}

/// Parses `stack`, which only root may read: the innermost function.
fn innermost(stack: &str) -> Option<String> {
    let name = stack.lines().next()?.split_whitespace().nth(1)?;
    Some(name.split('+').next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_brackets_and_blanks() {
        assert_eq!(name_and_state("12 (a) b (c)) S 1 2"), Some(("a) b (c)".to_owned(), 'S')));
        assert_eq!(name_and_state("12 (a"), None);
        assert_eq!(name_and_state("12 (a)"), None);
    }

    #[test]
    fn the_kernels_function_is_told_by_its_channel_or_by_the_stack() {
        assert_eq!((channel("0"), channel("futex_wait_queue")), (None, Some("futex_wait_queue".to_owned())));
        assert_eq!(innermost("[<0>] hrtimer_nanosleep+0x74/0xf0\n[<0>] x+0x0\n"), Some("hrtimer_nanosleep".to_owned()));
        assert_eq!((innermost(""), innermost("[<0>]")), (None, None));
    }

    #[test]
    fn this_thread_runs() {
        let own = Task::of(rustix::thread::gettid().as_raw_nonzero().get()).expect("it is there");
        assert_eq!((own.state, own.tracer, own.doing()), ('R', 0, "runs, or wants a core".to_owned()));
        assert!(tasks().contains(&own.tid));
        assert_eq!(Task::of(i32::MAX), None);
    }
}
