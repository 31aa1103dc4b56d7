use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use super::*;

fn small() -> Pool {
    Pool::start(PoolOptions {
        threads: 1,
        queue: 1,
        buffer_bytes: 1 << 20,
        holdable_bytes: 512 << 10,
    })
    .unwrap()
}

#[tokio::test]
async fn a_panic_fails_its_job_but_not_the_thread() {
    for pool in [small(), Pool::inline()] {
        let panicked: Result<()> = pool.run(|| panic!("on purpose")).await;
        assert!(matches!(panicked, Err(Error::Failed(_))));
        pool.defer(|| panic!("on purpose"));
        assert_eq!(pool.run(|| Ok(7)).await.unwrap(), 7);
    }
}

/// With one thread and one place to wait, a third job is not queued until there is room.
#[tokio::test]
async fn a_full_queue_makes_callers_wait() {
    let pool = small();
    let (open, opened) = mpsc::channel::<()>();
    let started = Arc::new(AtomicUsize::new(0));
    let blocker = tokio::spawn(pool.run(move || {
        let _ = opened.recv();
        Ok(())
    }));
    let mut others = Vec::new();
    for _ in 0..5 {
        let started = started.clone();
        others.push(tokio::spawn(pool.run(move || {
            started.fetch_add(1, Ordering::SeqCst);
            Ok(())
        })));
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let workers = pool.workers.as_ref().unwrap();
    assert_eq!(workers.room.available_permits(), 0);
    assert!(workers.shared.queue.lock().jobs.len() <= 2);
    assert_eq!(started.load(Ordering::SeqCst), 0);
    open.send(()).unwrap();
    blocker.await.unwrap().unwrap();
    for other in others {
        other.await.unwrap().unwrap();
    }
    assert_eq!(started.load(Ordering::SeqCst), 5);
}

/// Thousands of clients may ask for blocks at once. A short job that comes after them runs before most.
#[tokio::test]
async fn reads_of_blocks_leave_room_for_others() {
    let pool = small();
    let (open, opened) = mpsc::channel::<()>();
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |what: &'static str| {
        let order = order.clone();
        move || {
            order.lock().push(what);
            Ok(())
        }
    };
    let reading = pool.clone();
    let first = tokio::spawn(async move {
        let job = move || {
            let _ = opened.recv();
            Ok(())
        };
        reading.run_read(job).await
    });
    let mut reads = Vec::new();
    for _ in 0..5 {
        let (pool, job) = (pool.clone(), note("read"));
        reads.push(tokio::spawn(async move { pool.run_read(job).await }));
    }
    tokio::task::yield_now().await;
    let short = tokio::spawn(pool.run(note("short")));
    tokio::task::yield_now().await;
    open.send(()).unwrap();
    for job in [first, short].into_iter().chain(reads) {
        job.await.unwrap().unwrap();
    }
    assert_eq!(order.lock()[0], "short");
}

/// The holder of a write transaction may wait for a sync while all threads wait for the holder.
#[tokio::test]
async fn a_deferred_job_runs_while_all_threads_are_blocked() {
    let pool = small();
    let (open, opened) = mpsc::channel::<()>();
    let blocked = tokio::spawn(pool.run(move || {
        let _ = opened.recv();
        Ok(())
    }));
    pool.defer(move || open.send(()).unwrap());
    blocked.await.unwrap().unwrap();
}

/// A caller that drops its job must not lose the room that the job took.
#[tokio::test]
async fn a_caller_that_goes_away_gives_its_room_back() {
    let pool = small();
    for _ in 0..20 {
        let mut future = Box::pin(pool.run(|| Ok(())));
        let _ = futures_poll_once(future.as_mut()).await;
    }
    assert_eq!(pool.run(|| Ok(1)).await.unwrap(), 1);
}

async fn futures_poll_once<F: Future + Unpin>(mut future: F) -> bool {
    std::future::poll_fn(|context| {
        let ready = std::pin::Pin::new(&mut future).poll(context).is_ready();
        std::task::Poll::Ready(ready)
    })
    .await
}

