//! Detects folders on storage that writing wears out soon: eMMC and SD cards.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The most stacked devices that are followed.
const DEEPEST: usize = 8;

/// Whether a folder, or its first existing parent, is on an eMMC or SD card according to `sys` (the system's `/sys`).
///
/// Unknown devices (networks, memory, layered file systems) count as such: unnecessary saving does no damage.
#[must_use]
pub fn wears_out(folder: &Path, sys: &Path) -> bool {
    let there = folder.ancestors().find_map(|path| fs::metadata(path).ok());
    there.is_none_or(|there| {
        let (major, minor) = numbers(there.dev());
        let device = sys.join(format!("dev/block/{major}:{minor}"));
        is_worn(&device, DEEPEST)
    })
}

fn numbers(device: u64) -> (u64, u64) {
    (nix::sys::stat::major(device), nix::sys::stat::minor(device))
}

/// Whether a device, or one below it, is such a card.
fn is_worn(device: &Path, deepest: usize) -> bool {
    let Ok(device) = fs::canonicalize(device) else {
        return true;
    };
    let mut parts = device.iter().map(|part| part.to_string_lossy());
    if deepest == 0 || parts.any(|part| part.starts_with("mmcblk")) {
        return true;
    }
    // Encrypted and joined devices are on others.
    below(&device).iter().any(|one| is_worn(one, deepest - 1))
}

fn below(device: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(device.join("slaves"));
    let entries = entries.into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_detected_below_encryption() {
        let sys = tempfile::tempdir().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (major, minor) = numbers(fs::metadata(folder.path()).unwrap().dev());
        let link = sys.path().join(format!("dev/block/{major}:{minor}"));
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        let device = |name: &str| {
            let path = sys.path().join("devices").join(name);
            fs::create_dir_all(path.join("slaves")).unwrap();
            path
        };
        let worn = |device: &Path| {
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(device, &link).unwrap();
            wears_out(&folder.path().join("not/made/yet"), sys.path())
        };
        assert!(!worn(&device("nvme0n1/nvme0n1p2")));
        assert!(worn(&device("mmc0/mmcblk0/mmcblk0p1")));
        let (encrypted, card) = (device("dm-0"), device("mmc0/mmcblk1/mmcblk1p1"));
        assert!(!worn(&encrypted));
        std::os::unix::fs::symlink(&card, encrypted.join("slaves/mmcblk1p1")).unwrap();
        assert!(worn(&encrypted));
        fs::remove_file(&link).unwrap();
        assert!(
            wears_out(folder.path(), sys.path()),
            "the device is unknown"
        );
    }
}
