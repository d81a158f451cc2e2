//! CPU, in total and by core, and activity of the kernel: `/proc/stat`, `/proc/loadavg`.

use super::Roots;
use super::text::{self, Keyed, Lines, Pseudo, lines, number, words};
use crate::schema::{Field, Module};
use crate::table::{Source, Table};

/// In the kernel's order; guest time is included in `user` and `nice`.
const TIMES: [(&str, &str); 8] = [
    ("user", "User mode, including guests of virtual machines."),
    ("nice", "User mode with low priority."),
    ("sys", "Kernel mode, for programs."),
    ("idle", "Nothing to do."),
    ("iowait", "Idle while a disk request is in progress."),
    ("irq", "Hard interrupts."),
    ("softirq", "Soft interrupts: network, timers."),
    ("steal", "Ready to run while another virtual machine had the core."),
];

const SYSTEM: &Keyed = &[
    (Field::count("cswch", "", 7, "Context switches."), "ctxt"),
    (Field::count("intr", "", 7, "Hard interrupts."), "intr"),
    (Field::count("softirq", "", 7, "Soft interrupts."), "softirq"),
    (Field::count("forks", "", 6, "Processes and threads started."), "processes"),
    (Field::gauge("running", "", 7, "Threads that run or are ready to, the counting one included."), "procs_running"),
    (Field::gauge("blocked", "", 7, "Threads that wait for a disk."), "procs_blocked"),
    (Field::gauge("load1", "", 6, "Threads that run, are ready to or wait for a disk, mean of a minute.").per(100), ""),
    (Field::gauge("threads", "", 7, "Number of threads."), ""),
];

/// Most cores of a host.
const CORES_MAX: u16 = 1024;

#[derive(Debug)]
pub(super) struct Stat {
    stat: Pseudo,
    load: Pseudo,
    lines: Lines,
}

impl Stat {
    pub(super) fn new(roots: &Roots) -> Stat {
        Stat {
            stat: Pseudo::new(roots.proc.join("stat")),
            load: Pseudo::new(roots.proc.join("loadavg")),
            lines: Lines::new(text::keys(SYSTEM)),
        }
    }
}

impl Source for Stat {
    fn modules(&self) -> Vec<Module> {
        let times = || TIMES.iter().map(|(name, help)| Field::share(name, help)).collect();
        vec![
            Module::single("cpu", "Time of all cores together.", times()),
            Module::single("core", "Time of each core.", times()).by("core", CORES_MAX).adds_up(),
            Module::single("system", "Activity of the kernel. It does not count system calls.", text::fields(SYSTEM)),
        ]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        let [cpu, core, system] = tables else { unreachable!("three modules") };
        if let Some(text) = self.stat.read() {
            for line in lines(text).map_while(|line| line.strip_prefix(b"cpu")) {
                let mut words = words(line);
                let row = if line.starts_with(b" ") {
                    Some(cpu.only())
                } else {
                    words.next().and_then(|name| core.row(name))
                };
                for (slot, word) in row.into_iter().flatten().zip(words) {
                    *slot = number(word);
                }
            }
            self.lines.read(text, system.only());
        }
        let Some(text) = self.load.read() else { return };
        let mut words = words(text);
        let Some(load) = words.next() else { return };
        let row = system.only();
        // "0.42" in hundredths.
        let mut parts = load.split(|byte| *byte == b'.').map(number);
        row[6] = parts.next().unwrap_or(0) * 100 + parts.next().unwrap_or(0);
        if let Some(of) = words.nth(2).and_then(|word| word.split(|byte| *byte == b'/').nth(1)) {
            row[7] = number(of);
        }
    }
}
