//! The pictures at the top of the README: a terminal, and a page in a browser.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use crate::{Outcome, browser};

/// A character's cell in the picture, in pixels.
const CELL: (usize, usize) = (8, 18);
const WIDTH: usize = 104;

/// Writes `docs/terminal.svg` from what the program prints, and `docs/page.png` from what a browser shows.
pub(crate) fn run() -> Outcome {
    let root = test_data::workspace_root();
    let folder = root.join("target/pictures");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for old in fs::read_dir(&folder).into_iter().flatten().flatten() {
        // What can't be deleted is refused below.
        let _ = fs::remove_file(old.path());
    }
    fs::write(folder.join("model.mag"), demo()?)
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    crate::cargo(&["build", "--release", "--package", "tensorfmt-cli"], &[])?;
    let program = root
        .join("target/release")
        .join(format!("tensorfmt{}", std::env::consts::EXE_SUFFIX));
    let mut lines = Vec::new();
    for command in [
        "inspect model.mag",
        "convert model.mag model.safetensors",
        "diff model.mag model.safetensors",
        "stats model.safetensors --filter 'encoder.w*'",
    ] {
        lines.push((true, format!("tensorfmt {command}")));
        let words = command.split(' ').map(|word| word.trim_matches('\''));
        let output = Command::new(&program)
            .args(words)
            .current_dir(&folder)
            .env("NO_COLOR", "1")
            .output()
            .map_err(|error| format!("cannot run {}: {error}", program.display()))?;
        if !output.status.success() {
            return Err(format!("{command}: {}", output.status));
        }
        for stream in [&output.stdout, &output.stderr] {
            let text = String::from_utf8_lossy(stream);
            lines.extend(text.lines().map(|line| (false, line.to_owned())));
        }
    }
    let path = root.join("docs/terminal.svg");
    fs::write(&path, svg(&lines)).map_err(|error| format!("{}: {error}", path.display()))?;
    eprintln!("{}", path.display());
    browser::page_picture(&root.join("docs/page.png"))
}

fn demo() -> Result<Vec<u8>, String> {
    let path = test_data::workspace_root().join("fixtures/mag/valid/demo.mag");
    fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// A terminal with these lines; those that were typed stand after a prompt.
fn svg(lines: &[(bool, String)]) -> String {
    let (width, height) = (WIDTH * CELL.0 + 32, lines.len() * CELL.1 + 56);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, monospace\" \
         font-size=\"13\">\n<rect width=\"{width}\" height=\"{height}\" rx=\"10\" fill=\"#16181c\"/>\n"
    );
    for (at, colour) in ["#ff5f57", "#febc2e", "#28c840"].into_iter().enumerate() {
        let _ = writeln!(
            svg,
            "<circle cx=\"{}\" cy=\"18\" r=\"5\" fill=\"{colour}\"/>",
            20 + at * 18
        );
    }
    for (at, (typed, line)) in lines.iter().enumerate() {
        let y = 52 + at * CELL.1;
        let text = escape(line);
        let _ = match typed {
            true => writeln!(
                svg,
                "<text x=\"16\" y=\"{y}\" xml:space=\"preserve\"><tspan fill=\"#28c840\">$ </tspan>\
                 <tspan fill=\"#ffffff\" font-weight=\"bold\">{text}</tspan></text>"
            ),
            false => writeln!(
                svg,
                "<text x=\"16\" y=\"{y}\" fill=\"#c8ccd4\" xml:space=\"preserve\">{text}</text>"
            ),
        };
    }
    svg.push_str("</svg>\n");
    svg
}

fn escape(text: &str) -> String {
    let cut: String = text.chars().take(WIDTH).collect();
    cut.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_shows_what_was_typed_and_printed() {
        let lines = [(true, "tensorfmt x".into()), (false, "a < b & c".into())];
        let svg = svg(&lines);
        assert!(
            svg.contains(">tensorfmt x<") && svg.contains(">a &lt; b &amp; c<"),
            "{svg}"
        );
        assert_eq!(svg.matches("<text").count(), 2);
    }
}
