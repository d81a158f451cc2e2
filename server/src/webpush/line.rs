//! A line to the push services of one entry of the operator's list: one connection, kept open while
//! the host stays the same, with one push at a time.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST, RETRY_AFTER};
use hyper::{Request, Response, StatusCode};
use rustls::pki_types::ServerName;
use throng_engine::io::WebPush;
use tokio::net::lookup_host;

use super::{Settings, address};
use crate::client::{Connection, Lost, reach, retry_after};

/// Bytes of a response body that are read so that the connection can be reused.
const BODY_BYTES_MAX: usize = 64 << 10;

/// Maximum time for that.
const BODY_TIME: Duration = Duration::from_secs(1);

/// A push service's response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// The status.
    pub(super) status: StatusCode,
    /// The requested delay before the next request.
    pub(super) again: Option<Duration>,
}

/// Why there is no response.
#[derive(Debug)]
pub(super) enum Fault {
    /// The host has no address, or none that is permitted.
    NoAddress(String),
    /// Connecting failed, or the peer is not the expected one.
    NotThere(String),
    /// The connection has ended, or the response is not HTTP.
    Lost(Lost),
    /// The response timed out.
    Late,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::NoAddress(why) | Fault::NotThere(why) => write!(f, "it cannot be reached: {why}"),
            Fault::Lost(Lost::Ended) => f.write_str("it closed the connection without an answer"),
            Fault::Lost(Lost::NoHttp) => f.write_str("its answer is not HTTP"),
            Fault::Late => f.write_str("it has not answered in time"),
        }
    }
}

/// A push that is ready to be sent.
#[derive(Debug)]
pub(super) struct Sealed<'a> {
    /// The destination.
    pub(super) push: &'a WebPush,
    /// Its host.
    pub(super) host: &'a str,
    /// Its port.
    pub(super) port: u16,
    /// The body.
    pub(super) body: Bytes,
}

impl Sealed<'_> {
    /// The origin of the push resource (RFC 6454 6.2).
    fn origin(&self) -> String {
        let host = self.host.to_ascii_lowercase();
        if self.port == 443 { format!("https://{host}") } else { format!("https://{host}:{}", self.port) }
    }
}

/// A connection, or none yet.
pub(super) struct Line {
    settings: Arc<Settings>,
    kept: Option<(String, Connection)>,
}

impl Line {
    pub(super) fn new(settings: Arc<Settings>) -> Line {
        Line { settings, kept: None }
    }

    /// Sends a push, and waits for the response. If the service has closed the connection in the
    /// meantime, it is reopened, once.
    ///
    /// # Errors
    /// There is no response.
    pub(super) async fn send(&mut self, sealed: &Sealed<'_>) -> Result<Answer, Fault> {
        let (limit, origin) = (self.settings.limit, sealed.origin());
        let came = tokio::time::timeout(limit, self.send_in_time(sealed, &origin)).await;
        let (connection, response) = came.unwrap_or(Err(Fault::Late))?;
        let again = response.headers().get(RETRY_AFTER).and_then(|field| field.to_str().ok()).and_then(retry_after);
        let answer = Answer { status: response.status(), again };
        // The status is sufficient. If the body does not end in time, the connection is dropped
        // instead.
        let rest = Limited::new(response.into_body(), BODY_BYTES_MAX).collect();
        if tokio::time::timeout(BODY_TIME, rest).await.is_ok_and(|rest| rest.is_ok()) {
            self.kept = Some((origin, connection));
        }
        Ok(answer)
    }

    async fn send_in_time(
        &mut self,
        sealed: &Sealed<'_>,
        origin: &str,
    ) -> Result<(Connection, Response<Incoming>), Fault> {
        let request = self.request(sealed, origin)?;
        let kept = self.kept.take().filter(|(of, _)| of == origin);
        // If this is cancelled, the connection is dropped with it.
        if let Some((_, mut connection)) = kept {
            match connection.exchange(request.clone()).await {
                Ok(response) => return Ok((connection, response)),
                Err(Lost::Ended) => {}
                Err(lost) => return Err(Fault::Lost(lost)),
            }
        }
        let mut connection = self.connect(sealed).await?;
        let response = connection.exchange(request).await.map_err(Fault::Lost)?;
        Ok((connection, response))
    }

    async fn connect(&self, sealed: &Sealed<'_>) -> Result<Connection, Fault> {
        let (host, no_address) = (sealed.host, |why: String| Fault::NoAddress(why));
        let found = lookup_host((host, sealed.port)).await.map_err(|error| no_address(error.to_string()))?;
        // Connects to the checked address itself, so the name cannot resolve to another one in
        // between.
        let may = |address: &std::net::SocketAddr| self.settings.private || address::is_public(address.ip());
        let to: Vec<_> = found.filter(may).collect();
        if to.is_empty() {
            return Err(no_address("it has no public address (notify_push_private)".into()));
        }
        let not_there = |error: &dyn std::fmt::Display| Fault::NotThere(error.to_string());
        let socket = reach(&to, self.settings.limit).await.map_err(|error| not_there(&error))?;
        let name = ServerName::try_from(host.to_owned()).map_err(|error| not_there(&error))?;
        let tls = (self.settings.tls.clone(), name);
        Connection::open(socket, Some(&tls)).await.map_err(|error| not_there(&error))
    }

    /// RFC 8030 5, RFC 8291 4, RFC 8292 3.
    fn request(&self, sealed: &Sealed<'_>, origin: &str) -> Result<Request<Full<Bytes>>, Fault> {
        let cannot = |what: &dyn std::fmt::Display| Fault::NoAddress(what.to_string());
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let authorization = self.settings.vapid.authorization(origin, now_s).map_err(|error| cannot(&error))?;
        let uri: hyper::Uri = sealed.push.endpoint.parse().map_err(|error| cannot(&error))?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let authority = origin.trim_start_matches("https://");
        let mut request = Request::post(path)
            .header(HOST, authority)
            .header(AUTHORIZATION, authorization)
            .header(CONTENT_ENCODING, "aes128gcm")
            .header(CONTENT_TYPE, "application/octet-stream")
            .header("TTL", self.settings.ttl.as_secs())
            .header("Urgency", self.settings.urgency);
        if let Some(topic) = &sealed.push.topic {
            request = request.header("Topic", &**topic);
        }
        request.body(Full::new(sealed.body.clone())).map_err(|error| cannot(&error))
    }
}
