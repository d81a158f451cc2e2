//! Stanzas from a component (XEP-0114 3), which may have any JID of its domain as their sender.

use crate::components::Components;
use crate::components::seats::Reads;
use crate::extension::annotations::{forged_in_message, forged_in_presence};
use crate::extension::offline::Keep;
use crate::extension::subscription::Kind as SubKind;
use crate::extension::{disco, last, ping, push, time, version};
use crate::id::{ActorKind, ConnId, DomainId, SessionId};
use crate::io::StorageState;
use crate::kernel::pending::Asker;
use crate::letters::{Kind, MessageClass, Origin, PresenceNews};
use crate::ns;
use crate::session::conn::{NONE, Pause};
use crate::streams::Streams;
use crate::wire::error::{StanzaCondition, StreamCondition};
use crate::wire::jid::{JidRef, bare_of};
use crate::wire::limit::{Limit, Refusal};
use crate::wire::written::{Stanza, write_error};
use crate::wire::{Element, Splice, jid, splice};

/// Namespaces of requests from components that the server's own domain answers. The answers
/// describe the server and reveal nothing about users.
const ANSWERED: &[&str] = &[
    disco::INFO.namespace,
    disco::ITEMS.namespace,
    ping::FEATURE.namespace,
    time::FEATURE.namespace,
    version::FEATURE.namespace,
    last::FEATURE.namespace,
];

/// Whether the origin of a stanza is a component of the shard: no session has this slot.
pub(crate) fn is_component(session: SessionId) -> bool {
    session.slot == NONE
}

/// Sender and receiver of a stanza.
#[derive(Clone, Copy)]
struct Way<'a> {
    domain: DomainId,
    from: &'a str,
    to: JidRef<'a>,
    /// The kind of the receiver's domain.
    kind: ActorKind,
}

/// A component's stanza that the server must handle.
pub(crate) enum ForServer {
    /// An answer to a request of the server, such as that of a push service (XEP-0357 7).
    Answered { id: Box<str>, from: Box<str>, outcome: push::answer::Outcome },
    /// The element is a request to the server itself.
    Asks(Asker),
}

/// The same stanza without declarations of the component namespace, if it has any. A component may
/// declare that namespace on each stanza, which does not change its meaning.
pub(crate) fn undeclared(element: &Element<'_>) -> Option<Vec<u8>> {
    if !speaks_as_component(element) {
        return None;
    }
    let (all, mut bytes, mut copied) = (element.bytes(), Vec::with_capacity(element.bytes().len()), 0);
    for at in memchr::memmem::find_iter(all, ns::COMPONENT.as_bytes()) {
        // Only the value of a declaration, not other text.
        let declares = all[..at].ends_with(b"xmlns='") || all[..at].ends_with(b"xmlns=\"");
        if declares {
            bytes.extend_from_slice(&all[copied..at]);
            bytes.extend_from_slice(ns::CLIENT.as_bytes());
            copied = at + ns::COMPONENT.len();
        }
    }
    bytes.extend_from_slice(&all[copied..]);
    Some(bytes)
}

/// Whether a stanza, or a child of it, is in the component namespace.
pub(crate) fn speaks_as_component(element: &Element<'_>) -> bool {
    element.namespace() == ns::COMPONENT || element.children().any(|c| c.namespace() == ns::COMPONENT)
}

