//! What is wrong with a server according to its state, in sentences. All places that show it share
//! this module: `throng ctl status`, the dashboard and `throng top` (which add findings from
//! recordings), `/ready`, and the administrators' command.

use serde::Serialize;

use super::Status;
use crate::config::kind::domain_to_ascii;
use crate::events::utc;

/// The severity of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// Users are affected, or will be soon.
    Bad,
    /// Users may become affected.
    Warn,
}

/// A finding as a sentence.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Wrong {
    /// Its severity.
    pub weight: Weight,
    /// The subject: `shard 3`, `disk`.
    pub what: String,
    /// The rest of the sentence, with the remedy.
    pub text: String,
}

/// A sentence about `what`.
pub(crate) fn wrong(weight: Weight, what: impl Into<String>, text: impl Into<String>) -> Wrong {
    Wrong { weight, what: what.into(), text: text.into() }
}

/// What `/ready` answers because of a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ready {
    /// 503: no clients should be routed to this server.
    Refuses,
    /// 200, with a line in `degraded`: something does not work for some users.
    Degraded,
    /// 200, with a line in `warnings`: everything works, but an operator is needed.
    Warns,
}

/// A finding from the state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The text for operators.
    pub wrong: Wrong,
    /// What `/ready` answers.
    pub ready: Ready,
    /// Its lines in `/ready`. They are public: they contain neither user names nor reasons meant
    /// only for operators.
    pub public: Vec<String>,
}

/// Seconds by which a backup may lag before an operator is needed: what a shorter break of the
/// network costs is caught up at once.
const BACKUP_LAG_S: u64 = 10;

