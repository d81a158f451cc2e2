//! Current faults, in sentences: rules over the last seconds of the recording.
//!
//! Each rule checks one known problem. It reports the problem, its size, its duration and the
//! remedy. A rule without data reports nothing.

use throng_recorder::sar::Series;

use crate::admin::Status;
use crate::admin::wrong::{Weight, Wrong, wrong};

/// The fields that the rules use.
pub(super) const PICK: &str = "cpu.idle tcp.lsn_over,retr_pct,retr,pruned memory.avail_pct,swp_tot,swp_free disk.fl_wait,busy,\
                               wr_ms store.commit_max \
                               pressure shard.outbound_bytes,outbound_overflows,gate_waiting,letters_kept,reads_pending,reads_kept,\
                               jobs_pending,jobs_kept,parked,parked_refused,notify_gaps,notify_publish_refused files.own,own_max";

/// The time range of the rules, milliseconds.
pub(super) const LOOK_MS: u64 = 20_000;

/// Commits of at least this many milliseconds are reported: in a chat, a quarter of a second is
/// noticeable.
const COMMIT_MS_LONG: f64 = 250.0;

/// The values present in a column.
fn seen<'a>(series: &'a Series, module: &'a str, field: &'a str) -> impl Iterator<Item = (&'a str, Vec<f64>)> {
    let columns = series.columns.iter().filter(move |column| column.module == module && column.field == field);
    let numbers = columns.map(|column| (&*column.row, column.values.iter().flatten().copied().collect::<Vec<f64>>()));
    numbers.filter(|(_, numbers)| !numbers.is_empty())
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len().max(1) as f64
}

/// Growth per second, from the first and last of values one second apart.
fn growth(numbers: &[f64]) -> f64 {
    match numbers {
        [first, .., last] => (last - first) / (numbers.len() - 1) as f64,
        _ => 0.0,
    }
}

/// A queue of a shard: its field, its content, the length that counts as a backlog, and the remedy.
const QUEUES: &[(&str, &str, f64, &str)] = &[
    ("gate_waiting", "effects that wait for the disk", 2_000.0, "the store's syncs are slow (disk.fl_wait)"),
    ("letters_kept", "batches that another shard has no room for", 50.0, "that shard is busy or stands still"),
    (
        "reads_pending",
        "reads that the store has not answered",
        2_000.0,
        "logins or logs are read faster than it answers",
    ),
    ("reads_kept", "reads that wait for the readers", 200.0, "the readers do not keep up"),
    (
        "jobs_pending",
        "jobs that are not done, most of them passwords",
        500.0,
        "many log in with PLAIN for the first time at once",
    ),
    ("jobs_kept", "jobs that wait for a thread", 200.0, "all threads for jobs are busy"),
    ("parked", "stanzas for users whose data is still being read", 2_000.0, "the store answers slowly"),
];

/// A single long commit, which no mean shows, with the disk whose writes took at least half of that
/// time in the same second.
fn long_commit(series: &Series) -> Option<Wrong> {
    let columns = |module, field| series.columns.iter().filter(move |c| c.module == module && c.field == field);
    let commits = columns("store", "commit_max").flat_map(|column| column.values.iter().enumerate());
    let longest = commits.filter_map(|(second, took)| Some((second, (*took)?)));
    let (second, longest) = longest.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, took)| *took >= COMMIT_MS_LONG)?;
    let writes = columns("disk", "wr_ms").filter_map(|column| Some((&column.row, (*column.values.get(second)?)?)));
    let slowest = writes.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, took)| *took >= longest / 2.0);
    let why = match slowest {
        Some((disk, took)) => format!("in that second the writes of {disk} took {took:.0} ms, all together"),
        None => "no disk's writes took as long in that second: the cores may have been busy (cpu, pressure)".to_owned(),
    };
    let text = format!("took {longest:.0} ms for a commit, which delayed everything archived or durable: {why}");
    Some(wrong(Weight::Warn, "store", text))
}

