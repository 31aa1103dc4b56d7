//! `cargo xtask package`: the Debian package, and the checks of everything in `packaging/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::black_box::{self, require, root, target_folder};

/// The release of cargo-deb that the section `package.metadata.deb` was written for.
const VERSION: &str = "3.8.0";

/// The most that `systemd-analyze security` may find exposed, of 100.
const EXPOSURE: &str = "15";

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Build with this profile: `dist` is what is shipped, and takes long
    #[arg(long, default_value = "dist")]
    profile: String,
}

/// Builds the package, checks it, and prints its path.
pub fn run(args: &Args) -> Outcome {
    require(&[
        ("dpkg-deb", "dpkg"),
        ("lintian", "lintian"),
        ("systemd-analyze", "systemd"),
    ])?;
    check_unit()?;
    let cargo_deb = find_or_install()?;
    let binary = build(&args.profile)?;
    let folder = target_folder().join("package");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    describe(&binary, &folder)?;
    let package = folder.join("archipel.deb");
    black_box::run(
        Command::new(cargo_deb)
            .args(["--package", "archipel", "--profile", &args.profile])
            .args(["--no-build", "--locked", "--output"])
            .arg(&package)
            .current_dir(root()),
    )?;
    check(&package, &folder.join("content"))?;
    println!("{}", package.display());
    Ok(())
}

/// Checks the unit: that systemd knows each line, and how much it leaves exposed.
fn check_unit() -> Outcome {
    black_box::run(
        Command::new("systemd-analyze")
            .args([
                "security",
                "--no-pager",
                "--offline=true",
                "--threshold",
                EXPOSURE,
            ])
            .arg(root().join("packaging/systemd/archipel.service")),
    )
}

fn build(profile: &str) -> Result<PathBuf, String> {
    black_box::run(
        Command::new(env!("CARGO"))
            .args(["build", "--locked", "--profile", profile])
            .args(["--package", "archipel", "--bin", "archipel"])
            .current_dir(root()),
    )?;
    let folder = match profile {
        "dev" => "debug",
        other => other,
    };
    Ok(target_folder().join(folder).join("archipel"))
}

/// Writes what the binary tells about itself: manual pages and completions.
fn describe(binary: &Path, folder: &Path) -> Outcome {
    let pages = folder.join("man");
    fs::create_dir_all(&pages).map_err(|e| format!("{}: {e}", pages.display()))?;
    black_box::run(Command::new(binary).args(["man", "--dir"]).arg(&pages))?;
    for shell in ["bash", "zsh", "fish"] {
        let script = Command::new(binary).args(["completions", shell]).output();
        let script = script.map_err(|e| format!("{}: {e}", binary.display()))?;
        let file = folder.join(format!("archipel.{shell}"));
        fs::write(&file, script.stdout).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(())
}

/// Checks the package: its form, and that its configuration is one that its server takes.
fn check(package: &Path, content: &Path) -> Outcome {
    black_box::run(
        Command::new("lintian")
            .args([
                "--fail-on",
                "error",
                "--tag-display-limit",
                "0",
                "--allow-root",
            ])
            .args(["--suppress-tags", "no-changelog,embedded-library"])
            .arg(package),
    )?;
    black_box::run(
        Command::new("dpkg-deb")
            .arg("--extract")
            .arg(package)
            .arg(content),
    )?;
    check_installation(package, &content.join("DEBIAN"))?;
    black_box::run(
        Command::new(content.join("usr/bin/archipel"))
            .args(["config", "check", "--config"])
            .arg(content.join("etc/archipel/archipel.toml")),
    )
}

/// Checks that the installation starts nothing: a node that starts before it is configured founds a
/// cluster of its own. An upgrade restarts a server that runs.
fn check_installation(package: &Path, control: &Path) -> Outcome {
    black_box::run(
        Command::new("dpkg-deb")
            .arg("--control")
            .arg(package)
            .arg(control),
    )?;
    let script = control.join("postinst");
    let text = fs::read_to_string(&script).map_err(|e| format!("{}: {e}", script.display()))?;
    match text.contains("try-restart") {
        true => Ok(()),
        false => Err("the package starts the server when it is installed".into()),
    }
}

fn find_or_install() -> Result<PathBuf, String> {
    let folder = root().join("target/tools");
    let installed = folder.join("bin/cargo-deb");
    let version = Command::new(&installed).arg("--version").output();
    if version.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout)
            .trim()
            .ends_with(VERSION)
    }) {
        return Ok(installed);
    }
    println!("installing cargo-deb into target/tools (a few minutes, once)");
    black_box::run(
        Command::new(env!("CARGO"))
            .args([
                "install",
                "cargo-deb",
                "--force",
                "--locked",
                "--debug",
                "--version",
                VERSION,
            ])
            .arg("--root")
            .arg(&folder),
    )?;
    Ok(installed)
}
