//! Reports to the operator (XEP-0377): stored at the home of the domain, limited, sent to
//! administrators, and dismissed.

use throng_engine::extension::Rule;
use throng_engine::io::{AccountCommand, Command, Reply, StorageState};
use throng_engine::limits::{REPORT_TEXT_BYTES_MAX, REPORTS_TOLD_S, REPORTS_USER_MAX};
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_engine::store::report::{Report, ReportId, ReportKey, decode};
use throng_sim::world::PASSWORD;

use crate::invitations::{Talk, settings};

fn item(jid: &str, inside: &str) -> String {
    format!(
        "<item jid='{jid}'><report xmlns='urn:xmpp:reporting:1' reason='urn:xmpp:reporting:spam'>{inside}</report></item>"
    )
}

fn block(id: &str, items: &str) -> String {
    format!("<iq type='set' id='{id}'><block xmlns='urn:xmpp:blocking'>{items}</block></iq>")
}

/// Blocks and reports; returns the answer.
fn report(talk: &mut Talk, line: usize, items: &str) -> String {
    talk.lines[line].heard.take();
    talk.ask(line, &block("b1", items), &["id='b1'"])
}

/// The stored reports: reporter and report, the latest last.
fn kept(talk: &Talk) -> Vec<(String, Report)> {
    let rows = talk.world.disk.rows_of(Table::Reports, "localhost");
    rows.map(|(_, row)| decode(row).expect("a report")).map(|(by, report)| (by.into(), report)).collect()
}

fn ids(talk: &Talk) -> Vec<ReportId> {
    let rows = talk.world.disk.rows_of(Table::Reports, "localhost");
    rows.map(|(sort, _)| ReportKey::of_sort(sort).expect("a key").id).collect()
}

fn many(n: usize) -> String {
    (0..n).map(|n| item(&format!("spam{n}@evil.example"), "")).collect()
}

fn on_shards(shards: u16) -> Settings {
    settings(shards, Rule::Open)
}

/// XEP-0377 3, 4: a report has the reporter, the reason, the text and the messages, and is stored
/// when the request is answered: a crash right after the answer loses nothing.
#[test]
fn what_was_answered_survives_a_crash_xep0377_4() {
    for shards in 1..=3 {
        for seed in 0..4 {
            let mut talk = Talk::with(seed, on_shards(shards));
            let romeo = talk.bound("romeo", PASSWORD);
            let inside = "<stanza-id xmlns='urn:xmpp:sid:0' by='x' id='28'/><stanza-id xmlns='urn:xmpp:sid:0' by='x' id='38'/>\
                          <text>Never came trouble.</text>";
            let said = report(&mut talk, romeo, &item("Spammer@evil.example", inside));
            assert!(said.contains("type='result'"), "{said}");
            talk.world.crash();
            let [(by, report)] = &kept(&talk)[..] else { panic!("{shards} shards, seed {seed}: {:?}", kept(&talk)) };
            assert_eq!((by.as_str(), &*report.jid), ("romeo@localhost", "spammer@evil.example"));
            assert_eq!((&*report.reason, &*report.text), ("urn:xmpp:reporting:spam", "Never came trouble."));
            assert_eq!(&*report.messages, "28 38");
            // After a restart it continues from there.
            let id = ids(&talk)[0];
            let command = Command::Account(AccountCommand::Dismiss {
                domain: "localhost".into(),
                ids: vec![id, ReportId(!id.0)],
            });
            assert_eq!(talk.command("localhost", command.clone()), Reply::Done(1));
            assert_eq!(talk.command("localhost", command), Reply::NotFound, "once");
            assert_eq!(kept(&talk), []);
        }
    }
}

/// An account that reports at full speed, with texts of maximum length, has a few reports stored,
/// and displaces nobody else's.
#[test]
fn a_flood_of_one_account_pushes_out_its_own() {
    for shards in 1..=3 {
        let mut talk = Talk::with(1, Settings { reports_max: 25, ..on_shards(shards) });
        let (romeo, tybalt) = (talk.bound("romeo", PASSWORD), talk.bound("tybalt", PASSWORD));
        assert!(report(&mut talk, romeo, &item("real@evil.example", "<text>this is one</text>")).contains("'result'"));
        let long = "\u{e9}".repeat(5_000);
        let ids: String =
            (0..50).map(|n| format!("<stanza-id xmlns='urn:xmpp:sid:0' by='x' id='{n}{}'/>", "9".repeat(60))).collect();
        for round in 0..20 {
            let resource = "r".repeat(1_000);
            let some = |n| item(&format!("x{round}y{n}@evil.example/{resource}"), &format!("<text>{long}</text>{ids}"));
            // The block list is limited, too.
            if !report(&mut talk, tybalt, &(0..3).map(some).collect::<String>()).contains("'result'") {
                break;
            }
        }
        let all = kept(&talk);
        let own = all.iter().filter(|(by, _)| by == "tybalt@localhost").count();
        assert_eq!((own, all.len()), (REPORTS_USER_MAX, REPORTS_USER_MAX + 1), "{shards} shards");
        assert!(all.iter().any(|(_, report)| &*report.jid == "real@evil.example"));
        let longest = all.iter().map(|(_, r)| r.text.len().max(r.messages.len()).max(r.reason.len())).max();
        assert!(longest <= Some(REPORT_TEXT_BYTES_MAX), "{longest:?}");
        assert!(counted(&talk, |counters| counters.reports_left_out.get()) > 10);
        // With room for fewer reports than exist, the reporter with the most loses one: never a
        // reporter's only one.
        let fewer = Settings { reports_max: 3, ..talk.world.settings().clone() };
        let home = talk.world.home("localhost");
        talk.world.command(home, 9, Command::Turn(fewer.into()));
        talk.pass(100_000);
        assert!(report(&mut talk, romeo, &item("again@evil.example", "")).contains("'result'"));
        let left = kept(&talk);
        assert_eq!((left.len(), left.iter().filter(|(by, _)| by == "romeo@localhost").count()), (3, 2));
        assert!(counted(&talk, |counters| counters.reports_pushed_out.get()) > 10);
    }
}

