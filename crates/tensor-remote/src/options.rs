use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// How objects are read and written, and how much of everything that may take.
///
/// ```
/// use std::time::Duration;
/// use tensor_remote::RemoteOptions;
///
/// let options = RemoteOptions::default()
///     .with_bytes_in_flight(16 << 20)
///     .with_total_time(Duration::from_secs(600));
/// assert_eq!(options.concurrent_requests, 16);
/// ```
///
/// For a slow line, a store of one's own, and a set whose parts are at another server:
///
/// ```
/// use std::time::Duration;
/// use tensor_remote::RemoteOptions;
///
/// let options = RemoteOptions::default()
///     .with_concurrent_requests(4)
///     .with_max_requests(10_000)
///     .with_request_timeout(Duration::from_secs(120))
///     .with_retries(10)
///     .with_store("aws_endpoint", "https://storage.example.org")
///     .with_origin("https://parts.example.org");
/// assert_eq!(
///     RemoteOptions::parse_origin("https://parts.example.org/").as_ref(),
///     options.origins.first(),
/// );
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct RemoteOptions {
    /// Bytes that are asked for or held and not yet given out, over all objects: 64 MiB.
    pub bytes_in_flight: usize,
    /// Requests on their way at once: 16.
    pub concurrent_requests: usize,
    /// Requests in all, those that are repeated included; no limit.
    pub max_requests: Option<u64>,
    /// How long all of it may take, from the making of the [`Remote`](crate::Remote) on; no limit.
    pub total_time: Option<Duration>,
    /// How long to wait for an answer, or for its next bytes: 30 seconds.
    pub request_timeout: Duration,
    /// How often a request is repeated that failed for a reason which may pass: 6 times.
    pub retries: usize,
    /// Servers that files and redirects may lead to beside those of the addresses that are opened, each as
    /// `https://host` or `https://host:port`.
    pub origins: Vec<String>,
    /// Settings of the store, by the names that the environment has for them in lower case, such as
    /// `aws_endpoint`. They outrank the environment, and are never shown.
    pub store: BTreeMap<String, String>,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            bytes_in_flight: 64 << 20,
            concurrent_requests: 16,
            max_requests: None,
            total_time: None,
            request_timeout: Duration::from_secs(30),
            retries: 6,
            origins: Vec::new(),
            store: BTreeMap::new(),
        }
    }
}

impl RemoteOptions {
    /// Sets [`bytes_in_flight`](Self::bytes_in_flight); 1 MiB is the least.
    #[must_use]
    pub fn with_bytes_in_flight(mut self, bytes: usize) -> Self {
        self.bytes_in_flight = bytes;
        self
    }

    /// Sets [`concurrent_requests`](Self::concurrent_requests).
    #[must_use]
    pub fn with_concurrent_requests(mut self, requests: usize) -> Self {
        self.concurrent_requests = requests;
        self
    }

    /// Sets [`max_requests`](Self::max_requests).
    #[must_use]
    pub fn with_max_requests(mut self, requests: u64) -> Self {
        self.max_requests = Some(requests);
        self
    }

    /// Sets [`total_time`](Self::total_time).
    #[must_use]
    pub fn with_total_time(mut self, time: Duration) -> Self {
        self.total_time = Some(time);
        self
    }

    /// Sets [`request_timeout`](Self::request_timeout).
    #[must_use]
    pub fn with_request_timeout(mut self, time: Duration) -> Self {
        self.request_timeout = time;
        self
    }

    /// Sets [`retries`](Self::retries).
    #[must_use]
    pub fn with_retries(mut self, retries: usize) -> Self {
        self.retries = retries;
        self
    }

    /// Adds one of [`origins`](Self::origins): anything at that server.
    #[must_use]
    pub fn with_origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into());
        self
    }

    /// Adds a setting of the [`store`](Self::store).
    #[must_use]
    pub fn with_store(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.store
            .insert(key.into().to_ascii_lowercase(), value.into());
        self
    }

    /// The origin that a text is: a server over http(s), with nothing behind it.
    #[must_use]
    pub fn parse_origin(text: &str) -> Option<String> {
        let url = url::Url::parse(text).ok()?;
        let is_web = matches!(url.scheme(), "http" | "https")
            && url.host_str().is_some_and(|host| !host.is_empty());
        let is_bare =
            matches!(url.path(), "" | "/") && url.query().is_none() && url.fragment().is_none();
        let has_user = !url.username().is_empty() || url.password().is_some();
        (is_web && is_bare && !has_user).then(|| crate::address::origin_of(&url))
    }
}

impl fmt::Debug for RemoteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteOptions")
            .field("bytes_in_flight", &self.bytes_in_flight)
            .field("concurrent_requests", &self.concurrent_requests)
            .field("max_requests", &self.max_requests)
            .field("total_time", &self.total_time)
            .field("request_timeout", &self.request_timeout)
            .field("retries", &self.retries)
            .field("origins", &self.origins)
            .field("store", &self.store.keys().collect::<Vec<_>>())
            .finish()
    }
}

/// What was done so far, over all objects of a [`Remote`](crate::Remote).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Requests sent, those that were repeated included.
    pub requests: u64,
    /// Bytes of data received; headers not counted.
    pub received: u64,
    /// Bytes of data sent.
    pub sent: u64,
}
