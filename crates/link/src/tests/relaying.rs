use super::world::{Executor, Gateway, HELLO, WELCOME, World, soon};
use crate::frames::FrameReadError;
use crate::limits::Times;
use crate::relay::{End, Ended, relay};
use crate::tls::TlsFault;
use futures_util::SinkExt;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;
use willcall_protocol::limits::MAX_MESSAGE;
use willcall_protocol::message::ToLink;

const SHORT: Duration = Duration::from_millis(100);

/// Relays one session, with `play` as the two peers, and tells how it ended.
async fn play<F: Future<Output = ()>>(
    times: Times,
    play: impl FnOnce(Gateway, Executor) -> F,
) -> Ended {
    let world = World::new().await;
    let (dialed, gateway) = tokio::join!(world.dial(), world.gateway());
    let (ours, executors) = UnixStream::pair().unwrap();
    let cancel = CancellationToken::new();
    let relaying = Box::pin(relay(dialed.unwrap(), ours, times, &cancel));
    let playing = Box::pin(play(gateway, Executor::new(executors)));
    soon(async { tokio::join!(relaying, playing) }).await.0
}

#[tokio::test]
async fn session_messages_pass_unread_both_ways_and_link_messages_stay() {
    let ended = play(Times::REAL, |mut gateway, mut executor| async move {
        executor.send(HELLO).await;
        assert_eq!(gateway.receive().await.unwrap(), HELLO);
        gateway
            .tell_link(&ToLink::Clock { server_time_ms: 1 })
            .await;
        gateway.send(WELCOME).await;
        gateway.send(b"\x00\x00{\"type\":\"something new\"}").await;
        let largest = [&[1, 0][..], &vec![b'x'; MAX_MESSAGE - 2]].concat();
        gateway.send(&largest).await;
        assert_eq!(executor.receive().await.unwrap(), WELCOME);
        assert_eq!(executor.receive().await.unwrap(), largest);
        executor.send(&largest).await;
        assert_eq!(gateway.receive().await.unwrap(), largest);
        gateway
            .tell_link(&ToLink::Drain {
                reconnect_after_ms: 1500,
            })
            .await;
        gateway.0.close(None).await.unwrap();
        assert_eq!(executor.receive().await, None);
    })
    .await;
    assert!(
        matches!(ended.why, End::GatewayClosed { .. }),
        "{:?}",
        ended.why
    );
    assert!(ended.connected.is_some());
    assert_eq!(ended.pace, Some(Duration::from_millis(1500)));
}

/// Both peers send at once and read only afterwards, more than any buffer between them holds.
#[tokio::test]
async fn two_peers_that_both_send_do_not_lock_each_other() {
    let ended = play(Times::REAL, |mut gateway, mut executor| async move {
        let message = [&[1, 0][..], &vec![b'x'; 900_000]].concat();
        let (mut down, mut up) = (0, 0);
        let Executor { reader, writer } = &mut executor;
        let sending = async {
            for _ in 0..20 {
                crate::frames::write(writer, &message).await.unwrap();
            }
        };
        let gateway_side = async {
            for _ in 0..20 {
                gateway.send(&message).await;
            }
            while up < 20 {
                assert_eq!(gateway.receive().await.unwrap().len(), message.len());
                up += 1;
            }
        };
        let receiving = async {
            while down < 20 {
                assert_eq!(reader.next().await.unwrap().unwrap().len(), message.len());
                down += 1;
            }
        };
        tokio::join!(sending, gateway_side, receiving);
        drop(executor);
        gateway.sees_the_end().await;
    })
    .await;
    check(&ended, |end| matches!(end, End::ExecutorLeft));
}

#[track_caller]
fn check(ended: &Ended, expected: impl FnOnce(&End) -> bool) {
    assert!(expected(&ended.why), "{:?}", ended.why);
}

#[tokio::test]
async fn an_oversize_frame_from_the_executor_is_refused() {
    let ended = play(Times::REAL, |mut gateway, mut executor| async move {
        let length = u32::try_from(MAX_MESSAGE + 1).unwrap();
        executor
            .writer
            .write_all(&length.to_le_bytes())
            .await
            .unwrap();
        gateway.sees_the_end().await;
        assert_eq!(executor.receive().await, None);
    })
    .await;
    check(&ended, |end| {
        matches!(end, End::ExecutorFrame(FrameReadError::TooLong(_)))
    });
    assert!(ended.connected.is_none());
}

#[tokio::test]
async fn an_executor_that_speaks_to_the_gateways_link_is_refused() {
    let ended = play(Times::REAL, |mut gateway, mut executor| async move {
        executor.send(b"\x00\x00{}").await;
        gateway.sees_the_end().await;
    })
    .await;
    check(&ended, |end| matches!(end, End::ExecutorChannel));
}

#[tokio::test]
async fn an_executor_that_leaves_takes_the_websocket_along() {
    let ended = play(Times::REAL, |mut gateway, executor| async move {
        drop(executor);
        assert!(matches!(
            gateway.receive().await,
            Err(Some(Message::Close(_)))
        ));
    })
    .await;
    check(&ended, |end| matches!(end, End::ExecutorLeft));
}

