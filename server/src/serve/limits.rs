//! Clients and accounts held by limits, collected from all shards, and their release.

use std::collections::BTreeMap;
use std::net::IpAddr;

use throng_engine::io::{Command, LimitCommand, Reply, SessionCommand, Whom};

use super::control::{Running, answered, done, internal};
use crate::admin::{Fault, HELD_ROWS_MAX, Held, HeldRow, OPENING_ROWS_MAX, OpeningRow, Release};

impl Running {
    /// Those held, over all shards.
    pub(super) fn held_by_limits(&self) -> Result<Held, Fault> {
        let now_s = self.links.clock.now().wall_us / 1_000_000;
        let mut rows = Vec::new();
        for answer in self.ask_all(&Command::Limit(LimitCommand::List)) {
            let Reply::Limits(held) = answer? else { return Err(internal("an answer to another question")) };
            rows.extend(held.into_iter().map(|row| HeldRow {
                limit: row.limit.name().to_owned(),
                who: row.who,
                since_s: now_s.saturating_sub(row.since_ms / 1_000),
                until_s: row.left_ms.map(|left_ms| now_s + left_ms.div_ceil(1_000)),
                refused: row.refused,
            }));
        }
        rows.sort_by(|a, b| b.since_s.cmp(&a.since_s).then_with(|| a.who.cmp(&b.who)));
        let more = rows.len().saturating_sub(HELD_ROWS_MAX) as u64;
        rows.truncate(HELD_ROWS_MAX);
        Ok(Held { rows, more })
    }

    /// Addresses of unauthenticated connections, over all shards.
    pub(super) fn openings_by_address(&self) -> Result<Vec<OpeningRow>, Fault> {
        let mut counts: BTreeMap<IpAddr, u64> = BTreeMap::new();
        // Shards share the connections of a port evenly: the addresses with most connections
        // overall are among those with most at some shard.
        let command = Command::Session(SessionCommand::Openings { most: 4 * OPENING_ROWS_MAX as u32 });
        for answer in self.ask_all(&command) {
            let Reply::Openings(rows) = answer? else { return Err(internal("an answer to another question")) };
            rows.into_iter().for_each(|(address, count)| *counts.entry(address).or_default() += u64::from(count));
        }
        let mut rows: Vec<_> = counts.into_iter().collect();
        rows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let row = |(address, connections): (IpAddr, u64)| OpeningRow { address: address.to_string(), connections };
        Ok(rows.into_iter().take(OPENING_ROWS_MAX).map(row).collect())
    }

    /// Releases an address, an account or all, at all shards: pairs are counted by the accounts'
    /// home shards.
    pub(super) fn let_go(&self, by: &str, whom: &Release) -> Result<u64, Fault> {
        let (whom, named) = match whom {
            Release::Address(address) => (Whom::Address(*address), address.to_string()),
            Release::Account(user) => {
                let jid = self.jid(user)?;
                (Whom::Account(jid.bare().as_str().into()), jid.bare().as_str().to_owned())
            }
            Release::All => (Whom::All, "all".to_owned()),
        };
        let mut count = 0;
        for answer in self.ask_all(&Command::Limit(LimitCommand::Release { whom })) {
            count += done(answer?, "limit")?;
        }
        self.note_order(by, "limits release", named, count);
        Ok(count)
    }

    fn ask_all(&self, command: &Command) -> Vec<Result<Reply, Fault>> {
        let asked: Vec<_> = (0..self.shards()).map(|shard| self.put_patiently(shard, command, None)).collect();
        asked.into_iter().map(|asked| answered(&asked?).map(|answer| answer.reply)).collect()
    }
}
