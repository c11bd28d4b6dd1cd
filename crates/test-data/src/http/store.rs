//! The part of S3's protocol that writes: objects in one piece and in several, and what is taken away again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::{Asked, Server, Shared, decoded};

/// What was begun and not ended.
#[derive(Default)]
pub(super) struct Uploads {
    pending: BTreeMap<u64, Upload>,
    count: u64,
}

struct Upload {
    path: String,
    parts: BTreeMap<u32, Vec<u8>>,
}

/// A status, headers, a body.
pub(super) type Answer = (u16, Vec<String>, String);

impl Server {
    /// Starts one that is written to as well: `/bucket/key` is an object, as `put` has it.
    #[must_use]
    pub fn store() -> Self {
        let server = Self::start();
        *server.shared.uploads.lock().unwrap() = Some(Uploads::default());
        server
    }

    /// How many uploads in parts were begun and neither ended nor given up.
    pub fn pending(&self) -> usize {
        let uploads = self.shared.uploads.lock().unwrap();
        uploads.as_ref().map_or(0, |uploads| uploads.pending.len())
    }

    /// The names of all objects, sorted.
    pub fn names(&self) -> Vec<String> {
        let objects = self.shared.objects.lock().unwrap();
        let mut names: Vec<String> = objects.keys().map(|path| path[1..].to_owned()).collect();
        names.sort();
        names
    }

    /// Takes an object away; whether there was one.
    pub fn remove(&self, name: &str) -> bool {
        let mut objects = self.shared.objects.lock().unwrap();
        objects.remove(&format!("/{name}")).is_some()
    }

    /// The bytes of an object.
    pub fn get(&self, name: &str) -> Option<Arc<Vec<u8>>> {
        let objects = self.shared.objects.lock().unwrap();
        objects
            .get(&format!("/{name}"))
            .map(|(bytes, _)| bytes.clone())
    }
}

impl Shared {
    /// The answer to a request that writes, `None` where it is none.
    pub(super) fn write(&self, asked: &Asked, body: &[u8]) -> Option<Answer> {
        let mut uploads = self.uploads.lock().unwrap();
        let uploads = uploads.as_mut()?;
        let (path, query) = asked.target.split_once('?').unwrap_or((&asked.target, ""));
        let path = decoded(path);
        let value = |key: &str| {
            let pairs = query
                .split('&')
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
            pairs
                .into_iter()
                .find(|(name, _)| *name == key)
                .map(|(_, value)| value.to_owned())
        };
        let id = value("uploadId").and_then(|id| id.parse::<u64>().ok());
        let e_tag = |number: u64| vec![format!("ETag: \"v{number}\"")];
        Some(match (asked.method.as_str(), id) {
            ("PUT", None) => {
                let is_there = self.objects.lock().unwrap().contains_key(&path);
                if is_there && asked.headers.contains_key("if-none-match") {
                    return Some((412, Vec::new(), String::new()));
                }
                (200, e_tag(self.keep(&path, body.to_vec())), String::new())
            }
            ("PUT", Some(id)) => {
                let number = value("partNumber").and_then(|number| number.parse().ok());
                match (uploads.pending.get_mut(&id), number) {
                    (Some(upload), Some(number)) => {
                        upload.parts.insert(number, body.to_vec());
                        (200, e_tag(number.into()), String::new())
                    }
                    _ => (
                        404,
                        Vec::new(),
                        "<Error><Code>NoSuchUpload</Code></Error>".into(),
                    ),
                }
            }
            ("POST", None) if value("uploads").is_some() => {
                uploads.count += 1;
                let id = uploads.count;
                let parts = BTreeMap::new();
                uploads.pending.insert(id, Upload { path, parts });
                let text = "InitiateMultipartUploadResult";
                (
                    200,
                    Vec::new(),
                    format!("<{text}><UploadId>{id}</UploadId></{text}>"),
                )
            }
            ("POST", Some(id)) => match uploads.pending.remove(&id) {
                Some(upload) => {
                    let bytes = upload.parts.into_values().flatten().collect();
                    let number = self.keep(&upload.path, bytes);
                    let text = "CompleteMultipartUploadResult";
                    let text = format!("<{text}><ETag>\"v{number}\"</ETag></{text}>");
                    (200, Vec::new(), text)
                }
                None => (
                    404,
                    Vec::new(),
                    "<Error><Code>NoSuchUpload</Code></Error>".into(),
                ),
            },
            ("DELETE", Some(id)) => match uploads.pending.remove(&id) {
                Some(_) => (204, Vec::new(), String::new()),
                None => (
                    404,
                    Vec::new(),
                    "<Error><Code>NoSuchUpload</Code></Error>".into(),
                ),
            },
            ("DELETE", None) => {
                self.objects.lock().unwrap().remove(&path);
                (204, Vec::new(), String::new())
            }
            _ => return None,
        })
    }

    fn keep(&self, path: &str, bytes: Vec<u8>) -> u64 {
        let version = self
            .versions
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut objects = self.objects.lock().unwrap();
        objects.insert(path.to_owned(), (Arc::new(bytes), version));
        version
    }
}

/// What `Shared` has of it: nothing where the server is only read.
pub(super) type Kept = Mutex<Option<Uploads>>;
