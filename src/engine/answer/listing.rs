//! A long listing, made in pieces: of the children of a znode, or of the ephemeral znodes of a
//! session.
//!
//! Each piece is made under a hold of its own. The pieces belong together while the parent's
//! children stay as they are: whoever finds them changed begins again.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use jute::{Record as _, Stat};

use crate::engine::database::Database;
use crate::engine::path;
use crate::engine::session::SessionId;
use crate::engine::tree::znode::NodeId;

/// A listing of more children than this is a long one. With fewer, one hold is short enough.
pub const LONG: usize = 4096;
/// Bytes of a list that stand together.
const CHUNK: usize = 128 << 10;
/// So many are filled under one hold at most, unless all of the list is to be made under it.
const CHUNKS_AT_ONCE: usize = 2;

/// What differs once what is listed has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Marks {
    incarnation: u64,
    of: Listed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listed {
    Children {
        parent: NodeId,
        czxid: i64,
        /// Moves with each child that is created or deleted, as long as there are creates to count.
        cversion: i32,
        /// The zxid of the last such transaction, unless it was ahead of them.
        pzxid: i64,
    },
    Ephemerals {
        session: SessionId,
        changed: u64,
    },
}

impl Marks {
    fn of(database: &Database, parent: NodeId) -> Self {
        let Stat { czxid, cversion, pzxid, .. } = database.tree.stat(parent);
        let of = Listed::Children { parent, czxid, cversion, pzxid };
        Self { incarnation: database.incarnation, of }
    }

    fn of_session(database: &Database, session: SessionId) -> Self {
        let (_, changed) = database.tree.ephemerals_of(session);
        let of = Listed::Ephemerals { session, changed };
        Self { incarnation: database.incarnation, of }
    }
}

/// A list that is being made.
#[derive(Debug)]
pub struct Listing {
    list: List,
    /// What is being filled.
    chunk: BytesMut,
    /// The child whose name comes next.
    next: Option<NodeId>,
    listed: usize,
}

/// The names of a znode's children, encoded.
#[derive(Debug)]
pub struct List {
    marks: Marks,
    count: usize,
    chunks: Vec<Bytes>,
    len: usize,
}

/// How far a listing is.
#[derive(Debug)]
pub enum Progress<L = Listing> {
    /// There are more children.
    More(L),
    /// These are all, as they are now.
    Done(List),
    /// The children are others than at the beginning.
    Changed,
}

impl Listing {
    /// Begins.
    #[must_use]
    pub fn begin(database: &Database, parent: NodeId) -> Self {
        let count = database.tree.num_children(parent);
        let mut chunk = BytesMut::with_capacity(CHUNK);
        i32::try_from(count).unwrap_or(i32::MAX).encode(&mut chunk);
        let marks = Marks::of(database, parent);
        let list = List { marks, count, chunks: Vec::new(), len: 0 };
        Self { list, chunk, next: database.tree.first_child(parent), listed: 0 }
    }

    /// Lists up to `most` further children of `parent`, which is that of the beginning unless it
    /// was deleted since.
    #[must_use]
    pub fn advance(mut self, database: &Database, parent: NodeId, most: usize) -> Progress {
        if Marks::of(database, parent) != self.list.marks {
            return Progress::Changed;
        }
        let chunks = self.list.chunks.len() + CHUNKS_AT_ONCE;
        for _ in 0..most {
            if most < usize::MAX && self.list.chunks.len() >= chunks {
                break;
            }
            let Some((name, next)) = self.next.and_then(|child| database.tree.sibling(child))
            else {
                self.end_chunk();
                return Progress::Done(self.list);
            };
            if self.chunk.len() + size_of::<i32>() + name.len() > CHUNK {
                self.end_chunk();
                self.chunk = BytesMut::with_capacity(CHUNK);
            }
            Cow::Borrowed(name).encode(&mut self.chunk);
            self.next = next;
            self.listed += 1;
        }
        Progress::More(self)
    }

    fn end_chunk(&mut self) {
        self.list.end_chunk(&mut self.chunk);
    }

    /// Bytes of what is listed.
    #[expect(clippy::len_without_is_empty, reason = "a list has a count in front")]
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len + self.chunk.len()
    }

    /// About how many bytes the list will have.
    #[must_use]
    pub fn expected_len(&self) -> usize {
        let len = self.list.len + self.chunk.len();
        len.saturating_mul(self.list.count) / self.listed.max(1)
    }
}

/// A list of the paths of a session's ephemeral znodes that is being made.
#[derive(Debug)]
pub struct EphemeralListing {
    session: SessionId,
    prefix: Prefix,
    list: List,
    /// What is being filled.
    chunk: BytesMut,
    /// The znode that was looked at last.
    last: Option<NodeId>,
    /// How many there were at the beginning, and were looked at.
    owned: usize,
    looked_at: usize,
}

/// What the paths that are asked for begin with.
#[derive(Debug)]
struct Prefix(Option<String>);

impl Prefix {
    fn new(prefix: &str) -> Self {
        // `String.trim`: what is not after the blank. A path with blanks around it is no prefix of
        // any other.
        let trimmed = prefix.trim_matches(|char| char <= ' ');
        let is_all = trimmed.is_empty() || trimmed == path::ROOT;
        Self((!is_all).then(|| prefix.to_owned()))
    }

