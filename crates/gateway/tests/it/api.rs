//! What callers get wrong, and what they are told.

use crate::support::{Answer, Caller, Gateway, Host, exited, short};
use serde_json::{Value, json};
use willcall_gateway::limits::MAX_BODY;
use willcall_protocol::limits::{MAX_COMMAND_BYTES, MAX_REASON};
use willcall_protocol::message::{Encoding, PageReport, ReadFailure, ReadTarget, ToGateway};
use willcall_protocol::session::AgentEvent;

#[tokio::test]
async fn bad_requests_are_refused_by_name() {
    let gateway = Gateway::start().await;
    let _host = Host::connect(&gateway, &gateway.register("web")).await;
    let caller = gateway.caller();
    let many = "x".repeat(300_000);
    let cases: Vec<(Value, &str)> = vec![
        (json!({}), "invalid_json"),
        (json!({"argv": "true"}), "invalid_json"),
        (json!({"argv": ["true"], "shell": true}), "invalid_json"),
        (
            json!({"argv": ["true"], "limits": {"max_tokens": 1}}),
            "invalid_json",
        ),
        (json!({"argv": ["true"], "timeout_ms": -1}), "invalid_json"),
        (json!({"argv": []}), "invalid_argv"),
        (json!({"argv": [""]}), "invalid_argv"),
        (json!({"argv": ["a\0b"]}), "invalid_argv"),
        (json!({"argv": ["echo", many]}), "invalid_argv"),
        (json!({"argv": ["true"], "cwd": ""}), "invalid_cwd"),
        (json!({"argv": ["true"], "cwd": "/a\0"}), "invalid_cwd"),
        (json!({"argv": ["true"], "env": {"": "x"}}), "invalid_env"),
        (
            json!({"argv": ["true"], "env": {"A=B": "x"}}),
            "invalid_env",
        ),
        (json!({"argv": ["true"], "env": {"A": "\0"}}), "invalid_env"),
        (
            json!({"argv": ["true"], "timeout_ms": 0}),
            "invalid_timeout",
        ),
        (
            json!({"argv": ["true"], "limits": {"max_bytes": 0}}),
            "invalid_limits",
        ),
        (
            json!({"argv": ["true"], "limits": {"max_lines": 0}}),
            "invalid_limits",
        ),
        (
            json!({"argv": ["true"], "limits": {"max_bytes": 262_145}}),
            "invalid_limits",
        ),
        (json!({"argv": ["true"], "session": ""}), "invalid_session"),
        (
            json!({"argv": ["true"], "session": "../x"}),
            "invalid_session",
        ),
        (
            json!({"argv": ["true"], "strategy": "middle"}),
            "invalid_strategy",
        ),
        (json!({"argv": ["true"], "view": "pretty"}), "invalid_view"),
        (
            json!({"argv": ["true"], "reason": "x".repeat(1025)}),
            "invalid_reason",
        ),
        (json!({"argv": ["true"], "run": "one"}), "invalid_run"),
        (
            json!({"argv": ["true"], "run": uuid::Uuid::nil()}),
            "invalid_run",
        ),
    ];
    for (body, code) in cases {
        caller
            .post("/v1/hosts/web/runs", &body)
            .await
            .is_problem(400, code, "not_started");
    }
    let unknown = caller
        .post("/v1/hosts/web/runs", &json!({"argv": ["true"], "shell": 1}))
        .await;
    assert!(
        unknown.json()["detail"]
            .as_str()
            .is_some_and(|d| d.contains("shell"))
    );
    let stored: i64 = rusqlite::Connection::open(gateway.database())
        .and_then(|c| c.query_row("SELECT count(*) FROM runs", [], |row| row.get(0)))
        .expect("counted");
    assert_eq!(stored, 0);
}

/// Method, path, header, body, and the problem: status, code and what it says of the outcome.
type Case<'a> = (&'a str, String, &'a str, &'a str, (u16, &'a str, &'a str));

