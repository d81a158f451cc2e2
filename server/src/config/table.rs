//! The one table of options: each row names an option, its type, unit, range, default and meaning.
//!
//! Flags, environment, file, `throng config`, the reference page and the typed [`Config`] all come
//! from these rows. To add an option, add a row. This module knows no source and no consumer. It
//! has over 1,000 lines because it is one table.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use throng_engine::extension;
use throng_engine::extension::contact::Contact;
use throng_engine::extension::service::Service;
use throng_engine::limits::{NOTIFY_ITEMS_MAX, SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN, UPLOAD_SLOTS_MAX};

use super::field_name::FieldName;
use super::kind::{BackEnd, BareJid, Component, Domain, Field, Kind, LocalName, Origin, choice};
use super::prefix::Prefix;
use super::push::{PushService, PushUrgency};

choice! {
    /// The kernel interface for sockets.
    DriverChoice {
        /// io_uring where the kernel allows it, otherwise epoll.
        Auto = "auto",
        /// io_uring, or refuse to start.
        Uring = "uring",
        /// epoll.
        Epoll = "epoll",
    }
}

choice! {
    /// Oldest TLS version that is accepted.
    TlsVersion {
        /// TLS 1.2 (RFC 5246) and later.
        V12 = "1.2",
        /// TLS 1.3 (RFC 8446) only.
        V13 = "1.3",
    }
}

choice! {
    /// How control of a name is proved to the certificate authority.
    AcmeChallenge {
        /// By the ways for which there is a listener, one after the other until one succeeds.
        Auto = "auto",
        /// By HTTP at port 80 (RFC 8555 8.3).
        Http = "http-01",
        /// By TLS at port 443 (RFC 8737).
        Tls = "tls-alpn-01",
    }
}

choice! {
    /// How to find the account of a client certificate that contains no XMPP address.
    ClientName {
        /// Not at all: the certificate is rejected.
        None = "none",
        /// By a mailbox (rfc822Name).
        Mail = "mail",
        /// By the common name of the subject.
        CommonName = "common-name",
    }
}

choice! {
    /// What happens when a client binds a resource that is in use (RFC 6120 7.7.2.2).
    ResourceConflict {
        /// The older session is closed with `<conflict/>`.
        Replace = "replace",
        /// The newer request is refused with `<conflict/>`.
        Refuse = "refuse",
    }
}

choice! {
    /// Which sessions get a message to a bare JID (RFC 6121 8.5.2.1.1).
    BareDelivery {
        /// Every available session whose priority is not negative.
        All = "all",
        /// Of these, the one with the highest priority, the most recently active among equals.
        MostAvailable = "most-available",
    }
}

choice! {
    /// The users that may create nodes of the publish-subscribe service.
    NodeMakers {
        /// Users of the server.
        Users = "users",
        /// Administrators only.
        Admins = "admins",
        /// No user; existing nodes stay.
        Nobody = "nobody",
        /// The service is disabled.
        Off = "off",
    }
}

choice! {
    /// The users that may create rooms for group chat.
    RoomMakers {
        /// Users of the server.
        Users = "users",
        /// Users of external components, too.
        Everybody = "everybody",
        /// Administrators only.
        Admins = "admins",
        /// There are no rooms.
        Off = "off",
    }
}

impl RoomMakers {
    /// The engine's setting; `None` without rooms.
    pub fn creation(self) -> Option<throng_engine::settings::RoomCreation> {
        use throng_engine::settings::RoomCreation;
        match self {
            RoomMakers::Users => Some(RoomCreation::Users),
            RoomMakers::Everybody => Some(RoomCreation::Everybody),
            RoomMakers::Admins => Some(RoomCreation::Admins),
            RoomMakers::Off => None,
        }
    }
}

choice! {
    /// What push services learn about a message (XEP-0357 7).
    PushDetails {
        /// The number of waiting messages.
        Count = "count",
        /// In addition, the sender of the last one.
        Sender = "sender",
        /// In addition, the beginning of its text.
        Body = "body",
    }
}

/// The names of hash functions of SCRAM, the oldest first.
pub const SCRAM_HASHES: [&str; 3] = ["sha-1", "sha-256", "sha-512"];

choice! {
    /// Conditions for in-band registration (XEP-0077).
    Registration {
        /// Disabled.
        Closed = "closed",
        /// Open to everyone.
        Open = "open",
        /// With an invitation (XEP-0445).
        Invite = "invite",
        /// Open to everyone, with approval by an administrator.
        Approval = "approval",
    }
}

choice! {
    /// What every user may invite others to (XEP-0401).
    UserInvitations {
        /// Nothing.
        Off = "off",
        /// To become a contact.
        Contacts = "contacts",
        /// And to register an account.
        Accounts = "accounts",
    }
}

choice! {
    /// How much is logged.
    LogLevel {
        /// Errors that need an operator.
        Error = "error",
        /// In addition, conditions that are likely to need one.
        Warn = "warn",
        /// In addition, the server's actions.
        Info = "info",
        /// In addition, the reasons.
        Debug = "debug",
        /// In addition, every step; slow.
        Trace = "trace",
    }
}

choice! {
    /// How a log line is written.
    LogFormat {
        /// Readable text; coloured on a terminal.
        Human = "human",
        /// One JSON object per line.
        Json = "json",
    }
}

choice! {
    /// Part of the reference page, heading in `--help`.
    Section {
        /// Addresses and location of the data.
        Addresses = "Addresses and data",
        /// Threads, descriptors, queues.
        Machine = "Threads and connections",
        /// Encryption.
        Tls = "TLS",
        /// Accounts, authentication, registration.
        SignIn = "Signing in",
        /// Limits and time-outs of a stream.
        Streams = "Streams",
        /// Roster, delivery, waiting messages, archive.
        Messages = "Messages",
        /// Files that users upload, and send each other.
        Files = "Files",
        /// Commits and disk space.
        Store = "Store",
        /// The server's activity, second by second.
        Recorder = "Activity recorder",
        /// Logs.
        Log = "Logs",
    }
}

/// When a changed value takes effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// At the next start.
    Restart,
    /// At `throng ctl reload`, SIGHUP or `throng ctl knob set`.
    Reload,
}

/// Which help text shows the flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rank {
    /// `-h` and `--help`.
    Main,
    /// Only `--help`.
    Detail,
}

/// One option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// Name in the file; the flag has dashes for underscores, the variable is `THRONG_` and the
    /// name in capitals.
    pub key: &'static str,
    /// Its place in help and reference.
    pub section: Section,
    /// Type, unit and range.
    pub kind: Kind,
    /// Default, in the syntax of the file.
    pub default: &'static str,
    /// When a change takes effect.
    pub change: Change,
    /// Which help text shows it.
    pub rank: Rank,
    /// Its description, in one sentence.
    pub help: &'static str,
    /// Additional information; may be empty.
    pub more: &'static str,
}

impl Row {
    /// The flag without its leading dashes: `c2s-tls`.
    pub fn flag(&self) -> String {
        flag(self.key)
    }

    /// Its name, then the former names that still work.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let former = RENAMED.iter().filter(|renamed| renamed.key == self.key);
        [self.key].into_iter().chain(former.map(|renamed| renamed.old))
    }

    /// Whether it can be set while the server runs. Options that a reload reads from files cannot
    /// be set by name.
    pub fn is_knob(&self) -> bool {
        self.change == Change::Reload && !matches!(self.kind, Kind::Path | Kind::PathOrNone)
    }

    /// The environment variable: `THRONG_C2S_TLS`.
    pub fn variable(&self) -> String {
        variable(self.key)
    }
}

/// The flag of a name, without its leading dashes.
pub fn flag(name: &str) -> String {
    name.replace('_', "-")
}

/// The environment variable of a name.
pub fn variable(name: &str) -> String {
    format!("THRONG_{}", name.to_ascii_uppercase())
}

/// A former name of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Renamed {
    /// The former name, which no option may have again.
    pub old: &'static str,
    /// The present name.
    pub key: &'static str,
    /// The version that no longer knows the former name.
    pub until: &'static str,
}

/// The former names that still work, with a warning (docs/promise.md). Values under the present
/// name take precedence within each source.
pub static RENAMED: &[Renamed] = &[
    #[cfg(test)]
    Renamed { old: "accept_queue", key: "backlog", until: "9.0" },
];

/// The row of a key, also if spelled as a flag or as a variable, or under a former name.
pub fn row(name: &str) -> Option<&'static Row> {
    let key = normal(name);
    TABLE.iter().find(|row| row.names().any(|name| name == key))
}

/// The key as spelled in the table, from any of its spellings.
pub fn normal(name: &str) -> String {
    let name = name.trim().trim_start_matches("--").to_ascii_lowercase().replace('-', "_");
    name.strip_prefix("throng_").map(str::to_owned).unwrap_or(name)
}

