//! The life of one run: every decision of a runner, without I/O.
//!
//! ```text
//!            go            exit               output at its end, or 2 s
//!  Armed ─────────► Running ─────► Draining ───────────────────────────► Leftovers
//!    │                │               ▲                                      │ none left in the
//!    │                │ timeout,      │ nothing is left below us,            │ session, or given up
//!    │                │ cancel        │ or given up                          ▼
//!    │                ▼               │                                   Sealing
//!    │            Stopping ───────► Killing                                  │ result ready
//!    │              TERM    grace     KILL, again and again                  ▼
//!    │                                                                    Finished ──► Gone
//!    └───────────► Gone: executor lost or cancelled before go                collected, or spooled
//! ```
//!
//! *Happy path.* Go, execute, exit, both outputs at their end, nothing left below us: `Finished` in
//! the same round, delivered, collected, gone.
//!
//! *Nothing executed.* [`Lifecycle::handle_not_started`] goes straight to `Sealing`.
//!
//! *The command ends, its output does not* (somebody holds our pipes): `Draining` has one deadline,
//! fixed at the exit. *Somebody is left in the run's session*: TERM, and KILL 500 ms later,
//! until it is proven that nobody is. Who left the session is left alone.
//!
//! *Timeout and cancel*: TERM to everybody below us; when nobody is left, or after the grace with
//! KILL until nobody is left, the run drains. `Draining` keeps the deadline of the exit.
//!
//! *A stream would pass its cap*: KILL at once, without a grace.
//!
//! *Nobody collects the result*: one second after it is ready it goes to the spool. If that is not possible
//! the runner stays, and keeps redialling.

use crate::limits::{
    COLLECT_TIME, DRAIN_TIME, KILL_TIME, LEFTOVER_GRACE, LEFTOVER_LOOK, MAX_GRACE, REDIAL,
    SPOOL_RETRY,
};
use crate::wire::{KillCause, Phase, Status};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What the shell has to do, in order. Each is given once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Execute the command; answer by `handle_started` or `handle_not_started`.
    Execute,
    /// TERM to the command's process group and everything below us.
    Stop,
    /// KILL everything below us that can be found now.
    KillAll,
    /// Take what the pipes hold now, and read no more.
    EndOutput,
    /// TERM everything in the run's session, once; answer by `handle_leftovers`.
    EndLeftovers,
    /// See what is left in the run's session; answer by `handle_leftovers`.
    LookAtLeftovers,
    /// KILL everything in the run's session; answer by `handle_leftovers`.
    KillLeftovers,
    /// Make the result; answer by `handle_result`.
    Seal,
    /// Send the result on the connection.
    Deliver,
    /// Dial the executor; answer by `handle_redialled`.
    Redial,
    /// Write the result to the spool; answer by `handle_spooled`.
    Spool,
    /// Nothing remains to be done.
    Exit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Armed,
    /// Go has come; the shell executes.
    Starting,
    Running {
        timeout_at: Option<Instant>,
    },
    Stopping {
        kill_at: Instant,
    },
    Killing {
        again_at: Instant,
        give_up_at: Instant,
    },
    Draining {
        until: Instant,
    },
    Leftovers {
        look_at: Instant,
        kill_at: Instant,
        give_up_at: Instant,
    },
    Sealing,
    Finished {
        spool_at: Instant,
    },
    Gone,
}

/// What the runner knows of its executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Executor {
    Connected,
    /// Not dialled before this.
    Lost {
        redial_at: Instant,
    },
    /// The shell is dialling.
    Dialling,
}

/// The state machine. After every `handle_*` take [`Lifecycle::poll_action`] until it gives none, then sleep
/// until [`Lifecycle::poll_timeout`] at most, and call [`Lifecycle::handle_timeout`].
#[derive(Debug)]
pub(crate) struct Lifecycle {
    timeout: Option<Duration>,
    grace: Duration,
    state: State,
    executor: Executor,
    exit: Option<(Instant, Status)>,
    killed: Option<KillCause>,
    output_open: bool,
    /// Whether anything is below us. Exact from the exit on: nothing comes from nothing.
    alone: bool,
    actions: VecDeque<Action>,
}

impl Lifecycle {
    /// A runner that is armed and connected.
    pub(crate) fn new(timeout: Option<Duration>, grace: Duration) -> Self {
        Self {
            timeout,
            grace: grace.min(MAX_GRACE),
            state: State::Armed,
            executor: Executor::Connected,
            exit: None,
            killed: None,
            output_open: true,
            alone: false,
            actions: VecDeque::new(),
        }
    }

