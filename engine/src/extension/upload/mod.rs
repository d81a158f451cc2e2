//! HTTP File Upload (XEP-0363): who may upload what, and where. The server handles the files
//! (`throng`'s `upload`); it shares only the key with this extension: no slot is stored.

pub mod slot;
mod used;

use std::sync::Arc;

use super::datetime::{self, Precision};
use super::hook::{Entity, Extension, Xep};
use super::iq::{Around, Condition, Context, Feature, IqRequest, Limit, Refusal, ServerFacts, Step, Target, Verbs};
use super::xml;
use crate::id::Service;
use crate::store::account::Incarnation;
use crate::store::{Batch, Found, Query, Table, private as rows};
use crate::wire::error::{Detail, ErrorType};
use crate::wire::jid::bare_of;
use crate::wire::limit::{AppError, Held};
use slot::{Slot, Upload, is_content_type, safe_name};
use used::Used;

const NS: &str = "urn:xmpp:http:upload:0";
const PURPOSE_NS: &str = "urn:xmpp:http:upload:purpose:0";

/// A slot (XEP-0363 4).
const REQUEST: Feature = Feature {
    namespace: NS,
    name: "request",
    targets: &[Target::Service(Service::Upload)],
    verbs: Verbs::Get,
    offered: |server| server.upload.is_some(),
    asks_roster: false,
    server_vars: &[],
    account_vars: &[],
    handle: request,
};

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: "upload",
    xeps: &[Xep { number: 363, version: "1.2.0", title: "HTTP File Upload" }],
    requests: &[REQUEST],
    entity: Some(Entity {
        service: Service::Upload,
        identity: ("store", "file", "HTTP File Upload"),
        vars: &[NS, "urn:xmpp:http:upload:purpose:0#ephemeral", "urn:xmpp:http:upload:purpose:0#message"],
        forms,
        nodes: None,
    }),
    ..Extension::NONE
};

/// The size limit of files (XEP-0363 3).
fn forms(server: &ServerFacts, out: &mut Vec<u8>) {
    let Some(upload) = &server.upload else { return };
    out.extend_from_slice(b"<x xmlns='jabber:x:data' type='result'><field var='FORM_TYPE' type='hidden'>");
    xml::text_element(out, "value", NS);
    out.extend_from_slice(b"</field><field var='max-file-size'>");
    xml::text_element(out, "value", &upload.file_bytes_max.to_string());
    out.extend_from_slice(b"</field></x>");
}

/// A user's request.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Wanted {
    name: Box<str>,
    size: u64,
    content_type: Option<Box<str>>,
    /// The file is to be deleted by then, seconds since the Unix epoch.
    before_s: Option<u64>,
}

/// XEP-0363 4, and 5.1 to 5.4: the default purpose is a message.
fn read(payload: &[u8]) -> Result<Wanted, Condition> {
    let request = xml::parse(payload).ok_or(Condition::BadRequest)?;
    let size = request.attr("size").and_then(|size| size.parse().ok()).filter(|size| *size > 0);
    let (Some(name), Some(size)) = (request.attr("filename"), size) else { return Err(Condition::BadRequest) };
    let content_type = request.attr("content-type").map(str::trim).filter(|text| !text.is_empty());
    if name.is_empty() || !content_type.is_none_or(is_content_type) {
        return Err(Condition::BadRequest);
    }
    let mut purposes = request.children().filter(|child| child.ns() == PURPOSE_NS);
    let before_s = match (purposes.next(), purposes.next()) {
        (None, _) => None,
        (Some(purpose), None) if purpose.name() == "message" => None,
        (Some(purpose), None) if purpose.name() == "ephemeral" => {
            let before_us = purpose.attr("expire-before").and_then(datetime::parse).ok_or(Condition::BadRequest)?;
            Some(before_us / 1_000_000)
        }
        (Some(_), None) => return Err(Condition::FeatureNotImplemented),
        (Some(_), Some(_)) => return Err(Condition::BadRequest),
    };
    Ok(Wanted { name: safe_name(name), size, content_type: content_type.map(Into::into), before_s })
}

