//! Whether a test of io_uring can run.

/// Whether this machine has the io_uring that the server needs; if not, prints why.
pub(crate) fn has_uring() -> bool {
    let data = tempfile::tempdir().expect("a folder");
    let none = ["--c2s", "192.0.2.1:1", "--c2s-tls", "off", "--driver", "uring"];
    let mut serve = std::process::Command::new(env!("CARGO_BIN_EXE_throng"));
    let output = serve.args(["serve", "--data"]).arg(data.path()).args(none).output().expect("throng runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("io_uring") {
        println!("not tested: {said}");
    }
    !said.contains("io_uring")
}
