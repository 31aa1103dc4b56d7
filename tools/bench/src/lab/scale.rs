//! `bench scale`: an experiment with more and more nodes at three sites. It compares the latencies
//! and the memory.
//!
//! Each size runs in a separate process (`bench lab`) with its own network, so that no size affects
//! the next.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Run;
use crate::Outcome;
use crate::results::{Results, Row, Series};

/// The distance between sites as in the published experiment, in milliseconds.
const RTT_MS: f64 = 100.0;

/// The options.
#[derive(clap::Args)]
pub struct Args {
    /// The numbers of nodes
    #[arg(long, value_delimiter = ',', default_value = "3,9,30,60,100", value_parser = clap::value_parser!(u32).range(3..=390))]
    nodes: Vec<u32>,
    #[command(flatten)]
    run: Run,
}

/// Runs the experiment at all sizes.
pub fn run(args: &Args) -> Outcome<()> {
    let own = tempfile::tempdir()?;
    let folder = args.run.results.as_deref().unwrap_or(own.path());
    let mut all = Vec::new();
    for (number, nodes) in args.nodes.iter().enumerate() {
        eprintln!("{nodes} nodes ({} of {})", number + 1, args.nodes.len());
        // A size that is too large for the machine must not hide the results of the others.
        match one(args, own.path(), folder, *nodes) {
            Ok(results) => all.push((*nodes, results)),
            Err(error) => eprintln!("{nodes} nodes: {error}"),
        }
    }
    let (_, first) = all.first().ok_or("no size could be run")?;
    let results = together(first.clone(), &all);
    results.print();
    for (nodes, results) in &all {
        println!("  {nodes} nodes: {}", usage(results));
    }
    if let Some(folder) = &args.run.results {
        results.write(&folder.join("scale.json"))?;
    }
    if all.len() == args.nodes.len() {
        Ok(())
    } else {
        Err("not every size could be run".into())
    }
}

/// Runs one size.
fn one(args: &Args, own: &Path, folder: &Path, nodes: u32) -> Outcome<Results> {
    let name = format!("nodes-{nodes}");
    let file = own.join(format!("{name}.toml"));
    std::fs::write(&file, topology(&name, nodes))?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("lab").arg(&file).arg(&args.run.experiment);
    command.arg("--archipel").arg(&args.run.archipel);
    command.arg("--dir").arg(&args.run.dir);
    command.arg("--results").arg(folder);
    if args.run.buffered {
        command.arg("--buffered");
    }
    command.arg("--").args(&args.run.options);
    let status = command.stdin(Stdio::null()).status()?;
    if !status.success() {
        return Err(format!("ended with {status}").into());
    }
    let kind = super::archipel(&args.run);
    let file: PathBuf = folder.join(format!(
        "{}-{name}-{}-1.json",
        args.run.experiment,
        kind.name()
    ));
    Results::read(&file)
}

/// Returns a topology with `nodes` nodes at three sites and a client at the first site.
fn topology(name: &str, nodes: u32) -> String {
    let mut text = format!(
        "name = {name:?}\n[inside]\nrtt_ms = 0.5\n[between]\nrtt_ms = {RTT_MS}\njitter_ms = 20\n"
    );
    for site in 1..=3 {
        let count = (nodes + 3 - site) / 3;
        text += &format!("[[sites]]\nname = \"s{site}\"\ncount = {count}\n");
        if site == 1 {
            text += "clients = [\"client\"]\n";
        }
    }
    text
}

/// Combines all sizes into one result: a row for each request and size, and a curve for each
/// request and for memory.
fn together(like: Results, all: &[(u32, Results)]) -> Results {
    let rows = all.iter().flat_map(|(nodes, results)| {
        let named = move |row: &Row| Row {
            name: format!("{}, {nodes} nodes", row.name),
            ..row.clone()
        };
        results.rows.iter().map(named)
    });
    let curve = |name: &String| {
        let of = |(nodes, results): &(u32, Results)| {
            let row = results.rows.iter().find(|row| row.name == *name)?;
            Some((f64::from(*nodes), row.rtts.unwrap_or(row.mean_ms)))
        };
        let unit = if like.rtt_ms.is_some() {
            "round trips"
        } else {
            "ms"
        };
        Series {
            name: name.clone(),
            axes: ["nodes".into(), unit.into()],
            points: all.iter().filter_map(of).collect(),
        }
    };
    let memory =
        |(nodes, results): &(u32, Results)| Some((f64::from(*nodes), results.usage?.memory_mib));
    let memory = Series {
        name: "memory of a node".into(),
        axes: ["nodes".into(), "MiB".into()],
        points: all.iter().filter_map(memory).collect(),
    };
    let names: Vec<String> = like.rows.iter().map(|row| row.name.clone()).collect();
    Results {
        experiment: "scale".into(),
        network: "three sites".into(),
        rows: rows.collect(),
        series: names.iter().map(curve).chain([memory]).collect(),
        ..like
    }
}

fn usage(results: &Results) -> String {
    results
        .usage
        .map_or_else(|| "no figures of processes".into(), |usage| usage.line())
}

#[cfg(test)]
mod tests {
    use netlab::topology::Topology;

    use super::*;
    use crate::results::tests::results;

    #[test]
    fn sites_differ_by_one_node_at_most() {
        for nodes in [3, 4, 5, 100] {
            let file = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
            std::fs::write(file.path(), topology("n", nodes)).unwrap();
            let topology = Topology::load(file.path().to_str().unwrap()).unwrap();
            // The client's place counts as well.
            assert_eq!(topology.nodes().len() as u32, nodes + 1);
        }
    }

    #[test]
    fn sizes_are_combined_into_one_result() {
        let all = [3, 30].map(|nodes| (nodes, results("one", Some(100.0), &[100])));
        let together = together(all[0].1.clone(), &all);
        let (rows, first) = (all[0].1.rows.len(), &together.series[0]);
        assert_eq!(together.rows.len(), 2 * rows);
        assert!(together.rows[rows].name.ends_with(", 30 nodes"));
        assert_eq!(first.points, [(3.0, 1.0), (30.0, 1.0)]);
    }
}
