// The choice of each row's next token: penalty, then greedy; or temperature, top-k, top-p, min-p and one draw.
// All parameters are of the row's conversation, so that one recorded step serves every request.
//
// Blocks of a row share the scan for the greatest logit; the last to arrive decides. It selects by radix over the
// bits of the logits instead of sorting, and adds weights as integers, so that the order in which threads
// add them changes nothing.
#include "common.cuh"
#include "state.cuh"

#define CHOOSERS 1024
#define CHOOSE_WARPS (CHOOSERS / 32)
// What the host reads as a failure: no vocabulary is so large.
#define NOT_FINITE 0xffffffffu
// Weights are exp(x - max) in units of 2^-30.
#define UNIT 1073741824.0f

struct Best {
    float logit;
    u32 token;
};

__device__ __forceinline__ Best better(Best a, Best b) {
    return b.logit > a.logit || (b.logit == a.logit && b.token < a.token) ? b : a;
}

__device__ Best best_of_block(Best best, Best *scratch) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        Best other = {__shfl_xor_sync(0xffffffffu, best.logit, offset), __shfl_xor_sync(0xffffffffu, best.token, offset)};
        best = better(best, other);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = best;
    __syncthreads();
    best = scratch[0];
    for (int warp = 1; warp < CHOOSE_WARPS; ++warp) best = better(best, scratch[warp]);
    return best;
}

// Unsigned integers in the order of the floats.
__device__ __forceinline__ u32 key_of(float logit) {
    u32 bits = __float_as_uint(logit);
    return bits ^ ((bits >> 31) ? 0xffffffffu : 0x80000000u);
}

// Philox4x32-10 (Salmon et al. 2011), as src/sampler/philox.rs: a number in 0..1.
__device__ float uniform(const Sampler *state) {
    u32 key0 = state->seed_low, key1 = state->seed_high, c0 = state->counter_low, c1 = state->counter_high, c2 = 0, c3 = 0;
    for (int round = 0; round < 10; ++round) {
        u32 low0 = 0xD2511F53u * c0, high0 = __umulhi(0xD2511F53u, c0), low1 = 0xCD9E8D57u * c2, high1 = __umulhi(0xCD9E8D57u, c2);
        c0 = high1 ^ c1 ^ key0, c1 = low1, c2 = high0 ^ c3 ^ key1, c3 = low0;
        key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
    }
    return (float)(c0 >> 8) / 16777216.0f;
}

struct Draw {
    const float *logits;
    u32 vocabulary;
    float greatest;
    float temperature;

    __device__ __forceinline__ u64 weight(float logit) const { return (u64)(expf((logit - greatest) / temperature) * UNIT); }

    // The least key of which all keys that are not less hold `wanted`, counted (weigh = false) or weighed,
    // of those not less than `floor`.
    __device__ u32 select(bool weigh, u64 wanted, u32 floor, u64 *histogram, u64 *found) const {
        u32 prefix = 0;
        for (int shift = 24; shift >= 0; shift -= 8) {
            __syncthreads();
            if (threadIdx.x < 256) histogram[threadIdx.x] = 0;
            __syncthreads();
            for (u32 i = threadIdx.x; i < vocabulary; i += CHOOSERS) {
                u32 key = key_of(logits[i]);
                bool same = shift == 24 || (key >> (shift + 8)) == (prefix >> (shift + 8));
                if (key >= floor && same) atomicAdd(&histogram[(key >> shift) & 255u], weigh ? weight(logits[i]) : 1ull);
            }
            __syncthreads();
            if (threadIdx.x == 0) {
                u64 left = wanted;
                int digit = 255;
                while (digit > 0 && histogram[digit] < left) left -= histogram[digit--];
                found[0] = (u64)digit;
                found[1] = left;
            }
            __syncthreads();
            prefix |= (u32)found[0] << shift;
            wanted = found[1];
        }
        return prefix;
    }
};

