//! The firewall's connection tracking, if it is loaded.

use crate::finding::{Finding, State, grouped, sized};
use crate::host::Host;
use crate::need;
use crate::plan::Plan;

/// Checks the table and its hash.
pub(super) fn check(host: &Host, plan: &Plan) -> Vec<Finding> {
    let Some(most) = host.number("/proc/sys/net/netfilter/nf_conntrack_max") else {
        return vec![Finding::new("connection tracking", State::Good, "not loaded", "not needed")];
    };
    // A connection within the host has one entry for both ends.
    let tracked = plan.connections * if plan.front { 2 } else { 1 };
    let (needed, buckets) = (need::tracked(tracked), need::tracking_buckets(tracked));
    let bytes = needed * need::TRACKED_BYTES;
    let table = super::at_least(host, "connection tracking", "net.netfilter.nf_conntrack_max", needed).because(
        "The firewall tracks each connection; when its table is full, new ones are dropped \
         silently. Rules with `notrack` for the server's ports avoid the table.",
    );
    let table = Finding { needed: format!("{} ({} of kernel memory)", table.needed, sized(bytes)), ..table };
    let is = host.number("/proc/sys/net/netfilter/nf_conntrack_buckets").unwrap_or(0);
    let state = if is >= buckets || is * 4 >= needed { State::Good } else { State::Short };
    let path = "/sys/module/nf_conntrack/parameters/hashsize";
    let needed = format!("{} ({})", grouped(buckets), sized(buckets * need::BUCKET_BYTES));
    let told = format!("{} for {} entries", grouped(is), grouped(most));
    let hash = Finding::new("its hash", state, told, needed)
        .because("Each packet's look-up walks a chain whose length is the ratio of entries to buckets.")
        .mend(
            format!("echo {buckets} > {path}"),
            format!("options nf_conntrack hashsize={buckets}   in /etc/modprobe.d/throng.conf"),
        )
        .change(path, &is.to_string(), &buckets.to_string());
    vec![table, hash]
}
