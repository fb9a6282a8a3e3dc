//! Which versions of clients run: from the files that were installed, and from what they were
//! installed by.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::{cache, repository};

/// A Python package, by the requirements that an environment of the cache was made of.
///
/// # Panics
/// If there is no such environment, or the package is not pinned in it.
pub fn python_package(environment: &str, package: &str) -> String {
    let path = cache().join(environment).join("installed");
    of(&path, package, pinned(&read(&path), package))
}

/// A package of the Node client's environment, by its lock file.
///
/// # Panics
/// If there is no such environment, or the package is not in it.
pub fn node_package(package: &str) -> String {
    let path = cache().join("node/installed");
    of(&path, package, locked_by_npm(&read(&path), package))
}

/// A crate that a client of compat-tests/clients is built with, which takes its lock file as it is.
///
/// # Panics
/// If the client has no such crate.
pub fn rust_crate(client: &str, name: &str) -> String {
    let path = repository().join("compat-tests/clients").join(client).join("Cargo.lock");
    of(&path, name, locked_by_cargo(&read(&path), name))
}

/// A jar by its name in a class path, where each has its version.
///
/// # Panics
/// If the class path has no such jar, or several of different versions.
pub fn jar(class_path: &str, name: &str) -> String {
    let files = class_path.split(':').flat_map(files_of);
    let versions: BTreeSet<String> =
        files.filter_map(|file| version_of_jar(&file, name).map(ToOwned::to_owned)).collect();
    let versions: Vec<String> = versions.into_iter().collect();
    let [version] = &versions[..] else { panic!("{name} in {class_path}: {versions:?}") };
    version.clone()
}

/// A package of Debian's: the version of what is packed, without Debian's own revision.
///
/// # Panics
/// If it is not installed.
pub fn debian_package(package: &str) -> String {
    let output = Command::new("dpkg-query").args(["-W", "-f=${Version}", package]).output();
    let output = output.expect("dpkg-query runs: the tests need Debian");
    let version = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && !version.is_empty(),
        "{package} is not installed: scripts/test --all installs it"
    );
    upstream(&version).to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("{}: {error}: scripts/test --all makes it", path.display()))
}

fn of(path: &Path, name: &str, version: Option<String>) -> String {
    version.unwrap_or_else(|| panic!("{} has no version of {name}", path.display()))
}

/// `kazoo==2.11.0`, a line of requirements.
fn pinned(requirements: &str, package: &str) -> Option<String> {
    let mut lines = requirements.lines().map(|line| line.split('#').next().unwrap_or_default());
    lines.find_map(|line| {
        let (name, version) = line.trim().split_once("==")?;
        (name == package).then(|| version.to_owned())
    })
}

fn locked_by_npm(lock: &str, package: &str) -> Option<String> {
    let lock: serde_json::Value = serde_json::from_str(lock).ok()?;
    let its = &lock["packages"][format!("node_modules/{package}")];
    its["version"].as_str().map(ToOwned::to_owned)
}

/// `name = "..."`, and its version in the next line.
fn locked_by_cargo(lock: &str, name: &str) -> Option<String> {
    let due = format!("name = \"{name}\"");
    let mut lines = lock.lines();
    lines.find(|line| *line == due)?;
    let version = lines.next()?.strip_prefix("version = \"")?.strip_suffix('"')?;
    Some(version.to_owned())
}

/// The files that an entry of a class path names: a file, or with `*` at its end those of a folder.
fn files_of(entry: &str) -> Vec<PathBuf> {
    let Some(folder) = entry.strip_suffix('*') else { return vec![entry.into()] };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// `name-3.9.5.jar`; `name-other-3.9.5.jar` is another jar.
fn version_of_jar<'a>(file: &'a Path, name: &str) -> Option<&'a str> {
    let file = file.file_name()?.to_str()?;
    let version = file.strip_prefix(name)?.strip_prefix('-')?.strip_suffix(".jar")?;
    version.starts_with(|first: char| first.is_ascii_digit()).then_some(version)
}

