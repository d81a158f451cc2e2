//! The options that an operator sets while the server runs, layered over the configuration.
//!
//! ```text
//! set for a while > set > flags, environment and file
//!                         as last read (knobs) or as at the start (all other options)
//! ```
//!
//! A value stays set until it is reset, its time is over, or the server ends; reloading the file
//! does not affect it. A value is refused if it would break a rule between options, now or when
//! another value reverts. Time is an argument; this module has no effects.

use std::collections::BTreeMap;
use std::time::Duration;

use throng_engine::id::Now;

use super::check::{self, Problem, Problems, Source};
use super::table::{Change, Config, Row, TABLE, nearest, row};
use super::{Loaded, not_allowed};

/// An option whose value has changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Turn {
    /// The option.
    pub row: &'static Row,
    /// The value before.
    pub from: String,
    /// The value now.
    pub to: String,
    /// When the value reverts.
    pub until: Option<Now>,
}

/// The effect of a reload.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reread {
    /// Knobs whose value has changed.
    pub turns: Vec<Turn>,
    /// Knobs set at run time, which override the values read.
    pub overridden: Vec<&'static str>,
    /// Options that differ from the start and need a restart.
    pub waiting: Vec<&'static str>,
}

/// A knob with its current value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Knob {
    /// The option.
    pub row: &'static Row,
    /// Its value.
    pub value: String,
    /// The source of the value.
    pub source: Source,
    /// When the value reverts.
    pub until: Option<Now>,
}

/// The values set for one option.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Set {
    /// The value set until reset.
    stays: Option<String>,
    /// The value set for a while, and its end; takes precedence over `stays`.
    passes: Option<(String, Now)>,
}

impl Set {
    /// The value at this time of the monotonic clock, and its end.
    fn at(&self, mono_ms: u64) -> Option<(&str, Option<Now>)> {
        let passes = self.passes.as_ref().filter(|(_, until)| until.mono_ms > mono_ms);
        let passes = passes.map(|(text, until)| (text.as_str(), Some(*until)));
        passes.or_else(|| self.stays.as_deref().map(|text| (text, None)))
    }
}

type Sets = BTreeMap<&'static str, Set>;

/// The options of a running server.
#[derive(Debug)]
pub struct Knobs {
    started: Loaded,
    read: Loaded,
    sets: Sets,
    config: Config,
}

impl Knobs {
    /// Options without any value set at run time.
    pub fn new(started: Loaded) -> Knobs {
        Knobs { read: started.clone(), sets: Sets::new(), config: started.config.clone(), started }
    }

    /// The values in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Sets a knob, for a while or until it is reset. Replaces an earlier temporary value.
    ///
    /// # Errors
    /// There is no such knob; the value is not allowed, or conflicts with others, now or once one
    /// reverts.
    pub fn set(&mut self, key: &str, text: &str, lasting: Option<Duration>, now: Now) -> Result<Vec<Turn>, Problems> {
        let row = knob(key)?;
        let mut sets = self.sets.clone();
        let set = sets.entry(row.key).or_default();
        match lasting {
            None => *set = Set { stays: Some(text.to_owned()), passes: None },
            Some(lasting) => set.passes = Some((text.to_owned(), later(now, lasting))),
        }
        self.adopt(None, sets, now)
    }

    /// Resets a knob, or all, to the configuration's value.
    ///
    /// # Errors
    /// There is no such knob; the configuration's value conflicts with values that remain set.
    pub fn reset(&mut self, key: Option<&str>, now: Now) -> Result<Vec<Turn>, Problems> {
        let mut sets = self.sets.clone();
        match key {
            Some(key) => drop(sets.remove(knob(key)?.key)),
            None => sets.clear(),
        }
        self.adopt(None, sets, now)
    }

    /// Reads the configuration again.
    ///
    /// # Errors
    /// As [`super::load`], and values that conflict with set ones or with those of the start.
    pub fn read_again(&mut self, now: Now) -> Result<Reread, Problems> {
        let read = self.read.again()?;
        let values = self.started.config.shown().into_iter().zip(read.config.shown());
        let differ = TABLE.iter().zip(values).filter(|(row, (old, new))| row.change == Change::Restart && old != new);
        let waiting = differ.map(|(row, _)| row.key).collect();
        let overridden = self.sets.keys().copied().collect();
        let turns = self.adopt(Some(read), self.sets.clone(), now)?;
        Ok(Reread { turns, overridden, waiting })
    }

