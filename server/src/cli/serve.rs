//! `throng serve`: locks the folder, sets up the log, and starts the server.

use throng_engine::extension::Rule;

use super::{Failure, Program, accounts};
use crate::admin::Listening;
use crate::config::Loaded;
use crate::disk::FolderLock;
use crate::events::utc;
use crate::log;

/// Runs the server until it has stopped.
///
/// # Errors
/// The folder is in use; the errors of [`Program::serve`].
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
    if rustix::process::geteuid().is_root() {
        tracing::warn!("running as root; run the server as a separate user that owns the data folder");
    }
    program.serve(loaded, log, lock)
}

/// A count that may be incomplete.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// The number counted.
    pub rows: u64,
    /// Whether there may be more.
    pub is_more: bool,
}

impl Count {
    fn of(self, what: &str) -> String {
        match (self.rows, self.is_more) {
            (0, false) => format!("no {what}s"),
            (1, false) => format!("1 {what}"),
            (rows, false) => format!("{rows} {what}s"),
            (rows, true) => format!("more than {rows} {what}s"),
        }
    }
}

/// The state of the data folder at a start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Opened {
    /// Whether this start created the store.
    pub is_new: bool,
    /// Number of accounts; for external authentication, of those that have logged in.
    pub accounts: Count,
    /// Number of messages in archives; one between two local users is in the archive of each.
    pub messages: Count,
    /// Time of the last commit, in seconds since 1970.
    pub last_written_s: Option<u64>,
    /// The previous user of the folder, if it was killed: `serve 1234`.
    pub cut_off: Option<String>,
    /// Number of commits replayed from the journal.
    pub replayed: u64,
}

impl Opened {
    /// The state of the folder, and after a crash what was recovered, one sentence each without a
    /// full stop.
    pub fn sentences(&self) -> Vec<String> {
        if self.is_new {
            return vec!["new data folder: no accounts, no messages".to_owned()];
        }
        let (accounts, messages) = (self.accounts.of("account"), self.messages.of("archived message"));
        let mut opened = format!("opened: {accounts}, {messages}");
        if let Some(at_s) = self.last_written_s {
            opened += &format!(", last written {}", utc(at_s));
        }
        let recovered = self.cut_off.as_ref().map(|who| {
            let commits = Count { rows: self.replayed, is_more: false }.of("commit");
            format!(
                "recovered from a crash of the previous process ({who}): {commits} replayed from \
                 the journal; nothing acknowledged is lost"
            )
        });
        [opened].into_iter().chain(recovered).collect()
    }
}

/// The banner of a started server: its folder and contents, its listeners, and what to do next.
pub fn welcome(loaded: &Loaded, opened: &Opened, listening: &[Listening]) -> String {
    let config = &loaded.config;
    let mut text = format!("Throng serves {} from {}\n", config.domain, config.data.display());
    for sentence in opened.sentences() {
        text += &format!("  {sentence}\n");
    }
    for listening in listening {
        text += &format!("  {:<24}{}\n", listening.address, listening.sort());
    }
    let own = super::accounts::place_flags(loaded);
    let has_accounts = opened.accounts != Count::default();
    let client = match config.rule() {
        Some(Rule::Open | Rule::Approval) => "point a client at it and register".to_owned(),
        Some(Rule::Invite) => format!("invite someone: throng invite{own}"),
        None => "point a client at it".to_owned(),
    };
    let account = format!("create an account: throng user add romeo{own}");
    text += &match (has_accounts, config.rule()) {
        (true, _) => format!("Next: {client}\n"),
        (false, Some(_)) => format!("Next: {client}, or {account}\n"),
        (false, None) => format!("Next: {account}, and {client}\n"),
    };
    if !config.admin_http.is_empty() {
        text += &format!("Dashboard: throng ctl dashboard{own} prints an address for a browser\n");
    }
    text + &format!("Stop with Ctrl-C or `throng ctl shutdown{own}`\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, Flags, load};

    fn welcomed(flags: &[(&'static str, &str)], opened: &Opened) -> String {
        let flags: Flags = flags.iter().map(|(key, value)| (*key, vec![(*value).to_owned()])).collect();
        welcome(&load(&flags, &Environment::new(), None).expect("good"), opened, &[])
    }

    #[test]
    fn the_banner_says_whether_the_folder_is_new_and_what_is_in_one_that_is_not() {
        let new = Opened { is_new: true, ..Opened::default() };
        let said = welcomed(&[], &new);
        assert!(said.contains("\n  new data folder: no accounts, no messages\n"), "{said}");
        assert!(said.contains("Next: create an account: throng user add romeo"), "{said}");
        let empty = Opened { last_written_s: Some(1_700_000_000), ..Opened::default() };
        let said = welcomed(&[], &empty);
        let opened = "opened: no accounts, no archived messages, last written 2023-11-14T22:13:20Z\n";
        assert!(said.contains(opened) && said.contains("Next: create an account"), "{said}");
        let count = |rows, is_more| Count { rows, is_more };
        let full = Opened { accounts: count(1, false), messages: count(70_000, true), ..Opened::default() };
        let said = welcomed(&[], &full);
        assert!(said.contains("opened: 1 account, more than 70000 archived messages\n"), "{said}");
        assert!(said.contains("Next: point a client at it\n") && !said.contains("user add"), "{said}");
        let said = welcomed(&[("registration", "invite")], &full);
        assert!(said.contains("Next: invite someone: throng invite") && !said.contains("user add"), "{said}");
        let cut = Opened { cut_off: Some("serve 4711".into()), replayed: 3, ..full };
        let said = welcomed(&[], &cut);
        assert!(
            said.contains("recovered from a crash of the previous process (serve 4711): 3 commits replayed"),
            "{said}"
        );
    }
}
