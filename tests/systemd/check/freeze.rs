//! Stops single threads of a process, as a driver that hangs or a lock that is never released would.

use std::fs;

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::Failed;

/// Returns once the process has ended: until then the threads neither run nor leave.
pub(crate) fn freeze(pid: &str, names: &[&str]) -> Result<(), Failed> {
    let all_but = names.iter().any(|name| name.starts_with('-'));
    let mut stopped = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let folder = task?.path();
        let name = fs::read_to_string(folder.join("comm"))?;
        let name = name.trim_end();
        let is_listed = names
            .iter()
            .any(|wanted| wanted.trim_start_matches('-') == name);
        if is_listed == all_but {
            continue;
        }
        let tid = folder.file_name().unwrap_or_default().to_string_lossy();
        let tid = Pid::from_raw(tid.parse()?);
        ptrace::seize(tid, ptrace::Options::empty())?;
        ptrace::interrupt(tid)?;
        println!("frozen: {name}");
        stopped.push(tid);
    }
    if stopped.is_empty() {
        return Err(format!("process {pid} has no such thread").into());
    }
    for tid in stopped {
        // Whatever it is stopped for, it is not continued; only its death ends the wait.
        while !matches!(
            waitpid(tid, Some(WaitPidFlag::__WALL)),
            Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(_)
        ) {}
    }
    Ok(())
}
