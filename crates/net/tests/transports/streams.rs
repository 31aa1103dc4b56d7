//! Tests of streams of frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use archipel_net::{Class, Error, MAX_FRAME_BYTES, Stream};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::time::timeout;

use super::pairs::{Kind, TIMEOUT, noise, pairs};

const BULK: Class = Class::Data { remaining: 1 << 30 };

#[tokio::test]
async fn frames_arrive_whole_and_in_order_up_to_the_longest() {
    for pair in pairs() {
        let (mut here, mut there) = pair.stream(Class::Small).await;
        let frames: Vec<_> = [0, 1, 3, 65_535, 65_536, 300_000, MAX_FRAME_BYTES, 0, 7]
            .map(noise)
            .into();
        let sending = async {
            for frame in &frames {
                here.send.send(frame.clone()).await.unwrap();
            }
            here.send.finish().await.unwrap();
        };
        let receiving = async {
            for frame in &frames {
                let received = there.receive.receive().await.unwrap();
                assert_eq!(received.as_ref(), Some(frame), "{:?}", pair.kind);
            }
            // The end stays the end.
            assert_eq!(there.receive.receive().await.unwrap(), None);
            assert_eq!(there.receive.receive().await.unwrap(), None);
        };
        futures_util::join!(sending, receiving);
        // The other direction is still open.
        there.send.send(noise(5)).await.unwrap();
        there.send.finish().await.unwrap();
        assert_eq!(here.receive.receive().await.unwrap(), Some(noise(5)));
        assert_eq!(here.receive.receive().await.unwrap(), None);
    }
}

#[tokio::test]
async fn too_long_frame_is_refused() {
    for pair in pairs() {
        let (mut here, _there) = pair.stream(Class::Small).await;
        let long = Bytes::from(vec![0; MAX_FRAME_BYTES + 1]);
        let refused = here.send.send(long).await;
        assert!(
            matches!(refused, Err(Error::Protocol(..))),
            "{:?}",
            pair.kind
        );
    }
}

#[tokio::test]
async fn dropped_stream_is_reset_and_not_ended() {
    for pair in pairs() {
        let (here, mut there) = pair.stream(Class::Small).await;
        drop(here);
        let received = there.receive.receive().await;
        assert!(
            matches!(received, Err(Error::Broken(..))),
            "{:?}",
            pair.kind
        );
    }
}

#[tokio::test]
async fn dropped_receiver_stops_the_sender() {
    for pair in pairs() {
        let (mut here, there) = pair.stream(BULK).await;
        drop(there);
        let sending = async {
            while here.send.send(noise(1000)).await.is_ok() {
                tokio::task::yield_now().await;
            }
        };
        timeout(TIMEOUT, sending).await.unwrap();
        // Other streams continue.
        pair.stream(BULK).await;
    }
}

