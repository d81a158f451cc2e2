//! Blocking Command (XEP-0191): JIDs from which a user wants to receive nothing. To them the user
//! appears unavailable.
//!
//! The list is one row per user and is read with the account. Therefore each stanza is checked
//! where it is handled: an incoming one at the user's home before a session gets it, an outgoing
//! one before it leaves. A request to block may include a report (XEP-0377), which goes to the
//! operator.

use super::change::{Change, Way};
use super::hook::{Extension, Record, Xep};
use super::iq::{Condition, Context, Feature, IqRequest, Limit, Refusal, Step, Target, Verbs, always};
use super::note::Note;
use super::xml;
use crate::limits::{REPORT_TEXT_BYTES_MAX, beginning};
use crate::store::record;
use crate::store::report::Report;
use crate::store::{Batch, Query};
use crate::wire::error::Detail;
use crate::wire::error::ErrorType;
use crate::wire::jid;
use crate::wire::limit::AppError;
use minidom::Element;

const NS: &str = "urn:xmpp:blocking";
/// XEP-0377 2.
const REPORTING_NS: &str = "urn:xmpp:reporting:1";
/// Limit of reports per request.
const REPORTS_MAX: usize = 10;
/// Limit of JIDs per list.
const ITEMS_MAX: usize = 1_000;
/// Limit of a list's size in bytes.
const BYTES_MAX: usize = 64 << 10;
const FORMAT: u8 = 1;

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: record::BLOCKING,
    xeps: &[
        Xep { number: 191, version: "1.3", title: "Blocking Command" },
        Xep { number: 377, version: "0.4.1", title: "Blocking Command Reports" },
    ],
    requests: &[BLOCKLIST, BLOCK, UNBLOCK],
    record: Some(Record { refuses, ..Record::of(load) }),
    ..Extension::NONE
};

/// XEP-0191 3.2.
const BLOCKLIST: Feature = Feature {
    namespace: NS,
    name: "blocklist",
    targets: &[Target::Own],
    verbs: Verbs::Get,
    offered: always,
    asks_roster: false,
    server_vars: &[NS],
    account_vars: &[],
    handle: blocklist,
};

/// XEP-0191 3.3.
const BLOCK: Feature =
    Feature { name: "block", verbs: Verbs::Set, server_vars: &[REPORTING_NS], handle: block, ..BLOCKLIST };

/// XEP-0191 3.4, 3.5.
const UNBLOCK: Feature = Feature { name: "unblock", verbs: Verbs::Set, handle: unblock, ..BLOCKLIST };

/// Normalised JIDs, sorted, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Blocked(Vec<Box<str>>);

impl Note for Blocked {
    fn memory_bytes(&self) -> usize {
        self.0.iter().map(|jid| size_of::<Box<str>>() + jid.len()).sum()
    }
}

impl Blocked {
    fn of(note: Option<&dyn Note>) -> Blocked {
        let list = note.and_then(|note| (note as &dyn std::any::Any).downcast_ref::<Blocked>());
        list.cloned().unwrap_or_default()
    }

    fn has(&self, jid: &str) -> bool {
        self.0.binary_search_by(|other| (**other).cmp(jid)).is_ok()
    }

    /// XEP-0191 5.
    fn matches(&self, jid: &str) -> bool {
        let bare = jid::bare_of(jid);
        let domain = bare.split_once('@').map_or(bare, |(_, domain)| domain);
        self.has(jid) || self.has(bare) || self.has(domain)
    }

    /// The row: a byte for its format, then the JIDs, each with a terminator that no JID can
    /// contain.
    fn row(&self) -> Vec<u8> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let jids = self.0.iter().flat_map(|jid| jid.bytes().chain([0]));
        [FORMAT].into_iter().chain(jids).collect()
    }
}

/// The query for a user's list.
pub fn query(account: &str) -> Query {
    record::query(account, record::BLOCKING)
}

/// The JIDs in a row; `None` if its format is unknown.
pub fn of_row(row: &[u8]) -> Option<impl Iterator<Item = &str>> {
    let (&FORMAT, rest) = row.split_first()? else { return None };
    Some(std::str::from_utf8(rest).ok()?.split_terminator('\0'))
}

