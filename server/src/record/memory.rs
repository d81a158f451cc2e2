//! The server's memory by owner, as the owners report it; and the total of the process, which
//! reveals unreported memory.

use std::sync::{Arc, OnceLock};

use throng_engine::counters::{Counter, Counters};
use throng_recorder::recorder::Handle;
use throng_recorder::schema::{Field, Module};
use throng_recorder::table::{Source, Table};

/// A part, and the gauge in which a shard reports it.
type Part = (&'static str, fn(&Counters) -> &Counter);

/// Parts that shards report.
const SHARDS: [Part; 6] = [
    ("connections", |c| &c.mem_connections_bytes),
    ("sessions", |c| &c.mem_sessions_bytes),
    ("users", |c| &c.mem_users_bytes),
    ("outbound", |c| &c.mem_outbound_bytes),
    ("letters", |c| &c.mem_letters_bytes),
    ("network", |c| &c.mem_network_bytes),
];

/// Resident memory of the process, as the kernel counts it (`VmRSS`): the sum of all parts.
pub const RESIDENT: &str = "resident";

/// Resident pages of files, most of them the program's own, which the kernel can read again.
pub const FILES: &str = "files";

/// Address space that the allocator may use without asking the kernel again. A page becomes
/// resident when it is first written, so this is not a part of resident memory and may be larger.
pub const RESERVED: &str = "reserved";

/// Resident memory that no part has reported: data attached to tables, stacks of threads, and free
/// memory in the allocator.
pub const REST: &str = "rest";

/// Most parts.
const PARTS_MAX: u16 = 32;

/// Reports additional parts: calls back with the name and the bytes of each, and of [`RESIDENT`]
/// and [`RESERVED`], which are not parts.
pub type Parts = Arc<dyn Fn(&mut dyn FnMut(&'static str, u64)) + Send + Sync>;

/// All parts and the remainder, bytes.
pub fn by_part(counters: &[Arc<Counters>], parts: &Parts, tell: &mut dyn FnMut(&'static str, u64)) {
    let (mut known, mut all) = (0, None);
    let mut add = |part, bytes| {
        match part {
            RESIDENT => all = Some(bytes),
            RESERVED => {}
            _ => known += bytes,
        }
        tell(part, bytes);
    };
    for (part, of) in SHARDS {
        add(part, counters.iter().map(|counters| of(counters).get()).sum());
    }
    parts(&mut add);
    if let Some(all) = all {
        tell(REST, all.saturating_sub(known));
    }
}

/// Resident bytes of the process, and how many of them are pages of files; `None` if the kernel
/// does not report them (proc(5), `statm`).
pub fn resident() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split_ascii_whitespace().skip(1).map(|word| word.parse::<u64>().ok());
    let (all, files) = (pages.next()??, pages.next()??);
    let page = rustix::param::page_size() as u64;
    Some((all * page, files * page))
}

/// Records the memory by part.
pub(super) struct Memory {
    counters: Vec<Arc<Counters>>,
    parts: Parts,
}

impl Memory {
    /// For these shards, and the parts that `parts` reports; the recorder adds its own.
    pub(super) fn new(counters: Vec<Arc<Counters>>, parts: Parts, own: Arc<OnceLock<Handle>>) -> Memory {
        let parts: Parts = Arc::new(move |tell: &mut dyn FnMut(&'static str, u64)| {
            tell("recorder", own.get().map_or(0, |own| own.memory_bytes() as u64));
            parts(tell);
        });
        Memory { counters, parts }
    }
}

impl Source for Memory {
    fn modules(&self) -> Vec<Module> {
        let help = "Held by this part, as its owner reports; `resident` is all that is in memory, `files` pages of files, \
                    `rest` what no part has reported; `reserved` is what the allocator may write to, resident or not.";
        let fields = vec![Field::gauge("held", "MiB", 9, help).per(1 << 20)];
        vec![Module::single("heap", "Memory of the server, by holder.", fields).by("part", PARTS_MAX)]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        by_part(&self.counters, &self.parts, &mut |part, bytes| {
            if let Some(row) = tables[0].row(part.as_bytes()) {
                row[0] = bytes;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_tells_of_is_the_rest() {
        let counters = [(); 2].map(|()| Arc::new(Counters::default()));
        counters.iter().for_each(|counters| counters.mem_users_bytes.set(100));
        let parts: Parts = Arc::new(|tell: &mut dyn FnMut(&'static str, u64)| {
            tell("memtables", 50);
            tell(RESERVED, 5_000);
            tell(FILES, 300);
            tell(RESIDENT, 1_300);
        });
        let mut told = Vec::new();
        by_part(&counters, &parts, &mut |part, bytes| told.push((part, bytes)));
        assert_eq!(told.len(), SHARDS.len() + 5);
        assert_eq!((told[2], told[9], told[10]), (("users", 200), (RESIDENT, 1_300), (REST, 750)));
        let parts = told.iter().filter(|(part, _)| ![RESIDENT, RESERVED].contains(part));
        assert_eq!(parts.map(|(_, bytes)| bytes).sum::<u64>(), 1_300, "the parts are all that is resident");
        assert!(resident().is_some_and(|(all, files)| files > 0 && all > files + 100_000), "{:?}", resident());
    }
}
