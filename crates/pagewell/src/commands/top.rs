//! `pagewell top`.

use std::io::{IsTerminal, stdin, stdout};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use pagewell_base::duration;
use pagewell_monitor::metrics::Snapshot;
use pagewell_monitor::top::measure::Look;
use pagewell_monitor::top::screen::{Around, History, draw};
use pagewell_monitor::top::text;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rustix::event::{PollFd, PollFlags, poll};

use crate::failure::{Outcome, one_line, usage};
use crate::output;
use crate::signals;
use crate::target::{Target, TargetArguments};

const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_hours(1);

/// How long a key may wait for an answer.
const KEY_TIME: Duration = Duration::from_millis(100);

/// Watch a running server or mount, live.
///
/// Of the only one that runs on this machine, or of the one that is asked for. Shown is what
/// happened in each interval: calls and their latency, how many there were at a time, bytes, hits
/// of the caches, device requests, and the procedures that were called.
#[derive(Debug, Args)]
#[command(after_help = "\
Keys: q, Escape and Control-C quit, the space bar pauses.

Examples:
  pagewell top                                 the server or mount that runs here
  pagewell top --connect 10.0.0.1 --interval 5
  pagewell top --once                          one interval as text, for scripts")]
pub(crate) struct TopArguments {
    #[command(flatten)]
    target: TargetArguments,
    /// Look so often
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1s",
        value_parser = |text: &str| duration::within(text, INTERVALS)
    )]
    interval: Duration,
    /// Print what happens in one interval as text, and end
    #[arg(long)]
    once: bool,
}

pub(crate) fn run(arguments: &TopArguments) -> anyhow::Result<Outcome> {
    // Before the terminal changes: a missing process is an ordinary message.
    let target = arguments.target.target()?;
    let first = target.counters()?;
    if arguments.once {
        return once(arguments, &target, &first);
    }
    if !(stdout().is_terminal() && stdin().is_terminal()) {
        return Err(usage(
            "top needs a terminal; 'pagewell top --once' prints text",
        ));
    }
    // Before any thread starts: threads inherit what is blocked. In raw mode only other programs
    // send these signals.
    let is_stopped = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&is_stopped);
    let stop = move || stop.store(true, Ordering::Relaxed);
    let opening = signals::watch(&[libc::SIGHUP, libc::SIGQUIT], stop).context("signals")?;
    opening.done();
    let (told, news) = sync_channel(1);
    let shown = format!("{target}, every {:?}", arguments.interval);
    ask(target, arguments.interval, told)?;
    // A panic restores the terminal, too, before its message.
    let watched = ratatui::try_init()
        .context("the terminal")
        .and_then(|screen| watch(&shown, screen, first, &news, &is_stopped));
    // When that fails there is no place for a message.
    let _ = ratatui::try_restore();
    watched
}

fn once(arguments: &TopArguments, target: &Target, first: &Snapshot) -> anyhow::Result<Outcome> {
    std::thread::sleep(arguments.interval);
    let now = target.counters()?;
    let look = Look::between(first, &now)
        .with_context(|| format!("{target}: the process was restarted"))?;
    output::print(text::render(&look).as_bytes())?;
    Ok(Outcome::Done)
}

/// Asks for snapshots on a thread of its own, so that a slow server does not hold up the keyboard.
fn ask(
    target: Target,
    interval: Duration,
    told: SyncSender<anyhow::Result<Snapshot>>,
) -> std::io::Result<()> {
    let thread = std::thread::Builder::new().name("snapshots".to_owned());
    thread.spawn(move || {
        let mut next = Instant::now() + interval;
        loop {
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            next = (next + interval).max(Instant::now());
            if told.send(target.counters()).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

fn watch(
    source: &str,
    mut screen: DefaultTerminal,
    mut earlier: Snapshot,
    news: &Receiver<anyhow::Result<Snapshot>>,
    is_stopped: &AtomicBool,
) -> anyhow::Result<Outcome> {
    let mut history = History::default();
    history.last.title = earlier.title();
    let (mut trouble, mut paused) = (None, false);
    while !is_stopped.load(Ordering::Relaxed) {
        match news.try_recv() {
            Ok(Ok(now)) => {
                trouble = None;
                if let Some(look) = Look::between(&earlier, &now).filter(|_| !paused) {
                    history.push(look);
                }
                earlier = now;
            }
            Ok(Err(error)) => trouble = Some(one_line(&error)),
            Err(_) => {}
        }
        let around = Around {
            source,
            trouble: trouble.as_deref(),
            paused,
        };
        screen.draw(|frame| draw(frame, &history, &around))?;
        // Where the terminal is gone the library would look for a key for ever.
        if is_closed_meanwhile(KEY_TIME) {
            break;
        }
        while event::poll(Duration::ZERO)? {
            let Event::Key(key) = event::read()? else {
                continue;
            };
            match meaning(key) {
                Some(Key::Quit) => return Ok(Outcome::Done),
                Some(Key::Pause) => paused = !paused,
                None => {}
            }
        }
    }
    Ok(Outcome::Done)
}

/// Waits at most `time` for a key; whether the terminal is gone.
fn is_closed_meanwhile(time: Duration) -> bool {
    let stdin = stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    let _ = poll(&mut polled, time.try_into().ok().as_ref());
    let [polled] = polled;
    polled.revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Quit,
    Pause,
}

fn meaning(key: KeyEvent) -> Option<Key> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if control => Some(Key::Quit),
        KeyCode::Char('q' | 'Q') | KeyCode::Esc => Some(Key::Quit),
        KeyCode::Char(' ' | 'p') => Some(Key::Pause),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_the_help_says() {
        let plain = |code| meaning(KeyEvent::new(code, KeyModifiers::NONE));
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(meaning(control_c), Some(Key::Quit));
        assert_eq!(plain(KeyCode::Char('q')), Some(Key::Quit));
        assert_eq!(plain(KeyCode::Esc), Some(Key::Quit));
        assert_eq!(plain(KeyCode::Char(' ')), Some(Key::Pause));
        assert_eq!(plain(KeyCode::Char('c')), None);
    }
}
