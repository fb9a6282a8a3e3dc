//! `tree`: a znode and what is below it, drawn.

use jute::ErrorCode;

use super::{Session, word};
use crate::cli::arguments::Arguments;
use crate::cli::error::CliError;
use crate::cli::path::child;

/// Znodes beside each other that are still to be drawn.
struct Level {
    parent: String,
    /// In front of the names.
    indent: String,
    /// The last one first.
    names: Vec<String>,
}

pub(super) fn draw(arguments: &Arguments, session: &mut Session<'_>) -> Result<(), CliError> {
    let Session { client, out, .. } = session;
    let root = if arguments.words.is_empty() { "/" } else { word(arguments, 0) };
    let below = |parent: String, indent: String, mut names: Vec<String>| {
        names.reverse();
        Level { parent, indent, names }
    };
    let (names, _) = client.children(root, false)?;
    out.element("paths", root);
    out.line(format_args!("{root}"))?;
    let mut count = 1;
    let mut levels = vec![below(root.to_owned(), String::new(), names)];
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.names.pop() else {
            levels.pop();
            continue;
        };
        let (branch, more) =
            if level.names.is_empty() { ("└── ", "    ") } else { ("├── ", "│   ") };
        let (path, indent) = (child(&level.parent, &name), format!("{}{more}", level.indent));
        out.line(format_args!("{}{branch}{name}", level.indent))?;
        out.element("paths", path.as_str());
        count += 1;
        match client.children(&path, false) {
            Ok((names, _)) => levels.push(below(path, indent, names)),
            // Gone since it was listed.
            Err(error) if error.is(ErrorCode::NoNode) => {}
            Err(error) if error.is(ErrorCode::NoAuth) => {
                out.element("hidden", path.as_str());
                out.line(format_args!("{indent}(no permission to read its children)"))?;
            }
            Err(error) => return Err(error),
        }
    }
    out.field("count", count);
    let znodes = if count == 1 { "znode" } else { "znodes" };
    out.line(format_args!("{count} {znodes}"))
}
