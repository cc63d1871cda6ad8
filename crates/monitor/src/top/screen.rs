//! The full screen: a panel for each number, then object stores, then the procedures.
//!
//! ```text
//! pagewell 0.1.0, up 3 min 2 s, resident 20 MiB            127.0.0.1:20491, every 1 s
//! server calls       12.3k/s   server latency     41.0 us   server queue depth   4.20
//! 0/s with an error            p50; p99 93 us, p99.9 99 us  calls at a time, mean
//! ▁▂▃▄▅▅▅▆▇█▇▇▆▅               ▁▁▁▁▂▁▁▁▁▁▁█▁▁▁▁             ▂▂▂▃▃▃▄▃▃▂▂
//! ```

use std::collections::{BTreeMap, VecDeque};

use ratatui::Frame;
use ratatui::layout::Constraint::{Fill, Length};
use ratatui::layout::{Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, RenderDirection, Sparkline};

use super::measure::{Look, Measure};
use super::text;

/// Narrower panels would cut their details off.
const PANEL_COLUMNS_MIN: u16 = 36;
const PANELS_ACROSS_MAX: u16 = 4;
/// Name and value, details, two lines of sparkline, a gap.
const PANEL_ROWS: u16 = 5;
const GAP_COLUMNS: u16 = 2;
/// Kept for the procedures when there are many panels.
const PROCEDURE_ROWS_MIN: u16 = 4;
/// Sparklines need integers; the steps to the highest value.
const STEPS: f64 = 10_000.0;

const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const WARNING: Style = BOLD.fg(Color::Yellow);

/// The width of the widest terminal.
const VALUES_MAX: usize = 600;

/// The last looks.
#[derive(Debug, Default)]
pub struct History {
    /// The last look; before the first it has only the title.
    pub last: Look,
    values: BTreeMap<String, VecDeque<f64>>,
}

impl History {
    /// Adds a look. A missing value counts as zero in its sparkline.
    pub fn push(&mut self, look: Look) {
        for measure in &look.measures {
            let values = self.values.entry(measure.name.clone()).or_default();
            values.push_front(measure.value.unwrap_or(0.0));
            values.truncate(VALUES_MAX);
        }
        self.last = look;
    }

    /// The values of a number, latest first.
    pub fn values(&self, name: &str) -> impl Iterator<Item = f64> + '_ {
        self.values.get(name).into_iter().flatten().copied()
    }
}

/// The text around the numbers.
pub struct Around<'a> {
    /// Their source and period.
    pub source: &'a str,
    /// Why there are none, if so.
    pub trouble: Option<&'a str>,
    /// Stops until a key is pressed.
    pub paused: bool,
}

/// Draws the screen.
pub fn draw(frame: &mut Frame<'_>, history: &History, around: &Around<'_>) {
    let area = frame.area();
    if area.height < 3 || area.width < 20 {
        return;
    }
    let rows = [Length(1), Length(1), Fill(1), Length(1)];
    let [first, _, body, last] = Layout::vertical(rows).areas(area);
    head(frame, first, history, around);
    foot(frame, last, around);
    let look = &history.last;
    if look.measures.is_empty() && look.stores.is_empty() {
        frame.render_widget(Paragraph::new("nothing has been done yet"), body);
        return;
    }
    let used = panels(frame, body, history);
    let [_, rest] = Layout::vertical([Length(used), Fill(1)]).areas(body);
    let stores_rows = stores_rows(look);
    let [stores_area, rest] = Layout::vertical([Length(stores_rows), Fill(1)]).areas(rest);
    stores(frame, stores_area, look);
    procedures(frame, rest, history);
}

fn head(frame: &mut Frame<'_>, area: Rect, history: &History, around: &Around<'_>) {
    let title = Line::styled(history.last.title.clone(), BOLD);
    frame.render_widget(Paragraph::new(title), area);
    let source = Line::styled(around.source, DIM).right_aligned();
    let left = u16::try_from(history.last.title.len()).unwrap_or(u16::MAX);
    let needed = u16::try_from(around.source.len()).unwrap_or(u16::MAX);
    if left.saturating_add(needed) < area.width {
        frame.render_widget(Paragraph::new(source), area);
    }
}

