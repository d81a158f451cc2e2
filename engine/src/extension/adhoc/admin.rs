//! Service administration (XEP-0133): its commands, their forms, and what they tell.

use super::BAD_PAYLOAD;
use super::act::Wish;
use super::command::{Command, Who};
use super::form::{Field, Filled, Form, result};
use crate::extension::iq::{Condition, Context, Limit, Refusal};
use crate::limits::{ADHOC_JIDS_MAX, ADHOC_ROWS_MAX, ADHOC_TEXT_BYTES_MAX, PASSWORD_BYTES_MAX};
use crate::orders::{Outcome, Wanted};

/// The namespace of nodes, and the type of forms (XEP-0133 7.2).
const NS: &str = "http://jabber.org/protocol/admin";

const fn field(var: &'static str, kind: &'static str, label: &'static str, required: bool) -> Field {
    Field { var, kind, label, required }
}

const ACCOUNT: Field = field("accountjid", "jid-single", "The Jabber ID of the account", true);
const PASSWORD: Field = field("password", "text-private", "The password for this account", true);
const VERIFY: Field = field("password-verify", "text-private", "Retype password", false);

const fn form(title: &'static str, fields: &'static [Field]) -> Option<Form> {
    Some(Form { form_type: NS, title, fields })
}

/// A command with a form.
const fn asks(
    node: &'static str,
    name: &'static str,
    fields: &'static [Field],
    read: fn(&Context<'_>, &Filled) -> Result<Wish, Refusal>,
    tell: fn(&Outcome) -> Vec<u8>,
) -> Command {
    Command { node, name, who: Who::Administrators, form: form(name, fields), at_once: None, read, tell }
}

/// A command without one.
const fn at_once(
    node: &'static str,
    name: &'static str,
    wish: fn(&Context<'_>, &str) -> Wish,
    tell: fn(&Outcome) -> Vec<u8>,
) -> Command {
    let read = |_: &Context<'_>, _: &Filled| Err(BAD_PAYLOAD);
    Command { node, name, who: Who::Administrators, form: None, at_once: Some(wish), read, tell }
}

/// All of them, by the clauses of XEP-0133 4.
pub(super) static COMMANDS: &[Command] = &[
    // 4.1
    asks(
        "http://jabber.org/protocol/admin#add-user",
        "Add a user",
        &[ACCOUNT, PASSWORD, VERIFY],
        |context, filled| password(context, filled, true),
        nothing,
    ),
    // 4.2
    asks(
        "http://jabber.org/protocol/admin#delete-user",
        "Delete users",
        &[field("accountjids", "jid-multi", "The Jabber IDs to delete", true)],
        |context, filled| Ok(Wish::Order(Wanted::Delete(jids(filled, context.bare)?))),
        nothing,
    ),
    // 4.5
    asks(
        "http://jabber.org/protocol/admin#end-user-session",
        "End the sessions of users",
        &[field("accountjids", "jid-multi", "The Jabber IDs for which to end sessions", true)],
        |context, filled| Ok(Wish::Order(Wanted::End(jids(filled, context.jid)?))),
        nothing,
    ),
    // 4.7
    asks(
        "http://jabber.org/protocol/admin#change-user-password",
        "Change a user's password",
        &[ACCOUNT, PASSWORD],
        |context, filled| password(context, filled, false),
        nothing,
    ),
    // 4.10
    asks(
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
        "http://jabber.org/protocol/admin#get-online-users-list",
        "Get a list of online users",
        &[
            field("max_items", "text-single", "Maximum number of sessions to look at, up to 200", false),
            field("after", "text-single", "Go on after this place, as the list before has named it", false),
        ],
        online,
        users,
    ),
    // 4.23
    asks(
        "http://jabber.org/protocol/admin#announce",
        "Send an announcement to online users",
        &[field("announcement", "text-multi", "Announcement", true)],
        |_, filled| Ok(Wish::Order(Wanted::Announce(text(filled, "announcement")?))),
        nothing,
    ),
    // 4.24
    asks(
        "http://jabber.org/protocol/admin#set-motd",
        "Set the message of the day",
        &[field("motd", "text-multi", "Message for those who are online, and once for who logs in later", true)],
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

fn text(filled: &Filled, var: &str) -> Result<Box<str>, Refusal> {
    let text = filled.lines(var);
    if text.trim().is_empty() || text.len() > ADHOC_TEXT_BYTES_MAX {
        return Err(BAD_PAYLOAD);
    }
    Ok(text.into())
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
    let most = match filled.one("max_items") {
        None | Some("none") => ADHOC_ROWS_MAX,
        Some(number) => number.parse::<usize>().map_err(|_| BAD_PAYLOAD)?.clamp(1, ADHOC_ROWS_MAX),
    };
    let after = filled.one("after");
    // A place is a shard and a slot.
    if after.is_some_and(|after| after.len() > 32) {
        return Err(BAD_PAYLOAD);
    }
    Ok(Wish::Order(Wanted::ListOnline { after: after.map(Into::into), most }))
}

fn nothing(_: &Outcome) -> Vec<u8> {
    Vec::new()
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
