//! Certificates by an authority: its settings, and what it is given of the running server.

use std::sync::Arc;

use throng_engine::web::policy::Challenge;

use super::addresses::{Addresses, cannot_listen};
use super::certificate::{acme_folder, acme_names, directory};
use super::control::Running;
use crate::acme::{Acme, Serving, Settings, Way, start};
use crate::admin::AcmeState;
use crate::cli::{Exit, Failure};
use crate::client::authorities;
use crate::config::{AcmeChallenge, Config};
use crate::tls::Certificates;

/// Whether the authority could be asked. Creates nothing.
pub(super) fn check(config: &Config) -> Result<(), Failure> {
    match config.acme.is_empty() {
        true => Ok(()),
        false => verifier(config).map(drop),
    }
}

fn verifier(config: &Config) -> Result<Arc<rustls::ClientConfig>, Failure> {
    authorities(config.acme_root.as_deref()).map_err(|why| Failure::new(Exit::Usage, format!("acme_root: {why}")))
}

/// Starts to obtain and renew certificates; `None` if that is off.
pub(super) fn open(
    config: &Config,
    certificates: Option<&Arc<Certificates>>,
    running: &Arc<Running>,
    addresses: &Addresses,
) -> Result<Option<Acme>, Failure> {
    let Some(certificates) = certificates.filter(|_| !config.acme.is_empty()) else { return Ok(None) };
    let mut listeners = Vec::new();
    for address in &config.acme_http {
        let opened = addresses.own(*address, true);
        listeners.push(opened.map_err(|error| cannot_listen(*address, "acme_http", &error))?);
    }
    let way = |challenge| if challenge == AcmeChallenge::Http { Way::Http } else { Way::Tls };
    let settings = Settings {
        contact: config.acme.clone(),
        directory: directory(config).to_owned(),
        tls: verifier(config)?,
        folder: acme_folder(config),
        names: acme_names(config),
        ways: config.acme_challenges().into_iter().map(way).collect(),
        listeners,
    };
    let (names, ways) = (settings.names.join(" "), settings.ways.iter().map(|way| way.name()).collect::<Vec<_>>());
    for listener in &settings.listeners {
        let address = listener.local_addr().map_err(Failure::failed)?;
        tracing::info!(%address, "ACME: checks of the authority are answered here");
    }
    tracing::info!(names, directory = settings.directory, ?ways, "ACME: certificates are obtained and renewed");
    let acme = start(settings, certificates.clone(), running.clone())
        .map_err(|why| Failure::failed(format!("acme: {why}")))?;
    let _ = running.acme.set(acme.handle());
    Ok(Some(acme))
}

impl Serving for Running {
    fn answer(&self, challenge: Option<Challenge>) -> Result<(), String> {
        self.show_challenge(challenge).map_err(|fault| fault.text)
    }

    fn use_certificates(&self) -> Result<(), String> {
        self.take_certificates().map_err(|fault| fault.text)
    }
}

impl Running {
    /// The state of the certificates that an authority is asked for.
    pub(super) fn acme_states(&self) -> Vec<AcmeState> {
        self.acme.get().map(crate::acme::Handle::states).unwrap_or_default()
    }
}
