//! Accounts that wait for approval: this server's own commands, for administrators.

use super::BAD_PAYLOAD;
use super::act::Wish;
use super::admin::jids;
use super::command::{Command, Who, no_text};
use super::form::{Field, Form, result};
use crate::extension::iq::Context;
use crate::orders::{Outcome, Wanted};

/// The type of the forms.
const NS: &str = "urn:throng:applicants";

const ACCOUNTS: &[Field] = &[Field::new("accountjids", "jid-multi", "The Jabber IDs of the accounts", true)];

const fn decides(node: &'static str, name: &'static str, read: Read) -> Command {
    Command {
        node,
        name,
        who: Who::Approvers,
        form: Some(Form { form_type: NS, title: name, fields: ACCOUNTS }),
        now: no_text,
        at_once: None,
        read,
        tell: |_| Vec::new(),
    }
}

type Read = fn(&Context<'_>, &super::form::Filled) -> Result<Wish, crate::extension::iq::Refusal>;

pub(super) static COMMANDS: &[Command] = &[
    Command {
        node: "urn:throng:applicants#list",
        name: "List accounts waiting for approval",
        who: Who::Approvers,
        form: None,
        now: no_text,
        at_once: Some(|_, _| Wish::Order(Wanted::ListApplicants)),
        read: |_, _| Err(BAD_PAYLOAD),
        tell: |outcome| match outcome {
            Outcome::Applicants { jids } => result(NS, [("accountjids", jids.clone())]),
            _ => Vec::new(),
        },
    },
    decides("urn:throng:applicants#approve", "Approve waiting accounts", |context, filled| {
        Ok(Wish::Order(Wanted::Decide { accounts: jids(filled, context.bare)?, approve: true }))
    }),
    decides("urn:throng:applicants#reject", "Reject waiting accounts", |context, filled| {
        Ok(Wish::Order(Wanted::Decide { accounts: jids(filled, context.bare)?, approve: false }))
    }),
];
