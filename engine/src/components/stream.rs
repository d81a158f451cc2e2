//! Streams of external components (XEP-0114): from the header to a proven domain, the move to the
//! domain's home, and the end.

use crate::actors::Actors;
use crate::components::Components;
use crate::components::seats::Waits;
use crate::extension;
use crate::id::{ActorKind, ConnId, DomainId, Domains, ShardId};
use crate::io::{ComponentRow, Effect, Happened, Note, Reply};
use crate::letters::{Delivery, Kind, Letter};
use crate::limits::{COMPONENT_CHALLENGE_MS, HANDSHAKE_BYTES};
use crate::router::users::Incoming;
use crate::session::conn::{Claimed, ConnState, Opening, Stage, StreamExpect};
use crate::session::inline::Inline;
use crate::session::moved::{Errand, Moved, MovedStream};
use crate::session::sasl::Authenticated;
use crate::streams::Streams;
use crate::streams::opening::closed_listener;
use crate::web::Transport;
use crate::wire::error::{StanzaCondition, StreamCondition};
use crate::wire::stream::{HeaderFault, read_component_header, write_component_header};
use crate::wire::text::write_attribute;
use crate::wire::{Element, StreamScope, jid};

impl Components {
    /// A connection was accepted on the component listener.
    pub(crate) fn accepted_component(&mut self, cx: &mut Streams, id: ConnId, peer: std::net::IpAddr) {
        cx.accepted_for(id, closed_listener(), peer, Stage::ExpectComponent);
    }

    /// Whether a connection is expected to send a component's stream header.
    pub(crate) fn is_for_component(&mut self, cx: &mut Streams, id: ConnId) -> bool {
        cx.opening(id).is_some_and(|opening| matches!(opening.stage(), Stage::ExpectComponent))
    }

    /// A stream header has arrived, which names the component's domain (XEP-0114 3).
    pub(crate) fn component_header(&mut self, cx: &mut Streams, id: ConnId, element: &Element<'_>) {
        let domains = cx.kernel.settings.domains.clone();
        let wanted = element.to().and_then(|to| {
            let to = jid::normalise_domain(&to).ok()?;
            component_at(&domains, &to)
        });
        // RFC 6120 4.7.1: a header for a domain that is not served is answered from one that is.
        let from = wanted.map_or(domains.main(), |domain| domains.name(domain));
        let stream_id = cx.kernel.random_name();
        cx.conns.heard(id).header_sent = true;
        cx.send_with(id, |out| write_component_header(out, &stream_id, from));
        cx.kernel.counters.streams_opened.one();
        match (read_component_header(element), wanted) {
            (Err(fault), _) => {
                let condition = StreamCondition::from_name(HeaderFault::condition(fault));
                cx.fail_stream(id, condition.unwrap_or(StreamCondition::BadFormat), fault.text());
            }
            (Ok(_), None) => {
                cx.fail_stream(id, StreamCondition::HostUnknown, Some("no component is configured for this domain"))
            }
            (Ok(_), Some(domain)) => {
                if let Some(conn) = cx.conns.get(id) {
                    (conn.scope, conn.expect) = (StreamScope::of_header(element), StreamExpect::Content);
                }
                cx.conns.set_stage(id, Stage::ExpectSecret(Box::new(Claimed { domain, stream_id: stream_id.into() })));
            }
        }
    }

    /// `<handshake/>` has arrived (XEP-0114 3). `behind` is the input that follows it.
    pub(crate) fn handshake(&mut self, cx: &mut Streams, id: ConnId, element: &Element<'_>, behind: &[u8]) {
        let opening = cx.heard(id);
        let (Stage::ExpectSecret(claimed), peer) = (opening.stage(), opening.peer) else {
            unreachable!("a secret is heard when it is expected");
        };
        let (domain, stream_id) = (claimed.domain, claimed.stream_id.clone());
        let name = cx.kernel.settings.domains.name(domain).to_owned();
        let secret =
            cx.kernel.settings.component_secrets.iter().find(|(of, _)| **of == *name).map(|(_, secret)| secret);
        let shown = element.text();
        let good = secret.is_some_and(|secret| is_proof(&stream_id, &secret.0, shown.trim().as_bytes()));
        if !good {
            cx.kernel.counters.logins_failed.one();
            cx.kernel.note(
                Happened::LoginFailed { mechanism: "component", reason: "not-authorized" },
                &name,
                Some(peer),
            );
            return cx.fail_stream(id, StreamCondition::NotAuthorized, None);
        }
        cx.kernel.counters.logins.one();
        let home = cx.kernel.home(&name);
        if home == cx.kernel.id {
            return self.take_seat(cx, id, domain);
        }
        let scope = cx.conns.heard(id).scope.clone();
        let opening = cx.heard(id);
        let (listener, accepted_s) = (opening.listener, opening.accepted_s);
        let inline = Box::<Inline>::default();
        let moved = Box::new(Moved {
            errand: Errand::Login(Authenticated::component(&name)),
            listener,
            peer,
            named: false,
            secured: false,
            accepted_s,
            transport: Transport::Stream,
            leftover: behind.to_vec(),
            stream: Some(Box::new(MovedStream { scope, lang: None, domain, inline })),
        });
        cx.departs(id, home, moved);
    }

