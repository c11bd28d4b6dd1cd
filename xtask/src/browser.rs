//! Looks at the page that `inspect --html` writes in a real browser without a window.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Outcome;

/// Programs that are Chromium, in the order they are tried.
const NAMES: &[&str] = &[
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
];

/// Layers of the model that is shown; each has ten tensors.
const LAYERS: usize = 40;

/// A name that would do harm, were it taken for HTML.
const HOSTILE: &str = "x</script><img src=y onerror=document.title='broken'>";

/// Shows a model of some 400 tensors, checks what the page made of it, and leaves pictures of it
/// in `target/browser`. Where there is no browser: skipped with a word if it `may_skip`, else
/// Debian's is installed.
pub(crate) fn run(may_skip: bool) -> Outcome {
    let browser = match (find(), may_skip) {
        (Some(browser), _) => browser,
        (None, true) => {
            eprintln!("browser: skipped, no Chromium found (CHROME names one)");
            return Ok(());
        }
        (None, false) => install()?,
    };
    eprintln!("browser: {}", browser.to_string_lossy());
    let folder = test_data::workspace_root().join("target/browser");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let model = folder.join("model.safetensors");
    let page = folder.join("model.html");
    save(&model, &small_model())?;
    program(&["inspect", "--force", "--html"], &[&page, &model])?;
    let browser = Browser { browser, folder };
    browser.check(&page)?;
    let set = browser.folder.join("model.safetensors.index.json");
    program(
        &[
            "convert",
            "--force",
            "--quiet",
            "--max-shard-size",
            "400000",
        ],
        &[&model, &set],
    )?;
    let page = browser.folder.join("set.html");
    program(&["inspect", "--force", "--html"], &[&page, &set])?;
    browser.check_set(&page)?;
    let shared = test_data::workspace_root().join("fixtures/aero/valid/shared_data.aero");
    let page = browser.folder.join("tied.html");
    program(&["inspect", "--force", "--html"], &[&page, &shared])?;
    browser.check_tied(&page)?;
    let long = browser.folder.join("long.safetensors");
    save(&long, &long_names())?;
    let page = browser.folder.join("long.html");
    program(&["inspect", "--force", "--html"], &[&page, &long])?;
    browser.check_widths(&page)
}

/// A picture of the page of a model of some 400 tensors.
pub(crate) fn page_picture(path: &Path) -> Outcome {
    let browser = match find() {
        Some(browser) => browser,
        None => install()?,
    };
    let folder = test_data::workspace_root().join("target/browser");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let (model, page) = (folder.join("model.safetensors"), folder.join("model.html"));
    save(&model, &small_model())?;
    program(&["inspect", "--force", "--html"], &[&page, &model])?;
    let arguments = [
        format!("--screenshot={}", path.display()),
        "--window-size=1180,960".into(),
        "--hide-scrollbars".into(),
        "--blink-settings=preferredColorScheme=1".into(),
    ];
    Browser { browser, folder }.open(&page, "", &arguments)?;
    eprintln!("{}", path.display());
    Ok(())
}

/// Runs the command line tool with these words and these paths.
fn program(words: &[&str], paths: &[&Path]) -> Outcome {
    let paths: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
    let start = ["run", "--quiet", "--package", "tensorfmt-cli", "--"];
    let paths = paths.iter().map(AsRef::as_ref);
    let all: Vec<&str> = start
        .into_iter()
        .chain(words.iter().copied())
        .chain(paths)
        .collect();
    crate::cargo(&all, &[])
}

struct Browser {
    browser: OsString,
    folder: PathBuf,
}

