//! Open files and their limits: `/proc/sys/fs/file-nr`, and the process's `limits` and `fd`.

use std::fs;
use std::path::PathBuf;

use super::Roots;
use super::text::{Pseudo, first, lines, number, words};
use crate::schema::{Field, Module};
use crate::table::{Source, Table};

const FIELDS: [Field; 6] = [
    Field::gauge("open", "", 8, "Files open on the host, sockets included."),
    Field::gauge("max", "", 8, "Limit of open files."),
    Field::quotient("use_pct", "%", ("open", "max", 100), "Share of the limit in use."),
    Field::gauge("own", "", 8, "Descriptors of the process, without io_uring's own table; needs Linux 6.2."),
    Field::gauge("own_max", "", 8, "Limit of descriptors (RLIMIT_NOFILE, soft)."),
    Field::quotient("own_pct", "%", ("own", "own_max", 100), "Share of the limit in use."),
];

#[derive(Debug)]
pub(super) struct Files {
    host: Pseudo,
    limits: Pseudo,
    descriptors: PathBuf,
}

impl Files {
    pub(super) fn new(roots: &Roots) -> Files {
        Files {
            host: Pseudo::new(roots.proc.join("sys/fs/file-nr")),
            limits: Pseudo::new(roots.own("limits")),
            descriptors: roots.own("fd"),
        }
    }
}

impl Source for Files {
    fn modules(&self) -> Vec<Module> {
        vec![Module::single("files", "Open files and their limits.", FIELDS.to_vec())]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        let row = tables[0].only();
        if let Some(text) = self.host.read() {
            let mut words = words(text.trim_ascii_end());
            row[0] = words.next().map_or(row[0], number);
            row[1] = words.nth(1).map_or(row[1], number);
        }
        // Its size is the number of descriptors, without a walk over them.
        if let Some(count) = fs::metadata(&self.descriptors).ok().map(|meta| meta.len()).filter(|count| *count > 0) {
            row[2] = count;
        }
        if let Some(text) = self.limits.read() {
            let limit = lines(text).find_map(|line| line.strip_prefix(b"Max open files"));
            row[3] = limit.map_or(row[3], first);
        }
    }
}
