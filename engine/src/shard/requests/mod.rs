//! The answers of extensions, carried out step by step. A request comes from a session, from another home, or from a connection that
//! uses a channel.
//!
//! - `iq`: requests (RFC 6120 8.2.3), and the steps of those who answer; `in_turn`: one after another for each account
//! - `paced`: requests that wait for room for their answer
//! - `nodes` and `at_nodes`: actors of services with a domain of their own
//! - `at_channels`: what is asked of channels by HTTP, of which this is the home; `in_memory`: rows that are not in the store;
//!   `floors`: numbers that are not given out again
//! - `adhoc`: commands of users, and orders of administrators
//! - `bytestreams`: those that users want to begin, by the host's proxy
//! - `inbox`: what users have missed of rooms
//! - `reports`: to the operator
//! - `push`: services that wake devices are told of messages, by `pushes`
//! - `web_push`: pages that are closed are told of items; `web_push_ends` of their registrations

mod adhoc;
pub(crate) mod at_channels;
mod at_nodes;
mod bytestreams;
mod floors;
mod in_memory;
mod in_turn;
mod inbox;
mod iq;
mod nodes;
mod paced;
mod push;
mod pushes;
mod reports;
mod web_push;
mod web_push_ends;

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::extension::adhoc::sessions::Sessions;
use crate::extension::pubsub::service::in_memory::InMemory;
use crate::extension::pubsub::service::known::KnownNodes;
use crate::kernel::Fixed;
use crate::kernel::pending::FeatureRead;
use crate::shard::Shard;
use crate::shard::requests::bytestreams::Activations;
use crate::shard::requests::floors::Floors;
use crate::shard::requests::in_turn::Turns;
use crate::shard::requests::paced::Waiting;
use crate::shard::requests::pushes::Pushes;

/// Requests that are being answered at a shard.
#[derive(Debug)]
pub struct Requests {
    /// Requests that wait for room for their answer, by the user (bare JID) whose sessions ask; only
    /// of users of whom some are under way or wait.
    paced: HashMap<Box<str>, Waiting, Fixed>,
    turns: Turns,
    /// What is known of nodes of services of this home at which something was published lately.
    known_nodes: KnownNodes,
    /// Rows of nodes of this home whose items are kept in memory.
    in_memory: InMemory,
    /// Floors of the numbers of nodes of this home.
    floors: Floors,
    /// Of what was asked all is known here. Bounded by what one input asks: all go on before the next.
    known_reads: VecDeque<FeatureRead>,
    /// Open sessions of commands.
    adhoc: Sessions,
    /// Commands that are being carried out.
    orders_under_way: usize,
    activations: Activations,
    pushes: Pushes,
}

impl Requests {
    /// None.
    pub(super) fn new() -> Requests {
        Requests {
            paced: HashMap::default(),
            turns: Turns::default(),
            known_nodes: KnownNodes::default(),
            in_memory: InMemory::default(),
            floors: Floors::default(),
            known_reads: VecDeque::new(),
            adhoc: Sessions::default(),
            orders_under_way: 0,
            activations: Activations::default(),
            pushes: Pushes::default(),
        }
    }
}

impl Shard {
    /// What is known of nodes, and kept of them in memory only, bytes.
    pub(crate) fn known_nodes_bytes(&self) -> usize {
        let Requests { known_nodes, in_memory, floors, .. } = &self.requests;
        known_nodes.memory_bytes() + in_memory.memory_bytes() + floors.memory_bytes()
    }

    /// What is kept of services that wake devices: how many have not answered, and what all of it takes, bytes.
    pub(crate) fn pushes_held(&self) -> (u64, usize) {
        (self.requests.pushes.pending(), self.requests.pushes.memory_bytes())
    }
}
