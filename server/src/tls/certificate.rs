//! Certificates and the TLS configurations built from them, replaceable without a restart.
//!
//! All certificates and settings of one load are a *generation*. A connection takes the current
//! generation when it is accepted and keeps it until its handshake is done, so it reports the hash
//! of the certificate that it was shown. Tickets are bound to a generation: after a change of
//! certificate old tickets are rejected, and the client performs a full handshake. So a resumed
//! session, too, belongs to the certificate that its channel binding names (RFC 5929 4.1 requires
//! the client to remember it).

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, ServerConfig};

use super::challenge::{ALPN_ACME, Challenge, is_asked};
use super::clients::{ClientNames, ClientSource, Clients};
use super::pem::{CertificateError, read};
use super::standing::{Host, Standing};
use super::{TlsVersion, x509};
use throng_tls::CapturedSecrets;

/// XEP-0368 2 (8): the protocol of client streams.
const ALPN_CLIENT: &[u8] = b"xmpp-client";
/// This machine's own name (RFC 6761 6.3), for which no authority issues certificates.
pub const LOCALHOST: &str = "localhost";
/// RFC 7301 6.
const ALPN_HTTP: &[u8] = b"http/1.1";

/// The files of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSource {
    /// The server names (SNI) that it is used for, in ASCII; `*.example.org` covers one label. The
    /// first source is also used for all other names.
    pub names: Vec<String>,
    /// PEM file: the server's certificate, followed by the intermediate ones.
    pub chain: PathBuf,
    /// PEM file: the private key (PKCS#8, PKCS#1 or SEC1).
    pub key: PathBuf,
    /// Whether the server created and signed it itself
    /// ([`ensure_self_signed`](super::ensure_self_signed)).
    pub made_here: bool,
}

/// TLS settings of the operator.
#[derive(Clone, Copy, Debug)]
pub struct TlsOptions {
    /// The oldest version accepted. Default: TLS 1.2.
    pub min_version: TlsVersion,
    /// Whether clients get tickets for session resumption (12 hours, keys rotated every 6).
    /// Default: yes.
    pub tickets: bool,
    /// Whether challenges of a certificate authority are answered ([`Certificates::challenge`]).
    /// Default: no.
    pub challenges: bool,
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self { min_version: TlsVersion::V1_2, tickets: true, challenges: false }
    }
}

/// The server's certificates, shared by all threads.
pub struct Certificates {
    sources: Vec<CertificateSource>,
    clients: Option<ClientSource>,
    options: TlsOptions,
    challenge: Option<Arc<Challenge>>,
    current: ArcSwap<Generation>,
}

/// The facts of a certificate that matter for its renewal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Issued {
    /// The beginning of its validity, in seconds since 1970.
    pub from_s: i64,
    /// The end of its validity, in seconds since 1970.
    pub until_s: i64,
    /// The identifier of its authority's key (RFC 5280 4.2.1.1), empty if it has none.
    pub authority_key: Vec<u8>,
    /// The serial number, as encoded in DER.
    pub serial: Vec<u8>,
}

/// The outcome of a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reloaded {
    /// New connections are shown the new certificates.
    Changed,
    /// The files hold the certificates and keys already in use.
    Unchanged,
}

impl Certificates {
    /// Loads all certificates. There must be at least one source.
    ///
    /// # Errors
    /// A file cannot be read, holds no certificate or key, or the two do not match.
    pub fn load(sources: Vec<CertificateSource>, options: TlsOptions) -> Result<Arc<Self>, CertificateError> {
        Self::load_with(sources, None, options)
    }

    /// The same, and requests client certificates of these authorities.
    ///
    /// # Errors
    /// As for [`load`](Self::load), also for the authorities.
    pub fn load_with(
        sources: Vec<CertificateSource>,
        clients: Option<ClientSource>,
        options: TlsOptions,
    ) -> Result<Arc<Self>, CertificateError> {
        let challenge = options.challenges.then(Arc::default);
        let generation = Generation::load(&sources, clients.as_ref(), options, challenge.as_ref())?;
        Ok(Arc::new(Self { sources, clients, options, challenge, current: ArcSwap::from_pointee(generation) }))
    }

    /// Reads the files again. Connections accepted from now on use their content; established ones
    /// continue.
    ///
    /// # Errors
    /// As for [`load`](Self::load); the previous configuration stays in use.
    pub fn reload(&self) -> Result<Reloaded, CertificateError> {
        self.reload_from(&self.sources, self.clients.as_ref())
    }

