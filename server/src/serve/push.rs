//! The configuration of Web Push for closed pages.

use std::sync::Arc;

use rustls::ClientConfig;
use throng_engine::web::push::Push;

use crate::cli::{Exit, Failure};
use crate::client::authorities;
use crate::config::Config;
use crate::webpush::{FILE, LIMIT, PATIENCE, Settings, Vapid};

/// The settings; `None` if pushes are disabled. The key is created at the first start that needs
/// it.
pub(super) fn settings(config: &Config) -> Result<Option<Settings>, Failure> {
    if !config.notify_push {
        return Ok(None);
    }
    let file = config.data.join(FILE);
    let vapid = Vapid::open(&file, &config.notify_push_contact);
    let vapid = vapid.map_err(|error| Failure::failed(format!("notify_push: {}: {error}", file.display())))?;
    let tls = checks_by(config)?;
    Ok(Some(Settings {
        vapid: Arc::new(vapid),
        services: config.notify_push_services.iter().map(|service| service.0.to_string()).collect(),
        tls,
        private: config.notify_push_private,
        ttl: config.notify_push_ttl_seconds,
        urgency: config.notify_push_urgency.word(),
        limit: LIMIT,
        patience: PATIENCE,
    }))
}

/// Whether a server could send pushes. Creates no key.
pub(super) fn check(config: &Config) -> Result<(), Failure> {
    if config.notify_push && !config.data.join(FILE).exists() {
        return checks_by(config).map(drop);
    }
    settings(config).map(drop)
}

/// The configuration that checks certificates of push services.
fn checks_by(config: &Config) -> Result<Arc<ClientConfig>, Failure> {
    let tls = authorities(config.notify_push_authorities.as_deref());
    tls.map_err(|why| Failure::new(Exit::Usage, format!("notify_push_authorities: {why}")))
}

/// The policy for shards, with the public key.
pub(super) fn policy(config: &Config, key: &str) -> Push {
    let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    Push {
        key: key.into(),
        services: config.notify_push_services.iter().map(|service| service.0.clone()).collect(),
        channel_max: count(config.notify_push_per_channel_max),
        address_max: count(config.notify_push_per_address_max),
        hold_s: config.notify_push_hold_seconds.as_secs(),
        interval_ms: u64::try_from(config.notify_push_interval_seconds.as_millis()).unwrap_or(u64::MAX),
    }
}
