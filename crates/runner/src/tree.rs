//! The processes below us, found in /proc. We are a subreaper: whoever loses its parent below us
//! becomes our child, so everything below us stays below us.

use crate::limits::MAX_LISTED;
use crate::sys;
use crate::wire::Leftover;
use nix::libc;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};

/// What /proc says of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// Clock ticks after boot. With the process id it names a process for ever.
    pub(crate) start_time: u64,
    /// Whether it has begun to exit: it runs no more code of its own.
    ended: bool,
    name: String,
}

impl Process {
    /// Reads `/proc/PID/stat`; `None` if there is no such process any more.
    pub(crate) fn read(pid: i32) -> Option<Self> {
        read_stat(&format!("/proc/{pid}/stat"))
    }

    /// This very process, as it is now.
    pub(crate) fn ourselves() -> Option<Self> {
        read_stat("/proc/self/stat")
    }

    fn is_still_there(&self) -> bool {
        Self::read(self.pid).is_some_and(|now| now.start_time == self.start_time)
    }

    /// As it is listed in a result.
    pub(crate) fn leftover(&self) -> Leftover {
        Leftover {
            pid: self.pid,
            name: self.name.clone(),
        }
    }
}

/// A process that was seen below us, and the descriptor that names it even if its id is used again.
#[derive(Debug)]
pub(crate) struct Found {
    /// What it is.
    pub(crate) process: Process,
    pidfd: Option<OwnedFd>,
}

impl Found {
    /// Asks it to end: TERM, and what a stopped process needs to hear it.
    pub(crate) fn ask(&self) {
        self.signal(libc::SIGTERM);
        self.signal(libc::SIGCONT);
    }

    /// Signals it. That it may have ended meanwhile is no error.
    pub(crate) fn signal(&self, signal: i32) {
        let sent = match &self.pidfd {
            Some(pidfd) => sys::pidfd_signal(pidfd.as_fd(), signal),
            None => kill_child(&self.process, signal),
        };
        if let Err(error) = sent {
            tracing::debug!(pid = self.process.pid, %error, "a process was not signalled");
        }
    }
}

/// Without pidfds: only our own children are signalled, whose ids stay theirs until we reap them.
/// Grandchildren become children when their parents end.
fn kill_child(process: &Process, signal: i32) -> Result<(), nix::errno::Errno> {
    let signal = nix::sys::signal::Signal::try_from(signal)?;
    let ours = i32::try_from(std::process::id()).ok();
    let now = Process::read(process.pid);
    if now.is_none_or(|now| now.start_time != process.start_time || Some(now.parent) != ours) {
        return Ok(());
    }
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(process.pid), signal)
}

/// Visits everything below us that has not ended, parents first.
pub(crate) fn visit(mut each: impl FnMut(&Found)) {
    let Some(root) = Process::ourselves() else {
        tracing::warn!("/proc cannot be read: what is left below this runner cannot be ended");
        return;
    };
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for pid in children(parent.pid) {
            let Some(found) = find(pid, &parent) else {
                continue;
            };
            // What has begun to exit may still have children; soon they are ours.
            if !found.process.ended {
                each(&found);
            }
            parents.push(found.process);
        }
    }
}

/// A child of `parent`, proven: the descriptor was there before its parent was read, and the
/// parent after that was still the one that we know.
fn find(pid: i32, parent: &Process) -> Option<Found> {
    let pidfd = sys::pidfd_open(pid);
    let process = Process::read(pid)?;
    (process.parent == parent.pid && parent.is_still_there()).then_some(Found { process, pidfd })
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

/// A process may call itself anything, also what is not UTF-8.
fn read_stat(path: &str) -> Option<Process> {
    parse(&String::from_utf8_lossy(&fs::read(path).ok()?))
}

/// `PID (NAME) STATE PARENT GROUP SESSION ...`; the name may hold anything, brackets too.
fn parse(stat: &str) -> Option<Process> {
    let (pid, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().take(20).collect();
    Some(Process {
        pid: pid.parse().ok()?,
        name: name.to_owned(),
        ended: has_ended(&fields)?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start_time: fields.get(19)?.parse().ok()?,
    })
}

/// A process closes its pipes before it becomes a zombie, so that the state alone would come too
/// late. And a zombie with threads is none: only its first thread has ended.
fn has_ended(fields: &[&str]) -> Option<bool> {
    let flags: u32 = fields.get(6)?.parse().ok()?;
    let threads: u32 = fields.get(17)?.parse().ok()?;
    let exiting = flags & PF_EXITING != 0 || matches!(*fields.first()?, "Z" | "X");
    Some(exiting && threads <= 1)
}

/// Of the kernel's task flags: set from the beginning of an exit on.
const PF_EXITING: u32 = 0x4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let stat = "7 (a) R) S 1 2 3 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 99 20\n";
        let expected = Process {
            pid: 7,
            parent: 1,
            group: 2,
            session: 3,
            start_time: 99,
            ended: true,
            name: "a) R".to_owned(),
        };
        assert_eq!(parse(stat), Some(expected));
        assert_eq!(parse("7 (x) R 1"), None);
    }

    #[test]
    fn a_zombie_with_threads_is_alive() {
        let ended = |state, flags, threads| {
            let rest = format!("1 2 3 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 {threads} 0 99 20");
            parse(&format!("7 (x) {state} {rest}\n")).map(|process| process.ended)
        };
        assert_eq!(ended("Z", 0x40_000c, 1), Some(true));
        assert_eq!(ended("Z", 0x40_000c, 2), Some(false));
        assert_eq!(ended("R", 0x40_0004, 1), Some(true));
        assert_eq!(ended("S", 0x40_0000, 1), Some(false));
    }

    #[test]
    fn our_own_children_are_found_and_can_be_signalled() {
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .expect("sleep");
        let pid = i32::try_from(child.id()).expect("a pid");
        let mut seen = 0;
        visit(|found| {
            if found.process.pid == pid {
                seen += 1;
                found.signal(libc::SIGKILL);
            }
        });
        assert_eq!(seen, 1);
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
