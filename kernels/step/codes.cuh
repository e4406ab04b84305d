// Where a step's kernels find the pairs of numbers that codes stand for.
#pragma once
#include "step/unit.cuh"

// To look codes up by operations on bits takes one row longer than all else that it does with them. So a block of one row has a table of all
// pairs of codes in shared memory, a copy for each lane, so that no two lanes meet in a bank: a pair is then one product, which says where it
// lies, and one load. Loads alone would then be what it waits for, so some pairs are looked up by operations beside them.
template <int F, typename T, u32 R> struct Codes {
    static constexpr bool tabled = Layout<F>::codes && R == 1;
    static constexpr u32 ENTRY = 32 * sizeof(u32), BYTES = tabled ? 256 * ENTRY : 0;
    // This lane's entry of the first pair.
    u32 entries = 0;

    Codes() = default;
    __device__ __forceinline__ Codes(const u8 *table, u32 lane) : entries(tabled ? in_shared(table) + lane * 4 : 0) {}

    // By a block's first 256 threads, an entry each; its pieces of 16 bytes in an order in which those of eight threads are in all banks.
    static __device__ __forceinline__ void fill(u8 *table) {
        if constexpr (!tabled) return;
        const u32 pair = threadIdx.x;
        if (pair >= 256) return;
        u32 found[2];
        look_up(pair, found);
        const u32 made = bytes<T>(found[0], 0);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) *reinterpret_cast<uint4 *>(table + pair * ENTRY + (pair + i) % 8 * 16) = make_uint4(made, made, made, made);
    }

    // The four pairs of a step's word.
    __device__ __forceinline__ void of(u32 word, u32 step, u32 (&pairs)[4]) const {
        u32 found[2];
        look_up(word, found);
#pragma unroll
        for (u32 i = 0; i < 4; ++i) pairs[i] = loads(step, i) ? load_shared<u32>(place(word, i)) : bytes<T>(found[i / 2], i % 2);
    }

  private:
    // Of bf16, which bytes do not become by one operation, all.
    static __device__ __forceinline__ constexpr bool loads(u32 step, u32 pair) { return tabled && (!BYTES_AT_ONCE<T> || step % 2 || pair >= 2); }
    // Byte i of the word times an entry's size, and where entries are.
    __device__ __forceinline__ u32 place(u32 word, u32 i) const {
        u32 at;
        asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(at) : "r"(word), "r"(ENTRY << (8 * i)), "r"(entries));
        return at;
    }
};
