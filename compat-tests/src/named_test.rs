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
    let found = places
        .iter()
        .map(|place| folder.join(place))
        .find(|path| path.exists() && has_test(&read(path), name));
    found.ok_or_else(|| format!("{test}: no such test"))
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
    files_below(&repository().join("compat-tests/clients"), &mut files);
    let (quoted, step) = (format!("\"{part}\""), format!("== {part}"));
    files.iter().any(|path| match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => read(path).contains(&quoted),
        Some("steps") => read(path).lines().any(|line| line == part || line == step),
        _ => false,
    })
}

/// Whether a source has the test.
fn has_test(source: &str, name: &str) -> bool {
    let mut after_attribute = false;
    for line in source.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test]") {
            after_attribute = true;
        } else if after_attribute && !line.starts_with("#[") && !line.starts_with("//") {
            let line = line.strip_prefix("async ").unwrap_or(line);
            if line.strip_prefix("fn ").is_some_and(|rest| {
                rest.strip_prefix(name).is_some_and(|rest| rest.starts_with('('))
            }) {
                return true;
            }
            after_attribute = false;
        }
    }
    false
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files_below(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of this repository") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files_below(&path, files) } else { files.push(path) }
    }
}
