//! The checks, by subject.

mod files;
mod machine;
mod network;
mod tracking;

use crate::finding::{Finding, State, grouped};
use crate::host::Host;
use crate::plan::Plan;

/// Runs all checks.
pub(crate) fn all(host: &Host, plan: &Plan) -> Vec<Finding> {
    [files::check, network::check, tracking::check, machine::check].iter().flat_map(|check| check(host, plan)).collect()
}

/// A value of `/proc/sys` that must have a minimum. Unknown if this kernel or namespace lacks it.
fn at_least(host: &Host, name: &'static str, sysctl: &str, needed: u64) -> Finding {
    let path = format!("/proc/sys/{}", sysctl.replace('.', "/"));
    let Some(is) = host.number(&path) else {
        return Finding::new(name, State::Unknown, format!("{sysctl} is not told here"), grouped(needed));
    };
    let state = if is >= needed { State::Good } else { State::Short };
    Finding::new(name, state, grouped(is), grouped(needed)).sysctl(sysctl, &is.to_string(), &needed.to_string())
}
