//! Limits how much of a session's traffic may be in flight. Beyond the limit its connection is not
//! read from.

use crate::id::SessionId;
use crate::session::conn::Pause;
use crate::streams::Streams;

impl Streams {
    /// A stanza leaves for another home and counts as in flight until it is confirmed. While too
    /// many stanzas are in flight, or too many of their bytes are not yet durable, the session is
    /// not read from.
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

    /// A stanza has led to writes at the session's own home. A session that caused many such writes
    /// is not read from until they are durable; [`Streams::under_way`] does the same for writes
    /// elsewhere.
    pub(crate) fn wrote(&mut self, session: SessionId, bytes: usize) {
        let most_bytes = self.kernel.settings.in_flight_bytes_max;
        let Some(half) = self.halves.get_mut(session) else { return };
        half.unsettle(bytes);
        let Some(id) = half.conn().filter(|_| half.is_unsettled(most_bytes)) else { return };
        // If stanzas are in flight, the confirmation of the last one resumes reading.
        let goes_on = half.in_flight == 0;
        if goes_on {
            half.settle();
        }
        self.pause(id, Pause::InFlight);
        if goes_on {
            self.resume(id, Pause::InFlight, true);
        }
    }

    /// A stanza in flight is confirmed. A session that has sent much is read from again only when
    /// all of it is confirmed and durable. This bounds what waits for the disk per session, and a
    /// flooding client delays only itself.
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
