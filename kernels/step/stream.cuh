// The way of a warp through its units of a team's tiles: which come when, and the ring that they come to.
#pragma once
#include "step/rows.cuh"

// The tiles that a team takes, as far apart as there are teams, in the order in which it takes them; of gate and up those at the same
// place, one after the other.
template <int F, u32 R> struct Share {
    bool gated;
    // The first one, and how far apart they are: neighbours are on different multiprocessors.
    u32 first, apart;
    u32 tiles0, tiles01, all, bytes;
    // Where a matrix would begin if all tiles were one matrix's.
    u64 data0, data1, data2;

    // `block`: of so many `blocks` that share.
    __device__ __forceinline__ Share(const StepArgs &a, u32 block, u32 blocks) : gated(a.outcome == GATED), bytes(tile_bytes<F>(a.weight0.columns)) {
        const Team<F, R> team;
        first = team.index * blocks + block, apart = team.teams * blocks;
        tiles0 = (a.weight0.rows + 15) / 16, tiles01 = tiles0 + (a.weight1.rows + 15) / 16;
        all = gated ? tiles0 : tiles01 + (a.weight2.rows + 15) / 16;
        data0 = a.weight0.data, data1 = a.weight1.data - (gated ? 0 : (u64)tiles0 * bytes), data2 = a.weight2.data - (u64)tiles01 * bytes;
    }

    // Which of the grid's tiles number i is.
    __device__ __forceinline__ u32 tile(u32 i) const { return first + (gated ? i / 2 : i) * apart; }
    __device__ __forceinline__ bool there(u32 i) const { return tile(i) < all; }
    // Where a tile lies, of the matrix that has it; of gate and up where the gate does, and where both do.
    __device__ __forceinline__ const u8 *place(u32 t) const { return at<const u8>((gated || t < tiles0 ? data0 : t < tiles01 ? data1 : data2) + (u64)t * bytes); }
    __device__ __forceinline__ const u8 *place_of(u32 i) const { return gated && i % 2 ? place(tile(i)) + (data1 - data0) : place(tile(i)); }
    // Which of the matrices, and which of its tiles.
    __device__ __forceinline__ u32 of(u32 i, u32 &within) const {
        within = tile(i);
        if (gated) return i % 2;
        if (within < tiles0) return 0;
        bool second = within < tiles01;
        within -= second ? tiles0 : tiles01;
        return second ? 1 : 2;
    }
};

// A warp's units: of each tile those `WARPS` apart, of two tiles at once where the team has two.
template <int F, u32 R, bool PHASED> struct Stream {
    static constexpr u32 D = Ring<F, R>::depth, N = Ring<F, R>::together, BYTES = Slot<F>::bytes, RING = D * N * BYTES;
    static constexpr bool PAIRS = Ring<F, R>::pairs;
    const Share<F, R> &share;
    const Phases<PHASED> &phases;
    u32 warp;
    // Units of a tile, or of a phase of it, and where the first one lies, 16 bytes a lane on.
    u32 mine, skip;
    Fetch<F, N, R == 1> fetch;
    // The ring, 16 bytes a lane on: what is multiplied next, and what was multiplied last, which is filled again.
    u32 ring, slot, freed;
    u32 fetched = 0, fetched_phase = 0;

    // Asks for what the ring has room for.
    __device__ __forceinline__ Stream(const Share<F, R> &share_, const Phases<PHASED> &phases_, const u8 *rings, u32 warp_, u32 lane)
        : share(share_), phases(phases_), warp(warp_), fetch(Layout<F>::head + warp_ % 4 * Layout<F>::unit, lane) {
        mine = mine_of(0), skip = warp / 4 * Slot<F>::four + Layout<F>::head + warp % 4 * Layout<F>::unit + lane * 16;
        ring = in_shared(rings + (Team<F, R>().index * WARPS + warp) * RING) + lane * 16, slot = ring, freed = last();
        if (share.there(0)) turn_to(0, 0);
#pragma unroll 1
        for (u32 to = ring; to != freed; to += N * BYTES) fill(to);
    }

    __device__ __forceinline__ bool pair(u32 i) const { return PAIRS && share.there(i + 1); }
    __device__ __forceinline__ void turn_to_phase(u32 phase) { mine = mine_of(phase); }
    // Until what is multiplied next is there.
    __device__ __forceinline__ void wait() const {
        asm volatile("cp.async.wait_group %0;" ::"n"(D - 2) : "memory");
        __syncwarp();
    }
    // To the next slot; more comes into the place of what was there before this one, which all lanes have read.
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
        u32 units = PHASED ? mine_of(phase) : mine, within = skip + (PHASED ? phase * (phases.units / 4 * Slot<F>::four) : 0);
        if (!PAIRS) {
            fetch.turn_to(share.place_of(i) + within, units);
            return;
        }
        // Tiles are taken by twos, so that of gate and up the first is a gate.
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
        // A group each time, also where there is nothing left: so that the oldest is always as far behind.
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
};
