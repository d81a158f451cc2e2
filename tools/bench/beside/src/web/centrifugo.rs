//! Centrifugo's protocol in JSON: a line a command or an answer.

use super::http::position;
use super::{Stage, Taken, Talk};

/// See the module.
pub(super) struct Centrifugo;

impl Talk for Centrifugo {
    fn begin(&self, channel: &str, out: &mut Vec<u8>) {
        let text = format!("{{\"id\":1,\"connect\":{{}}}}\n{{\"id\":2,\"subscribe\":{{\"channel\":\"{channel}\"}}}}");
        out.extend_from_slice(text.as_bytes());
    }

    /// A frame's lines are taken one by one; the last has no end.
    fn read(
        &self,
        stage: &mut Stage,
        _channel: &str,
        bytes: &[u8],
        out: &mut Vec<u8>,
        on_content: &mut dyn FnMut(&[u8]),
    ) -> Taken {
        if bytes.is_empty() {
            return Ok(None);
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let line = &bytes[..end.unwrap_or(bytes.len())];
        if line == b"{}" {
            // Alone it is a ping.
            out.extend_from_slice(b"{}");
        } else if position(line, b"\"error\":").is_some() {
            return Err(format!("centrifugo: {}", String::from_utf8_lossy(line)));
        } else if line.starts_with(b"{\"id\":2,") {
            stage.ready = true;
        } else if line.starts_with(b"{\"push\":") {
            on_content(line);
        }
        Ok(Some(end.map_or(bytes.len(), |end| end + 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_pings_and_pushes_are_told_apart() {
        let (mut stage, mut out, mut seen) = (Stage::default(), Vec::new(), Vec::new());
        let text = b"{\"id\":1,\"connect\":{\"ping\":25}}\n{\"id\":2,\"subscribe\":{}}\n{\"push\":{\"pub\":1}}\n{}";
        let mut rest = &text[..];
        while let Some(used) =
            Centrifugo.read(&mut stage, "c", rest, &mut out, &mut |line| seen.push(line.to_vec())).expect("no fault")
        {
            rest = &rest[used..];
        }
        assert_eq!((seen, &out[..]), (vec![b"{\"push\":{\"pub\":1}}".to_vec()], &b"{}"[..]));
        assert!(stage.ready);
        let refusal = b"{\"id\":2,\"error\":{\"code\":103}}";
        assert!(Centrifugo.read(&mut stage, "c", refusal, &mut out, &mut |_| ()).is_err());
    }
}
