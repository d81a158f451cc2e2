//! What subscribers of a node of a service are told.

use std::sync::Arc;

/// What some are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The service.
    pub from: Box<str>,
    /// Bare or full JIDs.
    pub to: Vec<Box<str>>,
    /// The message, without addresses.
    pub message: Arc<[u8]>,
}
