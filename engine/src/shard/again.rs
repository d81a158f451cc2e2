//! A message that is sent again after a crash, because nobody knows whether its receiver has it (XEP-0198 4): the receiver's home
//! looks. The receiver's entry has a higher number than the sender's (`number_after`), and the same bytes. What comes from the same
//! sender meanwhile goes behind it (RFC 6120 10.1); others do not wait.

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

/// Pages of a receiver's log that are looked through: one that was written in the same second as the sender's entry is in the first
/// ones.
const PAGES_MAX: u8 = 32;

/// Senders and receivers in whose log a message is being looked for, and what has come from the one for the other behind it:
/// [`PARKED_STANZAS_MAX`] each at most.
pub(super) type Agains = BTreeMap<Box<str>, VecDeque<Parked>>;

/// Who says something to whom. A bare JID has no space in it.
fn pair(stanza: &Incoming<'_>) -> String {
    format!("{} {}", stanza.from, bare_of(stanza.to))
}

fn is_again(stanza: &Incoming<'_>) -> bool {
    stanza.origin.is_some_and(|origin| origin.entry & AGAIN != 0)
}

impl Shard {
    /// A stanza has to wait: it may have come before, or goes behind one that may have. Whether it does.
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

    /// A page of the receiver's log. Returns the stanzas whose turn it is now: none while it is still looked for.
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

    /// The receiver's log cannot be read: the sender hears so, as with any other message then. Returns the stanzas whose turn it is now.
    pub(super) fn again_unreadable(&mut self, read: &AgainRead) -> Vec<Parked> {
        self.actors.turn_away(&mut self.cx, (&read.stanza).into(), StanzaCondition::InternalServerError);
        let mut next = Vec::new();
        self.again_over(&pair(&(&read.stanza).into()), &mut next);
        next
    }

    /// What has come behind it follows, up to the next one that has to be looked for.
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