#[tokio::test]
async fn paths_methods_bodies_and_waits_are_refused_by_name() {
    let gateway = Gateway::start().await;
    gateway.register("web");
    let caller = gateway.caller();
    let body = json!({"argv": ["true"]}).to_string();
    let run = uuid::Uuid::from_u128(1);
    let run = |rest: &str| format!("/v1/runs/{run}{rest}");
    #[rustfmt::skip]
    let cases: Vec<Case<'_>> = vec![
        ("POST", "/v1/hosts/web/runs".into(), "", "{", (400, "invalid_json", "not_started")),
        ("POST", "/v1/hosts/web/runs".into(), "", "", (400, "invalid_json", "not_started")),
        ("POST", "/v1/hosts/web/runs?wait=301".into(), "", &body, (400, "invalid_wait", "not_started")),
        ("POST", "/v1/hosts/web/runs?wait=x".into(), "", &body, (400, "invalid_query", "not_started")),
        ("POST", "/v1/hosts/web/runs?waits=1".into(), "", &body, (400, "invalid_query", "not_started")),
        ("POST", "/v1/hosts/web/runs".into(), "prefer: wait=301", &body, (400, "invalid_wait", "not_started")),
        ("POST", "/v1/hosts/web/runs".into(), "prefer: wait=soon", &body, (400, "invalid_wait", "not_started")),
        ("POST", "/v1/hosts/nobody/runs".into(), "", &body, (404, "unknown_host", "not_started")),
        ("POST", "/v1/hosts/web/runs".into(), "", &body, (503, "host_offline", "not_started")),
        ("GET", "/v1/hosts/web/runs".into(), "", "", (405, "wrong_method", "n/a")),
        ("DELETE", run(""), "", "", (405, "wrong_method", "n/a")),
        ("POST", "/healthz".into(), "", "", (405, "wrong_method", "n/a")),
        ("GET", "/v1/nothing".into(), "", "", (404, "unknown_path", "n/a")),
        ("GET", "/v1/hosts/%ff/output?path=/x".into(), "", "", (400, "invalid_query", "n/a")),
        ("GET", "/v1/runs/one".into(), "", "", (404, "unknown_run", "n/a")),
        ("GET", run(""), "", "", (404, "unknown_run", "n/a")),
        ("GET", run("?wait=301"), "", "", (400, "invalid_wait", "n/a")),
        ("POST", run("/cancel"), "", "", (404, "unknown_run", "n/a")),
        ("GET", run("/output"), "", "", (404, "unknown_run", "n/a")),
        ("GET", run("/output?stream=out"), "", "", (400, "invalid_output", "n/a")),
        ("GET", "/v1/hosts/web/output".into(), "", "", (400, "invalid_output", "n/a")),
        ("GET", "/v1/hosts/web/output?path=x".into(), "", "", (400, "invalid_output", "n/a")),
        ("GET", "/v1/hosts/web/output?output=x".into(), "", "", (400, "invalid_output", "n/a")),
        ("GET", "/v1/hosts/web/output?path=/x&limit=0".into(), "", "", (400, "invalid_limits", "n/a")),
        ("GET", "/v1/hosts/web/output?path=/x&encoding=hex".into(), "", "", (400, "invalid_query", "n/a")),
        ("GET", "/v1/hosts/web/output?path=/x&offset=-1".into(), "", "", (400, "invalid_query", "n/a")),
        ("GET", "/v1/hosts/web/output?path=/x&turn=a.b".into(), "", "", (400, "invalid_turn", "n/a")),
        ("GET", "/v1/hosts/web/output?path=/x&turn=a&turn_calls=0".into(), "", "", (400, "invalid_turn", "n/a")),
        ("GET", run("/output?turn_calls=2"), "", "", (400, "invalid_turn", "n/a")),
        ("GET", "/v1/hosts/web/output?path=/x&session=a%20b".into(), "", "", (400, "invalid_session", "n/a")),
        ("GET", "/v1/hosts/web/output?path=/x".into(), "", "", (503, "host_offline", "n/a")),
        ("GET", "/v1/hosts/nobody/output?path=/x".into(), "", "", (404, "unknown_host", "n/a")),
    ];
    for (method, path, header, body, (status, code, outcome)) in cases {
        let headers: Vec<&str> = Some(header).filter(|h| !h.is_empty()).into_iter().collect();
        let answer = caller.send(method, &path, &headers, body).await;
        println!("{method} {path}: {}", answer.status);
        answer.is_problem(status, code, outcome);
    }
    let large = "x".repeat(MAX_BODY + 1);
    let answer = caller.send("POST", "/v1/hosts/web/runs", &[], &large).await;
    answer.is_problem(413, "body_too_large", "not_started");
    let wrong = caller.send("DELETE", "/v1/hosts", &[], "").await;
    assert!(wrong.head.contains("allow: get"), "{}", wrong.head);
}

