//! The client of HTTP under the stores: counts, limits and times every request and every answer, follows
//! redirects where it may, and keeps what is needed to say what went wrong.

use std::error::Error as StdError;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::TryStreamExt;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, COOKIE, LOCATION};
use http::{HeaderMap, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use object_store::ClientOptions;
use object_store::client::{
    ClientConfigKey, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest,
    HttpRequestBody, HttpResponse, HttpResponseBody, HttpService,
};
use reqwest::{Client, Url};

use crate::Problem;
use crate::address::origin_of;
use crate::engine::Engine;
use crate::trace::Trace;

/// Redirects that are followed one after the other.
const REDIRECTS: usize = 5;
/// What an answer that is no object may take: an error, a token, a list of parts.
const SMALL: u64 = 4 << 20;
/// Slower than this, in bytes a second, is as good as an answer that has stopped.
const SLOWEST: u64 = 1 << 10;

/// Makes the clients of one store.
#[derive(Debug)]
pub(crate) struct Connector {
    engine: Weak<Engine>,
    follows: bool,
}

impl Connector {
    pub(crate) fn new(engine: &Arc<Engine>, follows: bool) -> Self {
        Self {
            engine: Arc::downgrade(engine),
            follows,
        }
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let fail = |source: Box<dyn StdError + Send + Sync>| object_store::Error::Generic {
            store: "HTTP",
            source,
        };
        let is_on = |key| {
            options
                .get_config_value(&key)
                .is_some_and(|value| value == "true")
        };
        let allow_http = is_on(ClientConfigKey::AllowHttp);
        let engine = self.engine.upgrade();
        // One for all, so that they share connections.
        let known = engine
            .as_ref()
            .and_then(|engine| engine.clients().get(&allow_http).cloned());
        let client = match known {
            Some(client) => client,
            None => client(allow_http).map_err(fail)?,
        };
        if let Some(engine) = &engine {
            engine
                .clients()
                .entry(allow_http)
                .or_insert_with(|| client.clone());
        }
        let timeout = engine.map(|engine| engine.options.request_timeout);
        Ok(HttpClient::new(Service {
            client,
            engine: self.engine.clone(),
            follows: self.follows,
            timeout: timeout.unwrap_or_default(),
        }))
    }
}

/// A client that trusts what this machine trusts and follows nothing by itself.
fn client(allow_http: bool) -> Result<Client, Box<dyn StdError + Send + Sync>> {
    use rustls_platform_verifier::BuilderVerifierExt;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_platform_verifier()?
        .with_no_client_auth();
    let client = Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .https_only(!allow_http)
        .connect_timeout(Duration::from_secs(10))
        .user_agent(concat!("tensor-remote/", env!("CARGO_PKG_VERSION")))
        .build()?;
    Ok(client)
}

#[derive(Debug)]
struct Service {
    client: Client,
    engine: Weak<Engine>,
    follows: bool,
    timeout: Duration,
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let trace = request
            .extensions()
            .get::<Trace>()
            .cloned()
            .or_else(Trace::current)
            .unwrap_or_default();
        trace.seen().tries += 1;
        let answer = self.follow(request, &trace).await;
        answer.map_err(|(kind, problem)| {
            let mut seen = trace.seen();
            seen.problem = Some(problem.clone());
            seen.is_in_doubt = true;
            drop(seen);
            HttpError::new(kind, problem)
        })
    }
}

type Stop = (HttpErrorKind, Problem);

fn stop(problem: Problem) -> Stop {
    // Of a kind that is never repeated.
    (HttpErrorKind::Unknown, problem)
}

