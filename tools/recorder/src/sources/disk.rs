//! Disks: `/proc/diskstats` (admin-guide/iostats.rst), without their partitions.

use std::path::PathBuf;

use super::Roots;
use super::text::{Pseudo, lines, number, words};
use crate::schema::{Field, Module};
use crate::table::{Source, Table};

const SECTORS: u32 = 2; // a KiB, whatever the disk calls a sector
const NONE: usize = usize::MAX;

/// Fields, and their columns after the name; none for quotients.
const TABLE: &[(Field, usize)] = &[
    (Field::count("reads", "", 6, "Reads done."), 0),
    (Field::count("writes", "", 6, "Writes done."), 4),
    (Field::count("rd_kib", "KiB", 8, "Read.").per(SECTORS), 2),
    (Field::count("wr_kib", "KiB", 8, "Written.").per(SECTORS), 6),
    (Field::time("busy", 1000, "Time with at least one request in progress."), 9),
    (Field::mean("queue", "req", 1000, "Requests waiting or in progress, on average."), 10),
    (Field::gauge("inflight", "", 6, "Requests in progress."), 8),
    (Field::count("rd_ms", "ms", 7, "Total time of reads."), 3),
    (Field::count("wr_ms", "ms", 7, "Total time of writes."), 7),
    (Field::quotient("rd_wait", "ms", ("rd_ms", "reads", 1), "Mean time of a read."), NONE),
    (Field::quotient("wr_wait", "ms", ("wr_ms", "writes", 1), "Mean time of a write."), NONE),
    (Field::count("flushes", "", 7, "Flushes of the disk's cache, for which fsync(2) waits."), 15),
    (Field::count("fl_ms", "ms", 7, "Total time of flushes."), 16),
    (Field::quotient("fl_wait", "ms", ("fl_ms", "flushes", 1), "Mean time of a flush."), NONE),
    (Field::count("discards", "", 8, "Discards done."), 11),
];

/// Most disks of a host.
const DISKS_MAX: u16 = 64;

#[derive(Debug)]
pub(super) struct Disk {
    file: Pseudo,
    block: PathBuf,
    /// The recorded column of each slot.
    columns: Vec<usize>,
    /// Partitions, which are not separate disks.
    parts: Vec<Vec<u8>>,
}

impl Disk {
    pub(super) fn new(roots: &Roots) -> Disk {
        let columns = TABLE.iter().filter(|(field, _)| field.is_recorded()).map(|(_, at)| *at).collect();
        Disk {
            file: Pseudo::new(roots.proc.join("diskstats")),
            block: roots.sys.join("block"),
            columns,
            parts: Vec::new(),
        }
    }
}

/// Most partitions remembered; further ones are looked up each time.
const PARTS_MAX: usize = 1024;

impl Source for Disk {
    fn modules(&self) -> Vec<Module> {
        let fields = TABLE.iter().map(|(field, _)| field.clone()).collect();
        vec![Module::single("disk", "Each disk that was used.", fields).by("disk", DISKS_MAX).adds_up()]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        let Some(text) = self.file.read() else { return };
        for line in lines(text) {
            let mut words = words(line).skip(2);
            let Some(name) = words.next() else { continue };
            let mut numbers = [0; 20];
            for (slot, word) in numbers.iter_mut().zip(words) {
                *slot = number(word);
            }
            // It has neither read nor written: a loop device without a file.
            if numbers[0] == 0 && numbers[4] == 0 || self.parts.iter().any(|part| part == name) {
                continue;
            }
            if !tables[0].names().iter().any(|known| known.as_bytes() == name) {
                let whole = str::from_utf8(name).is_ok_and(|name| self.block.join(name.replace('/', "!")).exists());
                if !whole {
                    if self.parts.len() < PARTS_MAX {
                        self.parts.push(name.to_vec());
                    }
                    continue;
                }
            }
            let Some(row) = tables[0].row(name) else { continue };
            for (slot, column) in row.iter_mut().zip(&self.columns) {
                *slot = numbers[*column];
            }
        }
    }
}
