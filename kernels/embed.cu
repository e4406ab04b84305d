// x = scale table[token], one block a row. The first part of the table applies commands first: for a step, each row its
// own; for a prompt, its only one.
#include "state.cuh"
#include "tile.cuh"

// Applies a command to its conversation, by a whole block.
__device__ __forceinline__ void apply(const EmbedArgs &a, const volatile Command *command, u32 flags, u32 slot) {
    Conversation *conversation = at<Conversation>(a.places.conversations) + slot;
    if (threadIdx.x == 0) {
        if (flags & SET_TOKEN) conversation->token = command->row.token;
        if (flags & SET_POSITION) conversation->position = command->row.position;
        if (flags & SET_GUIDE) conversation->guide = command->guide;
        if (flags & SET_STATE) conversation->state = command->state;
        if (flags & SET_OFFSET) conversation->offset = command->offset;
    }
    if (flags & SET_SAMPLER) {
        const volatile u32 *from = reinterpret_cast<const volatile u32 *>(&command->sampler);
        u32 *to = reinterpret_cast<u32 *>(&conversation->sampler);
        for (u32 i = threadIdx.x; i < sizeof(Sampler) / 4; i += THREADS) to[i] = from[i];
    }
    if (flags & SET_PAGES) {
        u64 skip = (u64)slot * a.places.pages;
        u32 first = command->first_page, end = first + command->pages;
        for (u32 i = first + threadIdx.x; i < end; i += THREADS)
            at<u64>(a.places.tables)[skip + i] = at<const volatile u64>(a.host_tables)[skip + i];
    }
    __syncthreads();
}

__device__ __forceinline__ u32 take(const EmbedArgs &a) {
    u32 index = a.places.step ? blockIdx.x : 0, sequence = *at<const u32>(a.sequence) + 1;
    Row *row = at<Row>(a.places.rows) + index;
    const volatile Command *command =
        at<const volatile Command>(a.commands) + (a.places.step ? sequence % COMMANDS * STEP_ROWS + index : 0);
    if (!a.places.step) {
        // The command is in device memory, and its row is the prompt's. Other blocks need only their token.
        if (blockIdx.x == 0) apply(a, command, command->flags, command->row.slot);
        return at<const u32>(a.tokens)[blockIdx.x];
    }
    // One thread reads the mailbox, because each read crosses the bus.
    __shared__ Row mine;
    __shared__ u32 flags;
    if (threadIdx.x == 0) {
        mine = *row, flags = 0;
        // The host writes the sequence last.
        if (command->row.sequence == sequence) {
            __threadfence_system();
            mine.slot = command->row.slot, mine.first = command->row.first, mine.advances = command->row.advances;
            mine.token = command->row.token, mine.position = command->row.position;
            mine.turned = command->row.turned;
            mine.mask = command->row.mask, mine.mask_at = command->row.mask_at;
            flags = command->flags;
        }
    }
    __syncthreads();
    if (mine.slot != NO_SLOT && flags) apply(a, command, flags, mine.slot);
    // A conversation's first row reads where the conversation stands; for its other rows, the host sends that with
    // every step.
    u32 token = mine.token;
    if (mine.slot == NO_SLOT) token = NO_TOKEN;
    else if (index == mine.first) token = at<const Conversation>(a.places.conversations)[mine.slot].token;
    if (threadIdx.x == 0) {
        Row left = mine;
        if (mine.slot != NO_SLOT && index == mine.first) {
            const Conversation *conversation = at<const Conversation>(a.places.conversations) + mine.slot;
            left.position = conversation->position, left.turned = conversation->position + conversation->offset;
        }
        left.token = token, left.sequence = sequence;
        *row = left;
    }
    return token;
}

extern "C" __global__ void __launch_bounds__(THREADS) embed(const __grid_constant__ EmbedArgs a) {
    LaunchTurn launch_turn(a.stamp);
    const Row *rows = at<const Row>(a.places.rows);
    if (!a.places.step && blockIdx.x >= rows->count) return;
    u32 token;
    if (a.first == 0) token = take(a);
    else
        token = a.places.step ? rows[blockIdx.x].slot == NO_SLOT ? NO_TOKEN : rows[blockIdx.x].token
                              : at<const u32>(a.tokens)[blockIdx.x];
    float *x = at<float>(a.x) + (u64)blockIdx.x * a.hidden;
    const u8 *table = at<const u8>(a.table.data);
    if (token == NO_TOKEN && a.first == 0)
        for (u32 i = threadIdx.x; i < a.hidden; i += THREADS) x[i] = 0.0f;
    if (token - a.first >= a.table.rows) return;
#define CASE(F, ...) \
    case F: \
        for (u32 i = threadIdx.x; i < a.hidden; i += THREADS) \
            x[i] = a.scale * element<F>(table, a.table.columns, token - a.first, i); \
        break;
    switch (a.table.format) { FORMATS(CASE) }
#undef CASE
}
