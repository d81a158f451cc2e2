//! Translates driver events into shard inputs and orders.

use std::net::SocketAddr;

use throng_engine::id::{ConnId, Gate, Now};
use throng_engine::io::{ClientCertificate, Input, ListenerKind, Lost, Output, TlsFacts};
use throng_engine::shard::Shard;

use super::accepting::Accepting;
use super::front::{Fronted, Head};
use super::moving::{Early, Moving};
use crate::driver::{Cause, Event};
use crate::letters::MovedLink;
use crate::links::Links;
use crate::tls::{ClientNames, TlsConnection, TlsEntries};

/// A listener, and how its connections are treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entrance {
    /// Its kind, for the shard.
    pub kind: ListenerKind,
    /// Whether each connection begins with a header of the PROXY protocol.
    pub proxied: bool,
    /// Whether components connect to it (XEP-0114) instead of clients.
    pub component: bool,
    /// Whether connections begin with HTTP.
    pub http: bool,
    /// Its address.
    pub address: SocketAddr,
}

/// An effect of a driver event, carried out after the driver has delivered all events.
pub(super) enum Order {
    Raw(ConnId, Vec<u8>),
    Close(ConnId),
    CloseRaw(ConnId, Vec<u8>),
    Abort(ConnId),
    Pause(ConnId),
    Sent(ConnId),
    Arrive(Box<MovedLink>, ConnId, Early),
    Left(Box<MovedLink>),
}

/// The state that an event handler may touch.
pub(super) struct Hands<'a> {
    pub(super) shard: &'a mut Shard,
    pub(super) links: &'a mut Links,
    pub(super) out: &'a mut Output,
    pub(super) moving: &'a mut Moving,
    pub(super) accepting: &'a mut Accepting,
    pub(super) listeners: &'a [Entrance],
    pub(super) fronted: &'a mut Fronted,
    pub(super) tls: &'a Option<TlsEntries>,
    pub(super) now: Now,
}

/// The orders of one wait.
#[derive(Default)]
pub(super) struct Events {
    pub(super) orders: Vec<Order>,
    /// Whether an [`Order::Arrive`] is among them. Most waits have none, which saves the search.
    arriving: bool,
}

impl Events {
    /// No orders, reusing this memory.
    pub(super) fn reusing(orders: Vec<Order>) -> Events {
        Events { orders, arriving: false }
    }

    fn order(&mut self, order: Order) {
        self.arriving |= matches!(order, Order::Arrive(..));
        self.orders.push(order);
    }

    /// Passes an event to the shard, or records the orders that it leads to.
    pub(super) fn handle(&mut self, h: &mut Hands<'_>, event: Event<'_>) {
        match event {
            Event::Accepted { conn, tag, peer } => {
                let listener = h.listeners[usize::from(tag.0)];
                let tls = match (listener.kind.direct_tls, h.tls) {
                    (true, Some(tls)) if listener.http => Some(Box::new(TlsConnection::accept(&tls.web))),
                    (true, Some(tls)) => Some(Box::new(TlsConnection::accept(&tls.direct))),
                    _ => None,
                };
                h.links.open(conn, tls);
                if listener.proxied {
                    h.fronted.expect(conn);
                }
                tracing::trace!(%peer, slot = conn.slot, "connection accepted");
                let (kind, peer) = (listener.kind, peer.ip());
                let input = match (listener.component, listener.http) {
                    (true, _) => Input::AcceptedComponent { conn, peer },
                    (_, true) => Input::AcceptedHttp { conn, listener: kind, peer },
                    _ => Input::Accepted { conn, listener: kind, peer },
                };
                h.shard.handle(h.now, input, h.out);
            }
            Event::Received { conn, bytes } => self.received(h, conn, bytes),
            Event::Sent { conn, buffer: _ } => self.order(Order::Sent(conn)),
            Event::Progressed { conn } => h.shard.handle(h.now, Input::Progressed { conn }, h.out),
            Event::Failed { conn, cause: Cause::PeerClosed } => match self.early(h, conn) {
                // The session must exist before it can be ended.
                Some(early) => early.ended = true,
                // The peer has closed its direction: XMPP has no use for a half-open stream.
                None => self.lose(h, conn, Lost::Finished, Order::Close(conn)),
            },
            Event::Failed { conn, cause: _ } => self.lose(h, conn, Lost::Broken, Order::Abort(conn)),
            Event::Closed { conn } => {
                tracing::trace!(slot = conn.slot, "connection closed");
                h.links.closed(conn);
                h.fronted.closed(conn);
                if h.moving.closed(conn) {
                    h.shard.handle(h.now, Input::Closed { conn }, h.out);
                }
            }
            Event::Arrived { key, conn } => self.order(match h.moving.socket(key, conn) {
                Some(link) => Order::Arrive(link, conn, Early::default()),
                // No byte is processed before the state has arrived.
                None => Order::Pause(conn),
            }),
            Event::Departed { conn, key } => {
                // At once, not as an order: the next event may be a new connection in the same
                // slot.
                let (tls, client) = (h.links.closed(conn), h.fronted.closed(conn));
                h.shard.handle(h.now, Input::Closed { conn }, h.out);
                if let Some((moved, bytes)) = h.moving.take(conn) {
                    let link = MovedLink { key, after: Gate::default(), moved, tls, client, bytes };
                    self.order(Order::Left(Box::new(link)));
                }
            }
            Event::DepartureFailed { conn, key: _, error } => {
                tracing::warn!(%error, "a connection could not move to its home");
                let Some((moved, mut bytes)) = h.moving.take(conn) else { return };
                h.shard.handle(h.now, Input::Stayed { conn, moved }, h.out);
                if !bytes.is_empty() {
                    self.plain_or_tls(h, conn, &mut bytes);
                }
            }
            Event::AcceptPaused { tag, cause } => {
                let (at, shard) = (h.listeners[usize::from(tag.0)].address, &h.shard);
                h.accepting.pause(shard.id(), at, cause, shard.counters(), h.now.mono_ms);
            }
            Event::Woken | Event::Slept => {}
        }
    }

