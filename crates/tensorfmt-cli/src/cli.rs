use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tensorfmt::Part;

/// Inspect, verify, hash and convert tensor files.
///
/// Exit codes: 0 done; 1 the file is invalid, a checksum failed, or two files differ; 2 usage;
/// 3 input or output failed; 4 well-formed, but unsupported.
#[derive(Debug, Parser)]
#[command(
    name = "tensorfmt",
    version,
    propagate_version = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What every verb understands.
#[derive(Args, Debug)]
pub(crate) struct Common {
    /// Colour in the output; `auto` means on a terminal, and not if NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
    /// No progress, no losses: only answers and errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// How many threads to use; 0 means all, 1 reads files in rising order
    #[arg(long, global = true, value_name = "N", default_value_t = 0)]
    pub(crate) threads: usize,
    /// Raise or lower a limit that the reader has for files, as the error of a file beyond it says; may
    /// be repeated
    #[arg(long, global = true, value_name = "NAME=VALUE")]
    pub(crate) limit: Vec<String>,
    /// Go to the addresses over http(s) that a set names, at the server of an address given here; with
    /// =ORIGIN, such as =https://host, also at that server, and where it is redirected to; may be repeated
    #[arg(
        long,
        global = true,
        value_name = "ORIGIN",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    pub(crate) remote: Vec<String>,
    /// Of a program that runs the verb.
    #[arg(skip)]
    #[cfg_attr(
        not(feature = "remote"),
        allow(dead_code, reason = "nothing is elsewhere")
    )]
    pub(crate) settings: crate::Settings,
    /// What addresses share.
    #[cfg(feature = "remote")]
    #[arg(skip)]
    pub(crate) session: crate::remote::Session,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

