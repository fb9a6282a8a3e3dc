//! Where the znode that was loaded last hangs: in most snapshots the next one hangs there too, or
//! close by.

use super::znode::NodeId;

/// A path and the znodes along it, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct Trail {
    path: String,
    /// Where in `path` the name of each ends, the highest first.
    ends: Vec<(usize, NodeId)>,
}

impl Trail {
    /// The znode of a path, if it is on the trail. An empty path is the root.
    pub(in crate::engine) fn find(&self, path: &str) -> Option<NodeId> {
        if path.is_empty() {
            return Some(NodeId::ROOT);
        }
        if !self.path.as_bytes().starts_with(path.as_bytes()) {
            return None;
        }
        let (_, id) = self.ends.iter().rev().find(|(end, _)| *end == path.len())?;
        Some(*id)
    }

    /// Goes on to a znode whose path is that of `parent` up to `parent_len`.
    pub(super) fn go(&mut self, path: &str, id: NodeId, parent_len: usize, parent: NodeId) {
        while self.ends.pop_if(|(end, _)| *end > parent_len).is_some() {}
        if parent_len > 0 && self.ends.last() != Some(&(parent_len, parent)) {
            self.ends.clear();
            self.ends.push((parent_len, parent));
        }
        self.ends.push((path.len(), id));
        self.path.clear();
        self.path.push_str(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_knows_the_last_path_and_nothing_beside_it() {
        let mut trail = Trail::default();
        let [a, b, c, other] = [1, 2, 3, 4].map(NodeId);
        assert_eq!(trail.find(""), Some(NodeId::ROOT));
        assert_eq!(trail.find("/a"), None);
        trail.go("/a", a, 0, NodeId::ROOT);
        trail.go("/a/b", b, 2, a);
        trail.go("/a/b/c", c, 4, b);
        assert_eq!(["/a", "/a/b", "/a/b/c"].map(|path| trail.find(path)), [a, b, c].map(Some));
        for not_on_it in ["/a/", "/a/bc", "/a/b/", "/b", "/a/b/c/d"] {
            assert_eq!(trail.find(not_on_it), None, "{not_on_it}");
        }
        // Somewhere else, below a znode that was found otherwise.
        trail.go("/a/x/y", c, 4, other);
        assert_eq!(
            ["/a/x", "/a/x/y", "/a/b"].map(|path| trail.find(path)),
            [Some(other), Some(c), None]
        );
        // What is above it was not looked up.
        assert_eq!(trail.find("/a"), None);
        // Back to the top.
        trail.go("/z", b, 0, NodeId::ROOT);
        assert_eq!(["/z", "/a/x"].map(|path| trail.find(path)), [Some(b), None]);
    }
}
