use super::*;

const MS: Duration = Duration::from_millis(1);

/// Clients get an answer every 10 ms for so many; gives when that ends.
fn serve(state: &mut State, from: Instant, answers: u32, took: Duration) -> Instant {
    let mut now = from;
    for _ in 0..answers {
        now += 10 * MS;
        state.answered(now, Kind::Write, took);
    }
    now
}

#[test]
fn without_clients_nothing_waits_or_rests() {
    let (mut state, now) = (State::default(), Instant::now());
    assert!((0..1000).all(|_| state.begin(now).is_ok()));
    state.allowed = LEAST;
    state.end(now, 100 * MS);
    assert!(state.begin(now).is_ok());
    // Clients that were there a while ago are gone.
    let now = serve(&mut state, now, 100, 2 * MS);
    assert_eq!(state.begin(now), Err(TICK));
    assert!(state.begin(now + GONE).is_ok());
}

#[test]
fn units_that_slow_clients_down_become_few_and_rest() {
    let mut state = State::default();
    let now = serve(&mut state, Instant::now(), 100, 2 * MS);
    assert!(state.begin(now).is_ok() && state.begin(now).is_ok());
    assert_eq!(state.begin(now), Err(TICK));
    let now = serve(&mut state, now, 1000, 6 * MS);
    assert!((state.allowed - LEAST).abs() < 1e-9);
    // Beside clients that are slower for good, one unit runs at a time, and a part of the time.
    state.end(now, MS);
    state.end(now, 20 * MS);
    assert_eq!(state.begin(now), Err(60 * MS));
    assert_eq!(state.begin(now + 60 * MS), Ok(()));
    assert_eq!(state.begin(now + 60 * MS), Err(TICK));
    state.end(now, 10_000 * MS);
    assert_eq!(state.resting, Some(now + LONGEST_REST));
}

#[test]
fn units_that_nobody_notices_become_many() {
    let mut state = State::default();
    let now = serve(&mut state, Instant::now(), 100, 2 * MS);
    assert!(state.begin(now).is_ok());
    let now = serve(&mut state, now, 1000, 2 * MS);
    assert!((state.allowed - MOST).abs() < 1e-9);
    // And few again as soon as somebody does.
    serve(&mut state, now, 300, 10 * MS);
    assert!(state.allowed < 1.0);
}

/// What answers take between two units says little about what they take without any.
#[test]
fn what_clients_are_used_to_is_not_soon_forgotten_while_work_goes_on() {
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

/// Also where nothing was ever seen without units: after a restart in the middle of a move.
#[test]
fn what_answers_usually_take_stands_in_for_what_was_never_seen() {
    let (mut state, now) = (State::default(), Instant::now());
    assert!(state.begin(now).is_ok());
    let now = serve(&mut state, now, 200, 5 * MS);
    assert!(state.allowed > FIRST);
    serve(&mut state, now, 200, 50 * MS);
    assert!(state.allowed < FIRST);
}

#[tokio::test(start_paused = true)]
async fn units_wait_for_their_turn() {
    let throttle = Throttle::default();
    throttle.answered(Kind::Read, MS);
    let began = Instant::now();
    let unit = || throttle.run(async { tokio::time::sleep(300 * MS).await });
    futures_util::future::join_all((0..4).map(|_| unit())).await;
    // Two at a time.
    assert!(began.elapsed() >= 600 * MS);
    let began = Instant::now();
    tokio::time::sleep(GONE).await;
    futures_util::future::join_all((0..40).map(|_| unit())).await;
    assert!(began.elapsed() < GONE + 400 * MS);
}
