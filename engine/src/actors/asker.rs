//! Return paths for answers: to a session of this shard, or to a user elsewhere.

use crate::actors::Actors;
use crate::io::{Effect, Happened, Note};
use crate::kernel::pending::Asker;
use crate::letters::{ChannelLetter, Kind, Letter};
use crate::streams::Streams;
use crate::wire::jid::bare_of;
use crate::wire::limit::Refusal;
use crate::wire::written::{write_error, write_result};

impl Actors {
    /// Whether a session that made a request still exists.
    pub(crate) fn asks_still(&self, asker: &Asker) -> bool {
        asker.session.is_some_and(|(session, _)| self.sessions.get(session).is_some())
    }

    /// A user has changed their own account.
    pub(crate) fn note_change(&mut self, cx: &mut Streams, what: Happened, account: &str, asker: &Asker) {
        let conn = asker.session.and_then(|(session, _)| cx.conn_of(session));
        let account = account.into();
        cx.kernel.effects.push(Effect::Note(Box::new(Note { what, account, peer: None, conn })));
    }

    /// Sends the answer to the requester.
    pub(crate) fn answer(&mut self, cx: &mut Streams, asker: Asker, answer: Result<&[u8], Refusal>) {
        if asker.is_nobody() {
            return cx.kernel.confirm(asker.origin);
        }
        if let Err(refusal) = answer {
            cx.kernel.limited(refusal, || bare_of(&asker.from).to_owned());
        }
        if let Some(front) = asker.front {
            let letters = cx.kernel.letters_to(front.conn.shard);
            let body = letters.write(answer.unwrap_or_default());
            let (conn, number) = (front.conn.conn, front.number);
            return letters.push(Letter::Channel(ChannelLetter::Answer {
                conn,
                number,
                refused: answer.err().map(Box::new),
                body,
            }));
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
                self.reply(cx, session, &out);
                if !asker.paced {
                    self.stanza_done(cx, session, seq);
                }
            }
            None => {
                let home = cx.kernel.home(bare_of(to));
                cx.kernel.post(home, Kind::Response, None, from.unwrap_or_default(), to, write);
                cx.kernel.confirm(asker.origin);
            }
        }
    }
}
