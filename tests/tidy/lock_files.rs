//! What the lock files say of dependencies, without the network. `cargo deny check` also knows
//! their licences and the advisories.

use std::fs;

use crate::root;

/// The lock files of the repository, and the packages of each that are in the repository.
const LOCK_FILES: [(&str, &[&str]); 4] = [
    ("Cargo.lock", &["bench", "compat-tests", "ferrokeeper", "ferrokeeper-jute"]),
    ("jute/fuzz/Cargo.lock", &["ferrokeeper-jute", "jute-fuzz"]),
    ("compat-tests/clients/rust/Cargo.lock", &["zookeeper-client-checks"]),
    ("compat-tests/clients/rust_crates/Cargo.lock", &["zookeeper-crates-checks"]),
];

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Crates with a state of the whole process, such as a runtime, a recorder or a subscriber, or with
/// large C code. What goes to one version of them does not reach another.
const ONE_VERSION: [&str; 7] =
    ["metrics", "mimalloc", "raft", "ring", "rustls", "tokio", "tracing-core"];

struct Package<'a> {
    name: &'a str,
    source: Option<&'a str>,
    has_checksum: bool,
}

fn packages(lock: &str) -> Vec<Package<'_>> {
    let packages = lock.split("[[package]]\n").skip(1);
    packages
        .map(|package| {
            let field = |key: &str| {
                let mut fields = package.lines().filter_map(|line| line.split_once(" = "));
                let (_, value) = fields.find(|(name, _)| *name == key)?;
                Some(value.trim_matches('"'))
            };
            Package {
                name: field("name").expect("a package has a name"),
                source: field("source"),
                has_checksum: field("checksum").is_some(),
            }
        })
        .collect()
}

/// Packages that come from elsewhere than crates.io and are not `own` either.
fn from_elsewhere<'a>(packages: &[Package<'a>], own: &[&str]) -> Vec<&'a str> {
    let is_right = |package: &Package<'_>| match package.source {
        Some(source) => source == CRATES_IO && package.has_checksum,
        None => own.contains(&package.name),
    };
    packages.iter().filter(|package| !is_right(package)).map(|package| package.name).collect()
}

/// Which of these there are several versions of.
fn several<'a>(packages: &[Package<'_>], names: &[&'a str]) -> Vec<&'a str> {
    let count = |name: &str| packages.iter().filter(|package| package.name == name).count();
    names.iter().copied().filter(|name| count(name) > 1).collect()
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn dependencies_come_from_crates_io() {
    for (name, own) in LOCK_FILES {
        let lock = read(name);
        let packages = packages(&lock);
        assert_eq!(from_elsewhere(&packages, own), [""; 0], "{name}");
        for own in own {
            assert!(packages.iter().any(|package| package.name == *own), "{name}: no {own}");
        }
    }
}

#[test]
fn what_exists_once_in_the_process_is_there_in_one_version() {
    let lock = read("Cargo.lock");
    let packages = packages(&lock);
    assert_eq!(several(&packages, &ONE_VERSION), [""; 0]);
    for name in ONE_VERSION {
        assert!(packages.iter().any(|package| package.name == name), "{name} is not used");
    }
}

#[test]
fn what_deny_toml_bans_is_not_there() {
    let (deny, lock) = (read("deny.toml"), read("Cargo.lock"));
    let bans = deny.lines().filter_map(|line| line.trim().strip_prefix("{ crate = \""));
    let banned: Vec<&str> = bans.filter_map(|ban| Some(ban.split_once('"')?.0)).collect();
    assert!(!banned.is_empty(), "deny.toml bans nothing");
    let found: Vec<&str> = packages(&lock).iter().map(|package| package.name).collect();
    for name in banned {
        assert!(!found.contains(&name), "{name}");
    }
}

#[test]
fn what_does_not_belong_into_a_lock_file_is_found() {
    let package = |name: &str, source: &str| {
        format!("[[package]]\nname = \"{name}\"\nversion = \"1.0.0\"\n{source}\n")
    };
    let good = format!("source = \"{CRATES_IO}\"\nchecksum = \"00\"\n");
    let lock = [
        package("own", ""),
        package("good", &good),
        package("good", &good),
        package("alien", ""),
        package("git", "source = \"git+https://example.org/git#0123\"\n"),
        package("unchecked", &format!("source = \"{CRATES_IO}\"\n")),
    ]
    .concat();
    let packages = packages(&lock);
    assert_eq!(from_elsewhere(&packages, &["own"]), ["alien", "git", "unchecked"]);
    assert_eq!(several(&packages, &["own", "good"]), ["good"]);
}
