//! The rows that sources fill, and the shape of a sample: the owner of each slot.
//!
//! ```text
//! sample:  wall clock (ms) | monotonic clock (us) | module 0: row 0, row 1, .. | module 1: row 0, ..
//! ```
//!
//! This module knows the names and slots of numbers, never their origin.

use std::sync::Arc;

use crate::schema::{Module, Schema};

/// A number that is not available.
pub const ABSENT: u64 = u64::MAX;

/// Slots before the modules: the clocks.
pub const CLOCKS: usize = 2;

/// Most slots of a sample: larger claims in a file are rejected.
pub const SLOTS_MAX: usize = 1 << 18;

/// Provides numbers. One file per source, which alone declares its fields.
pub trait Source: Send {
    /// The modules, always the same.
    fn modules(&self) -> Vec<Module>;

    /// Fills one table per module, in that order; unset numbers are absent. Does not allocate in
    /// steady state.
    fn sample(&mut self, tables: &mut [Table]);
}

/// The rows of one module.
#[derive(Debug)]
pub struct Table {
    width: usize,
    rows_max: usize,
    names: Vec<String>,
    values: Vec<u64>,
    cursor: usize,
    /// Whether new rows may be added: they change the shape, and a shape that changes every second
    /// inflates a recording.
    open: bool,
    changed: bool,
}

impl Table {
    /// An empty table, or one with the single row of a module without instances.
    pub fn new(module: &Module) -> Table {
        let width = module.recorded().count();
        let names = if module.instance.is_some() { Vec::new() } else { vec![String::new()] };
        let values = vec![ABSENT; width * names.len()];
        Table { width, rows_max: module.rows_max.into(), names, values, cursor: 0, open: true, changed: false }
    }

    /// Begins a sample with all numbers absent. New rows may be added if `open`.
    pub fn begin(&mut self, open: bool) {
        self.values.fill(ABSENT);
        (self.cursor, self.open) = (0, open);
    }

    /// The row of a module without instances.
    pub fn only(&mut self) -> &mut [u64] {
        &mut self.values[..self.width]
    }

    /// The row of an instance, all absent at first; `None` if no row is available. At the limit,
    /// the row of an instance not seen in this sample is reused.
    pub fn row(&mut self, name: &[u8]) -> Option<&mut [u64]> {
        let behind = (self.cursor..self.names.len()).chain(0..self.cursor);
        let found = behind.into_iter().find(|at| self.names[*at].as_bytes() == name);
        let at = match found {
            Some(at) => at,
            None => self.admit(name)?,
        };
        self.cursor = at + 1;
        Some(&mut self.values[at * self.width..][..self.width])
    }

    fn admit(&mut self, name: &[u8]) -> Option<usize> {
        if !self.open {
            return None;
        }
        let name = String::from_utf8_lossy(name).into_owned();
        if self.names.len() < self.rows_max {
            self.names.push(name);
            self.values.resize(self.names.len() * self.width, ABSENT);
            self.changed = true;
            return Some(self.names.len() - 1);
        }
        // An empty row before the cursor belongs to an instance that no longer exists.
        let gone =
            (0..self.cursor).find(|at| self.values[at * self.width..][..self.width].iter().all(|v| *v == ABSENT))?;
        self.names[gone] = name;
        self.changed = true;
        Some(gone)
    }

    /// Names of the rows.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// All rows, concatenated.
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    /// Whether rows were added or reassigned since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}

/// The name of the row for all instances of a module.
pub const ALL: &str = "all";

/// The level of detail of a module's instances in a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detail {
    /// Each instance.
    Each,
    /// Each instance, and all together as the last row: a whole sample of a thinned stretch.
    EachAndAll,
    /// All together in the one row [`ALL`]: a thinned sample.
    All,
}

/// The owners of the slots of a sample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    schema: Arc<Schema>,
    /// Names of the rows, one list per module.
    rows: Vec<Vec<String>>,
    details: Vec<Detail>,
    /// First slot of each module.
    first: Vec<usize>,
    slots: usize,
    /// Identifies a thinned file: growth in the rows [`ALL`] is comparable only within one.
    run: u32,
}

impl Shape {
    /// A shape from a schema and the names of each module's rows.
    ///
    /// # Errors
    /// They do not match, or need more than [`SLOTS_MAX`] slots.
    pub fn new(schema: Arc<Schema>, rows: Vec<Vec<String>>) -> Result<Shape, String> {
        if rows.len() != schema.modules.len() {
            return Err(format!("rows of {} modules of {}", rows.len(), schema.modules.len()));
        }
        let (mut first, mut slots) = (Vec::with_capacity(rows.len()), CLOCKS);
        for (module, rows) in schema.modules.iter().zip(&rows) {
            first.push(slots);
            let more = module.recorded().count().checked_mul(rows.len());
            slots = more.and_then(|more| slots.checked_add(more)).filter(|all| *all <= SLOTS_MAX).ok_or("too large")?;
        }
        let details = vec![Detail::Each; rows.len()];
        Ok(Shape { schema, rows, details, first, slots, run: 0 })
    }

