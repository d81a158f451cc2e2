//! Texts for users: announcements, the message of the day and the welcome (XEP-0133 4.23 to 4.28).

use super::BAD_PAYLOAD;
use super::act::Wish;
use super::command::{ADMIN as NS, Command, asks, at_once, nothing};
use super::form::{Field, Filled};
use crate::extension::iq::{Context, Refusal};
use crate::limits::{ADHOC_TEXT_BYTES_MAX, ADHOC_WELCOME_BYTES_MAX};
use crate::orders::Wanted;

/// By the clauses of XEP-0133 4.
pub(super) static COMMANDS: &[Command] = &[
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
        &[Field::new("motd", "text-multi", "Message for online users, and once for users who log in later", true)],
        |_, filled| Ok(Wish::Order(Wanted::SetMotd(text(filled, "motd")?))),
        nothing,
    ),
    // 4.25
    Command {
        now: motd,
        ..asks(
            NS,
            "http://jabber.org/protocol/admin#edit-motd",
            "Edit the message of the day",
            &[Field::new(
                "motd",
                "text-multi",
                "Message for users who log in later and have not seen the previous one",
                true,
            )],
            |_, filled| Ok(Wish::Order(Wanted::EditMotd(text(filled, "motd")?))),
            nothing,
        )
    },
    // 4.26
    at_once(
        "http://jabber.org/protocol/admin#delete-motd",
        "Delete the message of the day",
        |_, _| Wish::Order(Wanted::DeleteMotd),
        nothing,
    ),
    // 4.27
    Command {
        now: welcome,
        ..asks(
            NS,
            "http://jabber.org/protocol/admin#set-welcome",
            "Set the welcome message",
            &[Field::new("welcome", "text-multi", "Message for each account created later", true)],
            set_welcome,
            nothing,
        )
    },
    // 4.28
    at_once(
        "http://jabber.org/protocol/admin#delete-welcome",
        "Delete the welcome message",
        |_, _| Wish::Order(Wanted::SetWelcome("".into())),
        nothing,
    ),
];

pub(super) fn text(filled: &Filled, var: &str) -> Result<Box<str>, Refusal> {
    let text = filled.lines(var);
    if text.trim().is_empty() || text.len() > ADHOC_TEXT_BYTES_MAX {
        return Err(BAD_PAYLOAD);
    }
    Ok(text.into())
}

fn set_welcome(_: &Context<'_>, filled: &Filled) -> Result<Wish, Refusal> {
    let text = text(filled, "welcome")?;
    if text.len() > ADHOC_WELCOME_BYTES_MAX {
        return Err(BAD_PAYLOAD);
    }
    Ok(Wish::Order(Wanted::SetWelcome(text)))
}

fn motd<'a>(context: &Context<'a>) -> &'a str {
    context.motd
}

fn welcome<'a>(context: &Context<'a>) -> &'a str {
    context.welcome
}
