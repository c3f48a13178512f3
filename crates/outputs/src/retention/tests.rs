use super::*;
use proptest::prelude::*;

const YEARS: u64 = 10 * 365 * DAY_MS;
/// Today.
const T0: u64 = 20_000 * DAY_MS;
const WEEK: u64 = 7 * DAY_MS;

fn whole(finished_ms: u64) -> Item {
    Item {
        state: State::Whole,
        finished_ms: Some(finished_ms),
        mtime_ms: finished_ms,
        bytes: 100,
        settled: true,
    }
}

fn half(mtime_ms: u64) -> Item {
    Item {
        state: State::Half,
        finished_ms: None,
        ..whole(mtime_ms)
    }
}

fn at(wall_ms: u64) -> Now {
    Now {
        wall_ms,
        jump_ms: 0,
    }
}

#[track_caller]
fn check(item: Item, now: Now, expected: Verdict) {
    assert_eq!(decide(&[item], now, &Retention::default()), [expected]);
}

const YOUNG: Verdict = Verdict::Keep(Keep::Young);
const EXPIRED: Verdict = Verdict::Remove(Reason::Expired);
const HALF: Verdict = Verdict::Remove(Reason::HalfWritten);

#[test]
fn the_limit_is_inclusive() {
    check(whole(T0), at(T0 + WEEK), YOUNG);
    check(whole(T0), at(T0 + WEEK + 1), EXPIRED);
    check(half(T0), at(T0 + HOUR_MS), YOUNG);
    check(half(T0), at(T0 + HOUR_MS + 1), HALF);
}

#[test]
fn the_younger_of_record_and_file_counts() {
    let now = at(T0 + WEEK + 1);
    check(
        Item {
            mtime_ms: T0 + 1,
            ..whole(T0)
        },
        now,
        YOUNG,
    );
    check(
        Item {
            mtime_ms: 0,
            ..whole(T0 + 1)
        },
        now,
        YOUNG,
    );
    check(
        Item {
            finished_ms: None,
            ..whole(T0)
        },
        now,
        EXPIRED,
    );
}

#[test]
fn what_is_live_or_not_acknowledged_stays_however_old() {
    for item in [whole(0), half(0)] {
        let item = Item {
            settled: false,
            ..item
        };
        check(item, at(T0), Verdict::Keep(Keep::Unsettled));
    }
}

#[test]
fn a_jump_is_what_the_clock_gained_on_time() {
    let hour = Some(HOUR_MS);
    assert_eq!(jump_ms(T0, T0 + HOUR_MS, hour), 0);
    assert_eq!(jump_ms(T0, T0 + 2 * HOUR_MS, hour), 0);
    assert_eq!(jump_ms(T0, T0 + 2 * HOUR_MS + 1, hour), HOUR_MS + 1);
    assert_eq!(jump_ms(T0, T0 + YEARS, hour), YEARS - HOUR_MS);
    assert_eq!(jump_ms(T0, T0 - YEARS, hour), 0);
    assert_eq!(jump_ms(T0, T0 + DAY_MS, None), 0);
    assert_eq!(jump_ms(T0, T0 + 3 * DAY_MS, None), 2 * DAY_MS);
}

#[test]
fn quotas_take_the_oldest_that_are_settled() {
    let now = at(T0);
    let mut items: Vec<Item> = (1..=6).map(|n| whole(T0 - n * HOUR_MS)).collect();
    items[5].settled = false;
    let by_bytes = Retention {
        max_bytes: 350,
        ..Retention::default()
    };
    let verdicts = decide(&items, now, &by_bytes);
    let bytes = Verdict::Remove(Reason::TooManyBytes);
    let unsettled = Verdict::Keep(Keep::Unsettled);
    assert_eq!(verdicts, [YOUNG, YOUNG, bytes, bytes, bytes, unsettled]);
    let by_count = Retention {
        max_count: 5,
        ..Retention::default()
    };
    let count = Verdict::Remove(Reason::TooMany);
    assert_eq!(
        decide(&items, now, &by_count),
        [YOUNG, YOUNG, YOUNG, YOUNG, count, unsettled]
    );
    let exact = Retention {
        max_count: 6,
        max_bytes: 600,
        ..Retention::default()
    };
    assert_eq!(decide(&items, now, &exact)[..5], [YOUNG; 5]);
}

