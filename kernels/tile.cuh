// How weights lie in device memory, and how their integers become numbers.
//
// A matrix is cut into tiles of 16 rows, and a tile into units of 64 columns. A unit holds its values in the order in
// which the 32 lanes of a warp feed them to mma.sync m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16"), so every
// load is 16 adjacent bytes a lane. A unit is four quarters of 16 columns. In a quarter, lane 4 g + t holds the columns
// 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of the rows g and g + 8, as four pairs: a0 = (g; 2 t), a1 = (g + 8; 2 t), a2 = (g;
// 2 t + 8), a3 = (g + 8; 2 t + 8).
//
// Quants stay integers, which both number types hold exactly. Products are summed in f32 over each block of the format,
// and then scaled. Columns of the input never mix, so the number of rows in flight changes no bit of a row.
#pragma once
#include "format.cuh"

// The head of the four units that `unit` belongs to (K formats), and the unit itself.
template <int F> __device__ __forceinline__ const u8 *unit_head(const u8 *tile, u32 unit) {
    return tile + (unit / 4) * (Layout<F>::head + 4 * Layout<F>::unit);
}
template <int F> __device__ __forceinline__ const u8 *unit_at(const u8 *tile, u32 unit) {
    if (Layout<F>::head == 0) return tile + (u64)unit * Layout<F>::unit;
    return unit_head<F>(tile, unit) + Layout<F>::head + (unit % 4) * Layout<F>::unit;
}
// Bytes of a tile of `columns` columns: its units, and the scales of its rows in SCALED_F16.
template <int F> __device__ __forceinline__ u64 tile_bytes(u32 columns) {
    return (u64)(columns / 64) * Layout<F>::unit + (u64)(columns / 256) * Layout<F>::head + (F == SCALED_F16 ? 64 : 0);
}

// The power of two that multiplies a row of scaled values.
template <int F> __device__ __forceinline__ float row_scale(const Tiles &w, u32 row) {
    if (F != SCALED_F16) return 1.0f;
    return at<const float>(w.data + (row / 16 + 1) * tile_bytes<F>(w.columns) - 64)[row % 16];
}

// ---- fragments ----

// Four matrices of eight rows of 16 bytes. Lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void matrices(u32 (&to)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from));
}

// d += a b, over sixteen columns of a, or over eight.
template <typename T> struct Mma;
template <> struct Mma<half> {
    static __device__ __forceinline__ void run(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
    static __device__ __forceinline__ void run(float (&d)[4], const u32 (&a)[4], uint2 b) { run(d, a, b.x, b.y); }
    static __device__ __forceinline__ void run_eight(float (&d)[4], u32 a0, u32 a1, u32 b) {
        asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a0), "r"(a1), "r"(b));
    }
    static __device__ __forceinline__ u32 pack(float low, float high) {
        half2 pair = __floats2half2_rn(low, high);
        return *reinterpret_cast<u32 *>(&pair);
    }
    // The rounding errors of a pair that `pack` rounded.
    static __device__ __forceinline__ u32 rest(float low, float high, u32 packed) {
        half2 pair = *reinterpret_cast<half2 *>(&packed);
        return pack(low - __low2float(pair), high - __high2float(pair));
    }
    static constexpr u32 EXPONENT = 15, MANTISSA = 10;
    // Whether T holds all values of a format; of block formats, their integers.
    template <int F> static __device__ __forceinline__ constexpr bool holds() { return F != F32 && F != BF16; }
};
template <> struct Mma<__nv_bfloat16> {
    static __device__ __forceinline__ void run(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
    static __device__ __forceinline__ void run(float (&d)[4], const u32 (&a)[4], uint2 b) { run(d, a, b.x, b.y); }
    static __device__ __forceinline__ void run_eight(float (&d)[4], u32 a0, u32 a1, u32 b) {
        asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a0), "r"(a1), "r"(b));
    }
    static __device__ __forceinline__ u32 pack(float low, float high) {
        __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        return *reinterpret_cast<u32 *>(&pair);
    }
    static __device__ __forceinline__ u32 rest(float low, float high, u32 packed) {
        __nv_bfloat162 pair = *reinterpret_cast<__nv_bfloat162 *>(&packed);
        return pack(low - __low2float(pair), high - __high2float(pair));
    }
    static constexpr u32 EXPONENT = 127, MANTISSA = 7;
    template <int F> static __device__ __forceinline__ constexpr bool holds() {
        return F != F32 && F != F16 && F != SCALED_F16;
    }
};

// A pair of minus INTEGER in T, or of minus INTEGER times T's smallest number. A constant, so that it takes no
// registers.
template <typename T, u32 INTEGER> __device__ __forceinline__ constexpr u32 minus(bool of_least) {
    u32 log = 0, bits = INTEGER;
    while (INTEGER >> (log + 1)) ++log;
    if (!of_least && INTEGER > 0)
        bits = (Mma<T>::EXPONENT + log) << Mma<T>::MANTISSA | (INTEGER - (1u << log)) << (Mma<T>::MANTISSA - log);
    return (bits | 0x8000u) << 16 | bits | 0x8000u;
}

