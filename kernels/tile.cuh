// How weights lie in device memory, and how a warp multiplies them.
//
// A matrix is cut into tiles of 16 rows, a tile into units of 64 columns. A unit holds its values in
// the order in which the 32 lanes of a warp feed them to mma.sync m16n8k16 (PTX ISA, "Matrix Fragments
// for mma.m16n8k16"), so that every load is 16 bytes a lane, side by side. A unit is four steps of 16
// columns. In a step, lane 4 g + t holds the columns 4 t .. 4 t + 3 of the rows g and g + 8, as four
// pairs: a0 = (g; 0, 1), a1 = (g + 8; 0, 1), a2 = (g; 2, 3), a3 = (g + 8; 2, 3).
//
// Quants stay integers, which both number types hold exactly; products are summed in f32 over each
// block of the format and scaled then. A column of the input never meets another, so a row's bits do
// not depend on how many rows run.
#pragma once
#include "common.cuh"

enum Format { F32 = 0, F16 = 1, BF16 = 2, Q8_0 = 3, Q4_0 = 4, Q4_1 = 5, Q5_0 = 6, Q5_1 = 7, Q4_K = 8, Q5_K = 9, Q6_K = 10 };

// Bytes of the parts of a unit, and of the head that four units of a K format share.
template <int F> struct Layout;
#define LAYOUT(F, QUANTS, HIGH, SCALES, HEAD) \
    template <> struct Layout<F> { \
        static constexpr u32 quants = QUANTS, high = HIGH, scales = SCALES, head = HEAD, unit = QUANTS + HIGH + SCALES; \
    };
LAYOUT(F32, 4096, 0, 0, 0)
LAYOUT(F16, 2048, 0, 0, 0)
LAYOUT(BF16, 2048, 0, 0, 0)
LAYOUT(Q8_0, 1024, 0, 64, 0)
LAYOUT(Q4_0, 512, 0, 64, 0)
LAYOUT(Q4_1, 512, 0, 128, 0)
LAYOUT(Q5_0, 512, 128, 64, 0)
LAYOUT(Q5_1, 512, 128, 128, 0)
LAYOUT(Q4_K, 512, 0, 64, 64)
LAYOUT(Q5_K, 512, 128, 64, 64)
LAYOUT(Q6_K, 512, 256, 64, 32)

// The head of the four units that `unit` belongs to (K formats), and the unit itself.
template <int F> __device__ __forceinline__ const u8 *unit_head(const u8 *tile, u32 unit) {
    return tile + (unit / 4) * (Layout<F>::head + 4 * Layout<F>::unit);
}
template <int F> __device__ __forceinline__ const u8 *unit_at(const u8 *tile, u32 unit) {
    if (Layout<F>::head == 0) return tile + (u64)unit * Layout<F>::unit;
    return unit_head<F>(tile, unit) + Layout<F>::head + (unit % 4) * Layout<F>::unit;
}
// Bytes of a tile of `columns` columns.
template <int F> __device__ __forceinline__ u64 tile_bytes(u32 columns) {
    return (u64)(columns / 64) * Layout<F>::unit + (u64)(columns / 256) * Layout<F>::head;
}

// ---- fragments ----

