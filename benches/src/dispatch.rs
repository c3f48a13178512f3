//! A command through all processes.

use crate::Binaries;
use crate::row::{Row, Target, median, percentile};
use anyhow::{Context, ensure};
use serde_json::Value;
use std::process::Command;
use std::time::Instant;
use willcall_testkit::Dev;

const ROUNDS: usize = 9;
const CALLS: usize = 60;

/// `echo hi` from an HTTP call to its answer (gateway, mutual TLS, link, executor with its ledger synced, runner, and
/// back), against spawning and capturing it on the spot.
pub(crate) fn echo(binaries: &Binaries) -> anyhow::Result<Vec<Row>> {
    let dev = Dev::start(&binaries.willcall);
    dev.wait_connected();
    let call = caller(&dev)?;
    let (mut p50, mut p99, mut ours_ms, mut bare_ms) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..CALLS {
            bare.push(timed(local)?);
            ours.push(timed(&call)?);
        }
        if round > 0 {
            p50.push(median(&ours) / median(&bare));
            p99.push(percentile(&ours, 99) / percentile(&bare, 99));
            ours_ms.push(median(&ours));
            bare_ms.push(median(&bare));
        }
    }
    dev.stop();
    let note = format!(
        "medians {:.2} and {:.2} ms",
        median(&ours_ms),
        median(&bare_ms)
    );
    let row = |what: &str, target, figures| Row {
        name: "dispatch/echo",
        what: what.into(),
        target: Target::AtMost(target),
        figures,
        note: note.clone(),
    };
    Ok(vec![
        row(
            "p50 of HTTP call to result ÷ bare spawn and capture",
            1.8,
            p50,
        ),
        row("p99 of the same", 2.5, p99),
    ])
}

fn timed(what: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let began = Instant::now();
    what()?;
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

/// The same program in the environment that a host gives it: with a UTF-8 locale `echo` opens a dozen files more.
fn local() -> anyhow::Result<()> {
    let out = Command::new("/bin/echo")
        .arg("hi")
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("LANG", "C.UTF-8")
        .output()
        .context("cannot run echo")?;
    ensure!(out.stdout == b"hi\n", "echo said {:?}", out.stdout);
    Ok(())
}

/// One kept connection, as a control plane would have.
fn caller(dev: &Dev) -> anyhow::Result<impl Fn() -> anyhow::Result<()> + use<>> {
    let (_, hosts) = dev.api("GET", "/v1/hosts", None);
    let host = hosts["hosts"][0]["name"].as_str().context("no host")?;
    let url = format!("{}/v1/hosts/{host}/runs?wait=10", dev.url());
    let token = format!("Bearer {}", dev.token());
    let agent = ureq::Agent::new_with_defaults();
    Ok(move || {
        let body = serde_json::json!({"argv": ["/bin/echo", "hi"]});
        let mut answer = agent
            .post(&url)
            .header("authorization", &token)
            .send_json(&body)?;
        let outcome: Value = answer.body_mut().read_json()?;
        ensure!(
            outcome["stdout"]["result"] == "hi\n",
            "the run said {outcome}"
        );
        Ok(())
    })
}
