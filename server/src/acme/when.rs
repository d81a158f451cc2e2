//! When a certificate is renewed, and how long a failed order waits.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::tls::Issued;

/// The shortest and the longest time until the authority is asked again when to renew (RFC 9773
/// 4.3.2), seconds.
pub(super) const WINDOW_S_MIN: i64 = 3_600;
pub(super) const WINDOW_S_MAX: i64 = 86_400;

/// The longest time for which a limit that one name has met holds the others, seconds.
pub(super) const HOLD_S_MAX: i64 = 600;

/// The pause after the first failure, seconds; each further one is three times as long. So there are
/// at most four attempts in the first hour: Let's Encrypt permits five failed validations per hour.
const PAUSE_S: i64 = 120;
/// The longest pause, seconds.
const PAUSE_S_MAX: i64 = 43_200;
/// The shortest and the longest rest after a success, seconds.
const REST_S_MIN: i64 = 60;
const REST_S_MAX: i64 = 21_600;
/// The longest pause that an authority can ask for, seconds. No other pause is longer.
pub(super) const ASKED_S_MAX: i64 = 86_400;
const _: () = assert!(PAUSE_S_MAX <= ASKED_S_MAX && REST_S_MAX <= ASKED_S_MAX);

/// When to renew, in seconds since 1970: at a point of the window that the authority suggests, or
/// after two thirds of the certificate's life and up to a twentieth more. Where in between depends
/// on the certificate: many servers do not ask at once, and a restart changes nothing. A window does
/// not delay it into the last tenth of that life.
pub(super) fn renewal(issued: &Issued, window: Option<(i64, i64)>) -> i64 {
    let mut hasher = DefaultHasher::new();
    (&issued.serial, &issued.authority_key).hash(&mut hasher);
    let part = |of: i64| (i128::from(of.max(0)) * i128::from(hasher.finish() >> 1) / i128::from(i64::MAX)) as i64;
    let life = issued.until_s - issued.from_s;
    match window {
        Some((from_s, until_s)) => (from_s + part(until_s - from_s)).min(issued.until_s - life.max(0) / 10),
        None => issued.from_s + life / 3 * 2 + part(life / 20),
    }
}

/// RFC 9773 4.2: a window that ends before it begins counts as no answer.
pub(super) fn is_valid((from_s, until_s): (i64, i64)) -> bool {
    from_s < until_s
}

/// The shortest time between two certificates of a name, seconds: with a clock that is wrong, each
/// seems to be due for renewal.
pub(super) fn rest_s(issued: &Issued) -> i64 {
    ((issued.until_s - issued.from_s) / 3).clamp(REST_S_MIN, REST_S_MAX)
}

/// The pause after this many failures in a row, at least as long as the authority has asked for.
pub(super) fn pause_s(failed: u32, asked_s: i64) -> i64 {
    let own = 3_i64.checked_pow(failed.saturating_sub(1)).map_or(PAUSE_S_MAX, |times| times.saturating_mul(PAUSE_S));
    own.min(PAUSE_S_MAX).max(asked_s.min(ASKED_S_MAX))
}
