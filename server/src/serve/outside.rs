//! Whoever keeps the users of domains elsewhere, as the configuration names them.

use std::path::PathBuf;
use std::sync::Arc;

use crate::cli::{Exit, Failure};
use crate::config::{AskedBy, Config};
use crate::disk::Wake;
use crate::extauth::{self, AskPort, BackEnd, BackEnds, By, Program, Service, authorities};

/// Starts the thread that asks them. Programs are started when they are asked for the first time.
pub(super) fn start(config: &Config, wakes: &[Arc<dyn Wake>]) -> Result<(Vec<AskPort>, BackEnds), Failure> {
    let wrong = |key: &str, what: &str| Failure::new(Exit::Usage, format!("{key}: {what}"));
    let token = config.external_auth_token.as_ref();
    let token = token.map(|file| super::settings::shared_secret("external_auth_token", file)).transpose()?;
    let mut tls = None;
    let mut back_ends = Vec::new();
    for one in &config.external_auth {
        let by = match &one.asked {
            AskedBy::Program(words) => {
                let (path, arguments) = words.split_first().ok_or_else(|| wrong("external_auth", "no program"))?;
                let path = PathBuf::from(path);
                if !path.is_file() {
                    return Err(wrong("external_auth", &format!("{}: there is no such program", path.display())));
                }
                By::Program(Program { path, arguments: arguments.to_vec() })
            }
            AskedBy::Url(url) => {
                // Read once, and only if there is HTTPS.
                let known = || match &tls {
                    Some(known) => Ok(Arc::clone(known)),
                    None => authorities(config.external_auth_authorities.as_deref())
                        .inspect(|read| tls = Some(read.clone())),
                };
                let token = token.as_ref().map(|token| token.0.to_string());
                let service = Service::new(url, known, token);
                By::Http(Box::new(service.map_err(|why| wrong("external_auth", &why))?))
            }
        };
        back_ends.push(BackEnd {
            domain: one.domain.clone(),
            by,
            lines: usize::try_from(config.external_auth_lines).unwrap_or(1),
            waiting_max: usize::try_from(config.external_auth_waiting_max).unwrap_or(1),
            limit: config.external_auth_seconds,
        });
    }
    extauth::start(back_ends, wakes).map_err(Failure::failed)
}
