//! The text protocol of NATS.

use super::http::position;
use super::{Answered, Publish, Stage, Taken, Talk, WHOLE_BYTES_MAX};

/// See the module.
pub(super) struct Nats;

const CONNECT: &str =
    "CONNECT {\"verbose\":false,\"pedantic\":false,\"lang\":\"load\",\"version\":\"1\",\"protocol\":1}\r\n";

/// One line, or a message with its content: where its content is, and its end.
fn unit(bytes: &[u8]) -> Result<Option<(std::ops::Range<usize>, usize)>, String> {
    let Some(end) = position(bytes, b"\r\n") else {
        return if bytes.len() > WHOLE_BYTES_MAX { Err("nats: an endless line".into()) } else { Ok(None) };
    };
    let line = &bytes[..end];
    if let Some(told) = line.strip_prefix(b"-ERR") {
        return Err(format!("nats: {}", String::from_utf8_lossy(told).trim()));
    }
    if !line.starts_with(b"MSG ") {
        return Ok(Some((0..end, end + 2)));
    }
    let length = std::str::from_utf8(line).ok().and_then(|line| line.rsplit(' ').next()?.parse::<usize>().ok());
    let length = length.filter(|length| *length <= WHOLE_BYTES_MAX).ok_or("nats: a message without a length")?;
    let start = end + 2;
    Ok((bytes.len() >= start + length + 2).then_some((start..start + length, start + length + 2)))
}

impl Talk for Nats {
    fn begin(&self, channel: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("{CONNECT}SUB {channel} 1\r\nPING\r\n").as_bytes());
    }

    fn read(
        &self,
        stage: &mut Stage,
        _channel: &str,
        bytes: &[u8],
        out: &mut Vec<u8>,
        on_content: &mut dyn FnMut(&[u8]),
    ) -> Taken {
        let Some((content, end)) = unit(bytes)? else { return Ok(None) };
        match &bytes[..4.min(bytes.len())] {
            b"PING" => out.extend_from_slice(b"PONG\r\n"),
            b"PONG" => stage.ready = true,
            b"MSG " => on_content(&bytes[content]),
            _ => {}
        }
        Ok(Some(end))
    }
}

impl Publish for Nats {
    fn begin(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(CONNECT.as_bytes());
    }

    fn publish(&self, channel: &str, content: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("PUB {channel} {}\r\n{content}\r\n", content.len()).as_bytes());
    }

    fn is_answered(&self) -> bool {
        false
    }

    fn read(&self, bytes: &[u8], out: &mut Vec<u8>) -> Answered {
        let Some((_, end)) = unit(bytes)? else { return Ok(None) };
        if bytes.starts_with(b"PING") {
            out.extend_from_slice(b"PONG\r\n");
        }
        Ok(Some((end, false)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_messages_are_read_and_pings_answered() {
        let (mut stage, mut out, mut seen) = (Stage::default(), Vec::new(), Vec::new());
        let text = b"INFO {}\r\nPONG\r\nMSG c 1 5\r\na\r\nbc\r\nPING\r\nMSG c 1 3\r\nab";
        let mut rest = &text[..];
        while let Some(used) =
            Talk::read(&Nats, &mut stage, "c", rest, &mut out, &mut |content| seen.push(content.to_vec()))
                .expect("no fault")
        {
            rest = &rest[used..];
        }
        assert_eq!((seen, &out[..], rest), (vec![b"a\r\nbc".to_vec()], &b"PONG\r\n"[..], &b"MSG c 1 3\r\nab"[..]));
        assert!(stage.ready);
        let told = Publish::read(&Nats, b"-ERR 'maximum connections exceeded'\r\n", &mut out);
        assert!(told.expect_err("an error").contains("maximum connections"));
        assert!(unit(b"MSG c 1 x\r\n").is_err());
    }
}
