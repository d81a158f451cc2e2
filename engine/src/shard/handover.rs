//! BOSH sessions (XEP-0124) that arrive from another shard.

use crate::session::moved::Handover;
use crate::shard::Shard;

impl Shard {
    /// A session has arrived at its user's home.
    pub(super) fn bosh_arrives(&mut self, handover: &Handover) {
        let Handover { moved, mut bosh, pending } = handover.clone();
        let id = self.cx.conns.without_socket();
        bosh.conn = id;
        self.cx.bosh.insert(bosh);
        self.arrived(id, moved);
        self.cx.send_bytes(id, &pending);
        self.bosh_feed(id);
    }
}