    /// What to say in a hello.
    pub(crate) fn phase(&self) -> Phase {
        match self.state {
            State::Armed => Phase::Armed,
            State::Finished { .. } | State::Gone => Phase::Finished,
            _ => Phase::Running,
        }
    }

    /// How the command ended, and why we ended it. `None` where nothing was executed.
    pub(crate) fn ending(&self) -> Option<(Status, Option<KillCause>)> {
        self.exit.map(|(_, status)| (status, self.killed))
    }

    /// Whether it is known that nothing is below us.
    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    /// What to do next.
    pub(crate) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The executor wants the command executed. Has an effect once.
    pub(crate) fn handle_go(&mut self) {
        if self.state == State::Armed {
            self.state = State::Starting;
            self.actions.push_back(Action::Execute);
        }
    }

    /// The command was executed. Its time counts from now.
    pub(crate) fn handle_started(&mut self, now: Instant) {
        let timeout_at = self.timeout.and_then(|timeout| now.checked_add(timeout));
        self.state = State::Running { timeout_at };
    }

    /// The command could not be executed.
    pub(crate) fn handle_not_started(&mut self) {
        self.seal();
    }

    /// The command's own process has ended; `alone` if nothing else is below us.
    pub(crate) fn handle_exit(&mut self, now: Instant, status: Status, alone: bool) {
        self.exit = Some((now, status));
        self.alone = alone;
        match self.state {
            State::Running { .. } => self.drain(now),
            // The grace is for everybody below us.
            State::Stopping { .. } | State::Killing { .. } if alone => self.drain(now),
            _ => {}
        }
    }

    /// Every output is at its end.
    pub(crate) fn handle_output_end(&mut self, now: Instant) {
        self.output_open = false;
        if matches!(self.state, State::Draining { .. }) {
            self.drained(now);
        }
    }

    /// No process is below us any more. Without an exit it has no meaning.
    pub(crate) fn handle_alone(&mut self, now: Instant) {
        if self.exit.is_none() || self.alone {
            return;
        }
        self.alone = true;
        match self.state {
            State::Stopping { .. } | State::Killing { .. } => self.drain(now),
            State::Leftovers { .. } => self.seal(),
            _ => {}
        }
    }

    /// Somebody asks for the run's end.
    pub(crate) fn handle_cancel(&mut self, now: Instant) {
        match self.state {
            // Nothing was executed, and nothing will be.
            State::Armed => self.leave(),
            State::Running { .. } => self.stop(now, KillCause::Cancel),
            // Already stopping, or over by itself.
            _ => {}
        }
    }

    /// A stream would pass its cap. Nobody is asked first: whoever is given time to end writes on.
    pub(crate) fn handle_output_cap(&mut self, now: Instant) {
        match self.state {
            State::Running { .. } => {
                self.killed = Some(KillCause::OutputCap);
                self.kill(now, now + KILL_TIME);
            }
            // It is being ended for another reason, which stands; its grace is over.
            State::Stopping { .. } => self.kill(now, now + KILL_TIME),
            // Killed already, or over by itself; what is read is dropped.
            _ => {}
        }
    }

    /// The run's session was looked at; `gone` if it is proven that nobody is left in it.
    pub(crate) fn handle_leftovers(&mut self, now: Instant, gone: bool) {
        let State::Leftovers { look_at, .. } = &mut self.state else {
            return;
        };
        *look_at = now + LEFTOVER_LOOK;
        if gone {
            self.seal();
        }
    }

    /// The result is made, and can be delivered.
    pub(crate) fn handle_result(&mut self, now: Instant) {
        self.state = State::Finished {
            spool_at: now + COLLECT_TIME,
        };
        if self.executor == Executor::Connected {
            self.actions.push_back(Action::Deliver);
        }
    }

    /// The connection to the executor is gone.
    pub(crate) fn handle_lost(&mut self, now: Instant) {
        if self.state == State::Armed {
            // Whoever could say go is not there: another runner may be made for this run.
            self.leave();
            return;
        }
        self.executor = Executor::Lost {
            redial_at: now + REDIAL,
        };
    }

    /// The executor was dialled; on success hello has been said.
    pub(crate) fn handle_redialled(&mut self, now: Instant, connected: bool) {
        if !connected {
            self.executor = Executor::Lost {
                redial_at: now + REDIAL,
            };
            return;
        }
        self.executor = Executor::Connected;
        if matches!(self.state, State::Finished { .. }) {
            self.actions.push_back(Action::Deliver);
        }
    }

