// How a block of a prompt's product copies inputs and weights into its stages, and sums and scales into its rings, with
// cp.async.
#pragma once
#include "prompt/block.cuh"

__device__ __forceinline__ void copy_16(u32 to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}
// Predicated, without a branch.
__device__ __forceinline__ void copy_16_if(u32 to, const void *from, bool there) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16; }" ::"r"(to),
                 "l"(from), "r"((u32)there));
}
// Writes zeros and reads nothing if the source does not exist.
__device__ __forceinline__ void copy_16_or_zero(u32 to, const void *from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0));
}
__device__ __forceinline__ void copies_end() { asm volatile("cp.async.commit_group;"); }
template <int LEFT> __device__ __forceinline__ void copies_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT));
}

// The copies of one thread. Eight threads copy a row of inputs; a warp copies whole units of weights.
template <int F, typename T, class S> struct Copies {
    typedef Pipeline<F, T, S> P;
    typedef Stage<F, S> G;
    typedef Rings<F, S> R;
    typedef Registers<F, T> Keep;
    static constexpr u32 UNITS = P::UNITS;
    // Warps, and the weight tiles of each.
    static constexpr u32 ALL = S::WARPS_ALONG_TOKENS * S::WARPS_ALONG_ROWS, EACH = (S::tiles + ALL - 1) / ALL;
    // Pieces of 16 bytes.
    static constexpr u32 UNIT_PIECES = Layout<F>::unit / 16, HEAD_PIECES = Layout<F>::head / 16;
    static constexpr u32 HIGH_PIECES = Layout<F>::high / 16;
    static constexpr u32 ROWS_AT_ONCE = S::threads / 8, INPUTS = S::tokens / ROWS_AT_ONCE;
    // The units of a round of the pipeline share a head.
    static_assert(4 % UNITS == 0);

    const PromptArgs &a;
    const Thread<S> &thread;
    // The block's first token, real tokens of the prompt, and units of a weight tile.
    u32 first, rows, units;
    // Where this warp's tiles lie in memory. An array that is a member costs registers; this one is a local variable.
    const u8 *const (&begins)[EACH];
    // This thread's row of inputs, and its places in memory and in shared memory.
    u32 row, to_input;
    const T *from_input;
    u32 to_weights;
    // Which piece of the sums of sixteen tokens and 64 columns this thread copies.
    u32 piece_of_sums, to_sums, to_scales;
    bool has_sums;

    __device__ __forceinline__ Copies(const PromptArgs &a_, const Thread<S> &thread_, u32 first_, u32 rows_, u32 base,
                                      u32 units_, const u8 *const (&begins_)[EACH])
        : a(a_), thread(thread_), first(first_), rows(rows_), units(units_), begins(begins_) {
        const u32 lane = thread.lane, warp = thread.warp;
        // The pieces of a row are permuted by its number, so that eight neighbouring rows use different banks.
        row = threadIdx.x / 8;
        to_input = Keep::template keep<Keep::inputs>(base + row * 128 + (threadIdx.x % 8 ^ row % 8) * 16);
        from_input = at<const T>(a.input) + (u64)(first + row) * a.stride + threadIdx.x % 8 * 8;
        to_weights = Keep::template keep<Keep::all>(base + G::inputs + warp * EACH * G::unit + lane * 16);
        piece_of_sums = threadIdx.x;
        to_sums = Keep::template keep<Keep::inputs>(base + P::sums_ring + piece_of_sums * 16);
        to_scales = 0;
        if (R::of_scales) {
            const u32 of_warp = base + P::scales_ring + warp * EACH * Layout<F>::scales;
            to_scales = Keep::template keep<Keep::all>(of_warp + (lane - HIGH_PIECES) * 16);
        }
        has_sums = piece_of_sums < S::tokens / 2 && first / 16 + piece_of_sums / 8 < (a.rows + 15) / 16;
    }

    // Finds the `begins` of a warp. Places beyond the last tile repeat that tile; their outputs are dropped.
    static __device__ __forceinline__ void find_tiles(const PromptArgs &a, const Thread<S> &thread, u32 first_tile,
                                                      u32 all_tiles, const u8 *(&begins)[EACH]) {
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
            u32 matrix, tile;
            tile_of(a, min(first_tile + thread.warp * EACH + i, all_tiles - 1), matrix, tile);
            begins[i] =
                at<const u8>(matrix_of(a, matrix).data + tile * tile_bytes<F>(a.weight0.columns)) + thread.lane * 16;
        }
    }

    // Step k of the pipeline, as far as its units exist, into the stage at `to`.
    __device__ __forceinline__ void load(u32 k, u32 to) const {
        load_inputs(k, to);
        load_weights(k, to);
        copies_end();
    }

    __device__ __forceinline__ void load_inputs(u32 k, u32 to) const {
        const T *inputs = from_input + k * (UNITS * 64);
        const u32 unit = k * UNITS;
#pragma unroll
        for (u32 u = 0; u < UNITS; ++u, to += G::bytes) {
            const bool there = unit + u < units;
#pragma unroll
            for (u32 i = 0; i < INPUTS; ++i)
                copy_16_or_zero(to_input + to + i * ROWS_AT_ONCE * 128,
                                inputs + (u64)i * ROWS_AT_ONCE * a.stride + u * 64,
                                there && first + row + i * ROWS_AT_ONCE < rows);
            if constexpr (R::of_sums) {
                static_assert(S::tokens / 2 <= S::threads);
                copy_16_if(to_sums + (unit + u) % R::units * R::sums,
                           sums_of_sixteen(a.sums, a.rows, unit + u, first) + piece_of_sums * 4, there && has_sums);
            }
        }
    }

    __device__ __forceinline__ void load_weights(u32 k, u32 to_stage) const {
        const u32 unit = k * UNITS;
        // Four units share a head, which lies in front of them.
        u32 skip = Layout<F>::head ? unit / 4 * (Layout<F>::head + 4 * Layout<F>::unit) : 0;
        u32 unit_skip = Layout<F>::head ? skip + Layout<F>::head + unit % 4 * Layout<F>::unit : unit * Layout<F>::unit;
#pragma unroll
        for (u32 u = 0; u < UNITS; ++u, to_stage += G::bytes, unit_skip += Layout<F>::unit) {
            const bool there = unit + u < units;
#pragma unroll
            for (u32 i = 0; i < EACH; ++i) {
                const u32 to = to_weights + to_stage + i * G::unit;
                const bool mine = there && (S::tiles % ALL == 0 || thread.warp * EACH + i < S::tiles);
                load_unit(i, to, unit_skip, (unit + u) % R::units, mine);
                if constexpr (HEAD_PIECES > 0)
                    copy_16_if(to + (G::unit - Layout<F>::head), begins[i] + skip, mine && thread.lane < HEAD_PIECES);
            }
        }
    }

    // A unit of the warp's tile i. The quants are 32 pieces; bits above them and scales follow.
    __device__ __forceinline__ void load_unit(u32 i, u32 to, u32 skip, u32 in_ring, bool mine) const {
#pragma unroll
        for (u32 piece = 0; piece < UNIT_PIECES; piece += 32) {
            u32 place = to + piece * 16;
            if (R::of_scales && piece == 32 && thread.lane >= HIGH_PIECES)
                place = to_scales + in_ring * R::scales + i * Layout<F>::scales;
            copy_16_if(place, begins[i] + skip + piece * 16,
                       mine && (piece + 32 <= UNIT_PIECES || thread.lane < UNIT_PIECES - piece));
        }
    }
};
