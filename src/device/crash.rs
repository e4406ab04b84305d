//! The last words of a process that dies by a signal. Only unsafe code can bring that about, ours here or the
//! driver's; and the watchdog, which aborts what stands still. A panic does not come this way.

use std::backtrace::Backtrace;
use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use nix::unistd::{alarm, write};

const SIGNALS: [Signal; 5] = [
    Signal::SIGSEGV,
    Signal::SIGBUS,
    Signal::SIGILL,
    Signal::SIGFPE,
    Signal::SIGABRT,
];

/// Seconds that they may take: names of functions are looked up, on a slow board.
const LONGEST: u32 = 10;

/// Whether the journal reads stderr, and with it what the level of a line is.
static LEVELS: AtomicBool = AtomicBool::new(false);

/// From now on the thread that a fatal signal hits tells stderr which one it was, and where it stood; then the process
/// dies of it as before. No core is needed for that, which would hold weights and prompts. Of a thread whose stack is
/// full nothing is told.
///
/// # Errors
/// If the system refuses.
pub fn report_crashes() -> Result<(), Errno> {
    LEVELS.store(
        std::env::var_os("JOURNAL_STREAM").is_some(),
        Ordering::Relaxed,
    );
    let action = SigAction::new(
        SigHandler::Handler(say),
        SaFlags::SA_RESETHAND,
        SigSet::empty(),
    );
    for signal in SIGNALS {
        // SAFETY: the handler may do what a handler must not, for it never gives the interrupted code back its thread:
        // the signal's usual action follows, and an alarm if a lock that this code holds keeps it from that.
        unsafe { sigaction(signal, &action) }?;
    }
    Ok(())
}

extern "C" fn say(number: c_int) {
    alarm::set(LONGEST);
    let signal = Signal::try_from(number).unwrap_or(Signal::SIGABRT);
    // Asked of the kernel: what the standard library knows of this thread may be half written.
    let name = prctl::get_name().unwrap_or_default();
    tell(&format!("thread {} got {signal}", name.to_string_lossy()));
    // Packaged programs hold no names: addresses, and where the program lies, which another build of it can name.
    tell(&format!("{:#}", Backtrace::force_capture()));
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    tell(maps.lines().next().unwrap_or_default());
    // It is delivered when this returns, with its usual action.
    let _ = raise(signal);
}

/// Each line by itself, as far as anybody listens.
fn tell(text: &str) {
    let level = if LEVELS.load(Ordering::Relaxed) {
        "<2>"
    } else {
        ""
    };
    for line in text.lines() {
        // Past the lock of stderr, which this very thread may hold.
        let _ = write(io::stderr(), format!("{level}{line}\n").as_bytes());
    }
}
