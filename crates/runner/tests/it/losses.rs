//! Whoever is lost, the result is not; and nothing runs that nobody asked for.

use crate::support::{Look, Spawner, alive_of, eventually, kill, wait_gone};
use std::time::{Duration, Instant};
use willcall_runner::wire::{Phase, Status, ToRunner};

#[test]
fn a_runner_that_loses_its_executor_dials_again_and_delivers() {
    let spawner = Spawner::start();
    let mut run = spawner.arm(spawner.launch(&["sh", "-c", "echo a; sleep .7; echo b"]));
    run.go();
    let listener = run.listen();
    let hello = run.accept_after_loss(&listener);
    assert_eq!((hello.pid, hello.phase), (run.pid, Phase::Running));
    assert_eq!(run.result().stdout(), "a\nb\n");
}

#[test]
fn a_result_that_was_not_collected_is_sent_again() {
    let spawner = Spawner::start();
    let mut run = spawner.arm(spawner.launch(&["echo", "hi"]));
    run.go();
    let listener = run.listen();
    // The executor has seen the result, and dies before it is in the ledger.
    run.hear();
    let hello = run.accept_after_loss(&listener);
    assert_eq!(hello.phase, Phase::Finished);
    assert_eq!(run.result().stdout(), "hi\n");
}

#[test]
fn with_nobody_there_the_result_is_in_the_spool() {
    let spawner = Spawner::start();
    let mut run = spawner.arm(spawner.launch(&["sh", "-c", "echo hi; sleep .1; exit 4"]));
    run.go();
    let begun = Instant::now();
    run.disconnect();
    wait_gone(run.pid);
    assert!(
        begun.elapsed() < Duration::from_millis(1900),
        "{:?}",
        begun.elapsed()
    );
    let result = run.spooled();
    assert_eq!(
        (result.stdout().as_str(), result.status()),
        ("hi\n", Status::Exited(4))
    );
}

#[test]
fn an_executor_that_stands_still_stops_nothing() {
    let spawner = Spawner::start();
    let mut launch = spawner.launch(&["sh", "-c", "yes | head -c 3000000; seq 100000 >&2"]);
    launch.limits = willcall_outputs::limits::Limits::new(262_144, 100_000).expect("limits");
    let mut run = spawner.arm(launch);
    run.tell(ToRunner::Go);
    // Connected and deaf: a megabyte of windows does not fit its socket.
    wait_gone(run.pid);
    let result = run.spooled();
    let sizes: Vec<u64> = result
        .streams
        .iter()
        .map(|s| s.captured.total_size)
        .collect();
    assert_eq!(sizes, [3_000_000, 588_895]);
}

#[test]
fn a_spool_that_cannot_be_written_keeps_the_runner_there() {
    let spawner = Spawner::start();
    let mut run = spawner.arm(spawner.launch(&["sh", "-c", "sleep .5; echo hi"]));
    let pid = run.pid;
    run.go();
    // The runner's files may not grow beyond the one byte that the spool has.
    limit_files(pid, 1);
    run.disconnect();
    eventually("the spool was tried", || {
        (!alive_of(run.launch.run).is_empty()).then_some(())
    });
    eventually("the run is over", || {
        alive_of(run.launch.run).is_empty().then_some(())
    });
    let begun = Instant::now();
    eventually("a while", || {
        (begun.elapsed() > Duration::from_millis(1500)).then_some(())
    });
    assert_eq!(std::fs::read(&run.spool).expect("the spool"), b"G");
    let listener = run.listen();
    assert_eq!(run.accept(&listener).phase, Phase::Finished);
    assert_eq!(run.result().stdout(), "hi\n");
}

fn limit_files(pid: i32, bytes: u64) {
    let args = [format!("--pid={pid}"), format!("--fsize={bytes}")];
    assert!(
        std::process::Command::new("prlimit")
            .args(args)
            .status()
            .expect("it runs")
            .success()
    );
}

#[test]
fn without_go_nothing_is_executed() {
    let spawner = Spawner::start();
    let marker = spawner.dir.path().join("marker");
    let mut run = spawner.arm(spawner.launch(&["touch", marker.to_str().expect("a path")]));
    run.disconnect();
    wait_gone(run.pid);
    assert!(!marker.exists());
    assert_eq!(std::fs::read(&run.spool).expect("the spool"), b"");
}

#[test]
fn a_go_right_before_the_loss_counts() {
    let spawner = Spawner::start();
    let mut run = spawner.arm(spawner.launch(&["echo", "hi"]));
    run.tell(ToRunner::Go);
    run.disconnect();
    wait_gone(run.pid);
    assert_eq!(run.spooled().stdout(), "hi\n");
}

#[test]
fn two_gos_execute_once() {
    let spawner = Spawner::start();
    let file = spawner.dir.path().join("file");
    let script = format!("echo x >> {}; sleep .1", file.display());
    let mut run = spawner.arm(spawner.launch(&["sh", "-c", &script]));
    run.tell(ToRunner::Go);
    run.tell(ToRunner::Go);
    run.result();
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), "x\n");
}

#[test]
fn a_killed_spawner_takes_no_run_with_it() {
    let mut spawner = Spawner::start();
    let mut run = spawner.arm(spawner.launch(&["sh", "-c", "echo a; sleep .5; echo b"]));
    run.go();
    kill(spawner.process.id().try_into().expect("a pid"));
    spawner.process.wait().expect("our child");
    assert_eq!(run.result().stdout(), "a\nb\n");
}

#[test]
fn the_spools_lock_is_the_runners_alone() {
    let spawner = Spawner::start();
    let mut run = spawner.arm(spawner.launch(&["sleep", "600"]));
    assert!(run.is_locked());
    let command = run.go();
    assert!(run.is_locked());
    // The command outlives its runner, and nobody answers for the run any more.
    kill(run.pid);
    wait_gone(run.pid);
    eventually("the lock is free", || (!run.is_locked()).then_some(()));
    assert_eq!(alive_of(run.launch.run), [command]);
    kill(command);
    assert_eq!(std::fs::read(&run.spool).expect("the spool"), b"G");
}
