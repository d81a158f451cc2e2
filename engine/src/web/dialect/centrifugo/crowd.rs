//! Converts the subscribers of a channel, as homes report them, to the protocol's presence, joins
//! and leaves.
//!
//! Homes know names, each with a number of connections, but not the individual connections. Each
//! name is therefore presented as one client.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::reply::{Info, push};
use crate::wire::json;

/// A home's report: the complete state, or the changes.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Crowd<'a> {
    subscribers: u32,
    #[serde(borrow)]
    who: Vec<Name<'a>>,
    #[serde(borrow)]
    joined: Vec<Text<'a>>,
    #[serde(borrow)]
    left: Vec<Text<'a>>,
}

#[derive(Deserialize)]
struct Name<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

fn read(told: &[u8]) -> Crowd<'_> {
    serde_json::from_slice(told).unwrap_or_default()
}

/// The result of a presence command.
pub fn presence(told: &[u8]) -> Vec<u8> {
    let mut who = b"{}".to_vec();
    for Name { name } in &read(told).who {
        json::add(&mut who, name, &[&json::bytes(&Info::of(name))]);
    }
    let mut out = b"{}".to_vec();
    json::add(&mut out, "presence", &[&who]);
    out
}

/// The result of a presence statistics command.
pub fn stats(told: &[u8]) -> Vec<u8> {
    #[derive(Serialize)]
    struct Stats {
        num_clients: u32,
        num_users: usize,
    }
    let Crowd { subscribers, who, .. } = read(told);
    json::bytes(&Stats { num_clients: subscribers, num_users: who.len() })
}

/// Appends joins and leaves. A complete state produces none: a client that needs it can query
/// presence.
pub fn changes(out: &mut Vec<u8>, channel: &str, told: &[u8]) {
    let Crowd { joined, left, .. } = read(told);
    let joined = joined.iter().map(|name| ("join", name));
    for (what, Text(name)) in joined.chain(left.iter().map(|name| ("leave", name))) {
        #[derive(Serialize)]
        struct Change<'a> {
            info: Info<'a>,
        }
        push(out, channel, what, &json::bytes(&Change { info: Info::of(name) }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_clients() {
        let state = b"{\"channel\":\"c\",\"subscribers\":5,\"who\":[{\"name\":\"a\\\"\",\"connections\":2},{\"name\":\"b\",\"connections\":1}],\"more\":false}";
        let expected = "{\"presence\":{\"a\\\"\":{\"user\":\"a\\\"\",\"client\":\"a\\\"\"},\"b\":{\"user\":\"b\",\"client\":\"b\"}}}";
        assert_eq!(String::from_utf8(presence(state)).unwrap(), expected);
        assert_eq!(stats(state), b"{\"num_clients\":5,\"num_users\":2}");
        assert_eq!(
            (presence(b"x"), stats(b"")),
            (b"{\"presence\":{}}".to_vec(), b"{\"num_clients\":0,\"num_users\":0}".to_vec())
        );
    }

    #[test]
    fn who_comes_and_goes_is_pushed_one_by_one() {
        let pushed = |told: &[u8]| {
            let mut out = Vec::new();
            changes(&mut out, "c", told);
            String::from_utf8_lossy(&out).into_owned()
        };
        let told = pushed(b"{\"channel\":\"c\",\"subscribers\":3,\"joined\":[\"a\",\"b\\\"\"],\"left\":[\"d\"]}");
        let info = |name: &str| format!("{{\"info\":{{\"user\":\"{name}\",\"client\":\"{name}\"}}}}");
        for (what, name) in [("join", "a"), ("join", "b\\\""), ("leave", "d")] {
            assert!(told.contains(&format!("{{\"push\":{{\"channel\":\"c\",\"{what}\":{}}}}}", info(name))), "{told}");
        }
        assert_eq!(told.matches("push").count(), 3);
        assert_eq!(
            pushed(
                b"{\"channel\":\"c\",\"subscribers\":1,\"who\":[{\"name\":\"a\",\"connections\":1}],\"more\":false}"
            ),
            ""
        );
    }
}
