// How the weights of a prompt's product become mma's operands, and how their scales and minima become factors.
//
// Quants stay integers, which the activations' type holds exactly; scales multiply the sum of a block. Formats differ
// in where the scale is prepared: each lane for itself (`scales_of`), once per warp in shared memory (`Prepared`), or
// folded into the integers (`FoldedScales`, and `small_pair` for scales of four bits).
#pragma once
#include "prompt/block.cuh"

// Whether T holds an integer times its scale of six bits exactly (less than 2^11). Then one factor is left for all
// blocks of a unit.
template <int F, typename T> struct Folded {
    static constexpr bool able = false;
};
template <int F> struct Folded<F, half> {
    static constexpr bool able = Layout<F>::kind == BYTE_PAIRS;
};

struct FoldedScales {
    // (block, row): the scale, twice. Integers of row g + 8 are 2^up times as large.
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

// Byte `i` of a word, twice; it is at most 15.
template <typename T> __device__ __forceinline__ u32 small_pair(u32 bytes, u32 i);
template <> __device__ __forceinline__ u32 small_pair<half>(u32 bytes, u32 i) {
    u32 biased = __byte_perm(bytes, 0x64646464u, 0x4040 + i * 0x0101);
    half2 value = __hsub2(*reinterpret_cast<half2 *>(&biased), __half2half2(__int2half_rn(1024)));
    return *reinterpret_cast<u32 *>(&value);
}
template <> __device__ __forceinline__ u32 small_pair<__nv_bfloat16>(u32 bytes, u32 i) {
    u32 biased = __byte_perm(bytes, 0x43434343u, 0x4040 + i * 0x0101);
    __nv_bfloat162 value =
        __hsub2(*reinterpret_cast<__nv_bfloat162 *>(&biased), __bfloat162bfloat162(__int2bfloat16_rn(128)));
    return *reinterpret_cast<u32 *>(&value);
}

// Bytes 2 `i` and 2 `i` + 1 of a word as bf16; they are at most 15.
__device__ __forceinline__ u32 two_small(u32 bytes, u32 i) {
    u32 biased = __byte_perm(bytes, 0x43434343u, i ? 0x4342 : 0x4140);
    __nv_bfloat162 value =
        __hsub2(*reinterpret_cast<__nv_bfloat162 *>(&biased), __bfloat162bfloat162(__int2bfloat16_rn(128)));
    return *reinterpret_cast<u32 *>(&value);
}

// A pair of ones.
template <typename T> __device__ __forceinline__ constexpr u32 ones_of();
template <> __device__ __forceinline__ constexpr u32 ones_of<half>() { return 0x3c003c00u; }
template <> __device__ __forceinline__ constexpr u32 ones_of<__nv_bfloat16>() { return 0x3f803f80u; }

// The product of two pairs.
template <typename T> __device__ __forceinline__ u32 times(u32 a, u32 b) {
    typedef typename Pair<T>::type Two;
    Two value = __hmul2(*reinterpret_cast<Two *>(&a), *reinterpret_cast<Two *>(&b));
    return *reinterpret_cast<u32 *>(&value);
}

// Scales and minima of a unit that a warp prepares for all of its lanes, in shared memory of its own: each lane handles
// one weight row. Scales that are stored as they are used, or folded into integers, are faster without this.
template <int F, typename T, class S> struct Prepared {
    static constexpr bool scales =
        Layout<F>::kind == PAIRS || Layout<F>::kind == BYTES || (Layout<F>::kind == BYTE_PAIRS && !Folded<F, T>::able);
    static constexpr bool minima = Layout<F>::kind == PAIRS;
    static constexpr bool there = scales || minima;
    static constexpr u32 ROWS = S::N * 16, BLOCKS = Layout<F>::block ? 64 / Layout<F>::block : 0;
    // A lane handles one row.
    static_assert(!there || ROWS <= 32);
    // (unit, block, row) of scales; then, for the last two units, their minima as two bf16 each: the value and its
    // rounding error, which lies APART words behind it.
    static constexpr u32 of_scales = scales ? BLOCKS * ROWS * 4 : 0, APART = 2 * ROWS + 8;
    static constexpr u32 minima_at = S::UNITS * of_scales;
    static constexpr u32 bytes = there ? minima_at + (minima ? 2 * APART * 4 : 0) : 0;

    // Prepares one row of unit `index`, unit u of its round. `row` counts in the order in which scales are
    // stored.
    static __device__ __forceinline__ void prepare(u8 *to, u32 u, u32 index, bool last, u32 row,
                                                   const u8 *scales_of_row, const u8 *head_of_row) {
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
            // A last unit without a partner.
            if (last && index % 2 == 0) both[2] = 0, both[APART + 2] = 0;
        }
    }
    // Scales of rows g and g + 8 of the warp's tile n.
    static __device__ __forceinline__ void scales_of(const u8 *from, u32 n, u32 g, u32 b, float (&two)[2]) {
        float2 of = *reinterpret_cast<const float2 *>(from + (b * ROWS + n * 16 + 2 * g) * 4);
        two[0] = of.x, two[1] = of.y;
    }
    // Minima of rows g and g + 8 of tile n over two units, as an mma operand that meets the inputs' sums. Columns pair
    // t and t + 4 belong to unit t % 2; the first meets the sums as bf16, the second their rounding errors. Pairs 0 and
    // 1 hold the minima as bf16, pairs 2 and 3 their rounding errors. So mma adds all four products.
    static __device__ __forceinline__ void minima_of(const u8 *from, u32 n, u32 g, u32 t, u32 (&pairs)[4]) {
        const u32 place = t / 2 * APART + n * 32 + g * 4 + t % 2 * 2;
        uint2 two = *reinterpret_cast<const uint2 *>(from + minima_at + place * 4);
        pairs[0] = pairs[2] = two.x, pairs[1] = pairs[3] = two.y;
    }
};

