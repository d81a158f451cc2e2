//! Commands of clients: a line of JSON each, with a number by which its reply is known.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// What a client asks.
#[derive(Debug)]
pub struct Command<'a> {
    /// The number of its reply; 0 of what has none.
    pub id: u32,
    /// What.
    pub ask: Ask<'a>,
}

/// One of what may be asked.
#[derive(Debug)]
pub enum Ask<'a> {
    /// The answer to a ping: a command with nothing in it.
    Pong,
    /// A command with a number, of a kind that is not known here.
    Unknown,
    /// The first command.
    Connect(Connect),
    /// Publications of a channel are wanted.
    Subscribe(Subscribe),
    /// Those of this one are not any more.
    Unsubscribe(Box<str>),
    /// This is to be published at a channel: JSON as it came.
    Publish(Box<str>, &'a str),
    /// Who subscribes to a channel.
    Presence(Box<str>),
    /// How many.
    PresenceStats(Box<str>),
    /// What was published at a channel.
    History(History),
    /// Whether the server is there.
    Ping,
    /// Something for the server's application, which there is not.
    Send,
    /// The same, with an answer.
    Rpc,
    /// Another token for the connection.
    Refresh(Box<str>),
    /// Another token for a subscription.
    SubRefresh(Named),
}

/// What the first command says.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Connect {
    /// The token of the connection; empty without one.
    pub token: Box<str>,
    /// Where the client stands in channels to which the server subscribes it.
    pub subs: BTreeMap<Box<str>, Subscribe>,
}

/// What a subscription says.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Subscribe {
    /// The channel.
    pub channel: Box<str>,
    /// The token of the subscription; empty without one.
    pub token: Box<str>,
    /// It goes on where it was.
    pub recover: bool,
    /// In this stream of the channel; empty if that is not known.
    pub epoch: Box<str>,
    /// Behind this publication.
    pub offset: u64,
    /// Who joins and leaves is to be told.
    pub join_leave: bool,
    /// A filter by tags.
    tf: Option<IgnoredAny>,
    /// A subscription of another kind than to a stream of publications.
    r#type: u32,
}

impl Subscribe {
    /// One to a channel, with nothing else.
    pub fn to(channel: Box<str>) -> Subscribe {
        Subscribe { channel, ..Subscribe::default() }
    }

    /// Whether it wants what is not there: a filter, or a channel of another kind. To leave that out would tell more than was asked for.
    pub fn is_foreign(&self) -> bool {
        self.tf.is_some() || self.r#type != 0
    }
}

/// A channel, and a token for it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Named {
    /// The channel.
    pub channel: Box<str>,
    /// The token.
    pub token: Box<str>,
}

/// Which publications of a channel are wanted.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct History {
    /// The channel.
    pub channel: Box<str>,
    /// How many at the most; 0 for none, only where the channel stands; below that as many as there may be.
    pub limit: i32,
    /// Those behind this one, or before it if they are wanted in reverse.
    pub since: Option<Since>,
    /// The last one first.
    pub reverse: bool,
}

/// A publication.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Since {
    /// Its offset.
    pub offset: u64,
    /// The stream in which that is; empty if that is not known.
    pub epoch: Box<str>,
}

/// Something with nothing to be looked at.
#[derive(Debug, Deserialize)]
struct Nothing {}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Publish<'a> {
    channel: Box<str>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Raw<'a> {
    id: u32,
    connect: Option<Connect>,
    subscribe: Option<Subscribe>,
    unsubscribe: Option<Named>,
    #[serde(borrow)]
    publish: Option<Publish<'a>>,
    presence: Option<Named>,
    presence_stats: Option<Named>,
    history: Option<History>,
    ping: Option<Nothing>,
    send: Option<Nothing>,
    rpc: Option<Nothing>,
    refresh: Option<Named>,
    sub_refresh: Option<Named>,
}

/// Reads a command. Of several in one the first counts, as the protocol has it. `None`: it is none.
pub fn read(line: &str) -> Option<Command<'_>> {
    // What is read by names would be taken by places as well.
    let raw: Raw<'_> = line.starts_with('{').then(|| serde_json::from_str(line).ok())??;
    let id = raw.id;
    let ask = if let Some(connect) = raw.connect {
        Ask::Connect(connect)
    } else if let Some(subscribe) = raw.subscribe {
        Ask::Subscribe(subscribe)
    } else if let Some(named) = raw.unsubscribe {
        Ask::Unsubscribe(named.channel)
    } else if let Some(publish) = raw.publish {
        Ask::Publish(publish.channel, publish.data.map_or("", RawValue::get))
    } else if let Some(named) = raw.presence {
        Ask::Presence(named.channel)
    } else if let Some(named) = raw.presence_stats {
        Ask::PresenceStats(named.channel)
    } else if let Some(history) = raw.history {
        Ask::History(history)
    } else if raw.ping.is_some() {
        Ask::Ping
    } else if raw.send.is_some() {
        Ask::Send
    } else if raw.rpc.is_some() {
        Ask::Rpc
    } else if let Some(named) = raw.refresh {
        Ask::Refresh(named.token)
    } else if let Some(named) = raw.sub_refresh {
        Ask::SubRefresh(named)
    } else if id > 0 {
        Ask::Unknown
    } else {
        Ask::Pong
    };
    // Only what has no reply need not have a number.
    (id > 0 || matches!(ask, Ask::Pong | Ask::Send)).then_some(Command { id, ask })
}

