// Tiles by several rows, or tiles of plain values by one row: each row is a column of mma.
#pragma once
#include "step/codes.cuh"
#include "step/stream.cuh"

// Adds a unit's products to the sums of the weight rows g and g + 8, for mma's columns 2 t and 2 t + 1. With one row,
// both columns are equal.
template <int F, typename T, u32 R>
__device__ __forceinline__ void multiply(const Unit<F> &w, const RowScales<F, 1> &scales, const Columns<F, T, R> &x,
                                         float (&sums)[4]) {
    constexpr u32 STEPS = Layout<F>::block == 16 ? 1 : 2;
    constexpr float HIGH = Rows<F, T, R>::HIGH, MINIMA_BY = -1.0f / (float)Rows<F, T, R>::TIMES;
    typename Rows<F, T, R>::Sums first;
    // Sums of a block; and of the unit, before the factors that its blocks share.
    float block[4], together[4], minima[4];
#pragma unroll
    for (u32 s = 0; s < 4; ++s) {
        u32 a[4], rest[4];
        w.template quarter<T>(s, Codes<F, T, R>(), a, rest);
        if constexpr (!Layout<F>::scaled) {
            Mma<T>::run(sums, a, x.of(s));
            if constexpr (!Mma<T>::template holds<F>()) Mma<T>::run(sums, rest, x.of(s));
            continue;
        }
        if (s % STEPS == 0) {
            first = x.excess[s / STEPS];
            constexpr float OF_UPPER = Rows<F, T, R>::OF_UPPER;
            begin<Columns<F, T, R>::begins>(block, first.x, first.y, OF_UPPER * first.x, OF_UPPER * first.y);
        }
        Mma<T>::run(block, a, x.of(s));
        if (s % STEPS != STEPS - 1) continue;
        if constexpr (Excess<F, T>::both) block[0] -= block[2], block[1] -= block[3];
#pragma unroll
        for (u32 r = 0; r < 2; ++r) {
            float scale, minimum;
            const u32 b = s / STEPS;
            const RowScale<F> row = scales.row(r);
            if constexpr (RowScale<F>::SHARED) row.within(b, scale, minimum);
            else row.of(b, scale, minimum, r ? HIGH * MINIMA_BY : MINIMA_BY);
#pragma unroll
            for (u32 n = 0; n < 2; ++n) {
                const u32 i = 2 * r + n;
                const float own = n ? first.y : first.x;
                if constexpr (RowScale<F>::SHARED) {
                    together[i] = b ? fmaf(scale, block[i], together[i]) : scale * block[i];
                    if (Layout<F>::minimum) minima[i] = b ? fmaf(minimum, own, minima[i]) : minimum * own;
                } else {
                    sums[i] = fmaf(scale, block[i], sums[i]);
                    if (Layout<F>::minimum) sums[i] = fmaf(minimum, own, sums[i]);
                }
            }
        }
    }
    if constexpr (RowScale<F>::SHARED) {
#pragma unroll
        for (u32 r = 0; r < 2; ++r) {
            float scale, minimum;
            scales.row(r).shared(scale, minimum, r ? HIGH * MINIMA_BY : MINIMA_BY);
#pragma unroll
            for (u32 n = 0; n < 2; ++n) {
                sums[2 * r + n] = fmaf(scale, together[2 * r + n], sums[2 * r + n]);
                if (Layout<F>::minimum) sums[2 * r + n] = fmaf(minimum, minima[2 * r + n], sums[2 * r + n]);
            }
        }
    }
}

