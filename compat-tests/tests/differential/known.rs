//! What a generator knows of the tree: enough to choose requests that mostly succeed, and never
//! the expectation of a test.

use std::collections::BTreeMap;

use crate::script::{AclEntry, Path};
use crate::side::{SUPER_TOKEN, TOUCHED, open_acl, resident};
use compat_tests::random::Random;

/// Tries before a znode is taken that may refuse.
const TRIES: usize = 8;

#[derive(Debug)]
struct Znode {
    version: i32,
    aversion: i32,
    acl: Vec<AclEntry>,
    owner: Option<usize>,
}

#[derive(Clone, Debug, Default)]
struct Client {
    /// Tokens of addauth.
    identities: Vec<String>,
    /// Path and type, as removeWatches has it.
    watches: Vec<(String, i32)>,
}

/// Znodes below and including the top, and what the clients are.
#[derive(Debug)]
pub(crate) struct Known {
    znodes: BTreeMap<String, Znode>,
    clients: Vec<Client>,
    /// Limits and statistics of the script's quotas.
    pub(crate) quotas: Vec<String>,
}

impl Known {
    pub(crate) fn new(clients: usize, large: bool) -> Self {
        let open = || Znode { version: 0, aversion: 0, acl: open_acl(), owner: None };
        let mut znodes = BTreeMap::from([("$".to_string(), open())]);
        if large {
            znodes.extend((0..TOUCHED).map(|number| (resident("$", number), open())));
        }
        Self { znodes, clients: vec![Client::default(); clients], quotas: Vec::new() }
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.znodes.contains_key(path)
    }

    pub(crate) fn any(&self, random: &mut Random) -> String {
        let at = random.below(self.znodes.len());
        self.znodes.keys().nth(at).cloned().unwrap_or_default()
    }

    fn parent(path: &str) -> &str {
        path.rsplit_once('/').map_or("", |(parent, _)| parent)
    }

    fn may(&self, client: usize, path: &str, perm: i32) -> bool {
        if self.is_super(client) {
            return true;
        }
        let identities = &self.clients[client].identities;
        let Some(znode) = self.znodes.get(path) else { return false };
        znode.acl.iter().filter(|entry| entry.perms & perm != 0).any(|entry| {
            let id = entry.id.as_deref().unwrap_or_default();
            match entry.scheme.as_deref().unwrap_or_default() {
                "world" => true,
                "ip" => id.starts_with("127."),
                "digest" => {
                    let user = |text: &str| text.split(':').next().map(str::to_owned);
                    identities.iter().any(|token| user(token) == user(id))
                }
                _ => false,
            }
        })
    }

    /// A znode, mostly one where `client` has `perm` (to delete, on the parent).
    pub(crate) fn some(&self, random: &mut Random, client: usize, perm: i32) -> String {
        let mut path = self.any(random);
        for _ in 0..TRIES {
            let asked = if perm == 8 { Self::parent(&path) } else { &path };
            if self.may(client, asked, perm) {
                break;
            }
            path = self.any(random);
        }
        path
    }

    /// A znode that can have children.
    pub(crate) fn some_parent(&self, random: &mut Random, client: usize) -> String {
        let mut path = self.any(random);
        for _ in 0..TRIES {
            let is_ephemeral = self.znodes.get(&path).is_some_and(|znode| znode.owner.is_some());
            if self.may(client, &path, 4) && !is_ephemeral && path.matches('/').count() < 5 {
                break;
            }
            path = self.any(random);
        }
        path
    }

    /// A znode without children, below the top.
    pub(crate) fn some_leaf(&self, random: &mut Random, client: usize) -> Option<String> {
        let is_leaf = |path: &str| {
            let below = format!("{path}/");
            let next = self.znodes.range(below.clone()..).next();
            next.is_none_or(|(next, _)| !next.starts_with(&below))
        };
        for _ in 0..TRIES {
            let path = self.any(random);
            if path != "$" && is_leaf(&path) && self.may(client, Self::parent(&path), 8) {
                return Some(path);
            }
        }
        None
    }

    fn at(&self, path: &Path) -> Option<&Znode> {
        self.znodes.get(path.as_ref()?)
    }

    pub(crate) fn version(&self, path: &Path) -> i32 {
        self.at(path).map_or(0, |znode| znode.version)
    }

