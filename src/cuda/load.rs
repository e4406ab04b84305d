//! Reads weights into device memory. Each thread reads a piece and converts it to tiles.
//!
//! Threads write unified memory in place, before it is attached to the stream, and the device's own memory through
//! pinned memory. Only the thread of the context makes calls to the device.

use std::ops::Range;
use std::rc::Rc;

use super::memory::{MatrixPart, Regions, Weight, plan, storage};
use super::narrow::narrow;
use crate::device::{Arena, Context, Error, Idle, MemoryKind, Region, Staging, Stream, Tiles};
use crate::executor::{FLIGHT_BYTES, PIECE_BYTES, WeightSource, in_flight, pieces_at_once};
use crate::quant::{DType, TILE_ROWS, padded};
use crate::tape::WeightInfo;

/// Rows of a weight, and their destination.
#[derive(Clone, Debug)]
struct Piece {
    weight: usize,
    rows: Range<usize>,
    region: Region,
    /// The bytes in the region.
    at: Range<usize>,
}

/// Allocates and reads all weights. `progress` is called with the bytes of each piece.
pub(super) fn load<S: WeightSource>(
    context: &Rc<Context>,
    memory: MemoryKind,
    (infos, activation): (&[WeightInfo], DType),
    stream: &mut Stream,
    (source, progress): (&S, &mut dyn FnMut(usize)),
) -> Result<(Arena, Vec<Weight>), S::Error>
where
    S::Error: From<Error>,
{
    let (plan, planned) = plan(infos, activation)?;
    let mut arena = Arena::new(context, memory, &plan)?;
    let weights: Result<Vec<_>, Error> = infos
        .iter()
        .zip(&planned)
        .map(|(info, regions)| weight(&arena, info, activation, regions))
        .collect();
    let pieces = pieces(infos, activation, planned);
    let longest = pieces.iter().map(|piece| piece.at.len()).max().unwrap_or(0);
    if longest > FLIGHT_BYTES {
        return Err(Error::Bounds { bytes: longest }.into());
    }
    let threads = pieces_at_once(longest.max(PIECE_BYTES));
    let lay_out = |piece: &Piece, out: &mut [u8]| {
        let info = &infos[piece.weight];
        source.read(piece.weight, piece.rows.clone(), &mut |stored| {
            if info.rows == 1 {
                out.copy_from_slice(stored);
                return;
            }
            let storage = storage(info, activation);
            let tiles = out.chunks_exact_mut(storage.tile_bytes(info.columns));
            let rows = stored.chunks(TILE_ROWS * info.format.row_bytes(info.columns));
            for (tile, rows) in tiles.zip(rows) {
                storage.repack(info.columns, rows, tile);
            }
        })
    };
    let mut progress = |piece: &Piece| {
        let info = &infos[piece.weight];
        progress(piece.rows.len() * info.format.row_bytes(info.columns));
    };
    match memory {
        MemoryKind::Unified => {
            let idle = stream.idle()?;
            let mut filled = in_place(&mut arena, pieces, &idle)?;
            filled.sort_by_key(|(piece, _)| source.place(piece.weight, piece.rows.start));
            in_flight(
                threads,
                filled,
                vec![(); 4 * threads],
                |(piece, out), ()| lay_out(piece, out),
                |(piece, _), ()| {
                    progress(&piece);
                    Ok::<_, S::Error>(())
                },
            )?;
        }
        MemoryKind::Device => {
            let mut pieces = pieces;
            pieces.sort_by_key(|piece| source.place(piece.weight, piece.rows.start));
            let mut staging = Staging::new(context, longest.max(PIECE_BYTES), threads)?;
            in_flight(
                threads,
                pieces,
                staging.parts(),
                |piece, out| lay_out(piece, &mut out[..piece.at.len()]),
                |piece, out| {
                    let bytes = &out[..piece.at.len()];
                    arena.write_at(piece.region, piece.at.start, bytes, stream)?;
                    progress(&piece);
                    Ok::<_, S::Error>(())
                },
            )?;
        }
    }
    Ok((arena, weights?))
}

/// The description of a weight for kernels.
fn weight(
    arena: &Arena,
    info: &WeightInfo,
    activation: DType,
    regions: &[(Range<usize>, Region)],
) -> Result<Weight, Error> {
    if info.rows == 1 {
        let [(_, region)] = regions[..] else {
            unreachable!("a vector has one region")
        };
        return arena.address(region).map(Weight::Vector);
    }
    let storage = storage(info, activation);
    let part = |(rows, region): &(Range<usize>, Region)| {
        Ok(MatrixPart {
            first: rows.start,
            tiles: Tiles {
                data: arena.address(*region)?,
                format: storage.code(),
                rows: narrow(rows.len()),
                columns: narrow(padded(info.columns)),
                ..Tiles::default()
            },
        })
    };
    let parts: Result<_, Error> = regions.iter().map(part).collect();
    parts.map(Weight::Matrix)
}

/// Splits the weights into whole tiles, in the order of the plan.
fn pieces(infos: &[WeightInfo], activation: DType, planned: Vec<Regions>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (weight, (info, regions)) in infos.iter().zip(planned).enumerate() {
        let tile_bytes = if info.rows == 1 {
            4 * info.columns
        } else {
            storage(info, activation).tile_bytes(info.columns)
        };
        let tiles_each = (PIECE_BYTES / tile_bytes.max(1)).max(1);
        for (rows, region) in regions {
            for (number, first) in rows.clone().step_by(tiles_each * TILE_ROWS).enumerate() {
                let start = number * tiles_each * tile_bytes;
                let end = (start + tiles_each * tile_bytes).min(region.bytes());
                pieces.push(Piece {
                    weight,
                    rows: first..(first + tiles_each * TILE_ROWS).min(rows.end),
                    region,
                    at: start..end,
                });
            }
        }
    }
    pieces
}

/// Pairs each piece with its bytes of unified memory.
fn in_place<'a>(
    arena: &'a mut Arena,
    pieces: Vec<Piece>,
    idle: &'a Idle<'_>,
) -> Result<Vec<(Piece, &'a mut [u8])>, Error> {
    let mut regions: Vec<Region> = pieces.iter().map(|piece| piece.region).collect();
    regions.dedup();
    let mut hosts = arena.hosts(&regions, idle)?.into_iter();
    let mut filled = Vec::with_capacity(pieces.len());
    let mut rest = <&mut [u8]>::default();
    for piece in pieces {
        if piece.at.start == 0
            && let Some(host) = hosts.next()
        {
            rest = host;
        }
        let (out, after) = rest.split_at_mut(piece.at.len());
        rest = after;
        filled.push((piece, out));
    }
    Ok(filled)
}