fn foot(frame: &mut Frame<'_>, area: Rect, around: &Around<'_>) {
    let line = if let Some(trouble) = around.trouble {
        Line::styled(trouble.to_owned(), BOLD.fg(Color::Red))
    } else if around.paused {
        Line::styled("paused: space goes on, q quits", BOLD)
    } else {
        Line::styled("q quits, space pauses", DIM)
    };
    frame.render_widget(Paragraph::new(line), area);
}

/// Draws the panels that fit; returns the rows used.
fn panels(frame: &mut Frame<'_>, area: Rect, history: &History) -> u16 {
    let measures = &history.last.measures;
    let across = (area.width / PANEL_COLUMNS_MIN).clamp(1, PANELS_ACROSS_MAX);
    let width = area.width / across;
    let wanted = u16::try_from(measures.len()).unwrap_or(u16::MAX);
    let kept_rows = PROCEDURE_ROWS_MIN.saturating_add(stores_rows(&history.last));
    let space = area.height.saturating_sub(kept_rows) / PANEL_ROWS;
    let lines = wanted.div_ceil(across).min(space.max(1));
    for (index, measure) in (0..lines.saturating_mul(across)).zip(measures) {
        let (line, column) = (index / across, index % across);
        let panel_area = Rect {
            x: area.x + column * width,
            y: area.y + line * PANEL_ROWS,
            width: width.saturating_sub(GAP_COLUMNS),
            height: PANEL_ROWS - 1,
        };
        panel(frame, panel_area.intersection(area), measure, history);
    }
    (lines * PANEL_ROWS).min(area.height)
}

fn panel(frame: &mut Frame<'_>, area: Rect, measure: &Measure, history: &History) {
    let value = measure
        .value
        .map_or("-".to_owned(), |value| measure.unit.show(value));
    let width = usize::from(area.width);
    let space = width.saturating_sub(measure.name.len() + value.len());
    let first = Line::from(vec![
        Span::raw(measure.name.as_str()),
        Span::raw(" ".repeat(space)),
        Span::styled(value, BOLD),
    ]);
    let second = Line::styled(measure.detail.as_str(), DIM);
    frame.render_widget(Paragraph::new(vec![first, second]), area);
    let [_, below] = Layout::vertical([Length(2), Fill(1)]).areas(area);
    let values: Vec<f64> = history.values(&measure.name).take(width).collect();
    let highest = values.iter().copied().fold(0.0, f64::max);
    let scale = if highest > 0.0 { STEPS / highest } else { 0.0 };
    // 0 to STEPS each.
    let steps: Vec<u64> = values.iter().map(|value| (value * scale) as u64).collect();
    let sparkline = Sparkline::default()
        .data(&steps)
        .max(STEPS as u64)
        .direction(RenderDirection::RightToLeft)
        .style(Style::new().fg(Color::Cyan));
    frame.render_widget(sparkline, below);
}

/// A heading, the numbers and a gap; none without numbers.
fn stores_rows(look: &Look) -> u16 {
    let rows = u16::try_from(look.stores.len()).unwrap_or(u16::MAX - 2);
    if rows == 0 { 0 } else { rows + 2 }
}

/// Object stores, a line for each number.
fn stores(frame: &mut Frame<'_>, area: Rect, look: &Look) {
    if look.stores.is_empty() || area.height == 0 {
        return;
    }
    let mut lines = vec![Line::styled("object stores", DIM)];
    lines.extend(look.stores.iter().map(|one| {
        let value = one
            .value
            .map_or("-".to_owned(), |value| one.unit.show(value));
        let (value_style, detail_style) = match one.is_warning {
            true => (WARNING, WARNING),
            false => (BOLD, DIM),
        };
        Line::from(vec![
            Span::raw(format!("{:<16}", one.name)),
            Span::styled(format!("{value:>13}"), value_style),
            Span::raw("  "),
            Span::styled(one.detail.as_str(), detail_style),
        ])
    }));
    frame.render_widget(Paragraph::new(lines), area);
}

fn procedures(frame: &mut Frame<'_>, area: Rect, history: &History) {
    let called = &history.last.procedures;
    if called.is_empty() || area.height == 0 {
        return;
    }
    let mut lines = vec![Line::styled(text::HEAD, DIM)];
    lines.extend(called.iter().map(|one| Line::raw(text::line(one))));
    frame.render_widget(Paragraph::new(lines), area);
}
