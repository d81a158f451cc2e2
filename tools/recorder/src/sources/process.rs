//! The process as a whole: `stat`, `status` and `io` of its folder in `/proc`.

use rustix::param::clock_ticks_per_second;

use super::Roots;
use super::text::{self, Keyed, Lines, Pseudo, number, words};
use crate::schema::{Field, Module};
use crate::table::{Source, Table};

const fn mib(name: &'static str, help: &'static str) -> Field {
    Field::gauge(name, "MiB", 8, help).per(1024)
}

/// Keys of `status` and `io`, and columns of `stat` after the name of the program, from `state` on.
const TABLE: &Keyed = &[
    (Field::time("user", 100, "CPU in user mode; 100 is one core."), "11"),
    (Field::time("sys", 100, "CPU in the kernel; 100 is one core."), "12"),
    (Field::gauge("threads", "", 7, "Threads."), "17"),
    (mib("rss", "Resident memory."), "VmRSS"),
    (mib("anon", "Of this, anonymous memory."), "RssAnon"),
    (mib("file", "Of this, mapped files, including the program."), "RssFile"),
    (mib("shmem", "Of it, shared memory."), "RssShmem"),
    (mib("swap", "Anonymous memory that is swapped out."), "VmSwap"),
    (mib("ptables", "Page tables."), "VmPTE"),
    (Field::count("minflt", "", 7, "Page faults answered from memory."), "7"),
    (Field::count("majflt", "", 7, "Page faults that waited for a disk."), "9"),
    (Field::count("syscr", "", 7, "System calls that read, including read(2) of sockets."), "syscr"),
    (Field::count("syscw", "", 7, "System calls that write, including write(2) of sockets."), "syscw"),
    (Field::count("rd_kib", "KiB", 8, "Bytes read from disks for it.").per(1024), "read_bytes"),
    (Field::count("wr_kib", "KiB", 8, "Bytes to be written to disks for it.").per(1024), "write_bytes"),
];

#[derive(Debug)]
pub(super) struct Process {
    stat: Pseudo,
    status: Pseudo,
    io: Pseudo,
    lines: Lines,
    counts: Lines,
    /// Column and slot.
    columns: Vec<(usize, usize)>,
}

impl Process {
    pub(super) fn new(roots: &Roots) -> Process {
        let keys = text::keys(TABLE);
        let is_column = |key: &str| key.starts_with(|c: char| c.is_ascii_digit());
        let columns = keys.iter().enumerate().filter_map(|(slot, key)| Some((key.parse().ok()?, slot))).collect();
        let words: Vec<_> = keys.iter().map(|key| if is_column(key) { "" } else { *key }).collect();
        Process {
            stat: Pseudo::new(roots.own("stat")),
            status: Pseudo::new(roots.own("status")),
            io: Pseudo::new(roots.own("io")),
            lines: Lines::new(words.clone()),
            counts: Lines::new(words),
            columns,
        }
    }
}

impl Source for Process {
    fn modules(&self) -> Vec<Module> {
        let mut fields = text::fields(TABLE);
        fields[..2].iter_mut().for_each(|field| field.per = clock_ticks_per_second() as u32);
        vec![Module::single("process", "The recording process, or the one given by --pid.", fields)]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        let row = tables[0].only();
        if let Some(text) = self.stat.read() {
            // The name may contain anything, even a parenthesis.
            let behind = text.iter().rposition(|byte| *byte == b')').map_or(text.len(), |at| at + 1);
            for (column, word) in words(&text[behind..]).enumerate() {
                if let Some((_, slot)) = self.columns.iter().find(|(at, _)| *at == column) {
                    row[*slot] = number(word);
                }
            }
        }
        if let Some(text) = self.status.read() {
            self.lines.read(text, row);
        }
        if let Some(text) = self.io.read() {
            self.counts.read(text, row);
        }
    }
}
