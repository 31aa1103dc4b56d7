//! Tables for people, JSON for programs, on standard output. Printed text commands no terminal:
//! everything goes through [`escape`], and then gets its colours.

use std::io::{self, Write};

use archipel_base::clock::{SystemClock, WallClock};
use serde::Serialize;

use super::target::Target;
use super::{escape, terminal};
use crate::client::Failure;

/// The space between two columns.
const GAP: &str = "  ";

/// The fewest characters of a column that is cut.
const MIN_CELL: usize = 8;

/// Prints rows below headings, in columns as wide as their widest cell. On a terminal the widest
/// columns are cut until the table fits. If it cannot, each row is a paragraph of names and values.
pub fn print<const N: usize>(headings: [&str; N], rows: &[[String; N]]) -> Result<(), Failure> {
    lines(headings, rows, terminal::width(), terminal::colours())
        .iter()
        .try_for_each(|line| painted(line))
}

/// Prints a list: as JSON if the command line asks for it, else as a table with a row for each
/// item.
pub fn list<T: Serialize, const N: usize>(
    target: &Target,
    headings: [&str; N],
    items: &[T],
    row: impl Fn(&T) -> [String; N],
) -> Result<(), Failure> {
    if target.json {
        return print_json(&items);
    }
    let rows: Vec<_> = items.iter().map(row).collect();
    print(headings, &rows)
}

/// Returns the lines of a table for a terminal of this width, or for no terminal. They are ready
/// for [`painted`].
pub fn lines<const N: usize>(
    headings: [&str; N],
    rows: &[[String; N]],
    width: Option<usize>,
    colours: bool,
) -> Vec<String> {
    let shown = |row: &[String; N]| row.each_ref().map(|cell| escape::line(cell).into_owned());
    let rows: &[[String; N]] = &rows.iter().map(shown).collect::<Vec<_>>();
    let widest = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([headings[column].len()]).max().unwrap_or(0)
    };
    let mut widths: [usize; N] = std::array::from_fn(widest);
    if let Some(width) = width
        && !fit(&mut widths, &headings, width)
    {
        return paragraphs(headings, rows, width, colours);
    }
    let heading = line(&headings.map(String::from), &widths, |cell| cell.to_owned());
    let heading = if colours {
        terminal::bold(&heading)
    } else {
        heading
    };
    let paint = |cell: &str| match colours {
        true => terminal::paint(cell),
        false => cell.to_owned(),
    };
    let rows = rows.iter().map(|row| line(row, &widths, paint));
    [heading].into_iter().chain(rows).collect()
}

/// Returns the rows one below the other, a line for each cell.
fn paragraphs<const N: usize>(
    headings: [&str; N],
    rows: &[[String; N]],
    width: usize,
    colours: bool,
) -> Vec<String> {
    let names = headings.iter().map(|name| name.len()).max().unwrap_or(0);
    let room = width.saturating_sub(names + GAP.len());
    let line = |(name, value): (&&str, &String)| {
        let (name, value) = (format!("{name:names$}"), cut(value, room));
        match colours {
            true => format!("{}{GAP}{}", terminal::bold(&name), terminal::paint(&value)),
            false => format!("{name}{GAP}{value}"),
        }
    };
    let each = rows.iter().enumerate().map(|(at, row)| {
        let gap = (at > 0).then(String::new);
        gap.into_iter().chain(headings.iter().zip(row).map(line))
    });
    each.flatten().collect()
}

/// Narrows the widest columns until all fit into `width`. No column gets narrower than its heading.
/// Returns false if they do not fit.
fn fit<const N: usize>(widths: &mut [usize; N], headings: &[&str; N], width: usize) -> bool {
    let gaps = GAP.len() * N.saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > width {
        let shrinkable = (0..N).filter(|&n| widths[n] > headings[n].len().max(MIN_CELL));
        let Some(widest) = shrinkable.max_by_key(|&n| widths[n]) else {
            return false;
        };
        widths[widest] -= 1;
    }
    true
}

/// Prints names and values, one pair a line.
pub fn print_pairs(pairs: &[(&str, String)]) -> Result<(), Failure> {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    pairs
        .iter()
        .try_for_each(|(name, value)| text(&format!("{name:width$}  {value}")))
}

/// Prints `value` as JSON.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(value).map_err(|e| Failure::new(e.to_string()))?;
    document(&json)
}

/// Prints one line.
pub fn text(line: &str) -> Result<(), Failure> {
    painted(&escape::line(line))
}

