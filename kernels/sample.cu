// Chooses each row's next token: mask, repetition penalty, then the greatest value; or temperature, top-k, top-p, min-p
// and one draw. All parameters are the conversation's, so that one recorded step serves every request. Logits stay
// unchanged: penalty and mask apply where a logit is read, and the n best tokens are the model's own.
//
// The blocks of a row share the scan for the greatest value; the last block to arrive decides. Nothing is sorted. A
// histogram of the values finds the candidates, a list in shared memory takes them, and a bisection by bits finds the
// limit among them. Weights are added as integers, so that the order in which threads add them changes nothing.
#include "common.cuh"
#include "state.cuh"

#define SAMPLERS 1024
#define SAMPLE_WARPS (SAMPLERS / 32)
// The host reads this token as a failure: no vocabulary is this large.
#define NOT_FINITE 0xffffffffu
// The conversation's mask is for another token, so the row runs again in the next step.
#define NOT_READY 0xfffffffeu
// `advances` of the rows of a conversation with guesses, from the last one before them on: each row chooses a token,
// and the conversation stays where it is. The host accepts guesses, and sends with the next step where it goes on.
#define GUESSES 2u
// Weights are exp(x - max) in units of 2^-30; for the logarithms of the n best, in units of 2^-38.
#define UNIT 1073741824.0f
#define FINE_UNIT 274877906944.0f
// A value this far below the greatest has no weight: slightly more than the logarithm of 2^30.
#define WEIGHTLESS 20.8f
// Bins of the histogram; and tokens of the list, at most.
#define BINS 1024u
#define LISTED 2048u

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
        Best other = {__shfl_xor_sync(0xffffffffu, best.logit, offset),
                      __shfl_xor_sync(0xffffffffu, best.token, offset)};
        best = better(best, other);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = best;
    __syncthreads();
    best = scratch[0];
    for (int warp = 1; warp < SAMPLE_WARPS; ++warp) best = better(best, scratch[warp]);
    return best;
}

// Unsigned integers in the order of the floats.
__device__ __forceinline__ u32 key_of(float logit) {
    u32 bits = __float_as_uint(logit);
    return bits ^ ((bits >> 31) ? 0xffffffffu : 0x80000000u);
}

// Philox4x32-10 (Salmon et al. 2011), as in src/sampler/philox.rs: a number in 0..1.
__device__ float uniform(const Sampler *state, u32 ahead) {
    u32 key0 = state->seed_low, key1 = state->seed_high, c0 = state->counter_low + ahead,
        c1 = state->counter_high + (c0 < ahead), c2 = 0, c3 = 0;
    for (int round = 0; round < 10; ++round) {
        u32 low0 = 0xD2511F53u * c0, high0 = __umulhi(0xD2511F53u, c0), low1 = 0xCD9E8D57u * c2,
            high1 = __umulhi(0xCD9E8D57u, c2);
        c0 = high1 ^ c1 ^ key0, c1 = low1, c2 = high0 ^ c3 ^ key1, c3 = low0;
        key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
    }
    return (float)(c0 >> 8) / 16777216.0f;
}

// The tokens that the penalty covers, in shared memory: a hash table, and a filter of one bit for each, which excludes
// most other tokens.
struct Remembered {
    static constexpr u32 PLACES = 4 * HISTORY;
    u32 filter[HISTORY];
    u32 tokens[PLACES];

    // By a whole block, which waits before and afterwards.
    __device__ __forceinline__ void clear() {
        if (threadIdx.x < HISTORY) filter[threadIdx.x] = 0;
        if (threadIdx.x < PLACES) tokens[threadIdx.x] = NO_TOKEN;
    }
    __device__ __forceinline__ static u32 place(u32 token) {
        return token * 2654435761u / (0x80000000u / (PLACES / 2));
    }
    // By several threads at once; a token may come twice.
    __device__ __forceinline__ void add(u32 token) {
        atomicOr(&filter[token / 32 % HISTORY], 1u << token % 32);
        for (u32 at = place(token);; at = (at + 1) % PLACES) {
            u32 there = atomicCAS(&tokens[at], NO_TOKEN, token);
            if (there == NO_TOKEN || there == token) return;
        }
    }
    // A bit for each of four neighbours that may be in the table.
    __device__ __forceinline__ u32 suspects(u32 first) const {
        return filter[first / 32 % HISTORY] >> (first % 32) & 15u;
    }
    __device__ __forceinline__ bool holds(u32 token) const {
        for (u32 at = place(token);; at = (at + 1) % PLACES) {
            u32 there = tokens[at];
            if (there == token || there == NO_TOKEN) return there == token;
        }
    }
};

