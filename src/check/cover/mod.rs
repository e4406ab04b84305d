//! The cases: every kernel that formats, types and row counts select, with varied sizes and lengths. They are equal in
//! every run.

mod choices;
mod common;
mod hidden;
mod images;
mod positions;
mod products;
mod recurrent;
mod vision;

pub use self::images::images;
pub use self::products::large;
pub use self::vision::towers;

use self::common::CHUNK;
use super::world::{SLOTS, World};
use crate::kv::{KvType, KvTypes, PAGE};
use crate::tape::{KvInfo, STEP_ROWS};

const HEAD_DIMS: [usize; 8] = [16, 32, 64, 80, 96, 128, 256, 512];

/// All worlds except the large ones and those of vision towers, in an order that runs one executor after another.
pub fn worlds() -> impl Iterator<Item = World> {
    let cache = |(index, head_dim): (usize, usize), (at, types): (usize, KvTypes)| KvInfo {
        kinds: KvInfo::alike(1, 1 + (index + at) % 3, head_dim),
        context: 4096,
        slots: SLOTS,
        pages: SLOTS * 4096 / PAGE,
        chunk: CHUNK,
        types,
        run: 4096,
        state_bytes: 0,
    };
    let heads = move |head_dim: (usize, usize)| {
        let types = KvType::ALL.map(KvTypes::both).into_iter().enumerate();
        types.map(move |types| cache(head_dim, types))
    };
    // As many slots as a step has rows.
    let together = |kv: KvInfo| KvInfo {
        context: 1024,
        slots: STEP_ROWS,
        pages: STEP_ROWS * 1024 / PAGE,
        ..kv
    };
    // Few slots and many, alternating.
    let mixed = move |head_dim: (usize, usize)| {
        let types = KvTypes::MIXED.into_iter().enumerate();
        types.map(move |types| {
            let kv = cache(head_dim, types);
            if (head_dim.0 + types.0).is_multiple_of(2) {
                kv
            } else {
                together(kv)
            }
        })
    };
    let far = [
        (64, KvType::BF16),
        (128, KvType::F16),
        (32, KvType::F32),
        (96, KvType::Q8_0),
    ];
    let far = far.map(|(head_dim, element)| KvInfo {
        kinds: KvInfo::alike(1, 1, head_dim),
        context: 40_960,
        slots: SLOTS,
        pages: SLOTS * 40_960 / PAGE,
        chunk: CHUNK,
        types: element.into(),
        run: 40_960,
        state_bytes: 0,
    });
    let (mut deal, mut deal_far) = (positions::Deal::new(), positions::Deal::far());
    let mut deal_mixed = positions::Deal::new();
    [products::world, choices::world]
        .into_iter()
        .map(|build| build())
        .chain(recurrent::worlds())
        .chain(std::iter::once(hidden::world()))
        .chain(
            HEAD_DIMS
                .into_iter()
                .enumerate()
                .flat_map(heads)
                .flat_map(move |kv| [kv, together(kv)])
                .map(move |kv| positions::world(kv, &mut deal)),
        )
        .chain((far.into_iter()).map(move |kv| positions::world(kv, &mut deal_far)))
        .chain(
            HEAD_DIMS
                .into_iter()
                .enumerate()
                .flat_map(mixed)
                .map(move |kv| positions::world(kv, &mut deal_mixed)),
        )
        .flat_map(World::split)
}
