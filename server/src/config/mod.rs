//! Configuration: one table of options, four sources, one typed result.
//!
//! ```text
//! flags > THRONG_* > throng.toml > default      table: type, unit, range
//!            \___________|___________/                    |
//!                     source  ----------->  Config  <--- kind
//!                                             |
//!                          check: rules between options, Problems with file, line, key
//! ```
//!
//! While the server runs, [`Knobs`] layers the operator's values over it.
//!
//! This module knows the operator's options; it never learns how the server implements them. It
//! opens no file except the configuration file.

pub mod check;
pub mod field_name;
pub mod kind;
pub mod knobs;
pub mod page;
pub mod prefix;
pub mod push;
pub mod source;
pub mod table;

use std::net::SocketAddr;
use std::path::PathBuf;

use throng_engine::extension::Rule;

pub use check::{Problem, Problems, Source};
pub use kind::{AskedBy, Kind, read_domain};
pub use knobs::Knobs;
pub use source::{Environment, Flags};
pub use table::{
    AcmeChallenge, BareDelivery, Change, ClientName, Config, DriverChoice, LogFormat, LogLevel, NodeMakers,
    PushDetails, RENAMED, Registration, ResourceConflict, RoomMakers, Row, SCRAM_HASHES, Section, TABLE, TlsVersion,
    UserInvitations,
};

/// The configuration file in the data folder, read if no other is named.
pub const FILE_NAME: &str = "throng.toml";

/// The configuration file of the host, as packages have it: read if neither a file nor a data
/// folder is named.
pub const SYSTEM_FILE: &str = "/etc/throng/throng.toml";

/// A configuration and the source of each value.
#[derive(Clone, PartialEq, Debug)]
pub struct Loaded {
    /// The values.
    pub config: Config,
    /// The source of each value, in the order of [`TABLE`].
    pub sources: Vec<Source>,
    /// The file that was read, if any.
    pub file: Option<PathBuf>,
    /// Suspicious settings that do not prevent a start.
    pub warnings: Vec<String>,
    /// The given texts of each option, in the same order.
    texts: Vec<Vec<String>>,
    inputs: Inputs,
}

/// The inputs of a configuration, for loading it again.
#[derive(Clone, PartialEq, Debug)]
struct Inputs {
    flags: Flags,
    environment: Environment,
    config_file: Option<PathBuf>,
}

/// A listener to open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listener {
    /// Address to bind; port 0 lets the system choose.
    pub address: SocketAddr,
    /// Whether TLS begins with the first byte.
    pub direct_tls: bool,
    /// Whether a proxy connects here and sends a PROXY protocol header.
    pub proxied: bool,
    /// Whether components connect here (XEP-0114).
    pub component: bool,
    /// Whether clients use HTTP here.
    pub http: bool,
    /// The option that names it: `c2s_tls`.
    pub key: &'static str,
    /// False for a default address that the machine may lack: a failed bind is then only logged.
    pub must: bool,
}

/// Combines the sources.
///
/// The file is that of the flag (`config_file`), else that of `THRONG_CONFIG`, else
/// [`SYSTEM_FILE`] if it exists and no data folder is named, else `throng.toml` in the data folder
/// if it exists.
///
/// # Errors
/// All faults, each with its place.
pub fn load(flags: &Flags, environment: &Environment, config_file: Option<PathBuf>) -> Result<Loaded, Problems> {
    match load_anyway(flags, environment, config_file) {
        (loaded, problems) if problems.0.is_empty() => Ok(loaded),
        (_, problems) => Err(problems),
    }
}

/// Loads despite faults: an option with a value that is not allowed gets its default. For display,
/// not for serving.
pub fn load_anyway(flags: &Flags, environment: &Environment, config_file: Option<PathBuf>) -> (Loaded, Problems) {
    let mut problems = Vec::new();
    let inputs = Inputs { flags: flags.clone(), environment: environment.clone(), config_file: config_file.clone() };
    let named = config_file.or_else(|| environment.get("THRONG_CONFIG").map(PathBuf::from));
    let named = named.or_else(|| system_file(flags, environment));
    let file = named.clone().or_else(|| found_file(flags, environment));
    let values = match &file {
        Some(path) => source::read_file(path, &mut problems),
        None => source::FileValues::new(),
    };
    if let (None, Some(given)) = (&named, values.get("data")) {
        let reason =
            format!("{}: a file in the data folder cannot change the data folder; pass it with --config", given.source);
        problems.push(Problem::Clash { key: "data", reason });
    }
    let mut given: Vec<source::Given> =
        TABLE.iter().map(|row| source::pick(row, flags, environment, &values)).collect();
    let texts = |given: &[source::Given]| given.iter().map(|given| given.parts.clone()).collect::<Vec<_>>();
    let sources = |given: &[source::Given]| given.iter().map(|given| given.source.clone()).collect::<Vec<_>>();
    let config = match Config::read(&texts(&given)) {
        Ok(config) => {
            problems.extend(check::clashes(&config));
            config
        }
        Err(bad) => {
            let before = sources(&given);
            for bad in bad {
                let at = TABLE.iter().position(|row| row.key == bad.key).expect("a key of the table");
                given[at] = source::default(&TABLE[at], environment);
                problems.push(not_allowed(bad, &before));
            }
            Config::read(&texts(&given)).expect("defaults are allowed")
        }
    };
    let (texts, sources) = (texts(&given), sources(&given));
    let mut warnings = source::strange_variables(environment);
    warnings.extend(source::former_names(flags, environment, &values));
    (Loaded { config, sources, file, warnings, texts, inputs }, Problems(problems))
}

