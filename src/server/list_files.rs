//! The list in the files of this server: `zoo.cfg.dynamic.<version>`, and the zoo.cfg that names
//! it.
//!
//! Owns the order in which they are written, so that a crash at any point leaves a zoo.cfg with a
//! whole list: the old one or the new one. Their texts are those of [`crate::list::files`]. The
//! caller decides which list counts, and waits for the disk.

use std::error::Error as _;
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use crate::list::files::{dynamic_file, dynamic_file_name, edited_zoo_cfg, named_file};
use crate::list::{ListError, ServerList};
use crate::message::MessageId;

/// Why the files do not say the list.
#[derive(Debug, thiserror::Error)]
pub enum ListFileError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written, or not in a way that outlives a crash.
    #[error("cannot write {}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// zoo.cfg has changed into what no server would start with.
    #[error("{} cannot be edited", path.display())]
    Text {
        /// Which.
        path: PathBuf,
        /// Why.
        source: ListError,
    },
    /// A file that zoo.cfg cannot name.
    #[error("the path {} is not UTF-8, so zoo.cfg cannot name a file there", path.display())]
    Path {
        /// Which.
        path: PathBuf,
    },
}

/// Has the files of this server written, by a thread of its own: nobody waits for the disk.
#[derive(Debug)]
pub struct ListFiles(Sender<ServerList>);

impl ListFiles {
    /// For the server `my_id`, which read `zoo_cfg`. `None`, which is said, if there is no thread
    /// for it.
    #[must_use]
    pub fn start(zoo_cfg: &Path, my_id: u8) -> Option<Self> {
        let (lists, taken) = channel::<ServerList>();
        let (path, zoo_cfg) = (zoo_cfg.to_owned(), zoo_cfg.to_owned());
        let write_all = move || {
            while let Ok(mut list) = taken.recv() {
                // An older one need not be written.
                list = taken.try_iter().last().unwrap_or(list);
                if let Err(error) = write(&zoo_cfg, &list, my_id) {
                    tell(&error);
                }
            }
        };
        let started = thread::Builder::new().name("list".to_owned()).spawn(write_all);
        let started = started.map_err(|source| ListFileError::Write { path, source });
        started.inspect_err(tell).is_ok().then_some(Self(lists))
    }

    /// Has them say `list`, soon.
    pub fn write(&self, list: ServerList) {
        // The thread ends with this only.
        let _ = self.0.send(list);
    }
}

fn tell(error: &ListFileError) {
    let source = error.source().map(ToString::to_string);
    tracing::warn!(
        id = %MessageId::LIST_NOT_WRITTEN,
        %error,
        source,
        "the list of servers could not be written to the files that a start reads"
    );
}

/// Has the files say `list`, of which the server `my_id` may be one; whether one had to be written.
///
/// The file of the list is beside `zoo_cfg`. A zoo.cfg that has named none so far is kept as
/// `zoo.cfg.bak`, as by ZooKeeper.
pub fn write(zoo_cfg: &Path, list: &ServerList, my_id: u8) -> Result<bool, ListFileError> {
    let unreadable = |source| ListFileError::Read { path: zoo_cfg.to_owned(), source };
    // A link stays one.
    let edited_path = zoo_cfg.canonicalize().map_err(unreadable)?;
    let its = fs::metadata(&edited_path).map_err(unreadable)?;
    let bytes = fs::read(&edited_path).map_err(unreadable)?;

    let dynamic_path = dynamic_path(zoo_cfg, list.version)?;
    let name = dynamic_path.to_str();
    let name = name.ok_or_else(|| ListFileError::Path { path: dynamic_path.clone() })?;
    let own = list.servers.get(my_id);
    let bad = |source| ListFileError::Text { path: edited_path.clone(), source };
    let has_client_address = own.is_some_and(|own| own.client.is_some());
    let edited = edited_zoo_cfg(&bytes, name, has_client_address).map_err(bad)?;

    let text = dynamic_file(&list.servers);
    let is_there = fs::read(&dynamic_path).is_ok_and(|bytes| bytes == text.as_bytes());
    if is_there && edited == bytes {
        return Ok(false);
    }
    match is_there {
        true => sync_folder_of(&dynamic_path).map_err(cannot_write(&dynamic_path))?,
        false => replace(&dynamic_path, text.as_bytes(), None)?,
    }
    if edited != bytes {
        if named_file(&bytes).map_err(bad)?.is_none() {
            replace(&with_end(&edited_path, ".bak"), &bytes, Some(&its))?;
        }
        replace(&edited_path, &edited, Some(&its))?;
    }
    Ok(true)
}

/// Without links above it, so that it does not depend on where a server is started.
fn dynamic_path(zoo_cfg: &Path, version: i64) -> Result<PathBuf, ListFileError> {
    let bad = || ListFileError::Path { path: zoo_cfg.to_owned() };
    let name = zoo_cfg.file_name().and_then(|name| name.to_str()).ok_or_else(bad)?;
    let folder = folder_of(zoo_cfg);
    let folder = folder.canonicalize();
    let unreadable = |source| ListFileError::Read { path: zoo_cfg.to_owned(), source };
    Ok(folder.map_err(unreadable)?.join(dynamic_file_name(name, version)))
}

/// Writes a file whole or not at all, durably. Who may read it, and whose it is, is as with `like`.
fn replace(path: &Path, bytes: &[u8], like: Option<&Metadata>) -> Result<(), ListFileError> {
    let draft = with_end(path, ".tmp");
    let done = write_draft(&draft, bytes, like)
        .and_then(|()| fs::rename(&draft, path))
        .and_then(|()| sync_folder_of(path));
    if done.is_err() {
        // What is left of it is replaced the next time.
        let _ = fs::remove_file(&draft);
    }
    done.map_err(cannot_write(path))
}

fn write_draft(draft: &Path, bytes: &[u8], like: Option<&Metadata>) -> io::Result<()> {
    // One that a crash has left may be readable for others.
    match fs::remove_file(draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // zoo.cfg may have passwords.
    let mode = if like.is_some() { 0o600 } else { 0o666 };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(draft)?;
    file.write_all(bytes)?;
    if let Some(like) = like {
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
            fchown(&file, Some(like.uid()), Some(like.gid()))?;
        }
        file.set_permissions(Permissions::from_mode(like.mode() & 0o7777))?;
    }
    file.sync_all()
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or_else(|| Path::new("."))
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}

fn cannot_write(path: &Path) -> impl Fn(io::Error) -> ListFileError {
    let path = path.to_owned();
    move |source| ListFileError::Write { path: path.clone(), source }
}

#[cfg(test)]
#[path = "list_files_test.rs"]
mod list_files_test;
