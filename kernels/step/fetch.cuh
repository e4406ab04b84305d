// Units of weights on their way from memory to a warp's ring in shared memory, while others are multiplied.
#pragma once
#include "tile.cuh"
#include "step/unit.cuh"

// A warp's ring: units that are taken together, and how many times that many it holds.
template <int F, u32 R> struct Ring {
    // Of one row and scaled blocks units of two tiles are taken together, which meet the same columns; otherwise small ones of one tile.
    static constexpr bool pairs = R == 1 && Layout<F>::scaled;
    static constexpr u32 together = pairs || (R > 1 && Slot<F>::bytes < 1024) ? 2 : 1, bytes = together * Slot<F>::bytes;
    // `room`: bytes a warp, with which a whole H100 was quickest. Of formats between Q4_0 and Q8_0 larger rings cost `down` of one row more
    // than they give the other products (measured with Q4_K and Q6_K; NOTES.md). Codes have a table beside them.
    static constexpr bool middle = Slot<F>::bytes > 576 && Slot<F>::bytes < 1024;
    static constexpr u32 room = R > 1 ? 3456 : middle || Layout<F>::codes ? 4608 : 6912, few = room / bytes, most = R > 1 ? 4 : 6, large = R > 1 ? 3 : 6;
    static constexpr u32 depth = F == F32 ? 4 : Slot<F>::bytes >= 2048 ? large : few < 2 ? 2 : few > most ? most : few;
};

// From one of a warp's units to its next one in a tile: between them lie those of the other warps.
template <int F> constexpr u32 UNIT_STEP = WARPS / 4 * Slot<F>::four;

// Weights are read once: they take no place in the first cache. Without a branch, for whoever is not `there`.
__device__ __forceinline__ void copy_once(u32 to, const u8 *from, bool there) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16; }" ::"r"(to), "l"(from), "r"((u32)there) : "memory");
}

// Copies up to N units a round, 1 or 2, to a slot of the ring. What follows their quants, and their head, are so few bytes that those of
// two units may be one copy, by other lanes, if there are registers for that.
template <int F, u32 N, bool JOINED> struct Fetch {
    static constexpr u32 REST = Slot<F>::rest / 16, PIECES = REST + Layout<F>::head / 16, JOIN = JOINED && N == 2 && PIECES * 2 <= 32 ? 2 : 1;
    // More rounds than there are.
    static constexpr int NEVER = 0x10000;
    // Where the next round's first unit begins, and 16 bytes a lane on; how far behind it the second lies, and this lane's piece of
    // what follows.
    const u8 *first = nullptr;
    u64 second = 0, rest = 0;
    u32 advance = 0;
    // Rounds that are left; below 0 where there are none. The second unit may be missing in the last one: then that many must be more
    // than `lone`, which is 1, for it to be there; and for this lane's piece more than `rest_lone`.
    int left = 0, lone = 0, rest_lone, second_rest_lone = NEVER;
    // Whether this lane's piece is of the second unit, and where it lies behind the unit's begin, in memory and in the slot.
    bool of_second;
    int from;
    u32 to;

    __device__ __forceinline__ Fetch(u32 head_to_unit, u32 lane) {
        of_second = PIECES && JOIN > 1 && lane / PIECES == 1;
        u32 piece = of_second ? lane - PIECES : lane;
        from = (piece < REST ? (int)(Layout<F>::quants + piece * 16) : (int)((piece - REST) * 16) - (int)head_to_unit) - (int)(lane * 16);
        to = Layout<F>::quants + of_second * Slot<F>::bytes + piece * 16 - lane * 16;
        rest_lone = PIECES && lane < JOIN * PIECES ? 0 : NEVER;
    }

    // So many units of a tile, N a round.
    __device__ __forceinline__ void turn_to(const u8 *tile, u32 units) {
        first = tile, second = UNIT_STEP<F>, advance = N * UNIT_STEP<F>, left = (units + N - 1) / N, lone = N == 2 ? units % 2 : 0;
        turn_rest();
    }
    // So many of two tiles, one of each a round, of which the second lies `behind` the first.
    __device__ __forceinline__ void turn_to(const u8 *tile, u64 behind, u32 units) {
        first = tile, second = behind, advance = UNIT_STEP<F>, left = units, lone = 0;
        turn_rest();
    }
    // A round. `slot`: in shared memory, 16 bytes a lane behind its begin.
    __device__ __forceinline__ void operator()(u32 slot) {
#pragma unroll
        for (u32 n = 0; n < N; ++n)
#pragma unroll
            for (u32 i = 0; i < Layout<F>::quants / 512; ++i)
                copy_once(slot + n * Slot<F>::bytes + i * 512, first + (n ? second : 0) + i * 512, left > (n ? lone : 0));
        if constexpr (PIECES > 0) {
            copy_once(slot + to, first + rest, left > rest_lone);
            if (N > JOIN) copy_once(slot + Slot<F>::bytes + to, first + (second + rest), left > second_rest_lone);
        }
        first += advance;
        --left;
    }

  private:
    __device__ __forceinline__ void turn_rest() {
        if constexpr (PIECES == 0) return;
        rest = (of_second ? second : 0) + from;
        if (rest_lone < NEVER) rest_lone = of_second ? lone : 0;
        second_rest_lone = max(lone, rest_lone);
    }
};
