//! Certificates that an authority is asked for, as operators see them.

use serde::{Deserialize, Serialize};

/// The state of a certificate that an authority is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AcmeState {
    /// The name, in ASCII.
    pub name: String,
    /// When the certificate expires, in seconds since 1970; `None` if there is none yet.
    pub expires_s: Option<i64>,
    /// When the next one is ordered, in seconds since 1970.
    pub next_s: i64,
    /// When the last one came, in seconds since 1970; 0 if none did.
    pub obtained_s: i64,
    /// Number of orders that failed since the server's start.
    pub failures: u64,
    /// Number of orders that failed since the last certificate came.
    pub in_a_row: u32,
    /// Why the last order failed; if none did, why its certificate is not in use.
    pub fault: Option<String>,
}
