//! Messages that are sent again after a crash, because their receiver may not have them (XEP-0198
//! 4). The receiver's home looks for them in its log. The receiver's entry has a higher number than
//! the sender's (`number_after`), and the same bytes. Later stanzas of the same sender queue behind
//! the message (RFC 6120 10.1); those of others do not wait.

use std::collections::{BTreeMap, VecDeque};

use crate::kernel::pending::{AgainRead, Pending, SessionRead};
use crate::letters::{AGAIN, Origin};
use crate::limits::PARKED_STANZAS_MAX;
use crate::logs::read::{Item, page};
use crate::router::users::{Incoming, Parked};
use crate::shard::Shard;
use crate::shard::tail::tail_queries;
use crate::store::Found;
use crate::wire::error::StanzaCondition;
use crate::wire::jid::bare_of;
use crate::wire::limit::Limit;

/// Pages of a receiver's log that are searched. An entry from the same second as the sender's is in
/// the first of them.
const PAGES_MAX: u8 = 32;

/// Pairs of sender and receiver in whose log a message is being searched for, with the later
/// stanzas of the pair: [`PARKED_STANZAS_MAX`] each at most.
pub(super) type Agains = BTreeMap<Box<str>, VecDeque<Parked>>;

/// The key of a sender and a receiver. A bare JID has no space in it.
fn pair(stanza: &Incoming<'_>) -> String {
    format!("{} {}", stanza.from, bare_of(stanza.to))
}

fn is_again(stanza: &Incoming<'_>) -> bool {
    stanza.origin.is_some_and(|origin| origin.entry & AGAIN != 0)
}

impl Shard {
    /// Holds a stanza that the receiver may already have, or that follows such a stanza of its
    /// sender. Returns whether it was held.
    #[inline]
    pub(super) fn waits_for_again(&mut self, stanza: Incoming<'_>) -> bool {
        let waits = is_again(&stanza) || (!self.agains.is_empty() && self.agains.contains_key(&*pair(&stanza)));
        if waits {
            self.came_again(stanza);
        }
        waits
    }

    #[cold]
    fn came_again(&mut self, stanza: Incoming<'_>) {
        let pair = pair(&stanza);
        match self.agains.get_mut(&*pair) {
            Some(behind) if behind.len() >= PARKED_STANZAS_MAX => {
                self.actors.turn_away(&mut self.cx, stanza, Limit::Waiting)
            }
            Some(behind) => behind.push_back(stanza.into()),
            None => {
                self.agains.insert(pair.into(), VecDeque::new());
                self.look_for_first(stanza.into());
            }
        }
    }

    fn look_for_first(&mut self, stanza: Parked) {
        let after = stanza.origin.map_or(0, |origin| origin.entry & !AGAIN);
        self.look_for_again(AgainRead { stanza, after, pages: PAGES_MAX });
    }

    fn look_for_again(&mut self, read: AgainRead) {
        let queries = tail_queries(bare_of(&read.stanza.to), read.after, None);
        self.cx.kernel.read(Pending::Session(SessionRead::Again(Box::new(read))), queries);
    }

    /// A page of the receiver's log has been read. Returns the stanzas that may proceed: none while
    /// the search goes on.
    pub(super) fn again_found(&mut self, mut read: AgainRead, found: Vec<Found>) -> Vec<Parked> {
        let (items, end) = page(&found);
        let Parked { from, xml, .. } = &read.stanza;
        let same = |item: &Item<'_>| item.entry.peer == &**from && item.entry.xml == &**xml;
        let has_it = items.iter().any(|item| item.entry.incoming && same(item));
        if let Some(end) = end.filter(|&end| !has_it && end > read.after && read.pages > 0) {
            (read.after, read.pages) = (end, read.pages - 1);
            self.look_for_again(read);
            return Vec::new();
        }
        let pair = pair(&(&read.stanza).into());
        let mut next = Vec::new();
        if has_it {
            self.cx.kernel.confirm(read.stanza.origin);
        } else {
            let origin = read.stanza.origin.map(|origin| Origin { entry: origin.entry & !AGAIN, ..origin });
            next.push(Parked { origin, ..read.stanza });
        }
        self.again_over(&pair, &mut next);
        next
    }

    /// The receiver's log cannot be read: the sender gets an error, as for any message then.
    /// Returns the stanzas that may proceed.
    pub(super) fn again_unreadable(&mut self, read: &AgainRead) -> Vec<Parked> {
        self.actors.turn_away(&mut self.cx, (&read.stanza).into(), StanzaCondition::InternalServerError);
        let mut next = Vec::new();
        self.again_over(&pair(&(&read.stanza).into()), &mut next);
        next
    }

    /// Adds the stanzas that were queued behind, up to the next one that must be searched for.
    fn again_over(&mut self, pair: &str, next: &mut Vec<Parked>) {
        while let Some(behind) = self.agains.get_mut(pair) {
            let Some(stanza) = behind.pop_front() else {
                self.agains.remove(pair);
                return;
            };
            if is_again(&(&stanza).into()) {
                return self.look_for_first(stanza);
            }
            next.push(stanza);
        }
    }
}
