//! The client against a small HTTP server that answers by script.

use super::*;
use crate::args::LimitArgs;
use crate::exec;
use crate::problem::Ran;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

/// What a server does with one request.
enum Reply {
    Json(u16, String),
    /// Reads the request and closes the connection.
    HangUp,
}

/// One request as a server saw it.
#[derive(Debug)]
struct Seen {
    line: String,
    authorization: String,
    body: String,
}

fn read_request(stream: &TcpStream) -> Seen {
    let mut reader = BufReader::new(stream);
    let (mut line, mut authorization, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut line).unwrap();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let Some((name, value)) = header.split_once(':') else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap(),
            "authorization" => value.trim().clone_into(&mut authorization),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    Seen {
        line: line.trim().to_owned(),
        authorization,
        body: String::from_utf8(body).unwrap(),
    }
}

/// A server that gives these replies, one connection each, and tells what it saw.
fn server(replies: Vec<Reply>) -> (Client, JoinHandle<Vec<Seen>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        let serve = |reply| {
            let (mut stream, _) = listener.accept().unwrap();
            let seen = read_request(&stream);
            if let Reply::Json(status, json) = reply {
                let length = json.len();
                let head = format!(
                    "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
                );
                stream.write_all(head.as_bytes()).unwrap();
                stream.write_all(json.as_bytes()).unwrap();
            }
            seen
        };
        replies.into_iter().map(serve).collect()
    });
    (client(url), serving)
}

fn client(url: String) -> Client {
    let settings = Settings {
        url,
        token: "secret".to_owned(),
        token_file: "/nonexistent".into(),
    };
    Client::new(settings, Stop::never())
}

fn request() -> RunRequest {
    let argv = vec!["true".to_owned()];
    exec::request(SessionId::unnamed(), argv, &LimitArgs::default())
}

fn outcome(request: &RunRequest, state: &str) -> Reply {
    let run = request.run;
    Reply::Json(
        200,
        format!(
            r#"{{"run":"{run}","session":"default","host":"h","state":"{state}","exit_code":0,"signal":null,"cause":null,
            "duration_ms":1,"stdout":null,"stderr":null,"tty":null,"ended":[],"detached":[],"later":1}}"#
        ),
    )
}

#[test]
fn a_run_is_posted_once_and_polled_to_its_end() {
    let request = request();
    let replies = vec![outcome(&request, "running"), outcome(&request, "exited")];
    let (client, serving) = server(replies);
    let answer = client.run("a b", &request).unwrap();
    assert!(answer.json.contains("\"later\":1"));
    let seen = serving.join().unwrap();
    assert_eq!(seen[0].line, "POST /v1/hosts/a%20b/runs?wait=50 HTTP/1.1");
    assert_eq!(seen[0].authorization, "Bearer secret");
    let body: serde_json::Value = serde_json::from_str(&seen[0].body).unwrap();
    assert_eq!(body["argv"], serde_json::json!(["true"]));
    assert_eq!(body["run"], request.run.to_string());
    let poll = format!("GET /v1/runs/{}?wait=50 HTTP/1.1", request.run);
    assert_eq!(seen[1].line, poll);
}

#[test]
fn a_lost_connection_is_taken_up_with_the_same_run() {
    let request = request();
    let replies = vec![
        Reply::HangUp,
        outcome(&request, "running"),
        Reply::HangUp,
        outcome(&request, "exited"),
    ];
    let (client, serving) = server(replies);
    client.run("h", &request).unwrap();
    let seen = serving.join().unwrap();
    assert_eq!(seen[0].body, seen[1].body);
    let methods: Vec<&str> = seen.iter().map(|seen| &seen.line[..4]).collect();
    assert_eq!(methods, ["POST", "POST", "GET ", "GET "]);
}

#[test]
fn nobody_there_is_said_at_once() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", unused.local_addr().unwrap());
    drop(unused);
    let failure = client(url).run("h", &request()).unwrap_err();
    assert!(
        matches!(failure, Failure::Unreachable { .. }),
        "{failure:?}"
    );
}

#[test]
fn a_problem_comes_through() {
    let problem = r#"{"code":"host_offline","status":503,"blame":"host","outcome":"not_started"}"#;
    let (client, serving) = server(vec![Reply::Json(503, problem.to_owned())]);
    let failure = client.run("h", &request()).unwrap_err();
    assert_eq!(failure.ran(), Ran::No);
    serving.join().unwrap();
}

#[test]
fn an_answer_that_is_none_leaves_the_outcome_unknown() {
    for reply in [
        Reply::Json(200, "<html>".into()),
        Reply::Json(502, String::new()),
    ] {
        let (client, serving) = server(vec![reply]);
        let failure = client.run("h", &request()).unwrap_err();
        assert_eq!(failure.ran(), Ran::Unknown, "{failure}");
        serving.join().unwrap();
    }
}

#[test]
fn the_only_host_is_meant_and_of_several_none() {
    let hosts = |names: &[&str]| {
        let hosts: Vec<_> = names
            .iter()
            .map(|name| serde_json::json!({"name": name}))
            .collect();
        Reply::Json(200, serde_json::json!({ "hosts": hosts }).to_string())
    };
    let pick = |reply| {
        let (client, serving) = server(vec![reply]);
        let picked = client.host(None);
        serving.join().unwrap();
        picked
    };
    assert_eq!(pick(hosts(&["a"])).unwrap(), "a");
    for names in [&[][..], &["a", "b"]] {
        match pick(hosts(names)) {
            Err(Failure::WhichHost(found)) => assert_eq!(found, names),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        client("http://127.0.0.1:1".into()).host(Some("x")).unwrap(),
        "x"
    );
}

#[test]
fn what_is_in_a_url_cannot_leave_its_place() {
    assert_eq!(escaped("a/b?c=\u{e4}&d#%"), "a%2Fb%3Fc%3D%C3%A4%26d%23%25");
    assert_eq!(escaped("web-1.example_x~"), "web-1.example_x~");
}
