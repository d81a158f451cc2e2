//! Numbers messages, and determines the fate of each: lost, duplicated, reordered, corrupted.
//!
//! A pair's messages are numbered from 0 in the order in which they are sent. The receiver's book
//! is always exact: it stores missing messages as ranges, so that its memory is proportional to the
//! gaps and not to the messages. This module must never know the sender or the time.

use std::collections::BTreeMap;

/// What a body says: `!run pair number nanoseconds check` and padding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    /// Which run, so that what an earlier one has left in a log is not mistaken for a duplicate.
    pub(crate) run: u32,
    /// Which pair.
    pub(crate) pair: u32,
    /// The message's number.
    pub(crate) number: u32,
    /// When it was to be sent, since the run's start.
    pub(crate) sent_ns: u64,
}

/// What a body is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Body {
    /// As it was written.
    Whole(Stamp),
    /// Of this program, and changed since.
    Corrupted,
    /// Not written by this program.
    Foreign,
}

/// Digits of the check.
const CHECK_BYTES: usize = 8;

impl Stamp {
    /// Appends the body's text and fills it up with `x` until `out` has `bytes_until` bytes.
    pub(crate) fn write(self, out: &mut Vec<u8>, bytes_until: usize) {
        let start = out.len();
        out.push(b'!');
        for number in [u64::from(self.run), u64::from(self.pair), u64::from(self.number), self.sent_ns] {
            write_number(out, number);
            out.push(b' ');
        }
        let end = bytes_until.max(out.len() + CHECK_BYTES);
        out.extend_from_slice(&self.check(end - start));
        out.resize(end, b'x');
    }

    /// Reads a body. That one byte of it is another than was written is always seen.
    pub(crate) fn read(body: &str) -> Body {
        let whole = body.starts_with('!');
        let mut first = body.chars();
        first.next();
        let Some((stamp, rest)) = Stamp::fields(first.as_str()) else {
            return if whole { Body::Corrupted } else { Body::Foreign };
        };
        let intact = rest.split_at_checked(CHECK_BYTES).is_some_and(|(check, padding)| {
            check.as_bytes() == stamp.check(body.len()) && padding.bytes().all(|byte| byte == b'x')
        });
        if whole && intact { Body::Whole(stamp) } else { Body::Corrupted }
    }

    fn fields(text: &str) -> Option<(Stamp, &str)> {
        let mut fields = text.splitn(5, ' ');
        let stamp = Stamp {
            run: fields.next()?.parse().ok()?,
            pair: fields.next()?.parse().ok()?,
            number: fields.next()?.parse().ok()?,
            sent_ns: fields.next()?.parse().ok()?,
        };
        Some((stamp, fields.next()?))
    }

    /// Eight digits that depend on all that the stamp says and on the body's length.
    fn check(self, body_bytes: usize) -> [u8; CHECK_BYTES] {
        let mut mixed = body_bytes as u64;
        for number in [u64::from(self.run), u64::from(self.pair), u64::from(self.number), self.sent_ns] {
            mixed = (mixed ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed ^= mixed >> 29;
        }
        std::array::from_fn(|at| b"0123456789abcdef"[(mixed >> (4 * at)) as usize & 15])
    }
}

fn write_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// What an arrival is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// Behind all that came before, perhaps with a gap.
    InOrder,
    /// Behind one with a higher number, for the first time.
    Reordered,
    /// It has come before.
    Duplicate,
    /// It was never sent.
    Unknown,
}

/// A pair's account of its messages.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// Messages sent; the next one's number.
    sent: u32,
    /// The highest number that came, and one.
    next: u32,
    /// Most pairs have neither gap nor break.
    gaps: Option<Box<Gaps>>,
}

#[derive(Debug, Default)]
struct Gaps {
    /// Below `next` and not come: start to end, the end not included.
    missing: BTreeMap<u32, u32>,
    /// In transit when a connection of the pair broke, so that their loss is the network's fault.
    unsure: BTreeMap<u32, u32>,
}

/// What did not come.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Missing {
    /// Sent, and both connections stood.
    pub(crate) lost: u64,
    /// Sent, and a connection of the pair broke before it came.
    pub(crate) unsure: u64,
}

impl Book {
    /// Gives the next message its number.
    pub(crate) fn number(&mut self) -> u32 {
        self.sent += 1;
        self.sent - 1
    }

    /// A message came.
    pub(crate) fn arrived(&mut self, number: u32) -> Arrival {
        if number >= self.sent {
            return Arrival::Unknown;
        }
        if number >= self.next {
            if number > self.next {
                self.gaps.get_or_insert_default().missing.insert(self.next, number);
            }
            self.next = number + 1;
            return Arrival::InOrder;
        }
        let Some(gaps) = self.gaps.as_mut() else { return Arrival::Duplicate };
        let found = gaps.missing.range(..=number).next_back().map(|(start, end)| (*start, *end));
        let Some((start, end)) = found.filter(|(_, end)| number < *end) else { return Arrival::Duplicate };
        gaps.missing.remove(&start);
        if start < number {
            gaps.missing.insert(start, number);
        }
        if number + 1 < end {
            gaps.missing.insert(number + 1, end);
        }
        Arrival::Reordered
    }