/// Six bytes for each one, where a writer of JSON escapes everything.
fn fully_escaped(text: &str) -> String {
    use std::fmt::Write;
    text.chars().fold(String::new(), |mut all, c| {
        let _ = write!(all, "\\u{:04x}", u32::from(c));
        all
    })
}

#[tokio::test]
async fn the_longest_command_gets_through_however_it_is_escaped() {
    let gateway = Gateway::start().await;
    let mut host = Host::connect(&gateway, &gateway.register("web")).await;
    let caller = gateway.caller();
    // Each argument counts with its end.
    let room = MAX_COMMAND_BYTES - "echo".len() - 2;
    // Control characters are long in the gateway's own JSON, too, and noise is what compression can do least about.
    let mut seed = 1_u32;
    let mut noise = |codes: u32| -> String {
        let next = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from_u32((seed >> 24) % codes + 1).expect("a character")
        });
        next.take(room).collect()
    };
    for argument in ["x".repeat(room), noise(127), noise(31)] {
        let reason = "\u{1}".repeat(MAX_REASON);
        let body = format!(
            r#"{{"argv":["echo","{}"],"reason":"{}"}}"#,
            fully_escaped(&argument),
            fully_escaped(&reason)
        );
        let answer = caller.send("POST", "/v1/hosts/web/runs", &[], &body).await;
        assert_eq!(answer.status, 202, "{}", answer.body);
        let dispatch = host.dispatch().await;
        assert!(dispatch.argv[1] == argument && dispatch.reason == Some(reason));
        host.accept(dispatch.run).await;
    }
}

#[tokio::test]
async fn only_the_holder_of_a_token_gets_in() {
    let gateway = Gateway::start().await;
    for token in [
        None,
        Some(String::new()),
        Some("willcall_x".into()),
        Some(gateway.token.to_uppercase()),
    ] {
        let caller = Caller::new(gateway.api, token);
        for path in ["/v1/hosts", "/v1/runs/x", "/v1/nothing"] {
            let answer = caller.get(path).await;
            answer.is_problem(401, "unauthorized", "not_started");
            assert!(
                answer.head.contains("www-authenticate: bearer"),
                "{}",
                answer.head
            );
        }
        assert_eq!(caller.get("/healthz").await.status, 200);
    }
    assert_eq!(gateway.caller().get("/v1/hosts").await.status, 200);
}

#[tokio::test]
async fn a_run_id_is_the_idempotency_key() {
    let gateway = Gateway::start().await;
    let (web, db) = (gateway.register("web"), gateway.register("db"));
    let mut host = Host::connect(&gateway, &web).await;
    let _other = Host::connect(&gateway, &db).await;
    let caller = gateway.caller();
    let run = willcall_protocol::ids::RunId(uuid::Uuid::now_v7());
    let body = json!({"run": run, "argv": ["true"]});
    let path = "/v1/hosts/web/runs";
    assert_eq!(caller.post(path, &body).await.status, 202);
    assert_eq!(caller.post(path, &body).await.status, 202);
    let mut waiting = tokio::task::JoinSet::new();
    let again = (caller.clone(), body.clone());
    waiting.spawn(async move {
        again
            .0
            .send(
                "POST",
                path,
                &["prefer: respond-async, wait=15"],
                &again.1.to_string(),
            )
            .await
    });
    assert_eq!(host.dispatch().await.run, run);
    host.finish(1, exited(run, "once")).await;
    // Nothing came between: the second and third call were not sent to the host.
    assert_eq!(host.event().await, AgentEvent::Acked(1));
    let answer = waiting.join_next().await.expect("asked").expect("answered");
    assert_eq!(
        (answer.status, &answer.json()["stdout"]["result"]),
        (200, &json!("once"))
    );
    let other_body = json!({"run": run, "argv": ["false"]});
    caller
        .post(path, &other_body)
        .await
        .is_problem(409, "conflict", "unknown");
    caller
        .post("/v1/hosts/db/runs", &body)
        .await
        .is_problem(409, "conflict", "unknown");
    drop(host);
    gateway.links(1).await;
    // The first one's outcome is known whether or not its host is there.
    assert_eq!(caller.post(path, &body).await.status, 200);
    caller
        .post(path, &other_body)
        .await
        .is_problem(409, "conflict", "unknown");
}

