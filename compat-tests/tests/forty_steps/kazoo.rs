//! kazoo: a script of its own, which asks for restarts by lines that begin with `@`.

use compat_tests::{Program, python, repository};

use crate::stage::Stage;

pub(crate) fn run(stage: &mut Stage) -> Vec<String> {
    let script = repository().join("compat-tests/clients/kazoo_steps.py");
    let words =
        [python().display().to_string(), script.display().to_string(), stage.server.host_port()];
    let mut client = Program::start(&words, &[("PYTHONUNBUFFERED", "1")]);
    let mut lines = Vec::new();
    while let Some(line) = client.next_line() {
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match word {
            "@gone" => lines.push(stage.gone(rest)),
            "@there" => lines.push(stage.there(rest)),
            "@restart" => stage.restart(&client, rest),
            "@kill" => stage.kill(),
            "@words" => lines.extend(stage.words()),
            _ => {
                lines.push(line);
                continue;
            }
        }
        client.say("done");
    }
    let (succeeded, _) = client.finish();
    assert!(succeeded, "the script failed:\n{}", lines.join("\n"));
    lines
}
