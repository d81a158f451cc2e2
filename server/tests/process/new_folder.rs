//! A store keeps the accounts of one domain for good, so the first command that makes accounts in a new data folder has to
//! say which; commands on a store that is there take the store's own.

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn throng(data: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_throng"));
    command.args(arguments.split(' ')).arg("--data").arg(data).stdin(Stdio::null());
    command.output().expect("throng runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn the_first_account_says_of_which_domain_the_store_is_and_later_commands_need_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    std::fs::write(folder.path().join("users.csv"), "mercutio,pencil\n").expect("a file");
    let import = format!("user import {}", folder.path().join("users.csv").display());
    for command in ["user add romeo --password pencil", &import] {
        let refused = throng(&data, command);
        let text = said(&refused);
        assert_eq!(refused.status.code(), Some(2), "{text}");
        assert!(text.contains("romeo@example.org") && text.contains("--domain example.org"), "{text}");
        assert!(!data.join("store").exists(), "a store was made, of a domain that nobody named");
    }
    assert_eq!(said(&throng(&data, "user add romeo@Example.ORG --password pencil")), "added romeo@example.org\n");
    for (command, answer) in [
        ("user add juliet --password pencil", "added juliet@example.org\n"),
        ("user passwd romeo --password paper", "changed romeo@example.org\n"),
        ("user list", "juliet@example.org\nromeo@example.org\n"),
        ("user del juliet --yes", "removed juliet@example.org\n"),
    ] {
        let done = throng(&data, command);
        assert!(done.status.success() && said(&done) == answer, "{command}: {}", said(&done));
    }
    let other = throng(&data, "user passwd romeo --password paper --domain example.com");
    assert!(other.status.code() == Some(2) && said(&other).contains("--domain example.org"), "{}", said(&other));
    assert!(throng(&data, &import).status.success());
    // A server that is told no domain does not take the store for another one.
    let other = throng(&data, "user add nurse@example.com --password pencil");
    assert!(other.status.code() == Some(2), "{}", said(&other));
}
