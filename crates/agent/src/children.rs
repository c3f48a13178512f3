//! Starting, signalling and reaping. Nobody else in this process waits for children: whatever is reaped here is
//! either a role, or an orphan that this process, as subreaper, inherited from a dead spawner or runner.

use crate::roles::{Role, RoleCommand};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// The roles that run now.
#[derive(Debug)]
pub(crate) struct Children {
    /// Each role has the reading end as its stdin. The other one is ours alone and is closed when we are
    /// gone, however that comes about: then they end in order.
    lifeline: (PipeReader, PipeWriter),
    roles: HashMap<Pid, Role>,
}

/// A child that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The role, or `None` for an inherited orphan.
    pub(crate) role: Option<Role>,
    pub(crate) pid: Pid,
    pub(crate) how: How,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Exited(i32),
    Signaled(Signal),
}

impl Children {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            lifeline: io::pipe()?,
            roles: HashMap::new(),
        })
    }

    /// Starts a role in a process group of its own: a terminal's Ctrl-C is ours to handle, in order.
    pub(crate) fn start(
        &mut self,
        role: Role,
        command: &RoleCommand,
        args: &[OsString],
    ) -> io::Result<Pid> {
        let child = Command::new(&command.program)
            .args(&command.leading)
            .args(args)
            .stdin(self.lifeline.0.try_clone()?)
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()?;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        let pid = Pid::from_raw(pid);
        self.roles.insert(pid, role);
        Ok(pid)
    }

    /// Signals a role, if it runs. It is not reaped before its entry is gone, so the pid is still its own.
    pub(crate) fn signal(&self, role: Role, signal: Signal) {
        if let Some(pid) = self.pid(role) {
            let _ = kill(pid, signal);
        }
    }

    pub(crate) fn pid(&self, role: Role) -> Option<Pid> {
        let mut found = self.roles.iter().filter(|(_, r)| **r == role);
        found.next().map(|(pid, _)| *pid)
    }

    /// The next child that has ended, without waiting for one.
    pub(crate) fn reap(&mut self) -> Option<Ended> {
        loop {
            let (pid, how) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => (pid, How::Exited(code)),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, How::Signaled(signal)),
                Ok(WaitStatus::StillAlive) => return None,
                Ok(_) | Err(Errno::EINTR) => continue,
                Err(_) => return None,
            };
            let role = self.roles.remove(&pid);
            return Some(Ended { role, pid, how });
        }
    }
}

impl std::fmt::Display for How {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "ended with exit code {code}"),
            Self::Signaled(signal) => write!(f, "was ended by {signal}"),
        }
    }
}
