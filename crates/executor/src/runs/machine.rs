//! The life of one run as its executor sees it. No I/O.
//!
//! ```text
//!           claim durable, runner armed            result
//!  Arming ─────────────────────────────► Running ─────────► Concluded
//!    │            (go)                    │   ▲                 ▲
//!    │                         connection │   │ runner          │
//!    │                              lost  ▼   │ redials         │
//!    │      a run found at our start ──► Adrift ────────────────┤ its spool tells
//!    │                                                          │
//!    └── launch failed, no runner in time, canceled ────────────┘
//! ```
//!
//! *Happy path.* The launch goes out while the claim syncs; once both the claim is durable and the
//! runner is there, `Go`. Its result concludes the run.
//!
//! *Nothing was executed* as long as `Go` was not said: whatever fails in `Arming` concludes as
//! refused or canceled, with certainty, and dropping the connection ends an armed runner.
//!
//! *The connection is lost* after `Go`: the runner lives on and redials, or it is dead. The lock of
//! its spool tells which, and the spool tells what a dead one left. A spool that is not there tells nothing: then the
//! runner has a moment to redial, and without it nobody knows what became of the run.
//!
//! *The runner lives and does not answer*: it ends its run by itself when its time is over. One that has not, long
//! after, is given up, so that its run has an end and its place is free.

use crate::limits::{EXPLAIN_TIME, MISSING_TIME, SPOOL_LOOKS, START_TIME};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use willcall_runner::wire::{Phase, RunResult, SpawnError};

/// What the shell has to do, in order. Each is given once.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Tell the runner to execute.
    Go,
    /// Tell the runner to end the run.
    Cancel,
    /// Look at the spool; answer by [`Machine::handle_spool`].
    LookAtSpool,
    /// The run is over: report it. Nothing follows.
    Conclude(Conclusion),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Conclusion {
    /// Its runner says.
    Result(Box<RunResult>),
    /// The spawner could not fork a runner; nothing ran.
    LaunchFailed(SpawnError),
    /// No runner came, or it ended before it was told to execute; nothing ran.
    NoRunner,
    /// It was canceled before it was executed; nothing ran.
    CanceledUnstarted,
    /// An earlier executor ended before it said go; nothing ran.
    Interrupted,
    /// Its runner is gone without a result; it may have run.
    OutcomeUnknown,
    /// Its spool is gone, and no runner has dialled; it may have run, and may still.
    NoTrace,
    /// Its runner is there, and has not ended it though its time is over; it may have run, and may still.
    Unresponsive,
    /// The host was started anew; it may have run.
    Reboot,
}

/// What a spool says of its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SpoolState {
    /// It is not there.
    Missing,
    /// Its runner lives.
    Held,
    /// Its runner is gone, and executed nothing.
    Unstarted,
    /// Its runner is gone, and may have executed the command.
    Started,
    /// Its runner is gone, and left the result.
    Result(Box<RunResult>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Arming {
        claimed: bool,
        armed: bool,
        by: Instant,
    },
    /// Go was said; the command is executed once the runner says so.
    Running {
        started: bool,
    },
    Adrift {
        look_at: Option<Instant>,
        looks: usize,
        /// Until when a runner may dial whose spool was not there.
        missing_until: Option<Instant>,
    },
    Concluded,
}

/// The state machine. After every `handle_*` take [`Machine::poll_action`] until it gives none, then
/// sleep until [`Machine::poll_timeout`] at most, and call [`Machine::handle_timeout`].
#[derive(Debug)]
pub(crate) struct Machine {
    state: State,
    cancel: bool,
    /// What is certain already while the claim is still under way.
    early: Option<Conclusion>,
    /// Whether this run was claimed by an earlier executor.
    adopted: bool,
    /// How long after the start its runner must have ended it.
    patience: Duration,
    /// When that is over: from go on.
    overdue_at: Option<Instant>,
    actions: VecDeque<Action>,
}

impl Machine {
    /// A run whose launch and claim are under way. Its runner is given up `patience` after go.
    pub(crate) fn arming(now: Instant, patience: Duration) -> Self {
        Self::new(
            patience,
            State::Arming {
                claimed: false,
                armed: false,
                by: later(now, START_TIME),
            },
            false,
        )
    }

