//! Bad input gets a clear, typed answer that says who is to blame and whether anything ran.

use crate::binary;
use serde_json::{Value, json};
use willcall_testkit::{Dev, command, willcall};

/// A problem document with every member that a caller decides by.
#[track_caller]
fn check_problem((status, problem): (u16, Value), expected: u16, code: &str, blame: &str) {
    assert_eq!(
        (status, &problem["code"]),
        (expected, &json!(code)),
        "{problem}"
    );
    assert_eq!(
        (&problem["status"], &problem["blame"]),
        (&json!(expected), &json!(blame)),
        "{problem}"
    );
    assert!(
        problem["detail"]
            .as_str()
            .is_some_and(|detail| detail.len() > 10),
        "{problem}"
    );
    assert!(problem["outcome"].is_string(), "{problem}");
}

/// Where the one host's runs are posted.
fn runs_path(dev: &Dev) -> String {
    let hosts = dev.api("GET", "/v1/hosts", None).1;
    let host = hosts["hosts"][0]["name"].as_str().expect("a host");
    format!("/v1/hosts/{host}/runs")
}

#[test]
fn the_api_names_a_caller_or_path_that_is_wrong() {
    let dev = Dev::start(binary());
    let runs = runs_path(&dev);
    let without = dev.api_as(None, "GET", "/v1/hosts", None);
    check_problem(without, 401, "unauthorized", "caller");
    let wrong = dev.api_as(Some("wrong"), "POST", &runs, Some("{}"));
    check_problem(wrong, 401, "unauthorized", "caller");
    let body = json!({"argv": ["true"]});
    let nowhere = dev.api("POST", "/v1/hosts/nowhere/runs", Some(&body));
    check_problem(nowhere, 404, "unknown_host", "caller");
    let never = dev.api("GET", "/v1/runs/01990000-0000-7000-8000-00000000dead", None);
    check_problem(never, 404, "unknown_run", "caller");
    let nothing = dev.api("GET", "/v1/nothing", None);
    check_problem(nothing, 404, "unknown_path", "caller");
    let method = dev.api("DELETE", "/v1/hosts", None);
    check_problem(method, 405, "wrong_method", "caller");
    dev.stop();
}

#[test]
fn the_api_names_what_is_wrong_with_a_run() {
    let dev = Dev::start(binary());
    let runs = runs_path(&dev);
    let torn = dev.api_as(Some(&dev.token()), "POST", &runs, Some("{\"argv\":"));
    check_problem(torn, 400, "invalid_json", "caller");
    for (body, code) in [
        (json!({"argv": ["true"], "arvg": 1}), "invalid_json"),
        (json!({"argv": []}), "invalid_argv"),
        (json!({"argv": ["a\0b"]}), "invalid_argv"),
        (
            json!({"argv": ["true"], "limits": {"max_bytes": 0}}),
            "invalid_limits",
        ),
        (
            json!({"argv": ["true"], "limits": {"max_lines": 0}}),
            "invalid_limits",
        ),
        (
            json!({"argv": ["true"], "session": "../x"}),
            "invalid_session",
        ),
    ] {
        let answer = dev.api("POST", &runs, Some(&body));
        assert_eq!(answer.1["outcome"], "not_started");
        check_problem(answer, 400, code, "caller");
    }
    dev.stop();
}

#[test]
fn a_command_that_cannot_start_says_so_and_did_not_run() {
    let dev = Dev::start(binary());
    for (args, stage, errno) in [
        (
            vec!["exec", "--json", "--", "/no/such/program"],
            "exec",
            "ENOENT",
        ),
        (
            vec!["exec", "--json", "--cwd", "/no/such/place", "--", "true"],
            "chdir",
            "ENOENT",
        ),
        (
            vec!["exec", "--json", "--", "/etc/passwd"],
            "exec",
            "EACCES",
        ),
    ] {
        let ran = dev.willcall(&args);
        let outcome = ran.json();
        assert_eq!(
            (ran.code, &outcome["state"], &outcome["cause"]),
            (125, &json!("refused"), &json!("spawn_failed")),
            "{outcome}"
        );
        assert_eq!(
            (
                &outcome["spawn_error"]["stage"],
                &outcome["spawn_error"]["name"]
            ),
            (&json!(stage), &json!(errno)),
            "{outcome}"
        );
        assert_eq!(
            (&outcome["exit_code"], &outcome["stdout"]),
            (&Value::Null, &Value::Null)
        );
        assert!(
            outcome["message"]
                .as_str()
                .is_some_and(|m| m.contains("no")),
            "{outcome}"
        );
    }
    let plain = dev.willcall(&["exec", "--", "/no/such/program"]);
    assert!(
        plain.stderr.contains("/no/such/program"),
        "{}",
        plain.stderr
    );
    dev.stop();
}

