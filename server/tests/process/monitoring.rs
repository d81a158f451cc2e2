//! The dashboard and the alerts in `contrib/monitoring`, made from the tables here and from the
//! metrics of a running server, so that they name no metric that does not exist. Made anew with
//! `UPDATE_REFERENCE=1`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::Server;

/// An alert; `docs/monitoring.md` has a section with its name.
struct Alert {
    name: &'static str,
    expression: &'static str,
    /// How long it must hold.
    lasting: &'static str,
    severity: &'static str,
    summary: &'static str,
}

/// The alerts, the most urgent first.
const ALERTS: [Alert; 10] = [
    Alert {
        name: "ThrongDown",
        expression: "up{job=\"throng\"} == 0",
        lasting: "1m",
        severity: "critical",
        summary: "{{ $labels.instance }} does not answer: no client is served",
    },
    Alert {
        name: "ThrongStoreDamaged",
        expression: "throng_store_damaged > 0",
        lasting: "0m",
        severity: "critical",
        summary: "{{ $value }} files of the store of {{ $labels.instance }} are damaged",
    },
    Alert {
        name: "ThrongDiskFull",
        expression: "throng_storage_full > 0",
        lasting: "0m",
        severity: "critical",
        summary: "{{ $labels.instance }} refuses new messages, because its disk is full",
    },
    Alert {
        name: "ThrongShardStuck",
        expression: "rate(throng_shard_turns_total[1m]) == 0",
        lasting: "1m",
        severity: "critical",
        summary: "Shard {{ $labels.shard }} of {{ $labels.instance }} makes no progress, and its users wait",
    },
    Alert {
        name: "ThrongConnectionsNearLimit",
        expression: "throng_shards_not_accepting > 0 or throng_connections / throng_connections_max > 0.9",
        lasting: "2m",
        severity: "critical",
        summary: "{{ $labels.instance }} has little room for connections, or accepts none at some shards",
    },
    Alert {
        name: "ThrongRestarts",
        expression: "changes(process_start_time_seconds{job=\"throng\"}[1h]) > 2",
        lasting: "0m",
        severity: "critical",
        summary: "{{ $labels.instance }} was started {{ $value }} times within an hour",
    },
    Alert {
        name: "ThrongDeliverySlow",
        expression: "histogram_quantile(0.99, sum by (instance, le) (rate(throng_message_delivery_seconds_bucket[5m]))) > 1",
        lasting: "10m",
        severity: "warning",
        summary: "One message in a hundred takes {{ $value }} s through {{ $labels.instance }}",
    },
    Alert {
        name: "ThrongDiskSlow",
        expression: "rate(throng_store_sync_seconds_total[5m]) / rate(throng_store_syncs_total[5m]) > 0.1",
        lasting: "10m",
        severity: "warning",
        summary: "A sync of the journal of {{ $labels.instance }} takes {{ $value }} s",
    },
    Alert {
        name: "ThrongLoginsFail",
        expression: "sum by (instance) (rate(throng_shard_logins_failed_total[10m])) > 5",
        lasting: "10m",
        severity: "warning",
        summary: "{{ $value }} logins a second fail at {{ $labels.instance }}",
    },
    Alert {
        name: "ThrongCertificateExpires",
        expression: "throng_tls_certificate_expires_seconds - time() < 14 * 86400",
        lasting: "1h",
        severity: "warning",
        summary: "The certificate of {{ $labels.instance }} expires in {{ $value | humanizeDuration }}",
    },
];

