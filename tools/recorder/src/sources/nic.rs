//! Network interfaces: `net/dev`.

use super::Roots;
use super::text::{Pseudo, lines, number, words};
use crate::schema::{Field, Module};
use crate::table::{Source, Table};

/// Fields, and their columns after the name.
const TABLE: &[(Field, usize)] = &[
    (Field::count("rx_pkt", "pkt", 7, "Packets received."), 1),
    (Field::count("tx_pkt", "pkt", 7, "Packets sent."), 9),
    (Field::count("rx_kib", "KiB", 8, "Bytes received.").per(1024), 0),
    (Field::count("tx_kib", "KiB", 8, "Bytes sent.").per(1024), 8),
    (Field::count("rx_err", "pkt", 6, "Packets received with errors."), 2),
    (Field::count("tx_err", "pkt", 6, "Packets that could not be sent."), 10),
    (Field::count("rx_drop", "pkt", 7, "Packets received and dropped."), 3),
    (Field::count("tx_drop", "pkt", 7, "Packets dropped instead of sent."), 11),
    (Field::count("rx_fifo", "pkt", 7, "Packets lost because the interface's buffer was full."), 4),
    (Field::count("rx_mcast", "pkt", 7, "Multicast packets received."), 7),
];

/// Most interfaces of a host; those of containers appear and disappear.
const INTERFACES_MAX: u16 = 64;

#[derive(Debug)]
pub(super) struct Nic {
    file: Pseudo,
}

impl Nic {
    pub(super) fn new(roots: &Roots) -> Nic {
        Nic { file: Pseudo::new(roots.net("dev")) }
    }
}

impl Source for Nic {
    fn modules(&self) -> Vec<Module> {
        let fields = TABLE.iter().map(|(field, _)| field.clone()).collect();
        vec![Module::single("nic", "Each network interface.", fields).by("interface", INTERFACES_MAX).adds_up()]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        let Some(text) = self.file.read() else { return };
        // Two heading lines, without a colon.
        for line in lines(text) {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let Some(row) = tables[0].row(line[..colon].trim_ascii()) else { continue };
            for (column, word) in words(&line[colon + 1..]).enumerate() {
                if let Some(slot) = TABLE.iter().position(|(_, at)| *at == column) {
                    row[slot] = number(word);
                }
            }
        }
    }
}
