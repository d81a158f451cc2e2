//! Knobs of the running server: what an operator sets, a reload reads or time puts back, brought to those who act by it.
//!
//! One lock is held from the decision until everybody has the new values, so that two changes cannot overtake each other.
//! Nobody on the way of a message waits for it.

use std::sync::MutexGuard;
use std::time::Duration;

use throng_engine::id::Now;

use super::control::{Running, Wanted};
use crate::admin::{Fault, FaultKind, KnobChange, KnobRow, Reloaded};
use crate::config::knobs::{Knob, Turn};
use crate::config::{Config, Knobs, Problems};
use crate::events::What;
use crate::tls;

/// Who turns a knob: somebody at the control socket, ...
pub(super) const BY_SOCKET: &str = "control socket";
/// ... a reload, ...
const BY_RELOAD: &str = "reload";
/// ... or time, which puts it back.
const BY_TIME: &str = "time is over";

fn invalid(problems: &Problems) -> Fault {
    Fault::new(FaultKind::Invalid, problems.to_string())
}

fn seconds(time: Now) -> u64 {
    time.wall_us / 1_000_000
}

impl Running {
    fn held(&self) -> MutexGuard<'_, Knobs> {
        self.knobs.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Changes knobs, and returns when everybody has the new values.
    pub(super) fn turn(
        &self,
        by: &str,
        change: impl FnOnce(&mut Knobs, Now) -> Result<Vec<Turn>, Problems>,
    ) -> Result<Vec<KnobChange>, Fault> {
        let mut knobs = self.held();
        let turns = change(&mut knobs, self.links.clock.now()).map_err(|problems| invalid(&problems))?;
        // The thread that puts knobs back sleeps until the next time that it knows of. If it has that much to do that it
        // cannot be told, it is awake.
        let _ = self.links.wishes.try_send(Wanted::Look);
        self.carry_out(by, knobs.config(), &turns)
    }

    /// The same for values that have changed in the configuration's files; certificates come first.
    pub(super) fn read_again(&self) -> Result<Reloaded, Fault> {
        let mut knobs = self.held();
        let done = knobs.read_again(self.links.clock.now()).map_err(|problems| invalid(&problems))?;
        let mut applied = Vec::new();
        let certificates = self.new_certificates(knobs.config());
        if let Ok(tls::Reloaded::Changed) = certificates {
            applied.push("certificates".to_owned());
        }
        let changes = self.carry_out(BY_RELOAD, knobs.config(), &done.turns)?;
        certificates?;
        applied.extend(changes.into_iter().map(|change| change.key));
        let names = |keys: Vec<&str>| keys.into_iter().map(str::to_owned).collect();
        Ok(Reloaded { applied, waiting: names(done.waiting), overridden: names(done.overridden) })
    }

    /// Puts back knobs whose time is over; how long until the next one, if there is one.
    pub(super) fn put_back_knobs(&self) -> Option<Duration> {
        let mut knobs = self.held();
        let now = self.links.clock.now();
        let turns = knobs.put_back(now);
        if let Err(fault) = self.carry_out(BY_TIME, knobs.config(), &turns) {
            tracing::error!(%fault, "a knob was not put back everywhere");
        }
        knobs.next_ms().map(|next_ms| Duration::from_millis(next_ms.saturating_sub(now.mono_ms).max(1)))
    }

    /// Time that streams have to close at a stop.
    pub(super) fn shutdown_grace(&self) -> Duration {
        self.held().config().shutdown_grace_seconds
    }

    /// All knobs as they stand.
    pub(super) fn knob_rows(&self) -> Vec<KnobRow> {
        self.held().list().into_iter().map(row).collect()
    }

    /// Tells those who act by the values, the log and the events.
    fn carry_out(&self, by: &str, config: &Config, turns: &[Turn]) -> Result<Vec<KnobChange>, Fault> {
        let now = self.links.clock.now();
        for Turn { row, from, to, until } in turns {
            let until_s = until.map(seconds);
            tracing::info!(by, knob = row.key, %from, %to, until_s, "a knob was turned");
            let (key, from, to) = (row.key.to_owned(), from.clone(), to.clone());
            self.events.note(seconds(now), by, What::Knob { key, from, to, until_s });
        }
        if !turns.is_empty() {
            self.links.log.set_level(config.log_level);
        }
        let change = |turn: &Turn| KnobChange {
            key: turn.row.key.to_owned(),
            from: turn.from.clone(),
            to: turn.to.clone(),
            until_s: turn.until.map(seconds),
        };
        Ok(turns.iter().map(change).collect())
    }

    fn new_certificates(&self, config: &Config) -> Result<tls::Reloaded, Fault> {
        let Some(certificates) = &self.links.certificates else { return Ok(tls::Reloaded::Unchanged) };
        let source =
            super::certificate_source(config).map_err(|failure| Fault::new(FaultKind::Invalid, failure.text))?;
        certificates.reload_from(&[source]).map_err(|error| Fault::new(FaultKind::Invalid, error.to_string()))
    }
}

fn row(knob: Knob) -> KnobRow {
    let Knob { row, value, source, until } = knob;
    let range = row.kind.range();
    KnobRow {
        key: row.key.to_owned(),
        value,
        default: row.default.to_owned(),
        kind: row.kind.name().to_owned(),
        unit: row.kind.unit().map(str::to_owned),
        min: range.map(|(min, _)| min),
        max: range.map(|(_, max)| max),
        allowed: row.kind.allowed(),
        source: source.to_string(),
        until_s: until.map(seconds),
        help: row.help.to_owned(),
    }
}
