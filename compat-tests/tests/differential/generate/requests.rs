//! One request of each kind, for a client that the generator knows.

use super::Generator;
use super::values::{ADMIN, DELETE, IDENTITIES, READ, WRITE};
use crate::script::{Data, Op, Path, Since, op};
use crate::side::{SUPER_TOKEN, open_acl};

impl Generator {
    pub(super) fn create(&mut self, client: usize) -> Op {
        if !self.known.quotas.is_empty() && self.random.chance(3) {
            // Again, after somebody has deleted it.
            let (path, data) = (self.random.pick(&self.known.quotas).clone(), self.limits());
            let (path, data, acl) = (Some(path), Some(data.into_bytes()), Some(open_acl()));
            return Op::Create { code: op::CREATE, path, data, acl, flags: 0, ttl: -1 };
        }
        let code = [op::CREATE, op::CREATE2, op::CREATE_CONTAINER, op::CREATE_TTL]
            [self.random.weighted(&[9, 9, 2, 3])];
        let path = self.free_path(client);
        let odd = self.random.chance(3);
        let flags = match code {
            _ if odd => *self.random.pick(&[-1, 0, 1, 2, 3, 4, 5, 6, 7, 100]),
            op::CREATE_CONTAINER => 4,
            op::CREATE_TTL => *self.random.pick(&[5, 6]),
            _ => *self.random.pick(&[0, 0, 0, 0, 0, 1, 1, 2, 3, 4]),
        };
        const LONGEST: i64 = 0xff_ffff_ffff;
        let ttl = match code {
            op::CREATE_TTL if self.random.chance(8) => {
                *self.random.pick(&[0, -1, LONGEST + 1, i64::MAX, i64::MIN])
            }
            op::CREATE_TTL => *self.random.pick(&[100_000_000, LONGEST]),
            _ => -1,
        };
        Op::Create { code, path, data: self.data(), acl: self.acl(client), flags, ttl }
    }

    pub(super) fn ephemeral(&mut self) -> Op {
        let path = self.free_path(0);
        let flags = *self.random.pick(&[1, 1, 3]);
        Op::Create { code: op::CREATE2, path, data: None, acl: Some(open_acl()), flags, ttl: -1 }
    }

    pub(super) fn delete(&mut self, client: usize) -> Op {
        let path = if self.random.chance(75) {
            self.known.some_leaf(&mut self.random, client).map(Some)
        } else {
            None
        };
        let path = path.unwrap_or_else(|| self.path(client, DELETE));
        let mut version = self.version(self.known.version(&path));
        if path.as_deref() == Some("$") {
            // Without the top nothing else would succeed.
            version = 9_999;
        }
        Op::Versioned { code: op::DELETE, path, version }
    }

    fn check(&mut self, client: usize) -> Op {
        let path = self.path(client, READ);
        let version = self.version(self.known.version(&path));
        Op::Versioned { code: op::CHECK, path, version }
    }

    pub(super) fn set_data(&mut self, client: usize) -> Op {
        if self.random.chance(2) {
            let path = *self.random.pick(&["/", "/zookeeper"]);
            return Op::SetData { path: Some(path.into()), data: self.data(), version: -1 };
        }
        let path = self.path(client, WRITE);
        let version = self.version(self.known.version(&path));
        let data = self.data_for(path.as_deref().unwrap_or_default());
        Op::SetData { path, data, version }
    }

    /// What may stand in a znode that exists.
    fn data_for(&mut self, path: &str) -> Data {
        match path.rsplit_once('/').map(|(_, name)| name) {
            Some("zookeeper_limits") => Some(self.limits().into_bytes()),
            // ZooKeeper ends when it cannot read this one.
            Some("zookeeper_stats") => Some(b"count=2,bytes=9".to_vec()),
            _ => self.data(),
        }
    }

    pub(super) fn set_acl(&mut self, client: usize) -> Op {
        let path = self.path(client, ADMIN);
        let is_ours = path.as_ref().is_none_or(|path| path.starts_with('$'));
        let acl = if is_ours { self.acl(client) } else { Some(open_acl()) };
        let version = self.version(self.known.aversion(&path));
        Op::SetAcl { path, acl, version }
    }

