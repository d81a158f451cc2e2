//! An HTTP/1.1 client: one connection to an external service, in clear text or over TLS, with one
//! request at a time. Used for external authentication, pushes and certificate authorities.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Common paths of the system's trusted certificate authorities.
const SYSTEM_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The configuration that verifies a peer, and the peer's name.
pub(crate) type Tls = (Arc<ClientConfig>, ServerName<'static>);

/// The trust anchors of a TLS client: the certificates in this file (PEM), or the system's.
///
/// # Errors
/// Why there are none.
pub(crate) fn authorities(file: Option<&std::path::Path>) -> Result<Arc<ClientConfig>, String> {
    let system = || SYSTEM_AUTHORITIES.iter().map(std::path::Path::new).find(|path| path.exists());
    let file = file
        .or_else(system)
        .ok_or("the system has no CA certificates: install the package ca-certificates, or name a file")?;
    let wrong = |what: &dyn std::fmt::Display| format!("{}: {what}", file.display());
    let text = std::fs::read(file).map_err(|error| wrong(&error))?;
    let mut roots = RootCertStore::empty();
    for certificate in rustls_pemfile::certs(&mut &text[..]) {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        // The system's file may contain some that rustls does not accept.
        let _ = roots.add(certificate);
    }
    if roots.is_empty() {
        return Err(wrong(&"it contains no CA certificate"));
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
    /// The response is not HTTP.
    NoHttp,
}

/// Connects to the first of these addresses that answers. Each has its share of the time: one that
/// never answers leaves some for the others.
///
/// # Errors
/// That of the last address.
pub(crate) async fn reach(addresses: &[SocketAddr], limit: Duration) -> io::Result<TcpStream> {
    let share = limit / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut last = io::Error::new(io::ErrorKind::NotFound, "it has no address");
    for address in addresses {
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(socket)) => return Ok(socket),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

impl Connection {
    /// Starts HTTP on a socket, over TLS if `tls` is given.
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
            // The request reports how it ended.
            let _ = connection.await;
        });
        Ok(Connection { sender, task })
    }

    /// Sends a request and waits for the head of the response. If this is cancelled, the connection
    /// must be dropped.
    ///
    /// # Errors
    /// There is no response.
    pub(crate) async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Lost> {
        self.sender.ready().await.map_err(|_| Lost::Ended)?;
        let answer = self.sender.send_request(request).await;
        answer.map_err(|error| if error.is_parse() { Lost::NoHttp } else { Lost::Ended })
    }
}

/// The value of `Retry-After` (RFC 9110 10.2.3): seconds, or a date.
pub(crate) fn retry_after(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(text.trim()).ok()?;
    Some(at.duration_since(SystemTime::now()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The queue of the first address is full, so the kernel drops what arrives there.
    #[tokio::test]
    async fn an_address_that_never_answers_leaves_time_for_the_next() {
        let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        full.listen(0).unwrap();
        let full_at = full.local_addr().unwrap().as_socket().unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = reach(&[full_at], Duration::from_millis(50)).await {
            waiting.push(stream);
        }
        let good = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let good_at = good.local_addr().unwrap();
        let stream = reach(&[full_at, good_at], Duration::from_millis(200)).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), good_at);
        let error = reach(&[], Duration::ZERO).await.unwrap_err();
        assert_eq!(error.to_string(), "it has no address");
    }

    #[test]
    fn when_to_ask_again_is_a_number_or_a_date() {
        assert_eq!(retry_after(" 120 "), Some(Duration::from_secs(120)));
        let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(90));
        assert!((85..=90).contains(&retry_after(&date).unwrap().as_secs()));
        assert_eq!(retry_after("Fri, 31 Dec 1999 23:59:59 GMT"), Some(Duration::ZERO));
        assert_eq!((retry_after("soon"), retry_after("-1")), (None, None));
    }
}
