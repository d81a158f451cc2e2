//! Items: their content, which says what they are and when they were due, and a subscriber's account of them.
//!
//! A content has the same bytes in every protocol: no character of it is escaped in JSON, in a form or in an event. So it is
//! found by its mark, however a protocol wraps it.

use std::fmt::Write as _;

/// Where a content begins; no server writes this itself.
const MARK: &[u8] = b"~i";
/// Where it ends.
const END: u8 = b'~';

/// What an item says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Item {
    /// Its channel's number.
    pub(crate) channel: u32,
    /// Its own number there, from 1.
    pub(crate) number: u32,
    /// When it was to be published, microseconds since the load's start.
    pub(crate) due_us: u64,
}

impl Item {
    /// Writes it with so many bytes, or as many as it needs.
    pub(crate) fn write(&self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes);
        let _ = write!(text, "~i{}.{}.{}.", self.channel, self.number, self.due_us);
        while text.len() + 1 < bytes {
            text.push('x');
        }
        text.push('~');
        text
    }

    fn read(text: &[u8]) -> Option<Item> {
        let mut parts = std::str::from_utf8(text).ok()?.split('.');
        let item = Item {
            channel: parts.next()?.parse().ok()?,
            number: parts.next()?.parse().ok()?,
            due_us: parts.next()?.parse().ok()?,
        };
        let rest = parts.next()?;
        (parts.next().is_none() && rest.bytes().all(|byte| byte == b'x')).then_some(item)
    }
}

/// All items in these bytes, in order; what begins as one and is none is `None`.
pub(crate) fn find(mut bytes: &[u8], on_item: &mut dyn FnMut(Option<Item>)) {
    while let Some(at) = bytes.windows(MARK.len()).position(|window| window == MARK) {
        let rest = &bytes[at + MARK.len()..];
        let Some(end) = rest.iter().position(|byte| *byte == END) else { return on_item(None) };
        on_item(Item::read(&rest[..end]));
        bytes = &rest[end + 1..];
    }
}

/// What did not come once and in order.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Faults {
    /// Passed over by a later one.
    pub(crate) lost: u64,
    /// Came again, or behind a later one.
    pub(crate) again: u64,
    /// Of another channel, or not to be read.
    pub(crate) unknown: u64,
}

impl Faults {
    /// All.
    pub(crate) fn sum(&self) -> u64 {
        self.lost + self.again + self.unknown
    }
}

/// Takes an item of a subscriber that has seen the numbers up to `seen`. Whether it counts as delivered.
pub(crate) fn take(seen: &mut u32, own_channel: u32, item: Option<Item>, faults: &mut Faults) -> bool {
    let Some(item) = item.filter(|item| item.channel == own_channel && item.number > 0) else {
        faults.unknown += 1;
        return false;
    };
    if item.number <= *seen {
        faults.again += 1;
        return false;
    }
    faults.lost += u64::from(item.number - *seen - 1);
    *seen = item.number;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITEM: Item = Item { channel: 7, number: 3, due_us: 1_234_567 };

    #[test]
    fn an_item_is_found_in_whatever_is_around_it() {
        let text = ITEM.write(100);
        assert_eq!(text.len(), 100);
        let around = format!("{{\"a~b\":1,\"data\":\"{text}\"}}\n{{\"data\":\"{text}\"}}~i7.x~ ~i");
        let mut found = Vec::new();
        find(around.as_bytes(), &mut |item| found.push(item));
        assert_eq!(found, [Some(ITEM), Some(ITEM), None, None]);
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"~.".contains(&byte)), "nothing is escaped");
        assert_eq!(ITEM.write(1), "~i7.3.1234567.~");
    }

    #[test]
    fn each_item_counts_once_and_in_order() {
        let (mut seen, mut faults) = (0, Faults::default());
        let item = |number| Some(Item { number, ..ITEM });
        assert!(take(&mut seen, 7, item(1), &mut faults) && take(&mut seen, 7, item(4), &mut faults));
        assert!(!take(&mut seen, 7, item(4), &mut faults) && !take(&mut seen, 7, item(2), &mut faults));
        assert!(!take(&mut seen, 8, item(5), &mut faults) && !take(&mut seen, 7, None, &mut faults));
        assert_eq!((seen, faults), (4, Faults { lost: 2, again: 2, unknown: 2 }));
        assert_eq!(faults.sum(), 6);
    }
}
