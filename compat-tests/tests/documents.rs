//! The documents: the tests that `docs/guarantees.md` names are there, every link leads to a file
//! and to a heading in it, and the contents of the book list every page.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use compat_tests::named_test::{has_part, source_of};
use compat_tests::repository;

/// The tests that a page names as `crate::file::test`, with the part that may follow in quotes.
fn named(page: &str) -> Vec<(&str, Option<&str>)> {
    let mut named = Vec::new();
    let mut rest = page;
    while let Some((_, behind)) = rest.split_once('`') {
        let Some((code, behind)) = behind.split_once('`') else { break };
        rest = behind;
        if code.contains("::") {
            let quoted = behind.trim_start().strip_prefix('"');
            let part = quoted.and_then(|quoted| quoted.split_once('"')).map(|(part, _)| part);
            named.push((code, part));
        }
    }
    named
}

fn check(test: &str, part: Option<&str>) -> Result<(), String> {
    let source = source_of(test)?;
    match part {
        Some(part) if !has_part(&source, part) => Err(format!("{test}: no part {part}")),
        _ => Ok(()),
    }
}

#[test]
fn every_guarantee_has_tests_that_exist() {
    let page = fs::read_to_string(repository().join("docs/guarantees.md")).expect("the page");
    let mut wrong = Vec::new();
    // A row of a table: the promise, what it means, its tests, those of an ensemble.
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
    for row in rows.iter().filter(|row| !row.starts_with("| promise ")) {
        // Nothing stands before the first bar, and after the last.
        let cells: Vec<&str> = row.split('|').collect();
        if cells.len() != 6 || cells[3..5].iter().any(|tests| named(tests).is_empty()) {
            wrong.push(format!("no test of one server, or none of an ensemble: {row}"));
        }
    }
    let tests = named(&page);
    wrong.extend(tests.iter().filter_map(|(test, part)| check(test, *part).err()));
    assert!(rows.len() > 10 && tests.len() > rows.len(), "the page has hardly a test");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_name_and_its_part_are_read_and_what_does_not_exist_is_found_out() {
    let page = "| x | `a::b::c` \"some part\", `no name`, `d::e` and \"text\" |";
    assert_eq!(named(page), [("a::b::c", Some("some part")), ("d::e", None)]);

    let good = "compat-tests::handshake::subject";
    assert_eq!(check(good, Some("the timeout is clamped")), Ok(()));
    assert!(check(good, Some("the timeout is clamp")).is_err());
    assert!(check("compat-tests::guarantees::order::nothing", None).is_err());
}

/// The lines of a page that are in none of its blocks.
fn outside_blocks(page: &str) -> Vec<&str> {
    let mut in_block = false;
    let mut lines = Vec::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            lines.push(line);
        }
    }
    lines
}

/// Where the links of a page lead within the repository. What looks like one in code is none.
fn links(page: &str) -> Vec<String> {
    let text = outside_blocks(page).join("\n");
    let without_code: Vec<&str> = text.split('`').step_by(2).collect();
    let without_code = without_code.join("`");
    let targets = without_code.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).filter(|target| !target.contains("://")).collect()
}

/// The anchors of a page: those that GitHub makes of its headings, and those that it sets itself.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for line in outside_blocks(page) {
        let heading = line.trim_start_matches('#');
        if heading.len() < line.len() && heading.starts_with(' ') {
            let anchor = anchor(heading);
            // One that is there already gets a number.
            let numbered = (1..).map(|number| format!("{anchor}-{number}"));
            let mut names = std::iter::once(anchor.clone()).chain(numbered);
            anchors.extend(names.find(|name| !anchors.contains(name)));
        }
        let set = line.split("<a id=\"").skip(1).filter_map(|rest| rest.split_once('"'));
        anchors.extend(set.map(|(anchor, _)| anchor.to_owned()));
    }
    anchors
}

/// GitHub's anchor of a heading: lower case, a hyphen for each space, no punctuation.
fn anchor(heading: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
    heading.trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
}

/// Follows a link of the page with this path.
fn follow(path: &Path, page: &str, link: &str) -> Result<(), String> {
    let (file, anchor) = match link.split_once('#') {
        Some((file, anchor)) => (file, Some(anchor)),
        None => (link, None),
    };
    let there = if file.is_empty() {
        page.to_owned()
    } else {
        let target = path.parent().expect("a page is in a folder").join(file);
        fs::read_to_string(target)
            .map_err(|error| format!("{}: {link}: {error}", path.display()))?
    };
    match anchor {
        Some(anchor) if !anchors(&there).contains(anchor) => {
            Err(format!("{}: {link}: no such heading", path.display()))
        }
        _ => Ok(()),
    }
}

