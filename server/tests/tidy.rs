//! House rules as tests: the direction of imports, layers of files, sizes of files, bounded queues,
//! and where unsafe code is permitted. The reasons are in ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Modules of the engine, each with the modules that it may name. It must not know any other.
const ENGINE: &[(&str, &[&str])] = &[
    ("id", &[]),
    ("clock", &["id"]),
    ("limits", &[]),
    ("counters", &[]),
    ("outbound", &["id"]),
    ("slots", &[]),
    ("wire", &["limits"]),
    ("ns", &["wire"]),
    ("follow", &["id"]),
    ("web", &["follow", "id", "limits", "ns", "wire"]),
    ("store", &["follow", "id", "limits"]),
    ("orders", &["limits", "store"]),
    ("extension", &["follow", "id", "limits", "ns", "orders", "store", "wire"]),
    ("portable", &["extension", "id", "limits", "ns", "store", "wire"]),
    ("session", &["extension", "follow", "id", "limits", "ns", "outbound", "slots", "store", "web", "wire"]),
    ("letters", &["extension", "id", "limits", "session", "store", "web", "wire"]),
    ("link", &["limits"]),
    ("router", &["extension", "id", "letters", "session", "slots", "store"]),
    ("settings", &["extension", "id", "limits", "session", "store", "web"]),
    ("observers", &["id", "limits", "ns", "wire"]),
    ("io", &["extension", "id", "letters", "observers", "orders", "session", "settings", "store", "web", "wire"]),
    ("gate", &["id", "io"]),
    (
        "kernel",
        &["counters", "extension", "id", "io", "letters", "ns", "router", "session", "settings", "store", "wire"],
    ),
    ("codec", &["id", "kernel", "letters", "limits", "session"]),
    (
        "streams",
        &["id", "io", "kernel", "letters", "limits", "ns", "outbound", "session", "slots", "store", "web", "wire"],
    ),
    (
        "channels",
        &[
            "counters",
            "extension",
            "follow",
            "id",
            "io",
            "kernel",
            "letters",
            "limits",
            "session",
            "slots",
            "store",
            "streams",
            "web",
            "wire",
        ],
    ),
    (
        "actors",
        &[
            "extension",
            "id",
            "io",
            "kernel",
            "letters",
            "limits",
            "ns",
            "observers",
            "router",
            "session",
            "store",
            "streams",
            "wire",
        ],
    ),
    (
        "logs",
        &[
            "actors",
            "extension",
            "id",
            "io",
            "kernel",
            "letters",
            "ns",
            "outbound",
            "router",
            "session",
            "settings",
            "store",
            "streams",
            "wire",
        ],
    ),
    (
        "contacts",
        &[
            "actors",
            "extension",
            "follow",
            "id",
            "io",
            "kernel",
            "letters",
            "limits",
            "ns",
            "router",
            "session",
            "settings",
            "store",
            "streams",
            "wire",
        ],
    ),
    (
        "accounts",
        &[
            "actors",
            "extension",
            "id",
            "io",
            "kernel",
            "letters",
            "limits",
            "router",
            "session",
            "settings",
            "store",
            "streams",
            "wire",
        ],
    ),
    (
        "rooms",
        &[
            "actors",
            "extension",
            "follow",
            "id",
            "io",
            "kernel",
            "letters",
            "limits",
            "ns",
            "router",
            "settings",
            "store",
            "streams",
            "wire",
        ],
    ),
    (
        "components",
        &[
            "actors",
            "extension",
            "id",
            "io",
            "kernel",
            "letters",
            "limits",
            "ns",
            "router",
            "session",
            "streams",
            "web",
            "wire",
        ],
    ),
];

/// The modules of the engine that make up a shard, including the shard.
const MODULES: &[&str] =
    &["kernel", "streams", "channels", "actors", "logs", "contacts", "accounts", "rooms", "components", "shard"];

/// Those of [`MODULES`] that are not handed each other.
const SIBLINGS: &[&str] = &["channels", "logs", "contacts", "accounts", "rooms", "components"];

/// Limit of lines per file of [`MODULES`].
const MODULE_LINES_MAX: usize = 600;

/// The modules in which every silent return must state its reason.
const SAY_WHY: &[&str] = &["channels", "components", "shard"];

