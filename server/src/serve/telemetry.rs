//! The running server, as seen by the operator's HTTP interface.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use throng_engine::counters::{Counted, CounterKind, Row};
use throng_engine::io::{Command, ObserverCommand, Reply};

use super::addresses::{Addresses, cannot_listen};
use super::control::Running;
use crate::admin::{Busiest, BusySession, Control, Fault, Status};
use crate::cli::{Exit, Failure};
use crate::config::{Config, Loaded, Source};
use crate::entropy::Entropy;
use crate::extauth::{Of, Standing};
use crate::http::{Delay, Guard, History, HttpServer, Number, Numbers, Telemetry, TokenFault};
use crate::record::owners::Owed;
use crate::record::work::{Work, Worker};
use crate::webpush;

/// Longest wait for the busiest sessions of all shards.
const BUSIEST_WAIT: Duration = Duration::from_secs(2);

impl Telemetry for Running {
    fn status(&self) -> Status {
        Control::status(self)
    }

    fn owed(&self) -> Arc<Vec<Owed>> {
        self.owed.load_full()
    }

    fn shards(&self) -> Vec<Vec<Number>> {
        self.counters().iter().map(|counters| counters.list().into_iter().map(number).collect()).collect()
    }

    fn busiest(&self, most: usize, stuck: &[usize]) -> Result<Busiest, Fault> {
        let command = Command::Observer(ObserverCommand::Busiest { most: u32::try_from(most).unwrap_or(u32::MAX) });
        let turning = (0..self.shards()).filter(|shard| !stuck.contains(shard));
        let asked: Vec<_> = turning.map(|shard| (shard, self.put(shard, command.clone(), None))).collect();
        let (mut busiest, end) = (Busiest::default(), Instant::now() + BUSIEST_WAIT);
        for (shard, answer) in asked {
            let left = end.saturating_duration_since(Instant::now());
            // A stalled shard is reported elsewhere; the others have their figures.
            let answer = answer.ok().and_then(|answer| answer.recv_timeout(left).ok());
            let Some(Reply::Busiest { window_ms, rows }) = answer.map(|answer| answer.reply) else { continue };
            busiest.counted |= window_ms > 0;
            let rate = |count: u64| count as f64 * 1_000.0 / window_ms.max(1) as f64;
            busiest.sessions.extend(rows.into_iter().map(|row| BusySession {
                jid: row.jid,
                shard: shard as u32,
                stanzas_in: rate(row.stanzas_in),
                stanzas_out: rate(row.stanzas_out),
                bytes_in: rate(row.bytes_in),
                bytes_out: rate(row.bytes_out),
                outbound_bytes: row.outbound_bytes as u64,
            }));
        }
        // By the weight that the shards use for sorting: a stanza counts as 512 bytes.
        let weight = |s: &BusySession| s.stanzas_in + s.stanzas_out + (s.bytes_in + s.bytes_out) / 512.0;
        busiest.sessions.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        busiest.sessions.truncate(most);
        Ok(busiest)
    }

    fn works(&self) -> Vec<Numbers> {
        let numbers = |work: Work| {
            let set = |worker: &Worker| (worker.name.clone(), worker.counters.list().into_iter().map(number).collect());
            let by = work.workers.iter().any(|worker| !worker.name.is_empty()).then_some("thread");
            Numbers { of: work.module, by, sets: work.workers.iter().map(set).collect() }
        };
        let alone = |of, rows: Vec<Row>| {
            let set = rows.into_iter().map(number).collect();
            Numbers { of, by: None, sets: vec![(String::new(), set)] }
        };
        let uploads = self.uploads.get().map(|counters| alone("upload", counters.list()));
        let bytestreams = self.bytestreams.get().map(|counters| alone("bytestreams", counters.list()));
        let backup = self.backup.get().map(|backup| alone("backup", backup.standing.counters().list()));
        let users = |back_end: &Arc<Standing>| match back_end.of() {
            Of::Users(domain) => Some((domain.clone(), back_end.counters().list().into_iter().map(number).collect())),
            Of::Channels => None,
        };
        let sets: Vec<_> = self.links.back_ends.iter().filter_map(users).collect();
        let users = (!sets.is_empty()).then_some(Numbers { of: "external_auth", by: Some("domain"), sets });
        let asked = self.links.back_ends.iter().find(|back_end| *back_end.of() == Of::Channels);
        let asked = asked.map(|back_end| alone("notify_ask", back_end.counters().list()));
        let pushed = |service: &Arc<webpush::Standing>| {
            (service.entry().to_owned(), service.counters().list().into_iter().map(number).collect())
        };
        let sets: Vec<_> = self.links.push_services.iter().map(pushed).collect();
        let pushed = (!sets.is_empty()).then_some(Numbers { of: "push_service", by: Some("service"), sets });
        let alone = uploads.into_iter().chain(bytestreams).chain(backup).chain(users).chain(asked).chain(pushed);
        self.links.known.works().into_iter().map(numbers).chain(alone).collect()
    }