template <typename T> struct Mma;
template <> struct Mma<half> {
    static __device__ __forceinline__ void run(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
    static __device__ __forceinline__ u32 pack(float low, float high) {
        half2 pair = __floats2half2_rn(low, high);
        return *reinterpret_cast<u32 *>(&pair);
    }
    // What a pair in which `pack` has lost something lacks.
    static __device__ __forceinline__ u32 rest(float low, float high, u32 packed) {
        half2 pair = *reinterpret_cast<half2 *>(&packed);
        return pack(low - __low2float(pair), high - __high2float(pair));
    }
    static constexpr u32 one = 0x3c003c00u;
};
template <> struct Mma<__nv_bfloat16> {
    static __device__ __forceinline__ void run(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
    static __device__ __forceinline__ u32 pack(float low, float high) {
        __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        return *reinterpret_cast<u32 *>(&pair);
    }
    static __device__ __forceinline__ u32 rest(float low, float high, u32 packed) {
        __nv_bfloat162 pair = *reinterpret_cast<__nv_bfloat162 *>(&packed);
        return pack(low - __low2float(pair), high - __high2float(pair));
    }
    static constexpr u32 one = 0x3f803f80u;
};

// Two unsigned integers below 1024 at bits 0 and 16, less `zero`, as a pair of T.
template <typename T> __device__ __forceinline__ u32 integers(u32 pair, int zero);
template <> __device__ __forceinline__ u32 integers<half>(u32 pair, int zero) {
    // 0x6400 is 1024, whose last place is 1: or-ing an integer in adds it.
    u32 biased = pair | 0x64006400u;
    half2 value = __hsub2(*reinterpret_cast<half2 *>(&biased), __half2half2(__int2half_rn(1024 + zero)));
    return *reinterpret_cast<u32 *>(&value);
}
template <> __device__ __forceinline__ u32 integers<__nv_bfloat16>(u32 pair, int zero) {
    return Mma<__nv_bfloat16>::pack((float)((int)(pair & 0xffffu) - zero), (float)((int)(pair >> 16) - zero));
}

// What a lane holds of one unit.
template <int F> struct Unit {
    uint4 quants[Layout<F>::quants / 512];
    u32 high[Layout<F>::high ? Layout<F>::high / 128 : 1];
    // Rows g and g + 8, two blocks (Q6_K: four) each.
    u32 scales[Layout<F>::scales == 0 ? 1 : Layout<F>::scales / 32];
    // d (and dmin) of rows g and g + 8.
    u32 head[2];

    __device__ __forceinline__ void load(const u8 *tile, u32 unit, u32 lane) {
        const u8 *from = unit_at<F>(tile, unit);
#pragma unroll
        for (u32 i = 0; i < Layout<F>::quants / 512; ++i) quants[i] = __ldg(reinterpret_cast<const uint4 *>(from) + i * 32 + lane);
        if (Layout<F>::high == 128) high[0] = __ldg(reinterpret_cast<const u32 *>(from + 512) + lane);
        if (Layout<F>::high == 256) {
            uint2 bits = __ldg(reinterpret_cast<const uint2 *>(from + 512) + lane);
            high[0] = bits.x;
            high[Layout<F>::high == 256] = bits.y;
        }
        const u8 *scale = from + Layout<F>::quants + Layout<F>::high;
        if (Layout<F>::scales == 64) {
            uint2 pair = __ldg(reinterpret_cast<const uint2 *>(scale) + lane / 4);
            scales[0] = pair.x;
            scales[Layout<F>::scales >= 64] = pair.y;
        }
        if (Layout<F>::scales == 128) {
            uint4 four = __ldg(reinterpret_cast<const uint4 *>(scale) + lane / 4);
            scales[0] = four.x;
            scales[Layout<F>::scales >= 64] = four.y;
            scales[Layout<F>::scales == 128 ? 2 : 0] = four.z;
            scales[Layout<F>::scales == 128 ? 3 : 0] = four.w;
        }
        if (Layout<F>::head == 64) {
            uint2 pair = __ldg(reinterpret_cast<const uint2 *>(unit_head<F>(tile, unit)) + lane / 4);
            head[0] = pair.x;
            head[1] = pair.y;
        }
        if (Layout<F>::head == 32) head[0] = __ldg(reinterpret_cast<const u32 *>(unit_head<F>(tile, unit)) + lane / 4);
    }

    __device__ __forceinline__ u32 word(u32 i, u32 of) const {
        const uint4 &q = quants[i];
        return of == 0 ? q.x : of == 1 ? q.y : of == 2 ? q.z : q.w;
    }

    // The four pairs of a step, and where T cannot hold them, what it lacks.
    template <typename T> __device__ __forceinline__ void step(u32 s, u32 (&a)[4], u32 (&rest)[4]) const {
        if (F == F16 || F == BF16) {
            u32 raw[4] = {quants[s % (Layout<F>::quants / 512)].x, quants[s % (Layout<F>::quants / 512)].y, quants[s % (Layout<F>::quants / 512)].z,
                          quants[s % (Layout<F>::quants / 512)].w};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if ((F == F16) == (sizeof(Mma<T>) && Mma<T>::one == 0x3c003c00u)) {
                    a[i] = raw[i];
                } else {
                    float low, high_;
                    if (F == F16) {
                        half2 pair = *reinterpret_cast<half2 *>(&raw[i]);
                        low = __low2float(pair), high_ = __high2float(pair);
                    } else {
                        low = __uint_as_float(raw[i] << 16), high_ = __uint_as_float(raw[i] & 0xffff0000u);
                    }
                    a[i] = Mma<T>::pack(low, high_);
                    rest[i] = Mma<T>::rest(low, high_, a[i]);
                }
            }
        } else if (F == F32) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const uint4 &q = quants[(2 * s + i / 2) % (Layout<F>::quants / 512)];
                float low = __uint_as_float(i % 2 ? q.z : q.x), high_ = __uint_as_float(i % 2 ? q.w : q.y);
                a[i] = Mma<T>::pack(low, high_);
                rest[i] = Mma<T>::rest(low, high_, a[i]);
            }
        } else if (F == Q8_0) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                u32 bytes = word((s / 2) % (Layout<F>::quants / 512), (s % 2) * 2 + i / 2);
                a[i] = integers<T>(__byte_perm(bytes, 0, i % 2 ? 0x4342 : 0x4140), 128);
            }
        } else {
            u32 nibbles = word(0, s);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                u32 pair = (nibbles >> (4 * i)) & 0x000f000fu;
                if (Layout<F>::high == 128) pair |= ((high[0] >> (4 * s + i)) & 0x00010001u) << 4;
                if (Layout<F>::high == 256) pair |= ((high[(s / 2) % (Layout<F>::high ? Layout<F>::high / 128 : 1)] >> (2 * (4 * (s % 2) + i))) & 0x00030003u) << 4;
                a[i] = integers<T>(pair, F == Q4_0 ? 8 : F == Q5_0 ? 16 : F == Q6_K ? 32 : 0);
            }
        }
    }

    // Scale and minimum of row g + 8 r in the block that ends with step s: value = scale q + minimum.
    __device__ __forceinline__ void scale(u32 s, u32 r, float &scale, float &minimum) const {
        minimum = 0.0f;
        if (F == Q4_0 || F == Q5_0 || F == Q8_0) {
            u32 both = scales[r % (Layout<F>::scales ? Layout<F>::scales / 32 : 1)];
            scale = __half2float(__ushort_as_half((u16)(s / 2 ? both >> 16 : both & 0xffffu)));
        } else if (F == Q4_1 || F == Q5_1) {
            u32 both = scales[(2 * r + s / 2) % (Layout<F>::scales ? Layout<F>::scales / 32 : 1)];
            scale = __half2float(__ushort_as_half((u16)(both & 0xffffu)));
            minimum = __half2float(__ushort_as_half((u16)(both >> 16)));
        } else if (F == Q4_K || F == Q5_K) {
            u32 four = scales[r % (Layout<F>::scales ? Layout<F>::scales / 32 : 1)] >> (16 * (s / 2));
            float d = __half2float(__ushort_as_half((u16)(head[r] & 0xffffu)));
            float dmin = __half2float(__ushort_as_half((u16)(head[r] >> 16)));
            scale = d * (float)(four & 0xffu);
            minimum = -(dmin * (float)((four >> 8) & 0xffu));
        } else if (F == Q6_K) {
            i8 quarter = (i8)(scales[r % (Layout<F>::scales ? Layout<F>::scales / 32 : 1)] >> (8 * s));
            float d = __half2float(__ushort_as_half((u16)(r ? head[0] >> 16 : head[0] & 0xffffu)));
            scale = d * (float)quarter;
        } else {
            scale = 1.0f;
        }
    }
};

