//! How much of what a session sends may be under way: beyond it the connection is not read from.

use crate::id::SessionId;
use crate::session::conn::Pause;
use crate::streams::Streams;

impl Streams {
    /// A stanza leaves for another home: it counts as under way until it is confirmed, and a session with too many, or
    /// with too many bytes of them not yet durable, is not read from meanwhile.
    #[inline]
    pub(crate) fn under_way(&mut self, session: SessionId, bytes: usize) {
        let (most, most_bytes) = (self.kernel.settings.in_flight_max, self.kernel.settings.in_flight_bytes_max);
        let Some(half) = self.halves.get_mut(session) else { return };
        half.in_flight = half.in_flight.saturating_add(1);
        half.unsettle(bytes);
        if (half.in_flight >= most || half.is_unsettled(most_bytes))
            && let Some(id) = half.conn()
        {
            self.pause(id, Pause::InFlight);
        }
    }

    /// A stanza has led to writes at the session's own home: who has made many of them is not read from until they are durable, as
    /// [`Streams::under_way`] does for those elsewhere.
    pub(crate) fn wrote(&mut self, session: SessionId, bytes: usize) {
        let most_bytes = self.kernel.settings.in_flight_bytes_max;
        let Some(half) = self.halves.get_mut(session) else { return };
        half.unsettle(bytes);
        let Some(id) = half.conn().filter(|_| half.is_unsettled(most_bytes)) else { return };
        // With stanzas under way, the last of them that is confirmed lets it go on.
        let goes_on = half.in_flight == 0;
        if goes_on {
            half.settle();
        }
        self.pause(id, Pause::InFlight);
        if goes_on {
            self.resume(id, Pause::InFlight, true);
        }
    }

    /// A stanza that was under way is confirmed. One who has sent much is read from again only when all of it is
    /// confirmed and durable: so what waits for the disk is bounded a session, and who floods waits for it alone.
    #[inline]
    pub(crate) fn confirmed_elsewhere(&mut self, session: SessionId) {
        let (most, most_bytes) = (self.kernel.settings.in_flight_max, self.kernel.settings.in_flight_bytes_max);
        let Some(half) = self.halves.get_mut(session) else { return };
        half.in_flight = half.in_flight.saturating_sub(1);
        let durable = half.is_unsettled(most_bytes);
        if half.in_flight <= if durable { 0 } else { most / 2 } {
            if durable {
                half.settle();
            }
            if let Some(id) = half.conn() {
                self.resume(id, Pause::InFlight, durable);
            }
        }
    }
}