/// Writes a user's list of JIDs, normalised, sorted and without duplicates; false if there are too
/// many.
pub fn put(batch: &mut Batch, account: &str, jids: Vec<Box<str>>) -> bool {
    let list = Blocked(jids);
    let row = list.row();
    if list.0.len() > ITEMS_MAX || row.len() > BYTES_MAX {
        return false;
    }
    if !row.is_empty() {
        record::put(batch, account, record::BLOCKING, &row);
    }
    true
}

fn load(row: &[u8]) -> Option<Box<dyn Note>> {
    Some(Box::new(Blocked(of_row(row)?.map(Into::into).collect())))
}

fn refuses(note: &dyn Note, way: Way, other: &str) -> Option<Refusal> {
    let list = (note as &dyn std::any::Any).downcast_ref::<Blocked>()?;
    let blocked = AppError {
        name: "blocked",
        xmlns: "urn:xmpp:blocking:errors",
        kind: ErrorType::Cancel,
        detail: Detail::Nothing,
    };
    list.matches(other).then(|| match way {
        Way::In => Condition::ServiceUnavailable.into(),
        Way::Out => Refusal { app: Some(blocked), ..Condition::NotAcceptable.into() },
    })
}

fn blocklist(context: &Context<'_>, _: &IqRequest<'_>) -> Step {
    // A session that has requested the list receives its changes.
    Step::Change(vec![Change::Mark(true)], payload("blocklist", &Blocked::of(context.note).0))
}

fn block(context: &Context<'_>, request: &IqRequest<'_>) -> Step {
    let (jids, reports) = match items(context, request) {
        Ok((jids, _)) if jids.is_empty() => return Step::Error(Condition::BadRequest.into()),
        Ok(both) => both,
        Err(condition) => return Step::Error(condition.into()),
    };
    let mut list = Blocked::of(context.note);
    let hidden: Vec<_> = jids.iter().filter(|jid| !list.matches(jid)).cloned().collect();
    list.0.extend(jids.iter().cloned());
    list.0.sort_unstable();
    list.0.dedup();
    let row = list.row();
    if list.0.len() > ITEMS_MAX || row.len() > BYTES_MAX {
        return Step::Error(Limit::Record.into());
    }
    // They see the user become unavailable before stanzas stop reaching them, unless it was hidden
    // already.
    let mut changes: Vec<_> = hidden.into_iter().map(Change::Hide).collect();
    changes.push(Change::Record(row));
    changes.push(Change::Push(payload("block", &jids)));
    match reports.is_empty() {
        true => Step::Change(changes, Vec::new()),
        false => Step::Report(changes, reports),
    }
}

fn unblock(context: &Context<'_>, request: &IqRequest<'_>) -> Step {
    let jids = match items(context, request) {
        Ok((jids, _)) => jids,
        Err(condition) => return Step::Error(condition.into()),
    };
    let mut list = Blocked::of(context.note);
    let (gone, stay): (Vec<_>, Vec<_>) = list.0.into_iter().partition(|jid| jids.is_empty() || jids.contains(jid));
    list.0 = stay;
    if gone.is_empty() {
        return Step::Change(Vec::new(), Vec::new());
    }
    // The push says that all are unblocked (XEP-0191 3.5).
    let push = payload("unblock", if jids.is_empty() { &jids } else { &gone });
    let mut changes = vec![Change::Record(list.row())];
    changes.extend(gone.into_iter().map(Change::Show));
    changes.push(Change::Push(push));
    Step::Change(changes, Vec::new())
}

