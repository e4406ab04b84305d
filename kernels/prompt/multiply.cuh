// How a warp of a prompt's product multiplies a stage: weight rows map to the M dimension of mma, tokens to its N.
//
// A lane then reads as many adjacent registers of weights as mma takes, and needs the scales of two rows only. One warp
// sums an output over all columns in their order, so no bit depends on the shape of the tile.
#pragma once
#include "prompt/copy.cuh"
#include "prompt/dequantize.cuh"

// The products of one warp: its place in a stage, and what it has summed.
template <int F, typename T, class S> struct Products {
    typedef Pipeline<F, T, S> P;
    typedef Stage<F, S> G;
    typedef Rings<F, S> R;
    typedef Registers<F, T> Keep;
    typedef Prepared<F, T, S> By;
    static constexpr u32 M = S::M, N = S::N, UNITS = P::UNITS, STAGES = P::STAGES;
    // Sums of tile m of the tokens, tile n of the weights, and half h of the tokens; four as mma has them.
    typedef float Sums[M][N][2][4];

    const Thread<S> &thread;
    Sums &sums;
    u32 base, units;
    // What this warp has prepared of scales and minima.
    u8 *prepared;
    // Where this lane first reads inputs and weights of a stage. Stages begin at multiples of 128.
    u32 at_inputs, at_weights;

    __device__ __forceinline__ Products(const Thread<S> &thread_, Sums &sums_, u32 base_, u32 units_, u8 *prepared_)
        : thread(thread_), sums(sums_), base(base_), units(units_), prepared(prepared_) {
        const u32 lane = thread.lane;
        at_inputs = Keep::template keep<Keep::all>(base + input_row() + (lane / 8 % 2 ^ lane % 8) * 16);
        const u32 of_lane = lane * (Layout<F>::quants <= 512 ? Layout<F>::quants / 32 : 0);
        at_weights = Keep::template keep<Keep::weights>((Keep::unrolls_q6_k ? base : 0) + G::inputs +
                                                        thread.along_rows * N * G::unit + of_lane);
    }

    // ---- places in a stage ----

    __device__ __forceinline__ u32 input_row() const {
        return (thread.along_tokens * 16 * M + thread.lane / 16 * 8 + thread.lane % 8) * 128;
    }
    // Inputs of a quarter, for ldmatrix. Bits 5 and 6 of an address are those of its quarter, permuted by the row.
    // Formats that have no registers left compute addresses anew.
    __device__ __forceinline__ u32 inputs_of(u32 stage, u32 quarter, u32 m) const {
        if constexpr (Folded<F, T>::able)
            return base + input_row() + stage + m * 2048 + ((2 * quarter + thread.lane / 8 % 2) ^ thread.lane % 8) * 16;
        else if constexpr (Keep::unrolls_q6_k) return (at_inputs ^ quarter * 32) + stage + m * 2048;
        else return (at_inputs + stage ^ quarter * 32) + m * 2048;
    }
    __device__ __forceinline__ const u8 *weights_of(u32 stage) const {
        return Keep::unrolls_q6_k ? from_shared(at_weights + stage) : staged + at_weights + stage;
    }
    // Scales of unit `index` in `stage`, of the warp's tile n, and the head that belongs to them.
    __device__ __forceinline__ const u8 *scales_at(u32 stage, u32 index, u32 n) const {
        const u8 *unit = staged + stage + G::inputs + thread.along_rows * N * G::unit;
        if constexpr (R::of_scales) {
            const u32 tile = thread.along_rows * N + n;
            return staged + P::scales_ring + index % R::units * R::scales + tile * Layout<F>::scales;
        } else {
            return unit + n * G::unit + Layout<F>::before_scales;
        }
    }
    __device__ __forceinline__ const u8 *head_at(u32 stage, u32 n) const {
        return staged + stage + G::inputs + (thread.along_rows * N + n + 1) * G::unit - Layout<F>::head;
    }
    // The sums of 64 inputs of token g of each eight, as an mma operand: as bf16, and their rounding errors.
    __device__ __forceinline__ uint2 sums_at(u32 index, u32 m, u32 h) const {
        const u32 token = Layout<F>::kind == PAIRS ? thread.g ^ SWAP<F> : thread.g;
        const u8 *of_unit = staged + P::sums_ring + index % R::units * R::sums;
        return *reinterpret_cast<const uint2 *>(of_unit + (thread.along_tokens * M + m) * 128 + h * 64 + token * 8);
    }

    // ---- minima ----

    // Adds the minima of the four units that end with `index`. Pairs t and t + 4 of mma's sixteen columns belong to
    // unit t. The first meets the sums as bf16, the other their rounding errors; minima of six bits are exact in bf16.
    __device__ __forceinline__ void add_minima_of_four(u32 stage, u32 index) {
        const u32 mine = index - 3 + thread.t;
        u32 pairs[N][4];
        float by[N][2];
#pragma unroll
        for (u32 n = 0; n < N; ++n) {
            RowScales<F, 1> rows;
            read_words(head_at(stage, n) + thread.g * sizeof(rows.head), rows.head);
            uint2 two = *reinterpret_cast<const uint2 *>(scales_at(stage, mine, n) + thread.g * 8);
            // Every other byte, of rows g and g + 8.
            const u32 minima = __byte_perm(two.x, two.y, 0x7531);
#pragma unroll
            for (u32 i = 0; i < 2; ++i) by[n][i] = rows.shared_minimum(i);
#pragma unroll
            for (int i = 0; i < 4; ++i) pairs[n][i] = bytes_less_128<__nv_bfloat16>(minima | 0x80808080u, i % 2);
        }
#pragma unroll
        for (u32 m = 0; m < M; ++m)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const uint2 x = sums_at(mine, m, h);
#pragma unroll
                for (u32 n = 0; n < N; ++n) {
                    float four[4] = {};
                    Mma<__nv_bfloat16>::run(four, pairs[n], x.x, x.y);
                    add_scaled(by[n], four, sums[m][n][h]);
                }
            }
    }

    // Adds the minima of an even unit and the next one. A last unit without a partner comes as both; the minima
    // prepared for its partner are zeros.
    __device__ __forceinline__ void add_minima_of_two(u32 index, u32 second) {
        u32 pairs[N][4];
#pragma unroll
        for (u32 n = 0; n < N; ++n) By::minima_of(prepared, n, thread.g, thread.t, pairs[n]);
#pragma unroll
        for (u32 m = 0; m < M; ++m)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const uint2 x = sums_at(thread.t % 2 ? second : index, m, h);
#pragma unroll
                for (u32 n = 0; n < N; ++n) Mma<__nv_bfloat16>::run(sums[m][n][h], pairs[n], x.x, x.y);
            }
    }

    // ---- products ----

    // Adds four products of mma, times the factors of rows g and g + 8.
    static __device__ __forceinline__ void add_scaled(const float (&by)[2], const float (&products)[4],
                                                      float (&to)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float &sum = to[i ^ SWAP<F>];
            sum = fmaf(by[i / 2], products[i], sum);
        }
    }

    // Multiplies unit `index`, which is unit u of its round and lies in `stage`.
    __device__ __forceinline__ void multiply(u32 stage, u32 index, u32 u) {
        const u8 *unit = weights_of(stage);
        const bool four_end = R::of_scales && index % 4 == 3;
        // Minima come after the products where registers suffice: the products then do not wait for them.
        if (!Folded<F, T>::able && four_end) add_minima_of_four(stage, index);
        if constexpr (Folded<F, T>::able) {
            multiply_folded(unit, stage, index);
            if (four_end) add_minima_of_four(stage, index);
        } else if constexpr (!Layout<F>::scaled) {
            multiply_values(unit, stage);
        } else if constexpr (Layout<F>::kind == NIBBLE_PAIRS) {
            multiply_nibble_pairs(unit, stage, index);
            add_minima_of_quarters(stage, index);
        } else {
            multiply_blocks(unit, stage, index, u);
        }
    }

    // A unit of integers times their scales: one factor is left for the whole unit.
    __device__ __forceinline__ void multiply_folded(const u8 *unit, u32 stage, u32 index) {
        u32 f[4][N][4];
        float scale[N][2];
#pragma unroll
        for (u32 n = 0; n < N; ++n) {
            FoldedScales scales;
            scales.template read<F>(scales_at(stage, index, n), thread.g);
#pragma unroll
            for (u32 b = 0; b < 2; ++b) {
                Weights<F, T> w;
                w.load(unit + n * G::unit, thread.lane, 2 * b);
#pragma unroll
                for (u32 s = 0; s < 2; ++s) w.folded(s, b, scales, f[2 * b + s][n]);
            }
            RowScales<F, 1> rows;
            read_words(head_at(stage, n) + thread.g * sizeof(rows.head), rows.head);
#pragma unroll
            for (u32 i = 0; i < 2; ++i) scale[n][i] = rows.shared(i) * Integers<F, T>::factor(false);
        }
#pragma unroll
        for (u32 m = 0; m < M; ++m) {
            u32 x[4][4];
#pragma unroll
            for (u32 s = 0; s < 4; ++s) matrices(x[s], inputs_of(stage, s, m));
#pragma unroll
            for (u32 n = 0; n < N; ++n)
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    float block[4] = {};
#pragma unroll
                    for (u32 s = 0; s < 4; ++s) Mma<T>::run(block, f[s][n], x[s][2 * h], x[s][2 * h + 1]);
                    add_scaled(scale[n], block, sums[m][n][h]);
                }
        }
    }

    // The sums of each quarter of tile m of the tokens, for both halves of it, as mma's operand of eight columns. The
    // tokens meet four columns of ones, one for each quarter, and then the same again. So t knows the sums of quarters
    // 2t and 2t + 1 modulo 4. The first four columns keep their values as bf16, and the last four their rounding
    // errors.
    __device__ __forceinline__ void quarter_sums(u32 stage, u32 m, u32 (&of_half)[2]) const {
        float both[4] = {};
#pragma unroll
        for (u32 s = 0; s < 4; ++s) {
            u32 x[4];
            matrices(x, inputs_of(stage, s, m));
            // Tokens that are mma's second operand elsewhere are the first here, which has them in another order.
            const u32 tokens[4] = {x[0], x[2], x[1], x[3]};
            const u32 ones = thread.g % 4 == s ? ones_of<T>() : 0;
            Mma<T>::run(both, tokens, ones, ones);
        }
#pragma unroll
        for (u32 h = 0; h < 2; ++h) {
            u32 high, low;
            split_in_two(both[2 * h], both[2 * h + 1], high, low);
            of_half[h] = thread.t < 2 ? high : low;
        }
    }

    // A unit whose blocks, of one quarter each, have scales and minima of four bits. Integers times their scales are
    // less than 64, which T holds exactly: one factor is left for the whole unit. Two quarters share a word, and four
    // do not fit the registers.
    __device__ __forceinline__ void multiply_nibble_pairs(const u8 *unit, u32 stage, u32 index) {
#pragma unroll 1
        for (u32 first = 0; first < 4; first += 2) {
            u32 f[2][N][4];
            float scale[N][2];
#pragma unroll
            for (u32 n = 0; n < N; ++n) {
                Weights<F, T> w;
                w.load(unit + n * G::unit, thread.lane, first);
                const uint2 both = *reinterpret_cast<const uint2 *>(scales_at(stage, index, n) + thread.g * 8);
#pragma unroll
                for (u32 i = 0; i < 4; ++i) {
                    const u32 scales = (i % 2 ? both.y : both.x) & 0x0f0f0f0fu;
#pragma unroll
                    for (u32 s = 0; s < 2; ++s)
                        f[s][n][i] =
                            times<T>(Integers<F, T>::of(w.quants[0], w.high, s, i), small_pair<T>(scales, first + s));
                }
                RowScales<F, 1> rows;
                read_words(head_at(stage, n) + thread.g * sizeof(rows.head), rows.head);
#pragma unroll
                for (u32 i = 0; i < 2; ++i) scale[n][i] = rows.shared(i) * Integers<F, T>::factor(i);
            }
#pragma unroll
            for (u32 m = 0; m < M; ++m) {
                u32 x[2][4];
#pragma unroll
                for (u32 s = 0; s < 2; ++s) matrices(x[s], inputs_of(stage, first + s, m));
#pragma unroll
                for (u32 n = 0; n < N; ++n)
#pragma unroll
                    for (int h = 0; h < 2; ++h) {
                        float block[4] = {};
#pragma unroll
                        for (u32 s = 0; s < 2; ++s) Mma<T>::run(block, f[s][n], x[s][2 * h], x[s][2 * h + 1]);
                        add_scaled(scale[n], block, sums[m][n][h]);
                    }
            }
        }
    }

    // Adds the minima of a unit whose blocks have one quarter each. They multiply the sums of the quarters. The inputs
    // are read again, because their sums and the weights do not fit the registers together.
    __device__ __forceinline__ void add_minima_of_quarters(u32 stage, u32 index) {
        u32 minima[N][2];
        float by[N][2];
#pragma unroll
        for (u32 n = 0; n < N; ++n) {
            const uint2 both = *reinterpret_cast<const uint2 *>(scales_at(stage, index, n) + thread.g * 8);
            RowScales<F, 1> rows;
            read_words(head_at(stage, n) + thread.g * sizeof(rows.head), rows.head);
#pragma unroll
            for (u32 i = 0; i < 2; ++i) {
                minima[n][i] = two_small((i ? both.y : both.x) >> 4 & 0x0f0f0f0fu, thread.t % 2);
                by[n][i] = rows.shared_minimum(i);
            }
        }
#pragma unroll
        for (u32 m = 0; m < M; ++m) {
            u32 of_half[2];
            quarter_sums(stage, m, of_half);
#pragma unroll
            for (u32 n = 0; n < N; ++n)
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    float of_quarters[4] = {};
                    Mma<__nv_bfloat16>::run_eight(of_quarters, minima[n][0], minima[n][1], of_half[h]);
                    add_scaled(by[n], of_quarters, sums[m][n][h]);
                }
        }
    }

    // A unit of plain values that T does not hold, or that are wider: the value and its rounding error are multiplied.
    __device__ __forceinline__ void multiply_values(const u8 *unit, u32 stage) {
#pragma unroll
        for (u32 quarter = 0; quarter < 4; ++quarter) {
            u32 f[N][4], rest[N][4];
#pragma unroll
            for (u32 n = 0; n < N; ++n) {
                Weights<F, T> w;
                w.load(unit + n * G::unit, thread.lane, quarter);
                w.pairs(unit + n * G::unit, thread.lane, quarter, 0, f[n], rest[n]);
            }
#pragma unroll
            for (u32 m = 0; m < M; ++m) {
                u32 x[4];
                matrices(x, inputs_of(stage, quarter, m));
#pragma unroll
                for (u32 n = 0; n < N; ++n)
#pragma unroll
                    for (int h = 0; h < 2; ++h) {
                        Mma<T>::run(sums[m][n][h], f[n], x[2 * h], x[2 * h + 1]);
                        if constexpr (!Mma<T>::template holds<F>())
                            Mma<T>::run(sums[m][n][h], rest[n], x[2 * h], x[2 * h + 1]);
                    }
            }
        }
    }

    // Two quarters share what a lane loads. A block with one scale is two quarters, or one.
    static constexpr u32 PARTS = Layout<F>::block == 16 ? 2 : 1, STEPS = 2 / PARTS;

    // A unit of blocks, each of which is summed by itself and then scaled.
    __device__ __forceinline__ void multiply_blocks(const u8 *unit, u32 stage, u32 index, u32 u) {
        // Addresses of small blocks' scales are found by additions; in other formats that takes registers.
        const u8 *along = prepared + u * By::of_scales;
#pragma unroll(UNITS == 1 && !Keep::unrolls_q6_k ? 1 : 2)
        for (u32 b = 0; b < 2; ++b, along += PARTS * By::ROWS * 4) {
            Weights<F, T> w[N];
            auto load = [&](u32 quarter) {
#pragma unroll
                for (u32 n = 0; n < N; ++n) w[n].load(unit + n * G::unit, thread.lane, quarter);
            };
            if constexpr (!BY_QUARTERS<F>) load(2 * b);
#pragma unroll(BY_QUARTERS<F> ? 1 : 2)
            for (u32 part = 0; part < PARTS; ++part) {
                const u32 first_step = 2 * b + part * STEPS;
                if constexpr (BY_QUARTERS<F>) load(first_step);
                u32 f[STEPS][N][4], rest[4];
                float scale[N][2];
#pragma unroll
                for (u32 n = 0; n < N; ++n) {
#pragma unroll
                    for (u32 s = 0; s < STEPS; ++s)
                        w[n].pairs(unit + n * G::unit, thread.lane, first_step + s, part * STEPS + s, f[s][n], rest);
                    if constexpr (By::scales)
                        By::scales_of(PARTS == 2 ? along : prepared + u * By::of_scales, n, thread.g,
                                      PARTS == 2 ? part : b, scale[n]);
                    else scales_of<F>(scales_at(stage, index, n), head_at(stage, n), thread.g, 2 * b + part, scale[n]);
                }
                multiply_block(stage, first_step, f, scale);
            }
        }
    }

    // The quarters of one block, of all tiles.
    __device__ __forceinline__ void multiply_block(u32 stage, u32 first_step, const u32 (&f)[STEPS][N][4],
                                                   const float (&scale)[N][2]) {
#pragma unroll
        for (u32 m = 0; m < M; ++m) {
            u32 x[STEPS][4];
#pragma unroll
            for (u32 s = 0; s < STEPS; ++s) matrices(x[s], inputs_of(stage, first_step + s, m));
#pragma unroll
            for (u32 n = 0; n < N; ++n) {
                // Both halves of sixteen tokens.
                float block[2][4] = {};
#pragma unroll
                for (u32 s = 0; s < STEPS; ++s)
#pragma unroll
                    for (u32 h = 0; h < 2; ++h) Mma<T>::run(block[h], f[s][n], x[s][2 * h], x[s][2 * h + 1]);
                // Products that share a scale are adjacent, so that its register is read once.
#pragma unroll
                for (u32 i = 0; i < 2; ++i)
#pragma unroll
                    for (u32 h = 0; h < 2; ++h)
#pragma unroll
                        for (u32 j = 2 * i; j < 2 * i + 2; ++j) {
                            float &sum = sums[m][n][h][j ^ SWAP<F>];
                            sum = fmaf(scale[n][i], block[h][j], sum);
                        }
            }
        }
    }

    // ---- plain values, one quarter ahead ----

    // Operands of two quarters: those that are multiplied, and those that are read.
    struct Operands {
        u32 x[2][M][4], w[2][N][4];
    };

    __device__ __forceinline__ void read_step(Operands &o, u32 to, u32 stage, const u32 (&of_step)[4],
                                              const u8 *first_unit, u32 s) {
#pragma unroll
        for (u32 m = 0; m < M; ++m) matrices(o.x[to][m], of_step[s] + stage + m * 2048);
#pragma unroll
        for (u32 n = 0; n < N; ++n) {
            uint4 four = *reinterpret_cast<const uint4 *>(first_unit + stage + n * G::unit + s * 512);
            o.w[to][n][0] = four.x, o.w[to][n][1] = four.y, o.w[to][n][2] = four.z, o.w[to][n][3] = four.w;
        }
    }

    __device__ __forceinline__ void multiply_step(const Operands &o, u32 from) {
#pragma unroll
        for (u32 m = 0; m < M; ++m)
#pragma unroll
            for (u32 n = 0; n < N; ++n)
#pragma unroll
                for (int h = 0; h < 2; ++h)
                    Mma<T>::run(sums[m][n][h], o.w[from][n], o.x[from][m][2 * h], o.x[from][m][2 * h + 1]);
    }

    // The whole loop over columns. The last quarter of a stage is multiplied after the threads have met for the next
    // one.
    __device__ __forceinline__ void multiply_ahead(const Copies<F, T, S> &copies, u32 &stage, u32 &next) {
        Operands o;
        u32 of_step[4];
        const u8 *first_unit = staged + G::inputs + thread.along_rows * N * G::unit + thread.lane * 16;
#pragma unroll
        for (u32 s = 0; s < 4; ++s) of_step[s] = at_inputs ^ s * 32;
        copies_wait<STAGES - 2>();
        __syncthreads();
        read_step(o, 0, stage, of_step, first_unit, 0);
        for (u32 k = 0; k < units; ++k) {
#pragma unroll
            for (u32 s = 0; s < 4; ++s) {
                if (s == 3) {
                    copies_wait<STAGES - 2>();
                    __syncthreads();
                    P::advance(stage, next);
                }
                read_step(o, (s + 1) % 2, stage, of_step, first_unit, (s + 1) % 4);
                // Into the stage that every thread has finished reading.
                if (s == 0) copies.load(k + STAGES - 1, next);
                multiply_step(o, s % 2);
            }
        }
    }

    // ---- other weights, stage by stage ----

    // Waits for round k, which has `count` units; prepares its scales; requests the round that takes the freed
    // stage.
    __device__ __forceinline__ void begin_step(const Copies<F, T, S> &copies, u32 stage, u32 next, u32 k, u32 count) {
        copies_wait<STAGES - 2>();
        __syncthreads();
        if constexpr (By::there) {
            // A warp with 16 rows has two lanes for each.
            const u32 row = thread.lane % By::ROWS;
#pragma unroll
            for (u32 u = 0; u < count; ++u) {
                const u32 index = k * UNITS + u;
                const bool last = index + 1 == units;
                const u8 *scales = scales_at(stage + u * G::bytes, index, row / 16) + row % 16 * RowScale<F>::EACH;
                const u8 *head = head_at(stage + u * G::bytes, row / 16) + row % 16 * RowScale<F>::HEAD;
                By::prepare(prepared, u, index, last, row, scales, head);
            }
            __syncwarp();
        }
        copies.load(k + STAGES - 1, next);
    }

    // Two units a round, so that neither asks whether minima are due.
    __device__ __forceinline__ void multiply_with_minima(const Copies<F, T, S> &copies, u32 &stage, u32 &next) {
        for (u32 k = 0; k < units; k += 2, P::advance(stage, next)) {
            begin_step(copies, stage, next, k, 1);
            multiply(stage, k, 0);
            if (k + 1 == units) {
                add_minima_of_two(k, k);
                break;
            }
            P::advance(stage, next);
            begin_step(copies, stage, next, k + 1, 1);
            add_minima_of_two(k, k + 1);
            multiply(stage, k + 1, 0);
        }
    }

    // UNITS units a round; a last one may be alone.
    __device__ __forceinline__ void multiply_stages(const Copies<F, T, S> &copies, u32 &stage, u32 &next) {
        constexpr bool minima_of_two = Layout<F>::kind == PAIRS;
        static_assert(UNITS <= 2);
        for (u32 k = 0; k < units / UNITS; ++k, P::advance(stage, next)) {
            begin_step(copies, stage, next, k, UNITS);
#pragma unroll
            for (u32 u = 0; u < UNITS; ++u) {
                if constexpr (minima_of_two)
                    if (u == 1) add_minima_of_two(k * UNITS, k * UNITS + 1);
                multiply(stage + u * G::bytes, k * UNITS + u, u);
            }
        }
        if (UNITS > 1 && units % UNITS) {
            begin_step(copies, stage, next, units / UNITS, 1);
            multiply(stage, units - 1, 0);
            if constexpr (minima_of_two) add_minima_of_two(units - 1, units - 1);
        }
    }

    // All columns.
    __device__ __forceinline__ void multiply_all(const Copies<F, T, S> &copies, u32 &stage, u32 &next) {
        if constexpr (P::ahead) multiply_ahead(copies, stage, next);
        else if constexpr (Layout<F>::kind == PAIRS && UNITS == 1) multiply_with_minima(copies, stage, next);
        else multiply_stages(copies, stage, next);
    }
};
