//! Rows about what people type, each a process of its own.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::{env, fs};

use tensor_core::{DType, Shape, Source, SourceError, TensorSpec};
use tensorfmt::safetensors::Builder;

use super::{Settings, find, no_sync, small_file};
use crate::formats::safetensors;
use crate::raw;
use crate::report::{Bar, Row};
use crate::time::{Contender, race};

/// The dims of a tensor of 16 MiB.
const DIMS: [u64; 2] = [1024, 4096];

/// What else is transposed: long and thin, many dims, a kernel of a convolution, words of a vocabulary.
const SHAPES: [&[u64]; 11] = [
    &[4096, 1024],
    &[65_536, 64],
    &[64, 65_536],
    &[3, 10_000_000],
    &[10_000_000, 3],
    &[64, 512, 512],
    &[512, 64, 512],
    &[16, 32, 128, 256],
    &[256, 128, 32, 16],
    &[512, 512, 3, 3],
    &[50_257, 768],
];

/// What Python does for `stats`: the same figures of each tensor, from a map.
const STATS: &str = r#"
import json, mmap, sys
import numpy as np
with open(sys.argv[1], "rb") as f:
    m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
n = int.from_bytes(m[:8], "little")
for name, t in json.loads(m[8:8 + n]).items():
    if name == "__metadata__":
        continue
    a, b = t["data_offsets"]
    v = np.frombuffer(m, "<f4", (b - a) // 4, 8 + n + a)
    finite = v[np.isfinite(v)]
    w = finite.astype("f8")
    print(name, v.size, finite.min(), finite.max(), w.mean(), w.std(), (v == 0).sum(), np.isnan(v).sum(),
          np.isinf(v).sum(), np.quantile(finite, [0.01, 0.25, 0.5, 0.75, 0.99]))
"#;

/// What Python does for `diff`: whether the arrays of two maps are equal.
const DIFF: &str = r#"
import json, mmap, sys
import numpy as np
def arrays(path):
    with open(path, "rb") as f:
        m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    n = int.from_bytes(m[:8], "little")
    for name, t in json.loads(m[8:8 + n]).items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            yield name, np.frombuffer(m, "<f4", (b - a) // 4, 8 + n + a).reshape(t["shape"])
theirs = dict(arrays(sys.argv[2]))
assert all(np.array_equal(a, theirs[name], equal_nan=True) for name, a in arrays(sys.argv[1]))
"#;

const INSPECT: &str = r#"
import sys
from safetensors import safe_open
with safe_open(sys.argv[1], framework="np") as f:
    for name in f.keys():
        s = f.get_slice(name)
        print(name, s.get_dtype(), s.get_shape())
"#;

const EXTRACT: &str = r#"
import sys
import numpy as np
from safetensors import safe_open
with safe_open(sys.argv[1], framework="np") as f:
    np.save(sys.argv[3], f.get_tensor(sys.argv[2]))
"#;

/// Values between 1 and 2 that no compressor makes cheap, made when they are asked for.
struct Values {
    len: u64,
    seed: u64,
}

impl Source for Values {
    fn size(&self) -> u64 {
        self.len
    }

    fn read_into(&self, offset: u64, out: &mut [u8]) -> Result<(), SourceError> {
        assert_eq!(offset % 4, 0, "windows start at an element");
        for (at, bytes) in (offset / 4..).zip(out.chunks_mut(4)) {
            let mut bits = (at ^ self.seed << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            bits = (bits ^ bits >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let value = 0x3F80_0000 | (bits >> 41) as u32;
            bytes.copy_from_slice(&value.to_le_bytes()[..bytes.len()]);
        }
        Ok(())
    }
}

fn model(settings: &Settings, bytes: u64, copy: &str) -> PathBuf {
    shaped(settings, bytes, &DIMS, copy)
}

/// As many tensors of these dims as `bytes` have room for, one at least.
fn shaped(settings: &Settings, bytes: u64, dims: &[u64], copy: &str) -> PathBuf {
    let each = dims.iter().product::<u64>() * 4;
    let name = format!("values-{bytes}-{}{copy}.safetensors", times(dims));
    settings.file(&name, |path| {
        let mut builder = Builder::new();
        let spec = TensorSpec::new(DType::F32, Shape::new(dims).expect("shape"));
        for seed in 0..(bytes / each).max(1) {
            let name = format!("model.layers.{seed}.mlp.weight");
            let values: Arc<dyn Source> = Arc::new(Values { len: each, seed });
            builder
                .deferred(name, spec.clone(), values)
                .expect("tensor");
        }
        builder.write_file_with(path, &no_sync()).expect("write");
    })
}

/// Dims as people write them.
fn times(dims: &[u64]) -> String {
    let dims: Vec<String> = dims.iter().map(u64::to_string).collect();
    dims.join("x")
}

/// What a process is given: arguments, paths among them.
fn arguments(text: &str, paths: &[&Path]) -> Vec<String> {
    let mut paths = paths.iter();
    text.split(' ')
        .map(|word| match word {
            "@" => paths.next().expect("a path").display().to_string(),
            word => word.to_owned(),
        })
        .collect()
}

/// A process that leaves a file, which isn't there before.
fn process(
    name: &str,
    program: PathBuf,
    arguments: Vec<String>,
    out: Option<PathBuf>,
) -> Contender<'static> {
    let before = move || {
        if let Some(out) = &out {
            let _ = fs::remove_file(out);
        }
    };
    let run = move || {
        let output = Command::new(&program)
            .args(&arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .output()
            .expect("run");
        assert!(
            output.status.success(),
            "{program:?} {arguments:?}: {output:?}"
        );
    };
    Contender::new(name, run).before(before)
}

/// What the rows need beside this program.
struct Programs {
    ours: PathBuf,
    /// With NumPy and safetensors.
    python: Option<PathBuf>,
}

impl Programs {
    /// Of the environment, which the task sets.
    fn new() -> Option<Self> {
        let path = |key: &str| env::var_os(key).map(PathBuf::from);
        Some(Self {
            ours: path("TENSORFMT_PROGRAM")?,
            python: path("TENSORFMT_PYTHON").filter(|python| python.exists()),
        })
    }

    fn ours(&self, text: &str, paths: &[&Path], out: Option<&Path>) -> Contender<'static> {
        let arguments = arguments(text, paths);
        process(
            "tensorfmt",
            self.ours.clone(),
            arguments,
            out.map(Path::to_path_buf),
        )
    }

    fn python(&self, name: &str, code: &str, arguments: &[&str]) -> Option<Contender<'static>> {
        let mut all = vec!["-c".to_owned(), code.to_owned()];
        all.extend(arguments.iter().map(|&argument| argument.to_owned()));
        Some(process(name, self.python.clone()?, all, None))
    }
}

fn shell(name: &str, code: &str, paths: &[&Path], out: Option<&Path>) -> Contender<'static> {
    let mut all = vec!["-c".to_owned(), code.to_owned(), "sh".to_owned()];
    all.extend(paths.iter().map(|path| path.display().to_string()));
    process(name, "/bin/sh".into(), all, out.map(Path::to_path_buf))
}

pub fn verbs(settings: &Settings) -> Vec<Row> {
    let Some(programs) = Programs::new() else {
        eprintln!("bench: no rows of the verbs, TENSORFMT_PROGRAM names no program");
        return Vec::new();
    };
    if programs.python.is_none() {
        eprintln!("bench: nothing beside Python, TENSORFMT_PYTHON names none");
    }
    let mut rows = convert(settings, &programs);
    rows.extend(change(settings, &programs));
    rows.extend(transpose(settings, &programs));
    rows.extend(digests(settings, &programs));
    rows.extend(values(settings, &programs));
    rows.extend(look(settings, &programs));
    rows
}

fn mebibytes(settings: &Settings, full: u64) -> u64 {
    if settings.quick { full / 16 } else { full }
}

/// A copy that is on the disk when it ends.
fn copy(settings: &Settings, input: &Path) -> Contender<'static> {
    let out = settings.folder.join("verbs-copy");
    shell(
        "cp and a sync",
        "cp \"$1\" \"$2\" && sync \"$2\"",
        &[input, &out],
        Some(&out),
    )
}

