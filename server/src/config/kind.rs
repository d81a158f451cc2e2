//! The kinds of option values: type, unit and range, with parsing and formatting.
//!
//! This module handles texts and ranges. It never learns the source of a text (flag, environment,
//! file) or the purpose of a value.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use throng_engine::extension::contact::Contact;
use throng_engine::extension::invite::links;
use throng_engine::extension::service::Service;
use throng_engine::id::OUTSIDE_DOMAINS_MAX;
use throng_engine::limits::ADHOC_WELCOME_BYTES_MAX;
use throng_engine::wire::jid::{Jid, normalise_domain, normalise_local};

/// The type, unit and range of an option's value. Both ends of a range are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`; `yes`/`no`, `on`/`off` and `1`/`0` are accepted as well.
    Switch,
    /// A whole number.
    Count {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
        /// The counted things, in the plural.
        unit: &'static str,
    },
    /// A whole number, or `auto`.
    CountOrAuto {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
        /// The counted things, in the plural.
        unit: &'static str,
    },
    /// A number of bytes; the suffixes `KiB`, `MiB`, `GiB` are accepted.
    Bytes {
        /// Smallest value in bytes.
        min: u64,
        /// Largest value in bytes.
        max: u64,
    },
    /// A time in seconds; the suffixes `s`, `m`, `h`, `d` are accepted.
    Seconds {
        /// Shortest time in seconds.
        min: u64,
        /// Longest time in seconds.
        max: u64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any of these words, separated by commas or one per flag; may be empty.
    Words(&'static [&'static str]),
    /// Domain names, separated by commas or one per flag; may be empty.
    Domains,
    /// Contact addresses, `ROLE=URI` (XEP-0157), separated by commas or one per flag; may be empty.
    Contacts,
    /// STUN and TURN servers as URIs (RFC 7064, RFC 7065), separated by commas or one per flag; may
    /// be empty.
    Services,
    /// Bare JIDs (RFC 7622), separated by commas or one per flag; may be empty.
    Jids,
    /// Domains of components, each with the file of its secret: `DOMAIN=FILE`, separated by commas
    /// or one per flag; may be empty.
    Components,
    /// Domains with an external user back end, each with the program or URL to ask:
    /// `DOMAIN=PROGRAM` or `DOMAIN=URL`, separated by commas or one per flag; may be empty.
    BackEnds,
    /// Localparts (RFC 7622 3.3), separated by commas or one per flag; may be empty.
    Names,
    /// An HTTPS URL with a placeholder for the invitation's token or address, or empty.
    PageOrNone,
    /// A domain name (RFC 7622 3.2), without port, without `@` and `/`.
    Domain,
    /// An HTTPS URL (RFC 9110 4.2.2), or empty.
    UrlOrNone,
    /// The address of a WebSocket over TLS (RFC 6455 3), or empty.
    SocketUrlOrNone,
    /// An HTTPS URL that is requested unchanged, or empty.
    PathUrlOrNone,
    /// Origins of pages (RFC 6454 6.2), separated by commas or one per flag; `any` for all origins.
    Origins,
    /// Prefixes of channel names, separated by commas or one per flag; `any` for all channels,
    /// `off` for none.
    Prefixes,
    /// Hosts of push services, or suffixes of hosts, separated by commas or one per flag; `off` for
    /// none.
    PushServices,
    /// Names of header fields (RFC 9110 5.1), separated by commas or one per flag; `off` for none.
    FieldNames,
    /// A domain name or an IP address, possibly with a port, or empty.
    HostOrNone,
    /// A mail address, or empty.
    MailOrNone,
    /// The directory of a certificate authority (RFC 8555 7.1.1): a word for a known one, or an HTTPS
    /// URL.
    Directory,
    /// A single-line text, or empty.
    TextOrNone,
    /// A multi-line text, or empty.
    LinesOrNone,
    /// A path that is always set.
    Path,
    /// A path, or empty.
    PathOrNone,
    /// Listening addresses `IP:PORT`, separated by commas or one per flag; `off` for none.
    Listeners,
}

