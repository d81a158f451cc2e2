//! A store is for the accounts of one domain permanently, so the first command that creates
//! accounts in a new data folder has to name it; commands on an existing store use the store's
//! domain.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::{read, until};

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
    // A misspelt folder counts as a new one: the output says so, once.
    std::fs::remove_dir_all(&data).expect("ours");
    let made = throng(&data, "user add romeo@Example.ORG --password pencil");
    assert_eq!(said(&made), format!("added romeo@example.org\nnew data folder: {}\n", data.display()));
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
    // A server without a configured domain does not mistake the store for another one.
    let other = throng(&data, "user add nurse@example.com --password pencil");
    assert!(other.status.code() == Some(2), "{}", said(&other));
}

/// The output of a server started in this folder until it served; it is then killed, or stopped
/// gracefully.
fn started(data: &Path, out: &Path, in_order: bool) -> String {
    let file = std::fs::File::create(out).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_throng"));
    command.args(["serve", "--domain", "example.org", "--c2s", "127.0.0.1:0", "--c2s-tls", "off", "--data"]).arg(data);
    let command = command.stdin(Stdio::null()).stdout(file.try_clone().expect("a file")).stderr(file);
    let mut child = command.spawn().expect("throng starts");
    until("a server that serves", || {
        assert!(matches!(child.try_wait(), Ok(None)), "it does not start: {}", read(out));
        read(out).contains("Stop with Ctrl-C")
    });
    if in_order {
        assert!(throng(data, "ctl shutdown").status.success());
    } else {
        child.kill().expect("ours");
    }
    child.wait().expect("ours");
    read(out)
}

/// A misspelt folder yields a new, empty server: its banner says so, and that of an existing one
/// shows its contents. After a crash it shows what was recovered.
#[test]
fn a_server_says_whether_its_folder_is_new_and_what_it_has_found_in_one_that_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, out) = (folder.path().join("data"), folder.path().join("out"));
    let said = started(&data, &out, true);
    assert!(said.contains("\n  new data folder: no accounts, no messages\n"), "{said}");
    assert!(said.contains("Next: create an account: throng user add romeo"), "{said}");
    let said = started(&data, &out, true);
    assert!(said.contains("\n  opened: no accounts, no archived messages, last written 20"), "{said}");
    assert!(said.contains("Next: create an account") && !said.contains("recovered"), "{said}");
    for user in ["romeo", "juliet"] {
        assert!(throng(&data, &format!("user add {user} --password pencil")).status.success());
    }
    let said = started(&data, &out, false);
    assert!(said.contains("\n  opened: 2 accounts, no archived messages, last written 20"), "{said}");
    assert!(said.contains("Next: point a client at it\n") && !said.contains("user add"), "{said}");
    assert!(!said.contains("recovered") && !said.contains("new data folder"), "{said}");
    let said = started(&data, &out, true);
    assert!(
        said.contains("\n  recovered from a crash of the previous process (serve ") && said.contains("replayed"),
        "{said}"
    );
    let said = started(&data, &out, true);
    assert!(said.contains("opened: 2 accounts") && !said.contains("recovered"), "{said}");
    if rustix::process::geteuid().is_root() {
        assert!(said.contains("WARN") && said.contains("running as root"), "{said}");
    }
}