/// A value that its row does not allow, with its source; the sources are in the order of [`TABLE`].
fn not_allowed(bad: table::NotAllowed, sources: &[Source]) -> Problem {
    let (row, source) = TABLE.iter().zip(sources).find(|(row, _)| row.key == bad.key).expect("a key of the table");
    Problem::Value { source: source.clone(), key: row.key, found: bad.found, allowed: row.kind.allowed() }
}

/// The host's file, if it exists and no data folder is named.
fn system_file(flags: &Flags, environment: &Environment) -> Option<PathBuf> {
    let has_folder = flags.contains_key("data") || environment.contains_key("THRONG_DATA");
    let path = PathBuf::from(SYSTEM_FILE);
    (!has_folder && path.exists()).then_some(path)
}

/// The file in the data folder, if it exists.
fn found_file(flags: &Flags, environment: &Environment) -> Option<PathBuf> {
    let data = source::pick(table::row("data")?, flags, environment, &source::FileValues::new());
    let path = PathBuf::from(data.parts.first()?).join(FILE_NAME);
    // A dangling link is a file that cannot be read, not an absent one.
    path.symlink_metadata().is_ok().then_some(path)
}

impl Loaded {
    /// The source of the value of `key`; [`Source::Default`] for a key that the table lacks.
    pub fn source(&self, key: &str) -> &Source {
        let at = TABLE.iter().position(|row| row.key == key);
        at.and_then(|at| self.sources.get(at)).unwrap_or(&Source::Default)
    }

    /// Loads again from the same flags and environment and the current file.
    ///
    /// # Errors
    /// As [`load`]; the values in use do not change.
    pub fn again(&self) -> Result<Loaded, Problems> {
        load(&self.inputs.flags, &self.inputs.environment, self.inputs.config_file.clone())
    }

    /// The listeners to open, in order.
    pub fn listeners(&self) -> Vec<Listener> {
        let of = |addresses: &[SocketAddr], key: &'static str, direct_tls: bool, proxied: bool| -> Vec<Listener> {
            let given = *self.source(key) != Source::Default;
            let must = |address: &SocketAddr| given || address.is_ipv4();
            let (component, http) = (key == "component", matches!(key, "http" | "https"));
            let of =
                |a: &SocketAddr| Listener { address: *a, direct_tls, proxied, component, http, key, must: must(a) };
            addresses.iter().map(of).collect()
        };
        let c = &self.config;
        let components: &[SocketAddr] = if c.components.is_empty() { &[] } else { &c.component };
        [
            of(&c.c2s, "c2s", false, false),
            of(&c.c2s_tls, "c2s_tls", true, false),
            of(&c.c2s_proxied, "c2s_proxied", false, true),
            of(&c.c2s_tls_proxied, "c2s_tls_proxied", true, true),
            of(&c.http, "http", false, false),
            of(&c.https, "https", true, false),
            of(components, "component", false, false),
        ]
        .concat()
    }
}

impl Config {
    /// Path of the control socket: the option's, else `throng.sock` in the data folder.
    pub fn admin_socket_path(&self) -> PathBuf {
        self.admin_socket.clone().unwrap_or_else(|| self.data.join("throng.sock"))
    }

