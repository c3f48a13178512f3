//! Opens many idle links to a running gateway, and measures how long a dispatch to a host that answers at once takes.
//!
//! `links STATE AGENTS_ADDR API_ADDR LINKS DISPATCHES`: registers LINKS hosts in the gateway's own database, dials as each, prints
//! `ready`, makes DISPATCHES runs one after another on the first of them, prints the times, and stays until stdin ends.
#![expect(clippy::print_stdout, reason = "a program for people who measure")]

use anyhow::{Context, anyhow};
use futures_util::{SinkExt, StreamExt};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use uuid::Uuid;
use willcall_gateway::pki::Ca;
use willcall_gateway::state::{self, StateDir};
use willcall_gateway::{db, db::hosts};
use willcall_protocol::frame::{self, Channel};
use willcall_protocol::ids::AgentId;
use willcall_protocol::message::{Capabilities, Hello, ToGateway};
use willcall_protocol::outcome::{Report, RunState};
use willcall_protocol::session::{AgentEvent, AgentSession};

type Socket = WebSocketStream<TlsStream<TcpStream>>;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [state, agents, api, links, dispatches] = args.as_slice() else {
        return Err(anyhow!("links STATE AGENTS_ADDR API_ADDR LINKS DISPATCHES"));
    };
    let state = StateDir::new(state);
    let mut hosts = JoinSet::new();
    let begun = Instant::now();
    for (name, config) in register(&state, links.parse()?)? {
        let socket = Box::pin(dial(agents, config))
            .await
            .with_context(|| name.clone())?;
        let (ready, is_ready) = tokio::sync::oneshot::channel();
        hosts.spawn(serve(socket, Some(ready)));
        is_ready.await.with_context(|| name)?;
    }
    println!("ready after {:?}", begun.elapsed());
    measure(&state, api, dispatches.parse()?).await?;
    let stay = || std::io::stdin().read_line(&mut String::new());
    tokio::task::spawn_blocking(stay).await??;
    Ok(())
}

fn register(state: &StateDir, links: usize) -> anyhow::Result<Vec<(String, ClientConfig)>> {
    let ca_pem = state::read(&state.ca_certificate())?;
    let ca = Ca::from_pem(ca_pem.clone(), state::read(&state.ca_key())?)?;
    let mut database = db::open(&state.database())?;
    let all = database.transaction()?;
    let mut made = Vec::new();
    for _ in 0..links {
        let agent = AgentId(Uuid::new_v4());
        let name = format!("host-{}", agent.0.simple());
        hosts::insert(&all, agent, &name, 0)?;
        let pem = ca.issue_agent(agent, SystemTime::now())?.pem();
        made.push((name, client_config(&ca_pem, &pem)?));
    }
    all.commit()?;
    Ok(made)
}

fn client_config(ca: &str, identity: &str) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = CertificateDer::pem_slice_iter(identity.as_bytes()).collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(identity.as_bytes())?;
    Ok(ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)?)
}

async fn dial(agents: &str, config: ClientConfig) -> anyhow::Result<Socket> {
    let stream = TcpStream::connect(agents).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from("localhost")?;
    let tls = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await?;
    let small = WebSocketConfig::default().read_buffer_size(4096);
    let url = "wss://localhost/v1/link";
    let (socket, _) = tokio_tungstenite::client_async_with_config(url, tls, Some(small)).await?;
    Ok(socket)
}

/// A host on which everything succeeds at once.
async fn serve(
    mut socket: Socket,
    mut ready: Option<tokio::sync::oneshot::Sender<()>>,
) -> anyhow::Result<()> {
    let mut session = AgentSession::new(hello(), Instant::now());
    let mut seq = 0;
    loop {
        while let Some(message) = session.poll_transmit() {
            let bytes = frame::encode(Channel::Session, &message)?;
            socket.send(Message::Binary(bytes.into())).await?;
        }
        let Some(Message::Binary(bytes)) = socket.next().await.transpose()? else {
            return Ok(());
        };
        if frame::channel(&bytes)? == Channel::Link {
            continue;
        }
        for event in session.handle(frame::decode(&bytes)?, Instant::now())? {
            match event {
                AgentEvent::Welcome => drop(ready.take().map(|ready| ready.send(()))),
                AgentEvent::Dispatch(dispatch) => {
                    let run = dispatch.run;
                    session.send(ToGateway::Accepted {
                        run,
                        timeout_ms: None,
                    })?;
                    seq += 1;
                    let report = Report::bare(run, dispatch.session, RunState::Exited);
                    session.send_result(seq, report)?;
                }
                _ => {}
            }
        }
    }
}

fn hello() -> Hello {
    Hello {
        min_version: 1,
        max_version: 1,
        boot_id: Uuid::new_v4().to_string(),
        incarnation: 1,
        ledger: Uuid::new_v4(),
        agent_version: "0.1.0".into(),
        capabilities: Capabilities::default(),
        running: Vec::new(),
    }
}

async fn measure(state: &StateDir, api: &str, dispatches: usize) -> anyhow::Result<()> {
    if dispatches == 0 {
        return Ok(());
    }
    let token = state::read(&state.token())?;
    let mut stream = BufReader::new(TcpStream::connect(api).await?);
    stream.get_ref().set_nodelay(true)?;
    let hosts = exchange(&mut stream, token.trim(), "GET /v1/hosts", "").await?;
    let hosts: serde_json::Value = serde_json::from_str(&hosts)?;
    let connected = hosts["hosts"]
        .as_array()
        .and_then(|all| all.iter().find(|h| h["connected"] == true));
    let name = connected
        .and_then(|h| h["name"].as_str())
        .context("no host is connected")?;
    let path = format!("POST /v1/hosts/{name}/runs?wait=10");
    let mut times = Vec::with_capacity(dispatches);
    for _ in 0..dispatches {
        let begun = Instant::now();
        exchange(&mut stream, token.trim(), &path, r#"{"argv":["true"]}"#).await?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let at = |percent: usize| {
        times
            .get(times.len() * percent / 100)
            .copied()
            .unwrap_or(Duration::ZERO)
    };
    println!("dispatch: p50 {:?}, p99 {:?}", at(50), at(99));
    Ok(())
}

async fn exchange(
    stream: &mut BufReader<TcpStream>,
    token: &str,
    request: &str,
    body: &str,
) -> anyhow::Result<String> {
    let length = body.len();
    let head = format!(
        "{request} HTTP/1.1\r\nhost: g\r\nauthorization: Bearer {token}\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).await?;
    let (mut length, mut line) = (0, String::new());
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).await?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
    }
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer).await?;
    Ok(String::from_utf8(answer)?)
}
