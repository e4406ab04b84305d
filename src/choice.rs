//! Options that have one of a few named values. Configuration files and command lines use the same names.
//!
//! This module parses neither of them.

/// An option with a fixed list of values.
pub trait Choice: Copy + 'static {
    /// Every value, in the order in which messages and help list them.
    const ALL: &'static [Self];

    /// The name of a value in configuration files and on command lines.
    fn name(self) -> &'static str;

    /// An explanation of a value for help, or an empty text.
    fn help(self) -> &'static str {
        ""
    }

    /// The value with a name; upper and lower case differ.
    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|value| value.name() == name)
    }
}
