//! Finds connections and logs with a large backlog and their owners, for the backlog watch. Each
//! look is bounded, whatever the size of the shard, so that it never makes a turn long.

use std::cmp::Reverse;

use crate::io::{BacklogRow, HELD_BACK_LATELY_MS, Reply, SLOTS_A_LOOK};
use crate::session::conn::ConnState;
use crate::shard::Shard;
use crate::wire::limit::Limit;

impl Shard {
    pub(super) fn backlogs(&self, from_slot: u32, bytes_min: usize, most: u32) -> Reply {
        let until = from_slot.saturating_add(SLOTS_A_LOOK);
        let outbound =
            (from_slot..until.min(self.cx.conns.slots())).filter_map(|slot| self.outbound_of(slot, bytes_min));
        let replays = (from_slot..until.min(self.actors.users.slots())).filter_map(|user| self.replay_of(user));
        let mut rows: Vec<BacklogRow> = outbound.chain(replays).collect();
        // Bytes and messages are not comparable: the largest of each kind.
        rows.sort_by_key(|row| match row {
            BacklogRow::Outbound { bytes, .. } => (false, Reverse(*bytes)),
            BacklogRow::Replay { messages, .. } => (true, Reverse(*messages as usize)),
            BacklogRow::HeldBack { times, .. } => (true, Reverse(*times as usize)),
            BacklogRow::Room { stanzas, .. } => (true, Reverse(*stanzas as usize)),
        });
        let connections = rows.partition_point(|row| matches!(row, BacklogRow::Outbound { .. }));
        let mut replays = rows.split_off(connections);
        rows.truncate(most as usize);
        replays.truncate(most as usize);
        rows.append(&mut replays);
        if from_slot == 0 {
            rows.extend(self.accounts_held_back(most));
            let room = self.rooms.longest();
            rows.extend(room.map(|(jid, stanzas)| BacklogRow::Room { jid: jid.to_owned(), stanzas: stanzas as u32 }));
        }
        let more = until < self.cx.conns.slots().max(self.actors.users.slots());
        Reply::Backlogs { rows, next: more.then_some(until) }
    }

    /// Accounts that exceed their rate, those held back most often first.
    fn accounts_held_back(&self, most: u32) -> Vec<BacklogRow> {
        let lately = self.cx.kernel.refusals.lately(self.cx.kernel.now.mono_ms, Limit::Stanzas, HELD_BACK_LATELY_MS);
        let mut lately: Vec<_> = lately.collect();
        lately.sort_by_key(|(_, _, times)| Reverse(*times));
        lately.truncate(most as usize);
        let row = |(who, since_ms, times): (&str, u64, u64)| BacklogRow::HeldBack {
            jid: who.to_owned(),
            times,
            since_s: since_ms / 1_000,
        };
        lately.into_iter().map(row).collect()
    }

    fn outbound_of(&self, slot: u32, bytes_min: usize) -> Option<BacklogRow> {
        let conn = self.cx.conns.look(slot)?;
        let outbound = conn.outbound.as_ref().filter(|outbound| outbound.bytes() >= bytes_min)?;
        let ConnState::Bound(session) = *conn.state() else { return None };
        self.actors.sessions.get(session)?;
        let stalled_s =
            if outbound.is_sending() { self.cx.kernel.now.mono_s().saturating_sub(outbound.since_s()) } else { 0 };
        Some(BacklogRow::Outbound {
            jid: self.actors.full_jid(session),
            conn: self.cx.conns.id(slot),
            bytes: outbound.bytes(),
            sent_bytes: outbound.sent_bytes(),
            stalled_s,
        })
    }

    fn replay_of(&self, user: u32) -> Option<BacklogRow> {
        let entry = self.actors.users.get(user);
        let (messages, _) = entry.state.as_ref()?.log.as_ref()?.waiting();
        let under_way = self.logs.has_followers_behind(&self.actors, user) && messages > 0;
        under_way.then(|| BacklogRow::Replay { jid: self.actors.bare_of_user(user), messages })
    }
}
