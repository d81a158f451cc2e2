//! Memory and huge pages: `/proc/meminfo`, and the part used by sockets: `net/sockstat`.

use rustix::param::page_size;

use super::Roots;
use super::text::{self, Keyed, Lines, Pseudo, add, lines, number, words};
use crate::schema::{Field, Module};
use crate::table::{Source, Table};

const fn mib(name: &'static str, help: &'static str) -> Field {
    // The kernel counts in KiB.
    Field::gauge(name, "MiB", 8, help).per(1024)
}

const MEMORY: &Keyed = &[
    (mib("total", "All there is."), "MemTotal"),
    (mib("free", "Of no use to anyone."), "MemFree"),
    (mib("avail", "Memory available to programs without swapping."), "MemAvailable"),
    (Field::quotient("avail_pct", "%", ("avail", "total", 100), "Available memory as a share of all."), ""),
    (mib("active", "Used of late."), "Active"),
    (mib("inactive", "Not used recently; reclaimed first."), "Inactive"),
    (mib("cached", "Contents of files."), "Cached"),
    (mib("buffers", "Contents of block devices."), "Buffers"),
    (mib("anon", "Memory of programs."), "AnonPages"),
    (mib("shmem", "Shared memory, and tmpfs."), "Shmem"),
    (mib("slab", "Objects of the kernel."), "Slab"),
    (mib("sunrecl", "Of these, those that cannot be reclaimed, such as sockets."), "SUnreclaim"),
    (mib("sockets", "Buffers of TCP and UDP."), ""),
    (mib("kstack", "Kernel stacks of threads."), "KernelStack"),
    (mib("ptables", "Page tables."), "PageTables"),
    (mib("unevict", "Cannot be reclaimed: locked by programs (wired), and ramfs."), "Unevictable"),
    (mib("dirty", "Waiting to be written to a disk."), "Dirty"),
    (mib("wback", "Being written to a disk."), "Writeback"),
    (mib("commit", "Promised to programs."), "Committed_AS"),
    (mib("swp_tot", "Room for swapping."), "SwapTotal"),
    (mib("swp_free", "Of it, what is free."), "SwapFree"),
];

const HUGE: &Keyed = &[
    (mib("anon", "Memory of programs in transparent huge pages."), "AnonHugePages"),
    (mib("shmem", "Shared memory in transparent huge pages."), "ShmemHugePages"),
    (Field::gauge("total", "pages", 7, "Huge pages reserved in the pool."), "HugePages_Total"),
    (Field::gauge("free", "pages", 7, "Of these, unused ones."), "HugePages_Free"),
    (Field::gauge("rsvd", "pages", 7, "Of these, unused but promised ones."), "HugePages_Rsvd"),
];

#[derive(Debug)]
pub(super) struct Memory {
    meminfo: Pseudo,
    sockstat: Pseudo,
    memory: Lines,
    huge: Lines,
    sockets: usize,
}

impl Memory {
    pub(super) fn new(roots: &Roots) -> Memory {
        let recorded = MEMORY.iter().filter(|(field, _)| field.is_recorded());
        let sockets = recorded.clone().position(|(field, _)| field.name == "sockets").expect("declared above");
        Memory {
            meminfo: Pseudo::new(roots.proc.join("meminfo")),
            sockstat: Pseudo::new(roots.net("sockstat")),
            memory: Lines::new(text::keys(MEMORY)),
            huge: Lines::new(text::keys(HUGE)),
            sockets,
        }
    }
}

impl Source for Memory {
    fn modules(&self) -> Vec<Module> {
        vec![
            Module::single("memory", "The host's memory.", text::fields(MEMORY)),
            Module::single("huge", "Huge pages.", text::fields(HUGE)),
        ]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        let [memory, huge] = tables else { unreachable!("two modules") };
        if let Some(text) = self.meminfo.read() {
            self.memory.read(text, memory.only());
            self.huge.read(text, huge.only());
        }
        let Some(text) = self.sockstat.read() else { return };
        let sum = &mut memory.only()[self.sockets];
        for line in lines(text).filter(|line| line.starts_with(b"TCP:") || line.starts_with(b"UDP:")) {
            let mut words = words(line).skip_while(|word| *word != b"mem").skip(1);
            if let Some(pages) = words.next() {
                add(sum, number(pages) * (page_size() as u64 / 1024));
            }
        }
    }
}
