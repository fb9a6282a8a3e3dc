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
/// What a load changes that was there before it.
const SHARED: [&str; 3] = ["/", "/load", "/load/seq"];

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

/// # Panics
/// With what differs, if something does.
pub fn assert_same(before: &Tree, after: &Tree) {
    let differences = differences(before, after);
    assert!(differences.is_empty(), "the trees differ:\n{}", differences.join("\n"));
}

/// What was there before the load is as it was.
///
/// # Panics
/// With what is not.
pub fn assert_kept(before: &Tree, after: &Tree) {
    let mut kept = after.clone();
    kept.retain(|path, _| before.contains_key(path));
    let mut before = before.clone();
    for path in SHARED {
        before.remove(path);
        kept.remove(path);
    }
    assert_same(&before, &kept);
}

/// Path to czxid and owner.
pub fn ephemerals(tree: &Tree) -> BTreeMap<String, (i64, i64)> {
    let of_sessions = tree.iter().filter(|(_, (_, stat))| stat.ephemeral_owner != 0);
    of_sessions
        .map(|(path, (_, stat))| (path.clone(), (stat.czxid, stat.ephemeral_owner)))
        .collect()
}
