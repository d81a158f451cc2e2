//! The subscribers of a channel, as data: their number, and the names of those that have one. How
//! shards report them to each other, and the notifications to subscribers.
//!
//! Reports contain absolute numbers, not differences. A repeated report therefore does no harm, and
//! the next report repairs a lost one.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::limits::NOTIFY_WHO_MAX;
use crate::wire::json;

/// The subscribers of a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Crowd {
    /// The number of connections, including those without a name.
    pub(crate) subscribers: u32,
    /// The number of connections per name; at most [`NOTIFY_WHO_MAX`] names.
    pub(crate) names: BTreeMap<Arc<str>, u32>,
    /// Some names are not in the list.
    pub(crate) more: bool,
}

/// The subscribers of a channel as reported in a letter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said<'a> {
    /// The number of subscribers.
    pub(crate) subscribers: u32,
    /// Names with their numbers, in the format of [`write_names`].
    pub(crate) names: &'a [u8],
    /// Some names are not in the list.
    pub(crate) more: bool,
}

/// The names whose number has changed, with 0 for those that were removed.
pub(super) fn differing<'a>(
    now: &'a BTreeMap<Arc<str>, u32>,
    before: &'a BTreeMap<Arc<str>, u32>,
) -> impl Iterator<Item = (&'a str, u32)> {
    let there = now.iter().filter(|(name, count)| before.get(*name) != Some(*count));
    let gone = before.keys().filter(|name| !now.contains_key(*name));
    there.map(|(name, count)| (&**name, *count)).chain(gone.map(|name| (&**name, 0)))
}

/// Appends names with their numbers.
pub(super) fn write_names<'a>(out: &mut Vec<u8>, names: impl Iterator<Item = (&'a str, u32)>) {
    for (name, count) in names {
        out.extend_from_slice(&count.to_be_bytes());
        // A name is no longer than the subject of a token may be.
        out.push(name.len() as u8);
        out.extend_from_slice(name.as_bytes());
    }
}

fn read_names(mut bytes: &[u8]) -> impl Iterator<Item = (&str, u32)> {
    std::iter::from_fn(move || {
        let (count, rest) = bytes.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first()?;
        let (name, rest) = rest.split_at_checked(usize::from(*length))?;
        bytes = rest;
        Some((std::str::from_utf8(name).ok()?, u32::from_be_bytes(*count)))
    })
}

impl Crowd {
    /// Adds a connection. Returns `true` if it has no name, or its name is listed.
    pub(super) fn comes(&mut self, name: Option<&Arc<str>>) -> bool {
        self.subscribers += 1;
        let Some(name) = name else { return true };
        let has_room = self.names.len() < NOTIFY_WHO_MAX;
        match self.names.get_mut(name) {
            Some(count) => *count += 1,
            None if has_room => drop(self.names.insert(name.clone(), 1)),
            None => return false,
        }
        true
    }

    /// Removes a connection. Returns `true` if it has no name, or its name was listed.
    pub(super) fn goes(&mut self, name: Option<&Arc<str>>) -> bool {
        self.subscribers = self.subscribers.saturating_sub(1);
        let Some(name) = name else { return true };
        let Some(count) = self.names.get_mut(name) else { return false };
        *count -= 1;
        if *count == 0 {
            self.names.remove(name);
        }
        true
    }

    /// Applies a report: the complete state (`whole`), or the changes since the previous report.
    pub(crate) fn take(&mut self, said: Said<'_>, whole: bool) {
        (self.subscribers, self.more) = (said.subscribers, said.more);
        if whole {
            self.names.clear();
        }
        for (name, count) in read_names(said.names) {
            if count == 0 {
                self.names.remove(name);
            } else if let Some(own) = self.names.get_mut(name) {
                *own = count;
            } else if self.names.len() < NOTIFY_WHO_MAX {
                self.names.insert(name.into(), count);
            }
        }
    }

