// The matrix products of a prompt: tiles of tokens and weight rows in shared memory, filled ahead by cp.async, on
// the tensor cores. Weight rows are mma's m, tokens its n: a lane has the weights in as many registers side by side as
// it reads at once, and two rows' scales to multiply by.
//
// One warp sums each output over all columns, in their order: a row's bits depend neither on the tile's shape nor
// on how many rows are read at once. That is the family of prompts; a step's products split the columns over warps
// and have other last bits.
#pragma once
#include "sums.cuh"
#include "tile.cuh"

// How a block's warps share its tile: TOKENS x ROWS warps, each of M tiles of 16 tokens by N tiles of 16 rows. STAGES
// of 64 columns lie in shared memory, of which blocks of scaled weights are multiplied UNITS at a time: a warp that has
// its scheduler for itself waits for what it issued before, and blocks are summed each by itself.
template <int TOKENS_, int ROWS_, int M_, int N_, int STAGES_, int UNITS_> struct Shape {
    static constexpr int TOKENS = TOKENS_, ROWS = ROWS_, M = M_, N = N_, STAGES = STAGES_, UNITS = UNITS_;
    static_assert(STAGES % UNITS == 0);
    static constexpr int threads = 32 * TOKENS * ROWS, tokens = 16 * M * TOKENS, tiles = N * ROWS;
};

__device__ __forceinline__ void copy_16(u32 to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}
// Without a branch.
__device__ __forceinline__ void copy_16_if(u32 to, const void *from, bool there) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16; }" ::"r"(to),
                 "l"(from), "r"((u32)there));
}
// Nothing is read where there is nothing: zeros.
__device__ __forceinline__ void copy_16_or_zero(u32 to, const void *from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0));
}
__device__ __forceinline__ void copies_end() { asm volatile("cp.async.commit_group;"); }
template <int LEFT> __device__ __forceinline__ void copies_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT));
}

// Minima are multiplied for several units at once: the sums of the inputs lie behind all stages until then, and where
// four units share what their minima are multiplied by, and no warp makes them, their scales do, of so many units, with
// gaps in which units that are read at once miss each other's banks.
template <int F, class S> struct Rings {
    static constexpr bool of_sums = Layout<F>::minimum, of_scales = Layout<F>::kind == BYTE_PAIRS;
    static constexpr u32 units = S::STAGES > 6 ? 16 : 8, scales = of_scales ? S::tiles * Layout<F>::scales + 32 : 0,
                         sums = of_sums ? S::tokens * 8 + 32 : 0;
};

// Bytes of a stage: the inputs of 64 columns, and the units of the weights with the heads that belong to them, without
// what is in rings.
template <int F, class S> struct Stage {
    static constexpr u32 unit = Layout<F>::unit - (Rings<F, S>::of_scales ? Layout<F>::scales : 0) + Layout<F>::head;
    static constexpr u32 inputs = S::tokens * 128, bytes = (inputs + S::tiles * unit + 127) / 128 * 128;
};

// Tile `index` of all matrices: of gate and up by turns, else of one after the other.
__device__ __forceinline__ void tile_of(const PromptArgs &a, u32 index, u32 &matrix, u32 &tile) {
    if (a.epilogue == Epilogue::Gated) {
        matrix = index % 2, tile = index / 2;
        return;
    }
    u32 tiles0 = (a.weight0.rows + 15) / 16, tiles1 = (a.weight1.rows + 15) / 16;
    matrix = index < tiles0 ? 0 : index < tiles0 + tiles1 ? 1 : 2;
    tile = index - (matrix == 0 ? 0 : matrix == 1 ? tiles0 : tiles0 + tiles1);
}

__device__ __forceinline__ const Tiles &matrix_of(const PromptArgs &a, u32 matrix) {
    return matrix == 0 ? a.weight0 : matrix == 1 ? a.weight1 : a.weight2;
}

// Integers of a block times its scale of six bits, where T holds that exactly (q scale < 2^11): what is left is one
// factor for all blocks of a unit, of rows of weights g and g + 8.
template <int F, typename T> struct Folded {
    static constexpr bool able = false;
};
template <int F> struct Folded<F, half> {
    static constexpr bool able = Layout<F>::kind == BYTE_PAIRS;
};

struct FoldedScales {
    // (block, row): the scale, twice. Integers of the second row lie 2^up times as high.
    half2 by[2][2];

    template <int F> __device__ __forceinline__ void read(const u8 *of_tile, u32 g) {
        uint2 two = *reinterpret_cast<const uint2 *>(of_tile + g * 8);
        const half2 more = __half2half2(__int2half_rn(1024)),
                    down = __half2half2(__float2half_rn(1.0f / (1 << Layout<F>::up))),
                    less = __half2half2(__float2half_rn(-1024.0f / (1 << Layout<F>::up)));
#pragma unroll
        for (u32 b = 0; b < 2; ++b)
#pragma unroll
            for (u32 r = 0; r < 2; ++r) {
                u32 biased = __byte_perm(r ? two.y : two.x, 0x64646464u, b ? 0x4242 : 0x4040);
                half2 number = *reinterpret_cast<half2 *>(&biased);
                by[b][r] = r ? __hfma2(number, down, less) : __hsub2(number, more);
            }
    }
};

