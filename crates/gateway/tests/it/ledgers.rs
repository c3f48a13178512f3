//! A host that comes back with another ledger has forgotten what it did: nothing that may have run is sent to it again.

use crate::support::{Gateway, Host, Identity, exited, hello};
use rusqlite::Connection;
use serde_json::{Value, json};
use uuid::Uuid;
use willcall_protocol::ids::RunId;
use willcall_protocol::outcome::Cause;
use willcall_protocol::session::AgentEvent;

const FIRST: Uuid = Uuid::from_u128(1);
const SECOND: Uuid = Uuid::from_u128(2);

async fn begin(gateway: &Gateway) -> RunId {
    let body = json!({"argv": ["true"]});
    let answer = gateway.caller().post("/v1/hosts/web/runs", &body).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    serde_json::from_value(answer.json()["run"].clone()).expect("an id")
}

async fn outcome(gateway: &Gateway, run: RunId) -> Value {
    let path = format!("/v1/runs/{run}?wait=15");
    gateway.caller().get(&path).await.json()
}

async fn connect(gateway: &Gateway, identity: &Identity, ledger: Uuid) -> Host {
    Host::connect_as(gateway, identity, hello(ledger, Vec::new()))
        .await
        .0
}

#[track_caller]
fn is_lost(outcome: &Value) {
    assert_eq!(
        (&outcome["state"], &outcome["cause"]),
        (&json!("lost"), &json!("outcome_unknown")),
        "{outcome}"
    );
    let message = outcome["message"].as_str().expect("a message");
    assert!(message.contains("it may have run"), "{message}");
}

#[tokio::test]
async fn what_one_ledger_was_sent_is_never_sent_to_another() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("web");
    let mut host = connect(&gateway, &identity, FIRST).await;
    let accepted = begin(&gateway).await;
    host.dispatch().await;
    host.accept(accepted).await;
    let unanswered = begin(&gateway).await;
    host.dispatch().await;
    drop(host);
    gateway.links(0).await;
    let mut host = connect(&gateway, &identity, SECOND).await;
    let (first, second) = tokio::join!(outcome(&gateway, accepted), outcome(&gateway, unanswered));
    is_lost(&first);
    is_lost(&second);
    // What is asked for now is the first that it gets, also after a restart of the gateway.
    let new = begin(&gateway).await;
    assert_eq!(host.dispatch().await.run, new);
    drop(host);
    let gateway = gateway.restart().await;
    let mut host = connect(&gateway, &identity, SECOND).await;
    assert_eq!(host.dispatch().await.run, new);
}

#[tokio::test]
async fn the_old_ledger_is_remembered_over_a_restart_of_the_gateway() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("web");
    let mut host = connect(&gateway, &identity, FIRST).await;
    let run = begin(&gateway).await;
    host.dispatch().await;
    drop(host);
    let gateway = gateway.restart().await;
    let _host = connect(&gateway, &identity, SECOND).await;
    is_lost(&outcome(&gateway, run).await);
}

/// Callers may have acted on what they were told.
#[tokio::test]
async fn a_result_of_the_old_ledger_comes_too_late() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("web");
    let mut host = connect(&gateway, &identity, FIRST).await;
    let run = begin(&gateway).await;
    host.dispatch().await;
    drop(host);
    gateway.links(0).await;
    drop(connect(&gateway, &identity, SECOND).await);
    let first = outcome(&gateway, run).await;
    is_lost(&first);
    gateway.links(0).await;
    let mut host = connect(&gateway, &identity, FIRST).await;
    host.finish(1, exited(run, "it ran")).await;
    assert_eq!(host.event().await, AgentEvent::Acked(1));
    assert_eq!(outcome(&gateway, run).await, first);
}

/// A run that was on no link may be executed by whoever comes.
#[tokio::test]
async fn what_was_never_sent_goes_to_any_ledger() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("web");
    let mut host = connect(&gateway, &identity, FIRST).await;
    let run = begin(&gateway).await;
    host.dispatch().await;
    drop(host);
    gateway.links(0).await;
    let database = Connection::open(gateway.database()).expect("opened");
    database
        .execute("UPDATE runs SET ledger = NULL", [])
        .expect("as if it had never been sent");
    let mut host = connect(&gateway, &identity, SECOND).await;
    assert_eq!(host.dispatch().await.run, run);
    // From here on it has been sent.
    drop(host);
    gateway.links(0).await;
    let _host = connect(&gateway, &identity, FIRST).await;
    is_lost(&outcome(&gateway, run).await);
}

/// It is in nobody's list while its result is on its way, and its host may need a day for it.
#[tokio::test]
async fn a_run_that_was_accepted_is_not_ended_for_being_late() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("web");
    let mut host = connect(&gateway, &identity, FIRST).await;
    let run = begin(&gateway).await;
    host.dispatch().await;
    host.accept(run).await;
    // Whatever is acknowledged came after it.
    let other = RunId(Uuid::from_u128(9));
    host.finish(1, exited(other, "")).await;
    assert_eq!(host.event().await, AgentEvent::Acked(1));
    drop(host);
    gateway.links(0).await;
    age(&gateway);
    let gateway = gateway.restart().await;
    let mut host = connect(&gateway, &identity, FIRST).await;
    // No cancel before it.
    assert_eq!(host.dispatch().await.run, run);
    // The same ledger without its row: a disk that was set back.
    host.refuse(run, Cause::CanceledBefore).await;
    is_lost(&outcome(&gateway, run).await);
}

fn age(gateway: &Gateway) {
    let database = Connection::open(gateway.database()).expect("opened");
    let aged = database.execute("UPDATE runs SET created = created - 120000", []);
    assert_eq!(aged.expect("aged"), 2);
}
