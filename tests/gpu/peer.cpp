// The peer's speeds, by llama.cpp's own C API: prompts of several lengths from an empty cache, then greedy steps after each.
// Flash attention and CUDA graphs as that release sets them; the largest batches that it takes by default.
//
// usage: peer MODEL PROMPT,... GENERATE REPETITIONS
// Prints a line of JSON for each length: the best of its repetitions, in tokens per second.
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

constexpr int BATCH = 2048;

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
    // Its first token is part of reading the prompt, as it is of ours.
    llama_token token = llama_sampler_sample(greedy, context, -1);
    const double reading = since(begin);
    begin = std::chrono::steady_clock::now();
    for (int step = 0; step < generate; step++) {
        run(context, &token, 1);
        token = llama_sampler_sample(greedy, context, -1);
    }
    return {static_cast<double>(prompt.size()) / reading, generate / since(begin)};
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 5) {
        std::fprintf(stderr, "usage: peer MODEL PROMPT,... GENERATE REPETITIONS\n");
        return 64;
    }
    std::vector<int> lengths;
    std::istringstream list(argv[2]);
    for (std::string length; std::getline(list, length, ',');) lengths.push_back(std::atoi(length.c_str()));
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
    // As many as we take: by default it takes four, wherever it is.
    of_context.n_threads = of_context.n_threads_batch = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    llama_context *context = llama_init_from_model(model, of_context);
    if (!context) fail("there is no room for the context");
    llama_sampler *greedy = llama_sampler_init_greedy();
    const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));

    for (const int length : lengths) {
        std::vector<llama_token> prompt(length);
        for (int i = 0; i < length; i++) prompt[i] = static_cast<int>((i * 7919L + 13) % vocabulary);
        Speeds best;
        // The first one warms up.
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
    llama_sampler_free(greedy);
    llama_free(context);
    llama_model_free(model);
    llama_backend_free();
}
