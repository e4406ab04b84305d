// A unit of weights on its way from memory to the tensor cores: copied to shared memory while others are multiplied, then
// in the registers of a warp, then fragments of mma.
#pragma once
#include "tile.cuh"

// What lies in shared memory of a unit: itself, then the head that it shares.
template <int F> struct Slot {
    static constexpr u32 bytes = Layout<F>::unit + Layout<F>::head;
    // Behind the quants.
    static constexpr u32 rest = Layout<F>::high + Layout<F>::scales;
    // Of four units with their head.
    static constexpr u32 four = Layout<F>::head + 4 * Layout<F>::unit;
};

// Weights are read once: they take no place in the first cache.
__device__ __forceinline__ void copy_once(u32 to, const u8 *from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory"); }

// By a whole warp: `from` is a unit's begin and 16 bytes a lane on, `rest` how far behind that a lane finds its part of
// what follows the quants, or of the head.
template <int F> struct Copy {
    static constexpr u32 REST = Slot<F>::rest / 16, HEAD = Layout<F>::head / 16;

    static __device__ __forceinline__ int rest(u32 head_to_unit, u32 lane) {
        return lane < REST ? (int)Layout<F>::quants : -(int)(head_to_unit + Slot<F>::rest);
    }
    static __device__ __forceinline__ void unit(u32 to, const u8 *from, int rest, u32 lane) {
#pragma unroll
        for (u32 i = 0; i < Layout<F>::quants / 512; ++i) copy_once(to + i * 512, from + i * 512);
        if (REST + HEAD > 0 && lane < REST + HEAD) copy_once(to + Layout<F>::quants, from + rest);
    }
};

// Fields of a word, one bit apart from where they are wanted: with the exponent they make a number that is the field's
// integer and a power of two more, exactly. What is more is taken off the sums: `Excess`.
__device__ __forceinline__ u32 field(u32 word, u32 mask, u32 exponents) {
    u32 made;
    asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(made) : "r"(word), "r"(mask), "r"(exponents));
    return made;
}

// What a format's integers are more than what they stand for, in the rows g and g + 8 of a tile.
template <int F, typename T> struct Excess {
    static constexpr float zero = F == Q4_0 ? 8.0f : F == Q5_0 ? 16.0f : F == Q6_K ? 32.0f : 0.0f;
    static constexpr bool nibbles = F == Q4_0 || F == Q4_1 || F == Q4_K;
    static constexpr float low = zero + 256.0f, high = zero + (nibbles ? 16.0f : 256.0f);
};
template <int F> struct Excess<F, __nv_bfloat16> {
    static constexpr float zero = F == Q4_0 ? 8.0f : F == Q5_0 ? 16.0f : F == Q6_K ? 32.0f : 0.0f;
    static constexpr float low = zero + 128.0f, high = zero + 128.0f;
};
template <> struct Excess<Q8_0, half> {
    static constexpr float low = 1024.0f + 128.0f, high = 1024.0f + 128.0f;
};
template <> struct Excess<Q8_0, __nv_bfloat16> {
    static constexpr float low = 0.0f, high = 0.0f;
};

// Nibbles as the four pairs of a step.
template <typename T> __device__ __forceinline__ void nibbles(u32 word, u32 (&a)[4]);
template <> __device__ __forceinline__ void nibbles<half>(u32 word, u32 (&a)[4]) {
    // At bit 2 of a half with 0x5c00 they are 256 more, at bit 6 with 0x4c00 16 more.
    u32 first = __funnelshift_l(word, word, 2), second = __funnelshift_r(word, word, 6);
    a[0] = field(first, 0x003c003cu, 0x5c005c00u), a[1] = field(first, 0x03c003c0u, 0x4c004c00u);
    a[2] = field(second, 0x003c003cu, 0x5c005c00u), a[3] = field(second, 0x03c003c0u, 0x4c004c00u);
}
template <> __device__ __forceinline__ void nibbles<__nv_bfloat16>(u32 word, u32 (&a)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = field(word >> (4 * i), 0x000f000fu, 0x43004300u);
}

// Integers below 64 at bits 0 and 16.
template <typename T> __device__ __forceinline__ u32 small(u32 pair);
template <> __device__ __forceinline__ u32 small<half>(u32 pair) { return (pair << 2) | 0x5c005c00u; }
template <> __device__ __forceinline__ u32 small<__nv_bfloat16>(u32 pair) { return pair | 0x43004300u; }

// Two of a word's bytes, the lower or the higher ones: Q8_0 stores them 128 more.
template <typename T> __device__ __forceinline__ u32 bytes(u32 word, int higher);
template <> __device__ __forceinline__ u32 bytes<half>(u32 word, int higher) { return __byte_perm(word, 0x64646464u, higher ? 0x4342 : 0x4140); }
template <> __device__ __forceinline__ u32 bytes<__nv_bfloat16>(u32 word, int higher) { return bytes_less_128<__nv_bfloat16>(word, higher); }