/// The JIDs of a request, normalised and without duplicates, and the reports about them.
fn items(context: &Context<'_>, request: &IqRequest<'_>) -> Result<(Vec<Box<str>>, Vec<Report>), Condition> {
    let element = xml::parse(request.payload).ok_or(Condition::BadRequest)?;
    let (mut jids, mut reports) = (Vec::new(), Vec::new());
    for item in element.children() {
        if !item.is("item", NS) {
            return Err(Condition::BadRequest);
        }
        let jid = item.attr("jid").ok_or(Condition::BadRequest)?;
        let jid = (context.jid)(jid).ok_or(Condition::JidMalformed)?;
        reports.extend(item.get_child("report", REPORTING_NS).and_then(|found| report(&jid, found)));
        reports.truncate(REPORTS_MAX);
        jids.push(jid);
        if jids.len() > ITEMS_MAX {
            return Err(Condition::NotAcceptable);
        }
    }
    jids.sort_unstable();
    jids.dedup();
    Ok((jids, reports))
}

/// A report (XEP-0377 3). A report without a reason is ignored, but the address is still blocked
/// (XEP-0377 4).
fn report(jid: &str, report: &Element) -> Option<Report> {
    let cut = |text: &str| beginning(text, REPORT_TEXT_BYTES_MAX).into();
    let ids = report.children().filter(|child| child.is("stanza-id", crate::ns::STANZA_ID));
    let ids: Vec<&str> = ids.filter_map(|id| id.attr("id")).collect();
    let text = report.get_child("text", REPORTING_NS).map(Element::text).unwrap_or_default();
    Some(Report {
        jid: jid.into(),
        reason: cut(report.attr("reason").filter(|reason| !reason.is_empty())?),
        text: cut(text.trim()),
        messages: cut(&ids.join(" ")),
    })
}

fn payload(name: &str, jids: &[Box<str>]) -> Vec<u8> {
    let mut out = format!("<{name} xmlns='{NS}'").into_bytes();
    if jids.is_empty() {
        out.extend_from_slice(b"/>");
        return out;
    }
    out.push(b'>');
    for jid in jids {
        out.extend_from_slice(b"<item");
        xml::attribute(&mut out, "jid", jid);
        out.extend_from_slice(b"/>");
    }
    out.extend_from_slice(format!("</{name}>").as_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_reads_back() {
        let list = Blocked(["a@b", "c", "d@e/f g"].map(Into::into).to_vec());
        let note = load(&list.row()).expect("a row");
        assert_eq!(Blocked::of(Some(&*note)), list);
        assert!(Blocked::default().row().is_empty(), "an empty list has no row");
        assert!(load(b"").is_none() && load(&[9]).is_none());
    }

    #[test]
    fn a_report_says_why_and_is_bounded_xep_0377_3() {
        let read = |inside: &str| {
            let xml = format!("<report xmlns='urn:xmpp:reporting:1' {inside}</report>");
            report("a@b", &xml::parse(xml.as_bytes()).expect("XML"))
        };
        let told = read(
            "reason='urn:xmpp:reporting:spam'><stanza-id xmlns='urn:xmpp:sid:0' by='c@d' id='1'/>\
             <stanza-id xmlns='urn:xmpp:sid:0' by='c@d' id='2'/><text xml:lang='en'> Never came trouble. </text>",
        );
        let (reason, text, messages) = ("urn:xmpp:reporting:spam".into(), "Never came trouble.".into(), "1 2".into());
        assert_eq!(told, Some(Report { jid: "a@b".into(), reason, text, messages }));
        assert_eq!(read(">"), None, "3: a reason MUST be there");
        let long = read(&format!("reason='x'><text>{}</text>", "\u{e9}".repeat(REPORT_TEXT_BYTES_MAX))).unwrap();
        assert_eq!(long.text.len(), REPORT_TEXT_BYTES_MAX / 2 * 2);
    }

    #[test]
    fn jids_are_matched_by_xep_0191_5() {
        let list = Blocked(["a@d/r", "b@d", "e"].map(Into::into).to_vec());
        let all = ["a@d/r", "a@d/s", "a@d", "b@d/r", "b@d", "c@e", "c@e/r", "e", "e/r", "d"];
        let matched: Vec<_> = all.into_iter().filter(|jid| list.matches(jid)).collect();
        assert_eq!(matched, ["a@d/r", "b@d/r", "b@d", "c@e", "c@e/r", "e", "e/r"]);
    }
}
