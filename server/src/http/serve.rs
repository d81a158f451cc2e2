//! Listeners and connections: few, bounded in number and time, on one thread.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Request, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router, middleware};
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use socket2::SockRef;
use tokio::sync::Semaphore;

use super::guard::{self, Guard, Tells};
use super::health::Turns;
use super::history::{History, Query as Asked, Recent, Refused};
use super::patience::{Conn, Patient, Places};
use super::{Telemetry, metrics, page, standing, wrong};
use crate::admin::wrong::Ready;
use crate::end::{Survive, survive};
use crate::runtime::{ACCEPT_AGAIN, Blocking, Listening};
use crate::waits;

/// Most connections per listener; for a further one, an existing one gives way.
const CONNECTIONS_MAX: usize = 64;
/// Kernel send buffer per connection; the kernel uses twice as much.
const SEND_BUFFER_BYTES: usize = 128 << 10;
/// Timeout for the head of a request, and between two requests.
const HEAD_PATIENCE: Duration = Duration::from_secs(15);
/// Threads for reading recordings and querying shards: as many as run at a time (see [`Seen`]).
const BLOCKING_MAX: usize = 3;
/// Interval at which the turns of shards are checked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Default number of sessions, and its limit.
const SESSIONS: usize = 50;
const SESSIONS_MAX: usize = 1_000;

/// The HTTP server. Dropping it closes all its connections.
#[derive(Debug)]
pub struct HttpServer(Listening);

#[derive(Clone)]
struct Seen {
    telemetry: Arc<dyn Telemetry>,
    turns: Arc<Turns>,
    history: Option<History>,
    /// Permits for long queries of recordings, one at a time: a query occupies a core.
    looking: Arc<Semaphore>,
    /// Permits for queries of the last seconds, which are in memory: long queries do not delay
    /// them.
    judging: Arc<Semaphore>,
    /// Permits for queries of the shards.
    asking: Arc<Semaphore>,
}

impl HttpServer {
    /// Serves these listeners, each with its guard, on a thread of its own.
    ///
    /// # Errors
    /// The system's.
    pub fn start(
        listeners: Vec<(TcpListener, Guard)>,
        telemetry: Arc<dyn Telemetry>,
        history: Option<History>,
    ) -> io::Result<HttpServer> {
        let seen = Seen {
            telemetry,
            turns: Arc::default(),
            history,
            looking: Arc::new(Semaphore::new(1)),
            judging: Arc::new(Semaphore::new(1)),
            asking: Arc::new(Semaphore::new(1)),
        };
        let blocking = Blocking { most: BLOCKING_MAX, whole: true };
        let listening = Listening::start("http", blocking, listeners, move |listeners| run(listeners, seen))?;
        Ok(HttpServer(listening))
    }

    /// The addresses on which it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        self.0.addresses()
    }
}

async fn run(listeners: Vec<(tokio::net::TcpListener, Guard)>, seen: Seen) {
    for (listener, guard) in listeners {
        tokio::spawn(accept(listener, router(guard, seen.clone())));
    }
    let mut every = tokio::time::interval(LOOK_EVERY);
    loop {
        every.tick().await;
        #[cfg(debug_assertions)]
        crate::plant::pass("http");
        seen.turns.look(&*seen.telemetry, Instant::now());
    }
}

async fn accept(listener: tokio::net::TcpListener, pages: Router) {
    let mut places = Places::new(CONNECTIONS_MAX);
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        // Data buffered by the kernel would count as read by a slow reader. A failure here has no
        // other effect.
        let _ = SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER_BYTES);
        let conn = Conn::new(from.ip());
        let (pages, known) = (TowerToHyperService::new(pages.clone()), conn.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(known.clone());
            pages.call(request)
        });
        let socket = Patient::new(stream, conn.clone());
        let connection = Survive::new(async move {
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).max_buf_size(16 << 10);
            // A client that disconnects midway is not an error here.
            let _ = http.serve_connection(TokioIo::new(socket), service).await;
        });
        let task = tokio::spawn(async move {
            if let Err(said) = connection.await {
                tracing::error!("a connection of the operator's HTTP has failed: {said}");
            }
        });
        places.take(conn, task);
    }
}

/// A request that panics ends alone.
async fn one_answer(request: axum::extract::Request, next: Next) -> Response {
    let answered = Survive::new(async {
        #[cfg(debug_assertions)]
        crate::plant::pass("http request");
        next.run(request).await
    });
    answered.await.unwrap_or_else(|said| {
        tracing::error!("a request of the operator's HTTP has failed: {said}");
        (StatusCode::INTERNAL_SERVER_ERROR, "the request has failed; the server's log says why\n").into_response()
    })
}

/// Runs work off the serving thread. `None` if it panics, which is logged.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let done = tokio::task::spawn_blocking(move || {
        survive(|| {
            #[cfg(debug_assertions)]
            crate::plant::pass("http work");
            work()
        })
    });
    done.await.ok()?.inspect_err(|said| tracing::error!("work for the operator's HTTP has failed: {said}")).ok()
}

fn router(guard: Guard, seen: Seen) -> Router {
    Router::new()
        .route("/api/schema", get(schema))
        .route("/api/series", get(series))
        .route("/api/now", get(now))
        .route("/api/busiest", get(busiest))
        .route("/api/recording", get(recording))
        .route("/api/recording/recent", get(recent))
        .route("/api/recording/{number}", get(piece))
        .route_layer(middleware::from_fn_with_state((guard.clone(), Tells::OfUsers), guard::check))
        .merge(
            Router::new()
                .route("/metrics", get(numbers))
                .route_layer(middleware::from_fn_with_state((guard, Tells::OfServer), guard::check)),
        )
        // The page's own files contain no data; it must request what it shows.
        .merge(page::router())
        // Load balancers have no token, and learn here only whether to send clients.
        .route("/health", get(health))
        .route("/ready", get(ready))
        .layer(middleware::from_fn(one_answer))
        .with_state(seen)
}

