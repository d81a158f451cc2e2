//! An operator's certificates and domains: problems that clients would reject are reported
//! beforehand.

use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::{Client, LONG, Server, good, throng};

const DAY_S: u64 = 86_400;

/// Today, in days since the Unix epoch.
fn today() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() / DAY_S
}

/// Writes `NAME.pem` and `NAME.key` with a certificate for a host, valid between two days relative
/// to today.
fn write(folder: &Path, name: &str, host: &str, from_days: i64, until_days: i64) -> (PathBuf, PathBuf) {
    let mut parameters = rcgen::CertificateParams::new(vec![host.to_owned()]).expect("a name");
    let day = |days: i64| {
        let since = today().checked_add_signed(days).expect("after 1970") * DAY_S;
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(since)
    };
    (parameters.not_before, parameters.not_after) = (day(from_days), day(until_days));
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = parameters.self_signed(&key).expect("a certificate");
    let (chain, private) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
    fs::write(&chain, certificate.pem()).expect("a file");
    fs::write(&private, key.serialize_pem()).expect("a file");
    fs::set_permissions(&private, Permissions::from_mode(0o600)).expect("ours");
    (chain, private)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// `throng config check` with a certificate for `example.org`.
fn check(folder: &Path, chain: &Path, key: &Path) -> Output {
    let files = ["--tls-certificate", text(chain), "--tls-key", text(key)];
    throng(&[&["config", "check", "--domain", "example.org", "--data", text(folder)], &files[..]].concat())
}

#[test]
fn a_check_of_the_configuration_reads_the_certificate_and_its_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let refused = |chain: &Path, key: &Path, why: &str| {
        let output = check(at, chain, key);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(why), "{why} in {said}");
    };
    let (chain, key) = write(at, "good", "example.org", -10, 100);
    let output = check(at, &chain, &key);
    good(&output);
    assert_eq!((&*output.stdout, &*output.stderr), (&b"good\n"[..], &b""[..]));
    good(&check(at, &write(at, "wildcard", "*.org", -10, 100).0, &at.join("wildcard.key")));
    // Missing files, and files with the wrong content.
    refused(&at.join("gone.pem"), &key, "cannot read");
    refused(&chain, &at.join("gone.key"), "cannot read");
    refused(&key, &key, "it contains no certificate");
    // A certificate and a key that do not match.
    let (other, _) = write(at, "other", "example.org", -10, 100);
    refused(&other, &key, &format!("it is not the key of the certificate in {}", other.display()));
    // Expired, not yet valid, and for another host.
    let (chain, key) = write(at, "expired", "example.org", -10, -1);
    refused(&chain, &key, "expired on ");
    let (chain, key) = write(at, "early", "example.org", 2, 100);
    refused(&chain, &key, "is not valid before ");
    let (chain, key) = write(at, "foreign", "example.com", -10, 100);
    refused(&chain, &key, "is valid for example.com (subjectAltName), not for example.org");
    let (chain, key) = write(at, "below", "*.example.org", -10, 100);
    refused(&chain, &key, "is valid for *.example.org (subjectAltName), not for example.org");
    // Valid for a few more days; and a key that everybody may read.
    let (chain, key) = write(at, "soon", "example.org", -10, 10);
    let output = check(at, &chain, &key);
    good(&output);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("warning: ") && said.contains("expires in 9 days, on "), "{said}");
    fs::set_permissions(&key, Permissions::from_mode(0o644)).expect("ours");
    refused(&chain, &key, &format!("tls_key: {} can be read by every user of this host (mode 0644)", key.display()));
}