    pub(super) fn read(&mut self, client: usize) -> Op {
        let codes = [op::EXISTS, op::GET_DATA, op::GET_CHILDREN, op::GET_CHILDREN2];
        let code = *self.random.pick(&codes);
        let path = if code == op::EXISTS && self.random.chance(25) {
            self.free_path(client)
        } else {
            self.path(client, READ)
        };
        Op::Read { code, path, watch: self.random.chance(55) }
    }

    pub(super) fn look(&mut self, client: usize) -> Op {
        match self.random.weighted(&[16, 6, 8, 4, 4, 4, 1]) {
            0 => Op::At { code: op::GET_ACL, path: self.path(client, READ) },
            1 => Op::At { code: op::ALL_CHILDREN_NUMBER, path: self.path(client, READ) },
            2 => {
                let prefixes = ["", "/", "$", "$/", "$/a", "$/a/", " ", "/nosuch"];
                let prefix = (*self.random.pick(&prefixes)).into();
                let path = if self.random.chance(5) { None } else { Some(prefix) };
                Op::At { code: op::GET_EPHEMERALS, path }
            }
            3 => Op::At { code: op::SYNC, path: self.path(client, READ) },
            4 => Op::Bare { code: op::PING },
            5 => Op::Bare { code: op::WHO_AM_I },
            _ => self.reconfig(),
        }
    }

    pub(super) fn multi(&mut self, client: usize) -> Op {
        let count = self.random.weighted(&[1, 4, 5, 4, 2, 1, 1]);
        let mut parts: Vec<Op> = (0..count)
            .map(|_| match self.random.weighted(&[10, 5, 6, 4]) {
                0 => self.create(client),
                1 => self.delete(client),
                2 => self.set_data(client),
                _ => self.check(client),
            })
            .collect();
        // A part that depends on the one before.
        let made = match parts.last() {
            Some(Op::Create { path: Some(path), flags: 0 | 4 | 5, .. }) => Some(path.clone()),
            _ => None,
        };
        if let Some(path) = made
            && self.random.chance(50)
        {
            parts.push(match self.random.below(4) {
                0 => Op::Versioned { code: op::DELETE, path: Some(path), version: 0 },
                1 => {
                    let data = self.data_for(&path);
                    Op::SetData { path: Some(path), data, version: 0 }
                }
                2 => Op::Versioned { code: op::CHECK, path: Some(path), version: 0 },
                _ => Op::Create {
                    code: op::CREATE2,
                    path: Some(format!("{path}/n-")),
                    data: self.data(),
                    acl: Some(open_acl()),
                    flags: *self.random.pick(&[0, 1, 2, 3]),
                    ttl: -1,
                },
            });
        }
        if self.random.chance(2) {
            let read = self.read(client);
            parts.push(read);
        }
        Op::Multi { code: op::MULTI, parts }
    }

    pub(super) fn multi_read(&mut self, client: usize) -> Op {
        let parts = (0..self.random.below(5))
            .map(|_| Op::Read {
                code: *self.random.pick(&[op::GET_DATA, op::GET_CHILDREN]),
                path: self.path(client, READ),
                watch: self.random.chance(50),
            })
            .collect();
        let code = if self.random.chance(3) { op::MULTI } else { op::MULTI_READ };
        Op::Multi { code, parts }
    }

    pub(super) fn watch(&mut self, client: usize) -> Op {
        if self.random.chance(40) {
            let kind = if self.random.chance(3) { 2 } else { i32::from(self.random.chance(50)) };
            return Op::Watch { code: op::ADD_WATCH, path: self.watched(client), kind };
        }
        let code = if self.random.chance(50) { op::CHECK_WATCHES } else { op::REMOVE_WATCHES };
        let (path, mut kind) = match self.known.some_watch(&mut self.random, client) {
            Some((path, kind)) if self.random.chance(80) => (Some(path), kind),
            _ => {
                let kind = i32::try_from(1 + self.random.below(5)).expect("small");
                (self.watched(client), kind)
            }
        };
        if self.random.chance(15) {
            kind = *self.random.pick(&[0, 1, 2, 3, 3, 3, 4, 5, 6, -1]);
        }
        Op::Watch { code, path, kind }
    }