/// All faults, the worst first. `found` are those found elsewhere (`standing`).
pub(super) fn judge(mut found: Vec<Wrong>, status: &Status, series: &Series) -> Vec<Wrong> {
    use Weight::{Bad, Warn};
    found.extend(status.wrong().into_iter().map(|found| found.wrong));
    for (field, what, many, helps) in QUEUES {
        for (row, numbers) in seen(series, "shard", field) {
            let (now, grows) = (numbers[numbers.len() - 1], growth(&numbers));
            if mean(&numbers) < *many || now < *many {
                continue;
            }
            let drains = match grows {
                g if g < -1.0 => format!("which are drained in {:.0} s at this rate", now / -g),
                g if g > 1.0 => format!("growing by {g:.0} per second, and will not drain"),
                _ => "which do not get fewer".to_owned(),
            };
            let weight = if grows > 1.0 { Bad } else { Warn };
            found.push(wrong(weight, format!("shard {row}"), format!("has {now:.0} {what}, {drains}: {helps}")));
        }
    }
    for (row, numbers) in seen(series, "shard", "outbound_bytes") {
        let mib = numbers[numbers.len() - 1] / 1_024.0;
        if mib > 4.0 {
            let text = format!(
                "keeps {mib:.0} MiB for clients that do not read: `throng ctl sessions` says for whom (UNSENT)"
            );
            found.push(wrong(Warn, format!("shard {row}"), text));
        }
    }
    found.extend(long_commit(series));
    let total = |module, field| seen(series, module, field).map(|(_, numbers)| mean(&numbers)).sum::<f64>();
    let most = |module, field| seen(series, module, field).map(|(_, numbers)| mean(&numbers)).fold(f64::NAN, f64::max);
    let least = |module, field| seen(series, module, field).map(|(_, numbers)| mean(&numbers)).fold(f64::NAN, f64::min);
    let mut rule = |holds: bool, weight, what: &str, text: String| {
        if holds {
            found.push(wrong(weight, what, text));
        }
    };
    let cut = total("shard", "outbound_overflows");
    rule(
        cut > 0.05,
        Warn,
        "clients",
        format!("are ended because they send requests without acknowledging output, {cut:.1} per second"),
    );
    let refused = total("shard", "parked_refused");
    rule(
        refused > 0.05,
        Bad,
        "store",
        format!("does not keep up: {refused:.1} stanzas per second are refused because its queue is full"),
    );
    let missed = total("shard", "notify_gaps");
    rule(
        missed > 0.5,
        Warn,
        "channels",
        format!(
            "had gaps for subscribers, {missed:.1} per second: they read too slowly or returned \
             too late; keep more items with notify_items_max and notify_items_seconds"
        ),
    );
    let refused = total("shard", "notify_publish_refused");
    rule(
        refused > 5.0,
        Warn,
        "channels",
        format!(
            "refuse {refused:.0} publications per second: see the HTTP status; 401 and 403 concern \
             tokens, 429 is the limit per address (notify_publications_per_second)"
        ),
    );
    let dropped = total("tcp", "lsn_over");
    rule(
        dropped > 0.05,
        Bad,
        "listeners",
        format!(
            "drop {dropped:.1} connections per second because their queue is full: raise \
             net.core.somaxconn and backlog (`throng doctor`)"
        ),
    );
    let again = most("tcp", "retr_pct");
    rule(
        again > 2.0 && total("tcp", "retr") > 20.0,
        Warn,
        "network",
        format!("loses packets: {again:.1} % of TCP segments were retransmitted"),
    );
    let flush = most("disk", "fl_wait");
    rule(flush > 50.0, Bad, "disk", format!("takes {flush:.0} ms for a flush: every archived message waits for one"));
    let left = least("memory", "avail_pct");
    rule(left < 10.0, Bad, "memory", format!("is almost exhausted: {left:.0} % of this host's is available"));
    let swapped = total("memory", "swp_tot") - total("memory", "swp_free");
    rule(
        swapped > 64.0,
        Warn,
        "memory",
        format!("is short: {swapped:.0} MiB are swapped out, and a shard that needs them delays all of its users"),
    );
    let idle = least("cpu", "idle");
    let busy = 100.0 - idle;
    rule(
        idle < 5.0,
        Warn,
        "CPU",
        format!("is {busy:.0} % busy, all cores taken together (`throng ctl profile cpu` shows the server's part)"),
    );
    let (own, max) = (most("files", "own"), most("files", "own_max"));
    rule(own > 0.9 * max, Bad, "descriptors", format!("are almost exhausted: {own:.0} of {max:.0} (`throng doctor`)"));
    let waited = most("pressure", "io_full");
    rule(waited > 40.0, Warn, "disk", format!("delays everything: no task could run for {waited:.0} % of the time"));
    found.sort_by_key(|wrong| wrong.weight);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use throng_recorder::sar::Column;

    /// Module, row, field, and its values.
    type Recorded<'a> = (&'a str, &'a str, &'a str, &'a [f64]);

    fn series(columns: &[Recorded<'_>]) -> Series {
        let column = |(module, row, field, values): &Recorded<'_>| Column {
            module: (*module).into(),
            row: (*row).into(),
            field: (*field).into(),
            unit: String::new(),
            values: values.iter().map(|value| Some(*value)).collect(),
        };
        Series { times_ms: (0..20).collect(), columns: columns.iter().map(column).collect(), ..Series::default() }
    }

    fn told(columns: &[Recorded<'_>]) -> Vec<String> {
        judge(Vec::new(), &Status::default(), &series(columns))
            .into_iter()
            .map(|w| format!("{} {}", w.what, w.text))
            .collect()
    }

    #[test]
    fn a_server_at_rest_has_nothing_wrong() {
        let rest = [
            ("cpu", "", "idle", &[97.0; 20][..]),
            ("memory", "", "avail_pct", &[80.0; 20]),
            ("shard", "0", "gate_waiting", &[3.0; 20]),
        ];
        assert_eq!(told(&rest), Vec::<String>::new());
        assert_eq!(told(&[]), Vec::<String>::new(), "and neither has one of whom nothing is known");
    }

    /// Each rule alone: its subject and its sentence.
    #[test]
    fn each_rule_says_a_plain_sentence() {
        let grows: Vec<f64> = (0..20).map(|n| 5_000.0 + 100.0 * f64::from(n)).collect();
        let falls: Vec<f64> = grows.iter().rev().copied().collect();
        let rules: &[(&[Recorded<'_>], &str)] = &[
            (
                &[("cpu", "", "idle", &[3.4; 20])],
                "CPU is 97 % busy, all cores taken together (`throng ctl profile cpu` shows the server's part)",
            ),
            (&[("memory", "", "avail_pct", &[4.0; 20])], "memory is almost exhausted: 4 % of this host's is available"),
            (
                &[("memory", "", "swp_tot", &[4_096.0; 20]), ("memory", "", "swp_free", &[3_996.0; 20])],
                "memory is short: 100 MiB are swapped out, and a shard that needs them delays all \
                 of its users",
            ),
            (
                &[("files", "", "own", &[950.0; 20]), ("files", "", "own_max", &[1_000.0; 20])],
                "descriptors are almost exhausted: 950 of 1000 (`throng doctor`)",
            ),
            (
                &[("pressure", "", "io_full", &[41.0; 20])],
                "disk delays everything: no task could run for 41 % of the time",
            ),
            (
                &[("tcp", "", "retr_pct", &[3.0; 20]), ("tcp", "", "retr", &[30.0; 20])],
                "network loses packets: 3.0 % of TCP segments were retransmitted",
            ),
            (
                &[("tcp", "", "lsn_over", &[2.0; 20])],
                "listeners drop 2.0 connections per second because their queue is full: raise \
                 net.core.somaxconn and backlog (`throng doctor`)",
            ),
            (
                &[("shard", "0", "outbound_overflows", &[0.5; 20])],
                "clients are ended because they send requests without acknowledging output, 0.5 \
                 per second",
            ),
            (
                &[("shard", "0", "parked_refused", &[7.0; 20])],
                "store does not keep up: 7.0 stanzas per second are refused because its queue is \
                 full",
            ),
            (
                &[("shard", "0", "notify_gaps", &[2.0; 20]), ("shard", "1", "notify_gaps", &[1.5; 20])],
                "channels had gaps for subscribers, 3.5 per second: they read too slowly or \
                 returned too late; keep more items with notify_items_max and notify_items_seconds",
            ),
            (
                &[("shard", "0", "notify_publish_refused", &[40.0; 20])],
                "channels refuse 40 publications per second: see the HTTP status; 401 and 403 \
                 concern tokens, 429 is the limit per address (notify_publications_per_second)",
            ),
            (
                &[("shard", "1", "gate_waiting", &grows)],
                "shard 1 has 6900 effects that wait for the disk, growing by 100 per second, and \
                 will not drain: the store's syncs are slow (disk.fl_wait)",
            ),
            (
                &[("shard", "1", "reads_pending", &falls)],
                "shard 1 has 5000 reads that the store has not answered, which are drained in 50 s at this rate: logins or \
                 logs are read faster than it answers",
            ),
            (
                &[("shard", "1", "parked", &[3_000.0; 20])],
                "shard 1 has 3000 stanzas for users whose data is still being read, which do not get fewer: the store \
                 answers slowly",
            ),
        ];
        for (columns, sentence) in rules {
            assert_eq!(told(columns), [*sentence]);
        }
    }

    #[test]
    fn a_certificate_that_clients_refuse_or_will_soon_is_told() {
        let certificate = crate::admin::CertificateState {
            faults: vec!["the certificate in a.pem expired on 2026-11-01".into()],
            soon: Some("the certificate in b.pem expires in 9 days, on 2026-12-01: renew it".into()),
            ..Default::default()
        };
        let status = Status { certificate: Some(certificate), ..Status::default() };
        let told = judge(Vec::new(), &status, &series(&[]));
        let told: Vec<_> = told.iter().map(|wrong| (wrong.weight, &*wrong.what, &*wrong.text)).collect();
        let refused = "the certificate in a.pem expired on 2026-11-01: clients refuse this server";
        let soon = "the certificate in b.pem expires in 9 days, on 2026-12-01: renew it";
        assert_eq!(told, [(Weight::Bad, "TLS", refused), (Weight::Warn, "TLS", soon)]);
    }

    #[test]
    fn what_stands_still_comes_first() {
        let status = Status { storage_full: true, ..Status::default() };
        let stuck = vec![wrong(Weight::Bad, "shard 3", "has not turned")];
        let told = judge(stuck, &status, &series(&[("cpu", "", "idle", &[1.0; 20])]));
        let what: Vec<_> = told.iter().map(|wrong| (&*wrong.what, wrong.weight)).collect();
        assert_eq!(what, [("shard 3", Weight::Bad), ("disk", Weight::Bad), ("CPU", Weight::Warn)]);
    }

    /// One of twenty seconds has a commit of 917 ms, of which the disk's writes took 907 ms: means
    /// do not show it.
    #[test]
    fn a_single_long_commit_is_told_with_the_disk_that_was_slow() {
        let once = |most: f64| -> Vec<f64> { (0..20).map(|second| if second == 7 { most } else { 1.0 }).collect() };
        let (commit, still, other) = (once(917.0), once(907.0), once(40.0));
        let columns = |vda| {
            [("store", "", "commit_max", &*commit), ("disk", "vda", "wr_ms", vda), ("disk", "vdb", "wr_ms", &*other)]
        };
        let sentence = "store took 917 ms for a commit, which delayed everything archived or \
                        durable: ";
        assert_eq!(
            told(&columns(&still)),
            [format!("{sentence}in that second the writes of vda took 907 ms, all together")]
        );
        let busy = "no disk's writes took as long in that second: the cores may have been busy (cpu, pressure)";
        assert_eq!(told(&columns(&other)), [format!("{sentence}{busy}")]);
        let later: Vec<f64> = still.iter().rev().copied().collect();
        assert_eq!(told(&columns(&later)), [format!("{sentence}{busy}")], "a disk is not blamed for another second");
        assert_eq!(told(&[("store", "", "commit_max", &once(249.0))]), Vec::<String>::new());
    }

    #[test]
    fn a_slow_flush_and_a_deaf_client_are_named() {
        let told = told(&[("disk", "vda", "fl_wait", &[210.0; 20]), ("shard", "1", "outbound_bytes", &[9_000.0; 20])]);
        assert!(told.iter().any(|text| text.starts_with("disk takes 210 ms")), "{told:?}");
        assert!(
            told.iter().any(|text| text.starts_with("shard 1 keeps 9 MiB for clients that do not read")),
            "{told:?}"
        );
    }
}
