//! Requests made to fail: answers that chance alone brings too rarely.

use super::Generator;
use super::values::{DELETE, IDENTITIES};
use crate::script::{AclEntry, Op, op};
use crate::side::open_acl;

const CREATES: [i32; 4] = [op::CREATE, op::CREATE2, op::CREATE_CONTAINER, op::CREATE_TTL];

const BAD_ARGUMENTS: i32 = -8;
const NO_NODE: i32 = -101;
const NO_AUTH: i32 = -102;
const BAD_VERSION: i32 = -103;
const NO_CHILDREN_FOR_EPHEMERALS: i32 = -108;
const NODE_EXISTS: i32 = -110;
const INVALID_ACL: i32 = -114;

const OF_CREATES: [i32; 6] =
    [BAD_ARGUMENTS, NO_NODE, NO_AUTH, NO_CHILDREN_FOR_EPHEMERALS, NODE_EXISTS, INVALID_ACL];

const OF_OTHERS: [(i32, i32); 20] = [
    (op::DELETE, BAD_ARGUMENTS),
    (op::DELETE, NO_AUTH),
    (op::SET_DATA, BAD_ARGUMENTS),
    (op::SET_DATA, NO_AUTH),
    (op::CHECK, BAD_ARGUMENTS),
    (op::CHECK, NO_NODE),
    (op::CHECK, BAD_VERSION),
    (op::SET_ACL, BAD_ARGUMENTS),
    (op::SET_ACL, NO_AUTH),
    (op::EXISTS, BAD_ARGUMENTS),
    (op::ALL_CHILDREN_NUMBER, NO_NODE),
    (op::EXISTS, NO_AUTH),
    (op::GET_DATA, NO_AUTH),
    (op::GET_ACL, NO_AUTH),
    (op::GET_CHILDREN, NO_AUTH),
    (op::GET_CHILDREN2, NO_AUTH),
    (op::ALL_CHILDREN_NUMBER, NO_AUTH),
    (op::CHECK, NO_AUTH),
    (op::MULTI_READ, NO_AUTH),
    (op::MULTI_READ, NO_AUTH),
];

/// Everybody may read it and nobody write.
const LOCKED: &str = "/zookeeper/config";

impl Generator {
    /// A request that most likely gets a certain error, alone or in a multi.
    pub(super) fn provoke(&mut self, client: usize) -> Op {
        let (code, err) = if self.random.chance(60) {
            (*self.random.pick(&CREATES), *self.random.pick(&OF_CREATES))
        } else {
            *self.random.pick(&OF_OTHERS)
        };
        let op = self.failing(client, code, err);
        let fits = matches!(code, op::DELETE | op::SET_DATA) || CREATES.contains(&code);
        if code == op::CHECK || (fits && self.random.chance(60)) {
            return self.among_others(client, op);
        }
        op
    }

    fn among_others(&mut self, client: usize, op: Op) -> Op {
        let mut parts = Vec::new();
        for _ in 0..self.random.below(2) {
            parts.push(self.set_data(client));
        }
        parts.push(op);
        for _ in 0..self.random.below(2) {
            parts.push(self.create(client));
        }
        Op::Multi { code: op::MULTI, parts }
    }

