//! Random scripts that mostly succeed: the generator remembers what the reference answered.

use std::collections::VecDeque;

use crate::answer::Part;
use crate::known::Known;
use crate::meant;
use crate::random::Random;
use crate::script::{AclEntry, AclList, Action, Data, Op, Path, Since, Step, op};
use crate::side::{Outcome, SUPER_TOKEN, Told, open_acl};

const NAMES: [&str; 12] =
    ["a", "b", "c", "d", "ab", "e-", "n", "x.y", "...", "\u{fc}", "\u{4e2d}\u{6587}", "a b"];

/// Paths that hardly exist, or not as paths.
const ODD_PATHS: [&str; 27] = [
    "",
    "/",
    "a",
    "$/",
    "$/a/",
    "$//a",
    "$/./a",
    "$/../a",
    "$/a/.",
    "$/a/..",
    "$/a\0",
    "$/\u{1}",
    "$/\u{1f}",
    "$/\u{7f}",
    "$/\u{9f}",
    "$/\u{a0}",
    "$/\u{d7ff}",
    "$/\u{e000}",
    "$/\u{f900}",
    "$/\u{ffef}",
    "$/\u{fff0}",
    "$/\u{1f600}",
    "$/nosuch/a",
    "/zookeeper",
    "/zookeeper/config",
    "/zookeeper/quota",
    "/zookeeper/quota/zookeeper_limits",
];

const IDENTITIES: [(&str, &str); 2] =
    [("u1:p", "u1:FfP80c+zcEPgU6zorph629PDPJ0="), ("u2:p", "u2:AaHy+pRIUVK2OXJejfBQ3E/DOVQ=")];

const UNKNOWN_OPS: [i32; 7] = [0, -1, 10, 13, 23, 99, 1000];

const READ: i32 = 1;
const WRITE: i32 = 2;
const DELETE: i32 = 8;
const ADMIN: i32 = 16;

/// What a script is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Theme {
    pub(crate) clients: usize,
    pub(crate) steps: usize,
    /// Quotas are checked against what is applied: no two writes at a time.
    pub(crate) quota: bool,
    /// Connections may have several identities: the order in which `auth` names them is open.
    pub(crate) many_identities: bool,
}

