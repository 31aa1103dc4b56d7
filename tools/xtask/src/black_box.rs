//! The common parts of the black-box runs: the programs that they run, and Python with the pinned
//! clients of `tests/requirements.txt`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;

/// The profile of everything that the tests build. It has assertions and checks for overflow.
pub const PROFILE: &str = "checked";

/// Returns the repository's root.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// A program of this workspace that the tests run.
#[derive(Clone, Copy)]
pub enum Program {
    /// The server.
    Archipel,
    /// The simulator and the model checker.
    Sim,
}

/// Makes a command of cargo tell the lints of clippy while it compiles the crates of this workspace;
/// warnings are errors. So nothing is checked a second time. `tools/compile-for-tests` says which
/// compiler gets what.
///
/// Such a build is for tests only.
pub fn linted(cargo: &mut Command) -> &mut Command {
    cargo
        .env(
            "RUSTC_WORKSPACE_WRAPPER",
            root().join("tools/compile-for-tests"),
        )
        // As `cargo clippy -- -D warnings` hands its arguments over.
        .env(
            "CLIPPY_ARGS",
            "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__",
        )
}

/// Builds a program in the profile of the tests and returns its path.
///
/// All programs are named whichever is built, so that their dependencies have the same features and
/// are built once.
pub fn build(program: Program) -> Result<PathBuf, String> {
    let name = match program {
        Program::Archipel => "archipel",
        Program::Sim => "sim",
    };
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--profile", PROFILE, "--locked"]);
    build.args(["--package", "archipel", "--package", "sim", "--bin", name]);
    run(linted(&mut build).current_dir(root()))?;
    Ok(target_folder().join(PROFILE).join(name))
}

/// Returns a Python with the clients installed, made under the target folder and kept while the
/// requirements stay the same.
pub fn python() -> Result<PathBuf, String> {
    let requirements = root().join("tests/requirements.txt");
    let wanted = fs::read_to_string(&requirements)
        .map_err(|e| format!("{}: {e}", requirements.display()))?;
    let folder = target_folder().join("black-box-python");
    let python = folder.join("bin/python");
    let stamp = folder.join("requirements.txt");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    println!("installing the Python clients into {}", folder.display());
    run(Command::new("python3")
        .args(["-m", "venv", "--clear"])
        .arg(&folder))
    .map_err(|e| format!("{e}; apt-get install python3-venv?"))?;
    run(Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--requirement"])
        .arg(&requirements))?;
    fs::write(&stamp, wanted).map_err(|e| format!("{}: {e}", stamp.display()))?;
    Ok(python)
}

/// Names the Debian packages of programs that are not on the PATH, or installs them where that is
/// possible.
pub fn require(programs: &[(&str, &str)]) -> Outcome {
    let missing = |(program, _): &&(&str, &str)| !on_path(program);
    let packages: Vec<&str> = programs
        .iter()
        .filter(missing)
        .map(|(_, package)| *package)
        .collect();
    if packages.is_empty() {
        return Ok(());
    }
    println!("installing {}", packages.join(", "));
    let update = run(Command::new("apt-get").args(["update", "-qq"]));
    let install = run(Command::new("apt-get")
        .args(["install", "-y", "-qq"])
        .args(&packages));
    update.and(install).map_err(|e| {
        format!(
            "missing programs; as root: apt-get install {} ({e})",
            packages.join(" ")
        )
    })
}

/// Runs a command to its end; an error names it.
pub fn run(command: &mut Command) -> Outcome {
    // Without its environment, which may hold keys.
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let shown = words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown}: {status}")),
        Err(error) => Err(format!("{shown}: {error}")),
    }
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|folder| folder.join(program).exists())
}

/// Returns the target folder, also where `CARGO_TARGET_DIR` moved it.
pub fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}
