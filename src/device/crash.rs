//! The last words of a process that dies by a signal. Only unsafe code can bring that about, ours here or the
//! driver's; and the watchdog, which aborts what stands still. A panic does not come this way.
//!
//! The heap may be broken, or its lock held by the very code that was hit: what matters is said without asking for
//! memory. The backtrace comes last, for it needs some; an alarm ends the process where it waits for ever.
//!
//! The crates crash-handler and minidumper are not used: they write a dump, by another process, for a server that takes
//! dumps, and a dump would hold prompts; here a line is said in the journal.

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

/// Seconds that they may take: names of functions are looked up, on a slow board. Less than `TimeoutAbortSec=` of the
/// unit, after which systemd waits no longer.
pub const LAST_WORDS_SECONDS: u32 = 3;

/// Whether the journal reads stderr, and with it what the level of a line is.
static LEVELS: AtomicBool = AtomicBool::new(false);

/// What the process dies of.
static FIRST: AtomicI32 = AtomicI32::new(0);

/// From now on the thread that a fatal signal hits tells stderr which one it was, and where it stood; then the process
/// dies of it as before. No core is needed for that, which would hold weights and prompts. Of a thread whose stack is
/// full nothing is told. `levels`: stderr is the journal, and each line is to begin with its level.
pub fn report_crashes(levels: bool) -> Result<(), Errno> {
    LEVELS.store(levels, Ordering::Relaxed);
    for signal in SIGNALS {
        // SAFETY: the handler may do what a handler must not, for it never gives the interrupted code back its thread:
        // the signal's usual action follows, and an alarm if a lock that this code holds keeps it from that.
        unsafe { handle(signal, say) }?;
    }
    Ok(())
}

/// Once; the next time the signal has its usual action.
///
/// # Safety
/// `handler` does only what a handler may, or never returns to the code that it interrupts.
unsafe fn handle(signal: Signal, handler: extern "C" fn(c_int)) -> Result<SigAction, Errno> {
    let handler = SigHandler::Handler(handler);
    let action = SigAction::new(handler, SaFlags::SA_RESETHAND, SigSet::empty());
    // SAFETY: as above.
    unsafe { sigaction(signal, &action) }
}

extern "C" fn say(number: c_int) {
    FIRST.store(number, Ordering::Relaxed);
    // SAFETY: it does only what a handler may.
    let _ = unsafe { handle(Signal::SIGALRM, cut_short) };
    alarm::set(LAST_WORDS_SECONDS);
    let signal = Signal::try_from(number).unwrap_or(Signal::SIGABRT);
    name_thread(signal);
    // Packaged programs hold no names: addresses, and where the program lies, which another build of it can name.
    mapping::of_code(say as *const () as usize, |line| {
        tell(format_args!("{line}"));
    });
    // Only this asks for memory.
    for line in format!("{:#}", Backtrace::force_capture()).lines() {
        tell(format_args!("{line}"));
    }
    // It is delivered when this returns, with its usual action.
    let _ = raise(signal);
}

/// The last words take too long: what was said has to do, and the process dies of its first signal all the same.
extern "C" fn cut_short(_: c_int) {
    let signal = Signal::try_from(FIRST.load(Ordering::Relaxed)).unwrap_or(Signal::SIGABRT);
    // The alarm may hit the thread that is still in the first one's handler, where that one waits.
    let mut set = SigSet::empty();
    set.add(signal);
    let _ = set.thread_unblock();
    let _ = raise(signal);
}

/// Asked of the kernel: what the standard library knows of this thread may be half written.
fn name_thread(signal: Signal) {
    let mut comm = [0; 64];
    let file = open(c"/proc/thread-self/comm", OFlag::O_RDONLY, Mode::empty());
    let read = file.map(|file| File::from(file).read(&mut comm));
    let read = read.map_or(0, |read| read.unwrap_or(0));
    let name = std::str::from_utf8(&comm[..read]).unwrap_or_default();
    let (name, thread, number) = (name.trim_end(), gettid(), signal as c_int);
    tell(format_args!(
        "thread {name} ({thread}) got {signal} ({number})"
    ));
}

/// One line, as far as anybody listens. It is put together on the stack.
fn tell(text: fmt::Arguments<'_>) {
    let mut line = Line::default();
    let level = LEVELS.load(Ordering::Relaxed);
    // What does not fit is left out.
    let _ = line.write_str(if level { "<2>" } else { "" });
    let _ = line.write_fmt(text);
    line.bytes[line.length] = b'\n';
    // Past the lock of stderr, which this very thread may hold.
    let _ = write(io::stderr(), &line.bytes[..=line.length]);
}

/// The path of a file can be so long.
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