    /// The same with other files.
    ///
    /// # Errors
    /// As for [`load_with`](Self::load_with); the previous configuration stays in use.
    pub fn reload_from(
        &self,
        sources: &[CertificateSource],
        clients: Option<&ClientSource>,
    ) -> Result<Reloaded, CertificateError> {
        let next = Generation::load(sources, clients, self.options, self.challenge.as_ref())?;
        if next.same_as(&self.current.load()) {
            return Ok(Reloaded::Unchanged); // tickets stay valid
        }
        self.current.store(Arc::new(next));
        Ok(Reloaded::Changed)
    }

    /// The status of the certificate shown for a domain, at a time in seconds since 1970.
    pub fn standing(&self, host: Host<'_>, now_s: i64) -> Standing {
        self.current.load().set.standing(host, now_s)
    }

    /// The status of a certificate that is not in use: reads its files, and reports whether clients
    /// of a domain would accept it.
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    pub fn look(source: &CertificateSource, host: Host<'_>, now_s: i64) -> Result<Standing, CertificateError> {
        let set = CertificateSet::load(std::slice::from_ref(source), &provider())?;
        Ok(set.standing(host, now_s))
    }

    /// The facts of a certificate in files, which a server could load.
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    pub fn issued(source: &CertificateSource) -> Result<Issued, CertificateError> {
        let x509::Facts { not_before, not_after, authority_key, serial, .. } = Served::load(source, &provider())?.facts;
        Ok(Issued { from_s: not_before, until_s: not_after, authority_key, serial })
    }

    /// The challenge that listeners with TLS from the first byte answer, if they answer any.
    pub fn challenge(&self) -> Option<&Arc<Challenge>> {
        self.challenge.as_ref()
    }

    /// Checks that these could be loaded; there may be none.
    ///
    /// # Errors
    /// As for [`load_with`](Self::load_with).
    pub fn check(sources: &[CertificateSource], clients: Option<&ClientSource>) -> Result<(), CertificateError> {
        let provider = Arc::new(provider());
        clients.map(|source| Clients::load(source, &provider)).transpose()?;
        sources.iter().try_for_each(|source| Served::load(source, &provider).map(drop))
    }

    /// For listeners with TLS from the first byte (XEP-0368): a client that offers application
    /// protocols must offer `xmpp-client`.
    pub fn direct(self: &Arc<Self>) -> TlsConfig {
        TlsConfig { certificates: Arc::clone(self), entry: Entry::Direct }
    }

    /// For HTTPS listeners, with the library's own streams; a client that offers application
    /// protocols must offer `http/1.1`.
    pub fn https(&self) -> Arc<ServerConfig> {
        self.current.load().https.clone()
    }

    /// For listeners of XMPP over HTTP; a client that offers application protocols must offer
    /// `http/1.1`.
    pub fn web(self: &Arc<Self>) -> TlsConfig {
        TlsConfig { certificates: Arc::clone(self), entry: Entry::Web }
    }

    /// For connections after STARTTLS (RFC 6120 5): application protocols that a client offers are
    /// ignored.
    pub fn starttls(self: &Arc<Self>) -> TlsConfig {
        TlsConfig { certificates: Arc::clone(self), entry: Entry::Starttls }
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("sources", &self.sources).finish_non_exhaustive()
    }
}

/// The TLS configuration of one kind of connection; always with the current certificates. Cheap to
/// clone.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    certificates: Arc<Certificates>,
    entry: Entry,
}

impl TlsConfig {
    pub(super) fn current(&self) -> (Arc<Generation>, Entry) {
        (self.certificates.current.load_full(), self.entry)
    }
}

/// How a connection starts TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Direct,
    Starttls,
    Web,
}

/// The configurations of all kinds of connection.
#[derive(Clone, Debug)]
pub struct TlsEntries {
    /// After STARTTLS.
    pub starttls: TlsConfig,
    /// From the first byte.
    pub direct: TlsConfig,
    /// From the first byte, for HTTP.
    pub web: TlsConfig,
}

impl TlsEntries {
    /// The configurations with these certificates.
    pub fn of(certificates: &Arc<Certificates>) -> TlsEntries {
        let (starttls, direct, web) = (certificates.starttls(), certificates.direct(), certificates.web());
        TlsEntries { starttls, direct, web }
    }
}

/// One load of all certificates and the library configurations built from it.
pub(super) struct Generation {
    set: Arc<CertificateSet>,
    clients: Option<Clients>,
    direct: Arc<ServerConfig>,
    starttls: Arc<ServerConfig>,
    https: Arc<ServerConfig>,
    web: Arc<ServerConfig>,
}

