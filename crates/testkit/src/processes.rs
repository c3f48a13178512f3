//! What `/proc` says of a process and its descendants.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;

/// One process, as it stood when it was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Its parent's id.
    pub parent: i32,
    /// Its name (`comm`).
    pub name: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its state: `R`, `S`, `Z`, ...
    pub state: char,
}

/// Every process of the machine.
pub fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("/proc");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(look).collect()
}

/// The process with this id, if there is one.
pub fn look(pid: i32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (before, after) = (stat.find('(')?, stat.rfind(')')?);
    let mut fields = stat.get(after + 1..)?.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let args = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let args = String::from_utf8_lossy(&args)
        .split('\0')
        .map(str::to_owned)
        .collect();
    Some(Process {
        pid,
        parent,
        name: stat.get(before + 1..after)?.to_owned(),
        args,
        state,
    })
}

/// Every living descendant of a process, as far as parents are alive.
pub fn descendants(of: i32) -> Vec<Process> {
    let all = all();
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        for child in all.iter().filter(|p| p.parent == parent && p.state != 'Z') {
            parents.push(child.pid);
            found.push(child.clone());
        }
    }
    found
}

/// Processes whose arguments contain `word`.
pub fn with_argument(word: &str) -> Vec<Process> {
    all()
        .into_iter()
        .filter(|p| p.state != 'Z' && p.args.iter().any(|arg| arg.contains(word)))
        .collect()
}

/// A field of `/proc/PID/status` in KiB, such as `VmHWM`.
pub fn status_kib(pid: i32, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Kills a process that nobody expects to end: `kill -9`.
#[track_caller]
pub fn kill_9(pid: i32) {
    assert!(pid > 1, "kill -9 of {pid}");
    kill(Pid::from_raw(pid), Signal::SIGKILL)
        .unwrap_or_else(|error| panic!("kill -9 {pid}: {error}"));
}
