//! Date and time as XMPP writes them (XEP-0082 3.2 "DateTime"), by arithmetic alone: the clock is an argument.

/// How much of a second is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Precision {
    /// `2002-09-10T23:08:25Z`
    Seconds,
    /// `2002-09-10T23:08:25.042Z`
    Millis,
}

const DAY_S: i64 = 86_400;

/// Appends a moment, given in microseconds since the Unix epoch, in UTC. What is finer than the precision is cut off.
/// Years after 9999 are beyond the format; they are written as the end of that year.
pub fn write(out: &mut Vec<u8>, wall_us: u64, precision: Precision) {
    const LAST_S: u64 = 253_402_300_799;
    let total_s = (wall_us / 1_000_000).min(LAST_S) as i64;
    let (year, month, day) = civil_from_days(total_s.div_euclid(DAY_S));
    let second = total_s.rem_euclid(DAY_S);
    push_digits(out, year as u64, 4);
    for (separator, number) in
        [(b'-', month), (b'-', day), (b'T', second / 3600), (b':', second / 60 % 60), (b':', second % 60)]
    {
        out.push(separator);
        push_digits(out, number as u64, 2);
    }
    if precision == Precision::Millis {
        out.push(b'.');
        push_digits(out, wall_us / 1000 % 1000, 3);
    }
    out.push(b'Z');
}

/// Reads a moment with any time zone definition and any number of fractional digits; `None` if it is not a DateTime or
/// lies before the Unix epoch. Digits finer than microseconds are cut off.
pub fn parse(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let (fixed, rest) = bytes.split_at_checked(19)?;
    if [fixed[4], fixed[7], fixed[10], fixed[13], fixed[16]] != *b"--T::" {
        return None;
    }
    let year = digits(&fixed[..4])?;
    let [month, day, hour, minute, second] = [5, 8, 11, 14, 17].map(|at| digits(&fixed[at..at + 2]));
    let (month, day, hour, minute, second) = (month?, day?, hour?, minute?, second?);
    let in_range = (1..=12).contains(&month) && (1..=days_of_month(year, month)).contains(&day);
    // 60 is a leap second, which the Unix time scale counts as the next one.
    if !in_range || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (fraction_us, zone) = fraction(rest)?;
    let days = days_from_civil(year, month, day);
    let seconds = days * DAY_S + hour * 3600 + minute * 60 + second - offset_s(zone)?;
    u64::try_from(seconds * 1_000_000 + fraction_us).ok()
}

fn fraction(rest: &[u8]) -> Option<(i64, &[u8])> {
    let Some(rest) = rest.strip_prefix(b".") else {
        return Some((0, rest));
    };
    let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (figures, zone) = rest.split_at(len);
    let padded = figures.iter().copied().chain(std::iter::repeat(b'0')).take(6);
    let us = padded.fold(0, |us, figure| us * 10 + i64::from(figure - b'0'));
    (len > 0).then_some((us, zone))
}

/// The time zone definition's offset: how far it is ahead of UTC.
fn offset_s(zone: &[u8]) -> Option<i64> {
    match zone {
        b"Z" => Some(0),
        [sign @ (b'+' | b'-'), hour @ .., b':', tens, ones] if hour.len() == 2 => {
            let (hour, minute) = (digits(hour)?, digits(&[*tens, *ones])?);
            let offset = hour * 3600 + minute * 60;
            (hour <= 14 && minute <= 59).then_some(if *sign == b'+' { offset } else { -offset })
        }
        _ => None,
    }
}

fn digits(bytes: &[u8]) -> Option<i64> {
    bytes.iter().try_fold(0, |number, byte| byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0')))
}

fn push_digits(out: &mut Vec<u8>, number: u64, width: u32) {
    for place in (0..width).rev() {
        out.push(b'0' + (number / 10u64.pow(place) % 10) as u8);
    }
}

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a date of the Gregorian calendar. The year is taken to begin in March, so that the leap day
/// is its last, and counted in eras of 400 years of 146,097 days.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The inverse of [`days_from_civil`]: year, month, day.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = (shifted + 2) % 12 + 1;
    (era * 400 + year_of_era + i64::from(month <= 2), month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(wall_us: u64, precision: Precision) -> String {
        let mut out = Vec::new();
        write(&mut out, wall_us, precision);
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
        fn every_moment_reads_back(ms in 0u64..253_402_300_800_000) {
            prop_assert_eq!(parse(&written(ms * 1000, Precision::Millis)), Some(ms * 1000));
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC{0,40}", tail in "[0-9:+Z.-]{0,12}") {
            parse(&text);
            parse(&format!("2002-09-10T23:08:25{tail}"));
        }
    }
}
