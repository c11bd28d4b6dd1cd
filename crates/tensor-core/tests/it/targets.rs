//! What a written file does to what is at its target already.

use std::fs;
use std::sync::Mutex;

use tensor_core::codec::{AtomicFile, Output};
use tensor_core::{FileError, FileSource, Kind, Notice, Source, WriteOptions};

/// Writes `bytes` to `path` and returns what there was to notice.
fn write(
    path: &std::path::Path,
    bytes: &[u8],
    change: impl FnOnce(&mut WriteOptions<'_>),
) -> Result<Vec<Notice>, FileError> {
    let notices = Mutex::new(Vec::new());
    let note = |notice: &Notice| notices.lock().unwrap().push(notice.clone());
    let mut options = WriteOptions::default();
    options.notice = Some(&note);
    change(&mut options);
    let mut file = AtomicFile::create(path, &options)?;
    file.put(bytes).unwrap();
    file.commit()?;
    Ok(notices.into_inner().unwrap())
}

#[test]
fn create_new_never_replaces_what_is_there_or_appears_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    for in_place in [false, true] {
        let path = folder.path().join(format!("there-{in_place}"));
        fs::write(&path, "precious").unwrap();
        let error = write(&path, b"new", |options| {
            options.create_new = true;
            options.in_place = in_place;
        });
        assert_eq!(error.unwrap_err().kind(), Kind::Build);
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    let mut options = WriteOptions::default();
    options.create_new = true;
    let path = folder.path().join("late");
    let mut file = AtomicFile::create(&path, &options).unwrap();
    file.put(b"new").unwrap();
    fs::write(&path, "precious").unwrap();
    let error = file.commit().unwrap_err();
    assert_eq!((error.kind(), error.path), (Kind::Build, path.clone()));
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn files_that_belong_together_appear_all_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = WriteOptions::default();
    options.create_new = true;
    let sealed = ["a", "b", "c"].map(|name| {
        let mut file = AtomicFile::create(folder.path().join(name), &options).unwrap();
        file.put(name.as_bytes()).unwrap();
        file.seal().unwrap()
    });
    fs::write(folder.path().join("b"), "precious").unwrap();
    let error = tensor_core::codec::SealedFile::commit_all(sealed).unwrap_err();
    assert_eq!(error.kind(), Kind::Build);
    let names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["b"]);
    assert_eq!(fs::read(folder.path().join("b")).unwrap(), b"precious");
}

