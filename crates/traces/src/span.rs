//! Spans that are under way.

use std::future::Future;
use std::sync::Arc;

use archipel_base::clock::WallClock;
use archipel_base::random::Random;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::context::Context;
use crate::current;
use crate::queue::Entrance;
use crate::record::{Kind, Record};

/// The parts that all spans of a node share.
pub(crate) struct Shared {
    pub entrance: Entrance,
    pub clock: Arc<dyn WallClock>,
    pub random: Arc<dyn Random>,
}

impl Shared {
    fn new_span_id(&self) -> [u8; 8] {
        // Zero would mean that there is no span.
        self.random.next_u64().max(1).to_be_bytes()
    }

    pub fn new_trace_id(&self) -> [u8; 16] {
        let mut id = [0; 16];
        self.random.fill(&mut id);
        id[15] |= u8::from(id == [0; 16]);
        id
    }
}

/// One moment by two clocks. The wall clock knows milliseconds only and may jump, so the spans of a
/// request on one node take it once.
#[derive(Clone, Copy)]
struct Anchor {
    wall_ns: u64,
    at: Instant,
}

impl Anchor {
    fn now(clock: &dyn WallClock) -> Anchor {
        Anchor {
            wall_ns: clock.now_millis().saturating_mul(1_000_000),
            at: Instant::now(),
        }
    }

    fn elapsed_ns(&self) -> u64 {
        let elapsed = self.at.elapsed().as_nanos() as u64;
        self.wall_ns.saturating_add(elapsed)
    }
}

/// A span that others may refer to also after its end.
pub(crate) struct Live {
    shared: Arc<Shared>,
    context: Context,
    anchor: Anchor,
    /// `None` after the end.
    record: Mutex<Option<Box<Record>>>,
}

impl Live {
    pub fn child(&self, kind: Kind, name: &str) -> Span {
        let parent = Some(self.context.span);
        let begun = (self.anchor, self.anchor.elapsed_ns());
        Span::begin(&self.shared, self.context.trace, parent, kind, name, begun)
    }

    pub fn describe(&self, change: impl FnOnce(&mut Record)) {
        if let Some(record) = &mut *self.record.lock() {
            change(record);
        }
    }

    pub fn forget(&self) {
        *self.record.lock() = None;
    }
}

/// A span that ends when it is dropped. The default is of a request that is not sampled: it records
/// nothing.
#[derive(Default)]
pub struct Span(Option<Arc<Live>>);

impl Span {
    /// Begins the first span of a request on this node.
    pub(crate) fn first(
        shared: &Arc<Shared>,
        trace: [u8; 16],
        parent: Option<[u8; 8]>,
        name: &str,
    ) -> Span {
        let anchor = Anchor::now(&*shared.clock);
        let begun = (anchor, anchor.wall_ns);
        let span = Span::begin(shared, trace, parent, Kind::Server, name, begun);
        span.describe(|record| record.has_remote_parent = parent.is_some());
        span
    }

    fn begin(
        shared: &Arc<Shared>,
        trace: [u8; 16],
        parent: Option<[u8; 8]>,
        kind: Kind,
        name: &str,
        (anchor, start_ns): (Anchor, u64),
    ) -> Span {
        let span = shared.new_span_id();
        let context = Context { trace, span };
        let mut record = Box::new(Record {
            context,
            parent,
            has_remote_parent: false,
            kind,
            name: String::new(),
            start_ns,
            end_ns: start_ns,
            attributes: Vec::new(),
            is_failed: false,
        });
        record.rename(name);
        Span(Some(Arc::new(Live {
            shared: shared.clone(),
            context,
            anchor,
            record: Mutex::new(Some(record)),
        })))
    }

    /// Returns true if the span is recorded.
    pub fn is_recorded(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the ids that go along with a call, if the span is recorded.
    pub fn context(&self) -> Option<Context> {
        self.0.as_ref().map(|live| live.context)
    }

    /// Changes the span's record, if it is recorded.
    pub fn describe(&self, change: impl FnOnce(&mut Record)) {
        if let Some(live) = &self.0 {
            live.describe(change);
        }
    }

    /// Runs a future that works for this span. If it is not recorded, the future goes on to work
    /// for the span that the task works for.
    pub fn within<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        current::scope(self.0.clone(), future)
    }

    /// Runs a function that works for this span.
    pub fn enter<T>(&self, function: impl FnOnce() -> T) -> T {
        current::enter(self.0.clone(), function)
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let Some(live) = self.0.take() else {
            return;
        };
        let record = live.record.lock().take();
        if let Some(mut record) = record {
            record.end_ns = live.anchor.elapsed_ns();
            live.shared.entrance.put(*record);
        }
    }
}
