//! The messages of OTLP, as far as spans need them.
//!
//! Source: `opentelemetry/proto/trace/v1/trace.proto` and the files that it includes. The numbers
//! of fields never change.

use archipel_traces::{Kind, Record, Value};
use bytes::Bytes;
use prost::{Message, Oneof};

use crate::version;

/// The flags of a span: sampled; whether its parent is on another machine is known; and that it is.
const SAMPLED: u32 = 0x001;
const PARENT_IS_KNOWN: u32 = 0x100;
const PARENT_IS_REMOTE: u32 = 0x200;

/// The status of a span that failed.
const ERROR: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub struct Request {
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
}

/// The attributes that all spans of a node have in common.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Scope {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub version: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub name: String,
    #[prost(int32, tag = "6")]
    pub kind: i32,
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    pub status: Option<Status>,
    #[prost(fixed32, tag = "16")]
    pub flags: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Status {
    #[prost(int32, tag = "3")]
    pub code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    #[prost(oneof = "Any", tags = "1, 3")]
    pub value: Option<Any>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Any {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Number(i64),
}

/// Returns what all spans of a node have in common.
pub fn resource(node: &str) -> Resource {
    let attributes = [
        ("service.name", "archipel"),
        ("service.version", version::VERSION),
        ("service.instance.id", node),
    ];
    let attribute = |(key, value)| attribute(key, Value::from(value));
    Resource {
        attributes: attributes.into_iter().map(attribute).collect(),
    }
}

/// Returns the message that sends these spans. Takes them out of `records`.
pub fn message(resource: &Resource, records: &mut Vec<Record>) -> Bytes {
    let scope = Scope {
        name: "archipel".into(),
        version: version::VERSION.into(),
    };
    let spans = ScopeSpans {
        scope: Some(scope),
        spans: records.drain(..).map(span).collect(),
    };
    let request = Request {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource.clone()),
            scope_spans: vec![spans],
        }],
    };
    request.encode_to_vec().into()
}

fn span(record: Record) -> Span {
    let parent = if record.has_remote_parent {
        PARENT_IS_KNOWN | PARENT_IS_REMOTE
    } else {
        PARENT_IS_KNOWN
    };
    let attributes = record.attributes.into_iter();
    Span {
        trace_id: record.context.trace.to_vec(),
        span_id: record.context.span.to_vec(),
        parent_span_id: record.parent.map(|id| id.to_vec()).unwrap_or_default(),
        name: record.name,
        kind: match record.kind {
            Kind::Internal => 1,
            Kind::Server => 2,
            Kind::Client => 3,
        },
        start_time_unix_nano: record.start_ns,
        end_time_unix_nano: record.end_ns,
        attributes: attributes
            .map(|(key, value)| attribute(key, value))
            .collect(),
        status: record.is_failed.then_some(Status { code: ERROR }),
        flags: SAMPLED | parent,
    }
}

fn attribute(key: &str, value: Value) -> KeyValue {
    let value = match value {
        Value::Text(text) => Any::Text(text),
        Value::Number(number) => Any::Number(number),
    };
    KeyValue {
        key: key.into(),
        value: Some(AnyValue { value: Some(value) }),
    }
}
