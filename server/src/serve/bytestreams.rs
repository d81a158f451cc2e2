//! The bytestreams proxy: its listeners and settings.

use std::net::TcpListener;
use std::sync::Arc;

use throng_engine::extension::bytestreams::StreamHost;

use super::addresses::{Addresses, cannot_listen};
use crate::bytestreams::{ACTIVATION, Activations, Bounds, HANDSHAKE, StreamCounters, StreamServer};
use crate::cli::Failure;
use crate::config::{Config, Loaded, kind};

/// Open listeners, before anything is relayed.
pub(super) struct Opened {
    listeners: Vec<TcpListener>,
    /// The address published to clients.
    pub(super) given: StreamHost,
}

/// Opens the listeners; `None` if the proxy is disabled.
pub(super) fn open(loaded: &Loaded, given: &Addresses) -> Result<Option<Opened>, Failure> {
    let config = &loaded.config;
    if !config.relays_bytestreams() {
        return Ok(None);
    }
    let open = |address: &std::net::SocketAddr| {
        given.own(*address, true).map_err(|error| cannot_listen(*address, "bytestreams", &error))
    };
    let listeners = config.bytestreams.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let Some(first) = listeners.first() else { return Ok(None) };
    let first = first.local_addr().map_err(Failure::failed)?;
    let (host, port) = match kind::read_host(&config.bytestreams_host) {
        Some(named) => named,
        None if first.ip().is_unspecified() => {
            (kind::domain_to_ascii(&config.domain).unwrap_or_else(|| config.domain.clone()), None)
        }
        None => (first.ip().to_string(), None),
    };
    let given = StreamHost { host: host.into(), port: port.unwrap_or(first.port()) };
    Ok(Some(Opened { listeners, given }))
}

impl Opened {
    /// Relays until the returned value is dropped.
    pub(super) fn start(
        self,
        config: &Config,
        activations: Activations,
        counters: Arc<StreamCounters>,
    ) -> Result<StreamServer, Failure> {
        let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let bounds = Bounds {
            waiting_max: count(config.bytestreams_waiting_max),
            per_address_max: count(config.bytestreams_per_address_max),
            streams_max: count(config.bytestreams_max),
            per_user_max: count(config.bytestreams_per_user_max),
            user_bytes_per_second: config.bytestreams_user_bytes_per_second_max,
            idle: config.bytestreams_idle_seconds,
            handshake: HANDSHAKE,
            activation: ACTIVATION,
        };
        let StreamHost { host, port } = self.given;
        let server = StreamServer::start(self.listeners, activations, bounds, counters).map_err(Failure::failed)?;
        for address in server.addresses() {
            tracing::info!(%address, host = &*host, port, domain = config.bytestreams_domain(), "bytestreams are relayed");
        }
        Ok(server)
    }
}
