//! A connection moves to the home of its user, or of its channel.

use crate::id::{ConnId, ShardId};
use crate::io::Effect;
use crate::session::conn::{ConnState, Partial, Pause};
use crate::session::moved::Moved;
use crate::streams::Streams;
use crate::streams::half::Up;

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
        self.kernel.counters.bytes_out.add(last.len() as u64);
        self.kernel.effects.push(Effect::Depart { conn: id, to: home, moved, last });
    }

    /// What came along with a connection is looked at when this input has been handled.
    pub(crate) fn goes_on_with(&mut self, id: ConnId, leftover: Vec<u8>) {
        if let Some(conn) = self.conns.get(id) {
            conn.partial = Some(Box::new(Partial { bytes: leftover, ..Partial::default() }));
            self.up.push_back(Up::GoesOn(id));
        }
    }
}
