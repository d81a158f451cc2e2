//! Accounts' keys and messages are accessible only to the server's user, whatever the umask and the
//! folder.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::support::{THRONG, read, until};

/// A command in a process whose umask lets everybody read and write its files.
fn open_handed(arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "umask 0; exec \"$0\" \"$@\"", THRONG]).args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    open_handed(arguments).output().expect("throng runs")
}

fn good(arguments: &[&str]) -> String {
    let output = run(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    said
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// A server until it is dropped; its log is next to the data folder.
struct Serving(Child);

impl Serving {
    fn start(data: &Path, log: &Path) -> Serving {
        let out = fs::File::create(log).expect("a file");
        let listeners = ["--c2s", "127.0.0.1:0", "--c2s-tls", "off", "--admin-http", "127.0.0.1:0", "--shards", "1"];
        let mut command = open_handed(&["serve", "--data", text(data)]);
        command.args(listeners).stdout(out.try_clone().expect("a file")).stderr(out);
        let serving = Serving(command.spawn().expect("throng starts"));
        until("it serves", || read(log).contains("Next:"));
        serving
    }

    fn stop(mut self, data: &Path) {
        good(&["ctl", "shutdown", "--data", text(data)]);
        assert!(self.0.wait().expect("a child").success());
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Everything at and below a path that users other than its owner may read, write or enter.
fn open_to_others(path: &Path) -> Vec<String> {
    let found = fs::symlink_metadata(path).expect("it is there");
    let mode = found.mode() & 0o7777;
    let mut open = Vec::new();
    if mode & 0o077 != 0 {
        open.push(format!("{} {mode:04o}", path.display()));
    }
    if found.is_dir() {
        for entry in fs::read_dir(path).expect("a folder") {
            open.extend(open_to_others(&entry.expect("an entry").path()));
        }
    }
    open
}

/// Makes a tree readable and writable for everybody.
fn open_up(path: &Path) {
    let found = fs::symlink_metadata(path).expect("it is there");
    fs::set_permissions(path, Permissions::from_mode(if found.is_dir() { 0o777 } else { 0o666 })).expect("ours");
    if found.is_dir() {
        fs::read_dir(path).expect("a folder").for_each(|entry| open_up(&entry.expect("an entry").path()));
    }
}

#[test]
fn what_the_program_makes_is_its_users_alone_whatever_the_umask() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let (data, log) = (at("data"), at("log"));
    good(&["user", "add", "romeo@localhost", "--password", "pencil", "--data", text(&data)]);
    let serving = Serving::start(&data, &log);
    good(&["user", "add", "juliet", "--password", "pencil", "--data", text(&data)]);
    let records = || fs::read_dir(data.join("recorder")).is_ok_and(|entries| entries.count() > 1);
    until("it records", records);
    good(&["store", "backup", text(&at("live")), "--data", text(&data)]);
    assert_eq!(open_to_others(&data), <[String; 0]>::default(), "while it runs, with its sockets");
    serving.stop(&data);
    // A folder created for the backup; and one that was readable for everybody.
    fs::create_dir(at("rest")).expect("a folder");
    fs::set_permissions(at("rest"), Permissions::from_mode(0o777)).expect("ours");
    good(&["store", "backup", text(&at("rest")), "--data", text(&data)]);
    good(&["sar", "record", "--folder", text(&at("sar")), "--duration", "2"]);
    for name in ["data", "live", "rest", "sar"] {
        assert_eq!(open_to_others(&at(name)), <[String; 0]>::default(), "{name}");
    }
    open_up(&at("live"));
    good(&["store", "restore", text(&at("live")), "--data", text(&at("restored"))]);
    assert_eq!(open_to_others(&at("restored")), <[String; 0]>::default(), "a copy of what was open");
}

#[test]
fn a_folder_that_was_open_to_others_is_not_any_more_and_that_is_said_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, log) = (folder.path().join("data"), folder.path().join("log"));
    good(&["user", "add", "romeo@localhost", "--password", "pencil", "--data", text(&data)]);
    fs::write(data.join("throng.toml"), "log_level = \"info\"\n").expect("a file");
    // Keys of certificates, and files of users.
    for name in ["acme/authority/@account.json", "upload/a/file"] {
        let file = data.join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, "").expect("a file");
    }
    let word = "was accessible to other users (mode 0777); changed to 0700";
    for serves in [false, true] {
        open_up(&data);
        let mut said = String::new();
        for _ in 0..2 {
            match serves {
                true => {
                    Serving::start(&data, &log).stop(&data);
                    said += &read(&log);
                }
                // Commands that only read change nothing, including modes.
                false => said += &good(&["user", "passwd", "romeo", "--password", "pencil", "--data", text(&data)]),
            }
        }
        assert_eq!(said.matches(word).count(), 1, "{said}");
        let configuration = format!("{} 0666", data.join("throng.toml").display());
        assert_eq!(open_to_others(&data), [configuration], "the operator's own file is the operator's to close");
    }
    // The same for a recorder's folder.
    let sar = folder.path().join("sar");
    fs::create_dir(&sar).expect("a folder");
    fs::set_permissions(&sar, Permissions::from_mode(0o755)).expect("ours");
    let said = good(&["sar", "record", "--folder", text(&sar), "--duration", "1"]);
    assert!(said.contains("was accessible to other users (mode 0755)"), "{said}");
    assert_eq!(open_to_others(&sar), <[String; 0]>::default());
}

#[test]
fn a_folder_that_another_user_could_exchange_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, link) = (folder.path().join("data"), folder.path().join("link"));
    good(&["user", "add", "romeo@localhost", "--password", "pencil", "--data", text(&data)]);
    symlink(&data, &link).expect("a link");
    good(&["user", "passwd", "romeo", "--password", "pencil", "--data", text(&link)]);
    // Only root may change owners; for others the test ends here.
    if fs::metadata(&data).expect("it is there").uid() != 0 {
        return;
    }
    std::os::unix::fs::lchown(&link, Some(4711), None).expect("root may");
    let refused = |data: &Path, why: &str| {
        let output = run(&["user", "passwd", "romeo", "--password", "pencil", "--data", text(data)]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains(why), "{said}");
    };
    refused(&link, "is a symbolic link owned by user 4711, who could redirect it");
}

/// A command of root leaves nothing that the server's user cannot read.
#[test]
fn a_command_of_root_runs_as_the_owner_of_the_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    good(&["user", "add", "romeo@localhost", "--password", "pencil", "--data", text(&data)]);
    // Only root may change owners; for others the test ends here.
    if fs::metadata(&data).expect("it is there").uid() != 0 {
        return;
    }
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("ours");
    let given = Command::new("chown").args(["-R", "4711:4711", text(&data)]).status().expect("chown runs");
    assert!(given.success());
    good(&["user", "add", "juliet", "--password", "pencil", "--data", text(&data)]);
    let strange = Command::new("find").args([text(&data), "-not", "-uid", "4711"]).output().expect("find runs");
    assert!(strange.stdout.is_empty(), "{strange:?}");
    // Also by a link of root's; one of another user is refused, see above.
    let link = folder.path().join("link");
    symlink(&data, &link).expect("a link");
    good(&["user", "add", "nurse", "--password", "pencil", "--data", text(&link)]);
    let strange = Command::new("find").args([text(&data), "-not", "-uid", "4711"]).output().expect("find runs");
    assert!(strange.stdout.is_empty(), "{strange:?}");
    let listed = run(&["user", "list", "--data", text(&data)]);
    let listed = String::from_utf8_lossy(&listed.stdout);
    assert!(listed.contains("juliet") && listed.contains("nurse"), "{listed}");
}
