//! What a component sends (XEP-0114 3): stanzas from any JID of its domain to anybody here.

use crate::components::Components;
use crate::components::seats::Reads;
use crate::extension::annotations::{forged_in_message, forged_in_presence};
use crate::extension::offline::Keep;
use crate::extension::subscription::Kind as SubKind;
use crate::extension::{Target, disco, last, ping, push, time, version};
use crate::id::{ActorKind, ConnId, DomainId, SessionId};
use crate::io::StorageState;
use crate::letters::{Kind, MessageClass, Origin, PresenceNews};
use crate::logs::message::kept;
use crate::ns;
use crate::session::conn::{NONE, Pause};
use crate::turn::pending::Asker;
use crate::wire::error::{StanzaCondition, StreamCondition};
use crate::wire::jid::{JidRef, bare_of};
use crate::wire::limit::{Limit, Refusal};
use crate::wire::written::{Stanza, write_error};
use crate::wire::{Element, Expect, Scanner, Splice, jid, splice};

/// Namespaces of requests that the server's own domain answers to components. They say what the server is, and nothing on anybody.
const ANSWERED: &[&str] = &[
    disco::INFO.namespace,
    disco::ITEMS.namespace,
    ping::FEATURE.namespace,
    time::FEATURE.namespace,
    version::FEATURE.namespace,
    last::FEATURE.namespace,
];

/// Whether the origin of a stanza is a component of the shard: there is no session in this slot.
pub(crate) fn is_component(session: SessionId) -> bool {
    session.slot == NONE
}

/// Who has sent a stanza, and to whom.
#[derive(Clone, Copy)]
struct Way<'a> {
    domain: DomainId,
    from: &'a str,
    to: JidRef<'a>,
    /// What the receiver's domain is.
    kind: ActorKind,
}

impl Components {
    /// One first-level element of a component's stream.
    pub(crate) fn from_component(&mut self, conn: ConnId, domain: DomainId, element: &Element<'_>) {
        let spoken = element.namespace() == ns::COMPONENT || element.children().any(|c| c.namespace() == ns::COMPONENT);
        if spoken {
            return self.from_component_declared(conn, domain, element);
        }
        let stanza = match (element.name(), element.namespace()) {
            ("message", ns::CLIENT) => Stanza::Message,
            ("presence", ns::CLIENT) => Stanza::Presence,
            ("iq", ns::CLIENT) => Stanza::Iq,
            _ => return self.fail_stream(conn, StreamCondition::UnsupportedStanzaType, None),
        };
        self.counters.component_stanzas_in.one();
        if let Some(seat) = self.seats.get(domain) {
            seat.stanzas_in += 1;
        }
        // XEP-0114 3: as between servers, both are there.
        let (Some(from), Some(to)) = (element.from(), element.to()) else {
            let text = "a component's stanzas have a 'from' and a 'to'";
            return self.fail_stream(conn, StreamCondition::ImproperAddressing, Some(text));
        };
        let from = jid::normalise(&from).ok().filter(|from| self.settings.domains.component_of(from) == Some(domain));
        let Some(from) = from else {
            let text = "the 'from' of a component's stanza is at the component's domain";
            return self.fail_stream(conn, StreamCondition::InvalidFrom, Some(text));
        };
        let Ok(to) = jid::normalise(&to) else {
            return self.refuse_component(domain, element, StanzaCondition::JidMalformed);
        };
        let to = JidRef::from_normalised(&to);
        let Some(served) = self.settings.domains.find(to.domain()) else {
            return self.refuse_component(domain, element, StanzaCondition::RemoteServerNotFound);
        };
        let way = Way { domain, from: &from, to, kind: self.settings.domains.kind(served) };
        match stanza {
            Stanza::Message => self.component_message(conn, way, element),
            Stanza::Presence => self.component_presence(conn, way, element),
            Stanza::Iq => self.component_iq(conn, way, element),
        }
    }

