//! The position from which a client continues after a gap: the same for every transport and
//! protocol, and sent to the client, so that a gap is reported once and nothing is lost after it.

use serde_json::{Value, json};
use throng_engine::id::ConnId;
use throng_engine::io::Input;
use throng_engine::web::dialect::mercure::place;
use throng_engine::web::policy::Channels;
use throng_sim::frame::frame;
use throng_sim::host::said as words;

use crate::notify_world::{Desk, KEY, bytes_to, first_frame, frames, open, post, settings, upgrade};

/// A way to read the channel `a`, with its report of missing items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Poll,
    Events,
    Socket,
    Binary,
    Mercure,
    Centrifugo,
    NchanPoll,
    NchanEvents,
    NchanSocket,
}

pub(super) const ALL: [By; 9] = [
    By::Poll,
    By::Events,
    By::Socket,
    By::Binary,
    By::Mercure,
    By::Centrifugo,
    By::NchanPoll,
    By::NchanEvents,
    By::NchanSocket,
];

/// A client that knows its position and what it has received.
pub(super) struct Client {
    by: By,
    pub(super) conn: ConnId,
    /// Its position, as sent by the server; for Centrifugo's protocol the number.
    pub(super) place: String,
    epoch: String,
    pub(super) heard: String,
}

pub(super) fn all() -> Channels {
    Channels { mercure: true, centrifugo: true, nchan: true, ..open() }
}

/// The last text between these.
fn last<'a>(text: &'a str, before: &str, behind: &str) -> Option<&'a str> {
    text.rsplit_once(before)?.1.split(behind).next()
}

/// The position in the last frame: that of an object, or of an item with a binary head.
fn place_in_frames(bytes: &[u8]) -> Option<String> {
    let mut rest = match bytes.starts_with(b"HTTP") {
        true => &bytes[bytes.windows(4).position(|at| at == b"\r\n\r\n")? + 4..],
        false => bytes,
    };
    let mut place = None;
    while let Some((said, length)) = first_frame(rest) {
        let content = &rest[if rest[1] == 126 { 4 } else { 2 }..length];
        place = match rest[0] {
            0x82 => {
                let long = usize::from(u16::from_be_bytes([content[6], content[7]]));
                Some(String::from_utf8_lossy(&content[24..24 + long]).into_owned())
            }
            _ => last(&said, "\"after\":\"", "\"").map(str::to_owned).or(place),
        };
        rest = &rest[length..];
    }
    place
}

impl Client {
    /// A client positioned after the item with this number.
    pub(super) fn at(desk: &mut Desk, by: By, number: u64) -> Client {
        let place = match by {
            By::Mercure => place::write(("a", number), std::iter::empty()),
            By::NchanPoll | By::NchanEvents | By::NchanSocket => format!("1700000000:{number}"),
            _ => number.to_string(),
        };
        let conn = desk.connect();
        let mut one = Client { by, conn, place, epoch: String::new(), heard: String::new() };
        if by == By::Centrifugo {
            // The stream of the channel, which all know.
            one.comes(desk);
            one.heard.clear();
            one.place = number.to_string();
            desk.host.turn(Input::Closed { conn: one.conn });
        }
        one
    }

    /// The client connects, or reconnects.
    pub(super) fn comes(&mut self, desk: &mut Desk) {
        self.conn = desk.connect();
        let place = &self.place;
        let nchan =
            |more: &str| format!("GET /sub/a?wait=0 HTTP/1.1\r\nHost: x\r\n{more}Last-Event-ID: {place}\r\n\r\n");
        let asked = match self.by {
            By::Poll => format!("GET /n/a?wait=0&after={place} HTTP/1.1\r\nHost: x\r\n\r\n"),
            By::Events => {
                format!("GET /n/a HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nLast-Event-ID: {place}\r\n\r\n")
            }
            By::Socket => upgrade(&format!("a?after={place}"), KEY),
            By::Binary => upgrade(&format!("a?after={place}&format=binary"), KEY),
            By::Mercure => {
                format!("GET /.well-known/mercure?topic=a HTTP/1.1\r\nHost: x\r\nLast-Event-ID: {place}\r\n\r\n")
            }
            By::Centrifugo => {
                format!(
                    "GET /connection/websocket HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{KEY}\r\n"
                )
            }
            By::NchanPoll => nchan(""),
            By::NchanEvents => nchan("Accept: text/event-stream\r\n"),
            By::NchanSocket => nchan(&format!(
                "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: ws+meta.nchan\r\n{KEY}"
            )),
        };
        self.says(desk, asked.as_bytes());
        if self.by == By::Centrifugo {
            let offset: u64 = self.place.parse().unwrap();
            let again = json!({"channel": "a", "recover": true, "offset": offset, "epoch": self.epoch});
            for command in [json!({"id": 1, "connect": {}}), json!({"id": 2, "subscribe": again})] {
                self.says(desk, &frame(0x81, command.to_string().as_bytes()));
            }
        }
    }

