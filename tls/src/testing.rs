//! For tests: an end of a connection that has keys and no manners.

use crate::{Side, Traffic, cipher, handshake, record};

/// Records that one key may seal with AES-GCM.
pub const SEALED_RECORDS_MAX: u64 = cipher::SEALED_RECORDS_MAX;
/// Bytes that a peer may send in a handshake.
pub const HANDSHAKE_BYTES_MAX: usize = handshake::HANDSHAKE_BYTES_MAX;
/// Records that a peer may cut its handshake into.
pub const HANDSHAKE_RECORDS_MAX: u16 = handshake::HANDSHAKE_RECORDS_MAX;

/// A content type (RFC 8446 B.1).
pub const CHANGE_CIPHER_SPEC: u8 = record::CHANGE_CIPHER_SPEC;
/// A content type.
pub const ALERT: u8 = record::ALERT;
/// A content type.
pub const HANDSHAKE: u8 = record::HANDSHAKE;
/// A content type.
pub const APPLICATION_DATA: u8 = record::APPLICATION_DATA;

/// Both ends of a connection over TLS 1.3 that never shook hands, the client first; the seed says which keys and cipher.
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
    /// The other end of this connection, as it is now.
    pub fn peer(&self) -> Traffic {
        let side = match self.side {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        };
        Traffic::new(side, self.suite, self.send.copy(), self.receive.copy())
    }

    /// The same end once more.
    pub fn twin(&self) -> Traffic {
        Traffic::new(self.side, self.suite, self.receive.copy(), self.send.copy())
    }

    /// Seals one record of any kind and content.
    pub fn seal(&mut self, kind: u8, content: &[u8], out: &mut Vec<u8>) {
        let key = self.send.expand(self.suite);
        cipher::seal(self.suite, &mut self.send, &key, kind, content, out);
    }

    /// Steps to the next sending keys without a word.
    pub fn step_sending(&mut self) {
        self.send.update(self.suite);
    }

    /// Announces new sending keys and steps to them, and asks for the peer's.
    pub fn request_update(&mut self, out: &mut Vec<u8>) {
        self.seal(HANDSHAKE, &[24, 0, 0, 1, 1], out);
        self.step_sending();
    }

    /// Records sealed with the present keys.
    pub fn sent(&self) -> u64 {
        self.send.seq
    }

    /// As if so many records had gone out.
    pub fn set_sent(&mut self, records: u64) {
        self.send.seq = records;
    }

    /// As if so many records had come in.
    pub fn set_received(&mut self, records: u64) {
        self.receive.seq = records;
    }
}
