//! `throng export` and `throng import`.

use super::*;

#[test]
fn accounts_move_in_and_out() {
    let bench = Bench::new();
    let path = |name: &str| bench.folder.path().join(name);
    for name in ["in.xml", "odd.xml", "cut.xml"] {
        std::fs::write(path(name), "").unwrap();
    }
    let went = bench.run("import nowhere.xml");
    assert!(went.exit == Exit::Failed && went.err.contains("there is no nowhere.xml"), "{}", went.err);
    let went = bench.run(&format!(
        "import {} --existing replace --threads 3 --host a.example --format ejabberd-sql",
        path("in.xml").display()
    ));
    assert!(went.exit == Exit::Done && went.out.ends_with("import: good\n"), "{}{}", went.out, went.err);
    let went = bench.run(&format!("import {} --dry-run --json", path("odd.xml").display()));
    let value: serde_json::Value = serde_json::from_str(&went.out).expect("JSON");
    assert_eq!((went.exit, &value["users"], &value["left_out"]), (Exit::Partly, &3.into(), &1.into()));
    let went = bench.run(&format!("import {}", path("cut.xml").display()));
    assert!(went.exit == Exit::Failed && went.err.contains("cut.xml:7: it ends"), "{}", went.err);
    assert!(went.out.starts_with("users                        3\n"), "what was taken is told: {}", went.out);
    assert!(went.out.ends_with("import: ended early\n"), "{}", went.out);
    for (line, layout) in [
        ("out.XML", "File"),
        ("out", "Folder"),
        ("out --layout ejabberd", "Hosts"),
        ("out --layout prosody --only Example.org", "Users"),
        ("out --user romeo@example.org", "Folder"),
    ] {
        assert_eq!(bench.run(&format!("export {line}")).exit, Exit::Done, "{line}");
        let last = bench.calls().last().cloned().unwrap_or_default();
        assert!(last.contains(&format!("layout: {layout}")), "{last}");
    }
    let calls = bench.calls().join("\n");
    for word in [
        "existing: Replace",
        "threads: 3",
        "dry_run: true",
        "domains: {\"example.org\"}",
        "host: Some(\"a.example\")",
        "format: EjabberdSql",
        "user: Some(\"romeo@example.org\")",
    ] {
        assert!(calls.contains(word), "{word} in {calls}");
    }
    for line in [
        "import",
        "export",
        "export x --layout tar",
        "export x --only a@b",
        "export x --user a@b --layout file",
        "import x --existing no",
    ] {
        assert_eq!(bench.run(line).exit, Exit::Usage, "{line}");
    }
    let _lock = FolderLock::take(bench.folder.path(), "serve").expect("free");
    for line in [format!("export {}", path("x").display()), format!("import {}", path("in.xml").display())] {
        let went = bench.run(&line);
        assert!(went.exit == Exit::InUse && went.err.contains("stop it"), "{line}: {}", went.err);
    }
}
