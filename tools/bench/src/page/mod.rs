//! `bench report`: results of any number of experiments as one page, HTML or Markdown, with plots.
//!
//! Results of the same experiment in the same network are combined: one table, one plot, a column
//! for each server. The turns of a server are averaged.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Outcome;
use crate::results::{Results, Row};

mod plot;
#[cfg(test)]
mod tests;

use plot::Bars;

/// The options.
#[derive(clap::Args)]
pub struct Args {
    /// Files that experiments wrote with --json or --results
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The page. With .md: Markdown with the plots in files beside it. Otherwise: HTML with the
    /// plots inside
    #[arg(long, default_value = "report.html")]
    out: PathBuf,
    /// Convert the plots of a Markdown page to PNG with rsvg-convert (Debian: librsvg2-bin)
    #[arg(long)]
    png: bool,
}

/// A getter of a figure, if the row has it.
type Figure = fn(&Row) -> Option<f64>;

/// The results that are combined.
struct Group<'a> {
    title: String,
    all: Vec<&'a Results>,
}

/// Reads the results and writes the page.
pub fn run(args: &Args) -> Outcome<()> {
    let results = args.files.iter().map(|path| Results::read(path));
    let results = results.collect::<Outcome<Vec<_>>>()?;
    let groups = grouped(&results);
    let is_markdown = args.out.extension().is_some_and(|end| end == "md");
    if args.png && !is_markdown {
        return Err(
            "--png: an HTML page contains its plots; fix: --out with a name that ends with .md"
                .into(),
        );
    }
    let mut text = String::new();
    for (number, group) in groups.iter().enumerate() {
        let plots = group.plots();
        if is_markdown {
            group.markdown(&mut text, &beside(args, number, &plots)?)?
        } else {
            group.html(&mut text, &plots)?
        }
    }
    if !is_markdown {
        text = format!(
            "<!doctype html><meta charset=utf-8><title>bench</title><style>{STYLE}</style>{text}"
        );
    }
    std::fs::write(&args.out, text)?;
    println!("{}", args.out.display());
    Ok(())
}

/// Groups the results of one experiment with the same options in one network.
fn grouped(results: &[Results]) -> Vec<Group<'_>> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for one in results {
        let (experiment, network, options) = (&one.experiment, &one.network, &one.options);
        let title = format!("{experiment}: network {network}, {options}");
        let group = groups.entry(title.clone()).or_insert(Group {
            title,
            all: Vec::new(),
        });
        group.all.push(one);
    }
    groups.into_values().collect()
}

const STYLE: &str = "body{font:15px sans-serif;margin:2em auto;max-width:60em}table{border-collapse:collapse}\
                     td,th{padding:.2em .7em;border-bottom:1px solid #ccc;text-align:right}\
                     td:first-child,th:first-child{text-align:left}";

/// Writes plots to files beside the page. Returns the file names.
fn beside(args: &Args, group: usize, plots: &[String]) -> Outcome<Vec<String>> {
    let page = &args.out;
    let stem = page
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let mut names = Vec::new();
    for (number, plot) in plots.iter().enumerate() {
        let name = format!("{stem}-{group}-{number}.svg");
        let svg = page.with_file_name(&name);
        std::fs::write(&svg, plot)?;
        names.push(if args.png { png(&svg)? } else { name });
    }
    Ok(names)
}

/// Converts a plot to PNG, at twice the displayed resolution, and replaces its file. Returns the
/// new file's name.
fn png(svg: &Path) -> Outcome<String> {
    let drawn = svg.with_extension("png");
    let mut command = Command::new("rsvg-convert");
    command
        .args(["--zoom", "2", "--output"])
        .arg(&drawn)
        .arg(svg);
    let done = command.stdin(Stdio::null()).output();
    let done = done.map_err(|error| {
        format!("--png: rsvg-convert: {error}; fix: install it (Debian: librsvg2-bin)")
    })?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(format!("rsvg-convert {}: {said}", svg.display()).into());
    }
    std::fs::remove_file(svg)?;
    let name = drawn.file_name().unwrap_or_default();
    Ok(name.to_string_lossy().into_owned())
}