    fn delays(&self) -> Vec<Delay> {
        self.links.known.delays()
    }
}

fn number((name, kind, help, value): Row) -> Number {
    Number { name, counts: kind == CounterKind::Count, help, value }
}

/// Creates a token of 128 bits, readable only by the server's user, if there is none yet.
fn make_token(file: &Path) -> io::Result<()> {
    if file.exists() {
        return Ok(());
    }
    let bytes: [u8; 16] = Entropy::open()?.fresh()?;
    let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let unfinished = file.with_extension("unfinished");
    let mut made = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    made.write_all(format!("{token}\n").as_bytes())?;
    made.sync_all()?;
    std::fs::rename(&unfinished, file)
}

fn no_token(file: &Path, fault: TokenFault) -> Failure {
    Failure::new(Exit::Usage, format!("admin_http_token: {}: {fault}", file.display()))
}

/// The requirements for requests.
fn guard(config: &Config) -> Result<Guard, Failure> {
    let file = config.admin_http_token_path();
    let guard = match &config.admin_http_token {
        Some(file) => Guard::token(file),
        None => Guard::local(&file),
    };
    guard.map_err(|fault| no_token(&file, fault))
}

/// Whether a token exists or can be created. Creates none.
pub(super) fn check(config: &Config) -> Result<(), Failure> {
    let is_there = config.admin_http_token.is_some() || config.admin_http_token_path().exists();
    match is_there && !config.admin_http.is_empty() {
        true => guard(config).map(drop),
        false => Ok(()),
    }
}

/// Opens the listeners of `admin_http` and serves them. `None` if it is off, or no default address
/// is free.
pub(super) fn start(
    loaded: &Loaded,
    running: &Arc<Running>,
    history: Option<History>,
    addresses: &Addresses,
) -> Result<Option<HttpServer>, Failure> {
    let config = &loaded.config;
    if config.admin_http.is_empty() {
        return Ok(None);
    }
    if config.admin_http_token.is_none() {
        let file = config.admin_http_token_path();
        make_token(&file).map_err(|error| no_token(&file, TokenFault::Unreadable(error)))?;
    }
    let guard = guard(config)?;
    let given = *loaded.source("admin_http") != Source::Default;
    let mut listeners = Vec::new();
    for address in &config.admin_http {
        match addresses.own(*address, given) {
            Ok(listener) => listeners.push((listener, guard.clone())),
            // Another server of this machine uses it, or the machine has no such address.
            Err(error) if !given => tracing::info!(%address, %error, "skipping a default address of admin_http"),
            Err(error) => return Err(cannot_listen(*address, "admin_http", &error)),
        }
    }
    if listeners.is_empty() {
        return Ok(None);
    }
    let server = HttpServer::start(listeners, running.clone(), history).map_err(Failure::failed)?;
    running.listens_for_http(server.addresses().iter().map(ToString::to_string).collect());
    for address in server.addresses() {
        tracing::info!(%address, "the operator's HTTP is served: the dashboard, /metrics, /health, /ready");
    }
    Ok(Some(server))
}
