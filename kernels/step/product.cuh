// The matrix products of a step: tiles of 16 weight rows by a block, its warps sharing the columns, for one row of input or
// for up to eight.
//
// Reading the weights is all that takes time. So each warp has several units of them under way to a ring in shared memory,
// from before the rows are even there until its last tile, and goes from tile to tile without letting the ring run dry. It
// takes small ones by twos, so that one is multiplied while the other is made.
//
// A tile is summed by eight warps, each over its own columns in their order, and then in the order of the warps. So neither
// how many blocks there are nor the number of rows changes a bit: each is a column of its own of every mma. A block of several
// rows has up to twenty-four warps, in teams that take tiles of their own: so what is copied and normed of the rows is in a
// multiprocessor's memory once.
#pragma once
#include "common.cuh"
#include "state.cuh"
#include "step/unit.cuh"

// Of a warp's ring: units that are taken together, and how many times that many it holds.
template <int F, u32 R> struct Ring {
    static constexpr u32 together = Slot<F>::bytes < (R > 1 ? 1024 : 2048) ? 2 : 1, bytes = together * Slot<F>::bytes;
    static constexpr u32 few = (R > 1 ? 3456 : 4608) / bytes, large = R > 1 ? 3 : 6;
    static constexpr u32 depth = F == F32 ? 4 : Slot<F>::bytes >= 2048 ? large : few < 2 ? 2 : few > 4 ? 4 : few;
};

// Teams of a block of several rows, at most; of one that works in phases, whose threads take more registers.
#define TEAMS 3
#define PHASED_TEAMS 2

// Columns of rows that a block has at once: where there is no room for all, it takes one part of them after the other, and what each of
// its tiles has summed waits meanwhile. Whole rounds of the warps, so that each goes through its columns as without.
template <bool PHASED> struct Phases {
    // Of columns there are 64 in a unit.
    u32 count = 1, units, all;

    __device__ __forceinline__ Phases(u32 count_, u32 columns) : units(columns / 64), all(columns / 64) {
        if constexpr (PHASED) count = count_, units = ((all + WARPS - 1) / WARPS + count - 1) / count * WARPS;
    }
    // Units of a phase.
    __device__ __forceinline__ u32 of(u32 phase) const { return PHASED ? min(units, all - min(all, phase * units)) : all; }
};

// The threads that sum a tile together: of one row the whole block.
template <u32 R> struct Team {
    u32 index = R == 1 ? 0 : threadIdx.x / THREADS, teams = R == 1 ? 1 : blockDim.x / THREADS;

    __device__ __forceinline__ static u32 thread() { return R == 1 ? threadIdx.x : threadIdx.x % THREADS; }
    // Of all that this grid has; neighbours are on different multiprocessors.
    __device__ __forceinline__ u32 first() const { return R == 1 ? blockIdx.x : index * gridDim.x + blockIdx.x; }
    __device__ __forceinline__ u32 apart() const { return R == 1 ? gridDim.x : teams * gridDim.x; }
    __device__ __forceinline__ void wait() const {
        // Barrier 0 is the whole block's.
        if constexpr (R == 1) __syncthreads();
        else asm volatile("bar.sync %0, %1;" ::"r"(1 + index), "n"(THREADS) : "memory");
    }
};

// What an input's columns of a block of the format have: of one row what mma begins with, of several the sums of two rows.
template <u32 R> struct BlockSums { typedef float2 type; };
template <> struct BlockSums<1> { typedef float4 type; };

