//! A command: who may execute it, its form, and its result.

use super::BAD_PAYLOAD;
use super::act::Wish;
use super::form::{Field, Filled, Form};
use crate::extension::iq::{Context, Refusal};
use crate::orders::Outcome;

/// The namespace of the nodes of service administration, and the type of their forms (XEP-0133
/// 7.2).
pub(super) const ADMIN: &str = "http://jabber.org/protocol/admin";

/// Who may see and execute a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// The administrators named by the operator.
    Administrators,
    /// Administrators, if registrations require approval.
    Approvers,
    /// Administrators, and users who may issue invitations to accounts.
    Inviters,
    /// Everybody, unless invitations are switched off.
    Users,
}

/// One command.
#[derive(Debug)]
pub(super) struct Command {
    /// Its node.
    pub(super) node: &'static str,
    /// Its name as displayed.
    pub(super) name: &'static str,
    /// Who may execute it.
    pub(super) who: Who,
    /// Its first form; without one it is carried out at once.
    pub(super) form: Option<Form>,
    /// The current text, which prefills the form's first field; empty if there is none.
    pub(super) now: for<'a> fn(&Context<'a>) -> &'a str,
    /// The action without a form; the argument is the sender's bare JID.
    pub(super) at_once: Option<fn(&Context<'_>, &str) -> Wish>,
    /// The action requested by a form.
    pub(super) read: fn(&Context<'_>, &Filled) -> Result<Wish, Refusal>,
    /// The result of a completed command.
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

/// No text to prefill.
pub(super) fn no_text<'a>(_: &Context<'a>) -> &'a str {
    ""
}

/// No result besides completion.
pub(super) fn nothing(_: &Outcome) -> Vec<u8> {
    Vec::new()
}
