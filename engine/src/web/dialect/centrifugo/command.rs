//! Commands of clients: one line of JSON each, with an id that its reply repeats.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A parsed command.
#[derive(Debug)]
pub struct Command<'a> {
    /// The id of its reply; 0 if it expects none.
    pub id: u32,
    /// The requested operation.
    pub ask: Ask<'a>,
}

/// The operation of a command.
#[derive(Debug)]
pub enum Ask<'a> {
    /// The response to a ping: an empty command.
    Pong,
    /// A command with an id, of an unknown kind.
    Unknown,
    /// The first command on a connection.
    Connect(Connect),
    /// Subscribe to a channel.
    Subscribe(Subscribe),
    /// Unsubscribe from a channel.
    Unsubscribe(Box<str>),
    /// Publish to a channel: the JSON as received.
    Publish(Box<str>, &'a str),
    /// Query the subscribers of a channel.
    Presence(Box<str>),
    /// Query the number of subscribers of a channel.
    PresenceStats(Box<str>),
    /// Query the earlier publications of a channel.
    History(History),
    /// Check that the server is alive.
    Ping,
    /// A message for a server-side application, which this server does not have.
    Send,
    /// The same, with a reply.
    Rpc,
    /// A new token for the connection.
    Refresh(Box<str>),
    /// A new token for a subscription.
    SubRefresh(Named),
}

/// The parameters of the first command.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Connect {
    /// The token of the connection; empty if there is none.
    pub token: Box<str>,
    /// The client's positions in channels that the server subscribes it to.
    pub subs: BTreeMap<Box<str>, Subscribe>,
}

/// The parameters of a subscription.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Subscribe {
    /// The channel's name.
    pub channel: Box<str>,
    /// The token of the subscription; empty if there is none.
    pub token: Box<str>,
    /// The client recovers from an earlier position.
    pub recover: bool,
    /// The epoch of that position; empty if unknown.
    pub epoch: Box<str>,
    /// The offset of the last publication that the client has received.
    pub offset: u64,
    /// The client wants to be notified of joins and leaves.
    pub join_leave: bool,
    /// A filter by tags.
    tf: Option<IgnoredAny>,
    /// The type of subscription; other than 0 for kinds that are not supported.
    r#type: u32,
}

impl Subscribe {
    /// A plain subscription to a channel.
    pub fn to(channel: Box<str>) -> Subscribe {
        Subscribe { channel, ..Subscribe::default() }
    }

    /// Whether it asks for an unsupported feature: a filter, or another type. Ignoring it would
    /// deliver more than was asked for.
    pub fn is_foreign(&self) -> bool {
        self.tf.is_some() || self.r#type != 0
    }
}

/// A channel, and a token for it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Named {
    /// The channel's name.
    pub channel: Box<str>,
    /// The new token.
    pub token: Box<str>,
}

/// The parameters of a history query.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct History {
    /// The channel's name.
    pub channel: Box<str>,
    /// The maximum number of publications. 0 returns only the position of the channel; a negative
    /// number means as many as possible.
    pub limit: i32,
    /// Return publications after this one; in reverse order, those before it.
    pub since: Option<Since>,
    /// Return the latest publication first.
    pub reverse: bool,
}

/// The position of a publication.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Since {
    /// The publication's offset.
    pub offset: u64,
    /// The epoch of the offset; empty if unknown.
    pub epoch: Box<str>,
}

/// An object whose members are ignored.
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

/// Parses a command. If it contains several operations, the first counts, as the protocol
/// specifies. `None` if it is malformed.
pub fn read(line: &str) -> Option<Command<'_>> {
    // The derived parser would also accept an array in place of an object.
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
    // Only commands without a reply may omit the id.
    (id > 0 || matches!(ask, Ask::Pong | Ask::Send)).then_some(Command { id, ask })
}

/// Whether a text is JSON that every client can parse: nested at most 128 deep, with numbers that a
/// float can represent.
pub fn is_json(text: &str) -> bool {
    serde_json::from_str::<Checked>(text).is_ok()
}

/// JSON that is validated and discarded. In contrast to `IgnoredAny`, its depth is limited.
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
        // The first operation counts.
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
