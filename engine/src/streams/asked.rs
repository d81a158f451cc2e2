//! HTTP connections whose requests wait for a BOSH session (XEP-0124): what happens to such a
//! request when its connection closes or receives more data.

use crate::id::ConnId;
use crate::letters::{BoshLetter, Letter};
use crate::limits::HTTP_BEHIND_BYTES_MAX;
use crate::session::bosh::Place;
use crate::session::conn::Opening;
use crate::streams::Streams;
use crate::web::bosh::Sid;

impl Streams {
    /// Bytes have arrived on an HTTP connection behind a waiting request. If some are buffered, the
    /// request is answered so that they can be read (XEP-0124 18). If the request no longer exists,
    /// nothing is known about its answer.
    pub(crate) fn http_behind(&mut self, id: ConnId, kept: usize) {
        let shard = self.kernel.id;
        let Some(asked) = self.opening(id).and_then(|opening| opening.awaited()) else { return };
        let (sid, number) = (asked.sid, asked.number);
        if kept > HTTP_BEHIND_BYTES_MAX {
            self.block(id);
        }
        if let Some(sid) = sid {
            self.bosh_left(sid, Place { shard, conn: id, number }, true);
        }
    }

    /// A connection closes while its request may be waiting.
    pub(crate) fn http_gone(&mut self, id: ConnId, opening: &Opening) {
        if let Some((sid, number)) = opening.awaited().and_then(|asked| Some((asked.sid?, asked.number))) {
            self.bosh_left(sid, Place { shard: self.kernel.id, conn: id, number }, false);
        }
    }

    fn bosh_left(&mut self, sid: Sid, place: Place, hurries: bool) {
        let at_home = sid.shard == self.kernel.id || self.bosh.find(&sid.key).is_some();
        match at_home || sid.shard.0 >= self.kernel.settings.shards() {
            true => self.bosh_leaves(sid.key, place, hurries),
            false => {
                self.kernel.letters_to(sid.shard).push(Letter::Bosh(BoshLetter::Left { key: sid.key, place, hurries }))
            }
        }
    }

    /// Handles the same event at the shard where the session began or now is.
    pub(crate) fn bosh_leaves(&mut self, key: [u8; 16], place: Place, hurries: bool) {
        let (now_s, now_ms) = (self.kernel.now.mono_s(), self.kernel.now.mono_ms);
        let Some(id) = self.bosh.find(&key) else {
            if let Some(to) = self.bosh.forward(&key, now_s) {
                self.kernel.letters_to(to).push(Letter::Bosh(BoshLetter::Left { key, place, hurries }));
            }
            return;
        };
        if let Some(bosh) = self.bosh.get(id) {
            bosh.left(place, hurries, now_ms);
        }
        self.touch(id);
    }
}
