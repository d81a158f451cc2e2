//! Assembly of frames to messages (RFC 6455 5), on the server's side.
//!
//! The received part of a message is stored unmasked and contiguous. Nothing is stored of a control
//! frame: until it is complete, it stays in the unread input, with at most [`HEAD_BYTES_MAX`] and
//! 125 bytes.

use std::sync::Arc;

/// The longest header of a masked frame, in bytes.
pub const HEAD_BYTES_MAX: usize = 14;

/// The longest payload of a control frame, in bytes (RFC 6455 5.5).
pub const CONTROL_BYTES_MAX: usize = 125;

/// Why a WebSocket is closed (RFC 6455 7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Normal closure.
    Normal,
    /// The server is shutting down.
    GoingAway,
    /// The input violates the framing protocol.
    Protocol,
    /// A message has an unsupported type: XMPP does not use binary messages (RFC 7395 3.2).
    Unsupported,
    /// A text message is not UTF-8.
    NotUtf8,
    /// The request is not permitted.
    Policy,
    /// A message is too long.
    TooLong,
    /// A temporary condition (IANA's registry of close codes).
    TryAgain,
    /// A code of the subprotocol (7.4.2).
    Own(u16),
}

impl Code {
    /// The numeric close code.
    pub fn number(self) -> u16 {
        match self {
            Code::Normal => 1000,
            Code::GoingAway => 1001,
            Code::Protocol => 1002,
            Code::Unsupported => 1003,
            Code::NotUtf8 => 1007,
            Code::Policy => 1008,
            Code::TooLong => 1009,
            Code::TryAgain => 1013,
            Code::Own(code) => code,
        }
    }
}

/// A violation that closes the WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameFault {
    /// The close code for the peer.
    pub code: Code,
    /// The reason for the peer.
    pub text: &'static str,
}

fn fault<T>(code: Code, text: &'static str) -> Result<T, FrameFault> {
    Err(FrameFault { code, text })
}

/// The result of reading frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing is complete: more input is needed after the unconsumed bytes.
    More,
    /// A message is complete: [`Assembly::bytes`].
    Message,
    /// A ping, to be answered with the same payload (RFC 6455 5.5.2).
    Ping(Control),
    /// A pong, which is ignored.
    Pong,
    /// The peer closes the WebSocket, with this code if it sent one (RFC 6455 5.5.1).
    Close(Option<u16>),
}

/// The payload of a control frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    bytes: [u8; CONTROL_BYTES_MAX],
    len: u8,
}

impl Control {
    /// The payload's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The current frame of an unfinished message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    left: u64,
    mask: [u8; 4],
    last: bool,
}

/// A message that is being received.
#[derive(Debug, Default)]
pub struct Assembly {
    bytes: Vec<u8>,
    frame: Option<Frame>,
    /// It has begun, and further frames will follow the current one.
    open: bool,
    /// It is complete and not consumed yet.
    whole: bool,
    /// It is binary, where binary messages are accepted.
    binary: bool,
    takes_binary: bool,
    /// Set while it counts against the limit on long messages.
    pub long: Option<Arc<()>>,
}

const OPCODE_CONTINUATION: u8 = 0;
const OPCODE_TEXT: u8 = 1;
const OPCODE_BINARY: u8 = 2;
const OPCODE_CLOSE: u8 = 8;
const OPCODE_PING: u8 = 9;
const OPCODE_PONG: u8 = 10;
/// Flag of the last frame of a message.
const FIN: u8 = 0x80;
/// Flag of a masked frame.
const MASKED: u8 = 0x80;

/// A parsed frame header.
struct FrameHead {
    fin: bool,
    opcode: u8,
    length: u64,
    mask: [u8; 4],
    bytes: usize,
}

impl Assembly {
    /// An empty message that reuses this memory.
    pub fn with(mut memory: Vec<u8>) -> Assembly {
        memory.clear();
        Assembly { bytes: memory, ..Assembly::default() }
    }

    /// An empty message, which may be binary.
    #[cfg(debug_assertions)]
    pub fn of_any() -> Assembly {
        Assembly { takes_binary: true, ..Assembly::default() }
    }

    /// Whether the message is binary.
    #[cfg(debug_assertions)]
    pub fn is_binary(&self) -> bool {
        self.binary
    }

    /// Returns the memory for reuse.
    pub fn into_memory(self) -> Vec<u8> {
        self.bytes
    }

    /// The bytes of the message received so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether no message is in progress, so that nothing has to be stored.
    pub fn is_idle(&self) -> bool {
        self.frame.is_none() && !self.open && !self.whole
    }

