//! A small gateway, a small executor, and the certificates between them.

use crate::dial::{self, DialError, Dialed, GatewayUrl};
use crate::frames::{self, FrameReader};
use crate::limits::Times;
use crate::service::{self, Settings};
use crate::tls;
use futures_util::{SinkExt, StreamExt};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Bytes, Message};
use tokio_util::sync::CancellationToken;
use willcall_protocol::frame::{Channel, encode};

pub(super) const HELLO: &[u8] = b"\x01\x00hello, opaque to the link";
pub(super) const WELCOME: &[u8] = b"\x01\x00welcome, opaque to the link";
const DEADLINE: Duration = Duration::from_secs(10);

/// Waits for a value, with a deadline.
pub(super) async fn soon<T>(value: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, value)
        .await
        .expect("in time")
}

pub(super) struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Ca {
    pub(super) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let name = format!("CA {}", rand::random::<u64>());
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Key and certificate in one PEM, as the identity file has them.
    pub(super) fn issue(&self, names: &[&str], until_year: i32) -> String {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_after = date_time_ymd(until_year, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        format!("{}{}", key.serialize_pem(), certificate.pem())
    }
}

/// Everything around a link.
pub(super) struct World {
    pub(super) dir: TempDir,
    pub(super) ca: Ca,
    listener: TcpListener,
    acceptor: TlsAcceptor,
    pub(super) times: Times,
}

impl World {
    /// A gateway whose certificate is for `names`.
    pub(super) async fn with_names(names: &[&str]) -> Self {
        let (dir, ca) = (tempfile::tempdir().unwrap(), Ca::new());
        std::fs::write(dir.path().join("ca.pem"), &ca.pem).unwrap();
        let identity = ca.issue(&["agent"], 2999);
        std::fs::write(dir.path().join("agent.pem"), identity).unwrap();
        let acceptor = acceptor(&ca, &ca.issue(names, 2999));
        Self {
            dir,
            ca,
            listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            acceptor,
            times: Times::REAL,
        }
    }

    pub(super) async fn new() -> Self {
        Self::with_names(&["127.0.0.1"]).await
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn url(&self) -> GatewayUrl {
        let port = self.listener.local_addr().unwrap().port();
        format!("wss://127.0.0.1:{port}/v1/link").parse().unwrap()
    }

    pub(super) async fn dial(&self) -> Result<Dialed, DialError> {
        let config = tls::client_config(&self.path("agent.pem"), &self.path("ca.pem")).unwrap();
        Box::pin(dial::dial(&self.url(), config, self.times.handshake)).await
    }

    /// A link in the background, and how to stop it.
    pub(super) fn link(&self) -> (JoinSet<()>, CancellationToken) {
        let settings = Settings {
            gateway: self.url(),
            identity: self.path("agent.pem"),
            ca: self.path("ca.pem"),
            socket: self.path("link.sock"),
            times: self.times,
        };
        let (mut tasks, cancel) = (JoinSet::new(), CancellationToken::new());
        tasks.spawn(service::run(settings, cancel.clone()));
        (tasks, cancel)
    }

    pub(super) fn executor(&self) -> UnixListener {
        UnixListener::bind(self.path("link.sock")).unwrap()
    }

    pub(super) async fn tcp(&self) -> TcpStream {
        soon(self.listener.accept()).await.unwrap().0
    }

    /// Whether nobody dials for that long.
    pub(super) async fn nobody_dials(&self, during: Duration) -> bool {
        tokio::time::timeout(during, self.listener.accept())
            .await
            .is_err()
    }

    pub(super) async fn tls(&self) -> std::io::Result<TlsStream<TcpStream>> {
        soon(self.acceptor.accept(self.tcp().await)).await
    }

    pub(super) async fn gateway(&self) -> Gateway {
        let stream = self.tls().await.unwrap();
        let config = Some(dial::websocket_config());
        let upgrade = tokio_tungstenite::accept_async_with_config(stream, config);
        Gateway(soon(Box::pin(upgrade)).await.unwrap())
    }

    /// A session that is open: hello went up and welcome came down.
    pub(super) async fn session(&self, executor: &UnixListener) -> (Gateway, Executor) {
        let mut gateway = self.gateway().await;
        let mut executor = Executor::accept(executor).await;
        executor.send(HELLO).await;
        assert_eq!(gateway.receive().await.unwrap(), HELLO);
        gateway.send(WELCOME).await;
        assert_eq!(executor.receive().await.unwrap(), WELCOME);
        (gateway, executor)
    }
}

fn acceptor(ca: &Ca, identity: &str) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(ca.pem.as_bytes()).unwrap())
        .unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
        .build()
        .unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(identity.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(identity.as_bytes()).unwrap(),
        )
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

pub(super) struct Gateway(pub(super) WebSocketStream<TlsStream<TcpStream>>);

impl Gateway {
    pub(super) async fn send(&mut self, message: &[u8]) {
        let message = Message::Binary(Bytes::copy_from_slice(message));
        soon(self.0.send(message)).await.unwrap();
    }

    pub(super) async fn tell_link<T: serde::Serialize>(&mut self, body: &T) {
        self.send(&encode(Channel::Link, body).unwrap()).await;
    }

    /// The next binary message, or how the connection ended.
    pub(super) async fn receive(&mut self) -> Result<Bytes, Option<Message>> {
        match soon(self.0.next()).await {
            Some(Ok(Message::Binary(message))) => Ok(message),
            Some(Ok(other)) => Err(Some(other)),
            Some(Err(_)) | None => Err(None),
        }
    }

    pub(super) async fn sees_the_end(&mut self) {
        while self.receive().await != Err(None) {}
    }
}

pub(super) struct Executor {
    pub(super) reader: FrameReader<OwnedReadHalf>,
    pub(super) writer: OwnedWriteHalf,
}

impl Executor {
    pub(super) fn new(stream: UnixStream) -> Self {
        let (reader, writer) = stream.into_split();
        Self {
            reader: FrameReader::new(reader),
            writer,
        }
    }

    pub(super) async fn accept(listener: &UnixListener) -> Self {
        Self::new(soon(listener.accept()).await.unwrap().0)
    }

    pub(super) async fn send(&mut self, message: &[u8]) {
        soon(frames::write(&mut self.writer, message))
            .await
            .unwrap();
    }

    /// The next message; `None` at the end.
    pub(super) async fn receive(&mut self) -> Option<Vec<u8>> {
        soon(self.reader.next()).await.ok().flatten()
    }
}
