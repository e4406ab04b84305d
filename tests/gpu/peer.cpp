// Measures llama.cpp by its own C API: prompts of several lengths from an empty cache, then greedy steps after each.
// Flash attention and CUDA graphs have that release's defaults, and batches its default maximum.
//
// usage: peer MODEL PROMPT,... GENERATE REPETITIONS [ROWS,...]
// Prints a line of JSON for each length: the best of its repetitions, in tokens per second. Then it prints one for each number
// of conversations that step together after their own prompts of ROW_PROMPT tokens, like its server with that many slots.
//
// Built against llama.cpp's `llama.h` and its libraries llama, ggml and ggml-base, with -std=c++17.

#include "llama.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int BATCH = 2048, ROW_PROMPT = 512;

double since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

[[noreturn]] void fail(const char *what) {
    std::fprintf(stderr, "peer: %s\n", what);
    std::exit(1);
}

void run(llama_context *context, llama_token *tokens, int count) {
    for (int at = 0; at < count; at += BATCH) {
        const int part = std::min(BATCH, count - at);
        if (llama_decode(context, llama_batch_get_one(tokens + at, part)) != 0)
            fail("llama_decode refuses");
    }
}

struct Speeds {
    double prompt = 0, decode = 0;
};

Speeds measure(llama_context *context, llama_sampler *greedy, std::vector<llama_token> prompt, int generate) {
    llama_memory_clear(llama_get_memory(context), true);
    auto begin = std::chrono::steady_clock::now();
    run(context, prompt.data(), static_cast<int>(prompt.size()));
    // The first token belongs to the prefill, as in ganglionctl bench.
    llama_token token = llama_sampler_sample(greedy, context, -1);
    const double reading = since(begin);
    begin = std::chrono::steady_clock::now();
    for (int step = 0; step < generate; step++) {
        run(context, &token, 1);
        token = llama_sampler_sample(greedy, context, -1);
    }
    return {static_cast<double>(prompt.size()) / reading, generate / since(begin)};
}

llama_token begins_with(int conversation, int i, int vocabulary) {
    return static_cast<llama_token>((i * 7919L + 13 + conversation * 104729L) % vocabulary);
}

// Returns milliseconds per step of that many conversations, each with its own sequence.
double step_of(llama_context *context, llama_sampler *greedy, int rows, int generate, int vocabulary) {
    llama_memory_clear(llama_get_memory(context), true);
    llama_batch batch = llama_batch_init(ROW_PROMPT, 0, 1);
    auto put = [&](int conversation, int position, llama_token token, bool last) {
        const int at = batch.n_tokens++;
        batch.token[at] = token, batch.pos[at] = position, batch.logits[at] = last;
        batch.n_seq_id[at] = 1, batch.seq_id[at][0] = conversation;
    };
    std::vector<llama_token> next(rows);
    for (int row = 0; row < rows; row++) {
        batch.n_tokens = 0;
        for (int i = 0; i < ROW_PROMPT; i++) put(row, i, begins_with(row, i, vocabulary), i + 1 == ROW_PROMPT);
        if (llama_decode(context, batch) != 0) fail("llama_decode refuses a prompt");
        next[row] = llama_sampler_sample(greedy, context, -1);
    }
    const auto begin = std::chrono::steady_clock::now();
    for (int step = 0; step < generate; step++) {
        batch.n_tokens = 0;
        for (int row = 0; row < rows; row++) put(row, ROW_PROMPT + step, next[row], true);
        if (llama_decode(context, batch) != 0) fail("llama_decode refuses a step");
        for (int row = 0; row < rows; row++) next[row] = llama_sampler_sample(greedy, context, row);
    }
    const double milliseconds = 1e3 * since(begin) / generate;
    llama_batch_free(batch);
    return milliseconds;
}

std::vector<int> numbers(const char *text) {
    std::vector<int> all;
    std::istringstream list(text);
    for (std::string number; std::getline(list, number, ',');) all.push_back(std::atoi(number.c_str()));
    return all;
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 5 && argc != 6) {
        std::fprintf(stderr, "usage: peer MODEL PROMPT,... GENERATE REPETITIONS [ROWS,...]\n");
        return 64;
    }
    const std::vector<int> lengths = numbers(argv[2]), rows = argc > 5 ? numbers(argv[5]) : std::vector<int>();
    const int generate = std::atoi(argv[3]), repetitions = std::atoi(argv[4]);
    if (lengths.empty() || *std::min_element(lengths.begin(), lengths.end()) < 1 || generate < 1 || repetitions < 1)
        fail("lengths, tokens and repetitions are numbers from 1 on");

    llama_log_set(
        [](ggml_log_level level, const char *text, void *) {
            if (level >= GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
        },
        nullptr);
    llama_backend_init();
    auto of_model = llama_model_default_params();
    of_model.n_gpu_layers = 999;
    llama_model *model = llama_model_load_from_file(argv[1], of_model);
    if (!model) fail("the model cannot be loaded");
    auto of_context = llama_context_default_params();
    of_context.n_ctx = *std::max_element(lengths.begin(), lengths.end()) + generate + 8;
    of_context.n_batch = BATCH;
    of_context.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    // As many as ganglionctl bench uses; the default is four on any machine.
    of_context.n_threads = of_context.n_threads_batch = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    llama_context *context = llama_init_from_model(model, of_context);
    if (!context) fail("there is no room for the context");
    llama_sampler *greedy = llama_sampler_init_greedy();
    const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));

    for (const int length : lengths) {
        std::vector<llama_token> prompt(length);
        for (int i = 0; i < length; i++) prompt[i] = static_cast<int>((i * 7919L + 13) % vocabulary);
        Speeds best;
        // The first run warms up.
        for (int repetition = 0; repetition <= repetitions; repetition++) {
            const Speeds speeds = measure(context, greedy, prompt, repetition ? generate : std::min(generate, 8));
            if (!repetition) continue;
            best.prompt = std::max(best.prompt, speeds.prompt);
            best.decode = std::max(best.decode, speeds.decode);
        }
        std::printf("{\"prompt\": %d, \"prefill_tokens_per_second\": %.1f, \"decode_tokens_per_second\": %.2f}\n", length,
                    best.prompt, best.decode);
        std::fflush(stdout);
    }
    llama_free(context);
    if (!rows.empty()) {
        const int most = *std::max_element(rows.begin(), rows.end());
        of_context.n_seq_max = most;
        of_context.n_ctx = most * (ROW_PROMPT + 2 * generate + 8);
        if (!(context = llama_init_from_model(model, of_context))) fail("there is no room for that many conversations");
        for (const int together : rows) {
            step_of(context, greedy, together, 8, vocabulary);
            double best = step_of(context, greedy, together, generate, vocabulary);
            for (int repetition = 1; repetition < repetitions; repetition++)
                best = std::min(best, step_of(context, greedy, together, generate, vocabulary));
            std::printf("{\"rows\": %d, \"step_milliseconds\": %.3f, \"tokens_per_second\": %.1f}\n", together, best, 1e3 * together / best);
            std::fflush(stdout);
        }
        llama_free(context);
    }
    llama_sampler_free(greedy);
    llama_model_free(model);
    llama_backend_free();
}