impl Generation {
    fn load(
        sources: &[CertificateSource],
        clients: Option<&ClientSource>,
        options: TlsOptions,
        challenge: Option<&Arc<Challenge>>,
    ) -> Result<Self, CertificateError> {
        let provider = Arc::new(provider());
        let clients = clients.map(|source| Clients::load(source, &provider)).transpose()?;
        let set = Arc::new(CertificateSet::load(sources, &provider)?);
        let versions: &[&rustls::SupportedProtocolVersion] = match options.min_version {
            TlsVersion::V1_2 => &[&rustls::version::TLS12, &rustls::version::TLS13],
            TlsVersion::V1_3 => &[&rustls::version::TLS13],
        };
        let library = |error: rustls::Error| CertificateError::Library(error.to_string());
        let resolver: Arc<CertificateSet> = Arc::clone(&set);
        let answering = challenge.map(|challenge| {
            Arc::new(Answering { set: Arc::clone(&set), challenge: Arc::clone(challenge) })
                as Arc<dyn ResolvesServerCert>
        });
        let answers = |config: &mut ServerConfig| {
            if let Some(answering) = &answering {
                config.cert_resolver = Arc::clone(answering);
                config.alpn_protocols.push(ALPN_ACME.to_vec());
            }
        };
        let builder =
            ServerConfig::builder_with_provider(provider).with_protocol_versions(versions).map_err(library)?;
        let builder_of_https = builder.clone();
        let mut config = match &clients {
            Some(clients) => builder.with_client_cert_verifier(Arc::clone(&clients.verifier)),
            None => builder.with_no_client_auth(),
        }
        .with_cert_resolver(resolver.clone());
        let mut https = builder_of_https.with_no_client_auth().with_cert_resolver(resolver);
        for config in [&mut config, &mut https] {
            settle(config, options)?;
        }
        https.alpn_protocols = vec![ALPN_HTTP.to_vec()];
        // A browser that receives a certificate request asks its user, so web pages send none.
        let mut web = https.clone();
        web.enable_secret_extraction = true;
        web.key_log = Arc::new(CapturedSecrets);
        answers(&mut web);
        // The handshake's object is exchanged for its secrets.
        config.enable_secret_extraction = true;
        config.key_log = Arc::new(CapturedSecrets);
        let starttls = Arc::new(config.clone());
        config.alpn_protocols = vec![ALPN_CLIENT.to_vec()];
        answers(&mut config);
        Ok(Self { set, clients, direct: Arc::new(config), starttls, https: Arc::new(https), web: Arc::new(web) })
    }

    fn same_as(&self, other: &Self) -> bool {
        let same_clients = match (&self.clients, &other.clients) {
            (Some(own), Some(others)) => own.same_as(others),
            (None, None) => true,
            _ => false,
        };
        same_clients && self.set.same_as(&other.set)
    }

    /// The names in a client's certificate, if it has shown one.
    pub(super) fn client_names(&self, chain: Option<&[CertificateDer<'_>]>, resumed: bool) -> Option<ClientNames> {
        self.clients.as_ref()?.names(chain?, resumed)
    }

    pub(super) fn config(&self, entry: Entry) -> Arc<ServerConfig> {
        match entry {
            Entry::Direct => Arc::clone(&self.direct),
            Entry::Starttls => Arc::clone(&self.starttls),
            Entry::Web => Arc::clone(&self.web),
        }
    }

    /// The channel binding of the certificate shown for a name.
    pub(super) fn end_point(&self, sni: Option<&str>) -> Option<Vec<u8>> {
        self.set.choose(sni).facts.end_point.clone()
    }
}

/// Settings common to all configurations.
fn settle(config: &mut ServerConfig, options: TlsOptions) -> Result<(), CertificateError> {
    let library = |error: rustls::Error| CertificateError::Library(error.to_string());
    // The server's order of cipher suites applies: see `provider`.
    config.ignore_client_order = true;
    // Tickets hold the whole state: no session table, and no lock for it.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if options.tickets {
        config.ticketer = rustls::crypto::ring::Ticketer::new().map_err(library)?;
        config.send_tls13_tickets = 1;
    } else {
        config.send_tls13_tickets = 0;
    }
    // RFC 9266 4.2: without it `tls-exporter` must not be used in TLS 1.2.
    config.require_ems = true;
    Ok(())
}