impl Browser {
    fn check(&self, page: &Path) -> Outcome {
        let tensors = LAYERS * 10 + 2;
        let seen = self.document(page, "")?;
        let expect = |what: &str, holds: bool| match holds {
            true => Ok(()),
            false => Err(format!("the page {what}")),
        };
        let rows = seen.matches("<tr id=\"t").count();
        expect(&format!("has {rows} rows of {tensors}"), rows == tensors)?;
        expect(
            "does not count its tensors",
            seen.contains(&format!(">{tensors} of {tensors},")),
        )?;
        // All rows are shown, so that there are none to be asked for.
        expect(
            "offers more rows where there are none",
            seen.contains("id=\"more\" class=\"more\" hidden") && !seen.contains("Show 0"),
        )?;
        expect(
            "draws too few rectangles",
            seen.matches("class=\"leaf\"").count() > 100,
        )?;
        expect(
            "has no histograms",
            seen.matches("class=\"spark\"").count() > 300,
        )?;
        expect(
            "took a name for HTML",
            !seen.contains("<img") && seen.contains("<title>model.safetensors"),
        )?;
        // The address says what is shown, as clicks on the page would have it.
        let sorted = self.document(page, "#sort=bytes&down=1&filter=weight")?;
        // Names may break at their dots.
        let sorted = sorted.replace("<wbr>", "");
        let first = sorted.split("<tr id=\"t").nth(1).unwrap_or_default();
        expect("does not sort by size", first.contains("embed.weight"))?;
        expect("does not filter", !sorted.contains(">layers.0.norm.bias<"))?;
        expect(
            "does not mark the sorted column",
            sorted.contains("aria-sort=\"descending\""),
        )?;
        let group = self.document(page, "#group=layers.3.")?;
        let leaves = group.matches("class=\"leaf\"").count();
        expect(
            &format!("shows {leaves} rectangles for a group of 10"),
            leaves == 10,
        )?;
        let light = self.picture(page, "light", "1")?;
        let dark = self.picture(page, "dark", "0")?;
        expect("is blank", light.len().min(dark.len()) > 50_000)?;
        expect("is the same in light and dark", light != dark)?;
        eprintln!(
            "browser: {tensors} tensors shown, sorted, filtered; pictures in {}",
            self.folder.display()
        );
        Ok(())
    }

    /// The page of a set has its files; groups of one size are in the order in which people count.
    fn check_set(&self, page: &Path) -> Outcome {
        let seen = self.document(page, "#group=layers.")?;
        for file in 1..=5 {
            let name = format!(">model-{file:05}-of-00005.safetensors<");
            if !seen.contains(&name) {
                return Err(format!("the page of a set has no {name}"));
            }
        }
        let place = |layer: usize| {
            let group = format!("title=\"layers.{layer}.\n");
            seen.find(&group)
                .ok_or(format!("no group of layer {layer}"))
        };
        if place(2)? > place(10)? {
            return Err("layer 10 stands before layer 2".into());
        }
        self.picture(page, "set", "1")?;
        self.narrow(page, "narrow")
    }

    /// Tensors that share their bytes are marked.
    fn check_tied(&self, page: &Path) -> Outcome {
        match self
            .document(page, "")?
            .contains("class=\"soft tied\" title=")
        {
            true => Ok(()),
            false => Err("the page doesn't mark tied tensors".into()),
        }
    }

    /// Long names don't make the page wider than its window, nor, where there is room, the table wider than its
    /// place: no column is pushed out of sight.
    fn check_widths(&self, page: &Path) -> Outcome {
        for (scheme, wanted) in [("dark", "0"), ("light", "1")] {
            for width in [1280, 800, 400] {
                let [dark, window, document, table, place] = self.widths(page, width, wanted)?;
                let about = format!("the page in a {scheme} window of {width} pixels");
                if (dark == 1, window) != (scheme == "dark", width) {
                    return Err(format!("{about}: shown in {window} pixels, dark: {dark}"));
                }
                if document > window {
                    return Err(format!("{about} is {document} pixels wide"));
                }
                if width == 1280 && table > place {
                    return Err(format!("{about} has a table of {table} pixels in {place}"));
                }
                self.long_picture(page, width, scheme, wanted)?;
            }
        }
        eprintln!("browser: long names keep within windows of 1280, 800 and 400 pixels");
        Ok(())
    }

