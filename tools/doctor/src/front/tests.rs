use clap::{Args as _, FromArgMatches as _};

use super::asked::Asked;
use super::*;

/// The configuration for these arguments.
fn asked(arguments: &str) -> Result<(Proxy, Front), String> {
    let command = Asked::augment_args(clap::Command::new("front").no_binary_name(true));
    let matches = command.try_get_matches_from(arguments.split(' ')).map_err(|error| error.to_string())?;
    let asked = Asked::from_arg_matches(&matches).map_err(|error| error.to_string())?;
    Ok((asked.proxy, asked.front()?))
}

fn text(arguments: &str) -> String {
    let (proxy, front) = asked(arguments).expect("it fits together");
    write(proxy, &front, None)
}

#[test]
fn a_worker_has_both_ends_of_its_share_twice() {
    let (_, front) = asked("nginx -n 100000 --workers 4 --listen 0.0.0.0:5222").expect("it fits together");
    assert_eq!((front.descriptors(), front.entries()), (101_024, 101_024));
}

#[test]
fn each_configuration_of_streams_has_what_was_planned() {
    for proxy in ["nginx", "haproxy"] {
        let common = "-n 100000 --workers 4 --listen 0.0.0.0:5222 --listen-tls [::]:5223 --to 127.0.0.1:5222 --to 127.0.0.2:5222";
        let common = common.replace(":5222 --to", ":5422 --to").replace(".2:5222", ".2:5422");
        let text = text(&format!("{proxy} {common} --silence 3600"));
        for part in [
            "0.0.0.0:5222",
            "[::]:5223",
            "127.0.0.1:5422",
            "127.0.0.2:5422",
            "127.0.0.1:5323",
            "3600s",
            "--c2s off --c2s-proxied 127.0.0.1:5422 --c2s-proxied 127.0.0.2:5422",
            "--c2s-tls off --c2s-tls-proxied 127.0.0.1:5323",
        ] {
            assert!(text.contains(part), "{proxy:?} lacks {part}:\n{text}");
        }
        assert!(!text.contains("http"), "{text}");
        let told = ["proxy_protocol on", "send-proxy-v2"].iter().any(|word| text.contains(word));
        let off = self::text(&format!("{proxy} {common} --no-proxy-protocol"));
        assert!(told && !off.contains("proxy_protocol on") && !off.contains("send-proxy"), "{off}");
        assert!(off.contains("--c2s 127.0.0.1:5422") && !off.contains("-proxied"), "{off}");
    }
}

#[test]
fn each_configuration_of_the_web_has_what_was_planned() {
    for proxy in ["nginx", "haproxy", "caddy"] {
        let text = text(&format!("{proxy} --domain Example.org --to-web 127.0.0.1:5280 --to-web 127.0.0.2:5280"));
        for part in PATHS.iter().chain(&PATHS_BELOW).chain(&[
            "X-Forwarded-For",
            ":443",
            "127.0.0.1:5280",
            "127.0.0.2:5280",
            "--http 127.0.0.1:5280 --http 127.0.0.2:5280 --http-forwarded",
            "--websocket-url wss://example.org/xmpp-websocket",
            "--bosh-url https://example.org/http-bind",
            "404",
        ]) {
            assert!(text.contains(part), "{proxy:?} lacks {part}:\n{text}");
        }
        assert!(!text.contains("c2s") && !text.contains("--i-know"), "{text}");
        let far = self::text(&format!("{proxy} --domain a.example --listen-web [::1]:5443 --to-web 192.0.2.1:80"));
        assert!(far.contains("--i-know") && far.contains("wss://a.example:5443/xmpp-websocket"), "{far}");
    }
}

/// HAProxy detects vanished clients by an option of the frontend, which a frontend only inherits
/// from the defaults above it. XMPP over TCP lacks it.
#[test]
fn haproxy_ends_requests_whose_clients_are_gone() {
    let text = text("haproxy --domain a.example --listen 0.0.0.0:5222");
    let (above, web) = text.split_once("\nfrontend web").expect("there is a web");
    let (streams, defaults) = above.rsplit_once("\ndefaults").expect("there are defaults");
    assert!(defaults.contains("option abortonclose") && streams.contains("\nfrontend xmpp\n"), "{text}");
    assert!(
        !streams.contains("abortonclose") && !web.contains("abortonclose") && !web.contains("\ndefaults"),
        "{text}"
    );
}

