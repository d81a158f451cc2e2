//! Frames to messages (RFC 6455 5), as a server reads them.
//!
//! What has come of a message is kept unmasked and in one piece. Of a control frame nothing is kept: until it is whole it stays with
//! the bytes that nobody has looked at, of which there are [`HEAD_BYTES_MAX`] and 125 at the most.

use std::sync::Arc;

/// The longest head of a frame with a mask, bytes.
pub const HEAD_BYTES_MAX: usize = 14;

/// The longest content of a control frame, bytes (RFC 6455 5.5).
pub const CONTROL_BYTES_MAX: usize = 125;

/// Why a WebSocket ends (RFC 6455 7.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// All is said.
    Normal,
    /// The server stops.
    GoingAway,
    /// What came are no frames.
    Protocol,
    /// It has messages of a kind that is not taken: of XMPP none are binary (RFC 7395 3.2).
    Unsupported,
    /// A message is no UTF-8.
    NotUtf8,
    /// It may not have what it has asked for.
    Policy,
    /// A message is too long.
    TooLong,
    /// It cannot go on now (IANA's registry of codes).
    TryAgain,
    /// One of the protocol that is spoken (7.4.2).
    Own(u16),
}

impl Code {
    /// The number.
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

/// What is wrong with frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameFault {
    /// What the peer is told.
    pub code: Code,
    /// A sentence for it.
    pub text: &'static str,
}

fn fault<T>(code: Code, text: &'static str) -> Result<T, FrameFault> {
    Err(FrameFault { code, text })
}

/// What bytes of frames have brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing whole: more has to come behind what was not consumed.
    More,
    /// A message is whole: [`Assembly::bytes`].
    Message,
    /// A ping, to be answered with the same content (RFC 6455 5.5.2).
    Ping(Control),
    /// A pong; nobody waits for one.
    Pong,
    /// The peer ends the WebSocket, with this code if it gives one (RFC 6455 5.5.1).
    Close(Option<u16>),
}

/// The content of a control frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    bytes: [u8; CONTROL_BYTES_MAX],
    len: u8,
}

impl Control {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// A frame of a message that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    left: u64,
    mask: [u8; 4],
    last: bool,
}

/// A message that comes in.
#[derive(Debug, Default)]
pub struct Assembly {
    bytes: Vec<u8>,
    frame: Option<Frame>,
    /// It has begun, and further frames follow this one.
    open: bool,
    /// It is whole, and not used up.
    whole: bool,
    /// It is binary, where such are taken.
    binary: bool,
    takes_binary: bool,
    /// It is one of the long ones, of which there may be some only.
    pub long: Option<Arc<()>>,
}

const OPCODE_CONTINUATION: u8 = 0;
const OPCODE_TEXT: u8 = 1;
const OPCODE_BINARY: u8 = 2;
const OPCODE_CLOSE: u8 = 8;
const OPCODE_PING: u8 = 9;
const OPCODE_PONG: u8 = 10;
/// The last frame of a message.
const FIN: u8 = 0x80;
/// A frame is masked.
const MASKED: u8 = 0x80;

/// The head of a frame.
struct FrameHead {
    fin: bool,
    opcode: u8,
    length: u64,
    mask: [u8; 4],
    bytes: usize,
}

impl Assembly {
    /// Nothing, which will come into this memory.
    pub fn with(mut memory: Vec<u8>) -> Assembly {
        memory.clear();
        Assembly { bytes: memory, ..Assembly::default() }
    }

    /// Nothing, and messages may be binary.
    #[cfg(debug_assertions)]
    pub fn of_any() -> Assembly {
        Assembly { takes_binary: true, ..Assembly::default() }
    }

    /// Whether the message is binary.
    #[cfg(debug_assertions)]
    pub fn is_binary(&self) -> bool {
        self.binary
    }

    /// The memory, for another.
    pub fn into_memory(self) -> Vec<u8> {
        self.bytes
    }

    /// What has come of the message.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether no message is under way, so that nothing has to be kept.
    pub fn is_idle(&self) -> bool {
        self.frame.is_none() && !self.open && !self.whole
    }

    /// The message is used up.
    pub fn clear(&mut self) {
        self.bytes.clear();
        (self.whole, self.binary, self.long) = (false, false, None);
    }

    /// The message is to be looked at once more: it is what comes next.
    pub fn again(&mut self) {
        self.whole = true;
    }

