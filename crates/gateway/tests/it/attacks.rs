//! Who must not get in, and what must not be said: each is refused, and a host that is there goes on undisturbed.

use crate::support::{Gateway, Host, Socket, client_config, closed, dial, exited, hello, short};
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use std::time::{Duration, SystemTime};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use uuid::Uuid;
use willcall_gateway::db::{Access, hosts};
use willcall_gateway::limits::MAX_HANDSHAKES;
use willcall_gateway::pki::Ca;
use willcall_protocol::frame::{self, Channel};
use willcall_protocol::ids::AgentId;
use willcall_protocol::limits::{MAX_MESSAGE, MAX_TEXT};
use willcall_protocol::message::{ToGateway, ToLink};
use willcall_protocol::session::AgentEvent;

/// A host that was there before the attack still gets its work done.
async fn undisturbed(gateway: &Gateway, host: &mut Host) {
    let body = json!({"argv": ["true"]});
    let caller = gateway.caller();
    let (answer, ()) = tokio::join!(caller.post("/v1/hosts/good/runs?wait=15", &body), async {
        let run = host.dispatch().await.run;
        host.finish(1, exited(run, "still here")).await;
    });
    assert_eq!(answer.status, 201, "{}", answer.body);
}

/// Not even a websocket for that key and certificate.
#[track_caller]
fn refused(dialed: Result<Socket, Error>, what: &str) -> Error {
    match dialed {
        Ok(_) => panic!("{what} got in"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn wrong_certificates_do_not_get_in() {
    let gateway = Gateway::start().await;
    let good = gateway.register("good");
    let mut host = Host::connect(&gateway, &good).await;
    let now = SystemTime::now();
    let foreign = Ca::generate(now).expect("a CA");
    let long_ago = now - Duration::from_hours(100 * 24);
    let server = std::fs::read_to_string(gateway.state().server()).expect("readable");
    let cases = [
        ("no certificate", None),
        (
            "a foreign CA",
            Some(foreign.issue_agent(good.agent, now).expect("issued").pem()),
        ),
        (
            "an expired certificate",
            Some(
                gateway
                    .ca()
                    .issue_agent(good.agent, long_ago)
                    .expect("issued")
                    .pem(),
            ),
        ),
        ("the server's certificate", Some(server)),
    ];
    for (what, identity) in cases {
        let config = client_config(&gateway, identity.as_deref());
        let error = refused(dial(&gateway, config, "/v1/link").await, what);
        assert!(
            matches!(error, Error::Io(_) | Error::Tls(_)),
            "{what}: {error:?}"
        );
    }
    undisturbed(&gateway, &mut host).await;
}

#[tokio::test]
async fn strangers_and_the_revoked_are_told_so() {
    let gateway = Gateway::start().await;
    let mut host = Host::connect(&gateway, &gateway.register("good")).await;
    let revoked = gateway.register("revoked");
    let agent = revoked.agent;
    let revoke = gateway
        .db
        .call(Access::Durable, move |c| hosts::revoke(c, agent, 1));
    revoke.await.expect("revoked");
    let stranger = AgentId(Uuid::from_u128(77));
    let stranger = gateway
        .ca()
        .issue_agent(stranger, SystemTime::now())
        .expect("issued")
        .pem();
    for (what, pem, path, status) in [
        ("a stranger", &stranger, "/v1/link", 403),
        ("a revoked agent", &revoked.pem, "/v1/link", 403),
        (
            "a wrong path",
            &gateway.register("other").pem,
            "/v2/link",
            404,
        ),
    ] {
        let config = client_config(&gateway, Some(pem));
        match refused(dial(&gateway, config, path).await, what) {
            Error::Http(response) => assert_eq!(response.status(), status, "{what}"),
            other => panic!("{what}: {other:?}"),
        }
    }
    undisturbed(&gateway, &mut host).await;
}

fn message(channel: Channel, message: &impl serde::Serialize) -> Message {
    Message::Binary(frame::encode(channel, message).expect("encoded").into())
}

#[tokio::test]
async fn what_is_no_session_is_closed_with_its_reason() {
    let gateway = Gateway::start().await;
    let mut host = Host::connect(&gateway, &gateway.register("good")).await;
    let bad = gateway.register("bad");
    let mut too_new = hello(Uuid::from_u128(1), Vec::new());
    (too_new.min_version, too_new.max_version) = (8, 9);
    let pong = ToGateway::Pong { nonce: 1 };
    let cases = [
        ("text", Message::text("hello"), 1003),
        ("garbage", Message::binary(vec![1, 0, b'{']), 1007),
        ("no zstd", Message::binary(vec![1, 1, 1, 2, 3]), 1007),
        (
            "an unknown channel",
            Message::binary(vec![9, 0, b'{', b'}']),
            1007,
        ),
        ("nothing", Message::binary(Vec::<u8>::new()), 1007),
        (
            "a wrong first message",
            message(Channel::Session, &pong),
            1002,
        ),
        (
            "a message for the link",
            message(Channel::Link, &ToLink::Clock { server_time_ms: 1 }),
            1002,
        ),
        (
            "a version of the future",
            message(Channel::Session, &ToGateway::Hello(too_new)),
            1002,
        ),
        (
            "an oversize message",
            Message::binary(vec![1; MAX_MESSAGE + 1]),
            1009,
        ),
    ];
    for (what, message, code) in cases {
        let config = client_config(&gateway, Some(&bad.pem));
        let mut socket = dial(&gateway, config, "/v1/link")
            .await
            .expect("a websocket");
        // The gateway may close before it has read all of it.
        drop(socket.send(message).await);
        let (seen, reason) = closed(&mut socket, |_| {}).await;
        assert_eq!(seen, code, "{what}: {reason}");
        assert!(!reason.is_empty(), "{what}");
    }
    undisturbed(&gateway, &mut host).await;
}

#[tokio::test]
async fn nonsense_on_an_open_session_closes_it_with_its_reason() {
    let gateway = Gateway::start().await;
    let mut good = Host::connect(&gateway, &gateway.register("good")).await;
    let bad = gateway.register("bad");
    let run = willcall_protocol::ids::RunId(Uuid::from_u128(5));
    let mut running = exited(run, "");
    running.state = willcall_protocol::outcome::RunState::Running;
    let report = Box::new(exited(run, ""));
    let again = ToGateway::Hello(hello(Uuid::from_u128(1), Vec::new()));
    for (what, message, code) in [
        ("text", Message::text("x"), 1003),
        ("a second hello", message(Channel::Session, &again), 1002),
        (
            "an end that is none",
            message(
                Channel::Session,
                &ToGateway::Finished {
                    seq: 1,
                    report: Box::new(running),
                },
            ),
            1002,
        ),
        (
            "an impossible number",
            message(
                Channel::Session,
                &ToGateway::Finished {
                    seq: u64::MAX,
                    report,
                },
            ),
            1002,
        ),
    ] {
        let mut host = Host::connect(&gateway, &bad).await;
        host.socket.send(message).await.expect("sent");
        let (seen, reason) = host.closed().await;
        assert_eq!(seen, code, "{what}: {reason}");
    }
    undisturbed(&gateway, &mut good).await;
}

#[tokio::test]
async fn silence_is_cut_off_at_every_step() {
    let gateway = Gateway::start_with(short()).await;
    let identity = gateway.register("silent");
    // Before TLS.
    let mut stream = TcpStream::connect(gateway.agents).await.expect("connected");
    let mut byte = [0];
    assert_eq!(stream.read(&mut byte).await.expect("closed, not reset"), 0);
    // Before the upgrade.
    let name = rustls_pki_types::ServerName::try_from("localhost").expect("a name");
    let config = client_config(&gateway, Some(&identity.pem));
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let stream = TcpStream::connect(gateway.agents).await.expect("connected");
    let mut tls = connector.connect(name, stream).await.expect("TLS");
    assert!(matches!(tls.read(&mut byte).await, Ok(0) | Err(_)));
    // Before the hello.
    let config = client_config(&gateway, Some(&identity.pem));
    let mut socket = dial(&gateway, config, "/v1/link")
        .await
        .expect("a websocket");
    assert_eq!(closed(&mut socket, |_| {}).await.0, 4408);
    gateway.stop().await;
}

/// A header that announces a gigabyte must not make the gateway reserve it.
#[tokio::test]
async fn an_announced_gigabyte_is_refused_by_its_header() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("bad");
    let config = client_config(&gateway, Some(&identity.pem));
    let socket = dial(&gateway, config, "/v1/link")
        .await
        .expect("a websocket");
    let mut tls = socket.into_inner();
    let header = [0x82, 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 1, 2, 3, 4];
    tokio::io::AsyncWriteExt::write_all(&mut tls, &header)
        .await
        .expect("sent");
    tokio::io::AsyncWriteExt::flush(&mut tls)
        .await
        .expect("sent");
    let config = WebSocketConfig::default();
    let mut socket = WebSocketStream::from_raw_socket(tls, Role::Client, Some(config)).await;
    assert_eq!(closed(&mut socket, |_| {}).await.0, 1009);
    drop(socket.next().await);
}

/// Silent connections of one address, as many as there are places for handshakes, keep nobody else out.
#[tokio::test]
async fn one_address_cannot_hold_every_place_with_silence() {
    let gateway = Gateway::start().await;
    let identity = gateway.register("good");
    let mut silent = Vec::new();
    for _ in 0..=MAX_HANDSHAKES {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket
            .bind("127.0.0.2:0".parse().expect("an address"))
            .expect("bound");
        silent.push(socket.connect(gateway.agents).await.expect("connected"));
    }
    let connected =
        tokio::time::timeout(Duration::from_secs(5), Host::connect(&gateway, &identity));
    let mut host = connected.await.expect("a place for another address");
    undisturbed(&gateway, &mut host).await;
    // The same address is turned away at once, and not after the time of a handshake.
    let mut last = silent.pop().expect("the last one");
    let mut byte = [0];
    let read = tokio::time::timeout(Duration::from_secs(5), last.read(&mut byte));
    assert!(matches!(read.await, Ok(Ok(0) | Err(_))));
}

/// A host that sends more text than any may: its run has ended, and what it sent is neither stored nor shown.
#[tokio::test]
async fn a_report_longer_than_allowed_keeps_its_end_and_loses_its_text() {
    let gateway = Gateway::start().await;
    let mut host = Host::connect(&gateway, &gateway.register("good")).await;
    let caller = gateway.caller();
    let body = json!({"argv": ["true"]});
    let (answer, ()) = tokio::join!(caller.post("/v1/hosts/good/runs?wait=15", &body), async {
        let run = host.dispatch().await.run;
        host.finish(1, exited(run, &"x".repeat(MAX_TEXT + 1))).await;
        assert_eq!(host.event().await, AgentEvent::Acked(1));
    });
    assert_eq!(answer.status, 201, "{}", answer.body);
    assert!(answer.body.len() < 4096, "{} bytes", answer.body.len());
    let outcome = answer.json();
    assert_eq!(
        (&outcome["state"], &outcome["exit_code"]),
        (&json!("exited"), &json!(0))
    );
    assert_eq!(outcome["stdout"]["truncated"], json!(true));
    let message = outcome["message"].as_str().expect("a message");
    assert!(
        message.contains("host") && message.contains("stdout"),
        "{message}"
    );
    let stored: i64 = rusqlite::Connection::open(gateway.database())
        .and_then(|c| c.query_row("SELECT max(length(report)) FROM runs", [], |row| row.get(0)))
        .expect("measured");
    assert!(stored < 4096, "{stored} bytes are stored");
}

#[tokio::test]
async fn a_page_longer_than_allowed_is_not_passed_on() {
    let gateway = Gateway::start().await;
    let mut host = Host::connect(&gateway, &gateway.register("good")).await;
    let caller = gateway.caller();
    let (answer, ()) = tokio::join!(caller.get("/v1/hosts/good/output?path=/x"), async {
        let AgentEvent::Read(read) = host.event().await else {
            panic!("not a read")
        };
        let page = json!({"content": "x".repeat(MAX_TEXT + 1), "encoding": "utf-8", "offset": 0, "next": null,
                "truncated": false, "total": 1, "lossy": false});
        let page = serde_json::from_value(page).expect("a page");
        let call = read.call;
        host.session
            .send(ToGateway::Page { call, page })
            .expect("room");
        host.flush().await;
    });
    answer.is_problem(502, "bad_answer", "n/a");
    undisturbed(&gateway, &mut host).await;
}
