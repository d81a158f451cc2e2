//! `throng room`, against a server in memory.

use super::*;

#[test]
fn rooms_are_listed_page_by_page_and_foreign_text_is_escaped() {
    let bench = Bench::new();
    let serving = bench.serve();
    let went = bench.run("room list");
    let lines: Vec<&str> = went.out.lines().collect();
    assert_eq!(lines.len(), 4, "{}{}", went.out, went.err);
    assert!(lines[0].starts_with("ROOM") && lines[1].starts_with("cave@conference.localhost  "), "{}", went.out);
    assert!(lines[1].contains(" 3 ") && lines[3].contains("ph") && !went.out.contains('\u{9b}'), "{}", went.out);
    let json = bench.run("room list --json");
    let first: serde_json::Value = serde_json::from_str(json.out.lines().next().expect("a line")).expect("JSON");
    assert_eq!((&first["jid"], &first["members"]), (&"cave@conference.localhost".into(), &7.into()));
    assert_eq!(bench.run("room show ghost").exit, Exit::NotThere);
    let shown = bench.run("room show cave").out;
    assert!(shown.contains("closed to all but members for 10m00s") && shown.contains("membersonly"), "{shown}");
    assert!(bench.run("room config cave").out.contains("A label (1, 0)"));
    drop(serving);
}

#[test]
fn rooms_are_configured_closed_and_destroyed() {
    let mut bench = Bench::new();
    let serving = bench.serve();
    for (line, out) in [
        ("room config cave membersonly=1 presencebroadcast=moderator,visitor roomname=a,b", "configured cave\n"),
        ("room close cave --for 2m", "closed cave for 2m00s\n"),
        ("room open cave", "opened cave\n"),
        ("room destroy cave --reason moved --alternate hall", "destroyed cave\n"),
    ] {
        let went = bench.run(line);
        assert_eq!((went.exit, &*went.out), (Exit::Done, out), "{line}: {}", went.err);
    }
    assert_eq!(
        bench.calls(),
        [
            "configure cave [(\"membersonly\", [\"1\"]), (\"presencebroadcast\", [\"moderator\", \"visitor\"]), \
             (\"roomname\", [\"a,b\"])]",
            "close cave 120",
            "close cave 0",
            "destroy cave Some(\"moved\") Some(\"hall\")",
        ]
    );
    for line in ["room config cave membersonly", "room close cave --for 8d", "room destroy"] {
        assert_eq!(bench.run(line).exit, Exit::Usage, "{line}");
    }
    bench.terminal = true;
    bench.input = "no\n".into();
    assert_eq!(bench.run("room destroy cave").exit, Exit::Failed, "asked, and the answer was no");
    assert_eq!(bench.calls().len(), 4);
    drop(serving);
}

#[test]
fn rooms_move_while_the_server_is_stopped() {
    let bench = Bench::new();
    let went = bench.run("room export rooms.xml cave");
    assert_eq!(
        (went.exit, &*went.out),
        (Exit::Done, "rooms                        2\naffiliations                 0\nexport: good\n")
    );
    let went = bench.run("room import odd.xml --dry-run --json");
    let value: serde_json::Value = serde_json::from_str(&went.out).expect("JSON");
    assert_eq!((went.exit, &value["rooms"], &value["left_out"]), (Exit::Partly, &3.into(), &1.into()), "{}", went.err);
    assert_eq!(bench.calls(), ["export rooms rooms.xml [\"cave\"]", "import rooms odd.xml true"]);
    let serving = bench.serve();
    assert_eq!(bench.run("room export rooms.xml").exit, Exit::InUse);
    drop(serving);
}