    fn says(&mut self, desk: &mut Desk, bytes: &[u8]) {
        let effects = desk.host.turn(Input::Received { conn: self.conn, bytes });
        let (bytes, _) = bytes_to(&effects, self.conn);
        self.hears(&bytes);
    }

    /// Reads its output like a client of its kind: the last position counts.
    pub(super) fn hears(&mut self, bytes: &[u8]) {
        let text = match self.by {
            By::Socket | By::Binary | By::Centrifugo | By::NchanSocket => frames(bytes).join("\n"),
            _ => String::from_utf8_lossy(bytes).into_owned(),
        };
        let place = match self.by {
            By::Poll | By::Socket => last(&text, "\"after\":\"", "\"").map(str::to_owned),
            By::Binary => place_in_frames(bytes),
            By::Events | By::Mercure | By::NchanEvents | By::NchanSocket => {
                // A complete line is followed by an empty one (HTML 9.2.6).
                let whole = text.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
                last(&format!("\n{whole}\n"), "\nid: ", "\n").map(str::to_owned)
            }
            By::NchanPoll => last(&text, "\nEtag: ", "\r").map(|tag| format!("1700000000:{tag}")),
            By::Centrifugo => {
                for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
                    let began = &line["subscribe"];
                    if let (Some(epoch), Some(offset)) = (began["epoch"].as_str(), began["offset"].as_u64()) {
                        (self.epoch, self.place) = (epoch.to_owned(), offset.to_string());
                    }
                    if let Some(offset) = line["push"]["pub"]["offset"].as_u64() {
                        self.place = offset.to_string();
                    }
                }
                None
            }
        };
        self.place = place.unwrap_or(std::mem::take(&mut self.place));
        self.heard += &text;
    }

    /// The client disconnects and forgets what it has received.
    pub(super) fn goes(&mut self, desk: &mut Desk) {
        desk.host.turn(Input::Closed { conn: self.conn });
        self.heard.clear();
    }

    /// Whether it has received a report of missing items, as far as its protocol has one.
    pub(super) fn knows_of_a_gap(&self) -> bool {
        let word = match self.by {
            By::Poll | By::Socket | By::Binary => "\"gaps\":[\"a\"]",
            By::Events => "event: gap",
            By::Mercure => "Last-Event-ID: earliest",
            By::Centrifugo => "\"recovered\":false",
            By::NchanEvents => ": messages are missing here\n",
            // Nchan clients start with the stored messages.
            By::NchanPoll | By::NchanSocket => "",
        };
        self.heard.contains(word)
    }
}

/// An administrator deletes the channel `a`.
pub(super) fn deletes(desk: &mut Desk) {
    deletes_node(desk, "a");
}

pub(super) fn deletes_node(desk: &mut Desk, node: &str) {
    let admin = desk.user("admin");
    let delete = format!(
        "<iq type='set' id='d' to='pubsub.localhost'><pubsub xmlns='http://jabber.org/protocol/pubsub#owner'>\
         <delete node='{node}'/></pubsub></iq>"
    );
    let deleted = words(&desk.host.ask(admin, &delete));
    assert!(deleted.contains("type='result'"), "{deleted}");
}

