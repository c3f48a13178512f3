//! What a person would have read on a terminal, scrolled-off lines included.
//!
//! A PTY's bytes are meant for a screen: progress bars go back, frames are drawn over each other, and a
//! full-screen program has a screen of its own. This runs them through a model of one and reads it at the
//! end: rows that were wrapped are one line again, spaces at the end of a line go, and where a
//! full-screen program is still up, its screen follows. It works on bounded windows, outside the capture.

use avt::parser::Function;
use avt::{Line, Observation, Observer, Operation, Parser, ScreenKind, Terminal};
use serde::{Deserialize, Serialize};

/// The most rows that the model has: more are no one's screen, and each costs memory.
pub const MAX_ROWS: u16 = 300;
/// The most columns.
pub const MAX_COLS: u16 = 500;
/// What all runs of the model for one preview may cost, in cells touched: about a second. A window
/// full of the dearest sequences would take minutes.
pub const MAX_WORK: u64 = 100_000_000;

/// The size of a terminal, in characters. Both sides are at least 1, and at most what the model has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    rows: u16,
    cols: u16,
}

impl Size {
    /// A size; what the model does not have becomes the nearest that it has.
    pub fn new(rows: u16, cols: u16) -> Self {
        Self {
            rows: rows.clamp(1, MAX_ROWS),
            cols: cols.clamp(1, MAX_COLS),
        }
    }
}

impl Default for Size {
    fn default() -> Self {
        Self { rows: 24, cols: 80 }
    }
}

/// Runs bytes through terminals of one size, until the work for it is used up.
#[derive(Debug)]
pub struct Model {
    size: Size,
    work: u64,
}

impl Model {
    /// A model with [`MAX_WORK`] before it.
    pub fn new(size: Size) -> Self {
        // A size that came by a wire is no better than one that was asked for.
        let size = Size::new(size.rows, size.cols);
        Self {
            size,
            work: MAX_WORK,
        }
    }

    /// What is to be read on a fresh terminal after `bytes`. `None` if it is more than so many bytes or
    /// lines, or cannot be known, since the work is used up.
    pub fn read(&mut self, bytes: &[u8], max_bytes: usize, max_lines: usize) -> Option<String> {
        let (rows, cols) = (self.size.rows.into(), self.size.cols.into());
        let mut terminal = Terminal::new(cols, rows).ok()?;
        let mut parser = Parser::new();
        let mut page = Page::new(max_bytes, max_lines);
        for c in String::from_utf8_lossy(bytes).chars() {
            let Some(function) = parser.feed(c) else {
                continue;
            };
            self.work = self
                .work
                .checked_sub(cost(&function, rows as u64, cols as u64))?;
            terminal.execute_with(function, &mut page);
            if page.is_over() {
                return None;
            }
        }
        page.finish(&terminal)
    }
}

/// Cells that a function touches, about.
fn cost(function: &Function, rows: u64, cols: u64) -> u64 {
    match function {
        Function::Print(_)
        | Function::Cr
        | Function::Bs
        | Function::Ht
        | Function::Sgr(_)
        | Function::Cup(..)
        | Function::Cuu(_)
        | Function::Cud(_)
        | Function::Cuf(_)
        | Function::Cub(_)
        | Function::Cha(_)
        | Function::Vpa(_) => 1,
        // A row is made, or one is moved.
        Function::Lf | Function::Nel | Function::Ri => rows + cols,
        Function::El(_) | Function::Ech(_) | Function::Ich(_) | Function::Dch(_) => cols,
        // A row for each `cols` of them.
        Function::Rep(n) => 3 * u64::from(*n) + rows,
        _ => rows * cols,
    }
}

/// The lines that were read so far.
#[derive(Debug)]
struct Page {
    text: String,
    lines: usize,
    /// A line of which not all rows are here.
    line: String,
    max_bytes: usize,
    max_lines: usize,
}

impl Page {
    fn new(max_bytes: usize, max_lines: usize) -> Self {
        Self {
            text: String::new(),
            lines: 0,
            line: String::new(),
            max_bytes,
            max_lines,
        }
    }

    fn is_over(&self) -> bool {
        self.text.len() > self.max_bytes
            || self.lines > self.max_lines
            // Spaces at its end may go, but not more than there can be in some rows.
            || self.line.len() > self.max_bytes + 4 * usize::from(MAX_COLS)
    }

    fn push(&mut self, row: &Line) {
        self.line.extend(row.chars());
        if !row.is_wrapped() {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        self.text.push_str(self.line.trim_end_matches(' '));
        self.text.push('\n');
        self.lines += 1;
        self.line.clear();
    }

    /// The rows of a screen down to the cursor, or to the last that has something on it. The row of the
    /// cursor is a line that has not ended.
    fn push_screen<'a>(&mut self, rows: impl Iterator<Item = &'a Line>, cursor: Option<usize>) {
        let rows: Vec<&Line> = rows.collect();
        let is_blank = |row: &&Line| row.chars().all(|c| c == ' ') && !row.is_wrapped();
        let used = rows
            .iter()
            .rposition(|row| !is_blank(row))
            .map_or(0, |i| i + 1);
        let shown = used.max(cursor.unwrap_or(0));
        for row in rows.iter().take(shown) {
            self.push(row);
        }
        if !self.line.is_empty() {
            self.end_line();
        }
        let is_open = cursor.is_some_and(|row| used > 0 && row < used);
        if is_open && self.text.ends_with('\n') {
            self.text.pop();
        }
    }

    fn finish(mut self, terminal: &Terminal) -> Option<String> {
        let primary = terminal.primary_screen();
        if terminal.active_screen_kind() == ScreenKind::Primary {
            self.push_screen(primary.visible_lines(), Some(terminal.cursor().row));
        } else {
            self.push_screen(primary.visible_lines(), None);
            self.push_screen(terminal.screen().visible_lines(), None);
        }
        let lines = crate::text::count_lines(self.text.as_bytes());
        (self.text.len() <= self.max_bytes && lines <= self.max_lines).then_some(self.text)
    }
}

impl Observer for Page {
    type Output = ();

    /// A reset takes what is on the screen; a person has seen it.
    fn before(&mut self, context: &mut Observation<'_>, operation: &Operation) {
        if matches!(operation, Operation::Function(Function::Ris)) {
            self.push_screen(context.terminal().primary_screen().visible_lines(), None);
        }
    }

    fn evicted(&mut self, _: &mut Observation<'_>, row: &Line) {
        if !self.is_over() {
            self.push(row);
        }
    }

    fn end(&mut self, _: &mut Observation<'_>) {}
}

#[cfg(test)]
mod tests;
