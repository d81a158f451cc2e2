//! The certificates of the domains served: where they are, and how they stand for clients.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::cli::{Exit, Failure};
use crate::config::{self, Config, kind::domain_to_ascii};
use crate::tls::{
    CertificateSource, Certificates, ClientSource, Host, NamedBy, Standing, TlsOptions, TlsVersion, ensure_self_signed,
};

/// Where self-signed certificates are in the data folder.
const FOLDER: &str = "tls";

/// A domain as clients name it (SNI). An IPv6 address in brackets has one form only.
fn ascii(domain: &str) -> String {
    domain_to_ascii(domain).unwrap_or_else(|| domain.to_owned())
}

/// Runs `with` with a domain in both of its forms.
fn with_host<T>(domain: &str, with: impl FnOnce(Host<'_>) -> T) -> T {
    with(Host { domain, ascii: &ascii(domain) })
}

fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// What the options name; none when a self-signed one is to be made.
fn named(config: &Config) -> Result<Option<CertificateSource>, Failure> {
    match (&config.tls_certificate, &config.tls_key) {
        (Some(chain), Some(key)) => {
            Ok(Some(CertificateSource { names: Vec::new(), chain: chain.clone(), key: key.clone() }))
        }
        (None, None) => Ok(None),
        _ => Err(Failure::new(Exit::Usage, "tls_certificate and tls_key go together: give both or none")),
    }
}

/// That of a domain in the folder of all, if it has one there.
fn in_folder(config: &Config, domain: &str) -> Option<CertificateSource> {
    let ascii = ascii(domain);
    let of = config.tls_folder.as_ref()?.join(&ascii);
    let (chain, key) = (of.join("fullchain.pem"), of.join("privkey.pem"));
    chain.exists().then(|| CertificateSource { names: vec![ascii], chain, key })
}

/// Where the self-signed one of a domain is, or would be: that of the main one is shown for names that nobody knows, too.
fn self_signed_folder(config: &Config, domain: &str) -> PathBuf {
    let folder = config.data.join(FOLDER);
    if domain == config.domain { folder } else { folder.join(ascii(domain)) }
}

/// Where the certificates are, those of the main domain first. A self-signed one is made for each domain that has no other.
pub(super) fn sources(config: &Config) -> Result<Vec<CertificateSource>, Failure> {
    let mut sources: Vec<_> = named(config)?.into_iter().collect();
    let is_given = !sources.is_empty();
    for domain in super::settings::domains(config) {
        match in_folder(config, domain) {
            Some(source) => sources.push(source),
            None if is_given => {}
            None => {
                let ascii = ascii(domain);
                let made = ensure_self_signed(&self_signed_folder(config, domain), &ascii, SystemTime::now());
                sources.push(CertificateSource { names: vec![ascii], ..made.map_err(Failure::failed)? });
            }
        }
    }
    Ok(sources)
}

/// Whose certificates clients may show; none if they are not asked.
pub(super) fn clients(config: &Config) -> Option<ClientSource> {
    let authorities = config.tls_client_authorities.clone()?;
    let named_by = match config.tls_client_name {
        config::ClientName::None => NamedBy::Nothing,
        config::ClientName::Mail => NamedBy::Mail,
        config::ClientName::CommonName => NamedBy::CommonName,
    };
    let (revoked, domain) = (config.tls_client_revoked.clone(), config.domain.clone());
    Some(ClientSource { authorities, revoked, named_by, domain })
}

/// Loads them for use.
pub(super) fn load(config: &Config) -> Result<Option<Arc<Certificates>>, Failure> {
    let min_version = match config.tls_version_min {
        config::TlsVersion::V12 => TlsVersion::V1_2,
        config::TlsVersion::V13 => TlsVersion::V1_3,
    };
    let options = TlsOptions { min_version, ..TlsOptions::default() };
    Certificates::load_with(sources(config)?, clients(config), options).map(Some).map_err(Failure::failed)
}

/// How those of the options stand, or the self-signed ones; none if these are yet to be made. Makes and changes nothing.
pub(super) fn look(config: &Config) -> Result<Option<Standing>, Failure> {
    let given = named(config)?;
    let mut all: Option<Standing> = None;
    for domain in super::settings::domains(config) {
        let own = self_signed_folder(config, domain);
        let made = CertificateSource { names: Vec::new(), chain: own.join("cert.pem"), key: own.join("key.pem") };
        let made = || made.chain.exists().then_some(made.clone());
        let Some(source) = in_folder(config, domain).or_else(|| given.clone()).or_else(made) else { continue };
        let look = |host: Host<'_>| Certificates::look(&source, host, now_s());
        let mut standing = with_host(domain, look).map_err(Failure::failed)?;
        standing.faults.extend(readable_by_all(&source.key));
        all = Some(match all {
            Some(all) => all.and(standing),
            None => standing,
        });
    }
    Ok(all)
}

fn readable_by_all(key: &Path) -> Option<String> {
    let mode = key.metadata().ok()?.permissions().mode() & 0o7777;
    let shown = key.display();
    (mode & 0o004 != 0).then(|| {
        format!("the key in {shown} can be read by every user of this host (mode {mode:04o}): chmod o-rwx {shown}")
    })
}

/// How those in use stand now for the clients of these domains.
pub(super) fn standing<'a>(certificates: &Certificates, domains: impl Iterator<Item = &'a str>) -> Standing {
    let of = |domain| with_host(domain, |host| certificates.standing(host, now_s()));
    domains.map(of).reduce(Standing::and).expect("there is a domain")
}

/// Says in the log what is wrong with them, or will be soon.
pub(super) fn warn<'a>(certificates: &Certificates, domains: impl Iterator<Item = &'a str>) {
    let standing = standing(certificates, domains);
    for fault in &standing.faults {
        tracing::error!("{fault}: clients will refuse this server");
    }
    if let Some(soon) = standing.soon {
        tracing::warn!("{soon}");
    }
}