// What a warp multiplies the sums of a unit by: a lane makes it for one row of the weights, and finds what others have
// made in shared memory that only its warp knows. Where a scale is one number that is stored, or is folded into the
// integers, each lane makes its own in less time.
template <int F, typename T, class S> struct Made {
    static constexpr bool scales = Layout<F>::scaled && Layout<F>::kind != HALVES && !Folded<F, T>::able,
                          minima = Layout<F>::kind == PAIRS;
    static constexpr bool there = scales || minima;
    // Of a row a scale for each block, then, of the last two units, its minima in both as bf16, and what these lack;
    // rows lie side by side.
    static constexpr u32 ROWS = S::N * 16, BLOCKS = Layout<F>::block ? 64 / Layout<F>::block : 0,
                         of_scales = scales ? BLOCKS * ROWS * 4 : 0, APART = 2 * ROWS + 8;
    static constexpr u32 minima_at = S::UNITS * of_scales, bytes = there ? minima_at + (minima ? 2 * APART * 4 : 0) : 0;

    // `row`: in the order in which scales lie in a unit.
    static __device__ __forceinline__ void make(u8 *to, u32 u, u32 index, bool last, u32 row, const u8 *scales_of_row,
                                                const u8 *head_of_row) {
        RowScale<F> of_row;
        of_row.read(scales_of_row, head_of_row);
        float minimum[BLOCKS];
#pragma unroll
        for (u32 b = 0; b < BLOCKS; ++b) {
            float scale;
            of_row.of(b, scale, minimum[b], 1.0f);
            if constexpr (scales)
                *reinterpret_cast<float *>(to + u * of_scales + (b * ROWS + row) * 4) =
                    scale * (row % 2 ? Integers<F, T>::factor(true) : Integers<F, T>::factor(false));
        }
        if constexpr (minima) {
            u32 *both = reinterpret_cast<u32 *>(to + minima_at) + (row & ~1u) * 2 + index % 2 * 2 + row % 2;
            split_in_two(minimum[0], minimum[1], both[0], both[APART]);
            // Of a unit that has none beside it.
            if (last && index % 2 == 0) both[2] = 0, both[APART + 2] = 0;
        }
    }
    // Of rows g and g + 8 of tile n.
    static __device__ __forceinline__ void scales_of(const u8 *from, u32 n, u32 g, u32 b, float (&two)[2]) {
        float2 of = *reinterpret_cast<const float2 *>(from + (b * ROWS + n * 16 + 2 * g) * 4);
        two[0] = of.x, two[1] = of.y;
    }
    // Minima of the rows g and g + 8 of tile n, to be multiplied by the inputs' sums over both blocks of two units. Of
    // sixteen columns of mma pair t is of both blocks of unit t % 2, and so is pair t + 4: it meets the sums as bf16,
    // the other what these lack. What the minima are as bf16 is in pairs 0 and 1, what that lacks in pairs 2 and 3. So
    // all four products of both parts are summed.
    static __device__ __forceinline__ void minima_of(const u8 *made, u32 n, u32 g, u32 t, u32 (&pairs)[4]) {
        uint2 two =
            *reinterpret_cast<const uint2 *>(made + minima_at + (t / 2 * APART + n * 32 + g * 4 + t % 2 * 2) * 4);
        pairs[0] = pairs[2] = two.x, pairs[1] = pairs[3] = two.y;
    }
};

