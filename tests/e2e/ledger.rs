//! A host whose ledger is gone has forgotten what it executed: the gateway does not have it executed again.

use crate::binary;
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use willcall_testkit::{Dev, wait_for};

const WITHIN: Duration = Duration::from_mins(1);

fn unlink_all(directory: &Path, belongs: impl Fn(&str) -> bool) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries {
        let entry = entry.expect("an entry");
        if belongs(&entry.file_name().to_string_lossy()) {
            std::fs::remove_file(entry.path()).expect("unlinked");
        }
    }
}

#[test]
fn a_run_whose_ledger_is_gone_is_lost_and_not_run_again() {
    let dev = Dev::start(binary());
    let trace = dev.state().join("trace");
    let script = "echo ran >> \"$1\"; exec sleep 300";
    let body = json!({"argv": ["sh", "-c", script, "sh", trace]});
    let (status, outcome) = dev.api("POST", "/v1/hosts/dev/runs", Some(&body));
    assert_eq!(status, 202, "{outcome}");
    let run = outcome["run"].as_str().expect("an id");
    wait_for("the command's first act", WITHIN, || {
        trace.exists().then_some(())
    });
    let host = dev.state().join("host");
    unlink_all(&host, |name| name.starts_with("ledger.db"));
    unlink_all(&host.join("spool"), |_| true);
    dev.kill_role("executor");
    let outcome = wait_for("its end", WITHIN, || {
        let (_, outcome) = dev.api("GET", &format!("/v1/runs/{run}?wait=5"), None);
        let passing = ["dispatched", "accepted", "starting", "running"];
        (!passing.contains(&outcome["state"].as_str()?)).then_some(outcome)
    });
    assert_eq!(
        (&outcome["state"], &outcome["cause"]),
        (&json!("lost"), &json!("outcome_unknown")),
        "{outcome}"
    );
    // The host is at work again, and whatever it was sent before this, it has had.
    let after = dev.willcall(&["exec", "--", "cat", trace.to_str().expect("UTF-8")]);
    assert_eq!(
        (after.code, after.text().as_str()),
        (0, "ran\n"),
        "{after:?}"
    );
}