fn convert(settings: &Settings, programs: &Programs) -> Vec<Row> {
    let mebibytes = mebibytes(settings, 4096);
    let input = model(settings, mebibytes << 20, "");
    let mut rows = Vec::new();
    let work = format!("tensorfmt convert, {mebibytes} MiB of safetensors, durable");
    for (name, ending) in [
        ("ztensor", "zt"),
        ("burnpack", "bpk"),
        ("aero", "aero"),
        ("mag", "mag"),
        ("safetensors", "safetensors"),
    ] {
        let out = settings.folder.join(format!("verbs-out.{ending}"));
        let ours = programs.ours("convert @ @", &[&input, &out], Some(&out));
        let times = race(settings.rounds(3), vec![ours, copy(settings, &input)]);
        rows.push(Row::new(
            &work,
            &format!("to {name}"),
            Bar::Speed(0.85),
            &times[0],
            &times[1],
        ));
        let _ = fs::remove_file(out);
        let _ = fs::remove_file(settings.folder.join("verbs-copy"));
    }
    rows
}

/// Conversions that change the bytes.
fn change(settings: &Settings, programs: &Programs) -> Vec<Row> {
    let mebibytes = mebibytes(settings, 1024);
    let input = model(settings, mebibytes << 20, "");
    let mut rows = Vec::new();
    let work =
        format!("tensorfmt convert that changes bytes, {mebibytes} MiB of safetensors, durable");
    let ways = [
        (
            "transposing, to primitiv",
            "convert @ @",
            "model",
            Bar::Time(2.0),
        ),
        (
            "casting to bf16",
            "convert @ @ --cast bf16",
            "safetensors",
            Bar::Time(2.0),
        ),
        (
            "casting to f16",
            "convert @ @ --cast f16",
            "safetensors",
            Bar::Time(2.0),
        ),
        (
            "compressing, to ztensor",
            "convert @ @ --zstd",
            "zt",
            Bar::None,
        ),
    ];
    for (name, text, ending, bar) in ways {
        let out = settings.folder.join(format!("verbs-changed.{ending}"));
        let ours = programs.ours(text, &[&input, &out], Some(&out));
        let times = race(settings.rounds(3), vec![ours, copy(settings, &input)]);
        rows.push(Row::new(&work, name, bar, &times[0], &times[1]));
        let _ = fs::remove_file(out);
    }
    let _ = fs::remove_file(settings.folder.join("verbs-copy"));
    rows
}

