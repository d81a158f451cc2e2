//! An established connection: the TLS state that is retained while a peer is idle.
//!
//! Two verbs: [`Traffic::receive`] takes records in, [`Traffic::send`] takes plaintext out as
//! records. A peer may send only data, an alert, (TLS 1.3) a key update, and as a server tickets,
//! which are ignored; everything else ends the connection.

use crate::cipher::{self, Keys, OpenError, Suite};
use crate::record::{self, ALERT, APPLICATION_DATA, BadHeader, HANDSHAKE, Next, PLAINTEXT_BYTES_MAX};
use crate::{TlsFault, TlsVersion};

/// Maximum number of consecutive empty records from a peer (BoringSSL and rustls permit as many).
const EMPTY_RECORDS_MAX: u8 = 32;
/// Maximum number of consecutive key updates and tickets from a peer without any data.
const MESSAGES_MAX: u8 = 32;
/// Maximum number of warning alerts from a peer in total.
const WARNINGS_MAX: u8 = 4;

/// Alert levels and descriptions (RFC 8446 6, RFC 5246 7.2).
const WARNING: u8 = 1;
const FATAL: u8 = 2;
const CLOSE_NOTIFY: u8 = 0;
const UNEXPECTED_MESSAGE: u8 = 10;
const BAD_RECORD_MAC: u8 = 20;
const RECORD_OVERFLOW: u8 = 22;
const ILLEGAL_PARAMETER: u8 = 47;
const DECODE_ERROR: u8 = 50;
const USER_CANCELED: u8 = 90;
const NO_RENEGOTIATION: u8 = 100;

/// `KeyUpdate` as a handshake message, without its one byte of content.
const KEY_UPDATE_HEAD: [u8; 4] = [24, 0, 0, 1];
const UPDATE_NOT_REQUESTED: u8 = 0;
const UPDATE_REQUESTED: u8 = 1;
/// The type of `NewSessionTicket` (RFC 8446 4.6.1).
const NEW_SESSION_TICKET: u8 = 4;
/// `HelloRequest`, by which a server requests a renegotiation (RFC 5246 7.4.1.1).
const HELLO_REQUEST: [u8; 4] = [0; 4];
const OUT_OF_PLACE: &str = "a handshake message after the handshake";

/// The side of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Receives tickets.
    Client,
    /// Does not.
    Server,
}

/// An incomplete handshake message.
#[derive(Clone, Copy)]
enum Message {
    None,
    /// This many bytes of [`KEY_UPDATE_HEAD`] have arrived.
    KeyUpdate(u8),
    /// This many bytes of a ticket's head have arrived, and this many of its content are
    /// outstanding: below 64 KiB, as in any library.
    Ticket {
        head: u8,
        left: u16,
    },
}

/// Keys, sequence numbers and a few counters of one established connection.
///
/// It keeps no buffer between calls except the start of a record that spans two reads (at most 18
/// KiB).
pub struct Traffic {
    pub(crate) side: Side,
    pub(crate) suite: Suite,
    pub(crate) receive: Keys,
    pub(crate) send: Keys,
    /// The start of an incomplete record.
    pending: Vec<u8>,
    /// Whether the peer has announced that it sends no more.
    peer_closed: bool,
    /// Whether we have.
    closed: bool,
    message: Message,
    empty_records: u8,
    messages: u8,
    warnings: u8,
    /// Whether a key update must be answered: one answer serves for all received in the meantime
    /// (RFC 8446 4.6.3).
    update_due: bool,
}

const _: () = assert!(size_of::<Traffic>() <= 248, "each idle connection over TLS costs this much, at both ends");

impl Traffic {
    pub(crate) fn new(side: Side, suite: Suite, receive: Keys, send: Keys) -> Self {
        Self {
            side,
            suite,
            receive,
            send,
            pending: Vec::new(),
            peer_closed: false,
            closed: false,
            message: Message::None,
            empty_records: 0,
            messages: 0,
            warnings: 0,
            update_due: false,
        }
    }

    /// The negotiated version.
    pub fn version(&self) -> TlsVersion {
        self.suite.version
    }

    /// Whether the peer has announced, by `close_notify`, that it sends no more.
    pub fn peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// Bytes of heap behind this object: of an incomplete record.
    pub fn heap_bytes(&self) -> usize {
        self.pending.capacity()
    }

