//! Every decision of the agent, without I/O.
//!
//! ```text
//! each role:   Waiting ──due──► Running ──dies──► Waiting (100 ms, doubled up to 5 s; after 10 s of health 100 ms again)
//!
//! at a stop:   Link ──gone──► Executor ──gone──► Runs ──none left──► Spawner ──gone──► over
//!               TERM, grace,   the same           TERM, at most       the same
//!               KILL                              12 s
//! ```
//!
//! The link goes first, so that nothing new comes in; the executor second, so that nothing new is started;
//! the runs third: they end their own commands and lay down their results; the spawner has the runners
//! as children and goes last. Runs are never killed by us: only a runner knows what belongs to its run.

use crate::limits::{
    HEALTHY_AFTER, KILL_GRACE, RESTART_CAP, RESTART_FIRST, ROLE_GRACE, RUNS_GRACE, RUNS_LOOK,
};
use crate::roles::Role;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What the shell has to do, in order. Each is given once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Start the role; answer by [`Supervisor::handle_started`] or [`Supervisor::handle_gone`].
    Start(Role),
    /// TERM to the role.
    Ask(Role),
    /// KILL to the role.
    Kill(Role),
    /// TERM to every run.
    AskRuns,
    /// Count the runs; answer by [`Supervisor::handle_runs`].
    CountRuns,
    /// Everything is over.
    Exit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting { due: Instant },
    Starting,
    Running { since: Instant },
}

#[derive(Debug, Clone, Copy)]
struct Watched {
    role: Role,
    state: State,
    /// The pause before the next restart.
    pause: Duration,
}

/// How far a stop is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    No,
    /// Asked, and waited for until `kill_at`.
    Asked {
        role: Role,
        kill_at: Instant,
    },
    /// Killed, and waited for until `give_up_at`.
    Killed {
        role: Role,
        give_up_at: Instant,
    },
    Runs {
        look_at: Instant,
        give_up_at: Instant,
    },
    Over,
}

/// The state machine. After every `handle_*` take [`Supervisor::poll_action`] until it gives none, then sleep until
/// [`Supervisor::poll_timeout`] at most, and call [`Supervisor::handle_timeout`]; too many calls do no harm.
#[derive(Debug)]
pub struct Supervisor {
    roles: [Watched; 3],
    stop: Stop,
    actions: VecDeque<Action>,
}

impl Supervisor {
    /// Everything is to be started now.
    pub fn new(now: Instant) -> Self {
        let mut supervisor = Self {
            roles: Role::ALL.map(|role| Watched {
                role,
                state: State::Waiting { due: now },
                pause: RESTART_FIRST,
            }),
            stop: Stop::No,
            actions: VecDeque::new(),
        };
        supervisor.handle_timeout(now);
        supervisor
    }

    /// What to do next.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to call [`Supervisor::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.stop {
            Stop::No => self.roles.iter().filter_map(Watched::due).min(),
            Stop::Asked { kill_at, .. } => Some(kill_at),
            Stop::Killed { give_up_at, .. } => Some(give_up_at),
            Stop::Runs {
                look_at,
                give_up_at,
            } => Some(look_at.min(give_up_at)),
            Stop::Over => None,
        }
    }

    /// A role runs.
    pub fn handle_started(&mut self, role: Role, now: Instant) {
        self.watched(role).state = State::Running { since: now };
    }

    /// A role has ended, or could not be started. Returns the pause before it is started again, if it is.
    pub fn handle_gone(&mut self, role: Role, now: Instant) -> Option<Duration> {
        let pause = self.watched(role).rest(now);
        match self.stop {
            Stop::No => return Some(pause),
            // What a stop waits for.
            Stop::Asked { role: asked, .. } | Stop::Killed { role: asked, .. } if asked == role => {
                self.next_stage(role, now);
            }
            // Out of turn: its stage will find it gone.
            _ => {}
        }
        None
    }

    /// Everything is to end. Has an effect once.
    pub fn handle_stop(&mut self, now: Instant) {
        if self.stop == Stop::No {
            self.actions.clear();
            self.ask(Role::Link, now);
        }
    }

    /// This many runs are left.
    pub fn handle_runs(&mut self, left: usize, now: Instant) {
        if let Stop::Runs {
            look_at,
            give_up_at,
        } = &mut self.stop
        {
            *look_at = now + RUNS_LOOK;
            if left == 0 || now >= *give_up_at {
                self.ask(Role::Spawner, now);
            }
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        match self.stop {
            Stop::No => self.start_due(now),
            Stop::Asked { role, kill_at } if now >= kill_at => {
                self.actions.push_back(Action::Kill(role));
                let give_up_at = now + KILL_GRACE;
                self.stop = Stop::Killed { role, give_up_at };
            }
            Stop::Killed { role, give_up_at } if now >= give_up_at => self.next_stage(role, now),
            Stop::Runs { look_at, .. } if now >= look_at => {
                self.actions.push_back(Action::CountRuns);
            }
            _ => {}
        }
    }

    fn start_due(&mut self, now: Instant) {
        for watched in &mut self.roles {
            if watched.due().is_some_and(|due| due <= now) {
                watched.state = State::Starting;
                self.actions.push_back(Action::Start(watched.role));
            }
        }
    }

    /// Asks a role to end; one that is not there has ended.
    fn ask(&mut self, role: Role, now: Instant) {
        if matches!(self.watched(role).state, State::Running { .. }) {
            self.actions.push_back(Action::Ask(role));
            let kill_at = now + ROLE_GRACE;
            self.stop = Stop::Asked { role, kill_at };
        } else {
            self.next_stage(role, now);
        }
    }

    fn next_stage(&mut self, after: Role, now: Instant) {
        match after {
            Role::Link => self.ask(Role::Executor, now),
            Role::Executor => {
                self.actions.push_back(Action::AskRuns);
                self.actions.push_back(Action::CountRuns);
                self.stop = Stop::Runs {
                    look_at: now + RUNS_LOOK,
                    give_up_at: now + RUNS_GRACE,
                };
            }
            Role::Spawner => {
                self.actions.push_back(Action::Exit);
                self.stop = Stop::Over;
            }
        }
    }

    fn watched(&mut self, role: Role) -> &mut Watched {
        match role {
            Role::Spawner => &mut self.roles[0],
            Role::Executor => &mut self.roles[1],
            Role::Link => &mut self.roles[2],
        }
    }
}

impl Watched {
    fn due(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { due } => Some(due),
            State::Starting | State::Running { .. } => None,
        }
    }

    /// Waits before the next start; returns for how long.
    fn rest(&mut self, now: Instant) -> Duration {
        let healthy = matches!(self.state, State::Running { since } if now.saturating_duration_since(since) >= HEALTHY_AFTER);
        let pause = if healthy { RESTART_FIRST } else { self.pause };
        self.pause = (pause * 2).min(RESTART_CAP);
        self.state = State::Waiting { due: now + pause };
        pause
    }
}

#[cfg(test)]
mod tests;