/// A script in the making.
#[derive(Debug)]
pub(crate) struct Generator {
    random: Random,
    theme: Theme,
    known: Known,
    /// Id of the next step.
    next: usize,
    /// What has to come first.
    planned: VecDeque<(usize, Action)>,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let theme = Theme {
            clients: 3 + random.below(3),
            steps: 40 + random.below(80),
            quota: random.chance(15),
            many_identities: random.chance(30),
        };
        let mut generator = Self {
            random,
            theme,
            known: Known::new(theme.clients),
            next: 0,
            planned: VecDeque::new(),
        };
        for client in 0..theme.clients {
            generator.plan(client, vec![Op::Bare { code: op::WHO_AM_I }]);
        }
        if theme.quota {
            generator.plan_quota();
        }
        generator
    }

    pub(crate) fn theme(&self) -> Theme {
        self.theme
    }

    fn plan(&mut self, client: usize, ops: Vec<Op>) {
        self.planned.push_back((client, Action::Send(ops)));
    }

    /// One quota, or two of which one is in the other.
    fn plan_quota(&mut self) {
        let limited: &[&str] = match self.random.below(4) {
            0 => &[""],
            1 => &["", "/a"],
            2 => &["/a", "/a/b"],
            _ => &["/a"],
        };
        self.plan_plain("/zookeeper/quota$", "");
        for path in ["/a", "/a/b"] {
            if limited.iter().any(|limited| limited.starts_with(path)) {
                self.plan_plain(&format!("${path}"), "quota");
                self.plan_plain(&format!("/zookeeper/quota${path}"), "");
            }
        }
        for path in limited {
            let limits = format!("/zookeeper/quota${path}/zookeeper_limits");
            let stats = format!("/zookeeper/quota${path}/zookeeper_stats");
            let text = self.limits();
            self.plan_plain(&limits, &text);
            self.plan_plain(&stats, "count=0,bytes=0");
            self.known.quotas.extend([limits, stats.clone(), stats]);
        }
    }

    fn plan_plain(&mut self, path: &str, data: &str) {
        let create = Op::Create {
            code: op::CREATE2,
            path: Some(path.into()),
            data: Some(data.into()),
            acl: Some(open_acl()),
            flags: 0,
            ttl: -1,
        };
        self.plan(0, vec![create]);
    }

    /// What stands in zookeeper_limits; sometimes not as setquota writes it, but always such that
    /// ZooKeeper can read it: else it refuses every write below with -5.
    fn limits(&mut self) -> String {
        let mut count = || *self.random.pick(&[-1, 3, 5, 8, 12, 40, 400]);
        let counts = [count(), count()];
        let mut bytes = || *self.random.pick(&[-1, 10, 40, 300, 1000, 6000]);
        let bytes = [bytes(), bytes()];
        let soft = format!("count={},bytes={}", counts[0], bytes[0]);
        match self.random.below(20) {
            0..4 => soft,
            4 => format!("{soft};countHardLimit={}", counts[1]),
            5 => format!("{soft};byteHardLimit={},other=1", bytes[1]),
            _ => format!("{soft}=;byteHardLimit={};countHardLimit={}", bytes[1], counts[1]),
        }
    }

    /// The next step, unless the script is over.
    pub(crate) fn next(&mut self) -> Option<Step> {
        if self.next >= self.theme.steps {
            return None;
        }
        let (client, action) = match self.planned.pop_front() {
            Some(planned) => planned,
            None => {
                let client = self.random.below(self.theme.clients);
                (client, self.action(client))
            }
        };
        let allowed = |ops: Vec<Op>| ops.into_iter().map(unless_meant).collect();
        let action = match action {
            Action::Send(ops) => Action::Send(allowed(ops)),
            Action::Die(ops) => Action::Die(allowed(ops)),
            Action::Reattach => Action::Reattach,
        };
        let id = self.next;
        self.next += 1;
        Some(Step { id, client, action })
    }

    fn action(&mut self, client: usize) -> Action {
        match self.random.below(400) {
            0..6 => {
                if self.random.chance(80) {
                    let catch_up = self.set_watches(client);
                    self.plan(client, vec![catch_up]);
                }
                Action::Reattach
            }
            // Slow: it takes until the session is over.
            6 if self.random.chance(25) => {
                let mut ops: Vec<Op> =
                    (0..self.random.below(4)).map(|_| self.ephemeral()).collect();
                ops.push(self.ephemeral());
                Action::Die(ops)
            }
            6..10 => Action::Send(vec![Op::Bare { code: op::CLOSE_SESSION }]),
            10 => Action::Send(vec![Op::Bare { code: *self.random.pick(&UNKNOWN_OPS) }]),
            11..16 => Action::Send(vec![self.auth(client)]),
            16..90 if !self.theme.quota => Action::Send(self.burst(client)),
            _ => Action::Send(vec![self.op(client)]),
        }
    }

    /// Several requests that do not depend on which of them ZooKeeper has applied when it looks
    /// at the next one: an ACL that is set holds for its checks only once it is applied.
    fn burst(&mut self, client: usize) -> Vec<Op> {
        let mut ops = Vec::new();
        let mut writes = true;
        for _ in 0..2 + self.random.below(5) {
            let mut op = self.op(client);
            while op.is_write() && !writes {
                op = self.read(client);
            }
            writes &= op.code() != op::SET_ACL;
            ops.push(op);
        }
        if self.random.chance(3) {
            ops.push(Op::Bare { code: op::CLOSE_SESSION });
        }
        ops
    }

    fn op(&mut self, client: usize) -> Op {
        match self.random.weighted(&[22, 9, 12, 5, 26, 10, 9, 3, 12, 2, 2]) {
            0 => self.create(client),
            1 => self.delete(client),
            2 => self.set_data(client),
            3 => self.set_acl(client),
            4 => self.read(client),
            5 => self.look(client),
            6 => self.multi(client),
            7 => self.multi_read(client),
            8 => self.watch(client),
            9 => self.set_watches(client),
            _ => self.cut(client),
        }
    }

    // Paths.

    /// Mostly a znode where `client` has `perm`.
    fn path(&mut self, client: usize, perm: i32) -> Path {
        match self.random.below(100) {
            0..3 => Some((*self.random.pick(&ODD_PATHS)).into()),
            3 => self.random.chance(30).then(|| "$".into()),
            4..9 => Some(self.new_path(client)),
            9..13 if !self.known.quotas.is_empty() => {
                Some(self.random.pick(&self.known.quotas).clone())
            }
            _ => Some(self.known.some(&mut self.random, client, perm)),
        }
    }

    fn name(&mut self) -> String {
        if self.random.chance(1) {
            return "long".repeat(60);
        }
        (*self.random.pick(&NAMES)).into()
    }

    fn new_path(&mut self, client: usize) -> String {
        let parent = self.known.some_parent(&mut self.random, client);
        format!("{parent}/{}", self.name())
    }

    /// Where a create will most likely succeed.
    fn free_path(&mut self, client: usize) -> Path {
        if self.random.chance(4) {
            return Some((*self.random.pick(&ODD_PATHS)).into());
        }
        if self.random.below(300) == 0 {
            return None;
        }
        let mut path = self.new_path(client);
        if self.random.chance(5) {
            let any = self.known.any(&mut self.random);
            let below = format!("{any}/{}", self.name());
            return Some(if self.random.chance(50) { any } else { below });
        }
        for _ in 0..3 {
            if !self.known.has(&path) {
                break;
            }
            path = self.new_path(client);
        }
        Some(path)
    }

    // Values.

    fn data(&mut self) -> Data {
        Some(match self.random.below(20) {
            0 | 1 => return None,
            2 | 3 => Vec::new(),
            4 => vec![7; 300],
            5 if self.random.chance(20) => vec![b'x'; 20_000],
            n => format!("data {n}").into_bytes(),
        })
    }

    fn acl(&mut self, client: usize) -> AclList {
        let entry = |perms, scheme: &str, id: &str| AclEntry {
            perms,
            scheme: Some(scheme.into()),
            id: Some(id.into()),
        };
        let all = 31;
        let some = i32::try_from(self.random.below(32)).expect("below 32");
        let (_, digest) = *self.random.pick(&IDENTITIES);
        Some(match self.random.below(100) {
            0..66 => open_acl(),
            66..70 => vec![entry(READ, "world", "anyone")],
            70..74 => vec![entry(some, "world", "anyone")],
            74..76 => vec![entry(all & !some, "world", "anyone"), entry(all, "digest", digest)],
            76..79 => vec![entry(all, "digest", digest)],
            79..84 if !self.known.identities(client).is_empty() => {
                vec![entry(all, "auth", ""), entry(READ, "world", "anyone")]
            }
            79..84 => vec![entry(all, "ip", "127.0.0.1")],
            84 => vec![entry(all, "auth", "ignored"), entry(all, "auth", "")],
            85 => vec![entry(all, "ip", "127.0.0.0/8")],
            86 => vec![entry(all, "ip", "10.0.0.0/8"), entry(READ | ADMIN, "world", "anyone")],
            87 => vec![entry(all, "ip", "::1"), entry(all, "ip", "127.0.0.1/32")],
            88 => {
                let open = entry(all, "world", "anyone");
                vec![open.clone(), entry(READ, "world", "anyone"), open]
            }
            89 => vec![entry(*self.random.pick(&[0, 255, -1, 64, i32::MAX]), "world", "anyone")],
            90 => return None,
            91 => Vec::new(),
            92 => {
                let ids = ["nocolon", "a:b:c", "", ":"];
                vec![entry(all, "digest", ids[self.random.below(ids.len())])]
            }
            93 => {
                let ids = ["", "300.1.1.1", "1.2.3", "127.0.0.1/33", "127.0.0.1/", "x", "::/0"];
                vec![entry(all, "ip", ids[self.random.below(ids.len())])]
            }
            94 => {
                let ids = ["other", "", "Anyone"];
                vec![entry(all, "world", ids[self.random.below(ids.len())])]
            }
            95 => {
                let schemes = ["super", "sasl", "x509", "nosuch", "", "World"];
                vec![entry(all, schemes[self.random.below(schemes.len())], "id")]
            }
            96 => vec![AclEntry { perms: all, scheme: None, id: Some("anyone".into()) }],
            97 => vec![AclEntry { perms: all, scheme: Some("world".into()), id: None }],
            98 => vec![entry(all, "world", "anyone"), entry(all, "nosuch", "id")],
            _ => vec![entry(some, "ip", "127.0.0.1"), entry(!some & all, "digest", digest)],
        })
    }

    fn version(&mut self, current: i32) -> i32 {
        match self.random.below(20) {
            0..10 => -1,
            10..18 => current,
            18 => current.wrapping_add(1),
            _ => *self.random.pick(&[-2, 77, i32::MIN, i32::MAX, 0]),
        }
    }

    // Requests.

    fn create(&mut self, client: usize) -> Op {
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
            _ => *self.random.pick(&[0, 0, 0, 0, 0, 1, 1, 2, 3]),
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

    fn ephemeral(&mut self) -> Op {
        let path = self.free_path(0);
        let flags = *self.random.pick(&[1, 1, 3]);
        Op::Create { code: op::CREATE2, path, data: None, acl: Some(open_acl()), flags, ttl: -1 }
    }

    fn delete(&mut self, client: usize) -> Op {
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

    fn set_data(&mut self, client: usize) -> Op {
        if self.random.chance(2) {
            let path = *self.random.pick(&["/", "/zookeeper"]);
            return Op::SetData { path: Some(path.into()), data: self.data(), version: -1 };
        }
        let path = self.path(client, WRITE);
        let version = self.version(self.known.version(&path));
        let name = path.as_deref().and_then(|path| path.rsplit_once('/')).map(|(_, name)| name);
        let data = match name {
            Some("zookeeper_limits") => Some(self.limits().into_bytes()),
            // ZooKeeper ends when it cannot read this one.
            Some("zookeeper_stats") => Some(b"count=2,bytes=9".to_vec()),
            _ => self.data(),
        };
        Op::SetData { path, data, version }
    }

    fn set_acl(&mut self, client: usize) -> Op {
        let path = self.path(client, ADMIN);
        let is_ours = path.as_ref().is_none_or(|path| path.starts_with('$'));
        let acl = if is_ours { self.acl(client) } else { Some(open_acl()) };
        let version = self.version(self.known.aversion(&path));
        Op::SetAcl { path, acl, version }
    }

    fn read(&mut self, client: usize) -> Op {
        let codes = [op::EXISTS, op::GET_DATA, op::GET_CHILDREN, op::GET_CHILDREN2];
        let code = *self.random.pick(&codes);
        let path = if code == op::EXISTS && self.random.chance(25) {
            self.free_path(client)
        } else {
            self.path(client, READ)
        };
        Op::Read { code, path, watch: self.random.chance(55) }
    }

    fn look(&mut self, client: usize) -> Op {
        match self.random.weighted(&[8, 3, 4, 2, 2, 2]) {
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
            _ => Op::Bare { code: op::WHO_AM_I },
        }
    }

    fn multi(&mut self, client: usize) -> Op {
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
                1 => Op::SetData { path: Some(path), data: self.data(), version: 0 },
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

    fn multi_read(&mut self, client: usize) -> Op {
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

    fn watch(&mut self, client: usize) -> Op {
        if self.random.chance(40) {
            let kind = if self.random.chance(3) { 2 } else { i32::from(self.random.chance(50)) };
            return Op::Watch { code: op::ADD_WATCH, path: self.path(client, READ), kind };
        }
        let code = if self.random.chance(50) { op::CHECK_WATCHES } else { op::REMOVE_WATCHES };
        let (path, mut kind) = match self.known.some_watch(&mut self.random, client) {
            Some((path, kind)) if self.random.chance(80) => (Some(path), kind),
            _ => {
                let kind = i32::try_from(1 + self.random.below(5)).expect("small");
                (self.path(client, READ), kind)
            }
        };
        if self.random.chance(15) {
            kind = *self.random.pick(&[0, 1, 2, 3, 3, 3, 4, 5, 6, -1]);
        }
        Op::Watch { code, path, kind }
    }

    fn set_watches(&mut self, client: usize) -> Op {
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
                1 => self.free_path(client),
                _ => self.path(client, READ),
            });
            lists.push(paths.collect());
        }
        Op::SetWatches { code, since, lists }
    }

    fn auth(&mut self, client: usize) -> Op {
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

    /// A body that ends too early.
    fn cut(&mut self, client: usize) -> Op {
        let op = match self.random.below(8) {
            0 => self.create(client),
            1 => self.delete(client),
            2 => self.set_data(client),
            3 => self.set_acl(client),
            4 => self.multi(client),
            5 => self.watch(client),
            6 => self.set_watches(client),
            _ => self.read(client),
        };
        let bytes = if self.random.chance(50) { 1 } else { 1 + self.random.below(30) };
        Op::Cut { op: Box::new(op), bytes }
    }

    // What came of it.

    /// Takes note of what the reference answered.
    pub(crate) fn learn(&mut self, step: &Step, outcome: &Outcome) {
        let client = step.client;
        if outcome.reconnected {
            self.known.reconnected(client);
        }
        if let Action::Send(ops) = &step.action {
            for (op, answer) in ops.iter().zip(&outcome.answers) {
                match op {
                    Op::Multi { parts, .. } => {
                        for (part, result) in parts.iter().zip(&answer.parts) {
                            self.learn_part(client, part, result);
                        }
                    }
                    _ => self.learn_part(client, op, &answer.parts[0]),
                }
            }
        }
        for Told { client, kind, path } in &outcome.events {
            self.known.told(*client, *kind, path);
        }
    }

    fn learn_part(&mut self, client: usize, op: &Op, part: &Part) {
        let known = &mut self.known;
        let watched = match op {
            Op::Read { code: op::EXISTS, path, watch: true } if part.err == -101 => Some((path, 2)),
            _ if part.err != 0 => None,
            Op::Read { code: op::EXISTS | op::GET_DATA, path, watch: true } => Some((path, 2)),
            Op::Read { path, watch: true, .. } => Some((path, 1)),
            Op::Watch { code: op::ADD_WATCH, path, kind } => Some((path, 4 + kind)),
            _ => None,
        };
        if let Some((Some(path), kind)) = watched {
            known.watches(client, path, kind);
        }
        if part.err != 0 {
            return;
        }
        match op {
            Op::Create { acl, flags, path, .. } => {
                let path = part.path.as_ref().or(path.as_ref());
                if let (Some(path), Some(acl)) = (path, acl) {
                    known.created(client, path, acl, matches!(flags, 1 | 3));
                }
            }
            Op::Versioned { code: op::DELETE, path: Some(path), .. } => known.deleted(path),
            Op::SetData { path: Some(path), .. } => known.set(path, part.versions, None, client),
            Op::SetAcl { path: Some(path), acl: Some(acl), .. } => {
                known.set(path, part.versions, Some(acl), client);
            }
            Op::Auth { scheme, token: Some(token) } if scheme == "digest" => {
                known.authenticated(client, token);
            }
            Op::Bare { code: op::CLOSE_SESSION } => known.closed(client),
            Op::Watch { code: op::REMOVE_WATCHES, path: Some(path), kind } => {
                known.unwatched(client, path, *kind);
            }
            _ => {}
        }
    }
}

/// The request, or a ping where the servers differ on purpose.
fn unless_meant(op: Op) -> Op {
    if meant::reason(&op).is_some() { Op::Bare { code: op::PING } } else { op }
}
