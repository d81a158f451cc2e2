//! Sessions of BOSH (XEP-0124) that come over from another shard.

use crate::session::moved::Handover;
use crate::shard::Shard;

impl Shard {
    /// A session has come over: its user's home is here.
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
