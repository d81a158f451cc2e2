//! The firewall's connection table, if its module is loaded: `sys/net/netfilter`,
//! `net/stat/nf_conntrack`.

use super::Roots;
use super::text::{self, Keyed, Pseudo, add, first, hex, lines, words};
use crate::schema::{Field, Module};
use crate::table::{Source, Table};

const TABLE: &Keyed = &[
    (Field::gauge("count", "", 8, "Entries in the table."), ""),
    (Field::gauge("max", "", 8, "Limit of entries; above it, packets are dropped."), ""),
    (Field::quotient("use_pct", "%", ("count", "max", 100), "Share of the limit in use."), ""),
    (Field::count("invalid", "", 7, "Packets that belong to no connection."), "invalid"),
    (Field::count("ins_fail", "", 7, "Entries that could not be inserted."), "insert_failed"),
    (Field::count("drop", "", 7, "Packets dropped because no entry was available."), "drop"),
    (Field::count("early", "", 7, "Entries removed to make room."), "early_drop"),
];

#[derive(Debug)]
pub(super) struct Conntrack {
    count: Pseudo,
    max: Pseudo,
    stat: Pseudo,
    keys: Vec<&'static str>,
}

impl Conntrack {
    pub(super) fn new(roots: &Roots) -> Conntrack {
        let limit = |name| Pseudo::new(roots.proc.join("sys/net/netfilter").join(name));
        Conntrack {
            count: limit("nf_conntrack_count"),
            max: limit("nf_conntrack_max"),
            stat: Pseudo::new(roots.net("stat/nf_conntrack")),
            keys: text::keys(TABLE),
        }
    }
}

impl Source for Conntrack {
    fn modules(&self) -> Vec<Module> {
        vec![Module::single(
            "conntrack",
            "The firewall's connection tracking, where it is loaded.",
            text::fields(TABLE),
        )]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        let row = tables[0].only();
        for (slot, file) in [(0, &mut self.count), (1, &mut self.max)] {
            if let Some(text) = file.read() {
                row[slot] = first(text);
            }
        }
        // One line per core under the names of the columns.
        let Some(text) = self.stat.read() else { return };
        let mut lines = lines(text).filter(|line| !line.is_empty());
        let Some(names) = lines.next() else { return };
        for line in lines {
            for (name, value) in words(names).zip(words(line)) {
                let slot = self.keys.iter().position(|key| !key.is_empty() && key.as_bytes() == name);
                if let Some(slot) = slot {
                    add(&mut row[slot], hex(value));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_all_cores_are_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let (limits, stat) = (folder.path().join("sys/net/netfilter"), folder.path().join("1/net/stat"));
        std::fs::create_dir_all(&limits).expect("a folder");
        std::fs::create_dir_all(&stat).expect("a folder");
        std::fs::write(limits.join("nf_conntrack_count"), "12\n").expect("written");
        std::fs::write(limits.join("nf_conntrack_max"), "262144\n").expect("written");
        let text = "entries  invalid insert insert_failed drop early_drop\n0c 0a 0 1 2 0\n0c 0b 0 1 0f 0\n";
        std::fs::write(stat.join("nf_conntrack"), text).expect("written");
        let mut source = Conntrack::new(&Roots { proc: folder.path().into(), sys: "/".into(), pid: 1 });
        let mut tables = [Table::new(&source.modules()[0])];
        tables[0].begin(true);
        source.sample(&mut tables);
        assert_eq!(tables[0].values(), [12, 262_144, 21, 2, 17, 0]);
    }
}
