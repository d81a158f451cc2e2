//! Approval of subscription requests by owners (XEP-0060 8.6): the form sent to them, and their
//! answer.

use minidom::Element;

use super::super::change::Change;
use super::super::iq::{Context, IqRequest, Step, Target};
use super::event::Event;
use super::member::Member;
use super::node::{Affiliates, Audience};
use super::service::said;
use super::{Answered, Asked, affiliates, error, found_directory, member, xml};
use crate::limits::NODE_NAME_BYTES_MAX;
use crate::store::{Batch, Found, nodes as rows};
use crate::wire::jid::bare_of;

const DATA: &str = "jabber:x:data";
const FORM_TYPE: &str = "http://jabber.org/protocol/pubsub#subscribe_authorization";

/// Asks an owner. The message may wait for the owner; its id names the request.
pub(super) fn ask(asked: &Asked, node: &str, subscriber: &str, owner: &str) -> Change {
    let mut out = b"<message".to_vec();
    xml::attribute(&mut out, "id", &format!("approve-{:x}", asked.now.wall_us));
    out.extend_from_slice(b"><body>");
    xml::escape(&mut out, &format!("{subscriber} wants to subscribe to {node}."));
    out.extend_from_slice(
        format!("</body><x xmlns='{DATA}' type='form'><title>Subscription request</title>").as_bytes(),
    );
    out.extend_from_slice(b"<instructions>Allow or deny the subscription.</instructions>");
    for (var, kind, label, value) in [
        ("FORM_TYPE", "hidden", "", FORM_TYPE),
        ("pubsub#node", "text-single", "Node", node),
        ("pubsub#subscriber_jid", "jid-single", "Subscriber", subscriber),
        ("pubsub#allow", "boolean", "Allow this address to subscribe?", "0"),
    ] {
        out.extend_from_slice(b"<field");
        xml::attribute(&mut out, "var", var);
        xml::attribute(&mut out, "type", kind);
        if !label.is_empty() {
            xml::attribute(&mut out, "label", label);
        }
        out.push(b'>');
        xml::text_element(&mut out, "value", value);
        out.extend_from_slice(b"</field>");
    }
    out.extend_from_slice(b"</x></message>");
    Change::Message { from: asked.jid.clone(), to: owner.into(), xml: out }
}

/// An owner's answer.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Submitted {
    node: Box<str>,
    subscriber: Box<str>,
    allow: bool,
}

/// Reads a form; `None` if it is another one.
fn read(context: &Context<'_>, form: &Element) -> Option<Result<Option<Submitted>, error::Error>> {
    let value = |name: &str| {
        let field = form.children().find(|child| child.is("field", DATA) && child.attr("var") == Some(name))?;
        Some(field.get_child("value", DATA)?.text())
    };
    if value("FORM_TYPE")? != FORM_TYPE {
        return None;
    }
    if form.attr("type") == Some("cancel") {
        return Some(Ok(None));
    }
    let node = value("pubsub#node").filter(|node| !node.is_empty() && node.len() <= NODE_NAME_BYTES_MAX);
    let subscriber = value("pubsub#subscriber_jid").and_then(|jid| (context.jid)(&jid));
    let allow = value("pubsub#allow").and_then(|allow| match &*allow {
        "1" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    });
    Some(match (form.attr("type"), node, subscriber, allow) {
        (Some("submit"), Some(node), Some(subscriber), Some(allow)) => {
            Ok(Some(Submitted { node: node.into(), subscriber, allow }))
        }
        _ => Err(error::BAD_REQUEST),
    })
}

/// Handles a form in a message to the user's own account; `None` if it is not this one.
pub(super) fn own(context: &Context<'_>, request: &IqRequest<'_>) -> Option<Step> {
    (request.target == Target::Own).then(|| submitted(context, request)).flatten()
}

/// The same for a message to the service or to one of its nodes.
pub(super) fn at_service(context: &Context<'_>, request: &IqRequest<'_>) -> Option<Step> {
    (request.target != Target::Own).then(|| submitted(context, request)).flatten()
}

fn submitted(context: &Context<'_>, request: &IqRequest<'_>) -> Option<Step> {
    let form = xml::parse(request.payload)?;
    let submitted = match read(context, &form)? {
        Ok(Some(submitted)) => submitted,
        // XEP-0060 8.6: cancelling the form leaves the request pending.
        Ok(None) => return Some(Step::Result(Vec::new())),
        Err(wrong) => return Some(Step::Error(wrong)),
    };
    if let Target::Service(_) = request.target {
        let Some(domain) = (context.bare)(request.to) else { return Some(Step::Error(error::BAD_REQUEST)) };
        let to = format!("{domain}/{}", submitted.node).into();
        return Some(said::to(to, request, Batch::new()));
    }
    Some(decide(Asked::new(context, request), submitted))
}

/// Carries out an owner's decision.
fn decide(asked: Asked, submitted: Submitted) -> Step {
    let people = match asked.service {
        true => rows::member(&asked.actor, bare_of(&submitted.subscriber)),
        false => rows::affiliates(&asked.actor, &submitted.node),
    };
    let queries = vec![rows::directory(&asked.actor), people];
    Step::InTurn(queries, super::Pending::Approve(Pending { asked, submitted }).into())
}

/// An owner's decision that waits for the node.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Pending {
    asked: Asked,
    submitted: Submitted,
}

impl Pending {
    pub(super) fn go_on(self, found: &[Found]) -> Answered {
        decided(self.asked, self.submitted, found)
    }
}

fn decided(asked: Asked, submitted: Submitted, found: &[Found]) -> Answered {
    let Submitted { node, subscriber, allow } = submitted;
    let (mut directory, found) = found_directory(found)?;
    asked.must_own()?;
    let config = asked.owns(&mut directory, &node)?.config.clone();
    let bare = bare_of(&subscriber);
    let mut all = match asked.service {
        true => found.first().and_then(super::row).and_then(Member::decode).ok_or(error::UNREADABLE)?.alone(bare),
        false => affiliates(found.first())?,
    };
    let before = Member::of(&all, bare);
    // A request that is no longer pending gets no answer.
    let Some(address) = all.pending(bare) else { return Ok(Step::Result(Vec::new())) };
    if member::change(&mut all, &address, allow)?.is_none() {
        return Ok(Step::Result(Vec::new()));
    }
    let mut batch = Batch::new();
    let more = asked.put_people(&mut batch, &mut directory, &node, bare, (&before, &all))?;
    let mut changes = vec![Change::Write(batch)];
    changes.extend(more);
    let audience = Audience::of(&config, Affiliates::default());
    let state = if allow { "subscribed" } else { "none" };
    changes.push(asked.single(Event::subscription(&node, audience, &address, state)));
    Ok(Step::Change(changes, Vec::new()))
}