    /// Discards the consumed message.
    pub fn clear(&mut self) {
        self.bytes.clear();
        (self.whole, self.binary, self.long) = (false, false, None);
    }

    /// Makes the next read return the same message again.
    pub fn again(&mut self) {
        self.whole = true;
    }

    /// Reads up to the end of one message or one control frame, with messages of at most
    /// `bytes_max` bytes. Returns the number of bytes consumed.
    ///
    /// # Errors
    /// A violation that closes the WebSocket (RFC 6455 7.1.7).
    pub fn read(&mut self, input: &[u8], bytes_max: usize) -> Result<(usize, Event), FrameFault> {
        if self.whole {
            return Ok((0, Event::Message));
        }
        let mut at = 0;
        loop {
            if let Some(frame) = &mut self.frame {
                let rest = &input[at..];
                let taken = rest.len().min(usize::try_from(frame.left).unwrap_or(usize::MAX));
                unmask(&mut self.bytes, &rest[..taken], &mut frame.mask);
                at += taken;
                frame.left -= taken as u64;
                if frame.left > 0 {
                    return Ok((at, Event::More));
                }
                self.open = !frame.last;
                self.frame = None;
                if !self.open {
                    self.whole = true;
                    return Ok((at, Event::Message));
                }
            }
            let Some(head) = read_head(&input[at..])? else { return Ok((at, Event::More)) };
            if head.opcode >= OPCODE_CLOSE {
                let end = at + head.bytes + head.length as usize;
                let Some(content) = input.get(at + head.bytes..end) else { return Ok((at, Event::More)) };
                return control(&head, content).map(|event| (end, event));
            }
            match (head.opcode, self.open) {
                (OPCODE_CONTINUATION, true) | (OPCODE_TEXT, false) => {}
                (OPCODE_BINARY, false) if self.takes_binary => {}
                (OPCODE_BINARY, false) => return fault(Code::Unsupported, "messages must be text"),
                (OPCODE_CONTINUATION, _) => return fault(Code::Protocol, "there is no message to continue"),
                _ => return fault(Code::Protocol, "a message begins inside another one"),
            }
            if head.length > bytes_max.saturating_sub(self.bytes.len()) as u64 {
                return fault(Code::TooLong, "the message is too long");
            }
            at += head.bytes;
            self.binary |= head.opcode == OPCODE_BINARY;
            self.frame = Some(Frame { left: head.length, mask: head.mask, last: head.fin });
        }
    }
}

/// Reads one control frame on a WebSocket whose peer may send nothing else. Returns the number of
/// bytes consumed: none if the frame is incomplete, in which case only the input has to be stored.
///
/// # Errors
/// A violation that closes the WebSocket. The first frame of a message is one, whatever its length.
pub fn read_control(input: &[u8]) -> Result<(usize, Event), FrameFault> {
    let Some(head) = read_head(input)? else { return Ok((0, Event::More)) };
    if head.opcode < OPCODE_CLOSE {
        return fault(Code::Unsupported, "messages are not accepted here; publish by POST");
    }
    let end = head.bytes + head.length as usize;
    let Some(content) = input.get(head.bytes..end) else { return Ok((0, Event::More)) };
    control(&head, content).map(|event| (end, event))
}

/// Parses a frame header, if it is complete. Errors in its first two bytes are reported as soon as
/// those are received.
fn read_head(bytes: &[u8]) -> Result<Option<FrameHead>, FrameFault> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    let (fin, opcode, short) = (first & FIN != 0, first & 0x0f, second & 0x7f);
    if first & 0x70 != 0 {
        return fault(Code::Protocol, "a reserved bit is set");
    }
    if !matches!(opcode, OPCODE_CONTINUATION..=OPCODE_BINARY | OPCODE_CLOSE..=OPCODE_PONG) {
        return fault(Code::Protocol, "the opcode of the frame is unknown");
    }
    if second & MASKED == 0 {
        return fault(Code::Protocol, "a client must mask its frames");
    }
    if opcode >= OPCODE_CLOSE && (!fin || short > CONTROL_BYTES_MAX as u8) {
        return fault(Code::Protocol, "a control frame is fragmented or too long");
    }
    // RFC 6455 5.2: the length has to use the shortest encoding.
    let (length, long) = match short {
        126 => {
            let Some(long) = rest.first_chunk::<2>() else { return Ok(None) };
            let length = u64::from(u16::from_be_bytes(*long));
            if length < 126 {
                return fault(Code::Protocol, "the length of a frame is not encoded in the fewest bytes");
            }
            (length, 2)
        }
        127 => {
            let Some(long) = rest.first_chunk::<8>() else { return Ok(None) };
            let length = u64::from_be_bytes(*long);
            if length <= u64::from(u16::MAX) || length >> 63 != 0 {
                return fault(Code::Protocol, "the length of a frame is invalid");
            }
            (length, 8)
        }
        short => (u64::from(short), 0),
    };
    let Some(mask) = rest[long..].first_chunk::<4>() else { return Ok(None) };
    Ok(Some(FrameHead { fin, opcode, length, mask: *mask, bytes: 2 + long + 4 }))
}

