// The matrix products of a step: one row of input, tiles of 16 weight rows by a block, its warps sharing the columns.
//
// Reading the weights is all that takes time. So each warp has several units of them under way, from before the row is
// even normed until its last tile, and a block goes from tile to tile without letting them run dry. How many blocks
// there are changes no bit: a tile is always summed by the same eight warps, each over its own columns in their order,
// and then in the order of the warps.
#pragma once
#include "norm.cuh"
#include "step/unit.cuh"

// Units under way in a warp; about 48 registers.
template <int F> struct Depth {
    static constexpr int value = F == F32 ? 1 : F <= BF16 || F == SCALED_F16 ? 3 : F == Q8_0 ? 4 : F == Q4_0 ? 8 : F == Q5_1 || F == Q5_K || F == Q6_K ? 5 : 6;
};

// The row in shared memory, in T. In 64 columns, lane 4 g + t of a warp takes the columns 4 t .. 4 t + 3 of each of four
// steps: two steps in 16 bytes. Behind it lie its sums over 32 columns each, and what the warps have summed.
template <typename T> struct Row {
    T *values;
    float *sums;
    // (2, WARPS, 16): by turns, so that a block waits once a tile.
    float *parts;

    __device__ __forceinline__ Row(u8 *memory, u32 stride)
        : values(reinterpret_cast<T *>(memory)), sums(reinterpret_cast<float *>(memory + 2 * stride)), parts(sums + stride / 32) {}

    // Eight columns side by side, if there are any; by all lanes of a warp, which lie side by side too.
    __device__ __forceinline__ void put_if(bool there, u32 column, const float (&eight)[8]) const {
        u32 within = column % 64, step = within / 16;
        u32 four[4];
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            four[i] = Mma<T>::pack(eight[2 * i], eight[2 * i + 1]);
            const T *pair = reinterpret_cast<const T *>(&four[i]);
            sum += widen(pair[0]) + widen(pair[1]);
        }
        uint2 *to = reinterpret_cast<uint2 *>(values + column - within + step / 2 * 32 + within % 16 / 4 * 8 + step % 2 * 4);
        if (there) to[0] = make_uint2(four[0], four[1]), to[2] = make_uint2(four[2], four[3]);
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        if (there && column % 32 == 0) sums[column / 32] = sum;
    }

    // The pairs of steps 0 and 1, or 2 and 3, of a unit.
    __device__ __forceinline__ uint4 pairs(u32 unit, u32 half_, u32 lane) const { return reinterpret_cast<const uint4 *>(values)[unit * 8 + half_ * 4 + lane % 4]; }
};

// Adds a unit's products with the row to the sums of the weight rows g and g + 8.
template <int F, typename T> __device__ __forceinline__ void multiply(const Unit<F> &w, const Row<T> &row, u32 unit, u32 lane, float (&sums)[4]) {
    float block[4] = {};
#pragma unroll
    for (u32 s = 0; s < 4; ++s) {
        uint4 two = row.pairs(unit, s / 2, lane);
        u32 b0 = s % 2 ? two.z : two.x, b1 = s % 2 ? two.w : two.y;
        u32 a[4], rest[4];
        w.template step<T>(s, a, rest);
        if constexpr (!Blocks<F>::scaled) {
            Mma<T>::run(sums, a, b0, b1);
            if constexpr (!Mma<T>::template holds<F>()) Mma<T>::run(sums, rest, b0, b1);
            continue;
        }
        Mma<T>::run(block, a, b0, b1);
        if (!Blocks<F>::ends(s)) continue;
#pragma unroll
        for (u32 r = 0; r < 2; ++r) {
            float scale, minimum;
            w.scale(s, r, scale, minimum);
            sums[2 * r] = fmaf(scale, block[2 * r], sums[2 * r]);
            if (Blocks<F>::minimum) sums[2 * r] = fmaf(minimum, row.sums[unit * 2 + s / 2], sums[2 * r]);
            block[2 * r] = block[2 * r + 1] = 0.0f;
        }
    }
}

