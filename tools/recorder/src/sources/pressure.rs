//! Pressure stall information: `/proc/pressure/*` (accounting/psi.rst).

use super::Roots;
use super::text::{Pseudo, lines, number};
use crate::schema::{Field, Module};
use crate::table::{Source, Table};

/// Its totals are in microseconds.
const PER_S: u32 = 1_000_000;

const FIELDS: [Field; 5] = [
    Field::time("cpu", PER_S, "Some thread waited for a core."),
    Field::time("io", PER_S, "Some thread waited for a disk."),
    Field::time("io_full", PER_S, "All threads that were not idle waited for a disk."),
    Field::time("memory", PER_S, "Some thread waited for memory."),
    Field::time("mem_full", PER_S, "All threads that were not idle waited for memory."),
];

#[derive(Debug)]
pub(super) struct Pressure {
    /// Each file, and the slots of its lines `some` and `full`.
    files: [(Pseudo, usize, Option<usize>); 3],
}

impl Pressure {
    pub(super) fn new(roots: &Roots) -> Pressure {
        let file = |name| Pseudo::new(roots.proc.join("pressure").join(name));
        Pressure { files: [(file("cpu"), 0, None), (file("io"), 1, Some(2)), (file("memory"), 3, Some(4))] }
    }
}

impl Source for Pressure {
    fn modules(&self) -> Vec<Module> {
        vec![Module::single("pressure", "Time that threads waited for scarce resources.", FIELDS.to_vec())]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        let row = tables[0].only();
        for (file, some, full) in &mut self.files {
            for line in file.read().into_iter().flat_map(lines) {
                let slot = if line.starts_with(b"some") { Some(*some) } else { *full };
                let total = line.rsplit(|byte| *byte == b'=').next().filter(|_| line.len() > 4);
                if let (Some(slot), Some(total)) = (slot, total) {
                    row[slot] = number(total);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("pressure")).expect("a folder");
        let text =
            "some avg10=77.24 avg60=23.71 avg300=6.07 total=205\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=17\n";
        for name in ["cpu", "io"] {
            std::fs::write(folder.path().join("pressure").join(name), text).expect("written");
        }
        let mut source = Pressure::new(&Roots { proc: folder.path().into(), sys: "/".into(), pid: 1 });
        let mut tables = [Table::new(&source.modules()[0])];
        tables[0].begin(true);
        source.sample(&mut tables);
        let absent = crate::table::ABSENT;
        assert_eq!(tables[0].values(), [205, 205, 17, absent, absent]);
    }
}
