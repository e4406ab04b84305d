// The choice of each row's next token: what its mask allows, penalty, then greedy; or temperature, top-k, top-p, min-p and one
// draw. All parameters are of the row's conversation, so that one recorded step serves every request. Logits stay as they
// are: what a penalty or a mask makes of one is computed where it is read, and the n best are of the model alone.
//
// Blocks of a row share the scan for the greatest value; the last to arrive decides. It selects by radix over the
// bits of the values instead of sorting, and adds weights as integers, so that the order in which threads
// add them changes nothing.
#include "common.cuh"
#include "state.cuh"

#define CHOOSERS 1024
#define CHOOSE_WARPS (CHOOSERS / 32)
// What the host reads as a failure: no vocabulary is so large.
#define NOT_FINITE 0xffffffffu
// The same, where the conversation's mask is of another token: the row runs again in the next step.
#define NOT_READY 0xfffffffeu
// Weights are exp(x - max) in units of 2^-30, those of the n best's logarithms of 2^-40.
#define UNIT 1073741824.0f
#define FINE_UNIT 1099511627776.0f

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
__device__ float uniform(const Sampler *state, u32 ahead) {
    u32 key0 = state->seed_low, key1 = state->seed_high, c0 = state->counter_low + ahead, c1 = state->counter_high + (c0 < ahead), c2 = 0, c3 = 0;
    for (int round = 0; round < 10; ++round) {
        u32 low0 = 0xD2511F53u * c0, high0 = __umulhi(0xD2511F53u, c0), low1 = 0xCD9E8D57u * c2, high1 = __umulhi(0xCD9E8D57u, c2);
        c0 = high1 ^ c1 ^ key0, c1 = low1, c2 = high0 ^ c3 ^ key1, c3 = low0;
        key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
    }
    return (float)(c0 >> 8) / 16777216.0f;
}

// A row's logits as they are to be chosen from.
struct Values {
    const float *logits;
    // Behind its head, a bit a token; null: all are allowed.
    const u32 *mask;
    u32 vocabulary;
    float penalty;
    // Of CHOOSERS threads together: tokens that the penalty remembers, and of each one bit by which most others are told
    // apart from all of them.
    const u32 *history;
    const u32 *filter;
    u32 held;

    __device__ __forceinline__ bool allowed(u32 token) const { return !mask || (__ldcg(mask + token / 32) >> (token % 32)) & 1u; }
    __device__ __forceinline__ bool penalized(u32 token) const {
        if (held == 0 || !((filter[token / 32 % HISTORY] >> (token % 32)) & 1u)) return false;
        for (u32 i = 0; i < held; ++i)
            if (history[i] == token) return true;
        return false;
    }
    __device__ __forceinline__ float operator()(u32 token) const {
        if (!allowed(token)) return -INFINITY;
        float logit = logits[token];
        if (penalized(token)) logit = logit > 0.0f ? logit / penalty : logit * penalty;
        return logit;
    }
};

// What the model gave each.
struct Plain {
    const float *logits;
    u32 vocabulary;
    __device__ __forceinline__ float operator()(u32 token) const { return logits[token]; }
};

