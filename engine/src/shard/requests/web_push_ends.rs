//! Registrations for pushes that are over go, also at channels at which nothing is published any more: the host names channels of this home a
//! few at a time, slowly, and their registrations are read. A round of pushes finds those of its channel by itself.

use crate::extension::pubsub::service::registration::{Registration, Removal};
use crate::io::{Effect, Reply, StorageState};
use crate::kernel::pending::{ChannelRead, EndsRead, Pending};
use crate::limits::{NOTIFY_PUSH_ENDS_BYTES_MAX, NOTIFY_PUSH_PAGE};
use crate::shard::Shard;
use crate::store::nodes as rows;
use crate::store::{Found, Row};

/// Whether there may be registrations, by the row that counts them. What cannot be read is looked for.
fn may_have_some(found: &Found) -> bool {
    let Found::Value(row) = found else { return true };
    rows::read_push_count(row.as_deref()) != Some(0)
}

impl Shard {
    /// Looks for registrations at these channels that are over; [`Requests::ends_found`] goes on.
    pub(crate) fn look_for_ends(&mut self, token: u64, nodes: Vec<Box<str>>) {
        let queries: Vec<_> = nodes.iter().map(|node| rows::push_count(node, b"")).collect();
        let read = EndsRead { token, nodes, at: None, ended: 0 };
        match queries.is_empty() {
            true => self.ends_found(read, &[]),
            false => self.cx.kernel.read(Pending::Channel(ChannelRead::Ends(read)), queries),
        }
    }

    /// How many registrations each channel has, or the next ones of one channel.
    pub(crate) fn ends_found(&mut self, mut read: EndsRead, found: &[Found]) {
        if self.cx.kernel.storage == StorageState::Full {
            return self.cx.kernel.effects.push(Effect::Reply {
                token: read.token,
                reply: Reply::StoreFull,
                durable: false,
            });
        }
        match read.at.take() {
            None => {
                let mut found = found.iter();
                read.nodes.retain(|_| found.next().is_some_and(may_have_some));
            }
            Some((node, _)) => {
                // Of those that cannot be read nothing goes.
                if let Some(Found::Rows { rows, more }) = found.first() {
                    read.ended += self.end_those_over(&node, rows);
                    let last = rows.last().and_then(|row| rows::push_id(&row.sort));
                    read.at = last.filter(|_| *more).map(|last| (node, Some(last)));
                }
            }
        }
        let next = read.at.take().or_else(|| Some((read.nodes.pop()?, None)));
        let Some((node, after)) = next else {
            let reply = Reply::Done(read.ended);
            return self.cx.kernel.effects.push(Effect::Reply { token: read.token, reply, durable: false });
        };
        let queries = vec![rows::pushes(&node, after, NOTIFY_PUSH_PAGE, NOTIFY_PUSH_ENDS_BYTES_MAX)];
        read.at = Some((node, after));
        self.cx.kernel.read(Pending::Channel(ChannelRead::Ends(read)), queries);
    }

    /// Of these registrations of a channel those go that are over; how many.
    fn end_those_over(&mut self, node: &str, found: &[Row]) -> u32 {
        let mut over = Vec::new();
        for row in found {
            let (Some(id), Some(registration)) = (rows::push_id(&row.sort), Registration::decode(&row.value)) else {
                continue;
            };
            if self.is_over(&registration) {
                over.push(Removal { id, over: Some(row.value.clone()) });
            }
        }
        let ended = over.len() as u32;
        self.end_registrations(node, over);
        ended
    }
}
