//! The result of a comparison as a table: each operation's worst case, and the failures.

use std::fmt;

/// The worst case of each operation, and all failures.
#[derive(Clone, Debug, Default)]
pub struct Report {
    lines: Vec<Line>,
    failures: Vec<String>,
}

#[derive(Clone, Debug)]
struct Line {
    op: &'static str,
    cases: usize,
    failed: usize,
    worst: f64,
    name: String,
}

impl Report {
    /// Adds a case of `op`: its greatest |delta| in units of the bound, and the reason if it failed.
    pub(super) fn add(
        &mut self,
        op: &'static str,
        name: &str,
        worst: f64,
        failure: Option<String>,
    ) {
        let at = self.lines.iter().position(|line| line.op == op);
        let at = at.unwrap_or_else(|| {
            self.lines.push(Line {
                op,
                cases: 0,
                failed: 0,
                worst: -1.0,
                name: String::new(),
            });
            self.lines.len() - 1
        });
        let line = &mut self.lines[at];
        line.cases += 1;
        line.failed += usize::from(failure.is_some());
        if worst > line.worst {
            line.worst = worst;
            name.clone_into(&mut line.name);
        }
        self.failures
            .extend(failure.map(|failure| format!("{name}: {failure}")));
    }

    #[must_use]
    pub fn cases(&self) -> usize {
        self.lines.iter().map(|line| line.cases).sum()
    }

    /// The number of operations with a case.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.lines.len()
    }

    /// The failed cases, with reasons.
    #[must_use]
    pub fn failures(&self) -> &[String] {
        &self.failures
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.failures {
            writeln!(f, "FAILED {failure}")?;
        }
        writeln!(
            f,
            "{:<11} {:>5} {:>6}  {:>11}  case",
            "op", "cases", "failed", "worst/bound"
        )?;
        for line in &self.lines {
            let Line {
                op,
                cases,
                failed,
                worst,
                name,
            } = line;
            writeln!(f, "{op:<11} {cases:>5} {failed:>6}  {worst:>11.4}  {name}")?;
        }
        Ok(())
    }
}
