//! What is said of outputs that nobody holds, since their whole text was given in the result.

use crate::support::{Answer, Gateway, Host, exited, stream};
use serde_json::json;
use willcall_protocol::message::{ReadFailure, ToGateway};
use willcall_protocol::session::AgentEvent;

/// Reads, and has the host say that it has no such output.
async fn read(gateway: &Gateway, host: &mut Host, path: &str) -> Answer {
    let caller = gateway.caller();
    let (answer, ()) = tokio::join!(caller.get(path), async {
        let call = loop {
            match host.event().await {
                AgentEvent::Read(read) => break read.call,
                AgentEvent::Acked(_) => {}
                other => panic!("not a read: {other:?}"),
            }
        };
        let refused = ToGateway::ReadFailed {
            call,
            reason: ReadFailure::NotFound,
            message: "there is no output".into(),
        };
        host.session.send(refused).expect("room");
        host.flush().await;
    });
    answer.is_problem(404, "not_found", "n/a");
    answer
}

#[tokio::test]
async fn a_stream_that_passed_through_whole_is_not_held_and_that_is_said() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("web");
    let mut host = Host::connect(&gateway, &identity).await;
    let caller = gateway.caller();
    let body = json!({"argv": ["true"], "session": "s"});
    let (answer, run) = tokio::join!(caller.post("/v1/hosts/web/runs?wait=15", &body), async {
        let run = host.dispatch().await.run;
        let mut report = exited(run, "all of it");
        report.stderr = Some(stream(""));
        host.finish(1, report).await;
        run
    });
    assert_eq!(answer.status, 201, "{}", answer.body);
    let by_run = format!("/v1/runs/{run}/output?stream=");
    let by_host = format!("/v1/hosts/web/output?output={run}/");
    for (path, expected) in [
        (
            format!("{by_run}stdout"),
            "all of stdout, 9 bytes, was given in the run's result",
        ),
        (format!("{by_run}stderr"), "the run wrote nothing to stderr"),
        (format!("{by_run}tty"), "there is no output"),
        (
            format!("{by_host}stdout&session=s"),
            "was given in the run's result",
        ),
        // Other sessions learn nothing of it.
        (format!("{by_host}stdout&session=t"), "there is no output"),
    ] {
        let answer = read(&gateway, &mut host, &path).await;
        let detail = answer.json()["detail"]
            .as_str()
            .expect("a detail")
            .to_owned();
        assert!(detail.ends_with(expected), "{path}: {detail}");
    }
}
