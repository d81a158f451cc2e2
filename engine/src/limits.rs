//! Every bound of the engine in one place, with the relations between them checked at compile time.
//!
//! Structural bounds are constants; those an operator may turn are fields of [`Limits`], whose defaults stand here too.

/// Longest localpart, domainpart or resourcepart of a JID in bytes (RFC 7622 3.2, 3.3, 3.4).
pub const JID_PART_BYTES_MAX: usize = 1023;

/// Longest password in bytes, before and after preparation.
pub const PASSWORD_BYTES_MAX: usize = 1024;

/// Longest SASL message in bytes, decoded: PLAIN with every part at its bound (RFC 4616 2), which is also room for any
/// SCRAM message (RFC 5802 7).
pub const SASL_MESSAGE_BYTES_MAX: usize =
    (2 * JID_PART_BYTES_MAX + 1) + 1 + JID_PART_BYTES_MAX + 1 + PASSWORD_BYTES_MAX;

/// Longest client nonce of SCRAM in bytes (RFC 5802 5.1); clients send 16 to 64.
pub const SCRAM_CLIENT_NONCE_BYTES_MAX: usize = 256;

/// Fewest PBKDF2 iterations of a new account (RFC 7677 4, RFC 5802 5.1).
pub const SCRAM_ITERATIONS_MIN: u32 = 4_096;

/// PBKDF2 iterations of a new account, unless the operator says otherwise.
pub const SCRAM_ITERATIONS_DEFAULT: u32 = 10_000;

/// Most PBKDF2 iterations of an account: bounds what one PLAIN login can cost.
pub const SCRAM_ITERATIONS_MAX: u32 = 1_000_000;

/// Longest salt of an account in bytes; new ones have 16.
pub const SCRAM_SALT_BYTES_MAX: usize = 64;

const _: () = assert!(SCRAM_ITERATIONS_MIN <= SCRAM_ITERATIONS_DEFAULT);
const _: () = assert!(SCRAM_ITERATIONS_DEFAULT <= SCRAM_ITERATIONS_MAX);
// The length stands in one byte of the account's record.
const _: () = assert!(SCRAM_SALT_BYTES_MAX <= u8::MAX as usize);

/// Smallest stanza limit that a server may set (RFC 6120 13.12): 10,000 bytes.
pub const STANZA_BYTES_FLOOR: usize = 10_000;