/// A plot: its title, unit, and lines, each with a name and an expression. `$i` selects instances.
type Plot = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// The rows of the dashboard.
const ROWS: [(&str, &[Plot]); 5] = [
    (
        "Users",
        &[
            (
                "Sessions",
                "short",
                &[("connected", "throng_sessions{$i}"), ("to be resumed", "throng_sessions_resumable{$i}")],
            ),
            ("Connections", "short", &[("open", "throng_connections{$i}"), ("limit", "throng_connections_max{$i}")]),
            (
                "Logins",
                "reqps",
                &[
                    ("successful", "sum(rate(throng_shard_logins_total{$i}[$__rate_interval]))"),
                    ("failed", "sum(rate(throng_shard_logins_failed_total{$i}[$__rate_interval]))"),
                    ("resumed", "sum(rate(throng_shard_resumed_total{$i}[$__rate_interval]))"),
                ],
            ),
            (
                "Connections ended",
                "reqps",
                &[
                    ("by the client", "sum(rate(throng_shard_closed_by_client_total{$i}[$__rate_interval]))"),
                    ("by the network", "sum(rate(throng_shard_closed_lost_total{$i}[$__rate_interval]))"),
                    ("silent", "sum(rate(throng_shard_closed_timeout_total{$i}[$__rate_interval]))"),
                    ("not reading", "sum(rate(throng_shard_closed_unread_total{$i}[$__rate_interval]))"),
                    ("refused", "sum(rate(throng_shard_closed_refused_total{$i}[$__rate_interval]))"),
                ],
            ),
        ],
    ),
    (
        "Messages",
        &[
            (
                "Messages",
                "reqps",
                &[
                    ("received", "sum(rate(throng_shard_messages_in_total{$i}[$__rate_interval]))"),
                    ("sent", "sum(rate(throng_shard_messages_out_total{$i}[$__rate_interval]))"),
                    ("waiting for a login", "sum(rate(throng_shard_messages_stored_total{$i}[$__rate_interval]))"),
                    ("refused", "sum(rate(throng_shard_messages_refused_total{$i}[$__rate_interval]))"),
                ],
            ),
            (
                "Delivery, 99 of 100 messages",
                "s",
                &[(
                    "p99",
                    "histogram_quantile(0.99, sum by (le) (rate(throng_message_delivery_seconds_bucket{$i}[$__rate_interval])))",
                )],
            ),
            (
                "Login, 99 of 100",
                "s",
                &[(
                    "p99",
                    "histogram_quantile(0.99, sum by (le) (rate(throng_login_seconds_bucket{$i}[$__rate_interval])))",
                )],
            ),
            (
                "Rooms",
                "short",
                &[
                    ("rooms in memory", "sum(throng_shard_rooms{$i})"),
                    ("occupants", "sum(throng_shard_room_occupants{$i})"),
                ],
            ),
            (
                "Push notifications",
                "reqps",
                &[
                    ("sent", "sum(rate(throng_shard_pushes_sent_total{$i}[$__rate_interval]))"),
                    ("failed", "sum(rate(throng_shard_pushes_failed_total{$i}[$__rate_interval]))"),
                ],
            ),
            (
                "Channels",
                "reqps",
                &[
                    ("published", "sum(rate(throng_shard_notify_published_total{$i}[$__rate_interval]))"),
                    ("delivered", "sum(rate(throng_shard_notify_told_total{$i}[$__rate_interval]))"),
                ],
            ),
        ],
    ),
    (
        "Disk",
        &[
            (
                "Full or damaged",
                "short",
                &[("full", "throng_storage_full{$i}"), ("damaged files", "throng_store_damaged{$i}")],
            ),
            (
                "Time per sync of the journal",
                "s",
                &[(
                    "mean",
                    "rate(throng_store_sync_seconds_total{$i}[$__rate_interval]) / rate(throng_store_syncs_total{$i}[$__rate_interval])",
                )],
            ),
            ("Journal", "Bps", &[("written", "rate(throng_store_journal_bytes_total{$i}[$__rate_interval])")]),
            (
                "Reads of the store, 99 of 100",
                "s",
                &[(
                    "p99",
                    "histogram_quantile(0.99, sum by (le) (rate(throng_read_seconds_bucket{$i}[$__rate_interval])))",
                )],
            ),
        ],
    ),
    (
        "Shards",
        &[
            (
                "Time awake",
                "percentunit",
                &[("shard {{shard}}", "1 - rate(throng_shard_sleep_seconds_total{$i}[$__rate_interval])")],
            ),
            ("Turns", "reqps", &[("shard {{shard}}", "rate(throng_shard_turns_total{$i}[$__rate_interval])")]),
            ("Output that waits for clients", "bytes", &[("shard {{shard}}", "throng_shard_outbound_bytes{$i}")]),
            ("Output that waits for the disk", "bytes", &[("shard {{shard}}", "throng_shard_gate_bytes{$i}")]),
            ("Sessions by shard", "short", &[("shard {{shard}}", "throng_shard_sessions{$i}")]),
            ("Not accepting", "short", &[("shards", "throng_shards_not_accepting{$i}")]),
        ],
    ),
    (
        "Process",
        &[
            ("CPU", "percentunit", &[("cores", "rate(process_cpu_seconds_total{$i}[$__rate_interval])")]),
            ("Memory", "bytes", &[("{{part}}", "throng_memory_bytes{$i}")]),
            ("Descriptors", "short", &[("open", "process_open_fds{$i}"), ("limit", "process_max_fds{$i}")]),
            ("Time since the start", "s", &[("uptime", "throng_uptime_seconds{$i}")]),
            (
                "Needs attention",
                "short",
                &[
                    ("clock in doubt", "throng_clock_in_doubt{$i}"),
                    ("recorder failed", "throng_recorder_failed{$i}"),
                    ("log lines lost", "increase(throng_log_lines_lost_total{$i}[$__rate_interval])"),
                ],
            ),
            ("Certificate", "s", &[("expires in", "throng_tls_certificate_expires_seconds{$i} - time()")]),
        ],
    ),
];

