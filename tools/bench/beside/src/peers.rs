//! How ejabberd and Prosody are set up: their configurations, the files of Prosody's accounts, and where they are installed.
//!
//! Both are tuned for this: no limits on rates, no log but errors, only the modules that the load needs, no search for work
//! in a loop (Erlang's `+sbwt none`, which would count as CPU). What stays is as Debian ships it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use ring::{digest, hmac, pbkdf2};

use crate::place::{Group, Place, Stored};

/// Of all accounts.
pub(crate) const PASSWORD: &str = "secret";

/// PBKDF2 iterations of hashed passwords, the least that RFC 7677 4 allows; ejabberd's and Throng's default.
const ITERATIONS: u32 = 4096;

/// ejabberd's configuration.
pub(crate) fn ejabberd(place: &Place, stored: Stored) -> String {
    let format = match stored {
        Stored::Clear => "plain",
        Stored::Hashed => "scram",
    };
    let listener = |port: u16, security: &str| {
        format!(
            "  -\n    port: {port}\n    ip: \"{}\"\n    module: ejabberd_c2s\n    {security}\n    access: all\n    \
             shaper: none\n    max_stanza_size: 262144\n    backlog: 4096\n",
            place.plain.ip()
        )
    };
    format!(
        "hosts: [localhost]\nloglevel: error\ncertfiles: [{pem}]\nauth_password_format: {format}\n\
         cache_size: 100000\nlisten:\n{plain}{tls}modules:\n  mod_disco: {{}}\n  mod_muc: {{}}\n  mod_offline: {{}}\n  \
         mod_ping: {{}}\n  mod_roster: {{}}\n  \
         mod_stream_mgmt: {{}}\n",
        pem = place.folder.join("both.pem").display(),
        plain = listener(place.plain.port(), "starttls: true"),
        tls = listener(place.tls.port(), "tls: true"),
    )
}

/// Flags of the Erlang machine: polling in the kernel, room for connections, schedulers that sleep when there is nothing to
/// do.
pub(crate) const ERLANG: &[&str] = &[
    "-noinput",
    "+K",
    "true",
    "+P",
    "1000000",
    "+Q",
    "65536",
    "+sbwt",
    "none",
    "+sbwtdcpu",
    "none",
    "+sbwtdio",
    "none",
];

/// The library folder that ejabberd is installed in.
pub(crate) fn ejabberd_libraries() -> Option<PathBuf> {
    let holds = |dir: &Path| {
        let mut entries = fs::read_dir(dir).ok()?.flatten();
        entries.any(|entry| entry.file_name().to_string_lossy().starts_with("ejabberd-")).then(|| dir.to_owned())
    };
    let archs = fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
    archs.filter(|dir| dir.is_dir()).find_map(|dir| holds(&dir))
}

/// What Erlang has to evaluate in ejabberd's node to make these accounts and their rosters (records of `mod_roster.hrl`): the
/// same that [`crate::setup::members`] tells.
pub(crate) fn ejabberd_accounts(groups: &[Group]) -> String {
    let rows: Vec<String> = groups
        .iter()
        .map(|Group { prefix, count, contacts }| format!("{{<<\"{prefix}\">>,{count},{contacts}}}"))
        .collect();
    format!(
        "H = <<\"localhost\">>, lists:foreach(fun({{P, N, C}}) -> \
           Name = fun(I) -> <<P/binary, (integer_to_binary(I rem N))/binary>> end, \
           Item = fun(I, Other, Word) -> J = {{Name(Other), H, <<>>}}, \
             mnesia:dirty_write({{roster, {{Name(I), H, J}}, {{Name(I), H}}, J, <<>>, Word, none, [], <<>>, []}}) end, \
           [begin ok = ejabberd_auth:try_register(Name(I), H, <<\"{PASSWORD}\">>), \
             [case C * 2 >= N of \
                true -> Item(I, I + D, both); \
                false -> Item(I, I + D, to), Item(I, I + N - D, from) \
              end || D <- lists:seq(1, C)] \
            end || I <- lists:seq(0, N - 1)] end, [{}]).",
        rows.join(",")
    )
}

