use super::*;
use crate::limits::DEFAULT_TURN_BUDGET;
use proptest::prelude::*;
use std::sync::Mutex;
use std::time::Duration;

const BUDGET: u64 = DEFAULT_TURN_BUDGET;

fn key(turn: &str) -> TurnKey {
    TurnKey {
        session: "s".into(),
        turn: turn.into(),
    }
}

/// A call that comes, gets its share of these texts, and leaves.
fn call(turns: &mut Turns, turn: &str, calls: Option<u32>, lens: &[u64]) -> Vec<Share> {
    let now = Instant::now();
    let mut call = turns.arrive(key(turn), calls, now);
    let shares = turns.allot(&mut call, lens, now);
    turns.leave(&call, now);
    shares
}

#[track_caller]
fn check(calls: Option<u32>, texts: &[&[u64]], expected: &[&[Share]]) {
    let mut turns = Turns::new(BUDGET);
    let got: Vec<_> = texts
        .iter()
        .map(|lens| call(&mut turns, "t", calls, lens))
        .collect();
    assert_eq!(got, expected);
}

use Share::{Only, Whole};

#[test]
fn a_turn_of_one_call_has_the_whole_budget() {
    check(Some(1), &[&[102_400, 102_400]], &[&[Whole, Whole]]);
    check(Some(1), &[&[BUDGET]], &[&[Whole]]);
    check(Some(1), &[&[BUDGET + 1]], &[&[Only(TURN_RESERVE)]]);
    check(None, &[&[0, 0]], &[&[Whole, Whole]]);
}

#[test]
fn announced_calls_have_their_reserve() {
    let most = BUDGET - TURN_RESERVE;
    check(Some(2), &[&[most], &[TURN_RESERVE]], &[&[Whole], &[Whole]]);
    check(
        Some(2),
        &[&[most + 1], &[9999]],
        &[&[Only(TURN_RESERVE)], &[Whole]],
    );
    // Nobody said that there is another one.
    check(None, &[&[BUDGET - 1], &[9999]], &[&[Whole], &[Only(1)]]);
}

#[test]
fn streams_of_a_call_share_its_reserve_in_their_order() {
    let most = BUDGET - TURN_RESERVE;
    check(
        Some(2),
        &[&[most], &[300, 5000, 1]],
        &[&[Whole], &[Whole, Only(2004), Only(0)]],
    );
    check(
        Some(2),
        &[&[most], &[5000, 0]],
        &[&[Whole], &[Only(TURN_RESERVE), Whole]],
    );
}

#[test]
fn when_all_is_spent_only_fields_are_left() {
    check(
        None,
        &[&[BUDGET], &[1], &[0]],
        &[&[Whole], &[Only(0)], &[Whole]],
    );
}

#[test]
fn what_was_not_used_is_there_for_others() {
    let now = Instant::now();
    let mut turns = Turns::new(5000);
    let mut first = turns.arrive(key("t"), None, now);
    assert_eq!(turns.allot(&mut first, &[9999], now), [Only(2304)]);
    turns.correct(&mut first, 100, now);
    // Twice is once, and more than was charged is nothing.
    turns.correct(&mut first, 100, now);
    turns.correct(&mut first, 5000, now);
    turns.leave(&first, now);
    assert_eq!(call(&mut turns, "t", None, &[4900]), [Whole]);
    assert_eq!(call(&mut turns, "t", None, &[1]), [Only(0)]);
}

#[test]
fn a_page_takes_all_that_is_left_beside_the_reserve() {
    let now = Instant::now();
    let mut turns = Turns::new(10_000);
    let mut page = turns.arrive(key("t"), Some(3), now);
    let left = 10_000 - 2 * TURN_RESERVE;
    assert_eq!(turns.allot_page(&mut page, 10_000, now), Only(left));
    turns.correct(&mut page, left - 2, now);
    let mut page = turns.arrive(key("t"), Some(3), now);
    assert_eq!(turns.allot_page(&mut page, 2306, now), Whole);
    assert_eq!(
        turns.allot_page(&mut page, 1, now),
        Only(0),
        "settled before"
    );
}

