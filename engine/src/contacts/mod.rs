//! Rosters, subscriptions and presence (RFC 6121 2 to 4), and the receivers of events at nodes.
//! This module knows no passwords. It answers only roster requests.

mod announce;
mod befriend;
mod catch_up;
pub(crate) mod events;
mod interests;
mod items;
pub(crate) mod lasts;
pub(crate) mod presence;
mod renewal;
pub(crate) mod roster;
pub(crate) mod show;
pub(crate) mod stored;
mod subscribe;
mod walk;

use std::collections::VecDeque;

use hashbrown::HashSet;

use crate::contacts::announce::Announcements;
use crate::contacts::catch_up::CatchUps;
use crate::contacts::interests::Interests;
use crate::contacts::lasts::Lasts;
use crate::contacts::renewal::Round;
use crate::extension::presence::PresenceTable;
use crate::extension::pubsub::node::Node;
use crate::id::{SessionId, ShardId};
use crate::kernel::Fixed;
use crate::router::users::{Look, Parked, Seen};
use crate::settings::Settings;
use crate::store::sessions::KEY_BYTES;

/// A decision by a roster, for the shard to carry out.
#[derive(Debug)]
pub(crate) enum Decided {
    /// Whether the sender of this request may see the user's presence, and if so, its roster
    /// groups.
    Request { user: u32, parked: Parked, may: Option<Vec<Box<str>>> },
    /// The relation of the requester to the owner of nodes; `None` if the requester gets none.
    Last { look: Look, nodes: Vec<Node>, seen: Option<Seen> },
    /// A contact's subscription request has a token (XEP-0379 3.4): the user is not asked until the
    /// token has been checked.
    Shown { user: u32, contact: Box<str>, token: Box<str> },
    /// A page of a session's contacts was requested from these homes.
    Walked { session: SessionId, homes: Vec<ShardId> },
    /// A session has become available, or is no longer: whether it follows its user's log may
    /// have changed.
    Available(SessionId),
    /// All contacts of an account that is being removed have been notified.
    Left(u32),
}

/// Rosters and presence of a shard's users.
#[derive(Debug)]
pub(crate) struct Contacts {
    pub(crate) presence_table: PresenceTable,
    pub(crate) interests: Interests,
    lasts: Lasts,
    catch_ups: CatchUps,
    announcements: Announcements,
    /// Rounds after renewals of links; at most one per shard.
    rounds: VecDeque<Round>,
    /// Keys of sessions of an earlier process that have ended: reads that began before still return
    /// them. At most as many as were restored.
    pub(crate) ended_restored: HashSet<[u8; KEY_BYTES], Fixed>,
    /// Taken out when the input is handled.
    pub(crate) decided: Vec<Decided>,
}

impl Contacts {
    /// Creates the state without users. `seed` keys the table of presences.
    pub(crate) fn new(settings: &Settings, seed: u64) -> Contacts {
        let announcements = Announcements::new(settings.kept.clone());
        Contacts {
            announcements,
            presence_table: PresenceTable::new([seed, 0]),
            interests: Interests::default(),
            lasts: Lasts::default(),
            catch_ups: CatchUps::default(),
            rounds: VecDeque::new(),
            ended_restored: HashSet::default(),
            decided: Vec::new(),
        }
    }
}
