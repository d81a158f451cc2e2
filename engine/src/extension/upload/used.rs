//! A user's upload usage: one row, read and written with each slot.
//!
//! There is one timestamp for bytes and one for files: when everything charged so far has expired.
//! A whole day's allowance may be used at once. A slot is charged when it is issued, whether or not
//! it is used.

use super::slot::Upload;

const VERSION: u8 = 1;

/// A day in microseconds.
const DAY_US: u64 = 86_400_000_000;

/// The decoded row.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Used {
    /// When the charged bytes expire, microseconds since the Unix epoch.
    bytes_until_us: u64,
    /// When the charged files expire, likewise.
    files_until_us: u64,
    /// Number of the latest slot.
    pub serial: u64,
    /// The expiry of each slot, seconds since the Unix epoch.
    slots: Vec<u32>,
}

impl Used {
    /// `None` if the row is unreadable.
    pub(super) fn decode(row: &[u8]) -> Option<Used> {
        let rest = row.strip_prefix(&[VERSION])?;
        let (numbers, slots) = rest.split_at_checked(24)?;
        let number = |at: usize| numbers.get(at..)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        let (slots, []) = slots.as_chunks::<4>() else { return None };
        Some(Used {
            bytes_until_us: number(0)?,
            files_until_us: number(8)?,
            serial: number(16)?,
            slots: slots.iter().map(|bytes| u32::from_be_bytes(*bytes)).collect(),
        })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut row = vec![VERSION];
        for number in [self.bytes_until_us, self.files_until_us, self.serial] {
            row.extend_from_slice(&number.to_be_bytes());
        }
        self.slots.iter().for_each(|until| row.extend_from_slice(&until.to_be_bytes()));
        row
    }

    /// Charges a file of this many bytes, and counts its slot.
    ///
    /// # Errors
    /// Microseconds until a retry makes sense. Nothing is charged.
    pub(super) fn charge(&mut self, upload: &Upload, now_us: u64, bytes: u64) -> Result<(), u64> {
        let now_s = u32::try_from(now_us / 1_000_000).unwrap_or(u32::MAX);
        // A clock that was set back blocks nobody for longer than a day.
        let from = |until_us: u64| until_us.clamp(now_us, now_us + DAY_US);
        let cost = |part: u64, of: u64| match of {
            0 => 0,
            of => u64::try_from(u128::from(DAY_US) * u128::from(part) / u128::from(of)).unwrap_or(u64::MAX),
        };
        let by_bytes = from(self.bytes_until_us).saturating_add(cost(bytes, upload.day_bytes));
        let by_files = from(self.files_until_us).saturating_add(cost(1, upload.day_files));
        let over_us = by_bytes.max(by_files).saturating_sub(now_us + DAY_US);
        if over_us > 0 {
            return Err(over_us);
        }
        let last = now_s.saturating_add(upload.slot_s);
        self.slots.retain(|until| *until >= now_s && *until <= last);
        if self.slots.len() >= usize::from(upload.slots_max) {
            let first = self.slots.iter().min().copied().unwrap_or(now_s);
            return Err(u64::from(first - now_s + 1) * 1_000_000);
        }
        self.slots.push(last);
        self.serial += 1;
        (self.bytes_until_us, self.files_until_us) = (by_bytes, by_files);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW_US: u64 = 1_700_000_000_000_000;

    fn upload(slots_max: u16, day_bytes: u64, day_files: u64) -> Upload {
        Upload {
            key: [0; 32],
            url: "https://a/".into(),
            file_bytes_max: 1 << 40,
            slot_s: 300,
            slots_max,
            day_bytes,
            day_files,
            keep_s: 1,
        }
    }

    #[test]
    fn a_days_worth_may_come_at_once_and_the_rest_as_it_passes() {
        let upload = upload(1_000, 1_000, 0);
        let mut used = Used::default();
        assert_eq!(used.charge(&upload, NOW_US, 600), Ok(()));
        assert_eq!(used.charge(&upload, NOW_US, 400), Ok(()));
        assert_eq!(used.charge(&upload, NOW_US, 100), Err(DAY_US / 10));
        assert_eq!(used.charge(&upload, NOW_US + DAY_US / 10, 100), Ok(()));
        assert_eq!(used.serial, 3);
    }

    #[test]
    fn files_are_counted_and_slots_are_free_again_when_their_time_is_over() {
        let mut used = Used::default();
        let by_files = upload(1_000, 0, 2);
        assert!(used.charge(&by_files, NOW_US, 1).is_ok() && used.charge(&by_files, NOW_US, 1).is_ok());
        assert_eq!(used.charge(&by_files, NOW_US, 1), Err(DAY_US / 2));
        let (mut used, by_slots) = (Used::default(), upload(2, 0, 0));
        assert!(used.charge(&by_slots, NOW_US, 1).is_ok() && used.charge(&by_slots, NOW_US, 1).is_ok());
        assert_eq!(used.charge(&by_slots, NOW_US + 100_000_000, 1), Err(201_000_000));
        assert!(used.charge(&by_slots, NOW_US + 301_000_000, 1).is_ok());
    }

    #[test]
    fn a_clock_that_was_set_back_holds_nobody_for_long() {
        let upload = upload(2, 1_000, 10);
        let mut used = Used::default();
        (0..2).for_each(|_| used.charge(&upload, NOW_US, 400).expect("there is room"));
        let year_us = 365 * DAY_US;
        assert_eq!(used.clone().charge(&upload, NOW_US - year_us, 400), Err(DAY_US * 4 / 10));
        assert!(used.charge(&upload, NOW_US - year_us + DAY_US * 3, 0).is_err(), "the stamps lie ahead");
        used.bytes_until_us = 0;
        used.files_until_us = 0;
        assert!(used.charge(&upload, NOW_US - year_us, 400).is_ok(), "slots of the future are none");
    }

    proptest! {
        #[test]
        fn rows_read_back(bytes in any::<u64>(), files in any::<u64>(), serial in any::<u64>(), slots in prop::collection::vec(any::<u32>(), 0..20)) {
            let used = Used { bytes_until_us: bytes, files_until_us: files, serial, slots };
            prop_assert_eq!(Used::decode(&used.encode()), Some(used.clone()));
            let row = used.encode();
            prop_assert_eq!(Used::decode(&row[..row.len() - 1]), None);
        }

        #[test]
        fn what_passes_in_a_day_is_bounded(sizes in prop::collection::vec(0..900_u64, 1..40), step_s in 1..20_000_u64) {
            let upload = upload(1_000, 1_000, 7);
            let (mut used, mut let_through) = (Used::default(), Vec::new());
            for (at, size) in sizes.iter().enumerate() {
                let now_us = NOW_US + at as u64 * step_s * 1_000_000;
                if used.charge(&upload, now_us, *size).is_ok() {
                    let_through.push((now_us, *size));
                }
            }
            for (from, _) in &let_through {
                let in_day = let_through.iter().filter(|(at, _)| *at >= *from && *at < from + DAY_US);
                let (count, bytes) = in_day.fold((0, 0), |(count, bytes), (_, size)| (count + 1, bytes + size));
                // At most a day's allowance at once, plus what expires meanwhile.
                prop_assert!(count <= 14 && bytes <= 2_000);
            }
        }
    }
}
