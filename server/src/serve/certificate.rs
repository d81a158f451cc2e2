//! The certificates of the served domains: their sources, and their state for clients.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use throng_recorder::clock::wall_s;

use crate::acme;
use crate::cli::{Exit, Failure};
use crate::config::{self, Config, kind::domain_to_ascii};
use crate::tls::{
    CertificateSource, Certificates, ClientSource, Host, LOCALHOST, NamedBy, Standing, TlsOptions, TlsVersion,
    ensure_self_signed, self_signed_in,
};

/// The subfolder of the data folder for self-signed certificates.
const FOLDER: &str = "tls";

/// A domain as clients name it (SNI). An IPv6 address in brackets has one form only.
fn ascii(domain: &str) -> String {
    domain_to_ascii(domain).unwrap_or_else(|| domain.to_owned())
}

/// Runs `with` with a domain in both of its forms.
fn with_host<T>(domain: &str, with: impl FnOnce(Host<'_>) -> T) -> T {
    with(Host { domain, ascii: &ascii(domain) })
}

/// The certificate that the options name; `None` if a self-signed one is to be created.
fn named(config: &Config) -> Result<Option<CertificateSource>, Failure> {
    match (&config.tls_certificate, &config.tls_key) {
        (Some(chain), Some(key)) => {
            let (chain, key) = (chain.clone(), key.clone());
            Ok(Some(CertificateSource { names: Vec::new(), chain, key, made_here: false }))
        }
        (None, None) => Ok(None),
        _ => Err(Failure::new(Exit::Usage, "tls_certificate and tls_key belong together: set both or none")),
    }
}

/// The certificate of a domain in `tls_folder`; `None` if the folder has none for this domain yet.
///
/// Only a missing folder of the domain means that there is none. Any other obstacle (a misspelt
/// folder, or one that only root may enter) is an error: with another certificate in its place,
/// clients would refuse the server without an explanation.
fn in_folder(config: &Config, domain: &str) -> Result<Option<CertificateSource>, Failure> {
    let Some(folder) = &config.tls_folder else { return Ok(None) };
    let cannot = |at: &Path, error: &dyn std::fmt::Display| {
        Failure::new(Exit::Usage, format!("tls_folder: {}: {error}", at.display()))
    };
    folder.read_dir().map_err(|error| cannot(folder, &error))?;
    let ascii = ascii(domain);
    let of = folder.join(&ascii);
    match of.read_dir() {
        Ok(_) => {}
        // A dangling link is not a missing folder.
        Err(error) if error.kind() == ErrorKind::NotFound && of.symlink_metadata().is_err() => return Ok(None),
        Err(error) => return Err(cannot(&of, &error)),
    }
    let (chain, key) = (of.join("fullchain.pem"), of.join("privkey.pem"));
    for file in [&chain, &key] {
        File::open(file).map_err(|error| cannot(file, &error))?;
    }
    Ok(Some(CertificateSource { names: vec![ascii], chain, key, made_here: false }))
}

/// The address of the authority's directory.
pub(super) fn directory(config: &Config) -> &str {
    match &*config.acme_directory {
        "production" => acme::PRODUCTION,
        "staging" => acme::STAGING,
        url => url,
    }
}

/// The folder of the authority's account and certificates.
pub(super) fn acme_folder(config: &Config) -> PathBuf {
    acme::folder(&config.data, directory(config))
}

/// The certificate that was obtained for a name, in ASCII, if it can be used.
fn from_acme(config: &Config, name: &str) -> Option<CertificateSource> {
    if config.acme.is_empty() {
        return None;
    }
    let file = acme::file(&acme_folder(config), name);
    if !file.exists() {
        return None;
    }
    let source = CertificateSource { names: vec![name.to_owned()], chain: file.clone(), key: file, made_here: false };
    match Certificates::issued(&source) {
        Ok(_) => Some(source),
        Err(error) => {
            tracing::error!("acme: {error}; another certificate is obtained");
            None
        }
    }
}

/// The folder of a domain's self-signed certificate, existing or not. The one of the main domain is
/// also presented for unknown names.
fn self_signed_folder(config: &Config, domain: &str) -> PathBuf {
    let folder = config.data.join(FOLDER);
    if domain == config.domain { folder } else { folder.join(ascii(domain)) }
}

/// The sources of certificates, those of the main domain first. `own` finds the self-signed one of
/// a domain without another: its folder and its name in ASCII.
fn sources_with(
    config: &Config,
    mut own: impl FnMut(&Path, &str) -> Result<Option<CertificateSource>, Failure>,
) -> Result<Vec<CertificateSource>, Failure> {
    let mut sources: Vec<_> = named(config)?.into_iter().collect();
    let is_given = !sources.is_empty();
    for domain in super::settings::domains(config) {
        match in_folder(config, domain)? {
            Some(source) => sources.push(source),
            None if is_given => {}
            None => {
                let ascii = ascii(domain);
                if let Some(source) = from_acme(config, &ascii) {
                    sources.push(source);
                    continue;
                }
                let own = own(&self_signed_folder(config, domain), &ascii)?;
                sources.extend(own.map(|own| CertificateSource { names: vec![ascii], ..own }));
            }
        }
    }
    // Hosts that are no domains; for those with a certificate it is here twice, which changes nothing.
    sources.extend(acme_names(config).iter().filter_map(|name| from_acme(config, name)));
    Ok(sources)
}

/// The names, in ASCII, that certificates are obtained for by ACME.
pub(super) fn acme_names(config: &Config) -> Vec<String> {
    let without = |domain: &&str| !matches!(in_folder(config, domain), Ok(Some(_)));
    match config.acme.is_empty() {
        true => Vec::new(),
        false => config.acme_names(super::settings::domains(config).filter(without)),
    }
}

/// The sources of certificates, those of the main domain first. A self-signed one is created for
/// each domain without another.
pub(super) fn sources(config: &Config) -> Result<Vec<CertificateSource>, Failure> {
    sources_with(config, |folder, domain| {
        ensure_self_signed(folder, domain, SystemTime::now()).map(Some).map_err(Failure::failed)
    })
}

/// The sources that exist already.
fn sources_there(config: &Config) -> Result<Vec<CertificateSource>, Failure> {
    sources_with(config, |folder, _| Ok(Some(self_signed_in(folder)).filter(|own| own.chain.exists())))
}

/// Whether a server could load them. Creates and changes nothing.
pub(super) fn check(config: &Config) -> Result<(), Failure> {
    Certificates::check(&sources_there(config)?, clients(config).as_ref()).map_err(Failure::failed)
}

/// The keys in `tls_folder`; `None` if it cannot be read.
pub(super) fn keys_in_folder(config: &Config) -> Vec<PathBuf> {
    let domains = super::settings::domains(config);
    domains.filter_map(|domain| in_folder(config, domain).ok().flatten()).map(|source| source.key).collect()
}

/// The authorities for client certificates; `None` if these are not requested.
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
    let options = TlsOptions { min_version, challenges: !config.acme.is_empty(), ..TlsOptions::default() };
    Certificates::load_with(sources(config)?, clients(config), options).map(Some).map_err(Failure::failed)
}

