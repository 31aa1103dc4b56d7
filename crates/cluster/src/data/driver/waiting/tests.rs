use super::*;

const ALL: usize = 3;

fn set(indexes: &[usize]) -> ReplicaSet {
    indexes.iter().copied().collect()
}

struct Seen {
    quorums: Quorums,
    away: ReplicaSet,
    open: ReplicaSet,
    without: ReplicaSet,
    round: u32,
}

impl Seen {
    fn new(away: &[usize], open: &[usize]) -> Seen {
        Seen {
            quorums: Quorums::majority_of(ALL),
            away: set(away),
            open: set(open),
            without: ReplicaSet::EMPTY,
            round: 1,
        }
    }

    fn replicas(&self) -> Replicas<'_> {
        Replicas {
            quorums: &self.quorums,
            away: self.away,
            open: self.open,
            without: self.without,
            round: self.round,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_replica_that_the_quorum_needs_is_asked_again() {
    let now = Instant::now();
    let mut waiting = Waiting::new(now, Times::USUAL);
    let seen = Seen::new(&[], &[0, 2]);
    assert!(waiting.on_failure(now, (1, 1), true, &seen.replicas()));
    let seen = Seen::new(&[], &[0]);
    assert!(!waiting.on_failure(now, (2, 1), true, &seen.replicas()));
    let retry = waiting.until(&seen.replicas()).unwrap();
    assert_eq!(retry - now, Times::USUAL.first_retry);
    assert_eq!(waiting.on_silence(retry, &seen.replicas()), Due::Again);
    // No replica has failed in the next round yet.
    assert!(waiting.on_failure(retry, (2, 2), true, &seen.replicas()));
}

/// The disk of one replica of three was lost, so both others are needed.
#[tokio::test(start_paused = true)]
async fn a_replica_is_asked_again_if_another_is_lost() {
    let now = Instant::now();
    let (seen, away) = (Seen::new(&[], &[]), Seen::new(&[2], &[]));
    for [first, second] in [[(1, false), (2, true)], [(2, true), (1, false)]] {
        let mut waiting = Waiting::new(now, Times::USUAL);
        assert!(waiting.on_failure(now, (first.0, 1), first.1, &seen.replicas()));
        assert!(!waiting.on_failure(now, (second.0, 1), second.1, &seen.replicas()));
        let retry = waiting.until(&seen.replicas()).unwrap();
        assert_eq!(retry - now, Times::USUAL.first_retry);
    }
    // There is no quorum without a suspected one.
    let mut waiting = Waiting::new(now, Times::USUAL);
    assert!(waiting.on_failure(now, (1, 1), false, &away.replicas()));
    assert!(waiting.on_failure(now, (2, 1), true, &away.replicas()));
    // Nobody is asked again if two are lost.
    let mut waiting = Waiting::new(now, Times::USUAL);
    assert!(waiting.on_failure(now, (1, 1), false, &seen.replicas()));
    assert!(waiting.on_failure(now, (2, 1), false, &seen.replicas()));
    assert_eq!(waiting.until(&seen.replicas()), None);
}

/// One replica of three is left out, so both others are needed.
#[tokio::test(start_paused = true)]
async fn a_replica_is_asked_again_if_another_is_left_out() {
    let now = Instant::now();
    let mut seen = Seen::new(&[], &[]);
    (seen.without, seen.round) = (set(&[0]), 2);
    let mut waiting = Waiting::new(now, Times::USUAL);
    assert!(!waiting.on_failure(now, (1, 2), true, &seen.replicas()));
    let retry = waiting.until(&seen.replicas()).unwrap();
    assert_eq!(retry - now, Times::USUAL.first_retry);
    let away = Seen {
        away: set(&[1]),
        ..seen
    };
    let mut waiting = Waiting::new(now, Times::USUAL);
    assert!(waiting.on_failure(now, (1, 2), true, &away.replicas()));
}

/// Replicas that cannot store a version fail for as long as they are asked. Then its holder is left
/// out, and a failure of the round that follows may pass.
#[tokio::test(start_paused = true)]
async fn each_round_has_its_own_time_for_retries() {
    let now = Instant::now();
    let mut waiting = Waiting::new(now, Times::USUAL);
    let seen = Seen::new(&[], &[]);
    let mut fails = |after: Duration, round| {
        waiting.on_silence(now + after, &seen.replicas());
        let first = waiting.on_failure(now + after, (1, round), true, &seen.replicas());
        assert!(first, "the others are a quorum");
        waiting.on_failure(now + after, (2, round), true, &seen.replicas())
    };
    let times = Times::USUAL;
    assert!(!fails(Duration::ZERO, 1));
    assert!(fails(times.retries, 1), "the time is over");
    assert!(!fails(times.retries, 2));
    assert!(fails(times.operation, 3), "the operation is over");
}

/// Found by reading: a replica that fetched blocks said twice, each time after 7.5 s, that it was
/// busy. The operation ended then, and not at its own limit.
#[tokio::test(start_paused = true)]
async fn a_replica_that_works_at_a_request_is_asked_again_until_the_operation_is_over() {
    let (begun, times) = (Instant::now(), Times::USUAL);
    let (nobody, worked) = (Seen::new(&[], &[]), times.call * 3 / 4);
    let mut waiting = Waiting::new(begun, times);
    let mut fails = |now| {
        waiting.on_busy(now);
        let first = waiting.on_failure(now, (1, 1), true, &nobody.replicas());
        assert!(first, "one of three is not needed");
        if waiting.on_failure(now, (2, 1), true, &nobody.replicas()) {
            return None;
        }
        let again = waiting.until(&nobody.replicas()).unwrap();
        assert_eq!(again - now, times.first_retry);
        assert_eq!(waiting.on_silence(again, &nobody.replicas()), Due::Again);
        Some(again)
    };
    let mut now = begun + worked;
    while let Some(again) = fails(now) {
        now = again + worked;
    }
    assert!(now - begun >= times.operation, "{:?}", now - begun);
}

/// Replicas that are busy at once are asked again for as long as others that fail.
#[tokio::test(start_paused = true)]
async fn a_replica_that_is_busy_at_once_has_no_further_time() {
    let begun = Instant::now();
    let (mut now, mut waiting) = (begun, Waiting::new(begun, Times::USUAL));
    let nobody = Seen::new(&[], &[]);
    loop {
        waiting.on_busy(now);
        let told = waiting.on_failure(now, (1, 1), true, &nobody.replicas());
        assert!(told, "one of three is not needed");
        if waiting.on_failure(now, (2, 1), true, &nobody.replicas()) {
            break;
        }
        now = waiting.until(&nobody.replicas()).unwrap();
        assert_eq!(waiting.on_silence(now, &nobody.replicas()), Due::Again);
    }
    assert!(now - begun < 2 * Times::USUAL.retries, "{:?}", now - begun);
}

/// Found by reading: the replicas of the next round were asked again before they could answer.
#[tokio::test(start_paused = true)]
async fn a_retry_ends_with_its_round() {
    let now = Instant::now();
    let mut waiting = Waiting::new(now, Times::USUAL);
    let mut seen = Seen::new(&[], &[]);
    assert!(waiting.on_failure(now, (1, 1), true, &seen.replicas()));
    assert!(!waiting.on_failure(now, (2, 1), true, &seen.replicas()));
    (seen.round, seen.open) = (2, set(&[0, 1, 2]));
    let until = waiting.until(&seen.replicas()).unwrap();
    assert_eq!(until - now, Times::USUAL.patience);
}

/// Found by reading: a reply was handled a moment after the time of the retry, and the operation
/// ended as unavailable.
#[tokio::test(start_paused = true)]
async fn a_retry_that_is_due_is_not_lost_if_an_answer_comes_late() {
    let now = Instant::now();
    let mut waiting = Waiting::new(now, Times::USUAL);
    let seen = Seen::new(&[], &[2]);
    assert!(waiting.on_failure(now, (0, 1), true, &seen.replicas()));
    assert!(!waiting.on_failure(now, (1, 1), true, &seen.replicas()));
    let later = now + Times::USUAL.first_retry + Duration::from_millis(1);
    waiting.on_answer(later, None);
    let seen = Seen::new(&[], &[]);
    let until = waiting.until(&seen.replicas());
    assert_eq!(until, Some(now + Times::USUAL.first_retry));
    assert_eq!(waiting.on_silence(later, &seen.replicas()), Due::Again);
    assert_eq!(waiting.until(&seen.replicas()), None, "it fires once");
}

/// There is no quorum without the suspected one, because another one is left out.
#[tokio::test(start_paused = true)]
async fn a_suspected_replica_is_awaited_for_less_time_if_another_is_left_out() {
    let now = Instant::now();
    let mut waiting = Waiting::new(now, Times::USUAL);
    let seen = Seen {
        without: set(&[0]),
        ..Seen::new(&[1], &[1])
    };
    let mut later = now;
    while waiting.on_silence(later, &seen.replicas()) == Due::Again {
        later = waiting.until(&seen.replicas()).unwrap();
    }
    assert_eq!(later - now, Times::USUAL.absence);
}

#[tokio::test(start_paused = true)]
async fn pauses_double_and_come_to_an_end() {
    let begun = Instant::now();
    let (mut now, mut waiting) = (begun, Waiting::new(begun, Times::USUAL));
    let nobody = Seen::new(&[], &[]);
    let mut pauses = Vec::new();
    loop {
        let told = waiting.on_failure(now, (1, 1), true, &nobody.replicas());
        assert!(told, "one of three is not needed");
        if waiting.on_failure(now, (2, 1), true, &nobody.replicas()) {
            break;
        }
        let until = waiting.until(&nobody.replicas()).unwrap();
        pauses.push((until - now).as_millis());
        now = until;
        assert_eq!(waiting.on_silence(now, &nobody.replicas()), Due::Again);
    }
    assert_eq!(pauses, [20, 40, 80, 160, 320, 500, 500, 500]);
    assert_eq!(waiting.until(&nobody.replicas()), None);
}

#[tokio::test(start_paused = true)]
async fn suspected_replica_is_not_asked_again_and_awaited_for_less_time() {
    let now = Instant::now();
    let mut waiting = Waiting::new(now, Times::USUAL);
    let away = Seen::new(&[1, 2], &[1]);
    assert!(waiting.on_failure(now, (2, 1), true, &away.replicas()));
    assert!(waiting.on_failure(now, (1, 1), true, &away.replicas()));
    let away = Seen::new(&[1, 2], &[1, 2]);
    let over = loop {
        let later = waiting.until(&away.replicas()).unwrap();
        if waiting.on_silence(later, &away.replicas()) == Due::Over {
            break later;
        }
    };
    assert_eq!(over - now, Times::USUAL.absence);
    // A node that is not suspected is awaited for longer.
    let mut waiting = Waiting::new(now, Times::USUAL);
    let there = Seen::new(&[2], &[1, 2]);
    let mut later = now;
    while waiting.on_silence(later, &there.replicas()) == Due::Again {
        later = waiting.until(&there.replicas()).unwrap();
    }
    assert_eq!(later - now, Times::USUAL.operation);
}
