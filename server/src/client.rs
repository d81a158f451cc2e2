//! HTTP/1.1 as a client: one connection to somebody else's service, in the clear or over TLS, with one request at a time. For questions about
//! users who are kept elsewhere, and for pushes.

use std::sync::Arc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

/// Where the certificates of authorities are that the system trusts.
const SYSTEM_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// By what a peer is checked, and its name.
pub(crate) type Tls = (Arc<ClientConfig>, ServerName<'static>);

/// What a program that speaks TLS checks its peers by: the certificates in this file (PEM), or the system's.
///
/// # Errors
/// Why there is none.
pub(crate) fn authorities(file: Option<&std::path::Path>) -> Result<Arc<ClientConfig>, String> {
    let system = || SYSTEM_AUTHORITIES.iter().map(std::path::Path::new).find(|path| path.exists());
    let file = file.or_else(system).ok_or("the system has no certificates of authorities: name a file")?;
    let wrong = |what: &dyn std::fmt::Display| format!("{}: {what}", file.display());
    let text = std::fs::read(file).map_err(|error| wrong(&error))?;
    let mut roots = RootCertStore::empty();
    for certificate in rustls_pemfile::certs(&mut &text[..]) {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        // The system's file may have some that rustls does not take.
        let _ = roots.add(certificate);
    }
    if roots.is_empty() {
        return Err(wrong(&"there is no certificate of an authority in it"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = versions.map_err(|error| error.to_string())?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    task: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The connection has ended.
    Ended,
    /// What came is no HTTP.
    NoHttp,
}

impl Connection {
    /// Speaks HTTP on a socket, over TLS if there is something to check the peer by.
    ///
    /// # Errors
    /// What is wrong with the peer.
    pub(crate) async fn open(socket: TcpStream, tls: Option<&Tls>) -> Result<Connection, String> {
        let _ = socket.set_nodelay(true);
        match tls {
            None => Connection::over(TokioIo::new(socket)).await,
            Some((config, name)) => {
                let connector = TlsConnector::from(config.clone());
                let socket = connector.connect(name.clone(), socket).await.map_err(|error| error.to_string())?;
                Connection::over(TokioIo::new(socket)).await
            }
        }
    }

    async fn over<S>(socket: S) -> Result<Connection, String>
    where
        S: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    {
        let (sender, connection) = handshake(socket).await.map_err(|error| error.to_string())?;
        let task = tokio::spawn(async move {
            // What it ends by is told by the request.
            let _ = connection.await;
        });
        Ok(Connection { sender, task })
    }

    /// Asks, and waits for the head of the answer. If this is given up in the middle, the connection has to go with it.
    ///
    /// # Errors
    /// There is none.
    pub(crate) async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Lost> {
        self.sender.ready().await.map_err(|_| Lost::Ended)?;
        let answer = self.sender.send_request(request).await;
        answer.map_err(|error| if error.is_parse() { Lost::NoHttp } else { Lost::Ended })
    }
}
