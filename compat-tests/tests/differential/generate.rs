//! Random scripts that mostly succeed: the generator remembers what the reference answered.

mod provoke;
mod requests;
mod values;

use std::collections::VecDeque;

use crate::answer::Part;
use crate::known::Known;
use crate::meant;
use crate::script::{AclEntry, Action, Attempt, Op, Step, op};
use crate::side::{Outcome, Told, open_acl};
use compat_tests::random::Random;

const UNKNOWN_OPS: [i32; 7] = [0, -1, 10, 13, 23, 99, 1000];

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
    /// A script of its own for each seed; `large`: on a tree that has had thousands of znodes
    /// before.
    pub(crate) fn new(seed: u64, large: bool) -> Self {
        let mut random = Random::new(seed);
        let theme = Theme {
            clients: 3 + random.below(3),
            steps: 40 + random.below(80),
            quota: random.chance(15) && !large,
            many_identities: random.chance(30),
        };
        let mut generator = Self {
            random,
            theme,
            known: Known::new(theme.clients, large),
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
            Action::Reattach(attempt) => Action::Reattach(attempt),
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
                Action::Reattach(match self.random.below(10) {
                    0 => Some(Attempt::Password),
                    1 => Some(Attempt::Zxid),
                    _ => None,
                })
            }
            // Slow: it takes until the session is over.
            6 if self.random.chance(25) => {
                // They are sent in one segment.
                let more = if self.theme.quota { 0 } else { self.random.below(4) };
                let mut ops: Vec<Op> = (0..more).map(|_| self.ephemeral()).collect();
                ops.push(self.ephemeral());
                Action::Die(ops)
            }
            6..10 => Action::Send(vec![Op::Bare { code: op::CLOSE_SESSION }]),
            10 => Action::Send(vec![Op::Bare { code: *self.random.pick(&UNKNOWN_OPS) }]),
            11..16 => Action::Send(vec![self.auth(client)]),
            16 => Action::Send(vec![self.sasl()]),
            17..29 if self.theme.quota => Action::Send(vec![self.tight_quota()]),
            17..37 => Action::Send(vec![self.provoke(client)]),
            37..110 if !self.theme.quota => Action::Send(self.burst(client)),
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
            writes &= op.code() != op::SET_ACL && !leaves_changes(&op) && !is_between(&op);
            ops.push(op);
        }
        if self.random.chance(3) && !ops.iter().any(|op| is_between(op) || leaves_changes(op)) {
            ops.push(Op::Bare { code: op::CLOSE_SESSION });
        }
        ops
    }

    fn op(&mut self, client: usize) -> Op {
        match self.random.weighted(&[22, 9, 12, 5, 26, 10, 9, 3, 12, 2, 3]) {
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
            Op::Read { path: Some(path), .. } => known.set(path, part.versions, None, client),
            _ => {}
        }
    }
}

/// The request, or a ping where the servers differ on purpose.
fn unless_meant(op: Op) -> Op {
    if meant::reason(&op).is_some() { Op::Bare { code: op::PING } } else { op }
}

/// Whether this makes a container in an ephemeral mode: to ZooKeeper an ephemeral znode, childless
/// and gone with its session, until it has been applied, and a container from then on.
fn is_between(op: &Op) -> bool {
    match op {
        Op::Create { code: op::CREATE_CONTAINER, flags, .. } => matches!(flags, 1 | 3),
        Op::Multi { parts, .. } => parts.iter().any(is_between),
        _ => false,
    }
}

/// Whether ZooKeeper fails in the middle of this multi by an exception that it does not expect, a
/// null in an ACL: what the parts before it would have changed then holds for its next checks
/// (`PrepRequestProcessor.outstandingChanges`) until the failure has been applied.
fn leaves_changes(op: &Op) -> bool {
    let is_null = |entry: &AclEntry| entry.scheme.is_none() || entry.id.is_none();
    let Op::Multi { parts, .. } = op else { return false };
    parts.iter().any(|part| match part {
        Op::Create { acl: Some(entries), .. } => entries.iter().any(is_null),
        _ => false,
    })
}
