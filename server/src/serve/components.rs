//! The configured external components (XEP-0114) and their state, for an operator.

use throng_engine::io::{Command, Reply};

use super::control::{Running, internal};
use crate::admin::{ComponentRow, Fault};
use crate::thread::Answer;

impl Running {
    /// All components, in the order of their domains.
    pub(super) fn list_components(&self) -> Result<Vec<ComponentRow>, Fault> {
        let domains = self.links.settings.component_secrets.iter().map(|(domain, _)| domain.to_string());
        let mut rows: Vec<ComponentRow> =
            domains.map(|domain| ComponentRow { domain, ..ComponentRow::default() }).collect();
        for shard in 0..self.shards() {
            let Answer { reply, streams } = self.ask_thread(shard, Command::Components)?;
            let Reply::Components(there) = reply else { return Err(internal("an answer to another question")) };
            for (one, stream) in there.into_iter().zip(streams) {
                let Some(row) = rows.iter_mut().find(|row| row.domain == one.domain) else { continue };
                *row = ComponentRow {
                    domain: one.domain,
                    connected: true,
                    address: stream.peer.map(|peer| peer.to_string()),
                    shard: shard as u32,
                    age_s: one.since_s.into(),
                    idle_s: one.idle_s.into(),
                    stanzas_in: one.stanzas_in,
                    stanzas_out: one.stanzas_out,
                    refused: one.refused,
                    waiting: one.waiting as u64,
                    waiting_bytes: one.waiting_bytes as u64,
                };
            }
        }
        rows.sort_by(|a, b| a.domain.cmp(&b.domain));
        Ok(rows)
    }
}
