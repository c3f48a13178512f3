//! What /proc says of one process.

use crate::wire::Leftover;
use std::fs;

/// What /proc says of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(super) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// Clock ticks after boot. With the process id it names a process for ever.
    pub(crate) start_time: u64,
    /// Whether it has begun to exit: it runs no more code of its own.
    pub(super) ended: bool,
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

    pub(super) fn is_still_there(&self) -> bool {
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
}
