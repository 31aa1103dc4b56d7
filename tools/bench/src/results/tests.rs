//! Tests of the figures of many requests.

use super::*;

fn times(millis: &[u64]) -> Times {
    let mut times = Times::new().unwrap();
    millis
        .iter()
        .for_each(|ms| times.good(Duration::from_millis(*ms)));
    times
}

/// Returns results with one row for the given times.
pub fn results(server: &str, rtt_ms: Option<f64>, millis: &[u64]) -> Results {
    let rows = millis
        .iter()
        .map(|ms| times(&[*ms]).row(&format!("row <{ms}>")));
    let mut results = Results {
        experiment: "lat".into(),
        options: "none".into(),
        server: server.into(),
        durability: "fsync".into(),
        network: "far".into(),
        rtt_ms,
        began: "now".into(),
        machine: Machine::now(),
        usage: None,
        rows: rows.collect(),
        series: vec![Series {
            name: "curve".into(),
            axes: ["x".into(), "y".into()],
            points: vec![(1.0, 2.0), (2.0, 1.0)],
        }],
    };
    results.compare_with_rtt();
    results
}

#[test]
fn row_has_mean_quantiles_and_the_first_error() {
    let mut times = times(&[10, 20, 30]);
    times.bad(&"first");
    times.bad(&"second");
    let row = times.row("r");
    assert_eq!(
        (row.count, row.errors, row.error.as_deref()),
        (3, 2, Some("first"))
    );
    assert!((row.mean_ms - 20.0).abs() < 0.01);
    assert!((row.p50_ms - 20.0).abs() < 0.1, "{}", row.p50_ms);
    assert!((row.max_ms - 30.0).abs() < 0.1, "{}", row.max_ms);
}

#[test]
fn times_of_clients_add_up() {
    let mut all = times(&[10]);
    let mut other = times(&[30]);
    other.bytes = 5_000_000;
    all.merge(other).unwrap();
    let row = all.row_over("r", Duration::from_secs(2));
    assert_eq!(
        (row.count, row.per_s, row.mb_per_s),
        (2, Some(1.0), Some(2.5))
    );
    assert!((row.mean_ms - 20.0).abs() < 0.01);
}

#[test]
fn times_are_shown_as_multiples_of_the_round_trip() {
    let rtts = |rtt| results("s", rtt, &[150]).rows.remove(0).rtts;
    assert!((rtts(Some(100.0)).unwrap() - 1.5).abs() < 0.01);
    assert_eq!((rtts(None), rtts(Some(0.0))), (None, None));
}

#[test]
fn written_results_are_read_back() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let written = results("s", Some(100.0), &[150, 7]);
    written.write(file.path()).unwrap();
    let read = Results::read(file.path()).unwrap();
    assert_eq!(format!("{read:?}"), format!("{written:?}"));
}
