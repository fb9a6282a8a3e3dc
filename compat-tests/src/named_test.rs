//! Tests by the names that documents give them: `crate::file::test`, and for one that goes through
//! a table or a script a part of it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::program::repository;

/// The source of a test.
///
/// # Errors
/// If there is no such test.
pub fn source_of(test: &str) -> Result<PathBuf, String> {
    Named::find(test).map(|named| named.source)
}

/// How cargo runs one test and no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CargoTest {
    /// Its program: `--workspace --test TARGET`, or `--workspace --lib`. The whole workspace, for
    /// a package alone would have some crates built again, with fewer features.
    pub target: Vec<String>,
    /// Its name there, to be taken as it is (`--exact`).
    pub name: String,
}

impl CargoTest {
    /// Of a test by its name here.
    ///
    /// # Errors
    /// If there is no such test.
    pub fn of(test: &str) -> Result<Self, String> {
        let Named { folder, source, mut within } = Named::find(test)?;
        let file =
            source.strip_prefix(&folder).expect("it was looked for there").with_extension("");
        let mut path: Vec<String> =
            file.iter().map(|name| name.to_string_lossy().into_owned()).collect();
        let mut target = vec!["--workspace".to_owned()];
        if path.remove(0) == "tests" {
            target.extend(["--test".to_owned(), path.remove(0)]);
            path.retain(|module| module != "main");
        } else {
            target.push("--lib".to_owned());
            if let Some(declares) = declared_by_path(&source) {
                path.insert(path.len() - 1, declares);
            }
        }
        path.append(&mut within);
        Ok(Self { target, name: path.join("::") })
    }
}

/// A test that was found.
struct Named {
    /// Of its package.
    folder: PathBuf,
    source: PathBuf,
    /// The test in its source: the modules there, and its own name.
    within: Vec<String>,
}

impl Named {
    fn find(test: &str) -> Result<Self, String> {
        let mut segments: Vec<&str> = test.split("::").collect();
        let name = segments.pop().unwrap_or_default();
        if segments.len() < 2 {
            return Err(format!("{test} is not crate::file::test"));
        }
        let (package, file) = (segments.remove(0), segments.join("/"));
        let folder = match package {
            "ferrokeeper" => repository(),
            "jute" | "compat-tests" => repository().join(package),
            _ => return Err(format!("{test}: no crate {package}")),
        };
        let places =
            [format!("tests/{file}.rs"), format!("tests/{file}/main.rs"), format!("src/{file}.rs")];
        let mut sources = places.iter().map(|place| folder.join(place)).filter(|it| it.exists());
        let found = sources.find_map(|source| Some((place_in(&read(&source), name)?, source)));
        let (within, source) = found.ok_or_else(|| format!("{test}: no such test"))?;
        Ok(Self { folder, source, within })
    }
}

/// Whether a test has a part: a file beside its source, or what stands in the source, in a module
/// of its test program, or as a line or step of a client's script.
pub fn has_part(source: &Path, part: &str) -> bool {
    let folder = source.parent().expect("a source is in a folder");
    if folder.join(part).is_file() {
        return true;
    }
    let mut files = vec![source.to_path_buf()];
    if source.ends_with("main.rs") {
        files_below(folder, &mut files);
    }
    files_below(&clients(), &mut files);
    let (quoted, step) = (format!("\"{part}\""), format!("== {part}"));
    files.iter().any(|path| match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => read(path).contains(&quoted),
        Some("steps") => read(path).lines().any(|line| line == part || line == step),
        _ => false,
    })
}

/// The steps of clients' scripts that have a line: what a script prints is compared step by step.
pub fn steps_with(line: &str) -> Vec<String> {
    let mut files = Vec::new();
    files_below(&clients(), &mut files);
    let scripts = files.iter().filter(|path| path.extension().is_some_and(|its| its == "steps"));
    let mut steps: Vec<String> = scripts.flat_map(|path| steps_of(&read(path), line)).collect();
    steps.sort();
    steps.dedup();
    steps
}

fn steps_of(script: &str, wanted: &str) -> Vec<String> {
    let (mut steps, mut step) = (Vec::new(), None);
    for line in script.lines() {
        if let Some(name) = line.strip_prefix("== ") {
            step = Some(name);
        } else if line == wanted {
            steps.extend(step.map(str::to_owned));
        }
    }
    steps
}

