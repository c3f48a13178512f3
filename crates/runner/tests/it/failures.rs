//! Commands that cannot be executed: stage and errno, never text in an output.

use crate::support::{Look, Spawner};
use nix::errno::Errno;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use willcall_runner::wire::{Launch, Stage};

#[track_caller]
fn check(change: impl FnOnce(&mut Launch, &Path), stage: Stage, errno: Errno) -> String {
    let spawner = Spawner::start();
    let mut launch = spawner.launch(&["true"]);
    change(&mut launch, spawner.dir.path());
    let result = spawner.run(launch);
    assert_eq!(result.streams, []);
    let error = result.error();
    assert_eq!(
        (error.stage, Errno::from_raw(error.errno)),
        (stage, errno),
        "{error}"
    );
    error.to_string()
}

fn script(dir: &Path, text: &str, mode: u32) -> String {
    let path = dir.join("script");
    fs::write(&path, text).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
    path.display().to_string()
}

#[test]
fn a_missing_program() {
    let text = check(
        |l, _| l.argv = vec!["no-such-program".into()],
        Stage::Exec,
        Errno::ENOENT,
    );
    assert_eq!(
        text,
        "cannot execute no-such-program: No such file or directory"
    );
}

#[test]
fn a_missing_directory() {
    let text = check(
        |l, _| l.cwd = "/no/such".into(),
        Stage::Chdir,
        Errno::ENOENT,
    );
    assert_eq!(
        text,
        "cannot enter directory /no/such: No such file or directory"
    );
}

#[test]
fn a_file_that_is_not_executable() {
    let change = |l: &mut Launch, dir: &Path| l.argv = vec![script(dir, "#!/bin/sh\n", 0o644)];
    let text = check(change, Stage::Exec, Errno::EACCES);
    assert!(text.contains("/script: Permission denied"), "{text}");
}

#[test]
fn a_script_whose_interpreter_is_missing() {
    let change = |l: &mut Launch, dir: &Path| l.argv = vec![script(dir, "#!/no/sh\n", 0o755)];
    let text = check(change, Stage::Exec, Errno::ENOENT);
    assert!(
        text.contains("/script (its interpreter /no/sh does not exist)"),
        "{text}"
    );
}

#[test]
fn a_text_file_is_given_to_no_shell() {
    let change = |l: &mut Launch, dir: &Path| l.argv = vec![script(dir, "echo hi\n", 0o755)];
    check(change, Stage::Exec, Errno::ENOEXEC);
}

#[test]
fn an_argument_that_is_too_long() {
    check(
        |l, _| l.argv.push("x".repeat(200_000)),
        Stage::Exec,
        Errno::E2BIG,
    );
}

#[test]
fn nothing_to_execute_and_what_no_program_can_be_given() {
    check(|l, _| l.argv.clear(), Stage::Exec, Errno::EINVAL);
    check(
        |l, _| l.argv.push("a\0b".into()),
        Stage::Exec,
        Errno::EINVAL,
    );
    check(
        |l, _| drop(l.env.insert(String::new(), "x".into())),
        Stage::Exec,
        Errno::EINVAL,
    );
}
