//! Where is it shown? On a terminal, with a table drawn anew five times a second; in plain lines elsewhere; nowhere
//! when only the result is wanted.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IsTerminal as _, Write as _};
use std::pin::pin;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::board::{Board, Mark};
use super::origins::{Counted, Origin};
use super::step::Step;
use super::table::{self, Line, Paint, ratio};

/// Between two drawings of the table.
const FRAME: Duration = Duration::from_millis(200);
/// Between two lines where nothing can be drawn in place.
const PLAIN: Duration = Duration::from_secs(2);
/// Rates are shown over so many frames.
const FRAMES: usize = 6;

/// How it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Live,
    Plain,
    Silent,
}

/// Where it is shown.
pub(super) struct View {
    kind: Kind,
    paint: Paint,
    /// Lines of the table that stands below everything else.
    drawn: usize,
    recent: VecDeque<Moment>,
}

struct Moment {
    mark: Mark,
    counted: Vec<Counted>,
}

impl Moment {
    fn of(board: &Board) -> Self {
        let counted = board.origins.iter().map(Origin::counted).collect();
        Self { mark: board.mark(board.seen().told), counted }
    }
}

impl View {
    /// Standard output as it is; silent when that is for the result alone.
    pub(super) fn new(silent: bool) -> Self {
        let terminal = io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let kind = match (silent, terminal) {
            (true, _) => Kind::Silent,
            (false, true) => Kind::Live,
            (false, false) => Kind::Plain,
        };
        let paint = Paint(kind == Kind::Live && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty()));
        Self { kind, paint, drawn: 0, recent: VecDeque::new() }
    }

    /// Says something that stays.
    pub(super) fn say(&mut self, text: &str) -> io::Result<()> {
        if self.kind == Kind::Silent {
            return Ok(());
        }
        let erased = self.erased();
        print(&format!("{erased}{text}\n"))
    }

    /// Shows a step that is over. What the columns are is said once where rows follow each other, else for each.
    pub(super) fn step(&mut self, step: &Step, first: bool) -> io::Result<()> {
        if first || self.kind == Kind::Plain {
            self.say(&table::head(self.paint))?;
        }
        self.say(&table::row(step, self.paint))
    }

    /// Says how it ended.
    pub(super) fn verdict(&mut self, kept: bool, text: &str) -> io::Result<()> {
        let text = if kept { self.paint.bold(text) } else { self.paint.alarm(text) };
        self.say(&format!("\n{text}"))
    }

    /// Shows the board until `what` is done.
    pub(super) async fn through<T>(
        &mut self,
        board: &Board,
        title: &str,
        what: impl Future<Output = T>,
    ) -> io::Result<T> {
        let mut what = pin!(what);
        let mut ticks = interval(if self.kind == Kind::Live { FRAME } else { PLAIN });
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // the first tick is at once
        ticks.tick().await;
        self.recent.clear();
        self.recent.push_back(Moment::of(board));
        loop {
            tokio::select! {
                biased;
                done = &mut what => return Ok(done),
                _ = ticks.tick() => self.show(board, title)?,
            }
        }
    }

    fn show(&mut self, board: &Board, title: &str) -> io::Result<()> {
        if self.kind == Kind::Silent {
            return Ok(());
        }
        let now = Moment::of(board);
        self.recent.push_back(now);
        let (Some(then), Some(now)) = (self.recent.front(), self.recent.back()) else { return Ok(()) };
        let window = now.mark.since(&then.mark);
        let progress = table::progress(title, &window, board.seen().told.retries, board.load.failed());
        let lines = lines(board, then, now, window.seconds);
        let frames = if self.kind == Kind::Live { FRAMES } else { 1 };
        if self.recent.len() > frames {
            self.recent.pop_front();
        }
        if self.kind == Kind::Plain {
            return print(&format!("{progress}\n"));
        }
        let mut table = table::origins(&lines, self.paint);
        table.push(progress);
        let erased = self.erased();
        self.drawn = table.len();
        print(&format!("{erased}{}\n", table.join("\n")))
    }

    /// What takes the table away: up to its first line, and nothing below.
    fn erased(&mut self) -> String {
        match std::mem::take(&mut self.drawn) {
            0 => String::new(),
            lines => format!("\u{1b}[{lines}F\u{1b}[J"),
        }
    }
}

/// The origins the gateway knows, and what they did between two moments.
fn lines(board: &Board, then: &Moment, now: &Moment, seconds: f64) -> Vec<Line> {
    let all = board.origins.iter().zip(then.counted.iter().zip(&now.counted));
    all.filter_map(|(origin, (then, now))| {
        let state = board.state(&origin.name)?;
        let (hits, misses) = (now.hits - then.hits, now.misses - then.misses);
        let rate = (hits + misses) as f64 / seconds.max(0.001);
        let (name, cached) = (origin.name.clone(), origin.cached());
        Some(Line { name, state, rate, hit_ratio: ratio(hits, misses), cached })
    })
    .collect()
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