// The weights that a lane multiplies next: of one step of plain values, of two of nibbles and bytes.
template <int F, typename T> struct Staged {
    u32 quants[4], high;

    __device__ __forceinline__ void load(const u8 *unit, u32 lane, u32 step) {
        if constexpr (Layout<F>::quants == 512) {
            uint2 two = reinterpret_cast<const uint2 *>(unit)[step / 2];
            quants[0] = two.x, quants[1] = two.y;
            if constexpr (Layout<F>::high > 0)
                high =
                    high_bits<F>(reinterpret_cast<const u32 *>(unit + 512 - lane * (16 - Layout<F>::high / 32)), step);
        } else if constexpr (Layout<F>::quants != 4096) {
            uint4 four =
                reinterpret_cast<const uint4 *>(unit)[(Layout<F>::quants == 1024 ? step / 2 : step) * 32 + lane];
            quants[0] = four.x, quants[1] = four.y, quants[2] = four.z, quants[3] = four.w;
        }
    }

    // The four pairs of step `s` of those that were loaded, times the scales of their block b.
    __device__ __forceinline__ void folded(u32 s, u32 b, const FoldedScales &scales, u32 (&a)[4]) const {
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            u32 integers = pair<F>(quants[s], high, s, i, Integers<F, T>::exponents);
            half2 value = __hmul2(*reinterpret_cast<half2 *>(&integers), scales.by[b][i % 2]);
            a[i] = *reinterpret_cast<u32 *>(&value);
        }
    }

    // The four pairs (see tile.cuh) of step `s` of those that were loaded, and what T lacks of them.
    __device__ __forceinline__ void pairs(const u8 *unit, u32 lane, u32 step, u32 s, u32 (&a)[4],
                                          u32 (&rest)[4]) const {
        u32 found[2];
        if constexpr (Layout<F>::codes) look_up(quants[s], found);
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            if constexpr (F == F32) {
                float2 pair =
                    *reinterpret_cast<const float2 *>(unit + ((2 * step + i / 2) * 32 + lane) * 16 + i % 2 * 8);
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

// Scales of the rows g and g + 8 of a tile in the block that ends with step s.
template <int F>
__device__ __forceinline__ void scales_of(const u8 *scales, const u8 *head, u32 g, u32 s, float (&scale)[2]) {
    RowScales<F, 1> rows;
    rows.read(scales - Layout<F>::before_scales, head, g);
    float minimum;
#pragma unroll
    for (u32 i = 0; i < 2; ++i) rows.of(s, i, scale[i], minimum);
}

// Four neighbours of a row of outputs, in one access where rows begin at multiples of four.
template <typename T> struct alignas(4 * sizeof(T)) Four {
    T each[4];
};
template <typename T>
__device__ __forceinline__ void put_four(T *out, u32 stride, u32 row, u32 rows, const float (&values)[4]) {
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

// A block's sums, as mma has them, are multiplied and added to the outputs' sums. Registers of even numbers lie in one
// bank and those of odd numbers in the other, and what reads three of one bank waits. So of two neighbours (tokens 2 t
// and 2 t + 1) the outputs' sums lie the other way round, in the bank that the block's are not in; except where blocks
// are small: to say where sums lie takes registers, which are too few there.
template <int F> constexpr int SWAP = Layout<F>::scaled && Layout<F>::block != 16;
// Of four rows that lie side by side the outputs of two tokens.
template <int F> __device__ __forceinline__ void in_order(const float *from, float (&values)[2][4]) {
#pragma unroll
    for (u32 i = 0; i < 4; i += 2) {
        const float4 two = reinterpret_cast<const float4 *>(from)[i / 2];
        values[SWAP<F>][i] = two.x, values[1 ^ SWAP<F>][i] = two.y, values[SWAP<F>][i + 1] = two.z,
        values[1 ^ SWAP<F>][i + 1] = two.w;
    }
}
template <int F> __device__ __forceinline__ void leave_in_order(float *to, const float (&values)[2][4]) {
#pragma unroll
    for (u32 i = 0; i < 4; i += 2)
        reinterpret_cast<float4 *>(to)[i / 2] =
            make_float4(values[SWAP<F>][i], values[1 ^ SWAP<F>][i], values[SWAP<F>][i + 1], values[1 ^ SWAP<F>][i + 1]);
}

// Numbers that a loop begins with. The compiler makes such numbers anew in each round; of those that are kept here it
// is not shown whence they come, and keeps them. Which gain by it is measured: it depends on what registers are left.
template <int F, typename T> struct Kept {
    static constexpr bool all = F == Q4_1 || F == Q5_0 || F == IQ4_NL, inputs = all || F == Q6_K;
#if __CUDA_ARCH__ >= 900
    static constexpr bool at_weights = inputs;
#else
    // One of Q6_K more spills 24 bytes more.
    static constexpr bool at_weights = all;
#endif
    // Whether both halves of a unit are written out, and a lane's places count from the begin of shared memory, so that
    // what else an access adds is a stage, which all threads have in one register, and a constant. Where registers do
    // not suffice it spills.
    static constexpr bool written_out = at_weights && F == Q6_K && Mma<T>::template holds<F16>();
    template <bool KEPT> static __device__ __forceinline__ u32 number(u32 made) {
        if constexpr (!KEPT) return made;
        u32 same;
        asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(same) : "r"(made), "r"(threadIdx.x % 32));
        return same;
    }
};

extern __shared__ __align__(128) u8 staged[];

// Stores a block's outputs, or what becomes of them: `sums` has PITCH of each two tokens, of a row both side by side.
template <int F, typename T, class S, u32 PITCH>
__device__ __forceinline__ void finish(const PromptArgs &a, float *sums, u32 first, u32 first_tile, u32 rows,
                                       u32 all_tiles) {
    // Where tiles of gate and up come by turns, there are half as many outputs.
    const bool gated = S::tiles % 2 == 0 && a.epilogue == Epilogue::Gated;
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
    float *from = sums + (index * 16 + within) * 2;
    const u32 begin = threadIdx.x / along, end = min(S::tokens, rows - first);
    const bool meets = a.epilogue == Epilogue::Added || a.epilogue == Epilogue::Multiplied,
               rounded = gated || a.epilogue == Epilogue::Multiplied;
    // What outputs are added to or multiplied by is read for several tokens at once, and before any is stored: a load
    // behind a store would wait for it.
    if (meets) {
        constexpr u32 AT_ONCE = 4;
        const float *others = a.epilogue == Epilogue::Added ? out : at<const float>(a.out1);
#pragma unroll 1
        for (u32 pair = begin; 2 * pair < end; pair += AT_ONCE * at_once) {
            float other[AT_ONCE][2][4];
#pragma unroll
            for (u32 k = 0; k < 2 * AT_ONCE; ++k) {
                const u32 token = 2 * (pair + k / 2 * at_once) + k % 2;
                if (token < end)
                    read_four(others + (u64)(first + token) * stride, stride, row, of.rows, other[k / 2][k % 2]);
            }
#pragma unroll
            for (u32 k = 0; k < AT_ONCE; ++k) {
                const u32 here = pair + k * at_once;
                if (2 * here >= end) break;
                float each[2][4];
                in_order<F>(from + here * PITCH, each);
#pragma unroll
                for (u32 i = 0; i < 8; ++i) {
                    float &value = each[i / 4][i % 4];
                    value = value * scales[i % 4] + biases[i % 4];
                    value =
                        a.epilogue == Epilogue::Added ? value + other[k][i / 4][i % 4] : value * other[k][i / 4][i % 4];
                }
                leave_in_order<F>(from + here * PITCH, each);
            }
        }
    }
#pragma unroll 1
    for (u32 pair = begin; 2 * pair < end; pair += at_once) {
        float values[2][4], ups[2][4];
        in_order<F>(from + pair * PITCH, values);
        if (gated) in_order<F>(from + pair * PITCH + 32, ups);
#pragma unroll
        for (u32 k = 0; k < 2; ++k) {
            if (2 * pair + k >= end) break;
            if (!meets)
#pragma unroll
                for (u32 i = 0; i < 4; ++i) {
                    float &value = values[k][i];
                    value = value * scales[i] + biases[i];
                    if (gated || a.epilogue == Epilogue::Silu) value /= 1.0f + expf(-value);
                    if (gated) value *= ups[k][i] * up_scales[i];
                }
            const u64 to = (u64)(first + 2 * pair + k) * stride;
            if (rounded) put_four<T>(at<T>(a.out0) + to, stride, row, of.rows, values[k]);
            else put_four<float>(out + to, stride, row, of.rows, values[k]);
        }
    }
}

// The tile of S's outputs that begins with these tokens and tiles of weights.
template <int F, typename T, class S>
__device__ __forceinline__ void prompt_tile(const PromptArgs &a, u32 first, u32 first_tile) {
    // Of few rows weights are what takes time: they are asked for before it is this kernel's turn.
    constexpr bool early = S::tokens <= 32;
    Stopwatch stopwatch(a.stamp, early ? LATER : HELD);
    typedef Stage<F, S> G;
    typedef Rings<F, S> R;
    typedef Kept<F, T> Keep;
    constexpr u32 M = S::M, N = S::N;
    // What comes next of both sides is read from shared memory while what is there is multiplied, over the border of
    // stages too: where a stage ends, its last step is still to be multiplied when the threads wait for each other. Of
    // other weights numbers must be made first, which has the tensor cores wait no longer.
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
    // A lane makes what belongs to one row.
    static_assert(!By::there || By::ROWS <= 32);
    u8 *const made = staged + sums_ring + R::units * R::sums + warp * By::bytes;
    // A warp copies whole units, if there are any left for it. Where its tiles lie; beyond the last, the last again,
    // whose outputs are not kept.
    constexpr u32 ALL = S::TOKENS * S::ROWS, EACH = (S::tiles + ALL - 1) / ALL, UNIT_PIECES = Layout<F>::unit / 16,
                  HEAD_PIECES = Layout<F>::head / 16, HIGH_PIECES = Layout<F>::high / 16;
    const u8 *begins[EACH];
#pragma unroll
    for (u32 i = 0; i < EACH; ++i) {
        u32 matrix, tile;
        tile_of(a, min(first_tile + warp * EACH + i, all_tiles - 1), matrix, tile);
        begins[i] = at<const u8>(matrix_of(a, matrix).data + tile * tile_bytes<F>(a.weight0.columns)) + lane * 16;
    }
    // Eight threads copy a row of the inputs; of rows that do not exist, zeros. Where a row's pieces lie differs from
    // row to row, so that no two of eight neighbours are in the same banks.
    constexpr u32 ROWS_AT_ONCE = S::threads / 8, INPUTS = S::tokens / ROWS_AT_ONCE;
    u32 row = threadIdx.x / 8,
        to_input = Keep::template number<Keep::inputs>(base + row * 128 + (threadIdx.x % 8 ^ row % 8) * 16);
    const T *from_input = at<const T>(a.input) + (u64)(first + row) * a.stride + threadIdx.x % 8 * 8;
    u32 to_weights = Keep::template number<Keep::all>(base + G::inputs + warp * EACH * G::unit + lane * 16);
    // Pieces of the sums of sixteen tokens and 64 columns.
    const u32 piece_of_sums = threadIdx.x,
              to_sums = Keep::template number<Keep::inputs>(base + sums_ring + piece_of_sums * 16),
              to_scales = R::of_scales
                              ? Keep::template number<Keep::all>(base + scales_ring + warp * EACH * Layout<F>::scales +
                                                                 (lane - HIGH_PIECES) * 16)
                              : 0;
    const bool has_sums = piece_of_sums < S::tokens / 2 && first / 16 + piece_of_sums / 8 < (a.rows + 15) / 16;
    // The units of a stage, as far as there are any: of the inputs, and of the weights. `to`: where the stage lies.
    static_assert(4 % UNITS == 0);
    auto load_inputs = [&](u32 k, u32 to) {
        const T *inputs = from_input + k * (UNITS * 64);
        u32 unit = k * UNITS;
#pragma unroll
        for (u32 u = 0; u < UNITS; ++u, to += G::bytes) {
            const bool there = unit + u < units;
#pragma unroll
            for (u32 i = 0; i < INPUTS; ++i)
                copy_16_or_zero(to_input + to + i * ROWS_AT_ONCE * 128,
                                inputs + (u64)i * ROWS_AT_ONCE * a.stride + u * 64,
                                there && first + row + i * ROWS_AT_ONCE < rows);
            if constexpr (Layout<F>::minimum) {
                static_assert(S::tokens / 2 <= S::threads);
                copy_16_if(to_sums + (unit + u) % R::units * R::sums,
                           sums_of_sixteen(a.sums, a.rows, unit + u, first) + piece_of_sums * 4, there && has_sums);
            }
        }
    };
    auto load_weights = [&](u32 k, u32 to_stage) {
        u32 unit = k * UNITS, skip = Layout<F>::head ? unit / 4 * (Layout<F>::head + 4 * Layout<F>::unit) : 0;
        u32 unit_skip = Layout<F>::head ? skip + Layout<F>::head + unit % 4 * Layout<F>::unit : unit * Layout<F>::unit;
#pragma unroll
        for (u32 u = 0; u < UNITS; ++u, to_stage += G::bytes, unit_skip += Layout<F>::unit) {
            const bool there = unit + u < units;
#pragma unroll
            for (u32 i = 0; i < EACH; ++i) {
                u32 to = to_weights + to_stage + i * G::unit;
                const bool mine = there && (S::tiles % ALL == 0 || warp * EACH + i < S::tiles);
#pragma unroll
                for (u32 piece = 0; piece < UNIT_PIECES; piece += 32) {
                    u32 place = to + piece * 16;
                    // Quants are 32 pieces, after which there are bits above them, and scales.
                    if (R::of_scales && piece == 32 && lane >= HIGH_PIECES)
                        place = to_scales + (unit + u) % R::units * R::scales + i * Layout<F>::scales;
                    copy_16_if(place, begins[i] + unit_skip + piece * 16,
                               mine && (piece + 32 <= UNIT_PIECES || lane < UNIT_PIECES - piece));
                }
                if constexpr (HEAD_PIECES > 0)
                    copy_16_if(to + (G::unit - Layout<F>::head), begins[i] + skip, mine && lane < HEAD_PIECES);
            }
        }
    };
    auto load = [&](u32 k, u32 to) {
        load_inputs(k, to);
        load_weights(k, to);
        copies_end();
    };
    float sums[M][N][2][4] = {};
    if constexpr (early) {
#pragma unroll
        for (u32 k = 0; k < STAGES - 1; ++k) load_weights(k, k * BYTES);
        stopwatch.wait();
#pragma unroll
        for (u32 k = 0; k < STAGES - 1; ++k) {
            load_inputs(k, k * BYTES);
            copies_end();
        }
    } else {
#pragma unroll
        for (u32 k = 0; k < STAGES - 1; ++k) load(k, k * BYTES);
    }
    // Where the stage lies that is multiplied, and the one that is filled.
    u32 stage = 0, next = (STAGES - 1) * BYTES;
    auto turn_to_next = [&] { next = stage, stage = stage + BYTES == STAGES * BYTES ? 0 : stage + BYTES; };
    // What a lane reads first of the inputs and of the weights; stages begin at multiples of 128.
    const u32 at_inputs = Keep::template number<Keep::all>(
                  base + (along_tokens * 16 * M + lane / 16 * 8 + lane % 8) * 128 + (lane / 8 % 2 ^ lane % 8) * 16),
              at_weights = Keep::template number<Keep::at_weights>((Keep::written_out ? base : 0) + G::inputs +
                                                                   along_rows * N * G::unit +
                                                                   lane * (Layout<F>::quants == 512 ? 16 : 0));
    if constexpr (ahead) {
        u32 x[2][M][4], w[2][N][4], of_step[4];
        const u8 *first_unit = staged + G::inputs + along_rows * N * G::unit + lane * 16;
#pragma unroll
        for (u32 s = 0; s < 4; ++s) of_step[s] = at_inputs ^ s * 32;
        auto read = [&](u32 to, u32 s) {
#pragma unroll
            for (u32 m = 0; m < M; ++m) matrices(x[to][m], of_step[s] + stage + m * 2048);
#pragma unroll
            for (u32 n = 0; n < N; ++n) {
                uint4 four = *reinterpret_cast<const uint4 *>(first_unit + stage + n * G::unit + s * 512);
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
                    turn_to_next();
                }
                read((s + 1) % 2, (s + 1) % 4);
                // Into the stage that all have read.
                if (s == 0) load(k + STAGES - 1, next);
#pragma unroll
                for (u32 m = 0; m < M; ++m)
#pragma unroll
                    for (u32 n = 0; n < N; ++n)
#pragma unroll
                        for (int h = 0; h < 2; ++h)
                            Mma<T>::run(sums[m][n][h], w[s % 2][n], x[s % 2][m][2 * h], x[s % 2][m][2 * h + 1]);
            }
        }
    }
    // Of a tile n of the warp's, in the stage of a unit: its scales, and its head.
    auto scales_at = [&](u32 stage, u32 index, u32 n) {
        const u8 *unit = staged + stage + G::inputs + along_rows * N * G::unit;
        if constexpr (R::of_scales)
            return staged + scales_ring + index % R::units * R::scales + (along_rows * N + n) * Layout<F>::scales;
        else return unit + n * G::unit + Layout<F>::before_scales;
    };
    auto head_at = [&](u32 stage, u32 n) {
        return staged + stage + G::inputs + (along_rows * N + n + 1) * G::unit - Layout<F>::head;
    };
    // The inputs' sums of 64 columns and of token g of each eight, as mma has them: as bf16, and what that lacks.
    auto sums_at = [&](u32 index, u32 m, u32 h) {
        return *reinterpret_cast<const uint2 *>(staged + sums_ring + index % R::units * R::sums +
                                                (along_tokens * M + m) * 128 + h * 64 +
                                                (Layout<F>::kind == PAIRS ? g ^ SWAP<F> : g) * 8);
    };
    // Of the four units that end with this one: pair t of sixteen columns of mma is of unit t, and so is pair t + 4.
    // The sums' bf16 meet minima in the first, and what they lack meets the same in the others; minima of six bits are
    // bf16 exactly.
    auto add_minima_of_four = [&](u32 stage, u32 index) {
        const u32 mine = index - 3 + t;
        u32 pairs[N][4];
        float by[N][2];
#pragma unroll
        for (u32 n = 0; n < N; ++n) {
            RowScales<F, 1> rows;
            read_words(head_at(stage, n) + g * sizeof(rows.head), rows.head);
            uint2 two = *reinterpret_cast<const uint2 *>(scales_at(stage, mine, n) + g * 8);
            // Every other byte, of rows g and g + 8.
            const u32 minima = __byte_perm(two.x, two.y, 0x7531);
#pragma unroll
            for (u32 i = 0; i < 2; ++i) by[n][i] = rows.shared_minimum(i);
#pragma unroll
            for (int i = 0; i < 4; ++i) pairs[n][i] = bytes_less_128<__nv_bfloat16>(minima | 0x80808080u, i % 2);
        }
#pragma unroll
        for (u32 m = 0; m < M; ++m)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const uint2 x = sums_at(mine, m, h);
#pragma unroll
                for (u32 n = 0; n < N; ++n) {
                    float four[4] = {};
                    Mma<__nv_bfloat16>::run(four, pairs[n], x.x, x.y);
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        float &sum = sums[m][n][h][i ^ SWAP<F>];
                        sum = fmaf(by[n][i / 2], four[i], sum);
                    }
                }
            }
    };
    // Of an even unit and the one behind it; or of a last one alone, whose minima in a second are zeros.
    auto add_minima_of_two = [&](u32 index, u32 second) {
        u32 pairs[N][4];
#pragma unroll
        for (u32 n = 0; n < N; ++n) By::minima_of(made, n, g, t, pairs[n]);
#pragma unroll
        for (u32 m = 0; m < M; ++m)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const uint2 x = sums_at(t % 2 ? second : index, m, h);
#pragma unroll
                for (u32 n = 0; n < N; ++n) Mma<__nv_bfloat16>::run(sums[m][n][h], pairs[n], x.x, x.y);
            }
    };
    auto multiply = [&](u32 stage, u32 index, u32 u) {
        const u8 *unit = Keep::written_out ? from_shared(at_weights + stage) : staged + at_weights + stage;
        // Bits 5 and 6 of an input's place are those of its step, by turns. Where registers are fewest it takes fewer
        // to find places anew.
        auto inputs_of = [&](u32 step, u32 m) {
            if constexpr (Folded<F, T>::able)
                return base + (along_tokens * 16 * M + lane / 16 * 8 + lane % 8) * 128 + stage + m * 2048 +
                       ((2 * step + lane / 8 % 2) ^ lane % 8) * 16;
            else if constexpr (Keep::written_out) return (at_inputs ^ step * 32) + stage + m * 2048;
            else return (at_inputs + stage ^ step * 32) + m * 2048;
        };
        // Where registers are left for it, after the products, which need not wait for minima then.
        const bool four_end = R::of_scales && index % 4 == 3;
        if (!Folded<F, T>::able && four_end) add_minima_of_four(stage, index);
        if constexpr (Folded<F, T>::able) {
            u32 f[4][N][4];
            float scale[N][2];
#pragma unroll
            for (u32 n = 0; n < N; ++n) {
                FoldedScales scales;
                scales.template read<F>(scales_at(stage, index, n), g);
#pragma unroll
                for (u32 b = 0; b < 2; ++b) {
                    Staged<F, T> w;
                    w.load(unit + n * G::unit, lane, 2 * b);
#pragma unroll
                    for (u32 s = 0; s < 2; ++s) w.folded(s, b, scales, f[2 * b + s][n]);
                }
                RowScales<F, 1> rows;
                read_words(head_at(stage, n) + g * sizeof(rows.head), rows.head);
#pragma unroll
                for (u32 i = 0; i < 2; ++i) scale[n][i] = rows.shared(i) * Integers<F, T>::factor(false);
            }
#pragma unroll
            for (u32 m = 0; m < M; ++m) {
                u32 x[4][4];
#pragma unroll
                for (u32 s = 0; s < 4; ++s) matrices(x[s], inputs_of(s, m));
#pragma unroll
                for (u32 n = 0; n < N; ++n)
#pragma unroll
                    for (int h = 0; h < 2; ++h) {
                        float block[4] = {};
#pragma unroll
                        for (u32 s = 0; s < 4; ++s) Mma<T>::run(block, f[s][n], x[s][2 * h], x[s][2 * h + 1]);
#pragma unroll
                        for (int i = 0; i < 4; ++i) {
                            float &sum = sums[m][n][h][i ^ SWAP<F>];
                            sum = fmaf(scale[n][i / 2], block[i], sum);
                        }
                    }
            }
            if (four_end) add_minima_of_four(stage, index);
            return;
        }
        if constexpr (!Layout<F>::scaled) {
#pragma unroll
            for (u32 step = 0; step < 4; ++step) {
                u32 f[N][4], rest[N][4];
#pragma unroll
                for (u32 n = 0; n < N; ++n) {
                    Staged<F, T> w;
                    w.load(unit + n * G::unit, lane, step);
                    w.pairs(unit + n * G::unit, lane, step, 0, f[n], rest[n]);
                }
#pragma unroll
                for (u32 m = 0; m < M; ++m) {
                    u32 x[4];
                    matrices(x, inputs_of(step, m));
#pragma unroll
                    for (u32 n = 0; n < N; ++n)
#pragma unroll
                        for (int h = 0; h < 2; ++h) {
                            Mma<T>::run(sums[m][n][h], f[n], x[2 * h], x[2 * h + 1]);
                            if constexpr (!Mma<T>::template holds<F>())
                                Mma<T>::run(sums[m][n][h], rest[n], x[2 * h], x[2 * h + 1]);
                        }
                }
            }
            return;
        }
        // Two steps share what is loaded; a block of one scale is both or one.
        constexpr u32 PARTS = Layout<F>::block == 16 ? 2 : 1, STEPS = 2 / PARTS;
        // Where blocks are small scales are found by additions (Q6_K gains 2 % where halves are not written out); of
        // others these take registers that the rest has better use for.
        const u8 *along = made + u * By::of_scales;
#pragma unroll(UNITS == 1 && !Keep::written_out ? 1 : 2)
        for (u32 b = 0; b < 2; ++b, along += PARTS * By::ROWS * 4) {
            Staged<F, T> w[N];
#pragma unroll
            for (u32 n = 0; n < N; ++n) w[n].load(unit + n * G::unit, lane, 2 * b);
#pragma unroll
            for (u32 part = 0; part < PARTS; ++part) {
                u32 f[STEPS][N][4], rest[4];
                float scale[N][2];
#pragma unroll
                for (u32 n = 0; n < N; ++n) {
#pragma unroll
                    for (u32 s = 0; s < STEPS; ++s)
                        w[n].pairs(unit + n * G::unit, lane, 2 * b + part * STEPS + s, part * STEPS + s, f[s][n], rest);
                    if constexpr (By::scales)
                        By::scales_of(PARTS == 2 ? along : made + u * By::of_scales, n, g, PARTS == 2 ? part : b,
                                      scale[n]);
                    else scales_of<F>(scales_at(stage, index, n), head_at(stage, n), g, 2 * b + part, scale[n]);
                }
#pragma unroll
                for (u32 m = 0; m < M; ++m) {
                    u32 x[STEPS][4];
#pragma unroll
                    for (u32 s = 0; s < STEPS; ++s) matrices(x[s], inputs_of(2 * b + part * STEPS + s, m));
#pragma unroll
                    for (u32 n = 0; n < N; ++n) {
                        // Of sixteen tokens both halves.
                        float block[2][4] = {};
#pragma unroll
                        for (u32 s = 0; s < STEPS; ++s)
#pragma unroll
                            for (u32 h = 0; h < 2; ++h) Mma<T>::run(block[h], f[s][n], x[s][2 * h], x[s][2 * h + 1]);
                        // What the same scale multiplies one after the other: it is read once then.
#pragma unroll
                        for (u32 i = 0; i < 2; ++i)
#pragma unroll
                            for (u32 h = 0; h < 2; ++h)
#pragma unroll
                                for (u32 j = 2 * i; j < 2 * i + 2; ++j) {
                                    float &sum = sums[m][n][h][j ^ SWAP<F>];
                                    sum = fmaf(scale[n][i], block[h][j], sum);
                                }
                    }
                }
            }
        }
    };
    // The next stage, with so many units: it has come, and what all have read before is filled anew.
    auto turn = [&](u32 k, u32 count) {
        copies_wait<STAGES - 2>();
        __syncthreads();
        if constexpr (By::there) {
            // Where a warp has 16 rows, two lanes make the same.
            const u32 row = lane % By::ROWS;
#pragma unroll
            for (u32 u = 0; u < count; ++u)
                By::make(made, u, k * UNITS + u, k * UNITS + u + 1 == units, row,
                         scales_at(stage + u * G::bytes, k * UNITS + u, row / 16) + row % 16 * RowScale<F>::EACH,
                         head_at(stage + u * G::bytes, row / 16) + row % 16 * RowScale<F>::HEAD);
        }
        if constexpr (By::there) __syncwarp();
        load(k + STAGES - 1, next);
    };
    constexpr bool minima_of_two = Layout<F>::kind == PAIRS;
    if constexpr (minima_of_two && UNITS == 1) {
        // Two turns written out, so that none asks whether minima are due.
        for (u32 k = 0; k < units; k += 2, turn_to_next()) {
            turn(k, 1);
            multiply(stage, k, 0);
            if (k + 1 == units) {
                add_minima_of_two(k, k);
                break;
            }
            turn_to_next();
            turn(k + 1, 1);
            add_minima_of_two(k, k + 1);
            multiply(stage, k + 1, 0);
        }
    } else if constexpr (!ahead) {
        for (u32 k = 0; k < units / UNITS; ++k, turn_to_next()) {
            turn(k, UNITS);
#pragma unroll
            for (u32 u = 0; u < UNITS; ++u) {
                if constexpr (minima_of_two)
                    if (u == 1) add_minima_of_two(k * UNITS, k * UNITS + 1);
                multiply(stage + u * G::bytes, k * UNITS + u, u);
            }
        }
        // Of two units a last one may be alone.
        static_assert(UNITS <= 2);
        if (UNITS > 1 && units % UNITS) {
            turn(units / UNITS, 1);
            multiply(stage, units - 1, 0);
            if constexpr (minima_of_two) add_minima_of_two(units - 1, units - 1);
        }
    }
    Stopwatch::let_next_begin();
    // What the warps have summed goes through shared memory, (pairs of tokens, rows, tokens): so a thread has four rows
    // side by side, and goes along the tokens. Sums that are stored in pairs lie in pairs of registers through all of
    // the loop before, which says in which bank each is
    // (`SWAP`); others are stored one by one. Pairs lie apart so that no two of a half warp's meet in a bank.
    constexpr u32 PITCH = 2 * S::tiles * 16 + 8;
    static_assert(S::tokens / 2 * PITCH * sizeof(float) <= S::STAGES * G::bytes);
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
                // Sums 0 and 1 are of row g and the tokens 2 t and 2 t + 1 of half h of sixteen, 2 and 3 of row g + 8.
                for (int second = 0; second < 2; ++second) {
                    const u32 pair = (along_tokens * M + m) * 8 + 4 * h + t,
                              row = (along_rows * N + n) * 16 + 8 * second + g,
                              to = base + (pair * PITCH + 2 * row) * 4;
                    const float *two = &sums[m][n][h][2 * second];
                    if constexpr (SWAP<F>)
                        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(two[0]), "f"(two[1]));
                    else
#pragma unroll
                        for (int i = 0; i < 2; ++i)
                            asm volatile("st.shared.f32 [%0], %1;" ::"r"(to + i * 4), "f"(two[i]));
                }
    __syncthreads();
    finish<F, T, S, PITCH>(a, block, first, first_tile, rows, all_tiles);
}

// Outputs in tiles of S, and those that would be a turn of few blocks, or all, in smaller ones.
template <int F, typename T, class S, class Smaller>
__device__ __forceinline__ void prompt_product(const PromptArgs &a) {
    if (blockIdx.y < a.whole) {
        prompt_tile<F, T, S>(a, blockIdx.x * S::tokens, blockIdx.y * S::tiles);
        return;
    }
    u32 index = (blockIdx.y - a.whole) * gridDim.x + blockIdx.x;
    prompt_tile<F, T, Smaller>(a, index % a.along * Smaller::tokens,
                               a.whole * S::tiles + index / a.along * Smaller::tiles);
}