// `place` says where tile i of this block lies; `prepare` fills the row while the first units are under way;
// `finish(i, row of the tile, sum, scale)` is called by sixteen threads, for which `scale_of(i, row of the tile)` was
// asked for while the tile was still being multiplied.
template <int F, typename T, typename Place, typename Prepare, typename Scale, typename Finish>
__device__ __forceinline__ void multiply_tiles(u32 tiles, u32 columns, const Row<T> &row, Place place, Prepare prepare, Scale scale_of, Finish finish) {
    constexpr int D = Depth<F>::value;
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, units = columns / 64, mine = units > warp ? (units - warp + WARPS - 1) / WARPS : 0;
    Unit<F> ring[D];
    const u8 *tile = place(0);
#pragma unroll
    for (u32 d = 0; d < D; ++d)
        if (d < mine) ring[d].load(tile, warp + WARPS * d, lane);
    prepare();
    for (u32 i = 0; i < tiles; ++i) {
        const u8 *next = i + 1 < tiles ? place(i + 1) : nullptr;
        float sums[4] = {}, scale = threadIdx.x < 16 ? scale_of(i, threadIdx.x) : 1.0f;
        for (u32 k = 0; k < mine; k += D) {
            bool last = k + D >= mine;
#pragma unroll
            for (u32 d = 0; d < D; ++d) {
                if (k + d < mine) multiply<F, T>(ring[d], row, warp + WARPS * (k + d), lane, sums);
                if (!last) {
                    if (k + D + d < mine) ring[d].load(tile, warp + WARPS * (k + D + d), lane);
                } else if (next && d < mine) {
                    ring[d].load(next, warp + WARPS * d, lane);
                }
            }
        }
        float *parts = row.parts + i % 2 * (WARPS * 16);
        if (lane % 4 == 0) parts[warp * 16 + lane / 4] = sums[0], parts[warp * 16 + lane / 4 + 8] = sums[2];
        __syncthreads();
        if (threadIdx.x < 16) {
            float sum = 0.0f;
#pragma unroll
            for (int from = 0; from < WARPS; ++from) sum += parts[from * 16 + threadIdx.x];
            finish(i, threadIdx.x, sum, scale);
        }
        tile = next;
    }
}

extern __shared__ __align__(16) u8 shared[];