    /// Takes in bytes from the socket, in any pieces, and decrypts them in place. Appends the
    /// plaintext of all whole records to `plaintext`, and to `to_send` the alert for a fault; a key
    /// update is answered by [`flush`](Self::flush). The key is expanded once for all records.
    ///
    /// # Errors
    /// A [`TlsFault`] ends the connection. What was appended to `plaintext` before is genuine.
    pub fn receive(
        &mut self,
        input: &mut &mut [u8],
        plaintext: &mut Vec<u8>,
        to_send: &mut Vec<u8>,
    ) -> Result<(), TlsFault> {
        let mut key = None;
        while !self.peer_closed {
            let mut record = match record::next(&mut self.pending, input) {
                Next::Record(record) => record,
                Next::Drained => return Ok(()),
                Next::Bad(BadHeader::ContentType) => {
                    return Err(self.refuse(UNEXPECTED_MESSAGE, "no TLS record", to_send));
                }
                Next::Bad(BadHeader::Length) => {
                    return Err(self.refuse(RECORD_OVERFLOW, "a record too long", to_send));
                }
            };
            let expanded = key.get_or_insert_with(|| self.receive.expand(self.suite));
            let opened = cipher::open(self.suite, &mut self.receive, expanded, record.bytes_mut());
            match opened {
                Ok((APPLICATION_DATA, data)) if matches!(self.message, Message::None) => {
                    if data.is_empty() {
                        self.count_empty(to_send)?;
                    } else {
                        self.empty_records = 0;
                        self.messages = 0;
                        plaintext.extend_from_slice(data);
                    }
                }
                Ok((ALERT, alert)) if matches!(self.message, Message::None) => self.alert(alert, to_send)?,
                Ok((HANDSHAKE, message)) => {
                    if self.handshake(message, to_send)? {
                        key = None;
                    }
                }
                Ok(_) => {
                    return Err(self.refuse(UNEXPECTED_MESSAGE, "a record out of place", to_send));
                }
                Err(error) => return Err(self.refuse_record(error, to_send)),
            }
        }
        // Everything after a close_notify is ignored (RFC 8446 6.1).
        self.pending = Vec::new();
        *input = &mut [];
        Ok(())
    }

    fn count_empty(&mut self, to_send: &mut Vec<u8>) -> Result<(), TlsFault> {
        self.empty_records += 1;
        if self.empty_records > EMPTY_RECORDS_MAX {
            return Err(self.refuse(UNEXPECTED_MESSAGE, "a flood of empty records", to_send));
        }
        Ok(())
    }

    fn alert(&mut self, alert: &[u8], to_send: &mut Vec<u8>) -> Result<(), TlsFault> {
        let &[level, description] = alert else {
            return Err(self.refuse(DECODE_ERROR, "a malformed alert", to_send));
        };
        if description == CLOSE_NOTIFY {
            self.peer_closed = true;
            return Ok(());
        }
        // TLS 1.3 has one alert that does not close; TLS 1.2 marks them.
        let warning = description == USER_CANCELED || (self.suite.version == TlsVersion::V1_2 && level == WARNING);
        if !warning {
            return Err(TlsFault::PeerAlert(description));
        }
        self.count_warning(to_send)
    }

    fn count_warning(&mut self, to_send: &mut Vec<u8>) -> Result<(), TlsFault> {
        self.warnings += 1;
        if self.warnings > WARNINGS_MAX {
            return Err(self.refuse(UNEXPECTED_MESSAGE, "a flood of warnings", to_send));
        }
        Ok(())
    }

    /// Processes a piece of handshake messages; true if the receiving keys have changed.
    fn handshake(&mut self, piece: &[u8], to_send: &mut Vec<u8>) -> Result<bool, TlsFault> {
        if self.suite.version == TlsVersion::V1_2 {
            if self.side == Side::Client && piece == HELLO_REQUEST {
                // A client may ignore it (RFC 5246 7.4.1.1).
                return self.count_warning(to_send).map(|()| false);
            }
            // Renegotiation is refused according to RFC 5246 7.2.2, and the connection ends.
            self.send_alert(WARNING, NO_RENEGOTIATION, to_send);
            return Err(TlsFault::misbehaved("renegotiation is not offered"));
        }
        if piece.is_empty() {
            return Err(self.refuse(UNEXPECTED_MESSAGE, "an empty handshake record", to_send));
        }
        let mut rest = piece;
        while let Some((&byte, tail)) = rest.split_first() {
            rest = tail;
            self.message = match self.message {
                Message::None if byte == KEY_UPDATE_HEAD[0] => Message::KeyUpdate(1),
                Message::None if byte == NEW_SESSION_TICKET && self.side == Side::Client => {
                    Message::Ticket { head: 1, left: 0 }
                }
                Message::KeyUpdate(matched) => match KEY_UPDATE_HEAD.get(usize::from(matched)) {
                    Some(&expected) if expected == byte => Message::KeyUpdate(matched + 1),
                    // The message before a key change must end its record (RFC 8446 5.1).
                    None if rest.is_empty() => return self.key_update(byte, to_send).map(|()| true),
                    _ => return Err(self.refuse(UNEXPECTED_MESSAGE, OUT_OF_PLACE, to_send)),
                },
                // The length's first byte is zero, the other two are the remaining length.
                Message::Ticket { head: head @ 1..=3, left } if head > 1 || byte == 0 => {
                    Message::Ticket { head: head + 1, left: left << 8 | u16::from(byte) }
                }
                Message::Ticket { head: 4, left } => {
                    let more = usize::from(left - 1).min(rest.len());
                    rest = &rest[more..];
                    Message::Ticket { head: 4, left: left - 1 - more as u16 }
                }
                _ => return Err(self.refuse(UNEXPECTED_MESSAGE, OUT_OF_PLACE, to_send)),
            };
            if let Message::Ticket { head: 4, left: 0 } = self.message {
                self.message = Message::None;
                self.count_message(to_send)?;
            }
        }
        Ok(false)
    }

