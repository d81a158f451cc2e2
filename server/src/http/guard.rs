//! Access control: the token permits everything. On loopback, local processes may also request
//! answers without user data.

use std::path::Path;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::patience::Conn;

/// Minimum length of a token, in characters.
const TOKEN_MIN: usize = 16;

/// The requirements for a request.
#[derive(Clone)]
pub struct Guard {
    token: Arc<str>,
    /// Whether only names of this machine are answered, and figures need no token.
    local: bool,
}

/// The subject of answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tells {
    /// User data: addresses, sessions and peers.
    OfUsers,
    /// Figures of the server.
    OfServer,
}

/// Why the file of a token cannot be used.
#[derive(Debug)]
pub enum TokenFault {
    /// It cannot be read.
    Unreadable(std::io::Error),
    /// It is shorter than 16 characters, or contains blanks.
    Weak,
}

impl std::fmt::Display for TokenFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TokenFault::Unreadable(error) => write!(f, "{error}"),
            TokenFault::Weak => write!(f, "a token must be one line of at least {TOKEN_MIN} characters without spaces"),
        }
    }
}

impl Guard {
    /// For loopback listeners: local processes may request figures, and the token from a file
    /// permits everything. Requests for foreign host names are refused: a web page whose own name
    /// resolves to this machine (DNS rebinding) gets nothing.
    ///
    /// # Errors
    /// See [`TokenFault`].
    pub fn local(file: &Path) -> Result<Guard, TokenFault> {
        Ok(Guard { local: true, ..Guard::token(file)? })
    }

    /// Requires the token from a file (RFC 6750 2.1).
    ///
    /// # Errors
    /// See [`TokenFault`].
    pub fn token(file: &Path) -> Result<Guard, TokenFault> {
        let text = std::fs::read_to_string(file).map_err(TokenFault::Unreadable)?;
        let token = text.trim();
        let plain = token.bytes().all(|byte| byte.is_ascii_graphic());
        if token.len() < TOKEN_MIN || !plain {
            return Err(TokenFault::Weak);
        }
        Ok(Guard { token: token.into(), local: false })
    }

    /// Whether the request may be answered. The token is checked first, because it identifies the
    /// client.
    fn allows(&self, tells: Tells, headers: &HeaderMap) -> Result<Shown, (StatusCode, &'static str)> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let host = text(header::HOST).unwrap_or_default();
        if self.local && !is_this_machine(host) {
            let told = "only names of this machine are answered here: localhost, 127.0.0.1\n";
            return Err((StatusCode::FORBIDDEN, told));
        }
        // A browser states the page that makes the request (RFC 6454 7.3).
        let foreign = |origin: &str| origin.split_once("://").is_none_or(|(_, of)| !of.eq_ignore_ascii_case(host));
        if text(header::ORIGIN).is_some_and(foreign) {
            return Err((StatusCode::FORBIDDEN, "pages of other servers are not answered here\n"));
        }
        let given = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        match given {
            Some(given) if same(given.as_bytes(), self.token.as_bytes()) => Ok(Shown::Token),
            None if self.local && tells == Tells::OfServer => Ok(Shown::Nothing),
            _ => Err((StatusCode::UNAUTHORIZED, "Authorization: Bearer TOKEN is needed\n")),
        }
    }
}

/// The credentials of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shown {
    Token,
    Nothing,
}

/// Compares in time independent of where the inputs differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |seen, (a, b)| seen | (a ^ b)) == 0
}

/// Whether a `Host` names loopback: one of its names or addresses, with or without a port.
fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Passes a request on, or refuses it.
pub(super) async fn check(
    State((guard, tells)): State<(Guard, Tells)>,
    Extension(conn): Extension<Arc<Conn>>,
    request: Request,
    next: Next,
) -> Response {
    match guard.allows(tells, request.headers()) {
        Ok(shown) => {
            if shown == Shown::Token {
                conn.trust();
            }
            next.run(request).await
        }
        Err((status, told)) if status == StatusCode::UNAUTHORIZED => {
            (status, [(header::WWW_AUTHENTICATE, "Bearer realm=\"throng\"")], told).into_response()
        }
        Err(refused) => refused.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_by_its_names() {
        for host in ["localhost", "LOCALHOST:5290", "127.0.0.1:5290", "127.8.8.8", "[::1]:5290", "[::1]"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in
            ["", "example.org", "localhost.example.org:5290", "192.0.2.1:5290", "[2001:db8::1]", "127.0.0.1.nip.io"]
        {
            assert!(!is_this_machine(host), "{host}");
        }
    }

    #[test]
    fn a_token_is_long_and_without_blanks() {
        let file = std::env::temp_dir().join(format!("throng-token-{}", std::process::id()));
        for (text, good) in
            [("0123456789abcdef\n", true), ("short\n", false), ("0123456789 abcdefgh", false), ("", false)]
        {
            std::fs::write(&file, text).expect("a file");
            assert_eq!(Guard::token(&file).is_ok(), good, "{text:?}");
        }
        std::fs::remove_file(&file).expect("it is there");
        assert!(matches!(Guard::token(&file), Err(TokenFault::Unreadable(_))));
    }
}
