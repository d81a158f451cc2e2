//! An established connection: what stays of TLS while a peer is idle.
//!
//! Two verbs: [`Traffic::receive`] takes one record in, [`Traffic::send`]
//! takes plaintext out as records. Everything that a peer may send here is
//! data, an alert or (TLS 1.3) a key update; all else ends the connection.

use super::cipher::{self, Keys, OpenError, Suite};
use super::record::{ALERT, APPLICATION_DATA, BadHeader, HANDSHAKE, PLAINTEXT_BYTES_MAX};
use super::{TlsFault, TlsVersion};

/// Records without content that a peer may send in a row (BoringSSL and rustls
/// allow as many).
const EMPTY_RECORDS_MAX: u8 = 32;
/// Key updates that a peer may send in a row without any data.
const KEY_UPDATES_MAX: u8 = 32;
/// Warning alerts that a peer may send in all.
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

/// `KeyUpdate` as a handshake message, up to its one byte of content.
const KEY_UPDATE_HEAD: [u8; 4] = [24, 0, 0, 1];
const UPDATE_NOT_REQUESTED: u8 = 0;
const UPDATE_REQUESTED: u8 = 1;

/// Keys, sequence numbers and a few counters of one established connection.
pub(super) struct Traffic {
    pub(super) suite: Suite,
    pub(super) receive: Keys,
    pub(super) send: Keys,
    /// The start of a record, of which the rest has yet to come.
    pub(super) pending: Vec<u8>,
    /// The peer said that it sends no more.
    pub(super) peer_closed: bool,
    /// We said so.
    closed: bool,
    /// Bytes of an unfinished handshake message, at most `KEY_UPDATE_HEAD`.
    partial: u8,
    empty_records: u8,
    key_updates: u8,
    warnings: u8,
    /// A key update was answered in this call: one answer serves for all that
    /// came in the meantime (RFC 8446 4.6.3).
    update_answered: bool,
}

impl Traffic {
    pub(super) fn new(suite: Suite, receive: Keys, send: Keys) -> Self {
        Self {
            suite,
            receive,
            send,
            pending: Vec::new(),
            peer_closed: false,
            closed: false,
            partial: 0,
            empty_records: 0,
            key_updates: 0,
            warnings: 0,
            update_answered: false,
        }
    }

    /// Takes in the records that `next` yields until there are no more, the
    /// peer has closed, or there is a fault. The key is expanded once for all.
    pub(super) fn receive(
        &mut self,
        input: &mut &mut [u8],
        plaintext: &mut Vec<u8>,
        to_send: &mut Vec<u8>,
    ) -> Result<(), TlsFault> {
        use super::record::Next;
        self.update_answered = false;
        let mut key = None;
        while !self.peer_closed {
            let mut record = match super::record::next(&mut self.pending, input) {
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
                Ok((APPLICATION_DATA, data)) if self.partial == 0 => {
                    if data.is_empty() {
                        self.count_empty(to_send)?;
                    } else {
                        self.empty_records = 0;
                        self.key_updates = 0;
                        plaintext.extend_from_slice(data);
                    }
                }
                Ok((ALERT, alert)) if self.partial == 0 => self.alert(alert, to_send)?,
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
        // Nothing that follows a close_notify counts (RFC 8446 6.1).
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
        // TLS 1.3 knows one alert that does not close; TLS 1.2 marks them.
        let warning = description == USER_CANCELED || (self.suite.version == TlsVersion::V1_2 && level == WARNING);
        if !warning {
            return Err(TlsFault::PeerAlert(description));
        }
        self.warnings += 1;
        if self.warnings > WARNINGS_MAX {
            return Err(self.refuse(UNEXPECTED_MESSAGE, "a flood of warnings", to_send));
        }
        Ok(())
    }

    /// Takes a piece of a handshake message; true when the receiving keys
    /// have changed.
    fn handshake(&mut self, piece: &[u8], to_send: &mut Vec<u8>) -> Result<bool, TlsFault> {
        const OUT_OF_PLACE: &str = "a handshake message after the handshake";
        if self.suite.version == TlsVersion::V1_2 {
            // Renegotiation, refused as RFC 5246 7.2.2 says, and the end of it.
            self.send_alert(WARNING, NO_RENEGOTIATION, to_send);
            return Err(TlsFault::misbehaved("renegotiation is not offered"));
        }
        if piece.is_empty() {
            return Err(self.refuse(UNEXPECTED_MESSAGE, "an empty handshake record", to_send));
        }
        let (mut request, mut rest) = (None, piece);
        while let Some((&byte, tail)) = rest.split_first() {
            rest = tail;
            match KEY_UPDATE_HEAD.get(usize::from(self.partial)) {
                Some(&expected) if expected == byte => self.partial += 1,
                Some(_) => return Err(self.refuse(UNEXPECTED_MESSAGE, OUT_OF_PLACE, to_send)),
                None => {
                    request = Some(byte);
                    break;
                }
            }
        }
        let Some(request) = request else {
            return Ok(false);
        };
        if !rest.is_empty() {
            // The message before a key change ends its record (RFC 8446 5.1).
            return Err(self.refuse(UNEXPECTED_MESSAGE, OUT_OF_PLACE, to_send));
        }
        self.partial = 0;
        self.key_updates += 1;
        if self.key_updates > KEY_UPDATES_MAX {
            return Err(self.refuse(UNEXPECTED_MESSAGE, "a flood of key updates", to_send));
        }
        match request {
            UPDATE_NOT_REQUESTED => {}
            UPDATE_REQUESTED => {
                if !self.update_answered && !self.closed {
                    self.update_answered = true;
                    self.update_send_keys(to_send);
                }
            }
            _ => return Err(self.refuse(ILLEGAL_PARAMETER, "a bad key update", to_send)),
        }
        self.receive.update(self.suite);
        Ok(true)
    }

    /// Announces new sending keys under the old ones, then changes to them.
    fn update_send_keys(&mut self, to_send: &mut Vec<u8>) {
        let [a, b, c, d] = KEY_UPDATE_HEAD;
        let message = [a, b, c, d, UPDATE_NOT_REQUESTED];
        let key = self.send.expand(self.suite);
        cipher::seal(self.suite, &mut self.send, &key, HANDSHAKE, &message, to_send);
        self.send.update(self.suite);
    }

    /// Appends `plaintext` as records to `to_send`.
    pub(super) fn send(&mut self, plaintext: &[u8], to_send: &mut Vec<u8>) -> Result<(), TlsFault> {
        if self.closed {
            return Err(TlsFault::Closed);
        }
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

    /// Appends `close_notify`, once.
    pub(super) fn close(&mut self, to_send: &mut Vec<u8>) {
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

    /// A fatal alert for the peer and the fault for the caller.
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
