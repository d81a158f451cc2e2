//! For tests: a side of a connection that has keys and ignores the protocol.

use crate::{Side, Traffic, cipher, handshake, record};

/// Records that one key may seal with AES-GCM.
pub const SEALED_RECORDS_MAX: u64 = cipher::SEALED_RECORDS_MAX;
/// Bytes that a peer may send in a handshake.
pub const HANDSHAKE_BYTES_MAX: usize = handshake::HANDSHAKE_BYTES_MAX;
/// Maximum number of records in a peer's handshake.
pub const HANDSHAKE_RECORDS_MAX: u16 = handshake::HANDSHAKE_RECORDS_MAX;

/// A content type (RFC 8446 B.1).
pub const CHANGE_CIPHER_SPEC: u8 = record::CHANGE_CIPHER_SPEC;
/// A content type.
pub const ALERT: u8 = record::ALERT;
/// A content type.
pub const HANDSHAKE: u8 = record::HANDSHAKE;
/// A content type.
pub const APPLICATION_DATA: u8 = record::APPLICATION_DATA;

/// Both sides of a TLS 1.3 connection without a handshake, the client first; the seed determines
/// keys and cipher.
pub fn joined(seed: u8) -> (Traffic, Traffic) {
    use cipher::{Algorithm, Keys, Suite};
    let (algorithm, length) = match seed % 3 {
        0 => (Algorithm::Aes128Gcm, 32),
        1 => (Algorithm::Aes256Gcm, 48),
        _ => (Algorithm::Chacha20Poly1305, 32),
    };
    let suite = Suite { version: crate::TlsVersion::V1_3, algorithm };
    let keys = |end: u8| Keys::of_secret(suite, &[&[seed, end], &[0; 46][..]].concat()[..length]);
    let client = Traffic::new(Side::Client, suite, keys(1), keys(2));
    let server = client.peer();
    (client, server)
}

impl Traffic {
    /// The other side of this connection, in its present state.
    pub fn peer(&self) -> Traffic {
        let side = match self.side {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        };
        Traffic::new(side, self.suite, self.send.copy(), self.receive.copy())
    }

    /// A copy of this side.
    pub fn twin(&self) -> Traffic {
        Traffic::new(self.side, self.suite, self.receive.copy(), self.send.copy())
    }

    /// Seals one record of any type and content.
    pub fn seal(&mut self, kind: u8, content: &[u8], out: &mut Vec<u8>) {
        let key = self.send.expand(self.suite);
        cipher::seal(self.suite, &mut self.send, &key, kind, content, out);
    }

    /// Changes to the next sending keys without announcing it.
    pub fn step_sending(&mut self) {
        self.send.update(self.suite);
    }

    /// Announces new sending keys and changes to them, and requests the peer's.
    pub fn request_update(&mut self, out: &mut Vec<u8>) {
        self.seal(HANDSHAKE, &[24, 0, 0, 1, 1], out);
        self.step_sending();
    }

    /// Number of records sealed with the present keys.
    pub fn sent(&self) -> u64 {
        self.send.seq
    }

    /// Pretends that this many records have been sent.
    pub fn set_sent(&mut self, records: u64) {
        self.send.seq = records;
    }

    /// Pretends that this many records have been received.
    pub fn set_received(&mut self, records: u64) {
        self.receive.seq = records;
    }
}
