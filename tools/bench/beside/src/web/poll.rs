//! Long polls that wait. They serve to weigh those who wait; what is published is not asked for.

use super::http::{answer, refused, request};
use super::{Stage, Taken, Talk};

/// Subscribers by long poll; see the module.
pub(super) struct Poll {
    /// Path of a channel.
    pub(super) path: fn(&str) -> String,
}

impl Talk for Poll {
    fn begin(&self, channel: &str, out: &mut Vec<u8>) {
        request("GET", &(self.path)(channel), "", "", out);
    }

    fn read(
        &self,
        _stage: &mut Stage,
        channel: &str,
        bytes: &[u8],
        out: &mut Vec<u8>,
        _on_content: &mut dyn FnMut(&[u8]),
    ) -> Taken {
        let Some((head, used)) = answer(bytes)? else { return Ok(None) };
        // Nothing came while it waited: Throng says 204, Nchan 304 or 408.
        if !matches!(head.status, 204 | 304) {
            return Err(refused("a poll", &head, &bytes[..used]));
        }
        self.begin(channel, out);
        Ok(Some(used))
    }

    fn is_silent(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_that_is_over_asks_again_and_a_refusal_is_told() {
        let poll = Poll { path: |channel| format!("/n/{channel}?wait=55") };
        let (mut stage, mut out) = (Stage::default(), Vec::new());
        let used = poll.read(&mut stage, "c", b"HTTP/1.1 204 No Content\r\n\r\n", &mut out, &mut |_| ());
        assert_eq!((used, out.starts_with(b"GET /n/c?wait=55 HTTP/1.1\r\n")), (Ok(Some(27)), true));
        let refusal = b"HTTP/1.1 429 No\r\nContent-Length: 4\r\n\r\nwait";
        assert!(poll.read(&mut stage, "c", refusal, &mut out, &mut |_| ()).is_err());
    }
}
