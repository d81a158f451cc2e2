//! Who waits for the answer to a request, and the way back to them.

use crate::id::SessionId;
use crate::io::{Effect, Happened, Note};
use crate::mail::{Kind, Origin};
use crate::shard::Shard;
use crate::shard::stanza::{bare_of, write_error};
use crate::wire::limit::Refusal;
use crate::wire::text::write_attribute;

/// Who waits for the answer to a request, and where.
#[derive(Debug)]
pub(crate) struct Asker {
    /// A session of this shard, with the request's number in its inbound count; otherwise a user elsewhere.
    pub(super) session: Option<(SessionId, u32)>,
    /// Who is told that the request is in safe hands.
    pub(super) origin: Option<Origin>,
    /// The request's `id`.
    pub(super) id: Option<Box<str>>,
    /// Full JID of the asker.
    pub(super) from: Box<str>,
    /// The address asked, as far as one was given.
    pub(super) to: Option<Box<str>>,
}

impl Shard {
    /// Whether a session that has asked is still there.
    pub(super) fn asks_still(&self, asker: &Asker) -> bool {
        asker.session.is_some_and(|(session, _)| self.sessions.get(session).is_some())
    }

    /// A user has changed the own account.
    pub(super) fn note_change(&mut self, what: Happened, local: &str, asker: &Asker) {
        let conn = asker.session.and_then(|(session, _)| self.sessions.get(session)?.conn);
        let account = self.bare(local).into();
        self.effects.push(Effect::Note(Box::new(Note { what, account, peer: None, conn })));
    }

    /// Sends the answer to whoever asked.
    pub(super) fn answer(&mut self, asker: Asker, answer: Result<&[u8], Refusal>) {
        if let Err(refusal) = answer {
            self.limited(refusal, |_| bare_of(&asker.from).to_owned());
        }
        let (id, from, to) = (asker.id.as_deref(), asker.to.as_deref(), &*asker.from);
        let write = |out: &mut Vec<u8>| match answer {
            Ok(payload) => write_result(out, id, from, to, payload),
            Err(refusal) => write_error(out, "iq", id, from, Some(to), refusal),
        };
        match asker.session {
            Some((session, seq)) => {
                let mut out = Vec::with_capacity(256);
                write(&mut out);
                self.reply(session, &out);
                self.stanza_done(session, seq);
            }
            None => {
                let home = self.home(bare_of(to));
                self.post(home, Kind::Response, None, from.unwrap_or_default(), to, write);
                self.confirm(asker.origin);
            }
        }
    }
}

/// Writes an answer without an error (RFC 6120 8.2.3).
pub(super) fn write_result(out: &mut Vec<u8>, id: Option<&str>, from: Option<&str>, to: &str, payload: &[u8]) {
    out.extend_from_slice(b"<iq type='result'");
    for (name, value) in [("id", id), ("from", from), ("to", Some(to))] {
        if let Some(value) = value {
            write_attribute(out, name, value);
        }
    }
    if payload.is_empty() {
        out.extend_from_slice(b"/>");
        return;
    }
    out.push(b'>');
    out.extend_from_slice(payload);
    out.extend_from_slice(b"</iq>");
}
