//! Date and time as XMPP writes them (XEP-0082 3.2 "DateTime"): a part of what `jiff` reads and writes. The clock is an argument.

use jiff::civil::DateTime;
use jiff::fmt::temporal::{DateTimePrinter, Pieces};
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

/// How much of a second is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Precision {
    /// `2002-09-10T23:08:25Z`
    Seconds,
    /// `2002-09-10T23:08:25.042Z`
    Millis,
}

impl Precision {
    fn printer(self) -> DateTimePrinter {
        let digits = match self {
            Precision::Seconds => 0,
            Precision::Millis => 3,
        };
        DateTimePrinter::new().precision(Some(digits))
    }
}

/// Appends a moment, given in microseconds since the Unix epoch, in UTC. What is finer than the precision is cut off.
/// Moments after the last [`Timestamp`], 26 hours before the year 10000, are written as the end of the year 9999.
pub fn write(out: &mut Vec<u8>, wall_us: u64, precision: Precision) {
    let written = precision.printer().print_datetime(&utc(wall_us), &mut *out);
    written.expect("a vector takes all that is written");
    out.push(b'Z');
}

/// The same as a text of its own.
pub fn text(wall_us: u64, precision: Precision) -> String {
    precision.printer().datetime_to_string(&utc(wall_us)) + "Z"
}

fn utc(wall_us: u64) -> DateTime {
    let moment = i64::try_from(wall_us).ok().and_then(|us| Timestamp::from_microsecond(us).ok());
    moment.map_or(DateTime::MAX, |moment| Offset::UTC.to_datetime(moment))
}

/// Reads a moment with any time zone definition and up to nine fractional digits; `None` if it is not a DateTime or lies
/// before the Unix epoch. Digits finer than microseconds are cut off, and a leap second is read as the second before.
pub fn parse(text: &str) -> Option<u64> {
    // `jiff` reads more of ISO 8601 and RFC 9557: basic formats, a time without seconds, an annotated time zone.
    let separators = [4, 7, 10, 13, 16].map(|at| text.as_bytes().get(at).copied());
    let ([.., b'Z'] | [.., b'+' | b'-', _, _, b':', _, _]) = text.as_bytes() else { return None };
    if separators != b"--T::".map(Some) {
        return None;
    }
    let pieces = Pieces::parse(text).ok()?;
    let local = pieces.date().to_datetime(pieces.time()?);
    let offset = SignedDuration::from_secs(pieces.to_numeric_offset()?.seconds().into());
    // A `Timestamp` ends before the year 9999 does, and clients ask for what is before its end.
    let since = local.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0)) - offset;
    u64::try_from(since.as_micros()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(wall_us: u64, precision: Precision) -> String {
        let mut out = Vec::new();
        write(&mut out, wall_us, precision);
        assert_eq!(out, text(wall_us, precision).as_bytes());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn moments_are_written_by_xep_0082() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            // XEP-0203's and XEP-0202's examples.
            (1_031_699_305, "2002-09-10T23:08:25Z"),
            (1_166_551_115, "2006-12-19T17:58:35Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ];
        for (seconds, text) in cases {
            assert_eq!(written(seconds * 1_000_000, Precision::Seconds), text);
            assert_eq!(parse(text), Some(seconds * 1_000_000));
        }
        assert_eq!(written(1_031_699_305_042_999, Precision::Millis), "2002-09-10T23:08:25.042Z");
        assert_eq!(written(u64::MAX, Precision::Seconds), "9999-12-31T23:59:59Z");
    }

    #[test]
    fn zones_and_fractions_are_read_by_xep_0082() {
        // The two spellings of one moment in XEP-0082 3.2, moved past the epoch by ten years.
        assert_eq!(parse("1979-07-20T21:56:15-05:00"), parse("1979-07-21T02:56:15Z"));
        assert_eq!(parse("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(parse("1970-01-01T00:00:00.5Z"), Some(500_000));
        assert_eq!(parse("1970-01-01T00:00:00.1234567Z"), Some(123_456));
    }

    #[test]
    fn what_is_no_datetime_is_refused() {
        let cases = "|1969-07-21T02:56:15Z|1970-01-01T00:30:00+01:00|2002-09-10|2002-09-10T23:08:25|20020910T23:08:25Z\
                     |2002-13-10T23:08:25Z|2002-02-29T23:08:25Z|2002-09-10T24:08:25Z|2002-09-10T23:08:25.Z\
                     |2002-09-10T23:08:25+5:00|2002-09-10T23:08:25Zx|2002-09-10T23:08:2\u{e9}Z|+002-09-10T23:08:25Z";
        for text in cases.split('|') {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_moment_reads_back(ms in 0..=Timestamp::MAX.as_millisecond() as u64) {
            prop_assert_eq!(parse(&written(ms * 1000, Precision::Millis)), Some(ms * 1000));
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC{0,40}", tail in "[0-9:+Z.-]{0,12}") {
            parse(&text);
            parse(&format!("2002-09-10T23:08:25{tail}"));
        }
    }
}