#[test]
fn a_call_that_leaves_unsettled_has_never_come() {
    let now = Instant::now();
    let mut turns = Turns::new(BUDGET);
    let mut first = turns.arrive(key("t"), None, now);
    let refused = turns.arrive(key("t"), None, now);
    turns.leave(&refused, now);
    assert_eq!(turns.allot(&mut first, &[BUDGET], now), [Whole]);
}

#[test]
fn turns_do_not_know_of_each_other() {
    let mut turns = Turns::new(BUDGET);
    assert_eq!(call(&mut turns, "a", None, &[BUDGET]), [Whole]);
    assert_eq!(call(&mut turns, "b", None, &[BUDGET]), [Whole]);
    let elsewhere = TurnKey {
        session: "other".into(),
        turn: "a".into(),
    };
    let now = Instant::now();
    let mut there = turns.arrive(elsewhere, None, now);
    assert_eq!(turns.allot(&mut there, &[BUDGET], now), [Whole]);
}

#[test]
fn an_idle_turn_is_forgotten_and_one_with_a_call_is_not() {
    let now = Instant::now();
    let mut turns = Turns::new(BUDGET);
    let spend = |turns: &mut Turns, now| {
        let mut call = turns.arrive(key("t"), None, now);
        let share = turns.allot(&mut call, &[BUDGET], now);
        (call, share[0])
    };
    let (first, share) = spend(&mut turns, now);
    assert_eq!(share, Whole);
    let much_later = now + 10 * TURN_IDLE;
    assert_eq!(
        spend(&mut turns, much_later).1,
        Only(0),
        "a call is under way"
    );
    let mut turns = Turns::new(BUDGET);
    let (call, _) = spend(&mut turns, now);
    turns.leave(&call, now);
    let later = now + Duration::from_millis(1);
    let (call, share) = spend(&mut turns, later);
    assert_eq!(share, Only(0));
    turns.leave(&call, later);
    let (call, share) = spend(&mut turns, now + TURN_IDLE);
    assert_eq!(share, Only(0), "idle from its last call on");
    turns.leave(&call, much_later);
    assert_eq!(spend(&mut turns, much_later + TURN_IDLE).1, Whole);
    drop(first);
}

#[test]
fn few_idle_turns_are_remembered_and_all_that_are_under_way() {
    let start = Instant::now();
    let mut turns = Turns::new(1);
    let mut open = turns.arrive(key("open"), None, start);
    for n in 0..2 * MAX_IDLE_TURNS {
        let now = start + Duration::from_millis(n as u64);
        let call = turns.arrive(key(&n.to_string()), None, now);
        turns.leave(&call, now);
    }
    assert!(
        turns.turns.len() <= MAX_IDLE_TURNS + 1,
        "{}",
        turns.turns.len()
    );
    assert_eq!(turns.allot(&mut open, &[1], start), [Whole]);
    let newest = (2 * MAX_IDLE_TURNS - 1).to_string();
    assert!(turns.turns.contains_key(&key(&newest)));
    assert!(!turns.turns.contains_key(&key("0")));
}

/// What happens to one of a turn's calls next.
#[derive(Debug, Clone)]
enum Step {
    Arrive,
    /// The call (of those that have come) makes its results.
    Settle(prop::sample::Index, Vec<u64>),
    Page(prop::sample::Index, u64),
    Leave(prop::sample::Index),
    /// Less came out than was charged.
    Correct(prop::sample::Index, u64),
}

fn len() -> impl Strategy<Value = u64> {
    prop_oneof![0..3000_u64, 0..300_000_u64, Just(102_400)]
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        4 => Just(Step::Arrive),
        4 => (index(), prop::collection::vec(len(), 0..4)).prop_map(|(i, lens)| Step::Settle(i, lens)),
        1 => (index(), len()).prop_map(|(i, len)| Step::Page(i, len)),
        1 => index().prop_map(Step::Leave),
        1 => (index(), len()).prop_map(|(i, used)| Step::Correct(i, used)),
    ]
}