impl Components {
    /// Handles one first-level element of a component's stream.
    pub(crate) fn from_component(
        &mut self,
        cx: &mut Streams,
        conn: ConnId,
        domain: DomainId,
        element: &Element<'_>,
    ) -> Option<ForServer> {
        let stanza = match (element.name(), element.namespace()) {
            ("message", ns::CLIENT) => Stanza::Message,
            ("presence", ns::CLIENT) => Stanza::Presence,
            ("iq", ns::CLIENT) => Stanza::Iq,
            _ => {
                cx.fail_stream(conn, StreamCondition::UnsupportedStanzaType, None);
                return None;
            }
        };
        cx.kernel.counters.component_stanzas_in.one();
        if let Some(seat) = self.seats.get(domain) {
            seat.stanzas_in += 1;
        }
        // XEP-0114 3: both addresses are required, as between servers.
        let (Some(from), Some(to)) = (element.from(), element.to()) else {
            let text = "a component's stanza must have a 'from' and a 'to'";
            cx.fail_stream(conn, StreamCondition::ImproperAddressing, Some(text));
            return None;
        };
        let domains = &cx.kernel.settings.domains;
        let from = jid::normalise(&from).ok().filter(|from| domains.of(from).is_some_and(|(of, _)| of == domain));
        let Some(from) = from else {
            let text = "the 'from' of a component's stanza must be at the component's domain";
            cx.fail_stream(conn, StreamCondition::InvalidFrom, Some(text));
            return None;
        };
        let Ok(to) = jid::normalise(&to) else {
            self.refuse_component(cx, domain, element, StanzaCondition::JidMalformed);
            return None;
        };
        let to = JidRef::from_normalised(&to);
        let Some((_, kind)) = cx.kernel.settings.domains.of(to.as_str()) else {
            self.refuse_component(cx, domain, element, StanzaCondition::RemoteServerNotFound);
            return None;
        };
        let way = Way { domain, from: &from, to, kind };
        match stanza {
            Stanza::Message => self.component_message(cx, conn, way, element),
            Stanza::Presence => self.component_presence(cx, conn, way, element),
            Stanza::Iq => return self.component_iq(cx, conn, way, element),
        }
        None
    }

    /// Answers a component's stanza with an error.
    fn refuse_component(
        &mut self,
        cx: &mut Streams,
        domain: DomainId,
        element: &Element<'_>,
        refusal: impl Into<Refusal>,
    ) {
        let kind = element.kind();
        if kind.as_deref() == Some("error") || (element.name() == "iq" && kind.as_deref() == Some("result")) {
            return;
        }
        let (id, to, from) = (element.id(), element.to(), element.from());
        let mut out = Vec::with_capacity(256);
        write_error(&mut out, element.name(), id.as_deref(), to.as_deref(), from.as_deref(), refusal);
        self.tell_component(cx, domain, &out);
    }

    /// A stanza leaves for another home. The component is not read from while too many of its
    /// stanzas are in flight.
    fn component_origin(&mut self, cx: &mut Streams, conn: ConnId, way: Way<'_>, bytes: usize) -> Option<Origin> {
        let seat = self.seats.get(way.domain)?;
        let (reads, epoch) = (seat.sent_off(bytes), seat.epoch);
        if reads == Reads::Stops {
            cx.pause(conn, Pause::InFlight);
        }
        Some(Origin { shard: cx.kernel.id, session: SessionId { slot: NONE, generation: epoch }, seq: 0, entry: 0 })
    }

    /// One of these stanzas is safe.
    pub(crate) fn component_confirmed(&mut self, cx: &mut Streams, session: SessionId) {
        // The component has disconnected in the meantime.
        let Some(seat) = self.seats.of_epoch(session.generation) else { return };
        let (reads, conn) = (seat.arrived(), seat.conn);
        if matches!(reads, Reads::Again | Reads::WhenDurable) {
            cx.go_on(conn, Pause::InFlight, reads == Reads::WhenDurable);
        }
    }

    fn component_message(&mut self, cx: &mut Streams, conn: ConnId, way: Way<'_>, element: &Element<'_>) {
        let kind = element.kind().unwrap_or_default();
        let class = MessageClass::of_type(&kind);
        match (way.kind, way.to.local()) {
            (ActorKind::Users, Some(_)) | (ActorKind::Component | ActorKind::Rooms, _) => {}
            _ => return self.refuse_component(cx, way.domain, element, StanzaCondition::ServiceUnavailable),
        }
        let keep = class.keeps(&kind, element);
        if keep != Keep::Nothing && way.kind == ActorKind::Users && cx.kernel.storage == StorageState::Full {
            return self.refuse_component(cx, way.domain, element, Limit::Disk);
        }
        let forged = forged_in_message(&cx.kernel.settings.domains, element, &[way.to.bare().as_str()]);
        self.post_of_component(cx, conn, way, Kind::Message { class, keep }, element, &forged);
    }

    fn post_of_component(
        &mut self,
        cx: &mut Streams,
        conn: ConnId,
        way: Way<'_>,
        kind: Kind,
        element: &Element<'_>,
        drop: &[std::ops::Range<usize>],
    ) {
        let origin = self.component_origin(cx, conn, way, element.bytes().len());
        let (to, home) = (way.to.as_str(), cx.kernel.home(way.to.bare().as_str()));
        cx.kernel.post(home, kind, origin, way.from, to, |out| {
            splice(out, element, &Splice { from: Some(way.from), to: Some(Some(to)), drop, ..Splice::default() });
        });
    }

