//! Browsers' registrations for a channel's items by Web Push (RFC 8030), as rows of its node:
//! created, renewed and removed in the node's turn, with the counts that limit them.

use std::collections::BTreeMap;

use super::super::super::change::Change;
use super::super::super::iq::Step;
use super::super::super::written;
use super::super::node::Access;
use super::super::{Answered, error, found_directory, row};
use crate::id::PushId;
use crate::store::nodes as rows;
use crate::store::{Batch, Found};
use crate::wire::limit::Limit;

const FORMAT: u8 = 1;

/// The permission by which a browser was registered.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum By {
    /// The channel is public.
    Everybody,
    /// A token: its key and its subject.
    Token([u8; 32], Option<Box<str>>),
    /// The external service has permitted it.
    Permit,
}

/// Encodes a permit where a key would be longer.
const PERMIT: [u8; 1] = [1];

/// A registration.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Registration {
    /// Expiry, seconds since the Unix epoch.
    pub until_s: u64,
    /// The network that it is counted for: the 4 bytes of an IPv4 address, or the first 8 of an
    /// IPv6 address.
    pub network: Box<[u8]>,
    /// Its permission.
    pub by: By,
    /// The browser's public key.
    #[serde(with = "written::array")]
    pub p256dh: [u8; 65],
    /// Its authentication secret.
    pub auth: [u8; 16],
    /// The URL of its push service.
    pub endpoint: Box<str>,
}

impl Registration {
    /// Its row.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.extend_from_slice(&self.until_s.to_be_bytes());
        let mut part = |bytes: &[u8]| {
            out.push(bytes.len() as u8);
            out.extend_from_slice(bytes);
        };
        part(&self.network);
        match &self.by {
            By::Everybody => part(b""),
            By::Permit => part(&PERMIT),
            By::Token(key, name) => {
                part(key);
                part(name.as_deref().unwrap_or_default().as_bytes());
            }
        }
        out.extend_from_slice(&self.p256dh);
        out.extend_from_slice(&self.auth);
        out.extend_from_slice(self.endpoint.as_bytes());
        out
    }

    /// Decodes a row; `None` if its format is unknown.
    pub fn decode(row: &[u8]) -> Option<Registration> {
        let (&FORMAT, rest) = row.split_first()? else { return None };
        let (until_s, rest) = rest.split_first_chunk::<8>()?;
        let part = |rest: &mut &[u8]| -> Option<Box<[u8]>> {
            let (len, after) = rest.split_first()?;
            let (part, after) = after.split_at_checked(usize::from(*len))?;
            *rest = after;
            Some(part.into())
        };
        let mut rest = rest;
        let (network, key) = (part(&mut rest)?, part(&mut rest)?);
        let by = match &*key {
            [] => By::Everybody,
            key if *key == PERMIT => By::Permit,
            key => {
                let name = String::from_utf8(part(&mut rest)?.into()).ok()?;
                By::Token(key.try_into().ok()?, (!name.is_empty()).then(|| name.into()))
            }
        };
        let (p256dh, rest) = rest.split_first_chunk()?;
        let (auth, endpoint) = rest.split_first_chunk()?;
        let endpoint = std::str::from_utf8(endpoint).ok()?.into();
        let until_s = u64::from_be_bytes(*until_s);
        Some(Registration { until_s, network, by, p256dh: *p256dh, auth: *auth, endpoint })
    }
}

/// The reads about a channel's registrations.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Pending {
    /// Whether it exists already or there is room for one more.
    Register(Registering),
    /// Registrations to be removed, as far as they exist.
    Remove { actor: Box<str>, removals: Vec<Removal> },
    /// The counts per address of the removed registrations.
    Removed(Removed),
}

impl Pending {
    pub(super) fn go_on(self, found: &[Found]) -> Answered {
        match self {
            Pending::Register(asked) => register_found(&asked, found),
            Pending::Remove { actor, removals } => remove_found(actor, &removals, found),
            Pending::Removed(removed) => removed_found(&removed, found),
        }
    }
}

/// Removed registrations.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Removed {
    actor: Box<str>,
    /// The channel's count before.
    all: u32,
    gone: Vec<PushId>,
    /// The counts of their addresses before.
    networks: BTreeMap<Box<[u8]>, u32>,
}

/// A registration to be created or renewed.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Registering {
    /// The node's actor.
    pub actor: Box<str>,
    /// Its id.
    pub id: PushId,
    /// The registration.
    pub registration: Registration,
    /// Whether the channel is private: the requester has presented a token.
    pub private: bool,
    /// Whether registrations are permitted before the node exists.
    pub makes: bool,
    /// Limit per channel.
    pub channel_max: u32,
    /// Limit per channel and address.
    pub address_max: u32,
}

fn count(found: Option<&Found>) -> Result<u32, error::Error> {
    found.and_then(row).and_then(rows::read_push_count).ok_or(error::UNREADABLE)
}

/// Creates or renews a registration. The answer is a byte: 1 if the channel had neither a node nor
/// a registration before.
pub fn register(asked: Registering) -> Step {
    let actor = &asked.actor;
    let queries = vec![
        rows::directory(actor),
        rows::push(actor, asked.id),
        rows::push_count(actor, b""),
        rows::push_count(actor, &asked.registration.network),
    ];
    Step::InTurn(queries, super::Pending::Registration(Pending::Register(asked)).into())
}

