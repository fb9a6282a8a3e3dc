//! What clients ask for: random requests about the paths that mean something to ZooKeeper, and
//! about those that only look as if they did.

use bytes::BufMut;
use compat_tests::random::Random;
use compat_tests::request::{self, mode, op};

/// Paths below which the scripts work. `quotaZookeeper` has 16 characters; ZooKeeper counts on it
/// where it cuts paths.
const PLACES: [&str; 36] = [
    "",
    "/a",
    "/a/b",
    "/ ",
    "/a/ /b",
    "/zookeeper",
    "/zookeeper/config",
    "/zookeeper/config/x",
    "/zookeeper/quota",
    "/zookeeper/quota/a",
    "/zookeeper/quota/a/b",
    "/zookeeper/quota/ ",
    "/zookeeper/quota/a/ ",
    "/zookeeper/quota/ /a",
    "/zookeeper/quota/zookeeper",
    "/zookeeper/quota/zookeeper/quota",
    "/zookeeper/quota/zookeeper/quota/a",
    "/zookeeper/quota/zookeeper_limitsx",
    "/zookeeper/quota/zookeeper_statsx",
    "/zookeeper/quota/a/zookeeper_limits",
    "/zookeeper/quota/a/zookeeper_limits/x",
    "/zookeeper/quota/a/zookeeper_stats",
    "/zookeeper/quotax",
    "/zookeeper/quotax/a",
    "/zookeeper/quota ",
    "/zookeeper/abcd",
    "/zookeeper/abcde",
    "/zookeeper/abcdef",
    "/zookeeper/abcde /a",
    "/zookeeper/abcde ",
    "/zookeeper/äbcde",
    "/zookeeperx",
    "/zookeeperabcdef",
    "/zookeeperabcdef ",
    "/zookeepera",
    "/zookeeper_limits",
];

const NAMES: [&str; 9] = [
    "zookeeper_limits",
    "zookeeper_limits",
    "zookeeper_limits",
    "zookeeper_stats",
    "zookeeper_stats",
    "a",
    "x",
    " ",
    "zookeeper_limits ",
];

const DATA: [Option<&[u8]>; 20] = [
    None,
    Some(b""),
    Some(b"x"),
    Some(b"count=1,bytes=1"),
    Some(b"count=2,bytes=-1=;byteHardLimit=-1;countHardLimit=9"),
    Some(b"count=x"),
    Some(b"count"),
    Some(b"count="),
    Some(b"="),
    Some(b"==5"),
    Some(b","),
    Some(b";,count=3"),
    Some(b"count=+3;;bytes=04"),
    Some(b"count=9223372036854775807,bytes=9223372036854775807"),
    Some(b"count=9223372036854775808"),
    Some(b"count=-9223372036854775808,bytes=-9223372036854775808"),
    Some(b"count=1=2,bytes=3=x"),
    Some(b"other=5,count=1"),
    Some(b"\xff\xfe=1,count=2"),
    Some(b"count= 1"),
];

/// One request: its op code and its body.
pub(crate) type Request = (i32, Vec<u8>);

/// What becomes of one session.
pub(crate) struct Turn {
    /// Which of the sessions.
    pub(crate) session: usize,
    /// Sent at once.
    pub(crate) requests: Vec<Request>,
    /// Whether the session ends after them.
    pub(crate) closes: bool,
}

/// A script.
pub(crate) fn script(random: &mut Random, sessions: usize) -> Vec<Turn> {
    let mut places: Vec<&str> = Vec::new();
    for _ in 0..1 + random.below(4) {
        places.push(*random.pick(&PLACES));
    }
    let turns = 3 + random.below(10);
    let mut made = Vec::new();
    let mut script = vec![Turn { session: 0, requests: parents(&places), closes: false }];
    for _ in 0..turns {
        let requests = (0..1 + random.below(6)).map(|_| request(random, &places, &mut made));
        script.push(Turn {
            requests: requests.collect(),
            session: random.below(sessions),
            closes: random.chance(12),
        });
    }
    script
}

