// A unit of weights in the registers of a warp: read from memory, and made into fragments of mma.
#pragma once
#include "tile.cuh"

// Weights are read once: they take no place in the first cache.
__device__ __forceinline__ uint4 read_once(const uint4 *from) {
    uint4 to;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(to.x), "=r"(to.y), "=r"(to.z), "=r"(to.w) : "l"(from));
    return to;
}
__device__ __forceinline__ uint2 read_once(const uint2 *from) {
    uint2 to;
    asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(to.x), "=r"(to.y) : "l"(from));
    return to;
}
__device__ __forceinline__ u32 read_once(const u32 *from) {
    u32 to;
    asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(to) : "l"(from));
    return to;
}

// Nibbles of a word less `zero`, as the four pairs of a step.
template <typename T> __device__ __forceinline__ void nibbles_less(u32 word, int zero, u32 (&a)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = small_integers<T>((word >> (4 * i)) & 0x000f000fu, zero);
}
template <> __device__ __forceinline__ void nibbles_less<half>(u32 word, int zero, u32 (&a)[4]) {
    // Those of every other pair lie four bits higher: 1024 + 16 q, of which a sixteenth less 64.
    half2 less = __half2half2(__int2half_rn(1024 + zero)), sixteenth = __half2half2(__float2half_rn(0.0625f)), lesser = __half2half2(__int2half_rn(-64 - zero));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        u32 bits = word >> (i / 2 * 8), biased = (bits & (i % 2 ? 0x00f000f0u : 0x000f000fu)) | 0x64006400u;
        half2 pair = *reinterpret_cast<half2 *>(&biased);
        pair = i % 2 ? __hfma2(pair, sixteenth, lesser) : __hsub2(pair, less);
        a[i] = *reinterpret_cast<u32 *>(&pair);
    }
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
        for (u32 i = 0; i < Layout<F>::quants / 512; ++i) quants[i] = read_once(reinterpret_cast<const uint4 *>(from) + i * 32 + lane);
        if (Layout<F>::high == 128) high[0] = read_once(reinterpret_cast<const u32 *>(from + 512) + lane);
        if (Layout<F>::high == 256) {
            uint2 bits = read_once(reinterpret_cast<const uint2 *>(from + 512) + lane);
            high[0] = bits.x;
            high[Layout<F>::high == 256] = bits.y;
        }
        const u8 *scale = from + Layout<F>::quants + Layout<F>::high;
        if (Layout<F>::scales == 64) {
            uint2 pair = read_once(reinterpret_cast<const uint2 *>(scale) + lane / 4);
            scales[0] = pair.x;
            scales[Layout<F>::scales >= 64] = pair.y;
        }
        if (Layout<F>::scales == 128) {
            uint4 four = read_once(reinterpret_cast<const uint4 *>(scale) + lane / 4);
            scales[0] = four.x;
            scales[Layout<F>::scales >= 64] = four.y;
            scales[Layout<F>::scales == 128 ? 2 : 0] = four.z;
            scales[Layout<F>::scales == 128 ? 3 : 0] = four.w;
        }
        if (Layout<F>::head == 64) {
            uint2 pair = read_once(reinterpret_cast<const uint2 *>(unit_head<F>(tile, unit)) + lane / 4);
            head[0] = pair.x;
            head[1] = pair.y;
        }
        if (Layout<F>::head == 32) head[0] = read_once(reinterpret_cast<const u32 *>(unit_head<F>(tile, unit)) + lane / 4);
    }

    __device__ __forceinline__ u32 word(u32 i, u32 of) const {
        const uint4 &q = quants[i];
        return of == 0 ? q.x : of == 1 ? q.y : of == 2 ? q.z : q.w;
    }

    // The four pairs of a step, and where T cannot hold them, what it lacks.
    template <typename T> __device__ __forceinline__ void step(u32 s, u32 (&a)[4], u32 (&rest)[4]) const {
        if (F == F16 || F == BF16 || F == SCALED_F16) {
            u32 raw[4] = {quants[s % (Layout<F>::quants / 512)].x, quants[s % (Layout<F>::quants / 512)].y, quants[s % (Layout<F>::quants / 512)].z,
                          quants[s % (Layout<F>::quants / 512)].w};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (Mma<T>::template holds<F>()) {
                    a[i] = raw[i];
                } else {
                    float low, high_;
                    if (F != BF16) {
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
            for (int i = 0; i < 4; ++i) a[i] = bytes_less_128<T>(word((s / 2) % (Layout<F>::quants / 512), (s % 2) * 2 + i / 2), i % 2);
        } else if (F == Q4_0 || F == Q4_1 || F == Q4_K) {
            nibbles_less<T>(word(0, s), F == Q4_0 ? 8 : 0, a);
        } else {
            u32 nibbles = word(0, s);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                u32 pair = (nibbles >> (4 * i)) & 0x000f000fu;
                if (Layout<F>::high == 128) pair |= ((high[0] >> (4 * s + i)) & 0x00010001u) << 4;
                if (Layout<F>::high == 256) pair |= ((high[(s / 2) % (Layout<F>::high ? Layout<F>::high / 128 : 1)] >> (2 * (4 * (s % 2) + i))) & 0x00030003u) << 4;
                a[i] = small_integers<T>(pair, F == Q5_0 ? 16 : F == Q6_K ? 32 : 0);
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
