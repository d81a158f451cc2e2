//! Ad-hoc commands on the server's domain (XEP-0050): service administration for administrators
//! (XEP-0133).
//!
//! ```text
//! <command/> ──> form, and a session ──> <command/> with the form ──> Order ──> the host ──> Outcome ──> <command/>
//! ```
//!
//! This folder knows forms and orders. It never knows how an order is carried out: the host does
//! that with the code that also serves operators.

pub mod act;
mod admin;
mod applicants;
mod command;
mod form;
mod invites;
mod operate;
mod reports;
pub mod sessions;
#[cfg(test)]
mod tests;
mod texts;
mod users;

use super::hook::{Discovery, Extension, Xep};
use super::invite;
use super::invite::links::Links;
use super::invite::may::Invitations;
use super::iq::{Condition, Context, Feature, IqRequest, Refusal, Rule, Step, Target, Verbs, always};
use super::xml;
use crate::orders::{Outcome, Why};
use crate::wire::error::{Detail, ErrorType};
use crate::wire::limit::AppError;
use act::Act;
use command::{Command, Who};

/// The namespace of commands, and the node that lists them (XEP-0050 2.2).
pub const NS: &str = "http://jabber.org/protocol/commands";

const FORMS: &str = "jabber:x:data";

const FEATURE: Feature = Feature {
    namespace: NS,
    name: "command",
    targets: &[Target::Server],
    verbs: Verbs::Set,
    offered: always,
    asks_roster: false,
    server_vars: &[NS],
    account_vars: &[],
    handle,
};

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: "adhoc",
    xeps: &[
        Xep { number: 50, version: "1.3.0", title: "Ad-Hoc Commands" },
        Xep { number: 133, version: "1.3.1", title: "Service Administration" },
    ],
    requests: &[FEATURE],
    serves: Some(serves),
    ..Extension::NONE
};

/// Every command.
fn commands() -> impl Iterator<Item = &'static Command> {
    let administration = admin::COMMANDS.iter().chain(users::COMMANDS).chain(texts::COMMANDS);
    let own = applicants::COMMANDS.iter().chain(invites::COMMANDS).chain(reports::COMMANDS).chain(operate::COMMANDS);
    administration.chain(own)
}

/// The node of a command that this build has.
pub(super) fn command_node(node: &str) -> Option<&'static str> {
    commands().map(|command| command.node).find(|known| *known == node)
}

/// Whether a command exists: some belong to an extension that may be switched off.
fn is_there(command: &Command, context: &Context<'_>) -> bool {
    !matches!(command.who, Who::Users | Who::Inviters) || invite::is_on(context.server)
}

fn may(who: Who, context: &Context<'_>) -> bool {
    match who {
        Who::Administrators => context.admin,
        Who::Approvers => context.admin && context.server.registration && context.server.rule == Rule::Approval,
        Who::Inviters => (context.admin || context.inviter) && invite::registers(context.server),
        Who::Users => context.invitations != Invitations::Off && invite::is_on(context.server),
    }
}

/// The errors besides the defined conditions (XEP-0050 4.4).
const fn wrong(name: &'static str) -> Refusal {
    let app = AppError { name, xmlns: NS, kind: ErrorType::Modify, detail: Detail::Nothing };
    Refusal { condition: Condition::BadRequest, held: None, app: Some(app) }
}

const MALFORMED_ACTION: Refusal = wrong("malformed-action");
const BAD_ACTION: Refusal = wrong("bad-action");
const BAD_PAYLOAD: Refusal = wrong("bad-payload");
const BAD_SESSIONID: Refusal = wrong("bad-sessionid");
const SESSION_EXPIRED: Refusal = Refusal {
    condition: Condition::NotAllowed,
    held: None,
    app: Some(AppError { name: "session-expired", xmlns: NS, kind: ErrorType::Cancel, detail: Detail::Nothing }),
};

/// Limit of a session id's length in bytes: the server's own ids are shorter.
const SESSIONID_BYTES_MAX: usize = 64;

fn handle(context: &Context<'_>, request: &IqRequest<'_>) -> Step {
    match answer(context, request) {
        Ok(act) => Step::Command(Box::new(act)),
        Err(refusal) => Step::Error(refusal),
    }
}

fn answer(context: &Context<'_>, request: &IqRequest<'_>) -> Result<Act, Refusal> {
    let element = xml::parse(request.payload).ok_or(Condition::BadRequest)?;
    let node = element.attr("node").ok_or(Condition::BadRequest)?;
    let mut known = commands().filter(|command| is_there(command, context));
    let command = known.find(|command| command.node == node).ok_or_else(|| admin::refused(node))?;
    if !may(command.who, context) {
        return Err(Condition::Forbidden.into());
    }
    let action = element.attr("action").unwrap_or("execute");
    let Some(id) = element.attr("sessionid") else {
        return match action {
            "execute" => begin(command, context, request.account),
            "cancel" | "complete" | "next" | "prev" => Err(BAD_SESSIONID),
            _ => Err(MALFORMED_ACTION),
        };
    };
    if id.is_empty() || id.len() > SESSIONID_BYTES_MAX {
        return Err(BAD_SESSIONID);
    }
    if !context.adhoc.is_open(id, request.from, command.node, context.now.mono_s()) {
        return Err(SESSION_EXPIRED);
    }
    match action {
        "cancel" => Ok(Act::Cancel { node: command.node, id: id.into() }),
        // XEP-0050 3.4: without <next/> in <actions/> there is one stage.
        "execute" | "complete" => {
            let form = command.form.as_ref().ok_or(BAD_ACTION)?;
            let filled = form.read(&element).ok_or(BAD_PAYLOAD)?;
            let wish = (command.read)(context, &filled)?;
            Ok(Act::Order { node: command.node, id: Some(id.into()), wish })
        }
        "next" | "prev" => Err(BAD_ACTION),
        _ => Err(MALFORMED_ACTION),
    }
}

