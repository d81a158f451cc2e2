//! Stanzas for a component's domain, at its home (XEP-0114). All JIDs of the domain, bare or full
//! and with or without localpart, belong to the one connection. Without a connection, senders get
//! an error (RFC 6120 8.3.3.17).

use crate::actors::Actors;
use crate::components::Components;
use crate::extension::offline::Keep;
use crate::extension::subscription::Kind as SubKind;
use crate::id::DomainId;
use crate::letters::{Delivery, Kind, Letter, MessageClass, PresenceNews};
use crate::router::users::Incoming;
use crate::streams::Streams;
use crate::wire::error::StanzaCondition;
use crate::wire::jid::bare_of;
use crate::wire::limit::Limit;
use crate::wire::splice::address;
use crate::wire::text::write_attribute;
use crate::wire::written::id_of_stanza;

impl Components {
    /// Handles a stanza for a component.
    pub(crate) fn for_component(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        domain: DomainId,
        stanza: Incoming<'_>,
    ) {
        if self.seats.get(domain).is_none() {
            return self.turn_away_counted(cx, actors, stanza, StanzaCondition::RemoteServerTimeout);
        }
        if !self.put_for(cx, domain, stanza, 0) {
            return self.turn_away_counted(cx, actors, stanza, Limit::Component);
        }
        // The sender continues; arrival is confirmed when the network has taken the stanza.
        if let Some(origin) = stanza.origin {
            cx.kernel.letters_to(origin.shard).push(Letter::Delivery(Delivery::Took { session: origin.session }));
        }
    }

    fn turn_away_counted(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        stanza: Incoming<'_>,
        refusal: impl Into<crate::wire::limit::Refusal>,
    ) {
        if matches!(stanza.kind, Kind::Message { .. } | Kind::Request) {
            cx.kernel.counters.component_refused.one();
        }
        actors.turn_away(cx, stanza, refusal);
    }

    /// Queues a stanza for a connected component. Returns whether there was room.
    fn put_for(&mut self, cx: &mut Streams, domain: DomainId, stanza: Incoming<'_>, confirm: u64) -> bool {
        let (now_ms, most) = (cx.kernel.now.mono_ms, cx.kernel.settings.component_queue_bytes_max);
        let Some(seat) = self.seats.get(domain) else { return false };
        let put = seat.put(stanza, confirm, now_ms, most).is_ok();
        seat.refused += u64::from(!put);
        put
    }

    /// Handles presence of a user for an entity at a component (RFC 6121 3, 4). Subscription
    /// stanzas that a disconnected component misses are sent again by the user's home when the user
    /// comes online.
    pub(crate) fn presence_for_component(
        &mut self,
        cx: &mut Streams,
        domain: DomainId,
        news: PresenceNews,
        from: &str,
        to: &str,
        xml: &[u8],
    ) {
        if self.seats.get(domain).is_none() {
            if let PresenceNews::Subscription { kind: SubKind::Subscribe, .. } = news {
                let id = id_of_stanza(xml);
                let condition = StanzaCondition::RemoteServerTimeout;
                cx.kernel.send_error_letter("presence", id.as_deref(), to, bare_of(from), condition.into());
            }
            return;
        }
        let mut stanza = Vec::with_capacity(xml.len() + 128);
        match news {
            PresenceNews::Noted { .. } | PresenceNews::Joined { .. } => return,
            PresenceNews::Available { .. } | PresenceNews::Unavailable | PresenceNews::Subscription { .. } => {
                address(&mut stanza, xml, from, to);
            }
            PresenceNews::Probe { .. } => probe(&mut stanza, from, to),
        }
        let confirm = if let PresenceNews::Subscription { confirm, .. } = news { confirm } else { 0 };
        self.put_presence(cx, domain, from, to, &stanza, confirm);
        if let PresenceNews::Available { probe: Some(_) } = news {
            stanza.clear();
            probe(&mut stanza, from, to);
            self.put_presence(cx, domain, from, to, &stanza, 0);
        }
    }

    fn put_presence(&mut self, cx: &mut Streams, domain: DomainId, from: &str, to: &str, xml: &[u8], confirm: u64) {
        let stanza = Incoming { kind: Kind::Directed { unavailable: false }, origin: None, from, to, xml };
        if !self.put_for(cx, domain, stanza, confirm) {
            cx.kernel.counters.stanzas_dropped.one();
        }
    }

    /// Notifies a subscriber at a component of an event at a node (XEP-0060 7.1.2).
    pub(crate) fn event_for_component(&mut self, cx: &mut Streams, domain: DomainId, from: &str, to: &str, xml: &[u8]) {
        let mut message = Vec::with_capacity(xml.len() + 128);
        address(&mut message, xml, from, to);
        let kind = Kind::Message { class: MessageClass::Headline, keep: Keep::Nothing };
        let stanza = Incoming { kind, origin: None, from, to, xml: &message };
        if self.seats.get(domain).is_some() && !self.put_for(cx, domain, stanza, 0) {
            cx.kernel.counters.stanzas_dropped.one();
        }
    }
}

/// Writes a presence probe (RFC 6121 4.3.1).
fn probe(out: &mut Vec<u8>, from: &str, to: &str) {
    out.extend_from_slice(b"<presence type='probe'");
    write_attribute(out, "from", from);
    write_attribute(out, "to", to);
    out.extend_from_slice(b"/>");
}
