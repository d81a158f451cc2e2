//! Service administration (XEP-0133): commands for accounts and for the service, with their forms
//! and results. Commands that count and list users are in [`users`](super::users), those with texts
//! for users in [`texts`](super::texts).

use super::BAD_PAYLOAD;
use super::act::Wish;
use super::command::{ADMIN as NS, Command, asks, nothing};
use super::form::{Field, Filled, result, rosters};
use super::texts::text;
use crate::extension::iq::{Condition, Context, Limit, Refusal};
use crate::limits::{ADHOC_JIDS_MAX, PASSWORD_BYTES_MAX};
use crate::orders::{Outcome, Wanted};

const ACCOUNT: Field = Field::new("accountjid", "jid-single", "The Jabber ID of the account", true);
const PASSWORD: Field = Field::new("password", "text-private", "The password for this account", true);
const VERIFY: Field = Field::new("password-verify", "text-private", "Retype password", false);

/// The delays of XEP-0133 4.31 in seconds; the first one is the default.
const DELAYS: &[(&str, &str)] = &[
    ("30", "30 seconds"),
    ("60", "60 seconds"),
    ("90", "90 seconds"),
    ("120", "2 minutes"),
    ("180", "3 minutes"),
    ("240", "4 minutes"),
    ("300", "5 minutes"),
];

/// By the clauses of XEP-0133 4.
pub(super) static COMMANDS: &[Command] = &[
    // 4.1
    asks(
        NS,
        "http://jabber.org/protocol/admin#add-user",
        "Add a user",
        &[ACCOUNT, PASSWORD, VERIFY],
        |context, filled| password(context, filled, true),
        nothing,
    ),
    // 4.2
    asks(
        NS,
        "http://jabber.org/protocol/admin#delete-user",
        "Delete users",
        &[Field::new("accountjids", "jid-multi", "The Jabber IDs to delete", true)],
        |context, filled| Ok(Wish::Order(Wanted::Delete(jids(filled, context.bare)?))),
        nothing,
    ),
    // 4.3
    asks(
        NS,
        "http://jabber.org/protocol/admin#disable-user",
        "Disable users",
        &[Field::new("accountjids", "jid-multi", "The Jabber IDs to disable", true)],
        |context, filled| suspend(context, filled, true),
        nothing,
    ),
    // 4.4
    asks(
        NS,
        "http://jabber.org/protocol/admin#reenable-user",
        "Re-enable users",
        &[Field::new("accountjids", "jid-multi", "The Jabber IDs to re-enable", true)],
        |context, filled| suspend(context, filled, false),
        nothing,
    ),
    // 4.5
    asks(
        NS,
        "http://jabber.org/protocol/admin#end-user-session",
        "End the sessions of users",
        &[Field::new("accountjids", "jid-multi", "The Jabber IDs for which to end sessions", true)],
        |context, filled| Ok(Wish::Order(Wanted::End(jids(filled, context.jid)?))),
        nothing,
    ),
    // 4.7
    asks(
        NS,
        "http://jabber.org/protocol/admin#change-user-password",
        "Change a user's password",
        &[ACCOUNT, PASSWORD],
        |context, filled| password(context, filled, false),
        nothing,
    ),
    // 4.8
    asks(
        NS,
        "http://jabber.org/protocol/admin#get-user-roster",
        "Get users' rosters",
        &[Field::new("accountjids", "jid-multi", "The Jabber IDs for which to retrieve the roster", true)],
        |context, filled| Ok(Wish::Order(Wanted::Rosters(jids(filled, context.bare)?))),
        |outcome| match outcome {
            Outcome::Rosters(all) => rosters(NS, all),
            _ => Vec::new(),
        },
    ),
    // 4.9
    asks(
        NS,
        "http://jabber.org/protocol/admin#get-user-lastlogin",
        "Get users' last login times",
        &[Field::new("accountjids", "jid-multi", "The Jabber IDs for which to retrieve the last login time", true)],
        |context, filled| Ok(Wish::Order(Wanted::LastLogins(jids(filled, context.bare)?))),
        |outcome| match outcome {
            Outcome::Facts(facts) => result(NS, facts.iter().cloned()),
            _ => Vec::new(),
        },
    ),
    // 4.10
    asks(
        NS,
        "http://jabber.org/protocol/admin#user-stats",
        "Get user statistics",
        &[ACCOUNT],
        |context, filled| Ok(Wish::Order(Wanted::Statistics(account(context, filled)?))),
        statistics,
    ),
    // 4.31
    asks(
        NS,
        "http://jabber.org/protocol/admin#shutdown",
        "Shut down the service",
        &[
            Field { options: DELAYS, ..Field::new("delay", "list-single", "Time delay before shutting down", false) },
            Field::new("announcement", "text-multi", "Announcement", false),
        ],
        shutdown,
        nothing,
    ),
];

