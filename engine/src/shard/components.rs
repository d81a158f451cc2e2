//! Stanzas of components for the server itself, and events for both users and components.

use crate::components::from_component::{ForServer, speaks_as_component, undeclared};
use crate::extension::Target;
use crate::follow::{BETWEEN, names};
use crate::id::{ActorKind, ConnId, DomainId};
use crate::shard::Shard;
use crate::wire::error::StreamCondition;
use crate::wire::jid::bare_of;
use crate::wire::{Element, Expect, Scanner};

impl Shard {
    /// Handles one first-level element of a component's stream.
    pub(super) fn from_component(&mut self, conn: ConnId, domain: DomainId, element: &Element<'_>) {
        let Some(bytes) = undeclared(element) else { return self.component_stanza(conn, domain, element) };
        let (mut scanner, scope) = (Scanner::new(), element.scope().clone());
        let scanned = scanner.scan(&scope, Expect::Content, usize::MAX, &bytes).is_ok();
        let again = scanned.then(|| scanner.element(&scope, &bytes));
        match again.filter(|again| !speaks_as_component(again)) {
            Some(again) => self.component_stanza(conn, domain, &again),
            None => self.cx.fail_stream(conn, StreamCondition::InvalidNamespace, None),
        }
    }

    fn component_stanza(&mut self, conn: ConnId, domain: DomainId, element: &Element<'_>) {
        match self.components.from_component(&mut self.cx, conn, domain, element) {
            None => {}
            Some(ForServer::Answered { id, from, outcome }) => self.service_answered(&id, &from, outcome),
            Some(ForServer::Asks(asker)) => {
                let from = asker.from.clone();
                self.ask_feature(asker, Target::Server, bare_of(&from), element, None);
            }
        }
    }

    /// Delivers an event at a user's node to receivers of this home, including those at components.
    /// These get it as subscribers (XEP-0060 7.1.2), because a component's other interests are
    /// unknown (XEP-0163 4).
    pub(super) fn event(&mut self, node: &str, from: &str, to: &str, explicit: bool, (number, xml): (u64, &[u8])) {
        let (cx, actors) = (&mut self.cx, &mut self.actors);
        let mut missed = Vec::new();
        for to in names(to).filter(|to| !to.is_empty()) {
            match cx.kernel.settings.domains.of(to) {
                Some((domain, ActorKind::Component)) if explicit => {
                    self.components.event_for_component(cx, domain, from, to, xml);
                }
                Some((_, ActorKind::Component | ActorKind::Rooms)) => {}
                None | Some((_, ActorKind::Users | ActorKind::Service(_))) => {
                    if !self.contacts.event_for(cx, actors, node, from, to, explicit, (number, xml)) {
                        missed.push(to);
                    }
                }
            }
        }
        self.contacts.report_missed(cx, node, number, &missed.join(BETWEEN));
    }
}
