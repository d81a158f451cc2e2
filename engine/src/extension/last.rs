//! Last Activity (XEP-0012): the server's uptime, and the time since a user has logged out.
//!
//! A request to a full JID goes to that session, but XEP-0012 4 requires the same permission for
//! it: see [`Extension::guards_sessions`].

use super::hook::{Extension, Xep};
use super::iq::{Around, Condition, Context, Feature, IqRequest, Step, Target, Verbs, always};
use super::xml;
use crate::store::private::{self, LastLogout};
use crate::store::{Batch, Found};

/// The namespace of last activity.
const NS: &str = "jabber:iq:last";

/// XEP-0012 2, for the server and for accounts.
pub const FEATURE: Feature = Feature {
    namespace: NS,
    name: "query",
    targets: &[Target::Server, Target::Own, Target::Other],
    verbs: Verbs::Get,
    offered: always,
    asks_roster: true,
    server_vars: &[NS],
    account_vars: &[NS],
    handle,
};

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: "last",
    xeps: &[Xep { number: 12, version: "2.0", title: "Last Activity" }],
    requests: &[FEATURE],
    guards_sessions: Some(NS),
    logged_out: Some(logged_out),
    ..Extension::NONE
};

/// Records that the last session of an account has ended, with the status of its unavailable
/// presence (XEP-0012 3). A long status is truncated.
fn logged_out(batch: &mut Batch, account: &str, now_us: u64, status: &str) {
    private::put_last(batch, account, LastLogout { at_us: now_us, status });
}

fn handle(context: &Context<'_>, request: &IqRequest<'_>) -> Step {
    match request.target {
        // XEP-0012 5: the server's uptime.
        Target::Server => answer(context.now.mono_ms / 1000, ""),
        // XEP-0012 3: the same error for an account that does not exist, so that existence is not
        // revealed.
        _ if !context.authorized => Step::Error(Condition::Forbidden.into()),
        _ if context.online => answer(0, ""),
        _ => {
            let pending = Pending { asked_us: context.now.wall_us };
            Step::Read(vec![private::get_last(request.account)], pending.into())
        }
    }
}

/// Waits for the stored logout.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Pending {
    /// Time of the request, microseconds since the Unix epoch.
    asked_us: u64,
}

impl Pending {
    /// Answers with the stored logout; an account that was never used has none.
    pub(super) fn go_on(self, _: &Around<'_>, found: &[Found]) -> Step {
        match found {
            [Found::Value(Some(row))] => match LastLogout::decode(row) {
                Some(last) => answer(self.asked_us.saturating_sub(last.at_us) / 1_000_000, last.status),
                None => Step::Error(Condition::InternalServerError.into()),
            },
            [Found::Value(None)] => Step::Error(Condition::ItemNotFound.into()),
            _ => Step::Error(Condition::InternalServerError.into()),
        }
    }
}

fn answer(seconds: u64, status: &str) -> Step {
    let mut out = format!("<query xmlns='{NS}' seconds='{seconds}'").into_bytes();
    if status.is_empty() {
        out.extend_from_slice(b"/>");
    } else {
        out.push(b'>');
        xml::escape(&mut out, status);
        out.extend_from_slice(b"</query>");
    }
    Step::Result(out)
}