/// Number of silent returns in [`SAY_WHY`] without a reason. It may only decrease.
const SILENT_MAX: usize = 60;

/// Modules that know all others: the shard is the only parent.
const PARENTS: &[&str] = &["shard", "lib"];

/// Modules of the server, each with the modules of the server that it must not name.
const SERVER_NEVER: &[(&str, &[&str])] = &[
    ("driver", &["admin", "cli", "config", "disk", "jobs", "letters", "links", "log", "serve", "thread", "tls"]),
    ("tls", &["admin", "cli", "config", "disk", "driver", "jobs", "letters", "links", "log", "serve", "thread"]),
    ("disk", &["admin", "cli", "config", "driver", "jobs", "letters", "links", "log", "serve", "thread", "tls"]),
    ("config", &["admin", "disk", "driver", "jobs", "letters", "links", "serve", "thread", "tls"]),
    ("links", &["admin", "cli", "config", "disk", "jobs", "letters", "log", "serve", "thread"]),
    ("letters", &["admin", "cli", "config", "disk", "driver", "jobs", "links", "log", "serve", "thread"]),
    ("thread", &["admin", "cli", "config", "log", "serve"]),
    (
        "clock",
        &[
            "admin", "bench", "cli", "config", "disk", "driver", "events", "http", "jobs", "letters", "links", "log",
            "profile", "record", "serve", "thread", "tls", "top", "upload",
        ],
    ),
    ("http", &["cli", "config", "disk", "driver", "jobs", "letters", "links", "log", "serve", "thread", "tls"]),
    (
        "record",
        &[
            "admin", "bench", "cli", "config", "disk", "driver", "jobs", "letters", "links", "log", "serve", "thread",
            "tls",
        ],
    ),
    (
        "profile",
        &[
            "admin", "cli", "config", "disk", "http", "jobs", "letters", "links", "log", "record", "serve", "thread",
            "tls",
        ],
    ),
    (
        "waits",
        &[
            "admin", "bench", "cli", "config", "disk", "driver", "events", "http", "jobs", "letters", "links", "log",
            "plant", "profile", "record", "serve", "thread", "tls",
        ],
    ),
    (
        "waking",
        &[
            "admin", "bench", "cli", "config", "disk", "driver", "events", "http", "jobs", "letters", "links", "log",
            "plant", "profile", "record", "serve", "thread", "tls", "top",
        ],
    ),
    (
        "plant",
        &[
            "admin", "cli", "config", "disk", "driver", "http", "jobs", "letters", "links", "record", "serve",
            "thread", "waits",
        ],
    ),
    (
        "top",
        &[
            "bench", "cli", "config", "disk", "driver", "http", "jobs", "letters", "links", "log", "profile", "record",
            "serve", "thread", "tls",
        ],
    ),
    (
        "bytestreams",
        &[
            "admin", "bench", "cli", "config", "driver", "http", "jobs", "letters", "links", "log", "plant", "profile",
            "record", "serve", "thread", "tls", "top", "upload",
        ],
    ),
    (
        "backup",
        &[
            "admin", "bench", "cli", "config", "driver", "http", "jobs", "letters", "links", "log", "plant", "profile",
            "record", "serve", "thread", "tls", "top", "upload",
        ],
    ),
    (
        "upload",
        &[
            "admin", "bench", "cli", "config", "driver", "jobs", "letters", "links", "log", "plant", "profile",
            "record", "serve", "thread", "tls", "top",
        ],
    ),
    (
        "portable",
        &[
            "admin", "bench", "cli", "config", "driver", "jobs", "letters", "links", "log", "plant", "profile",
            "record", "serve", "thread", "tls", "top", "upload",
        ],
    ),
    (
        "acme",
        &["admin", "bench", "cli", "config", "disk", "driver", "jobs", "letters", "links", "log", "serve", "thread"],
    ),
    ("bench", &["admin", "cli", "config", "disk", "jobs", "letters", "links", "log", "serve", "thread", "tls"]),
];

