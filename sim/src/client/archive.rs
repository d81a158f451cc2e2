//! A client's look at its user's archive (XEP-0313), page by page.

use super::{Client, News, numbers};
use crate::xml::Node;

/// The namespace of archives.
const MAM: &str = "urn:xmpp:mam:2";

/// A look at an archive.
#[derive(Debug)]
pub struct Look {
    /// From the last page backwards.
    pub back: bool,
    /// Messages of a page.
    pub max: u64,
    /// With this bare JID alone.
    pub with: Option<String>,
    /// What it has come to: ids in the archive, and numbers of messages.
    pub seen: Vec<(u64, u64)>,
    /// It has seen all.
    pub done: bool,
    page: Vec<(u64, u64)>,
}

impl Client {
    /// Begins to look at the archive.
    pub fn look(&mut self, back: bool, max: u64, with: Option<String>) {
        self.look = Some(Look { back, max, with, seen: Vec::new(), done: false, page: Vec::new() });
        self.look_on();
    }

    fn look_on(&mut self) {
        let id = self.next_id();
        let Some(look) = &self.look else { return };
        let at = if look.back { look.seen.first() } else { look.seen.last() };
        let place = match (look.back, at) {
            (true, Some((id, _))) => format!("<before>{id}</before>"),
            (true, None) => "<before/>".into(),
            (false, Some((id, _))) => format!("<after>{id}</after>"),
            (false, None) => String::new(),
        };
        let query = query(&format!("look{id}"), look.with.as_deref(), look.max, &place);
        self.stanza(query, None);
    }

    /// Asks for a page and cares for nothing that comes.
    pub fn glance(&mut self, with: Option<&str>, max: u64, back: bool) {
        let id = self.next_id();
        self.stanza(query(&format!("glance{id}"), with, max, if back { "<before/>" } else { "" }), None);
    }

    /// Whether a message is a result of a query.
    pub(super) fn is_result(&mut self, node: &Node) -> bool {
        let Some(result) = node.child("result").filter(|result| result.namespace == MAM) else { return false };
        let number = || {
            let message = result.child("forwarded")?.child("message")?;
            numbers(message.child("body")?.text.as_bytes()).first().copied()
        };
        let id = result.attribute("id").and_then(|id| id.parse().ok());
        let looks = result.attribute("queryid").is_some_and(|id| id.starts_with("look"));
        match (id, number(), &mut self.look) {
            (Some(id), Some(number), Some(look)) if looks => look.page.push((id, number)),
            (Some(_), Some(_), _) => {}
            _ => self.news.push(News::Wrong(format!("a result that is none: {node}"))),
        }
        true
    }

    /// A page is whole.
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
