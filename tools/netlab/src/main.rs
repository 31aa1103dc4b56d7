//! `netlab`: emulated networks from the command line.
//!
//! | module | what it does |
//! |---|---|
//! | [`cli`] | commands and their arguments |
//! | [`show`] | the live table of links |
//! | [`report`] | `check`: requested beside observed |

use std::process::{Command, ExitCode};

use clap::Parser;
use netlab::control::{self, Ends, Reply, Request};
use netlab::lab::Lab;
use netlab::topology::Topology;
use netlab::{Outcome, private};

mod cli;
mod report;
mod show;

use cli::{Cli, Links, Todo};

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("netlab: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Outcome<ExitCode> {
    let lab = cli.lab.as_deref();
    match cli.todo {
        Todo::Up { file } => up(&Topology::load(&file)?)?,
        Todo::Relay { lab } => Lab::find(&lab)?.serve()?,
        Todo::Run { file, command } => return run_privately(&file, &command),
        Todo::Exec { node, command } => return exec(&find(lab)?, &node, &command),
        Todo::Ping { a, b, probes } => report::ping(&find(lab)?, &a, &b, probes)?,
        Todo::Set { links, quality } => change(lab, Request::Set(ends(links), quality.spec()))?,
        Todo::Cut { links } => change(lab, Request::Cut(ends(links)))?,
        Todo::Heal { a, b, one_way } => {
            let ends = a.zip(b).map(|(from, to)| Ends { from, to, one_way });
            change(lab, Request::Heal(ends))?;
        }
        Todo::Show { once } => show::run(&find(lab)?, once)?,
        Todo::Down { name } => down(name.as_deref().or(lab))?,
        Todo::Check { file, probes, json } => report::run(&file, probes, json)?,
        Todo::Presets => Topology::presets().for_each(|name| println!("{name}")),
    }
    Ok(ExitCode::SUCCESS)
}

fn up(topology: &Topology) -> Outcome<()> {
    let mut relay = Command::new(std::env::current_exe()?);
    relay.args(["relay", &topology.name]);
    let lab = Lab::up_detached(topology, &mut relay)?;
    println!("{} is up:", topology.name);
    for node in topology.nodes() {
        println!(
            "  {:<12} {:<12} {}",
            node.name,
            node.site,
            lab.address(&node.name)?
        );
    }
    println!(
        "netlab exec {} -- ping ...; netlab down",
        topology.nodes()[0].name
    );
    Ok(())
}

fn run_privately(file: &str, command: &[String]) -> Outcome<ExitCode> {
    private::enter()?;
    let topology = Topology::load(file)?;
    let _lab = Lab::up(&topology)?;
    let (program, arguments) = command.split_first().ok_or("no command")?;
    let mut command = Command::new(program);
    command.args(arguments).env("NETLAB", &topology.name);
    status(&mut command)
}

fn exec(lab: &Lab, node: &str, command: &[String]) -> Outcome<ExitCode> {
    let (program, arguments) = command.split_first().ok_or("no command")?;
    status(lab.command(node, program)?.args(arguments))
}

fn status(command: &mut Command) -> Outcome<ExitCode> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .map_err(|error| format!("{program}: {error}"))?;
    Ok(ExitCode::from(status.code().map_or(1, |code| code as u8)))
}

fn down(name: Option<&str>) -> Outcome<()> {
    let names = match name {
        Some(name) => vec![name.to_owned()],
        None => Lab::all(),
    };
    for name in names {
        if !Lab::down(&name)? {
            return Err(format!("there is no lab {name}").into());
        }
        println!("{name} is down");
    }
    Ok(())
}

/// Returns the named lab, or the only one.
fn find(name: Option<&str>) -> Outcome<Lab> {
    if let Some(name) = name {
        return Lab::find(name);
    }
    match Lab::all().as_slice() {
        [name] => Lab::find(name),
        [] => Err("no lab is up".into()),
        names => Err(format!("name one with --lab: {}", names.join(", ")).into()),
    }
}

fn change(lab: Option<&str>, request: Request) -> Outcome<()> {
    let reply = control::ask(find(lab)?.names(), &request)?;
    if let Reply::Done(count) = reply {
        println!("{count} links");
    }
    Ok(())
}

fn ends(links: Links) -> Ends {
    Ends {
        from: links.a,
        to: links.b,
        one_way: links.one_way,
    }
}