/// Modules of the load generator, each with the modules of it that it may name; an unlisted one may
/// name any except `cli`.
const LOAD: &[(&str, &[&str])] = &[
    ("driver", &[]),
    ("sasl", &[]),
    ("delivery", &[]),
    ("wheel", &[]),
    ("random", &[]),
    ("histogram", &[]),
    ("figures", &[]),
    ("proc", &[]),
    ("keys", &[]),
    ("web", &[]),
    ("framing", &[]),
    ("websocket", &["framing", "web"]),
    ("bosh", &["framing", "wheel"]),
    ("scenario", &["keys"]),
    ("client", &["sasl"]),
    ("phases", &["scenario"]),
    ("accounts", &["client", "sasl", "scenario"]),
];

/// The crates of the product, in an order in which each links only earlier ones.
const CRATES: [&str; 8] = ["dumps", "engine", "sys", "tls", "tools/load", "tools/doctor", "tools/recorder", "server"];

/// The simulated world, which only tests and benchmarks link.
const SIM: &str = "sim";

/// Modules of the recorder, each with the modules of it that it may name.
const RECORDER: &[(&str, &[&str])] = &[
    ("schema", &[]),
    ("table", &["schema"]),
    ("coder", &[]),
    ("codec", &["coder", "table"]),
    ("record", &["codec", "schema", "table"]),
    ("read", &["codec", "record", "schema", "table"]),
    ("total", &["schema", "table"]),
    ("thin", &["read", "record", "schema", "table", "total"]),
    ("ring", &["record"]),
    ("window", &["record"]),
    ("sources", &["schema", "table"]),
    ("recorder", &["record", "ring", "schema", "table", "thin", "window"]),
    ("clock", &["recorder"]),
    ("sar", &["clock", "read", "record", "recorder", "ring", "schema", "sources", "table", "thin", "total"]),
];

/// Limit of lines of a file, beyond which its module documentation must give a reason.
const LINES_MAX: usize = 1_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

fn files(dir: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(dir).expect("a folder").map(|e| e.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
}

fn sources(krate: &str) -> Vec<(String, String)> {
    let src = root().join(krate).join("src");
    let mut paths = Vec::new();
    files(&src, "rs", &mut paths);
    assert!(!paths.is_empty(), "no sources in {krate}");
    paths
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(&src).expect("below src").to_string_lossy().into_owned();
            (name, fs::read_to_string(&path).expect("a readable file"))
        })
        .collect()
}

/// The top-level module of a file below `src`.
fn top_module(file: &str) -> &str {
    file.split(['/', '.']).next().expect("a name")
}

/// Modules named as `crate::module`, with the line. Tests inside files may name anything.
fn named(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("mod tests") {
            break;
        }
        let code = line.split("//").next().unwrap_or_default();
        for (at, _) in code.match_indices("crate::") {
            let rest = &code[at + "crate::".len()..];
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            if !rest[..end].is_empty() {
                found.push((number + 1, &rest[..end]));
            }
        }
    }
    found
}

