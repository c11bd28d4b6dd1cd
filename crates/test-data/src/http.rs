//! A web server on the loopback address for tests: answers ranges, counts, and misbehaves where asked to.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::must_use_candidate,
    clippy::type_complexity,
    missing_debug_implementations,
    reason = "a slip should stop the test, and bodies are in memory"
)]

mod store;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// `GET`, `HEAD`, ...
    pub method: String,
    /// The path, with its query.
    pub target: String,
    /// First and last byte, where a range was asked for.
    pub range: Option<(u64, u64)>,
    /// The headers, names in lower case.
    pub headers: HashMap<String, String>,
    /// How many requests there were before.
    pub number: u64,
}

/// How a request is answered.
#[derive(Clone, Debug)]
pub enum Play {
    /// As a good server does.
    Well,
    /// With a status and a body of its own.
    Status(u16, String),
    /// Not at all: the connection is closed.
    Close,
    /// Not at all, after what was asked for was done.
    Mute,
    /// Well, but for the connection being closed after so many bytes of the body.
    Cut(usize),
    /// With a body and a length of so many bytes only, for the range that was asked for.
    Short(usize),
    /// With the range moved by so many bytes.
    Moved(u64),
    /// With a body that never ends, for the range that was asked for.
    Endless,
    /// With the whole object, as a server does that knows no ranges.
    Whole,
    /// With a redirect.
    Redirect(String),
    /// Well, without ETag and time.
    Unmarked,
    /// Well, with a weak ETag.
    Weak,
    /// Well, after a while.
    Late(Duration),
    /// Well, with a pause after each byte.
    Drip(Duration),
}

type Hook = Box<dyn Fn(&Asked) -> Play + Send + Sync>;

struct Shared {
    objects: Mutex<HashMap<String, (Arc<Vec<u8>>, u64)>>,
    versions: AtomicU64,
    uploads: store::Kept,
    hook: Mutex<Arc<Hook>>,
    latency: Mutex<Duration>,
    /// Bytes a second over all connections, and when the next ones may go.
    rate: Mutex<Option<(u64, Instant)>>,
    log: Mutex<Vec<Asked>>,
    sent: AtomicU64,
    at_once: AtomicU64,
    most_at_once: AtomicU64,
    stop: AtomicBool,
}

