//! `extract`: tensors, or rows of them, as NumPy's files or as their bytes.

mod file_names;
mod npy;
mod npz;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use file_names::{FileNames, in_archive};
use serde::Serialize;
use tensor_core::codec::{Output, Sink, Ticker};
use tensor_core::{Cast, Shape, Source, Window};
use tensorfmt::convert::{ModelTensor, Tensors};
use tensorfmt::{Archive, DType, Error, Order, Outcome};

use crate::Outcome as Ended;
use crate::cli::{Common, Extract, ExtractKind};
use crate::failure::{Failure, INVALID, UNSUPPORTED, complain};
use crate::input::Input;
use crate::names::{Idle, Patterns, Rows};
use crate::output::escape;
use crate::progress::Meter;
use crate::remote::{self, Object};
use crate::signals::Graceful;
use crate::target::{Target, create, has_room, is_not_input, may_write};

/// What is taken out: a tensor, or rows of it.
struct Piece {
    /// The tensor's name, with the rows where they are not all.
    label: String,
    tensor: String,
    dtype: Option<DType>,
    dtype_name: String,
    shape: Shape,
    order: Order,
    rows: Option<(u64, u64)>,
    data: Arc<dyn Source>,
}

/// What a folder's list says about a file in it.
#[derive(Serialize)]
struct Listed<'a> {
    file: &'a str,
    name: &'a str,
    dtype: &'a str,
    shape: &'a [u64],
    /// From one row up to another one, where these are not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<(u64, u64)>,
}

#[derive(Serialize)]
struct List<'a> {
    files: Vec<Listed<'a>>,
}

/// The list of what is what in a folder.
const LIST: &str = "index.json";

/// Where the pieces go.
enum To {
    One(Target, ExtractKind),
    Npz(Target),
    Folder(PathBuf, ExtractKind),
}

