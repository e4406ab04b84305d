// The matrix products of a prompt: tiles of tokens and weight rows in shared memory, filled ahead by cp.async, on
// the tensor cores. Tokens are mma's m, weight rows its n.
//
// One warp sums each output over all columns, in their order: a row's bits depend neither on the tile's shape nor
// on how many rows are read at once. That is the family of prompts; a step's products split the columns over warps
// and have other last bits.
#pragma once
#include "sums.cuh"
#include "tile.cuh"

// How a block's warps share its tile: TOKENS x ROWS warps, each of M tiles of 16 tokens by N tiles of 16 rows. STAGES of 64 columns
// lie in shared memory, of which blocks of scaled weights are multiplied UNITS at a time: a warp that has its scheduler for itself
// waits for what it issued before, and blocks are summed each by itself.
template <int TOKENS_, int ROWS_, int M_, int N_, int STAGES_, int UNITS_> struct Shape {
    static constexpr int TOKENS = TOKENS_, ROWS = ROWS_, M = M_, N = N_, STAGES = STAGES_, UNITS = UNITS_;
    static_assert(STAGES % UNITS == 0);
    static constexpr int threads = 32 * TOKENS * ROWS, tokens = 16 * M * TOKENS, tiles = N * ROWS;
};

__device__ __forceinline__ void copy_16(u32 to, const void *from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from)); }
// Without a branch.
__device__ __forceinline__ void copy_16_if(u32 to, const void *from, bool there) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16; }" ::"r"(to), "l"(from), "r"((u32)there));
}
// Nothing is read where there is nothing: zeros.
__device__ __forceinline__ void copy_16_or_zero(u32 to, const void *from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0));
}
__device__ __forceinline__ void copies_end() { asm volatile("cp.async.commit_group;"); }
template <int LEFT> __device__ __forceinline__ void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(LEFT)); }

// Where four units share what their minima are multiplied by, minima are multiplied for all four at once: their scales and the sums of
// the inputs lie behind all stages until then, of so many units, with gaps in which four units that are read at once miss each other's
// banks. Where bits lie above the nibbles, registers are too few for it.
template <int F, class S> struct Rings {
    static constexpr bool there = Layout<F>::kind == BYTE_PAIRS && Layout<F>::high == 0;
    static constexpr u32 units = S::STAGES > 6 ? 16 : 8, scales = S::tiles * Layout<F>::scales + 32, sums = S::tokens * 8 + 32;
};

// Bytes of a stage: the inputs of 64 columns, the units of the weights with the heads that belong to them, and of
// formats with a minimum the sums of the inputs over both blocks; without what is in rings.
template <int F, class S> struct Stage {
    static constexpr bool rings = Rings<F, S>::there;
    static constexpr u32 unit = Layout<F>::unit - (rings ? Layout<F>::scales : 0) + Layout<F>::head;
    static constexpr u32 inputs = S::tokens * 128, weights = S::tiles * unit, sums = Layout<F>::minimum && !rings ? S::tokens * 8 : 0;
    static constexpr u32 bytes = inputs + weights + sums;
};

// Tile `index` of all matrices: of gate and up by turns, else of one after the other.
__device__ __forceinline__ void tile_of(const PromptArgs &a, u32 index, u32 &matrix, u32 &tile) {
    if (a.outcome == GATED) {
        matrix = index % 2, tile = index / 2;
        return;
    }
    u32 tiles0 = (a.weight0.rows + 15) / 16, tiles1 = (a.weight1.rows + 15) / 16;
    matrix = index < tiles0 ? 0 : index < tiles0 + tiles1 ? 1 : 2;
    tile = index - (matrix == 0 ? 0 : matrix == 1 ? tiles0 : tiles0 + tiles1);
}

__device__ __forceinline__ const Tiles &matrix_of(const PromptArgs &a, u32 matrix) { return matrix == 0 ? a.weight0 : matrix == 1 ? a.weight1 : a.weight2; }

// Integers of a block times its scale of six bits, where T holds that exactly (q scale < 2^11): what is left is one factor for all
// blocks of a unit, of rows of weights g and g + 8.
template <int F, typename T> struct Folded { static constexpr bool able = false; };
template <int F> struct Folded<F, half> { static constexpr bool able = Layout<F>::kind == BYTE_PAIRS; };

struct FoldedScales {
    // (block, row): the scale, twice, and minus what integers are more in a half. Those of the second row come 2^up times as large.
    half2 by[2][2], less[2][2];

