//! TLS of one connection, from handshake to traffic.

use super::certificate::TlsConfig;
use super::challenge::ALPN_ACME;
use super::handshake::Handshake;
use super::{TlsFault, TlsInfo, TlsVersion};
use throng_tls::Traffic;

/// The outcome of one call of [`TlsConnection::receive`], besides bytes.
#[derive(Debug, Default)]
pub struct Received {
    /// The handshake was completed by this call: reported once.
    pub handshake_done: Option<Box<TlsInfo>>,
    /// The peer has sent `close_notify`: it sends no more. Stays true.
    pub peer_closed: bool,
}

/// The server side of TLS of one connection: 16 bytes and one box.
///
/// Two verbs: [`receive`](Self::receive) takes the socket's bytes in, [`send`](Self::send) takes
/// plaintext out; both append bytes to be sent to the socket. It keeps no buffer between calls
/// except the start of a record that spans two reads (at most 18 KiB).
pub struct TlsConnection(State);

enum State {
    Handshake(Box<Handshake>),
    Traffic(Box<Traffic>),
    Dead,
}

impl TlsConnection {
    /// A connection that expects a `ClientHello`. It keeps the present certificate, even if another
    /// is loaded before the handshake.
    pub fn accept(config: &TlsConfig) -> Self {
        let (generation, entry) = config.current();
        Self(State::Handshake(Box::new(Handshake::new(generation, entry))))
    }

    /// Takes bytes from the socket, in any pieces; `from_socket` is decrypted in place and useless
    /// afterwards.
    ///
    /// Appends the plaintext of all whole records to `plaintext`, including those that arrived
    /// together with the end of the handshake (at most as many bytes as came in, plus one record).
    /// Appends to `to_send` the output of TLS itself: handshake, tickets, key updates, alerts.
    /// During the handshake the peer may send 64 KiB.
    ///
    /// # Errors
    /// A [`TlsFault`] ends the connection: `to_send` must be sent, then the socket closed. What was
    /// appended to `plaintext` before is genuine. A connection that has answered a challenge ends
    /// as [`TlsFault::Closed`].
    pub fn receive(
        &mut self,
        from_socket: &mut [u8],
        plaintext: &mut Vec<u8>,
        to_send: &mut Vec<u8>,
    ) -> Result<Received, TlsFault> {
        let mut received = Received::default();
        let outcome = self.advance(from_socket, plaintext, to_send, &mut received);
        if let Err(fault) = outcome {
            self.0 = State::Dead;
            return Err(fault);
        }
        Ok(received)
    }

    fn advance(
        &mut self,
        mut rest: &mut [u8],
        plaintext: &mut Vec<u8>,
        to_send: &mut Vec<u8>,
        received: &mut Received,
    ) -> Result<(), TlsFault> {
        if let State::Handshake(handshake) = &mut self.0 {
            let Some((mut traffic, info)) = handshake.receive(&mut rest, to_send)? else {
                return Ok(());
            };
            if info.alpn.as_deref() == Some(ALPN_ACME) {
                // RFC 8737 4: no application data is exchanged.
                traffic.close(to_send);
                return Err(TlsFault::Closed);
            }
            received.handshake_done = Some(Box::new(info));
            self.0 = State::Traffic(Box::new(traffic));
        }
        let State::Traffic(traffic) = &mut self.0 else {
            return Err(TlsFault::Closed);
        };
        traffic.receive(&mut rest, plaintext, to_send)?;
        traffic.flush(to_send);
        received.peer_closed = traffic.peer_closed();
        Ok(())
    }

    /// Appends `plaintext` to `to_send` as records of up to 16 KiB, each 22
    /// (TLS 1.3) to 29 bytes longer than its part of the plaintext.
    ///
    /// # Errors
    /// [`TlsFault::NotEstablished`] before the handshake is done,
    /// [`TlsFault::Closed`] after [`close`](Self::close) or a fault, and
    /// [`TlsFault::KeysExhausted`] after 2^24 records over TLS 1.2 (TLS 1.3
    /// changes its keys instead).
    pub fn send(&mut self, plaintext: &[u8], to_send: &mut Vec<u8>) -> Result<(), TlsFault> {
        match &mut self.0 {
            State::Handshake(_) => Err(TlsFault::NotEstablished),
            State::Traffic(traffic) => traffic.send(plaintext, to_send),
            State::Dead => Err(TlsFault::Closed),
        }
    }

    /// Whether the stream must end soon, because the keys are nearly used up and TLS 1.2 cannot
    /// change them. Enough is left for the stream's end.
    pub fn is_worn(&self) -> bool {
        matches!(&self.0, State::Traffic(traffic) if traffic.is_worn())
    }

    /// Appends `close_notify` (RFC 8446 6.1), once. The peer may still send: continue with
    /// [`receive`](Self::receive) if its data matters.
    pub fn close(&mut self, to_send: &mut Vec<u8>) {
        match &mut self.0 {
            State::Handshake(handshake) => {
                handshake.close(to_send);
                self.0 = State::Dead;
            }
            State::Traffic(traffic) => traffic.close(to_send),
            State::Dead => {}
        }
    }

    /// Whether the handshake is done and the connection has not failed.
    pub fn is_established(&self) -> bool {
        matches!(self.0, State::Traffic(_))
    }

    /// The negotiated version, once the handshake is done.
    pub fn version(&self) -> Option<TlsVersion> {
        match &self.0 {
            State::Traffic(traffic) => Some(traffic.version()),
            _ => None,
        }
    }

    /// Present heap bytes of this connection. Exact once the handshake is done, an estimate before.
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            State::Handshake(handshake) => handshake.heap_bytes(),
            State::Traffic(traffic) => size_of::<Traffic>() + traffic.heap_bytes(),
            State::Dead => 0,
        }
    }

    /// The established state, for tests that need access to it.
    #[cfg(test)]
    pub(crate) fn traffic_mut(&mut self) -> &mut Traffic {
        match &mut self.0 {
            State::Traffic(traffic) => traffic,
            _ => panic!("the handshake is not done"),
        }
    }
}
