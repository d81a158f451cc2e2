//! A line to a web service: one connection, kept alive, with one request at a time.
//!
//! Paths and answers about users are those of MongooseIM's HTTP authentication; the request is a POST of JSON, so that no password stands
//! in a URL, which servers and proxies write into their logs. Only `200` with `true` or `false` is an answer: whatever else comes (a
//! redirect, `404` of a wrong path, a page of a proxy) is a failure of the service, and not a word on a user. What is asked about requests
//! for channels, and how it is answered, is written in `inquiry`.

use std::sync::Arc;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use throng_engine::io::Verdict;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use super::{Fault, Said, What, inquiry};

/// Bytes of an answer's body, at the most.
const BODY_BYTES_MAX: usize = 1024;

/// Where the certificates of authorities are that the system trusts.
const SYSTEM_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// A web service.
#[derive(Clone)]
pub struct Service {
    host: String,
    port: u16,
    authority: String,
    path: String,
    /// Path and query, as they were given.
    target: String,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    token: Option<String>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Service({}{})", self.authority, self.path)
    }
}

/// What a program that speaks TLS checks its peers by: the certificates in this file (PEM), or the system's.
///
/// # Errors
/// Why there is none.
pub fn authorities(file: Option<&std::path::Path>) -> Result<Arc<ClientConfig>, String> {
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

impl Service {
    /// The service at a URL. `tls` is for HTTPS.
    ///
    /// # Errors
    /// Why it cannot be one.
    pub fn new(
        url: &str,
        tls: impl FnOnce() -> Result<Arc<ClientConfig>, String>,
        token: Option<String>,
    ) -> Result<Service, String> {
        let wrong = || format!("{url} is no URL of HTTP or HTTPS");
        let uri: hyper::Uri = url.parse().map_err(|_| wrong())?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong()),
        };
        let authority = uri.authority().ok_or_else(wrong)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let tls = match is_tls {
            false => None,
            true => Some((tls()?, ServerName::try_from(host.clone()).map_err(|error| format!("{url}: {error}"))?)),
        };
        let path = uri.path().trim_end_matches('/').to_owned();
        let target = uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        Ok(Service { host, port, authority: authority.to_string(), path, target, tls, token })
    }

    fn request(&self, what: &What) -> Result<Request<Full<Bytes>>, Fault> {
        let (target, body) = match what {
            What::User(question) => {
                let (user, domain) = question.user();
                match question.password() {
                    Some(password) => (
                        format!("{}/check_password", self.path),
                        serde_json::json!({ "user": user, "server": domain, "pass": password }),
                    ),
                    None => {
                        (format!("{}/user_exists", self.path), serde_json::json!({ "user": user, "server": domain }))
                    }
                }
            }
            What::Channels(asked) => (self.target.clone(), inquiry::body(asked)),
        };
        let mut request = Request::post(target).header(HOST, &self.authority).header(CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        request
            .body(Full::new(Bytes::from(body.to_string())))
            .map_err(|_| Fault::Wrong("the request cannot be written"))
    }
}

/// A connection, or none yet.
pub(super) struct Line {
    service: Service,
    connection: Option<Connection>,
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    task: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Line {
    pub(super) fn new(service: Service) -> Line {
        Line { service, connection: None }
    }

    /// Asks. A connection that the service has closed meanwhile is opened again, once: the question changes nothing, so it may be asked
    /// twice.
    pub(super) async fn ask(&mut self, what: &What, started: &mut u64) -> Result<Said, Fault> {
        for _ in 0..2 {
            let old = self.connection.take();
            let is_old = old.is_some();
            let mut connection = match old {
                Some(connection) => connection,
                None => {
                    *started += 1;
                    self.connect().await?
                }
            };
            // If this is given up in the middle, the connection goes with it.
            match exchange(&mut connection, self.service.request(what)?).await {
                Err(Fault::Ended) if is_old => continue,
                Err(fault) => return Err(fault),
                Ok(body) => {
                    let said = read(what, &body)?;
                    self.connection = Some(connection);
                    return Ok(said);
                }
            }
        }
        Err(Fault::Ended)
    }

    async fn connect(&self) -> Result<Connection, Fault> {
        let not_there = |error: &dyn std::fmt::Display| Fault::NotThere(error.to_string());
        let to = (self.service.host.as_str(), self.service.port);
        let socket = TcpStream::connect(to).await.map_err(|error| not_there(&error))?;
        let _ = socket.set_nodelay(true);
        match &self.service.tls {
            None => open(TokioIo::new(socket)).await,
            Some((config, name)) => {
                let connector = TlsConnector::from(config.clone());
                let socket = connector.connect(name.clone(), socket).await.map_err(|error| not_there(&error))?;
                open(TokioIo::new(socket)).await
            }
        }
    }
}

async fn open<S>(socket: S) -> Result<Connection, Fault>
where
    S: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
{
    let (sender, connection) = handshake(socket).await.map_err(|error| Fault::NotThere(error.to_string()))?;
    let task = tokio::spawn(async move {
        // What it ends by is told by the request.
        let _ = connection.await;
    });
    Ok(Connection { sender, task })
}

/// The body of an answer.
async fn exchange(connection: &mut Connection, request: Request<Full<Bytes>>) -> Result<Bytes, Fault> {
    connection.sender.ready().await.map_err(|_| Fault::Ended)?;
    let response = connection.sender.send_request(request).await.map_err(|error| match error.is_parse() {
        true => Fault::Wrong("it does not answer in HTTP"),
        false => Fault::Ended,
    })?;
    if response.status() != StatusCode::OK {
        return Err(Fault::Status(response.status().as_u16()));
    }
    let body = Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await;
    Ok(body.map_err(|_| Fault::Wrong("its answer is cut short, or longer than 1,024 bytes"))?.to_bytes())
}

/// What an answer says.
fn read(what: &What, body: &[u8]) -> Result<Said, Fault> {
    match (what, body.trim_ascii()) {
        (What::Channels(_), body) => inquiry::answer(body).map(Said::Channels).map_err(Fault::Wrong),
        (What::User(_), b"true") => Ok(Said::User(Verdict::Yes)),
        (What::User(_), b"false") => Ok(Said::User(Verdict::No)),
        _ => Err(Fault::Wrong("it has answered with something else than true or false")),
    }
}
