//! Delivery: at most once in, at least once out, each result stored once.

use crate::support::{Gateway, Host, exited, hello, stream};
use rusqlite::Connection;
use serde_json::json;
use tokio::task::JoinSet;
use uuid::Uuid;
use willcall_protocol::ids::RunId;
use willcall_protocol::message::{ToLink, ViewAsked};
use willcall_protocol::outcome::Cause;
use willcall_protocol::session::AgentEvent;

const LEDGER: Uuid = Uuid::from_u128(1);

/// Starts a run that nobody waits for.
async fn begin(gateway: &Gateway, host: &str) -> RunId {
    let path = format!("/v1/hosts/{host}/runs");
    let answer = gateway
        .caller()
        .post(&path, &json!({"argv": ["true"]}))
        .await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    let json = answer.json();
    assert_eq!(json["state"], "dispatched");
    json["run"]
        .as_str()
        .expect("an id")
        .parse()
        .expect("a UUID")
}

async fn state(gateway: &Gateway, run: RunId, wait: u32) -> serde_json::Value {
    gateway
        .caller()
        .get(&format!("/v1/runs/{run}?wait={wait}"))
        .await
        .json()
}

#[tokio::test]
async fn a_run_goes_out_and_its_result_comes_back() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("web");
    let mut host = Host::connect(&gateway, &identity).await;
    let caller = gateway.caller();
    let body = json!({"argv": ["echo", "hi"], "session": "s1", "env": {"A": "b"}, "cwd": "/tmp",
        "timeout_ms": 5000, "limits": {"max_bytes": 100, "max_lines": 7}, "strategy": "tail", "view": "raw",
        "reason": "a test", "turn": {"id": "t-1"}});
    let asked = caller.post("/v1/hosts/web/runs?wait=15", &body);
    let (answer, dispatch) = tokio::join!(asked, async {
        let dispatch = host.dispatch().await;
        host.accept(dispatch.run).await;
        host.finish(1, exited(dispatch.run, "hi\n")).await;
        assert_eq!(host.event().await, AgentEvent::Acked(1));
        dispatch
    });
    assert_eq!(dispatch.principal, "admin");
    assert_eq!(json!(dispatch.turn), json!({"id": "t-1", "calls": null}));
    assert_eq!(
        (dispatch.argv.len(), dispatch.limits.max_lines),
        (2, Some(7))
    );
    assert_eq!(dispatch.view, ViewAsked::Raw);
    assert_eq!(answer.status, 201);
    assert!(
        answer
            .head
            .contains(&format!("location: /v1/runs/{}", dispatch.run))
    );
    let json = answer.json();
    assert_eq!(
        (&json["host"], &json["state"]),
        (&json!("web"), &json!("exited"))
    );
    assert_eq!(
        (&json["session"], &json["stdout"]["result"]),
        (&json!("s1"), &json!("hi\n"))
    );
    assert_eq!(state(&gateway, dispatch.run, 0).await, json);
    assert!(
        matches!(host.to_link.as_slice(), [ToLink::Clock { server_time_ms }] if *server_time_ms > 0)
    );
    gateway.stop().await;
}

#[tokio::test]
async fn the_host_is_named_by_its_id_too_and_listed() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("web");
    gateway.register("absent");
    let host = Host::connect(&gateway, &identity).await;
    let run = begin(&gateway, &identity.agent.to_string()).await;
    let json = gateway.caller().get("/v1/hosts").await.json();
    let hosts = json["hosts"].as_array().expect("hosts");
    let seen: Vec<_> = hosts
        .iter()
        .map(|h| (h["name"].as_str(), h["connected"].as_bool()))
        .collect();
    assert_eq!(
        seen,
        [(Some("absent"), Some(false)), (Some("web"), Some(true))]
    );
    assert_eq!(hosts[1]["agent_version"], "9.9");
    assert_eq!(hosts[1]["running"], 1);
    assert!(
        hosts[1]["last_seen_ms"]
            .as_i64()
            .is_some_and(|ms| ms > 1_600_000_000_000)
    );
    assert!(hosts[0]["agent_version"].is_null() && hosts[0]["last_seen_ms"].is_null());
    drop(host);
    gateway.links(0).await;
    assert_eq!(state(&gateway, run, 0).await["state"], "dispatched");
}

#[tokio::test]
async fn an_open_run_is_dispatched_again_after_a_reconnection_and_a_restart() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("web");
    let mut host = Host::connect(&gateway, &identity).await;
    let run = begin(&gateway, "web").await;
    let first = host.dispatch().await;
    drop(host);
    gateway.links(0).await;
    let mut host = Host::connect(&gateway, &identity).await;
    assert_eq!(host.dispatch().await, first);
    host.accept(run).await;
    drop(host);
    let gateway = gateway.restart().await;
    let mut host = Host::connect(&gateway, &identity).await;
    assert_eq!(host.dispatch().await, first);
    let (json, ()) = tokio::join!(state(&gateway, run, 15), async {
        host.accept(run).await;
        host.finish(1, exited(run, "done")).await;
        assert_eq!(host.event().await, AgentEvent::Acked(1));
    });
    assert_eq!(json["stdout"]["result"], "done");
}

