//! Plots as SVG.

use std::fmt::Write as _;

use super::escape;
use crate::results::Series;

const COLORS: [&str; 6] = [
    "#1f6fb4", "#e08a1e", "#3a9e4b", "#c0392b", "#7d5ba6", "#666666",
];
const WIDTH: f64 = 900.0;
const LEFT: f64 = 200.0;
const BAR: f64 = 14.0;
const HEIGHT: f64 = 260.0;

/// A horizontal bar chart: for each name one bar of each group.
pub struct Bars<'a> {
    /// The title.
    pub title: String,
    /// The names of the values.
    pub names: &'a [String],
    /// The names of the groups.
    pub groups: &'a [String],
    /// The values by group and name.
    pub values: Vec<Vec<Option<f64>>>,
}

impl Bars<'_> {
    /// Renders the chart as SVG.
    pub fn svg(&self) -> String {
        let most = self
            .values
            .iter()
            .flatten()
            .flatten()
            .copied()
            .fold(1e-9, f64::max);
        let step = BAR * self.groups.len() as f64 + 8.0;
        let top = 30.0 + 18.0 * self.groups.len() as f64;
        let height = top + step * self.names.len() as f64 + 10.0;
        let mut svg = head(height, &self.title);
        for (group, name) in self.groups.iter().enumerate() {
            let y = 30.0 + 18.0 * group as f64;
            rect(&mut svg, LEFT, y, 12.0, color(group));
            text(&mut svg, LEFT + 18.0, y + 11.0, "start", name);
        }
        for (place, name) in self.names.iter().enumerate() {
            let y = top + step * place as f64;
            text(&mut svg, LEFT - 6.0, y + 11.0, "end", name);
            for (group, values) in self.values.iter().enumerate() {
                let Some(value) = values.get(place).copied().flatten() else {
                    continue;
                };
                let (y, long) = (y + BAR * group as f64, value / most * (WIDTH - LEFT - 80.0));
                rect(&mut svg, LEFT, y, long.max(1.0), color(group));
                text(
                    &mut svg,
                    LEFT + long + 5.0,
                    y + 11.0,
                    "start",
                    &short(value),
                );
            }
        }
        svg + "</svg>\n"
    }
}

/// Renders points joined by a line, with both axes from 0.
pub fn curve(series: &Series, server: &str) -> String {
    let most = |pick: fn(&(f64, f64)) -> f64| series.points.iter().map(pick).fold(1e-9, f64::max);
    let (x_most, y_most) = (most(|p| p.0), most(|p| p.1));
    let [x_name, y_name] = &series.axes;
    let (wide, high) = (WIDTH - 100.0, HEIGHT - 80.0);
    let place = |(x, y): &(f64, f64)| {
        format!(
            "{:.1},{:.1} ",
            80.0 + x / x_most * wide,
            HEIGHT - 40.0 - y / y_most * high
        )
    };
    let points: String = series.points.iter().map(place).collect();
    let mut svg = head(HEIGHT, &format!("{}: {}", server, series.name));
    let (bottom, top) = (HEIGHT - 40.0, HEIGHT - 40.0 - high);
    let _ = write!(
        svg,
        "<path d='M80 {top} V{bottom} H{}' fill='none' stroke='#999'/>\
         <polyline points='{points}' fill='none' stroke='{}' stroke-width='1.5'/>",
        80.0 + wide,
        color(0)
    );
    text(&mut svg, 74.0, top + 5.0, "end", &short(y_most));
    text(&mut svg, 74.0, top + 20.0, "end", y_name);
    text(
        &mut svg,
        80.0 + wide,
        bottom + 16.0,
        "end",
        &format!("{} {x_name}", short(x_most)),
    );
    svg + "</svg>\n"
}

fn head(height: f64, title: &str) -> String {
    format!(
        "<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height}' font-family='sans-serif' \
         font-size='12'><rect width='100%' height='100%' fill='white'/>\
         <text x='10' y='18' font-weight='bold'>{}</text>",
        escape(title)
    )
}

fn rect(svg: &mut String, x: f64, y: f64, width: f64, color: &str) {
    let height = BAR - 2.0;
    *svg += &format!(
        "<rect x='{x:.1}' y='{y:.1}' width='{width:.1}' height='{height}' fill='{color}'/>"
    );
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, what: &str) {
    let what = escape(what);
    *svg += &format!("<text x='{x:.1}' y='{y:.1}' text-anchor='{anchor}'>{what}</text>");
}

fn color(number: usize) -> &'static str {
    COLORS.get(number % COLORS.len()).copied().unwrap_or("#000")
}

fn short(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}
