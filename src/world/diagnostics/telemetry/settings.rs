//! Reads OpenTelemetry's environment variables: whether spans are exported, where to, how, and
//! under which service name. They are read from the process environment only: a file in a project
//! must never decide where a run is exported to.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

/// Default timeout of a request to a collector in milliseconds, unless `OTEL_EXPORTER_OTLP_TIMEOUT`
/// is set: <https://opentelemetry.io/docs/specs/otel/protocol/exporter/>.
const TIMEOUT_MILLISECONDS_DEFAULT: u64 = 10_000;
/// The `service.name` of the resource, unless the environment sets it.
const SERVICE_NAME_DEFAULT: &str = "massgen";

/// Where and how spans are exported.
#[derive(Clone, Debug)]
pub struct TelemetrySettings {
    /// The URL for traces.
    pub(crate) endpoint: Url,
    /// Additional headers of each request. They may contain a key.
    pub(crate) headers: HeaderMap,
    /// The encoding of requests.
    pub(crate) encoding: OtlpEncoding,
    /// Timeout of one request.
    pub(crate) timeout: Duration,
    /// Attributes of the resource, which describe the program.
    pub(crate) resource: Vec<(String, String)>,
    /// Whether the texts of tasks, answers and calls are exported.
    pub(crate) content: ContentCapture,
}

/// The encoding of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OtlpEncoding {
    /// `http/protobuf`.
    Protobuf,
    /// `http/json`.
    Json,
}

/// Whether the texts of tasks, answers and calls are exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentCapture {
    /// Only names, counts and times.
    Withheld,
    /// The texts as well.
    Included,
}

impl TelemetrySettings {
    /// Reads the settings from `env`; `None` if export is not requested.
    ///
    /// # Errors
    /// A message for the user if `env` requests something that is not supported. It never contains
    /// the value of a variable that may hold a key.
    pub fn read(env: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let is_true = |name| env(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let is_disabled = is_true("OTEL_SDK_DISABLED")
            || env("OTEL_TRACES_EXPORTER").is_some_and(|exporter| exporter == "none");
        if is_disabled {
            return Ok(None);
        }
        let Some(endpoint) = read_endpoint(env)? else {
            return Ok(None);
        };
        let content = if is_true("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT") {
            ContentCapture::Included
        } else {
            ContentCapture::Withheld
        };
        Ok(Some(Self {
            endpoint,
            headers: read_headers(env)?,
            encoding: read_encoding(env)?,
            timeout: read_timeout(env)?,
            resource: read_resource(env)?,
            content,
        }))
    }
}

/// Returns the value of the variable for traces, or otherwise of the one for all signals, with its
/// name.
fn signal_variable(env: &dyn Fn(&str) -> Option<String>, suffix: &str) -> Option<(String, String)> {
    let names = [
        format!("OTEL_EXPORTER_OTLP_TRACES_{suffix}"),
        format!("OTEL_EXPORTER_OTLP_{suffix}"),
    ];
    names
        .into_iter()
        .find_map(|name| env(&name).map(|value| (name, value)))
}

fn read_endpoint(env: &dyn Fn(&str) -> Option<String>) -> Result<Option<Url>, String> {
    let Some((name, text)) = signal_variable(env, "ENDPOINT") else {
        return Ok(None);
    };
    let malformed = || format!("`{name}` is not an `http://` or `https://` URL");
    let mut url = Url::parse(text.trim()).map_err(|_| malformed())?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(malformed());
    }
    // The variable for traces is the full URL; the one for all signals is only its base.
    if name == "OTEL_EXPORTER_OTLP_ENDPOINT"
        && let Ok(mut segments) = url.path_segments_mut()
    {
        segments.pop_if_empty().extend(["v1", "traces"]);
    }
    Ok(Some(url))
}

fn read_encoding(env: &dyn Fn(&str) -> Option<String>) -> Result<OtlpEncoding, String> {
    match signal_variable(env, "PROTOCOL") {
        None => Ok(OtlpEncoding::Protobuf),
        Some((name, value)) => match value.trim() {
            "http/protobuf" => Ok(OtlpEncoding::Protobuf),
            "http/json" => Ok(OtlpEncoding::Json),
            _ => Err(format!(
                "`{name}` is not supported: expected `http/protobuf` or `http/json`"
            )),
        },
    }
}

fn read_timeout(env: &dyn Fn(&str) -> Option<String>) -> Result<Duration, String> {
    let milliseconds = match signal_variable(env, "TIMEOUT") {
        None => TIMEOUT_MILLISECONDS_DEFAULT,
        Some((name, value)) => value
            .trim()
            .parse()
            .map_err(|_| format!("`{name}` is not a whole number of milliseconds"))?,
    };
    Ok(Duration::from_millis(milliseconds))
}