fn begin(command: &'static Command, context: &Context<'_>, sender: &str) -> Result<Act, Refusal> {
    match &command.form {
        Some(form) => Ok(Act::Begin { node: command.node, form: form.write((command.now)(context)) }),
        None => {
            let wish = command.at_once.ok_or(BAD_ACTION)?(context, sender);
            Ok(Act::Order { node: command.node, id: None, wish })
        }
    }
}

fn open(node: &str, id: &str, status: &str) -> Vec<u8> {
    let mut out = b"<command".to_vec();
    for (name, value) in [("xmlns", NS), ("node", node), ("sessionid", id), ("status", status)] {
        xml::attribute(&mut out, name, value);
    }
    out.push(b'>');
    out
}

fn close(mut out: Vec<u8>, payload: &[u8]) -> Vec<u8> {
    out.extend_from_slice(payload);
    out.extend_from_slice(b"</command>");
    out
}

/// The answer that starts a session: the form to be filled in (XEP-0050 2.4.2).
pub fn begun(node: &str, id: &str, form: &[u8]) -> Vec<u8> {
    let mut out = open(node, id, "executing");
    out.extend_from_slice(b"<actions execute='complete'><complete/></actions>");
    close(out, form)
}

/// The answer with an invitation (XEP-0401 6.1).
pub fn invited(node: &str, id: &str, links: &Links) -> Vec<u8> {
    close(open(node, id, "completed"), &invites::form(links))
}

/// The answer to a cancellation (XEP-0050 2.4.4).
pub fn canceled(node: &str, id: &str) -> Vec<u8> {
    close(open(node, id, "canceled"), b"")
}

/// The answer after an order was carried out, or the error if it was not (XEP-0133 6).
///
/// # Errors
/// The condition for the failure.
pub fn completed(node: &str, id: &str, outcome: &Outcome) -> Result<Vec<u8>, Refusal> {
    let payload = match outcome {
        Outcome::Refused { why, .. } => {
            return Err(match why {
                Why::NotFound => Condition::ItemNotFound.into(),
                Why::Exists => Condition::Conflict.into(),
                Why::Invalid => BAD_PAYLOAD,
                Why::Busy => Condition::ResourceConstraint.into(),
                Why::Internal => Condition::InternalServerError.into(),
            });
        }
        // XEP-0050 3.5: a note reports a partial failure.
        Outcome::Partly { rest, failed } => {
            let mut payload = note("error", &failed.join("\n"));
            payload.extend(told(node, rest));
            payload
        }
        Outcome::Noted(text) => note("info", text),
        outcome => told(node, outcome),
    };
    Ok(close(open(node, id, "completed"), &payload))
}

/// The result of the command at a node.
fn told(node: &str, outcome: &Outcome) -> Vec<u8> {
    commands().find(|command| command.node == node).map_or_else(Vec::new, |command| (command.tell)(outcome))
}

/// A note (XEP-0050 3.3).
fn note(kind: &str, text: &str) -> Vec<u8> {
    let mut out = b"<note".to_vec();
    xml::attribute(&mut out, "type", kind);
    out.push(b'>');
    xml::escape(&mut out, text);
    out.extend_from_slice(b"</note>");
    out
}

/// Service discovery of commands (XEP-0050 2.2, 2.3).
fn serves(context: &Context<'_>, request: &IqRequest<'_>, what: Discovery<'_>) -> Option<Step> {
    match what {
        Discovery::Items(Some(NS)) => {
            let mut out = b"<query xmlns='http://jabber.org/protocol/disco#items'".to_vec();
            xml::attribute(&mut out, "node", NS);
            out.push(b'>');
            // Users see the commands that they may execute.
            for command in commands().filter(|command| may(command.who, context)) {
                out.extend_from_slice(b"<item");
                for (name, value) in [("jid", request.to), ("node", command.node), ("name", command.name)] {
                    xml::attribute(&mut out, name, value);
                }
                out.extend_from_slice(b"/>");
            }
            out.extend_from_slice(b"</query>");
            Some(Step::Result(out))
        }
        Discovery::Info(NS) => Some(Step::Result(info(NS, "command-list", "Commands"))),
        Discovery::Info(node) | Discovery::Items(Some(node)) => {
            let mut known = commands().filter(|command| is_there(command, context));
            let command = known.find(|command| command.node == node)?;
            if !may(command.who, context) {
                return Some(Step::Error(Condition::Forbidden.into()));
            }
            Some(match what {
                Discovery::Info(_) => Step::Result(info(node, "command-node", command.name)),
                Discovery::Items(_) => {
                    Step::Result(b"<query xmlns='http://jabber.org/protocol/disco#items'/>".to_vec())
                }
            })
        }
        Discovery::Items(None) => None,
    }
}

fn info(node: &str, kind: &str, name: &str) -> Vec<u8> {
    let mut out = b"<query xmlns='http://jabber.org/protocol/disco#info'".to_vec();
    xml::attribute(&mut out, "node", node);
    out.extend_from_slice(b"><identity category='automation'");
    xml::attribute(&mut out, "type", kind);
    xml::attribute(&mut out, "name", name);
    out.extend_from_slice(b"/>");
    for var in [NS, FORMS] {
        out.extend_from_slice(b"<feature");
        xml::attribute(&mut out, "var", var);
        out.extend_from_slice(b"/>");
    }
    out.extend_from_slice(b"</query>");
    out
}
