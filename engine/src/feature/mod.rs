//! What the server does beyond carrying stanzas: one file an extension, as pure functions that return closed enums.
//!
//! A feature never reads, writes or sends, and never calls another one: it is handed what it needs and says what should
//! follow; `shard` carries it out.

pub mod roster;
pub mod roster_iq;
pub mod subscription;
pub mod xml;

/// Stanza error conditions (RFC 6120 8.3.3) that features answer with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// `<bad-request/>`
    BadRequest,
    /// `<item-not-found/>`
    ItemNotFound,
    /// `<not-acceptable/>`
    NotAcceptable,
    /// `<not-allowed/>`
    NotAllowed,
    /// `<policy-violation/>`
    PolicyViolation,
}
