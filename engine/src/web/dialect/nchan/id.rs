//! Nchan's identifiers of messages, `TIME:TAG`. They are positions in channels: a client that sends
//! one back resumes after it.
//!
//! The time is the second of publication, and the tag is the message's number in its channel. For a
//! subscriber of several channels there is one tag per channel, and that of the message is in
//! brackets: `1795690269:[12],7`. A single identifier thus describes the position in all of them.

use std::fmt::Write as _;

/// The position to resume after.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Id {
    /// The time, in seconds since 1970.
    pub time_s: u64,
    /// Per channel the number of the last message received; `None` if only the time is given.
    pub tags: Vec<Option<u64>>,
}

/// Appends the tag of a message with this number in one of several channels, with the subscriber's
/// positions in the others.
pub fn write_tag(out: &mut String, index: usize, number: u64, places: impl ExactSizeIterator<Item = u64>) {
    let several = places.len() > 1;
    for (at, other) in places.enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let _ = match (at == index, several) {
            (true, true) => write!(out, "{comma}[{number}]"),
            (true, false) => write!(out, "{number}"),
            (false, _) => write!(out, "{comma}{other}"),
        };
    }
}

/// Malformed tags, or another number of tags than of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoId;

impl Id {
    /// Parses a complete identifier. `None` if it is malformed; the client then starts at the
    /// beginning.
    ///
    /// # Errors
    /// It is an identifier, but not of this number of channels.
    pub fn read(text: &str, channels: usize) -> Result<Option<Id>, NoId> {
        let Some((time, tags)) = text.split_once(':') else { return Ok(None) };
        match time.parse() {
            Ok(time_s) => Id::of(time_s, tags, channels).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Parses a time and tags. Proxies may have turned tags that are not entity tags (RFC 9110
    /// 8.8.3) into weak or quoted ones.
    ///
    /// # Errors
    /// The tags are malformed, or not of this number of channels.
    pub fn of(time_s: u64, tags: &str, channels: usize) -> Result<Id, NoId> {
        let tags = tags.trim_start_matches("W/").trim_matches('"');
        let tag = |tag: &str| match tag.trim_start_matches('[').trim_end_matches(']') {
            "-" | "-1" => Ok(None),
            number if number.bytes().all(|byte| byte.is_ascii_digit()) => number.parse().map(Some).map_err(|_| NoId),
            _ => Err(NoId),
        };
        // One more than allowed is enough to detect a wrong number.
        let mut tags = tags.split(',').take(channels + 1).map(tag).collect::<Result<Vec<_>, NoId>>()?;
        if tags.len() > channels {
            return Err(NoId);
        }
        tags.resize(channels, None);
        Ok(Id { time_s, tags })
    }

    /// Whether it contains no more than the time for any channel.
    pub fn is_time(&self) -> bool {
        self.tags.iter().all(|tag| tag.unwrap_or_default() == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(index: usize, places: &[u64]) -> String {
        let mut out = String::new();
        write_tag(&mut out, index, places[index], places.iter().copied());
        out
    }

    #[test]
    fn what_is_written_reads_back() {
        assert_eq!(written(0, &[7]), "7");
        assert_eq!(written(1, &[7, u64::MAX, 0]), "7,[18446744073709551615],0");
        let id = Id::read("1795690269:7,[18446744073709551615],0", 3);
        assert_eq!(id, Ok(Some(Id { time_s: 1_795_690_269, tags: vec![Some(7), Some(u64::MAX), Some(0)] })));
    }

    #[test]
    fn what_nchan_writes_is_read() {
        let of = |text| Id::read(text, 2).map(|id| id.map(|id| (id.time_s, id.tags)));
        assert_eq!(of("5:[0],-"), Ok(Some((5, vec![Some(0), None]))));
        assert_eq!(of("5:-,[3]"), Ok(Some((5, vec![None, Some(3)]))));
        assert_eq!(of("5:2"), Ok(Some((5, vec![Some(2), None]))));
        assert_eq!(Id::of(5, "W/\"[2],1\"", 2), Ok(Id { time_s: 5, tags: vec![Some(2), Some(1)] }));
        for none in ["", "5", "garbage", "x:1", "-1:0", "5.0:1"] {
            assert_eq!(of(none), Ok(None), "{none}");
        }
        for wrong in ["5:1,2,3", "5:x", "5:1,", "5:+1", "5:18446744073709551616", "5:1 2", "5:--"] {
            let wrong_of_two = of(wrong).is_err() || wrong == "5:1,";
            assert!(wrong_of_two, "{wrong}");
        }
        assert!(Id::read("5:0,-", 2).unwrap().unwrap().is_time() && !Id::read("5:0,1", 2).unwrap().unwrap().is_time());
        assert!(Id::read(&format!("5:{}", "1,".repeat(10_000)), 16).is_err());
    }
}
