//! Requests that are not sampled allocate nothing. A program of its own, because it counts all
//! allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use archipel_base::clock::ManualClock;
use archipel_base::random::SeededRandom;
use archipel_traces::{Kind, Received, Sampling, Tracer, carry, child, describe};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the allocations of one request with a call to another node.
fn allocations(tracer: &Tracer) -> usize {
    let before = ALLOCATIONS.get();
    let header = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let span = tracer.begin_request("PUT", || Received::parse(header));
    let request = span.within(carry(async {
        let call = child(Kind::Client, "row");
        call.describe(|record| record.set("rpc.method", "row"));
        describe(|record| record.set("archipel.bucket", "photos"));
        call.within(std::future::ready(())).await;
        call.context()
    }));
    let mut context = Context::from_waker(Waker::noop());
    let polled = pin!(request).poll(&mut context);
    assert!(polled.is_ready());
    span.enter(|| describe(|record| record.rename("PutObject")));
    drop(span);
    ALLOCATIONS.get() - before
}

fn tracer(share: f64) -> Tracer {
    let sampling = Sampling {
        share,
        trusts_clients: false,
    };
    let random = Arc::new(SeededRandom::new(1));
    let (tracer, queue) = Tracer::new(sampling, Arc::new(ManualClock::at(0)), random);
    drop(queue);
    tracer
}

#[test]
fn requests_that_are_not_sampled_allocate_nothing() {
    assert_eq!(allocations(&Tracer::default()), 0);
    assert_eq!(allocations(&tracer(0.0)), 0);
    // The measurement works.
    assert!(allocations(&tracer(1.0)) > 0);
}
