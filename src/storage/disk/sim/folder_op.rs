//! What is done to the names in a folder, which last when the folder is synced.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// An operation whose folder may not be synced yet.
#[derive(Clone, Debug)]
pub(super) enum FolderOp {
    Create(PathBuf, u64),
    Rename(PathBuf, PathBuf, u64),
    Remove(PathBuf, u64),
    Move(PathBuf, PathBuf),
    Exchange(PathBuf, PathBuf),
}

impl FolderOp {
    pub(super) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Create(path, _)
            | Self::Remove(path, _)
            | Self::Rename(path, _, _)
            | Self::Move(path, _)
            | Self::Exchange(path, _) => path.parent(),
        }
    }

    /// Applies the operation to `names` if what it builds on is there.
    pub(super) fn apply(
        &self,
        names: &mut BTreeMap<PathBuf, u64>,
        folders: &mut BTreeSet<PathBuf>,
    ) {
        let mut place = |of: &dyn Fn(&Path) -> Option<PathBuf>| {
            let new = |path: PathBuf| of(&path).unwrap_or(path);
            *names = std::mem::take(names).into_iter().map(|(path, id)| (new(path), id)).collect();
            *folders = std::mem::take(folders).into_iter().map(new).collect();
        };
        match self {
            Self::Move(from, to) => place(&|path| moved(path, from, to)),
            Self::Exchange(one, other) => {
                place(&|path| moved(path, one, other).or_else(|| moved(path, other, one)));
            }
            Self::Create(path, file) => {
                names.insert(path.clone(), *file);
            }
            Self::Rename(from, to, file) => {
                if names.get(from) == Some(file) {
                    names.remove(from);
                    names.insert(to.clone(), *file);
                }
            }
            Self::Remove(path, file) => {
                if names.get(path) == Some(file) {
                    names.remove(path);
                }
            }
        }
    }
}

/// The path after `from` is after `to` afterwards.
fn moved(path: &Path, from: &Path, to: &Path) -> Option<PathBuf> {
    path.strip_prefix(from).ok().map(|rest| match rest.as_os_str().is_empty() {
        true => to.to_owned(),
        false => to.join(rest),
    })
}