pub(crate) fn run(args: &Extract, common: &Common) -> Ended {
    let (output, object) = remote::parse(&args.output, common)?;
    let to = to(args, &output)?;
    let cast = args.cast.as_deref().map(dtype).transpose()?;
    if let To::One(target, _) | To::Npz(target) = &to {
        target.takes_bytes(false)?;
        match (&object, target) {
            (Some(object), _) => object.may_write(args.force)?,
            (None, Target::Path(path)) => may_write(path, args.force)?,
            _ => {}
        }
    }
    let input = Input::new(&args.file, common)?;
    let archive = input
        .open()
        .map_err(|error| Failure::about(&input.path, &error))?;
    match (&object, &to) {
        (Some(object), _) => object.is_not_input()?,
        (None, To::One(Target::Path(path), _) | To::Npz(Target::Path(path))) => {
            is_not_input(&archive, &input.path, path)?;
        }
        _ => {}
    }
    input.warn(&archive);
    let pieces = pieces(&archive, args, cast, &input)?;
    if let (To::One(..), 2..) = (&to, pieces.len()) {
        let (count, output) = (pieces.len(), args.output.display());
        return Err(Failure::usage(format!(
            "{output} takes one tensor, and {count} are chosen; -o DIR/ takes a file of each, -o FILE.npz \
            all in one"
        )));
    }
    let npy = !matches!(
        to,
        To::One(_, ExtractKind::Bin) | To::Folder(_, ExtractKind::Bin)
    );
    let mut heads = Vec::with_capacity(pieces.len());
    let mut is_held = true;
    for piece in pieces {
        match npy.then(|| npy::header(&piece)).transpose() {
            Ok(head) => heads.push((head.unwrap_or_default(), piece)),
            Err(reason) => {
                is_held = false;
                complain(&escape(&format!(
                    "{:?}: {reason}; extract the bytes as .bin, or floats with --cast f32",
                    piece.label
                )));
            }
        }
    }
    if !is_held {
        return Ok(ExitCode::from(UNSUPPORTED));
    }
    let total = heads.iter().map(|(_, piece)| piece.data.size());
    let meter = Meter::new(total.fold(0, u64::saturating_add), common);
    let progress = |bytes| meter.tick(bytes);
    let ticker = Ticker::new(Some(&progress));
    match to {
        To::One(target, _) => {
            if let [(head, piece)] = heads.as_slice() {
                match &object {
                    Some(object) => one_object(object, head, piece, args.force, &ticker)?,
                    None => one(&target, head, piece, args.force, common, &ticker)?,
                }
            }
        }
        To::Npz(target) => {
            let pieces = in_one(heads, common);
            match &object {
                Some(object) => object.put(Some(npz_len(&pieces)), args.force, |out| {
                    npz::write(out, &pieces, &ticker).map(drop)
                })?,
                None => archive_of(&target, &pieces, args.force, common, &ticker)?,
            }
        }
        To::Folder(folder, kind) => {
            let files = Folder::new(&folder, kind, heads);
            files.are_free(&archive, &input, args.force)?;
            files.write(args.force, common, &ticker)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the output goes, by the option, the ending, or a folder that exists or ends like one.
fn to(args: &Extract, path: &Path) -> Result<To, Failure> {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let bytes = path.as_os_str().as_encoded_bytes();
    let is_folder =
        path.is_dir() || bytes.ends_with(b"/") || cfg!(windows) && bytes.ends_with(b"\\");
    let target = Target::new(path);
    if is_folder {
        return match args.to {
            Some(ExtractKind::Npz) => {
                let path = path.display();
                Err(Failure::usage(format!(
                    "{path} is a folder; name an .npz in it"
                )))
            }
            kind => Ok(To::Folder(
                path.to_path_buf(),
                kind.unwrap_or(ExtractKind::Npy),
            )),
        };
    }
    match (args.to, ending) {
        (Some(ExtractKind::Npz), _) | (None, Some("npz")) => Ok(To::Npz(target)),
        (Some(kind), _) => Ok(To::One(target, kind)),
        (None, Some("npy")) => Ok(To::One(target, ExtractKind::Npy)),
        (None, Some("bin")) => Ok(To::One(target, ExtractKind::Bin)),
        _ => {
            let path = path.display();
            Err(Failure::usage(format!(
                "{path}: ends neither in .npy nor in .npz nor in .bin; --to says which it is, and a folder \
                ends in a slash"
            )))
        }
    }
}

fn dtype(name: &str) -> Result<DType, Failure> {
    let dtype = DType::from_spelling(name).filter(|d| d.is_float() || d.is_integer());
    dtype.ok_or_else(|| {
        Failure::usage(format!(
            "--cast {name:?}: not a dtype such as f32, bf16 or i32"
        ))
    })
}

/// What the names choose, in their order.
fn pieces(
    archive: &Archive,
    args: &Extract,
    cast: Option<DType>,
    input: &Input,
) -> Result<Vec<Piece>, Failure> {
    let entries = archive.entries();
    let names = entries.iter().map(|entry| entry.name());
    let mut idle = Idle::default();
    let patterns = Patterns::new("name", &args.names);
    let chosen = patterns.choose(names, &mut idle)?;
    if let Some(name) = idle.first() {
        let error = archive.no_such_tensor(name);
        return Err(Failure::about(&input.path, &error));
    }
    let tensors = Tensors::new(archive);
    let mut pieces = Vec::with_capacity(chosen.len());
    let mut is_cast = false;
    let mut damaged = 0usize;
    for (at, rows) in chosen {
        let Some(entry) = entries.get(at) else {
            continue;
        };
        let tensor = tensors.get(entry);
        let about = |error: &Error| Failure::about(&input.path, error);
        let mut piece = piece(&tensor, rows.as_ref()).map_err(|why| match why {
            Unavailable::Error(error) => about(&error),
            Unavailable::Failure(failure) => failure,
        })?;
        if let Some(to) = cast.filter(|&to| is_about(piece.dtype, to)) {
            is_cast |= casted(&mut piece, to)?;
        }
        // Rows are read without the rest, which their checksum is of as well.
        if rows.is_none() && !args.no_verify {
            let item = archive.verify_entry(entry).map_err(|error| about(&error))?;
            if item.outcome == Outcome::Failed {
                damaged += 1;
                complain(&escape(&format!("{:?}: {item}", piece.label)));
            }
        }
        pieces.push(piece);
    }
    if damaged > 0 {
        return Err(Failure::new(
            INVALID,
            format!(
                "{}: nothing extracted: {damaged} of the chosen tensors are damaged; --no-verify extracts \
                them as they are",
                input.path.display()
            ),
        ));
    }
    if let (Some(to), false) = (cast, is_cast) {
        complain(&format!(
            "note: --cast changed nothing: no tensor is cast to {to}"
        ));
    }
    Ok(pieces)
}

/// Why a tensor, or rows of it, can not be read.
enum Unavailable {
    Error(Error),
    Failure(Failure),
}

/// A tensor, or rows of it, which are read without the rest.
fn piece(tensor: &ModelTensor, rows: Option<&Rows>) -> Result<Piece, Unavailable> {
    let name = tensor.name();
    let mut piece = Piece {
        label: name.to_owned(),
        tensor: name.to_owned(),
        dtype: tensor.dtype(),
        dtype_name: tensor.dtype_name().to_owned(),
        shape: tensor.shape().clone(),
        order: tensor.order(),
        rows: None,
        data: tensor.data().map_err(Unavailable::Error)?,
    };
    let Some(rows) = rows else {
        return Ok(piece);
    };
    let wrong =
        |code, why: String| Unavailable::Failure(Failure::new(code, format!("{name:?}: {why}")));
    let [count, rest @ ..] = piece.shape.dims() else {
        return Err(wrong(crate::failure::USAGE, "a scalar has no rows".into()));
    };
    let range = rows
        .of(*count)
        .map_err(|why| wrong(crate::failure::USAGE, format!("there are no {why}")))?;
    let size = piece.dtype.and_then(DType::size).ok_or_else(|| {
        let dtype = &piece.dtype_name;
        wrong(
            UNSUPPORTED,
            format!("{dtype} has no elements of a known size, so no rows"),
        )
    })?;
    // All of these are less than what the whole tensor has.
    let row = rest
        .iter()
        .fold(size, |bytes, dim| bytes.saturating_mul(*dim));
    let bytes = range.start.saturating_mul(row)..range.end.saturating_mul(row);
    let mut dims = vec![range.end - range.start];
    dims.extend(rest);
    let data = tensor.rows().map_err(Unavailable::Error)?;
    let data = Window::new(data, bytes).map_err(|error| Unavailable::Error(error.into()))?;
    piece.shape = Shape::new(&dims).unwrap_or_default();
    piece.label = format!("{name}[{}:{}]", range.start, range.end);
    piece.rows = Some((range.start, range.end));
    piece.order = Order::RowMajor;
    piece.data = Arc::new(data);
    Ok(piece)
}

/// Whether a cast to this dtype is about another one: floats to floats, integers and bools to integers.
fn is_about(from: Option<DType>, to: DType) -> bool {
    from.is_some_and(|from| match to.is_float() {
        true => from.is_float(),
        false => from.is_integer() || from == DType::Bool,
    })
}

/// Casts a piece, if it has another dtype; integers that don't fit are an error.
fn casted(piece: &mut Piece, to: DType) -> Result<bool, Failure> {
    let Some(from) = piece.dtype.filter(|&from| from != to) else {
        return Ok(false);
    };
    let label = piece.label.clone();
    let cast = Cast::new(Arc::clone(&piece.data), from, to)
        .map_err(|error| Failure::new(UNSUPPORTED, format!("{label:?}: {error}")))?;
    if to.is_integer() {
        let quiet = Ticker::default();
        tensor_core::codec::walk::<Error>(&cast, 0..cast.size(), &quiet, |_| Ok(()))?;
        let misfits = cast.counts().overflowed();
        if misfits > 0 {
            let text = format!("{label:?}: {misfits} values of {from} don't fit {to}");
            return Err(Failure::new(UNSUPPORTED, text));
        }
    }
    piece.dtype = Some(to);
    piece.dtype_name = to.name().to_owned();
    piece.data = Arc::new(cast);
    Ok(true)
}

/// Writes one file, or to standard output.
fn one(
    target: &Target,
    head: &[u8],
    piece: &Piece,
    force: bool,
    common: &Common,
    ticker: &Ticker<'_>,
) -> Result<(), Failure> {
    match target {
        Target::Stdout => put(crate::console::stdout(), head, &piece.data, ticker)
            .map(drop)
            .map_err(|error| error.of_tensor(&piece.tensor))
            .map_err(|error| Failure::stdout_of(&error)),
        Target::Path(path) => {
            let len = piece.data.size().saturating_add(head.len() as u64);
            has_room(path, len, false)?;
            let _graceful = target.is_file().then(Graceful::new);
            create(path, force, common)
                .and_then(|file| Ok(put(file, head, &piece.data, ticker)?.commit()?))
                .map_err(|error| error.of_tensor(&piece.tensor))
                .map_err(|error| Failure::about(path, &error))
        }
    }
}

/// Writes one object.
fn one_object(
    object: &Object,
    head: &[u8],
    piece: &Piece,
    force: bool,
    ticker: &Ticker<'_>,
) -> Result<(), Failure> {
    let _graceful = Graceful::new();
    let len = piece.data.size().saturating_add(head.len() as u64);
    object.put(Some(len), force, |out| {
        let put = put(out, head, &piece.data, ticker).map(drop);
        put.map_err(|error| error.of_tensor(&piece.tensor))
    })
}

/// Puts a head and all of the data.
fn put<O: Output>(
    mut out: O,
    head: &[u8],
    data: &dyn Source,
    ticker: &Ticker<'_>,
) -> Result<O, Error> {
    out.put(head)?;
    let mut sink = Sink::new(out);
    sink.copy_from(data, ticker)?;
    Ok(sink.into_inner())
}

/// The pieces with their names in one .npz.
fn in_one(heads: Vec<(Vec<u8>, Piece)>, common: &Common) -> Vec<(String, Vec<u8>, Piece)> {
    // A name that would lead out of a folder, or is a duplicate, becomes another one.
    let mut safe = FileNames::default();
    let mut seen = std::collections::HashSet::new();
    let mut pieces = Vec::with_capacity(heads.len());
    for (head, piece) in heads {
        let own =
            in_archive(&piece.label).or_else(|| in_archive(&piece.tensor).and(Some(&*piece.label)));
        let mut name = own.map_or_else(|| safe.next(&piece.label), str::to_owned);
        while !seen.insert(name.clone()) {
            name = safe.next(&format!("{}_", piece.label));
        }
        if name != piece.label && !common.quiet {
            complain(&escape(&format!(
                "note: {:?} is {name:?} in the archive",
                piece.label
            )));
        }
        pieces.push((name, head, piece));
    }
    pieces
}

/// How long an .npz may be.
fn npz_len(pieces: &[(String, Vec<u8>, Piece)]) -> u64 {
    let len = |(name, head, piece): &(String, Vec<u8>, Piece)| {
        // A local header, one in the directory, and the name in both.
        let around = 160 + 2 * name.len() as u64 + head.len() as u64;
        piece.data.size().saturating_add(around)
    };
    pieces.iter().map(len).fold(0, u64::saturating_add)
}

/// Writes all pieces into one .npz.
fn archive_of(
    target: &Target,
    pieces: &[(String, Vec<u8>, Piece)],
    force: bool,
    common: &Common,
    ticker: &Ticker<'_>,
) -> Result<(), Failure> {
    match target {
        Target::Stdout => npz::write(crate::console::stdout(), pieces, ticker)
            .map(drop)
            .map_err(|error| Failure::stdout_of(&error)),
        Target::Path(path) => {
            has_room(path, npz_len(pieces), false)?;
            let _graceful = target.is_file().then(Graceful::new);
            create(path, force, common)
                .and_then(|file| Ok(npz::write(file, pieces, ticker)?.commit()?))
                .map_err(|error| Failure::about(path, &error))
        }
    }
}

/// A folder with a file of each piece.
struct Folder<'a> {
    path: &'a Path,
    /// File name, head, and the piece.
    files: Vec<(String, Vec<u8>, Piece)>,
}

impl<'a> Folder<'a> {
    fn new(path: &'a Path, kind: ExtractKind, heads: Vec<(Vec<u8>, Piece)>) -> Self {
        let ending = match kind {
            ExtractKind::Bin => "bin",
            _ => "npy",
        };
        let mut names = FileNames::default();
        let files = heads.into_iter().map(|(head, piece)| {
            let name = format!("{}.{ending}", names.next(&piece.label));
            (name, head, piece)
        });
        Self {
            path,
            files: files.collect(),
        }
    }

    /// All files that are written, the list last.
    fn paths(&self) -> impl Iterator<Item = PathBuf> {
        let names = self.files.iter().map(|(name, ..)| name.as_str());
        names.chain([LIST]).map(|name| self.path.join(name))
    }

    /// Fails before anything is written where a file is in the way.
    fn are_free(&self, archive: &Archive, input: &Input, force: bool) -> Result<(), Failure> {
        for path in self.paths() {
            may_write(&path, force)?;
            is_not_input(archive, &input.path, &path)?;
        }
        Ok(())
    }

    /// Writes the files, then the list. A failure leaves no new file.
    fn write(&self, force: bool, common: &Common, ticker: &Ticker<'_>) -> Result<(), Failure> {
        let is_new = !self.path.exists();
        if is_new {
            std::fs::create_dir(self.path).map_err(|error| Failure::io(self.path, &error))?;
        }
        let data = self
            .files
            .iter()
            .map(|(_, head, piece)| piece.data.size().saturating_add(head.len() as u64));
        let mut made: Vec<PathBuf> = Vec::new();
        let room = has_room(
            &self.path.join(LIST),
            data.fold(0, u64::saturating_add),
            false,
        );
        let written = room.and_then(|()| self.write_all(force, common, ticker, &mut made));
        if written.is_err() {
            // That they can't be taken away again is less than what failed.
            for path in made {
                let _ = std::fs::remove_file(path);
            }
            if is_new {
                let _ = std::fs::remove_dir(self.path);
            }
        }
        written
    }

    fn write_all(
        &self,
        force: bool,
        common: &Common,
        ticker: &Ticker<'_>,
        made: &mut Vec<PathBuf>,
    ) -> Result<(), Failure> {
        let _graceful = Graceful::new();
        let mut save = |name: &str, head: &[u8], data: &dyn Source| {
            let path = self.path.join(name);
            let is_new = path.symlink_metadata().is_err();
            create(&path, force, common)
                .and_then(|file| Ok(put(file, head, data, ticker)?.commit()?))
                .map_err(|error| Failure::about(&path, &error))?;
            if is_new {
                made.push(path);
            }
            Ok::<(), Failure>(())
        };
        for (name, head, piece) in &self.files {
            save(name, head, &piece.data)?;
        }
        let files = self.files.iter().map(|(file, _, piece)| Listed {
            file,
            name: &piece.tensor,
            dtype: &piece.dtype_name,
            shape: piece.shape.dims(),
            rows: piece.rows,
        });
        let list = List {
            files: files.collect(),
        };
        let mut text = serde_json::to_vec_pretty(&list)
            .map_err(|error| Failure::io(self.path, &std::io::Error::from(error)))?;
        text.push(b'\n');
        save(LIST, &text, &tensor_core::Bytes::new())
    }
}