template <int F> struct Blocks {
    // Whether a block of one scale ends with step s.
    static __device__ __forceinline__ constexpr bool ends(u32 s) { return F == Q6_K || s % 2 == 1; }
    static constexpr bool scaled = F > BF16;
    static constexpr bool minimum = F == Q4_1 || F == Q5_1 || F == Q4_K || F == Q5_K;
};

// ---- the product of one tile with up to 8 N rows of the input, by one warp's share of the units ----

// Pairs of columns of input row 8 n + g, for one step.
template <typename T> struct Input {
    // (rows, stride), zero beyond the last column
    const T *rows;
    u32 stride;
    // Rows that exist.
    u32 count;

    __device__ __forceinline__ uint2 pairs(u32 n, u32 lane, u32 column) const {
        u32 row = 8 * n + lane / 4;
        if (row >= count) return make_uint2(0, 0);
        return *reinterpret_cast<const uint2 *>(rows + (u64)row * stride + column + 4 * (lane % 4));
    }
};

template <int F, typename T, int N>
__device__ __forceinline__ void multiply_format(const u8 *tile, u32 columns, Input<T> input, float (&sums)[N][4]) {
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    constexpr bool split = F == F32 || (F == F16 && Mma<T>::one == 0x3f803f80u) || (F == BF16 && Mma<T>::one == 0x3c003c00u);
    for (u32 unit = warp; unit < columns / 64; unit += WARPS) {
        Unit<F> w;
        w.load(tile, unit, lane);
        float block[N][4] = {};
        float ones[N][4] = {};
#pragma unroll
        for (u32 s = 0; s < 4; ++s) {
            u32 a[4], rest[4];
            w.template step<T>(s, a, rest);
            const u32 one[4] = {Mma<T>::one, Mma<T>::one, Mma<T>::one, Mma<T>::one};
#pragma unroll
            for (int n = 0; n < N; ++n) {
                uint2 b = input.pairs(n, lane, 64 * unit + 16 * s);
                if (Blocks<F>::scaled) {
                    Mma<T>::run(block[n], a, b.x, b.y);
                    if (Blocks<F>::minimum) Mma<T>::run(ones[n], one, b.x, b.y);
                } else {
                    Mma<T>::run(sums[n], a, b.x, b.y);
                    if (split) Mma<T>::run(sums[n], rest, b.x, b.y);
                }
            }
            if (Blocks<F>::scaled && Blocks<F>::ends(s)) {
                float scale[2], minimum[2];
                w.scale(s, 0, scale[0], minimum[0]);
                w.scale(s, 1, scale[1], minimum[1]);
#pragma unroll
                for (int n = 0; n < N; ++n) {
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        sums[n][i] = fmaf(scale[i / 2], block[n][i], sums[n][i]);
                        if (Blocks<F>::minimum) sums[n][i] = fmaf(minimum[i / 2], ones[n][i], sums[n][i]);
                        block[n][i] = 0.0f;
                        ones[n][i] = 0.0f;
                    }
                }
            }
        }
    }
}

