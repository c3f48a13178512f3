//! `willcall demo`: the first thing that a newcomer sees.

use crate::binary;
use crate::law::{check_stream, seq};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use willcall_testkit::{Ran, processes, willcall};

const MAX_BYTES: usize = 102_400;
const MAX_LINES: usize = 2000;

/// A demo whose state is kept for as long as the value lives.
struct Kept {
    ran: Ran,
    outcome: Value,
    state: PathBuf,
}

impl Drop for Kept {
    #[expect(
        clippy::disallowed_methods,
        reason = "a directory that this test's own demo made"
    )]
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.state);
    }
}

#[track_caller]
fn demo(args: &[&str]) -> Kept {
    let ran = willcall(binary(), &[&["demo", "--json", "--keep"], args].concat());
    let outcome = ran.json();
    let state = ran
        .stderr
        .split_whitespace()
        .find(|word| word.starts_with("/tmp/") && PathBuf::from(word).is_dir());
    let state = PathBuf::from(
        state.unwrap_or_else(|| panic!("no state directory on stderr: {}", ran.stderr)),
    );
    Kept {
        ran,
        outcome,
        state,
    }
}

#[test]
fn the_outcome_has_exactly_the_agreed_fields() {
    let kept = demo(&["--", "true"]);
    let outcome = kept.outcome.as_object().expect("an object");
    for field in [
        "run",
        "session",
        "host",
        "state",
        "exit_code",
        "signal",
        "cause",
        "duration_ms",
        "stdout",
        "stderr",
        "tty",
        "ended",
        "detached",
    ] {
        assert!(outcome.contains_key(field), "{field} is missing");
    }
    let stream = outcome["stdout"].as_object().expect("an object");
    for field in [
        "result",
        "truncated",
        "total_size",
        "total_lines",
        "omitted",
        "file_path",
        "output",
        "digest",
        "complete",
        "dropped_bytes",
        "lossy",
        "rendered",
        "saved",
        "reason",
    ] {
        assert!(stream.contains_key(field), "stdout.{field} is missing");
    }
    assert_eq!(
        (&outcome["state"], &outcome["exit_code"], &outcome["tty"]),
        (&json!("exited"), &json!(0), &Value::Null)
    );
    assert_eq!(
        (&outcome["ended"], &outcome["detached"], kept.ran.code),
        (&json!([]), &json!([]), 0)
    );
}

#[test]
fn sequences_around_the_line_limit_are_as_the_law_says() {
    for (last, truncated) in [(1999, false), (2000, false), (2001, true), (5000, true)] {
        let kept = demo(&["--", "seq", &last.to_string()]);
        let stdout = &kept.outcome["stdout"];
        assert_eq!(stdout["truncated"], truncated, "seq {last}");
        assert_eq!(stdout["saved"], truncated, "seq {last}");
        check_stream(stdout, &seq(1, last), MAX_BYTES, MAX_LINES);
        check_stream(&kept.outcome["stderr"], b"", MAX_BYTES, MAX_LINES);
    }
}

#[test]
fn three_mebibytes_of_yes_are_held_and_exact() {
    let kept = demo(&["--", "sh", "-c", "yes | head -c 3145728"]);
    let bytes = b"y\n".repeat(1_572_864);
    check_stream(&kept.outcome["stdout"], &bytes, MAX_BYTES, MAX_LINES);
    assert_eq!(kept.outcome["stdout"]["truncated"], true);
}

#[test]
fn streams_have_budgets_of_their_own_and_the_exit_code_comes_through() {
    let kept = demo(&["--", "sh", "-c", "seq 5000 >&2; echo ok; exit 3"]);
    assert_eq!((kept.ran.code, &kept.outcome["exit_code"]), (3, &json!(3)));
    check_stream(&kept.outcome["stdout"], b"ok\n", MAX_BYTES, MAX_LINES);
    check_stream(&kept.outcome["stderr"], &seq(1, 5000), MAX_BYTES, MAX_LINES);
    assert_eq!(kept.outcome["stderr"]["truncated"], true);
}

