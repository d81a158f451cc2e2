//! A page of a log, as it crosses between shards.

use std::borrow::Cow;

/// Entries of a log after a position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page<'a> {
    /// The number of the last entry of the log.
    pub last: u64,
    /// The position after these entries: up to it nothing else exists.
    pub upto: u64,
    /// Whether more follow.
    pub more: bool,
    /// Whether some entries after the requested position are no longer stored.
    pub gap: bool,
    /// Each with its number.
    pub items: Vec<(u64, Cow<'a, [u8]>)>,
}

impl<'a> Page<'a> {
    /// The position from which a reader continues after a gap: before the first of these entries.
    pub fn behind_gap(&self) -> u64 {
        self.items.first().map_or(self.upto, |(number, _)| number.saturating_sub(1))
    }

    /// Encodes the answer.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = [self.last.to_be_bytes(), self.upto.to_be_bytes()].concat();
        out.push(u8::from(self.more) | u8::from(self.gap) << 1);
        for (number, item) in &self.items {
            out.extend_from_slice(&number.to_be_bytes());
            out.extend_from_slice(&(item.len() as u32).to_be_bytes());
            out.extend_from_slice(item);
        }
        out
    }

    /// Decodes the answer.
    pub fn decode(answer: &'a [u8]) -> Option<Page<'a>> {
        let (last, rest) = answer.split_first_chunk::<8>()?;
        let (upto, rest) = rest.split_first_chunk::<8>()?;
        let (flags, mut rest) = rest.split_first()?;
        let mut items = Vec::new();
        while !rest.is_empty() {
            let (number, after) = rest.split_first_chunk::<8>()?;
            let (length, after) = after.split_first_chunk::<4>()?;
            let (item, after) = after.split_at_checked(u32::from_be_bytes(*length) as usize)?;
            items.push((u64::from_be_bytes(*number), Cow::Borrowed(item)));
            rest = after;
        }
        let [last, upto] = [last, upto].map(|number| u64::from_be_bytes(*number));
        Some(Page { last, upto, more: flags & 1 != 0, gap: flags & 2 != 0, items })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_reads_back() {
        let page = Page { last: 9, upto: 7, more: true, gap: false, items: vec![(7, Cow::Borrowed(&b"{}"[..]))] };
        assert_eq!(Page::decode(&page.encode()), Some(page.clone()));
        assert_eq!(Page::decode(&page.encode()[..20]), None);
    }
}
