// Units of weights in flight from memory to a warp's ring in shared memory, while others are multiplied.
#pragma once
#include "tile.cuh"
#include "step/unit.cuh"

// A warp's ring: the units that it takes together, and how many of these groups the ring holds.
template <int F, u32 R> struct Ring {
    // With one row and scaled blocks, a warp takes units of two tiles at the same columns; otherwise two small units of
    // one tile.
    static constexpr bool pairs = R == 1 && Layout<F>::scaled;
    static constexpr u32 together = pairs || (R > 1 && Slot<F>::bytes < 1024) ? 2 : 1,
                         bytes = together * Slot<F>::bytes;
    // `room`: bytes a warp, chosen by measurement on a whole H100. For formats between Q4_0 and Q8_0, a larger ring
    // costs `down` of one row more than it gives the other products. Codes need room for their table.
    static constexpr bool middle = Slot<F>::bytes > 576 && Slot<F>::bytes < 1024;
    static constexpr u32 room = R > 1                        ? 3456
                                : middle || Layout<F>::codes ? 4608
                                                             : 6912,
                         few = room / bytes, most = R > 1 ? 4 : 6, large = R > 1 ? 3 : 6;
    static constexpr u32 depth = F == F32 ? 4 : Slot<F>::bytes >= 2048 ? large : few < 2 ? 2 : few > most ? most : few;
};

// Bytes from one of a warp's units to its next one in a tile: the units of the other warps are between them.
template <int F> constexpr u32 UNIT_STEP = WARPS / 4 * Slot<F>::four;

// Weights are read once, so they bypass the first cache. Predicated, without a branch.
__device__ __forceinline__ void copy_once(u32 to, const u8 *from, bool there) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16; }" ::"r"(to),
                 "l"(from), "r"((u32)there)
                 : "memory");
}

// Copies up to N units a round (1 or 2) to a slot of the ring. The part behind whole copies, and the head, have so few
// bytes that one copy can serve two units, by different lanes, if registers allow (JOINED).
template <int F, u32 N, bool JOINED> struct Fetch {
    static constexpr u32 REST = Slot<F>::rest / 16, PIECES = REST + Layout<F>::head / 16,
                         JOIN = JOINED && N == 2 && PIECES * 2 <= 32 ? 2 : 1;
    // More rounds than any tile has.
    static constexpr int NEVER = 0x10000;
    // The next round's first unit, 16 bytes a lane; the distance to the second unit, and to this lane's piece of the
    // part behind whole copies.
    const u8 *first = nullptr;
    u64 second = 0, rest = 0;
    u32 advance = 0;
    // Rounds that are left; negative at the end. In the last round the second unit may be missing: it exists if `left`
    // exceeds `lone` (0 or 1), and this lane's piece exists if `left` exceeds `rest_lone`.
    int left = 0, lone = 0, rest_lone, second_rest_lone = NEVER;
    // Whether this lane's piece belongs to the second unit, and its offset in memory and in the slot.
    bool of_second;
    int from;
    u32 to;

    __device__ __forceinline__ Fetch(u32 head_to_unit, u32 lane) {
        of_second = PIECES && JOIN > 1 && lane / PIECES == 1;
        u32 piece = of_second ? lane - PIECES : lane;
        from = (piece < REST ? (int)(Slot<F>::whole + piece * 16) : (int)((piece - REST) * 16) - (int)head_to_unit) -
               (int)(lane * 16);
        to = Slot<F>::whole + of_second * Slot<F>::bytes + piece * 16 - lane * 16;
        rest_lone = PIECES && lane < JOIN * PIECES ? 0 : NEVER;
    }

    // Starts a tile of `units` units, N a round.
    __device__ __forceinline__ void turn_to(const u8 *tile, u32 units) {
        first = tile, second = UNIT_STEP<F>, advance = N * UNIT_STEP<F>, left = (units + N - 1) / N,
        lone = N == 2 ? units % 2 : 0;
        turn_rest();
    }
    // Starts two tiles of `units` units, one of each a round; the second tile is `behind` bytes behind the first.
    __device__ __forceinline__ void turn_to(const u8 *tile, u64 behind, u32 units) {
        first = tile, second = behind, advance = UNIT_STEP<F>, left = units, lone = 0;
        turn_rest();
    }
    // Copies a round to `slot`, an address in shared memory, 16 bytes a lane.
    __device__ __forceinline__ void operator()(u32 slot) {
#pragma unroll
        for (u32 n = 0; n < N; ++n)
#pragma unroll
            for (u32 i = 0; i < Layout<F>::quants / 512; ++i)
                copy_once(slot + n * Slot<F>::bytes + i * 512, first + (n ? second : 0) + i * 512,
                          left > (n ? lone : 0));
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