// Integers of exp(value - greatest).
template <typename V> struct Draw {
    V values;
    float greatest;
    float temperature;

    __device__ __forceinline__ u64 weight(float value) const { return (u64)(expf((value - greatest) / temperature) * UNIT); }

    // The least key of which all keys that are not less hold `wanted`, counted (weigh = false) or weighed,
    // of those not less than `floor`.
    __device__ u32 select(bool weigh, u64 wanted, u32 floor, u64 *histogram, u64 *found) const {
        u32 prefix = 0;
        for (int shift = 24; shift >= 0; shift -= 8) {
            __syncthreads();
            if (threadIdx.x < 256) histogram[threadIdx.x] = 0;
            __syncthreads();
            for (u32 i = threadIdx.x; i < values.vocabulary; i += CHOOSERS) {
                float value = values(i);
                u32 key = key_of(value);
                bool same = shift == 24 || (key >> (shift + 8)) == (prefix >> (shift + 8));
                if (key >= floor && same) atomicAdd(&histogram[(key >> shift) & 255u], weigh ? weight(value) : 1ull);
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

// The chosen token and the `wanted` most probable ones, with the logarithms of their probabilities as the model has them.
__device__ void tell_best(const Plain &plain, u32 wanted, u32 token, Scored *to, Best *scratch, u64 *histogram, u64 *found) {
    Best best = {-INFINITY, NOT_FINITE};
    for (u32 i = threadIdx.x; i < plain.vocabulary; i += CHOOSERS) best = better(best, Best{plain(i), i});
    float greatest = best_of_block(best, scratch).logit;
    Draw<Plain> draw = {plain, greatest, 1.0f};
    u32 floor = draw.select(false, min(wanted, plain.vocabulary), 0, histogram, found);
    __syncthreads();
    if (threadIdx.x == 0) found[0] = found[1] = 0;
    __syncthreads();
    u64 sum = 0;
    for (u32 i = threadIdx.x; i < plain.vocabulary; i += CHOOSERS) sum += (u64)(expf(plain(i) - greatest) * FINE_UNIT);
    atomicAdd(&found[0], sum);
    __syncthreads();
    float whole = logf((float)((double)found[0] / (double)FINE_UNIT));
    auto score = [&](u32 i) { return Scored{i, plain(i) - greatest - whole}; };
    // In any order; of those at the floor the first tokens.
    for (u32 i = threadIdx.x; i < plain.vocabulary; i += CHOOSERS)
        if (key_of(plain(i)) > floor) to[1 + atomicAdd(&found[1], 1ull)] = score(i);
    __syncthreads();
    u32 told = (u32)found[1], from = 0;
    for (; told < wanted && from < plain.vocabulary; ++told) {
        Best next = {-INFINITY, NOT_FINITE};
        for (u32 i = threadIdx.x; i < plain.vocabulary; i += CHOOSERS)
            if (i >= from && key_of(plain(i)) == floor) next = better(next, Best{0.0f, i});
        next = best_of_block(next, scratch);
        if (next.token == NOT_FINITE) break;
        if (threadIdx.x == 0) to[1 + told] = score(next.token);
        from = next.token + 1;
        __syncthreads();
    }
    if (threadIdx.x == 0) to[0] = score(token);
    for (u32 i = told + threadIdx.x; i < BEST; i += CHOOSERS) to[1 + i] = Scored{NOBODY, 0.0f};
}

extern "C" __global__ void __launch_bounds__(CHOOSERS, 1) choose(const __grid_constant__ ChooseArgs a) {
    Stopwatch stopwatch(a.stamp);
    __shared__ Best scratch[CHOOSE_WARPS];
    __shared__ u64 histogram[256];
    __shared__ u64 found[2];
    __shared__ bool last;
    __shared__ u32 history[HISTORY], filter[HISTORY];
    u32 index = blockIdx.y;
    const Row *row = at<const Row>(a.places.rows) + index;
    if (row->entry == NOBODY) return;
    u32 sequence = row->sequence;
    // Those of step n go to place n % TOKENS, so that one chosen ahead overwrites none unread; everything before it
    // must be visible when the host sees the number.
    auto tell = [&](u32 token) {
        // Other rows know theirs already.
        if (index == 0) *at<u32>(a.sequence) = sequence;
        __threadfence_system();
        at<volatile u64>(a.tokens)[sequence % TOKENS * STEP_ROWS + index] = ((u64)sequence << 32) | token;
    };
    // Its conversation goes on from a later row, which knows what follows this one.
    if (!row->advances) {
        if (blockIdx.x == 0 && threadIdx.x == 0) tell(0);
        return;
    }
    Conversation *conversation = at<Conversation>(a.places.conversations) + row->entry;
    Sampler *state = &conversation->sampler;
    const float *logits = at<const float>(a.logits) + (u64)index * a.vocabulary;
    // Tokens that were given rather than chosen: those of this conversation's rows after the first.
    u32 given = a.places.step ? index - row->first : 0, pushed = state->pushed + given;
    if (threadIdx.x < HISTORY) {
        history[threadIdx.x] = state->history[threadIdx.x], filter[threadIdx.x] = 0;
    }
    __syncthreads();
    if (threadIdx.x < given) history[(state->pushed + threadIdx.x) % HISTORY] = at<const Row>(a.places.rows)[row->first + 1 + threadIdx.x].token;
    __syncthreads();
    u32 held = state->repetition_penalty == 1.0f ? 0 : min(pushed, (u32)HISTORY);
    if (threadIdx.x < held) atomicOr(&filter[history[threadIdx.x] / 32 % HISTORY], 1u << history[threadIdx.x] % 32);
    __syncthreads();
    // A mask is of one token of its conversation: it was copied before its number was.
    const u32 *mask = nullptr;
    bool ready = true;
    if (conversation->guide) {
        const u32 *own = at<const u32>(a.masks) + (u64)row->entry * a.mask_words;
        ready = __ldcg(own) == conversation->guide;
        __threadfence();
        mask = own + MASK_HEAD;
    }
    Values values = {logits, mask, a.vocabulary, state->repetition_penalty, history, filter, held};
    // Whole words of the mask.
    u32 each = ((a.vocabulary + gridDim.x - 1) / gridDim.x + 31) / 32 * 32, first = min(blockIdx.x * each, a.vocabulary), end = min(first + each, a.vocabulary);
    Best best = {-INFINITY, NOT_FINITE};
    if (!ready) best = Best{INFINITY, NOT_READY};
    for (u32 i = first + threadIdx.x; ready && i < end; i += CHOOSERS) {
        // What is not finite wins, and is found by its value in the end.
        if (!isfinite(logits[i])) best = Best{INFINITY, NOT_FINITE};
        else if (values.allowed(i)) best = better(best, Best{values(i), i});
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
    bool chooses = token < NOT_READY && isfinite(best.logit);
    if (state->temperature > 0.0f && chooses) {
        Draw<Values> draw = {values, best.logit, state->temperature};
        u32 floor = 0;
        if (state->top_k > 0 && state->top_k < a.vocabulary) floor = draw.select(false, state->top_k, 0, histogram, found);
        // Per thread a run of neighbours, so that a scan over threads is one over the vocabulary.
        u32 run = (a.vocabulary + CHOOSERS - 1) / CHOOSERS, from = min(threadIdx.x * run, a.vocabulary), to = min(from + run, a.vocabulary);
        u64 lightest = (u64)(state->min_p * UNIT);
        for (int pass = 0; pass < 2; ++pass) {
            u64 sum = 0;
            for (u32 i = from; i < to; ++i) {
                float value = values(i);
                u64 weight = draw.weight(value);
                if (key_of(value) >= floor && (pass == 0 || weight >= lightest)) sum += weight;
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
            u64 target = (u64)((double)uniform(state, given) * (double)total);
            __syncthreads();
            if (threadIdx.x == 0) found[0] = best.token;
            __syncthreads();
            if (before - sum <= target && target < before) {
                for (u32 i = from; i < to; ++i) {
                    float value = values(i);
                    u64 weight = draw.weight(value);
                    if (key_of(value) < floor || weight < lightest) continue;
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
    if (state->best && chooses) {
        Plain plain = {logits, a.vocabulary};
        tell_best(plain, min(state->best - 1, (u32)BEST), token, at<Scored>(a.best) + (sequence % TOKENS * STEP_ROWS + index) * (1 + BEST), scratch, histogram, found);
        __threadfence_system();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        if (chooses) {
            conversation->token = token;
            conversation->position = row->position + (a.places.step ? 1 : row->count);
            history[pushed % HISTORY] = token;
            for (u32 i = state->pushed; i <= pushed; ++i) state->history[i % HISTORY] = history[i % HISTORY];
            state->pushed = pushed + 1;
            u32 counter = state->counter_low;
            state->counter_low = counter + given + 1;
            if (state->counter_low < counter) state->counter_high += 1;
            // 0 is of whom nothing guides.
            if (conversation->guide && ++conversation->guide == 0) conversation->guide = 1;
        }
        tell(token);
    }
}
