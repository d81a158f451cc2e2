//! `throng serve`: takes the folder, sets up the log, hands over.

use throng_engine::extension::Rule;

use super::{Failure, Program, accounts};
use crate::admin::Listening;
use crate::config::Loaded;
use crate::disk::FolderLock;
use crate::log;

/// Runs the server until it has stopped.
///
/// # Errors
/// The folder is in use; whatever [`Program::serve`] says.
pub fn run(loaded: Loaded, program: &dyn Program) -> Result<(), Failure> {
    let log = log::start(loaded.config.log_level, loaded.config.log_format).map_err(Failure::failed)?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let taken = FolderLock::take(&loaded.config.data, "serve");
    let lock = taken.map_err(|error| accounts::lock_failure(&loaded.config, error))?;
    if let Some(word) = lock.tightened() {
        tracing::warn!("the data folder {word}");
    }
    program.serve(loaded, log, lock)
}

/// What a started server tells whoever started it: where it listens, and what to do next.
pub fn welcome(loaded: &Loaded, listening: &[Listening]) -> String {
    let config = &loaded.config;
    let mut text = format!("Throng serves {} from {}\n", config.domain, config.data.display());
    for listening in listening {
        text += &format!("  {:<24}{}\n", listening.address, listening.sort());
    }
    text += "Next: ";
    let own = super::accounts::place_flags(loaded);
    text += &match config.rule() {
        Some(Rule::Open | Rule::Approval) => "point a client at it and register, or make an account: ".to_owned(),
        Some(Rule::Invite) => format!("invite somebody: throng invite{own}, or make an account: "),
        None => "make an account and point a client at it: ".to_owned(),
    };
    let dashboard = match config.admin_http.is_empty() {
        true => String::new(),
        false => format!("Dashboard: throng ctl dashboard{own} prints an address for a browser\n"),
    };
    text + &format!("throng user add romeo{own}\n{dashboard}Stop with Ctrl-C or `throng ctl shutdown{own}`\n")
}
