//! The repository's own commands: `cargo xtask --help`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod advisories;
mod black_box;
mod ci;
mod clients;
mod console_pages;
mod deny;
mod faults;
mod fuzz;
mod hostile;
mod model;
mod openapi;
mod package;
mod placement;
mod power_cuts;
mod soak;
mod tidy;
mod website_pages;

#[derive(Parser)]
#[command(about = "Checks, tests and fault runs of this repository")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything that must hold before a change lands: checks, unit tests, black-box tests
    Ci(ci::Args),
    /// Formatting, clippy, tidy, licences
    Check,
    /// The rules of this repository that no other tool knows: a part of `check`, in seconds
    Tidy,
    /// Lints the OpenAPI document of the admin API (installs the linter, once)
    Openapi,
    /// Asks the database of published advisories about all dependencies (installs cargo-deny, once)
    Advisories,
    /// Builds the Debian package and checks it (installs cargo-deb, once)
    Package(package::Args),
    /// Black-box tests with real S3 clients against a real process
    Clients(clients::Args),
    /// Looks at every page of the web console in Chromium: pictures, accessibility (installs the
    /// tools, once)
    ConsolePages,
    /// Does in Chromium what people do with the web console, on three servers; `-- --help` lists
    /// options
    ConsoleWalk(console_pages::Args),
    /// Measures the pages of the web console with much in the store, and an idle node; `-- --help`
    /// lists options
    ConsoleScale(console_pages::Args),
    /// Walks through a generated website in Chromium and with curl (installs the tools, once)
    WebsitePages,
    /// Cuts the power under load, again and again, and looks for what was acknowledged
    PowerCuts(power_cuts::Args),
    /// Breaks a cluster of real processes under load and checks what its clients saw
    Faults(faults::Args),
    /// Feeds invented inputs to parsers, decisions and endpoints, guided by coverage (see fuzz/)
    Fuzz(fuzz::Args),
    /// Measures an ordinary client, and the memory of the server, beside hostile clients
    Hostile(hostile::Args),
    /// Model-checks the register protocol, and its mutants
    CheckModel(model::CheckArgs),
    /// Measures placement from 3 to 1000 nodes: time, capacity and data moved, against their bounds
    Placement,
    /// Simulates clusters with faults, one seed after another
    Sim(model::SimArgs),
    /// All that takes hours: model, simulator, power cuts, faults and losses, with a table at the
    /// end
    Soak(soak::Args),
}

/// The end of a command: nothing, or the reason of its failure.
type Outcome = Result<(), String>;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Ci(args) => ci::run(&args),
        Command::Check => ci::run_checks(),
        Command::Tidy => tidy::run(),
        Command::Openapi => openapi::run(),
        Command::Advisories => advisories::run(),
        Command::Package(args) => package::run(&args),
        Command::Clients(args) => clients::run(&args),
        Command::ConsolePages => console_pages::look(),
        Command::ConsoleWalk(args) => console_pages::walk(&args),
        Command::ConsoleScale(args) => console_pages::scale(&args),
        Command::WebsitePages => website_pages::run(),
        Command::PowerCuts(args) => power_cuts::run(&args),
        Command::Faults(args) => faults::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Hostile(args) => hostile::run(&args),
        Command::CheckModel(args) => model::check(&args),
        Command::Placement => placement::run(),
        Command::Sim(args) => model::sim(&args),
        Command::Soak(args) => soak::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("failed: {why}");
            ExitCode::FAILURE
        }
    }
}
