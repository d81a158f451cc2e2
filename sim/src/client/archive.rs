//! A client's query of its user's archive (XEP-0313), page by page.

use super::{Client, News, number_of_id, numbers};
use crate::world::ids;
use crate::xml::Node;

/// The namespace of archives.
const MAM: &str = "urn:xmpp:mam:2";

/// The namespace of retractions.
pub(super) const RETRACT: &str = "urn:xmpp:message-retract:1";

/// A result of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The number encoded in its archive id.
    pub id: u64,
    /// Number of the message.
    pub number: u64,
    /// Number of the retraction that made it a tombstone (XEP-0424 4).
    pub retracted: Option<u64>,
}

impl Shown {
    /// Parses a result; a tombstone names its message only by the `id`.
    fn of(id: u64, message: &Node) -> Option<Shown> {
        let named = |node: &Node| node.attribute("id").and_then(number_of_id);
        let body = message.child("body");
        match message.child("retracted").filter(|retracted| retracted.namespace == RETRACT) {
            Some(_) if body.is_some() => None,
            Some(retracted) => Some(Shown { id, number: named(message)?, retracted: Some(named(retracted)?) }),
            None => Some(Shown { id, number: *numbers(body?.text.as_bytes()).first()?, retracted: None }),
        }
    }
}

/// A query of an archive.
#[derive(Debug)]
pub struct Look {
    /// Whether to begin at the last page and go backwards.
    pub back: bool,
    /// Messages per page.
    pub max: u64,
    /// Only messages with this bare JID.
    pub with: Option<String>,
    /// The results so far.
    pub seen: Vec<Shown>,
    /// Whether all pages were received.
    pub done: bool,
    page: Vec<Shown>,
}

impl Client {
    /// Begins a query of the archive.
    pub fn look(&mut self, back: bool, max: u64, with: Option<String>) {
        self.look = Some(Look { back, max, with, seen: Vec::new(), done: false, page: Vec::new() });
        self.look_on();
    }

    fn look_on(&mut self) {
        let id = self.next_id();
        let Some(look) = &self.look else { return };
        let at = if look.back { look.seen.first() } else { look.seen.last() };
        let place = match (look.back, at) {
            (true, Some(Shown { id, .. })) => format!("<before>{}</before>", ids().text(*id)),
            (true, None) => "<before/>".into(),
            (false, Some(Shown { id, .. })) => format!("<after>{}</after>", ids().text(*id)),
            (false, None) => String::new(),
        };
        let query = query(&format!("look{id}"), look.with.as_deref(), look.max, &place);
        self.stanza(query, None);
    }

    /// Requests a page and ignores the answer.
    pub fn glance(&mut self, with: Option<&str>, max: u64, back: bool) {
        let id = self.next_id();
        self.stanza(query(&format!("glance{id}"), with, max, if back { "<before/>" } else { "" }), None);
    }

    /// Whether a message is a result of a query.
    pub(super) fn is_result(&mut self, node: &Node) -> bool {
        let Some(result) = node.child("result").filter(|result| result.namespace == MAM) else { return false };
        let shown = || {
            let id = ids().number(result.attribute("id")?)?;
            Shown::of(id, result.child("forwarded")?.child("message")?)
        };
        let looks = result.attribute("queryid").is_some_and(|id| id.starts_with("look"));
        match (shown(), &mut self.look) {
            (Some(shown), Some(look)) if looks => look.page.push(shown),
            (Some(_), _) => {}
            _ => self.news.push(News::Wrong(format!("a result that is none: {node}"))),
        }
        true
    }

    /// Ends a page.
    pub(super) fn page_ended(&mut self, node: &Node) {
        let fin = node.child("fin").filter(|fin| fin.namespace == MAM);
        let Some(complete) = fin.and_then(|fin| fin.attribute("complete")).map(|complete| complete == "true") else {
            return self.news.push(News::Wrong(format!("a query got no answer: {node}")));
        };
        let full = self.full();
        let Some(look) = &mut self.look else { return };
        let page = std::mem::take(&mut look.page);
        if page.is_empty() && !complete {
            return self.news.push(News::Wrong(format!("{full} cannot go on: {node}")));
        }
        let at = if look.back { 0 } else { look.seen.len() };
        look.seen.splice(at..at, page);
        look.done = complete;
        if !complete {
            self.look_on();
        }
    }
}

fn query(id: &str, with: Option<&str>, max: u64, place: &str) -> String {
    let form = with.map_or(String::new(), |with| {
        format!(
            "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>{MAM}</value></field>\
             <field var='with'><value>{with}</value></field></x>"
        )
    });
    format!(
        "<iq type='set' id='{id}'><query xmlns='{MAM}' queryid='{id}'>{form}\
         <set xmlns='http://jabber.org/protocol/rsm'><max>{max}</max>{place}</set></query></iq>"
    )
}
