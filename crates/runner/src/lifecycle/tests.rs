use super::*;
use proptest::prelude::*;

const GRACE: Duration = Duration::from_secs(10);
const OK: Status = Status::Exited(0);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn running(timeout: Option<Duration>) -> (Lifecycle, Instant) {
    let t0 = Instant::now();
    let mut life = Lifecycle::new(timeout, GRACE);
    life.handle_go();
    check(&mut life, &[Action::Execute]);
    life.handle_started(t0);
    (life, t0)
}

#[track_caller]
fn check(life: &mut Lifecycle, expected: &[Action]) {
    let actions: Vec<Action> = std::iter::from_fn(|| life.poll_action()).collect();
    assert_eq!(actions, expected, "in {:?}", life.state);
}

/// Moves to the next deadline, which must be `at`.
#[track_caller]
fn tick(life: &mut Lifecycle, at: Instant, expected: &[Action]) {
    assert_eq!(life.poll_timeout(), Some(at), "in {:?}", life.state);
    life.handle_timeout(at);
    check(life, expected);
}

#[test]
fn a_quick_command_is_delivered_at_once_and_forgotten_when_collected() {
    let (mut life, t0) = running(Some(ms(500)));
    life.handle_output_end(t0);
    life.handle_exit(t0, OK, true);
    check(&mut life, &[Action::EndOutput, Action::Seal]);
    life.handle_result(t0);
    check(&mut life, &[Action::Deliver]);
    life.handle_collected();
    check(&mut life, &[Action::Exit]);
    assert_eq!(life.poll_timeout(), None);
    assert_eq!(life.ending(), Some((OK, None)));
}

#[test]
fn the_drain_deadline_is_fixed_at_the_exit() {
    let (mut life, t0) = running(None);
    life.handle_exit(t0, OK, false);
    check(&mut life, &[]);
    life.handle_timeout(t0 + ms(1999));
    check(&mut life, &[]);
    tick(
        &mut life,
        t0 + DRAIN_TIME,
        &[Action::EndOutput, Action::EndLeftovers],
    );
    life.handle_leftovers(t0 + DRAIN_TIME, false);
    tick(
        &mut life,
        t0 + DRAIN_TIME + LEFTOVER_LOOK,
        &[Action::LookAtLeftovers],
    );
    life.handle_timeout(t0 + DRAIN_TIME + LEFTOVER_GRACE);
    check(&mut life, &[Action::KillLeftovers]);
    life.handle_leftovers(t0 + DRAIN_TIME + LEFTOVER_GRACE, true);
    check(&mut life, &[Action::Seal]);
}

#[test]
fn a_timeout_asks_then_kills_until_nobody_is_left() {
    let (mut life, t0) = running(Some(ms(100)));
    tick(&mut life, t0 + ms(100), &[Action::Stop]);
    let kill_at = t0 + ms(100) + GRACE;
    // The shell dies of TERM, its child does not: the grace is the child's, too.
    life.handle_exit(t0 + ms(101), Status::Signaled(15), false);
    tick(&mut life, kill_at, &[Action::KillAll]);
    tick(&mut life, kill_at + LEFTOVER_LOOK, &[Action::KillAll]);
    life.handle_output_end(kill_at);
    life.handle_alone(kill_at + LEFTOVER_LOOK);
    check(&mut life, &[Action::EndOutput, Action::Seal]);
    assert_eq!(
        life.ending(),
        Some((Status::Signaled(15), Some(KillCause::Timeout)))
    );
}

#[test]
fn a_stream_over_its_cap_is_no_matter_of_grace() {
    let (mut life, t0) = running(Some(ms(100)));
    life.handle_output_cap(t0);
    check(&mut life, &[Action::KillAll]);
    // Said again with every chunk that is still read; what the killing took is not counted twice.
    life.handle_output_cap(t0);
    life.handle_cancel(t0);
    check(&mut life, &[]);
    life.handle_exit(t0, Status::Signaled(9), false);
    tick(&mut life, t0 + LEFTOVER_LOOK, &[Action::KillAll]);
    life.handle_output_end(t0);
    life.handle_alone(t0 + LEFTOVER_LOOK);
    check(&mut life, &[Action::EndOutput, Action::Seal]);
    assert_eq!(
        life.ending(),
        Some((Status::Signaled(9), Some(KillCause::OutputCap)))
    );
}

