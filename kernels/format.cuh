// The formats of weights; src/quant/ is the host's side. A new format is a line of FORMATS, a source in
// kernels/format/, and code for whatever no other format has.
#pragma once
#include "common.cuh"

// Scales of a row: none; halves; halves with minima; bytes of a scale and a minimum, which the halves of the head
// multiply; nibbles of both in one byte, likewise; or signed bytes, which the half of the head multiplies.
enum Scales { NONE, HALVES, PAIRS, BYTE_PAIRS, NIBBLE_PAIRS, BYTES };

// Operands: plain values, integers, or codes of four bits that stand for bytes.
enum Quants { VALUES, INTEGERS, CODES };

// The columns are: the number in ggml's enum ggml_type (the last format is not in it); bytes of the parts of a unit
// (see tile.cuh), and of the head that four units of a K format share; columns that share a scale; the integer that
// stands for zero; kinds of scales and of quants.
// clang-format off
//         name        number quants high scales head  block zero  scales        quants
#define FORMATS(FORMAT) \
    FORMAT(F32,        0,     4096,  0,   0,     0,    0,    0,    NONE,         VALUES) \
    FORMAT(F16,        1,     2048,  0,   0,     0,    0,    0,    NONE,         VALUES) \
    FORMAT(BF16,       30,    2048,  0,   0,     0,    0,    0,    NONE,         VALUES) \
    FORMAT(Q8_0,       8,     1024,  0,   64,    0,    32,   128,  HALVES,       INTEGERS) \
    FORMAT(Q4_0,       2,     512,   0,   64,    0,    32,   8,    HALVES,       INTEGERS) \
    FORMAT(Q4_1,       3,     512,   0,   128,   0,    32,   0,    PAIRS,        INTEGERS) \
    FORMAT(Q5_0,       6,     512,   128, 64,    0,    32,   16,   HALVES,       INTEGERS) \
    FORMAT(Q5_1,       7,     512,   128, 128,   0,    32,   0,    PAIRS,        INTEGERS) \
    FORMAT(Q2_K,       10,    256,   0,   64,    64,   16,   0,    NIBBLE_PAIRS, INTEGERS) \
    FORMAT(Q3_K,       11,    256,   128, 64,    32,   16,   4,    BYTES,        INTEGERS) \
    FORMAT(Q4_K,       12,    512,   0,   64,    64,   32,   0,    BYTE_PAIRS,   INTEGERS) \
    FORMAT(Q5_K,       13,    512,   128, 64,    64,   32,   0,    BYTE_PAIRS,   INTEGERS) \
    FORMAT(Q6_K,       14,    512,   256, 64,    32,   16,   32,   BYTES,        INTEGERS) \
    FORMAT(IQ4_NL,     20,    512,   0,   64,    0,    32,   128,  HALVES,       CODES) \
    FORMAT(IQ4_XS,     23,    512,   0,   32,    32,   32,   128,  BYTES,        CODES) \
    FORMAT(IQ2_S,      22,    512,   0,   64,    32,   16,   128,  BYTES,        CODES) \
    FORMAT(IQ3_S,      21,    512,   0,   32,    32,   32,   128,  BYTES,        CODES) \
    FORMAT(IQ3_XXS,    18,    512,   0,   32,    32,   32,   128,  BYTES,        CODES) \
    FORMAT(SCALED_F16, 256,   2048,  0,   0,     0,    0,    0,    NONE,         VALUES)
// clang-format on

#define NUMBERED(F, NUMBER, ...) F = NUMBER,
enum Format { FORMATS(NUMBERED) };
#undef NUMBERED

// `up`: how many bits higher integers of row g + 8 lie than those of row g, which are less than 16, 32 or 64.
// `interleaved`: two quarters share a word (see `nibbles` in tile.cuh).
template <int F> struct Layout;
#define LAYOUT(F, NUMBER, QUANTS, HIGH, SCALES, HEAD, BLOCK, ZERO, KIND, QUANT) \
    template <> struct Layout<F> { \
        static constexpr u32 quants = QUANTS \
        , high = HIGH, scales = SCALES, head = HEAD, before_scales = QUANTS \
        + HIGH, unit = before_scales + SCALES, block = BLOCK; \
        static constexpr int zero = ZERO; \
        static constexpr Scales kind = KIND; \
        static constexpr bool scaled = KIND != NONE, \
                              minimum = KIND == PAIRS || KIND == BYTE_PAIRS || KIND == NIBBLE_PAIRS; \
        static constexpr bool codes = QUANT == CODES, bytes = QUANTS \
        == 1024 || QUANT == CODES; \
        static constexpr bool interleaved = QUANTS \
        == 256; \
        static constexpr u32 up = HIGH == 128 && !interleaved ? 5 : 4; \
    };
FORMATS(LAYOUT)
#undef LAYOUT

