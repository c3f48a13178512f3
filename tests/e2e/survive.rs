//! `kill -9` of every process in the middle of a run: the result arrives, once.

use crate::binary;
use crate::law::{check_stream, seq};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use willcall_testkit::{Dev, processes, wait_for};

const RESULT_WITHIN: Duration = Duration::from_mins(1);

/// A run that waits for a file, so that a test decides what happens in its middle.
pub(crate) struct Gated {
    id: String,
    gate: PathBuf,
    trace: PathBuf,
}

fn start(dev: &Dev, name: &str) -> Gated {
    start_on(dev, &host(dev), name)
}

pub(crate) fn start_on(dev: &Dev, host: &str, name: &str) -> Gated {
    let gate = dev.state().join(format!("{name}.gate"));
    let trace = dev.state().join(format!("{name}.trace"));
    let script = "echo ran >> \"$2\"; seq 2500; while [ ! -e \"$1\" ]; do sleep 0.02; done; seq 2501 5000; echo done >&2; exit 4";
    let body = json!({"session": "s", "argv": ["sh", "-c", script, "sh", gate, trace]});
    let (status, outcome) = dev.api("POST", &format!("/v1/hosts/{host}/runs"), Some(&body));
    assert_eq!(status, 202, "{outcome}");
    let id = outcome["run"].as_str().expect("an id").to_owned();
    wait_for("the command's first act", RESULT_WITHIN, || {
        trace.exists().then_some(())
    });
    Gated { id, gate, trace }
}

fn host(dev: &Dev) -> String {
    dev.api("GET", "/v1/hosts", None).1["hosts"][0]["name"]
        .as_str()
        .expect("a host")
        .to_owned()
}

impl Gated {
    pub(crate) fn open(&self) {
        std::fs::write(&self.gate, b"").expect("gate");
    }

    fn outcome(&self, dev: &Dev) -> Value {
        let path = format!("/v1/runs/{}?wait=5", self.id);
        wait_for("the result", RESULT_WITHIN, || {
            let (status, outcome) = dev.api("GET", &path, None);
            assert_eq!(status, 200, "{outcome}");
            let passing = ["dispatched", "accepted", "starting", "running"];
            (!passing.contains(&outcome["state"].as_str().expect("a state"))).then_some(outcome)
        })
    }

    #[track_caller]
    pub(crate) fn check(&self, dev: &Dev) {
        let outcome = self.outcome(dev);
        assert_eq!(
            (&outcome["state"], &outcome["exit_code"]),
            (&json!("exited"), &json!(4)),
            "{outcome}"
        );
        check_stream(&outcome["stdout"], &seq(1, 5000), 102_400, 2000);
        check_stream(&outcome["stderr"], b"done\n", 102_400, 2000);
        assert_eq!(
            std::fs::read_to_string(&self.trace).expect("trace"),
            "ran\n",
            "it ran more than once"
        );
        assert_eq!(self.outcome(dev), outcome, "the result changed");
    }
}

#[test]
fn a_killed_link_costs_nothing() {
    let dev = Dev::start(binary());
    let run = start(&dev, "link");
    dev.kill_role("link");
    run.open();
    run.check(&dev);
    dev.stop();
}

#[test]
fn a_killed_executor_costs_nothing() {
    let dev = Dev::start(binary());
    let run = start(&dev, "executor");
    dev.kill_role("executor");
    run.open();
    run.check(&dev);
    dev.stop();
}

#[test]
fn a_killed_spawner_costs_nothing() {
    let dev = Dev::start(binary());
    let run = start(&dev, "spawner");
    dev.kill_role("spawner");
    run.open();
    run.check(&dev);
    let after = dev.willcall(&["exec", "--", "echo", "still there"]);
    assert_eq!(
        (after.code, after.text().as_str()),
        (0, "still there\n"),
        "{}",
        after.stderr
    );
    dev.stop();
}

#[test]
fn link_executor_and_spawner_killed_together_cost_nothing() {
    let dev = Dev::start(binary());
    let run = start(&dev, "all");
    for role in ["link", "executor", "spawner"] {
        processes::kill_9(dev.role(role).pid);
    }
    run.open();
    run.check(&dev);
    dev.stop();
}

#[test]
fn a_run_that_ends_while_the_executor_is_away_is_reported_from_its_spool() {
    let dev = Dev::start(binary());
    let run = start(&dev, "spool");
    let agent = dev.role("agent").pid;
    let runner = runner(&dev);
    // Without its parent nobody starts a new executor.
    stop(agent, nix::sys::signal::Signal::SIGSTOP);
    processes::kill_9(dev.role("executor").pid);
    run.open();
    let gone = || processes::look(runner).is_none_or(|p| p.state == 'Z');
    wait_for("the runner's end", Duration::from_secs(10), || {
        gone().then_some(())
    });
    stop(agent, nix::sys::signal::Signal::SIGCONT);
    run.check(&dev);
    dev.stop();
}

#[test]
fn a_killed_runner_is_lost_and_nothing_runs_again() {
    let dev = Dev::start(binary());
    let run = start(&dev, "lost");
    processes::kill_9(runner(&dev));
    run.open();
    let outcome = run.outcome(&dev);
    assert_eq!(
        (&outcome["state"], &outcome["cause"], &outcome["exit_code"]),
        (&json!("lost"), &json!("outcome_unknown"), &Value::Null)
    );
    assert_eq!(std::fs::read_to_string(&run.trace).expect("trace"), "ran\n");
    dev.stop();
}

#[test]
fn the_same_run_sent_a_hundred_times_has_one_effect() {
    let dev = Dev::start(binary());
    let trace = dev.state().join("dup.trace");
    let id = "01990000-0000-7000-8000-000000000001";
    let body =
        json!({"run": id, "argv": ["sh", "-c", "echo ran >> \"$1\"; seq 3000", "sh", trace]});
    let path = format!("/v1/hosts/{}/runs?wait=30", host(&dev));
    let outcomes: Vec<Value> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..100)
            .map(|_| scope.spawn(|| dev.api("POST", &path, Some(&body))))
            .collect();
        calls
            .into_iter()
            .map(|call| call.join().expect("joined").1)
            .collect()
    });
    assert!(
        outcomes.iter().all(|outcome| *outcome == outcomes[0]),
        "answers differ"
    );
    dev.kill_role("executor");
    dev.wait_connected();
    assert_eq!(dev.api("POST", &path, Some(&body)).1, outcomes[0]);
    assert_eq!(std::fs::read_to_string(&trace).expect("trace"), "ran\n");
    let other = json!({"run": id, "argv": ["true"]});
    let (status, problem) = dev.api("POST", &path, Some(&other));
    assert_eq!((status, &problem["code"]), (409, &json!("conflict")));
    dev.stop();
}

#[test]
fn a_stopped_system_leaves_no_process() {
    let dev = Dev::start(binary());
    let run = start(&dev, "stop");
    let state = dev.state().to_str().expect("UTF-8").to_owned();
    dev.stop();
    drop(run);
    assert_eq!(processes::with_argument(&state), Vec::new());
}

fn runner(dev: &Dev) -> i32 {
    let agent = dev.role("agent").pid;
    let all = processes::descendants(agent);
    all.into_iter()
        .find(|p| p.name.starts_with("wc-run"))
        .expect("a runner")
        .pid
}

fn stop(pid: i32, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).expect("signal");
}