impl Kind {
    /// The allowed values in one line, as shown in help, errors and the reference page.
    pub fn allowed(&self) -> String {
        match *self {
            Kind::Switch => "true or false".into(),
            Kind::Count { min, max, unit } => format!("{min} to {max} {unit}"),
            Kind::CountOrAuto { min, max, unit } => format!("auto, or {min} to {max} {unit}"),
            Kind::Bytes { min, max } => {
                format!("{} to {} (bytes, or with KiB, MiB, GiB)", show_bytes(min), show_bytes(max))
            }
            Kind::Seconds { min, max } => {
                format!("{} to {} (seconds, or with s, m, h, d)", show_seconds(min), show_seconds(max))
            }
            Kind::Choice(words) => words.join(" or "),
            Kind::Words(words) => format!("any of {}, separated by commas; empty for none", words.join(", ")),
            Kind::Domain => "a domain name such as example.org or m\u{fc}nchen.example, with \
                             labels of at most 63 bytes, at most 253 bytes in total, without a \
                             port".into(),
            Kind::Domains => "domain names such as example.net,chat.example.org, separated by commas; empty for none".into(),
            Kind::Contacts => "ROLE=URI such as abuse=mailto:abuse@example.org, separated by commas, with abuse, admin, feedback, sales, \
                security, status or support as ROLE; empty for none".into(),
            Kind::Services => "URIs such as stun:example.org, turn:example.org:3478?transport=udp or turns:example.org, separated by \
                commas; empty for none".into(),
            Kind::Jids => "JIDs without a resource such as romeo@example.org, separated by commas; empty for none".into(),
            Kind::Components => "DOMAIN=FILE such as echo.example.org=/etc/throng/echo.secret, separated by commas; empty for none".into(),
            Kind::BackEnds => "DOMAIN=PROGRAM such as example.org=/usr/local/bin/check-password \
                               --ldap, with the full path, or DOMAIN=URL such as \
                               example.org=https://accounts.example.org/xmpp, separated by commas; \
                               empty for none".into(),
            Kind::Names => "localparts such as admin,postmaster, separated by commas; off for none".into(),
            Kind::PageOrNone => "a URL such as https://example.org/invite/#{token}, containing \
                                 {token} or {uri}, or empty for none".into(),
            Kind::UrlOrNone => "a URL such as https://upload.example.org/, or empty for none".into(),
            Kind::PathUrlOrNone => "a URL such as https://xmpp.example.org/http-bind, or empty for none".into(),
            Kind::SocketUrlOrNone => "a URL such as wss://xmpp.example.org/xmpp-websocket, or empty for none".into(),
            Kind::Origins => "SCHEME://HOST or SCHEME://HOST:PORT such as https://chat.example.org, separated by commas, or any".into(),
            Kind::Prefixes => "prefixes of names such as news.,public., separated by commas, any \
                               for all, or off".into(),
            Kind::PushServices => "hosts such as fcm.googleapis.com, or host suffixes such as \
                                   .push.apple.com, separated by commas, or off".into(),
            Kind::FieldNames => "names of header fields such as Cookie,Authorization, separated by commas, or off".into(),
            Kind::HostOrNone => "HOST or HOST:PORT such as proxy.example.org:7777 or [2001:db8::1]:7777, or empty for none".into(),
            Kind::MailOrNone => "a mail address such as you@example.org, or empty for none".into(),
            Kind::Directory => "production or staging (of Let's Encrypt), or a URL such as \
                                https://ca.example.org/acme/directory".into(),
            Kind::TextOrNone => "text of at most 255 bytes, or empty for none".into(),
            Kind::LinesOrNone => format!("text of at most {ADHOC_WELCOME_BYTES_MAX} bytes, or empty for none"),
            Kind::Path => "a path".into(),
            Kind::PathOrNone => "a path, or empty for none".into(),
            Kind::Listeners => {
                "IP:PORT such as 127.0.0.1:5222 or [::]:5222 (port 0: chosen by the system), or \
                 off".into()
            }
        }
    }