// A row's logits, after penalty and mask.
struct Values {
    const float *logits;
    // A bit a token, behind the mask's head; null: all tokens are allowed.
    const u32 *mask;
    u32 vocabulary;
    float penalty;
    // Tokens that the penalty covers; null: there is no penalty.
    const Remembered *remembered;

    // Applies penalty and mask to four neighbours; `first` is a multiple of four.
    __device__ __forceinline__ void apply(u32 first, float (&four)[4]) const {
        if (remembered) {
            u32 suspects = remembered->suspects(first);
#pragma unroll
            for (u32 e = 0; suspects && e < 4; ++e)
                if ((suspects >> e & 1u) && remembered->holds(first + e))
                    four[e] = four[e] > 0.0f ? four[e] / penalty : four[e] * penalty;
        }
        if (mask) {
            u32 may = __ldcg(mask + first / 32) >> (first % 32);
#pragma unroll
            for (u32 e = 0; e < 4; ++e)
                if (!(may >> e & 1u)) four[e] = -INFINITY;
        }
    }
};

// A row's logits as the model computed them.
struct Plain {
    const float *logits;
    u32 vocabulary;
    __device__ __forceinline__ void apply(u32, float (&)[4]) const {}
};

// Calls f(token, value, logit) for the tokens of from..to, shared by `threads` threads; `from` is a multiple of four.
template <typename V, typename F>
__device__ __forceinline__ void each(const V &values, u32 from, u32 to, u32 thread, u32 threads, F f) {
    constexpr u32 AT_ONCE = 4;
    bool aligned = values.vocabulary % 4 == 0;
    for (u32 base = from + 4 * thread; base < to; base += 4 * threads * AT_ONCE) {
        float logits[AT_ONCE][4];
        // All loads are requested at once.
#pragma unroll
        for (u32 n = 0; n < AT_ONCE; ++n) {
            u32 first = base + 4 * threads * n;
            if (first >= to) continue;
            if (aligned) {
                float4 four = *reinterpret_cast<const float4 *>(values.logits + first);
                logits[n][0] = four.x, logits[n][1] = four.y, logits[n][2] = four.z, logits[n][3] = four.w;
            } else {
#pragma unroll
                for (u32 e = 0; e < 4; ++e) logits[n][e] = first + e < to ? values.logits[first + e] : 0.0f;
            }
        }
#pragma unroll
        for (u32 n = 0; n < AT_ONCE; ++n) {
            u32 first = base + 4 * threads * n;
            if (first >= to) continue;
            float four[4] = {logits[n][0], logits[n][1], logits[n][2], logits[n][3]};
            values.apply(first, four);
#pragma unroll
            for (u32 e = 0; e < 4; ++e)
                if (first + e < to) f(first + e, four[e], logits[n][e]);
        }
    }
}

// Sums below 2^53, of each thread and in total.
__device__ __forceinline__ u64 sum_of_warp(u64 mine) {
    u32 low = __reduce_add_sync(0xffffffffu, (u32)mine & 0x3ffffffu),
        high = __reduce_add_sync(0xffffffffu, (u32)(mine >> 26));
    return low + ((u64)high << 26);
}

// The greatest number of `bits` bits that `holds` accepts. It accepts 0, and every number below one that it accepts.
template <typename Holds> __device__ __forceinline__ u32 greatest_that(int bits, Holds holds) {
    u32 found = 0;
    for (u32 bit = 1u << (bits - 1); bit; bit /= 2)
        if (holds(found | bit)) found |= bit;
    return found;
}

struct Scratch {
    Best best[SAMPLE_WARPS];
    u64 sums[SAMPLE_WARPS];
    // Low and high words.
    u32 bins[2][BINS];
    // Tokens with their values, in any order.
    Best list[LISTED];
    u32 listed;
    u32 found;
    u64 wanted;
};

