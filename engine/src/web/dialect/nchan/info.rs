//! Information about a channel for publishers, in the requested format.

use std::borrow::Cow;

use crate::web::head::Head;
use crate::web::response::Response;
use crate::web::status::Status;

/// The format of the information.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Plain text, for people.
    #[default]
    Plain,
    /// JSON
    Json,
    /// XML
    Xml,
    /// YAML
    Yaml,
}

impl Format {
    /// The first supported format that a client accepts.
    pub fn of(head: &Head<'_>) -> Format {
        let format = |kind: &str| {
            let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            let (top, sub) = kind.split_once('/')?;
            let sub = sub.strip_prefix("x-").unwrap_or(sub);
            match (top, sub) {
                ("text" | "application", "json") => Some(Format::Json),
                ("text" | "application", "xml") => Some(Format::Xml),
                ("text" | "application", "yaml") => Some(Format::Yaml),
                ("text", "plain") => Some(Format::Plain),
                _ => None,
            }
        };
        head.list("accept").find_map(format).unwrap_or_default()
    }
}

/// Information about a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// The channel exists: it has been published to.
    pub there: bool,
    /// The number of retained messages.
    pub kept: u32,
    /// The number of the last message, and its second.
    pub last: (u64, u64),
    /// The number of subscribers.
    pub subscribers: u32,
    /// Seconds since a subscriber's latest request; `None` if there was no recent one.
    pub requested_s: Option<u32>,
}

impl Info {
    /// The response to a query: 404 if the channel does not exist and has had no subscribers
    /// recently.
    pub fn asked(&self, format: Format) -> Response {
        match self.there || self.subscribers > 0 || self.requested_s.is_some() {
            true => self.response(Status::Ok, format),
            false => Response::empty(Status::NotFound),
        }
    }

    /// The response to a publication: 201 if there are subscribers, otherwise 202.
    pub fn published(&self, format: Format) -> Response {
        let status = if self.subscribers > 0 { Status::Created } else { Status::Accepted };
        self.response(status, format)
    }

    fn response(&self, status: Status, format: Format) -> Response {
        let (messages, subscribers) = (self.kept, self.subscribers);
        let requested = self.requested_s.map_or(-1, i64::from);
        let (number, time_s) = self.last;
        let id = format!("{time_s}:{number}");
        let (content_type, body) = match format {
            Format::Plain => (
                "text/plain",
                format!(
                    "queued messages: {messages}\r\nlast requested: {requested} sec. ago\r\n\
                     active subscribers: {subscribers}\r\nlast message id: {id}"
                ),
            ),
            Format::Json => (
                "text/json",
                format!(
                    "{{\"messages\": {messages}, \"requested\": {requested}, \"subscribers\": {subscribers}, \
                     \"last_message_id\": \"{id}\" }}"
                ),
            ),
            Format::Xml => (
                "text/xml",
                format!(
                    "<?xml version=\"1.0\" encoding=\"UTF-8\" ?>\r\n<channel>\r\n  <messages>{messages}</messages>\r\n  \
                     <requested>{requested}</requested>\r\n  <subscribers>{subscribers}</subscribers>\r\n  \
                     <last_message_id>{id}</last_message_id>\r\n</channel>"
                ),
            ),
            Format::Yaml => (
                "text/yaml",
                format!(
                    "---\r\nmessages: {messages}\r\nrequested: {requested}\r\nsubscribers: {subscribers}\r\n\
                     last_message_id: \"{id}\"\r\n\r\n"
                ),
            ),
        };
        Response { body: Cow::Owned(body.into_bytes()), content_type, ..Response::empty(status) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_in_four_formats() {
        let info = Info { there: true, kept: 3, last: (9, 5), subscribers: 0, requested_s: None };
        let body = |format| String::from_utf8(info.asked(format).body.into_owned()).unwrap();
        assert_eq!(
            body(Format::Plain),
            "queued messages: 3\r\nlast requested: -1 sec. ago\r\nactive subscribers: 0\r\nlast message id: 5:9"
        );
        let json: serde_json::Value = serde_json::from_str(&body(Format::Json)).unwrap();
        assert_eq!((&json["messages"], &json["last_message_id"]), (&3.into(), &"5:9".into()));
        assert!(body(Format::Xml).contains("<last_message_id>5:9</last_message_id>"));
        assert!(body(Format::Yaml).contains("\r\nlast_message_id: \"5:9\"\r\n"));
        assert_eq!(info.published(Format::Plain).status, Status::Accepted);
        assert_eq!(Info { subscribers: 1, ..info }.published(Format::Plain).status, Status::Created);
        assert_eq!(Info::default().asked(Format::Json).status, Status::NotFound);
        assert_eq!(Info { subscribers: 1, ..Info::default() }.asked(Format::Json).status, Status::Ok);
    }
}
