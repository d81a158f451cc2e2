//! Listeners that answer challenges by HTTP and nothing else: usually port 80.

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use throng_engine::web::policy::Challenge;

use crate::http::patience::{Conn, Patient, Places};
use crate::runtime::ACCEPT_AGAIN;

/// Connections per listener; a further one displaces another.
const CONNECTIONS_MAX: usize = 64;
/// Time for the head of a request, and maximum bytes of it.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
const HEAD_BYTES_MAX: usize = 8 << 10;

/// Serves a listener, on this runtime.
pub(super) fn start(listener: TcpListener, challenge: Arc<ArcSwapOption<Challenge>>) {
    tokio::spawn(async move {
        let listener = listener.set_nonblocking(true).and_then(|()| tokio::net::TcpListener::from_std(listener));
        let Ok(listener) = listener else { return tracing::error!("acme_http: a listener cannot be served") };
        let mut places = Places::new(CONNECTIONS_MAX);
        loop {
            let Ok((stream, from)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            };
            let conn = Conn::new(from.ip());
            let socket = TokioIo::new(Patient::new(stream, conn.clone()));
            let challenge = challenge.clone();
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer(&request, challenge.load().as_deref());
                async move { Ok::<_, Infallible>(answer) }
            });
            let task = tokio::spawn(async move {
                let mut http = hyper::server::conn::http1::Builder::new();
                http.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).max_buf_size(HEAD_BYTES_MAX);
                // Clients that disconnect are not reported.
                let _ = http.keep_alive(false).serve_connection(socket, service).await;
            });
            places.take(conn, task);
        }
    });
}

fn answer(request: &Request<Incoming>, challenge: Option<&Challenge>) -> Response<Full<Bytes>> {
    let asked = challenge.filter(|challenge| request.method() == Method::GET && challenge.is_at(request.uri().path()));
    let (status, kind, body) = match asked {
        Some(challenge) => (StatusCode::OK, "application/octet-stream", challenge.answer.to_string()),
        None => (StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "nothing is served at this path\n".to_owned()),
    };
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
}
