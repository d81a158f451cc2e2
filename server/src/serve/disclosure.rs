//! What is stored of an account beside the data that XEP-0227 expresses: for the answer to a request
//! of its owner (`throng export --user`). Secrets are left out.

use std::path::Path;

use serde_json::{Value, json};
use throng_engine::extension::push;
use throng_engine::extension::push::row::Registrations;
use throng_engine::store::room::{Standing, known_query, known_room};
use throng_engine::store::token::{self, Tokens};
use throng_engine::store::{Found, Query};

use super::{Rows, account_shown};
use crate::cli::Failure;
use crate::portable::Summary;
use crate::upload::{Files, Listed};

/// Rooms that are read at once.
const ROOMS_A_PAGE: usize = 512;

/// The account with this normalised bare JID, as JSON; `summary` is that of its export.
///
/// # Errors
/// There is no such account; the store or a file cannot be read.
pub(super) fn of(engine: &Rows, data: &Path, jid: &str, summary: &Summary) -> Result<Value, Failure> {
    let account = account_shown::of(engine, jid).map_err(|fault| Failure::failed(fault.text))?;
    let get = |query: &Query| engine.read(query).map(Found::value).map_err(super::disk_failure);
    let registrations = get(&push::query(jid))?.and_then(|row| Registrations::read(&row)).unwrap_or_default();
    // A node is often the token of a device, and options have passwords.
    let pushes = registrations.into_inner().into_iter().map(|one| {
        json!({
            "service": one.jid,
            "node": if one.node.is_empty() { "" } else { "(hidden)" },
            "options": if one.options.is_empty() { "" } else { "(hidden)" },
        })
    });
    let pushes: Vec<Value> = pushes.collect();
    let tokens = Tokens::of_row(get(&token::get(jid))?.as_deref()).clients();
    Ok(json!({
        "user": account.user,
        "standing": account.standing,
        "created_s": account.created_s,
        "last_seen_s": account.last_seen_s,
        "stored": account.stored,
        "exported": summary.counts.named().into_iter().collect::<std::collections::BTreeMap<_, _>>(),
        "rooms": rooms(engine, jid)?,
        "push_services": pushes,
        "clients_with_login_tokens": tokens,
        "uploads": uploads(data, jid)?,
    }))
}

/// The rooms with a standing of the user.
fn rooms(engine: &Rows, jid: &str) -> Result<Vec<Value>, Failure> {
    let (mut all, mut after): (Vec<Value>, Option<String>) = (Vec::new(), None);
    loop {
        let query = known_query(jid, after.as_deref(), ROOMS_A_PAGE);
        let Found::Rows { rows, more } = engine.read(&query).map_err(super::disk_failure)? else { break };
        for room in rows.iter().filter_map(known_room) {
            let row = engine.read(&Standing::query(room, jid)).map_err(super::disk_failure)?.value();
            let Some(standing) = row.and_then(|row| Standing::decode(&row)) else { continue };
            let affiliation = standing.affiliation.name();
            all.push(
                json!({ "room": room, "affiliation": affiliation, "nick": standing.nick, "reason": standing.reason }),
            );
        }
        after = rows.last().and_then(known_room).map(str::to_owned);
        if !more || after.is_none() {
            break;
        }
    }
    Ok(all)
}

/// The files that the account has uploaded.
fn uploads(data: &Path, jid: &str) -> Result<Vec<Value>, Failure> {
    let mut all = Vec::new();
    for part in 0..=u8::MAX {
        for Listed { id, about, .. } in Files::list(data, part).map_err(Failure::failed)? {
            let Some(about) = about.filter(|about| about.owner == jid) else { continue };
            all.push(json!({
                "file": id,
                "name": about.name,
                "content_type": about.content_type,
                "bytes": about.size,
                "uploaded_s": about.came_s,
                "expires_s": about.expires_s,
            }));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use throng_engine::extension::push::row::Registration;
    use throng_engine::id::Domains;
    use throng_engine::portable::NS;
    use throng_engine::store::Batch;

    use super::*;
    use crate::disk::{Engine, MemoryEngine};
    use crate::portable::{Existing, Format, Import, import};

    #[test]
    fn an_account_is_disclosed_without_secrets() {
        let (engine, dir) = (MemoryEngine::new(), tempfile::TempDir::new().expect("a folder"));
        let from = dir.path().join("in.xml");
        let text = format!(
            "<server-data xmlns='{NS}'><host jid='a.example'><user name='juliet' password='pencil'/><user name='nurse' \
             password='x'/></host><host jid='conference.a.example'><room xmlns='urn:throng:room:0' name='ball'><x \
             xmlns='jabber:x:data' type='submit'/><item xmlns='http://jabber.org/protocol/muc#admin' affiliation='member' \
             jid='juliet@a.example' nick='J'/></room></host></server-data>"
        );
        std::fs::write(&from, text).expect("written");
        let plan = Import {
            engine: Some(&engine),
            domains: &Domains::of_users("a.example"),
            rooms: "conference.a.example",
            format: Format::Portable,
            host: "a.example",
            existing: Existing::Skip,
            dry_run: false,
            iterations: 4096,
            threads: 1,
            number_floor: 0,
            put_number_floor: &|_, _| {},
            now_us: 1_767_225_600_000_000,
        };
        let (summary, end) = import(&from, &plan, &mut |_| {});
        assert!(end.is_ok() && summary.is_whole(), "{summary:?}");
        let mut registrations = Registrations::default();
        registrations.put(Registration {
            jid: "push.example".into(),
            node: "secret-node".into(),
            device: 1,
            options: b"<x>secret-options</x>".as_slice().into(),
            failures: 0,
            until_s: 0,
        });
        let mut batch = Batch::new();
        let Query::Get { table, actor, sort } = push::query("juliet@a.example") else { panic!("a row") };
        batch.put(table, &actor, &sort, &[&registrations.row()]);
        engine.commit(&[batch]).expect("written");
        let found = of(&engine, dir.path(), "juliet@a.example", &summary).map_err(|_| ()).expect("an account");
        assert_eq!(found["user"], "juliet@a.example");
        assert_eq!(found["created_s"], 1_767_225_600);
        let room = json!({ "room": "ball@conference.a.example", "affiliation": "member", "nick": "J", "reason": null });
        assert_eq!(found["rooms"], json!([room]));
        let service = json!({ "service": "push.example", "node": "(hidden)", "options": "(hidden)" });
        assert_eq!(found["push_services"], json!([service]));
        assert!(!found.to_string().contains("secret"));
        assert!(of(&engine, dir.path(), "paris@a.example", &summary).is_err());
    }
}
