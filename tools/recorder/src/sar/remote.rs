//! The recording of a remote server, through the operator's HTTP interface.
//!
//! ```text
//! GET /api/recording                  {"parts":[{"number":12,"begun_s":1763776983,"bytes":70123}, ..]}
//! GET /api/recording/12?from=70123    bytes of that file from this offset, at most 1 MiB; none at its
//!                                     end; 404 when it was removed; `Throng-Form` changes when the file
//!                                     was thinned meanwhile
//! GET /api/recording/recent?since=MS  the last minutes from memory, as a file; `Throng-Next` states the
//! GET /api/recording/recent?after=W   end, from which this continues; 410 when that is no longer held
//! ```
//!
//! The server keeps no state for a reader: the reader requests what it lacks.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use ureq::Agent;

use super::Failure;
use super::place::{FILE_BYTES_MAX, Had, Place};
use crate::ring::Part;

/// Longest time for one answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest time for a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// The server closes idle connections after 15 s: one that was idle for longer than this is not
/// reused.
const IDLE_MAX: Duration = Duration::from_secs(5);
/// Most bytes accepted in an answer.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// The header with the position at which to continue the last minutes.
const NEXT: &str = "throng-next";
/// The header that distinguishes a thinned file from the previous one of the same number.
const FORM: &str = "throng-form";

/// The HTTP interface of a server.
pub struct Http {
    agent: Agent,
    base: String,
    token: Option<String>,
}

/// An answer of the server, as opposed to a failed connection.
#[derive(Debug)]
pub struct Answer {
    /// The status, except 401 and 403, which are failures.
    pub status: u16,
    /// The header `Throng-Next`.
    pub next: Option<String>,
    /// The header `Throng-Form`, for a file.
    pub form: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

impl Http {
    /// Whether this is an address rather than a folder.
    pub fn is_address(from: &str) -> bool {
        from.starts_with("http://") || from.starts_with("https://")
    }

