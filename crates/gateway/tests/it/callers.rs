//! Connections of callers that do nothing, half of something, or everything but read: none stays for ever, and none that
//! waits for its run is cut off.

use crate::support::{Gateway, Host, short};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(10);

/// What the gateway still says until it closes.
async fn until_closed(stream: &mut TcpStream, what: &str) -> String {
    let mut said = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut said)).await;
    // A reset is an end, too.
    drop(read.unwrap_or_else(|_| panic!("{what} stays open")));
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test]
async fn idle_and_half_done_connections_without_a_token_are_closed() {
    let gateway = Gateway::start_with(short()).await;
    for (what, sent) in [
        ("an idle connection", ""),
        ("half a header", "GET /v1/hosts HTTP/1.1\r\nhost: gate"),
        ("a header without its end", "GET /healthz HTTP/1.1\r\n"),
        (
            "an idle connection after an answer",
            "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n",
        ),
        (
            "a body that does not come",
            "POST /v1/hosts/web/runs HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{",
        ),
    ] {
        let mut stream = TcpStream::connect(gateway.api).await.expect("connected");
        stream.write_all(sent.as_bytes()).await.expect("sent");
        until_closed(&mut stream, what).await;
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_header_that_drips_is_closed() {
    let gateway = Gateway::start_with(short()).await;
    let mut stream = TcpStream::connect(gateway.api).await.expect("connected");
    let began = Instant::now();
    let dripped = async {
        stream.write_all(b"GET / HTTP/1.1\r\na: ").await?;
        loop {
            stream.write_all(b"x").await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
            if began.elapsed() > PATIENCE {
                return Ok::<(), std::io::Error>(());
            }
        }
    };
    assert!(dripped.await.is_err(), "a dripping header is read for ever");
}

#[tokio::test]
async fn a_caller_that_takes_no_answer_is_closed() {
    let gateway = Gateway::start_with(short()).await;
    let mut stream = TcpStream::connect(gateway.api).await.expect("connected");
    let many = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n".repeat(1000);
    let flood = async {
        // Answers fill the way back, then requests the way there.
        while stream.write_all(many.as_bytes()).await.is_ok() {}
    };
    let ended = tokio::time::timeout(PATIENCE, flood).await;
    assert!(ended.is_ok(), "a caller that does not read stays for ever");
}

#[tokio::test]
async fn a_caller_that_waits_for_its_run_is_not_cut_off() {
    let gateway = Gateway::start_with(short()).await;
    let mut host = Host::connect(&gateway, &gateway.register("web")).await;
    let caller = gateway.caller();
    // Several times what an idle connection gets.
    let body = json!({"argv": ["true"]});
    let (answer, _) = tokio::join!(
        caller.post("/v1/hosts/web/runs?wait=2", &body),
        host.dispatch()
    );
    assert_eq!(answer.status, 202, "{}", answer.body);
}

#[tokio::test]
async fn an_idle_connection_does_not_hold_up_the_end() {
    let gateway = Gateway::start().await;
    let mut fresh = TcpStream::connect(gateway.api).await.expect("connected");
    let mut used = TcpStream::connect(gateway.api).await.expect("connected");
    used.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .expect("sent");
    let mut first = [0; 12];
    used.read_exact(&mut first).await.expect("answered");
    let began = Instant::now();
    gateway.stop().await;
    assert!(
        began.elapsed() < Duration::from_secs(3),
        "{:?}",
        began.elapsed()
    );
    until_closed(&mut fresh, "a fresh connection").await;
    until_closed(&mut used, "a used connection").await;
}
