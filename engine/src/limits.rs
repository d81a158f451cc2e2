//! Every bound of the engine in one place, with the relations between them checked at compile time.
//!
//! Structural bounds are constants; those an operator may turn are fields of [`Limits`], whose defaults stand here too.

/// Longest localpart, domainpart or resourcepart of a JID in bytes (RFC 7622 3.2, 3.3, 3.4).
pub const JID_PART_BYTES_MAX: usize = 1023;

/// Smallest stanza limit that a server may set (RFC 6120 13.12): 10,000 bytes.
pub const STANZA_BYTES_FLOOR: usize = 10_000;