// The rows in shared memory, in T: several as they come, one so that a lane finds what it multiplies by side by side. Of 16 columns
// lane 4 g + t of a warp takes 2 t, 2 t + 1, 2 t + 8 and 2 t + 9, of 32 that is 16 bytes. Behind them lie what goes off each block's
// sums, what the warps have summed, and the warps' rings. R: 1, or as many as there may be, of which a power of two are there.
template <int F, typename T, u32 R> struct Rows {
    // Rows lie apart by 16 bytes, so that eight rows' pieces of that size are in all banks.
    static constexpr u32 APART = R == 1 ? 0 : 8;
    // Columns of a block, and sums or fours of numbers that a block has.
    static constexpr u32 BLOCK = Layout<F>::block ? Layout<F>::block : 32, EACH = R == 1 ? 1 : R / 2;
    T *values;
    u32 pitch, rows;
    // (columns / BLOCK, EACH), for formats with blocks: of one row what mma begins with, of the weight rows g and g + 8 and two
    // equal rows each: minus the sum of the row's columns times what the integers are more than they stand for. Of several
    // rows there is no room for that, and it is made of the sums.
    typedef typename BlockSums<R>::type Sums;
    Sums *excess;
    // (teams, WARPS, R, 16); of one row twice, by turns, so that its block waits once a tile. Before there is anything to sum, what
    // norms are made of: (slices of 256 columns, R).
    static constexpr u32 PARTS = (R == 1 ? 2 : 1) * WARPS * R * 16;
    float *parts;
    // (teams, WARPS, Ring)
    u8 *rings;

    // `stride`: columns that are here at once.
    __device__ __forceinline__ Rows(u8 *memory, u32 stride, u32 rows_)
        : values(reinterpret_cast<T *>(memory)), pitch(stride + APART), rows(R == 1 ? 1 : rows_), excess(reinterpret_cast<Sums *>(memory + 2 * pitch * rows)),
          parts(reinterpret_cast<float *>(excess + (Layout<F>::scaled ? stride / BLOCK * EACH : 0))), rings(reinterpret_cast<u8 *>(parts + Team<R>().teams * PARTS)) {}

    // What mma begins with.
    static __device__ __forceinline__ float4 begin(const float4 &of) { return of; }
    static __device__ __forceinline__ float4 begin(const float2 &sums) {
        float low = -Excess<F, T>::low, high = -Excess<F, T>::high;
        return make_float4(low * sums.x, low * sums.y, high * sums.x, high * sums.y);
    }

    // A slice of 256 columns, by a warp: eight of them a lane, side by side.
    __device__ __forceinline__ void put(u32 row, u32 begin, const uint4 &eight, u32 columns, u32 lane) const {
        u32 column = begin + 8 * lane;
        if constexpr (R == 1) {
            u32 *to = reinterpret_cast<u32 *>(values + column / 32 * 32) + column % 32 / 8;
            if (column < columns) to[0] = eight.x, to[4] = eight.y, to[8] = eight.z, to[12] = eight.w;
            if constexpr (!Layout<F>::scaled) return;
            // As mma's columns, the slice's pieces of 32 columns.
            __syncwarp();
            float sums[EACH_32][4];
            sum(column < columns ? read(values + column) : make_uint4(0, 0, 0, 0), sums);
            // All lanes have them: of eight pieces two each.
            u32 i = lane / 4 % 2, b = lane / 8 % EACH_32, block = (begin / 32 + lane % 4 * 2 + i) * EACH_32 + b;
            float of = i ? sums[0][1] : sums[0][0];
            if (b) of = i ? sums[EACH_32 - 1][1] : sums[EACH_32 - 1][0];
            float low = -Excess<F, T>::low * of, high = -Excess<F, T>::high * of;
            if (lane < 8 * EACH_32 && block * BLOCK < columns) excess[block] = make_float4(low, low, high, high);
        } else if (column < columns) {
            *reinterpret_cast<uint4 *>(values + row * pitch + column) = eight;
        }
    }

    // Of several rows that are here, the sums of the blocks of some units' columns.
    __device__ __forceinline__ void sum_blocks(u32 first, u32 apart, u32 units, u32 lane) const {
        if constexpr (Layout<F>::scaled && R > 1) {
            const T *from = of(lane);
            Sums *to = excess + lane % EACH;
#pragma unroll 2
            for (u32 unit = first; unit < units; unit += apart) {
                // Both halves at once, so that neither waits for the other.
                float sums[2][EACH_32][4];
#pragma unroll
                for (u32 p = 0; p < 2; ++p) sum(read(from + unit * 64 + p * 32), sums[p]);
#pragma unroll
                for (u32 p = 0; p < 2; ++p)
#pragma unroll
                    for (u32 b = 0; b < EACH_32; ++b)
                        if (lane < EACH) to[((2 * unit + p) * EACH_32 + b) * EACH] = make_float2(sums[p][b][0], sums[p][b][1]);
            }
        }
    }

    // Where this lane reads its part of the first 32 columns; where there are fewer rows, some come again.
    __device__ __forceinline__ const T *of(u32 lane) const { return values + (R == 1 ? lane % 4 * 8 : (lane % 8 & (rows - 1)) * pitch + lane / 8 * 8); }
    // A lane's part of 32 columns, for mma.
    static __device__ __forceinline__ uint4 read(const T *from) {
        if constexpr (R == 1) return *reinterpret_cast<const uint4 *>(from);
        u32 part[4];
        matrices(part, (u32)__cvta_generic_to_shared(from));
        return make_uint4(part[0], part[1], part[2], part[3]);
    }

  private:
    // Blocks of 32 columns.
    static constexpr u32 EACH_32 = 32 / BLOCK;

    // Products of 32 columns with ones: the sums of their blocks.
    static __device__ __forceinline__ void sum(const uint4 &part, float (&sums)[EACH_32][4]) {
        const u32 ones[4] = {Mma<T>::one, Mma<T>::one, Mma<T>::one, Mma<T>::one};
#pragma unroll
        for (u32 b = 0; b < EACH_32; ++b)
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[b][i] = 0.0f;
        Mma<T>::run(sums[0], ones, part.x, part.y);
        Mma<T>::run(sums[EACH_32 - 1], ones, part.z, part.w);
    }
};