// sums[n][0, 1]: row g of the tile, input rows 8 n + 2 t and + 1; sums[n][2, 3]: row g + 8.
template <typename T, int N>
__device__ __forceinline__ void multiply_tile(const Tiles &w, u32 tile, Input<T> input, float (&sums)[N][4]) {
    const u8 *data = at<const u8>(w.data);
#define CASE(F) case F: multiply_format<F, T, N>(data + tile * tile_bytes<F>(w.columns), w.columns, input, sums); break;
    switch (w.format) {
        CASE(F32) CASE(F16) CASE(BF16) CASE(Q8_0) CASE(Q4_0) CASE(Q4_1) CASE(Q5_0) CASE(Q5_1) CASE(Q4_K) CASE(Q5_K) CASE(Q6_K)
    }
#undef CASE
}

// The same, summed over the warps of the block, in their order: product[row of the tile][input row].
template <typename T, int N>
__device__ __forceinline__ void multiply_block(const Tiles &w, u32 tile, Input<T> input, float *scratch, float *product) {
    float sums[N][4] = {};
    multiply_tile<T, N>(w, tile, input, sums);
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    __syncthreads();
#pragma unroll
    for (int n = 0; n < N; ++n) {
        float *to = scratch + warp * (16 * 8 * N) + 8 * n + 2 * t;
        *reinterpret_cast<float2 *>(to + g * (8 * N)) = make_float2(sums[n][0], sums[n][1]);
        *reinterpret_cast<float2 *>(to + (g + 8) * (8 * N)) = make_float2(sums[n][2], sums[n][3]);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < 16 * 8 * N; i += THREADS) {
        float sum = 0.0f;
#pragma unroll
        for (int from = 0; from < WARPS; ++from) sum += scratch[from * (16 * 8 * N) + i];
        product[i] = sum;
    }
    __syncthreads();
}

