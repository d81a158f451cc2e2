//! Tasks by which an account gains keys of a hash function that it lacks (XEP-0480), at the user's
//! home, between the client's proof and its success.
//!
//! The client derives the key, and the server derives the two keys that it stores from that: two
//! HMACs. A task thus costs the server less than a login, and an account has one task per hash
//! function.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::id::ConnId;
use crate::letters::Gained;
use crate::ns;
use crate::session::conn::Stage;
use crate::session::inline::Upgrade;
use crate::session::sasl::{self, Authenticated, Form};
use crate::shard::Shard;
use crate::store::account::{KeySet, ScramKeys};
use crate::store::hash::{HashKind, Tag};
use crate::streams::ended::Ended;
use crate::wire::Element;
use crate::wire::error::{SaslCondition, StreamCondition};
use crate::wire::text::Writer;

/// Base64 of the longest key that a client derives.
const HASH_TEXT_BYTES_MAX: usize = Tag::BYTES_MAX.div_ceil(3) * 4;

impl Shard {
    /// The account lacks keys that the client can provide: it is asked for them (XEP-0480 2.2).
    pub(super) fn task_begins(&mut self, conn: ConnId, owner: Authenticated) {
        let inline = self.cx.heard(conn).inline.as_mut().expect("a task is of what came with an authentication");
        let kind = inline.upgrade.as_ref().expect("there is a task").kind;
        // The mechanism's final message is sent only once.
        let message = std::mem::take(&mut inline.message);
        let mut out = Vec::with_capacity(256);
        let mut w = Writer::new(&mut out);
        w.open("continue").attribute("xmlns", ns::SASL2);
        sasl::write_additional_data(&mut w, &message);
        w.open("tasks").leaf("task", sasl::upgrade_name(kind)).close().close();
        self.cx.conns.set_stage(conn, Stage::ExpectTask(owner));
        self.cx.send_bytes(conn, &out);
        self.cx.unblock(conn);
    }

    /// Handles an element during a task (XEP-0388 2.6.3, XEP-0480 3).
    pub(super) fn task(&mut self, conn: ConnId, element: &Element<'_>) {
        let Stage::ExpectTask(owner) = self.cx.heard(conn).stage() else { unreachable!("a task is under way") };
        let owner = owner.clone();
        let inline = self.cx.heard(conn).inline.as_mut().expect("a task is of what came with an authentication");
        let upgrade = inline.upgrade.as_mut().expect("there is a task");
        match element.name() {
            "abort" => self.task_failed(conn, SaslCondition::Aborted, None),
            "next" if !upgrade.begun => {
                if element.attribute("task").as_deref() != Some(sasl::upgrade_name(upgrade.kind)) {
                    return self.task_failed(
                        conn,
                        SaslCondition::MalformedRequest,
                        Some("this is not the task in progress"),
                    );
                }
                upgrade.begun = true;
                let (salt, iterations) = (BASE64.encode(&upgrade.salt), upgrade.iterations.to_string());
                self.cx.send_with(conn, |out| {
                    let mut w = Writer::new(out);
                    w.open("task-data")
                        .attribute("xmlns", ns::SASL2)
                        .open("salt")
                        .attribute("xmlns", ns::SCRAM_UPGRADE);
                    w.attribute("iterations", &iterations).text(&salt).close().close();
                });
            }
            "task-data" if upgrade.begun => {
                let Some(set) = read_hash(element, upgrade) else {
                    let text = "the hash is not the base64 of a salted password";
                    return self.task_failed(conn, SaslCondition::MalformedRequest, Some(text));
                };
                inline.upgrade = None;
                inline.upgrades = inline.upgrades.without(set.kind());
                self.cx.conns.set_stage(conn, Stage::ExpectInline(owner.clone()));
                self.cx.block(conn);
                let gained = Gained { identity: owner.identity(), sets: vec![set] };
                self.accounts.keys_gained(&mut self.cx, &mut self.actors, owner.bare(), gained, Some(conn));
            }
            // XEP-0388 2.5.
            _ => self.cx.fail_stream(conn, StreamCondition::NotAuthorized, Some("authentication is in progress")),
        }
    }

    /// A task has failed, and the authentication with it (XEP-0388 2.6.3). The channel-binding data
    /// was dropped when the client was authenticated, so a new attempt needs another stream.
    fn task_failed(&mut self, conn: ConnId, condition: SaslCondition, text: Option<&str>) {
        self.cx.kernel.counters.logins_failed.one();
        self.cx.send_with(conn, |out| Form::Sasl2.write_failure(out, condition, text));
        self.cx.end_stream(conn, Ended::Refused);
    }
}

/// Reads `<hash/>` within `<task-data/>`: the SaltedPassword of RFC 5802 3.
fn read_hash(element: &Element<'_>, upgrade: &Upgrade) -> Option<KeySet> {
    let mut hashes = element.children().filter(|child| child.is("hash", ns::SCRAM_UPGRADE));
    let (hash, None) = (hashes.next()?, hashes.next()) else { return None };
    let text = hash.text();
    let salted = salted_password(upgrade.kind, text.trim())?;
    KeySet::new(upgrade.kind, upgrade.iterations, &upgrade.salt, ScramKeys::of(upgrade.kind, &salted))
}

fn salted_password(kind: HashKind, text: &str) -> Option<Tag> {
    if text.len() > HASH_TEXT_BYTES_MAX {
        return None;
    }
    Tag::from_bytes(kind, &BASE64.decode(text).ok()?)
}
