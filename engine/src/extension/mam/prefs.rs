//! Which messages are archived for a user (XEP-0441). The others wait for the user as usual and are
//! removed once delivered.
//!
//! The preferences are one row per user. If the roster decides, the row also has a hash of each
//! contact, so that a message is judged where it is handled, without the roster.

use minidom::Element;

use crate::extension::change::Change;
use crate::extension::iq::{Condition, Context, IqRequest, Limit, Step};
use crate::extension::note::Note;
use crate::extension::roster::Roster;
use crate::extension::xml;
use crate::id;
use crate::store::{Found, roster as rows};
use crate::wire::jid::bare_of;

use super::NS;

/// Limit of JIDs in both lists together.
const ITEMS_MAX: usize = 1_000;
/// Limit of their bytes.
const BYTES_MAX: usize = 64 << 10;
const FORMAT: u8 = 1;

/// The default for a message with an entity in neither list (XEP-0441 2.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum Otherwise {
    #[default]
    Always,
    Never,
    Roster,
}

impl Otherwise {
    const ALL: [(Otherwise, &str); 3] =
        [(Otherwise::Always, "always"), (Otherwise::Never, "never"), (Otherwise::Roster, "roster")];

    fn name(self) -> &'static str {
        Otherwise::ALL[self as usize].1
    }

    fn named(name: &str) -> Option<Otherwise> {
        Otherwise::ALL.into_iter().find(|(_, other)| *other == name).map(|(otherwise, _)| otherwise)
    }
}

/// The preferences. JIDs are normalised, sorted and without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Prefs {
    otherwise: Otherwise,
    always: Vec<Box<str>>,
    never: Vec<Box<str>>,
    /// Hashes of the contacts in the roster, sorted; empty unless the roster decides.
    contacts: Vec<u64>,
}

impl Note for Prefs {
    fn memory_bytes(&self) -> usize {
        let jids = self.always.iter().chain(&self.never);
        jids.map(|jid| size_of::<Box<str>>() + jid.len()).sum::<usize>() + size_of_val(&self.contacts[..])
    }
}

impl Prefs {
    fn of(note: Option<&dyn Note>) -> Prefs {
        let prefs = note.and_then(|note| (note as &dyn std::any::Any).downcast_ref::<Prefs>());
        prefs.cloned().unwrap_or_default()
    }

    /// XEP-0441 2.3. A JID in both lists is not archived.
    fn archive(&self, user: &str, other: &str) -> bool {
        let bare = bare_of(other);
        let has =
            |list: &[Box<str>]| [other, bare].iter().any(|jid| list.binary_search_by(|item| (**item).cmp(jid)).is_ok());
        if has(&self.never) {
            return false;
        }
        has(&self.always)
            || match self.otherwise {
                Otherwise::Always => true,
                Otherwise::Never => false,
                Otherwise::Roster => bare == user || self.contacts.binary_search(&id::hash(bare.as_bytes())).is_ok(),
            }
    }

    /// The row: its format, the default, the number of contacts and their hashes, then the JIDs of
    /// both lists, each with a terminator that no JID can contain, and one more terminator between
    /// the lists.
    fn row(&self) -> Vec<u8> {
        if *self == Prefs::default() {
            return Vec::new();
        }
        let mut row = vec![FORMAT, self.otherwise as u8];
        row.extend_from_slice(&(self.contacts.len() as u32).to_le_bytes());
        self.contacts.iter().for_each(|hash| row.extend_from_slice(&hash.to_le_bytes()));
        for (index, list) in [&self.always, &self.never].into_iter().enumerate() {
            row.extend(std::iter::repeat_n(0, index));
            row.extend(list.iter().flat_map(|jid| jid.bytes().chain([0])));
        }
        row
    }

    fn read(row: &[u8]) -> Option<Prefs> {
        let (&[FORMAT, otherwise], rest) = row.split_first_chunk::<2>()? else { return None };
        let (count, rest) = rest.split_first_chunk::<4>()?;
        let (contacts, rest) = rest.split_at_checked(8 * u32::from_le_bytes(*count) as usize)?;
        let (contacts, _) = contacts.as_chunks::<8>();
        let text = std::str::from_utf8(rest).ok()?;
        // An empty piece separates the lists: a JID is never empty.
        let mut pieces = text.split_terminator('\0');
        let always = pieces.by_ref().take_while(|jid| !jid.is_empty()).map(Into::into).collect();
        Some(Prefs {
            otherwise: Otherwise::ALL.get(usize::from(otherwise))?.0,
            always,
            never: pieces.map(Into::into).collect(),
            contacts: contacts.iter().map(|hash| u64::from_le_bytes(*hash)).collect(),
        })
    }

    fn with_contacts<'a>(&self, contacts: impl Iterator<Item = &'a str>) -> Prefs {
        let mut contacts: Vec<u64> = contacts.map(|contact| id::hash(contact.as_bytes())).collect();
        contacts.sort_unstable();
        contacts.dedup();
        Prefs { contacts, ..self.clone() }
    }

    /// The answer to both requests (XEP-0441 2.1).
    fn payload(&self) -> Vec<u8> {
        let mut out = format!("<prefs xmlns='{NS}' default='{}'>", self.otherwise.name()).into_bytes();
        for (name, list) in [("always", &self.always), ("never", &self.never)] {
            out.extend_from_slice(format!("<{name}>").as_bytes());
            list.iter().for_each(|jid| xml::text_element(&mut out, "jid", jid));
            out.extend_from_slice(format!("</{name}>").as_bytes());
        }
        out.extend_from_slice(b"</prefs>");
        out
    }
}