    template <int F> __device__ __forceinline__ void read(const u8 *of_tile, u32 g) {
        uint2 two = *reinterpret_cast<const uint2 *>(of_tile + g * 8);
        const half2 more = __half2half2(__int2half_rn(1024)), factor = __half2half2(__int2half_rn(-1024)), less_up = __half2half2(__float2half_rn(1.0f / (1 << Layout<F>::up)));
#pragma unroll
        for (u32 b = 0; b < 2; ++b)
#pragma unroll
            for (u32 r = 0; r < 2; ++r) {
                u32 biased = __byte_perm(r ? two.y : two.x, 0x64646464u, b ? 0x4242 : 0x4040);
                by[b][r] = __hsub2(*reinterpret_cast<half2 *>(&biased), more);
                if (r) by[b][r] = __hmul2(by[b][r], less_up);
                less[b][r] = __hmul2(by[b][r], factor);
            }
    }
};

// What a warp multiplies the sums of a unit by: a lane makes it for one row of the weights, and finds what others have made in shared memory that
// only its warp knows. Where a scale is one number that is stored, or is folded into the integers, each lane makes its own in less time.
template <int F, typename T, class S> struct Made {
    static constexpr bool scales = !Folded<F, T>::able && Layout<F>::kind != HALVES, minima = Layout<F>::minimum;
    static constexpr bool there = Layout<F>::scaled && !Rings<F, S>::there && (scales || minima);
    // Of a row a scale for each block, then its minima in both as bf16, and what these lack; rows lie side by side.
    static constexpr u32 ROWS = S::N * 16, BLOCKS = Layout<F>::block ? 64 / Layout<F>::block : 0, behind_scales = scales ? BLOCKS * ROWS * 4 : 0;
    static constexpr u32 bytes = there ? behind_scales + (minima ? ROWS * 8 : 0) : 0;

    // `row`: in the order in which scales lie in a unit.
    static __device__ __forceinline__ void make(u8 *to, u32 row, const u8 *scales_of_row, const u8 *head_of_row) {
        RowScale<F> of_row;
        of_row.read(scales_of_row, head_of_row);
        float minimum[BLOCKS];
#pragma unroll
        for (u32 b = 0; b < BLOCKS; ++b) {
            float scale;
            of_row.of(b, scale, minimum[b], 1.0f);
            if constexpr (scales) *reinterpret_cast<float *>(to + (b * ROWS + row) * 4) = scale;
        }
        if constexpr (minima) {
            u32 *both = reinterpret_cast<u32 *>(to + behind_scales) + row;
            split_in_two(minimum[0], minimum[1], both[0], both[ROWS]);
        }
    }
    // Of four rows of a tile, of which the fourth part t is 2 t, 2 t + 8, 2 t + 1 and 2 t + 9.
    static __device__ __forceinline__ void scales_of(const u8 *from, u32 row, u32 b, float (&four)[4]) {
        float4 of = *reinterpret_cast<const float4 *>(from + (b * ROWS + row) * 4);
        four[0] = of.x, four[1] = of.y, four[2] = of.z, four[3] = of.w;
    }
    // Minima of the rows g and g + 8 of tile n, to be multiplied by the inputs' sums over both blocks of a unit. Of eight columns of mma
    // pair t is of both blocks: of the sums what they are as bf16 where t is even and else what these lack, of the minima in the first
    // two pairs and in the last two. So all four products of both parts are summed, and minima cost one mma in place of two operations
    // an output.
    static __device__ __forceinline__ void minima_of(const u8 *from, u32 n, u32 g, u32 t, u32 (&pairs)[2]) {
        uint2 two = *reinterpret_cast<const uint2 *>(from + behind_scales + (t / 2 * ROWS + n * 16 + 2 * g) * 4);
        pairs[0] = two.x, pairs[1] = two.y;
    }
};