    /// A component's connection has arrived at the home of its domain.
    pub(crate) fn component_arrived(&mut self, cx: &mut Streams, id: ConnId, moved: &mut Moved) {
        let opening = Opening::new(moved.listener, moved.peer, moved.accepted_s, Stage::ExpectComponent);
        let now_s = cx.kernel.now.mono_s();
        cx.conns.insert(id, opening, now_s);
        let domain = component_at(&cx.kernel.settings.domains, moved.home());
        // The other shard knows the same domains, and has sent the stream along.
        let Some((stream, domain)) = moved.stream.take().zip(domain) else { return };
        if let Some(conn) = cx.conns.get(id) {
            (conn.scope, conn.expect, conn.header_sent) = (stream.scope, StreamExpect::Content, true);
        }
        if cx.kernel.shutting_down {
            return cx.fail_stream(id, StreamCondition::SystemShutdown, None);
        }
        self.take_seat(cx, id, domain);
    }

    /// The domain is proven. It has one component at a time: a second one must wait until the first
    /// has disconnected (XEP-0114 3). If the first is no longer alive, this is soon detected.
    fn take_seat(&mut self, cx: &mut Streams, id: ConnId, domain: DomainId) {
        let peer = cx.heard(id).peer;
        let now_ms = cx.kernel.now.mono_ms;
        if let Some(seat) = self.seats.get(domain) {
            let challenge = seat.challenged_ms == 0;
            if challenge {
                seat.challenged_ms = now_ms;
                let first = seat.conn;
                self.ping_component(cx, first);
            }
            let text = "a component is already connected for this domain";
            return cx.fail_stream(id, StreamCondition::Conflict, Some(text));
        }
        let now_s = cx.kernel.now.mono_s();
        self.seats.sit(domain, id, peer, now_s);
        cx.conns.set_state(id, ConnState::Component(domain));
        cx.favour(id);
        cx.send_bytes(id, b"<handshake/>");
        self.component_news(cx, domain, true);
        self.note_component(cx, Happened::ComponentCame, domain, peer);
    }

    fn note_component(&mut self, cx: &mut Streams, what: Happened, domain: DomainId, peer: std::net::IpAddr) {
        let account = cx.kernel.settings.domains.name(domain).into();
        cx.kernel.effects.push(Effect::Note(Box::new(Note { what, account, peer: Some(peer), conn: None })));
    }

    /// Informs all shards, so that service discovery lists the connected components.
    fn component_news(&mut self, cx: &mut Streams, domain: DomainId, there: bool) {
        for shard in 0..cx.kernel.settings.shards() {
            cx.kernel.letters_to(ShardId(shard)).push(Letter::Component { domain, there });
        }
    }

    /// The link to this shard was renewed: it may not know which components of this home are
    /// connected.
    pub(crate) fn link_renewed(&mut self, cx: &mut Streams, peer: ShardId) {
        let (settings, own) = (cx.kernel.settings.clone(), cx.kernel.id);
        let all = settings.component_secrets.iter().filter(|(name, _)| settings.home(name) == own);
        for domain in all.filter_map(|(name, _)| component_at(&settings.domains, name)) {
            let there = self.seats.get(domain).is_some();
            cx.kernel.letters_to(peer).push(Letter::Component { domain, there });
        }
    }

    /// A component has connected to some shard, or disconnected.
    pub(crate) fn heard_of_component(&mut self, cx: &mut Streams, domain: DomainId, there: bool) {
        let name = Box::<str>::from(cx.kernel.settings.domains.name(domain));
        let known = &mut cx.kernel.facts.components;
        match (known.binary_search(&name), there) {
            (Ok(at), false) => drop(known.remove(at)),
            (Err(at), true) => known.insert(at, name),
            _ => {}
        }
    }