/// The key that a mistyped name most likely meant, if there is one.
pub fn nearest(name: &str) -> Option<&'static str> {
    let name = normal(name);
    let near = |row: &&Row| row.key.starts_with(&name) && name.len() >= 3;
    let (distance, key) = TABLE.iter().map(|row| (distance(&name, row.key), row.key)).min()?;
    if distance <= 1 + name.len() / 4 { Some(key) } else { TABLE.iter().find(near).map(|row| row.key) }
}

/// Edit distance with transpositions (optimal string alignment), the usual typing errors.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let cost = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + cost);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

/// A value that its row does not allow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotAllowed {
    /// The option.
    pub key: &'static str,
    /// What was found.
    pub found: String,
}

fn take<T: Field>(row: &'static Row, parts: &[String], bad: &mut Vec<NotAllowed>) -> Option<T> {
    let value = T::read(parts, &row.kind);
    if value.is_none() {
        bad.push(NotAllowed { key: row.key, found: parts.join(",") });
    }
    value
}

/// RFC 7677 4 sets the minimum; the engine has both bounds.
const ITERATIONS: Kind =
    Kind::Count { min: SCRAM_ITERATIONS_MIN as u64, max: SCRAM_ITERATIONS_MAX as u64, unit: "iterations" };

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const HOUR: u64 = 3_600;
const DAY: u64 = 86_400;