#[test]
fn a_cap_ends_the_grace_and_leaves_the_cause() {
    let (mut life, t0) = running(Some(ms(100)));
    tick(&mut life, t0 + ms(100), &[Action::Stop]);
    life.handle_output_cap(t0 + ms(101));
    check(&mut life, &[Action::KillAll]);
    life.handle_exit(t0 + ms(102), Status::Signaled(9), true);
    let killed = life.ending().and_then(|(_, killed)| killed);
    assert_eq!(killed, Some(KillCause::Timeout));
}

#[test]
fn a_cap_that_is_passed_after_the_exit_changes_no_outcome() {
    let (mut life, t0) = running(None);
    life.handle_exit(t0, OK, false);
    life.handle_output_cap(t0);
    check(&mut life, &[]);
    assert_eq!(life.ending(), Some((OK, None)));
}

#[test]
fn a_command_that_obeys_is_not_waited_for() {
    let (mut life, t0) = running(None);
    life.handle_cancel(t0);
    check(&mut life, &[Action::Stop]);
    life.handle_cancel(t0);
    check(&mut life, &[]);
    life.handle_output_end(t0);
    life.handle_exit(t0, OK, false);
    life.handle_alone(t0);
    check(&mut life, &[Action::EndOutput, Action::Seal]);
    assert_eq!(life.ending(), Some((OK, Some(KillCause::Cancel))));
}

#[test]
fn what_the_kernel_holds_is_given_up_but_not_the_command_itself() {
    let (mut life, t0) = running(None);
    life.handle_cancel(t0);
    check(&mut life, &[Action::Stop]);
    let late = t0 + GRACE + KILL_TIME + ms(1);
    life.handle_timeout(t0 + GRACE);
    life.handle_timeout(late);
    check(&mut life, &[Action::KillAll, Action::KillAll]);
    life.handle_exit(late, Status::Signaled(9), false);
    life.handle_timeout(late + LEFTOVER_LOOK);
    check(&mut life, &[]);
    life.handle_timeout(late + DRAIN_TIME);
    check(&mut life, &[Action::EndOutput, Action::EndLeftovers]);
}

#[test]
fn without_go_nothing_is_executed() {
    for end in [
        |l: &mut Lifecycle, t| l.handle_lost(t),
        |l: &mut Lifecycle, t| l.handle_cancel(t),
    ] {
        let mut life = Lifecycle::new(None, GRACE);
        end(&mut life, Instant::now());
        life.handle_go();
        check(&mut life, &[Action::Exit]);
    }
}

#[test]
fn go_has_an_effect_once() {
    let (mut life, t0) = running(None);
    life.handle_go();
    check(&mut life, &[]);
    life.handle_exit(t0, OK, false);
    life.handle_go();
    check(&mut life, &[]);
}

#[test]
fn a_result_that_nobody_collects_goes_to_the_spool() {
    let (mut life, t0) = running(None);
    life.handle_lost(t0);
    tick(&mut life, t0 + REDIAL, &[Action::Redial]);
    life.handle_redialled(t0 + REDIAL, false);
    life.handle_output_end(t0);
    life.handle_exit(t0, OK, true);
    check(&mut life, &[Action::EndOutput, Action::Seal]);
    life.handle_result(t0);
    check(&mut life, &[]);
    tick(&mut life, t0 + REDIAL * 2, &[Action::Redial]);
    life.handle_redialled(t0 + REDIAL * 2, true);
    check(&mut life, &[Action::Deliver]);
    tick(&mut life, t0 + COLLECT_TIME, &[Action::Spool]);
    life.handle_spooled(t0 + COLLECT_TIME, false);
    tick(&mut life, t0 + COLLECT_TIME + SPOOL_RETRY, &[Action::Spool]);
    life.handle_spooled(t0 + COLLECT_TIME + SPOOL_RETRY, true);
    check(&mut life, &[Action::Exit]);
}

