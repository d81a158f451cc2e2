//! Operators' requests that change something, as the log names them. A request that only reads is
//! not an order.

use super::protocol::{Ask, Done};
use super::{Audience, Existing, Fault, Put, Release};
use crate::audit::{self, By};

/// Most names listed in one line; the rest are only counted.
const NAMES_MAX: usize = 10;

/// An order and its subject.
pub(super) struct Order {
    name: &'static str,
    of: String,
}

fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>, what: &str) -> String {
    match names.len() {
        count if count > NAMES_MAX => format!("{count} {what}"),
        _ => names.collect::<Vec<_>>().join(" "),
    }
}

/// The order that a request represents, if it changes something.
pub(super) fn order(ask: &Ask) -> Option<Order> {
    let (name, of) = match ask {
        Ask::Kick { jid, .. } => ("kick", jid.clone()),
        Ask::Say { to: Audience::All, .. } => ("say", "all".to_owned()),
        Ask::Say { to: Audience::These(jids), .. } => ("say", listed(jids.iter().map(String::as_str), "addresses")),
        Ask::Announce { online, later_s, .. } => {
            let whom = match (online, later_s) {
                (true, None) => "all",
                (true, Some(_)) => "all and later",
                (false, _) => "later",
            };
            ("announce", whom.to_owned())
        }
        Ask::EditAnnouncement { .. } => ("announce edit", "later".to_owned()),
        Ask::WithdrawAnnouncement {} => ("announce withdraw", String::new()),
        Ask::FlushWaiting { jid } => ("waiting flush", jid.clone()),
        Ask::FlushQueue { jid } => ("queue flush", jid.clone()),
        Ask::Release { whom } => {
            let of = match whom {
                Release::Address(address) => address.to_string(),
                Release::Account(account) => account.clone(),
                Release::All => "all".to_owned(),
            };
            ("limits release", of)
        }
        Ask::Shutdown { after_s, .. } => {
            ("shutdown", after_s.map_or_else(String::new, |seconds| format!("in {seconds} s")))
        }
        Ask::CancelShutdown {} => ("shutdown cancel", String::new()),
        Ask::ConfirmClock {} => ("clock confirm", String::new()),
        Ask::Reload {} => ("reload", String::new()),
        Ask::SetKnob { key, value, for_s } => {
            let lasting = for_s.map_or_else(String::new, |seconds| format!(" for {seconds} s"));
            ("knob set", format!("{key} {value}{lasting}"))
        }
        Ask::ResetKnobs { key } => ("knob reset", key.clone().unwrap_or_else(|| "all".to_owned())),
        Ask::Trace(super::trace::Ask::Begin { jid, bodies, .. }) => {
            ("trace", format!("{jid}{}", if *bodies { " with bodies" } else { "" }))
        }
        Ask::Profile(crate::profile::Ask::Begin(_)) => ("profile", String::new()),
        Ask::Backup { to } => ("backup", to.clone()),
        Ask::Put { batch, existing } => {
            let name = match existing {
                Existing::Require => "account password",
                Existing::Refuse | Existing::Skip | Existing::Update => "account add",
            };
            (name, listed(batch.iter().map(|account| account.user.as_str()), "accounts"))
        }
        Ask::Delete { user } => ("account remove", user.clone()),
        Ask::Invite { new } => ("invite", new.user.clone().or_else(|| new.inviter.clone()).unwrap_or_default()),
        Ask::Revoke { actor, id } => ("invite revoke", format!("{actor} {id}")),
        Ask::Decide { user, approve: true } => ("account approve", user.clone()),
        Ask::Decide { user, approve: false } => ("account reject", user.clone()),
        Ask::Suspend { user, suspended: true } => ("account suspend", user.clone()),
        Ask::Suspend { user, suspended: false } => ("account resume", user.clone()),
        // Names of fields only: a value may be a password.
        Ask::ConfigureRoom { room, fields } => {
            let names: Vec<&str> = fields.iter().map(|(name, _)| &**name).collect();
            ("room config", format!("{room} {}", names.join(" ")))
        }
        Ask::DestroyRoom { room, .. } => ("room destroy", room.clone()),
        Ask::CloseRoom { room, seconds: 0 } => ("room open", room.clone()),
        Ask::CloseRoom { room, seconds } => ("room close", format!("{room} for {seconds} s")),
        Ask::Dismiss { ids } => ("report dismiss", listed(ids.iter().map(String::as_str), "reports")),
        _ => return None,
    };
    Some(Order { name, of })
}

impl Order {
    /// Logs the outcome. A backup in progress is logged when it has ended.
    pub(super) fn tell(&self, by: &By, answer: &Result<Done, Fault>) {
        let text = match answer {
            Ok(Done::Backup(state)) if !state.done => return,
            Ok(Done::Backup(state)) => format!("{} rows", state.rows),
            Ok(Done::Count(count)) => count.to_string(),
            Ok(Done::Put(outcomes)) => {
                let written = outcomes.iter().filter(|put| matches!(put, Put::Added | Put::Updated)).count();
                format!("{written} of {}", outcomes.len())
            }
            Ok(_) => String::new(),
            Err(fault) => return audit::order(by, self.name, &self.of, Err(&fault.text)),
        };
        audit::order(by, self.name, &self.of, Ok(&text));
    }
}
