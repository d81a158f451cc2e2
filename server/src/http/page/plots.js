// The plots. `pick` is as in `throng sar`; the rows of a module are summed, or one line each with `by`, labelled with the prefix `row`.
// Only rows whose names begin with `rows` count; `mean` takes their mean, and `rest` labels what remains of 100. Of more than `most`
// lines, the heaviest are drawn.
"use strict";

const PLOTS = [
  { title: "Connections", unit: "", pick: "shard.connections,sessions,sessions_detached", lines: { connections: "connections", sessions: "sessions", sessions_detached: "to be resumed" } },
  { title: "Connections by state", unit: "", pick: "shard.conns_opening,conns_securing,conns_authenticating,conns_authenticated,conns_bound,conns_departing,conns_closing", lines: { conns_opening: "being opened", conns_securing: "TLS handshake", conns_authenticating: "logging in", conns_authenticated: "logged in, no session", conns_bound: "with a session", conns_departing: "moving", conns_closing: "closing" } },
  { title: "Logins", unit: "per second", pick: "shard.accepted,logins,logins_failed,resumed", lines: { accepted: "accepted", logins: "logins", logins_failed: "failed", resumed: "resumed" } },
  { title: "Streams closed by reason", unit: "per second", pick: "shard.closed_by_client,closed_lost,closed_tls,closed_protocol,closed_refused,closed_unread,closed_timeout,closed_replaced,closed_operator,closed_shutdown,closed_server", most: 8, lines: { closed_by_client: "by the client", closed_lost: "client lost", closed_tls: "TLS failed", closed_protocol: "protocol error", closed_refused: "refused", closed_unread: "client did not read", closed_timeout: "timed out", closed_replaced: "replaced", closed_operator: "by the operator", closed_shutdown: "shutdown", closed_server: "no room" } },
  { title: "Stanzas", unit: "per second", pick: "shard.stanzas_in,stanzas_out,messages_live,messages_stored", lines: { stanzas_in: "in", stanzas_out: "out", messages_live: "messages live", messages_stored: "stored" } },
  { title: "Stanzas by kind", unit: "per second", pick: "shard.messages_in,presences_in,iqs_in,messages_out,presences_out,iqs_out", lines: { messages_in: "messages in", presences_in: "presence in", iqs_in: "IQ in", messages_out: "messages out", presences_out: "presence out", iqs_out: "IQ out" } },
  { title: "Rooms", unit: "", pick: "shard.rooms,room_occupants", lines: { rooms: "in memory", room_occupants: "sessions in them" } },
  { title: "Rooms: fan-out", unit: "per second", pick: "shard.room_messages,room_casts,room_copies", lines: { room_messages: "messages", room_casts: "stanzas sent to occupants", room_copies: "copies of these" } },
  { title: "Rooms: longest queue", unit: "stanzas", pick: "shard.room_waiting", by: "shard", row: "shard ", most: 8 },
  { title: "Channels: waiting subscribers", unit: "", pick: "shard.notify_polls,notify_events,notify_sockets,notify_channels", lines: { notify_polls: "long polls", notify_events: "event streams", notify_sockets: "WebSockets", notify_channels: "channels" } },
  { title: "Channels: items", unit: "per second", pick: "shard.notify_published,notify_told,notify_gaps,notify_behind", lines: { notify_published: "published", notify_told: "delivered", notify_gaps: "gaps", notify_behind: "slow subscribers" } },
  { title: "Channels: refused and ended", unit: "per second", pick: "shard.notify_publish_refused,notify_subscribe_refused,notify_ended,notify_tokens_refused", lines: { notify_publish_refused: "publications", notify_subscribe_refused: "subscriptions", notify_ended: "streams ended", notify_tokens_refused: "tokens" } },
  { title: "Browsers", unit: "", pick: "shard.websockets,bosh_sessions,bosh_waiting", lines: { websockets: "WebSockets", bosh_sessions: "BOSH sessions", bosh_waiting: "waiting BOSH requests" } },
  { title: "HTTP requests", unit: "per second", pick: "shard.http_requests,http_refused,bosh_requests,bosh_failed", lines: { http_requests: "answered", http_refused: "refused", bosh_requests: "BOSH", bosh_failed: "BOSH, failed" } },
  { title: "Bytes", unit: "KiB per second", pick: "shard.bytes_in,bytes_out", lines: { bytes_in: "in", bytes_out: "out" } },
  { title: "CPU of the host", unit: "%", pick: "cpu.user,nice,sys,softirq,iowait,steal,idle", lines: { user: "user", nice: "low priority", sys: "system", softirq: "soft interrupts", iowait: "waiting for disks", steal: "other machines", idle: "idle" } },
  { title: "Shard time split", unit: "% of the time of all shards", pick: "thread.usr,sys,wait", rows: "shard-", mean: true, rest: "asleep", lines: { usr: "in the program", sys: "in system calls", wait: "waiting for a core" } },
  { title: "Sleep of each shard", unit: "% of the time", pick: "shard.sleep", by: "shard", row: "shard ", most: 8 },
  { title: "CPU by thread", unit: "% of a core", pick: "thread.cpu", by: "thread", most: 8 },
  { title: "Turns of each shard", unit: "per second", pick: "shard.turns", by: "shard", row: "shard ", most: 16 },
  { title: "Queues", unit: "entries", pick: "shard.gate_waiting,letters_kept,reads_pending,jobs_pending,parked", lines: { gate_waiting: "waiting for the disk", letters_kept: "letters", reads_pending: "reads", jobs_pending: "jobs", parked: "parked stanzas" } },
  { title: "Queues: age of the oldest", unit: "ms", pick: "queue.oldest", by: "kind", most: 8 },
  { title: "Output that waits", unit: "KiB", pick: "shard.outbound_bytes,gate_bytes", lines: { outbound_bytes: "outbound", gate_bytes: "waiting for the disk" } },
  { title: "Commit latency", unit: "ms", pick: "store.commit_mean,commit_p99,commit_max", lines: { commit_mean: "mean", commit_p99: "99th percentile", commit_max: "maximum" } },
  { title: "Commits", unit: "per second", pick: "store.commits,batches,rows", lines: { commits: "commits (one sync each)", batches: "batches of shards", rows: "rows" } },
  { title: "Read latency, 99th percentile", unit: "ms", pick: "reads.read_p99", by: "thread", row: "reader ", most: 8 },
  { title: "Disk: time per flush", unit: "ms", pick: "disk.fl_wait", by: "disk", most: 8 },
  { title: "Disk: busy", unit: "%", pick: "disk.busy", by: "disk", most: 8 },
  { title: "Memory of the server", unit: "MiB", pick: "process.rss,anon", lines: { rss: "resident", anon: "anonymous" } },
  { title: "Memory of the server by part", unit: "MiB", pick: "heap.held", by: "part", most: 8 },
  { title: "Memory of the host", unit: "MiB", pick: "memory.avail,cached,slab,sockets", lines: { avail: "available", cached: "page cache", slab: "kernel objects", sockets: "socket buffers" } },
  { title: "TCP", unit: "segments per second", pick: "tcp.in,out,retr", lines: { in: "in", out: "out", retr: "retransmitted" } },
  { title: "TCP connections", unit: "", pick: "tcp.estab,tw,orphan", lines: { estab: "established", tw: "time-wait", orphan: "orphaned" } },
  { title: "Dropped at listeners", unit: "per second", pick: "tcp.lsn_over,lsn_drop", lines: { lsn_over: "queue full", lsn_drop: "for any reason" } },
  { title: "Threads waiting", unit: "% of the time", pick: "pressure.cpu,io,memory", lines: { cpu: "for a core", io: "for a disk", memory: "for memory" } },
];

