//! The tables of the pages, made of what a run found: nobody types a figure.
//!
//! A page has a place for each table: `<!-- bench NAME -->` on a line, the table, and
//! `<!-- end -->`. What stands around it is written by hand and names no figure.

mod tables;

use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::report::Run;

/// The pages with such places.
const PAGES: [&str; 2] = ["README.md", "docs/performance.md"];
const BEGIN: &str = "<!-- bench ";
const END: &str = "<!-- end -->";

/// Puts the tables of the run that is written down in `figures` into the pages of a checkout.
pub(crate) fn write(checkout: &Path, figures: &Path) -> Result<(), Box<dyn Error>> {
    for Page { path, now, due } in pages(checkout, figures)? {
        if now != due {
            fs::write(path, due)?;
        }
    }
    Ok(())
}

/// Whether the pages have the tables of the run.
pub(crate) fn check(checkout: &Path, figures: &Path) -> Result<(), Box<dyn Error>> {
    for Page { path, now, due } in pages(checkout, figures)? {
        if now != due {
            let path = path.display();
            return Err(format!("{path} has other figures: scripts/bench page writes it").into());
        }
    }
    Ok(())
}

/// A page as it is, and as it is with the tables of the run.
struct Page {
    path: PathBuf,
    now: String,
    due: String,
}

fn pages(checkout: &Path, figures: &Path) -> Result<Vec<Page>, Box<dyn Error>> {
    let run: Run = serde_json::from_slice(&fs::read(checkout.join(figures))?)?;
    let mut pages = Vec::new();
    for page in PAGES {
        let path = checkout.join(page);
        let now = fs::read_to_string(&path)?;
        let due = filled(&now, &run).map_err(|why| format!("{page}: {why}"))?;
        if !now.contains(BEGIN) {
            return Err(format!("{page} has no place for a table").into());
        }
        pages.push(Page { path, now, due });
    }
    Ok(pages)
}

/// The page with the tables of a run in their places.
fn filled(page: &str, run: &Run) -> io::Result<String> {
    let mut out = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        let Some(name) = line.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let table = tables::table(name, run)
            .ok_or_else(|| io::Error::other(format!("no table is called {name}")))?;
        out.push_str(&table);
        // Where one has no end, that of the next one would take all between them away.
        if lines.by_ref().find(|line| *line == END || line.starts_with(BEGIN)) != Some(END) {
            return Err(io::Error::other(format!("nothing ends the place of {name}")));
        }
        out.push_str(END);
        out.push('\n');
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stood_in_a_place_is_replaced_and_what_stands_around_it_stays() {
        let page = "a\n<!-- bench README -->\nold\n<!-- end -->\nb\n";
        let new = filled(page, &Run::default()).expect("filled");
        assert!(new.starts_with("a\n<!-- bench README -->\n"), "{new}");
        assert!(new.ends_with("<!-- end -->\nb\n") && !new.contains("old"), "{new}");
        let two = "<!-- bench README -->\n<!-- bench start -->\n<!-- end -->\n";
        for wrong in ["<!-- bench nothing -->\n<!-- end -->\n", "<!-- bench README -->\n", two] {
            assert!(filled(wrong, &Run::default()).is_err(), "{wrong}");
        }
    }
}
