//! Output that was made for a terminal: shown as a person would have seen it, kept as it was.

use crate::binary;
use crate::law::check_stream;
use serde_json::{Value, json};
use willcall_testkit::Dev;

/// The stdout of `sh -c SCRIPT` with more arguments for `exec`, and the exact bytes that it wrote.
#[track_caller]
fn stdout_of(dev: &Dev, args: &[&str], script: &str) -> (Value, Vec<u8>) {
    let command = ["exec", "--json"].into_iter().chain(args.iter().copied());
    let command: Vec<&str> = command.chain(["--", "bash", "-c", script]).collect();
    let ran = dev.willcall(&command);
    assert_eq!(ran.code, 0, "{ran:?}");
    let bytes = std::process::Command::new("bash")
        .args(["-c", script])
        .env_clear()
        .envs([
            ("PATH", "/usr/bin:/bin"),
            ("LANG", "C.UTF-8"),
            ("TERM", "dumb"),
            ("NO_COLOR", "1"),
        ])
        .output()
        .expect("bash runs here, too")
        .stdout;
    (ran.json()["stdout"].clone(), bytes)
}

#[track_caller]
fn check_rendered(stream: &Value, bytes: &[u8], expected: &str) {
    assert_eq!(stream["result"], expected);
    assert_eq!(
        (&stream["view"], &stream["rendered"], &stream["saved"]),
        (&json!("rendered"), &json!(true), &json!(true))
    );
    check_stream(stream, bytes, 102_400, 2000);
}

#[test]
fn a_progress_bar_is_what_it_ended_as() {
    let dev = Dev::start(binary());
    let script = r"for i in $(seq 50000); do printf '\r%d%%' $i; done";
    let (stream, bytes) = stdout_of(&dev, &[], script);
    assert!(bytes.len() > 300_000);
    check_rendered(&stream, &bytes, "50000%");
    assert_eq!(
        (&stream["truncated"], &stream["omitted"]),
        (&json!(false), &Value::Null)
    );
    let script = r"echo begin; for i in 1 50 100; do printf '%d%%\r' $i; done; echo; echo end";
    let (stream, bytes) = stdout_of(&dev, &[], script);
    check_rendered(&stream, &bytes, "begin\n100%\r\nend\n");
    dev.stop();
}

#[test]
fn colours_titles_and_links_are_not_shown() {
    let dev = Dev::start(binary());
    let script = "cd /usr && LS_COLORS='di=01;34' ls -d --color=always bin lib share";
    let (stream, bytes) = stdout_of(&dev, &[], script);
    assert!(bytes.contains(&0x1b));
    check_rendered(&stream, &bytes, "bin\nlib\nshare\n");
    let script =
        r"printf '\033[33mcommit 1f2e\033[m (\033[1;36mHEAD\033[m)\n\033[32m+new\033[m\033[K\n'";
    let (stream, bytes) = stdout_of(&dev, &[], script);
    check_rendered(&stream, &bytes, "commit 1f2e (HEAD)\n+new\n");
    let script = r"printf '\033]0;a title\a\033]8;;http://x\033\\link\033]8;;\033\\\n'";
    let (stream, bytes) = stdout_of(&dev, &[], script);
    check_rendered(&stream, &bytes, "link\n");
    let script = r"printf '\033[31mcaf\351\033[0m\n'";
    let (stream, bytes) = stdout_of(&dev, &[], script);
    check_rendered(&stream, &bytes, "caf\u{fffd}\n");
    assert_eq!(stream["lossy"], true);
    dev.stop();
}

#[test]
fn crlf_text_passes_as_it_is() {
    let dev = Dev::start(binary());
    let (stream, bytes) = stdout_of(&dev, &[], r"printf 'one\r\ntwo\r\n'");
    assert_eq!(stream["result"], "one\r\ntwo\r\n");
    assert_eq!(
        (&stream["view"], &stream["rendered"], &stream["saved"]),
        (&json!("text"), &json!(false), &json!(false))
    );
    check_stream(&stream, &bytes, 102_400, 2000);
    dev.stop();
}

#[test]
fn a_raw_view_drops_nothing() {
    let dev = Dev::start(binary());
    let script = r"printf '10%%\r\033[31m20%%\033[0m\n'";
    let (stream, bytes) = stdout_of(&dev, &["--view", "raw"], script);
    assert_eq!(stream["result"], "10%\r\u{1b}[31m20%\u{1b}[0m\n");
    assert_eq!(
        (&stream["view"], &stream["rendered"], &stream["saved"]),
        (&json!("text"), &json!(false), &json!(false))
    );
    check_stream(&stream, &bytes, 102_400, 2000);
    let (stream, bytes) = stdout_of(&dev, &["--view", "auto"], script);
    check_rendered(&stream, &bytes, "20%\n");
    dev.stop();
}

/// What is left out of coloured text is picked up at the byte after the last one shown.
#[test]
fn what_is_cut_from_coloured_text_is_picked_up_exactly() {
    let dev = Dev::start(binary());
    let script = r"for i in $(seq 5000); do printf '\033[3%dm%d\033[0m\n' $((i % 8)) $i; done";
    let (stream, bytes) = stdout_of(&dev, &[], script);
    check_stream(&stream, &bytes, 102_400, 2000);
    let number = |field: &str| {
        let n = stream["omitted"][field].as_u64().expect("cut");
        usize::try_from(n).expect("small")
    };
    let line = |n: usize| format!("\u{1b}[3{}m{n}\u{1b}[0m\n", n % 8);
    let (from, to) = (number("from_line"), number("to_line"));
    let until = |n: usize| (1..n).map(|i| line(i).len()).sum::<usize>();
    assert_eq!(number("offset"), until(from));
    assert_eq!(number("offset") + number("bytes"), until(to + 1));
    assert_eq!(number("lines"), to + 1 - from);
    let text = stream["result"].as_str().expect("text");
    assert!(text.starts_with("1\n2\n") && text.ends_with("\n4999\n5000\n"));
    assert!(text.contains(&format!("\n{}\n[... ", from - 1)), "{text}");
    assert!(text.contains(&format!("]\n{}\n", to + 1)), "{text}");
    dev.stop();
}
