//! Owners of the backlogs of a shard: the watch asks, the shard searches page by page, and the wait
//! for its answer is bounded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use throng_engine::io::{BacklogRow, Command, LogCommand, Reply};

use super::control::Running;
use crate::record::owners::{OUTBOUND_BYTES_MIN, Owed, Owners, ROWS_A_SHARD};
use crate::thread::{Answer, Stream};
use crate::waits::{self, Place};

/// Time for all pages of a shard: it examines some thousand connections per turn.
const PATIENCE: Duration = Duration::from_millis(500);

/// Queries shards for the watch, which ends before they do.
pub(super) struct Asking(pub(super) Arc<Running>);

impl Owners for Asking {
    fn longest(&self, shard: usize) -> Option<Vec<Owed>> {
        let end = Instant::now() + PATIENCE;
        let (mut found, mut from_slot) = (Vec::new(), 0);
        loop {
            let command =
                Command::Log(LogCommand::Backlogs { from_slot, bytes_min: OUTBOUND_BYTES_MIN, most: ROWS_A_SHARD });
            let answer = self.0.put(shard, command, None).ok()?;
            let Answer { reply, streams } = {
                let _at = waits::at(Place::ShardAnswer);
                answer.recv_timeout(end.saturating_duration_since(Instant::now())).ok()?
            };
            let Reply::Backlogs { rows, next } = reply else { return None };
            found.extend(rows.into_iter().zip(streams).map(|(row, stream)| owed(shard, row, stream)));
            match next {
                Some(next) => from_slot = next,
                None => return Some(longest(found)),
            }
        }
    }
}

/// The longest of each kind.
fn longest(mut found: Vec<Owed>) -> Vec<Owed> {
    found.sort_by_key(|owed| match owed {
        Owed::Connection { bytes, .. } => (false, std::cmp::Reverse(*bytes)),
        Owed::Waiting { messages, .. } => (true, std::cmp::Reverse(*messages)),
        Owed::Account { times, .. } => (true, std::cmp::Reverse(*times)),
        Owed::Room { stanzas, .. } => (true, std::cmp::Reverse(*stanzas)),
    });
    let (mut connections, mut logs, mut accounts, mut rooms) = (0, 0, 0, 0);
    found.retain(|owed| {
        let count = match owed {
            Owed::Connection { .. } => &mut connections,
            Owed::Waiting { .. } => &mut logs,
            Owed::Account { .. } => &mut accounts,
            Owed::Room { .. } => &mut rooms,
        };
        *count += 1;
        *count <= ROWS_A_SHARD
    });
    found
}

fn owed(shard: usize, row: BacklogRow, stream: Stream) -> Owed {
    match row {
        BacklogRow::Outbound { jid, bytes, sent_bytes, stalled_s, .. } => Owed::Connection {
            shard,
            jid,
            peer: stream.peer.map(|peer| peer.to_string()),
            bytes: bytes as u64,
            sent_bytes,
            stalled_s: u64::from(stalled_s),
        },
        BacklogRow::Room { jid, stanzas } => Owed::Room { jid, stanzas: u64::from(stanzas) },
        BacklogRow::Replay { jid, messages } => Owed::Waiting { jid, messages: u64::from(messages) },
        BacklogRow::HeldBack { jid, times, since_s } => Owed::Account { jid, times, since_s },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_all_pages_the_longest_of_each_sort_stay() {
        let waiting = |messages| Owed::Waiting { jid: format!("user{messages}@localhost"), messages };
        let connection =
            |bytes| Owed::Connection { shard: 1, jid: "a@b/c".into(), peer: None, bytes, sent_bytes: 0, stalled_s: 0 };
        let found = (1..=30).flat_map(|n| [waiting(n), connection(n * 100)]).collect();
        let expected: Vec<_> =
            (21..=30).rev().map(|n| connection(n * 100)).chain((21..=30).rev().map(waiting)).collect();
        assert_eq!(longest(found), expected);
    }
}
