use super::*;

const MS: Duration = Duration::from_millis(1);

/// Answers a client every 10 ms, `answers` times. Returns when that ends.
fn serve(state: &mut State, from: Instant, answers: u32, took: Duration) -> Instant {
    let mut now = from;
    for _ in 0..answers {
        now += 10 * MS;
        state.answered(now, Kind::Write, took);
    }
    now
}

#[test]
fn units_neither_wait_nor_rest_without_clients() {
    let (mut state, now) = (State::default(), Instant::now());
    assert!((0..1000).all(|_| state.begin(now).is_ok()));
    state.allowed = LEAST;
    state.end(now, 100 * MS);
    assert!(state.begin(now).is_ok());
    // Clients that were served a while ago are gone.
    let now = serve(&mut state, now, 100, 2 * MS);
    assert_eq!(state.begin(now), Err(TICK));
    assert!(state.begin(now + GONE).is_ok());
}

#[test]
fn allowance_shrinks_while_units_slow_clients_down() {
    let mut state = State::default();
    let now = serve(&mut state, Instant::now(), 100, 2 * MS);
    assert!(state.begin(now).is_ok() && state.begin(now).is_ok());
    assert_eq!(state.begin(now), Err(TICK));
    let now = serve(&mut state, now, 1000, 6 * MS);
    assert!((state.allowed - LEAST).abs() < 1e-9);
    // If clients stay slower, one unit runs at a time, for a part of the time.
    state.end(now, MS);
    state.end(now, 20 * MS);
    assert_eq!(state.begin(now), Err(60 * MS));
    assert_eq!(state.begin(now + 60 * MS), Ok(()));
    assert_eq!(state.begin(now + 60 * MS), Err(TICK));
    state.end(now, 10_000 * MS);
    assert_eq!(state.resting, Some(now + LONGEST_REST));
}

#[test]
fn allowance_grows_while_units_slow_no_client_down() {
    let mut state = State::default();
    let now = serve(&mut state, Instant::now(), 100, 2 * MS);
    assert!(state.begin(now).is_ok());
    let now = serve(&mut state, now, 1000, 2 * MS);
    assert!((state.allowed - MOST).abs() < 1e-9);
    // The allowance shrinks again as soon as clients are slowed down.
    serve(&mut state, now, 300, 10 * MS);
    assert!(state.allowed < 1.0);
}

/// The time of answers between two units says little about the time without units.
#[test]
fn average_without_units_changes_slowly_between_units() {
    let mut state = State::default();
    let mut now = serve(&mut state, Instant::now(), 100, 2 * MS);
    for _ in 0..20 {
        state.working += 1;
        now = serve(&mut state, now, 1, 8 * MS);
        state.end(now, MS);
        now = serve(&mut state, now + 50 * MS, 1, 8 * MS);
    }
    assert!(state.alone[Kind::Write as usize].is_some_and(|alone| alone < 0.003));
    assert!(state.allowed < 1.0);
}

/// This also covers a node that never ran without units, such as one that restarted during a
/// rebalance.
#[test]
fn usual_time_replaces_an_average_that_was_never_measured() {
    let (mut state, now) = (State::default(), Instant::now());
    assert!(state.begin(now).is_ok());
    let now = serve(&mut state, now, 200, 5 * MS);
    assert!(state.allowed > FIRST);
    serve(&mut state, now, 200, 50 * MS);
    assert!(state.allowed < FIRST);
}

#[tokio::test(start_paused = true)]
async fn two_units_run_at_once_beside_clients() {
    let throttle = Throttle::default();
    throttle.answered(Kind::Read, MS);
    let began = Instant::now();
    let unit = || throttle.run(async { tokio::time::sleep(300 * MS).await });
    futures_util::future::join_all((0..4).map(|_| unit())).await;
    // Two units run at a time.
    assert!(began.elapsed() >= 600 * MS);
    let began = Instant::now();
    tokio::time::sleep(GONE).await;
    futures_util::future::join_all((0..40).map(|_| unit())).await;
    assert!(began.elapsed() < GONE + 400 * MS);
}
