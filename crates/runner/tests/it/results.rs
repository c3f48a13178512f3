//! What commands write and how they end arrives as it was.

use crate::support::{Look, Spawner};
use std::fs;
use willcall_outputs::capture::{Kept, Policy};
use willcall_outputs::limits::Limits;
use willcall_outputs::record::Stream;
use willcall_runner::wire::{FromRunner, RunResult, Status, ToRunner};

#[track_caller]
fn check(script: &str, stdout: &str, stderr: &str, status: Status) -> RunResult {
    let result = Spawner::start().sh(script);
    assert_eq!(result.stdout(), stdout, "{result:?}");
    assert_eq!(result.stderr(), stderr, "{result:?}");
    assert_eq!((result.status(), result.killed()), (status, None));
    result
}

#[test]
fn a_small_output_passes_through_and_leaves_no_file() {
    let spawner = Spawner::start();
    let mut run = spawner.arm(spawner.launch(&["echo", "hi"]));
    run.go();
    let result = run.result();
    assert_eq!(
        (result.stdout().as_str(), result.stderr().as_str()),
        ("hi\n", "")
    );
    assert_eq!(result.stream(Stream::Stdout).captured.kept, Kept::NotNeeded);
    assert!(!run.file(Stream::Stdout).exists());
    assert!(result.ended.is_empty() && result.detached.is_empty());
}

#[test]
fn exit_codes_and_signals_are_the_kernels() {
    check("exit 3", "", "", Status::Exited(3));
    check("kill -9 $$", "", "", Status::Signaled(9));
    check("kill -34 $$", "", "", Status::Signaled(34));
}

#[test]
fn the_streams_are_apart() {
    check(
        "echo out; echo err >&2",
        "out\n",
        "err\n",
        Status::Exited(0),
    );
}

#[test]
fn an_error_right_before_the_exit_is_whole() {
    let result = Spawner::start().sh("seq 9000 >&2; exit 1");
    assert_eq!(result.stream(Stream::Stderr).captured.total_size, 43_893);
    assert_eq!(result.status(), Status::Exited(1));
}

#[test]
fn what_does_not_fit_is_in_a_file_to_the_byte() {
    let spawner = Spawner::start();
    let mut launch = spawner.launch(&["seq", "5000"]);
    launch.limits = Limits::new(2000, 100).expect("limits");
    let mut run = spawner.arm(launch);
    run.tell(ToRunner::Go);
    let result = run.result();
    let expected: Vec<u8> = (1..=5000)
        .flat_map(|n| format!("{n}\n").into_bytes())
        .collect();
    assert_eq!(
        fs::read(run.file(Stream::Stdout)).expect("the file"),
        expected
    );
    let captured = &result.stream(Stream::Stdout).captured;
    assert_eq!((captured.total_size, captured.newlines), (23_893, 5000));
    assert!(captured.head.len() >= 1000 && expected.starts_with(&captured.head));
    assert!(captured.tail.len() >= 1000 && expected.ends_with(&captured.tail));
    let Kept::File {
        stored,
        digest,
        loss,
    } = &captured.kept
    else {
        panic!("{captured:?}")
    };
    assert_eq!((*stored, *loss), (23_893, None));
    assert!(digest.as_ref().is_some_and(|d| d.starts_with("blake3:")));
    assert!(!run.file(Stream::Stderr).exists());
}

#[test]
fn a_line_of_70000_bytes_and_more_behind_it() {
    let script = "head -c 70000 /dev/zero | tr '\\0' x; echo; echo more";
    let result = Spawner::start().sh(script);
    assert_eq!(result.stdout(), format!("{}\nmore\n", "x".repeat(70_000)));
}

#[test]
fn a_flood_on_one_stream_leaves_the_other_alone() {
    let result = Spawner::start().sh("yes | head -c 10000000; echo err >&2");
    assert_eq!(
        result.stream(Stream::Stdout).captured.total_size,
        10_000_000
    );
    assert_eq!(result.stderr(), "err\n");
}

#[test]
fn without_a_directory_nothing_is_kept_and_nothing_stops() {
    let spawner = Spawner::start();
    let mut launch = spawner.launch(&["seq", "100000"]);
    launch.has_directory = false;
    let result = spawner.run(launch);
    let captured = &result.stream(Stream::Stdout).captured;
    assert_eq!((captured.total_size, captured.newlines), (588_895, 100_000));
    assert_eq!(
        format!("{:?}", captured.kept),
        "Nothing { loss: NoDirectory }"
    );
    assert_eq!(result.status(), Status::Exited(0));
}

#[test]
fn cpu_time_is_of_everything_below() {
    let spin = "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'";
    let result = Spawner::start().sh(spin);
    assert!(result.cpu_ms >= 20, "{} ms", result.cpu_ms);
    assert!(result.max_rss_kib > 0);
    assert!(result.duration_ms >= result.cpu_ms / 2);
}

#[test]
fn memory_does_not_grow_with_the_output() {
    let spawner = Spawner::start();
    let mut launch = spawner.launch(&["head", "-c", "500000000", "/dev/zero"]);
    launch.policy = Policy::Keep { max_kept: 8 << 20 };
    let mut run = spawner.arm(launch);
    run.go();
    let FromRunner::Finished(result) = run.hear() else {
        panic!("no result")
    };
    assert_eq!(
        result.stream(Stream::Stdout).captured.total_size,
        500_000_000
    );
    assert_eq!(
        run.file(Stream::Stdout).metadata().expect("the file").len(),
        8 << 20
    );
    let status = fs::read_to_string(format!("/proc/{}/status", run.pid)).expect("the runner");
    let peak = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .expect("a peak");
    let peak: u64 = peak
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .expect("a number");
    // Without optimisation and with all its symbols; a release build stays below 4 MiB.
    assert!(peak < 8 * 1024, "{peak} KiB");
    run.tell(ToRunner::Collected);
}