    /// Never the empty path: the null one is the same to this server, and another one to ZooKeeper
    /// (docs/architecture.md, "Where it differs from ZooKeeper").
    fn watched(&mut self, client: usize) -> Path {
        not_empty(self.path(client, READ))
    }

    pub(super) fn set_watches(&mut self, client: usize) -> Op {
        let code = *self.random.pick(&[op::SET_WATCHES, op::SET_WATCHES2]);
        let since = match self.random.below(10) {
            0 => Since::Zero,
            1 => Since::Max,
            2..6 => Since::Step(self.next.saturating_sub(1 + self.random.below(4))),
            _ => Since::Step(self.random.below(self.next.max(1))),
        };
        let count = if code == op::SET_WATCHES { 3 } else { 5 };
        let mut lists = Vec::new();
        for list in 0..count {
            let paths = (0..self.random.below(3)).map(|_| match list {
                1 => not_empty(self.free_path(client)),
                _ => self.watched(client),
            });
            lists.push(paths.collect());
        }
        Op::SetWatches { code, since, lists }
    }

    pub(super) fn auth(&mut self, client: usize) -> Op {
        let (scheme, token) = match self.random.below(20) {
            0 => ("digest", Some("nocolon")),
            1 => ("digest", None),
            2 => (*self.random.pick(&["world", "auth", "super", "sasl", "nosuch"]), Some("x:y")),
            3 | 4 => ("ip", Some("anything")),
            5 => ("digest", Some(SUPER_TOKEN)),
            _ => ("digest", Some(self.random.pick(&IDENTITIES).0)),
        };
        let taken = !self.known.identities(client).is_empty();
        if scheme == "digest" && taken && !self.theme.many_identities {
            return Op::Auth { scheme: "ip".into(), token: None };
        }
        Op::Auth { scheme: scheme.into(), token: token.map(|token| token.as_bytes().to_vec()) }
    }

    /// What a server without SASL says to its first packet.
    pub(super) fn sasl(&mut self) -> Op {
        let tokens: [Option<&[u8]>; 3] = [None, Some(b""), Some(b"token")];
        Op::Sasl { token: self.random.pick(&tokens).map(<[u8]>::to_vec) }
    }

    fn reconfig(&mut self) -> Op {
        let members = [None, Some(""), Some("server.1=127.0.0.1:1:2:participant;3"), Some("odd")];
        Op::Reconfig { members: self.random.pick(&members).map(str::to_owned) }
    }

    /// A body that ends too early.
    pub(super) fn cut(&mut self, client: usize) -> Op {
        let op = match self.random.weighted(&[4, 4, 1, 1, 1, 1, 2, 1, 3, 4, 1, 1]) {
            0 => self.create(client),
            1 => {
                let code = *self.random.pick(&[op::CREATE_CONTAINER, op::CREATE_TTL]);
                let (path, acl) = (self.free_path(client), Some(open_acl()));
                Op::Create { code, path, data: None, acl, flags: 4, ttl: 1 }
            }
            2 => self.delete(client),
            3 => self.set_data(client),
            4 => self.set_acl(client),
            5 => self.multi(client),
            6 => self.watch(client),
            7 => self.set_watches(client),
            8 => self.read(client),
            9 => {
                let codes = [op::GET_ACL, op::SYNC, op::GET_EPHEMERALS, op::ALL_CHILDREN_NUMBER];
                Op::At { code: *self.random.pick(&codes), path: self.path(client, READ) }
            }
            10 => self.multi_read(client),
            _ => self.reconfig(),
        };
        let bytes = if self.random.chance(50) { 1 } else { 1 + self.random.below(30) };
        Op::Cut { op: Box::new(op), bytes }
    }
}

fn not_empty(path: Path) -> Path {
    path.filter(|path| !path.is_empty())
}
