// How a step's kernels look up the pairs of numbers that codes stand for.
#pragma once
#include "step/unit.cuh"

// By bit operations, the lookup takes longer than everything else that one row needs. So a block of one row has a table
// of all pairs of codes in shared memory, with a copy for each lane, so that no two lanes use the same bank. A pair is
// then one product, which gives its address, and one load. Loads alone would become the bottleneck, so some pairs are
// still looked up by operations.
template <int F, typename T, u32 R> struct Codes {
    static constexpr bool tabled = Layout<F>::codes && R == 1;
    static constexpr u32 ENTRY = 32 * sizeof(u32), BYTES = tabled ? 256 * ENTRY : 0;
    // This lane's entry of the first pair.
    u32 entries = 0;

    Codes() = default;
    __device__ __forceinline__ Codes(const u8 *table, u32 lane) : entries(tabled ? in_shared(table) + lane * 4 : 0) {}

    // Fills the table, by the block's first 256 threads, one pair each. The order of the 16-byte pieces spreads eight
    // threads over all banks.
    static __device__ __forceinline__ void fill(u8 *table) {
        if constexpr (!tabled) return;
        const u32 pair = threadIdx.x;
        if (pair >= 256) return;
        u32 found[2];
        look_up<F>(pair, found);
        const u32 made = bytes<T>(found[0], 0);
#pragma unroll
        for (u32 i = 0; i < 8; ++i)
            *reinterpret_cast<uint4 *>(table + pair * ENTRY + (pair + i) % 8 * 16) = make_uint4(made, made, made, made);
    }

    // The four pairs of a quarter's word.
    __device__ __forceinline__ void of(u32 word, u32 quarter, u32 (&pairs)[4]) const {
        u32 found[2];
        look_up<F>(word, found);
#pragma unroll
        for (u32 i = 0; i < 4; ++i)
            pairs[i] = loads(quarter, i) ? load_shared<u32>(place(word, i)) : bytes<T>(found[i / 2], i % 2);
    }

  private:
    // Whether a pair is loaded. With bf16, all are: no single operation makes a bf16 of a byte.
    static __device__ __forceinline__ constexpr bool loads(u32 quarter, u32 pair) {
        return tabled && (!BYTES_AT_ONCE<T> || quarter % 2 || pair >= 2);
    }
    // Address of the entry of byte i of the word: the byte times an entry's size, plus the start.
    __device__ __forceinline__ u32 place(u32 word, u32 i) const {
        u32 at;
        asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(at) : "r"(word), "r"(ENTRY << (8 * i)), "r"(entries));
        return at;
    }
};