// The bytes that codes stand for, plus 128. Bit 3 of a code selects the first or the last eight bytes.
template <int F> __device__ __forceinline__ constexpr u32 codebook(u32) { return 0; }
#define CODEBOOK(F, A, B, C, D) \
    template <> __device__ __forceinline__ constexpr u32 codebook<F>(u32 i) { \
        return i == 0 ? A : i == 1 ? B : i == 2 ? C : D; \
    }
CODEBOOK(IQ4_NL, 0x3f2d1801u, 0x5966727eu, 0x766a5d4fu, 0xf1d9c5b5u)
CODEBOOK(IQ4_XS, 0x3f2d1801u, 0x5966727eu, 0x766a5d4fu, 0xf1d9c5b5u)
// Odd numbers, eight times as large: the greater a byte, the less 128 adds to rounding errors.
CODEBOOK(IQ3_S, 0x38281808u, 0x47576777u, 0x78685848u, 0xf8e8d8c8u)
CODEBOOK(IQ3_XXS, 0x5c544c42u, 0x636b737bu, 0x7c746c64u, 0xbeb4aca4u)
// Six of them have values: 8, 25 and 43 with both signs.
CODEBOOK(IQ2_S, 0x33221100u, 0x44546677u, 0x78675544u, 0xffeeddccu)
#undef CODEBOOK

// The share of the head's number that scales multiply, a power of two.
template <int F>
constexpr float SHARE_OF_HEAD = F == IQ3_XXS ? 0.25f
                                : F == IQ3_S ? 0.125f
                                : F == IQ2_S ? 0.125f
                                             : 1.0f;

// Each of four nibbles selects a byte of two words; a nibble with bit 3 set gives that byte's sign, eight times.
__device__ __forceinline__ u32 permute(u32 low, u32 high, u32 by) {
    u32 made;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(made) : "r"(low), "r"(high), "r"(by));
    return made;
}

// Eight codes as eight bytes. A code is looked up among the first eight bytes and among the last eight. In the wrong
// one, its bit 3 turns the byte into its sign: all zeros or all ones. The words are chosen so that the exclusive or of
// both is right.
template <int F> __device__ __forceinline__ void look_up(u32 codes, u32 (&bytes)[2]) {
    u32 others = codes ^ 0x88888888u;
    const u32 a = codebook<F>(0), b = codebook<F>(1), c = codebook<F>(2), d = codebook<F>(3);
    bytes[0] = permute(a, b, codes) ^ permute(c, d, others);
    bytes[1] = permute(a, b, codes >> 16) ^ permute(c, d, others >> 16);
}

// Reads adjacent words in the largest possible pieces.
template <u32 N> __device__ __forceinline__ void read_words(const u8 *from, u32 (&words)[N]) {
    if constexpr (N % 4 == 0) {
#pragma unroll
        for (u32 i = 0; i < N; i += 4) {
            uint4 four = *reinterpret_cast<const uint4 *>(from + 4 * i);
            words[i] = four.x, words[i + 1] = four.y, words[i + 2] = four.z, words[i + 3] = four.w;
        }
    } else if constexpr (N == 2) {
        uint2 two = *reinterpret_cast<const uint2 *>(from);
        words[0] = two.x, words[1] = two.y;
    } else {
        words[0] = *reinterpret_cast<const u32 *>(from);
    }
}