fn request(context: &Context<'_>, request: &IqRequest<'_>) -> Step {
    let Some(upload) = &context.server.upload else {
        return Step::Error(Condition::ServiceUnavailable.into());
    };
    let now_us = context.now.wall_us;
    let wanted = match read(request.payload) {
        Ok(wanted) => wanted,
        Err(condition) => return Step::Error(condition.into()),
    };
    if wanted.size > upload.file_bytes_max {
        return Step::Error(too_large(upload));
    }
    if wanted.before_s.is_some_and(|before_s| before_s <= now_us / 1_000_000) {
        return Step::Error(Condition::NotAcceptable.into());
    }
    let owner: Box<str> = bare_of(request.from).into();
    let account = Query::Get { table: Table::Accounts, actor: owner.as_bytes().into(), sort: Box::default() };
    let row = rows::get(&owner, &rows::own_key(EXTENSION.name));
    let pending = Pending { owner, wanted, now_us, fresh: context.fresh.into() };
    Step::InTurn(vec![account, row], pending.into())
}

/// Waits for the account's record and the user's usage.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Pending {
    /// Bare JID of the user.
    owner: Box<str>,
    wanted: Wanted,
    /// Time of the request, microseconds since the Unix epoch.
    now_us: u64,
    /// A random name for this slot.
    fresh: Box<str>,
}

impl Pending {
    pub(super) fn go_on(self, around: &Around<'_>, found: &[Found]) -> Step {
        match &around.server.upload {
            Some(upload) => give(upload, &self.owner, &self.wanted, (self.now_us, &self.fresh), found),
            None => Step::Error(Condition::ServiceUnavailable.into()),
        }
    }
}

/// Issues the slot. `drawn` has the time and a random name for this slot.
fn give(upload: &Arc<Upload>, owner: &str, wanted: &Wanted, drawn: (u64, &str), found: &[Found]) -> Step {
    let (now_us, fresh) = drawn;
    let [Found::Value(account), Found::Value(row)] = found else {
        return Step::Error(Condition::InternalServerError.into());
    };
    let Some(incarnation) = account.as_deref().map(Incarnation::of_record) else {
        return Step::Error(Condition::Forbidden.into());
    };
    let Some(mut used) = row.as_deref().map_or(Some(Used::default()), Used::decode) else {
        return Step::Error(Condition::InternalServerError.into());
    };
    if let Err(left_us) = used.charge(upload, now_us, wanted.size) {
        return Step::Error(held(now_us, left_us));
    }
    let now_s = now_us / 1_000_000;
    let kept_s = now_s + u64::from(upload.keep_s);
    let slot = Slot {
        id: Slot::id(upload, owner, incarnation, used.serial, fresh),
        name: wanted.name.clone(),
        content_type: wanted.content_type.clone(),
        size: wanted.size,
        owner: owner.into(),
        incarnation,
        until_s: now_s + u64::from(upload.slot_s),
        expires_s: wanted.before_s.map_or(kept_s, |before_s| before_s.min(kept_s)),
    };
    let url = slot.url(upload);
    let mut out = b"<slot".to_vec();
    xml::attribute(&mut out, "xmlns", NS);
    out.extend_from_slice(b"><put");
    xml::attribute(&mut out, "url", &url);
    // XEP-0363 4: one of the three headers that a slot may have.
    out.extend_from_slice(b"><header name='Authorization'>Bearer ");
    out.extend_from_slice(slot.token(upload).as_bytes());
    out.extend_from_slice(b"</header></put><get");
    xml::attribute(&mut out, "url", &url);
    out.extend_from_slice(b"/></slot>");
    let mut batch = Batch::new();
    rows::put(&mut batch, owner, &rows::own_key(EXTENSION.name), &used.encode());
    Step::Write(batch, out)
}

/// XEP-0363 6: the file is too large, with the limit.
fn too_large(upload: &Upload) -> Refusal {
    let detail = Detail::MaxFileSize(upload.file_bytes_max);
    let app = AppError { name: "file-too-large", xmlns: NS, kind: ErrorType::Modify, detail };
    Refusal { app: Some(app), ..Condition::NotAcceptable.into() }
}

/// XEP-0363 6: not now, with the time to retry.
fn held(now_us: u64, left_us: u64) -> Refusal {
    let mut stamp = Vec::new();
    datetime::write(&mut stamp, now_us.saturating_add(left_us).next_multiple_of(1_000_000), Precision::Seconds);
    let detail = stamp.try_into().map_or(Detail::Nothing, Detail::Stamp);
    let app = AppError { name: "retry", xmlns: NS, kind: ErrorType::Wait, detail };
    let held = Held { limit: Limit::Uploads, left_ms: Some(left_us.div_ceil(1_000)) };
    Refusal { app: Some(app), ..held.into() }
}

#[cfg(test)]
mod tests;