#[test]
fn a_server_tells_of_a_certificate_that_clients_refuse_and_a_reload_takes_a_new_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (chain, key) = write(folder.path(), "used", "example.com", -10, -1);
    let files = [text(&chain).to_owned(), text(&key).to_owned()];
    let flags = ["--tls-certificate", &files[0], "--tls-key", &files[1], "--admin-http", "127.0.0.1:0"];
    let server = Server::start_in(folder, &flags);
    let status = || {
        let output = server.ctl(&["status"]);
        good(&output);
        String::from_utf8(output.stdout).expect("text")
    };
    let (log, told, ready, now) = (server.log(), status(), server.get("/ready"), server.get("/api/now"));
    for sentence in ["expired on ", "is valid for example.com (subjectAltName), not for localhost"] {
        for said in [&log, &told, &ready, &now] {
            assert!(said.contains(sentence), "{sentence} in {said}");
        }
    }
    assert!(log.contains("clients will refuse this server") && ready.contains("\"ready\":true"), "{ready}");
    let ends = |metrics: &str| -> u64 {
        let line = metrics.lines().find(|line| line.starts_with("throng_tls_certificate_expires_seconds "));
        let value = line.and_then(|line| line.split(' ').nth(1)).unwrap_or_else(|| panic!("a line in {metrics}"));
        value.parse().expect("a number")
    };
    assert_eq!(ends(&server.get("/metrics")), (today() - 1) * DAY_S);
    write(server.data.path(), "used", "localhost", -10, 13);
    good(&server.ctl(&["reload"]));
    assert_eq!(ends(&server.get("/metrics")), (today() + 13) * DAY_S);
    let told = status();
    assert!(told.contains("expires in 12 days, on ") && !told.contains("expired on"), "{told}");
    write(server.data.path(), "used", "localhost", -10, 100);
    good(&server.ctl(&["reload"]));
    assert!(!status().contains("certificate") && server.get("/ready").contains("\"warnings\":[]"));
}

/// A domain without a folder in `tls_folder` is served with the self-signed certificate, which is
/// reported everywhere an operator looks. Any other reason why a certificate is unreadable is an
/// error: for the check, the server and a reload.
#[test]
fn a_folder_of_certificates_is_replaced_by_a_self_signed_one_only_for_a_domain_that_it_lacks_and_in_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let live = folder.path().join("live");
    let hosts = ["--domain", "localhost", "--virtual-hosts", "capulet.example"];
    let flags = [&hosts[..], &["--tls-folder", text(&live), "--admin-http", "127.0.0.1:0"]].concat();
    let refused = |why: &str| {
        let data = folder.path().join("other");
        for command in [&["config", "check"][..], &["serve", "--c2s", "127.0.0.1:0", "--c2s-tls", "off"]] {
            let output = throng(&[command, &["--data", text(&data)], &flags[..]].concat());
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && said.contains(why), "{command:?}: {why} in {said}");
        }
    };
    let own = live.join("capulet.example");
    let at = |name: &str| own.join(name);
    // A misspelt folder, a file in its place, a dangling link.
    refused("No such file");
    fs::write(&live, "").expect("a file");
    refused("Not a directory");
    fs::remove_file(&live).expect("ours");
    fs::create_dir(&live).expect("a folder");
    std::os::unix::fs::symlink("/nothing/here", &own).expect("a link");
    refused(&format!("tls_folder: {}: No such file", own.display()));
    fs::remove_file(&own).expect("ours");
    // The domain's own folder, empty or with one of the two files; certbot's files are links.
    fs::create_dir(&own).expect("a folder");
    refused(&format!("tls_folder: {}: No such file", at("fullchain.pem").display()));
    let (chain, key) = write(folder.path(), "given", "capulet.example", -10, 100);
    std::os::unix::fs::symlink(&chain, at("fullchain.pem")).expect("a link");
    refused(&format!("tls_folder: {}: No such file", at("privkey.pem").display()));
    fs::remove_dir_all(&own).expect("ours");
    // No folder for this domain yet: the only case in which the server continues without one.
    let sentence = "capulet.example: self-signed by this server";
    let output = throng(&[&["config", "check", "--data", text(&folder.path().join("other"))], &flags[..]].concat());
    good(&output);
    assert!(String::from_utf8_lossy(&output.stderr).contains(sentence), "{output:?}");
    let server = Server::start_in(folder, &flags);
    let status = || {
        let output = server.ctl(&["status"]);
        good(&output);
        String::from_utf8(output.stdout).expect("text")
    };
    for said in [server.log(), status(), server.get("/ready")] {
        assert!(said.contains(sentence), "{said}");
    }
    let domains = |metrics: &str, count: u32| metrics.contains(&format!("\nthrong_tls_self_signed_domains {count}\n"));
    assert!(domains(&server.get("/metrics"), 1), "{}", server.get("/metrics"));
    // A reload that cannot read the certificate keeps the one in use; a reload that can replaces
    // it.
    fs::create_dir(&own).expect("a folder");
    let output = server.ctl(&["reload"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("fullchain.pem"), "{said}");
    fs::copy(&chain, at("fullchain.pem")).expect("a file");
    fs::copy(&key, at("privkey.pem")).expect("a file");
    good(&server.ctl(&["reload"]));
    assert!(domains(&server.get("/metrics"), 0) && !status().contains("self-signed"), "{}", status());
    assert!(server.get("/ready").contains("\"warnings\":[]"));
}