#[test]
fn engine_modules_name_only_modules_below_them() {
    let mut wrong = Vec::new();
    for (file, text) in sources("engine") {
        let own = top_module(&file);
        if PARENTS.contains(&own) || file.contains("tests") {
            continue;
        }
        let Some((_, allowed)) = ENGINE.iter().find(|(name, _)| *name == own) else {
            wrong.push(format!("engine/src/{file}: the module {own} is not in the table"));
            continue;
        };
        for (line, other) in named(&text) {
            if other != own && !allowed.contains(&other) {
                wrong.push(format!("engine/src/{file}:{line}: {own} must not know {other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_of_modules_has_no_circle() {
    // There is no cycle if the modules are in an order in which each names only earlier ones.
    for (index, (module, allowed)) in ENGINE.iter().enumerate() {
        for other in *allowed {
            let place = ENGINE.iter().position(|(name, _)| name == other).expect("a module of the table");
            assert!(place < index, "{module} names {other}, which stands behind it");
        }
    }
}

#[test]
fn siblings_do_not_name_each_other() {
    for (module, allowed) in ENGINE.iter().filter(|(module, _)| SIBLINGS.contains(module)) {
        let named: Vec<_> = allowed.iter().filter(|other| SIBLINGS.contains(other)).collect();
        assert!(named.is_empty(), "{module} names {named:?}; what crosses siblings is in shard/");
    }
}

#[test]
fn features_do_not_call_each_other() {
    let apart = ["disco", "last", "ping", "private", "register", "session", "time", "version"];
    for (file, text) in sources("engine") {
        let Some(name) = file.strip_prefix("extension/").and_then(|f| f.strip_suffix(".rs")) else { continue };
        if !apart.contains(&name) {
            continue;
        }
        for other in apart.iter().filter(|other| **other != name) {
            for form in [format!("super::{other}::"), format!("extension::{other}::"), format!("{other}::handle")] {
                // Discovery shows what version reports: the one name of the software.
                let shown = name == "disco" && *other == "version";
                assert!(shown || !text.contains(&form), "engine/src/{file} names the extension {other}");
            }
        }
    }
}

#[test]
fn server_modules_do_not_reach_across() {
    let mut wrong = Vec::new();
    for (file, text) in sources("server") {
        let own = top_module(&file);
        let Some((_, never)) = SERVER_NEVER.iter().find(|(name, _)| *name == own) else { continue };
        if file.contains("tests") {
            continue;
        }
        for (line, other) in named(&text) {
            if never.contains(&other) {
                wrong.push(format!("server/src/{file}:{line}: {own} must not know {other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The module path of a file below `src`.
fn module(file: &str) -> Vec<&str> {
    let path = file.strip_suffix(".rs").expect("a Rust file");
    path.strip_suffix("/mod").unwrap_or(path).split('/').collect()
}

/// Reads a path from the front, the paths of a group one by one, and adds each with `before` to
/// `found`. Returns the rest.
fn unfold<'a>(before: &[&'a str], text: &'a str, found: &mut Vec<Vec<&'a str>>) -> &'a str {
    let mut path = before.to_vec();
    let mut rest = text.trim_start();
    loop {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        if end > 0 {
            path.push(&rest[..end]);
            rest = &rest[end..];
        }
        match rest.strip_prefix("::") {
            Some(behind) if end > 0 => rest = behind,
            _ => break,
        }
    }
    let Some(mut group) = rest.strip_prefix('{').filter(|_| !path.is_empty()) else {
        found.push(path);
        return rest;
    };
    loop {
        group = unfold(&path, group, found);
        // An alias may follow a name.
        let Some(end) = group.find([',', '}']) else { return group };
        let (last, behind) = (group.as_bytes()[end] == b'}', &group[end + 1..]);
        group = behind.trim_start();
        if last {
            return group;
        }
    }
}

/// Files that a file names by `crate::` or `super::`, except its parents: a parent names its
/// children by being one.
fn names<'a>(file: &str, code: &str, files: &BTreeMap<Vec<&str>, &'a str>) -> BTreeSet<&'a str> {
    let own = module(file);
    let mut paths = Vec::new();
    for (at, _) in code.match_indices("crate::").chain(code.match_indices("super::")) {
        if !code[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':') {
            unfold(&[], &code[at..], &mut paths);
        }
    }
    let mut named = BTreeSet::new();
    for path in paths {
        let up = path.iter().take_while(|part| **part == "super").count();
        let mut at = if up == 0 { Vec::new() } else { own[..own.len().saturating_sub(up)].to_vec() };
        at.extend(&path[up.max(1)..]);
        while !at.is_empty() && !files.contains_key(&at) {
            at.pop();
        }
        if !own.starts_with(&at) {
            named.insert(files[&at]);
        }
    }
    named
}

#[test]
fn files_of_a_module_stand_in_layers() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for krate in CRATES.into_iter().chain([SIM]) {
        let sources = sources(krate);
        let files = sources.iter().map(|(file, _)| (module(file), file.as_str())).collect::<BTreeMap<_, _>>();
        let mut above = BTreeMap::new();
        for (file, text) in sources.iter().filter(|(file, _)| !file.contains("tests")) {
            let lines = text.lines().take_while(|line| !line.trim_start().starts_with("mod tests"));
            let code: Vec<_> = lines.map(|line| line.split("//").next().unwrap_or_default()).collect();
            let mut named = names(file, &code.join("\n"), &files);
            named.retain(|other| top_module(other) == top_module(file));
            above.insert(file.as_str(), named);
        }
        seen += above.values().map(BTreeSet::len).sum::<usize>();
        // Removes, layer by layer, the files that name none of those left; what remains is in a
        // cycle, or above one.
        while let Some(file) = above.iter().find(|(_, named)| named.is_empty()).map(|(file, _)| *file) {
            above.remove(file);
            for named in above.values_mut() {
                named.remove(file);
            }
        }
        wrong.extend(above.iter().map(|(file, named)| format!("{krate}/src/{file} names {named:?}")));
    }
    assert!(seen > 10, "no file names another");
    assert!(wrong.is_empty(), "a circle of files:\n{}", wrong.join("\n"));
}

/// A user half communicates with its stream half by letters: only the shard itself accesses
/// connections above the layer of the streams.
#[test]
fn user_halves_touch_no_connection() {
    let mut wrong = Vec::new();
    for (file, text) in
        sources("engine").iter().filter(|(file, _)| ["actors", "logs", "contacts"].contains(&top_module(file)))
    {
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if [".conns", ".halves", "ConnState", "Outbound"].iter().any(|form| code.contains(form)) {
                wrong.push(format!("engine/src/{file}:{}: {}", number + 1, code.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Lines with a `let ... else { return };` without a comment before it that says what may be gone:
/// the impossible must be asserted instead.
fn silent_returns(text: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let comment = |line: &str| line.starts_with("//") && !line.starts_with("///");
    let is_silent = |at: usize| match lines[at] {
        line if line.ends_with("else { return };") => true,
        line => line.ends_with("else {") && lines.get(at + 1..at + 3).is_some_and(|next| next == ["return;", "};"]),
    };
    let begins = |at: usize| (0..=at).rev().find(|at| lines[*at].starts_with("let ")).unwrap_or(at);
    (0..lines.len()).filter(|at| is_silent(*at) && !(begins(*at) > 0 && comment(lines[begins(*at) - 1]))).collect()
}

#[test]
fn whoever_returns_in_silence_says_who_may_have_gone() {
    let code = "// Gone.\nlet Some(a) = b else { return };\nlet Some(c) =\n  d\nelse {\n  return;\n};\n/// Doc.\nlet Some(e) = f else { return };";
    assert_eq!(silent_returns(code), [4, 8]);
    let files = sources("engine").into_iter().filter(|(file, _)| SAY_WHY.contains(&top_module(file)));
    let all: Vec<String> = files
        .flat_map(|(file, text)| {
            let lines = silent_returns(&text);
            lines.into_iter().map(move |line| format!("engine/src/{file}:{}", line + 1))
        })
        .collect();
    let (found, all) = (all.len(), all.join("\n"));
    assert!(found <= SILENT_MAX, "{found} of {SILENT_MAX}: assert it, or say in a comment who may have gone:\n{all}");
    assert!(found + 5 > SILENT_MAX, "lower the bound to {found}");
}

#[test]
fn files_of_the_shard_are_short() {
    let modules = sources("engine").into_iter().filter(|(file, _)| MODULES.contains(&top_module(file)));
    let long = modules.filter(|(_, text)| text.lines().count() > MODULE_LINES_MAX);
    let wrong: Vec<_> = long.map(|(file, text)| format!("engine/src/{file}: {} lines", text.lines().count())).collect();
    assert!(wrong.is_empty(), "over {MODULE_LINES_MAX} lines:\n{}", wrong.join("\n"));
}

#[test]
fn a_path_in_groups_is_unfolded() {
    let mut found = Vec::new();
    let rest = unfold(&[], "super::{a::{self as b, C}, d, e::F,\n};", &mut found);
    assert_eq!(
        found[..4],
        [vec!["super", "a", "self"], vec!["super", "a", "C"], vec!["super", "d"], vec!["super", "e", "F"]]
    );
    assert_eq!(rest, ";");
}

#[test]
fn the_load_generator_knows_the_wire_and_nothing_else_of_this_server() {
    let mut wrong = Vec::new();
    for (file, text) in sources("tools/load") {
        let code = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
        for (at, _) in code.match_indices("throng_engine::") {
            if !code[at + "throng_engine::".len()..].starts_with("wire::") {
                wrong.push(format!("tools/load/src/{file} names more of the engine than the wire"));
            }
        }
        let own = top_module(&file);
        for (line, other) in named(&text).into_iter().filter(|_| !file.contains("tests")) {
            let allowed = LOAD.iter().find(|(name, _)| *name == own).map(|(_, allowed)| *allowed);
            if other != own && (other == "cli" || allowed.is_some_and(|allowed| !allowed.contains(&other))) {
                wrong.push(format!("tools/load/src/{file}:{line}: {own} must not know {other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let manifest = fs::read_to_string(root().join("tools/load/Cargo.toml")).expect("its manifest");
    let linked: Vec<&str> = manifest.lines().filter(|line| line.starts_with("throng")).collect();
    assert_eq!(
        linked,
        ["throng-engine.workspace = true", "throng-sys.workspace = true", "throng-tls.workspace = true"],
        "load must not link the server"
    );
}

#[test]
fn only_tests_link_the_simulated_world() {
    for krate in CRATES {
        let manifest = fs::read_to_string(root().join(krate).join("Cargo.toml")).expect("its manifest");
        let linked = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        assert!(!linked.contains("throng-sim"), "{krate} must not link the simulated world");
    }
}

#[test]
fn the_recorder_knows_no_server_and_its_modules_only_those_below() {
    let mut wrong = Vec::new();
    for (file, text) in sources("tools/recorder").into_iter().filter(|(file, _)| file != "lib.rs") {
        let own = top_module(&file);
        let Some((_, allowed)) = RECORDER.iter().find(|(name, _)| *name == own) else {
            wrong.push(format!("tools/recorder/src/{file}: the module {own} is not in the table"));
            continue;
        };
        for (line, other) in named(&text) {
            if other != own && !allowed.contains(&other) {
                wrong.push(format!("tools/recorder/src/{file}:{line}: {own} must not know {other}"));
            }
        }
        // Clocks and waiting are in one file.
        let clocks = ["SystemTime::now", "Instant::now", "clock_gettime", "thread::sleep"];
        let code = text.split("mod tests").next().unwrap_or_default();
        if own != "clock" && clocks.iter().any(|clock| code.contains(clock)) {
            wrong.push(format!("tools/recorder/src/{file}: {own} looks at a clock"));
        }
        // One file per source: sources know what all share, and not each other.
        let source = file.strip_prefix("sources/").and_then(|file| file.strip_suffix(".rs"));
        if source.is_some_and(|source| !["mod", "text"].contains(&source)) {
            for at in code.match_indices("super::").map(|(at, _)| at + "super::".len()) {
                if !code[at..].starts_with("Roots") && !code[at..].starts_with("text") && !code[at..].starts_with('*') {
                    wrong.push(format!("tools/recorder/src/{file} names another source"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let manifest = fs::read_to_string(root().join("tools/recorder/Cargo.toml")).expect("its manifest");
    assert!(!manifest.lines().any(|line| line.starts_with("throng-")), "the recorder must link nothing of Throng");
}

#[test]
fn files_are_of_a_size_to_be_read() {
    let mut wrong = Vec::new();
    for krate in CRATES.into_iter().chain([SIM]) {
        for (file, text) in sources(krate) {
            let lines = text.lines().count();
            let says_why = text.lines().take_while(|l| l.starts_with("//!")).any(|l| l.contains("lines because"));
            if lines > LINES_MAX && !says_why {
                wrong.push(format!("{krate}/src/{file}: {lines} lines"));
            }
        }
    }
    assert!(wrong.is_empty(), "over {LINES_MAX} lines, split or say why:\n{}", wrong.join("\n"));
}

#[test]
fn no_queue_is_unbounded() {
    let mut wrong = Vec::new();
    for krate in CRATES {
        for (file, text) in sources(krate) {
            if file.contains("tests") {
                continue;
            }
            let lines: Vec<&str> = text.lines().collect();
            for (number, line) in lines.iter().enumerate() {
                if line.trim_start().starts_with("mod tests") {
                    break;
                }
                let code = line.split("//").next().unwrap_or_default();
                let unbounded = ["mpsc::channel", "channel::<", "unbounded", "LinkedList"];
                if unbounded.iter().any(|form| code.contains(form)) && !code.contains("sync_channel") {
                    wrong.push(format!("{krate}/src/{file}:{}: an unbounded queue", number + 1));
                }
                // A queue in a field states its bound.
                if [": VecDeque<", ": std::collections::VecDeque<", ": Queue<"].iter().any(|form| code.contains(form)) {
                    let above = &lines[number.saturating_sub(6)..number];
                    let told = above.iter().any(|l| {
                        let l = l.to_ascii_lowercase();
                        l.contains("//") && (l.contains("bound") || l.contains("at most"))
                    });
                    let field = !code.contains("fn ") && !code.contains("let ");
                    if field && !told {
                        wrong.push(format!("{krate}/src/{file}:{}: a queue that does not say its bound", number + 1));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Where unsafe code is permitted.
const UNSAFE: [&str; 1] = ["sys"];

#[test]
fn unsafe_code_stands_in_one_crate_only() {
    let (mut wrong, mut crates) = (Vec::new(), 0);
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the workspace's manifest");
    let members = manifest.lines().find_map(|line| line.strip_prefix("members = [")).expect("its members");
    for krate in members.split('"').skip(1).step_by(2).filter(|krate| !UNSAFE.contains(krate)) {
        for file in ["src/lib.rs", "src/main.rs"] {
            let Ok(text) = fs::read_to_string(root().join(krate).join(file)) else { continue };
            crates += 1;
            if !text.lines().any(|line| line == "#![forbid(unsafe_code)]") {
                wrong.push(format!("{krate}/{file} does not forbid unsafe code"));
            }
        }
    }
    assert!(crates > 12, "{crates} crates");
    // Examples, integration tests and fuzz targets are crates of their own, which no attribute
    // covers.
    let mut sources = Vec::new();
    for folder in ["engine", "fuzz", "server", "sim", "tests", "tls", "tools"] {
        files(&root().join(folder), "rs", &mut sources);
    }
    let marks = ["{", "fn", "impl", "extern"].map(|what| ["unsafe", what].join(" "));
    for path in sources {
        let name = path.strip_prefix(root()).expect("below the root");
        let text = fs::read_to_string(&path).expect("a readable file");
        let allowed = UNSAFE.iter().any(|krate| name.starts_with(krate));
        let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
        if !allowed && text.lines().any(|line| marks.iter().any(|mark| code(line).contains(mark.as_str()))) {
            wrong.push(format!("{} has unsafe code", name.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Figures that no page mentions are neither found nor renewed.
#[test]
fn every_kept_result_is_named_by_a_page() {
    let (mut pages, mut results) = (Vec::new(), Vec::new());
    files(&root().join("docs"), "md", &mut pages);
    files(&root().join("tools/bench/results"), "json", &mut results);
    let text: String = pages.iter().map(|page| fs::read_to_string(page).expect("a readable file")).collect();
    let names = results.iter().map(|path| path.file_name().expect("a name").to_string_lossy().into_owned());
    let named = |name: &String| ['`', '/'].iter().any(|before| text.contains(&format!("{before}{name}")));
    let wrong: Vec<_> = names.filter(|name| !named(name)).collect();
    assert!(wrong.is_empty(), "no page below docs/ names these results: {}", wrong.join(", "));
}

/// Cargo only warns about a package in a profile that nothing depends on any more.
#[test]
fn profiles_name_packages_that_are_built() {
    let of = |file: &str| fs::read_to_string(root().join(file)).expect("a file").parse::<toml::Table>().expect("TOML");
    let (manifest, lock) = (of("Cargo.toml"), of("Cargo.lock"));
    let built: BTreeSet<_> =
        lock["package"].as_array().expect("packages").iter().filter_map(|package| package["name"].as_str()).collect();
    let mut wrong = Vec::new();
    for (profile, settings) in manifest["profile"].as_table().expect("profiles") {
        let packages = settings.get("package").and_then(toml::Value::as_table);
        let named = packages.into_iter().flat_map(|packages| packages.keys()).filter(|name| *name != "*");
        wrong.extend(named.filter(|name| !built.contains(name.as_str())).map(|name| format!("{profile}: {name}")));
    }
    assert!(wrong.is_empty(), "not in Cargo.lock: {}", wrong.join(", "));
}

/// Anyone who builds it needs to know the required compiler first.
#[test]
fn the_readme_names_the_oldest_compiler_that_builds_it() {
    let of = |file: &str| fs::read_to_string(root().join(file)).expect("a file");
    let manifest = of("Cargo.toml");
    let line = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).expect("a version");
    let version = line.trim_matches('"');
    assert!(of("README.md").contains(&format!("Rust {version} or newer")), "README.md does not name Rust {version}");
}

/// The pages of the repository; folders of packages and builds are left out.
fn pages(dir: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        let name = path.file_name().expect("a name").to_string_lossy();
        let foreign = name.starts_with('.') || ["node_modules", "target"].contains(&&*name);
        if path.is_dir() && !path.is_symlink() && !foreign {
            pages(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// The text of a page without its blocks of code.
fn prose(text: &str) -> String {
    let (mut out, mut fence) = (String::new(), None);
    for line in text.lines() {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, Some(_)) => fence = mark,
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => out += &format!("{line}\n"),
            _ => {}
        }
    }
    out
}

/// The targets of links and images in the prose of a page, except those in code.
fn links(prose: &str) -> Vec<&str> {
    let (mut found, mut rest) = (Vec::new(), prose);
    while let Some(at) = rest.find(['`', ']']) {
        rest = &rest[at..];
        let ticks = &rest[..rest.len() - rest.trim_start_matches('`').len()];
        if let Some(link) = rest.strip_prefix("](") {
            found.extend(link.split(')').next());
            rest = link;
        } else if ticks.is_empty() {
            rest = &rest[1..];
        } else {
            // A span of code ends with as many ticks as it began with.
            rest = &rest[ticks.len()..];
            rest = rest.find(ticks).map_or(rest, |end| &rest[end + ticks.len()..]);
        }
    }
    found
}

/// The anchors of the headings of a page.
fn anchors(prose: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    for heading in headings.filter_map(|line| line.trim_start_matches('#').strip_prefix(' ')) {
        // Of a link, the text counts.
        let shown: Vec<&str> = heading
            .split("](")
            .enumerate()
            .map(|(at, part)| if at == 0 { part } else { part.split_once(')').map_or(part, |(_, rest)| rest) })
            .collect();
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let base: String = shown.concat().trim().to_lowercase().chars().filter(kept).collect();
        let base = base.replace(' ', "-");
        let numbered = (1..).map(|number| format!("{base}-{number}"));
        let name = [base.clone()].into_iter().chain(numbered).find(|name| !found.contains(name));
        found.extend(name);
    }
    found
}

#[test]
fn links_and_headings_are_read_from_prose() {
    let text =
        "# A `b_c` [d](e.md), f\n\n[g](h.md#i) `[j](k)` ``[l`](m)`` ![n](o.png)\n```\n[p](q)\n# r\n```\n# s\n# s\n";
    let text = prose(text);
    assert_eq!(links(&text), ["e.md", "h.md#i", "o.png"]);
    assert_eq!(anchors(&text), ["a-b_c-d-f", "s", "s-1"].map(str::to_owned).into());
}

/// A reader who follows a link arrives.
#[test]
fn links_between_pages_lead_somewhere() {
    let (mut found, mut wrong, mut seen) = (Vec::new(), Vec::new(), 0);
    pages(&root(), &mut found);
    let text = |path: &Path| prose(&fs::read_to_string(path).expect("a readable page"));
    for page in &found {
        let own = text(page);
        for link in links(&own).into_iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            seen += 1;
            let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
            let target = if file.is_empty() { page.clone() } else { page.parent().expect("a folder").join(file) };
            let reason = match anchor {
                _ if !target.exists() => "there is no such file",
                Some(anchor) if target.is_file() && !anchors(&text(&target)).contains(anchor) => "no such heading",
                _ => continue,
            };
            wrong.push(format!("{}: {link}: {reason}", page.strip_prefix(root()).expect("below the root").display()));
        }
    }
    assert!(found.len() > 100 && seen > 1_000, "{} pages, {seen} links", found.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A page that the book does not list is not on the site, and nobody finds it.
#[test]
fn the_book_lists_each_page_once() {
    let docs = root().join("docs");
    let mut found = Vec::new();
    pages(&docs, &mut found);
    let summary = prose(&fs::read_to_string(docs.join("SUMMARY.md")).expect("docs/SUMMARY.md"));
    let mut listed = links(&summary);
    listed.sort_unstable();
    let name = |path: &PathBuf| path.strip_prefix(&docs).expect("below docs").to_string_lossy().into_owned();
    let mut pages: Vec<String> = found.iter().map(name).filter(|name| name != "SUMMARY.md").collect();
    pages.sort_unstable();
    let missing: Vec<_> = pages.iter().filter(|page| !listed.contains(&page.as_str())).collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md does not list {missing:?}");
    assert_eq!(listed, pages, "docs/SUMMARY.md lists a page twice, or one that does not exist");
}
