//! `cargo xtask console-pages`: every page of the web console in Chromium. Pictures to look at, and
//! an accessibility checker. `console-walk`: what people do there. `console-scale`: how long pages
//! take. Not a part of `ci`: they need a browser, or a quiet machine.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::Outcome;
use crate::black_box::{self, Program, require, root, target_folder};

/// The driver of the browser, from PyPI.
const PLAYWRIGHT: &str = "playwright==1.65.2";

/// The accessibility checker, from npm.
const AXE: &str = "axe-core@4.14.1";

/// Further options of the script: `cargo xtask console-walk -- --help` lists them.
#[derive(clap::Args)]
pub struct Args {
    /// Options of the script
    #[arg(last = true)]
    options: Vec<String>,
}

/// Looks at every page.
pub fn look() -> Outcome {
    in_chromium("pages", &[])
}

/// Does what people do, on three servers.
pub fn walk(args: &Args) -> Outcome {
    in_chromium("walk", &args.options)
}

/// Measures each page with much in the store, and the memory of an idle node. Needs no browser.
pub fn scale(args: &Args) -> Outcome {
    let server = black_box::build(Program::Archipel)?;
    black_box::run(
        Command::new("python3")
            .arg("tests/console/scale.py")
            .args(&args.options)
            .env("ARCHIPEL_BIN", server)
            .current_dir(root()),
    )
}

fn in_chromium(script: &str, options: &[String]) -> Outcome {
    require(&[("chromium", "chromium"), ("npm", "npm")])?;
    let tools = tools()?;
    let server = black_box::build(Program::Archipel)?;
    let pictures = tools.join("pictures").join(script);
    fs::create_dir_all(&pictures).map_err(|e| format!("{}: {e}", pictures.display()))?;
    black_box::run(
        Command::new(tools.join("python/bin/python"))
            .arg(format!("tests/console/{script}.py"))
            .arg(&pictures)
            .arg(tools.join("node_modules/axe-core/axe.min.js"))
            .args(options)
            .env("ARCHIPEL_BIN", server)
            .current_dir(root()),
    )
}

/// Returns the folder with the tools, installed once.
fn tools() -> Result<PathBuf, String> {
    let folder = target_folder().join("console-pages");
    let (stamp, wanted) = (
        folder.join("versions.txt"),
        format!("{PLAYWRIGHT}\n{AXE}\n"),
    );
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(folder);
    }
    println!(
        "installing {PLAYWRIGHT} and {AXE} into {}",
        folder.display()
    );
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let python = folder.join("python");
    black_box::run(Command::new("python3").args(["-m", "venv"]).arg(&python))?;
    let pip = ["-m", "pip", "install", "--quiet", PLAYWRIGHT];
    black_box::run(Command::new(python.join("bin/python")).args(pip))?;
    black_box::run(
        Command::new("npm")
            .args(["install", "--silent", "--no-fund", "--no-audit", "--prefix"])
            .arg(&folder)
            .arg(AXE),
    )?;
    fs::write(&stamp, wanted).map_err(|e| format!("{}: {e}", stamp.display()))?;
    Ok(folder)
}