fn pages_below(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of pages") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            pages_below(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}

#[test]
fn every_link_leads_to_a_file_and_to_a_heading_in_it() {
    let mut pages = Vec::new();
    for entry in fs::read_dir(repository()).expect("this repository") {
        let path = entry.expect("an entry").path();
        pages.extend(Some(path).filter(|path| path.extension().is_some_and(|its| its == "md")));
    }
    pages_below(&repository().join("docs"), &mut pages);
    let (mut followed, mut wrong) = (0, Vec::new());
    for path in &pages {
        let page = fs::read_to_string(path).expect("the page");
        let links = links(&page);
        followed += links.len();
        wrong.extend(links.iter().filter_map(|link| follow(path, &page, link).err()));
    }
    assert!(pages.len() > 20 && followed > 100, "{} pages, {followed} links", pages.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_index_of_operations_has_every_page() {
    let index = fs::read_to_string(repository().join("docs/operations.md")).expect("the index");
    let links = links(&index);
    let mut pages = Vec::new();
    pages_below(&repository().join("docs/operations"), &mut pages);
    for page in &pages {
        let name = page.file_name().expect("a page has a name").to_string_lossy();
        assert!(links.contains(&format!("operations/{name}")), "docs/operations.md lacks {name}");
    }
}

/// What is wrong with the contents of the book, which list each of these pages once and no other.
fn mistakes_in_contents(contents: &str, pages: &[String]) -> Vec<String> {
    let listed = links(contents);
    let mut wrong = Vec::new();
    for page in pages {
        let times = listed.iter().filter(|link| *link == page).count();
        if times != 1 {
            wrong.push(format!("{page} is listed {times} times"));
        }
    }
    let others = listed.iter().filter(|link| !pages.contains(link));
    wrong.extend(others.map(|link| format!("{link} is not a page")));
    wrong
}

#[test]
fn the_contents_of_the_book_list_every_page_once() {
    let docs = repository().join("docs");
    let mut pages = Vec::new();
    pages_below(&docs, &mut pages);
    let below = |page: &PathBuf| {
        let page = page.strip_prefix(&docs).expect("a page is below the folder");
        page.to_str().expect("its name is UTF-8").to_owned()
    };
    let pages: Vec<String> = pages.iter().map(below).filter(|page| page != "SUMMARY.md").collect();
    assert!(pages.len() > 20, "hardly a page");
    let contents = fs::read_to_string(docs.join("SUMMARY.md")).expect("the contents");
    assert_eq!(mistakes_in_contents(&contents, &pages), [""; 0]);
}

#[test]
fn a_page_that_the_contents_lack_or_list_twice_and_one_that_is_not_there_are_found_out() {
    let pages = ["README.md", "format.md", "operations/keys.md"].map(str::to_owned);
    let contents = "\
# Summary

[First](README.md)

- [Bytes](format.md)
    - [Keys](operations/keys.md)
";
    assert_eq!(mistakes_in_contents(contents, &pages), [""; 0]);
    for (line, other, mistake) in [
        ("    - [Keys](operations/keys.md)\n", "", "operations/keys.md is listed 0 times"),
        ("[First]", "[Zeroth](README.md)\n[First]", "README.md is listed 2 times"),
        ("# Summary", "[Log](log.md)", "log.md is not a page"),
        ("# Summary", "[Log](format.md#the-log)", "format.md#the-log is not a page"),
    ] {
        let contents = contents.replace(line, other);
        assert_eq!(mistakes_in_contents(&contents, &pages), [mistake]);
    }
}

#[test]
fn a_wrong_link_and_a_wrong_anchor_are_found_out() {
    let page = "\
# `Two` words, a half-word
[1](format.md), [`2`](format.md#the-log) and [a long
text](../README.md#run-it), `[code](none.md)`, [web](https://example.org/none)
```
# No heading
[block](none.md)
```
## Again
## Again
<a id=\"set\"></a>#No heading
";
    let right = ["format.md", "format.md#the-log", "../README.md#run-it"];
    assert_eq!(links(page), right);
    let path = repository().join("docs/page.md");
    for link in right.into_iter().chain(["#two-words-a-half-word", "#again", "#again-1", "#set"]) {
        assert_eq!(follow(&path, page, link), Ok(()));
    }
    for link in [
        "none.md",
        "CONTRIBUTING.md",
        "format.md#the-lock",
        "format.md#",
        "none.md#the-log",
        "#no-heading",
        "#again-2",
        "#Again",
    ] {
        let followed = follow(&path, page, link);
        assert!(followed.is_err_and(|wrong| wrong.contains(link)), "{link}");
    }
}
