//! The fenced blocks of a page.

/// One block as it stands in its page.
#[derive(Debug)]
pub(crate) struct Block {
    /// The line of its fence, from 1.
    pub(crate) line: usize,
    /// The word after the fence.
    pub(crate) language: String,
    pub(crate) lines: Vec<String>,
}

impl Block {
    /// What a table of blocks names it by.
    pub(crate) fn first_line(&self) -> &str {
        self.lines.first().map_or("", String::as_str)
    }

    pub(crate) fn text(&self) -> String {
        self.lines.join("\n")
    }

    /// The commands after `$ `, each with the output that the page shows of it.
    pub(crate) fn commands(&self) -> Vec<(&str, Vec<&str>)> {
        let mut commands: Vec<(&str, Vec<&str>)> = Vec::new();
        for line in &self.lines {
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(command), _) => commands.push((command, Vec::new())),
                (None, Some((_, shown))) => shown.push(line),
                (None, None) => panic!("line {}: output ahead of a command", self.line),
            }
        }
        commands
    }
}

/// All blocks of a page.
///
/// # Panics
/// Where the last one does not end.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in (1..).zip(page.lines()) {
        match (line.strip_prefix("```"), open.take()) {
            (Some(language), None) => {
                open = Some(Block { line: number, language: language.into(), lines: Vec::new() });
            }
            (Some(_), Some(block)) => blocks.push(block),
            (None, Some(mut block)) => {
                block.lines.push(line.into());
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{open:?} does not end");
    blocks
}

/// Whether something was printed as a page shows it: `...` stands for the rest of a line, or for
/// any number of lines where it is alone.
pub(crate) fn is_as_shown(printed: &[String], shown: &[&str]) -> bool {
    let Some((first, rest)) = shown.split_first() else { return printed.is_empty() };
    if *first == "..." {
        return (0..=printed.len()).any(|skipped| is_as_shown(&printed[skipped..], rest));
    }
    let Some((line, behind)) = printed.split_first() else { return false };
    is_line_as_shown(line, first) && is_as_shown(behind, rest)
}

fn is_line_as_shown(line: &str, shown: &str) -> bool {
    let Some((before, behind)) = shown.split_once("...") else { return line == shown };
    let Some(rest) = line.strip_prefix(before) else { return false };
    let starts = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    starts.into_iter().any(|at| is_line_as_shown(&rest[at..], behind))
}

#[test]
fn dots_stand_for_what_differs_from_run_to_run_and_for_nothing_else() {
    let printed = ["a 1 b".to_owned(), "c".to_owned(), "d".to_owned()];
    for shown in [
        &["a 1 b", "c", "d"][..],
        &["a ... b", "c", "d"],
        &["a ...", "...", "d"],
        &["...", "c", "..."],
        &["..."],
    ] {
        assert!(is_as_shown(&printed, shown), "{shown:?}");
    }
    for shown in [
        &[][..],
        &["a 1 b", "c"],
        &["a 1 b", "d"],
        &["a ... c", "c", "d"],
        &["...", "c"],
        &["a 1 b", "c", "d", "e"],
        &["1...", "c", "d"],
    ] {
        assert!(!is_as_shown(&printed, shown), "{shown:?}");
    }
}

#[test]
fn a_page_is_taken_apart_into_its_blocks_and_those_into_commands() {
    let page = "text\n```console\n$ one\nshown\n$ two\n```\nmore\n```\nkey=value\n```\n";
    let blocks = blocks(page);
    let languages: Vec<_> = blocks.iter().map(|block| (block.line, &*block.language)).collect();
    assert_eq!(languages, [(2, "console"), (8, "")]);
    assert_eq!(blocks[0].commands(), [("one", vec!["shown"]), ("two", vec![])]);
    assert_eq!(blocks[1].first_line(), "key=value");
}
