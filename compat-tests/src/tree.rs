//! A whole tree as one client sees it.

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;

use crate::request::{self, op};
use crate::{RawClient, Stat};

/// Path to data and stat, of everything below and including `/`.
pub type Tree = BTreeMap<String, (Bytes, Stat)>;

/// Reads the tree.
pub fn walk(client: &mut RawClient) -> io::Result<Tree> {
    let mut tree = Tree::new();
    let mut ahead = vec!["/".to_string()];
    while let Some(path) = ahead.pop() {
        let data = client.call(op::GET_DATA, &request::path_watch(&path, false))?;
        let children = client.call(op::GET_CHILDREN2, &request::path_watch(&path, false))?;
        for reply in [&data, &children] {
            if reply.err != 0 {
                return Err(io::Error::other(format!("{path}: error {}", reply.err)));
            }
        }
        let parent = path.trim_end_matches('/');
        ahead.extend(children.children().iter().map(|name| format!("{parent}/{name}")));
        tree.insert(path, (data.data(), data.stat()));
    }
    Ok(tree)
}

/// What differs, a line a path; empty when the trees are equal.
pub fn differences(left: &Tree, right: &Tree) -> Vec<String> {
    let paths: std::collections::BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let differing = paths.into_iter().filter(|path| left.get(*path) != right.get(*path));
    differing.map(|path| format!("{path}: {:?} -> {:?}", left.get(path), right.get(path))).collect()
}
