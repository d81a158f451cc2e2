//! Times of one process, as they cross to another one.

use super::Now;

/// The side of a process border on which a value is: it leaves one process, or has arrived in
/// another. Monotonic times count from the start of a process, so a time in the past crosses as its
/// age, and a time in the future as what is left until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Border {
    /// The value is about to be written. The time is the sender's.
    Leaves(Now),
    /// The value was read. The time is the receiver's.
    Arrives(Now),
}

impl Border {
    fn now_ms(self) -> u64 {
        let (Border::Leaves(now) | Border::Arrives(now)) = self;
        now.mono_ms
    }

    fn now_s(self) -> u32 {
        let (Border::Leaves(now) | Border::Arrives(now)) = self;
        now.mono_s()
    }

    /// Translates a time in the past, milliseconds. What is older than the receiving process is as
    /// old as the process.
    pub fn past_ms(self, time_ms: &mut u64) {
        *time_ms = self.now_ms().saturating_sub(*time_ms);
    }

    /// Translates a time in the past, seconds. What is older than the receiving process is as old
    /// as the process.
    pub fn past_s(self, time_s: &mut u32) {
        *time_s = self.now_s().saturating_sub(*time_s);
    }
}

/// A value that may cross a process border.
pub trait Crosses {
    /// Translates the monotonic times in it. Crossing twice at one time, out and in, changes
    /// nothing.
    fn cross(&mut self, border: Border);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_the_same_on_both_sides() {
        let (sender, receiver) = (Now::new(90_000, 0), Now::new(40_000, 0));
        let (mut time_ms, mut time_s) = (70_000, 70);
        Border::Leaves(sender).past_ms(&mut time_ms);
        Border::Leaves(sender).past_s(&mut time_s);
        assert_eq!((time_ms, time_s), (20_000, 20));
        Border::Arrives(receiver).past_ms(&mut time_ms);
        Border::Arrives(receiver).past_s(&mut time_s);
        assert_eq!((time_ms, time_s), (20_000, 20));
        let mut old_ms = 60_000;
        Border::Arrives(receiver).past_ms(&mut old_ms);
        assert_eq!(old_ms, 0, "older than the process");
    }
}
