//! Packets and bytes of both versions of IP: `net/snmp`, `net/netstat`, `net/snmp6`.

use super::Roots;
use super::text::{self, Keyed, Lines, Pairs, Pseudo, add};
use crate::schema::{Field, Module};
use crate::table::{ABSENT, Source, Table};

const TABLE: &Keyed = &[
    (Field::count("in", "pkt", 7, "Packets received."), "Ip:InReceives"),
    (Field::count("out", "pkt", 7, "Packets sent."), "Ip:OutRequests"),
    (Field::count("in_kib", "KiB", 8, "Bytes received, including IP headers.").per(1024), "IpExt:InOctets"),
    (Field::count("out_kib", "KiB", 8, "Bytes sent, including IP headers.").per(1024), "IpExt:OutOctets"),
    (Field::count("fwd", "pkt", 7, "Packets forwarded."), "Ip:ForwDatagrams"),
    (Field::count("in_disc", "pkt", 7, "Packets received and dropped for lack of room."), "Ip:InDiscards"),
    (Field::count("out_disc", "pkt", 7, "Packets dropped instead of sent for lack of room."), "Ip:OutDiscards"),
];

/// The keys of IPv6, in the order of the table.
const SIX: [&str; TABLE.len()] = [
    "Ip6InReceives",
    "Ip6OutRequests",
    "Ip6InOctets",
    "Ip6OutOctets",
    "Ip6OutForwDatagrams",
    "Ip6InDiscards",
    "Ip6OutDiscards",
];

#[derive(Debug)]
pub(super) struct Ip {
    snmp: Pseudo,
    netstat: Pseudo,
    snmp6: Pseudo,
    four: Pairs,
    octets: Pairs,
    six: Lines,
}

impl Ip {
    pub(super) fn new(roots: &Roots) -> Ip {
        let of = |prefix| text::keys(TABLE).into_iter().map(|key| key.strip_prefix(prefix).unwrap_or("")).collect();
        Ip {
            snmp: Pseudo::new(roots.net("snmp")),
            netstat: Pseudo::new(roots.net("netstat")),
            snmp6: Pseudo::new(roots.net("snmp6")),
            four: Pairs::new("Ip:", of("Ip:")),
            octets: Pairs::new("IpExt:", of("IpExt:")),
            six: Lines::new(SIX.to_vec()),
        }
    }
}

impl Source for Ip {
    fn modules(&self) -> Vec<Module> {
        vec![Module::single(
            "ip",
            "IPv4 and IPv6. The kernel counts bytes here, and none for TCP alone.",
            text::fields(TABLE),
        )]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        let row = tables[0].only();
        if let Some(text) = self.snmp.read() {
            self.four.read(text, row);
        }
        if let Some(text) = self.netstat.read() {
            self.octets.read(text, row);
        }
        if let Some(text) = self.snmp6.read() {
            let mut six = [ABSENT; TABLE.len()];
            self.six.read(text, &mut six);
            row.iter_mut().zip(six).for_each(|(sum, more)| add(sum, more));
        }
    }
}
