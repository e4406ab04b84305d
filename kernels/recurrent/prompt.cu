// The updates of a prompt: a block scans all rows for PART columns of a head, from the slot's state to the spare one.
//
// `commit` runs first and brings the slot's state to the prompt's first row. If it could not, all outputs are NaN.
#include "recurrent/rows.cuh"

template <bool DELTA> __device__ __forceinline__ void update_prompt(const UpdateArgs &a) {
    LaunchTurn launch_turn(a.stamp);
    __shared__ Tokens tokens;
    const State &state = a.state;
    const Part part(state, blockIdx.x);
    const Rows rows = rows_from(state.places, 0, a.rows);
    u8 *const own = layer_of_slot(state, rows.slot);
    u8 *const spare = layer_of(state, at<const Row>(state.places.rows)->spare);
    if (rows.position > 0 && *part.position(state, own) != rows.position) {
        put_all(a, part, rows, NOT_A_NUMBER);
        return;
    }
    Share share;
    if (rows.position == 0) share.clear();
    else share.load(state, own, part);
    Fetched<DELTA> fetched;
    fetched.read(a, part, 0, 0, min(rows.count, TILE));
    for (u32 first = 0; first < rows.count; first += TILE) {
        const u32 end = min(rows.count - first, TILE);
        fetched.leave_gates(a, part, 0, end, tokens);
        if (!DELTA) __syncthreads();
        fetched.leave(a, part, 0, end, tokens);
        __syncthreads();
        const u32 next = first + TILE;
        if (next < rows.count) fetched.read(a, part, next, 0, min(rows.count - next, TILE));
        for (u32 t = 0; t < end; ++t) {
            advance<DELTA>(share, tokens, t, part);
            put<DELTA>(a, part, share, tokens, t, first + t);
        }
        __syncthreads();
    }
    share.store(state, spare, part);
    if (threadIdx.x == 0) *part.position(state, spare) = rows.position + rows.count;
}

// Replays the pending updates of PART columns of a head in one layer.
template <bool DELTA> __device__ __forceinline__ void replay(const CommitArgs &a) {
    LaunchTurn launch_turn(a.stamp);
    __shared__ Tokens tokens;
    const State &state = a.state;
    const Part part(state, blockIdx.x);
    u8 *layer = at<u8>(a.address);
    u32 wanted = a.position;
    if (!a.address) {
        const Row *row = at<const Row>(state.places.rows);
        layer = layer_of_slot(state, row->slot), wanted = row->position;
    }
    layer += blockIdx.y * a.layer_bytes;
    u32 *const place = part.position(state, layer);
    const u32 position = *place, pending = wanted - position;
    // A state before the first token needs no memory.
    if (wanted == 0 || position >= wanted || pending > UPDATES) return;
    Share share;
    share.load(state, layer, part);
    take_pending<DELTA>(state, layer, part, position, pending, tokens);
    __syncthreads();
    for (u32 t = 0; t < pending; ++t) advance<DELTA>(share, tokens, t, part);
    share.store(state, layer, part);
    if (threadIdx.x == 0) *place = wanted;
}

extern "C" __global__ void __launch_bounds__(THREADS) delta_prompt(const __grid_constant__ UpdateArgs a) {
    update_prompt<true>(a);
}
extern "C" __global__ void __launch_bounds__(THREADS) mamba_prompt(const __grid_constant__ UpdateArgs a) {
    update_prompt<false>(a);
}
extern "C" __global__ void __launch_bounds__(THREADS) delta_commit(const __grid_constant__ CommitArgs a) {
    replay<true>(a);
}
extern "C" __global__ void __launch_bounds__(THREADS) mamba_commit(const __grid_constant__ CommitArgs a) {
    replay<false>(a);
}
