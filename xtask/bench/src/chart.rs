//! The rows that most people look for, as a picture.

use std::fmt::Write as _;

use crate::report::{Bar, Row};

/// Part of a row's work, its format, part of whom it is beside, and what the picture calls it.
const SHOWN: &[(&str, &str, &str, &str)] = &[
    (
        "list, 100000 tensors",
        "mag",
        "safetensors",
        "open 100,000 tensors, mag",
    ),
    (
        "list, 100000 tensors",
        "ztensor",
        "safetensors",
        "open 100,000 tensors, zTensor",
    ),
    (
        "list, 100000 tensors",
        "burnpack",
        "safetensors",
        "open 100,000 tensors, burnpack",
    ),
    (
        "list, 100000 tensors",
        "aero",
        "safetensors",
        "open 100,000 tensors, AERO",
    ),
    (
        "list, 100000 tensors",
        "primitiv",
        "safetensors",
        "open 100,000 tensors, primitiv",
    ),
    (
        "list, 100000 tensors",
        "safetensors",
        "safetensors",
        "open 100,000 tensors, safetensors",
    ),
    (
        "all held, 1024 MiB over",
        "safetensors",
        "safetensors",
        "read 1 GiB, safetensors",
    ),
    (
        "all held, 1024 MiB over",
        "ztensor",
        "ztensor 2",
        "read 1 GiB, zTensor",
    ),
    (
        "all held, 1024 MiB over",
        "burnpack",
        "burn-pack",
        "read 1 GiB, burnpack",
    ),
    ("no sync", "ztensor", "ztensor 2", "write 1 GiB, zTensor"),
    ("no sync", "burnpack", "burn-pack", "write 1 GiB, burnpack"),
    (
        "tensorfmt convert, ",
        "to ztensor",
        "cp",
        "convert to zTensor",
    ),
    (
        "tensorfmt convert, ",
        "to burnpack",
        "cp",
        "convert to burnpack",
    ),
    (
        "that changes bytes",
        "casting to bf16",
        "cp",
        "convert, casting to bf16",
    ),
    (
        "that changes bytes",
        "transposing, to primitiv",
        "cp",
        "convert, transposing",
    ),
    ("tensorfmt hash", "safetensors", "BLAKE3", "hash"),
    ("tensorfmt diff", "safetensors", "cmp", "diff"),
    ("tensorfmt diff", "safetensors", "numpy", "diff"),
    (
        "tensorfmt stats",
        "safetensors",
        "NumPy",
        "stats with quantiles",
    ),
    (
        "tensorfmt inspect",
        "safetensors",
        "Python",
        "inspect a million tensors",
    ),
];

/// Where bars start, and how long one of the other's time is.
const LEFT: f64 = 300.0;
const UNIT: f64 = 320.0;
/// Longer bars are cut.
const MOST: f64 = 1.5;
const STEP: usize = 22;

/// Time as a multiple of the other's.
fn time(row: &Row) -> Option<f64> {
    match row.bar {
        Bar::Speed(_) => Some(1.0 / row.figure),
        Bar::Time(_) | Bar::None => Some(row.figure),
        Bar::Extra(_) | Bar::Memory(_) => None,
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// The picture, of those rows that there are.
pub fn svg(rows: &[Row]) -> String {
    let mut bars = String::new();
    let mut y = 56;
    for &(work, format, against, label) in SHOWN {
        let row = rows.iter().find(|row| {
            row.work.contains(work) && row.format == format && row.against.contains(against)
        });
        let Some((row, time)) = row.and_then(|row| Some((row, time(row)?))) else {
            continue;
        };
        let width = time.min(MOST) * UNIT;
        let _ = write!(
            bars,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{LEFT}\" y=\"{y}\" width=\"{width:.1}\" height=\"14\" class=\"bar\"/>\
             <text x=\"{:.1}\" y=\"{}\" class=\"small\">{time:.2} of {}</text>\n",
            LEFT - 8.0,
            y + 11,
            escaped(label),
            LEFT + width + 6.0,
            y + 11,
            escaped(&row.against),
        );
        y += STEP;
    }
    let one = LEFT + UNIT;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1000 {height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<style>text{{fill:#222}}.small{{font-size:11px;fill:#555}}.bar{{fill:#3b76c4}}\
         .one{{stroke:#c43b3b}}.back{{fill:#fff}}@media(prefers-color-scheme:dark){{text{{fill:#ddd}}\
         .small{{fill:#aaa}}.bar{{fill:#5b96e4}}.back{{fill:#111}}}}</style>\n\
         <rect width=\"1000\" height=\"{height}\" class=\"back\"/>\n\
         <text x=\"16\" y=\"24\" font-size=\"16\">Time of tensorfmt as a part of the other's: shorter is faster</text>\n\
         <line x1=\"{one}\" x2=\"{one}\" y1=\"36\" y2=\"{y}\" class=\"one\"/>\
         <text x=\"{one}\" y=\"48\" text-anchor=\"middle\" class=\"small\">as long as the other</text>\n\
         {bars}</svg>\n",
        height = y + 16,
    )
}
