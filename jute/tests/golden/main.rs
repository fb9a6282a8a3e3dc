//! Bytes of a real ZooKeeper 3.9.5 against this crate: what they decode to is written out, and
//! encoding gives them back.
//!
//! The dumps are `*.txt` beside this file: a comment line, a name, hex. They were made by
//! ZooKeeper's own record classes, its Java client, its server and the server's files, never by
//! this crate. A dump that no test looks at fails the test of its file.

mod files;
mod numbers;
mod requests;
mod responses;
mod traffic;
mod txns;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Debug;

use jute::protocol::{MultiResult, Request, Response};
use jute::{Acl, Record, decode};

/// The dumps of one file that no test has looked at yet.
struct Golden(BTreeMap<&'static str, &'static [u8]>);

impl Golden {
    fn open(text: &'static str) -> Self {
        let mut dumps = BTreeMap::<&str, Vec<u8>>::new();
        let mut name = "";
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            match line.strip_prefix("    ") {
                Some(hex) => dumps.get_mut(name).expect("a name first").extend(bytes(hex)),
                None if line.is_empty() => {}
                None => {
                    name = line;
                    assert_eq!(dumps.insert(name, Vec::new()), None, "{name} stands twice");
                }
            }
        }
        Self(dumps.into_iter().map(|(name, bytes)| (name, &*bytes.leak())).collect())
    }

    fn take(&mut self, name: &str) -> &'static [u8] {
        self.0.remove(name).unwrap_or_else(|| panic!("no dump {name}, or taken twice"))
    }

    fn finish(self) {
        assert_eq!(self.0.into_keys().collect::<Vec<_>>(), [""; 0], "dumps without a test");
    }

    fn record<T: Record<'static> + PartialEq + Debug>(&mut self, name: &str, expected: &T) {
        let bytes = self.take(name);
        let (value, rest) = decode::<T>(bytes).expect(name);
        assert_eq!((&value, rest), (expected, &[][..]), "{name}");
        assert_eq!(encoded(expected), bytes, "{name}");
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().filter(|digit| *digit != ' ').collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(&String::from_iter(pair), 16).expect("hex"))
        .collect()
}

fn encoded(record: &impl Record<'static>) -> Vec<u8> {
    let mut out = Vec::new();
    record.encode(&mut out);
    out
}

fn encoded_request(request: &Request<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    request.encode(&mut out);
    out
}

/// The server never reads its own responses: a body is read as the variant of `like`.
fn decode_response(like: &Response<'_>, body: &'static [u8]) -> Response<'static> {
    fn all<T: Record<'static>>(body: &'static [u8]) -> T {
        let (value, rest) = decode(body).expect("a body");
        assert_eq!(rest, [0; 0]);
        value
    }
    match like {
        Response::Empty => {
            assert_eq!(body, [0; 0]);
            Response::Empty
        }
        Response::Create(_) => Response::Create(all(body)),
        Response::Create2(_) => Response::Create2(all(body)),
        Response::Stat(_) => Response::Stat(all(body)),
        Response::GetData(_) => Response::GetData(all(body)),
        Response::GetAcl(_) => Response::GetAcl(all(body)),
        Response::Children(_) => Response::Children(all(body)),
        Response::Children2(_) => Response::Children2(all(body)),
        Response::Sync(_) => Response::Sync(all(body)),
        Response::Multi(_) => Response::Multi(MultiResult::decode_all(body).expect("results")),
        Response::Ephemerals(_) => Response::Ephemerals(all(body)),
        Response::AllChildrenNumber(_) => Response::AllChildrenNumber(all(body)),
        Response::Error(_) => Response::Error(all(body)),
        Response::WhoAmI(_) => Response::WhoAmI(all(body)),
        Response::Sasl(_) => Response::Sasl(all(body)),
    }
}

/// The path of most records: characters of two and three bytes.
const PATH: &str = "/käse/雪";

const fn text(text: &'static str) -> Option<Cow<'static, str>> {
    Some(Cow::Borrowed(text))
}

fn texts(texts: &[&'static str]) -> Vec<Cow<'static, str>> {
    texts.iter().copied().map(Cow::Borrowed).collect()
}

fn data(data: impl AsRef<[u8]>) -> Option<Cow<'static, [u8]>> {
    Some(Cow::Owned(data.as_ref().to_vec()))
}

/// The bytes 1, 2, ...
fn count_up(to: u8) -> Option<Cow<'static, [u8]>> {
    Some((1..=to).collect())
}

const fn acl(perms: i32, scheme: &'static str, id: &'static str) -> Acl<'static> {
    Acl { perms, scheme: text(scheme), id: text(id) }
}

/// The list of most records.
fn acls() -> Option<Vec<Acl<'static>>> {
    Some(vec![Acl::anyone(31), acl(1, "digest", "süß:hash=")])
}

fn open() -> Option<Vec<Acl<'static>>> {
    Some(vec![Acl::anyone(31)])
}

macro_rules! stat {
    ($czxid:expr, $mzxid:expr, $ctime:expr, $mtime:expr, $version:expr, $cversion:expr,
     $aversion:expr, $owner:expr, $data_length:expr, $num_children:expr, $pzxid:expr) => {
        jute::Stat {
            czxid: $czxid,
            mzxid: $mzxid,
            ctime: $ctime,
            mtime: $mtime,
            version: $version,
            cversion: $cversion,
            aversion: $aversion,
            ephemeral_owner: $owner,
            data_length: $data_length,
            num_children: $num_children,
            pzxid: $pzxid,
        }
    };
}
use stat;

/// The stat of most records: every field has its own value.
const STAT: jute::Stat = stat!(
    0x0102_0304_0506_0708,
    0x1112_1314_1516_1718,
    0x018f_0000_0000_0001,
    0x018f_0000_0000_0002,
    3,
    -4,
    5,
    0x0100_a0b0_c0d0_e0f0,
    7,
    8,
    0x2122_2324_2526_2728
);