    /// Its name in machine-readable output.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Switch => "switch",
            Kind::Count { .. } | Kind::CountOrAuto { .. } => "count",
            Kind::Bytes { .. } => "bytes",
            Kind::Seconds { .. } => "seconds",
            Kind::Choice(_) => "choice",
            Kind::Words(_) => "words",
            Kind::Domain => "domain",
            Kind::Domains => "domains",
            Kind::Contacts => "contacts",
            Kind::Services => "services",
            Kind::Jids => "jids",
            Kind::Components => "components",
            Kind::BackEnds => "back-ends",
            Kind::Names => "names",
            Kind::PageOrNone => "page",
            Kind::UrlOrNone => "url",
            Kind::PathUrlOrNone => "path-url",
            Kind::SocketUrlOrNone => "websocket-url",
            Kind::Origins => "origins",
            Kind::Prefixes => "prefixes",
            Kind::PushServices => "push-services",
            Kind::FieldNames => "field-names",
            Kind::HostOrNone => "host",
            Kind::MailOrNone => "mail",
            Kind::Directory => "directory",
            Kind::TextOrNone | Kind::LinesOrNone => "text",
            Kind::Path | Kind::PathOrNone => "path",
            Kind::Listeners => "listeners",
        }
    }

    /// The counted things, if the value is a count.
    pub fn unit(&self) -> Option<&'static str> {
        match *self {
            Kind::Count { unit, .. } | Kind::CountOrAuto { unit, .. } => Some(unit),
            Kind::Bytes { .. } => Some("bytes"),
            Kind::Seconds { .. } => Some("seconds"),
            _ => None,
        }
    }

    /// The smallest and largest value in its unit, if the value is a number.
    pub fn range(&self) -> Option<(u64, u64)> {
        match *self {
            Kind::Count { min, max, .. }
            | Kind::CountOrAuto { min, max, .. }
            | Kind::Bytes { min, max }
            | Kind::Seconds { min, max } => Some((min, max)),
            _ => None,
        }
    }

    /// The placeholder for the value in help: `--shards <N>`.
    pub fn placeholder(&self) -> &'static str {
        match self {
            Kind::Switch => "BOOL",
            Kind::Count { .. } | Kind::CountOrAuto { .. } => "N",
            Kind::Bytes { .. } => "BYTES",
            Kind::Seconds { .. } => "SECONDS",
            Kind::Choice(_) | Kind::Words(_) => "WORD",
            Kind::Domain | Kind::Domains | Kind::Names | Kind::Prefixes | Kind::FieldNames => "NAME",
            Kind::Contacts => "ROLE=URI",
            Kind::Services => "URI",
            Kind::Jids => "JID",
            Kind::Components => "DOMAIN=FILE",
            Kind::BackEnds => "DOMAIN=PROGRAM|URL",
            Kind::UrlOrNone | Kind::PageOrNone | Kind::SocketUrlOrNone | Kind::PathUrlOrNone => "URL",
            Kind::Origins => "ORIGIN",
            Kind::MailOrNone => "ADDRESS",
            Kind::Directory => "URL",
            Kind::HostOrNone | Kind::PushServices => "HOST[:PORT]",
            Kind::TextOrNone | Kind::LinesOrNone => "TEXT",
            Kind::Path | Kind::PathOrNone => "PATH",
            Kind::Listeners => "ADDR:PORT",
        }
    }

    /// Whether the option may be given several times.
    pub fn is_list(&self) -> bool {
        use Kind::{
            BackEnds, Components, Contacts, Domains, FieldNames, Jids, Listeners, Names, Origins, Prefixes,
            PushServices, Services, Words,
        };
        matches!(
            self,
            Listeners
                | Words(_)
                | Domains
                | Contacts
                | Services
                | Jids
                | Names
                | Components
                | BackEnds
                | Origins
                | Prefixes
                | PushServices
                | FieldNames
        )
    }
}

/// A Rust type that a row of the table can have.
pub trait Field: Sized {
    /// Parses the parts that a source gave. `None` if `kind` does not allow them.
    fn read(parts: &[String], kind: &Kind) -> Option<Self>;
    /// The canonical text, which `read` accepts.
    fn show(&self, kind: &Kind) -> String;
}

fn single(parts: &[String]) -> Option<&str> {
    match parts {
        [one] => Some(one.trim()),
        _ => None,
    }
}

impl Field for bool {
    fn read(parts: &[String], _: &Kind) -> Option<bool> {
        match single(parts)?.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Some(true),
            "false" | "no" | "off" | "0" => Some(false),
            _ => None,
        }
    }
    fn show(&self, _: &Kind) -> String {
        self.to_string()
    }
}

/// Splits `256KiB` into 256 and `kib`; underscores between digits are allowed.
fn number_and_suffix(text: &str) -> Option<(u64, String)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let digits: String = text[..end].chars().filter(|c| *c != '_').collect();
    Some((digits.parse().ok()?, text[end..].trim().to_ascii_lowercase()))
}

fn in_range(value: u64, min: u64, max: u64) -> Option<u64> {
    (min..=max).contains(&value).then_some(value)
}

