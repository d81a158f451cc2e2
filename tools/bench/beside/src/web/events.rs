//! Server-sent events.

use super::http::{head, position, refused, request};
use super::{Stage, Taken, Talk, WHOLE_BYTES_MAX};

/// Subscribers of events; see the module.
pub(super) struct Events {
    /// Path of a channel.
    pub(super) path: fn(&str) -> String,
}

impl Talk for Events {
    fn begin(&self, channel: &str, out: &mut Vec<u8>) {
        request("GET", &(self.path)(channel), "Accept: text/event-stream\r\n", "", out);
    }

    /// An event ends with an empty line. Lines of a transfer coding in between mean nothing in an event stream.
    fn read(
        &self,
        stage: &mut Stage,
        _channel: &str,
        bytes: &[u8],
        _out: &mut Vec<u8>,
        on_content: &mut dyn FnMut(&[u8]),
    ) -> Taken {
        if !stage.streams {
            let Some(head) = head(bytes)? else { return Ok(None) };
            if head.status != 200 {
                return Err(refused("a subscription", &head, bytes));
            }
            *stage = Stage { streams: true, ready: true };
            return Ok(Some(head.bytes));
        }
        match position(bytes, b"\n\n") {
            Some(end) => {
                on_content(&bytes[..end]);
                Ok(Some(end + 2))
            }
            None if bytes.len() > WHOLE_BYTES_MAX => Err("events: an endless one".into()),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_one_by_one_in_chunks_or_not() {
        let events = Events { path: |channel| format!("/sub/{channel}") };
        let (mut stage, mut out, mut seen) = (Stage::default(), Vec::new(), Vec::new());
        events.begin("c", &mut out);
        assert!(out.starts_with(b"GET /sub/c HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"));
        let text = b"HTTP/1.1 200 OK\r\n\r\n3\r\n:\n\n\r\n1a\r\nid: 1\ndata: ~i1.1.1.~\n\n\r\n";
        let mut rest = &text[..];
        while let Some(used) =
            events.read(&mut stage, "c", rest, &mut out, &mut |content| seen.push(content.to_vec())).expect("no fault")
        {
            rest = &rest[used..];
        }
        assert!(stage.ready && seen.len() == 2 && seen[1].ends_with(b"data: ~i1.1.1.~"), "{seen:?}");
        let told = events.read(&mut Stage::default(), "c", b"HTTP/1.1 429 No\r\n\r\nwait", &mut out, &mut |_| ());
        assert_eq!(told, Err("a subscription was answered with 429: wait".into()));
    }
}