/// Has the host answer one read.
async fn read(
    caller: &Caller,
    path: &str,
    host: &mut Host,
    answer: Result<PageReport, ReadFailure>,
) -> (Answer, willcall_protocol::message::Read) {
    tokio::join!(caller.get(path), async {
        let AgentEvent::Read(read) = host.event().await else {
            panic!("not a read")
        };
        let call = read.call;
        host.session
            .send(match answer {
                Ok(page) => ToGateway::Page { call, page },
                Err(reason) => ToGateway::ReadFailed {
                    call,
                    reason,
                    message: "why".into(),
                },
            })
            .expect("room");
        host.flush().await;
        read
    })
}

#[tokio::test]
async fn turns_that_are_none_are_refused_by_name() {
    let gateway = Gateway::start().await;
    let _host = Host::connect(&gateway, &gateway.register("web")).await;
    let caller = gateway.caller();
    for (turn, code) in [
        (json!({"id": "../x"}), "invalid_turn"),
        (json!({"id": "x", "calls": 0}), "invalid_turn"),
        (json!({"id": "x", "calls": 1_u64 << 32}), "invalid_turn"),
        (json!({"id": "x", "call": 1}), "invalid_json"),
        (json!("x"), "invalid_json"),
    ] {
        let body = json!({"argv": ["true"], "turn": turn});
        let answer = caller.post("/v1/hosts/web/runs", &body).await;
        answer.is_problem(400, code, "not_started");
    }
}

#[tokio::test]
async fn pages_are_read_in_the_right_session_and_failures_have_names() {
    let gateway = Gateway::start_with(short()).await;
    let identity = gateway.register("web");
    let mut host = Host::connect(&gateway, &identity).await;
    let caller = gateway.caller();
    let body = json!({"argv": ["true"], "session": "mine"});
    let answer = caller.post("/v1/hosts/web/runs", &body).await;
    let run = host.dispatch().await.run;
    assert_eq!(answer.json()["run"], json!(run));
    let page = PageReport {
        content: "aGk=".into(),
        encoding: Encoding::Base64,
        offset: 5,
        next: None,
        truncated: false,
        total: 7,
        lossy: false,
        line: Some(2),
        digest: Some("blake3:0".into()),
        verified: true,
    };
    let path = format!("/v1/runs/{run}/output?stream=stderr&offset=5&limit=2&encoding=base64");
    let (answer, asked) = read(&caller, &path, &mut host, Ok(page.clone())).await;
    assert_eq!((answer.status, answer.json()), (200, json!(page)));
    assert_eq!(
        (asked.session.as_str(), asked.offset, asked.limit),
        ("mine", 5, Some(2))
    );
    assert!(
        matches!(asked.target, ReadTarget::Output(id) if id.to_string() == format!("{run}/stderr"))
    );
    assert_eq!(asked.turn, None);
    let by_path = "/v1/hosts/web/output?path=/a/b&session=other&turn=t-1&turn_calls=3";
    let (_, asked) = read(&caller, by_path, &mut host, Ok(page)).await;
    assert_eq!(asked.session.as_str(), "other");
    assert_eq!(json!(asked.turn), json!({"id": "t-1", "calls": 3}));
    assert_eq!(asked.target, ReadTarget::Path("/a/b".into()));
    for (reason, status, code) in [
        (ReadFailure::NotFound, 404, "not_found"),
        (ReadFailure::Expired, 410, "expired"),
        (ReadFailure::AccessDenied, 403, "access_denied"),
        (ReadFailure::NotAnOutput, 404, "not_an_output"),
        (ReadFailure::Damaged, 409, "damaged"),
        (ReadFailure::Unfinished, 409, "unfinished"),
        (ReadFailure::Permission, 502, "permission"),
        (ReadFailure::InvalidLimit, 400, "invalid_limits"),
        (ReadFailure::IoError, 502, "io_error"),
        (ReadFailure::Other, 502, "io_error"),
    ] {
        let (answer, _) = read(&caller, by_path, &mut host, Err(reason)).await;
        answer.is_problem(status, code, "n/a");
    }
    caller
        .get(by_path)
        .await
        .is_problem(504, "host_timeout", "n/a");
    // A host that leaves takes its unanswered reads with it.
    let (answer, ()) = tokio::join!(caller.get(by_path), async move {
        while !matches!(host.event().await, AgentEvent::Read(_)) {}
        assert!(matches!(host.event().await, AgentEvent::Read(_)));
        drop(host);
    });
    answer.is_problem(503, "host_offline", "n/a");
    caller
        .get(&path)
        .await
        .is_problem(503, "host_offline", "n/a");
}