    fn is_of(&self, path: &str) -> bool {
        self.0.as_ref().is_none_or(|prefix| path.starts_with(prefix))
    }
}

/// Writes paths of znodes that mostly hang side by side.
#[derive(Debug, Default)]
struct Paths {
    parent: Option<NodeId>,
    path: String,
    parent_len: usize,
}

impl Paths {
    /// The path of a znode, and the bytes that were written for it.
    fn write(&mut self, database: &Database, node: NodeId) -> (&str, usize) {
        let tree = &database.tree;
        let parent = tree.parent(node);
        let mut written = 0;
        if self.parent != Some(parent) {
            tree.write_path(parent, &mut self.path);
            (self.parent, self.parent_len) = (Some(parent), self.path.len());
            written += self.path.len();
        }
        let name = tree.name(node);
        self.path.truncate(self.parent_len);
        self.path.push('/');
        self.path.push_str(name);
        (&self.path, written + name.len())
    }
}

impl EphemeralListing {
    /// Begins with those of a session whose paths begin with `prefix`; a blank one, or `/`, stands
    /// for all.
    #[must_use]
    pub fn begin(database: &Database, session: SessionId, prefix: &str) -> Self {
        let (owned, _) = database.tree.ephemerals_of(session);
        let marks = Marks::of_session(database, session);
        // The count comes first, when it is known.
        let list = List { marks, count: 0, chunks: vec![Bytes::new()], len: 0 };
        let (chunk, prefix) = (BytesMut::new(), Prefix::new(prefix));
        Self { session, prefix, list, chunk, last: None, owned, looked_at: 0 }
    }

    /// Lists further ones, up to `most` of them, until that has cost `bytes` of paths or little
    /// more. If `is_instant`, all are to be those of one instant; else each is there when it is
    /// looked at.
    #[must_use]
    pub fn advance(
        mut self,
        database: &Database,
        most: usize,
        bytes: usize,
        is_instant: bool,
    ) -> Progress<Self> {
        if is_instant && Marks::of_session(database, self.session) != self.list.marks {
            return Progress::Changed;
        }
        let (mut paths, mut cost) = (Paths::default(), 0);
        for (number, node) in database.tree.ephemerals_behind(self.session, self.last).enumerate() {
            if number >= most || cost > bytes {
                return Progress::More(self);
            }
            self.last = Some(node);
            self.looked_at += 1;
            let (path, written) = paths.write(database, node);
            cost += written;
            if !self.prefix.is_of(path) {
                continue;
            }
            path::count_work(path.len());
            cost += path.len();
            if !self.chunk.is_empty() && self.chunk.len() + size_of::<i32>() + path.len() > CHUNK {
                self.list.end_chunk(&mut self.chunk);
            }
            Cow::Borrowed(path).encode(&mut self.chunk);
            self.list.count += 1;
        }
        self.list.end_chunk(&mut self.chunk);
        let mut count = BytesMut::with_capacity(size_of::<i32>());
        i32::try_from(self.list.count).unwrap_or(i32::MAX).encode(&mut count);
        self.list.len += count.len();
        if let Some(first) = self.list.chunks.first_mut() {
            *first = count.freeze();
        }
        self.list.chunks.retain(|chunk| !chunk.is_empty());
        Progress::Done(self.list)
    }

    /// Bytes of what is listed.
    #[expect(clippy::len_without_is_empty, reason = "a list has a count in front")]
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len + self.chunk.len()
    }

    /// About how many bytes the list will have.
    #[must_use]
    pub fn expected_len(&self) -> usize {
        let len = self.list.len + self.chunk.len();
        len.saturating_mul(self.owned.max(self.looked_at)) / self.looked_at.max(1)
    }
}

/// The paths that are asked for, if no more than `most` znodes are looked at for them and it costs
/// no more than `bytes` of paths.
pub(super) fn few_ephemerals(
    database: &Database,
    session: SessionId,
    prefix: &str,
    most: usize,
    bytes: usize,
) -> Option<Vec<String>> {
    let (owned, _) = database.tree.ephemerals_of(session);
    let (prefix, mut paths, mut found) = (Prefix::new(prefix), Paths::default(), Vec::new());
    let mut cost = 0;
    if owned > most {
        return None;
    }
    for node in database.tree.ephemerals(session) {
        let (path, written) = paths.write(database, node);
        cost += written;
        if prefix.is_of(path) {
            cost += path.len();
            found.push(path.to_owned());
        }
        if cost > bytes {
            return None;
        }
    }
    Some(found)
}

impl List {
    fn end_chunk(&mut self, chunk: &mut BytesMut) {
        self.len += chunk.len();
        self.chunks.push(std::mem::take(chunk).freeze());
    }

    /// Whether these are the children of `parent`, as they are now.
    #[must_use]
    pub fn is_current(&self, database: &Database, parent: NodeId) -> bool {
        Marks::of(database, parent) == self.marks
    }

    /// The list as it stands in a reply.
    #[must_use]
    pub fn chunks(&self) -> &[Bytes] {
        &self.chunks
    }

    /// Bytes of it.
    #[expect(clippy::len_without_is_empty, reason = "there is a count in front")]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Bytes of the names alone.
    #[must_use]
    pub const fn names_len(&self) -> usize {
        self.len - size_of::<i32>() * (1 + self.count)
    }
}
