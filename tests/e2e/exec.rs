//! `willcall exec`, `read` and `hosts` against a running system.

use crate::binary;
use serde_json::json;
use std::time::Duration;
use willcall_testkit::{Dev, processes, wait_for};

#[test]
fn exec_gives_the_commands_streams_and_exit_code() {
    let dev = Dev::start(binary());
    let ran = dev.willcall(&["exec", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!((ran.code, ran.text().as_str()), (7, "out\n"));
    assert!(ran.stderr.contains("err\n"), "{}", ran.stderr);
    let signaled = dev.willcall(&["exec", "--json", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(signaled.code, 137);
    assert_eq!(
        (&signaled.json()["state"], &signaled.json()["signal"]),
        (&json!("signaled"), &json!("SIGKILL"))
    );
    dev.stop();
}

#[test]
fn a_command_gets_what_was_asked_and_nothing_of_ours() {
    let dev = Dev::start(binary());
    let ran = dev.willcall(&[
        "exec",
        "--cwd",
        "/",
        "--env",
        "A=b c",
        "--",
        "sh",
        "-c",
        "pwd; env; ls -l /proc/self/fd; cat /proc/self/status",
    ]);
    let text = ran.text();
    assert!(text.starts_with("/\n"), "{text}");
    assert!(
        text.contains("\nA=b c\n") && text.contains("\nPAGER=cat\n"),
        "{text}"
    );
    for leak in ["NOTIFY_SOCKET", "WILLCALL", "CARGO", "RUST"] {
        assert!(!text.contains(leak), "{leak} leaks:\n{text}");
    }
    assert!(
        text.contains("SigBlk:\t0000000000000000") && text.contains("SigIgn:\t0000000000000000"),
        "{text}"
    );
    let descriptors = text.lines().filter(|line| line.contains(" -> ")).count();
    assert_eq!(
        descriptors, 4,
        "0 to 2, and the one that ls opened:\n{text}"
    );
    dev.stop();
}

#[test]
fn a_log_that_no_terminal_shows_has_no_colours() {
    let dev = Dev::start(binary());
    let log = dev.log();
    for said in ["the spawner listens", "the executor is ready", "connected"] {
        assert!(log.contains(said), "{said:?} is not in {log}");
    }
    assert!(!log.contains('\x1b'), "{log:?}");
    dev.stop();
}

#[test]
fn shell_syntax_is_not_ours_to_expand() {
    let dev = Dev::start(binary());
    let ran = dev.willcall(&[
        "exec", "--", "printf", "%s|", "$HOME", "a b", "*", "`id`", "\"'\\",
    ]);
    assert_eq!(ran.text(), "$HOME|a b|*|`id`|\"'\\|");
    dev.stop();
}

#[test]
fn hosts_are_listed_and_found_by_name() {
    let dev = Dev::start(binary());
    let (status, hosts) = dev.api("GET", "/v1/hosts", None);
    assert_eq!(status, 200);
    let name = hosts["hosts"][0]["name"]
        .as_str()
        .expect("a name")
        .to_owned();
    let ran = dev.willcall(&["exec", "--host", &name, "--", "echo", "hi"]);
    assert_eq!((ran.code, ran.text().as_str()), (0, "hi\n"));
    let listed = dev.willcall(&["hosts"]);
    assert!(listed.text().contains(&name), "{}", listed.text());
    dev.stop();
}

#[test]
fn a_timeout_leaves_no_process_of_any_shape() {
    let dev = Dev::start(binary());
    // An argument of the innermost process that no other test run has.
    for (n, shape) in [
        "sleep {}; true",
        "(sleep {})",
        "sleep {} | cat",
        "sleep {} & wait",
        "trap '' TERM; sleep {}; sleep {}",
        "setsid sleep {} & wait; sleep {}",
    ]
    .iter()
    .enumerate()
    {
        let marker = format!("86400.{}{n}", std::process::id());
        for shell in ["bash", "dash"] {
            let ran = dev.willcall(&[
                "exec",
                "--json",
                "--timeout",
                "300ms",
                "--",
                shell,
                "-c",
                &shape.replace("{}", &marker),
            ]);
            assert_eq!(
                (ran.code, &ran.json()["state"]),
                (124, &json!("timed_out")),
                "{shell}: {shape}"
            );
            let alive = || {
                processes::all()
                    .into_iter()
                    .any(|p| p.state != 'Z' && p.args.contains(&marker))
            };
            wait_for(
                &format!("the end of {shell}: {shape}"),
                Duration::from_secs(2),
                || (!alive()).then_some(()),
            );
        }
    }
    dev.stop();
}

#[test]
fn concurrent_runs_do_not_mix() {
    let dev = Dev::start(binary());
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..16)
            .map(|n| {
                let dev = &dev;
                scope.spawn(move || {
                    (
                        n,
                        dev.willcall(&[
                            "exec",
                            "--",
                            "sh",
                            "-c",
                            &format!("seq {n} 3000; exit {n}"),
                        ]),
                    )
                })
            })
            .collect();
        for run in runs {
            let (n, ran) = run.join().expect("joined");
            assert_eq!(ran.code, n, "{}", ran.stderr);
            assert!(ran.text().starts_with(&format!("{n}\n")) && ran.text().ends_with("3000\n"));
        }
    });
    dev.stop();
}
