// The formats of weights: the other side of src/quant/. A new one is a line of FORMATS, a source in kernels/format/, and what it
// has that no other has.
#pragma once
#include "common.cuh"

// What the scales of a row are: none, halves, halves with minima, bytes of a scale and a minimum that the head's halves multiply, or
// signed bytes that the head's half multiplies.
enum Scales { NONE, HALVES, PAIRS, BYTE_PAIRS, BYTES };

// What is multiplied: values as they are, integers, or codes of four bits that stand for bytes.
enum Quants { VALUES, INTEGERS, CODES };

// Its number in ggml's enum ggml_type, of which the last is none; bytes of the parts of a unit (tile.cuh) and of the head that four units of a
// K format share; columns that share a scale; what its integers are more than they stand for; what scales and what quants are.
//         name        number quants high scales head block zero scales      quants
#define FORMATS(FORMAT) \
    FORMAT(F32,        0,     4096,  0,   0,     0,   0,    0,   NONE,       VALUES) \
    FORMAT(F16,        1,     2048,  0,   0,     0,   0,    0,   NONE,       VALUES) \
    FORMAT(BF16,       30,    2048,  0,   0,     0,   0,    0,   NONE,       VALUES) \
    FORMAT(Q8_0,       8,     1024,  0,   64,    0,   32,   128, HALVES,     INTEGERS) \
    FORMAT(Q4_0,       2,     512,   0,   64,    0,   32,   8,   HALVES,     INTEGERS) \
    FORMAT(Q4_1,       3,     512,   0,   128,   0,   32,   0,   PAIRS,      INTEGERS) \
    FORMAT(Q5_0,       6,     512,   128, 64,    0,   32,   16,  HALVES,     INTEGERS) \
    FORMAT(Q5_1,       7,     512,   128, 128,   0,   32,   0,   PAIRS,      INTEGERS) \
    FORMAT(Q4_K,       12,    512,   0,   64,    64,  32,   0,   BYTE_PAIRS, INTEGERS) \
    FORMAT(Q5_K,       13,    512,   128, 64,    64,  32,   0,   BYTE_PAIRS, INTEGERS) \
    FORMAT(Q6_K,       14,    512,   256, 64,    32,  16,   32,  BYTES,      INTEGERS) \
    FORMAT(IQ4_NL,     20,    512,   0,   64,    0,   32,   128, HALVES,     CODES) \
    FORMAT(IQ4_XS,     23,    512,   0,   32,    32,  32,   128, BYTES,      CODES) \
    FORMAT(SCALED_F16, 256,   2048,  0,   0,     0,   0,    0,   NONE,       VALUES)

#define NUMBERED(F, NUMBER, ...) F = NUMBER,
enum Format { FORMATS(NUMBERED) };
#undef NUMBERED

template <int F> struct Layout;
#define LAYOUT(F, NUMBER, QUANTS, HIGH, SCALES, HEAD, BLOCK, ZERO, KIND, QUANT) \
    template <> struct Layout<F> { \
        static constexpr u32 quants = QUANTS, high = HIGH, scales = SCALES, head = HEAD, unit = QUANTS + HIGH + SCALES, block = BLOCK; \
        static constexpr int zero = ZERO; \
        static constexpr Scales kind = KIND; \
        static constexpr bool scaled = KIND != NONE, minimum = KIND == PAIRS || KIND == BYTE_PAIRS; \
        static constexpr bool codes = QUANT == CODES, bytes = QUANTS == 1024 || QUANT == CODES; \
    };
FORMATS(LAYOUT)
#undef LAYOUT

// What codes stand for, and 128 more. Bit 3 of a code says whether its lower bits name one of the first eight bytes or of the last.
__device__ constexpr u32 CODEBOOK[4] = {0x3f2d1801u, 0x5966727eu, 0x766a5d4fu, 0xf1d9c5b5u};

// Each of four nibbles names a byte of two words; with bit 3 it is that byte's sign, eight times.
__device__ __forceinline__ u32 permute(u32 low, u32 high, u32 by) {
    u32 made;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(made) : "r"(low), "r"(high), "r"(by));
    return made;
}

// Eight codes as eight bytes. Each is looked up among the first eight and among the last: in one of them its bit 3 makes a sign of a
// byte, which is no bits or all, and the words are such that both together are right.
__device__ __forceinline__ void look_up(u32 codes, u32 (&bytes)[2]) {
    u32 others = codes ^ 0x88888888u;
    bytes[0] = permute(CODEBOOK[0], CODEBOOK[1], codes) ^ permute(CODEBOOK[2], CODEBOOK[3], others);
    bytes[1] = permute(CODEBOOK[0], CODEBOOK[1], codes >> 16) ^ permute(CODEBOOK[2], CODEBOOK[3], others >> 16);
}

// Words that lie side by side, read in pieces as large as can be.
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

// What a unit and its head have for the rows N g to N g + N - 1, each with the row eight below.
template <int F, u32 N> struct RowScales {
    static constexpr u32 SCALES = Layout<F>::scales / 32 * N, HEAD = Layout<F>::head / 32 * N;
    u32 scales[SCALES ? SCALES : 1], head[HEAD ? HEAD : 1];

    __device__ __forceinline__ void read(const u8 *unit, const u8 *of_head, u32 g) {
        if constexpr (SCALES > 0) read_words(unit + (Layout<F>::quants + Layout<F>::high + g * (4 * SCALES)), scales);
        if constexpr (HEAD > 0) read_words(of_head + g * (4 * HEAD), head);
    }

    // Of formats whose scales are bytes: what those of all of a row's blocks are multiplied by.
    __device__ __forceinline__ float shared(u32 r) const { return __half2float(__ushort_as_half((u16)(head[r] & 0xffffu))); }

    // Scale and minimum in the block that ends with step s, of row N g + r / 2 or of the one eight below it: value = scale q + minimum.
    __device__ __forceinline__ void of(u32 s, u32 r, float &scale, float &minimum) const {
        auto number = [](u32 bits) { return __half2float(__ushort_as_half((u16)bits)); };
        minimum = 0.0f;
        if constexpr (Layout<F>::kind == HALVES) {
            scale = number(s / 2 ? scales[r] >> 16 : scales[r] & 0xffffu);
        } else if constexpr (Layout<F>::kind == PAIRS) {
            u32 both = s / 2 ? scales[2 * r + 1] : scales[2 * r];
            scale = number(both & 0xffffu), minimum = number(both >> 16);
        } else if constexpr (Layout<F>::kind == BYTE_PAIRS) {
            u32 two = scales[r] >> (16 * (s / 2));
            scale = number(head[r] & 0xffffu) * (float)(two & 0xffu);
            minimum = -(number(head[r] >> 16) * (float)((two >> 8) & 0xffu));
        } else if constexpr (Layout<F>::kind == BYTES) {
            // Of 16 columns four bytes a row, of 32 two.
            u32 byte = Layout<F>::block == 16 ? scales[r] >> (8 * s) : scales[r / 2] >> (16 * (r % 2) + 8 * (s / 2));
            scale = number(r % 2 ? head[r / 2] >> 16 : head[r / 2] & 0xffffu) * (float)(i8)byte;
        } else {
            scale = 1.0f;
        }
    }
};