/// A folder that only another user may enter, like certbot's. Root may enter every folder, so this
/// test needs another user.
#[test]
fn a_folder_of_certificates_that_the_server_may_not_enter_is_an_error() {
    if !rustix::process::geteuid().is_root() {
        return entered_by_its_own_user();
    }
    // As root: the command runs as nobody, who may not enter the folder.
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("ours");
    let live = folder.path().join("live");
    fs::create_dir(&live).expect("a folder");
    fs::set_permissions(&live, Permissions::from_mode(0o700)).expect("ours");
    let data = folder.path().join("data");
    let program = folder.path().join("throng");
    fs::copy(crate::support::THRONG, &program).expect("a copy");
    let mut command = std::process::Command::new(&program);
    std::os::unix::process::CommandExt::uid(&mut command, 65_534);
    refused_entrance(command.args(["config", "check", "--data", text(&data), "--tls-folder", text(&live)]));
}

fn entered_by_its_own_user() {
    let folder = tempfile::tempdir().expect("a folder");
    let live = folder.path().join("live");
    fs::create_dir(&live).expect("a folder");
    fs::set_permissions(&live, Permissions::from_mode(0o000)).expect("ours");
    let data = folder.path().join("data");
    let mut command = std::process::Command::new(crate::support::THRONG);
    refused_entrance(command.args(["config", "check", "--data", text(&data), "--tls-folder", text(&live)]));
}

fn refused_entrance(command: &mut std::process::Command) {
    let output = command.output().expect("throng runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("Permission denied"), "{said}");
}

/// One list of checks: the check of the configuration refuses whatever a server refuses, in the
/// same words, and everything at once.
#[test]
fn a_check_of_the_configuration_refuses_the_files_and_programs_that_a_server_refuses() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_owned();
    for (name, text) in [("plain", "no program"), ("short", "short\n"), ("keys", "{}")] {
        fs::write(at(name), text).expect("a file");
        fs::set_permissions(at(name), Permissions::from_mode(0o600)).expect("ours");
    }
    let (gone, plain, short, keys) = (at("gone"), at("plain"), at("short"), at("keys"));
    let notify = "--http 127.0.0.1:0 --notify any";
    let no_file = format!("{gone}: No such file");
    let one_line = format!("{short}: it must be one line of at least 16 characters");
    let cases = [
        (format!("--external-auth localhost={gone}"), format!("external_auth: {gone}: there is no such program")),
        (format!("--external-auth localhost={plain}"), format!("external_auth: {plain}: it cannot be run: chmod +x")),
        (format!("--external-auth localhost={}", at("")), "it is not a program".to_owned()),
        (
            format!("--external-auth localhost=http://127.0.0.1:1/ --external-auth-token {gone}"),
            format!("external_auth_token: {no_file}"),
        ),
        (format!("--components gateway.localhost={gone}"), format!("components: {no_file}")),
        (format!("--components gateway.localhost={short}"), format!("components: {one_line}")),
        (format!("{notify} --notify-token {gone}"), format!("notify_token: {no_file}")),
        (format!("{notify} --notify-jwt-keys {keys}"), format!("notify_jwt_keys: {keys}: ")),
        (
            format!("{notify} --notify-push --notify-push-contact mailto:a@b.example --notify-push-authorities {gone}"),
            format!("notify_push_authorities: {no_file}"),
        ),
        (
            format!(
                "--http 127.0.0.1:0 --notify-ask app. --notify-ask-url http://127.0.0.1:1/ --notify-ask-token {gone}"
            ),
            format!("notify_ask_token: {no_file}"),
        ),
        (
            format!("--external-services stun:example.org --external-services-secret {short}"),
            format!("external_services_secret: {one_line}"),
        ),
        (format!("--admin-http 127.0.0.1:0 --admin-http-token {gone}"), format!("admin_http_token: {no_file}")),
        (format!("--admin-socket {gone}/throng.sock"), format!("admin_socket: {no_file}")),
        (format!("--tls-client-authorities {gone}"), format!("cannot read {no_file}")),
        (format!("--tls-certificate {gone} --tls-key {gone}"), format!("cannot read {no_file}")),
        // Both at once.
        (format!("--components a.localhost={gone},b.localhost={short}"), no_file.clone()),
        (format!("--components a.localhost={gone},b.localhost={short}"), format!("components: {one_line}")),
    ];
    let data = at("data");
    for (given, why) in cases {
        let given: Vec<&str> = given.split(' ').chain(["--data", &data]).collect();
        for command in [&["config", "check"][..], &["serve", "--c2s", "127.0.0.1:0", "--c2s-tls", "off"]] {
            let output = throng(&[command, &given[..]].concat());
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && said.contains(&why), "{command:?} {given:?}: {why} in {said}");
        }
    }
}