// Bits of a word, with an exponent: a number that is exactly the field's integer plus a power of two.
__device__ __forceinline__ u32 field(u32 word, u32 mask, u32 exponents) {
    u32 made;
    asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(made) : "r"(word), "r"(mask), "r"(exponents));
    return made;
}

// The word of a quarter whose integers have two or three bits, as if they had four. `word` belongs to two quarters,
// which take turns every two bits. `high` has the third bits of four quarters, which take turns every bit; those of the
// first two are the lowest (`high_bits`).
template <int F> __device__ __forceinline__ u32 nibbles(u32 word, u32 high, bool odd) {
    const u32 third = Layout<F>::high ? (odd ? high << 1 : high << 2) & 0x44444444u : 0;
    return field(odd ? word >> 2 : word, 0x33333333u, third);
}

// The high bits that two quarters from `quarter` on take from the unit's words (see `pair`). With five bits, those of
// the last two quarters are in the other bytes.
template <int F> __device__ __forceinline__ u32 high_bits(const u32 *words, u32 quarter) {
    if constexpr (Layout<F>::interleaved) return Layout<F>::high ? words[0] >> (quarter / 2 * 2) : 0;
    if constexpr (Layout<F>::high == 128) return __byte_perm(words[0], 0, quarter < 2 ? 0x3210 : 0x2301);
    if constexpr (Layout<F>::high == 256) return words[quarter / 2];
    return 0;
}

// Pair i of a quarter's integers, with exponents that make them numbers. Integers of row g are in the lowest bits of
// each half. Integers of row g + 8 lie `up` bits higher, where an f16 holds them as 2^up times as much; with LEAST they
// are in the lowest bits, too. `word` is the quarter's word. `high` has the high bits of two quarters, of which this is
// the second if `odd`. The layout needs few shifts. A half of the word has
// - four bits: a0, a1, a2, a3; `nibbles` makes such a word of two or three bits;
// - five bits: a0, a1, a2 and the lowest bit of a3. The other four are in `high`, at bits 6 to 9, or at 2 to 5 for the
// second quarter;
// - six bits: the lowest four of a0, then a1 and a2. In `high`, bits 4 and 5 complete a0, and bits 0 and 1 complete the
// second quarter's a0. Bits 2, 3 and 6 to 9 are a3, and the top six bits are the second quarter's a3.
template <int F, bool LEAST = false>
__device__ __forceinline__ u32 pair(u32 word, u32 high, bool odd, u32 i, u32 exponents) {
    const u32 down = LEAST && i % 2 ? Layout<F>::up : 0;
    auto some = [&](u32 from, u32 mask, u32 with) { return field(from >> down, mask >> down, with); };
    if constexpr (Layout<F>::interleaved) word = nibbles<F>(word, high, odd);
    if constexpr (Layout<F>::high == 0 || Layout<F>::interleaved) {
        return some(i < 2 ? word : word >> 8, i % 2 ? 0x00f000f0u : 0x000f000fu, exponents);
    } else if constexpr (Layout<F>::high == 128) {
        if (i < 2) return some(word, i ? 0x03e003e0u : 0x001f001fu, exponents);
        if (i == 2) return some(word >> 10, 0x001f001fu, exponents);
        return some(word >> 10, 0x00200020u, some(odd ? high << 4 : high, 0x03c003c0u, exponents));
    } else {
        if (i == 0) return some(word, 0x000f000fu, some(odd ? high << 4 : high, 0x00300030u, exponents));
        if (i == 1) return some(word, 0x03f003f0u, exponents);
        if (i == 2) return some(word >> 10, 0x003f003fu, exponents);
        return odd ? some(high >> 6, 0x03f003f0u, exponents)
                   : some(high, 0x03c003c0u, some(high << 2, 0x00300030u, exponents));
    }
}

