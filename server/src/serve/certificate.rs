//! The certificate of the served domain: where it is, and how it stands for clients.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::cli::{Exit, Failure};
use crate::config::{self, Config, kind::domain_to_ascii};
use crate::tls::{CertificateSource, Certificates, Host, Standing, TlsOptions, TlsVersion, ensure_self_signed};

/// Where the self-signed certificate is in the data folder.
const FOLDER: &str = "tls";

/// Runs `with` with a domain in both of its forms.
fn with_host<T>(domain: &str, with: impl FnOnce(Host<'_>) -> T) -> T {
    // An IPv6 address in brackets has one form only.
    let ascii = domain_to_ascii(domain).unwrap_or_else(|| domain.to_owned());
    with(Host { domain, ascii: &ascii })
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

/// Where the certificate is; a self-signed one is made if none is given.
pub(super) fn source(config: &Config) -> Result<CertificateSource, Failure> {
    let make = |host: Host<'_>| ensure_self_signed(&config.data.join(FOLDER), host.ascii, SystemTime::now());
    match named(config)? {
        Some(source) => Ok(source),
        None => with_host(&config.domain, make).map_err(Failure::failed),
    }
}

/// Loads it for use.
pub(super) fn load(config: &Config) -> Result<Option<Arc<Certificates>>, Failure> {
    let source = source(config)?;
    let min_version = match config.tls_version_min {
        config::TlsVersion::V12 => TlsVersion::V1_2,
        config::TlsVersion::V13 => TlsVersion::V1_3,
    };
    let options = TlsOptions { min_version, ..TlsOptions::default() };
    Certificates::load(vec![source], options).map(Some).map_err(Failure::failed)
}

/// How that of the options stands, or the self-signed one; none if that is yet to be made. Makes and changes nothing.
pub(super) fn look(config: &Config) -> Result<Option<Standing>, Failure> {
    let named = named(config)?;
    let own = config.data.join(FOLDER);
    let self_signed = || CertificateSource { names: Vec::new(), chain: own.join("cert.pem"), key: own.join("key.pem") };
    let is_given = named.is_some();
    let source = named.unwrap_or_else(self_signed);
    if !is_given && !source.chain.exists() {
        return Ok(None);
    }
    let mut standing =
        with_host(&config.domain, |host| Certificates::look(&source, host, now_s())).map_err(Failure::failed)?;
    standing.faults.extend(readable_by_all(&source.key));
    Ok(Some(standing))
}

fn readable_by_all(key: &Path) -> Option<String> {
    let mode = key.metadata().ok()?.permissions().mode() & 0o7777;
    let shown = key.display();
    (mode & 0o004 != 0).then(|| {
        format!("the key in {shown} can be read by every user of this host (mode {mode:04o}): chmod o-rwx {shown}")
    })
}

/// How the one in use stands now.
pub(super) fn standing(certificates: &Certificates, domain: &str) -> Standing {
    with_host(domain, |host| certificates.standing(host, now_s()))
}

/// Says in the log what is wrong with it, or will be soon.
pub(super) fn warn(certificates: &Certificates, domain: &str) {
    let standing = standing(certificates, domain);
    for fault in &standing.faults {
        tracing::error!("{fault}: clients will refuse this server");
    }
    if let Some(soon) = standing.soon {
        tracing::warn!("{soon}");
    }
}
