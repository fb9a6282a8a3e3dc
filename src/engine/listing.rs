//! A long listing, made in pieces.
//!
//! Each piece is made under a hold of its own. The pieces belong together while the parent's children stay as they are:
//! whoever finds them changed begins again.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use jute::Record as _;

use super::database::Database;
use super::znode::NodeId;

/// A listing of more children than this is a long one. With fewer, one hold is short enough.
pub const LONG: usize = 4096;
/// Bytes of a list that stand together.
const CHUNK: usize = 128 << 10;
/// So many are filled under one hold at most, unless all of the list is to be made under it.
const CHUNKS_AT_ONCE: usize = 2;

/// What differs once the children of a znode have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Marks {
    incarnation: u64,
    parent: NodeId,
    /// Each transaction that creates the znode, or creates or deletes children, leaves its own zxid there.
    pzxid: i64,
}

impl Marks {
    fn of(database: &Database, parent: NodeId) -> Self {
        let pzxid = database.tree.stat(parent).pzxid;
        Self { incarnation: database.incarnation, parent, pzxid }
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
pub enum Progress {
    /// There are more children.
    More(Listing),
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

    /// Lists up to `most` further children of `parent`, which is that of the beginning unless it was deleted since.
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
        self.list.len += self.chunk.len();
        self.list.chunks.push(std::mem::take(&mut self.chunk).freeze());
    }

    /// About how many bytes the list will have.
    #[must_use]
    pub fn expected_len(&self) -> usize {
        let len = self.list.len + self.chunk.len();
        len.saturating_mul(self.list.count) / self.listed.max(1)
    }
}

impl List {
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
