//! What a command finds around it.

use crate::support::{Look, Spawner};
use std::collections::BTreeMap;

#[test]
fn only_descriptors_0_to_2_and_nothing_to_read() {
    // Another run is armed at the same time: its descriptors are not there either.
    let spawner = Spawner::start();
    let _other = spawner.arm(spawner.launch(&["true"]));
    let script =
        "ls -l /proc/self/fd | sed -n 's/.* \\([0-9]*\\) -> \\([a-z/]*\\).*/\\1 \\2/p'; cat";
    let lines = spawner.sh(script).stdout();
    // 3 is the directory that ls reads.
    assert_eq!(lines, "0 /dev/null\n1 pipe\n2 pipe\n3 /proc/\n");
}

#[test]
fn the_environment_is_exactly_what_was_given() {
    let spawner = Spawner::start();
    let mut launch = spawner.launch(&["/usr/bin/env"]);
    launch.env = BTreeMap::from([
        ("A".into(), "b c\nd".into()),
        ("EMPTY".into(), String::new()),
    ]);
    assert_eq!(spawner.run(launch).stdout(), "A=b c\nd\nEMPTY=\n");
}

#[test]
fn signals_are_as_in_a_fresh_process() {
    let result = Spawner::start().sh("sed -n '/^Sig[IBC]/p' /proc/self/status");
    assert_eq!(
        result.stdout().matches("\t0000000000000000\n").count(),
        3,
        "{}",
        result.stdout()
    );
    // Somebody who ignored SIGPIPE would complain here.
    let result = Spawner::start().sh("yes | head -1");
    assert_eq!(
        (result.stdout().as_str(), result.stderr().as_str()),
        ("y\n", "")
    );
}

#[test]
fn attributes_are_set() {
    let script = "umask; ulimit -c; cat /proc/self/oom_score_adj; pwd";
    let spawner = Spawner::start();
    let mut launch = spawner.launch(&["sh", "-c", script]);
    launch.cwd = "/usr".into();
    assert_eq!(spawner.run(launch).stdout(), "0022\n0\n500\n/usr\n");
}

#[test]
fn the_command_leads_a_session_that_is_not_the_runners() {
    let spawner = Spawner::start();
    let script =
        "read -r _ _ _ _ group session _ < /proc/$$/stat; echo $(($$ == group)) $(($$ == session))";
    let mut run = spawner.arm(spawner.launch(&["sh", "-c", script]));
    let name = std::fs::read_to_string(format!("/proc/{}/comm", run.pid)).expect("the runner");
    let id = run.launch.run.simple().to_string();
    assert_eq!(name, format!("wc-run-{}\n", &id[24..]));
    run.go();
    assert_eq!(run.result().stdout(), "1 1\n");
}

#[test]
fn descriptors_of_the_streams_can_be_opened_again() {
    let result = Spawner::start().sh("echo x > /dev/stderr; echo y > /dev/stdout");
    assert_eq!(
        (result.stdout().as_str(), result.stderr().as_str()),
        ("y\n", "x\n")
    );
}