/// Transpositions of tensors of other shapes.
fn transpose(settings: &Settings, programs: &Programs) -> Vec<Row> {
    let mebibytes = mebibytes(settings, 1024);
    let work = format!("tensorfmt convert to primitiv, {mebibytes} MiB of one shape, durable");
    let mut rows = Vec::new();
    for dims in SHAPES {
        let input = shaped(settings, mebibytes << 20, dims, "");
        let out = settings.folder.join("verbs-changed.model");
        let ours = programs.ours("convert @ @", &[&input, &out], Some(&out));
        let took = race(settings.rounds(3), vec![ours, copy(settings, &input)]);
        let name = times(dims);
        rows.push(Row::new(&work, &name, Bar::Time(2.0), &took[0], &took[1]));
        for file in [&out, &input, &settings.folder.join("verbs-copy")] {
            let _ = fs::remove_file(file);
        }
    }
    rows
}

fn digests(settings: &Settings, programs: &Programs) -> Vec<Row> {
    let mebibytes = mebibytes(settings, 4096);
    let input = model(settings, mebibytes << 20, "");
    let whole = {
        let input = input.clone();
        move || {
            let file = fs::File::open(&input).expect("open");
            // SAFETY: nothing writes to the file while it is mapped.
            let map = unsafe { memmap2::Mmap::map(&file) }.expect("map");
            black_box(raw::blake3_map(&map));
        }
    };
    let contenders = vec![
        programs.ours("hash @", &[&input], None),
        Contender::new("BLAKE3 of the file, all threads, mapped", whole),
    ];
    let times = race(settings.rounds(3), contenders);
    let work = format!("tensorfmt hash, {mebibytes} MiB of safetensors");
    vec![Row::new(
        &work,
        "safetensors",
        Bar::Speed(0.9),
        &times[0],
        &times[1],
    )]
}