    /// The shapes of a stretch in which some modules are thinned, derived from this one: of whole
    /// samples, and of thinned ones.
    ///
    /// # Errors
    /// There is no such module, or it needs more than [`SLOTS_MAX`] slots.
    pub fn thinned(&self, modules: &[usize], run: u32) -> Result<(Shape, Shape), String> {
        let (mut whole, mut thin) = (self.rows.clone(), self.rows.clone());
        for module in modules {
            whole.get_mut(*module).ok_or("no such module")?.push(ALL.to_owned());
            thin[*module] = vec![ALL.to_owned()];
        }
        let shape = |rows, detail| {
            let mut shape = Shape::new(self.schema.clone(), rows)?;
            modules.iter().for_each(|module| shape.details[*module] = detail);
            Ok::<_, String>(Shape { run, ..shape })
        };
        Ok((shape(whole, Detail::EachAndAll)?, shape(thin, Detail::All)?))
    }

    /// The shape with the row [`ALL`] added to a module that lacks it.
    pub fn with_all(mut self, module: usize) -> Result<Shape, String> {
        self.rows[module].push(ALL.to_owned());
        let mut shape = Shape::new(self.schema, self.rows)?;
        shape.details = self.details;
        shape.details[module] = Detail::EachAndAll;
        Ok(shape)
    }

    /// The level of detail of a module's instances.
    pub fn detail(&self, module: usize) -> Detail {
        self.details[module]
    }

    /// The thinned file that it belongs to.
    pub fn run(&self) -> u32 {
        self.run
    }

    /// For a shape of whole samples, the slots that thinned samples have, too, in order.
    pub fn kept(&self) -> Vec<usize> {
        let mut kept: Vec<usize> = (0..CLOCKS).collect();
        for (module, rows) in self.rows.iter().enumerate() {
            let first = if self.details[module] == Detail::Each { 0 } else { rows.len() - 1 };
            kept.extend(self.row_at(module, first)..self.row_at(module, rows.len()));
        }
        kept
    }

    /// The schema.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Names of the rows of each module.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// Number of slots in a sample.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The first slot of a module's row.
    pub fn row_at(&self, module: usize, row: usize) -> usize {
        self.first[module] + row * self.schema.modules[module].recorded().count()
    }

    /// For each slot, whether its number only grows; the clocks do.
    pub fn growing(&self) -> Vec<bool> {
        let mut growing = vec![true; CLOCKS];
        for (module, rows) in self.schema.modules.iter().zip(&self.rows) {
            for _ in rows {
                growing.extend(module.recorded().map(|(_, field)| field.only_grows()));
            }
        }
        growing
    }
}

/// One moment: one number per slot of its shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The owners of the slots.
    pub shape: Arc<Shape>,
    /// The numbers, beginning with the clocks.
    pub values: Vec<u64>,
}

impl Sample {
    /// When it was taken, milliseconds since 1970 (UTC).
    pub fn wall_ms(&self) -> u64 {
        self.values[0]
    }

    /// Microseconds of the monotonic clock, since the host's start.
    pub fn monotonic_us(&self) -> u64 {
        self.values[1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Field;

    fn module() -> Module {
        let fields = vec![
            Field::count("in", "packets", 6, ""),
            Field::count("out", "packets", 6, ""),
            Field::quotient("each", "", ("in", "out", 1), ""),
        ];
        Module::single("nic", "", fields).by("interface", 2)
    }

    #[test]
    fn rows_keep_their_place_and_those_of_the_gone_are_given_on() {
        let mut table = Table::new(&module());
        assert_eq!(table.names().len(), 0);
        table.row(b"eth0").expect("room")[0] = 1;
        table.row(b"eth1").expect("room")[1] = 2;
        assert!(table.row(b"eth2").is_none(), "both are in use");
        assert_eq!(table.values(), [1, ABSENT, ABSENT, 2]);
        assert!(table.take_changed() && !table.take_changed());
        table.begin(false);
        table.row(b"eth1").expect("known")[0] = 3;
        assert!(table.row(b"eth2").is_none(), "not while it is closed");
        assert_eq!(table.values(), [ABSENT, ABSENT, 3, ABSENT]);
        table.begin(true);
        table.row(b"eth1").expect("known")[0] = 4;
        table.row(b"eth2").expect("eth0 has gone")[0] = 5;
        assert_eq!(
            (table.names(), table.values()),
            (&["eth2".to_owned(), "eth1".into()][..], &[5, ABSENT, 4, ABSENT][..])
        );
        assert!(table.take_changed());
    }

    #[test]
    fn a_shape_says_whose_a_slot_is() {
        let schema = Arc::new(Schema {
            modules: vec![module(), Module::single("m", "", vec![Field::gauge("g", "", 1, "")])],
            ..Schema::default()
        });
        let shape =
            Shape::new(schema.clone(), vec![vec!["a".into(), "b".into()], vec![String::new()]]).expect("it fits");
        assert_eq!((shape.slots(), shape.row_at(0, 1), shape.row_at(1, 0)), (7, 4, 6));
        assert_eq!(shape.growing(), [true, true, true, true, true, true, false]);
        assert!(Shape::new(schema.clone(), vec![vec![]]).is_err());
        let many = (0..SLOTS_MAX).map(|n| n.to_string()).collect();
        assert!(Shape::new(schema, vec![many, vec![]]).is_err());
    }
}
