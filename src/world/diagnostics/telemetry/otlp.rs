//! Messages of the OpenTelemetry protocol (OTLP), as far as traces need them: one definition for
//! both encodings. It must never decide what is exported.
//!
//! Field numbers: <https://github.com/open-telemetry/opentelemetry-proto/tree/v1.9.0>. In JSON,
//! names are in camel case, ids are hexadecimal and 64-bit numbers are strings:
//! <https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>.

use serde::{Serialize, Serializer};

use crate::text;

/// `SPAN_KIND_INTERNAL`: work of this process.
pub(crate) const KIND_INTERNAL: i32 = 1;
/// `SPAN_KIND_CLIENT`: a request to another process.
pub(crate) const KIND_CLIENT: i32 = 3;
/// `STATUS_CODE_ERROR`.
pub(crate) const STATUS_ERROR: i32 = 2;

/// Body of a request to `/v1/traces`.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TracesRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resource_spans: Vec<ResourceSpans>,
}

/// The spans of one program.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<OtlpResource>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scope_spans: Vec<ScopeSpans>,
}

/// Description of the program.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(crate) struct OtlpResource {
    #[prost(message, repeated, tag = "1")]
    pub(crate) attributes: Vec<KeyValue>,
}

/// The spans of one library.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(crate) struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub(crate) scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) spans: Vec<OtlpSpan>,
}

/// Description of the library.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(crate) struct InstrumentationScope {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
}

/// An operation with a start and an end.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OtlpSpan {
    /// 16 bytes, the same for all spans of a run.
    #[prost(bytes = "vec", tag = "1")]
    #[serde(serialize_with = "hexadecimal")]
    pub(crate) trace_id: Vec<u8>,
    /// 8 bytes.
    #[prost(bytes = "vec", tag = "2")]
    #[serde(rename = "spanId", serialize_with = "hexadecimal")]
    pub(crate) id: Vec<u8>,
    /// Empty for the run itself.
    #[prost(bytes = "vec", tag = "4")]
    #[serde(serialize_with = "hexadecimal", skip_serializing_if = "Vec::is_empty")]
    pub(crate) parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(crate) name: String,
    #[prost(int32, tag = "6")]
    pub(crate) kind: i32,
    /// In nanoseconds since 1970.
    #[prost(fixed64, tag = "7")]
    #[serde(serialize_with = "as_text")]
    pub(crate) start_time_unix_nano: u64,
    /// In nanoseconds since 1970.
    #[prost(fixed64, tag = "8")]
    #[serde(serialize_with = "as_text")]
    pub(crate) end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub(crate) attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) events: Vec<SpanEvent>,
    /// Number of events beyond the limit of a span.
    #[prost(uint32, tag = "12")]
    pub(crate) dropped_events_count: u32,
    #[prost(message, optional, tag = "15")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<SpanStatus>,
}

/// An event at one moment of a span.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SpanEvent {
    /// In nanoseconds since 1970.
    #[prost(fixed64, tag = "1")]
    #[serde(serialize_with = "as_text")]
    pub(crate) time_unix_nano: u64,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "3")]
    pub(crate) attributes: Vec<KeyValue>,
}

/// Status of a span; absent if it succeeded.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(crate) struct SpanStatus {
    #[prost(string, tag = "2")]
    pub(crate) message: String,
    #[prost(int32, tag = "3")]
    pub(crate) code: i32,
}

/// A name and its value (`KeyValue`).
#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(crate) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<AnyValue>,
}

/// A value of any supported type.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(crate) struct AnyValue {
    #[prost(oneof = "AttributeValue", tags = "1, 2, 3, 4, 5")]
    #[serde(flatten)]
    pub(crate) value: Option<AttributeValue>,
}

/// The value itself.
#[derive(Clone, PartialEq, prost::Oneof, Serialize)]
pub(crate) enum AttributeValue {
    #[prost(string, tag = "1")]
    #[serde(rename = "stringValue")]
    Text(String),
    #[prost(bool, tag = "2")]
    #[serde(rename = "boolValue")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    #[serde(rename = "intValue", serialize_with = "as_text")]
    Int(i64),
    #[prost(double, tag = "4")]
    #[serde(rename = "doubleValue")]
    Double(f64),
    #[prost(message, tag = "5")]
    #[serde(rename = "arrayValue")]
    Array(ArrayValue),
}

/// An array of values (`ArrayValue`).
#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub(crate) struct ArrayValue {
    #[prost(message, repeated, tag = "1")]
    pub(crate) values: Vec<AnyValue>,
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        AttributeValue::Text(text.to_owned())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        AttributeValue::Text(text)
    }
}

impl From<u64> for AttributeValue {
    fn from(number: u64) -> Self {
        AttributeValue::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<f64> for AttributeValue {
    fn from(number: f64) -> Self {
        AttributeValue::Double(number)
    }
}

impl From<Vec<String>> for AttributeValue {
    fn from(texts: Vec<String>) -> Self {
        let text_value = |text| AnyValue {
            value: Some(AttributeValue::Text(text)),
        };
        let values = texts.into_iter().map(text_value).collect();
        AttributeValue::Array(ArrayValue { values })
    }
}

/// Creates an attribute with this name.
pub(crate) fn attribute(key: &str, value: impl Into<AttributeValue>) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            value: Some(value.into()),
        }),
    }
}

fn hexadecimal<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text::to_hex(bytes))
}

fn as_text<S: Serializer>(number: &impl ToString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&number.to_string())
}
