//! Declares what is recorded: modules, and their fields, each with its unit, its kind and a
//! sentence.
//!
//! A module without instances has one row (`memory`); one with instances has a row for each (`nic`:
//! one per interface). A recording contains its schema, so that files remain readable when fields
//! are added. This module knows neither where numbers come from nor how they are stored.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// A name or a sentence: a constant in a source, owned if it was read from a file.
pub type Text = Cow<'static, str>;

/// How a displayed number is derived from recorded ones.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A level, shown unchanged.
    Gauge,
    /// Only grows; shown as its growth per second.
    Count,
    /// Only grows; shown as its percentage of the growth of all shares of its row.
    Share,
    /// Time spent, in units of which `per` make a second; shown as a percentage of the elapsed
    /// time.
    Time,
    /// Not recorded: one field divided by another of the same row, times a factor; for counters,
    /// their growth.
    Quotient {
        /// The numerator.
        of: Text,
        /// The denominator.
        by: Text,
        /// The factor: 100 for percent.
        times: u32,
    },
}

/// One number of a module.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Field {
    /// Its name, unique in the module.
    pub name: Text,
    /// The displayed unit; for a rate without its `/s`.
    pub unit: Text,
    /// Its kind.
    pub kind: Kind,
    /// Recorded units per `unit`; for times, per second.
    pub per: u32,
    /// Minimum width of its column in a table.
    pub width: u8,
    /// Its description, in one sentence.
    pub help: Text,
    /// Whether all rows together are shown by their maximum instead of their sum: an age, a switch.
    #[serde(default, skip_serializing_if = "is_false")]
    pub most: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Field {
    const fn new(name: &'static str, unit: &'static str, kind: Kind, width: u8, help: &'static str) -> Field {
        Field {
            name: Text::Borrowed(name),
            unit: Text::Borrowed(unit),
            kind,
            per: 1,
            width,
            help: Text::Borrowed(help),
            most: false,
        }
    }

    /// A level.
    pub const fn gauge(name: &'static str, unit: &'static str, width: u8, help: &'static str) -> Field {
        Field::new(name, unit, Kind::Gauge, width, help)
    }

    /// A counter, shown per second.
    pub const fn count(name: &'static str, unit: &'static str, width: u8, help: &'static str) -> Field {
        Field::new(name, unit, Kind::Count, width, help)
    }

    /// A percentage of the growth of all shares of the row.
    pub const fn share(name: &'static str, help: &'static str) -> Field {
        Field::new(name, "%", Kind::Share, 6, help)
    }

    /// Time spent, in units of which `per_s` make a second, shown as a percentage of the elapsed
    /// time.
    pub const fn time(name: &'static str, per_s: u32, help: &'static str) -> Field {
        Field::new(name, "%", Kind::Time, 6, help).per(per_s)
    }

    /// An average number: the total time of all, in units of which `per_s` make a second.
    pub const fn mean(name: &'static str, unit: &'static str, per_s: u32, help: &'static str) -> Field {
        // One that is present all the time is a hundred percent.
        Field::new(name, unit, Kind::Time, 6, help).per(100 * per_s)
    }

    /// One field divided by another.
    pub const fn quotient(
        name: &'static str,
        unit: &'static str,
        (of, by, times): (&'static str, &'static str, u32),
        help: &'static str,
    ) -> Field {
        let kind = Kind::Quotient { of: Text::Borrowed(of), by: Text::Borrowed(by), times };
        Field::new(name, unit, kind, 6, help)
    }

    /// Sets the number of recorded units per displayed unit.
    pub const fn per(mut self, per: u32) -> Field {
        self.per = per;
        self
    }

    /// All rows together are shown by their maximum, not their sum.
    pub const fn most(mut self) -> Field {
        self.most = true;
        self
    }

    /// Whether it has a slot in a sample.
    pub fn is_recorded(&self) -> bool {
        !matches!(self.kind, Kind::Quotient { .. })
    }

    /// Whether its recorded number only grows.
    pub fn only_grows(&self) -> bool {
        matches!(self.kind, Kind::Count | Kind::Share | Kind::Time)
    }

    /// The unit, with its `/s` for a rate.
    pub fn shown_unit(&self) -> String {
        match self.kind {
            Kind::Count => format!("{}/s", self.unit),
            _ => self.unit.to_string(),
        }
    }
}

