//! Launches attention and the rotation before it: two kernels for a prompt, one for a step.

use super::memory::stride;
use super::narrow::narrow;
use super::prompt_attend;
use super::queue::LaunchQueue;
use super::splits::splits;
use super::work::{THREADS, Work};
use crate::device::{AttendArgs, Cache, Error, Geometry, Places, RopeStoreArgs};
use crate::tape::{Buffer, CacheLayer, HeadNorms, Input, KvHeads, Op, Rotation, Tape};

const WARPS: u32 = 8;

/// The inputs of a step's rotation, which its attention kernel includes: q, k and v as their product left them.
pub(super) struct Raw {
    q: Buffer,
    kv: [Buffer; 2],
    norms: HeadNorms,
    epsilon: f32,
    rotation: Rotation,
}

/// The rotation that the attention kernel of operation `index` includes, if the tape fuses both.
pub(super) fn raw(tape: &Tape, index: usize) -> Option<Raw> {
    let before = index.checked_sub(1)?;
    let &Op::RopeStore {
        q,
        kv: Some(kv),
        norms,
        epsilon,
        rotation,
        ..
    } = &tape.ops[before]
    else {
        return None;
    };
    tape.is_fused_with_next(before).then_some(Raw {
        q,
        kv,
        norms,
        epsilon,
        rotation,
    })
}