#[tokio::test]
async fn reservations_wait_when_memory_is_used_up() {
    let pool = small();
    let half = pool.reserve(512 << 10).await;
    let more_than_all = pool.reserve(1 << 30);
    tokio::pin!(more_than_all);
    assert!(!futures_poll_once(more_than_all.as_mut()).await);
    drop(half);
    let all = more_than_all.await;
    assert_eq!(pool.free_buffer_bytes(), Some(0));
    drop(all);
    assert_eq!(pool.free_buffer_bytes(), Some(1 << 20));
}

/// Clients that stall hold all that may be held, and the rest is in use: ciphers still have memory, which
/// has a bound, too.
#[tokio::test]
async fn ciphers_have_memory_of_their_own() {
    let pool = small();
    let held = pool.try_hold(512 << 10).unwrap();
    let rest = pool.reserve(512 << 10).await;
    assert!(pool.try_hold(1).is_none());
    assert_eq!(pool.free_buffer_bytes(), Some(0));
    let ciphers = pool.reserve_for_cipher(1 << 30).await;
    let more = pool.reserve_for_cipher(1);
    tokio::pin!(more);
    assert!(!futures_poll_once(more.as_mut()).await);
    drop((held, rest));
    assert!(!futures_poll_once(more.as_mut()).await);
    assert_eq!(pool.free_buffer_bytes(), Some(1 << 20));
    drop(ciphers);
    more.await;
}

#[tokio::test]
async fn threads_end_with_the_pool() {
    let pool = small();
    let workers = pool.workers.as_ref().unwrap();
    let lanes = [&workers.shared, &workers.deferred].map(Arc::downgrade);
    pool.run(|| Ok(())).await.unwrap();
    drop(pool);
    while lanes.iter().any(|lane| lane.upgrade().is_some()) {
        tokio::task::yield_now().await;
    }
}

fn with_scratch() -> (tempfile::TempDir, Pool) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("left"), "behind").unwrap();
    let pool = small().with_scratch(Scratch::open(folder.path()).unwrap());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    (folder, pool)
}

fn content(len: usize) -> Bytes {
    (0..len).map(|i| (i / 7) as u8).collect::<Vec<_>>().into()
}

/// However the content arrives, and with or without memory for it, it comes out unchanged.
#[tokio::test]
async fn staged_content_comes_out_unchanged() {
    let (_folder, pool) = with_scratch();
    for short in [false, true] {
        let _held = short.then(|| pool.try_hold(512 << 10).unwrap());
        for (len, piece) in [
            (0, 1),
            (9, 2),
            (16 << 10, 3000),
            (300_000, 7000),
            (400_000, 400_000),
        ] {
            let whole = content(len);
            let mut staged = pool.stage();
            for piece in whole.chunks(piece) {
                staged.extend(Bytes::copy_from_slice(piece)).await.unwrap();
            }
            assert_eq!(staged.len(), len);
            assert_eq!(staged.read().await.unwrap(), whole);
            assert_eq!(staged.take().await.unwrap(), whole);
            assert!(staged.is_empty());
        }
    }
    assert_eq!(pool.free_buffer_bytes(), Some(1 << 20));
}

/// Clients send a part of a block and stall. However many they are, later clients continue, and the
/// reserved memory stays within the holdable part.
#[tokio::test]
async fn stalled_clients_do_not_block_others() {
    let (_folder, pool) = with_scratch();
    let mut stalled = Vec::new();
    for _ in 0..50 {
        let mut staged = pool.stage();
        staged.extend(content(100_000)).await.unwrap();
        let block = pool.reserve(100_000).await.guard(content(100_000));
        let mut outgoing = pool.outgoing(block, 0..usize::MAX).await.unwrap();
        let piece = outgoing.next().await.unwrap().unwrap();
        stalled.push((staged, outgoing, piece));
        assert!(pool.free_buffer_bytes() >= Some(512 << 10));
    }
    assert!(pool.is_short());
    for (mut staged, mut outgoing, piece) in stalled {
        let mut got = piece.to_vec();
        while let Some(piece) = outgoing.next().await.unwrap() {
            got.extend_from_slice(&piece);
        }
        assert_eq!(got, content(100_000));
        assert_eq!(staged.take().await.unwrap(), content(100_000));
    }
    assert_eq!(pool.free_buffer_bytes(), Some(1 << 20));
}

