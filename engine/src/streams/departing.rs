//! Moves a connection to the home of its user or channel.

use crate::id::{ConnId, ShardId};
use crate::io::Effect;
use crate::session::conn::{ConnState, Partial, Pause};
use crate::session::moved::Moved;
use crate::streams::Streams;
use crate::streams::half::Up;

impl Streams {
    /// The connection moves with its state once its pending output has been handed to the network.
    pub(crate) fn departs(&mut self, id: ConnId, home: ShardId, moved: Box<Moved>) {
        self.conns.set_state(id, ConnState::Departing);
        if !id.has_socket() {
            return self.bosh.departs(id, home, moved);
        }
        // Input from here on is for the new home to read.
        self.pause(id, Pause::Ending);
        let (_, last) = self.take_last(id);
        self.kernel.counters.bytes_out.add(last.len() as u64);
        self.kernel.effects.push(Effect::Depart { conn: id, to: home, moved, last });
    }

    /// Data that arrived with a connection is processed when the current input has been handled.
    pub(crate) fn goes_on_with(&mut self, id: ConnId, leftover: Vec<u8>) {
        if let Some(conn) = self.conns.get(id) {
            conn.partial = Some(Box::new(Partial { bytes: leftover, ..Partial::default() }));
            self.up.push_back(Up::GoesOn(id));
        }
    }
}
