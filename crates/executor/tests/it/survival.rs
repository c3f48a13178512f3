//! Deaths: of the executor, of runners, of the spawner.

use crate::gateway::{command, shell};
use crate::host::{Host, executor_command, numbers, signal, wait_for};
use std::time::Duration;
use willcall_protocol::outcome::{Cause, RunState};

#[test]
fn an_executor_killed_in_the_middle_of_a_run_gets_its_whole_result_once() {
    let mut host = Host::start();
    let mut gateway = host.connect();
    let (ready, effects) = (host.path("ready"), host.path("effects"));
    let asked = shell(&format!(
        "echo once >> {}; seq 3000; touch {}; sleep 1; seq 3001 5000; echo done >&2; exit 5",
        effects.display(),
        ready.display()
    ));
    gateway.dispatch(asked.clone());
    wait_for("the command", || ready.exists());
    host.kill_executor();
    host.start_executor();
    let mut gateway = host.connect();
    assert_eq!(
        (gateway.hello.incarnation, gateway.hello.running.clone()),
        (2, vec![asked.run])
    );
    gateway.dispatch(asked.clone());
    gateway.accepted(asked.run);
    let (seq, report) = gateway.finished(asked.run);
    assert_eq!(
        (seq, report.state, report.exit_code),
        (1, RunState::Exited, Some(5))
    );
    assert_eq!(report.stderr.unwrap().result, "done\n");
    let out = report.stdout.unwrap();
    assert_eq!((out.total_lines, out.complete), (5000, true));
    let whole = numbers(5000);
    assert_eq!(
        std::fs::read_to_string(out.file_path.unwrap()).unwrap(),
        whole
    );
    assert_eq!(std::fs::read_to_string(effects).unwrap(), "once\n");
    gateway.ack(seq);
    wait_for("the end of the spool", || !host.spool(asked.run).exists());
}

#[test]
fn a_result_that_came_while_the_executor_was_down_is_spooled_and_reported() {
    let mut host = Host::start();
    let mut gateway = host.connect();
    let ready = host.path("ready");
    let asked = shell(&format!("touch {}; sleep 0.3; echo late", ready.display()));
    gateway.dispatch(asked.clone());
    wait_for("the command", || ready.exists());
    let runner = host.runner_of(asked.run);
    host.kill_executor();
    wait_for("the runner's end", || {
        !std::path::Path::new(&format!("/proc/{runner}")).exists()
    });
    assert!(std::fs::metadata(host.spool(asked.run)).unwrap().len() > 1);
    host.start_executor();
    let mut gateway = host.connect();
    let (_, report) = gateway.finished(asked.run);
    assert_eq!(
        (report.state, report.exit_code),
        (RunState::Exited, Some(0))
    );
    assert_eq!(report.stdout.unwrap().result, "late\n");
    wait_for("the end of the spool", || !host.spool(asked.run).exists());
}

#[test]
fn an_executor_that_is_told_to_end_leaves_runs_alone_and_ends_soon() {
    let mut host = Host::start();
    let mut gateway = host.connect();
    let ready = host.path("ready");
    let asked = shell(&format!("touch {}; sleep 0.5; echo done", ready.display()));
    gateway.dispatch(asked.clone());
    wait_for("the command", || ready.exists());
    assert!(host.stop_executor() < Duration::from_secs(2));
    host.start_executor();
    let (_, report) = host.connect().finished(asked.run);
    assert_eq!(report.stdout.unwrap().result, "done\n");
}

#[test]
fn a_run_of_an_earlier_executor_can_be_canceled() {
    let mut host = Host::start();
    let mut gateway = host.connect();
    let ready = host.path("ready");
    let asked = shell(&format!(
        "echo before; touch {}; sleep 1000",
        ready.display()
    ));
    gateway.dispatch(asked.clone());
    wait_for("the command", || ready.exists());
    host.kill_executor();
    host.start_executor();
    let mut gateway = host.connect();
    gateway.cancel(asked.run);
    let (_, report) = gateway.finished(asked.run);
    assert_eq!(
        (report.state, report.cause),
        (RunState::Canceled, Some(Cause::Cancel))
    );
    assert_eq!(report.stdout.unwrap().result, "before\n");
}

