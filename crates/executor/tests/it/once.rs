//! At most once in: duplicates, conflicts, late and canceled dispatches.

use crate::gateway::{command, shell};
use crate::host::{Host, wait_for};
use std::time::{Duration, Instant};
use willcall_protocol::outcome::{Cause, RunState};

#[test]
fn a_command_runs_and_its_result_comes_back() {
    let host = Host::start();
    let mut gateway = host.connect();
    assert_eq!(
        (gateway.hello.incarnation, gateway.hello.running.len()),
        (1, 0)
    );
    let asked = shell("echo hi; echo oops >&2; exit 3");
    let run = asked.run;
    gateway.dispatch(asked);
    assert_eq!(gateway.accepted(run), 60_000);
    let (seq, report) = gateway.finished(run);
    assert_eq!(
        (seq, report.state, report.exit_code),
        (1, RunState::Exited, Some(3))
    );
    let (out, err) = (report.stdout.unwrap(), report.stderr.unwrap());
    assert_eq!(
        (out.result.as_str(), err.result.as_str()),
        ("hi\n", "oops\n")
    );
    assert_eq!(
        (out.file_path, out.saved, out.truncated),
        (None, false, false)
    );
    gateway.ack(seq);
    wait_for("the end of the spool", || !host.spool(run).exists());
    // An acknowledged result is not sent again.
    let mut gateway = host.resume(1);
    let next = command(&["true"]);
    assert_eq!(gateway.run(next).exit_code, Some(0));
    assert!(gateway.events.is_empty(), "{:?}", gateway.events);
}

#[test]
fn a_hundred_duplicates_have_one_side_effect() {
    let host = Host::start();
    let mut gateway = host.connect();
    let effects = host.path("effects");
    let asked = shell(&format!("echo once >> {}; sleep 0.2", effects.display()));
    for _ in 0..100 {
        gateway.dispatch(asked.clone());
    }
    for _ in 0..100 {
        gateway.accepted(asked.run);
    }
    let (seq, first) = gateway.finished(asked.run);
    gateway.ack(seq);
    // After the end a duplicate gets the first one's answer, over a new connection too.
    let mut gateway = host.resume(seq);
    for _ in 0..100 {
        gateway.dispatch(asked.clone());
    }
    for _ in 0..100 {
        assert_eq!(gateway.finished(asked.run), (seq, first.clone()));
    }
    assert_eq!(std::fs::read_to_string(effects).unwrap(), "once\n");
}

#[test]
fn another_body_under_the_same_id_is_a_conflict() {
    let host = Host::start();
    let mut gateway = host.connect();
    let first = command(&["sleep", "0.3"]);
    let mut other = command(&["touch", host.path("effect").to_str().unwrap()]);
    other.run = first.run;
    gateway.dispatch(first.clone());
    gateway.accepted(first.run);
    gateway.dispatch(other.clone());
    assert_eq!(gateway.refused(first.run).cause, Cause::Conflict);
    assert_eq!(gateway.finished(first.run).1.exit_code, Some(0));
    gateway.dispatch(other);
    assert_eq!(gateway.refused(first.run).cause, Cause::Conflict);
    assert!(!host.path("effect").exists());
}

#[test]
fn a_dispatch_that_comes_too_late_starts_nothing() {
    let host = Host::start();
    let mut gateway = host.connect();
    let mut late = command(&["touch", host.path("effect").to_str().unwrap()]);
    late.not_after_ms = Some(1);
    gateway.dispatch(late.clone());
    assert_eq!(gateway.refused(late.run).cause, Cause::Expired);
    assert_eq!(gateway.run(command(&["true"])).exit_code, Some(0));
    assert!(!host.path("effect").exists());
    wait_for("the end of the spool", || !host.spool(late.run).exists());
}

#[test]
fn a_cancel_that_overtakes_its_dispatch_stands_across_a_restart() {
    let mut host = Host::start();
    let mut gateway = host.connect();
    let asked = command(&["touch", host.path("effect").to_str().unwrap()]);
    gateway.cancel(asked.run);
    gateway.dispatch(asked.clone());
    assert_eq!(gateway.refused(asked.run).cause, Cause::CanceledBefore);
    host.kill_executor();
    host.start_executor();
    let mut gateway = host.connect();
    gateway.dispatch(asked.clone());
    assert_eq!(gateway.refused(asked.run).cause, Cause::CanceledBefore);
    assert!(!host.path("effect").exists());
}

