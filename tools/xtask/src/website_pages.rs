//! `cargo xtask website-pages`: a site that a generator made, on its own domain, every page in
//! Chromium and every file with curl. Not a part of `ci`: it needs a browser.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::Outcome;
use crate::black_box::{self, Program, require, root, target_folder};

/// The tools that make the site, drive the browser, and upload. From PyPI.
const TOOLS: [&str; 3] = ["mkdocs==1.6.1", "playwright==1.65.2", "boto3==1.44.5"];

/// Runs it.
pub fn run() -> Outcome {
    require(&[("chromium", "chromium"), ("curl", "curl")])?;
    let python = tools()?;
    let server = black_box::build(Program::Archipel)?;
    black_box::run(
        Command::new(python)
            .arg("tests/web/generated_site.py")
            .env("ARCHIPEL_BIN", server)
            .current_dir(root()),
    )
}

/// Returns a Python with the tools, installed once.
fn tools() -> Result<PathBuf, String> {
    let folder = target_folder().join("website-pages");
    let (stamp, wanted) = (folder.join("versions.txt"), TOOLS.join("\n"));
    let python = folder.join("bin/python");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    println!("installing {} into {}", TOOLS.join(", "), folder.display());
    black_box::run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    let pip = ["-m", "pip", "install", "--quiet"];
    black_box::run(Command::new(&python).args(pip).args(TOOLS))?;
    fs::write(&stamp, wanted).map_err(|e| format!("{}: {e}", stamp.display()))?;
    Ok(python)
}
