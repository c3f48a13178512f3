//! What is refused, each by its name, and who is cut off.

use crate::gateway::{command, shell};
use crate::host::Host;
use willcall_protocol::message::Dispatch;
use willcall_protocol::outcome::{Cause, RunState};

#[track_caller]
fn check(change: impl FnOnce(&mut Dispatch), cause: Cause, words: &str) {
    let host = Host::start();
    let mut gateway = host.connect();
    let mut asked = command(&["touch", host.path("effect").to_str().unwrap()]);
    change(&mut asked);
    gateway.dispatch(asked.clone());
    let refusal = gateway.refused(asked.run);
    assert_eq!(refusal.cause, cause);
    assert!(refusal.message.contains(words), "{}", refusal.message);
    assert!(
        refusal.message.contains("nothing ran"),
        "{}",
        refusal.message
    );
    assert!(!host.path("effect").exists());
}

#[test]
fn limits_of_zero_and_above_the_ceiling_are_refused() {
    check(
        |d| d.limits.max_bytes = Some(0),
        Cause::InvalidLimit,
        "max_bytes is 0",
    );
    check(
        |d| d.limits.max_lines = Some(0),
        Cause::InvalidLimit,
        "max_lines is 0",
    );
    check(
        |d| d.limits.max_bytes = Some(262_145),
        Cause::InvalidLimit,
        "262144",
    );
    check(
        |d| d.timeout_ms = Some(0),
        Cause::InvalidLimit,
        "timeout_ms is 0",
    );
}

#[test]
fn commands_that_cannot_be_right_are_refused() {
    check(|d| d.argv.clear(), Cause::InvalidCommand, "argv is empty");
    check(
        |d| d.cwd = Some("here".into()),
        Cause::InvalidCommand,
        "absolute",
    );
}

#[test]
fn a_missing_program_and_directory_are_named() {
    let host = Host::start();
    let mut gateway = host.connect();
    let report = gateway.run(command(&["nosuch-program", "x"]));
    assert_eq!(
        (report.state, report.cause),
        (RunState::Refused, Some(Cause::SpawnFailed))
    );
    let expected = "cannot execute \"nosuch-program\": no such file or directory; nothing ran";
    assert_eq!(report.message.as_deref(), Some(expected));
    assert_eq!(report.spawn_error.unwrap().stage, "exec");
    assert_eq!((report.stdout, report.stderr), (None, None));
    let mut asked = command(&["pwd"]);
    asked.cwd = Some("/no/such/place".into());
    let failure = gateway.run(asked).spawn_error.unwrap();
    assert_eq!(
        (failure.stage.as_str(), failure.name.as_str()),
        ("chdir", "ENOENT")
    );
}

#[test]
fn a_command_gets_a_clean_environment_and_the_workspace() {
    let host = Host::start();
    let mut gateway = host.connect();
    let mut asked = shell("pwd; env; ls /proc/self/fd | wc -l; umask");
    asked.env.insert("MINE".into(), "$HOME \"quoted\"".into());
    let out = gateway.run(asked).stdout.unwrap().result;
    assert!(
        out.starts_with(
            host.path("workspace")
                .canonicalize()
                .unwrap()
                .to_str()
                .unwrap()
        )
    );
    assert!(
        out.contains("\nMINE=$HOME \"quoted\"\n") && out.contains("\nPAGER=cat\n"),
        "{out}"
    );
    assert!(
        !out.contains("NOTIFY_SOCKET") && !out.contains("WILLCALL_LOG"),
        "{out}"
    );
    assert!(out.ends_with("\n4\n0022\n"), "{out}");
}