    /// Merges several crowds, with at most `names_max` names.
    pub(crate) fn of<'a>(crowds: impl Iterator<Item = &'a Crowd>, names_max: usize) -> Crowd {
        let mut all = Crowd::default();
        for crowd in crowds {
            all.subscribers = all.subscribers.saturating_add(crowd.subscribers);
            all.more |= crowd.more;
            for (name, count) in &crowd.names {
                if let Some(own) = all.names.get_mut(name) {
                    *own = own.saturating_add(*count);
                } else if all.names.len() < names_max {
                    all.names.insert(name.clone(), *count);
                } else {
                    all.more = true;
                }
            }
        }
        all
    }

    /// The complete state as JSON.
    pub(super) fn state(&self, channel: &str) -> Vec<u8> {
        #[derive(Serialize)]
        struct Name<'a> {
            name: &'a str,
            connections: u32,
        }
        #[derive(Serialize)]
        struct State<'a> {
            channel: &'a str,
            subscribers: u32,
            who: Vec<Name<'a>>,
            more: bool,
        }
        let who = self.names.iter().map(|(name, connections)| Name { name, connections: *connections }).collect();
        json::on_one_line(&State { channel, subscribers: self.subscribers, who, more: self.more })
    }

    /// The notification for a subscriber that knows the state `before`: names that have joined and
    /// left. If not all names are known, it is the complete state.
    pub(super) fn change(&self, before: &Crowd, channel: &str) -> Vec<u8> {
        if self.more || before.more {
            return self.state(channel);
        }
        #[derive(Serialize)]
        struct Change<'a> {
            channel: &'a str,
            subscribers: u32,
            joined: Vec<&'a str>,
            left: Vec<&'a str>,
        }
        fn missing<'a>(of: &'a Crowd, from: &Crowd) -> Vec<&'a str> {
            of.names.keys().filter(|name| !from.names.contains_key(*name)).map(|name| &**name).collect()
        }
        let (joined, left) = (missing(self, before), missing(before, self));
        json::on_one_line(&Change { channel, subscribers: self.subscribers, joined, left })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(subscribers: u32, names: &[u8]) -> Said<'_> {
        Said { subscribers, names, more: false }
    }

    fn written(names: &[(&str, u32)]) -> Vec<u8> {
        let mut out = Vec::new();
        write_names(&mut out, names.iter().copied());
        out
    }

    #[test]
    fn what_is_said_twice_or_cut_off_is_no_harm() {
        let mut crowd = Crowd::default();
        let bytes = written(&[("romeo", 2), ("\u{e9}", 1), (&"x".repeat(128), 3)]);
        for _ in 0..2 {
            crowd.take(said(7, &bytes), false);
            assert_eq!((crowd.subscribers, crowd.names.len(), crowd.names["romeo"]), (7, 3, 2));
        }
        crowd.take(said(5, &written(&[("romeo", 0), ("nobody", 0)])), false);
        assert_eq!((crowd.subscribers, crowd.names.len()), (5, 2));
        (0..bytes.len()).for_each(|end| crowd.take(said(1, &bytes[..end]), true));
        crowd.take(said(2, &[0, 0, 0, 1, 2, 0xff, 0xff]), true);
        assert!(crowd.names.is_empty());
    }

    #[test]
    fn names_are_bounded_and_the_number_is_not() {
        let names: Vec<Arc<str>> = (0..NOTIFY_WHO_MAX + 2).map(|number| number.to_string().into()).collect();
        let mut crowd = Crowd::default();
        let listed = names.iter().filter(|name| crowd.comes(Some(name))).count();
        assert_eq!((listed, crowd.subscribers as usize), (NOTIFY_WHO_MAX, NOTIFY_WHO_MAX + 2));
        assert!(crowd.comes(Some(&names[0])) && !crowd.goes(Some(&names[NOTIFY_WHO_MAX])));
        let mut twice = Crowd::default();
        let all = written(&names.iter().map(|name| (&**name, 1)).collect::<Vec<_>>());
        twice.take(said(1, &all), true);
        assert_eq!(twice.names.len(), NOTIFY_WHO_MAX);
        let both = Crowd::of([&crowd, &twice].into_iter(), 10);
        assert_eq!((both.subscribers as usize, both.names.len(), both.more), (NOTIFY_WHO_MAX + 3, 10, true));
        assert_eq!(both.names["0"], 3);
        assert!(names.iter().enumerate().all(|(at, name)| crowd.goes(Some(name)) == (at < NOTIFY_WHO_MAX)));
        assert_eq!(
            (crowd.subscribers, crowd.names.len()),
            (0, 1),
            "one has come twice, and one of no name has gone twice"
        );
    }

    #[test]
    fn what_is_told_is_json() {
        let mut before = Crowd::default();
        before.take(said(3, &written(&[("a\"\\\u{2028}", 1), ("b", 2)])), true);
        let state = "{\"channel\":\"c\",\"subscribers\":3,\"who\":[{\"name\":\"a\\\"\\\\\\u2028\",\"connections\":1},{\"name\":\"b\",\"connections\":2}],\"more\":false}";
        assert_eq!(String::from_utf8(before.state("c")).unwrap(), state);
        let mut now = before.clone();
        now.take(said(4, &written(&[("b", 0), ("c", 1), ("d", 2)])), false);
        let change = "{\"channel\":\"c\",\"subscribers\":4,\"joined\":[\"c\",\"d\"],\"left\":[\"b\"]}";
        assert_eq!(String::from_utf8(now.change(&before, "c")).unwrap(), change);
        now.more = true;
        assert_eq!(now.change(&before, "c"), now.state("c"));
        assert_eq!(before.change(&now, "c"), before.state("c"));
        let mut names: Vec<_> = differing(&now.names, &before.names).collect();
        names.sort_unstable();
        assert_eq!(names, [("b", 0), ("c", 1), ("d", 2)]);
    }
}
