//! The spans of calls, on both sides.

use std::sync::Arc;

use archipel_base::NodeId;
use archipel_traces::{Context, Kind, Record, Span, Tracer, child};
use async_trait::async_trait;
use bytes::Bytes;

use crate::error::Error;
use crate::transport::{Class, Peer, ReceiveFrames, SendFrames, Stream};

/// Begins the span of a call to a peer. It is not recorded if the task works for no sampled
/// request.
pub(super) fn call(peer: &Peer, method: &str) -> Span {
    let span = child(Kind::Client, method);
    span.describe(|record| about(record, &peer.id, method));
    span
}

/// Begins the span of a call that is served. `caller` is the span on the other side.
pub(super) fn served(
    tracer: Option<&Tracer>,
    from: &NodeId,
    method: &str,
    caller: Option<Context>,
) -> Span {
    let (Some(tracer), Some(caller)) = (tracer, caller) else {
        return Span::default();
    };
    let span = tracer.begin_served(method, caller);
    span.describe(|record| about(record, from, method));
    span
}

fn about(record: &mut Record, peer: &NodeId, method: &str) {
    record.set("rpc.system", "archipel");
    record.set("rpc.method", method);
    record.set("archipel.peer", peer.to_string());
}

/// Notes how a call ended. Only the kind of an error: its text comes from the peer.
pub(super) fn ended<T>(span: &Span, result: &Result<T, Error>) {
    if let Err(error) = result {
        span.describe(|record| record.fail(kind(error)));
    }
}

fn kind(error: &Error) -> &'static str {
    match error {
        Error::Unreachable(..) => "unreachable",
        Error::NotFound(_) => "not_found",
        Error::Broken(..) => "broken",
        Error::TimedOut(_) => "timed_out",
        Error::Refused(..) => "refused",
        Error::Protocol(..) => "protocol",
        Error::Closed => "closed",
    }
}

/// Lets a span end when both halves of its stream are dropped.
pub(super) fn until_closed(stream: Stream, span: Span) -> Stream {
    if !span.is_recorded() {
        return stream;
    }
    let span = Arc::new(span);
    Stream {
        send: Box::new(Half(stream.send, span.clone())),
        receive: Box::new(Half(stream.receive, span)),
    }
}

/// A half of a stream with a recorded span.
struct Half<T>(T, Arc<Span>);

#[async_trait]
impl SendFrames for Half<Box<dyn SendFrames>> {
    async fn send(&mut self, frame: Bytes) -> Result<(), Error> {
        let sent = self.0.send(frame).await;
        ended(&self.1, &sent);
        sent
    }

    async fn finish(&mut self) -> Result<(), Error> {
        let finished = self.0.finish().await;
        ended(&self.1, &finished);
        finished
    }

    fn set_class(&mut self, class: Class) {
        self.0.set_class(class);
    }
}

#[async_trait]
impl ReceiveFrames for Half<Box<dyn ReceiveFrames>> {
    async fn receive(&mut self) -> Result<Option<Bytes>, Error> {
        let received = self.0.receive().await;
        ended(&self.1, &received);
        received
    }
}