    fn component_presence(&mut self, cx: &mut Streams, conn: ConnId, way: Way<'_>, element: &Element<'_>) {
        // RFC 6121 8.5.1: presence to an entity without presence is ignored.
        if !matches!(
            (way.kind, way.to.local()),
            (ActorKind::Users, Some(_)) | (ActorKind::Component | ActorKind::Rooms, _)
        ) {
            return;
        }
        let kind = element.kind();
        let forged = forged_in_presence(&cx.kernel.settings.domains, element);
        let (bare, to) = (bare_of(way.from), way.to.bare());
        if let Some(kind) = kind.as_deref().and_then(SubKind::from_type) {
            if cx.kernel.storage == StorageState::Full {
                return self.refuse_component(cx, way.domain, element, Limit::Disk);
            }
            let mut xml = Vec::with_capacity(element.bytes().len());
            splice(&mut xml, element, &Splice { unaddressed: true, drop: &forged, ..Splice::default() });
            // A component does not number requests: its answer is to the latest one (see
            // `subscription`).
            let news = PresenceNews::Subscription { kind, number: 0, confirm: 0 };
            return cx.kernel.presence_to(news, bare, to.as_str(), &xml);
        }
        match kind.as_deref() {
            None | Some("unavailable") => {
                self.post_of_component(cx, conn, way, Kind::Directed { unavailable: kind.is_some() }, element, &forged);
            }
            Some("probe") => cx.kernel.presence_to(PresenceNews::Probe { number: 0 }, way.from, way.to.as_str(), b""),
            Some("error") if !way.to.is_bare() => {
                self.post_of_component(cx, conn, way, Kind::Directed { unavailable: false }, element, &forged);
            }
            Some("error") => {}
            Some(_) => self.refuse_component(cx, way.domain, element, StanzaCondition::BadRequest),
        }
    }

    fn component_iq(
        &mut self,
        cx: &mut Streams,
        conn: ConnId,
        way: Way<'_>,
        element: &Element<'_>,
    ) -> Option<ForServer> {
        let kind = element.kind();
        let request = matches!(kind.as_deref(), Some("get" | "set"));
        let known = request || matches!(kind.as_deref(), Some("result" | "error"));
        // RFC 6120 8.2.3: an id, a known type, and exactly one child in a request.
        if !known || element.id().is_none() || (request && element.children().len() != 1) {
            self.refuse_component(cx, way.domain, element, StanzaCondition::BadRequest);
            return None;
        }
        match (way.kind, way.to.local(), request) {
            (ActorKind::Users, Some(_), _) | (ActorKind::Component | ActorKind::Rooms, _, _) => {
                let kind = if request { Kind::Request } else { Kind::Response };
                self.post_of_component(cx, conn, way, kind, element, &[]);
            }
            (ActorKind::Users, None, true) => return self.component_asks(cx, way, element),
            // A push service has accepted a notification (XEP-0357 7).
            (ActorKind::Users, None, false) => {
                let outcome = push::answer::Outcome::of(element);
                return element.id().map(|id| ForServer::Answered { id: id.into(), from: way.from.into(), outcome });
            }
            (ActorKind::Service(_), None, true) => {
                self.refuse_component(cx, way.domain, element, StanzaCondition::Forbidden);
            }
            (ActorKind::Service(_), Some(_), true) => {
                self.refuse_component(cx, way.domain, element, StanzaCondition::ItemNotFound);
            }
            (ActorKind::Service(_), _, false) => {}
        }
        None
    }

    /// A component requests information about the server.
    fn component_asks(&mut self, cx: &mut Streams, way: Way<'_>, element: &Element<'_>) -> Option<ForServer> {
        let get = element.kind().as_deref() == Some("get");
        let answered = element.children().next().is_some_and(|child| ANSWERED.contains(&child.namespace()));
        if !(get && answered) {
            self.refuse_component(cx, way.domain, element, StanzaCondition::ServiceUnavailable);
            return None;
        }
        Some(ForServer::Asks(Asker {
            session: None,
            origin: None,
            id: element.id().map(Into::into),
            from: way.from.into(),
            to: Some(way.to.as_str().into()),
            paced: false,
            front: None,
        }))
    }
}