// ---- one element, for the embedding ----

__device__ __forceinline__ float half_at(const u8 *from) { return __half2float(__ushort_as_half(*reinterpret_cast<const u16 *>(from))); }

// Value (row, column), as the format defines it.
template <int F> __device__ __forceinline__ float element(const u8 *data, u32 columns, u32 row, u32 column) {
    const u8 *tile = data + (row / 16) * tile_bytes<F>(columns);
    const u8 *from = unit_at<F>(tile, column / 64);
    u32 g = row % 8, r = (row % 16) / 8, s = (column % 64) / 16, t = (column % 16) / 4, i = (column % 4) / 2 * 2 + r, high = column % 2;
    u32 lane = 4 * g + t;
    if (F == F32) return reinterpret_cast<const float *>(from)[((2 * s + i / 2) * 32 + lane) * 4 + (i % 2) * 2 + high];
    if (F == F16) return __half2float(reinterpret_cast<const half *>(from)[(s * 32 + lane) * 8 + 2 * i + high]);
    if (F == BF16) return __bfloat162float(reinterpret_cast<const __nv_bfloat16 *>(from)[(s * 32 + lane) * 8 + 2 * i + high]);
    const u8 *scales = from + Layout<F>::quants + Layout<F>::high;
    u32 b = s / 2;
    if (F == Q8_0) {
        int q = (int)from[(s / 2) * 512 + lane * 16 + (s % 2) * 8 + 2 * i + high] - 128;
        return (float)q * half_at(scales + g * 8 + r * 4 + b * 2);
    }
    u32 q = (reinterpret_cast<const u32 *>(from)[lane * 4 + s] >> (4 * i + 16 * high)) & 15u;
    if (Layout<F>::high == 128) q |= ((reinterpret_cast<const u32 *>(from + 512)[lane] >> (4 * s + i + 16 * high)) & 1u) << 4;
    if (Layout<F>::high == 256) q |= ((reinterpret_cast<const u32 *>(from + 512)[lane * 2 + s / 2] >> (2 * (4 * (s % 2) + i) + 16 * high)) & 3u) << 4;
    const u8 *head = unit_head<F>(tile, column / 64);
    if (F == Q4_0 || F == Q5_0) return (float)((int)q - (F == Q4_0 ? 8 : 16)) * half_at(scales + g * 8 + r * 4 + b * 2);
    if (F == Q4_1 || F == Q5_1) {
        const u8 *pair = scales + g * 16 + (2 * r + b) * 4;
        return __fadd_rn(__fmul_rn(half_at(pair), (float)q), half_at(pair + 2));
    }
    if (F == Q4_K || F == Q5_K) {
        const u8 *pair = scales + g * 8 + r * 4 + b * 2;
        const u8 *d = head + g * 8 + r * 4;
        return __fadd_rn(__fmul_rn(__fmul_rn(half_at(d), (float)pair[0]), (float)q), -__fmul_rn(half_at(d + 2), (float)pair[1]));
    }
    float scale = __fmul_rn(half_at(head + g * 4 + r * 2), (float)(i8)scales[g * 8 + r * 4 + s]);
    return __fmul_rn(scale, (float)((int)q - 32));
}