fn counted(talk: &Talk, of: impl Fn(&throng_engine::counters::Counters) -> u64) -> u64 {
    talk.world.shards().map(|id| of(talk.world.shard(id).counters())).sum()
}

/// None is stored for longer than the operator's limit, also after a restart without new reports.
#[test]
fn reports_are_not_kept_for_ever() {
    for shards in 1..=3 {
        let mut talk = Talk::with(1, Settings { reports_s: 300, ..on_shards(shards) });
        let romeo = talk.bound("romeo", PASSWORD);
        assert!(report(&mut talk, romeo, &many(3)).contains("'result'"));
        talk.pass(100_000_000);
        assert!(report(&mut talk, romeo, &item("later@evil.example", "")).contains("'result'"));
        talk.world.crash();
        talk.pass(150_000_000);
        assert_eq!(kept(&talk).len(), 4, "{shards} shards");
        talk.pass(55_000_000);
        assert_eq!(kept(&talk).iter().map(|(_, r)| &*r.jid).collect::<Vec<_>>(), ["later@evil.example"]);
        talk.pass(100_000_000);
        assert_eq!(kept(&talk), []);
    }
}

/// Administrators get one message about accumulated reports, and not too often.
#[test]
fn administrators_are_told_at_intervals() {
    for shards in 1..=3 {
        let mut talk = Talk::with(2, on_shards(shards));
        let (nurse, romeo) = (talk.bound("nurse", PASSWORD), talk.bound("romeo", PASSWORD));
        assert!(report(&mut talk, romeo, &item("first@evil.example", "")).contains("'result'"));
        let told = talk.hear(nurse, &["</message>"]);
        assert!(told.contains("from='localhost'"), "{told}");
        assert!(told.contains("romeo@localhost, spam: first@evil.example"), "{told}");
        for _ in 0..3 {
            assert!(report(&mut talk, romeo, &many(10)).contains("'result'"));
        }
        talk.pass(2_000_000);
        assert!(!talk.lines[nurse].heard.borrow().contains("<message"), "not for each of a flood");
        for _ in 0..10 {
            talk.pass(u64::from(REPORTS_TOLD_S) * 100_000 + 1_000_000);
            talk.say(nurse, " ");
        }
        let told = talk.hear(nurse, &["</message>"]);
        let reports = REPORTS_USER_MAX - 1;
        assert!(told.contains(&format!("{reports} reports from users")), "{told}");
        assert_eq!(told.matches("romeo@localhost, spam:").count(), reports, "{told}");
    }
}

/// XEP-0377 4: the address is blocked as if there were no report, also if the report cannot be
/// stored; and with a full disk nothing is.
#[test]
fn who_cannot_be_reported_is_blocked_all_the_same() {
    let mut talk = Talk::with(1, on_shards(2));
    let romeo = talk.bound("romeo", PASSWORD);
    for _ in 0..4 {
        assert!(report(&mut talk, romeo, &many(10)).contains("'result'"));
    }
    let said = report(&mut talk, romeo, &item("more@evil.example", ""));
    assert!(said.contains("'result'"), "{said}");
    let list = talk.ask(romeo, "<iq type='get' id='l'><blocklist xmlns='urn:xmpp:blocking'/></iq>", &["id='l'"]);
    assert!(list.contains("more@evil.example"), "{list}");
    talk.world.storage(StorageState::Full);
    talk.pass(100_000);
    let said = report(&mut talk, romeo, &item("full@evil.example", ""));
    assert!(said.contains("<resource-constraint") && said.contains("type='error'"), "{said}");
    let dismiss = Command::Account(AccountCommand::Dismiss { domain: "localhost".into(), ids: ids(&talk) });
    assert_eq!(talk.command("localhost", dismiss), Reply::StoreFull);
}