#[test]
fn of_forty_runs_at_once_the_last_are_refused_as_busy() {
    let host = Host::start();
    let mut gateway = host.connect();
    let gate = host.path("gate");
    let script = format!("while ! [ -e {} ]; do sleep 0.05; done", gate.display());
    let asked: Vec<Dispatch> = (0..40).map(|_| shell(&script)).collect();
    for asked in &asked {
        gateway.dispatch(asked.clone());
    }
    for asked in &asked[..32] {
        gateway.accepted(asked.run);
    }
    for asked in &asked[32..] {
        let refusal = gateway.refused(asked.run);
        assert_eq!(refusal.cause, Cause::Busy);
        assert!(
            refusal.message.contains("32 commands"),
            "{}",
            refusal.message
        );
    }
    // A duplicate of a running one is no new run.
    gateway.dispatch(asked[0].clone());
    gateway.accepted(asked[0].run);
    std::fs::write(gate, "").unwrap();
    for _ in 0..32 {
        let (seq, report) = gateway.any_finished();
        assert_eq!(report.exit_code, Some(0));
        gateway.ack(seq);
    }
    // A refused one may come again.
    assert_eq!(gateway.run(asked[32].clone()).exit_code, Some(0));
}

#[test]
fn nonsense_ends_the_session_and_blames_the_peer() {
    for nonsense in [b"\x01\x00{".as_slice(), b"\x07\x00{}", b"", b"\x00\x00{}"] {
        let host = Host::start();
        let mut gateway = host.connect();
        gateway.send_raw(nonsense);
        assert!(gateway.is_closed());
        assert!(
            host.executor_log().contains("the link"),
            "{}",
            host.executor_log()
        );
        assert_eq!(host.connect().run(command(&["true"])).exit_code, Some(0));
    }
}

/// What waits for such a gateway is bounded in the executor's memory.
#[test]
fn a_gateway_that_asks_and_never_listens_is_cut_off() {
    let host = Host::start();
    let mut gateway = host.connect();
    let ping = b"\x01\x00{\"type\":\"ping\",\"nonce\":1}";
    assert!(gateway.flood_ends_it(ping, 1_000_000));
    assert!(host.executor_log().contains("too many messages wait"));
    host.connect().run(command(&["true"]));
}

#[test]
fn a_newer_link_takes_over_and_the_older_is_closed() {
    let host = Host::start();
    let mut older = host.connect();
    let asked = command(&["sleep", "0.2"]);
    older.dispatch(asked.clone());
    older.accepted(asked.run);
    let mut newer = host.connect();
    assert_eq!(newer.hello.running, [asked.run]);
    assert!(older.is_closed());
    assert_eq!(newer.finished(asked.run).1.exit_code, Some(0));
}

#[test]
fn the_timeout_keeps_the_output() {
    let host = Host::start();
    let mut gateway = host.connect();
    let mut asked = shell("echo CRITICAL; sleep 60");
    asked.timeout_ms = Some(300);
    let report = gateway.run(asked);
    assert_eq!(
        (report.state, report.cause),
        (RunState::TimedOut, Some(Cause::Timeout))
    );
    assert_eq!(report.stdout.unwrap().result, "CRITICAL\n");
}

#[test]
fn a_ledger_that_cannot_be_opened_refuses_by_name_and_recovers() {
    let mut host = Host::start();
    drop(host.connect());
    host.stop_executor();
    let ledger = host.path("state/ledger.db");
    let kept = std::fs::read(&ledger).unwrap();
    std::fs::write(&ledger, "this is no ledger ".repeat(1000)).unwrap();
    host.start_executor();
    let mut gateway = host.connect();
    let asked = command(&["touch", host.path("effect").to_str().unwrap()]);
    gateway.dispatch(asked.clone());
    let refusal = gateway.refused(asked.run);
    assert_eq!(refusal.cause, Cause::LedgerUnavailable);
    assert!(
        refusal.message.contains("nothing ran"),
        "{}",
        refusal.message
    );
    assert!(refusal.message.contains("ledger.db"), "{}", refusal.message);
    std::fs::write(&ledger, kept).unwrap();
    assert!(gateway.is_closed());
    let mut gateway = host.connect();
    assert_eq!(gateway.run(asked).exit_code, Some(0));
}
