use archipel_storage::pool::PoolOptions;

use super::*;
use crate::s3::chunked::tests::example_decoder;

/// A body of pieces of this size, one every so many seconds.
fn paced(size: usize, seconds: u64, count: usize) -> RequestBody {
    let pieces = stream::unfold(0, move |sent| async move {
        if sent == count {
            return None;
        }
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        Some((Ok(Frame::data(Bytes::from(vec![1; size]))), sent + 1))
    });
    let inner = StreamBody::new(pieces).boxed_unsync();
    RequestBody::new(inner, Duration::from_secs(30), &Pool::inline())
}

/// A body of pieces of 64 KiB that never ends, in this memory.
fn endless(pool: &Pool) -> RequestBody {
    let piece = Bytes::from(vec![b'a'; 64 << 10]);
    let pieces = stream::repeat_with(move || Ok(Frame::data(piece.clone())));
    let inner = StreamBody::new(pieces).boxed_unsync();
    RequestBody::new(inner, Duration::from_secs(30), pool)
}

/// 1 MiB, of which 512 KiB may be held.
fn small_pool() -> Pool {
    let options = PoolOptions {
        buffer_bytes: 1 << 20,
        holdable_bytes: 512 << 10,
        ..PoolOptions::default()
    };
    Pool::start(options).unwrap()
}

async fn outcome(mut body: RequestBody) -> S3Result<usize> {
    Ok(body.collect(1 << 20).await?.len())
}

#[tokio::test(start_paused = true)]
async fn slow_client_may_take_its_time() {
    assert_eq!(outcome(paced(8 << 10, 29, 20)).await.unwrap(), 160 << 10);
    assert_eq!(outcome(paced(300, 1, 600)).await.unwrap(), 180_000);
    // A short body may take its time: it ends before it can be told from a trickle.
    assert_eq!(outcome(paced(1, 29, 2)).await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn client_that_stalls_or_trickles_is_refused() {
    for body in [paced(8 << 10, 31, 2), paced(1, 29, 20), paced(100, 1, 600)] {
        assert_eq!(
            outcome(body).await.unwrap_err().code(),
            Code::RequestTimeout
        );
    }
}

/// The time in which nobody reads the body is not the client's.
#[tokio::test(start_paused = true)]
async fn time_without_waiting_for_the_client_does_not_count() {
    let mut body = paced(1, 1, 20);
    while body.next().await.unwrap().is_some() {
        tokio::time::sleep(Duration::from_secs(100)).await;
    }
}

#[tokio::test]
async fn documents_share_the_memory_for_content() {
    let pool = small_pool();
    let error = endless(&pool).collect(4 << 20).await.unwrap_err();
    assert_eq!(error.code(), Code::SlowDown);
    assert_eq!(pool.free_buffer_bytes(), Some(1 << 20));

    let all = paced_in(&pool, 300 << 10).collect(1 << 20).await.unwrap();
    let held = (1 << 20) - pool.free_buffer_bytes().unwrap();
    assert!(held >= 284 << 10, "{held}");
    drop(all);
    assert_eq!(pool.free_buffer_bytes(), Some(1 << 20));
}

/// One piece of this size.
fn paced_in(pool: &Pool, size: usize) -> RequestBody {
    let inner = full(vec![1; size]);
    RequestBody::new(inner, Duration::from_secs(30), pool)
}

#[tokio::test]
async fn signed_chunks_share_the_memory_for_content() {
    let pool = small_pool();
    let head = format!("1000000;chunk-signature={}\r\n", "0".repeat(64));
    let mut body = endless(&pool);
    body.decode(example_decoder(1 << 30));
    body.take(head.into()).unwrap();
    let error = body.next().await.unwrap_err();
    assert_eq!(error.code(), Code::SlowDown);
    drop(body);
    assert_eq!(pool.free_buffer_bytes(), Some(1 << 20));
}
