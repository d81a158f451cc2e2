//! The written form of a batch of letters, for another process.
//!
//! Text and addresses are written once, as they are shared by the letters of a batch, and letters
//! refer to them by position. A batch that is read is checked: each position lies within it. The
//! gate is not written: a batch leaves its process when its gate is open.

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

use super::{
    BoshLetter, ChannelLetter, Delivery, Letter, Letters, LoginLetter, Name, NodeLetter, RoomLetter, Span, UserLetter,
};
use crate::id::{Border, Crosses, ShardId};
use crate::limits::CROSSING_LETTERS_MAX;

/// Bytes, written at once and not one by one.
struct Raw<'a>(&'a [u8]);

impl Serialize for Raw<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(self.0)
    }
}

#[derive(serde::Serialize)]
struct Writes<'a> {
    from: ShardId,
    names: &'a str,
    text: Raw<'a>,
    letters: &'a [Letter],
}

#[derive(serde::Deserialize)]
struct Reads<'a> {
    from: ShardId,
    names: &'a str,
    text: &'a [u8],
    letters: Vec<Letter>,
}

impl Serialize for Letters {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Letters { from, after: _, text, names, letters, expects: _ } = self;
        Writes { from: *from, names, text: Raw(text), letters }.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Letters {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Letters, D::Error> {
        let Reads { from, names, text, letters } = Reads::deserialize(from)?;
        if letters.len() > CROSSING_LETTERS_MAX {
            return Err(D::Error::custom("more letters in one batch than a turn may send"));
        }
        let batch = Letters { text: text.into(), names: names.into(), letters, ..Letters::new(from) };
        if !batch.letters.iter().all(|letter| batch.has(letter)) {
            return Err(D::Error::custom("a letter refers to text outside its batch"));
        }
        Ok(batch)
    }
}

impl PartialEq for Letters {
    /// Whether both contain the same letters of one sender. Gates are not compared.
    fn eq(&self, other: &Letters) -> bool {
        let parts = |batch: &Letters| (batch.from, batch.letters.len(), batch.text.len(), batch.names.len());
        parts(self) == parts(other)
            && self.letters == other.letters
            && self.text == other.text
            && self.names == other.names
    }
}

impl Crosses for Letters {
    fn cross(&mut self, border: Border) {
        for letter in &mut self.letters {
            letter.cross(border);
        }
    }
}

impl Crosses for Letter {
    fn cross(&mut self, border: Border) {
        match self {
            Letter::Bosh(BoshLetter::Moves(handover)) => handover.cross(border),
            Letter::Bosh(BoshLetter::Asked(_) | BoshLetter::Answer { .. } | BoshLetter::Left { .. }) => {}
            // No letter of these contains a monotonic time: what is left of a limit is a duration.
            Letter::Stanza { .. }
            | Letter::Delivery(_)
            | Letter::User(_)
            | Letter::Node(_)
            | Letter::Room(_)
            | Letter::Channel(_)
            | Letter::Login(_)
            | Letter::Component { .. } => {}
        }
    }
}

impl Letters {
    fn has_names(&self, names: &[Name]) -> bool {
        names.iter().all(|name| name.0.checked().is_some_and(|range| self.names.get(range).is_some()))
    }

    fn has_text(&self, spans: &[Span]) -> bool {
        spans.iter().all(|span| span.checked().is_some_and(|range| self.text.get(range).is_some()))
    }

    /// Whether all that a letter refers to is in this batch. Each variant names all its fields, so
    /// that none is forgotten.
    fn has(&self, letter: &Letter) -> bool {
        match letter {
            Letter::Stanza { kind: _, origin: _, from, to, xml } => {
                self.has_names(&[*from, *to]) && self.has_text(&[*xml])
            }
            Letter::Delivery(letter) => self.has_of_delivery(letter),
            Letter::User(letter) => self.has_of_user(letter),
            Letter::Node(letter) => self.has_of_node(letter),
            Letter::Room(letter) => self.has_of_room(letter),
            Letter::Channel(letter) => self.has_of_channel(letter),
            Letter::Login(letter) => self.has_of_login(letter),
            Letter::Bosh(
                BoshLetter::Asked(_)
                | BoshLetter::Answer { conn: _, number: _, reply: _ }
                | BoshLetter::Left { key: _, place: _, hurries: _ }
                | BoshLetter::Moves(_),
            )
            | Letter::Component { domain: _, there: _ } => true,
        }
    }

    fn has_of_delivery(&self, letter: &Delivery) -> bool {
        match letter {
            Delivery::Confirm { session: _, seq: _ }
            | Delivery::Took { session: _ }
            | Delivery::Safe { session: _, seq: _ } => true,
            Delivery::Refused { from, entry: _ } => self.has_names(&[*from]),
        }
    }

