// A unit of weights on its way from shared memory to the tensor cores: in a warp's registers, then as operands of mma.
#pragma once
#include "tile.cuh"

// A unit in shared memory: the unit itself, then the head that it shares.
template <int F> struct Slot {
    static constexpr u32 bytes = Layout<F>::unit + Layout<F>::head;
    // Bytes that all lanes of a warp copy together, and bytes behind them.
    static constexpr u32 whole = Layout<F>::quants / 512 * 512, rest = Layout<F>::unit - whole;
    // Bytes of four units with their head.
    static constexpr u32 four = Layout<F>::head + 4 * Layout<F>::unit;
};

// How a format's integers appear in T. `zero`: the excess over the value that they stand for, in units of the last
// place. `low`, `high`: the size of that place in rows g and g + 8 of a tile, powers of two that divide their sums. An
// integer in the lowest bits of a half whose other bits are zero is that many times 2^-24, a subnormal number, which
// mma multiplies exactly. So a nibble is a number where it lies, or one shift away.
template <int F, typename T> struct Excess {
    static constexpr bool bytes = Layout<F>::bytes;
    static constexpr u32 zero = Layout<F>::zero + (bytes ? 1024 : 0);
    static constexpr float low = bytes ? 1.0f : 0x1p-24f, high = bytes ? 1.0f : low * (1 << Layout<F>::up);
    // Whether row g comes with row g + 8 above it, whose product is subtracted afterwards: one operation less a word.
    // Both together have at most ten bits, which is what an f16 holds without an exponent.
    static constexpr bool both = !bytes && Layout<F>::high < 256;
    // Whether all integers of a quarter are in one word.
    static constexpr bool nibbles = Layout<F>::high == 0 || Layout<F>::interleaved;
};
template <int F> struct Excess<F, __nv_bfloat16> {
    static constexpr u32 zero = Layout<F>::bytes ? 0 : Layout<F>::zero + 128;
    static constexpr float low = 1.0f, high = 1.0f;
    static constexpr bool both = false, nibbles = false;
};

// What mma adds a block's products to: the corrections, or zeros.
template <bool BEGINS> __device__ __forceinline__ void begin(float (&sums)[4], float a, float b, float c, float d) {
    sums[0] = BEGINS ? a : 0.0f, sums[1] = BEGINS ? b : 0.0f, sums[2] = BEGINS ? c : 0.0f, sums[3] = BEGINS ? d : 0.0f;
}

// The lower or the higher two bytes of a word; they are stored, or looked up, plus 128.
template <typename T> __device__ __forceinline__ u32 bytes(u32 word, int higher);
template <> __device__ __forceinline__ u32 bytes<half>(u32 word, int higher) {
    return __byte_perm(word, 0x64646464u, higher ? 0x4342 : 0x4140);
}
template <> __device__ __forceinline__ u32 bytes<__nv_bfloat16>(u32 word, int higher) {
    return bytes_less_128<__nv_bfloat16>(word, higher);
}
// Whether one operation does that.
template <typename T> constexpr bool BYTES_AT_ONCE = false;
template <> constexpr bool BYTES_AT_ONCE<half> = true;

// A lane's part of a unit.
template <int F> struct Unit {
    uint4 quants[(Layout<F>::quants + 511) / 512];
    u32 high[Layout<F>::high ? Layout<F>::high / 128 : 1];

    // `slot`: its address in shared memory, 16 bytes a lane.
    __device__ __forceinline__ Unit(u32 slot, u32 lane) {
#pragma unroll
        for (u32 i = 0; i < Layout<F>::quants / 512; ++i) quants[i] = load_shared<uint4>(slot + i * 512);
        if constexpr (Layout<F>::interleaved) {
            uint2 two = load_shared<uint2>(slot - lane * 8);
            quants[0] = make_uint4(two.x, two.y, 0, 0);
        }
        if constexpr (Layout<F>::high == 128) high[0] = load_shared<u32>(slot + Layout<F>::quants - lane * 12);
        if constexpr (Layout<F>::high == 256) {
            uint2 bits = load_shared<uint2>(slot + 512 - lane * 8);
            high[0] = bits.x, high[1] = bits.y;
        }
    }

    __device__ __forceinline__ u32 word(u32 i, u32 of) const {
        const uint4 &q = quants[i];
        return of == 0 ? q.x : of == 1 ? q.y : of == 2 ? q.z : q.w;
    }

    // The word that has a quarter's integers, or their lowest bits.
    __device__ __forceinline__ u32 word_of(u32 s) const { return word(0, Layout<F>::interleaved ? s / 2 : s); }

    // The four pairs of a quarter, as `Excess` describes; and their rounding errors if T does not hold the format.
    // `codes` looks codes up.
    template <typename T, typename Codes>
    __device__ __forceinline__ void quarter(u32 s, const Codes &codes, u32 (&a)[4], u32 (&rest)[4]) const {
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
            codes.of(word(0, s), s, a);
        } else if constexpr (Excess<F, T>::both && Excess<F, T>::nibbles) {
            u32 four = word_of(s);
            if constexpr (Layout<F>::interleaved) four = nibbles<F>(four, high_bits<F>(high, s), s % 2);
            a[0] = four & 0x00ff00ffu, a[1] = four & 0x00f000f0u;
            a[2] = __byte_perm(four, 0, 0x4341), a[3] = a[2] & 0x00f000f0u;
        } else if constexpr (Excess<F, T>::both) {
            a[0] = word(0, s) & 0x03ff03ffu, a[1] = word(0, s) & 0x03e003e0u;
            a[3] = pair<F>(word(0, s), high_bits<F>(high, s), s % 2, 3, 0);
            a[2] = pair<F>(word(0, s), 0, s % 2, 2, a[3]);
        } else {
            constexpr bool least = Excess<F, T>::high == Excess<F, T>::low;
#pragma unroll
            for (int i = 0; i < 4; ++i)
                a[i] =
                    pair<F, least>(word_of(s), high_bits<F>(high, s), s % 2, i, least ? Integers<F, T>::exponents : 0);
        }
    }
};