// The candidates among a row's tokens, by a whole block. Their weights are integers of exp(value - greatest).
template <typename V> struct Candidates {
    V values;
    float greatest;
    // Powers of two in one unit of a value; 0 if nothing is drawn: no token has a weight then.
    float steepness;
    // Bins in one unit of a value. Tokens in the last bin have no weight in a draw.
    float bins;
    Scratch &scratch;
    // Candidates have at least this key.
    u32 floor;
    // Whether the list has all candidates. It may have other tokens, too.
    bool listed;

    __device__ __forceinline__ Candidates(const V &values_, float greatest_, float steepness_, float reach,
                                          Scratch &scratch_)
        : values(values_), greatest(greatest_), steepness(steepness_), bins(reach > 0.0f ? (BINS - 1) / reach : 0.0f),
          scratch(scratch_), floor(0), listed(false) {}

    __device__ __forceinline__ u32 weight(float value) const {
        return (u32)(power_of_two((value - greatest) * steepness) * UNIT);
    }
    __device__ __forceinline__ u32 bin(float value) const { return min((u32)((greatest - value) * bins), BINS - 1); }

    __device__ __forceinline__ u64 sum_of_block(u64 mine) const {
        mine = sum_of_warp(mine);
        __syncthreads();
        if (threadIdx.x % 32 == 0) scratch.sums[threadIdx.x / 32] = mine;
        __syncthreads();
        return sum_of_warp(scratch.sums[threadIdx.x % 32]);
    }
    // The sum of `of(token, value)` over the list, by one warp.
    template <typename Of> __device__ __forceinline__ u64 sum_of_list(Of of) const {
        u64 mine = 0;
        for (u32 i = threadIdx.x % 32; i < scratch.listed; i += 32)
            mine += of(scratch.list[i].token, scratch.list[i].logit);
        return sum_of_warp(mine);
    }
    // Sum in a bin.
    __device__ __forceinline__ u64 held(u32 bin) const {
        return scratch.bins[0][bin] + ((u64)scratch.bins[1][bin] << 32);
    }
    // The number that one warp finds, returned to all threads.
    template <typename Find> __device__ __forceinline__ u32 by_one_warp(Find find) const {
        __syncthreads();
        if (threadIdx.x < 32) {
            u32 found = find();
            if (threadIdx.x == 0) scratch.found = found;
        }
        __syncthreads();
        return scratch.found;
    }

    // Lists the candidates that `in` accepts. False if there are too many.
    template <typename In> __device__ __forceinline__ bool list(In in) {
        __syncthreads();
        if (threadIdx.x == 0) scratch.listed = 0;
        __syncthreads();
        each(values, 0, values.vocabulary, threadIdx.x, SAMPLERS, [&](u32 token, float value, float) {
            if (key_of(value) < floor || !in(bin(value))) return;
            u32 place = atomicAdd(&scratch.listed, 1);
            if (place < LISTED) scratch.list[place] = Best{value, token};
        });
        __syncthreads();
        return scratch.listed <= LISTED;
    }

    // Keeps the greatest candidates only: as few as reach `wanted(sum of all)`, by count or by weight.
    template <typename Wanted> __device__ __forceinline__ void narrow(bool weigh, Wanted wanted) {
        auto of = [&](float value) { return weigh ? weight(value) : 1u; };
        if (listed) {
            floor = by_one_warp([&] {
                u64 least =
                    wanted(sum_of_list([&](u32, float value) { return key_of(value) >= floor ? of(value) : 0u; }));
                return greatest_that(32, [&](u32 key) {
                    return sum_of_list([&](u32, float value) {
                               return key_of(value) >= max(key, floor) ? of(value) : 0u;
                           }) >= least;
                });
            });
            return;
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < BINS; i += SAMPLERS) scratch.bins[0][i] = scratch.bins[1][i] = 0;
        __syncthreads();
        each(values, 0, values.vocabulary, threadIdx.x, SAMPLERS, [&](u32, float value, float) {
            u32 at = bin(value), more = of(value);
            // Many tokens have no weight, and would contend for the last bin.
            if (key_of(value) < floor || (steepness > 0.0f && at == BINS - 1)) return;
            if (atomicAdd(&scratch.bins[0][at], more) + more < more) atomicAdd(&scratch.bins[1][at], 1);
        });
        // The bin that reaches the sum, and how much of it is needed.
        u32 last = by_one_warp([&] {
            u64 sum = 0;
            for (u32 i = 0; i < BINS / 32; ++i) sum += held(threadIdx.x * (BINS / 32) + i);
            u64 least = wanted(sum_of_warp(sum)), until = sum;
            for (int offset = 1; offset < 32; offset *= 2) {
                u64 other = __shfl_up_sync(0xffffffffu, until, offset);
                if (threadIdx.x >= offset) until += other;
            }
            u32 lane = __ballot_sync(0xffffffffu, until >= least);
            if (!lane) return (u32)BINS - 1;
            lane = __ffs(lane) - 1;
            u64 left = least - __shfl_sync(0xffffffffu, until - sum, lane);
            u32 at = lane * (BINS / 32);
            while (held(at) < left) left -= held(at++);
            if (threadIdx.x == 0) scratch.wanted = left;
            return at;
        });
        // All tokens with a weight stay.
        if (steepness > 0.0f && last == BINS - 1) return;
        // The sum above that bin, which the list starts from.
        u64 above = 0;
        if (threadIdx.x < last) above = held(threadIdx.x);
        above = sum_of_block(above);
        u64 left = scratch.wanted;
        listed = list([&](u32 bin) { return bin <= last; });
        bool edge = listed || list([&](u32 bin) { return bin == last; });
        u64 least = listed ? above + left : left;
        auto enough = [&](u32 key, float value) { return key_of(value) >= max(key, floor) ? of(value) : 0u; };
        if (edge) {
            floor = by_one_warp([&] {
                return greatest_that(32, [&](u32 key) {
                    return sum_of_list([&](u32, float value) { return enough(key, value); }) >= least;
                });
            });
            return;
        }
        // More tokens share a bin than the list holds.
        floor = greatest_that(32, [&](u32 key) {
            u64 mine = 0;
            each(values, 0, values.vocabulary, threadIdx.x, SAMPLERS,
                 [&](u32, float value, float) { mine += bin(value) == last ? enough(key, value) : 0u; });
            return sum_of_block(mine) >= left;
        });
    }

    // The token at which the weights, in the order of the vocabulary, exceed `share` of their sum. Weights below
    // `lightest` count as zero.
    __device__ __forceinline__ u32 draw(float share, u32 lightest) const {
        auto of = [&](float value) {
            u32 weighs = weight(value);
            return key_of(value) >= floor && weighs >= lightest ? weighs : 0u;
        };
        auto target_of = [&](u64 total) { return (u64)((double)share * (double)total); };
        if (listed) {
            return by_one_warp([&] {
                u64 target = target_of(sum_of_list([&](u32, float value) { return of(value); }));
                return greatest_that(32, [&](u32 token) {
                    return sum_of_list([&](u32 other, float value) { return other < token ? of(value) : 0u; }) <=
                           target;
                });
            });
        }
        // Each warp sums a run of adjacent tokens; in the run that reaches the target, each thread sums its own part.
        u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, run = (values.vocabulary + SAMPLERS - 1) / SAMPLERS * 32,
            end = values.vocabulary;
        u64 sum = 0;
        each(values, min(warp * run, end), min((warp + 1) * run, end), lane, 32,
             [&](u32, float value, float) { sum += of(value); });
        u64 total = sum_of_block(sum), target = target_of(total);
        for (warp = 0; warp + 1 < SAMPLE_WARPS && scratch.sums[warp] <= target; ++warp) target -= scratch.sums[warp];
        u32 own = (run / SAMPLERS + 4) / 4 * 4, from = warp * run + threadIdx.x * own,
            to = min(min(from + own, (warp + 1) * run), end);
        sum = 0;
        each(values, from, to, 0, 1, [&](u32, float value, float) { sum += of(value); });
        u64 until = sum;
        for (int offset = 1; offset < 32; offset *= 2) {
            u64 other = __shfl_up_sync(0xffffffffu, until, offset);
            if (lane >= offset) until += other;
        }
        __syncthreads();
        if (lane == 31) scratch.sums[threadIdx.x / 32] = until;
        __syncthreads();
        for (u32 w = 0; w < threadIdx.x / 32; ++w) until += scratch.sums[w];
        u64 before = until - sum;
        if (before <= target && target < until) {
            bool open = true;
            each(values, from, to, 0, 1, [&](u32 token, float value, float) {
                before += of(value);
                if (open && before > target) scratch.found = token, open = false;
            });
        }
        __syncthreads();
        return scratch.found;
    }
};