#[tokio::test]
async fn text_is_refused() {
    let ended = play(Times::REAL, |mut gateway, mut executor| async move {
        gateway.0.send(Message::text("hi")).await.unwrap();
        assert_eq!(executor.receive().await, None);
        gateway.sees_the_end().await;
    })
    .await;
    check(&ended, |end| matches!(end, End::GatewayText));
}

#[tokio::test]
async fn a_message_on_an_unknown_channel_is_refused() {
    let ended = play(Times::REAL, |mut gateway, mut executor| async move {
        gateway.send(b"\x07\x00{}").await;
        assert_eq!(executor.receive().await, None);
    })
    .await;
    check(&ended, |end| matches!(end, End::GatewayMessage(_)));
}

#[tokio::test]
async fn a_silent_gateway_is_dead() {
    let times = Times {
        dead_after: SHORT,
        ..Times::REAL
    };
    let ended = play(times, |mut gateway, mut executor| async move {
        gateway.send(WELCOME).await;
        assert_eq!(executor.receive().await.unwrap(), WELCOME);
        assert_eq!(executor.receive().await, None);
    })
    .await;
    check(&ended, |end| matches!(end, End::GatewaySilent(_)));
    assert!(ended.connected.is_some());
}

#[tokio::test]
async fn no_welcome_is_the_gateways_fault_and_no_hello_the_executors() {
    let times = Times {
        handshake: SHORT,
        ..Times::REAL
    };
    let greeted = play(times, |mut gateway, mut executor| async move {
        executor.send(HELLO).await;
        assert_eq!(gateway.receive().await.unwrap(), HELLO);
        gateway
            .tell_link(&ToLink::Clock { server_time_ms: 1 })
            .await;
        assert_eq!(executor.receive().await, None);
    })
    .await;
    check(&greeted, |end| matches!(end, End::NoWelcome(_)));
    let silent = play(times, |gateway, mut executor| async move {
        assert_eq!(executor.receive().await, None);
        drop(gateway);
    })
    .await;
    check(&silent, |end| matches!(end, End::NoHello(_)));
}

#[tokio::test]
async fn an_executor_that_does_not_read_is_stuck() {
    let times = Times {
        executor_stalled: SHORT,
        ..Times::REAL
    };
    let ended = play(times, |mut gateway, executor| async move {
        let message = [&[1, 0][..], &vec![b'x'; 900_000]].concat();
        gateway.send(&message).await;
        gateway.sees_the_end().await;
        drop(executor);
    })
    .await;
    check(&ended, |end| matches!(end, End::ExecutorStalled(_)));
}

#[tokio::test]
async fn a_lost_websocket_closes_the_executors_side_and_both_come_back() {
    let world = World::new().await;
    let listener = world.executor();
    let (_tasks, _cancel) = world.link();
    let (gateway, mut executor) = world.session(&listener).await;
    drop(gateway);
    assert_eq!(executor.receive().await, None);
    let (mut gateway, mut executor) = world.session(&listener).await;
    executor.send(b"\x01\x00again").await;
    assert_eq!(gateway.receive().await.unwrap(), &b"\x01\x00again"[..]);
}

#[tokio::test]
async fn a_restarted_executor_gets_a_new_websocket() {
    let world = World::new().await;
    let listener = world.executor();
    let (_tasks, _cancel) = world.link();
    let (mut gateway, executor) = world.session(&listener).await;
    drop(executor);
    gateway.sees_the_end().await;
    world.session(&listener).await;
}

/// Its time up to the welcome does not run while somebody else is waited for.
#[tokio::test]
async fn the_executor_is_not_bothered_before_the_gateway_is_there() {
    let world = World::new().await;
    let listener = world.executor();
    let (_tasks, _cancel) = world.link();
    let half_open = world.tcp().await;
    let early = tokio::time::timeout(SHORT, listener.accept()).await;
    assert!(early.is_err(), "{early:?}");
    drop(half_open);
    world.session(&listener).await;
}

#[tokio::test]
async fn without_an_executor_the_gateway_is_told_goodbye_and_left_alone() {
    let mut world = World::new().await;
    world.times.executor_wait = SHORT;
    let (_tasks, _cancel) = world.link();
    let mut gateway = world.gateway().await;
    assert!(matches!(
        gateway.receive().await,
        Err(Some(Message::Close(_)))
    ));
    // Longer than the first pause of the back-off.
    assert!(world.nobody_dials(Duration::from_millis(1200)).await);
    let listener = world.executor();
    drop(Executor::accept(&listener).await);
    world.session(&listener).await;
}

#[tokio::test]
async fn a_stopped_link_says_goodbye() {
    let world = World::new().await;
    let listener = world.executor();
    let (mut tasks, cancel) = world.link();
    let (mut gateway, mut executor) = world.session(&listener).await;
    cancel.cancel();
    assert!(matches!(
        gateway.receive().await,
        Err(Some(Message::Close(_)))
    ));
    assert_eq!(executor.receive().await, None);
    soon(tasks.join_next()).await.unwrap().unwrap();
}

/// A gateway that checks identities only after the upgrade refuses with an alert in the open session.
#[test]
fn a_refusal_in_the_open_session_is_still_about_our_certificate() {
    let alert = rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRevoked);
    let end = End::from(tokio_tungstenite::tungstenite::Error::Io(
        std::io::Error::other(alert),
    ));
    assert!(matches!(
        end,
        End::Tls {
            fault: TlsFault::OurCertificateRevoked,
            ..
        }
    ));
}