impl Group<'_> {
    /// Returns the servers in the order of the files.
    fn servers(&self) -> Vec<String> {
        let mut servers = Vec::new();
        for results in &self.all {
            let server = format!("{}, {}", results.server, results.durability);
            if !servers.contains(&server) {
                servers.push(server);
            }
        }
        servers
    }

    /// Returns a figure of a server's row, averaged over its turns.
    fn figure(&self, server: &str, row: &str, figure: impl Fn(&Row) -> Option<f64>) -> Option<f64> {
        let of_server = self
            .all
            .iter()
            .filter(|r| format!("{}, {}", r.server, r.durability) == server);
        let rows = of_server
            .flat_map(|results| &results.rows)
            .filter(|one| one.name == row);
        let figures: Vec<f64> = rows
            .filter(|row| row.count > 0)
            .filter_map(figure)
            .collect();
        (!figures.is_empty()).then(|| figures.iter().sum::<f64>() / figures.len() as f64)
    }

    fn rows(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for row in self.all.iter().flat_map(|results| &results.rows) {
            if !names.contains(&row.name) {
                names.push(row.name.clone());
            }
        }
        names
    }

    fn plots(&self) -> Vec<String> {
        let (servers, rows) = (self.servers(), self.rows());
        let values = |figure: fn(&Row) -> Option<f64>| -> Vec<Vec<Option<f64>>> {
            let of = |server: &String| {
                rows.iter()
                    .map(|row| self.figure(server, row, figure))
                    .collect()
            };
            servers.iter().map(of).collect()
        };
        let unit = if self.all.iter().any(|r| r.rtt_ms.is_some()) {
            "round trips"
        } else {
            "ms"
        };
        let time: fn(&Row) -> Option<f64> = |row| row.rtts.or(Some(row.mean_ms));
        let mut plots = vec![
            Bars {
                title: format!("average time, {unit}"),
                names: &rows,
                groups: &servers,
                values: values(time),
            }
            .svg(),
        ];
        let rates = values(|row| row.per_s);
        if rates.iter().flatten().any(Option::is_some) {
            let title = "a second".to_owned();
            plots.push(
                Bars {
                    title,
                    names: &rows,
                    groups: &servers,
                    values: rates,
                }
                .svg(),
            );
        }
        for results in &self.all {
            plots.extend(
                results
                    .series
                    .iter()
                    .map(|series| plot::curve(series, &results.server)),
            );
        }
        plots
    }

    /// Returns the table's header and lines, without empty columns.
    fn table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let columns = self.columns();
        let heads = columns.iter().map(|(head, ..)| head.clone());
        let head = std::iter::once(String::new()).chain(heads).collect();
        let line = |row: &String| {
            let cells = columns.iter().map(|(_, server, digits, figure)| {
                let value = self.figure(server, row, figure);
                value.map_or("-".into(), |value| format!("{value:.digits$}"))
            });
            std::iter::once(row.clone()).chain(cells).collect()
        };
        (head, self.rows().iter().map(line).collect())
    }

    /// Returns header, server, digits and figure of each column that is not empty.
    fn columns(&self) -> Vec<(String, String, usize, Figure)> {
        let figures: [(&str, usize, Figure); 5] = [
            ("mean ms", 1, |row| Some(row.mean_ms)),
            ("p50 ms", 1, |row| Some(row.p50_ms)),
            ("p99 ms", 1, |row| Some(row.p99_ms)),
            ("× RTT", 3, |row| row.rtts),
            ("a second", 1, |row| row.per_s),
        ];
        let (servers, rows) = (self.servers(), self.rows());
        let mut columns = Vec::new();
        for server in &servers {
            for (name, digits, figure) in figures {
                if rows
                    .iter()
                    .any(|row| self.figure(server, row, figure).is_some())
                {
                    columns.push((format!("{server}: {name}"), server.clone(), digits, figure));
                }
            }
        }
        columns
    }

    /// Returns the conditions of the figures, a line for each file.
    fn circumstances(&self) -> Vec<String> {
        let tell = |r: &&Results| {
            let (server, durability, machine) = (&r.server, &r.durability, r.machine.line());
            let usage = r
                .usage
                .map_or(String::new(), |usage| format!("; {}", usage.line()));
            format!("{server} ({durability}), {}: {machine}{usage}", r.began)
        };
        self.all.iter().map(tell).collect()
    }

    fn markdown(&self, text: &mut String, plots: &[String]) -> Outcome<()> {
        let (head, lines) = self.table();
        writeln!(
            text,
            "## {}\n\n| {} |\n|{}",
            self.title,
            head.join(" | "),
            "---|".repeat(head.len())
        )?;
        for line in lines {
            writeln!(text, "| {} |", line.join(" | "))?;
        }
        writeln!(text)?;
        for plot in plots {
            writeln!(text, "![]({plot})")?;
        }
        for line in self.circumstances() {
            writeln!(text, "- {line}")?;
        }
        Ok(writeln!(text)?)
    }

    fn html(&self, text: &mut String, plots: &[String]) -> Outcome<()> {
        let (head, lines) = self.table();
        let cells = |tag: &str, cells: &[String]| -> String {
            cells
                .iter()
                .map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)))
                .collect()
        };
        writeln!(
            text,
            "<h2>{}</h2><table><tr>{}</tr>",
            escape(&self.title),
            cells("th", &head)
        )?;
        for line in lines {
            writeln!(text, "<tr>{}</tr>", cells("td", &line))?;
        }
        writeln!(text, "</table>{}<ul>", plots.concat())?;
        for line in self.circumstances() {
            writeln!(text, "<li>{}</li>", escape(&line))?;
        }
        Ok(writeln!(text, "</ul>")?)
    }
}

/// Escapes text for HTML and SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