    /// Takes in bytes up to the end of one message or one control frame, of messages of at most `bytes_max`. Returns how many it has
    /// used up.
    ///
    /// # Errors
    /// What is wrong, which ends the WebSocket (RFC 6455 7.1.7).
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
                (OPCODE_BINARY, false) => return fault(Code::Unsupported, "messages are text here"),
                (OPCODE_CONTINUATION, _) => return fault(Code::Protocol, "there is no message to go on with"),
                _ => return fault(Code::Protocol, "a message begins within another one"),
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

/// Takes in one control frame, where the peer may send nothing else. Returns how many bytes it has used up: none, if more has to come, of
/// which nothing has to be kept but the bytes.
///
/// # Errors
/// What is wrong, which ends the WebSocket. Of a message that is its beginning, whatever its length.
pub fn read_control(input: &[u8]) -> Result<(usize, Event), FrameFault> {
    let Some(head) = read_head(input)? else { return Ok((0, Event::More)) };
    if head.opcode < OPCODE_CLOSE {
        return fault(Code::Unsupported, "nothing is taken here; publish by POST");
    }
    let end = head.bytes + head.length as usize;
    let Some(content) = input.get(head.bytes..end) else { return Ok((0, Event::More)) };
    control(&head, content).map(|event| (end, event))
}

/// Reads the head of a frame, if it is there. What is wrong with the first two bytes is said when they are.
fn read_head(bytes: &[u8]) -> Result<Option<FrameHead>, FrameFault> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    let (fin, opcode, short) = (first & FIN != 0, first & 0x0f, second & 0x7f);
    if first & 0x70 != 0 {
        return fault(Code::Protocol, "a bit is set that only an extension may set");
    }
    if !matches!(opcode, OPCODE_CONTINUATION..=OPCODE_BINARY | OPCODE_CLOSE..=OPCODE_PONG) {
        return fault(Code::Protocol, "the kind of the frame is not known");
    }
    if second & MASKED == 0 {
        return fault(Code::Protocol, "a client has to mask its frames");
    }
    if opcode >= OPCODE_CLOSE && (!fin || short > CONTROL_BYTES_MAX as u8) {
        return fault(Code::Protocol, "a control frame is in pieces, or too long");
    }
    // RFC 6455 5.2: in as few bytes as there can be.
    let (length, long) = match short {
        126 => {
            let Some(long) = rest.first_chunk::<2>() else { return Ok(None) };
            let length = u64::from(u16::from_be_bytes(*long));
            if length < 126 {
                return fault(Code::Protocol, "the length of a frame has more bytes than it needs");
            }
            (length, 2)
        }
        127 => {
            let Some(long) = rest.first_chunk::<8>() else { return Ok(None) };
            let length = u64::from_be_bytes(*long);
            if length <= u64::from(u16::MAX) || length >> 63 != 0 {
                return fault(Code::Protocol, "the length of a frame is wrong");
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
            _ => fault(Code::Protocol, "a code has two bytes"),
        };
    };
    let code = u16::from_be_bytes(*code);
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return fault(Code::Protocol, "this code is never sent");
    }
    if std::str::from_utf8(reason).is_err() {
        return fault(Code::NotUtf8, "the reason is no UTF-8");
    }
    Ok(Event::Close(Some(code)))
}

/// Appends what masked bytes say (RFC 6455 5.3), and turns the mask to where the next ones go on.
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

/// Appends the head of a frame of this server's, which is a whole message of text.
pub fn write_head(out: &mut Vec<u8>, bytes: usize) {
    write_head_of(out, false, bytes);
}

/// The same of a message that is binary, or text.
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

/// Appends the answer to a ping.
pub fn write_pong(out: &mut Vec<u8>, content: &Control) {
    out.extend_from_slice(&[FIN | OPCODE_PONG, content.len]);
    out.extend_from_slice(content.bytes());
}

/// Appends a ping without content.
pub fn write_ping(out: &mut Vec<u8>) {
    out.extend_from_slice(&[FIN | OPCODE_PING, 0]);
}

/// Appends the last frame of this side.
pub fn write_close(out: &mut Vec<u8>, code: Option<u16>) {
    out.extend_from_slice(&[FIN | OPCODE_CLOSE, 2 * u8::from(code.is_some())]);
    out.extend(code.into_iter().flat_map(u16::to_be_bytes));
}

/// Appends the last frame of this side, with what is wrong.
pub fn write_fault(out: &mut Vec<u8>, fault: FrameFault) {
    out.extend_from_slice(&[FIN | OPCODE_CLOSE, 2 + fault.text.len() as u8]);
    out.extend_from_slice(&fault.code.number().to_be_bytes());
    out.extend_from_slice(fault.text.as_bytes());
}