impl Field for u64 {
    fn read(parts: &[String], kind: &Kind) -> Option<u64> {
        let (number, suffix) = number_and_suffix(single(parts)?)?;
        match *kind {
            Kind::Count { min, max, .. } | Kind::CountOrAuto { min, max, .. } => {
                suffix.is_empty().then_some(number).and_then(|n| in_range(n, min, max))
            }
            Kind::Bytes { min, max } => {
                let unit: u64 = match suffix.as_str() {
                    "" | "b" => 1,
                    "k" | "kib" => 1 << 10,
                    "m" | "mib" => 1 << 20,
                    "g" | "gib" => 1 << 30,
                    "kb" => 1_000,
                    "mb" => 1_000_000,
                    "gb" => 1_000_000_000,
                    _ => return None,
                };
                in_range(number.checked_mul(unit)?, min, max)
            }
            _ => None,
        }
    }
    fn show(&self, kind: &Kind) -> String {
        match kind {
            Kind::Bytes { .. } => show_bytes(*self),
            _ => self.to_string(),
        }
    }
}

impl Field for Option<u64> {
    fn read(parts: &[String], kind: &Kind) -> Option<Option<u64>> {
        match single(parts)? {
            "auto" => Some(None),
            _ => u64::read(parts, kind).map(Some),
        }
    }
    fn show(&self, kind: &Kind) -> String {
        self.as_ref().map_or_else(|| "auto".into(), |n| n.show(kind))
    }
}

impl Field for Duration {
    fn read(parts: &[String], kind: &Kind) -> Option<Duration> {
        let Kind::Seconds { min, max } = *kind else { return None };
        let (number, suffix) = number_and_suffix(single(parts)?)?;
        let unit = match suffix.as_str() {
            "" | "s" => 1,
            "m" | "min" => 60,
            "h" => 3_600,
            "d" => 86_400,
            _ => return None,
        };
        in_range(number.checked_mul(unit)?, min, max).map(Duration::from_secs)
    }
    fn show(&self, _: &Kind) -> String {
        show_seconds(self.as_secs())
    }
}

impl Field for String {
    fn read(parts: &[String], kind: &Kind) -> Option<String> {
        let text = single(parts)?;
        match kind {
            Kind::Domain => read_domain(text),
            Kind::UrlOrNone => read_url(text),
            Kind::SocketUrlOrNone => read_whole_url("wss://", text),
            Kind::PathUrlOrNone => read_whole_url("https://", text),
            Kind::HostOrNone => (text.is_empty() || read_host(text).is_some()).then(|| text.to_owned()),
            Kind::PageOrNone => read_page(text),
            Kind::MailOrNone => (text.is_empty() || is_mail(text)).then(|| text.to_owned()),
            Kind::Directory if matches!(text, "production" | "staging") => Some(text.to_owned()),
            Kind::Directory => read_whole_url("https://", text).filter(|url| !url.is_empty()),
            Kind::TextOrNone => (text.len() <= 255 && !text.contains(char::is_control)).then(|| text.to_owned()),
            Kind::LinesOrNone => {
                let fits = |c: char| c == '\n' || !c.is_control();
                (text.len() <= ADHOC_WELCOME_BYTES_MAX && text.chars().all(fits)).then(|| text.to_owned())
            }
            _ => Some(text.to_owned()),
        }
    }
    fn show(&self, _: &Kind) -> String {
        self.clone()
    }
}

/// Whether a text looks like a mail address, which the certificate authority then checks.
fn is_mail(text: &str) -> bool {
    let plain = text.len() <= 254 && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>,;:?&%".contains(&byte));
    plain
        && text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty() && !host.contains('@'))
}

/// An HTTPS URL with nothing after its path, which ends with a `/` (RFC 3986 3); empty stays empty.
fn read_url(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some(String::new());
    }
    let rest = text.strip_prefix("https://")?;
    let of_url = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%:[]/".contains(&byte);
    let good = rest.bytes().all(of_url) && !rest.starts_with(['/', ':']);
    (!rest.is_empty() && good).then(|| if text.ends_with('/') { text.to_owned() } else { format!("{text}/") })
}

/// A URL of this scheme, for example of a WebSocket over TLS, without a query, which clients would
/// have to escape; empty stays empty.
fn read_whole_url(scheme: &str, text: &str) -> Option<String> {
    let of_url = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%:[]/".contains(&byte);
    let good = |rest: &str| !rest.is_empty() && rest.bytes().all(of_url) && !rest.starts_with(['/', ':']);
    (text.is_empty() || text.strip_prefix(scheme).is_some_and(good)).then(|| text.to_owned())
}

