//! The clients' accounts: a prefix and a number, or lines of a file; and the file for creating such
//! accounts.

use std::io::{self, BufWriter, Write};
use std::num::NonZeroU32;
use std::path::Path;

use ring::rand::{SecureRandom, SystemRandom};

use crate::client::Account;
use crate::sasl;
use crate::scenario::Scenario;

/// PBKDF2 iterations of accounts that are written, the least that RFC 7677 4 allows.
const ITERATIONS: u32 = 4096;

/// All accounts of a scenario, by number from 0.
#[derive(Debug)]
pub(crate) enum Accounts {
    /// A prefix and a number.
    Numbered { prefix: String, first: u32, password: String },
    /// Lines of a file.
    Listed(Vec<(Box<str>, Box<str>)>),
}

impl Accounts {
    /// The scenario's.
    ///
    /// # Errors
    /// The file cannot be read, a line is not localpart,password, or there are fewer than sessions.
    pub(crate) fn of(scenario: &Scenario) -> Result<Accounts, String> {
        let path = &scenario.accounts;
        if path.as_os_str().is_empty() {
            return Ok(Accounts::Numbered {
                prefix: scenario.user_prefix.clone(),
                first: scenario.user_first,
                password: scenario.password.clone(),
            });
        }
        let wrong = |error: csv::Error| format!("{}: {error}", path.display());
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_path(path).map_err(wrong)?;
        let mut listed = Vec::new();
        for (number, line) in reader.records().enumerate() {
            let line = line.map_err(wrong)?;
            match (line.get(0), line.get(1)) {
                (Some("localpart"), Some("password")) if number == 0 => {}
                (Some(name), Some(password)) => listed.push((name.into(), password.into())),
                _ => return Err(format!("{}: line {} is not localpart,password", path.display(), number + 1)),
            }
        }
        if listed.len() < scenario.sessions as usize {
            return Err(format!("{}: {} accounts for {} sessions", path.display(), listed.len(), scenario.sessions));
        }
        Ok(Accounts::Listed(listed))
    }

    /// Appends the localpart of an account.
    pub(crate) fn write_name(&self, number: u32, out: &mut Vec<u8>) {
        match self {
            Accounts::Numbered { prefix, first, .. } => {
                let _ = write!(out, "{prefix}{}", u64::from(*first) + u64::from(number));
            }
            Accounts::Listed(listed) => out.extend_from_slice(listed[number as usize].0.as_bytes()),
        }
    }

    /// An account with its password.
    pub(crate) fn account(&self, number: u32) -> Account {
        let mut name = Vec::new();
        self.write_name(number, &mut name);
        let password = match self {
            Accounts::Numbered { password, .. } => password.clone(),
            Accounts::Listed(listed) => listed[number as usize].1.to_string(),
        };
        Account { name: String::from_utf8(name).expect("text and digits"), password }
    }
}

/// Writes the accounts as `throng user import` takes them: with SCRAM keys instead of passwords,
/// all of one salt, so that neither the import nor a login has to derive keys for each.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write(scenario: &Scenario, accounts: &Accounts, path: &Path) -> io::Result<()> {
    let mut salt = [0; 16];
    SystemRandom::new().fill(&mut salt).expect("the kernel has entropy");
    let iterations = NonZeroU32::new(ITERATIONS).expect("not zero");
    let mut out = csv::WriterBuilder::new().from_writer(BufWriter::new(std::fs::File::create(path)?));
    for number in 0..scenario.sessions {
        let Account { name, password } = accounts.account(number);
        out.write_record([name, sasl::keys(&password, &salt, iterations)])?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_numbered_or_listed() {
        let scenario = Scenario { user_first: 5, ..Scenario::default() };
        let accounts = Accounts::of(&scenario).expect("no file is needed");
        assert_eq!(accounts.account(2), Account { name: "u7".into(), password: "secret".into() });
        let path = std::env::temp_dir().join(format!("throng-load-accounts-{}.csv", std::process::id()));
        std::fs::write(&path, "localpart,password\nromeo,\"a,b\"\njuliet,c\n").expect("a file");
        let mut scenario = Scenario { accounts: path.clone(), sessions: 2, ..Scenario::default() };
        let accounts = Accounts::of(&scenario).expect("two accounts");
        assert_eq!(accounts.account(0), Account { name: "romeo".into(), password: "a,b".into() });
        scenario.sessions = 3;
        assert!(Accounts::of(&scenario).expect_err("too few").contains("2 accounts for 3 sessions"));
        std::fs::write(&path, "romeo\n").expect("a file");
        assert!(Accounts::of(&scenario).expect_err("no password").contains("line 1"));
        std::fs::remove_file(&path).expect("it is there");
    }
}
