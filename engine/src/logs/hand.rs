//! Hands entries of a log, stamped (XEP-0359, XEP-0203), to the followers at its head.

use crate::actors::Actors;
use crate::extension::Way;
use crate::extension::offline::delay;
use crate::id::SessionId;
use crate::logs::Logs;
use crate::ns;
use crate::session::sm::Rows;
use crate::store::archive::Entry;
use crate::store::sessions::Trail;
use crate::store::waiting::{Holder, Transient};
use crate::streams::Streams;
use crate::wire::text::{escape_value_into, write_attribute};
use crate::wire::written::insert_at_end;

/// Stamps of a message from a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    /// The number from which its stanza-id (XEP-0359) is made.
    pub(crate) id: u64,
    /// When it arrived, milliseconds since the Unix epoch, if a delay stamp is required (XEP-0203).
    pub(crate) came_ms: Option<u64>,
}

impl Logs {
    /// Appends a transient entry for messages that have lost their place. Followers at the head get
    /// it at once.
    pub(crate) fn append_again(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        of: Option<u64>,
        entry: Entry<'_>,
    ) {
        // The sender may have been blocked since (XEP-0191 3.3).
        if actors.guards(cx, user, Way::In, entry.peer).is_some() {
            return;
        }
        let number = cx.kernel.next_number();
        let bare = actors.bare_of_user(user);
        Transient { of, entry: Entry { waits: true, trail: b"", ..entry } }.put(&mut cx.kernel.writes, &bare, number);
        self.log(cx, actors, user).appended(number, true);
        let heads = self.heads(actors, user);
        let stamp = Stamp { id: of.unwrap_or(number), came_ms: Some(entry.time_ms) };
        for &session in &heads {
            if cx.is_busy(session) {
                self.log(cx, actors, user).fall_behind(session, number - 1, number - 1);
            } else {
                self.hand(cx, actors, session, number, stamp, entry.xml);
                cx.rows_due(session, Rows::Counts);
            }
        }
        self.heads_changed(actors, user);
        if !actors.users.get(user).live {
            self.log(cx, actors, user).stored(entry.xml.len());
        }
        self.touch_log(user);
    }

    /// Does the same, and records in the entry's trail that it was handed to the session.
    pub(crate) fn hand_noted(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        session: SessionId,
        mark: u64,
        stamp: Stamp,
        xml: &[u8],
        trail: &mut Trail,
    ) {
        self.hand(cx, actors, session, mark, stamp, xml);
        if let Some(step) = cx.handed(session, mark) {
            trail.add(step);
        }
    }

    /// The identity that rows of set-apart messages record for a session.
    pub(crate) fn holder(&self, cx: &Streams, session: SessionId) -> Holder {
        cx.tag(session).map_or(Holder { life: cx.kernel.life, session }, Holder::of_tag)
    }

    /// Whether a message is set apart for this session. Its row may have been written before the
    /// session was stored.
    pub(crate) fn holds(&self, cx: &Streams, holder: Holder, session: SessionId) -> bool {
        holder == Holder { life: cx.kernel.life, session } || holder == self.holder(cx, session)
    }

    /// Sends a session a message of the log, stamped.
    pub(crate) fn hand(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        session: SessionId,
        mark: u64,
        stamp: Stamp,
        xml: &[u8],
    ) {
        let mut stanza = std::mem::take(&mut cx.kernel.scratch);
        insert_at_end(&mut stanza, xml, |out| self.stamp(actors, out, session, stamp));
        actors.hand_bytes(cx, session, mark, &stanza);
        cx.kernel.keep_scratch(stanza);
    }

    /// Writes the stanza-id (XEP-0359) of a message for a session's user and, if it has waited, the
    /// delay (XEP-0203).
    pub(crate) fn stamp(&self, actors: &Actors, out: &mut Vec<u8>, session: SessionId, stamp: Stamp) {
        let session = actors.sessions.slot(session.slot);
        let user = session.user;
        out.extend_from_slice(b"<stanza-id");
        write_attribute(out, "xmlns", ns::STANZA_ID);
        out.extend_from_slice(b" id='");
        out.extend_from_slice(session.ids.text(stamp.id).as_bytes());
        out.extend_from_slice(b"' by='");
        escape_value_into(out, actors.users.local(user));
        out.push(b'@');
        escape_value_into(out, actors.users.domain(user));
        out.extend_from_slice(b"'/>");
        if let Some(came_ms) = stamp.came_ms {
            delay(out, actors.users.domain(user), came_ms.saturating_mul(1_000));
        }
    }
}
