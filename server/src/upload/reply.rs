//! The parts of responses.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::task::JoinHandle;

use super::{Files, UploadCounters};
use crate::end::survive;

/// Bytes read at once.
const PIECE: u64 = 64 << 10;

/// State shared by all connections.
#[derive(Clone)]
pub(super) struct Shared {
    /// The files.
    pub files: Arc<Files>,
    /// The key of the slots' tokens.
    pub key: Arc<[u8; 32]>,
    /// What is counted.
    pub counters: Arc<UploadCounters>,
}

/// A file as a URL names it.
pub(super) struct Named {
    /// Its identifier.
    pub id: String,
    /// Its name.
    pub name: String,
}

/// The content of a response.
pub(super) enum Content {
    /// A sentence, or nothing.
    Text(Option<Bytes>),
    /// A part of a file.
    File(Part),
}

/// A part of a file, read as it is sent.
pub(super) struct Part {
    file: Arc<File>,
    at: u64,
    left: u64,
    reads: Option<JoinHandle<io::Result<Bytes>>>,
}

impl Part {
    /// A number of bytes of a file from this offset on.
    pub(super) fn of(file: File, at: u64, length: u64) -> Part {
        Part { file: Arc::new(file), at, left: length, reads: None }
    }

    fn read(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let (file, at, length) = (&self.file, self.at, self.left.min(PIECE));
        let reads = self.reads.get_or_insert_with(|| {
            let file = file.clone();
            tokio::task::spawn_blocking(move || {
                let mut bytes = vec![0; length as usize];
                file.read_exact_at(&mut bytes, at)?;
                Ok(bytes.into())
            })
        });
        let read = ready!(Pin::new(reads).poll(context)).map_err(io::Error::other).and_then(|read| read);
        self.reads = None;
        if let Ok(bytes) = &read {
            self.at += bytes.len() as u64;
            self.left -= bytes.len() as u64;
        }
        Poll::Ready(Some(read))
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut *self {
            Content::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Content::File(part) => part.read(context).map(|read| read.map(|read| read.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Content::Text(text) => text.is_none(),
            Content::File(part) => part.left == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Content::Text(text) => text.as_ref().map_or(0, |text| text.len() as u64),
            Content::File(part) => part.left,
        })
    }
}

/// The text of a 503 response.
pub(super) const NOT_NOW: &str = "try again in a few seconds\n";

/// A response with a sentence.
pub(super) fn said(status: StatusCode, text: &'static str) -> Response<Content> {
    let mut response = Response::new(Content::Text(Some(Bytes::from_static(text.as_bytes()))));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    }
    response
}

/// A response without a body.
pub(super) fn empty(status: StatusCode) -> Response<Content> {
    let mut response = Response::new(Content::Text(None));
    *response.status_mut() = status;
    response
}

/// Runs disk work off the answering thread. `None` if it panics, which is logged.
pub(super) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let done = tokio::task::spawn_blocking(move || survive(work));
    done.await.ok()?.inspect_err(|said| tracing::error!("a job for an uploaded file has failed: {said}")).ok()
}
