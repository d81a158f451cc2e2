//! The traffic secrets of a handshake, from the library's key log to the derived keys. They must
//! not outlive their use: each is wiped.

use std::cell::Cell;

use zeroize::Zeroize;

/// A traffic secret, wiped when dropped.
#[derive(Default)]
pub(crate) struct Secret(Vec<u8>);

impl Secret {
    pub(crate) fn get(&self) -> Option<&[u8]> {
        (!self.0.is_empty()).then_some(&self.0)
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// The two secrets from which key updates derive (RFC 8446 7.1).
#[derive(Default)]
pub(crate) struct Secrets {
    pub(crate) client: Secret,
    pub(crate) server: Secret,
}

impl Secrets {
    /// Takes over the secrets that `other` has.
    pub(crate) fn absorb(&mut self, other: Self) {
        if other.client.get().is_some() {
            self.client = other.client;
        }
        if other.server.get().is_some() {
            self.server = other.server;
        }
    }
}

thread_local! {
    static CAPTURED: Cell<Option<Secrets>> = const { Cell::new(None) };
}

/// Receives the traffic secrets of the handshake that this thread is processing: the key log of
/// each configuration whose connections use a [`Handshake`](crate::Handshake).
///
/// The library hands out keys and sequence numbers, but the secret that the next keys derive from
/// only through its key log. It calls the log on the thread that processes the record. What one
/// call of `process_new_packets` logs is taken right after it, and so never belongs to another
/// connection. `Keys::new` checks that the secret yields the extracted key.
#[derive(Debug)]
pub struct CapturedSecrets;

impl CapturedSecrets {
    pub(crate) fn take() -> Secrets {
        CAPTURED.take().unwrap_or_default()
    }
}

impl rustls::KeyLog for CapturedSecrets {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        let mut captured = Self::take();
        match label {
            "CLIENT_TRAFFIC_SECRET_0" => captured.client = Secret(secret.to_vec()),
            "SERVER_TRAFFIC_SECRET_0" => captured.server = Secret(secret.to_vec()),
            _ => {}
        }
        CAPTURED.set(Some(captured));
    }

    fn will_log(&self, label: &str) -> bool {
        matches!(label, "CLIENT_TRAFFIC_SECRET_0" | "SERVER_TRAFFIC_SECRET_0")
    }
}