/// Whether a text is JSON that every client can read: not deeper than 128, without numbers that a float has not.
pub fn is_json(text: &str) -> bool {
    serde_json::from_str::<Checked>(text).is_ok()
}

/// JSON of which nothing is kept. Unlike what is passed over by itself, its depth is bounded.
struct Checked;

impl<'de> Deserialize<'de> for Checked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Checked, D::Error> {
        deserializer.deserialize_any(Checked)
    }
}

impl<'de> Visitor<'de> for Checked {
    type Value = Checked;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_unit<E: Error>(self) -> Result<Checked, E> {
        Ok(Checked)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Checked, A::Error> {
        while elements.next_element::<Checked>()?.is_some() {}
        Ok(Checked)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Checked, A::Error> {
        while members.next_entry::<Checked, Checked>()?.is_some() {}
        Ok(Checked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_as_clients_write_them() {
        let read = |line| format!("{:?}", read(line).map(|command| (command.id, command.ask)));
        assert_eq!(read("{}"), "Some((0, Pong))");
        assert_eq!(read("{\"send\":{\"data\":{}}}"), "Some((0, Send))");
        assert_eq!(read("{\"id\":7,\"newer\":{}}"), "Some((7, Unknown))");
        assert_eq!(read("{\"id\":7,\"rpc\":{\"method\":\"x\",\"data\":[]}}"), "Some((7, Rpc))");
        assert_eq!(read("{\"id\":7,\"ping\":{}}"), "Some((7, Ping))");
        assert_eq!(
            read("{\"publish\":{\"channel\":\"a\",\"data\": {\"b\": [1, 2]}},\"id\":2}"),
            "Some((2, Publish(\"a\", \"{\\\"b\\\": [1, 2]}\")))"
        );
        assert_eq!(read("{\"id\":3,\"publish\":{\"channel\":\"a\"}}"), "Some((3, Publish(\"a\", \"\")))");
        let connect = read(
            "{\"id\":1,\"connect\":{\"token\":\"t\",\"name\":\"js\",\"subs\":{\"a\":{\"recover\":true,\"offset\":5}}}}",
        );
        assert!(connect.contains("token: \"t\"") && connect.contains("recover: true") && connect.contains("offset: 5"));
        let subscribe =
            "{\"id\":4,\"subscribe\":{\"channel\":\"\\u0061\",\"flag\":1,\"data\":null,\"join_leave\":true}}";
        assert!(read(subscribe).contains("channel: \"a\"") && read(subscribe).contains("join_leave: true"));
        // The first one counts.
        assert_eq!(read("{\"id\":5,\"rpc\":{},\"unsubscribe\":{\"channel\":\"a\"}}"), "Some((5, Unsubscribe(\"a\")))");
        for none in [
            "",
            "x",
            "1",
            "null",
            "[]",
            "[1]",
            "{",
            "{}}",
            "{\"id\":-1}",
            "{\"id\":4294967296,\"ping\":{}}",
            "{\"id\":\"1\",\"ping\":{}}",
            "{\"ping\":{}}",
            "{\"subscribe\":{\"channel\":\"a\"}}",
            "{\"id\":1,\"subscribe\":{\"channel\":7}}",
            "{\"id\":1,\"id\":2,\"ping\":{}}",
            "{\"id\":1,\"history\":{\"channel\":\"a\",\"limit\":1e30}}",
            "{\"id\":1,\"subscribe\":{\"channel\":\"a\",\"offset\":-1}}",
            "{\"id\":1,\"publish\":{\"channel\":\"a\",\"data\":{]}}",
        ] {
            assert_eq!(read(none), "None", "{none}");
        }
    }

    #[test]
    fn what_is_not_there_is_known() {
        let read =
            |more: &str| match read(&format!("{{\"id\":1,\"subscribe\":{{\"channel\":\"a\"{more}}}}}")).unwrap().ask {
                Ask::Subscribe(subscribe) => subscribe.is_foreign(),
                other => panic!("{other:?}"),
            };
        assert!(!read("") && !read(",\"type\":0,\"tf\":null,\"delta\":\"fossil\""));
        assert!(read(",\"type\":1") && read(",\"tf\":{\"key\":\"a\"}"));
    }

    #[test]
    fn json_is_what_every_client_can_read() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        for text in ["1", "null", "true", "\"x\"", " {\"a\": [1.5, -2, null, {}], \"a\": \"\\u0000\"} ", &nested(127)] {
            assert!(is_json(text), "{text}");
        }
        for text in ["", " ", "x", "{", "[1,]", "1 2", "\"\n\"", "1e999", "\u{feff}1", &nested(129), &nested(20_000)] {
            assert!(!is_json(text), "{text}");
        }
    }
}
