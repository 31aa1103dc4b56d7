use std::sync::Arc;
use std::time::Duration;

use archipel_base::clock::ManualClock;
use archipel_base::random::SeededRandom;

use crate::{
    Context, Counts, Kind, QUEUE_SPANS, Queue, Received, Record, Sampling, Span, Tracer, Value,
    carry, child, describe, forget,
};

const HEADER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const START_MS: u64 = 1_000_000;

fn tracer(share: f64, trusts_clients: bool) -> (Tracer, Queue) {
    let sampling = Sampling {
        share,
        trusts_clients,
    };
    let clock = Arc::new(ManualClock::at(START_MS));
    Tracer::new(sampling, clock, Arc::new(SeededRandom::new(7)))
}

fn parse(header: &str) -> Option<Received> {
    Received::parse(header.as_bytes())
}

fn finished(queue: &mut Queue) -> Vec<Record> {
    std::iter::from_fn(|| queue.try_receive()).collect()
}

#[test]
fn traceparent_of_the_standard_is_read() {
    let received = parse(HEADER).unwrap();
    assert_eq!(received.context.trace[..2], [0x0a, 0xf7]);
    assert_eq!(received.context.trace[15], 0x9c);
    assert_eq!(received.context.span[7], 0x31);
    assert!(received.is_sampled);
    let flags = |flags: &str| parse(&format!("{}{flags}", &HEADER[..53]));
    assert!(!flags("00").unwrap().is_sampled);
    assert!(flags("ff").unwrap().is_sampled);
    assert!(!flags("fe").unwrap().is_sampled);
}

#[test]
fn malformed_traceparent_is_refused() {
    let zero_trace = format!("00-{}-b7ad6b7169203331-01", "0".repeat(32));
    let zero_span = format!("00-0af7651916cd43dd8448eb211c80319c-{}-01", "0".repeat(16));
    let malformed = [
        "",
        "00",
        "00-",
        "-",
        "x",
        &zero_trace,
        &zero_span,
        // Upper case.
        &HEADER.to_uppercase(),
        "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-B7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0A",
        // No digits.
        "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333.-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-.0",
        "0.-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        // Fields that are too short, too long, or missing.
        "0-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "000-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319cc-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b71692033311-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-001",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "00-0af7651916cd43dd8448eb211c80319c-01",
        // Other signs between the fields, or around them.
        "00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01",
        "00 0af7651916cd43dd8448eb211c80319c b7ad6b7169203331 01",
        " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 ",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01,",
        // Version 0 has no further fields, and version 255 does not exist.
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what",
        // Further fields of later versions begin with a hyphen.
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.what",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-011",
        "00-ääääääääääääääää-b7ad6b7169203331-01",
    ];
    for header in malformed {
        assert_eq!(parse(header), None, "{header:?}");
    }
    for length in 0..HEADER.len() {
        assert_eq!(parse(&HEADER[..length]), None, "{length}");
    }
    assert_eq!(Received::parse(&[0xff; 55]), None);
}

#[test]
fn traceparent_of_later_versions_is_read() {
    let known = parse(HEADER);
    for later in ["cc", "01", "fe"] {
        for end in ["", "-", "-what-the-future-will-be-like"] {
            assert_eq!(parse(&format!("{later}{}{end}", &HEADER[2..])), known);
        }
    }
}

#[test]
fn context_survives_the_form_of_calls() {
    let context = parse(HEADER).unwrap().context;
    let bytes = context.to_bytes();
    assert_eq!(Context::from_bytes(&bytes), Some(context));
    assert_eq!(Context::from_bytes(&bytes[..23]), None);
    assert_eq!(
        Context::from_bytes(&[bytes.as_slice(), &[1]].concat()),
        None
    );
    assert_eq!(Context::from_bytes(&[]), None);
    let without_span = [&bytes[..16], &[0; 8]].concat();
    assert_eq!(Context::from_bytes(&without_span), None);
    let without_trace = [&[0; 16], &bytes[16..]].concat();
    assert_eq!(Context::from_bytes(&without_trace), None);
}

fn sampled(tracer: &Tracer, count: usize, received: Option<Received>) -> usize {
    let begun = (0..count).map(|_| tracer.begin_request("GET", || received));
    begun.filter(Span::is_recorded).count()
}

#[test]
fn share_of_requests_is_sampled() {
    for (share, expected) in [(0.0, 0..=0), (0.1, 800..=1200), (1.0, 10_000..=10_000)] {
        let (tracer, _queue) = tracer(share, false);
        let count = sampled(&tracer, 10_000, None);
        assert!(expected.contains(&count), "{share}: {count}");
    }
}

#[test]
fn strangers_do_not_decide_what_is_sampled() {
    let (yes, no) = (parse(HEADER), parse(&format!("{}00", &HEADER[..53])));
    let (never, _queue) = tracer(0.0, false);
    assert_eq!(sampled(&never, 100, yes), 0);
    let (always, _queue) = tracer(1.0, false);
    assert_eq!(sampled(&always, 100, no), 100);
    let (some, _queue) = tracer(0.5, false);
    let count = sampled(&some, 10_000, yes);
    assert!((4500..5500).contains(&count), "one id for all: {count}");
}

