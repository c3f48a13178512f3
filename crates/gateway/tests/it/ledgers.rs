//! A host that comes back with another ledger has forgotten what it did: nothing that may have run is sent to it again.

use crate::support::{Gateway, Host, Identity, exited, hello, short};
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

#[tokio::test]
async fn a_clone_of_a_live_host_is_refused_and_the_host_left_alone() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("web");
    let mut host = connect(&gateway, &identity, FIRST).await;
    let clone = Host::greeting(&gateway, &identity, hello(SECOND, Vec::new())).await;
    let refused = clone.closed();
    tokio::pin!(refused);
    // The host is alive: it answers a ping, and goes on.
    let run = begin(&gateway).await;
    let (code, reason) = loop {
        tokio::select! {
            closed = &mut refused => break closed,
            event = host.event() => assert!(matches!(event, AgentEvent::Dispatch(_)), "{event:?}"),
        }
    };
    assert_eq!(code, 4410, "{reason}");
    assert!(reason.contains("clone"), "{reason}");
    host.accept(run).await;
    host.finish(1, exited(run, "ran here")).await;
    let ended = outcome(&gateway, run).await;
    assert_eq!(ended["stdout"]["result"], "ran here", "{ended}");
    // With its own ledger it may come again at any time.
    let _again = connect(&gateway, &identity, FIRST).await;
    assert_eq!(host.closed().await.0, 4409);
}

/// A host whose state was wiped must not be locked out by what is left of its last connection.
#[tokio::test]
async fn a_link_that_answers_nothing_makes_room_for_another_ledger() {
    let gateway = Gateway::start_with(short()).await;
    let identity = gateway.register("web");
    let silent = connect(&gateway, &identity, FIRST).await;
    let mut host = connect(&gateway, &identity, SECOND).await;
    assert_eq!(silent.closed().await.0, 4409);
    let run = begin(&gateway).await;
    assert_eq!(host.dispatch().await.run, run);
}
