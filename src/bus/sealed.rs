//! Sealed files in memory, to pass a whole text as a descriptor.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::OwnedFd;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// Returns a file with `content`, at its start; it cannot be changed. `name` appears in lists of descriptors.
pub(super) fn file(name: &str, content: &[u8]) -> io::Result<OwnedFd> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let mut file = File::from(memfd_create(CString::new(name)?.as_c_str(), flags)?);
    file.write_all(content)?;
    file.rewind()?;
    let seals = SealFlag::F_SEAL_SEAL
        | SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_WRITE;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file.into())
}
