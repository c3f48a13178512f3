//! One run's own process: the shell around [`Lifecycle`]. It carries bytes and signals, and decides nothing.

mod ready;
mod result;
mod setup;
mod talk;

use crate::executor::Connection;
use crate::lifecycle::{Action, Lifecycle};
use crate::output::{Output, Place};
use crate::spawner::announce;
use crate::spool::Spool;
use crate::sys::{self, Reaped};
use crate::tree::{self, Process};
use crate::wire::{FromRunner, Launch, Leftover, SpawnError, Stage, Status};
use anyhow::Context as _;
use nix::libc;
use nix::sys::signal::{Signal, killpg};
use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;
use ready::Ready;
use setup::Armed;
use std::collections::HashSet;
use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The descriptors of a launch.
#[derive(Debug)]
pub(crate) struct LaunchFds {
    /// Our end of the connection to the executor.
    pub(crate) executor: OwnedFd,
    /// The locked spool file.
    pub(crate) spool: OwnedFd,
    /// The directory for outputs.
    pub(crate) directory: Option<OwnedFd>,
}

/// Runs one launch in this process, which was just forked from a spawner, until nothing remains to be done.
///
/// Whoever is left below it in the end is announced to the spawner through `notices`.
pub(crate) fn run(launch: Launch, fds: LaunchFds, notices: BorrowedFd<'_>) -> anyhow::Result<()> {
    let (signals, null) = setup::become_runner(&launch, &fds, notices)?;
    let mut runner = Runner::arm(launch, fds, signals, null)?;
    runner.greet();
    runner.live()?;
    runner.announce_left(notices);
    Ok(())
}

#[derive(Debug)]
struct Runner {
    launch: Launch,
    life: Lifecycle,
    executor: Option<Connection>,
    signals: SignalFd,
    spool: Spool,
    directory: Option<OwnedFd>,
    ourselves: Process,
    /// What Go executes, or why it cannot.
    armed: Option<Result<Armed, SpawnError>>,
    outputs: Vec<Output>,
    /// The command's process, until it is reaped; also the id of its group.
    command: Option<i32>,
    /// The run's process session. Keeps its meaning when the command is gone.
    session: Option<i32>,
    started_at: Option<Instant>,
    not_started: Option<SpawnError>,
    ended: Vec<Leftover>,
    detached: Vec<Leftover>,
    result: Option<Rc<Vec<u8>>>,
    done: bool,
}

impl Runner {
    fn arm(launch: Launch, fds: LaunchFds, signals: SignalFd, null: File) -> anyhow::Result<Self> {
        let timeout = launch.timeout_ms.map(Duration::from_millis);
        let life = Lifecycle::new(timeout, Duration::from_millis(launch.grace_ms));
        let mut outputs = Vec::new();
        let armed = Armed::prepare(&launch, null, &mut outputs);
        Ok(Self {
            life,
            executor: Some(Connection::new(fds.executor).context("the executor's socket is none")?),
            signals,
            spool: Spool::new(fds.spool),
            directory: fds.directory,
            ourselves: Process::ourselves().context("cannot read /proc/self/stat")?,
            armed: Some(armed),
            outputs,
            command: None,
            session: None,
            started_at: None,
            not_started: None,
            ended: Vec::new(),
            detached: Vec::new(),
            result: None,
            done: false,
            launch,
        })
    }

    fn live(&mut self) -> anyhow::Result<()> {
        loop {
            while let Some(action) = self.life.poll_action() {
                self.perform(action);
            }
            if self.done {
                return Ok(());
            }
            let ready = self.wait().context("cannot poll")?;
            self.read_outputs(&ready);
            if ready.signals {
                self.receive_signals();
            }
            if ready.executor {
                self.hear_executor();
            }
            self.life.handle_timeout(Instant::now());
        }
    }

