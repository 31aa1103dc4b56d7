use super::*;

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
    RequestBody::new(inner, Duration::from_secs(30))
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
