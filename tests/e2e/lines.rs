//! Picking up by line, and verifying what is picked up.

use crate::binary;
use serde_json::{Value, json};
use willcall_testkit::Dev;

/// 2,000,000 numbered lines of a stdout that is far above the size from which on there is an index.
const LINES: u64 = 2_000_000;

fn exec(dev: &Dev, args: &[&str]) -> Value {
    dev.willcall(&[&["exec", "--json", "--"], args].concat())
        .json()
}

#[track_caller]
fn read(dev: &Dev, output: &str, more: &[&str]) -> Value {
    let ran = dev.willcall(&[&["read", "--json", "--output", output], more].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran.json()
}

/// The line that `seq` wrote there, with its number and offset.
#[track_caller]
fn check_line(dev: &Dev, output: &str, asked: i64, line: u64) {
    let page = read(dev, output, &["--line", &asked.to_string(), "--lines", "1"]);
    assert_eq!(page["content"], json!(format!("{line}\n")), "{asked}");
    let digits: u64 = (1..=7)
        .map(|n| 10u64.pow(n - 1)..=(10u64.pow(n) - 1).min(line - 1))
        .zip(2u64..)
        .filter(|(range, _)| !range.is_empty())
        .map(|(range, width)| (range.end() - range.start() + 1) * width)
        .sum();
    assert_eq!(
        (page["line"].as_u64(), page["offset"].as_u64()),
        (Some(line), Some(digits)),
        "{asked}"
    );
}

#[test]
fn any_line_of_a_large_output_is_found_with_its_index_and_without() {
    let dev = Dev::start(binary());
    let outcome = exec(&dev, &["seq", &LINES.to_string()]);
    let output = outcome["stdout"]["output"].as_str().expect("an output");
    let path = outcome["stdout"]["file_path"].as_str().expect("a path");
    let index = path.replace(".txt", ".idx");
    let written = std::fs::read(&index).expect("the runner wrote an index");
    let check = || {
        for line in [1, 2, 999_999, 1_000_000, LINES] {
            let back = i64::try_from(line).expect("small") - 2_000_001;
            check_line(&dev, output, i64::try_from(line).expect("small"), line);
            check_line(&dev, output, back, line);
        }
    };
    check();
    std::fs::remove_file(&index).expect("ours");
    check();
    assert!(
        std::fs::read(&index).expect("made again") == written,
        "a reader and a runner make the same index"
    );
    std::fs::write(&index, &written[..written.len() / 2]).expect("ours");
    check();
    dev.stop();
}

#[test]
fn lines_and_offsets_are_one_story() {
    let dev = Dev::start(binary());
    let outcome = exec(&dev, &["seq", &LINES.to_string()]);
    let output = outcome["stdout"]["output"].as_str().expect("an output");
    let last = read(&dev, output, &["--line", "-100"]);
    assert_eq!(
        last["content"].as_str().map(|c| c.lines().count()),
        Some(100)
    );
    assert_eq!(
        (last["line"].as_u64(), &last["next"]),
        (Some(LINES - 99), &Value::Null)
    );
    let page = read(&dev, output, &["--line", "1500000"]);
    let next = page["next"].as_u64().expect("more").to_string();
    let following = read(&dev, output, &["--offset", &next]);
    assert_eq!(following["line"], json!(1_502_000));
    let beyond = read(&dev, output, &["--line", "2000001"]);
    assert_eq!(
        (&beyond["content"], &beyond["next"], &beyond["line"]),
        (&json!(""), &Value::Null, &Value::Null)
    );
    assert_eq!(beyond["offset"], beyond["total"]);
    let plain = dev.willcall(&["read", "--output", output, "--line", "-2", "--lines", "1"]);
    assert_eq!(plain.text(), "1999999\n");
    assert!(
        plain.stderr.contains("begins at line 1999999"),
        "{}",
        plain.stderr
    );
    dev.stop();
}

#[test]
fn what_cannot_be_meant_is_refused_by_name() {
    let dev = Dev::start(binary());
    let run = exec(&dev, &["seq", "5000"])["run"].clone();
    let run = run.as_str().expect("a run");
    for (query, code, said) in [
        ("line=0", "invalid_limits", "line counts from 1"),
        ("line=5&offset=0", "invalid_query", "name one of them"),
        ("lines=0", "invalid_limits", "lines has to be at least 1"),
        ("line=x", "invalid_query", ""),
        ("verify=perhaps", "invalid_query", ""),
    ] {
        let (status, problem) = dev.api("GET", &format!("/v1/runs/{run}/output?{query}"), None);
        assert_eq!((status, &problem["code"]), (400, &json!(code)), "{query}");
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains(said), "{query}: {detail}");
    }
    dev.stop();
}

#[test]
fn a_verified_read_tells_a_changed_file() {
    let dev = Dev::start(binary());
    let outcome = exec(&dev, &["seq", "5000"]);
    let path = outcome["stdout"]["file_path"].as_str().expect("a path");
    let output = outcome["stdout"]["output"].as_str().expect("an output");
    let page = read(&dev, output, &["--verify"]);
    assert_eq!(
        (&page["verified"], &page["digest"]),
        (&json!(true), &outcome["stdout"]["digest"])
    );
    let mut bytes = std::fs::read(path).expect("the file");
    bytes[0] = b'!';
    std::fs::write(path, &bytes).expect("ours");
    let unasked = read(&dev, output, &["--limit", "1"]);
    assert_eq!(
        (&unasked["content"], &unasked["verified"]),
        (&json!("!"), &json!(false))
    );
    let ran = dev.willcall(&["read", "--output", output, "--verify"]);
    assert_eq!((ran.code, ran.text().as_str()), (125, ""));
    let recorded = outcome["stdout"]["digest"].as_str().expect("a digest");
    let found = format!("blake3:{}", blake3::hash(&bytes).to_hex());
    assert!(
        ran.stderr.contains("damaged")
            && ran.stderr.contains(recorded)
            && ran.stderr.contains(&found),
        "{}",
        ran.stderr
    );
    dev.stop();
}