    /// The connection of a component has closed, or takes nothing more. Stanzas that it has not
    /// taken are returned.
    pub(crate) fn component_gone(&mut self, cx: &mut Streams, actors: &mut Actors, id: ConnId) {
        let seat = self.seats.leave(id).expect("a component has a seat");
        let (domain, peer) = (seat.domain, seat.peer);
        let left = seat.left();
        let returned = left.iter().filter(|waits| waits.stanza.origin.is_some()).count();
        left.iter().for_each(|waits| self.return_to_sender(cx, actors, waits));
        self.component_news(cx, domain, false);
        self.note_component(cx, Happened::ComponentLeft { returned }, domain, peer);
    }

    /// Answers the sender of a stanza that a component has not taken with an error (RFC 6120
    /// 8.3.3.17).
    fn return_to_sender(&mut self, cx: &mut Streams, actors: &mut Actors, waits: &Waits) {
        let stanza = Incoming::from(&waits.stanza);
        if matches!(stanza.kind, Kind::Message { .. } | Kind::Request) {
            cx.kernel.counters.component_refused.one();
        }
        self.turn_away_taken(cx, actors, stanza, StanzaCondition::RemoteServerTimeout);
    }

    /// Answers a stanza that was already reported as no longer in flight with an error, which makes
    /// it safe.
    fn turn_away_taken(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        stanza: Incoming<'_>,
        condition: StanzaCondition,
    ) {
        actors.answer_with_error(cx, stanza, condition);
        actors.void_elsewhere(cx, stanza);
        if let Some(origin) = stanza.origin {
            cx.kernel
                .letters_to(origin.shard)
                .push(Letter::Delivery(Delivery::Safe { session: origin.session, seq: origin.seq }));
        }
    }

    /// The network has taken a send of a connection. If it is a component's, the stanzas in it are
    /// safe.
    pub(crate) fn component_sent(&mut self, cx: &mut Streams, id: ConnId) {
        // Nearly all connections belong to clients.
        let Some(seat) = self.seats.of_conn(id) else { return };
        let taken = seat.taken();
        cx.kernel.counters.component_stanzas_out.add(taken.len() as u64);
        for Waits { stanza, confirm, .. } in taken {
            if let Some(origin) = stanza.origin {
                cx.kernel
                    .letters_to(origin.shard)
                    .push(Letter::Delivery(Delivery::Safe { session: origin.session, seq: origin.seq }));
            }
            cx.kernel.noted(&stanza.to, &stanza.from, confirm);
        }
    }

    /// Ends a turn: components that have taken everything get the next portion.
    pub(crate) fn feed_components(&mut self, cx: &mut Streams) {
        if !self.seats.any() {
            return;
        }
        let hungry = self.seats.iter().filter(|seat| seat.is_hungry()).map(|seat| seat.conn);
        for conn in hungry.collect::<Vec<_>>() {
            // A send has nothing but one portion, so its completion identifies what was sent.
            if cx.conns.outbound_bytes(conn) > 0 {
                continue;
            }
            let mut piece = std::mem::take(&mut cx.kernel.scratch);
            if let Some(seat) = self.seats.of_conn(conn) {
                seat.feed(&mut piece);
            }
            cx.send_bytes(conn, &piece);
            cx.kernel.keep_scratch(piece);
        }
    }

    /// Checks what depends on time: stanzas that are not taken, and components that show no sign of
    /// life.
    pub(crate) fn sweep_components(&mut self, cx: &mut Streams, actors: &mut Actors) {
        if !self.seats.any() {
            return;
        }
        let now_ms = cx.kernel.now.mono_ms;
        let (mut late, mut bytes, mut gone) = (Vec::new(), 0, Vec::new());
        for seat in self.seats.iter_mut() {
            let more = seat.late(now_ms);
            seat.refused += more.len() as u64;
            late.extend(more);
            bytes += seat.waiting().1;
            if seat.challenged_ms != 0 && now_ms.saturating_sub(seat.challenged_ms) > COMPONENT_CHALLENGE_MS {
                gone.push(seat.conn);
            }
        }
        for waits in &late {
            cx.kernel.counters.component_refused.one();
            self.turn_away_taken(cx, actors, (&waits.stanza).into(), StanzaCondition::ResourceConstraint);
        }
        for conn in gone {
            cx.drop_connection(conn);
        }
        let c = &cx.kernel.counters;
        c.component_queue_bytes.set(bytes as u64);
    }