template <int F, typename T> __device__ __forceinline__ void step_product(const StepArgs &a) {
    Stopwatch stopwatch(a.stamp);
    Row<T> row(shared, a.stride);
    u32 tiles0 = (a.weight0.rows + 15) / 16, tiles1 = (a.weight1.rows + 15) / 16, tiles2 = (a.weight2.rows + 15) / 16;
    bool gated = a.outcome == GATED;
    // Each block takes every gridDim.x-th tile; of gate and up those at the same place, one after the other.
    u32 all = gated ? tiles0 : tiles0 + tiles1 + tiles2, mine = all > blockIdx.x ? (all - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
    auto of = [&](u32 i, u32 &tile) -> u32 {
        tile = blockIdx.x + (gated ? i / 2 : i) * gridDim.x;
        if (gated) return i % 2;
        if (tile < tiles0) return 0;
        tile -= tiles0;
        if (tile < tiles1) return 1;
        tile -= tiles1;
        return 2;
    };
    auto place = [&](u32 i) {
        u32 tile, matrix = of(i, tile);
        u64 data = matrix == 0 ? a.weight0.data : matrix == 1 ? a.weight1.data : a.weight2.data;
        return at<const u8>(data + tile * tile_bytes<F>(a.weight0.columns));
    };
    // Eight columns a thread, as many at once as registers allow: whatever is waited for is waited for once.
    constexpr u32 EACH = 8 * THREADS, KEPT = 2, COPIED = 4;
    auto prepare = [&]() {
        if (a.input) {
            const T *input = at<const T>(a.input);
            for (u32 first = 0; first < a.stride; first += COPIED * EACH) {
                uint4 bits[COPIED];
#pragma unroll
                for (u32 c = 0; c < COPIED; ++c) {
                    u32 column = first + c * EACH + 8 * threadIdx.x;
                    bits[c] = make_uint4(0, 0, 0, 0);
                    if (column < a.stride) bits[c] = *reinterpret_cast<const uint4 *>(input + column);
                }
#pragma unroll
                for (u32 c = 0; c < COPIED; ++c) {
                    u32 column = first + c * EACH + 8 * threadIdx.x;
                    const T *each = reinterpret_cast<const T *>(&bits[c]);
                    float eight[8];
#pragma unroll
                    for (int i = 0; i < 8; ++i) eight[i] = widen(each[i]);
                    row.put_if(column < a.stride, column, eight);
                }
            }
            __syncthreads();
            return;
        }
        // Of a prompt's rows the last real one.
        const float *x = at<const float>(a.x) + (a.count ? (u64)a.hidden * (*at<const u32>(a.count) - 1) : 0), *weight = at<const float>(a.norm);
        auto read = [&](const float *from, u32 column, float(&eight)[8]) {
            if (a.hidden % 4 == 0 && column + 8 <= a.hidden) {
                float4 low = *reinterpret_cast<const float4 *>(from + column), high = *reinterpret_cast<const float4 *>(from + column + 4);
                eight[0] = low.x, eight[1] = low.y, eight[2] = low.z, eight[3] = low.w, eight[4] = high.x, eight[5] = high.y, eight[6] = high.z, eight[7] = high.w;
                return;
            }
#pragma unroll
            for (int i = 0; i < 8; ++i) eight[i] = column + i < a.hidden ? from[column + i] : 0.0f;
        };
        float kept[KEPT][8], weights[KEPT][8], sum = 0.0f;
#pragma unroll
        for (u32 c = 0; c < KEPT; ++c) read(x, c * EACH + 8 * threadIdx.x, kept[c]);
#pragma unroll
        for (u32 c = 0; c < KEPT; ++c) read(weight, c * EACH + 8 * threadIdx.x, weights[c]);
        auto square = [&](const float(&eight)[8]) {
#pragma unroll
            for (int i = 0; i < 8; ++i) sum = fmaf(eight[i], eight[i], sum);
        };
#pragma unroll
        for (u32 c = 0; c < KEPT; ++c) square(kept[c]);
        for (u32 first = KEPT * EACH; first < a.hidden; first += EACH) {
            float eight[8];
            read(x, first + 8 * threadIdx.x, eight);
            square(eight);
        }
        float scale = 1.0f / sqrtf(block_sum(sum, row.parts) / (float)a.hidden + a.epsilon);
        auto put = [&](u32 column, float(&eight)[8], const float(&by)[8]) {
#pragma unroll
            for (int i = 0; i < 8; ++i) eight[i] = eight[i] * scale * by[i];
            row.put_if(column < a.stride, column, eight);
        };
#pragma unroll
        for (u32 c = 0; c < KEPT; ++c)
            if (c * EACH < a.stride) put(c * EACH + 8 * threadIdx.x, kept[c], weights[c]);
        for (u32 first = KEPT * EACH; first < a.stride; first += EACH) {
            float eight[8], by[8];
            read(x, first + 8 * threadIdx.x, eight);
            read(weight, first + 8 * threadIdx.x, by);
            put(first + 8 * threadIdx.x, eight, by);
        }
        __syncthreads();
    };
    auto scale_of = [&](u32 i, u32 within) {
        if (F != SCALED_F16) return 1.0f;
        u32 tile, matrix = of(i, tile);
        return row_scale<F>(matrix == 0 ? a.weight0 : matrix == 1 ? a.weight1 : a.weight2, 16 * tile + within);
    };
    float gate = 0.0f;
    auto finish = [&](u32 i, u32 within, float sum, float scale) {
        u32 tile, matrix = of(i, tile), output = 16 * tile + within;
        const Tiles &w = matrix == 0 ? a.weight0 : matrix == 1 ? a.weight1 : a.weight2;
        if (output >= w.rows) return;
        float value = sum * scale;
        if (gated) {
            if (matrix == 0) gate = value / (1.0f + expf(-value));
            else at<T>(a.out0)[output] = round_to<T>(gate * value);
            return;
        }
        const float *bias = at<const float>(matrix == 0 ? a.bias0 : matrix == 1 ? a.bias1 : a.bias2);
        float *out = at<float>(matrix == 0 ? a.out0 : matrix == 1 ? a.out1 : a.out2);
        if (bias) value += bias[output];
        if (a.outcome == SILU) value /= 1.0f + expf(-value);
        if (a.outcome == MULTIPLIED) at<T>(a.out0)[output] = round_to<T>(at<const float>(a.out1)[output] * value);
        // Nobody else adds to it, and nothing waits for the sum.
        else if (a.outcome == ADDED) atomicAdd(out + output, value);
        else out[output] = value;
    };
    if (mine) multiply_tiles<F, T>(gated ? 2 * mine : mine, a.weight0.columns, row, place, prepare, scale_of, finish);
}

#define STEP_KERNELS(FORMAT, NAME) \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) step_f16_##NAME(const __grid_constant__ StepArgs a) { step_product<FORMAT, half>(a); } \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) step_bf16_##NAME(const __grid_constant__ StepArgs a) { step_product<FORMAT, __nv_bfloat16>(a); }
