//! Memory of every process on the way of a large output.

use crate::Binaries;
use crate::row::{Row, Target};
use anyhow::{Context, ensure};
use serde_json::json;
use willcall_testkit::{Dev, processes};

const SMALL: u64 = 1 << 20;
const LARGE: u64 = 10 << 30;

/// Peak memory of gateway, link and executor after 10 GiB through one run, against their peak after 1 MiB: flat is 1.
pub(crate) fn ten_gibibytes(binaries: &Binaries) -> anyhow::Result<Vec<Row>> {
    let dev = Dev::start(&binaries.willcall);
    dev.wait_connected();
    let writer = binaries.writer.to_string_lossy().into_owned();
    let run = |bytes: u64| -> anyhow::Result<()> {
        let body = json!({"argv": [writer, "65536", bytes.to_string()]});
        let (_, started) = dev.api("POST", "/v1/hosts/dev/runs?wait=50", Some(&body));
        let id = started["run"].as_str().context("no run")?.to_owned();
        let outcome = dev.api("GET", &format!("/v1/runs/{id}?wait=50"), None).1;
        ensure!(
            outcome["stdout"]["total_size"] == bytes,
            "the run said {outcome}"
        );
        Ok(())
    };
    run(SMALL)?;
    let roles = ["gateway", "link", "executor"];
    let peak = |role| processes::status_kib(dev.role(role).pid, "VmHWM").context("no such process");
    let before = roles
        .into_iter()
        .map(peak)
        .collect::<anyhow::Result<Vec<_>>>()?;
    run(LARGE)?;
    let after = roles
        .into_iter()
        .map(peak)
        .collect::<anyhow::Result<Vec<_>>>()?;
    dev.stop();
    let rows = roles.into_iter().zip(before.into_iter().zip(after));
    Ok(rows
        .map(|(role, (before, after))| Row {
            name: "memory/10g",
            what: format!("peak RSS of the {role} after 10 GiB ÷ after 1 MiB through one run"),
            target: Target::AtMost(1.25),
            figures: vec![ratio(after, before)],
            note: format!("{after} and {before} KiB"),
        })
        .collect())
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn ratio(after: u64, before: u64) -> f64 {
    after as f64 / before as f64
}
