//! External services that decide about users of domains and about requests for channels, from the
//! configuration.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ClientConfig;

use crate::cli::{Exit, Failure};
use crate::client::authorities;
use crate::config::{AskedBy, Config};
use crate::disk::Wake;
use crate::extauth::{self, AskPort, BackEnd, BackEnds, By, Of, Program, Service};

fn wrong(key: &str, what: &str) -> Failure {
    Failure::new(Exit::Usage, format!("{key}: {what}"))
}

/// The token in the file that this option names.
fn token(key: &str, file: Option<&Path>) -> Result<Option<String>, Failure> {
    let token = file.map(|file| super::settings::shared_secret(key, file)).transpose()?;
    Ok(token.map(|token| token.0.to_string()))
}

/// Whether any user may execute this file.
fn is_program(path: &Path) -> Result<(), &'static str> {
    match path.metadata() {
        Ok(found) if !found.is_file() => Err("it is not a program"),
        Ok(found) if found.permissions().mode() & 0o111 == 0 => Err("it cannot be run: chmod +x"),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err("it cannot be reached: permission denied"),
        Err(_) => Err("there is no such program"),
    }
}

/// Services whose certificates are checked against the same authorities.
struct Checked<'a> {
    file: Option<&'a Path>,
    /// Read once, and only if HTTPS is used.
    tls: Option<Arc<ClientConfig>>,
}

impl Checked<'_> {
    fn service(&mut self, key: &str, url: &str, token: Option<String>) -> Result<By, Failure> {
        let known = || match &self.tls {
            Some(known) => Ok(known.clone()),
            None => authorities(self.file).inspect(|read| self.tls = Some(read.clone())),
        };
        Ok(By::Http(Box::new(Service::new(url, known, token).map_err(|why| wrong(key, &why))?)))
    }
}

/// The back ends for the users of domains.
pub(super) fn users(config: &Config) -> Result<Vec<BackEnd>, Failure> {
    let token = token("external_auth_token", config.external_auth_token.as_deref())?;
    let mut checked = Checked { file: config.external_auth_authorities.as_deref(), tls: None };
    let mut back_ends = Vec::new();
    for one in &config.external_auth {
        let by = match &one.asked {
            AskedBy::Program(words) => {
                let (path, arguments) = words.split_first().ok_or_else(|| wrong("external_auth", "no program"))?;
                let path = PathBuf::from(path);
                is_program(&path).map_err(|what| wrong("external_auth", &format!("{}: {what}", path.display())))?;
                By::Program(Program { path, arguments: arguments.to_vec() })
            }
            AskedBy::Url(url) => checked.service("external_auth", url, token.clone())?,
        };
        back_ends.push(BackEnd {
            of: Of::Users(one.domain.clone()),
            by,
            lines: usize::try_from(config.external_auth_lines).unwrap_or(1),
            waiting_max: usize::try_from(config.external_auth_waiting_max).unwrap_or(1),
            limit: config.external_auth_seconds,
        });
    }
    Ok(back_ends)
}

/// The service that decides about requests for channels, if any.
pub(super) fn channels(config: &Config) -> Result<Option<BackEnd>, Failure> {
    if config.notify_ask.is_empty() {
        return Ok(None);
    }
    let token = token("notify_ask_token", config.notify_ask_token.as_deref())?;
    let mut checked = Checked { file: config.notify_ask_authorities.as_deref(), tls: None };
    Ok(Some(BackEnd {
        of: Of::Channels,
        by: checked.service("notify_ask_url", &config.notify_ask_url, token)?,
        lines: usize::try_from(config.notify_ask_lines).unwrap_or(1),
        waiting_max: usize::try_from(config.notify_ask_waiting_max).unwrap_or(1),
        limit: config.notify_ask_seconds,
    }))
}

/// Starts the thread that queries them. Programs are started at their first query.
pub(super) fn start(config: &Config, wakes: &[Arc<dyn Wake>]) -> Result<(Vec<AskPort>, BackEnds), Failure> {
    let back_ends = users(config)?.into_iter().chain(channels(config)?).collect();
    extauth::start(back_ends, wakes).map_err(Failure::failed)
}
