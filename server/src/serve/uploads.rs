//! The server of uploaded files: its listeners and settings.

use std::net::TcpListener;
use std::sync::Arc;

use throng_engine::extension::upload::slot::Upload;
use throng_engine::store::account::Incarnation;
use throng_engine::store::{Found, Query, Table};

use super::addresses::{Addresses, cannot_listen};
use super::{Rows, settings};
use crate::cli::Failure;
use crate::clock::Clock;
use crate::config::{Config, Loaded};
use crate::disk::space::free_bytes;
use crate::tls::Certificates;
use crate::upload::{Bounds, Files, Limits, Owners, Tls, UploadCounters, UploadServer, sweep};
use crate::waits;

/// Uploads leave this multiple of the free space below which messages are refused.
const SPARE: u64 = 2;

/// Open listeners, before anything is served.
pub(super) struct Opened {
    /// Each with TLS or in plaintext.
    listeners: Vec<(TcpListener, bool)>,
    /// The settings of slots.
    pub(super) given: Upload,
}

/// Accepts and serves files until it is dropped.
pub(super) struct Uploads {
    _server: UploadServer,
    _sweep: waits::Repeated,
}

/// Opens the listeners; `None` if uploads are disabled.
pub(super) fn open(loaded: &Loaded, engine: &Rows, given: &Addresses) -> Result<Option<Opened>, Failure> {
    let config = &loaded.config;
    if !config.takes_uploads() {
        return Ok(None);
    }
    let mut listeners = Vec::new();
    for (addresses, key, tls) in [(&config.upload, "upload", true), (&config.upload_proxied, "upload_proxied", false)] {
        for address in addresses {
            let listener = given.own(*address, true).map_err(|error| cannot_listen(*address, key, &error))?;
            listeners.push((listener, tls));
        }
    }
    let first = listeners.first().map(|(listener, _)| listener.local_addr()).transpose().map_err(Failure::failed)?;
    let given = settings::upload(config, engine, first.map_or(0, |address| address.port()))?;
    Ok(Some(Opened { listeners, given }))
}

impl Opened {
    /// Starts serving.
    pub(super) fn start(
        self,
        config: &Config,
        engine: Arc<Rows>,
        certificates: Option<&Arc<Certificates>>,
        counters: Arc<UploadCounters>,
        clock: Clock,
    ) -> Result<Uploads, Failure> {
        let bounds =
            Bounds { bytes_max: config.upload_bytes_max, free_bytes_min: config.free_bytes_min.saturating_mul(SPARE) };
        let files = Files::open(&config.data, bounds, free_bytes, Arc::new(Accounts(engine)))
            .map_err(|error| Failure::failed(format!("the folder of uploaded files: {error}")))?;
        let mut listeners = Vec::new();
        for (listener, tls) in self.listeners {
            let tls = match (tls, certificates) {
                (false, _) => None,
                (true, Some(certificates)) => {
                    let certificates = certificates.clone();
                    Some(Arc::new(move || certificates.https()) as Tls)
                }
                (true, None) => {
                    return Err(Failure::failed("upload needs a certificate; upload_proxied does not"));
                }
            };
            listeners.push((listener, tls));
        }
        let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let limits = Limits {
            connections_max: count(config.upload_connections_max),
            per_address_max: count(config.upload_per_address_max),
        };
        let sweep = sweep(files.clone(), clock).map_err(Failure::failed)?;
        let server =
            UploadServer::start(listeners, files, self.given.key, limits, counters).map_err(Failure::failed)?;
        for address in server.addresses() {
            tracing::info!(%address, url = &*self.given.url, domain = config.upload_domain(), "files are taken and served");
        }
        Ok(Uploads { _server: server, _sweep: sweep })
    }
}

/// Looks up accounts in their rows.
struct Accounts(Arc<Rows>);

impl Owners for Accounts {
    fn is_there(&self, owner: &str, incarnation: Incarnation) -> Option<bool> {
        let query = Query::Get { table: Table::Accounts, actor: owner.as_bytes().into(), sort: Box::default() };
        match self.0.read(&query) {
            Ok(Found::Value(record)) => Some(record.as_deref().map(Incarnation::of_record) == Some(incarnation)),
            Ok(Found::Rows { .. } | Found::Damaged) | Err(_) => None,
        }
    }
}