/// The metrics by name, with their help texts.
fn metrics(page: &str) -> BTreeMap<&str, &str> {
    page.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' ')).collect()
}

/// The metrics that an expression names, without the suffixes of histograms.
fn named(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let words = words.filter(|word| word.starts_with("throng_") || word.starts_with("process_"));
    words.map(|word| word.strip_suffix("_bucket").unwrap_or(word))
}

fn dashboard(metrics: &BTreeMap<&str, &str>) -> String {
    let source = json!({ "type": "prometheus", "uid": "${source}" });
    let (mut panels, mut y, mut id): (Vec<Value>, usize, usize) = (Vec::new(), 0, 0);
    let mut number = || {
        id += 1;
        id
    };
    for (row, plots) in ROWS {
        let place = json!({ "x": 0, "y": y, "w": 24, "h": 1 });
        panels.push(
            json!({ "id": number(), "type": "row", "title": row, "gridPos": place, "collapsed": false, "panels": [] }),
        );
        y += 1;
        for (at, (title, unit, lines)) in plots.iter().enumerate() {
            let place = json!({ "x": at % 3 * 8, "y": y + at / 3 * 7, "w": 8, "h": 7 });
            let mut described: Vec<String> = Vec::new();
            for name in lines.iter().flat_map(|(_, expression)| named(expression)) {
                let text = format!("{name}: {}", metrics[name]);
                if !described.contains(&text) {
                    described.push(text);
                }
            }
            let target = |(at, (name, expression)): (usize, &(&str, &str))| {
                let expression = expression.replace("$i", "instance=~\"$instance\"");
                let reference = char::from(b'A' + at as u8).to_string();
                json!({ "refId": reference, "datasource": source, "expr": expression, "legendFormat": name })
            };
            let targets: Vec<Value> = lines.iter().enumerate().map(target).collect();
            panels.push(json!({
                "id": number(),
                "type": "timeseries",
                "title": title,
                "description": described.join("\n\n"),
                "datasource": source,
                "gridPos": place,
                "fieldConfig": { "defaults": { "unit": unit, "min": 0 }, "overrides": [] },
                "options": { "legend": { "displayMode": "list", "placement": "bottom" }, "tooltip": { "mode": "multi" } },
                "targets": targets,
            }));
        }
        y += plots.len().div_ceil(3) * 7;
    }
    let board = json!({
        "uid": "throng",
        "title": "Throng",
        "tags": ["xmpp"],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "30s",
        "time": { "from": "now-6h", "to": "now" },
        "templating": { "list": [
            { "name": "source", "type": "datasource", "query": "prometheus", "label": "Source" },
            {
                "name": "instance", "type": "query", "label": "Instance", "datasource": source, "multi": true,
                "includeAll": true, "refresh": 2, "query": "label_values(throng_build_info, instance)",
                "current": { "text": "All", "value": "$__all" },
            },
        ] },
        "annotations": { "list": [{
            "name": "Starts", "datasource": source, "enable": true, "iconColor": "blue",
            "expr": "changes(process_start_time_seconds{job=\"throng\"}[1m]) > 0",
        }] },
        "panels": panels,
    });
    serde_json::to_string_pretty(&board).expect("JSON") + "\n"
}

