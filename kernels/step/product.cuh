// The matrix products of a step: a block takes tiles of 16 weight rows, and its warps share the columns, for one row of
// input or up to eight.
//
// Plain weights are bound by memory; scaled weights on 16 multiprocessors are bound by instructions. So each warp has
// several units of weights in flight to a ring in shared memory, from before its input exists until its last tile, and
// never lets the ring run dry between tiles. It takes units in pairs, so that one is dequantized while the other is
// multiplied. Where it can, a pair is two tiles at the same columns.
//
// Eight warps sum a tile, each over its own columns in order, and then their sums are added in the order of the warps.
// Each row of input is a column of its own in every mma. So neither the number of blocks nor the number of rows changes
// a bit. A block of several rows has up to 24 warps, in teams that take tiles of their own. Rows are then copied and
// normalized once for each multiprocessor.
#pragma once
#include "common.cuh"
#include "state.cuh"
#include "step/one.cuh"
#include "step/several.cuh"

// Teams of a block of several rows, at most; and of a block that works in phases, whose threads need more registers.
#define TEAMS 3
#define PHASED_TEAMS 2

extern __shared__ __align__(16) u8 shared[];

template <int F, typename T, u32 R, bool PHASED>
__device__ __forceinline__ void step_product(const StepArgs &a, u32 block, u32 blocks) {
    LaunchTurn launch_turn(a.stamp, LATER);
    const Phases<PHASED> phases(a.phases, a.weight0.columns);
    u8 *const table = shared;
    Rows<F, T, R> rows(shared + Codes<F, T, R>::BYTES, PHASED ? phases.units * 64 : a.stride, a.rows);
    const Share<F, R> share(a, block, blocks);
    // A lane takes eight columns and a warp a slice of 256. As many slices as registers allow are requested at once.
    // With several rows, which are a power of two, a warp has slices of one row.
    constexpr u32 KEPT = 2, COPIED = R == 1 ? 3 : 6, SLICE = 8 * 32;
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = Team<F, R>::warps();
    // Computed where it is needed, which saves a register in the loop.
    auto slices_of = [&]() { return (a.stride + SLICE - 1) / SLICE; };
    auto copy = [&](u32 phase) {
        const u32 log = R == 1 ? 0 : 31 - __clz(rows.rows), row = R == 1 ? 0 : warp & (rows.rows - 1),
                  apart = (warps >> log) * SLICE;
        const u32 columns = PHASED ? phases.of(phase) * 64 : a.stride;
        u32 column = (warp >> log) * SLICE + 8 * lane;
        const T *input = at<const T>(a.input) + row * a.stride + phase * phases.units * 64 + column;
        if (phase == 0) launch_turn.our_turn();
        // Every warp has multiplied the previous phase.
        else __syncthreads();
#pragma unroll 1
        for (; column - 8 * lane < columns; column += COPIED * apart, input += COPIED * apart) {
            uint4 bits[COPIED];
#pragma unroll
            for (u32 c = 0; c < COPIED; ++c) {
                if (column + c * apart < columns) bits[c] = *reinterpret_cast<const uint4 *>(input + c * apart);
            }
#pragma unroll
            for (u32 c = 0; c < COPIED; ++c)
                if (R > 1 || column - 8 * lane + c * apart < columns)
                    rows.put(row, column - 8 * lane + c * apart, bits[c], columns, lane);
        }
    };
    const float *weight = at<const float>(a.norm);
    auto read = [&](const float *from, u32 column, float (&eight)[8]) {
        if (a.hidden % 4 == 0 && column + 8 <= a.hidden) {
            float4 low = *reinterpret_cast<const float4 *>(from + column),
                   high = *reinterpret_cast<const float4 *>(from + column + 4);
            eight[0] = low.x, eight[1] = low.y, eight[2] = low.z, eight[3] = low.w, eight[4] = high.x,
            eight[5] = high.y, eight[6] = high.z, eight[7] = high.w;
            return;
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) eight[i] = column + i < a.hidden ? from[column + i] : 0.0f;
    };
    auto square = [&](const float (&eight)[8]) {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < 8; ++i) sum = fmaf(eight[i], eight[i], sum);
        return warp_sum(sum);
    };
    auto put = [&](u32 row, u32 slice, float scale, const float (&eight)[8], const float (&by)[8]) {
        uint4 bits;
        u32 *pairs = &bits.x;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            pairs[i] = Mma<T>::pack(eight[2 * i] * scale * by[2 * i], eight[2 * i + 1] * scale * by[2 * i + 1]);
        rows.put(row, slice * SLICE, bits, a.stride, lane);
    };
    // A row's norm, from the sums of its slices in order.
    auto scale_by = [&](u32 row) {
        float sum = 0.0f;
#pragma unroll 1
        for (u32 first = 0; first < slices_of(); first += 8)
#pragma unroll
            for (u32 i = 0; i < 8; ++i) sum += first + i < slices_of() ? rows.parts[(first + i) * R + row] : 0.0f;
        return 1.0f / sqrtf(sum / (float)a.hidden + a.epsilon);
    };
    // Normalizes one row.
    auto normalize = [&]() {
        float kept[KEPT][8], weights[KEPT][8];
        auto place = [&](u32 slice) { return slice * SLICE + 8 * lane; };
#pragma unroll
        for (u32 c = 0; c < KEPT; ++c) read(weight, place(warp + c * warps), weights[c]);
        launch_turn.our_turn();
        // The last real row of a prompt.
        const float *x = at<const float>(a.x) + (a.count ? (u64)a.hidden * (*at<const u32>(a.count) - 1) : 0);
#pragma unroll
        for (u32 c = 0; c < KEPT; ++c) read(x, place(warp + c * warps), kept[c]);
#pragma unroll
        for (u32 c = 0; c < KEPT; ++c) {
            float sum = square(kept[c]);
            if (lane == 0) rows.parts[warp + c * warps] = sum;
        }
        for (u32 slice = warp + KEPT * warps; slice < slices_of(); slice += warps) {
            float eight[8];
            read(x, place(slice), eight);
            float sum = square(eight);
            if (lane == 0) rows.parts[slice] = sum;
        }
        __syncthreads();
        float scale = scale_by(0);
#pragma unroll
        for (u32 c = 0; c < KEPT; ++c)
            if (warp + c * warps < slices_of()) put(0, warp + c * warps, scale, kept[c], weights[c]);
        for (u32 slice = warp + KEPT * warps; slice < slices_of(); slice += warps) {
            float eight[8], by[8];
            read(x, place(slice), eight);
            read(weight, place(slice), by);
            put(0, slice, scale, eight, by);
        }
    };
    // Normalizes several rows, four at once, which share one read of the norm's weights. A warp keeps the rows that it
    // read last.
    auto normalize_all = [&]() {
        constexpr u32 AT_ONCE = 4;
        const u32 log = rows.rows > AT_ONCE ? 1 : 0, all = slices_of() << log;
        u32 last = warp;
        while (last + warps < all) last += warps;
        float kept[AT_ONCE][8], by[8];
        auto column_of = [&](u32 item) { return item < all ? (item >> log) * SLICE + 8 * lane : a.hidden; };
        auto read_rows = [&](u32 item) {
            u32 row = (item & log) * AT_ONCE;
            const float *x = at<const float>(a.x) + (u64)a.hidden * row;
#pragma unroll
            for (u32 r = 0; r < AT_ONCE; ++r)
                read(x + r * a.hidden, row + r < rows.rows ? column_of(item) : a.hidden, kept[r]);
        };
        read(weight, column_of(last), by);
        launch_turn.our_turn();
#pragma unroll 1
        for (u32 item = warp; item < all; item += warps) {
            read_rows(item);
            float sums[AT_ONCE];
#pragma unroll
            for (u32 r = 0; r < AT_ONCE; ++r) sums[r] = square(kept[r]);
            float sum = lane == 0 ? sums[0] : lane == 1 ? sums[1] : lane == 2 ? sums[2] : sums[3];
            if (lane < AT_ONCE) rows.parts[(item >> log) * R + (item & log) * AT_ONCE + lane] = sum;
        }
        __syncthreads();
#pragma unroll 1
        for (u32 item = last; item < all; item -= warps) {
            u32 row = (item & log) * AT_ONCE;
            if (item != last) read(weight, column_of(item), by), read_rows(item);
            float scale = scale_by(row + lane % AT_ONCE);
#pragma unroll
            for (u32 r = 0; r < AT_ONCE; ++r) {
                float of_row = __shfl_sync(0xffffffffu, scale, r);
                if (row + r < rows.rows) put(row + r, item >> log, of_row, kept[r], by);
            }
        }
    };
    auto prepare = [&](u32 phase) {
        // The table does not depend on the previous kernel, so it is filled before the wait for that kernel.
        Codes<F, T, R>::fill(table);
        if (a.input) {
            copy(phase);
        } else if constexpr (R == 1) {
            normalize();
        } else if constexpr (!PHASED) {
            normalize_all();
        }
        __syncthreads();
        if constexpr (R > 1 && Layout<F>::scaled) {
            rows.sum_blocks(warp, warps, (PHASED ? phases.of(phase) * 64 : a.stride) / 64, lane);
            __syncthreads();
        }
    };
    auto scale_of = [&](u32 i, u32 within) {
        if (F != SCALED_F16) return 1.0f;
        u32 tile, matrix = share.of(i, tile);
        return row_scale<F>(matrix == 0 ? a.weight0 : matrix == 1 ? a.weight1 : a.weight2, 16 * tile + within);
    };
    float gate = 0.0f;
    auto finish = [&](u32 i, u32 within, u32 row, float sum, float scale) {
        u32 tile, matrix = share.of(i, tile), output = 16 * tile + within;
        const Tiles &w = matrix == 0 ? a.weight0 : matrix == 1 ? a.weight1 : a.weight2;
        float value = sum * scale;
        u64 to = (u64)row * (a.out_stride ? a.out_stride : w.rows) + output;
        if (share.gated) {
            // Gate and up of an output are in both halves of a warp if a batch finishes together; otherwise they come
            // one after the other.
            if (Rows<F, T, R>::BATCH > 1) gate = __shfl_sync(0xffffffffu, value, threadIdx.x % 16);
            else if (matrix == 0) gate = value;
            if (matrix == 1 && output < w.rows) at<T>(a.out0)[to] = round_to<T>(activated(a.activation, gate) * value);
            return;
        }
        if (output >= w.rows) return;
        const float *bias = at<const float>(matrix == 0 ? a.bias0 : matrix == 1 ? a.bias1 : a.bias2);
        float *out = at<float>(matrix == 0 ? a.out0 : matrix == 1 ? a.out1 : a.out2);
        if (bias) value += bias[output];
        if (a.epilogue == Epilogue::Activated) value = activated(a.activation, value);
        if (a.epilogue == Epilogue::Multiplied) at<T>(a.out0)[to] = round_to<T>(at<const float>(a.out1)[to] * value);
        // No other thread adds to this output, and nothing waits for the sum.
        else if (a.epilogue == Epilogue::Added) atomicAdd(out + to, value);
        else out[to] = value;
    };
    // A team without tiles still prepares rows for the others.
    if (!Team<F, R>::alone || share.there(0)) {
        if constexpr (R == 1 && Layout<F>::scaled)
            sum_tiles_of_one(share, phases, rows, Codes<F, T, R>(table, lane), prepare, finish);
        else sum_tiles<F, T, R, PHASED>(share, phases, rows, prepare, scale_of, finish);
    }
}

#define STEP_KERNEL(FORMAT, NAME, R, PHASED, SUFFIX, T, OF, BLOCK, BLOCKS) \
    extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS) \
        step_product_##OF##_##NAME##_x##R##SUFFIX(const __grid_constant__ StepArgs a) { \
        step_product<FORMAT, T, R, PHASED>(a, blockIdx.x, gridDim.x); \
    }
#define STEP_KERNELS_OF(FORMAT, NAME, T, OF) \
    STEP_KERNEL(FORMAT, NAME, 1, false, , T, OF, (TEAMS_OF_ONE<FORMAT> * THREADS), 2 / TEAMS_OF_ONE<FORMAT>) \
    STEP_KERNEL(FORMAT, NAME, 8, false, , T, OF, (TEAMS * THREADS), 1) \
    STEP_KERNEL(FORMAT, NAME, 8, true, _phased, T, OF, (PHASED_TEAMS * THREADS), 1)
#define STEP_KERNELS(FORMAT, NAME) \
    STEP_KERNELS_OF(FORMAT, NAME, half, f16) \
    STEP_KERNELS_OF(FORMAT, NAME, __nv_bfloat16, bf16)
