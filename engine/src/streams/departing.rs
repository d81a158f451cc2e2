//! A connection whose peer has proven who it is moves to its home.

use crate::id::{ConnId, ShardId};
use crate::io::Effect;
use crate::session::conn::{ConnState, Pause};
use crate::session::moved::Moved;
use crate::streams::Streams;

impl Streams {
    /// It leaves with what it has, once what it is still to be sent is on its way.
    pub(crate) fn departs(&mut self, id: ConnId, home: ShardId, moved: Box<Moved>) {
        self.conns.set_state(id, ConnState::Departing);
        if !id.has_socket() {
            return self.bosh.departs(id, home, moved);
        }
        // What the peer sends from here on is for its new home to read.
        self.pause(id, Pause::Ending);
        let (_, last) = self.take_last(id);
        self.counters.bytes_out.add(last.len() as u64);
        self.effects.push(Effect::Depart { conn: id, to: home, moved, last });
    }
}
