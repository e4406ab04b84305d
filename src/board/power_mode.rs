//! The power mode that nvpmodel has set, from its configuration and its record.

use super::files::Files;

/// A power mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PowerMode {
    pub id: u32,
    /// "MAXN_SUPER"; "unknown" if the configuration does not list it.
    pub name: String,
}

/// The power modes of a board.
#[derive(Clone, Debug, Default)]
pub struct PowerModes {
    modes: Vec<PowerMode>,
    /// The mode of a board on which none was ever set.
    default: Option<u32>,
}

impl PowerModes {
    /// Where nvpmodel has its modes: a line `< POWER_MODEL ID=0 NAME=MAXN >` for each, and `< PM_CONFIG DEFAULT=2 >`.
    pub const LIST: &str = "etc/nvpmodel.conf";
    /// Where nvpmodel records the mode that it has set: `pmode:0002`.
    pub const RECORD: &str = "var/lib/nvpmodel/status";

    /// Reads the text of nvpmodel's configuration, whose comments begin with `#`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let lines = |start| {
            let lines = text.lines().map(str::trim);
            lines.filter(move |line| line.starts_with(start))
        };
        let modes = lines("< POWER_MODEL ").filter_map(|line| {
            Some(PowerMode {
                id: number(line, "ID=")?,
                name: value(line, "NAME=")?.to_owned(),
            })
        });
        Self {
            modes: modes.collect(),
            default: lines("< PM_CONFIG ").find_map(|line| number(line, "DEFAULT=")),
        }
    }

    pub(super) fn find(files: &Files) -> Self {
        files
            .text(Self::LIST)
            .map_or_else(Self::default, |text| Self::parse(&text))
    }

    pub(super) fn read(&self, files: &Files) -> Option<PowerMode> {
        self.current(&files.value(Self::RECORD).unwrap_or_default())
    }

    /// Returns the mode that a record names, or else the default.
    #[must_use]
    pub fn current(&self, record: &str) -> Option<PowerMode> {
        let id = number(record, "pmode:").or(self.default)?;
        let listed = self.modes.iter().find(|mode| mode.id == id);
        Some(listed.cloned().unwrap_or_else(|| PowerMode {
            id,
            name: "unknown".into(),
        }))
    }

    /// Returns the fastest mode.
    #[must_use]
    pub fn fastest(&self) -> Option<&PowerMode> {
        let modes = self.modes.iter();
        let fastest = modes.filter(|mode| mode.name.starts_with("MAXN"));
        // "MAXN_SUPER" is faster than "MAXN".
        fastest.max_by_key(|mode| mode.name.len())
    }
}

fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let mut words = line.split([' ', '\n', '>']);
    words.find_map(|word| word.strip_prefix(key))
}

fn number(line: &str, key: &str) -> Option<u32> {
    value(line, key)?.parse().ok()
}