// The scales of a unit, and its head, for one row.
template <int F> struct RowScale {
    // Bytes of both; 0 if the format has none.
    static constexpr u32 EACH = Layout<F>::scales / 16, HEAD = Layout<F>::head / 16;
    u32 words[EACH == 8 ? 2 : 1], head = 0;

    // Offsets of those of row g + 8 half from the start of a unit.
    static __device__ __forceinline__ u32 place(u32 g, u32 half) {
        return Layout<F>::quants + Layout<F>::high + (2 * g + half) * EACH;
    }
    static __device__ __forceinline__ u32 head_place(u32 g, u32 half) {
        return Layout<F>::unit + (2 * g + half) * HEAD;
    }

    __device__ __forceinline__ void read(const u8 *from, const u8 *from_head) {
        auto small = [](const u8 *at, u32 bytes) -> u32 {
            return bytes == 4 ? *reinterpret_cast<const u32 *>(at) : *reinterpret_cast<const u16 *>(at);
        };
        if constexpr (EACH == 8) read_words(from, words);
        else words[0] = small(from, EACH);
        if constexpr (HEAD > 0) head = small(from_head, HEAD);
    }
    // Whether all blocks of a row share a factor for scales, and one for minima (formats whose scales are bytes).
    static constexpr bool SHARED =
        Layout<F>::kind == BYTE_PAIRS || Layout<F>::kind == NIBBLE_PAIRS || Layout<F>::kind == BYTES;
    // Those factors, and the scale and minimum of block b that they multiply. `by`, a power of two, also multiplies the
    // minimum.
    __device__ __forceinline__ void shared(float &scale, float &minimum, float by) const {
        static_assert(SHARED);
        scale = SHARE_OF_HEAD<F> * __half2float(__ushort_as_half((u16)(head & 0xffffu))),
        minimum = -by * __half2float(__ushort_as_half((u16)(head >> 16)));
    }
    __device__ __forceinline__ void within(u32 b, float &scale, float &minimum) const {
        static_assert(SHARED);
        if constexpr (Layout<F>::kind == NIBBLE_PAIRS) {
            u32 both = words[0] >> (8 * b);
            scale = (float)(both & 15u), minimum = (float)(both >> 4 & 15u);
            return;
        }
        constexpr u32 EVERY = Layout<F>::minimum ? 2 : 1;
        u32 byte = words[0] >> (8 * EVERY * b) & 0xffu;
        scale = Layout<F>::minimum ? (float)byte : (float)(i8)byte;
        minimum = Layout<F>::minimum ? (float)(words[0] >> (8 * (EVERY * b + 1)) & 0xffu) : 0.0f;
    }
    // In block b: value = scale q + minimum. `by`, a power of two, also multiplies the minimum.
    __device__ __forceinline__ void of(u32 b, float &scale, float &minimum, float by) const {
        auto number = [](u32 bits) { return __half2float(__ushort_as_half((u16)bits)); };
        auto byte = [&](u32 i) { return words[0] >> (8 * i) & 0xffu; };
        minimum = 0.0f;
        if constexpr (Layout<F>::kind == HALVES) {
            scale = number(b ? words[0] >> 16 : words[0] & 0xffffu);
        } else if constexpr (Layout<F>::kind == PAIRS) {
            // A selection, not an index: if b is not a constant, an index would put the words into local memory.
            u32 word = b ? words[EACH == 8] : words[0];
            scale = number(word & 0xffffu), minimum = by * number(word >> 16);
        } else if constexpr (Layout<F>::kind == BYTE_PAIRS) {
            scale = number(head & 0xffffu) * (float)byte(2 * b);
            minimum = -by * number(head >> 16) * (float)byte(2 * b + 1);
        } else if constexpr (Layout<F>::kind == NIBBLE_PAIRS) {
            scale = number(head & 0xffffu) * (float)(byte(b) & 15u);
            minimum = -by * number(head >> 16) * (float)(byte(b) >> 4);
        } else if constexpr (Layout<F>::kind == BYTES) {
            scale = SHARE_OF_HEAD<F> * number(head & 0xffffu) * (float)(i8)byte(b);
        } else {
            scale = 1.0f;
        }
    }
};

// The scales of a unit, and its head, for the rows N g to N g + N - 1, each with the row eight below.
template <int F, u32 N> struct RowScales {
    static constexpr u32 SCALES = Layout<F>::scales / 32 * N, HEAD = Layout<F>::head / 32 * N;
    u32 scales[SCALES ? SCALES : 1], head[HEAD ? HEAD : 1];

    __device__ __forceinline__ void read(const u8 *unit, const u8 *of_head, u32 g) {
        if constexpr (SCALES > 0) read_words(unit + (Layout<F>::quants + Layout<F>::high + g * (4 * SCALES)), scales);
        if constexpr (HEAD > 0) read_words(of_head + g * (4 * HEAD), head);
    }

    // For formats whose scales are bytes: the factor for the scales of all blocks of a row.
    __device__ __forceinline__ float shared(u32 r) const {
        return SHARE_OF_HEAD<F> * __half2float(__ushort_as_half((u16)(head[r] & 0xffffu)));
    }
    // The factor for their minima.
    __device__ __forceinline__ float shared_minimum(u32 r) const {
        return -__half2float(__ushort_as_half((u16)(head[r] >> 16)));
    }

    // The scales of row N g + r / 2, or of the row eight below it.
    __device__ __forceinline__ RowScale<F> row(u32 r) const {
        constexpr u32 EACH = Layout<F>::scales / 16, HEADS = Layout<F>::head / 16;
        auto half_of = [](u32 word, u32 odd) { return odd ? word >> 16 : word & 0xffffu; };
        RowScale<F> row;
        if constexpr (EACH == 8) row.words[0] = scales[2 * r], row.words[1] = scales[2 * r + 1];
        if constexpr (EACH == 4) row.words[0] = scales[r];
        if constexpr (EACH == 2) row.words[0] = half_of(scales[r / 2], r % 2);
        if constexpr (HEADS == 4) row.head = head[r];
        if constexpr (HEADS == 2) row.head = half_of(head[r / 2], r % 2);
        return row;
    }
    // Its scale and minimum in the block that ends with quarter s.
    __device__ __forceinline__ void of(u32 s, u32 r, float &scale, float &minimum, float by = 1.0f) const {
        constexpr u32 BLOCK = Layout<F>::block ? Layout<F>::block : 64;
        row(r).of(s * 16 / BLOCK, scale, minimum, by);
    }
};