/// Prints a text of several lines.
pub fn document(lines: &str) -> Result<(), Failure> {
    painted(&escape::lines(lines))
}

/// Prints what is escaped already, and may hold colours. A reader that has closed the pipe
/// (`| head`) is not a failure.
pub fn painted(text: &str) -> Result<(), Failure> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints a confirmation for people. Programs that asked for JSON see success in the exit status.
pub fn done(target: &Target, message: &str) -> Result<(), Failure> {
    match target.json || terminal::is_quiet() {
        true => Ok(()),
        false => text(message),
    }
}

/// Writes names in one line.
pub fn names(all: &[String]) -> String {
    match all {
        [] => "-".to_owned(),
        all => all.join(", "),
    }
}

/// Writes a number with its noun, of which the plural ends in "s".
pub fn count(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        number => format!("{number} {what}s"),
    }
}

/// Formats the time since `since_ms` for people.
pub fn age(since_ms: u64) -> String {
    span(SystemClock.now_millis().saturating_sub(since_ms) / 1000)
}

/// Formats the time until `time_ms` for people.
pub fn until(time_ms: u64) -> String {
    span(time_ms.saturating_sub(SystemClock.now_millis()) / 1000)
}

/// Formats a duration for people.
pub fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => count(seconds / 86_400, "day"),
    }
}

fn line<const N: usize>(
    cells: &[String; N],
    widths: &[usize; N],
    paint: impl Fn(&str) -> String,
) -> String {
    let last = N.saturating_sub(1);
    let cells = cells.iter().zip(widths).enumerate();
    let cells = cells.map(|(at, (cell, &width))| {
        let cell = cut(cell, width);
        match at == last {
            true => paint(&cell),
            false => paint(&format!("{cell:width$}")),
        }
    });
    cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
}

/// Returns the beginning of a cell that is too wide, with an ellipsis.
fn cut(cell: &str, width: usize) -> String {
    if cell.chars().count() <= width {
        return cell.to_owned();
    }
    let kept: String = cell.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> [[String; 3]; 2] {
        let long = "[2001:db8::7]:3901, b.example.net:3901, tcp://b.example.net:3901";
        [
            ["0badcafe", "alive", long].map(String::from),
            ["12345678", "gone", "-"].map(String::from),
        ]
    }

    #[test]
    fn a_table_fits_its_terminal_by_cutting_the_widest_column() {
        let lines = lines(["NODE", "STATE", "ADDRESSES"], &rows(), Some(40), false);
        assert!(
            lines.iter().all(|line| line.chars().count() <= 40),
            "{lines:?}"
        );
        assert!(lines[1].starts_with("0badcafe  alive  [2001") && lines[1].ends_with('…'));
        assert_eq!(lines[2], "12345678  gone   -");
    }

    #[test]
    fn one_thing_is_in_the_singular() {
        assert_eq!(
            [0, 1, 2].map(|n| count(n, "row")),
            ["0 rows", "1 row", "2 rows"]
        );
        assert_eq!([100_000, 200_000].map(span), ["1 day", "2 days"]);
    }

    #[test]
    fn a_table_that_cannot_fit_is_shown_row_by_row() {
        let lines = lines(["NODE", "STATE", "ADDRESSES"], &rows(), Some(25), false);
        assert_eq!(lines.len(), 7, "{lines:?}");
        assert!(lines.iter().all(|line| line.chars().count() <= 25));
        assert_eq!(lines[0], "NODE       0badcafe");
        assert_eq!(lines[4], "NODE       12345678");
    }

    #[test]
    fn without_a_terminal_nothing_is_cut_or_coloured() {
        let lines = lines(["NODE", "STATE", "ADDRESSES"], &rows(), None, false);
        assert!(lines[1].ends_with("tcp://b.example.net:3901") && !lines[1].contains('\x1b'));
    }
    #[test]
    fn a_cell_neither_breaks_its_line_nor_commands_the_terminal() {
        let cells = [["a\x1b[31m\r\nFAKE".to_owned(), "alive".into()]];
        for width in [None, Some(60), Some(12)] {
            let lines = lines(["PATH", "STATE"], &cells, width, false).join("");
            assert!(!lines.contains(char::is_control), "{lines:?}");
        }
        let lines = lines(["PATH", "STATE"], &cells, None, true);
        assert_eq!(
            lines[1],
            "a\\u001b[31m\\u000d\\u000aFAKE  \x1b[32malive\x1b[0m"
        );
    }
}
