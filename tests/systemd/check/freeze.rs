//! Stops single threads of a process, as a hanging driver or a lock that is never released does.

use std::fs;

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::Failed;

/// Stops the threads, and returns when the process has ended.
pub(crate) fn freeze(pid: &str, names: &[&str]) -> Result<(), Failed> {
    let mut stopped = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let folder = task?.path();
        let name = fs::read_to_string(folder.join("comm"))?;
        let name = name.trim_end();
        if !names.contains(&name) {
            continue;
        }
        let tid = folder.file_name().unwrap_or_default().to_string_lossy();
        let tid = Pid::from_raw(tid.parse()?);
        ptrace::seize(tid, ptrace::Options::empty())?;
        ptrace::interrupt(tid)?;
        println!("frozen: {name}");
        stopped += 1;
    }
    if stopped == 0 {
        return Err(format!("process {pid} has no such thread").into());
    }
    // No thread is continued. The wait is for all at once, as the first thread of a process ends last.
    while !matches!(waitpid(None, Some(WaitPidFlag::__WALL)), Err(Errno::ECHILD)) {}
    Ok(())
}
