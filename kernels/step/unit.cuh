// A unit of weights on its way from shared memory to the tensor cores: in the registers of a warp, then fragments of mma.
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

// What a format's integers become more than what they stand for, in the rows g and g + 8 of a tile.
template <int F, typename T> struct Excess {
    static constexpr bool bytes = Layout<F>::bytes, nibbles = !bytes && Layout<F>::high == 0;
    static constexpr float zero = (float)Layout<F>::zero;
    static constexpr float low = zero + (bytes ? 1024.0f : 256.0f), high = zero + (bytes ? 1024.0f : nibbles ? 16.0f : 64.0f);
};
template <int F> struct Excess<F, __nv_bfloat16> {
    static constexpr float low = Layout<F>::bytes ? 0.0f : (float)Layout<F>::zero + 128.0f, high = low;
};

// Nibbles as the four pairs of a step.
template <typename T> __device__ __forceinline__ void nibbles(u32 word, u32 (&a)[4]);
template <> __device__ __forceinline__ void nibbles<half>(u32 word, u32 (&a)[4]) {
    // At bit 2 of a half with 0x5c00 they are 256 more, at bit 6 with 0x4c00 16 more.
    u32 first = word * 4, second = word >> 6;
    a[0] = field(first, 0x003c003cu, 0x5c005c00u), a[1] = field(first, 0x03c003c0u, 0x4c004c00u);
    a[2] = field(second, 0x003c003cu, 0x5c005c00u), a[3] = field(second, 0x03c003c0u, 0x4c004c00u);
}
template <> __device__ __forceinline__ void nibbles<__nv_bfloat16>(u32 word, u32 (&a)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = field(word >> (4 * i), 0x000f000fu, 0x43004300u);
}

// A pair of integers below 64: pair i of a word's nibbles, and what is above these, which lies at `bit` of `above` and 16 places higher;
// `bits`: all that is above a nibble.
template <typename T> __device__ __forceinline__ u32 small(u32 word, u32 i, u32 above, u32 bit, u32 bits);
template <> __device__ __forceinline__ u32 small<half>(u32 word, u32 i, u32 above, u32 bit, u32 bits) {
    // At bit 2 of a half with 0x5c00 they are 256 more, at bit 4 with 0x5400 64 more; what is above must lie at bit 6 or 8.
    u32 moved = i == 0 ? word * 4 : i == 1 ? word : i == 2 ? word >> 6 : word >> 8, to = i % 2 ? 8 : 6;
    u32 low = i % 2 ? field(moved, 0x00f000f0u, 0x54005400u) : field(moved, 0x003c003cu, 0x5c005c00u);
    return field(bit < to ? above << (to - bit) : above >> (bit - to), bits << to, low);
}
template <> __device__ __forceinline__ u32 small<__nv_bfloat16>(u32 word, u32 i, u32 above, u32 bit, u32 bits) {
    return field(bit < 4 ? above << (4 - bit) : above >> (bit - 4), bits << 4, field(word >> (4 * i), 0x000f000fu, 0x43004300u));
}

// Two of a word's bytes, the lower or the higher ones: they are stored, or looked up, 128 more.
template <typename T> __device__ __forceinline__ u32 bytes(u32 word, int higher);
template <> __device__ __forceinline__ u32 bytes<half>(u32 word, int higher) { return __byte_perm(word, 0x64646464u, higher ? 0x4342 : 0x4140); }
template <> __device__ __forceinline__ u32 bytes<__nv_bfloat16>(u32 word, int higher) { return bytes_less_128<__nv_bfloat16>(word, higher); }

// What a lane holds of one unit.
template <int F> struct Unit {
    uint4 quants[Layout<F>::quants / 512];
    u32 high[Layout<F>::high ? Layout<F>::high / 128 : 1];

    // `slot`: in shared memory, 16 bytes a lane behind its begin.
    __device__ __forceinline__ Unit(u32 slot, u32 lane) {
#pragma unroll
        for (u32 i = 0; i < Layout<F>::quants / 512; ++i) quants[i] = load_shared<uint4>(slot + i * 512);
        if constexpr (Layout<F>::high == 128) high[0] = load_shared<u32>(slot + 512 - lane * 12);
        if constexpr (Layout<F>::high == 256) {
            uint2 bits = load_shared<uint2>(slot + 512 - lane * 8);
            high[0] = bits.x, high[1] = bits.y;
        }
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
        } else if constexpr (Layout<F>::quants == 1024) {
#pragma unroll
            for (int i = 0; i < 4; ++i) a[i] = bytes<T>(word(s / 2, s % 2 * 2 + i / 2), i % 2);
        } else if constexpr (Layout<F>::codes) {
            u32 found[2];
            look_up(word(0, s), found);
#pragma unroll
            for (int i = 0; i < 4; ++i) a[i] = bytes<T>(found[i / 2], i % 2);
        } else if constexpr (Excess<F, half>::nibbles) {
            nibbles<T>(word(0, s), a);
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if constexpr (Layout<F>::high == 128) a[i] = small<T>(word(0, s), i, high[0], 4 * s + i, 0x00010001u);
                if constexpr (Layout<F>::high == 256) a[i] = small<T>(word(0, s), i, high[s / 2], 2 * (4 * (s % 2) + i), 0x00030003u);
            }
        }
    }
};
