//! The cap on a job's output: the file ends at the byte, and nothing of the job's tree lives on.

use crate::support::{Look, Spawner, alive_of};
use std::time::{Duration, Instant};
use willcall_outputs::capture::{Kept, Loss, Policy};
use willcall_outputs::limits::BACKGROUND_CAP;
use willcall_outputs::record::Stream;
use willcall_runner::wire::{KillCause, RunResult, Status, ToRunner};

const CAP: u64 = 1_000_003;

/// Runs a job by `sh`; returns its result and the length of its file.
fn job(script: &str, cap: u64) -> (RunResult, Option<u64>) {
    let spawner = Spawner::start();
    let mut launch = spawner.launch(&["sh", "-c", script]);
    launch.policy = Policy::Background { cap };
    // The cap does not wait for it.
    launch.grace_ms = 60_000;
    let id = launch.run;
    let mut run = spawner.arm(launch);
    run.tell(ToRunner::Go);
    let result = run.result();
    assert_eq!(alive_of(id), [0_i32; 0], "{script}");
    let file = run.file(Stream::Stdout).metadata().ok();
    (result, file.map(|file| file.len()))
}

#[track_caller]
fn check_killed(script: &str) {
    let begun = Instant::now();
    let (result, len) = job(script, CAP);
    let took = begun.elapsed();
    assert_eq!(result.killed(), Some(KillCause::OutputCap), "{script}");
    assert_eq!(len, Some(CAP), "{script}");
    let captured = &result.stream(Stream::Stdout).captured;
    assert!(captured.total_size > CAP, "{script}");
    let Kept::File { stored, loss, .. } = captured.kept else {
        panic!("{captured:?}")
    };
    assert_eq!((stored, loss), (CAP, Some(Loss::OutputCap)), "{script}");
    assert!(took < Duration::from_secs(10), "{script}: {took:?}");
}

#[test]
fn a_flood_is_ended_at_the_byte() {
    check_killed("exec yes");
}

#[test]
fn a_flood_that_is_deaf_to_term() {
    check_killed("trap '' TERM; yes; sleep 1e6");
}

#[test]
fn a_flood_of_another_process_session() {
    check_killed("setsid yes & wait");
}

#[test]
fn many_that_flood_together() {
    check_killed("for i in 1 2 3 4; do yes & done; wait");
}

#[test]
fn the_cap_of_the_product_is_exact() {
    assert_eq!(BACKGROUND_CAP, 52_428_800);
    let (result, len) = job("exec yes", BACKGROUND_CAP);
    assert_eq!(
        (result.killed(), len),
        (Some(KillCause::OutputCap), Some(52_428_800))
    );
}

#[test]
fn as_much_as_the_cap_is_no_more_than_the_cap() {
    let (result, len) = job("head -c 1000003 /dev/zero", CAP);
    assert_eq!((result.status(), len), (Status::Exited(0), Some(CAP)));
    assert_eq!(result.killed(), None);
}

#[test]
fn one_stream_over_the_cap_is_enough() {
    let (result, stdout) = job("echo out; yes >&2", CAP);
    assert_eq!(
        (result.killed(), stdout),
        (Some(KillCause::OutputCap), Some(4))
    );
}

#[test]
fn a_discarding_host_makes_no_file() {
    for policy in [Policy::Discard, Policy::Reject] {
        let spawner = Spawner::start();
        let mut launch = spawner.launch(&["sh", "-c", "head -c 3000000 /dev/zero; exit 5"]);
        launch.policy = policy;
        let mut run = spawner.arm(launch);
        run.tell(ToRunner::Go);
        let result = run.result();
        assert_eq!(result.status(), Status::Exited(5));
        let captured = &result.stream(Stream::Stdout).captured;
        assert_eq!(captured.total_size, 3_000_000);
        assert!(matches!(captured.kept, Kept::Nothing { .. }), "{policy:?}");
        assert!(!run.file(Stream::Stdout).exists(), "{policy:?}");
    }
}