#[test]
fn a_runner_that_is_killed_leaves_a_lost_run() {
    let host = Host::start();
    let mut gateway = host.connect();
    let ready = host.path("ready");
    let asked = shell(&format!("seq 50; touch {}; sleep 5", ready.display()));
    gateway.dispatch(asked.clone());
    wait_for("the command", || ready.exists());
    signal(host.runner_of(asked.run), "KILL");
    let (_, report) = gateway.finished(asked.run);
    assert_eq!(
        (report.state, report.cause),
        (RunState::Lost, Some(Cause::OutcomeUnknown))
    );
    let message = report.message.unwrap();
    assert!(
        message.contains("may have run") && message.contains("not started again"),
        "{message}"
    );
    assert_eq!((report.stdout, report.exit_code), (None, None));
    // Never run again.
    gateway.dispatch(asked.clone());
    assert_eq!(gateway.finished(asked.run).1.state, RunState::Lost);
}

#[test]
fn a_runner_killed_while_the_executor_is_down_leaves_a_lost_run() {
    let mut host = Host::start();
    let mut gateway = host.connect();
    let ready = host.path("ready");
    let asked = shell(&format!("touch {}; sleep 5", ready.display()));
    gateway.dispatch(asked.clone());
    wait_for("the command", || ready.exists());
    let runner = host.runner_of(asked.run);
    host.kill_executor();
    signal(runner, "KILL");
    wait_for("the runner's end", || {
        let stat = std::fs::read_to_string(format!("/proc/{runner}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    });
    host.start_executor();
    let (_, report) = host.connect().finished(asked.run);
    assert_eq!(
        (report.state, report.cause),
        (RunState::Lost, Some(Cause::OutcomeUnknown))
    );
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "it is what somebody does here who should not"
)]
fn a_run_whose_spool_is_lost_is_never_said_not_to_have_run() {
    let mut host = Host::start();
    let mut gateway = host.connect();
    let ready = [host.path("ready 0"), host.path("ready 1")];
    let script = |n: usize, then: &str| shell(&format!("touch '{}'; {then}", ready[n].display()));
    let (goes_on, dies) = (script(0, "sleep 3; echo done"), script(1, "sleep 10"));
    for (asked, ready) in [&goes_on, &dies].into_iter().zip(&ready) {
        gateway.dispatch(asked.clone());
        wait_for("the command", || ready.exists());
    }
    let runner = host.runner_of(dies.run);
    host.kill_executor();
    std::fs::remove_dir_all(host.path("state/spool")).unwrap();
    signal(runner, "KILL");
    host.start_executor();
    let mut gateway = host.connect();
    let (_, report) = gateway.finished(dies.run);
    assert_eq!(
        (report.state, report.cause),
        (RunState::Lost, Some(Cause::OutcomeUnknown))
    );
    let message = report.message.unwrap();
    assert!(message.contains("may have run"), "{message}");
    let (_, report) = gateway.finished(goes_on.run);
    assert_eq!(report.stdout.unwrap().result, "done\n");
}

/// Takes as long as a grace and the drain after it.
#[test]
fn a_runner_that_hangs_holds_neither_its_run_nor_a_place() {
    let mut host = Host::start();
    host.kill_executor();
    let mut command = executor_command(&host.path("."));
    host.start_as(command.args(["--runner-margin-ms", "200"]));
    let mut gateway = host.connect();
    let ready = host.path("ready");
    let mut asked = shell(&format!("touch {}; sleep 1", ready.display()));
    asked.timeout_ms = Some(2_000);
    gateway.dispatch(asked.clone());
    wait_for("the command", || ready.exists());
    let runner = host.runner_of(asked.run);
    signal(runner, "STOP");
    let (seq, report) = gateway.finished(asked.run);
    assert_eq!(
        (report.state, report.cause),
        (RunState::Lost, Some(Cause::OutcomeUnknown))
    );
    let message = report.message.unwrap();
    assert!(message.contains("does not answer"), "{message}");
    wait_for("a free place", || host.connect().hello.running.is_empty());
    signal(runner, "CONT");
    wait_for("the end of the runner", || {
        !std::path::Path::new(&format!("/proc/{runner}")).exists()
    });
    wait_for("a word of it", || {
        host.executor_log().contains("what it brings is dropped")
    });
    let (again, report) = host.resume(seq - 1).finished(asked.run);
    assert_eq!((again, report.state), (seq, RunState::Lost));
}

#[test]
fn rows_of_the_ledger_that_cannot_be_read_cost_no_other_run_anything() {
    let mut host = Host::start();
    let mut gateway = host.connect();
    let (spoiled, sound) = (command(&["echo", "1"]), command(&["echo", "2"]));
    for asked in [&spoiled, &sound] {
        gateway.run(asked.clone());
    }
    let going = [
        shell("echo a; exec sleep 600"),
        shell("echo b; exec sleep 600"),
    ];
    for asked in &going {
        gateway.dispatch(asked.clone());
        gateway.accepted(asked.run);
        host.runner_of(asked.run);
    }
    host.stop_executor();
    let ledger = rusqlite::Connection::open(host.path("state/ledger.db")).unwrap();
    let changed = [
        ledger.execute("UPDATE results SET report = '{' WHERE seq = 1", []),
        ledger.execute(
            "UPDATE runs SET dispatch = '' WHERE run = ?1",
            [going[0].run.0.as_bytes()],
        ),
    ];
    assert_eq!(changed, [Ok(1), Ok(1)]);
    drop(ledger);
    host.start_executor();
    let mut gateway = host.connect();
    assert_eq!(gateway.hello.running.len(), 2);
    let (seq, report) = gateway.finished(spoiled.run);
    assert_eq!(
        (seq, report.state, report.cause),
        (1, RunState::Lost, Some(Cause::OutcomeUnknown))
    );
    let unreadable = "of this host's ledger that says";
    assert!(report.message.unwrap().contains(unreadable));
    assert_eq!(gateway.finished(sound.run).1.stdout.unwrap().result, "2\n");
    for (asked, text) in going.iter().zip(["a\n", "b\n"]) {
        gateway.cancel(asked.run);
        let (_, report) = gateway.finished(asked.run);
        assert_eq!(
            (report.state, report.stdout.unwrap().result.as_str()),
            (RunState::Canceled, text)
        );
        assert_eq!(report.message.unwrap().contains(unreadable), text == "a\n");
    }
}

#[test]
fn a_spawner_that_is_gone_is_named_and_a_new_one_is_found() {
    let mut host = Host::start();
    let mut gateway = host.connect();
    assert_eq!(gateway.run(command(&["true"])).exit_code, Some(0));
    host.kill_spawner();
    let asked = command(&["touch", host.path("effect").to_str().unwrap()]);
    wait_for("the loss to be noticed", || {
        host.executor_log().contains("closed its connection")
    });
    gateway.dispatch(asked.clone());
    let refusal = gateway.refused(asked.run);
    assert_eq!(refusal.cause, Cause::SpawnerUnavailable);
    assert!(
        refusal.message.contains("nothing ran"),
        "{}",
        refusal.message
    );
    host.start_spawner();
    let mut report = None;
    wait_for("the new spawner", || {
        gateway.dispatch(asked.clone());
        let answer = gateway.wait("an answer", |event| match event {
            willcall_protocol::session::GatewayEvent::Refused(_) => Some(false),
            willcall_protocol::session::GatewayEvent::Accepted { .. } => Some(true),
            _ => None,
        });
        report = answer.then(|| gateway.finished(asked.run).1);
        answer
    });
    assert_eq!(report.unwrap().exit_code, Some(0));
    assert!(host.path("effect").exists());
}

#[test]
fn executors_killed_again_and_again_under_load_run_everything_at_most_once() {
    let mut host = Host::start();
    let effects = host.path("effects");
    std::fs::create_dir(&effects).unwrap();
    let asked: Vec<_> = (0..12)
        .map(|n| {
            let file = effects.join(n.to_string());
            shell(&format!(
                "echo x >> {}; sleep 0.0{n}; echo {n}",
                file.display()
            ))
        })
        .collect();
    for round in 0..4 {
        let mut gateway = host.connect();
        for asked in asked.iter().skip(round * 3).take(3) {
            gateway.dispatch(asked.clone());
        }
        gateway.accepted(asked[round * 3].run);
        host.kill_executor();
        host.start_executor();
    }
    let mut gateway = host.connect();
    for asked in &asked {
        gateway.dispatch(asked.clone());
    }
    for (n, asked) in asked.iter().enumerate() {
        let (_, report) = gateway.finished(asked.run);
        let ran = std::fs::read_to_string(effects.join(n.to_string())).unwrap_or_default();
        match report.cause {
            None => {
                assert_eq!(ran, "x\n");
                assert_eq!(report.stdout.unwrap().result, format!("{n}\n"));
            }
            Some(Cause::Interrupted) => assert_eq!(ran, ""),
            // Killed between the claim and the making of the spool file: nobody can say, and it did not run twice.
            Some(Cause::OutcomeUnknown) => assert!(ran.is_empty() || ran == "x\n", "{ran}"),
            other => panic!("{other:?}: {:?}", report.message),
        }
    }
}
