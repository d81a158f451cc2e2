//! The remote part of `throng ctl`: this server's own commands, for administrators.

use std::net::IpAddr;

use super::BAD_PAYLOAD;
use super::act::Wish;
use super::admin::jids;
use super::command::{Command, asks, at_once, nothing};
use super::form::{Field, Filled, result, rows};
use super::texts::text;
use crate::extension::iq::{Condition, Context, Refusal};
use crate::limits::ADHOC_KNOB_BYTES_MAX;
use crate::orders::{Outcome, Wanted};

/// The type of the forms.
const NS: &str = "urn:throng:ctl";

const ACCOUNTS: Field = Field::new("accountjids", "jid-multi", "The Jabber IDs", true);

pub(super) static COMMANDS: &[Command] = &[
    at_once("urn:throng:ctl#status", "Show the state of the server", |_, _| Wish::Order(Wanted::Status), tell),
    at_once("urn:throng:ctl#components", "List external components", |_, _| Wish::Order(Wanted::ListComponents), tell),
    at_once(
        "urn:throng:ctl#limits",
        "List addresses and accounts blocked by limits",
        |_, _| Wish::Order(Wanted::ListLimits),
        tell,
    ),
    asks(
        NS,
        "urn:throng:ctl#release",
        "Release addresses and accounts blocked by failed logins or registrations",
        &[Field::new("whom", "text-single", "An IP address, the Jabber ID of an account, or: all", true)],
        release,
        tell,
    ),
    at_once("urn:throng:ctl#knobs", "List options of the running server", |_, _| Wish::Order(Wanted::ListKnobs), tell),
    asks(
        NS,
        "urn:throng:ctl#set-knob",
        "Set an option of the running server",
        &[
            Field::new("key", "text-single", "The option", true),
            Field::new("value", "text-single", "Its new value; the configured value if left empty", false),
            Field::new(
                "seconds",
                "text-single",
                "Seconds until the option is reset; it is not reset if left empty",
                false,
            ),
        ],
        set_knob,
        tell,
    ),
    asks(
        NS,
        "urn:throng:ctl#say",
        "Send a headline to selected online users",
        &[ACCOUNTS, Field::new("text", "text-multi", "The text", true)],
        |context, filled| Ok(Wish::Order(Wanted::Say { to: jids(filled, context.jid)?, text: text(filled, "text")? })),
        tell,
    ),
    asks(
        NS,
        "urn:throng:ctl#flush-queue",
        "Close connections and discard their pending output",
        &[ACCOUNTS],
        |context, filled| Ok(Wish::Order(Wanted::FlushQueue(jids(filled, context.jid)?))),
        nothing,
    ),
    asks(
        NS,
        "urn:throng:ctl#flush-waiting",
        "Drop the waiting messages of offline users",
        &[ACCOUNTS],
        |context, filled| Ok(Wish::Order(Wanted::FlushWaiting(jids(filled, context.bare)?))),
        nothing,
    ),
    at_once(
        "urn:throng:ctl#reload",
        "Reload certificates and the configuration",
        |_, _| Wish::Order(Wanted::Reload),
        tell,
    ),
    at_once(
        "urn:throng:ctl#cancel-shutdown",
        "Cancel a scheduled shutdown",
        |_, _| Wish::Order(Wanted::CancelShutdown),
        nothing,
    ),
];

fn release(context: &Context<'_>, filled: &Filled) -> Result<Wish, Refusal> {
    let whom = filled.one("whom").ok_or(BAD_PAYLOAD)?.trim();
    let whom = match (whom, whom.parse::<IpAddr>()) {
        ("all", _) => "all".into(),
        (_, Ok(address)) => address.to_string().into(),
        (jid, Err(_)) => (context.bare)(jid).filter(|jid| jid.contains('@')).ok_or(Condition::JidMalformed)?,
    };
    Ok(Wish::Order(Wanted::Release(whom)))
}

fn set_knob(_: &Context<'_>, filled: &Filled) -> Result<Wish, Refusal> {
    let (key, value) = (filled.one("key").ok_or(BAD_PAYLOAD)?.trim(), filled.one("value"));
    let for_s = filled.one("seconds").map(str::parse::<u64>).transpose().map_err(|_| BAD_PAYLOAD)?;
    let long = key.len().max(value.map_or(0, str::len)) > ADHOC_KNOB_BYTES_MAX;
    if long || for_s == Some(0) || for_s.is_some() && value.is_none() {
        return Err(BAD_PAYLOAD);
    }
    Ok(Wish::Order(Wanted::SetKnob { key: key.into(), value: value.map(Into::into), for_s }))
}

fn tell(outcome: &Outcome) -> Vec<u8> {
    match outcome {
        Outcome::Facts(facts) => result(NS, facts.iter().cloned()),
        Outcome::Listing(listing) => rows(NS, listing),
        Outcome::Count(count) => result(NS, [("count", vec![count.to_string()])]),
        _ => Vec::new(),
    }
}