    /// Whether the page is dark, and how wide its window, its document, its table and the place for it are: as a
    /// script says that is added to the page, which is shown in a frame, since windows have a least width.
    fn widths(&self, page: &Path, width: u64, scheme: &str) -> Result<[u64; 5], String> {
        let text =
            fs::read_to_string(page).map_err(|error| format!("{}: {error}", page.display()))?;
        let copy = page.with_file_name("measured.html");
        save(
            &copy,
            text.replace("</body>", &format!("{MEASURE}</body>"))
                .as_bytes(),
        )?;
        let frame = page.with_file_name("frame.html");
        save(
            &frame,
            FRAME.replace("@WIDTH@", &width.to_string()).as_bytes(),
        )?;
        let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
        let arguments = [
            "--dump-dom".into(),
            "--window-size=1400,1000".into(),
            scheme,
        ];
        let (seen, _) = self.open(&frame, "", &arguments)?;
        let (_, found) = seen
            .split_once("data-measured=\"")
            .ok_or("the page wasn't measured")?;
        let numbers = found.split('"').next().unwrap_or_default().split(' ');
        let numbers: Vec<u64> = numbers.filter_map(|number| number.parse().ok()).collect();
        numbers
            .try_into()
            .map_err(|_| format!("the page was measured as {found:.80}"))
    }

    fn long_picture(&self, page: &Path, width: u64, scheme: &str, wanted: &str) -> Outcome {
        let frame = page.with_file_name("frame.html");
        let path = self.folder.join(format!("long-{width}-{scheme}.png"));
        let arguments = [
            format!("--screenshot={}", path.display()),
            format!("--window-size={},1800", width.max(500)),
            "--hide-scrollbars".into(),
            format!("--blink-settings=preferredColorScheme={wanted}"),
        ];
        self.open(&frame, "", &arguments).map(drop)
    }

    /// A picture of a window as narrow as a telephone's, in which nothing may be cut off at the side.
    fn narrow(&self, page: &Path, name: &str) -> Outcome {
        let path = self.folder.join(format!("{name}.png"));
        let arguments = [
            format!("--screenshot={}", path.display()),
            "--window-size=420,1500".into(),
            "--hide-scrollbars".into(),
        ];
        self.open(page, "", &arguments).map(drop)
    }

    /// What the page has become after its script ran. Anything that the browser complains about
    /// is an error.
    fn document(&self, page: &Path, hash: &str) -> Result<String, String> {
        let (out, said) = self.open(page, hash, &["--dump-dom".into()])?;
        let complaint = said.lines().find(|line| line.contains("CONSOLE"));
        match complaint {
            Some(line) => Err(format!("the page complains: {line}")),
            None => Ok(out),
        }
    }

    fn picture(&self, page: &Path, name: &str, scheme: &str) -> Result<Vec<u8>, String> {
        let path = self.folder.join(format!("{name}.png"));
        let arguments = [
            format!("--screenshot={}", path.display()),
            "--window-size=1280,1600".into(),
            "--hide-scrollbars".into(),
            format!("--blink-settings=preferredColorScheme={scheme}"),
        ];
        self.open(page, "", &arguments)?;
        fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn open(
        &self,
        page: &Path,
        hash: &str,
        arguments: &[String],
    ) -> Result<(String, String), String> {
        let output = Command::new(&self.browser)
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--enable-logging=stderr",
                "--virtual-time-budget=5000",
            ])
            .arg(format!(
                "--user-data-dir={}",
                self.folder.join("profile").display()
            ))
            .args(arguments)
            .arg(format!("file://{}{hash}", page.display()))
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("{}: {error}", self.browser.to_string_lossy()))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok((text(&output.stdout), text(&output.stderr)))
        } else {
            Err(format!(
                "{}: {}",
                self.browser.to_string_lossy(),
                output.status
            ))
        }
    }
}

fn find() -> Option<OsString> {
    let named = env::var_os("CHROME").into_iter();
    named
        .chain(NAMES.iter().map(OsString::from))
        .find(|program| {
            let version = Command::new(program)
                .arg("--version")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            version.is_ok_and(|status| status.success())
        })
}

fn install() -> Result<OsString, String> {
    eprintln!("browser: no Chromium found, trying apt-get install chromium");
    let installed = Command::new("apt-get")
        .args(["install", "--yes", "--no-install-recommends", "chromium"])
        .stdin(Stdio::null())
        .status();
    match (installed, find()) {
        (Ok(status), Some(browser)) if status.success() => Ok(browser),
        _ => Err(
            "no Chromium, and it can't be installed here: install it, or name one in CHROME"
                .to_owned(),
        ),
    }
}

