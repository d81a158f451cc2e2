//! The possible faults of a configuration, phrased so that the reader can correct them; and the
//! rules between options.
//!
//! This module handles values and their sources; it opens nothing.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use throng_engine::limits::NOTIFY_BODY_BYTES_MAX;

use super::kind::{AskedBy, BareJid};
use super::table::{AcmeChallenge, ClientName, Config, Registration, RoomMakers, row};

/// Approximate bytes of the longest item of a channel in memory: binary content is in Base64.
const ITEM_BYTES_MAX: u64 = NOTIFY_BODY_BYTES_MAX as u64 * 4 / 3 + 1_024;

/// The source of a value. Earlier variants take precedence over later ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// An operator, while the server runs ([`super::knobs`]).
    Operator,
    /// A flag of the command line.
    Flag(String),
    /// An environment variable.
    Variable(String),
    /// A line of a file, counted from 1.
    File(PathBuf, usize),
    /// The default in the table.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Operator => f.write_str("set at run time"),
            Source::Flag(flag) => write!(f, "flag --{flag}"),
            Source::Variable(name) => write!(f, "environment {name}"),
            Source::File(path, line) => write!(f, "{}:{line}", path.display()),
            Source::Default => f.write_str("default"),
        }
    }
}

/// Whether the host of a URL, possibly with a port, is this machine.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Whether an authority can sign a certificate for a domain: it is neither an address nor this
/// machine's own name.
pub(super) fn is_public_name(domain: &str) -> bool {
    let is_address = domain.starts_with('[') || domain.parse::<std::net::IpAddr>().is_ok();
    !is_address && domain != "localhost" && !domain.ends_with(".localhost")
}

/// Whether the data sent to a URL can be read in transit.
fn is_readable(url: &str) -> bool {
    url.strip_prefix("http://").is_some_and(|rest| !is_loopback(rest.split(['/', '?']).next().unwrap_or_default()))
}

/// One fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Problem {
    /// The file cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// The file is not valid TOML.
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// The parser's reason.
        reason: String,
    },
    /// A name that the table lacks.
    Unknown {
        /// The source of the name.
        source: Source,
        /// The name.
        key: String,
        /// The known name that is most similar.
        nearest: Option<&'static str>,
    },
    /// A value that its option does not allow.
    Value {
        /// The source of the value.
        source: Source,
        /// The option.
        key: &'static str,
        /// The value found.
        found: String,
        /// The allowed values.
        allowed: String,
    },
    /// An option that only takes effect at the next start.
    NoKnob {
        /// The option.
        key: &'static str,
    },
    /// Values that conflict with each other.
    Clash {
        /// The option to change first.
        key: &'static str,
        /// The fault and its remedy.
        reason: String,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Unreadable { path, reason } => write!(f, "{}: cannot be read: {reason}", path.display()),
            Problem::Syntax { path, line, reason } => write!(f, "{}:{line}: not TOML: {reason}", path.display()),
            Problem::Unknown { source, key, nearest } => {
                write!(f, "{source}: unknown option `{key}`")?;
                match nearest {
                    Some(nearest) => write!(f, "; did you mean `{nearest}`?"),
                    None => f.write_str("; `throng config explain` lists them all"),
                }
            }
            Problem::Value { source, key, found, allowed } => {
                write!(f, "{source}: {key} cannot be `{found}`; allowed: {allowed}")
            }
            Problem::NoKnob { key } => {
                write!(
                    f,
                    "{key} cannot be set at run time; change the configuration and restart, or see \
                     `throng ctl knob list` for options that can be set"
                )
            }
            Problem::Clash { key, reason } => write!(f, "{key}: {reason}"),
        }
    }
}

