//! The end of a run that does not end by itself: partial output kept, nothing left alive.

use crate::support::{Look, Run, Spawner, alive_of, eventually};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::time::{Duration, Instant};
use willcall_runner::wire::{KillCause, RunResult, Status, ToRunner};

#[track_caller]
fn check(shell: &str, script: &str) -> RunResult {
    let spawner = Spawner::start();
    let mut launch = spawner.launch(&[shell, "-c", &format!("echo CRITICAL; {script}")]);
    launch.timeout_ms = Some(400);
    let run = launch.run;
    let begun = Instant::now();
    let result = spawner.run(launch);
    let took = begun.elapsed();
    assert_eq!(result.killed(), Some(KillCause::Timeout));
    assert!(
        result.stdout().starts_with("CRITICAL\n"),
        "{shell}: {script}"
    );
    assert!(
        took < Duration::from_secs(4),
        "{shell}: {script}: took {took:?}"
    );
    assert_eq!(alive_of(run), [0_i32; 0], "{shell}: {script}");
    assert_eq!(result.detached, []);
    result
}

fn check_shells(script: &str) {
    check("bash", script);
    check("dash", script);
}

#[test]
fn a_shell_that_waits_for_its_child() {
    check_shells("sleep 60; true");
}

#[test]
fn a_subshell() {
    check_shells("(sleep 60)");
}

#[test]
fn a_pipeline() {
    check_shells("sleep 60 | cat");
}

#[test]
fn a_background_child_that_is_waited_for() {
    check_shells("sleep 60 & wait");
}

#[test]
fn deaf_to_term() {
    check_shells("trap '' TERM; sleep 1e6");
    let result = check("bash", "trap '' TERM; while :; do sleep 1e6; done");
    assert_eq!(result.status(), Status::Signaled(9));
}

#[test]
fn those_who_left_the_session_do_not_survive() {
    check_shells("setsid sh -c 'trap \"\" TERM; while :; do sleep 1e6; done' & sleep 60");
}

#[test]
fn a_child_that_forks_without_end_does_not_survive() {
    check("bash", "trap '' TERM; f() { f & }; f; sleep 60");
}

#[test]
fn spinners_do_not_survive() {
    check_shells("for i in 1 2 3; do (while :; do :; done) & done; sleep 999");
}

#[track_caller]
fn canceled_by(cancel: impl FnOnce(&mut Run)) {
    let spawner = Spawner::start();
    let mut run = spawner.arm(spawner.launch(&["sh", "-c", "echo begun; exec sleep 600"]));
    run.go();
    eventually("the command runs", || {
        (!alive_of(run.launch.run).is_empty()).then_some(())
    });
    cancel(&mut run);
    let result = run.result();
    assert_eq!(result.killed(), Some(KillCause::Cancel));
    assert_eq!(result.status(), Status::Signaled(15));
    assert_eq!(alive_of(run.launch.run), [0_i32; 0]);
}

#[test]
fn a_cancel_ends_the_run() {
    canceled_by(|run| run.tell(ToRunner::Cancel));
}

#[test]
fn term_to_the_runner_is_a_cancel() {
    canceled_by(|run| kill(Pid::from_raw(run.pid), Signal::SIGTERM).expect("the runner"));
}
