//! A caller, by hand: one request on one connection, nothing hidden by a library.

use super::PATIENCE;
use serde_json::Value;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[derive(Clone)]
pub(crate) struct Caller {
    api: SocketAddr,
    token: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Caller {
    pub(crate) fn new(api: SocketAddr, token: Option<String>) -> Self {
        Self { api, token }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &[], &body.to_string()).await
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: &str,
    ) -> Answer {
        let asked = self.exchange(method, path, headers, body);
        let answer = tokio::time::timeout(PATIENCE, asked).await;
        answer.unwrap_or_else(|_| panic!("{method} {path} was not answered"))
    }

    async fn exchange(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        let mut stream = TcpStream::connect(self.api).await.expect("connected");
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n");
        if let Some(token) = &self.token {
            head += "authorization: Bearer ";
            head += token;
            head += "\r\n";
        }
        for header in headers {
            head += header;
            head += "\r\n";
        }
        head += "content-length: ";
        head += &body.len().to_string();
        head += "\r\n\r\n";
        stream.write_all(head.as_bytes()).await.expect("sent");
        // A server that refuses a body need not read it.
        drop(stream.write_all(body.as_bytes()).await);
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer).await;
        assert!(read.is_ok() || !answer.is_empty(), "{read:?}");
        Answer::parse(&String::from_utf8(answer).expect("UTF-8"))
    }
}

impl Answer {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|s| s.parse().ok())
            .expect("a status");
        Self {
            status,
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    /// Checks a problem: its status, code and what it says of the outcome.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, code: &str, outcome: &str) {
        let json = self.json();
        let seen = (self.status, json["code"].as_str(), json["outcome"].as_str());
        assert_eq!(seen, (status, Some(code), Some(outcome)), "{json}");
        assert!(
            self.head.contains("application/problem+json"),
            "{}",
            self.head
        );
        assert_eq!(json["status"], status);
        assert_eq!(json["type"], format!("urn:willcall:problem:{code}"));
        let blame = json["blame"].as_str().expect("a blame");
        assert!(["caller", "host", "gateway"].contains(&blame), "{json}");
        assert!(
            json["detail"]
                .as_str()
                .is_some_and(|detail| !detail.is_empty()),
            "{json}"
        );
    }
}