    fn failing(&mut self, client: usize, code: i32, err: i32) -> Op {
        let path = match err {
            BAD_ARGUMENTS => match code {
                op::DELETE => (*self.random.pick(&["/", "a", "", "/zookeeper", "$/\0"])).into(),
                op::EXISTS => (*self.random.pick(&["$/\0", "\0", "$\0a"])).into(),
                _ => (*self.random.pick(&["$/.", "$/\u{1}", "$/a/\u{1}", "a"])).into(),
            },
            NO_NODE => "$/nosuch/a".into(),
            NO_AUTH if self.known.is_super(client) => self.known.any(&mut self.random),
            NO_AUTH if matches!(code, op::SET_DATA | op::SET_ACL) => LOCKED.into(),
            NO_AUTH if code == op::DELETE || CREATES.contains(&code) => format!("{LOCKED}/a"),
            NO_AUTH => match self.known.some_secret(&mut self.random, client) {
                Some(path) => path,
                // The next one finds it.
                None => return self.secret(client),
            },
            NO_CHILDREN_FOR_EPHEMERALS => match self.known.some_ephemeral(&mut self.random) {
                Some(path) => format!("{path}/a"),
                // The next one finds it.
                None => return self.ephemeral(),
            },
            _ => self.known.some(&mut self.random, client, DELETE),
        };
        let path = Some(path);
        let version = if err == BAD_VERSION { 9_999 } else { -1 };
        match code {
            op::DELETE if path.as_deref() == Some("$") => self.delete(client),
            op::DELETE | op::CHECK => Op::Versioned { code, path, version },
            op::SET_DATA => Op::SetData { path, data: self.data(), version },
            op::SET_ACL => Op::SetAcl { path, acl: Some(open_acl()), version },
            op::EXISTS | op::GET_DATA | op::GET_CHILDREN | op::GET_CHILDREN2 => {
                Op::Read { code, path, watch: true }
            }
            op::GET_ACL | op::ALL_CHILDREN_NUMBER => Op::At { code, path },
            op::MULTI_READ => {
                let read = |code| Op::Read { code, path: path.clone(), watch: false };
                Op::Multi { code, parts: vec![read(op::GET_DATA), read(op::GET_CHILDREN)] }
            }
            _ => {
                let acl = if err == INVALID_ACL { None } else { Some(open_acl()) };
                let (flags, ttl) = match code {
                    op::CREATE_CONTAINER => (4, -1),
                    op::CREATE_TTL => (5, 100_000_000),
                    _ => (0, -1),
                };
                Op::Create { code, path, data: self.data(), acl, flags, ttl }
            }
        }
    }

    /// A znode that only one identity may read.
    fn secret(&mut self, client: usize) -> Op {
        let (path, (_, id)) = (self.free_path(client), *self.random.pick(&IDENTITIES));
        let entry = AclEntry { perms: 31, scheme: Some("digest".into()), id: Some(id.into()) };
        let acl = Some(vec![entry]);
        Op::Create { code: op::CREATE2, path, data: None, acl, flags: 0, ttl: -1 }
    }

    /// A quota that nothing fits in, what it refuses, and the quota it was or another one: the
    /// first of these requests, the others are planned.
    pub(super) fn tight_quota(&mut self) -> Op {
        let limits = self.random.pick(&self.known.quotas).clone();
        let limits = limits.replace("/zookeeper_stats", "/zookeeper_limits");
        let limited = limits.replace("/zookeeper/quota", "").replace("/zookeeper_limits", "");
        let data = |text: &str| Some(text.as_bytes().to_vec());
        for _ in 0..2 + self.random.below(3) {
            let client = self.random.below(self.theme.clients);
            let code = *self.random.pick(&[CREATES.as_slice(), &[op::SET_DATA]].concat());
            let op = match self.failing(client, code, 0) {
                Op::Create { code, acl, flags, ttl, .. } => {
                    let path = Some(format!("{limited}/{}", self.name()));
                    Op::Create { code, path, data: data("too much"), acl, flags, ttl }
                }
                _ => {
                    Op::SetData { path: Some(limited.clone()), data: data("too much"), version: -1 }
                }
            };
            let op = if self.random.chance(60) { self.among_others(client, op) } else { op };
            self.plan(client, vec![op]);
        }
        let restored = Op::SetData {
            path: Some(limits.clone()),
            data: Some(self.limits().into_bytes()),
            version: -1,
        };
        self.plan(0, vec![restored]);
        let tight = "count=-1,bytes=-1=;byteHardLimit=1;countHardLimit=1";
        Op::SetData { path: Some(limits), data: data(tight), version: -1 }
    }
}