// Reports the chosen token and the `wanted` most probable ones, with the logarithms of the model's probabilities.
__device__ void report_best(const Plain &plain, u32 wanted, u32 token, Scored *to, Scratch &scratch) {
    Best best = {-INFINITY, NOT_FINITE}, worst = best;
    each(plain, 0, plain.vocabulary, threadIdx.x, SAMPLERS, [&](u32 i, float value, float) {
        best = better(best, Best{value, i}), worst = better(worst, Best{-value, i});
    });
    float greatest = best_of_block(best, scratch.best).logit, least = -best_of_block(worst, scratch.best).logit;
    Candidates<Plain> candidates(plain, greatest, 0.0f, greatest - least, scratch);
    u64 sum = 0;
    each(plain, 0, plain.vocabulary, threadIdx.x, SAMPLERS,
         [&](u32, float value, float) { sum += (u64)(expf(value - greatest) * FINE_UNIT); });
    float whole = logf((float)((double)candidates.sum_of_block(sum) / (double)FINE_UNIT));
    auto score = [&](u32 i, float value) { return Scored{i, value - greatest - whole}; };
    if (threadIdx.x == 0) to[0] = score(token, plain.logits[token]);
    u32 reported = 0;
    if (wanted) {
        wanted = min(wanted, plain.vocabulary);
        candidates.narrow(false, [&](u64) { return (u64)wanted; });
        // In any order; among tokens at the limit, the first ones.
        auto all = [&](auto f) {
            if (candidates.listed) {
                for (u32 i = threadIdx.x; i < scratch.listed; i += SAMPLERS)
                    f(scratch.list[i].token, scratch.list[i].logit, 0.0f);
            } else {
                each(plain, 0, plain.vocabulary, threadIdx.x, SAMPLERS, f);
            }
        };
        __syncthreads();
        if (threadIdx.x == 0) scratch.found = 0;
        __syncthreads();
        all([&](u32 i, float value, float) {
            if (key_of(value) > candidates.floor) {
                u32 place = atomicAdd(&scratch.found, 1);
                if (place < wanted) to[1 + place] = score(i, value);
            }
        });
        __syncthreads();
        reported = min(scratch.found, wanted);
        for (u32 from = 0; reported < wanted && from < plain.vocabulary; ++reported) {
            Best next = {-INFINITY, NOT_FINITE};
            all([&](u32 i, float value, float) {
                if (i >= from && key_of(value) == candidates.floor) next = better(next, Best{0.0f, i});
            });
            next = best_of_block(next, scratch.best);
            if (next.token == NOT_FINITE) break;
            if (threadIdx.x == 0) to[1 + reported] = score(next.token, plain.logits[next.token]);
            from = next.token + 1;
            __syncthreads();
        }
    }
    for (u32 i = reported + threadIdx.x; i < BEST; i += SAMPLERS) to[1 + i] = Scored{NO_TOKEN, 0.0f};
}

