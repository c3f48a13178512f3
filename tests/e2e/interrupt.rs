//! Ctrl-C and TERM during `willcall exec`.

use crate::binary;
use serde_json::json;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use willcall_testkit::{Dev, processes, wait_for};

/// An exec whose command is up on its host, to be sent signals.
struct Exec {
    child: Child,
    marker: String,
}

impl Exec {
    /// `script` has `{}` where an argument goes that no other process has.
    fn start(dev: &Dev, n: u32, wrapper: &[&str], script: &str) -> Self {
        let marker = format!("86400.{}{n:02}", std::process::id());
        let exec = dev.command(&[
            "exec",
            "--json",
            "--",
            "sh",
            "-c",
            &script.replace("{}", &marker),
        ]);
        // Whoever runs the tests may ignore these signals, and so would their children.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT,TERM"]).args(wrapper);
        command.arg(exec.get_program()).args(exec.get_args());
        for (name, value) in exec.get_envs() {
            command.env(name, value.expect("set"));
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let exec = Self { child, marker };
        wait_for("the command", Duration::from_secs(10), || {
            exec.alive().then_some(())
        });
        exec
    }

    fn alive(&self) -> bool {
        let sleeps = |p: &processes::Process| p.name == "sleep" && p.args.contains(&self.marker);
        processes::all().iter().any(|p| p.state != 'Z' && sleeps(p))
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.expect("kill").success());
    }

    /// Exit code, stdout and stderr.
    fn end(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        let stdout = self.child.stdout.as_mut().expect("piped");
        stdout.read_to_string(&mut out).expect("read");
        let stderr = self.child.stderr.as_mut().expect("piped");
        stderr.read_to_string(&mut err).expect("read");
        (self.child.wait().expect("ended").code(), out, err)
    }
}

#[test]
fn the_first_signal_cancels_the_run_and_shows_its_end() {
    let dev = Dev::start(binary());
    for (n, name, code) in [(1, "INT", 130), (2, "TERM", 143)] {
        let exec = Exec::start(&dev, n, &[], "echo begun; sleep {}; true");
        let began = Instant::now();
        exec.signal(name);
        let marker = exec.marker.clone();
        let (ended, out, err) = exec.end();
        assert_eq!(ended, Some(code), "{err}");
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{:?}",
            began.elapsed()
        );
        let outcome: serde_json::Value = serde_json::from_str(&out).expect("one JSON value");
        assert_eq!(outcome["state"], json!("canceled"));
        assert_eq!(outcome["stdout"]["result"], json!("begun\n"));
        let run = outcome["run"].as_str().expect("an id");
        assert!(err.contains(&format!("canceling run {run}")), "{err}");
        let left = processes::all()
            .into_iter()
            .filter(|p| p.state != 'Z' && p.args.contains(&marker));
        assert_eq!(left.count(), 0, "the command goes on");
    }
    dev.stop();
}

#[test]
fn a_command_that_ends_by_itself_meanwhile_keeps_its_code() {
    let dev = Dev::start(binary());
    let exec = Exec::start(&dev, 3, &[], "sleep {} & trap 'kill $!; exit 7' TERM; wait");
    exec.signal("INT");
    let (code, out, err) = exec.end();
    let outcome: serde_json::Value = serde_json::from_str(&out).expect("one JSON value");
    // It exited because of the cancel: that is still what ended it.
    assert_eq!(
        (code, &outcome["exit_code"]),
        (Some(130), &json!(7)),
        "{err}"
    );
    dev.stop();
}

#[test]
fn the_second_signal_leaves_and_says_what_goes_on() {
    let dev = Dev::start(binary());
    let mut exec = Exec::start(&dev, 4, &[], "trap '' TERM; sleep {}; sleep {}");
    exec.signal("INT");
    let mut stderr = BufReader::new(exec.child.stderr.take().expect("piped"));
    let mut first = String::new();
    stderr.read_line(&mut first).expect("read");
    let run = first.split_once("canceling run ").expect("what it does").1;
    let run = run.split(' ').next().expect("an id").to_owned();
    let began = Instant::now();
    exec.signal("INT");
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).expect("read");
    assert_eq!(
        exec.child.wait().expect("ended").code(),
        Some(130),
        "{rest}"
    );
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    assert!(rest.contains(&format!("run {run} goes on")), "{rest}");
    // The id is good for asking what became of it.
    let (status, outcome) = dev.api("GET", &format!("/v1/runs/{run}?wait=60"), None);
    assert_eq!(
        (status, &outcome["state"]),
        (200, &json!("canceled")),
        "{outcome}"
    );
    dev.stop();
}

#[test]
fn a_signal_that_is_ignored_from_the_start_stays_ignored() {
    let dev = Dev::start(binary());
    let exec = Exec::start(&dev, 5, &["env", "--ignore-signal=INT"], "sleep {}; true");
    exec.signal("INT");
    exec.signal("TERM");
    let (code, _, err) = exec.end();
    // Only the second one was heard: had it been both, exec would have left.
    assert_eq!(code, Some(143), "{err}");
    assert!(!err.contains("goes on"), "{err}");
    dev.stop();
}