#[test]
fn a_command_that_could_not_be_executed_has_no_ending() {
    let mut life = Lifecycle::new(None, GRACE);
    life.handle_go();
    life.handle_not_started();
    check(&mut life, &[Action::Execute, Action::Seal]);
    assert_eq!(life.ending(), None);
}

#[derive(Debug, Clone)]
enum Event {
    Go,
    Cancel,
    OutputCap,
    Exit,
    OutputEnd,
    Alone,
    Lost,
    Redialled(bool),
    Collected,
    Wait(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let one = prop_oneof![
        Just(Event::Go),
        Just(Event::Cancel),
        Just(Event::OutputCap),
        Just(Event::Exit),
        Just(Event::OutputEnd),
        Just(Event::Alone),
        Just(Event::Lost),
        any::<bool>().prop_map(Event::Redialled),
        Just(Event::Collected),
        (1_u64..15_000).prop_map(Event::Wait),
    ];
    prop::collection::vec(one, 0..40)
}

/// A shell that believes everything and does nothing; counts what it was told.
#[derive(Default)]
struct Shell {
    executed: u32,
    sealed: u32,
    exited: u32,
    has_exit: bool,
}

impl Shell {
    fn obey(&mut self, life: &mut Lifecycle, now: Instant) {
        while let Some(action) = life.poll_action() {
            match action {
                Action::Execute => {
                    self.executed += 1;
                    life.handle_started(now);
                }
                Action::EndLeftovers | Action::LookAtLeftovers => life.handle_leftovers(now, false),
                Action::KillLeftovers => life.handle_leftovers(now, true),
                Action::Seal => {
                    self.sealed += 1;
                    life.handle_result(now);
                }
                Action::Redial => life.handle_redialled(now, false),
                Action::Spool => life.handle_spooled(now, true),
                Action::Exit => self.exited += 1,
                Action::Stop | Action::KillAll | Action::EndOutput | Action::Deliver => {}
            }
        }
    }

    fn tell(&mut self, life: &mut Lifecycle, event: &Event, now: Instant) {
        match event {
            Event::Go => life.handle_go(),
            Event::Cancel => life.handle_cancel(now),
            Event::OutputCap => life.handle_output_cap(now),
            Event::Exit if self.executed == 1 && !self.has_exit => {
                self.has_exit = true;
                life.handle_exit(now, OK, false);
            }
            Event::OutputEnd if self.executed == 1 => life.handle_output_end(now),
            Event::Alone => life.handle_alone(now),
            Event::Lost => life.handle_lost(now),
            Event::Redialled(ok) if life.executor == Executor::Dialling => {
                life.handle_redialled(now, *ok);
            }
            Event::Collected => life.handle_collected(),
            Event::Exit | Event::OutputEnd | Event::Redialled(_) | Event::Wait(_) => {}
        }
    }
}

proptest! {
    /// Whatever happens in whatever order: at most one execution, one result for each, one end;
    /// and once the command has ended, time alone brings every runner to its end.
    #[test]
    fn every_runner_ends_once(events in events(), timeout in prop::option::of(1_u64..5_000)) {
        let mut now = Instant::now();
        let mut life = Lifecycle::new(timeout.map(ms), GRACE);
        let mut shell = Shell::default();
        for event in &events {
            if let Event::Wait(n) = event {
                now += ms(*n);
                life.handle_timeout(now);
            }
            shell.tell(&mut life, event, now);
            shell.obey(&mut life, now);
            if life.state == State::Gone {
                break;
            }
        }
        shell.tell(&mut life, &Event::Exit, now);
        shell.tell(&mut life, &Event::Lost, now);
        shell.obey(&mut life, now);
        for _ in 0..10_000 {
            let Some(at) = life.poll_timeout() else { break };
            now = now.max(at);
            life.handle_timeout(now);
            shell.obey(&mut life, now);
        }
        prop_assert_eq!(life.state, State::Gone);
        prop_assert_eq!(shell.exited, 1);
        prop_assert!(shell.executed <= 1);
        prop_assert_eq!(shell.sealed, shell.executed);
    }
}