fn alerts() -> String {
    let mut text = String::from(
        "# Alerts for Prometheus: docs/monitoring.md says what to do about each. Made by server/tests/process/monitoring.rs.\n\
         groups:\n  - name: throng\n    rules:\n",
    );
    for Alert { name, expression, lasting, severity, summary } in &ALERTS {
        text += &format!(
            "      - alert: {name}\n        expr: '{expression}'\n        for: {lasting}\n        labels:\n          severity: \
             {severity}\n        annotations:\n          summary: '{summary}'\n          runbook: 'docs/monitoring.md#{}'\n",
            name.to_lowercase()
        );
    }
    text
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/monitoring")
}

/// Compares a file with what it must hold; if UPDATE_REFERENCE is set, writes it instead.
fn current(name: &str, text: &str) {
    let path = folder().join(name);
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(&path, text).expect("a file");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "contrib/monitoring/{name} is not current: UPDATE_REFERENCE=1 makes it anew");
}

#[test]
fn the_dashboard_and_the_alerts_name_metrics_that_exist() {
    let server = Server::start_with(&["--admin-http", "127.0.0.1:0"]);
    let page = server.get("/metrics");
    let metrics = metrics(&page);
    let plots =
        ROWS.iter().flat_map(|(_, plots)| plots.iter().flat_map(|(_, _, lines)| lines.iter().map(|line| line.1)));
    for expression in plots.chain(ALERTS.iter().map(|alert| alert.expression)) {
        for name in named(expression) {
            assert!(metrics.contains_key(name), "{name} of {expression:?} is no metric");
        }
    }
    current("dashboard.json", &dashboard(&metrics));
    current("alerts.yml", &alerts());

    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/monitoring.md");
    let documents = std::fs::read_to_string(documents).expect("a page");
    for alert in &ALERTS {
        assert!(documents.contains(&format!("\n### {}\n", alert.name)), "{} has no section", alert.name);
    }
    // Each word that the page explains is in a name or a help text.
    let words = documents.split("## Words").nth(1).expect("a section").lines();
    let words: Vec<&str> = words.filter_map(|line| line.strip_prefix("| **")?.split("**").next()).collect();
    assert!(words.len() > 20, "{words:?}");
    let helps: String = metrics.iter().map(|(name, help)| format!("{name} {}\n", help.to_lowercase())).collect();
    for word in words {
        assert!(helps.contains(word), "{word} is in no name or help text");
    }
}

/// Prometheus accepts the alerts, and they are raised as their test says.
#[test]
fn prometheus_takes_the_alerts() {
    for arguments in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts.test.yml"]] {
        match Command::new("promtool").args(arguments).current_dir(folder()).output() {
            Ok(output) => assert!(output.status.success(), "{output:?}"),
            Err(error) => println!("not tested: promtool: {error}"),
        }
    }
}