#[tokio::test]
async fn many_open_runs_are_dispatched_again_in_their_order() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("web");
    let mut host = Host::connect(&gateway, &identity).await;
    let mut runs = Vec::new();
    for _ in 0..40 {
        runs.push(begin(&gateway, "web").await);
        host.dispatch().await;
    }
    drop(host);
    gateway.links(0).await;
    let mut host = Host::connect(&gateway, &identity).await;
    for run in runs {
        assert_eq!(host.dispatch().await.run, run);
        host.accept(run).await;
    }
}

#[tokio::test]
async fn a_result_that_comes_twice_is_stored_once_and_acknowledged_twice() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("web");
    let mut host = Host::connect(&gateway, &identity).await;
    let run = begin(&gateway, "web").await;
    host.dispatch().await;
    host.finish(1, exited(run, "first")).await;
    assert_eq!(host.event().await, AgentEvent::Acked(1));
    drop(host);
    // A new link resumes after it; a host that has lost its memory of the acknowledgement sends it again.
    let (mut host, resume_from) =
        Host::connect_as(&gateway, &identity, hello(LEDGER, Vec::new())).await;
    assert_eq!(resume_from, 1);
    host.session
        .repeat_result(1, exited(run, "second"))
        .expect("room");
    host.finish(
        2,
        exited(RunId(Uuid::from_u128(9)), "nobody asked for it here"),
    )
    .await;
    assert_eq!(host.event().await, AgentEvent::Acked(2));
    assert_eq!(state(&gateway, run, 0).await["stdout"]["result"], "first");
    let adopted = state(&gateway, RunId(Uuid::from_u128(9)), 0).await;
    assert_eq!(adopted["stdout"]["result"], "nobody asked for it here");
    // Another ledger begins at its beginning.
    let other = hello(Uuid::from_u128(2), Vec::new());
    assert_eq!(Host::connect_as(&gateway, &identity, other).await.1, 0);
}

#[tokio::test]
async fn nothing_is_acknowledged_before_it_is_committed_but_shown_at_once() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("web");
    let mut host = Host::connect(&gateway, &identity).await;
    let mut callers = JoinSet::new();
    let caller = gateway.caller();
    let asked = caller.clone();
    callers.spawn(async move {
        asked
            .post("/v1/hosts/web/runs?wait=15", &json!({"argv": ["true"]}))
            .await
    });
    let run = host.dispatch().await.run;
    let lock = Connection::open(gateway.database()).expect("opened");
    lock.execute_batch("BEGIN IMMEDIATE").expect("locked");
    host.finish(1, exited(run, "early")).await;
    let shown = callers.join_next().await.expect("asked").expect("answered");
    assert_eq!(shown.json()["stdout"]["result"], "early");
    // The link is alive, and what it says next is not the acknowledgement.
    let path = format!("/v1/hosts/web/output?output={run}/stdout");
    callers.spawn(async move { caller.get(&path).await });
    assert!(matches!(host.event().await, AgentEvent::Read(_)));
    lock.execute_batch("COMMIT").expect("released");
    assert_eq!(host.event().await, AgentEvent::Acked(1));
    let stored: i64 = lock
        .query_row(
            "SELECT count(*) FROM runs WHERE finished IS NOT NULL",
            [],
            |row| row.get(0),
        )
        .expect("counted");
    assert_eq!(stored, 1);
}

#[tokio::test]
async fn a_newer_link_fences_the_older() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("web");
    let older = Host::connect(&gateway, &identity).await;
    let mut newer = Host::connect(&gateway, &identity).await;
    let (code, reason) = older.closed().await;
    assert_eq!(code, 4409, "{reason}");
    let run = begin(&gateway, "web").await;
    assert_eq!(newer.dispatch().await.run, run);
    gateway.links(1).await;
}

#[tokio::test]
async fn a_host_cannot_end_the_runs_of_another() {
    let gateway = Gateway::start().await;
    let mut victim = Host::connect(&gateway, &gateway.register("victim")).await;
    let mut thief = Host::connect(&gateway, &gateway.register("thief")).await;
    let run = begin(&gateway, "victim").await;
    victim.dispatch().await;
    thief.finish(1, exited(run, "forged")).await;
    assert_eq!(thief.event().await, AgentEvent::Acked(1));
    thief.refuse(run, Cause::Busy).await;
    assert_eq!(state(&gateway, run, 0).await["state"], "dispatched");
    let (json, ()) = tokio::join!(
        state(&gateway, run, 15),
        victim.finish(1, exited(run, "true"))
    );
    assert_eq!(json["stdout"]["result"], "true");
}

