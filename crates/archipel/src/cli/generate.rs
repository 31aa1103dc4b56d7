//! Shell completions and manual pages, from the definition of the command line.

use std::fs;
use std::io::Write;
use std::path::Path;

use clap_complete::Shell;

use super::examples::definition;
use crate::client::Failure;

/// Prints the completions for a shell.
pub fn completions(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut definition(), "archipel", &mut script);
    print(&script)
}

/// Prints the manual page of the program, or writes those of all commands into `folder`.
pub fn manual(folder: Option<&Path>) -> Result<(), Failure> {
    let Some(folder) = folder else {
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(definition()).render(&mut page);
        rendered.map_err(|error| Failure::new(error.to_string()))?;
        return print(&page);
    };
    let cannot = |error: std::io::Error| Failure::new(format!("{}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(cannot)?;
    clap_mangen::generate_to(definition(), folder).map_err(cannot)
}

fn print(bytes: &[u8]) -> Result<(), Failure> {
    match std::io::stdout().lock().write_all(bytes) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use clap::{Arg, Command};

    use super::super::examples::definition;
    use super::super::target::GLOBAL;

    /// The width of the help text in the golden file.
    const WIDTH: usize = 100;

    fn help(command: &mut Command, name: &str, text: &mut String) {
        let shown = command.render_long_help().to_string();
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        *text += &format!("=== {name}\n{}\n\n", lines.join("\n"));
        for sub in command.get_subcommands_mut() {
            let name = format!("{name} {}", sub.get_name());
            if sub.get_name() != "help" {
                help(sub, &name, text);
            }
        }
    }

    #[test]
    fn the_help_of_every_command_is_as_it_was() {
        let mut command = definition().term_width(WIDTH).version("VERSION");
        command.build();
        let mut made = String::new();
        help(&mut command, "archipel", &mut made);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/help.txt");
        if std::env::var_os("REWRITE").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &made).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == made,
            "crates/archipel/testdata/help.txt differs; fix: REWRITE=1 cargo test -p archipel help"
        );
    }

    #[test]
    fn help_shows_no_value_of_a_variable() {
        fn look(command: &Command) {
            let from_variable = |argument: &&Arg| argument.get_env().is_some();
            for argument in command.get_arguments().filter(from_variable) {
                let name = argument.get_id();
                let hidden = argument.is_hide_env_values_set();
                assert!(
                    hidden,
                    "{}: {name}: add hide_env_values",
                    command.get_name()
                );
            }
            command.get_subcommands().for_each(look);
        }
        look(&definition());
    }

    #[test]
    fn global_options_have_a_heading_of_their_own() {
        fn look(command: &Command) {
            for argument in command.get_arguments() {
                assert_eq!(
                    argument.is_global_set(),
                    argument.get_help_heading() == Some(GLOBAL),
                    "{}: {}",
                    command.get_name(),
                    argument.get_id()
                );
            }
            command.get_subcommands().for_each(look);
        }
        look(&definition());
    }

    #[test]
    fn completions_and_pages_are_made_for_every_command() {
        let mut script = Vec::new();
        let bash = clap_complete::Shell::Bash;
        clap_complete::generate(bash, &mut definition(), "archipel", &mut script);
        let script = String::from_utf8(script).unwrap();
        let folder = tempfile::tempdir().unwrap();
        super::manual(Some(folder.path())).unwrap();
        for sub in definition().get_subcommands() {
            let name = sub.get_name();
            assert!(script.contains(&format!("archipel,{name})")), "{name}");
            let page = folder.path().join(format!("archipel-{name}.1"));
            assert!(fs::metadata(page).unwrap().len() > 200, "{name}");
        }
    }
}