// What a lane holds of one unit.
template <int F> struct Unit {
    uint4 quants[Layout<F>::quants / 512];
    u32 high[Layout<F>::high ? Layout<F>::high / 128 : 1];
    // Rows g and g + 8, two blocks (Q6_K: four) each.
    u32 scales[Layout<F>::scales == 0 ? 1 : Layout<F>::scales / 32];
    // d (and dmin) of rows g and g + 8.
    u32 head[2];

    __device__ __forceinline__ Unit(const u8 *slot, u32 lane) {
#pragma unroll
        for (u32 i = 0; i < Layout<F>::quants / 512; ++i) quants[i] = *reinterpret_cast<const uint4 *>(slot + i * 512 + lane * 16);
        if constexpr (Layout<F>::high == 128) high[0] = *reinterpret_cast<const u32 *>(slot + 512 + lane * 4);
        if constexpr (Layout<F>::high == 256) {
            uint2 bits = *reinterpret_cast<const uint2 *>(slot + 512 + lane * 8);
            high[0] = bits.x, high[1] = bits.y;
        }
        const u8 *of_row = slot + Layout<F>::quants + Layout<F>::high;
        if constexpr (Layout<F>::scales == 64) {
            uint2 pair = *reinterpret_cast<const uint2 *>(of_row + lane / 4 * 8);
            scales[0] = pair.x, scales[1] = pair.y;
        }
        if constexpr (Layout<F>::scales == 128) {
            uint4 four = *reinterpret_cast<const uint4 *>(of_row + lane / 4 * 16);
            scales[0] = four.x, scales[1] = four.y, scales[2] = four.z, scales[3] = four.w;
        }
        const u8 *of_head = slot + Layout<F>::unit;
        if constexpr (Layout<F>::head == 64) {
            uint2 pair = *reinterpret_cast<const uint2 *>(of_head + lane / 4 * 8);
            head[0] = pair.x, head[1] = pair.y;
        }
        if constexpr (Layout<F>::head == 32) head[0] = *reinterpret_cast<const u32 *>(of_head + lane / 4 * 4);
    }

    __device__ __forceinline__ u32 word(u32 i, u32 of) const {
        const uint4 &q = quants[i];
        return of == 0 ? q.x : of == 1 ? q.y : of == 2 ? q.z : q.w;
    }

    // The four pairs of a step, as `Excess` says; and where T cannot hold them, what it lacks.
    template <typename T> __device__ __forceinline__ void step(u32 s, u32 (&a)[4], u32 (&rest)[4]) const {
        if constexpr (F == F16 || F == BF16 || F == SCALED_F16) {
            u32 raw[4] = {quants[s].x, quants[s].y, quants[s].z, quants[s].w};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if constexpr (Mma<T>::template holds<F>()) {
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
        } else if constexpr (F == F32) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const uint4 &q = quants[2 * s + i / 2];
                float low = __uint_as_float(i % 2 ? q.z : q.x), high_ = __uint_as_float(i % 2 ? q.w : q.y);
                a[i] = Mma<T>::pack(low, high_);
                rest[i] = Mma<T>::rest(low, high_, a[i]);
            }
        } else if constexpr (F == Q8_0) {
#pragma unroll
            for (int i = 0; i < 4; ++i) a[i] = bytes<T>(word(s / 2, s % 2 * 2 + i / 2), i % 2);
        } else if constexpr (Excess<F, half>::nibbles) {
            nibbles<T>(word(0, s), a);
        } else {
            u32 low = word(0, s);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                u32 pair = (low >> (4 * i)) & 0x000f000fu;
                if constexpr (Layout<F>::high == 128) pair |= ((high[0] >> (4 * s + i)) & 0x00010001u) << 4;
                if constexpr (Layout<F>::high == 256) pair |= ((high[s / 2] >> (2 * (4 * (s % 2) + i))) & 0x00030003u) << 4;
                a[i] = small<T>(pair);
            }
        }
    }

    // Scale and minimum of row g + 8 r in the block that ends with step s: value = scale q + minimum.
    __device__ __forceinline__ void scale(u32 s, u32 r, float &scale, float &minimum) const {
        minimum = 0.0f;
        auto low = [](u32 both) { return __half2float(__ushort_as_half((u16)(both & 0xffffu))); };
        auto high_ = [](u32 both) { return __half2float(__ushort_as_half((u16)(both >> 16))); };
        if constexpr (F == Q4_0 || F == Q5_0 || F == Q8_0) {
            scale = s / 2 ? high_(scales[r]) : low(scales[r]);
        } else if constexpr (F == Q4_1 || F == Q5_1) {
            u32 both = scales[2 * r + s / 2];
            scale = low(both), minimum = high_(both);
        } else if constexpr (F == Q4_K || F == Q5_K) {
            u32 two = scales[r] >> (16 * (s / 2));
            scale = low(head[r]) * (float)(two & 0xffu);
            minimum = -(high_(head[r]) * (float)((two >> 8) & 0xffu));
        } else if constexpr (F == Q6_K) {
            i8 quarter = (i8)(scales[r] >> (8 * s));
            scale = (r ? high_(head[0]) : low(head[0])) * (float)quarter;
        } else {
            scale = 1.0f;
        }
    }
};
