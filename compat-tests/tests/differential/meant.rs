//! What ferrokeeper answers differently on purpose. Scripts have none of it: after such a request
//! the two trees are no longer the same.

use crate::script::{Op, op};

/// A request that differs, and why.
struct Meant {
    reason: &'static str,
    applies: fn(&Op) -> bool,
}

/// `zookeeper_limits` and `zookeeper_stats` right below /zookeeper/quota.
const ROOT_QUOTA: &str = "/zookeeper/quota/zookeeper_";

const MEANT: [Meant; 7] = [
    Meant {
        // ZooKeeper logs a transaction that ends it, at each start again.
        reason: "createTTL in a mode without a TTL: -8",
        applies: |op| match op {
            Op::Create { code: op::CREATE_TTL, flags: 0..=4, ttl, .. } => *ttl < 0,
            _ => false,
        },
    },
    Meant {
        // ZooKeeper does them, without a look at any ACL.
        reason: "deleteContainer and createSession from a client: -6",
        applies: |op| matches!(op.code(), op::DELETE_CONTAINER | op::CREATE_SESSION),
    },
    Meant {
        // ZooKeeper adds a body with the results so far.
        reason: "multiRead with a part that is no read, or has no path: -5 and no body",
        applies: |op| {
            let Op::Multi { code: op::MULTI_READ, parts } = op else { return false };
            parts.iter().any(|part| {
                !matches!(part.code(), op::GET_DATA | op::GET_CHILDREN)
                    || matches!(part, Op::Read { path: None, .. })
            })
        },
    },
    Meant {
        // ZooKeeper checks flags first, and the path as one that is not valid: -8.
        reason: "null path of create, setData and setACL: -5, whatever else is wrong",
        applies: |op| {
            matches!(
                op,
                Op::Create { path: None, .. }
                    | Op::SetData { path: None, .. }
                    | Op::SetAcl { path: None, .. }
            )
        },
    },
    Meant {
        // ZooKeeper gives up at the null and has then told of the paths before it.
        reason: "null path in setWatches: -5 and nothing else",
        applies: |op| {
            let Op::SetWatches { lists, .. } = op else { return false };
            lists.iter().flatten().any(Option::is_none)
        },
    },
    Meant {
        // ZooKeeper's writer makes two surrogates of three bytes each of such a character.
        reason: "characters above U+FFFF where an answer repeats them: UTF-8",
        applies: |op| match op {
            Op::At { code: op::SYNC, path: Some(path) } => is_beyond(path),
            Op::SetWatches { lists, .. } => {
                lists.iter().flatten().flatten().any(|path| is_beyond(path))
            }
            _ => false,
        },
    },
    Meant {
        // ZooKeeper's PathTrie has no root to put it in: it ends, at each start again.
        reason: "a quota of everything: -8",
        applies: |op| match op {
            Op::Multi { parts, .. } => parts.iter().any(is_root_quota),
            op => is_root_quota(op),
        },
    },
];

fn is_root_quota(op: &Op) -> bool {
    matches!(op, Op::Create { path: Some(path), .. } if path.starts_with(ROOT_QUOTA))
}

fn is_beyond(path: &str) -> bool {
    path.chars().any(|char| char > '\u{ffff}')
}

/// Why a request is never sent, if so.
pub(crate) fn reason(op: &Op) -> Option<&'static str> {
    let op = if let Op::Cut { op, .. } = op { op } else { op };
    MEANT.iter().find(|meant| (meant.applies)(op)).map(|meant| meant.reason)
}