    fn has_of_user(&self, letter: &UserLetter) -> bool {
        match letter {
            UserLetter::Presence { news: _, from, to, xml } => self.has_names(&[*from, *to]) && self.has_text(&[*xml]),
            UserLetter::Event { node, from, subscribers, contacts, number: _, xml } => {
                self.has_names(&[*node, *from, *subscribers, *contacts]) && self.has_text(&[*xml])
            }
            UserLetter::Charge { session: _, user, work: _ } => self.has_names(&[*user]),
            UserLetter::AskLast { session: _, to, of, nodes, page: _ } => self.has_names(&[*to, *of, *nodes]),
            UserLetter::Looked { session: _, work: _ } => true,
        }
    }

    fn has_of_node(&self, letter: &NodeLetter) -> bool {
        match letter {
            NodeLetter::ServiceAnswered { id, from, outcome: _ } => self.has_names(&[*id, *from]),
            NodeLetter::Missed { node, number: _, users } => self.has_names(&[*node, *users]),
            NodeLetter::CatchUp { node, user } => self.has_names(&[*node, *user]),
            NodeLetter::CaughtUp { node, from, user, page } => {
                self.has_names(&[*node, *from, *user]) && self.has_text(&[*page])
            }
            NodeLetter::Belongs { to, node, own: _, row } => self.has_names(&[*to, *node]) && self.has_text(&[*row]),
            NodeLetter::Forget { node, user } => self.has_names(&[*node, *user]),
        }
    }

    fn has_of_room(&self, letter: &RoomLetter) -> bool {
        match letter {
            RoomLetter::Cast { kind: _, from, to, xml, number: _ } => {
                self.has_names(&[*from, *to]) && self.has_text(&[*xml])
            }
            RoomLetter::CatchUp { room, session, after: _, asked: _ } => self.has_names(&[*room, *session]),
            RoomLetter::CaughtUp { room, session, asked: _, page } => {
                self.has_names(&[*room, *session]) && self.has_text(&[*page])
            }
            RoomLetter::Knows { user, room, knows: _ } | RoomLetter::Forget { room, user } => {
                self.has_names(&[*room, *user])
            }
            RoomLetter::Gone { room, sessions } => self.has_names(&[*room, *sessions]),
            RoomLetter::Listed { room, row } => self.has_names(&[*room]) && self.has_text(&[*row]),
            RoomLetter::Count { token: _, user, rooms } => self.has_names(&[*user, *rooms]),
            RoomLetter::Alert { user, room, alert: _ } => self.has_names(&[*user, *room]),
            RoomLetter::Wake { from, to, xml } => self.has_names(&[*from, *to]) && self.has_text(&[*xml]),
            RoomLetter::Counted { token: _, counts } => self.has_text(&[*counts]),
        }
    }

    fn has_of_channel(&self, letter: &ChannelLetter) -> bool {
        match letter {
            ChannelLetter::Publish {
                conn: _,
                number: _,
                node,
                from,
                kind,
                key,
                keys,
                body,
                makes: _,
                granted: _,
                batch: _,
            } => self.has_names(&[*node, *from, *kind, *key, *keys]) && self.has_text(&[*body]),
            ChannelLetter::Read { conn: _, number: _, node, after: _, watchers: _, share: _ }
            | ChannelLetter::History { conn: _, number: _, node, after: _, before: _, items: _ }
            | ChannelLetter::Watch { node, heard: _, watchers: _ }
            | ChannelLetter::Stay { node }
            | ChannelLetter::Count { conn: _, number: _, node }
            | ChannelLetter::Listens { node, id: _, listens: _ }
            | ChannelLetter::Gone { node, behind: _ } => self.has_names(&[*node]),
            ChannelLetter::Answer { conn: _, number: _, refused: _, body } => self.has_text(&[*body]),
            ChannelLetter::News { node, number: _, key, item } => {
                self.has_names(&[*node, *key]) && self.has_text(&[*item])
            }
            ChannelLetter::Charge { address: _, told: _ } => true,
            ChannelLetter::Present { node, subscribers: _, names, whole: _, more: _, listens: _ }
            | ChannelLetter::Occupied { node, subscribers: _, names, more: _ } => {
                self.has_names(&[*node]) && self.has_text(&[*names])
            }
            ChannelLetter::Register { conn: _, number: _, node, from, id: _, row, makes: _ } => {
                self.has_names(&[*node, *from]) && self.has_text(&[*row])
            }
            ChannelLetter::Unregister { conn: _, number: _, node, from, id: _ }
            | ChannelLetter::Info { conn: _, number: _, node, from, granted: _, deletes: _ } => {
                self.has_names(&[*node, *from])
            }
        }
    }

    fn has_of_login(&self, letter: &LoginLetter) -> bool {
        match letter {
            LoginLetter::Ask { conn: _, account, question: _ }
            | LoginLetter::Spared { account, peer: _, seen: _ }
            | LoginLetter::KeysGained { account, gained: _ } => self.has_names(&[*account]),
            LoginLetter::Answer { conn: _, answer: _ }
            | LoginLetter::Filed { token: _ }
            | LoginLetter::Failed { peer: _ } => true,
        }
    }
}