// Such a pair as numbers, minus the format's zero.
template <int F, typename T> struct Integers;
template <int F> struct Integers<F, half> {
    // An integer in the lowest bits is a subnormal number, 2^-24 times the integer, which mma multiplies exactly.
    // Formats without a zero leave it so. Otherwise 0x6400 adds 1024, whose last place is 1.
    static constexpr bool least = Layout<F>::zero == 0 && Layout<F>::quants <= 512;
    static constexpr u32 exponents = least ? 0 : 0x64006400u;
    // The factor that sums of rows g and g + 8 then lack.
    static __device__ __forceinline__ constexpr float factor(bool second) {
        return least ? (second ? float(1 << 24 >> Layout<F>::up) : float(1 << 24)) : 1.0f;
    }
    static __device__ __forceinline__ u32 of(u32 word, u32 high, bool odd, u32 i) {
        constexpr float down = 1.0f / (1 << Layout<F>::up), zero = Layout<F>::zero;
        u32 biased = pair<F>(word, high, odd, i, exponents);
        if constexpr (least) return biased;
        half2 number = *reinterpret_cast<half2 *>(&biased), value;
        if (i % 2)
            value = __hfma2(number, __half2half2(__float2half_rn(down)),
                            __half2half2(__float2half_rn(-(1024 * down + zero))));
        else value = __hadd2(number, __half2half2(__float2half_rn(-(1024 + zero))));
        return *reinterpret_cast<u32 *>(&value);
    }
};
template <int F> struct Integers<F, __nv_bfloat16> {
    static __device__ __forceinline__ constexpr float factor(bool) { return 1.0f; }
    // 0x4300 is 128.
    static constexpr u32 exponents = 0x43004300u;
    static __device__ __forceinline__ u32 of(u32 word, u32 high, bool odd, u32 i) {
        u32 biased = pair<F, true>(word, high, odd, i, exponents);
        __nv_bfloat162 value = __hsub2(*reinterpret_cast<__nv_bfloat162 *>(&biased),
                                       __bfloat162bfloat162(__int2bfloat16_rn(128 + Layout<F>::zero)));
        return *reinterpret_cast<u32 *>(&value);
    }
};

// The lower or the higher two bytes of a word, minus 128.
template <typename T> __device__ __forceinline__ u32 bytes_less_128(u32 bytes, int higher);
template <> __device__ __forceinline__ u32 bytes_less_128<half>(u32 bytes, int higher) {
    u32 biased = __byte_perm(bytes, 0x64646464u, higher ? 0x4342 : 0x4140);
    half2 value = __hsub2(*reinterpret_cast<half2 *>(&biased), __half2half2(__int2half_rn(1024 + 128)));
    return *reinterpret_cast<u32 *>(&value);
}
template <> __device__ __forceinline__ u32 bytes_less_128<__nv_bfloat16>(u32 bytes, int higher) {
    // 0x4b000000 is 2^23, whose last place is 1. The upper half of an f32 is a bf16, which holds eight bits.
    float low = __uint_as_float(__byte_perm(bytes, 0x4b000000u, higher ? 0x7442 : 0x7440)) - 8388736.0f;
    float high = __uint_as_float(__byte_perm(bytes, 0x4b000000u, higher ? 0x7443 : 0x7441)) - 8388736.0f;
    return __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632);
}

// ---- one element, for the embedding ----

// Value (row, column), as the format defines it.
template <int F> __device__ __forceinline__ float element(const u8 *data, u32 columns, u32 row, u32 column) {
    const u8 *tile = data + (row / 16) * tile_bytes<F>(columns);
    const u8 *from = unit_at<F>(tile, column / 64);
    u32 g = row % 8, r = (row % 16) / 8, s = (column % 64) / 16, t = (column % 8) / 2, i = (column % 16) / 8 * 2 + r,
        high = column % 2;
    u32 lane = 4 * g + t;
    if (F == F32) return reinterpret_cast<const float *>(from)[((2 * s + i / 2) * 32 + lane) * 4 + (i % 2) * 2 + high];
    if (F == F16 || F == SCALED_F16) {
        float value = __half2float(reinterpret_cast<const half *>(from)[(s * 32 + lane) * 8 + 2 * i + high]);
        return F == F16 ? value
                        : value * reinterpret_cast<const float *>(data + (row / 16 + 1) * tile_bytes<F>(columns) -
                                                                  64)[row % 16];
    }
    if (F == BF16)
        return __bfloat162float(reinterpret_cast<const __nv_bfloat16 *>(from)[(s * 32 + lane) * 8 + 2 * i + high]);
    int q;
    if (Layout<F>::quants == 1024) {
        q = from[(s / 2) * 512 + lane * 16 + (s % 2) * 8 + 2 * i + high];
    } else if (Layout<F>::codes) {
        u32 bytes[2];
        look_up<F>(reinterpret_cast<const u32 *>(from)[lane * 4 + s], bytes);
        q = ((i < 2 ? bytes[0] : bytes[1]) >> (16 * (i % 2) + 8 * high)) & 255u;
    } else {
        const u32 *above = reinterpret_cast<const u32 *>(from + Layout<F>::quants) + lane * (Layout<F>::high / 128);
        u32 word = reinterpret_cast<const u32 *>(from)[Layout<F>::interleaved ? lane * 2 + s / 2 : lane * 4 + s];
        q = (pair<F, true>(word, high_bits<F>(above, s), s % 2, i, 0) >> (16 * high)) & 63u;
    }
    RowScales<F, 1> scales;
    scales.read(from, unit_head<F>(tile, column / 64), g);
    float scale, minimum;
    // Constant indexes keep the scales in registers.
    if (r) scales.of(s, 1, scale, minimum);
    else scales.of(s, 0, scale, minimum);
    float value = __fmul_rn(scale, (float)(q - Layout<F>::zero));
    return Layout<F>::minimum ? __fadd_rn(value, minimum) : value;
}
