//! How long outputs are held: which of them go, and why. No I/O.
//!
//! An output's age is judged by when its run was over, as its record says, and bounded by when the file system
//! says that the record was written: the younger of the two counts. Neither is believed where it lies in the
//! future; and where the clock itself has jumped, what it jumped over is added to the files' times, so that it
//! counts for nobody as time that has passed. So a clock that is ten years off, at the writing or at the
//! sweep, expires nothing early, and keeps nothing longer than twice the limit.

use std::cmp::Reverse;

const HOUR_MS: u64 = 60 * 60 * 1000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Clocks that differ by less are the same clock: adjustments, and time between two looks at it.
pub const TOLERANCE_MS: u64 = HOUR_MS;
/// Time that may have passed while nobody looked (a host that was off): more counts as a jump of the clock,
/// since nothing tells the two apart.
pub const MAX_UNSEEN_MS: u64 = DAY_MS;

/// What may be held, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Milliseconds that a finished output is held.
    pub keep_ms: u64,
    /// Milliseconds that half of something may wait for its other half: a file for its record, a record for
    /// its file, a temporary file for its name.
    pub orphan_ms: u64,
    /// Bytes of all files together.
    pub max_bytes: u64,
    /// Runs and parcels that have files.
    pub max_count: u64,
}

/// 7 days, an hour, 10 GiB, 100,000.
impl Default for Retention {
    fn default() -> Self {
        Self {
            keep_ms: 7 * DAY_MS,
            orphan_ms: HOUR_MS,
            max_bytes: 10 * 1024 * 1024 * 1024,
            max_count: 100_000,
        }
    }
}

/// The time of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since 1970, by the host's clock.
    pub wall_ms: u64,
    /// Milliseconds by which that clock ran ahead of time since the last sweep: see [`jump_ms`].
    pub jump_ms: u64,
}

/// By how many milliseconds the clock ran ahead of time between two looks at it. `passed_ms` is the time that
/// really passed, where that is known.
pub fn jump_ms(last_wall_ms: u64, wall_ms: u64, passed_ms: Option<u64>) -> u64 {
    let (passed, tolerance) = match passed_ms {
        Some(passed) => (passed, TOLERANCE_MS),
        None => (MAX_UNSEEN_MS, 0),
    };
    let ahead = wall_ms.saturating_sub(last_wall_ms).saturating_sub(passed);
    if ahead > tolerance { ahead } else { 0 }
}

impl Now {
    /// The time that a file's time stands for; differs from it where the clock has jumped, or stands
    /// before it. Whoever sees a difference gives it to the file, so that the next sweep counts from there.
    pub fn corrected(self, mtime_ms: u64) -> u64 {
        if self.is_plausible(mtime_ms) {
            // The jump may have been before the file was written.
            mtime_ms
                .saturating_add(self.jump_ms)
                .min(self.wall_ms.max(mtime_ms))
        } else {
            self.wall_ms
        }
    }

    fn is_plausible(self, time_ms: u64) -> bool {
        time_ms <= self.wall_ms.saturating_add(TOLERANCE_MS)
    }
}

/// What is known of one thing that has files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// Whether it is whole.
    pub state: State,
    /// When it was over, by its record; `None` where no record says it.
    pub finished_ms: Option<u64>,
    /// When its record was written, by the file system; the newest of its files where there is none.
    pub mtime_ms: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Whether its run is over and the gateway has the result.
    pub settled: bool,
}

/// Whether a thing that has files is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Files with a record.
    Whole,
    /// Files without a record, a record without files or that is none, a temporary file.
    Half,
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It stays.
    Keep(Keep),
    /// It goes.
    Remove(Reason),
}

/// Why something stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Its run is not over, or the gateway does not have the result yet.
    Unsettled,
    /// Its time is not over.
    Young,
}

/// Why something goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It was held as long as it had to be.
    Expired,
    /// Its other half never came.
    HalfWritten,
    /// All together have too many bytes, and it is among the oldest.
    TooManyBytes,
    /// There are too many, and it is among the oldest.
    TooMany,
}

/// A verdict for each item, in their order.
pub fn decide(items: &[Item], now: Now, retention: &Retention) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = items
        .iter()
        .map(|item| by_age(item, now, retention))
        .collect();
    by_quota(items, &mut verdicts, now, retention);
    verdicts
}

fn by_age(item: &Item, now: Now, retention: &Retention) -> Verdict {
    let age = now.wall_ms.saturating_sub(time_of(item, now));
    match item.state {
        // However old, however full the disk: somebody writes to it, or still has to be told of it.
        _ if !item.settled => Verdict::Keep(Keep::Unsettled),
        // Nobody was ever told of it.
        State::Half if age > retention.orphan_ms => Verdict::Remove(Reason::HalfWritten),
        // Its receipt has promised it for so long and no longer.
        State::Whole if age > retention.keep_ms => Verdict::Remove(Reason::Expired),
        _ => Verdict::Keep(Keep::Young),
    }
}

/// When an item's time began: the younger of the record's word and the file's, as far as they can be true.
fn time_of(item: &Item, now: Now) -> u64 {
    let said = item.finished_ms.filter(|&ms| now.is_plausible(ms));
    said.unwrap_or(0).max(now.corrected(item.mtime_ms))
}

/// The oldest of those that may go, until the rest is within both quotas.
fn by_quota(items: &[Item], verdicts: &mut [Verdict], now: Now, retention: &Retention) {
    let stays = |verdict: &Verdict| matches!(verdict, Verdict::Keep(_));
    let kept = || items.iter().zip(verdicts.iter()).filter(|(_, v)| stays(v));
    let mut bytes: u64 = kept().map(|(item, _)| item.bytes).sum();
    let mut count = kept().count() as u64;
    if bytes <= retention.max_bytes && count <= retention.max_count {
        return;
    }
    let may_go =
        |n: &usize| items[*n].state == State::Whole && verdicts[*n] == Verdict::Keep(Keep::Young);
    let mut candidates: Vec<usize> = (0..items.len()).filter(may_go).collect();
    // Popped from the end: the oldest last.
    candidates.sort_by_key(|&n| Reverse(time_of(&items[n], now)));
    while let Some(n) = candidates.pop() {
        let reason = if bytes > retention.max_bytes {
            Reason::TooManyBytes
        } else if count > retention.max_count {
            Reason::TooMany
        } else {
            return;
        };
        verdicts[n] = Verdict::Remove(reason);
        bytes = bytes.saturating_sub(items[n].bytes);
        count -= 1;
    }
}

#[cfg(test)]
mod tests;
