// The updates of a step: a block has the rows of one conversation and PART columns of a head.
//
// It replays the pending updates before its first row in registers, and stores the state after those that no step in
// flight can need again: of a step with one row, another may have been launched behind it, and both may be discarded.
// Its own rows only leave pending updates. If the state cannot reach the first row, all outputs are NaN.
#include "recurrent/rows.cuh"

template <bool DELTA>
__device__ __forceinline__ void leave_update(const State &state, u8 *layer, const Part &part, const Tokens &tokens,
                                             u32 t, u32 position) {
    const Update update = Update::of<DELTA>(state, layer, position);
    const u32 lane = threadIdx.x % 32;
    // One block writes the keys that several heads share.
    const bool is_first = part.first == 0 && (state.tiled ? part.head < state.key_heads
                                                          : part.head % (state.heads / state.key_heads) == 0);
    if (is_first)
        for (u32 key = lane; key < state.key_dim; key += 32)
            update.keys[part.key_head * state.key_dim + key] = tokens.keys[t][key];
    if (part.first + lane < state.value_dim)
        update.values[part.head * state.value_dim + part.first + lane] = tokens.values[t][lane];
    if (part.first == 0 && lane == 0) {
        update.decays[part.head] = tokens.decay[t];
        if (DELTA) update.betas[part.head] = tokens.beta[t];
    }
}

template <bool DELTA> __device__ __forceinline__ void update_step(const UpdateArgs &a) {
    LaunchTurn launch_turn(a.stamp);
    __shared__ Tokens tokens;
    const State &state = a.state;
    const Part part(state, blockIdx.x);
    const Rows rows = rows_from(state.places, blockIdx.y, a.rows);
    if (rows.count == 0) {
        if (rows.slot == NO_SLOT) put_all(a, part, {NO_SLOT, 0, rows.first, 1}, 0.0f);
        return;
    }
    u8 *const layer = layer_of_slot(state, rows.slot);
    // Before its first token, a conversation's state is zero.
    const u32 position = rows.position == 0 ? 0 : *part.position(state, layer);
    const u32 pending = rows.position - position, end = pending + rows.count;
    if (position > rows.position || end > UPDATES) {
        put_all(a, part, rows, NOT_A_NUMBER);
        return;
    }
    Share share;
    if (rows.position == 0) share.clear();
    else share.load(state, layer, part);
    Fetched<DELTA> fetched;
    fetched.read(a, part, rows.first, pending, end);
    take_pending<DELTA>(state, layer, part, position, pending, tokens);
    fetched.leave_gates(a, part, pending, end, tokens);
    __syncthreads();
    fetched.leave(a, part, pending, end, tokens);
    __syncthreads();
    const u32 kept = rows.count == 1 && pending > 0 ? pending - 1 : pending;
    for (u32 t = 0; t < kept; ++t) advance<DELTA>(share, tokens, t, part);
    if (kept > 0 || rows.position == 0) {
        share.store(state, layer, part);
        if (threadIdx.x == 0) *part.position(state, layer) = position + kept;
    }
    for (u32 t = pending + threadIdx.x / 32; t < end; t += WARPS)
        leave_update<DELTA>(state, layer, part, tokens, t, position + t);
    for (u32 t = kept; t < end; ++t) {
        advance<DELTA>(share, tokens, t, part);
        if (t >= pending) put<DELTA>(a, part, share, tokens, t, rows.first + t - pending);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) delta_step(const __grid_constant__ UpdateArgs a) {
    update_step<true>(a);
}
extern "C" __global__ void __launch_bounds__(THREADS) mamba_step(const __grid_constant__ UpdateArgs a) {
    update_step<false>(a);
}