/// Plays the steps and gives what each call was charged, in the order of their settlement.
fn play(budget: u64, calls: Option<u32>, steps: &[Step]) -> Vec<u64> {
    let now = Instant::now();
    let mut turns = Turns::new(budget);
    let mut here: Vec<Call> = Vec::new();
    let mut gone = Vec::new();
    for step in steps {
        match step {
            Step::Arrive => here.push(turns.arrive(key("t"), calls, now)),
            _ if here.is_empty() => {}
            Step::Settle(i, lens) => {
                let at = i.index(here.len());
                let shares = turns.allot(&mut here[at], lens, now);
                assert_eq!(shares.len(), lens.len());
            }
            Step::Page(i, len) => {
                let at = i.index(here.len());
                turns.allot_page(&mut here[at], *len, now);
            }
            Step::Correct(i, used) => {
                let at = i.index(here.len());
                turns.correct(&mut here[at], *used, now);
            }
            Step::Leave(i) => {
                let call = here.swap_remove(i.index(here.len()));
                turns.leave(&call, now);
                gone.push(call);
            }
        }
        let used = turns.turns.get(&key("t")).map_or(0, |turn| turn.used);
        let charged: u64 = here.iter().chain(&gone).filter_map(|c| c.charged).sum();
        assert_eq!(used, charged, "what is used is what calls were charged");
        assert!(used <= budget, "{used} of {budget}");
    }
    gone.iter().chain(&here).filter_map(|c| c.charged).collect()
}

proptest! {
    #[test]
    fn the_budget_is_never_exceeded_and_the_same_steps_give_the_same(
        budget in prop_oneof![0..10_000_u64, Just(BUDGET)],
        calls in prop::option::of(0..200_u32),
        steps in prop::collection::vec(step(), 0..200),
    ) {
        prop_assert_eq!(play(budget, calls, &steps), play(budget, calls, &steps));
    }

    /// As many calls as the budget has reserves, each of them announced: whatever the others take, each
    /// gets its reserve, and all of a text that is no longer than that.
    #[test]
    fn whoever_was_announced_gets_the_reserve(
        budget in TURN_RESERVE..2 * BUDGET,
        part in 0.0..=1.0_f64,
        texts in prop::collection::vec(prop::collection::vec(len(), 1..3), 1..180),
    ) {
        let most = budget / TURN_RESERVE;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a part of a small number")]
        let calls = ((most as f64 * part) as u64).max(1);
        let now = Instant::now();
        let mut turns = Turns::new(budget);
        let announced = u32::try_from(calls).expect("few");
        for lens in texts.iter().take(usize::try_from(calls).expect("few")) {
            let mut call = turns.arrive(key("t"), Some(announced), now);
            let shares = turns.allot(&mut call, lens, now);
            let got: u64 = shares.iter().zip(lens).map(|(share, &len)| share.of(len)).sum();
            prop_assert!(got >= TURN_RESERVE.min(lens.iter().sum()), "{shares:?} of {lens:?}");
            turns.leave(&call, now);
        }
    }
}

#[test]
fn threads_at_once_never_exceed_the_budget_and_each_gets_its_reserve() {
    const THREADS: u32 = 16;
    const CALLS: u32 = 5;
    for _ in 0..50 {
        let turns = Mutex::new(Turns::new(BUDGET));
        let calls = Some(THREADS * CALLS);
        let one = |n: u32| {
            let lock = || turns.lock().expect("no panic elsewhere");
            let now = Instant::now();
            let mut call = lock().arrive(key("t"), calls, now);
            let len = u64::from(n) * 1_500;
            let share = lock().allot(&mut call, &[len], now)[0];
            let got = share.of(len);
            assert!(got >= len.min(TURN_RESERVE), "{share:?}");
            let used = got - u64::from(n) % (got + 1).min(100);
            lock().correct(&mut call, used, now);
            lock().leave(&call, now);
            used
        };
        let sum: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|t| scope.spawn(move || (0..CALLS).map(|n| one(t * CALLS + n)).sum::<u64>()))
                .collect();
            threads.into_iter().map(|t| t.join().expect("joined")).sum()
        });
        assert!(sum <= BUDGET, "{sum}");
        let turns = turns.into_inner().expect("no panic");
        let turn = &turns.turns[&key("t")];
        assert_eq!((turn.used, turn.open, turn.settled), (sum, 0, 80));
    }
}