    fn count_message(&mut self, to_send: &mut Vec<u8>) -> Result<(), TlsFault> {
        self.messages += 1;
        if self.messages > MESSAGES_MAX {
            return Err(self.refuse(UNEXPECTED_MESSAGE, "a flood of messages after the handshake", to_send));
        }
        Ok(())
    }

    fn key_update(&mut self, request: u8, to_send: &mut Vec<u8>) -> Result<(), TlsFault> {
        self.message = Message::None;
        self.count_message(to_send)?;
        match request {
            UPDATE_NOT_REQUESTED => {}
            UPDATE_REQUESTED => self.update_due = true,
            _ => return Err(self.refuse(ILLEGAL_PARAMETER, "a bad key update", to_send)),
        }
        self.receive.update(self.suite);
        Ok(())
    }

    /// Whether [`flush`](Self::flush) has output.
    pub fn wants_flush(&self) -> bool {
        self.update_due && !self.closed
    }

    /// Answers all pending key updates at once. This may be deferred, but must precede the next
    /// data (RFC 8446 4.6.3).
    pub fn flush(&mut self, to_send: &mut Vec<u8>) {
        if self.wants_flush() {
            self.update_send_keys(to_send);
        }
        self.update_due = false;
    }

    /// Announces new sending keys under the old ones, then changes to them.
    fn update_send_keys(&mut self, to_send: &mut Vec<u8>) {
        let [a, b, c, d] = KEY_UPDATE_HEAD;
        let message = [a, b, c, d, UPDATE_NOT_REQUESTED];
        let key = self.send.expand(self.suite);
        cipher::seal(self.suite, &mut self.send, &key, HANDSHAKE, &message, to_send);
        self.send.update(self.suite);
    }

    /// Appends `plaintext` to `to_send` as records of up to 16 KiB, each 22 (TLS 1.3) to 29 bytes
    /// longer than its part of the plaintext.
    ///
    /// # Errors
    /// [`TlsFault::Closed`] after [`close`](Self::close), and [`TlsFault::KeysExhausted`] after
    /// 2^24 records over TLS 1.2 (TLS 1.3 changes its keys instead).
    pub fn send(&mut self, plaintext: &[u8], to_send: &mut Vec<u8>) -> Result<(), TlsFault> {
        if self.closed {
            return Err(TlsFault::Closed);
        }
        self.flush(to_send);
        let mut key = self.send.expand(self.suite);
        for piece in plaintext.chunks(PLAINTEXT_BYTES_MAX) {
            if self.send.worn(self.suite) {
                if self.suite.version == TlsVersion::V1_2 {
                    return Err(TlsFault::KeysExhausted);
                }
                self.update_send_keys(to_send);
                key = self.send.expand(self.suite);
            }
            cipher::seal(self.suite, &mut self.send, &key, APPLICATION_DATA, piece, to_send);
        }
        Ok(())
    }

    /// Whether the connection must end soon, because its keys are nearly used up and this version
    /// cannot change them: [`send`](Self::send) refuses 65,536 records later.
    pub fn is_worn(&self) -> bool {
        self.send.is_nearly_worn(self.suite)
    }

    /// Appends `close_notify` (RFC 8446 6.1), once. The peer may still send.
    pub fn close(&mut self, to_send: &mut Vec<u8>) {
        if !self.closed {
            self.send_alert(WARNING, CLOSE_NOTIFY, to_send);
            self.closed = true;
        }
    }

    fn send_alert(&mut self, level: u8, description: u8, to_send: &mut Vec<u8>) {
        if self.closed {
            return;
        }
        let key = self.send.expand(self.suite);
        let alert = [level, description];
        cipher::seal(self.suite, &mut self.send, &key, ALERT, &alert, to_send);
    }

    /// Appends a fatal alert for the peer, and returns the fault for the caller.
    fn refuse(&mut self, description: u8, why: &str, to_send: &mut Vec<u8>) -> TlsFault {
        self.send_alert(FATAL, description, to_send);
        TlsFault::misbehaved(why)
    }

    fn refuse_record(&mut self, error: OpenError, to_send: &mut Vec<u8>) -> TlsFault {
        let (description, why) = match error {
            OpenError::Mac => (BAD_RECORD_MAC, "a record that does not authenticate"),
            OpenError::Overflow => (RECORD_OVERFLOW, "a record with too much plaintext"),
            OpenError::Unexpected => (UNEXPECTED_MESSAGE, "an unprotected or empty record"),
        };
        self.refuse(description, why, to_send)
    }
}