fn save(path: &Path, bytes: &[u8]) -> Outcome {
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}

/// Tells the frame around the page how wide things are in it.
const MEASURE: &str = r#"<script>
addEventListener("load", () => {
  for (const name of document.querySelectorAll("td .name[aria-expanded]")) name.click();
  const [root, place] = [document.documentElement, document.getElementById("tensors").parentNode];
  const dark = Number(matchMedia("(prefers-color-scheme: dark)").matches);
  const widths = [dark, innerWidth, root.scrollWidth, place.scrollWidth, place.clientWidth];
  parent.postMessage(widths.join(" "), "*");
});
</script>"#;

/// Shows the page in a frame of some width, and keeps what it says.
const FRAME: &str = r#"<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<style>body { margin: 0; } iframe { display: block; border: 0; width: @WIDTH@px; height: 1800px; }</style>
<script>addEventListener("message", (event) => { document.documentElement.dataset.measured = event.data; });</script>
<iframe src="measured.html"></iframe>"#;

/// A safetensors file whose names, of tensors and groups, keys of metadata and a dtype, have 200 letters.
fn long_names() -> Vec<u8> {
    let word = "abcdefghij".repeat(20);
    let dotted = ["decoder"; 28].join(".");
    let names = [
        word.clone(),
        format!("{word}.weight"),
        format!("{word}.bias"),
        dotted.clone(),
        format!("{dotted}.norm"),
        "short".into(),
    ];
    let mut header = serde_json::Map::new();
    header.insert(
        "__metadata__".into(),
        serde_json::json!({ &word: &dotted, "note": &word }),
    );
    let mut data: Vec<u8> = Vec::new();
    for (at, name) in (1u8..).zip(names) {
        let start = data.len();
        for value in 0..u8::MAX {
            let value = f32::from(value) * f32::from(at) * 1234.5;
            data.extend_from_slice(&value.to_le_bytes());
        }
        let tensor = serde_json::json!({
            "dtype": "F32", "shape": [5, 51], "data_offsets": [start, data.len()],
        });
        header.insert(name, tensor);
    }
    let start = data.len();
    data.extend_from_slice(&[0; 8]);
    let tensor =
        serde_json::json!({ "dtype": &word, "shape": [1], "data_offsets": [start, data.len()] });
    header.insert("unknown".into(), tensor);
    file_of(&header, &data)
}

/// The safetensors file with this header.
fn file_of(header: &serde_json::Map<String, serde_json::Value>, data: &[u8]) -> Vec<u8> {
    let header = serde_json::Value::Object(header.clone()).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(data);
    file
}

/// A safetensors file with the names of a small language model, and values that look like weights.
fn small_model() -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut data = Vec::new();
    let mut noise = 1u32;
    let mut add = |name: String, dims: &[usize]| {
        let start = data.len();
        for _ in 0..dims.iter().product() {
            // The sum of a few bytes of a simple generator is near enough to a normal.
            let mut sum = -510.0f32;
            for _ in 0..4 {
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                sum += f32::from(noise.to_be_bytes()[0]);
            }
            data.extend_from_slice(&(sum / 5000.0).to_le_bytes());
        }
        let tensor = serde_json::json!({
            "dtype": "F32", "shape": dims, "data_offsets": [start, data.len()],
        });
        header.insert(name, tensor);
    };
    add("embed.weight".into(), &[512, 64]);
    for layer in 0..LAYERS {
        for part in ["query", "key", "value", "output"] {
            add(format!("layers.{layer}.attention.{part}.weight"), &[32, 32]);
        }
        for part in ["up", "down"] {
            add(format!("layers.{layer}.mlp.{part}.weight"), &[64, 32]);
            add(format!("layers.{layer}.mlp.{part}.bias"), &[256]);
        }
        for part in ["weight", "bias"] {
            add(format!("layers.{layer}.norm.{part}"), &[256]);
        }
    }
    add(HOSTILE.into(), &[16]);
    file_of(&header, &data)
}