/// A token is as secret as a key: if every user of the host may read it, the check and the server's
/// log report a fault.
#[test]
fn a_secret_that_every_user_may_read_is_a_fault() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("secret");
    fs::write(&secret, "0123456789abcdef\n").expect("a file");
    let component = format!("gateway.localhost={}", text(&secret));
    let flags = [
        "--components",
        &component,
        "--component",
        "127.0.0.1:0",
        "--admin-http",
        "127.0.0.1:0",
        "--admin-http-token",
        text(&secret),
    ];
    let check = || throng(&[&["config", "check", "--data", text(&folder.path().join("other"))], &flags[..]].concat());
    fs::set_permissions(&secret, Permissions::from_mode(0o640)).expect("ours");
    good(&check());
    fs::set_permissions(&secret, Permissions::from_mode(0o644)).expect("ours");
    let (output, told) = (check(), "can be read by every user of this host (mode 0644): chmod o-r ");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let of = |key: &str| format!("{key}: {} {told}", secret.display());
    assert!(!output.status.success() && said.contains(&of("components")), "{said}");
    assert!(said.contains(&of("admin_http_token")), "{said}");
    let expected = of("components");
    let server = Server::start_in(folder, &flags);
    assert!(server.log().contains(&expected), "{}", server.log());
}

/// RFC 7622 3.2.1: a domain has one form in JIDs, however it was written; RFC 5890: another one in
/// certificates.
#[test]
fn a_domain_beyond_ascii_serves_clients_and_has_its_a_label_in_the_certificate() {
    for given in ["xn--mnchen-3ya.example", "M\u{fc}nchen.example"] {
        let folder = tempfile::tempdir().expect("a folder");
        let toml = folder.path().join("server.toml");
        fs::write(&toml, format!("domain = \"{given}\"\n")).expect("a file");
        // The accounts are created by a command with the same configuration.
        let data = folder.path().join("data");
        fs::create_dir(&data).expect("a folder");
        fs::copy(&toml, data.join("throng.toml")).expect("a file");
        let server = Server::start_in(folder, &[]);
        let mut stream = TcpStream::connect(&server.plain).expect("a connection");
        stream.set_read_timeout(Some(LONG)).expect("a time-out");
        let open = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0' \
                    to='m\u{fc}nchen.example'>";
        stream.write_all(open.as_bytes()).expect("sent");
        let mut said = String::new();
        while !said.contains("</stream:features>") && !said.contains("stream:error") {
            let mut bytes = [0; 4_096];
            let count = stream.read(&mut bytes).expect("an answer");
            assert!(count > 0, "{said}");
            said += &String::from_utf8_lossy(&bytes[..count]);
        }
        assert!(said.contains("from='m\u{fc}nchen.example'") && said.contains("<mechanism>"), "{said}");
        let certificate = ["x509", "-noout", "-ext", "subjectAltName", "-in"];
        let shown = std::process::Command::new("openssl").args(certificate).arg(data_certificate(&server)).output();
        let shown = String::from_utf8(shown.expect("openssl is installed").stdout).expect("text");
        assert!(shown.contains("DNS:xn--mnchen-3ya.example"), "{shown}");
        assert!(!server.log().contains("not for"), "{}", server.log());
    }
    let long = format!("{}.example", "a".repeat(64));
    let output = throng(&["config", "check", "--domain", &long]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("labels of at most 63 bytes"), "{said}");
}

fn data_certificate(server: &Server) -> PathBuf {
    Path::new(&server.folder()).join("tls/cert.pem")
}

