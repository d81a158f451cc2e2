//! Service administration (XEP-0133): its commands, their forms, and what they tell.

use super::BAD_PAYLOAD;
use super::act::Wish;
use super::command::{Command, asks, at_once, nothing};
use super::form::{Field, Filled, result};
use crate::extension::iq::{Condition, Context, Limit, Refusal};
use crate::limits::{ADHOC_JIDS_MAX, ADHOC_ROWS_MAX, ADHOC_TEXT_BYTES_MAX, PASSWORD_BYTES_MAX};
use crate::orders::{Outcome, Wanted};

/// The namespace of nodes, and the type of forms (XEP-0133 7.2).
const NS: &str = "http://jabber.org/protocol/admin";

/// Longest place in a list: that of a report has a domain.
const PLACE_BYTES_MAX: usize = 1_100;

const ACCOUNT: Field = Field::new("accountjid", "jid-single", "The Jabber ID of the account", true);
const PASSWORD: Field = Field::new("password", "text-private", "The password for this account", true);
const VERIFY: Field = Field::new("password-verify", "text-private", "Retype password", false);

/// The delays of XEP-0133 4.31, seconds; the first one, if none is chosen.
const DELAYS: &[(&str, &str)] = &[
    ("30", "30 seconds"),
    ("60", "60 seconds"),
    ("90", "90 seconds"),
    ("120", "2 minutes"),
    ("180", "3 minutes"),
    ("240", "4 minutes"),
    ("300", "5 minutes"),
];

/// All of them, by the clauses of XEP-0133 4.
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
    // 4.10
    asks(
        NS,
        "http://jabber.org/protocol/admin#user-stats",
        "Get user statistics",
        &[ACCOUNT],
        |context, filled| Ok(Wish::Order(Wanted::Sessions(account(context, filled)?))),
        sessions,
    ),
    // 4.13
    at_once(
        "http://jabber.org/protocol/admin#get-registered-users-num",
        "Get the number of registered users",
        |_, _| Wish::Order(Wanted::CountRegistered),
        |outcome| count("registeredusersnum", outcome),
    ),
    // 4.15
    at_once(
        "http://jabber.org/protocol/admin#get-online-users-num",
        "Get the number of sessions online",
        |_, _| Wish::Order(Wanted::CountOnline),
        |outcome| count("onlineusersnum", outcome),
    ),
    // 4.20
    asks(
        NS,
        "http://jabber.org/protocol/admin#get-online-users-list",
        "Get a list of online users",
        &[
            Field::new("max_items", "text-single", "Maximum number of sessions to look at, up to 200", false),
            Field::new("after", "text-single", "Go on after this place, as the list before has named it", false),
        ],
        online,
        users,
    ),
    // 4.23
    asks(
        NS,
        "http://jabber.org/protocol/admin#announce",
        "Send an announcement to online users",
        &[Field::new("announcement", "text-multi", "Announcement", true)],
        |_, filled| Ok(Wish::Order(Wanted::Announce(text(filled, "announcement")?))),
        nothing,
    ),
    // 4.24
    asks(
        NS,
        "http://jabber.org/protocol/admin#set-motd",
        "Set the message of the day",
        &[Field::new("motd", "text-multi", "Message for those who are online, and once for who logs in later", true)],
        |_, filled| Ok(Wish::Order(Wanted::SetMotd(text(filled, "motd")?))),
        nothing,
    ),
    // 4.26
    at_once(
        "http://jabber.org/protocol/admin#delete-motd",
        "Delete the message of the day",
        |_, _| Wish::Order(Wanted::DeleteMotd),
        nothing,
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

pub(super) fn text(filled: &Filled, var: &str) -> Result<Box<str>, Refusal> {
    let text = filled.lines(var);
    if text.trim().is_empty() || text.len() > ADHOC_TEXT_BYTES_MAX {
        return Err(BAD_PAYLOAD);
    }
    Ok(text.into())
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

fn online(_: &Context<'_>, filled: &Filled) -> Result<Wish, Refusal> {
    let (after, most) = page(filled, ADHOC_ROWS_MAX)?;
    Ok(Wish::Order(Wanted::ListOnline { after, most }))
}

/// Which page of a list is wanted: behind which place, and how many rows at most.
pub(super) fn page(filled: &Filled, rows_max: usize) -> Result<(Option<Box<str>>, usize), Refusal> {
    let most = match filled.one("max_items") {
        None | Some("none") => rows_max,
        Some(number) => number.parse::<usize>().map_err(|_| BAD_PAYLOAD)?.clamp(1, rows_max),
    };
    let after = filled.one("after");
    if after.is_some_and(|after| after.len() > PLACE_BYTES_MAX) {
        return Err(BAD_PAYLOAD);
    }
    Ok((after.map(Into::into), most))
}

fn count(var: &str, outcome: &Outcome) -> Vec<u8> {
    let Outcome::Count(count) = outcome else { return Vec::new() };
    result(NS, [(var, vec![count.to_string()])])
}

fn sessions(outcome: &Outcome) -> Vec<u8> {
    let Outcome::Sessions(sessions) = outcome else { return Vec::new() };
    // XEP-0133 4.10: without the ports.
    let ip = |address: &String| address.rsplit_once(':').map_or(address.as_str(), |(ip, _)| ip).to_owned();
    let mut addresses: Vec<String> = sessions.iter().filter_map(|session| session.address.as_ref()).map(ip).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let resources = sessions.iter().map(|session| session.resource.clone()).collect();
    result(NS, [("ipaddresses", addresses), ("onlineresources", resources)])
}

fn users(outcome: &Outcome) -> Vec<u8> {
    let Outcome::Users { jids, next } = outcome else { return Vec::new() };
    let next = next.iter().map(|next| ("after", vec![next.clone()]));
    result(NS, std::iter::once(("onlineuserjids", jids.clone())).chain(next))
}