/// Numbers that one source provides together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Module {
    /// Its name, unique in the schema.
    pub name: Text,
    /// Its description, in one sentence.
    pub help: Text,
    /// The kind of its instances, if it has any: "interface".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<Text>,
    /// Most rows.
    pub rows_max: u16,
    /// Whether its rows form a whole: their sum (or maximum, for some fields) is meaningful, and is
    /// kept when old seconds are thinned.
    #[serde(default, skip_serializing_if = "is_false")]
    pub adds_up: bool,
    /// Its fields, in display order.
    pub fields: Vec<Field>,
}

impl Module {
    /// A module with one row.
    pub fn single(name: impl Into<Text>, help: impl Into<Text>, fields: Vec<Field>) -> Module {
        Module { name: name.into(), help: help.into(), instance: None, rows_max: 1, adds_up: false, fields }
    }

    /// A module with one row per instance, at most `rows_max`.
    pub fn by(mut self, instance: impl Into<Text>, rows_max: u16) -> Module {
        (self.instance, self.rows_max) = (Some(instance.into()), rows_max);
        self
    }

    /// Marks its rows as forming a whole.
    pub fn adds_up(mut self) -> Module {
        self.adds_up = true;
        self
    }

    /// Fields with a slot in a sample, with their indices in [`Module::fields`].
    pub fn recorded(&self) -> impl Iterator<Item = (usize, &Field)> {
        self.fields.iter().enumerate().filter(|(_, field)| field.is_recorded())
    }

    /// The index of a field by its name.
    pub fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }
}

/// The origin of a recording.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Origin {
    /// The host's name.
    pub host: String,
    /// Its kernel version.
    pub kernel: String,
    /// Its number of cores.
    pub cores: u32,
    /// Differs after a restart of the host.
    pub boot: String,
    /// The process whose threads and memory are recorded.
    pub pid: u32,
    /// Milliseconds between samples.
    pub interval_ms: u64,
    /// The recording program.
    pub program: String,
}

/// All modules of a recording, and its origin.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Schema {
    /// The origin.
    pub origin: Origin,
    /// The modules, in the order of a sample.
    pub modules: Vec<Module>,
}

impl Schema {
    /// The index of a module by its name.
    pub fn module(&self, name: &str) -> Option<usize> {
        self.modules.iter().position(|module| module.name == name)
    }

    /// Its form in a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("names and numbers")
    }

    /// Parses the form in a file.
    ///
    /// # Errors
    /// It is not a schema, or contradicts itself.
    pub fn from_bytes(bytes: &[u8]) -> Result<Schema, String> {
        let schema: Schema = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        schema.check()?;
        Ok(schema)
    }

    /// Checks that names are unique and quotients refer to recorded fields of their module.
    ///
    /// # Errors
    /// The name of the fault.
    pub fn check(&self) -> Result<(), String> {
        for (index, module) in self.modules.iter().enumerate() {
            if self.module(&module.name) != Some(index) {
                return Err(format!("two modules {}", module.name));
            }
            for (index, field) in module.fields.iter().enumerate() {
                if module.field(&field.name) != Some(index) {
                    return Err(format!("two fields {}.{}", module.name, field.name));
                }
                if field.per == 0 {
                    return Err(format!("{}.{} has no unit", module.name, field.name));
                }
                let Kind::Quotient { of, by, .. } = &field.kind else { continue };
                for part in [of, by] {
                    if !module.field(part).is_some_and(|place| module.fields[place].is_recorded()) {
                        return Err(format!("{}.{} of {part}, which is not recorded", module.name, field.name));
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(fields: Vec<Field>) -> Schema {
        Schema { origin: Origin::default(), modules: vec![Module::single("some", "Some numbers.", fields)] }
    }

    #[test]
    fn a_schema_reads_back_and_contradictions_are_refused() {
        let good = schema(vec![
            Field::count("retrans", "segments", 6, "Sent again."),
            Field::count("out", "segments", 6, "Sent."),
            Field::quotient("retrans_pct", "%", ("retrans", "out", 100), "Part that was sent again."),
        ]);
        assert_eq!(Schema::from_bytes(&good.to_bytes()), Ok(good));
        let twice = schema(vec![Field::share("user", ""), Field::share("user", "")]);
        assert!(Schema::from_bytes(&twice.to_bytes()).is_err_and(|told| told.contains("some.user")));
        let of_nothing = schema(vec![Field::quotient("use", "%", ("count", "max", 100), "")]);
        assert!(Schema::from_bytes(&of_nothing.to_bytes()).is_err_and(|told| told.contains("count")));
        assert!(Schema::from_bytes(b"{}").is_err());
    }
}