impl Service {
    async fn follow(&self, request: HttpRequest, trace: &Trace) -> Result<HttpResponse, Stop> {
        let (parts, body) = request.into_parts();
        let mut headers = parts.headers;
        let is_read = parts.method.is_safe();
        let url = Url::parse(&parts.uri.to_string());
        let mut url =
            url.map_err(|_| stop(Problem::Failed("its address can't be asked for".into())))?;
        if let Ok(asked) = self
            .client
            .request(parts.method.clone(), url.clone())
            .build()
        {
            // A user in the address becomes a header.
            if let Some(user) = asked.headers().get(AUTHORIZATION) {
                headers.insert(AUTHORIZATION, user.clone());
            }
            url = asked.url().clone();
        }
        let mut body = Some(body);
        for _ in 0..=REDIRECTS {
            let mut asked = reqwest::Request::new(parts.method.clone(), url.clone());
            *asked.headers_mut() = headers.clone();
            if let Some(body) = body.take() {
                *asked.body_mut() = Some(self.body(body));
            }
            let answer = self.ask(asked, trace.clears()).await?;
            {
                let mut seen = trace.seen();
                seen.status = Some(answer.status().as_u16());
                seen.is_in_doubt |= answer.status().is_server_error();
                seen.problem = None;
                seen.code = None;
            }
            let location = answer.headers().get(LOCATION);
            if !(self.follows && is_read && answer.status().is_redirection()) || location.is_none()
            {
                return self.take(answer, trace, is_read).await;
            }
            let text = location
                .and_then(|location| location.to_str().ok())
                .unwrap_or_default();
            let to = url.join(text);
            let to = to.map_err(|_| stop(Problem::Redirect("to what is no address".into())))?;
            self.check(&url, &to)?;
            if url.origin() != to.origin() {
                // What was meant for one server is not told to another.
                headers.remove(AUTHORIZATION);
                headers.remove(COOKIE);
            }
            url = to;
        }
        let text = format!("more than {REDIRECTS} times");
        Err(stop(Problem::Redirect(text)))
    }

    /// Whether a redirect may be followed.
    fn check(&self, from: &Url, to: &Url) -> Result<(), Stop> {
        if !matches!(to.scheme(), "http" | "https") || to.host_str().is_none_or(str::is_empty) {
            let text = format!("to a {} address", to.scheme());
            return Err(stop(Problem::Redirect(text)));
        }
        let origin = origin_of(to);
        let engine = self.engine.upgrade();
        match from.origin() == to.origin() || engine.is_some_and(|engine| engine.allows(&origin)) {
            true => Ok(()),
            false => Err(stop(Problem::Origin { origin })),
        }
    }

    fn body(&self, body: HttpRequestBody) -> reqwest::Body {
        if let Some(engine) = self.engine.upgrade() {
            let len = body.content_length() as u64;
            engine.counts.sent.fetch_add(len, Ordering::Relaxed);
        }
        match body.as_bytes() {
            Some(bytes) => reqwest::Body::from(bytes.clone()),
            None => reqwest::Body::wrap(body),
        }
    }

    async fn ask(
        &self,
        request: reqwest::Request,
        clears: bool,
    ) -> Result<reqwest::Response, Stop> {
        let engine = self
            .engine
            .upgrade()
            .ok_or_else(|| stop(crate::engine::lost()))?;
        engine.counts.request(clears).map_err(stop)?;
        let wait = match clears {
            true => self.timeout,
            false => engine.counts.wait(self.timeout),
        };
        match tokio::time::timeout(wait, self.client.execute(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                let kind = match () {
                    () if error.is_builder() => HttpErrorKind::Unknown,
                    () if error.is_connect() => HttpErrorKind::Connect,
                    () => HttpErrorKind::Interrupted,
                };
                let text = format!("no answer: {}", root(&error));
                Err((kind, Problem::Failed(text)))
            }
            Err(_) => {
                if !clears {
                    engine.counts.time().map_err(stop)?;
                }
                let text = format!("no answer within {} seconds", wait.as_secs_f32());
                Err((HttpErrorKind::Timeout, Problem::Failed(text)))
            }
        }
    }

    /// The answer as the store takes it: of an error the beginning, since nobody needs more of it.
    async fn take(
        &self,
        answer: reqwest::Response,
        trace: &Trace,
        is_read: bool,
    ) -> Result<HttpResponse, Stop> {
        let answer: http::Response<reqwest::Body> = answer.into();
        let (mut parts, body) = answer.into_parts();
        {
            let mut seen = trace.seen();
            seen.content_range = text(&parts.headers, CONTENT_RANGE);
            seen.has_modified = parts.headers.contains_key(http::header::LAST_MODIFIED);
        }
        let is_data = is_read && parts.status == StatusCode::PARTIAL_CONTENT;
        if is_data && !parts.headers.contains_key(CONTENT_LENGTH) {
            if let Some(len) = content_range_len(&parts.headers) {
                parts.headers.insert(CONTENT_LENGTH, len.into());
            }
        }
        let is_error = parts.status.is_client_error() || parts.status.is_server_error();
        // Of an error it is no matter how its body ends.
        let of_body = if is_error {
            Trace::default()
        } else {
            trace.clone()
        };
        let body = self.body_of(
            body,
            if is_data { u64::MAX } else { SMALL },
            of_body,
            trace.clears(),
        );
        if !is_error {
            return Ok(HttpResponse::from_parts(parts, body));
        }
        // What can't be read of it is no loss.
        let bytes = body.bytes().await.unwrap_or_default();
        trace.seen().code = code(&bytes);
        let body = http_body_util::Full::new(bytes).map_err(|never| match never {});
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }

    /// The body with every wait limited, and no longer than `most`.
    fn body_of(
        &self,
        body: reqwest::Body,
        most: u64,
        trace: Trace,
        clears: bool,
    ) -> HttpResponseBody {
        let reading = Reading {
            body,
            engine: self.engine.clone(),
            timeout: self.timeout,
            began: Instant::now(),
            got: 0,
            most,
            clears,
        };
        let frames =
            futures_util::stream::try_unfold((reading, trace), |(mut reading, trace)| async move {
                match reading.next().await {
                    Ok(None) => Ok(None),
                    Ok(Some(frame)) => Ok(Some((frame, (reading, trace)))),
                    Err((kind, problem)) => {
                        trace.seen().problem = Some(problem.clone());
                        Err(HttpError::new(kind, problem))
                    }
                }
            });
        HttpResponseBody::new(StreamBody::new(frames.into_stream()))
    }
}

/// A body while it is read.
struct Reading {
    body: reqwest::Body,
    engine: Weak<Engine>,
    timeout: Duration,
    began: Instant,
    got: u64,
    most: u64,
    /// Whether no limit of time counts.
    clears: bool,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<Frame<Bytes>>, Stop> {
        let engine = self
            .engine
            .upgrade()
            .ok_or_else(|| stop(crate::engine::lost()))?;
        let wait = match self.clears {
            true => self.timeout,
            false => engine.counts.wait(self.timeout),
        };
        let frame = match tokio::time::timeout(wait, self.body.frame()).await {
            Ok(None) => return Ok(None),
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => {
                let problem = Problem::Failed(format!("the answer broke off: {}", root(&error)));
                return Err((HttpErrorKind::Interrupted, problem));
            }
            Err(_) => {
                engine.counts.time().map_err(stop)?;
                let text = format!("the answer stopped for {} seconds", wait.as_secs_f32());
                return Err((HttpErrorKind::Timeout, Problem::Failed(text)));
            }
        };
        let len = frame.data_ref().map_or(0, |data| data.len() as u64);
        engine.counts.received.fetch_add(len, Ordering::Relaxed);
        self.got = self.got.saturating_add(len);
        if self.got > self.most {
            return Err(stop(Problem::TooLong {
                expected: self.most,
            }));
        }
        if self.began.elapsed() > self.timeout + Duration::from_secs(self.got / SLOWEST) {
            let text = format!("the answer comes slower than {SLOWEST} bytes a second");
            return Err((HttpErrorKind::Timeout, Problem::Failed(text)));
        }
        Ok(Some(frame))
    }
}

fn text(headers: &HeaderMap, name: http::HeaderName) -> Option<String> {
    let text = headers.get(name)?.to_str().ok()?;
    Some(text.chars().take(60).collect())
}

/// How many bytes an answer is about, by what it says of its range.
fn content_range_len(headers: &HeaderMap) -> Option<u64> {
    let text = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    let (first, last) = text
        .strip_prefix("bytes ")?
        .split_once('/')?
        .0
        .split_once('-')?;
    let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
    last.checked_sub(first)?.checked_add(1)
}

/// What is between `<Code>` and `</Code>`, if it is a word: the rest may repeat what was sent.
fn code(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let code = text.split_once("<Code>")?.1.split_once("</Code>")?.0;
    let is_word =
        (1..=60).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_word.then(|| code.to_owned())
}

/// What is at the bottom of an error: what the system or TLS said, without addresses.
fn root(error: &(dyn StdError + 'static)) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    let text = deepest.to_string();
    // A client's own errors name the address; what is below them doesn't.
    match text.contains("://") || text.is_empty() {
        true => "the connection failed".to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_an_error_is_a_word_or_nothing() {
        assert_eq!(
            code(b"<Error><Code>NoSuchKey</Code>").as_deref(),
            Some("NoSuchKey")
        );
        assert_eq!(code(b"<Code>a secret</Code>"), None);
        assert_eq!(code(b"<Code></Code>"), None);
        assert_eq!(code(b"\xFF\xFE"), None);
    }

    #[test]
    fn what_an_answer_is_about() {
        for (text, len) in [
            ("bytes 0-99/1000", Some(100)),
            ("bytes 5-5/*", Some(1)),
            ("bytes 9-1/10", None),
            ("bytes 0-18446744073709551615/1", None),
            ("lines 0-9/10", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_RANGE, text.parse().unwrap());
            assert_eq!(content_range_len(&headers), len, "{text}");
        }
    }
}