    /// A connection of the pair broke: what is under way may be lost.
    pub(crate) fn broke(&mut self) {
        if self.next < self.sent {
            let unsure = &mut self.gaps.get_or_insert_default().unsure;
            // Ranges of breaks begin where all before had come, so one that begins earlier may
            // overlap: the later wins.
            let overlap = unsure.range(..self.next).next_back().map(|(start, end)| (*start, *end));
            match overlap {
                Some((start, end)) if end >= self.next => unsure.insert(start, end.max(self.sent)),
                _ => unsure.insert(self.next, self.sent),
            };
        }
    }

    /// Messages sent; the next one's number.
    pub(crate) fn sent(&self) -> u32 {
        self.sent
    }

    /// The highest number that came, and one.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// Messages that have not come.
    pub(crate) fn outstanding(&self) -> u64 {
        let gaps = self.gaps.iter().flat_map(|gaps| &gaps.missing).map(|(start, end)| u64::from(end - start));
        u64::from(self.sent - self.next) + gaps.sum::<u64>()
    }

    /// What has not come, by whether a break explains it.
    pub(crate) fn missing(&self) -> Missing {
        let all = self.outstanding();
        let Some(gaps) = &self.gaps else { return Missing { lost: all, unsure: 0 } };
        let mut missing = gaps.missing.clone();
        if self.next < self.sent {
            missing.insert(self.next, self.sent);
        }
        let mut unsure = 0;
        for (start, end) in &gaps.unsure {
            for (gap, gap_end) in missing.range(..end) {
                unsure += u64::from((*gap_end).min(*end).saturating_sub((*gap).max(*start)));
            }
        }
        Missing { lost: all - unsure, unsure }
    }

    /// Bytes of heap that the book takes.
    #[cfg(test)]
    fn heap_bytes(&self) -> usize {
        self.gaps.as_ref().map_or(0, |gaps| size_of::<Gaps>() + 16 * (gaps.missing.len() + gaps.unsure.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(sent: u32, arrivals: &[u32]) -> (Book, Vec<Arrival>) {
        let mut book = Book::default();
        for _ in 0..sent {
            book.number();
        }
        let arrivals = arrivals.iter().map(|number| book.arrived(*number)).collect();
        (book, arrivals)
    }

    #[test]
    fn what_comes_in_order_leaves_nothing() {
        let (book, arrivals) = book(3, &[0, 1, 2]);
        assert_eq!(arrivals, [Arrival::InOrder; 3]);
        assert_eq!(book.missing(), Missing::default());
        assert_eq!(book.heap_bytes(), 0);
    }

    #[test]
    fn each_number_is_judged_once_whatever_the_order() {
        use Arrival::{Duplicate, InOrder, Reordered, Unknown};
        let (book, arrivals) = book(10, &[2, 2, 0, 0, 1, 7, 5, 5, 3, 7, 10]);
        let expected = [
            InOrder, Duplicate, Reordered, Duplicate, Reordered, InOrder, Reordered, Duplicate, Reordered, Duplicate,
            Unknown,
        ];
        assert_eq!(arrivals, expected);
        // 4, 6, 8 and 9 have not come.
        assert_eq!(book.missing(), Missing { lost: 4, unsure: 0 });
        assert_eq!(book.outstanding(), 4);
    }

    #[test]
    fn a_break_explains_only_what_was_under_way() {
        let mut book = Book::default();
        for _ in 0..4 {
            book.number();
        }
        book.arrived(1);
        book.broke();
        for _ in 0..4 {
            book.number();
        }
        book.arrived(5);
        // 0 was overtaken before the break; 2 and 3 were under way; 4, 6 and 7 were sent after it.
        assert_eq!(book.missing(), Missing { lost: 4, unsure: 2 });
        book.broke();
        assert_eq!(book.missing(), Missing { lost: 2, unsure: 4 });
        book.arrived(2);
        assert_eq!(book.missing(), Missing { lost: 2, unsure: 3 });
    }

    #[test]
    fn a_second_break_at_once_does_not_count_twice() {
        let mut book = Book::default();
        for _ in 0..4 {
            book.number();
        }
        book.broke();
        book.arrived(0);
        book.number();
        book.broke();
        assert_eq!(book.missing(), Missing { lost: 0, unsure: 4 });
    }

    #[test]
    fn a_stamp_survives_the_body() {
        let stamp = Stamp { run: 3, pair: 7, number: u32::MAX - 1, sent_ns: 123_456_789_012 };
        let mut out = b"head".to_vec();
        stamp.write(&mut out, 100);
        assert_eq!(out.len(), 100);
        let body = std::str::from_utf8(&out[4..]).expect("text");
        assert_eq!(Stamp::read(body), Body::Whole(stamp));
        assert_eq!(Stamp::read("hello"), Body::Foreign);
        assert_eq!(Stamp::read("!1 2 3"), Body::Corrupted);
    }

    #[test]
    fn a_body_with_one_other_byte_or_another_length_is_corrupted() {
        let stamp = Stamp { run: 77, pair: 0, number: 1_000, sent_ns: 98_765 };
        let mut out = Vec::new();
        stamp.write(&mut out, 60);
        for at in 0..out.len() {
            for byte in (b' '..=b'~').filter(|byte| *byte != out[at]) {
                let mut changed = out.clone();
                changed[at] = byte;
                let text = std::str::from_utf8(&changed).expect("ASCII");
                assert_eq!(Stamp::read(text), Body::Corrupted, "{text}");
            }
        }
        let text = std::str::from_utf8(&out).expect("ASCII");
        for changed in [&text[..59], &format!("{text}x"), &text[..0]] {
            assert_ne!(Stamp::read(changed), Body::Whole(stamp), "{changed}");
        }
    }
}
