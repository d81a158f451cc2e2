//! Client certificates: their accepted issuers, and the addresses in them.
//!
//! A client certificate is requested only if the operator has configured authorities. A client may
//! have none. One that it presents must be valid, or the handshake fails: the library checks chain,
//! validity period and revocation lists. So this module only reads certificates that one of the
//! operator's authorities has signed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use super::pem::{CertificateError, read};
use super::x509::{self, Name};

/// Maximum number of addresses read from one certificate; a user has few.
const NAMES_MAX: usize = 16;

/// Maximum length of one, in bytes: that of a JID without its resource (RFC 7622 3.1).
const NAME_BYTES_MAX: usize = 2_047;

/// How the account is found for a certificate without an XMPP address (XEP-0178 2, step 11 c).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NamedBy {
    /// Not at all: such a certificate identifies no account.
    #[default]
    Nothing,
    /// By a mailbox in it (rfc822Name), which is also the JID.
    Mail,
    /// By the common name of its subject: a JID, or the localpart of one at the main domain.
    CommonName,
}

/// The operator's settings for client certificates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientSource {
    /// PEM file: certificates of authorities.
    pub authorities: PathBuf,
    /// PEM file: certificate revocation lists (RFC 5280 5).
    pub revoked: Option<PathBuf>,
    /// How accounts are found.
    pub named_by: NamedBy,
    /// The domain of names without one.
    pub domain: String,
}

/// The identities in a client's certificate.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClientNames {
    /// Its XMPP addresses, unchanged.
    pub addresses: Vec<String>,
    /// If it has none: those found by the operator's rule.
    pub mapped: Vec<String>,
}

/// One load of the files.
pub(super) struct Clients {
    source: ClientSource,
    pub(super) verifier: Arc<dyn ClientCertVerifier>,
    authorities: Vec<CertificateDer<'static>>,
    revoked: Vec<CertificateRevocationListDer<'static>>,
}

impl Clients {
    pub(super) fn load(source: &ClientSource, provider: &Arc<CryptoProvider>) -> Result<Clients, CertificateError> {
        let unusable =
            |path: &Path, why: &dyn std::fmt::Display| CertificateError::Unusable(path.into(), why.to_string());
        let path = &source.authorities;
        let authorities = CertificateDer::pem_slice_iter(&read(path)?)
            .collect::<Result<Vec<_>, pem::Error>>()
            .map_err(|error| unusable(path, &error))?;
        let mut roots = RootCertStore::empty();
        for authority in &authorities {
            roots.add(authority.clone()).map_err(|error| unusable(path, &error))?;
        }
        if roots.is_empty() {
            return Err(unusable(path, &"it contains no CA certificate"));
        }
        let revoked = match &source.revoked {
            Some(path) => CertificateRevocationListDer::pem_slice_iter(&read(path)?)
                .collect::<Result<Vec<_>, pem::Error>>()
                .map_err(|error| unusable(path, &error))?,
            None => Vec::new(),
        };
        let shown = source.revoked.as_deref().unwrap_or(path);
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let verifier = builder
            .with_crls(revoked.iter().cloned())
            .allow_unknown_revocation_status()
            .allow_unauthenticated()
            .build()
            .map_err(|error| unusable(shown, &error))?;
        Ok(Clients { source: source.clone(), verifier, authorities, revoked })
    }

    /// Whether another load has the same content.
    pub(super) fn same_as(&self, other: &Clients) -> bool {
        (&self.source, &self.authorities, &self.revoked) == (&other.source, &other.authorities, &other.revoked)
    }

    /// The identities in the certificate of a peer. It was verified in this handshake, or in that
    /// of its ticket: then it is verified again, because it may have expired since.
    pub(super) fn names(&self, chain: &[CertificateDer<'_>], resumed: bool) -> Option<ClientNames> {
        let (own, others) = chain.split_first()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        if resumed && self.verifier.verify_client_cert(own, others, UnixTime::since_unix_epoch(now)).is_err() {
            return None;
        }
        let names = names(own, &self.source);
        Some(names).filter(|names| !names.addresses.is_empty() || !names.mapped.is_empty())
    }
}

fn names(certificate: &[u8], source: &ClientSource) -> ClientNames {
    let Some(facts) = x509::facts(certificate) else { return ClientNames::default() };
    let fits = |name: &String| (1..=NAME_BYTES_MAX).contains(&name.len());
    let of = |pick: fn(&Name) -> Option<&String>| -> Vec<String> {
        facts.names.iter().filter_map(pick).filter(|name| fits(name)).take(NAMES_MAX).cloned().collect()
    };
    let addresses = of(|name| match name {
        Name::Xmpp(address) => Some(address),
        _ => None,
    });
    if !addresses.is_empty() {
        return ClientNames { addresses, mapped: Vec::new() };
    }
    let mapped = match source.named_by {
        NamedBy::Nothing => Vec::new(),
        NamedBy::Mail => of(|name| match name {
            Name::Mail(mail) => Some(mail),
            _ => None,
        }),
        NamedBy::CommonName => {
            let full = |name: String| if name.contains('@') { name } else { format!("{name}@{}", source.domain) };
            facts.common_name.map(full).filter(fits).into_iter().collect()
        }
    };
    ClientNames { addresses, mapped }
}
