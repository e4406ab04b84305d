// Tiles of scaled blocks by one row. mma has eight columns, which are then all equal: four lanes get the same outputs.
// Each of them takes one output, of rows g and g + 8 of two tiles.
#pragma once
#include "step/codes.cuh"
#include "step/stream.cuh"

// The output that a lane sums, out of those that mma gives to four lanes. Each lane scales only its own.
struct Role {
    u32 tile, half;
    // Row g may come with row g + 8 in it: the factors that select this lane's row.
    float of_lower = half ? 0.0f : 1.0f, of_upper = half ? 1.0f : -1.0f;
};

// Adds the products of units at the same columns, of one tile or two, to the sum of this lane's output.
template <int F, typename T, u32 TILES>
__device__ __forceinline__ void multiply_one(const Unit<F> &a, const Unit<F> &b, const RowScale<F> &scales,
                                             const Codes<F, T, 1> &codes, Role role, const Columns<F, T, 1> &x,
                                             float &sum) {
    constexpr u32 BLOCKS = Rows<F, T, 1>::UNIT, STEPS = 4 / BLOCKS;
    constexpr float MINIMA_BY = -1.0f / (float)Rows<F, T, 1>::TIMES;
    // Sums of the unit, before the factors that its blocks share.
    float together = 0.0f, minima = 0.0f;
#pragma unroll
    for (u32 n = 0; n < BLOCKS; ++n) {
        const u32 column = n % 2;
        float4 first = x.excess[n / 2];
        // The factor of a minimum.
        const float own = column ? first.y : first.x;
        float products[TILES];
#pragma unroll
        for (u32 i = 0; i < TILES; ++i) {
            float block[4];
            begin<Columns<F, T, 1>::begins>(block, first.x, first.y, first.z, first.w);
#pragma unroll
            for (u32 s = n * STEPS; s < (n + 1) * STEPS; ++s) {
                u32 fragment[4], rest[4];
                (i ? b : a).template quarter<T>(s, codes, fragment, rest);
                Mma<T>::run(block, fragment, x.of(s));
            }
            // mma's columns differ only in what they start from.
            if constexpr (Excess<F, T>::both) {
                // Multiplications run on another pipe than the bit operations of a selection. A lane of row g + 8
                // ignores the first product.
                products[i] = fmaf(block[column], role.of_lower, block[2 + column] * role.of_upper);
            } else {
                products[i] = role.half ? block[2 + column] : block[column];
            }
        }
        const float block = TILES == 2 && role.tile ? products[TILES - 1] : products[0];
        float scale, minimum;
        if constexpr (RowScale<F>::SHARED) {
            scales.within(n, scale, minimum);
            together = n ? fmaf(scale, block, together) : scale * block;
            if (Layout<F>::minimum) minima = n ? fmaf(minimum, own, minima) : minimum * own;
        } else {
            scales.of(n, scale, minimum, MINIMA_BY);
            sum = fmaf(scale, block, sum);
            if (Layout<F>::minimum) sum = fmaf(minimum, own, sum);
        }
    }
    if constexpr (RowScale<F>::SHARED) {
        float scale, minimum;
        scales.shared(scale, minimum, MINIMA_BY);
        sum = fmaf(scale, together, sum);
        if (Layout<F>::minimum) sum = fmaf(minimum, minima, sum);
    }
}

// `prepare` puts the row into shared memory while the first units are in flight. `finish(i, row of the tile, row, sum,
// scale)` is called by sixteen threads a tile.
template <int F, typename T, typename Prepare, typename Finish>
__device__ __forceinline__ void sum_tiles_of_one(const Share<F, 1> &share, const Phases<false> &phases,
                                                 const Rows<F, T, 1> &rows, const Codes<F, T, 1> &codes,
                                                 Prepare prepare, Finish finish) {
    typedef Rows<F, T, 1> Row;
    constexpr u32 BATCH = Row::BATCH, BYTES = Slot<F>::bytes, STEP = Row::COLUMNS_STEP;
    const Team<F, 1> team;
    const u32 thread = team.thread(), lane = thread % 32, warp = thread / 32;
    Stream<F, 1, false> stream(share, phases, rows.rings, warp, lane);
    prepare(0);
    const u32 columns = rows.columns_at(warp, lane), excess = rows.excess_at(warp, lane);
    u32 turn = 0, batch;
    for (u32 i = 0; share.there(i); i += batch, turn ^= 1) {
        float *parts = rows.parts + team.index * Row::PARTS + turn * (WARPS * BATCH * 16);
        for (batch = 0; batch < BATCH && share.there(i + batch);) {
            const bool pair = stream.pair(i + batch);
            const Role role = {pair ? lane % 2 : 0, lane / 2 % 2};
            // Where this lane's scales lie, relative to the slot's address for this lane.
            const u32 begin = role.tile * BYTES - lane * 16, at = begin + RowScale<F>::place(lane / 4, role.half),
                      head_at = begin + RowScale<F>::head_place(lane / 4, role.half);
            auto read = [&](RowScale<F> &scales, u32 slot) {
                scales.read(from_shared(slot + at), from_shared(slot + head_at));
            };
            float sum = 0.0f;
            u32 x = columns, e = excess + (Columns<F, T, 1>::begins ? 0 : role.half * 8);
            if (pair) {
#pragma unroll 1
                for (const u32 end = x + stream.mine * STEP; x != end; x += STEP, e += STEP) {
                    Columns<F, T, 1> by;
                    stream.wait();
                    Unit<F> first(stream.slot, lane), second(stream.slot + BYTES, lane);
                    RowScale<F> scales;
                    read(scales, stream.slot);
                    stream.go_on();
                    by.read(x, e);
                    multiply_one<F, T, 2>(first, second, scales, codes, role, by, sum);
                }
            } else {
#pragma unroll 1
                for (u32 k = 0; k < stream.mine; k += 2, x += 2 * STEP, e += 2 * STEP) {
                    Columns<F, T, 1> by;
                    stream.wait();
                    Unit<F> first(stream.slot, lane), second(stream.slot + BYTES, lane);
                    RowScale<F> scales, scales_of_second;
                    read(scales, stream.slot), read(scales_of_second, stream.slot + BYTES);
                    stream.go_on();
                    by.read(x, e);
                    multiply_one<F, T, 1>(first, first, scales, codes, role, by, sum);
                    if (k + 1 == stream.mine) continue;
                    by.read(x + STEP, e + STEP);
                    multiply_one<F, T, 1>(second, second, scales_of_second, codes, role, by, sum);
                }
            }
            float *to = parts + warp * (BATCH * 16) + (batch + role.tile) * 16 + role.half * 8 + lane / 4;
            if (pair || lane % 2 == 0) *to = sum * (role.half ? 1.0f / Excess<F, T>::high : 1.0f / Excess<F, T>::low);
            batch += pair ? 2 : 1;
        }
        team.wait();
        if (thread < 16 * batch) {
            float sum = 0.0f;
#pragma unroll
            for (u32 from = 0; from < WARPS; ++from) sum += parts[from * (BATCH * 16) + thread];
            finish(i + thread / 16, thread % 16, 0, sum, 1.0f);
        }
    }
}
