//! `throng load` through a proxy that plants faults: the result must report each kind in its own
//! field, with the planted count, and the exit code must reflect it.

use serde_json::Value;
use throng_faulty::{Counts, Fault, Proxy};

use crate::support::{Server, read, throng};

const MESSAGES: u64 = 10_000;
const EVERY: u64 = 1_000;

/// Fields of the result that report faults.
const FIELDS: [&str; 7] = ["lost", "duplicates", "reordered", "corrupted", "late", "unknown", "foreign"];

/// Runs a load of ten thousand messages through a proxy with this fault. Returns its result and the
/// proxy's counts.
fn load(server: &Server, fault: Fault, flags: &[&str]) -> (Value, Proxy) {
    let to = server.plain.parse().expect("an address");
    let proxy = Proxy::start(([127, 0, 0, 1], 0).into(), to, fault, EVERY).expect("a proxy");
    let (address, out) = (proxy.address.to_string(), server.data.path().join("faults.json"));
    let most = MESSAGES.to_string();
    let common = ["load", "--quiet", "--to", &address, "--sessions", "50", "--pairs", "20", "--messages-max", &most];
    // A machine whose disk or cores stall for seconds must not add to the planted faults. Lost
    // messages are awaited until the end of the drain.
    let (late_ms, drain_s) = match fault {
        Fault::Delay(_) => ("8000", "60"),
        Fault::Drop | Fault::Corrupt | Fault::Cut => ("30000", "10"),
        Fault::Nothing | Fault::Double | Fault::Swap => ("30000", "60"),
    };
    let out_path = out.to_str().expect("a plain path");
    let bounds = ["--hold-s", "120", "--late-ms", late_ms, "--drain-s", drain_s, "--out", out_path];
    let output = throng(&[&common[..], &bounds, flags].concat());
    let result: Value = serde_json::from_str(&read(&out)).expect("a result");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.success(), fault == Fault::Nothing, "{fault:?}: {told}");
    assert_eq!(result["good"], fault == Fault::Nothing, "{result}");
    assert_eq!(told.contains("verdict   good"), fault == Fault::Nothing, "{told}");
    (result, proxy)
}

fn planted(counts: &Counts, fault: Fault) -> Vec<(&'static str, u64)> {
    match fault {
        Fault::Nothing | Fault::Cut => Vec::new(),
        Fault::Drop => vec![("lost", counts.planted())],
        Fault::Double => vec![("duplicates", counts.planted())],
        Fault::Swap => vec![("reordered", counts.planted())],
        Fault::Corrupt => vec![("corrupted", counts.planted())],
        Fault::Delay(_) => vec![("late", counts.planted()), ("reordered", counts.overtaken())],
    }
}

/// The result equals the planted faults, field by field, and both sides have counted the same
/// messages.
fn says_exactly(result: &Value, counts: &Counts, fault: Fault) {
    for field in FIELDS {
        let wanted = planted(counts, fault).iter().find(|(name, _)| *name == field).map_or(0, |(_, count)| *count);
        assert_eq!(result["messages"][field], wanted, "{fault:?}, {field}: {result}");
    }
    let missing = match fault {
        Fault::Drop | Fault::Corrupt => counts.planted(),
        _ => 0,
    };
    let messages = &result["messages"];
    assert_eq!((&messages["sent"], &messages["unsure"]), (&MESSAGES.into(), &0.into()), "{fault:?}: {result}");
    assert_eq!(messages["received"], MESSAGES - missing, "{fault:?}: {result}");
    assert_eq!((counts.sent(), counts.came()), (MESSAGES, MESSAGES), "{fault:?}");
    assert_eq!((&result["sessions"]["broken"], &result["errors"]), (&0.into(), &serde_json::json!({})), "{result}");
    // The last message cannot be swapped with a later one.
    let chosen = MESSAGES / EVERY;
    let least = if fault == Fault::Swap { chosen / 2 } else { chosen };
    let most = if fault == Fault::Nothing { 0 } else { chosen };
    assert!((least.min(most)..=most).contains(&counts.planted()), "{fault:?}: {counts:?}");
}

const CLOSED: &[&str] = &["--in-flight", "5", "--processes", "2", "--threads", "2"];
const OPEN: &[&str] = &["--in-flight", "0", "--rate", "5000", "--processes", "2"];
const FAULTS: [Fault; 6] =
    [Fault::Nothing, Fault::Drop, Fault::Double, Fault::Swap, Fault::Corrupt, Fault::Delay(LATE)];
/// A planted delay, longer than the 8 s after which a message is late.
const LATE: std::time::Duration = std::time::Duration::from_secs(9);

#[test]
fn each_kind_of_fault_is_found_as_often_as_it_was_planted() {
    let server = Server::start_with(&[]);
    for fault in FAULTS {
        for flags in [CLOSED, OPEN] {
            let (result, proxy) = load(&server, fault, flags);
            says_exactly(&result, &proxy.counts, fault);
        }
    }
}

#[test]
fn streams_that_end_without_a_word_are_counted_and_what_was_under_way_is_not_called_lost() {
    let server = Server::start_with(&[]);
    for flags in [CLOSED, OPEN] {
        let (result, proxy) = load(&server, Fault::Cut, flags);
        let cut = proxy.counts.planted();
        assert!(cut >= MESSAGES / EVERY - 1, "{cut}");
        assert_eq!(result["sessions"]["broken"], cut, "{result}");
        assert_eq!(result["errors"], serde_json::json!({ "connection: closed by the server": cut }), "{result}");
        let messages = &result["messages"];
        assert_eq!((&messages["lost"], &messages["corrupted"]), (&0.into(), &0.into()), "{result}");
        assert!(messages["unsure"].as_u64() >= Some(1), "{result}");
    }
}