/// A running server; it ends when it is dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Server {
    /// Starts one without objects.
    ///
    /// # Panics
    /// Where no port is free.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            objects: Mutex::default(),
            versions: AtomicU64::new(0),
            uploads: Mutex::default(),
            hook: Mutex::new(Arc::new(Box::new(|_| Play::Well))),
            latency: Mutex::default(),
            rate: Mutex::default(),
            log: Mutex::default(),
            sent: AtomicU64::new(0),
            at_once: AtomicU64::new(0),
            most_at_once: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let own = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                if own.stop.load(Ordering::Relaxed) {
                    break;
                }
                let own = own.clone();
                if let Ok(stream) = stream {
                    thread::spawn(move || own.serve(stream));
                }
            }
        });
        Self { address, shared }
    }

    /// `http://127.0.0.1:port`.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address of an object.
    #[must_use]
    pub fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.origin())
    }

    /// Puts an object there, or another one in its place, with a mark of its own.
    pub fn put(&self, name: &str, bytes: impl Into<Vec<u8>>) {
        let version = self.shared.versions.fetch_add(1, Ordering::Relaxed);
        let mut objects = self.shared.objects.lock().unwrap();
        objects.insert(format!("/{name}"), (Arc::new(bytes.into()), version));
    }

    /// Puts all files of a folder there, with those in folders below.
    pub fn put_folder(&self, folder: &std::path::Path, under: &str) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{under}{}", path.file_name().unwrap().to_str().unwrap());
            match path.is_dir() {
                true => self.put_folder(&path, &format!("{name}/")),
                false => self.put(&name, std::fs::read(&path).unwrap()),
            }
        }
    }

    /// Decides how each request is answered from now on.
    pub fn play(&self, hook: impl Fn(&Asked) -> Play + Send + Sync + 'static) {
        *self.shared.hook.lock().unwrap() = Arc::new(Box::new(hook));
    }

    /// Waits so long before each answer.
    pub fn latency(&self, latency: Duration) {
        *self.shared.latency.lock().unwrap() = latency;
    }

    /// Sends no more than so many bytes a second, over all connections.
    pub fn rate(&self, bytes: u64) {
        *self.shared.rate.lock().unwrap() = Some((bytes, Instant::now()));
    }

    /// What was asked for since the last call.
    pub fn take_log(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.shared.log.lock().unwrap())
    }

    /// Bytes of bodies sent since the last call.
    pub fn take_sent(&self) -> u64 {
        self.shared.sent.swap(0, Ordering::Relaxed)
    }

    /// How many requests were on their way at once, at the most.
    #[must_use]
    pub fn most_at_once(&self) -> u64 {
        self.shared.most_at_once.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for connections.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let Ok(mut out) = stream.try_clone() else {
            return;
        };
        let mut reader = BufReader::new(stream);
        while let Some((asked, body)) = self.read(&mut reader) {
            let now = self.at_once.fetch_add(1, Ordering::Relaxed) + 1;
            self.most_at_once.fetch_max(now, Ordering::Relaxed);
            let goes_on = self.answer(&asked, &body, &mut out);
            self.at_once.fetch_sub(1, Ordering::Relaxed);
            if goes_on != Some(true) || self.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        let _ = out.shutdown(std::net::Shutdown::Both);
    }

    fn read(&self, reader: &mut BufReader<TcpStream>) -> Option<(Asked, Vec<u8>)> {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let mut words = line.split_whitespace();
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            match line.trim_end().split_once(':') {
                Some((name, value)) => {
                    headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
                }
                None => break,
            }
        }
        let len: u64 = headers
            .get("content-length")
            .and_then(|len| len.parse().ok())
            .unwrap_or(0);
        let mut body = Vec::new();
        reader.take(len).read_to_end(&mut body).ok()?;
        if body.len() as u64 != len {
            return None;
        }
        let range = headers.get("range").and_then(|range| {
            let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
            Some((first.parse().ok()?, last.parse().ok()?))
        });
        let mut log = self.log.lock().unwrap();
        let asked = Asked {
            method,
            target,
            range,
            headers,
            number: log.len() as u64,
        };
        log.push(asked.clone());
        Some((asked, body))
    }

    /// `Some(true)` where the connection may be used again.
    fn answer(&self, asked: &Asked, body: &[u8], out: &mut TcpStream) -> Option<bool> {
        let latency = *self.latency.lock().unwrap();
        thread::sleep(latency);
        let hook = self.hook.lock().unwrap().clone();
        let play = hook(asked);
        // What answers HEAD has none.
        fn none(_: &[u8]) -> &[u8] {
            b""
        }
        let with_body: fn(&[u8]) -> &[u8] = match asked.method.as_str() {
            "HEAD" => none,
            _ => |body| body,
        };
        match &play {
            Play::Close => return None,
            Play::Late(time) => thread::sleep(*time),
            Play::Status(status, body) => {
                return self.plain(out, *status, &[], with_body(body.as_bytes()));
            }
            Play::Redirect(to) => return self.plain(out, 302, &[format!("Location: {to}")], b""),
            _ => {}
        }
        if let Some((status, head, text)) = self.write(asked, body) {
            if matches!(play, Play::Mute) {
                return None;
            }
            return self.plain(out, status, &head, text.as_bytes());
        }
        let path = decoded(asked.target.split('?').next().unwrap_or_default());
        let found = self.objects.lock().unwrap().get(&path).cloned();
        let Some((bytes, version)) = found else {
            return self.plain(out, 404, &[], with_body(b"not here"));
        };
        let e_tag = match play {
            Play::Weak => format!("W/\"v{version}\""),
            _ => format!("\"v{version}\""),
        };
        let is_other = |mark: &String| *mark != e_tag;
        if asked.headers.get("if-match").is_some_and(is_other) {
            return self.plain(out, 412, &[], b"");
        }
        self.object(asked, &play, (&bytes, &e_tag), out)
    }

    fn object(
        &self,
        asked: &Asked,
        play: &Play,
        (bytes, e_tag): (&[u8], &str),
        out: &mut TcpStream,
    ) -> Option<bool> {
        let size = bytes.len() as u64;
        let mut head = vec!["Accept-Ranges: bytes".to_owned()];
        if !matches!(play, Play::Unmarked) {
            head.push(format!("ETag: {e_tag}"));
            head.push("Last-Modified: Wed, 01 Jan 2025 00:00:00 GMT".to_owned());
        }
        let (status, mut body) = match (asked.range, play) {
            (None, _) | (_, Play::Whole) => (200, bytes),
            (Some((first, _)), _) if first >= size => {
                let range = format!("Content-Range: bytes */{size}");
                return self.plain(out, 416, &[range], b"");
            }
            (Some((first, last)), _) => {
                let last = last.min(size - 1);
                let moved = match play {
                    Play::Moved(by) => *by,
                    _ => 0,
                };
                head.push(format!(
                    "Content-Range: bytes {}-{}/{size}",
                    first + moved,
                    last + moved
                ));
                (206, &bytes[first as usize..=last as usize])
            }
        };
        if asked.method == "HEAD" {
            head.push(format!("Content-Length: {size}"));
            self.head(out, 200, &head)?;
            return Some(true);
        }
        match play {
            Play::Short(len) => body = &body[..(*len).min(body.len())],
            Play::Endless => {
                head.push("Connection: close".to_owned());
                self.head(out, status, &head)?;
                while !self.stop.load(Ordering::Relaxed) {
                    self.send(out, &[0; 1 << 16])?;
                }
                return None;
            }
            _ => {}
        }
        head.push(format!("Content-Length: {}", body.len()));
        self.head(out, status, &head)?;
        match play {
            Play::Cut(len) => {
                self.send(out, &body[..(*len).min(body.len())])?;
                return None;
            }
            Play::Drip(pause) => {
                for byte in body {
                    self.send(out, &[*byte])?;
                    thread::sleep(*pause);
                }
            }
            _ => self.send(out, body)?,
        }
        Some(true)
    }

    fn plain(
        &self,
        out: &mut TcpStream,
        status: u16,
        more: &[String],
        body: &[u8],
    ) -> Option<bool> {
        let mut head = more.to_vec();
        head.push(format!("Content-Length: {}", body.len()));
        self.head(out, status, &head)?;
        self.send(out, body)?;
        Some(true)
    }

    fn head(&self, out: &mut TcpStream, status: u16, head: &[String]) -> Option<()> {
        let text = format!("HTTP/1.1 {status} Answer\r\n{}\r\n\r\n", head.join("\r\n"));
        out.write_all(text.as_bytes()).ok()
    }

    fn send(&self, out: &mut TcpStream, bytes: &[u8]) -> Option<()> {
        for piece in bytes.chunks(64 << 10) {
            let wait = self.rate.lock().unwrap().as_mut().map(|(rate, next)| {
                let now = Instant::now();
                let due = (*next).max(now);
                *next = due + Duration::from_secs_f64(piece.len() as f64 / *rate as f64);
                due - now
            });
            thread::sleep(wait.unwrap_or_default());
            // Before it is sent, since whoever has it may look at once.
            self.sent.fetch_add(piece.len() as u64, Ordering::Relaxed);
            out.write_all(piece).ok()?;
        }
        Some(())
    }
}

/// A path without its escapes.
fn decoded(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = (*first == b'%').then(|| tail.get(..2)).flatten();
        let code =
            code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