impl Work<'_> {
    /// Launches the rotation of q and k, and the storing of k and v.
    pub(super) fn rope_store(
        &self,
        tape: &Tape,
        index: usize,
        queue: &mut LaunchQueue<'_>,
    ) -> Result<(), Error> {
        let Op::RopeStore {
            layer,
            q,
            kv,
            norms,
            epsilon,
            rotation,
            rotated,
        } = tape.ops[index]
        else {
            return Ok(());
        };
        let (rows, step) = (narrow(tape.rows), tape.input == Input::Step);
        let places = self.places_of(step);
        let columns = narrow(tape.buffer(q).columns);

        let [q_norm, k_norm] = self.norms(norms);
        let [k, v] = kv.map_or([0, 0], |kv| kv.map(|side| self.buffer(side)));
        let cache = rotated_by(rotation, self.cache(places, layer, columns));
        let pairs = rotation.sections.map(|sections| sections.pairs);
        let [_, row_pairs, column_pairs] = pairs.unwrap_or_default();
        let args = RopeStoreArgs {
            cache,
            q: self.buffer(q),
            k,
            v,
            q_norm,
            k_norm,
            angles: self.angles(rotation),
            out: self.buffer(rotated),
            shown: rotation.sections.map_or(0, |_| self.addresses.shown),
            stamp: queue.stamp(),
            stride: narrow(stride(tape, rotated)),
            epsilon,
            norms_v: norms.v.into(),
            row_pairs: narrow(row_pairs),
            column_pairs: narrow(column_pairs),
            pad: 0,
        };
        let stored = if kv.is_some() { 2 * cache.kv_heads } else { 0 };
        let all = cache.heads + stored;
        let geometry = Geometry {
            grid: [all.div_ceil(WARPS), rows, 1],
            ..Geometry::new(1, THREADS)
        };
        let kernels = &self.kernels.cache[layer.kind];
        // A checked tape names layers of the cache only, and their kernels are loaded.
        let Some(kernels) = kernels else {
            return Ok(());
        };
        queue.launch(&kernels.rope_store, geometry, &args)
    }

    /// Launches attention. In a step, `raw` is the rotation that the kernel includes.
    pub(super) fn attend(
        &self,
        tape: &Tape,
        index: usize,
        raw: Option<Raw>,
        queue: &mut LaunchQueue<'_>,
    ) -> Result<(), Error> {
        let Op::Attend {
            layer,
            q,
            attention,
            out,
        } = tape.ops[index]
        else {
            return Ok(());
        };
        let Some(kernels) = &self.kernels.cache[layer.kind] else {
            return Ok(());
        };
        let (at, kv) = (self.addresses, self.kv.heads_of(layer));
        let (rows, step) = (narrow(tape.rows), tape.input == Input::Step);
        let places = self.places_of(step);
        let columns = narrow(tape.buffer(q).columns);

        let cache = self.cache(places, layer, columns);
        let mut args = AttendArgs {
            cache,
            q: self.buffer(q),
            out: self.buffer(out),
            partials: self.buffers.partials(),
            arrivals: at.arrivals,
            stamp: queue.stamp(),
            rows,
            stride: narrow(stride(tape, q)),
            scale: attention.scale,
            softcap: attention.softcap.unwrap_or(0.0),
            window: attention.window.map_or(0, |window| narrow(window.get())),
            sinks: attention.sinks.map_or(0, |sinks| self.vector(sinks)),
            shown: if attention.joins_images { at.shown } else { 0 },
            splits: 1,
            group: cache.heads / cache.kv_heads,
            ..AttendArgs::default()
        };
        if !step && let Some(attends) = &kernels.prompt_attend {
            let rows = tape.rows * args.group as usize;
            let tiles = attends.select(kv, rows, self.multiprocessors);
            // The distribution over blocks does not change the bits.
            let sharing = attends.sharing(kv, rows, self.multiprocessors);
            let geometry = Geometry {
                grid: [
                    narrow(rows.div_ceil(tiles.rows)),
                    narrow(kv.heads),
                    narrow(sharing),
                ],
                shared: narrow(tiles.shared),
                ..Geometry::new(1, prompt_attend::THREADS)
            };
            return queue.launch(&tiles.kernel, geometry, &args);
        }
        if let Some(raw) = raw {
            let ([k, v], q) = (raw.kv.map(|side| self.buffer(side)), self.buffer(raw.q));
            let [q_norm, k_norm] = self.norms(raw.norms);
            args = AttendArgs {
                q,
                k,
                v,
                q_norm,
                k_norm,
                cache: rotated_by(raw.rotation, cache),
                angles: self.angles(raw.rotation),
                epsilon: raw.epsilon,
                ..args
            };
        }
        let heads = cache.heads as usize;
        let selected = kernels.step_attend.select(heads, step);
        let groups = kv.heads * (args.group as usize).div_ceil(selected.group);
        // A prompt has enough rows to keep the device busy without splits.
        if step {
            args.splits = narrow(splits(groups));
        }
        // Blocks of a row take one split after another, so all of them have to be resident at the same time. The
        // distribution does not change the bits.
        let places = selected.blocks * self.multiprocessors as usize;
        let blocks = (places / groups / tape.rows).clamp(1, args.splits as usize);
        let blocks = if step { narrow(blocks) } else { 1 };
        let geometry = Geometry {
            grid: [blocks, narrow(groups), rows],
            shared: narrow(selected.shared),
            ..Geometry::new(1, selected.threads)
        };
        queue.launch(selected.kernel, geometry, &args)
    }

    /// A layer's cache for queries with `columns`.
    fn cache(&self, places: Places, layer: CacheLayer, columns: u32) -> Cache {
        let [k, v] = self.pages.within(layer);
        let KvHeads {
            heads, head_dim, ..
        } = self.kv.heads_of(layer);
        let head_dim = narrow(head_dim);
        let table = self.kv.group_of(layer) * self.kv.blocks() * size_of::<u64>();
        Cache {
            places: Places {
                tables: places.tables + table as u64,
                ..places
            },
            k,
            v,
            heads: columns / head_dim,
            kv_heads: narrow(heads),
            head_dim,
            ..Cache::default()
        }
    }

    /// The addresses of the norms of q and of k; 0 means none.
    fn norms(&self, norms: HeadNorms) -> [u64; 2] {
        [norms.q, norms.k].map(|norm| norm.map_or(0, |norm| self.vector(norm)))
    }

    /// The address of the table of a rotation.
    fn angles(&self, rotation: Rotation) -> u64 {
        let at = self.addresses;
        at.angles + rotation.table as u64 * at.angles_pitch
    }
}

/// The cache for kernels that include a rotation.
fn rotated_by(rotation: Rotation, cache: Cache) -> Cache {
    let scale = rotation.query_scale;
    Cache {
        rotated: narrow(rotation.dims),
        original: scale.map_or(0, |scale| narrow(scale.original.get())),
        beta: scale.map_or(0.0, |scale| scale.beta),
        ..cache
    }
}