/// A channel is deleted and created anew while a client is absent: its position is one that the
/// channel has not reached yet. What follows the gap has a position of the new channel, so that
/// items are not taken for old ones when there are as many.
#[test]
fn a_place_of_a_deleted_channel_is_not_kept() {
    for by in ALL {
        let mut desk = Desk::of(settings(1, all()));
        (1..=5).for_each(|number| drop(desk.publish("a", &format!("old{number}"))));
        let mut client = Client::at(&mut desk, by, 5);
        deletes(&mut desk);
        (1..=2).for_each(|number| drop(desk.publish("a", &format!("new{number}"))));
        client.comes(&mut desk);
        assert!(client.knows_of_a_gap(), "{by:?}: {}", client.heard);
        if by == By::NchanPoll {
            // One message per answer.
            client.comes(&mut desk);
        }
        let number = client.place.rsplit(['.', ':']).next().unwrap();
        assert_eq!(number, "8", "{by:?}: {}", client.heard);
        client.goes(&mut desk);
        (3..=5).for_each(|number| drop(desk.publish("a", &format!("new{number}"))));
        for number in 3..=5 {
            if by == By::NchanPoll || number == 3 {
                client.comes(&mut desk);
            }
            assert!(client.heard.contains(&format!("new{number}")), "{by:?}, {number}: {}", client.heard);
        }
    }
}

/// Nothing of the missed items is stored: the position is after all of them, so that the gap is
/// reported once.
#[test]
fn a_gap_behind_which_nothing_is_kept_is_told_once() {
    for by in ALL {
        let mut desk = Desk::of(settings(1, Channels { items_s: 100, ..all() }));
        (1..=10).for_each(|number| drop(desk.publish("a", &format!("old{number}"))));
        let mut client = Client::at(&mut desk, by, 5);
        desk.passes(101);
        client.comes(&mut desk);
        assert!(client.knows_of_a_gap(), "{by:?}: {}", client.heard);
        if by != By::NchanSocket {
            let number = client.place.rsplit(['.', ':']).next().unwrap();
            assert_eq!(number, "10", "{by:?}: {}", client.heard);
        }
        client.goes(&mut desk);
        desk.publish("a", "new");
        client.comes(&mut desk);
        assert!(client.heard.contains("new"), "{by:?}: {}", client.heard);
        if !matches!(by, By::NchanPoll | By::NchanSocket) {
            assert!(!client.knows_of_a_gap(), "{by:?}: {}", client.heard);
        }
    }
}

/// A client that reads so slowly that items are no longer stored learns that some are missing, by
/// every protocol.
#[test]
fn a_slow_reader_hears_that_items_are_missing() {
    for by in ALL.into_iter().filter(|by| !matches!(by, By::Poll | By::NchanPoll)) {
        let mut desk = Desk::of(settings(1, Channels { items_max: 20, ..all() }));
        desk.publish("a", "first");
        let mut client = Client::at(&mut desk, by, 1);
        client.comes(&mut desk);
        desk.host.prompt = false;
        let (publisher, large) = (desk.connect(), "x".repeat(10_000));
        let mut got = Vec::new();
        for number in 0..300 {
            let bytes = post("a", "Content-Type: text/plain\r\n", &format!("{number:03}{large}"));
            got.extend(
                bytes_to(&desk.host.turn(Input::Received { conn: publisher, bytes: bytes.as_bytes() }), client.conn).0,
            );
            desk.host.turn(Input::Sent { conn: publisher });
        }
        let mut ends = false;
        for _ in 0..500 {
            if !ends {
                let (bytes, ended) = bytes_to(&desk.host.sent(client.conn), client.conn);
                got.extend(bytes);
                ends = ended;
            }
        }
        client.hears(&got);
        let is_told = match by {
            By::Centrifugo => client.heard.contains("\"code\":2500"),
            By::Mercure => client.heard.contains(": updates are missing here\n"),
            By::NchanSocket => ends && client.heard.ends_with("close 1013"),
            _ => client.knows_of_a_gap(),
        };
        assert!(is_told, "{by:?}, {} bytes", got.len());
        assert_eq!(ends, by == By::NchanSocket, "{by:?}");
        // It returns to its position and is not sent away again.
        desk.host.prompt = true;
        client.goes(&mut desk);
        client.comes(&mut desk);
        assert!(!client.heard.contains("close 1"), "{by:?}: it begins with what is kept");
        desk.publish("a", "last");
        client.goes(&mut desk);
        client.comes(&mut desk);
        assert!(client.heard.contains("last"), "{by:?}");
    }
}