    /// For `http://host:port`, with the token in the given file if one is needed.
    ///
    /// # Errors
    /// The address has another form, or the file contains no token.
    pub fn new(base: &str, token_file: Option<&Path>) -> Result<Http, Failure> {
        if base.starts_with("https://") {
            let text = "https is not spoken here: tunnel the port (ssh -L 5290:127.0.0.1:5290 HOST) and give http://127.0.0.1:5290";
            return Err(Failure::Usage(text.into()));
        }
        let base = base.trim_end_matches('/');
        let authority = base.strip_prefix("http://").unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        if authority.is_empty() || !authority.chars().all(plain) {
            return Err(Failure::Usage(format!("{base}: an address is http://HOST:PORT")));
        }
        let token = token_file.map(|file| {
            let read = std::fs::read_to_string(file);
            read.map_err(|error| Failure::Failed(format!("{}: {error}", file.display())))
        });
        let token = token.transpose()?.map(|text| text.trim().to_owned());
        if token.as_ref().is_some_and(|token| token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(Failure::Usage("a token must be one line without spaces".into()));
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .user_agent(concat!("throng/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT_PATIENCE))
            .timeout_global(Some(PATIENCE))
            .max_idle_age(IDLE_MAX)
            .build();
        Ok(Http { agent: config.new_agent(), base: base.to_owned(), token })
    }

    /// Its address.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Gets a path.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses the request.
    pub fn get(&self, path: &str) -> Result<Answer, Failure> {
        let base = &self.base;
        let failed = |text: String| Failure::Failed(format!("{base}: {text}"));
        let mut request = self.agent.get(format!("{base}{path}"));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let mut response = request.call().map_err(|error| failed(no_way(&error)))?;
        let status = response.status().as_u16();
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (next, form) = (header(NEXT), header(FORM));
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let body = body.map_err(|error| failed(no_way(&error)))?;
        match status {
            401 if self.token.is_none() => Err(failed(
                "a token is needed: give its file with --token-file (http.token in that server's data folder)".into(),
            )),
            401 => Err(failed("the server has another token".into())),
            403 => Err(failed(
                "only names of its own machine are answered there: localhost, 127.0.0.1 (through a tunnel)".into(),
            )),
            _ => Ok(Answer { status, next, form, body }),
        }
    }

    /// Gets JSON.
    ///
    /// # Errors
    /// As [`Http::get`]; the server has no such resource, or reports an error.
    pub fn json<T: for<'a> Deserialize<'a>>(&self, path: &str) -> Result<T, Failure> {
        let answer = self.get(path)?;
        let told = match answer.status {
            200 => serde_json::from_slice(&answer.body).map_err(|error| error.to_string()),
            _ => Err(answer.why()),
        };
        told.map_err(|why| Failure::Failed(format!("{}{path}: {why}", self.base)))
    }
}

impl Answer {
    /// The reason in an error answer.
    fn why(&self) -> String {
        #[derive(Deserialize)]
        struct Why {
            error: String,
        }
        match (self.status, serde_json::from_slice::<Why>(&self.body)) {
            (_, Ok(why)) => why.error,
            (404, _) => "this is no server's HTTP for operators, or one of an older version".into(),
            (status, _) => format!("answered with status {status}"),
        }
    }
}

/// The failure of a connection, in words.
fn no_way(error: &ureq::Error) -> String {
    use std::io::ErrorKind;
    match error {
        ureq::Error::Io(error) if error.kind() == ErrorKind::ConnectionRefused => {
            "connection refused: no server answers there (see its option admin_http)".into()
        }
        ureq::Error::Io(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
            "the server has gone away".into()
        }
        ureq::Error::HostNotFound => "there is no such host".into(),
        ureq::Error::Timeout(_) => "no answer in time".into(),
        ureq::Error::ConnectionFailed => "no connection".into(),
        other => other.to_string(),
    }
}

/// A recording on a server.
pub struct Remote {
    http: Http,
    /// Only the last minutes from memory, from this time on.
    recent_ms: Option<u64>,
    /// The position after the last minutes read so far.
    next: RefCell<Option<String>>,
    /// The generation of the current file.
    form: RefCell<Option<String>>,
}

#[derive(Deserialize)]
struct Listing {
    parts: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    number: u64,
    begun_s: i64,
}

impl Remote {
    /// The whole recording.
    pub fn new(http: Http) -> Remote {
        Remote { http, recent_ms: None, next: RefCell::default(), form: RefCell::default() }
    }

    /// The last minutes from this time on, and new data.
    pub fn recent(http: Http, since_ms: u64) -> Remote {
        Remote { http, recent_ms: Some(since_ms), next: RefCell::default(), form: RefCell::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        format!("{}/api/recording/{name}", self.http.base()).into()
    }

    /// Reads the last minutes after the current position.
    fn read_recent(&self, since_ms: u64, into: &mut Vec<u8>) -> Result<(), Failure> {
        let path = match &*self.next.borrow() {
            None => format!("/api/recording/recent?since={since_ms}"),
            Some(next) => format!("/api/recording/recent?after={next}"),
        };
        let answer = self.http.get(&path)?;
        if answer.status != 200 {
            return Err(Failure::Failed(format!("{}: {}", self.http.base(), answer.why())));
        }
        into.extend_from_slice(&answer.body);
        *self.next.borrow_mut() = answer.next;
        Ok(())
    }

    fn read_part(&self, part: &Part, mut known: u64, into: &mut Vec<u8>) -> Result<Had, Failure> {
        let mut form = self.form.borrow_mut();
        while known < FILE_BYTES_MAX {
            let answer = self.http.get(&format!("/api/recording/{}?from={known}", part.number))?;
            // The server may have thinned the file since the last piece.
            if answer.status == 200 && known == 0 {
                (*form).clone_from(&answer.form);
            } else if answer.status == 200 && *form != answer.form {
                return Ok(Had::Replaced);
            }
            match (answer.status, answer.body.len()) {
                (200, 1..) => {
                    known += answer.body.len() as u64;
                    into.extend_from_slice(&answer.body);
                }
                // The ring has removed the file.
                (200 | 404, _) => break,
                _ => return Err(Failure::Failed(format!("{}: {}", part.path.display(), answer.why()))),
            }
        }
        Ok(Had::More)
    }
}

impl Place for Remote {
    fn name(&self) -> String {
        self.http.base().to_owned()
    }

    fn parts(&self) -> Result<Vec<Part>, Failure> {
        let recent = || Part { number: 0, begun_s: 0, path: self.path("recent") };
        if self.recent_ms.is_some() {
            return Ok(vec![recent()]);
        }
        let listing: Listing = self.http.json("/api/recording")?;
        // A recorder that cannot write keeps the last minutes in memory.
        if listing.parts.is_empty() {
            return Ok(vec![recent()]);
        }
        let part = |listed: Listed| Part {
            number: listed.number,
            begun_s: listed.begun_s,
            path: self.path(&listed.number.to_string()),
        };
        Ok(listing.parts.into_iter().map(part).collect())
    }

    fn read(&self, part: &Part, known: u64, into: &mut Vec<u8>) -> Result<Had, Failure> {
        match (part.number, self.recent_ms) {
            (0, since_ms) => {
                if known == 0 {
                    *self.next.borrow_mut() = None;
                }
                self.read_recent(since_ms.unwrap_or(0), into).map(|()| Had::More)
            }
            _ => self.read_part(part, known, into),
        }
    }

    fn head(&self, part: &Part) -> Option<Vec<u8>> {
        // The first piece of a file contains the schema.
        let answer = self.http.get(&format!("/api/recording/{}?from=0", part.number)).ok()?;
        (answer.status == 200).then_some(answer.body)
    }

    fn is_stream(&self) -> bool {
        self.recent_ms.is_some()
    }

    fn look_every(&self) -> Duration {
        Duration::from_millis(500)
    }
}
