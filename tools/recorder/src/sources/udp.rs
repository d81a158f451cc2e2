//! UDP over both versions of IP: `net/snmp`, `net/snmp6`.

use super::Roots;
use super::text::{self, Keyed, Lines, Pairs, Pseudo, add};
use crate::schema::{Field, Module};
use crate::table::{ABSENT, Source, Table};

const TABLE: &Keyed = &[
    (Field::count("in", "dgm", 7, "Datagrams received."), "InDatagrams"),
    (Field::count("out", "dgm", 7, "Datagrams sent."), "OutDatagrams"),
    (Field::count("no_port", "dgm", 7, "Datagrams to a port without a listener."), "NoPorts"),
    (Field::count("in_errs", "dgm", 7, "Datagrams that could not be delivered for another reason."), "InErrors"),
    (Field::count("rcv_full", "dgm", 7, "Of these, those dropped because a socket's buffer was full."), "RcvbufErrors"),
    (Field::count("snd_full", "dgm", 7, "Datagrams not sent because a buffer was full."), "SndbufErrors"),
];

/// The keys of IPv6, in the order of the table.
const SIX: [&str; TABLE.len()] =
    ["Udp6InDatagrams", "Udp6OutDatagrams", "Udp6NoPorts", "Udp6InErrors", "Udp6RcvbufErrors", "Udp6SndbufErrors"];

#[derive(Debug)]
pub(super) struct Udp {
    snmp: Pseudo,
    snmp6: Pseudo,
    four: Pairs,
    six: Lines,
}

impl Udp {
    pub(super) fn new(roots: &Roots) -> Udp {
        Udp {
            snmp: Pseudo::new(roots.net("snmp")),
            snmp6: Pseudo::new(roots.net("snmp6")),
            four: Pairs::new("Udp:", text::keys(TABLE)),
            six: Lines::new(SIX.to_vec()),
        }
    }
}

impl Source for Udp {
    fn modules(&self) -> Vec<Module> {
        vec![Module::single("udp", "UDP over IPv4 and IPv6.", text::fields(TABLE))]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        let row = tables[0].only();
        if let Some(text) = self.snmp.read() {
            self.four.read(text, row);
        }
        if let Some(text) = self.snmp6.read() {
            let mut six = [ABSENT; TABLE.len()];
            self.six.read(text, &mut six);
            row.iter_mut().zip(six).for_each(|(sum, more)| add(sum, more));
        }
    }
}
