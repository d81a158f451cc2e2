//! Uploads (XEP-0363 7): checked against the slot before the first byte is read, written as bytes
//! arrive, and visible when complete.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap};
use hyper::{Request, Response, StatusCode};
use throng_engine::extension::upload::slot::{Fault, Slot, is_content_type};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::files::{Coming, Files, NoFile};
use super::reply::{self, Content, NOT_NOW, Named, Shared, empty, said};

/// Bytes written to disk at once: an upload's only memory besides a buffer of the connection.
const PIECE: usize = 64 << 10;
/// Maximum time without a byte.
const SILENCE: Duration = Duration::from_secs(20);
/// Time that an upload may take in addition to that for its length.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum time that an upload waits until files are counted and its account can be looked up.
const UNTIL_READY: Duration = Duration::from_secs(10);
/// Time between two checks for that.
const AGAIN: Duration = Duration::from_millis(100);
/// Minimum rate of an upload, bytes per second.
const SLOWEST_BYTES: u64 = 16 << 10;
/// The default content type (XEP-0363 7).
const ANY_TYPE: &str = "application/octet-stream";

/// Why an upload is refused.
struct Refused(StatusCode, &'static str);

impl From<NoFile> for Refused {
    fn from(why: NoFile) -> Refused {
        match why {
            NoFile::Twice => Refused(StatusCode::CONFLICT, "this file already exists or is being uploaded\n"),
            NoFile::NoOwner => Refused(StatusCode::FORBIDDEN, "the account of this slot no longer exists\n"),
            NoFile::Full => Refused(StatusCode::INSUFFICIENT_STORAGE, "there is no room for this file\n"),
            NoFile::NotNow => Refused(StatusCode::SERVICE_UNAVAILABLE, NOT_NOW),
            NoFile::Io(error) => {
                tracing::warn!(%error, "cannot write an uploaded file");
                Refused(StatusCode::INTERNAL_SERVER_ERROR, "the file cannot be written\n")
            }
        }
    }
}

const BROKEN_OFF: Refused = Refused(StatusCode::BAD_REQUEST, "the upload was interrupted\n");
const SLOW: Refused = Refused(StatusCode::REQUEST_TIMEOUT, "the upload is too slow\n");

pub(super) async fn put(shared: &Shared, named: Named, request: Request<Incoming>, now_s: u64) -> Response<Content> {
    match take(shared, &named, request, now_s).await {
        Ok(()) => empty(StatusCode::CREATED),
        Err(Refused(status, text)) => {
            let mut response = said(status, text);
            // Bytes of an unread body must not be parsed as the next request.
            response.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
            response
        }
    }
}

async fn take(shared: &Shared, named: &Named, request: Request<Incoming>, now_s: u64) -> Result<(), Refused> {
    let slot = slot(shared, named, request.headers(), now_s)?;
    let content_type = check(&slot, request.headers())?;
    let (files, size) = (shared.files.clone(), slot.size);
    let mut coming = begin(files, slot, content_type, now_s).await?;
    let end = Instant::now() + PATIENCE + Duration::from_secs(size / SLOWEST_BYTES);
    let (mut body, mut piece, mut came) = (request.into_body(), Vec::with_capacity(PIECE), 0_u64);
    loop {
        let next = timeout(SILENCE, poll_fn(|context| Pin::new(&mut body).poll_frame(context)));
        let frame = timeout_at(end, next).await.map_err(|_| SLOW)?.map_err(|_| SLOW)?;
        let Some(frame) = frame else { break };
        let Ok(bytes) = frame.map_err(|_| BROKEN_OFF)?.into_data() else { continue };
        came += bytes.len() as u64;
        if came > size {
            return Err(Refused(StatusCode::PAYLOAD_TOO_LARGE, "the file is larger than its slot\n"));
        }
        for part in bytes.chunks(PIECE) {
            if piece.len() + part.len() > PIECE {
                (coming, piece) = written(coming, piece).await?;
            }
            piece.extend_from_slice(part);
        }
    }
    if came != size {
        return Err(BROKEN_OFF);
    }
    let (coming, _) = written(coming, piece).await?;
    Ok(aside(move || coming.publish()).await??)
}

/// Begins an upload. Right after a start it waits for its preconditions: a client may not retry
/// with its slot.
async fn begin(files: Arc<Files>, slot: Slot, content_type: String, now_s: u64) -> Result<Coming, Refused> {
    let end = Instant::now() + UNTIL_READY;
    let begins = Arc::new(move || files.take(&slot, &content_type, now_s));
    loop {
        let begins = begins.clone();
        match aside(move || begins()).await? {
            Err(NoFile::NotNow) if Instant::now() < end => sleep(AGAIN).await,
            taken => return Ok(taken?),
        }
    }
}

/// The slot whose token a request presents.
fn slot(shared: &Shared, named: &Named, headers: &HeaderMap, now_s: u64) -> Result<Slot, Refused> {
    let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token =
        shown.and_then(|shown| shown.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let Some((_, token)) = token else {
        return Err(Refused(StatusCode::UNAUTHORIZED, "the Authorization header of the slot is missing\n"));
    };
    Slot::read(&shared.key, &named.id, &named.name, token.trim(), now_s).map_err(|fault| match fault {
        Fault::Forged => Refused(StatusCode::FORBIDDEN, "this slot is unknown\n"),
        Fault::Late => Refused(StatusCode::GONE, "this slot has expired\n"),
    })
}

/// Checks the request's headers against its slot (XEP-0363 7); returns the content type to store.
fn check(slot: &Slot, headers: &HeaderMap) -> Result<String, Refused> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    match length {
        None => return Err(Refused(StatusCode::LENGTH_REQUIRED, "Content-Length is missing\n")),
        Some(length) if length > slot.size => {
            return Err(Refused(StatusCode::PAYLOAD_TOO_LARGE, "the file is larger than its slot\n"));
        }
        Some(length) if length < slot.size => {
            return Err(Refused(StatusCode::BAD_REQUEST, "the file is smaller than its slot\n"));
        }
        Some(_) => {}
    }
    let given = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default().trim());
    match (slot.content_type.as_deref(), given) {
        (Some(said), Some(given)) if !is_same_type(said, given) => {
            Err(Refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the slot was requested for another Content-Type\n"))
        }
        (Some(said), _) => Ok(said.to_owned()),
        (None, Some(given)) if is_content_type(given) => Ok(given.to_owned()),
        (None, _) => Ok(ANY_TYPE.to_owned()),
    }
}

/// Whether two content types have the same type and subtype; clients add parameters.
fn is_same_type(a: &str, b: &str) -> bool {
    let essence = |text: &str| text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence(a) == essence(b)
}

/// Writes a piece; returns it empty.
async fn written(mut coming: Coming, mut piece: Vec<u8>) -> Result<(Coming, Vec<u8>), Refused> {
    aside(move || {
        coming.write(&piece)?;
        piece.clear();
        Ok::<_, Refused>((coming, piece))
    })
    .await?
}

/// Runs disk work off the answering thread.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refused> {
    reply::aside(work).await.ok_or(Refused(StatusCode::INTERNAL_SERVER_ERROR, "the file cannot be written\n"))
}
