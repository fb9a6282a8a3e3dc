//! What README.md tells its reader to type works as it stands there, with the output that it shows.

mod page;
mod terminal;

use std::fs;

use compat_tests::repository;

use page::{Block, blocks, is_as_shown};
use terminal::{Terminals, in_a_world_of_its_own};

/// What a block needs beside its language.
enum Wish {
    /// It is not run, for this reason.
    NotRun(&'static str),
    /// A server, which goes on until Ctrl-C.
    Serves,
    /// Another program that goes on, and is ready when it has printed this.
    Stays(&'static str),
    /// Lines to type into what runs on; the last one after it has printed this.
    Typed(&'static str),
}

/// By their first lines. Any other block runs to its end.
const README: [(&str, Wish); 5] = [
    (
        "cargo build --release",
        Wish::NotRun("takes minutes; the binary that is there is on the PATH"),
    ),
    (
        "rookeeper server                           # serves 127.0.0.1:2181, keeps its data in ./rookeeper-data",
        Wish::Serves,
    ),
    (
        "rookeeper cli watch -r /                   # prints each change until Ctrl-C",
        Wish::Stays("Ctrl-C ends it"),
    ),
    ("/usr/share/zookeeper/bin/zkCli.sh -server 127.0.0.1:2181", Wish::Stays("JLine support is")),
    ("create /hello world", Wish::Typed("NodeChildrenChanged")),
];

/// Runs a block; panics with the reason where it does not work.
#[expect(clippy::print_stderr, reason = "what was not run is said")]
fn run(block: &Block, wish: Option<&Wish>, terminals: &mut Terminals) {
    let at = format!("line {}", block.line);
    match (wish, block.language.as_str()) {
        (Some(Wish::NotRun(reason)), _) => eprintln!("{at} is not run: {reason}"),
        (Some(Wish::Serves), "sh") => terminals.serve(&block.text()),
        (Some(Wish::Stays(words)), "sh") => terminals.stay(&block.text(), words),
        (Some(Wish::Typed(words)), "text") => terminals.type_lines(&block.lines, words),
        (None, "sh") => {
            let (worked, printed) = terminals.run(&block.text());
            assert!(worked, "{at}: {}", printed.join("\n"));
        }
        (None, "python") => {
            let (worked, printed) = terminals.run_python(&block.text());
            assert!(worked, "{at}: {}", printed.join("\n"));
        }
        (None, "console") => {
            for (command, shown) in block.commands() {
                let (worked, printed) = terminals.run(command);
                let (shown_text, text) = (shown.join("\n"), printed.join("\n"));
                assert!(worked || !shown.is_empty(), "{at}: {command}: {text}");
                let same = shown.is_empty() || is_as_shown(&printed, &shown);
                assert!(same, "{at}: {command} prints\n{text}\nand not\n{shown_text}");
            }
        }
        (_, language) => panic!("{at}: nothing says how to run {language:?}"),
    }
}

/// Runs all blocks of a page. Each wish must be that of a block.
fn run_page(path: &str, wishes: &[(&str, Wish)], terminals: &mut Terminals) {
    let page = fs::read_to_string(repository().join(path)).expect("the page");
    let blocks = blocks(&page);
    for (first_line, _) in wishes {
        let there = blocks.iter().any(|block| block.first_line() == *first_line);
        assert!(there, "{path} has no block that begins with {first_line:?}");
    }
    for block in &blocks {
        let wish = wishes.iter().find(|(first_line, _)| block.first_line() == *first_line);
        run(block, wish.map(|(_, wish)| wish), terminals);
    }
}

#[test]
fn the_readme_works_as_it_stands() {
    in_a_world_of_its_own("the_readme_works_as_it_stands", |terminals| {
        run_page("README.md", &README, terminals);
        // What is said below the blocks.
        terminals.wait_for("/app/job-0000000000");
        terminals.wait_for("NodeDeleted");
        terminals.interrupt();
        assert!(terminals.interrupt(), "Ctrl-C stops the server");
    });
}