    /// A run that an earlier executor has claimed in this boot; its spool is looked at first. When it began is not
    /// known: its runner is given up `patience` after now.
    pub(crate) fn adopted(now: Instant, patience: Duration) -> Self {
        let mut machine = Self::new(
            patience,
            State::Adrift {
                look_at: None,
                looks: 0,
                missing_until: None,
            },
            true,
        );
        machine.overdue_at = Some(later(now, patience));
        machine.actions.push_back(Action::LookAtSpool);
        machine
    }

    /// A run that was claimed in another boot.
    pub(crate) fn rebooted() -> Self {
        let mut machine = Self::new(Duration::ZERO, State::Concluded, true);
        machine
            .actions
            .push_back(Action::Conclude(Conclusion::Reboot));
        machine
    }

    /// What to do next.
    pub(crate) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Machine::handle_timeout`] wants to be called at the latest.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            // Before the claim is durable there is nothing to conclude.
            State::Arming {
                claimed: true, by, ..
            } => Some(by),
            State::Adrift { look_at, .. } => look_at,
            State::Running { .. } => self.overdue_at,
            _ => None,
        }
    }

    /// Time has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        match self.state {
            State::Arming {
                claimed: true, by, ..
            } if by <= now => self.give_up(),
            State::Adrift {
                look_at: Some(at),
                looks,
                missing_until,
            } if at <= now => self.look(looks, missing_until),
            State::Running { .. } if self.is_overdue(now) => {
                self.conclude(Conclusion::Unresponsive);
            }
            _ => {}
        }
    }

    /// The claim is durable, and it is the first one.
    pub(crate) fn handle_claimed(&mut self, now: Instant) {
        if let State::Arming { claimed, .. } = &mut self.state {
            *claimed = true;
            self.advance();
            self.go(now);
        }
    }

    /// A runner has said who it is, on a new connection.
    pub(crate) fn handle_hello(&mut self, phase: Phase, now: Instant) {
        match (&mut self.state, phase) {
            (State::Arming { armed, .. }, Phase::Armed) => {
                *armed = true;
                self.advance();
                self.go(now);
            }
            (State::Adrift { .. }, Phase::Running | Phase::Finished) => {
                self.state = State::Running { started: false };
                self.handle_started();
            }
            // An armed runner without its executor ends by itself; the spool tells when.
            _ => {}
        }
    }

    /// The command was executed.
    pub(crate) fn handle_started(&mut self) {
        if let State::Running { started } = &mut self.state {
            *started = true;
            if self.cancel {
                self.actions.push_back(Action::Cancel);
            }
        }
    }

    /// The spawner could not fork a runner.
    pub(crate) fn handle_launch_failed(&mut self, error: SpawnError) {
        if matches!(self.state, State::Arming { .. }) {
            self.early.get_or_insert(Conclusion::LaunchFailed(error));
            self.advance();
        }
    }

    /// The runner's result has come.
    pub(crate) fn handle_result(&mut self, result: Box<RunResult>) {
        match self.state {
            // Without go it can only say that arming failed.
            State::Arming { .. } => {
                self.early.get_or_insert(Conclusion::Result(result));
                self.advance();
            }
            State::Running { .. } | State::Adrift { .. } => {
                self.conclude(Conclusion::Result(result));
            }
            State::Concluded => {}
        }
    }

    /// The connection to the runner is gone.
    pub(crate) fn handle_lost(&mut self, now: Instant) {
        match &mut self.state {
            State::Arming { armed, by, .. } => {
                *armed = false;
                *by = (*by).min(later(now, EXPLAIN_TIME));
            }
            State::Running { .. } => self.look(0, None),
            State::Adrift { .. } | State::Concluded => {}
        }
    }

    /// The spool was looked at.
    pub(crate) fn handle_spool(&mut self, spool: SpoolState, now: Instant) {
        let is_overdue = self.is_overdue(now);
        let State::Adrift {
            look_at,
            looks,
            missing_until,
        } = &mut self.state
        else {
            return;
        };
        match spool {
            SpoolState::Missing => match *missing_until {
                Some(until) if until <= now => self.conclude(Conclusion::NoTrace),
                until => {
                    let until = until.unwrap_or_else(|| later(now, MISSING_TIME));
                    *missing_until = Some(until);
                    *look_at = Some(until);
                }
            },
            SpoolState::Held if is_overdue => self.conclude(Conclusion::Unresponsive),
            SpoolState::Held => {
                *look_at = Some(later(now, spool_look(*looks)));
                *looks = looks.saturating_add(1);
            }
            SpoolState::Unstarted if self.cancel => self.conclude(Conclusion::CanceledUnstarted),
            SpoolState::Unstarted if self.adopted => self.conclude(Conclusion::Interrupted),
            SpoolState::Unstarted => self.conclude(Conclusion::NoRunner),
            SpoolState::Started => self.conclude(Conclusion::OutcomeUnknown),
            SpoolState::Result(result) => self.conclude(Conclusion::Result(result)),
        }
    }

    /// Somebody asks for the run's end.
    pub(crate) fn handle_cancel(&mut self) {
        self.cancel = true;
        match self.state {
            State::Arming { .. } => self.advance(),
            State::Running { started: true } => self.actions.push_back(Action::Cancel),
            // Said when there is a command to end, and a runner to end it.
            State::Running { started: false } | State::Adrift { .. } | State::Concluded => {}
        }
    }

    fn new(patience: Duration, state: State, adopted: bool) -> Self {
        Self {
            state,
            cancel: false,
            early: None,
            adopted,
            patience,
            overdue_at: None,
            actions: VecDeque::new(),
        }
    }

    /// Ends the run without a go, as soon as the claim is durable and something is certain.
    fn advance(&mut self) {
        if !matches!(self.state, State::Arming { claimed: true, .. }) {
            return;
        }
        if self.cancel {
            self.conclude(Conclusion::CanceledUnstarted);
        } else if let Some(early) = self.early.take() {
            self.conclude(early);
        }
    }

    /// Says go if claim and runner are there.
    fn go(&mut self, now: Instant) {
        let State::Arming {
            claimed: true,
            armed: true,
            ..
        } = self.state
        else {
            return;
        };
        self.state = State::Running { started: false };
        self.overdue_at = Some(later(now, self.patience));
        self.actions.push_back(Action::Go);
    }

    fn is_overdue(&self, now: Instant) -> bool {
        self.overdue_at.is_some_and(|at| at <= now)
    }

    fn give_up(&mut self) {
        self.conclude(Conclusion::NoRunner);
    }

    fn look(&mut self, looks: usize, missing_until: Option<Instant>) {
        self.state = State::Adrift {
            look_at: None,
            looks,
            missing_until,
        };
        self.actions.push_back(Action::LookAtSpool);
    }

    fn conclude(&mut self, conclusion: Conclusion) {
        self.state = State::Concluded;
        self.actions.clear();
        self.actions.push_back(Action::Conclude(conclusion));
    }
}

/// The pause before the next look at a spool that is held.
fn spool_look(looks: usize) -> Duration {
    let last = SPOOL_LOOKS.len().saturating_sub(1);
    SPOOL_LOOKS
        .get(looks.min(last))
        .copied()
        .unwrap_or(START_TIME)
}

fn later(now: Instant, by: Duration) -> Instant {
    now.checked_add(by).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use uuid::Uuid;
    use willcall_runner::wire::{Ending, Stage, Status};

    const PATIENCE: Duration = Duration::from_mins(1);

    fn error() -> SpawnError {
        SpawnError {
            stage: Stage::Fork,
            errno: 11,
            on: "a runner".into(),
        }
    }

    fn result() -> Box<RunResult> {
        Box::new(RunResult {
            run: Uuid::from_u128(1),
            ending: Ending::Ended {
                status: Status::Exited(0),
                killed: None,
            },
            duration_ms: 1,
            cpu_ms: 1,
            max_rss_kib: 1,
            streams: Vec::new(),
            ended: Vec::new(),
            detached: Vec::new(),
        })
    }

    fn actions(machine: &mut Machine) -> Vec<Action> {
        std::iter::from_fn(|| machine.poll_action()).collect()
    }

    #[track_caller]
    fn check(machine: &mut Machine, expected: &[Action]) {
        assert_eq!(actions(machine), expected);
    }

    fn running(now: Instant) -> Machine {
        let mut machine = Machine::arming(now, PATIENCE);
        machine.handle_claimed(now);
        machine.handle_hello(Phase::Armed, now);
        check(&mut machine, &[Action::Go]);
        machine
    }

    #[test]
    fn go_waits_for_the_claim_and_for_the_runner_in_any_order() {
        let mut machine = Machine::arming(Instant::now(), PATIENCE);
        machine.handle_hello(Phase::Armed, Instant::now());
        check(&mut machine, &[]);
        machine.handle_claimed(Instant::now());
        check(&mut machine, &[Action::Go]);
        machine.handle_result(result());
        check(
            &mut machine,
            &[Action::Conclude(Conclusion::Result(result()))],
        );
    }

    #[test]
    fn a_cancel_before_go_starts_nothing_and_after_it_ends_the_run() {
        let mut machine = Machine::arming(Instant::now(), PATIENCE);
        machine.handle_cancel();
        machine.handle_hello(Phase::Armed, Instant::now());
        check(&mut machine, &[]);
        machine.handle_claimed(Instant::now());
        check(
            &mut machine,
            &[Action::Conclude(Conclusion::CanceledUnstarted)],
        );
        let mut machine = running(Instant::now());
        machine.handle_started();
        machine.handle_cancel();
        check(&mut machine, &[Action::Cancel]);
        let mut machine = running(Instant::now());
        machine.handle_cancel();
        check(&mut machine, &[]);
        machine.handle_started();
        check(&mut machine, &[Action::Cancel]);
    }

    #[test]
    fn a_failed_launch_concludes_once_the_claim_is_durable() {
        let mut machine = Machine::arming(Instant::now(), PATIENCE);
        machine.handle_launch_failed(error());
        machine.handle_lost(Instant::now());
        check(&mut machine, &[]);
        machine.handle_claimed(Instant::now());
        check(
            &mut machine,
            &[Action::Conclude(Conclusion::LaunchFailed(error()))],
        );
    }

    #[test]
    fn a_runner_that_never_comes_is_given_up_and_nothing_ran() {
        let now = Instant::now();
        let mut machine = Machine::arming(now, PATIENCE);
        assert_eq!(machine.poll_timeout(), None);
        machine.handle_claimed(Instant::now());
        assert_eq!(machine.poll_timeout(), Some(now + START_TIME));
        machine.handle_lost(now);
        assert_eq!(machine.poll_timeout(), Some(now + EXPLAIN_TIME));
        machine.handle_timeout(now + EXPLAIN_TIME);
        check(&mut machine, &[Action::Conclude(Conclusion::NoRunner)]);
    }

    #[test]
    fn a_lost_connection_is_explained_by_the_spool() {
        let now = Instant::now();
        for (spool, conclusion) in [
            (SpoolState::Unstarted, Conclusion::NoRunner),
            (SpoolState::Started, Conclusion::OutcomeUnknown),
            (SpoolState::Result(result()), Conclusion::Result(result())),
        ] {
            let mut machine = running(now);
            machine.handle_lost(now);
            check(&mut machine, &[Action::LookAtSpool]);
            machine.handle_spool(SpoolState::Held, now);
            assert_eq!(machine.poll_timeout(), Some(now + SPOOL_LOOKS[0]));
            machine.handle_timeout(now + SPOOL_LOOKS[0]);
            check(&mut machine, &[Action::LookAtSpool]);
            machine.handle_spool(spool, now);
            check(&mut machine, &[Action::Conclude(conclusion)]);
        }
    }

    #[test]
    fn an_adopted_run_hears_of_its_cancel_when_its_runner_is_there() {
        let now = Instant::now();
        let mut machine = Machine::adopted(Instant::now(), PATIENCE);
        check(&mut machine, &[Action::LookAtSpool]);
        machine.handle_spool(SpoolState::Held, now);
        machine.handle_cancel();
        machine.handle_hello(Phase::Armed, Instant::now());
        check(&mut machine, &[]);
        machine.handle_hello(Phase::Running, Instant::now());
        check(&mut machine, &[Action::Cancel]);
        machine.handle_result(result());
        check(
            &mut machine,
            &[Action::Conclude(Conclusion::Result(result()))],
        );
    }

    #[test]
    fn an_adopted_run_that_never_began_was_interrupted() {
        let mut machine = Machine::adopted(Instant::now(), PATIENCE);
        check(&mut machine, &[Action::LookAtSpool]);
        machine.handle_spool(SpoolState::Unstarted, Instant::now());
        check(&mut machine, &[Action::Conclude(Conclusion::Interrupted)]);
        check(
            &mut Machine::rebooted(),
            &[Action::Conclude(Conclusion::Reboot)],
        );
    }

    #[test]
    fn a_spool_that_is_not_there_proves_nothing() {
        let now = Instant::now();
        let mut connection_lost = running(now);
        connection_lost.handle_lost(now);
        for mut machine in [Machine::adopted(Instant::now(), PATIENCE), connection_lost] {
            check(&mut machine, &[Action::LookAtSpool]);
            machine.handle_cancel();
            machine.handle_spool(SpoolState::Missing, now);
            check(&mut machine, &[]);
            let until = now + MISSING_TIME;
            assert_eq!(machine.poll_timeout(), Some(until));
            machine.handle_timeout(until);
            check(&mut machine, &[Action::LookAtSpool]);
            machine.handle_spool(SpoolState::Missing, until);
            check(&mut machine, &[Action::Conclude(Conclusion::NoTrace)]);
        }
    }

    #[test]
    fn a_runner_without_its_spool_may_dial() {
        let now = Instant::now();
        let mut machine = Machine::adopted(Instant::now(), PATIENCE);
        check(&mut machine, &[Action::LookAtSpool]);
        machine.handle_spool(SpoolState::Missing, now);
        machine.handle_hello(Phase::Running, Instant::now());
        machine.handle_timeout(now + MISSING_TIME);
        check(&mut machine, &[]);
        machine.handle_result(result());
        let end = Conclusion::Result(result());
        check(&mut machine, &[Action::Conclude(end)]);
    }

    #[test]
    fn a_runner_that_does_not_end_its_run_is_given_up() {
        let now = Instant::now();
        let mut machine = running(now);
        machine.handle_started();
        let overdue = now + PATIENCE;
        assert_eq!(machine.poll_timeout(), Some(overdue));
        machine.handle_timeout(now + PATIENCE / 2);
        check(&mut machine, &[]);
        machine.handle_timeout(overdue);
        let given_up = [Action::Conclude(Conclusion::Unresponsive)];
        check(&mut machine, &given_up);
        machine.handle_result(result());
        check(&mut machine, &[]);
        let mut machine = Machine::adopted(now, PATIENCE);
        check(&mut machine, &[Action::LookAtSpool]);
        machine.handle_spool(SpoolState::Held, now);
        machine.handle_timeout(now + SPOOL_LOOKS[0]);
        check(&mut machine, &[Action::LookAtSpool]);
        machine.handle_spool(SpoolState::Held, overdue);
        check(&mut machine, &given_up);
    }

    #[test]
    fn a_result_in_the_spool_is_found_however_late() {
        let now = Instant::now();
        let mut machine = Machine::adopted(now, PATIENCE);
        check(&mut machine, &[Action::LookAtSpool]);
        machine.handle_spool(SpoolState::Result(result()), now + 2 * PATIENCE);
        let end = Conclusion::Result(result());
        check(&mut machine, &[Action::Conclude(end)]);
    }

    proptest! {
        /// Whatever happens in whatever order: go at most once and never before the claim, at most one
        /// conclusion and nothing after it, and never one that denies an execution after go.
        #[test]
        fn no_order_of_events_breaks_the_promises(
            adopted in any::<bool>(),
            events in proptest::collection::vec(0..14_u8, 0..40),
        ) {
            let mut now = Instant::now();
            let mut machine = if adopted { Machine::adopted(now, PATIENCE) } else { Machine::arming(now, PATIENCE) };
            let (mut claimed, mut gone, mut concluded) = (false, false, false);
            for event in events {
                match event {
                    0 => { machine.handle_claimed(now); claimed = true; }
                    1 => machine.handle_hello(Phase::Armed, now),
                    2 => machine.handle_hello(Phase::Running, now),
                    3 => machine.handle_result(result()),
                    4 => machine.handle_lost(now),
                    5 => machine.handle_cancel(),
                    6 => machine.handle_launch_failed(error()),
                    7 => machine.handle_spool(SpoolState::Held, now),
                    8 => machine.handle_spool(SpoolState::Started, now),
                    9 => machine.handle_spool(SpoolState::Result(result()), now),
                    10 => machine.handle_started(),
                    11 => machine.handle_spool(SpoolState::Missing, now),
                    _ => {
                        now = machine.poll_timeout().unwrap_or(now);
                        machine.handle_timeout(now);
                    }
                }
                for action in actions(&mut machine) {
                    prop_assert!(!concluded, "{action:?} after the conclusion");
                    match action {
                        Action::Go => {
                            prop_assert!(claimed && !gone && !adopted);
                            gone = true;
                        }
                        Action::Cancel => prop_assert!(gone || adopted),
                        Action::LookAtSpool => {}
                        Action::Conclude(conclusion) => {
                            concluded = true;
                            let denies = matches!(
                                conclusion,
                                Conclusion::NoRunner
                                    | Conclusion::LaunchFailed(_)
                                    | Conclusion::CanceledUnstarted
                            );
                            prop_assert!(!(gone && denies), "{conclusion:?} after go");
                        }
                    }
                }
            }
        }
    }
}