/// Of `1:3.8.0-11+deb12u2` it is `3.8.0`; of `0.0~git20180130.c4fab1a-1`, where Debian has packed a
/// commit, `0.0~git20180130`.
fn upstream(version: &str) -> &str {
    let version = version.split_once(':').map_or(version, |(_, version)| version);
    let version = version.rsplit_once('-').map_or(version, |(version, _)| version);
    match version.find("~git") {
        Some(at) => {
            let commit = version[at..].find('.').map_or(version.len(), |dot| at + dot);
            &version[..commit]
        }
        None => version,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_name_a_version_for_each_package() {
        let text = "# kazoo==1.0\n\nkazoo-other==3.0\nkazoo==2.11.0 # as recorded\npytest==9.2.0\n";
        assert_eq!(pinned(text, "kazoo").as_deref(), Some("2.11.0"));
        assert_eq!(pinned(text, "pytest").as_deref(), Some("9.2.0"));
        assert_eq!(pinned(text, "gevent"), None);
    }

    #[test]
    fn lock_files_name_a_version_for_each_package() {
        let npm = r#"{"packages": {
            "": {"dependencies": {"a": "1.0.0"}},
            "node_modules/a": {"version": "1.0.3"}
        }}"#;
        assert_eq!(locked_by_npm(npm, "a").as_deref(), Some("1.0.3"));
        assert_eq!(locked_by_npm(npm, "b"), None);
        assert_eq!(locked_by_npm("no JSON", "a"), None);
        let cargo = "version = 4\n\n\
                     [[package]]\nname = \"zookeeper-async\"\nversion = \"5.0.0\"\n\n\
                     [[package]]\nname = \"zookeeper\"\nversion = \"0.8.0\"\n";
        assert_eq!(locked_by_cargo(cargo, "zookeeper").as_deref(), Some("0.8.0"));
        assert_eq!(locked_by_cargo(cargo, "zookeeper-async").as_deref(), Some("5.0.0"));
        assert_eq!(locked_by_cargo(cargo, "tokio-zookeeper"), None);
    }

    #[test]
    fn jars_have_their_version_in_their_name() {
        let version = |file| version_of_jar(Path::new(file), "zookeeper");
        assert_eq!(version("/jars/zookeeper-3.9.5.jar"), Some("3.9.5"));
        assert_eq!(version("/jars/zookeeper-jute-3.9.5.jar"), None);
        assert_eq!(version("/jars/zookeeper.jar"), None);
        assert_eq!(version("/jars/zookeeper-3.9.5.pom"), None);
        let folder = tempfile::tempdir().expect("a folder");
        let jars = ["zookeeper-3.9.5.jar", "spark-core_2.13-4.3.0.jar", "notes"];
        jars.iter().for_each(|name| fs::write(folder.path().join(name), "").expect("written"));
        let class_path =
            format!("/etc/conf:{}/*:/other/curator-recipes-5.9.0.jar", folder.path().display());
        assert_eq!(jar(&class_path, "zookeeper"), "3.9.5");
        assert_eq!(jar(&class_path, "spark-core_2.13"), "4.3.0");
        assert_eq!(jar(&class_path, "curator-recipes"), "5.9.0");
    }

    #[test]
    fn versions_of_debian_are_those_of_what_is_packed() {
        for (version, due) in [
            ("3.8.0-11+deb12u2", "3.8.0"),
            ("2:1.17-74", "1.17"),
            ("5.4.0-3", "5.4.0"),
            ("0.0~git20180130.c4fab1a-1", "0.0~git20180130"),
            ("3.0.2", "3.0.2"),
        ] {
            assert_eq!(upstream(version), due);
        }
    }

    /// What the tests take is there.
    #[test]
    fn crates_of_clients_are_in_their_lock_files() {
        for (client, name) in [("rust", "zookeeper-client"), ("rust_crates", "tokio-zookeeper")] {
            let version = rust_crate(client, name);
            assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{version}");
        }
    }
}
