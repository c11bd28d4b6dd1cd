//! Objects that are written.

use std::io::Write;

use tensor_remote::{Problem, Remote, RemoteOptions};

use crate::{address, noise};

const MIB: usize = 1 << 20;

#[test]
fn an_object_appears_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let remote = Remote::new(RemoteOptions::default()).unwrap();
    for len in [0, 10, 8 * MIB, 30 * MIB + 1] {
        let path = folder.path().join(len.to_string());
        let at = address(&format!("file://{}", path.display()));
        let mut upload = remote.create(&at, false, Some(len as u64)).unwrap();
        for piece in noise(len).chunks(1_000_003) {
            upload.write_all(piece).unwrap();
        }
        assert!(!path.exists());
        assert_eq!(upload.written(), len as u64);
        upload.finish().unwrap();
        assert!(std::fs::read(&path).unwrap() == noise(len), "{len}");
        // It is there now.
        let error = remote.create(&at, false, None).unwrap_err();
        assert_eq!(error.problem(), &Problem::Exists);

        let mut upload = remote.create(&at, true, None).unwrap();
        upload.write_all(&noise(20 * MIB)).unwrap();
        drop(upload);
        assert!(std::fs::read(&path).unwrap() == noise(len), "{len}");
    }
    // And nothing beside them.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4);
}

#[test]
fn what_came_there_meanwhile_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let remote = Remote::new(RemoteOptions::default()).unwrap();
    for len in [10, 20 * MIB] {
        let path = folder.path().join(len.to_string());
        let at = address(&format!("file://{}", path.display()));
        let mut upload = remote.create(&at, false, None).unwrap();
        upload.write_all(&noise(len)).unwrap();
        std::fs::write(&path, b"another's").unwrap();
        assert_eq!(upload.finish().unwrap_err().problem(), &Problem::Exists);
        assert_eq!(std::fs::read(&path).unwrap(), b"another's");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn nothing_is_written_to_web_servers() {
    let remote = Remote::new(RemoteOptions::default()).unwrap();
    let error = remote
        .create(&address("https://host/a"), true, None)
        .unwrap_err();
    assert!(
        matches!(error.problem(), Problem::Unsupported(_)),
        "{error}"
    );
}
