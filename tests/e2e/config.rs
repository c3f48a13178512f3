//! A host with a configuration of its own, and configurations that cannot be used.

use crate::binary;
use serde_json::{Value, json};
use std::path::PathBuf;
use tempfile::TempDir;
use willcall_testkit::{Dev, willcall};

/// A file with that text, for as long as the directory lives.
fn config(text: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("config.toml");
    std::fs::write(&path, text).expect("written");
    (dir, path)
}

#[test]
fn thresholds_are_those_of_the_file() {
    let (_dir, path) = config(
        "[outputs]\ndefault_max_bytes = 5_000\nceiling_max_bytes = 6_000\npage_max_bytes = 1_000\n\
         page_max_lines = 100\nmax_run_bytes = 20_000\ndigest_at_seal_bytes = 0\n",
    );
    let path = path.to_str().expect("a temporary name");
    let dev = Dev::start_with(binary(), &["--config", path]);
    let outcome = dev
        .willcall(&["exec", "--json", "--", "seq", "5000"])
        .json();
    let stdout = &outcome["stdout"];
    let result = stdout["result"].as_str().expect("a preview");
    assert!((4_000..=5_000).contains(&result.len()), "{}", result.len());
    assert_eq!(
        (&stdout["complete"], &stdout["reason"], &stdout["digest"]),
        (&json!(false), &json!("run_cap"), &Value::Null)
    );
    assert_eq!(stdout["dropped_bytes"], json!(3_893));
    let output = stdout["output"].as_str().expect("an output");
    let read = |more: &[&str]| {
        let ran = dev.willcall(&[&["read", "--json", "--output", output], more].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.json()
    };
    let page = read(&[]);
    assert_eq!(
        (&page["next"], &page["total"]),
        (&json!(292), &json!(20_000))
    );
    let page = read(&["--offset", "10000"]);
    assert_eq!(page["next"], json!(10_498));
    assert_eq!(read(&["--verify"])["verified"], json!(false));
    let page = read(&["--verify"]);
    let file = std::fs::read(stdout["file_path"].as_str().expect("a path")).expect("the file");
    let digest = format!("blake3:{}", blake3::hash(&file).to_hex());
    assert_eq!(
        (&page["verified"], &page["digest"]),
        (&json!(true), &json!(digest))
    );
    let refused = dev.willcall(&["exec", "--max-bytes", "6001", "--", "true"]);
    assert_eq!(refused.code, 125);
    assert!(
        refused.stderr.contains("ceiling is 6000"),
        "{}",
        refused.stderr
    );
    dev.stop();
}

#[test]
fn a_configuration_that_cannot_be_used_is_named_before_anything_starts() {
    let (_dir, path) = config("[outputs]\nretention_days = \"x\"\n");
    let path = path.to_str().expect("a temporary name");
    for command in [
        &["dev", "--config", path][..],
        &["demo", "--config", path],
        &["demo", "--json", "--config", path, "--", "true"],
    ] {
        let ran = willcall(binary(), command);
        assert_eq!((ran.code, ran.text().contains("ready")), (125, false));
        let said = format!("{path}, line 2: retention_days is a string; it has to be");
        assert!(ran.stderr.contains(&said), "{}", ran.stderr);
    }
    let missing = format!("{path}.missing");
    let ran = willcall(binary(), &["dev", "--config", &missing]);
    assert_eq!(ran.code, 125);
    assert!(
        ran.stderr.contains(&missing) && ran.stderr.contains("No such file"),
        "{}",
        ran.stderr
    );
}

/// The executor itself refuses, too: it is what a service runs.
#[test]
fn the_executor_refuses_a_configuration_that_it_cannot_use() {
    let (dir, path) = config("[outputs]\nceiling_max_bytes = 1\n");
    let at = |name: &str| dir.path().join(name).display().to_string();
    let args = [
        "role",
        "executor",
        "run",
        "--state",
        &at("state"),
        "--run-dir",
        &at("run"),
        "--workspace",
        &at("workspace"),
        "--config",
        &path.display().to_string(),
    ];
    let ran = willcall(binary(), &args);
    assert_ne!(ran.code, 0);
    let said = "line 2: default_max_bytes is 102400 (its default), which is more than ceiling_max_bytes, 1";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
    assert!(!dir.path().join("state").exists(), "nothing was made");
}