pub(super) fn load(row: &[u8]) -> Option<Box<dyn Note>> {
    Some(Box::new(Prefs::read(row)?))
}

pub(super) fn archives(note: &dyn Note, user: &str, other: &str) -> bool {
    (note as &dyn std::any::Any).downcast_ref::<Prefs>().is_none_or(|prefs| prefs.archive(user, other))
}

pub(super) fn roster(note: &dyn Note, contacts: &mut dyn Iterator<Item = &str>) -> Option<Vec<u8>> {
    let prefs = (note as &dyn std::any::Any).downcast_ref::<Prefs>()?;
    if prefs.otherwise != Otherwise::Roster {
        return None;
    }
    let changed = prefs.with_contacts(contacts);
    (changed != *prefs).then(|| changed.row())
}

pub(super) fn handle(context: &Context<'_>, request: &IqRequest<'_>) -> Step {
    if !request.set {
        return Step::Result(Prefs::of(context.note).payload());
    }
    let prefs = match asked(context, request.payload) {
        Ok(prefs) => prefs,
        Err(condition) => return Step::Error(condition.into()),
    };
    let bytes: usize = prefs.always.iter().chain(&prefs.never).map(|jid| jid.len() + 1).sum();
    if prefs.always.len() + prefs.never.len() > ITEMS_MAX || bytes > BYTES_MAX {
        return Step::Error(Limit::Record.into());
    }
    // A change that does not need the roster also waits for its turn, so that the last request
    // wins.
    Step::InTurn(vec![rows::query(request.account)], super::Pending::Prefs(prefs).into())
}

impl Prefs {
    /// Continues with the roster, for these new preferences.
    pub(super) fn go_on(self, found: &[Found]) -> Step {
        match found {
            _ if self.otherwise != Otherwise::Roster => set(&self),
            // An unreadable roster must not count as an empty one.
            [Found::Damaged] => Step::Error(Condition::InternalServerError.into()),
            [found] => match Roster::load(found) {
                Ok(roster) => set(&self.with_contacts(roster.listed_contacts())),
                Err(_) => Step::Error(Condition::InternalServerError.into()),
            },
            _ => Step::Error(Condition::InternalServerError.into()),
        }
    }
}

fn set(prefs: &Prefs) -> Step {
    Step::Change(vec![Change::Record(prefs.row())], prefs.payload())
}

fn asked(context: &Context<'_>, payload: &[u8]) -> Result<Prefs, Condition> {
    let element = xml::parse(payload).ok_or(Condition::BadRequest)?;
    let otherwise = element.attr("default").and_then(Otherwise::named).ok_or(Condition::BadRequest)?;
    let list = |name: &str| match element.get_child(name, NS) {
        Some(list) => jids(context, list),
        None => Ok(Vec::new()),
    };
    Ok(Prefs { otherwise, always: list("always")?, never: list("never")?, contacts: Vec::new() })
}

fn jids(context: &Context<'_>, list: &Element) -> Result<Vec<Box<str>>, Condition> {
    let mut jids = Vec::new();
    for item in list.children() {
        if !item.is("jid", NS) {
            return Err(Condition::BadRequest);
        }
        jids.push((context.jid)(&item.text()).ok_or(Condition::JidMalformed)?);
        if jids.len() > ITEMS_MAX {
            return Err(Condition::NotAcceptable);
        }
    }
    jids.sort_unstable();
    jids.dedup();
    Ok(jids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(jids: &[&str]) -> Vec<Box<str>> {
        jids.iter().map(|jid| (*jid).into()).collect()
    }

    #[test]
    fn a_row_reads_back() {
        assert!(Prefs::default().row().is_empty(), "what is so without a row has none");
        for (always, never) in
            [(&[][..], &["a@b"][..]), (&["a@b", "c@d/e f"], &[]), (&["a@b"], &["c", "d@e"]), (&[], &[])]
        {
            let prefs =
                Prefs { otherwise: Otherwise::Roster, always: list(always), never: list(never), contacts: vec![1, 9] };
            assert_eq!(Prefs::read(&prefs.row()), Some(prefs));
        }
        assert!(load(b"").is_none() && load(&[9; 9]).is_none() && load(&[FORMAT, 0, 1, 0, 0, 0]).is_none());
    }

    #[test]
    fn jids_are_matched_by_xep_0441_2_3() {
        let prefs = Prefs { always: list(&["a@x/r", "b@x"]), never: list(&["b@x/r", "c@x"]), ..Prefs::default() };
        let never = Prefs { otherwise: Otherwise::Never, ..prefs.clone() };
        for (other, by_default, if_never, clause) in [
            ("a@x/r", true, true, "a full JID is compared as it is"),
            ("a@x/s", true, false, "another resource"),
            ("b@x/s", true, true, "a bare JID is for all resources"),
            ("b@x/r", false, false, "never, of all resources that are always"),
            ("c@x/r", false, false, "never"),
            ("d@x", true, false, "2.1.1: the default"),
        ] {
            assert_eq!(prefs.archive("u@x", other), by_default, "{clause}");
            assert_eq!(never.archive("u@x", other), if_never, "{clause}");
        }
        let roster =
            Prefs { otherwise: Otherwise::Roster, ..Prefs::default() }.with_contacts(["a@x", "b@x"].into_iter());
        let kept = |other: &str| roster.archive("u@x", other);
        assert!(kept("a@x/r") && kept("b@x") && !kept("c@x"), "2.1.1: those that the roster lists, by their bare JIDs");
        assert!(kept("u@x/r"), "the user's own are no contacts and no strangers");
    }
}
