//! Messages from a service's node: to its subscribers, to the homes of users, and to the service
//! itself.

use super::super::super::change::Change;
use super::super::super::iq::{IqRequest, Step};
use super::super::Asked;
use super::super::event::Event;
use super::super::member::{Member, State};
use super::super::node::{Access, Affiliation, Node, put_text};
use super::super::notice::Notice;
use crate::follow::Follower;
use crate::store::Batch;

/// Continues a request at the home of an actor of the service.
pub(in crate::extension::pubsub) fn to(actor: Box<str>, request: &IqRequest<'_>, batch: Batch) -> Step {
    Step::Route { to: actor, set: request.set, payload: request.payload.into(), batch }
}

/// Reports a user's new relation to a node to the user's home.
pub(in crate::extension::pubsub) fn belongs(actor: &str, bare: &str, member: &Member) -> Change {
    let own = !matches!(member.state, State::None) || member.affiliation == Some(Affiliation::Owner);
    // Only the node needs the position.
    let row = Member { follower: Follower::default(), ..member.clone() }.encode();
    Change::Belongs { to: bare.into(), node: actor.into(), own, row }
}

/// Reports to the service whether a node is listed, and its title (XEP-0060 5.2). Nodes for members
/// only are not listed.
pub(in crate::extension::pubsub) fn show(asked: &Asked, node: &Node) -> Change {
    let mut row = Vec::new();
    if node.config.access != Access::Whitelist {
        row.push(1);
        put_text(&mut row, &node.config.title);
    }
    Change::Belongs { to: asked.jid.clone(), node: node.name.clone(), own: true, row }
}

/// The same step, with more changes.
pub(in crate::extension::pubsub) fn with(step: Step, more: impl IntoIterator<Item = Change>) -> Step {
    match step {
        Step::Change(mut changes, answer) => {
            changes.extend(more);
            Step::Change(changes, answer)
        }
        Step::Then(mut then) => {
            then.changes.extend(more);
            Step::Then(then)
        }
        step => step,
    }
}

impl Asked {
    /// A notification to one receiver.
    pub(in crate::extension::pubsub) fn single(&self, event: Event) -> Change {
        match (self.service, &event.to) {
            (true, Some(to)) => {
                let to = vec![to.clone()];
                let (node, from) = (self.actor.clone(), self.jid.clone());
                Change::Notice(Box::new(Notice { node, from, to, number: 0, message: event.message.into() }))
            }
            _ => Change::Event(Box::new(event)),
        }
    }
}
