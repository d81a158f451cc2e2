//! Parses and formats times: local or UTC, with an indication which.

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

use super::Failure;

/// How times are shown and parsed.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    zone: TimeZone,
}

impl Clock {
    pub(super) fn new(utc: bool) -> Clock {
        Clock { zone: if utc { TimeZone::UTC } else { TimeZone::system() } }
    }

    fn at(&self, wall_ms: u64) -> Zoned {
        let at = i64::try_from(wall_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        at.unwrap_or(Timestamp::MAX).to_zoned(self.zone.clone())
    }

    /// `14:03:59`
    pub(super) fn time(&self, wall_ms: u64) -> String {
        self.at(wall_ms).strftime("%H:%M:%S").to_string()
    }

    /// `2026-11-22`
    pub(super) fn day(&self, wall_ms: u64) -> String {
        self.at(wall_ms).strftime("%Y-%m-%d").to_string()
    }

    /// `local, UTC+01:00` or `UTC`.
    pub(super) fn zone(&self, wall_ms: u64) -> String {
        match self.zone == TimeZone::UTC {
            true => "UTC".into(),
            false => format!("local, UTC{}", self.at(wall_ms).strftime("%:z")),
        }
    }

    /// Parses a time to milliseconds since 1970: without a date, on the day of `near_ms`; `-10m` is
    /// relative to it.
    ///
    /// # Errors
    /// It is not a time.
    pub(super) fn read(&self, text: &str, near_ms: u64) -> Result<u64, Failure> {
        let wrong = || {
            let forms = "14:03, 14:03:59, 2026-11-22, 2026-11-22T14:03:59, 2026-11-22T14:03:59Z or -10m (s, m, h, d before the end)";
            Failure::Usage(format!("{text:?} is no time; write it as {forms}"))
        };
        let near = self.at(near_ms);
        if let Some(before) = text.strip_prefix('-') {
            let (number, unit) =
                before.split_at(before.len().saturating_sub(before.chars().last().map_or(0, char::len_utf8)));
            let unit_s = match unit {
                "s" => 1,
                "m" => 60,
                "h" => 3_600,
                "d" => 86_400,
                _ => return Err(wrong()),
            };
            let seconds = number.parse::<u32>().map_err(|_| wrong())?;
            let at = near.timestamp().checked_sub(SignedDuration::from_secs(i64::from(seconds) * unit_s));
            return at.map(|at| at.as_millisecond().max(0) as u64).map_err(|_| wrong());
        }
        let civil = || match text.parse::<Time>() {
            Ok(time) if !text.contains('-') => Some(near.date().to_datetime(time)),
            _ => text.parse::<DateTime>().ok(),
        };
        let at = match text.parse::<Timestamp>() {
            Ok(at) => at,
            Err(_) => civil().and_then(|at| at.to_zoned(self.zone.clone()).ok()).ok_or_else(wrong)?.timestamp(),
        };
        Ok(at.as_millisecond().max(0) as u64)
    }
}

/// `2026-11-22T14:03:59.123Z`, for programs.
pub(super) fn stamp(wall_ms: u64) -> String {
    let at = i64::try_from(wall_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()).unwrap_or(Timestamp::MAX);
    format!("{at:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-22T02:03:35Z
    const NEAR_MS: u64 = 1_795_313_015_000;

    #[test]
    fn times_are_read_as_they_are_written() {
        let clock = Clock::new(true);
        let read = |text: &str| clock.read(text, NEAR_MS).map(stamp);
        for (text, wanted) in [
            ("14:03", "2026-11-22T14:03:00.000Z"),
            ("14:03:59", "2026-11-22T14:03:59.000Z"),
            ("2026-11-21T00:00:01", "2026-11-21T00:00:01.000Z"),
            ("2026-11-21", "2026-11-21T00:00:00.000Z"),
            ("2026-11-21T00:00:01+02:00", "2026-11-20T22:00:01.000Z"),
            ("-10m", "2026-11-22T01:53:35.000Z"),
            ("-1d", "2026-11-21T02:03:35.000Z"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(wanted), "{text}");
        }
        for wrong in ["", "noon", "-", "-10", "-x m", "25:00", "-99999999999d", "-1é"] {
            assert!(matches!(read(wrong), Err(Failure::Usage(_))), "{wrong}");
        }
        assert_eq!(
            (clock.time(NEAR_MS), clock.day(NEAR_MS), clock.zone(NEAR_MS)),
            ("02:03:35".into(), "2026-11-22".into(), "UTC".into())
        );
    }
}
