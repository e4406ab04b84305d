// A warp's way through its units of a team's tiles: their order, and the ring that they arrive in.
#pragma once
#include "step/rows.cuh"

// The tiles of a team, in the order in which it takes them. They are as far apart as there are teams. Gate and up at
// the same place follow each other.
template <int F, u32 R> struct Share {
    bool gated;
    // The first tile, and the distance to the next one: neighbouring tiles go to different multiprocessors.
    u32 first, apart;
    u32 tiles0, tiles01, all, bytes;
    // Where each matrix would begin if all tiles were in one matrix.
    u64 data0, data1, data2;

    // `block`: this block's number among the `blocks` that share the tiles.
    __device__ __forceinline__ Share(const StepArgs &a, u32 block, u32 blocks)
        : gated(a.epilogue == Epilogue::Gated), bytes(tile_bytes<F>(a.weight0.columns)) {
        const Team<F, R> team;
        first = team.index * blocks + block, apart = team.teams * blocks;
        tiles0 = (a.weight0.rows + 15) / 16, tiles01 = tiles0 + (a.weight1.rows + 15) / 16;
        all = gated ? tiles0 : tiles01 + (a.weight2.rows + 15) / 16;
        data0 = a.weight0.data, data1 = a.weight1.data - (gated ? 0 : (u64)tiles0 * bytes),
        data2 = a.weight2.data - (u64)tiles01 * bytes;
    }

    // The number of tile i in the grid.
    __device__ __forceinline__ u32 tile(u32 i) const { return first + (gated ? i / 2 : i) * apart; }
    __device__ __forceinline__ bool there(u32 i) const { return tile(i) < all; }
    // Where a tile lies in its matrix. Of gate and up: the gate's tile, and the tile that number i is.
    __device__ __forceinline__ const u8 *place(u32 t) const {
        return at<const u8>((gated || t < tiles0 ? data0 : t < tiles01 ? data1 : data2) + (u64)t * bytes);
    }
    __device__ __forceinline__ const u8 *place_of(u32 i) const {
        return gated && i % 2 ? place(tile(i)) + (data1 - data0) : place(tile(i));
    }
    // The matrix of tile i, and its number in it.
    __device__ __forceinline__ u32 of(u32 i, u32 &within) const {
        within = tile(i);
        if (gated) return i % 2;
        if (within < tiles0) return 0;
        bool second = within < tiles01;
        within -= second ? tiles0 : tiles01;
        return second ? 1 : 2;
    }
};

// A warp's units: every WARPS-th unit of a tile, or of two tiles at once if the team has two.
template <int F, u32 R, bool PHASED> struct Stream {
    static constexpr u32 D = Ring<F, R>::depth, N = Ring<F, R>::together, BYTES = Slot<F>::bytes, RING = D * N * BYTES;
    static constexpr bool PAIRS = Ring<F, R>::pairs;
    const Share<F, R> &share;
    const Phases<PHASED> &phases;
    u32 warp;
    // Units of a tile, or of its phase, and the offset of the first, 16 bytes a lane.
    u32 mine, skip;
    Fetch<F, N, R == 1> fetch;
    // The ring, 16 bytes a lane; the slot to multiply next; and the slot that was multiplied last, which is filled
    // next.
    u32 ring, slot, freed;
    u32 fetched = 0, fetched_phase = 0;

    // Requests as much as the ring holds.
    __device__ __forceinline__ Stream(const Share<F, R> &share_, const Phases<PHASED> &phases_, const u8 *rings,
                                      u32 warp_, u32 lane)
        : share(share_), phases(phases_), warp(warp_), fetch(Layout<F>::head + warp_ % 4 * Layout<F>::unit, lane) {
        mine = mine_of(0), skip = warp / 4 * Slot<F>::four + Layout<F>::head + warp % 4 * Layout<F>::unit + lane * 16;
        ring = in_shared(rings + (Team<F, R>().index * WARPS + warp) * RING) + lane * 16, slot = ring, freed = last();
        if (share.there(0)) turn_to(0, 0);
#pragma unroll 1
        for (u32 to = ring; to != freed; to += N * BYTES) fill(to);
    }

    __device__ __forceinline__ bool pair(u32 i) const { return PAIRS && share.there(i + 1); }
    __device__ __forceinline__ void turn_to_phase(u32 phase) { mine = mine_of(phase); }
    // Waits until the next slot has arrived.
    __device__ __forceinline__ void wait() const {
        asm volatile("cp.async.wait_group %0;" ::"n"(D - 2) : "memory");
        __syncwarp();
    }
    // Goes to the next slot, and refills the one before this, which all lanes have read.
    __device__ __forceinline__ void go_on() {
        fill(freed);
        freed = slot;
        slot = slot == last() ? ring : slot + N * BYTES;
    }

  private:
    __device__ __forceinline__ u32 last() const { return ring + (D - 1) * N * BYTES; }
    __device__ __forceinline__ u32 mine_of(u32 phase) const {
        u32 units = phases.of(phase);
        return units > warp ? (units - warp + WARPS - 1) / WARPS : 0;
    }
    __device__ __forceinline__ void turn_to(u32 i, u32 phase) {
        u32 units = PHASED ? mine_of(phase) : mine,
            within = skip + (PHASED ? phase * (phases.units / 4 * Slot<F>::four) : 0);
        if (!PAIRS) {
            fetch.turn_to(share.place_of(i) + within, units);
            return;
        }
        // Tiles are taken in pairs; of gate and up, the first is a gate.
        const u8 *first = share.place(share.tile(i)) + within;
        if (share.gated) fetch.turn_to(first, share.data1 - share.data0, units);
        else if (share.there(i + 1)) fetch.turn_to(first, share.place(share.tile(i + 1)) + within - first, units);
        else fetch.turn_to(first, units);
    }
    __device__ __forceinline__ void fill(u32 to) {
        fetch(to);
        if (fetch.left == 0) {
            if constexpr (!PHASED) {
                fetched += pair(fetched) ? 2 : 1;
                if (share.there(fetched)) turn_to(fetched, 0);
            } else {
                if (!share.there(++fetched)) fetched = 0, ++fetched_phase;
                if (fetched_phase < phases.count) turn_to(fetched, fetched_phase);
            }
        }
        // A group each time, even an empty one, so that the oldest is always equally far back.
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
};
