//! A message that is sent again after a crash, because nobody knows whether its receiver has it (XEP-0198 4): the receiver's home
//! looks. The receiver's entry has a higher number than the sender's (`number_after`), and the same bytes.

use crate::letters::{AGAIN, Origin};
use crate::logs::read::{Item, page};
use crate::router::users::{Incoming, Parked};
use crate::shard::Shard;
use crate::shard::tail::tail_queries;
use crate::store::Found;
use crate::turn::pending::{AgainRead, Pending};
use crate::wire::error::StanzaCondition;
use crate::wire::jid::bare_of;

/// Pages of a receiver's log that are looked through: one that was written in the same second as the sender's entry is in the first
/// ones.
const PAGES_MAX: u8 = 32;

impl Shard {
    /// A message has come that may have come before.
    pub(super) fn came_again(&mut self, stanza: Incoming<'_>) {
        let after = stanza.origin.map_or(0, |origin| origin.entry & !AGAIN);
        self.look_for_again(AgainRead { stanza: stanza.into(), after, pages: PAGES_MAX });
    }

    fn look_for_again(&mut self, read: AgainRead) {
        let queries = tail_queries(bare_of(&read.stanza.to), read.after, None);
        self.read(Pending::Again(Box::new(read)), queries);
    }

    /// A page of the receiver's log. If the message is not there, it is returned, to be delivered.
    pub(super) fn again_found(&mut self, mut read: AgainRead, found: Vec<Found>) -> Option<Parked> {
        let (items, end) = page(&found);
        let Parked { from, xml, .. } = &read.stanza;
        let same = |item: &Item<'_>| item.entry.peer == &**from && item.entry.xml == &**xml;
        if items.iter().any(|item| item.entry.incoming && same(item)) {
            self.confirm(read.stanza.origin);
            return None;
        }
        if let Some(end) = end.filter(|&end| end > read.after && read.pages > 0) {
            (read.after, read.pages) = (end, read.pages - 1);
            self.look_for_again(read);
            return None;
        }
        let origin = read.stanza.origin.map(|origin| Origin { entry: origin.entry & !AGAIN, ..origin });
        Some(Parked { origin, ..read.stanza })
    }

    /// The receiver's log cannot be read: the sender hears so, as with any other message then.
    pub(super) fn again_unreadable(&mut self, read: &AgainRead) {
        self.turn_away((&read.stanza).into(), StanzaCondition::InternalServerError);
    }
}