// The weights that a lane multiplies next: of one step of plain values, of two of nibbles and bytes.
template <int F, typename T> struct Staged {
    u32 quants[4], high;

    __device__ __forceinline__ void load(const u8 *unit, u32 lane, u32 step) {
        if constexpr (Layout<F>::quants == 512) {
            uint2 two = reinterpret_cast<const uint2 *>(unit)[2 * lane + step / 2];
            quants[0] = two.x, quants[1] = two.y;
            if constexpr (Layout<F>::high > 0) high = high_bits<F>(reinterpret_cast<const u32 *>(unit + 512) + lane * (Layout<F>::high / 128), step);
        } else if constexpr (Layout<F>::quants != 4096) {
            uint4 four = reinterpret_cast<const uint4 *>(unit)[(Layout<F>::quants == 1024 ? step / 2 : step) * 32 + lane];
            quants[0] = four.x, quants[1] = four.y, quants[2] = four.z, quants[3] = four.w;
        }
    }

    // The four pairs of step `s` of those that were loaded, times the scales of their block b.
    __device__ __forceinline__ void folded(u32 s, u32 b, const FoldedScales &scales, u32 (&a)[4]) const {
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            u32 biased = pair<F>(quants[s], high, s, i, Integers<F, T>::exponents);
            half2 value = __hfma2(*reinterpret_cast<half2 *>(&biased), scales.by[b][i % 2], scales.less[b][i % 2]);
            a[i] = *reinterpret_cast<u32 *>(&value);
        }
    }

    // The four pairs (see tile.cuh) of step `s` of those that were loaded, and what T lacks of them.
    __device__ __forceinline__ void pairs(const u8 *unit, u32 lane, u32 step, u32 s, u32 (&a)[4], u32 (&rest)[4]) const {
        u32 found[2];
        if constexpr (Layout<F>::codes) look_up(quants[s], found);
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            if constexpr (F == F32) {
                float2 pair = *reinterpret_cast<const float2 *>(unit + ((2 * step + i / 2) * 32 + lane) * 16 + i % 2 * 8);
                a[i] = Mma<T>::pack(pair.x, pair.y);
                rest[i] = Mma<T>::rest(pair.x, pair.y, a[i]);
            } else if constexpr (Layout<F>::quants == 2048 && Mma<T>::template holds<F>()) {
                a[i] = quants[i];
            } else if constexpr (Layout<F>::quants == 2048) {
                float low, high_;
                if constexpr (F == BF16) {
                    low = __uint_as_float(quants[i] << 16), high_ = __uint_as_float(quants[i] & 0xffff0000u);
                } else {
                    half2 pair = *reinterpret_cast<const half2 *>(&quants[i]);
                    low = __low2float(pair), high_ = __high2float(pair);
                }
                a[i] = Mma<T>::pack(low, high_);
                rest[i] = Mma<T>::rest(low, high_, a[i]);
            } else if constexpr (Layout<F>::quants == 1024) {
                a[i] = bytes_less_128<T>(quants[2 * s + i / 2], i % 2);
            } else if constexpr (Layout<F>::codes) {
                a[i] = bytes_less_128<T>(found[i / 2], i % 2);
            } else {
                a[i] = Integers<F, T>::of(quants[s], high, s, i);
            }
        }
    }
};

// Scales of the rows 2 t, 2 t + 8, 2 t + 1, 2 t + 9 of a tile in the block that ends with step s.
template <int F> __device__ __forceinline__ void scales_of(const u8 *scales, const u8 *head, u32 lane, u32 s, float (&scale)[4]) {
    RowScales<F, 2> rows;
    rows.read(scales - Layout<F>::before_scales, head, lane % 4);
    float minimum;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) rows.of(s, i, scale[i], minimum);
}

// Four neighbours of a row of outputs, in one access where rows begin at multiples of four.
template <typename T> struct alignas(4 * sizeof(T)) Four {
    T each[4];
};
template <typename T> __device__ __forceinline__ void put_four(T *out, u32 stride, u32 row, u32 rows, const float (&values)[4]) {
    Four<T> four;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) four.each[i] = round_to<T>(values[i]);
    if (stride % 4 == 0 && row + 3 < rows) *reinterpret_cast<Four<T> *>(out + row) = four;
    else
#pragma unroll
        for (u32 i = 0; i < 4; ++i)
            if (row + i < rows) out[row + i] = four.each[i];
}
__device__ __forceinline__ void read_four(const float *from, u32 stride, u32 row, u32 rows, float (&values)[4]) {
    Four<float> four = {};
    if (stride % 4 == 0 && row + 3 < rows) four = *reinterpret_cast<const Four<float> *>(from + row);
    else
#pragma unroll
        for (u32 i = 0; i < 4; ++i)
            if (row + i < rows) four.each[i] = from[row + i];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) values[i] = four.each[i];
}

extern __shared__ __align__(128) u8 staged[];