    /// Reverts temporary values whose time is over.
    pub fn put_back(&mut self, now: Now) -> Vec<Turn> {
        let mut sets = self.sets.clone();
        for set in sets.values_mut() {
            set.passes.take_if(|(_, until)| until.mono_ms <= now.mono_ms);
        }
        sets.retain(|_, set| *set != Set::default());
        self.adopt(None, sets, now).expect("what follows was checked when it was set")
    }

    /// The next time, in milliseconds of the monotonic clock, at which [`Knobs::put_back`] has
    /// work.
    pub fn next_ms(&self) -> Option<u64> {
        ends(&self.sets).into_iter().next()
    }

    /// All knobs, in the order of the table.
    pub fn list(&self) -> Vec<Knob> {
        let shown = self.config.shown();
        let values = TABLE.iter().zip(shown).zip(&self.read.sources).filter(|((row, _), _)| row.is_knob());
        let knob = |((row, value), source): ((&'static Row, String), &Source)| {
            let set = self.sets.get(row.key).and_then(|set| set.at(0));
            let source = if set.is_some() { Source::Operator } else { source.clone() };
            Knob { row, value, source, until: set.and_then(|(_, until)| until) }
        };
        values.map(knob).collect()
    }

    /// Adopts these values if they are consistent now and at every later reversion; returns the
    /// current changes.
    fn adopt(&mut self, read: Option<Loaded>, sets: Sets, now: Now) -> Result<Vec<Turn>, Problems> {
        let config = {
            let read = read.as_ref().unwrap_or(&self.read);
            let config = self.config_at(read, &sets, now.mono_ms)?;
            for end_ms in ends(&sets).into_iter().filter(|end_ms| *end_ms > now.mono_ms) {
                self.config_at(read, &sets, end_ms).map_err(|problems| later_problems(problems, &sets, end_ms))?;
            }
            config
        };
        let values = self.config.shown().into_iter().zip(config.shown());
        let changed = TABLE.iter().zip(values).filter(|(_, (from, to))| from != to);
        let turn = |(row, (from, to)): (&'static Row, (String, String))| {
            let until = sets.get(row.key).and_then(|set| set.at(now.mono_ms)).and_then(|(_, until)| until);
            Turn { row, from, to, until }
        };
        let turns = changed.map(turn).collect();
        self.config = config;
        self.sets = sets;
        self.read = read.unwrap_or_else(|| self.read.clone());
        Ok(turns)
    }

    /// The values at a time: for knobs the set or last read ones, for all other options those of
    /// the start.
    fn config_at(&self, read: &Loaded, sets: &Sets, mono_ms: u64) -> Result<Config, Problems> {
        let mut sources = Vec::with_capacity(TABLE.len());
        let text = |(at, row): (usize, &'static Row)| {
            let set = sets.get(row.key).and_then(|set| set.at(mono_ms));
            let (text, source) = match (set, row.change) {
                (Some((text, _)), _) => (vec![text.to_owned()], Source::Operator),
                (None, Change::Reload) => (read.texts[at].clone(), read.sources[at].clone()),
                (None, Change::Restart) => (self.started.texts[at].clone(), self.started.sources[at].clone()),
            };
            sources.push(source);
            text
        };
        let texts: Vec<Vec<String>> = TABLE.iter().enumerate().map(text).collect();
        let read = Config::read(&texts);
        let config = read.map_err(|bad| Problems(bad.into_iter().map(|bad| not_allowed(bad, &sources)).collect()))?;
        match check::clashes(&config) {
            clashes if clashes.is_empty() => Ok(config),
            clashes => Err(Problems(clashes)),
        }
    }
}

/// The times at which values revert, earliest first.
fn ends(sets: &Sets) -> Vec<u64> {
    let mut ends: Vec<u64> = sets.values().filter_map(|set| Some(set.passes.as_ref()?.1.mono_ms)).collect();
    ends.sort_unstable();
    ends.dedup();
    ends
}

fn later(now: Now, lasting: Duration) -> Now {
    let ms = u64::try_from(lasting.as_millis()).unwrap_or(u64::MAX);
    Now::new(now.mono_ms.saturating_add(ms), now.wall_us.saturating_add(ms.saturating_mul(1_000)))
}

/// Adds to problems of a later time which value reverts then.
fn later_problems(problems: Problems, sets: &Sets, end_ms: u64) -> Problems {
    let ending = sets.iter().find(|(_, set)| set.passes.as_ref().is_some_and(|(_, until)| until.mono_ms == end_ms));
    let ending = ending.map_or("a knob", |(key, _)| key);
    let say = |problem| match problem {
        Problem::Clash { key, reason } => Problem::Clash { key, reason: format!("when {ending} is reset, {reason}") },
        other => other,
    };
    Problems(problems.0.into_iter().map(say).collect())
}

/// The row of a knob, from any spelling of its name.
///
/// # Errors
/// There is none, or it is an option that takes effect at the next start.
pub fn knob(name: &str) -> Result<&'static Row, Problems> {
    match row(name) {
        Some(row) if row.is_knob() => Ok(row),
        Some(row) => Err(Problems(vec![Problem::NoKnob { key: row.key }])),
        None => {
            let (source, key) = (Source::Operator, name.to_owned());
            Err(Problems(vec![Problem::Unknown { source, nearest: nearest(&key), key }]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Environment, Flags, LogLevel, load};
    use super::*;

    fn at(second: u64) -> Now {
        Now::new(second * 1_000, (1_700_000_000 + second) * 1_000_000)
    }

    fn knobs(file: &str) -> (tempfile::TempDir, Knobs) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("server.toml");
        std::fs::write(&path, file).expect("a file");
        let loaded = load(&Flags::new(), &Environment::new(), Some(path)).expect("good");
        (folder, Knobs::new(loaded))
    }

    /// Key, value before, value now, second at which it reverts.
    fn told(turns: &[Turn]) -> Vec<(&str, &str, &str, Option<u64>)> {
        let second = |until: Now| until.mono_ms / 1_000;
        turns.iter().map(|turn| (turn.row.key, &*turn.from, &*turn.to, turn.until.map(second))).collect()
    }

    const MINUTE: Option<Duration> = Some(Duration::from_secs(60));

    #[test]
    fn what_is_set_for_a_while_gives_way_to_what_was_set_before_it() {
        let (_folder, mut knobs) = knobs("");
        let turns = knobs.set("shutdown-grace-seconds", "120", None, at(1)).expect("a knob");
        assert_eq!(told(&turns), [("shutdown_grace_seconds", "10s", "2m", None)]);
        let turns = knobs.set("shutdown_grace_seconds", "5", MINUTE, at(2)).expect("a knob");
        assert_eq!(told(&turns), [("shutdown_grace_seconds", "2m", "5s", Some(62))]);
        let turns = knobs.set("log_level", "debug", MINUTE, at(3)).expect("a knob");
        assert_eq!(told(&turns), [("log_level", "info", "debug", Some(63))]);
        assert_eq!(knobs.next_ms(), Some(62_000));
        assert_eq!(knobs.put_back(at(61)), []);
        assert_eq!(told(&knobs.put_back(at(62))), [("shutdown_grace_seconds", "5s", "2m", None)]);
        assert_eq!(knobs.next_ms(), Some(63_000));
        assert_eq!(told(&knobs.put_back(at(70))), [("log_level", "debug", "info", None)]);
        assert_eq!((knobs.next_ms(), knobs.put_back(at(80))), (None, vec![]));
        assert_eq!(told(&knobs.reset(None, at(90)).expect("good")), [("shutdown_grace_seconds", "2m", "10s", None)]);
    }

    #[test]
    fn a_list_says_where_each_value_came_from_and_when_it_goes() {
        let (_folder, mut knobs) = knobs("log_level = \"warn\"\n");
        let of = |knobs: &Knobs, key: &str| knobs.list().into_iter().find(|knob| knob.row.key == key).expect("a knob");
        let level = of(&knobs, "log_level");
        assert!(matches!(level.source, Source::File(_, 1)) && level.value == "warn" && level.until.is_none());
        knobs.set("log_level", "trace", MINUTE, at(1)).expect("a knob");
        let level = of(&knobs, "log_level");
        assert_eq!((level.source, &*level.value, level.until), (Source::Operator, "trace", Some(at(61))));
        assert_eq!(of(&knobs, "shutdown_grace_seconds").source, Source::Default);
        for knob in knobs.list() {
            assert!(knob.row.is_knob(), "{}", knob.row.key);
        }
        assert!(knobs.list().iter().all(|knob| knob.row.key != "tls_key" && knob.row.key != "shards"));
    }

    #[test]
    fn only_knobs_are_set_and_only_to_what_the_table_allows() {
        let (_folder, mut knobs) = knobs("");
        let mut refused = |key: &str, text: &str| {
            let said = knobs.set(key, text, None, at(1)).expect_err(key).to_string();
            assert_eq!((knobs.config(), knobs.sets.len()), (&knobs.started.config, 0), "nothing of it was taken");
            said
        };
        let said = refused("log_level", "loud");
        assert_eq!(
            said,
            "set at run time: log_level cannot be `loud`; allowed: error or warn or info or debug or trace"
        );
        assert!(refused("shutdown_grace_seconds", "2h").contains("allowed: 0 to 1h"));
        assert!(
            refused("shards", "3")
                .starts_with("shards cannot be set at run time; change the configuration and restart")
        );
        assert!(refused("tls_key", "/x").starts_with("tls_key cannot be set at run time"));
        assert!(refused("log_levle", "info").ends_with("did you mean `log_level`?"));
    }

    #[test]
    fn what_is_set_outlives_a_reload_which_says_so() {
        let (folder, mut knobs) = knobs("log_level = \"warn\"\n");
        knobs.set("log_level", "debug", None, at(1)).expect("a knob");
        let path = folder.path().join("server.toml");
        std::fs::write(&path, "log_level = \"error\"\nshutdown_grace_seconds = 3\nshards = 3\n").expect("a file");
        let done = knobs.read_again(at(2)).expect("good");
        assert_eq!(told(&done.turns), [("shutdown_grace_seconds", "10s", "3s", None)]);
        assert_eq!((done.overridden, done.waiting), (vec!["log_level"], vec!["shards"]));
        assert_eq!(knobs.config().log_level, LogLevel::Debug);
        assert_eq!(knobs.config().shards, None, "what needs a restart is as at the start");
        assert_eq!(knobs.read_again(at(3)).expect("good").turns, [], "what has taken effect is not told again");
        std::fs::write(&path, "log_level = \"loud\"\n").expect("a file");
        assert!(knobs.read_again(at(4)).is_err());
        let turns = knobs.reset(Some("log_level"), at(5)).expect("set");
        assert_eq!(told(&turns), [("log_level", "debug", "error", None)], "as the file said when it was last good");
    }

    #[test]
    fn rules_between_options_hold_now_and_whatever_is_put_back() {
        let (folder, mut knobs) = knobs("");
        let said = knobs.set("outbound_bytes_soft", "2MiB", None, at(1)).expect_err("not less").to_string();
        assert!(said.starts_with("outbound_bytes_soft: 2097152 bytes must be less than outbound_bytes_max"), "{said}");
        knobs.set("outbound_bytes_max", "4MiB", MINUTE, at(1)).expect("a knob");
        let said = knobs.set("outbound_bytes_soft", "2MiB", None, at(2)).expect_err("not for ever").to_string();
        assert!(
            said.starts_with("outbound_bytes_soft: when outbound_bytes_max is reset, 2097152 bytes must"),
            "{said}"
        );
        let said = knobs.set("outbound_bytes_soft", "2MiB", MINUTE, at(2)).expect_err("too long").to_string();
        assert!(said.contains("when outbound_bytes_max is reset"), "{said}");
        let half = Some(Duration::from_secs(30));
        knobs.set("outbound_bytes_soft", "2MiB", half, at(2)).expect("it is put back before");
        // A file that conflicts with a set value is refused as a whole.
        let path = folder.path().join("server.toml");
        std::fs::write(&path, "log_level = \"error\"\noutbound_bytes_max = \"70000\"\nstanza_bytes_max = 10000\n")
            .expect("a file");
        knobs.set("outbound_bytes_max", "3MiB", None, at(3)).expect("a knob");
        assert_eq!(
            told(&knobs.read_again(at(4)).expect("what is set goes before").turns),
            [("log_level", "info", "error", None)]
        );
        let said = knobs.reset(Some("outbound_bytes_max"), at(5)).expect_err("the file's is too small").to_string();
        assert!(
            said.starts_with("outbound_bytes_max: 70000 bytes is less than stanza_bytes_max"),
            "as at the start: {said}"
        );
        assert_eq!(knobs.config().outbound_bytes_max, 3 << 20);
        assert_eq!(told(&knobs.put_back(at(40))), [("outbound_bytes_soft", "2MiB", "64KiB", None)]);
    }
}