impl Status {
    /// All findings that the state alone yields; a new fault in the state needs a new rule here.
    pub fn wrong(&self) -> Vec<Found> {
        use Weight::{Bad, Warn};
        let mut all = Vec::new();
        let mut found_all = |ready, weight, what: &str, text: String, public: Vec<String>| {
            all.push(Found { wrong: wrong(weight, what, text), ready, public });
        };
        if let Some(first) = self.damaged.first() {
            let files = match self.damaged.len() {
                1 => "1 damaged file".to_owned(),
                many => format!("{many} damaged files, the first"),
            };
            let text = format!(
                "has {files} {first}: reads of damaged rows fail; stop the server, then run \
                 `throng store check` to list the damage, or `throng store salvage` to recover \
                 intact rows"
            );
            found_all(Ready::Degraded, Bad, "store", text, self.damaged.clone());
        }
        let mut found = |ready, weight, what: &str, text: String, public: String| {
            found_all(ready, weight, what, text, vec![public]);
        };
        if self.storage_full {
            let until = match self.storage_lacks_bytes {
                0 => "space is freed".to_owned(),
                bytes => format!("{bytes} more bytes are free"),
            };
            let text = format!("is full: new messages are refused with <resource-constraint/> until {until}");
            let public = format!("the disk is full: new messages are refused until {until}");
            found(Ready::Refuses, Bad, "disk", text, public);
        }
        if let Some(clock) = &self.clock {
            let (by_s, left_s) = (clock.ahead_s.unsigned_abs(), clock.left_s);
            let text = match clock.ahead_s {
                0.. => format!(
                    "is {by_s} s ahead of the expected time: deletion by age is paused until the \
                     clock has been steady for {left_s} s more; correct it, or confirm it with \
                     `throng ctl clock confirm`"
                ),
                _ => format!(
                    "is {by_s} s behind the expected time: timestamps are wrong; correct it, or \
                     confirm it with `throng ctl clock confirm`"
                ),
            };
            let public = format!("the wall clock {text}");
            found(Ready::Warns, Bad, "the wall clock", text, public);
        }
        if let (Some(paused), Some(of)) = (self.paused(), &self.not_accepting) {
            // While some shards accept, most clients that retry are admitted.
            let ready = if of.shards >= self.shards { Ready::Refuses } else { Ready::Degraded };
            let public = format!("accepting connections is {paused}");
            found(ready, Bad, "accepting connections", format!("is {paused}"), public);
        }
        if let Some(certificate) = &self.certificate {
            for fault in &certificate.faults {
                found(Ready::Warns, Bad, "TLS", format!("{fault}: clients refuse this server"), fault.clone());
            }
            if let Some(soon) = &certificate.soon {
                found(Ready::Warns, Warn, "TLS", soon.clone(), soon.clone());
            }
            // For others the next rule has a sentence.
            let by_acme = |domain: &String| {
                let ascii = domain_to_ascii(domain);
                self.acme.iter().any(|of| of.expires_s.is_none() && ascii.as_ref() == Some(&of.name))
            };
            let own: Vec<_> = certificate.self_signed.iter().filter(|domain| !by_acme(domain)).cloned().collect();
            if let Some(sentence) = crate::tls::self_signed(&own) {
                found(Ready::Warns, Warn, "TLS", sentence.clone(), sentence);
            }
        }
        for of in &self.acme {
            let (what, next) = (format!("certificate of {}", of.name), utc(of.next_s.max(0).unsigned_abs()));
            let (weight, text, public) = match (&of.fault, of.expires_s) {
                (Some(fault), _) if of.in_a_row == 0 => {
                    let text = format!("has come, but is not in use: {fault}; correct it, and reload");
                    (Bad, text, "is not in use")
                }
                (Some(fault), expires_s) => {
                    let (weight, was) = match expires_s {
                        None => (Bad, "was not obtained"),
                        Some(_) => (Warn, "was not renewed"),
                    };
                    let text = format!("{was}: {fault}; tried again at {next}, or at once by `throng ctl reload`");
                    (weight, text, was)
                }
                (None, None) => {
                    (Warn, "is ordered; until it has come, a self-signed one is shown".into(), "is ordered")
                }
                (None, Some(_)) => continue,
            };
            let public = format!("{what} {public}");
            found(Ready::Warns, weight, &what, text, public);
        }
        for domain in &self.external_down {
            let text = format!(
                "of {domain} is down: its users cannot log in; see the log for the reason \
                 (external authentication failed); the server retries within half a minute"
            );
            let public = format!("external authentication of {domain} is down: its users cannot log in");
            found(Ready::Degraded, Bad, "external authentication", text, public);
        }
        if self.ask_down {
            let text = "does not answer: requests for its channels are refused; see the log for \
                        the reason; the server retries within half a minute";
            let public = "the service of notify_ask is down: requests for its channels are refused";
            found(Ready::Degraded, Bad, "the service of notify_ask", text.into(), public.into());
        }
        if let Some(backup) = &self.backup {
            let lag_s = backup.lag_ms / 1000;
            let behind = (lag_s >= BACKUP_LAG_S).then(|| format!("lags {lag_s} s behind"));
            if let Some(what) = behind.clone().or(backup.trouble.is_some().then(|| "does not work".to_owned())) {
                let why = backup.trouble.as_ref().map_or(String::new(), |why| format!(": {why}"));
                let weight = if behind.is_some() { Bad } else { Warn };
                found(Ready::Warns, weight, "the backup", format!("{what}{why}"), format!("the backup {what}"));
            }
        }
        if let Some(why) = &self.unrecorded {
            let text = format!(
                "has failed ({why}): until the server is restarted, nothing is recorded and most \
                 problems are not reported here"
            );
            let public = "the activity recorder has failed: nothing is recorded";
            found(Ready::Degraded, Bad, "recorder", text, public.into());
        }
        if let Some(why) = &self.not_reloaded {
            let text = format!("was not reloaded: {why}; correct it and reload again");
            let public = "the configuration was not reloaded; `throng ctl status` says why";
            found(Ready::Warns, Warn, "configuration", text, public.into());
        }
        if self.log_lines_lost > 0 {
            let (lost, lines) = (self.log_lines_lost, if self.log_lines_lost == 1 { "line" } else { "lines" });
            let text = format!(
                "has lost {lost} {lines} since start: they were written faster than they were \
                 read, or could not be written; check the reader of standard error"
            );
            found(Ready::Warns, Warn, "log", text, format!("{lost} {lines} of the log were lost"));
        }
        all
    }
}