    /// Ends the connection for a reason found on the driver's side of the shard.
    fn lose(&mut self, h: &mut Hands<'_>, conn: ConnId, how: Lost, order: Order) {
        h.shard.handle(h.now, Input::Lost { conn, how }, h.out);
        self.order(order);
    }

    /// For a connection whose state is missing or not processed yet: what has happened so far.
    fn early<'a>(&'a mut self, h: &'a mut Hands<'_>, conn: ConnId) -> Option<&'a mut Early> {
        if let Some(early) = h.moving.early(conn) {
            return Some(early);
        }
        // A connection that arrives in this same wait has its order before its bytes.
        let mut orders = self.orders.iter_mut().filter(|_| self.arriving);
        orders.find_map(|order| match order {
            Order::Arrive(_, arriving, early) if *arriving == conn => Some(early),
            _ => None,
        })
    }

    fn received(&mut self, h: &mut Hands<'_>, conn: ConnId, bytes: &mut [u8]) {
        if let Some(early) = self.early(h, conn) {
            return early.bytes.extend_from_slice(bytes);
        }
        // The shard has given the connection up and its new home has not received it yet. Reading
        // is paused, so this is at most what was in flight. Its TLS is decrypted at the new home,
        // in order.
        if h.shard.is_departing(conn) {
            return h.moving.hold(conn, bytes);
        }
        match h.fronted.received(conn, bytes) {
            Head::No => self.plain_or_tls(h, conn, bytes),
            Head::Partial => {}
            Head::Whole { client, mut rest } => {
                if let Some(client) = client {
                    h.shard.handle(h.now, Input::Client { conn, peer: client.ip() }, h.out);
                }
                if !rest.is_empty() {
                    self.plain_or_tls(h, conn, &mut rest);
                }
            }
            Head::Wrong => {
                tracing::debug!("a proxied connection has no valid PROXY protocol header");
                self.lose(h, conn, Lost::Misled, Order::Abort(conn));
            }
        }
    }

    fn plain_or_tls(&mut self, h: &mut Hands<'_>, conn: ConnId, bytes: &mut [u8]) {
        let mut plaintext = h.links.scratch();
        let Some(tls) = h.links.tls(conn) else {
            h.links.give_back(plaintext);
            return h.shard.handle(h.now, Input::Received { conn, bytes }, h.out);
        };
        let mut to_send = Vec::new();
        let result = tls.receive(bytes, &mut plaintext, &mut to_send);
        if let Ok(received) = &result
            && let Some(info) = &received.handshake_done
        {
            let tls = TlsFacts {
                exporter: info.tls_exporter,
                server_end_point: info.server_end_point.clone().unwrap_or_default(),
                certificate: info.client.as_ref().map(named),
            };
            h.shard.handle(h.now, Input::Secured { conn, tls: Box::new(tls) }, h.out);
        }
        if !plaintext.is_empty() {
            h.shard.handle(h.now, Input::Received { conn, bytes: &plaintext }, h.out);
        }
        h.links.give_back(plaintext);
        match result {
            Ok(received) => {
                if !to_send.is_empty() {
                    self.order(Order::Raw(conn, to_send));
                }
                if received.peer_closed {
                    self.lose(h, conn, Lost::Finished, Order::Close(conn));
                }
            }
            Err(fault) => {
                tracing::debug!(?fault, "TLS ended a connection");
                self.lose(h, conn, Lost::Tls, Order::CloseRaw(conn, to_send));
            }
        }
    }
}

/// Converts a client certificate's names for the engine.
fn named(names: &ClientNames) -> ClientCertificate {
    let boxed = |names: &[String]| names.iter().map(|name| name.as_str().into()).collect();
    ClientCertificate { addresses: boxed(&names.addresses), mapped: boxed(&names.mapped) }
}