#[tokio::test]
async fn a_refusal_is_a_result_and_a_conflict_is_not() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("web");
    let mut host = Host::connect(&gateway, &identity).await;
    let caller = gateway.caller();
    let body = json!({"argv": ["true"]});
    let (answer, ()) = tokio::join!(caller.post("/v1/hosts/web/runs?wait=15", &body), async {
        let run = host.dispatch().await.run;
        host.refuse(run, Cause::Busy).await;
    });
    let json = answer.json();
    assert_eq!(
        (answer.status, &json["state"], &json["cause"]),
        (201, &json!("refused"), &json!("busy"))
    );
    assert_eq!(json["message"], "because");
    let (answer, run) = tokio::join!(caller.post("/v1/hosts/web/runs?wait=15", &body), async {
        let run = host.dispatch().await.run;
        host.refuse(run, Cause::Conflict).await;
        run
    });
    answer.is_problem(409, "conflict", "unknown");
    caller
        .get(&format!("/v1/runs/{run}"))
        .await
        .is_problem(404, "unknown_run", "n/a");
}

#[tokio::test]
async fn a_cancel_reaches_the_host_now_or_when_it_is_back() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("web");
    let mut host = Host::connect(&gateway, &identity).await;
    let run = begin(&gateway, "web").await;
    host.dispatch().await;
    let path = format!("/v1/runs/{run}/cancel");
    let answer = gateway.caller().send("POST", &path, &[], "").await;
    assert_eq!(answer.status, 202);
    assert_eq!(host.event().await, AgentEvent::Cancel(run));
    drop(host);
    gateway.links(0).await;
    let second = gateway.caller().send("POST", &path, &[], "").await;
    assert_eq!(second.status, 202);
    let mut host = Host::connect(&gateway, &identity).await;
    assert_eq!(host.event().await, AgentEvent::Cancel(run));
    assert_eq!(host.dispatch().await.run, run);
    let (json, ()) = tokio::join!(
        state(&gateway, run, 15),
        host.refuse(run, Cause::CanceledBefore)
    );
    assert_eq!(
        (&json["state"], &json["cause"]),
        (&json!("refused"), &json!("canceled_before"))
    );
}

#[tokio::test]
async fn a_run_that_did_not_arrive_for_long_is_not_started_late() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("web");
    let mut host = Host::connect(&gateway, &identity).await;
    let late = begin(&gateway, "web").await;
    let running = begin(&gateway, "web").await;
    host.dispatch().await;
    drop(host);
    gateway.links(0).await;
    let database = Connection::open(gateway.database()).expect("opened");
    database
        .execute("UPDATE runs SET created = created - 120000", [])
        .expect("aged");
    let (mut host, _) = Host::connect_as(&gateway, &identity, hello(LEDGER, vec![running])).await;
    assert_eq!(host.event().await, AgentEvent::Cancel(late));
    assert_eq!(host.dispatch().await.run, late);
    assert_eq!(host.dispatch().await.run, running);
    let (json, ()) = tokio::join!(
        state(&gateway, late, 15),
        host.refuse(late, Cause::CanceledBefore)
    );
    assert_eq!(
        (&json["state"], &json["cause"]),
        (&json!("refused"), &json!("expired"))
    );
}

#[tokio::test]
async fn a_run_that_turns_out_to_be_running_is_not_ended_for_being_late() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("web");
    let mut host = Host::connect(&gateway, &identity).await;
    let run = begin(&gateway, "web").await;
    host.dispatch().await;
    drop(host);
    gateway.links(0).await;
    let database = Connection::open(gateway.database()).expect("opened");
    database
        .execute("UPDATE runs SET cancel = 'late'", [])
        .expect("marked");
    let (mut host, _) = Host::connect_as(&gateway, &identity, hello(LEDGER, vec![run])).await;
    assert_eq!(host.dispatch().await.run, run);
}

/// The refusal is about this dispatch; the earlier one may have been executed.
#[tokio::test]
async fn a_host_that_cannot_look_into_its_ledger_does_not_end_what_it_had_before() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("web");
    let mut host = Host::connect(&gateway, &identity).await;
    let run = begin(&gateway, "web").await;
    host.dispatch().await;
    drop(host);
    gateway.links(0).await;
    let mut host = Host::connect(&gateway, &identity).await;
    assert_eq!(host.dispatch().await.run, run);
    host.refuse(run, Cause::LedgerUnavailable).await;
    let (json, ()) = tokio::join!(
        state(&gateway, run, 15),
        host.finish(1, exited(run, "it ran"))
    );
    assert_eq!(json["stdout"]["result"], "it ran");
    // What it never had before is refused for good.
    let new = begin(&gateway, "web").await;
    while !matches!(host.event().await, AgentEvent::Dispatch(asked) if asked.run == new) {}
    let (json, ()) = tokio::join!(
        state(&gateway, new, 15),
        host.refuse(new, Cause::LedgerUnavailable)
    );
    assert_eq!(
        (&json["state"], &json["cause"]),
        (&json!("refused"), &json!("ledger_unavailable"))
    );
}