/// All faults, in the order found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let end = if index + 1 == self.0.len() { "" } else { "\n" };
            write!(f, "{problem}{end}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Bytes per second of a user's bytestreams below which one piece takes more than a second.
const SLOWEST_STREAM: u64 = 16 << 10;

/// Checks the rules between options. Empty if all hold.
pub fn clashes(config: &Config) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut clash = |key: &'static str, reason: String| {
        debug_assert!(row(key).is_some(), "a clash names an option");
        found.push(Problem::Clash { key, reason });
    };
    let proxied = || config.c2s_proxied.iter().chain(&config.c2s_tls_proxied);
    let web = || config.http.iter().chain(&config.https);
    let listeners = || config.c2s.iter().chain(&config.c2s_tls).chain(proxied()).chain(web());
    let is_public = |address: &&SocketAddr| !address.ip().to_canonical().is_loopback();
    if let (false, Some(address)) = (config.i_know, proxied().find(is_public)) {
        clash(
            "c2s_proxied",
            format!(
                "refused on {address}, which is not loopback: anyone could claim any client \
                 address; pass --i-know to allow it"
            ),
        );
    }
    if let (false, Some(address)) = (config.i_know, config.http.iter().find(is_public)) {
        let reason = "which is not loopback: passwords would be readable on the network; pass \
                      --i-know to allow it";
        clash("http", format!("refused on {address}, {reason}"));
    }
    let (open, asks) = (!config.notify.is_empty(), !config.notify_ask.is_empty());
    let private = !config.notify_private.is_empty() || asks;
    if (open || private) && (!config.has_nodes() || (config.http.is_empty() && config.https.is_empty())) {
        let reason = "has no effect: channels need pubsub, and a listener at http or https";
        let key = match open {
            true => "notify",
            false if asks => "notify_ask",
            false => "notify_private",
        };
        clash(key, reason.into());
    }
    if !open && config.notify_publish_open {
        clash("notify", "names no channel, so notify_publish_open has no effect".into());
    }
    if !(open || private) && (config.notify_token.is_some() || config.notify_jwt_keys.is_some()) {
        clash("notify", "names no channel, so notify_token and notify_jwt_keys have no effect".into());
    }
    if !(open || private) && config.mercure {
        clash("mercure", "has no effect: topics are channels, and neither notify nor notify_private names any".into());
    }
    if !(open || private) && config.centrifugo {
        clash("centrifugo", "has no effect: neither notify nor notify_private names any channel".into());
    }
    if !(open || private) && config.nchan {
        clash("nchan", "has no effect: neither notify nor notify_private names any channel".into());
    }
    let tells = !config.notify_occupancy.is_empty();
    if tells && !open && !private {
        clash("notify", "names no channel, so notify_occupancy has no effect".into());
    }
    if config.notify_push && !(open || private) {
        clash("notify_push", "has no effect: neither notify nor notify_private names any channel".into());
    }
    let contact = &config.notify_push_contact;
    if config.notify_push && !["mailto:", "https:"].iter().any(|scheme| contact.starts_with(scheme)) {
        let reason = "push services require a contact (RFC 8292 2.1): set it to a mailto: or \
                      https: address";
        clash("notify_push_contact", reason.into());
    }
    if config.notify_push && config.notify_push_services.is_empty() {
        clash("notify_push_services", "is empty: name at least one push service, or turn notify_push off".into());
    }
    for (key, given) in
        [("notify_wildcards", !config.notify_wildcards.is_empty()), ("notify_memory", !config.notify_memory.is_empty())]
    {
        if given && !open && !private {
            clash("notify", format!("names no channel, so {key} has no effect"));
        }
    }
    if !config.notify_memory.is_empty() {
        let (shards, items) = (u64::from(config.shard_count()), config.notify_items_max);
        let least = 2 * shards * items * ITEM_BYTES_MAX;
        if config.notify_memory_bytes_max < least {
            let (least, kib) = (least.div_ceil(1 << 20), NOTIFY_BODY_BYTES_MAX >> 10);
            clash(
                "notify_memory_bytes_max",
                format!(
                    "is too small for a channel of {items} items of {kib} KiB, which may use half \
                     of the share of each of {shards} shards: set it to at least {least}MiB, or \
                     lower notify_items_max or shards"
                ),
            );
        }
    }
    let jwt = [
        ("notify_private", !config.notify_private.is_empty()),
        ("notify_jwt_revoked", config.notify_jwt_revoked.is_some()),
        ("notify_jwt_issuer", !config.notify_jwt_issuer.is_empty()),
        ("notify_jwt_audience", !config.notify_jwt_audience.is_empty()),
    ];
    if let (None, Some((key, _))) = (&config.notify_jwt_keys, jwt.into_iter().find(|(_, given)| *given)) {
        clash(key, "has no effect: no token is valid, because notify_jwt_keys is not set".into());
    }
    let url = &config.notify_ask_url;
    if asks && url.is_empty() {
        clash("notify_ask", "is set, but notify_ask_url is empty: set it".into());
    }
    for (key, given) in [
        ("notify_ask_url", !url.is_empty()),
        ("notify_ask_token", config.notify_ask_token.is_some()),
        ("notify_ask_authorities", config.notify_ask_authorities.is_some()),
    ] {
        if given && !asks {
            clash(key, "has no effect: notify_ask names no channel".into());
        }
    }
    let is_http = url.starts_with("http://") || url.starts_with("https://");
    if !(url.is_empty() || is_http && url.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'@' | b'#'))) {
        clash("notify_ask_url", "is not an HTTP or HTTPS URL such as https://app.example.org/channels".into());
    }
    if !config.i_know && is_readable(url) {
        let reason = "is neither HTTPS nor loopback: credentials would be readable on the network; \
                      pass --i-know to allow it";
        clash("notify_ask_url", format!("{url} {reason}"));
    }
    if config.chat_page && config.http.is_empty() && config.https.is_empty() {
        clash("chat_page", "has no effect: neither http nor https names an address".into());
    }
    if config.http_forwarded && config.http.is_empty() {
        clash("http_forwarded", "has no effect: http names no address".into());
    }
    // Through a proxy, strangers reach an address that they could not reach themselves. Whether a
    // proxy stands before plaintext HTTP cannot be known.
    let (reached, forwarded, perhaps) = (listeners().find(is_public), proxied().next(), config.http.first());
    for (on, key, danger) in [
        (config.plain_auth, "plain_auth", "passwords would be readable on the network"),
        (config.open_registration, "open_registration", "anyone could create accounts"),
        (
            matches!(config.registration, Registration::Open | Registration::Approval),
            "registration",
            "anyone could create accounts",
        ),
    ] {
        let (strangers, counted) = match (reached, forwarded, perhaps) {
            _ if !on || config.i_know => continue,
            (Some(address), ..) => (format!("{address} is not loopback"), ""),
            (_, Some(address), _) => (format!("a proxy may forward strangers to {address}"), ""),
            // Data that a proxy received over TLS is not readable elsewhere.
            (.., Some(address)) if key != "plain_auth" => {
                let counted = match config.http_forwarded {
                    true => "",
                    false => ", and set http_forwarded, so that limits apply to each client's own address",
                };
                (format!("a proxy may forward strangers to {address} (http)"), counted)
            }
            _ => continue,
        };
        clash(key, format!("refused: {strangers}, and {danger}; to allow it, pass --i-know{counted}"));
    }
    if let (false, Some(address)) = (config.i_know, config.upload_proxied.iter().find(is_public)) {
        let reason = "which is not loopback: slots and files would be readable on the network; \
                      pass --i-know to allow it";
        clash("upload_proxied", format!("refused on {address}, {reason}"));
    }
    if config.upload.is_empty() && !config.upload_proxied.is_empty() && config.upload_url.is_empty() {
        clash("upload_url", "missing: with only upload_proxied, clients need the proxy's URL".into());
    }
    if config.upload_bytes_day_max > 0 && config.upload_bytes_day_max < config.upload_file_bytes_max {
        let reason = "is less than upload_file_bytes_max: raise it, lower upload_file_bytes_max, \
                      or set 0 for no limit";
        clash("upload_bytes_day_max", format!("{} bytes {reason}", config.upload_bytes_day_max));
    }
    if config.takes_uploads() {
        let service = config.upload_domain();
        if config.domain == service || config.virtual_hosts.iter().any(|host| *host.0 == *service) {
            clash("upload", format!("{service} is the domain of the upload service and cannot have accounts"));
        }
    }
    if config.relays_bytestreams() {
        let service = config.bytestreams_domain();
        if config.domain == service || config.virtual_hosts.iter().any(|host| *host.0 == *service) {
            clash("bytestreams", format!("{service} is the domain of the bytestreams proxy and cannot have accounts"));
        }
    }
    if matches!(config.bytestreams_user_bytes_per_second_max, 1..SLOWEST_STREAM) {
        let reason = "is less than one buffer per second: set 16KiB or more, or 0 for no limit";
        let given = config.bytestreams_user_bytes_per_second_max;
        clash("bytestreams_user_bytes_per_second_max", format!("{given} bytes {reason}"));
    }
    for component in &config.components {
        let domain = &component.domain;
        let users = config.domain == *domain || config.virtual_hosts.iter().any(|host| *host.0 == **domain);
        let uploads = config.takes_uploads() && config.upload_domain() == *domain;
        let proxy = config.relays_bytestreams() && config.bytestreams_domain() == *domain;
        let nodes = config.has_nodes() && config.pubsub_domain() == *domain;
        let rooms = config.rooms != RoomMakers::Off && config.rooms_domain() == *domain;
        let owners = [
            (users, "has accounts"),
            (uploads, "belongs to the upload service"),
            (proxy, "belongs to the bytestreams proxy"),
            (nodes, "belongs to the publish-subscribe service"),
            (rooms, "belongs to the rooms for group chat (rooms)"),
        ];
        if let Some((_, whose)) = owners.iter().find(|(owns, _)| *owns) {
            clash("components", format!("{domain} {whose}: a component needs its own domain"));
        }
    }
    if let (false, false, Some(address)) =
        (config.i_know, config.components.is_empty(), config.component.iter().find(is_public))
    {
        let reason = "which is not loopback: stanzas of components would be readable on the \
                      network; pass --i-know to allow it";
        clash("component", format!("refused on {address}, {reason}"));
    }
    if !config.components.is_empty() && config.component.is_empty() {
        clash("component", "is off, so components cannot connect: set an address, or leave components empty".into());
    }
    for back_end in &config.external_auth {
        let domain = &back_end.domain;
        if config.domain != *domain && !config.virtual_hosts.iter().any(|host| *host.0 == **domain) {
            clash(
                "external_auth",
                format!("{domain} is not served: it must be the main domain or one of virtual_hosts"),
            );
        }
        if let (false, AskedBy::Url(url)) = (config.i_know, &back_end.asked)
            && is_readable(url)
        {
            let reason = "is neither HTTPS nor loopback: passwords would be readable on the \
                          network; pass --i-know to allow it";
            clash("external_auth", format!("{url} {reason}"));
        }
    }
    let urls = config.external_auth.iter().any(|one| matches!(one.asked, AskedBy::Url(_)));
    for (key, given) in [
        ("external_auth_token", config.external_auth_token.is_some()),
        ("external_auth_authorities", config.external_auth_authorities.is_some()),
    ] {
        if given && !urls {
            clash(key, "has no effect: external_auth names no URL".into());
        }
    }
    if !config.external_auth.is_empty() && config.preauth_timeout_seconds <= 2 * config.external_auth_seconds {
        let (most, time) = (config.external_auth_seconds.as_secs(), config.preauth_timeout_seconds.as_secs());
        clash(
            "external_auth_seconds",
            format!(
                "twice {most} s must be less than preauth_timeout_seconds, {time} s, or \
                 connections end before their answer: lower the former or raise the latter"
            ),
        );
    }
    if config.has_nodes() {
        let service = config.pubsub_domain();
        if config.domain == service || config.virtual_hosts.iter().any(|host| *host.0 == *service) {
            clash(
                "pubsub",
                format!("{service} is the domain of the publish-subscribe service and cannot have accounts"),
            );
        }
    }
    if config.rooms != RoomMakers::Off {
        let service = config.rooms_domain();
        if config.domain == service || config.virtual_hosts.iter().any(|host| *host.0 == *service) {
            clash("rooms", format!("{service} is the domain of the rooms for group chat and cannot have accounts"));
        }
    }
    if let (None, Some(address)) = (&config.admin_http_token, config.admin_http.iter().find(is_public)) {
        clash("admin_http", format!("refused on {address}, which is not loopback: set a token (admin_http_token)"));
    }
    if listeners().next().is_none() {
        clash("c2s", "no listener is left: c2s and c2s_tls are both off; set one of them".into());
    }
    let mut seen = Vec::new();
    let components = config.component.iter().filter(|_| !config.components.is_empty());
    for address in listeners().chain(components).chain(&config.acme_http).filter(|address| address.port() != 0) {
        if seen.contains(&address) {
            clash("c2s", format!("{address} is used by two listeners"));
        }
        seen.push(address);
    }
    match (&config.tls_certificate, &config.tls_key) {
        (Some(_), None) => clash("tls_key", "missing: tls_certificate needs a key".into()),
        (None, Some(_)) => clash("tls_certificate", "missing: tls_key needs a certificate".into()),
        _ => {}
    }
    if config.acme.is_empty() {
        for (key, given) in [
            ("acme_directory", config.acme_directory != "production"),
            ("acme_root", config.acme_root.is_some()),
            ("acme_http", !config.acme_http.is_empty()),
            ("acme_challenge", config.acme_challenge != AcmeChallenge::Auto),
        ] {
            if given {
                clash(key, "has no effect: acme is not set".into());
            }
        }
    } else {
        if config.tls_certificate.is_some() {
            clash("acme", "has no effect: all domains use tls_certificate; remove one of the two".into());
        }
        if !std::iter::once(&*config.domain)
            .chain(config.virtual_hosts.iter().map(|other| &*other.0))
            .any(is_public_name)
        {
            clash("acme", format!("has no effect: no authority signs certificates for {}; set domain", config.domain));
        }
        if config.acme_challenges().is_empty() {
            let reason = match config.acme_challenge {
                AcmeChallenge::Http => "needs a listener at acme_http or http",
                AcmeChallenge::Tls => "needs a listener at c2s_tls or https",
                AcmeChallenge::Auto => "needs a listener at c2s_tls, https, acme_http or http",
            };
            clash("acme_challenge", reason.into());
        }
    }
    if config.tls_client_authorities.is_none() {
        let reason = "has no effect: tls_client_authorities is not set";
        if config.tls_client_revoked.is_some() {
            clash("tls_client_revoked", reason.into());
        }
        if config.tls_client_name != ClientName::None {
            clash("tls_client_name", reason.into());
        }
    }
    for (key, value) in [
        ("outbound_bytes_max", config.outbound_bytes_max),
        ("waiting_bytes_max", config.waiting_bytes_max),
        ("component_queue_bytes_max", config.component_queue_bytes_max),
    ] {
        if value < config.stanza_bytes_max {
            clash(
                key,
                format!(
                    "{value} bytes is less than stanza_bytes_max, {} bytes: raise the former or \
                     lower the latter",
                    config.stanza_bytes_max
                ),
            );
        }
    }
    if config.outbound_bytes_soft >= config.outbound_bytes_max {
        // Messages must start to stay in the log before a client that keeps requesting is
        // disconnected.
        let (soft, max) = (config.outbound_bytes_soft, config.outbound_bytes_max);
        clash(
            "outbound_bytes_soft",
            format!(
                "{soft} bytes must be less than outbound_bytes_max, {max} bytes: lower the former \
                 or raise the latter"
            ),
        );
    }
    if config.reserve_bytes > 0 && config.reserve_bytes < config.commit_group_bytes_max {
        clash(
            "reserve_bytes",
            format!(
                "{} bytes is less than commit_group_bytes_max, {} bytes: raise the former, lower \
                 the latter, or set 0 for no reserve",
                config.reserve_bytes, config.commit_group_bytes_max
            ),
        );
    }
    // A failure is forgotten after a fraction of the window, which the throttle stores in whole
    // milliseconds.
    let window_ms = config.login_failures_window_seconds.as_millis();
    for (key, failures) in [
        ("login_failures_per_pair_max", config.login_failures_per_pair_max),
        ("login_failures_per_account_max", config.login_failures_per_account_max),
        ("login_failures_per_address_max", config.login_failures_per_address_max),
    ] {
        if u128::from(failures) > window_ms {
            clash(
                key,
                format!(
                    "{failures} failures is more than one per millisecond of \
                     login_failures_window_seconds, {} seconds: lower the former or raise the \
                     latter",
                    config.login_failures_window_seconds.as_secs()
                ),
            );
        }
    }
    if config.rule().is_some() && config.without.contains(&"register") {
        let reason = "has no effect while without contains register: remove one of the two";
        clash(if config.open_registration { "open_registration" } else { "registration" }, reason.into());
    }
    if config.registration == Registration::Invite && config.without.contains(&"invite") {
        let reason = "is invite, but without contains invite, so nobody could register: remove one \
                      of the two";
        clash("registration", reason.into());
    }
    if config.open_registration && !matches!(config.registration, Registration::Closed | Registration::Open) {
        let reason = format!("conflicts with registration = {}: remove one of the two", config.registration.word());
        clash("open_registration", reason);
    }
    let served = |domain: &str| domain == config.domain || config.virtual_hosts.iter().any(|other| other.0 == domain);
    let of = |jid: &BareJid| jid.0.split_once('@').is_some_and(|(_, domain)| served(domain));
    if let Some(stranger) = config.admins.iter().find(|jid| !of(jid)) {
        clash("admins", format!("{} is at a domain that is not served: add the domain to virtual_hosts", stranger.0));
    }
    if let Some(stranger) = config.inviters.iter().find(|jid| !of(jid)) {
        clash("inviters", format!("{} is at a domain that is not served: add the domain to virtual_hosts", stranger.0));
    }
    if let Some(stranger) = config.busy_accounts.iter().find(|jid| !of(jid)) {
        clash(
            "busy_accounts",
            format!("{} is at a domain that is not served: add the domain to virtual_hosts", stranger.0),
        );
    }
    let allowances = [
        ("account_stanzas_burst", config.account_stanzas_burst, config.account_stanzas_per_second),
        ("busy_stanzas_burst", config.busy_stanzas_burst, config.busy_stanzas_per_second),
    ];
    for (key, burst, a_second) in allowances {
        if burst < a_second {
            clash(key, format!("{burst} is less than one second's worth, {a_second}: raise it"));
        }
    }
    if !config.admins.is_empty() && config.without.contains(&"adhoc") {
        clash("admins", "has no effect while without contains adhoc: remove one of the two".into());
    }
    if config.external_services_secret.is_some() && config.external_services.is_empty() {
        clash("external_services_secret", "has no effect: external_services names no server".into());
    }
    if config.archive_days > 0 && !config.archive {
        clash("archive_days", "has no effect while archive is false: remove it, or set archive = true".into());
    }
    found
}