    /// A component may say of each stanza that it is one of a component's. What it means is the same.
    fn from_component_declared(&mut self, conn: ConnId, domain: DomainId, element: &Element<'_>) {
        let (all, mut bytes, mut copied) = (element.bytes(), Vec::with_capacity(element.bytes().len()), 0);
        for at in memchr::memmem::find_iter(all, ns::COMPONENT.as_bytes()) {
            // The value of a declaration, and nothing that is said.
            let declares = all[..at].ends_with(b"xmlns='") || all[..at].ends_with(b"xmlns=\"");
            if declares {
                bytes.extend_from_slice(&all[copied..at]);
                bytes.extend_from_slice(ns::CLIENT.as_bytes());
                copied = at + ns::COMPONENT.len();
            }
        }
        bytes.extend_from_slice(&all[copied..]);
        let (mut scanner, scope) = (Scanner::new(), element.scope().clone());
        let scanned = scanner.scan(&scope, Expect::Content, usize::MAX, &bytes).is_ok();
        let again = scanned.then(|| scanner.element(&scope, &bytes));
        let spoken =
            |of: &Element<'_>| of.namespace() == ns::COMPONENT || of.children().any(|c| c.namespace() == ns::COMPONENT);
        match again.filter(|again| !spoken(again)) {
            Some(again) => self.from_component(conn, domain, &again),
            None => self.fail_stream(conn, StreamCondition::InvalidNamespace, None),
        }
    }

    /// Answers a component's stanza with an error.
    fn refuse_component(&mut self, domain: DomainId, element: &Element<'_>, refusal: impl Into<Refusal>) {
        let kind = element.kind();
        if kind.as_deref() == Some("error") || (element.name() == "iq" && kind.as_deref() == Some("result")) {
            return;
        }
        let (id, to, from) = (element.id(), element.to(), element.from());
        let mut out = Vec::with_capacity(256);
        write_error(&mut out, element.name(), id.as_deref(), to.as_deref(), from.as_deref(), refusal);
        self.tell_component(domain, &out);
    }

    /// A stanza leaves for another home: the component is not read from while too many of them are under way.
    fn component_origin(&mut self, conn: ConnId, way: Way<'_>, bytes: usize) -> Option<Origin> {
        let seat = self.seats.get(way.domain)?;
        let (reads, epoch) = (seat.sent_off(bytes), seat.epoch);
        if reads == Reads::Stops {
            self.pause(conn, Pause::InFlight);
        }
        Some(Origin { shard: self.id, session: SessionId { slot: NONE, generation: epoch }, seq: 0, entry: 0 })
    }

    /// One of these is in safe hands.
    pub(crate) fn component_confirmed(&mut self, session: SessionId) {
        // The component has gone meanwhile.
        let Some(seat) = self.seats.of_epoch(session.generation) else { return };
        let (reads, conn) = (seat.arrived(), seat.conn);
        if matches!(reads, Reads::Again | Reads::WhenDurable) {
            self.go_on(conn, Pause::InFlight, reads == Reads::WhenDurable);
        }
    }

    fn component_message(&mut self, conn: ConnId, way: Way<'_>, element: &Element<'_>) {
        let kind = element.kind().unwrap_or_default();
        let class = MessageClass::of_type(&kind);
        match (way.kind, way.to.local()) {
            (ActorKind::Users, Some(_)) | (ActorKind::Component, _) => {}
            _ => return self.refuse_component(way.domain, element, StanzaCondition::ServiceUnavailable),
        }
        let keep = kept(class, &kind, element);
        if keep != Keep::Nothing && way.kind == ActorKind::Users && self.storage == StorageState::Full {
            return self.refuse_component(way.domain, element, Limit::Disk);
        }
        let forged = forged_in_message(&self.settings.domains, element, &[way.to.bare().as_str()]);
        self.post_of_component(conn, way, Kind::Message { class, keep }, element, &forged);
    }

    fn post_of_component(
        &mut self,
        conn: ConnId,
        way: Way<'_>,
        kind: Kind,
        element: &Element<'_>,
        drop: &[std::ops::Range<usize>],
    ) {
        let origin = self.component_origin(conn, way, element.bytes().len());
        let (to, home) = (way.to.as_str(), self.home(way.to.bare().as_str()));
        self.post(home, kind, origin, way.from, to, |out| {
            splice(out, element, &Splice { from: Some(way.from), to: Some(Some(to)), drop, ..Splice::default() });
        });
    }