#[tokio::test]
async fn cancelled_receive_loses_no_frame() {
    for pair in pairs() {
        let (mut here, mut there) = pair.stream(Class::Small).await;
        let sending = async {
            for n in 0..200 {
                here.send.send(noise(n * 100)).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let receiving = async {
            let mut n = 0;
            while n < 200 {
                // The call is cancelled and repeated many times.
                tokio::select! {
                    biased;
                    frame = there.receive.receive() => {
                        assert_eq!(frame.unwrap(), Some(noise(n * 100)), "{:?}", pair.kind);
                        n += 1;
                    }
                    () = tokio::task::yield_now() => {}
                }
            }
        };
        futures_util::join!(sending, receiving);
    }
}

/// Unread streams each take a limited number of frames, and delay neither each other nor other
/// streams of their class.
#[tokio::test]
async fn unread_streams_are_bounded_and_delay_no_other() {
    const STUCK: usize = 10;
    const FRAME: usize = 1 << 20;
    let frame = noise(FRAME);
    for pair in pairs() {
        let mut held = Vec::new();
        let mut sending = Vec::new();
        for _ in 0..STUCK {
            let (mut here, there) = pair.stream(BULK).await;
            held.push(there);
            let sent = Arc::new(AtomicUsize::new(0));
            let (count, frame) = (sent.clone(), frame.clone());
            let task = tokio::spawn(async move {
                while here.send.send(frame.clone()).await.is_ok() {
                    count.fetch_add(1, Ordering::SeqCst);
                }
            });
            sending.push((task, sent));
        }
        // A stream that carries more than all windows together passes them.
        let (mut here, mut there) = pair.stream(BULK).await;
        let frame = frame.clone();
        let passing = tokio::spawn(async move {
            for _ in 0..40 {
                here.send.send(frame.clone()).await.unwrap();
            }
            here.send.finish().await.unwrap();
        });
        let mut frames = 0;
        while timeout(TIMEOUT, there.receive.receive())
            .await
            .unwrap()
            .unwrap()
            .is_some()
        {
            frames += 1;
        }
        assert_eq!(frames, 40, "{:?}", pair.kind);
        passing.await.unwrap();
        for (task, sent) in sending {
            task.abort();
            let sent = sent.load(Ordering::SeqCst);
            assert!(sent <= 24, "{:?}: {sent} frames", pair.kind);
        }
    }
}

#[tokio::test]
async fn two_hundred_streams_at_once_do_not_mix() {
    for pair in pairs() {
        let b = pair.b.clone();
        let echo = tokio::spawn(async move {
            while let Some(incoming) = b.accept().await {
                let Stream {
                    mut send,
                    mut receive,
                } = incoming.stream;
                tokio::spawn(async move {
                    while let Ok(Some(frame)) = receive.receive().await {
                        send.send(frame).await.unwrap();
                    }
                    send.finish().await.unwrap();
                });
            }
        });
        let classes = [Class::Control, Class::Small, BULK, Class::Background];
        let streams = (0..200).map(|n: usize| {
            let (a, peer) = (pair.a.clone(), pair.to_b.clone());
            async move {
                let stream = a.open(&peer, classes[n % 4]).await.unwrap();
                let Stream {
                    mut send,
                    mut receive,
                } = stream;
                let frames: Vec<_> = (0..20).map(|k| noise(n * 50 + k)).collect();
                let sending = async {
                    for frame in &frames {
                        send.send(frame.clone()).await.unwrap();
                    }
                    send.finish().await.unwrap();
                };
                let receiving = async {
                    for frame in &frames {
                        assert_eq!(receive.receive().await.unwrap().as_ref(), Some(frame));
                    }
                    assert_eq!(receive.receive().await.unwrap(), None);
                };
                futures_util::join!(sending, receiving);
            }
        });
        timeout(TIMEOUT, join_all(streams)).await.unwrap();
        echo.abort();
    }
}

#[tokio::test]
async fn control_streams_overtake_waiting_content() {
    let frame = noise(1 << 20);
    for pair in pairs() {
        let frame = frame.clone();
        let (mut bulk, mut unread) = pair.stream(BULK).await;
        let sending = tokio::spawn(async move {
            for _ in 0..32 {
                bulk.send.send(frame.clone()).await.unwrap();
            }
            bulk.send.finish().await.unwrap();
        });
        // Content fills all buffers because nobody reads it. The control streams are answered
        // nevertheless.
        for n in 0..20 {
            let (mut here, mut there) = pair.stream(Class::Control).await;
            there.send.send(noise(n)).await.unwrap();
            assert_eq!(here.receive.receive().await.unwrap(), Some(noise(n)));
        }
        assert!(!sending.is_finished(), "{:?}", pair.kind);
        let mut frames = 0;
        while unread.receive.receive().await.unwrap().is_some() {
            frames += 1;
        }
        assert_eq!(frames, 32, "{:?}", pair.kind);
    }
}

/// Only QUIC has one connection for both. TCP's order has tests of its own.
#[tokio::test]
async fn content_overtakes_waiting_background_content_of_its_connection() {
    let (piece, frame) = (noise(64 << 10), noise(1 << 20));
    for pair in pairs().into_iter().filter(|pair| pair.kind == Kind::Quic) {
        let (mut repair, mut of_repair) = pair.stream(Class::Background).await;
        let (mut client, mut of_client) = pair.stream(BULK).await;
        // All of it fits into the connection's buffer. Nothing leaves before this task waits.
        for _ in 0..48 {
            repair.send.send(piece.clone()).await.unwrap();
        }
        for _ in 0..3 {
            client.send.send(frame.clone()).await.unwrap();
        }
        let first = timeout(TIMEOUT, of_client.receive.receive()).await;
        assert_eq!(first.unwrap().unwrap().as_ref(), Some(&frame));
        let mut overtaken = 0;
        while let Some(Ok(Some(_))) = of_repair.receive.receive().now_or_never() {
            overtaken += 1;
        }
        // In turns, as many bytes of either stream would have come: 16 pieces.
        assert!(overtaken < 8, "{overtaken} pieces came first");
    }
}