#[test]
fn a_read_that_cannot_be_says_why() {
    let dev = Dev::start(binary());
    let outcome = dev
        .willcall(&["exec", "--json", "--", "seq", "5000"])
        .json();
    let run = outcome["run"].as_str().expect("a run");
    let read = |query: &str| dev.api("GET", &format!("/v1/runs/{run}/output?{query}"), None);
    check_problem(
        read("stream=stdout&limit=0"),
        400,
        "invalid_limits",
        "caller",
    );
    check_problem(read("stream=stderr"), 404, "not_found", "caller");
    check_problem(read("stream=nonsense"), 400, "invalid_output", "caller");
    check_problem(
        read("stream=stdout&offset=-1"),
        400,
        "invalid_query",
        "caller",
    );
    dev.stop();
}

#[test]
fn the_command_line_blames_the_right_one() {
    let dev = Dev::start(binary());
    let unknown = dev.willcall(&["exec", "--host", "nowhere", "--", "true"]);
    assert_eq!(unknown.code, 125);
    assert!(unknown.stderr.contains("nowhere"), "{}", unknown.stderr);
    let zero = dev.willcall(&["exec", "--max-bytes", "0", "--", "true"]);
    assert_eq!(zero.code, 125);
    assert!(zero.stderr.contains("max_bytes"), "{}", zero.stderr);
    let mut tokenless = dev.command(&["exec", "--", "true"]);
    let ran = command::run(tokenless.env_remove("WILLCALL_TOKEN_FILE"));
    assert_eq!(ran.code, 125);
    assert!(ran.stderr.contains("WILLCALL_TOKEN_FILE"), "{}", ran.stderr);
    dev.stop();
    let nowhere = willcall(binary(), &["exec", "--", "true"]);
    assert_eq!(nowhere.code, 125);
    assert!(
        nowhere.stderr.contains("WILLCALL_URL"),
        "{}",
        nowhere.stderr
    );
}

#[test]
fn a_host_that_is_away_is_said_to_be_away_and_nothing_is_kept_for_it() {
    let dev = Dev::start(binary());
    let host = dev.api("GET", "/v1/hosts", None).1["hosts"][0]["name"]
        .as_str()
        .expect("a host")
        .to_owned();
    let agent = dev.role("agent").pid;
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(agent),
        nix::sys::signal::Signal::SIGSTOP,
    )
    .expect("stopped");
    willcall_testkit::processes::kill_9(dev.role("link").pid);
    willcall_testkit::wait_for("a lost host", std::time::Duration::from_secs(20), || {
        (dev.api("GET", "/v1/hosts", None).1["hosts"][0]["connected"] == false).then_some(())
    });
    let answer = dev.api(
        "POST",
        &format!("/v1/hosts/{host}/runs"),
        Some(&json!({"argv": ["true"]})),
    );
    assert_eq!(answer.1["outcome"], "not_started");
    check_problem(answer, 503, "host_offline", "host");
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(agent),
        nix::sys::signal::Signal::SIGCONT,
    )
    .expect("continued");
    dev.wait_connected();
    assert_eq!(dev.willcall(&["exec", "--", "true"]).code, 0);
    dev.stop();
}

#[test]
fn a_read_that_fails_says_nothing_of_a_command() {
    let dev = Dev::start(binary());
    let output = "01990000-0000-7000-8000-000000000001/stdout";
    for more in [
        ["--limit", "0"],
        ["--lines", "0"],
        ["--host", "nobody"],
        ["--session", "other"],
    ] {
        let mut read = vec!["read", "--output", output];
        read.extend(more);
        let ran = dev.willcall(&read);
        assert_eq!(ran.code, 125, "{ran:?}");
        assert!(ran.stderr.starts_with("willcall: "), "{ran:?}");
        assert!(!ran.stderr.contains("the command"), "{ran:?}");
    }
    let token = dev.state().join("wrong.token");
    std::fs::write(&token, "wrong").expect("written");
    for call in [
        ["read", "--output", output].as_slice(),
        ["hosts"].as_slice(),
    ] {
        let ran = command::run(dev.command(call).env("WILLCALL_TOKEN_FILE", &token));
        assert_eq!(ran.code, 125, "{ran:?}");
        assert!(!ran.stderr.contains("the command"), "{ran:?}");
        assert!(
            ran.stderr.contains("check that WILLCALL_TOKEN_FILE"),
            "{ran:?}"
        );
    }
    let exec = dev.willcall(&["exec", "--max-bytes", "0", "--", "true"]);
    assert!(exec.stderr.contains("the command did not run"), "{exec:?}");
}

#[test]
fn a_log_that_cannot_be_written_stops_no_process() {
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("/dev/full");
    let ended = std::process::Command::new(binary())
        .args(["role", "spawner", "--socket", "/proc/nowhere/spawner.sock"])
        .stderr(full)
        .status()
        .expect("it starts");
    assert_eq!(ended.code(), Some(1), "a panic ends with 101");
}