impl Common {
    /// Whether standard output gets colour.
    pub(crate) fn colored(&self) -> bool {
        use std::io::IsTerminal;
        match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                    && std::io::stdout().is_terminal()
            }
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List what is in a file
    Inspect(Inspect),
    /// Check everything that can be checked: structure, checksums, decompression
    Verify(Verify),
    /// Print a digest of each tensor's decoded bytes
    Hash(Hash),
    /// Convert between formats, saying every loss
    Convert(Box<Convert>),
    /// Join the parts of a set that were written alone, or reports about parts of a file
    Join(Join),
    /// Compare two files, whatever their formats and orders
    Diff(Diff),
    /// Print what the values of each tensor are like
    Stats(Stats),
    /// Write tensors, or rows of them, as .npy, as .npz or as their bytes
    Extract(Extract),
    /// Print what each format can hold
    Formats(Formats),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Write manual pages to a folder
    Man(Man),
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tensorfmt inspect model.mag\n  \
    tensorfmt inspect --filter 'encoder.*' --json model.mag\n  \
    tensorfmt inspect --sort size model.mag\n  \
    tensorfmt inspect --tree --depth 2 model.mag\n  \
    tensorfmt inspect --markdown model.mag > model.md\n  \
    tensorfmt inspect --html model.html model.mag\n  \
    tensorfmt inspect --tied model.mag\n  \
    tensorfmt inspect a.mag b.safetensors\n  \
    tensorfmt inspect .\n  \
    tensorfmt inspect - < model.mag")]
pub(crate) struct Inspect {
    /// The files; - for standard input, a folder for the files of known formats in it
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Print one JSON document
    #[arg(long, group = "form")]
    pub(crate) json: bool,
    /// Print the names as a tree, parted at their dots, with the size of each group
    #[arg(long, group = "form")]
    pub(crate) tree: bool,
    /// Print no more than this many levels of the tree
    #[arg(long, value_name = "N", requires = "tree", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) depth: Option<u32>,
    /// Print a Markdown document
    #[arg(long, group = "form")]
    pub(crate) markdown: bool,
    /// Write one HTML page that needs no network: a map of the sizes, a table to sort and filter,
    /// a histogram per tensor
    #[arg(long, value_name = "OUT", group = "form")]
    pub(crate) html: Option<PathBuf>,
    /// Leave the values unread: no histograms
    #[arg(long, requires = "html")]
    pub(crate) no_stats: bool,
    /// Overwrite the page
    #[arg(long, requires = "html")]
    pub(crate) force: bool,
    /// List the chunks of an AERO file as well; `--json` always does
    #[arg(long, conflicts_with_all = ["tree", "markdown", "html"])]
    pub(crate) chunks: bool,
    /// Name the tensors that share their bytes in the file; `hash --tied` goes by content
    #[arg(long, conflicts_with_all = ["tree", "markdown", "html", "chunks"])]
    pub(crate) tied: bool,
    /// List only tensors whose name matches, a glob or re:REGEX; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) filter: Vec<String>,
    /// Leave out tensors whose name matches; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// Let a pattern match nothing
    #[arg(long)]
    pub(crate) allow_empty: bool,
    /// List by size, the largest first, or by name, layer 2 before layer 10, instead of in the file's order
    #[arg(long, value_name = "BY", conflicts_with_all = ["tree", "html", "tied"])]
    pub(crate) sort: Option<Sort>,
}

/// What a listing is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    Name,
    Size,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tensorfmt verify model.mag\n  \
    tensorfmt verify --strict --json a.mag b.safetensors\n  \
    tensorfmt verify -q .\n  \
    tensorfmt verify --part 1/2 --json model.mag > first.json\n  \
    tensorfmt verify --part 2/2 --json model.mag > second.json")]
pub(crate) struct Verify {
    /// The files; - for standard input, a folder for the files of known formats in it
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// Also fail on what readers tolerate, but no careful writer leaves behind
    #[arg(long)]
    pub(crate) strict: bool,
    /// Make the checks of part I of N alone, of the one file; `join --reports` adds up the reports of all
    #[arg(long, value_name = "I/N", value_parser = part, requires = "json")]
    pub(crate) part: Option<Part>,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Checksums are not compared; `tensorfmt verify` does that. A digest is of the elements in \
    their stored order: a column-major format (primitiv) and a row-major one give the same tensor \
    different digests; `tensorfmt diff` compares values.\n\n\
    The last line is the digest of the model, which is the same in every format and order: that of a \
    record for each tensor, sorted by name, of name, dtype, dims and digest of the values row by row, \
    each as its length in bytes, a colon, the text and a comma, as in 1:w,3:f32,3:2,3,64:<hex>,. Sites \
    show the first digits of autov3.\n\nExamples:\n  \
    tensorfmt hash model.mag\n  \
    tensorfmt hash --filter 'encoder.*' model.mag\n  \
    tensorfmt hash model.mag > model.b3\n  \
    tensorfmt hash --check model.b3 model.mag\n  \
    tensorfmt hash --algorithm autov3 b.safetensors\n  \
    tensorfmt hash --algorithm sha256 --json model.mag\n  \
    tensorfmt hash a.mag b.safetensors"
)]
pub(crate) struct Hash {
    /// The files; - for standard input, a folder for the files of known formats in it
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Which digest: blake3 unless another one is named
    #[arg(long, value_name = "NAME")]
    pub(crate) algorithm: Option<Algorithm>,
    /// Only tensors whose name matches, a glob or re:REGEX; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) filter: Vec<String>,
    /// Leave out tensors whose name matches; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// Let a pattern match nothing
    #[arg(long)]
    pub(crate) allow_empty: bool,
    /// Check digests that were printed earlier, as text or as JSON: says what differs, is missing or is
    /// surplus
    #[arg(long, value_name = "LIST")]
    pub(crate) check: Option<PathBuf>,
    /// Name the tensors that hold the same: dtype, dims and values
    #[arg(long, conflicts_with = "check")]
    pub(crate) tied: bool,
    /// Only the tensors of part I of N, of the one file; `join --reports` adds up the reports of all
    #[arg(long, value_name = "I/N", value_parser = part, requires = "json", conflicts_with = "check")]
    pub(crate) part: Option<Part>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// A digest of a tensor's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Algorithm {
    Blake3,
    Sha256,
    Crc32c,
    /// SHA-256 of all that follows the header of a safetensors file, as model sites show it
    Autov3,
}