/// Makes the places; what is there stays.
fn parents(places: &[&str]) -> Vec<Request> {
    let mut requests = Vec::new();
    for place in places {
        let ends = place.match_indices('/').map(|(at, _)| at).skip(1).chain([place.len()]);
        for path in ends.filter_map(|end| place.get(..end)).filter(|path| !path.is_empty()) {
            requests.push((op::CREATE, request::create(path, Some(b""), mode::PERSISTENT)));
        }
    }
    requests
}

fn path(random: &mut Random, places: &[&str], made: &[String]) -> String {
    if !made.is_empty() && random.chance(45) {
        return random.pick(made).clone();
    }
    let place = random.pick(places);
    match random.below(12) {
        0 if !place.is_empty() => (*place).to_owned(),
        1 => format!("{place}/{}/{}", random.pick(&NAMES), random.pick(&NAMES)),
        _ => format!("{place}/{}", random.pick(&NAMES)),
    }
}

fn request(random: &mut Random, places: &[&str], made: &mut Vec<String>) -> Request {
    if random.chance(12) {
        let parts: Vec<Request> =
            (0..1 + random.below(5)).map(|_| part(random, places, made)).collect();
        return (op::MULTI, request::multi(&parts));
    }
    match random.below(60) {
        0 => (op::RECONFIG, request::reconfig("server.1=a:1:2;3")),
        1 => {
            let path = path(random, places, made);
            (
                op::SET_ACL,
                request::set_acl(
                    &path,
                    &[(random.pick(&[31, 1, 30]).to_owned(), "world", "anyone")],
                ),
            )
        }
        2 => {
            let path = path(random, places, made);
            (
                op::SET_ACL,
                request::set_acl(&path, &[(31, "digest", "\u{1f512}ü:x"), (31, "auth", "")]),
            )
        }
        _ => single(random, places, made),
    }
}

fn part(random: &mut Random, places: &[&str], made: &mut Vec<String>) -> Request {
    if random.chance(8) {
        return (op::CHECK, request::path_version(&path(random, places, made), -1));
    }
    single(random, places, made)
}

/// A request that can be a part of a multi, too.
fn single(random: &mut Random, places: &[&str], made: &mut Vec<String>) -> Request {
    let path = path(random, places, made);
    let data = *random.pick(&DATA);
    match random.below(9) {
        0..4 => {
            made.push(path.clone());
            create(random, &path, data)
        }
        4 | 5 => (op::SET_DATA, set_data(&path, data)),
        _ => (op::DELETE, request::path_version(&path, -1)),
    }
}

fn create(random: &mut Random, path: &str, data: Option<&[u8]>) -> Request {
    let plain = *random.pick(&[op::CREATE, op::CREATE2]);
    match random.below(12) {
        0 | 1 => (plain, request::create(path, data, mode::EPHEMERAL)),
        2 => {
            let flags = *random.pick(&[mode::SEQUENTIAL, mode::EPHEMERAL_SEQUENTIAL]);
            (plain, request::create(path, data, flags))
        }
        3 => (op::CREATE_CONTAINER, request::create(path, data, mode::CONTAINER)),
        4 => {
            let mut body = request::create(path, data, *random.pick(&[mode::TTL, 6, 0, 1]));
            body.put_i64(*random.pick(&[1, 50, 0xff_ffff_ffff, -1, 0]));
            (op::CREATE_TTL, body)
        }
        5 => (plain, request::create(path, data, mode::CONTAINER)),
        _ => (plain, request::create(path, data, mode::PERSISTENT)),
    }
}

fn set_data(path: &str, data: Option<&[u8]>) -> Vec<u8> {
    let mut body = request::path(path);
    match data {
        Some(data) => request::buffer(&mut body, data),
        None => body.put_i32(-1),
    }
    body.put_i32(-1);
    body
}
