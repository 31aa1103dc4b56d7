//! Traces: what happened for one request, on all nodes that took part.
//!
//! A **span** is one step: a request of a client, or a call between nodes, once as its caller sees
//! it and once as the node that serves it does. A **trace** is a request's span with all spans
//! below it. A request is **sampled** if its spans are recorded.
//!
//! # Invariants
//! - Without a collector, and for requests that are not sampled, nothing is allocated and nothing
//!   is sent, neither to the collector nor to other nodes.
//! - No request waits for the export. Spans for which the queue has no room are dropped, and
//!   counted.
//! - Headers from strangers decide nothing: unless the settings trust clients, a client can neither
//!   have its requests recorded nor keep them from being recorded.
//!
//! | module | what it holds |
//! |---|---|
//! | [`context`] | the ids that spans refer to one another by, and the header `traceparent` |
//! | [`current`] | the span that a task works for |
//! | [`queue`] | the finished spans on their way to the collector, and their counters |
//! | [`record`] | the record of a span: names, times, attributes |
//! | [`span`] | spans that are under way |
//! | [`tracer`] | the choice of the requests that are sampled |

pub mod context;
pub mod current;
pub mod queue;
pub mod record;
pub mod span;
pub mod tracer;

pub use context::{Context, Received};
pub use current::{carry, child, describe, forget};
pub use queue::{Counts, QUEUE_SPANS, Queue};
pub use record::{Kind, Record, Value};
pub use span::Span;
pub use tracer::{Sampling, Tracer};

#[cfg(test)]
mod tests;