#[tokio::test]
async fn a_host_without_its_ledger_is_asked_about_nothing_earlier() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("web");
    let mut host = Host::connect(&gateway, &identity).await;
    let run = begin(&gateway, "web").await;
    host.dispatch().await;
    host.finish(7, exited(RunId(Uuid::from_u128(9)), "")).await;
    assert_eq!(host.event().await, AgentEvent::Acked(7));
    drop(host);
    gateway.links(0).await;
    let without = hello(Uuid::nil(), Vec::new());
    let (mut host, resume_from) = Host::connect_as(&gateway, &identity, without).await;
    assert_eq!(resume_from, 0);
    let new = begin(&gateway, "web").await;
    assert_eq!(host.dispatch().await.run, new);
    drop(host);
    gateway.links(0).await;
    let (mut host, resume_from) =
        Host::connect_as(&gateway, &identity, hello(LEDGER, Vec::new())).await;
    assert_eq!(resume_from, 7);
    assert_eq!(host.dispatch().await.run, run);
}

#[tokio::test]
async fn the_largest_previews_come_through_whole() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("web");
    let mut host = Host::connect(&gateway, &identity).await;
    // Each of these becomes six bytes of JSON.
    let text: String = (0..262_144_u32)
        .map(|n| char::from(u8::try_from(n % 8 + 1).expect("small")))
        .collect();
    let caller = gateway.caller();
    let body = json!({"argv": ["true"]});
    let (answer, ()) = tokio::join!(caller.post("/v1/hosts/web/runs?wait=15", &body), async {
        let run = host.dispatch().await.run;
        let mut report = exited(run, &text);
        report.stderr = Some(stream(&text));
        host.finish(1, report).await;
    });
    assert_eq!(answer.status, 201);
    let json = answer.json();
    assert_eq!(json["stdout"]["result"].as_str(), Some(&*text));
    assert_eq!(json["stderr"]["result"].as_str(), Some(&*text));
}

#[tokio::test]
async fn a_drain_tells_the_hosts_when_to_come_back_and_answers_who_waits() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("web");
    let mut host = Host::connect(&gateway, &identity).await;
    let caller = gateway.caller();
    let mut callers = JoinSet::new();
    callers.spawn(async move {
        caller
            .post("/v1/hosts/web/runs?wait=300", &json!({"argv": ["sleep"]}))
            .await
    });
    host.dispatch().await;
    let stopping = gateway.stop();
    let (_dir, (code, reason)) = tokio::join!(stopping, async {
        let closed = crate::support::closed(&mut host.socket, |bytes| {
            host.to_link
                .push(willcall_protocol::frame::decode(bytes).expect("for the link"));
        });
        closed.await
    });
    assert_eq!(code, 1001, "{reason}");
    assert!(
        matches!(host.to_link.last(), Some(ToLink::Drain { .. })),
        "{:?}",
        host.to_link
    );
    let answer = callers.join_next().await.expect("asked").expect("answered");
    assert_eq!(
        (answer.status, &answer.json()["state"]),
        (202, &json!("dispatched"))
    );
}

/// Backpressure ends at the caller, in words, and what was promised before is kept.
#[tokio::test]
async fn a_host_that_does_not_answer_becomes_busy_and_recovers() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("web");
    let mut host = Host::connect(&gateway, &identity).await;
    let caller = gateway.caller();
    let body = json!({"argv": ["true"]});
    let mut promised = 0;
    let busy = loop {
        let answer = caller.post("/v1/hosts/web/runs", &body).await;
        if answer.status != 202 {
            break answer;
        }
        promised += 1;
        assert!(promised < 1000, "the gateway takes more than it can hold");
    };
    busy.is_problem(503, "host_busy", "not_started");
    assert!(busy.head.contains("retry-after: 1"));
    for seq in 1..=promised {
        let run = loop {
            match host.event().await {
                AgentEvent::Dispatch(dispatch) => break dispatch.run,
                AgentEvent::Acked(_) => {}
                other => panic!("not a dispatch: {other:?}"),
            }
        };
        host.accept(run).await;
        host.finish(seq, exited(run, "")).await;
    }
    let run = begin(&gateway, "web").await;
    while !matches!(host.event().await, AgentEvent::Dispatch(last) if last.run == run) {}
}
