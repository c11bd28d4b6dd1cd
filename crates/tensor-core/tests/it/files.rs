use std::fs;

use tensor_core::codec::{AtomicFile, Output};
use tensor_core::{Bytes, FileSource, Source, SourceError, WriteOptions};

#[test]
fn a_file_reads_as_its_bytes_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bytes");
    let bytes: Vec<u8> = (0..10_000u32).map(|i| (i * 7) as u8).collect();
    fs::write(&path, &bytes).unwrap();
    let (file, memory) = (FileSource::open(&path).unwrap(), Bytes::from(bytes));
    assert_eq!(file.size(), memory.size());
    for (start, end) in [
        (0, 10_000),
        (1, 2),
        (9_999, 10_000),
        (10_000, 10_000),
        (10, 5_000),
    ] {
        assert_eq!(
            file.read(start..end).unwrap(),
            memory.read(start..end).unwrap()
        );
    }
    for (start, end) in [(0, 10_001), (10_001, 10_001), (u64::MAX, u64::MAX), (9, 3)] {
        let both = (file.read(start..end), memory.read(start..end));
        assert!(
            matches!(
                both,
                (
                    Err(SourceError::OutOfBounds { .. }),
                    Err(SourceError::OutOfBounds { .. })
                )
            ),
            "{start}..{end}: {both:?}"
        );
    }
}

#[cfg(feature = "mmap")]
#[test]
fn a_map_reads_as_its_file_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bytes");
    for len in [0usize, 1, 4096, 5000] {
        fs::write(&path, vec![7u8; len]).unwrap();
        // SAFETY: the test owns the file and does not touch it while the map lives.
        #[allow(unsafe_code, reason = "the promise above")]
        let map = unsafe { tensor_core::MappedFile::open(&path) }.unwrap();
        assert_eq!(map.size(), len as u64);
        assert_eq!(map.read(0..len as u64).unwrap(), vec![7u8; len]);
        assert!(map.read(0..len as u64 + 1).is_err());
    }
}

/// A file is replaced, never written to, so what was mapped stays what it was.
#[cfg(feature = "mmap")]
#[test]
fn a_mapped_file_can_be_the_target() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bytes");
    let old = vec![7u8; 1 << 20];
    fs::write(&path, &old).unwrap();
    // SAFETY: the file that is mapped is never written to: that is what is tested.
    #[allow(unsafe_code, reason = "the promise above")]
    let map = unsafe { tensor_core::MappedFile::open(&path) }.unwrap();
    let mut file = AtomicFile::create(&path, &WriteOptions::default()).unwrap();
    file.put(b"a header, and then the old bytes: ").unwrap();
    file.put(map.bytes()).unwrap();
    file.commit().unwrap();
    assert!(map.bytes() == &old);
    assert_eq!(fs::metadata(&path).unwrap().len(), 34 + (1 << 20));
}

#[test]
fn large_buffers_start_on_a_page_and_small_ones_on_a_line() {
    let bytes = Bytes::from(vec![1u8; 3 << 20]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bytes");
    fs::write(&path, &bytes).unwrap();
    let file = FileSource::open(&path).unwrap();
    assert_eq!(file.read(1..3 << 20).unwrap().as_ptr() as usize % 4096, 0);
    assert_eq!(file.read(1..1000).unwrap().as_ptr() as usize % 64, 0);
}

#[test]
fn a_missing_file_and_a_folder_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = FileSource::open(folder.path().join("absent")).unwrap_err();
    assert!(error.to_string().contains("absent"));
    let error = FileSource::open(folder.path()).unwrap_err();
    assert_eq!(error.source.kind(), std::io::ErrorKind::IsADirectory);
}

#[test]
fn an_atomic_file_appears_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    fs::write(&path, b"old").unwrap();
    let mut dropped = AtomicFile::create(&path, &WriteOptions::default()).unwrap();
    dropped.put(&[1; 1 << 20]).unwrap();
    drop(dropped);
    assert_eq!(fs::read(&path).unwrap(), b"old");
    let mut kept = AtomicFile::create(&path, &WriteOptions::default()).unwrap();
    kept.put(b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    kept.commit().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn in_place_keeps_the_file_itself() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("out"), folder.path().join("link"));
    fs::write(&path, b"old and longer").unwrap();
    fs::hard_link(&path, &link).unwrap();
    let mut options = WriteOptions::default();
    options.in_place = true;
    let mut file = AtomicFile::create(&path, &options).unwrap();
    file.put(b"new").unwrap();
    file.commit().unwrap();
    assert_eq!(fs::read(&link).unwrap(), b"new");
    // The other way round, a replaced file leaves its other names alone.
    let mut file = AtomicFile::create(&path, &WriteOptions::default()).unwrap();
    file.put(b"newer").unwrap();
    file.commit().unwrap();
    assert_eq!(fs::read(&link).unwrap(), b"new");
}