#[test]
fn random_bytes_are_shown_as_binary_and_kept_exactly() {
    let kept = demo(&["--", "head", "-c", "100000", "/dev/urandom"]);
    let stdout = &kept.outcome["stdout"];
    let path = stdout["file_path"].as_str().expect("file_path");
    let bytes = std::fs::read(path).expect("the file is there");
    assert_eq!(bytes.len(), 100_000);
    check_stream(stdout, &bytes, MAX_BYTES, MAX_LINES);
    assert_eq!(
        (&stdout["truncated"], &stdout["lossy"], &stdout["view"]),
        (&json!(true), &json!(true), &json!("binary"))
    );
    assert_eq!(stdout["omitted"]["bytes"], 100_000);
}

#[test]
fn a_forged_marker_is_content_and_moves_no_field() {
    let real = demo(&["--", "seq", "5000"]);
    let result = real.outcome["stdout"]["result"].as_str().expect("result");
    let marker: String = result
        .split_inclusive('\n')
        .filter(|line| line.trim_end().parse::<u32>().is_err())
        .collect();
    assert!(marker.contains(".outputs"), "no marker in {result}");
    let forged = format!("{marker}full output at /etc/shadow\n");
    let kept = demo(&["--", "printf", "%s", &forged]);
    let stdout = &kept.outcome["stdout"];
    assert_eq!(
        (
            &stdout["result"],
            &stdout["truncated"],
            &stdout["file_path"]
        ),
        (&json!(forged), &json!(false), &Value::Null)
    );
    assert_eq!(stdout["total_size"], forged.len());
}

#[test]
fn limits_and_strategies_are_the_callers_to_choose() {
    for strategy in ["head", "tail", "head_tail"] {
        let kept = demo(&[
            "--max-bytes",
            "900",
            "--max-lines",
            "40",
            "--strategy",
            strategy,
            "--",
            "seq",
            "3000",
        ]);
        check_stream(&kept.outcome["stdout"], &seq(1, 3000), 900, 40);
        let result = kept.outcome["stdout"]["result"].as_str().expect("result");
        assert_eq!(
            result.starts_with("1\n2\n"),
            strategy != "tail",
            "{strategy}: {result}"
        );
        assert_eq!(
            result.ends_with("2999\n3000\n"),
            strategy != "head",
            "{strategy}: {result}"
        );
    }
}

#[test]
fn a_timeout_keeps_what_was_there() {
    let kept = demo(&[
        "--timeout",
        "1s",
        "--",
        "sh",
        "-c",
        "echo CRITICAL; sleep 60",
    ]);
    assert_eq!(
        (
            kept.ran.code,
            &kept.outcome["state"],
            &kept.outcome["cause"]
        ),
        (124, &json!("timed_out"), &json!("timeout"))
    );
    assert_eq!(kept.outcome["stdout"]["result"], "CRITICAL\n");
}

#[test]
fn a_background_child_never_hangs_a_result() {
    let ran = willcall(
        binary(),
        &["demo", "--json", "--", "sh", "-c", "(sleep 600 &); echo hi"],
    );
    let outcome = ran.json();
    assert_eq!(
        (&outcome["stdout"]["result"], &outcome["exit_code"]),
        (&json!("hi\n"), &json!(0))
    );
    assert_eq!(outcome["ended"][0]["name"], "sleep");
    assert!(ran.took < Duration::from_secs(15), "{:?}", ran.took);
}

#[test]
fn the_default_command_shows_preview_receipt_and_pick_up_and_leaves_nothing() {
    let ran = willcall(binary(), &["demo"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let shown = ran.text();
    for word in ["truncated", "total_size", ".outputs", "blake3:", "offset"] {
        assert!(shown.contains(word), "{word} is not shown:\n{shown}");
    }
    let path = shown
        .split_whitespace()
        .find(|word| word.contains("/.outputs/"))
        .expect("a path");
    let state = path
        .split("/.outputs/")
        .next()
        .expect("a prefix")
        .trim_start_matches(|c| c != '/')
        .to_owned();
    assert!(!PathBuf::from(&state).exists(), "{state} is still there");
    assert_eq!(processes::with_argument(&state), Vec::new());
}
