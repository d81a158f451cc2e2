//! The contacts' floor: rosters, subscriptions, and who sees whose presence (RFC 6121 2 to 4). It knows no passwords and answers
//! no requests but those for a roster.

mod items;
pub(crate) mod presence;
pub(crate) mod roster;
pub(crate) mod show;
mod subscribe;

use crate::extension::presence::PresenceTable;
use crate::floor::stands_on;
use crate::logs::Logs;
use crate::router::users::Parked;

/// What a roster has decided, for a higher floor to carry out.
#[derive(Debug)]
pub(crate) enum Decided {
    /// Whether the sender of this request may see the user's presence.
    Request { user: u32, parked: Parked, may: bool },
    /// All contacts of an account that is being removed are told.
    Left(u32),
}

/// Rosters and presence of a shard's users.
#[derive(Debug)]
pub struct Contacts {
    logs: Logs,
    pub(crate) presence_table: PresenceTable,
    /// Taken out when the input is handled.
    pub(crate) decided: Vec<Decided>,
}

stands_on!(Contacts, logs: Logs);

impl Contacts {
    /// Nobody's. `seed` keys the table of presences.
    pub(crate) fn new(logs: Logs, seed: u64) -> Contacts {
        Contacts { logs, presence_table: PresenceTable::new([seed, 0]), decided: Vec::new() }
    }
}
