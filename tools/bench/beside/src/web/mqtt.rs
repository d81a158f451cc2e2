//! MQTT 3.1.1 with QoS 0: the cheapest that a broker has.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{Answered, Publish, Stage, Taken, Talk, WHOLE_BYTES_MAX};

const CONNACK: u8 = 2;
const PUBLISH: u8 = 3;
const SUBACK: u8 = 9;

/// See the module.
pub(super) struct Mqtt;

/// A broker ends the older of two connections with one name.
static NEXT: AtomicU32 = AtomicU32::new(0);

fn text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// A packet (MQTT 3.1.1, 2.2).
fn packet(first: u8, content: &[u8], out: &mut Vec<u8>) {
    out.push(first);
    let mut rest = content.len();
    loop {
        let more = if rest > 127 { 0x80 } else { 0 };
        out.push((rest & 127) as u8 | more);
        rest >>= 7;
        if more == 0 {
            break;
        }
    }
    out.extend_from_slice(content);
}

fn connect(out: &mut Vec<u8>) {
    let mut content = Vec::new();
    text("MQTT", &mut content);
    // Level 4, a clean session, no keep-alive.
    content.extend_from_slice(&[4, 2, 0, 0]);
    text(&format!("load{}", NEXT.fetch_add(1, Ordering::Relaxed)), &mut content);
    packet(0x10, &content, out);
}

/// A packet's first byte, where its content is, and its end.
fn read(bytes: &[u8]) -> Result<Option<(u8, usize, usize)>, String> {
    let [first, rest @ ..] = bytes else { return Ok(None) };
    let mut length = 0;
    for (at, byte) in rest.iter().enumerate() {
        if at > 3 {
            return Err("mqtt: a length of more than four bytes".into());
        }
        length |= usize::from(byte & 127) << (7 * at);
        if byte & 0x80 == 0 {
            let (start, end) = (at + 2, at + 2 + length);
            if length > WHOLE_BYTES_MAX {
                return Err("mqtt: a packet that is too long".into());
            }
            return Ok((bytes.len() >= end).then_some((*first, start, end)));
        }
    }
    Ok(None)
}

impl Talk for Mqtt {
    fn begin(&self, channel: &str, out: &mut Vec<u8>) {
        connect(out);
        let mut content = vec![0, 1];
        text(channel, &mut content);
        content.push(0);
        packet(0x82, &content, out);
    }

    fn read(
        &self,
        stage: &mut Stage,
        _channel: &str,
        bytes: &[u8],
        _out: &mut Vec<u8>,
        on_content: &mut dyn FnMut(&[u8]),
    ) -> Taken {
        let Some((first, start, end)) = read(bytes)? else { return Ok(None) };
        let content = &bytes[start..end];
        match (first >> 4, content) {
            (CONNACK, [_, 0]) => {}
            (SUBACK, [_, _, 0]) => stage.ready = true,
            (PUBLISH, _) => on_content(content),
            (kind, _) => return Err(format!("mqtt: a packet of the kind {kind} that refuses, or was not asked for")),
        }
        Ok(Some(end))
    }
}

impl Publish for Mqtt {
    fn begin(&self, out: &mut Vec<u8>) {
        connect(out);
    }

    fn publish(&self, channel: &str, content: &str, out: &mut Vec<u8>) {
        let mut bytes = Vec::new();
        text(channel, &mut bytes);
        bytes.extend_from_slice(content.as_bytes());
        packet(0x30, &bytes, out);
    }

    fn is_answered(&self) -> bool {
        false
    }

    fn read(&self, bytes: &[u8], _out: &mut Vec<u8>) -> Answered {
        let Some((first, start, end)) = read(bytes)? else { return Ok(None) };
        match (first >> 4, &bytes[start..end]) {
            (CONNACK, [_, 0]) => Ok(Some((end, false))),
            (kind, _) => Err(format!("mqtt: a publisher was answered with a packet of the kind {kind}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_however_they_are_cut() {
        let mut bytes = Vec::new();
        Publish::publish(&Mqtt, "a", &"x".repeat(200), &mut bytes);
        assert_eq!(bytes[..6], [0x30, 0xcb, 1, 0, 1, b'a']);
        for cut in 0..bytes.len() {
            assert_eq!(read(&bytes[..cut]), Ok(None));
        }
        assert_eq!(read(&bytes), Ok(Some((0x30, 3, bytes.len()))));
        assert!(read(&[0x30, 0xff, 0xff, 0xff, 0xff, 1]).is_err());
    }

    #[test]
    fn a_subscriber_is_ready_when_it_is_granted_and_a_refusal_is_told() {
        let (mut stage, mut out) = (Stage::default(), Vec::new());
        let mut step = |bytes: &[u8]| {
            let taken = Talk::read(&Mqtt, &mut stage, "a", bytes, &mut out, &mut |_| ());
            (taken, stage.ready)
        };
        assert_eq!(step(&[0x20, 2, 0, 0]), (Ok(Some(4)), false));
        assert_eq!(step(&[0x90, 3, 0, 1, 0]), (Ok(Some(5)), true));
        assert!(step(&[0x20, 2, 0, 5]).0.is_err() && step(&[0x90, 3, 0, 1, 0x80]).0.is_err());
    }
}
