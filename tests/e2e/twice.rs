//! One system for one directory.

use crate::binary;
use std::process::Command;
use willcall_testkit::{Dev, command, processes};

/// The state directory of a running system and the process that has it, as a refusal names them.
#[track_caller]
fn check(said: &str, directory: &str, pid: i32) {
    let expected = format!("{directory} is in use by process {pid}");
    assert!(said.contains(&expected), "{expected:?} is not in {said}");
}

#[test]
fn a_second_dev_on_one_directory_is_refused() {
    let dev = Dev::start(binary());
    let state = dev.state().to_str().expect("UTF-8");
    let gateway = dev.role("gateway");
    let second = command::run(Command::new(binary()).args(["dev", "--state", state]));
    assert_eq!(
        (second.code, second.text().as_str()),
        (125, ""),
        "{second:?}"
    );
    check(&second.stderr, state, gateway.parent);
    // The first one has noticed nothing.
    assert!(processes::look(gateway.pid).is_some_and(|p| p.state != 'Z'));
    assert_eq!(dev.willcall(&["exec", "--", "true"]).code, 0);
}

#[test]
fn a_second_gateway_on_one_directory_is_refused() {
    let dev = Dev::start(binary());
    let state = dev.state().join("gateway");
    let state = state.to_str().expect("UTF-8");
    let gateway = dev.role("gateway");
    let serve = ["role", "gateway", "serve", "--state", state];
    let second = command::run(Command::new(binary()).args(serve));
    assert_eq!((second.code, second.text().as_str()), (1, ""), "{second:?}");
    check(&second.stderr, state, gateway.pid);
    // What only makes certificates goes on beside it.
    let out = dev.state().join("another");
    let cert = [
        "role",
        "gateway",
        "agent-cert",
        "--name",
        "x",
        "--state",
        state,
        "--out",
    ];
    let cert = command::run(Command::new(binary()).args(cert).arg(out));
    assert_eq!(cert.code, 0, "{cert:?}");
    assert_eq!(
        dev.willcall(&["exec", "--host", "dev", "--", "true"]).code,
        0
    );
}
