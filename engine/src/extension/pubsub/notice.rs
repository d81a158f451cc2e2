//! Notifications to subscribers of a service's node.

use std::sync::Arc;

/// A notification to some subscribers.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Notice {
    /// The node's actor.
    pub node: Box<str>,
    /// The service.
    pub from: Box<str>,
    /// Bare or full JIDs.
    pub to: Vec<Box<str>>,
    /// The item's number, if subscribers that are away get it later; otherwise 0.
    pub number: u64,
    /// The message, without addresses.
    pub message: Arc<[u8]>,
}

/// An item that was published at a node of a service.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct News {
    /// The node's actor.
    pub actor: Box<str>,
    /// Whether everybody may read the node.
    pub open: bool,
    /// The item's number, which increases with each publication at the node.
    pub number: u64,
    /// When it was published, microseconds since the Unix epoch.
    pub at_us: u64,
    /// Its id.
    pub id: Box<str>,
    /// The payload.
    pub payload: Vec<u8>,
}
