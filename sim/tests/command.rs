//! The command `sim`, as scripts run it: what it prints, and its status.

use std::process::Command;

/// The status, what is printed, and what is said besides.
fn sim(args: &[&str]) -> (Option<i32>, String, String) {
    let run = Command::new(env!("CARGO_BIN_EXE_sim")).args(args).output().unwrap();
    let [out, err] = [run.stdout, run.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (run.status.code(), out, err)
}

#[test]
fn seeds_without_a_fault_pass() {
    let (status, out, _) = sim(&["--seeds", "0..3", "--threads", "1"]);
    assert!(out.starts_with("3 seeds in ") && out.contains(": 0 failed; "), "{out}");
    assert_eq!(status, Some(0), "{out}");
}

#[test]
fn a_planted_fault_is_told_with_the_command_that_replays_it() {
    let (status, out, _) = sim(&["--seeds", "0..40", "--plant", "lost-batch"]);
    // An assertion is in one build only.
    let build = if cfg!(debug_assertions) { "" } else { "--release " };
    assert!(out.contains(&format!("  replay: cargo run {build}-p throng-sim -- --seeds ")), "{out}");
    assert!(out.contains(" --plant lost-batch\n"), "{out}");
    assert_eq!(status, Some(0), "{out}");
}

#[test]
fn a_fault_that_no_seed_finds_is_a_failure() {
    let (status, out, _) = sim(&["--seeds", "0..0", "--plant", "lost-batch"]);
    assert_eq!(status, Some(1), "{out}");
}

#[test]
fn wrong_options_are_said() {
    for (args, told) in [
        (&["--seeds", "few"][..], "seeds are written N or N..M\n"),
        (&["--seeds"], "--seeds wants a value\n"),
        (&["--plant", "none"], "no such fault: none\n"),
        (&["--threads", "many"], "threads is a number\n"),
        (&["--letters", "small"], "letters are direct, encoded or lossy\n"),
        (&["--what"], "no such option: --what\n"),
    ] {
        assert_eq!(sim(args), (Some(2), String::new(), told.into()), "{args:?}");
    }
}
