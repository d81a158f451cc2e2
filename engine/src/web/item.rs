//! An item as homes write it for subscribers: a JSON object on one line.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;

use crate::wire::datetime;

/// The members that protocols other than that of `/n/` need.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Item<'a> {
    /// The channel's name.
    #[serde(borrow)]
    pub channel: Cow<'a, str>,
    /// Its number in the channel.
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    /// The key by which it replaces others; empty for none.
    #[serde(borrow)]
    pub key: Cow<'a, str>,
    /// The time of publication (XEP-0082).
    #[serde(borrow)]
    pub time: Cow<'a, str>,
    /// The content type as given by the publisher.
    #[serde(borrow, rename = "type")]
    pub kind: Cow<'a, str>,
    /// The content is not text, and `data` is its Base64.
    pub base64: bool,
    /// The content, as text or Base64.
    #[serde(borrow)]
    pub data: Cow<'a, str>,
}

impl<'a> Item<'a> {
    /// Parses an item. Input that is malformed, which homes never write, results in an item without
    /// content.
    pub fn read(line: &'a [u8]) -> Item<'a> {
        serde_json::from_slice(line).unwrap_or_default()
    }

    /// The time of publication, in microseconds since 1970; 0 if unknown.
    pub fn time_us(&self) -> u64 {
        datetime::parse(&self.time).unwrap_or_default()
    }

    /// The content as it was published.
    pub fn into_content(self) -> Cow<'a, [u8]> {
        match self.data {
            data if self.base64 => BASE64.decode(&*data).unwrap_or_default().into(),
            Cow::Borrowed(text) => text.as_bytes().into(),
            Cow::Owned(text) => text.into_bytes().into(),
        }
    }
}
