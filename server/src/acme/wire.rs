//! Requests to an authority: HTTPS, a connection each, bounded in time and size.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{HOST, HeaderValue, RETRY_AFTER};
use hyper::{Request, StatusCode, Uri};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::lookup_host;

use crate::client::{Connection, Lost, reach, retry_after};

/// Time for one request and its response.
const LIMIT: Duration = Duration::from_secs(30);

/// Maximum length of a response; a chain of certificates has some kilobytes.
const BODY_BYTES_MAX: usize = 1 << 20;

/// A client of an authority.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    tls: Arc<ClientConfig>,
    /// The longest pause that a refusal has asked for, seconds.
    pause_s: Arc<AtomicI64>,
}

impl Wire {
    pub(super) fn new(tls: Arc<ClientConfig>) -> Wire {
        Wire { tls, pause_s: Arc::default() }
    }

    /// The longest pause that a refusal has asked for (RFC 8555 6.6), seconds; 0 for none.
    pub(super) fn asked_pause_s(&self) -> i64 {
        self.pause_s.load(Ordering::Relaxed)
    }

    async fn exchange(&self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, String> {
        let (mut parts, body) = request.into_parts();
        let Ok(body) = body.collect().await;
        let uri = std::mem::take(&mut parts.uri);
        let mut connection = self.connect(&uri).await?;
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        parts.headers.insert(HOST, HeaderValue::from_str(authority).map_err(|error| error.to_string())?);
        // RFC 9112 3.2.1: a server, unlike a proxy, is sent the path alone.
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        parts.uri = path.parse().map_err(|error| format!("{path}: {error}"))?;
        let request = Request::from_parts(parts, Full::new(body.to_bytes()));
        let response = connection.exchange(request).await.map_err(|lost| match lost {
            Lost::Ended => "it closed the connection without an answer".to_owned(),
            Lost::NoHttp => "its answer is not HTTP".to_owned(),
        })?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, BODY_BYTES_MAX).collect().await.map_err(|error| error.to_string())?;
        if matches!(parts.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            let asked = parts.headers.get(RETRY_AFTER).and_then(|field| retry_after(field.to_str().ok()?));
            let asked_s = i64::try_from(asked.unwrap_or_default().as_secs()).unwrap_or(i64::MAX);
            self.pause_s.fetch_max(asked_s, Ordering::Relaxed);
        }
        Ok(BytesResponse { parts, body: Box::new(body.to_bytes()) })
    }

    /// RFC 8555 6.1: always over TLS.
    async fn connect(&self, uri: &Uri) -> Result<Connection, String> {
        let (Some("https"), Some(host)) = (uri.scheme_str(), uri.host()) else {
            return Err("it has no https: address".to_owned());
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let found = lookup_host((host, uri.port_u16().unwrap_or(443))).await.map_err(|error| error.to_string())?;
        let socket = reach(&found.collect::<Vec<_>>(), LIMIT).await.map_err(|error| error.to_string())?;
        let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
        Connection::open(socket, Some(&(self.tls.clone(), name))).await
    }
}

impl HttpClient for Wire {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let (wire, host) = (self.clone(), request.uri().host().unwrap_or_default().to_owned());
        Box::pin(async move {
            let came = tokio::time::timeout(LIMIT, wire.exchange(request)).await;
            let came = came.unwrap_or_else(|_| Err("it has not answered in time".to_owned()));
            came.map_err(|why| Error::Other(format!("{host} cannot be reached: {why}").into()))
        })
    }
}