fn control(head: &FrameHead, content: &[u8]) -> Result<Event, FrameFault> {
    let mut bytes = Vec::with_capacity(content.len());
    unmask(&mut bytes, content, &mut head.mask.clone());
    match head.opcode {
        OPCODE_PING => {
            let mut control = Control { bytes: [0; CONTROL_BYTES_MAX], len: bytes.len() as u8 };
            control.bytes[..bytes.len()].copy_from_slice(&bytes);
            Ok(Event::Ping(control))
        }
        OPCODE_PONG => Ok(Event::Pong),
        _ => close(&bytes),
    }
}

/// RFC 6455 5.5.1, 7.4.
fn close(content: &[u8]) -> Result<Event, FrameFault> {
    let Some((code, reason)) = content.split_first_chunk::<2>() else {
        return match content {
            [] => Ok(Event::Close(None)),
            _ => fault(Code::Protocol, "a close code must have two bytes"),
        };
    };
    let code = u16::from_be_bytes(*code);
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return fault(Code::Protocol, "this close code must not be sent");
    }
    if std::str::from_utf8(reason).is_err() {
        return fault(Code::NotUtf8, "the close reason is not valid UTF-8");
    }
    Ok(Event::Close(Some(code)))
}

/// Appends masked bytes unmasked (RFC 6455 5.3), and rotates the mask for the bytes that follow.
fn unmask(out: &mut Vec<u8>, masked: &[u8], mask: &mut [u8; 4]) {
    let from = out.len();
    out.extend_from_slice(masked);
    let mut words = out[from..].chunks_exact_mut(8);
    let [a, b, c, d] = *mask;
    let word = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    for eight in &mut words {
        let eight: &mut [u8; 8] = eight.try_into().expect("eight bytes");
        *eight = (u64::from_ne_bytes(*eight) ^ word).to_ne_bytes();
    }
    words.into_remainder().iter_mut().zip([a, b, c, d, a, b, c]).for_each(|(byte, mask)| *byte ^= mask);
    mask.rotate_left(masked.len() % 4);
}

/// Appends a frame header for an unmasked text message in a single frame.
pub fn write_head(out: &mut Vec<u8>, bytes: usize) {
    write_head_of(out, false, bytes);
}

/// The same for a binary or a text message.
pub fn write_head_of(out: &mut Vec<u8>, binary: bool, bytes: usize) {
    out.push(FIN | if binary { OPCODE_BINARY } else { OPCODE_TEXT });
    match bytes {
        0..126 => out.push(bytes as u8),
        126..=0xffff => {
            out.push(126);
            out.extend_from_slice(&(bytes as u16).to_be_bytes());
        }
        _ => {
            out.push(127);
            out.extend_from_slice(&(bytes as u64).to_be_bytes());
        }
    }
}

/// Appends a pong.
pub fn write_pong(out: &mut Vec<u8>, content: &Control) {
    out.extend_from_slice(&[FIN | OPCODE_PONG, content.len]);
    out.extend_from_slice(content.bytes());
}

/// Appends a ping without payload.
pub fn write_ping(out: &mut Vec<u8>) {
    out.extend_from_slice(&[FIN | OPCODE_PING, 0]);
}

/// Appends this side's last frame.
pub fn write_close(out: &mut Vec<u8>, code: Option<u16>) {
    out.extend_from_slice(&[FIN | OPCODE_CLOSE, 2 * u8::from(code.is_some())]);
    out.extend(code.into_iter().flat_map(u16::to_be_bytes));
}

/// Appends this side's last frame, which reports a violation.
pub fn write_fault(out: &mut Vec<u8>, fault: FrameFault) {
    out.extend_from_slice(&[FIN | OPCODE_CLOSE, 2 + fault.text.len() as u8]);
    out.extend_from_slice(&fault.code.number().to_be_bytes());
    out.extend_from_slice(fault.text.as_bytes());
}
