//! The choice of the requests that are sampled.

use std::sync::Arc;

use archipel_base::clock::WallClock;
use archipel_base::random::Random;

use crate::context::{Context, Received};
use crate::current;
use crate::queue::{Counts, Queue, queue};
use crate::record::Kind;
use crate::span::{Shared, Span};

/// The settings that choose the requests to sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sampling {
    /// The share of requests, from 0 to 1.
    pub share: f64,
    /// True if a client that sends a context decides instead.
    pub trusts_clients: bool,
}

/// Begins the spans of requests on this node. Cheap to clone. The default samples nothing.
#[derive(Clone, Default)]
pub struct Tracer(Option<Arc<Inner>>);

struct Inner {
    shared: Arc<Shared>,
    sampling: Sampling,
}

impl Tracer {
    /// Creates a tracer, and the queue of the spans that it records.
    pub fn new(
        sampling: Sampling,
        clock: Arc<dyn WallClock>,
        random: Arc<dyn Random>,
    ) -> (Tracer, Queue) {
        let (entrance, queue) = queue();
        let shared = Arc::new(Shared {
            entrance,
            clock,
            random,
        });
        let tracer = Tracer(Some(Arc::new(Inner { shared, sampling })));
        (tracer, queue)
    }

    /// Begins the span of a client's request. `received` reads the context that the client sent; it
    /// is not called if nothing can be recorded. If this task works for a span already, the new one
    /// is below that.
    pub fn begin_request(&self, name: &str, received: impl FnOnce() -> Option<Received>) -> Span {
        let Some(inner) = &self.0 else {
            return Span::default();
        };
        let above = current::child(Kind::Internal, name);
        if above.is_recorded() {
            return above;
        }
        let received = received();
        if !inner.samples(received) {
            return Span::default();
        }
        let shared = &inner.shared;
        match received {
            Some(Received { context, .. }) => {
                Span::first(shared, context.trace, Some(context.span), name)
            }
            None => Span::first(shared, shared.new_trace_id(), None, name),
        }
    }

    /// Begins the span of a call that another node makes for a sampled request.
    pub fn begin_served(&self, name: &str, caller: Context) -> Span {
        self.0.as_ref().map_or_else(Span::default, |inner| {
            Span::first(&inner.shared, caller.trace, Some(caller.span), name)
        })
    }

    /// Returns what became of finished spans.
    pub fn counts(&self) -> Counts {
        let inner = self.0.as_ref();
        inner.map_or_else(Counts::default, |inner| inner.shared.entrance.counts())
    }
}

impl Inner {
    fn samples(&self, received: Option<Received>) -> bool {
        match received {
            Some(received) if self.sampling.trusts_clients => received.is_sampled,
            // Not by the trace's id, which the client chooses.
            _ => unit(self.shared.random.next_u64()) < self.sampling.share,
        }
    }
}

/// Returns a number from 0 to below 1.
fn unit(random: u64) -> f64 {
    const DIGITS: u32 = f64::MANTISSA_DIGITS;
    (random >> (u64::BITS - DIGITS)) as f64 / (1_u64 << DIGITS) as f64
}