// `prepare` fills the rows of a phase while the first units are in flight. `finish(i, row of the tile, row, sum,
// scale)` is called by sixteen threads a row of each team; `scale_of(i, row of the tile)` gives them `scale` while the
// tile is still being multiplied.
template <int F, typename T, u32 R, bool PHASED, typename Prepare, typename Scale, typename Finish>
__device__ __forceinline__ void sum_tiles(const Share<F, R> &share, const Phases<PHASED> &phases,
                                          const Rows<F, T, R> &rows, Prepare prepare, Scale scale_of, Finish finish) {
    typedef Stream<F, R, PHASED> Units;
    constexpr u32 N = Units::N, BYTES = Slot<F>::bytes, STEP = Rows<F, T, R>::COLUMNS_STEP,
                  EXCESS_STEP = Rows<F, T, R>::EXCESS_STEP;
    const Team<F, R> team;
    const u32 thread = Team<F, R>::thread(), lane = thread % 32, warp = thread / 32;
    Units stream(share, phases, rows.rings, warp, lane);
    prepare(0);
    const u32 columns = rows.columns_at(warp, lane), excess = rows.excess_at(warp, lane);
    const bool finishes = thread < 16 * rows.rows;
    // (tiles of a team, THREADS), behind the rings: sums of earlier phases.
    float4 *summed =
        reinterpret_cast<float4 *>(rows.rings + team.teams * WARPS * Units::RING) + team.index * THREADS + thread;
    auto scales_of = [&](u32 unit) {
        RowScales<F, 1> scales;
        scales.read(from_shared(unit - lane * 16), from_shared(unit - lane * 16) + Layout<F>::unit, lane / 4);
        return scales;
    };
    for (u32 phase = 0; phase < phases.count; ++phase) {
        if (phase > 0) prepare(phase), stream.turn_to_phase(phase);
        const bool last = !PHASED || phase + 1 == phases.count;
        for (u32 i = 0; share.there(i); ++i) {
            float sums[4] = {}, scale = last && finishes ? scale_of(i, thread % 16) : 1.0f;
            u32 x = columns, e = excess;
            if (PHASED && phase > 0) {
                float4 before = summed[i * team.teams * THREADS];
                sums[0] = before.x, sums[1] = before.y, sums[2] = before.z, sums[3] = before.w;
            }
#pragma unroll 1
            for (u32 k = 0; k < stream.mine; k += N, x += N * STEP, e += N * EXCESS_STEP) {
                Columns<F, T, R> by;
                if (by.early) by.read(x, e);
                stream.wait();
                Unit<F> first(stream.slot, lane), second(stream.slot + (N - 1) * BYTES, lane);
                auto scales = scales_of(stream.slot), scales_of_second = scales_of(stream.slot + (N - 1) * BYTES);
                stream.go_on();
                if (!by.early) by.read(x, e);
                multiply<F, T, R>(first, scales, by, sums);
                if (N == 1 || k + 1 == stream.mine) continue;
                by.read(x + STEP, e + EXCESS_STEP);
                multiply<F, T, R>(second, scales_of_second, by, sums);
            }
            if (!last) {
                summed[i * team.teams * THREADS] = make_float4(sums[0], sums[1], sums[2], sums[3]);
                continue;
            }
            // One row has two places in turns.
            float *parts = rows.parts + (R == 1 ? i % 2 * (WARPS * 16) : team.index * Rows<F, T, R>::PARTS);
            if (R == 1) {
                float *to = parts + warp * 16 + lane / 4;
                if (lane % 4 == 0) to[0] = sums[0], to[8] = sums[2];
            } else {
                // The previous sums have been read.
                if (i > 0) team.wait();
                float *to = parts + (warp * R + lane % 4 * 2) * 16 + lane / 4;
                constexpr float LOW = Layout<F>::scaled ? 1.0f / Excess<F, T>::low : 1.0f,
                                HIGH = Layout<F>::scaled ? 1.0f / Excess<F, T>::high : 1.0f;
                to[0] = LOW * sums[0], to[16] = LOW * sums[1], to[8] = HIGH * sums[2], to[24] = HIGH * sums[3];
            }
            team.wait();
            if (!finishes) continue;
            float sum = 0.0f;
#pragma unroll
            for (u32 from = 0; from < WARPS; ++from) sum += parts[from * R * 16 + thread];
            finish(i, thread % 16, thread / 16, sum, scale);
        }
    }
}