// Distinct by colour, and in this order by lightness as well.
const COLOURS = { light: ["#1d4ed8", "#b42318", "#18733a", "#8a5a00", "#6d28d9", "#0e7490", "#9d174d", "#4b5563"], dark: ["#7aa2ff", "#ff8b80", "#6fd08c", "#f2bb55", "#b79cff", "#5ccfe6", "#ff9ecb", "#b4bcc9"] };

/** Columns of an answer as lines of a plot: `{ label, values }`. */
function linesOf(plot, columns) {
  const module = moduleOf(plot);
  const own = columns.filter((column) => column.module === module && fieldsOf(plot).includes(column.field) && column.row.startsWith(plot.rows ?? ""));
  if (plot.by) {
    const each = own.filter((column) => column.row !== "all");
    const apart = each.map((column) => ({ label: column.row === "" ? module : (plot.row ?? "") + column.row, values: column.values }));
    return heaviest(apart, plot.most).sort((a, b) => a.label.localeCompare(b.label, undefined, { numeric: true }));
  }
  const lines = fieldsOf(plot).map((field) => {
    const rows = own.filter((column) => column.field === field && column.row !== "all").map((column) => column.values);
    const parts = plot.mean ? rows.length : 1;
    const sum = (at) => rows.reduce((sum, row) => (row[at] === null ? sum : (sum ?? 0) + row[at] / parts), null);
    // Old seconds may be thinned: each then has the sum as a row of its own, and every tenth has the others.
    const all = plot.rows ? undefined : own.find((column) => column.field === field && column.row === "all")?.values;
    const values = (rows[0] ?? all ?? []).map((_, at) => all?.[at] ?? sum(at));
    return { label: plot.lines[field], values };
  }).filter((line) => line.values.length > 0);
  if (plot.rest && lines.length > 0) {
    const left = (at) => lines.reduce((rest, line) => (rest === null || line.values[at] === null ? null : rest - line.values[at]), 100);
    lines.push({ label: plot.rest, values: lines[0].values.map((_, at) => (left(at) === null ? null : Math.max(left(at), 0))) });
  }
  return heaviest(lines, plot.most);
}

/** The heaviest lines, at most `most`, in their order. */
function heaviest(lines, most = lines.length) {
  const weight = (line) => line.values.reduce((sum, value) => sum + (value || 0), 0);
  const chosen = [...lines].sort((a, b) => weight(b) - weight(a)).slice(0, most);
  return lines.filter((line) => chosen.includes(line));
}

/** Name of a plot's module. */
function moduleOf(plot) {
  return plot.pick.split(".")[0];
}

/** Names of a plot's fields. */
function fieldsOf(plot) {
  return plot.pick.slice(plot.pick.indexOf(".") + 1).split(",");
}

/** A number with three significant digits. */
function told(value) {
  if (value === null || value === undefined) return "-";
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}