/// Where a source has the test: the modules that stand in it, and the test's name. `None` if it has
/// no such test.
fn place_in(source: &str, name: &str) -> Option<Vec<String>> {
    let (mut module, mut after_attribute) = (None, false);
    for line in source.lines() {
        if let Some(rest) = line.strip_prefix("mod ") {
            module = rest.strip_suffix(" {").or(module);
        } else if line == "}" {
            module = None;
        }
        let line = line.trim_start();
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test]") {
            after_attribute = true;
        } else if after_attribute && !line.starts_with("#[") && !line.starts_with("//") {
            let line = line.strip_prefix("async ").unwrap_or(line);
            if line.strip_prefix("fn ").is_some_and(|rest| {
                rest.strip_prefix(name).is_some_and(|rest| rest.starts_with('('))
            }) {
                return Some(module.into_iter().chain([name]).map(str::to_owned).collect());
            }
            after_attribute = false;
        }
    }
    None
}

/// The module beside a source that has it as a module of its own: `#[path = "FILE"]`.
fn declared_by_path(source: &Path) -> Option<String> {
    let (folder, name) = (source.parent()?, source.file_name()?.to_string_lossy());
    let attribute = format!("#[path = \"{name}\"]");
    let mut beside: Vec<PathBuf> =
        fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    beside.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let declares = beside.into_iter().find(|path| read(path).contains(&attribute))?;
    Some(declares.file_stem()?.to_string_lossy().into_owned())
}

fn clients() -> PathBuf {
    repository().join("compat-tests/clients")
}

/// The text of a file of the repository.
///
/// # Panics
/// If it cannot be read.
pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn files_below(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of this repository") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files_below(&path, files) } else { files.push(path) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_runs_a_test_by_its_program_and_its_modules() {
        for (test, expected) in [
            ("compat-tests::handshake::subject", "--workspace --test handshake subject"),
            ("compat-tests::limits::max_cnxns", "--workspace --test limits max_cnxns"),
            (
                "ferrokeeper::server::members::a_lone_server_shows_none",
                "--workspace --test server members::a_lone_server_shows_none",
            ),
            (
                "ferrokeeper::command_line::the_environment_of_the_start_script_is_read",
                "--workspace --test command_line the_environment_of_the_start_script_is_read",
            ),
            ("jute::golden::files::snapshot", "--workspace --test golden files::snapshot"),
            (
                "ferrokeeper::engine::transcript_test::the_engine_says_what_zookeeper_says",
                "--workspace --lib engine::transcript_test::the_engine_says_what_zookeeper_says",
            ),
            (
                "ferrokeeper::engine::access::scheme::ip_matches_by_prefix_and_family",
                "--workspace --lib engine::access::scheme::tests::\
                 ip_matches_by_prefix_and_family",
            ),
            (
                "ferrokeeper::server::intake::inbox_test::\
                 clients_that_connect_take_a_quarter_of_what_requests_may_and_none_of_theirs",
                "--workspace --lib server::intake::inbox::inbox_test::\
                 clients_that_connect_take_a_quarter_of_what_requests_may_and_none_of_theirs",
            ),
        ] {
            let CargoTest { target, name } = CargoTest::of(test).expect(test);
            assert_eq!(format!("{} {name}", target.join(" ")), expected);
        }
        assert!(CargoTest::of("compat-tests::handshake::run").is_err());
        assert!(CargoTest::of("nowhere::handshake::subject").is_err());
    }

    #[test]
    fn a_test_stands_in_the_module_around_it() {
        let source = "mod a;\n\n#[test]\nfn out() {\n}\n\nmod b {\n    #[tokio::test]\n    \
                      #[ignore]\n    async fn within() {\n    }\n}\n\n#[test]\nfn last() {}\n";
        let place = |name| place_in(source, name).map(|place| place.join("::"));
        assert_eq!(place("out").as_deref(), Some("out"));
        assert_eq!(place("within").as_deref(), Some("b::within"));
        assert_eq!(place("last").as_deref(), Some("last"));
        assert_eq!(place("with"), None);
    }

    #[test]
    fn a_line_is_in_the_steps_that_have_it() {
        let script = "before\n== 1 one\nget /a\nget /b\n== 2 two\nget /a\nget /a/b\nget /a\n";
        assert_eq!(steps_of(script, "get /a"), ["1 one", "2 two", "2 two"]);
        assert_eq!(steps_of(script, "before"), [""; 0]);
        assert_eq!(steps_with("getAcl /t/masked"), ["7 digest", "8 super"]);
    }
}
