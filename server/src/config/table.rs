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
        self.key.replace('_', "-")
    }

    /// Whether it can be set while the server runs. Options that a reload reads from files cannot
    /// be set by name.
    pub fn is_knob(&self) -> bool {
        self.change == Change::Reload && !matches!(self.kind, Kind::Path | Kind::PathOrNone)
    }

    /// The environment variable: `THRONG_C2S_TLS`.
    pub fn variable(&self) -> String {
        format!("THRONG_{}", self.key.to_ascii_uppercase())
    }
}

/// The row of a key, also if spelled as a flag or as a variable.
pub fn row(name: &str) -> Option<&'static Row> {
    let key = normal(name);
    TABLE.iter().find(|row| row.key == key)
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
        "The certificate must be valid for it. It is the domain of names without one, and a store has it for good: do not \
         change it later; others are served beside it as virtual_hosts.";
    Addresses Main Restart virtual_hosts: Vec<Domain>, Kind::Domains, "",
        "Domains served beside it, each with accounts of its own; may be given several times.",
        "romeo@a.example and romeo@b.example are two users. One that is taken off the list is refused to clients, and its \
         accounts stay in the store. Their certificates: tls_folder.";
    Addresses Main Restart data: PathBuf, Kind::Path, "$XDG_DATA_HOME/throng",
        "Folder of the store, the control socket and the self-signed certificate; made when missing, for the owner only.",
        "Without XDG_DATA_HOME it is ~/.local/share/throng, without a home ./throng-data. A file throng.toml in it is \
         read when no --config is given. One server at a time uses a folder.";
    Addresses Main Restart c2s: Vec<SocketAddr>, Kind::Listeners, "127.0.0.1:5222,[::1]:5222",
        "Address for client connections that start in the clear and offer STARTTLS; may be given several times.",
        "The default serves this machine only; 0.0.0.0:5222 and [::]:5222 serve all. A default address that the \
         machine does not have is left out; a given one must work.";
    Addresses Main Restart c2s_tls: Vec<SocketAddr>, Kind::Listeners, "127.0.0.1:5223,[::1]:5223",
        "Address for client connections with TLS from the first byte (XEP-0368); may be given several times.",
        "As for c2s; off for none.";
    Addresses Detail Restart c2s_proxied: Vec<SocketAddr>, Kind::Listeners, "off",
        "Address for a proxy in front, whose connections begin with a header of the PROXY protocol; may be given several times.",
        "Versions 1 and 2 are understood. What counts for an address, as failed logins, then counts for the client's, and not \
         for the proxy's. Who reaches this address may claim any: it has to be loopback, or --i-know. `throng doctor front` \
         writes the proxy's configuration.";
    Addresses Detail Restart c2s_tls_proxied: Vec<SocketAddr>, Kind::Listeners, "off",
        "The same for connections with TLS from the first byte behind that header.",
        "As for c2s_proxied.";
    Addresses Main Restart http: Vec<SocketAddr>, Kind::Listeners, "off",
        "Address for WebSocket (RFC 7395) and BOSH (XEP-0124) in the clear, behind a proxy that does TLS; may be given several times.",
        "Usual is 127.0.0.1:5280. It has to be loopback, or --i-know: passwords are taken here, because the proxy has protected them \
         on their way. docs/web.md describes it.";
    Addresses Main Restart https: Vec<SocketAddr>, Kind::Listeners, "off",
        "Address for WebSocket (RFC 7395), BOSH (XEP-0124) and their discovery (XEP-0156) by HTTPS; may be given several times.",
        "Usual are 0.0.0.0:5443 and [::]:5443. It is served with the certificates of c2s_tls.";
    Addresses Detail Restart http_forwarded: bool, Kind::Switch, "false",
        "Take the client's address from what the proxy in front of http says (X-Forwarded-For).",
        "The last address counts, which the proxy has to add itself. What counts for an address, as failed logins, then counts for the \
         client's. Switch it on only if nobody but the proxy reaches http. `throng doctor front` writes the proxy's configuration.";
    Addresses Detail Restart http_origins: Vec<Origin>, Kind::Origins, "any",
        "Origins of pages that may connect by WebSocket or BOSH; may be given several times.",
        "As https://chat.example.org. Who is no browser may always: a page has nothing here that its user has not typed into it, because \
         logins are in the stream.";
    Addresses Detail Restart websocket_url: String, Kind::SocketUrlOrNone, "",
        "Where clients reach the WebSocket, as they are told (XEP-0156).",
        "When empty, those who ask over https by a served domain are told the address that they have asked at, and others nothing.";
    Addresses Detail Restart bosh_url: String, Kind::PathUrlOrNone, "",
        "Where clients reach BOSH (XEP-0124), as they are told (XEP-0156).",
        "As https://xmpp.example.org/http-bind. When empty, those who ask over https by a served domain are told the address that they \
         have asked at, and others nothing.";
    Addresses Main Restart notify: Vec<Prefix>, Kind::Prefixes, "off",
        "Channels of notifications that everybody may read at /n/ of http and https, by the beginnings of their names.",
        "May be given several times. Channels are nodes of the publish-subscribe service (pubsub). docs/notifications.md describes them.";
    Addresses Detail Restart notify_token: Option<PathBuf>, Kind::PathOrNone, "",
        "File with the token that publishers at /n/ have to show (Authorization: Bearer).",
        "One line of at least 16 characters. Without it nobody publishes there, unless notify_publish_open says that everybody may, or \
         notify_jwt_keys whose tokens grant it.";
    Addresses Main Restart notify_private: Vec<Prefix>, Kind::Prefixes, "off",
        "Channels of notifications that are there for those who have a token (JWT), by the beginnings of their names.",
        "May be given several times, and counts more than notify. The token says where its bearer may publish and subscribe; \
         notify_jwt_keys says whose tokens count. By XMPP only administrators make nodes with these names.";
    Addresses Main Reload notify_jwt_keys: Option<PathBuf>, Kind::PathOrNone, "",
        "File with the keys of those who issue tokens for channels: a JWK Set (RFC 7517) for HS256, ES256 and EdDSA.",
        "Secrets (oct) of at least 32 bytes, and public keys; at most 16. Several keys of an algorithm need a kid each. Read again at \
         reload: who waits with a token of a key that is gone is disconnected.";
    Addresses Detail Reload notify_jwt_revoked: Option<PathBuf>, Kind::PathOrNone, "",
        "File with the names (jti) of tokens that do not count any more, one on each line.",
        "At most 4 MiB. Read again at reload, which disconnects who waits with one of them. A name may go when its token has expired.";
    Addresses Detail Restart notify_jwt_issuer: String, Kind::TextOrNone, "",
        "Who has to have issued a token for channels (iss).",
        "When empty, any issuer that has one of the keys.";
    Addresses Detail Restart notify_jwt_audience: String, Kind::TextOrNone, "",
        "For whom a token for channels has to be (aud).",
        "When empty, a token that is for somebody is refused (RFC 7519 4.1.3). Set it if the issuer makes tokens for others with the same \
         key.";
    Addresses Detail Restart notify_jwt_seconds: Duration, Kind::Seconds { min: 60, max: 3_650 * DAY }, "1d",
        "How far ahead the end of a token for channels may be (exp).",
        "A token without an end is refused.";
    Addresses Detail Restart notify_occupancy: Vec<Prefix>, Kind::Prefixes, "off",
        "Channels of notifications that tell who subscribes to them, and how many, by the beginnings of their names.",
        "May be given several times. In channels of notify everybody may ask how many; nobody is named. In channels of notify_private \
         subscribers are named by the sub of their tokens, to those whose tokens grant it (presence).";
    Addresses Main Restart notify_push: bool, Kind::Switch, "false",
        "Pages may register for pushes of channels, which they get while they are closed (RFC 8030).",
        "Needs notify_push_contact. The server makes a key for push services in push.key in the data folder. docs/notifications.md describes it.";
    Addresses Detail Restart notify_push_contact: String, Kind::TextOrNone, "",
        "Whom push services may write to about pushes: an address such as `mailto:admin@example.org` or `https://example.org/contact`.",
        "";
    Addresses Detail Restart notify_push_services: Vec<PushService>, Kind::PushServices, "fcm.googleapis.com,.push.services.mozilla.com,.push.apple.com,.notify.windows.com",
        "Push services that are asked, by host, or by the end of hosts with a dot before it; may be given several times.",
        "Pages say where their push service is. At others than these they cannot register. At most 16.";
    Addresses Detail Restart notify_push_private: bool, Kind::Switch, "false",
        "Push services may have addresses that are not of the public internet.",
        "Only for push services of your own. Whoever decides about a name in notify_push_services decides then what the server connects to.";
    Addresses Detail Restart notify_push_authorities: Option<PathBuf>, Kind::PathOrNone, "",
        "File of the certificates (PEM) by which push services are checked; empty takes the system's.",
        "";
    Addresses Detail Restart notify_push_interval_seconds: Duration, Kind::Seconds { min: 1, max: HOUR }, "10",
        "Time between two pushes of a channel to one page.",
        "The first item is told at once, of those that come within this time the last one at its end.";
    Addresses Detail Restart notify_push_ttl_seconds: Duration, Kind::Seconds { min: 0, max: 28 * DAY }, "1d",
        "For how long push services keep a push for a device that is off (RFC 8030 5.2).",
        "";
    Addresses Detail Restart notify_push_urgency: PushUrgency, Kind::Choice(PushUrgency::WORDS), "normal",
        "How urgent pushes are (RFC 8030 5.3): devices that save their battery take only urgent ones.",
        "";
    Addresses Detail Restart notify_push_hold_seconds: Duration, Kind::Seconds { min: HOUR, max: 3_650 * DAY }, "60d",
        "Time after which a registration for pushes ends that its page has not made again.",
        "";
    Addresses Detail Restart notify_push_per_channel_max: u64, Kind::Count { min: 1, max: 1_000_000, unit: "registrations" }, "10000",
        "Registrations for pushes of one channel.",
        "";
    Addresses Detail Restart notify_push_per_address_max: u64, Kind::Count { min: 1, max: 1_000_000, unit: "registrations" }, "100",
        "Registrations for pushes of one channel that come from one address (IPv6: /64).",
        "Behind a proxy all come from its address, unless http_forwarded is on.";
    Addresses Detail Restart notify_wildcards: Vec<Prefix>, Kind::Prefixes, "off",
        "Prefixes of channels of notifications that may be subscribed to (/n/PREFIX*, and selectors of Mercure), by their beginnings.",
        "May be given several times. Who subscribes to a prefix learns the names of channels, so do not name those whose names are secrets. \
         Channels of notify_private are among them for those whose tokens grant the whole prefix (subscribe), and by Mercure for those whose \
         tokens grant the channel.";
    Addresses Main Restart notify_memory: Vec<Prefix>, Kind::Prefixes, "off",
        "Channels of notifications that keep their items in memory and not on disk, by the beginnings of their names.",
        "May be given several times. Name them by notify, notify_private or notify_ask as well. A publication is cheaper and waits for no disk. \
         When the server ends the items are lost, and who comes back is told a gap. Names, subscriptions and owners are on disk as ever.";
    Addresses Detail Restart notify_memory_bytes_max: u64, Kind::Bytes { min: 16 * MIB, max: 1_024 * GIB }, "256MiB",
        "Most memory for the items of notify_memory, of all shards together.",
        "If it is full, channels at which nobody has published for the longest time lose their items.";
    Addresses Main Restart notify_ask: Vec<Prefix>, Kind::Prefixes, "off",
        "Channels of notifications of which a web service says who may publish and subscribe, by the beginnings of their names.",
        "May be given several times, and counts more than notify. A token that counts decides, otherwise notify_ask_url is asked. By XMPP only \
         administrators make nodes with these names. docs/notifications.md describes questions and answers.";
    Addresses Detail Restart notify_ask_url: String, Kind::TextOrNone, "",
        "URL of the web service that is asked about requests for the channels of notify_ask, by POST.",
        "HTTPS, or HTTP on this machine unless i_know: it is sent what requests show.";
    Addresses Detail Restart notify_ask_headers: Vec<FieldName>, Kind::FieldNames, "authorization",
        "Header fields of a request that the web service is told of.",
        "May be given several times. Cookie is passed on for pages of the server's own address and of http_origins.";
    Addresses Detail Restart notify_ask_token: Option<PathBuf>, Kind::PathOrNone, "",
        "File with the token that notify_ask_url is shown, as `Authorization: Bearer`.",
        "One line of at least 16 characters.";
    Addresses Detail Restart notify_ask_authorities: Option<PathBuf>, Kind::PathOrNone, "",
        "File of the certificates (PEM) by which an HTTPS URL of notify_ask_url is checked; empty takes the system's.",
        "";
    Addresses Detail Restart notify_ask_lines: u64, Kind::Count { min: 1, max: 64, unit: "connections" }, "8",
        "Connections to the web service, each of which has one question at a time.",
        "";
    Addresses Detail Restart notify_ask_waiting_max: u64, Kind::Count { min: 1, max: 65_536, unit: "questions" }, "2000",
        "Questions for the web service that may wait; with more, requests are answered with 503.",
        "";
    Addresses Detail Restart notify_ask_seconds: Duration, Kind::Seconds { min: 1, max: 30 }, "5s",
        "Time for an answer of the web service, and for which a question may wait before it is asked.",
        "";
    Addresses Detail Restart notify_ask_per_second: u64, Kind::Count { min: 0, max: 1_000_000, unit: "questions" }, "20",
        "Questions a second about requests of one address (IPv6: /64) in the long run; 0 for any number.",
        "Ten seconds' worth may come at once. What the web service has answered for some time is no question.";
    Addresses Detail Restart notify_publish_open: bool, Kind::Switch, "false",
        "Everybody may publish at the channels of notify, without a token.",
        "Each publication at a new name makes a channel, which stays until an administrator deletes its node.";
    Addresses Main Restart mercure: bool, Kind::Switch, "false",
        "Channels are topics of the Mercure protocol as well, at /.well-known/mercure of http and https.",
        "notify, notify_private and the other options of channels apply. Tokens of notify_jwt_keys may name topics in the claim mercure. \
         docs/mercure.md describes which topic is which channel.";
    Addresses Main Restart centrifugo: bool, Kind::Switch, "false",
        "Clients of Centrifugo have channels as well, at /connection/websocket of http and https.",
        "notify, notify_private and the other options of channels apply. Tokens of notify_jwt_keys may have Centrifugo's claims. \
         docs/centrifugo.md describes what is there.";
    Addresses Main Restart nchan: bool, Kind::Switch, "false",
        "Clients of Nchan have channels as well, at /sub/NAME, /poll/NAME, /pub/NAME and /pubsub/NAME of http and https.",
        "notify, notify_private and the other options of channels apply. Whoever may publish at a channel is told how many subscribe. \
         docs/nchan.md describes what is there.";
    Addresses Detail Restart notify_items_max: u64, Kind::Count { min: 1, max: NOTIFY_ITEMS_MAX as u64, unit: "items" }, "100",
        "Items that a channel keeps which was made by a publication at /n/; with more, the oldest one goes.",
        "Channels that were made before, or by XMPP, keep what their node's configuration says.";
    Addresses Detail Restart notify_items_seconds: Duration, Kind::Seconds { min: 60, max: 3_650 * DAY }, "1d",
        "Time for which such a channel keeps an item.",
        "";
    Addresses Detail Restart notify_waiting_per_address_max: u64, Kind::Count { min: 1, max: u32::MAX as u64, unit: "requests" }, "10000",
        "Requests at /n/ that wait at once from one address (IPv6: /64).",
        "Behind a proxy all come from its address, unless http_forwarded is on. They count for unauthenticated_per_address_max, too. Each prefix (notify_wildcards) counts as 16.";
    Addresses Detail Restart notify_publications_per_second: u64, Kind::Count { min: 0, max: 1_000_000, unit: "publications" }, "20",
        "Publications a second at /n/ of one address (IPv6: /64) in the long run, without the token; 0 for any number.",
        "Ten seconds' worth may come at once. 16 subscribers that are told count as one publication. Unless it is 0, an address makes one channel in ten seconds, and ten at once.";
    Addresses Detail Restart admin_socket: Option<PathBuf>, Kind::PathOrNone, "",
        "Local control socket, mode 0600; throng.sock in the data folder when empty.",
        "Who may open it commands the server: sessions, accounts, shutdown.";
    Addresses Main Restart admin_http: Vec<SocketAddr>, Kind::Listeners, "127.0.0.1:5290,[::1]:5290",
        "Address of the operator's HTTP: the dashboard, /metrics, /health, /ready; may be given several times, off for none.",
        "Without admin_http_token it has to be loopback, and only names of this machine are answered. `throng ctl dashboard` \
         prints an address for a browser. A default address that is taken is left out; a given one must work.";
    Addresses Detail Restart admin_http_token: Option<PathBuf>, Kind::PathOrNone, "",
        "File with the token that requests to admin_http have to bring (Authorization: Bearer).",
        "One line of at least 16 characters. /health and /ready are answered without it. When empty, the server makes http.token \
         in the data folder, which what tells of users asks for (/api/); /metrics does not.";

    Addresses Detail Restart contact_addresses: Vec<Contact>, Kind::Contacts, "",
        "Whom to write to about the service, for clients that ask (XEP-0157); may be given several times.",
        "As abuse=mailto:abuse@example.org. Everybody is told who has an account.";
    Addresses Detail Restart external_services: Vec<Service>, Kind::Services, "",
        "STUN and TURN servers that clients are told of for calls (XEP-0215); may be given several times.",
        "As turn:turn.example.org:3478?transport=udp. Credentials for TURN: external_services_secret.";
    Addresses Detail Restart external_services_secret: Option<PathBuf>, Kind::PathOrNone, "",
        "File with the secret that this server shares with the TURN servers of external_services.",
        "One line of at least 16 characters: coturn's static-auth-secret, with use-auth-secret. Without it clients are given no \
         credentials.";
    Addresses Detail Restart external_services_seconds: Duration, Kind::Seconds { min: 60, max: 30 * DAY }, "1d",
        "Time for which credentials for a TURN server are good.",
        "A call that goes on longer may lose its relay.";

    Addresses Main Restart components: Vec<Component>, Kind::Components, "",
        "External components (XEP-0114): the domain of each and the file of its secret; may be given several times.",
        "As irc.example.org=/etc/throng/irc.secret: one line of at least 16 characters. A component speaks for every address of its \
         domain, so it has to be trusted. docs/components.md describes them.";
    Addresses Detail Restart component: Vec<SocketAddr>, Kind::Listeners, "127.0.0.1:5347,[::1]:5347",
        "Address for external components, open where components names some; may be given several times.",
        "Without TLS, so it has to be loopback, or --i-know: what components send and are sent crosses the network readable. A \
         default address that the machine does not have is left out; a given one must work.";
    Addresses Detail Reload component_queue_bytes_max: u64, Kind::Bytes { min: MIB, max: GIB }, "16MiB",
        "Bytes that may wait for one component; more is refused with `<resource-constraint/>`.",
        "One sender has at most a sixteenth of it. What a component does not take within 10 seconds is refused, too.";

    // Threads, descriptors, queues.
    Machine Main Restart shards: Option<u64>, Kind::CountOrAuto { min: 1, max: 4_096, unit: "shards" }, "auto",
        "Number of shards, each a thread that owns its users; auto is one a core.",
        "May exceed the cores. How many connections a shard holds is shard_connections_max. The 4,096 partitions of users \
         are dealt out over the shards.";
    Machine Detail Restart shards_on_cores: bool, Kind::Switch, "false",
        "Keeps each shard on a core of its own, where there is one shard a core.",
        "Without it the kernel places shards, which gives more messages per second wherever anything else shares the cores: a proxy, a \
         database, the kernel's own network work. With it, delays are smaller while an attack keeps all cores busy. It has no effect \
         with fewer or more shards than the process has cores.";
    Machine Main Restart driver: DriverChoice, Kind::Choice(DriverChoice::WORDS), "auto",
        "Interface to the kernel for sockets; auto takes io_uring where the kernel allows it.",
        "";
    Machine Detail Restart shard_connections_max: Option<u64>,
        Kind::CountOrAuto { min: 16, max: 1_000_000, unit: "connections" }, "auto",
        "Most connections a shard may hold; auto is what the driver and the limit on descriptors allow.",
        "With io_uring connections take no descriptors, but each table of them is bounded by the limit on descriptors \
         (RLIMIT_NOFILE): auto is one table, of 19,900 at most, and a shard that is to hold more has as many tables as it \
         needs, each a ring of the kernel's of some 0.4 MB. With epoll each connection takes a descriptor of the process: \
         the shards share the limit (which the server raises as far as it may) and leave 512 of them, or half, to the rest \
         of the server. Who comes when there is no room waits in the kernel's queue.";
    Machine Detail Restart backlog: u64, Kind::Count { min: 16, max: 65_535, unit: "connections" }, "4096",
        "Connections that may wait in the kernel for accept, a listener.",
        "The kernel cuts it to net.core.somaxconn.";
    Machine Detail Restart letter_ring_slots: u64, Kind::Count { min: 16, max: 65_536, unit: "batches" }, "1024",
        "Batches that may wait from one shard to another.",
        "A full ring makes the sending shard keep the batch and read less from its clients.";
    Machine Detail Reload turn_events_max: u64, Kind::Count { min: 8, max: 16_384, unit: "events" }, "256",
        "Events of the network that a shard takes in one turn before it turns to all else.",
        "Fewer make turns shorter and what waits behind them sooner, more cost less each.";
    Machine Detail Reload turn_others_max: u64, Kind::Count { min: 1, max: 16_384, unit: "events" }, "32",
        "Of these at most those of connections that have no session: logins, and ends.",
        "Fewer keep turns short for those who are there while many come back at once; more let them in sooner. With epoll, \
         whose order is the kernel's, it has no effect.";
    Machine Detail Reload turn_letters_max: u64, Kind::Count { min: 1, max: 16_384, unit: "batches" }, "64",
        "Batches of letters that a shard takes from each other shard in one turn.",
        "";
    Machine Detail Reload turn_answers_max: u64, Kind::Count { min: 1, max: 16_384, unit: "answers" }, "64",
        "Answers of the store that a shard takes in one turn.",
        "Most are of logins, which must not make turns long for those who are there.";
    Machine Detail Reload idle_sleep_milliseconds: u64, Kind::Count { min: 10, max: 1_000, unit: "milliseconds" }, "250",
        "Longest sleep of a shard that has nothing to do.",
        "Time-outs are looked at when it wakes up, and its gauges are set.";
    Machine Detail Reload congested_sleep_microseconds: u64,
        Kind::Count { min: 10, max: 100_000, unit: "microseconds" }, "200",
        "Sleep of a shard that reads nobody while something waits for room elsewhere.",
        "";
    Machine Detail Reload busy_poll_microseconds: u64,
        Kind::Count { min: 0, max: 100_000, unit: "microseconds" }, "0",
        "Time after the last event of the network in which a shard looks for the next one without sleeping; 0 for none.",
        "Spares the time that waking up takes, and costs the CPU of that time: for machines with more cores than shards.";
    Machine Detail Reload gather_microseconds: u64,
        Kind::Count { min: 0, max: 10_000, unit: "microseconds" }, "200",
        "Time that a shard puts off what comes right after it has gone to sleep, so that one turn takes more; 0 for none.",
        "Only while its sleeps are shorter than twice that: what comes seldom waits for nothing. Saves CPU, of which waking up costs \
         more than a message. With io_uring it needs Linux 6.12.";
    Machine Detail Reload receive_buffer_bytes: u64, Kind::Bytes { min: 64 * KIB, max: 16 * MIB }, "256KiB",
        "Buffer of a shard for received bytes.",
        "One for all of its connections, which take none of their own. With epoll one receive takes as much at most; with io_uring \
         those of a batch share it, 64 KiB each at most.";
    Machine Detail Reload memory_return_seconds: Duration, Kind::Seconds { min: 1, max: HOUR }, "5",
        "Time between two returns of a shard's free memory to the system.",
        "";
    Machine Detail Reload gate_bytes_max: u64, Kind::Bytes { min: MIB, max: 4 * GIB }, "32MiB",
        "Bytes of a shard that may wait for writes to be durable before it reads nobody meanwhile.",
        "";
    Machine Detail Reload sweep_seconds: Duration, Kind::Seconds { min: 1, max: 60 }, "8",
        "Time in which every connection, session and cached user is looked at once for time-outs.",
        "What times out is late by so much at most. Short time-outs are looked at eight times within theirs, whatever this says.";
    Machine Main Reload shutdown_grace_seconds: Duration, Kind::Seconds { min: 0, max: HOUR }, "10",
        "Time that streams have to close at a stop, after `<system-shutdown/>`.",
        "Connections that have not closed by then are cut. A second signal ends the process at once.";
    Machine Main Reload shutdown_hard_seconds: Duration, Kind::Seconds { min: 1, max: HOUR }, "10",
        "Time that all the rest of a stop may take beyond shutdown_grace_seconds: writes, letters between shards, a shard that hangs.",
        "Then the process ends with exit code 7, and its last line says what was left; nothing acknowledged is lost. Allow a \
         supervisor's own time-out (systemd's `TimeoutStopSec`) ten seconds more than both together.";

    // Encryption.
    Tls Main Reload tls_certificate: Option<PathBuf>, Kind::PathOrNone, "",
        "Certificate chain in PEM, own certificate first; a self-signed one is made in the data folder when empty.",
        "Read again at reload, without a restart; connections in place keep theirs.";
    Tls Main Reload tls_key: Option<PathBuf>, Kind::PathOrNone, "",
        "Private key in PEM that belongs to tls_certificate.",
        "";
    Tls Main Reload tls_folder: Option<PathBuf>, Kind::PathOrNone, "",
        "Folder with a certificate for each domain, as DOMAIN/fullchain.pem and DOMAIN/privkey.pem.",
        "So certbot keeps them in /etc/letsencrypt/live. A domain without a folder there is served with tls_certificate, or, \
         when that is empty, with a self-signed one. A folder or file that cannot be read is an error: certbot's are root's alone, \
         so copy the files for the server in a hook. Clients are shown the certificate of the domain that they name (SNI).";
    Tls Detail Restart tls_version_min: TlsVersion, Kind::Choice(TlsVersion::WORDS), "1.2",
        "Oldest TLS version accepted.",
        "";
    Tls Detail Reload tls_client_authorities: Option<PathBuf>, Kind::PathOrNone, "",
        "Authorities in PEM whose certificates clients may log in with (SASL EXTERNAL, XEP-0178); clients are asked for none when empty.",
        "Name only authorities of your own that issue certificates for accounts: each of them can log in as everybody. A client \
         needs no certificate; one that it shows has to be good, or its connection fails. Read again at reload: sessions in place \
         stay.";
    Tls Detail Reload tls_client_revoked: Option<PathBuf>, Kind::PathOrNone, "",
        "Lists in PEM of certificates that tls_client_authorities have revoked (RFC 5280 5).",
        "Read again at reload. A list that is out of date still counts.";
    Tls Detail Reload tls_client_name: ClientName, Kind::Choice(ClientName::WORDS), "none",
        "By what the account of a client's certificate is found that has no XMPP address in it (id-on-xmppAddr).",
        "none: by nothing. mail: a mailbox in it (rfc822Name) is the JID. common-name: the subject's common name is the JID, or the \
         localpart of one at the main domain.";

    // Accounts, authentication, registration.
    SignIn Main Restart external_auth: Vec<BackEnd>, Kind::BackEnds, "",
        "Domains whose users are kept elsewhere, and the program or URL that is asked about passwords; may be given several times.",
        "As example.org=/usr/local/bin/check (the protocol of extauth programs) or example.org=https://accounts.example.org/xmpp. Such a \
         domain offers PLAIN alone, and makes, changes and removes no accounts in band. docs/external-authentication.md describes it.";
    SignIn Detail Restart external_auth_lines: u64, Kind::Count { min: 1, max: 64, unit: "processes or connections" }, "8",
        "Processes or connections of each domain of external_auth, each of which answers one question at a time.",
        "";
    SignIn Detail Restart external_auth_waiting_max: u64, Kind::Count { min: 1, max: 65_536, unit: "questions" }, "2000",
        "Questions of each domain of external_auth that may wait; more logins get `<temporary-auth-failure/>`.",
        "";
    SignIn Detail Restart external_auth_seconds: Duration, Kind::Seconds { min: 1, max: 30 }, "5s",
        "Time for an answer, and for which a question may wait before it is asked.",
        "A program that has not answered by then is killed and started again. A login takes both times at most: \
         preauth_timeout_seconds has to be longer.";
    SignIn Detail Restart external_auth_token: Option<PathBuf>, Kind::PathOrNone, "",
        "File with the token that URLs of external_auth are shown, as `Authorization: Bearer`.",
        "One line of at least 16 characters.";
    SignIn Detail Restart external_auth_authorities: Option<PathBuf>, Kind::PathOrNone, "",
        "File of the certificates (PEM) by which HTTPS URLs of external_auth are checked; empty takes the system's.",
        "";
    SignIn Detail Restart external_auth_fast: bool, Kind::Switch, "true",
        "Users of external_auth may log in again by a token (XEP-0484).",
        "The back end is asked whether the user is there still. A token is made for who shows the password, and goes on to work for 30 days \
         when that is changed elsewhere.";
    SignIn Main Restart plain_auth: bool, Kind::Switch, "false",
        "Offer SASL PLAIN without TLS; only for listeners on loopback unless i_know.",
        "Over TLS PLAIN is always offered. Without TLS the password crosses the network readable.";
    SignIn Main Restart registration: Registration, Kind::Choice(Registration::WORDS), "closed",
        "Who may register an account in band (XEP-0077): nobody, anybody, who has an invitation, or who is approved afterwards.",
        "invite: by `throng invite`, or by users as inviters and user_invitations say. approval: an account is made, and cannot be \
         logged in to until `throng user approve` or an administrator's client has put it to use. open and approval only for \
         listeners on loopback, and none of http or behind a proxy, unless i_know. Password change in band is always there for those signed in.";
    SignIn Main Restart open_registration: bool, Kind::Switch, "false",
        "Let anyone register an account in band: the same as registration = open.",
        "";
    SignIn Main Restart i_know: bool, Kind::Switch, "false",
        "Allow plain_auth, and registration by anyone, on listeners that are not loopback or that a proxy forwards strangers to.",
        "";
    SignIn Detail Reload auth_attempts_max: u64, Kind::Count { min: 1, max: 20, unit: "attempts" }, "3",
        "Failed authentications after which a stream is closed (RFC 6120 6.4.5).",
        "";
    SignIn Detail Reload login_failures_per_pair_max: u64, Kind::Count { min: 1, max: 1_000_000, unit: "failures" },
        "20",
        "Failed logins from one IP address (IPv6: /64) to one account within the window after which more are refused.",
        "Refused as <temporary-auth-failure/>, also with the right password, until there is one more to try: the window \
         gives them back one by one. Logins that are begun and not finished count as failed.";
    SignIn Detail Reload login_failures_per_account_max: u64, Kind::Count { min: 1, max: 1_000_000, unit: "failures" },
        "100",
        "Failed logins to one account, from all addresses without a success lately, after which more are refused.",
        "Addresses from which a login to the account has succeeded within 30 days, the last four, and since the server was \
         started, are neither counted nor refused by this: an account under attack stays open to those who own it.";
    SignIn Detail Reload login_failures_per_address_max: u64, Kind::Count { min: 1, max: 1_000_000, unit: "failures" },
        "100",
        "Failed logins from one IP address (IPv6: /64) within the window after which more are refused for a while.",
        "";
    SignIn Detail Reload login_failures_window_seconds: Duration, Kind::Seconds { min: 1, max: DAY }, "5m",
        "Window in which failed logins are counted.",
        "At least a millisecond for each failure that is let through. Failures are counted over all shards.";
    SignIn Detail Reload unauthenticated_per_address_max: u64, Kind::Count { min: 0, max: 10_000_000, unit: "connections" }, "20000",
        "Connections that one IP address (IPv6: /64) may have at once that have not logged in; 0 is no limit.",
        "More are closed with <resource-constraint/>.";
    SignIn Detail Reload registrations_hourly_max: u64, Kind::Count { min: 1, max: 1_000_000, unit: "accounts" }, "20",
        "Accounts that one IP address (IPv6: /64) may register within an hour.",
        "By invitation, too.";
    SignIn Detail Reload reserved_names: Vec<LocalName>, Kind::Names,
        "abuse,admin,administrator,hostmaster,info,postmaster,register,root,security,support,system,webmaster",
        "Names that nobody can register in band, nor others that look like them; may be given several times.",
        "Of those that look alike, digits for letters, separators, and letters of other scripts are found: adm1n. `throng user add` and \
         an invitation for the name by the operator or an administrator are not bound by it.";
    SignIn Detail Reload inviters: Vec<BareJid>, Kind::Jids, "",
        "Users who may invite to accounts (XEP-0401), beside admins; may be given several times.",
        "Whom they invite waits for no approval. They cannot invite to a name of admins, inviters or reserved_names. Their own names cannot be \
         registered in band, except by an invitation of the operator or an administrator.";
    SignIn Detail Reload user_invitations: UserInvitations, Kind::Choice(UserInvitations::WORDS), "contacts",
        "What every user may invite to by a client (XEP-0401): to become a contact, or also to register an account here.",
        "A user can make 20 invitations within invitation_seconds, each for one.";
    SignIn Detail Reload invitation_seconds: Duration, Kind::Seconds { min: 60, max: 366 * DAY }, "7d",
        "Time for which an invitation is good, unless `throng invite --expires` says otherwise.",
        "";
    SignIn Detail Reload invitation_page: String, Kind::PageOrNone, "",
        "Address of a web page for who is invited and has no client yet (XEP-0401 6.2), in which {token} stands for the token.",
        "As https://example.org/invite/#{token}. {uri} stands for the invitation's address without xmpp:, as pages of client developers \
         take it. This server does not serve the page.";
    SignIn Detail Reload applicants_max: u64, Kind::Count { min: 1, max: 10_000, unit: "accounts" }, "100",
        "Accounts of a domain that may wait for approval, with registration = approval.",
        "More are refused.";
    SignIn Detail Reload applicants_seconds: Duration, Kind::Seconds { min: 60, max: 366 * DAY }, "14d",
        "Time for which an account may wait for approval.",
        "It goes when the next one comes, or within hours.";
    SignIn Detail Reload reports_max: u64, Kind::Count { min: 1, max: 5_000, unit: "reports" }, "1000",
        "Reports of a domain's users (XEP-0377) that are kept for the operator.",
        "Of more, the oldest of whoever has reported most goes. A user has 20 a day at the most. `throng report list` shows them.";
    SignIn Detail Reload reports_seconds: Duration, Kind::Seconds { min: 60, max: 366 * DAY }, "90d",
        "Time for which a report is kept.",
        "";
    SignIn Main Reload admins: Vec<BareJid>, Kind::Jids, "",
        "Users who administer the service by the commands of their clients (XEP-0133); may be given several times.",
        "They may add and remove users, change passwords, end sessions, send announcements, see what users report, set knobs other than \
         this one, and stop the server. Their names cannot be registered in band, except by an invitation of the operator or an administrator. A user who is taken off the list may do none of it \
         from then on.";
    SignIn Detail Reload welcome: String, Kind::LinesOrNone, "",
        "Message that each account gets when it is made (XEP-0133); none if empty.",
        "It waits for the first login. Accounts that are imported, and those that are made while the server is stopped, get none.";
    SignIn Detail Restart scram_iterations: u64, ITERATIONS, "10000",
        "PBKDF2 iterations of new passwords; more slows down guessing from a stolen store and every login by PLAIN.",
        "4096 is the least that RFC 7677 4 allows, and what `throng user import` takes unless told otherwise. Accounts in \
         place keep theirs until their password changes.";

    SignIn Detail Restart scram_hashes: Vec<&'static str>, Kind::Words(&SCRAM_HASHES), "",
        "Hash functions with which SCRAM is offered; when empty, those of which all accounts have keys.",
        "They are offered to everybody alike. New passwords get keys of all of them. Accounts of earlier versions or other servers \
         gain those of SHA-512 and SHA-256 when their clients log in (XEP-0480, or by PLAIN); a hash function that some account \
         lacks is offered after a restart when none lacks it any more. With one named here that an account lacks, clients that \
         choose it fail to log in to that account.";

    // Limits and time-outs of a stream.
    Streams Detail Restart stanza_bytes_max: u64, Kind::Bytes { min: 10_000, max: 16 * MIB }, "256KiB",
        "Longest stanza accepted from a client (RFC 6120 13.12); announced as XEP-0478.",
        "A longer one closes the stream with <policy-violation/>. The floor of 10,000 bytes is the RFC's.";
    Streams Detail Reload preauth_timeout_seconds: Duration, Kind::Seconds { min: 1, max: HOUR }, "30",
        "Time from accept in which a client must have authenticated.",
        "";
    Streams Detail Reload idle_timeout_seconds: Duration, Kind::Seconds { min: 0, max: 30 * DAY }, "10m",
        "Silence of a client after which it is pinged; as much again ends its stream with `<connection-timeout/>`; 0 never.",
        "A whitespace, a ping (XEP-0199) or the answer to one is enough to be heard.";
    Streams Detail Reload send_timeout_seconds: Duration, Kind::Seconds { min: 1, max: HOUR }, "60",
        "Time that a client may leave sent bytes unread before its session is detached.",
        "It begins anew at the latest with each 64 KiB that the client takes, so that a slow link stays.";
    Streams Detail Reload outbound_bytes_max: u64, Kind::Bytes { min: 64 * KIB, max: GIB }, "2MiB",
        "Bytes that may wait for a slow connection, or be unacknowledged by its client.",
        "Nobody else's traffic ends a session: beyond it presence and the like from others are dropped. A client that goes on asking, and \
         leaves twice as much unacknowledged, is ended.";
    Streams Detail Reload outbound_bytes_soft: u64, Kind::Bytes { min: 16 * KIB, max: GIB }, "64KiB",
        "Bytes waiting for a connection from which on messages stay in the log until the client has caught up.",
        "Its further requests wait, too. Less than outbound_bytes_max.";
    Streams Detail Reload unacked_stanzas_max: u64, Kind::Count { min: 10, max: 100_000, unit: "stanzas" }, "500",
        "Stanzas a client may leave unacknowledged (XEP-0198 4) before messages stay in the log.",
        "";
    Streams Detail Reload unacked_bytes_max: u64, Kind::Bytes { min: MIB, max: 1_024 * GIB }, "1GiB",
        "Bytes that all clients together may leave unacknowledged before messages stay in the logs of those who leave some.",
        "Nothing is refused by it, and nothing lost: messages wait on the disk instead of in memory.";
    Streams Detail Reload in_flight_stanzas_max: u64, Kind::Count { min: 1, max: 65_535, unit: "stanzas" }, "256",
        "Stanzas of one session under way to other users before its socket is no longer read.",
        "";
    Streams Detail Reload in_flight_bytes_max: u64, Kind::Bytes { min: 16 * KIB, max: 4 * MIB - KIB }, "64KiB",
        "Bytes of one session's stanzas not yet delivered and durable before its socket is no longer read.",
        "Who sends faster than the disk takes it waits, and others do not wait behind more than this.";
    Streams Detail Reload sm_resume_seconds: Duration, Kind::Seconds { min: 0, max: 30 * DAY }, "5m",
        "Time in which a broken stream can be resumed (XEP-0198 5); 0 offers no resumption.",
        "A stream keeps what it was promised when it enabled stream management. The time counts over restarts of the server: sessions \
         that may be resumed are stored, unless archive is off.";
    Streams Detail Reload sessions_per_user_max: u64, Kind::Count { min: 1, max: 1_000, unit: "sessions" }, "32",
        "Resources one user may have bound at once, resumable ones included.",
        "For one more, the session goes that has waited longest to be resumed; if all are connected, it is refused with \
         <resource-constraint/> (RFC 6120 7.6.2.1).";
    Streams Detail Reload resource_conflict: ResourceConflict, Kind::Choice(ResourceConflict::WORDS), "replace",
        "What happens when a client binds a resource in use: replace the older session or refuse the newer.",
        "";
    Streams Detail Restart without: Vec<&'static str>, Kind::Words(extension::OPTIONAL), "",
        "Extensions that are switched off: they are neither advertised nor answered; may be given several times.",
        "What an extension has stored stays in the store, is without effect meanwhile, and goes with the account. A change needs \
         a restart, because open streams were promised what they were offered.";

    // Roster, delivery, waiting messages, archive.
    Messages Detail Reload bare_delivery: BareDelivery, Kind::Choice(BareDelivery::WORDS), "all",
        "Sessions that get a message to a bare JID: all, or the latest active of highest priority (RFC 6121 8.5.2.1.1).",
        "Sessions of negative priority get none in either case.";
    Messages Detail Reload waiting_messages_max: u64, Kind::Count { min: 1, max: 10_000_000, unit: "messages" }, "10000",
        "Messages that may wait for a user who is offline.",
        "At the limit the sender gets <service-unavailable/>; nothing accepted goes.";
    Messages Detail Reload waiting_bytes_max: u64, Kind::Bytes { min: 64 * KIB, max: 1_024 * GIB }, "64MiB",
        "Bytes that may wait for a user who is offline.",
        "";
    Messages Detail Reload log_messages_day_max: u64, Kind::Count { min: 0, max: 1_000_000_000_000, unit: "messages" }, "1000000",
        "Messages that one account may send within a day, of those that wait for somebody or are archived; 0 is no limit.",
        "More are refused with <resource-constraint/> and the time when to go on. A day's worth may come at once.";
    Messages Detail Reload log_bytes_day_max: u64, Kind::Bytes { min: 0, max: 1_024 * GIB }, "4GiB",
        "Bytes of these messages; 0 is no limit.",
        "";
    Messages Detail Reload account_stanzas_per_second: u64, Kind::Count { min: 0, max: 1_000_000, unit: "stanzas" }, "20",
        "Stanzas per second that one account may send in the long run, over all its sessions; 0 is no limit.",
        "Nothing is refused: what comes faster is read later. Each 4 KiB of a stanza count as one more.";
    Messages Detail Reload account_stanzas_burst: u64, Kind::Count { min: 1, max: 1_000_000, unit: "stanzas" }, "200",
        "Stanzas that one account may send at once before account_stanzas_per_second holds; at least a second's worth.",
        "";
    Messages Detail Reload busy_accounts: Vec<BareJid>, Kind::Jids, "",
        "Accounts that may send more than others, such as bots, beside admins; may be given several times.",
        "busy_stanzas_per_second and busy_stanzas_burst hold for them.";
    Messages Detail Reload busy_stanzas_per_second: u64, Kind::Count { min: 0, max: 1_000_000, unit: "stanzas" }, "500",
        "The same as account_stanzas_per_second, for busy_accounts and admins; 0 is no limit.",
        "";
    Messages Detail Reload busy_stanzas_burst: u64, Kind::Count { min: 1, max: 1_000_000, unit: "stanzas" }, "5000",
        "The same as account_stanzas_burst, for busy_accounts and admins.",
        "";
    Messages Detail Reload push_interval_seconds: Duration, Kind::Seconds { min: 1, max: HOUR }, "10",
        "Time between two push notifications about one user to one service (XEP-0357).",
        "The first message is told of at once, those that come within this time together at its end.";
    Messages Detail Reload push_details: PushDetails, Kind::Choice(PushDetails::WORDS), "count",
        "What push services are told: how many messages wait, also who sent the last one, or also the beginning of its text.",
        "Push services are run by others, and so are the networks behind them.";
    Messages Main Restart pubsub: NodeMakers, Kind::Choice(NodeMakers::WORDS), "users",
        "Who may make nodes of the publish-subscribe service at pubsub.DOMAIN (XEP-0060): users, admins, nobody, or off for no service.",
        "Administrators (admins) may do with every node what its owners may. What users publish on their own accounts is not affected.";
    Messages Detail Restart pubsub_nodes_max: u64, Kind::Count { min: 0, max: 1_000, unit: "nodes" }, "100",
        "Nodes of the publish-subscribe service that one user may own; administrators may own any number.",
        "";
    Messages Main Restart archive: bool, Kind::Switch, "true",
        "Keep messages after they are delivered; when false only what waits for delivery is kept.",
        "";
    Messages Detail Reload archive_days: u64, Kind::Count { min: 0, max: 36_500, unit: "days" }, "0",
        "Days that a delivered message is kept; 0 for ever.",
        "What has not been delivered is kept however old it is. Only with archive.";

    Messages Detail Reload archive_sweep_users_per_second: u64, Kind::Count { min: 1, max: 100_000, unit: "users" }, "50",
        "Users whose archives are looked at each second for messages older than archive_days, on the whole host.",
        "A round over all users begins an hour after the last one has ended; at 50 a second it takes 6 hours for a million.";

    // Files that users upload.
    Files Main Restart upload: Vec<SocketAddr>, Kind::Listeners, "off",
        "Address for uploads and downloads of files by HTTPS (XEP-0363); may be given several times.",
        "Clients find the service at upload.DOMAIN; files are in the folder upload of the data folder. It is served with the \
         certificates of the clients' listeners.";
    Files Detail Restart upload_proxied: Vec<SocketAddr>, Kind::Listeners, "off",
        "The same in the clear, for a proxy in front that does TLS; may be given several times.",
        "It has to be loopback, or --i-know, and upload_url says where the proxy is. The proxy limits the connections of an address: \
         those of this machine are not counted.";
    Files Main Restart upload_url: String, Kind::UrlOrNone, "",
        "Where clients reach upload or the proxy in front of upload_proxied; when empty, https://DOMAIN:PORT/ of upload.",
        "A domain of its own keeps what users upload apart from pages (XEP-0363 9).";
    Files Main Restart upload_file_bytes_max: u64, Kind::Bytes { min: 1, max: 1_024 * GIB }, "100MiB",
        "Longest file that a user may upload.",
        "Clients are told.";
    Files Detail Restart upload_bytes_day_max: u64, Kind::Bytes { min: 0, max: 1_024 * GIB }, "2GiB",
        "Bytes that one user may upload in a day; 0 is no limit.",
        "At least upload_file_bytes_max. A day's worth may come at once. What is asked for counts, whether it is uploaded or not.";
    Files Detail Restart upload_files_day_max: u64, Kind::Count { min: 0, max: 1_000_000, unit: "files" }, "1000",
        "Files that one user may upload in a day; 0 is no limit.",
        "";
    Files Detail Restart upload_slots_max: u64, Kind::Count { min: 1, max: UPLOAD_SLOTS_MAX as u64, unit: "slots" }, "50",
        "Files that one user may ask to upload within upload_slot_seconds.",
        "";
    Files Detail Restart upload_slot_seconds: Duration, Kind::Seconds { min: 10, max: DAY }, "5m",
        "Time in which an upload has to begin that was asked for.",
        "";
    Files Main Restart upload_days: u64, Kind::Count { min: 1, max: 36_500, unit: "days" }, "30",
        "Days for which an uploaded file is kept.",
        "It goes with its owner's account, and earlier where its sender has said so.";
    Files Main Restart upload_bytes_max: u64, Kind::Bytes { min: MIB, max: 1_048_576 * GIB }, "10GiB",
        "Bytes of all uploaded files on the disk; more are refused with 507.",
        "Files are also refused where they would leave less than twice free_bytes_min: the rest is for messages.";
    Files Detail Restart upload_connections_max: u64, Kind::Count { min: 8, max: 10_000, unit: "connections" }, "200",
        "Connections of uploads and downloads at once, a listener.",
        "For one more, one gives way: of the address that has most, the one that has stood still longest. Each takes two descriptors.";
    Files Detail Restart upload_per_address_max: u64, Kind::Count { min: 0, max: 10_000, unit: "connections" }, "20",
        "Connections of uploads and downloads that one IP address (IPv6: /64) may have at once; 0 is no limit.",
        "Those of this machine are not counted.";

    // Bytes from one client to another.
    Files Main Restart bytestreams: Vec<SocketAddr>, Kind::Listeners, "off",
        "Address for bytestreams of clients that cannot reach each other, by SOCKS5 (XEP-0065); may be given several times.",
        "Clients find the proxy at proxy.DOMAIN, and only users of this server begin streams. Bytes pass as they are sent: clients \
         encrypt them, or nobody does.";
    Files Main Restart bytestreams_host: String, Kind::HostOrNone, "",
        "Where clients reach bytestreams; when empty, its first address, or DOMAIN if that is a wildcard.",
        "A port is needed only where clients see another one. The name needs a record in the DNS.";
    Files Detail Restart bytestreams_max: u64, Kind::Count { min: 1, max: 10_000, unit: "streams" }, "200",
        "Bytestreams at once.",
        "Each takes two descriptors, 32 KiB, and up to 2 MiB of the kernel's memory while its receiver is slow.";
    Files Detail Restart bytestreams_per_user_max: u64, Kind::Count { min: 1, max: 10_000, unit: "streams" }, "5",
        "Bytestreams that one user may have begun at once.",
        "";
    Files Detail Restart bytestreams_user_bytes_per_second_max: u64, Kind::Bytes { min: 0, max: 1_024 * GIB }, "10MiB",
        "Bytes a second of all bytestreams that one user has begun, both ways; 0 is no limit.",
        "At least 16KiB: less than that is one piece a second.";
    Files Detail Restart bytestreams_idle_seconds: Duration, Kind::Seconds { min: 10, max: DAY }, "5m",
        "Time after which a bytestream ends in which no byte has moved.",
        "";
    Files Detail Restart bytestreams_waiting_max: u64, Kind::Count { min: 8, max: 100_000, unit: "connections" }, "500",
        "Connections of bytestreams that have not begun.",
        "For one more, one gives way: of the address that has most, the one that has waited longest.";
    Files Detail Restart bytestreams_per_address_max: u64, Kind::Count { min: 0, max: 10_000, unit: "connections" }, "20",
        "Of these, connections that one IP address (IPv6: /64) may have; 0 is no limit.",
        "Where a network hides behind one address, they are of all of its users.";

    // Commits and disk space.
    Store Detail Reload cached_users_max: u64, Kind::Count { min: 16, max: 10_000_000, unit: "users" }, "20000",
        "Users whose roster and figures of waiting messages a shard keeps in memory at once.",
        "";
    Store Detail Reload cache_seconds: Duration, Kind::Seconds { min: 1, max: DAY }, "30",
        "Time that an idle user's roster and figures of waiting messages stay in memory.",
        "";
    Store Detail Restart store_cache_bytes: u64, Kind::Bytes { min: MIB, max: 64 * GIB }, "8MiB",
        "Blocks of tables kept in memory for reads.",
        "Logins and history read them; the kernel keeps the files beside, so that more saves CPU, seldom a disk access.";
    Store Detail Reload housekeeping: bool, Kind::Switch, "true",
        "Merge tables, and look for archived messages that are too old, and for invitations and registrations for pushes that are over.",
        "While it is off, tables are merged all the same when commits would slow down otherwise. A merge under way is finished.";
    Store Detail Reload store_queue_bytes_max: u64, Kind::Bytes { min: 64 * KIB, max: GIB }, "8MiB",
        "Bytes of a shard's writes that may wait for the store before it reads nobody meanwhile.",
        "";
    Store Detail Reload commit_group_bytes_max: u64, Kind::Bytes { min: 64 * KIB, max: 256 * MIB }, "4MiB",
        "Most bytes of writes that one fsync carries.",
        "More bytes a group means more throughput and longer waits.";
    Store Detail Restart reserve_bytes: u64, Kind::Bytes { min: 0, max: 16 * GIB }, "64MiB",
        "Size of the reserve file that is given up on a full disk so that commits under way get through.",
        "At least commit_group_bytes_max, or 0 for none.";
    Store Detail Reload free_bytes_min: u64, Kind::Bytes { min: 0, max: 1_024 * GIB }, "256MiB",
        "Free disk space below which new messages are refused with `<resource-constraint/>`.",
        "They are accepted again with a quarter more. Merging tables needs 0.7 GB besides, and up to 2.6 GB to cost least: docs/decisions/0001-storage-engine.md.";

    // Activity recorder.
    Recorder Detail Restart recorder: bool, Kind::Switch, "true",
        "Record what host and server do, every second, into the folder recorder of the data folder.",
        "Read it with `throng sar --data DATA`; see docs/recorder.md.";
    Recorder Detail Restart recorder_bytes_max: u64, Kind::Bytes { min: 4 * MIB, max: 64 * GIB }, "64MiB",
        "Most bytes of all its files together; the oldest seconds go.",
        "The default holds a day: of up to 16 busy shards in full; of 64 busy ones the newest 3 hours, and the rest with single shards and threads every ten seconds only (all in full: 224MiB).";

    // Logs.
    Log Main Reload log_level: LogLevel, Kind::Choice(LogLevel::WORDS), "info",
        "How much is logged, to standard error.",
        "info tells what happened, failed logins and orders of operators included; debug adds logins that succeed and why \
         connections were refused, trace each connection. Message bodies, passwords and keys are in no log at any level.";
    Log Detail Restart log_format: LogFormat, Kind::Choice(LogFormat::WORDS), "human",
        "Log lines for people, or one JSON object a line.",
        "";
}

#[cfg(test)]
mod tests;
