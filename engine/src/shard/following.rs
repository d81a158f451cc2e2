//! Moves HTTP connections to the home of their channel, so that its items need no letters. The
//! request is read there again as it was received.

use crate::id::ConnId;
use crate::session::conn::{ConnState, Opening, Pause, Stage};
use crate::session::moved::{Errand, Follower, Moved};
use crate::shard::Shard;
use crate::web::Transport;
use crate::wire::error::StreamCondition;

impl Shard {
    /// Moves a connection to the home of a channel, with its request as received and all input
    /// after it.
    pub(super) fn follow(&mut self, id: ConnId, node: Box<str>, raw: &[u8]) {
        let (from, waiting, home) = (self.cx.kernel.id, self.channels.waiting(), self.cx.kernel.home(&node));
        let (named, proxy) = (self.cx.conns.client(id).is_some(), self.cx.conns.proxy(id));
        let opening = self.cx.heard(id);
        let follower = Box::new(Follower { node, from, waiting, tls: opening.tls.take(), proxy });
        let moved = Box::new(Moved {
            errand: Errand::Channel(follower),
            listener: opening.listener,
            peer: opening.peer,
            named,
            secured: opening.secured,
            accepted_s: opening.accepted_s,
            transport: Transport::Http,
            leftover: raw.to_vec(),
            stream: None,
        });
        self.cx.departs(id, home, moved);
    }

    /// Such a connection has arrived.
    pub(super) fn follower_arrived(
        &mut self,
        id: ConnId,
        mut follower: Follower,
        mut opening: Opening,
        named: bool,
        raw: Vec<u8>,
    ) {
        let (now_s, peer) = (self.cx.kernel.now.mono_s(), opening.peer);
        (opening.tls, opening.settled) = (follower.tls.take(), true);
        self.cx.conns.insert(id, opening, now_s);
        self.cx.conns.set_transport(id, Transport::Http);
        if named {
            self.cx.conns.name_client(id, peer, follower.proxy);
        }
        if self.cx.kernel.shutting_down {
            return self.cx.fail_stream(id, StreamCondition::SystemShutdown, None);
        }
        let is_full = self.cx.bound_arrived(id, peer);
        self.cx.goes_on_with(id, raw);
        self.channels.follower_came(&mut self.cx, &follower, is_full);
    }

    /// A departing connection could not move.
    pub(super) fn stayed(&mut self, id: ConnId, moved: Moved) {
        if !matches!(self.cx.conns.get(id), Some(conn) if matches!(conn.state(), ConnState::Departing)) {
            return;
        }
        let Errand::Channel(follower) = moved.errand else { return self.cx.has_no_home(id) };
        // It waits at this shard instead, where items arrive by letter.
        let mut opening = Opening::new(moved.listener, moved.peer, moved.accepted_s, Stage::ExpectHeader);
        (opening.secured, opening.tls, opening.settled) = (moved.secured, follower.tls, true);
        self.cx.conns.set_state(id, ConnState::Opening(Box::new(opening)));
        let home = self.cx.kernel.home(&follower.node);
        self.channels.stay_for(&mut self.cx, home, "");
        self.cx.resume(id, Pause::Ending, false);
        self.cx.goes_on_with(id, moved.leftover);
    }
}