fn values(settings: &Settings, programs: &Programs) -> Vec<Row> {
    let mebibytes = mebibytes(settings, 1024);
    let (a, b) = (
        model(settings, mebibytes << 20, ""),
        model(settings, mebibytes << 20, "-b"),
    );
    let (a_text, b_text) = (a.display().to_string(), b.display().to_string());
    let mut rows = Vec::new();

    let mut contenders = vec![
        programs.ours("diff @ @", &[&a, &b], None),
        shell("cmp", "cmp \"$1\" \"$2\"", &[&a, &b], None),
    ];
    contenders.extend(programs.python("numpy.array_equal, mapped", DIFF, &[&a_text, &b_text]));
    let times = race(settings.rounds(9), contenders);
    let work = format!("tensorfmt diff, two equal files of {mebibytes} MiB");
    for other in &times[1..] {
        let bar = if other.name == "cmp" {
            Bar::Speed(1.0)
        } else {
            Bar::Speed(2.0)
        };
        rows.push(Row::new(&work, "safetensors", bar, &times[0], other));
    }

    let mut contenders = vec![programs.ours("stats @", &[&a], None)];
    contenders.extend(programs.python("NumPy, the same figures, mapped", STATS, &[&a_text]));
    let times = race(settings.rounds(3), contenders);
    let work = format!("tensorfmt stats with quantiles, {mebibytes} MiB of f32");
    for other in &times[1..] {
        rows.push(Row::new(
            &work,
            "safetensors",
            Bar::Speed(2.0),
            &times[0],
            other,
        ));
    }
    rows
}

fn look(settings: &Settings, programs: &Programs) -> Vec<Row> {
    let count = if settings.quick { 100_000 } else { 1_000_000 };
    let many = small_file(settings, &safetensors::FORMAT, count);
    let one = model(settings, mebibytes(settings, 1024) << 20, "");
    let out = settings.folder.join("verbs-one.npy");
    let name = "model.layers.3.mlp.weight";
    let (many_text, one_text, out_text) = (
        many.display().to_string(),
        one.display().to_string(),
        out.display().to_string(),
    );
    let races = [
        (
            format!("tensorfmt inspect, {count} tensors"),
            programs.ours("inspect @", &[&many], None),
            programs.python("Python safetensors", INSPECT, &[&many_text]),
        ),
        (
            "tensorfmt extract, one tensor of 16 MiB as .npy".to_owned(),
            programs.ours(
                &format!("extract @ {name} -o @ --force"),
                &[&one, &out],
                Some(&out),
            ),
            programs.python(
                "Python safetensors and NumPy",
                EXTRACT,
                &[&one_text, name, &out_text],
            ),
        ),
    ];
    let mut rows = Vec::new();
    for (work, ours, theirs) in races {
        let Some(theirs) = theirs else { continue };
        let other = theirs.name.clone();
        let times = race(settings.rounds(9), vec![ours, theirs]);
        rows.push(Row::new(
            &work,
            "safetensors",
            Bar::Speed(1.0),
            &times[0],
            find(&times, &other),
        ));
    }
    let _ = fs::remove_file(out);
    rows
}