    /// Number of shards: the option's value, or one per core available to the process (by its
    /// affinity mask, or the quota of its control group).
    pub fn shard_count(&self) -> u16 {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from) as u64;
        u16::try_from(self.shards.unwrap_or_else(cores)).unwrap_or(u16::MAX)
    }

    /// The rule for in-band registration; `None` if it is disabled.
    pub fn rule(&self) -> Option<Rule> {
        match self.registration {
            Registration::Closed => self.open_registration.then_some(Rule::Open),
            Registration::Open => Some(Rule::Open),
            Registration::Invite => Some(Rule::Invite),
            Registration::Approval => Some(Rule::Approval),
        }
    }

    /// The address of a page for invited users, if there is one.
    pub fn page(&self) -> Option<Box<str>> {
        (!self.invitation_page.is_empty()).then(|| self.invitation_page.as_str().into())
    }

    /// Whether files can be uploaded: an address is configured, and the extension is enabled.
    pub fn takes_uploads(&self) -> bool {
        let listens = !self.upload.is_empty() || !self.upload_proxied.is_empty();
        listens && !self.without.contains(&"upload")
    }

    /// The domain of the upload service.
    pub fn upload_domain(&self) -> String {
        format!("upload.{}", self.domain)
    }

    /// The ways to prove control of a name for which there is a listener, the most promising first:
    /// one with a port that the authority connects to.
    pub fn acme_challenges(&self) -> Vec<AcmeChallenge> {
        let tls = || [&self.c2s_tls, &self.https, &self.c2s_tls_proxied].into_iter().flatten();
        let http = || self.acme_http.iter().chain(&self.http);
        let may = |way| self.acme_challenge == AcmeChallenge::Auto || self.acme_challenge == way;
        let mut ways = Vec::new();
        if may(AcmeChallenge::Tls) && tls().next().is_some() {
            ways.push((tls().any(|address| address.port() == 443), AcmeChallenge::Tls));
        }
        if may(AcmeChallenge::Http) && http().next().is_some() {
            ways.push((!self.acme_http.is_empty(), AcmeChallenge::Http));
        }
        ways.sort_by_key(|(promising, _)| !promising);
        ways.into_iter().map(|(_, way)| way).collect()
    }

    /// The names, in ASCII, of these domains that certificates are obtained for, and of hosts of
    /// addresses that clients are given and that this server serves over TLS itself.
    pub fn acme_names<'a>(&self, domains: impl Iterator<Item = &'a str>) -> Vec<String> {
        let mut names: Vec<String> =
            domains.filter(|domain| check::is_public_name(domain)).filter_map(kind::domain_to_ascii).collect();
        for (url, listens) in [
            (&self.upload_url, !self.upload.is_empty()),
            (&self.websocket_url, !self.https.is_empty()),
            (&self.bosh_url, !self.https.is_empty()),
        ] {
            let authority = url.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
            let host = if authority.starts_with('[') { "" } else { authority.split(':').next().unwrap_or_default() };
            let host = host.to_ascii_lowercase();
            let served = |domain: &str| kind::domain_to_ascii(domain).is_some_and(|own| own == host);
            let is_domain = served(&self.domain) || self.virtual_hosts.iter().any(|other| served(&other.0));
            if listens && !host.is_empty() && check::is_public_name(&host) && !is_domain && !names.contains(&host) {
                names.push(host);
            }
        }
        names
    }

    /// Whether there is a bytestreams proxy: an address is configured, and the extension is
    /// enabled.
    pub fn relays_bytestreams(&self) -> bool {
        !self.bytestreams.is_empty() && !self.without.contains(&"bytestreams")
    }

    /// The domain of the bytestreams proxy.
    pub fn bytestreams_domain(&self) -> String {
        format!("proxy.{}", self.domain)
    }

    /// Whether there is a publish-subscribe service.
    pub fn has_nodes(&self) -> bool {
        self.pubsub != NodeMakers::Off && !self.without.contains(&"pubsub")
    }

    /// The domain of the publish-subscribe service.
    pub fn pubsub_domain(&self) -> String {
        format!("pubsub.{}", self.domain)
    }

    /// The domain of the rooms for group chat.
    pub fn rooms_domain(&self) -> String {
        format!("conference.{}", self.domain)
    }

    /// File of the token for the operator's HTTP interface: the option's, else `http.token` in the
    /// data folder, which the server creates.
    pub fn admin_http_token_path(&self) -> PathBuf {
        self.admin_http_token.clone().unwrap_or_else(|| self.data.join("http.token"))
    }
}

