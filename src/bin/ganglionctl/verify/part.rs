//! The parts that run in a process of their own: a crash, or the end of memory, ends one part and not the report.

use ganglion::choice::Choice;

use super::checks::{ADMISSION, CHUNKS, GRAPH, IMAGE, MANAGED, OF_CPU, OF_GPU, ROWS, SANDBOX};

/// A part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Device,
    Operations,
    Load,
    Graph,
    Rows,
}

impl Choice for Part {
    const ALL: &'static [Self] = Self::IN_ORDER;

    fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Operations => "operations",
            Self::Load => "load",
            Self::Graph => "graph",
            Self::Rows => "rows",
        }
    }
}

impl Part {
    pub(super) const IN_ORDER: &'static [Self] = &[
        Self::Device,
        Self::Operations,
        Self::Load,
        Self::Graph,
        Self::Rows,
    ];

    /// The text that is printed while it runs.
    pub(super) fn about(self) -> &'static str {
        match self {
            Self::Device => "opens the GPU and tries its memory",
            Self::Operations => "compares operations, which takes a minute or two",
            Self::Load => "loads the model",
            Self::Graph => "refuses driver calls",
            Self::Rows => "compares conversations that step together",
        }
    }

    /// The checks that it reports.
    pub(super) fn checks(self) -> &'static [&'static str] {
        match self {
            Self::Device => &[SANDBOX, IMAGE, MANAGED, CHUNKS],
            Self::Operations => &[OF_CPU, OF_GPU],
            Self::Load => &[ADMISSION],
            Self::Graph => &[GRAPH],
            Self::Rows => &[ROWS],
        }
    }

    /// Whether it needs a model.
    pub(super) fn needs_model(self) -> bool {
        matches!(self, Self::Load | Self::Graph | Self::Rows)
    }
}
