//! A whole tree as one client sees it.

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;

use crate::request::{self, op};
use crate::{RawClient, Stat};

/// Path to data and stat, of everything below and including `/`.
pub type Tree = BTreeMap<String, (Bytes, Stat)>;

/// Znodes asked for at a time.
const WINDOW: usize = 100;

/// Reads the tree.
pub fn walk(client: &mut RawClient) -> io::Result<Tree> {
    let mut tree = Tree::new();
    let mut ahead = vec!["/".to_string()];
    while !ahead.is_empty() {
        let paths = ahead.split_off(ahead.len().saturating_sub(WINDOW));
        let requests: Vec<(i32, Vec<u8>)> = paths
            .iter()
            .flat_map(|path| {
                let body = request::path_watch(path, false);
                [(op::GET_DATA, body.clone()), (op::GET_CHILDREN2, body)]
            })
            .collect();
        let mut replies = client.call_all(&requests)?.into_iter();
        for path in paths {
            let (Some(data), Some(children)) = (replies.next(), replies.next()) else { break };
            for reply in [&data, &children] {
                if reply.err != 0 {
                    return Err(io::Error::other(format!("{path}: error {}", reply.err)));
                }
            }
            let parent = path.trim_end_matches('/');
            ahead.extend(children.children().iter().map(|name| format!("{parent}/{name}")));
            tree.insert(path, (data.data(), data.stat()));
        }
    }
    Ok(tree)
}

/// What differs, a line a path; empty when the trees are equal.
pub fn differences(left: &Tree, right: &Tree) -> Vec<String> {
    let paths: std::collections::BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let differing = paths.into_iter().filter(|path| left.get(*path) != right.get(*path));
    differing.map(|path| format!("{path}: {:?} -> {:?}", left.get(path), right.get(path))).collect()
}
