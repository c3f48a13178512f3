//! The loop around the [`Supervisor`]: it carries signals, ends of processes and time to it, and does what it says.

use crate::children::Children;
use crate::layout::Layout;
use crate::roles::{Role, Roles};
use crate::runs;
use crate::supervisor::{Action, Supervisor};
use anyhow::Context;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;
use tokio::signal::unix::{SignalKind, signal};

/// What the host is made of.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) roles: Roles,
    pub(crate) layout: Layout,
    pub(crate) gateway: OsString,
    pub(crate) identity: PathBuf,
    pub(crate) ca: PathBuf,
    /// Passed on as it is; without one the executor looks where it usually stands.
    pub(crate) config: Option<PathBuf>,
}

impl Host {
    fn args(&self, role: Role) -> Vec<OsString> {
        let flag = |name: &str, value: OsString| [OsString::from(name), value];
        let run_dir = &self.layout.run;
        let flags: Vec<[OsString; 2]> = match role {
            Role::Spawner => vec![flag("--socket", self.layout.socket("spawner.sock").into())],
            Role::Executor => [
                flag("--state", self.layout.state.clone().into()),
                flag("--run-dir", run_dir.clone().into()),
                flag("--workspace", self.layout.workspace.clone().into()),
            ]
            .into_iter()
            .chain(
                self.config
                    .iter()
                    .map(|path| flag("--config", path.clone().into())),
            )
            .collect(),
            Role::Link => vec![
                flag("--gateway", self.gateway.clone()),
                flag("--identity", self.identity.clone().into()),
                flag("--ca", self.ca.clone().into()),
                flag("--socket", self.layout.socket("link.sock").into()),
            ],
        };
        let lifeline = OsString::from("--lifeline");
        flags.into_iter().flatten().chain([lifeline]).collect()
    }
}

/// Runs a host until SIGTERM or SIGINT, and then ends it in order.
pub(crate) async fn run(host: Host) -> anyhow::Result<()> {
    // Runners of a spawner that was killed come to us, so that they can be found and reaped.
    nix::sys::prctl::set_child_subreaper(true).context("orphans cannot be inherited")?;
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be caught")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be caught")?;
    let mut child_ended = signal(SignalKind::child()).context("SIGCHLD cannot be caught")?;
    let mut shell = Shell {
        host,
        children: Children::new().context("no pipe for the roles")?,
        supervisor: Supervisor::new(Instant::now()),
    };
    while shell.act().is_continue() {
        tokio::select! {
            biased;
            _ = terminate.recv() => shell.stop("SIGTERM"),
            _ = interrupt.recv() => shell.stop("SIGINT"),
            _ = child_ended.recv() => shell.reap(),
            () = sleep_until(shell.supervisor.poll_timeout()) => {
                shell.supervisor.handle_timeout(Instant::now());
            }
        }
    }
    Ok(())
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

struct Shell {
    host: Host,
    children: Children,
    supervisor: Supervisor,
}

impl Shell {
    /// Does everything that is to be done; breaks when all is over.
    fn act(&mut self) -> std::ops::ControlFlow<()> {
        while let Some(action) = self.supervisor.poll_action() {
            match action {
                Action::Start(role) => self.start(role),
                Action::Ask(role) => self.children.signal(role, Signal::SIGTERM),
                Action::Kill(role) => {
                    tracing::warn!("the {role} does not end and is killed");
                    self.children.signal(role, Signal::SIGKILL);
                }
                Action::AskRuns => runs::ask(&self.parents()),
                Action::CountRuns => {
                    let left = runs::find(&self.parents()).len();
                    self.supervisor.handle_runs(left, Instant::now());
                }
                Action::Exit => return std::ops::ControlFlow::Break(()),
            }
        }
        std::ops::ControlFlow::Continue(())
    }

    fn start(&mut self, role: Role) {
        let (command, args) = (self.host.roles.command(role), self.host.args(role));
        match self.children.start(role, &command, &args) {
            Ok(pid) => {
                tracing::info!(%pid, "the {role} is started");
                self.supervisor.handle_started(role, Instant::now());
            }
            Err(error) => {
                let program = command.program.display();
                tracing::error!("the {role} cannot be started from {program}: {error}");
                self.supervisor.handle_gone(role, Instant::now());
            }
        }
    }

    fn stop(&mut self, why: &str) {
        tracing::info!("{why}: ending link, executor, runs and spawner");
        self.supervisor.handle_stop(Instant::now());
    }

    fn reap(&mut self) {
        while let Some(ended) = self.children.reap() {
            let how = ended.how;
            let Some(role) = ended.role else {
                tracing::debug!(pid = %ended.pid, "an orphan {how}");
                continue;
            };
            if let Some(pause) = self.supervisor.handle_gone(role, Instant::now()) {
                tracing::warn!("the {role} {how}; it is started again in {pause:?}");
            } else {
                tracing::debug!("the {role} {how}");
            }
        }
    }

    /// Whose children runners can be. The spawner's pid is its own: it is not reaped yet.
    fn parents(&self) -> Vec<Pid> {
        let spawner = self.children.pid(Role::Spawner);
        spawner.into_iter().chain([Pid::this()]).collect()
    }
}