impl Algorithm {
    /// The name in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Blake3 => "blake3",
            Self::Sha256 => "sha256",
            Self::Crc32c => "crc32c",
            Self::Autov3 => "autov3",
        }
    }
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tensorfmt convert model.mag model.safetensors\n  \
    tensorfmt convert model.safetensors model.mag --cast f32 --force\n  \
    tensorfmt convert model.mag layer.mag --filter 'encoder.*' --rename 's/^encoder\\.//' --force\n  \
    tensorfmt convert model.mag renamed.mag --rename 's/(\\w+)\\.(\\w+)/${2}_of_$1/' --force\n  \
    tensorfmt convert model.mag dashes.mag --rename 's/\\./-/g' --force\n  \
    tensorfmt convert model.mag noted.mag --set-metadata steps=12 --set-text commit=007 --force\n  \
    tensorfmt convert model.mag - --to safetensors > model.safetensors\n  \
    tensorfmt convert model.mag half.mag --cast f16 --keep '*.bias' --force\n  \
    tensorfmt convert model.mag mixed.mag --cast 'encoder.*=f16' --force\n  \
    tensorfmt convert model.mag turned.mag --transpose encoder.weight --force\n  \
    tensorfmt convert a.mag b.safetensors both.mag --on-duplicate same --force\n  \
    tensorfmt convert model.mag whole.aeroset.json --part 1/2\n  \
    tensorfmt convert model.mag whole.aeroset.json --part 2/2\n\n\
    Patterns are about the names that the input has: the name of a tensor, or re:REGEX, or a glob, in \
    which *, ?, [abc], [!a-c] and {a,b} mean something, and dots and slashes don't.\n\n\
    Several inputs are merged. A name that two of them have is an error, and so is a metadata key \
    whose values differ, unless --on-duplicate takes those of the first or the last input, or one of \
    those that are the same.\n\n\
    --rename s/REGEX/REPLACEMENT/FLAGS: any other character may stand for the slash, and \\/ is one in \
    the text. In the replacement, $1 or ${1} is a group, $name or ${name} a named one, $0 all that \
    matched, $$ a dollar, \\& an ampersand, \\\\ a backslash; write ${1}_x, since $1_x is a group called \
    1_x. Flags: g replaces all places in a name, i ignores case.\n\n\
    --set-metadata KEY=VALUE: a number if VALUE is one that prints back the same (12, -0.5, but not \
    007, 1e5 or nan), true or false, else text; KEY=@FILE is the text of a file. --set-text is always \
    text.")]
