use super::*;
use proptest::prelude::*;

fn actions(supervisor: &mut Supervisor) -> Vec<Action> {
    std::iter::from_fn(|| supervisor.poll_action()).collect()
}

/// A supervisor whose roles all run since `now`.
fn running(now: Instant) -> Supervisor {
    let mut supervisor = Supervisor::new(now);
    assert_eq!(
        actions(&mut supervisor),
        Role::ALL.map(Action::Start).to_vec()
    );
    for role in Role::ALL {
        supervisor.handle_started(role, now);
    }
    supervisor
}

#[test]
fn what_dies_is_started_again_ever_later_and_after_health_at_once() {
    let mut now = Instant::now();
    let mut supervisor = running(now);
    let mut pauses = Vec::new();
    for _ in 0..8 {
        pauses.extend(supervisor.handle_gone(Role::Link, now));
        assert_eq!(actions(&mut supervisor), []);
        now = supervisor.poll_timeout().unwrap();
        supervisor.handle_timeout(now);
        assert_eq!(actions(&mut supervisor), [Action::Start(Role::Link)]);
        supervisor.handle_started(Role::Link, now);
    }
    let millis: Vec<u128> = pauses.iter().map(Duration::as_millis).collect();
    assert_eq!(millis, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
    now += HEALTHY_AFTER;
    assert_eq!(supervisor.handle_gone(Role::Link, now), Some(RESTART_FIRST));
}

#[test]
fn a_stop_goes_through_the_roles_in_order() {
    let now = Instant::now();
    let mut supervisor = running(now);
    supervisor.handle_stop(now);
    assert_eq!(actions(&mut supervisor), [Action::Ask(Role::Link)]);
    supervisor.handle_stop(now);
    assert_eq!(actions(&mut supervisor), []);
    assert_eq!(supervisor.handle_gone(Role::Link, now), None);
    assert_eq!(actions(&mut supervisor), [Action::Ask(Role::Executor)]);
    supervisor.handle_gone(Role::Executor, now);
    assert_eq!(
        actions(&mut supervisor),
        [Action::AskRuns, Action::CountRuns]
    );
    supervisor.handle_runs(1, now);
    assert_eq!(actions(&mut supervisor), []);
    supervisor.handle_timeout(now + RUNS_LOOK);
    assert_eq!(actions(&mut supervisor), [Action::CountRuns]);
    supervisor.handle_runs(0, now + RUNS_LOOK);
    assert_eq!(actions(&mut supervisor), [Action::Ask(Role::Spawner)]);
    supervisor.handle_gone(Role::Spawner, now);
    assert_eq!(actions(&mut supervisor), [Action::Exit]);
    assert_eq!(supervisor.poll_timeout(), None);
}

#[test]
fn a_role_that_is_deaf_is_killed_and_then_left() {
    let now = Instant::now();
    let mut supervisor = running(now);
    supervisor.handle_stop(now);
    actions(&mut supervisor);
    supervisor.handle_timeout(now + ROLE_GRACE);
    assert_eq!(actions(&mut supervisor), [Action::Kill(Role::Link)]);
    supervisor.handle_timeout(now + ROLE_GRACE + KILL_GRACE);
    assert_eq!(actions(&mut supervisor), [Action::Ask(Role::Executor)]);
}

#[test]
fn runs_that_do_not_end_are_left_alone_in_the_end() {
    let now = Instant::now();
    let mut supervisor = running(now);
    supervisor.handle_stop(now);
    supervisor.handle_gone(Role::Link, now);
    supervisor.handle_gone(Role::Executor, now);
    supervisor.handle_runs(3, now + RUNS_GRACE / 2);
    actions(&mut supervisor);
    supervisor.handle_runs(3, now + RUNS_GRACE);
    assert_eq!(actions(&mut supervisor), [Action::Ask(Role::Spawner)]);
}

#[test]
fn what_is_not_running_needs_no_end() {
    let now = Instant::now();
    let mut supervisor = running(now);
    for role in Role::ALL {
        supervisor.handle_gone(role, now);
    }
    supervisor.handle_stop(now);
    assert_eq!(
        actions(&mut supervisor),
        [Action::AskRuns, Action::CountRuns]
    );
    supervisor.handle_runs(0, now);
    assert_eq!(actions(&mut supervisor), [Action::Exit]);
}

#[test]
fn a_stop_before_the_start_starts_nothing() {
    let now = Instant::now();
    let mut supervisor = Supervisor::new(now);
    supervisor.handle_stop(now);
    assert!(
        !actions(&mut supervisor)
            .iter()
            .any(|action| matches!(action, Action::Start(_)))
    );
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Dies(usize),
    Passes(u64),
    Stops,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0..3_usize).prop_map(Event::Dies),
        (0..6000_u64).prop_map(Event::Passes),
        Just(Event::Stops),
    ]
}

proptest! {
    /// Whatever dies when: nothing is started twice or during a stop, and every stop comes to its end within its time.
    #[test]
    fn every_stop_ends(events in proptest::collection::vec(event(), 0..60), deaf in any::<bool>()) {
        let mut now = Instant::now();
        let mut supervisor = Supervisor::new(now);
        let mut alive = [false; 3];
        let (mut stopping, mut over) = (None, false);
        let finish = [Event::Stops].into_iter().chain((0..2000).map(|_| Event::Passes(50)));
        for event in events.into_iter().chain(finish) {
            match event {
                Event::Dies(i) if alive[i] => {
                    alive[i] = false;
                    supervisor.handle_gone(Role::ALL[i], now);
                }
                Event::Dies(_) => {}
                Event::Passes(millis) => now += Duration::from_millis(millis),
                Event::Stops => {
                    stopping.get_or_insert(now);
                    supervisor.handle_stop(now);
                }
            }
            supervisor.handle_timeout(now);
            while let Some(action) = supervisor.poll_action() {
                prop_assert!(!over);
                let place = |role| Role::ALL.iter().position(|r| *r == role).unwrap();
                match action {
                    Action::Start(role) => {
                        prop_assert!(stopping.is_none());
                        prop_assert!(!std::mem::replace(&mut alive[place(role)], true));
                        supervisor.handle_started(role, now);
                    }
                    Action::Ask(_) if deaf => {}
                    Action::Ask(role) | Action::Kill(role) => {
                        prop_assert!(std::mem::take(&mut alive[place(role)]));
                        supervisor.handle_gone(role, now);
                    }
                    Action::AskRuns => {}
                    Action::CountRuns => supervisor.handle_runs(usize::from(deaf), now),
                    Action::Exit => over = true,
                }
            }
        }
        prop_assert!(over && alive == [false; 3]);
    }
}