/// An HTTPS URL with a placeholder for the token or the address of an invitation (RFC 3986 2, with
/// additional braces); empty stays empty.
fn read_page(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some(String::new());
    }
    let plain = text.replace(links::TOKEN, "").replace(links::URI, "");
    let rest = plain.strip_prefix("https://").filter(|rest| !rest.starts_with(['/', ':']) && !rest.is_empty())?;
    let good = plain != text
        && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%:/?#[]@!$&'()*+,;=".contains(&byte));
    good.then(|| text.to_owned())
}

/// A host as reachable from outside, and its port if given: a domain name in A-labels, or an IP
/// address. An IPv6 address is without the brackets that it needs before a port (RFC 3986 3.2.2).
pub fn read_host(text: &str) -> Option<(String, Option<u16>)> {
    let port = |text: &str| text.parse().ok().filter(|port| *port != 0);
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Some((address.to_string(), None));
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (address, rest) = rest.split_once(']')?;
        let address = address.parse::<Ipv6Addr>().ok()?.to_string();
        return match rest {
            "" => Some((address, None)),
            rest => Some((address, Some(port(rest.strip_prefix(':')?)?))),
        };
    }
    let (host, port) = match text.split_once(':') {
        Some((host, digits)) => (host, Some(port(digits)?)),
        None => (text, None),
    };
    let host = match host.parse::<Ipv4Addr>() {
        Ok(address) => address.to_string(),
        Err(_) => domain_to_ascii(&read_domain(host)?)?,
    };
    Some((host, port))
}

/// A domain in the form used in JIDs: U-labels in lower case (RFC 7622 3.2), whichever form was
/// given. Refuses what the DNS cannot represent: labels of more than 63 bytes, names of more than
/// 253 (RFC 1035 2.3.4), counted in A-labels.
pub fn read_domain(text: &str) -> Option<String> {
    let domain = normalise_domain(text).ok()?.into_owned();
    (domain.starts_with('[') || domain_to_ascii(&domain).is_some()).then_some(domain)
}

/// A domain in the form used in the DNS and in certificates: A-labels (RFC 5890 2.3.2.1). `None` if
/// it has no such form.
pub fn domain_to_ascii(domain: &str) -> Option<String> {
    let ascii =
        Uts46::new().to_ascii(domain.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast, DnsLength::Verify);
    ascii.ok().map(std::borrow::Cow::into_owned)
}

impl Field for PathBuf {
    fn read(parts: &[String], _: &Kind) -> Option<PathBuf> {
        let text = single(parts)?;
        (!text.is_empty() && !text.contains('\0')).then(|| PathBuf::from(text))
    }
    fn show(&self, _: &Kind) -> String {
        self.display().to_string()
    }
}

impl Field for Option<PathBuf> {
    fn read(parts: &[String], kind: &Kind) -> Option<Option<PathBuf>> {
        match parts {
            [] => Some(None),
            [one] if one.trim().is_empty() => Some(None),
            _ => PathBuf::read(parts, kind).map(Some),
        }
    }
    fn show(&self, _: &Kind) -> String {
        self.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    }
}

impl Field for Vec<SocketAddr> {
    fn read(parts: &[String], _: &Kind) -> Option<Vec<SocketAddr>> {
        if let [one] = parts
            && matches!(one.trim(), "off" | "none" | "")
        {
            return Some(Vec::new());
        }
        let mut addresses = Vec::new();
        for text in parts.iter().flat_map(|part| part.split(',')) {
            let text = text.trim();
            let text = match text.strip_prefix("localhost:") {
                Some(port) => format!("127.0.0.1:{port}"),
                None => text.to_owned(),
            };
            addresses.push(text.parse().ok()?);
        }
        (addresses.len() <= LISTENERS_MAX).then_some(addresses)
    }
    fn show(&self, _: &Kind) -> String {
        if self.is_empty() {
            return "off".into();
        }
        self.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }
}

/// Items separated by commas, without duplicates, in the order given; `None` if one cannot be
/// parsed, or there are too many.
pub(super) fn items<T: PartialEq>(parts: &[String], most: usize, read: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    if let [one] = parts
        && matches!(one.trim(), "off" | "none" | "")
    {
        return Some(Vec::new());
    }
    let mut items = Vec::new();
    for text in parts.iter().flat_map(|part| part.split(',')) {
        let item = read(text.trim())?;
        if !items.contains(&item) {
            items.push(item);
        }
    }
    (items.len() <= most).then_some(items)
}

