//! The figures of the pages are those of the run that is in the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn checkout() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// What `bench page --check` says in a folder; nothing if all is well.
fn said(folder: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["page", "--check"])
        .current_dir(folder)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), said.is_empty(), "{said}");
    said
}

#[test]
fn the_pages_have_what_the_run_found() {
    assert_eq!(said(checkout()), "");
}

#[test]
fn a_figure_that_somebody_typed_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = |path: &str| -> PathBuf {
        let to = folder.path().join(path);
        fs::create_dir_all(to.parent().expect("a folder")).expect("made");
        fs::copy(checkout().join(path), &to).expect("copied");
        to
    };
    copy("docs/performance.json");
    copy("docs/performance.md");
    let readme = copy("README.md");
    let text = fs::read_to_string(&readme).expect("the page");
    let (before, after) = text.split_once("<!-- bench README -->\n").expect("a place");
    fs::write(&readme, format!("{before}<!-- bench README -->\n| 1 |\n{after}")).expect("written");
    assert_eq!(
        said(folder.path()),
        "bench: ./README.md has other figures: scripts/bench page writes it\n"
    );
}