extern "C" __global__ void __launch_bounds__(SAMPLERS, 1) sample(const __grid_constant__ SampleArgs a) {
    LaunchTurn launch_turn(a.stamp);
    __shared__ Scratch scratch;
    __shared__ bool last;
    __shared__ u32 history[HISTORY];
    __shared__ Remembered remembered;
    u32 index = blockIdx.y;
    const Row *row = at<const Row>(a.places.rows) + index;
    if (row->slot == NO_SLOT) return;
    u32 sequence = row->sequence;
    // A token of step n goes to place n % MAILBOX_STEPS, so that a step ahead overwrites no unread token. Everything
    // before the write must be visible when the host sees the number.
    auto report = [&](u32 token) {
        // The other rows have the number already.
        if (index == 0) *at<u32>(a.sequence) = sequence;
        __threadfence_system();
        at<volatile u64>(a.tokens)[sequence % MAILBOX_STEPS * STEP_ROWS + index] = ((u64)sequence << 32) | token;
    };
    // A later row continues the conversation; its token is known.
    if (!row->advances) {
        if (blockIdx.x == 0 && threadIdx.x == 0) report(0);
        return;
    }
    Conversation *conversation = at<Conversation>(a.places.conversations) + row->slot;
    Sampler *state = &conversation->sampler;
    const float *logits = at<const float>(a.logits) + (u64)index * a.vocabulary;
    // Tokens that the host gave instead of the sampler, or guessed: those of this conversation's rows after the first.
    u32 given = a.places.step ? index - row->first : 0, pushed = state->pushed + given;
    if (threadIdx.x < HISTORY) history[threadIdx.x] = state->history[threadIdx.x];
    remembered.clear();
    __syncthreads();
    if (threadIdx.x < given)
        history[(state->pushed + threadIdx.x) % HISTORY] =
            at<const Row>(a.places.rows)[row->first + 1 + threadIdx.x].token;
    __syncthreads();
    u32 held = state->repetition_penalty == 1.0f ? 0 : min(pushed, (u32)HISTORY);
    if (threadIdx.x < held) remembered.add(history[threadIdx.x]);
    __syncthreads();
    // A mask is for one token of its conversation, and each guess has its own. It is copied before its number is.
    const u32 *mask = nullptr;
    bool ready = true;
    if (conversation->guide) {
        bool guessed = given && row->advances == GUESSES;
        u32 number = guessed ? row->mask : conversation->guide;
        const u32 *own = at<const u32>(a.masks) + (u64)(guessed ? row->mask_at : row->slot) * a.mask_words;
        ready = number && __ldcg(own) == number;
        __threadfence();
        mask = own + MASK_HEAD;
    } else if (a.allowed) {
        mask = at<const u32>(a.allowed) + MASK_HEAD;
    }
    Values values = {logits, mask, a.vocabulary, state->repetition_penalty, held ? &remembered : nullptr};
    // Whole words of the mask.
    u32 run = ((a.vocabulary + gridDim.x - 1) / gridDim.x + 31) / 32 * 32, first = min(blockIdx.x * run, a.vocabulary),
        end = min(first + run, a.vocabulary);
    Best best = {-INFINITY, NOT_FINITE};
    if (!ready) best = Best{INFINITY, NOT_READY};
    if (ready) {
        each(values, first, end, threadIdx.x, SAMPLERS, [&](u32 token, float value, float logit) {
            // A value that is not finite wins, so that the end finds it.
            if (!isfinite(logit)) best = Best{INFINITY, NOT_FINITE};
            else if (value > -INFINITY) best = better(best, Best{value, token});
        });
    }
    best = best_of_block(best, scratch.best);
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
    if (threadIdx.x < gridDim.x)
        best = Best{__ldcg(&partials[threadIdx.x].logit), __ldcg(&partials[threadIdx.x].token)};
    best = best_of_block(best, scratch.best);
    u32 token = best.token;
    bool samples = token < NOT_READY && isfinite(best.logit);
    if (state->temperature > 0.0f && samples) {
        Candidates<Values> candidates(values, best.logit, fminf(LOG2_E / state->temperature, 1e30f),
                                      WEIGHTLESS * state->temperature, scratch);
        u64 most = state->top_k;
        double share = state->top_p;
        if (most > 0 && most < a.vocabulary) candidates.narrow(false, [&](u64) { return most; });
        if (share < 1.0) {
            candidates.narrow(true, [&](u64 total) {
                u64 wanted = (u64)(share * (double)total);
                return wanted > 0 ? wanted : 1;
            });
        }
        token = candidates.draw(uniform(state, given), (u32)(state->min_p * UNIT));
    }
    if (state->best && samples) {
        Plain plain = {logits, a.vocabulary};
        report_best(plain, min(state->best - 1, (u32)BEST), token,
                    at<Scored>(a.best) + (sequence % MAILBOX_STEPS * STEP_ROWS + index) * (1 + BEST), scratch);
        __threadfence_system();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        if (samples && row->advances != GUESSES) {
            conversation->token = token;
            conversation->position = row->position + (a.places.step ? 1 : row->count);
            history[pushed % HISTORY] = token;
            for (u32 i = state->pushed; i <= pushed; ++i) state->history[i % HISTORY] = history[i % HISTORY];
            state->pushed = pushed + 1;
            u32 counter = state->counter_low;
            state->counter_low = counter + given + 1;
            if (state->counter_low < counter) state->counter_high += 1;
            // 0 means that there is no guide.
            if (conversation->guide && ++conversation->guide == 0) conversation->guide = 1;
        }
        report(token);
    }
}
