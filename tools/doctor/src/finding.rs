//! The result of a check.

use std::path::PathBuf;

use serde::Serialize;

/// The verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Sufficient.
    Good,
    /// Harmless, but worth knowing.
    Note,
    /// Insufficient for the plan.
    Short,
    /// Cannot be determined on this host.
    Unknown,
}

/// A new value for a file of the kernel.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Change {
    /// The file, such as `/proc/sys/net/core/somaxconn`.
    pub path: PathBuf,
    /// What to write.
    pub value: String,
    /// The current value.
    pub before: String,
}

/// One line of the report.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// The subject.
    pub name: &'static str,
    /// The verdict.
    pub state: State,
    /// The current state.
    pub is: String,
    /// The required state.
    pub needed: String,
    /// The consequence otherwise, in a sentence.
    pub why: &'static str,
    /// The command that sets it until the next start.
    pub now: Option<String>,
    /// The permanent setting, and where to write it.
    pub lasting: Option<String>,
    /// The change that `--apply` makes.
    pub change: Option<Change>,
}

impl Finding {
    /// A finding without a remedy.
    pub(crate) fn new(name: &'static str, state: State, is: impl ToString, needed: impl ToString) -> Finding {
        let (is, needed) = (is.to_string(), needed.to_string());
        Finding { name, state, is, needed, why: "", now: None, lasting: None, change: None }
    }

    /// Adds the consequence.
    pub(crate) fn because(mut self, why: &'static str) -> Finding {
        self.why = why;
        self
    }

    /// Adds the remedy. A good finding needs none.
    pub(crate) fn mend(mut self, now: impl Into<String>, lasting: impl Into<String>) -> Finding {
        if self.state != State::Good {
            let kept = |text: String| (!text.is_empty()).then_some(text);
            (self.now, self.lasting) = (kept(now.into()), kept(lasting.into()));
        }
        self
    }

    /// Adds a new value of `/proc/sys` (`net.core.somaxconn`), if it is insufficient.
    pub(crate) fn sysctl(self, name: &str, before: &str, value: &str) -> Finding {
        let told = self.mend(
            format!("sysctl -w {name}={}", quoted(value)),
            format!("{name} = {value}   in /etc/sysctl.d/60-throng.conf"),
        );
        told.change(format!("/proc/sys/{}", name.replace('.', "/")), before, value)
    }

    /// Adds the change for `--apply`, if it is insufficient.
    pub(crate) fn change(mut self, path: impl Into<PathBuf>, before: &str, value: &str) -> Finding {
        if self.state == State::Short {
            self.change = Some(Change { path: path.into(), value: value.into(), before: before.into() });
        }
        self
    }
}

/// A value quoted for a shell.
fn quoted(value: &str) -> String {
    if value.contains(' ') { format!("'{value}'") } else { value.to_owned() }
}

/// A number with commas between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes with a unit.
pub(crate) fn sized(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} bytes"),
        10_240..10_485_760 => format!("{} KiB", grouped(bytes >> 10)),
        10_485_760..10_737_418_240 => format!("{} MiB", grouped(bytes >> 20)),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_good_has_nothing_to_mend() {
        let good = Finding::new("a", State::Good, 1, 1).sysctl("net.core.somaxconn", "1", "2");
        assert_eq!((good.now, good.lasting, good.change), (None, None, None));
        let short = Finding::new("a", State::Short, 1, 2).sysctl("net.ipv4.tcp_mem", "1 2 3", "4 5 6");
        assert_eq!(short.now.as_deref(), Some("sysctl -w net.ipv4.tcp_mem='4 5 6'"));
        assert_eq!(short.change.expect("a change").path.to_str(), Some("/proc/sys/net/ipv4/tcp_mem"));
    }

    #[test]
    fn figures_are_told_for_people() {
        assert_eq!(
            (grouped(1_234_567), sized(380 << 20), sized(12 << 30)),
            ("1,234,567".into(), "380 MiB".into(), "12.0 GiB".into())
        );
    }
}