/// A long poll waits for five minutes, however short the configured idle time is.
#[test]
fn no_time_out_is_shorter_than_a_long_poll() {
    for (proxy, part) in
        [("nginx", "proxy_read_timeout 360s;"), ("haproxy", "timeout server 360s\n    timeout tunnel 360s")]
    {
        let text = text(&format!("{proxy} --domain a.example --silence 60"));
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn certificates_are_where_each_program_expects_them() {
    let usual = "/etc/letsencrypt/live/a.example/";
    assert!(text("nginx --domain a.example").contains(&format!("ssl_certificate {usual}fullchain.pem;")));
    assert!(text("nginx --domain a.example").contains(&format!("ssl_certificate_key {usual}privkey.pem;")));
    assert!(text("haproxy --domain a.example").contains("ssl crt /etc/haproxy/a.example.pem "));
    let by_itself = text("caddy --domain a.example");
    assert!(!by_itself.contains("\ttls ") && !by_itself.contains("auto_https"), "{by_itself}");
    let given = text("caddy --domain a.example --certificate /c.pem --key /k.pem");
    assert!(given.contains("\ttls /c.pem /k.pem\n") && given.contains("auto_https disable_redirects"), "{given}");
}

#[test]
fn what_does_not_fit_together_is_refused_with_what_to_give() {
    for (arguments, words) in [
        ("nginx", "--domain example.org"),
        ("caddy --listen 0.0.0.0:5222", "nginx or haproxy"),
        ("caddy --domain a.example --certificate /c.pem", "--key"),
        ("nginx --domain a.example --certificate /c.pem", "--key"),
        ("haproxy --domain a.example --certificate /c.pem --key /k.pem", "cat CERTIFICATE KEY"),
        ("nginx --domain a.example --certificate /c;}.pem --key /k.pem", "another name"),
        ("nginx --domain a;return", "host name"),
        ("nginx --domain a\n{}", "host name"),
        ("nginx --domain=-a", "host name"),
        ("nginx --domain .a", "host name"),
        ("nginx --listen 127.0.0.1:1 --to 127.0.0.1:1", "both listen"),
        ("nginx --listen 0.0.0.0:5222 --to 127.0.0.1:5222", "both listen"),
        ("nginx --domain a.example --listen-web 0.0.0.0:5280", "both listen"),
        ("nginx --listen 0.0.0.0:5222 --listen-tls 127.0.0.1:5222", "twice"),
        ("nginx --listen 0.0.0.0:5222 --to-web 127.0.0.1:5280", "--domain"),
        ("nginx --domain a.example --force", "--out"),
    ] {
        let told = asked(arguments).map(|_| ()).expect_err(arguments);
        assert!(told.contains(words), "{arguments}: {told}");
    }
}

/// The file may be one that an operator has edited.
#[test]
fn a_file_that_is_there_is_overwritten_only_if_told_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("throng.cfg");
    let write = |more: &[&str]| {
        let out = ["doctor", "front", "haproxy", "--domain", "a.example", "--out", file.to_str().expect("a name")];
        let matches = crate::cli::command().try_get_matches_from(out.iter().chain(more));
        let mut told = Vec::new();
        // HAProxy's verdict on the file, if it is installed, does not matter.
        match crate::cli::run(&matches.expect("a command"), false, false, &mut told) {
            Err(crate::cli::Failure::Failed(why)) if why.contains("exists") => Err(why),
            _ => Ok(std::fs::read_to_string(&file).expect("it is there")),
        }
    };
    let first = write(&[]).expect("it was not there");
    assert!(first.contains("a.example"));
    std::fs::write(&file, first.clone() + "# By hand.\n").expect("it is changed");
    let why = write(&[]).expect_err("it is there");
    assert!(why.contains("throng.cfg exists") && why.contains("--force"), "{why}");
    assert!(std::fs::read_to_string(&file).expect("it is there").ends_with("# By hand.\n"));
    assert_eq!(write(&["--force"]), Ok(first));
    // A dangling link counts as an existing file.
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(folder.path().join("nothing"), &link).expect("a link");
    assert!(save(&link, "x", false).is_err() && !folder.path().join("nothing").exists());
}

#[test]
fn a_name_of_a_file_stays_in_its_comment() {
    let (proxy, front) = asked("caddy --domain a.example").expect("it fits together");
    let text = write(proxy, &front, Some(Path::new("a\nrespond 200")));
    assert!(text.contains("--config a?respond 200\n"), "{text}");
}
