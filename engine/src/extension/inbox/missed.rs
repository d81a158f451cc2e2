//! The entries of rooms, as the homes of the rooms have counted them, and the end of the answer.

use crate::store::ids::Ids;
use crate::store::room::Position;
use crate::wire::datetime::{self, Precision};
use crate::wire::text::{Writer, write_attribute};

/// The namespace of the requests (XEP-0430).
pub(super) const NS_INBOX: &str = "urn:xmpp:inbox:1";
/// The namespace of the feature, and of what an entry says beyond XEP-0430.
pub(super) const NS: &str = "urn:throng:rooms:0";
pub(super) use crate::ns::RSM as NS_RSM;

/// Bytes of an entry besides the address of the room.
pub(super) const ENTRY_BYTES: usize = 180;

/// What a member has missed of a room.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RoomCount {
    /// The room's bare JID.
    pub room: Box<str>,
    /// Number of messages with a text that the member has not got.
    pub missed: u64,
    /// Number of the last message in the archive; 0 for none.
    pub last: u64,
    /// Up to where the member has got the messages.
    pub left: Position,
}

impl RoomCount {
    /// Writes counts for a letter.
    pub fn written(counts: &[RoomCount]) -> Vec<u8> {
        postcard::to_extend(counts, Vec::new()).expect("memory takes all bytes")
    }

    /// Reads them; none if they are damaged.
    pub fn read(counts: &[u8]) -> Vec<RoomCount> {
        postcard::from_bytes(counts).unwrap_or_default()
    }
}

/// A page of rooms, of whose homes is asked what the user has missed.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Asked {
    /// The rooms, in the order of their addresses.
    pub rooms: Vec<Box<str>>,
    /// Whether these are the last ones.
    pub(super) complete: bool,
    pub(super) unread_only: bool,
}

impl Asked {
    /// The stanzas and the result that answer the request, from what the homes have said.
    pub fn answer(&self, mut counts: Vec<RoomCount>) -> (Vec<Vec<u8>>, Vec<u8>) {
        counts.sort_unstable_by(|one, other| one.room.cmp(&other.room));
        let shown = counts.iter().filter(|count| count.missed > 0 || !self.unread_only);
        let entries = shown.map(entry).collect();
        let missed = |(rooms, all): (usize, u64), count: &RoomCount| match count.missed {
            0 => (rooms, all),
            more => (rooms + 1, all.saturating_add(more)),
        };
        let (unread, all_unread) = counts.iter().fold((0, 0), missed);
        let mut out = Vec::with_capacity(256);
        let mut writer = Writer::new(&mut out);
        writer.open("fin").attribute("xmlns", NS_INBOX).attribute("total", &counts.len().to_string());
        writer.attribute("unread", &unread.to_string()).attribute("all-unread", &all_unread.to_string());
        writer.attribute("complete", if self.complete { "true" } else { "false" });
        writer.open("set").attribute("xmlns", NS_RSM);
        if let ([first, ..], [.., last]) = (&*self.rooms, &*self.rooms) {
            writer.leaf("first", first).leaf("last", last);
        }
        writer.close().close();
        (entries, out)
    }
}

/// An entry. It has no addresses: it is from the user's account (RFC 6120 8.1.2.1).
fn entry(count: &RoomCount) -> Vec<u8> {
    let id = |number| Ids::PLAIN.text(number);
    let mut out = Vec::with_capacity(ENTRY_BYTES + count.room.len());
    let mut writer = Writer::new(&mut out);
    writer.open("message");
    writer.open("entry").attribute("xmlns", NS_INBOX).attribute("jid", &count.room);
    writer.attribute("unread", &count.missed.to_string());
    if count.last > 0 {
        writer.attribute("id", id(count.last).as_str());
    }
    writer.close();
    let mut left = b"<left".to_vec();
    write_attribute(&mut left, "xmlns", NS);
    if count.left.number > 0 {
        write_attribute(&mut left, "after", id(count.left.number).as_str());
    }
    left.extend_from_slice(b" since='");
    datetime::write(&mut left, count.left.time_ms.saturating_mul(1_000), Precision::Seconds);
    left.extend_from_slice(b"'/>");
    writer.raw(&left).close();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_in_the_order_of_rooms_and_say_what_was_missed() {
        let rooms = vec!["a@x".into(), "b@x".into(), "c@x".into()];
        let asked = Asked { rooms, complete: true, unread_only: true };
        let count = |room: &str, missed| RoomCount {
            room: room.into(),
            missed,
            last: 9,
            left: Position { number: 4, count: 1, time_ms: 5_000 },
        };
        let counts = vec![count("b@x", 5), count("c@x", 0), count("a@x", 2)];
        let (entries, fin) = asked.answer(counts);
        let entry = |room: &str, unread| {
            format!(
                "<message><entry xmlns='{NS_INBOX}' jid='{room}' unread='{unread}' id='{}'/><left xmlns='{NS}' after='{}' since='1970-01-01T00:00:05Z'/></message>",
                Ids::PLAIN.text(9).as_str(),
                Ids::PLAIN.text(4).as_str()
            )
        };
        let entries: Vec<_> = entries.into_iter().map(|entry| String::from_utf8(entry).expect("text")).collect();
        assert_eq!(entries, [entry("a@x", 2), entry("b@x", 5)]);
        let fin = String::from_utf8(fin).expect("text");
        assert!(
            fin.starts_with(&format!("<fin xmlns='{NS_INBOX}' total='3' unread='2' all-unread='7' complete='true'>")),
            "{fin}"
        );
    }
}
