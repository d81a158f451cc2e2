//! WebSocket (RFC 6455): items as text, or another protocol within.

use super::http::{head, refused, request};
use super::{Fault, Stage, Taken, Talk, WHOLE_BYTES_MAX};

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Subscribers over WebSocket; see the module.
pub(super) struct WebSocket {
    /// Path of a channel.
    pub(super) path: fn(&str) -> String,
    /// Header lines of the handshake beside the usual ones.
    pub(super) fields: &'static str,
    /// What is spoken in frames of this kind; none: frames have items.
    pub(super) within: Option<(&'static dyn Talk, Kind)>,
}

/// What frames a client sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Text.
    Text,
    /// Binary.
    Binary,
}

/// Writes a frame with the mask 0, so that its content stays as it is.
fn write(kind: u8, content: &[u8], out: &mut Vec<u8>) {
    out.push(0x80 | kind);
    match u16::try_from(content.len()) {
        Ok(length @ 0..=125) => out.push(0x80 | length as u8),
        Ok(length) => {
            out.push(0x80 | 126);
            out.extend_from_slice(&length.to_be_bytes());
        }
        Err(_) => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(content.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(content);
}

/// A frame of a server: its kind, where its content is, and its end.
fn frame(bytes: &[u8]) -> Result<Option<(u8, usize, usize)>, Fault> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    if first & 0xf0 != 0x80 || second & 0x80 != 0 {
        return Err("websocket: a frame in parts, or masked".into());
    }
    let (length, head) = match second {
        126 if rest.len() >= 2 => (u64::from(rest[0]) << 8 | u64::from(rest[1]), 4),
        127 if rest.len() >= 8 => (rest[..8].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)), 10),
        126 | 127 => return Ok(None),
        length => (u64::from(*length), 2),
    };
    if length > WHOLE_BYTES_MAX as u64 {
        return Err("websocket: a frame that is too long".into());
    }
    let end = head + length as usize;
    Ok((bytes.len() >= end).then_some((first & 15, head, end)))
}

impl WebSocket {
    fn frame_kind(&self) -> u8 {
        match self.within {
            Some((_, Kind::Binary)) => BINARY,
            _ => TEXT,
        }
    }
}

impl Talk for WebSocket {
    fn begin(&self, channel: &str, out: &mut Vec<u8>) {
        let fields = format!(
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{}",
            self.fields
        );
        request("GET", &(self.path)(channel), &fields, "", out);
    }

    /// What is spoken within may not be cut across frames; none of the servers does so.
    fn read(
        &self,
        stage: &mut Stage,
        channel: &str,
        bytes: &[u8],
        out: &mut Vec<u8>,
        on_content: &mut dyn FnMut(&[u8]),
    ) -> Taken {
        if !stage.streams {
            let Some(head) = head(bytes)? else { return Ok(None) };
            if head.status != 101 {
                return Err(refused("a WebSocket", &head, bytes));
            }
            *stage = Stage { streams: true, ready: self.within.is_none() };
            if let Some((talk, _)) = self.within {
                let mut inner = Vec::new();
                talk.begin(channel, &mut inner);
                write(self.frame_kind(), &inner, out);
            }
            return Ok(Some(head.bytes));
        }
        let Some((kind, start, end)) = frame(bytes)? else { return Ok(None) };
        let mut content = &bytes[start..end];
        match (kind, self.within) {
            (PING, _) => write(PONG, content, out),
            (PONG, _) => {}
            (CLOSE, _) => {
                let why = String::from_utf8_lossy(content.get(2..).unwrap_or_default()).into_owned();
                return Err(format!("websocket: closed by the server: {why}"));
            }
            (_, None) => on_content(content),
            (_, Some((talk, _))) => {
                let mut inner = Vec::new();
                while let Some(used) = talk.read(stage, channel, content, &mut inner, on_content)? {
                    content = &content[used..];
                }
                if !content.is_empty() {
                    return Err("websocket: something is cut across frames".into());
                }
                if !inner.is_empty() {
                    write(self.frame_kind(), &inner, out);
                }
            }
        }
        Ok(Some(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_however_they_are_cut_and_pings_are_answered() {
        let socket = WebSocket { path: |channel| format!("/n/{channel}"), fields: "", within: None };
        let (mut stage, mut out, mut seen) = (Stage::default(), Vec::new(), Vec::new());
        let upgraded = b"HTTP/1.1 101 Switching Protocols\r\n\r\n";
        assert_eq!(socket.read(&mut stage, "c", upgraded, &mut out, &mut |_| ()), Ok(Some(upgraded.len())));
        assert!(stage.ready && out.is_empty());
        let long = vec![b'x'; 300];
        let text = [&[0x81, 126, 1, 44][..], &long].concat();
        for cut in 0..text.len() {
            assert_eq!(frame(&text[..cut]), Ok(None));
        }
        let all = [&text[..], &[0x89, 1, b'p']].concat();
        let mut rest = &all[..];
        while let Some(used) =
            socket.read(&mut stage, "c", rest, &mut out, &mut |content| seen.push(content.to_vec())).expect("no fault")
        {
            rest = &rest[used..];
        }
        assert_eq!((seen, &out[..]), (vec![long], &[0x8a, 0x81, 0, 0, 0, 0, b'p'][..]));
        for wrong in [&[0x01, 0][..], &[0x81, 0x81, 0, 0, 0, 0, 1], &[0x88, 2, 3, 0xe8]] {
            assert!(socket.read(&mut stage, "c", wrong, &mut out, &mut |_| ()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_spoken_within_begins_when_the_handshake_is_done() {
        let (talk, kind) = (&super::super::mqtt::Mqtt, Kind::Binary);
        let socket = WebSocket { path: |_| "/mqtt".into(), fields: "", within: Some((talk, kind)) };
        let (mut stage, mut out) = (Stage::default(), Vec::new());
        let upgraded = b"HTTP/1.1 101 Switching Protocols\r\n\r\n";
        assert_eq!(socket.read(&mut stage, "c", upgraded, &mut out, &mut |_| ()), Ok(Some(upgraded.len())));
        assert!(!stage.ready && out[0] == 0x82 && out[1] & 0x80 != 0);
        let granted = [&[0x82, 9][..], &[0x20, 2, 0, 0], &[0x90, 3, 0, 1, 0]].concat();
        assert_eq!(socket.read(&mut stage, "c", &granted, &mut out, &mut |_| ()), Ok(Some(granted.len())));
        assert!(stage.ready);
        let cut = [0x82, 3, 0x20, 2, 0];
        assert!(socket.read(&mut stage, "c", &cut, &mut out, &mut |_| ()).is_err());
    }
}