    /// Input has arrived from a component, which proves that it is alive.
    pub(crate) fn component_heard(&mut self, id: ConnId) {
        if let Some(seat) = self.seats.of_conn(id) {
            seat.challenged_ms = 0;
        }
    }

    /// Pings a component (XEP-0199). Any answer proves that it is alive.
    pub(crate) fn ping_component(&mut self, cx: &mut Streams, id: ConnId) {
        let domain = self.seats.of_conn(id).expect("a component has a seat").domain;
        let (ping_id, domains) = (cx.kernel.random_name(), cx.kernel.settings.domains.clone());
        for (_, ask) in extension::asks_idle() {
            let mut xml = b"<iq type='get'".to_vec();
            for (name, value) in [("from", domains.main()), ("to", domains.name(domain)), ("id", &ping_id)] {
                write_attribute(&mut xml, name, value);
            }
            xml.push(b'>');
            xml.extend_from_slice(&ask.payload);
            xml.extend_from_slice(b"</iq>");
            self.tell_component(cx, domain, &xml);
        }
    }

    /// Sends a component a stanza of the server itself; it is dropped if there is no room.
    pub(super) fn tell_component(&mut self, cx: &mut Streams, domain: DomainId, xml: &[u8]) {
        let (domains, now_ms, most) =
            (cx.kernel.settings.domains.clone(), cx.kernel.now.mono_ms, cx.kernel.settings.component_queue_bytes_max);
        let (from, to) = (domains.main(), domains.name(domain));
        let stanza = Incoming { kind: Kind::Response, origin: None, from, to, xml };
        let put = self.seats.get(domain).map(|seat| seat.put(stanza, 0, now_ms, most));
        if put != Some(Ok(())) {
            cx.kernel.counters.stanzas_dropped.one();
        }
    }

    /// Lists the components of this home, for an operator.
    pub(crate) fn list_components(&mut self, cx: &mut Streams) -> Reply {
        let now_s = cx.kernel.now.mono_s();
        let rows = self.seats.iter().map(|seat| {
            let (waiting, waiting_bytes) = seat.waiting();
            ComponentRow {
                domain: cx.kernel.settings.domains.name(seat.domain).to_owned(),
                conn: seat.conn,
                since_s: now_s.saturating_sub(seat.since_s),
                idle_s: now_s.saturating_sub(cx.conns.last_s(seat.conn)),
                stanzas_in: seat.stanzas_in,
                stanzas_out: seat.stanzas_out,
                refused: seat.refused,
                waiting,
                waiting_bytes,
            }
        });
        Reply::Components(rows.collect())
    }

    /// Writes the server's stream header for a peer that has not sent one.
    pub(crate) fn component_header_alone(&mut self, cx: &mut Streams, out: &mut Vec<u8>) {
        let stream_id = cx.kernel.random_name();
        write_component_header(out, &stream_id, cx.kernel.settings.domains.main());
    }
}

/// The component whose domain this is, or is part of this address.
fn component_at(domains: &Domains, address: &str) -> Option<DomainId> {
    domains.of(address).filter(|(_, kind)| *kind == ActorKind::Component).map(|(id, _)| id)
}

/// Whether `shown` is the lower-case hexadecimal SHA-1 of the stream id and the secret (XEP-0114
/// 3). Compares in constant time.
fn is_proof(stream_id: &str, secret: &str, shown: &[u8]) -> bool {
    use sha1::Digest as _;
    let digest = sha1::Sha1::new().chain_update(stream_id).chain_update(secret).finalize();
    let hex =
        digest.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| b"0123456789abcdef"[usize::from(digit)]);
    shown.len() == HANDSHAKE_BYTES && hex.zip(shown).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::is_proof;

    #[test]
    fn the_proof_is_that_of_the_text_xep0114_3() {
        // SHA-1 of "3BF96D32" and "secret", computed elsewhere.
        let proof = b"b09ea9b3b7f586be8a08d0a3dd7466f110aeb136";
        assert!(is_proof("3BF96D32", "secret", proof));
        let upper = proof.to_ascii_uppercase();
        for bad in [&b""[..], &proof[..39], &upper, b"0000000000000000000000000000000000000000"] {
            assert!(!is_proof("3BF96D32", "secret", bad));
        }
        assert!(!is_proof("3BF96D33", "secret", proof) && !is_proof("3BF96D32", "secres", proof));
    }
}
