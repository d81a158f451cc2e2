//! A bucket of an S3 service. `object_store` has the requests and their signatures; this module
//! finds the credentials, and carries the requests by the server's own HTTP client.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response, Uri};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{
    ClientOptions, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ObjectStore, RetryConfig};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::OBJECT_BYTES_MAX;
use crate::client::{Connection, Lost, authorities};
use crate::waits::{Mutex, Place};

/// What a URL of S3 leaves open.
#[derive(Clone, Debug, Default)]
pub struct S3Options {
    /// URL of the service; empty for Amazon's, or what `AWS_ENDPOINT_URL` says.
    pub endpoint: String,
    /// File with credentials in AWS's format; if `None`, the variables `AWS_*` have them.
    pub credentials: Option<PathBuf>,
}

/// Time for a connection with its handshake.
const CONNECT: Duration = Duration::from_secs(10);

/// Connections that wait for the next request: one per task of a backup.
const IDLE_MAX: usize = 3;

/// What refuses for a moment is asked again this often before it counts as a failure.
const RETRIES: usize = 2;

/// Variables of which one is set if this process has credentials, as AWS's own tools read them.
const CREDENTIALS: [&str; 4] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];

/// The bucket of `BUCKET/...`, by the options and the variables `AWS_*`; options win.
///
/// # Errors
/// What is missing, in words.
pub(super) fn open(bucket: &str, options: &S3Options, encrypts: bool) -> Result<Arc<dyn ObjectStore>, String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
    let mut known = CREDENTIALS.iter().any(|name| variable(name).is_some());
    if let Some(file) = &options.credentials {
        let profile = variable("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        for (key, value) in section(&text, &profile) {
            // `region` and `endpoint_url` are allowed as well; other lines concern other tools.
            if let Ok(key) = key.parse::<AmazonS3ConfigKey>() {
                builder = builder.with_config(key, value);
            }
        }
        known = builder.get_config_value(&AmazonS3ConfigKey::AccessKeyId).is_some();
        if !known {
            return Err(format!("{} has no aws_access_key_id in its section [{profile}]", file.display()));
        }
    }
    if !options.endpoint.is_empty() {
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, options.endpoint.trim_end_matches('/'));
    }
    let endpoint = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint];
    let endpoint = endpoint.iter().find_map(|key| builder.get_config_value(key));
    if let Some(url) = endpoint.as_deref().filter(|url| !["https://", "http://"].iter().any(|s| url.starts_with(s))) {
        return Err(format!("{url} is no endpoint such as https://minio.example.org:9000"));
    }
    // Without any, a machine of Amazon's is asked for those of its role.
    if !known && endpoint.is_some() {
        return Err("there are no credentials: set backup_credentials, or AWS_ACCESS_KEY_ID and \
                    AWS_SECRET_ACCESS_KEY"
            .to_owned());
    }
    let plain = endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://"));
    if plain && !encrypts && !endpoint.as_deref().is_some_and(is_this_machine) {
        return Err(
            "its endpoint is http:, so others can read the backup on its way: use https:, or set backup_key".to_owned()
        );
    }
    let tls = match plain {
        true => None,
        false => Some(authorities(variable("AWS_CA_BUNDLE").as_deref().map(Path::new))?),
    };
    let retry = RetryConfig { max_retries: RETRIES, ..RetryConfig::default() };
    let builder = builder
        .with_allow_http(plain)
        .with_retry(retry)
        .with_http_connector(Wire(Arc::new(Carrier { tls, idle: Mutex::new(Place::LockBackup, Vec::new()) })));
    Ok(Arc::new(builder.build().map_err(|error| error.to_string())?))
}

/// Keys and values of a section of a file in AWS's format.
fn section<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = (String, &'a str)> {
    let mut inside = false;
    text.lines().filter_map(move |line| {
        let line = line.trim();
        if let Some(found) = line.strip_prefix('[') {
            inside = found.trim_end_matches(']').trim() == name;
        }
        let (key, value) = line.split_once('=').filter(|_| inside && !line.starts_with(['#', ';']))?;
        Some((key.trim().to_ascii_lowercase(), value.trim()))
    })
}

fn is_this_machine(endpoint: &str) -> bool {
    let uri = endpoint.parse::<Uri>().ok();
    uri.as_ref().and_then(Uri::host).is_some_and(|host| {
        host == "localhost"
            || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    })
}

/// Carries requests. Its time limits are those of its caller.
#[derive(Clone, Debug)]
struct Wire(Arc<Carrier>);

#[derive(Debug)]
struct Carrier {
    tls: Option<Arc<ClientConfig>>,
    /// Connections and what they lead to: at most [`IDLE_MAX`].
    idle: Mutex<Vec<(String, Connection)>>,
}

impl HttpConnector for Wire {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

impl HttpService for Wire {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(self.0.exchange(request))
    }
}

