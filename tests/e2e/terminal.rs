//! What a terminal is shown of outputs and of words from elsewhere: nothing that steers it.

use crate::binary;
use nix::pty::openpty;
use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use willcall_testkit::Dev;

/// Titles, colours, a carriage return, a C1 control and an override of the direction: `view=raw` shows all of them.
const STEERING: &str = r"\033]0;t\007a\rb\302\2331m\342\200\256c\177\011d\n";
const AS_IT_IS: &str = "\u{1b}]0;t\u{7}a\rb\u{9b}1m\u{202e}c\u{7f}\td\n";
const SHOWN: &str = "\u{241b}]0;t\u{2407}a\u{240d}b\u{fffd}1m\u{fffd}c\u{2421}\td\n";

/// One end of a terminal, and all that arrives at the other.
fn terminal() -> (Stdio, JoinHandle<String>) {
    let pty = openpty(None, None).expect("a terminal");
    let mut screen = File::from(pty.master);
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        // A terminal whose other end is closed ends with an error.
        drop(screen.read_to_end(&mut bytes));
        let text = String::from_utf8(bytes).expect("UTF-8");
        text.replace("\r\n", "\n")
    });
    (pty.slave.into(), reader)
}

/// Runs a command whose stdout and stderr are two terminals; what they were shown.
fn on_terminals(mut command: Command) -> (String, String) {
    let ((out, out_screen), (err, err_screen)) = (terminal(), terminal());
    command.stdin(Stdio::null()).stdout(out).stderr(err);
    command.status().expect("it runs");
    // Our copies of the terminals' other ends go with it.
    drop(command);
    (
        out_screen.join().expect("stdout"),
        err_screen.join().expect("stderr"),
    )
}

#[track_caller]
fn is_harmless(text: &str) {
    let steers = |c: char| c.is_control() && c != '\n' && c != '\t';
    assert!(!text.contains(steers), "{text:?}");
}

#[test]
fn outputs_do_not_steer_a_terminal_and_pipes_get_them_as_they_are() {
    let dev = Dev::start(binary());
    let both = format!("printf '{STEERING}'; printf '{STEERING}' >&2");
    let exec = ["exec", "--view", "raw", "--", "sh", "-c", &both];
    let (out, err) = on_terminals(dev.command(&exec));
    assert_eq!((out.as_str(), err.as_str()), (SHOWN, SHOWN));
    let raw = ["exec", "--raw", "--view", "raw", "--", "sh", "-c", &both];
    let (out, err) = on_terminals(dev.command(&raw));
    assert_eq!((out.as_str(), err.as_str()), (AS_IT_IS, AS_IT_IS));
    let piped = dev.willcall(&exec);
    assert_eq!(
        (piped.text().as_str(), piped.stderr.as_str()),
        (AS_IT_IS, AS_IT_IS)
    );
}

#[test]
fn json_on_a_terminal_is_the_same_json() {
    let dev = Dev::start(binary());
    let exec = ["exec", "--json", "--view", "raw", "--", "printf", STEERING];
    let (out, _) = on_terminals(dev.command(&exec));
    is_harmless(&out);
    let json: serde_json::Value = serde_json::from_str(&out).expect("one value");
    assert_eq!(json["stdout"]["result"], AS_IT_IS);
}

#[test]
fn pages_and_problems_do_not_steer_a_terminal() {
    let dev = Dev::start(binary());
    let held = format!("printf '{STEERING}'; seq 3000");
    let exec = ["exec", "--json", "--", "sh", "-c", &held];
    let outcome = dev.willcall(&exec).json();
    let output = outcome["stdout"]["output"].as_str().expect("held");
    let read = ["read", "--output", output, "--lines", "1"];
    let (page, _) = on_terminals(dev.command(&read));
    assert_eq!(page, SHOWN);
    assert_eq!(dev.willcall(&read).text(), AS_IT_IS);
    for wrong in [
        ["exec", "--host", "x\u{1b}[2J\u{9b}\u{202e}", "--", "true"].as_slice(),
        ["read", "--path", "/x\u{1b}[2J\u{9b}\u{202e}"].as_slice(),
        ["exec", "--", "/x\u{1b}[2J\u{9b}\u{202e}"].as_slice(),
    ] {
        let (_, said) = on_terminals(dev.command(wrong));
        assert!(said.starts_with("willcall: "), "{said:?}");
        is_harmless(&said);
    }
}