    /// The executor has the result.
    pub(crate) fn handle_collected(&mut self) {
        if matches!(self.state, State::Finished { .. }) {
            self.leave();
        }
    }

    /// The result stands in the spool, or could not be written there.
    pub(crate) fn handle_spooled(&mut self, now: Instant, written: bool) {
        if written {
            self.leave();
        } else {
            self.state = State::Finished {
                spool_at: now + SPOOL_RETRY,
            };
        }
    }

    /// When [`Lifecycle::handle_timeout`] wants to be called at the latest.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let state = match self.state {
            State::Running { timeout_at } => timeout_at,
            State::Stopping { kill_at } => Some(kill_at),
            State::Killing { again_at, .. } => Some(again_at),
            State::Draining { until } => Some(until),
            State::Leftovers { look_at, .. } => Some(look_at),
            State::Finished { spool_at } => Some(spool_at),
            State::Armed | State::Starting | State::Sealing | State::Gone => None,
        };
        let redial = match self.executor {
            Executor::Lost { redial_at } if self.state != State::Gone => Some(redial_at),
            _ => None,
        };
        state.into_iter().chain(redial).min()
    }

    /// Time has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if let Executor::Lost { redial_at } = self.executor
            && redial_at <= now
            && self.state != State::Gone
        {
            self.executor = Executor::Dialling;
            self.actions.push_back(Action::Redial);
        }
        match self.state {
            State::Running {
                timeout_at: Some(at),
            } if at <= now => self.stop(now, KillCause::Timeout),
            State::Stopping { kill_at } if kill_at <= now => self.kill(now, now + KILL_TIME),
            State::Killing {
                again_at,
                give_up_at,
            } if again_at <= now => self.kill(now, give_up_at),
            State::Draining { until } if until <= now => self.drained(now),
            State::Leftovers {
                look_at,
                kill_at,
                give_up_at,
            } if look_at <= now => {
                self.look(now, kill_at, give_up_at);
            }
            State::Finished { spool_at } if spool_at <= now => {
                // Whatever comes of it, `handle_spooled` sets the next time.
                self.actions.push_back(Action::Spool);
            }
            _ => {}
        }
    }

    fn stop(&mut self, now: Instant, cause: KillCause) {
        self.killed = Some(cause);
        self.state = State::Stopping {
            kill_at: now + self.grace,
        };
        self.actions.push_back(Action::Stop);
    }

    /// One more round of KILL. Ends by itself when nothing is left (`handle_alone`); gives up on
    /// processes that the kernel holds, but never on the command itself: its status is the answer.
    fn kill(&mut self, now: Instant, give_up_at: Instant) {
        if give_up_at <= now && self.exit.is_some() {
            self.drain(now);
            return;
        }
        self.state = State::Killing {
            again_at: now + LEFTOVER_LOOK,
            give_up_at,
        };
        self.actions.push_back(Action::KillAll);
    }

    /// The deadline counts from the exit, however long the killing took.
    fn drain(&mut self, now: Instant) {
        let until = self.exit.map_or(now, |(exit, _)| exit) + DRAIN_TIME;
        self.state = State::Draining { until };
        if !self.output_open || until <= now {
            self.drained(now);
        }
    }

    fn drained(&mut self, now: Instant) {
        self.actions.push_back(Action::EndOutput);
        if self.alone {
            self.seal();
            return;
        }
        let kill_at = now + LEFTOVER_GRACE;
        self.state = State::Leftovers {
            look_at: now + LEFTOVER_LOOK,
            kill_at,
            give_up_at: kill_at + KILL_TIME,
        };
        self.actions.push_back(Action::EndLeftovers);
    }

    fn look(&mut self, now: Instant, kill_at: Instant, give_up_at: Instant) {
        if give_up_at <= now {
            self.seal();
            return;
        }
        self.state = State::Leftovers {
            look_at: now + LEFTOVER_LOOK,
            kill_at,
            give_up_at,
        };
        let kill = kill_at <= now;
        self.actions.push_back(if kill {
            Action::KillLeftovers
        } else {
            Action::LookAtLeftovers
        });
    }

    fn seal(&mut self) {
        self.state = State::Sealing;
        self.actions.push_back(Action::Seal);
    }

    fn leave(&mut self) {
        self.state = State::Gone;
        self.actions.push_back(Action::Exit);
    }
}

#[cfg(test)]
mod tests;
