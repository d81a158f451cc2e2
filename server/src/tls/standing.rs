//! The status of a certificate for operators: when it expires, and whether clients of a domain
//! accept it.

use std::net::IpAddr;
use std::path::Path;

use jiff::civil::Date;
use jiff::{Timestamp, tz::Offset};

use super::x509::{Facts, Name};

/// A certificate that expires within this time is reported: two weeks, in seconds. If its whole life
/// is shorter: within a quarter of that.
const SOON_S: i64 = 14 * DAY_S;
const DAY_S: i64 = 86_400;
/// Maximum number of a certificate's names in a message.
const NAMES_TOLD_MAX: usize = 8;

/// A served domain, in both of its forms.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    /// As used in JIDs: U-labels (RFC 7622 3.2), an IPv6 address in brackets.
    pub domain: &'a str,
    /// As used in the DNS and in certificates: A-labels (RFC 5890 2.3.2.1).
    pub ascii: &'a str,
}

/// The status of certificates at a moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// When the first of them expires, in seconds since 1970.
    pub ends_s: i64,
    /// Why clients reject them now, a sentence each.
    pub faults: Vec<String>,
    /// A sentence, if one expires within two weeks.
    pub soon: Option<String>,
    /// Domains served with a self-signed certificate of the server. `localhost` is not among them:
    /// no authority issues certificates for it.
    pub self_signed: Vec<String>,
}

impl Standing {
    /// The status of one certificate, at a time in seconds since 1970.
    pub(super) fn of(facts: &Facts, chain: &Path, host: Host<'_>, now_s: i64) -> Standing {
        let shown = chain.display();
        let mut standing = Standing { ends_s: facts.not_after, ..Standing::default() };
        let left = facts.not_after - now_s;
        // A short one is renewed when a third of its life is left.
        let life = facts.not_after - facts.not_before;
        let soon_s = if life > SOON_S { SOON_S } else { life / 4 };
        if left < 0 {
            standing.faults.push(format!("the certificate in {shown} expired on {}", date(facts.not_after)));
        } else if left < soon_s {
            let days = match left / DAY_S {
                0 => "within a day".to_owned(),
                1 => "in 1 day".to_owned(),
                days => format!("in {days} days"),
            };
            standing.soon =
                Some(format!("the certificate in {shown} expires {days}, on {}: renew it", date(facts.not_after)));
        }
        if facts.not_before > now_s {
            standing.faults.push(format!("the certificate in {shown} is not valid before {}", date(facts.not_before)));
        }
        if facts.must_staple {
            standing.faults.push(format!(
                "the certificate in {shown} demands a stapled OCSP response (RFC 7633), which this \
                 server does not send; order one without must-staple"
            ));
        }
        if !facts.names.iter().any(|name| covers(name, host)) {
            let mut names: Vec<String> = facts.names.iter().take(NAMES_TOLD_MAX).map(told).collect();
            if facts.names.len() > NAMES_TOLD_MAX {
                names.push(format!("{} more", facts.names.len() - NAMES_TOLD_MAX));
            }
            let names = if names.is_empty() { "no host".to_owned() } else { names.join(", ") };
            let text =
                format!("the certificate in {shown} is valid for {names} (subjectAltName), not for {}", host.ascii);
            standing.faults.push(text);
        }
        standing
    }

    /// The combined status of both.
    pub fn and(mut self, other: Standing) -> Standing {
        self.ends_s = self.ends_s.min(other.ends_s);
        self.faults.extend(other.faults);
        self.soon = self.soon.or(other.soon);
        self.self_signed.extend(other.self_signed);
        self
    }

    /// Warnings that are not faults, a sentence each.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.soon.clone().into_iter().chain(self_signed(&self.self_signed))
    }
}

/// A sentence that these domains only have a self-signed certificate; `None` for no domains.
pub fn self_signed(domains: &[String]) -> Option<String> {
    let first = domains.first()?;
    let others = match domains.len() - 1 {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    Some(format!(
        "{first}{others}: self-signed by this server, so clients warn or refuse; set acme, \
         tls_folder, or tls_certificate and tls_key"
    ))
}

/// Whether a name of a certificate matches the host (RFC 6120 13.7.1.2, RFC 6125 6.4).
fn covers(name: &Name, host: Host<'_>) -> bool {
    match name {
        Name::Dns(name) => {
            let wildcard = name.strip_prefix("*.").zip(host.ascii.split_once('.'));
            name.eq_ignore_ascii_case(host.ascii)
                || wildcard.is_some_and(|(parent, (_, own))| parent.eq_ignore_ascii_case(own))
        }
        Name::Service(name) => {
            name.strip_prefix("_xmpp-client.").is_some_and(|name| name.eq_ignore_ascii_case(host.ascii))
        }
        Name::Xmpp(name) => name.eq_ignore_ascii_case(host.ascii) || name.to_lowercase() == host.domain,
        Name::Mail(_) => false,
        Name::Address(address) => {
            let text = host.ascii.trim_start_matches('[').trim_end_matches(']');
            text.parse::<IpAddr>().is_ok_and(|own| own == *address)
        }
    }
}

fn told(name: &Name) -> String {
    match name {
        Name::Dns(name) | Name::Service(name) | Name::Xmpp(name) | Name::Mail(name) => name.clone(),
        Name::Address(address) => address.to_string(),
    }
}

/// The day of a time in seconds since 1970, as `2026-11-22`.
pub fn date(seconds: i64) -> String {
    Timestamp::from_second(seconds).map_or(Date::MAX, |moment| Offset::UTC.to_datetime(moment).date()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_written_as_dates() {
        for (day, text) in [(-1, "1969-12-31"), (0, "1970-01-01"), (19_782, "2024-02-29"), (2_932_896, "9999-12-31")] {
            assert_eq!((date(day * DAY_S), date(day * DAY_S + DAY_S - 1)), (text.to_owned(), text.to_owned()));
        }
    }
}