fn read_headers(env: &dyn Fn(&str) -> Option<String>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let Some((variable, text)) = signal_variable(env, "HEADERS") else {
        return Ok(headers);
    };
    for (name, value) in parse_pairs(&variable, &text)? {
        let invalid_header = || format!("`{variable}` contains an invalid header");
        let name = HeaderName::try_from(name).map_err(|_| invalid_header())?;
        let mut value = HeaderValue::try_from(value).map_err(|_| invalid_header())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

fn read_resource(env: &dyn Fn(&str) -> Option<String>) -> Result<Vec<(String, String)>, String> {
    let name = "OTEL_RESOURCE_ATTRIBUTES";
    let mut resource = match env(name) {
        Some(text) => parse_pairs(name, &text)?,
        None => Vec::new(),
    };
    let is_service_name = |(key, _): &(String, String)| key == "service.name";
    if let Some(service) = env("OTEL_SERVICE_NAME") {
        resource.retain(|pair| !is_service_name(pair));
        resource.push(("service.name".to_owned(), service));
    } else if !resource.iter().any(is_service_name) {
        resource.push(("service.name".to_owned(), SERVICE_NAME_DEFAULT.to_owned()));
    }
    if !resource.iter().any(|(key, _)| key == "service.version") {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        resource.push(("service.version".to_owned(), version));
    }
    Ok(resource)
}

/// Parses `name=value,name=value`, with values that may be percent-encoded.
fn parse_pairs(variable: &str, text: &str) -> Result<Vec<(String, String)>, String> {
    let entries = text
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty());
    let pair = |entry: &str| {
        let malformed = || format!("`{variable}` is not `name=value,name=value`");
        let (name, value) = entry.split_once('=').ok_or_else(malformed)?;
        let decoded_value = percent_decode_str(value.trim()).decode_utf8();
        let value = decoded_value.map_err(|_| malformed())?.into_owned();
        Ok((name.trim().to_owned(), value))
    };
    entries.map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");

    fn read(env: &[(&str, &str)]) -> Result<Option<TelemetrySettings>, String> {
        let env = |name: &str| {
            let found = env.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        TelemetrySettings::read(&env)
    }

    #[track_caller]
    fn check(env: &[(&str, &str)], expected: Option<&str>) {
        let endpoint = read(env).unwrap().map(|found| found.endpoint.to_string());
        assert_eq!(endpoint.as_deref(), expected, "{env:?}");
    }

    #[test]
    fn nothing_is_sent_unless_an_endpoint_is_named() {
        let traces = (
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "https://c.example/otlp?team=a",
        );
        check(&[], None);
        check(&[ENDPOINT], Some("http://localhost:4318/v1/traces"));
        check(&[ENDPOINT, traces], Some("https://c.example/otlp?team=a"));
        check(
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h/otlp/")],
            Some("http://h/otlp/v1/traces"),
        );
        check(&[ENDPOINT, ("OTEL_SDK_DISABLED", "TRUE")], None);
        check(&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")], None);
        check(
            &[ENDPOINT, ("OTEL_TRACES_EXPORTER", "otlp")],
            Some("http://localhost:4318/v1/traces"),
        );
    }

    #[track_caller]
    fn check_refused(name: &str, value: &str, expected: &str) {
        let error = read(&[ENDPOINT, (name, value)]).unwrap_err();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains(name), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn unusable_settings_are_reported_without_their_value() {
        let traces = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        check_refused(traces, "localhost:4318", "URL");
        check_refused(traces, "secret", "URL");
        check_refused("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf");
        check_refused("OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "milliseconds");
        check_refused("OTEL_EXPORTER_OTLP_HEADERS", "secret", "name=value");
        check_refused(
            "OTEL_EXPORTER_OTLP_HEADERS",
            "a=secret%0a",
            "an invalid header",
        );
        check_refused("OTEL_RESOURCE_ATTRIBUTES", "a=%ff", "name=value");
    }

    #[test]
    fn the_protocol_the_headers_and_the_name_are_those_of_the_environment() {
        let settings = read(&[
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            (
                "OTEL_EXPORTER_OTLP_HEADERS",
                "authorization=Bearer%20s3cret, x=1,",
            ),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,team=red%2Cblue"),
            ("OTEL_SERVICE_NAME", "b"),
        ]);
        let settings = settings.unwrap().unwrap();
        assert_eq!(settings.encoding, OtlpEncoding::Json);
        assert_eq!(settings.timeout, Duration::from_millis(250));
        assert_eq!(settings.headers["authorization"], "Bearer s3cret");
        assert_eq!(settings.headers["x"], "1");
        assert!(!format!("{settings:?}").contains("s3cret"));
        let resource: Vec<String> = settings
            .resource
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let version = format!("service.version={}", env!("CARGO_PKG_VERSION"));
        assert_eq!(resource, ["team=red,blue", "service.name=b", &version]);
        assert_eq!(settings.content, ContentCapture::Withheld);
    }
}