// What a lane multiplies a unit by: its part of the rows' 64 columns, and what each block begins with.
template <int F, typename T, u32 R> struct Columns {
    static constexpr u32 BLOCKS = Layout<F>::scaled ? 64 / Rows<F, T, R>::BLOCK : 1, EACH = Rows<F, T, R>::EACH;
    // Whether they are read while the weights are still on their way. Blocks have their registers for other things.
    static constexpr bool early = R == 1 && !Layout<F>::scaled;
    uint4 two_steps[2];
    typename Rows<F, T, R>::Sums excess[BLOCKS];

    __device__ __forceinline__ void read(const T *row, const typename Rows<F, T, R>::Sums *of) {
        two_steps[0] = Rows<F, T, R>::read(row), two_steps[1] = Rows<F, T, R>::read(row + 32);
        if constexpr (Layout<F>::scaled)
#pragma unroll
            for (u32 b = 0; b < BLOCKS; ++b) excess[b] = of[b * EACH];
    }
};

// Adds a unit's products with the rows to the sums of the weight rows g and g + 8: of mma's columns 2 t and 2 t + 1, which
// are the same where there is one row.
template <int F, typename T, u32 R> __device__ __forceinline__ void multiply(const Unit<F> &w, const Columns<F, T, R> &x, float (&sums)[4]) {
    constexpr u32 STEPS = Layout<F>::block == 16 ? 1 : 2;
    float4 first;
    float block[4];
#pragma unroll
    for (u32 s = 0; s < 4; ++s) {
        const uint4 &two = x.two_steps[s / 2];
        u32 b0 = s % 2 ? two.z : two.x, b1 = s % 2 ? two.w : two.y;
        u32 a[4], rest[4];
        w.template step<T>(s, a, rest);
        if constexpr (!Layout<F>::scaled) {
            Mma<T>::run(sums, a, b0, b1);
            if constexpr (!Mma<T>::template holds<F>()) Mma<T>::run(sums, rest, b0, b1);
            continue;
        }
        if (s % STEPS == 0) {
            first = Rows<F, T, R>::begin(x.excess[s / STEPS]);
            block[0] = first.x, block[1] = first.y, block[2] = first.z, block[3] = first.w;
        }
        Mma<T>::run(block, a, b0, b1);
        if (s % STEPS != STEPS - 1) continue;
#pragma unroll
        for (u32 r = 0; r < 2; ++r) {
            float scale, minimum;
            w.scales.of(s, r, scale, minimum);
            if (Layout<F>::minimum) minimum *= -1.0f / Excess<F, T>::low;
#pragma unroll
            for (u32 n = 0; n < (R == 1 ? 1 : 2); ++n) {
                sums[2 * r + n] = fmaf(scale, block[2 * r + n], sums[2 * r + n]);
                if (Layout<F>::minimum) sums[2 * r + n] = fmaf(minimum, n ? first.y : first.x, sums[2 * r + n]);
            }
        }
    }
}