/// Prosody's configuration.
pub(crate) fn prosody(place: &Place, stored: Stored) -> String {
    let authentication = match stored {
        Stored::Clear => "internal_plain",
        Stored::Hashed => "internal_hashed",
    };
    let folder = place.folder.display();
    format!(
        "run_as_root = true\npidfile = \"{folder}/prosody.pid\"\ndata_path = \"{data}\"\ncertificates = \"{folder}\"\n\
         log = {{ {{ levels = {{ min = \"error\" }}, to = \"console\" }} }}\ninterfaces = {{ \"{ip}\" }}\n\
         c2s_ports = {{ {plain} }}\nc2s_direct_tls_ports = {{ {tls} }}\ns2s_ports = {{ }}\nhttp_ports = {{ }}\n\
         https_ports = {{ }}\nc2s_require_encryption = false\nallow_unencrypted_plain_auth = true\n\
         authentication = \"{authentication}\"\nnetwork_settings = {{ tcp_backlog = 4096 }}\n\
         modules_enabled = {{ \"roster\", \"saslauth\", \"tls\", \"disco\", \"ping\", \"offline\", \"smacks\" }}\n\
         modules_disabled = {{ \"s2s\" }}\n\
         ssl = {{ certificate = \"{folder}/crt.pem\", key = \"{folder}/key.pem\" }}\nVirtualHost \"localhost\"\n\
         Component \"conference.localhost\" \"muc\"\n",
        data = place.data.display(),
        ip = place.plain.ip(),
        plain = place.plain.port(),
        tls = place.tls.port(),
    )
}

/// One side's view of a contact: its name and the subscription (RFC 6121 2.1.2.5).
pub(crate) type Contact = (String, &'static str);

/// Files of Prosody's accounts and rosters.
pub(crate) fn prosody_accounts(
    data: &Path,
    stored: Stored,
    accounts: impl Iterator<Item = (String, Vec<Contact>)>,
) -> io::Result<()> {
    let host = data.join("localhost");
    fs::create_dir_all(host.join("accounts"))?;
    fs::create_dir_all(host.join("roster"))?;
    let account = match stored {
        Stored::Clear => format!("return {{ [\"password\"] = \"{PASSWORD}\"; }};\n"),
        Stored::Hashed => hashed(),
    };
    for (name, contacts) in accounts {
        fs::write(host.join("accounts").join(format!("{name}.dat")), &account)?;
        if !contacts.is_empty() {
            let item = |(name, subscription): &Contact| {
                format!(
                    "[\"{name}@localhost\"] = {{ [\"subscription\"] = \"{subscription}\"; [\"groups\"] = {{}}; }};\n"
                )
            };
            let items: String = contacts.iter().map(item).collect();
            let roster = format!("return {{ [false] = {{ [\"version\"] = 1; [\"pending\"] = {{}}; }};\n{items}}};\n");
            fs::write(host.join("roster").join(format!("{name}.dat")), roster)?;
        }
    }
    Ok(())
}

/// What a server keeps of the password for SCRAM-SHA-1 (RFC 5802 3), as Prosody writes it. One salt serves all accounts:
/// their password is the same, and the load derives its keys once.
fn hashed() -> String {
    const SALT: &str = "beside";
    let mut salted = [0; digest::SHA1_OUTPUT_LEN];
    let rounds = std::num::NonZeroU32::new(ITERATIONS).unwrap_or(std::num::NonZeroU32::MIN);
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA1, rounds, SALT.as_bytes(), PASSWORD.as_bytes(), &mut salted);
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &salted);
    let client = hmac::sign(&key, b"Client Key");
    let server = hmac::sign(&key, b"Server Key");
    let kept = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, client.as_ref());
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!(
        "return {{ [\"salt\"] = \"{SALT}\"; [\"iteration_count\"] = {ITERATIONS}; [\"stored_key\"] = \"{}\"; \
         [\"server_key\"] = \"{}\"; }};\n",
        hex(kept.as_ref()),
        hex(server.as_ref())
    )
}

/// Version of an installed Debian package.
pub(crate) fn package_version(name: &str) -> Option<String> {
    let done = Command::new("dpkg-query").args(["-W", "-f", "${db:Status-Status} ${Version}", name]).output().ok()?;
    let text = String::from_utf8(done.stdout).ok()?;
    text.strip_prefix("installed ").map(str::to_owned)
}
