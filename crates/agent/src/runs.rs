//! The runs that are still there when everything is to end.
//!
//! A runner is a child of the spawner, or ours once its spawner has died, and carries a name that the spawner's
//! code gave it. Commands are children of runners and are never touched from here, and neither are daemons that a
//! command started on purpose, which may be our children too.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;

const NAME_PREFIX: &str = "wc-run-";

/// What `/proc/PID/stat` says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stat {
    pid: Pid,
    name: String,
    state: char,
    parent: Pid,
}

/// The runners among the children of `parents`; zombies do not count.
pub(crate) fn find(parents: &[Pid]) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| is_runner(Pid::from_raw(*pid), parents))
        .map(Pid::from_raw)
        .collect()
}

/// TERM to the runners among the children of `parents`: they end their commands and lay down their results.
pub(crate) fn ask(parents: &[Pid]) {
    for pid in find(parents) {
        // Looked at again right before: the pid of a runner that ended meanwhile may be somebody else's.
        if is_runner(pid, parents) {
            let _ = kill(pid, Signal::SIGTERM);
        }
    }
}

fn is_runner(pid: Pid, parents: &[Pid]) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    stat.and_then(|stat| parse(&stat)).is_some_and(|stat| {
        stat.name.starts_with(NAME_PREFIX) && stat.state != 'Z' && parents.contains(&stat.parent)
    })
}

/// The name may hold anything, so it ends at the last parenthesis.
fn parse(stat: &str) -> Option<Stat> {
    let (pid, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    Some(Stat {
        pid: Pid::from_raw(pid.parse().ok()?),
        name: name.to_owned(),
        state: fields.next()?.chars().next()?,
        parent: Pid::from_raw(fields.next()?.parse().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stat: &str, name: &str, state: char, parent: i32) {
        let expected = Stat {
            pid: Pid::from_raw(7),
            name: name.to_owned(),
            state,
            parent: Pid::from_raw(parent),
        };
        assert_eq!(parse(stat), Some(expected));
    }

    #[test]
    fn a_name_cannot_pretend_to_be_more() {
        check("7 (wc-run-1234abcd) S 3 7 7 0", "wc-run-1234abcd", 'S', 3);
        check("7 (a) R 1 (b) Z 3 7 7 0", "a) R 1 (b", 'Z', 3);
        assert_eq!(parse("7 (a"), None);
        assert_eq!(parse(""), None);
    }

    fn start(program: &std::path::Path) -> (std::process::Child, Pid) {
        let child = std::process::Command::new(program)
            .arg("60")
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        (child, pid)
    }

    #[test]
    fn only_children_with_a_runners_name_are_runs() {
        let dir = tempfile::tempdir().unwrap();
        let runner = dir.path().join("wc-run-test");
        std::os::unix::fs::symlink("/bin/sleep", &runner).unwrap();
        let (mut command, command_pid) = start("/bin/sleep".as_ref());
        let (mut runner, runner_pid) = start(&runner);
        let found = find(&[Pid::this()]);
        let elsewhere = find(&[command_pid]);
        ask(&[Pid::this()]);
        let ended = runner.wait().unwrap();
        command.kill().unwrap();
        let killed = command.wait().unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal;
        assert!(found.contains(&runner_pid) && !found.contains(&command_pid));
        assert_eq!(elsewhere, []);
        assert_eq!((signal(&ended), signal(&killed)), (Some(15), Some(9)));
    }
}
