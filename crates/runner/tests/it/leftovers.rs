//! A run ends twice: its command exits, then its output ends. What is left in between.

use crate::support::{Look, Spawner, alive_of, kill, wait_gone};
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::{Duration, Instant};
use uuid::Uuid;
use willcall_runner::wire::{RunResult, Status};

/// Forks and ends, again and again, and hears no TERM.
const CHAIN: &str = "import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
until = time.time() + 8
while time.time() < until:
    if os.fork():
        os._exit(0)";

/// Runs a script, and sees that it comes back `within` this.
#[track_caller]
fn check(script: &str, stdout: &str, within: Duration) -> (RunResult, Spawner) {
    let spawner = Spawner::start();
    let launch = spawner.launch(&["sh", "-c", script]);
    let run = launch.run;
    let begun = Instant::now();
    let result = spawner.run(launch);
    let took = begun.elapsed();
    assert!(took < within, "took {took:?}");
    assert_eq!(result.status(), Status::Exited(0));
    assert!(result.stdout().starts_with(stdout), "{}", result.stdout());
    let detached: Vec<i32> = result.detached.iter().map(|d| d.pid).collect();
    assert_eq!(alive_of(run), detached, "{result:?}");
    (result, spawner)
}

#[test]
fn a_child_that_holds_the_pipe_does_not_hold_the_result() {
    let (result, _spawner) = check("(sleep 600 &); echo hi", "hi\n", Duration::from_secs(4));
    let names: Vec<&str> = result.ended.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(names, ["sleep"]);
    assert!(result.duration_ms >= 1900, "the output was awaited");
}

#[test]
fn a_child_that_holds_no_pipe_is_ended_at_once() {
    let script = "sleep 600 >/dev/null 2>&1 & echo hi";
    let (result, _spawner) = check(script, "hi\n", Duration::from_millis(1500));
    assert_eq!(result.ended.len(), 1);
}

#[test]
fn a_chatty_grandchild_does_not_move_the_deadline() {
    let script = "(while :; do echo .; sleep .1; done) & echo done";
    let (result, _spawner) = check(script, "", Duration::from_secs(4));
    assert!(result.stdout().contains("done\n") && result.stdout().contains(".\n"));
    assert!(!result.ended.is_empty());
}

#[test]
fn a_leftover_that_ignores_term_is_killed() {
    let script = "(trap '' TERM; while :; do sleep 600; done) & echo hi";
    let (result, _spawner) = check(script, "hi\n", Duration::from_secs(5));
    assert!(!result.ended.is_empty());
}

#[test]
fn who_left_the_session_on_purpose_is_left_alone() {
    let script = "setsid sleep 600 >/dev/null 2>&1 & sleep .1; echo hi";
    let (result, _spawner) = check(script, "hi\n", Duration::from_millis(1500));
    let names: Vec<&str> = result.detached.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(names, ["sleep"]);
    assert!(result.ended.is_empty(), "{result:?}");
    kill(result.detached[0].pid);
    wait_gone(result.detached[0].pid);
}

#[test]
fn a_late_tail_is_kept() {
    let (result, _spawner) = check(
        "(sleep .3; echo tail) & echo head",
        "head\ntail\n",
        Duration::from_secs(2),
    );
    assert!(result.ended.is_empty() && result.detached.is_empty());
}

#[test]
fn a_stopped_leftover_is_ended_too() {
    let script = "sh -c 'kill -STOP $$' >/dev/null 2>&1 & sleep .1; echo hi";
    let (result, _spawner) = check(script, "hi\n", Duration::from_secs(3));
    assert_eq!(result.ended.len(), 1);
}

/// Nobody holds the writing end of a pipe that the whole chain has: exact, where a look at every process is not.
#[test]
fn a_chain_of_forks_is_ended_and_listed() {
    let spawner = Spawner::start();
    let missed = || {
        let pipe = spawner.dir.path().join(Uuid::now_v7().to_string());
        mkfifo(&pipe, Mode::S_IRUSR | Mode::S_IWUSR).expect("a pipe");
        let mut reader = File::options();
        let reader = reader.read(true).custom_flags(OFlag::O_NONBLOCK.bits());
        let mut reader = reader.open(&pipe).expect("the pipe");
        let script = format!("python3 -c '{CHAIN}' >{} 2>&1 &", pipe.display());
        let result = spawner.sh(&format!("{script} sleep .4; echo started"));
        assert_eq!(result.stdout(), "started\n");
        let nobody_writes = matches!(reader.read(&mut [0]), Ok(0));
        !nobody_writes || result.ended.is_empty()
    };
    std::thread::scope(|scope| {
        let rounds = [(); 4].map(|()| scope.spawn(|| (0..4).filter(|_| missed()).count()));
        let missed = rounds.map(|round| round.join().expect("no panic"));
        assert_eq!(missed, [0; 4]);
    });
}