/// All of `ring`'s cipher suites, those with AES-128-GCM and SHA-256 first (mandatory by RFC 8446
/// 9.1). The key schedule with SHA-384, for which the CPU has no instructions, is a fifth of a
/// handshake.
fn provider() -> CryptoProvider {
    let mut provider = rustls::crypto::ring::default_provider();
    let first = [
        CipherSuite::TLS13_AES_128_GCM_SHA256,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ];
    provider.cipher_suites.sort_by_key(|suite| !first.contains(&suite.suite()));
    provider
}

/// The certificates of a generation, by server name.
#[derive(Debug)]
struct CertificateSet {
    default: Arc<Served>,
    by_name: BTreeMap<String, Arc<Served>>,
}

/// A certificate with its key, and its facts.
#[derive(Debug)]
struct Served {
    key: Arc<CertifiedKey>,
    /// The key itself cannot be compared; its hash can.
    key_hash: [u8; 32],
    facts: x509::Facts,
    chain: PathBuf,
    made_here: bool,
}

impl CertificateSet {
    fn load(sources: &[CertificateSource], provider: &CryptoProvider) -> Result<Self, CertificateError> {
        let mut default = None;
        let mut by_name = BTreeMap::new();
        for source in sources {
            let served = Arc::new(Served::load(source, provider)?);
            default.get_or_insert_with(|| Arc::clone(&served));
            for name in &source.names {
                by_name.insert(name.to_ascii_lowercase(), Arc::clone(&served));
            }
        }
        let default = default.ok_or(CertificateError::None)?;
        Ok(Self { default, by_name })
    }

    /// The certificate for a server name in lower case.
    fn choose(&self, name: Option<&str>) -> &Arc<Served> {
        let Some(name) = name else {
            return &self.default;
        };
        self.by_name
            .get(name)
            .or_else(|| {
                let (_, parent) = name.split_once('.')?;
                self.by_name.get(&format!("*.{parent}"))
            })
            .unwrap_or(&self.default)
    }

    fn standing(&self, host: Host<'_>, now_s: i64) -> Standing {
        let served = self.choose(Some(host.ascii));
        let standing = Standing::of(&served.facts, &served.chain, host, now_s);
        let self_signed = served.made_here && host.domain != LOCALHOST;
        let self_signed = self_signed.then(|| host.domain.to_owned()).into_iter().collect();
        Standing { self_signed, ..standing }
    }

    fn same_as(&self, other: &Self) -> bool {
        let same = |a: &Served, b: &Served| a.key.cert == b.key.cert && a.key_hash == b.key_hash;
        same(&self.default, &other.default)
            && self.by_name.len() == other.by_name.len()
            && self.by_name.iter().zip(&other.by_name).all(|(a, b)| a.0 == b.0 && same(a.1, b.1))
    }
}

impl ResolvesServerCert for CertificateSet {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().map(str::to_ascii_lowercase);
        Some(Arc::clone(&self.choose(name.as_deref()).key))
    }
}

/// The same, and answers challenges: its listeners are those that an authority may connect to.
#[derive(Debug)]
struct Answering {
    set: Arc<CertificateSet>,
    challenge: Arc<Challenge>,
}

impl ResolvesServerCert for Answering {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        match is_asked(&hello) {
            true => self.challenge.find(hello.server_name().map(str::to_ascii_lowercase).as_deref()),
            false => self.set.resolve(hello),
        }
    }
}

impl Served {
    fn load(source: &CertificateSource, provider: &CryptoProvider) -> Result<Self, CertificateError> {
        let unusable = |path: &Path, why: &dyn fmt::Display| CertificateError::Unusable(path.into(), why.to_string());
        let chain = CertificateDer::pem_slice_iter(&read(&source.chain)?)
            .collect::<Result<Vec<_>, pem::Error>>()
            .map_err(|error| unusable(&source.chain, &error))?;
        let first = chain.first().ok_or_else(|| unusable(&source.chain, &"it contains no certificate"))?;
        let facts = x509::facts(first).ok_or_else(|| unusable(&source.chain, &"its first certificate is malformed"))?;
        let key = PrivateKeyDer::from_pem_slice(&read(&source.key)?).map_err(|error| unusable(&source.key, &error))?;
        let mut key_hash = [0; 32];
        key_hash.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, key.secret_der()).as_ref());
        let key = CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                let why = format!("it is not the key of the certificate in {}", source.chain.display());
                CertificateError::Unusable(source.key.clone(), why)
            }
            error => unusable(&source.key, &error),
        })?;
        Ok(Self { key: Arc::new(key), key_hash, facts, chain: source.chain.clone(), made_here: source.made_here })
    }
}
