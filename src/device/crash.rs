//! Reports a fatal signal before the process dies. Only unsafe code, in this program or the driver, can cause one,
//! apart from the watchdog, which aborts a process without progress. Panics are reported elsewhere.
//!
//! The heap may be damaged, or its lock held by the interrupted code, so the important lines are written without
//! allocating memory. The backtrace comes last, because it allocates. An alarm ends the process if it blocks.
//!
//! The crates crash-handler and minidumper are not used: another process writes a dump for a server, and a dump would
//! contain prompts. This module writes lines to the journal.

use std::backtrace::Backtrace;
use std::ffi::c_int;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Read as _};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use nix::sys::stat::Mode;
use nix::unistd::{alarm, gettid, write};

use super::mapping;

const SIGNALS: [Signal; 5] = [
    Signal::SIGSEGV,
    Signal::SIGBUS,
    Signal::SIGILL,
    Signal::SIGFPE,
    Signal::SIGABRT,
];

/// Seconds for the report: looking up function names takes time on a slow board. It is less than `TimeoutAbortSec=` of
/// the unit, after which systemd kills the process.
pub const LAST_WORDS_SECONDS: u32 = 3;

/// Whether stderr is the journal, which reads the level of a line.
static LEVELS: AtomicBool = AtomicBool::new(false);

/// The signal that ends the process.
static FIRST: AtomicI32 = AtomicI32::new(0);

/// Reports fatal signals on stderr: the signal, the thread, and where it was. The process then dies of the signal as
/// usual.
///
/// No core dump is needed, which would contain weights and prompts. A stack overflow is not reported. With `levels`,
/// stderr is the journal, and each line begins with its level.
pub fn report_crashes(levels: bool) -> Result<(), Errno> {
    LEVELS.store(levels, Ordering::Relaxed);
    for signal in SIGNALS {
        // SAFETY: the handler may do what handlers must not do, because it never returns to the interrupted code. The
        // signal's default action follows, or an alarm if the handler blocks on a lock of that code.
        unsafe { handle(signal, on_signal) }?;
    }
    Ok(())
}

/// Installs a handler for one signal; the next one has its default action.
///
/// # Safety
/// `handler` is safe for signals, or never returns to the interrupted code.
unsafe fn handle(signal: Signal, handler: extern "C" fn(c_int)) -> Result<SigAction, Errno> {
    let handler = SigHandler::Handler(handler);
    let action = SigAction::new(handler, SaFlags::SA_RESETHAND, SigSet::empty());
    // SAFETY: as above.
    unsafe { sigaction(signal, &action) }
}

extern "C" fn on_signal(number: c_int) {
    FIRST.store(number, Ordering::Relaxed);
    // SAFETY: the handler is safe for signals.
    let _ = unsafe { handle(Signal::SIGALRM, cut_short) };
    alarm::set(LAST_WORDS_SECONDS);
    let signal = Signal::try_from(number).unwrap_or(Signal::SIGABRT);
    name_thread(signal);
    // Packaged programs have no symbols. With the addresses and the load address, another build of the same program can
    // resolve them.
    mapping::of_code(on_signal as *const () as usize, |line| {
        report(format_args!("{line}"));
    });
    // Only the backtrace allocates memory.
    for line in format!("{:#}", Backtrace::force_capture()).lines() {
        report(format_args!("{line}"));
    }
    // The signal is delivered when this function returns, with its default action.
    let _ = raise(signal);
}

/// Ends the process by its first signal if the report takes too long.
extern "C" fn cut_short(_: c_int) {
    let signal = Signal::try_from(FIRST.load(Ordering::Relaxed)).unwrap_or(Signal::SIGABRT);
    // The alarm may interrupt the thread that is blocked in the first handler.
    let mut set = SigSet::empty();
    set.add(signal);
    let _ = set.thread_unblock();
    let _ = raise(signal);
}

/// The name comes from the kernel, because the standard library's may be half written.
fn name_thread(signal: Signal) {
    let mut comm = [0; 64];
    let file = open(c"/proc/thread-self/comm", OFlag::O_RDONLY, Mode::empty());
    let read = file.map(|file| File::from(file).read(&mut comm));
    let read = read.map_or(0, |read| read.unwrap_or(0));
    let name = std::str::from_utf8(&comm[..read]).unwrap_or_default();
    let (name, thread, number) = (name.trim_end(), gettid(), signal as c_int);
    report(format_args!(
        "thread {name} ({thread}) got {signal} ({number})"
    ));
}

/// Writes one line, which is formatted on the stack.
fn report(text: fmt::Arguments<'_>) {
    let mut line = Line::default();
    let level = LEVELS.load(Ordering::Relaxed);
    // A longer line is cut.
    let _ = line.write_str(if level { "<2>" } else { "" });
    let _ = line.write_fmt(text);
    line.bytes[line.length] = b'\n';
    // This avoids the lock of stderr, which this thread may hold.
    let _ = write(io::stderr(), &line.bytes[..=line.length]);
}

/// The length of a file's path can reach this.
const LONGEST: usize = 5000;

struct Line {
    bytes: [u8; LONGEST + 1],
    length: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            bytes: [0; LONGEST + 1],
            length: 0,
        }
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fits = text.len().min(LONGEST - self.length);
        let end = self.length + fits;
        self.bytes[self.length..end].copy_from_slice(&text.as_bytes()[..fits]);
        self.length = end;
        if fits == text.len() {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}