fn register_found(asked: &Registering, found: &[Found]) -> Answered {
    let (directory, found) = found_directory(found)?;
    let name = super::node_of(&asked.actor);
    let node = directory.get(name);
    // A client that may not read may not be notified either.
    if node.is_some_and(|node| !asked.private && node.config.access != Access::Open) {
        return Err(error::FORBIDDEN);
    }
    let before = found.first().and_then(row).ok_or(error::UNREADABLE)?.and_then(Registration::decode);
    let (all, own) = (count(found.get(1))?, count(found.get(2))?);
    let mut batch = Batch::new();
    let mut row = asked.registration.clone();
    let made = node.is_none() && all == 0;
    match before {
        // It stays counted for its previous network.
        Some(before) => row.network = before.network,
        None if all >= asked.channel_max || own >= asked.address_max => return Err(Limit::Memberships.into()),
        None if made && !asked.makes => return Err(Limit::Nodes.into()),
        None => {
            rows::put_push_count(&mut batch, &asked.actor, b"", all + 1);
            rows::put_push_count(&mut batch, &asked.actor, &asked.registration.network, own + 1);
        }
    }
    rows::put_push(&mut batch, &asked.actor, asked.id, &row.encode());
    let changes = vec![Change::Write(batch), Change::Awaited(asked.actor.clone())];
    Ok(Step::Change(changes, vec![u8::from(made)]))
}

/// A registration to be removed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Removal {
    /// Its id.
    pub id: PushId,
    /// Its row when it was found to be invalid: a registration that was renewed since then stays.
    /// `None` to remove it in any case.
    pub over: Option<Box<[u8]>>,
}

/// Removes these, as far as they exist.
pub fn remove(actor: &str, removals: Vec<Removal>) -> Step {
    let actor: Box<str> = actor.into();
    let queries = removals.iter().map(|removal| rows::push(&actor, removal.id));
    let queries = queries.chain([rows::push_count(&actor, b"")]).collect();
    Step::InTurn(queries, super::Pending::Registration(Pending::Remove { actor, removals }).into())
}

fn remove_found(actor: Box<str>, removals: &[Removal], found: &[Found]) -> Answered {
    let (mut gone, mut networks) = (Vec::new(), BTreeMap::<Box<[u8]>, u32>::new());
    for (removal, found) in removals.iter().zip(found) {
        let Some(found) = row(found).ok_or(error::UNREADABLE)? else { continue };
        if removal.over.as_deref().is_none_or(|over| over == found) {
            gone.push(removal.id);
            let network = Registration::decode(found).map(|of| of.network);
            network.into_iter().for_each(|of| *networks.entry(of).or_default() += 1);
        }
    }
    let all = count(found.last())?;
    if gone.is_empty() {
        return Ok(Step::Result(Vec::new()));
    }
    let queries = networks.keys().map(|network| rows::push_count(&actor, network)).collect();
    let removed = Removed { actor, all, gone, networks };
    Ok(Step::Read(queries, super::Pending::Registration(Pending::Removed(removed)).into()))
}

fn removed_found(removed: &Removed, found: &[Found]) -> Answered {
    let Removed { actor, all, gone, networks } = removed;
    let mut batch = Batch::new();
    for ((network, gone), found) in networks.iter().zip(found) {
        let before = count(Some(found))?;
        rows::put_push_count(&mut batch, actor, network, before.saturating_sub(*gone));
    }
    gone.iter().for_each(|id| rows::put_push(&mut batch, actor, *id, b""));
    rows::put_push_count(&mut batch, actor, b"", all.saturating_sub(gone.len() as u32));
    Ok(Step::Write(batch, Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extension::tests::goes_on;

    #[test]
    fn rows_read_back_and_nothing_else_does() {
        let plain = Registration {
            until_s: 7,
            network: [192, 0, 2, 1].into(),
            by: By::Everybody,
            p256dh: [4; 65],
            auth: [5; 16],
            endpoint: "https://push.example/x".into(),
        };
        let named = Registration { by: By::Token([6; 32], Some("jti".into())), ..plain.clone() };
        let unnamed = Registration { by: By::Token([6; 32], None), network: [9; 8].into(), ..plain.clone() };
        let allowed = Registration { by: By::Permit, ..plain.clone() };
        for registration in [plain, named, unnamed, allowed] {
            let row = registration.encode();
            assert_eq!(Registration::decode(&row), Some(registration));
            assert!((0..80).all(|cut| Registration::decode(&row[..cut]).is_none()), "cut short");
        }
        assert_eq!(Registration::decode(&[2; 200]), None);
    }

    /// A browser registers again while the removal of its invalid registration is in flight.
    #[test]
    fn what_was_made_again_meanwhile_stays() {
        let id = PushId([3; 16]);
        let removed = |over: Option<&[u8]>, now: &[u8]| {
            let Step::InTurn(queries, pending) = remove("s/a", vec![Removal { id, over: over.map(Into::into) }]) else {
                panic!("it has a turn");
            };
            assert_eq!(queries.len(), 2);
            let count = [&[FORMAT][..], &1_u32.to_be_bytes()].concat();
            let found = [Found::Value(Some(now.into())), Found::Value(Some(count.into()))];
            matches!(goes_on(pending, &found), Step::Read(..))
        };
        assert!(removed(None, b"new") && removed(Some(b"old"), b"old"));
        assert!(!removed(Some(b"old"), b"new"));
    }
}