extern "C" __global__ void __launch_bounds__(CHOOSERS, 1) choose(const __grid_constant__ ChooseArgs a) {
    Stopwatch stopwatch(a.stamp);
    __shared__ Best scratch[CHOOSE_WARPS];
    __shared__ u64 histogram[256];
    __shared__ u64 found[2];
    __shared__ bool last;
    u32 index = blockIdx.y;
    const Row *row = at<const Row>(a.places.rows) + index;
    if (row->entry == NOBODY) return;
    Conversation *conversation = at<Conversation>(a.places.conversations) + row->entry;
    Sampler *state = &conversation->sampler;
    float *logits = at<float>(a.logits) + (u64)index * a.vocabulary;
    u32 each = (a.vocabulary + gridDim.x - 1) / gridDim.x, first = blockIdx.x * each, end = min(first + each, a.vocabulary);
    if (threadIdx.x < HISTORY) {
        u32 held = min(state->pushed, (u32)HISTORY), token = state->history[threadIdx.x];
        bool mine = threadIdx.x < held && token >= first && token < end;
        for (u32 i = 0; i < threadIdx.x; ++i) mine = mine && state->history[i] != token;
        if (mine) logits[token] = logits[token] > 0.0f ? logits[token] / state->repetition_penalty : logits[token] * state->repetition_penalty;
    }
    __syncthreads();
    Best best = {-INFINITY, NOT_FINITE};
    for (u32 i = first + threadIdx.x; i < end; i += CHOOSERS) {
        // What is not finite wins, and is found by its value in the end.
        float logit = logits[i];
        best = better(best, isfinite(logit) ? Best{logit, i} : Best{INFINITY, NOT_FINITE});
    }
    best = best_of_block(best, scratch);
    Best *partials = at<Best>(a.partials) + index * gridDim.x;
    if (threadIdx.x == 0) {
        u32 *arrivals = at<u32>(a.arrivals) + index;
        partials[blockIdx.x] = best;
        __threadfence();
        last = atomicAdd(arrivals, 1) == gridDim.x - 1;
        if (last) *arrivals = 0;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    best = Best{-INFINITY, NOT_FINITE};
    if (threadIdx.x < gridDim.x) best = Best{__ldcg(&partials[threadIdx.x].logit), __ldcg(&partials[threadIdx.x].token)};
    best = best_of_block(best, scratch);
    u32 token = best.token;
    if (state->temperature > 0.0f && isfinite(best.logit)) {
        Draw draw = {logits, a.vocabulary, best.logit, state->temperature};
        u32 floor = 0;
        if (state->top_k > 0 && state->top_k < a.vocabulary) floor = draw.select(false, state->top_k, 0, histogram, found);
        // Per thread a run of neighbours, so that a scan over threads is one over the vocabulary.
        u32 run = (a.vocabulary + CHOOSERS - 1) / CHOOSERS, from = min(threadIdx.x * run, a.vocabulary), to = min(from + run, a.vocabulary);
        u64 lightest = (u64)(state->min_p * UNIT);
        for (int pass = 0; pass < 2; ++pass) {
            u64 sum = 0;
            for (u32 i = from; i < to; ++i) {
                u64 weight = draw.weight(logits[i]);
                if (key_of(logits[i]) >= floor && (pass == 0 || weight >= lightest)) sum += weight;
            }
            // An inclusive scan over the block.
            u64 before = sum;
            for (int offset = 1; offset < 32; offset *= 2) {
                u64 other = __shfl_up_sync(0xffffffffu, before, offset);
                if (threadIdx.x % 32 >= offset) before += other;
            }
            __syncthreads();
            if (threadIdx.x % 32 == 31) histogram[threadIdx.x / 32] = before;
            __syncthreads();
            u64 total = 0;
            for (u32 warp = 0; warp < CHOOSE_WARPS; ++warp) {
                if (warp < threadIdx.x / 32) before += histogram[warp];
                total += histogram[warp];
            }
            if (pass == 0) {
                if (state->top_p < 1.0f) {
                    u64 wanted = (u64)((double)state->top_p * (double)total);
                    floor = max(floor, draw.select(true, wanted > 0 ? wanted : 1, floor, histogram, found));
                }
                continue;
            }
            u64 target = (u64)((double)uniform(state) * (double)total);
            __syncthreads();
            if (threadIdx.x == 0) found[0] = best.token;
            __syncthreads();
            if (before - sum <= target && target < before) {
                for (u32 i = from; i < to; ++i) {
                    u64 weight = draw.weight(logits[i]);
                    if (key_of(logits[i]) < floor || weight < lightest) continue;
                    if (before - sum + weight > target) {
                        found[0] = i;
                        break;
                    }
                    sum -= weight;
                }
            }
            __syncthreads();
            token = (u32)found[0];
        }
    }
    if (threadIdx.x == 0) {
        u32 sequence = row->sequence;
        if (token != NOT_FINITE && row->advances) {
            conversation->token = token;
            conversation->position = row->position + (a.places.step ? 1 : row->count);
            state->history[state->pushed % HISTORY] = token;
            state->pushed += 1;
            if (++state->counter_low == 0) state->counter_high += 1;
        }
        // Other rows know theirs already.
        if (index == 0) *at<u32>(a.sequence) = sequence;
        // Those of step n go to place n % TOKENS, so that one chosen ahead overwrites none unread; everything before it
        // must be visible when the host sees the number.
        __threadfence_system();
        at<volatile u64>(a.tokens)[sequence % TOKENS * STEP_ROWS + index] = ((u64)sequence << 32) | token;
    }
}
