//! Knobs of the running server: values that an operator sets, a reload reads or time reverts,
//! delivered to the threads that use them.
//!
//! Changes are serialised: the next one is decided once all threads have the values of the one
//! before. Neither the path of messages nor readers of knobs wait for it.

use std::sync::Arc;
use std::time::Duration;

use throng_engine::id::Now;
use throng_engine::io::Command;
use throng_engine::settings::Settings;
use throng_engine::web::policy::Challenge;

use super::control::Running;
use super::{access, retention, settings, shown};
use crate::admin::{BY_SOCKET, Fault, FaultKind, KnobChange, KnobRow, Reloaded};
use crate::config::knobs::Turn;
use crate::config::{Config, Knobs, Problems};
use crate::events::{Event, What};
use crate::tls;
use crate::waits::MutexGuard;

/// The originator of changes by a reload.
const BY_RELOAD: &str = "reload";
/// The originator of changes by time, which reverts a knob.
const BY_TIME: &str = "time is over";

fn invalid(problems: &Problems) -> Fault {
    Fault::new(FaultKind::Invalid, problems.to_string())
}

fn seconds(time: Now) -> u64 {
    time.wall_us / 1_000_000
}

impl Running {
    fn held(&self) -> MutexGuard<'_, Knobs> {
        self.knobs.lock()
    }

    /// Held while a change is decided and delivered.
    fn one_change(&self) -> MutexGuard<'_, ()> {
        self.turning.lock()
    }

    /// Holds the lock that is planted to be held, if any.
    #[cfg(debug_assertions)]
    pub(super) fn plant(self: Arc<Running>, lock: Option<(String, crate::plant::When)>) -> Result<(), String> {
        let Some((lock, when)) = lock else { return Ok(()) };
        let hold = move || {
            std::thread::sleep(when.after);
            match lock.as_str() {
                "knobs" => {
                    let _knobs = self.held();
                    std::thread::sleep(when.lasts);
                }
                _ => {
                    let _one = self.one_change();
                    std::thread::sleep(when.lasts);
                }
            }
        };
        crate::waits::spawn("plant", hold).map(drop).map_err(|error| error.to_string())
    }

    /// Changes knobs, and returns once all threads have the new values.
    pub(super) fn turn(
        &self,
        by: &str,
        change: impl FnOnce(&mut Knobs, Now) -> Result<Vec<Turn>, Problems>,
    ) -> Result<Vec<KnobChange>, Fault> {
        let _one = self.one_change();
        let turns = change(&mut self.held(), self.links.clock.now()).map_err(|problems| invalid(&problems))?;
        // The thread that reverts knobs must recompute its deadline.
        self.links.wishes.look();
        self.carry_out(by, &turns)
    }

    /// The same for values changed in the configuration file; also reloads certificates and token
    /// keys.
    pub(super) fn read_again(&self) -> Result<Reloaded, Fault> {
        let _one = self.one_change();
        let done = self.held().read_again(self.links.clock.now()).map_err(|problems| invalid(&problems))?;
        let mut applied = Vec::new();
        let certificates = self.new_certificates();
        if let Ok(tls::Reloaded::Changed) = certificates {
            applied.push("certificates".to_owned());
        }
        let config = self.held().config().clone();
        let new_access = self.new_access(&config);
        let changes = self.carry_out(BY_RELOAD, &done.turns)?;
        certificates?;
        if new_access? {
            self.tell_shards(&config)?;
            applied.push("notify_jwt_keys".to_owned());
        }
        applied.extend(changes.into_iter().map(|change| change.key));
        let names = |keys: Vec<&str>| keys.into_iter().map(str::to_owned).collect();
        Ok(Reloaded { applied, waiting: names(done.waiting), overridden: names(done.overridden) })
    }

    /// Reverts knobs whose time is over; returns the time until the next one, if any.
    pub(super) fn put_back_knobs(&self) -> Option<Duration> {
        let _one = self.one_change();
        let now = self.links.clock.now();
        let turns = self.held().put_back(now);
        if let Err(fault) = self.carry_out(BY_TIME, &turns) {
            tracing::error!(%fault, "a knob was not put back everywhere");
        }
        self.held().next_ms().map(|next_ms| Duration::from_millis(next_ms.saturating_sub(now.mono_ms).max(1)))
    }

    /// The settings of archive retention; `None` while housekeeping is paused, or if messages are
    /// kept for ever.
    pub(super) fn retention(&self) -> Option<retention::Wanted> {
        let knobs = self.held();
        let config = knobs.config();
        let users_per_second = usize::try_from(config.archive_sweep_users_per_second).unwrap_or(usize::MAX);
        let days = config.archive_days;
        (config.archive && days > 0 && config.housekeeping).then_some(retention::Wanted { users_per_second, days })
    }

    /// Whether expired data is looked for: only if housekeeping is not paused.
    pub(super) fn keeps_house(&self) -> bool {
        self.held().config().housekeeping
    }

    /// Whether channels are searched for expired push registrations: only with pushes enabled and
    /// housekeeping not paused.
    pub(super) fn ends_registrations(&self) -> bool {
        let knobs = self.held();
        let config = knobs.config();
        config.notify_push && config.housekeeping
    }

    /// All knobs with their current values.
    pub(super) fn knob_rows(&self) -> Arc<Vec<KnobRow>> {
        self.shown.load_full()
    }

    /// Adds an executed order to the events, with its originator.
    pub(super) fn note_order(&self, by: &str, order: &str, to: String, count: u64) {
        self.events.note(seconds(self.links.clock.now()), by, What::Done { order: order.to_owned(), to, count });
    }

    /// Adds an action from the control socket to the events.
    pub(super) fn note_event(&self, what: What) {
        self.events.note(seconds(self.links.clock.now()), BY_SOCKET, what);
    }

    /// Registers a listener for new events, which must return quickly: the recorder's track of
    /// events.
    pub(super) fn tell_events(&self, listener: impl Fn(&Event) + Send + Sync + 'static) {
        self.events.tell(Box::new(listener));
    }

    /// Delivers changed values to their users, the log and the events.
    fn carry_out(&self, by: &str, turns: &[Turn]) -> Result<Vec<KnobChange>, Fault> {
        let config = {
            let knobs = self.held();
            self.shown.store(Arc::new(shown::rows(&knobs)));
            knobs.config().clone()
        };
        let now = self.links.clock.now();
        for Turn { row, from, to, until } in turns {
            let until_s = until.map(seconds);
            tracing::info!(by, knob = row.key, %from, %to, until_s, "a knob was turned");
            let (key, from, to) = (row.key.to_owned(), from.clone(), to.clone());
            self.events.note(seconds(now), by, What::Knob { key, from, to, until_s });
        }
        if !turns.is_empty() {
            self.links.log.set_level(config.log_level);
            self.links.wishes.set_times(config.shutdown_grace_seconds, config.shutdown_hard_seconds);
            let tuning = settings::disk_tuning(&config);
            self.links.engine.tune(&tuning);
            self.links.committer.tune(tuning.group_bytes_max, tuning.min_free_bytes);
            self.tell_shards(&config)?;
        }
        let change = |turn: &Turn| KnobChange {
            key: turn.row.key.to_owned(),
            from: turn.from.clone(),
            to: turn.to.clone(),
            until_s: turn.until.map(seconds),
        };
        Ok(turns.iter().map(change).collect())
    }

    /// Sends all shards their settings, and waits until they have them.
    fn tell_shards(&self, config: &Config) -> Result<(), Fault> {
        let mut new = Settings::clone(&self.links.settings);
        settings::take_options(&mut new, config);
        let web = Arc::make_mut(&mut new.web);
        web.channels.access = (**self.access.load()).clone();
        web.challenge = (**self.challenge.load()).clone();
        let (command, tuning) = (Command::Turn(Arc::new(new)), Some(settings::thread_tuning(config)));
        let shards = 0..self.shards();
        let answers: Vec<_> = shards.map(|shard| self.put_patiently(shard, &command, tuning)).collect();
        for answer in answers {
            answer.and_then(|answer| super::control::answered(&answer))?;
        }
        Ok(())
    }

    /// Reads the data for checking tokens again; returns whether it has changed. If it cannot be
    /// read, the previous data stays in use.
    fn new_access(&self, config: &Config) -> Result<bool, Fault> {
        let read = access::read(config).map_err(|failure| Fault::new(FaultKind::Invalid, failure.text))?;
        let changed = read != *self.access.load_full();
        if changed {
            self.access.store(Arc::new(read));
        }
        Ok(changed)
    }

    /// Answers this challenge at HTTP listeners from now on, or none.
    pub(super) fn show_challenge(&self, challenge: Option<Challenge>) -> Result<(), Fault> {
        let _one = self.one_change();
        self.challenge.store(Arc::new(challenge));
        let config = self.held().config().clone();
        self.tell_shards(&config)
    }

    /// Serves the certificates that are in the files now.
    pub(super) fn take_certificates(&self) -> Result<(), Fault> {
        let _one = self.one_change();
        self.new_certificates().map(drop)
    }

    fn new_certificates(&self) -> Result<tls::Reloaded, Fault> {
        let Some(certificates) = &self.links.certificates else { return Ok(tls::Reloaded::Unchanged) };
        let config = self.held().config().clone();
        let sources =
            super::certificate::sources(&config).map_err(|failure| Fault::new(FaultKind::Invalid, failure.text))?;
        let read = certificates.reload_from(&sources, super::certificate::clients(&config).as_ref());
        let reloaded = read.map_err(|error| Fault::new(FaultKind::Invalid, error.to_string()))?;
        super::certificate::warn(certificates, &config);
        for fault in super::checks::exposed(&config) {
            tracing::error!("{fault}");
        }
        Ok(reloaded)
    }
}