pub(crate) struct Convert {
    /// The file to read, - for standard input; several are merged
    #[arg(required = true, value_name = "INPUT")]
    pub(crate) inputs: Vec<PathBuf>,
    /// The file to write, whose ending names the format; - for standard output, with --to
    pub(crate) output: PathBuf,
    /// The format to write, whatever the ending: mag, ztensor, burnpack, aero, aeroset, primitiv
    /// or safetensors; burnpack-0.20, -0.21 and -0.22 for those releases of Burn
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<String>,
    /// Convert only tensors whose name matches, a glob or re:REGEX; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) filter: Vec<String>,
    /// Leave out tensors whose name matches; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// Rename tensors, as s/REGEX/REPLACEMENT/, described below; may be repeated
    #[arg(long, value_name = "s/RE/REPL/")]
    pub(crate) rename: Vec<String>,
    /// Rename tensors by a file with lines of OLD, a tab and NEW, or a JSON object, all at once, so that
    /// names can be swapped; before --rename
    #[arg(long, value_name = "FILE")]
    pub(crate) rename_table: Option<PathBuf>,
    /// Set a metadata entry: a number, true, false, or text; of a file's text as KEY=@FILE
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set_metadata: Vec<String>,
    /// Set a metadata entry to a text, whatever it looks like
    #[arg(long, value_name = "KEY=TEXT")]
    pub(crate) set_text: Vec<String>,
    /// Drop metadata whose key matches; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) drop_metadata: Vec<String>,
    /// Sort the tensors by name, layer 2 before layer 10
    #[arg(long)]
    pub(crate) sort: bool,
    /// Cast floats, and what the target can't hold, to this dtype, such as f32, bf16 or i32; with a
    /// pattern only tensors whose name matches, the last of several that match; may be repeated
    #[arg(long, value_name = "[GLOB=]DTYPE")]
    pub(crate) cast: Vec<String>,
    /// Cast none of the tensors whose name matches; may be repeated
    #[arg(long, value_name = "GLOB", requires = "cast")]
    pub(crate) keep: Vec<String>,
    /// Swap the two dims of tensors whose name matches; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) transpose: Vec<String>,
    /// What to take where several inputs have a tensor or a metadata key
    #[arg(long, value_name = "WHICH")]
    pub(crate) on_duplicate: Option<OnDuplicateArg>,
    /// How to go between row-major and column-major formats
    #[arg(long, value_name = "HOW", default_value = "keep-dims")]
    pub(crate) layout: LayoutArg,
    /// Leave out tensors that the target can't hold
    #[arg(long)]
    pub(crate) skip_unsupported: bool,
    /// Write a scalar as one dim of 1 where the target has no scalars
    #[arg(long)]
    pub(crate) promote_scalars: bool,
    /// Compress with zstd, at this level if one is given (to ztensor: the data; to aero: the
    /// metadata)
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, default_missing_value = "0", allow_negative_numbers = true)]
    pub(crate) zstd: Option<i32>,
    /// Which checksum every tensor gets (to ztensor)
    #[arg(long, value_name = "NAME")]
    pub(crate) checksum: Option<ChecksumArg>,
    /// How many bytes fill a shard, such as 5GB or 512MiB (to aero, to sets)
    #[arg(
        long = "max-shard-size",
        alias = "max-shard-bytes",
        value_name = "SIZE",
        value_parser = crate::size::some_bytes
    )]
    pub(crate) max_shard_bytes: Option<u64>,
    /// Write a set in N parts, a file each, of as many bytes as can be (to sets)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with_all = ["part", "in_place"])]
    pub(crate) parts: Option<u32>,
    /// Write part I of these N alone; when all are written, by whoever, `join` makes them the set
    #[arg(long, value_name = "I/N", value_parser = part, conflicts_with_all = ["in_place", "remove_leftovers"])]
    pub(crate) part: Option<Part>,
    /// Write the part only if this is the fingerprint of the plan, which --dry-run prints: what all parts of a
    /// set share
    #[arg(long, value_name = "DIGEST", requires = "part")]
    pub(crate) fingerprint: Option<String>,
    /// Say what would be lost and written, parts included, and write nothing; the data isn't checked
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How many shards a part has (to aeroset)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_part_shards: Option<u32>,
    /// Put a hash of every tensor into the index (to aero)
    #[arg(long)]
    pub(crate) tensor_hash: bool,
    /// Cover header, TOC and string table by a hash (to aero)
    #[arg(long)]
    pub(crate) ihsh: bool,
    /// Hash every page, of 4MiB unless another size is given (to aero)
    #[arg(long, value_name = "SIZE", value_parser = crate::size::bytes, num_args = 0..=1, default_missing_value = "4194304")]
    pub(crate) phsh: Option<u64>,
    /// Start shards on a page (to aero)
    #[arg(long)]
    pub(crate) page_align: bool,
    /// Read what is whole of a damaged AERO file
    #[arg(long)]
    pub(crate) salvage: bool,
    /// Convert without checking the input's checksums first, and what fails them too
    #[arg(long)]
    pub(crate) no_verify: bool,
    /// Also convert the statistics that optimizers keep (primitiv)
    #[arg(long)]
    pub(crate) with_stats: bool,
    /// Keep names whole instead of splitting them at dots (to primitiv)
    #[arg(long)]
    pub(crate) whole_names: bool,
    /// Refuse any loss of the model, and options that change nothing
    #[arg(long)]
    pub(crate) strict: bool,
    /// Let patterns match nothing, and write a file without tensors
    #[arg(long)]
    pub(crate) allow_empty: bool,
    /// Overwrite the output
    #[arg(long)]
    pub(crate) force: bool,
    /// Delete what killed runs left in the output's folder
    #[arg(long)]
    pub(crate) remove_leftovers: bool,
    /// Print losses and notes as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// Write into the output itself instead of a temporary file that replaces it; what fails leaves it
    /// unfinished. Of the input itself the index alone is written where names and metadata change and a crash
    /// at any point leaves it readable; else it is replaced when the new file is complete
    #[arg(long)]
    pub(crate) in_place: bool,
}

