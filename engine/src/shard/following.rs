//! Connections of HTTP that go where their channel is, so that its items need no letter: there a request is read again as it came.

use crate::id::ConnId;
use crate::session::conn::{ConnState, Opening, Pause, Stage};
use crate::session::moved::{Errand, Follower, Moved};
use crate::shard::Shard;
use crate::web::Transport;
use crate::wire::error::StreamCondition;

impl Shard {
    /// A connection goes to the home of a channel, with its request as it came and all that is behind it.
    pub(super) fn follow(&mut self, id: ConnId, node: Box<str>, raw: &[u8]) {
        let (from, waiting, home) = (self.id, self.waiting(), self.home(&node));
        let (named, proxy) = (self.conns.client(id).is_some(), self.conns.proxy(id));
        let opening = self.heard(id);
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
        self.departs(id, home, moved);
    }

    /// Such a connection has come over.
    pub(super) fn follower_arrived(
        &mut self,
        id: ConnId,
        mut follower: Follower,
        mut opening: Opening,
        named: bool,
        raw: Vec<u8>,
    ) {
        let (now_s, peer) = (self.now.mono_s(), opening.peer);
        (opening.tls, opening.settled) = (follower.tls.take(), true);
        self.conns.insert(id, opening, now_s);
        self.conns.set_transport(id, Transport::Http);
        if named {
            self.conns.name_client(id, peer, follower.proxy);
        }
        if self.shutting_down {
            return self.fail_stream(id, StreamCondition::SystemShutdown, None);
        }
        let is_full = self.bound_arrived(id, peer);
        self.goes_on_with(id, raw);
        self.follower_came(&follower, is_full);
    }

    /// A departing connection could not move.
    pub(super) fn stayed(&mut self, id: ConnId, moved: Moved) {
        if !matches!(self.conns.get(id), Some(conn) if matches!(conn.state(), ConnState::Departing)) {
            return;
        }
        let Errand::Channel(follower) = moved.errand else { return self.has_no_home(id) };
        // It waits where it is: letters reach it as well.
        let mut opening = Opening::new(moved.listener, moved.peer, moved.accepted_s, Stage::ExpectHeader);
        (opening.secured, opening.tls, opening.settled) = (moved.secured, follower.tls, true);
        self.conns.set_state(id, ConnState::Opening(Box::new(opening)));
        let home = self.home(&follower.node);
        self.stay_for(home, "");
        self.resume(id, Pause::Ending, false);
        self.goes_on_with(id, moved.leftover);
    }
}