#[cfg(test)]
mod tests {
    use super::table::Renamed;
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn flags(pairs: &[(&'static str, &str)]) -> Flags {
        pairs.iter().map(|(key, value)| (*key, vec![(*value).to_owned()])).collect()
    }

    fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("server.toml");
        std::fs::write(&path, text).expect("a file");
        (folder, path)
    }

    #[test]
    fn a_flag_beats_the_environment_beats_the_file_beats_the_default() {
        let (_folder, path) = file("shards = 2\nbacklog = 200\nwaiting_messages_max = 30\n");
        let environment = environment(&[("THRONG_SHARDS", "3"), ("THRONG_BACKLOG", "300")]);
        let loaded = load(&flags(&[("shards", "4")]), &environment, Some(path.clone())).expect("good");
        assert_eq!(
            (loaded.config.shards, loaded.config.backlog, loaded.config.waiting_messages_max),
            (Some(4), 300, 30)
        );
        assert_eq!(loaded.source("shards"), &Source::Flag("shards".into()));
        assert_eq!(loaded.source("backlog"), &Source::Variable("THRONG_BACKLOG".into()));
        assert_eq!(loaded.source("waiting_messages_max"), &Source::File(path, 3));
        assert_eq!(loaded.source("domain"), &Source::Default);
        assert_eq!(loaded.config.domain, "localhost");
    }

    #[test]
    fn problems_name_file_line_key_found_allowed_and_neighbour_all_at_once() {
        let (_folder, path) =
            file("# comment\nstanza_bytes_max = 5\n\nwaiting_message_max = 3\ndriver = [\"epoll\"]\n");
        let problems = load(&Flags::new(), &environment(&[("THRONG_SHARDS", "0")]), Some(path.clone())).unwrap_err();
        let at = path.display();
        let said: Vec<String> = problems.0.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 4, "{said:?}");
        let has = |text: String| assert!(said.iter().any(|line| line.starts_with(&text)), "{text} in {said:?}");
        has(format!("{at}:4: unknown option `waiting_message_max`; did you mean `waiting_messages_max`?"));
        has(format!("{at}:5: driver cannot be `array`; allowed: auto or uring or epoll"));
        has(format!("{at}:2: stanza_bytes_max cannot be `5`; allowed: 10000 to 16MiB"));
        has("environment THRONG_SHARDS: shards cannot be `0`; allowed: auto, or 1 to 4096 shards".into());
    }

    #[test]
    fn accounts_are_held_to_the_usual_rates_unless_the_operator_says_otherwise() {
        use throng_engine::session::pace::Allowances;
        let config = load(&Flags::new(), &Environment::new(), None).expect("good").config;
        let Allowances { ordinary, busy } = Allowances::USUAL;
        let rates = [config.account_stanzas_per_second, config.account_stanzas_burst];
        assert_eq!(rates, [ordinary.a_second, ordinary.burst].map(u64::from));
        let rates = [config.busy_stanzas_per_second, config.busy_stanzas_burst];
        assert_eq!(rates, [busy.a_second, busy.burst].map(u64::from));
    }

    #[test]
    fn a_file_that_is_not_toml_or_not_there_is_named_with_its_line() {
        let (folder, path) = file("shards = 1\nshards 2\n");
        let said = load(&Flags::new(), &Environment::new(), Some(path.clone())).unwrap_err().to_string();
        assert!(said.starts_with(&format!("{}:2: not TOML: ", path.display())), "{said}");
        let gone = folder.path().join("gone.toml");
        let said = load(&Flags::new(), &Environment::new(), Some(gone.clone())).unwrap_err().to_string();
        assert!(said.starts_with(&format!("{}: cannot be read: ", gone.display())), "{said}");
    }

    #[test]
    fn toml_values_of_every_type_are_understood() {
        let text = "c2s = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\nc2s_tls = []\nplain_auth = true\nstanza_bytes_max = \"64KiB\"\n\
                    tls_version_min = 1.3\nbacklog = 1_000\nidle_timeout_seconds = \"10m\"\n";
        let (_folder, path) = file(text);
        let config = load(&Flags::new(), &Environment::new(), Some(path)).expect("good").config;
        assert_eq!((config.c2s.len(), config.c2s_tls.len(), config.plain_auth), (2, 0, true));
        assert_eq!((config.stanza_bytes_max, config.backlog), (65_536, 1_000));
        assert_eq!(config.tls_version_min, TlsVersion::V13);
        assert_eq!(config.idle_timeout_seconds.as_secs(), 600);
    }

    #[test]
    fn plain_and_open_registration_refuse_public_listeners_unless_i_know() {
        for key in ["plain_auth", "open_registration"] {
            for (listener, address) in [("c2s", "0.0.0.0:5222"), ("c2s_tls", "[::]:5223"), ("c2s", "192.0.2.1:5222")] {
                let public = flags(&[(key, "true"), (listener, address)]);
                let problems = load(&public, &Environment::new(), None).unwrap_err();
                assert!(matches!(&problems.0[..], [Problem::Clash { key: at, .. }] if *at == key), "{problems}");
                assert!(problems.to_string().contains(address) && problems.to_string().contains("--i-know"));
                let mut known = public.clone();
                known.insert("i_know", vec!["true".into()]);
                assert!(load(&known, &Environment::new(), None).is_ok());
            }
            let loopback = flags(&[(key, "true"), ("c2s", "127.8.9.10:5222"), ("c2s_tls", "[::ffff:127.0.0.1]:5223")]);
            assert!(load(&loopback, &Environment::new(), None).is_ok(), "all of 127/8 is loopback");
        }
    }