/// The state of the configured certificates, or of the self-signed ones, those not yet created
/// included. Creates and changes nothing.
pub(super) fn look(config: &Config) -> Result<Standing, Failure> {
    let given = named(config)?;
    let (mut all, mut yet_to_be_made) = (None::<Standing>, Vec::new());
    for domain in super::settings::domains(config) {
        let made = self_signed_in(&self_signed_folder(config, domain));
        let source = in_folder(config, domain)?.or_else(|| given.clone());
        let source = source.or_else(|| from_acme(config, &ascii(domain))).unwrap_or(made);
        if source.made_here && !source.chain.exists() {
            yet_to_be_made.extend((domain != LOCALHOST).then(|| domain.to_owned()));
            continue;
        }
        let look = |host: Host<'_>| Certificates::look(&source, host, wall_s().cast_signed());
        let standing = with_host(domain, look).map_err(Failure::failed)?;
        all = Some(match all {
            Some(all) => all.and(standing),
            None => standing,
        });
    }
    let mut all = all.unwrap_or_default();
    all.self_signed.extend(yet_to_be_made);
    Ok(without_acme(config, all))
}

/// Without the domains that get a certificate by ACME, about which its thread reports.
fn without_acme(config: &Config, mut standing: Standing) -> Standing {
    let names = acme_names(config);
    standing.self_signed.retain(|domain| !names.contains(&ascii(domain)));
    standing
}

/// The current state of the certificates in use for the clients of these domains.
pub(super) fn standing<'a>(certificates: &Certificates, domains: impl Iterator<Item = &'a str>) -> Standing {
    let of = |domain| with_host(domain, |host| certificates.standing(host, wall_s().cast_signed()));
    domains.map(of).reduce(Standing::and).expect("there is a domain")
}

/// Logs their faults, present or imminent.
pub(super) fn warn(certificates: &Certificates, config: &Config) {
    let standing = without_acme(config, standing(certificates, super::settings::domains(config)));
    for fault in &standing.faults {
        tracing::error!("{fault}: clients will refuse this server");
    }
    for warning in standing.warnings() {
        tracing::warn!("{warning}");
    }
}