// Stores a block's outputs, or what becomes of them: `sums` has PITCH of each token.
template <int F, typename T, class S, u32 PITCH> __device__ __forceinline__ void finish(const PromptArgs &a, float *sums, u32 first, u32 first_tile, u32 rows, u32 all_tiles) {
    // Where tiles of gate and up come by turns, there are half as many outputs.
    const bool gated = S::tiles % 2 == 0 && a.outcome == GATED;
    const u32 along = S::tiles * (gated ? 2 : 4), at_once = S::threads / along, four = threadIdx.x % along;
    const u32 index = four / 4 * (gated ? 2 : 1), within = four % 4 * 4;
    // Of tiles beyond the last nothing is kept.
    if (threadIdx.x / along >= at_once || first_tile + index >= all_tiles) return;
    u32 matrix, tile;
    tile_of(a, first_tile + index, matrix, tile);
    const Tiles &of = matrix_of(a, matrix);
    const u32 row = tile * 16 + within, stride = a.out_stride ? a.out_stride : of.rows;
    float *out = at<float>(matrix == 0 ? a.out0 : matrix == 1 ? a.out1 : a.out2);
    const float *bias = at<const float>(matrix == 0 ? a.bias0 : matrix == 1 ? a.bias1 : a.bias2);
    float scales[4], up_scales[4], biases[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
        const bool there = row + i < of.rows;
        scales[i] = there ? row_scale<F>(of, row + i) : 1.0f;
        up_scales[i] = gated && there ? row_scale<F>(a.weight1, row + i) : 1.0f;
        biases[i] = !gated && bias && there ? bias[row + i] : 0.0f;
    }
    float *from = sums + index * 16 + within;
    const u32 begin = threadIdx.x / along, end = min(S::tokens, rows - first);
    const bool meets = a.outcome == ADDED || a.outcome == MULTIPLIED, rounded = gated || a.outcome == MULTIPLIED;
    // What outputs are added to or multiplied by is read for several tokens at once, and before any is stored: a load behind a store
    // would wait for it.
    if (meets) {
        constexpr u32 AT_ONCE = 8;
        const float *others = a.outcome == ADDED ? out : at<const float>(a.out1);
#pragma unroll 1
        for (u32 token = begin; token < end; token += AT_ONCE * at_once) {
            float other[AT_ONCE][4];
#pragma unroll
            for (u32 k = 0; k < AT_ONCE; ++k) {
                const u32 here = token + k * at_once;
                if (here < end) read_four(others + (u64)(first + here) * stride, stride, row, of.rows, other[k]);
            }
#pragma unroll
            for (u32 k = 0; k < AT_ONCE; ++k) {
                const u32 here = token + k * at_once;
                if (here >= end) break;
                float4 &sum = *reinterpret_cast<float4 *>(from + here * PITCH);
                float each[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
                for (u32 i = 0; i < 4; ++i) {
                    const float value = each[i] * scales[i] + biases[i];
                    each[i] = a.outcome == ADDED ? value + other[k][i] : value * other[k][i];
                }
                sum = make_float4(each[0], each[1], each[2], each[3]);
            }
        }
    }
#pragma unroll 1
    for (u32 token = begin; token < end; token += at_once) {
        const float4 sum = *reinterpret_cast<const float4 *>(from + token * PITCH);
        float values[4] = {sum.x, sum.y, sum.z, sum.w};
        if (!meets) {
            float ups[4] = {};
            if (gated) {
                const float4 up = *reinterpret_cast<const float4 *>(from + token * PITCH + 16);
                ups[0] = up.x, ups[1] = up.y, ups[2] = up.z, ups[3] = up.w;
            }
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
                values[i] = values[i] * scales[i] + biases[i];
                if (gated || a.outcome == SILU) values[i] /= 1.0f + expf(-values[i]);
                if (gated) values[i] *= ups[i] * up_scales[i];
            }
        }
        const u64 to = (u64)(first + token) * stride;
        if (rounded) put_four<T>(at<T>(a.out0) + to, stride, row, of.rows, values);
        else put_four<float>(out + to, stride, row, of.rows, values);
    }
}

