//! The running server, as the operator's HTTP sees it.

use std::net::TcpListener;
use std::sync::Arc;

use throng_engine::counters::CounterKind;

use super::control::Running;
use crate::admin::{Control, Status};
use crate::cli::{Exit, Failure};
use crate::config::{Loaded, Source};
use crate::http::{Guard, History, HttpServer, Number, Watched};

impl Watched for Running {
    fn status(&self) -> Status {
        Control::status(self)
    }

    fn shards(&self) -> Vec<Vec<Number>> {
        let number = |(name, kind, help, value)| Number { name, counts: kind == CounterKind::Count, help, value };
        self.counters().iter().map(|counters| counters.list().into_iter().map(number).collect()).collect()
    }
}

/// Opens the listeners of `admin_http` and serves them. None when it is off, or no default address is free.
pub(super) fn start(
    loaded: &Loaded,
    running: &Arc<Running>,
    history: Option<History>,
) -> Result<Option<HttpServer>, Failure> {
    let config = &loaded.config;
    let token = config.admin_http_token.as_deref().map(Guard::token).transpose();
    let token = token.map_err(|fault| {
        let file = config.admin_http_token.as_deref().unwrap_or("".as_ref()).display();
        Failure::new(Exit::Usage, format!("admin_http_token: {file}: {fault}"))
    })?;
    let given = *loaded.source("admin_http") != Source::Default;
    let mut listeners = Vec::new();
    for address in &config.admin_http {
        match TcpListener::bind(address) {
            Ok(listener) => listeners.push((listener, token.clone().unwrap_or_else(Guard::loopback))),
            // Another server of this machine has it, or the machine has no such address.
            Err(error) if !given => tracing::info!(%address, %error, "the admin's default address is left out"),
            Err(error) => return Err(Failure::failed(format!("admin_http: cannot listen on {address}: {error}"))),
        }
    }
    if listeners.is_empty() {
        return Ok(None);
    }
    let server = HttpServer::start(listeners, running.clone(), history).map_err(Failure::failed)?;
    for address in server.addresses() {
        tracing::info!(%address, "the operator's HTTP is served: the dashboard, /metrics, /health, /ready");
    }
    Ok(Some(server))
}
