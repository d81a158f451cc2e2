//! Paging, faults, swapping, reclaim: `/proc/vmstat`.

use super::Roots;
use super::text::{self, Keyed, Lines, Pseudo};
use crate::schema::{Field, Module};
use crate::table::{Source, Table};

const TABLE: &Keyed = &[
    (Field::count("in", "KiB", 8, "Read from disks."), "pgpgin"),
    (Field::count("out", "KiB", 8, "Written to disks."), "pgpgout"),
    (Field::count("fault", "", 8, "Page faults of all kinds."), "pgfault"),
    (Field::count("majflt", "", 6, "Page faults that waited for a disk."), "pgmajfault"),
    (Field::count("pgfree", "pg", 8, "Pages freed."), "pgfree"),
    (Field::count("scan_k", "pg", 7, "Pages scanned by the kernel's daemon to free memory."), "pgscan_kswapd"),
    (Field::count("scan_d", "pg", 7, "Pages scanned by programs themselves: memory is short."), "pgscan_direct"),
    (Field::count("swpin", "pg", 6, "Pages swapped in."), "pswpin"),
    (Field::count("swpout", "pg", 6, "Pages swapped out."), "pswpout"),
    (Field::count("thp", "", 6, "Huge pages allocated on faults."), "thp_fault_alloc"),
    (Field::count("thp_fb", "", 6, "Huge pages that could not be allocated."), "thp_fault_fallback"),
    (Field::count("compact", "", 7, "Times that a program waited for memory compaction."), "compact_stall"),
    (Field::count("oom", "", 6, "Processes killed for lack of memory."), "oom_kill"),
];

#[derive(Debug)]
pub(super) struct Paging {
    file: Pseudo,
    lines: Lines,
}

impl Paging {
    pub(super) fn new(roots: &Roots) -> Paging {
        Paging { file: Pseudo::new(roots.proc.join("vmstat")), lines: Lines::new(text::keys(TABLE)) }
    }
}

impl Source for Paging {
    fn modules(&self) -> Vec<Module> {
        vec![Module::single("paging", "Transfers between memory and disks, and their causes.", text::fields(TABLE))]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        if let Some(text) = self.file.read() {
            self.lines.read(text, tables[0].only());
        }
    }
}