fn show_items<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

impl Field for Vec<Domain> {
    fn read(parts: &[String], _: &Kind) -> Option<Vec<Domain>> {
        items(parts, DOMAINS_MAX, |text| read_domain(text).map(Domain))
    }
    fn show(&self, _: &Kind) -> String {
        self.iter().map(|domain| &*domain.0).collect::<Vec<_>>().join(",")
    }
}

impl Field for Vec<Component> {
    fn read(parts: &[String], _: &Kind) -> Option<Vec<Component>> {
        let all = items(parts, COMPONENTS_MAX, |text| {
            let (domain, file) = text.split_once('=')?;
            let secret = PathBuf::read(&[file.trim().to_owned()], &Kind::Path)?;
            Some(Component { domain: read_domain(domain.trim())?, secret })
        })?;
        // A domain has one secret.
        let twice = all.iter().enumerate().any(|(at, one)| all[..at].iter().any(|other| other.domain == one.domain));
        (!twice).then_some(all)
    }
    fn show(&self, _: &Kind) -> String {
        self.iter().map(|one| format!("{}={}", one.domain, one.secret.display())).collect::<Vec<_>>().join(",")
    }
}

impl Field for Vec<BackEnd> {
    fn read(parts: &[String], _: &Kind) -> Option<Vec<BackEnd>> {
        let all = items(parts, OUTSIDE_DOMAINS_MAX, |text| {
            let (domain, asked) = text.split_once('=')?;
            Some(BackEnd { domain: read_domain(domain.trim())?, asked: read_asked(asked.trim())? })
        })?;
        // A domain has one back end.
        let twice = all.iter().enumerate().any(|(at, one)| all[..at].iter().any(|other| other.domain == one.domain));
        (!twice).then_some(all)
    }
    fn show(&self, _: &Kind) -> String {
        let asked = |one: &BackEnd| match &one.asked {
            AskedBy::Program(words) => words.join(" "),
            AskedBy::Url(url) => url.clone(),
        };
        self.iter().map(|one| format!("{}={}", one.domain, asked(one))).collect::<Vec<_>>().join(",")
    }
}

fn read_asked(text: &str) -> Option<AskedBy> {
    if text.starts_with('/') {
        return Some(AskedBy::Program(text.split_whitespace().map(str::to_owned).collect()));
    }
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
    let host = rest.split('/').next().unwrap_or_default();
    let whole = !host.is_empty() && rest.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'?' | b'#' | b'@'));
    whole.then(|| AskedBy::Url(text.trim_end_matches('/').to_owned()))
}

impl Field for Vec<BareJid> {
    fn read(parts: &[String], _: &Kind) -> Option<Vec<BareJid>> {
        items(parts, JIDS_MAX, |text| {
            let jid = Jid::parse(text).ok().filter(|jid| jid.is_bare() && jid.local().is_some())?;
            Some(BareJid(jid.as_str().into()))
        })
    }
    fn show(&self, _: &Kind) -> String {
        self.iter().map(|jid| &*jid.0).collect::<Vec<_>>().join(",")
    }
}

impl Field for Vec<LocalName> {
    fn read(parts: &[String], _: &Kind) -> Option<Vec<LocalName>> {
        items(parts, NAMES_MAX, |text| normalise_local(text).ok().map(|local| LocalName(local.into())))
    }
    fn show(&self, _: &Kind) -> String {
        match self.is_empty() {
            true => "off".into(),
            false => self.iter().map(|name| &*name.0).collect::<Vec<_>>().join(","),
        }
    }
}

/// The origin of a page, in lower case (RFC 6454 6.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin(pub Box<str>);

/// Most origins in a list: each request from a page is compared with all of them.
const ORIGINS_MAX: usize = 1_000;

impl Origin {
    fn read(text: &str) -> Option<Origin> {
        let (scheme, host) = text.split_once("://")?;
        let good = |part: &str, others: &[u8]| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || others.contains(&byte))
        };
        (good(scheme, b"+-.") && good(host, b"-._:[]")).then(|| Origin(text.to_ascii_lowercase().into()))
    }
}