// Scales of rows g and g + 8 of a tile in the block that ends with quarter s.
template <int F>
__device__ __forceinline__ void scales_of(const u8 *scales, const u8 *head, u32 g, u32 s, float (&scale)[2]) {
    RowScales<F, 1> rows;
    rows.read(scales - Layout<F>::before_scales, head, g);
    float minimum;
#pragma unroll
    for (u32 i = 0; i < 2; ++i) rows.of(s, i, scale[i], minimum);
}

// Whether a quarter is loaded and multiplied at a time: two quarters with scales of their own need more registers.
template <int F> constexpr bool BY_QUARTERS = Layout<F>::block == 16 && F != Q6_K;

// Weights in a lane's registers: one quarter of 16 columns of plain values, two quarters of bytes or fewer bits.
template <int F, typename T> struct Weights {
    u32 quants[4], high;

    __device__ __forceinline__ void load(const u8 *unit, u32 lane, u32 quarter) {
        if constexpr (Layout<F>::quants <= 512) {
            if constexpr (BY_QUARTERS<F> || Layout<F>::interleaved) {
                quants[0] = reinterpret_cast<const u32 *>(unit)[Layout<F>::interleaved ? quarter / 2 : quarter];
            } else {
                uint2 two = reinterpret_cast<const uint2 *>(unit)[quarter / 2];
                quants[0] = two.x, quants[1] = two.y;
            }
            if constexpr (Layout<F>::high > 0) {
                const u8 *words = unit + Layout<F>::quants - lane * (Layout<F>::quants / 32 - Layout<F>::high / 32);
                high = high_bits<F>(reinterpret_cast<const u32 *>(words), quarter);
            }
        } else if constexpr (Layout<F>::quants != 4096) {
            const u32 piece = Layout<F>::quants == 1024 ? quarter / 2 : quarter;
            uint4 four = reinterpret_cast<const uint4 *>(unit)[piece * 32 + lane];
            quants[0] = four.x, quants[1] = four.y, quants[2] = four.z, quants[3] = four.w;
        }
    }

    // The four pairs of the loaded quarter s, times the scales of block b.
    __device__ __forceinline__ void folded(u32 s, u32 b, const FoldedScales &scales, u32 (&a)[4]) const {
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            u32 integers = pair<F>(quants[s], high, s, i, Integers<F, T>::exponents);
            half2 value = __hmul2(*reinterpret_cast<half2 *>(&integers), scales.by[b][i % 2]);
            a[i] = *reinterpret_cast<u32 *>(&value);
        }
    }

    // The four pairs (see tile.cuh) of the loaded quarter s, and their rounding errors where T does not hold the
    // format.
    __device__ __forceinline__ void pairs(const u8 *unit, u32 lane, u32 quarter, u32 s, u32 (&a)[4],
                                          u32 (&rest)[4]) const {
        const u32 own = BY_QUARTERS<F> || Layout<F>::interleaved ? quants[0] : quants[s];
        u32 found[2];
        if constexpr (Layout<F>::codes) look_up<F>(own, found);
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            if constexpr (F == F32) {
                const u8 *from = unit + ((2 * quarter + i / 2) * 32 + lane) * 16 + i % 2 * 8;
                float2 pair = *reinterpret_cast<const float2 *>(from);
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
                a[i] = Integers<F, T>::of(own, high, s, i);
            }
        }
    }
};