#[cfg(unix)]
#[test]
fn links_are_followed_even_to_nothing() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    symlink("middle", path("first")).unwrap();
    symlink("target", path("middle")).unwrap();
    for content in [b"one", b"two"] {
        let mut file = AtomicFile::create(path("first"), &WriteOptions::default()).unwrap();
        file.put(content).unwrap();
        file.commit().unwrap();
        assert_eq!(fs::read(path("target")).unwrap(), content);
        assert!(path("first").symlink_metadata().unwrap().is_symlink());
    }
    symlink("loop", path("loop")).unwrap();
    let error = AtomicFile::create(path("loop"), &WriteOptions::default()).unwrap_err();
    assert!(error.to_string().contains("loop"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_is_written_to_and_never_replaced() {
    use std::os::unix::fs::FileTypeExt;
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    let mut file = AtomicFile::create(&link, &WriteOptions::default()).unwrap();
    file.put(b"gone").unwrap();
    file.commit().unwrap();
    assert!(
        fs::metadata("/dev/null")
            .unwrap()
            .file_type()
            .is_char_device()
    );

    let mut file = AtomicFile::create("/dev/full", &WriteOptions::default()).unwrap();
    let full = file.put(b"more").and_then(|()| Ok(file.commit()?));
    assert!(full.is_err());
    assert!(
        fs::metadata("/dev/full")
            .unwrap()
            .file_type()
            .is_char_device()
    );
}

#[cfg(target_os = "linux")]
#[test]
fn what_has_no_size_is_no_source() {
    let error = FileSource::open("/dev/zero").unwrap_err().to_string();
    assert_eq!(error, "/dev/zero: not a regular file");
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    // Without a writer, opening it would wait for ever.
    assert!(FileSource::open(&pipe).is_err());
}

#[test]
fn errors_name_the_target_and_not_the_temporary_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("absent/weights.bin");
    let error = AtomicFile::create(&path, &WriteOptions::default()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("weights.bin") && !text.contains(".tensorfmt-"),
        "{text}"
    );
}

#[cfg(all(feature = "mmap", target_os = "linux"))]
#[test]
fn a_file_that_cannot_be_mapped_is_pointed_to_reading() {
    // The files of this file system have a size, and can't be mapped: ENODEV.
    let path = "/sys/devices/system/cpu/online";
    if fs::metadata(path).map_or(0, |metadata| metadata.len()) == 0 {
        return;
    }
    // SAFETY: nothing is mapped.
    #[allow(unsafe_code, reason = "the promise above")]
    let error = unsafe { tensor_core::MappedFile::open(path) }.unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(path) && text.contains("FileSource"),
        "{text}"
    );
    assert!(FileSource::open(path).is_ok());
}

/// Files that belong together: complete, but not there before all are.
#[test]
fn sealed_files_appear_together_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    fs::write(&first, b"old").unwrap();
    let sealed = |path, bytes: &[u8]| {
        let mut file = AtomicFile::create(path, &WriteOptions::default()).unwrap();
        file.put(bytes).unwrap();
        file.seal().unwrap()
    };
    drop((sealed(&first, b"one"), sealed(&second, b"two")));
    assert_eq!(fs::read(&first).unwrap(), b"old");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let both = [sealed(&first, b"one"), sealed(&second, b"two")];
    assert!(!second.exists());
    for file in both {
        file.commit().unwrap();
    }
    assert_eq!(fs::read(&first).unwrap(), b"one");
    assert_eq!(fs::read(&second).unwrap(), b"two");
}

#[test]
fn a_source_says_of_a_file_what_the_file_says() {
    let kind = |kind: std::io::ErrorKind| {
        let error = tensor_core::FileError::new("x", std::io::Error::from(kind));
        tensor_core::SourceError::from(error).kind()
    };
    use std::io::ErrorKind::{AlreadyExists, NotFound};
    assert_eq!(kind(AlreadyExists), tensor_core::Kind::Build);
    assert_eq!(kind(NotFound), tensor_core::Kind::Io);
}