/// What to take of tensors that several inputs have.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum OnDuplicateArg {
    /// What the first input has
    First,
    /// What the last input has
    Last,
    /// One of them if all are the same, else an error
    Same,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Of a set, all parts are looked for beside it. The file that the set is opened by appears \
    last, when all of them are there, as they were written, and of one input and one set of options; what \
    is missing, changed or of another plan is named, and nothing is written.\n\n\
    Reports are those of verify, hash or stats with --part I/N --json. What is printed is what the verb \
    prints with --json of the whole file on one machine, and so is the exit code.\n\nExamples:\n  \
    tensorfmt join whole.aeroset.json\n  \
    tensorfmt join --reports first.json second.json"
)]
pub(crate) struct Join {
    /// The set, as convert --part was given it
    #[arg(required_unless_present = "reports", value_name = "SET")]
    pub(crate) set: Option<PathBuf>,
    /// Add up these reports about parts of one file, in any order
    #[arg(long, value_name = "REPORT", num_args = 1.., conflicts_with_all = ["set", "force", "fingerprint", "remove_leftovers", "json"])]
    pub(crate) reports: Vec<PathBuf>,
    /// Replace a set that is there, and delete parts of other plans
    #[arg(long)]
    pub(crate) force: bool,
    /// Join the parts of the plan with this fingerprint alone, which convert --dry-run prints
    #[arg(long, value_name = "DIGEST")]
    pub(crate) fingerprint: Option<String>,
    /// Delete what killed runs left in the folder of the set; no part may be being written
    #[arg(long)]
    pub(crate) remove_leftovers: bool,
    /// Print what was joined as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Without a tolerance bits decide: 0.0 and -0.0 differ. With one, numbers are held \
    against it as numpy.isclose(A, B, equal_nan=True) does, integers exactly. Between files of two \
    formats only the tensors decide; formats hold different metadata. The last line says what \
    counted. Patterns are held against the names before and after --rename, in both files. A mean \
    difference is over all values of a tensor, a maximum over those that differ.\n\nExamples:\n  \
    tensorfmt diff a.mag b.safetensors\n  \
    tensorfmt diff --rtol 1e-3 --json a.mag b.safetensors\n  \
    tensorfmt diff --values --rtol 1e-2 model.mag half.mag --tensors-only\n  \
    tensorfmt diff a.mag b.safetensors --rename 's/^encoder\\.//' --filter 'encoder.*'"
)]
pub(crate) struct Diff {
    /// The one file; - for standard input
    pub(crate) a: PathBuf,
    /// The other file
    pub(crate) b: PathBuf,
    /// Values may differ by this much; 0 if only --rtol is given
    #[arg(long, value_name = "X")]
    pub(crate) atol: Option<f64>,
    /// Values may differ by this fraction of the one in the other file; 0 if only --atol is given
    #[arg(long, value_name = "X")]
    pub(crate) rtol: Option<f64>,
    /// Compare tensors of different dtypes by their values, as numbers and exactly; without a tolerance only
    /// equal numbers are the same
    #[arg(long)]
    pub(crate) values: bool,
    /// Compare only tensors whose name matches, a glob or re:REGEX; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) filter: Vec<String>,
    /// Leave out tensors whose name matches; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// Compare under other names in both files, as s/REGEX/REPLACEMENT/; may be repeated
    #[arg(long, value_name = "s/RE/REPL/")]
    pub(crate) rename: Vec<String>,
    /// Let patterns match nothing
    #[arg(long)]
    pub(crate) allow_empty: bool,
    /// List differences of metadata, but don't count them
    #[arg(long)]
    pub(crate) tensors_only: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Checksums are not compared; `tensorfmt verify` does that.\n\nExamples:\n  \
    tensorfmt stats model.mag\n  \
    tensorfmt stats --filter 'encoder.*' --json model.mag\n  \
    tensorfmt stats a.mag b.safetensors\n  \
    tensorfmt stats --fail-on nan,inf,zero model.mag"
)]
pub(crate) struct Stats {
    /// The files; - for standard input, a folder for the files of known formats in it
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Only tensors whose name matches, a glob or re:REGEX; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) filter: Vec<String>,
    /// Leave out tensors whose name matches; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) exclude: Vec<String>,
    /// Let a pattern match nothing
    #[arg(long)]
    pub(crate) allow_empty: bool,
    /// Exit with 1 where a tensor has a NaN or an infinity, or where all its values are zero or equal, and
    /// list only such tensors
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    pub(crate) fail_on: Vec<FailOn>,
    /// Only the tensors of part I of N, of the one file; `join --reports` adds up the reports of all
    #[arg(long, value_name = "I/N", value_parser = part, requires = "json")]
    pub(crate) part: Option<Part>,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a tensor must not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// A NaN
    Nan,
    /// An infinity
    Inf,
    /// All values are zero
    Zero,
    /// All of several values are equal
    Equal,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Checksums are not compared; `tensorfmt verify` does that.\n\nExamples:\n  \
    tensorfmt extract model.mag encoder.weight -o weight.npy\n  \
    tensorfmt extract model.mag encoder.bias -o bias.bin\n  \
    tensorfmt extract model.mag 'encoder.*' -o encoder/\n  \
    tensorfmt extract model.mag 'encoder.*' -o encoder.npz --cast f64\n  \
    tensorfmt extract model.mag 'encoder.weight[0:1]' -o - --to npy > row.npy"
)]
pub(crate) struct Extract {
    /// The file; - for standard input
    pub(crate) file: PathBuf,
    /// The tensors: names or patterns; NAME[A:B] for the rows from A up to but not including B
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// The file to write: .npy for NumPy, .bin for the bytes alone, .npz for several tensors; DIR/ for a
    /// folder with a file of each and a list, index.json; - for standard output, with --to
    #[arg(long, short, value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// Cast floats, or with an integer dtype integers and bools, to this dtype
    #[arg(long, value_name = "DTYPE")]
    pub(crate) cast: Option<String>,
    /// The kind of file, whatever the ending
    #[arg(long, value_name = "KIND")]
    pub(crate) to: Option<ExtractKind>,
    /// Extract without checking the tensors' checksums first, and what fails them too; rows alone are never
    /// checked
    #[arg(long)]
    pub(crate) no_verify: bool,
    /// Overwrite the output
    #[arg(long)]
    pub(crate) force: bool,
}

/// What a tensor is extracted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExtractKind {
    /// A file of NumPy's
    Npy,
    /// An archive of such files, of any number of tensors
    Npz,
    /// The bytes alone
    Bin,
}

/// How to go between orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutArg {
    /// Same dims, transposed data
    KeepDims,
    /// Same bytes, reversed dims
    KeepBytes,
}

/// A checksum over a tensor's stored bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChecksumArg {
    None,
    Crc32c,
    Sha256,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  tensorfmt formats")]
pub(crate) struct Formats {
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  tensorfmt completions bash")]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  tensorfmt man .")]
pub(crate) struct Man {
    /// The folder, which must exist
    pub(crate) folder: PathBuf,
}

/// A part as it is named here: `2/8`.
fn part(text: &str) -> Result<Part, String> {
    text.parse()
        .map_err(|error: tensorfmt::Error| error.to_string())
}