#[test]
fn trusted_clients_decide_what_is_sampled() {
    let (yes, no) = (parse(HEADER), parse(&format!("{}00", &HEADER[..53])));
    let (never, _queue) = tracer(0.0, true);
    assert_eq!(sampled(&never, 100, yes), 100);
    assert_eq!(sampled(&never, 100, None), 0);
    let (always, _queue) = tracer(1.0, true);
    assert_eq!(sampled(&always, 100, no), 0);
    assert_eq!(sampled(&always, 100, None), 100);
}

#[tokio::test(start_paused = true)]
async fn spans_of_a_request_are_one_trace() {
    let (tracer, mut queue) = tracer(1.0, false);
    let request = tracer.begin_request("GET", || parse(HEADER));
    let work = request.within(async {
        tokio::time::advance(Duration::from_micros(1500)).await;
        let call = child(Kind::Client, "row");
        describe(|record| record.rename("GetObject"));
        // A task of its own, and what is above it ends first.
        let told = tokio::spawn(carry(async move {
            tokio::time::advance(Duration::from_micros(500)).await;
            call.describe(|record| record.fail("timed_out"));
            child(Kind::Client, "list");
            drop(call);
        }));
        told.await.unwrap();
    });
    work.await;
    drop(request);
    describe(|record| record.rename("no span any more"));
    assert!(!child(Kind::Client, "row").is_recorded());
    let [list, row, request] = &finished(&mut queue)[..] else {
        panic!("three spans");
    };
    let given = parse(HEADER).unwrap().context;
    assert_eq!(request.parent, Some(given.span));
    assert!(request.has_remote_parent && !row.has_remote_parent);
    for below in [list, row] {
        assert_eq!(below.parent, Some(request.context.span));
    }
    for one in [list, row, request] {
        assert_eq!(one.context.trace, given.trace);
    }
    let start_ns = START_MS * 1_000_000;
    let times = |record: &Record| (record.start_ns - start_ns, record.end_ns - start_ns);
    assert_eq!(times(request), (0, 2_000_000));
    assert_eq!(times(row), (1_500_000, 2_000_000));
    assert_eq!(request.name, "GetObject");
    assert!(row.is_failed);
    let failed = ("error.type", Value::Text("timed_out".into()));
    assert_eq!(row.attributes, [failed]);
}

#[tokio::test]
async fn request_within_a_request_is_below_it() {
    let (tracer, mut queue) = tracer(1.0, false);
    let page = tracer.begin_request("Page", || None);
    let inside = || tracer.begin_request("Admin", || parse(HEADER));
    page.within(async { drop(inside()) }).await;
    drop(page);
    let [inside, page] = &finished(&mut queue)[..] else {
        panic!("two spans");
    };
    assert_eq!(inside.parent, Some(page.context.span));
    assert_eq!((page.parent, inside.kind), (None, Kind::Internal));
}

#[tokio::test]
async fn served_call_continues_its_callers_trace() {
    let (tracer, mut queue) = tracer(0.0, false);
    let caller = parse(HEADER).unwrap().context;
    drop(tracer.begin_served("row", caller));
    let served = finished(&mut queue).remove(0);
    assert_eq!(served.context.trace, caller.trace);
    assert_eq!(served.parent, Some(caller.span));
    assert!(served.has_remote_parent);
    assert!(!Tracer::default().begin_served("row", caller).is_recorded());
}

#[tokio::test]
async fn forgotten_span_is_not_exported() {
    let (tracer, mut queue) = tracer(1.0, false);
    let probe = tracer.begin_request("GET", || None);
    probe.enter(forget);
    drop(probe);
    assert_eq!(finished(&mut queue), []);
}

#[tokio::test]
async fn spans_without_room_are_dropped_and_counted() {
    let (tracer, mut queue) = tracer(1.0, false);
    for _ in 0..QUEUE_SPANS + 3 {
        drop(tracer.begin_request("GET", || None));
    }
    let dropped = Counts {
        dropped: 3,
        ..Counts::default()
    };
    assert_eq!(tracer.counts(), dropped);
    let mut batch = Vec::new();
    assert_eq!(queue.receive(&mut batch, 512).await, 512);
    drop(tracer.begin_request("GET", || None));
    queue.exported(500);
    queue.failed(12);
    let counts = Counts {
        exported: 500,
        dropped: 3,
        failed: 12,
    };
    assert_eq!(tracer.counts(), counts);
    // Also without anyone who takes them out.
    drop(queue);
    drop(tracer.begin_request("GET", || None));
    assert_eq!(tracer.counts().dropped, 4);
}

#[test]
fn long_texts_are_cut_off() {
    let long = "ä".repeat(1000);
    let Value::Text(text) = Value::from(long.as_str()) else {
        panic!("a text");
    };
    assert_eq!(text, "ä".repeat(512));
}
