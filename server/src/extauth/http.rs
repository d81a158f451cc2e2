//! A line to a web service: one persistent connection, with one request at a time.
//!
//! Paths and answers about users are those of MongooseIM's HTTP authentication. The request is a
//! POST of JSON, so that no password is part of a URL, which servers and proxies write to their
//! logs. Only `200` with `true` or `false` is an answer. Anything else (a redirect, `404` for a
//! wrong path, a proxy's page) is a failure of the service, not a statement about a user. Requests
//! about channels and their answers are described in `inquiry`.

use std::sync::Arc;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use throng_engine::io::Verdict;
use tokio::net::TcpStream;

use super::{Fault, Said, What, inquiry};
use crate::client::{Connection, Lost, Tls};

/// Maximum bytes of a response body.
const BODY_BYTES_MAX: usize = 1024;

/// A web service.
#[derive(Clone)]
pub struct Service {
    host: String,
    port: u16,
    authority: String,
    path: String,
    /// Path and query, as configured.
    target: String,
    tls: Option<Tls>,
    token: Option<String>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Service({}{})", self.authority, self.path)
    }
}

impl Service {
    /// The service at a URL. `tls` is for HTTPS.
    ///
    /// # Errors
    /// Why the URL is not usable.
    pub fn new(
        url: &str,
        tls: impl FnOnce() -> Result<Arc<ClientConfig>, String>,
        token: Option<String>,
    ) -> Result<Service, String> {
        let wrong = || format!("{url} is not an HTTP or HTTPS URL");
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

impl Line {
    pub(super) fn new(service: Service) -> Line {
        Line { service, connection: None }
    }

    /// Sends a request. If the service has closed the connection in the meantime, it is reopened,
    /// once: the request has no side effects, so it may be repeated.
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
            // If this is cancelled, the connection is dropped with it.
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
        Connection::open(socket, self.service.tls.as_ref()).await.map_err(|error| not_there(&error))
    }
}

/// Returns the body of a response.
async fn exchange(connection: &mut Connection, request: Request<Full<Bytes>>) -> Result<Bytes, Fault> {
    let response = connection.exchange(request).await.map_err(|lost| match lost {
        Lost::NoHttp => Fault::Wrong("its answer is not HTTP"),
        Lost::Ended => Fault::Ended,
    })?;
    if response.status() != StatusCode::OK {
        return Err(Fault::Status(response.status().as_u16()));
    }
    let body = Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await;
    Ok(body.map_err(|_| Fault::Wrong("its answer is cut short, or longer than 1,024 bytes"))?.to_bytes())
}

/// Parses an answer.
fn read(what: &What, body: &[u8]) -> Result<Said, Fault> {
    match (what, body.trim_ascii()) {
        (What::Channels(_), body) => inquiry::answer(body).map(Said::Channels).map_err(Fault::Wrong),
        (What::User(_), b"true") => Ok(Said::User(Verdict::Yes)),
        (What::User(_), b"false") => Ok(Said::User(Verdict::No)),
        _ => Err(Fault::Wrong("its answer is neither true nor false")),
    }
}