#[test]
fn what_is_read_from_is_not_written_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    fs::write(&path, "precious").unwrap();
    let names = ["data", "hard", "soft"].map(|name| folder.path().join(name));
    fs::hard_link(&path, &names[1]).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(&path, &names[2]).unwrap();
    let source = std::sync::Arc::new(FileSource::open(&path).unwrap());
    let window = tensor_core::Window::new(source.clone(), 1..3).unwrap();
    let mut options = WriteOptions::default();
    options.in_place = true;
    let count = if cfg!(unix) { 3 } else { 1 };
    for name in &names[..count] {
        let sources = [&window as &dyn Source];
        let error = AtomicFile::create_from(name, sources, &options).unwrap_err();
        assert_eq!(error.kind(), Kind::Build, "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }
    // A file that takes the place of another harms nobody who has that one open.
    let file = AtomicFile::create_from(&path, [&source as &dyn Source], &WriteOptions::default());
    file.unwrap().commit().unwrap();
    assert_eq!(source.read(0..8).unwrap(), "precious");
    // But the tool's own choice of a name is never a file of the input.
    let source = FileSource::open(&names[1]).unwrap();
    let options = WriteOptions::default();
    let error = AtomicFile::create_chosen(&names[1], [&source as &dyn Source], &options);
    assert_eq!(error.unwrap_err().kind(), Kind::Build);
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_link_is_followed_and_that_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        symlink("file", &link).unwrap();
        let notices = write(&link, b"new", |_| {}).unwrap();
        assert_eq!(
            notices,
            [Notice::LinkFollowed {
                link,
                file: file.clone()
            }]
        );
        assert_eq!(fs::read(&file).unwrap(), b"new");
    }

    #[test]
    fn a_blob_of_a_cache_stays_and_its_link_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let blob = folder.path().join("ab".repeat(32));
        let (link, other) = (folder.path().join("m.zt"), folder.path().join("other.zt"));
        fs::write(&blob, "as named").unwrap();
        symlink(&blob, &link).unwrap();
        symlink(&blob, &other).unwrap();
        for path in [&link, &blob] {
            let error = write(path, b"new", |options| options.in_place = true);
            match path == &link {
                true => assert_eq!(error.unwrap_err().kind(), Kind::Build),
                // Who names the blob itself gets what is asked for.
                false => drop(error.unwrap()),
            }
        }
        fs::write(&blob, "as named").unwrap();
        let notices = write(&link, b"new", |_| {}).unwrap();
        assert!(
            matches!(&notices[..], [Notice::LinkReplaced { .. }]),
            "{notices:?}"
        );
        assert!(!link.is_symlink());
        assert_eq!(fs::read(&link).unwrap(), b"new");
        assert_eq!(fs::read(&other).unwrap(), b"as named");
    }

    #[test]
    fn a_chosen_name_replaces_a_link_and_leads_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        for in_place in [false, true] {
            let (file, link) = (folder.path().join("elsewhere"), folder.path().join("part"));
            fs::write(&file, "precious").unwrap();
            let _ = fs::remove_file(&link);
            symlink(&file, &link).unwrap();
            let mut options = WriteOptions::default();
            options.in_place = in_place;
            let mut part = AtomicFile::create_chosen(&link, [], &options).unwrap();
            part.put(b"part").unwrap();
            part.commit().unwrap();
            assert_eq!(fs::read(&file).unwrap(), b"precious");
            assert!(!link.is_symlink());
            assert_eq!(fs::read(&link).unwrap(), b"part");
        }
    }

    #[test]
    fn a_file_that_replaces_another_has_its_mode_owner_and_attributes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shared");
        fs::write(&path, "old").unwrap();
        // Only root may give files away; everyone else keeps their own.
        let owned = std::os::unix::fs::chown(&path, Some(1234), Some(4321)).is_ok();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
        let named = xattr::set(&path, "user.note", b"kept").is_ok();
        let notices = write(&path, b"new", |_| {}).unwrap();
        assert_eq!(notices, []);
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.mode() & 0o7777, 0o664);
        if owned {
            assert_eq!((metadata.uid(), metadata.gid()), (1234, 4321));
        }
        if named {
            let value = xattr::get(&path, "user.note").unwrap();
            assert_eq!(value.as_deref(), Some(&b"kept"[..]));
        }
    }

    #[test]
    fn a_killed_run_is_told_from_one_that_lives() {
        use tensor_core::Leftover;

        let folder = tempfile::tempdir().unwrap();
        // No process has this number, and no name of an earlier version had one.
        let left = ["2147483647-aB3dE9", "aB3dE9"].map(|name| {
            let path = folder.path().join(format!(".tensorfmt-{name}.tmp"));
            fs::write(&path, "half").unwrap();
            path
        });
        fs::write(folder.path().join(".tensorfmt-notes.txt"), "mine").unwrap();
        let mut file =
            AtomicFile::create(folder.path().join("x"), &WriteOptions::default()).unwrap();
        file.put(&[1; 1 << 20]).unwrap();
        let found = Leftover::find(folder.path()).unwrap();
        let paths: Vec<_> = found.iter().map(|leftover| &leftover.path).collect();
        assert_eq!(paths, [&left[0], &left[1]]);
        assert_eq!(found[0].bytes, 4);
        // What another process is writing has a lock, whatever its number is here.
        let locked = fs::File::open(&left[0]).unwrap();
        rustix::fs::flock(&locked, rustix::fs::FlockOperation::LockExclusive).unwrap();
        assert_eq!(Leftover::find(folder.path()).unwrap(), found[1..]);
        drop(locked);
        for leftover in found {
            leftover.remove().unwrap();
        }
        file.commit().unwrap();
        assert_eq!(Leftover::find(folder.path()).unwrap(), []);
    }
}
