//! Rows about memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tensorfmt::convert::Target;

use super::{Settings, zeros_file};
use crate::formats::ALL;
use crate::report::{Bar, Row};
use crate::rss;

/// Peak anonymous memory of converting 2 GiB.
pub fn memory(settings: &Settings) -> Vec<Row> {
    let bytes: u64 = if settings.quick { 256 << 20 } else { 2 << 30 };
    let mut rows = Vec::new();
    for count in [1usize, 64] {
        let mut sources: Vec<(&str, PathBuf)> = ALL
            .iter()
            .map(|format| (format.name, zeros_file(settings, format, count, bytes)))
            .collect();
        // No codec writes a set into a stream.
        let folder = settings.folder.join(format!("aeroset-{count}-{bytes}"));
        let set = folder.join("zeros.aeroset.json");
        if !set.exists() {
            fs::create_dir_all(&folder).expect("folder");
            crate::convert(&sources[0].1, &set, Target::AeroSet).expect("convert");
        }
        sources.push(("aeroset", set));
        for (source, from) in &sources {
            let mut most = 0.0f64;
            let mut worst = "";
            let mut all = String::new();
            for target in Target::ALL {
                let folder = settings.folder.join("converted");
                fs::create_dir_all(&folder).expect("folder");
                let to = folder.join(format!("out.{}", target.ending()));
                let output = Command::new(std::env::current_exe().expect("name"))
                    .arg("--convert")
                    .args([from, &to])
                    .arg(target.name())
                    .output()
                    .expect("run");
                assert!(output.status.success(), "{output:?}");
                let peak: f64 = String::from_utf8_lossy(&output.stdout)
                    .trim()
                    .parse()
                    .expect("KiB");
                let peak = peak / 1024.0;
                all += &format!("{} {peak:.0}, ", target.name());
                if peak > most {
                    (most, worst) = (peak, target.name());
                }
                fs::remove_dir_all(&folder).expect("remove");
            }
            rows.push(Row {
                work: format!("peak anonymous memory of converting {} MiB", bytes >> 20),
                format: format!("from {source}, {count} tensors"),
                against: format!("most: to {worst}"),
                bar: Bar::Memory(64.0),
                figure: most,
                ours: format!("MiB to {}", all.trim_end_matches(", ")),
                theirs: String::new(),
            });
        }
    }
    rows
}

/// What a child does: converts, and prints its peak in KiB.
pub fn convert_child(
    from: &Path,
    to: &Path,
    target: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let target = Target::from_name(target).ok_or("no such target")?;
    let peak = rss::Peak::watch();
    crate::convert(from, to, target)?;
    println!("{}", peak.stop());
    Ok(())
}
