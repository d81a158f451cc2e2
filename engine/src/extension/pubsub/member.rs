//! One user's relation to a node of a service, as a row of its own, because a node may have very
//! many (XEP-0060 4.1, 4.2).

use super::error;
use super::node::{Affiliates, Affiliation, Reader, put_text};
use crate::follow::Follower;
use crate::store::{Batch, nodes as rows};
use crate::wire::jid::bare_of;

const FORMAT: u8 = 1;
/// The row of a subscriber that has missed items: its position follows.
const FORMAT_BEHIND: u8 = 2;

/// State of a user's subscription (XEP-0060 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum State {
    /// Not subscribed.
    #[default]
    None,
    /// Waits for an owner's approval.
    Pending,
    /// Subscribed, with this address.
    Subscribed,
    /// Withdrawn before an owner approved: the owner has been asked already.
    Withdrawn,
    /// Not known yet: the request is in flight to the node. Only in rows of users.
    UnderWay,
}

/// A user's relation to a node.
#[derive(Clone, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Member {
    /// Its affiliation.
    pub affiliation: Option<Affiliation>,
    /// The state of its subscription.
    pub state: State,
    /// The subscribed address, bare or full; empty if there is no subscription.
    pub address: Box<str>,
    /// Its position among the node's items. Only the position of a subscriber that is behind is
    /// stored, so subscribers at the head cost no writes.
    pub follower: Follower,
}

impl Member {
    /// Decodes the row; `None` if its format is unknown. No row means no relation.
    pub fn decode(row: Option<&[u8]>) -> Option<Member> {
        let Some(row) = row else { return Some(Member::default()) };
        let mut from = Reader(row);
        let format = from.byte().filter(|format| [FORMAT, FORMAT_BEHIND].contains(format))?;
        let affiliation = match from.byte()? {
            0 => None,
            1 => Some(Affiliation::Owner),
            2 => Some(Affiliation::Publisher),
            3 => Some(Affiliation::Member),
            4 => Some(Affiliation::Outcast),
            _ => return None,
        };
        let state = match from.byte()? {
            0 => State::None,
            1 => State::Pending,
            2 => State::Subscribed,
            3 => State::Withdrawn,
            4 => State::UnderWay,
            _ => return None,
        };
        let address = from.text()?;
        let follower = if format == FORMAT_BEHIND { Follower::behind(from.number()?) } else { Follower::default() };
        Some(Member { affiliation, state, address, follower })
    }

    /// The row; empty for no relation.
    pub fn encode(&self) -> Vec<u8> {
        if *self == Member::default() {
            return Vec::new();
        }
        let affiliation = match self.affiliation {
            None => 0,
            Some(Affiliation::Owner) => 1,
            Some(Affiliation::Publisher) => 2,
            Some(Affiliation::Member) => 3,
            Some(Affiliation::Outcast) => 4,
        };
        let state = match self.state {
            State::None => 0,
            State::Pending => 1,
            State::Subscribed => 2,
            State::Withdrawn => 3,
            State::UnderWay => 4,
        };
        let behind = self.follower.is_behind();
        let mut out = vec![if behind { FORMAT_BEHIND } else { FORMAT }, affiliation, state];
        put_text(&mut out, &self.address);
        if behind {
            out.extend_from_slice(&self.follower.at.to_be_bytes());
        }
        out
    }

    /// The same as lists with this user only.
    pub fn alone(self, bare: &str) -> Affiliates {
        let mut all = Affiliates::default();
        all.affiliations.extend(self.affiliation.map(|affiliation| (bare.into(), affiliation)));
        all.follower = self.follower;
        match self.state {
            State::None | State::UnderWay => {}
            State::Pending => all.pending.push(self.address),
            State::Subscribed => all.subscribers.push(self.address),
            State::Withdrawn => all.withdrawn.push(bare.into()),
        }
        all
    }