async fn numbers(State(seen): State<Seen>, headers: HeaderMap) -> Response {
    let format = metrics::Format::wanted(&headers);
    let heads = [(header::CONTENT_TYPE, format.content_type()), (header::VARY, "Accept")];
    (heads, metrics::text(&*seen.telemetry, format)).into_response()
}

/// Queries recordings off the serving thread: that may take a while.
async fn look<T: Send + 'static>(
    seen: &Seen,
    look: impl FnOnce(&History) -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    look_in(seen, &seen.looking, look).await
}

/// The same, one at a time per set of permits.
async fn look_in<T: Send + 'static>(
    seen: &Seen,
    permits: &Arc<Semaphore>,
    look: impl FnOnce(&History) -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    let Some(history) = seen.history.clone() else {
        return Err(Refused::absent("nothing is recorded: the option recorder is off"));
    };
    let Ok(place) = permits.clone().acquire_owned().await else { return Err(Refused::absent("the server stops")) };
    let looked = aside(move || {
        let found = look(&history);
        drop(place);
        found
    });
    looked.await.unwrap_or_else(|| Err(Refused::absent("the recording could not be read; see the log")))
}

async fn schema(State(seen): State<Seen>) -> Result<Response, Refused> {
    look(&seen, History::schema).await.map(|told| Json(told).into_response())
}

async fn series(State(seen): State<Seen>, Query(asked): Query<Asked>) -> Result<Response, Refused> {
    look(&seen, move |history| history.answer(&asked)).await.map(|told| Json(told).into_response())
}

/// The number of sessions.
#[derive(serde::Deserialize)]
struct Most {
    most: Option<usize>,
}

/// The busiest sessions. Waits for the shards off the serving thread.
async fn busiest(State(seen): State<Seen>, Query(Most { most }): Query<Most>) -> Result<Response, Refused> {
    let Ok(place) = seen.asking.clone().acquire_owned().await else { return Err(Refused::absent("the server stops")) };
    let (telemetry, most) = (seen.telemetry.clone(), most.unwrap_or(SESSIONS).clamp(1, SESSIONS_MAX));
    let stuck: Vec<usize> = seen.turns.stuck(Instant::now()).into_iter().map(|(shard, _)| shard).collect();
    let asked = aside(move || {
        let told = telemetry.busiest(most, &stuck);
        drop(place);
        told
    });
    match asked.await {
        Some(Ok(told)) => Ok(Json(told).into_response()),
        Some(Err(fault)) => Err(Refused::absent(&fault.text)),
        None => Err(Refused::absent("the shards did not answer; see the log")),
    }
}

async fn recording(State(seen): State<Seen>) -> Result<Response, Refused> {
    look(&seen, History::parts).await.map(|told| Json(told).into_response())
}

/// An offset in a file.
#[derive(serde::Deserialize)]
struct From {
    #[serde(default)]
    from: u64,
}

const BYTES: (header::HeaderName, &str) = (header::CONTENT_TYPE, "application/octet-stream");

async fn piece(State(seen): State<Seen>, Path(number): Path<u64>, Query(at): Query<From>) -> Result<Response, Refused> {
    let (piece, form) = look(&seen, move |history| history.piece(number, at.from)).await?;
    Ok(([BYTES], [("throng-form", form.to_string())], piece).into_response())
}

async fn recent(State(seen): State<Seen>, Query(asked): Query<Recent>) -> Result<Response, Refused> {
    let (bytes, next) = look(&seen, move |history| history.recent(&asked)).await?;
    Ok(([BYTES], [("throng-next", next)], bytes).into_response())
}

/// The state and the faults.
async fn now(State(seen): State<Seen>) -> Result<Response, Refused> {
    let status = seen.telemetry.status();
    let stuck = seen.turns.stuck(Instant::now());
    let seconds = look_in(&seen, &seen.judging, History::last_seconds).await;
    // Without a recorder fewer rules apply, but stalls are still reported.
    let standing = standing::judge(&stuck, &waits::look(), &seen.telemetry.owed());
    let wrong = wrong::judge(standing, &status, &seconds.unwrap_or_default());
    Ok(Json(json!({ "status": status, "wrong": wrong })).into_response())
}

async fn health(State(seen): State<Seen>) -> Response {
    let stuck = seen.turns.stuck(Instant::now());
    let told: Vec<_> = stuck.iter().map(|(shard, idle)| json!({ "shard": shard, "seconds": idle.as_secs() })).collect();
    let status = if stuck.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(json!({ "alive": stuck.is_empty(), "stuck": told }))).into_response()
}

async fn ready(State(seen): State<Seen>) -> Response {
    let status = seen.telemetry.status();
    let found = status.wrong();
    let of = |sort: Ready| found.iter().filter(move |found| found.ready == sort).flat_map(|found| found.public.clone());
    let why: Vec<String> =
        status.stopping.then(|| "the server is stopping".to_owned()).into_iter().chain(of(Ready::Refuses)).collect();
    // Warnings and degradations do not take a server out of service: most of its users are served.
    let (warnings, degraded): (Vec<_>, Vec<_>) = (of(Ready::Warns).collect(), of(Ready::Degraded).collect());
    let code = if why.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let told = json!({ "ready": why.is_empty(), "why": why, "warnings": warnings, "degraded": degraded });
    (code, Json(told)).into_response()
}
