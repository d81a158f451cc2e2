//! `throng bench` completes, and its figures are consistent.

use std::process::{Command, Stdio};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_throng"))
        .args(["bench", "--json", "--users", "30", "--shards", "1,3", "--runs", "2"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("throng runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a result")
}

#[test]
fn all_talk_to_all_and_each_shards_time_is_told() {
    for arguments in [&["chatty"][..], &["bigbang"], &["bigbang", "--archive"]] {
        let result = bench(arguments);
        assert_eq!(result["messages"], 2 * 30 * 29, "{result}");
        let rows = result["results"].as_array().expect("a row each");
        assert_eq!(rows.iter().map(|row| row["shards"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(3)]);
        assert_eq!(rows[0]["speed_up"], 1.0, "{result}");
        for row in rows {
            let threads = row["shares_of_time"].as_array().expect("a share a shard");
            assert_eq!(threads.len() as u64, row["shards"].as_u64().expect("a number"), "{result}");
            let rate = row["messages_per_s"].as_f64().expect("a rate");
            assert!((rate * row["seconds"].as_f64().expect("a time") / 1740.0 - 1.0).abs() < 0.1, "{result}");
        }
    }
}
