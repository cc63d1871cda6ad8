//! The terminal as full screen, and as it was when that ends, however it ends.

use std::io::{self, IsTerminal, Stdout, stdout};
use std::panic;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

/// A terminal that shows the alternate screen and passes every key on. Dropping it restores the
/// terminal; a panic does so before its message is printed.
pub struct FullScreen {
    /// To draw on.
    pub terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl FullScreen {
    /// Whether standard output and input are a terminal.
    pub fn is_possible() -> bool {
        stdout().is_terminal() && io::stdin().is_terminal()
    }

    /// Takes the terminal.
    pub fn enter() -> io::Result<Self> {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            restore();
            before(panic);
        }));
        enable_raw_mode()?;
        // From here on a failure must restore what has been changed.
        let entered = execute!(stdout(), EnterAlternateScreen)
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        match entered {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        restore();
    }
}

/// There is nobody to tell when it fails: the terminal is what messages would go to.
fn restore() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}