    /// The user's entries in lists.
    pub fn of(all: &Affiliates, bare: &str) -> Member {
        let first = |list: &[Box<str>]| list.iter().find(|jid| bare_of(jid) == bare).cloned();
        let affiliation = all.affiliation(bare);
        let lists =
            [(State::Subscribed, &all.subscribers), (State::Pending, &all.pending), (State::Withdrawn, &all.withdrawn)];
        let found = lists.into_iter().find_map(|(state, list)| Some((state, first(list)?)));
        match found {
            Some((State::Withdrawn, _)) => Member { affiliation, state: State::Withdrawn, ..Member::default() },
            // A subscription of a resource does not follow.
            Some((State::Subscribed, address)) => {
                let follower = if *address == *bare { all.follower } else { Follower::default() };
                Member { affiliation, state: State::Subscribed, address, follower }
            }
            Some((state, address)) => Member { affiliation, state, address, ..Member::default() },
            None => Member { affiliation, ..Member::default() },
        }
    }

    /// Whether it counts towards the node's subscribers, including pending ones.
    pub fn counts(&self) -> bool {
        matches!(self.state, State::Subscribed | State::Pending)
    }

    /// Whether it counts towards the affiliations besides the owners.
    pub fn is_listed(&self) -> bool {
        !matches!(self.affiliation, None | Some(Affiliation::Owner))
    }

    /// Writes the rows of a user at a node.
    pub fn put(&self, batch: &mut Batch, actor: &str, bare: &str) {
        rows::Named::Members.put(batch, actor, bare, &self.encode());
        let alone = Member { affiliation: self.affiliation, ..Member::default() };
        rows::Named::Affiliated.put(batch, actor, bare, &alone.encode());
    }
}

/// The name of an affiliation (XEP-0060 4.1).
pub fn name(affiliation: Option<Affiliation>) -> &'static str {
    match affiliation {
        None => "none",
        Some(Affiliation::Owner) => "owner",
        Some(Affiliation::Publisher) => "publisher",
        Some(Affiliation::Member) => "member",
        Some(Affiliation::Outcast) => "outcast",
    }
}

/// An owner changes a user's subscription. Returns the new state and the address, if it has
/// changed.
pub(super) fn change(
    all: &mut Affiliates,
    jid: &str,
    on: bool,
) -> Result<Option<(Box<str>, &'static str)>, error::Error> {
    let bare = bare_of(jid);
    let member = Member::of(all, bare);
    match (on, all.is_subscribed(bare), all.pending(bare)) {
        (true, true, _) | (false, false, None) => Ok(None),
        (true, false, Some(address)) => {
            all.subscribe(&address);
            Ok(Some((address, "subscribed")))
        }
        // A user who has not requested a subscription must not receive unwanted items.
        (true, false, None) => Err(error::NOT_ACCEPTABLE),
        (false, ..) => {
            all.end(bare);
            Ok(Some((member.address, "none")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_row_is_read_without_a_panic(row in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = Member::decode(Some(&row));
        }
    }

    #[test]
    fn members_read_back_from_rows_and_from_lists() {
        use Affiliation as A;
        for affiliation in [None, Some(A::Owner), Some(A::Publisher), Some(A::Member), Some(A::Outcast)] {
            for (state, address) in
                [(State::None, ""), (State::Pending, "a@x/r"), (State::Subscribed, "a@x"), (State::Withdrawn, "")]
            {
                let mut member = Member { affiliation, state, address: address.into(), ..Member::default() };
                for missed in [None, Some(7)] {
                    missed.into_iter().filter(|_| state == State::Subscribed).for_each(|n| member.follower.miss(n));
                    let row = member.encode();
                    let read = Member::decode((!row.is_empty()).then_some(&row)).unwrap();
                    assert_eq!(read, member);
                    assert_eq!(Member::of(&read.alone("a@x"), "a@x"), member);
                }
            }
        }
        assert_eq!(Member::decode(None), Some(Member::default()));
        assert_eq!(Member::decode(Some(&[3, 0, 0, 0, 0])), None);
    }
}
