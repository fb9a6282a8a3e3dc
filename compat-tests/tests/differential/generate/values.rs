//! Paths, data, ACLs and versions: mostly such that a request succeeds.

use super::Generator;
use crate::script::{AclEntry, AclList, Data, Path};
use crate::side::open_acl;

pub(super) const READ: i32 = 1;
pub(super) const WRITE: i32 = 2;
pub(super) const DELETE: i32 = 8;
pub(super) const ADMIN: i32 = 16;

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

pub(super) const IDENTITIES: [(&str, &str); 2] =
    [("u1:p", "u1:FfP80c+zcEPgU6zorph629PDPJ0="), ("u2:p", "u2:AaHy+pRIUVK2OXJejfBQ3E/DOVQ=")];

impl Generator {
    /// Mostly a znode where `client` has `perm`.
    pub(super) fn path(&mut self, client: usize, perm: i32) -> Path {
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

    pub(super) fn name(&mut self) -> String {
        if self.random.chance(1) {
            return "long".repeat(60);
        }
        (*self.random.pick(&NAMES)).into()
    }

    pub(super) fn new_path(&mut self, client: usize) -> String {
        let parent = self.known.some_parent(&mut self.random, client);
        format!("{parent}/{}", self.name())
    }

    /// Where a create will most likely succeed.
    pub(super) fn free_path(&mut self, client: usize) -> Path {
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

    pub(super) fn data(&mut self) -> Data {
        Some(match self.random.below(20) {
            0 | 1 => return None,
            2 | 3 => Vec::new(),
            4 => vec![7; 300],
            5 if self.random.chance(20) => vec![b'x'; 20_000],
            n => format!("data {n}").into_bytes(),
        })
    }

    pub(super) fn acl(&mut self, client: usize) -> AclList {
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

    pub(super) fn version(&mut self, current: i32) -> i32 {
        match self.random.below(20) {
            0..10 => -1,
            10..18 => current,
            18 => current.wrapping_add(1),
            _ => *self.random.pick(&[-2, 77, i32::MIN, i32::MAX, 0]),
        }
    }
}