    fn component_presence(&mut self, conn: ConnId, way: Way<'_>, element: &Element<'_>) {
        // RFC 6121 8.5.1: for whatever has no presence it goes nowhere.
        if !matches!((way.kind, way.to.local()), (ActorKind::Users, Some(_)) | (ActorKind::Component, _)) {
            return;
        }
        let kind = element.kind();
        let forged = forged_in_presence(&self.settings.domains, element);
        let (bare, to) = (bare_of(way.from), way.to.bare());
        if let Some(kind) = kind.as_deref().and_then(SubKind::from_type) {
            if self.storage == StorageState::Full {
                return self.refuse_component(way.domain, element, Limit::Disk);
            }
            let mut xml = Vec::with_capacity(element.bytes().len());
            splice(&mut xml, element, &Splice { unaddressed: true, drop: &forged, ..Splice::default() });
            // A component counts no requests: its answer is to the latest one (see `subscription`).
            let news = PresenceNews::Subscription { kind, number: 0, confirm: 0 };
            return self.presence_to(news, bare, to.as_str(), &xml);
        }
        match kind.as_deref() {
            None | Some("unavailable") => {
                self.post_of_component(conn, way, Kind::Directed { unavailable: kind.is_some() }, element, &forged);
            }
            Some("probe") => self.presence_to(PresenceNews::Probe { number: 0 }, way.from, way.to.as_str(), b""),
            Some("error") if !way.to.is_bare() => {
                self.post_of_component(conn, way, Kind::Directed { unavailable: false }, element, &forged);
            }
            Some("error") => {}
            Some(_) => self.refuse_component(way.domain, element, StanzaCondition::BadRequest),
        }
    }

    fn component_iq(&mut self, conn: ConnId, way: Way<'_>, element: &Element<'_>) {
        let kind = element.kind();
        let request = matches!(kind.as_deref(), Some("get" | "set"));
        let known = request || matches!(kind.as_deref(), Some("result" | "error"));
        // RFC 6120 8.2.3: an id, a known type, and exactly one child in a request.
        if !known || element.id().is_none() || (request && element.children().len() != 1) {
            return self.refuse_component(way.domain, element, StanzaCondition::BadRequest);
        }
        match (way.kind, way.to.local(), request) {
            (ActorKind::Users, Some(_), _) | (ActorKind::Component, _, _) => {
                let kind = if request { Kind::Request } else { Kind::Response };
                self.post_of_component(conn, way, kind, element, &[]);
            }
            (ActorKind::Users, None, true) => self.component_asks(way, element),
            // A push service has taken what it was told (XEP-0357 7).
            (ActorKind::Users, None, false) => self.component_answers(way.from, element),
            (ActorKind::Service(_), None, true) => {
                self.refuse_component(way.domain, element, StanzaCondition::Forbidden);
            }
            (ActorKind::Service(_), Some(_), true) => {
                self.refuse_component(way.domain, element, StanzaCondition::ItemNotFound);
            }
            (ActorKind::Service(_), _, false) => {}
        }
    }

    fn component_answers(&mut self, from: &str, element: &Element<'_>) {
        if let Some(id) = element.id() {
            self.service_answered(&id, from, push::answer::Outcome::of(element));
        }
    }

    /// A component asks the server what it is.
    fn component_asks(&mut self, way: Way<'_>, element: &Element<'_>) {
        let get = element.kind().as_deref() == Some("get");
        let answered = element.children().next().is_some_and(|child| ANSWERED.contains(&child.namespace()));
        if !(get && answered) {
            return self.refuse_component(way.domain, element, StanzaCondition::ServiceUnavailable);
        }
        let asker = Asker {
            session: None,
            origin: None,
            id: element.id().map(Into::into),
            from: way.from.into(),
            to: Some(way.to.as_str().into()),
            paced: None,
            front: None,
        };
        self.ask_feature(asker, Target::Server, bare_of(way.from), element, None);
    }
}