// The tile of S's outputs that begins with these tokens and tiles of weights.
template <int F, typename T, class S> __device__ __forceinline__ void prompt_tile(const PromptArgs &a, u32 first, u32 first_tile) {
    // Of few rows weights are what takes time: they are asked for before it is this kernel's turn.
    constexpr bool early = S::tokens <= 32;
    Stopwatch stopwatch(a.stamp, early ? LATER : HELD);
    typedef Stage<F, S> G;
    typedef Rings<F, S> R;
    constexpr u32 M = S::M, N = S::N;
    // What comes next of both sides is read from shared memory while what is there is multiplied, over the border of stages too:
    // where a stage ends, its last step is still to be multiplied when the threads wait for each other. Of other weights
    // numbers must be made first, which has the tensor cores wait no longer.
    constexpr bool ahead = !Layout<F>::scaled && Layout<F>::quants == 2048 && Mma<T>::template holds<F>();
    constexpr u32 UNITS = ahead ? 1 : S::UNITS, STAGES = S::STAGES / UNITS, BYTES = UNITS * G::bytes;
    u32 rows = real_rows(a.count, a.rows);
    if (first >= rows) return;
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    u32 along_tokens = warp % S::TOKENS, along_rows = warp / S::TOKENS;
    u32 base = in_shared(staged), units = a.weight0.columns / 64;
    u32 all_tiles = (a.weight0.rows + 15) / 16 + (a.weight1.rows + 15) / 16 + (a.weight2.rows + 15) / 16;
    constexpr u32 scales_ring = S::STAGES * G::bytes, sums_ring = scales_ring + R::units * R::scales;
    typedef Made<F, T, S> By;
    u8 *const made = staged + scales_ring + warp * UNITS * By::bytes;
    // A warp copies whole units, if there are any left for it. Where its tiles lie; beyond the last, the last again, whose outputs
    // are not kept.
    constexpr u32 ALL = S::TOKENS * S::ROWS, EACH = (S::tiles + ALL - 1) / ALL, UNIT_PIECES = Layout<F>::unit / 16, HEAD_PIECES = Layout<F>::head / 16;
    const u8 *begins[EACH];
#pragma unroll
    for (u32 i = 0; i < EACH; ++i) {
        u32 matrix, tile;
        tile_of(a, min(first_tile + warp * EACH + i, all_tiles - 1), matrix, tile);
        begins[i] = at<const u8>(matrix_of(a, matrix).data + tile * tile_bytes<F>(a.weight0.columns)) + lane * 16;
    }
    // Eight threads copy a row of the inputs; of rows that do not exist, zeros. Where a row's pieces lie differs from row to row, so
    // that no two of eight neighbours are in the same banks.
    constexpr u32 ROWS_AT_ONCE = S::threads / 8, INPUTS = S::tokens / ROWS_AT_ONCE;
    u32 row = threadIdx.x / 8, to_input = base + row * 128 + (threadIdx.x % 8 ^ row % 8) * 16;
    const T *from_input = at<const T>(a.input) + (u64)(first + row) * a.stride + threadIdx.x % 8 * 8;
    u32 to_weights = base + G::inputs + warp * EACH * G::unit + lane * 16;
    // The units of a stage, as far as there are any: of the inputs, and of the weights.
    static_assert(4 % UNITS == 0);
    auto load_inputs = [&](u32 k, u32 slot) {
        const T *inputs = from_input + k * (UNITS * 64);
        u32 unit = k * UNITS, to_stage = slot * BYTES;
#pragma unroll
        for (u32 u = 0; u < UNITS; ++u, to_stage += G::bytes) {
            bool there = unit + u < units;
#pragma unroll
            for (u32 i = 0; i < INPUTS; ++i)
                copy_16_or_zero(to_input + to_stage + i * ROWS_AT_ONCE * 128, inputs + (u64)i * ROWS_AT_ONCE * a.stride + u * 64, there && first + row + i * ROWS_AT_ONCE < rows);
            if constexpr (Layout<F>::minimum) {
                static_assert(S::tokens / 2 <= S::threads);
                u32 token = 2 * threadIdx.x, to = G::rings ? sums_ring + (unit + u) % R::units * R::sums : to_stage + G::inputs + G::weights;
                if (token < S::tokens) copy_16_or_zero(base + to + token * 8, sums_at(a.sums, a.rows, unit + u, first + token), there && first + token < rows);
            }
        }
    };
    auto load_weights = [&](u32 k, u32 slot) {
        u32 unit = k * UNITS, to_stage = slot * BYTES, skip = Layout<F>::head ? unit / 4 * (Layout<F>::head + 4 * Layout<F>::unit) : 0;
        u32 unit_skip = Layout<F>::head ? skip + Layout<F>::head + unit % 4 * Layout<F>::unit : unit * Layout<F>::unit;
#pragma unroll
        for (u32 u = 0; u < UNITS; ++u, to_stage += G::bytes, unit_skip += Layout<F>::unit) {
            bool there = unit + u < units;
#pragma unroll
            for (u32 i = 0; i < EACH; ++i) {
                u32 to = to_weights + to_stage + i * G::unit;
                const bool mine = there && (S::tiles % ALL == 0 || warp * EACH + i < S::tiles);
#pragma unroll
                for (u32 piece = 0; piece < UNIT_PIECES; piece += 32) {
                    u32 place = to + piece * 16;
                    // Quants are 32 pieces, and scales those after them.
                    if (G::rings && piece == 32) place = base + scales_ring + (unit + u) % R::units * R::scales + (warp * EACH + i) * Layout<F>::scales + lane * 16;
                    copy_16_if(place, begins[i] + unit_skip + piece * 16, mine && (piece + 32 <= UNIT_PIECES || lane < UNIT_PIECES - piece));
                }
                if constexpr (HEAD_PIECES > 0) copy_16_if(to + (G::unit - Layout<F>::head), begins[i] + skip, mine && lane < HEAD_PIECES);
            }
        }
    };
    auto load = [&](u32 k, u32 slot) {
        load_inputs(k, slot);
        load_weights(k, slot);
        copies_end();
    };
    float sums[M][N][2][4] = {};
    if constexpr (early) {
#pragma unroll
        for (u32 k = 0; k < STAGES - 1; ++k) load_weights(k, k);
        stopwatch.wait();
#pragma unroll
        for (u32 k = 0; k < STAGES - 1; ++k) {
            load_inputs(k, k);
            copies_end();
        }
    } else {
#pragma unroll
        for (u32 k = 0; k < STAGES - 1; ++k) load(k, k);
    }
    u32 slot = 0, next = STAGES - 1, at_inputs = base + (along_tokens * 16 * M + lane % 16) * 128;
    if constexpr (ahead) {
        u32 x[2][M][4], w[2][N][4], of_step[4], skip = 0;
        const u8 *first_unit = staged + G::inputs + along_rows * N * G::unit + lane * 16;
#pragma unroll
        for (u32 s = 0; s < 4; ++s) of_step[s] = at_inputs + ((2 * s + lane / 16) ^ lane % 8) * 16;
        auto read = [&](u32 to, u32 s) {
#pragma unroll
            for (u32 m = 0; m < M; ++m) matrices(x[to][m], of_step[s] + skip + m * 2048);
#pragma unroll
            for (u32 n = 0; n < N; ++n) {
                uint4 four = *reinterpret_cast<const uint4 *>(first_unit + skip + n * G::unit + s * 512);
                w[to][n][0] = four.x, w[to][n][1] = four.y, w[to][n][2] = four.z, w[to][n][3] = four.w;
            }
        };
        copies_wait<STAGES - 2>();
        __syncthreads();
        read(0, 0);
        for (u32 k = 0; k < units; ++k) {
#pragma unroll
            for (u32 s = 0; s < 4; ++s) {
                if (s == 3) {
                    copies_wait<STAGES - 2>();
                    __syncthreads();
                    next = slot, slot = slot + 1 == STAGES ? 0 : slot + 1, skip = slot * BYTES;
                }
                read((s + 1) % 2, (s + 1) % 4);
                // Into the stage that all have read.
                if (s == 0) load(k + STAGES - 1, next);
#pragma unroll
                for (u32 m = 0; m < M; ++m)
#pragma unroll
                    for (u32 n = 0; n < N; ++n)
#pragma unroll
                        for (int h = 0; h < 2; ++h) Mma<T>::run(sums[m][n][h], x[s % 2][m], w[s % 2][n][h], w[s % 2][n][h + 2]);
            }
        }
    }
    // Of a tile n of the warp's, in the stage of a unit: its scales, and its head.
    auto scales_at = [&](const u8 *unit, u32 index, u32 n) {
        if constexpr (G::rings) return staged + scales_ring + index % R::units * R::scales + (along_rows * N + n) * Layout<F>::scales;
        else return unit + n * G::unit + Layout<F>::before_scales;
    };
    auto head_at = [&](const u8 *unit, u32 n) { return unit + (n + 1) * G::unit - Layout<F>::head; };
    // Of the four units that end with this one: pair t of sixteen columns of mma is of unit t, and so is pair t + 4. The sums' bf16 meet minima
    // in the first, and what they lack meets the same in the others; minima of six bits are bf16 exactly.
    auto add_minima_of_four = [&](const u8 *stage, u32 index) {
        const u8 *unit = stage + G::inputs + along_rows * N * G::unit;
        const u32 mine = (index - 3 + t) % R::units;
        u32 pairs[N][2];
        float by[N][4];
#pragma unroll
        for (u32 n = 0; n < N; ++n) {
            RowScales<F, 2> rows;
            read_words(head_at(unit, n) + t * sizeof(rows.head), rows.head);
            uint2 two = *reinterpret_cast<const uint2 *>(scales_at(unit, mine, n) + g * 8);
            // Every other byte, of rows g and g + 8.
            const u32 minima = __byte_perm(two.x, two.y, 0x7531);
#pragma unroll
            for (u32 i = 0; i < 4; ++i) by[n][i] = rows.shared_minimum(i);
#pragma unroll
            for (int h = 0; h < 2; ++h) pairs[n][h] = bytes_less_128<__nv_bfloat16>(minima | 0x80808080u, h);
        }
        const u8 *of = staged + sums_ring + mine * R::sums + (along_tokens * 16 * M + g) * 8;
#pragma unroll
        for (u32 m = 0; m < M; ++m) {
            uint2 upper = *reinterpret_cast<const uint2 *>(of + m * 128), lower = *reinterpret_cast<const uint2 *>(of + m * 128 + 64);
            u32 x[4] = {upper.x, lower.x, upper.y, lower.y};
#pragma unroll
            for (u32 n = 0; n < N; ++n)
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    float four[4] = {};
                    Mma<__nv_bfloat16>::run(four, x, pairs[n][h], pairs[n][h]);
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        float &sum = sums[m][n][h][i];
                        sum = fmaf(by[n][h + 2 * (i % 2)], four[i], sum);
                    }
                }
        }
    };
    auto add_minima = [&](const u8 *stage, u32 index, u32 u) {
        if constexpr (G::rings) {
            if (index % 4 == 3) add_minima_of_four(stage, index);
        } else if constexpr (Layout<F>::minimum) {
            u32 pairs[N][2];
#pragma unroll
            for (u32 n = 0; n < N; ++n) By::minima_of(made + u * By::bytes, n, g, t, pairs[n]);
#pragma unroll
            for (u32 m = 0; m < M; ++m) {
                const u32 *of = reinterpret_cast<const u32 *>(stage + G::inputs + G::weights) + 2 * (along_tokens * 16 * M + m * 16 + g) + t % 2;
#pragma unroll
                for (u32 n = 0; n < N; ++n)
#pragma unroll
                    for (int h = 0; h < 2; ++h) Mma<__nv_bfloat16>::run_eight(sums[m][n][h], of[0], of[16], pairs[n][h]);
            }
        }
    };
    auto multiply = [&](const u8 *stage, u32 index, u32 u) {
        const u8 *unit = stage + G::inputs + along_rows * N * G::unit;
        u32 inputs = (u32)(stage - staged) + at_inputs;
        // Where registers are left for it, after the products, which need not wait for minima then.
        if constexpr (!Folded<F, T>::able) add_minima(stage, index, u);
        if constexpr (Folded<F, T>::able) {
            u32 f[4][N][4];
            float scale[N][4];
#pragma unroll
            for (u32 n = 0; n < N; ++n) {
                const u8 *from = unit + n * G::unit;
                FoldedScales scales;
                scales.template read<F>(scales_at(unit, index, n), g);
#pragma unroll
                for (u32 b = 0; b < 2; ++b) {
                    Staged<F, T> w;
                    w.load(from, lane, 2 * b);
#pragma unroll
                    for (u32 s = 0; s < 2; ++s) w.folded(s, b, scales, f[2 * b + s][n]);
                }
                RowScales<F, 2> rows;
                read_words(head_at(unit, n) + t * sizeof(rows.head), rows.head);
#pragma unroll
                for (u32 i = 0; i < 4; ++i) scale[n][i] = rows.shared(i);
            }
#pragma unroll
            for (u32 m = 0; m < M; ++m) {
                u32 x[4][4];
#pragma unroll
                for (u32 s = 0; s < 4; ++s) matrices(x[s], inputs + m * 2048 + ((2 * s + lane / 16) ^ lane % 8) * 16);
#pragma unroll
                for (u32 n = 0; n < N; ++n)
#pragma unroll
                    for (int h = 0; h < 2; ++h) {
                        float block[4] = {};
#pragma unroll
                        for (u32 s = 0; s < 4; ++s) Mma<T>::run(block, x[s], f[s][n][h], f[s][n][h + 2]);
#pragma unroll
                        for (int i = 0; i < 4; ++i) {
                            float &sum = sums[m][n][h][i];
                            sum = fmaf(scale[n][h + 2 * (i % 2)], block[i], sum);
                        }
                    }
            }
            add_minima(stage, index, u);
            return;
        }
        // A block of one scale is two steps or one; two share what is loaded.
        constexpr u32 STEPS = Layout<F>::scaled ? 2 : 1, PARTS = Layout<F>::block == 16 ? 2 : 1;
        // Where blocks are small scales are found by additions (Q6_K gains 3 %); so found, those of others take registers that meet in
        // banks (IQ4_XS and Q4_1 lose 5 to 10 %).
        const u8 *along = made + u * By::bytes + t * 16;
#pragma unroll(Layout<F>::scaled && UNITS == 1 ? 1 : 4)
        for (u32 b = 0; b < 4 / STEPS; ++b, along += PARTS * By::ROWS * 4) {
            u32 f[STEPS][N][4], rest[STEPS][N][4];
            float scale[PARTS][N][4];
#pragma unroll
            for (u32 n = 0; n < N; ++n) {
                const u8 *from = unit + n * G::unit;
                Staged<F, T> w;
                w.load(from, lane, b * STEPS);
#pragma unroll
                for (u32 s = 0; s < STEPS; ++s) w.pairs(from, lane, b * STEPS + s, s, f[s][n], rest[s][n]);
                if constexpr (Layout<F>::scaled) {
#pragma unroll
                    for (u32 part = 0; part < PARTS; ++part) {
                        if constexpr (By::there && By::scales) By::scales_of(PARTS == 2 ? along : made + u * By::bytes, n * 16 + (PARTS == 2 ? 0 : 4 * t), PARTS == 2 ? part : b, scale[part][n]);
                        else scales_of<F>(scales_at(unit, index, n), head_at(unit, n), lane, b * STEPS + part, scale[part][n]);
                    }
                }
            }
#pragma unroll
            for (u32 m = 0; m < M; ++m) {
                u32 x[STEPS][4];
#pragma unroll
                for (u32 s = 0; s < STEPS; ++s) matrices(x[s], inputs + m * 2048 + ((2 * (b * STEPS + s) + lane / 16) ^ lane % 8) * 16);
#pragma unroll
                for (u32 n = 0; n < N; ++n)
#pragma unroll
                    for (int h = 0; h < 2; ++h) {
                        float(&sum)[4] = sums[m][n][h];
                        if constexpr (!Layout<F>::scaled) {
                            Mma<T>::run(sum, x[0], f[0][n][h], f[0][n][h + 2]);
                            if constexpr (!Mma<T>::template holds<F>()) Mma<T>::run(sum, x[0], rest[0][n][h], rest[0][n][h + 2]);
                            continue;
                        }
#pragma unroll
                        for (u32 part = 0; part < PARTS; ++part) {
                            float block[4] = {};
                            Mma<T>::run(block, x[part], f[part][n][h], f[part][n][h + 2]);
                            if constexpr (PARTS < STEPS) Mma<T>::run(block, x[1], f[1][n][h], f[1][n][h + 2]);
#pragma unroll
                            for (int i = 0; i < 4; ++i) sum[i] = fmaf(scale[part][n][h + 2 * (i % 2)], block[i], sum[i]);
                        }
                    }
            }
        }
    };
    // The next stage: it has come, and what all have read before is filled anew.
    auto turn = [&](u32 k) -> const u8 * {
        copies_wait<STAGES - 2>();
        __syncthreads();
        const u8 *stage = staged + slot * BYTES;
        if constexpr (By::there) {
            // Where a warp has 16 rows, two lanes make the same.
            const u32 row = lane % By::ROWS;
#pragma unroll
            for (u32 u = 0; u < UNITS; ++u) {
                const u8 *unit = stage + u * G::bytes + G::inputs + along_rows * N * G::unit;
                By::make(made + u * By::bytes, row, scales_at(unit, k * UNITS + u, row / 16) + row % 16 * RowScale<F>::EACH, head_at(unit, row / 16) + row % 16 * RowScale<F>::HEAD);
            }
        }
        load(k + STAGES - 1, next);
        if constexpr (By::there) __syncwarp();
        next = slot, slot = slot + 1 == STAGES ? 0 : slot + 1;
        return stage;
    };
    if constexpr (!ahead) {
        for (u32 k = 0; k < units / UNITS; ++k) {
            const u8 *stage = turn(k);
#pragma unroll
            for (u32 u = 0; u < UNITS; ++u) multiply(stage + u * G::bytes, k * UNITS + u, u);
        }
        if (UNITS > 1 && units % UNITS) {
            const u8 *stage = turn(units / UNITS);
#pragma unroll 1
            for (u32 u = 0; u < units % UNITS; ++u) multiply(stage + u * G::bytes, units / UNITS * UNITS + u, u);
        }
    }
    Stopwatch::let_next_begin();
    // What the warps have summed goes through shared memory, (tokens, rows): so a thread has four rows side by side, and
    // goes along the tokens. They are stored one by one: pairs would have the sums lie in pairs of registers through all of the loop before,
    // which is slower by 9 % then. Tokens lie apart so that no more than two of a warp's numbers meet in a bank.
    constexpr u32 ROWS = S::tiles * 16, PITCH = ROWS + 8;
    static_assert(S::tokens * PITCH * sizeof(float) <= S::STAGES * G::bytes);
    float *block = reinterpret_cast<float *>(staged);
    copies_wait<0>();
    __syncthreads();
