//! The body of a request, in one piece or in chunks (RFC 9112 6, 7.1).

use memchr::memchr;

use super::head::Content;
use super::status::{Refusal, Status};
use crate::limits::{HTTP_CHUNK_LINE_BYTES_MAX, HTTP_HEAD_BYTES_MAX};

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// So many bytes, and that is all.
    Rest(u64),
    /// The line with a chunk's size.
    Size,
    /// So many bytes of a chunk.
    Chunk(u64),
    /// The line end behind a chunk.
    ChunkEnd,
    /// Trailer fields, of which so many bytes have come.
    Trailers(usize),
    /// Nothing.
    Done,
}

/// A body that comes in.
#[derive(Debug)]
pub struct Body {
    bytes: Vec<u8>,
    bytes_max: usize,
    next: Next,
}

impl Body {
    /// One that is announced so, of at most `bytes_max`.
    ///
    /// # Errors
    /// 413 if it is longer by what is announced.
    pub fn new(content: Content, bytes_max: usize) -> Result<Body, Refusal> {
        let next = match content {
            Content::Nothing => Next::Done,
            Content::Length(bytes) if bytes > bytes_max as u64 => return Err(too_large()),
            Content::Length(bytes) => Next::Rest(bytes),
            Content::Chunked => Next::Size,
        };
        Ok(Body { bytes: Vec::new(), bytes_max, next })
    }

    /// Takes in what belongs to it, and returns how many bytes that was. With fewer than all, it is done, or waits for more of a line.
    ///
    /// # Errors
    /// What is wrong with it, which ends the connection.
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
            Next::ChunkEnd => return Err(Refusal::bad("a chunk is longer than it says")),
            Next::Trailers(_) if line.is_empty() => Next::Done,
            Next::Trailers(bytes) => {
                // Trailer fields mean nothing here, and are not looked at (RFC 9112 7.1.2).
                let bytes = bytes + line.len() + 2;
                if bytes > HTTP_HEAD_BYTES_MAX {
                    return Err(Refusal::of(Status::HeaderFieldsTooLarge, "the trailer fields are too long"));
                }
                if line[0].is_ascii_whitespace() || !line.contains(&b':') {
                    return Err(Refusal::bad("a trailer field is wrong"));
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

    /// Whether all of it is there.
    pub fn is_done(&self) -> bool {
        self.next == Next::Done
    }

    /// Bytes that it is known to have.
    pub fn announced(&self) -> u64 {
        match self.next {
            Next::Rest(left) | Next::Chunk(left) => self.bytes.len() as u64 + left,
            _ => self.bytes.len() as u64,
        }
    }

    /// What has come of it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

fn too_large() -> Refusal {
    Refusal::of(Status::ContentTooLarge, "the body is too long")
}

/// A line without its end, if all of it is there.
fn line(bytes: &[u8]) -> Result<Option<&[u8]>, Refusal> {
    let within = &bytes[..bytes.len().min(HTTP_CHUNK_LINE_BYTES_MAX)];
    match memchr(b'\n', within) {
        None if within.len() < HTTP_CHUNK_LINE_BYTES_MAX => Ok(None),
        None => Err(Refusal::bad("a line of a chunk is too long")),
        Some(end) => match within[..end].strip_suffix(b"\r") {
            Some(line) if !line.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') => Ok(Some(line)),
            _ => Err(Refusal::bad("a line of a chunk is wrong")),
        },
    }
}

/// The size of a chunk; its extensions are passed over (RFC 9112 7.1.1).
fn size(line: &[u8]) -> Result<u64, Refusal> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let behind = line[digits..].trim_ascii_start();
    // RFC 9112 7.1.1 has white space before the semicolon read, and nothing else.
    if digits == 0 || digits > 15 || !(line.len() == digits || behind.first() == Some(&b';')) {
        return Err(Refusal::bad("the size of a chunk is no number"));
    }
    let text = std::str::from_utf8(&line[..digits]).unwrap_or_default();
    u64::from_str_radix(text, 16).map_err(|_| Refusal::bad("the size of a chunk is no number"))
}