/// Declares the rows; yields [`TABLE`] and [`Config`].
macro_rules! options {
    ($($section:ident $rank:ident $change:ident $key:ident: $type:ty, $kind:expr, $default:literal,
        $help:literal, $more:literal;)*) => {
        /// All options, in the order of the reference page.
        pub static TABLE: &[Row] = &[$(Row {
            key: stringify!($key),
            section: Section::$section,
            kind: $kind,
            default: $default,
            change: Change::$change,
            rank: Rank::$rank,
            help: $help,
            more: $more,
        }),*];

        /// The values of all options, checked against their ranges.
        #[derive(Clone, PartialEq, Debug)]
        pub struct Config {
            $(#[doc = $help] pub $key: $type,)*
        }

        impl Config {
            /// Parses one text (or several, for lists) per row, in the order of [`TABLE`].
            ///
            /// # Errors
            /// Every value that its row does not allow.
            pub(super) fn read(texts: &[Vec<String>]) -> Result<Config, Vec<NotAllowed>> {
                assert_eq!(texts.len(), TABLE.len(), "one text a row");
                let mut bad = Vec::new();
                let mut rows = TABLE.iter().zip(texts);
                $(let $key: Option<$type> =
                    rows.next().and_then(|(row, parts)| take(row, parts, &mut bad));)*
                match ($($key,)*) {
                    ($(Some($key),)*) => Ok(Config { $($key),* }),
                    _ => Err(bad),
                }
            }

            /// The canonical text of every value, in the order of [`TABLE`].
            pub fn shown(&self) -> Vec<String> {
                let mut rows = TABLE.iter();
                vec![$(self.$key.show(&rows.next().expect("a row a field").kind)),*]
            }
        }
    };
}

options! {
    // Addresses and location of the data.
    Addresses Main Restart domain: String, Kind::Domain, "localhost",
        "Domain that the accounts belong to, the part after @ in a JID.",
        "The certificate must be valid for it. Account names without a domain belong to it. A \
         store is bound to its domain and cannot change it later; virtual_hosts adds further \
         domains.";
    Addresses Main Restart virtual_hosts: Vec<Domain>, Kind::Domains, "",
        "Additional domains to serve, each with its own accounts; may be given several times.",
        "romeo@a.example and romeo@b.example are two users. When a domain is removed from the \
         list, clients are refused and its accounts stay in the store. For certificates see \
         tls_folder.";
    Addresses Main Restart data: PathBuf, Kind::Path, "$XDG_DATA_HOME/throng",
        "Folder of the store, the control socket and the self-signed certificate; created if \
         missing, accessible only to its owner.",
        "Without XDG_DATA_HOME the default is ~/.local/share/throng; without a home directory, \
         ./throng-data. A throng.toml in this folder is read if --config is not given. Only one \
         server can use a folder at a time.";
    Addresses Main Restart c2s: Vec<SocketAddr>, Kind::Listeners, "127.0.0.1:5222,[::1]:5222",
        "Address for client connections with STARTTLS; may be given several times.",
        "The default accepts connections from this machine only; 0.0.0.0:5222 and [::]:5222 accept \
         all. A default address that the machine lacks is skipped; a configured one must work.";
    Addresses Main Restart c2s_tls: Vec<SocketAddr>, Kind::Listeners, "127.0.0.1:5223,[::1]:5223",
        "Address for client connections with TLS from the first byte (XEP-0368); may be given several times.",
        "See c2s; off for none.";
    Addresses Detail Restart c2s_proxied: Vec<SocketAddr>, Kind::Listeners, "off",
        "Address for connections from a reverse proxy that sends a PROXY protocol header; may be \
         given several times.",
        "Versions 1 and 2 are supported. Limits per address then apply to the client's address, \
         not the proxy's. Anyone who can connect here can claim any address, so it must be \
         loopback unless --i-know is given. `throng doctor front` writes the proxy's \
         configuration.";
    Addresses Detail Restart c2s_tls_proxied: Vec<SocketAddr>, Kind::Listeners, "off",
        "Like c2s_proxied, for connections with TLS from the first byte after the header.",
        "See c2s_proxied.";
    Addresses Main Restart http: Vec<SocketAddr>, Kind::Listeners, "off",
        "Address for WebSocket (RFC 7395) and BOSH (XEP-0124) over plain HTTP, behind a TLS proxy; \
         may be given several times.",
        "Usually 127.0.0.1:5280. Passwords are accepted here without TLS, so it must be loopback \
         unless --i-know is given. See docs/web.md.";
    Addresses Main Restart https: Vec<SocketAddr>, Kind::Listeners, "off",
        "Address for WebSocket (RFC 7395), BOSH (XEP-0124) and their discovery (XEP-0156) over \
         HTTPS; may be given several times.",
        "Usually 0.0.0.0:5443 and [::]:5443. Uses the same certificates as c2s_tls.";
    Addresses Detail Restart http_forwarded: bool, Kind::Switch, "false",
        "Take the client's address from the X-Forwarded-For header set by the proxy in front of \
         http.",
        "The last address in the header is used; the proxy must append it itself. Limits per \
         address then apply to the client's address. Enable it only if nothing but the proxy can \
         reach http. `throng doctor front` writes the proxy's configuration.";
    Addresses Detail Restart http_origins: Vec<Origin>, Kind::Origins, "any",
        "Origins of pages that may connect by WebSocket or BOSH; may be given several times.",
        "For example https://chat.example.org. Clients other than browsers may always connect. \
         Logins take place in the stream, so a page has no access beyond what its user typed into \
         it.";
    Addresses Detail Restart websocket_url: String, Kind::SocketUrlOrNone, "",
        "URL of the WebSocket that is announced to clients (XEP-0156).",
        "When empty, requests over https for a served domain get the address they were sent to; \
         other requests get none.";
    Addresses Detail Restart bosh_url: String, Kind::PathUrlOrNone, "",
        "URL of BOSH (XEP-0124) that is announced to clients (XEP-0156).",
        "For example https://xmpp.example.org/http-bind. When empty, requests over https for a \
         served domain get the address they were sent to; other requests get none.";
    Addresses Main Restart chat_page: bool, Kind::Switch, "false",
        "Serve a chat page at / on http and https.",
        "It logs in by the WebSocket of the same address. See docs/chat-page.md.";
    Addresses Main Restart notify: Vec<Prefix>, Kind::Prefixes, "off",
        "Prefixes of the names of notification channels that anyone may read at /n/ on http and \
         https.",
        "May be given several times. Channels are nodes of the publish-subscribe service (pubsub). \
         See docs/notifications.md.";
    Addresses Detail Restart notify_token: Option<PathBuf>, Kind::PathOrNone, "",
        "File with the token that publishers at /n/ must send (Authorization: Bearer).",
        "One line of at least 16 characters. Without it nobody can publish there, unless \
         notify_publish_open is set or a token signed by notify_jwt_keys grants it.";
    Addresses Main Restart notify_private: Vec<Prefix>, Kind::Prefixes, "off",
        "Prefixes of the names of notification channels that require a token (JWT).",
        "May be given several times; takes precedence over notify. The token lists where its \
         bearer may publish and subscribe; notify_jwt_keys lists the keys that are trusted. Over \
         XMPP, only administrators can create nodes with these names.";
    Addresses Main Reload notify_jwt_keys: Option<PathBuf>, Kind::PathOrNone, "",
        "File with the keys of token issuers for channels: a JWK Set (RFC 7517) for HS256, ES256 \
         and EdDSA.",
        "Secrets (oct) of at least 32 bytes, and public keys; at most 16. If there are several \
         keys for one algorithm, each needs a kid. Read again at reload; subscribers whose token \
         was signed by a removed key are disconnected.";
    Addresses Detail Reload notify_jwt_revoked: Option<PathBuf>, Kind::PathOrNone, "",
        "File with the IDs (jti) of revoked tokens, one per line.",
        "At most 4 MiB. Read again at reload; subscribers with a revoked token are disconnected. \
         An ID can be removed once its token has expired.";
    Addresses Detail Restart notify_jwt_issuer: String, Kind::TextOrNone, "",
        "Required issuer (iss) of tokens for channels.",
        "When empty, any issuer with a trusted key is accepted.";
    Addresses Detail Restart notify_jwt_audience: String, Kind::TextOrNone, "",
        "Required audience (aud) of tokens for channels.",
        "When empty, a token with an audience is refused (RFC 7519 4.1.3). Set it if the issuer \
         uses the same key for other audiences.";
    Addresses Detail Restart notify_jwt_seconds: Duration, Kind::Seconds { min: 60, max: 3_650 * DAY }, "1d",
        "Longest remaining lifetime (exp) of a token for channels.",
        "A token without exp is refused.";
    Addresses Detail Restart notify_occupancy: Vec<Prefix>, Kind::Prefixes, "off",
        "Prefixes of the names of notification channels that report their subscribers and how many \
         they are.",
        "May be given several times. For channels of notify, anyone may ask for the number; nobody \
         is named. For channels of notify_private, tokens that grant presence also see subscribers \
         by the sub of their tokens.";
    Addresses Main Restart notify_push: bool, Kind::Switch, "false",
        "Let web pages register for pushes of channels, which arrive even while the page is closed \
         (RFC 8030).",
        "Requires notify_push_contact. The server creates a key for push services, push.key in the \
         data folder. See docs/notifications.md.";
    Addresses Detail Restart notify_push_contact: String, Kind::TextOrNone, "",
        "Contact address for operators of push services, such as `mailto:admin@example.org` or \
         `https://example.org/contact`.",
        "";
    Addresses Detail Restart notify_push_services: Vec<PushService>, Kind::PushServices, "fcm.googleapis.com,.push.services.mozilla.com,.push.apple.com,.notify.windows.com",
        "Allowed push services, by host, or by host suffix with a leading dot; may be given \
         several times.",
        "Pages name their push service when they register; others than these are refused. At most \
         16.";
    Addresses Detail Restart notify_push_private: bool, Kind::Switch, "false",
        "Allow push services at addresses outside the public internet.",
        "Use it only for your own push services: whoever controls the DNS of a name in \
         notify_push_services can then make the server connect to internal addresses.";
    Addresses Detail Restart notify_push_authorities: Option<PathBuf>, Kind::PathOrNone, "",
        "File with the CA certificates (PEM) that verify push services; empty for the system's.",
        "";
    Addresses Detail Restart notify_push_interval_seconds: Duration, Kind::Seconds { min: 1, max: HOUR }, "10",
        "Minimum time between two pushes of a channel to one page.",
        "The first item is pushed at once. Of the items that arrive within this time, the last is \
         pushed at its end.";
    Addresses Detail Restart notify_push_ttl_seconds: Duration, Kind::Seconds { min: 0, max: 28 * DAY }, "1d",
        "Time for which push services keep a push for an unreachable device (RFC 8030 5.2).",
        "";
    Addresses Detail Restart notify_push_urgency: PushUrgency, Kind::Choice(PushUrgency::WORDS), "normal",
        "Urgency of pushes (RFC 8030 5.3): devices that save battery accept only urgent ones.",
        "";
    Addresses Detail Restart notify_push_hold_seconds: Duration, Kind::Seconds { min: HOUR, max: 3_650 * DAY }, "60d",
        "Time after which a push registration expires unless its page renews it.",
        "";
    Addresses Detail Restart notify_push_per_channel_max: u64, Kind::Count { min: 1, max: 1_000_000, unit: "registrations" }, "10000",
        "Push registrations per channel.",
        "";
    Addresses Detail Restart notify_push_per_address_max: u64, Kind::Count { min: 1, max: 1_000_000, unit: "registrations" }, "100",
        "Push registrations per channel from one address (IPv6: /64).",
        "Behind a proxy, all count for the proxy's address unless http_forwarded is on.";
    Addresses Detail Restart notify_wildcards: Vec<Prefix>, Kind::Prefixes, "off",
        "Prefixes for which subscriptions to all channels below them are allowed (/n/PREFIX*, and \
         selectors of Mercure).",
        "May be given several times. Subscribers to a prefix learn the names of its channels, so \
         leave out channels whose names are secret. Channels of notify_private are included if the \
         subscriber's token grants the whole prefix (subscribe), and with Mercure if it grants the \
         channel.";
    Addresses Main Restart notify_memory: Vec<Prefix>, Kind::Prefixes, "off",
        "Prefixes of the names of notification channels that keep their items in memory instead of \
         on disk.",
        "May be given several times. The channels must also match notify, notify_private or \
         notify_ask. Publishing is cheaper and does not wait for the disk. Items are lost when the \
         server stops, and returning subscribers get a gap. Names, subscriptions and owners remain \
         on disk.";
    Addresses Detail Restart notify_memory_bytes_max: u64, Kind::Bytes { min: 16 * MIB, max: 1_024 * GIB }, "256MiB",
        "Memory limit for the items of notify_memory, over all shards.",
        "When it is reached, the channels that were published to least recently lose their items.";
    Addresses Main Restart notify_ask: Vec<Prefix>, Kind::Prefixes, "off",
        "Prefixes of the names of notification channels whose access a web service decides.",
        "May be given several times; takes precedence over notify. A valid token decides; without \
         one, notify_ask_url is asked. Over XMPP, only administrators can create nodes with these \
         names. The requests are described in docs/notifications.md.";
    Addresses Detail Restart notify_ask_url: String, Kind::TextOrNone, "",
        "URL of the web service that decides about requests for the channels of notify_ask, called \
         by POST.",
        "Must be HTTPS, or HTTP on this machine (i_know lifts this): it receives credentials from \
         requests.";
    Addresses Detail Restart notify_ask_headers: Vec<FieldName>, Kind::FieldNames, "authorization",
        "Header fields of a request that are passed on to the web service.",
        "May be given several times. Cookie is passed on only for pages of the server's own origin \
         and of http_origins.";
    Addresses Detail Restart notify_ask_token: Option<PathBuf>, Kind::PathOrNone, "",
        "File with the token that is sent to notify_ask_url as `Authorization: Bearer`.",
        "One line of at least 16 characters.";
    Addresses Detail Restart notify_ask_authorities: Option<PathBuf>, Kind::PathOrNone, "",
        "File with the CA certificates (PEM) that verify the HTTPS server of notify_ask_url; empty \
         for the system's.",
        "";
    Addresses Detail Restart notify_ask_lines: u64, Kind::Count { min: 1, max: 64, unit: "connections" }, "8",
        "Connections to the web service; each carries one question at a time.",
        "";
    Addresses Detail Restart notify_ask_waiting_max: u64, Kind::Count { min: 1, max: 65_536, unit: "questions" }, "2000",
        "Questions that may wait for the web service; beyond that, requests get 503.",
        "";
    Addresses Detail Restart notify_ask_seconds: Duration, Kind::Seconds { min: 1, max: 30 }, "5s",
        "Time limit for an answer of the web service, and for the wait of a question before it is \
         sent.",
        "";
    Addresses Detail Restart notify_ask_per_second: u64, Kind::Count { min: 0, max: 1_000_000, unit: "questions" }, "20",
        "Sustained rate of questions about requests from one address (IPv6: /64); 0 for no limit.",
        "A burst may contain ten seconds' worth. Requests covered by a cached answer do not count.";
    Addresses Detail Restart notify_publish_open: bool, Kind::Switch, "false",
        "Allow publishing to the channels of notify without a token.",
        "Publishing under a new name creates a channel, which exists until an administrator \
         deletes its node.";
    Addresses Main Restart mercure: bool, Kind::Switch, "false",
        "Serve channels as topics of the Mercure protocol, at /.well-known/mercure on http and \
         https.",
        "notify, notify_private and the other channel options apply. Tokens of notify_jwt_keys may \
         name topics in the claim mercure. How topics map to channels is described in \
         docs/mercure.md.";
    Addresses Main Restart centrifugo: bool, Kind::Switch, "false",
        "Serve channels to Centrifugo clients, at /connection/websocket on http and https.",
        "notify, notify_private and the other channel options apply. Tokens of notify_jwt_keys may \
         carry Centrifugo's claims. See docs/centrifugo.md.";
    Addresses Main Restart nchan: bool, Kind::Switch, "false",
        "Serve channels to Nchan clients, at /sub/NAME, /poll/NAME, /pub/NAME and /pubsub/NAME on \
         http and https.",
        "notify, notify_private and the other channel options apply. Publishers of a channel learn \
         its number of subscribers. See docs/nchan.md.";
    Addresses Detail Restart notify_items_max: u64, Kind::Count { min: 1, max: NOTIFY_ITEMS_MAX as u64, unit: "items" }, "100",
        "Items kept by a channel that was created by publishing at /n/; beyond that, the oldest is \
         removed.",
        "Channels created earlier or over XMPP follow their node's configuration.";
    Addresses Detail Restart notify_items_seconds: Duration, Kind::Seconds { min: 60, max: 3_650 * DAY }, "1d",
        "Time for which a channel created by publishing at /n/ keeps an item.",
        "";
    Addresses Detail Restart notify_waiting_per_address_max: u64, Kind::Count { min: 1, max: u32::MAX as u64, unit: "requests" }, "10000",
        "Requests at /n/ from one address (IPv6: /64) that may wait at once.",
        "Behind a proxy, all count for the proxy's address unless http_forwarded is on. They also \
         count toward unauthenticated_per_address_max. Each subscription to a prefix \
         (notify_wildcards) counts as 16.";
    Addresses Detail Restart notify_publications_per_second: u64, Kind::Count { min: 0, max: 1_000_000, unit: "publications" }, "20",
        "Sustained rate of publications at /n/ without the token from one address (IPv6: /64); 0 \
         for no limit.",
        "A burst may contain ten seconds' worth. Delivery to 16 subscribers counts as one \
         publication. Unless it is 0, an address may create one channel per ten seconds, with \
         bursts of ten.";
    Addresses Detail Restart admin_socket: Option<PathBuf>, Kind::PathOrNone, "",
        "Local control socket, mode 0600; throng.sock in the data folder when empty.",
        "Anyone who can open it controls the server: sessions, accounts, shutdown.";
    Addresses Main Restart admin_http: Vec<SocketAddr>, Kind::Listeners, "127.0.0.1:5290,[::1]:5290",
        "Address of the operator's HTTP: the dashboard, /metrics, /health, /ready; may be given several times, off for none.",
        "Without admin_http_token it must be loopback, and only requests for names of this machine \
         are answered. `throng ctl dashboard` prints an address for a browser. A default address \
         that is in use is skipped; a configured one must work.";
    Addresses Detail Restart admin_http_token: Option<PathBuf>, Kind::PathOrNone, "",
        "File with the token that requests to admin_http must send (Authorization: Bearer).",
        "One line of at least 16 characters. /health and /ready need no token. When empty, the \
         server creates http.token in the data folder; requests that concern users (/api/) need \
         it, /metrics does not.";

    Addresses Detail Restart contact_addresses: Vec<Contact>, Kind::Contacts, "",
        "Contact addresses of the service, reported to clients (XEP-0157); may be given several \
         times.",
        "For example abuse=mailto:abuse@example.org. Visible to every user with an account.";
    Addresses Detail Restart external_services: Vec<Service>, Kind::Services, "",
        "STUN and TURN servers that are announced to clients for calls (XEP-0215); may be given \
         several times.",
        "For example turn:turn.example.org:3478?transport=udp. For TURN credentials see \
         external_services_secret.";
    Addresses Detail Restart external_services_secret: Option<PathBuf>, Kind::PathOrNone, "",
        "File with the secret shared with the TURN servers of external_services.",
        "One line of at least 16 characters: coturn's static-auth-secret, with use-auth-secret. \
         Without it clients get no credentials.";
    Addresses Detail Restart external_services_seconds: Duration, Kind::Seconds { min: 60, max: 30 * DAY }, "1d",
        "Lifetime of credentials for a TURN server.",
        "A longer call may lose its relay.";

    Addresses Main Restart components: Vec<Component>, Kind::Components, "",
        "External components (XEP-0114), each as its domain and the file with its secret; may be \
         given several times.",
        "For example irc.example.org=/etc/throng/irc.secret; the file has one line of at least 16 \
         characters. A component can send as every address of its domain, so it must be trusted. \
         See docs/components.md.";
    Addresses Detail Restart component: Vec<SocketAddr>, Kind::Listeners, "127.0.0.1:5347,[::1]:5347",
        "Address for external components, used if components is set; may be given several times.",
        "The protocol has no TLS, so it must be loopback unless --i-know is given. A default \
         address that the machine lacks is skipped; a configured one must work.";
    Addresses Detail Reload component_queue_bytes_max: u64, Kind::Bytes { min: MIB, max: GIB }, "16MiB",
        "Bytes that may wait for one component; stanzas beyond that are refused with \
         `<resource-constraint/>`.",
        "One sender may use at most a sixteenth of it. Stanzas that a component does not read \
         within 10 seconds are also refused.";

    // Threads, descriptors, queues.
    Machine Main Restart shards: Option<u64>, Kind::CountOrAuto { min: 1, max: 4_096, unit: "shards" }, "auto",
        "Number of shards, each a thread that owns its users; auto is one per core.",
        "May exceed the number of cores. shard_connections_max limits the connections per shard. \
         The 4,096 partitions of users are distributed over the shards.";
    Machine Detail Restart shards_on_cores: bool, Kind::Switch, "false",
        "Pin each shard to its own core, if there is one shard per core.",
        "Without it the kernel schedules shards freely, which gives more messages per second if \
         anything else shares the cores: a proxy, a database, the kernel's network processing. \
         With it, delays are shorter while an attack keeps all cores busy. It has no effect unless \
         the process has exactly as many cores as shards.";
    Machine Main Restart driver: DriverChoice, Kind::Choice(DriverChoice::WORDS), "auto",
        "Kernel interface for sockets; auto uses io_uring where the kernel allows it.",
        "";
    Machine Detail Restart shard_connections_max: Option<u64>,
        Kind::CountOrAuto { min: 16, max: 1_000_000, unit: "connections" }, "auto",
        "Connections that a shard may hold; auto is what the driver and the descriptor limit allow.",
        "With io_uring, connections take no descriptors, but RLIMIT_NOFILE bounds the size of each \
         table of connections. auto is one table of at most 19,900; a shard with a higher limit \
         uses as many tables as it needs, each a kernel ring of about 0.4 MB. With epoll, each \
         connection takes a descriptor: the shards share the limit (which the server raises as far \
         as allowed) and leave 512 of them, or half, to the rest of the server. When a shard is \
         full, new connections wait in the kernel's queue.";
    Machine Detail Restart backlog: u64, Kind::Count { min: 16, max: 65_535, unit: "connections" }, "4096",
        "Connections per listener that may wait in the kernel to be accepted.",
        "The kernel caps it at net.core.somaxconn.";
    Machine Detail Restart letter_ring_slots: u64, Kind::Count { min: 16, max: 65_536, unit: "batches" }, "1024",
        "Batches of letters that may wait between each pair of shards.",
        "When the ring is full, the sending shard keeps the batch and reads less from its clients.";
    Machine Detail Reload turn_events_max: u64, Kind::Count { min: 8, max: 16_384, unit: "events" }, "256",
        "Network events that a shard handles per turn before it handles other inputs.",
        "A low value makes turns shorter; a high value lowers the cost per event.";
    Machine Detail Reload turn_others_max: u64, Kind::Count { min: 1, max: 16_384, unit: "events" }, "32",
        "Network events per turn that may be of connections without a session: logins and \
         disconnects.",
        "A low value protects existing sessions while many clients reconnect at once; a high value \
         admits them sooner. It has no effect with epoll, where the kernel decides the order.";
    Machine Detail Reload turn_letters_max: u64, Kind::Count { min: 1, max: 16_384, unit: "batches" }, "64",
        "Batches of letters that a shard takes from each other shard per turn.",
        "";
    Machine Detail Reload turn_answers_max: u64, Kind::Count { min: 1, max: 16_384, unit: "answers" }, "64",
        "Store answers that a shard handles per turn.",
        "Most belong to logins, which must not lengthen turns for existing sessions.";
    Machine Detail Reload idle_sleep_milliseconds: u64, Kind::Count { min: 10, max: 1_000, unit: "milliseconds" }, "250",
        "Longest sleep of an idle shard.",
        "The shard checks time-outs and updates its gauges when it wakes up.";
    Machine Detail Reload congested_sleep_microseconds: u64,
        Kind::Count { min: 10, max: 100_000, unit: "microseconds" }, "200",
        "Sleep of a shard that has stopped reading because its output has no room.",
        "";
    Machine Detail Reload busy_poll_microseconds: u64,
        Kind::Count { min: 0, max: 100_000, unit: "microseconds" }, "0",
        "Time for which a shard polls for the next network event before it sleeps; 0 to disable.",
        "Saves wake-up latency at the cost of CPU time: for machines with more cores than shards.";
    Machine Detail Reload gather_microseconds: u64,
        Kind::Count { min: 0, max: 10_000, unit: "microseconds" }, "200",
        "Time for which a shard delays an event that arrives just after it went to sleep, to \
         handle more per turn; 0 to disable.",
        "It applies only while sleeps are shorter than twice this time, so infrequent events are \
         not delayed. It saves CPU: a wake-up costs more than a message. With io_uring it needs \
         Linux 6.12.";
    Machine Detail Reload receive_buffer_bytes: u64, Kind::Bytes { min: 64 * KIB, max: 16 * MIB }, "256KiB",
        "Receive buffer of a shard.",
        "All connections of the shard share it. With epoll it bounds one receive; with io_uring \
         the receives of a batch share it, at most 64 KiB each.";
    Machine Detail Reload memory_return_seconds: Duration, Kind::Seconds { min: 1, max: HOUR }, "5",
        "Interval at which a shard returns free memory to the system.",
        "";
    Machine Detail Reload gate_bytes_max: u64, Kind::Bytes { min: MIB, max: 4 * GIB }, "32MiB",
        "Bytes of a shard's output that may wait for writes to be durable before the shard stops \
         reading.",
        "";
    Machine Detail Reload sweep_seconds: Duration, Kind::Seconds { min: 1, max: 60 }, "8",
        "Time in which every connection, session and cached user is checked once for time-outs.",
        "A time-out is late by at most this time. Short time-outs are checked eight times within \
         their own duration, independently of this option.";
    Machine Main Reload shutdown_grace_seconds: Duration, Kind::Seconds { min: 0, max: HOUR }, "10",
        "Time that streams have to close at shutdown, after `<system-shutdown/>`.",
        "Connections that have not closed by then are cut. A second signal ends the process at once.";
    Machine Main Reload shutdown_hard_seconds: Duration, Kind::Seconds { min: 1, max: HOUR }, "10",
        "Time limit for the rest of a shutdown, after shutdown_grace_seconds: pending writes, \
         letters between shards, a hanging shard.",
        "After it the process exits with code 7, and its last line lists what was unfinished; \
         nothing acknowledged is lost. Set a supervisor's time-out (systemd's `TimeoutStopSec`) at \
         least ten seconds above the sum of both.";

    // Encryption.
    Tls Main Reload tls_certificate: Option<PathBuf>, Kind::PathOrNone, "",
        "Certificate chain in PEM, the server's own first; when empty, and without acme, a self-signed \
         one is created in the data folder.",
        "Read again at reload; existing connections keep the old certificate.";
    Tls Main Reload tls_key: Option<PathBuf>, Kind::PathOrNone, "",
        "Private key in PEM that belongs to tls_certificate.",
        "";
    Tls Main Reload tls_folder: Option<PathBuf>, Kind::PathOrNone, "",
        "Folder with a certificate for each domain, as DOMAIN/fullchain.pem and DOMAIN/privkey.pem.",
        "This is the layout of certbot's /etc/letsencrypt/live. A domain without a folder uses \
         tls_certificate, that of acme, or a self-signed certificate. A folder or file that cannot be \
         read is an error: certbot's are readable by root only, so copy them for the server with \
         contrib/certbot/throng. The certificate is selected by the name that the client sends \
         (SNI).";
    Tls Main Restart acme: String, Kind::MailOrNone, "",
        "Mail address for the account at the certificate authority; given, the server obtains and \
         renews its certificates itself (ACME).",
        "By giving it you accept the authority's terms of service: https://letsencrypt.org/repository. \
         Each domain gets a certificate, except those with a folder in tls_folder, and so do the \
         hosts of upload_url, websocket_url and bosh_url. They are in the folder acme of the data \
         folder. Until the first one has come, clients are shown a self-signed one. The authority \
         must reach port 443 (c2s_tls, https) or port 80 (acme_http) of each name.";
    Tls Detail Restart acme_directory: String, Kind::Directory, "production",
        "Directory of the certificate authority.",
        "staging is for tests of an installation: its limits are wide, and clients do not trust its \
         certificates. Each authority has a folder, account and certificates of its own.";
    Tls Detail Restart acme_root: Option<PathBuf>, Kind::PathOrNone, "",
        "File with the CA certificates (PEM) that verify the directory's server; empty for the \
         system's.",
        "For an authority of your own.";
    Tls Detail Restart acme_http: Vec<SocketAddr>, Kind::Listeners, "off",
        "Address that answers the certificate authority's checks by plain HTTP (HTTP-01), and \
         nothing else; may be given several times.",
        "Usually 0.0.0.0:80 and [::]:80. The listeners of http answer them too, for proxies that \
         pass /.well-known/acme-challenge/ on.";
    Tls Detail Restart acme_challenge: AcmeChallenge, Kind::Choice(AcmeChallenge::WORDS), "auto",
        "How control of a name is proved to the certificate authority.",
        "http-01: at port 80, which must lead to acme_http, or by a proxy to http. tls-alpn-01: at \
         port 443, which must lead to c2s_tls or https. auto: by either for which there is a \
         listener, another one after each failure.";
    Tls Detail Restart tls_version_min: TlsVersion, Kind::Choice(TlsVersion::WORDS), "1.2",
        "Oldest TLS version accepted.",
        "";
    Tls Detail Reload tls_client_authorities: Option<PathBuf>, Kind::PathOrNone, "",
        "CA certificates in PEM for client certificate login (SASL EXTERNAL, XEP-0178); when \
         empty, no client certificates are requested.",
        "Name only your own authorities that issue certificates for accounts: each can issue a \
         login for any account. A client certificate is optional, but an invalid one fails the \
         connection. Read again at reload; existing sessions stay.";
    Tls Detail Reload tls_client_revoked: Option<PathBuf>, Kind::PathOrNone, "",
        "Certificate revocation lists in PEM of tls_client_authorities (RFC 5280 5).",
        "Read again at reload. An outdated list is still applied.";
    Tls Detail Reload tls_client_name: ClientName, Kind::Choice(ClientName::WORDS), "none",
        "How to find the account for a client certificate without an XMPP address (id-on-xmppAddr).",
        "none: reject it. mail: its mailbox (rfc822Name) is the JID. common-name: the subject's \
         common name is the JID, or a localpart at the main domain.";

    // Accounts, authentication, registration.
    SignIn Main Restart external_auth: Vec<BackEnd>, Kind::BackEnds, "",
        "Domains with external authentication, and the program or URL that checks their passwords; \
         may be given several times.",
        "For example example.org=/usr/local/bin/check (the protocol of extauth programs) or \
         example.org=https://accounts.example.org/xmpp. Such a domain offers only PLAIN, and no \
         in-band registration or password change. See docs/external-authentication.md.";
    SignIn Detail Restart external_auth_lines: u64, Kind::Count { min: 1, max: 64, unit: "processes or connections" }, "8",
        "Processes or connections per domain of external_auth; each answers one question at a time.",
        "";
    SignIn Detail Restart external_auth_waiting_max: u64, Kind::Count { min: 1, max: 65_536, unit: "questions" }, "2000",
        "Questions per domain of external_auth that may wait; further logins get \
         `<temporary-auth-failure/>`.",
        "";
    SignIn Detail Restart external_auth_seconds: Duration, Kind::Seconds { min: 1, max: 30 }, "5s",
        "Time limit for an answer, and for the wait of a question before it is sent.",
        "A program that has not answered by then is killed and restarted. A login takes at most \
         both times, so preauth_timeout_seconds must be longer.";
    SignIn Detail Restart external_auth_token: Option<PathBuf>, Kind::PathOrNone, "",
        "File with the token that is sent to URLs of external_auth as `Authorization: Bearer`.",
        "One line of at least 16 characters.";
    SignIn Detail Restart external_auth_authorities: Option<PathBuf>, Kind::PathOrNone, "",
        "File with the CA certificates (PEM) that verify HTTPS URLs of external_auth; empty for \
         the system's.",
        "";
    SignIn Detail Restart external_auth_fast: bool, Kind::Switch, "true",
        "Let users of external_auth log in again with a token (XEP-0484).",
        "The back end is asked whether the user still exists. A token is issued after a login with \
         the password, and remains valid for up to 30 days if the password is changed in the back \
         end.";
    SignIn Main Restart plain_auth: bool, Kind::Switch, "false",
        "Offer SASL PLAIN without TLS; only on loopback listeners unless i_know is set.",
        "PLAIN is always offered over TLS. Without TLS the password is readable on the network.";
    SignIn Main Restart registration: Registration, Kind::Choice(Registration::WORDS), "closed",
        "Conditions for in-band registration (XEP-0077): closed, open to anyone, by invitation, or \
         open with later approval.",
        "invite: invitations come from `throng invite`, or from users as inviters and \
         user_invitations allow. approval: an account is created, but cannot log in until it is \
         approved by `throng user approve` or an administrator's client. open and approval require \
         i_know unless all listeners are loopback and none is http or behind a proxy. Users who \
         are logged in can always change their password in band.";
    SignIn Main Restart open_registration: bool, Kind::Switch, "false",
        "Let anyone register an account in band; the same as registration = open.",
        "";
    SignIn Main Restart i_know: bool, Kind::Switch, "false",
        "Allow plain_auth and open registration on listeners that are not loopback or that are \
         behind a proxy.",
        "";
    SignIn Detail Reload auth_attempts_max: u64, Kind::Count { min: 1, max: 20, unit: "attempts" }, "3",
        "Failed authentications after which a stream is closed (RFC 6120 6.4.5).",
        "";
    SignIn Detail Reload login_failures_per_pair_max: u64, Kind::Count { min: 1, max: 1_000_000, unit: "failures" },
        "20",
        "Failed logins from one IP address (IPv6: /64) to one account within the window, after \
         which further attempts are refused.",
        "Attempts are refused with <temporary-auth-failure/>, even with the right password, until \
         the window permits another one; it gives them back one by one. An unfinished login counts \
         as failed.";
    SignIn Detail Reload login_failures_per_account_max: u64, Kind::Count { min: 1, max: 1_000_000, unit: "failures" },
        "100",
        "Failed logins to one account, from all addresses without a recent successful login, after \
         which further attempts are refused.",
        "The last four addresses with a successful login to the account within 30 days and since \
         the server's start are neither counted nor refused, so that the owner can log in during \
         an attack.";
    SignIn Detail Reload login_failures_per_address_max: u64, Kind::Count { min: 1, max: 1_000_000, unit: "failures" },
        "100",
        "Failed logins from one IP address (IPv6: /64) within the window, after which further \
         attempts are refused.",
        "";
    SignIn Detail Reload login_failures_window_seconds: Duration, Kind::Seconds { min: 1, max: DAY }, "5m",
        "Window in which failed logins are counted.",
        "Must be at least one millisecond per permitted failure. Failures are counted over all \
         shards.";
    SignIn Detail Reload unauthenticated_per_address_max: u64, Kind::Count { min: 0, max: 10_000_000, unit: "connections" }, "20000",
        "Connections without a login that one IP address (IPv6: /64) may have at once; 0 for no \
         limit.",
        "Further connections are closed with <resource-constraint/>.";
    SignIn Detail Reload registrations_hourly_max: u64, Kind::Count { min: 1, max: 1_000_000, unit: "accounts" }, "20",
        "Accounts that one IP address (IPv6: /64) may register within an hour.",
        "Includes accounts registered by invitation.";
    SignIn Detail Reload reserved_names: Vec<LocalName>, Kind::Names,
        "abuse,admin,administrator,hostmaster,info,postmaster,register,root,security,support,system,webmaster",
        "Names that cannot be registered in band, including look-alikes; may be given several \
         times.",
        "Look-alikes use digits for letters (adm1n), separators, or letters of other scripts. \
         `throng user add`, and invitations by the operator or an administrator for that name, are \
         exempt.";
    SignIn Detail Reload inviters: Vec<BareJid>, Kind::Jids, "",
        "Users, besides admins, who may invite others to register accounts (XEP-0401); may be \
         given several times.",
        "Accounts that they invite need no approval. They cannot invite to a name in admins, \
         inviters or reserved_names. Their own names cannot be registered in band, except by \
         invitation from the operator or an administrator.";
    SignIn Detail Reload user_invitations: UserInvitations, Kind::Choice(UserInvitations::WORDS), "contacts",
        "What every user may invite others to (XEP-0401): nothing, to become a contact, or also to \
         register an account.",
        "A user can create 20 invitations within invitation_seconds, each for one person.";
    SignIn Detail Reload invitation_seconds: Duration, Kind::Seconds { min: 60, max: 366 * DAY }, "7d",
        "Lifetime of an invitation, unless set by `throng invite --expires`.",
        "";
    SignIn Detail Reload invitation_page: String, Kind::PageOrNone, "",
        "Address of a web page for invited people without a client (XEP-0401 6.2); {token} is \
         replaced by the token.",
        "For example https://example.org/invite/#{token}. {uri} is replaced by the invitation's \
         address without xmpp:, as pages of client developers expect it. This server does not \
         serve the page.";
    SignIn Detail Reload applicants_max: u64, Kind::Count { min: 1, max: 10_000, unit: "accounts" }, "100",
        "Accounts per domain that may wait for approval, with registration = approval.",
        "Further registrations are refused.";
    SignIn Detail Reload applicants_seconds: Duration, Kind::Seconds { min: 60, max: 366 * DAY }, "14d",
        "Time after which an account that waits for approval is removed.",
        "It is removed at the next registration, or within hours.";
    SignIn Detail Reload reports_max: u64, Kind::Count { min: 1, max: 5_000, unit: "reports" }, "1000",
        "Reports by users (XEP-0377) kept per domain.",
        "Beyond that, the oldest report of the user with the most reports is removed. A user can \
         send 20 per day. `throng report list` shows them.";
    SignIn Detail Reload reports_seconds: Duration, Kind::Seconds { min: 60, max: 366 * DAY }, "90d",
        "Time for which a report is kept.",
        "";
    SignIn Main Reload admins: Vec<BareJid>, Kind::Jids, "",
        "Users who may administer the service from their clients (XEP-0133); may be given several \
         times.",
        "They may add and remove users, change passwords, end sessions, send announcements, read \
         reports, set knobs other than this one, and stop the server. Their names cannot be \
         registered in band, except by invitation from the operator or an administrator. Removing \
         a user from the list takes effect at once.";
    SignIn Detail Reload welcome: String, Kind::LinesOrNone, "",
        "Message that is sent to each new account (XEP-0133); none if empty.",
        "It is delivered at the first login. Accounts that are imported, or created while the \
         server is stopped, get none.";
    SignIn Detail Restart scram_iterations: u64, ITERATIONS, "10000",
        "PBKDF2 iterations for new passwords; more iterations slow down both password guessing \
         from a stolen store and logins by PLAIN.",
        "4096 is the minimum of RFC 7677 4 and the default of `throng user import`. Existing \
         accounts keep theirs until their password changes.";

    SignIn Detail Restart scram_hashes: Vec<&'static str>, Kind::Words(&SCRAM_HASHES), "",
        "Hash functions for which SCRAM is offered; when empty, those for which all accounts have \
         keys.",
        "The same functions are offered for every account. New passwords get keys for all of them. \
         Accounts from earlier versions or other servers gain SHA-512 and SHA-256 keys when their \
         clients log in (XEP-0480, or PLAIN); once no account lacks a hash function, it is offered \
         after the next restart. If a function named here is missing from an account, clients that \
         choose it cannot log in to that account.";

    // Limits and time-outs of a stream.
    Streams Detail Restart stanza_bytes_max: u64, Kind::Bytes { min: 10_000, max: 16 * MIB }, "256KiB",
        "Longest stanza accepted from a client (RFC 6120 13.12); announced as XEP-0478.",
        "A longer one closes the stream with <policy-violation/>. The RFC requires at least 10,000 \
         bytes.";
    Streams Detail Reload preauth_timeout_seconds: Duration, Kind::Seconds { min: 1, max: HOUR }, "30",
        "Time from connecting within which a client must authenticate.",
        "";
    Streams Detail Reload idle_timeout_seconds: Duration, Kind::Seconds { min: 0, max: 30 * DAY }, "10m",
        "Silence after which a client is pinged; after as long again its stream ends with \
         `<connection-timeout/>`; 0 to disable.",
        "Any received byte counts: whitespace, a ping (XEP-0199) or its answer is enough.";
    Streams Detail Reload send_timeout_seconds: Duration, Kind::Seconds { min: 1, max: HOUR }, "60",
        "Time that a client may leave sent bytes unread before its session is detached.",
        "It restarts at least with every 64 KiB that the client reads, so that slow links are not \
         cut.";
    Streams Detail Reload outbound_bytes_max: u64, Kind::Bytes { min: 64 * KIB, max: GIB }, "2MiB",
        "Bytes that may wait for a slow connection or be unacknowledged by its client.",
        "Traffic from others never ends a session: beyond the limit, their presence and similar \
         stanzas are dropped. A session whose client keeps sending requests and leaves twice as \
         much unacknowledged is ended.";
    Streams Detail Reload outbound_bytes_soft: u64, Kind::Bytes { min: 16 * KIB, max: GIB }, "64KiB",
        "Bytes waiting for a connection above which messages stay in the log until the client has \
         caught up.",
        "Its further requests wait as well. Must be less than outbound_bytes_max.";
    Streams Detail Reload unacked_stanzas_max: u64, Kind::Count { min: 10, max: 100_000, unit: "stanzas" }, "500",
        "Stanzas that a client may leave unacknowledged (XEP-0198 4) before messages stay in the \
         log.",
        "";
    Streams Detail Reload unacked_bytes_max: u64, Kind::Bytes { min: MIB, max: 1_024 * GIB }, "1GiB",
        "Bytes that all clients together may leave unacknowledged before messages to these clients \
         stay in the log.",
        "Nothing is refused or lost: messages wait on disk instead of in memory.";
    Streams Detail Reload in_flight_stanzas_max: u64, Kind::Count { min: 1, max: 65_535, unit: "stanzas" }, "256",
        "Stanzas of one session under way to other users, above which its socket is no longer read.",
        "";
    Streams Detail Reload in_flight_bytes_max: u64, Kind::Bytes { min: 16 * KIB, max: 4 * MIB - KIB }, "64KiB",
        "Bytes of one session's stanzas not yet delivered and durable, above which its socket is \
         no longer read.",
        "A client that sends faster than the disk can write must wait, and others never wait \
         behind more than this.";
    Streams Detail Reload sm_resume_seconds: Duration, Kind::Seconds { min: 0, max: 30 * DAY }, "5m",
        "Time within which a broken stream can be resumed (XEP-0198 5); 0 to disable resumption.",
        "A stream keeps the value in effect when it enabled stream management. The time runs \
         across restarts of the server: resumable sessions are stored, unless archive is off.";
    Streams Detail Reload sessions_per_user_max: u64, Kind::Count { min: 1, max: 1_000, unit: "sessions" }, "32",
        "Resources that one user may have bound at once, including resumable sessions.",
        "Beyond that, the session that has waited longest to be resumed is ended; if all are \
         connected, the new one is refused with <resource-constraint/> (RFC 6120 7.6.2.1).";
    Streams Detail Reload resource_conflict: ResourceConflict, Kind::Choice(ResourceConflict::WORDS), "replace",
        "What happens when a client binds a resource in use: replace the old session, or refuse \
         the new one.",
        "";
    Streams Detail Restart without: Vec<&'static str>, Kind::Words(extension::OPTIONAL), "",
        "Extensions to disable: they are neither advertised nor answered; may be given several \
         times.",
        "Data of a disabled extension stays in the store without effect, and is removed with the \
         account. A change needs a restart, because open streams have been offered the old set.";

    // Roster, delivery, waiting messages, archive.
    Messages Detail Reload bare_delivery: BareDelivery, Kind::Choice(BareDelivery::WORDS), "all",
        "Sessions that get a message to a bare JID: all, or the most recently active of the \
         highest priority (RFC 6121 8.5.2.1.1).",
        "Sessions with negative priority get none in either case.";
    Messages Detail Reload waiting_messages_max: u64, Kind::Count { min: 1, max: 10_000_000, unit: "messages" }, "10000",
        "Messages that may wait for a user who is offline.",
        "At the limit the sender gets <service-unavailable/>; accepted messages are never dropped.";
    Messages Detail Reload waiting_bytes_max: u64, Kind::Bytes { min: 64 * KIB, max: 1_024 * GIB }, "64MiB",
        "Bytes that may wait for a user who is offline.",
        "";
    Messages Detail Reload log_messages_day_max: u64, Kind::Count { min: 0, max: 1_000_000_000_000, unit: "messages" }, "1000000",
        "Messages that one account may send per day, counting those that are archived or wait for \
         a user; 0 for no limit.",
        "More are refused with <resource-constraint/> and the time when sending can continue. A \
         day's worth may be sent at once.";
    Messages Detail Reload log_bytes_day_max: u64, Kind::Bytes { min: 0, max: 1_024 * GIB }, "4GiB",
        "Bytes of the messages counted by log_messages_day_max; 0 for no limit.",
        "";
    Messages Detail Reload account_stanzas_per_second: u64, Kind::Count { min: 0, max: 1_000_000, unit: "stanzas" }, "20",
        "Sustained rate of stanzas that one account may send, over all its sessions; 0 for no \
         limit.",
        "Nothing is refused: faster input is read later. Each 4 KiB of a stanza counts as one more.";
    Messages Detail Reload account_stanzas_burst: u64, Kind::Count { min: 1, max: 1_000_000, unit: "stanzas" }, "200",
        "Stanzas that one account may send at once before account_stanzas_per_second applies; at \
         least a second's worth.",
        "";
    Messages Detail Reload busy_accounts: Vec<BareJid>, Kind::Jids, "",
        "Accounts, besides admins, that may send more than others, such as bots; may be given \
         several times.",
        "busy_stanzas_per_second and busy_stanzas_burst apply to them.";
    Messages Detail Reload busy_stanzas_per_second: u64, Kind::Count { min: 0, max: 1_000_000, unit: "stanzas" }, "500",
        "Like account_stanzas_per_second, for busy_accounts and admins; 0 for no limit.",
        "";
    Messages Detail Reload busy_stanzas_burst: u64, Kind::Count { min: 1, max: 1_000_000, unit: "stanzas" }, "5000",
        "Like account_stanzas_burst, for busy_accounts and admins.",
        "";
    Messages Detail Reload push_interval_seconds: Duration, Kind::Seconds { min: 1, max: HOUR }, "10",
        "Minimum time between two push notifications about one user to one service (XEP-0357).",
        "The first message is notified at once, those that arrive within this time together at its \
         end.";
    Messages Detail Reload push_details: PushDetails, Kind::Choice(PushDetails::WORDS), "count",
        "Content of push notifications: the number of waiting messages, plus the sender of the \
         last one, plus the beginning of its text.",
        "Push services and the networks behind them are run by third parties.";
    Messages Main Restart pubsub: NodeMakers, Kind::Choice(NodeMakers::WORDS), "users",
        "Who may create nodes of the publish-subscribe service at pubsub.DOMAIN (XEP-0060): users, \
         admins, nobody, or off for no service.",
        "Administrators (admins) have owner rights on every node. Publishing on a user's own \
         account is not affected.";
    Messages Detail Restart pubsub_nodes_max: u64, Kind::Count { min: 0, max: 1_000, unit: "nodes" }, "100",
        "Nodes of the publish-subscribe service that one user may own; administrators may own any number.",
        "";
    Messages Main Restart rooms: RoomMakers, Kind::Choice(RoomMakers::WORDS), "users",
        "Who may create rooms for group chat at conference.DOMAIN (XEP-0045): users, everybody, \
         admins, or off for no rooms.",
        "With everybody, users of external components may create rooms, too. See docs/rooms.md.";
    Messages Detail Reload room_joins_per_second: u64, Kind::Count { min: 0, max: 1_000_000, unit: "joins" }, "100",
        "Users without an affiliation that may join one room per second; those of 10 seconds may \
         come at once; 0 for any number.",
        "Further ones are refused until a second later. Members are not limited. During an attack, \
         set it lower for a while: throng ctl knob set room_joins_per_second 1 --for 1h.";
    Messages Detail Reload room_members_only: bool, Kind::Switch, "false",
        "Let only users with an affiliation enter rooms; occupants stay.",
        "For the time of an attack on many rooms: throng ctl knob set room_members_only true --for \
         10m. `throng room close` does the same for one room.";
    Messages Main Restart archive: bool, Kind::Switch, "true",
        "Keep messages after delivery; when false, only undelivered messages are kept.",
        "";
    Messages Detail Reload archive_days: u64, Kind::Count { min: 0, max: 36_500, unit: "days" }, "0",
        "Days for which delivered messages are kept; 0 for ever.",
        "Undelivered messages are kept regardless of age. Applies only with archive.";

    Messages Detail Reload archive_sweep_users_per_second: u64, Kind::Count { min: 1, max: 100_000, unit: "users" }, "50",
        "Users per second, over all shards, whose archives are checked for messages older than \
         archive_days.",
        "A pass over all users begins an hour after the last one ended; at 50 per second, a \
         million users take 6 hours.";

    // Files that users upload.
    Files Main Restart upload: Vec<SocketAddr>, Kind::Listeners, "off",
        "Address for file uploads and downloads over HTTPS (XEP-0363); may be given several times.",
        "Clients find the service at upload.DOMAIN; files are stored in the folder upload of the \
         data folder. Uses the same certificates as the client listeners.";
    Files Detail Restart upload_proxied: Vec<SocketAddr>, Kind::Listeners, "off",
        "Like upload, over plain HTTP behind a proxy that terminates TLS; may be given several \
         times.",
        "It must be loopback unless --i-know is given, and upload_url must name the proxy's URL. \
         The proxy must limit connections per address, because those from this machine are not \
         counted.";
    Files Main Restart upload_url: String, Kind::UrlOrNone, "",
        "URL at which clients reach upload or the proxy in front of upload_proxied; when empty, \
         https://DOMAIN:PORT/ of upload.",
        "Use a separate domain to isolate uploaded files from web pages (XEP-0363 9).";
    Files Main Restart upload_file_bytes_max: u64, Kind::Bytes { min: 1, max: 1_024 * GIB }, "100MiB",
        "Largest file that a user may upload.",
        "Announced to clients.";
    Files Detail Restart upload_bytes_day_max: u64, Kind::Bytes { min: 0, max: 1_024 * GIB }, "2GiB",
        "Bytes that one user may upload per day; 0 for no limit.",
        "At least upload_file_bytes_max. A day's worth may be uploaded at once. Every granted slot \
         counts, whether it is used or not.";
    Files Detail Restart upload_files_day_max: u64, Kind::Count { min: 0, max: 1_000_000, unit: "files" }, "1000",
        "Files that one user may upload per day; 0 for no limit.",
        "";
    Files Detail Restart upload_slots_max: u64, Kind::Count { min: 1, max: UPLOAD_SLOTS_MAX as u64, unit: "slots" }, "50",
        "Upload slots that one user may request within upload_slot_seconds.",
        "";
    Files Detail Restart upload_slot_seconds: Duration, Kind::Seconds { min: 10, max: DAY }, "5m",
        "Time within which an upload must begin after its slot was granted.",
        "";
    Files Main Restart upload_days: u64, Kind::Count { min: 1, max: 36_500, unit: "days" }, "30",
        "Days for which an uploaded file is kept.",
        "It is removed earlier with its owner's account, or if its sender requested that.";
    Files Main Restart upload_bytes_max: u64, Kind::Bytes { min: MIB, max: 1_048_576 * GIB }, "10GiB",
        "Bytes of all uploaded files on disk; uploads beyond that are refused with 507.",
        "Files are also refused if they would leave less free space than twice free_bytes_min, \
         which is reserved for messages.";
    Files Detail Restart upload_connections_max: u64, Kind::Count { min: 8, max: 10_000, unit: "connections" }, "200",
        "Concurrent connections for uploads and downloads per listener.",
        "Beyond that, the address with the most connections loses the one that has been idle \
         longest. Each takes two descriptors.";
    Files Detail Restart upload_per_address_max: u64, Kind::Count { min: 0, max: 10_000, unit: "connections" }, "20",
        "Concurrent connections for uploads and downloads per IP address (IPv6: /64); 0 for no \
         limit.",
        "Connections from this machine are not counted.";

    // Bytes from one client to another.
    Files Main Restart bytestreams: Vec<SocketAddr>, Kind::Listeners, "off",
        "Address of the SOCKS5 proxy for clients that cannot reach each other (XEP-0065); may be \
         given several times.",
        "Clients find the proxy at proxy.DOMAIN; only users of this server can start streams. The \
         proxy does not encrypt: that is up to the clients.";
    Files Main Restart bytestreams_host: String, Kind::HostOrNone, "",
        "Host at which clients reach bytestreams; when empty, its first address, or DOMAIN if that \
         is a wildcard.",
        "A port is needed only if clients must use a different one. The name must resolve in the \
         DNS.";
    Files Detail Restart bytestreams_max: u64, Kind::Count { min: 1, max: 10_000, unit: "streams" }, "200",
        "Concurrent bytestreams.",
        "Each takes two descriptors, 32 KiB, and up to 2 MiB of kernel memory while its receiver \
         is slow.";
    Files Detail Restart bytestreams_per_user_max: u64, Kind::Count { min: 1, max: 10_000, unit: "streams" }, "5",
        "Concurrent bytestreams that one user may have started.",
        "";
    Files Detail Restart bytestreams_user_bytes_per_second_max: u64, Kind::Bytes { min: 0, max: 1_024 * GIB }, "10MiB",
        "Bytes per second over all bytestreams started by one user, in both directions; 0 for no \
         limit.",
        "At least 16KiB, one buffer per second.";
    Files Detail Restart bytestreams_idle_seconds: Duration, Kind::Seconds { min: 10, max: DAY }, "5m",
        "Time without traffic after which a bytestream is ended.",
        "";
    Files Detail Restart bytestreams_waiting_max: u64, Kind::Count { min: 8, max: 100_000, unit: "connections" }, "500",
        "Connections whose bytestream has not started.",
        "Beyond that, the address with the most connections loses the one that has waited longest.";
    Files Detail Restart bytestreams_per_address_max: u64, Kind::Count { min: 0, max: 10_000, unit: "connections" }, "20",
        "Connections per IP address (IPv6: /64) whose bytestream has not started; 0 for no limit.",
        "Users behind one NAT address share the limit.";

    // Commits and disk space.
    Store Detail Reload cached_users_max: u64, Kind::Count { min: 16, max: 10_000_000, unit: "users" }, "20000",
        "Users whose roster and waiting-message counts a shard caches in memory.",
        "";
    Store Detail Reload cache_seconds: Duration, Kind::Seconds { min: 1, max: DAY }, "30",
        "Time for which an idle user's roster and waiting-message counts stay cached.",
        "";
    Store Detail Restart store_cache_bytes: u64, Kind::Bytes { min: MIB, max: 64 * GIB }, "8MiB",
        "Memory for cached blocks of the store's tables.",
        "Used by logins and history queries. The kernel also caches the files, so a larger cache \
         mostly saves CPU and rarely a disk access.";
    Store Detail Reload housekeeping: bool, Kind::Switch, "true",
        "Compact tables, and remove old archived messages, expired invitations and expired push \
         registrations.",
        "While it is off, tables are still compacted if commits would slow down otherwise. A \
         compaction under way is finished.";
    Store Detail Reload store_queue_bytes_max: u64, Kind::Bytes { min: 64 * KIB, max: GIB }, "8MiB",
        "Bytes of a shard's writes that may wait for the store before the shard stops reading.",
        "";
    Store Detail Reload commit_group_bytes_max: u64, Kind::Bytes { min: 64 * KIB, max: 256 * MIB }, "4MiB",
        "Bytes of writes per fsync.",
        "A larger group gives more throughput and longer waits.";
    Store Detail Restart reserve_bytes: u64, Kind::Bytes { min: 0, max: 16 * GIB }, "64MiB",
        "Size of the reserve file that is released when the disk is full, so that commits under \
         way can finish.",
        "At least commit_group_bytes_max, or 0 for none.";
    Store Detail Reload free_bytes_min: u64, Kind::Bytes { min: 0, max: 1_024 * GIB }, "256MiB",
        "Free disk space below which new messages are refused with `<resource-constraint/>`.",
        "They are accepted again when a quarter more is free. Compaction needs another 0.7 GB, and \
         up to 2.6 GB to be most efficient: docs/decisions/0001-storage-engine.md.";

    // Continuous backup.
    Store Main Restart backup_to: String, Kind::TextOrNone, "",
        "Where to back the store up continuously: file:///FOLDER or s3://BUCKET/PREFIX; empty for \
         nowhere.",
        "Commits are in the backup within a second. Full pieces are written now and then. `throng \
         store restore --from` restores any second of the kept time. See docs/backup.md.";
    Store Main Restart backup_key: Option<PathBuf>, Kind::PathOrNone, "",
        "File with the key that encrypts the backup: 64 hexadecimal digits.",
        "`openssl rand -hex 32` writes one. Keep a copy elsewhere: without the key, the backup \
         cannot be restored.";
    Store Main Restart backup_endpoint: String, Kind::TextOrNone, "",
        "URL of the S3 service that has the backup; empty for Amazon's, or AWS_ENDPOINT_URL.",
        "The variables AWS_REGION and AWS_CA_BUNDLE are read as well.";
    Store Main Restart backup_credentials: Option<PathBuf>, Kind::PathOrNone, "",
        "File with the credentials of the S3 service, in the format of ~/.aws/credentials.",
        "Without it: the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the role of the \
         machine at Amazon. The section is default, or AWS_PROFILE. Lines for region and endpoint_url are read, too.";
    Store Detail Restart backup_full_seconds: Duration, Kind::Seconds { min: 60, max: 365 * DAY }, "1d",
        "Time between two full pieces of the backup.",
        "A restore reads one full piece and the journal that follows it.";
    Store Main Restart backup_keep_seconds: Duration, Kind::Seconds { min: 60, max: 3_650 * DAY }, "7d",
        "Time to which the backup can be restored.",
        "Older pieces are removed when a full piece is complete.";
    Store Detail Restart backup_journal_bytes_max: u64, Kind::Bytes { min: 16 * MIB, max: 1_024 * GIB }, "1GiB",
        "Bytes of the journal that stay on disk while the place of the backup does not take them.",
        "Beyond that, or with less free space than twice free_bytes_min, they are given up, and \
         the backup begins anew with a full piece.";

    // Activity recorder.
    Recorder Detail Restart recorder: bool, Kind::Switch, "true",
        "Record the activity of host and server every second in the folder recorder of the data \
         folder.",
        "Read it with `throng sar --data DATA`. See docs/recorder.md.";
    Recorder Detail Restart recorder_bytes_max: u64, Kind::Bytes { min: 4 * MIB, max: 64 * GIB }, "64MiB",
        "Size limit of all recorder files together; the oldest seconds are removed.",
        "The default holds a day in full for up to 16 busy shards. For 64 busy shards it holds the \
         newest 3 hours in full, and the rest with a sample of each shard and thread per ten \
         seconds (a full day takes 224MiB).";

    // Logs.
    Log Main Reload log_level: LogLevel, Kind::Choice(LogLevel::WORDS), "info",
        "Level of detail of the log, which is written to standard error.",
        "info logs events, including failed logins and operators' orders; debug adds successful \
         logins and the reasons for refused connections; trace adds each connection. Message \
         bodies, passwords and keys are never logged.";
    Log Detail Restart log_format: LogFormat, Kind::Choice(LogFormat::WORDS), "human",
        "Format of log lines: readable text, or one JSON object per line.",
        "";
}

#[cfg(test)]
mod tests;
