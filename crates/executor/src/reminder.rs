//! When to tell again of something that lasts. No I/O.

use crate::limits::REMIND_EVERY;
use std::time::Instant;

/// Of one thing that is tried again and again: told at first, and from then on at times.
#[derive(Debug, Default)]
pub(crate) struct Reminder {
    told_at: Option<Instant>,
}

impl Reminder {
    /// Whether it is to be told now; if so, it counts as told.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let due = |told_at| now.saturating_duration_since(told_at) >= REMIND_EVERY;
        let is_due = self.told_at.is_none_or(due);
        if is_due {
            self.told_at = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_lasts_is_told_at_first_and_then_once_a_minute() {
        let began = Instant::now();
        let mut reminder = Reminder::default();
        let told: Vec<u64> = (0..=150)
            .filter(|s| reminder.is_due(began + Duration::from_secs(*s)))
            .collect();
        assert_eq!(told, [0, 60, 120]);
    }
}