#[test]
fn what_expires_frees_room_before_a_quota_is_judged() {
    let items = [whole(T0 - 2 * WEEK), whole(T0)];
    let one = Retention {
        max_count: 1,
        ..Retention::default()
    };
    assert_eq!(decide(&items, at(T0), &one), [EXPIRED, YOUNG]);
}

/// A host over time: what is in its store, what its clock says, and what the last sweep knew.
struct Host {
    /// True time, which nobody on the host knows.
    true_ms: u64,
    wall_ms: u64,
    last_sweep: Option<(u64, u64)>,
    /// The stored item, when it was truly over, and whether it is gone.
    held: Vec<(Item, u64)>,
    gone: Vec<(u64, u64)>,
}

impl Host {
    fn sweep(&mut self) {
        let jump_ms = self.last_sweep.map_or(0, |(wall, true_ms)| {
            jump_ms(wall, self.wall_ms, Some(self.true_ms - true_ms))
        });
        let now = Now {
            wall_ms: self.wall_ms,
            jump_ms,
        };
        let items: Vec<Item> = self.held.iter().map(|(item, _)| *item).collect();
        let verdicts = decide(&items, now, &Retention::default());
        let mut held = Vec::new();
        for ((mut item, born), verdict) in self.held.drain(..).zip(verdicts) {
            item.mtime_ms = now.corrected(item.mtime_ms);
            match verdict {
                Verdict::Keep(_) => held.push((item, born)),
                Verdict::Remove(_) => self.gone.push((born, self.true_ms)),
            }
        }
        self.held = held;
        self.last_sweep = Some((self.wall_ms, self.true_ms));
    }

    fn pass(&mut self, ms: u64) {
        self.true_ms += ms;
        self.wall_ms += ms;
    }
}

/// Tenths of an hour that pass, whether an output is written then, and how far the clock jumps. A jump below
/// the tolerance is none.
fn step() -> impl Strategy<Value = (u64, bool, Option<i64>)> {
    let far =
        i64::try_from(TOLERANCE_MS).expect("an hour") + 1..i64::try_from(YEARS).expect("years");
    let jump = (far, any::<bool>()).prop_map(|(by, back)| if back { -by } else { by });
    (0u64..40, any::<bool>(), prop::option::weighted(0.2, jump))
}

proptest! {
    /// Clocks that jump by up to ten years, any number of times, between any two sweeps: nothing goes
    /// before its week; and once the clock stands still, all is gone within two.
    #[test]
    fn a_clock_that_jumps_expires_nothing_early_and_keeps_nothing_for_ever(
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut host = Host {
            true_ms: T0,
            wall_ms: T0,
            last_sweep: Some((T0, T0)),
            held: Vec::new(),
            gone: Vec::new(),
        };
        for (hours, write, jump) in steps {
            host.pass(hours * HOUR_MS / 10);
            if let Some(jump) = jump {
                host.wall_ms = host.wall_ms.saturating_add_signed(jump).max(DAY_MS);
            }
            if write {
                host.held.push((whole(host.wall_ms), host.true_ms));
            }
            host.sweep();
        }
        for _ in 0..=(14 * 24 + 2) {
            host.pass(HOUR_MS);
            host.sweep();
        }
        prop_assert!(host.held.is_empty(), "{:?}", host.held);
        for (born, gone) in &host.gone {
            prop_assert!(gone - born > WEEK, "after {} ms", gone - born);
        }
    }
}
