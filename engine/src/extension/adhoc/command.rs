//! A command: who may execute it, what it asks for, and what it tells.

use super::BAD_PAYLOAD;
use super::act::Wish;
use super::form::{Field, Filled, Form};
use crate::extension::iq::{Context, Refusal};
use crate::orders::Outcome;

/// The namespace of nodes of service administration, and the type of their forms (XEP-0133 7.2).
pub(super) const ADMIN: &str = "http://jabber.org/protocol/admin";

/// Who may see and execute a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// Those whom the operator has named.
    Administrators,
    /// They, where accounts wait for their approval.
    Approvers,
    /// They, and those who may invite to accounts.
    Inviters,
    /// Everybody, where invitations are not switched off.
    Users,
}

/// One command.
#[derive(Debug)]
pub(super) struct Command {
    /// Its node.
    pub(super) node: &'static str,
    /// What a person reads.
    pub(super) name: &'static str,
    /// Who may execute it.
    pub(super) who: Who,
    /// The form that it begins with; without one it is carried out at once.
    pub(super) form: Option<Form>,
    /// The text as it is, for the form's first field; empty if there is none.
    pub(super) now: for<'a> fn(&Context<'a>) -> &'a str,
    /// What is wanted without a form; the sender's bare JID comes with it.
    pub(super) at_once: Option<fn(&Context<'_>, &str) -> Wish>,
    /// What is wanted by a form.
    pub(super) read: fn(&Context<'_>, &Filled) -> Result<Wish, Refusal>,
    /// What a completed command tells.
    pub(super) tell: fn(&Outcome) -> Vec<u8>,
}

/// A command for administrators that begins with a form.
pub(super) const fn asks(
    form_type: &'static str,
    node: &'static str,
    name: &'static str,
    fields: &'static [Field],
    read: fn(&Context<'_>, &Filled) -> Result<Wish, Refusal>,
    tell: fn(&Outcome) -> Vec<u8>,
) -> Command {
    let form = Some(Form { form_type, title: name, fields });
    Command { node, name, who: Who::Administrators, form, now: no_text, at_once: None, read, tell }
}

/// A command for administrators without one.
pub(super) const fn at_once(
    node: &'static str,
    name: &'static str,
    wish: fn(&Context<'_>, &str) -> Wish,
    tell: fn(&Outcome) -> Vec<u8>,
) -> Command {
    let read = |_: &Context<'_>, _: &Filled| Err(BAD_PAYLOAD);
    Command { node, name, who: Who::Administrators, form: None, now: no_text, at_once: Some(wish), read, tell }
}

/// A form's fields are empty.
pub(super) fn no_text<'a>(_: &Context<'a>) -> &'a str {
    ""
}

/// A command that is done tells nothing more.
pub(super) fn nothing(_: &Outcome) -> Vec<u8> {
    Vec::new()
}