/// The hook, with a lineage as certbot leaves it: links to files that only root may read.
#[test]
fn the_hook_for_certbot_copies_what_the_server_may_read_and_reloads_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (live, into) = (folder.path().join("live/capulet.example"), folder.path().join("certificates"));
    fs::create_dir_all(&live).expect("a folder");
    let names = ["fullchain.pem", "privkey.pem"];
    let lineage = |from_days: i64| {
        let files = write(folder.path(), &format!("archive{from_days}"), "capulet.example", from_days, 100);
        for (name, file) in names.iter().zip([files.0, files.1]) {
            let _ = fs::remove_file(live.join(name));
            std::os::unix::fs::symlink(file, live.join(name)).expect("a link");
        }
    };
    let user = std::process::Command::new("id").arg("-un").output().expect("id runs").stdout;
    let user = String::from_utf8(user).expect("text");
    let hook = |reload: &str| {
        let hook = Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/certbot/throng");
        let mut command = std::process::Command::new(hook);
        command.env("RENEWED_LINEAGE", &live).env("RENEWED_DOMAINS", "capulet.example *.capulet.example");
        command.env("THRONG_CERTIFICATES", &into).env("THRONG_USER", user.trim()).env("THRONG_RELOAD", reload);
        let output = command.output().expect("the hook runs");
        good(&output);
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    lineage(-30);
    assert!(hook("false").contains("was not reloaded"), "a server that does not run is no failure");
    let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
    let own = into.join("capulet.example");
    assert_eq!((mode(&own), mode(&own.join("privkey.pem")), mode(&into)), (0o750, 0o640, 0o750));
    let flags = ["--virtual-hosts", "capulet.example", "--tls-folder", text(&into)];
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::start_in(data, &flags);
    // A stream that is opened under the certificate of the lineage.
    let shown = |name: &str| {
        let mut client = Client::connect_tls_as(&server.direct, &folder.path().join(name), "capulet.example");
        let header = "<stream:stream to='capulet.example' version='1.0' xmlns='jabber:client' \
                      xmlns:stream='http://etherx.jabber.org/streams'>";
        client.ask(header, "</stream:features>");
    };
    shown("archive-30.pem");
    lineage(-10);
    let reload = format!("{} ctl reload --data {}", crate::support::THRONG, server.folder());
    assert_eq!(hook(&reload), "");
    shown("archive-10.pem");
    // One folder per domain is left, and the files of the server are those of the lineage.
    for name in names {
        assert_eq!(fs::read(own.join(name)).expect("a file"), fs::read(live.join(name)).expect("a file"));
    }
    assert_eq!(fs::read_dir(&into).expect("a folder").count(), 2, "a link, and what it leads to");
}

/// Folders that the hook has not made are left alone, wherever a link leads to, and a domain in
/// between ends nothing.
#[test]
fn the_hook_for_certbot_removes_only_what_it_has_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let (live, into) = (folder.path().join("live/capulet.example"), folder.path().join("certificates"));
    fs::create_dir_all(&live).expect("a folder");
    for name in ["fullchain.pem", "privkey.pem"] {
        fs::write(live.join(name), "new").expect("a file");
    }
    // An operator's own choice: a link to certbot's folder; and one to a folder elsewhere.
    fs::create_dir(&into).expect("a folder");
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a folder");
    fs::write(elsewhere.join("kept"), "").expect("a file");
    std::os::unix::fs::symlink("../live/capulet.example", into.join("capulet.example")).expect("a link");
    std::os::unix::fs::symlink(&elsewhere, into.join("montague.example")).expect("a link");
    std::os::unix::fs::symlink(".verona.example.a/../.", into.join("verona.example")).expect("a link");
    // A folder by hand, and the remains of a hook that was interrupted.
    for of in ["paris.example", ".paris.example.before"] {
        fs::create_dir(into.join(of)).expect("a folder");
        fs::write(into.join(of).join("fullchain.pem"), "old").expect("a file");
    }
    let user = std::process::Command::new("id").arg("-un").output().expect("id runs").stdout;
    let user = String::from_utf8(user).expect("text");
    let domains = ["capulet.example", "montague.example", "verona.example", "paris.example"];
    for _ in 0..2 {
        let mut command =
            std::process::Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/certbot/throng"));
        // A name that a shell would take for all files of the current folder.
        command.env("RENEWED_LINEAGE", &live).env("RENEWED_DOMAINS", format!("* {}", domains.join(" ")));
        command.env("THRONG_CERTIFICATES", &into).env("THRONG_USER", user.trim()).env("THRONG_RELOAD", "true");
        good(&command.current_dir(&elsewhere).output().expect("the hook runs"));
        for domain in domains {
            let own = into.join(domain);
            assert!(own.is_symlink(), "{domain}");
            assert_eq!(fs::read_to_string(own.join("fullchain.pem")).expect("a file"), "new", "{domain}");
        }
        assert!(live.join("privkey.pem").exists() && elsewhere.join("kept").exists());
        // A link and a folder for each.
        let names: Vec<String> = fs::read_dir(&into)
            .expect("a folder")
            .map(|entry| entry.expect("it").file_name().into_string().expect("text"))
            .collect();
        assert_eq!(names.len(), 2 * domains.len(), "{names:?}");
        assert!(!names.iter().any(|name| name.contains("kept") || name.ends_with(".before")), "{names:?}");
    }
}
