//! The comparison of the reference with plain loops in f64, and the loops of rotation and attention, to compare with the
//! papers.

use super::case::Case;
use super::compare::worst;
use super::inputs::Inputs;
use super::report::Report;
use super::world::World;
use super::{DiffError, decode};
use crate::executor::Probe;
use crate::tape::{KvKind, Op, Rotation};

impl World {
    /// Compares the rotation, the cache and the attention of a case, and the operations of vision towers, with plain loops.
    /// Other operations, and prompts that would take too long, are not compared.
    pub fn diff_loops(
        &self,
        case: &Case,
        subject: &mut dyn Probe,
        report: &mut Report,
    ) -> Result<(), DiffError> {
        /// The most products of queries and keys.
        const MOST: usize = 4_000_000;
        let out = match case.op() {
            Op::RopeStore { rotated, .. } => *rotated,
            Op::Attend { out, .. } => *out,
            Op::Images(op) => op.x(),
            Op::Vision(op) => op.buffers().1[0],
            _ => return Ok(()),
        };
        let attends = matches!(case.op(), Op::Attend { .. });
        let (info, rows) = (case.tape.buffer(out), case.rows());
        let columns = info.columns;
        if attends && rows.iter().map(|(_, at)| at * columns).sum::<usize>() > MOST {
            return Ok(());
        }
        let inputs = self.inputs(case);
        let exact = if attends {
            self.attended(case, &inputs)
        } else if let Some(exact) = case.shown(&inputs) {
            exact
        } else if let Some(exact) = self.seen(case, &inputs) {
            exact
        } else {
            self.turned(case, &inputs, 0)
        };
        let name = subject.executor().name();
        let left = self
            .run(case, &inputs, subject)
            .map_err(|error| DiffError::Execute {
                case: case.name.clone(),
                executor: name,
                error,
            })?;
        let (mut ratio, mut failure) = (0.0_f64, None);
        let mut hold = |what: &str, exact: &[f64], ours: &[f32], columns, dtype| {
            #[allow(clippy::cast_possible_truncation)] // compared as executors hold it
            let exact: Vec<f32> = exact.iter().map(|value| *value as f32).collect();
            let worst = worst(&exact, ours, columns, dtype);
            if worst.ratio > 1.0 {
                failure
                    .get_or_insert_with(|| format!("{what} differs from plain loops: {worst:?}"));
            }
            ratio = ratio.max(worst.ratio);
        };
        let real = info.rows.min(rows.len()) * columns;
        let ours = left.layouts[out.0].take(info, &left.after[out.0]);
        hold(
            info.name,
            &exact[..real],
            &ours[..real],
            columns,
            info.dtype,
        );
        let sides = ["cached k", "cached v"].into_iter().enumerate();
        for (side, name) in sides.filter(|_| case.stores().is_some()) {
            if let Some(number) = self.kv.types.sides()[side].number() {
                let exact = self.exact(case, &inputs, side);
                let stored = decode(number, &self.stored(case, &left, side));
                hold(name, &exact, &stored, self.kv.kinds[0].head_dim, number);
            }
        }
        report.add(case.op().name(), &case.name, ratio, failure);
        Ok(())
    }

    /// q, k or v (0, 1, 2) of a case after its rotation, (row, head, head_dim).
    pub(super) fn turned(&self, case: &Case, inputs: &Inputs, which: usize) -> Vec<f64> {
        let Some(Op::RopeStore {
            q,
            kv,
            norms,
            epsilon,
            rotation,
            ..
        }) = case.rotates()
        else {
            return Vec::new();
        };
        let mut buffers = std::iter::once(*q).chain(kv.iter().flatten().copied());
        let Some(buffer) = buffers.nth(which) else {
            return Vec::new();
        };
        let info = case.tape.buffer(buffer);
        let mut values = inputs.buffers.iter();
        let Some((_, values)) = values.find(|(of, _)| *of == buffer) else {
            return Vec::new();
        };
        let norm = match which {
            0 => norms.q.map(|norm| self.vector(norm)),
            1 => norms.k.map(|norm| self.vector(norm)),
            _ => norms.v.then(|| vec![1.0; self.kv.kinds[0].head_dim]),
        };
        let mut turned: Vec<f64> = values.iter().copied().map(f64::from).collect();
        let rows = turned.chunks_exact_mut(info.columns);
        for (index, (row, (_, position))) in rows.zip(case.rows()).enumerate() {
            for head in row.chunks_exact_mut(self.kv.kinds[0].head_dim) {
                if let Some(norm) = &norm {
                    normalize(head, norm, *epsilon);
                }
                if which < 2 {
                    let parts = match rotation.sections {
                        Some(_) => case.turned(index, position),
                        None => [position.saturating_add_signed(case.offset); 3],
                    };
                    self.rotate(head, *rotation, parts);
                }
                if let Some(scale) = rotation.query_scale.filter(|_| which == 0) {
                    let by = f64::from(scale.at(position));
                    head.iter_mut().for_each(|value| *value *= by);
                }
            }
        }
        turned
    }

