//! Whoever is lost, the result is not; and nothing runs that nobody asked for.

use crate::support::{Look, Run, Spawner, alive_of, eventually, kill, wait_gone};
use std::time::{Duration, Instant};
use willcall_runner::wire::{FromRunner, Phase, Status, ToRunner};

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
    run.go();
    assert!(run.is_locked());
    kill(run.pid);
    wait_gone(run.pid);
    eventually("the lock is free", || (!run.is_locked()).then_some(()));
    assert_eq!(std::fs::read(&run.spool).expect("the spool"), b"G");
}

/// The family of a run whose runner was killed: nobody of it is there two seconds later.
#[track_caller]
fn swept(script: &str, kill_runner: impl FnOnce(&Run)) {
    let spawner = Spawner::start();
    let mut run = spawner.arm(spawner.launch(&["bash", "-c", script]));
    run.tell(ToRunner::Go);
    kill_runner(&run);
    wait_gone(run.pid);
    let begun = Instant::now();
    eventually("the family is gone", || {
        alive_of(run.launch.run).is_empty().then_some(())
    });
    assert!(begun.elapsed() < Duration::from_secs(2), "{script}");
    assert_eq!(spawner.sh("echo hi").stdout(), "hi\n");
}

#[test]
fn a_killed_runner_takes_its_run_with_it() {
    let with = |count| {
        move |run: &Run| {
            eventually("the family is there", || {
                (alive_of(run.launch.run).len() >= count).then_some(())
            });
            kill(run.pid);
        }
    };
    swept("sleep 100 & setsid sleep 100 & wait", with(3));
    swept(
        "trap '' TERM; (setsid sh -c 'sleep 100 & wait' &); f() { sleep .01; f & }; f; sleep 100",
        with(4),
    );
    swept("sleep 100 & kill -9 $PPID; sleep 100", |_| {});
}

#[test]
fn daemons_of_other_runs_stay_when_a_runner_is_killed() {
    let spawner = Spawner::start();
    // The second daemon is nobody's child that a runner has seen: it comes to the spawner from the first.
    let script = "setsid sh -c '(sleep .6; exec sleep 100) & sleep .3' >/dev/null 2>&1 & sleep .1";
    let launch = spawner.launch(&["sh", "-c", script]);
    let daemons = launch.run;
    assert_eq!(spawner.run(launch).ended, []);
    let mut run = spawner.arm(spawner.launch(&["sleep", "100"]));
    run.go();
    eventually("one daemon is left", || {
        (alive_of(daemons).len() == 1).then_some(())
    });
    kill(run.pid);
    eventually("the command is gone", || {
        alive_of(run.launch.run).is_empty().then_some(())
    });
    let mut again = spawner.arm(spawner.launch(&["sleep", "100"]));
    again.go();
    kill(again.pid);
    eventually("the next command is gone", || {
        alive_of(again.launch.run).is_empty().then_some(())
    });
    let left = alive_of(daemons);
    assert_eq!(left.len(), 1);
    kill(left[0]);
    wait_gone(left[0]);
}

/// What is left on purpose and what has lost its runner come to the spawner in the same moment.
#[test]
fn who_is_left_and_who_is_lost_are_told_apart() {
    let spawner = Spawner::start();
    for _ in 0..8 {
        let mut lost = spawner.arm(spawner.launch(&["sh", "-c", "sleep 100 & wait"]));
        let mut left = spawner.arm(spawner.launch(&[
            "sh",
            "-c",
            "setsid sleep 100 >/dev/null 2>&1 & sleep .05",
        ]));
        lost.go();
        left.tell(ToRunner::Go);
        let result = loop {
            if let FromRunner::Finished(result) = left.hear() {
                break result;
            }
        };
        left.tell(ToRunner::Collected);
        kill(lost.pid);
        wait_gone(left.pid);
        eventually("the lost run is gone", || {
            alive_of(lost.launch.run).is_empty().then_some(())
        });
        let daemons = alive_of(left.launch.run);
        let listed: Vec<i32> = result.detached.iter().map(|d| d.pid).collect();
        assert_eq!((daemons.len(), &daemons), (1, &listed));
        kill(daemons[0]);
    }
}
