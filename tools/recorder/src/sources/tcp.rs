//! TCP over both versions of IP: `net/snmp`, `net/netstat`, `net/sockstat`.

use rustix::param::page_size;

use super::Roots;
use super::text::{self, Keyed, Pairs, Pseudo, lines, number, words};
use crate::schema::{Field, Module};
use crate::table::{Source, Table};

const TABLE: &Keyed = &[
    (Field::gauge("estab", "", 8, "Connections established."), "Tcp:CurrEstab"),
    (Field::count("active", "", 6, "Connections opened by this host."), "Tcp:ActiveOpens"),
    (Field::count("passive", "", 7, "Connections opened by others."), "Tcp:PassiveOpens"),
    (Field::count("fails", "", 6, "Failed attempts to connect, by either side."), "Tcp:AttemptFails"),
    (Field::count("resets", "", 6, "Connections that ended by a reset."), "Tcp:EstabResets"),
    (Field::count("in", "seg", 7, "Segments received."), "Tcp:InSegs"),
    (Field::count("out", "seg", 7, "Segments sent, without retransmissions."), "Tcp:OutSegs"),
    (Field::count("retr", "seg", 6, "Segments retransmitted."), "Tcp:RetransSegs"),
    (Field::quotient("retr_pct", "%", ("retr", "out", 100), "Share of sent segments that were retransmitted."), ""),
    (Field::count("in_errs", "seg", 7, "Segments received with errors."), "Tcp:InErrs"),
    (Field::count("out_rsts", "seg", 7, "Resets sent."), "Tcp:OutRsts"),
    (
        Field::count("lsn_over", "", 6, "Connections dropped because a listener's queue was full."),
        "TcpExt:ListenOverflows",
    ),
    (Field::count("lsn_drop", "", 6, "Connections dropped by listeners for any reason."), "TcpExt:ListenDrops"),
    (
        Field::count("syncook", "", 6, "SYN cookies sent because the queue of half-open connections was full."),
        "TcpExt:SyncookiesSent",
    ),
    (Field::count("timeouts", "", 6, "Time-outs that caused a retransmission."), "TcpExt:TCPTimeouts"),
    (Field::count("backlog", "", 6, "Segments dropped because a socket's backlog was full."), "TcpExt:TCPBacklogDrop"),
    (Field::count("pruned", "", 6, "Times that received data was dropped for lack of buffer."), "TcpExt:RcvPruned"),
    (Field::count("ab_mem", "", 6, "Connections ended for lack of memory."), "TcpExt:TCPAbortOnMemory"),
    (Field::count("pressure", "", 6, "Times that TCP's memory came under pressure."), "TcpExt:TCPMemoryPressures"),
    (Field::gauge("orphan", "", 6, "Connections that no process owns any longer."), "sockstat:orphan"),
    (Field::gauge("tw", "", 6, "Connections in TIME-WAIT."), "sockstat:tw"),
    (Field::gauge("alloc", "", 8, "TCP sockets allocated, in any state."), "sockstat:alloc"),
    (Field::gauge("mem", "KiB", 8, "Memory of TCP's buffers."), "sockstat:mem"),
];

#[derive(Debug)]
pub(super) struct Tcp {
    snmp: Pseudo,
    netstat: Pseudo,
    sockstat: Pseudo,
    tcp: Pairs,
    extended: Pairs,
    sockets: Vec<&'static str>,
}

/// Keys of one file; those of other files are empty.
fn of(prefix: &str) -> Vec<&'static str> {
    text::keys(TABLE).into_iter().map(|key| key.strip_prefix(prefix).unwrap_or("")).collect()
}

impl Tcp {
    pub(super) fn new(roots: &Roots) -> Tcp {
        Tcp {
            snmp: Pseudo::new(roots.net("snmp")),
            netstat: Pseudo::new(roots.net("netstat")),
            sockstat: Pseudo::new(roots.net("sockstat")),
            tcp: Pairs::new("Tcp:", of("Tcp:")),
            extended: Pairs::new("TcpExt:", of("TcpExt:")),
            sockets: of("sockstat:"),
        }
    }
}

impl Source for Tcp {
    fn modules(&self) -> Vec<Module> {
        vec![Module::single("tcp", "TCP over IPv4 and IPv6, of the process's network namespace.", text::fields(TABLE))]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        let row = tables[0].only();
        if let Some(text) = self.snmp.read() {
            self.tcp.read(text, row);
        }
        if let Some(text) = self.netstat.read() {
            self.extended.read(text, row);
        }
        let Some(text) = self.sockstat.read() else { return };
        let Some(line) = lines(text).find_map(|line| line.strip_prefix(b"TCP:")) else { return };
        let mut words = words(line);
        while let (Some(key), Some(value)) = (words.next(), words.next()) {
            let Some(slot) = self.sockets.iter().position(|wanted| wanted.as_bytes() == key) else { continue };
            let times = if key == b"mem" { page_size() as u64 / 1024 } else { 1 };
            row[slot] = number(value) * times;
        }
    }
}
