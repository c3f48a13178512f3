//! A host, by hand: a websocket client over mutual TLS, and the protocol crate's end of the session.

use super::{Gateway, Identity, PATIENCE};
use futures_util::{SinkExt, StreamExt};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};
use uuid::Uuid;
use willcall_protocol::frame::{self, Channel};
use willcall_protocol::ids::{RunId, SessionId};
use willcall_protocol::message::{Capabilities, Dispatch, Hello, Refusal, ToGateway, ToLink};
use willcall_protocol::outcome::{Cause, Report, RunState, StreamReport};
use willcall_protocol::session::{AgentEvent, AgentSession};

pub(crate) type Socket = WebSocketStream<TlsStream<TcpStream>>;

/// TLS as a host does it, with that key and certificate, or with none.
pub(crate) fn client_config(gateway: &Gateway, identity: Option<&str>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let ca = gateway.ca();
    let root = CertificateDer::from_pem_slice(ca.certificate_pem().as_bytes()).expect("a root");
    roots.add(root).expect("added");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(roots);
    let Some(pem) = identity else {
        return builder.with_no_client_auth();
    };
    let chain = CertificateDer::pem_slice_iter(pem.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>().expect("certificates");
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).expect("a key");
    builder.with_client_auth_cert(chain, key).expect("a pair")
}

/// Dials up to an open websocket.
pub(crate) async fn dial(
    gateway: &Gateway,
    config: ClientConfig,
    path: &str,
) -> Result<Socket, Error> {
    let stream = TcpStream::connect(gateway.agents).await.expect("connected");
    let name = ServerName::try_from("localhost").expect("a name");
    let tls = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await?;
    let url = format!("wss://localhost{path}");
    let (socket, _) = tokio_tungstenite::client_async(url, tls).await?;
    Ok(socket)
}

pub(crate) fn hello(ledger: Uuid, running: Vec<RunId>) -> Hello {
    Hello {
        min_version: 1,
        max_version: 1,
        boot_id: "boot".into(),
        incarnation: 1,
        ledger,
        agent_version: "9.9".into(),
        capabilities: Capabilities {
            max_bytes_ceiling: 262_144,
            ..Capabilities::default()
        },
        running,
    }
}

/// A connected host.
pub(crate) struct Host {
    pub(crate) socket: Socket,
    pub(crate) session: AgentSession,
    pub(crate) to_link: Vec<ToLink>,
    events: VecDeque<AgentEvent>,
}

impl Host {
    pub(crate) async fn connect(gateway: &Gateway, identity: &Identity) -> Self {
        Self::connect_as(gateway, identity, hello(Uuid::from_u128(1), Vec::new()))
            .await
            .0
    }

    /// Connects up to the hello.
    pub(crate) async fn greeting(gateway: &Gateway, identity: &Identity, hello: Hello) -> Self {
        let config = client_config(gateway, Some(&identity.pem));
        let socket = dial(gateway, config, "/v1/link")
            .await
            .expect("a websocket");
        let mut host = Self {
            socket,
            session: AgentSession::new(hello, Instant::now()),
            to_link: Vec::new(),
            events: VecDeque::new(),
        };
        host.flush().await;
        host
    }

    /// Connects up to the welcome; gives its `resume_from`, too.
    pub(crate) async fn connect_as(
        gateway: &Gateway,
        identity: &Identity,
        hello: Hello,
    ) -> (Self, u64) {
        let mut host = Self::greeting(gateway, identity, hello).await;
        assert_eq!(host.event().await, AgentEvent::Welcome);
        let AgentEvent::Acked(resume_from) = host.event().await else {
            panic!("no acknowledgement with the welcome");
        };
        (host, resume_from)
    }

    /// The next thing that the gateway wants.
    pub(crate) async fn event(&mut self) -> AgentEvent {
        loop {
            self.flush().await;
            if let Some(event) = self.events.pop_front() {
                return event;
            }
            let message = tokio::time::timeout(PATIENCE, self.socket.next()).await;
            match message.expect("in time") {
                Some(Ok(Message::Binary(bytes))) => self.take(&bytes),
                other => panic!("not a message: {other:?}"),
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        match frame::channel(bytes).expect("a channel") {
            Channel::Link => self
                .to_link
                .push(frame::decode(bytes).expect("for the link")),
            Channel::Session => {
                let message = frame::decode(bytes).expect("for the session");
                self.events
                    .extend(self.session.handle(message, Instant::now()).expect("sound"));
            }
        }
    }

    pub(crate) async fn flush(&mut self) {
        while let Some(message) = self.session.poll_transmit() {
            let bytes = frame::encode(Channel::Session, &message).expect("encoded");
            self.socket
                .send(Message::Binary(bytes.into()))
                .await
                .expect("sent");
        }
    }

    /// The next dispatch; nothing else may come before it.
    pub(crate) async fn dispatch(&mut self) -> Dispatch {
        match self.event().await {
            AgentEvent::Dispatch(dispatch) => *dispatch,
            other => panic!("not a dispatch: {other:?}"),
        }
    }

    pub(crate) async fn accept(&mut self, run: RunId) {
        let accepted = ToGateway::Accepted {
            run,
            timeout_ms: Some(600_000),
        };
        self.session.send(accepted).expect("room");
        self.flush().await;
    }

    pub(crate) async fn refuse(&mut self, run: RunId, cause: Cause) {
        let refusal = Refusal {
            run,
            cause,
            message: "because".into(),
        };
        self.session
            .send(ToGateway::Refused(refusal))
            .expect("room");
        self.flush().await;
    }

    pub(crate) async fn finish(&mut self, seq: u64, report: Report) {
        self.session.send_result(seq, report).expect("room");
        self.flush().await;
    }

    /// How the gateway closes the connection.
    pub(crate) async fn closed(mut self) -> (u16, String) {
        closed(&mut self.socket, |bytes| {
            if let Ok(Channel::Link) = frame::channel(bytes) {
                self.to_link
                    .push(frame::decode(bytes).expect("for the link"));
            }
        })
        .await
    }
}

/// How the gateway closes a websocket; what comes before goes to `other`.
pub(crate) async fn closed(socket: &mut Socket, mut other: impl FnMut(&Bytes)) -> (u16, String) {
    loop {
        let message = tokio::time::timeout(PATIENCE, socket.next())
            .await
            .expect("in time");
        match message {
            Some(Ok(Message::Close(Some(frame)))) => {
                return (frame.code.into(), frame.reason.to_string());
            }
            Some(Ok(Message::Binary(bytes))) => other(&bytes),
            other => panic!("not a close with its reason: {other:?}"),
        }
    }
}

/// A run that exited.
pub(crate) fn exited(run: RunId, stdout: &str) -> Report {
    let mut report = Report::bare(run, SessionId::unnamed(), RunState::Exited);
    report.exit_code = Some(0);
    report.stdout = Some(stream(stdout));
    report
}

pub(crate) fn stream(text: &str) -> StreamReport {
    StreamReport {
        result: text.into(),
        truncated: false,
        total_size: u64::try_from(text.len()).expect("small"),
        total_lines: 1,
        omitted: None,
        file_path: None,
        output: None,
        digest: None,
        complete: true,
        dropped_bytes: 0,
        lossy: false,
        rendered: false,
        view: "text".into(),
        saved: false,
        reason: None,
    }
}