    pub(crate) fn aversion(&self, path: &Path) -> i32 {
        self.at(path).map_or(0, |znode| znode.aversion)
    }

    pub(crate) fn is_super(&self, client: usize) -> bool {
        self.clients[client].identities.iter().any(|token| token == SUPER_TOKEN)
    }

    /// A znode that `client` may not read.
    pub(crate) fn some_secret(&self, random: &mut Random, client: usize) -> Option<String> {
        let secret: Vec<&String> =
            self.znodes.keys().filter(|path| !self.may(client, path, 1)).collect();
        (!secret.is_empty()).then(|| (*random.pick(&secret)).clone())
    }

    pub(crate) fn some_ephemeral(&self, random: &mut Random) -> Option<String> {
        let ephemeral: Vec<&String> = self
            .znodes
            .iter()
            .filter(|(_, znode)| znode.owner.is_some())
            .map(|(path, _)| path)
            .collect();
        (!ephemeral.is_empty()).then(|| (*random.pick(&ephemeral)).clone())
    }

    pub(crate) fn identities(&self, client: usize) -> &[String] {
        &self.clients[client].identities
    }

    pub(crate) fn some_watch(&self, random: &mut Random, client: usize) -> Option<(String, i32)> {
        let watches = &self.clients[client].watches;
        (!watches.is_empty()).then(|| random.pick(watches).clone())
    }

    // What happened.

    pub(crate) fn created(&mut self, client: usize, path: &str, acl: &[AclEntry], ephemeral: bool) {
        if path.starts_with("$/") {
            let acl = self.resolved(client, acl);
            let owner = ephemeral.then_some(client);
            self.znodes.insert(path.into(), Znode { version: 0, aversion: 0, acl, owner });
        }
    }

    /// `auth` stands for who asks.
    fn resolved(&self, client: usize, acl: &[AclEntry]) -> Vec<AclEntry> {
        let mut out = Vec::new();
        for entry in acl {
            if entry.scheme.as_deref() != Some("auth") {
                out.push(entry.clone());
                continue;
            }
            let entries = self.clients[client].identities.iter().map(|token| AclEntry {
                perms: entry.perms,
                scheme: Some("digest".into()),
                id: Some(token.clone()),
            });
            out.extend(entries);
        }
        out
    }

    pub(crate) fn deleted(&mut self, path: &str) {
        // Scripts spare the top; at worst they go on as if it were there.
        if path != "$" {
            self.znodes.remove(path);
        }
    }

    pub(crate) fn set(
        &mut self,
        path: &str,
        versions: Option<(i32, i32)>,
        acl: Option<&[AclEntry]>,
        client: usize,
    ) {
        let acl = acl.map(|acl| self.resolved(client, acl));
        if let (Some(znode), Some((version, aversion))) = (self.znodes.get_mut(path), versions) {
            (znode.version, znode.aversion) = (version, aversion);
            if let Some(acl) = acl {
                znode.acl = acl;
            }
        }
    }

    pub(crate) fn authenticated(&mut self, client: usize, token: &[u8]) {
        let token = String::from_utf8_lossy(token).into_owned();
        self.clients[client].identities.push(token);
    }

    pub(crate) fn closed(&mut self, client: usize) {
        self.znodes.retain(|_, znode| znode.owner != Some(client));
        self.clients[client] = Client::default();
    }

    pub(crate) fn reconnected(&mut self, client: usize) {
        self.clients[client] = Client::default();
    }

    pub(crate) fn watches(&mut self, client: usize, path: &str, kind: i32) {
        let watches = &mut self.clients[client].watches;
        let watch = (path.to_string(), kind);
        if !watches.contains(&watch) {
            watches.push(watch);
        }
    }

    pub(crate) fn unwatched(&mut self, client: usize, path: &str, kind: i32) {
        self.clients[client]
            .watches
            .retain(|(watched, known)| watched != path || (kind != 3 && *known != kind));
    }

    /// One-shot watches are gone with their event.
    pub(crate) fn told(&mut self, client: usize, event: i32, path: &str) {
        let gone = |kind: i32| match event {
            2 => kind < 3,
            4 => kind == 1,
            _ => kind == 2,
        };
        self.clients[client].watches.retain(|(watched, kind)| watched != path || !gone(*kind));
        if event == 2 {
            self.deleted(path);
        }
    }
}