    /// Strangers cannot reach a loopback address directly, only through a proxy; the message states
    /// that.
    #[test]
    fn registration_behind_a_proxy_is_refused_in_true_words_and_with_what_to_set() {
        let said = |pairs: &[(&'static str, &str)]| {
            let all = [&[("registration", "open"), ("c2s", "127.0.0.1:5222"), ("c2s_tls", "off")][..], pairs].concat();
            load(&flags(&all), &Environment::new(), None).map(|_| ()).map_err(|problems| problems.to_string())
        };
        assert_eq!(said(&[]), Ok(()));
        let perhaps = "registration: refused: a proxy may forward strangers to 127.0.0.1:25280 \
                       (http), and anyone could create accounts; to allow it, pass --i-know";
        let counted = ", and set http_forwarded, so that limits apply to each client's own address";
        assert_eq!(said(&[("http", "127.0.0.1:25280")]), Err(format!("{perhaps}{counted}")));
        assert_eq!(said(&[("http", "127.0.0.1:25280"), ("http_forwarded", "true")]), Err(perhaps.to_owned()));
        let known = [("http", "127.0.0.1:25280"), ("http_forwarded", "true"), ("i_know", "true")];
        assert_eq!(said(&known), Ok(()));
        let forwards = said(&[("c2s_proxied", "127.0.0.1:25222")]).unwrap_err();
        assert!(
            forwards.starts_with("registration: refused: a proxy may forward strangers to 127.0.0.1:25222, "),
            "{forwards}"
        );
        let reached = said(&[("https", "192.0.2.1:443"), ("http", "127.0.0.1:25280")]).unwrap_err();
        assert!(reached.starts_with("registration: refused: 192.0.2.1:443 is not loopback, "), "{reached}");
    }

    #[test]
    fn what_is_wrong_can_be_shown_with_all_values() {
        let (loaded, problems) =
            load_anyway(&flags(&[("shards", "no"), ("backlog", "300")]), &Environment::new(), None);
        assert_eq!((loaded.config.shards, loaded.config.backlog), (None, 300));
        assert_eq!((loaded.source("shards"), problems.0.len()), (&Source::Default, 1));
        assert!(problems.to_string().starts_with("flag --shards: shards cannot be `no`"), "{problems}");
        let (loaded, problems) = load_anyway(&flags(&[("tls_key", "/a.pem")]), &Environment::new(), None);
        assert!(loaded.config.tls_key.is_some() && problems.to_string().starts_with("tls_certificate: "), "{problems}");
    }

    #[test]
    fn certificates_are_obtained_for_domains_and_for_hosts_that_this_server_serves() {
        let of = |pairs: &[(&'static str, &str)]| {
            let domain =
                [("domain", "example.org"), ("acme", "you@example.org"), ("virtual_hosts", "m\u{fc}nchen.example")];
            let config = load(&flags(&[&domain, pairs].concat()), &Environment::new(), None).expect("good").config;
            let names = config.acme_names(["example.org", "m\u{fc}nchen.example", "localhost", "[::1]"].into_iter());
            (names.join(" "), config.acme_challenges())
        };
        let (domains, tls, http) = ("example.org xn--mnchen-3ya.example", AcmeChallenge::Tls, AcmeChallenge::Http);
        assert_eq!(of(&[]), (domains.to_owned(), vec![tls]));
        let files = ("upload_url", "https://Files.example.org:5281/");
        assert_eq!(of(&[files, ("upload_proxied", "127.0.0.1:5281")]).0, domains, "its proxy has a certificate");
        assert_eq!(of(&[files, ("upload", "127.0.0.1:5281")]).0, format!("{domains} files.example.org"));
        let urls = [("websocket_url", "wss://web.example.org/ws"), ("bosh_url", "https://web.example.org/bosh")];
        let both = [&urls[..], &[("https", "127.0.0.1:443"), ("acme_http", "127.0.0.1:80")]].concat();
        assert_eq!(of(&both), (format!("{domains} web.example.org"), vec![tls, http]));
        let own = [("websocket_url", "wss://example.org/ws"), ("bosh_url", "https://[::1]/bosh"), both[2], both[3]];
        assert_eq!(of(&own).0, domains);
        assert_eq!(
            of(&[("acme_http", "127.0.0.1:80")]).1,
            [http, tls],
            "the port that the authority connects to first"
        );
        assert_eq!(of(&[("http", "127.0.0.1:5280")]).1, [tls, http]);
        assert_eq!(of(&[("http", "127.0.0.1:5280"), ("acme_challenge", "http-01")]).1, [http]);
    }

    #[test]
    fn rules_between_options_are_enforced() {
        let refused = |pairs: &[(&'static str, &str)], key: &str| {
            let problems = load(&flags(pairs), &Environment::new(), None).unwrap_err();
            assert!(problems.to_string().starts_with(&format!("{key}: ")), "{problems}");
        };
        refused(&[("c2s", "off"), ("c2s_tls", "off")], "c2s");
        refused(&[("c2s", "127.0.0.1:7"), ("c2s_tls", "127.0.0.1:7")], "c2s");
        refused(&[("tls_certificate", "/a.pem")], "tls_key");
        refused(&[("tls_key", "/a.pem")], "tls_certificate");
        for key in ["acme_root", "acme_http"] {
            refused(&[(key, "127.0.0.1:80")], key);
        }
        refused(&[("acme_directory", "staging")], "acme_directory");
        refused(&[("acme_challenge", "http-01")], "acme_challenge");
        let acme = [("domain", "example.org"), ("acme", "you@example.org")];
        load(&flags(&acme), &Environment::new(), None).expect("this is all that it needs");
        refused(&acme[1..], "acme");
        refused(&[acme[1], ("domain", "192.0.2.1")], "acme");
        refused(&[acme[0], acme[1], ("tls_certificate", "/a.pem"), ("tls_key", "/a.pem")], "acme");
        refused(&[acme[0], acme[1], ("c2s_tls", "off")], "acme_challenge");
        refused(&[acme[0], acme[1], ("acme_challenge", "http-01")], "acme_challenge");
        refused(&[acme[0], acme[1], ("acme_http", "127.0.0.1:5222")], "c2s");
        refused(&[("stanza_bytes_max", "4MiB")], "outbound_bytes_max");
        refused(&[("outbound_bytes_soft", "2MiB")], "outbound_bytes_soft");
        refused(&[("outbound_bytes_soft", "3MiB")], "outbound_bytes_soft");
        refused(&[("reserve_bytes", "1MiB")], "reserve_bytes");
        refused(
            &[("login_failures_window_seconds", "1"), ("login_failures_per_pair_max", "1001")],
            "login_failures_per_pair_max",
        );
        refused(
            &[("login_failures_window_seconds", "1"), ("login_failures_per_account_max", "1001")],
            "login_failures_per_account_max",
        );
        refused(
            &[("login_failures_window_seconds", "1"), ("login_failures_per_address_max", "1001")],
            "login_failures_per_address_max",
        );
        refused(&[("archive", "false"), ("archive_days", "7")], "archive_days");
        refused(&[("registration", "open"), ("c2s", "192.0.2.1:5222")], "registration");
        refused(&[("registration", "approval"), ("c2s", "192.0.2.1:5222")], "registration");
        refused(&[("registration", "invite"), ("open_registration", "true")], "open_registration");
        refused(&[("registration", "invite"), ("without", "invite")], "registration");
        refused(&[("registration", "approval"), ("without", "register")], "registration");
        refused(&[("inviters", "romeo@elsewhere.example")], "inviters");
        refused(&[("busy_accounts", "romeo@elsewhere.example")], "busy_accounts");
        refused(&[("account_stanzas_burst", "19")], "account_stanzas_burst");
        refused(&[("upload_proxied", "192.0.2.1:1"), ("upload_url", "https://a/")], "upload_proxied");
        refused(&[("upload_proxied", "127.0.0.1:1")], "upload_url");
        refused(&[("upload_bytes_day_max", "1MiB")], "upload_bytes_day_max");
        refused(&[("upload", "127.0.0.1:1"), ("domain", "a.example"), ("virtual_hosts", "upload.a.example")], "upload");
        refused(&[("domain", "a.example"), ("virtual_hosts", "pubsub.a.example")], "pubsub");
        refused(&[("domain", "a.example"), ("virtual_hosts", "conference.a.example")], "rooms");
        let allowed = |pairs: &[(&'static str, &str)]| {
            load(&flags(pairs), &Environment::new(), None).expect("these go together");
        };
        allowed(&[("registration", "invite"), ("c2s", "192.0.2.1:5222")]);
        allowed(&[("registration", "open"), ("open_registration", "true")]);
        allowed(&[("outbound_bytes_soft", "1048575")]);
        allowed(&[("reserve_bytes", "0")]);
        allowed(&[("reserve_bytes", "4MiB")]);
        allowed(&[("login_failures_window_seconds", "1"), ("login_failures_per_account_max", "1000")]);
        allowed(&[("archive", "false")]);
        allowed(&[("domain", "a.example"), ("virtual_hosts", "pubsub.a.example"), ("pubsub", "off")]);
        allowed(&[("domain", "a.example"), ("virtual_hosts", "conference.a.example"), ("rooms", "off")]);
        allowed(&[("upload_proxied", "127.0.0.1:1"), ("upload_url", "https://a/")]);
        assert!(load(&flags(&[("c2s", "127.0.0.1:0"), ("c2s_tls", "127.0.0.1:0")]), &Environment::new(), None).is_ok());
    }

    #[test]
    fn extensions_are_switched_off_by_name_from_every_source() {
        let (_folder, path) = file("without = [\"last\", \"csi\"]\n");
        let of = |flags: &Flags, environment: &Environment| {
            load(flags, environment, Some(path.clone())).expect("good").config.without
        };
        assert_eq!(of(&Flags::new(), &Environment::new()), ["last", "csi"]);
        assert_eq!(
            of(&Flags::new(), &environment(&[("THRONG_WITHOUT", "blocking, carbons")])),
            ["carbons", "blocking"]
        );
        let several = Flags::from([("without", vec!["csi".to_owned(), "blocking,last".to_owned()])]);
        assert_eq!(of(&several, &Environment::new()), ["last", "csi", "blocking"]);
        let (_folder, path) = file("without = []\n");
        assert!(load(&Flags::new(), &Environment::new(), Some(path)).expect("good").config.without.is_empty());

        // For an unknown name, all known ones are listed; features required by RFC 6121 are not
        // among them.
        for unknown in ["carbns", "csi,carbns", "roster", "session"] {
            let said = load(&flags(&[("without", unknown)]), &Environment::new(), None).unwrap_err().to_string();
            let sentence = format!(
                "flag --without: without cannot be `{unknown}`; allowed: any of {}, separated by commas; empty for \
                 none",
                throng_engine::extension::OPTIONAL.join(", ")
            );
            assert_eq!(said, sentence);
        }
        let registers = flags(&[("without", "register"), ("open_registration", "true")]);
        let said = load(&registers, &Environment::new(), None).unwrap_err().to_string();
        assert!(said.starts_with("open_registration: has no effect"), "{said}");
    }

    #[test]
    fn the_data_folder_is_found_from_any_working_folder_and_its_file_is_read() {
        let of = |pairs: &[(&str, &str)]| load(&Flags::new(), &environment(pairs), None).expect("good").config.data;
        assert_eq!(of(&[("XDG_DATA_HOME", "/x"), ("HOME", "/h")]), PathBuf::from("/x/throng"));
        assert_eq!(of(&[("XDG_DATA_HOME", "relative"), ("HOME", "/h")]), PathBuf::from("/h/.local/share/throng"));
        assert_eq!(of(&[]), PathBuf::from("throng-data"));

        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join(FILE_NAME), "domain = \"example.org\"\n").expect("a file");
        let data = folder.path().to_str().expect("a name");
        let loaded = load(&flags(&[("data", data)]), &Environment::new(), None).expect("good");
        assert_eq!(loaded.config.domain, "example.org");
        assert_eq!(loaded.config.admin_socket_path(), folder.path().join("throng.sock"));
        std::fs::write(folder.path().join(FILE_NAME), "data = \"/elsewhere\"\n").expect("a file");
        assert!(load(&flags(&[("data", data)]), &Environment::new(), None).is_err());
    }

    #[test]
    fn a_service_that_is_asked_about_channels_is_named_whole() {
        let of = |more: &[(&'static str, &str)]| {
            let all = [&[("http", "127.0.0.1:1"), ("notify_ask", "app.")][..], more].concat();
            load(&flags(&all), &Environment::new(), None).map_err(|problems| problems.to_string())
        };
        for url in ["http://127.0.0.1:8080/", "http://localhost?of=channels", "https://app.example/ask"] {
            of(&[("notify_ask_url", url)]).unwrap_or_else(|problems| panic!("{problems}"));
        }
        for (url, why) in [
            ("", "notify_ask_url is empty"),
            ("http://app.example/", "readable on the network"),
            ("app.example", "not an HTTP or HTTPS URL"),
            ("ftp://localhost/", "not an HTTP or HTTPS URL"),
            ("http://localhost:1@app.example/", "not an HTTP or HTTPS URL"),
        ] {
            let said = of(&[("notify_ask_url", url)]).map(|_| ()).unwrap_err();
            assert!(said.contains(why), "{url}: {said}");
        }
        let alone = flags(&[("http", "127.0.0.1:1"), ("notify", "any"), ("notify_ask_url", "https://app.example/")]);
        let said = load(&alone, &Environment::new(), None).unwrap_err().to_string();
        assert!(said.starts_with("notify_ask_url: has no effect"), "{said}");
    }

    #[test]
    fn a_channel_in_memory_has_room_at_usual_sizes() {
        let of = |more: &[(&'static str, &str)]| {
            let own = [("http", "127.0.0.1:1"), ("notify", "any"), ("notify_memory", "live.")];
            load(&flags(&[&own[..], more].concat()), &Environment::new(), None).map_err(|problems| problems.to_string())
        };
        for (shards, bytes, items) in [
            ("1", "16MiB", "100"),
            ("2", "18MiB", "100"),
            ("2", "26MiB", "150"),
            ("2", "16MiB", "50"),
            ("16", "256MiB", "100"),
        ] {
            let more = [("shards", shards), ("notify_memory_bytes_max", bytes), ("notify_items_max", items)];
            of(&more).unwrap_or_else(|problems| panic!("{shards}, {bytes}, {items}: {problems}"));
        }
        for (shards, bytes, least) in [("2", "16MiB", "18MiB"), ("32", "256MiB", "273MiB")] {
            let said = of(&[("shards", shards), ("notify_memory_bytes_max", bytes)]).map(|_| ()).unwrap_err();
            assert!(said.starts_with("notify_memory_bytes_max: is too small") && said.contains(least), "{said}");
        }
    }

    #[test]
    fn a_default_address_may_be_missing_but_a_given_one_must_work() {
        let loaded = load(&flags(&[("c2s_tls", "[::1]:7")]), &Environment::new(), None).expect("good");
        let musts: Vec<(String, bool, bool)> =
            loaded.listeners().iter().map(|l| (l.address.to_string(), l.direct_tls, l.must)).collect();
        let expected = [("127.0.0.1:5222", false, true), ("[::1]:5222", false, false), ("[::1]:7", true, true)];
        assert_eq!(musts, expected.map(|(address, tls, must)| (address.to_owned(), tls, must)));
    }

    /// docs/promise.md: a former name works in every source, and is a warning that names the present
    /// one.
    #[test]
    fn a_former_name_works_and_is_a_warning() {
        let Renamed { old, key, .. } = RENAMED[0];
        let (_folder, path) = file(&format!("{old} = 301\n"));
        let of = |flags: &Flags, environment: &Environment, path: Option<&PathBuf>| {
            let loaded = load(flags, environment, path.cloned()).expect("good");
            (loaded.config.backlog, loaded.source(key).to_string(), loaded.warnings)
        };
        let (none, variable) = (Flags::new(), table::variable(old));
        let by_flag = flags(&[(old, "303")]);
        let by_variable = environment(&[(&*variable, "302")]);
        let warning = |source: &str| {
            format!("{source}: `{old}` is now called `{key}`; version 9.0 will not know the former name")
        };
        let in_file = format!("{}:1", path.display());
        let (flag, named) = ("flag --accept-queue".to_owned(), format!("environment {variable}"));
        assert_eq!(of(&by_flag, &Environment::new(), None), (303, flag.clone(), vec![warning(&flag)]));
        assert_eq!(of(&none, &by_variable, None), (302, named.clone(), vec![warning(&named)]));
        assert_eq!(of(&none, &Environment::new(), Some(&path)), (301, in_file.clone(), vec![warning(&in_file)]));

        // Flags beat variables and these the file, under whichever name; within a source the present
        // name beats the former one.
        let all = of(&by_flag, &by_variable, Some(&path));
        assert_eq!((all.0, all.2.len()), (303, 3));
        let present = environment(&[("THRONG_BACKLOG", "304"), (&*variable, "302")]);
        let both = of(&none, &present, Some(&path));
        assert_eq!((both.0, &*both.1, both.2.len()), (304, "environment THRONG_BACKLOG", 2));
    }

    /// A former name that no row has, or that an option has again, would change what a file means.
    #[test]
    fn former_names_belong_to_one_option_each() {
        for (at, renamed) in RENAMED.iter().enumerate() {
            assert!(TABLE.iter().any(|row| row.key == renamed.key), "{renamed:?}");
            assert!(TABLE.iter().all(|row| row.key != renamed.old), "{renamed:?}");
            assert!(RENAMED[..at].iter().all(|other| other.old != renamed.old), "{renamed:?}");
        }
    }

    #[test]
    fn variables_of_others_are_a_warning() {
        let old =
            load(&Flags::new(), &environment(&[("THRONG_SERVICE_HOST", "x"), ("THRONG_SHARD", "2")]), None).unwrap();
        assert_eq!(old.warnings.len(), 2);
        assert!(
            old.warnings[1].ends_with("did you mean THRONG_SHARDS?") || old.warnings[0].ends_with("THRONG_SHARDS?")
        );
    }
}