#pragma unroll
    for (u32 m = 0; m < M; ++m)
#pragma unroll
        for (u32 n = 0; n < N; ++n)
#pragma unroll
            for (int h = 0; h < 2; ++h)
#pragma unroll
                // Sums 0 and 1 are of token g and the rows 2 t and 2 t + 1 of half h of a tile, 2 and 3 of token g + 8.
                for (int second = 0; second < 2; ++second) {
                    u32 token = (along_tokens * M + m) * 16 + g + 8 * second, row = (along_rows * N + n) * 16 + 8 * h + 2 * t;
#pragma unroll
                    for (int i = 0; i < 2; ++i) asm volatile("st.shared.f32 [%0], %1;" ::"r"(base + (token * PITCH + row + i) * 4), "f"(sums[m][n][h][2 * second + i]));
                }
    __syncthreads();
    finish<F, T, S, PITCH>(a, block, first, first_tile, rows, all_tiles);
}

// Outputs in tiles of S, and those that would be a turn of few blocks, or all, in smaller ones.
template <int F, typename T, class S, class Smaller> __device__ __forceinline__ void prompt_product(const PromptArgs &a) {
    if (blockIdx.y < a.whole) {
        prompt_tile<F, T, S>(a, blockIdx.x * S::tokens, blockIdx.y * S::tiles);
        return;
    }
    u32 index = (blockIdx.y - a.whole) * gridDim.x + blockIdx.x;
    prompt_tile<F, T, Smaller>(a, index % a.along * Smaller::tokens, a.whole * S::tiles + index / a.along * Smaller::tiles);
}