    /// Rotates by the angles of the executors, which are computed in f32.
    fn rotate(&self, head: &mut [f64], rotation: Rotation, position: [usize; 3]) {
        let (first, second) = head[..rotation.dims].split_at_mut(rotation.dims / 2);
        let angles = self.angles[rotation.table].by(position, rotation.sections);
        for ((a, b), (sin, cos)) in first.iter_mut().zip(second).zip(angles) {
            let (sin, cos) = (f64::from(sin), f64::from(cos));
            (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
        }
    }

    /// The queries of attention as executors round them, (row, query head, head_dim).
    #[allow(clippy::cast_possible_truncation)] // rounded as executors hold it
    pub(super) fn queries(&self, case: &Case, inputs: &Inputs) -> Vec<f32> {
        let Op::Attend { q, .. } = *case.op() else {
            return Vec::new();
        };
        if case.rotates().is_none() {
            return inputs.buffers[0].1.clone();
        }
        let turned = self.turned(case, inputs, 0);
        let mut queries: Vec<f32> = turned.iter().map(|value| *value as f32).collect();
        case.tape.buffer(q).dtype.round(&mut queries);
        queries
    }

    /// The result of attention, (row, query head, head_dim).
    pub(super) fn attended(&self, case: &Case, inputs: &Inputs) -> Vec<f64> {
        let Op::Attend { q, .. } = *case.op() else {
            return Vec::new();
        };
        let (head_dim, columns) = (self.kv.kinds[0].head_dim, case.tape.buffer(q).columns);
        let queries = self.queries(case, inputs);
        let mut attended = Vec::new();
        for (row, queries) in queries.chunks(columns).take(case.rows().len()).enumerate() {
            let cache = self.attended_cache(case, inputs, row);
            for (head, query) in queries.chunks(head_dim).enumerate() {
                attended.extend(self.attended_head(case, (row, head), query, &cache));
            }
        }
        attended
    }

    /// K and V as attention of a row reads them, (head, position, head_dim).
    #[allow(clippy::cast_possible_truncation)] // rounded as executors hold it
    pub(super) fn attended_cache(&self, case: &Case, inputs: &Inputs, row: usize) -> [Vec<f32>; 2] {
        let KvKind {
            heads, head_dim, ..
        } = self.kv.kinds[0];
        let (slot, position) = case.rows()[row];
        [0, 1].map(|side| {
            let mut values = inputs.cache[side][&slot].clone();
            let fresh = if case.stores().is_some() {
                self.turned(case, inputs, side + 1)
            } else {
                Vec::new()
            };
            let rows = fresh.chunks_exact(heads * head_dim);
            for (head, fresh) in rows
                .skip(row)
                .take(1)
                .flat_map(|row| row.chunks_exact(head_dim))
                .enumerate()
            {
                let to = (head * self.kv.context + position) * head_dim;
                for (to, from) in values[to..].iter_mut().zip(fresh) {
                    *to = *from as f32;
                }
            }
            let element = self.kv.types.sides()[side];
            let bytes = self.cached(&values, side);
            element.decode(head_dim, &bytes, &mut values);
            if element.number().is_none() {
                case.tape.activation.round(&mut values);
            }
            values
        })
    }

    /// The result of attention of a row's head to its query.
    pub(super) fn attended_head(
        &self,
        case: &Case,
        (row, head): (usize, usize),
        query: &[f32],
        [k, v]: &[Vec<f32>; 2],
    ) -> Vec<f64> {
        let Op::Attend { q, attention, .. } = *case.op() else {
            return Vec::new();
        };
        let KvKind {
            heads, head_dim, ..
        } = self.kv.kinds[0];
        let group = case.tape.buffer(q).columns / head_dim / heads;
        let (_, position) = case.rows()[row];
        let at = |position: usize| {
            let from = (head / group * self.kv.context + position) * head_dim;
            from..from + head_dim
        };
        let window = attention.window.map_or(usize::MAX, Into::into);
        let image = case.image(row).filter(|_| attention.joins_images);
        let last = image.map_or(position, |image| case.position + image.end - 1);
        let seen = (position + 1).saturating_sub(window)..=last;
        let scores = seen.clone().map(|position| {
            let pairs = query.iter().zip(&k[at(position)]);
            let dot: f64 = pairs.map(|(q, k)| f64::from(*q) * f64::from(*k)).sum();
            let score = dot * f64::from(attention.scale);
            attention.softcap.map_or(score, |cap| {
                f64::from(cap) * (score / f64::from(cap)).tanh()
            })
        });
        let sink = attention
            .sinks
            .map(|sinks| f64::from(self.vector(sinks)[head]));
        let scores: Vec<f64> = scores.collect();
        let greatest = scores.iter().copied().chain(sink).fold(f64::MIN, f64::max);
        let weight = |score: f64| (score - greatest).exp();
        let all: f64 = scores.iter().copied().chain(sink).map(weight).sum();
        let mut out = vec![0.0; head_dim];
        for (position, score) in seen.zip(&scores) {
            for (out, v) in out.iter_mut().zip(&v[at(position)]) {
                *out += weight(*score) / all * f64::from(*v);
            }
        }
        out
    }
}

#[allow(clippy::cast_precision_loss)] // heads are far narrower than 2^52
fn normalize(head: &mut [f64], norm: &[f32], epsilon: f32) {
    let squares: f64 = head.iter().map(|x| x * x).sum();
    let scale = 1.0 / (squares / head.len() as f64 + f64::from(epsilon)).sqrt();
    for (x, weight) in head.iter_mut().zip(norm) {
        *x *= scale * f64::from(*weight);
    }
}