/// A failure, to be tried again.
fn lost(kind: HttpErrorKind, what: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> HttpError {
    HttpError::new_boxed(kind, what.into())
}

impl Carrier {
    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (mut parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let uri = std::mem::take(&mut parts.uri);
        let authority = uri.authority().map_or("", |authority| authority.as_str()).to_owned();
        let host = HeaderValue::from_str(&authority).map_err(|error| lost(HttpErrorKind::Unknown, error))?;
        parts.headers.insert(HOST, host);
        // RFC 9112 3.2.1: a server, unlike a proxy, is sent the path alone.
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        parts.uri = path.parse().map_err(|error: hyper::http::uri::InvalidUri| lost(HttpErrorKind::Unknown, error))?;
        let to = format!("{}://{authority}", uri.scheme_str().unwrap_or_default());
        loop {
            let idle = self.take(&to);
            let again = idle.is_some();
            let mut connection = match idle {
                Some(connection) => connection,
                None => self.connect(&uri).await.map_err(|what| lost(HttpErrorKind::Connect, what))?,
            };
            match connection.exchange(Request::from_parts(parts.clone(), Full::new(body.clone()))).await {
                Ok(response) => {
                    let whole = read(response).await?;
                    self.give_back(to, connection);
                    return Ok(whole);
                }
                // It was closed while it was idle.
                Err(Lost::Ended) if again => {}
                Err(Lost::Ended) => {
                    return Err(lost(HttpErrorKind::Interrupted, format!("{to} closed the connection")));
                }
                Err(Lost::NoHttp) => {
                    return Err(lost(HttpErrorKind::Decode, format!("{to} answers something else than HTTP")));
                }
            }
        }
    }

    fn take(&self, to: &str) -> Option<Connection> {
        let mut idle = self.idle.lock();
        let at = idle.iter().rposition(|(leads_to, _)| leads_to == to)?;
        Some(idle.swap_remove(at).1)
    }

    fn give_back(&self, to: String, connection: Connection) {
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push((to, connection));
        }
    }

    async fn connect(&self, uri: &Uri) -> Result<Connection, String> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let tls = match (uri.scheme_str(), &self.tls) {
            (Some("http"), _) => None,
            (_, tls) => Some(tls.as_ref().ok_or("only its endpoint is http:")?),
        };
        let port = uri.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
        let connected = timeout(CONNECT, async {
            let found = lookup_host((host, port)).await.map_err(|error| error.to_string())?;
            let socket = TcpStream::connect(&found.collect::<Vec<_>>()[..]).await.map_err(|error| error.to_string())?;
            let name = || ServerName::try_from(host.to_owned()).map_err(|error| error.to_string());
            let tls = tls.map(|tls| Ok::<_, String>((tls.clone(), name()?))).transpose()?;
            Connection::open(socket, tls.as_ref()).await
        });
        let connected =
            connected.await.unwrap_or_else(|_| Err(format!("no connection within {} s", CONNECT.as_secs())));
        connected.map_err(|what| format!("{host}:{port}: {what}"))
    }
}

/// A response with all of its body.
async fn read(response: Response<hyper::body::Incoming>) -> Result<HttpResponse, HttpError> {
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, OBJECT_BYTES_MAX).collect().await;
    let body: Bytes = body.map_err(|error| HttpError::new_boxed(HttpErrorKind::Interrupted, error))?.to_bytes();
    Ok(Response::from_parts(parts, body.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_as_awss_tools_read_them() {
        let file = "# mine\naws_access_key_id = none\n[default]\naws_access_key_id = A=1\n; no\n\n[ other ]\n\
                    AWS_Secret_Access_Key=b \nregion = eu-1\n";
        let of = |name| section(file, name).collect::<Vec<_>>();
        assert_eq!(of("default"), [("aws_access_key_id".to_owned(), "A=1")]);
        assert_eq!(of("other"), [("aws_secret_access_key".to_owned(), "b"), ("region".to_owned(), "eu-1")]);
        assert!(of("third").is_empty());
    }

    #[test]
    fn only_this_machine_is_sent_what_others_could_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("credentials");
        std::fs::write(&file, "[default]\naws_access_key_id = a\naws_secret_access_key = b\n").expect("written");
        let open = |endpoint: &str, encrypts| {
            let options = S3Options { endpoint: endpoint.to_owned(), credentials: Some(file.clone()) };
            open("bucket", &options, encrypts).map(drop)
        };
        for endpoint in ["http://127.0.0.1:9000", "http://[::1]:9000/", "http://localhost"] {
            assert_eq!(open(endpoint, false), Ok(()), "{endpoint}");
        }
        let text = open("http://minio.lan:9000", false).unwrap_err();
        assert!(text.contains("use https:, or set backup_key"), "{text}");
        assert_eq!(open("http://minio.lan:9000", true), Ok(()));
        std::fs::write(&file, "[work]\naws_access_key_id = a\n").expect("written");
        assert!(open("http://localhost", false).unwrap_err().contains("no aws_access_key_id in its section [default]"));
    }
}