impl Field for Vec<Origin> {
    fn read(parts: &[String], _: &Kind) -> Option<Vec<Origin>> {
        match parts {
            [any] if any == "any" || any.is_empty() => Some(Vec::new()),
            parts => items(parts, ORIGINS_MAX, Origin::read),
        }
    }
    fn show(&self, _: &Kind) -> String {
        match self.is_empty() {
            true => "any".into(),
            false => self.iter().map(|origin| &*origin.0).collect::<Vec<_>>().join(","),
        }
    }
}

impl Field for Vec<Contact> {
    fn read(parts: &[String], _: &Kind) -> Option<Vec<Contact>> {
        items(parts, TOLD_MAX, |text| text.parse().ok())
    }
    fn show(&self, _: &Kind) -> String {
        show_items(self)
    }
}

impl Field for Vec<Service> {
    fn read(parts: &[String], _: &Kind) -> Option<Vec<Service>> {
        items(parts, TOLD_MAX, |text| text.parse().ok())
    }
    fn show(&self, _: &Kind) -> String {
        show_items(self)
    }
}

/// Most contact addresses, and most services, published to clients: one answer contains all of
/// them.
const TOLD_MAX: usize = 32;

/// A domain as [`read_domain`] returns it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Domain(pub String);

/// A user's bare JID, normalised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BareJid(pub Box<str>);

/// An external component (XEP-0114).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Component {
    /// Its domain, as [`read_domain`] returns it.
    pub domain: String,
    /// File with its secret.
    pub secret: PathBuf,
}

/// The external back end that checks the passwords of a domain's users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackEnd {
    /// The domain, as [`read_domain`] returns it.
    pub domain: String,
    /// The program or web service.
    pub asked: AskedBy,
}

/// A program or a web service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AskedBy {
    /// A program's absolute path, and its arguments.
    Program(Vec<String>),
    /// An HTTP or HTTPS URL without a trailing slash.
    Url(String),
}

/// Most components.
const COMPONENTS_MAX: usize = 256;
/// A localpart, normalised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalName(pub Box<str>);

/// Most names in a list: each registration is compared with all of them.
const NAMES_MAX: usize = 1_000;

/// Most JIDs in a list: each command of a user is compared with all of them.
const JIDS_MAX: usize = 1_000;

/// Most additional domains.
const DOMAINS_MAX: usize = 10_000;

/// Words in the order in which their row names them, without duplicates.
impl Field for Vec<&'static str> {
    fn read(parts: &[String], kind: &Kind) -> Option<Vec<&'static str>> {
        let Kind::Words(known) = *kind else { return None };
        if let [one] = parts
            && matches!(one.trim(), "off" | "none" | "")
        {
            return Some(Vec::new());
        }
        let given: Vec<&str> = parts.iter().flat_map(|part| part.split(',')).map(str::trim).collect();
        let all_known = given.iter().all(|word| known.contains(word));
        all_known.then(|| known.iter().copied().filter(|word| given.contains(word)).collect())
    }
    fn show(&self, _: &Kind) -> String {
        self.join(",")
    }
}

/// Most listeners of one kind.
pub const LISTENERS_MAX: usize = 64;

/// Bytes in the largest unit that divides them: `256KiB`, `1MiB`, `10000`.
pub fn show_bytes(bytes: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes != 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// Seconds in the largest unit that divides them: `5m`, `2h`, `30s`; a bare `0` is zero.
pub fn show_seconds(seconds: u64) -> String {
    for (size, unit) in [(86_400, "d"), (3_600, "h"), (60, "m")] {
        if seconds != 0 && seconds.is_multiple_of(size) {
            return format!("{}{unit}", seconds / size);
        }
    }
    if seconds == 0 { "0".into() } else { format!("{seconds}s") }
}

/// Declares an enum of words that a [`Kind::Choice`] option can have.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// The words, in the order of the variants.
            pub const WORDS: &'static [&'static str] = &[$($word),+];
            /// The word of this variant.
            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }

        impl $crate::config::kind::Field for $name {
            fn read(parts: &[String], _: &$crate::config::kind::Kind) -> Option<Self> {
                match parts {
                    [one] => match one.trim().to_ascii_lowercase().as_str() {
                        $($word => Some($name::$variant),)+
                        _ => None,
                    },
                    _ => None,
                }
            }
            fn show(&self, _: &$crate::config::kind::Kind) -> String {
                self.word().to_owned()
            }
        }
    };
}
pub(crate) use choice;

#[cfg(test)]
mod tests;
