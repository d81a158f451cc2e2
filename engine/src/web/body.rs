//! The body of a request, in one piece or in chunks (RFC 9112 6, 7.1).

use memchr::memchr;

use super::head::Content;
use super::status::{Refusal, Status};
use crate::limits::{HTTP_CHUNK_LINE_BYTES_MAX, HTTP_HEAD_BYTES_MAX};

/// What the decoder expects next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The rest of the body, of this many bytes.
    Rest(u64),
    /// The line with a chunk's size.
    Size,
    /// The rest of a chunk, of this many bytes.
    Chunk(u64),
    /// The line end after a chunk.
    ChunkEnd,
    /// Trailer fields, of which this many bytes have been read.
    Trailers(usize),
    /// Nothing: the body is complete.
    Done,
}

/// A request body that is being received.
#[derive(Debug)]
pub struct Body {
    bytes: Vec<u8>,
    bytes_max: usize,
    next: Next,
}

impl Body {
    /// Starts a body that is framed as `content`, of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// 413 if its announced length is greater.
    pub fn new(content: Content, bytes_max: usize) -> Result<Body, Refusal> {
        let next = match content {
            Content::Nothing => Next::Done,
            Content::Length(bytes) if bytes > bytes_max as u64 => return Err(too_large()),
            Content::Length(bytes) => Next::Rest(bytes),
            Content::Chunked => Next::Size,
        };
        Ok(Body { bytes: Vec::new(), bytes_max, next })
    }

    /// Consumes the bytes that belong to the body, and returns their number. If that is less than
    /// all, the body is complete, or the rest of a line is missing.
    ///
    /// # Errors
    /// What is malformed; the connection has to be closed.
    pub fn read(&mut self, input: &[u8]) -> Result<usize, Refusal> {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            match self.next {
                Next::Done => return Ok(at),
                Next::Rest(left) | Next::Chunk(left) => {
                    let taken = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    self.bytes.extend_from_slice(&rest[..taken]);
                    at += taken;
                    let left = left - taken as u64;
                    self.next = match self.next {
                        Next::Rest(_) if left == 0 => Next::Done,
                        Next::Rest(_) => Next::Rest(left),
                        _ if left == 0 => Next::ChunkEnd,
                        _ => Next::Chunk(left),
                    };
                    if left > 0 {
                        return Ok(at);
                    }
                }
                Next::Size | Next::ChunkEnd | Next::Trailers(_) => {
                    let Some(line) = line(rest)? else { return Ok(at) };
                    at += line.len() + 2;
                    self.line(line)?;
                }
            }
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Refusal> {
        self.next = match self.next {
            Next::ChunkEnd if line.is_empty() => Next::Size,
            Next::ChunkEnd => return Err(Refusal::bad("a chunk is longer than its announced size")),
            Next::Trailers(_) if line.is_empty() => Next::Done,
            Next::Trailers(bytes) => {
                // Trailer fields are ignored (RFC 9112 7.1.2).
                let bytes = bytes + line.len() + 2;
                if bytes > HTTP_HEAD_BYTES_MAX {
                    return Err(Refusal::of(Status::HeaderFieldsTooLarge, "the trailer fields are too long"));
                }
                if line[0].is_ascii_whitespace() || !line.contains(&b':') {
                    return Err(Refusal::bad("a trailer field is malformed"));
                }
                Next::Trailers(bytes)
            }
            _ => match size(line)? {
                0 => Next::Trailers(0),
                bytes if bytes > (self.bytes_max - self.bytes.len()) as u64 => return Err(too_large()),
                bytes => Next::Chunk(bytes),
            },
        };
        Ok(())
    }

    /// Whether the body is complete.
    pub fn is_done(&self) -> bool {
        self.next == Next::Done
    }

    /// The number of bytes that the body is known to have.
    pub fn announced(&self) -> u64 {
        match self.next {
            Next::Rest(left) | Next::Chunk(left) => self.bytes.len() as u64 + left,
            _ => self.bytes.len() as u64,
        }
    }

    /// The bytes received so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

fn too_large() -> Refusal {
    Refusal::of(Status::ContentTooLarge, "the body is too long")
}

/// Returns a line without its end, if it is complete.
fn line(bytes: &[u8]) -> Result<Option<&[u8]>, Refusal> {
    let within = &bytes[..bytes.len().min(HTTP_CHUNK_LINE_BYTES_MAX)];
    match memchr(b'\n', within) {
        None if within.len() < HTTP_CHUNK_LINE_BYTES_MAX => Ok(None),
        None => Err(Refusal::bad("a line of a chunk is too long")),
        Some(end) => match within[..end].strip_suffix(b"\r") {
            Some(line) if !line.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') => Ok(Some(line)),
            _ => Err(Refusal::bad("a line of a chunk is malformed")),
        },
    }
}

/// Parses the size of a chunk. Chunk extensions are ignored (RFC 9112 7.1.1).
fn size(line: &[u8]) -> Result<u64, Refusal> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let behind = line[digits..].trim_ascii_start();
    // RFC 9112 7.1.1 allows white space before the semicolon, and nothing else.
    if digits == 0 || digits > 15 || !(line.len() == digits || behind.first() == Some(&b';')) {
        return Err(Refusal::bad("the size of a chunk is not a number"));
    }
    let text = std::str::from_utf8(&line[..digits]).unwrap_or_default();
    u64::from_str_radix(text, 16).map_err(|_| Refusal::bad("the size of a chunk is not a number"))
}