#[test]
fn content_can_be_held_while_memory_is_left_for_all_of_it() {
    let pool = small();
    assert!(pool.can_hold(512 << 10) && !pool.can_hold((512 << 10) + 1));
    let held = pool.try_hold(1).unwrap();
    assert!(!pool.can_hold(512 << 10));
    drop(held);
    assert!(pool.can_hold(512 << 10));
    assert!(Pool::inline().can_hold(usize::MAX));
}

#[tokio::test]
async fn an_outgoing_range_holds_only_its_own_memory() {
    let (_folder, pool) = with_scratch();
    for (range, expected) in [
        (5..9, 5..9),
        (90_000..200_000, 90_000..100_000),
        (7..7, 0..0),
        (200_000..300_000, 0..0),
    ] {
        let block = pool.reserve(100_000).await.guard(content(100_000));
        let mut outgoing = pool.outgoing(block, range).await.unwrap();
        assert_eq!(pool.free_buffer_bytes(), Some(1 << 20));
        let piece = outgoing.next().await.unwrap().unwrap_or_default();
        assert_eq!(piece, content(100_000).slice(expected));
        assert!(outgoing.next().await.unwrap().is_none());
    }
}

/// Many clients that stall read parked content. Only a few of their jobs are before another one.
#[tokio::test]
async fn parked_content_leaves_room_for_other_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let options = PoolOptions {
        threads: 1,
        queue: 64,
        buffer_bytes: 1 << 20,
        holdable_bytes: 0,
    };
    let pool = Pool::start(options).unwrap();
    let pool = pool.with_scratch(Scratch::open(folder.path()).unwrap());
    let mut clients = Vec::new();
    for _ in 0..40 {
        clients.push(pool.outgoing(content(64 << 10), 0..64 << 10).await.unwrap());
    }
    let (open, opened) = mpsc::channel::<()>();
    let blocker = tokio::spawn(pool.run(move || {
        let _ = opened.recv();
        Ok(())
    }));
    let read = Arc::new(AtomicUsize::new(0));
    let mut reading = Vec::new();
    for mut client in clients {
        let read = read.clone();
        reading.push(tokio::spawn(async move {
            client.next().await.unwrap();
            read.fetch_add(1, Ordering::SeqCst);
        }));
    }
    tokio::task::yield_now().await;
    let before = Arc::new(AtomicUsize::new(usize::MAX));
    let other = tokio::spawn(pool.run({
        let (read, before) = (read.clone(), before.clone());
        move || {
            before.store(read.load(Ordering::SeqCst), Ordering::SeqCst);
            Ok(())
        }
    }));
    tokio::task::yield_now().await;
    open.send(()).unwrap();
    blocker.await.unwrap().unwrap();
    other.await.unwrap().unwrap();
    for one in reading {
        one.await.unwrap();
    }
    assert!(before.load(Ordering::SeqCst) <= PARKING_JOBS);
    assert_eq!(read.load(Ordering::SeqCst), 40);
}

/// A file system that hangs takes one thread, however many callers ask about it and give up.
#[tokio::test]
async fn a_job_that_hangs_keeps_others_of_its_kind_out_of_the_pool() {
    let options = PoolOptions {
        threads: 2,
        queue: 1,
        ..PoolOptions::default()
    };
    let (pool, single) = (Pool::start(options).unwrap(), Single::default());
    let (open, opened) = mpsc::channel::<()>();
    let hangs = move || {
        let _ = opened.recv();
        Ok(())
    };
    let mut first = Box::pin(pool.run_single(&single, hangs));
    assert!(!futures_poll_once(first.as_mut()).await);
    drop(first);
    let begun = Arc::new(AtomicUsize::new(0));
    for _ in 0..5 {
        let begun = begun.clone();
        let next = move || {
            begun.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        let mut next = Box::pin(pool.run_single(&single, next));
        assert!(!futures_poll_once(next.as_mut()).await);
    }
    // A job comes after those that were admitted before it.
    assert_eq!(pool.run(|| Ok(7)).await.unwrap(), 7);
    assert_eq!(begun.load(Ordering::SeqCst), 0);
    open.send(()).unwrap();
    assert_eq!(pool.run_single(&single, || Ok(8)).await.unwrap(), 8);
}