// `place` says where tile i of this block lies; `prepare` fills the rows, of a phase, while the first units are under way;
// `finish(i, row of the tile, row, sum, scale)` is called by sixteen threads a row of each team, for which `scale_of(i, row of the tile)`
// was asked for while the tile was still being multiplied.
template <int F, typename T, u32 R, bool PHASED, typename Place, typename Prepare, typename Scale, typename Finish>
__device__ __forceinline__ void multiply_tiles(u32 tiles, const Phases<PHASED> &phases, const Rows<F, T, R> &rows, Place place, Prepare prepare, Scale scale_of, Finish finish) {
    constexpr u32 D = Ring<F, R>::depth, N = Ring<F, R>::together, BYTES = Slot<F>::bytes, RING = D * N * BYTES, STEP = WARPS / 4 * Slot<F>::four;
    constexpr u32 UNIT_EXCESS = 64 / Rows<F, T, R>::BLOCK * Rows<F, T, R>::EACH;
    const Team<R> team;
    u32 thread = Team<R>::thread(), lane = thread % 32, warp = thread / 32;
    // Units of each tile that are this warp's, eight apart, and where its first one lies.
    auto mine_of = [&](u32 phase) {
        u32 units = phases.of(phase);
        return units > warp ? (units - warp + WARPS - 1) / WARPS : 0;
    };
    u32 mine = mine_of(0), head_to_unit = Layout<F>::head + warp % 4 * Layout<F>::unit;
    u32 skip = warp / 4 * Slot<F>::four + head_to_unit + lane * 16;
    const Copy<F, N, R == 1> copy(head_to_unit, lane, STEP);
    u8 *ring = rows.rings + (team.index * WARPS + warp) * RING;
    u32 ring_at = (u32)__cvta_generic_to_shared(ring) + lane * 16, to = 0, left = tiles ? mine : 0, fetched_tile = 0, fetched_phase = 0;
    const u8 *source = left ? place(0) + skip : nullptr;
    auto fetch = [&]() {
        copy(ring_at + to, source, STEP, left);
        source += N * STEP;
        to = to == RING - N * BYTES ? 0 : to + N * BYTES;
        left = left > N ? left - N : 0;
        if constexpr (!PHASED) {
            if (left == 0 && fetched_tile < tiles && ++fetched_tile < tiles) source = place(fetched_tile) + skip, left = mine;
        } else if (left == 0 && tiles && fetched_phase < phases.count) {
            if (++fetched_tile == tiles) fetched_tile = 0, ++fetched_phase;
            left = fetched_phase < phases.count ? mine_of(fetched_phase) : 0;
            if (left) source = place(fetched_tile) + skip + fetched_phase * (phases.units / 4 * Slot<F>::four);
        }
        // A group each time, also where there is nothing left: so that the oldest is always as far behind.
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
#pragma unroll 1
    for (u32 d = 0; d < D - 1; ++d) fetch();
    prepare(0);
    const T *row = rows.of(lane) + warp * 64;
    const auto *excess = rows.excess + warp * UNIT_EXCESS + (R == 1 ? 0 : lane % 4);
    bool finishes = thread < 16 * rows.rows;
    u32 from = 0;
    // (tiles of a team, THREADS), behind the rings: what was summed in earlier phases.
    float4 *summed = reinterpret_cast<float4 *>(rows.rings + team.teams * WARPS * RING) + team.index * THREADS + thread;
    for (u32 phase = 0; phase < phases.count; ++phase) {
        if (phase > 0) prepare(phase), mine = mine_of(phase);
        bool last = !PHASED || phase + 1 == phases.count;
        for (u32 i = 0; i < tiles; ++i) {
            float sums[4] = {}, scale = last && finishes ? scale_of(i, thread % 16) : 1.0f;
            if (PHASED && phase > 0) {
                float4 before = summed[i * team.teams * THREADS];
                sums[0] = before.x, sums[1] = before.y, sums[2] = before.z, sums[3] = before.w;
            }
            const T *x = row;
            const auto *e = excess;
#pragma unroll 1
            for (u32 k = 0; k < mine; k += N) {
                Columns<F, T, R> by, by_next;
                auto read_by = [&]() { by.read(x, e); };
                auto read_next = [&]() { by_next.read(x + WARPS * 64, e + WARPS * UNIT_EXCESS); };
                if (by.early) {
                    read_by();
                    if (N == 2) read_next();
                }
                asm volatile("cp.async.wait_group %0;" ::"n"(D - 2) : "memory");
                __syncwarp();
                Unit<F> first(ring + from, lane), second(ring + from + (N - 1) * BYTES, lane);
                from = from == RING - N * BYTES ? 0 : from + N * BYTES;
                // Into the place of what came before, which all lanes have read.
                fetch();
                if (!by.early) read_by();
                multiply<F, T, R>(first, by, sums);
                if (N == 2 && k + 1 < mine) {
                    if (!by.early) read_next();
                    multiply<F, T, R>(second, by_next, sums);
                }
                x += N * WARPS * 64, e += N * WARPS * UNIT_EXCESS;
            }
            if (!last) {
                summed[i * team.teams * THREADS] = make_float4(sums[0], sums[1], sums[2], sums[3]);
                continue;
            }
            float *parts = rows.parts + (R == 1 ? i % 2 * (WARPS * R * 16) : team.index * Rows<F, T, R>::PARTS);
            if (R == 1) {
                if (lane % 4 == 0) parts[warp * 16 + lane / 4] = sums[0], parts[warp * 16 + lane / 4 + 8] = sums[2];
            } else {
                // What was there has been summed.
                if (i > 0) team.wait();
                float *to = parts + (warp * R + lane % 4 * 2) * 16 + lane / 4;
                to[0] = sums[0], to[16] = sums[1], to[8] = sums[2], to[24] = sums[3];
            }
            team.wait();
            if (finishes) {
                float sum = 0.0f;
#pragma unroll
                for (u32 from = 0; from < WARPS; ++from) sum += parts[from * R * 16 + thread];
                finish(i, thread % 16, thread / 16, sum, scale);
            }
        }
    }
}

extern __shared__ __align__(16) u8 shared[];

template <int F, typename T, u32 R, bool PHASED> __device__ __forceinline__ void step_product(const StepArgs &a) {
    Stopwatch stopwatch(a.stamp, LATER);
    const Phases<PHASED> phases(a.phases, a.weight0.columns);
    Rows<F, T, R> rows(shared, PHASED ? phases.units * 64 : a.stride, a.rows);
    u32 tiles0 = (a.weight0.rows + 15) / 16, tiles1 = (a.weight1.rows + 15) / 16, tiles2 = (a.weight2.rows + 15) / 16;
    bool gated = a.outcome == GATED;
    // Each team takes tiles as far apart as there are teams; of gate and up those at the same place, one after the other.
    const Team<R> team;
    u32 all = gated ? tiles0 : tiles0 + tiles1 + tiles2, mine = all > team.first() ? (all - team.first() + team.apart() - 1) / team.apart() : 0;
    auto of = [&](u32 i, u32 &tile) -> u32 {
        tile = team.first() + (gated ? i / 2 : i) * team.apart();
        if (gated) return i % 2;
        if (tile < tiles0) return 0;
        tile -= tiles0;
        if (tile < tiles1) return 1;
        tile -= tiles1;
        return 2;
    };
    auto place = [&](u32 i) {
        u32 tile, matrix = of(i, tile);
        u64 data = matrix == 0 ? a.weight0.data : matrix == 1 ? a.weight1.data : a.weight2.data;
        return at<const u8>(data + tile * tile_bytes<F>(a.weight0.columns));
    };
    // Eight columns a lane, slices of 256 a warp, as many at once as registers allow: whatever is waited for is waited for once. Of several
    // rows, of which there is a power of two, a warp has slices of one.
    constexpr u32 KEPT = 2, COPIED = R == 1 ? 3 : 6, SLICE = 8 * 32;
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = R == 1 ? WARPS : blockDim.x / 32;
    // Made anew where it is needed, which leaves the loop its registers.
    auto slices_of = [&]() { return (a.stride + SLICE - 1) / SLICE; };
    auto copy = [&](u32 phase) {
        const u32 log = R == 1 ? 0 : 31 - __clz(rows.rows), row = R == 1 ? 0 : warp & (rows.rows - 1), apart = (warps >> log) * SLICE;
        const u32 columns = PHASED ? phases.of(phase) * 64 : a.stride;
        u32 column = (warp >> log) * SLICE + 8 * lane;
        const T *input = at<const T>(a.input) + row * a.stride + phase * phases.units * 64 + column;
        if (phase == 0) stopwatch.our_turn();
        // What is there has been multiplied.
        else __syncthreads();
#pragma unroll 1
        for (; column - 8 * lane < columns; column += COPIED * apart, input += COPIED * apart) {
            uint4 bits[COPIED];
#pragma unroll
            for (u32 c = 0; c < COPIED; ++c) {
                if (column + c * apart < columns) bits[c] = *reinterpret_cast<const uint4 *>(input + c * apart);
            }
#pragma unroll
            for (u32 c = 0; c < COPIED; ++c)
                if (R > 1 || column - 8 * lane + c * apart < columns) rows.put(row, column - 8 * lane + c * apart, bits[c], columns, lane);
        }
    };
    const float *weight = at<const float>(a.norm);
    auto read = [&](const float *from, u32 column, float(&eight)[8]) {
        if (a.hidden % 4 == 0 && column + 8 <= a.hidden) {
            float4 low = *reinterpret_cast<const float4 *>(from + column), high = *reinterpret_cast<const float4 *>(from + column + 4);
            eight[0] = low.x, eight[1] = low.y, eight[2] = low.z, eight[3] = low.w, eight[4] = high.x, eight[5] = high.y, eight[6] = high.z, eight[7] = high.w;
            return;
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) eight[i] = column + i < a.hidden ? from[column + i] : 0.0f;
    };
    auto square = [&](const float(&eight)[8]) {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < 8; ++i) sum = fmaf(eight[i], eight[i], sum);
        return warp_sum(sum);
    };
    auto put = [&](u32 row, u32 slice, float scale, const float(&eight)[8], const float(&by)[8]) {
        uint4 bits;
        u32 *pairs = &bits.x;
#pragma unroll
        for (int i = 0; i < 4; ++i) pairs[i] = Mma<T>::pack(eight[2 * i] * scale * by[2 * i], eight[2 * i + 1] * scale * by[2 * i + 1]);
        rows.put(row, slice * SLICE, bits, a.stride, lane);
    };
    // What a row is multiplied by: of its slices' sums, in their order.
    auto scale_by = [&](u32 row) {
        float sum = 0.0f;
#pragma unroll 1
        for (u32 first = 0; first < slices_of(); first += 8)
#pragma unroll
            for (u32 i = 0; i < 8; ++i) sum += first + i < slices_of() ? rows.parts[(first + i) * R + row] : 0.0f;
        return 1.0f / sqrtf(sum / (float)a.hidden + a.epsilon);
    };
    // One row.
    auto normalize = [&]() {
        float kept[KEPT][8], weights[KEPT][8];
        auto place = [&](u32 slice) { return slice * SLICE + 8 * lane; };
#pragma unroll
        for (u32 c = 0; c < KEPT; ++c) read(weight, place(warp + c * WARPS), weights[c]);
        stopwatch.our_turn();
        // Of a prompt's rows the last real one.
        const float *x = at<const float>(a.x) + (a.count ? (u64)a.hidden * (*at<const u32>(a.count) - 1) : 0);
#pragma unroll
        for (u32 c = 0; c < KEPT; ++c) read(x, place(warp + c * WARPS), kept[c]);
#pragma unroll
        for (u32 c = 0; c < KEPT; ++c) {
            float sum = square(kept[c]);
            if (lane == 0) rows.parts[warp + c * WARPS] = sum;
        }
        for (u32 slice = warp + KEPT * WARPS; slice < slices_of(); slice += WARPS) {
            float eight[8];
            read(x, place(slice), eight);
            float sum = square(eight);
            if (lane == 0) rows.parts[slice] = sum;
        }
        __syncthreads();
        float scale = scale_by(0);
#pragma unroll
        for (u32 c = 0; c < KEPT; ++c)
            if (warp + c * WARPS < slices_of()) put(0, warp + c * WARPS, scale, kept[c], weights[c]);
        for (u32 slice = warp + KEPT * WARPS; slice < slices_of(); slice += WARPS) {
            float eight[8], by[8];
            read(x, place(slice), eight);
            read(weight, place(slice), by);
            put(0, slice, scale, eight, by);
        }
    };
    // Several, four at once, which are multiplied by what is read once. A warp keeps what it has read last.
    auto normalize_all = [&]() {
        constexpr u32 AT_ONCE = 4;
        const u32 log = rows.rows > AT_ONCE ? 1 : 0, all = slices_of() << log;
        u32 last = warp;
        while (last + warps < all) last += warps;
        float kept[AT_ONCE][8], by[8];
        auto column_of = [&](u32 item) { return item < all ? (item >> log) * SLICE + 8 * lane : a.hidden; };
        auto read_rows = [&](u32 item) {
            u32 row = (item & log) * AT_ONCE;
            const float *x = at<const float>(a.x) + (u64)a.hidden * row;
#pragma unroll
            for (u32 r = 0; r < AT_ONCE; ++r) read(x + r * a.hidden, row + r < rows.rows ? column_of(item) : a.hidden, kept[r]);
        };
        read(weight, column_of(last), by);
        stopwatch.our_turn();
#pragma unroll 1
        for (u32 item = warp; item < all; item += warps) {
            read_rows(item);
            float sums[AT_ONCE];
#pragma unroll
            for (u32 r = 0; r < AT_ONCE; ++r) sums[r] = square(kept[r]);
            float sum = lane == 0 ? sums[0] : lane == 1 ? sums[1] : lane == 2 ? sums[2] : sums[3];
            if (lane < AT_ONCE) rows.parts[(item >> log) * R + (item & log) * AT_ONCE + lane] = sum;
        }
        __syncthreads();
#pragma unroll 1
        for (u32 item = last; item < all; item -= warps) {
            u32 row = (item & log) * AT_ONCE;
            if (item != last) read(weight, column_of(item), by), read_rows(item);
            float scale = scale_by(row + lane % AT_ONCE);
#pragma unroll
            for (u32 r = 0; r < AT_ONCE; ++r) {
                float of_row = __shfl_sync(0xffffffffu, scale, r);
                if (row + r < rows.rows) put(row + r, item >> log, of_row, kept[r], by);
            }
        }
    };
    auto prepare = [&](u32 phase) {
        if (a.input) {
            copy(phase);
        } else if constexpr (R == 1) {
            normalize();
        } else if constexpr (!PHASED) {
            normalize_all();
        }
        __syncthreads();
        if constexpr (R > 1 && Layout<F>::scaled) {
            rows.sum_blocks(warp, warps, (PHASED ? phases.of(phase) * 64 : a.stride) / 64, lane);
            __syncthreads();
        }
    };
    auto scale_of = [&](u32 i, u32 within) {
        if (F != SCALED_F16) return 1.0f;
        u32 tile, matrix = of(i, tile);
        return row_scale<F>(matrix == 0 ? a.weight0 : matrix == 1 ? a.weight1 : a.weight2, 16 * tile + within);
    };
    float gate = 0.0f;
    auto finish = [&](u32 i, u32 within, u32 row, float sum, float scale) {
        u32 tile, matrix = of(i, tile), output = 16 * tile + within;
        const Tiles &w = matrix == 0 ? a.weight0 : matrix == 1 ? a.weight1 : a.weight2;
        if (output >= w.rows) return;
        u64 to = (u64)row * (a.out_stride ? a.out_stride : w.rows) + output;
        float value = sum * scale;
        if (gated) {
            if (matrix == 0) gate = value / (1.0f + expf(-value));
            else at<T>(a.out0)[to] = round_to<T>(gate * value);
            return;
        }
        const float *bias = at<const float>(matrix == 0 ? a.bias0 : matrix == 1 ? a.bias1 : a.bias2);
        float *out = at<float>(matrix == 0 ? a.out0 : matrix == 1 ? a.out1 : a.out2);
        if (bias) value += bias[output];
        if (a.outcome == SILU) value /= 1.0f + expf(-value);
        if (a.outcome == MULTIPLIED) at<T>(a.out0)[to] = round_to<T>(at<const float>(a.out1)[to] * value);
        // Nobody else adds to it, and nothing waits for the sum.
        else if (a.outcome == ADDED) atomicAdd(out + to, value);
        else out[to] = value;
    };
    // A team without tiles prepares rows for the others.
    if (R > 1 || mine) multiply_tiles<F, T, R, PHASED>(gated ? 2 * mine : mine, phases, rows, place, prepare, scale_of, finish);
}

#define STEP_KERNEL(FORMAT, NAME, R, PHASED, SUFFIX, T, OF, BLOCK, BLOCKS) \
    extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS) step_##OF##_##NAME##_x##R##SUFFIX(const __grid_constant__ StepArgs a) { step_product<FORMAT, T, R, PHASED>(a); }
#define STEP_KERNELS_OF(FORMAT, NAME, T, OF) \
    STEP_KERNEL(FORMAT, NAME, 1, false, , T, OF, THREADS, 2) \
    STEP_KERNEL(FORMAT, NAME, 8, false, , T, OF, TEAMS * THREADS, 1) \
    STEP_KERNEL(FORMAT, NAME, 8, true, _phased, T, OF, PHASED_TEAMS * THREADS, 1)
#define STEP_KERNELS(FORMAT, NAME) STEP_KERNELS_OF(FORMAT, NAME, half, f16) STEP_KERNELS_OF(FORMAT, NAME, __nv_bfloat16, bf16)
