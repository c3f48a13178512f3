//! The processes below us, found in /proc. We are a subreaper: whoever loses its parent below us
//! becomes our child, so everything below us stays below us.
//!
//! A walk is no snapshot: while it lists one process, another forks and ends. What it may have missed has become
//! our child meanwhile, and none of our children goes before we reap it. So our own children, listed once more after
//! the walk, are the proof: if the walk has met all of them, it has missed nobody.
//!
//! This holds for who was not handed to another subreaper below us. That one is met itself.

mod killing;
mod process;

use crate::limits::{MAX_LISTED, MAX_WALK};
use crate::sys;
use crate::wire::Leftover;
pub(crate) use killing::kill;
use nix::libc;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
pub(crate) use process::Process;
use std::collections::HashSet;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};

/// A process that was seen below us.
#[derive(Debug)]
pub(crate) struct Found {
    /// What it is.
    pub(crate) process: Process,
    handle: Handle,
}

/// What makes sure that a signal reaches the process that was seen, even if its id is used again.
#[derive(Debug)]
enum Handle {
    /// Our own child: its id stays its own until we reap it, which nobody does during a walk.
    Child,
    /// Named by a descriptor.
    Pidfd(OwnedFd),
    /// The kernel has no descriptors for processes: it is left alone until it is our child.
    Nothing,
}

impl Found {
    /// Asks it to end: TERM, and what a stopped process needs to hear it.
    pub(crate) fn ask(&self) {
        self.signal(libc::SIGTERM);
        self.signal(libc::SIGCONT);
    }

    /// Signals it. That it may have ended meanwhile is no error.
    pub(crate) fn signal(&self, signal: i32) {
        let sent = match &self.handle {
            Handle::Pidfd(pidfd) => sys::pidfd_signal(pidfd.as_fd(), signal),
            Handle::Child => Signal::try_from(signal)
                .and_then(|signal| nix::sys::signal::kill(Pid::from_raw(self.process.pid), signal)),
            Handle::Nothing => Ok(()),
        };
        if let Err(error) = sent {
            tracing::debug!(pid = self.process.pid, %error, "a process was not signalled");
        }
    }
}

/// Whom a walk has met.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    met: HashSet<i32>,
    /// Whether there were more than a walk may meet, or /proc could not be read.
    is_cut: bool,
}

impl Walk {
    /// Whether it has met everybody who was there at its end. `own` lists our own children now, or those that the
    /// walk was about.
    pub(crate) fn is_whole(&self, own: Option<Vec<i32>>) -> bool {
        !self.is_cut && own.is_some_and(|own| own.iter().all(|pid| self.met.contains(pid)))
    }

    fn meet(&mut self, found: Found, each: &mut impl FnMut(&Found)) -> Process {
        self.met.insert(found.process.pid);
        // What has begun to exit may still have children; soon they are ours.
        if !found.process.ended {
            each(&found);
        }
        found.process
    }
}

/// Our own children. `None` if /proc cannot be read.
pub(crate) fn own_children() -> Option<Vec<i32>> {
    let ourselves = Process::ourselves();
    if ourselves.is_none() {
        tracing::warn!("/proc cannot be read: what is left below this process cannot be ended");
    }
    Some(children(ourselves?.pid))
}

/// Visits everything that has not ended among `own`, which are children of ours, and below them: parents first, and of
/// siblings the youngest first, because it may fork and be gone before the others are through.
pub(crate) fn visit(own: Option<Vec<i32>>, mut each: impl FnMut(&Found)) -> Walk {
    let mut walk = Walk {
        is_cut: own.is_none(),
        ..Walk::default()
    };
    let mut parents = Vec::new();
    for pid in own.into_iter().flatten().rev() {
        parents.extend(find_own(pid).map(|found| walk.meet(found, &mut each)));
    }
    while let Some(parent) = parents.pop() {
        for pid in children(parent.pid).into_iter().rev() {
            let found = find(pid, &parent);
            parents.extend(found.map(|found| walk.meet(found, &mut each)));
        }
        if walk.met.len() > MAX_WALK {
            walk.is_cut = true;
            break;
        }
    }
    walk
}

/// A child of ours; not one that was reaped since it was listed.
fn find_own(pid: i32) -> Option<Found> {
    let process = Process::read(pid)?;
    let ours = i32::try_from(std::process::id()) == Ok(process.parent);
    let handle = Handle::Child;
    ours.then_some(Found { process, handle })
}

/// A child of `parent`, proven: the descriptor was there before its parent was read, and the
/// parent after that was still the one that we know.
fn find(pid: i32, parent: &Process) -> Option<Found> {
    let handle = sys::pidfd_open(pid).map_or(Handle::Nothing, Handle::Pidfd);
    let process = Process::read(pid)?;
    (process.parent == parent.pid && parent.is_still_there()).then_some(Found { process, handle })
}

/// The children of all threads of a process; of a kernel that keeps no such list, by looking at everybody.
fn children(parent: i32) -> Vec<i32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{parent}/task")) else {
        return Vec::new();
    };
    let mut children = Vec::new();
    for task in tasks.flatten() {
        match fs::read_to_string(task.path().join("children")) {
            Ok(list) => children.extend(list.split_ascii_whitespace().flat_map(str::parse::<i32>)),
            // A thread that ends meanwhile hands its children to another one.
            Err(_) if Process::read(parent).is_none() => return children,
            Err(_) => return everybody(parent),
        }
    }
    children
}

fn everybody(parent: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let below = pids
        .filter_map(Process::read)
        .filter(|process| process.parent == parent);
    below.map(|process| process.pid).collect()
}

/// Remembers processes for a result: each once, a bounded number of them.
pub(crate) fn remember(list: &mut Vec<Leftover>, process: &Process) {
    if list.len() < MAX_LISTED && list.iter().all(|known| known.pid != process.pid) {
        list.push(process.leftover());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_children_are_found_and_can_be_signalled() {
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .expect("sleep");
        let pid = i32::try_from(child.id()).expect("a pid");
        let mut seen = 0;
        let walk = visit(own_children(), |found| {
            if found.process.pid == pid {
                seen += 1;
                found.signal(libc::SIGKILL);
            }
        });
        assert_eq!(seen, 1);
        assert!(walk.met.contains(&pid));
        assert!(!child.wait().expect("our child").success());
    }

    #[test]
    fn the_slow_way_finds_the_same() {
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .expect("sleep");
        let pid = i32::try_from(child.id()).expect("a pid");
        let ours = i32::try_from(std::process::id()).expect("a pid");
        let found = everybody(ours).contains(&pid);
        child.kill().expect("our child");
        child.wait().expect("our child");
        assert!(found);
    }
}