/// The error for a command of XEP-0133 that is not implemented (XEP-0133 6): some are forbidden to
/// everybody, others are not supported.
pub(super) fn refused(node: &str) -> Condition {
    match node.strip_prefix(NS) {
        // A stolen administrator's account must not create further administrators.
        Some("#edit-admin") => Condition::NotAllowed,
        Some(name) if name.starts_with('#') => Condition::FeatureNotImplemented,
        _ => Condition::ItemNotFound,
    }
}

fn account(context: &Context<'_>, filled: &Filled) -> Result<Box<str>, Refusal> {
    let jid = filled.one("accountjid").ok_or(BAD_PAYLOAD)?;
    (context.bare)(jid).filter(|jid| jid.contains('@')).ok_or(Condition::JidMalformed.into())
}

pub(super) fn jids(filled: &Filled, read: fn(&str) -> Option<Box<str>>) -> Result<Vec<Box<str>>, Refusal> {
    let given: Vec<&str> = filled.all("accountjids").filter(|jid| !jid.is_empty()).collect();
    if given.len() > ADHOC_JIDS_MAX {
        return Err(BAD_PAYLOAD);
    }
    let read = |jid: &str| read(jid).filter(|jid| jid.contains('@')).ok_or(Condition::JidMalformed.into());
    given.into_iter().map(read).collect()
}

fn suspend(context: &Context<'_>, filled: &Filled, suspended: bool) -> Result<Wish, Refusal> {
    Ok(Wish::Order(Wanted::Suspend { accounts: jids(filled, context.bare)?, suspended }))
}

fn shutdown(_: &Context<'_>, filled: &Filled) -> Result<Wish, Refusal> {
    let (first, _) = DELAYS[0];
    let delay = filled.all("delay").next().unwrap_or(first);
    let after_s = DELAYS.iter().find(|(known, _)| *known == delay).and_then(|(known, _)| known.parse().ok());
    let text = match filled.lines("announcement").trim().is_empty() {
        true => None,
        false => Some(text(filled, "announcement")?),
    };
    Ok(Wish::Order(Wanted::Shutdown { after_s: after_s.ok_or(BAD_PAYLOAD)?, text }))
}

fn password(context: &Context<'_>, filled: &Filled, create: bool) -> Result<Wish, Refusal> {
    if !context.secure {
        return Err(Condition::NotAuthorized.into());
    }
    let account = account(context, filled)?;
    let password = filled.one("password").ok_or(BAD_PAYLOAD)?;
    if filled.one("password-verify").is_some_and(|again| again != password) {
        return Err(BAD_PAYLOAD);
    }
    if password.len() > PASSWORD_BYTES_MAX {
        return Err(Limit::Credentials.into());
    }
    Ok(Wish::Password { account, password: password.into(), create })
}

fn statistics(outcome: &Outcome) -> Vec<u8> {
    let Outcome::Statistics { sessions, contacts } = outcome else { return Vec::new() };
    // XEP-0133 4.10: addresses without ports.
    let ip = |address: &String| address.rsplit_once(':').map_or(address.as_str(), |(ip, _)| ip).to_owned();
    let mut addresses: Vec<String> = sessions.iter().filter_map(|session| session.address.as_ref()).map(ip).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let resources = sessions.iter().map(|session| session.resource.clone()).collect();
    let size = vec![contacts.to_string()];
    result(NS, [("ipaddresses", addresses), ("rostersize", size), ("onlineresources", resources)])
}