    /// Our children are about to become the spawner's.
    fn announce_left(&self, notices: BorrowedFd<'_>) {
        if self.life.is_alone() {
            return;
        }
        let mut sessions = HashSet::new();
        tree::visit(tree::own_children(), |found| {
            sessions.insert(found.process.session);
        });
        announce(notices, self.ourselves.pid, &sessions);
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Execute => self.execute(),
            Action::Stop => self.stop(),
            Action::KillAll => self.kill_all(),
            Action::EndOutput => self.end_output(),
            Action::EndLeftovers | Action::LookAtLeftovers => self.ask_leftovers(),
            Action::KillLeftovers => self.kill_leftovers(),
            Action::Seal => self.seal(),
            Action::Deliver => self.deliver(),
            Action::Redial => self.redial(),
            Action::Spool => self.write_spool(),
            Action::Exit => self.done = true,
        }
    }

    fn execute(&mut self) {
        let Some(armed) = self.armed.take() else {
            return;
        };
        match armed.and_then(|armed| self.start(armed)) {
            Ok(pid) => {
                self.command = Some(pid);
                self.session = Some(pid);
                let now = Instant::now();
                self.started_at = Some(now);
                self.life.handle_started(now);
                self.send(&FromRunner::Started { pid });
            }
            Err(error) => {
                self.not_started = Some(error);
                self.life.handle_not_started();
            }
        }
    }

    /// A run that nobody could later know to have begun must not begin.
    fn start(&self, armed: Armed) -> Result<i32, SpawnError> {
        self.spool.write_go().map_err(|error| SpawnError {
            stage: Stage::Spool,
            errno: error.raw_os_error().unwrap_or(libc::EIO),
            on: self.launch.run.to_string(),
        })?;
        armed.execute()
    }

    fn stop(&self) {
        let Some(group) = self.command else { return };
        for signal in [Signal::SIGTERM, Signal::SIGCONT] {
            // The command is not reaped yet, so the group is still its own.
            let _ = killpg(Pid::from_raw(group), signal);
        }
        tree::visit(tree::own_children(), |found| {
            if found.process.group != group {
                found.ask();
            }
        });
    }

    /// That nothing is left is told by the kernel, which then has no children for us.
    fn kill_all(&mut self) {
        let exited = self.command.is_none();
        tree::kill(tree::own_children, |process| {
            if exited {
                tree::remember(&mut self.ended, process);
            }
            true
        });
    }

    fn end_output(&mut self) {
        let place = place(self.directory.as_ref(), &self.launch);
        self.outputs
            .iter_mut()
            .for_each(|output| output.close(place));
    }

    /// Those in the run's own session are asked to end, each once.
    fn ask_leftovers(&mut self) {
        let mut left = false;
        let (session, ended, detached) = self.leftovers();
        let walk = tree::visit(tree::own_children(), |found| {
            if !is_left(&found.process, session, detached) {
                return;
            }
            left = true;
            if ended.iter().all(|known| known.pid != found.process.pid) {
                found.ask();
            }
            tree::remember(ended, &found.process);
        });
        let gone = !left && walk.is_whole(tree::own_children());
        self.life.handle_leftovers(Instant::now(), gone);
    }

    fn kill_leftovers(&mut self) {
        let (session, ended, detached) = self.leftovers();
        let gone = tree::kill(tree::own_children, |process| {
            let is_left = is_left(process, session, detached);
            if is_left {
                tree::remember(ended, process);
            }
            is_left
        });
        self.life.handle_leftovers(Instant::now(), gone);
    }

    /// The run's session, and both lists. Who has detached itself is listed as of the last look.
    fn leftovers(&mut self) -> (Option<i32>, &mut Vec<Leftover>, &mut Vec<Leftover>) {
        self.detached.clear();
        (self.session, &mut self.ended, &mut self.detached)
    }

    fn write_spool(&mut self) {
        let Some(result) = &self.result else { return };
        let written = self.spool.write_result(result);
        if let Err(error) = &written {
            tracing::error!(run = %self.launch.run, %error, "cannot write the spool; the result waits here");
        }
        self.life.handle_spooled(Instant::now(), written.is_ok());
    }

    fn receive_signals(&mut self) {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            if signal.ssi_signo != Signal::SIGCHLD as u32 {
                self.life.handle_cancel(Instant::now());
            }
        }
        self.reap();
    }

    fn reap(&mut self) {
        let mut exit = None;
        let alone = loop {
            match sys::reap() {
                Reaped::Child(pid, status) if Some(pid) == self.command => exit = Some(status),
                Reaped::Child(..) => {}
                Reaped::NoneEnded => break false,
                Reaped::NoChildren => break true,
            }
        };
        self.note_exit(exit, alone);
    }

    fn note_exit(&mut self, exit: Option<Status>, alone: bool) {
        let now = Instant::now();
        if let Some(status) = exit {
            self.command = None;
            self.life.handle_exit(now, status, alone);
        } else if alone {
            self.life.handle_alone(now);
        }
    }

    /// One chunk of each, so that no stream waits for the other.
    fn read_outputs(&mut self, ready: &Ready) {
        let place = place(self.directory.as_ref(), &self.launch);
        if ready.outputs.iter().all(|ready| !ready) {
            return;
        }
        for (output, _) in self
            .outputs
            .iter_mut()
            .zip(&ready.outputs)
            .filter(|(_, ready)| **ready)
        {
            output.read(place);
        }
        if self.outputs.iter().any(Output::is_over_cap) {
            self.life.handle_output_cap(Instant::now());
        }
        if self.outputs.iter().all(|output| output.pipe().is_none()) {
            self.life.handle_output_end(Instant::now());
        }
    }
}

/// Whether a process is in the run's own session. One that left it did so on purpose, and is only listed.
fn is_left(process: &Process, session: Option<i32>, detached: &mut Vec<Leftover>) -> bool {
    let is_left = Some(process.session) == session;
    if !is_left {
        tree::remember(detached, process);
    }
    is_left
}

fn place<'a>(directory: Option<&'a OwnedFd>, launch: &Launch) -> Place<'a> {
    Place {
        directory: directory.map(|fd| fd.as_fd()),
        run: launch.run,
    }
}