#[test]
fn a_cancel_right_behind_its_dispatch_ends_it() {
    let host = Host::start();
    let mut gateway = host.connect();
    let asked = command(&["sleep", "1000"]);
    let began = Instant::now();
    gateway.dispatch(asked.clone());
    gateway.cancel(asked.run);
    let (_, report) = gateway.finished(asked.run);
    assert_eq!(
        (report.state, report.cause),
        (RunState::Canceled, Some(Cause::Cancel))
    );
    assert!(began.elapsed() < Duration::from_secs(8));
}

#[test]
fn a_cancel_of_a_running_command_keeps_its_output() {
    let host = Host::start();
    let mut gateway = host.connect();
    let ready = host.path("ready");
    let asked = shell(&format!(
        "echo before; touch {}; sleep 1000",
        ready.display()
    ));
    gateway.dispatch(asked.clone());
    wait_for("the command", || ready.exists());
    gateway.cancel(asked.run);
    let (_, report) = gateway.finished(asked.run);
    assert_eq!(
        (report.state, report.cause),
        (RunState::Canceled, Some(Cause::Cancel))
    );
    assert_eq!(report.stdout.unwrap().result, "before\n");
    assert!(report.message.unwrap().contains("on request"));
}

#[test]
fn results_are_sent_again_until_they_are_acknowledged() {
    let host = Host::start();
    let mut gateway = host.connect();
    let echo = |n: u64| command(&["echo", &n.to_string()]);
    let first: Vec<_> = (1..=16).map(echo).collect();
    for (asked, seq) in first.iter().zip(1..) {
        gateway.dispatch(asked.clone());
        assert_eq!(gateway.finished(asked.run).0, seq);
    }
    // The window is full: what ends now waits in the ledger, and comes in its order.
    for n in 17..=40 {
        let asked = echo(n);
        gateway.dispatch(asked.clone());
        gateway.accepted(asked.run);
    }
    let mut gateway = host.connect();
    let mut texts = std::collections::BTreeSet::new();
    for expected in 1..=40 {
        let (seq, report) = gateway.any_finished();
        assert_eq!(seq, expected);
        texts.insert(report.stdout.unwrap().result);
        gateway.ack(seq);
    }
    assert_eq!(texts.len(), 40);
}

/// Of a run that is over, and of one that goes on: neither is judged by limits that came after it.
#[test]
fn a_limit_that_was_lowered_changes_no_answer_to_what_ran() {
    let mut host = Host::start();
    let mut gateway = host.connect();
    let (mut over, mut going) = (command(&["true"]), command(&["sleep", "600"]));
    for asked in [&mut over, &mut going] {
        asked.limits.max_bytes = Some(200_000);
    }
    gateway.dispatch(over.clone());
    let (seq, report) = gateway.finished(over.run);
    gateway.dispatch(going.clone());
    gateway.accepted(going.run);
    host.stop_executor();
    let lowered = "[outputs]\ndefault_max_bytes = 1000\nceiling_max_bytes = 1000\n";
    std::fs::write(host.path("config.toml"), lowered).unwrap();
    host.start_executor();
    let mut gateway = host.resume(seq);
    gateway.dispatch(going.clone());
    assert_eq!(gateway.accepted(going.run), 60_000);
    gateway.cancel(going.run);
    gateway.finished(going.run);
    gateway.dispatch(over.clone());
    assert_eq!(gateway.finished(over.run), (seq, report));
    // What is new is judged by today's.
    let mut new = command(&["touch", host.path("effect").to_str().unwrap()]);
    new.limits.max_bytes = Some(200_000);
    gateway.dispatch(new.clone());
    assert_eq!(gateway.refused(new.run).cause, Cause::InvalidLimit);
    new.run = over.run;
    gateway.dispatch(new);
    assert_eq!(gateway.refused(over.run).cause, Cause::Conflict);
    assert!(!host.path("effect").exists());
}
