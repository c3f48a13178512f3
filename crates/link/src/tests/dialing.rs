use super::world::{Ca, World, soon};
use crate::dial::{DialError, Stage};
use crate::tls::TlsFault;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Dials while the gateway does its part of the handshake, and names the fault.
#[track_caller]
fn check(dialed: Result<crate::dial::Dialed, DialError>, expected: TlsFault) {
    match dialed {
        Err(DialError::Tls { fault, .. }) => assert_eq!(fault, expected),
        other => panic!("expected {expected:?}, got {other:?}"),
    }
}

#[tokio::test]
async fn a_gateway_of_another_ca_is_not_ours() {
    let world = World::new().await;
    let other = World::new().await;
    std::fs::copy(other.path("ca.pem"), world.path("ca.pem")).unwrap();
    let (dialed, accepted) = tokio::join!(world.dial(), world.tls());
    check(dialed, TlsFault::GatewayForeign);
    assert!(accepted.is_err());
}

#[tokio::test]
async fn a_gateway_of_another_name_is_not_ours() {
    let world = World::with_names(&["gateway.example"]).await;
    let (dialed, _) = tokio::join!(world.dial(), world.tls());
    check(dialed, TlsFault::GatewayName);
}

/// The refusal of our certificate comes after our side of the handshake has succeeded.
async fn refused_identity(
    identity: String,
    world: &World,
) -> Result<crate::dial::Dialed, DialError> {
    std::fs::write(world.path("agent.pem"), identity).unwrap();
    let (dialed, accepted) = tokio::join!(world.dial(), world.tls());
    assert!(accepted.is_err());
    dialed
}

#[tokio::test]
async fn an_expired_identity_is_our_fault() {
    let world = World::new().await;
    let dialed = refused_identity(world.ca.issue(&["agent"], 2001), &world).await;
    check(dialed, TlsFault::OurCertificateExpired);
}

#[tokio::test]
async fn an_identity_of_another_ca_is_our_fault() {
    let world = World::new().await;
    let dialed = refused_identity(Ca::new().issue(&["agent"], 2999), &world).await;
    check(dialed, TlsFault::OurCertificateForeign);
}

#[tokio::test]
async fn what_does_not_speak_tls_is_not_a_gateway() {
    let world = World::new().await;
    let answer = async {
        let mut tcp = world.tcp().await;
        tcp.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
        let _ = soon(tcp.read_to_end(&mut Vec::new())).await;
    };
    let (dialed, ()) = tokio::join!(world.dial(), answer);
    check(dialed, TlsFault::Protocol);
}

#[tokio::test]
async fn a_busy_gateway_sets_the_pace() {
    let world = World::new().await;
    let answer = async {
        let mut tls = world.tls().await.unwrap();
        let mut request = [0; 16];
        soon(tls.read_exact(&mut request)).await.unwrap();
        let refusal = b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n";
        tls.write_all(refusal).await.unwrap();
        tls.flush().await.unwrap();
        let _ = soon(tls.read_to_end(&mut Vec::new())).await;
    };
    let (dialed, ()) = tokio::join!(world.dial(), answer);
    let error = dialed.unwrap_err();
    assert!(
        matches!(error, DialError::Refused { status: 503, .. }),
        "{error:?}"
    );
    assert_eq!(error.pace(), Some(Duration::from_secs(7)));
}

#[tokio::test]
async fn a_gateway_that_says_nothing_has_its_time_and_no_more() {
    let mut world = World::new().await;
    world.times.handshake = Duration::from_millis(50);
    let (dialed, _silent) = tokio::join!(world.dial(), world.tcp());
    assert!(matches!(
        dialed.unwrap_err(),
        DialError::Timeout {
            stage: Stage::Tls,
            ..
        }
    ));
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    let world = World::new().await;
    let url = world.url();
    let config =
        crate::tls::client_config(&world.path("agent.pem"), &world.path("ca.pem")).unwrap();
    let limit = world.times.handshake;
    drop(world);
    let dialed = Box::pin(crate::dial::dial(&url, config, limit)).await;
    assert!(matches!(dialed.unwrap_err(), DialError::Unreachable(_)));
}
